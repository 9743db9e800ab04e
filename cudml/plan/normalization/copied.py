"""The plans of groups whose elements lie in another order than they are added up in, and are copied into that first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cudml.plan.device import DeviceProperties
from cudml.plan.layout import SECTOR_BYTES, ArrayLayout
from cudml.plan.normalization.groups import Operand
from cudml.plan.plan import Plan


def plan_on_copy_in_order(
    axes: tuple[int, ...],
    arrays: Mapping[str, Operand],
    device: DeviceProperties,
    plan_dense: Callable[[ArrayLayout], Plan],
) -> Plan | None:
    """A copy in C order, and what `plan_dense` plans for it; None where elements of groups lie in that order, or few
    of them share a sector in any."""
    source, output = arrays["input"], arrays.get("output")
    assert isinstance(source, ArrayLayout)
    if not _lie_across(axes, source):
        return None
    from cudml.plan.gather import plan_on_copy  # only for those who need it

    target = output if isinstance(output, ArrayLayout) else None
    return plan_on_copy(source, range(len(source.shape)), target, device, plan_dense)


def _lie_across(axes: tuple[int, ...], source: ArrayLayout) -> bool:
    """Whether the innermost axis in memory is reduced but is not the one along which elements are added up, which lie
    in a sector each."""
    steps = {axis: abs(source.strides[axis]) for axis, size in enumerate(source.shape) if size > 1}
    own = [axis for axis in axes if axis in steps]
    if not own:
        return False
    innermost = min(steps, key=lambda axis: steps[axis])
    return innermost in own and innermost != own[-1] and steps[own[-1]] >= SECTOR_BYTES
