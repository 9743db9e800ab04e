"""The plans of moments and normalization: kernels/normalization_*.cu."""

from __future__ import annotations

import math

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.groups import Groups, Operand
from cudml.plan.layout import ArrayLayout, power_of_two
from cudml.plan.normalization_columns import plan_columns
from cudml.plan.normalization_steps import array_arguments, parameters, rounds_of, three_steps
from cudml.plan.normalization_stream import plan_stream
from cudml.plan.plan import Launch, Plan, constants_of
from cudml.plan.spec import Moments, Normalization

#: Warps of a block, at least.
_LEAST_WARPS, _WARPS_OF_SHORT_GROUPS = 4, 2

#: Rows of 32 chunks that a warp holds of groups that it need not share: of several, or of one, which has no more.
_SHORT_ROWS = 4

#: Rows that each warp holds of a group of several warps, by the number of the group's rows.
LINE_ROWS = ((64, 4), (128, 8))

#: Threads of all blocks that shall fit a multiprocessor, which leaves each so many registers: 48 for moments alone, 64
#: usually, 80 for whole groups of float32 in a warp, 128 for what is computed in double.
_THREADS_OF_48, _THREADS_OF_64, _THREADS_OF_80, _THREADS_OF_128 = 1280, 1024, 768, 512

#: For groups that are larger: warps that share a tile, rows that each of them holds at a time, and how often at most.
_TILE_WARPS, _ROWS_OF_WARP, _ROUNDS = 16, 8, 2


def plan_moments(spec: Moments, arrays: dict[str, ArrayLayout], device: DeviceProperties) -> Plan:
    """The launches that reduce `input` to `mean` and `variance`."""
    return _plan(Groups.of(spec.axes, dict(arrays), spec.correction), Normalization(spec.axes), device)


def plan_normalization(spec: Normalization, arrays: dict[str, Operand], device: DeviceProperties) -> Plan:
    """The launches that normalize `input` into `output`; `scale` and `bias` are absent, arrays or numbers (dtypes)."""
    return _plan(Groups.of(spec.axes, arrays), spec, device)


def _plan(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan:
    if groups.count == 0 or (groups.length == 0 and not groups.has("mean")):
        return Plan("normalization_lines.cu", (), ())
    if groups.length > 0 and groups.are_columns:
        return plan_columns(groups, spec, device)
    return _plan_lines(groups, spec, device)


def _plan_lines(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan:
    chunks = math.ceil(groups.length / groups.chunk)
    rows = math.ceil(chunks / LANES)
    if 0 < rows <= _SHORT_ROWS:
        return _plan_short(groups, spec, chunks, rows)
    if 0 < rows <= LINE_ROWS[-1][0]:
        of_warp = next(of_warp for limit, of_warp in LINE_ROWS if rows <= limit)
        warps = math.ceil(rows / of_warp)
        shares = _shares(groups, warps, of_warp, max(1, _LEAST_WARPS // warps))
        shares["ENDS"] = _ends(groups, warps * of_warp * LANES, shares["TEAMS"])
        return _one_launch("normalize_lines", groups, spec, shares, shares["TEAMS"])
    streamed = plan_stream(groups, spec, device) if groups.length and groups.has("output") else None
    if streamed is not None:
        return streamed
    rows = _TILE_WARPS * _ROWS_OF_WARP
    rounds = rounds_of(groups, rows * LANES * groups.chunk, _ROUNDS, device)
    rows *= rounds
    shares = {**_shares(groups, _TILE_WARPS, _ROWS_OF_WARP, 1), "ROUNDS": rounds}
    shares["ENDS"] = _ends(groups, rows * LANES, 1)
    groups = groups.in_tiles(rows * LANES * groups.chunk)
    block = _TILE_WARPS * LANES
    return three_steps("lines", groups, spec, {**groups.constants(spec), **shares}, block, groups.count * groups.tiles)


def _plan_short(groups: Groups, spec: Normalization, chunks: int, rows: int) -> Plan:
    """A group or several for each warp."""
    lanes, group_rows = min(LANES, power_of_two(chunks)), power_of_two(rows)
    held = min(_SHORT_ROWS, lanes) if groups.packed("input") else _SHORT_ROWS
    groups_of_warp = held // group_rows * (LANES // lanes)
    shares = {
        **_shares(groups, 1, held, _WARPS_OF_SHORT_GROUPS),
        "RESIDENT": _resident(groups, _THREADS_OF_80 if groups.source.dtype.itemsize == 4 else _THREADS_OF_64)
        // (_WARPS_OF_SHORT_GROUPS * LANES),
        "LINE_LANES": lanes,
        "LENGTH": groups.length if lanes < LANES else 0,
        "GROUP_ROWS": group_rows,
        "ENDS": _ends(groups, group_rows * lanes, _WARPS_OF_SHORT_GROUPS * groups_of_warp),
    }
    return _one_launch("normalize_short_lines", groups, spec, shares, _WARPS_OF_SHORT_GROUPS * groups_of_warp)


def _ends(groups: Groups, chunks: int, groups_of_block: int) -> int:
    """kernels/normalization_chunks.cuh: ENDS, where so many chunks of a group or tile, and groups, are worked on."""
    if groups.length % groups.chunk:
        return 2
    return 0 if groups.length % (chunks * groups.chunk) == 0 and groups.count % groups_of_block == 0 else 1


def _shares(groups: Groups, warps: int, rows: int, teams: int) -> dict[str, int]:
    packed = {f"{name.upper()}_PACKED": groups.packed(name) for name in ("input", "output", "scale", "bias")}
    return {
        **packed,
        "LINE_LANES": LANES,
        "LENGTH": 0,
        "GROUP_ROWS": 1,
        "REPEATS": groups.repeats("scale") and groups.repeats("bias"),
        "WARPS": warps,
        "ROUNDS": 1,
        "ROWS": rows,
        "TEAMS": teams,
        "FINISHERS": 1,
        "RESIDENT": max(1, _resident(groups, _THREADS_OF_64) // (teams * warps * LANES)),
    }


def _resident(groups: Groups, threads: int) -> int:
    """Threads that shall fit a multiprocessor, `threads` of them for the usual normalization."""
    if groups.is_double:
        return _THREADS_OF_128
    return threads if groups.has("output") else _THREADS_OF_48


def _one_launch(kernel: str, groups: Groups, spec: Normalization, shares: dict[str, int], groups_of_block: int) -> Plan:
    arguments = (*array_arguments(), groups.geometry, parameters(groups, spec))
    block = shares["TEAMS"] * shares["WARPS"] * LANES
    launch = Launch(kernel, math.ceil(groups.count / groups_of_block), block, arguments)
    return Plan("normalization_lines.cu", constants_of(**groups.constants(spec), **shares), (launch,))
