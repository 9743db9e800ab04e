"""Normalization of arrays of all layouts: the same bits, whatever the strides, the alignment or the GPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from layouts import Poisoned, place
from normalization_checks import all_floats, all_patterns, check, normalization_reference, on, rounded
from reference import BOOL, FLOATS, INTEGERS, assert_close, assert_same_bits, random

from cudml.normalization import batch_norm, mean_var, mean_variance_normalization


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
    [((2, 20_001), (1,), True), ((2, 20_001), (1,), False), ((1040, 32), (0,), True), ((8300, 64), (0,), True)],
)
def test_layout_of_large_groups(xp, pattern, shape, axes, clusters):
    x = random(np.random.default_rng(33), shape, np.float32)
    expected = xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=axes))
    out = Poisoned(xp, x.shape, np.float32, pattern)
    with xp.planned_for(cluster_launch=clusters):
        mean_variance_normalization(place(xp, x, pattern), axes=axes, out=out.array)
    assert_same_bits(out.read(), expected)


# Rows of a few channels: of which array, over which axes, and which of its channels.
NARROW_ROWS = {
    "images": ((3, 96, 100, 3), (1, 2), slice(None)),
    "images that end anywhere": ((2, 97, 95, 3), (1, 2), slice(None)),
    "some channels": ((3, 48, 53, 4), (1, 2), slice(3)),
    "other channels": ((3, 48, 53, 4), (1, 2), slice(1, None)),
    "whole vectors": ((2, 64, 64, 4), (1, 2), slice(2)),
    "two of three": ((3, 48, 53, 3), (1, 2), slice(2)),
    "channels of all images": ((2, 50, 48, 4), (0, 1, 2), slice(3)),
    "lines": ((3, 9, 512, 4), (2,), slice(3)),
    "lines that end anywhere": ((3, 9, 334, 4), (2,), slice(3)),
    "lines of two channels": ((33, 250, 4), (1,), slice(2)),
    "twenty channels": ((3, 50, 50, 20), (1, 2), slice(None)),
    "groups of images": ((2, 3, 2, 52, 42, 4), (2, 3, 4), slice(3)),
}


def values_of_rows(rows, dtype):
    """Of all channels; which of them, and where these lie if they come first, so that groups are lines; and the axes of
    both."""
    shape, axes, channels = NARROW_ROWS[rows]
    rng = np.random.default_rng([37, *shape])
    every = rng.integers(0, 256, shape, dtype) if dtype == np.uint8 else random(rng, shape, dtype)
    lines = np.ascontiguousarray(np.moveaxis(every[..., channels], -1, 0))
    return every, channels, lines, axes, tuple(axis + 1 for axis in axes)


def operands_of_rows(lines, kind):
    """Scale and bias of the lines, if any: of each channel, or a bias of each element."""
    if kind == "none":
        return []
    rng, of_channels = np.random.default_rng([38, *lines.shape]), (lines.shape[0], *[1] * (lines.ndim - 1))
    shapes = (of_channels, of_channels if kind == "of channels" else (1, 1, *lines.shape[2:]))
    return [random(rng, shape, np.float32) for shape in shapes]


@pytest.mark.share(6)
@pytest.mark.parametrize("rows", NARROW_ROWS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("operands", ["none", "of channels", "of elements"])
@pytest.mark.parametrize("out", ["contiguous", "padded lines"])
def test_narrow_rows_give_the_same_bits(xp, rows, dtype, operands, out):
    every, channels, lines, axes, axes_of_lines = values_of_rows(rows, dtype)
    given = operands_of_rows(lines, operands)
    in_lines = mean_variance_normalization(xp.asarray(lines), *map(xp.asarray, given), axes=axes_of_lines)
    expected = np.moveaxis(xp.to_numpy(in_lines), 0, -1)
    target = Poisoned(xp, expected.shape, expected.dtype, out)
    last = [xp.asarray(np.moveaxis(operand, 0, -1)) for operand in given]
    mean_variance_normalization(xp.asarray(every)[..., channels], *last, axes=axes, out=target.array)
    assert_same_bits(target.read(), expected)


@pytest.mark.parametrize("rows", NARROW_ROWS)
@all_floats
def test_narrow_rows_in_place_leave_others_as_they_are(xp, rows, dtype):
    every, channels, lines, axes, axes_of_lines = values_of_rows(rows, dtype)
    array = xp.asarray(every)
    mean_variance_normalization(array[..., channels], axes=axes, out=array[..., channels])
    in_lines = mean_variance_normalization(xp.asarray(lines), axes=axes_of_lines)
    every[..., channels] = np.moveaxis(xp.to_numpy(in_lines), 0, -1)
    assert_same_bits(xp.to_numpy(array), every)


@pytest.mark.parametrize("rows", NARROW_ROWS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.uint8])
def test_moments_of_narrow_rows_have_the_same_bits(xp, rows, dtype):
    every, channels, lines, axes, axes_of_lines = values_of_rows(rows, dtype)
    of_lines = mean_var(xp.asarray(lines), axes_of_lines)
    found = mean_var(xp.asarray(every)[..., channels], axes)
    for expected, moment in zip(of_lines, found, strict=True):
        assert_same_bits(xp.to_numpy(moment), np.moveaxis(xp.to_numpy(expected), 0, -1))


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
@pytest.mark.parametrize("dtype", [np.dtype(name) for name in ("bool", "uint8", "int8", "int16")], ids=str)
@pytest.mark.parametrize("out_dtype", [np.float16, np.float32], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("turned", TURNED)
def test_turned_integers_have_the_bits_of_others_in_float32(xp, turned, dtype, out_dtype):
    shape, axes, pattern, out_pattern = TURNED[turned]
    x = random(np.random.default_rng(39), shape, dtype)
    expected = xp.asarray(np.empty(shape, out_dtype))
    mean_variance_normalization(xp.asarray(x), axes=axes, out=expected)
    out = Poisoned(xp, shape, np.dtype(out_dtype), out_pattern)
    with xp.planned_for(multiprocessors=2):
        mean_variance_normalization(place(xp, x, pattern), axes=axes, out=out.array)
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
    ((275, 4, 32), (0, 1)): [
        ((32,), (32,)),
        ((4, 1), (275, 1, 1)),
        (None, (275, 4, 32)),
        ((), (4, 32)),
        ((275, 1, 32), None),
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
