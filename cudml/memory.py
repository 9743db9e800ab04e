"""Where arrays lie in memory, and the rules that an output must keep.

Only pointers, shapes and strides are looked at, never the elements, so that device arrays are checked as host arrays
are, without a copy and without waiting for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

_EXACT_OVERLAP_WORK: Any = 100_000
"""Bound for the exact overlap test, an NP-hard problem; real strides take a few steps. Past it, overlap is assumed."""


class Layout(NamedTuple):
    """The memory that an array's elements take."""

    address: int
    read_only: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @classmethod
    def of(cls, array: Any) -> Layout:
        """The layout of a host or device array."""
        interface = getattr(array, "__cuda_array_interface__", None)
        if interface is None:
            interface = array.__array_interface__
        address, read_only = interface["data"]
        return cls(address, read_only, tuple(array.shape), tuple(array.strides), array.dtype.itemsize)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def bounds(self) -> tuple[int, int]:
        """The first byte of the lowest element and the byte after the highest."""
        reaches = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        low = self.address + sum(reach for reach in reaches if reach < 0)
        high = self.address + sum(reach for reach in reaches if reach > 0)
        return low, high + self.itemsize

    @property
    def steps(self) -> list[tuple[int, int]]:
        """(size, stride) of every axis along which there is a second element."""
        return [(n, stride) for n, stride in zip(self.shape, self.strides, strict=True) if n > 1]

    @property
    def is_c_contiguous(self) -> bool:
        expected = self.itemsize
        for n, stride in reversed(self.steps):
            if stride != expected:
                return False
            expected *= n
        return True

    @property
    def may_repeat_elements(self) -> bool:
        """Whether two elements may share memory. Where there are none NumPy's strides are 0."""
        return self.size > 0 and may_repeat_elements(self.shape, self.strides, self.itemsize)

    def is_same_view(self, other: Layout) -> bool:
        """Whether element for element (in C order) both lie in the same place."""
        if (self.address, self.itemsize, self.size) != (other.address, other.itemsize, other.size):
            return False
        same_axes = self.shape == other.shape and self.steps == other.steps
        return same_axes or (self.is_c_contiguous and other.is_c_contiguous)

    def overlaps(self, other: Layout) -> bool:
        """Whether any byte belongs to both."""
        if not self.size or not other.size:
            return False
        (low, high), (other_low, other_high) = self.bounds, other.bounds
        if high <= other_low or other_high <= low:
            return False
        try:
            return np.shares_memory(self._as_bytes(), other._as_bytes(), max_work=_EXACT_OVERLAP_WORK)
        except np.exceptions.TooHardError:
            return True

    def _as_bytes(self) -> np.ndarray:
        """A NumPy array with this layout, for address arithmetic only: its memory may be a device's."""
        return np.asarray(_Interface(self))


class _Interface:
    def __init__(self, layout: Layout) -> None:
        self.__array_interface__ = {
            "data": (layout.address, True),
            "shape": layout.shape,
            "strides": layout.strides,
            "typestr": f"|V{layout.itemsize}",
            "version": 3,
        }


def may_repeat_elements(sizes: Iterable[int], strides: Iterable[int], itemsize: int) -> bool:
    """Whether some stride lies within what the smaller ones span; true also for a few interleaved layouts in which no
    element repeats, and which nobody writes on purpose."""
    span = itemsize
    for stride, n in sorted((abs(stride), n) for n, stride in zip(sizes, strides, strict=True) if n > 1):
        if stride < span:
            return True
        span += (n - 1) * stride
    return False


@lru_cache(maxsize=1024)
def order_of_axes(shape: tuple[int, ...], *strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes from the outermost to the innermost in memory, as NumPy orders those of a result of operands with these
    strides; None for C order.

    Axes without extent (of size 1 or stride 0) keep their place between their neighbours in C order.
    """
    if 0 in shape:
        return None
    steps = [
        tuple([abs(step) if n > 1 else 0 for step in of_axis]) for n, *of_axis in zip(shape, *strides, strict=True)
    ]
    order: list[int] = []
    for axis in reversed(range(len(shape))):
        order.insert(_place(steps, order, axis), axis)
    return None if order == sorted(order) else tuple(order)


def _place(steps: list[tuple[int, ...]], order: list[int], axis: int) -> int:
    """Where NumPy's iterator inserts an axis in front of those that follow it in C order and are sorted already.

    It goes behind those that all operands have farther outside; where they disagree C order wins.
    """
    place = 0
    for i, other in enumerate(order):
        outside = [theirs > own for own, theirs in zip(steps[axis], steps[other], strict=True) if own and theirs]
        if outside and not all(outside):
            break
        if outside:
            place = i + 1
    return place


def make_in_order(make: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...], order: tuple[int, ...] | None) -> Any:
    """An array of `shape` that is dense in the given order of its axes; `make` makes C-contiguous ones."""
    if order is None:
        return make(shape)
    return make(tuple([shape[axis] for axis in order])).transpose([order.index(axis) for axis in range(len(order))])


def shares_its_memory(value: Any) -> bool:
    """Whether `value` is an array of some library, not something that would be converted into one."""
    exports = ("__array_interface__", "__cuda_array_interface__", "__dlpack__")
    return not isinstance(value, np.generic) and any(hasattr(value, name) for name in exports)


def check_is_array(out: Any) -> None:
    """`out`, if given, must be an array whose memory can be written, not something that would be converted into one."""
    if out is None:
        return
    if not shares_its_memory(out):
        raise TypeError(f"out is of type {type(out).__name__}; it must be an array to write the result to")


def check_output(out: Any, shape: tuple[int, ...]) -> Layout:
    """The layout of `out`, which must have `shape`, be writeable and have no two elements in one place."""
    if tuple(out.shape) != shape:
        raise ValueError(f"out has shape {tuple(out.shape)}, but the result has shape {shape}; pass one of that shape")
    layout = Layout.of(out)
    if layout.read_only:
        raise ValueError("out is read-only; pass an array that can be written")
    if layout.may_repeat_elements:
        raise ValueError(f"out has strides {layout.strides} for shape {shape}: elements share memory; pass a copy")
    return layout


def check_same_device(out: Any, **inputs: Any) -> None:
    """All inputs that are arrays must be on the device of `out`."""
    for name, value in inputs.items():
        if isinstance(value, np.generic) or value is None:
            continue
        device, out_device = getattr(value, "device", None), getattr(out, "device", None)
        if device != out_device:
            raise ValueError(f"{name} is on device {device} and out on {out_device}; move one of them to the other's")


def check_no_partial_overlap(output: Layout, value: Any, argument: str) -> None:
    """`value` may lie exactly where the output does (in place) or apart from it, nothing between."""
    layout = Layout.of(value)
    if layout.overlaps(output) and not layout.is_same_view(output):
        raise ValueError(
            f"out overlaps {argument} in memory without being the same view of it; "
            f"pass an out of its own, or {argument} itself to compute in place"
        )


def check_no_overlap(output: Layout, value: Any, argument: str) -> None:
    """`value` must lie apart from the output."""
    if Layout.of(value).overlaps(output):
        raise ValueError(f"out overlaps {argument} in memory; pass an out of its own or a copy of {argument}")
