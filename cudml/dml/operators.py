"""The operator descs: DirectML's structs as frozen dataclasses, built by keyword, in the order of their members.

Fields without a default have none in DirectML either. AxisDirection and the BOOLs of the cumulative operators default
to what a zeroed struct holds, epsilon to the value that its page recommends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from cudml.dml.enums import AxisDirection, OperatorType
from cudml.dml.fields import (
    OperatorDesc,
    boolean,
    instance_of,
    integer,
    integers,
    member_of,
    number,
    optional,
    taken_as,
)
from cudml.dml.tensor import BufferTensorDesc

_TENSOR = taken_as(instance_of(BufferTensorDesc))
_OPTIONAL_TENSOR = taken_as(optional(instance_of(BufferTensorDesc)))
_ACTIVATION = "None or the desc of an activation, for example ActivationReluOperatorDesc()"
_OPTIONAL_OPERATOR = taken_as(optional(instance_of(OperatorDesc, _ACTIVATION)))
_DIRECTION = taken_as(member_of(AxisDirection, "AxisDirection.INCREASING"))


@dataclass(frozen=True, kw_only=True)
class CumulativeSummationOperatorDesc(OperatorDesc):
    """DML_CUMULATIVE_SUMMATION_OPERATOR_DESC: running sums along an axis.

    >>> from cudml.dml import BufferTensorDesc, TensorDataType
    >>> tensor = BufferTensorDesc(data_type=TensorDataType.FLOAT32, sizes=(1, 1, 3, 4))
    >>> CumulativeSummationOperatorDesc(input_tensor=tensor, output_tensor=tensor, axis=3).axis_direction.name
    'INCREASING'

    An exclusive sum leaves out the element itself: it starts, in the direction of traversal, with 0.
    """

    operator_type: ClassVar = OperatorType.CUMULATIVE_SUMMATION

    input_tensor: BufferTensorDesc = field(metadata=_TENSOR)
    output_tensor: BufferTensorDesc = field(metadata=_TENSOR)
    axis: int = field(metadata=taken_as(integer))
    axis_direction: AxisDirection = field(default=AxisDirection.INCREASING, metadata=_DIRECTION)
    has_exclusive_sum: bool = field(default=False, metadata=taken_as(boolean))


@dataclass(frozen=True, kw_only=True)
class CumulativeProductOperatorDesc(OperatorDesc):
    """DML_CUMULATIVE_PRODUCT_OPERATOR_DESC: running products along an axis.

    >>> from cudml.dml import BufferTensorDesc, TensorDataType
    >>> tensor = BufferTensorDesc(data_type=TensorDataType.INT32, sizes=(2, 5))
    >>> CumulativeProductOperatorDesc(input_tensor=tensor, output_tensor=tensor, axis=1).has_exclusive_product
    False

    An exclusive product leaves out the element itself: it starts, in the direction of traversal, with 1.
    """

    operator_type: ClassVar = OperatorType.CUMULATIVE_PRODUCT

    input_tensor: BufferTensorDesc = field(metadata=_TENSOR)
    output_tensor: BufferTensorDesc = field(metadata=_TENSOR)
    axis: int = field(metadata=taken_as(integer))
    axis_direction: AxisDirection = field(default=AxisDirection.INCREASING, metadata=_DIRECTION)
    has_exclusive_product: bool = field(default=False, metadata=taken_as(boolean))


@dataclass(frozen=True, kw_only=True)
class MeanVarianceNormalization1OperatorDesc(OperatorDesc):
    """DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC: normalization over the given axes.

    >>> from cudml.dml import BufferTensorDesc, TensorDataType
    >>> tensor = BufferTensorDesc(data_type=TensorDataType.FLOAT16, sizes=(2, 3, 8, 8))
    >>> desc = MeanVarianceNormalization1OperatorDesc(
    ...     input_tensor=tensor, output_tensor=tensor, axes=[2, 3], normalize_variance=True, epsilon=1e-5
    ... )
    >>> desc.axes
    (2, 3)

    Computes fused_activation(scale * (input - mean) / sqrt(variance + epsilon) + bias), without the division where
    `normalize_variance` is False. AxisCount follows from `axes`.
    """

    operator_type: ClassVar = OperatorType.MEAN_VARIANCE_NORMALIZATION1

    input_tensor: BufferTensorDesc = field(metadata=_TENSOR)
    scale_tensor: BufferTensorDesc | None = field(default=None, metadata=_OPTIONAL_TENSOR)
    bias_tensor: BufferTensorDesc | None = field(default=None, metadata=_OPTIONAL_TENSOR)
    output_tensor: BufferTensorDesc = field(metadata=_TENSOR)
    axes: tuple[int, ...] = field(metadata=taken_as(integers))
    normalize_variance: bool = field(metadata=taken_as(boolean))
    epsilon: float = field(default=1e-5, metadata=taken_as(number))
    fused_activation: OperatorDesc | None = field(default=None, metadata=_OPTIONAL_OPERATOR)


@dataclass(frozen=True, kw_only=True)
class MeanVarianceNormalizationOperatorDesc(OperatorDesc):
    """DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC: the older normalization of {batch, channel, height, width}.

    >>> from cudml.dml import BufferTensorDesc, TensorDataType
    >>> tensor = BufferTensorDesc(data_type=TensorDataType.FLOAT16, sizes=(2, 3, 8, 8))
    >>> desc = MeanVarianceNormalizationOperatorDesc(
    ...     input_tensor=tensor, output_tensor=tensor, cross_channel=False, normalize_variance=True, epsilon=1e-5
    ... )
    >>> desc.as_mean_variance_normalization1().axes
    (2, 3)

    `cross_channel` takes the statistics over channel, height and width together, otherwise over height and width.
    """

    operator_type: ClassVar = OperatorType.MEAN_VARIANCE_NORMALIZATION

    input_tensor: BufferTensorDesc = field(metadata=_TENSOR)
    scale_tensor: BufferTensorDesc | None = field(default=None, metadata=_OPTIONAL_TENSOR)
    bias_tensor: BufferTensorDesc | None = field(default=None, metadata=_OPTIONAL_TENSOR)
    output_tensor: BufferTensorDesc = field(metadata=_TENSOR)
    cross_channel: bool = field(metadata=taken_as(boolean))
    normalize_variance: bool = field(metadata=taken_as(boolean))
    epsilon: float = field(default=1e-5, metadata=taken_as(number))
    fused_activation: OperatorDesc | None = field(default=None, metadata=_OPTIONAL_OPERATOR)

    def as_mean_variance_normalization1(self) -> MeanVarianceNormalization1OperatorDesc:
        """The same computation over explicit axes.

        Older revisions of the MEAN_VARIANCE_NORMALIZATION1 page equate CrossChannel FALSE with the axes {0, 2, 3};
        this desc's own page ("across axes {Height, Width}") and the newer revisions say {2, 3}.
        """
        return MeanVarianceNormalization1OperatorDesc(
            input_tensor=self.input_tensor,
            scale_tensor=self.scale_tensor,
            bias_tensor=self.bias_tensor,
            output_tensor=self.output_tensor,
            axes=(1, 2, 3) if self.cross_channel else (2, 3),
            normalize_variance=self.normalize_variance,
            epsilon=self.epsilon,
            fused_activation=self.fused_activation,
        )


@dataclass(frozen=True, kw_only=True)
class ElementWiseModulusTruncateOperatorDesc(OperatorDesc):
    """DML_ELEMENT_WISE_MODULUS_TRUNCATE_OPERATOR_DESC: C's modulus, with the sign of the dividend.

    >>> from cudml.dml import BufferTensorDesc, TensorDataType
    >>> a = BufferTensorDesc(data_type=TensorDataType.INT32, sizes=(4, 5))
    >>> b = BufferTensorDesc(data_type=TensorDataType.INT32, sizes=(4, 5), strides=(0, 1))
    >>> ElementWiseModulusTruncateOperatorDesc(a_tensor=a, b_tensor=b, output_tensor=a).b_tensor.strides
    (0, 1)

    All sizes are equal; an operand is broadcast by strides of 0.
    """

    operator_type: ClassVar = OperatorType.ELEMENT_WISE_MODULUS_TRUNCATE

    a_tensor: BufferTensorDesc = field(metadata=_TENSOR)
    b_tensor: BufferTensorDesc = field(metadata=_TENSOR)
    output_tensor: BufferTensorDesc = field(metadata=_TENSOR)
