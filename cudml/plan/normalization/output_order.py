"""The plans of groups whose elements are copied first, into the order of the axes that the output has.

The numbers are of an H200, of 880 arrays (n, c, p) of 2^18 to 2^24 elements whose axes lie in the order 0, 2, 1, as
those of images with their channels last, into C order, and of 240 random ones.
"""

from __future__ import annotations

from collections.abc import Callable

from cudml.plan.device import DeviceProperties
from cudml.plan.gather import plan_on_copy_like_output
from cudml.plan.layout import SECTOR_BYTES, ArrayLayout, are_scattered
from cudml.plan.normalization.copied import LEAST_COPIED, PlanDense
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.joint_axes import JointAxes
from cudml.plan.normalization.turned import Turned, moments_of
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: Elements for each multiprocessor, at least, of columns of float64 whose output lies in another order: of less such
#: copies take 1.04 times as long as what else there is, of floats and halves 0.79.
_LEAST_OF_WIDE_COLUMNS = 1 << 12

#: And of arrays that are turned in tiles after their moments were found, at the most, by bytes of an element: less take
#: 0.5 to 0.96 times as long copied, of 2^24 floats 0.96 to 1.19, (5973, 299) over 1 in the order 1, 0 14.6 us and 11.8.
_MOST_TURNED = {1: 1 << 14, 2: 1 << 14, 4: 1 << 13, 8: 1 << 12}

#: Halves of a group that lie side by side in the output for which that holds of any number: (65536, 16, 16) over 2 take
#: 139 us and 62 copied, (16384, 16, 64) 40 and 39, (65536, 16, 8) 26 and 38.
_SHORT_RUNS_OF_HALVES = range(16, 32)

#: Neighbouring groups that are too few for tiles, as 2 to 15 channels, and elements of one in the output: two steps
#: take 2 to 4 times as long as copies at all sizes, (2048, 4, 32) floats over 0, 2 13.6 us and 6.7, (1024, 4, 2048)
#: 154 and 42, unless both are short: (87381, 12, 8) 55 and 80.
_MOST_NARROW, _LEAST_RUN, _LEAST_RUN_OF_SECTORS, _LEAST_OF_STEPS = 15, 8, 16, 1 << 9

#: A block keeps such groups of less than a sector if so many bytes of them lie end to end, and so many elements at the
#: most, or so many in small arrays: (16384, 4, 128) floats over 2 take 29 us and 57 copied, but (8192, 8, 128) 138 and
#: 57, (131072, 2, 32) 140 and 45. Nor do others pay with few of a group: (262144, 4, 8) 48 and 45.
_LEAST_KEPT_BYTES, _MOST_KEPT, _MOST_KEPT_OF_FEW, _FEW = 384, 512, 1024, 1 << 13

#: Elements of one group side by side in the input, at the most, by their bytes, and of so many groups in the output:
#: (18078, 2, 232) floats over 0, 1 take 184 us and 83 copied, 12 by 232 of them 173 and 50, 16 by 232 69 and 102.
_MOST_OF_GROUP, _LEAST_GROUPS = {1: 32, 2: 32, 4: 15, 8: 15}, 32

#: And elements for each multiprocessor, at least: (282, 4, 232) floats take 6.8 us and 7.9 copied, (65, 2, 2000) halves
#: 7.6 and 9.2.
_LEAST_OF_GROUPS = {1: 1 << 12, 2: 1 << 12, 4: 1 << 13, 8: 1 << 13}


def plan_narrow_on_copy_like_output(
    groups: Groups, device: DeviceProperties, plan_dense: PlanDense, plan_uncopied: Callable[[], Plan]
) -> Plan | None:
    """Where short runs lie side by side in the input, of neighbouring groups or of elements of one, and long ones of
    the others in the output; None where `plan_uncopied` is faster."""
    if not groups.has("output"):
        return None
    row, run = _run_of(groups, groups.kept, "input"), _run_of(groups, groups.reduced, "output")
    if row > 1 and run > 1:
        return _plan_narrow(row, run, groups, device, plan_dense, plan_uncopied)
    row, run = _run_of(groups, groups.reduced, "input"), _run_of(groups, groups.kept, "output")
    size = groups.source.dtype.itemsize
    is_narrow = 1 < row <= _MOST_OF_GROUP[size] and row < groups.length  # else they are lines
    are_many = _elements(groups, device) >= _LEAST_OF_GROUPS[size]
    return _plan_on_copy(groups, device, plan_dense) if is_narrow and are_many and run >= _LEAST_GROUPS else None


def _plan_narrow(
    row: int,
    run: int,
    groups: Groups,
    device: DeviceProperties,
    plan_dense: PlanDense,
    plan_uncopied: Callable[[], Plan],
) -> Plan | None:
    """Of so many groups side by side in the input, and so many elements of one in the output."""
    size, elements = groups.source.dtype.itemsize, _elements(groups, device)
    is_sector = row * size >= SECTOR_BYTES
    if row > _MOST_NARROW or run < (_LEAST_RUN_OF_SECTORS if is_sector else _LEAST_RUN) or elements < _LEAST_OF_STEPS:
        return None
    uncopied = plan_uncopied()
    if uncopied.is_one_launch and (run < _LEAST_RUN_OF_SECTORS or elements < LEAST_COPIED):
        return None
    most = _MOST_KEPT if elements >= _FEW else _MOST_KEPT_OF_FEW
    are_kept = not is_sector and row * run * size >= _LEAST_KEPT_BYTES and row * run <= most
    return None if uncopied.is_one_launch and are_kept else _plan_on_copy(groups, device, plan_dense)


def plan_halves_on_copy_like_output(groups: Groups, device: DeviceProperties, plan_dense: PlanDense) -> Plan | None:
    """Of elements of two bytes or one, if what lies side by side is scattered in the output, or the other way round. On
    an H200 that takes 0.51 times as long as what else there is, of 80 random arrays, and 1.07 times if elements are
    less scattered; of floats 1.15 times."""
    if not groups.has("output") or groups.widest > 2 or _elements(groups, device) < LEAST_COPIED:
        return None
    are_turned = _run_of(groups, groups.kept, "input") > 1
    are_short = _run_of(groups, groups.reduced, "output") in _SHORT_RUNS_OF_HALVES
    pays = (are_turned and are_short) or _are_scattered(groups)
    return _plan_on_copy(groups, device, plan_dense) if pays else None


def plan_few_on_copy_like_output(
    groups: Groups, spec: Normalization, device: DeviceProperties, plan_dense: PlanDense
) -> Plan | None:
    """Of few elements in groups that lie side by side, whose output else is turned in tiles."""
    are_few = LEAST_COPIED <= _elements(groups, device) < _MOST_TURNED[groups.source.dtype.itemsize]
    if not (are_few and groups.are_columns and groups.has("output")):
        return None
    return _plan_on_copy(groups, device, plan_dense) if Turned.of(groups, moments_of(groups, spec)) else None


def plan_columns_on_copy_like_output(groups: Groups, device: DeviceProperties, plan_dense: PlanDense) -> Plan | None:
    """Of groups that lie side by side, whatever their elements, if these are scattered in the output. Of 79 random
    arrays it takes 0.58 times as long, 9 of them longer, (10, 28, 7808, 24) floats over 0 whose axes lie in the order
    3, 0, 2, 1 240 us in place of 1648."""
    least = LEAST_COPIED if groups.widest <= 4 else _LEAST_OF_WIDE_COLUMNS
    pays = groups.are_columns and _elements(groups, device) >= least and _are_scattered(groups)
    return _plan_on_copy(groups, device, plan_dense) if pays else None


def _run_of(groups: Groups, axes: JointAxes, name: str) -> int:
    """How many elements of an array lie side by side along these axes."""
    layout = groups.arrays[name]
    assert isinstance(layout, ArrayLayout)
    step = size = layout.dtype.itemsize
    for stride, length in sorted(zip(axes.strides[name], axes.sizes, strict=True)):
        if stride != step:
            break
        step *= length
    return step // size


def _elements(groups: Groups, device: DeviceProperties) -> float:
    """For each multiprocessor."""
    return groups.source.size / device.multiprocessors


def _are_scattered(groups: Groups) -> bool:
    output = groups.arrays.get("output")
    return isinstance(output, ArrayLayout) and are_scattered(groups.source, output)


def _plan_on_copy(groups: Groups, device: DeviceProperties, plan_dense: PlanDense) -> Plan | None:
    """None where only moments are asked for, what lies side by side does so in the output, or nothing copies it."""
    output = groups.arrays.get("output")
    if not isinstance(output, ArrayLayout):
        return None
    return plan_on_copy_like_output(groups.source, output, device, lambda copy: plan_dense(copy, output))
