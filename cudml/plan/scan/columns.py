"""The plans of scans of lines that lie side by side, by an assembly line that takes any of them:
kernels/scan_columns.cu.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES
from cudml.plan.dtypes import c_name
from cudml.plan.layout import (
    SECTOR_BYTES,
    VECTOR_BYTES,
    index_type,
    power_of_two,
    power_of_two_within,
)
from cudml.plan.loads import BY_COPIES, BY_ELEMENTS, EVICT_NORMALLY, IN_BULK, asked_for_ahead, eviction_of
from cudml.plan.plan import Launch, Plan, Pointer, Scratch, Struct, constants_of
from cudml.plan.scan.column_case import DENSE_COLUMNS, VALUE_BYTES, ColumnCase
from cudml.plan.scan.column_strips import SMALL_BYTES, Strip, turned_bytes
from cudml.plan.scan.work import Constants

#: Registers for the values of a thread, in bytes: VALUE_BYTES where an element takes much arithmetic, or a strip is
#: narrow, else fewer, as where outputs are wider than inputs. With 64 and 128 (65536, 4096) float32 reaches 94 and 85 %
#: of copy speed on an H200, (65536, 8192) float16 80 and 87 %, int8 summed in int64 87.1 and 86.4.
_FEW_VALUE_BYTES = 64

#: Bytes of a unit of the assembly line.
_UNIT_BYTES = 32768

#: Where tiles are turned, twice as large ones move twice as many neighbours along the axis. On an H200 (65536, 4096)
#: float32 from a transposed input reaches 90 % of copy speed along axis 1 and 87 along axis 0, else 86 and 84.
_TURNED_UNIT_BYTES = 65536

#: Where outputs of 8 bytes are wider than inputs, strips have 256 bytes of outputs, and units so many bytes of them:
#: on an H200 (65536, 4096) int8 summed in int64 reaches 86 % of copy speed with these and two sets of folders, else 84.
#: The less of the output is written at a time, the faster, where few blocks share a strip: with no more than so many
#: stages, it reaches 94.0, with 3 of them 93.3 and with 4 92.7, int16 94.3, 94.0 and 93.2, int32 96.1, 96.0 and 95.5.
#: But (1048576, 256) int8 reaches 92.9 with 4, and 75.7 with 2.
_WIDENED_UNIT_BYTES = 65536
_WIDENED_STAGES = 2

#: Strips that are worked on side by side; and of contiguous ones so many that they have no more units than this, as
#: each is far from the next: (64, 65536, 64) float32 reaches 95.1 % of copy speed on an H200 with 8 strips, and 93.3
#: with all 64; with 4 and 16 strips 93.7 and 94.8. (64, 262144, 16) reaches 94.6 with 8, and 91.5 with 64.
_BAND, _BAND_UNITS = 512, 4096

#: Gates and the unit of a stage, and what the compiler may add between members; and static shared memory of a block.
_STAGE_EXTRA_BYTES, _STATIC_BYTES = 128, 256

_LEAST_STAGES, _MOST_STAGES, _MOST_WARPS = 2, 12, 32

#: Stages where elements are copied one by one, or wide contiguous strips have no more units than this: the less is on
#: its way, the less do blocks drift apart. On an H200 every second of 4096 columns takes 0.385 ms with 4 stages, 0.383
#: with 5 and 0.407 with 6, (4096, 1024, 64) float32 0.540, 0.545 and 0.548; but (256, 16384, 64), of 128 units, 0.613,
#: 0.595 and 0.580.
_FEW_STAGES, _FEW_UNITS = 4, 8

#: And where contiguous strips are wider than others, with one set of folders: (2000, 2048, 79) float16 take 0.41 ms
#: with 4 stages, 0.46 with 6 and 0.59 with 12, (1000, 2048, 79) float32 0.368, 0.360 and 0.362, and 0.388 with 6 and
#: two sets, (1000, 2048, 99) int16 summed in int64 0.77 with 3 and 0.93 with 4.
_STAGES_OF_WIDE, _STAGES_OF_HALVES, _STAGES_OF_WIDENED = 6, 4, 3

_ADDERS, _SCANNERS = 4, 8

#: Adders of strips of up to so many columns: on an H200 (67108864, 3) float32 takes 0.467 ms with 4 and 0.460 with 8,
#: (67108864, 4) 0.612 and 0.604; but (16777216, 16) 0.597 and 0.649. And of what is widened: (1048576, 256) int8 summed
#: in int64 reaches 89.5 % of copy speed with 4 and 92.9 with 8.
_NARROW_COLUMNS, _MORE_ADDERS = 4, 8

#: Two sets of folders, so that one waits while the other works; but where few blocks share a strip one is enough, and
#: leaves halves the registers: (65536, 8192) bfloat16 reaches 86 % of copy speed on an H200 with one set, 65 with two,
#: and int32 summed in int64 93.2 and 90.7; but int8 summed in int64 70 and 86. One is enough too where elements are
#: copied one by one: every second of 4096 columns reaches 92.0 and 89.6.
_FOLDER_SETS = 2

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

#: Loaders and scanners where rows begin at any element, by whether strips overlap, or elements are small. On an H200
#: (65536, 4097) float32, in strips that do, takes 0.584 ms with 4 and 8, 0.587 with 2 and 8; rows of 4096 padded by an
#: element, in strips that do not, 0.581 ms with 2 and 8, 0.575 with 4 and 8, 0.563 with 8 and 4; (524288, 3, 71) int8
#: summed in int32 an H100 0.40 ms with 4 and 8, and 0.44 with 8 and 4.
_SHIFTED_HANDS = {True: (4, 8), False: (8, 4)}

#: Stages where these are summed in more bytes, and where elements are small, by whether no more blocks than so many
#: share a strip; with one set of folders: on an H200 (10000, 4097) int8 summed in int64 takes 115 us with 2 stages and
#: 126 with 3, int32 (30000, 2049), 4 blocks, 238 and 220; (10000, 8193) float16 114 with 3 and 122 with 4, (59840,
#: 2174) 171 and 157, and 176 with two sets.
_STAGES_OF_SHIFTED_WIDENED, _STAGES_OF_SHIFTED_SMALL = {True: 2, False: 3}, {True: 3, False: 4}
_FEW_BLOCKS_OF_SHIFTED = 3

#: Units of a ticket where rows begin at any element, so that neighbours share loads (kernels/scan_column_loaders.cuh):
#: on an H200 (65536, 4097) float32 takes 0.5781 ms with 1, 0.5697 with 2, 0.5720 with 3 and 0.5858 with 4 of them, rows
#: of 4096 padded by an element 0.555, 0.550 and, with 4, 0.563. Small elements have 1: (100000, 1000) int8 take an H100
#: 108 us so and 133 otherwise, (100000, 1004) int16 174 and 179; and so have those that are summed in more bytes.
_SHIFTED_UNITS_OF_TICKET = 2

#: Bytes of the input, at the most, that is asked for while the launch ahead ends: on an H100 (1024, 1024) float32 take
#: 5.1 us so and 6.6 otherwise, (2048, 1024) 7.7 and 8.7, (3072, 1024) 10.8 and 11.4, (65536, 16) 6.0 and 7.7, (2048,
#: 2048) 14.2 and 14.1, (4096, 2048) 27.4 and 25.8.
_AHEAD_BYTES = 12 << 20

#: kernels/scan_column_units.cuh: LINE_WORDS.
_LINE_WORDS = 16


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
    units_of_ticket: int
    stages: int
    prefetched: int
    loaders: int
    adders: int
    folders: int
    folder_sets: int
    scanners: int

    @property
    def constants(self) -> Constants:
        return {name.upper(): value for name, value in self._asdict().items()}

    @property
    def threads(self) -> int:
        return LANES * (2 + self.loaders + self.adders + self.folders * (1 + self.folder_sets) + self.scanners)


def plan_columns(case: ColumnCase, constants: Constants) -> Plan:
    """The launch of an assembly line."""
    work, chosen = case.work, _choose(case)
    overlap = SECTOR_BYTES // case.output.dtype.itemsize - 1 if chosen.overlapping else 0
    across = math.ceil(case.inner / (chosen.columns - overlap))
    strips = case.outer * across
    steps = chosen.chunks * work.chunk
    units = math.ceil(work.length / steps)
    widest = max(1, min(_BAND, _BAND_UNITS // units)) if chosen.dense else _BAND
    band = _band(strips, widest)
    words = _LINE_WORDS + strips * units * chosen.columns * math.ceil(case.accumulator / 4)
    index = index_type((words, units * steps), work.dims)
    index = max(index, work.index, key=lambda dtype: dtype.itemsize)
    shares = {
        **chosen.constants,
        "HARDWARE_GATES": case.device.hardware_gates,
        "HEADS_AT_ONCE": 1,  # kernels/scan_fold.cuh asks; columns have no segments
        "EVICTION": _eviction(case, chosen),
        "INDEX": c_name(index),
        "OUTPUT_PACKED": case.packs(case.output, chosen.vector),
        "INPUT_PACKED": chosen.load != BY_ELEMENTS,
    }
    cut = Struct((case.inner, across, strips, units, band), index)
    ahead = asked_for_ahead(case.source, _AHEAD_BYTES, case.device)
    arguments = (Pointer("input"), Pointer("output"), Scratch(), Struct(work.geometry.values, index), cut, ahead)
    grid = min(strips * units, case.device.multiprocessors)
    shared = chosen.stages * _stage_bytes(case, chosen)
    launch = Launch("scan_columns", grid, chosen.threads, arguments, shared_bytes=shared, early=True)
    return Plan("scan_columns.cu", constants_of(**{**constants, **shares}), (launch,), scratch_bytes=8 * words)


def _choose(case: ColumnCase) -> Columns:
    """How the assembly line is manned for an array, with as many stages as there is room for. Accumulators that are
    much wider than elements take more of a stage than these, and leave no room for two of full length."""
    strip = Strip.of(case)
    vector, span = _share_of_thread(case, strip)
    chosen = _manned(case, strip, vector, span, _chunks(case, strip, span))
    while _room(case, chosen) < _LEAST_STAGES:
        chunks = chosen.chunks // 2
        chosen = _manned(case, strip, vector, min(span, chunks), chunks)
    units = math.ceil(case.work.length / (chosen.chunks * case.work.chunk))
    return chosen._replace(stages=min(_most_stages(case, strip, units), _room(case, chosen)))


def _room(case: ColumnCase, chosen: Columns) -> int:
    """Stages that fit a block."""
    return (case.device.shared_bytes_per_block - _STATIC_BYTES) // _stage_bytes(case, chosen)


def _manned(case: ColumnCase, strip: Strip, vector: int, span: int, chunks: int) -> Columns:
    """The assembly line for units of so many chunks, without stages."""
    work = case.work
    units, digits = math.ceil(work.length / (chunks * work.chunk)), _digit_bits(case, strip)
    bulk = strip.dense and strip.copies == VECTOR_BYTES and case.device.bulk_copies
    exchange = _is_exchanged(case, strip)
    return Columns(
        columns=strip.columns,
        vector=vector,
        span=span,
        chunks=chunks,
        unit_bits=max(1, math.ceil((units - 1).bit_length() / digits)) * digits,
        digit_bits=digits,
        reads=_reads(strip, digits),
        dense=strip.dense,
        input_turned=work.input_turned,
        output_turned=work.output_turned,
        shifted=strip.shifted,
        row_shift=(-1 if case.reverse else 1) * work.input_axis.strides[0] % VECTOR_BYTES if strip.shifted else 0,
        overlapping=strip.overlapping,
        load=IN_BULK if bulk else BY_COPIES if strip.copies else BY_ELEMENTS,
        copy_bytes=strip.copies or VECTOR_BYTES,
        exchange=exchange,
        exchange_bytes=_store_bytes(case, strip, span, exchange),
        units_of_ticket=_SHIFTED_UNITS_OF_TICKET if strip.shifted and not _is_small_or_widened(case, strip) else 1,
        stages=0,
        prefetched=_prefetched(case, strip) if strip.copies else 0,
        **_hands(case, strip, bulk),
    )


def _share_of_thread(case: ColumnCase, strip: Strip) -> tuple[int, int]:
    """Columns and chunks that a scanner's thread has of a unit."""
    alike = case.source.dtype.itemsize == case.output.dtype.itemsize >= 4
    plain = alike and strip.columns >= LANES and not (case.work.turned or strip.shifted)
    value_bytes = _FEW_VALUE_BYTES if strip.widened or plain else VALUE_BYTES
    if strip.overlapping:
        vector = strip.columns // LANES  # so that a warp has whole rows
    else:
        vector = 1 if case.work.output_turned else _vector(case, strip.columns, value_bytes)
    return vector, case.span(vector, value_bytes)


def _is_exchanged(case: ColumnCase, strip: Strip) -> bool:
    """Whether outputs go through a stage: else a warp stores enough side by side, or two share a span."""
    narrow = strip.columns * strip.size < 64 and strip.columns <= LANES
    return strip.dense and narrow and strip.size == case.output.dtype.itemsize and _contiguous_output(case)


def _hands(case: ColumnCase, strip: Strip, bulk: bool) -> dict[str, int]:
    """Warps of each kind."""
    loaders, scanners = (1 if bulk else _LOADERS[strip.copies]), _SCANNERS
    if strip.shifted:
        loaders, scanners = _SHIFTED_HANDS[strip.overlapping or case.source.dtype.itemsize <= SMALL_BYTES]
    elif strip.copies and not (strip.dense or case.work.input_turned):
        while loaders * LANES % (strip.columns * strip.size // strip.copies):
            loaders *= 2
    narrow = strip.columns <= _NARROW_COLUMNS and strip.size == case.output.dtype.itemsize
    adders = _MORE_ADDERS if strip.widened or narrow else _ADDERS
    folders, sets = math.ceil(strip.columns / LANES), _folder_sets(case, strip)
    most_scanners = power_of_two_within(_MOST_WARPS - 2 - loaders - adders - folders * (sets + 1))
    return {
        "loaders": loaders,
        "adders": adders,
        "folders": folders,
        "folder_sets": sets,
        "scanners": min(scanners, most_scanners),
    }


def _folder_sets(case: ColumnCase, strip: Strip) -> int:
    if strip.shifted and _is_small_or_widened(case, strip):
        return 1
    small = strip.size == 4 if strip.widened else case.source.dtype.itemsize <= SMALL_BYTES
    one_is_enough = strip.one_by_one or _is_wide(strip) or (strip.few_blocks and small)
    return 1 if one_is_enough else _FOLDER_SETS


def _is_small_or_widened(case: ColumnCase, strip: Strip) -> bool:
    return strip.widened or case.source.dtype.itemsize <= SMALL_BYTES


def _is_wide(strip: Strip) -> bool:
    return strip.dense and strip.columns > DENSE_COLUMNS


def _most_stages(case: ColumnCase, strip: Strip, units: int) -> int:
    if _is_wide(strip):
        widens = case.output.dtype.itemsize > strip.size
        return _STAGES_OF_WIDENED if widens else _STAGES_OF_HALVES if strip.size <= 2 else _STAGES_OF_WIDE
    if strip.shifted and _is_small_or_widened(case, strip):
        stages = _STAGES_OF_SHIFTED_WIDENED if strip.widened else _STAGES_OF_SHIFTED_SMALL
        return stages[strip.blocks <= _FEW_BLOCKS_OF_SHIFTED and not strip.overlapping]
    if strip.one_by_one or (strip.dense and strip.columns >= LANES and units <= _FEW_UNITS):
        return _FEW_STAGES
    if strip.widened:
        return _WIDENED_STAGES if strip.few_blocks else _FEW_STAGES
    return _MOST_STAGES


def _chunks(case: ColumnCase, strip: Strip, span: int) -> int:
    """Chunks of a column in a unit."""
    most = min(LANES * LANES, power_of_two(math.ceil(case.work.length / case.work.chunk)))
    steps = _unit_bytes(case) // (strip.columns * strip.size)
    if strip.widened:
        steps = min(steps, _WIDENED_UNIT_BYTES // (strip.columns * case.output.dtype.itemsize))
    return power_of_two_within(max(span, min(most, steps // case.work.chunk)))


def _unit_bytes(case: ColumnCase) -> int:
    """Of a stage: five of them fit a multiprocessor at least, or three."""
    if case.work.turned:
        return min(_TURNED_UNIT_BYTES, power_of_two_within(case.device.shared_bytes_per_block // 3))
    return min(_UNIT_BYTES, power_of_two_within(case.device.shared_bytes_per_block // 5))


def _vector(case: ColumnCase, columns: int, value_bytes: int) -> int:
    """Columns of a thread: as many as leave work for all lanes, but no more than 8 bytes."""
    widest = 8 // max(case.source.dtype.itemsize, case.output.dtype.itemsize)
    most = value_bytes // (case.work.chunk * case.register_bytes)
    return case.vector(power_of_two_within(max(1, min(widest, most, columns // LANES)))) if columns % LANES == 0 else 1


def _eviction(case: ColumnCase, chosen: Columns) -> str:
    """Evicted last when they are copied, sums in more bytes than elements have take 1.5 to 2 % longer."""
    widened = case.output.dtype.itemsize > case.source.dtype.itemsize
    return EVICT_NORMALLY if widened and not chosen.prefetched else eviction_of(case.source)


def _band(strips: int, most: int) -> int:
    """Strips of a band: as many in each, about."""
    return math.ceil(strips / math.ceil(strips / most))


def _contiguous_output(case: ColumnCase) -> bool:
    return case.dense_output and case.work.output_axis.strides[0] == case.inner * case.output.dtype.itemsize


def _digit_bits(case: ColumnCase, strip: Strip) -> int:
    """kernels/scan_column_fold.cuh: DIGIT_BITS."""
    few, most = _BLOCKS_OF_WIDE_DIGITS
    plain = case.accumulator <= 8 and case.output.dtype.itemsize >= 4 and strip.columns >= LANES
    wide = plain and few <= strip.blocks <= most
    narrowest = _COLUMNS_OF_WIDE_DIGITS if case.source.dtype.itemsize >= 4 else _NARROW_COLUMNS
    if strip.columns <= narrowest and case.accumulator == 4:
        return _NARROW_DIGIT_BITS
    return 3 if wide or strip.columns <= _COLUMNS_OF_WIDE_DIGITS else 2


def _reads(strip: Strip, digits: int) -> int:
    """kernels/scan_column_fold.cuh: READS."""
    few = digits == 3 and (strip.columns < LANES or strip.few_blocks)
    return _FEW_READS if few else _NARROW_READS if digits == _NARROW_DIGIT_BITS else _READS


def _prefetched(case: ColumnCase, strip: Strip) -> int:
    """kernels/scan_column_loaders.cuh: PREFETCHED. For 2, strips that follow each other have to be of one band."""
    across = math.ceil(case.inner / strip.columns)
    together = _band(across * case.outer, _BAND) % across == 0
    neighbours = strip.copies > case.source.dtype.itemsize and not case.fits_densely
    return (2 if together and neighbours else 1) if _prefetches(case) else 0


def _prefetches(case: ColumnCase) -> bool:
    """Whether units are prefetched.

    Where units of neighbouring tickets are one run of memory, or outputs are widened: on an H200 (16777216, 16) float32
    reaches 95.3 % of copy speed with it and 93.0 without, (4194304, 64) 85.5 and 83.8. Others lose by it: (1048576,
    256) reaches 96.5 and 97.2, (2097152, 256) float16 79.8 and 88.2, (4096, 1024, 64) 93.2 and 94.8.
    """
    work, size = case.work, case.source.dtype.itemsize
    if work.turned or case.is_shifted:
        return False
    if not case.dense_input:  # the beginning of a row has to lie inside the array
        return work.input_line.rank == 1 and work.input_line.strides[0] > size
    near = case.fits_densely and (case.outer == 1 or case.inner < LANES)
    return near or size < case.output.dtype.itemsize


def _store_bytes(case: ColumnCase, strip: Strip, span: int, exchange: bool) -> int:
    """How many bytes are stored at once of outputs that go through a stage."""
    if exchange:
        return _exchange_bytes(case, strip.columns, span)
    return turned_bytes(case, case.output) if case.work.output_turned else VECTOR_BYTES


def _exchange_bytes(case: ColumnCase, columns: int, span: int) -> int:
    """How many bytes of a dense output can be stored at once."""
    size = case.output.dtype.itemsize
    longer = case.output.shape[case.work.axis or 0] != case.work.length
    start = columns * size if longer else 0
    return math.gcd(case.dense_bytes(case.output, start), span * case.work.chunk * columns * size)


def _stage_bytes(case: ColumnCase, chosen: Columns) -> int:
    """kernels/scan_column_units.cuh: STAGE_BYTES and struct Stage."""
    size = case.value.itemsize if chosen.load == BY_ELEMENTS else case.source.dtype.itemsize
    rows = max(1, chosen.chunks // LANES)
    row_chunks = chosen.chunks // rows
    spans = rows * (row_chunks // chosen.span)
    pitch = chosen.columns * size + chosen.row_shift + (VECTOR_BYTES if chosen.shifted else 0)
    across = chosen.columns // chosen.vector
    shared = min(spans, 1 if across >= LANES else power_of_two_within(LANES // across))
    spread = math.ceil(pitch / 16) * 16 % 128 if shared > 1 else 0
    in_rows = math.ceil(rows * (row_chunks * case.work.chunk * pitch + spread) / 16) * 16
    by_line = chosen.columns * (chosen.chunks * case.work.chunk * size + VECTOR_BYTES)
    data = by_line if chosen.input_turned else in_rows + (VECTOR_BYTES if chosen.shifted else 0)
    items = spans + rows + 2 + (LANES // row_chunks).bit_length() - 1
    return data + math.ceil(items * chosen.columns * case.accumulator / 16) * 16 + _STAGE_EXTRA_BYTES
