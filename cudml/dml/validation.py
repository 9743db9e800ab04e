"""`validate`: every documented constraint on a desc, checked without a device and without arrays.

Sources: the pages of the operators and of DML_BUFFER_TENSOR_DESC, "Using strides to express padding and memory
layout", "Using fused operators for improved performance". Where they are silent, the rule is cudml's own and its
comment says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from cudml.brief import shown
from cudml.dml.activations import ActivationDesc
from cudml.dml.enums import FeatureLevel, OperatorType
from cudml.dml.errors import Report
from cudml.dml.fields import OperatorDesc, as_float
from cudml.dml.operators import (
    CumulativeProductOperatorDesc,
    CumulativeSummationOperatorDesc,
    ElementWiseModulusTruncateOperatorDesc,
    MeanVarianceNormalization1OperatorDesc,
    MeanVarianceNormalizationOperatorDesc,
)
from cudml.dml.support import (
    CHANNEL_BROADCAST_SINCE,
    FUSED_ACTIVATIONS,
    INDEPENDENT_SCALE_AND_BIAS_SINCE,
    INTRODUCTIONS,
    SMALL_STEEPNESS_SINCE,
)
from cudml.dml.tensor import BufferTensorDesc
from cudml.dml.tensor_rules import check_equal, check_layout, check_support

_Check: TypeAlias = Callable[[Report, Any], None]
_Scan: TypeAlias = CumulativeSummationOperatorDesc | CumulativeProductOperatorDesc
_Normalization: TypeAlias = MeanVarianceNormalizationOperatorDesc | MeanVarianceNormalization1OperatorDesc

#: Numbers below it are finite as FLOAT, to which they are rounded.
_FLOAT_LIMIT = 2.0**128 - 2.0**103
_CHANNEL = 1  # of {batch, channel, height, width}


def validate(desc: OperatorDesc, feature_level: FeatureLevel) -> None:
    """Raises DescriptorError with every rule that `desc` breaks at `feature_level`; returns None when it breaks none.

    >>> from cudml.dml import BufferTensorDesc, CumulativeSummationOperatorDesc, TensorDataType
    >>> tensor = BufferTensorDesc(data_type=TensorDataType.FLOAT32, sizes=(3, 4))
    >>> desc = CumulativeSummationOperatorDesc(input_tensor=tensor, output_tensor=tensor, axis=1)
    >>> validate(desc, FeatureLevel.FL_4_0)
    >>> validate(desc, FeatureLevel.FL_2_0)
    Traceback (most recent call last):
    ...
    cudml.dml.errors.DescriptorError: CUMULATIVE_SUMMATION at feature level 2_0: feature_level is 2_0, but must be \
at least 2_1, which introduced the operator; raise the feature level.

    An activation desc is judged as one to be fused, the only way in which cudml computes it. Raises TypeError when
    `desc` is no operator desc.
    """
    check: _Check | None = _check_activation_alone if isinstance(desc, ActivationDesc) else _CHECKS.get(type(desc))
    if check is None:
        raise TypeError(f"desc is {shown(desc)}; it must be one of cudml.dml's operator descs")
    report = Report(desc.operator_type, FeatureLevel(feature_level))
    check(report, desc)
    report.raise_if_any()


def _check_scan(report: Report, desc: _Scan) -> None:
    _check_available(report)
    _check_tensors(report, desc, "input_tensor", "output_tensor")
    _check_same_sizes(report, desc, "input_tensor", "output_tensor")
    _check_axis(report, desc.axis, desc.input_tensor.dimension_count)


def _check_modulus(report: Report, desc: ElementWiseModulusTruncateOperatorDesc) -> None:
    _check_available(report)
    _check_tensors(report, desc, "a_tensor", "b_tensor", "output_tensor")
    _check_same_sizes(report, desc, "a_tensor", "b_tensor", "output_tensor")


def _check_normalization1(report: Report, desc: MeanVarianceNormalization1OperatorDesc) -> None:
    _check_normalization(report, desc)
    _check_axes(report, desc.axes, desc.input_tensor.dimension_count)
    for field in ("scale_tensor", "bias_tensor"):
        _check_channel(report, field, getattr(desc, field), desc.input_tensor)


def _check_normalization(report: Report, desc: _Normalization) -> None:
    """What both normalizations share; the older one has no rules beyond this."""
    _check_available(report)
    _check_tensors(report, desc, "input_tensor", "scale_tensor", "bias_tensor", "output_tensor")
    _check_same_sizes(report, desc, "input_tensor", "output_tensor")
    _check_scale_and_bias_presence(report, desc)
    for field in ("scale_tensor", "bias_tensor"):
        _check_broadcast(report, field, getattr(desc, field), desc.input_tensor)
    _check_epsilon(report, desc.epsilon)
    if desc.fused_activation is not None:
        _check_fused_activation(report, desc.fused_activation)


def _check_available(report: Report) -> None:
    since = INTRODUCTIONS[report.operator].since
    report.require(
        report.feature_level >= since,
        "feature_level",
        report.feature_level,
        f"must be at least {since.label}, which introduced the operator",
        "raise the feature level",
    )


def _check_tensors(report: Report, desc: OperatorDesc, *fields: str) -> None:
    """Each tensor by itself, then equal types and dimension counts."""
    for field in fields:
        tensor = getattr(desc, field)
        if tensor is not None:
            check_support(report, field, tensor)
            check_layout(report, field, tensor, is_output=field == "output_tensor")
    check_equal(report, desc, "data_type", fields, "data type")
    check_equal(report, desc, "dimension_count", fields, "dimension count")


def _check_same_sizes(report: Report, desc: OperatorDesc, reference: str, *fields: str) -> None:
    """Equal sizes; tensors with another dimension count were reported already."""
    count = getattr(desc, reference).dimension_count
    comparable = [field for field in fields if getattr(desc, field).dimension_count == count]
    check_equal(report, desc, "sizes", (reference, *comparable), "sizes")


def _check_axis(report: Report, axis: int, dimension_count: int) -> None:
    report.require(
        0 <= axis < dimension_count,
        "axis",
        axis,
        f"must be at least 0 and less than the dimension count of input_tensor, {dimension_count}",
        _axis_fix((axis,), dimension_count),
    )


def _check_axes(report: Report, axes: Sequence[int], dimension_count: int) -> None:
    """No page says what no axes or duplicate axes mean; both are refused, as they are hardly ever meant. Order has
    no meaning and is free."""
    report.require(len(axes) > 0, "axes", axes, "must name at least one axis", "name the axes of the statistics")
    report.require(len(set(axes)) == len(axes), "axes", axes, "must name each axis once", "leave out the repetition")
    report.require(
        all(0 <= axis < dimension_count for axis in axes),
        "axes",
        axes,
        f"each must be at least 0 and less than the dimension count of input_tensor, {dimension_count}",
        _axis_fix(axes, dimension_count),
    )


def _axis_fix(axes: Sequence[int], dimension_count: int) -> str:
    """Axes counted from the end, as Python allows and a UINT cannot, have a spelling that works."""
    spelled = [axis % dimension_count for axis in axes if -dimension_count <= axis < dimension_count]
    if len(spelled) == len(axes) == len(set(spelled)):
        return f"write {', '.join(map(str, spelled))}"
    return "name dimensions that input_tensor has"


def _check_scale_and_bias_presence(report: Report, desc: _Normalization) -> None:
    if report.feature_level >= INDEPENDENT_SCALE_AND_BIAS_SINCE:
        return
    for missing, present in (("scale_tensor", "bias_tensor"), ("bias_tensor", "scale_tensor")):
        report.require(
            getattr(desc, missing) is not None or getattr(desc, present) is None,
            missing,
            None,
            f"is required with {present} below feature level {INDEPENDENT_SCALE_AND_BIAS_SINCE.label}",
            f"give a tensor of {'ones' if missing == 'scale_tensor' else 'zeros'}, leave out {present}, "
            f"or raise the feature level",
        )


def _check_broadcast(report: Report, field: str, tensor: BufferTensorDesc | None, data: BufferTensorDesc) -> None:
    """Every size is the input's or 1. Tensors with another dimension count were reported already."""
    if tensor is None or tensor.dimension_count != data.dimension_count:
        return
    report.require(
        all(size in (1, full) for size, full in zip(tensor.sizes, data.sizes, strict=True)),
        f"{field}.sizes",
        tensor.sizes,
        f"every size must be 1 or that of input_tensor, {shown(data.sizes)}",
        "set the sizes to broadcast to 1",
    )


def _check_channel(report: Report, field: str, tensor: BufferTensorDesc | None, data: BufferTensorDesc) -> None:
    """Below 4_0 the channels are not broadcast. The page states this for {batch, channel, height, width}; for other
    dimension counts, which 3_1 allows, it names no channel, and none is assumed."""
    if report.feature_level >= CHANNEL_BROADCAST_SINCE or tensor is None:
        return
    if tensor.dimension_count != 4 or data.dimension_count != 4:
        return
    channels = data.sizes[_CHANNEL]
    report.require(
        tensor.sizes[_CHANNEL] != 1 or channels == 1,
        f"{field}.sizes",
        tensor.sizes,
        f"size {_CHANNEL}, the channels, must be that of input_tensor, {shown(channels)}, below feature level "
        f"{CHANNEL_BROADCAST_SINCE.label}",
        "repeat the tensor along the channels (a stride of 0 does it), or raise the feature level",
    )


def _check_epsilon(report: Report, epsilon: float) -> None:
    """No page bounds epsilon; cudml refuses what can only be a mistake. It is a FLOAT, so 1e39 is infinite."""
    report.require(
        0 <= epsilon < _FLOAT_LIMIT,
        "epsilon",
        epsilon,
        "must be a finite FLOAT that is not negative",
        "use 0.00001, which DirectML recommends",
    )


def _check_fused_activation(report: Report, activation: OperatorDesc) -> None:
    fusable = report.require(
        activation.operator_type in FUSED_ACTIVATIONS,
        "fused_activation",
        activation.operator_type,
        "must be an activation that DirectML can fuse",
        f"use one of {', '.join(_short_name(operator) for operator in FUSED_ACTIVATIONS)}",
    )
    if fusable and isinstance(activation, ActivationDesc):
        _check_activation(report, activation, "fused_activation")


def _check_activation_alone(report: Report, activation: ActivationDesc) -> None:
    _check_activation(report, activation, "")


def _check_activation(report: Report, activation: ActivationDesc, field: str) -> None:
    prefix = f"{field}." if field else ""
    since = FUSED_ACTIVATIONS[activation.operator_type].since
    report.require(
        report.feature_level >= since,
        field or "feature_level",
        activation.operator_type if field else report.feature_level,
        f"{activation.operator_type.name} must not be used below feature level {since.label}, which introduced it",
        "raise the feature level, or use another activation",
    )
    for name in ("input_tensor", "output_tensor"):
        tensor = getattr(activation, name)
        report.require(tensor is None, prefix + name, tensor, "must be None for a fused activation", "leave it out")
    if activation.operator_type is OperatorType.ACTIVATION_SOFTPLUS and report.feature_level < SMALL_STEEPNESS_SINCE:
        steepness = activation.parameters["steepness"]
        report.require(
            as_float(steepness) >= 1,
            f"{prefix}steepness",
            steepness,
            f"must be at least 1 below feature level {SMALL_STEEPNESS_SINCE.label}",
            "use 1 or more, or raise the feature level",
        )


def _short_name(operator: OperatorType) -> str:
    return operator.name.removeprefix("ACTIVATION_")


_CHECKS: dict[type, _Check] = {
    CumulativeSummationOperatorDesc: _check_scan,
    CumulativeProductOperatorDesc: _check_scan,
    ElementWiseModulusTruncateOperatorDesc: _check_modulus,
    MeanVarianceNormalizationOperatorDesc: _check_normalization,
    MeanVarianceNormalization1OperatorDesc: _check_normalization1,
}
