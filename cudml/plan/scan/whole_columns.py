"""The plan of scans whose threads walk down columns of one tile: kernels/scan_whole_columns.cu."""

from __future__ import annotations

import math

from cudml.plan.layout import VECTOR_BYTES, power_of_two_within
from cudml.plan.plan import Launch, Plan, Pointer, constants_of
from cudml.plan.scan.column_case import VALUE_BYTES, ColumnCase
from cudml.plan.scan.work import Constants

#: Threads walk down columns of one tile where each can move so many bytes of a row at once, where there are so many of
#: these threads for each multiprocessor, and rows are so long. On an H200 (4096, 65536) float32 takes 0.529 ms that way
#: and 0.550 ms on the assembly line, (256, 1048576) 0.548 and 0.555, (1024, 524288) float16 0.566 and 0.612. With 16
#: bytes, if enough threads are left, (64, 1024, 4096) takes 0.535 ms, and 0.541 with 8 (0.539 on the assembly line).
#: Where rows begin at any element and a thread moves 4 bytes, (700, 300001) takes 0.709 ms, not 0.673.
_WALKED_BYTES, _WALKING_THREADS, _WALKED_PIECE_BYTES = 8, 192, 512
_WALKING_BLOCK = 256


def walked_columns(case: ColumnCase) -> int:
    """Columns of each thread that walks down some; 0: there are too few of them, or they are too long."""
    size, work = case.output.dtype.itemsize, case.work
    if work.tiles > 1 or case.source.dtype.itemsize != size or case.inner * size < _WALKED_PIECE_BYTES:
        return 0
    threads = _WALKING_THREADS * case.device.multiprocessors
    most = power_of_two_within(max(1, min(VECTOR_BYTES, work.lines * size // threads) // size))
    vector = case.vector(min(most, max(1, VALUE_BYTES // (work.chunk * case.register_bytes))))
    return vector if work.lines >= vector * threads and vector * size >= _WALKED_BYTES else 0


def plan_whole_columns(case: ColumnCase, constants: Constants, vector: int) -> Plan:
    """Blocks whose threads walk down columns."""
    work, span = case.work, case.span(vector)
    shares = {
        "SPAN": span,
        "VECTOR": vector,
        "BLOCK": _WALKING_BLOCK,
        "EVEN": work.length % (span * work.chunk) == 0,
        "INPUT_PACKED": case.packs(case.source, vector),
        "OUTPUT_PACKED": case.packs(case.output, vector),
    }
    grid = math.ceil(work.lines / (vector * _WALKING_BLOCK))
    arguments = (Pointer("input"), Pointer("output"), work.geometry)
    launch = Launch("scan_whole_columns", grid, _WALKING_BLOCK, arguments, early=True)
    return Plan("scan_whole_columns.cu", constants_of(**{**constants, **shares}), (launch,))
