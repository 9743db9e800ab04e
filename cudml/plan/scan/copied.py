"""The plans of scans whose input is copied first, its axes in the order that they have."""

from __future__ import annotations

from collections.abc import Callable

from cudml.plan.device import DeviceProperties
from cudml.plan.gather import plan_on_copy
from cudml.plan.layout import ArrayLayout, outer_to_inner, step
from cudml.plan.plan import Plan
from cudml.plan.scan.work import ENOUGH_LINES, Work

#: Elements of such few lines with gaps, for each multiprocessor, from which on they are copied first: (65536, 8)[:, :5]
#: floats over 0 take an H200 7.9 us so and 8.3 otherwise, (16384, 8)[:, :5] 6.1 and 3.8; (4194304, 8)[:, :5] an H100
#: 137 and 487.
_LEAST_OF_FEW_COLUMNS = 1 << 11

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
