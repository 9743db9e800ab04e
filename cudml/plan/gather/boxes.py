"""The plans of copies into another order of the axes, whose innermost ones may be short: kernels/gather_boxes.cu."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

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

#: Of static shared memory, that a kernel may have.
_MOST_STAGED_BYTES = 48 << 10


@dataclass(frozen=True)
class Axes:
    """Those that both arrays have, from the outermost to the innermost of the copy."""

    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    copied: tuple[int, ...]
    """Byte strides of the array and of its copy."""

    @property
    def from_inner(self) -> list[int]:
        """From the innermost of the array on."""
        return sorted(range(len(self.sizes)), key=lambda axis: abs(self.steps[axis]))

    @property
    def to_inner(self) -> list[int]:
        """And of the copy."""
        return [*reversed(range(len(self.sizes)))]


@dataclass(frozen=True)
class Box:
    """How many indices of each axis a block takes, and how: constants of kernels/gather_boxes.cu."""

    indices: list[int]
    of_run: int
    of_row: int
    loaded: int
    stored: int
    pitch: int

    @classmethod
    def of(cls, source: ArrayLayout, copy: ArrayLayout, axes: Axes, parts: int) -> Box:
        """One of so many parts of what is best."""
        size, from_inner, to_inner = source.dtype.itemsize, axes.from_inner, axes.to_inner
        indices = _indices(axes, size, parts)
        loaded = _at_a_time(source, axes.sizes, indices, axes.steps, from_inner[0])
        stored = _at_a_time(copy, axes.sizes, indices, axes.copied, to_inner[0])
        of_row = _axes_of_line(indices, to_inner, stored)
        pitch = _pitch(math.prod(indices[len(indices) - max(of_row, 1) :]), size * loaded)
        return cls(indices, _axes_of_line(indices, from_inner, loaded), of_row, loaded, stored, pitch)

    @property
    def staged(self) -> int:
        """Elements that it takes in shared memory."""
        return math.prod(self.indices[: len(self.indices) - max(self.of_row, 1)]) * self.pitch


def plan_boxes(source: ArrayLayout, copy: ArrayLayout, order: Sequence[int], at: Argument, to: Argument) -> Plan | None:
    """None where elements of the array are repeated. The axes in that order are those of the copy from the outermost
    on, which may have gaps."""
    sizes, (steps, copied) = collapse_together([source, copy], order)
    if 0 in steps:
        return None
    axes, size = Axes(sizes, steps, copied), source.dtype.itemsize
    candidates = (Box.of(source, copy, axes, 1 << halvings) for halvings in itertools.count())
    box = next(box for box in candidates if box.staged * size <= _MOST_STAGED_BYTES)
    boxes = [math.ceil(count / part) for count, part in zip(sizes, box.indices, strict=True)]
    index = index_type((source.size,), (Dims(sizes, steps), Dims(sizes, copied)))
    constants = constants_of(
        ELEMENT=c_name(ELEMENTS[size]),
        RANK=len(sizes),
        BOX=",".join(map(str, box.indices)),
        FROM_INNER=",".join(map(str, axes.from_inner)),
        OF_RUN=box.of_run,
        OF_ROW=box.of_row,
        LOADED=box.loaded,
        STORED=box.stored,
        PITCH=box.pitch,
        IN_BOXES=sum((count > 1) << axis for axis, count in enumerate(boxes)),
        CUT=sum((count % part > 0) << axis for axis, (count, part) in enumerate(zip(sizes, box.indices, strict=True))),
        THREADS=_THREADS,
        EVICTION=eviction_of(source),
        INDEX=c_name(index),
    )
    geometry = Struct((*sizes, *boxes, *steps, *copied), index)
    launch = Launch("gather_boxes", math.prod(boxes), _THREADS, (at, to, geometry), early=True)
    return Plan("gather_boxes.cu", constants, (launch,))


def _indices(axes: Axes, size: int, parts: int) -> list[int]:
    """So many indices of each axis that what lies side by side in either array is long."""
    indices, run = [1] * len(axes.sizes), max(1, _RUN[size] // parts)
    _extend(indices, axes.sizes, axes.to_inner, run, size)
    _extend(indices, axes.sizes, axes.from_inner, run, size)
    for axis in axes.to_inner:
        elements = math.prod(indices)
        if elements >= _LEAST // parts:
            break
        indices[axis] = _part(axes.sizes[axis], indices[axis] * math.ceil(_LEAST // parts / elements), size)
    return indices


def _extend(box: list[int], sizes: Sequence[int], order: Sequence[int], run: int, size: int) -> None:
    """Takes indices of the axes in that order, the innermost first, until enough elements follow each other."""
    count = 1
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
