"""Every operator, feature level, data type and dimension count against tables transcribed from DirectML's pages.

Nothing here comes from the package's own tables.
"""

from __future__ import annotations

from itertools import product

import pytest

from cudml import dml
from cudml.dml import BufferTensorDesc, DescriptorError, FeatureLevel, TensorDataType, validate
from cudml.dml.support import FUSED_ACTIVATIONS, IN_PLACE, INTRODUCTIONS, TABLES

SCAN_2_1 = {"FLOAT32", "FLOAT16", "INT32", "UINT32", "UINT16"}  # UINT16: the older revisions, see docs/descriptors.md
SCAN_5_0 = SCAN_2_1 | {"INT64", "UINT64"}
FLOATS = {"FLOAT32", "FLOAT16"}
MODULUS_2_1 = {"FLOAT32", "FLOAT16", "INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"}
MODULUS_6_0 = MODULUS_2_1 | {"INT64", "UINT64"}

# For each operator, oldest first: (from this level on, dimension counts, data types)
PAGES = {
    "CumulativeSummation": [
        (0x2100, [4], SCAN_2_1),
        (0x4000, [1, 2, 3, 4, 5, 6, 7, 8], SCAN_2_1),
        (0x5000, [1, 2, 3, 4, 5, 6, 7, 8], SCAN_5_0),
    ],
    "CumulativeProduct": [
        (0x3100, [4], SCAN_2_1),
        (0x4000, [1, 2, 3, 4, 5, 6, 7, 8], SCAN_2_1),
        (0x5000, [1, 2, 3, 4, 5, 6, 7, 8], SCAN_5_0),
    ],
    "MeanVarianceNormalization": [
        (0x1000, [4], FLOATS),
    ],
    "MeanVarianceNormalization1": [
        (0x2100, [4], FLOATS),
        (0x3100, [1, 2, 3, 4, 5, 6, 7, 8], FLOATS),
    ],
    "ElementWiseModulusTruncate": [
        (0x2100, [4], MODULUS_2_1),
        (0x3000, [1, 2, 3, 4, 5, 6, 7, 8], MODULUS_2_1),
        (0x6000, [1, 2, 3, 4, 5, 6, 7, 8], MODULUS_6_0),
    ],
}

ACTIVATIONS_SINCE = {
    "Elu": 0x1000,
    "HardSigmoid": 0x1000,
    "Identity": 0x1000,
    "LeakyRelu": 0x1000,
    "Linear": 0x1000,
    "ParametricSoftplus": 0x1000,
    "Relu": 0x1000,
    "ScaledElu": 0x1000,
    "ScaledTanh": 0x1000,
    "Sigmoid": 0x1000,
    "Softplus": 0x1000,
    "Softsign": 0x1000,
    "Tanh": 0x1000,
    "ThresholdedRelu": 0x1000,
    "Shrink": 0x2000,
    "Celu": 0x3000,
    "Gelu": 0x5100,
}

TENSORS = {
    "CumulativeSummation": ["input_tensor", "output_tensor"],
    "CumulativeProduct": ["input_tensor", "output_tensor"],
    "MeanVarianceNormalization": ["input_tensor", "scale_tensor", "bias_tensor", "output_tensor"],
    "MeanVarianceNormalization1": ["input_tensor", "scale_tensor", "bias_tensor", "output_tensor"],
    "ElementWiseModulusTruncate": ["a_tensor", "b_tensor", "output_tensor"],
}
OPTIONS = {
    "CumulativeSummation": {"axis": 0},
    "CumulativeProduct": {"axis": 0},
    "MeanVarianceNormalization": {"cross_channel": True, "normalize_variance": True},
    "MeanVarianceNormalization1": {"axes": [0], "normalize_variance": True},
    "ElementWiseModulusTruncate": {},
}


def build(operator, data_type, sizes):
    tensor = BufferTensorDesc(data_type=data_type, sizes=sizes)
    tensors = dict.fromkeys(TENSORS[operator], tensor)
    return getattr(dml, f"{operator}OperatorDesc")(**tensors, **OPTIONS[operator])


def violated_fields(desc, level):
    try:
        validate(desc, level)
    except DescriptorError as error:
        return {violation.field for violation in error.violations}
    return set()


@pytest.mark.parametrize("level", FeatureLevel, ids=lambda level: level.name)
@pytest.mark.parametrize("operator", PAGES)
def test_every_type_and_dimension_count(operator, level):
    reached = [page for page in PAGES[operator] if page[0] <= level]
    for data_type, dimension_count in product(TensorDataType, range(10)):
        fields = violated_fields(build(operator, data_type, (2,) * dimension_count), level)
        case = f"{data_type.name} with {dimension_count} dimensions"
        if not reached:
            assert "feature_level" in fields, case
            continue
        _, counts, types = reached[-1]
        expected = set()
        if data_type.name not in types:
            expected |= {f"{tensor}.data_type" for tensor in TENSORS[operator]}
        if dimension_count not in counts:
            expected |= {f"{tensor}.sizes" for tensor in TENSORS[operator]}
        if dimension_count == 0 and "axis" in OPTIONS[operator]:
            expected |= {"axis"}
        if dimension_count == 0 and "axes" in OPTIONS[operator]:
            expected |= {"axes"}
        assert fields == expected, case


@pytest.mark.parametrize("operator", PAGES)
def test_feature_levels_are_supersets(operator):
    for data_type, dimension_count in product(TensorDataType, range(10)):
        desc = build(operator, data_type, (2,) * dimension_count)
        accepted = [not violated_fields(desc, level) for level in FeatureLevel]
        assert accepted == sorted(accepted)


@pytest.mark.parametrize("level", FeatureLevel, ids=lambda level: level.name)
@pytest.mark.parametrize("name", ACTIVATIONS_SINCE)
def test_every_activation(name, level):
    parameters = {"alpha": 1.0, "beta": 1.0} if name in ("Linear", "ParametricSoftplus") else {}
    activation = getattr(dml, f"Activation{name}OperatorDesc")(**parameters)
    tensor = BufferTensorDesc(data_type=TensorDataType.FLOAT32, sizes=(1, 2, 3, 4))
    desc = dml.MeanVarianceNormalizationOperatorDesc(
        input_tensor=tensor,
        output_tensor=tensor,
        cross_channel=True,
        normalize_variance=True,
        fused_activation=activation,
    )
    available = level >= ACTIVATIONS_SINCE[name]
    assert violated_fields(desc, level) == (set() if available else {"fused_activation"})
    assert violated_fields(activation, level) == (set() if available else {"feature_level"})


def test_operators_that_work_in_place():
    assert {operator.name for operator in IN_PLACE} == {
        "CUMULATIVE_SUMMATION",
        "CUMULATIVE_PRODUCT",
        "ELEMENT_WISE_MODULUS_TRUNCATE",
    }


def test_every_row_has_a_source():
    tables = [table for rows in TABLES.values() for table in rows]
    assert len(tables) == 12
    assert all("revision 20" in table.source for table in tables)
    assert all("revision 20" in table.disputed_source for table in tables if table.disputed)
    assert all(row.source.startswith("DML_") for row in (*INTRODUCTIONS.values(), *FUSED_ACTIVATIONS.values()))


def test_introductions_are_the_oldest_tables():
    assert {operator: rows[-1].since for operator, rows in TABLES.items()} == {
        operator: row.since for operator, row in INTRODUCTIONS.items()
    }
