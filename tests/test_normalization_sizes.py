"""Normalization of sizes of all kinds, panels and tiles of panels among them."""

from __future__ import annotations

import numpy as np
import pytest
from layouts import Poisoned, place
from normalization_checks import check, check_moments, group_size, normalization_reference, on, rounded
from reference import INTEGERS, SIZES, assert_close, assert_same_bits, random

from cudml.normalization import mean_var, mean_variance_normalization


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


@pytest.mark.backend("cuda")
@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.int16])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1201, 300), (0,)),  # few tiles
        ((513, 3001), (0,)),
        ((700, 17_002), (0,)),  # a block for each strip
        ((2300, 26_000), (0,)),
        ((20_001, 64), (0,)),
        ((40_007, 136), (0,)),
        ((90_001, 101), (0,)),
        ((130_003, 264), (0,)),  # many, in vectors but no whole strips
        ((20, 128, 57, 64), (0, 2)),
        ((13, 40, 61, 107), (0, 2)),
    ],
)
def test_moments_of_columns_of_small_elements(xp, shape, axes, dtype):
    """Of as many as are shared out to the blocks of a whole GPU otherwise."""
    check_moments(xp, random(np.random.default_rng(43), shape, dtype), axes)


@pytest.mark.parametrize("n", [40_001, 70_001])
def test_long_groups_of_bytes(xp, n):
    """Their rows are the longest, and take the most shared memory as doubles."""
    check(xp, random(np.random.default_rng(41), (2, n), INTEGERS[0]), (1,))


@pytest.mark.parametrize(
    ("dtype", "out_dtype"),
    [
        (np.int16, np.float64),
        (np.uint16, np.float32),
        (np.int8, np.float16),
        (np.uint8, np.float32),
        (np.int8, np.float64),
        (np.float16, np.float32),
        (np.float32, np.float64),
        (np.float16, np.float64),
        (np.float32, np.float16),
        (np.float64, np.float16),
    ],
)
@pytest.mark.parametrize("pattern", ["contiguous", "offset by an element"])
@pytest.mark.parametrize(
    "shape",
    [
        *[(300, 45), (300, 48), (7, 301), (40, 704), (5, 4000), (3, 8001)],
        *[(3, 30_001), (3, 40_001), (3, 40_002), (3, 46_080)],
    ],
    ids=str,
)
def test_rows_with_other_outputs(xp, shape, dtype, out_dtype, pattern):
    x = random(np.random.default_rng(83), shape, np.dtype(dtype))
    expected, bound = normalization_reference(x, (1,), out_dtype=out_dtype)
    for multiprocessors in (1, 3):
        out = Poisoned(xp, x.shape, np.dtype(out_dtype), pattern)
        with xp.planned_for(multiprocessors=multiprocessors):
            mean_variance_normalization(place(xp, x, pattern), axes=(1,), out=out.array)
        assert_close(out.read(), expected, rounded(expected, bound, np.dtype(out_dtype)))


@pytest.mark.parametrize(
    ("dtype", "out_dtype"),
    [(np.uint8, np.float32), (np.int8, np.float64), (np.float16, np.float32), (np.float32, np.float64)],
)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((3, 5, 16, 40), (0, 2, 3)), ((3, 5, 30, 30), (0, 2, 3)), ((2, 3, 96, 128), (0, 2, 3)), ((2, 5, 96, 120), (2, 3))],
    ids=str,
)
def test_runs_with_wider_outputs(xp, shape, axes, dtype, out_dtype):
    """However many of a row's pieces lie side by side, the bits are those of elements that lie apart."""
    x = random(np.random.default_rng(89), shape, np.dtype(dtype))
    scale = random(np.random.default_rng(90), (shape[1], 1, 1), np.float32)
    with xp.planned_for(multiprocessors=3):
        check(xp, x, axes, scale, out_dtype=np.dtype(out_dtype))
        dense, apart = (Poisoned(xp, shape, np.dtype(out_dtype), pattern) for pattern in ("contiguous", "every second"))
        for out in (dense, apart):
            mean_variance_normalization(xp.asarray(x), xp.asarray(scale), axes=axes, out=out.array)
    assert_same_bits(dense.read(), apart.read())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("scaled", ["elements", "groups"])
@pytest.mark.parametrize("length", [131, 257, 300, 513, 768, 1193, 1281, 1793, 2305, 3001])
def test_a_few_rows_have_the_bits_of_columns(xp, length, scaled, dtype):
    """Groups that a warp has for itself, and others of as many elements."""
    rng = np.random.default_rng(length)
    x = random(rng, (11, length), np.dtype(dtype))
    scale = random(rng, (1, length) if scaled == "elements" else (11, 1), np.float32)
    with xp.planned_for(multiprocessors=1):  # for which they are many
        check(xp, x, (1,), scale)
        columns = mean_variance_normalization(xp.asarray(x.T.copy()), xp.asarray(scale.T.copy()), axes=0)
        moments = mean_var(xp.asarray(x.T.copy()), axis=0)
        for pattern in ("contiguous", "offset by an element", "padded lines"):
            rows = mean_variance_normalization(place(xp, x, pattern), xp.asarray(scale), axes=1)
            assert_same_bits(xp.to_numpy(rows), xp.to_numpy(columns).T.copy())
            for row, column in zip(mean_var(place(xp, x, pattern), axis=1), moments, strict=True):
                assert_same_bits(xp.to_numpy(row), xp.to_numpy(column))


@pytest.mark.parametrize("dtype", [np.float16, np.float32], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((9, 40), 0),  # blocks have whole columns
        ((67, 5), 0),
        ((300, 34), 0),
        ((513, 3), 0),  # clusters do
        ((700, 20), 0),
        ((1500, 10), 0),
        ((3000, 2), 0),
        ((4200, 6), 0),
        ((3, 900, 16), 1),
    ],
)
def test_few_columns_have_the_bits_of_many(xp, shape, axis, dtype):
    """In narrow strips, for a GPU that has far more multiprocessors than they need, and for others."""
    rng = np.random.default_rng(shape[axis])
    x, channels = random(rng, shape, np.dtype(dtype)), (1,) * (len(shape) - 1) + shape[-1:]
    scale, bias = (xp.asarray(random(rng, channels, np.float32)) for _ in range(2))
    check(xp, x, (axis,), random(rng, channels, np.float32))
    narrow = mean_variance_normalization(xp.asarray(x), scale, bias, axes=axis)
    for properties in ({"cluster_launch": False}, {"multiprocessors": 1}):
        with xp.planned_for(**properties):
            other = mean_variance_normalization(xp.asarray(x), scale, bias, axes=axis)
        assert_same_bits(xp.to_numpy(other), xp.to_numpy(narrow))


@pytest.mark.parametrize("dtype", [np.float16, np.float32], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize(
    ("count", "channels"),
    [
        *((3, channels) for channels in [(10, 64), (20, 33), (3, 1000), (64, 49), (20, 1024)]),
        *((200, channels) for channels in [(28, 4), (2, 7), (3, 9), (8, 36), (20, 5), (16, 2), (64, 5)]),  # short ones
        *((200, channels) for channels in [(5, 2), (3, 6), (4, 2), (90, 6), (75, 2), (31, 12)]),  # of even lengths
        *((200, channels) for channels in [(19, 3), (5, 7), (45, 5), (9, 11), (12, 15), (2, 49)]),  # and of odd ones
        *((20, channels) for channels in [(48, 49), (64, 49)]),  # a warp for each group
    ],
    ids=str,
)
@pytest.mark.parametrize("others", [1, 2])
def test_groups_of_channels_have_the_bits_of_others(xp, count, channels, dtype, others):
    """A scale and a bias of each channel, of all groups or of every second one, of many groups and of few, and of each
    element."""
    rng = np.random.default_rng(channels[0])
    x = random(rng, (count, 2, *channels), np.dtype(dtype))
    operands = [random(rng, (1, others, channels[0], 1), np.float32) for _ in range(2)]
    check(xp, x, (2, 3), operands[0])
    scale, bias = map(xp.asarray, operands)
    found = mean_variance_normalization(xp.asarray(x), scale, bias, axes=(2, 3))
    with xp.planned_for(multiprocessors=1):
        many = mean_variance_normalization(xp.asarray(x), scale, bias, axes=(2, 3))
    each = [xp.asarray(np.broadcast_to(operand, (1, *x.shape[1:])).copy()) for operand in operands]
    for other in (many, mean_variance_normalization(xp.asarray(x), *each, axes=(2, 3))):
        assert_same_bits(xp.to_numpy(other), xp.to_numpy(found))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", [(200, 2, 5, 4, 3), (200, 2, 3, 6, 7), (150, 1, 9, 5, 2), (3, 2, 9, 31, 5)], ids=str)
def test_runs_along_several_axes(xp, shape, dtype):
    """Those of scale and bias differ along other axes, in groups that are many or few."""
    rng = np.random.default_rng(shape)
    x = random(rng, shape, np.dtype(dtype))
    scale, bias = random(rng, (shape[2], 1, 1), np.float32), random(rng, (shape[3], 1), np.float32)
    check(xp, x, (2, 3, 4), scale, bias)
    with xp.planned_for(multiprocessors=1):
        check(xp, x, (2, 3, 4), scale, bias)


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

#: And of whole chunks, normalized in bands: as many as fill blocks, and a few panels more.
PANELS += [(67, 96, 5), (263, 72, 7)]


#: Few of lengths for which bands are best: of several panels in a block, that begin with pieces or anywhere; and many.
PANELS += [(7, 520, 2), (3, 515, 5), (2, 601, 3)]
PANELS_IN_BANDS = [(437, 101, 3), (90, 361, 4), (12, 1000, 11)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("scaled", ["elements", "steps", "columns", "panels", "not at all"])
@pytest.mark.parametrize("shape", PANELS, ids=str)
def test_panels_have_the_bits_of_padded_rows(xp, shape, scaled, dtype):
    rng = np.random.default_rng(71)
    x = random(rng, shape, np.dtype(dtype))
    of_steps = (1, shape[1], 1)
    lengths = {"elements": of_steps, "steps": of_steps, "columns": (1, 1, shape[2]), "panels": (shape[0], 1, 1)}
    scale = random(rng, lengths[scaled], np.float32) if scaled in lengths else None
    of_bias = {"elements": shape[1:], "steps": of_steps}
    bias = random(rng, of_bias[scaled], np.float32) if scaled in of_bias else None
    with xp.planned_for(multiprocessors=1):  # for which they are many
        check(xp, x, (1,), scale, bias)
        dense, padded = (
            mean_variance_normalization(place(xp, x, pattern), on(xp, scale), on(xp, bias), axes=1)
            for pattern in ("contiguous", "padded lines")
        )
    assert_same_bits(xp.to_numpy(dense), xp.to_numpy(padded))


#: A GPU that is full of a few hundred kilobytes, and one whose clusters share panels of a few kilobytes.
@pytest.mark.parametrize("shared", [233_472, 8192, 3000])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", PANELS_IN_BANDS, ids=str)
def test_panels_in_bands_have_the_bits_of_padded_rows(xp, shape, dtype, shared):
    rng = np.random.default_rng(75)
    x, scale, bias = random(rng, shape, np.dtype(dtype)), random(rng, (1, 1, shape[2]), np.float32), 0.5
    with xp.planned_for(multiprocessors=1, shared_bytes_per_multiprocessor=shared):
        check(xp, x, (1,), scale, bias)
        check_moments(xp, x, 1)
        dense, padded = (
            mean_variance_normalization(place(xp, x, pattern), on(xp, scale), bias, axes=1)
            for pattern in ("contiguous", "padded lines")
        )
        of_dense, of_padded = (mean_var(place(xp, x, pattern), 1) for pattern in ("contiguous", "padded lines"))
    assert_same_bits(xp.to_numpy(dense), xp.to_numpy(padded))
    for ours, others in zip(of_dense, of_padded, strict=True):
        assert_same_bits(xp.to_numpy(ours), xp.to_numpy(others))


#: Groups that lie end to end: few in spans of four chunks, and many, of which a span has a whole group or a part of it;
#: all groups of the last block or some; and groups that begin at every place of a piece, at words, and at pieces.
STAGED_LINES = [(140, 33), (300, 17), (260, 36), (420, 40), (1009, 33), (340, 49), (300, 131), (91, 451), (1500, 11)]
STAGED_LINES += [(530, 1001)]


@pytest.mark.parametrize("pattern", ["contiguous", "offset by an element"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("scaled", ["elements", "groups", "not at all"])
@pytest.mark.parametrize("shape", STAGED_LINES, ids=str)
def test_groups_end_to_end_have_the_bits_of_padded_rows(xp, shape, scaled, dtype, pattern):
    rng = np.random.default_rng(76)
    x = random(rng, shape, np.dtype(dtype))
    lengths = {"elements": (1, shape[1]), "groups": (shape[0], 1)}
    scale = random(rng, lengths[scaled], np.dtype(dtype)) if scaled in lengths else None
    bias = random(rng, (1, shape[1]), np.float32) if scaled == "elements" else None
    out = Poisoned(xp, shape, np.dtype(dtype), "contiguous")
    with xp.planned_for(multiprocessors=1):  # for which they are many
        check(xp, x, (1,), scale, bias)
        check_moments(xp, x, 1)
        mean_variance_normalization(place(xp, x, pattern), on(xp, scale), on(xp, bias), axes=1, out=out.array)
        padded = mean_variance_normalization(place(xp, x, "padded lines"), on(xp, scale), on(xp, bias), axes=1)
        moments, of_padded = (mean_var(place(xp, x, how), 1) for how in (pattern, "padded lines"))
    assert_same_bits(out.read(), xp.to_numpy(padded))
    for ours, others in zip(moments, of_padded, strict=True):
        assert_same_bits(xp.to_numpy(ours), xp.to_numpy(others))


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


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((15_001, 5, 4), np.float32),
        ((8001, 5, 8), np.float32),
        ((15_001, 8, 2), np.float16),
        ((15_001, 7, 2), np.float64),
    ],
)
def test_panels_of_short_pieces_have_the_bits_of_padded_rows(xp, shape, dtype):
    """Which no block could hold as bundles."""
    x = random(np.random.default_rng(82), shape, np.dtype(dtype))
    with xp.planned_for(multiprocessors=1, cluster_launch=False):
        check(xp, x, (0, 2), random(np.random.default_rng(83), (shape[1], 1), np.float32))
        dense, padded = (
            mean_variance_normalization(place(xp, x, pattern), axes=(0, 2))
            for pattern in ("contiguous", "padded lines")
        )
        moments = [mean_var(place(xp, x, pattern), (0, 2)) for pattern in ("contiguous", "padded lines")]
    assert_same_bits(xp.to_numpy(dense), xp.to_numpy(padded))
    for of_dense, of_padded in zip(*moments, strict=True):
        assert_same_bits(xp.to_numpy(of_dense), xp.to_numpy(of_padded))


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


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("columns", [64, 67, 68])
@pytest.mark.parametrize("length", [70, 150, 300, 400, 518, 700, 1000])
def test_columns_of_any_length_have_the_bits_of_rows(xp, length, columns, dtype):
    """Blocks have as many spans of them as there are, which need not be a power of two."""
    x = random(np.random.default_rng(length), (length, columns), np.dtype(dtype))
    with xp.planned_for(multiprocessors=1):  # for which they are many
        check(xp, x, (0,))
        y = xp.to_numpy(mean_variance_normalization(xp.asarray(x), axes=0))
        rows = mean_variance_normalization(xp.asarray(x.T.copy()), axes=1)
        assert_same_bits(y, xp.to_numpy(rows).T.copy())
        of_columns, of_rows = mean_var(xp.asarray(x), axis=0), mean_var(xp.asarray(x.T.copy()), axis=1)
        for column, row in zip(of_columns, of_rows, strict=True):
            assert_same_bits(xp.to_numpy(column), xp.to_numpy(row))


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
