"""The plans of moments and normalization: which of kernels/normalization_*.cu."""

from __future__ import annotations

from cudml.plan.device import DeviceProperties
from cudml.plan.layout import ArrayLayout
from cudml.plan.normalization.bands import plan_bands
from cudml.plan.normalization.bundle_tiles import plan_tiled_bundles, plan_tiled_bundles_of_any
from cudml.plan.normalization.bundles import plan_bundles
from cudml.plan.normalization.clustered_lines import plan_clustered_lines
from cudml.plan.normalization.columns import plan_columns
from cudml.plan.normalization.copied import PlanDense, plan_on_copy_in_order
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.half_moments import plan_half_moments
from cudml.plan.normalization.held import plan_held
from cudml.plan.normalization.joined_columns import plan_joined_columns, plan_joined_moments
from cudml.plan.normalization.lines import plan_shared_lines
from cudml.plan.normalization.long_panels import plan_long_panels
from cudml.plan.normalization.narrow_lines import are_few_narrow
from cudml.plan.normalization.operands import Operand
from cudml.plan.normalization.output_order import (
    plan_columns_on_copy_like_output,
    plan_few_on_copy_like_output,
    plan_halves_on_copy_like_output,
    plan_narrow_on_copy_like_output,
)
from cudml.plan.normalization.own_lines import plan_own_lines, plan_own_lines_of_any
from cudml.plan.normalization.panel_tiles import plan_panel_tiles, plan_panel_tiles_of_short_pieces
from cudml.plan.normalization.panels import plan_panels
from cudml.plan.normalization.short_lines import plan_short_lines
from cudml.plan.normalization.staged_lines import plan_staged_lines
from cudml.plan.normalization.stream import plan_stream
from cudml.plan.normalization.strips import plan_turned_strips
from cudml.plan.normalization.tiled_lines import plan_tiled_lines
from cudml.plan.normalization.turned import are_few_to_turn, plan_turned
from cudml.plan.plan import Plan
from cudml.plan.spec import Moments, Normalization

#: The first that there is is taken; else tiles of lines.
_PLANS_OF_LINES = (
    plan_staged_lines,
    plan_half_moments,
    plan_own_lines,
    plan_short_lines,
    plan_bundles,
    plan_own_lines_of_any,
    plan_panel_tiles_of_short_pieces,
    plan_tiled_bundles,
    plan_panel_tiles,
    plan_clustered_lines,
    plan_shared_lines,
    plan_tiled_bundles_of_any,
    plan_stream,
)

#: The same for groups that lie side by side.
_PLANS_OF_COLUMNS = (plan_bands, plan_panels, plan_long_panels, plan_panel_tiles, plan_columns)


def plan_moments(spec: Moments, arrays: dict[str, ArrayLayout], device: DeviceProperties) -> Plan:
    """The launches that reduce `input` to `mean` and `variance`."""

    def plan_dense(copy: ArrayLayout, _: ArrayLayout | None) -> Plan:
        groups = Groups.of(spec.axes, {**arrays, "input": copy}, spec.correction)
        return _plan(groups, Normalization(spec.axes), device)

    groups = Groups.of(spec.axes, dict(arrays), spec.correction)
    of_axes = Normalization(spec.axes)
    return (
        plan_joined_moments(groups, of_axes, device)
        or plan_on_copy_in_order(spec.axes, groups, device, plan_dense)
        or _plan(groups, of_axes, device)
    )


def plan_normalization(spec: Normalization, arrays: dict[str, Operand], device: DeviceProperties) -> Plan:
    """The launches that normalize `input` into `output`; `scale` and `bias` are absent, arrays or numbers (dtypes)."""

    def plan_dense(copy: ArrayLayout, output: ArrayLayout | None) -> Plan:
        groups = Groups.of(spec.axes, {**arrays, "input": copy, "output": output})
        return _plan_of_one_reading(groups, spec, device) or _plan_in_place(groups, spec, device, plan_dense)

    groups = Groups.of(spec.axes, arrays)
    return (
        plan_joined_columns(groups, spec, device)
        or plan_on_copy_in_order(spec.axes, groups, device, plan_dense)
        or plan_narrow_on_copy_like_output(groups, device, plan_dense, lambda: _plan(groups, spec, device))
        or _plan_of_one_reading(groups, spec, device)
        or plan_halves_on_copy_like_output(groups, device, plan_dense)
        or plan_few_on_copy_like_output(groups, spec, device, plan_dense)
        or _plan_in_place(groups, spec, device, plan_dense)
    )


def _plan_of_one_reading(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """Where an array is turned; None where it is not, or cannot be read but once."""
    return plan_turned_strips(groups, spec, device) or plan_held(groups, spec, device)


def _plan_in_place(groups: Groups, spec: Normalization, device: DeviceProperties, plan_dense: PlanDense) -> Plan:
    """On no copy, but for columns that are scattered and that nothing turns."""
    if are_few_to_turn(groups, device) and (plan := _plan(groups, spec, device)).is_one_launch:
        return plan
    return (
        plan_turned(groups, spec, device, lambda groups: _plan(groups, Normalization(spec.axes), device))
        or plan_columns_on_copy_like_output(groups, device, plan_dense)
        or _plan(groups, spec, device)
    )


def _plan(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan:
    if groups.count == 0 or (groups.length == 0 and not groups.has("mean")):
        return Plan("normalization_lines.cu", (), ())
    if groups.length > 0 and groups.are_columns and not are_few_narrow(groups, device):
        plans = (plan_for(groups, spec, device) for plan_for in _PLANS_OF_COLUMNS)
        return next(plan for plan in plans if plan is not None)
    for plan_for in _PLANS_OF_LINES:
        plan = plan_for(groups, spec, device)
        if plan is not None:
            return plan
    return plan_tiled_lines(groups, spec, device)
