"""Offsets of segments: the rule they keep, and a memory of device arrays that were found to keep it."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from cudml.arguments import kind_of
from cudml.backend import Backend, backend_of


class CheckedOffsets:
    """Remembers by identity which arrays were checked, and for which length, as long as they live.

    A device array is read back only once: later calls with the same object trust that its contents still keep the rule.
    The kernels stay inside their arrays whatever the offsets hold. What lies on the host is checked in every call.
    """

    def __init__(self) -> None:
        self._lengths: dict[int, tuple[weakref.ref, int]] = {}

    def __contains__(self, key: tuple[Any, int | None]) -> bool:
        array, length = key
        reference, checked_length = self._lengths.get(id(array), (None, -1))
        return reference is not None and reference() is array and checked_length == length

    def add(self, array: Any, length: int) -> None:
        """Remembers `array`; one that cannot be weakly referenced is checked in every call."""
        name = id(array)
        try:
            reference = weakref.ref(array, lambda _: self._lengths.pop(name, None))
        except TypeError:
            return
        self._lengths[name] = reference, length


_CHECKED = CheckedOffsets()


def are_checked(offsets: Any, a: Any) -> bool:
    """Whether offsets were found to cut `a` into segments, as device arrays are remembered to have been."""
    return (offsets, getattr(a, "size", None)) in _CHECKED


def is_on_host(offsets: Any) -> bool:
    """Whether offsets may accompany an array of any backend, because they are checked and converted on the host."""
    on_host = isinstance(offsets, (list, tuple, range, np.ndarray))
    return on_host and backend_of(offsets=offsets).name == "cpu"


def as_offsets(backend: Backend, offsets: Any, a: Any) -> Any:
    """`offsets` as an array of `backend`, where `a` is, after the check that they cut its elements into segments."""
    length = a.shape[0]
    if is_on_host(offsets):
        host = _host_array(offsets, length)
        _check_form(host)
        check_offsets(host, length)
        return backend.asarray(host.astype(np.int64, copy=False), a)
    array = backend.asarray(offsets)
    _check_form(array)
    if backend.name == "cpu":
        check_offsets(array, length)
    elif (offsets, length) not in _CHECKED:
        read_back = backend.to_host(array)
        if read_back is not None:
            check_offsets(read_back, length)
            _CHECKED.add(offsets, length)
    return array


def _host_array(offsets: Any, length: int) -> np.ndarray:
    """NumPy makes floats of a list with signed and unsigned 64-bit integers, and objects of one with larger ones."""
    host = np.asarray(offsets)
    is_list = isinstance(offsets, (list, tuple)) and host.ndim == 1 and host.size > 0
    if not is_list or not all(isinstance(entry, (int, np.integer)) and type(entry) is not bool for entry in offsets):
        return host
    entries = [int(entry) for entry in offsets]
    check_offsets(np.array(entries, object), length)
    return np.array(entries, np.int64)


def _check_form(offsets: Any) -> None:
    if offsets.ndim != 1:
        raise ValueError(f"offsets has {offsets.ndim} dimensions; it must have 1")
    if offsets.shape[0] == 0:
        raise ValueError("offsets is empty; it must hold one entry more than there are segments, the first one 0")
    if kind_of(offsets.dtype) not in "iu":
        raise TypeError(f"offsets is of dtype {offsets.dtype}; it must be of an integer dtype")


def check_offsets(offsets: np.ndarray, length: int) -> None:
    """Raises ValueError unless offsets run from 0 to `length` without ever decreasing."""
    if offsets[0] != 0:
        raise ValueError(f"offsets[0] is {offsets[0]}; the first segment must start at 0")
    decreases = np.flatnonzero(offsets[1:] < offsets[:-1])
    past_end = np.flatnonzero(offsets > length)
    if decreases.size and not (past_end.size and past_end[0] <= decreases[0]):
        at = int(decreases[0]) + 1
        before = offsets[at - 1]
        raise ValueError(f"offsets[{at}] is {offsets[at]}, less than the {before} before it; offsets must not decrease")
    if past_end.size:
        at = int(past_end[0])
        raise ValueError(f"offsets[{at}] is {offsets[at]}, past the end of a, which has {length} elements")
    if offsets[-1] != length:
        last = len(offsets) - 1
        raise ValueError(f"offsets[{last}] is {offsets[-1]}; the last offset must be the length of a, {length}")
