"""The plans of normalizations of groups of a few rows whose elements lie side by side, each of which has a warp for
itself that holds as many rows as there are: kernels/normalization_lines.cu.

Statistics cost a warp as much as ten rows, so groups are not shared out to more of them than there is need for; and
rows that are known to exist as a whole are not looked at. In us on an H100, by warps that share a group and so:
bfloat16 (50293, 1193) with scale and bias of each element 131 and 92, (116959, 513) 187 and 123, (39037, 1537) 125 and
91; float32 (58479, 513) 110 and 84, with gelu 120 and 87; mean and variance of float16 (50293, 1193) 61 and 45.
"""

from __future__ import annotations

from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.line_shares import (
    AS_COMPILERS_CHOOSE,
    THREADS_OF_64,
    THREADS_OF_80,
    THREADS_OF_96,
    THREADS_OF_128,
    THREADS_OF_160,
    are_many,
    are_very_many,
    blocks_of,
    input_ahead,
    is_gelu,
    is_shifted,
    one_launch,
    rows_of,
    shares_of_own_warp,
)
from cudml.plan.normalization.runs import are_dense_in_runs, grain_of
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization


class _Rows(NamedTuple):
    """Of the groups that have a warp for themselves, by what is done with them."""

    scaled: range = range(0)
    """Normalized, each element with its own scale and bias."""
    plain: range = range(0)
    """Normalized otherwise."""
    summed: range = range(0)
    """Moments alone."""


#: By element type, for groups of one run and of many. Fewer rows, which a warp of kernels/normalization_short_lines.cu
#: has of several groups at once, and more rows are up to 16 % slower so; moments of (99667, 301) floats, three rows,
#: take 64 us so and 47.
_ROWS_OF_RUN = {
    "float16": _Rows(range(3, 13), range(3, 11), range(3, 11)),
    "float32": _Rows(range(3, 7), range(3, 8), range(5, 9)),
    "float64": _Rows(range(3, 10), range(3, 10)),
}
_ROWS_OF_RUNS = {
    "float16": _Rows(plain=range(2, 7), summed=range(3, 7)),
    "float32": _Rows(plain=range(3, 4)),
}

_HALVES = ("float16", "bfloat16")

#: Of aligned halves several warps are as fast for more rows than so many.
_MOST_ROWS_OF_ALIGNED_HALVES = 6

#: Elements of a run at least, by rows: of halves that are loaded one by one, and of others. (24, 20588, 5, 6) float16
#: over 0, 2, 3, three rows, take 39 us by a warp of their own and 33 otherwise, (16, 20000, 5, 5), two rows, 22 and 29;
#: (37, 34905, 3, 3) floats 77 and 64, (3, 71436, 11, 11) 74 and 82.
_LEAST_RUNS_OF_SINGLES, _LEAST_RUN = {2: 25}, 49

#: Rows at least of groups of aligned runs: (2, 60000, 200) float16 over 0, 2 take 41 us by a warp of their own and 36
#: otherwise, (4, 60000, 100) 43 and 46. And rows from which on bundles come first for odd runs: (16, 60000, 81) take
#: 168 us and as bundles of eight 134, (20, 10000, 49) 23 and 26; but (4, 60000, 300) 101 and as bundles of two 159.
_LEAST_ROWS_OF_ALIGNED_RUNS, _LEAST_ROWS_OF_BUNDLES = 3, 3

#: Groups for each multiprocessor from which on there are enough, if they are not aligned: of up to so many rows, and of
#: more or if only moments are asked for: (264, 1193) float16 take 2.6 us by several warps and 2.7 so, (400, 1193) 3.0
#: and 2.8, (800, 2047) 5.4 and 6.0, (1200, 2047) 8.5 and 7.6. With gelu, which takes long, of more rows there are to be
#: more: (2116, 1846) take 11.5 and 13.9. Nor are few halves with scales of their own enough: (302, 818) float16s take
#: an H200 2.3 us by a warp for each row and 2.8 so, (546, 557) 3.4 and 3.8, (805, 758) 2.7 and 3.1, but (1280, 930) 4.3
#: and 4.4.
_MOST_ROWS_OF_FEW, _LEAST_GROUPS, _LEAST_OF_LONG_GROUPS, _LEAST_OF_GELU = 5, 2, 8, 32
_LEAST_SCALED_HALVES = 7

#: Floats that begin anywhere gain however few there are, (64, 301) take 2.0 us and 1.7 so; but of more rows than so
#: many not if these are that many groups, a few more than are worked on at once: (3048, 663) 9.1 and 9.9, (2683, 447)
#: with softplus 7.5 and 8.2, but (800, 641) 3.5 and 2.7, (8319, 601) 18.7 and 17.5, on an H200 (5376, 386) 14.1 and
#: 7.4, (4736, 714) 11.7 and 9.8.
_MOST_ROWS_OF_FLOATS, _GROUPS_OF_A_SECOND_WAVE = 3, range(16, 32)

#: Threads that fit a multiprocessor, which leaves each registers, by the rows that a warp holds at the most: as were
#: the fastest. (30000, 1000) floats with their own scale take 230 us with 64 registers and 83 with 128; (209715, 1280)
#: float16s an H200 252 us with as many as compilers choose and 272 with 96, (225008, 1193) 342 and 354, but (174648,
#: 1537) 366 and 339.
_THREADS_OF_SCALED_HALVES = (
    (4, THREADS_OF_64),
    (5, AS_COMPILERS_CHOOSE),
    (7, THREADS_OF_96),
    (10, THREADS_OF_128),
    (12, THREADS_OF_160),
)
_THREADS_OF_HALVES = ((4, THREADS_OF_64), (7, THREADS_OF_80), (8, THREADS_OF_96), (10, THREADS_OF_128))
_THREADS_OF_FLOATS = ((3, THREADS_OF_64), (4, THREADS_OF_80), (5, THREADS_OF_96), (8, THREADS_OF_128))
_THREADS_OF_DOUBLES = ((9, THREADS_OF_128),)

#: Rows of scaled halves at the most that have as many registers where there are some groups.
_MOST_ROWS_OF_SOME = 4

#: And those of halves and of floats, which begin anywhere, that have the most registers, and scale and bias loaded
#: early, where groups are no more than so many for each multiprocessor: (1861, 916) bfloat16s take 4.6 us so and 5.3
#: otherwise, (1280, 857) float16s 4.2 and 4.7, (897, 261) floats 2.7 and 2.9; but (3616, 679) bfloat16s 7.8 and 7.0.
_MOST_SHIFTED_ROWS_OF_SOME, _MOST_OF_SOME = {2: 4, 4: 3}, 16

#: Scale and bias of each element are loaded along with the rows, but for halves and where they are wider than elements,
#: which would take too many registers, and for so few rows of more groups for each multiprocessor than so many: (3986,
#: 301) floats take 7.3 us so and 6.6 if they come later, (996, 301) 2.4 and 2.7, (58479, 513) 84 and 95; and (29311,
#: 2047) bfloat16s 103 and 91.
_MOST_ROWS_LATE, _MOST_GROUPS_EARLY = 3, 16


def plan_own_lines(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """A warp for each group; None where several groups for each, several warps or bundles are as fast or faster."""
    return None if _may_be_bundles(groups) else plan_own_lines_of_any(groups, spec, device)


def plan_own_lines_of_any(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The same of what could be bundles."""
    rows = rows_of(groups)
    if rows not in _rows_of_own_warps(groups) or not _are_enough(groups, spec, rows, device):
        return None
    threads = next(threads for most, threads in _threads(groups) if rows <= most)
    if _are_some_shifted(groups, rows, device):
        threads = THREADS_OF_128
    elif _are_some_scaled_halves(groups, rows, device):
        threads = THREADS_OF_96
    shares = shares_of_own_warp(groups, rows) | {
        "OPERANDS_EARLY": _are_loaded_early(groups, rows, device),
        "RESIDENT": blocks_of(device, threads, LANES),
        "CLUSTER": 1,
    }
    return one_launch("lines", "lines", groups, spec, shares, groups.count, 1, ahead=input_ahead(groups, device))


def _rows_of_own_warps(groups: Groups) -> range:
    """Of which a group has a warp for itself."""
    if not all(_is_dense(groups, array) for array in ("input", "output") if groups.has(array)):
        return range(0)
    return _rows_of_run(groups) if len(groups.reduced.sizes) == 1 else _rows_of_runs(groups)


def _rows_of_run(groups: Groups) -> range:
    rows = _rows_in(_ROWS_OF_RUN, groups)
    are_aligned_halves = groups.source.dtype.name in _HALVES and groups.packed("input")
    return range(rows.start, _MOST_ROWS_OF_ALIGNED_HALVES + 1) if are_aligned_halves else rows


def _rows_of_runs(groups: Groups) -> range:
    rows = _rows_in(_ROWS_OF_RUNS, groups)
    are_single = groups.source.dtype.name in _HALVES and grain_of(groups, "input") == 1
    least = _LEAST_RUNS_OF_SINGLES.get(rows_of(groups), _LEAST_RUN) if are_single else _LEAST_RUN
    first = _LEAST_ROWS_OF_ALIGNED_RUNS if groups.packed("input") else rows.start
    return range(max(first, rows.start), rows.stop) if groups.reduced.sizes[-1] >= least else range(0)


def _rows_in(table: dict[str, _Rows], groups: Groups) -> range:
    """By the type of the elements and what is done with them."""
    name = groups.source.dtype.name
    rows = table.get("float16" if name in _HALVES else name, _Rows())
    if not groups.has("output"):
        return rows.summed
    return rows.scaled if groups.operands.are_own else rows.plain


def _may_be_bundles(groups: Groups) -> bool:
    """Whether groups are such runs of halves."""
    are_odd_runs = len(groups.reduced.sizes) > 1 and grain_of(groups, "input") == 1
    return are_odd_runs and groups.source.dtype.itemsize == 2 and rows_of(groups) >= _LEAST_ROWS_OF_BUNDLES


def _is_dense(groups: Groups, array: str) -> bool:
    """Whether neighbours of a group lie side by side: as elements of any size if it is one run."""
    is_run = len(groups.reduced.sizes) == 1
    return groups.step_of_runs(array) > 0 if is_run else are_dense_in_runs(groups, array)


def _are_enough(groups: Groups, spec: Normalization, rows: int, device: DeviceProperties) -> bool:
    """Whether there are so many groups that a warp for each is enough."""
    if groups.packed("input"):
        return are_many(groups, rows, device)
    has_output, of_each = groups.has("output"), groups.count / device.multiprocessors
    if has_output and groups.source.dtype.name == "float32" and is_shifted(groups):
        are_long = groups.operands.are_own and rows > _MOST_ROWS_OF_FLOATS
        return not (are_long and int(of_each) in _GROUPS_OF_A_SECOND_WAVE)
    are_scaled_halves = groups.operands.are_own and groups.source.dtype.itemsize == 2
    of_few = _LEAST_SCALED_HALVES if are_scaled_halves else _LEAST_GROUPS
    least = of_few if has_output and rows <= _MOST_ROWS_OF_FEW else _LEAST_OF_LONG_GROUPS
    if is_gelu(spec) and rows > _MOST_ROWS_OF_FEW:
        least = _LEAST_OF_GELU
    return of_each > least


def _are_loaded_early(groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Whether scale and bias of all rows are, along with these."""
    if not groups.operands.are_own:
        return groups.has("output")
    if _are_some_shifted(groups, rows, device):
        return groups.operands.are_narrow
    are_narrow = groups.source.dtype.itemsize > 2 and groups.operands.are_narrow
    are_many_short = rows <= _MOST_ROWS_LATE and groups.count > _MOST_GROUPS_EARLY * device.multiprocessors
    return are_narrow and not are_many_short


def _are_some_scaled_halves(groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Whether these are few rows of aligned halves with their own scale that are not so many: (4096, 1024) take an H200
    7.0 us with 96 registers and 7.3 with 64, but (65536, 1024) 69.5 and 65.7."""
    are_scaled = groups.source.dtype.itemsize == 2 and groups.operands.are_own and groups.packed("input")
    return are_scaled and rows <= _MOST_ROWS_OF_SOME and not are_very_many(groups, rows, device)


def _are_some_shifted(groups: Groups, rows: int, device: DeviceProperties) -> bool:
    """Whether these are few rows that begin anywhere, with their own scale, in groups that are not many."""
    are_some = groups.count <= _MOST_OF_SOME * device.multiprocessors
    is_slow = groups.operands.are_own and is_shifted(groups) and groups.has("output")
    return are_some and is_slow and rows <= _MOST_SHIFTED_ROWS_OF_SOME.get(groups.source.dtype.itemsize, 0)


def _threads(groups: Groups) -> tuple[tuple[int, int], ...]:
    """Of a multiprocessor, by the rows of a warp."""
    size = groups.source.dtype.itemsize
    if size == 2:
        return _THREADS_OF_SCALED_HALVES if groups.operands.are_own else _THREADS_OF_HALVES
    return _THREADS_OF_FLOATS if size == 4 else _THREADS_OF_DOUBLES
