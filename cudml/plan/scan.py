"""The plans of scans and segmented scans: kernels/scan.cu."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cudml.plan.device import DeviceProperties
from cudml.plan.dtypes import accumulator_bytes, c_name
from cudml.plan.layout import NO_DIMS, VECTOR_BYTES, ArrayLayout, Dims, collapse, index_type, outer_to_inner, step
from cudml.plan.plan import Launch, Plan, Pointer, Struct, Workspace, constants_of
from cudml.plan.shares import BLOCK, LANES, WHOLE_TILE, share_of
from cudml.plan.spec import Scan, SegmentedScan

RADIX = 32
CARRY_BLOCK = 1024

#: Lines this short are walked by one thread each even where they are dense: a warp would be mostly idle.
_SHORT_LINE = 32

#: With fewer lines than this side by side, threads that walk down columns would use less than a sector of 32 bytes of
#: what they load.
_ENOUGH_LINES = 8


def plan_scan(spec: Scan, arrays: dict[str, ArrayLayout], device: DeviceProperties) -> Plan:
    """The launches of a scan of `input` into `output`."""
    source, output = arrays["input"], arrays["output"]
    work = _cut(spec, source, output)
    constants = _constants(spec, source, output, work, initial=spec.initial)
    if output.size == 0:
        return Plan("scan.cu", constants, ())
    if _columns_are_better(work, source, output):
        return _plan_columns(spec, constants, work)
    return _plan_rows(spec, constants, work)


def plan_segmented_scan(spec: SegmentedScan, arrays: dict[str, ArrayLayout], device: DeviceProperties) -> Plan:
    """The launches of a segmented scan of `input` into `output`, the segments given by `offsets`."""
    source, output, offsets = arrays["input"], arrays["output"], arrays["offsets"]
    work = _cut(spec, source, output, offsets)
    constants = _constants(spec, source, output, work, initial=False, offsets=offsets)
    if output.size == 0:
        return Plan("scan.cu", constants, ())
    return _plan_rows(spec, constants, work)


@dataclass(frozen=True, slots=True)
class _Work:
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

    @property
    def geometry(self) -> Struct:
        """kernels/scan.cu: struct Geometry."""
        dims = (self.input_line, self.input_axis, self.output_line, self.output_axis)
        counts = (self.lines, self.length, self.tiles, self.segments, self.offset_stride)
        return Struct(counts + sum((d.numbers for d in dims), ()), self.index)

    @property
    def index(self) -> np.dtype:
        counts = (
            self.lines * (self.tiles + 1),
            self.tiles * RADIX * RADIX * self.chunk,
            self.segments * self.offset_stride,
        )
        dims = (self.input_line, self.input_axis, self.output_line, self.output_axis)
        return index_type(map(abs, counts), dims)

    @property
    def share(self) -> tuple[int, int]:
        """Warps for a tile, and rows for each warp. In a segmented scan a block has one tile, whose heads it marks."""
        return WHOLE_TILE if self.segmented else share_of(self.length, self.chunk)


def _cut(
    spec: Scan | SegmentedScan, source: ArrayLayout, output: ArrayLayout, offsets: ArrayLayout | None = None
) -> _Work:
    axis = spec.axis if isinstance(spec, Scan) else 0
    chunk = max(1, VECTOR_BYTES // spec.dtype.itemsize)
    if axis is None:
        line_axes: tuple[int, ...] = ()
        lines, length = 1, source.size
        input_axis = collapse(source, range(len(source.shape)))
        output_axis = collapse(output, (0,))
    else:
        line_axes = outer_to_inner((i for i in range(len(source.shape)) if i != axis), source, output)
        lines, length = math.prod(source.shape[i] for i in line_axes), source.shape[axis]
        input_axis, output_axis = collapse(source, (axis,)), collapse(output, (axis,))
    return _Work(
        lines=lines,
        length=length,
        tiles=max(1, math.ceil(length / (RADIX * RADIX * chunk))),
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


def _constants(
    spec: Scan | SegmentedScan,
    source: ArrayLayout,
    output: ArrayLayout,
    work: _Work,
    initial: bool,
    offsets: ArrayLayout | None = None,
) -> tuple[tuple[str, str], ...]:
    warps, rows = work.share
    return constants_of(
        INPUT=c_name(source.dtype),
        VALUE=c_name(spec.dtype),
        OUTPUT=c_name(output.dtype),
        OPERATION=spec.operation.capitalize(),
        REVERSE=spec.reverse,
        EXCLUSIVE=spec.exclusive,
        SEGMENTED=offsets is not None,
        OFFSET=c_name(offsets.dtype) if offsets is not None else "int",
        OFFSET_ALIGNED=offsets.element_aligned if offsets is not None else 1,
        INITIAL=initial,
        INPUT_ALIGNED=source.element_aligned,
        OUTPUT_ALIGNED=output.element_aligned,
        INPUT_PACKED=_packed(source, work.input_axis, work, spec.reverse),
        OUTPUT_PACKED=not initial and _packed(output, work.output_axis, work, spec.reverse),
        WARPS=warps,
        ROWS=rows,
        LINE_RANK_IN=work.input_line.rank,
        LINE_RANK_OUT=work.output_line.rank,
        AXIS_RANK_IN=work.input_axis.rank,
        AXIS_RANK_OUT=work.output_axis.rank,
        INDEX="int" if work.index.itemsize == 4 else "long long",
    )


def _packed(layout: ArrayLayout, axis: Dims, work: _Work, reverse: bool) -> bool:
    """Whether every whole chunk lies dense and aligned, so that one access moves it."""
    chunk_bytes = work.chunk * layout.dtype.itemsize
    dense = axis.rank == 1 and axis.strides[0] == layout.dtype.itemsize and work.length > 1
    ends_on_chunk = not reverse or work.length % work.chunk == 0
    return dense and ends_on_chunk and chunk_bytes <= VECTOR_BYTES and layout.divides(chunk_bytes, work.line_axes)


def _columns_are_better(work: _Work, source: ArrayLayout, output: ArrayLayout) -> bool:
    """Whether each thread should walk down a line of its own, because the lines lie side by side or are short."""
    if work.axis is None or work.lines < _ENOUGH_LINES:
        return False
    if work.length <= _SHORT_LINE:
        return True
    return step(work.line_axes[-1], source, output) < step(work.axis, source, output)


def _plan_rows(spec: Scan | SegmentedScan, constants: tuple[tuple[str, str], ...], work: _Work) -> Plan:
    grid = math.ceil(work.lines * work.tiles / (BLOCK // (LANES * work.share[0])))
    carries = _Carries(spec, work)
    offsets = Pointer("offsets")
    scan = Launch(
        "scan_rows", grid, BLOCK, (Pointer("input"), Pointer("output"), carries.carries, offsets, work.geometry)
    )
    if work.tiles == 1:
        return Plan("scan.cu", constants, (scan,))
    reduce = Launch("reduce_rows", grid, BLOCK, (Pointer("input"), carries.aggregates, offsets, work.geometry))
    return Plan("scan.cu", constants, (reduce, carries.launch, scan), carries.nbytes)


def _plan_columns(spec: Scan, constants: tuple[tuple[str, str], ...], work: _Work) -> Plan:
    grid = math.ceil(work.lines * work.tiles / BLOCK)
    carries = _Carries(spec, work)
    scan = Launch("scan_columns", grid, BLOCK, (Pointer("input"), Pointer("output"), carries.carries, work.geometry))
    if work.tiles == 1:
        return Plan("scan.cu", constants, (scan,))
    reduce = Launch("reduce_columns", grid, BLOCK, (Pointer("input"), carries.aggregates, work.geometry))
    return Plan("scan.cu", constants, (reduce, carries.launch, scan), carries.nbytes)


class _Carries:
    """The launch between the two passes over long lines, and its place in the workspace."""

    def __init__(self, spec: Scan | SegmentedScan, work: _Work) -> None:
        value = accumulator_bytes(spec.dtype)
        # struct Headed is a value and an int, padded to twice the larger of the two.
        item = 2 * max(value, 4) if work.segmented else value
        aggregates = work.lines * work.tiles * item
        aggregates += -aggregates % VECTOR_BYTES
        self.nbytes = aggregates + work.lines * (work.tiles + 1) * item
        self.aggregates = Workspace(0)
        self.carries = Workspace(aggregates)
        self.launch = Launch("scan_carries", work.lines, CARRY_BLOCK, (self.aggregates, self.carries, work.geometry))
