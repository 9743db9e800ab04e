"""Calls of scans that reach each of their kernels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from cuda_on_cpu.backend import SMALL_GPU
from reference import scan_reference

import cudml
from cudml.plan.device import DeviceProperties
from cudml.scan import segmented_cumprod, segmented_cumsum
from race_cases.calls import Arrays, AsArray, Call, factors, laid_out, values
from race_cases.devices import (
    COPYING_GPU,
    MANY_BLOCKS,
    OLD_GPU,
    ONE_BLOCK,
    PARTS_GPU,
    ROOMY_OLD_GPU,
    SIX_BLOCKS,
    TWO_BLOCKS,
)


def scan(
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    axis: int | None = -1,
    operation: str = "sum",
    stored: Any = None,
    pattern: str = "contiguous",
    out_pattern: str = "",
    device: DeviceProperties = SMALL_GPU,
    out_dtype: Any = None,
    **options: bool,
) -> Call:
    """Running sums or products in `dtype` of elements stored in another; "same" as `out_pattern` is in place. An output
    of another type needs a pattern."""
    source = (values if operation == "sum" else factors)(shape, stored or dtype)
    function = {"sum": cudml.cumulative_sum, "product": cudml.cumulative_prod}[operation]
    if axis is None:
        function = cudml.cumsum

    def compute(make: AsArray) -> Any:
        a, out = laid_out(make, source, pattern), None
        if out_pattern:
            out = a if out_pattern == "same" else laid_out(make, np.zeros_like(source, out_dtype or dtype), out_pattern)
        return function(a, axis=axis, dtype=dtype, out=out, **options)

    def expected() -> Arrays:
        named = {"initial" if key == "include_initial" else key: value for key, value in options.items()}
        result, _ = scan_reference(operation, source, dtype, axis, **named)
        return (result.astype(dtype),)

    return Call(name, compute, expected, device=device)


def filled(name: str, *arguments: Any, **options: Any) -> Call:
    """The same on a GPU of one multiprocessor, which the blocks fill."""
    return scan(name, *arguments, **options, device=ONE_BLOCK)


def segmented(name: str, n: int, dtype: Any, starts: Sequence[int], offset: Any = np.int32, **options: Any) -> Call:
    """A scan in segments that begin at `starts`, of which some may be the same: a segment without elements."""
    operation, device = options.pop("operation", "sum"), options.pop("device", SMALL_GPU)
    source = values((n,), dtype) if operation == "sum" else factors((n,), dtype)
    offsets = np.array([0, *starts, n], offset)
    function = {"sum": segmented_cumsum, "product": segmented_cumprod}[operation]

    def expected() -> Arrays:
        parts = [
            scan_reference(operation, source[first:end], dtype, **options)[0]
            for first, end in itertools.pairwise(offsets)
        ]
        return (np.concatenate(parts).astype(dtype),)

    return Call(
        name, lambda make: function(make(source), make(offsets), dtype=dtype, **options), expected, device=device
    )


def crowded(name: str) -> Call:
    """Sums in segments of which a thousand lie between two samples of offsets, most right behind a tile's begin.

    The others are empty, at the end.
    """
    n = 4 * 4096
    source = values((n,), np.int64)
    starts = np.concatenate([[0, 1, 70, 71, 5000], np.arange(8192, 10_160, 2)])
    offsets = np.concatenate([starts, np.full(256_000 - starts.size, n)]).astype(np.uint16)

    def expected() -> Arrays:
        heads = np.zeros(n, np.int64)
        heads[starts] = starts
        first, total = np.maximum.accumulate(heads), np.cumsum(source)
        return (total - total[first] + source[first],)

    return Call(name, lambda make: segmented_cumsum(make(source), make(offsets)), expected, device=OLD_GPU)


ROWS = [
    scan("a line in chunks", (99,), np.int32),
    filled("rows of one warp", (9, 97), np.int32),
    *(scan(f"lines of {rows} rows", (2, 32 * rows - 1), np.complex128) for rows in (2, 3, 4, 6, 8, 12, 16, 24, 32)),
    *(scan(f"lines of {rows} rows", (2, 32 * rows), np.complex128) for rows in (33, 36, 48, 64)),
    scan("rows of a whole tile", (2, 8192), np.int32),
    scan("rows of two tiles", (2, 4201), np.int64),
    scan("rows of two tiles in chunks", (2, 16_000), np.float32),
    scan("rows of two tiles backwards, exclusive", (2, 6000), np.float64, reverse=True, exclusive=True),
    scan("rows of two tiles of halves", (2, 17_001), np.float16),
    scan("rows of two tiles with an initial value", (3, 4097), np.int64, include_initial=True),
    scan("rows backwards, not in chunks", (2, 4091), np.int64, reverse=True),
    scan("rows exclusive", (1, 8190), np.float32, exclusive=True),
    scan("rows exclusive, backwards", (2, 2050), np.int64, exclusive=True, reverse=True),
    scan("rows with an initial value", (2, 2049), np.int64, include_initial=True),
    scan("rows backwards with an initial value", (9, 70), np.int64, include_initial=True, reverse=True),
    scan("rows of products", (1, 1025), np.complex128, operation="product"),
    scan("rows of halves", (1, 8193), np.float16),
    scan("rows of bytes summed in int64", (2, 2049), np.int64, stored=np.int8),
    scan("rows shifted by a byte", (3, 600), np.int32, pattern="offset by a byte", out_pattern="offset by a byte"),
    scan("rows shifted by an element", (3, 300), np.int64, pattern="offset by an element"),
    scan("rows of every second", (2, 700), np.int32, pattern="every second", out_pattern="every second"),
    scan("rows of padded lines", (4, 301), np.int32, pattern="padded lines", out_pattern="padded lines"),
    scan("rows in place", (2, 2051), np.int64, out_pattern="same"),
    scan("flattened", (40, 60), np.int32, axis=None, pattern="transposed"),
    scan("rows of odd halves", (5, 1025), np.float16),
    scan("many rows of odd halves", (15, 1231), np.float16, device=ONE_BLOCK),
    scan("many rows of odd halves by two warps", (14, 2001), np.float16, device=ONE_BLOCK),
    scan("many rows of odd bytes summed in int64", (9, 2101), np.int64, stored=np.int8, device=ONE_BLOCK),
    scan("rows of odd halves backwards, exclusive", (5, 601), np.float16, reverse=True, exclusive=True),
    scan("rows of odd halves in place", (5, 513), np.float16, out_pattern="same"),
    scan("rows of odd halves in place, backwards", (3, 1030), np.float16, out_pattern="same", reverse=True),
    scan("rows of odd halves with an initial value", (3, 1027), np.float16, include_initial=True),
    scan(
        "rows of odd halves, backwards with an initial value", (3, 700), np.float16, include_initial=True, reverse=True
    ),
    scan("rows of odd bytes", (3, 1031), np.int8, reverse=True),
    scan("rows of odd bytes summed in int32", (3, 1031), np.int32, stored=np.uint8),
    scan(
        "rows of floats summed in halves into floats",
        (4, 385),
        np.float16,
        stored=np.float32,
        out_pattern="contiguous",
        out_dtype=np.float32,
    ),
    scan("rows of odd halves, padded", (4, 571), np.float16, pattern="padded lines", out_pattern="padded lines"),
    scan("rows of halves shifted by an element", (3, 1024), np.float16, pattern="offset by an element"),
    scan("rows of odd doubles", (5, 257), np.float64, reverse=True),
    scan("rows of odd floats", (5, 257), np.float32),
]

SHORT_ROWS = [
    scan("short lines", (300, 20), np.int64),
    scan("short lines in chunks", (70, 32), np.int32),
    scan("flat lines", (301, 100), np.int32),
    scan("flat lines backwards, exclusive", (75, 12), np.int32, reverse=True, exclusive=True),
    scan("flat lines of halves in place", (50, 200), np.float16, out_pattern="same"),
    scan("lines of three", (501, 3), np.int32),
    scan("lines of three, backwards with an initial value", (90, 3), np.int64, include_initial=True, reverse=True),
    scan("short lines of products, exclusive", (70, 6), np.complex128, operation="product", exclusive=True),
    scan("short lines of every second", (40, 7), np.int32, pattern="every second"),
    filled("short lines of odd halves", (203, 17), np.float16),
    filled("short lines of odd halves in place, backwards", (61, 33), np.float16, out_pattern="same", reverse=True),
    filled("short lines of halves, exclusive", (67, 65), np.float16, exclusive=True),
    filled("short lines of halves that fill a row", (9, 255), np.float16, reverse=True),
    filled("short lines of odd halves, padded", (90, 21), np.float16, pattern="padded lines", out_pattern="contiguous"),
    filled("short lines of halves shifted by an element", (99, 13), np.float16, out_pattern="offset by an element"),
    scan("short lines of odd bytes", (205, 17), np.int8),
    scan("short lines of odd bytes in place", (130, 35), np.int8, out_pattern="same"),
    scan("short lines of bytes summed in int64", (70, 27), np.int64, stored=np.int8, reverse=True),
    filled("short lines of odd floats", (97, 17), np.float32),
    scan("tiny lines of two", (2061, 2), np.float16, reverse=True),
    scan("tiny lines of odd halves", (1501, 3), np.float16),
    scan("tiny lines of odd halves backwards, exclusive", (700, 5), np.float16, reverse=True, exclusive=True),
    scan("tiny lines of odd bytes in place", (1333, 7), np.int8, out_pattern="same"),
    scan("tiny lines of products", (1030, 6), np.int8, operation="product", exclusive=True),
    scan("tiny lines of several chunks", (301, 30), np.float16),
    scan("tiny lines of two chunks backwards, exclusive", (205, 9), np.float16, reverse=True, exclusive=True),
    filled("tiny lines of halves shifted by an element", (500, 3), np.float16, pattern="offset by an element"),
]


def twice(name: str, shape: tuple[int, ...], dtype: Any, axis: int = -1) -> Call:
    """One call after the other: what the first leaves in the scratch must not disturb the second."""
    sources = values((2, *shape), dtype)

    def compute(make: AsArray) -> Any:
        return tuple(cudml.cumsum(make(source), axis=axis, dtype=dtype) for source in sources)

    return Call(name, compute, lambda: tuple(np.cumsum(source, axis=axis, dtype=dtype) for source in sources))


LONG_ROWS = [
    twice("linked tiles, twice", (1, 2 * 2048), np.complex128),
    twice("long rows, twice", (1, 6 * 2048), np.complex128),
    scan("long rows", (3, 4097), np.complex128),
    scan("long rows of full tiles", (3, 8192), np.int64),
    scan("long rows of many tiles", (1, 34 * 2048 + 3), np.complex128),
    scan("long rows backwards", (2, 8200), np.int64, reverse=True),
    scan("long rows backwards, not in chunks", (2, 8195), np.int64, reverse=True),
    scan("long rows exclusive", (1, 12_290), np.int64, exclusive=True),
    scan("long rows with an initial value", (2, 8197), np.int64, include_initial=True),
    scan("long rows of products", (2, 4100), np.complex128, operation="product"),
    scan("long rows of bytes", (1, 100_001), np.int8),
    scan("long rows of bytes summed in int64", (1, 50_001), np.int64, stored=np.int8),
    scan("long rows of shorts summed in int64", (2, 50_006), np.int64, stored=np.uint16, reverse=True, exclusive=True),
    scan("long rows of ints", (2, 17_003), np.int64, stored=np.int32),
    scan("long rows of doubles summed in float32", (2, 9_002), np.float32, stored=np.float64),
    scan("long rows of floats summed in halves", (1, 17_000), np.float16, stored=np.float32, reverse=True),
    scan("long rows of odd halves", (2, 98_307), np.float16),
    scan("long rows of odd halves backwards, exclusive", (2, 98_307), np.float16, reverse=True, exclusive=True),
    scan("long rows of odd halves in place", (2, 25_001), np.float16, out_pattern="same"),
    scan("long rows of odd halves shifted by an element", (2, 25_001), np.float16, pattern="offset by an element"),
    scan("long rows of an odd number of halves", (3, 25_001), np.float16),
    scan("long rows of odd halves summed in float32", (3, 13_001), np.float32, stored=np.float16),
    scan("long rows of odd bytes with an initial value", (2, 140_001), np.int8, include_initial=True),
    scan("long rows of ints, backwards", (2, 17_002), np.int64, stored=np.int32, reverse=True),
    scan(
        "long rows shifted by a byte", (2, 17_000), np.int32, pattern="offset by a byte", out_pattern="offset by a byte"
    ),
    scan(
        "long rows of bytes shifted by half a vector",
        (2, 50_008),
        np.int64,
        stored=np.int8,
        pattern="offset by half a vector",
    ),
    scan("long rows shifted by an element", (2, 8597), np.int64, pattern="offset by an element"),
    scan("long rows of every second", (2, 8600), np.int64, pattern="every second", out_pattern="every second"),
    scan("long rows of every second byte", (2, 100_001), np.int8, pattern="every second"),
    scan("long rows in place", (2, 8601), np.int64, out_pattern="same"),
    scan("long rows on an old GPU", (2, 12_300), np.int64, device=OLD_GPU),
    scan("long rows by teams", (2, 12_300), np.int64, device=ROOMY_OLD_GPU),
    scan("long rows by copies", (2, 24_600), np.int32, device=COPYING_GPU),
    scan("long rows by copies, not in chunks", (2, 24_601), np.int32, reverse=True, device=COPYING_GPU),
]

LINKED_TILES = [
    scan("linked tiles", (1, 3 * 2048 - 5), np.complex128),
    scan("linked tiles backwards", (1, 9000), np.int32, reverse=True),
    scan("linked tiles, exclusive", (1, 8200), np.int64, exclusive=True),
    scan("linked tiles with an initial value", (1, 4099), np.int64, include_initial=True, reverse=True),
    scan("linked tiles of products", (1, 4100), np.complex128, operation="product"),
    scan("linked tiles shifted by a byte", (1, 9000), np.int32, pattern="offset by a byte"),
    scan("linked tiles in place", (1, 4501), np.int64, out_pattern="same"),
    scan("linked tiles of bytes", (1, 70_001), np.int8),
    scan("linked groups of tiles", (1, 33 * 2048 + 700), np.complex128, device=MANY_BLOCKS),
    scan("more linked tiles than run", (1, 34 * 2048), np.complex128, device=MANY_BLOCKS),
    scan("more linked parts than run", (1, 4 * 8192), np.int32, out_pattern="same", device=PARTS_GPU),
    scan("linked parts", (1, 2 * 2048 - 5), np.complex128, device=PARTS_GPU),
    scan("linked parts of products", (1, 3 * 2048 - 5), np.complex128, operation="product", device=PARTS_GPU),
    scan("linked parts backwards", (1, 9000), np.int32, reverse=True, device=PARTS_GPU),
    scan("linked parts, exclusive", (2, 8200), np.int32, exclusive=True, device=PARTS_GPU),
]

SEGMENTED = [
    segmented("segments in a tile", 700, np.int32, [1, 1, 2, 31, 32, 33, 350, 699]),
    segmented("segments over linked tiles", 18_000, np.int32, [5, 8192, 8193, 16_384, 16_384, 17_999]),
    segmented("segments over linked parts", 13_000, np.int64, [5, 8192, 8193, 12_999], device=PARTS_GPU),
    segmented("segments over tiles", 26_000, np.int32, [5, 8192, 8193, 16_384, 16_384, 25_999]),
    segmented("segments backwards", 13_200, np.int64, [4, 4100, 9102, 9102, 13_199], np.int64, reverse=True),
    segmented("segments exclusive", 9000, np.int32, [904, 905, 8192], exclusive=True),
    segmented("segments of products", 4200, np.int64, [1000, 4096], operation="product"),
    segmented("many segments", 3000, np.int64, [*range(1, 3000, 3)], np.uint16),
    segmented("many segments over tiles", 13_000, np.int64, [*range(1, 13_000, 3)], np.uint16),
    crowded("more segments than samples"),
    segmented("segments on an old GPU", 17_000, np.int64, [5, 4096, 4097, 8192, 16_999], device=OLD_GPU),
]

SHORT_COLUMNS = [
    scan("short columns", (20, 67), np.int64, axis=0),
    scan("short columns side by side", (3, 20, 64), np.float32, axis=1, reverse=True),
    scan("short columns with an initial value", (31, 40), np.int32, axis=0, include_initial=True, reverse=True),
    scan("columns", (60, 40), np.int32, axis=0),
    scan("columns of spans", (3, 100, 40), np.float32, axis=1, exclusive=True),
    scan("columns inside", (3, 60, 50), np.int32, axis=1, pattern="every second line"),
]

PANELS = [
    scan("panels of floats", (70, 16, 3), np.float32, axis=1, device=ONE_BLOCK),
    scan("panels of odd bytes, backwards", (333, 5, 7), np.int8, axis=1, reverse=True, device=ONE_BLOCK),
    scan("panels of bytes summed in int64", (41, 33, 3), np.int64, axis=1, stored=np.int8, exclusive=True),
    scan("panels of halves behind an element", (35, 9, 3), np.float16, 1, pattern="offset by an element"),
    scan("panels of halves in place", (19, 100, 5), np.float16, axis=1, out_pattern="same", device=ONE_BLOCK),
    scan("panels of many columns", (9, 20, 67), np.int64, axis=1, reverse=True, exclusive=True),
    scan("long panels", (13, 200, 5), np.float32, axis=1, device=ONE_BLOCK),
    scan("long panels, backwards", (9, 300, 2), np.float64, axis=1, reverse=True, exclusive=True, device=ONE_BLOCK),
    scan("long panels of odd halves in place", (21, 301, 3), np.float16, axis=1, out_pattern="same", device=ONE_BLOCK),
    scan("long panels of products", (5, 130, 3), np.complex64, axis=1, operation="product"),
]

WHOLE_COLUMNS = [
    scan("whole columns", (300, 390), np.float32, axis=0, device=ONE_BLOCK),
    scan("whole columns, backwards", (2, 275, 200), np.int64, axis=1, reverse=True, exclusive=True, device=ONE_BLOCK),
    scan("whole columns with an initial value", (150, 384), np.int32, axis=0, include_initial=True, device=ONE_BLOCK),
    scan("whole columns in place", (144, 1000), np.float16, axis=0, out_pattern="same", device=ONE_BLOCK),
    scan("whole columns of products", (70, 200), np.complex128, axis=0, operation="product", device=ONE_BLOCK),
    scan("whole columns of every second", (150, 199), np.int64, axis=0, pattern="every second", device=ONE_BLOCK),
]

COLUMNS_IN_STEP = [
    scan("columns in step", (131, 4112), np.float32, axis=0, device=TWO_BLOCKS),
    scan("columns in step, backwards", (67, 4228), np.int64, axis=0, reverse=True, exclusive=True, device=TWO_BLOCKS),
    scan("columns in step in place", (69, 2052), np.float64, axis=0, out_pattern="same", device=TWO_BLOCKS),
    scan("columns in step, initial value", (68, 2048), np.int64, axis=0, include_initial=True, device=TWO_BLOCKS),
    scan("columns in step of products", (69, 1020), np.complex128, axis=0, operation="product", device=TWO_BLOCKS),
]

COLUMNS = [
    scan("columns in boxes", (700, 160), np.float64, axis=0),
    scan("columns in boxes, backwards", (2, 700, 66), np.float64, axis=1, reverse=True, exclusive=True),
    scan("columns in narrow pieces", (1100, 67), np.int32, axis=0, include_initial=True),
    scan(
        "columns by elements", (700, 67), np.int32, axis=0, pattern="offset by a byte", out_pattern="offset by a byte"
    ),
    scan("columns on an old GPU", (700, 67), np.float16, axis=0, device=OLD_GPU),
    scan("columns of products", (2500, 16), np.complex128, axis=0, operation="product"),
    scan("columns of three, backwards", (3, 5001, 3), np.int32, axis=1, reverse=True),
    scan("columns of many units", (9000, 8), np.float32, axis=0),
    scan("columns in place", (1200, 64), np.float32, axis=0, out_pattern="same"),
    scan("columns of groups", (197_000, 2), np.complex128, axis=0),
    scan("columns of many blocks", (6000, 16), np.float64, axis=0, device=SIX_BLOCKS),
    scan("columns of small digits", (9000, 20), np.int32, axis=0),
    scan("columns of wide digits", (8500, 64), np.float32, axis=0),
    scan("columns of two looks", (3000, 40), np.float64, axis=0, pattern="padded lines", device=SIX_BLOCKS),
    scan("columns of every second", (600, 70), np.int32, axis=0, pattern="every second"),
    scan("columns in shifted rows", (600, 131), np.int32, axis=0),
    scan("columns in shifted rows, backwards", (2, 333, 66), np.float64, axis=1, pattern="padded lines", reverse=True),
    scan(
        "columns in shifted rows, in place", (600, 70), np.float32, axis=0, pattern="padded lines", out_pattern="same"
    ),
    scan("columns in overlapping strips", (600, 137), np.float32, axis=0, exclusive=True),
    scan("columns in overlapping strips, backwards", (2, 333, 67), np.int64, axis=1, reverse=True),
    scan("columns in overlapping strips, in place", (600, 137), np.float32, axis=0, out_pattern="same"),
    twice("columns in overlapping strips, twice", (600, 137), np.float32, axis=0),
    scan("contiguous columns of odd bytes", (1003, 3), np.int8, axis=0),
    scan("contiguous columns of odd halves in place", (2501, 5), np.float16, axis=0, out_pattern="same"),
    scan("columns in shifted rows of halves", (700, 41), np.float16, axis=0),
    scan("contiguous columns of wide rows", (2, 700, 78), np.float32, axis=1),
    scan("contiguous columns of wide rows of halves, backwards", (1500, 101), np.float16, axis=0, reverse=True),
    scan("columns of one step", (1, 1031), np.float16, axis=0, stored=np.int8),
    scan("columns of one step, exclusive", (515, 1), np.float32, axis=1, exclusive=True),
    scan("contiguous columns over two axes", (2, 500, 3, 5), np.int32, axis=1),
    scan("columns in shifted rows of bytes", (1100, 67), np.int8, axis=0, pattern="padded lines", out_pattern="same"),
    scan("columns in shifted rows of bytes, backwards", (2, 570, 40), np.int64, 1, stored=np.int8, reverse=True),
    scan("columns in wide strips of halves", (700, 139), np.float16, axis=0),
    scan("columns in overlapping strips of halves", (700, 139), np.float16, axis=0, device=ONE_BLOCK),
    scan("columns in overlapping strips of halves, in place", (350, 139), np.float16, axis=0, out_pattern="same"),
    scan("columns in shifted rows behind an element", (640, 131), np.float32, axis=0, pattern="offset by an element"),
    scan("turned output", (70, 600), np.float32, pattern="rolled axes", out_pattern="contiguous"),
    scan(
        "turned output, backwards",
        (3, 40, 301),
        np.int64,
        pattern="rolled axes",
        out_pattern="every second line",
        reverse=True,
    ),
    scan(
        "turned output by elements",
        (70, 501),
        np.int64,
        stored=np.int8,
        pattern="rolled axes",
        out_pattern="contiguous",
        device=MANY_BLOCKS,
    ),
    scan("turned input", (70, 600), np.float32, out_pattern="rolled axes"),
    scan(
        "turned input, backwards",
        (3, 40, 300),
        np.int32,
        pattern="every second line",
        out_pattern="rolled axes",
        reverse=True,
    ),
    scan("turned input by elements", (48, 501), np.float16, out_pattern="rolled axes"),
    scan("columns of doubles summed in float32", (600, 70), np.float32, stored=np.float64, axis=0),
    scan("columns of odd rows of floats summed in halves", (600, 69), np.float16, stored=np.float32, axis=0),
    scan("columns of bytes summed in int64", (600, 176), np.int64, stored=np.int8, axis=0),
    scan("columns of bytes summed in int64, backwards", (2, 500, 112), np.int64, stored=np.uint8, axis=1, reverse=True),
    scan("columns of every second byte", (1100, 66), np.int8, axis=0, pattern="every second line"),
]

# Which are copied first, into the output or beside it.
COPIED_COLUMNS = [
    scan("few columns with gaps, copied", (901, 7), np.int16, axis=0, pattern="padded lines"),
    scan("columns backwards, copied", (1100, 33), np.int8, axis=0, pattern="backwards"),
    scan("every second column, copied", (1100, 34), np.int64, stored=np.uint8, axis=0, pattern="every second"),
    scan("tiles of bytes, copied", (250, 201), np.int8, pattern="transposed", out_pattern="contiguous"),
    filled("rows of halves with gaps", (70, 1031), np.float16, axis=0, pattern="transposed", out_pattern="contiguous"),
    filled("lines of halves with gaps", (70, 1031), np.float16, pattern="transposed", out_pattern="contiguous"),
    filled("boxes", (2, 5, 2601), np.int16, axis=0, pattern="rolled axes", out_pattern="contiguous"),
    filled("boxes in words", (2, 6, 2600), np.int16, axis=0, pattern="rolled axes", out_pattern="contiguous"),
    filled("boxes of a long axis", (3, 4, 4100), np.int32, axis=0, pattern="rolled axes", out_pattern="contiguous"),
    filled("boxes backwards", (5, 460, 11), np.int64, axis=0, pattern="backwards", out_pattern="rolled axes"),
    filled(
        "boxes beside a wider output",
        (2, 5, 2601),
        np.int64,
        stored=np.int16,
        axis=0,
        pattern="rolled axes",
        out_pattern="padded lines",
    ),
]


CALLS: list[Call] = [
    *ROWS,
    *SHORT_ROWS,
    *LONG_ROWS,
    *LINKED_TILES,
    *SEGMENTED,
    *SHORT_COLUMNS,
    *PANELS,
    *WHOLE_COLUMNS,
    *COLUMNS_IN_STEP,
    *COLUMNS,
    *COPIED_COLUMNS,
]
