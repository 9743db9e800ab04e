"""The plans of scans along an axis whose elements are not neighbours: kernels/scan_columns.cu and its short sibling."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cudml.plan.device import DeviceProperties
from cudml.plan.dtypes import accumulator_bytes
from cudml.plan.layout import NO_DIMS, VECTOR_BYTES, ArrayLayout, Dims, index_type
from cudml.plan.plan import Launch, Plan, Pointer, Scratch, Struct, constants_of
from cudml.plan.spec import Scan

if TYPE_CHECKING:
    from cudml.plan.scan import Work

LANES = 32
TILE_ROWS = 64

_Constants: TypeAlias = dict[str, "str | int | bool"]

#: Steps of a column that one thread holds at the most, by itself or together with others of its block.
_SHORT_STEPS, _SHORT_SPANS = 32, 16
_SHORT_BLOCK = 128

#: Registers for the values of a thread.
_VALUE_BYTES = 128

#: What a unit of the assembly line has. Where it is a few columns wide a unit costs more than its bytes: on an H200
#: (67108864, 3) float32 reaches 61 % of copy speed with 24 KB and 78 % with 48 KB.
_UNIT_BYTES, _FEW_COLUMNS = 32768, 4

#: How wide the pieces of a box are: wide ones are read faster, but many blocks then share a strip, and fold what the
#: others publish. (4096, 65536) float32 reaches 82 % with 256 bytes and 78 % with 128; (1048576, 256) reaches 78 and
#: 83 %, (65536, 4096) 76 and 78 %; one run each. Widened integers lose by it: (65536, 2048) int32 summed in int64
#: reached 76 % with 256 bytes and 64 % with 128, in runs of their own.
_PIECE_BYTES, _NARROW_PIECE_BYTES, _NARROW_BYTES = 256, 128, 16384

#: A strip is all there is beside the axis, and units are contiguous, up to so many columns.
_DENSE_COLUMNS = 64

#: The aggregates of the columns of a strip.
_MOST_COLUMN_BYTES = 512

_BY_ELEMENTS, _BY_COPIES, _IN_BULK = 0, 1, 2
_GROUP_BITS = 18
_MOST_STAGES = 12
_MOST_STATIC_BYTES = 49152
_LOADERS, _ORDINARY_LOADERS, _ADDERS, _SCANNERS = 4, 6, 4, 8


@dataclass(frozen=True, slots=True)
class Columns:
    """How an array is cut and an assembly line manned: the constants of kernels/scan_columns.cu."""

    columns: int
    vector: int
    span: int
    rows: int
    bundle: int
    bundles_at_once: int
    dense: bool
    load: int
    copy_bytes: int
    exchange: bool
    exchange_bytes: int
    stages: int
    loaders: int
    adders: int
    folders: int
    scanners: int

    @property
    def constants(self) -> _Constants:
        return {name.upper(): value for name, value in asdict(self).items()}

    @property
    def threads(self) -> int:
        return LANES * (2 + self.loaders + self.adders + (self.bundle > 1) + self.folders + self.scanners)


@dataclass(frozen=True, slots=True)
class _Case:
    """What the choices depend on."""

    work: Work
    device: DeviceProperties
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
    def unit_bytes(self) -> int:
        """Of a stage: five of them fit a multiprocessor at least."""
        return min(_UNIT_BYTES, _power_of_two(self.device.shared_bytes_per_block // 5))

    @property
    def outer(self) -> int:
        return self.work.lines // self.inner

    def span(self, vector: int = 1) -> int:
        """Chunks of the span of a thread that has so many columns."""
        return max(1, min(LANES, _VALUE_BYTES // (self.work.chunk * self.accumulator * vector)))

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
        while vector > 1 and not (
            self.inner % vector == 0 and self.packs(self.source, vector) and self.packs(self.output, vector)
        ):
            vector //= 2
        return vector


def plan_columns(
    spec: Scan,
    arrays: dict[str, ArrayLayout],
    constants: _Constants,
    work: Work,
    device: DeviceProperties,
    choice: Columns | None = None,
) -> Plan:
    """The launch of a scan of lines that lie side by side; `choice` is for measurements."""
    case = _case(spec, arrays["input"], arrays["output"], work, device)
    steps = case.span() * work.chunk
    if choice is None and work.length <= max(_SHORT_STEPS, _SHORT_SPANS * steps):
        return _plan_short(case, constants)
    return _plan_assembly_line(case, constants, choice or choose(case))


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
    return _Case(work, device, inner, source, output, spec.dtype, dense_input, dense_output)


def _dense(layout: ArrayLayout, line: Dims) -> bool:
    return line is not NO_DIMS and line.strides[-1] == layout.dtype.itemsize


def _plan_short(case: _Case, constants: _Constants) -> Plan:
    """One-shot blocks whose threads hold whole columns, or parts of them that meet in shared memory."""
    work = case.work
    if work.length <= _SHORT_STEPS:
        span = max(1, math.ceil(work.length / work.chunk))
        spans, length = 1, work.length
    else:
        span, length = case.span(), 0
        parts, spans = LANES // span, math.ceil(work.length / (span * work.chunk))
        spans = math.ceil(spans / parts) * parts if spans > parts else spans
    largest = max(case.source.dtype.itemsize, case.output.dtype.itemsize)
    room = 2 * _VALUE_BYTES // (span * work.chunk * case.accumulator)
    vector = case.vector(_power_of_two(max(1, min(VECTOR_BYTES // largest, room)))) if spans == 1 else 1
    across = max(LANES, _SHORT_BLOCK // spans // LANES * LANES)
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
    launch = Launch("scan_short_columns", grid, spans * across, arguments)
    return Plan("scan_short_columns.cu", constants_of(**{**constants, **shares}), (launch,))


def choose(case: _Case) -> Columns:
    """How the assembly line is manned for an array."""
    work, source = case.work, case.source
    copies = _copy_bytes(case)
    size = source.dtype.itemsize if copies else case.value.itemsize
    row = LANES * work.chunk
    dense = bool(copies) and _fits_densely(case, size)
    piece = _PIECE_BYTES if case.inner * size > _NARROW_BYTES else _NARROW_PIECE_BYTES
    widest = max(4, min(piece, case.unit_bytes // row) // size)
    widest = min(widest, _MOST_COLUMN_BYTES // case.accumulator)
    columns = case.inner if dense else min(widest, 1 << (case.inner - 1).bit_length())
    widest_size = max(size, case.output.dtype.itemsize)
    unit_bytes = case.unit_bytes * 3 // 2 if columns <= _FEW_COLUMNS else case.unit_bytes
    rows = min(LANES, _power_of_two(max(1, unit_bytes // (row * columns * widest_size))))
    vector = case.vector(2) if max(source.dtype.itemsize, case.output.dtype.itemsize) <= 2 and columns % 2 == 0 else 1
    strips = case.outer * math.ceil(case.inner / columns)
    bundle, bundles_at_once = _bundles(math.ceil(case.device.multiprocessors / strips), math.ceil(case.accumulator / 4))
    bulk = dense and copies == VECTOR_BYTES and case.device.compute_capability >= (9, 0)
    narrow = columns * size < 64 and size == case.output.dtype.itemsize
    exchange = dense and narrow and _contiguous_output(case)
    exchange_bytes = _exchange_bytes(case, columns, case.span(vector)) if exchange else VECTOR_BYTES
    loaders = 1 if bulk else _LOADERS if copies else _ORDINARY_LOADERS
    folders = math.ceil(columns / LANES)
    hands = 2 + loaders + (bundle > 1) + folders + _SCANNERS
    adders = _ADDERS - 1 if (hands + _ADDERS) % 4 == 1 else _ADDERS  # registers are dealt out to four warps at a time
    while copies and not dense and loaders * LANES % (columns * size // copies):
        loaders *= 2
    chosen = Columns(
        columns=columns,
        vector=vector,
        span=case.span(vector),
        rows=rows,
        bundle=bundle,
        bundles_at_once=bundles_at_once,
        dense=dense,
        load=_IN_BULK if bulk else _BY_COPIES if copies else _BY_ELEMENTS,
        copy_bytes=copies or VECTOR_BYTES,
        exchange=exchange,
        exchange_bytes=exchange_bytes,
        stages=1,
        loaders=loaders,
        adders=adders,
        folders=folders,
        scanners=_SCANNERS,
    )
    return with_stages(case, chosen)


def with_stages(case: _Case, chosen: Columns) -> Columns:
    """The same with as many stages as there is room for."""
    item = accumulator_bytes(case.value)
    common, of_stage = _GROUP_BITS * chosen.columns * item + 256, _stage_rest(chosen, item)
    stages = (case.device.shared_bytes_per_block - common) // (_stage_bytes(case, chosen) + of_stage)
    stages = min(stages, (_MOST_STATIC_BYTES - common) // of_stage)
    return Columns(**{**asdict(chosen), "stages": max(2, min(_MOST_STAGES, stages))})


def _bundles(blocks: int, words: int) -> tuple[int, int]:
    """Units of a bundle and bundles read at a time, where so many blocks share a strip."""
    bundle = next(size for limit, size in ((4, 1), (16, 4), (48, 8), (1 << 30, 16)) if blocks <= limit)
    while bundle > 1 and bundle * words > 32:
        bundle //= 2
    return bundle, max(1, min(blocks // bundle + 1, max(2, 24 // words)))


def _plan_assembly_line(case: _Case, constants: _Constants, chosen: Columns) -> Plan:
    work = case.work
    across = math.ceil(case.inner / chosen.columns)
    strips = case.outer * across
    steps = chosen.rows * LANES * work.chunk
    units = math.ceil(work.length / steps)
    item_words = math.ceil(case.accumulator / 4)
    words = (
        1
        + strips
        + strips * (units + (units // chosen.bundle if chosen.bundle > 1 else 0)) * chosen.columns * item_words
    )
    index = index_type((words, units * steps), _dims(work))
    index = max(index, work.index, key=lambda dtype: dtype.itemsize)
    shares = {
        **chosen.constants,
        "INDEX": "int" if index.itemsize == 4 else "long long",
        "OUTPUT_PACKED": case.packs(case.output, chosen.vector),
        "INPUT_PACKED": chosen.load != _BY_ELEMENTS,
    }
    cut = Struct((case.inner, across, strips, units), index)
    arguments = (Pointer("input"), Pointer("output"), Scratch(), Struct(work.geometry.values, index), cut)
    grid = min(strips * units, case.device.multiprocessors)
    shared = chosen.stages * _stage_bytes(case, chosen)
    launch = Launch("scan_columns", grid, chosen.threads, arguments, shared_bytes=shared)
    return Plan("scan_columns.cu", constants_of(**{**constants, **shares}), (launch,), scratch_bytes=8 * words)


def _dims(work: Work) -> tuple[Dims, ...]:
    return (work.input_line, work.input_axis, work.output_line, work.output_axis)


def _copy_bytes(case: _Case) -> int:
    """The widest asynchronous copies that can load any strip; 0: none, or stages of values are smaller."""
    size = case.source.dtype.itemsize
    if case.device.compute_capability < (8, 0) or size > case.value.itemsize:
        return 0
    if _fits_densely(case, size):
        width = _dense_bytes(case, case.source, 0)
        return width if width >= max(4, size) else 0
    widths = [width for width in (16, 8, 4) if width >= size and case.inner * size % width == 0]
    return next((width for width in widths if case.moves(case.source, width)), 0)


def _fits_densely(case: _Case, size: int) -> bool:
    """Whether a strip can be all there is beside the axis, with elements of `size` bytes in a stage."""
    widest = min(_DENSE_COLUMNS, _MOST_COLUMN_BYTES // case.accumulator)
    row_bytes = LANES * case.work.chunk * case.inner * size
    return 2 <= case.inner <= widest and row_bytes <= case.unit_bytes and case.dense_input and _is_contiguous(case)


def _dense_bytes(case: _Case, layout: ArrayLayout, start: int) -> int:
    """What divides the places and sizes of all rows of a contiguous unit, from `start` bytes of a line on."""
    axis, inner = case.work.axis, case.work.line_axes[-1]
    others = [stride for i, stride in enumerate(layout.strides) if i not in (axis, inner) and layout.shape[i] > 1]
    line = case.work.length * case.inner * layout.dtype.itemsize
    return math.gcd(layout.alignment, line, start, VECTOR_BYTES, *others)


def _is_contiguous(case: _Case) -> bool:
    """Whether the steps of an inner run follow each other in the input."""
    return case.work.input_axis.strides[0] == case.inner * case.source.dtype.itemsize


def _contiguous_output(case: _Case) -> bool:
    return case.dense_output and case.work.output_axis.strides[0] == case.inner * case.output.dtype.itemsize


def _exchange_bytes(case: _Case, columns: int, span: int) -> int:
    """How many bytes of a dense output can be stored at once."""
    size = case.output.dtype.itemsize
    longer = case.output.shape[case.work.axis or 0] != case.work.length
    start = columns * size if longer else 0
    return math.gcd(_dense_bytes(case, case.output, start), span * case.work.chunk * columns * size)


def _stage_bytes(case: _Case, chosen: Columns) -> int:
    """kernels/scan_columns.cu: STAGE_BYTES."""
    size = (case.source if chosen.load != _BY_ELEMENTS else case.output).dtype.itemsize
    if chosen.load == _BY_ELEMENTS:
        size = case.value.itemsize
    pitch = chosen.columns * size
    spans = chosen.rows * (LANES // chosen.span)
    across = chosen.columns // chosen.vector
    shared = min(spans, 1 if across >= LANES else _power_of_two(LANES // across))
    spread = math.ceil(pitch / 16) * 16 % 128 if shared > 1 else 0
    return math.ceil(chosen.rows * (LANES * case.work.chunk * pitch + spread) / 16) * 16


def _stage_rest(chosen: Columns, item: int) -> int:
    """kernels/scan_columns.cu: struct Stage."""
    spans = chosen.rows * (LANES // chosen.span)
    return (spans + 2 * chosen.rows + 1) * chosen.columns * item + 128


def _power_of_two(n: int) -> int:
    """The largest that is not greater."""
    return 1 << (n.bit_length() - 1)
