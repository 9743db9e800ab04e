"""The plans of scans and segmented scans: kernels/scan_*.cu."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.dtypes import accumulator_bytes, c_name
from cudml.plan.layout import NO_DIMS, VECTOR_BYTES, ArrayLayout, Dims, collapse, index_type, outer_to_inner, step
from cudml.plan.loads import BY_COPIES, BY_ELEMENTS, IN_BULK, eviction_of
from cudml.plan.plan import Launch, Plan, Pointer, Scratch, Struct, constants_of
from cudml.plan.spec import Scan, SegmentedScan

TILE_ROWS = 64

#: With fewer lines than this side by side, threads that walk down columns would use less than a sector of 32 bytes of
#: what they load, unless these are all there are.
_ENOUGH_LINES = 8

#: Where inputs are neighbours along the axis and outputs across it, or the other way round, tiles of columns are turned
#: in shared memory. So many bytes of a line and so many lines at least fill a line of the cache and half a warp.
_TURNED_BYTES, _TURNED_LINES = 128, 17

#: Warps that share a line, and rows that each of them holds, by the number of rows. On an H200 lines of float32 in one
#: piece reach 97 to 100 % of copy speed with these; blocks of 32 warps reach 85 %, more than 4 rows a thread 97 %.
LINE_SHARES = (
    *((rows, (1, rows)) for rows in (1, 2, 3, 4)),
    *((2 * warps, (warps, 2)) for warps in (3, 4, 6, 8, 12, 16)),
    *((rows, (rows // 3, 3)) for rows in (33, 36, 48)),
    (TILE_ROWS, (16, 4)),
)

#: Threads for which there have to be registers where lines of 4-byte elements are moved one by one: else too few of
#: these are on their way. (65536, 4097) reaches 93 % of copy speed without this, 96 to 98 % with it. Two rows of halves
#: fit as few registers: left alone they take 42, which leaves room for 1024 threads, and (65536, 8192) reaches 84 %.
_RESIDENT_THREADS = 1536

#: kernels/scan_linked.cu: MOST_GROUPS, each of 32 tiles.
_MOST_LINKED = 192

#: kernels/scan_linked.cu: COPIES.
_LINKED_COPIES = 8

#: Parts of a tile, and warps of a block that holds one and rows of each: the first of which no more than half of the
#: multiprocessors get one. On an H200 two tiles of float32 take 2.4 us in 4 parts and 3.2 us whole, 32 tiles 4.2 us in
#: 2 parts and 4.6 us in 4: with more blocks, it costs more to wait for all of them than is gained by loading less.
LINKED_SHARES = ((4, (4, 4)), (2, (8, 4)), (1, (16, 4)))

#: Warps of a block that works on short lines, at least.
_LINES_WARPS = 4

#: Rows of short lines that a warp holds where they are loaded element by element, a few bytes at a time. Lines of three
#: float32 reach 99 % of copy speed with 2 and 98 % with 4; where they do not lie end to end, 89 and 88 %.
_SPREAD_ROWS = 2

#: The same where they lie end to end in whole chunks that do not fill the lanes. (2097152, 100) float32 take 0.399 ms
#: with 2, 0.403 ms with 3 and 4, and 0.422 ms by a warp for each line.
_FLAT_ROWS = 2

#: Adders and scanners of the assembly line of kernels/scan_stream.cu. At 2^28 float32 all of 2, 4 and 8 adders with 8
#: and 16 scanners reach 96 to 97 % of copy speed on an H200; where elements take more arithmetic, more are faster: 2^29
#: float16 reaches 86 % with 4 and 8, 97 % with 8 and 16; segments of 16 float32 82 % with 8 and 8, 89 % with 8 and 16.
#: Folders of large segmented items need more registers than so many warps leave them: 2^27 int64 in segments of 256
#: take 0.63 ms with 4 and 8, and 0.90 ms with 8 and 16; by loaders of compute capability 7.5 0.80 ms with 2 and 4, and
#: 1.05 ms with 8 and 8. Of integers that are summed in more bytes than they are stored in, int8 reaches 88 and 90 %
#: with 8 and 16 scanners, int32 the same with both. Three lines of 67108865 float32, which begin at any address, take
#: 0.458 and 0.418 ms.
_HANDS = {
    "plain": (4, 8),
    "shifted": (4, 16),
    "halves": (8, 16),
    "segments": (8, 16),
    "large segments": (4, 8),
    "segments by loaders": (8, 8),
    "large segments by loaders": (2, 4),
    "widened": (4, 16),
}
_HALVES = ("float16", "bfloat16")
_LARGE_BYTES = 8

#: Those of which 16 scanners store by lines of the cache where neither array lies in whole chunks; 8 of them are slower
#: so. Three lines of 67108865 float64 take 0.948 ms without this and 0.842 ms with it.
_BY_LINES = ("shifted", "halves", "widened")

#: Offsets take a marker longer to look at than a tile takes to pass. In bulk, 3 to 5 are as fast where segments have 16
#: elements, and 2 are too few.
_MARKERS = {IN_BULK: 4, BY_COPIES: 6, BY_ELEMENTS: 5}

#: Offsets that a search among all of them begins with. 512 and 2048 are as fast where segments have 256 elements; where
#: they have 16, the more there are, the closer is the guess in between.
_SAMPLES, _FEW_SAMPLES = 2048, 256

#: kernels/scan_stream.cu: PARTED, for elements of so many bytes, where lines begin at any address, and where a block
#: gets no more than so many tiles. On an H200 2^27 int64 reach 93.5 % of copy speed without and 96.3 % with it, float64
#: 93.6 and 94.6 %, three lines of 67108865 float32 87.7 and 89.1 %, 2^24 float32 83 and 86 %; but 2^26 float32 93.2 and
#: 92.0 %, 2^28 96.1 and 94.4 %.
_PARTED_BYTES, _FEW_TICKETS = 8, 32

#: kernels/scan_stream.cu: CACHE_LINE.
_CACHE_LINE_BYTES = 128

#: Shared memory with less room than this gets few of them, and not a stage less.
_ROOMY_BYTES = 1 << 17

#: Warps that load a tile, and teams of them, which take turns.
_LOADERS = {BY_COPIES: (8, 1), IN_BULK: (1, 1)}

#: The same of ordinary loads, for elements of 8 bytes and more, for smaller ones, and for segments. Planned for compute
#: capability 7.5, an H200 takes for 2^27 int64 0.59 ms with the first, 0.61 ms with six teams of two and 0.67 ms with
#: the second; for 2^28 float32 0.56 ms with the second, 0.63 ms with six teams of two, and 0.92 ms with a single team
#: of eight, one of whose threads takes the tickets as well.
_LARGE_TEAMS, _SMALL_TEAMS, _SEGMENT_TEAMS = (2, 4), (4, 3), (2, 4)

#: Six stages of 32 KB fill the shared memory of an H200; five cost a point, four ten.
_MOST_STAGES = 8

#: Gates and the ticket of a stage, and what the compiler may add between members.
_STAGE_EXTRA_BYTES = 128

#: kernels/scan.cuh: BYTES_OF_CHUNK. An assembly line whose output has 8 bytes for each takes few, and no more than so
#: many stages: the less of the output is written at a time, the faster. On an H200 2^28 int8 reach 90.5 % of copy speed
#: with 8 bytes, and with 4 of them 93.2 % in 8 stages, 93.7 % in 6, 93.9 % in 5 and 87.8 % in 4.
_BYTES_OF_CHUNK, _FEW_BYTES_OF_CHUNK, _STAGES_OF_FEW = 8, 4, 6


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

    def is_flat(self, line: Dims, axis: Dims) -> bool:
        """Whether the lines lie end to end."""
        return line.rank == axis.rank == 1 and line.strides[0] == self.length * axis.strides[0]


def _chunk(stored: np.dtype, value: np.dtype) -> int:
    """kernels/scan.cuh: CHUNK."""
    values = max(1, VECTOR_BYTES // value.itemsize)
    if value.kind not in "biu":
        return values
    return max(values, min(_BYTES_OF_CHUNK, VECTOR_BYTES // stored.itemsize))


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


def _is_turned(work: Work, along: ArrayLayout, axis: Dims, across: ArrayLayout, line: Dims) -> bool:
    """Whether elements are neighbours along the axis in one array, and across it in the other."""
    if not (_dense(along, axis) and line.strides[-1] == across.dtype.itemsize and line.sizes[-1] >= _TURNED_LINES):
        return False
    return work.length * min(along.dtype.itemsize, across.dtype.itemsize) >= _TURNED_BYTES


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
        "BYTES_OF_CHUNK": _BYTES_OF_CHUNK,
        "OFFSET": c_name(offsets.dtype) if offsets is not None else "int",
        "OFFSET_ALIGNED": offsets.element_aligned if offsets is not None else 1,
        "HEADS_AT_ONCE": _heads_at_once(work) if work.segmented else 1,
        "INITIAL": initial,
        "INPUT_DENSE": _dense(source, work.input_axis),
        "OUTPUT_DENSE": _dense(output, work.output_axis),
        "INPUT_ALIGNED": source.element_aligned,
        "OUTPUT_ALIGNED": output.element_aligned,
        "INPUT_PACKED": _packed(source, work.input_axis, work, spec.reverse),
        "EVICTION": eviction_of(source),
        "OUTPUT_PACKED": not initial and _packed(output, work.output_axis, work, spec.reverse),
        "LINE_RANK_IN": work.input_line.rank,
        "LINE_RANK_OUT": work.output_line.rank,
        "AXIS_RANK_IN": work.input_axis.rank,
        "AXIS_RANK_OUT": work.output_axis.rank,
        "INDEX": "int" if work.index.itemsize == 4 else "long long",
    }


def _heads_at_once(work: Work) -> int:
    """Of 4, 8, 16 and 24, 4 were the fastest where segments have 256 elements, and 24 where they have 16."""
    heads_of_tile = TILE_ROWS * LANES * work.chunk * work.segments // max(work.length, 1)
    return 4 if heads_of_tile <= 4 * LANES else 24


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
    if work.turned:
        return True
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
        if work.lines * work.tiles <= min(device.multiprocessors, _MOST_LINKED):
            return _plan_linked_tiles(spec, constants, work, device)
        return _plan_stream(spec, arrays, constants, work, device)
    chunks = math.ceil(work.length / work.chunk)
    flat = _is_flat(constants, work)
    if 0 < chunks <= (LANES if flat else LANES // 2) and not work.segmented:
        return _plan_short_lines(constants, work, 1 << (chunks - 1).bit_length(), flat)
    return _plan_lines(spec, constants, work, device)


def _is_flat(constants: _Constants, work: Work) -> bool:
    """Whether lines lie end to end in whole chunks, a number of them that is no power of two."""
    in_chunks = bool(constants["INPUT_PACKED"] and constants["OUTPUT_PACKED"])
    ends_meet = work.is_flat(work.input_line, work.input_axis) and work.is_flat(work.output_line, work.output_axis)
    return in_chunks and ends_meet and (work.length // work.chunk).bit_count() != 1


def _plan_short_lines(constants: _Constants, work: Work, line_lanes: int, flat: bool) -> Plan:
    """Several lines for each warp."""
    rows = _FLAT_ROWS if flat else 1 if constants["INPUT_PACKED"] else _SPREAD_ROWS
    in_order = not constants["REVERSE"]
    shares = {
        "LINE_LANES": line_lanes,
        "LENGTH": work.length,
        "FLAT_IN": in_order and constants["INPUT_DENSE"] and work.is_flat(work.input_line, work.input_axis),
        "FLAT_OUT": in_order
        and constants["OUTPUT_DENSE"]
        and not constants["INITIAL"]
        and work.is_flat(work.output_line, work.output_axis),
        "WARPS": 1,
        "ROWS": rows,
        "GROUPS": _LINES_WARPS,
        "RESIDENT": 1,
    }
    grid = math.ceil(work.lines * line_lanes / (rows * _LINES_WARPS * LANES))
    arguments = (Pointer("input"), Pointer("output"), work.geometry)
    kernel = "scan_flat_lines" if flat else "scan_short_lines"
    launch = Launch(kernel, grid, _LINES_WARPS * LANES, arguments, early=True)
    return Plan("scan_lines.cu", constants_of(**constants, **shares), (launch,))


def _plan_lines(spec: Scan | SegmentedScan, constants: _Constants, work: Work, device: DeviceProperties) -> Plan:
    """Several warps for each line, or one."""
    warps, rows = next(share for limit, share in LINE_SHARES if work.rows <= limit)
    groups = 1 if work.segmented else max(1, _LINES_WARPS // warps)
    shares = {"LINE_LANES": LANES, "LENGTH": 0, "FLAT_IN": 0, "FLAT_OUT": 0}
    by_elements = not (constants["INPUT_PACKED"] and constants["OUTPUT_PACKED"])
    small = work.chunk == 4 if by_elements else work.chunk == 8 and rows == 2
    small = small and accumulator_bytes(spec.dtype) == 4
    resident = min(_RESIDENT_THREADS, device.threads_per_multiprocessor) if small else 0
    block = groups * warps * LANES
    shares |= {"WARPS": warps, "ROWS": rows, "GROUPS": groups, "RESIDENT": max(1, resident // block)}
    arguments = (Pointer("input"), Pointer("output"), Pointer("offsets"), work.geometry)
    launch = Launch("scan_lines", math.ceil(work.lines / groups), block, arguments, early=True)
    return Plan("scan_lines.cu", constants_of(**constants, **shares), (launch,))


def _plan_linked_tiles(spec: Scan | SegmentedScan, constants: _Constants, work: Work, device: DeviceProperties) -> Plan:
    """A block for each tile of a few lines, or several."""
    tiles = work.lines * work.tiles
    most = max(tiles, device.multiprocessors // 2)
    parts, (warps, rows) = next(share for share in LINKED_SHARES if tiles * share[0] <= most)
    shares = {"WARPS": warps, "ROWS": rows, "GROUPS": 1}
    arguments = (Pointer("input"), Pointer("output"), Pointer("offsets"), Scratch(), work.geometry)
    launch = Launch("scan_linked", tiles * parts, warps * LANES, arguments, early=True)
    scratch_bytes = _scratch_bytes(spec, work, parts * _LINKED_COPIES)
    return Plan("scan_linked.cu", constants_of(**constants, **shares), (launch,), scratch_bytes=scratch_bytes)


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
    load = _load(source, work, device, bool(constants["INPUT_PACKED"])) if as_stored else BY_ELEMENTS
    widened, most_stages = _is_widened(spec, arrays, constants, work, load), _MOST_STAGES
    if widened and (source.dtype.itemsize, arrays["output"].dtype.itemsize) == (1, 8):
        work, most_stages = _in_chunks_of(_FEW_BYTES_OF_CHUNK, work), _STAGES_OF_FEW
        constants = constants | {"BYTES_OF_CHUNK": work.chunk}
    stage_bytes = TILE_ROWS * LANES * work.chunk * staged
    if load == IN_BULK and not (constants["INPUT_PACKED"] and work.chunk * staged == VECTOR_BYTES):
        stage_bytes += _CACHE_LINE_BYTES
    rest = _stage_rest_bytes(work, accumulator_bytes(spec.dtype))
    kind = _kind_of_hands(spec, work, staged, load, bool(constants["INPUT_PACKED"]))
    adders, scanners = _HANDS[kind]
    by_lines = not widened and kind in _BY_LINES and _is_unpacked(constants)
    passed_on = 2 * source.dtype.itemsize if widened else spec.dtype.itemsize
    rows = 2 if by_lines and work.chunk * passed_on <= VECTOR_BYTES else 1  # kernels/scan_stream.cu: struct SpreadRows
    buffers = 0 if constants["OUTPUT_PACKED"] else scanners * rows * _row_buffer_bytes(work, passed_on)
    samples = _samples(work, device)
    free_bytes = device.shared_bytes_per_block - buffers - samples * work.index.itemsize - 64
    stages = min(most_stages, free_bytes // (stage_bytes + rest))
    tickets = work.lines * work.tiles
    is_parted = staged == _PARTED_BYTES or not constants["INPUT_PACKED"]
    parted = not work.segmented and (is_parted or tickets <= _FEW_TICKETS * device.multiprocessors)
    loaders, teams = _teams(work, staged) if load == BY_ELEMENTS else _LOADERS[load]
    manned = {
        "LOAD": load,
        "HARDWARE_GATES": device.hardware_gates,
        "PARTED": load == IN_BULK and parted,
        "STAGES": stages,
        "SAMPLES": samples,
        "LOADERS": loaders,
        "TEAMS": min(teams, stages),
        "MARKERS": min(_MARKERS[load], stages) if work.segmented else 0,
        "ADDERS": adders,
        "SCANNERS": scanners,
        "WIDENED": widened,
        "BY_LINES": by_lines,
        "IN_PIECES": arrays["output"].dtype == spec.dtype and _in_pieces(spec, arrays, constants, work),
    }
    takers = int(load == BY_ELEMENTS)
    warps = takers + manned["TEAMS"] * loaders + manned["MARKERS"] + adders + 2 + scanners
    arguments = (Pointer("input"), Pointer("output"), Pointer("offsets"), Scratch(), work.geometry)
    grid = min(tickets, device.multiprocessors)
    launch = Launch("scan_stream", grid, warps * LANES, arguments, shared_bytes=stages * stage_bytes, early=True)
    scratch_bytes = _scratch_bytes(spec, work)
    return Plan("scan_stream.cu", constants_of(**constants, **manned), (launch,), scratch_bytes=scratch_bytes)


def _kind_of_hands(spec: Scan | SegmentedScan, work: Work, staged: int, load: int, packed: bool) -> str:
    if work.segmented:
        large = "large " if accumulator_bytes(spec.dtype) >= _LARGE_BYTES else ""
        return large + ("segments" if load == IN_BULK else "segments by loaders")
    if load != IN_BULK:  # ordinary loaders leave no room for more
        return "plain"
    if spec.dtype.name in _HALVES:
        return "halves"
    if spec.dtype.kind in "iu" and staged < min(4, spec.dtype.itemsize):
        return "widened"
    return "plain" if packed or staged < 4 else "shifted"


def _is_unpacked(constants: _Constants) -> bool:
    """Whether a dense output lies in no whole chunks, nor does the input."""
    return bool(constants["OUTPUT_DENSE"]) and not (constants["INPUT_PACKED"] or constants["OUTPUT_PACKED"])


def _in_chunks_of(elements: int, work: Work) -> Work:
    """The same line in tiles of so much shorter chunks. Only integers give the same sums."""
    return replace(work, chunk=elements, tiles=math.ceil(work.length / (TILE_ROWS * LANES * elements)))


def _teams(work: Work, staged: int) -> tuple[int, int]:
    """Loaders of a team, and teams, of ordinary loads."""
    if work.segmented:
        return _SEGMENT_TEAMS
    return _LARGE_TEAMS if staged >= 8 else _SMALL_TEAMS


def _samples(work: Work, device: DeviceProperties) -> int:
    """kernels/segments.cuh: struct Samples, which is there in any case."""
    if not work.segmented:
        return 1
    return _SAMPLES if device.shared_bytes_per_block >= _ROOMY_BYTES else _FEW_SAMPLES


def _load(source: ArrayLayout, work: Work, device: DeviceProperties, packed: bool) -> int:
    """How stages that hold elements as they are stored are loaded: a packed input in whole chunks."""
    if device.compute_capability >= (9, 0) and _dense(source, work.input_axis):
        return IN_BULK
    piece = source.dtype.itemsize * (work.chunk if packed else 1)
    copied = piece in (4, 8, VECTOR_BYTES) and source.element_aligned
    return BY_COPIES if device.hardware_gates and copied else BY_ELEMENTS


def _is_widened(
    spec: Scan | SegmentedScan, arrays: dict[str, ArrayLayout], constants: _Constants, work: Work, load: int
) -> bool:
    """kernels/widened_rows.cuh: whether rows are summed in fewer bytes than lines, and leave in pieces of 16 bytes.

    On an H200 2^28 int8 take 0.646 ms without this and 0.624 ms with it.
    """
    source = arrays["input"]
    small = source.dtype.kind in "biu" and spec.dtype.kind in "iu" and source.dtype.itemsize <= 2 < spec.dtype.itemsize
    if not small or spec.operation != "sum" or work.segmented or constants["INITIAL"]:
        return False
    if load == IN_BULK and not constants["INPUT_PACKED"]:
        return False
    return _in_pieces(spec, arrays, constants, work)


def _in_pieces(spec: Scan | SegmentedScan, arrays: dict[str, ArrayLayout], constants: _Constants, work: Work) -> bool:
    """Whether outputs of a chunk lie in more than one whole piece of 16 bytes."""
    output = arrays["output"]
    ends_on_piece = not spec.reverse or work.length * output.dtype.itemsize % VECTOR_BYTES == 0
    in_pieces = bool(constants["OUTPUT_DENSE"]) and ends_on_piece and output.divides(VECTOR_BYTES, work.line_axes)
    return in_pieces and not constants["INITIAL"] and work.chunk * output.dtype.itemsize > VECTOR_BYTES


def _row_buffer_bytes(work: Work, size: int) -> int:
    """kernels/scan.cuh: struct RowBufferOf elements of that size."""
    chunk_bytes = work.chunk * size
    return LANES * chunk_bytes * 9 // 8 if chunk_bytes > VECTOR_BYTES else LANES * chunk_bytes


def _scratch_bytes(spec: Scan | SegmentedScan, work: Work, aggregates: int = 1) -> int:
    """kernels/tickets.cuh: a word of tickets, and words with 32 bits of so many aggregates of each tile."""
    words = math.ceil(accumulator_bytes(spec.dtype) / 4) + work.segmented
    return 8 * (1 + work.lines * work.tiles * aggregates * words)


def _item_bytes(work: Work, accumulator: int) -> int:
    """kernels/scan.cuh: struct Headed is a value and an int, padded to twice the larger of the two."""
    return 2 * max(accumulator, 4) if work.segmented else accumulator


def _stage_rest_bytes(work: Work, accumulator: int) -> int:
    """kernels/scan_stream.cu: struct Stage, which comes beside the tile."""
    heads = TILE_ROWS * LANES * work.chunk // 8 if work.segmented else 4
    return (TILE_ROWS + 1) * _item_bytes(work, accumulator) + heads + _STAGE_EXTRA_BYTES
