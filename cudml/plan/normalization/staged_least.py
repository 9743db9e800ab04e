"""How long groups have to be, and how many, for kernels/normalization_staged_lines.cu to be faster than others."""

from __future__ import annotations

import math

from cudml.plan.device import LANES
from cudml.plan.layout import power_of_two
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.line_shares import chunks_of
from cudml.plan.normalization.staged_channels import have_channels, least_bytes_of_channels

#: Chunks of a group at least, of halves and of others: (9586980, 7) float16s take 120 us so and 115 otherwise,
#: (7456540, 9) 106 and 178, (6710886, 5) floats 83 and 80, (3728270, 9) 66 and 86. Of an odd number of halves with
#: arrays one chunk is enough: (74333, 64, 7) with a scale of each group take an H200 70 us so and 97 otherwise,
#: (212009, 3) with one of each element 3.7 and 5.4, but (601506, 6) 8.9 and 7.3.
_LEAST_CHUNKS_OF_HALVES, _LEAST_CHUNKS = 2, 3

#: Such bytes at least of halves that begin anywhere and of moments, and of others; twice as many with arrays: (15887,
#: 33) float16s take 2.6 us so and 3.3 otherwise, (7422, 62) 2.6 and 2.2, (8312, 41) floats 2.8 and 2.4, (31775, 33) 3.5
#: and 4.5; with arrays (52432, 35) float16s 5.6 and 8.0, (8807, 52) 3.1 and 2.5, (29781, 11) floats 2.7 and 2.4.
_LEAST_BYTES, _LEAST_OF_OTHERS, _TIMES_OF_SCALED = 1 << 13, 1 << 15, 2

#: And groups, and with arrays those of halves and of others: (6297, 333) float16s take 5.2 us so and 6.3 otherwise,
#: (3489, 601) 5.8 and 4.8, (7710, 136) floats 3.8 and 4.1, (4660, 225) 4.4 and 3.6; with arrays (10342, 357) float16s
#: 6.8 and 10.9, (9080, 660) 12.6 and 10.7, (18641, 225) floats 12.0 and 10.8, (25191, 333) 26.8 and 23.2.
_LEAST_GROUPS, _LEAST_SCALED_HALVES, _LEAST_SCALED_GROUPS = 40, 70, 200

#: And bytes at least of groups of more bytes than that: (16760, 1001) float16s take 27.3 us so and 25.2 otherwise,
#: (13957, 601) floats 26.0 and 23.5.
_LONG_BYTES, _LEAST_BYTES_OF_LONG = 1400, 1 << 19

#: The same bytes and groups of halves with arrays that begin anywhere, and of floats that do, if other kernels leave so
#: much of their rows unused: (2377, 274) float16s take an H200 3.7 us so and 4.5 otherwise, (4118, 317) 5.1 and 6.9,
#: (2838, 209) 3.6 and 4.0, but (1227, 404) 3.4 and 3.2, (8903, 246) 6.7 and 6.1, and of what begins at 8 bytes (7379,
#: 420) bfloat16s 8.9 and 8.0; (8192, 261) floats 7.2 and 9.6, but (1122, 266) 3.4 and 3.4. Floats of up to so many
#: chunks may leave less, and be fewer: (111222, 9), 3/4 of four chunks, take 3.7 us so and 4.8 otherwise, (42369, 45)
#: 6.1 and 6.8, but (11202, 95) 5.2 and 4.2.
_OF_SHIFTED_HALVES, _MOST_PART_OF_HALVES, _MOST_PART_OF_STEPS = (8704, 13), 0.93, 0.72
_OF_SHIFTED_FLOATS, _MOST_PART_OF_FLOATS = (1 << 15, 60), 0.72
_OF_SHORT_SHIFTED_FLOATS, _MOST_PART_OF_SHORT, _MOST_CHUNKS_OF_SHORT = (28 << 10, 60), 0.75, 12

#: The same of an odd number of halves, which other kernels load by words around each chunk, but for those whose arrays
#: differ between channels: (21604, 23) float16s with arrays, 7 KB for each multiprocessor, take an H200 2.5 us so and
#: 3.3 otherwise, (2472, 20, 9) with a scale of each group 2.7 and 6.2, without arrays (1993, 383) 4.0 and 4.5, but
#: (32471, 15) with arrays 2.7 and 2.3, (4224, 253) 3.8 and 3.5.
_OF_ODD_HALVES = (6 << 10, 12)

#: And of halves and of floats whose arrays differ between groups, too, which other kernels load for each row, and
#: chunks of these: (2403, 3, 100) float16s with a scale of each of 3 groups take an H200 3.7 us so and 11.0 otherwise,
#: (4033, 32, 5) floats 3.9 and 5.3, (129171, 12, 5) 24 and 33, (1341, 8, 65) 4.9 and 7.3, but (3890, 4, 25) float16s
#: 4.1 and 4.1, (2723, 4, 22) floats 3.9 and 3.4.
_OF_THEIR_OWN, _LEAST_CHUNKS_OF_THEIR_OWN = {2: (1 << 13, 40), 4: (15 << 10, 60)}, 2

#: Bytes of a group of halves, or of one of these, at the most: (672, 32, 325) such floats take 33 us so and 23
#: otherwise, (1641, 572) float16s 4.5 and 4.3.
_SHORT_BYTES = 900

#: And of halves with arrays in groups of so many bytes that begin at a multiple of so many elements, which gain by
#: short spans where they are few: (83, 64, 196) with a scale of each channel take 2.7 us so and 3.4 in longer spans,
#: (10485, 100) 2.7 and 3.5 as short lines.
_OF_FEWEST, _BYTES_OF_FEWEST, _GRAIN_OF_FEWEST = (11 << 10, 30), range(200, 401), 4


def bytes_of_group(groups: Groups) -> int:
    """Of the wider of the input and the output."""
    return groups.length * groups.widest


def may_be_fewest(groups: Groups) -> bool:
    """Whether these are halves with arrays of scale or bias in groups that gain by short spans where they are few."""
    are_short = groups.grain >= _GRAIN_OF_FEWEST and bytes_of_group(groups) in _BYTES_OF_FEWEST
    return groups.are_scaled_halves and groups.has("output") and are_short


def least_chunks(groups: Groups) -> int:
    """Of a group."""
    if groups.source.dtype.itemsize == 2:
        return 1 if _are_odd_halves(groups) and groups.operands.stored else _LEAST_CHUNKS_OF_HALVES
    return _LEAST_CHUNKS_OF_THEIR_OWN if _have_their_own(groups) else _LEAST_CHUNKS


def least_bytes(groups: Groups) -> float:
    """Of the input, for each multiprocessor."""
    if have_channels(groups) and not may_be_fewest(groups):
        return least_bytes_of_channels(groups, bytes_of_group(groups), groups.are_packed)
    special = _least_of_special(groups)
    if special is not None:
        least, least_groups = special
        return max(least, bytes_of_group(groups) * least_groups)
    return _least_of_others(groups)


def _least_of_special(groups: Groups) -> tuple[int, int] | None:
    """Bytes and groups of those of a kind that other kernels are slow with."""
    if may_be_fewest(groups):
        return _OF_FEWEST
    size, are_short = groups.source.dtype.itemsize, bytes_of_group(groups) <= _SHORT_BYTES
    if _have_their_own(groups):
        return _OF_THEIR_OWN[size] if are_short else None
    if are_short and _are_odd_halves(groups):
        return _OF_ODD_HALVES
    if groups.are_packed or not (groups.has("output") and groups.operands.are_own):
        return None
    if size == 2:
        most_part = _MOST_PART_OF_STEPS if groups.step_of_runs("input") == 8 else _MOST_PART_OF_HALVES
        return _OF_SHIFTED_HALVES if are_short and _part_of_rows(groups) <= most_part else None
    return _least_of_shifted_floats(groups) if size == 4 else None


def _least_of_shifted_floats(groups: Groups) -> tuple[int, int] | None:
    """The same of floats with a number for each element that begin anywhere."""
    part = _part_of_rows(groups)
    if chunks_of(groups) <= _MOST_CHUNKS_OF_SHORT and part <= _MOST_PART_OF_SHORT:
        return _OF_SHORT_SHIFTED_FLOATS
    return _OF_SHIFTED_FLOATS if part <= _MOST_PART_OF_FLOATS else None


def _have_their_own(groups: Groups) -> bool:
    """Whether floats or halves are normalized with arrays that differ between groups and between neighbours."""
    return groups.has("output") and groups.operands.are_their_own and groups.source.dtype.itemsize in _OF_THEIR_OWN


def _are_odd_halves(groups: Groups) -> bool:
    """Whether groups of halves are normalized that begin at odd ones."""
    return groups.begins_anywhere and groups.source.dtype.itemsize == 2 and groups.has("output")


def _part_of_rows(groups: Groups) -> float:
    """That a group fills of the rows, or of a power of two of the chunks of one, that a warp has for it elsewhere."""
    chunks = chunks_of(groups)
    return chunks / (power_of_two(chunks) if chunks <= LANES else LANES * math.ceil(chunks / LANES))


def _least_of_others(groups: Groups) -> float:
    is_half, is_scaled, nbytes = groups.source.dtype.itemsize == 2, groups.operands.differ_down, bytes_of_group(groups)
    least = _LEAST_BYTES if (is_half and not groups.are_packed) or not groups.has("output") else _LEAST_OF_OTHERS
    scaled_groups = _LEAST_SCALED_HALVES if is_half else _LEAST_SCALED_GROUPS
    return max(
        least * (_TIMES_OF_SCALED if is_scaled else 1),
        nbytes * (scaled_groups if is_scaled else _LEAST_GROUPS),
        _LEAST_BYTES_OF_LONG if nbytes > _LONG_BYTES else 0,
    )
