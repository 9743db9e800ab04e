"""The plans of calls on arrays whose elements lie so that others are faster on a dense copy, which comes first:
kernels/gather_*.cu.

The copy is made in the output where that is as large and lies as the copy would, and else in the workspace. No element
of the input lies there then: an output that is the input lies as that does, and is not dense or in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from cudml.plan.device import DeviceProperties
from cudml.plan.gather.boxes import plan_boxes
from cudml.plan.gather.rows import ELEMENTS, plan_rows
from cudml.plan.gather.tiles import Tiles
from cudml.plan.layout import CACHE_LINE_BYTES, VECTOR_BYTES, ArrayLayout, innermost, outer_to_inner
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
    of_any: bool = False,
    row: int = 0,
) -> Plan | None:
    """A dense copy of `source`, its axes in that order from the outermost, then what `plan_dense` plans for its layout;
    None where no kernel copies such arrays, or one launch is sooner done. `of_any`: also of those whose innermost axes
    are short, and others. `row`: so many inner axes are a row, of which each begins with a line of the cache."""
    is_small = source.size < _LEAST_ELEMENTS * device.multiprocessors
    if is_small or not _can_be_moved(source):
        return None
    copy = dense_layout(source, order, row)
    in_output = output is not None and _lie_alike(output, copy) and output.alignment == copy.alignment
    to: Argument = Pointer("output") if in_output else Workspace(0)
    gathered = _gathered(source, copy, order, to, device, of_any)
    if gathered is None:
        return None
    moved = 0 if in_output else _in_vectors(copy)
    return _followed(gathered, plan_dense(copy), {Pointer("input"): to}, moved)


def plan_on_copy_like_output(
    source: ArrayLayout,
    output: ArrayLayout,
    device: DeviceProperties,
    plan_dense: Callable[[ArrayLayout], Plan],
    row: int = 0,
) -> Plan | None:
    """The same of any array, its axes in the order of the output's; None where elements that lie side by side do so in
    the other array."""
    if innermost(source) == innermost(output):
        return None
    order = outer_to_inner(range(len(output.shape)), output)
    return plan_on_copy(source, order, output, device, plan_dense, of_any=True, row=row)


def plan_on_copy_and_back(
    source: ArrayLayout,
    order: Sequence[int],
    output: ArrayLayout,
    device: DeviceProperties,
    plan_dense: Callable[[ArrayLayout, ArrayLayout], Plan],
) -> Plan | None:
    """The same where the output of `plan_dense` lies like the copy, in the workspace too, and in its place if elements
    are as large; it is copied from there in the end."""
    if not (_can_be_moved(source) and _can_be_moved(output)):
        return None
    copy, result = dense_layout(source, order), dense_layout(output, order)
    at = Workspace(0 if _in_vectors(copy) == _in_vectors(result) else _in_vectors(copy))
    gathered = _gathered(source, copy, order, Workspace(0), device, of_any=True)
    last = plan_boxes(result, output, outer_to_inner(order, output), at, Pointer("output"))
    if gathered is None or last is None:
        return None
    places: dict[Argument, Argument] = {Pointer("input"): Workspace(0), Pointer("output"): at}
    return _followed(gathered, plan_dense(copy, result), places, at.offset + _in_vectors(result), last)


def dense_layout(source: ArrayLayout, order: Sequence[int], row: int = 0) -> ArrayLayout:
    """That of a copy, its axes in this order from the outermost; with gaps after rows of so many inner ones, if any."""
    strides = [0] * len(order)
    step = source.dtype.itemsize
    for inner, axis in enumerate(reversed(order)):
        if 0 < inner == row:
            step = math.ceil(step / CACHE_LINE_BYTES) * CACHE_LINE_BYTES
        strides[axis] = step
        step *= source.shape[axis]
    return ArrayLayout(source.shape, tuple(strides), source.dtype, VECTOR_BYTES)


def _can_be_moved(layout: ArrayLayout) -> bool:
    return layout.dtype.itemsize in ELEMENTS and layout.element_aligned


def _gathered(
    source: ArrayLayout,
    copy: ArrayLayout,
    order: Sequence[int],
    to: Argument,
    device: DeviceProperties,
    of_any: bool,
) -> Plan | None:
    """None where nothing copies the array, or it lies like the copy. Rows whose gaps are full of others would be loaded
    once for each of these; boxes load them once."""
    if _lie_alike(source, copy):
        return None
    rows = plan_rows(source, copy, order, to)
    if rows and innermost(source) == innermost(copy):
        return rows
    tiles = Tiles.of(source, copy, order, device)
    if tiles and tiles.are_filled:
        return tiles.plan(to)
    return plan_boxes(source, copy, order, Pointer("input"), to) if rows or tiles or of_any else None


def _lie_alike(one: ArrayLayout, other: ArrayLayout) -> bool:
    """Whether elements lie in the same places from the first one on."""
    same = one.shape == other.shape and one.dtype == other.dtype
    steps = zip(one.shape, one.strides, other.strides, strict=True) if same else ()
    return same and all(size == 1 or step == expected for size, step, expected in steps)


def _followed(
    gathered: Plan, dense: Plan, places: dict[Argument, Argument], begin: int, last: Plan | None = None
) -> Plan:
    """The copy, then that plan, whose arrays are in other places and whose own part of the workspace begins behind so
    many bytes, and what comes last."""
    return replace(
        gathered,
        workspace_bytes=begin + dense.workspace_bytes,
        scratch_bytes=dense.scratch_bytes,
        then=_moved(dense, places, begin, last),
    )


def _moved(plan: Plan, places: dict[Argument, Argument], begin: int, last: Plan | None) -> Plan:
    def moved(argument: Argument) -> Argument:
        if isinstance(argument, Workspace):
            return Workspace(argument.offset + begin)
        return places.get(argument, argument)

    launches = tuple(
        launch._replace(arguments=tuple(moved(argument) for argument in launch.arguments)) for launch in plan.launches
    )
    return replace(plan, launches=launches, then=_moved(plan.then, places, begin, last) if plan.then else last)


def _in_vectors(layout: ArrayLayout) -> int:
    """The bytes from the first element to the last, rounded up."""
    last = sum((length - 1) * step for length, step in zip(layout.shape, layout.strides, strict=True))
    return math.ceil((last + layout.dtype.itemsize) / VECTOR_BYTES) * VECTOR_BYTES
