"""How normalizations of columns share them out to blocks that have whole ones, and load them at once."""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import SECTOR_BYTES, VECTOR_BYTES, power_of_two, power_of_two_within
from cudml.plan.normalization.column_tiles import SPAN_BYTES, Columns, one_span, span_of
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.narrow_strips import narrow_columns
from cudml.plan.normalization.steps import SUMS_BYTES

#: Neighbours of a thread, in bytes, where a block has whole columns. Their moments cost as much as the sums of some
#: steps, so more threads are better; the fewer the steps and the smaller the input, the more. (128, 16384) float16s
#: take an H100 6.5 us by 8 bytes and 6.9 by 16, (16, 32768) 2.9 by 4 bytes and 3.9 by 16, but (12, 2097152) 46.5 by 4
#: and 42.7 by 8. Single elements are all moments: (1, 4194304) floats take 22 us by 16 bytes and 26 by 8.
_WHOLE_BYTES, _SHORT_BYTES, _SHORT_LENGTH, _MOST_OF_SHORT, _MOST_OF_SINGLE = 8, 4, 16, 1 << 24, 1 << 19

#: Bytes of the input at the most that are so few where it has floats or halves: of columns of up to so many, which have
#: most moments, and of longer ones. By 4 and 8 bytes (2, 741448) floats take an H200 9.3 us and 7.6, (3, 247144) 4.3
#: and 3.5, (8, 92680) 3.3 and 3.1, (16, 92680) 4.5 and 4.4, but (16, 46336) 2.8 and 3.0, (3, 123568) 2.5 and 3.0; (3,
#: 494296) float16s 5.6 and 5.4, (4, 741448) 8.8 and 8.3, but (4, 370720) 4.8 and 5.2, (6, 494296) 7.3 and 7.9. Two
#: floats gain by 16 from the second on: (2, 741448) take 6.8.
_SHORTEST = {4: 8, 2: 3}
_MOST_OF_SHORTEST, _MOST_OF_OTHERS = 1 << 21, 1 << 22

#: Nor do many halves whose columns fill all spans gain: (64, 256, 128, 128) bfloat16s over 1 take 382 us by 8 bytes and
#: 368 by 16, if scale and bias are loaded last.
_LEAST_OF_WHOLE = 64

#: And for mean and variance alone: those of (4, 2621440) floats over 0 take an H200 17.5 us by 4 bytes, and 31.8 by
#: 16, of (24, 873808) halves 13.5 and 18.5, but of (33, 317744) floats 15.3 and 14.3. Halves of more steps than
#: the second take 4 bytes: (200, 262144) take an H100 42.5 us so and 47.4 by 8, (300, 65536) 19.1 and by 16 21.3.
_SHORT_LENGTH_OF_READERS, _LENGTH_OF_HALVES = 32, 128

#: Those of single bytes, which become doubles, and of few steps: mean and variance of (512, 400000) uint8 take an H100
#: 83 us by 4, 97 by 2 and 637 by 16, of (20, 8000000) 134 by 2 and 153 by 4.
_BYTES_OF_BYTES, _SHORT_BYTES_OF_BYTES = 4, 2

#: Rows of columns that one block alone has, at most: its multiprocessor moves no more than a row in 2 ns. (8000, 2)
#: floats take an H100 14.1 us so, and 5.3 in tiles; (2048, 8) 4.2 and 4.9.
MOST_ROWS_ALONE = 2048
_THREADS, _LEAST_THREADS = 256, 128

#: Spans of whole columns are a multiple of this part of a power of two, so that a kernel serves several lengths.
_PART_OF_SPANS = 16


class _WholeStrips(NamedTuple):
    """Strips of whole columns."""

    most_bytes: int
    least_bytes: int
    wanted_threads: int
    """Of a block, at the most, unless its strip would be too narrow."""
    most_threads: int


#: (300, 99968) float16s take an H100 48 us by 320 threads and 50 in strips of 64 bytes; (64, 518, 1024) floats over 1
#: 95 by 288 threads and in strips of 128 bytes 113.
_STRIPS = _WholeStrips(128, 64, 320, 512)

#: Rows that are normalized and begin amid sectors, which neighbours load too, had better have wide strips: (200, 74981)
#: floats take 53 us in strips of 256 bytes and 68 of 128, (150, 200004) float16s 53 and 65, but (150, 200037), one by
#: one, 74 and 67; mean and variance of (300, 50021) floats 30 and 24.6. So by the bytes of an element and of a thread,
#: and whether scale and bias take registers: (400, 74981) float16s with a scale for each row take 98 us by 416 threads
#: and 175 by 832, without one 82 and 73; (1000, 15013) floats 80 by 512 and 125 by 1024, without one 78 and 73.
#: Longer columns than (1000, 15013) were not measured.
_WIDE_STRIPS, _WIDE_STRIPS_OF_HALVES = _WholeStrips(512, 128, 832, 1024), _WholeStrips(256, 64, 832, 1024)
_MOST_WIDE_ROWS = 1024

#: Of single halves: (202, 18647) float16s take an H200 8.7 us by 224 threads and 12.2 by 448, (246, 9401) 5.5 and 8.9,
#: (233, 37425) 18.4 and 23.8, but (128, 146937) 40.5 by 128 and 36.4 by 256.
_WIDE_STRIPS_OF_SINGLE_HALVES = _WholeStrips(128, 64, 384, 1024)

_LEAST_WITH_OPERANDS, _THREADS_WITH_OPERANDS = 64, 512

#: Whole columns of halves with a scale or bias for each row, of which threads have fewer steps if there are no more of
#: them, in one run and in several: (200, 149952) take 48 us so and 60 otherwise, (600, 49984) 60 and 52, (20, 20,
#: 74944) over 0, 1 52 and 74, (8, 64, 58560) 111 and 71. Those that fill all spans have 8 steps of 16 bytes anyway, and
#: take more registers: (64, 256, 128, 128) over 1 595 us so, and 370 otherwise. And doubles one by one, of which they
#: have more, if there are so many: (518, 14501) take 59 us so and 74 otherwise, but (700, 10725) 69 and 64.
_SHORT_WITH_OPERANDS, _SHORT_IN_RUNS_WITH_OPERANDS, _LONG_SPANS_OF_DOUBLES = 512, 448, range(513, 641)

#: Blocks for each multiprocessor below which threads have half a span of columns of so many steps at the most, too:
#: (33, 11833) bfloat16s take an H200 2.8 us so and 3.6 otherwise, (12, 71914) 3.3 and 4.1, (41, 9993) floats 2.9 and
#: 3.5, (108, 25815) float16s 7.5 and 8.7; but (205, 8754) floats 8.0 and 7.0, and mean and variance of (7, 74655) 2.8
#: and 2.2.
_SOME_BLOCKS, _MOST_SHORT_OF_SOME = 5, 128

#: Bytes from row to row from which on blocks do not have a row of whole columns: over 2 x[..., :3] of (16, 512, 512, 4)
#: floats takes an H200 32 us so and 96 otherwise, of (32, 512, 512, 4) float16s 39 and 191, x[..., :2] 27 and 159.
MOST_PITCH_OF_WHOLE = SECTOR_BYTES

#: Steps of a block that has, for each that exists, at the most: else spans are shorter, and of more than the second no
#: block has a row. Others were not tried.
_MOST_PADDED, _MOST_PADDED_OF_ALL = 1.3, 1.5

#: Threads of such a block, if there are steps for so many: more blocks than multiprocessors hold would be too small.
_LEAST_THREADS_OF_ROW = 64

#: Steps of such a block at the most if there are fewer than multiprocessors: (20, 2000, 5) floats over 1 have tiles.
_MOST_STEPS_OF_FEW = 512

#: Static shared memory of a block at the most, for the sums of its warps.
_SUMS_BYTES_OF_BLOCK = 40_000


def whole_columns(groups: Groups, device: DeviceProperties) -> Columns | None:
    """Whole columns of a block, which loads them at once; None where they are too long, or had better be shared."""
    spans = _span_of_row(groups) if groups.by_rows else _span_of_whole(groups)
    span = spans.span
    while span > 1 and groups.length <= span // 2 * groups.chunk:
        span //= 2
    spans = spans._replace(span=span)
    strips = _strips_of(groups, spans, device)
    if _have_long_spans(groups, spans, strips):
        spans = spans._replace(span=2 * span)
    whole = _whole(groups, spans, strips)
    are_few = whole.grid(groups) < device.multiprocessors
    narrow = narrow_columns(groups, device) if are_few else None
    if narrow is not None:
        return narrow
    # Few blocks take as long as one thread does: (256, 256) floats take an H100 2.7 us by half a span, and 3.1 by one.
    is_short = are_few or _are_better_short(groups, whole, device)
    shorter = _whole(groups, spans._replace(span=span // 2), strips) if is_short and span > 1 else None
    chosen = shorter if shorter and shorter.threads <= _THREADS else whole
    most_alone = _MOST_STEPS_OF_FEW if groups.by_rows and are_few else MOST_ROWS_ALONE
    is_alone = chosen.width >= groups.row and groups.length > most_alone
    is_long = is_alone or (strips != _STRIPS and groups.length > _MOST_WIDE_ROWS)
    if groups.by_rows and not _is_fast_row(groups, chosen):
        return None
    return chosen if chosen.threads <= strips.most_threads and not is_long else None


def _are_better_short(groups: Groups, whole: Columns, device: DeviceProperties) -> bool:
    """Whether whole columns of not many blocks are so short that more threads are faster."""
    are_some = whole.grid(groups) < _SOME_BLOCKS * device.multiprocessors
    return are_some and groups.has("output") and groups.length <= _MOST_SHORT_OF_SOME


def _span_of_whole(groups: Groups) -> Columns:
    """What a thread holds of whole columns at the most."""
    spans = one_span(groups, _whole_bytes(groups))
    if are_short_with_operands(groups, spans):
        return spans._replace(span=max(1, spans.span // 2))
    return spans._replace(span=span_of(SPAN_BYTES, 1, groups.chunk)) if are_read_one_by_one(groups, spans) else spans


def _span_of_row(groups: Groups) -> Columns:
    """The same of a strip that is a row, of which a warp has several spans."""
    whole = _span_of_whole(groups)
    shorter = [_row_of(groups, whole._replace(span=whole.span >> n)) for n in range(whole.span.bit_length())]
    filled = [row for row in shorter if row.tile <= _MOST_PADDED * groups.length] or shorter[-1:]
    chosen = next((row for row in filled if row.threads >= _LEAST_THREADS_OF_ROW), filled[-1])
    return whole._replace(span=chosen.span)


def _row_of(groups: Groups, spans: Columns) -> Columns:
    """A whole row in such spans."""
    across = power_of_two(math.ceil(groups.row / spans.vector))
    return spans._replace(across=across, spans=_spans_of(groups, spans, across))


def _is_fast_row(groups: Groups, chosen: Columns) -> bool:
    """Whether a block had better have all columns of a row."""
    is_narrow = groups.reduced.strides["input"][-1] < MOST_PITCH_OF_WHOLE
    return is_narrow and groups.row <= chosen.width and chosen.tile <= _MOST_PADDED_OF_ALL * groups.length


def _have_long_spans(groups: Groups, spans: Columns, strips: _WholeStrips) -> bool:
    """Whether a thread has more than one_span() of doubles one by one."""
    are_doubles = groups.source.dtype.itemsize == 8 and spans.vector == 1
    return are_doubles and strips == _WIDE_STRIPS and groups.length in _LONG_SPANS_OF_DOUBLES


def are_read_one_by_one(groups: Groups, spans: Columns) -> bool:
    """Whether mean and variance are those of halves of which a thread has a single column."""
    return spans.vector == 1 and groups.source.dtype.itemsize == 2 and not groups.has("output")


def are_short_with_operands(groups: Groups, spans: Columns) -> bool:
    """Whether whole columns of halves, some to a thread, take fewer steps of it and fewer registers."""
    most = _SHORT_WITH_OPERANDS if len(groups.reduced.sizes) == 1 else _SHORT_IN_RUNS_WITH_OPERANDS
    are_some_halves = groups.source.dtype.itemsize == 2 and spans.vector > 1 and not are_whole_halves(groups)
    is_slow = groups.operands.differ_down and groups.rows_begin_at_multiples("input")
    return are_some_halves and is_slow and groups.length <= most


def _whole(groups: Groups, spans: Columns, strips: _WholeStrips) -> Columns:
    """Whole columns of a block in such spans, of as many threads as that takes."""
    width = spans.vector * groups.source.dtype.itemsize
    most, least = (max(1, nbytes // width) for nbytes in (strips.most_bytes, strips.least_bytes))
    across = min(most, power_of_two(math.ceil(groups.row / spans.vector)))
    while across > least and across * _spans_of(groups, spans, across) > strips.wanted_threads:
        across //= 2
    if not groups.by_rows:
        across = max(across, _LEAST_THREADS // power_of_two(math.ceil(groups.length / spans.steps)))
    while across > 1 and _sums_bytes(groups, spans, across) > _SUMS_BYTES_OF_BLOCK:
        across //= 2
    return spans._replace(across=across, spans=_spans_of(groups, spans, across))


def _sums_bytes(groups: Groups, spans: Columns, across: int) -> int:
    """Of the sums that the warps of a block have: kernels/normalization_spans.cuh, ColumnSums."""
    parts = _spans_of(groups, spans, across) // max(1, LANES // across)
    return parts * across * spans.vector * SUMS_BYTES


def _strips_of(groups: Groups, spans: Columns, device: DeviceProperties) -> _WholeStrips:
    """Wide ones, if these are enough."""
    begin_with_sectors = groups.by_rows or groups.rows_begin_at_multiples("input")
    if begin_with_sectors or not (groups.has("output") and groups.are_floats):
        return _STRIPS
    wide = _wide_strips_of(groups, spans)
    return wide if _whole(groups, spans, wide).grid(groups) >= device.multiprocessors else _STRIPS


def _wide_strips_of(groups: Groups, spans: Columns) -> _WholeStrips:
    of_halves = _WIDE_STRIPS_OF_SINGLE_HALVES if spans.vector == 1 else _WIDE_STRIPS_OF_HALVES
    strips = of_halves if groups.source.dtype.itemsize == 2 else _WIDE_STRIPS
    if groups.operands.differ_down:
        return _WholeStrips(strips.most_bytes, _LEAST_WITH_OPERANDS, _THREADS_WITH_OPERANDS, _THREADS_WITH_OPERANDS)
    return strips


def _spans_of(groups: Groups, spans: Columns, across: int) -> int:
    """That have a whole column, by warps of so many threads across."""
    count = math.ceil(groups.length / spans.steps)
    multiple = max(1, LANES // across, power_of_two_within(count) // _PART_OF_SPANS)
    return math.ceil(count / multiple) * multiple


def _whole_bytes(groups: Groups) -> int:
    """Of the neighbouring columns of a thread, where a block has whole ones."""
    size = groups.source.dtype.itemsize
    if not groups.has("output") and size == 1:
        return _SHORT_BYTES_OF_BYTES if groups.length <= _SHORT_LENGTH_OF_READERS else _BYTES_OF_BYTES
    if not groups.has("output"):
        of_halves = _WHOLE_BYTES if groups.length <= _LENGTH_OF_HALVES else _SHORT_BYTES
        usual = of_halves if size == 2 else VECTOR_BYTES
        return _SHORT_BYTES if groups.length <= _SHORT_LENGTH_OF_READERS else usual
    if are_whole_halves(groups):
        return VECTOR_BYTES
    if groups.length <= _SHORT_LENGTH and groups.nbytes <= _most_of_short(groups):
        return _SHORT_BYTES
    are_pairs = groups.length == 2 and size == 4 and groups.nbytes > _MOST_OF_OTHERS
    return VECTOR_BYTES if groups.length == 1 or are_pairs else _WHOLE_BYTES


def _most_of_short(groups: Groups) -> int:
    """Bytes of the input, at the most, that is normalized in so short columns by a few bytes of a thread."""
    if groups.length == 1:
        return _MOST_OF_SINGLE
    shortest = _SHORTEST.get(groups.source.dtype.itemsize)
    if shortest is None:
        return _MOST_OF_SHORT
    return _MOST_OF_SHORTEST if groups.length <= shortest else _MOST_OF_OTHERS


def are_whole_halves(groups: Groups) -> bool:
    """Whether these are many halves in columns of a power of two of rows, which fill all spans, with an output."""
    is_much = groups.source.dtype.itemsize == 2 and groups.nbytes > _MOST_OF_SHORT
    fills = groups.length >= _LEAST_OF_WHOLE and groups.length == power_of_two(groups.length)
    return is_much and fills and groups.has("output")
