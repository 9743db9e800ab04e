"""Strips of columns: how the assembly line of kernels/scan_columns.cu cuts an array, and what its stages hold."""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES
from cudml.plan.layout import SECTOR_BYTES, VECTOR_BYTES, ArrayLayout
from cudml.plan.scan.column_case import MOST_COLUMN_BYTES, ColumnCase

#: Bytes of a step of a unit. A copy in units of 32 KiB reaches 80 % of copy speed on an H200 with 128 bytes, 92 % with
#: 256, 93 % with 512; but what is folded grows with the columns.
_PIECE_BYTES = 256
_MOST_COLUMNS = 64

#: With more blocks to a strip than this, strips have half as many columns: (1048576, 256) float32 then has 17 blocks
#: to a strip and not 33, and reaches 90 % of copy speed on an H200, not 79. But of small elements that leaves too few
#: bytes side by side: (1003818, 200) int8 take an H100 211 us by 64 columns and 349 by 32, (100000, 1004) int16 174 and
#: 259, (300000, 200) float16 106 and 133; not (301000, 204), 169 and 155.
_MANY_BLOCKS = 8

#: Where rows begin at any element and are summed in more bytes, or are of small ones, strips are twice as wide, but in
#: the first case if more blocks than so many shared one: on an H200 (30000, 2049) int8 summed in int64 takes 176 us so
#: and 215 otherwise, int32 220 and 290, (59840, 2174) float16 157 and 212; but (400000, 200) int8 in int64 235 and 201.
_BLOCKS_OF_WIDENED = 17

#: Columns, at least, for each that a strip shares with the next if they overlap: these are loaded and added up twice.
#: That pays where no cache holds the array, from such a part of the second-level cache on: (9958, 1092) float16s take
#: an H200 19.3 us without and 27.8 so, (1053, 3725) bfloat16s 8.8 and 14.1, (6428, 175) floats 8.1 and 12.1; but (1104,
#: 18969) float16s, 42 of 63 MB, 44 and 40, (134, 59365) floats, 32 MB, 34 and 27.
_COLUMNS_OF_OVERLAP, _PART_OF_CACHE = 4, 0.4

#: Bytes of small elements. If their strips overlap, too much is added up twice, unless there are more strips of halves
#: than multiprocessors, so that neighbours are not worked on side by side: (4000, 30001) float16s take an H200 167 us
#: so and 173 otherwise, but (65536, 2049) 226 and 178. Of bytes too much is in any case: (1971, 34040) int8s took 82 us
#: in wide strips that overlap, and 70 in narrower ones that do not.
SMALL_BYTES = 2

#: So few blocks that share a strip do with fewer folders and stages (columns.py).
_FEW_BLOCKS = 4


class Strip(NamedTuple):
    """The columns that are worked on together, and how they come into stages."""

    columns: int
    size: int
    """Bytes of an element in a stage."""
    copies: int
    """Bytes of the asynchronous copies that load it; 0: none."""
    dense: bool
    """It is all there is beside the axis."""
    shifted: bool
    """Rows begin or end at any element."""
    overlapping: bool
    """It shares sectors of the output with its neighbours, and stores them alike."""
    widened: bool
    """Outputs of 8 bytes or more are wider than elements in a stage."""
    one_by_one: bool
    """Elements are copied one by one."""
    blocks: float
    """That share it."""

    @classmethod
    def of(cls, case: ColumnCase) -> Strip:
        copies, shifted = _copy_bytes(case), case.is_shifted
        size = case.source.dtype.itemsize if copies else case.value.itemsize
        dense = bool(copies) and case.fits_densely
        columns = case.inner if dense else _columns(case, size)
        return cls(
            columns=columns,
            size=size,
            copies=copies,
            dense=dense,
            shifted=shifted,
            overlapping=shifted and _overlap(case, columns),
            widened=not dense and _is_widened(case, size),
            one_by_one=copies == size < VECTOR_BYTES and not (dense or case.work.input_turned or shifted),
            blocks=_blocks_of_strip(case, columns),
        )

    @property
    def few_blocks(self) -> bool:
        return self.blocks <= _FEW_BLOCKS


def _columns(case: ColumnCase, size: int) -> int:
    """Columns of a strip whose staged elements have `size` bytes."""
    columns = _usual_columns(case, size)
    if not case.is_shifted:
        return columns
    twice = min(2 * columns, 1 << (case.inner - 1).bit_length())
    if _is_widened(case, size):
        return twice if _blocks_of_strip(case, twice) <= _BLOCKS_OF_WIDENED else columns
    return twice if size <= SMALL_BYTES else columns


def _usual_columns(case: ColumnCase, size: int) -> int:
    widest = min(_MOST_COLUMNS, max(4, _PIECE_BYTES // size), MOST_COLUMN_BYTES // case.accumulator)
    if _is_widened(case, size):
        widest = min(widest, max(LANES, _PIECE_BYTES // case.output.dtype.itemsize))
    if case.work.turned:
        widest = max(widest, LANES)
    columns = min(widest, 1 << (case.inner - 1).bit_length())
    are_shared = columns > LANES and _blocks_of_strip(case, columns) > _MANY_BLOCKS
    return columns // 2 if are_shared and not _are_small(case) else columns


def _are_small(case: ColumnCase) -> bool:
    """Whether strips of so few bytes are wide whatever the blocks that share them."""
    size, are_integers = case.source.dtype.itemsize, case.source.dtype.kind in "biu"
    return size == 1 or (size == 2 and (are_integers or not case.is_shifted))


def _is_widened(case: ColumnCase, size: int) -> bool:
    return case.output.dtype.itemsize >= 8 > size and not case.work.turned


def _blocks_of_strip(case: ColumnCase, columns: int) -> float:
    return case.device.multiprocessors / (case.outer * math.ceil(case.inner / columns))


def _copy_bytes(case: ColumnCase) -> int:
    """The widest asynchronous copies that can load any strip; 0: none."""
    size = case.source.dtype.itemsize
    if not case.device.hardware_gates:
        return 0
    by_element = size if size in (4, 8, VECTOR_BYTES) and case.source.element_aligned else 0
    if case.work.input_turned:
        chunk = case.work.chunk * size
        return chunk if chunk >= 4 and turned_bytes(case, case.source) % chunk == 0 else by_element
    if case.work.output_turned and size != case.output.dtype.itemsize:
        return 0
    if case.fits_densely:
        return case.dense_bytes(case.source)
    if case.is_shifted:
        return VECTOR_BYTES
    widths = [width for width in (16, 8, 4) if width >= size and case.inner * size % width == 0]
    return next((width for width in widths if case.moves(case.source, width)), by_element)


def _overlap(case: ColumnCase, columns: int) -> bool:
    """kernels/scan_column_units.cuh: OVERLAPPING."""
    source, output = case.source, case.output
    if source.dtype.itemsize != output.dtype.itemsize or source.shape != output.shape or not columns >= LANES:
        return False
    strides = zip(output.shape, source.strides, output.strides, strict=True)
    alike = all(size == 1 or (mine - other) % VECTOR_BYTES == 0 for size, mine, other in strides)
    aligned = source.alignment == output.alignment == VECTOR_BYTES
    few = columns >= _COLUMNS_OF_OVERLAP * (SECTOR_BYTES // output.dtype.itemsize - 1)
    small = source.dtype.itemsize <= SMALL_BYTES
    if small and (source.dtype.itemsize == 1 or _blocks_of_strip(case, columns) >= 1):
        return False
    are_many = source.size * source.dtype.itemsize >= _PART_OF_CACHE * case.device.cache_bytes
    return few and are_many and alike and aligned and case.dense_output and not case.moves(output, SECTOR_BYTES)


def turned_bytes(case: ColumnCase, layout: ArrayLayout) -> int:
    """What divides the places of all lines that are dense along the axis, from either end."""
    axis = case.work.axis or 0
    others = [stride for i, stride in enumerate(layout.strides) if i != axis and layout.shape[i] > 1]
    steps = (case.work.length, layout.shape[axis])  # one more with an initial value
    return math.gcd(layout.alignment, VECTOR_BYTES, *others, *(n * layout.dtype.itemsize for n in steps))
