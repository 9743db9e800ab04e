"""The plan of moments and normalizations of groups that lie end to end: kernels/normalization_staged_lines.cu.

On an H200 (2033601, 33) float16s over axis 1 take 69 us in place of 195 by kernels/normalization_short_lines.cu, (5350,
64, 196) with a scale and a bias of each channel 72 in place of 105, (838860, 80) 67 in place of 91, (127341, 527) 68 in
place of 113 by normalization_lines.cu, (1016800, 33) floats 66 in place of 95, (246723, 136) 67 in place of 82; a copy
takes 67 to 69. Moments of (2033601, 33) float16s take 38 us in place of 110, of (838860, 80) 36 in place of 59.
"""

from __future__ import annotations

import math

from cudml.plan.device import DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout, power_of_two
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.line_shares import chunks_of, input_ahead
from cudml.plan.normalization.staged_channels import are_fast_parts, have_channels
from cudml.plan.normalization.staged_cuts import SPAN, WIDE_BYTES, Cut
from cudml.plan.normalization.staged_least import bytes_of_group, least_bytes, least_chunks
from cudml.plan.normalization.steps import array_arguments, parameters
from cudml.plan.plan import Launch, Plan, constants_of
from cudml.plan.spec import Normalization

#: Bytes of a group at the most, of halves and of others, and of others with arrays of scale or bias down a group:
#: (74152, 905) float16s take 75 us so and 84 otherwise, (65472, 1025) 76 and 90, (51583, 1301) 83 and 85, (55831, 601)
#: floats 68 and 71, (41891, 801) 70 and 69, with arrays (83677, 401) 70 and 76, (66977, 501) 74 and 73.
_MOST_BYTES_OF_HALVES, _MOST_BYTES, _MOST_BYTES_OF_SCALED = 2100, 2448, 1700

#: Groups of whole aligned chunks are parts of rows, a power of two of chunks, to other kernels. These are slower where
#: that part of the group's bytes is no more than so many, of halves, moments and small parts, and of others; but with
#: arrays down a group where part and bytes are no more than that. (111848, 600) float16s take 68 us so and 76
#: otherwise, (599186, 112), 7/8 of a row, 67 and 72, with arrays (838860, 80) 69 and 98, (1756210, 56) 114 and 106,
#: (462427, 200) 138 and 110; (127100, 264) floats, 66/128 of a row, 67 and 82, (707842, 112) 157 and 148.
_MOST_PART, _SMALL_PART, _MOST_OF_PART, _MOST_OF_LARGE_PART = 0.9, 0.6, 720, 360
_MOST_PART_OF_SCALED, _MOST_OF_SCALED = 0.75, 640

#: Floats with arrays that leave a quarter unused are slower only if a group has so few bytes, and a multiprocessor so
#: many: (1398101, 48) take 146 us so and 135 otherwise, (174762, 24) 12.0 and 10.3, but (2796202, 24) 129 and 134.
_MOST_PART_OF_FLOATS, _MOST_OF_SCALED_FLOATS, _LEAST_OF_SCALED_FLOATS = 0.7, 128, 1 << 18

#: Threads that load from a bank of shared memory at a time, at the most, and from so many bytes of the input for each
#: multiprocessor on, but of float64: (233016, 288) float16s, of which 4 meet, take 69 us so and 95 otherwise, (123333,
#: 48) floats with arrays 21 and 15, (163362, 88) float64s 61 and 57. Halves with a number for a channel may be few:
#: (14563, 2, 8, 36) float16s take 16 us so and 22 otherwise, (580, 32, 8, 12) 4.6 and 5.5, but (21845, 4, 12, 4) floats
#: 12.7 and 11.7.
_MOST_MEETING, _MOST_MEETING_OF_MANY, _LEAST_OF_MEETING, _BANKS_BYTES = 2, 4, 1 << 19, 128


def plan_staged_lines(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch of blocks that have some groups each; None where groups lie otherwise, or are faster else."""
    if not (_are_able(groups, device) and _are_faster(groups, device)):
        return None
    cut = Cut.of(groups, device)
    shared_bytes = cut.lines * groups.length * groups.widest + VECTOR_BYTES
    own: dict[str, str | int | bool] = {
        "LENGTH": groups.length,
        "LINES": cut.lines,
        "SPAN": cut.span,
        "THREADS": cut.threads,
        "RESIDENT": cut.resident,
        "PADDED": 0,
        "HAS_OUTPUT": groups.has("output"),
        "EVICTION": groups.eviction,
        "GRAIN": groups.grain,
        "ENDS": 2,
        "OPERAND_RUN": groups.operands.run,
    }
    for name in ("input", "output"):
        own |= {f"{name.upper()}_STEP": _step(groups, name, cut.span), f"{name.upper()}_GRAIN": 1}
    for name in ("output", "scale", "bias"):
        own[f"{name.upper()}_PACKED"] = groups.packed(name)
    own |= {"OUTPUT_IN_RUNS": False, "STORED_ROWS": 1}
    arguments = (*array_arguments(), groups.geometry, parameters(groups, spec), input_ahead(groups, device))
    blocks = math.ceil(groups.count / cut.lines)
    launch = Launch("normalize_staged_lines", blocks, cut.threads, arguments, shared_bytes, early=True)
    return Plan("normalization_staged_lines.cu", constants_of(**{**groups.constants(spec), **own}), (launch,))


def _step(groups: Groups, name: str, span: int) -> int:
    """The bytes, a power of two and a vector's at the most, of which every span begins at a multiple."""
    layout = groups.arrays.get(name)
    if not isinstance(layout, ArrayLayout):
        return 4  # an element of what kernels are told that they would store
    size = layout.dtype.itemsize
    return math.gcd(VECTOR_BYTES, layout.alignment, groups.length * size, span * groups.chunk * size)


def _are_able(groups: Groups, device: DeviceProperties) -> bool:
    """Whether these are like floats, in groups that are runs, each of which begins where the one before ends."""
    return (
        groups.are_like_floats
        and device.hardware_gates
        and all(layout.element_aligned and layout.dtype.itemsize > 1 for layout in groups.stored)
        and all(_are_end_to_end(groups, name) for name in ("input", "output") if groups.has(name))
    )


def _are_end_to_end(groups: Groups, name: str) -> bool:
    return groups.is_one_run(name) and groups.are_end_to_end(name)


def _are_faster(groups: Groups, device: DeviceProperties) -> bool:
    """Whether groups are of a size, and so many, that others are slower."""
    is_half, is_scaled, nbytes = groups.source.dtype.itemsize == 2, groups.operands.differ_down, bytes_of_group(groups)
    of_others = _MOST_BYTES_OF_SCALED if is_scaled else _MOST_BYTES
    if nbytes > (_MOST_BYTES_OF_HALVES if is_half else of_others):
        return False
    if is_half and nbytes > WIDE_BYTES and groups.operands.are_of_runs:
        return False  # (69615, 2, 482) float16s with a scale of each channel take 97 us so, and 81 otherwise
    if chunks_of(groups) < least_chunks(groups):
        return False
    of_multiprocessor = groups.bytes_of_multiprocessor(device)
    if groups.are_packed and not _are_slow_parts(groups, of_multiprocessor):
        return False
    are_many = of_multiprocessor >= _LEAST_OF_MEETING and groups.source.dtype.itemsize <= 4
    may_meet = are_many or (is_half and have_channels(groups))
    most_meeting = _MOST_MEETING_OF_MANY if may_meet else _MOST_MEETING
    return _meeting(groups) <= most_meeting and of_multiprocessor >= least_bytes(groups)


def _are_slow_parts(groups: Groups, of_multiprocessor: float) -> bool:
    """Whether groups of whole aligned chunks, of so many bytes for each multiprocessor, leave so much of others' rows
    unused that these are slower."""
    chunks, nbytes = chunks_of(groups), bytes_of_group(groups)
    part = chunks / power_of_two(chunks)
    if groups.widest > groups.source.dtype.itemsize:
        return False  # (302952, 160) float16s to floats: 101 us, and 74 otherwise
    if have_channels(groups):
        return are_fast_parts(groups, part, nbytes)
    if groups.operands.differ_down:
        are_slow = nbytes <= _MOST_OF_SCALED_FLOATS and of_multiprocessor >= _LEAST_OF_SCALED_FLOATS
        is_other = groups.source.dtype.itemsize == 4 and not are_slow
        return part <= (_MOST_PART_OF_FLOATS if is_other else _MOST_PART_OF_SCALED) and nbytes <= _MOST_OF_SCALED
    are_slower = groups.source.dtype.itemsize == 2 or not groups.has("output") or part <= _SMALL_PART
    return part <= _MOST_PART and part * nbytes <= (_MOST_OF_PART if are_slower else _MOST_OF_LARGE_PART)


def _meeting(groups: Groups) -> int:
    """Threads that load from the same bank at a time, those of neighbouring groups, a word or more each."""
    word = max(4, _step(groups, "input", SPAN))
    return math.gcd(_BANKS_BYTES, groups.length * groups.source.dtype.itemsize) // word or 1
