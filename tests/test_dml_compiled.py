"""Compiled operators: what is checked at a call, and what a backend is given.

The backend here records the call and copies the first input, so nothing depends on how operators are computed.
"""

from __future__ import annotations

import numpy as np
import pytest

from cudml import backend as backends
from cudml import dml
from cudml.dml import BufferTensorDesc, Device, FeatureLevel, TensorDataType, TensorFlags
from cudml.plan.activation import Activation
from cudml.plan.spec import Modulus, Normalization, Scan

FLOAT32 = np.dtype(np.float32)
POISON = 777.0


class Recorded(np.ndarray):
    """Arrays of the recording backend."""


class Exporter:
    """Another library's array: exports memory and is no array of the backend itself."""

    def __init__(self, array, read_only=False):
        self.array = array
        self.__array_interface__ = array.__array_interface__ | {"data": (array.ctypes.data, read_only)}


class RecordingBackend:
    name = "recording"

    def __init__(self):
        self.calls = []

    def asarray(self, value, like=None):
        return value.array if isinstance(value, Exporter) else value

    def empty(self, shape, dtype, like):
        return np.empty(shape, dtype).view(Recorded)

    def copy(self, array):
        return array.copy()

    def run(self, spec, arrays):
        self.calls.append((spec, dict(arrays)))


@pytest.fixture
def recorded(monkeypatch):
    backend = RecordingBackend()
    monkeypatch.setattr(backends, "_BACKENDS", dict(backends._BACKENDS))
    backends.register(Recorded, backend)
    backends.register(Exporter, backend)
    return backend.calls


def array(shape=(2, 3, 4), dtype=np.float32, fill=POISON):
    return np.full(shape, fill, dtype).view(Recorded)


def tensor(sizes=(2, 3, 4), data_type=TensorDataType.FLOAT32, **options):
    return BufferTensorDesc(data_type=data_type, sizes=sizes, **options)


def compiled(desc):
    return Device().create_operator(desc).compile()


def summation(input_tensor=None, output_tensor=None, **options):
    return compiled(
        dml.CumulativeSummationOperatorDesc(
            input_tensor=input_tensor or tensor(), output_tensor=output_tensor or tensor(), axis=1, **options
        )
    )


def modulus(a_tensor=None, b_tensor=None, output_tensor=None):
    return compiled(
        dml.ElementWiseModulusTruncateOperatorDesc(
            a_tensor=a_tensor or tensor(), b_tensor=b_tensor or tensor(), output_tensor=output_tensor or tensor()
        )
    )


def normalization(**tensors):
    return compiled(
        dml.MeanVarianceNormalization1OperatorDesc(
            input_tensor=tensor(), output_tensor=tensor(), axes=(2, 1), normalize_variance=True, **tensors
        )
    )


# Specs


def lowered(desc):
    return compiled(desc)._spec


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("direction", dml.AxisDirection)
def test_specs_of_scans(direction, exclusive):
    shared = {"input_tensor": tensor(), "output_tensor": tensor(), "axis": 2, "axis_direction": direction}
    reverse = direction.name == "DECREASING"
    desc = dml.CumulativeSummationOperatorDesc(has_exclusive_sum=exclusive, **shared)
    assert lowered(desc) == Scan("sum", FLOAT32, 2, reverse=reverse, exclusive=exclusive)
    desc = dml.CumulativeProductOperatorDesc(has_exclusive_product=exclusive, **shared)
    assert lowered(desc) == Scan("product", FLOAT32, 2, reverse=reverse, exclusive=exclusive)


@pytest.mark.parametrize("name", ["FLOAT16", "FLOAT32", "INT32", "INT64", "UINT16", "UINT32", "UINT64"])
def test_scans_keep_the_type(name):
    described = tensor(data_type=TensorDataType[name])
    assert summation(described, described)._spec.dtype == np.dtype(name.lower())


def test_specs_of_normalizations():
    desc = dml.MeanVarianceNormalization1OperatorDesc(
        input_tensor=tensor(),
        output_tensor=tensor(),
        axes=(2, 0),
        normalize_variance=False,
        epsilon=0.5,
        fused_activation=dml.ActivationShrinkOperatorDesc(bias=1, threshold=2),
    )
    assert lowered(desc) == Normalization((0, 2), False, 0.5, Activation("shrink", (1.0, 2.0)))


@pytest.mark.parametrize(("cross_channel", "axes"), [(False, (2, 3)), (True, (1, 2, 3))])
def test_specs_of_the_older_normalization(cross_channel, axes):
    described = tensor((1, 2, 3, 4))
    desc = dml.MeanVarianceNormalizationOperatorDesc(
        input_tensor=described, output_tensor=described, cross_channel=cross_channel, normalize_variance=True
    )
    assert lowered(desc) == Normalization(axes, True, 1e-5, None)


def test_spec_of_modulus():
    assert modulus()._spec == Modulus(FLOAT32)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (dml.ActivationShrinkOperatorDesc(bias=0, threshold=0.1), [0, 0]),
        (dml.ActivationThresholdedReluOperatorDesc(alpha=0.1), [0, 0]),
        (dml.ActivationLinearOperatorDesc(alpha=1e39, beta=0), [np.inf, -np.inf]),
    ],
)
def test_parameters_of_activations_are_floats(activation, expected):
    """0.1 is less than the nearest float to it, which is no more than itself."""
    tensors = {name: tensor((2,)) for name in ("input_tensor", "output_tensor")}
    operator = compiled(
        dml.MeanVarianceNormalization1OperatorDesc(
            **tensors, axes=(0,), normalize_variance=False, fused_activation=activation
        )
    )
    out = np.empty(2, np.float32)
    operator(np.array([0.1, -0.1], np.float32), None, None, out)
    np.testing.assert_array_equal(out, np.array(expected, np.float32))


def test_a_fused_activation_is_an_activation():
    with pytest.raises(TypeError, match=r"ActivationReluOperatorDesc\(\)"):
        dml.MeanVarianceNormalization1OperatorDesc(
            input_tensor=tensor(),
            output_tensor=tensor(),
            axes=(0,),
            normalize_variance=True,
            fused_activation="relu",
        )


def test_an_activation_is_no_operator_by_itself():
    with pytest.raises(TypeError, match="fused_activation"):
        Device().create_operator(dml.ActivationReluOperatorDesc())


def test_a_device_takes_the_headers_number_of_a_level():
    assert Device(0x5000) == Device(FeatureLevel.FL_5_0)
    assert Device(0x5000).feature_level.label == "5_0"
    with pytest.raises(ValueError, match="feature_level is 'FL_5_0'; it must be a member of FeatureLevel"):
        Device("FL_5_0")


def test_create_operator_validates_at_the_devices_level():
    desc = dml.CumulativeSummationOperatorDesc(input_tensor=tensor(), output_tensor=tensor(), axis=1)
    assert Device(FeatureLevel.FL_4_0).create_operator(desc).desc is desc
    with pytest.raises(dml.DescriptorError, match="feature level 3_1"):
        Device(FeatureLevel.FL_3_1).create_operator(desc)


# What the backend gets


def test_a_scan_gets_its_arrays(recorded):
    x, y = array(), array()
    assert summation()(x, y) is y
    [(spec, arrays)] = recorded
    assert spec.operation == "sum"
    assert arrays.keys() == {"input", "output"}
    assert arrays["input"] is x
    assert arrays["output"] is y


def test_a_modulus_gets_its_arrays(recorded):
    a, b, y = array(), array(), array()
    assert modulus()(a, b, y) is y
    [(_, arrays)] = recorded
    assert [arrays[name] is value for name, value in (("dividend", a), ("divisor", b), ("output", y))] == [True] * 3


@pytest.mark.parametrize("present", [(), ("scale",), ("bias",), ("scale", "bias")])
def test_a_normalization_gets_what_is_present(recorded, present):
    given = {name: array((1, 3, 1)) if name in present else None for name in ("scale", "bias")}
    x, y = array(), array()
    operator = normalization(**{f"{name}_tensor": tensor((1, 3, 1)) for name in present})
    assert operator(x, given["scale"], given["bias"], y) is y
    [(_, arrays)] = recorded
    assert arrays.keys() == {"input", "output", *present}
    assert all(arrays[name] is given[name] for name in present)


def test_operators_can_be_called_again(recorded):
    operator = summation()
    for _ in range(3):
        operator(array(), array())
    assert len(recorded) == 3
    assert len({id(spec) for spec, _ in recorded}) == 1


# Bad calls: nothing reaches the backend


@pytest.mark.parametrize(
    ("operator", "arguments", "error", "words"),
    [
        (summation, [], TypeError, "takes input_tensor, output_tensor, not 0"),
        (summation, [array()], TypeError, "not 1 arrays"),
        (summation, [array()] * 3, TypeError, "not 3 arrays"),
        (normalization, [array(), array()], TypeError, "pass None for absent"),
        (summation, [None, array()], TypeError, "input_tensor is None; it must be an array"),
        (summation, [array(), None], TypeError, "output_tensor is None"),
        (summation, [[[1.0]], array()], TypeError, "it must be an array"),
        (summation, [array(), 3.0], TypeError, "output_tensor is 3.0"),
        (normalization, [array(), array(), None, array()], ValueError, "scale_tensor is absent from the desc"),
        (normalization, [array(), None, array(), array()], ValueError, "bias_tensor is absent from the desc"),
        (summation, [array(dtype=np.float64), array()], TypeError, "input_tensor is an array of float64"),
        (summation, [array(), array(dtype=">f4")], TypeError, "output_tensor is an array of >f4"),
        (summation, [array((2, 3, 5)), array()], ValueError, r"shape \(2, 3, 5\); its desc says \(2, 3, 4\)"),
        (summation, [array(), array((2, 12))], ValueError, r"output_tensor is an array of shape \(2, 12\)"),
        (summation, [array((4, 3, 2)).T, array()], ValueError, r"strides of \(4, 8, 24\) bytes; .* \(48, 16, 4\)"),
        (summation, [array(), array((2, 3, 8))[..., ::2]], ValueError, "output_tensor is an array with strides"),
        (summation, [array()[:, :, ::-1], array()], ValueError, "input_tensor is an array with strides"),
        (summation, [array(), np.broadcast_to(array((1,)), (2, 3, 4), subok=True)], ValueError, "output_tensor"),
    ],
)
def test_bad_calls(recorded, operator, arguments, error, words):
    with pytest.raises(error, match=words):
        operator()(*arguments)
    assert recorded == []


def test_a_missing_optional_tensor(recorded):
    with pytest.raises(TypeError, match="scale_tensor is None; it must be an array"):
        normalization(scale_tensor=tensor())(array(), None, None, array())
    assert recorded == []


def test_backends_must_not_be_mixed(recorded):
    pytest.importorskip("cudml.cpu")
    with pytest.raises(TypeError, match="input_tensor is an array of the recording backend and output_tensor one of"):
        summation()(array(), np.empty((2, 3, 4), np.float32))
    assert recorded == []


def test_read_only_output(recorded):
    output = array()
    output.flags.writeable = False
    with pytest.raises(ValueError, match="output_tensor is read-only"):
        summation()(array(), output)
    assert recorded == []


def test_read_only_input_is_fine(recorded):
    source = array()
    source.flags.writeable = False
    summation()(source, array())
    assert len(recorded) == 1


def test_arrays_of_other_libraries(recorded):
    x, y = array(), Exporter(array())
    assert summation()(Exporter(x, read_only=True), y) is y
    [(_, arrays)] = recorded
    assert arrays["input"] is x
    assert arrays["output"] is y.array
    with pytest.raises(ValueError, match="output_tensor is read-only"):
        summation()(x, Exporter(array(), read_only=True))
    frozen = array()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="output_tensor is read-only"):
        summation()(x, Exporter(frozen))
    flat = array((25,))
    with pytest.raises(ValueError, match="only identical ranges"):
        summation()(Exporter(flat[1:].reshape(2, 3, 4)), Exporter(flat[:-1].reshape(2, 3, 4)))


# Strides


def test_arrays_have_the_strides_of_their_descs(recorded):
    operator = summation(tensor(strides=(1, 2, 6)), tensor(strides=(24, 8, 2)))
    operator(array((4, 3, 2)).T, array((2, 3, 8))[..., ::2])
    with pytest.raises(ValueError, match="input_tensor is an array with strides"):
        operator(array(), array((2, 3, 8))[..., ::2])
    assert len(recorded) == 1


def test_broadcast_views_for_strides_of_0(recorded):
    row = np.broadcast_to(array((4,)), (2, 3, 4), subok=True)
    modulus(b_tensor=tensor(strides=(0, 0, 1)))(array(), row, array())
    with pytest.raises(ValueError, match="b_tensor is an array with strides"):
        modulus()(array(), row, array())
    assert len(recorded) == 1


def test_strides_of_dimensions_of_size_1_do_not_matter(recorded):
    described = tensor((2, 1, 4))
    operator = summation(described, described)
    column = np.lib.stride_tricks.as_strided(array((8,)), (2, 1, 4), (16, 4000, 4), subok=True)
    operator(column, array((2, 1, 4)))
    assert len(recorded) == 1


# Alignment


def test_guaranteed_alignment(recorded):
    buffer = np.empty(4096, np.uint8)
    start = -buffer.ctypes.data % 256
    aligned = buffer[start : start + 96].view(np.float32).reshape(2, 3, 4).view(Recorded)
    shifted = buffer[start + 16 : start + 112].view(np.float32).reshape(2, 3, 4).view(Recorded)
    for alignment in (4, 16, 256):
        summation(tensor(guaranteed_base_offset_alignment=alignment))(aligned, array())
    summation(tensor(guaranteed_base_offset_alignment=16))(shifted, array())
    with pytest.raises(
        ValueError, match=r"input_tensor starts at address 0x.*10; its desc guarantees a multiple of 32"
    ):
        summation(tensor(guaranteed_base_offset_alignment=32))(shifted, array())
    assert len(recorded) == 4


# Aliasing


def test_scans_work_in_place(recorded):
    x = array()
    assert summation()(x, x) is x
    assert len(recorded) == 1


def test_the_modulus_works_in_the_place_of_either_operand(recorded):
    a, b = array(), array()
    assert modulus()(a, b, a) is a
    assert modulus()(a, b, b) is b
    assert modulus()(a, a, a) is a
    assert len(recorded) == 3


def test_normalizations_do_not_work_in_place(recorded):
    x, scale = array(), array()
    with pytest.raises(ValueError, match="output_tensor overlaps input_tensor in memory, and the operator does not"):
        normalization()(x, None, None, x)
    with pytest.raises(ValueError, match="output_tensor overlaps scale_tensor"):
        normalization(scale_tensor=tensor())(x, scale, None, scale)
    assert recorded == []


@pytest.mark.parametrize("shift", [-23, -12, -1, 1, 12, 23])
def test_partial_overlap(recorded, shift):
    buffer = array((72,))
    x, y = buffer[24:48].reshape(2, 3, 4), buffer[24 + shift : 48 + shift].reshape(2, 3, 4)
    with pytest.raises(ValueError, match="only identical ranges may be shared"):
        summation()(x, y)
    with pytest.raises(ValueError, match="output_tensor overlaps b_tensor"):
        modulus()(array(), x, y)
    assert recorded == []


@pytest.mark.parametrize("shift", [-24, 24])
def test_neighbours_do_not_overlap(recorded, shift):
    buffer = array((72,))
    summation()(buffer[24:48].reshape(2, 3, 4), buffer[24 + shift : 48 + shift].reshape(2, 3, 4))
    assert len(recorded) == 1


def test_inputs_may_overlap(recorded):
    buffer = array((30,))
    modulus()(buffer[:24].reshape(2, 3, 4), buffer[5:29].reshape(2, 3, 4), array())
    assert len(recorded) == 1


def test_in_place_needs_equal_strides(recorded):
    square = array((3, 3))
    described, transposed = tensor((3, 3)), tensor((3, 3), strides=(1, 3))
    with pytest.raises(ValueError, match="their strides differ"):
        summation(described, transposed)(square, square.T)
    summation(transposed, transposed)(square.T, square.T)
    assert len(recorded) == 1


def test_a_broadcast_operand_is_not_overwritten(recorded):
    buffer = array()
    row = np.broadcast_to(buffer[0, 0], (2, 3, 4), subok=True)
    with pytest.raises(ValueError, match="only identical ranges"):
        modulus(b_tensor=tensor(strides=(0, 0, 1)))(array(), row, buffer)
    assert recorded == []


def test_interleaved_ranges_count_as_overlap(recorded):
    """DirectML compares ranges of memory, not elements."""
    buffer = array((2, 3, 8))
    described = tensor(strides=(24, 8, 2))
    with pytest.raises(ValueError, match="only identical ranges"):
        summation(described, described)(buffer[..., ::2], buffer[..., 1::2])
    assert recorded == []


# OWNED_BY_DML

OWNED = tensor(flags=TensorFlags.OWNED_BY_DML)


def test_owned_inputs_are_copied_by_initialize(recorded):
    operator = modulus(b_tensor=OWNED)
    divisor = array(fill=3.0)
    operator.initialize(None, divisor)
    divisor[:] = POISON
    for _ in range(2):
        operator(array(), None, array())
    assert all((arrays["divisor"] == 3.0).all() for _, arrays in recorded)
    assert len(recorded) == 2


def test_an_output_cannot_overlap_what_was_copied(recorded):
    operator = summation(OWNED)
    x = array()
    operator.initialize(x)
    operator(None, x)
    assert len(recorded) == 1


def test_owned_inputs_must_be_initialized(recorded):
    with pytest.raises(ValueError, match="b_tensor is OWNED_BY_DML; call initialize"):
        modulus(b_tensor=OWNED)(array(), None, array())
    assert recorded == []


def test_owned_inputs_must_not_be_bound_at_the_call(recorded):
    operator = modulus(b_tensor=OWNED)
    operator.initialize(None, array())
    with pytest.raises(ValueError, match="b_tensor is OWNED_BY_DML and bound by initialize; pass None"):
        operator(array(), array(), array())
    assert recorded == []


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ([array()], TypeError, "initialize takes a_tensor, b_tensor, not 1"),
        ([array(), array()], ValueError, "a_tensor is not OWNED_BY_DML"),
        ([None, None], TypeError, "b_tensor is None; it must be an array"),
        ([None, array((3, 2, 4))], ValueError, "b_tensor is an array of shape"),
        ([None, array(dtype=np.int32)], TypeError, "b_tensor is an array of int32"),
    ],
)
def test_bad_initialization(recorded, arguments, error, words):
    operator = modulus(b_tensor=OWNED)
    with pytest.raises(error, match=words):
        operator.initialize(*arguments)
    with pytest.raises(ValueError, match="call initialize"):
        operator(array(), None, array())
