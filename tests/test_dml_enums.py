"""Enumerations against the numbers of directml.h, written out here."""

from __future__ import annotations

import numpy as np
import pytest

from cudml import dml
from cudml.dml import AxisDirection, FeatureLevel, OperatorType, TensorDataType, TensorFlags

HEADER = {
    TensorDataType: {
        "UNKNOWN": 0,
        "FLOAT32": 1,
        "FLOAT16": 2,
        "UINT32": 3,
        "UINT16": 4,
        "UINT8": 5,
        "INT32": 6,
        "INT16": 7,
        "INT8": 8,
        "FLOAT64": 9,
        "UINT64": 10,
        "INT64": 11,
        "UINT4": 12,
        "INT4": 13,
    },
    TensorFlags: {"NONE": 0x0, "OWNED_BY_DML": 0x1},
    AxisDirection: {"INCREASING": 0, "DECREASING": 1},
    FeatureLevel: {
        "FL_1_0": 0x1000,
        "FL_2_0": 0x2000,
        "FL_2_1": 0x2100,
        "FL_3_0": 0x3000,
        "FL_3_1": 0x3100,
        "FL_4_0": 0x4000,
        "FL_4_1": 0x4100,
        "FL_5_0": 0x5000,
        "FL_5_1": 0x5100,
        "FL_5_2": 0x5200,
        "FL_6_0": 0x6000,
        "FL_6_1": 0x6100,
        "FL_6_2": 0x6200,
        "FL_6_3": 0x6300,
        "FL_6_4": 0x6400,
    },
    OperatorType: {
        "ACTIVATION_ELU": 35,
        "ACTIVATION_HARD_SIGMOID": 37,
        "ACTIVATION_IDENTITY": 38,
        "ACTIVATION_LEAKY_RELU": 39,
        "ACTIVATION_LINEAR": 40,
        "ACTIVATION_PARAMETRIC_SOFTPLUS": 43,
        "ACTIVATION_RELU": 44,
        "ACTIVATION_SCALED_ELU": 45,
        "ACTIVATION_SCALED_TANH": 46,
        "ACTIVATION_SIGMOID": 47,
        "ACTIVATION_SOFTPLUS": 49,
        "ACTIVATION_SOFTSIGN": 50,
        "ACTIVATION_TANH": 51,
        "ACTIVATION_THRESHOLDED_RELU": 52,
        "MEAN_VARIANCE_NORMALIZATION": 73,
        "ACTIVATION_SHRINK": 90,
        "ELEMENT_WISE_MODULUS_TRUNCATE": 101,
        "CUMULATIVE_SUMMATION": 105,
        "MEAN_VARIANCE_NORMALIZATION1": 115,
        "ACTIVATION_CELU": 128,
        "CUMULATIVE_PRODUCT": 145,
        "ACTIVATION_GELU": 157,
    },
}

BITS = {
    "UNKNOWN": 0,
    "FLOAT32": 32,
    "FLOAT16": 16,
    "UINT32": 32,
    "UINT16": 16,
    "UINT8": 8,
    "INT32": 32,
    "INT16": 16,
    "INT8": 8,
    "FLOAT64": 64,
    "UINT64": 64,
    "INT64": 64,
    "UINT4": 4,
    "INT4": 4,
}


@pytest.mark.parametrize("enum", HEADER, ids=lambda enum: enum.__name__)
def test_members_are_the_headers(enum):
    assert {name: int(member) for name, member in enum.__members__.items()} == HEADER[enum]


def test_constants_are_the_headers():
    assert (dml.TENSOR_DIMENSION_COUNT_MAX, dml.TENSOR_DIMENSION_COUNT_MAX1) == (5, 8)


def test_latest_feature_level_is_the_highest():
    assert dml.LATEST_FEATURE_LEVEL is FeatureLevel.FL_6_4


def test_feature_levels_have_labels():
    assert [level.label for level in (FeatureLevel.FL_1_0, FeatureLevel.FL_5_2)] == ["1_0", "5_2"]


@pytest.mark.parametrize("name", BITS)
def test_bits(name):
    assert TensorDataType[name].bits == BITS[name]


@pytest.mark.parametrize("name", [name for name, bits in BITS.items() if bits >= 8])
def test_dtype_has_the_types_name_and_size(name):
    data_type = TensorDataType[name]
    assert data_type.dtype == np.dtype(getattr(np, name.lower()))
    assert data_type.dtype.itemsize * 8 == data_type.bits
    assert TensorDataType.from_dtype(data_type.dtype) is data_type


@pytest.mark.parametrize("name", ["UNKNOWN", "UINT4", "INT4"])
def test_types_without_a_numpy_dtype(name):
    with pytest.raises(TypeError, match=name):
        _ = TensorDataType[name].dtype


@pytest.mark.parametrize("dtype", [np.bool_, np.complex64, "U3", "datetime64[s]"])
def test_dtypes_that_directml_lacks(dtype):
    with pytest.raises(TypeError, match="DirectML has no tensor data type"):
        TensorDataType.from_dtype(dtype)


def test_everything_exported_exists():
    assert all(hasattr(dml, name) for name in dml.__all__)
