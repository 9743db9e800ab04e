"""DML_BUFFER_TENSOR_DESC and the size of the buffer that it implies.

Sources: the pages DML_BUFFER_TENSOR_DESC, "Using strides to express padding and memory layout" and "DirectML helper
functions" (DMLCalcBufferTensorSize).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from cudml.brief import shown
from cudml.dml.enums import TENSOR_DIMENSION_COUNT_MAX1, TensorDataType, TensorFlags
from cudml.dml.fields import Desc, integer, integers, member_of, optional, taken_as


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a contiguous row-major tensor.

    >>> packed_strides((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


def elements_spanned(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Number of elements from the first to the last that a tensor touches, both included; 0 if a size is 0."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def calc_buffer_tensor_size(
    data_type: TensorDataType, sizes: Sequence[int], strides: Sequence[int] | None = None
) -> int:
    """Smallest buffer in bytes, a multiple of 4, that holds a tensor; 0 for TensorDataType.UNKNOWN.

    >>> calc_buffer_tensor_size(TensorDataType.FLOAT16, (1, 1, 3, 3))
    20
    >>> calc_buffer_tensor_size(TensorDataType.FLOAT32, (2, 3), strides=(8, 1))
    44

    Strides count elements; None means packed. This is DirectML's DMLCalcBufferTensorSize in its newer form, which
    counts bits and so handles 4-bit types too. The original indexes with 32-bit integers, which can wrap around;
    here nothing wraps. Raises TypeError for values of the wrong Python type, and ValueError when there are not as many
    strides as sizes.
    """
    data_type, sizes = _data_type("data_type", data_type), integers("sizes", sizes)
    strides = optional(integers)("strides", strides)
    if strides is not None and len(strides) != len(sizes):
        raise ValueError(f"strides is {shown(strides)}; it must have one entry for each of the {len(sizes)} sizes")
    elements = prod(sizes) if strides is None else elements_spanned(sizes, strides)
    dwords = -(-elements * data_type.bits // 32)
    return 4 * dwords


_data_type = member_of(TensorDataType, "TensorDataType.FLOAT32 or TensorDataType.from_dtype(array.dtype)")

_DATA_TYPE = taken_as(_data_type)
_FLAGS = taken_as(member_of(TensorFlags, "TensorFlags.OWNED_BY_DML"))


@dataclass(frozen=True, kw_only=True)
class BufferTensorDesc(Desc):
    """DML_BUFFER_TENSOR_DESC: type and layout of a tensor, built by keyword.

    >>> desc = BufferTensorDesc(data_type=TensorDataType.FLOAT32, sizes=(1, 1, 3, 4))
    >>> desc.dimension_count, desc.total_tensor_size_in_bytes
    (4, 48)

    DimensionCount follows from `sizes`. Raises TypeError for values of the wrong Python type; whether the values make
    sense is for `validate` to say, since that depends on the operator and the feature level.
    """

    data_type: TensorDataType = field(metadata=_DATA_TYPE)
    flags: TensorFlags = field(default=TensorFlags.NONE, metadata=_FLAGS)
    sizes: tuple[int, ...] = field(metadata=taken_as(integers))
    strides: tuple[int, ...] | None = field(default=None, metadata=taken_as(optional(integers)))
    """In elements; None means packed, 0 repeats the tensor along that dimension."""
    total_tensor_size_in_bytes: int = field(default=None, metadata=taken_as(optional(integer)))  # type: ignore[assignment]
    """None on construction takes what `calc_buffer_tensor_size` says."""
    guaranteed_base_offset_alignment: int = field(default=0, metadata=taken_as(integer))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.total_tensor_size_in_bytes is None:
            object.__setattr__(self, "total_tensor_size_in_bytes", self.implied_size_in_bytes)

    @property
    def dimension_count(self) -> int:
        return len(self.sizes)

    @property
    def element_strides(self) -> tuple[int, ...]:
        """The strides, written out where they are None."""
        return packed_strides(self.sizes) if self.strides is None else self.strides

    @property
    def implied_size_in_bytes(self) -> int:
        """What `calc_buffer_tensor_size` says; 0 while the strides do not fit the sizes, or there are more of these
        than any operator takes: who passes an array in place of its shape need not wait for their product."""
        has_other_strides = self.strides is not None and len(self.strides) != len(self.sizes)
        if has_other_strides or self.dimension_count > TENSOR_DIMENSION_COUNT_MAX1:
            return 0
        return calc_buffer_tensor_size(self.data_type, self.sizes, self.strides)
