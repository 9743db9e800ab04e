"""Construction of descs: defaults, conversions, the size of buffers, and what is no desc at all."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from cudml import dml
from cudml.dml import BufferTensorDesc, TensorDataType, TensorFlags, calc_buffer_tensor_size
from cudml.plan.activation import PARAMETERS, Activation

FLOAT32 = TensorDataType.FLOAT32
TENSOR = BufferTensorDesc(data_type=FLOAT32, sizes=(1, 1, 3, 4))


def summation(**changes):
    return dml.CumulativeSummationOperatorDesc(**{"input_tensor": TENSOR, "output_tensor": TENSOR, "axis": 3} | changes)


def normalization(**changes):
    fields = {"input_tensor": TENSOR, "output_tensor": TENSOR, "axes": (2, 3), "normalize_variance": True}
    return dml.MeanVarianceNormalization1OperatorDesc(**fields | changes)


# Tensors


def test_a_tensor_needs_only_type_and_sizes():
    assert TENSOR.flags is TensorFlags.NONE
    assert TENSOR.strides is None
    assert TENSOR.total_tensor_size_in_bytes == 48
    assert TENSOR.guaranteed_base_offset_alignment == 0
    assert TENSOR.dimension_count == 4
    assert TENSOR.element_strides == (12, 12, 4, 1)


def test_sequences_become_tuples_of_python_integers():
    desc = BufferTensorDesc(data_type=FLOAT32, sizes=np.array([2, 3]), strides=[np.int64(3), 1])
    assert desc == BufferTensorDesc(data_type=FLOAT32, sizes=(2, 3), strides=(3, 1))
    assert {type(item) for item in desc.sizes + desc.strides} == {int}


def test_descs_are_hashable_and_frozen():
    assert len({summation(), summation(), summation(axis=2)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        TENSOR.sizes = (1,)


def test_enum_fields_take_the_numbers_of_the_header():
    desc = BufferTensorDesc(data_type=2, sizes=(3,), flags=1)
    assert (desc.data_type, desc.flags) == (TensorDataType.FLOAT16, TensorFlags.OWNED_BY_DML)


# (type, sizes, strides, bytes), by hand: (index of the last element + 1) * element size, rounded up to 4
BUFFERS = [
    ("FLOAT32", (1, 1, 3, 4), None, 48),
    ("FLOAT16", (3,), None, 8),
    ("FLOAT16", (4,), None, 8),
    ("INT8", (5,), None, 8),
    ("UINT8", (1,), None, 4),
    ("INT64", (3,), None, 24),
    ("UINT4", (9,), None, 8),
    ("INT4", (8,), None, 4),
    ("UNKNOWN", (8,), None, 0),
    ("FLOAT32", (2, 3), (8, 1), 44),  # padded rows: 1 * 8 + 2 * 1 = index 10
    ("FLOAT32", (2, 3), (1, 2), 24),  # transposed
    ("FLOAT32", (2, 3), (0, 1), 12),  # broadcast
    ("FLOAT16", (1, 3), (100, 2), 12),  # the stride of a single row does not count: index 4
    ("UINT8", (2, 0), (1, 1), 0),
    ("UINT8", (65536, 65537), None, 65536 * 65537),  # passes 2**32
    ("FLOAT32", (2, 2), (2**32 - 1, 2**32 - 1), 4 * (2**33 - 1)),  # wraps to 4 in 32 bits
]


@pytest.mark.parametrize(("data_type", "sizes", "strides", "expected"), BUFFERS)
def test_buffer_size(data_type, sizes, strides, expected):
    assert calc_buffer_tensor_size(TensorDataType[data_type], sizes, strides) == expected
    desc = BufferTensorDesc(data_type=TensorDataType[data_type], sizes=sizes, strides=strides)
    assert desc.total_tensor_size_in_bytes == expected


def test_buffer_size_needs_a_stride_per_size():
    with pytest.raises(ValueError, match=r"strides is \(1,\).*2 sizes"):
        calc_buffer_tensor_size(FLOAT32, (2, 3), (1,))


def test_buffer_size_of_numpy_integers_does_not_wrap():
    assert calc_buffer_tensor_size(FLOAT32, np.array([65536, 65537], np.int32)) == 4 * 65536 * 65537
    assert calc_buffer_tensor_size(FLOAT32, np.array([20, 20], np.uint8)) == 1600
    assert calc_buffer_tensor_size(FLOAT32, (65537, 2), np.array([65536, 1], np.int32)) == 4 * (65536**2 + 2)
    assert type(calc_buffer_tensor_size(FLOAT32, np.array([2, 3]))) is int


@pytest.mark.parametrize("arguments", [("FLOAT32", (2, 3)), (FLOAT32, (2.0, 3)), (FLOAT32, (2, 3), (3.0, 1))])
def test_buffer_size_of_the_wrong_type(arguments):
    with pytest.raises(TypeError, match="it must be"):
        calc_buffer_tensor_size(*arguments)


def test_numbers_beyond_floats_are_infinite():
    assert normalization(epsilon=10**400).epsilon == float("inf")
    assert dml.ActivationEluOperatorDesc(alpha=-(10**400)).alpha == float("-inf")


def test_messages_are_brief():
    for field, value in (("sizes", np.full(100000, 0.5)), ("sizes", [None] * 100000), ("data_type", 10**5000)):
        with pytest.raises(TypeError, match=f"^{field} is .*; it must be") as caught:
            BufferTensorDesc(**{"data_type": FLOAT32, "sizes": (1, 2)} | {field: value})
        assert len(str(caught.value)) < 400


def test_an_array_in_place_of_its_shape_is_refused_at_once():
    desc = BufferTensorDesc(data_type=FLOAT32, sizes=np.full(200_000, 2**31))
    assert (desc.dimension_count, desc.total_tensor_size_in_bytes) == (200_000, 0)


# Wrong Python types


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("data_type", "FLOAT32"),
        ("data_type", np.float32),
        ("data_type", 99),
        ("data_type", dml.AxisDirection.DECREASING),
        ("flags", "OWNED_BY_DML"),
        ("flags", None),
        ("sizes", "12"),
        ("sizes", 12),
        ("sizes", (1.0, 2)),
        ("sizes", None),
        ("sizes", {3, 8}),
        ("sizes", {3: 8}),
        ("sizes", b"12"),
        ("strides", "11"),
        ("strides", (1, None)),
        ("total_tensor_size_in_bytes", 48.0),
        ("guaranteed_base_offset_alignment", "16"),
    ],
)
def test_tensor_fields_of_the_wrong_type(field, value):
    with pytest.raises(TypeError, match=f"^{field} is .*; it must be"):
        BufferTensorDesc(**{"data_type": FLOAT32, "sizes": (1, 2), "strides": None} | {field: value})


@pytest.mark.parametrize(
    ("build", "field", "value"),
    [
        (summation, "input_tensor", None),
        (summation, "output_tensor", np.zeros(3)),
        (summation, "axis", 1.0),
        (summation, "axis", None),
        (summation, "axis_direction", "DECREASING"),
        (summation, "axis_direction", True),
        (summation, "has_exclusive_sum", "yes"),
        (summation, "has_exclusive_sum", None),
        (normalization, "scale_tensor", np.ones(3)),
        (normalization, "axes", 2),
        (normalization, "axes", "23"),
        (normalization, "normalize_variance", 1.0),
        (normalization, "epsilon", "1e-5"),
        (normalization, "epsilon", 1j),
        (normalization, "fused_activation", "relu"),
        (normalization, "fused_activation", dml.ActivationReluOperatorDesc),
    ],
)
def test_operator_fields_of_the_wrong_type(build, field, value):
    with pytest.raises(TypeError, match=f"^{field} is .*; it must be"):
        build(**{field: value})


def test_fields_are_given_by_keyword():
    with pytest.raises(TypeError, match="positional"):
        BufferTensorDesc(FLOAT32, (1, 2))
    with pytest.raises(TypeError, match="positional"):
        dml.ActivationEluOperatorDesc(1.0)


# Operators

FIELDS = {
    dml.CumulativeSummationOperatorDesc: "input_tensor output_tensor axis axis_direction has_exclusive_sum",
    dml.CumulativeProductOperatorDesc: "input_tensor output_tensor axis axis_direction has_exclusive_product",
    dml.MeanVarianceNormalizationOperatorDesc: "input_tensor scale_tensor bias_tensor output_tensor cross_channel "
    "normalize_variance epsilon fused_activation",
    dml.MeanVarianceNormalization1OperatorDesc: "input_tensor scale_tensor bias_tensor output_tensor axes "
    "normalize_variance epsilon fused_activation",
    dml.ElementWiseModulusTruncateOperatorDesc: "a_tensor b_tensor output_tensor",
    BufferTensorDesc: "data_type flags sizes strides total_tensor_size_in_bytes guaranteed_base_offset_alignment",
}


@pytest.mark.parametrize("desc", FIELDS, ids=lambda desc: desc.__name__)
def test_fields_are_the_structs_members_in_order(desc):
    assert [field.name for field in dataclasses.fields(desc)] == FIELDS[desc].split()


@pytest.mark.parametrize(("cross_channel", "axes"), [(False, (2, 3)), (True, (1, 2, 3))])
def test_mvn_is_expressed_by_axes(cross_channel, axes):
    shared = {
        "input_tensor": TENSOR,
        "scale_tensor": TENSOR,
        "bias_tensor": TENSOR,
        "output_tensor": TENSOR,
        "normalize_variance": False,
        "epsilon": 0.25,
        "fused_activation": dml.ActivationReluOperatorDesc(),
    }
    v0 = dml.MeanVarianceNormalizationOperatorDesc(cross_channel=cross_channel, **shared)
    assert v0.as_mean_variance_normalization1() == dml.MeanVarianceNormalization1OperatorDesc(axes=axes, **shared)


def test_epsilon_defaults_to_what_directml_recommends():
    assert normalization().epsilon == 0.00001


# Activations

# Parameters in the structs' order with the pages' typical defaults; None where the page names none.
ACTIVATIONS = {
    "Celu": {"alpha": 1.0},
    "Elu": {"alpha": 1.0},
    "Gelu": {},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "Identity": {},
    "LeakyRelu": {"alpha": 0.01},
    "Linear": {"alpha": None, "beta": None},
    "ParametricSoftplus": {"alpha": None, "beta": None},
    "Relu": {},
    "ScaledElu": {"alpha": 1.6732, "gamma": 1.0507},
    "ScaledTanh": {"alpha": 1.0, "beta": 0.5},
    "Shrink": {"bias": 0.0, "threshold": 0.5},
    "Sigmoid": {},
    "Softplus": {"steepness": 1.0},
    "Softsign": {},
    "Tanh": {},
    "ThresholdedRelu": {"alpha": 1.0},
}


def activation_desc(name):
    return getattr(dml, f"Activation{name}OperatorDesc")


def test_there_are_17_activations():
    exported = {name for name in dml.__all__ if name.startswith("Activation")}
    assert exported == {f"Activation{name}OperatorDesc" for name in ACTIVATIONS}
    assert len(exported) == len(PARAMETERS) == 17


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_parameters_stand_in_the_structs_order(name):
    given = {parameter: 2.0 + place for place, parameter in enumerate(ACTIVATIONS[name])}
    desc = activation_desc(name)(**given)
    assert list(desc.parameters.items()) == list(given.items())
    assert desc.activation.parameters == tuple(given.values())
    assert list(PARAMETERS[desc.activation.name]) == list(given)
    assert (desc.input_tensor, desc.output_tensor) == (None, None)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_defaults(name):
    documented = ACTIVATIONS[name]
    if None in documented.values():
        with pytest.raises(TypeError, match="'alpha' and 'beta'"):
            activation_desc(name)()
    else:  # the scaled ELU's page rounds to four digits
        desc = activation_desc(name)()
        assert desc.parameters == pytest.approx(documented, abs=7e-5)
        assert desc.activation == Activation.named(desc.activation.name)


@pytest.mark.parametrize("value", ["1", None, 1j])
def test_activation_parameters_of_the_wrong_type(value):
    with pytest.raises(TypeError, match=r"alpha is .*; it must be a real number"):
        dml.ActivationEluOperatorDesc(alpha=value)


def test_descs_need_no_cupy():
    code = "import sys, cudml.dml; print('cupy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
