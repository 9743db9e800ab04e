"""Mean, variance and normalization: statistics, axes, scale and bias, options."""

from __future__ import annotations

import numpy as np
import pytest
from layouts import Poisoned, place
from normalization_checks import (
    SUBSETS,
    all_floats,
    all_patterns,
    check,
    check_moments,
    normalization_reference,
    rounded,
)
from reference import BOOL, FLOATS, INTEGERS, SIZES, assert_close, assert_same_bits, random

from cudml.normalization import mean_var, mean_variance_normalization


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


# Lines of whole chunks, others that begin anywhere, several blocks to a group, columns, and images.
OF_SMALL_INTEGERS = (
    ((9, 64), (1,)),
    ((5, 333), (1,)),
    ((3, 40_001), (1,)),
    ((2, 70_016), (1,)),
    ((40, 7), (0,)),
    ((7, 600), (0,)),
    ((600, 96), (0,)),
    ((4, 3, 17, 19), (0, 2, 3)),
    ((4, 17, 19, 3), (1, 2)),
)


@pytest.mark.parametrize("dtype", [BOOL, *(dtype for dtype in INTEGERS if dtype.itemsize <= 2)], ids=str)
@pytest.mark.parametrize("out_dtype", [np.float16, np.float32], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize(("shape", "axes"), OF_SMALL_INTEGERS)
def test_small_integers_become_narrow_floats(xp, shape, axes, dtype, out_dtype):
    rng = np.random.default_rng([8, *shape])
    x = rng.integers(0, 2, shape).astype(dtype)
    if dtype != BOOL:
        x = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    with xp.planned_for(multiprocessors=3):
        check(xp, x, axes, random(rng, shape[-1:], np.float32), out_dtype=out_dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("value", [0, 1, 127])
def test_constant_groups_of_bytes_give_0(xp, dtype, value):
    x = xp.asarray(np.full((3, 5000), value, dtype))
    mean, variance = mean_var(x, 1)
    np.testing.assert_array_equal(xp.to_numpy(mean), value)
    np.testing.assert_array_equal(xp.to_numpy(variance), 0)
    np.testing.assert_array_equal(xp.to_numpy(mean_variance_normalization(x, axes=1, epsilon=0)), 0)


def test_axes_may_be_an_int_negative_and_unsorted(xp):
    x = xp.asarray(random(np.random.default_rng(7), (3, 4, 5), np.float32))
    expected = xp.to_numpy(mean_variance_normalization(x, axes=(0, 2)))
    assert_same_bits(xp.to_numpy(mean_variance_normalization(x, axes=[-1, 0])), expected)
    one = xp.to_numpy(mean_variance_normalization(x, axes=(1,)))
    assert_same_bits(xp.to_numpy(mean_variance_normalization(x, axes=-2)), one)


SCALE_SHAPES = [(), (1,), (5,), (4, 1), (4, 5), (3, 1, 1), (1, 3, 1, 1), (2, 1, 1, 5), (2, 3, 4, 1), (2, 3, 4, 5)]


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
