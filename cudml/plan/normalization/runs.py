"""How lanes move groups of many runs of memory: by whole chunks, by grains of a few elements, or one by one."""

from __future__ import annotations

import math

from cudml.plan.layout import ArrayLayout
from cudml.plan.normalization.groups import Groups

#: Bytes of an element whose runs, from so many elements on, are moved in whole pieces of 16 bytes wherever they begin.
#: Their ends take as long as before: (300, 300, 19, 19) halves over 0, 2, 3 take an H100 77 us so, in place of 93, but
#: (1000, 64, 13, 13) 37 in place of 35.
_LONG_RUN_ITEMSIZE, _LEAST_LONG_RUN = 2, 256

#: What lanes move at a time, at the least, of runs that are stored too, unless they move whole chunks, or single
#: elements by way of shared memory: (32, 512, 15, 14) bfloat16s over 0, 2, 3 take an H100 9.3 us one by one, and 17.3
#: two at a time, (128, 64, 15, 14) 11.6 and 11.9. But their mean and variance take 8.1 us and 5.2.
_LEAST_GRAIN_BYTES = 8

#: That is two floats, which only longer runs than so many gain by: (33, 711, 2, 169) take an H200 25 us one by one, and
#: 39 two at a time, (1505, 68, 11, 2) 12.6 and 20.4, but (338, 171, 374) 61.9 and 58.5, (7, 1701, 38, 55) 116 and 99.
_LEAST_GRAIN, _LEAST_RUN_OF_PAIRS = 4, 350

#: And where runs have more than one chunk but no more than so many, and groups so many elements, the input so many
#: bytes, they move whole chunks or single elements: (196, 521, 1, 20) float16s over 0, 2, 3 take an H200 6.7 us so and
#: 8.5 four at a time, (829, 53, 12) 5.1 and 5.6, but (22, 1690, 20) 5.5 and 4.3, (152, 18, 20), 0.1 MB, 2.8 and 2.7,
#: and (4608, 781, 4) 115 and 94.
_CHUNKS_OF_SHORT_RUNS, _LEAST_OF_SHORT_RUNS, _LEAST_BYTES_OF_SHORT_RUNS = 3, 2048, 1 << 20


def grain_of(groups: Groups, name: str) -> int:
    """Of groups of many runs the elements, a power of two and a chunk at the most, that lie dense and aligned from
    every multiple of their number on; 1 where one access moves no more, and of one run."""
    layout = _layout_of_runs(groups, name)
    if layout is None:
        return 1
    grain = math.gcd(groups.chunk, groups.reduced.sizes[-1])
    while grain > 1 and not groups.moves(name, grain):
        grain //= 2
    is_stored = groups.has("output") and grain < groups.chunk
    return 1 if is_stored and grain < _least_grain(groups, layout.dtype.itemsize) else grain


def _layout_of_runs(groups: Groups, name: str) -> ArrayLayout | None:
    """Of an array whose groups have many runs of aligned elements."""
    layout = groups.arrays.get(name)
    if not isinstance(layout, ArrayLayout) or not layout.element_aligned or groups.is_one_run(name):
        return None
    return layout


def _least_grain(groups: Groups, itemsize: int) -> int:
    """Elements of so many bytes that lanes move at a time, at the least, of runs that are stored."""
    run, are_many = groups.reduced.sizes[-1], groups.nbytes >= _LEAST_BYTES_OF_SHORT_RUNS
    are_short = groups.chunk < run <= _CHUNKS_OF_SHORT_RUNS * groups.chunk
    if are_short and are_many and groups.length >= _LEAST_OF_SHORT_RUNS:
        return groups.chunk
    usual = _LEAST_GRAIN_BYTES // itemsize
    return usual if run >= _LEAST_RUN_OF_PAIRS else max(_LEAST_GRAIN, usual)


def in_long_runs(groups: Groups, name: str) -> bool:
    """Whether a group has many long runs of halves, which begin anywhere."""
    layout = _layout_of_runs(groups, name)
    if layout is None:
        return False
    is_dense = groups.reduced.strides[name][-1] == layout.dtype.itemsize == _LONG_RUN_ITEMSIZE
    return is_dense and groups.reduced.sizes[-1] >= _LEAST_LONG_RUN and grain_of(groups, name) == 1


def store_halves_in_runs(groups: Groups) -> bool:
    """Whether warps store halves in runs that begin anywhere: kernels/normalization_chunks.cuh: STORED_IN_RUNS."""
    begins_anywhere = groups.step_of_runs("output") == _LONG_RUN_ITEMSIZE and not groups.packed("output")
    return begins_anywhere or in_long_runs(groups, "output")


def are_dense_in_runs(groups: Groups, name: str) -> bool:
    """Whether neighbours of the input's size fill each run, which begins at an element."""
    layout = groups.arrays.get(name)
    if not isinstance(layout, ArrayLayout) or not layout.element_aligned:
        return False
    return groups.reduced.strides[name][-1] == layout.dtype.itemsize == groups.source.dtype.itemsize
