"""How groups that lie end to end are cut into spans and shared out to blocks: kernels/normalization_staged_lines.cu."""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import power_of_two, power_of_two_within
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.line_shares import chunks_of
from cudml.plan.normalization.staged_channels import have_channels
from cudml.plan.normalization.staged_least import bytes_of_group, may_be_fewest

#: Chunks of a span. Groups of up to 8 are one, and with more registers those of up to 13, or 11 with arrays down a
#: group: two spans of (1032444, 65) float16s take 74 us and one 67, with arrays 84 and 71, but of (671088, 100) with
#: arrays 70 and 99. Long groups have such long ones too, but with arrays: (74152, 905) take 75 us so and 78 otherwise,
#: with arrays 107 and 91. Halves with a number for a channel that begin anywhere are one of up to 13 as well: (9465,
#: 32, 2, 49) over 2, 3 take an H200 32.8 us so and 41.0 otherwise, (54122, 3, 10, 9) 18.7 and 22.9.
SPAN, _LONGEST_SPAN, _LEAST_BYTES_OF_LONGEST = 8, 16, 1600
_MOST_OF_ONE, _MOST_OF_ONE_SCALED = 13, 11

#: Groups of a block that are a span each, and the longest span; of several spans; and of several of more bytes than
#: that: (201528, 333) float16s take 68 us by 32 and 73 by 16, (127341, 527) 74 and 68.
_LINES_OF_SPAN, _LINES_OF_LONGEST, _LINES, _LEAST_LINES, WIDE_BYTES = 128, 64, 32, 16, 900

#: And of groups of one chunk: (74333, 64, 7) float16s take an H200 70 us so and 73 by 512.
_LINES_OF_CHUNK = 256

#: Bytes for each multiprocessor below which blocks are small, of so many bytes, and spans short, as then a call takes
#: as long as they do: of 2^22 (10485, 100) floats take 3.6 us in spans of 4 chunks and 3.8 of 8. Of floats, and in the
#: shortest spans, blocks have twice as much: (111222, 9) floats take an H200 3.7 us so and 4.2 otherwise, (42369, 45)
#: 6.1 and 6.8, (1666, 8, 126) float16s 4.2 and 4.5.
_FEW_BYTES, _BLOCK_BYTES_OF_FEW, _SPAN_OF_FEW = 1 << 16, 4096, 4
_BLOCK_BYTES = 8192

#: Chunks of groups of halves that then have shorter spans yet: (17384, 66) float16s take 3.8 us so and 4.4 in spans of
#: 4, (20484, 36) 3.2 and 3.7, (65230, 4, 9) over 1, 2, 3 6.5 and 7.6, but (101819, 18) 5.4 and 4.4, (18085, 140) 6.5
#: and 5.6. With arrays those of up to 8 are one span: (495, 32, 5, 9) float16s over 2, 3 take an H200 3.0 us so and
#: 4.3 otherwise, (15111, 50) 3.4 and 3.6.
_CHUNKS_OF_SHORT_SPANS, _CHUNKS_OF_ONE_SPAN, _SHORT_SPAN = range(5, 17), range(5, 9), 2

#: And of halves with arrays whose groups gain by that, if there are fewer yet, and fewer with a scale of each channel:
#: (13574, 116) bfloat16s, 24 KB for each multiprocessor, take 4.2 us so and 5.4 in spans of 4 chunks, but (15462, 132)
#: float16s, 31 KB, 5.9 and 4.8, and (7, 950, 100, 2) over 2, 3, 20 KB, 5.0 and 3.9.
_FEWEST_BYTES, _FEWEST_BYTES_OF_CHANNELS = 27 << 10, 18 << 10

#: Bytes for each multiprocessor below which halves with arrays, in groups of so many chunks, and floats with a number
#: for each element, in groups of so many at least, have the spans of few, as others keep some registers in memory: (71,
#: 552, 216) float16s with a scale of each group take an H200 12.3 us so and 15.5 otherwise, (32768, 132) with one of
#: each element 8.3 and 9.3, but (88207, 260) 35 and 28; (26998, 127) floats 10.3 and 11.6.
_SOME_BYTES, _CHUNKS_OF_SOME, _LEAST_CHUNKS_OF_SOME_FLOATS = 1 << 18, range(12, 28), 13

#: Threads of a multiprocessor by the chunks of a span, which leaves registers for it, and of few halves with arrays in
#: groups of several spans of 4: (10417, 186) float16s take an H200 4.7 us with these and 6.3 with 1280, (12256, 283)
#: 6.6 and 7.5, but (7894, 20, 5, 4) over 2, 3, one span, 5.8 and 5.2.
_THREADS = {2: 1536, 4: 1280, 8: 1024, 16: 640}
_THREADS_OF_FEW_SCALED_HALVES = 1024

#: And of halves with arrays of scale or bias in groups of several spans, the last one of few elements, that begin at a
#: multiple of so many: compilers keep up to 50 registers in memory otherwise. (5350, 64, 196) with a scale of each
#: channel take 72 us with these and 97 with 1024. But short spans do not need them from so many bytes for each
#: multiprocessor on: (639, 16, 89, 4) over 2, 3 take an H200 6.8 us with 1024 and 9.5 with these, (11877, 2, 20, 7),
#: 49 KB, 7.5 and 7.9, but (147, 64, 43, 4), 24 KB, 5.2 and 4.2.
_THREADS_OF_SHORT_ENDS, _SHORT_END, _GRAIN_OF_SHORT_ENDS = 640, 16, 4
_LEAST_BYTES_OF_OTHER_ENDS = 44 << 10


class Cut(NamedTuple):
    """How the work is shared out."""

    span: int
    """Chunks."""
    spans: int
    """Of a group."""
    lines: int
    """Groups of a block."""
    threads_of_multiprocessor: int
    """That have registers."""

    @classmethod
    def of(cls, groups: Groups, device: DeviceProperties) -> Cut:
        of_multiprocessor = groups.bytes_of_multiprocessor(device)
        span, lines = _span_and_lines(groups, of_multiprocessor)
        spans = math.ceil(chunks_of(groups) / span)
        return cls(span, spans, lines, _threads(groups, span, spans, of_multiprocessor))

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.spans * self.lines

    @property
    def resident(self) -> int:
        """Blocks of a multiprocessor: threads that do not exist of a last warp have registers, too."""
        return self.threads_of_multiprocessor // (math.ceil(self.threads / LANES) * LANES) or 1


def _span_and_lines(groups: Groups, of_multiprocessor: float) -> tuple[int, int]:
    """Chunks of a span, and groups of a block, where a multiprocessor has so many bytes of the input."""
    chunks, nbytes = chunks_of(groups), bytes_of_group(groups)
    if chunks == 1:
        return _SHORT_SPAN, _LINES_OF_CHUNK
    if _are_fewest(groups, of_multiprocessor):
        return _SHORT_SPAN, _lines_of(_BLOCK_BYTES, nbytes)
    if of_multiprocessor < _FEW_BYTES:
        span, block_bytes = _few(groups)
        return min(power_of_two(chunks), span), _lines_of(block_bytes, nbytes)
    if _is_longest(groups):
        return _LONGEST_SPAN, _LINES_OF_LONGEST if chunks <= _LONGEST_SPAN else _lines_of_several(nbytes)
    if of_multiprocessor < _SOME_BYTES and _are_better_as_few(groups):
        return _SPAN_OF_FEW, _lines_of(_BLOCK_BYTES, nbytes)
    return min(power_of_two(chunks), SPAN), _LINES_OF_SPAN if chunks <= SPAN else _lines_of_several(nbytes)


def _are_fewest(groups: Groups, of_multiprocessor: float) -> bool:
    """Whether halves with arrays that gain by short spans where they are few are so few."""
    fewest = _FEWEST_BYTES_OF_CHANNELS if have_channels(groups) else _FEWEST_BYTES
    return may_be_fewest(groups) and of_multiprocessor < fewest


def _few(groups: Groups) -> tuple[int, int]:
    """Chunks of a span, at the most, and bytes of a block, where there are few groups."""
    size, chunks, has_output = groups.source.dtype.itemsize, chunks_of(groups), groups.has("output")
    if size != 2 or chunks not in _CHUNKS_OF_SHORT_SPANS:
        return _SPAN_OF_FEW, _BLOCK_BYTES if size == 4 and has_output else _BLOCK_BYTES_OF_FEW
    if chunks in _CHUNKS_OF_ONE_SPAN:
        return SPAN if groups.are_scaled_halves else _SHORT_SPAN, _BLOCK_BYTES_OF_FEW
    return _SHORT_SPAN, _BLOCK_BYTES if has_output else _BLOCK_BYTES_OF_FEW


def _is_longest(groups: Groups) -> bool:
    """Whether groups have the longest spans, where they are not few."""
    chunks, is_scaled = chunks_of(groups), groups.operands.differ_down
    are_odd_channels = groups.are_scaled_halves and have_channels(groups) and not groups.are_packed
    most = _MOST_OF_ONE_SCALED if is_scaled and not are_odd_channels else _MOST_OF_ONE
    return SPAN < chunks <= most or (bytes_of_group(groups) > _LEAST_BYTES_OF_LONGEST and not is_scaled)


def _are_better_as_few(groups: Groups) -> bool:
    """Whether groups that are not many have the spans of few."""
    chunks = chunks_of(groups)
    if groups.are_scaled_halves:
        return chunks in _CHUNKS_OF_SOME
    are_floats = groups.source.dtype.itemsize == 4 and groups.has("output")
    return are_floats and groups.operands.are_own and chunks >= _LEAST_CHUNKS_OF_SOME_FLOATS


def _lines_of_several(nbytes: int) -> int:
    """Of groups of so many bytes, in several spans."""
    return _LINES if nbytes <= WIDE_BYTES else _LEAST_LINES


def _lines_of(block_bytes: int, nbytes: int) -> int:
    """Groups of so many bytes in a block of about so many."""
    return min(max(power_of_two_within(block_bytes // nbytes or 1), _LEAST_LINES), _LINES_OF_SPAN)


def _threads(groups: Groups, span: int, spans: int, of_multiprocessor: float) -> int:
    """Of a multiprocessor that has so many bytes of the input."""
    usual = _THREADS[span]
    if not groups.are_scaled_halves or spans == 1:
        return usual
    end = groups.length - (spans - 1) * span * groups.chunk
    ends_shortly = end <= _SHORT_END and groups.grain >= _GRAIN_OF_SHORT_ENDS
    if span != _SPAN_OF_FEW:
        return min(_THREADS_OF_SHORT_ENDS, usual) if ends_shortly else usual
    if of_multiprocessor >= _FEW_BYTES:
        return usual
    are_slow = ends_shortly and of_multiprocessor < _LEAST_BYTES_OF_OTHER_ENDS
    return _THREADS_OF_SHORT_ENDS if are_slow else _THREADS_OF_FEW_SCALED_HALVES
