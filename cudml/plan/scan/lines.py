"""The plans of scans of lines of a tile or two, of which a block holds at least one: kernels/scan_lines.cu."""

from __future__ import annotations

import math

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.dtypes import accumulator_bytes
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout
from cudml.plan.plan import Launch, Plan, Pointer, constants_of
from cudml.plan.scan.short_lines import plan_short_lines
from cudml.plan.scan.work import TILE_ROWS, WARPS_OF_BLOCK, Constants, Work
from cudml.plan.spec import Scan, SegmentedScan

#: Warps that share a line of more than a tile.
_TALL_WARPS = 16

#: Warps that share a line, and rows that each of them holds: the first that have all rows. On an H200 lines of float32
#: in one piece reach 97 to 100 % of copy speed with these; blocks of 32 warps reach 85 %, more than 4 rows a thread 97
#: %.
LINE_SHARES = (
    *((1, rows) for rows in (1, 2, 3, 4)),
    *((warps, 2) for warps in (3, 4, 6, 8, 12, 16)),
    *((warps, 3) for warps in (11, 12, 16)),
    (TILE_ROWS // 4, 4),
    *((_TALL_WARPS, rows) for rows in (5, 6, 8)),
)

#: The same of lines that are moved in words from any address, whose warps do more for each line, from more rows for
#: each multiprocessor on than so many. A lane's accumulators of a row, each of a register at least, take few bytes, up
#: to so many; or else there are fewer rows to a warp. (34467, 1947) float16s take an H200 76 us so and 86 otherwise,
#: (15786, 4251) 81 and 114, (6618, 10139) 78 and 107; int8s in int64 (15786, 4251) 154 and 203, (6618, 10139) 155 and
#: 244; but (528, 3483) float16s 4.4 and 4.1.
_FEW_SHIFTED_ROWS, _REGISTER_BYTES, _FEW_REGISTER_BYTES = 64, 4, 32
_SHARES_OF_SHIFTED = (
    *((1, rows) for rows in (1, 2, 3, 4, 5)),
    *((2, 3), (2, 4), (2, 5), (3, 4), (3, 5), (4, 4), (4, 5), (6, 4), (5, 5), (7, 4), (6, 5), (8, 4)),
    *((warps, 5) for warps in (7, 8, 9, 10, 11, 12)),
    *((16, 4), (13, 5), (14, 5), (16, 5), (16, 6)),
)
_SHARES_OF_WIDE_SHIFTED = (
    *((1, rows) for rows in (1, 2, 3, 4)),
    *((3, 2), (3, 3), (6, 2)),
    *((warps, 3) for warps in (5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16)),
    *((14, 4), (16, 4)),
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

#: The same where lines are moved in words. Of wide ones in 3 rows two blocks fit at least, whatever else shares that
#: takes: (6618, 10139) int8s in int64 take 155 us so and 232 by one block of 14 warps; but by 10 warps (9164, 7323)
#: take 156 by two and 189 with registers for three.
_RESIDENT_THREADS_OF_SHIFTED, _ROWS_OF_TWO_BLOCKS = 1024, 3

#: Rows at the most of lines that are loaded so, by the size of their elements; of one byte or two, ever so many. 257
#: float32 take 0.281 ms so and 0.319 otherwise, 513 0.317 and 0.278; 33 float64 take 0.314 and 0.379, 65 0.349 and
#: 0.321.
_SHIFTED_ROWS = {4: 4, 8: 1, 16: 1}


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
    shifted = _shifted(spec, arrays, constants, work)
    short = plan_short_lines(arrays, constants, work, device, bool(shifted["SHIFTED_IN"]))
    return short or _plan_long_lines(spec, constants, work, device, shifted)


def _shifted(
    spec: Scan | SegmentedScan, arrays: dict[str, ArrayLayout], constants: Constants, work: Work
) -> Constants:
    """Whether lines are moved in words from and to any address, to there where outputs fit the place of values:
    kernels/scan_shifted.cuh."""
    bytes_in, bytes_out = (work.chunk * arrays[name].dtype.itemsize for name in ("input", "output"))
    pays = work.rows <= _SHIFTED_ROWS.get(arrays["input"].dtype.itemsize, work.rows)
    forward = all(stride >= 0 for stride in work.input_line.strides)
    dense_in, dense_out = (constants[f"{name}_DENSE"] and constants[f"{name}_ALIGNED"] for name in ("INPUT", "OUTPUT"))
    forward = forward and not constants["INPUT_PACKED"]
    fits = not constants["OUTPUT_PACKED"] and bytes_out <= work.chunk * spec.dtype.itemsize
    return {
        "SHIFTED_IN": pays and dense_in and forward and bytes_in in (4, 8, VECTOR_BYTES),
        "SHIFTED_OUT": pays and dense_out and fits and bytes_out in (4, 8, VECTOR_BYTES),
    }


def _plan_long_lines(
    spec: Scan | SegmentedScan, constants: Constants, work: Work, device: DeviceProperties, shifted: Constants
) -> Plan:
    """Several warps for each line, or one."""
    in_words = bool(shifted["SHIFTED_IN"]) and _are_many(work, device)
    is_wide = in_words and _take_many_registers(spec, work)
    table = _SHARES_OF_WIDE_SHIFTED if is_wide else _SHARES_OF_SHIFTED if in_words else LINE_SHARES
    warps, rows = next(share for share in table if work.rows <= math.prod(share))
    groups = 1 if work.segmented else max(1, WARPS_OF_BLOCK // warps)
    block = groups * warps * LANES
    if is_wide:
        resident = 2 if rows == _ROWS_OF_TWO_BLOCKS else 1
    else:
        threads = _RESIDENT_THREADS_OF_SHIFTED if in_words else _resident_threads(spec, constants, work, shifted, rows)
        resident = max(1, min(threads, device.threads_per_multiprocessor) // block)
    shares = {**shifted, "WARPS": warps, "ROWS": rows, "GROUPS": groups, "RESIDENT": resident}
    arguments = (Pointer("input"), Pointer("output"), Pointer("offsets"), work.geometry)
    launch = Launch("scan_lines", math.ceil(work.lines / groups), block, arguments, early=True)
    return Plan("scan_lines.cu", constants_of(**constants, **shares), (launch,))


def _are_many(work: Work, device: DeviceProperties) -> bool:
    """Whether lines are so many that it counts what their warps do."""
    return not work.segmented and work.lines * work.rows > _FEW_SHIFTED_ROWS * device.multiprocessors


def _take_many_registers(spec: Scan | SegmentedScan, work: Work) -> bool:
    return work.chunk * max(accumulator_bytes(spec.dtype), _REGISTER_BYTES) > _FEW_REGISTER_BYTES


def _resident_threads(
    spec: Scan | SegmentedScan, constants: Constants, work: Work, shifted: Constants, rows: int
) -> int:
    """Of a multiprocessor, for which there have to be registers; 0: as compilers choose them."""
    if work.tiles > 1:
        return _RESIDENT_THREADS_OF_TALL
    packed_in, packed_out = constants["INPUT_PACKED"], constants["OUTPUT_PACKED"]
    by_elements = not (packed_in or shifted["SHIFTED_IN"]) or not (packed_out or shifted["SHIFTED_OUT"])
    halves_packed = packed_in and packed_out and work.chunk == 8 and rows == 2
    is_small = work.chunk == 4 if by_elements else halves_packed
    return _RESIDENT_THREADS if is_small and accumulator_bytes(spec.dtype) == 4 else 0
