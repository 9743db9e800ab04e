"""Normalization of hard data, in every kind of group: few elements and many, side by side and one after the other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from normalization_checks import (
    LARGE_GROUPS,
    all_floats,
    check,
    check_moments,
    moments_reference,
    noise,
    normalization_reference,
    rounded,
)
from reference import HALVES, SMALLEST, UNIT_ROUNDOFF, assert_close, assert_same_bits

from cudml.normalization import mean_var, mean_variance_normalization


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
