"""Axes of all arrays of a normalization at once: what is one stride in each of them is one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cudml.plan.layout import ArrayLayout, Dims, collapse_together, magic_of

#: The arrays whose offsets are computed, in the kernels' order.
ARRAYS = ("input", "output", "scale", "bias", "mean")


class JointAxes(NamedTuple):
    """Some axes of all arrays, from the outermost to the innermost (kernels/normalization.cuh: struct Axes)."""

    sizes: tuple[int, ...]
    strides: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, layouts: dict[str, ArrayLayout], axes: Sequence[int]) -> JointAxes:
        """The axes in the given order, without those of size 1; neighbours in one stride everywhere are merged."""
        sizes, strides = collapse_together(list(layouts.values()), axes)
        return cls(sizes, dict(zip(layouts, strides, strict=True)))

    def numbers(self, narrow: bool) -> tuple[int, ...]:
        """The struct's members; divisions by magic numbers are for 32-bit offsets."""
        magic = [magic_of(size) if narrow and size > 1 else (0, 0) for size in self.sizes]
        none = (0,) * len(self.sizes)
        strides = sum((self.strides.get(name, none) for name in ARRAYS), ())
        return self.sizes + tuple(number for number, _ in magic) + tuple(shift for _, shift in magic) + strides

    def dims(self, name: str) -> Dims:
        return Dims(self.sizes, self.strides[name])
