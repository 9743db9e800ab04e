"""The plans of calls on arrays whose elements lie so that others are faster on a dense copy, which comes first:
kernels/gather_*.cu.

The copy is made in the output where that is as large and lies as the copy would, and else in the workspace. No element
of the input lies there then: an output that is the input lies as that does, and is not dense.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from cudml.plan.device import DeviceProperties
from cudml.plan.gather.rows import ELEMENTS, plan_rows
from cudml.plan.gather.tiles import plan_tiles
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout
from cudml.plan.plan import Argument, Plan, Pointer, Workspace

#: For each multiprocessor, where an H200 takes as long either way: (256, 32)[:, ::2] float16 summed over 0 takes 4.6 us
#: so and 5.2 otherwise, (4, 8, 8, 64) floats whose channels lie last, as one group of each image, 7.2 and 7.8, (4, 128,
#: 128, 64) 25 and 103.
_LEAST_ELEMENTS = 1 << 7


def plan_on_copy(
    source: ArrayLayout,
    order: Sequence[int],
    output: ArrayLayout | None,
    device: DeviceProperties,
    plan_dense: Callable[[ArrayLayout], Plan],
) -> Plan | None:
    """A dense copy of `source`, its axes in that order from the outermost, then what `plan_dense` plans for its layout;
    None where no kernel copies such arrays, or one launch is sooner done."""
    is_small = source.size < _LEAST_ELEMENTS * device.multiprocessors
    if is_small or source.dtype.itemsize not in ELEMENTS or not source.element_aligned:
        return None
    copy = dense_layout(source, order)
    to: Argument = Pointer("output") if output is not None and _lies_alike(output, copy) else Workspace(0)
    gathered = plan_rows(source, copy, order, to) or plan_tiles(source, copy, order, to)
    if gathered is None:
        return None
    moved = 0 if isinstance(to, Pointer) else _in_vectors(copy.size * copy.dtype.itemsize)
    dense = plan_dense(copy)
    return replace(
        gathered,
        workspace_bytes=moved + dense.workspace_bytes,
        scratch_bytes=dense.scratch_bytes,
        then=_reading(dense, to, moved),
    )


def dense_layout(source: ArrayLayout, order: Sequence[int]) -> ArrayLayout:
    """That of a copy, its axes in this order from the outermost."""
    strides = [0] * len(order)
    step = source.dtype.itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= source.shape[axis]
    return ArrayLayout(source.shape, tuple(strides), source.dtype, VECTOR_BYTES)


def _lies_alike(output: ArrayLayout, copy: ArrayLayout) -> bool:
    same = output.shape == copy.shape and output.dtype == copy.dtype and output.alignment == copy.alignment
    steps = zip(output.shape, output.strides, copy.strides, strict=True) if same else ()
    return same and all(size == 1 or one == other for size, one, other in steps)


def _reading(plan: Plan, to: Argument, moved: int) -> Plan:
    """The same plan, whose input is the copy and whose own part of the workspace begins behind so many bytes."""

    def changed(arguments: Iterable[Argument]) -> tuple[Argument, ...]:
        return tuple(
            to if a == Pointer("input") else Workspace(a.offset + moved) if isinstance(a, Workspace) else a
            for a in arguments
        )

    launches = tuple(launch._replace(arguments=changed(launch.arguments)) for launch in plan.launches)
    return replace(plan, launches=launches, then=_reading(plan.then, to, moved) if plan.then else None)


def _in_vectors(nbytes: int) -> int:
    return math.ceil(nbytes / VECTOR_BYTES) * VECTOR_BYTES
