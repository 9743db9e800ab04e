"""The plans of normalizations of long groups, so few that each is shared by a cluster of blocks, which hold it in
registers: kernels/normalization_lines.cu.

A block for each of them leaves most multiprocessors idle, and a stream waits for blocks anywhere on the GPU: (8, 16384)
floats take an H100 5.1 us by a block each and 3.4 so, (16, 32768) 9.4 as a stream and 4.4. Where there is more to do
than the GPU holds at once, others are faster.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.line_shares import (
    THREADS_OF_64,
    THREADS_OF_80,
    THREADS_OF_128,
    ends_of,
    one_launch,
    resident_blocks,
    rows_of,
    shares_of_several,
)
from cudml.plan.normalization.lines import are_faster_apart, is_better_streamed
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: Warps of a block, which has a power of two of rows.
_WARPS = 8

#: Rows of a warp with which all blocks shall run at once: (60, 50000) floats, 420 blocks, take an H100 17.3 us so, and
#: 15.6 as a stream, (64, 40000), 320 blocks, 12.2 and 14.9.
_ROWS_OF_ALL_AT_ONCE = 8

#: Rows that a group has more of, as one block holds fewer as fast, and that one of halves has if there is less work
#: than that: (8, 12288) float16s take an H100 3.6 us so and 4.2 by a block each, (64, 10240) with a scale of each
#: channel 4.2 and 3.6.
_LEAST_ROWS, _LEAST_ROWS_OF_HALVES, _WORK_OF_FEW_ROWS = 64, 32, 0.5

#: Rows of a group that one block can have too, and is faster with if there is more work than this, unless it would load
#: elements one by one.
_ROWS_OF_BLOCK, _WORK_OF_BLOCK = 128, 2.0

#: Mean and variance alone, of what a block does not hold, gain up to this much work: those of (8, 65536) floats take an
#: H100 3.9 us so and 4.5 in tiles, of (64, 32768) 7.1 and 6.7.
_WORK_OF_MOMENTS = 1.0


class _Share(NamedTuple):
    """How a group of up to so many rows is shared where there is up to so much work: parts of 32 rows, which are a
    block's usual share, for each multiprocessor."""

    most_rows: int
    most_work: float
    rows: int
    """Of a warp."""
    threads: int
    """Of a multiprocessor."""
    early: bool
    """Whether scale and bias are loaded along with the input."""


#: The first that fits is taken: by what was the fastest of a dozen on an H100. (8, 16384) floats take 3.4 us by two
#: rows in each warp, 3.6 by four and 4.4 by eight, (32, 20480) 4.7 by four and 4.9 by eight, (64, 24576) 10.4 by four
#: if scale and bias are loaded early and 8.8 if late, (32, 40000) 8.4 by eight if early and 8.7 if late, (64, 40000)
#: 14.7 and 12.2.
_SHARES = (
    _Share(128, 1.2, 2, THREADS_OF_64, True),
    _Share(256, 2.5, 4, THREADS_OF_80, True),
    _Share(224, 6.0, 4, THREADS_OF_64, False),
    _Share(512, 2.5, 8, THREADS_OF_128, True),
    _Share(512, 6.0, 8, THREADS_OF_80, False),
)

#: And of halves that begin anywhere, which take more registers: (32, 33333) take 6.4 us with 128 and 6.7 with 80.
_SHARES_OF_SHIFTED_HALVES = (
    _Share(128, 1.5, 2, THREADS_OF_64, True),
    _Share(256, 1.5, 4, THREADS_OF_128, True),
    _Share(256, 4.0, 4, THREADS_OF_64, False),
)


def plan_clustered_lines(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch of a cluster for each group; None where there are no clusters, or others are faster."""
    if not device.clusters:
        return None
    rows = rows_of(groups)
    share = _share_of(groups, rows, device)
    if share is None:
        return None
    blocks = math.ceil(rows / (_WARPS * share.rows))
    resident = resident_blocks(groups, device, share.threads, _WARPS * LANES)
    if share.rows == _ROWS_OF_ALL_AT_ONCE and groups.count * blocks > resident * device.multiprocessors:
        return None
    shares = {
        **shares_of_several(groups, _WARPS, share.rows),
        "CLUSTER": blocks,
        "OPERANDS_EARLY": groups.has("output") and share.early and groups.has_narrow_operands,
        "RESIDENT": resident,
        "ENDS": ends_of(groups, blocks * _WARPS * share.rows * LANES, 1),
        "SPLITS": are_faster_apart(groups, spec),
    }
    return one_launch("lines", "clustered_lines", groups, spec, shares, groups.count * blocks, _WARPS, blocks)


def _share_of(groups: Groups, rows: int, device: DeviceProperties) -> _Share | None:
    """Of groups of so many rows."""
    work = groups.count * math.ceil(rows / LANES) / device.multiprocessors
    least = _LEAST_ROWS_OF_HALVES if groups.source.dtype.itemsize == 2 and work <= _WORK_OF_FEW_ROWS else _LEAST_ROWS
    if rows <= least or work > _most_work(groups, rows, device):
        return None
    shifted_halves = groups.source.dtype.itemsize <= 2 and not groups.packed("input")
    shares = _SHARES_OF_SHIFTED_HALVES if shifted_halves else _SHARES
    return next((share for share in shares if rows <= share.most_rows and work <= share.most_work), None)


def _most_work(groups: Groups, rows: int, device: DeviceProperties) -> float:
    """That clusters are faster with."""
    if not groups.has("output"):
        return _WORK_OF_MOMENTS if rows > _ROWS_OF_BLOCK else 0
    held_by_block = rows <= _ROWS_OF_BLOCK and not is_better_streamed(groups, rows, device)
    return _WORK_OF_BLOCK if held_by_block else math.inf
