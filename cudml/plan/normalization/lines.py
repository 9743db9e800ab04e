"""The plans of normalizations of groups whose elements lie side by side, and that a block holds:
kernels/normalization_lines.cu.
"""

from __future__ import annotations

import math

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.normalization.channel_lines import (
    ROWS_OF_ALONE,
    are_of_channels,
    have_warps_alone,
    line_rows_of_channels,
    loads_early,
    threads_of_channels,
)
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.line_shares import (
    AS_COMPILERS_CHOOSE,
    THREADS_OF_48,
    THREADS_OF_56,
    THREADS_OF_64,
    THREADS_OF_80,
    THREADS_OF_96,
    THREADS_OF_128,
    are_any_runs,
    are_many,
    are_very_many,
    ends_of,
    input_ahead,
    is_gelu,
    is_shifted,
    most_warps_of,
    one_launch,
    resident_blocks,
    rows_of,
    shares_of_own_warp,
    shares_of_several,
)
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: Threads that fit a multiprocessor where few warps share halves that begin at odd ones, and hold so many rows: moments
#: of (20000, 3001) float16 take 45.9 us so and 49.3 with 48 registers, of (9000, 7001) 47.7 and 52.2; but of (4000,
#: 14001) 50.9 and 48.3.
_READERS_OF_ODD_HALVES, _ROWS_OF_ODD_HALVES, _MOST_WARPS_OF_ODD_HALVES = THREADS_OF_56, 4, 8

#: Rows that each warp holds of a group of several warps, by the number of the group's rows: as were the fastest on an
#: H200 for float32 with an output, and for moments alone and what is computed in double. (4681, 7168) floats take 69 us
#: by 8 rows, and 72 by 4.
LINE_ROWS = ((4, 1), (8, 2), (32, 4), (128, 8))
_OTHER_LINE_ROWS = ((4, 1), (8, 2), (64, 4), (128, 8))

#: And of bytes that have their own scale or bias, of which a row takes so many registers that four are spilled.
_LINE_ROWS_OF_SCALED_BYTES = ((4, 1), (32, 2), (64, 4), (128, 8))

#: And of doubles with an output, aligned and not: a multiprocessor has room for several blocks where few warps hold
#: many. (8000, 4096) take an H100 177 us by 8 rows and 222 by 4, (8000, 3001) 135 and 199, (8000, 3000) 132 and 131,
#: (3000, 8000) 133 by 16 and 151 by 8.
_LINE_ROWS_OF_DOUBLES = ((4, 1), (8, 2), (60, 4), (96, 8), (128, 16))
_LINE_ROWS_OF_SHIFTED_DOUBLES = ((4, 1), (8, 2), (16, 4), (96, 8), (128, 16))

#: Of groups of several runs, whose addresses take long: (32, 128, 8, 8) over 0, 2, 3 takes 2.7 us in place of 3.2, and
#: (12, 1000, 23, 23) halves take 18.5 by 4 rows and 34 by 8. And of no more groups than multiprocessors, where a call
#: takes as long as one warp does: (41, 165, 4, 7) float16s over 1, 2, 3 take an H200 3.1 us by 4 rows and 4.4 by 8,
#: (28, 56, 20, 8) bfloat16s over 0, 2, 3 with tanh 3.8 by 4 and 5.2 by 8, (103, 48, 8, 32) float16s over 1, 2, 3 with
#: scales of their own 5.1 and 7.1.
_LINE_ROWS_OF_RUNS = ((4, 1), (16, 2), (64, 4), (128, 8))

#: Of more groups of halves with a scale of each channel, of which aligned ones have scales of more than two channels in
#: a chunk: (296, 23, 333, 15) float16s, 20 rows, take 60 us by 4 rows and 74 by 8, (463, 165, 28), 18 rows, 5.2 and
#: 7.7, (621, 2, 111, 20), 9 rows, 6.7 by 2 and 7.0 by 4.
_LINE_ROWS_OF_CHANNELS = ((4, 1), (10, 2), (64, 4), (128, 8))

#: Halves in more rows of runs that begin anywhere, of which a warp has 8, are slower than as a stream: (100, 320, 15,
#: 15) over 0, 2, 3 take an H100 44 us and 27, (100, 16, 15, 15) 11.3 and 7.9. Floats are not: (12, 500, 35, 29) take 23
#: us and 31, (4, 3000, 61, 51) 111 and 138.
_MOST_ROWS_OF_RUNS = 64

#: Nor are bytes that become floats or halves: in more rows than so many, of which few blocks fit a
#: multiprocessor, (546, 30720) into float32, 60 rows, take an H200 60 us and 49, (668, 50176) 98 and 54, but (1170,
#: 28672), 56 rows, 48 and 51; (1365, 24576) into halves, 48 rows, 52 and 43, (936, 18432), 36 rows, 35 and 46.
_MOST_ROWS_OF_BYTES, _MOST_ROWS_INTO_HALVES = 56, 40

#: With gelu, which takes long, a warp that holds more hides more, but of doubles. So does one of halves, but should
#: hold few rows that do not exist: (13107, 5120) bfloat16s take 69 us by 4 rows, 78 by 8; (8192, 5120) with gelu 73 and
#: 92.
_LINE_ROWS_OF_GELU = ((4, 1), (8, 2), (16, 4), (128, 8))
_LINE_ROWS_OF_HALVES = ((4, 1), (8, 2), (20, 4), (32, 8), (40, 4), (128, 8))

#: And where they are not many, or a group is several dense runs: (6258, 2, 8, 616) float16s over 2, 3, of padded rows,
#: take an H200 70 us so and 74 by 8 rows, (1324, 4, 64, 256) bfloat16s, 64 rows, 85 and by 4 rows 102. Of floats, of
#: which those of no more rows than that are to be no more for each multiprocessor: (204, 5120) floats take 3.8 us so
#: and 5.0 by 8 rows, (819, 5120) 11.2 and 10.8, (512, 8192) 11.3 and 12.2.
_LINE_ROWS_OF_FEW_HALVES, _LINE_ROWS_OF_FEW = ((4, 1), (8, 2), (40, 4), (128, 8)), ((4, 1), (8, 2), (64, 4), (128, 8))
_MOST_ROWS_OF_SHORT, _FEW_SHORT_ROWS = 40, 128

#: And of halves that begin anywhere: (14646, 6145) bfloat16s take an H100 134 us by 4 rows and 158 by 2. If each
#: element has its own scale and bias (9998, 6001) take 97 us and 119, and (10984, 8193) 145, and 182 by 8; (488, 1170)
#: an H200 2.8 by 1 row and 3.2 by 2.
_LINE_ROWS_OF_SHIFTED_HALVES = ((4, 1), (6, 2), (64, 4), (128, 8))
_LINE_ROWS_OF_SCALED_SHIFTED_HALVES = ((5, 1), (10, 2), (64, 4), (128, 8))
_TABLES_OF_SHIFTED_HALVES = (_LINE_ROWS_OF_SHIFTED_HALVES, _LINE_ROWS_OF_SCALED_SHIFTED_HALVES)

#: Warps hold at least so many rows of groups of many, except of so many rows as three warps share evenly, and of halves
#: that begin anywhere.
_LEAST_OF_MANY, _ROWS_OF_THREE_WARPS = 4, (5, 6)

#: Two warps for halves of so many rows, from fewer groups on than a warp of its own: (2048, 1024) bfloat16s take an
#: H100 5.6 us so and 6.4 by four, (8192, 1024) 14.7 and 15.7, their mean and variance 8.3 and 9.4.
_ROWS_OF_TWO_WARPS, _OF_TWO_WARPS = 4, 2

#: And of floats in groups of one run, of more rows than so many, where scale and bias are the same for many of their
#: elements, which leaves registers; or of groups of more than that which begin anywhere: (2236, 15001) take 101 us, and
#: 123 by 8 rows, but (2999, 10001) without a scale 98 and 84. Nor are several runs faster: (64, 2048, 14, 14) over 0,
#: 2, 3 take an H100 98.4 us so, and 87.1.
MOST_ROWS, _ROWS_OF_LARGE, _ROWS_OF_LARGE_SHIFTED = 16, 64, 96

#: Rows of a group of halves at the most that has 96 registers where groups are neither few nor many.
_MOST_ROWS_OF_SOME = 32

#: And of floats with scale and bias of each element: (409, 10240) take 12.0 us with 80 registers, and 14.0 with 64.
_ROWS_OF_LARGE_SCALED = 80

#: So many rows for each multiprocessor that it is no longer one warp that counts.
_SOME_ROWS = 48

#: Groups of halves of more rows than so many, of which a warp holds few, are worked on with 48 registers, or 56 if it
#: holds 4 that begin anywhere, or 64 if these have scales and biases of their own: (14643, 6146) bfloat16s take an H100
#: 124 us with 56 and 136 with 48, (5999, 10001) 89 and 92; scaled (32768, 8193) 432 with 64 and 450 with 56, (9998,
#: 6001) 97 and 105, (6760, 13313) 155 with 56 and 254 with 48.
_LEAST_ROWS_OF_48, _ROWS_OF_56 = 16, 4

#: Aligned halves with their own scale of up to so many rows, 4 to a warp, have the registers that compilers choose,
#: some 56: (65536, 4096) float16s take an H200 252 us so and 257 with 64, (104857, 2560) 285 and 298, (131072, 2048)
#: with tanh 344 and 349; but (65536, 5120) bfloat16s 319 and with 48 314, (37449, 7168) float16s 275 and 262.
_MOST_ROWS_AS_CHOSEN = 16

#: Activations with which floats have 48 registers, 4 rows to a warp: with scaled tanh (65536, 4096) take an H200 498 us
#: so and 509 with 64, with softplus 498 and 509, with tanh 498 and 507; but with sigmoid 502 and 501, without any 505
#: and 497.
_WITH_48 = ("celu", "parametric_softplus", "scaled_elu", "scaled_tanh", "softplus", "tanh")

#: The part of its rows that the last warp has at the most where it leaves out the others, of halves that begin at odd
#: ones: (14644, 4097) bfloat16s take an H100 104 us so and 109 if it does not, with 4 rows to a warp, (7323, 8193) 102
#: and 102, without a scale 87 and 88, (3661, 16385) 110 and 119, moments of (20000, 3073) 48 and 53. Floats gain
#: nothing, (7322, 4097) take 85 either way.
_LOOKS_FOR = 0.25


def plan_shared_lines(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """Warps of a block for each group; None where a block cannot hold one."""
    rows, most_warps = rows_of(groups), most_warps_of(groups)
    if rows > min(LINE_ROWS[-1][0], most_warps * LINE_ROWS[-1][1]) or _are_better_in_tiles(groups, rows):
        return None
    if is_better_streamed(groups, rows, device):
        return None
    of_warp = _rows_of_warp(groups, spec, rows, most_warps, device)
    warps = math.ceil(rows / of_warp)
    at_once = groups.count * warps * LANES <= THREADS_OF_80 * device.multiprocessors
    has_registers = not groups.operands.differ_down or of_warp <= 2 or (of_warp <= 4 and at_once)
    if are_of_channels(groups, spec) and of_warp > 2:
        has_registers = loads_early(groups, rows, warps, has_registers)
    shares = shares_of_own_warp(groups, rows) if warps == 1 else shares_of_warps(groups, spec, warps, of_warp)
    shares["OPERANDS_EARLY"] = groups.has("output") and has_registers
    threads = _threads(groups, spec, rows, of_warp, at_once, device)
    of_readers = _READERS_OF_ODD_HALVES if _are_odd_halves(groups, of_warp, warps) else THREADS_OF_48
    shares["RESIDENT"] = resident_blocks(groups, device, threads, warps * LANES, of_readers)
    if is_shifted(groups) and groups.count <= device.multiprocessors:
        shares["RESIDENT"] = 1  # there are no more: (52, 5958) floats take an H100 4.0 us so, and 5.5 with 3
    shares["CLUSTER"] = 1
    return one_launch("lines", "lines", groups, spec, shares, groups.count, warps, ahead=input_ahead(groups, device))


def shares_of_warps(groups: Groups, spec: Normalization, warps: int, of_warp: int) -> dict[str, int]:
    """Those of warps that hold so many rows each."""
    splits, of_last = are_faster_apart(groups, spec), rows_of(groups) - (warps - 1) * of_warp
    are_odd_halves = groups.begins_anywhere and _is_of_halves(groups)
    return shares_of_several(groups, warps, of_warp) | {
        "LOOKS": splits and are_odd_halves and of_last <= _LOOKS_FOR * of_warp,
        "ENDS": ends_of(groups, warps * of_warp * LANES, 1),
        "SPLITS": splits,
    }


def _rows_of_warp(groups: Groups, spec: Normalization, rows: int, most_warps: int, device: DeviceProperties) -> int:
    """Of a group of so many rows."""
    table, packed, many = _line_rows(groups, spec, rows, device), groups.packed("input"), are_many(groups, rows, device)
    if _holds_most(groups, rows):
        return MOST_ROWS
    if are_of_channels(groups, spec) and have_warps_alone(groups, rows, device):
        return max(ROWS_OF_ALONE, rows)
    is_odd = rows in _ROWS_OF_THREE_WARPS and (groups.source.dtype.itemsize == 2 or not packed)
    is_shifted = table in _TABLES_OF_SHIFTED_HALVES and rows > table[0][0]
    takes_few = is_odd or is_shifted or table is _LINE_ROWS_OF_SCALED_BYTES
    least = _LEAST_OF_MANY if many and not takes_few else _least_of_some(groups, rows, device)
    fitting = (of_warp for limit, of_warp in table if rows <= min(limit, most_warps * of_warp))
    return next(of_warp for of_warp in fitting if of_warp >= least)


def _least_of_some(groups: Groups, rows: int, device: DeviceProperties) -> int:
    """Rows that a warp holds at least of groups that are neither few nor many."""
    are_some = groups.count * rows > _SOME_ROWS * device.multiprocessors
    are_halves = groups.packed("input") and _is_of_halves(groups)
    return _OF_TWO_WARPS if are_some and are_halves and rows == _ROWS_OF_TWO_WARPS else 1


def _holds_most(groups: Groups, rows: int) -> bool:
    """Whether a warp holds as many rows as it can."""
    in_runs = len(groups.reduced.sizes) > 1
    if groups.source.dtype.name != "float32" or not groups.has("output") or in_runs:
        return False
    if is_shifted(groups):
        return rows > _ROWS_OF_LARGE_SHIFTED
    return rows > _ROWS_OF_LARGE and not groups.operands.are_own and groups.length % groups.chunk == 0


def _line_rows(groups: Groups, spec: Normalization, rows: int, device: DeviceProperties) -> tuple[tuple[int, int], ...]:
    """The table of rows of a warp, for groups of so many."""
    in_runs = len(groups.reduced.sizes) > 1
    if not groups.has("output"):
        return _LINE_ROWS_OF_RUNS if in_runs else _OTHER_LINE_ROWS
    if groups.are_scaled_bytes:
        return _LINE_ROWS_OF_SCALED_BYTES
    if groups.count <= device.multiprocessors:
        return _LINE_ROWS_OF_RUNS
    if _are_slow_channels(groups):
        return _LINE_ROWS_OF_CHANNELS
    if are_of_channels(groups, spec):
        return line_rows_of_channels(groups, rows, device)
    if _is_of_halves(groups) and groups.packed("input"):
        return _LINE_ROWS_OF_HALVES if are_many(groups, rows, device) else _LINE_ROWS_OF_FEW_HALVES
    if _is_of_halves(groups) and not is_gelu(spec):
        return _LINE_ROWS_OF_SCALED_SHIFTED_HALVES if groups.operands.are_own else _LINE_ROWS_OF_SHIFTED_HALVES
    if in_runs:
        are_dense_halves = groups.source.dtype.itemsize == 2 and not are_any_runs(groups)
        return _LINE_ROWS_OF_FEW_HALVES if are_dense_halves else _LINE_ROWS_OF_RUNS
    if groups.source.dtype.itemsize == 8:
        return _LINE_ROWS_OF_DOUBLES if groups.packed("input") else _LINE_ROWS_OF_SHIFTED_DOUBLES
    if groups.source.dtype.itemsize == 2 or is_gelu(spec):
        return _LINE_ROWS_OF_GELU
    if groups.have_wide_chunks:
        return _OTHER_LINE_ROWS
    are_short = rows <= _MOST_ROWS_OF_SHORT and groups.count * rows > _FEW_SHORT_ROWS * device.multiprocessors
    are_few = groups.packed("input") and not (are_short or are_very_many(groups, rows, device))
    return _LINE_ROWS_OF_FEW if are_few else LINE_ROWS


def _are_slow_channels(groups: Groups) -> bool:
    """Whether these are halves that begin anywhere, or whose chunks have scales of more than two channels."""
    are_slow = not groups.packed("input") or groups.operands.of_chunk > 2
    return are_slow and groups.source.dtype.itemsize == 2 and groups.operands.are_of_channels


def _is_of_halves(groups: Groups) -> bool:
    """Whether a group is a run of halves, or of integers of as many bits, that are not computed in double."""
    of_halves = groups.source.dtype.itemsize == 2 and not groups.is_double
    return of_halves and len(groups.reduced.sizes) == 1 and groups.step_of_runs("input") > 0


def is_better_streamed(groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Whether kernels/normalization_stream.cu is faster, and the GPU can launch it."""
    able = device.hardware_gates and device.cooperative_launch and groups.has("output") and not groups.is_double
    if groups.source.dtype.itemsize == 1:
        return able and rows > (_MOST_ROWS_INTO_HALVES if groups.result.itemsize < 4 else _MOST_ROWS_OF_BYTES)
    return able and groups.source.dtype.itemsize == 2 and rows > _MOST_ROWS_OF_RUNS and are_any_runs(groups)


def _are_better_in_tiles(groups: Groups, rows: int) -> bool:
    """Whether moments are, of runs of halves that warps load one by one, of which they have fewer rows in tiles: those
    of (100, 1000, 13, 13) over 0, 2, 3 take an H100 28 us so and 119 by a block, (64, 300, 17, 17) 12.5 and 35."""
    are_halves = groups.source.dtype.itemsize == 2 and not groups.has("output")
    return are_halves and rows > _MOST_ROWS_OF_RUNS and are_any_runs(groups)


def _are_odd_halves(groups: Groups, of_warp: int, warps: int) -> bool:
    """Whether few warps hold such rows of a run of halves that begins at an odd one."""
    begins_at_odd = is_shifted(groups) and groups.step_of_runs("input") == groups.source.dtype.itemsize == 2
    return begins_at_odd and of_warp == _ROWS_OF_ODD_HALVES and warps <= _MOST_WARPS_OF_ODD_HALVES


def _threads(
    groups: Groups, spec: Normalization, rows: int, of_warp: int, at_once: bool, device: DeviceProperties
) -> int:
    """Of all blocks of a multiprocessor, where warps share groups of so many rows, and all groups are worked on at once
    or not."""
    if of_warp == MOST_ROWS:
        return THREADS_OF_128
    if are_of_channels(groups, spec):
        of_channels = threads_of_channels(groups, rows, math.ceil(rows / of_warp), of_warp, device)
        if of_channels is not None:
            return of_channels
    if of_warp == 4 and not at_once and groups.packed("input"):
        chosen = _threads_of_4_rows(groups, spec, rows)
        if chosen is not None:
            return chosen
    if _is_of_halves(groups) and of_warp <= 4 and rows > _LEAST_ROWS_OF_48 and not at_once:
        if of_warp < _ROWS_OF_56 or not is_shifted(groups):
            return THREADS_OF_48
        return THREADS_OF_64 if groups.operands.are_own else THREADS_OF_56
    if _is_of_halves(groups) and groups.packed("input") and _are_some_large(groups, rows, of_warp, device):
        return THREADS_OF_96
    most = _ROWS_OF_LARGE_SCALED if groups.operands.are_own and groups.packed("input") else _ROWS_OF_LARGE
    are_large = of_warp == 8 and (rows <= most or _are_large_in_runs(groups, rows, device))
    is_large = (of_warp == 4 and at_once) or are_large
    return THREADS_OF_80 if is_large or _asks_for_80(groups, of_warp) else THREADS_OF_64


def _are_some_large(groups: Groups, rows: int, of_warp: int, device: DeviceProperties) -> bool:
    """Whether there are neither few nor many large groups, 8 rows to a warp, each of which should be worked on soon:
    (585, 7168) float16s take an H200 6.7 us with 96 registers, and 7.7 with 80, but (2340, 7168) 22.5 and 21.5."""
    return of_warp == 8 and rows <= _MOST_ROWS_OF_SOME and not are_very_many(groups, rows, device)


def _threads_of_4_rows(groups: Groups, spec: Normalization, rows: int) -> int | None:
    """The same of aligned groups in rows of which each warp has 4; None where others are no faster."""
    if _is_of_halves(groups) and groups.operands.are_own and rows <= _MOST_ROWS_AS_CHOSEN and not is_gelu(spec):
        return AS_COMPILERS_CHOOSE
    are_floats = groups.source.dtype.name == "float32" and len(groups.reduced.sizes) == 1
    return THREADS_OF_48 if are_floats and spec.activation and spec.activation.name in _WITH_48 else None


def _are_large_in_runs(groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Whether packed floats in several runs need more registers than others, 8 rows to a warp: (40, 400, 16, 16) over
    0, 2, 3 take an H100 14.3 us so and 15.5 with 64; but (128, 320, 16, 16) halves 23.3 and 18.8, and (64, 1000, 15,
    15) floats, whose runs begin anywhere, 60 and 51. Nor if blocks are so large that the second one of a multiprocessor
    would wait for the first: (64, 256, 16, 16) take 16.7 us so and 14.5."""
    is_single = groups.source.dtype.itemsize == 4 and len(groups.reduced.sizes) > 1 and groups.packed("input")
    are_apart = 2 * math.ceil(rows / 8) * LANES > THREADS_OF_80
    return is_single and not (are_apart and groups.count > device.multiprocessors)


def _asks_for_80(groups: Groups, of_warp: int) -> bool:
    """Whether so many rows that begin anywhere need as many registers: (2999, 10001) floats take an H100 84 us so and
    98 with 64; with their own scale and bias (32768, 10029) 922 and 1269, (32768, 3002) 265 and 273, (14652, 4095)
    bfloat16s 96 and 102."""
    if not is_shifted(groups):
        return False
    step = groups.step_of_runs("input")
    if groups.source.dtype.itemsize == 2:
        return groups.operands.are_own and of_warp == 4 and step == 2
    return of_warp == 8 or (groups.operands.are_own and of_warp == 4 and step == 8)


def are_faster_apart(groups: Groups, spec: Normalization) -> bool:
    """Whether warps all of whose rows exist are faster with code of their own: those of one run. Moments of packed
    groups are not, (3979, 8432) floats take 37 us so, and 33 otherwise; nor is gelu, of which there is much code."""
    if len(groups.reduced.sizes) > 1 or is_gelu(spec):
        return False
    return groups.step_of_runs("input") > 0 if groups.has("output") else is_shifted(groups)
