"""The plans of normalizations of groups of 21 rows and more, so few that each is shared by a cluster of blocks, which
hold it in registers: kernels/normalization_lines.cu.

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

#: Rows of a warp with which all blocks shall run at once: (60, 50000) floats, 420 blocks, take an H100 17.3 us so, and
#: 15.6 as a stream, (64, 40000), 320 blocks, 12.2 and 14.9.
_ROWS_OF_ALL_AT_ONCE = 8

#: Rows of a group that one block can have too, and is faster with if there is more work than this, unless it would load
#: elements one by one.
_ROWS_OF_BLOCK, _WORK_OF_BLOCK = 128, 2.0

#: Mean and variance alone gain up to this much work, of whole chunks if groups have more rows than so many: those of
#: (8, 65536) floats take an H100 3.9 us so and 4.5 in tiles, of (64, 32768) 7.1 and 6.7, of (2, 14508), 114 rows, an
#: H200 2.5 and 3.2 by a block, of (17, 8, 96, 5) over 0, 2, 3, padded, 64 rows, 2.5 and 3.2, but of (3, 16, 128, 2)
#: over 1, 2, 3, 32 rows, 2.2 and 1.8.
_WORK_OF_MOMENTS, _ROWS_OF_MOMENTS = 1.0, 64


class _Share(NamedTuple):
    """How a group of so many rows is shared where there is up to so much work: parts of 32 rows, which are a block's
    usual share, for each multiprocessor."""

    of_group: range
    most_work: float
    warps: int
    """Of a block, which has a power of two of rows."""
    rows: int
    """Of a warp."""
    threads: int
    """Of a multiprocessor."""
    early: bool
    """Whether scale and bias are loaded along with the input."""


#: The first that fits is taken: by what was the fastest of a dozen on an H200. (8, 7680) floats take 2.6 us by two rows
#: in each of four warps, 3.0 by four in each of eight and 3.4 by a block each, (36, 11520) float16s 3.1, 3.2 and 4.3,
#: (56, 15616) 4.1 by two in each of four, 3.8 by four and 4.6 by a block each, but (79, 7936) floats 4.3, 4.0 and 3.9.
#: (5, 2, 860, 2) floats over 1, 2, 3, 27 rows, take 2.8 us by one in each of four warps and 3.4 by a block each.
_SHARES_OF_SHORT = (
    _Share(range(21, 33), 0.125, 4, 1, THREADS_OF_64, True),
    _Share(range(33, 65), 0.7, 4, 2, THREADS_OF_64, True),
    _Share(range(33, 65), 1.0, 4, 4, THREADS_OF_80, True),
)

#: The same of longer ones, of more than 128 rows on an H100. There (32, 20480) floats take 4.7 us by four rows in each
#: warp and 4.9 by eight, (64, 24576) 10.4 by four if scale and bias are loaded early and 8.8 if late, (32, 40000) 8.4
#: by eight if early and 8.7 if late, (64, 40000) 14.7 and 12.2; on an H200 (16, 2, 41, 384) over 2, 3 3.7 by four in
#: each of four warps and 4.5 by two in each of eight.
_SHARES = (
    *_SHARES_OF_SHORT,
    _Share(range(65, 129), 0.3, 8, 2, THREADS_OF_64, True),
    _Share(range(65, 129), 2.0, 4, 4, THREADS_OF_128, True),
    _Share(range(65, 257), 2.5, 8, 4, THREADS_OF_80, True),
    _Share(range(65, 225), 6.0, 8, 4, THREADS_OF_64, False),
    _Share(range(65, 513), 2.5, 8, 8, THREADS_OF_128, True),
    _Share(range(65, 513), 6.0, 8, 8, THREADS_OF_80, False),
)

#: And of halves that begin anywhere, which take more registers: (32, 33333) take 6.4 us with 128 and 6.7 with 80.
_SHARES_OF_SHIFTED_HALVES = (
    *_SHARES_OF_SHORT,
    _Share(range(65, 129), 1.5, 8, 2, THREADS_OF_64, True),
    _Share(range(65, 129), 2.0, 4, 4, THREADS_OF_128, True),
    _Share(range(65, 257), 1.5, 8, 4, THREADS_OF_128, True),
    _Share(range(65, 257), 4.0, 8, 4, THREADS_OF_64, False),
)

#: And of bytes that are normalized, of which more rows take more registers than there are: (1, 153600) uint8s, 300
#: rows, take an H200 8.8 us into halves by 8 rows in each warp and 6.3 as a stream, (45, 153600) into floats 23.6 and
#: 15.3; (45, 92160), 180 rows, 16.0 by 4 and 12.6, (8, 92160) 6.1 and 7.1.
_SHARES_OF_BYTES = (
    *_SHARES_OF_SHORT,
    _Share(range(65, 129), 0.3, 8, 2, THREADS_OF_64, True),
    _Share(range(65, 129), 2.0, 4, 4, THREADS_OF_128, True),
    _Share(range(65, 257), 1.8, 8, 4, THREADS_OF_80, True),
)


def plan_clustered_lines(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch of a cluster for each group; None where there are no clusters, or others are faster."""
    if not device.clusters:
        return None
    rows = rows_of(groups)
    share = _share_of(groups, rows, device)
    if share is None:
        return None
    of_block = share.warps * share.rows
    blocks = math.ceil(rows / of_block)
    resident = resident_blocks(groups, device, share.threads, share.warps * LANES)
    if share.rows == _ROWS_OF_ALL_AT_ONCE and groups.count * blocks > resident * device.multiprocessors:
        return None
    shares = {
        **shares_of_several(groups, share.warps, share.rows),
        "CLUSTER": blocks,
        "OPERANDS_EARLY": groups.has("output") and share.early and groups.operands.are_narrow,
        "RESIDENT": resident,
        "ENDS": ends_of(groups, blocks * of_block * LANES, 1),
        "SPLITS": are_faster_apart(groups, spec),
    }
    return one_launch("lines", "clustered_lines", groups, spec, shares, groups.count * blocks, share.warps, blocks)


def _share_of(groups: Groups, rows: int, device: DeviceProperties) -> _Share | None:
    """Of groups of so many rows."""
    work = groups.count * math.ceil(rows / LANES) / device.multiprocessors
    if work > _most_work(groups, rows, device):
        return None
    shares = _shares_for(groups)
    return next((share for share in shares if rows in share.of_group and work <= share.most_work), None)


def _shares_for(groups: Groups) -> tuple[_Share, ...]:
    if groups.has("output") and groups.source.dtype.itemsize == 1:
        return _SHARES_OF_BYTES
    shifted_halves = groups.source.dtype.itemsize <= 2 and not groups.packed("input")
    return _SHARES_OF_SHIFTED_HALVES if shifted_halves else _SHARES


def _most_work(groups: Groups, rows: int, device: DeviceProperties) -> float:
    """That clusters are faster with."""
    if not groups.has("output"):
        return _WORK_OF_MOMENTS if rows > _ROWS_OF_MOMENTS or not groups.packed("input") else 0
    held_by_block = rows <= _ROWS_OF_BLOCK and not is_better_streamed(groups, rows, device)
    return _WORK_OF_BLOCK if held_by_block else math.inf
