"""From a desc to what a backend runs: the spec, and which tensor is which of its arrays.

DirectML's meaning: the output has the input's type, integers wrap, DECREASING traverses in reverse.
"""

from __future__ import annotations

from typing import NamedTuple

from cudml.brief import shown
from cudml.dml.activations import ActivationDesc
from cudml.dml.enums import AxisDirection
from cudml.dml.fields import OperatorDesc, as_float
from cudml.dml.operators import (
    CumulativeProductOperatorDesc,
    CumulativeSummationOperatorDesc,
    ElementWiseModulusTruncateOperatorDesc,
    MeanVarianceNormalization1OperatorDesc,
    MeanVarianceNormalizationOperatorDesc,
)
from cudml.plan.activation import Activation
from cudml.plan.spec import Modulus, Normalization, Operation, Scan, Spec


class Lowered(NamedTuple):
    """A spec, and the spec's array for each tensor field, in the order of binding: inputs, then the output."""

    spec: Spec
    arrays: dict[str, str]


def lower(desc: OperatorDesc) -> Lowered:
    """The computation that a valid desc means; TypeError where cudml has none for it by itself."""
    if isinstance(desc, CumulativeSummationOperatorDesc):
        return _lower_scan(desc, "sum", desc.has_exclusive_sum)
    if isinstance(desc, CumulativeProductOperatorDesc):
        return _lower_scan(desc, "product", desc.has_exclusive_product)
    if isinstance(desc, ElementWiseModulusTruncateOperatorDesc):
        arrays = {"a_tensor": "dividend", "b_tensor": "divisor", "output_tensor": "output"}
        return Lowered(Modulus(desc.output_tensor.data_type.dtype), arrays)
    if isinstance(desc, MeanVarianceNormalizationOperatorDesc):
        return _lower_normalization(desc.as_mean_variance_normalization1())
    if isinstance(desc, MeanVarianceNormalization1OperatorDesc):
        return _lower_normalization(desc)
    raise TypeError(f"desc is {shown(desc)}; cudml computes an activation only as another operator's fused_activation")


def _lower_scan(
    desc: CumulativeSummationOperatorDesc | CumulativeProductOperatorDesc, operation: Operation, exclusive: bool
) -> Lowered:
    spec = Scan(
        operation=operation,
        dtype=desc.input_tensor.data_type.dtype,
        axis=desc.axis,
        reverse=desc.axis_direction is AxisDirection.DECREASING,
        exclusive=exclusive,
    )
    return Lowered(spec, {"input_tensor": "input", "output_tensor": "output"})


def _lower_activation(desc: ActivationDesc) -> Activation:
    """Parameters are FLOATs: x > alpha is asked of alpha in that precision."""
    activation = desc.activation
    return activation._replace(parameters=tuple(as_float(number) for number in activation.parameters))


def _lower_normalization(desc: MeanVarianceNormalization1OperatorDesc) -> Lowered:
    activation = desc.fused_activation
    spec = Normalization(
        axes=tuple(sorted(desc.axes)),
        normalize_variance=desc.normalize_variance,
        epsilon=desc.epsilon,
        activation=_lower_activation(activation) if isinstance(activation, ActivationDesc) else None,
    )
    arrays = {"input_tensor": "input", "scale_tensor": "scale", "bias_tensor": "bias", "output_tensor": "output"}
    return Lowered(spec, arrays)
