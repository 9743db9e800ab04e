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

#: Warps of a block, each with groups of its own.
_WARPS = 2

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


def plan_short_lines(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """A group or several for each warp; None where groups are longer."""
    chunks, rows = chunks_of(groups), rows_of(groups)
    few = groups.count * min(LANES, chunks) * rows <= _FEW_ROWS * LANES * device.multiprocessors
    if rows > (_SHORT_ROWS_OF_HALVES if few or groups.source.dtype.itemsize == 2 else _SHORT_ROWS):
        return None
    lanes, group_rows = min(LANES, power_of_two(chunks)), power_of_two(rows)
    most = group_rows if few else _SHORT_ROWS
    held = min(most, lanes) if groups.packed("input") else most
    groups_of_warp = held // group_rows * (LANES // lanes)
    packed = all(groups.packed(name) for name in ("input", "output") if groups.has(name))
    threads = THREADS_OF_80 if groups.source.dtype.itemsize == 4 or not packed else THREADS_OF_64
    few_registers = groups.source.dtype.itemsize > 2 or (groups.packed("input") and group_rows > 1)
    of_readers = THREADS_OF_48 if few_registers else _SHORT_READERS_OF_HALVES
    shares = {
        **shares_of(groups, held),
        "TEAMS": _WARPS,
        "REPEATS": groups.repeats("scale") and groups.repeats("bias"),
        "RESIDENT": resident_blocks(groups, device, threads, _WARPS * LANES, of_readers),
        "LINE_LANES": lanes,
        "LENGTH": groups.length if lanes < LANES else 0,
        "GROUP_ROWS": group_rows,
        "ENDS": ends_of(groups, group_rows * lanes, _WARPS * groups_of_warp),
    }
    if lanes < LANES:
        shares |= {"INPUT_GRAIN": 1, "OUTPUT_GRAIN": 1}
    if lanes < LANES and shares["OUTPUT_STEP"] < 4 and groups.has("output"):
        is_one_run = len(groups.kept.sizes) == 1 and groups.are_end_to_end("output")
        if not is_one_run:
            shares["OUTPUT_STEP"] = 0  # else several groups of a row are stored in one go
    blocks = math.ceil(groups.count / (_WARPS * groups_of_warp))
    ahead = input_ahead(groups, device)
    return one_launch("short_lines", "short_lines", groups, spec, shares, blocks, _WARPS, ahead=ahead)
