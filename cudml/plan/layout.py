"""Where the elements of an array lie: shapes, byte strides and alignment, and what a kernel needs to know of them."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

#: The widest access of a thread.
VECTOR_BYTES = 16

#: What memory moves at least: to write less of it, it is read first.
SECTOR_BYTES = 32

#: A line of the cache. Bulk copies are faster where they keep the place within one: kernels/gate.cuh.
CACHE_LINE_BYTES = 128

#: Elements that show how another array scatters them.
_SAMPLE = 256

#: Offsets and counts up to here fit 32-bit arithmetic with room for what a last, partial block adds.
_INDEX32_LIMIT = 2**31 - 2**24


class ArrayLayout(NamedTuple):
    """An array without its contents."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes, as NumPy and CuPy give them: any sign, 0 for broadcast axes."""
    dtype: np.dtype
    alignment: int
    """The largest power of two, at most VECTOR_BYTES, that divides the address."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def element_aligned(self) -> bool:
        """Whether every element lies at a multiple of its size, so that one access moves it."""
        return self.divides(self.dtype.itemsize)

    @property
    def is_one_run(self) -> bool:
        """Whether the elements lie side by side, in whatever order of the axes, the first one first."""
        steps = sorted((stride, size) for size, stride in zip(self.shape, self.strides, strict=True) if size != 1)
        inner = itertools.accumulate((size for _, size in steps), operator.mul, initial=self.dtype.itemsize)
        return self.size == 0 or all(stride == nbytes for (stride, _), nbytes in zip(steps, inner, strict=False))

    def divides(self, nbytes: int, axes: Iterable[int] | None = None) -> bool:
        """Whether `nbytes` divides the address and the strides of all axes (or of those given)."""
        chosen = range(len(self.shape)) if axes is None else axes
        strides = [self.strides[axis] for axis in chosen if self.shape[axis] > 1]
        return self.alignment % min(nbytes, VECTOR_BYTES) == 0 and all(stride % nbytes == 0 for stride in strides)

    def lies_in_steps(self, nbytes: int, strides: Iterable[int]) -> bool:
        """Whether it begins at a multiple of so many bytes, or of VECTOR_BYTES, and does so anew after each stride."""
        needed = min(nbytes, VECTOR_BYTES)
        return self.alignment % needed == 0 and all(stride % needed == 0 for stride in strides)


class Dims(NamedTuple):
    """Sizes and byte strides of some axes, the form in which kernels get them (layout.cuh)."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The members of the kernels' struct Layout."""
        return self.sizes + self.strides

    @property
    def reach(self) -> int:
        """The largest distance in bytes from the first element, in either direction; no stride is larger, not even of
        an axis without elements."""
        return sum(max(size - 1, 1) * abs(stride) for size, stride in zip(self.sizes, self.strides, strict=True))


NO_DIMS = Dims((1,), (0,))


def broadcast(layout: ArrayLayout, shape: tuple[int, ...]) -> ArrayLayout:
    """The layout stretched to `shape` by NumPy's rules: axes that are missing or of size 1 get the stride 0."""
    missing = len(shape) - len(layout.shape)
    sizes = (1,) * missing + layout.shape
    strides = (0,) * missing + layout.strides
    stretched = tuple(
        stride if size == wanted else 0 for size, stride, wanted in zip(sizes, strides, shape, strict=True)
    )
    return ArrayLayout(shape, stretched, layout.dtype, layout.alignment)


def alignment_of(address: int) -> int:
    """The largest power of two, at most VECTOR_BYTES, that divides the address."""
    return math.gcd(address, VECTOR_BYTES)


def collapse(layout: ArrayLayout, axes: Sequence[int]) -> Dims:
    """The axes in the given order, those of size 1 dropped and neighbours that lie in one stride merged."""
    sizes: list[int] = []
    strides: list[int] = []
    for axis in axes:
        size, stride = layout.shape[axis], layout.strides[axis]
        if size == 1:
            continue
        if sizes and strides[-1] == size * stride:
            sizes[-1] *= size
            strides[-1] = stride
        else:
            sizes.append(size)
            strides.append(stride)
    return Dims(tuple(sizes), tuple(strides)) if sizes else NO_DIMS


def collapse_together(
    layouts: Sequence[ArrayLayout], axes: Sequence[int]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Sizes, and the byte strides of each layout, of axes that all have: those that `collapse` would merge in every one
    of them are merged."""
    sizes: list[int] = []
    strides: list[tuple[int, ...]] = []
    for axis in axes:
        size, steps = layouts[0].shape[axis], tuple(layout.strides[axis] for layout in layouts)
        if size == 1:
            continue
        if sizes and all(outer == size * step for outer, step in zip(strides[-1], steps, strict=True)):
            sizes[-1] *= size
            strides[-1] = steps
        else:
            sizes.append(size)
            strides.append(steps)
    if not sizes:
        return (1,), [(0,) for _ in layouts]
    return tuple(sizes), list(zip(*strides, strict=True))


def outer_to_inner(axes: Iterable[int], *layouts: ArrayLayout) -> tuple[int, ...]:
    """The axes in an order of falling strides, so that numbers that follow each other are near in memory."""
    return tuple(sorted(axes, key=lambda axis: -step(axis, *layouts)))


def lie_in_one_order(one: ArrayLayout, other: ArrayLayout) -> bool:
    """Whether two arrays of the same shape have their axes in the same order in memory."""
    axes = [axis for axis, size in enumerate(one.shape) if size > 1]
    return outer_to_inner(axes, one) == outer_to_inner(axes, other)


def innermost(layout: ArrayLayout, axes: Iterable[int] | None = None) -> int | None:
    """The axis (of those given) along which neighbours are nearest in memory; None if none has any."""
    chosen = range(len(layout.shape)) if axes is None else axes
    return min((axis for axis in chosen if layout.shape[axis] > 1), key=lambda axis: step(axis, layout), default=None)


def step(axis: int, *layouts: ArrayLayout) -> int:
    """How far apart neighbours along an axis lie, in all arrays together."""
    return sum(abs(layout.strides[axis]) for layout in layouts)


def lie_across(axes: Sequence[int], layout: ArrayLayout) -> bool:
    """Whether the innermost axis in memory is one of these but not the last, along which neighbours lie in a sector
    each."""
    own = [axis for axis in axes if layout.shape[axis] > 1]
    inner = innermost(layout)
    return inner in own and inner != own[-1] and abs(layout.strides[own[-1]]) >= SECTOR_BYTES


def between(axes: Sequence[int], layout: ArrayLayout) -> int:
    """Elements that lie between neighbours of memory in the C order of these axes."""
    inner = innermost(layout)
    return math.prod(layout.shape[axis] for axis in axes if inner is not None and axis > inner)


def are_scattered(one: ArrayLayout, other: ArrayLayout) -> bool:
    """Whether less than two elements that lie side by side in one of two arrays of the same shape share a sector of
    the other, in the mean."""
    return max(_sectors_of_element(one, other), _sectors_of_element(other, one)) > 1 / 2


def _sectors_of_element(layout: ArrayLayout, order: ArrayLayout) -> float:
    """Of some that lie side by side in `order`."""
    offsets, wanted = np.zeros(1, np.int64), _SAMPLE
    for axis in reversed(outer_to_inner(range(len(order.shape)), order)):
        count = min(layout.shape[axis], wanted)
        offsets = np.add.outer(np.arange(count) * layout.strides[axis], offsets).ravel()
        wanted //= max(count, 1)
    return len(np.unique(offsets // SECTOR_BYTES)) / max(len(offsets), 1)


def index_type(counts: Iterable[int], dims: Iterable[Dims]) -> np.dtype:
    """int32 where all counts and offsets fit, else int64."""
    largest = max([*counts, *(d.reach for d in dims)])
    return np.dtype(np.int32) if largest < _INDEX32_LIMIT else np.dtype(np.int64)


def power_of_two(n: int) -> int:
    """The smallest that is not less than n."""
    return 1 << max(n - 1, 0).bit_length()


def power_of_two_within(n: int) -> int:
    """The largest that is not greater than n."""
    return 1 << (n.bit_length() - 1)


def powers_of_two(least: int, most: int) -> list[int]:
    """Those from `least` on, which is one, to `most`."""
    return [1 << shift for shift in range(least.bit_length() - 1, most.bit_length())]


def magic_of(divisor: int) -> tuple[int, int]:
    """(m, s) so that n // divisor is n * m >> (32 + s) for every n below 2^31; m as a signed number of 32 bits.

    m is 2^(32 + s) / divisor rounded up, with the least s for which 2^(s + 1) is not less than the divisor. The error
    of m, less than the divisor, is multiplied by n, which leaves it below 2^(32 + s).
    """
    shift = (divisor - 1).bit_length() - 1
    return -(-(2 ** (32 + shift)) // divisor) - 2**32, shift
