"""The plans of scans of lines of less than a row, of which a warp holds several: kernels/scan_short_lines.cu,
scan_flat_lines.cu, scan_shifted_lines.cu and scan_tiny_lines.cu.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout
from cudml.plan.loads import asked_for_ahead
from cudml.plan.plan import Launch, Plan, Pointer, constants_of
from cudml.plan.scan.work import WARPS_OF_BLOCK, Constants, Work

#: Rows of short lines that a warp holds where they are loaded element by element, a few bytes at a time. Lines of three
#: float32 reach 99 % of copy speed with 2 and 98 % with 4; where they do not lie end to end, 89 and 88 %.
_SPREAD_ROWS = 2

#: The same where they lie end to end in whole chunks that do not fill the lanes. (2097152, 100) float32 take 0.399 ms
#: with 2, 0.403 ms with 3 and 4, and 0.422 ms by a warp for each line.
_FLAT_ROWS = 2

#: The same where they are loaded from any address and leave end to end: as many bytes of chunks at the most.
_SHIFTED_BYTES = 64

#: Bytes of tiny lines that a lane loads at once at the most, and of those that it scans in registers; and chunks that
#: are too many for them, as more would have to be added up in another order than from left to right. On an H200
#: (3095183, 13) float16 take 41 us so and 58 put together from words, (1500037, 9) 15.5 and 28.7, (60023, 28) bfloat16
#: 3.1 and 5.0.
_TINY_BYTES, _SHARE_BYTES, _TINY_CHUNKS = 64, 64, 4

#: Bytes of the input, at the most, that is asked for while the launch ahead ends: on an H100 (131072, 10) float32 take
#: 6.1 us so and 6.8 otherwise, (800000, 10) 23.3 and 23.7, (524288, 12) 17.9 and 18.3, (131072, 21) float16 5.4 and
#: 6.3, (1000000, 3) uint8 3.0 and 3.7, (12000000, 3) 24.7 and 25.5.
_AHEAD_BYTES = 1 << 26


class _Case(NamedTuple):
    """What the choices of a plan depend on."""

    source: ArrayLayout
    output: ArrayLayout
    constants: Constants
    work: Work
    device: DeviceProperties


def plan_short_lines(
    arrays: dict[str, ArrayLayout], constants: Constants, work: Work, device: DeviceProperties, shifted: bool
) -> Plan | None:
    """None where a warp had better have one line; `shifted`: inputs are moved in words, from any address."""
    case = _Case(arrays["input"], arrays["output"], constants, work, device)
    chunks = math.ceil(work.length / work.chunk)
    if not 0 < chunks <= LANES or work.segmented:
        return None
    if lines := _lines_of_lane(case):
        return _plan_tiny_lines(case, lines)
    if shifted and _leave_end_to_end(case) and (plan := _plan_shifted_lines(case)):
        return plan
    line_lanes = 1 << (chunks - 1).bit_length()
    if _is_flat(case):
        return _plan_flat_lines(case, line_lanes)
    return _plan_spread_lines(case, line_lanes) if chunks <= LANES // 2 else None


def _leave_end_to_end(case: _Case) -> bool:
    """Whether outputs lie end to end, of lines for which it pays to gather them. Lines of two chunks of 4 bytes an
    element or more reach copy speed as single elements."""
    constants, work = case.constants, case.work
    dense = constants["OUTPUT_DENSE"] and constants["OUTPUT_ALIGNED"] and not constants["INITIAL"]
    small = case.source.dtype.itemsize < 4 or work.length > 2 * work.chunk
    return bool(dense and small and work.is_flat(work.output_line, work.output_axis))


def _lines_of_lane(case: _Case) -> int:
    """Lines that a lane has where it has whole ones: the most whole words at a time. 0 where it has not."""
    source, output, constants, work = case.source, case.output, case.constants, case.work
    size = source.dtype.itemsize
    if work.length >= _TINY_CHUNKS * work.chunk or output.dtype.itemsize != size or size > 2:
        return 0
    if (constants["INPUT_PACKED"] and constants["OUTPUT_PACKED"]) or constants["INITIAL"]:
        return 0
    ends_meet = all(d.rank == 1 and d.strides[0] == work.length * size for d in (work.input_line, work.output_line))
    dense = constants["INPUT_DENSE"] and constants["OUTPUT_DENSE"]
    if not (ends_meet and dense and source.alignment == output.alignment == VECTOR_BYTES):
        return 0
    line = work.length * size
    shares = (math.lcm(line, words) for words in (VECTOR_BYTES, 8, 4))
    return next((share // line for share in shares if share <= _SHARE_BYTES), 0)


def _is_flat(case: _Case) -> bool:
    """Whether lines lie end to end in whole chunks, a number of them that is no power of two."""
    constants, work = case.constants, case.work
    in_chunks = bool(constants["INPUT_PACKED"] and constants["OUTPUT_PACKED"])
    ends_meet = work.is_flat(work.input_line, work.input_axis) and work.is_flat(work.output_line, work.output_axis)
    return in_chunks and ends_meet and (work.length // work.chunk).bit_count() != 1


def _plan_spread_lines(case: _Case, line_lanes: int) -> Plan:
    """As many lines for each row of a warp as fit."""
    constants, work = case.constants, case.work
    rows = 1 if constants["INPUT_PACKED"] else _SPREAD_ROWS
    in_order = not constants["REVERSE"]
    flat_in = constants["INPUT_DENSE"] and work.is_flat(work.input_line, work.input_axis)
    flat_out = constants["OUTPUT_DENSE"] and work.is_flat(work.output_line, work.output_axis)
    shares: Constants = {
        "LINE_LANES": line_lanes,
        "FLAT_IN": in_order and flat_in,
        "FLAT_OUT": in_order and flat_out and not constants["INITIAL"],
    }
    return _plan("scan_short_lines", case, shares, rows, rows * (LANES // line_lanes))


def _plan_flat_lines(case: _Case, line_lanes: int) -> Plan:
    """The same where they lie end to end in whole chunks that do not fill the lanes."""
    shares: Constants = {"LINE_LANES": line_lanes}
    return _plan("scan_flat_lines", case, shares, _FLAT_ROWS, _FLAT_ROWS * (LANES // line_lanes))


def _plan_shifted_lines(case: _Case) -> Plan | None:
    """The same where they are loaded from any address, and leave end to end; None of fewer blocks than multiprocessors,
    as a warp has less to do otherwise: (815, 37) float32 take an H200 2.5 us so and 1.7 otherwise, (8384, 32) bfloat16
    padded by 1 2.5 and 1.9; but (732, 256, 10) float32 from the second element on 6.3 and 7.4, and of bytes (919, 46)
    padded by 32 2.1 and 3.0."""
    chunk = case.work.chunk
    lanes = math.ceil(case.work.length / chunk)
    rows = max(1, _SHIFTED_BYTES // (chunk * max(case.source.dtype.itemsize, case.output.dtype.itemsize)))
    shares: Constants = {"LINE_LANES": lanes, "SHIFTED_IN": 1}
    plan = _plan("scan_shifted_lines", case, shares, rows, rows * (LANES // lanes))
    are_enough = case.source.dtype.itemsize == 1 or plan.launches[0].grid >= case.device.multiprocessors
    return plan if are_enough else None


def _plan_tiny_lines(case: _Case, lines: int) -> Plan:
    """So many lines for each lane at a time."""
    rows = max(1, _TINY_BYTES // (lines * case.work.length * case.source.dtype.itemsize))
    return _plan("scan_tiny_lines", case, {"LANE_LINES": lines}, rows, rows * LANES * lines)


def _plan(kernel: str, case: _Case, shares: Constants, rows: int, lines_of_warp: int) -> Plan:
    ahead = asked_for_ahead(case.source, _AHEAD_BYTES, case.device)
    arguments = (Pointer("input"), Pointer("output"), case.work.geometry, ahead)
    blocks, threads = math.ceil(case.work.lines / (lines_of_warp * WARPS_OF_BLOCK)), WARPS_OF_BLOCK * LANES
    constants: Constants = {"WARPS": 1, "GROUPS": WARPS_OF_BLOCK, "ROWS": rows, "LENGTH": case.work.length}
    constants |= {"SHIFTED_OUT": 0, "SHIFTED_IN": 0, **shares}
    launch = Launch(kernel, blocks, threads, arguments, early=True)
    return Plan(f"{kernel}.cu", constants_of(**{**case.constants, **constants}), (launch,))
