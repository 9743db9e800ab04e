"""Device memory: arrays that end at a forbidden page and begin behind bytes that must not change."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

_PAGE = mmap.PAGESIZE
_ALIGNMENT = 16  # of an array's first byte: the widest access of a kernel
_CANARY = 0xA5
_NO_ACCESS = 0
#: What memory holds that nobody has written: as a number of any type, one that results do not show by chance.
POISON = 0xA7

_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Allocation:
    """`nbytes` bytes; an access behind the last one faults, one before the first is noticed when it wrote."""

    def __init__(self, nbytes: int) -> None:
        room = -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        pages = -(-max(room, 1) // _PAGE) * _PAGE
        self._map = mmap.mmap(-1, pages + _PAGE)
        everything = np.frombuffer(self._map, np.uint8)
        start = everything.ctypes.data
        if _mprotect(start + pages, _PAGE, _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")
        first = pages - room
        self.bytes = everything[first : first + nbytes]
        self._before = everything[max(first - _PAGE, 0) : first]
        self._behind = everything[first + nbytes : pages]
        self._before[:] = _CANARY
        self._behind[:] = _CANARY
        self.bytes[:] = POISON
        #: One byte for each byte: whether it has a value. None where all have.
        self.written: np.ndarray | None = None

    def overrun(self) -> str | None:
        """Which side of the array was written to; None if neither."""
        if (self._before != _CANARY).any():
            return "before"
        return "behind" if (self._behind != _CANARY).any() else None


class DeviceArray(np.ndarray):
    """An array in memory of its own, or a view of one."""

    allocation: Allocation | None

    def __array_finalize__(self, parent: Any) -> None:
        self.allocation = getattr(parent, "allocation", None)


def empty(shape: tuple[int, ...], dtype: Any, *, uninitialised: bool = False) -> DeviceArray:
    """A new C-contiguous array full of poison; `uninitialised` makes the checking mode report reads before writes."""
    dtype = np.dtype(dtype)
    allocation = Allocation(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
    array = np.ndarray(shape, dtype, allocation.bytes).view(DeviceArray)
    array.allocation = allocation
    if uninitialised:
        allocation.written = np.zeros(allocation.bytes.size, np.uint8)
    return array


def device_array(values: Any, *, uninitialised: bool = False) -> DeviceArray:
    """A C-contiguous copy of `values` in memory of its own."""
    values = np.asarray(values)
    array = empty(values.shape, values.dtype, uninitialised=uninitialised)
    array[...] = values
    return array


def address_of(array: np.ndarray) -> int:
    """Where the first element lies."""
    return array.__array_interface__["data"][0]
