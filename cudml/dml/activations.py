"""The 17 activations that can be fused into a normalization: one desc for each, parameters in the structs' order.

Defaults are the typical ones that the DML_ACTIVATION_*_OPERATOR_DESC pages name; where a page rounds them (scaled
ELU), DirectMLX's unrounded values. LINEAR and PARAMETRIC_SOFTPLUS have none, so their parameters are required.
Formulas are the pages'.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import ClassVar

from cudml.dml.enums import OperatorType
from cudml.dml.fields import OperatorDesc, instance_of, number, optional, taken_as
from cudml.dml.tensor import BufferTensorDesc
from cudml.plan.activation import PARAMETERS, Activation

_OPTIONAL_TENSOR = taken_as(optional(instance_of(BufferTensorDesc)))
_FLOAT = taken_as(number)


@dataclass(frozen=True, kw_only=True)
class ActivationDesc(OperatorDesc):
    """What the activation descs share.

    >>> ActivationLeakyReluOperatorDesc(alpha=0.2).activation
    Activation(name='leaky_relu', parameters=(0.2,))

    A fused activation has no tensors of its own: both stay None.
    """

    input_tensor: BufferTensorDesc | None = field(default=None, metadata=_OPTIONAL_TENSOR)
    output_tensor: BufferTensorDesc | None = field(default=None, metadata=_OPTIONAL_TENSOR)

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters by name, in the struct's order."""
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.name.endswith("_tensor")}

    @cached_property
    def activation(self) -> Activation:
        """What cudml's normalizations take as `activation`."""
        name = self.operator_type.name.removeprefix("ACTIVATION_").lower()
        return Activation(name, tuple(self.parameters[parameter] for parameter in PARAMETERS[name]))


@dataclass(frozen=True, kw_only=True)
class ActivationCeluOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_CELU_OPERATOR_DESC: max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""

    operator_type: ClassVar = OperatorType.ACTIVATION_CELU

    alpha: float = field(default=1.0, metadata=_FLOAT)


@dataclass(frozen=True, kw_only=True)
class ActivationEluOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_ELU_OPERATOR_DESC: x where x >= 0, else alpha * (exp(x) - 1)."""

    operator_type: ClassVar = OperatorType.ACTIVATION_ELU

    alpha: float = field(default=1.0, metadata=_FLOAT)


@dataclass(frozen=True, kw_only=True)
class ActivationGeluOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_GELU_OPERATOR_DESC: x / 2 * (1 + erf(x / sqrt(2)))."""

    operator_type: ClassVar = OperatorType.ACTIVATION_GELU


@dataclass(frozen=True, kw_only=True)
class ActivationHardSigmoidOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_HARD_SIGMOID_OPERATOR_DESC: max(0, min(alpha * x + beta, 1))."""

    operator_type: ClassVar = OperatorType.ACTIVATION_HARD_SIGMOID

    alpha: float = field(default=0.2, metadata=_FLOAT)
    beta: float = field(default=0.5, metadata=_FLOAT)


@dataclass(frozen=True, kw_only=True)
class ActivationIdentityOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_IDENTITY_OPERATOR_DESC: x."""

    operator_type: ClassVar = OperatorType.ACTIVATION_IDENTITY


@dataclass(frozen=True, kw_only=True)
class ActivationLeakyReluOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_LEAKY_RELU_OPERATOR_DESC: x where x >= 0, else alpha * x."""

    operator_type: ClassVar = OperatorType.ACTIVATION_LEAKY_RELU

    alpha: float = field(default=0.01, metadata=_FLOAT)


@dataclass(frozen=True, kw_only=True)
class ActivationLinearOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_LINEAR_OPERATOR_DESC: alpha * x + beta."""

    operator_type: ClassVar = OperatorType.ACTIVATION_LINEAR

    alpha: float = field(metadata=_FLOAT)
    beta: float = field(metadata=_FLOAT)


@dataclass(frozen=True, kw_only=True)
class ActivationParametricSoftplusOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_PARAMETRIC_SOFTPLUS_OPERATOR_DESC: alpha * ln(1 + exp(beta * x))."""

    operator_type: ClassVar = OperatorType.ACTIVATION_PARAMETRIC_SOFTPLUS

    alpha: float = field(metadata=_FLOAT)
    beta: float = field(metadata=_FLOAT)


@dataclass(frozen=True, kw_only=True)
class ActivationReluOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_RELU_OPERATOR_DESC: max(0, x)."""

    operator_type: ClassVar = OperatorType.ACTIVATION_RELU


@dataclass(frozen=True, kw_only=True)
class ActivationScaledEluOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_SCALED_ELU_OPERATOR_DESC: gamma * x where x > 0, else gamma * (alpha * exp(x) - alpha)."""

    operator_type: ClassVar = OperatorType.ACTIVATION_SCALED_ELU

    alpha: float = field(default=1.67326319217681884765625, metadata=_FLOAT)
    gamma: float = field(default=1.05070102214813232421875, metadata=_FLOAT)


@dataclass(frozen=True, kw_only=True)
class ActivationScaledTanhOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_SCALED_TANH_OPERATOR_DESC: alpha * tanh(beta * x)."""

    operator_type: ClassVar = OperatorType.ACTIVATION_SCALED_TANH

    alpha: float = field(default=1.0, metadata=_FLOAT)
    beta: float = field(default=0.5, metadata=_FLOAT)


@dataclass(frozen=True, kw_only=True)
class ActivationShrinkOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_SHRINK_OPERATOR_DESC: x - bias where x > threshold, x + bias where x < -threshold, else 0."""

    operator_type: ClassVar = OperatorType.ACTIVATION_SHRINK

    bias: float = field(default=0.0, metadata=_FLOAT)
    threshold: float = field(default=0.5, metadata=_FLOAT)


@dataclass(frozen=True, kw_only=True)
class ActivationSigmoidOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_SIGMOID_OPERATOR_DESC: 1 / (1 + exp(-x))."""

    operator_type: ClassVar = OperatorType.ACTIVATION_SIGMOID


@dataclass(frozen=True, kw_only=True)
class ActivationSoftplusOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_SOFTPLUS_OPERATOR_DESC: ln(1 + exp(steepness * x)) / steepness.

    Below feature level 6_4 steepness is at least 1.
    """

    operator_type: ClassVar = OperatorType.ACTIVATION_SOFTPLUS

    steepness: float = field(default=1.0, metadata=_FLOAT)


@dataclass(frozen=True, kw_only=True)
class ActivationSoftsignOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_SOFTSIGN_OPERATOR_DESC: x / (1 + abs(x))."""

    operator_type: ClassVar = OperatorType.ACTIVATION_SOFTSIGN


@dataclass(frozen=True, kw_only=True)
class ActivationTanhOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_TANH_OPERATOR_DESC: tanh(x)."""

    operator_type: ClassVar = OperatorType.ACTIVATION_TANH


@dataclass(frozen=True, kw_only=True)
class ActivationThresholdedReluOperatorDesc(ActivationDesc):
    """DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC: x where x > alpha, else 0."""

    operator_type: ClassVar = OperatorType.ACTIVATION_THRESHOLDED_RELU

    alpha: float = field(default=1.0, metadata=_FLOAT)
