"""Descriptors computed: the examples of DirectML's pages and samples, ONNX Runtime's numbers, float64 references."""

from __future__ import annotations

import numpy as np
import pytest

from cudml import dml
from cudml.dml import AxisDirection, BufferTensorDesc, Device, FeatureLevel, TensorDataType, TensorFlags

INCREASING, DECREASING = AxisDirection.INCREASING, AxisDirection.DECREASING


def described(array, **options):
    return BufferTensorDesc(data_type=TensorDataType.from_dtype(array.dtype), sizes=array.shape, **options)


def compiled(desc, level=dml.LATEST_FEATURE_LEVEL):
    return Device(level).create_operator(desc).compile()


def poisoned(xp, values):
    return xp.asarray(np.full_like(values, 77))


def scan(xp, operation, values, axis, direction=INCREASING, exclusive=False, level=dml.LATEST_FEATURE_LEVEL):
    tensors = {"input_tensor": described(values), "output_tensor": described(values)}
    shared = {**tensors, "axis": axis, "axis_direction": direction}
    if operation == "sum":
        desc = dml.CumulativeSummationOperatorDesc(**shared, has_exclusive_sum=exclusive)
    else:
        desc = dml.CumulativeProductOperatorDesc(**shared, has_exclusive_product=exclusive)
    return xp.to_numpy(compiled(desc, level)(xp.asarray(values), poisoned(xp, values)))


def modulus(xp, a, b):
    desc = dml.ElementWiseModulusTruncateOperatorDesc(
        a_tensor=described(a), b_tensor=described(b), output_tensor=described(a)
    )
    return xp.to_numpy(compiled(desc)(xp.asarray(a), xp.asarray(b), poisoned(xp, a)))


# The pages' examples: one input for both scans, computed at the levels that introduced them.

PAGE = np.array([[[[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]]], np.float32)
EXAMPLES = {
    "sum 1": ("sum", 3, INCREASING, False, [[2, 3, 6, 11], [3, 11, 18, 21], [9, 15, 17, 21]]),
    "sum 2": ("sum", 3, INCREASING, True, [[0, 2, 3, 6], [0, 3, 11, 18], [0, 9, 15, 17]]),
    "sum 3": ("sum", 3, DECREASING, False, [[11, 9, 8, 5], [21, 18, 10, 3], [21, 12, 6, 4]]),
    "sum 4": ("sum", 2, INCREASING, False, [[2, 1, 3, 5], [5, 9, 10, 8], [14, 15, 12, 12]]),
    "product 1": ("product", 3, INCREASING, False, [[2, 2, 6, 30], [3, 24, 168, 504], [9, 54, 108, 432]]),
    "product 2": ("product", 3, INCREASING, True, [[1, 2, 2, 6], [1, 3, 24, 168], [1, 9, 54, 108]]),
    "product 3": ("product", 3, DECREASING, False, [[30, 15, 15, 5], [504, 168, 21, 3], [432, 48, 8, 4]]),
    "product 4": ("product", 2, INCREASING, False, [[2, 1, 3, 5], [6, 8, 21, 15], [54, 48, 42, 60]]),
}


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "INT32", "UINT32", "UINT16"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_pages(xp, example, data_type):
    operation, axis, direction, exclusive, expected = EXAMPLES[example]
    level = FeatureLevel.FL_2_1 if operation == "sum" else FeatureLevel.FL_3_1
    values = PAGE.astype(TensorDataType[data_type].dtype)
    result = scan(xp, operation, values, axis, direction, exclusive, level)
    assert result.dtype == values.dtype
    np.testing.assert_array_equal(result, [[expected]])


def test_example_of_dxdispatch(xp):
    values = np.array([2, 4, 8, 3], np.float32)
    np.testing.assert_array_equal(scan(xp, "product", values, 0), [2, 8, 64, 192])


# ONNX Runtime's tests that run on DirectML


def test_reverse_exclusive_sum_of_onnx_runtime(xp):
    values = np.arange(1, 6, dtype=np.float32)
    np.testing.assert_array_equal(scan(xp, "sum", values, 0, DECREASING, exclusive=True), [14, 12, 9, 5, 0])


@pytest.mark.parametrize(("operation", "identity"), [("sum", 0), ("product", 1)])
def test_exclusive_over_an_axis_of_size_1(xp, operation, identity):
    values = np.arange(1, 7, dtype=np.float32).reshape(2, 1, 3)
    np.testing.assert_array_equal(scan(xp, operation, values, 1, exclusive=True), np.full((2, 1, 3), identity))


def test_float_modulus_of_onnx_runtime(xp):
    a, b = np.float32([-4.3, 7.2, 5, 4.3, -7.2, 8]), np.float32([2.1, -3.4, 8, -2.1, 3.4, 5])
    np.testing.assert_allclose(modulus(xp, a, b), [-0.1, 0.4, 5, 0.1, -0.4, 3], atol=1e-6)
    expected = np.float16([-0.1015625, 0.3984375, 5, 0.1015625, -0.3984375, 3])
    np.testing.assert_array_equal(modulus(xp, a.astype(np.float16), b.astype(np.float16)), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_integer_modulus_of_onnx_runtime(xp, dtype):
    a, b = np.array([-4, 7, 5, 4, -7, 8], dtype), np.array([2, -3, 8, -2, 3, 5], dtype)
    np.testing.assert_array_equal(modulus(xp, a, b), [0, 1, 5, 0, -1, 3])


# DirectML's meaning of types


@pytest.mark.parametrize("data_type", ["INT32", "UINT32", "INT64", "UINT64", "UINT16"])
@pytest.mark.parametrize("operation", ["sum", "product"])
def test_integers_wrap(xp, operation, data_type):
    dtype = TensorDataType[data_type].dtype
    limits = np.iinfo(dtype)
    values = np.random.default_rng(7).integers(limits.min, limits.max, (3, 41), dtype, endpoint=True)
    exact = values.astype(object)
    running = np.cumsum(exact, 1) if operation == "sum" else np.cumprod(exact, 1)
    wrapped = (running - limits.min) % 2**limits.bits + limits.min
    np.testing.assert_array_equal(scan(xp, operation, values, 1), wrapped.astype(dtype))


def test_halves_are_summed_in_float32(xp):
    """4096 ones: float16 counts no further than 2048 when it carries in float16."""
    values = np.ones(4096, np.float16)
    assert scan(xp, "sum", values, 0)[-1] == 4096


# Layouts


def test_the_modulus_broadcasts_by_strides_of_0(xp):
    a = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    row = np.array([2, 3, 5, 7], np.int32)
    desc = dml.ElementWiseModulusTruncateOperatorDesc(
        a_tensor=described(a), b_tensor=described(a, strides=(0, 0, 1)), output_tensor=described(a)
    )
    result = compiled(desc)(xp.asarray(a), xp.broadcast_to(xp.asarray(row), a.shape), poisoned(xp, a))
    np.testing.assert_array_equal(xp.to_numpy(result), a % row)


def test_padded_and_permuted_layouts(xp):
    """Padding of the output is not written."""
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    desc = dml.CumulativeSummationOperatorDesc(
        input_tensor=described(values, strides=(1, 3)), output_tensor=described(values, strides=(6, 1)), axis=1
    )
    padded = xp.asarray(np.full((3, 6), 77, np.float32))
    compiled(desc)(xp.asarray(values.T).T, padded[:, :4])
    expected = np.concatenate([np.cumsum(values, 1), np.full((3, 2), 77)], 1)
    np.testing.assert_array_equal(xp.to_numpy(padded), expected)


@pytest.mark.parametrize("direction", AxisDirection)
@pytest.mark.parametrize("exclusive", [False, True])
def test_scans_in_place(xp, direction, exclusive):
    tensor = described(PAGE)
    desc = dml.CumulativeSummationOperatorDesc(
        input_tensor=tensor, output_tensor=tensor, axis=2, axis_direction=direction, has_exclusive_sum=exclusive
    )
    array = xp.asarray(PAGE)
    assert compiled(desc)(array, array) is array
    np.testing.assert_array_equal(xp.to_numpy(array), scan(xp, "sum", PAGE, 2, direction, exclusive))


def test_modulus_in_place_of_either_operand(xp):
    a, b = np.array([-7, 8, 9], np.int32), np.array([3, -5, 9], np.int32)
    desc = dml.ElementWiseModulusTruncateOperatorDesc(
        a_tensor=described(a), b_tensor=described(b), output_tensor=described(a)
    )
    for place in (0, 1):
        operands = [xp.asarray(a), xp.asarray(b)]
        result = compiled(desc)(*operands, operands[place])
        np.testing.assert_array_equal(xp.to_numpy(result), [-1, 3, 0])


def test_owned_tensors(xp):
    a, b = np.array([-7, 8, 9], np.int32), np.array([3, -5, 9], np.int32)
    operator = compiled(
        dml.ElementWiseModulusTruncateOperatorDesc(
            a_tensor=described(a), b_tensor=described(b, flags=TensorFlags.OWNED_BY_DML), output_tensor=described(a)
        )
    )
    divisor = xp.asarray(b)
    operator.initialize(None, divisor)
    divisor[:] = 1
    np.testing.assert_array_equal(xp.to_numpy(operator(xp.asarray(a), None, poisoned(xp, a))), [-1, 3, 0])


# Normalization against float64


def normalized(x, axes, scale, bias, normalize_variance, epsilon):
    """The formula of the page in float64."""
    x = x.astype(np.float64)
    result = x - x.mean(axes, keepdims=True)
    if normalize_variance:
        result /= np.sqrt(x.var(axes, keepdims=True) + epsilon)
    if scale is not None:
        result = result * scale
    return result if bias is None else result + bias


def operands(rng, dtype, scale_sizes, bias_sizes):
    x = rng.normal(3, 2, (2, 3, 5, 7)).astype(dtype)
    scale, bias = (
        None if sizes is None else rng.normal(size=sizes).astype(dtype) for sizes in (scale_sizes, bias_sizes)
    )
    return x, scale, bias


def run_normalization(xp, desc_type, x, scale, bias, level=dml.LATEST_FEATURE_LEVEL, **options):
    tensors = {
        "input_tensor": described(x),
        "output_tensor": described(x),
        "scale_tensor": None if scale is None else described(scale),
        "bias_tensor": None if bias is None else described(bias),
    }
    operator = compiled(desc_type(**tensors, **options), level)
    bound = [None if array is None else xp.asarray(array) for array in (x, scale, bias)]
    return xp.to_numpy(operator(*bound, poisoned(xp, x)))


def tolerance(dtype):
    """A rounding of the result, and a few of float32 on the way; results are of order 10."""
    return 10 * (np.finfo(dtype).eps + 16 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("normalize_variance", [True, False])
@pytest.mark.parametrize(("scale_sizes", "bias_sizes"), [
    (None, None),
    ((1, 3, 1, 1), (1, 3, 1, 1)),
    ((1, 1, 1, 7), (2, 1, 5, 1)),
    ((2, 3, 5, 7), None),
    (None, (1, 1, 1, 1)),
])  # fmt: skip
@pytest.mark.parametrize("axes", [(2, 3), (3, 1, 2), (0, 2), (3,)])
def test_normalization(xp, axes, scale_sizes, bias_sizes, normalize_variance, dtype):
    x, scale, bias = operands(np.random.default_rng(3), dtype, scale_sizes, bias_sizes)
    options = {"normalize_variance": normalize_variance, "epsilon": 1e-3}
    result = run_normalization(xp, dml.MeanVarianceNormalization1OperatorDesc, x, scale, bias, axes=axes, **options)
    expected = normalized(x, axes, scale, bias, **options)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance(dtype))


@pytest.mark.parametrize(("cross_channel", "axes"), [(False, (2, 3)), (True, (1, 2, 3))])
def test_the_older_normalization(xp, cross_channel, axes):
    x, scale, bias = operands(np.random.default_rng(4), np.float32, (1, 3, 1, 1), (1, 1, 1, 7))
    options = {"normalize_variance": True, "epsilon": 1e-5}
    result = run_normalization(
        xp,
        dml.MeanVarianceNormalizationOperatorDesc,
        x,
        scale,
        bias,
        FeatureLevel.FL_1_0,
        cross_channel=cross_channel,
        **options,
    )
    np.testing.assert_allclose(result, normalized(x, axes, scale, bias, **options), rtol=0, atol=tolerance(np.float32))


def test_fused_activations_come_after_scale_and_bias(xp):
    x, scale, bias = operands(np.random.default_rng(5), np.float32, (1, 3, 1, 1), (1, 3, 1, 1))
    options = {"normalize_variance": True, "epsilon": 1e-5}
    activations = {
        dml.ActivationReluOperatorDesc(): lambda y: np.maximum(y, 0),
        dml.ActivationLeakyReluOperatorDesc(alpha=0.25): lambda y: np.where(y >= 0, y, 0.25 * y),
        dml.ActivationLinearOperatorDesc(alpha=-2, beta=3): lambda y: -2 * y + 3,
        dml.ActivationShrinkOperatorDesc(bias=0.25, threshold=1): lambda y: np.where(
            y > 1, y - 0.25, np.where(y < -1, y + 0.25, 0)
        ),
    }
    before = normalized(x, (2, 3), scale, bias, **options)
    assert np.abs(np.abs(before) - 1).min() > 1e-4  # nothing so near a threshold that rounding decides
    for activation, formula in activations.items():
        result = run_normalization(
            xp,
            dml.MeanVarianceNormalization1OperatorDesc,
            x,
            scale,
            bias,
            axes=(2, 3),
            fused_activation=activation,
            **options,
        )
        np.testing.assert_allclose(result, formula(before), rtol=0, atol=2 * tolerance(np.float32))


# Bad calls leave the output alone


def test_nothing_is_written_when_a_call_is_refused(xp):
    operator = compiled(
        dml.MeanVarianceNormalization1OperatorDesc(
            input_tensor=described(PAGE), output_tensor=described(PAGE), axes=[3], normalize_variance=True
        )
    )
    x, output = xp.asarray(PAGE), xp.asarray(np.full_like(PAGE, 77))
    bad_calls = [
        (x, None, x, output),
        (x, None, None),
        (x[..., :2], None, None, output),
        (x, None, None, x),
        (output, None, None, output),
    ]
    for arguments in bad_calls:
        with pytest.raises((TypeError, ValueError)):
            operator(*arguments)
    np.testing.assert_array_equal(xp.to_numpy(output), 77)
    np.testing.assert_array_equal(xp.to_numpy(x), PAGE)
