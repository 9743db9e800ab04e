"""DirectML's descriptors: the structs as frozen dataclasses, checked on the CPU, run on NumPy or CuPy arrays.

>>> import numpy as np
>>> from cudml.dml import BufferTensorDesc, CumulativeSummationOperatorDesc, Device, FeatureLevel, TensorDataType
>>> tensor = BufferTensorDesc(data_type=TensorDataType.FLOAT32, sizes=(1, 1, 2, 3))
>>> desc = CumulativeSummationOperatorDesc(input_tensor=tensor, output_tensor=tensor, axis=3)
>>> summation = Device(FeatureLevel.FL_2_1).create_operator(desc).compile()
>>> x = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
>>> summation(x, np.empty_like(x))
array([[[[ 0.,  1.,  3.],
         [ 3.,  7., 12.]]]], dtype=float32)
"""

from cudml.dml.activations import (
    ActivationCeluOperatorDesc,
    ActivationEluOperatorDesc,
    ActivationGeluOperatorDesc,
    ActivationHardSigmoidOperatorDesc,
    ActivationIdentityOperatorDesc,
    ActivationLeakyReluOperatorDesc,
    ActivationLinearOperatorDesc,
    ActivationParametricSoftplusOperatorDesc,
    ActivationReluOperatorDesc,
    ActivationScaledEluOperatorDesc,
    ActivationScaledTanhOperatorDesc,
    ActivationShrinkOperatorDesc,
    ActivationSigmoidOperatorDesc,
    ActivationSoftplusOperatorDesc,
    ActivationSoftsignOperatorDesc,
    ActivationTanhOperatorDesc,
    ActivationThresholdedReluOperatorDesc,
)
from cudml.dml.device import CompiledOperator, Device, Operator
from cudml.dml.enums import (
    LATEST_FEATURE_LEVEL,
    TENSOR_DIMENSION_COUNT_MAX,
    TENSOR_DIMENSION_COUNT_MAX1,
    AxisDirection,
    FeatureLevel,
    OperatorType,
    TensorDataType,
    TensorFlags,
)
from cudml.dml.errors import DescriptorError, Violation
from cudml.dml.operators import (
    CumulativeProductOperatorDesc,
    CumulativeSummationOperatorDesc,
    ElementWiseModulusTruncateOperatorDesc,
    MeanVarianceNormalization1OperatorDesc,
    MeanVarianceNormalizationOperatorDesc,
)
from cudml.dml.tensor import BufferTensorDesc, calc_buffer_tensor_size
from cudml.dml.validation import validate

__all__ = [
    "LATEST_FEATURE_LEVEL",
    "TENSOR_DIMENSION_COUNT_MAX",
    "TENSOR_DIMENSION_COUNT_MAX1",
    "ActivationCeluOperatorDesc",
    "ActivationEluOperatorDesc",
    "ActivationGeluOperatorDesc",
    "ActivationHardSigmoidOperatorDesc",
    "ActivationIdentityOperatorDesc",
    "ActivationLeakyReluOperatorDesc",
    "ActivationLinearOperatorDesc",
    "ActivationParametricSoftplusOperatorDesc",
    "ActivationReluOperatorDesc",
    "ActivationScaledEluOperatorDesc",
    "ActivationScaledTanhOperatorDesc",
    "ActivationShrinkOperatorDesc",
    "ActivationSigmoidOperatorDesc",
    "ActivationSoftplusOperatorDesc",
    "ActivationSoftsignOperatorDesc",
    "ActivationTanhOperatorDesc",
    "ActivationThresholdedReluOperatorDesc",
    "AxisDirection",
    "BufferTensorDesc",
    "CompiledOperator",
    "CumulativeProductOperatorDesc",
    "CumulativeSummationOperatorDesc",
    "DescriptorError",
    "Device",
    "ElementWiseModulusTruncateOperatorDesc",
    "FeatureLevel",
    "MeanVarianceNormalization1OperatorDesc",
    "MeanVarianceNormalizationOperatorDesc",
    "Operator",
    "OperatorType",
    "TensorDataType",
    "TensorFlags",
    "Violation",
    "calc_buffer_tensor_size",
    "validate",
]
