"""The plans of scans of the columns of panels: kernels/scan_panels.cu and scan_long_panels.cu."""

from __future__ import annotations

import math
from collections.abc import Mapping

from cudml.plan.device import LANES
from cudml.plan.layout import SECTOR_BYTES, VECTOR_BYTES, power_of_two_within
from cudml.plan.loads import asked_for_ahead
from cudml.plan.panels import MOST_BYTES, are_panels, panels_of_block, staging_of
from cudml.plan.plan import Launch, Plan, Pointer, constants_of
from cudml.plan.scan.column_case import ColumnCase
from cudml.plan.scan.work import Constants

#: Bytes of a panel with long columns at the most, of aligned single bytes, which take a thread longer than memory:
#: (26571, 1000, 7) int8 take an H100 180 us so and 254 on the assembly line, (11625, 1000, 16) 210 and 137. All others
#: may have as many as panels can: (3655, 510, 9) float16s take an H200 31 us so and 53 otherwise, from the second
#: element on 32 and 283, (2796, 300, 20) 32 and 46, but (2396, 1000, 7) 35 and 32.
_MOST_BYTES_OF_BYTES = 7168

#: Steps of a column that the compiler knows: (206666, 90, 5) float16 take 126 us so and 138 in a loop. With 128 steps
#: it would take half a second to compile.
_KNOWN_STEPS = 96

#: Threads of a block with such columns, and with longer ones, of which fewer fit the run: (310000, 50, 3) float32 take
#: 125.3 and 126.2 us with 256 and 128, (181640, 128, 4) float16 201 and 147.
_THREADS_OF_KNOWN, _THREADS = 256, 128

#: Bytes of values that a thread holds of a long column, threads of a block with several panels of these, and threads
#: of a panel from which on each holds twice as much: (46500, 200, 5) float32 take 125 us with 64 bytes and 138 with
#: 128, (5812, 2000, 2) float64, whose panel would have 500 threads, 151 and 129.
_VALUE_BYTES, _THREADS_OF_LONG, _MOST_THREADS_OF_PANEL, _MOST_THREADS = 64, 256, 384, 1024

#: Bytes of the input, at the most, that is asked for while the launch ahead ends: (10000, 20, 5) float32 take an H100
#: 3.6 us so and 4.7 otherwise, (20000, 20, 5) 8.2 either way, (1000, 200, 5) 5.6 and 6.2, (4000, 200, 5) 12.5 and 12.7.
_AHEAD_BYTES = 1 << 24

#: Bytes of panels that are copied first, as there are gaps between them or they lie in the opposite order: sums of (32,
#: 512, 512, 3)[:, 16:496, 16:496] float32 over 2 take an H200 91 us so and 128 otherwise, of (64, 256, 256, 3)[:,
#: 16:240, 16:240] 43 and 127, of (64, 512, 512, 3)[:, ::-1] float16 an H100 145 and 192; but of [..., ::-1] float32 139
#: and 110.
_MOST_BYTES_APART = 8192

#: Rows of the tree that a column has at the most.
_MOST_ROWS = 32


def in_panels(case: ColumnCase) -> bool:
    """Whether all columns between two neighbours of an outer axis are a run, which follows the one before, in both
    arrays; and whether the kernels take them."""
    work = case.work
    arrays = ((case.source, work.input_line, work.input_axis), (case.output, work.output_line, work.output_axis))
    are_alike = all(line.sizes == (case.outer, case.inner) and axis.sizes == (work.length,) for _, line, axis in arrays)
    if work.turned or work.length < 2 or work.rows > _MOST_ROWS or not are_alike:
        return False
    return all(are_panels(*array) for array in arrays) and _are_taken(case)


def are_panels_apart(case: ColumnCase) -> bool:
    """Whether narrow panels of the input do not follow each other, and those of the output do; and whether the kernels
    take those of a dense copy."""
    work, row = case.work, case.inner * case.source.dtype.itemsize
    is_run = case.dense_input and case.is_contiguous and work.length * row <= _MOST_BYTES_APART
    if not is_run or row >= SECTOR_BYTES or are_panels(case.source, work.input_line, work.input_axis):
        return False
    is_deep = work.length >= 2 and work.rows <= _MOST_ROWS
    return is_deep and are_panels(case.output, work.output_line, work.output_axis) and _are_taken(case)


def _are_taken(case: ColumnCase) -> bool:
    """Whether the kernels take panels of that size."""
    if case.work.rows == 1:
        return _bytes_of_panel(case) <= MOST_BYTES
    layouts = (case.source, case.output)
    are_bytes = min(layout.dtype.itemsize for layout in layouts) == 1
    is_aligned = all(layout.alignment == VECTOR_BYTES for layout in layouts)
    most = _MOST_BYTES_OF_BYTES if are_bytes and is_aligned else MOST_BYTES
    return _bytes_of_panel(case) <= most and case.inner * _spans(case, _chunks(case)) <= _MOST_THREADS


def _bytes_of_panel(case: ColumnCase) -> int:
    return case.work.length * case.inner * max(case.source.dtype.itemsize, case.output.dtype.itemsize)


def _chunks(case: ColumnCase) -> int:
    """Of a span of a long column."""
    chunks = case.span(nbytes=_VALUE_BYTES)
    is_much = case.inner * _spans(case, chunks) > _MOST_THREADS_OF_PANEL
    return case.span(nbytes=2 * _VALUE_BYTES) if is_much else chunks


def _spans(case: ColumnCase, chunks: int) -> int:
    return math.ceil(case.work.length / (chunks * case.work.chunk))


def plan_panels(case: ColumnCase, constants: Constants) -> Plan:
    """One-shot blocks that move some panels each."""
    return _plan_short(case, constants) if case.work.rows == 1 else _plan_long(case, constants)


def _plan_short(case: ColumnCase, constants: Constants) -> Plan:
    """A thread for each column, or for some."""
    is_known = case.work.length <= _KNOWN_STEPS
    shares = {"LENGTH": case.work.length if is_known else 0}
    threads = _THREADS_OF_KNOWN if is_known else _THREADS
    panels = panels_of_block(_bytes_of_panel(case), case.outer, case.device)
    return _one_launch("scan_panels", case, constants, shares, panels, threads, case.work.length)


def _plan_long(case: ColumnCase, constants: Constants) -> Plan:
    """A thread for each span."""
    chunks, length = _chunks(case), case.work.length
    spans, steps = _spans(case, chunks), chunks * case.work.chunk
    most = power_of_two_within(max(1, _THREADS_OF_LONG // (spans * case.inner)))
    panels = min(most, panels_of_block(_bytes_of_panel(case), case.outer, case.device))
    threads = math.ceil(panels * spans * case.inner / LANES) * LANES
    shares = {
        "LENGTH": 0,
        "VECTOR": 1,
        "SPAN": chunks,
        "SPANS": spans,
        "ROWS": case.work.rows,
        "EVEN": length % steps == 0,
    }
    return _one_launch("scan_long_panels", case, constants, shares, panels, threads, steps)


def _one_launch(
    kernel: str,
    case: ColumnCase,
    constants: Constants,
    shares: Mapping[str, int],
    panels: int,
    threads: int,
    steps: int,
) -> Plan:
    """Of a thread's share `steps` steps follow each other."""
    layouts, length = (case.source, case.output), case.work.length
    staging = staging_of(layouts, length, case.inner, panels, threads, steps, is_known=shares["LENGTH"] > 0)
    ahead = asked_for_ahead(case.source, _AHEAD_BYTES, case.device)
    arguments = (Pointer("input"), Pointer("output"), case.work.geometry, staging.places, ahead)
    blocks = math.ceil(case.outer / panels)
    launch = Launch(kernel, blocks, threads, arguments, staging.shared_bytes, early=True)
    return Plan(f"{kernel}.cu", constants_of(**{**constants, **shares, **staging.constants}), (launch,))
