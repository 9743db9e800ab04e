"""The plan of scans of many tiles, by an assembly line in every multiprocessor: kernels/scan_stream.cu."""

from __future__ import annotations

from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.dtypes import accumulator_bytes
from cudml.plan.layout import CACHE_LINE_BYTES, VECTOR_BYTES, ArrayLayout
from cudml.plan.loads import BY_COPIES, BY_ELEMENTS, IN_BULK
from cudml.plan.plan import Launch, Plan, Pointer, Scratch, constants_of
from cudml.plan.scan.work import TILE_ROWS, Constants, Work, is_dense, scratch_bytes
from cudml.plan.spec import Scan, SegmentedScan

#: Adders and scanners. At 2^28 float32 all of 2, 4 and 8 adders with 8 and 16 scanners reach 96 to 97 % of copy speed
#: on an H200; where elements take more arithmetic, more are faster: 2^29 float16 reaches 86 % with 4 and 8, 97 % with 8
#: and 16. Of integers that are summed in more bytes than they are stored in, int8 reaches 88 and 90 % with 8 and 16
#: scanners, int32 the same with both. Three lines of 67108865 float32, which begin at any address, take 0.458 and 0.418
#: ms. Of 2^29 float16 in segments of 256 and 16, 4 adders and 16 scanners take 0.569 and 0.692 ms, 8 and 16 0.587 and
#: 0.679; of 2^27 int32 0.419 and 0.442 ms, 4 and 8 0.437 and 0.448; float32 takes as long with 4 and 8 adders. Folders
#: of other segmented items of 8 bytes, and rows of smaller elements in such, need more registers than so many warps
#: leave them: 2^27 int64 in segments of 256 take 0.570 ms with 4 and 8, 0.599 with 4 and 16; by loaders of compute
#: capability 7.5 0.80 ms with 2 and 4, and 1.05 ms with 8 and 8.
_HANDS = {
    "plain": (4, 8),
    "shifted": (4, 16),
    "halves": (8, 16),
    "small": (8, 16),
    "segments": (4, 16),
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

#: Offsets take a marker longer to look at than a tile takes to pass. In bulk, 3 cost half a point, and 2 a point; of
#: 2^24 float32 5 points.
_MARKERS = {IN_BULK: 4, BY_COPIES: 6, BY_ELEMENTS: 5}

#: Offsets that a search among all of them begins with. 512 and 2048 are as fast where segments have 256 elements; where
#: they have 16, the more there are, the closer is the guess in between.
_SAMPLES, _FEW_SAMPLES = 2048, 256

#: Tiles of a line, at the least, that are kept where they lie within a line of the cache, though they begin with whole
#: chunks: 64 lines of 4194308 float32 take an H200 522 us so and 547 otherwise, 1000 of 200004 394 and 405, 4096 of
#: 32770 float64, 9 tiles, 541 and 559, but 8192 of 32772 float32, 5 tiles, 570 and 548, 16384 of 16388 615 and 557.
#: Halves take more registers for that, 1000 of 200008 278 us and 205 otherwise, and sums in wider types gain nothing.
_LEAST_TILES_KEPT = 9

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

#: Bytes of a chunk whose outputs have 8 bytes each, and stages of these: the less of the output is written at a time,
#: the faster. On an H200 2^28 int8 reach 90.5 % of copy speed with 8 bytes, and with 4 of them 93.2 % in 8 stages,
#: 93.7 % in 6, 93.9 % in 5 and 87.8 % in 4.
_FEW_BYTES_OF_CHUNK, _STAGES_OF_FEW = 4, 6


class _Case(NamedTuple):
    """What the choices of a plan depend on."""

    spec: Scan | SegmentedScan
    source: ArrayLayout
    output: ArrayLayout
    constants: Constants
    work: Work
    device: DeviceProperties
    staged: int
    """Bytes of an element in a stage."""
    load: int
    widened: bool
    """kernels/scan_widened_rows.cuh: rows are summed in fewer bytes than lines, and leave in pieces of 16 bytes."""

    @classmethod
    def of(
        cls,
        spec: Scan | SegmentedScan,
        arrays: dict[str, ArrayLayout],
        constants: Constants,
        work: Work,
        device: DeviceProperties,
    ) -> _Case:
        source, output = arrays["input"], arrays["output"]
        size, load = source.dtype.itemsize, _load(source, constants, work, device)
        staged = size if load != BY_ELEMENTS else min(size, spec.dtype.itemsize)
        case = cls(spec, source, output, constants, work, device, staged, load, widened=False)
        return case._replace(widened=_is_widened(case))

    @property
    def input_packed(self) -> bool:
        return bool(self.constants["INPUT_PACKED"])

    @property
    def output_packed(self) -> bool:
        return bool(self.constants["OUTPUT_PACKED"])

    @property
    def is_unpacked(self) -> bool:
        """Whether a dense output lies in no whole chunks, nor does the input."""
        return bool(self.constants["OUTPUT_DENSE"]) and not (self.input_packed or self.output_packed)

    @property
    def leaves_in_runs(self) -> bool:
        """Whether rows of small outputs, dense but not in whole chunks, leave by pieces of 16 bytes all the same."""
        small = self.output.dtype.itemsize < 4 and self.output.dtype.itemsize <= self.spec.dtype.itemsize
        dense = bool(self.constants["OUTPUT_DENSE"]) and self.output.element_aligned
        return small and dense and not self.output_packed

    @property
    def in_pieces(self) -> bool:
        """Whether outputs of a chunk lie in more than one whole piece of 16 bytes."""
        size = self.output.dtype.itemsize
        ends_on_piece = not self.spec.reverse or self.work.length * size % VECTOR_BYTES == 0
        divided = ends_on_piece and self.output.divides(VECTOR_BYTES, self.work.line_axes)
        in_pieces = bool(self.constants["OUTPUT_DENSE"]) and divided and not self.constants["INITIAL"]
        return in_pieces and self.work.chunk * size > VECTOR_BYTES

    @property
    def tickets(self) -> int:
        return self.work.lines * self.work.tiles

    @property
    def tile_bytes(self) -> int:
        """What a tile takes of a stage."""
        return TILE_ROWS * LANES * self.work.chunk * self.staged + (CACHE_LINE_BYTES if self.keeps_places else 0)

    @property
    def keeps_places(self) -> bool:
        """Whether tiles that bulk copies load lie within a line of the cache where they do in memory."""
        if self.load != IN_BULK:
            return False
        size = self.source.dtype.itemsize
        if not self.input_packed or self.work.chunk * self.staged != VECTOR_BYTES:
            return True
        are_many = self.work.tiles >= _LEAST_TILES_KEPT and 4 <= size == self.output.dtype.itemsize
        begin_with_lines = self.source.divides(CACHE_LINE_BYTES, self.work.line_axes)
        ends_with_line = not self.spec.reverse or self.work.length * size % CACHE_LINE_BYTES == 0
        return are_many and not (begin_with_lines and ends_with_line)


def plan_stream(
    spec: Scan | SegmentedScan,
    arrays: dict[str, ArrayLayout],
    constants: Constants,
    work: Work,
    device: DeviceProperties,
) -> Plan:
    """An assembly line in every multiprocessor, which takes tile after tile of all lines."""
    case, most_stages = _Case.of(spec, arrays, constants, work, device), _MOST_STAGES
    if case.widened and (case.source.dtype.itemsize, case.output.dtype.itemsize) == (1, 8):
        work, most_stages = work.in_chunks_of(_FEW_BYTES_OF_CHUNK), _STAGES_OF_FEW
        case = case._replace(work=work, constants=constants | {"BYTES_OF_CHUNK": work.chunk})
    kind = _kind_of_hands(case)
    adders, scanners = _HANDS[kind]
    by_lines = not case.widened and (case.leaves_in_runs or (kind in _BY_LINES and case.is_unpacked))
    samples = _samples(case)
    beside = scanners * _buffer_bytes(case, by_lines) + samples * work.index.itemsize + 64
    stages = min(most_stages, (device.shared_bytes_per_block - beside) // (case.tile_bytes + _stage_rest_bytes(case)))
    loaders, teams = _loaders(case)
    manned = {
        "LOAD": case.load,
        "HARDWARE_GATES": device.hardware_gates,
        "KEEPS_PLACES": case.keeps_places,
        "STAGES": stages,
        "SAMPLES": samples,
        "LOADERS": loaders,
        "TEAMS": min(teams, stages),
        "MARKERS": min(_MARKERS[case.load], stages) if work.segmented else 0,
        "ADDERS": adders,
        "SCANNERS": scanners,
        "WIDENED": case.widened,
        "BY_LINES": by_lines,
        "IN_PIECES": case.output.dtype == spec.dtype and case.in_pieces,
    }
    takers = int(case.load == BY_ELEMENTS)
    warps = takers + manned["TEAMS"] * loaders + manned["MARKERS"] + adders + 2 + scanners
    arguments = (Pointer("input"), Pointer("output"), Pointer("offsets"), Scratch(), work.geometry)
    grid, shared_bytes = min(case.tickets, device.multiprocessors), stages * case.tile_bytes
    launch = Launch("scan_stream", grid, warps * LANES, arguments, shared_bytes=shared_bytes, early=True)
    all_constants = constants_of(**case.constants, **manned)
    return Plan("scan_stream.cu", all_constants, (launch,), scratch_bytes=scratch_bytes(spec, work))


def _load(source: ArrayLayout, constants: Constants, work: Work, device: DeviceProperties) -> int:
    """How stages that hold elements as they are stored are loaded: a packed input in whole chunks."""
    if device.bulk_copies and is_dense(source, work.input_axis):
        return IN_BULK
    piece = source.dtype.itemsize * (work.chunk if constants["INPUT_PACKED"] else 1)
    copied = piece in (4, 8, VECTOR_BYTES) and source.element_aligned
    return BY_COPIES if device.hardware_gates and copied else BY_ELEMENTS


def _is_widened(case: _Case) -> bool:
    """On an H200 2^28 int8 take 0.646 ms without this and 0.624 ms with it."""
    stored, value = case.source.dtype, case.spec.dtype
    small = stored.kind in "biu" and value.kind in "iu" and stored.itemsize <= 2 < value.itemsize
    if not small or case.spec.operation != "sum" or case.work.segmented:
        return False
    return (case.load != IN_BULK or case.input_packed) and case.in_pieces


def _kind_of_hands(case: _Case) -> str:
    value = case.spec.dtype
    if case.work.segmented:
        large = accumulator_bytes(value) >= _LARGE_BYTES and not (case.load == IN_BULK and case.staged == 4)
        return ("large " if large else "") + ("segments" if case.load == IN_BULK else "segments by loaders")
    if case.load != IN_BULK:  # ordinary loaders leave no room for more
        return "plain"
    if value.name in _HALVES:
        return "halves"
    if value.kind in "iu" and case.staged < min(4, value.itemsize):
        return "widened"
    if case.input_packed:
        return "plain"
    return "shifted" if case.staged >= 4 else "small"


def _loaders(case: _Case) -> tuple[int, int]:
    """Loaders of a team, and teams."""
    if case.load != BY_ELEMENTS:
        return _LOADERS[case.load]
    if case.work.segmented:
        return _SEGMENT_TEAMS
    return _LARGE_TEAMS if case.staged >= 8 else _SMALL_TEAMS


def _samples(case: _Case) -> int:
    """kernels/scan_samples.cuh: struct Samples, which is there in any case."""
    if not case.work.segmented:
        return 1
    return _SAMPLES if case.device.shared_bytes_per_block >= _ROOMY_BYTES else _FEW_SAMPLES


def _buffer_bytes(case: _Case, by_lines: bool) -> int:
    """kernels/scan.cuh: struct RowBufferOf what a scanner passes on; kernels/scan_stream.cu: struct SpreadRows."""
    if case.output_packed:
        return 0
    chunk_bytes = case.work.chunk * (2 * case.source.dtype.itemsize if case.widened else case.spec.dtype.itemsize)
    rows = 2 if by_lines and chunk_bytes <= VECTOR_BYTES else 1
    return rows * (LANES * chunk_bytes * 9 // 8 if chunk_bytes > VECTOR_BYTES else LANES * chunk_bytes)


def _stage_rest_bytes(case: _Case) -> int:
    """kernels/scan_stream.cu: struct Stage, which comes beside the tile."""
    heads = TILE_ROWS * LANES * case.work.chunk // 8 if case.work.segmented else 4
    return (TILE_ROWS + 1) * _item_bytes(case) + heads + _STAGE_EXTRA_BYTES


def _item_bytes(case: _Case) -> int:
    """kernels/scan.cuh: struct Headed is a value and an int, padded to twice the larger of the two."""
    accumulator = accumulator_bytes(case.spec.dtype)
    return 2 * max(accumulator, 4) if case.work.segmented else accumulator
