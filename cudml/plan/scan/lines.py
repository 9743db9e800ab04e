"""The plan of scans of lines that a block holds at least one of, of a tile or two: kernels/scan_lines.cu."""

from __future__ import annotations

import math

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.dtypes import accumulator_bytes
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout
from cudml.plan.plan import Launch, Plan, Pointer, constants_of
from cudml.plan.scan.work import TILE_ROWS, Constants, Work
from cudml.plan.spec import Scan, SegmentedScan

#: Warps that share a line of more than a tile.
_TALL_WARPS = 16

#: Warps that share a line, and rows that each of them holds, by the number of rows. On an H200 lines of float32 in one
#: piece reach 97 to 100 % of copy speed with these; blocks of 32 warps reach 85 %, more than 4 rows a thread 97 %.
LINE_SHARES = (
    *((rows, (1, rows)) for rows in (1, 2, 3, 4)),
    *((2 * warps, (warps, 2)) for warps in (3, 4, 6, 8, 12, 16)),
    *((rows, (rows // 3, 3)) for rows in (33, 36, 48)),
    (TILE_ROWS, (16, 4)),
    *((_TALL_WARPS * rows, (_TALL_WARPS, rows)) for rows in (5, 6, 8)),
)

#: Rows that each of them holds of lines of more than a tile, at the most: as many as leave registers for two such
#: blocks, by the bytes of a chunk's accumulators and of a value. On an H200 (3554, 8410) float32 take 75 us so, and 100
#: by an assembly line, (2400, 12288) 57 and 62, (1800, 16384) 57 and 62; (1777, 16820) float16 46 and 84; (3554, 4205)
#: float64 76 and 89. But with eight rows, of lines that do not lie in whole chunks, (1800, 16383) float32 take 83 and
#: 64, of halves (900, 32766) 79 and 44.
_TALL_ROWS = {(16, 4): 6, (16, 8): 6, (32, 2): 5}
_TALL_ROWS_IN_CHUNKS = {**_TALL_ROWS, (16, 4): 8}

#: Threads of such blocks that shall fit a multiprocessor.
_RESIDENT_THREADS_OF_TALL = 1024

#: Threads for which there have to be registers where lines of 4-byte elements are moved one by one: else too few of
#: these are on their way. (65536, 4097) reaches 93 % of copy speed without this, 96 to 98 % with it. Two rows of halves
#: fit as few registers: left alone they take 42, which leaves room for 1024 threads, and (65536, 8192) reaches 84 %.
_RESIDENT_THREADS = 1536

#: Warps of a block that works on short lines, at least.
_LINES_WARPS = 4

#: Rows of short lines that a warp holds where they are loaded element by element, a few bytes at a time. Lines of three
#: float32 reach 99 % of copy speed with 2 and 98 % with 4; where they do not lie end to end, 89 and 88 %.
_SPREAD_ROWS = 2

#: The same where they lie end to end in whole chunks that do not fill the lanes. (2097152, 100) float32 take 0.399 ms
#: with 2, 0.403 ms with 3 and 4, and 0.422 ms by a warp for each line.
_FLAT_ROWS = 2

#: The same where they are loaded from any address and leave end to end: as many bytes of chunks at the most.
_SHIFTED_BYTES = 64

#: Rows at the most of lines that are loaded so, by the size of their elements; of one byte or two, ever so many. 257
#: float32 take 0.281 ms so and 0.319 otherwise, 513 0.317 and 0.278; 33 float64 take 0.314 and 0.379, 65 0.349 and
#: 0.321.
_SHIFTED_ROWS = {4: 4, 8: 1, 16: 1}

#: Bytes of tiny lines that a lane loads at once at the most, and of those that it scans in registers.
_TINY_BYTES, _SHARE_BYTES = 64, 64

#: Constants of kernels of short lines, unless they are others.
_SHORT_SHARES: Constants = {
    "LANE_LINES": 1,
    "FLAT_IN": 0,
    "FLAT_OUT": 0,
    "SHIFTED_IN": 0,
    "SHIFTED_OUT": 0,
    "WARPS": 1,
    "GROUPS": _LINES_WARPS,
    "RESIDENT": 1,
}


def fit_a_block(spec: Scan, constants: Constants, work: Work) -> bool:
    """Whether a block had better hold a line of more than a tile."""
    rows = _TALL_ROWS_IN_CHUNKS if constants["INPUT_PACKED"] and constants["OUTPUT_PACKED"] else _TALL_ROWS
    accumulator = accumulator_bytes(spec.dtype)
    sizes = (work.chunk * accumulator, min(accumulator, spec.dtype.itemsize))
    return work.rows <= _TALL_WARPS * rows.get(sizes, 0)


def plan_lines(
    spec: Scan | SegmentedScan,
    arrays: dict[str, ArrayLayout],
    constants: Constants,
    work: Work,
    device: DeviceProperties,
) -> Plan:
    """The launch of a scan of lines of one tile each, or of two that fit a block."""
    chunks = math.ceil(work.length / work.chunk)
    flat = _is_flat(constants, work)
    shifted = _shifted(arrays, constants, work)
    if 0 < chunks <= LANES and not work.segmented:
        if lines := _lines_of_lane(arrays, constants, work):
            return _plan_tiny_lines(arrays, constants, work, lines)
        if shifted["SHIFTED_IN"] and _leave_end_to_end(arrays, constants, work):
            return _plan_shifted_lines(arrays, constants, work)
        if flat or chunks <= LANES // 2:
            return _plan_short_lines(constants, work, 1 << (chunks - 1).bit_length(), flat)
    return _plan_long_lines(spec, constants, work, device, shifted)


def _shifted(arrays: dict[str, ArrayLayout], constants: Constants, work: Work) -> Constants:
    """Whether lines are moved in words from and to any address: kernels/scan_shifted.cuh."""
    bytes_in, bytes_out = (work.chunk * arrays[name].dtype.itemsize for name in ("input", "output"))
    pays = work.rows <= _SHIFTED_ROWS.get(arrays["input"].dtype.itemsize, work.rows)
    forward = all(stride >= 0 for stride in work.input_line.strides)
    dense_in, dense_out = (constants[f"{name}_DENSE"] and constants[f"{name}_ALIGNED"] for name in ("INPUT", "OUTPUT"))
    forward = forward and not constants["INPUT_PACKED"]
    return {
        "SHIFTED_IN": pays and dense_in and forward and bytes_in in (4, 8, VECTOR_BYTES),
        "SHIFTED_OUT": pays and dense_out and not constants["OUTPUT_PACKED"] and bytes_out in (4, 8, VECTOR_BYTES),
    }


def _leave_end_to_end(arrays: dict[str, ArrayLayout], constants: Constants, work: Work) -> bool:
    """Whether outputs lie end to end, of lines for which it pays to gather them. Lines of two chunks of 4 bytes an
    element or more reach copy speed as single elements."""
    dense = constants["OUTPUT_DENSE"] and constants["OUTPUT_ALIGNED"] and not constants["INITIAL"]
    small = arrays["input"].dtype.itemsize < 4 or work.length > 2 * work.chunk
    return bool(dense and small and work.is_flat(work.output_line, work.output_axis))


def _lines_of_lane(arrays: dict[str, ArrayLayout], constants: Constants, work: Work) -> int:
    """Lines that a lane has where it has whole ones: the most whole words at a time. 0 where it has not."""
    source, output = arrays["input"], arrays["output"]
    size = source.dtype.itemsize
    if work.length > work.chunk or output.dtype.itemsize != size or size > 2:
        return 0
    if (constants["INPUT_PACKED"] and constants["OUTPUT_PACKED"]) or constants["INITIAL"]:
        return 0
    ends_meet = all(d.rank == 1 and d.strides[0] == work.length * size for d in (work.input_line, work.output_line))
    dense = constants["INPUT_DENSE"] and constants["OUTPUT_DENSE"]
    if not (ends_meet and dense and source.alignment == output.alignment == VECTOR_BYTES):
        return 0
    line = work.length * size
    shares = (math.lcm(line, words) for words in (VECTOR_BYTES, 8, 4))
    return next(share for share in shares if share <= _SHARE_BYTES) // line


def _is_flat(constants: Constants, work: Work) -> bool:
    """Whether lines lie end to end in whole chunks, a number of them that is no power of two."""
    in_chunks = bool(constants["INPUT_PACKED"] and constants["OUTPUT_PACKED"])
    ends_meet = work.is_flat(work.input_line, work.input_axis) and work.is_flat(work.output_line, work.output_axis)
    return in_chunks and ends_meet and (work.length // work.chunk).bit_count() != 1


def _plan_short_lines(constants: Constants, work: Work, line_lanes: int, flat: bool) -> Plan:
    """Several lines for each warp."""
    rows = _FLAT_ROWS if flat else 1 if constants["INPUT_PACKED"] else _SPREAD_ROWS
    in_order = not constants["REVERSE"]
    shares = {
        **_SHORT_SHARES,
        "LINE_LANES": line_lanes,
        "LENGTH": work.length,
        "FLAT_IN": in_order and constants["INPUT_DENSE"] and work.is_flat(work.input_line, work.input_axis),
        "FLAT_OUT": in_order
        and constants["OUTPUT_DENSE"]
        and not constants["INITIAL"]
        and work.is_flat(work.output_line, work.output_axis),
        "ROWS": rows,
    }
    kernel = "scan_flat_lines" if flat else "scan_short_lines"
    return _plan_warps(kernel, constants, work, shares, rows * (LANES // line_lanes))


def _plan_shifted_lines(arrays: dict[str, ArrayLayout], constants: Constants, work: Work) -> Plan:
    """The same where they are loaded from any address, and leave end to end."""
    lanes = math.ceil(work.length / work.chunk)
    rows = max(1, _SHIFTED_BYTES // (work.chunk * max(array.dtype.itemsize for array in arrays.values())))
    shares = {**_SHORT_SHARES, "LINE_LANES": lanes, "LENGTH": work.length, "ROWS": rows, "SHIFTED_IN": 1}
    return _plan_warps("scan_shifted_lines", constants, work, shares, rows * (LANES // lanes))


def _plan_tiny_lines(arrays: dict[str, ArrayLayout], constants: Constants, work: Work, lines: int) -> Plan:
    """So many lines for each lane at a time."""
    rows = max(1, _TINY_BYTES // (lines * work.length * arrays["input"].dtype.itemsize))
    shares = {**_SHORT_SHARES, "LINE_LANES": 1, "LENGTH": work.length, "ROWS": rows, "LANE_LINES": lines}
    return _plan_warps("scan_tiny_lines", constants, work, shares, rows * LANES * lines)


def _plan_warps(kernel: str, constants: Constants, work: Work, shares: Constants, lines_of_warp: int) -> Plan:
    grid = math.ceil(work.lines / (lines_of_warp * _LINES_WARPS))
    arguments = (Pointer("input"), Pointer("output"), work.geometry)
    launch = Launch(kernel, grid, _LINES_WARPS * LANES, arguments, early=True)
    return Plan("scan_lines.cu", constants_of(**constants, **shares), (launch,))


def _plan_long_lines(
    spec: Scan | SegmentedScan, constants: Constants, work: Work, device: DeviceProperties, shifted: Constants
) -> Plan:
    """Several warps for each line, or one."""
    warps, rows = next(share for limit, share in LINE_SHARES if work.rows <= limit)
    groups = 1 if work.segmented else max(1, _LINES_WARPS // warps)
    shares = {"LINE_LANES": LANES, "LANE_LINES": 1, "LENGTH": 0, "FLAT_IN": 0, "FLAT_OUT": 0, **shifted}
    packed_in, packed_out = constants["INPUT_PACKED"], constants["OUTPUT_PACKED"]
    by_elements = not (packed_in or shifted["SHIFTED_IN"]) or not (packed_out or shifted["SHIFTED_OUT"])
    halves_packed = packed_in and packed_out and work.chunk == 8 and rows == 2
    small = work.chunk == 4 if by_elements else halves_packed
    small = small and accumulator_bytes(spec.dtype) == 4
    wanted = _RESIDENT_THREADS_OF_TALL if work.tiles > 1 else _RESIDENT_THREADS if small else 0
    resident = min(wanted, device.threads_per_multiprocessor)
    block = groups * warps * LANES
    shares |= {"WARPS": warps, "ROWS": rows, "GROUPS": groups, "RESIDENT": max(1, resident // block)}
    arguments = (Pointer("input"), Pointer("output"), Pointer("offsets"), work.geometry)
    launch = Launch("scan_lines", math.ceil(work.lines / groups), block, arguments, early=True)
    return Plan("scan_lines.cu", constants_of(**constants, **shares), (launch,))
