"""The plans of mean and variance of many runs of halves that a block holds: kernels/normalization_lines.cu.

Elements are converted and added up for about as long as they are loaded, so what counts is that every multiprocessor
does both at any time: warps have enough rows to be busy while others wait, and so few registers that there are many.

Measured on an H200 with 2^28 float16s, in us, before and now: (16384, 16384) 149 and 122, (104857, 2560) 154 and 120,
(149796, 1792) 145 and 120, (21845, 12288) 138 and 120; rows that begin anywhere: (16776, 16001) 218 and 181, (22367,
12001) 194 and 165, (76673, 3501) 197 and 176. A sum that only reads takes 116.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.line_shares import (
    AS_COMPILERS_CHOOSE,
    THREADS_OF_32,
    THREADS_OF_56,
    THREADS_OF_64,
    THREADS_OF_80,
    are_many,
    blocks_of,
    input_ahead,
    is_shifted,
    one_launch,
    rows_of,
    shares_of_own_warp,
)
from cudml.plan.normalization.lines import shares_of_warps
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization


class _Table(NamedTuple):
    """Rows of a group by how warps have them, and threads of a multiprocessor, which leaves each its registers."""

    alone: dict[range, int]
    """That one warp has, if there are more groups for each multiprocessor than so many."""
    threads_alone: int
    shared: range
    """That several warps share, 8 rows each or 4."""
    threads_of_8: int
    threads_of_4: int


#: Of aligned groups: a warp of its own with the 64 to 72 registers that compilers choose, as with 80 or 64 they spill;
#: 4 rows to a warp where 8 would leave more of the last warp idle. (52428, 5120) take 122 us by 4 rows and 138 by 8,
#: (34952, 7680) 134 and 123. Few long groups had better be shared: (6553, 2560) take 10.2 us by a warp each and 11.3 by
#: several, (4681, 3584) 11.5 and 10.9; and (10922, 3072), 12 rows, by three warps, 18.4 and 16.8.
_ALIGNED = _Table(
    {range(3, 12): 40, range(12, 13): 512, range(13, 16): 64},
    AS_COMPILERS_CHOOSE,
    range(16, 65),
    THREADS_OF_64,
    THREADS_OF_32,
)

#: Of groups that begin anywhere, and need registers for what is shifted. (19168, 3501) take 47 us by a warp each and 50
#: by several, (4792, 3501) 15.6 and 14.2. Other rows are no faster so.
_SHIFTED = _Table({range(11, 15): 128}, THREADS_OF_80, range(33, 65), THREADS_OF_56, THREADS_OF_56)


def plan_half_moments(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """None of other groups, and of so few that others plan them as well."""
    rows = rows_of(groups)
    if not (are_moments_of_many_halves(groups, device) and len(groups.reduced.sizes) == 1):
        return None
    table = _SHIFTED if is_shifted(groups) else _ALIGNED
    if _has_one_warp(table, groups, rows, device):
        warps, threads, shares = 1, table.threads_alone, shares_of_own_warp(groups, rows)
    elif rows in table.shared:
        of_warp = 8 if math.ceil(rows / 4) % 2 == 0 else 4
        warps, threads = math.ceil(rows / of_warp), table.threads_of_8 if of_warp == 8 else table.threads_of_4
        shares = shares_of_warps(groups, spec, warps, of_warp)
    else:
        return None
    shares |= {"RESIDENT": blocks_of(device, threads, warps * LANES), "CLUSTER": 1}
    return one_launch("lines", "lines", groups, spec, shares, groups.count, warps, ahead=input_ahead(groups, device))


def are_moments_of_many_halves(groups: Groups, device: DeviceProperties) -> bool:
    """Whether these are, aligned or in one run."""
    are_halves = groups.are_floats and groups.source.dtype.itemsize == 2 and not groups.has("output")
    return are_halves and (groups.packed("input") or is_shifted(groups)) and are_many(groups, rows_of(groups), device)


def _has_one_warp(table: _Table, groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Whether each group has."""
    least = next((least for of, least in table.alone.items() if rows in of), math.inf)
    return groups.count > least * device.multiprocessors
