"""How groups that are one aligned run of memory, with a scale or bias of each of their channels, are shared out to
warps: images that are normalized as a whole, and groups of channels (lines.py has what is the same for all).

On an H200, where a copy takes 64 to 65 us, (102, 32, 20, 1024) float16s over 2, 3 take 69 us so and 111 as other runs
are shared out, (409, 32, 20, 256) 65 and 103, (273, 32, 16, 480) 73 and 99, (256, 32, 8, 1024) 65 and 81.
"""

from __future__ import annotations

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.line_shares import (
    THREADS_OF_48,
    THREADS_OF_64,
    THREADS_OF_80,
    THREADS_OF_96,
    THREADS_OF_128,
    are_many,
    are_very_many,
    is_gelu,
)
from cudml.plan.spec import Normalization

#: Rows that each warp holds of a group of several warps, by the number of the group's rows: of very many halves, of
#: others, of which (10, 32, 4, 3136) take 6.8 us by 4 rows and 10.6 by 8, (8, 32, 64, 256) 6.5 and 7.9; and of floats.
_OF_HALVES = ((4, 1), (8, 2), (40, 4), (48, 8), (56, 4), (128, 8))
_OF_FEWER_HALVES = ((4, 1), (8, 2), (64, 4), (128, 8))
_OF_FLOATS = ((4, 1), (16, 2), (64, 4), (128, 8))

#: Rows of groups of which a warp has one for itself: of floats but for some rows for each multiprocessor, and if they
#: are many, or no more groups than multiprocessors, and of many halves whose channels are no whole chunks, if they are
#: very many up to the last. (3276, 32, 10, 64) floats take 127 us so and 161 otherwise, (12, 32, 10, 64) 1.8 and 2.0,
#: but (51, 32, 10, 64) 4.0 and 3.6, (106, 4, 7, 25) over 1, 2, 3 2.5 and 2.0; (1337, 32, 32, 49) float16s 80 and 106,
#: (700, 32, 8, 289) 63 and 84, (400, 32, 72, 49) 61 and 67, but (60, 32, 72, 49) 12.7 and 12.0.
_ALONE, _MANY_ALONE, ROWS_OF_ALONE, _VERY_MANY_ALONE = range(5, 7), range(5, 9), 8, range(9, 15)
_NOT_ALONE = range(32, 128)

#: Rows of halves from which on scale and bias are loaded late even of few groups, 4 rows to a warp: (4, 32, 8, 1024)
#: take 3.0 us so and 3.2 otherwise, (12, 32, 10, 256) 2.7 and 2.6. If they have more rows than so many for each
#: multiprocessor, and channels are whole chunks, these have 48 registers: (76, 32, 10, 1024) take 30.6 us so and 33.1
#: otherwise, (38, 16, 4, 2816), 203 rows, 9.6 and 11.8, but (24, 32, 10, 480) bfloat16s 6.8 and 5.7, (34, 24, 49, 136),
#: 161 rows, 10.6 and 8.7, (409, 32, 10, 196) 38.2 and 35.7, (8, 32, 32, 196) float16s 7.6 and 4.8. So have more groups
#: than multiprocessors of which others would leave room for one block: (95, 2, 32, 512) take 5.5 us so and 7.2.
_LEAST_LATE, _ROWS_OF_48, _MOST_WARPS_OF_80 = 17, 200, 12

#: Threads of a block at the most that has 80 registers, 8 rows to a warp, of floats and of halves: (204, 32, 10, 1024)
#: floats, 320 threads, take 127 us so and 130 with 64, (128, 32, 64, 256), 512 threads, 149 and 138; of float16s, 256
#: threads, 67 and 70, (102, 32, 20, 1024), 320 threads, 71 and 69. Floats of a warp alone have 128: (2175, 32, 2, 482)
#: take 129 us so and 142 with 80.
_MOST_THREADS_OF_80, _MOST_THREADS_OF_80_OF_HALVES = 384, 256

#: And of halves of a warp alone, by its rows: (900, 32, 16, 121), 8 rows, take 65 us with 80 registers and 74 with 64,
#: (600, 32, 48, 49), 10 rows, 56 with 96 and 63 with 80, (500, 32, 64, 49), 13 rows, 66 with 128 and 76 with 96.
_THREADS_OF_HALVES_ALONE = ((8, THREADS_OF_80), (10, THREADS_OF_96), (14, THREADS_OF_128))


def are_of_channels(groups: Groups, spec: Normalization) -> bool:
    """Whether these are aligned runs that are normalized with a scale or bias of each channel, not followed by gelu."""
    is_one_run = groups.packed("input") and groups.is_one_run("input") and not groups.is_double
    are_scaled = groups.has("output") and groups.operands.are_of_channels
    return is_one_run and are_scaled and not is_gelu(spec)


def line_rows_of_channels(groups: Groups, rows: int, device: DeviceProperties) -> tuple[tuple[int, int], ...]:
    """The table of rows of a warp, for groups of so many."""
    if groups.source.dtype.itemsize > 2:
        return _OF_FLOATS
    return _OF_HALVES if are_very_many(groups, rows, device) else _OF_FEWER_HALVES


def have_warps_alone(groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Whether a warp has a group of so many rows for itself."""
    are_floats = groups.source.dtype.itemsize == 4
    if rows in _MANY_ALONE and are_many(groups, rows, device):
        return are_floats or groups.operands.are_of_runs
    if rows in _VERY_MANY_ALONE and are_very_many(groups, rows, device):
        return not are_floats and groups.operands.are_of_runs
    are_some = groups.count > device.multiprocessors and groups.count * rows // device.multiprocessors not in _NOT_ALONE
    return are_floats and rows in _ALONE and are_some


def loads_early(groups: Groups, rows: int, warps: int, usually: bool) -> bool:
    """Whether scale and bias of all rows of a warp, 4 at least, are loaded along with them, if others' are or not."""
    are_floats = groups.source.dtype.itemsize == 4
    if are_floats and warps == 1:
        return not groups.operands.are_of_runs
    return usually and (are_floats or rows < _LEAST_LATE)


def threads_of_channels(groups: Groups, rows: int, warps: int, of_warp: int, device: DeviceProperties) -> int | None:
    """Of a multiprocessor; None where they are as those of others."""
    are_halves = groups.source.dtype.itemsize == 2
    if of_warp < ROWS_OF_ALONE:
        are_late = are_halves and of_warp == 4 and rows >= _LEAST_LATE and not groups.operands.are_of_runs
        are_alone = warps > _MOST_WARPS_OF_80 and groups.count > device.multiprocessors
        are_long = groups.count * rows > _ROWS_OF_48 * device.multiprocessors
        return THREADS_OF_48 if are_late and (are_long or are_alone) else None
    if warps == 1 and are_halves:
        return next(threads for most, threads in _THREADS_OF_HALVES_ALONE if rows <= most)
    if warps == 1:
        return THREADS_OF_128
    most = _MOST_THREADS_OF_80_OF_HALVES if are_halves else _MOST_THREADS_OF_80
    return THREADS_OF_80 if warps * LANES <= most else THREADS_OF_64
