"""How normalizations of columns share them out to blocks in tiles, or to clusters.

A thread has a span of some neighbouring columns: kernels/normalization_spans.cuh.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import DeviceProperties
from cudml.plan.layout import SECTOR_BYTES, VECTOR_BYTES, ArrayLayout, power_of_two
from cudml.plan.normalization.groups import Groups

#: What a thread holds of its columns at a time, at the most, and of single columns of halves, but for tiles of one run
#: that are added up, as registers are too few otherwise: (11184810, 3) float16s take an H100 90 us by 32 values, and
#: 276 by 64. Mean and variance of whole ones, (400, 74981), take 27 us by 64 values and 33 by 32. Of bytes that are
#: normalized in double, or alone and in runs, as well: (33333, 1021) int8s into float64 take an H200 117 us so and 258
#: otherwise, (300, 5, 700, 11) uint8s over 0, 2 into floats 44 and 63, but (98, 256, 256, 3) over 0, 1, 2 51 and 46.
SPAN_BYTES, MOST_VALUES, FEW_VALUES = 128, 64, 32

#: Neighbours of a thread of single bytes in narrow rows and where they are normalized: the sums of 16 take more
#: registers than there are. (65536, 512) uint8s into halves take an H200 51 us so, 59 by two and 52 by eight.
_BYTES_OF_NARROW = 4

#: How wide the strip of a block is where columns are cut into tiles, and how narrow it may be.
STRIP_BYTES, _LEAST_STRIP_BYTES = 128, 64

#: Threads across strips of halves for each that has columns, at the most, unless strips would be too narrow: (1677721,
#: 160) take 0.451 ms so and 0.544 otherwise. Larger elements had better have wide strips: (4067203, 33) floats take
#: 0.558 ms in strips of 64 threads, half of which are idle, and 0.690 in strips of 16.
_MOST_IDLE = 1.3

#: Tiles that are normalized, of which a thread has one span: threads, and how wide strips are. (1048576, 256) takes an
#: H100 1085 us so, 1091 with two spans and 1100 with four. Halves lose by 256 threads: (36864, 128) bfloat16s take 17.3
#: us in place of 16.4, (476625, 33) float16s 66 in place of 63; floats do not.
_APPLIED_TILES = (128, 256)

#: What a thread of these holds, at the most, if each step has its own scale and bias, those of all columns or other
#: ones in each: registers are too few for more. (100000, 100) float16s over 0 take an H200 28 us by 32 values, 30 by
#: 64, (1000000, 17) by 16 100 and by 32 86; (2, 2, 60, 2816) over 2, 3, groups innermost, 7.4 by 16, 12.5 by 32 and
#: 18.8 by 64, such floats 10.8 by 16 and 15.6 by 32.
_VALUES_WITH_OPERANDS, _VALUES_WITH_OPERANDS_OF_EACH = 32, 16

#: Columns that a cluster of a few blocks has whole: what a thread holds, how wide strips are, threads of a block, and
#: blocks of a cluster at the most.
_CLUSTER_SPAN_BYTES, _CLUSTER_STRIP_BYTES, _CLUSTER_THREADS, _MOST_BLOCKS = 256, (128, 64), 256, 8

#: Rows that are narrower are moved by whole warps, if they follow each other without gaps.
NARROW_ROW_BYTES = 128

#: Bytes from one narrow row to the next, from which on rows are no strips of their own. Nor are they where each lies in
#: sectors of its own, as lanes load whole ones then. Over 1, 2 (128, 224, 224, 3) float16s take an H200 49 us so and
#: 166 otherwise, (64, 224, 224, 3) floats 36 and 89, (64, 128, 128, 20) floats 73 and 87; with gaps, x[..., :3] of (32,
#: 512, 512, 4) float16s 65 and 209, over 0, 1, 2 64 and 93.
MOST_PITCH = NARROW_ROW_BYTES

#: Bytes of elements of which threads of tiles have single columns where rows have gaps: over 1, 2 x[..., :2] of (32,
#: 512, 512, 4) float16s takes 47 us so and by two columns 159, of (16, 512, 512, 4) floats 77 and 59.
_SINGLE_BYTES = 2


class Columns(NamedTuple):
    """How columns are shared out: the constants of kernels/normalization_columns.cu."""

    vector: int
    span: int
    across: int
    spans: int
    rounds: int
    chunk: int
    blocks: int = 1
    """That share whole columns, a tile each."""

    @property
    def steps(self) -> int:
        """Of a span."""
        return self.span * self.chunk

    @property
    def tile(self) -> int:
        """Steps of a block."""
        return self.spans * self.rounds * self.steps

    @property
    def threads(self) -> int:
        return self.across * self.spans

    @property
    def width(self) -> int:
        return self.across * self.vector

    def even_steps(self, groups: Groups) -> int:
        """Steps of a span, a power of two, that lie at equal distances from every multiple of their number on; 1 where
        spans are loaded once, as addresses that do not wait for each other are there sooner: mean and variance of (64,
        7, 7, 2048) floats over 0, 1, 2 take an H200 9.4 us so and 10.5 otherwise."""
        if self.rounds == 1:
            return 1
        in_runs = len(groups.reduced.sizes) > 1
        return math.gcd(self.steps, groups.reduced.sizes[-1]) if in_runs else self.steps

    def grid(self, groups: Groups) -> int:
        """Blocks that have a tile of every column."""
        return groups.strips_of(self.width) * self.blocks


def applied_columns(groups: Groups) -> Columns:
    """The tiles that a block normalizes."""
    spans = span_of_tile(groups)
    if groups.operands.differ_down:
        are_of_each = any(map(groups.operands.differ_across, groups.operands.stored))
        values = _VALUES_WITH_OPERANDS_OF_EACH if are_of_each else _VALUES_WITH_OPERANDS
        spans = spans._replace(span=max(1, min(spans.span, values // (spans.vector * spans.chunk))))
    return block_of(spans, groups, *_APPLIED_TILES)


def span_of_tile(groups: Groups) -> Columns:
    """What a thread has of narrow tiles, and of those that are normalized."""
    size = groups.source.dtype.itemsize
    are_single = size <= _SINGLE_BYTES and groups.by_rows and groups.gap_of_rows("input") != 0
    return one_span(groups, size if are_single else None)


def rows_of(groups: Groups) -> Groups | None:
    """The same groups, of whose columns each row is a strip; None where strips had better be cut from all columns.

    Across outer axes a warp would touch a few bytes of each of many images at a time. Nor does it move rows with gaps
    between them together unless they are strips."""
    rows = groups.in_rows()
    gap = rows.gap_of_rows("input")
    if gap is None or not are_narrow(rows) or (gap == 0 and len(groups.kept.sizes) == 1):
        return None
    pitch = groups.reduced.strides["input"][0]
    return rows if pitch < MOST_PITCH and pitch % SECTOR_BYTES else None


def are_narrow(groups: Groups) -> bool:
    return groups.row * groups.source.dtype.itemsize < NARROW_ROW_BYTES


def one_span(groups: Groups, nbytes: int | None = None) -> Columns:
    """Of so many bytes of neighbouring columns at the most."""
    size = groups.source.dtype.itemsize
    vector = vector_of(groups, nbytes or VECTOR_BYTES)
    if size == 1 and not nbytes:
        vector = min(vector, _BYTES_OF_NARROW)
    are_single_halves = vector == 1 and size == 2
    values = FEW_VALUES if are_single_halves or _are_bytes_of_many_registers(groups, vector) else MOST_VALUES
    return Columns(vector, span_of(SPAN_BYTES, vector, groups.chunk, values), 1, 1, 1, groups.chunk)


def _are_bytes_of_many_registers(groups: Groups, vector: int) -> bool:
    """Whether these are bytes that are normalized in double, or single columns of them in runs, whose addresses take
    registers too."""
    are_single_in_runs = vector == 1 and len(groups.reduced.sizes) > 1
    are_normalized = groups.source.dtype.itemsize == 1 and groups.has("output")
    return are_normalized and (groups.is_double or are_single_in_runs)


def block_of(spans: Columns, groups: Groups, threads: int, nbytes: int) -> Columns:
    """So many threads that have a strip of so many bytes."""
    width = spans.vector * groups.source.dtype.itemsize
    vectors = math.ceil(groups.row / spans.vector)
    most = min(max(1, nbytes // width), power_of_two(vectors))
    narrower = (most // 2, most // 4) if groups.source.dtype.itemsize == 2 else ()
    widths = [most, *(across for across in narrower if across * width >= _LEAST_STRIP_BYTES)]
    busy = (across for across in widths if math.ceil(vectors / across) * across <= _MOST_IDLE * vectors)
    across = next(busy, widths[-1])
    return spans._replace(across=across, spans=max(1, threads // across))


def clusters_of(groups: Groups, device: DeviceProperties) -> Columns | None:
    """How columns are shared out to clusters of blocks; None where they are too long, or rows are no whole vectors: in
    clusters (1300, 1001) floats take an H100 11.7 us, and 9.0 in two steps, (3136, 1001) halves 18.4 and 11.2."""
    size, chunk, vector = groups.source.dtype.itemsize, groups.chunk, vector_of(groups)
    if not (device.clusters and groups.has("output")) or vector * groups.widest < VECTOR_BYTES:
        return None
    span = span_of(_CLUSTER_SPAN_BYTES, vector, chunk)
    for nbytes in _CLUSTER_STRIP_BYTES:
        across = max(1, nbytes // (vector * size))
        chosen = Columns(vector, span, across, _CLUSTER_THREADS // across, 1, chunk)
        chosen = chosen._replace(blocks=math.ceil(groups.length / chosen.tile))
        if 1 < chosen.blocks <= _MOST_BLOCKS and groups.kept.sizes[-1] >= chosen.width:
            return chosen
    return None


def span_of(nbytes: int, vector: int, chunk: int, values: int = MOST_VALUES) -> int:
    """Chunks of a span of so many bytes and values."""
    return max(1, min(nbytes // (vector * VECTOR_BYTES), values // (vector * chunk)))


def vector_of(groups: Groups, nbytes: int = VECTOR_BYTES, names: tuple[str, ...] = ("input", "output")) -> int:
    """Neighbouring columns of a thread: as many as one access moves, of each of these arrays that there is."""
    layouts = {name: layout for name in names if isinstance(layout := groups.arrays.get(name), ArrayLayout)}
    vector = max(1, nbytes // max(layout.dtype.itemsize for layout in layouts.values()))
    while vector > 1 and not all(groups.packed_columns(name, vector) for name in layouts):
        vector //= 2
    return vector
