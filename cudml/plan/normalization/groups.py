"""The arrays of a normalization as groups: everything that shares a mean is a group.

The axes of all arrays are merged together: what is one stride in each of them becomes one axis, kept or reduced. So a
kernel takes a number apart once, and has the offsets in all arrays (kernels/normalization.cuh).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.dtypes import c_name
from cudml.plan.layout import SECTOR_BYTES, VECTOR_BYTES, ArrayLayout, broadcast, index_type, outer_to_inner
from cudml.plan.loads import EVICT_FIRST, EVICT_NORMALLY, eviction_of
from cudml.plan.normalization.joint_axes import ARRAYS, JointAxes
from cudml.plan.normalization.operands import Operand, Operands
from cudml.plan.plan import Struct
from cudml.plan.spec import Normalization

#: Mean and variance in one, as kernels hand them on: kernels/normalization.cuh, struct Moments.
MOMENTS = np.dtype((np.void, 24))


@dataclass(frozen=True, slots=True)
class Groups:
    """All groups of a call, and how they are cut into tiles."""

    arrays: dict[str, Operand]
    kept: JointAxes
    reduced: JointAxes
    result: np.dtype
    """Of the output, or of the moments where only these are asked for."""
    correction: float = 0.0
    tile: int = 0
    """Elements of a tile; 0 where a group is one."""
    by_rows: bool = False
    """Whether a strip of columns is a row."""

    @classmethod
    def of(
        cls, axes: tuple[int, ...], arrays: dict[str, Operand], correction: float = 0.0, result: np.dtype | None = None
    ) -> Groups:
        """`result` where no array has it."""
        source = arrays["input"]
        assert isinstance(source, ArrayLayout)
        layouts = {
            name: broadcast(layout, source.shape)
            for name in ARRAYS
            if isinstance(layout := arrays.get(name), ArrayLayout)
        }
        stored = [layouts[name] for name in ("input", "output") if name in layouts]
        kept = outer_to_inner((axis for axis in range(len(source.shape)) if axis not in axes), *stored)
        if result is None:
            result = layouts["output" if "output" in layouts else "mean"].dtype
        return cls(arrays, JointAxes.of(layouts, kept), JointAxes.of(layouts, axes), result, correction)

    def in_tiles(self, tile: int) -> Groups:
        return replace(self, tile=tile)

    def in_rows(self) -> Groups:
        return replace(self, by_rows=True)

    def gap_of_rows(self, name: str) -> int | None:
        """The bytes between the rows of neighbouring steps of an array, dense columns each; None where they lie
        otherwise."""
        layout = self.arrays.get(name)
        if not isinstance(layout, ArrayLayout) or len(self.reduced.sizes) > 1 or not layout.element_aligned:
            return None
        size, gap = layout.dtype.itemsize, self.reduced.strides[name][0] - self.row * layout.dtype.itemsize
        dense = self.by_rows or len(self.kept.sizes) == 1
        return gap if dense and self.kept.strides[name][-1] == size and gap >= 0 else None

    @property
    def source(self) -> ArrayLayout:
        source = self.arrays["input"]
        assert isinstance(source, ArrayLayout)
        return source

    def has(self, name: str) -> bool:
        return self.arrays.get(name) is not None

    @property
    def count(self) -> int:
        return math.prod(self.kept.sizes)

    @property
    def row(self) -> int:
        """Columns that strips are cut from: those along the innermost kept axis if these are rows, else all."""
        return self.kept.sizes[-1] if self.by_rows else self.count

    def strips_of(self, columns: int) -> int:
        return self.count // self.row * math.ceil(self.row / columns)

    @property
    def length(self) -> int:
        return math.prod(self.reduced.sizes)

    @property
    def tiles(self) -> int:
        """Of a group."""
        return math.ceil(self.length / self.tile) if self.tile else 1

    @property
    def nbytes(self) -> int:
        """Of the input."""
        return self.source.size * self.source.dtype.itemsize

    def bytes_of_multiprocessor(self, device: DeviceProperties) -> float:
        """Of the input."""
        return self.nbytes / device.multiprocessors

    @property
    def chunk(self) -> int:
        return VECTOR_BYTES // self.source.dtype.itemsize

    @property
    def are_columns(self) -> bool:
        """Whether neighbouring groups lie nearer in memory than neighbours of one group."""
        if self.length == 1:
            return True
        beside, inside = (
            min(
                (abs(stride) for stride, size in zip(axes.strides["input"], axes.sizes, strict=True) if size > 1),
                default=0,
            )
            for axes in (self.kept, self.reduced)
        )
        return 0 < beside < inside

    def is_one_run(self, name: str) -> bool:
        """Whether the elements of a group follow each other in memory, in an array that there is."""
        layout = self.arrays[name]
        assert isinstance(layout, ArrayLayout)
        step = layout.dtype.itemsize
        for size, stride in zip(reversed(self.reduced.sizes), reversed(self.reduced.strides[name]), strict=True):
            if stride != step:
                return False
            step *= size
        return True

    def step_of_runs(self, name: str) -> int:
        """The bytes, 2 to 8, of which every group begins at a multiple, where its elements, of two bytes at least, lie
        side by side; else 0."""
        layout = self.arrays.get(name)
        if not isinstance(layout, ArrayLayout) or not layout.element_aligned or not self.is_one_run(name):
            return 0
        return 0 if layout.dtype.itemsize < 2 else math.gcd(8, layout.alignment, *self.kept.strides[name])

    @property
    def grain(self) -> int:
        """Elements, a chunk at the most, of which every group has a multiple."""
        return math.gcd(self.chunk, self.length)

    @property
    def begins_anywhere(self) -> bool:
        """Whether a group of the input is one run that begins at any element, and not between elements."""
        return self.step_of_runs("input") == self.source.dtype.itemsize and not self.packed("input")

    def are_end_to_end(self, name: str) -> bool:
        """Whether each group begins where the one before ends, if its elements lie at one stride."""
        step = self.length * self.reduced.strides[name][-1]
        for size, stride in zip(reversed(self.kept.sizes), reversed(self.kept.strides[name]), strict=True):
            if stride != step:
                return False
            step *= size
        return True

    def packed(self, name: str) -> bool:
        """Whether every whole chunk lies dense and aligned, so that one access moves it."""
        layout = self.arrays.get(name)
        if not isinstance(layout, ArrayLayout):
            return False
        if self.is_one_run(name):
            return layout.lies_in_steps(self.chunk * layout.dtype.itemsize, self.kept.strides[name])
        whole = len(self.reduced.sizes) == 1 or self.reduced.sizes[-1] % self.chunk == 0
        return whole and self.moves(name, self.chunk)

    @property
    def are_packed(self) -> bool:
        """Whether whole chunks of the input and, where there is one, of the output are `packed`."""
        return all(self.packed(name) for name in ("input", "output") if self.has(name))

    def moves(self, name: str, count: int) -> bool:
        """Whether so many neighbours in a group lie dense and aligned from every multiple of their number on."""
        layout = self.arrays.get(name)
        return isinstance(layout, ArrayLayout) and self._moves(layout, name, count, self.reduced, self.kept)

    def packed_columns(self, name: str, vector: int) -> bool:
        """Whether the elements of so many neighbouring groups do."""
        layout = self.arrays.get(name)
        if not isinstance(layout, ArrayLayout):
            return False
        return self.kept.sizes[-1] % vector == 0 and self._moves(layout, name, vector, self.kept, self.reduced)

    def rows_begin_at_multiples(self, name: str, nbytes: int = SECTOR_BYTES) -> bool:
        """Whether those of neighbouring groups begin at a multiple of so many bytes, if the first one does."""
        strides = (*self.kept.strides[name][:-1], *self.reduced.strides[name])
        return all(stride % nbytes == 0 for stride in strides)

    def _moves(self, layout: ArrayLayout, name: str, count: int, along: JointAxes, other: JointAxes) -> bool:
        nbytes = min(VECTOR_BYTES, count * layout.dtype.itemsize)
        strides = (*along.strides[name][:-1], *other.strides[name])
        dense = along.strides[name][-1] == layout.dtype.itemsize or count == 1
        return dense and layout.lies_in_steps(nbytes, strides)

    @property
    def index(self) -> np.dtype:
        counts = (self.count * (self.tiles + 1), self.tiles * self.tile + self.length)
        names = self.kept.strides
        return index_type(counts, [axes.dims(name) for axes in (self.kept, self.reduced) for name in names])

    def index_with(self, counts: Sequence[int]) -> np.dtype:
        """The type of offsets and of so large counts."""
        return max(self.index, index_type(counts, ()), key=lambda dtype: dtype.itemsize)

    @property
    def geometry(self) -> Struct:
        return self.geometry_in(self.index)

    def geometry_in(self, index: np.dtype) -> Struct:
        """kernels/normalization.cuh: struct Geometry."""
        narrow = index.itemsize == 4
        counts = (self.count, self.length, self.tiles if self.length else 0)
        return Struct(counts + self.kept.numbers(narrow) + self.reduced.numbers(narrow), index)

    @property
    def eviction(self) -> str:
        """Of the input. That of moments only stands in the way in the caches: those of (1048576, 256) floats take an
        H200 239 us evicted first, and 251 normally; those of several groups in a row of a warp 263 and 260."""
        if self.has("output"):
            return eviction_of(self.source)
        is_row = self.are_columns or self.length * self.source.dtype.itemsize > LANES * VECTOR_BYTES // 2
        return EVICT_FIRST if is_row else EVICT_NORMALLY

    @property
    def operands(self) -> Operands:
        return Operands(self.arrays, self.kept, self.reduced, self.chunk, self.are_columns)

    @property
    def are_scaled_halves(self) -> bool:
        """Whether elements are halves, and scale or bias arrays."""
        return self.source.dtype.itemsize == 2 and bool(self.operands.stored)

    @property
    def are_scaled_bytes(self) -> bool:
        """Whether elements are bytes that have their own scale or bias, 16 in a chunk."""
        return self.source.dtype.itemsize == 1 and self.has("output") and self.operands.are_own

    @property
    def are_floats(self) -> bool:
        """Whether elements are; else they are integers or bool."""
        return self.source.dtype.kind not in "biu"

    @property
    def is_double(self) -> bool:
        """Whether elements are normalized in float64: integers are where float32 does not hold all of them, or the
        result is wider."""
        if self.are_floats:
            return self.source.dtype.itemsize == 8
        return self.source.dtype.itemsize > 2 or self.result.itemsize > 4

    @property
    def are_like_floats(self) -> bool:
        """Whether elements are floats, or integers that are normalized in float32."""
        return self.are_floats or not self.is_double

    @property
    def have_wide_chunks(self) -> bool:
        """Whether a chunk takes more registers than 8 floats do: in double, and as bytes are 16."""
        return self.is_double or self.source.dtype.itemsize == 1

    @property
    def normal_words(self) -> int:
        """32-bit words of kernels/normalization.cuh: struct Normalizer."""
        return 6 if self.is_double else 4

    @property
    def widest(self) -> int:
        """The size of the larger elements, of the input or the output."""
        return max(layout.dtype.itemsize for layout in self.stored)

    @property
    def are_widened(self) -> bool:
        """kernels/normalization_chunks.cuh: WIDENED."""
        layout = self.arrays.get("output")
        nbytes = layout.dtype.itemsize if isinstance(layout, ArrayLayout) else 0
        return nbytes >= 4 and self.chunk * nbytes > VECTOR_BYTES

    @property
    def stored(self) -> list[ArrayLayout]:
        """The input and, where there is one, the output."""
        arrays = (self.arrays.get(name) for name in ("input", "output"))
        return [array for array in arrays if isinstance(array, ArrayLayout)]

    def constants(self, spec: Normalization) -> dict[str, str | int | bool]:
        """Those of kernels/normalization.cuh, but for HAS_OUTPUT and EVICTION: only some kernels read these."""
        source, output, moment = self.source, self.arrays.get("output"), self.arrays.get("mean")
        return {
            "INPUT": c_name(source.dtype),
            "INPUT_ALIGNED": source.element_aligned,
            "MOMENT": _moment_type(moment.dtype) if isinstance(moment, ArrayLayout) else "float",
            "COMPUTE": "double" if self.is_double else "float",
            "ACTIVATION": spec.activation.name if spec.activation else "identity",
            "NORMALIZE_VARIANCE": spec.normalize_variance,
            "INDEX": c_name(self.index),
            "KEPT_RANK": len(self.kept.sizes),
            "REDUCED_RANK": len(self.reduced.sizes),
            "OUTPUT": c_name(output.dtype) if isinstance(output, ArrayLayout) else "float",
            "OUTPUT_ALIGNED": output.element_aligned if isinstance(output, ArrayLayout) else 1,
            **self.operands.constants,
        }


def _moment_type(dtype: np.dtype) -> str:
    """Of mean and variance, or of both in one."""
    return "Moments" if dtype == MOMENTS else c_name(dtype)
