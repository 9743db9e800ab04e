"""The plans of copies into another order of the axes, whose innermost ones may be short: kernels/gather_boxes.cu."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cudml.plan.dtypes import c_name
from cudml.plan.gather.rows import ELEMENTS
from cudml.plan.layout import ArrayLayout, Dims, collapse_together, index_type
from cudml.plan.loads import eviction_of
from cudml.plan.plan import Argument, Launch, Plan, Struct, constants_of

#: Elements, by their bytes, that are to lie side by side in either array, if there are as many, the part of these that
#: will do, and elements of a box, at the least. In 480 copies of 4 us and more on an H200 half as many take 2 % longer
#: or up to 4, twice as many elements of a box 1 to 9, four times as many up to 14, and blocks of 128 threads 2 to 5, of
#: 512 11 to 40.
_RUN, _ENOUGH, _LEAST = {1: 128, 2: 64, 4: 64, 8: 32}, 0.75, 2048

_THREADS = 256

#: Elements of a line, at the least, unless it would have more than a block has threads for.
_LINE = 32

_BANK_BYTES = 4


def plan_boxes(source: ArrayLayout, copy: ArrayLayout, order: Sequence[int], at: Argument, to: Argument) -> Plan | None:
    """None where elements of the array are repeated. The axes in that order are those of the copy from the outermost
    on, which may have gaps."""
    sizes, (steps, copied) = collapse_together([source, copy], order)
    if 0 in steps:
        return None
    rank, size = len(sizes), source.dtype.itemsize
    from_inner = sorted(range(rank), key=lambda axis: abs(steps[axis]))
    to_inner = range(rank - 1, -1, -1)
    box = _box(sizes, from_inner, to_inner, size)
    boxes = [math.ceil(count / part) for count, part in zip(sizes, box, strict=True)]
    index = index_type((source.size,), (Dims(sizes, steps), Dims(sizes, copied)))
    loaded = _at_a_time(source, sizes, box, steps, from_inner[0])
    stored = _at_a_time(copy, sizes, box, copied, to_inner[0])
    of_row = _axes_of_line(box, to_inner, stored)
    constants = constants_of(
        ELEMENT=c_name(ELEMENTS[size]),
        RANK=rank,
        BOX=",".join(map(str, box)),
        FROM_INNER=",".join(map(str, from_inner)),
        OF_RUN=_axes_of_line(box, from_inner, loaded),
        OF_ROW=of_row,
        LOADED=loaded,
        STORED=stored,
        PITCH=_pitch(math.prod(box[rank - max(of_row, 1) :]), size * loaded),
        IN_BOXES=sum((count > 1) << axis for axis, count in enumerate(boxes)),
        CUT=sum((count % part > 0) << axis for axis, (count, part) in enumerate(zip(sizes, box, strict=True))),
        THREADS=_THREADS,
        EVICTION=eviction_of(source),
        INDEX=c_name(index),
    )
    geometry = Struct((*sizes, *boxes, *steps, *copied), index)
    launch = Launch("gather_boxes", math.prod(boxes), _THREADS, (at, to, geometry), early=True)
    return Plan("gather_boxes.cu", constants, (launch,))


def _box(sizes: Sequence[int], from_inner: Sequence[int], to_inner: Sequence[int], size: int) -> list[int]:
    """So many indices of each axis that what lies side by side in either array is long."""
    box = [1] * len(sizes)
    _extend(box, sizes, to_inner, size)
    _extend(box, sizes, from_inner, size)
    for axis in to_inner:
        elements = math.prod(box)
        if elements >= _LEAST:
            break
        box[axis] = _part(sizes[axis], box[axis] * math.ceil(_LEAST / elements), size)
    return box


def _extend(box: list[int], sizes: Sequence[int], order: Sequence[int], size: int) -> None:
    """Takes indices of the axes in that order, the innermost first, until enough elements follow each other."""
    run, count = _RUN[size], 1
    for axis in order:
        if count >= _ENOUGH * run:
            return
        box[axis] = max(box[axis], _part(sizes[axis], math.ceil(run / count), size))
        count *= box[axis]
        if box[axis] < sizes[axis]:
            return


def _part(length: int, wanted: int, size: int) -> int:
    """About so many, of parts that are as equal as can be, and of whole words of a bank."""
    unit = math.gcd(length, max(1, _BANK_BYTES // size))
    return unit * math.ceil(length / unit / max(1, round(length / wanted)))


def _at_a_time(layout: ArrayLayout, sizes: Sequence[int], box: Sequence[int], steps: Sequence[int], inner: int) -> int:
    """Neighbours along that axis that one access moves, a word of a bank at the most."""
    size = layout.dtype.itemsize
    if steps[inner] != size:
        return 1
    others = [step for axis, step in enumerate(steps) if axis != inner]
    return max(1, math.gcd(_BANK_BYTES, layout.alignment, size * sizes[inner], size * box[inner], *others) // size)


def _axes_of_line(box: Sequence[int], from_inner: Sequence[int], at_a_time: int) -> int:
    """How many axes, from the innermost on, make a line."""
    elements, axes = 1, 0
    for axis in from_inner:
        if elements >= _LINE or elements * box[axis] > _THREADS * at_a_time:
            break
        elements *= box[axis]
        axes += 1
    return axes


def _pitch(row: int, nbytes: int) -> int:
    """Elements from a row to the next, so that what neighbouring threads load, so many bytes of a column each, lies in
    different banks: an odd number of these apart."""
    of_bank = max(1, _BANK_BYTES // nbytes)
    return of_bank * (math.ceil(row / of_bank) | 1)
