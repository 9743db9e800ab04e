"""Checks arrays against tensor descs when a compiled operator is called.

Everything that depends on the desc alone is computed once, in `Slot.of`. DirectML's rules for bindings are on the
pages of IDMLBindingTable::BindInputs and BindOutputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cudml.brief import shown
from cudml.dml.enums import TensorFlags
from cudml.dml.tensor import BufferTensorDesc, elements_spanned
from cudml.memory import shares_its_memory
from cudml.plan.layout import VECTOR_BYTES


@dataclass(frozen=True, slots=True)
class Slot:
    """One position of a call: what may be bound there."""

    field: str
    """Name in the desc, used in messages."""
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes."""
    span: int
    """Bytes from the first element to the end of the last."""
    alignment: int
    is_owned: bool

    @classmethod
    def of(cls, field: str, tensor: BufferTensorDesc) -> Slot:
        dtype = tensor.data_type.dtype
        return cls(
            field=field,
            dtype=dtype,
            shape=tensor.sizes,
            strides=tuple(stride * dtype.itemsize for stride in tensor.element_strides),
            span=elements_spanned(tensor.sizes, tensor.element_strides) * dtype.itemsize,
            alignment=tensor.guaranteed_base_offset_alignment,
            is_owned=bool(tensor.flags & TensorFlags.OWNED_BY_DML),
        )

    @property
    def is_known_by_form(self) -> bool:
        """Whether its shape, strides and alignment to VECTOR_BYTES tell that an array may be bound."""
        return VECTOR_BYTES % max(self.alignment, 1) == 0

    def check(self, array: Any) -> int:
        """The array's address; raises TypeError for another dtype, ValueError for anything else that does not fit."""
        if array.dtype != self.dtype:
            raise TypeError(f"{self.field} is an array of {array.dtype}; its desc says {self.dtype}")
        if array.shape != self.shape:
            raise ValueError(f"{self.field} is an array of shape {array.shape}; its desc says {self.shape}")
        if array.strides != self.strides and not _same_strides(array.strides, self.strides, self.shape):
            raise ValueError(
                f"{self.field} is an array with strides of {array.strides} bytes; its desc says {self.strides}; "
                f"copy the array into that layout, or give its strides to the desc"
            )
        address = _address(array)
        if self.alignment and address % self.alignment:
            raise ValueError(
                f"{self.field} starts at address {address:#x}; its desc guarantees a multiple of {self.alignment}"
            )
        return address


def require_array(field: str, value: Any) -> None:
    """Raises TypeError unless `value` shares its memory; lists and scalars would be copied, and results lost."""
    if not isinstance(value, np.ndarray) and not shares_its_memory(value):
        raise TypeError(f"{field} is {shown(value)}; it must be an array that its desc describes")


def require_writeable(field: str, value: Any, array: Any) -> None:
    """Raises ValueError where `value`, or the backend's `array` on its memory, says that it is read-only."""
    if isinstance(value, np.ndarray):
        read_only = not value.flags.writeable
    elif _is_cupy(value):
        read_only = False
    else:
        interface = getattr(value, "__cuda_array_interface__", None) or getattr(value, "__array_interface__", None)
        read_only = interface is not None and interface["data"][1]
        read_only |= isinstance(array, np.ndarray) and not array.flags.writeable
    if read_only:
        raise ValueError(f"{field} is read-only; bind an array that can be written")


def check_aliasing(source: Slot, source_address: int, output: Slot, output_address: int, *, in_place: bool) -> None:
    """Raises ValueError when input and output overlap, unless the operator may work in place and they coincide.

    That their strides must be equal too is cudml's rule; DirectML's pages do not say.
    """
    if source_address + source.span <= output_address or output_address + output.span <= source_address:
        return
    coincide = source_address == output_address and source.span == output.span
    if in_place and coincide and _same_strides(source.strides, output.strides, output.shape):
        return
    reason = (
        "the operator does not work in place"
        if not in_place
        else "their strides differ"
        if coincide
        else "only identical ranges may be shared"
    )
    raise ValueError(f"{output.field} overlaps {source.field} in memory, and {reason}; bind another output array")


def _same_strides(strides: Sequence[int], expected: Sequence[int], shape: Sequence[int]) -> bool:
    """Equal where they matter: a dimension of size 1 is never stepped along."""
    return all(s == e or size == 1 for s, e, size in zip(strides, expected, shape, strict=True))


def _address(array: Any) -> int:
    """Address of the first element."""
    if _is_cupy(array):
        return array.data.ptr
    return array.__array_interface__["data"][0]


def _is_cupy(array: Any) -> bool:
    """Told without importing CuPy; its own attributes are several times quicker than `__cuda_array_interface__`."""
    return not isinstance(array, np.ndarray) and hasattr(getattr(array, "data", None), "ptr")
