"""The array of a scan as lines, and how these are cut into tiles: what all plans of kernels/scan_*.cu share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from cudml.plan.device import LANES
from cudml.plan.dtypes import accumulator_bytes, c_name
from cudml.plan.layout import NO_DIMS, VECTOR_BYTES, ArrayLayout, Dims, collapse, index_type, outer_to_inner
from cudml.plan.loads import eviction_of
from cudml.plan.plan import Struct
from cudml.plan.spec import Scan, SegmentedScan

TILE_ROWS = 64

#: Warps of a block that works on lines of one warp or less each; of longer ones it has more if a line does.
WARPS_OF_BLOCK = 4

#: kernels/scan.cuh: BYTES_OF_CHUNK.
BYTES_OF_CHUNK = 8

#: With fewer lines than this side by side, threads that walk down columns would use less than a sector of 32 bytes of
#: what they load, unless these are all there are.
ENOUGH_LINES = 8

#: Where inputs are neighbours along the axis and outputs across it, or the other way round, tiles of columns are turned
#: in shared memory. So many bytes of a line and so many lines at least fill a line of the cache and half a warp.
TURNED_BYTES, TURNED_LINES = 128, 17

Constants: TypeAlias = dict[str, "str | int | bool"]


@dataclass(frozen=True, slots=True)
class Work:
    """The array as lines, and how they are cut into tiles."""

    lines: int
    length: int
    tiles: int
    chunk: int
    segmented: bool
    segments: int
    offset_stride: int
    input_line: Dims
    input_axis: Dims
    output_line: Dims
    output_axis: Dims
    axis: int | None
    line_axes: tuple[int, ...]
    input_turned: bool = False
    """Inputs are neighbours along the axis, outputs across it."""
    output_turned: bool = False
    """The other way round."""

    @property
    def turned(self) -> bool:
        return self.input_turned or self.output_turned

    @property
    def geometry(self) -> Struct:
        """kernels/scan.cuh: struct Geometry."""
        counts = (self.lines, self.length, self.tiles, self.segments, self.offset_stride)
        return Struct(counts + sum((d.numbers for d in self.dims), ()), self.index)

    @property
    def dims(self) -> tuple[Dims, ...]:
        return (self.input_line, self.input_axis, self.output_line, self.output_axis)

    @property
    def index(self) -> np.dtype:
        counts = (
            self.lines * (self.tiles + 1),
            self.tiles * TILE_ROWS * LANES * self.chunk,
            self.segments * self.offset_stride,
        )
        return index_type(map(abs, counts), self.dims)

    @property
    def rows(self) -> int:
        """Rows of a line."""
        return math.ceil(self.length / (LANES * self.chunk))

    def is_flat(self, line: Dims, axis: Dims) -> bool:
        """Whether the lines lie end to end."""
        return line.rank == axis.rank == 1 and line.strides[0] == self.length * axis.strides[0]

    def in_chunks_of(self, elements: int) -> Work:
        """The same line in tiles of so much shorter chunks. Only integers give the same sums."""
        return replace(self, chunk=elements, tiles=math.ceil(self.length / (TILE_ROWS * LANES * elements)))


def cut(
    spec: Scan | SegmentedScan, source: ArrayLayout, output: ArrayLayout, offsets: ArrayLayout | None = None
) -> Work:
    """The work of a scan of `source` into `output`."""
    axis = spec.axis if isinstance(spec, Scan) else 0
    chunk = _chunk(source.dtype, spec.dtype)
    if axis is None:
        line_axes: tuple[int, ...] = ()
        lines, length = 1, source.size
        input_axis = collapse(source, range(len(source.shape)))
        output_axis = collapse(output, (0,))
    else:
        others = (i for i, size in enumerate(source.shape) if i != axis and size != 1)  # one line has any stride
        line_axes = outer_to_inner(others, source, output)
        lines, length = math.prod(source.shape[i] for i in line_axes), source.shape[axis]
        input_axis, output_axis = collapse(source, (axis,)), collapse(output, (axis,))
    work = Work(
        lines=lines,
        length=length,
        tiles=max(1, math.ceil(length / (TILE_ROWS * LANES * chunk))),
        chunk=chunk,
        segmented=offsets is not None,
        segments=offsets.size - 1 if offsets is not None else 0,
        offset_stride=offsets.strides[0] if offsets is not None else 0,
        input_line=collapse(source, line_axes),
        input_axis=input_axis,
        output_line=collapse(output, line_axes) if line_axes else NO_DIMS,
        output_axis=output_axis,
        axis=axis,
        line_axes=line_axes,
    )
    # On their way out, outputs lie where values did.
    fits = output.dtype.itemsize == spec.dtype.itemsize
    return replace(
        work,
        input_turned=_is_turned(work, source, work.input_axis, output, work.output_line),
        output_turned=fits and _is_turned(work, output, work.output_axis, source, work.input_line),
    )


def _chunk(stored: np.dtype, value: np.dtype) -> int:
    """kernels/scan.cuh: CHUNK."""
    values = VECTOR_BYTES // max(value.itemsize, stored.itemsize)
    if value.kind not in "biu":
        return values
    return max(values, min(BYTES_OF_CHUNK, VECTOR_BYTES // stored.itemsize))


def _is_turned(work: Work, along: ArrayLayout, axis: Dims, across: ArrayLayout, line: Dims) -> bool:
    """Whether elements are neighbours along the axis in one array, and across it in the other."""
    if not (is_dense(along, axis) and line.strides[-1] == across.dtype.itemsize and line.sizes[-1] >= TURNED_LINES):
        return False
    return work.length * min(along.dtype.itemsize, across.dtype.itemsize) >= TURNED_BYTES


def scan_constants(spec: Scan | SegmentedScan, arrays: dict[str, ArrayLayout], work: Work) -> Constants:
    """Those of kernels/scan.cuh."""
    source, output = arrays["input"], arrays["output"]
    initial = isinstance(spec, Scan) and spec.initial
    return {
        "INPUT": c_name(source.dtype),
        "VALUE": c_name(spec.dtype),
        "OUTPUT": c_name(output.dtype),
        "OPERATION": spec.operation.capitalize(),
        "REVERSE": spec.reverse,
        "EXCLUSIVE": spec.exclusive,
        "SEGMENTED": work.segmented,
        "BYTES_OF_CHUNK": BYTES_OF_CHUNK,
        "INITIAL": initial,
        "INPUT_DENSE": is_dense(source, work.input_axis),
        "OUTPUT_DENSE": is_dense(output, work.output_axis),
        "INPUT_ALIGNED": source.element_aligned,
        "OUTPUT_ALIGNED": output.element_aligned,
        "INPUT_PACKED": _packed(source, work.input_axis, work, spec.reverse),
        "EVICTION": eviction_of(source),
        "OUTPUT_PACKED": not initial and _packed(output, work.output_axis, work, spec.reverse),
        "LINE_RANK_IN": work.input_line.rank,
        "LINE_RANK_OUT": work.output_line.rank,
        "AXIS_RANK_IN": work.input_axis.rank,
        "AXIS_RANK_OUT": work.output_axis.rank,
        "INDEX": c_name(work.index),
    }


def segment_constants(offsets: ArrayLayout | None, work: Work) -> Constants:
    """Those of kernels/scan_segments.cuh."""
    return {
        "OFFSET": c_name(offsets.dtype) if offsets is not None else "int",
        "OFFSET_ALIGNED": offsets.element_aligned if offsets is not None else 1,
        "HEADS_AT_ONCE": _heads_at_once(work) if work.segmented else 1,
    }


def _heads_at_once(work: Work) -> int:
    """Of 4, 8, 16 and 24, 4 were the fastest where segments have 256 elements, and 24 where they have 16."""
    heads_of_tile = TILE_ROWS * LANES * work.chunk * work.segments // max(work.length, 1)
    return 4 if heads_of_tile <= 4 * LANES else 24


def _packed(layout: ArrayLayout, axis: Dims, work: Work, reverse: bool) -> bool:
    """Whether every whole chunk lies dense and aligned, so that one access moves it."""
    chunk_bytes = work.chunk * layout.dtype.itemsize
    ends_on_chunk = not reverse or work.length % work.chunk == 0
    whole = is_dense(layout, axis) and work.length > 1 and ends_on_chunk
    return whole and chunk_bytes <= VECTOR_BYTES and layout.divides(chunk_bytes, work.line_axes)


def is_dense(layout: ArrayLayout, axis: Dims) -> bool:
    """Whether neighbours along the axis are neighbours in memory."""
    return axis.rank == 1 and axis.strides[0] == layout.dtype.itemsize


def scratch_bytes(spec: Scan | SegmentedScan, work: Work, aggregates: int = 1) -> int:
    """kernels/tickets.cuh: a word of tickets, and words with 32 bits of so many aggregates of each tile."""
    words = math.ceil(accumulator_bytes(spec.dtype) / 4) + work.segmented
    return 8 * (1 + work.lines * work.tiles * aggregates * words)
