"""The plan of scans along an axis of few steps: kernels/scan_short_columns.cu."""

from __future__ import annotations

import math

from cudml.plan.device import LANES
from cudml.plan.layout import VECTOR_BYTES, power_of_two_within, powers_of_two
from cudml.plan.plan import Launch, Plan, Pointer, constants_of
from cudml.plan.scan.column_case import VALUE_BYTES, ColumnCase
from cudml.plan.scan.work import Constants

#: Steps of a column that one thread holds at the most, by itself or together with others of its block. Where there are
#: 256 the assembly line is as fast: 92 % of copy speed on an H200.
_SHORT_STEPS, _SHORT_SPANS = 32, 4

#: Threads of a block, and bytes of a row that it has at least where several threads share a column.
_SHORT_BLOCK, _SHORT_PIECE_BYTES = 128, 256

#: But where there are fewer blocks for each multiprocessor, pieces are half or a quarter as long; and where there are
#: fewer than that, blocks have half the threads: (94, 692) int8 take an H200 2.1 us by pieces of 64 bytes, 3.1 by 128
#: and 5.0 by 256, (126, 4193) float16s 1.9, 2.0 and 2.9; but (63, 28012) bfloat16s, 1.7 blocks each, 3.9 by 128 and 3.2
#: by 256. (24, 490) floats take 1.1 us by 64 threads and 1.3 by 128, (23, 67016) 4.5 either way.
_FEW_BLOCKS, _FEWEST_BLOCKS, _LEAST_PIECE_BYTES, _LEAST_BLOCK = 1.5, 1, 64, 64

#: And by itself in large arrays whose rows are no whole vectors, unless a column would be shared by one thread: (24,
#: 1937490) float16 take an H100 70 us if two share columns, and 81 otherwise.
_UNALIGNED_STEPS = 16

#: Bytes that a thread of whole columns loads at the most, if a row has so many at least: as few threads as memory
#: allows, as an H100 begins no more than a block a cycle. (12, 7750000) int8 take it 67 us with 192 and 72 with 48, (1,
#: 93000000) 64 with 16 and 112 with 4, (24, 1937488) float16 68 with 192 and 70 with 96. But (12, 1250000) int8 take
#: 13.9 and 12.7, (11, 939872) float16 17.3 and 16.0.
_LOADED_BYTES, _LEAST_ROW_BYTES = 256, 1 << 21

#: Threads of a block where columns have fewer steps than so many and threads load less than so many bytes at a time, in
#: arrays of so many at least: blocks are so many that the GPU begins them too slowly. (2, 23250001) float16 take 87 us
#: with 256, 113 with 128 and 91 with 512.
_BLOCK_OF_FEW, _MOST_STEPS_OF_FEW, _LEAST_MOVED_BYTES, _LEAST_BYTES_OF_FEW = 256, 8, 4, 1 << 22

#: And else in large arrays whose rows are no whole vectors, and not so few: neighbouring warps load parts of the same
#: sectors, which those of a large block find in the first-level cache. (16, 5812497) int8 take 89 us with 512 and 106
#: with 128, (12, 3874993) float16 78 and 92, (16, 1453121) float32 79 and 84; but (10, 600001) int8, 6 MB, 9.1 and 8.5.
_LARGE_BLOCK, _LEAST_STEPS_OF_LARGE, _LEAST_BYTES_OF_LARGE = 512, 4, 1 << 24


def is_short(case: ColumnCase) -> bool:
    """Whether a few threads hold a column, which is a row of the tree at the most."""
    chunks = min(LANES, _SHORT_SPANS * case.span())
    return case.work.length <= max(_SHORT_STEPS, chunks * case.work.chunk)


def plan_short_columns(case: ColumnCase, constants: Constants) -> Plan:
    """One-shot blocks whose threads hold whole columns, or parts of them that meet in shared memory."""
    work, size = case.work, case.source.dtype.itemsize
    widest = VECTOR_BYTES // max(size, case.output.dtype.itemsize)
    moved = case.vector(widest)
    block = _block_of(case, moved, widest)
    room = VALUE_BYTES // (work.chunk * case.register_bytes)
    vector = min(moved, power_of_two_within(max(1, room)))
    span = case.span(vector)
    spans = 1 << (math.ceil(work.length / (span * work.chunk)) - 1).bit_length()
    if spans == 1 or work.length <= _most_steps(case, moved, widest):
        span, spans, length = max(1, math.ceil(work.length / work.chunk)), 1, work.length
        vector = min(moved, _columns_of_thread(case, span))
    else:
        length = 0
    across = _across(case, vector, spans, block)
    shares = {
        "SPAN": span,
        "SPANS": spans,
        "LENGTH": length,
        "VECTOR": vector,
        "ACROSS": across,
        "INPUT_PACKED": case.packs(case.source, vector),
        "OUTPUT_PACKED": case.packs(case.output, vector),
    }
    grid = math.ceil(work.lines / (vector * across))
    arguments = (Pointer("input"), Pointer("output"), work.geometry)
    launch = Launch("scan_short_columns", grid, spans * across, arguments, early=True)
    return Plan("scan_short_columns.cu", constants_of(**{**constants, **shares}), (launch,))


def _across(case: ColumnCase, vector: int, spans: int, block: int) -> int:
    """Threads beside each other, of which each has so many columns: of a block, or what is left of them where several
    share a column."""
    least, columns_bytes = block // spans, vector * case.source.dtype.itemsize
    widths = [least]
    if spans > 1:
        pieces = reversed(powers_of_two(_LEAST_PIECE_BYTES, _SHORT_PIECE_BYTES))
        widths = [max(nbytes // columns_bytes, least) for nbytes in pieces]
    blocks = {across: math.ceil(case.work.lines / (vector * across)) / case.device.multiprocessors for across in widths}
    across = next((across for across in widths if blocks[across] >= _FEW_BLOCKS), widths[-1])
    are_fewest = blocks[across] < _FEWEST_BLOCKS and across * spans == _SHORT_BLOCK
    return _LEAST_BLOCK // spans if are_fewest else across


def _columns_of_thread(case: ColumnCase, span: int) -> int:
    """Of so many chunks, each of which it has by itself: a power of two."""
    work, size = case.work, case.source.dtype.itemsize
    room = 2 * VALUE_BYTES // (span * work.chunk * case.register_bytes)
    if work.lines * size >= _LEAST_ROW_BYTES:
        room = max(room, _LOADED_BYTES // (max(1, work.length) * size))
    return power_of_two_within(max(1, room))


def _block_of(case: ColumnCase, moved: int, widest: int) -> int:
    """Threads of a block, where each moves so many columns at a time."""
    size, steps = case.source.dtype.itemsize, case.work.length
    nbytes = case.source.size * size
    if moved == widest:
        return _SHORT_BLOCK
    if moved * size < _LEAST_MOVED_BYTES and steps < _MOST_STEPS_OF_FEW and nbytes >= _LEAST_BYTES_OF_FEW:
        return _BLOCK_OF_FEW
    return _LARGE_BLOCK if steps >= _LEAST_STEPS_OF_LARGE and nbytes >= _LEAST_BYTES_OF_LARGE else _SHORT_BLOCK


def _most_steps(case: ColumnCase, moved: int, widest: int) -> int:
    """Of a column that a thread has by itself."""
    nbytes = case.source.size * case.source.dtype.itemsize
    is_unaligned = moved < widest and nbytes >= _LEAST_BYTES_OF_LARGE
    return _UNALIGNED_STEPS if is_unaligned else _SHORT_STEPS
