"""The plans of groups whose elements are copied first, into the order that they are added up in."""

from __future__ import annotations

import math
from collections.abc import Callable

from cudml.plan.device import DeviceProperties
from cudml.plan.gather import plan_on_copy
from cudml.plan.layout import SECTOR_BYTES, ArrayLayout, outer_to_inner
from cudml.plan.normalization.groups import Groups
from cudml.plan.plan import Plan

#: Bytes of a row of channels, at the most, where steps lie in several strides and all rows are parts of larger ones:
#: (16, 512, 512, 4)[:, 16:496, 16:496] float32 normalized over 1, 2 take an H200 81 us so and 99 otherwise, with 5
#: channels 110 and 92, (64, 512, 512, 3)[:, 16:496, 16:496] float16 149 and 348, with 12 channels 137 and 126.
_MOST_ROW_OF_PARTS = 16

#: Bytes of short columns side by side that are copied first, as there are gaps between them and the next, and elements
#: for each multiprocessor at least: (524288, 40, 3)[:, 4:36] float16 normalized over 1 take 145 us so and 304
#: otherwise, (1024, 100, 3)[:, 10:90] 6.2 and 4.6. Floats lose more often: (4096, 100, 3)[:, 10:90] take 9.6 and 6.1.
_MOST_BYTES_APART, _LEAST_APART = 8192, 1 << 11

#: Elements of a group that lie between neighbours of memory, at the most, where only moments are asked for: what is
#: loaded along with one stays in the first-level cache until it is its turn. Those of (954, 42, 16, 23) float16s over
#: 0, 2, 3, whose axes lie in the order 0, 1, 3, 2, 23 between, take an H200 28 us so and 87 on a copy, of (236, 9, 4,
#: 90) over 2, 3 in the order 3, 0, 1, 2 5.0 and 6.6; but of (3, 1550, 8, 100) floats over 1, 2, 3 in the order 0, 2, 3,
#: 1, 800 between, 20 and 17, of (4, 7, 2, 534141) float16s over 2, 3 290 and 75.
_MOST_BETWEEN = 96


def plan_on_copy_in_order(
    axes: tuple[int, ...],
    groups: Groups,
    device: DeviceProperties,
    plan_dense: Callable[[ArrayLayout], Plan],
) -> Plan | None:
    """A dense copy, and what `plan_dense` plans for it; None where elements lie well, or nothing copies them."""
    source, output = groups.source, groups.arrays.get("output")
    every = range(len(source.shape))
    if _lie_across(axes, source, is_read_only=output is None):
        order = tuple(every)
    elif _are_narrow_and_apart(groups, device):
        order = outer_to_inner(every, source)
    else:
        return None
    return plan_on_copy(source, order, output if isinstance(output, ArrayLayout) else None, device, plan_dense)


def _lie_across(axes: tuple[int, ...], source: ArrayLayout, is_read_only: bool) -> bool:
    """Whether the innermost axis in memory is reduced but is not the one along which elements are added up, which lie
    in a sector each, and no cache keeps these."""
    steps = {axis: abs(source.strides[axis]) for axis, size in enumerate(source.shape) if size > 1}
    own = [axis for axis in axes if axis in steps]
    if not own:
        return False
    innermost = min(steps, key=lambda axis: steps[axis])
    if innermost not in own or innermost == own[-1] or steps[own[-1]] < SECTOR_BYTES:
        return False
    between = math.prod(source.shape[axis] for axis in own if axis > innermost)
    return not is_read_only or between > _MOST_BETWEEN


def _are_narrow_and_apart(groups: Groups, device: DeviceProperties) -> bool:
    """Whether less than a sector of columns lies side by side, and their steps in more than one stride, as in images
    that are turned round or parts of larger ones, or in one that leaves gaps between short columns."""
    size, kept, strides = groups.source.dtype.itemsize, groups.kept, groups.reduced.strides["input"]
    row = kept.sizes[-1] * size
    if not groups.has("output") or row >= SECTOR_BYTES or kept.strides["input"][-1] != size:
        return False
    if len(strides) > 1:
        return row <= _MOST_ROW_OF_PARTS or strides[-1] != row
    short, enough = row * groups.length, groups.source.size >= _LEAST_APART * device.multiprocessors
    is_short = size == 2 and strides == (row,) and short <= _MOST_BYTES_APART
    return enough and is_short and len(kept.sizes) > 1 and kept.strides["input"][-2] > short
