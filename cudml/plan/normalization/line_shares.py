"""How rows of lines are shared out to warps: what plans of kernels/normalization_*lines.cu have in common."""

from __future__ import annotations

import math

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import ArrayLayout, power_of_two
from cudml.plan.loads import asked_for_ahead
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.runs import grain_of, in_long_runs, store_halves_in_runs
from cudml.plan.normalization.steps import array_arguments, parameters
from cudml.plan.plan import Launch, Plan, Struct, constants_of
from cudml.plan.spec import Normalization

#: Rows for each multiprocessor from which on it is memory alone that counts, and of aligned halves that are normalized
#: those from which on warps hold more, each of a group of four rows without a scale of each element, and of others, but
#: for those of six: (5461, 768) float16s take an H200 7.5 us so and 8.2 otherwise, (2048, 2048) 6.1 and 6.6, but (2730,
#: 1536) 7.3 and 7.1; (16, 64, 1024) with a scale of each channel, 31 rows, 2.3 and 2.9, (1024, 1024) with one of each
#: element 2.8 and 2.6.
_VERY_MANY_ROWS, _MANY_FOUR_ROWS, _MANY_ROWS_OF_HALVES = 256, 24, 100

#: Threads of all blocks that shall fit a multiprocessor, which leaves each so many registers: 32 for some moments of
#: many halves; 48 for other moments of several warps, and for long runs of halves of which a warp holds few rows; 56
#: for some of these; 64 usually; 80 for more rows and whole groups in a warp, of float32 or that begin anywhere; 96 for
#: doubles; 128 for what else is computed in double and for most; 160 for a warp of its own with most rows of halves.
#: AS_COMPILERS_CHOOSE: those often take fewer registers than they may, and order instructions otherwise.
THREADS_OF_32, AS_COMPILERS_CHOOSE = 2048, 0
THREADS_OF_48, THREADS_OF_56, THREADS_OF_64 = 1344, 1152, 1024
THREADS_OF_80, THREADS_OF_96, THREADS_OF_128, THREADS_OF_160 = 768, 640, 512, 384

#: Bytes of the input, at the most, that is asked for while the launch ahead ends, where it is normalized and where only
#: moments are wanted: of many launches in a row (32, 128, 14, 14) floats over 0, 2, 3 take an H100 4.1 us so and 4.9
#: otherwise, (3340, 720) float64s, 19 MB, an H200 11.8 and 12.7, but (716215, 35) bfloat16s, 50 MB, 34.9 and 29.7,
#: (882, 9312) floats, 33 MB, 23.6 and 21.1; moments of (1024, 1024) an H100 2.4 and 3.0, but of (2048, 2048) 7.3 and
#: 6.9, of (64, 1024, 7, 7) over 0, 2, 3 7.2 and 6.5.
_AHEAD_BYTES, _AHEAD_BYTES_OF_MOMENTS = 3 << 23, 1 << 22

#: Smaller elements of runs are not loaded by the chunk: they would take more accesses for each sector.
_RUNS_ITEMSIZE = 4

#: Warps of a block, at the most.
_MOST_WARPS = 16

#: Rows of halves that a warp stores together, where these begin anywhere: all that it has, if these are so few, or else
#: fewer. (65536, 769) halves take an H100 110 us so, and 121 row by row, (256, 64, 55, 55) over 2, 3 69 us and 75 if
#: two of 4 are stored together; but (4, 128, 71, 71) over 0, 2, 3, of which a warp has 8, 27 us and 31 by 4.
_MOST_STORED_ROWS, _STORED_OF_MORE_ROWS = 4, 2

#: Static shared memory of a block at the most, less what sums take.
_STATIC_BYTES = 40_000


def chunks_of(groups: Groups) -> int:
    """Of a group; of nothing those of a row, in which none exists."""
    return math.ceil(groups.length / groups.chunk) or LANES


def rows_of(groups: Groups) -> int:
    """Of 32 chunks, in a group."""
    return math.ceil(chunks_of(groups) / LANES)


def are_any_runs(groups: Groups) -> bool:
    """Whether a group is many runs that begin anywhere, whose elements are loaded one by one."""
    return not (groups.packed("input") or groups.is_one_run("input")) and grain_of(groups, "input") == 1


def are_many(groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Whether groups of so many rows are so many that it counts how much a warp holds."""
    if groups.source.dtype.itemsize != 2 or not (groups.has("output") and groups.packed("input")):
        return are_very_many(groups, rows, device)
    if rows == 6:
        return are_very_many(groups, rows, device)
    is_short = rows == 4 and not groups.operands.are_own
    return groups.count * rows > (_MANY_FOUR_ROWS if is_short else _MANY_ROWS_OF_HALVES) * device.multiprocessors


def are_very_many(groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Whether groups of so many rows are so many that it is memory alone that counts."""
    return groups.count * rows > _VERY_MANY_ROWS * device.multiprocessors


def is_shifted(groups: Groups) -> bool:
    """Whether a group is a run that begins anywhere."""
    return groups.step_of_runs("input") > 0 and not groups.packed("input")


def is_gelu(spec: Normalization) -> bool:
    """Whether each element takes long."""
    return spec.activation is not None and spec.activation.name == "gelu"


def input_ahead(groups: Groups, device: DeviceProperties, most_bytes: int = _AHEAD_BYTES) -> Struct:
    """The argument of kernels that ask for the input ahead, of so many bytes where it is normalized."""
    return asked_for_ahead(groups.source, most_bytes if groups.has("output") else _AHEAD_BYTES_OF_MOMENTS, device)


def constants_of_lines(groups: Groups, spec: Normalization) -> dict[str, str | int | bool]:
    """Those that do not depend on how rows are shared out."""
    return {**groups.constants(spec), "HAS_OUTPUT": groups.has("output"), "EVICTION": groups.eviction}


def most_warps_of(groups: Groups) -> int:
    """Warps of a block whose rows fit into static shared memory, should they go through it (bytes become doubles)."""
    row_bytes = LANES * groups.chunk * groups.widest
    return min(_MOST_WARPS, power_of_two(_STATIC_BYTES // row_bytes + 1) // 2)


def ends_of(groups: Groups, chunks: int, groups_of_block: int) -> int:
    """kernels/normalization_chunks.cuh: ENDS, where so many chunks of a group or tile, and groups, are worked on."""
    if groups.length % groups.chunk or groups.length == 0:
        return 2
    whole = groups.length % (chunks * groups.chunk) == 0
    return 0 if whole and groups.count % groups_of_block == 0 else 1


def shares_of(groups: Groups, rows: int) -> dict[str, int]:
    """Those of warps that hold so many rows each."""
    packed = {f"{name.upper()}_PACKED": groups.packed(name) for name in ("input", "output", "scale", "bias")}
    if groups.length == 0:
        packed["INPUT_PACKED"] = True  # so that no address is made up for what does not exist
    run, nbytes = groups.reduced.sizes[-1], groups.source.dtype.itemsize
    dense = groups.reduced.strides["input"][-1] == nbytes
    return {
        **packed,
        "INPUT_STEP": 0 if packed["INPUT_PACKED"] else groups.step_of_runs("input"),
        "OUTPUT_STEP": 0 if packed["OUTPUT_PACKED"] else groups.step_of_runs("output"),
        "OUTPUT_IN_RUNS": in_long_runs(groups, "output"),
        "STORED_ROWS": 1,
        "GRAIN": groups.grain,
        "INPUT_GRAIN": grain_of(groups, "input"),
        "OUTPUT_GRAIN": grain_of(groups, "output"),
        "IN_RUNS": len(groups.reduced.sizes) == 2 and run >= groups.chunk and nbytes >= _RUNS_ITEMSIZE and dense,
        "LINE_LANES": LANES,
        "ROWS": rows,
    }


def shares_of_several(groups: Groups, warps: int, rows: int) -> dict[str, int]:
    """The same where so many warps share a group or a tile (kernels/normalization_lines.cuh)."""
    return {
        **shares_of(groups, rows),
        "STORED_ROWS": _stored_rows(groups, warps, rows),
        "WARPS": warps,
        "WHOLE_ROWS": 0,
        "LOOKS": False,
        "OPERANDS_EARLY": False,
        "LONG_RUNS": False,
        "SPLITS": False,
    }


def shares_of_own_warp(groups: Groups, rows: int) -> dict[str, int]:
    """The same of a warp that has a group of so many rows for itself, and stores them together."""
    behind = 1 if is_shifted(groups) and groups.step_of_runs("input") == 2 else 0  # kernels/normalization_lines.cuh
    return shares_of_several(groups, 1, rows) | {
        "WHOLE_ROWS": max(0, groups.length - behind) // (LANES * groups.chunk),
        "STORED_ROWS": rows if store_halves_in_runs(groups) else 1,
        "ENDS": ends_of(groups, rows * LANES, 1),
    }


def _stored_rows(groups: Groups, warps: int, rows: int) -> int:
    """Rows of each of so many warps that are stored together, for which there has to be static shared memory: (800,
    30000) bytes, 16 warps, become halves two rows at a time."""
    output = groups.arrays.get("output")
    if not isinstance(output, ArrayLayout) or not store_halves_in_runs(groups):
        return 1
    stored = rows if rows <= _MOST_STORED_ROWS else _STORED_OF_MORE_ROWS
    while warps * stored * LANES * groups.chunk * output.dtype.itemsize > _STATIC_BYTES:
        stored //= 2
    return stored


def resident_blocks(
    groups: Groups, device: DeviceProperties, threads: int, block: int, of_readers: int = THREADS_OF_48
) -> int:
    """Blocks that shall fit a multiprocessor: `threads` threads in all for the usual normalization, or `of_readers`, by
    several warps, for moments alone."""
    if groups.have_wide_chunks:
        threads = THREADS_OF_96 if groups.source.dtype.itemsize == 8 else THREADS_OF_128
    elif not groups.has("output") and block > LANES:  # fewer registers bring no more blocks of one warp
        threads = of_readers
    return blocks_of(device, threads, block)


def blocks_of(device: DeviceProperties, threads: int, block: int) -> int:
    """Blocks of so many threads that fit a multiprocessor, where `threads` do in all."""
    if threads == AS_COMPILERS_CHOOSE:
        return 0
    most_blocks = 16 if device.threads_per_multiprocessor < 2048 else 32  # or 24
    return max(1, min(min(threads, device.threads_per_multiprocessor) // block, most_blocks))


def one_launch(
    source: str,
    kernel: str,
    groups: Groups,
    spec: Normalization,
    shares: dict[str, int],
    blocks: int,
    warps: int,
    cluster: int = 1,
    ahead: Struct | None = None,
) -> Plan:
    """The plan of so many blocks of `warps` warps that read all groups once; `ahead`: kernels/ahead.cuh."""
    arguments = (*array_arguments(), groups.geometry, parameters(groups, spec), *((ahead,) if ahead else ()))
    launch = Launch(f"normalize_{kernel}", blocks, warps * LANES, arguments, cluster=cluster, early=True)
    return Plan(f"normalization_{source}.cu", constants_of(**constants_of_lines(groups, spec), **shares), (launch,))
