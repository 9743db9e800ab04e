"""DirectML's enumerations and constants, with the values of directml.h and the names without their prefix."""

from __future__ import annotations

from enum import IntEnum, IntFlag

import numpy as np

from cudml.brief import shown

#: Most dimensions of a tensor below feature level 3_0 (DML_TENSOR_DIMENSION_COUNT_MAX) and from it (..._MAX1).
TENSOR_DIMENSION_COUNT_MAX = 5
TENSOR_DIMENSION_COUNT_MAX1 = 8
#: The limit of a UINT: sizes, strides, axes, and the number of elements of a tensor.
UINT32_MAX = 2**32 - 1
#: The limit of a UINT64: TotalTensorSizeInBytes.
UINT64_MAX = 2**64 - 1


class TensorDataType(IntEnum):
    """DML_TENSOR_DATA_TYPE.

    >>> TensorDataType.FLOAT16.bits, TensorDataType.FLOAT16.dtype
    (16, dtype('float16'))
    >>> TensorDataType.from_dtype("int64")
    <TensorDataType.INT64: 11>
    """

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    @property
    def bits(self) -> int:
        """Size of an element in bits: the number in the name, 0 for UNKNOWN."""
        return int("0" + self.name.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type of the same meaning; TypeError for UNKNOWN and the 4-bit types, which NumPy does not have."""
        if self.bits < 8:
            raise TypeError(f"NumPy has no type for TensorDataType.{self.name}")
        return np.dtype(self.name.lower())

    @classmethod
    def from_dtype(cls, dtype: np.typing.DTypeLike) -> TensorDataType:
        """The type of the same meaning as a NumPy dtype; TypeError where there is none (bool, complex, bfloat16)."""
        name = np.dtype(dtype).name.upper()
        if name not in cls.__members__:
            raise TypeError(f"dtype is {np.dtype(dtype)}; DirectML has no tensor data type for it")
        return cls[name]


class TensorFlags(IntFlag):
    """DML_TENSOR_FLAGS."""

    NONE = 0
    OWNED_BY_DML = 1


class AxisDirection(IntEnum):
    """DML_AXIS_DIRECTION: the order of traversal along an axis."""

    INCREASING = 0
    DECREASING = 1


class FeatureLevel(IntEnum):
    """DML_FEATURE_LEVEL; each is a superset of the ones before it."""

    FL_1_0 = 0x1000
    FL_2_0 = 0x2000
    FL_2_1 = 0x2100
    FL_3_0 = 0x3000
    FL_3_1 = 0x3100
    FL_4_0 = 0x4000
    FL_4_1 = 0x4100
    FL_5_0 = 0x5000
    FL_5_1 = 0x5100
    FL_5_2 = 0x5200
    FL_6_0 = 0x6000
    FL_6_1 = 0x6100
    FL_6_2 = 0x6200
    FL_6_3 = 0x6300
    FL_6_4 = 0x6400

    @property
    def label(self) -> str:
        """The level as text writes it, for example "5_0"."""
        return self.name.removeprefix("FL_")

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(f"feature_level is {shown(value)}; it must be a member of FeatureLevel, for example FL_5_0")


LATEST_FEATURE_LEVEL = max(FeatureLevel)


class OperatorType(IntEnum):
    """DML_OPERATOR_TYPE, as far as cudml has descs for it."""

    ACTIVATION_ELU = 35
    ACTIVATION_HARD_SIGMOID = 37
    ACTIVATION_IDENTITY = 38
    ACTIVATION_LEAKY_RELU = 39
    ACTIVATION_LINEAR = 40
    ACTIVATION_PARAMETRIC_SOFTPLUS = 43
    ACTIVATION_RELU = 44
    ACTIVATION_SCALED_ELU = 45
    ACTIVATION_SCALED_TANH = 46
    ACTIVATION_SIGMOID = 47
    ACTIVATION_SOFTPLUS = 49
    ACTIVATION_SOFTSIGN = 50
    ACTIVATION_TANH = 51
    ACTIVATION_THRESHOLDED_RELU = 52
    MEAN_VARIANCE_NORMALIZATION = 73
    ACTIVATION_SHRINK = 90
    ELEMENT_WISE_MODULUS_TRUNCATE = 101
    CUMULATIVE_SUMMATION = 105
    MEAN_VARIANCE_NORMALIZATION1 = 115
    ACTIVATION_CELU = 128
    CUMULATIVE_PRODUCT = 145
    ACTIVATION_GELU = 157
