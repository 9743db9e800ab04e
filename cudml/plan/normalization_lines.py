"""The plans of normalizations of groups whose elements lie side by side and fit a block, or are read twice:
kernels/normalization_lines.cu.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.groups import Groups
from cudml.plan.layout import power_of_two
from cudml.plan.loads import EVICT_NORMALLY
from cudml.plan.normalization_steps import apply_step, array_arguments, parameters, sum_step
from cudml.plan.plan import Launch, Plan, constants_of
from cudml.plan.spec import Normalization

#: Warps of a block, each with groups of its own.
_WARPS_OF_SHORT_GROUPS = 2

#: Rows of 32 chunks that a warp holds of groups that it need not share: of several, or of one, which has no more than
#: this, or than that if elements are halves or groups few: 1024 halves take 0.251 ms of a warp of its own with nobody
#: else's group, and 0.342 so; 768 take 0.324 and 0.477 ms.
_SHORT_ROWS, _SHORT_ROWS_OF_HALVES = 4, 2

#: Rows that each warp holds of a group of several warps, by the number of the group's rows: as were the fastest on an
#: H200 for float32 with an output, and for moments alone and what is computed in double. (4681, 7168) floats take 69 us
#: by 8 rows, and 72 by 4.
LINE_ROWS = ((4, 1), (8, 2), (32, 4), (128, 8))
_OTHER_LINE_ROWS = ((4, 1), (8, 2), (64, 4), (128, 8))

#: And of doubles with an output, aligned and not: a multiprocessor has room for several blocks where few warps hold
#: many. (8000, 4096) take an H100 177 us by 8 rows and 222 by 4, (8000, 3001) 135 and 199, (8000, 3000) 132 and 131,
#: (3000, 8000) 133 by 16 and 151 by 8.
_LINE_ROWS_OF_DOUBLES = ((4, 1), (8, 2), (60, 4), (96, 8), (128, 16))
_LINE_ROWS_OF_SHIFTED_DOUBLES = ((4, 1), (8, 2), (16, 4), (96, 8), (128, 16))

#: Of groups of several runs, whose addresses take long: (32, 128, 8, 8) over 0, 2, 3 takes 2.7 us in place of 3.2, and
#: (12, 1000, 23, 23) halves take 18.5 by 4 rows and 34 by 8.
_LINE_ROWS_OF_RUNS = ((4, 1), (16, 2), (64, 4), (128, 8))

#: Of more rows of runs that begin anywhere a warp has 8, which is slower than a stream if there are more of all groups
#: for each multiprocessor: (512, 2048, 7, 7) halves take 207 us and 178. But (16, 512, 33, 33) take 29 and 37.
_MOST_ROWS_OF_RUNS, _ROWS_OF_STREAMS = 64, 288

#: With gelu, which takes long, a warp that holds more hides more. So does one of halves, but should hold few rows that
#: do not exist: (13107, 5120) bfloat16s take 69 us by 4 rows, 78 by 8; (8192, 5120) with gelu 73 and 92.
_LINE_ROWS_OF_GELU = ((4, 1), (8, 2), (16, 4), (128, 8))
_LINE_ROWS_OF_HALVES = ((4, 1), (8, 2), (20, 4), (32, 8), (40, 4), (128, 8))

#: And of halves that begin anywhere: (16380, 4097) bfloat16s take 134 us by 2 rows, 190 by 8; (8191, 8193) 119 by 4,
#: 149 by 8.
_LINE_ROWS_OF_SHIFTED_HALVES = ((4, 1), (10, 2), (16, 4), (32, 2), (64, 4), (128, 8))

#: Warps hold at least so many rows of groups of many, except of so many rows as three warps share evenly, and of halves
#: that begin anywhere.
_LEAST_OF_MANY, _ROWS_OF_THREE_WARPS = 4, (5, 6)

#: And a warp of its own for halves of so many rows, of which it loads those that there are: (52428, 1280) bfloat16s
#: take 81 us so, and 93 by three warps.
_ROWS_OF_ONE_WARP, _OF_ONE_WARP = (5, 6, 7), 8

#: And for float32 of so many rows, each element of which has its own scale and bias: (100764, 333) take 91 us so, and
#: 101 where all 4 rows of a short group are worked on; and of 4 that begin anywhere: (131072, 438) take an H100 158 us
#: so, and 316.
_ROWS_OF_PART, _ROWS_OF_SHIFTED_PART = (3,), (3, 4)

#: And of floats in groups of more rows than so many where scale and bias are the same for many of their elements, which
#: leaves registers; or of groups of more than that which begin anywhere: (2236, 15001) take 101 us, and 123 by 8 rows.
MOST_ROWS, _ROWS_OF_LARGE, _ROWS_OF_LARGE_SHIFTED = 16, 64, 96

#: So few rows for each multiprocessor that a call takes as long as one warp does, which therefore gets few of them; and
#: so many that it is memory alone that counts.
_FEW_ROWS, _MANY_ROWS = 16, 256

#: Threads of all blocks that shall fit a multiprocessor, which leaves each so many registers: 48 for moments of several
#: warps, and for long runs of halves of which a warp holds few rows; 64 usually; 80 for more rows and whole groups in a
#: warp, of float32 or that begin anywhere; 96 for doubles; 128 for what else is computed in double and for most.
_THREADS_OF_48, _THREADS_OF_64, _THREADS_OF_80, _THREADS_OF_96, _THREADS_OF_128 = 1344, 1024, 768, 640, 512
_LEAST_ROWS_OF_48 = 16

#: What is prefetched while the launch ahead ends, at most: in all, and of each warp. Of many launches in a row (1024,
#: 1024) floats take an H200 3.2 us so, and 3.6 else; but (65536, 64) 9.7 and 9.5, and (64, 256, 16, 16) over 0, 2, 3, 8
#: rows in each warp, 11.8 and 11.3.
_PREFETCHED_BYTES, _PREFETCHED_ROWS = 1 << 22, 4

#: And of groups of one run, which a thread prefetches in bulk: (4096, 1024) take 10.0 us and 10.5, (8192, 1024) 17.3
#: either way. Moments of (4096, 1024) take 5.7 us so, and 5.5 else.
_PREFETCHED_IN_BULK = 1 << 24

#: Smaller elements of runs are not loaded by the chunk: they would take more accesses for each sector.
_RUNS_ITEMSIZE = 4

#: For groups that are larger: warps that share a tile, and rows that each of them holds; and of groups of several runs,
#: whose addresses take registers: (2048, 4, 101, 101) halves over 0, 2, 3 take an H100 245 us so, and 521 as others do.
_TILE_WARPS, _TILE_ROWS = 16, 8
_TILE_WARPS_OF_RUNS, _TILE_ROWS_OF_RUNS = 8, 4

#: How many times a warp's rows a run is at least, so that few warps have parts of two: then the others move theirs in
#: pieces, which makes 208 us of 245. And so that warps hold as many rows as others do, by the bytes of an element: (64,
#: 3, 1001, 1001) halves take 427 us by 8 rows and 442 by 4, (512, 3, 223, 223) 207 and 184, (2048, 4, 101, 101) floats
#: 362 and 369.
_LONG_RUN, _LONGER_RUN = 4, {2: 128, 4: 8}

#: The part of the tiles of a group that elements have to fill: else fewer warps share each. Moments of (4096, 17262)
#: floats, 53 % of two tiles, take an H100 117 us by 4 warps, and 141 by 16.
_LEAST_OF_TILES = 0.75

#: But if these are moments of so many groups for each multiprocessor, a block alone adds up all of a group that does
#: not fill its tiles, each warp so many times its rows at the most: 95 us. (1500, 50001) takes 111, and 126 in tiles;
#: (4096, 65536), which fills them, 348 and 339.
_ALONE_GROUPS, _ALONE_ROUNDS = 8, 4

#: Static shared memory of a block at the most, less what sums take.
_STATIC_BYTES = 40_000


def plan_short_lines(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """A group or several for each warp; None where groups are longer, or better have a warp that leaves rows out."""
    chunks, rows = _chunks(groups), _rows(groups)
    few = groups.count * min(LANES, chunks) * rows <= _FEW_ROWS * LANES * device.multiprocessors
    in_part = few or groups.source.dtype.itemsize == 2 or _are_parts_of_rows(groups, rows, device)
    if rows > (_SHORT_ROWS_OF_HALVES if in_part else _SHORT_ROWS):
        return None
    lanes, group_rows = min(LANES, power_of_two(chunks)), power_of_two(rows)
    most = group_rows if few else _SHORT_ROWS
    held = min(most, lanes) if groups.packed("input") else most
    groups_of_warp = held // group_rows * (LANES // lanes)
    packed = all(groups.packed(name) for name in ("input", "output") if groups.has(name))
    threads = _THREADS_OF_80 if groups.source.dtype.itemsize == 4 or not packed else _THREADS_OF_64
    shares = {
        **_shares(groups, device, 1, held),
        "TEAMS": _WARPS_OF_SHORT_GROUPS,
        "RESIDENT": _resident(groups, device, threads, _WARPS_OF_SHORT_GROUPS * LANES),
        "LINE_LANES": lanes,
        "LENGTH": groups.length if lanes < LANES else 0,
        "GROUP_ROWS": group_rows,
        "ENDS": _ends(groups, group_rows * lanes, _WARPS_OF_SHORT_GROUPS * groups_of_warp),
    }
    if lanes < LANES:
        shares |= {"INPUT_GRAIN": 1, "OUTPUT_GRAIN": 1}
    if lanes < LANES and shares["OUTPUT_STEP"] < 4 and groups.has("output") and not groups.end_to_end("output"):
        shares["OUTPUT_STEP"] = 0  # several groups of a row are stored in one go
    return _one_launch("normalize_short_lines", groups, spec, shares, _WARPS_OF_SHORT_GROUPS * groups_of_warp)


def plan_shared_lines(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """Warps of a block for each group; None where a block cannot hold one."""
    rows, most_warps = _rows(groups), _most_warps(groups)
    if rows > min(LINE_ROWS[-1][0], most_warps * LINE_ROWS[-1][1]) or _is_better_streamed(groups, rows, device):
        return None
    of_warp = _rows_of_warp(groups, spec, rows, most_warps, device)
    warps = math.ceil(rows / of_warp)
    at_once = groups.count * warps * LANES <= _THREADS_OF_80 * device.multiprocessors
    are_many = groups.has_own_operands or groups.has_operands_of_runs
    has_registers = not are_many or of_warp <= 2 or (of_warp <= 4 and at_once)
    shares = _shares(groups, device, warps, of_warp)
    shares["OPERANDS_EARLY"] = groups.has("output") and has_registers
    shares["RESIDENT"] = _resident(groups, device, _threads(groups, rows, of_warp, at_once), warps * LANES)
    if _is_shifted(groups) and groups.count <= device.multiprocessors:
        shares["RESIDENT"] = 1  # there are no more: (52, 5958) floats take an H100 4.0 us so, and 5.5 with 3
    shares["ENDS"] = _ends(groups, warps * of_warp * LANES, 1)
    shares["SPLITS"] = warps > 1 and _are_faster_apart(groups, spec)
    if len(groups.reduced.sizes) == 1 and groups.packed("input") and groups.has("output"):
        nbytes = groups.source.size * groups.source.dtype.itemsize
        shares["PREFETCHED"] = nbytes <= _PREFETCHED_IN_BULK and device.begins_early
    return _one_launch("normalize_lines", groups, spec, shares, 1)


def plan_tiled_lines(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan:
    """The sums of all tiles, and every tile again."""
    tile = _tile(groups, device)
    chunks, block = tile.warps * tile.rows * tile.rounds * LANES, tile.warps * LANES
    shares = {**_shares(groups, device, tile.warps, tile.rows), "ROUNDS": tile.rounds}
    if tile.rounds > 1:  # (4096, 17262) take 107 us with 48 registers
        shares["RESIDENT"] = min(shares["RESIDENT"], max(1, _THREADS_OF_64 // block))
    shares["ENDS"] = _ends(groups, chunks, 1)
    shares["LONG_RUNS"] = in_long_runs = _are_long_runs(groups, tile.rows)
    shares["SPLITS"] = shares["INPUT_STEP"] > 0 or in_long_runs
    groups = groups.in_tiles(chunks * groups.chunk)
    constants = _constants(groups, spec)
    if shares["ENDS"] and not groups.has("output"):
        constants["EVICTION"] = EVICT_NORMALLY  # (300, 100000) takes 35 us, and 38 evicted first
    constants |= shares
    sums = sum_step("lines", groups, spec, constants, block)
    if not groups.has("output"):
        return sums
    return replace(sums, launches=sums.launches + apply_step("lines", groups, spec, constants, block).launches)


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
    most = _TILE_WARPS_OF_RUNS if in_runs and (groups.has("output") or not are_longer) else _TILE_WARPS
    of_warp = _TILE_ROWS_OF_RUNS if in_runs and not are_longer else _TILE_ROWS
    warps, rows = min(most, _most_warps(groups)), _rows(groups)
    rounds = power_of_two(math.ceil(rows / (warps * of_warp)))
    are_many = groups.count >= _ALONE_GROUPS * device.multiprocessors
    if not groups.has("output") and are_many and rounds <= _ALONE_ROUNDS and rows % (warps * of_warp):
        return _Tile(math.ceil(rows / (of_warp * rounds)), of_warp, rounds)
    while warps > 1 and rows < _LEAST_OF_TILES * math.ceil(rows / (warps * of_warp)) * warps * of_warp:
        warps //= 2
    return _Tile(warps, of_warp)


def _are_long_runs(groups: Groups, of_warp: int, times: int = _LONG_RUN) -> bool:
    """Whether groups are several runs that begin anywhere, so many times as long as the rows of a warp."""
    if groups.is_double or len(groups.reduced.sizes) == 1 or groups.packed("input"):
        return False
    is_long = groups.reduced.sizes[-1] >= times * of_warp * LANES * groups.chunk
    return is_long and all(groups.is_dense_in_runs(name) for name in ("input", "output") if groups.has(name))


def _chunks(groups: Groups) -> int:
    """Of a group; of nothing those of a row, in which none exists."""
    return math.ceil(groups.length / groups.chunk) or LANES


def _rows(groups: Groups) -> int:
    """Of 32 chunks, in a group."""
    return math.ceil(_chunks(groups) / LANES)


def _constants(groups: Groups, spec: Normalization) -> dict[str, str | int | bool]:
    return {**groups.constants(spec), "HAS_OUTPUT": groups.has("output"), "EVICTION": groups.eviction}


def _most_warps(groups: Groups) -> int:
    """Warps of a block whose rows fit into static shared memory, should they go through it (bytes become doubles)."""
    row_bytes = LANES * groups.chunk * groups.widest
    return min(_TILE_WARPS, power_of_two(_STATIC_BYTES // row_bytes + 1) // 2)


def _rows_of_warp(groups: Groups, spec: Normalization, rows: int, most_warps: int, device: DeviceProperties) -> int:
    """Of a group of so many rows."""
    table, packed, many = _line_rows(groups, spec), groups.packed("input"), _are_many(groups, rows, device)
    if _holds_most(groups, rows):
        return MOST_ROWS
    if many and packed and _is_of_halves(groups) and rows in _ROWS_OF_ONE_WARP:
        return _OF_ONE_WARP
    is_odd = rows in _ROWS_OF_THREE_WARPS and (groups.source.dtype.itemsize == 2 or not packed)
    is_shifted = table is _LINE_ROWS_OF_SHIFTED_HALVES and rows > table[0][0]
    least = _LEAST_OF_MANY if many and not (is_odd or is_shifted) else 1
    fitting = (of_warp for limit, of_warp in table if rows <= min(limit, most_warps * of_warp))
    return next(of_warp for of_warp in fitting if of_warp >= least)


def _holds_most(groups: Groups, rows: int) -> bool:
    """Whether a warp holds as many rows as it can."""
    if groups.source.dtype.name != "float32" or not groups.has("output") or rows <= _ROWS_OF_LARGE:
        return False
    if groups.has_own_operands:
        return _is_shifted(groups) and rows > _ROWS_OF_LARGE_SHIFTED
    return _is_shifted(groups) or groups.length % groups.chunk == 0


def _line_rows(groups: Groups, spec: Normalization) -> tuple[tuple[int, int], ...]:
    """The table of rows of a warp."""
    in_runs = len(groups.reduced.sizes) > 1
    if not groups.has("output"):
        return _LINE_ROWS_OF_RUNS if in_runs else _OTHER_LINE_ROWS
    if _is_of_halves(groups) and groups.packed("input"):
        return _LINE_ROWS_OF_HALVES
    if _is_of_halves(groups) and not _is_gelu(spec):
        return _LINE_ROWS_OF_SHIFTED_HALVES
    if (groups.source.dtype.itemsize == 2 and not _are_any_runs(groups)) or _is_gelu(spec):
        return _LINE_ROWS_OF_GELU
    if in_runs:
        return _LINE_ROWS_OF_RUNS
    if groups.source.dtype.itemsize == 8:
        return _LINE_ROWS_OF_DOUBLES if groups.packed("input") else _LINE_ROWS_OF_SHIFTED_DOUBLES
    return _OTHER_LINE_ROWS if groups.is_double else LINE_ROWS


def _are_many(groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Groups of so many rows."""
    return groups.count * rows > _MANY_ROWS * device.multiprocessors


def _is_of_halves(groups: Groups) -> bool:
    """Whether a group is a run of halves, which are not computed in double."""
    of_halves = groups.source.dtype.itemsize == 2 and not groups.is_double
    return of_halves and len(groups.reduced.sizes) == 1 and groups.step_of_runs("input") > 0


def _are_any_runs(groups: Groups) -> bool:
    """Whether a group is many runs that begin anywhere, whose elements are loaded one by one."""
    return not (groups.packed("input") or groups.is_one_run("input")) and groups.grain_of("input") == 1


def _is_better_streamed(groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Whether kernels/normalization_stream.cu is faster, and the GPU can launch it."""
    able = device.hardware_gates and device.cooperative_launch and groups.has("output") and not groups.is_double
    are_many = groups.count * rows > _ROWS_OF_STREAMS * device.multiprocessors
    return able and are_many and rows > _MOST_ROWS_OF_RUNS and _are_any_runs(groups)


def _is_shifted(groups: Groups) -> bool:
    """Whether a group is a run that begins anywhere."""
    return groups.step_of_runs("input") > 0 and not groups.packed("input")


def _are_parts_of_rows(groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Whether a warp of its own is faster for a group of one run, as it leaves out a row that does not exist."""
    own = groups.has("output") and groups.has_own_operands and len(groups.reduced.sizes) == 1
    is_single = groups.source.dtype.itemsize == 4 and not groups.is_double
    parts = _ROWS_OF_SHIFTED_PART if _is_shifted(groups) else _ROWS_OF_PART
    return rows in parts and own and is_single and _are_many(groups, rows, device)


def _threads(groups: Groups, rows: int, of_warp: int, at_once: bool) -> int:
    """Of all blocks of a multiprocessor, where warps share groups of so many rows, and all groups are worked on at once
    or not."""
    if of_warp == MOST_ROWS:
        return _THREADS_OF_128
    if _is_of_halves(groups) and of_warp <= 4 and rows > _LEAST_ROWS_OF_48 and not at_once:
        return _THREADS_OF_48
    is_large = (of_warp == 4 and at_once) or (of_warp == 8 and rows <= _ROWS_OF_LARGE)
    return _THREADS_OF_80 if is_large or _asks_for_80(groups, of_warp) else _THREADS_OF_64


def _asks_for_80(groups: Groups, of_warp: int) -> bool:
    """Whether so many rows that begin anywhere, with their own scale and bias, need as many registers: (32768, 10029)
    floats take an H100 922 us so, and 1269 with 64, (32768, 3002) 265 and 273, (32768, 3001) bfloat16s 178 and 191."""
    if not (_is_shifted(groups) and groups.has_own_operands):
        return False
    if groups.source.dtype.itemsize == 2:
        return of_warp == 4 and groups.step_of_runs("input") == 2
    return of_warp == 8 or (of_warp == 4 and groups.step_of_runs("input") == 8)


def _are_faster_apart(groups: Groups, spec: Normalization) -> bool:
    """Whether warps all of whose rows exist are faster with code of their own: those of one run. Moments of packed
    groups are not, (3979, 8432) floats take 37 us so, and 33 otherwise; nor is gelu, of which there is much code."""
    if len(groups.reduced.sizes) > 1 or _is_gelu(spec):
        return False
    return groups.step_of_runs("input") > 0 if groups.has("output") else _is_shifted(groups)


def _is_gelu(spec: Normalization) -> bool:
    """Whether each element takes long."""
    return spec.activation is not None and spec.activation.name == "gelu"


def _ends(groups: Groups, chunks: int, groups_of_block: int) -> int:
    """kernels/normalization_chunks.cuh: ENDS, where so many chunks of a group or tile, and groups, are worked on."""
    if groups.length % groups.chunk or groups.length == 0:
        return 2
    whole = groups.length % (chunks * groups.chunk) == 0
    return 0 if whole and groups.count % groups_of_block == 0 else 1


def _shares(groups: Groups, device: DeviceProperties, warps: int, rows: int) -> dict[str, int]:
    packed = {f"{name.upper()}_PACKED": groups.packed(name) for name in ("input", "output", "scale", "bias")}
    if groups.length == 0:
        packed["INPUT_PACKED"] = True  # so that no address is made up for what does not exist
    run, nbytes = groups.reduced.sizes[-1], groups.source.dtype.itemsize
    dense = groups.reduced.strides["input"][-1] == nbytes
    few = groups.source.size * nbytes <= _PREFETCHED_BYTES and rows <= _PREFETCHED_ROWS
    return {
        **packed,
        "INPUT_STEP": 0 if packed["INPUT_PACKED"] else groups.step_of_runs("input"),
        "OUTPUT_STEP": 0 if packed["OUTPUT_PACKED"] else groups.step_of_runs("output"),
        "OUTPUT_IN_RUNS": groups.in_long_runs("output"),
        "GRAIN": groups.grain,
        "INPUT_GRAIN": groups.grain_of("input"),
        "OUTPUT_GRAIN": groups.grain_of("output"),
        "IN_RUNS": len(groups.reduced.sizes) == 2 and run >= groups.chunk and nbytes >= _RUNS_ITEMSIZE and dense,
        "PREFETCHED": packed["INPUT_PACKED"] and few and device.begins_early,
        "LINE_LANES": LANES,
        "LENGTH": 0,
        "GROUP_ROWS": 1,
        "OPERANDS_EARLY": False,
        "LONG_RUNS": False,
        "SPLITS": False,
        "REPEATS": groups.repeats("scale") and groups.repeats("bias"),
        "WARPS": warps,
        "ROUNDS": 1,
        "ROWS": rows,
        "TEAMS": 1,
        "RESIDENT": _resident(groups, device, _THREADS_OF_64, warps * LANES),
    }


def _resident(groups: Groups, device: DeviceProperties, threads: int, block: int) -> int:
    """Blocks that shall fit a multiprocessor, `threads` threads in all for the usual normalization."""
    if groups.is_double:
        threads = _THREADS_OF_96 if groups.source.dtype.itemsize == 8 else _THREADS_OF_128
    elif not groups.has("output") and block > LANES:  # fewer registers bring no more blocks of one warp
        threads = _THREADS_OF_48
    most_blocks = 16 if device.threads_per_multiprocessor < 2048 else 32  # of a multiprocessor, or 24
    return max(1, min(min(threads, device.threads_per_multiprocessor) // block, most_blocks))


def _one_launch(kernel: str, groups: Groups, spec: Normalization, shares: dict[str, int], groups_of_block: int) -> Plan:
    arguments = (*array_arguments(), groups.geometry, parameters(groups, spec))
    block = shares["TEAMS"] * shares["WARPS"] * LANES
    launch = Launch(kernel, math.ceil(groups.count / groups_of_block), block, arguments, early=True)
    return Plan("normalization_lines.cu", constants_of(**_constants(groups, spec), **shares), (launch,))
