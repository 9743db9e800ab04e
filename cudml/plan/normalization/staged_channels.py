"""Which groups of halves or floats with a scale or bias of each of their channels, that begin where the one before
ends, are faster by kernels/normalization_staged_lines.cu: other kernels load each number by itself where a chunk has
several.

On an H200 with a number of each channel (25131, 3, 28, 4) float16s over 2, 3 take 21 us so and 106 otherwise, (5461,
32, 24, 4) 44 and 227, (9709, 2, 3, 9) 2.9 and 5.9, (14563, 2, 8, 36) 16 and 22, (3744, 32, 10, 28) floats 66 and 93,
(174762, 2, 24, 2) 50 and 119, (9709, 8, 24, 9) 40 and 47.
"""

from __future__ import annotations

from cudml.plan.normalization.groups import Groups

#: Bytes of a group at the most, by those of an element, and the part of a power of two of chunks that aligned groups
#: fill: (3744, 2, 20, 28) bfloat16s, 1120 bytes, take 11 us so and 9 otherwise, (606, 16, 12, 36) floats, 1728 bytes,
#: 15 and 11. Of halves fewer where channels are whole chunks: (1449, 16, 50, 8) bfloat16s, 800 bytes, take 18.4 us so
#: and 14.8 otherwise, (757, 32, 14, 16) 10.5 and 9.5, but (14100, 4, 10, 16), 320 bytes, 15.1 and 17.5.
_MOST_BYTES, _MOST_PART, _MOST_BYTES_OF_CHUNKS = {2: 900, 4: 1200}, 0.9, {2: 400, 4: 1200}

#: Bytes for each multiprocessor, and groups, at least: of halves that begin anywhere, of others and of floats. (9362,
#: 2, 4, 7) float16s take 2.8 us so and 9.1 otherwise, (113, 32, 4, 9) 2.1 and 1.6, (7943, 2, 12, 22) 8.9 and 12.8,
#: (468, 8, 20, 14) 4.7 and 4.1; (1310, 8, 20, 5) floats 4.3 and 5.8, (390, 32, 6, 7) 4.3 and 3.0.
_LEAST_OF_SHIFTED_HALVES, _LEAST_OF_HALVES, _LEAST_OF_FLOATS = (3 << 10, 60), (1 << 15, 90), (30 << 10, 70)


def have_channels(groups: Groups) -> bool:
    """Whether halves or floats are normalized with a number of scale or bias for some neighbours each."""
    are_scaled = groups.has("output") and groups.operands.are_of_channels
    return are_scaled and groups.source.dtype.itemsize in _MOST_BYTES


def are_fast_parts(groups: Groups, part: float, nbytes: int) -> bool:
    """Whether aligned groups of so many bytes, which fill that part, are faster so."""
    most_bytes = _MOST_BYTES if groups.operands.of_chunk > 1 else _MOST_BYTES_OF_CHUNKS
    return part <= _MOST_PART and nbytes <= most_bytes[groups.source.dtype.itemsize]


def least_bytes_of_channels(groups: Groups, nbytes: int, are_packed: bool) -> int:
    """Of the input, for each multiprocessor, where a group has so many."""
    of_halves = _LEAST_OF_HALVES if are_packed else _LEAST_OF_SHIFTED_HALVES
    least, least_groups = of_halves if groups.source.dtype.itemsize == 2 else _LEAST_OF_FLOATS
    return max(least, nbytes * least_groups)
