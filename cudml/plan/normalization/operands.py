"""Scale and bias of groups: where they are the same, and how many numbers of them lanes load."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cudml.plan.dtypes import c_name
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout
from cudml.plan.normalization.joint_axes import JointAxes

#: An array, the type of a number that stands for one, or nothing.
Operand = ArrayLayout | np.dtype | None

#: What scale and bias are: kernels/normalization.cuh, HAS_SCALE.
NONE, OF_ELEMENTS, OF_ALL, OF_GROUP, OF_RUNS = range(5)

_NAMES = ("scale", "bias")


class Operands(NamedTuple):
    """Those of all groups of a call."""

    arrays: dict[str, Operand]
    kept: JointAxes
    reduced: JointAxes
    chunk: int
    """Elements of the input that a lane loads at once."""
    in_columns: bool
    """Whether neighbouring groups lie nearer in memory than neighbours of one group."""

    @property
    def stored(self) -> dict[str, ArrayLayout]:
        """Those that are arrays."""
        return {name: array for name in _NAMES if isinstance(array := self.arrays.get(name), ArrayLayout)}

    def differ_across(self, name: str) -> bool:
        """Whether neighbouring groups have their own scale or bias."""
        return name in self.stored and self.kept.strides[name][-1] != 0

    @property
    def are_own(self) -> bool:
        """Whether scale or bias differs between neighbours along the innermost axis of a group."""
        return any(strides[-1] != 0 for strides in self._strides)

    @property
    def differ_down(self) -> bool:
        """Whether scale or bias differs between elements of a group, along any axis."""
        return any(map(any, self._strides))

    @property
    def are_of_channels(self) -> bool:
        """Whether scale or bias differs inside of a group, but never between such neighbours."""
        return self.differ_down and not self.are_own

    @property
    def are_their_own(self) -> bool:
        """Whether neighbours in a group have their own scale or bias, and not the same as those in other groups."""
        return self.are_own and not self.repeat()

    @property
    def _strides(self) -> list[tuple[int, ...]]:
        """Inside a group, of those that are arrays."""
        return [self.reduced.strides[name] for name in self.stored]

    def repeat(self, count: int = 1) -> bool:
        """Whether scale and bias are the same for groups that are `count` apart."""
        return all(self._repeats(name, count) for name in self.stored)

    def _repeats(self, name: str, count: int) -> bool:
        strides = self.kept.strides[name]
        first = next((axis for axis, stride in enumerate(strides) if stride), len(strides))
        return count % math.prod(self.kept.sizes[first:]) == 0

    @property
    def of_chunk(self) -> int:
        """Numbers of scale, or of bias, that a chunk may have."""
        numbers = {OF_ELEMENTS: self.chunk, OF_RUNS: self._runs_of_chunk}
        return max(numbers.get(self.kind_of(name), 1) for name in _NAMES)

    @property
    def are_of_runs(self) -> bool:
        """Whether runs that share a number begin and end anywhere in a chunk."""
        return self._part < min(self.chunk, self.run)

    @property
    def are_narrow(self) -> bool:
        """Whether scale and bias take no more registers than the input does."""
        return all(array.dtype.itemsize <= VECTOR_BYTES // self.chunk for array in self.stored.values())

    @property
    def constants(self) -> dict[str, str | int | bool]:
        """Of kernels/normalization.cuh."""
        found: dict[str, str | int | bool] = {"OPERAND_RUN": min(self.run, self.chunk), "OPERAND_PART": self._part}
        for name in _NAMES:
            array, upper = self.stored.get(name), name.upper()
            found |= {upper: c_name(array.dtype) if array else "float", f"HAS_{upper}": self.kind_of(name)}
            found[f"{upper}_ALIGNED"] = array.element_aligned if array else 1
        return found

    def kind_of(self, name: str) -> int:
        """kernels/normalization.cuh: HAS_SCALE."""
        if name not in self.stored:
            return NONE if self.arrays.get(name) is None else OF_ALL
        strides = self.reduced.strides[name]
        if not any(strides):
            return OF_GROUP
        return OF_ELEMENTS if self.in_columns or strides[-1] else OF_RUNS

    @property
    def run(self) -> int:
        """Elements along the innermost axis, if they have one number of scale or bias; else 1."""
        has_runs = any(self.kind_of(name) == OF_RUNS for name in _NAMES)
        return self.reduced.sizes[-1] if has_runs else 1

    @property
    def _part(self) -> int:
        """Elements of which chunks and runs have a multiple."""
        return math.gcd(self.chunk, self.run)

    @property
    def _runs_of_chunk(self) -> int:
        """kernels/normalization.cuh: runs_of()."""
        runs, place = divmod(self.chunk - 1, self.run)
        return runs + (2 if place >= self._part else 1)
