"""The plans of groups whose elements are copied first, into the order that they are added up in."""

from __future__ import annotations

from collections.abc import Callable

from cudml.plan.device import DeviceProperties
from cudml.plan.gather import plan_on_copy, plan_on_copy_and_back
from cudml.plan.layout import SECTOR_BYTES, ArrayLayout, between, lie_across, lie_in_one_order, outer_to_inner
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

#: And, where they are normalized, at least, if the copy is of short axes or has a copy in turn: (553092, 6, 4) floats
#: over 0, 1, whose axes lie in the order 2, 1, 0, 6 between, take an H200 67 us and 123 on copies, (131072, 160, 3)
#: float64s 1941 and 839.
_LEAST_BETWEEN = 16

#: Bytes of a group, at least, if no other copy pays: blocks keep smaller ones. (146, 8, 90, 512) bfloat16s over 1, 3 in
#: the order 0, 2, 3, 1 take 214 us and 438 on copies, (139, 464, 256)[:, ::2] over 1, 2 in the order 2, 0, 1, 119 KB,
#: 156 and 41.
_LEAST_GROUP_BYTES = 1 << 16

#: Elements for each multiprocessor, at least, of copies that are not needed. Of 111 random arrays of halves, of up to
#: 2^21 elements, they take an H200 0.77 times as long as what else there is, 28 of them longer; with half as many 1.17
#: times.
LEAST_COPIED = 1 << 10

PlanDense = Callable[[ArrayLayout, ArrayLayout | None], Plan]


def plan_on_copy_in_order(
    axes: tuple[int, ...],
    groups: Groups,
    device: DeviceProperties,
    plan_dense: PlanDense,
) -> Plan | None:
    """A dense copy, and what `plan_dense` plans for it, and for another output if there is one; None where elements lie
    well, or nothing copies them."""
    source, output = groups.source, groups.arrays.get("output")
    every = range(len(source.shape))
    if not isinstance(output, ArrayLayout):
        are_apart = between(axes, source) > _MOST_BETWEEN and not _are_near(axes, groups)
        across = are_apart and lie_across(axes, source)
        return plan_on_copy(source, every, None, device, lambda copy: plan_dense(copy, None)) if across else None
    if lie_across(axes, source):
        return _plan_across(axes, groups, output, device, plan_dense)
    if not _are_narrow_and_apart(groups, device):
        return None
    order = outer_to_inner(every, source)
    return plan_on_copy(source, order, output, device, lambda copy: plan_dense(copy, output))


def _plan_across(
    axes: tuple[int, ...],
    groups: Groups,
    output: ArrayLayout,
    device: DeviceProperties,
    plan_dense: PlanDense,
) -> Plan | None:
    """On a copy in C order, from which the output is written, or on one whose output is copied. The first is faster of
    floats where the output is turned in tiles: (91448, 401) over 0, 1 in the order 1, 0 take 225 us so and 288
    otherwise, but (557, 58, 864) float16s over 1, 2 in the order 0, 2, 1 353 and 133."""
    source, every = groups.source, range(len(groups.source.shape))
    are_apart = between(axes, source) > _LEAST_BETWEEN
    is_large = groups.length * source.dtype.itemsize >= _LEAST_GROUP_BYTES
    are_alike = lie_in_one_order(source, output)
    if _are_near(axes, groups) and not (are_alike and _are_many(source, device)):
        return None
    of_any = are_apart and is_large and not are_alike
    copied = plan_on_copy(source, every, output, device, lambda copy: plan_dense(copy, output), of_any)
    is_turned = copied is not None and copied.parts[-1].source == "normalization_turned.cu"
    if not are_alike or (is_turned and source.dtype.itemsize >= 4) or not _are_many(source, device):
        return copied
    if not are_apart or not (copied or is_large):
        return copied
    kept = [axis for axis in outer_to_inner(every, source) if axis not in axes]
    return plan_on_copy_and_back(source, (*kept, *axes), output, device, plan_dense) or copied


def _are_near(axes: tuple[int, ...], groups: Groups) -> bool:
    """Whether neighbours along the last axis are in sectors side by side, which a block that keeps groups loads once:
    (4118, 4, 2, 208) floats over 2, 3, whose axes lie in the order 0, 3, 1, 2, take an H200 24 us so and 84 on a copy.
    """
    source = groups.source
    last = max((axis for axis in axes if source.shape[axis] > 1), default=0)
    is_kept = groups.length * source.dtype.itemsize < _LEAST_GROUP_BYTES
    return is_kept and abs(source.strides[last]) <= SECTOR_BYTES


def _are_many(source: ArrayLayout, device: DeviceProperties) -> bool:
    return source.size >= LEAST_COPIED * device.multiprocessors


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
