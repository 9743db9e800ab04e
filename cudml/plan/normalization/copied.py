"""The plans of groups whose elements are copied first, into the order that they are added up in."""

from __future__ import annotations

from collections.abc import Callable

from cudml.plan.device import DeviceProperties
from cudml.plan.layout import SECTOR_BYTES, ArrayLayout, outer_to_inner
from cudml.plan.normalization.groups import Groups
from cudml.plan.plan import Plan


def plan_on_copy_in_order(
    axes: tuple[int, ...],
    groups: Groups,
    device: DeviceProperties,
    plan_dense: Callable[[ArrayLayout], Plan],
) -> Plan | None:
    """A dense copy, and what `plan_dense` plans for it; None where elements lie well, or nothing copies them."""
    source, output = groups.source, groups.arrays.get("output")
    every = range(len(source.shape))
    if _lie_across(axes, source):
        order = tuple(every)
    elif _are_narrow_and_apart(groups):
        order = outer_to_inner(every, source)
    else:
        return None
    from cudml.plan.gather import plan_on_copy  # only for those who need it

    return plan_on_copy(source, order, output if isinstance(output, ArrayLayout) else None, device, plan_dense)


def _lie_across(axes: tuple[int, ...], source: ArrayLayout) -> bool:
    """Whether the innermost axis in memory is reduced but is not the one along which elements are added up, which lie
    in a sector each."""
    steps = {axis: abs(source.strides[axis]) for axis, size in enumerate(source.shape) if size > 1}
    own = [axis for axis in axes if axis in steps]
    if not own:
        return False
    innermost = min(steps, key=lambda axis: steps[axis])
    return innermost in own and innermost != own[-1] and steps[own[-1]] >= SECTOR_BYTES


def _are_narrow_and_apart(groups: Groups) -> bool:
    """Whether less than a sector of columns lies side by side, and their steps in more than one stride, as in images
    that are turned round."""
    if not groups.has("output") or len(groups.reduced.sizes) == 1:
        return False
    size = groups.source.dtype.itemsize
    return groups.kept.strides["input"][-1] == size and groups.kept.sizes[-1] * size < SECTOR_BYTES
