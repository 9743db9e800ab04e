"""The plans of normalizations of groups whose elements lie side by side, and that no block holds:
kernels/normalization_tiled_lines.cu.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import power_of_two
from cudml.plan.loads import EVICT_NORMALLY, asked_for_ahead
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.half_moments import are_moments_of_many_halves
from cudml.plan.normalization.line_shares import (
    THREADS_OF_56,
    THREADS_OF_64,
    THREADS_OF_128,
    are_any_runs,
    constants_of_lines,
    ends_of,
    is_shifted,
    most_warps_of,
    resident_blocks,
    rows_of,
    shares_of_several,
)
from cudml.plan.normalization.runs import are_dense_in_runs
from cudml.plan.normalization.steps import apply_step, sum_step
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: Rows that each warp of a tile holds, or fewer of groups of several runs, whose addresses take registers, and of bytes
#: that are normalized; and warps of groups of several runs at the most. (2048, 4, 101, 101) halves over 0, 2, 3 take an
#: H100 245 us so, and by 8 rows and 16 warps 521, 33554431 uint8s into halves an H200 90 and 243, (96, 3, 224, 224)
#: int8s over 2, 3 into float64 69 and 86.
_TILE_ROWS, _FEW_TILE_ROWS = 8, 4
_TILE_WARPS_OF_RUNS = 8

#: How many times a warp's rows a run is at least, so that few warps have parts of two: then the others move theirs in
#: pieces, which makes 208 us of 245. And so that warps hold as many rows as others do, by the bytes of an element: (64,
#: 3, 1001, 1001) halves take 427 us by 8 rows and 442 by 4, (512, 3, 223, 223) 207 and 184, (2048, 4, 101, 101) floats
#: 362 and 369.
_LONG_RUN, _LONGER_RUN = 4, {2: 128, 4: 8}

#: Warps of a tile, and rows that each of them has, of moments of many halves: aligned ones, of which few fit the
#: registers at a time, are loaded while others are added up, and others that begin anywhere. (2048, 131072) float16s
#: take 127 us so and 145 as others do, (64, 256, 128, 128) over 0, 2, 3 129 and 146, (256, 1000001) 172 and 192.
_HALF_WARPS, _HALF_ROWS, _SHIFTED_HALF_ROWS = 4, 16, 8

#: The part of the tiles of a group that elements have to fill: else fewer warps share each. Moments of (4096, 17262)
#: floats, 53 % of two tiles, take an H100 117 us by 4 warps, and 141 by 16.
_LEAST_OF_TILES = 0.75

#: And threads of a multiprocessor that only read halves of such runs, one by one: moments of (128, 256, 15, 15) over 0,
#: 2, 3 take an H100 12.9 us so and 14.2 with 48 registers, of (32, 100, 55, 55) 14.7 and 15.3; but of (568, 64, 777,
#: 4), four by four, 94.6 and 89.5.
_READERS_OF_HALVES = THREADS_OF_56

#: And that read halves at a stride, whose addresses take more: moments of x[:, ::2] of (147, 24197) bfloat16s take an
#: H200 8.3 us so and 20.3 with 56 registers, of (3, 5080396) 32.2 and 48.6, of (1204, 30882) float16s 60 and 111.
_READERS_OF_STRIDED_HALVES = THREADS_OF_128

#: Tiles for each multiprocessor, before warps that share one are more than so few: (4, 3, 224, 224) float16 over 1, 2,
#: 3 take an H100 5.0 us by 4 warps and 6.7 by 16, (16, 200000) 10.0 and 11.1, (64, 3, 224, 224) 22.2 by 8 and 23.4 by
#: 16.
_LEAST_TILES, _LEAST_WARPS = 2.5, 4

#: But if these are moments of so many groups for each multiprocessor, a block alone adds up all of a group that does
#: not fill its tiles, each warp so many times its rows at the most: 95 us. (1500, 50001) takes 111, and 126 in tiles;
#: (4096, 65536), which fills them, 348 and 339; (873, 35285) float16s take an H200 25 us so and 30 in tiles, (856,
#: 18199) floats 21 and 24, but (445, 30512) float64s 33 and 31.
_ALONE_GROUPS, _ALONE_ROUNDS = 4, 4

#: Bytes of the input, at the most, that is asked for while the launch ahead ends: (16, 200000) float16s take an H100
#: 9.7 us so and 10.7 otherwise, (4, 3, 224, 224) floats over 1, 2, 3 5.9 and 6.5, moments of (64, 64, 32, 32) over 0,
#: 2, 3 8.1 and 8.6, of (64, 64, 40, 40) 12.7 and 12.1.
_AHEAD_BYTES = 1 << 24


def plan_tiled_lines(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan:
    """The sums of all tiles, and every tile again."""
    tile = _tile(groups, device)
    chunks, block = tile.warps * tile.rows * tile.rounds * LANES, tile.warps * LANES
    shares = {**shares_of_several(groups, tile.warps, tile.rows), "ROUNDS": tile.rounds}
    shares["RESIDENT"] = resident_blocks(groups, device, THREADS_OF_64, block)
    if tile.rounds > 1:  # (4096, 17262) take 107 us with 48 registers
        shares["RESIDENT"] = min(shares["RESIDENT"], max(1, THREADS_OF_64 // block))
    elif groups.source.dtype.itemsize == 2 and are_any_runs(groups):
        readers = _READERS_OF_HALVES if are_dense_in_runs(groups, "input") else _READERS_OF_STRIDED_HALVES
        shares["RESIDENT"] = resident_blocks(groups, device, THREADS_OF_64, block, readers)
    elif are_moments_of_many_halves(groups, device):
        shares["RESIDENT"] = resident_blocks(groups, device, THREADS_OF_64, block, THREADS_OF_64)
    shares["ENDS"] = ends_of(groups, chunks, 1)
    shares["LONG_RUNS"] = in_long_runs = _are_long_runs(groups, tile.rows)
    shares["SPLITS"] = is_shifted(groups) or in_long_runs or _are_cut(groups)
    groups = groups.in_tiles(chunks * groups.chunk)
    constants = constants_of_lines(groups, spec)
    if shares["ENDS"] and not groups.has("output"):
        constants["EVICTION"] = EVICT_NORMALLY  # (300, 100000) takes 35 us, and 38 evicted first
    constants |= {**shares, "SAME_OPERANDS": groups.operands.are_own and groups.operands.repeat()}
    ahead = asked_for_ahead(groups.source, _AHEAD_BYTES, device)
    sums = sum_step("tiled_lines", groups, spec, constants, block, ahead=ahead)
    if not groups.has("output"):
        return sums
    return replace(sums, launches=sums.launches + apply_step("tiled_lines", groups, spec, constants, block).launches)


def _are_cut(groups: Groups) -> bool:
    """Whether groups of whole pieces end amid one. Integers that are normalized had better have the registers: 20000001
    int16s take an H100 199 us so, and 158 otherwise."""
    may_be = groups.are_floats or not groups.has("output")
    return may_be and groups.packed("input") and groups.length % groups.chunk > 0


class _Tile(NamedTuple):
    """Warps that share one, rows that each of them holds at a time, and how often."""

    warps: int
    rows: int
    rounds: int = 1


def _tile(groups: Groups, device: DeviceProperties) -> _Tile:
    """As large as a block may have, or smaller if that leaves less of a group's tiles empty, by powers of two, as tiles
    are added up pairwise; or a whole group."""
    in_runs = len(groups.reduced.sizes) > 1 and not groups.packed("input")
    are_longer = _are_long_runs(groups, _TILE_ROWS, _LONGER_RUN.get(groups.source.dtype.itemsize, _LONG_RUN))
    warps, rows = most_warps_of(groups), rows_of(groups)
    if in_runs and (groups.has("output") or not are_longer):
        warps = min(warps, _TILE_WARPS_OF_RUNS)
    are_normalized_bytes = groups.has("output") and groups.source.dtype.itemsize == 1
    of_warp = _FEW_TILE_ROWS if are_normalized_bytes or (in_runs and not are_longer) else _TILE_ROWS
    rounds = power_of_two(math.ceil(rows / (warps * of_warp)))
    are_many = groups.count >= _ALONE_GROUPS * device.multiprocessors
    if not groups.has("output") and are_many and rounds <= _ALONE_ROUNDS and rows % (warps * of_warp):
        return _Tile(math.ceil(rows / (of_warp * rounds)), of_warp, rounds)
    if are_moments_of_many_halves(groups, device):
        warps, of_warp = _HALF_WARPS, _HALF_ROWS if groups.packed("input") else _SHIFTED_HALF_ROWS
    while warps > 1 and rows < _LEAST_OF_TILES * math.ceil(rows / (warps * of_warp)) * warps * of_warp:
        warps //= 2
    tiles = groups.count * rows / of_warp / device.multiprocessors
    while groups.has("output") and warps > _LEAST_WARPS and tiles / warps < _LEAST_TILES:
        warps //= 2
    return _Tile(warps, of_warp)


def _are_long_runs(groups: Groups, of_warp: int, times: int = _LONG_RUN) -> bool:
    """Whether groups are several runs that begin anywhere, so many times as long as the rows of a warp."""
    if groups.is_double or len(groups.reduced.sizes) == 1 or groups.packed("input"):
        return False
    is_long = groups.reduced.sizes[-1] >= times * of_warp * LANES * groups.chunk
    return is_long and all(are_dense_in_runs(groups, name) for name in ("input", "output") if groups.has(name))
