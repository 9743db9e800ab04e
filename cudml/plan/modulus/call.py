"""A call of the truncated modulus as its kernels see it, and what they are all given."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cudml.plan.device import DeviceProperties
from cudml.plan.dtypes import c_name
from cudml.plan.layout import (
    VECTOR_BYTES,
    ArrayLayout,
    Dims,
    broadcast,
    collapse_together,
    index_type,
    magic_of,
    outer_to_inner,
)
from cudml.plan.loads import EVICT_NORMALLY
from cudml.plan.plan import Argument, Launch, Plan, Pointer, Scalar, Struct, constants_of
from cudml.plan.spec import Modulus

#: Threads of a block where nothing else was seen to be faster.
BLOCK = 256

#: Compute capabilities that compute in double half as fast as in float; others take a 32nd or 64th.
_FAST_DOUBLE = {(8, 0), (9, 0), (10, 0)}

OPERANDS = ("dividend", "divisor")
ARRAYS = (*OPERANDS, "output")


@dataclass(frozen=True)
class Call:
    """The arrays of a call, their axes merged where all lie in one stride. A number has strides of 0."""

    spec: Modulus
    arrays: dict[str, ArrayLayout | np.dtype]
    sizes: tuple[int, ...]
    strides: dict[str, tuple[int, ...]]
    device: DeviceProperties

    @property
    def layouts(self) -> dict[str, ArrayLayout]:
        return {name: array for name, array in self.arrays.items() if isinstance(array, ArrayLayout)}

    def dtype(self, name: str) -> np.dtype:
        array = self.arrays[name]
        return array.dtype if isinstance(array, ArrayLayout) else array

    def is_dense(self, name: str, axis: int = -1) -> bool:
        return self.strides[name][axis] == self.dtype(name).itemsize

    def is_every_second(self, name: str) -> bool:
        """Whether the innermost axis has every second of some small elements: those are picked out of words."""
        size = self.dtype(name).itemsize
        return size < 4 and self.strides[name][-1] == 2 * size

    def is_reversed(self, name: str, axis: int = -1) -> bool:
        """Whether neighbours along an axis are so in memory, too, but the other way round."""
        return self.strides[name][axis] == -self.dtype(name).itemsize

    def begins_with_packs(self, name: str, pack: int) -> bool:
        """Whether every row begins at a multiple of a pack's bytes."""
        return self.layouts[name].lies_in_steps(pack * self.dtype(name).itemsize, self.strides[name][:-1])

    @property
    def widest(self) -> int:
        """The bytes of the largest elements."""
        return max(layout.dtype.itemsize for layout in self.layouts.values())

    @property
    def pack(self) -> int:
        """Elements that a thread moves at once."""
        return max(VECTOR_BYTES // self.widest, 1)

    @property
    def has_whole_rows(self) -> bool:
        """Whether every row of the output begins with a whole pack."""
        return self.begins_with_packs("output", self.pack)

    @property
    def index(self) -> np.dtype:
        size = math.prod(self.sizes)
        return index_type((size,), (Dims(self.sizes, strides) for strides in self.strides.values()))

    def with_shorter_rows(self, parts: int) -> Call:
        """The same with every row of the innermost axis cut in so many."""
        length = self.sizes[-1] // parts
        strides = {name: (*steps[:-1], steps[-1] * length, steps[-1]) for name, steps in self.strides.items()}
        return replace(self, sizes=(*self.sizes[:-1], parts, length), strides=strides)

    def plan(
        self, kernel: str, access: dict[str, str], threads: int, block: int, geometry: Sequence[int], **own: int | str
    ) -> Plan:
        """The plan of a kernel: constants and arguments that all have, and those of its own."""
        constants = constants_of(
            VALUE=c_name(self.spec.dtype),
            INDEX=c_name(self.index),
            BLOCK=block,
            FAST_DOUBLE=self.device.compute_capability in _FAST_DOUBLE,
            **{name.upper(): c_name(self.dtype(name)) for name in self.arrays},
            **{f"{name.upper()}_ACCESS": value for name, value in access.items()},
            **{f"{name.upper()}_ALIGNED": is_aligned(self.arrays[name]) for name in OPERANDS},
            **{"EVICTION": EVICT_NORMALLY, **own},
        )
        if 0 in self.sizes:
            return Plan(f"{kernel}.cu", constants, ())
        pointers = tuple(Pointer(name) for name in ARRAYS)
        numbers = tuple(Scalar(name, self.dtype(name)) for name in OPERANDS)
        arguments: tuple[Argument, ...] = (*pointers, *numbers, Struct(tuple(geometry), self.index))
        launch = Launch(kernel, -(-threads // block), block, arguments, early=True)
        return Plan(f"{kernel}.cu", constants, (launch,))


def call_of(spec: Modulus, arrays: dict[str, ArrayLayout | np.dtype], device: DeviceProperties) -> Call:
    """Operands are broadcast to the output; one that is given as a dtype is a number."""
    output = arrays["output"]
    assert isinstance(output, ArrayLayout)
    stretched: dict[str, ArrayLayout | np.dtype] = {
        name: broadcast(array, output.shape) if isinstance(array, ArrayLayout) else array
        for name, array in arrays.items()
    }
    present = {name: array for name, array in stretched.items() if isinstance(array, ArrayLayout)}
    sizes, strides = collapse_together(list(present.values()), outer_to_inner(range(len(output.shape)), output))
    found = dict(zip(present, strides, strict=True))
    return Call(spec, stretched, sizes, {name: found.get(name, (0,) * len(sizes)) for name in stretched}, device)


# ---- what the kernels' structs hold


def is_aligned(array: ArrayLayout | np.dtype) -> bool:
    return array.element_aligned if isinstance(array, ArrayLayout) else True


def space(sizes: tuple[int, ...], strides: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Counts of all axes, then the strides of each array (struct Space)."""
    counts = [number for size in sizes for number in count_of(size)]
    return (*counts, *(stride for of_array in strides for stride in of_array))


def count_of(size: int) -> tuple[int, int, int]:
    """A size with the magic number and the shift by which 32-bit numbers are divided by it (struct Count)."""
    return (size, *magic_of(size)) if 1 < size < 2**31 else (size, 0, 0)
