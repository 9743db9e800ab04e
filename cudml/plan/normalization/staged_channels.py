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

#: Bytes for each multiprocessor, at least, of halves and of floats, and groups: of floats, of halves that are aligned,
#: of others, and of others of fewer bytes than so many, whose runs are no more than two chunks. (580, 32, 8, 12)
#: float16s take 4.6 us so and 5.5 otherwise, (681, 8, 17, 7) 3.6 and 5.3, (362, 16, 58, 5) 6.3 and 7.4, but (1482, 4,
#: 5, 49) 5.7 and 4.8, (5901, 4, 121) 8.1 and 7.5, (3146, 2, 6, 7), 4 KB, 2.6 and 2.2; (384, 16, 6, 49) floats 6.4 and
#: 7.7, (974, 4, 41, 6) 5.1 and 3.8.
_LEAST_BYTES = {2: 9 << 9, 4: 30 << 10}
_LEAST_FLOATS, _LEAST_ALIGNED, _LEAST_OTHERS, _LEAST_SHORT = 45, 90, 60, 40
_MOST_BYTES_OF_SHORT, _CHUNKS_OF_SHORT_RUN = 800, 2


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
    size = groups.source.dtype.itemsize
    least = _LEAST_FLOATS if size == 4 else _LEAST_ALIGNED if are_packed else _least_of_others(groups, nbytes)
    return max(_LEAST_BYTES[size], nbytes * least)


def _least_of_others(groups: Groups, nbytes: int) -> int:
    """Groups of so many bytes that begin anywhere."""
    are_short = groups.reduced.sizes[-1] <= _CHUNKS_OF_SHORT_RUN * groups.chunk
    return _LEAST_SHORT if are_short and nbytes <= _MOST_BYTES_OF_SHORT else _LEAST_OTHERS
