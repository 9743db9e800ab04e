"""The plans of scans along an axis whose elements are not neighbours: kernels/scan_*columns.cu."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.dtypes import accumulator_bytes
from cudml.plan.layout import NO_DIMS, VECTOR_BYTES, ArrayLayout, Dims, index_type, power_of_two
from cudml.plan.loads import BY_COPIES, BY_ELEMENTS, EVICT_NORMALLY, IN_BULK, eviction_of
from cudml.plan.plan import Launch, Plan, Pointer, Scratch, Struct, constants_of
from cudml.plan.spec import Scan

if TYPE_CHECKING:
    from cudml.plan.scan import Work

_Constants: TypeAlias = dict[str, "str | int | bool"]

#: Steps of a column that one thread holds at the most, by itself or together with others of its block. Where there are
#: 256 the assembly line is as fast: 92 % of copy speed on an H200.
_SHORT_STEPS, _SHORT_SPANS = 32, 4
_SHORT_BLOCK, _SHORT_PIECE_BYTES = 128, 256

#: Threads walk down columns of one tile where each can move so many bytes of a row at once, where there are so many of
#: these threads for each multiprocessor, and rows are so long. On an H200 (4096, 65536) float32 takes 0.529 ms that way
#: and 0.550 ms on the assembly line, (256, 1048576) 0.548 and 0.555, (1024, 524288) float16 0.566 and 0.612. With 16
#: bytes, if enough threads are left, (64, 1024, 4096) takes 0.535 ms, and 0.541 with 8 (0.539 on the assembly line).
#: Where rows begin at any element and a thread moves 4 bytes, (700, 300001) takes 0.709 ms, not 0.673.
_WALKED_BYTES, _WALKING_THREADS, _WALKED_PIECE_BYTES = 8, 192, 512
_WALKING_BLOCK = 256

#: Blocks go down such columns in step (kernels/scan_columns_in_step.cu) where elements are as wide as what is summed
#: and strips have so many bytes of a row at least: on an H200 (256, 1048576) float32 takes 0.527 ms that way and 0.545
#: by threads that each go down as fast as they can, (1024, 262144) 0.506 and 0.532, (128, 1048576) int64 0.527 and
#: 0.543. Registers have room for two packs a thread where columns have no more rows of the tree than this.
_LEAST_STRIP_BYTES, _MOST_STEP_SCANNERS, _ROWS_OF_TWO_PACKS = 6144, 16, 2

#: Slices, their stages, and what of a strip is on its way at a time: (256, 1048576) float32 takes 0.528 ms with three
#: slices, 0.539 with four, and 0.602 with two.
_SLICE_BYTES, _SLICE_STAGES, _LAG_BYTES = 32768, 5, 98304

_REGISTER_BYTES = 4

#: Registers for the values of a thread, in bytes: many where an element takes much arithmetic, or a strip is narrow,
#: else few, as where outputs are wider than inputs. With 64 and 128 (65536, 4096) float32 reaches 94 and 85 % of copy
#: speed on an H200, (65536, 8192) float16 80 and 87 %, int8 summed in int64 87.1 and 86.4.
_VALUE_BYTES, _FEW_VALUE_BYTES = 128, 64

#: Bytes of a unit of the assembly line, and of a step of it. A copy in such units reaches 80 % of copy speed on an H200
#: with 128 bytes, 92 % with 256, 93 % with 512; but what is folded grows with the columns.
_UNIT_BYTES, _PIECE_BYTES = 32768, 256
_MOST_COLUMNS, _MOST_COLUMN_BYTES = 64, 512

#: Where tiles are turned, twice as large ones move twice as many neighbours along the axis. On an H200 (65536, 4096)
#: float32 from a transposed input reaches 90 % of copy speed along axis 1 and 87 along axis 0, else 86 and 84.
_TURNED_UNIT_BYTES = 65536

#: Where outputs of 8 bytes are wider than inputs, strips have _PIECE_BYTES of outputs, and units so many bytes of them:
#: on an H200 (65536, 4096) int8 summed in int64 reaches 86 % of copy speed with these and two sets of folders, else 84.
#: The less of the output is written at a time, the faster: with no more than so many stages, by the bytes of an
#: element, it reaches 91.6, but 90.6 with 7 of them; int32 93.5 in place of 93.2.
_WIDENED_UNIT_BYTES = 65536
_WIDENED_STAGES = {1: 4, 2: 7, 4: 4}

#: With more blocks to a strip than this, strips have half as many columns: (1048576, 256) float32 then has 17 blocks
#: to a strip and not 33, and reaches 90 % of copy speed on an H200, not 79.
_MANY_BLOCKS = 8

#: A strip is all there is beside the axis, and units are contiguous, up to so many columns.
_DENSE_COLUMNS = 64

#: Strips that are worked on side by side; and of contiguous ones so many that they have no more units than this, as
#: each is far from the next: (64, 65536, 64) float32 reaches 95.1 % of copy speed on an H200 with 8 strips, and 93.3
#: with all 64; with 4 and 16 strips 93.7 and 94.8. (64, 262144, 16) reaches 94.6 with 8, and 91.5 with 64.
_BAND, _BAND_UNITS = 512, 4096

#: Gates and the unit of a stage, and what the compiler may add between members.
_STAGE_EXTRA_BYTES = 128

_MOST_STAGES, _MOST_WARPS = 12, 32

#: Stages where elements are copied one by one, or wide contiguous strips have no more units than this: the less is on
#: its way, the less do blocks drift apart. On an H200 every second of 4096 columns takes 0.385 ms with 4 stages, 0.383
#: with 5 and 0.407 with 6, (4096, 1024, 64) float32 0.540, 0.545 and 0.548; but (256, 16384, 64), of 128 units, 0.613,
#: 0.595 and 0.580.
_FEW_STAGES, _FEW_UNITS = 4, 8
_ADDERS, _SCANNERS = 4, 8

#: Adders of strips of up to so many columns: on an H200 (67108864, 3) float32 takes 0.467 ms with 4 and 0.460 with 8,
#: (67108864, 4) 0.612 and 0.604; but (16777216, 16) 0.597 and 0.649. And of what is widened: int8 summed in int64 takes
#: 0.635 ms with 4 and 0.630 with 8.
_NARROW_COLUMNS, _MORE_ADDERS = 4, 8

#: Two sets of folders, so that one waits while the other works; but where few blocks share a strip one is enough, and
#: leaves halves the registers: (65536, 8192) bfloat16 reaches 86 % of copy speed on an H200 with one set, 65 with two,
#: and int32 summed in int64 93.2 and 90.7; but int8 summed in int64 70 and 86. One is enough too where elements are
#: copied one by one: every second of 4096 columns reaches 92.0 and 89.6.
_FEW_BLOCKS = 4

#: With so many blocks to a strip, from ... to, digits of 3 bits save a hop: on an H200 (65536, 4096) float32 reaches 94
#: % of copy speed with them and 92 with 2 bits, (1048576, 256) 92.6 and 92.0, (65536, 2048) int64 95.7 and 94.7, int8
#: summed in int64 86 and 82. Not halves, of which units are longer (88 and 92), nor int32 summed in int64 (90.6 and
#: 91.6). With more blocks there is too much to read, but for strips so narrow that many lanes read a column: of 16
#: columns 88.9 and 84.4.
_BLOCKS_OF_WIDE_DIGITS, _COLUMNS_OF_WIDE_DIGITS = (1, 20), 16

#: Words that a lane of a folder reads at a time: where few blocks share a strip, (65536, 4096) float32 reaches 94.5 %
#: of copy speed on an H200 with 7 and 94.4 with 14, which take 12 ms more to compile; (1048576, 256) 91.5 and 92.9.
_READS, _FEW_READS = 14, 7

#: Bits of the digits of such narrow strips where an aggregate is one word, and words that a lane reads of them, two
#: digits of 16 columns: on an H200 (16777216, 16) float32 takes 0.563 ms so and 0.574 with 3 bits, (33554432, 8) 0.568
#: and 0.578, (67108864, 3) 0.442 and 0.458, but 0.89 with 5; 16 columns of halves 0.594 and 0.592. With 23 words, in
#: which a third digit finds no registers, the first takes 0.711 ms.
_NARROW_DIGIT_BITS, _NARROW_READS = 4, 15

#: Loaders by the bytes they copy at a time; 0: none, they load elements. More would take registers from the scanners.
_LOADERS = {0: 6, 4: 4, 8: 4, 16: 2}

#: Loaders and scanners where rows begin at any element, by whether strips overlap. On an H200 (65536, 4097) float32, in
#: strips that do, takes 0.584 ms with 4 and 8, 0.587 with 2 and 8; rows of 4096 padded by an element, in strips that do
#: not, 0.581 ms with 2 and 8, 0.575 with 4 and 8, 0.563 with 8 and 4.
_SHIFTED_HANDS = {True: (4, 8), False: (8, 4)}

#: Gates of a stage of blocks that go down in step, and the word with the next ticket (kernels/tickets.cuh).
_SLICE_GATE_BYTES, _CONTROL_BYTES = 24, 8

#: kernels/column_units.cuh: LINE_WORDS.
_LINE_WORDS = 16

#: What memory writes at least: less of it is read first.
_SECTOR_BYTES = 32


class Columns(NamedTuple):
    """How an array is cut and an assembly line manned: the constants of kernels/scan_columns.cu."""

    columns: int
    vector: int
    span: int
    chunks: int
    unit_bits: int
    digit_bits: int
    reads: int
    dense: bool
    input_turned: bool
    output_turned: bool
    shifted: bool
    row_shift: int
    overlapping: bool
    load: int
    copy_bytes: int
    exchange: bool
    exchange_bytes: int
    stages: int
    prefetched: bool
    loaders: int
    adders: int
    folders: int
    folder_sets: int
    scanners: int

    @property
    def constants(self) -> _Constants:
        return {name.upper(): value for name, value in self._asdict().items()}

    @property
    def threads(self) -> int:
        return LANES * (2 + self.loaders + self.adders + self.folders * (1 + self.folder_sets) + self.scanners)


class _Case(NamedTuple):
    """What the choices depend on."""

    work: Work
    device: DeviceProperties
    reverse: bool
    inner: int
    """Columns that are neighbours, in both arrays where these are dense."""
    source: ArrayLayout
    output: ArrayLayout
    value: np.dtype
    dense_input: bool
    dense_output: bool

    @property
    def accumulator(self) -> int:
        return accumulator_bytes(self.value)

    @property
    def register_bytes(self) -> int:
        """What a value takes of a thread's registers, of which none is shared."""
        return max(_REGISTER_BYTES, self.accumulator)

    @property
    def unit_bytes(self) -> int:
        """Of a stage: five of them fit a multiprocessor at least, or three."""
        if self.work.turned:
            return min(_TURNED_UNIT_BYTES, _power_of_two_within(self.device.shared_bytes_per_block // 3))
        return min(_UNIT_BYTES, _power_of_two_within(self.device.shared_bytes_per_block // 5))

    @property
    def outer(self) -> int:
        return self.work.lines // self.inner

    def span(self, vector: int = 1, nbytes: int = _VALUE_BYTES) -> int:
        """Chunks of the span of a thread that has so many columns and bytes of values."""
        return max(1, min(LANES, nbytes // (self.work.chunk * self.register_bytes * vector)))

    def moves(self, layout: ArrayLayout, nbytes: int) -> bool:
        """Whether neighbours can be moved so many bytes at a time, from any multiple of them on."""
        dense = self.dense_input if layout is self.source else self.dense_output
        inner = self.work.line_axes[-1]
        axes = [axis for axis in range(len(layout.shape)) if axis != inner]
        return dense and layout.divides(nbytes, axes)

    def packs(self, layout: ArrayLayout, vector: int) -> bool:
        return self.moves(layout, min(VECTOR_BYTES, vector * layout.dtype.itemsize))

    def vector(self, widest: int) -> int:
        """Columns of a thread that both arrays move at once: a power of two."""
        vector = widest
        packed = [self.output] if self.work.input_turned or _is_shifted(self) else [self.source, self.output]
        while vector > 1 and not (self.inner % vector == 0 and all(self.packs(layout, vector) for layout in packed)):
            vector //= 2
        return vector


def plan_columns(
    spec: Scan, arrays: dict[str, ArrayLayout], constants: _Constants, work: Work, device: DeviceProperties
) -> Plan:
    """The launch of a scan of lines that lie side by side."""
    case = _case(spec, arrays["input"], arrays["output"], work, device)
    if work.turned:
        return _plan_assembly_line(case, constants, _choose(case))
    if work.length <= max(_SHORT_STEPS, _SHORT_SPANS * case.span() * work.chunk):
        return _plan_short(case, constants)
    if vector := _walked_columns(case):
        strips = _strips_in_step(case)
        return _plan_in_step(case, constants, strips) if strips else _plan_whole(case, constants, vector)
    return _plan_assembly_line(case, constants, _choose(case))


def _case(spec: Scan, source: ArrayLayout, output: ArrayLayout, work: Work, device: DeviceProperties) -> _Case:
    dense_input, dense_output = _dense(source, work.input_line), _dense(output, work.output_line)
    runs = {work.input_line.sizes[-1]} if dense_input else set()
    runs |= {work.output_line.sizes[-1]} if dense_output else set()
    if not runs:
        inner = work.lines
    elif len(runs) == 1:
        inner = runs.pop()
    else:
        inner = source.shape[work.line_axes[-1]]
    return _Case(work, device, spec.reverse, inner, source, output, spec.dtype, dense_input, dense_output)


def _dense(layout: ArrayLayout, line: Dims) -> bool:
    return line is not NO_DIMS and line.strides[-1] == layout.dtype.itemsize


def _plan_short(case: _Case, constants: _Constants) -> Plan:
    """One-shot blocks whose threads hold whole columns, or parts of them that meet in shared memory."""
    work = case.work
    widest = VECTOR_BYTES // max(case.source.dtype.itemsize, case.output.dtype.itemsize)
    if work.length <= _SHORT_STEPS:
        span = max(1, math.ceil(work.length / work.chunk))
        spans, length = 1, work.length
        room = 2 * _VALUE_BYTES // (span * work.chunk * case.register_bytes)
        vector = case.vector(_power_of_two_within(max(1, min(widest, room))))
        across = _SHORT_BLOCK
    else:
        room = _VALUE_BYTES // (work.chunk * case.register_bytes)
        vector = case.vector(_power_of_two_within(max(1, min(widest, room))))
        span, length = case.span(vector), 0
        spans = 1 << (math.ceil(work.length / (span * work.chunk)) - 1).bit_length()
        across = max(_SHORT_PIECE_BYTES // (vector * case.source.dtype.itemsize), _SHORT_BLOCK // spans)
    shares = {
        "SPAN": span,
        "SPANS": spans,
        "LENGTH": length,
        "VECTOR": vector,
        "ACROSS": across,
        "INPUT_PACKED": case.packs(case.source, vector),
        "OUTPUT_PACKED": case.packs(case.output, vector),
    }
    grid = math.ceil(work.lines / (vector * across))
    arguments = (Pointer("input"), Pointer("output"), work.geometry)
    launch = Launch("scan_short_columns", grid, spans * across, arguments, early=True)
    return Plan("scan_short_columns.cu", constants_of(**{**constants, **shares}), (launch,))


def _walked_columns(case: _Case) -> int:
    """Columns of each thread that walks down some; 0: there are too few of them, or they are too long."""
    size, work = case.output.dtype.itemsize, case.work
    if work.tiles > 1 or case.source.dtype.itemsize != size or case.inner * size < _WALKED_PIECE_BYTES:
        return 0
    threads = _WALKING_THREADS * case.device.multiprocessors
    most = _power_of_two_within(max(1, min(VECTOR_BYTES, work.lines * size // threads) // size))
    vector = case.vector(min(most, max(1, _VALUE_BYTES // (work.chunk * case.register_bytes))))
    return vector if work.lines >= vector * threads and vector * size >= _WALKED_BYTES else 0


def _plan_whole(case: _Case, constants: _Constants, vector: int) -> Plan:
    """Blocks whose threads walk down columns."""
    work, span = case.work, case.span(vector)
    shares = {
        "SPAN": span,
        "VECTOR": vector,
        "BLOCK": _WALKING_BLOCK,
        "EVEN": work.length % (span * work.chunk) == 0,
        "INPUT_PACKED": case.packs(case.source, vector),
        "OUTPUT_PACKED": case.packs(case.output, vector),
    }
    grid = math.ceil(work.lines / (vector * _WALKING_BLOCK))
    arguments = (Pointer("input"), Pointer("output"), work.geometry)
    launch = Launch("scan_whole_columns", grid, _WALKING_BLOCK, arguments, early=True)
    return Plan("scan_whole_columns.cu", constants_of(**{**constants, **shares}), (launch,))


class _Strips(NamedTuple):
    """How blocks that go down columns in step cut them."""

    nbytes: int
    """Of a step."""
    passes: int

    @property
    def packs(self) -> int:
        """Of a thread in each step."""
        return math.ceil(self.nbytes / (_MOST_STEP_SCANNERS * LANES * VECTOR_BYTES))

    @property
    def scanners(self) -> int:
        return math.ceil(self.nbytes / (self.packs * LANES * VECTOR_BYTES))

    @property
    def steps(self) -> int:
        """Of a slice."""
        return _power_of_two_within(_SLICE_BYTES // self.nbytes)

    @property
    def shared_bytes(self) -> int:
        """Stages, as wide as what all scanners have, and their gates."""
        return _SLICE_STAGES * (self.steps * self.packs * self.scanners * LANES * VECTOR_BYTES + _SLICE_GATE_BYTES)


def _strips_in_step(case: _Case) -> _Strips | None:
    """Those of columns that blocks go down in step; None where each thread goes down as fast as it can."""
    work, device, size = case.work, case.device, case.source.dtype.itemsize
    if device.compute_capability < (9, 0) or case.inner != work.lines:
        return None
    vector = VECTOR_BYTES // size
    is_kept = case.source.dtype == case.output.dtype == case.value and case.accumulator == size >= 4
    if not (is_kept and case.packs(case.source, vector) and case.packs(case.output, vector)):
        return None
    widest = (2 if _tree_rows(work) <= _ROWS_OF_TWO_PACKS else 1) * _MOST_STEP_SCANNERS * LANES * VECTOR_BYTES
    sectors = math.ceil(work.lines * size / _SECTOR_BYTES)
    passes = math.ceil(sectors * _SECTOR_BYTES / (device.multiprocessors * widest))
    strips = _Strips(math.ceil(sectors / (device.multiprocessors * passes)) * _SECTOR_BYTES, passes)
    fits = strips.shared_bytes <= device.shared_bytes_per_block
    return strips if strips.nbytes >= _LEAST_STRIP_BYTES and fits else None


def _tree_rows(work: Work) -> int:
    """Of a column: kernels/tree.cuh."""
    return math.ceil(work.length / (LANES * work.chunk))


def _plan_in_step(case: _Case, constants: _Constants, strips: _Strips) -> Plan:
    """A block for each multiprocessor, whose strips lie side by side."""
    work, size, blocks = case.work, case.source.dtype.itemsize, case.device.multiprocessors
    shares = {
        "SPAN": 1,
        "VECTOR": VECTOR_BYTES // size,
        "INPUT_PACKED": True,
        "OUTPUT_PACKED": True,
        "SCANNERS": strips.scanners,
        "PACKS": strips.packs,
        "STEPS": strips.steps,
        "STAGES": _SLICE_STAGES,
        "LAG": round(_LAG_BYTES / (strips.steps * strips.nbytes)),
        "ROW_BITS": max(1, (_tree_rows(work) - 1).bit_length()),
    }
    cut = Struct((strips.nbytes // size, strips.passes, math.ceil(work.length / strips.steps)), work.index)
    arguments = (Pointer("input"), Pointer("output"), Scratch(), work.geometry, cut)
    threads, shared = (strips.scanners + 2) * LANES, strips.shared_bytes
    launch = Launch("scan_columns_in_step", blocks, threads, arguments, shared_bytes=shared, early=True)
    constants = {**constants, **shares}
    return Plan("scan_columns_in_step.cu", constants_of(**constants), (launch,), scratch_bytes=_CONTROL_BYTES)


def _choose(case: _Case) -> Columns:
    """How the assembly line is manned for an array."""
    work, source = case.work, case.source
    copies, shifted = _copy_bytes(case), _is_shifted(case)
    size = source.dtype.itemsize if copies else case.value.itemsize
    dense = bool(copies) and _fits_densely(case)
    columns = case.inner if dense else _columns(case, size)
    plain = source.dtype.itemsize == case.output.dtype.itemsize >= 4 and columns >= LANES and not work.turned
    widened = not dense and _is_widened(case, size)
    value_bytes = _FEW_VALUE_BYTES if widened or (plain and not shifted) else _VALUE_BYTES
    overlapping = shifted and _overlap(case, columns)
    vector = 1 if work.output_turned else _vector(case, columns, value_bytes)
    vector = columns // LANES if overlapping else vector  # so that a warp has whole rows
    span = case.span(vector, value_bytes)
    chunks = _chunks(case, columns, size, span, widened)
    units, digits = math.ceil(work.length / (chunks * work.chunk)), _digit_bits(case, columns)
    bulk = dense and copies == VECTOR_BYTES and case.device.compute_capability >= (9, 0)
    exchange = dense and columns * size < 64 and size == case.output.dtype.itemsize and _contiguous_output(case)
    loaders, scanners = _SHIFTED_HANDS[overlapping] if shifted else (1 if bulk else _LOADERS[copies], _SCANNERS)
    while copies and not (dense or work.input_turned or shifted) and loaders * LANES % (columns * size // copies):
        loaders *= 2
    narrow = columns <= _NARROW_COLUMNS and size == case.output.dtype.itemsize
    adders = _MORE_ADDERS if widened or narrow else _ADDERS
    folders = math.ceil(columns / LANES)
    one_by_one = copies == size < VECTOR_BYTES and not (dense or work.input_turned or shifted)
    few_blocks = _blocks_of_strip(case, columns) <= _FEW_BLOCKS
    sets = 1 if one_by_one or (few_blocks and (size == 4 if widened else source.dtype.itemsize <= 2)) else 2
    chosen = Columns(
        columns=columns,
        vector=vector,
        span=span,
        chunks=chunks,
        unit_bits=max(1, math.ceil((units - 1).bit_length() / digits)) * digits,
        digit_bits=digits,
        reads=_reads(case, columns, digits),
        dense=dense,
        input_turned=work.input_turned,
        output_turned=work.output_turned,
        shifted=shifted,
        row_shift=(-1 if case.reverse else 1) * work.input_axis.strides[0] % VECTOR_BYTES if shifted else 0,
        overlapping=overlapping,
        load=IN_BULK if bulk else BY_COPIES if copies else BY_ELEMENTS,
        copy_bytes=copies or VECTOR_BYTES,
        exchange=exchange,
        exchange_bytes=_store_bytes(case, columns, span, exchange),
        stages=0,  # as many as there is room for, once it is known what one takes
        prefetched=bool(copies) and _prefetches(case),
        loaders=loaders,
        adders=adders,
        folders=folders,
        folder_sets=sets,
        scanners=min(scanners, _power_of_two_within(_MOST_WARPS - 2 - loaders - adders - folders * (sets + 1))),
    )
    stages = (case.device.shared_bytes_per_block - 64) // _stage_bytes(case, chosen)
    few = one_by_one or (dense and columns >= LANES and units <= _FEW_UNITS)
    most = _FEW_STAGES if few else _WIDENED_STAGES[size] if widened else _MOST_STAGES
    return chosen._replace(stages=max(2, min(most, stages)))


def _chunks(case: _Case, columns: int, size: int, span: int, widened: bool) -> int:
    """Chunks of a column in a unit whose staged elements have `size` bytes."""
    most = min(LANES * LANES, power_of_two(math.ceil(case.work.length / case.work.chunk)))
    steps = case.unit_bytes // (columns * size)
    if widened:
        steps = min(steps, _WIDENED_UNIT_BYTES // (columns * case.output.dtype.itemsize))
    return _power_of_two_within(max(span, min(most, steps // case.work.chunk)))


def _columns(case: _Case, size: int) -> int:
    """Columns of a strip whose staged elements have `size` bytes."""
    widest = min(_MOST_COLUMNS, max(4, _PIECE_BYTES // size), _MOST_COLUMN_BYTES // case.accumulator)
    if _is_widened(case, size):
        widest = min(widest, max(LANES, _PIECE_BYTES // case.output.dtype.itemsize))
    if case.work.turned:
        widest = max(widest, LANES)
    columns = min(widest, 1 << (case.inner - 1).bit_length())
    return columns // 2 if columns > LANES and _blocks_of_strip(case, columns) > _MANY_BLOCKS else columns


def _is_widened(case: _Case, size: int) -> bool:
    """Whether outputs of 8 bytes or more are wider than elements in a stage, of `size` bytes, are."""
    return case.output.dtype.itemsize >= 8 > size and not case.work.turned


def _blocks_of_strip(case: _Case, columns: int) -> float:
    return case.device.multiprocessors / (case.outer * math.ceil(case.inner / columns))


def _vector(case: _Case, columns: int, value_bytes: int) -> int:
    """Columns of a thread: as many as leave work for all lanes, but no more than 8 bytes."""
    widest = 8 // max(case.source.dtype.itemsize, case.output.dtype.itemsize)
    most = value_bytes // (case.work.chunk * case.register_bytes)
    return case.vector(_power_of_two_within(max(1, min(widest, most, columns // LANES)))) if columns % LANES == 0 else 1


def _eviction(case: _Case, chosen: Columns) -> str:
    """Evicted last, sums in more bytes than elements have take 1.5 to 2 % longer, narrow columns 0.5 %."""
    widened = case.value.itemsize > case.source.dtype.itemsize
    return EVICT_NORMALLY if widened or (chosen.dense and chosen.prefetched) else eviction_of(case.source)


def _plan_assembly_line(case: _Case, constants: _Constants, chosen: Columns) -> Plan:
    work = case.work
    overlap = _SECTOR_BYTES // case.output.dtype.itemsize - 1 if chosen.overlapping else 0
    across = math.ceil(case.inner / (chosen.columns - overlap))
    strips = case.outer * across
    steps = chosen.chunks * work.chunk
    units = math.ceil(work.length / steps)
    widest = max(1, min(_BAND, _BAND_UNITS // units)) if chosen.dense else _BAND
    band = math.ceil(strips / math.ceil(strips / widest))
    words = _LINE_WORDS + strips * units * chosen.columns * math.ceil(case.accumulator / 4)
    index = index_type((words, units * steps), _dims(work))
    index = max(index, work.index, key=lambda dtype: dtype.itemsize)
    shares = {
        **chosen.constants,
        "EVICTION": _eviction(case, chosen),
        "INDEX": "int" if index.itemsize == 4 else "long long",
        "OUTPUT_PACKED": case.packs(case.output, chosen.vector),
        "INPUT_PACKED": chosen.load != BY_ELEMENTS,
    }
    cut = Struct((case.inner, across, strips, units, band), index)
    arguments = (Pointer("input"), Pointer("output"), Scratch(), Struct(work.geometry.values, index), cut)
    grid = min(strips * units, case.device.multiprocessors)
    shared = chosen.stages * _stage_bytes(case, chosen)
    launch = Launch("scan_columns", grid, chosen.threads, arguments, shared_bytes=shared, early=True)
    return Plan("scan_columns.cu", constants_of(**{**constants, **shares}), (launch,), scratch_bytes=8 * words)


def _dims(work: Work) -> tuple[Dims, ...]:
    return (work.input_line, work.input_axis, work.output_line, work.output_axis)


def _copy_bytes(case: _Case) -> int:
    """The widest asynchronous copies that can load any strip; 0: none, or stages of values are smaller."""
    size = case.source.dtype.itemsize
    if case.device.compute_capability < (8, 0) or size > case.value.itemsize:
        return 0
    by_element = size if size in (4, 8, VECTOR_BYTES) and case.source.element_aligned else 0
    if case.work.input_turned:
        chunk = case.work.chunk * size
        return chunk if chunk >= 4 and _turned_bytes(case, case.source) % chunk == 0 else by_element
    if case.work.output_turned and size != case.output.dtype.itemsize:
        return 0
    if _fits_densely(case):
        width = _dense_bytes(case, case.source, 0)
        return width if width >= max(4, size) else 0
    if _is_shifted(case):
        return VECTOR_BYTES
    widths = [width for width in (16, 8, 4) if width >= size and case.inner * size % width == 0]
    return next((width for width in widths if case.moves(case.source, width)), by_element)


def _is_shifted(case: _Case) -> bool:
    """Whether the rows of a strip begin or end at any element, and are copied by what lies aligned of them."""
    size, work = case.source.dtype.itemsize, case.work
    copied = size in (4, 8) and size <= case.value.itemsize and case.device.compute_capability >= (8, 0)
    if not copied or work.turned or _fits_densely(case) or case.inner < LANES:
        return False
    aligned = case.moves(case.source, VECTOR_BYTES) and case.inner * size % VECTOR_BYTES == 0
    return case.dense_input and case.source.element_aligned and not aligned


def _overlap(case: _Case, columns: int) -> bool:
    """kernels/column_units.cuh: OVERLAPPING."""
    source, output = case.source, case.output
    if source.dtype.itemsize != output.dtype.itemsize or source.shape != output.shape or not columns >= LANES:
        return False
    strides = zip(output.shape, source.strides, output.strides, strict=True)
    alike = all(size == 1 or (mine - other) % VECTOR_BYTES == 0 for size, mine, other in strides)
    aligned = source.alignment == output.alignment == VECTOR_BYTES
    return alike and aligned and case.dense_output and not case.moves(output, _SECTOR_BYTES)


def _fits_densely(case: _Case) -> bool:
    """Whether a strip can be all there is beside the axis."""
    widest = min(_DENSE_COLUMNS, _MOST_COLUMN_BYTES // case.accumulator)
    return 2 <= case.inner <= widest and case.dense_input and _is_contiguous(case) and not case.work.turned


def _dense_bytes(case: _Case, layout: ArrayLayout, start: int) -> int:
    """What divides the places and sizes of all rows of a contiguous unit, from `start` bytes of a line on."""
    axis, inner = case.work.axis, case.work.line_axes[-1]
    others = [stride for i, stride in enumerate(layout.strides) if i not in (axis, inner) and layout.shape[i] > 1]
    line = case.work.length * case.inner * layout.dtype.itemsize
    return math.gcd(layout.alignment, line, start, VECTOR_BYTES, *others)


def _turned_bytes(case: _Case, layout: ArrayLayout) -> int:
    """What divides the places of all lines that are dense along the axis, from either end."""
    axis = case.work.axis or 0
    others = [stride for i, stride in enumerate(layout.strides) if i != axis and layout.shape[i] > 1]
    steps = (case.work.length, layout.shape[axis])  # one more with an initial value
    return math.gcd(layout.alignment, VECTOR_BYTES, *others, *(n * layout.dtype.itemsize for n in steps))


def _is_contiguous(case: _Case) -> bool:
    """Whether the steps of an inner run follow each other in the input."""
    return case.work.input_axis.strides[0] == case.inner * case.source.dtype.itemsize


def _contiguous_output(case: _Case) -> bool:
    return case.dense_output and case.work.output_axis.strides[0] == case.inner * case.output.dtype.itemsize


def _digit_bits(case: _Case, columns: int) -> int:
    """kernels/column_fold.cuh: DIGIT_BITS."""
    few, most = _BLOCKS_OF_WIDE_DIGITS
    plain = case.accumulator <= 8 and case.output.dtype.itemsize >= 4 and columns >= LANES
    wide = plain and few <= _blocks_of_strip(case, columns) <= most
    narrowest = _COLUMNS_OF_WIDE_DIGITS if case.source.dtype.itemsize >= 4 else _NARROW_COLUMNS
    if columns <= narrowest and case.accumulator == 4:
        return _NARROW_DIGIT_BITS
    return 3 if wide or columns <= _COLUMNS_OF_WIDE_DIGITS else 2


def _reads(case: _Case, columns: int, digits: int) -> int:
    """kernels/column_fold.cuh: READS."""
    few = digits == 3 and (columns < LANES or _blocks_of_strip(case, columns) <= _FEW_BLOCKS)
    return _FEW_READS if few else _NARROW_READS if digits == _NARROW_DIGIT_BITS else _READS


def _prefetches(case: _Case) -> bool:
    """kernels/column_loaders.cuh: PREFETCHED.

    Where units of neighbouring tickets are one run of memory, or outputs are widened: on an H200 (16777216, 16) float32
    reaches 95.3 % of copy speed with it and 93.0 without, (4194304, 64) 85.5 and 83.8. Others lose by it: (1048576,
    256) reaches 96.5 and 97.2, (2097152, 256) float16 79.8 and 88.2, (4096, 1024, 64) 93.2 and 94.8.
    """
    work, size = case.work, case.source.dtype.itemsize
    if work.turned or _is_shifted(case):
        return False
    if not case.dense_input:  # the beginning of a row has to lie inside the array
        return work.input_line.rank == 1 and work.input_line.strides[0] > size
    near = _fits_densely(case) and (case.outer == 1 or case.inner < LANES)
    return near or size < case.output.dtype.itemsize


def _store_bytes(case: _Case, columns: int, span: int, exchange: bool) -> int:
    """How many bytes are stored at once of outputs that go through a stage."""
    if exchange:
        return _exchange_bytes(case, columns, span)
    return _turned_bytes(case, case.output) if case.work.output_turned else VECTOR_BYTES


def _exchange_bytes(case: _Case, columns: int, span: int) -> int:
    """How many bytes of a dense output can be stored at once."""
    size = case.output.dtype.itemsize
    longer = case.output.shape[case.work.axis or 0] != case.work.length
    start = columns * size if longer else 0
    return math.gcd(_dense_bytes(case, case.output, start), span * case.work.chunk * columns * size)


def _stage_bytes(case: _Case, chosen: Columns) -> int:
    """kernels/column_units.cuh: STAGE_BYTES and struct Stage."""
    size = case.value.itemsize if chosen.load == BY_ELEMENTS else case.source.dtype.itemsize
    rows = max(1, chosen.chunks // LANES)
    row_chunks = chosen.chunks // rows
    spans = rows * (row_chunks // chosen.span)
    pitch = chosen.columns * size + chosen.row_shift + (VECTOR_BYTES if chosen.shifted else 0)
    across = chosen.columns // chosen.vector
    shared = min(spans, 1 if across >= LANES else _power_of_two_within(LANES // across))
    spread = math.ceil(pitch / 16) * 16 % 128 if shared > 1 else 0
    in_rows = math.ceil(rows * (row_chunks * case.work.chunk * pitch + spread) / 16) * 16
    by_line = chosen.columns * (chosen.chunks * case.work.chunk * size + VECTOR_BYTES)
    data = by_line if chosen.input_turned else in_rows + (VECTOR_BYTES if chosen.shifted else 0)
    items = spans + rows + 2 + (LANES // row_chunks).bit_length() - 1
    return data + math.ceil(items * chosen.columns * case.accumulator / 16) * 16 + _STAGE_EXTRA_BYTES


def _power_of_two_within(n: int) -> int:
    """The largest that is not greater."""
    return 1 << (n.bit_length() - 1)
