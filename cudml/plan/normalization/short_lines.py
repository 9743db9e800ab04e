"""The plans of normalizations of groups whose elements lie side by side, and that a warp holds:
kernels/normalization_short_lines.cu.
"""

from __future__ import annotations

import math

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import power_of_two
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.line_shares import (
    THREADS_OF_48,
    THREADS_OF_64,
    THREADS_OF_80,
    chunks_of,
    ends_of,
    input_ahead,
    one_launch,
    resident_blocks,
    rows_of,
    shares_of,
)
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: Warps of a block, each with groups of its own: 230 random arrays take an H200 1.3 % longer by two.
_WARPS = 4

#: Rows, at the most, of groups of floats that take few registers: (16384, 16) floats take an H200 1.5 us with 64 of
#: them and 1.9 with 80, (174762, 24) 10.3 and 12.1, (671088, 100) 134 and 139, (32768, 32) float16s 2.3 and 2.7; but
#: (8192, 512) floats 12.5 and 10.2.
_MOST_ROWS_OF_FLOATS = 2

#: Bytes of the input, at the most, that is asked for while the launch ahead ends: of many launches in a row (91794,
#: 128) float16s take an H200 14.3 us so and 15.7 otherwise, (131072, 64) floats an H100 24.0 and 24.5, (262144, 64)
#: 46.1 and 46.3.
_AHEAD_BYTES = 1 << 26

#: Rows of 32 chunks that a warp holds of groups that it need not share: of several, or of one, which has no more than
#: this, or than that if elements are halves or groups few: 1024 halves take 0.251 ms of a warp of its own with nobody
#: else's group, and 0.342 so; 768 take 0.324 and 0.477 ms.
_SHORT_ROWS, _SHORT_ROWS_OF_HALVES = 4, 2

#: Threads that fit a multiprocessor where these are halves of which only moments are asked: of (524288, 69) float16
#: they take an H100 58 us so and 119 with 48 registers, of (524288, 64) 26.0 and 27.1; of (1000000, 33) floats 62 and
#: 61, and of (136920, 440) bfloat16, aligned and in two rows, 52.7 and 50.2.
_SHORT_READERS_OF_HALVES = THREADS_OF_64

#: So few rows for each multiprocessor that a call takes as long as one warp does, which therefore gets few of them.
_FEW_ROWS = 16

#: Nor is one faster for groups of two rows of halves, of so few for each multiprocessor, and of so few that begin at
#: odd elements, each with its own scale: (119, 16, 2, 2) float16s over 0, 2, 3 take 2.1 us by two warps each and 2.3
#: so, (26, 8, 20, 14) bfloat16s over 2, 3 2.1 and 2.2; (277, 313) float16s 2.2 and 2.5, (1164, 339) bfloat16s 3.2 and
#: 3.8.
_MOST_GROUPS_APART, _MOST_SCALED_APART = 2, 10

#: And by four warps: those of which a warp holds no more than a group, and two. Of (4096, 64) floats, 16 rows, it had
#: better have two, which take 1.6 us, of (65536, 64) float16s four, 5.6 us, and 6.4 by two.
_ROWS_BY_ONE, _ROWS_BY_TWO = 9, 64

#: It had better have no more than so many where a chunk has several scales, of elements of less than 8 bytes, that are
#: not the same in all groups, as each row takes registers for its own: (300, 8, 307) float16s with a scale of each
#: element for each of 8 groups take 5.3 us so and 11.3 by four rows, (6132, 32, 52) floats 30 and 45; (1934, 2, 66, 6)
#: float16s with a scale of each channel 5.3 and 7.1, (5959, 4, 6, 6) floats 5.3 and 6.4, but (604, 32, 2, 25) 5.2 and
#: 4.8. Nor does it then have longer groups of channels that are parts of chunks: (27382, 4, 144, 2) floats take 74 us
#: so and 102, but (1531, 4, 56, 6) 9.2 and 7.9. If a chunk has more of these than two, a group of several rows has
#: several warps: (51, 2, 64, 5) float16s take 1.4 us so and 2.3 by one, (1095, 186, 2) bfloat16s 3.0 and 3.9.
_ROWS_OF_THEIR_OWN = 2


def plan_short_lines(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """A group or several for each warp; None where groups are longer."""
    chunks, rows, few = chunks_of(groups), rows_of(groups), _rows_of_multiprocessor(groups, device) <= _FEW_ROWS
    are_shorter = few or groups.source.dtype.itemsize == 2 or groups.are_scaled_bytes
    if rows > (_SHORT_ROWS_OF_HALVES if are_shorter else _SHORT_ROWS):
        return None
    if groups.operands.are_of_channels and rows > _most_rows_of_channels(groups):
        return None
    if _are_few_long(groups, rows, device):
        return None
    lanes, group_rows = min(LANES, power_of_two(chunks)), power_of_two(rows)
    repeat = groups.operands.repeat(LANES // lanes)  # in all rows, which have a group for each so many lanes
    most = max(group_rows, _most_rows_of_warp(groups, repeat, device))
    held = min(most, lanes) if groups.packed("input") else most
    groups_of_warp = held // group_rows * (LANES // lanes)
    shares = {
        **shares_of(groups, held),
        "TEAMS": _WARPS,
        "REPEATS": repeat,
        "RESIDENT": _resident(groups, group_rows, device),
        "LINE_LANES": lanes,
        "LENGTH": groups.length if lanes < LANES else 0,
        "GROUP_ROWS": group_rows,
        "ENDS": ends_of(groups, group_rows * lanes, _WARPS * groups_of_warp),
    }
    if lanes < LANES:
        shares |= {"INPUT_GRAIN": 1, "OUTPUT_GRAIN": 1}
        shares["INPUT_STEP"] = shares["INPUT_STEP"] or _are_odd_bytes(groups)
    in_words = shares["OUTPUT_STEP"] >= 4 and not groups.are_widened
    if lanes < LANES and groups.has("output") and not in_words:
        is_one_run = len(groups.kept.sizes) == 1 and groups.are_end_to_end("output")
        if not is_one_run:
            shares["OUTPUT_STEP"] = 0  # else several groups of a row are stored in one go
    blocks = math.ceil(groups.count / (_WARPS * groups_of_warp))
    ahead = input_ahead(groups, device, _AHEAD_BYTES)
    return one_launch("short_lines", "short_lines", groups, spec, shares, blocks, _WARPS, ahead=ahead)


def _are_odd_bytes(groups: Groups) -> bool:
    """Whether groups are runs of bytes that begin anywhere. If these are shorter than a row, words around their chunks
    are faster than every 32nd byte: (524288, 33) uint8s into float32 take an H200 42 us and 68, their moments 21 and
    45, (131072, 129) into halves 47 and 67; but (33333, 1021) 49 and 47, (8192, 4001) 48 and 42."""
    return groups.source.dtype.itemsize == 1 and groups.is_one_run("input") and not groups.packed("input")


def _most_rows_of_channels(groups: Groups) -> int:
    """Of a group, where scale or bias has a number for some neighbours each."""
    if groups.operands.of_chunk > 2:
        return 1
    are_parts = groups.operands.of_chunk == 2 and not groups.operands.are_of_runs
    return _ROWS_OF_THEIR_OWN if are_parts else _SHORT_ROWS


def _are_few_long(groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Whether groups of several rows are so few that a warp for each of these is faster."""
    are_slow = groups.operands.are_own and groups.begins_anywhere
    are_few = groups.count <= (_MOST_SCALED_APART if are_slow else _MOST_GROUPS_APART) * device.multiprocessors
    return rows > 1 and are_few and groups.has("output") and groups.source.dtype.itemsize == 2


def _take_few_registers(groups: Groups) -> bool:
    """Whether these are floats or halves in whole aligned chunks that are normalized, and not floats of many rows."""
    are_packed = groups.has("output") and not groups.have_wide_chunks and groups.are_packed
    return are_packed and (groups.source.dtype.itemsize == 2 or rows_of(groups) <= _MOST_ROWS_OF_FLOATS)


def _rows_of_multiprocessor(groups: Groups, device: DeviceProperties) -> float:
    """Of 32 chunks, in all groups."""
    return groups.count * min(LANES, chunks_of(groups)) * rows_of(groups) / (LANES * device.multiprocessors)


def _most_rows_of_warp(groups: Groups, repeat: bool, device: DeviceProperties) -> int:
    """That it holds, unless a group has more; `repeat`: scale and bias are the same for all rows."""
    rows = _rows_of_many(groups, device)
    are_some = groups.operands.of_chunk > 1 and groups.source.dtype.itemsize < 8 and not repeat
    take_registers = are_some or groups.are_scaled_bytes
    return min(rows, _ROWS_OF_THEIR_OWN) if take_registers else rows


def _rows_of_many(groups: Groups, device: DeviceProperties) -> int:
    """More of them, the more there are."""
    if not _take_few_registers(groups):
        return 1 if _rows_of_multiprocessor(groups, device) <= _FEW_ROWS else _SHORT_ROWS
    lanes = power_of_two(min(LANES, chunks_of(groups)))
    rows = groups.count * lanes * power_of_two(rows_of(groups)) / (LANES * device.multiprocessors)
    return 1 if rows <= _ROWS_BY_ONE else 2 if rows <= _ROWS_BY_TWO else _SHORT_ROWS


def _resident(groups: Groups, group_rows: int, device: DeviceProperties) -> int:
    """Blocks that shall fit a multiprocessor, where groups have so many rows."""
    is_small = groups.source.dtype.itemsize != 4 and groups.are_packed
    threads = THREADS_OF_64 if _take_few_registers(groups) or is_small else THREADS_OF_80
    few_registers = groups.source.dtype.itemsize > 2 or (groups.packed("input") and group_rows > 1)
    of_readers = THREADS_OF_48 if few_registers else _SHORT_READERS_OF_HALVES
    return resident_blocks(groups, device, threads, _WARPS * LANES, of_readers)
