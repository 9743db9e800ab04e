"""The plan of scans along an axis of few steps: kernels/scan_short_columns.cu."""

from __future__ import annotations

import math

from cudml.plan.layout import VECTOR_BYTES, power_of_two_within
from cudml.plan.plan import Launch, Plan, Pointer, constants_of
from cudml.plan.scan.column_case import VALUE_BYTES, ColumnCase
from cudml.plan.scan.work import Constants

#: Steps of a column that one thread holds at the most, by itself or together with others of its block. Where there are
#: 256 the assembly line is as fast: 92 % of copy speed on an H200.
_SHORT_STEPS, _SHORT_SPANS = 32, 4
_SHORT_BLOCK, _SHORT_PIECE_BYTES = 128, 256

#: And of large arrays whose rows are no whole vectors, and not so few: neighbouring warps load parts of the same
#: sectors, which those of a large block find in the first-level cache. (32, 1864071) float64 take an H100 339 us so and
#: 396 otherwise, (32, 6000001) int8 191 and 256, (64, 300001) float32 62 and 75, (1000, 20, 3001) 183 and 215, (50,
#: 1000001) float16 88 and 96; but (10, 600001) int8, 6 MB, 9.1 and 8.5, and (2, 18295956) float16 62 and 56.
_UNALIGNED_STEPS, _UNALIGNED_BLOCK, _LEAST_UNALIGNED_STEPS, _LEAST_UNALIGNED_BYTES = 16, 512, 4, 1 << 24


def is_short(case: ColumnCase) -> bool:
    return case.work.length <= max(_SHORT_STEPS, _SHORT_SPANS * case.span() * case.work.chunk)


def plan_short_columns(case: ColumnCase, constants: Constants) -> Plan:
    """One-shot blocks whose threads hold whole columns, or parts of them that meet in shared memory."""
    work = case.work
    widest = VECTOR_BYTES // max(case.source.dtype.itemsize, case.output.dtype.itemsize)
    unaligned = _is_large_and_unaligned(case, widest)
    steps, block = (_UNALIGNED_STEPS, _UNALIGNED_BLOCK) if unaligned else (_SHORT_STEPS, _SHORT_BLOCK)
    if work.length <= steps:
        span = max(1, math.ceil(work.length / work.chunk))
        spans, length = 1, work.length
        room = 2 * VALUE_BYTES // (span * work.chunk * case.register_bytes)
        vector = case.vector(power_of_two_within(max(1, min(widest, room))))
        across = block
    else:
        room = VALUE_BYTES // (work.chunk * case.register_bytes)
        vector = case.vector(power_of_two_within(max(1, min(widest, room))))
        span, length = case.span(vector), 0
        spans = 1 << (math.ceil(work.length / (span * work.chunk)) - 1).bit_length()
        across = max(_SHORT_PIECE_BYTES // (vector * case.source.dtype.itemsize), block // spans)
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


def _is_large_and_unaligned(case: ColumnCase, widest: int) -> bool:
    """Whether these are large rows from which a thread moves less than `widest` neighbours at a time."""
    is_large = case.source.size * case.source.dtype.itemsize >= _LEAST_UNALIGNED_BYTES
    return is_large and case.work.length >= _LEAST_UNALIGNED_STEPS and case.vector(widest) < widest
