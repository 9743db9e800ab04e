"""Mean, variance and normalization: statistics, axes, scale and bias, activations, hard data, layouts, wrappers.

The reference takes two passes in long double. Errors are measured against the spread of the group, not its mean: an
output is allowed (ADDITIONS(n) + 16) * u * (1 + |z|), z being the normalized value, before scale, which multiplies it.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from layouts import PATTERNS, Poisoned, place
from reference import (
    BOOL,
    FLOATS,
    HALVES,
    INTEGERS,
    SIZES,
    SMALLEST,
    UNIT_ROUNDOFF,
    accumulator_roundoff,
    additions,
    assert_close,
    assert_same_bits,
    random,
)

from cudml.cpu.activations import activate
from cudml.normalization import batch_norm, group_norm, instance_norm, layer_norm, mean_var, mean_variance_normalization
from cudml.plan.activation import PARAMETERS, Activation

all_floats = pytest.mark.parametrize("dtype", FLOATS, ids=str)
all_patterns = pytest.mark.parametrize("pattern", PATTERNS)
SUBSETS = [axes for count in range(5) for axes in itertools.combinations(range(4), count)]


def moments_reference(x, axes):
    """(x - mean, mean, population variance) in long double, reduced axes kept."""
    wide = x.astype(np.longdouble)
    mean = wide.mean(axis=axes, keepdims=True)
    rest = (wide - mean).mean(axis=axes, keepdims=True)
    distance = wide - mean - rest
    return distance, mean + rest, np.square(distance).mean(axis=axes, keepdims=True)


def group_size(shape, axes):
    return int(np.prod([shape[axis] for axis in axes], initial=1))


def normalization_reference(x, axes, scale=None, bias=None, epsilon=1e-5, normalize_variance=True):
    """The normalized values before any activation, and the errors allowed for them in the accumulator's type."""
    distance, _, variance = moments_reference(x, axes)
    deviation = np.sqrt(variance + np.longdouble(epsilon)) if normalize_variance else np.longdouble(1)
    spread = np.sqrt(variance) / deviation
    wide_scale = np.longdouble(1) if scale is None else np.asarray(scale).astype(np.longdouble)
    wide_bias = np.longdouble(0) if bias is None else np.asarray(bias).astype(np.longdouble)
    scaled = distance / deviation * wide_scale
    roundings = additions(group_size(x.shape, axes)) + 16
    bound = roundings * (spread * np.abs(wide_scale) + np.abs(scaled)) + 4 * np.abs(scaled + wide_bias)
    return scaled + wide_bias, bound * accumulator_roundoff(result_dtype(x))


def result_dtype(x):
    return x.dtype if x.dtype.name in UNIT_ROUNDOFF else np.dtype(np.float64)


def rounded(expected, bound, dtype):
    """The bound with the rounding to the output's type added."""
    name = np.dtype(dtype).name
    return bound + np.abs(expected) * UNIT_ROUNDOFF[name] * 1.01 + SMALLEST[name]


def on(xp, value):
    return xp.asarray(value) if isinstance(value, np.ndarray) else value


def check(xp, x, axes, scale=None, bias=None, out_dtype=None, **options):
    """Normalizes into a poisoned output and compares with the reference."""
    expected, bound = normalization_reference(x, axes, scale, bias, **options)
    out = Poisoned(xp, x.shape, out_dtype or result_dtype(x))
    result = mean_variance_normalization(
        xp.asarray(x), on(xp, scale), on(xp, bias), axes=axes, out=out.array, **options
    )
    assert result is out.array
    assert_close(out.read(), expected, rounded(expected, bound, out.array.dtype))


# Statistics.


def check_moments(xp, x, axis, correction=0):
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis % x.ndim,)
    _, mean, variance = moments_reference(x, axes)
    n, dtype = group_size(x.shape, axes), result_dtype(x)
    variance = variance * n / (n - correction)
    unit = accumulator_roundoff(dtype)
    results = mean_var(xp.asarray(x), axis, correction=correction, keepdims=True)
    assert [result.dtype for result in results] == [dtype, dtype]
    got_mean, got_variance = (xp.to_numpy(result) for result in results)
    spread = (additions(n) + 4) * unit * np.sqrt(variance)
    assert_close(got_mean, mean, rounded(mean, spread, dtype))
    assert_close(got_variance, variance, rounded(variance, 2 * (additions(n) + 4) * unit * variance, dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, BOOL, *INTEGERS], ids=str)
def test_moments_of_every_dtype(xp, dtype):
    x = random(np.random.default_rng(1), (7, 33), dtype)
    for axis in (None, 0, 1, (0, 1), -1):
        check_moments(xp, x, axis if axis != -1 else (1,))


@pytest.mark.parametrize("axes", SUBSETS, ids=str)
def test_moments_over_every_subset_of_axes(xp, axes):
    x = random(np.random.default_rng(2), (3, 4, 5, 6), np.float32)
    check_moments(xp, x, axes)
    mean, variance = mean_var(xp.asarray(x), axes)
    kept = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    assert mean.shape == variance.shape == kept


@pytest.mark.parametrize("correction", [0, 1, 1.5, -2])
def test_correction(xp, correction):
    check_moments(xp, random(np.random.default_rng(3), (5, 20), np.float64), 1, correction)


@pytest.mark.parametrize("n", SIZES)
def test_moments_of_long_groups(xp, n):
    rng = np.random.default_rng(n)
    check_moments(xp, random(rng, (n,), np.float32) + np.float32(1000), None)
    if n < 10_000:
        check_moments(xp, random(rng, (n, 5), np.float32), 0)
        check_moments(xp, random(rng, (5, n), np.float32), 1)


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("length", [1025, 2048, 2049])
def test_moments_of_columns_that_are_a_tile_of_several_rounds(xp, length):
    x = random(np.random.default_rng(7), (length, 600), np.float32)
    with xp.planned_for(multiprocessors=1):
        mean, var = mean_var(xp.asarray(x), 0)
    np.testing.assert_allclose(xp.to_numpy(mean), x.mean(0, dtype=np.float64), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(xp.to_numpy(var), x.var(0, dtype=np.float64), rtol=1e-6)


def test_moments_without_elements_or_freedom_are_numpys(xp):
    for array in mean_var(xp.asarray(np.ones((3, 0), np.float32)), 1):
        assert np.isnan(xp.to_numpy(array)).tolist() == [True] * 3
    assert mean_var(xp.asarray(np.ones((0, 3), np.float32)), 1)[0].shape == (0,)
    _, variance = mean_var(xp.asarray(np.array([[3.0], [4.0]])), 1, correction=1)
    assert np.isnan(xp.to_numpy(variance)).all()
    _, variance = mean_var(xp.asarray(np.array([3.0, 4.0])), correction=3)
    assert np.isposinf(xp.to_numpy(variance))


def test_moments_of_a_number(xp):
    mean, variance = mean_var(xp.asarray(np.array(2.5)))
    assert (mean.shape, variance.shape) == ((), ())
    assert (float(xp.to_numpy(mean)), float(xp.to_numpy(variance))) == (2.5, 0.0)


@all_patterns
def test_layout_of_moments(xp, pattern):
    x = random(np.random.default_rng(4), (6, 35, 9), np.float32)
    for axis in (None, 0, 1, 2, (0, 2)):
        expected, got = mean_var(xp.asarray(x), axis), mean_var(place(xp, x, pattern), axis)
        for one, other in zip(got, expected, strict=True):
            assert_same_bits(xp.to_numpy(one), xp.to_numpy(other))


# Axes, scale, bias and options.


@all_floats
@pytest.mark.parametrize("axes", SUBSETS, ids=str)
def test_every_subset_of_axes(xp, axes, dtype):
    rng = np.random.default_rng(5)
    x = random(rng, (3, 4, 5, 6), dtype)
    scale, bias = random(rng, (4, 1, 1), dtype), random(rng, (6,), dtype)
    check(xp, x, axes, scale, bias)


def check_columns(xp, rows, columns, dtype):
    x = random(np.random.default_rng(columns), (rows, columns), dtype)
    check(xp, x, (0,))
    check_moments(xp, x, 0)


@all_floats
@pytest.mark.parametrize("columns", [17, 31, 33, 37, 45, 63, 65])
def test_columns_of_every_width(xp, columns, dtype):
    check_columns(xp, 2100, columns, dtype)


@all_floats
@pytest.mark.parametrize("columns", [17, 33, 63])
@pytest.mark.backend("cuda", "cpu")
def test_longer_columns_of_every_width(xp, columns, dtype):
    check_columns(xp, 20_011, columns, dtype)


@pytest.mark.parametrize("dtype", [BOOL, *INTEGERS], ids=str)
def test_integers_become_float64(xp, dtype):
    x = random(np.random.default_rng(6), (6, 40), dtype)
    assert mean_variance_normalization(xp.asarray(x), axes=1).dtype == np.float64
    check(xp, x, (1,))


def test_axes_may_be_an_int_negative_and_unsorted(xp):
    x = xp.asarray(random(np.random.default_rng(7), (3, 4, 5), np.float32))
    expected = xp.to_numpy(mean_variance_normalization(x, axes=(0, 2)))
    assert_same_bits(xp.to_numpy(mean_variance_normalization(x, axes=[-1, 0])), expected)
    one = xp.to_numpy(mean_variance_normalization(x, axes=(1,)))
    assert_same_bits(xp.to_numpy(mean_variance_normalization(x, axes=-2)), one)


SCALE_SHAPES = [(), (1,), (5,), (4, 1), (4, 5), (3, 1, 1), (1, 3, 1, 1), (2, 1, 1, 5), (2, 3, 4, 1), (2, 3, 4, 5)]


@pytest.mark.share(4)
@pytest.mark.parametrize("scale_shape", [None, *SCALE_SHAPES], ids=str)
@pytest.mark.parametrize("bias_shape", [None, *SCALE_SHAPES], ids=str)
@pytest.mark.parametrize("axes", [(1, 2, 3), (0, 2), (3,)], ids=str)
def test_scale_and_bias_broadcast(xp, scale_shape, bias_shape, axes):
    rng = np.random.default_rng(8)
    x = random(rng, (2, 3, 4, 5), np.float32)
    scale = None if scale_shape is None else random(rng, scale_shape, np.float32)
    bias = None if bias_shape is None else random(rng, bias_shape, np.float32)
    check(xp, x, axes, scale, bias)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), np.dtype(np.float32)], ids=str)
@pytest.mark.parametrize("run", [3, 4, 9, 30, 49, 111, 196])
@pytest.mark.parametrize("channels", [3, 40, 150])
def test_scale_of_channels_of_every_size(xp, channels, run, dtype):
    """Runs that end anywhere in a chunk, in groups from a row to many tiles; and a bias along another axis."""
    rng = np.random.default_rng([channels, run])
    x, scale = random(rng, (3, channels, run), dtype), random(rng, (channels, 1), np.float32)
    check(xp, x, (1, 2), scale, random(rng, (channels, 1), dtype))
    check(xp, x.reshape(3, channels, 1, run), (1, 2, 3), scale[:, :, None], random(rng, (run,), np.float32))


@pytest.mark.parametrize("dtype", [np.dtype(name) for name in ("float16", "float32", "float64", "int8")], ids=str)
@pytest.mark.parametrize(("images", "run"), [(5, 12), (7, 30), (9, 52), (40, 98), (90, 196), (33, 102), (21, 784)])
def test_images_whose_runs_are_parts_of_chunks(xp, images, run, dtype):
    rng = np.random.default_rng([images, run])
    x = random(rng, (images, 3, run), dtype)
    check(xp, x, (0, 2), random(rng, (3, 1), np.float32), random(rng, (3, 1), np.float16))
    check_moments(xp, x, (0, 2))


@all_floats
@pytest.mark.parametrize("rows", [2, 3, 5, 7, 8, 11, 31, 32, 33])
def test_columns_of_few_rows(xp, rows, dtype):
    rng = np.random.default_rng(rows)
    for columns in (6, 129, 600):
        x = random(rng, (rows, columns), dtype)
        check(xp, x, (0,), random(rng, (rows, 1), np.float32), random(rng, (columns,), dtype))
        check_moments(xp, x, 0)


@all_patterns
def test_layout_of_scale_and_bias(xp, pattern):
    rng = np.random.default_rng(9)
    x, scale, bias = (
        random(rng, (6, 35, 9), np.float32),
        random(rng, (35, 9), np.float32),
        random(rng, (9,), np.float32),
    )
    expected = mean_variance_normalization(xp.asarray(x), xp.asarray(scale), xp.asarray(bias), axes=(0, 2))
    placed = place(xp, scale, pattern), place(xp, bias, pattern)
    assert_same_bits(
        xp.to_numpy(mean_variance_normalization(xp.asarray(x), *placed, axes=(0, 2))), xp.to_numpy(expected)
    )


@all_floats
@pytest.mark.parametrize("parameter_dtype", FLOATS, ids=str)
def test_scale_and_bias_of_another_dtype(xp, dtype, parameter_dtype):
    rng = np.random.default_rng(10)
    scale, bias = random(rng, (1, 30), parameter_dtype), random(rng, (4, 1), parameter_dtype)
    if dtype.itemsize < 8 and parameter_dtype.itemsize == 8:
        scale, bias = scale.astype(np.float32).astype(np.float64), bias.astype(np.float32).astype(np.float64)
    check(xp, random(rng, (4, 30), dtype), (1,), scale, bias)


def test_numbers_and_lists_as_scale_and_bias(xp):
    x = random(np.random.default_rng(11), (4, 30), np.float32)
    expected, bound = normalization_reference(x, (1,), np.float64(2), np.float64(0.5))
    for scale, bias in ((2, 0.5), (np.float32(2), np.float16(0.5)), ([2] * 30, (0.5,))):
        got = mean_variance_normalization(xp.asarray(x), scale, bias, axes=1)
        assert_close(xp.to_numpy(got), expected, rounded(expected, bound, np.float32))


@all_floats
def test_without_variance(xp, dtype):
    rng = np.random.default_rng(12)
    check(xp, random(rng, (5, 100), dtype), (1,), random(rng, (100,), dtype), 0.25, normalize_variance=False)


@pytest.mark.parametrize("epsilon", [0, 1e-12, 1e-5, 0.1, 100.0, float("inf")])
def test_epsilon(xp, epsilon):
    check(xp, random(np.random.default_rng(13), (5, 100), np.float32), (1,), epsilon=epsilon)


@all_floats
@pytest.mark.parametrize("out_dtype", FLOATS, ids=str)
def test_out_of_another_dtype(xp, dtype, out_dtype):
    x = random(np.random.default_rng(14), (5, 100), dtype)
    expected, bound = normalization_reference(x, (1,))
    out = Poisoned(xp, x.shape, out_dtype)
    mean_variance_normalization(xp.asarray(x), axes=1, out=out.array)
    assert_close(out.read(), expected, rounded(expected, rounded(expected, bound, dtype), out_dtype))


@all_floats
@pytest.mark.parametrize("run", [258, 300, 301])
def test_out_of_halves_over_long_runs(xp, dtype, run):
    x = random(np.random.default_rng(141), (5, 3, run), dtype)
    expected, bound = normalization_reference(x, (0, 2))
    out = Poisoned(xp, x.shape, np.float16)
    mean_variance_normalization(xp.asarray(x), axes=(0, 2), out=out.array)
    assert_close(out.read(), expected, rounded(expected, rounded(expected, bound, dtype), np.float16))


# Hard data.


@all_floats
@pytest.mark.parametrize("constant", [0.0, 1.0, -1234.0, 65504.0, 0.1])
@pytest.mark.parametrize("shape", [(3, 1), (3, 2), (3, 1000), (2, 30_001)], ids=str)
def test_constant_groups_give_exactly_zero(xp, dtype, constant, shape):
    """The mean of equal numbers is that number, however many there are; then only the bias is left."""
    x = xp.asarray(np.full(shape, constant).astype(dtype))
    assert not xp.to_numpy(mean_variance_normalization(x, axes=1)).astype(bool).any()
    biased = mean_variance_normalization(x, 3.0, 0.5, axes=1)
    assert (xp.to_numpy(biased) == 0.5).all()
    mean, variance = mean_var(x, 1)
    assert_same_bits(xp.to_numpy(mean), xp.to_numpy(x)[:, 0])
    assert not xp.to_numpy(variance).astype(bool).any()


@all_floats
def test_constant_groups_of_the_largest_number(xp, dtype):
    """Whose sum no float64 holds."""
    largest = {"float16": 65504.0, "bfloat16": 2.0**128 - 2.0**120, "float32": 2.0**128 - 2.0**104}
    x = xp.asarray(np.full((2, 40), largest.get(dtype.name, np.finfo(np.float64).max), dtype))
    assert not xp.to_numpy(mean_variance_normalization(x, axes=1)).astype(bool).any()
    mean, variance = mean_var(x, 1)
    assert_same_bits(xp.to_numpy(mean), xp.to_numpy(x)[:, 0])
    assert not xp.to_numpy(variance).astype(bool).any()


def hard_cases():
    rng = np.random.default_rng(15)
    noise = rng.standard_normal((4, 3000))
    yield "mean 1e6, spread 1", np.float32, noise + 1e6
    yield "mean 1e6, spread 1, short", np.float32, noise[:, :5] + 1e6
    yield "consecutive at 40000", np.float32, np.tile([40000.0, 40001, 40002, 40003], (2, 1))
    yield "rows of growing mean", np.float32, np.array([[0.0], [100], [1e3], [1e4]]) + np.arange(3000) * 1e-3
    yield "magnitude 1e30", np.float32, noise * 1e30
    yield "magnitude 1e150", np.float64, noise * 1e150
    yield "magnitude 1e-20", np.float32, noise * 1e-20
    yield "outlier first", np.float32, np.concatenate([np.full((4, 1), 1e6), noise], axis=1)
    yield "outlier last", np.float32, np.concatenate([noise, np.full((4, 1), -1e7)], axis=1)
    yield "mean 1e9, spread 1", np.float64, noise + 1e9
    yield "two elements", np.float32, np.array([[1e6, 1e6 + 0.0625], [-3.0, 5.0], [1e-3, 1e3]])
    for dtype in HALVES:
        yield f"variance above 65504 in {dtype}", dtype, noise * 1000
        yield f"mean 2000, spread 2 in {dtype}", dtype, noise * 2 + 2000


HARD_CASES = {name: values.astype(dtype) for name, dtype, values in hard_cases()}


@pytest.mark.parametrize("case", HARD_CASES)
@pytest.mark.parametrize("axis", [0, 1])
def test_hard_data(xp, case, axis):
    x = HARD_CASES[case] if axis == 1 else np.ascontiguousarray(HARD_CASES[case].T)
    check(xp, x, (axis,))
    check(xp, x, (axis,), normalize_variance=False)


@pytest.mark.parametrize("case", [case for case in HARD_CASES if "65504" not in case and "1e30" not in case])
def test_moments_of_hard_data(xp, case):
    check_moments(xp, HARD_CASES[case], 1)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_variance_of_halves_rounds_to_infinity_only_in_the_result(xp, dtype):
    x = (np.random.default_rng(16).standard_normal((2, 500)) * 2000).astype(dtype)
    _, variance = mean_var(xp.asarray(x), 1)
    largest = 65504 if dtype == np.float16 else 3e38
    overflows = moments_reference(x, (1,))[2].reshape(-1) > largest
    assert overflows.all() == (dtype == np.float16)
    np.testing.assert_array_equal(np.isinf(xp.to_numpy(variance).astype(np.float64)), overflows)


def test_subnormal_input_is_not_flushed(xp):
    x = (np.random.default_rng(17).integers(-1000, 1000, (3, 50)) * 2.0**-149).astype(np.float32)
    check(xp, x, (1,))


@pytest.mark.parametrize("dtype", [*HALVES, np.dtype(np.float32)], ids=str)
def test_groups_of_subnormals_are_normalized_like_others(xp, dtype):
    """Without an epsilon they have a spread of 1 afterwards."""
    x = (np.random.default_rng(17).integers(-1000, 1000, (3, 50)) * SMALLEST[dtype.name]).astype(dtype)
    check(xp, x, (1,), epsilon=0)


@pytest.mark.parametrize("exponent", [-122, -115, -60, 60, 115, 120, 124])
@pytest.mark.parametrize("mean", [0.0, 2.5])
def test_another_power_of_two_changes_no_bit(xp, mean, exponent):
    """Also where the magnitude leaves no room for the quicker of the two ways to the same numbers."""
    x = (mean + np.random.default_rng(33).uniform(0.25, 1, (3, 700))).astype(np.float32)
    with_power = [np.ldexp(x, power).astype(np.float32) for power in (0, exponent)]
    one, other = (xp.to_numpy(mean_variance_normalization(xp.asarray(a), axes=1, epsilon=0)) for a in with_power)
    assert_same_bits(one, other)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_what_halves_cannot_tell_apart_is_constant(xp, dtype):
    x = np.tile([40000.0, 40001, 40002, 40003], (2, 9)).astype(dtype)
    assert not xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=1)).astype(bool).any()


# Every way of computing: groups of few and many elements, side by side and one after the other.
SMALL_GROUPS = {"short lines": ((40, 33), (1,)), "lines": ((3, 5001), (1,)), "columns": ((300, 40), (0,))}
LARGE_GROUPS = {
    "clustered lines": ((2, 16_501), (1,)),
    "stream": ((2, 40_001), (1,)),
    "stream of runs": ((4, 2, 12_000), (0, 2)),
    "clusters": ((1100, 64), (0,)),
    "strips": ((8300, 64), (0,)),
    "tiles": ((1100, 9), (0,)),
    "bundles of short runs": ((500, 48, 4), (0, 2)),
}
ALL_GROUPS = {**SMALL_GROUPS, **LARGE_GROUPS}


@pytest.fixture
def room_for_groups(xp, groups):
    """The executor's own GPU is too small for strips, and the cache of others large enough that these are slower. On
    others clusters would have what is streamed here."""
    properties = {"cache_bytes": 0} if groups == "strips" else {}
    if groups in ("stream", "stream of runs"):
        properties["cluster_launch"] = False
    if groups == "strips" and xp.name == "emulated":
        properties["multiprocessors"] = 40
    with xp.planned_for(**properties):
        yield


def noise(shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def element_of_all_groups(ndim, axes, place):
    """The index of one element in each group: the first for 0, the last for -1."""
    return tuple(place if axis in axes else slice(None) for axis in range(ndim))


def four_roundings(x, axes, epsilon=1e-5):
    """The normalized values, and four roundings of float32 and one to the result's type."""
    expected, _ = normalization_reference(x, axes, epsilon=epsilon)
    return expected, rounded(expected, 4 * UNIT_ROUNDOFF["float32"] * np.abs(expected), x.dtype)


@pytest.mark.usefixtures("room_for_groups")
@pytest.mark.parametrize("dtype", [*HALVES, np.dtype(np.float32)], ids=str)
@pytest.mark.parametrize("groups", ALL_GROUPS)
def test_error_stays_below_four_roundings(xp, groups, dtype):
    """With a mean that is far larger than the spread; sums of float64 have roundings of their own."""
    shape, axes = ALL_GROUPS[groups]
    x = (noise(shape) + 1000).astype(dtype)
    got = xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=axes))
    assert_close(got, *four_roundings(x, axes))
    _, mean, variance = moments_reference(x, axes)
    for statistic, expected in zip(mean_var(xp.asarray(x), axes, keepdims=True), (mean, variance), strict=True):
        allowed = 4 * UNIT_ROUNDOFF["float32"] * np.abs(expected)
        assert_close(xp.to_numpy(statistic), expected, rounded(expected, allowed, dtype))


def with_outlier(x, axes):
    x[element_of_all_groups(x.ndim, axes, 0)] = 1e6
    return x


HARD_GROUPS = {
    "mean 1e6, spread 1": lambda x, axes: x + 1e6,
    "magnitude 1e30": lambda x, axes: x * 1e30,
    "outlier first": with_outlier,
    "a step of the type apart": lambda x, axes: 1 + (x > 0) * 2.0**-23,
}


@pytest.mark.usefixtures("room_for_groups")
@pytest.mark.parametrize("data", HARD_GROUPS)
@pytest.mark.parametrize("groups", ALL_GROUPS)
def test_hard_data_in_every_kind_of_group(xp, groups, data):
    shape, axes = ALL_GROUPS[groups]
    x = HARD_GROUPS[data](noise(shape, 1), axes).astype(np.float32)
    got = xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=axes, epsilon=0))
    assert_close(got, *four_roundings(x, axes, epsilon=0))


@pytest.mark.usefixtures("room_for_groups")
@pytest.mark.parametrize("epsilon", [0, float("inf")])
@pytest.mark.parametrize("magnitude", [2.0**-149, 2.0**-126, 1.0, 2.0**124])
@pytest.mark.parametrize("groups", LARGE_GROUPS)
def test_large_groups_of_any_magnitude_are_normalized_as_lines_are(xp, groups, magnitude, epsilon):
    """To the last bit, whatever is between the statistics of a group and the threads that use them; where they are
    lines themselves, and otherwise too, within four roundings."""
    shape, axes = LARGE_GROUPS[groups]
    x = (np.random.default_rng(34).integers(-7, 8, shape) * magnitude).astype(np.float32)
    x[element_of_all_groups(x.ndim, axes, -1)] += np.float32(5 * magnitude)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    lines = np.moveaxis(x, axes, range(len(kept), x.ndim))
    got = xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=axes, epsilon=epsilon))
    flat = xp.asarray(lines.reshape(math.prod(lines.shape[: len(kept)]), -1))
    as_lines = xp.to_numpy(mean_variance_normalization(flat, axes=1, epsilon=epsilon)).reshape(lines.shape)
    assert_same_bits(np.moveaxis(got, axes, range(len(kept), x.ndim)), as_lines)
    assert_close(got, *four_roundings(x, axes, epsilon=epsilon))


@pytest.mark.usefixtures("room_for_groups")
@pytest.mark.parametrize(("dtype", "constant"), [("float16", 65504.0), ("float16", 1234.0), ("float32", 0.1)])
@pytest.mark.parametrize("groups", LARGE_GROUPS)
def test_large_constant_groups_give_exactly_zero(xp, groups, dtype, constant):
    shape, axes = LARGE_GROUPS[groups]
    x = np.full(shape, constant, dtype)
    for epsilon in (1e-5, 0):
        assert not xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=axes, epsilon=epsilon)).any()
    mean, variance = mean_var(xp.asarray(x), axes)
    assert (xp.to_numpy(mean) == x.flat[0]).all()
    assert not xp.to_numpy(variance).any()


@pytest.mark.usefixtures("room_for_groups")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 3, -1])
@pytest.mark.parametrize("groups", ALL_GROUPS)
def test_nan_and_infinity_stay_in_their_group(xp, groups, place, bad):
    shape, axes = ALL_GROUPS[groups]
    x = noise(shape, 2).astype(np.float32)
    kept = next(axis for axis in range(x.ndim) if axis not in axes)
    spoiled = tuple(slice(1, 2) if axis == kept else slice(None) for axis in range(x.ndim))
    changed = x.copy()
    changed[spoiled][element_of_all_groups(x.ndim, axes, place)] = bad
    expected, got = (xp.to_numpy(mean_variance_normalization(xp.asarray(values), axes=axes)) for values in (x, changed))
    assert np.isnan(got[spoiled]).all()
    assert_same_bits(np.delete(got, 1, axis=kept), np.delete(expected, 1, axis=kept))
    expected_mean, mean = (xp.to_numpy(mean_var(xp.asarray(values), axes)[0]) for values in (x, changed))
    np.testing.assert_array_equal(mean[1], bad)
    assert_same_bits(np.delete(mean, 1), np.delete(expected_mean, 1))


# Sizes and layouts.


@pytest.mark.parametrize("n", SIZES)
def test_size_of_groups(xp, n):
    rng = np.random.default_rng(n)
    check(xp, random(rng, (2, n), np.float32), (1,), random(rng, (n,), np.float32))
    check(xp, random(rng, (n, 3), np.float16), (0,), random(rng, (3,), np.float16))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((70_001, 3), (1,)),
        ((3, 70_001), (0,)),
        ((40, 50, 60), (0, 2)),
        ((300_007,), (0,)),
        ((2, 3, 50, 700), (2, 3)),
        ((6001, 201), (0,)),
    ],
)
def test_many_groups_and_large_groups(xp, shape, axes):
    check(xp, random(np.random.default_rng(19), shape, np.float32), axes)


@pytest.mark.parametrize("n", [40_001, 70_001])
def test_long_groups_of_bytes(xp, n):
    """Their rows are the longest, and take the most shared memory as doubles."""
    check(xp, random(np.random.default_rng(41), (2, n), INTEGERS[0]), (1,))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (0, 3), (2, 1, 3, 1, 2, 1, 2, 1, 2, 1, 2)], ids=str)
def test_odd_shapes(xp, shape):
    x = random(np.random.default_rng(20), shape, np.float32)
    for axes in [(), *((axis,) for axis in range(len(shape))), tuple(range(len(shape)))]:
        if group_size(shape, axes):
            check(xp, x, axes)
        else:
            assert mean_variance_normalization(xp.asarray(x), axes=axes).shape == shape


#: Outer axis, steps and columns: blocks with a part of their panels; panels of an odd number of bytes; more columns
#: than a warp has lanes; and columns of several threads, of less than a span more than they have and of many.
SHORT_PANELS = [(700, 16, 3), (1003, 5, 2), (133, 31, 5), (119, 64, 3), (207, 40, 5), (45, 20, 33)]
PANELS = [*SHORT_PANELS, (53, 65, 3), (47, 200, 2), (9, 1000, 3), (51, 75, 37)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("scaled", ["steps", "columns", "panels", "not at all"])
@pytest.mark.parametrize("shape", PANELS, ids=str)
def test_panels_have_the_bits_of_padded_rows(xp, shape, scaled, dtype):
    rng = np.random.default_rng(71)
    x = random(rng, shape, np.dtype(dtype))
    lengths = {"steps": (1, shape[1], 1), "columns": (1, 1, shape[2]), "panels": (shape[0], 1, 1)}
    scale = random(rng, lengths[scaled], np.float32) if scaled in lengths else None
    bias = random(rng, shape[1:], np.float32) if scaled == "steps" else None
    with xp.planned_for(multiprocessors=1):  # for which they are many
        check(xp, x, (1,), scale, bias)
        dense, padded = (
            mean_variance_normalization(place(xp, x, pattern), on(xp, scale), on(xp, bias), axes=1)
            for pattern in ("contiguous", "padded lines")
        )
    assert_same_bits(xp.to_numpy(dense), xp.to_numpy(padded))


@pytest.mark.parametrize("dtype", [np.float16, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", SHORT_PANELS, ids=str)
def test_moments_of_panels(xp, shape, dtype):
    x = random(np.random.default_rng(72), shape, np.dtype(dtype))
    with xp.planned_for(multiprocessors=1):
        check_moments(xp, x, 1)
        dense, padded = (mean_var(place(xp, x, pattern), 1) for pattern in ("contiguous", "padded lines"))
    for of_dense, of_padded in zip(dense, padded, strict=True):
        assert_same_bits(xp.to_numpy(of_dense), xp.to_numpy(of_padded))


@pytest.mark.parametrize(("dtype", "out_dtype"), [(np.float16, np.float64), (np.float64, np.float16)])
@pytest.mark.parametrize("pattern", ["contiguous", "offset by an element", "offset by a byte"])
@pytest.mark.parametrize("shape", [(2, 45, 4, 5, 3), (2, 15, 9, 10, 3)], ids=str)
def test_panels_of_other_outputs_that_begin_anywhere(xp, shape, dtype, out_dtype, pattern):
    x = random(np.random.default_rng(73), shape, np.dtype(dtype))
    expected, bound = normalization_reference(x, (2, 3))
    for source in ("contiguous", pattern):
        out = Poisoned(xp, x.shape, np.dtype(out_dtype), pattern)
        with xp.planned_for(multiprocessors=1):
            assert mean_variance_normalization(place(xp, x, source), axes=(2, 3), out=out.array) is out.array
        assert_close(out.read(), expected, rounded(expected, bound, np.dtype(out_dtype)))


@pytest.mark.parametrize("shape", [(50, 40, 3), (20, 150, 3)], ids=str)
def test_panels_in_place_with_an_activation(xp, shape):
    x = random(np.random.default_rng(74), shape, np.dtype(np.float32))
    array, padded = xp.asarray(x), place(xp, x, "padded lines")
    with xp.planned_for(multiprocessors=1):
        assert mean_variance_normalization(array, axes=1, activation="tanh", out=array) is array
        of_padded = mean_variance_normalization(padded, axes=1, activation="tanh")
    assert_same_bits(xp.to_numpy(array), xp.to_numpy(of_padded))


#: Panels, groups and elements of a run: tiles that end in runs, runs shorter than a chunk, some elements behind the
#: last vector, more groups than a warp has lanes, more vectors than 256 threads have, and a tile of one span.
PANELS_OF_ALL = [(1003, 3, 7), (701, 5, 5), (151, 21, 11), (209, 57, 3), (4201, 3, 3), (301, 3, 147), (60, 201, 3)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("scaled", ["groups", "groups and steps", "not at all"])
@pytest.mark.parametrize("shape", PANELS_OF_ALL, ids=str)
def test_panels_of_all_groups_have_the_bits_of_padded_rows(xp, shape, scaled, dtype):
    rng = np.random.default_rng(75)
    x = random(rng, shape, np.dtype(dtype))
    scale = random(rng, (1, shape[1], 1), np.float32) if scaled == "groups" else None
    bias = random(rng, (shape[1] if scaled == "groups" else 1, shape[2]), dtype) if scaled != "not at all" else None
    with xp.planned_for(multiprocessors=1):  # for which they are many
        check(xp, x, (0, 2), scale, bias)
        dense, padded = (
            mean_variance_normalization(place(xp, x, pattern), on(xp, scale), on(xp, bias), axes=(0, 2))
            for pattern in ("contiguous", "padded lines")
        )
    assert_same_bits(xp.to_numpy(dense), xp.to_numpy(padded))


@pytest.mark.parametrize(("shape", "dtype"), [((4001, 33), np.float16), ((50_001, 3), np.float16)])
def test_odd_rows_of_halves_have_the_bits_of_padded_rows(xp, shape, dtype):
    x = random(np.random.default_rng(76), shape, np.dtype(dtype))
    with xp.planned_for(multiprocessors=1):
        check(xp, x, (0,), random(np.random.default_rng(77), (shape[1],), np.float32))
        dense, padded = (
            mean_variance_normalization(place(xp, x, pattern), axes=0) for pattern in ("contiguous", "padded lines")
        )
    assert_same_bits(xp.to_numpy(dense), xp.to_numpy(padded))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((3301, 3, 7), np.float32), ((2405, 37, 3), np.float16), ((3401, 4, 5), np.float64)]
)
def test_moments_of_panels_of_all_groups(xp, shape, dtype):
    x = random(np.random.default_rng(78), shape, np.dtype(dtype))
    with xp.planned_for(multiprocessors=1):
        check_moments(xp, x, (0, 2))
        dense, padded = (mean_var(place(xp, x, pattern), (0, 2)) for pattern in ("contiguous", "padded lines"))
    for of_dense, of_padded in zip(dense, padded, strict=True):
        assert_same_bits(xp.to_numpy(of_dense), xp.to_numpy(of_padded))


@pytest.mark.parametrize(("dtype", "out_dtype"), [(np.float16, np.float64), (np.float64, np.float16)])
def test_panels_of_all_groups_with_other_outputs(xp, dtype, out_dtype):
    x = random(np.random.default_rng(79), (401, 3, 5), np.dtype(dtype))
    out = Poisoned(xp, x.shape, np.dtype(out_dtype), "contiguous")
    with xp.planned_for(multiprocessors=1):
        mean_variance_normalization(xp.asarray(x), axes=(0, 2), out=out.array)
    expected, bound = normalization_reference(x, (0, 2))
    assert_close(out.read(), expected, rounded(expected, bound, np.dtype(out_dtype)))


def test_columns_of_panels_keep_what_is_not_finite(xp):
    x = random(np.random.default_rng(82), (41, 100, 3), np.dtype(np.float32))
    x[0, 0, 0], x[40, 50, 1] = np.inf, np.nan
    with xp.planned_for(multiprocessors=1), np.errstate(invalid="ignore"):
        y = xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=1))
    assert np.isnan(y[0, :, 0]).all()
    assert np.isnan(y[40, :, 1]).all()
    expected, bound = normalization_reference(x[1:40], (1,))
    assert_close(y[1:40], expected, rounded(expected, bound, np.dtype(np.float32)))


def test_groups_of_panels_keep_what_is_not_finite(xp):
    x = random(np.random.default_rng(80), (901, 3, 5), np.dtype(np.float32))
    x[0, 0, 0], x[450, 1, 2] = np.inf, np.nan
    with xp.planned_for(multiprocessors=1), np.errstate(invalid="ignore"):
        y = xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=(0, 2)))
    assert np.isnan(y[:, :2]).all()
    expected, bound = normalization_reference(x[:, 2:], (0, 2))
    assert_close(y[:, 2:], expected, rounded(expected, bound, np.dtype(np.float32)))


def test_panels_of_all_groups_in_place_with_an_activation(xp):
    x = random(np.random.default_rng(81), (701, 3, 7), np.dtype(np.float32))
    array, padded = xp.asarray(x), place(xp, x, "padded lines")
    with xp.planned_for(multiprocessors=1):
        assert mean_variance_normalization(array, axes=(0, 2), activation="tanh", out=array) is array
        of_padded = mean_variance_normalization(padded, axes=(0, 2), activation="tanh")
    assert_same_bits(xp.to_numpy(array), xp.to_numpy(of_padded))


@all_patterns
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_layout_of_input_and_output(xp, pattern, dtype):
    x = random(np.random.default_rng(21), (6, 35, 9), dtype)
    for axes in ((0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)):
        expected = xp.to_numpy(mean_variance_normalization(xp.asarray(x), 2.0, axes=axes, activation="tanh"))
        out = Poisoned(xp, x.shape, dtype, pattern)
        mean_variance_normalization(place(xp, x, pattern), 2.0, axes=axes, activation="tanh", out=out.array)
        assert_same_bits(out.read(), expected)


def test_result_lies_in_the_order_of_the_input(xp):
    x = random(np.random.default_rng(31), (6, 5, 4), np.float32)
    turned = xp.asarray(x).transpose(2, 0, 1)
    result = mean_variance_normalization(turned, axes=0)
    assert result.strides == turned.strides
    assert_same_bits(
        xp.to_numpy(result), xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=2)).transpose(2, 0, 1)
    )


@all_patterns
def test_in_place(xp, pattern):
    x = random(np.random.default_rng(22), (5, 300, 3), np.float32)
    for axes in ((0,), (1,), (2,), (0, 2), (0, 1, 2)):
        array = place(xp, x, pattern)
        assert mean_variance_normalization(array, axes=axes, out=array) is array
        assert_same_bits(xp.to_numpy(array), xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=axes)))


def test_in_place_over_a_large_group(xp):
    x = random(np.random.default_rng(23), (400_003,), np.float32)
    array = xp.asarray(x)
    mean_variance_normalization(array, axes=0, out=array)
    assert_same_bits(xp.to_numpy(array), xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=0)))


def test_broadcast_input(xp):
    values = random(np.random.default_rng(24), (3, 1), np.float32)
    result = mean_variance_normalization(xp.broadcast_to(xp.asarray(values), (3, 500)), axes=0)
    expected, bound = normalization_reference(np.broadcast_to(values, (3, 500)), (0,))
    assert_close(xp.to_numpy(result), expected, rounded(expected, bound, np.float32))


@pytest.mark.parametrize(("shape", "axes"), [((3, 20_001), (1,)), ((20_001, 3), (0,)), ((300_007,), (0,))])
def test_same_bits_every_time(xp, shape, axes):
    x = xp.asarray(random(np.random.default_rng(25), shape, np.float32))
    first = xp.to_numpy(mean_variance_normalization(x, axes=axes))
    for _ in range(3):
        assert_same_bits(xp.to_numpy(mean_variance_normalization(x, axes=axes)), first)


OTHER_GPUS = {
    "a few blocks": {"multiprocessors": 2},
    "more blocks": {"multiprocessors": 7},
    "blocks that share nothing": {"cluster_launch": False},
    "no bulk copies": {"compute_capability": (8, 6), "shared_bytes_per_block": 101_376},
    "no asynchronous copies": {"compute_capability": (7, 5), "shared_bytes_per_block": 65_536},
    "blocks that cannot wait for each other": {"cooperative_launch": False},
    "no clusters": {"compute_capability": (8, 0)},
}


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("gpu", OTHER_GPUS)
@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 20_001), (1,)), ((1, 120_000), (1,)), ((6, 3, 6000), (0, 2)), ((1100, 100), (0,))]
)
def test_other_gpus_give_the_same_bits(xp, shape, axes, gpu):
    """Read once from the memory of all blocks, or twice; by bulk copies or not."""
    rng = np.random.default_rng(32)
    x, scale = random(rng, shape, np.float32), random(rng, (shape[-1],), np.float32)
    expected = xp.to_numpy(mean_variance_normalization(xp.asarray(x), xp.asarray(scale), axes=axes))
    with xp.planned_for(**OTHER_GPUS[gpu]):
        got = xp.to_numpy(mean_variance_normalization(xp.asarray(x), xp.asarray(scale), axes=axes))
    assert_same_bits(got, expected)
    assert_close(got, *normalization_reference(x, axes, scale))


BUNDLES = {
    "runs": ((30, 24, 7, 7), (0, 2, 3)),
    "short runs": ((301, 40, 3), (0, 2)),
    "runs of one in two": ((30, 2, 24, 5, 5), (0, 3, 4)),
    "channels last": ((2, 31, 33, 8, 5), (1, 2, 4)),
    "tiles": ((251, 8, 7, 7), (0, 2, 3)),
    "columns": ((1050, 32), (0,)),
    "columns of columns": ((2, 1050, 16), (1,)),
}


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("groups", BUNDLES)
@pytest.mark.parametrize("room", [{}, {"shared_bytes_per_block": 24_000}], ids=["of blocks", "of clusters"])
@all_floats
def test_bundles_give_the_same_bits(xp, groups, room, dtype):
    """A GPU that small arrays fill holds several groups to a block, or to a cluster of them, in shared memory."""
    shape, axes = BUNDLES[groups]
    rng = np.random.default_rng(33)
    kept = tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    x, scale, bias = random(rng, shape, dtype), random(rng, kept, dtype), random(rng, kept, dtype)
    arrays = [xp.asarray(array) for array in (x, scale, bias)]
    expected = xp.to_numpy(mean_variance_normalization(*arrays, axes=axes, activation="relu"))
    with xp.planned_for(multiprocessors=1, **room):
        assert_same_bits(xp.to_numpy(mean_variance_normalization(*arrays, axes=axes, activation="relu")), expected)
        mean_variance_normalization(*arrays, axes=axes, activation="relu", out=arrays[0])
    assert_same_bits(xp.to_numpy(arrays[0]), expected)


@pytest.mark.backend("cuda", "emulated")
@all_patterns
@pytest.mark.parametrize(
    ("shape", "axes", "clusters"),
    [((2, 20_001), (1,), True), ((2, 20_001), (1,), False), ((1040, 64), (0,), True), ((8300, 64), (0,), True)],
)
def test_layout_of_large_groups(xp, pattern, shape, axes, clusters):
    x = random(np.random.default_rng(33), shape, np.float32)
    expected = xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=axes))
    out = Poisoned(xp, x.shape, np.float32, pattern)
    with xp.planned_for(cluster_launch=clusters):
        mean_variance_normalization(place(xp, x, pattern), axes=axes, out=out.array)
    assert_same_bits(out.read(), expected)


# Input and output that are dense along axes of their own: tiles turn one into the other.
TURNED = {
    "groups down": ((133, 210), (1,), "transposed", "contiguous"),
    "groups across": ((133, 210), (0,), "transposed", "contiguous"),
    "one group": ((133, 210), (0, 1), "transposed", "contiguous"),
    "into columns": ((150, 300), (1,), "contiguous", "transposed"),
    "into padded lines": ((128, 256), (1,), "transposed", "padded lines"),
    "from shifted columns": ((128, 256), (0,), "offset by an element", "transposed"),
    "channels first": ((3, 7, 20, 48), (0, 1, 2), "contiguous", "rolled axes"),
    "channels last": ((3, 5, 20, 48), (1, 2), "rolled axes", "contiguous"),
    "long groups": ((2100, 70), (0,), "transposed", "contiguous"),
    "groups outside of tiles": ((40, 2, 50), (1,), "transposed", "contiguous"),
    "held": ((230, 790), (1,), "transposed", "contiguous"),
    "held short groups": ((3, 100, 390), (1,), "contiguous", "rolled axes"),
    "strips of a turned input": ((904, 144), (0,), "transposed", "contiguous"),
    "strips of a turned output": ((904, 144), (0,), "contiguous", "transposed"),
}


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", [*FLOATS, BOOL, INTEGERS[0]], ids=str)
@pytest.mark.parametrize("turned", TURNED)
def test_turned_layouts_give_the_same_bits(xp, turned, dtype):
    shape, axes, pattern, out_pattern = TURNED[turned]
    rng = np.random.default_rng(37)
    x, scale = random(rng, shape, dtype), random(rng, shape[-1:], np.float32)
    expected = mean_variance_normalization(xp.asarray(x), xp.asarray(scale), 0.5, axes=axes, activation="tanh")
    out = Poisoned(xp, shape, expected.dtype, out_pattern)
    with xp.planned_for(multiprocessors=2):
        mean_variance_normalization(
            place(xp, x, pattern), xp.asarray(scale), 0.5, axes=axes, activation="tanh", out=out.array
        )
    assert_same_bits(out.read(), xp.to_numpy(expected))


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("pattern", ["padded lines", "every second", "backwards", "offset by an element"])
def test_strips_of_any_layout_give_the_same_bits(xp, pattern, dtype):
    rng = np.random.default_rng(40)
    x, scale = random(rng, (1100, 300), dtype), random(rng, (1100, 1), np.float32)
    expected = mean_variance_normalization(xp.asarray(x), xp.asarray(scale), 0.5, axes=0)
    out = Poisoned(xp, x.shape, expected.dtype, "padded lines")
    with xp.planned_for(multiprocessors=3):
        mean_variance_normalization(place(xp, x, pattern), xp.asarray(scale), 0.5, axes=0, out=out.array)
    assert_same_bits(out.read(), xp.to_numpy(expected))


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtypes", list(itertools.permutations(FLOATS, 2)), ids=str)
def test_turned_layouts_of_other_dtypes(xp, dtypes, axis):
    dtype, out_dtype = dtypes
    x = random(np.random.default_rng(38), (131, 200), dtype)
    expected = mean_variance_normalization(xp.asarray(x), axes=axis, out=xp.asarray(np.empty(x.shape, out_dtype)))
    out = Poisoned(xp, x.shape, out_dtype)
    with xp.planned_for(multiprocessors=1):
        mean_variance_normalization(place(xp, x, "transposed"), axes=axis, out=out.array)
    assert_same_bits(out.read(), xp.to_numpy(expected))


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("scale_shape", [None, (), (80,), (133, 1), (133, 80), (4, 1, 1), (4, 1, 80)], ids=str)
@pytest.mark.parametrize("pattern", ["contiguous", "transposed", "offset by a byte"])
def test_scale_and_bias_of_turned_layouts(xp, scale_shape, pattern):
    rng = np.random.default_rng(39)
    x = random(rng, (4, 133, 80), np.float32)
    scale = None if scale_shape is None else random(rng, scale_shape, np.float16)
    bias = random(rng, (133, 1), np.float32)
    for axes in ((1,), (2,), (1, 2)):
        expected = mean_variance_normalization(xp.asarray(x), on(xp, scale), xp.asarray(bias), axes=axes)
        placed = None if scale is None else place(xp, scale, pattern)
        out = Poisoned(xp, x.shape, np.float32)
        with xp.planned_for(multiprocessors=2):
            mean_variance_normalization(
                place(xp, x, "transposed"), placed, place(xp, bias, pattern), axes=axes, out=out.array
            )
        assert_same_bits(out.read(), xp.to_numpy(expected))


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("scale_shape", [None, (), (200,), (70, 1), (70, 200), (1, 1, 200), (3, 70, 200)], ids=str)
@pytest.mark.parametrize("pattern", ["contiguous", "transposed", "offset by a byte"])
def test_scale_and_bias_of_held_tiles(xp, scale_shape, pattern):
    rng = np.random.default_rng(45)
    x, bias = random(rng, (3, 70, 200), np.float32), random(rng, (70, 1), np.float32)
    scale = None if scale_shape is None else random(rng, scale_shape, np.float16)
    expected = mean_variance_normalization(xp.asarray(x), on(xp, scale), xp.asarray(bias), axes=2)
    turned = xp.asarray(np.ascontiguousarray(x.transpose(0, 2, 1))).transpose(0, 2, 1)
    out = Poisoned(xp, x.shape, np.float32)
    with xp.planned_for(multiprocessors=1):
        placed = None if scale is None else place(xp, scale, pattern)
        mean_variance_normalization(turned, placed, place(xp, bias, pattern), axes=2, out=out.array)
    assert_same_bits(out.read(), xp.to_numpy(expected))


@pytest.mark.backend("cuda", "emulated")
@all_floats
def test_statistics_of_turned_layouts(xp, dtype):
    x = random(np.random.default_rng(40), (5, 48, 90), dtype)
    expected = batch_norm(xp.asarray(x), return_statistics=True)
    out = Poisoned(xp, x.shape, dtype)
    with xp.planned_for(multiprocessors=2):
        y, *statistics = batch_norm(place(xp, x, "rolled axes"), out=out.array, return_statistics=True)
    assert y is out.array
    assert_same_bits(out.read(), xp.to_numpy(expected[0]))
    for got, wanted in zip(statistics, expected[1:], strict=True):
        assert_same_bits(xp.to_numpy(got), xp.to_numpy(wanted))


BROADCAST_OVER_LARGE_GROUPS = {
    ((3, 4, 5000), (1, 2)): [
        ((5000,), (4, 1)),
        ((3, 1, 1), None),
        (None, (4, 5000)),
        ((4, 1), (3, 4, 5000)),
        ((), (3, 1, 5000)),
    ],
    ((300, 4, 64), (0, 1)): [
        ((64,), (64,)),
        ((4, 1), (300, 1, 1)),
        (None, (300, 4, 64)),
        ((), (4, 64)),
        ((300, 1, 64), None),
    ],
    ((2100, 4, 64), (0, 1)): [((4, 64), (2100, 1, 1)), (None, (64,))],
}


@pytest.mark.parametrize(
    ("shape", "axes", "scale_shape", "bias_shape"),
    [(*large, *shapes) for large, pairs in BROADCAST_OVER_LARGE_GROUPS.items() for shapes in pairs],
    ids=str,
)
def test_scale_and_bias_broadcast_over_large_groups(xp, shape, axes, scale_shape, bias_shape):
    rng = np.random.default_rng(35)
    x = random(rng, shape, np.float32)
    scale, bias = (None if of is None else random(rng, of, np.float32) for of in (scale_shape, bias_shape))
    check(xp, x, axes, scale, bias)


@pytest.mark.backend("cuda", "emulated")
@all_patterns
@pytest.mark.parametrize(("shape", "axes"), BROADCAST_OVER_LARGE_GROUPS)
def test_layout_of_scale_and_bias_of_large_groups(xp, pattern, shape, axes):
    rng = np.random.default_rng(36)
    x, scale, bias = (random(rng, of, np.float32) for of in (shape, shape[1:], shape[2:]))
    expected = mean_variance_normalization(xp.asarray(x), xp.asarray(scale), xp.asarray(bias), axes=axes)
    got = mean_variance_normalization(xp.asarray(x), place(xp, scale, pattern), place(xp, bias, pattern), axes=axes)
    assert_same_bits(xp.to_numpy(got), xp.to_numpy(expected))


# Activations: DirectML's formulas, written down again in long double.


def normal_cdf(x):
    """By Marsaglia's series near 0 and the continued fraction of Mills' ratio in the tails."""
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.arccos(np.longdouble(-1)))
    if abs(x) < 1.5:
        term = total = x
        for k in range(3, 80, 2):
            term = term * x * x / k
            total = total + term
        return np.longdouble(0.5) + density * total
    ratio = abs(x)
    for k in range(400, 0, -1):
        ratio = abs(x) + k / ratio
    return density / ratio if x < 0 else 1 - density / ratio


FORMULAS = {
    "celu": lambda x, alpha: max(0, x) + min(0, alpha * np.expm1(x / alpha)),
    "elu": lambda x, alpha: x if x >= 0 else alpha * np.expm1(x),
    "gelu": lambda x: x * normal_cdf(x),
    "hard_sigmoid": lambda x, alpha, beta: max(0, min(alpha * x + beta, 1)),
    "identity": lambda x: x,
    "leaky_relu": lambda x, alpha: x if x >= 0 else alpha * x,
    "linear": lambda x, alpha, beta: alpha * x + beta,
    "parametric_softplus": lambda x, alpha, beta: alpha * np.log1p(np.exp(beta * x)),
    "relu": lambda x: max(0, x),
    "scaled_elu": lambda x, alpha, gamma: gamma * x if x > 0 else gamma * alpha * np.expm1(x),
    "scaled_tanh": lambda x, alpha, beta: alpha * np.tanh(beta * x),
    "shrink": lambda x, bias, threshold: x - bias if x > threshold else x + bias if x < -threshold else 0,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x, steepness: np.log1p(np.exp(steepness * x)) / steepness,
    "softsign": lambda x: x / (1 + abs(x)),
    "tanh": lambda x: np.tanh(x),
    "thresholded_relu": lambda x, alpha: x if x > alpha else 0,
}
OTHER_PARAMETERS = {
    "celu": (2.5,),
    "elu": (0.3,),
    "hard_sigmoid": (0.5, 0.25),
    "leaky_relu": (0.2,),
    "linear": (-2.0, 0.75),
    "parametric_softplus": (3.0, 0.5),
    "scaled_elu": (1.5, 2.0),
    "scaled_tanh": (1.7, 0.66),
    "shrink": (0.25, 1.5),
    "softplus": (3.0,),
    "thresholded_relu": (0.125,),  # exact in every type: the formula jumps there
}
ACTIVATIONS = [Activation.named(name) for name in PARAMETERS]
ACTIVATIONS += [Activation(name, parameters) for name, parameters in OTHER_PARAMETERS.items()]
all_activations = pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: f"{a.name}{a.parameters or ''}")


def activated(activation, values):
    parameters = [np.longdouble(parameter) for parameter in activation.parameters]
    with np.errstate(over="ignore"):
        return np.array([FORMULAS[activation.name](x, *parameters) for x in values.reshape(-1).astype(np.longdouble)])


def apply(xp, activation, values):
    """The activation of `values` alone: a group of one element leaves nothing but the bias to it."""
    zeros = xp.asarray(np.zeros_like(values))
    return xp.to_numpy(mean_variance_normalization(zeros, bias=xp.asarray(values), axes=(), activation=activation))


def test_there_are_seventeen():
    assert len(PARAMETERS) == 17
    assert set(FORMULAS) == set(PARAMETERS)


@all_floats
@all_activations
def test_activation_formula(xp, activation, dtype):
    """Relative error: exp turns the rounding of its argument into |x| u, erfc into x^2 u."""
    rng = np.random.default_rng(26)
    edges = np.array([0.0, 1e-7, 1e-5, 1e-3, 0.125, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 8.0, 20.0, 88.0, 90.0, 104.0, 600.0])
    values = np.concatenate([edges, -edges, rng.standard_normal(200) * 3, rng.standard_normal(50) * 30]).astype(dtype)
    expected = activated(activation, values)
    x = np.abs(values.astype(np.longdouble))
    growth = 1 + (x * x if activation.name == "gelu" else x * max(1, *map(abs, activation.parameters), 1))
    scale = np.abs(expected) + (np.abs(x) if activation.name in {"linear", "hard_sigmoid"} else 0)
    parameters = sum(abs(parameter) for parameter in activation.parameters)
    additive = parameters if activation.name in {"linear", "hard_sigmoid", "shrink"} else 0.0
    unit = accumulator_roundoff(dtype)
    normal = 2.0**-1022 if dtype == np.float64 else 2.0**-126
    bound = 16 * unit * growth * scale + 4 * unit * additive + normal
    assert_close(apply(xp, activation, values), expected, rounded(expected, bound, dtype))


@pytest.mark.parametrize("activation", ACTIVATIONS[:17], ids=lambda a: a.name)
def test_activation_by_name_after_normalization(xp, activation):
    x = random(np.random.default_rng(27), (4, 100), np.float32)
    normalized, bound = normalization_reference(x, (1,), 2.0, 0.5)
    expected = activated(activation, normalized).reshape(x.shape)
    steepest = 2.0  # no activation with default parameters is steeper, apart from jumps
    got = xp.to_numpy(mean_variance_normalization(xp.asarray(x), 2.0, 0.5, axes=1, activation=activation.name))
    jumps = {"thresholded_relu": 1.0, "shrink": 0.5}
    distance = np.abs(np.abs(normalized) - jumps.get(activation.name, -1.0))
    assert (distance > 1e-6).all(), "the data must keep off the jumps"
    allowed = steepest * bound + 32 * UNIT_ROUNDOFF["float32"] * (1 + np.abs(expected))
    assert_close(got, expected, rounded(expected, allowed, np.float32))


@pytest.mark.parametrize("name", ["scaled_tanh", "softplus"])
@pytest.mark.parametrize("groups", LARGE_GROUPS)
def test_activation_of_large_groups(xp, groups, name):
    shape, axes = LARGE_GROUPS[groups]
    activation = Activation(name, OTHER_PARAMETERS[name])
    x = noise(shape, 3).astype(np.float32)
    normalized, bound = normalization_reference(x, axes, 2.0, 0.5)
    expected = activated(activation, normalized).reshape(shape)
    got = mean_variance_normalization(xp.asarray(x), 2.0, 0.5, axes=axes, activation=activation)
    allowed = 2 * bound + 32 * UNIT_ROUNDOFF["float32"] * (1 + np.abs(expected))
    assert_close(xp.to_numpy(got), expected, rounded(expected, allowed, np.float32))


LIMITS = {
    "celu": (-1, np.inf),
    "elu": (-1, np.inf),
    "hard_sigmoid": (0, 1),
    "identity": (-np.inf, np.inf),
    "leaky_relu": (-np.inf, np.inf),
    "linear": (-np.inf, np.inf),
    "parametric_softplus": (0, np.inf),
    "relu": (0, np.inf),
    "scaled_tanh": (-1, 1),
    "shrink": (-np.inf, np.inf),
    "sigmoid": (0, 1),
    "softplus": (0, np.inf),
    "softsign": (-1, 1),
    "tanh": (-1, 1),
    "thresholded_relu": (0, np.inf),
}


@all_floats
@pytest.mark.parametrize("name", LIMITS)
def test_activation_of_infinity_and_huge_values(xp, name, dtype):
    huge = 6e4 if dtype == np.float16 else 1e30
    low, nearly_low, nearly_high, high = apply(xp, name, np.array([-np.inf, -huge, huge, np.inf], dtype)).astype(float)
    assert (low, high) == LIMITS[name]
    assert not np.isnan([nearly_low, nearly_high]).any()
    for near, limit in ((nearly_low, low), (nearly_high, high)):
        assert near == limit or np.isinf(limit)


def test_activations_in_float64_neither_overflow_nor_vanish_early():
    def activated(name, x, *parameters):
        with np.errstate(all="ignore"):  # as the backend does
            return activate(Activation(name, parameters), np.array([x]))[0]

    assert activated("celu", 2.0, 0.0) == 2
    assert activated("sigmoid", -720.0) == pytest.approx(np.exp(-720.0), rel=1e-9)
    assert activated("softplus", 122.0, 1e308) == 122
    assert activated("softplus", -2.0, 3.0) == pytest.approx(np.log1p(np.exp(-6.0)) / 3)


@pytest.mark.parametrize("name", PARAMETERS)
def test_activation_keeps_nan(xp, name):
    result = apply(xp, name, np.array([1.0, np.nan, -1.0], np.float32))
    assert np.isnan(result).tolist() == [False, True, False]


# The wrappers.


def test_layer_norm(xp):
    rng = np.random.default_rng(28)
    x = random(rng, (3, 4, 5, 6), np.float32)
    for shape in ((6,), (5, 6), (4, 5, 6), (3, 4, 5, 6)):
        weight, bias = random(rng, shape, np.float32), random(rng, shape, np.float32)
        axes = tuple(range(4 - len(shape), 4))
        expected, bound = normalization_reference(x, axes, weight, bias, epsilon=0.01)
        out = Poisoned(xp, x.shape, np.float32)
        layer_norm(xp.asarray(x), shape, xp.asarray(weight), xp.asarray(bias), 0.01, out=out.array)
        assert_close(out.read(), expected, rounded(expected, bound, np.float32))
    plain = mean_variance_normalization(xp.asarray(x), axes=3)
    assert_same_bits(xp.to_numpy(layer_norm(xp.asarray(x), 6)), xp.to_numpy(plain))


def channels(values, ndim):
    """Per-channel parameters as they broadcast along axis 1."""
    return values.reshape(1, -1, *(1,) * (ndim - 2))


@pytest.mark.parametrize("shape", [(3, 4, 30), (2, 5, 6, 7), (2, 3, 2, 3, 4)], ids=str)
def test_instance_norm(xp, shape):
    rng = np.random.default_rng(29)
    x, weight, bias = (
        random(rng, shape, np.float32),
        random(rng, shape[1], np.float32),
        random(rng, shape[1], np.float32),
    )
    axes = tuple(range(2, len(shape)))
    expected, bound = normalization_reference(x, axes, channels(weight, x.ndim), channels(bias, x.ndim))
    out = Poisoned(xp, shape, np.float32)
    instance_norm(xp.asarray(x), xp.asarray(weight), xp.asarray(bias), out=out.array)
    assert_close(out.read(), expected, rounded(expected, bound, np.float32))


@all_patterns
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_group_norm(xp, groups, pattern):
    """Any layout of x and out is read and written in place: cutting the channels into groups copies nothing."""
    rng = np.random.default_rng(30)
    shape = (2, 6, 5, 7)
    x, weight, bias = random(rng, shape, np.float32), random(rng, 6, np.float32), random(rng, 6, np.float32)
    grouped = x.reshape(2, groups, 6 // groups, 5, 7)
    expected, bound = normalization_reference(grouped, (2, 3, 4))
    expected, bound = expected.reshape(shape), bound.reshape(shape)
    scale, shift = channels(weight, 4).astype(np.longdouble), channels(bias, 4).astype(np.longdouble)
    expected, bound = expected * scale + shift, bound * np.abs(scale)
    bound = bound + 4 * UNIT_ROUNDOFF["float32"] * (np.abs(expected) + np.abs(shift))
    out = Poisoned(xp, shape, np.float32, pattern)
    result = group_norm(place(xp, x, pattern), groups, xp.asarray(weight), xp.asarray(bias), out=out.array)
    assert result is out.array
    assert_close(out.read(), expected, rounded(expected, bound, np.float32))
    allocated = group_norm(place(xp, x, pattern), groups, xp.asarray(weight), xp.asarray(bias))
    assert_close(xp.to_numpy(allocated), expected, rounded(expected, bound, np.float32))


def test_group_norm_in_place(xp):
    x = random(np.random.default_rng(31), (2, 6, 5, 7), np.float32)
    array = xp.asarray(x)
    assert group_norm(array, 3, out=array) is array
    assert_same_bits(xp.to_numpy(array), xp.to_numpy(group_norm(xp.asarray(x), 3)))


@all_floats
@pytest.mark.parametrize("shape", [(20, 3), (4, 3, 9), (4, 5, 6, 7)], ids=str)
def test_batch_norm(xp, shape, dtype):
    rng = np.random.default_rng(32)
    x, weight, bias = random(rng, shape, dtype), random(rng, shape[1], dtype), random(rng, shape[1], dtype)
    axes = (0, *range(2, len(shape)))
    expected, bound = normalization_reference(x, axes, channels(weight, x.ndim), channels(bias, x.ndim))
    arrays = xp.asarray(x), xp.asarray(weight), xp.asarray(bias)
    _, *statistics = batch_norm(*arrays, out=xp.asarray(x.astype(np.float64)), return_statistics=True)
    assert [statistic.dtype for statistic in statistics] == [np.float64] * 2
    y, mean, variance = batch_norm(*arrays, return_statistics=True)
    assert_close(xp.to_numpy(y), expected, rounded(expected, bound, dtype))
    assert_same_bits(xp.to_numpy(batch_norm(*arrays)), xp.to_numpy(y))
    _, mean_reference, variance_reference = moments_reference(x, axes)
    unit, n = accumulator_roundoff(dtype), group_size(shape, axes)
    assert mean.dtype == variance.dtype == dtype
    allowed = (additions(n) + 4) * unit * np.sqrt(variance_reference)
    assert_close(xp.to_numpy(mean), mean_reference.reshape(-1), rounded(mean_reference, allowed, dtype).reshape(-1))
    allowed = 2 * (additions(n) + 4) * unit * variance_reference
    assert_close(
        xp.to_numpy(variance), variance_reference.reshape(-1), rounded(variance_reference, allowed, dtype).reshape(-1)
    )


def test_wrappers_take_an_activation_and_a_strided_weight(xp):
    rng = np.random.default_rng(33)
    x, weight = random(rng, (2, 4, 30), np.float32), random(rng, 8, np.float32)
    strided = xp.asarray(weight)[::2]
    expected, bound = normalization_reference(x, (2,), channels(weight[::2], 3))
    for result in (
        instance_norm(xp.asarray(x), strided, activation="relu"),
        group_norm(xp.asarray(x), 4, strided, activation="relu"),
    ):
        assert_close(xp.to_numpy(result), np.maximum(expected, 0), rounded(expected, bound, np.float32))
    y = batch_norm(xp.asarray(x), strided, activation=Activation("linear", (0.0, 7.0)))
    assert (xp.to_numpy(y) == 7).all()
    assert (xp.to_numpy(layer_norm(xp.asarray(x), 30, activation="hard_sigmoid")) <= 1).all()
