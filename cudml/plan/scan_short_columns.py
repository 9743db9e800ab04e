"""The plan of scans along an axis of few steps: kernels/scan_short_columns.cu."""

from __future__ import annotations

import math

from cudml.plan.columns import VALUE_BYTES, ColumnCase
from cudml.plan.layout import VECTOR_BYTES, power_of_two_within
from cudml.plan.plan import Launch, Plan, Pointer, constants_of
from cudml.plan.scan_work import Constants

#: Steps of a column that one thread holds at the most, by itself or together with others of its block. Where there are
#: 256 the assembly line is as fast: 92 % of copy speed on an H200.
_SHORT_STEPS, _SHORT_SPANS = 32, 4
_SHORT_BLOCK, _SHORT_PIECE_BYTES = 128, 256


def is_short(case: ColumnCase) -> bool:
    return case.work.length <= max(_SHORT_STEPS, _SHORT_SPANS * case.span() * case.work.chunk)


def plan_short_columns(case: ColumnCase, constants: Constants) -> Plan:
    """One-shot blocks whose threads hold whole columns, or parts of them that meet in shared memory."""
    work = case.work
    widest = VECTOR_BYTES // max(case.source.dtype.itemsize, case.output.dtype.itemsize)
    if work.length <= _SHORT_STEPS:
        span = max(1, math.ceil(work.length / work.chunk))
        spans, length = 1, work.length
        room = 2 * VALUE_BYTES // (span * work.chunk * case.register_bytes)
        vector = case.vector(power_of_two_within(max(1, min(widest, room))))
        across = _SHORT_BLOCK
    else:
        room = VALUE_BYTES // (work.chunk * case.register_bytes)
        vector = case.vector(power_of_two_within(max(1, min(widest, room))))
        span, length = case.span(vector), 0
        spans = 1 << (math.ceil(work.length / (span * work.chunk)) - 1).bit_length()
        across = max(_SHORT_PIECE_BYTES // (vector * case.source.dtype.itemsize), _SHORT_BLOCK // spans)
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
