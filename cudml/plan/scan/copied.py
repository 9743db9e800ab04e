"""The plans of scans whose input is copied first, into the order of the axes that it has or that the output has."""

from __future__ import annotations

from collections.abc import Callable

from cudml.plan.device import DeviceProperties
from cudml.plan.gather import plan_on_copy, plan_on_copy_like_output
from cudml.plan.layout import ArrayLayout, innermost, outer_to_inner, step
from cudml.plan.plan import Plan
from cudml.plan.scan.work import ENOUGH_LINES, Work
from cudml.plan.spec import Scan

#: Elements of such few lines with gaps, for each multiprocessor, from which on they are copied first: (65536, 8)[:, :5]
#: floats over 0 take an H200 7.9 us so and 8.3 otherwise, (16384, 8)[:, :5] 6.1 and 3.8; (4194304, 8)[:, :5] an H100
#: 137 and 487.
_LEAST_OF_FEW_COLUMNS = 1 << 11

#: And of arrays whose output lies in another order, by bytes of an element. On an H200 such copies take 0.72 times as
#: long as what else there is, of 109 random arrays of 2^16 to 2^21 elements, 25 of them longer; with half the elements
#: 1.1 to 1.7 times. Less of complex128 was not measured.
_LEAST_OF_ANOTHER_ORDER = {1: 1 << 13, 2: 1 << 9, 4: 1 << 11, 8: 1 << 12, 16: 1 << 14}

PlanDense = Callable[[ArrayLayout], Plan]


def plan_on_dense_copy(
    source: ArrayLayout, output: ArrayLayout, device: DeviceProperties, plan_dense: PlanDense
) -> Plan | None:
    """On a dense copy whose axes lie in the order that they have; None if they are dense already, or nothing copies
    them."""
    return plan_on_copy(source, outer_to_inner(range(len(source.shape)), source), output, device, plan_dense)


def plan_few_columns_on_copy(
    source: ArrayLayout, output: ArrayLayout, work: Work, device: DeviceProperties, plan_dense: PlanDense
) -> Plan | None:
    """The same if some lines lie side by side, fewer than fill a sector, and are long; else None."""
    if work.axis is None or not 1 < work.lines < ENOUGH_LINES:
        return None
    if source.size < _LEAST_OF_FEW_COLUMNS * device.multiprocessors:
        return None
    lie_beside = 0 < step(work.line_axes[-1], source) < step(work.axis, source)
    return plan_on_dense_copy(source, output, device, plan_dense) if lie_beside else None


def plan_in_order_of_output(
    spec: Scan, source: ArrayLayout, output: ArrayLayout, work: Work, device: DeviceProperties, plan_dense: PlanDense
) -> Plan | None:
    """On a copy whose axes lie like those of the output, if neighbouring lines are no neighbours there, or bytes and
    halves are turned in tiles; None if something else is faster, or nothing copies them. On an H200 that takes 0.41
    times as long as what else there is, of 83 random arrays, (898523, 48) float16 summed over 0 into rows 114 us in
    place of 250; 1.08 times if elements are less scattered, and mostly longer if threads walk down neighbouring lines.
    """
    least = _LEAST_OF_ANOTHER_ORDER[source.dtype.itemsize]
    if spec.axis is None or source.size < least * device.multiprocessors:
        return None
    lines = [axis for axis in range(len(source.shape)) if axis != spec.axis]
    are_neighbours = innermost(source, lines) == innermost(output, lines)
    if are_neighbours and not (work.turned and output.dtype.itemsize < 4):
        return None
    return plan_on_copy_like_output(source, output, device, plan_dense)
