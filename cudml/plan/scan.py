"""The plans of scans and segmented scans: kernels/scan_*.cu."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.dtypes import accumulator_bytes, c_name
from cudml.plan.layout import NO_DIMS, VECTOR_BYTES, ArrayLayout, Dims, collapse, index_type, outer_to_inner, step
from cudml.plan.loads import BY_COPIES, BY_ELEMENTS, IN_BULK
from cudml.plan.plan import Launch, Plan, Pointer, Scratch, Struct, constants_of
from cudml.plan.spec import Scan, SegmentedScan

TILE_ROWS = 64

#: With fewer lines than this side by side, threads that walk down columns would use less than a sector of 32 bytes of
#: what they load, unless these are all there are.
_ENOUGH_LINES = 8

#: Warps that share a line, and rows that each of them holds, by the number of rows. On an H200 lines of float32 in one
#: piece reach 97 to 100 % of copy speed with these; blocks of 32 warps reach 85 %, more than 4 rows a thread 97 %.
LINE_SHARES = (
    *((rows, (1, rows)) for rows in (1, 2, 3, 4)),
    *((2 * warps, (warps, 2)) for warps in (3, 4, 6, 8, 12, 16)),
    *((rows, (rows // 3, 3)) for rows in (36, 48)),
    (TILE_ROWS, (16, 4)),
)

#: Warps of a block that works on short lines, at least.
_LINES_WARPS = 4

#: Rows of short lines that a warp holds where they are loaded element by element, a few bytes at a time.
_SPREAD_ROWS = 4

#: Adders and scanners of the assembly line of kernels/scan_stream.cu. At 2^28 float32 all of 2, 4 and 8 adders with 8
#: and 16 scanners reach 96 to 97 % of copy speed on an H200; where elements take more arithmetic, more are faster:
#: 2^29 float16 reaches 86 % with the first, 97 % with the second; one segment 62 and 95 % with the first and the third.
_HANDS = {"plain": (4, 8), "halves": (8, 16), "segments": (8, 8)}
_HALVES = ("float16", "bfloat16")

#: A marker finds the first segment of a tile in 3 looks at memory or more, which take longer than the tile.
_MARKERS = 6
_LOADERS = {BY_ELEMENTS: 8, BY_COPIES: 8, IN_BULK: 1}

#: Six stages of 32 KB fill the shared memory of an H200; five cost a point, four ten.
_MOST_STAGES = 12

#: Gates and the ticket of a stage, and what the compiler may add between members.
_STAGE_EXTRA_BYTES = 128


_Constants: TypeAlias = dict[str, "str | int | bool"]


def plan_scan(spec: Scan, arrays: dict[str, ArrayLayout], device: DeviceProperties) -> Plan:
    """The launches of a scan of `input` into `output`."""
    work = _cut(spec, arrays["input"], arrays["output"])
    constants = _constants(spec, arrays, work, initial=spec.initial)
    if arrays["output"].size == 0:
        return Plan("scan_lines.cu", constants_of(**constants), ())
    if _columns_are_better(work, arrays["input"], arrays["output"]):
        from cudml.plan.scan_columns import plan_columns  # as long as the rest: only for those who need it

        return plan_columns(spec, arrays, constants, work, device)
    return _plan_rows(spec, arrays, constants, work, device)


def plan_segmented_scan(spec: SegmentedScan, arrays: dict[str, ArrayLayout], device: DeviceProperties) -> Plan:
    """The launches of a segmented scan of `input` into `output`, the segments given by `offsets`."""
    work = _cut(spec, arrays["input"], arrays["output"], arrays["offsets"])
    constants = _constants(spec, arrays, work, initial=False)
    if arrays["output"].size == 0:
        return Plan("scan_lines.cu", constants_of(**constants), ())
    return _plan_rows(spec, arrays, constants, work, device)


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

    @property
    def geometry(self) -> Struct:
        """kernels/scan.cuh: struct Geometry."""
        dims = (self.input_line, self.input_axis, self.output_line, self.output_axis)
        counts = (self.lines, self.length, self.tiles, self.segments, self.offset_stride)
        return Struct(counts + sum((d.numbers for d in dims), ()), self.index)

    @property
    def index(self) -> np.dtype:
        counts = (
            self.lines * (self.tiles + 1),
            self.tiles * TILE_ROWS * LANES * self.chunk,
            self.segments * self.offset_stride,
        )
        dims = (self.input_line, self.input_axis, self.output_line, self.output_axis)
        return index_type(map(abs, counts), dims)

    @property
    def rows(self) -> int:
        """Rows of a line."""
        return math.ceil(self.length / (LANES * self.chunk))


def _chunk(stored: np.dtype, value: np.dtype) -> int:
    """kernels/scan.cuh: CHUNK."""
    values = max(1, VECTOR_BYTES // value.itemsize)
    if value.kind not in "biu":
        return values
    return max(values, min(8, VECTOR_BYTES // stored.itemsize))


def _cut(
    spec: Scan | SegmentedScan, source: ArrayLayout, output: ArrayLayout, offsets: ArrayLayout | None = None
) -> Work:
    axis = spec.axis if isinstance(spec, Scan) else 0
    chunk = _chunk(source.dtype, spec.dtype)
    if axis is None:
        line_axes: tuple[int, ...] = ()
        lines, length = 1, source.size
        input_axis = collapse(source, range(len(source.shape)))
        output_axis = collapse(output, (0,))
    else:
        line_axes = outer_to_inner((i for i in range(len(source.shape)) if i != axis), source, output)
        lines, length = math.prod(source.shape[i] for i in line_axes), source.shape[axis]
        input_axis, output_axis = collapse(source, (axis,)), collapse(output, (axis,))
    return Work(
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


def _constants(spec: Scan | SegmentedScan, arrays: dict[str, ArrayLayout], work: Work, initial: bool) -> _Constants:
    """Those of kernels/scan.cuh."""
    source, output, offsets = arrays["input"], arrays["output"], arrays.get("offsets")
    return {
        "INPUT": c_name(source.dtype),
        "VALUE": c_name(spec.dtype),
        "OUTPUT": c_name(output.dtype),
        "OPERATION": spec.operation.capitalize(),
        "REVERSE": spec.reverse,
        "EXCLUSIVE": spec.exclusive,
        "SEGMENTED": work.segmented,
        "OFFSET": c_name(offsets.dtype) if offsets is not None else "int",
        "OFFSET_ALIGNED": offsets.element_aligned if offsets is not None else 1,
        "INITIAL": initial,
        "INPUT_ALIGNED": source.element_aligned,
        "OUTPUT_ALIGNED": output.element_aligned,
        "INPUT_PACKED": _packed(source, work.input_axis, work, spec.reverse),
        "OUTPUT_PACKED": not initial and _packed(output, work.output_axis, work, spec.reverse),
        "LINE_RANK_IN": work.input_line.rank,
        "LINE_RANK_OUT": work.output_line.rank,
        "AXIS_RANK_IN": work.input_axis.rank,
        "AXIS_RANK_OUT": work.output_axis.rank,
        "INDEX": "int" if work.index.itemsize == 4 else "long long",
    }


def _packed(layout: ArrayLayout, axis: Dims, work: Work, reverse: bool) -> bool:
    """Whether every whole chunk lies dense and aligned, so that one access moves it."""
    chunk_bytes = work.chunk * layout.dtype.itemsize
    ends_on_chunk = not reverse or work.length % work.chunk == 0
    whole = _dense(layout, axis) and work.length > 1 and ends_on_chunk
    return whole and chunk_bytes <= VECTOR_BYTES and layout.divides(chunk_bytes, work.line_axes)


def _dense(layout: ArrayLayout, axis: Dims) -> bool:
    return axis.rank == 1 and axis.strides[0] == layout.dtype.itemsize


def _columns_are_better(work: Work, source: ArrayLayout, output: ArrayLayout) -> bool:
    """Whether each thread should walk down a line of its own, because the lines lie side by side."""
    if work.axis is None or work.lines < 2:
        return False
    neighbours = source.shape[work.line_axes[-1]] * source.dtype.itemsize
    if work.lines < _ENOUGH_LINES and step(work.axis, source) != neighbours:
        return False
    return step(work.line_axes[-1], source, output) < step(work.axis, source, output)


def _plan_rows(
    spec: Scan | SegmentedScan,
    arrays: dict[str, ArrayLayout],
    constants: _Constants,
    work: Work,
    device: DeviceProperties,
) -> Plan:
    if work.tiles > 1:
        if work.lines * work.tiles <= device.multiprocessors:
            return _plan_linked_tiles(spec, constants, work)
        return _plan_stream(spec, arrays, constants, work, device)
    chunks = math.ceil(work.length / work.chunk)
    if 0 < chunks <= LANES // 2 and not work.segmented:
        return _plan_short_lines(constants, work, 1 << (chunks - 1).bit_length())
    return _plan_lines(constants, work)


def _plan_short_lines(constants: _Constants, work: Work, line_lanes: int) -> Plan:
    """Several lines for each warp."""
    rows = 1 if constants["INPUT_PACKED"] else _SPREAD_ROWS
    shares = {
        "LINE_LANES": line_lanes,
        "LENGTH": work.length,
        "WARPS": 1,
        "ROWS": rows,
        "GROUPS": _LINES_WARPS,
    }
    grid = math.ceil(work.lines * line_lanes / (rows * _LINES_WARPS * LANES))
    arguments = (Pointer("input"), Pointer("output"), work.geometry)
    launch = Launch("scan_short_lines", grid, _LINES_WARPS * LANES, arguments)
    return Plan("scan_lines.cu", constants_of(**constants, **shares, LINKED=0), (launch,))


def _plan_lines(constants: _Constants, work: Work) -> Plan:
    """Several warps for each line, or one."""
    warps, rows = next(share for limit, share in LINE_SHARES if work.rows <= limit)
    groups = 1 if work.segmented else max(1, _LINES_WARPS // warps)
    shares = {"LINE_LANES": LANES, "LENGTH": 0, "WARPS": warps, "ROWS": rows, "GROUPS": groups, "LINKED": 0}
    arguments = (Pointer("input"), Pointer("output"), Pointer("offsets"), Scratch(), work.geometry)
    launch = Launch("scan_lines", math.ceil(work.lines / groups), groups * warps * LANES, arguments)
    return Plan("scan_lines.cu", constants_of(**constants, **shares), (launch,))


def _plan_linked_tiles(spec: Scan | SegmentedScan, constants: _Constants, work: Work) -> Plan:
    """A block for each tile of a few lines."""
    warps, rows = LINE_SHARES[-1][1]
    shares = {"LINE_LANES": LANES, "LENGTH": 0, "WARPS": warps, "ROWS": rows, "GROUPS": 1, "LINKED": 1}
    arguments = (Pointer("input"), Pointer("output"), Pointer("offsets"), Scratch(), work.geometry)
    launch = Launch("scan_lines", work.lines * work.tiles, warps * LANES, arguments)
    return Plan(
        "scan_lines.cu", constants_of(**constants, **shares), (launch,), scratch_bytes=_scratch_bytes(spec, work)
    )


def _plan_stream(
    spec: Scan | SegmentedScan,
    arrays: dict[str, ArrayLayout],
    constants: _Constants,
    work: Work,
    device: DeviceProperties,
) -> Plan:
    """An assembly line in every multiprocessor, which takes tile after tile of all lines."""
    source = arrays["input"]
    staged = min(source.dtype.itemsize, spec.dtype.itemsize)
    as_stored = staged == source.dtype.itemsize
    load = _load(source, work, device) if as_stored else BY_ELEMENTS
    stage_bytes = TILE_ROWS * LANES * work.chunk * staged
    if load == IN_BULK and not (constants["INPUT_PACKED"] and work.chunk * staged == VECTOR_BYTES):
        stage_bytes += VECTOR_BYTES
    rest = _stage_rest_bytes(work, accumulator_bytes(spec.dtype))
    halves = spec.dtype.name in _HALVES and load == IN_BULK  # ordinary loaders leave no room for so many
    adders, scanners = _HANDS["segments" if work.segmented else "halves" if halves else "plain"]
    buffers = 0 if constants["OUTPUT_PACKED"] else scanners * LANES * work.chunk * spec.dtype.itemsize
    stages = min(_MOST_STAGES, (device.shared_bytes_per_block - buffers - 64) // (stage_bytes + rest))
    manned = {
        "LOAD": load,
        "STAGES": stages,
        "LOADERS": _LOADERS[load],
        "MARKERS": min(_MARKERS, stages) if work.segmented else 0,
        "ADDERS": adders,
        "SCANNERS": scanners,
    }
    warps = sum(manned[role] for role in ("LOADERS", "MARKERS", "ADDERS", "SCANNERS")) + 2
    tickets = work.lines * work.tiles
    arguments = (Pointer("input"), Pointer("output"), Pointer("offsets"), Scratch(), work.geometry)
    grid = min(tickets, device.multiprocessors)
    launch = Launch("scan_stream", grid, warps * LANES, arguments, shared_bytes=stages * stage_bytes)
    scratch_bytes = _scratch_bytes(spec, work)
    return Plan("scan_stream.cu", constants_of(**constants, **manned), (launch,), scratch_bytes=scratch_bytes)


def _load(source: ArrayLayout, work: Work, device: DeviceProperties) -> int:
    """How stages that hold elements as they are stored are loaded."""
    if device.compute_capability >= (9, 0) and _dense(source, work.input_axis):
        return IN_BULK
    copied = source.dtype.itemsize in (4, 8, VECTOR_BYTES) and source.element_aligned
    return BY_COPIES if device.compute_capability >= (8, 0) and copied else BY_ELEMENTS


def _scratch_bytes(spec: Scan | SegmentedScan, work: Work) -> int:
    """kernels/stream.cuh: a word of tickets, and words with 32 bits of each tile's aggregate."""
    words = math.ceil(_item_bytes(work, accumulator_bytes(spec.dtype)) / 4)
    return 8 * (1 + work.lines * work.tiles * words)


def _item_bytes(work: Work, accumulator: int) -> int:
    """kernels/scan.cuh: struct Headed is a value and an int, padded to twice the larger of the two."""
    return 2 * max(accumulator, 4) if work.segmented else accumulator


def _stage_rest_bytes(work: Work, accumulator: int) -> int:
    """kernels/scan_stream.cu: struct Stage, which comes beside the tile."""
    heads = TILE_ROWS * LANES * work.chunk // 8 if work.segmented else 4
    return (TILE_ROWS + 1) * _item_bytes(work, accumulator) + heads + _STAGE_EXTRA_BYTES
