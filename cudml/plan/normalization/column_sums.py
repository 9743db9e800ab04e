"""How normalizations of columns share them out to the blocks that add them up: whole, loaded at once or not, or in
tiles.
"""

from __future__ import annotations

import math

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, power_of_two, power_of_two_within, powers_of_two
from cudml.plan.normalization.column_tiles import (
    FEW_VALUES,
    MOST_VALUES,
    SPAN_BYTES,
    Columns,
    are_narrow,
    block_of,
    one_span,
    span_of,
    span_of_tile,
    vector_of,
)
from cudml.plan.normalization.column_tilings import (
    FEW_TILES_OF_HALVES,
    NARROW_TILING,
    SMALL_TILES_OF_HALVES,
    WIDE_TILING,
    WORD_BYTES,
    Tiling,
    are_odd_runs,
    are_single_halves,
    bytes_of_thread,
    moves_whole_vectors,
    tiling_of_tiles,
    tiling_of_whole,
)
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.whole_columns import whole_columns

#: Tiles for each multiprocessor where they are normalized too, and where blocks load a few times, as all run at once
#: then: (32, 112, 112, 64) floats over 0, 1, 2 take an H100 84 us so, and 87 with as many as where they are only read,
#: (98304, 64) 27.4 with a few and 31.2 otherwise, (238312, 33) 44 and 51.
_LEAST_TILES_OF_BOTH, _FEW_ROUNDS, _LEAST_TILES_OF_FEW_ROUNDS = 8, 4, 2

#: Tiles of a column that one block adds up (kernels/normalization_tiles.cuh), threads of a block that has no more of
#: them, and how narrow its strip may be: (16384, 64) float16s take an H200 5.5 us so and 6.4 otherwise, floats 6.7 and
#: 7.5, (8192, 256) floats 8.7 and 10.1, (16384, 2) 3.6 and 3.9; but (32768, 32) float16s in strips of 16 bytes 7.5 and
#: 6.5.
_SIZES_OF_SETS, _TILES_OF_SET, _THREADS_OF_SET, _LEAST_STRIP_OF_SET = (2, 4), 32, 128, 32

#: Blocks for each multiprocessor at the least, if there can be as many in narrower strips, and at the most: (12544, 16)
#: floats take 4.8 us by 50 blocks and 5.2 by 25, (2048, 1000) 9.4 by 512 and 10.5 by 1024. Narrow rows may have strips
#: that are even narrower: (32768, 8) floats take 4.6 us so and 5.1 in one strip.
_LEAST_BLOCKS_OF_SETS, _MOST_BLOCKS_OF_SETS, _NARROW_ROW_OF_SET, _LEAST_STRIP_OF_NARROW = 1 / 3, 4, 32, 16

#: Bytes of a narrow row of halves, at the most, of which a thread adds up a word, as the sums of a vector's columns
#: take so many registers that too few loads are on their way: (16000000, 8) float16s take an H200 202 us so and 242
#: otherwise, (833333, 24) 42 and 51, their moments (5333333, 24) 85 and 137; but (2666666, 48) 238 and 233.
_MOST_ROW_BY_WORDS = 64

#: Bytes of a tile of one column, at least, where columns are joined: its sums take 16.
_LEAST_DIVIDING_BYTES = 64

#: What a thread that only reads loads of a tile, if it does so once: 9.7 us for (64, 7, 7, 2048) over 0, 1, 2, and 10.8
#: with half as much.
_ONLY_SPAN_BYTES = 256

#: Elements of a column from which on it is too long to be loaded at once, where bytes or halves are only read.
_AT_ONCE = {1: 512, 2: 832}


def columns_of(groups: Groups, device: DeviceProperties) -> Columns:
    """How columns are shared out: whole to a block, or in the tiles that it adds up."""
    are_long = groups.length > _AT_ONCE.get(groups.source.dtype.itemsize, math.inf)
    first, second = (_whole_in_rounds, whole_columns) if are_long else (whole_columns, _whole_in_rounds)
    return first(groups, device) or second(groups, device) or _in_tiles(groups, device)


def dividing_columns(groups: Groups, device: DeviceProperties) -> Columns | None:
    """How columns are cut into tiles that divide them; None where these would be short, or blocks no whole warps."""
    tiling, spans = tiling_of_tiles(groups), _span_of_input(groups, bytes_of_thread(groups))
    block = block_of(spans, groups, tiling.threads, tiling.strip_bytes)
    most_across = power_of_two(math.ceil(groups.row / block.vector))
    while block.span > 1 and groups.length % block.steps:
        block = block._replace(span=block.span // 2)
    while block.spans > 1 and groups.length % block.tile:
        across = min(2 * block.across, max(most_across, block.across))
        block = block._replace(spans=block.spans // 2, across=across)
    is_short = block.tile * groups.source.dtype.itemsize < _LEAST_DIVIDING_BYTES
    if is_short or groups.length % block.tile or block.threads < LANES:
        return None
    while block.rounds < tiling.rounds and groups.length % (2 * block.tile) == 0:
        longer = block._replace(rounds=2 * block.rounds)
        if not _are_enough(groups, tiling, longer, device):
            break
        block = longer
    return block


def _in_tiles(groups: Groups, device: DeviceProperties) -> Columns:
    if are_narrow(groups):
        spans = span_of_tile(groups)
        narrow = _cut(groups, device, spans, NARROW_TILING)
        in_one_set = _in_one_set(groups, spans, narrow, device)
        return in_one_set or _narrow_by_words(groups, device) or narrow
    wide = _in_wide_tiles(groups, device)
    if wide is not None:
        return wide
    spans, tiling = _span_of_input(groups, bytes_of_thread(groups)), tiling_of_tiles(groups)
    block = _cut(groups, device, spans, tiling)
    if tiling == FEW_TILES_OF_HALVES and _blocks_each(groups, block, device) < 1:
        block = _cut(groups, device, spans, SMALL_TILES_OF_HALVES)
    return _in_one_set(groups, spans, block, device) or _only_read(groups, block)


def _narrow_by_words(groups: Groups, device: DeviceProperties) -> Columns | None:
    """Tiles of halves in rows that whole vectors move, of which a thread adds up a word; None of others."""
    size = groups.source.dtype.itemsize
    are_halves = size == 2 and groups.are_floats and not groups.by_rows
    if not are_halves or groups.row * size > _MOST_ROW_BY_WORDS or not moves_whole_vectors(groups):
        return None
    return _cut(groups, device, one_span(groups, WORD_BYTES), NARROW_TILING)


def _in_one_set(groups: Groups, spans: Columns, block: Columns, device: DeviceProperties) -> Columns | None:
    """Tiles of floats or halves that are normalized, of which no column has more than one block adds up; None where
    there are more, or strips are rows, which are not cut."""
    size = groups.source.dtype.itemsize
    if not groups.has("output") or not groups.are_floats or size not in _SIZES_OF_SETS or groups.by_rows:
        return None
    is_narrow = groups.row * size <= _NARROW_ROW_OF_SET
    strip_bytes = _LEAST_STRIP_OF_NARROW if is_narrow else _LEAST_STRIP_OF_SET
    least = min(power_of_two_within(max(1, strip_bytes // (spans.vector * size))), block.across)
    tiles = [
        spans._replace(span=span, across=across, spans=_THREADS_OF_SET // across)
        for across in reversed(powers_of_two(least, block.across))
        for span in powers_of_two(1, MOST_VALUES // (spans.vector * spans.chunk))
    ]
    few = [tile for tile in tiles if groups.length <= _TILES_OF_SET * tile.tile]
    blocks = {tile: _blocks_each(groups, tile, device) for tile in few}
    allowed = [tile for tile in few if blocks[tile] <= _MOST_BLOCKS_OF_SETS]
    enough = (tile for tile in allowed if blocks[tile] >= _LEAST_BLOCKS_OF_SETS)
    return next(enough, max(allowed, key=blocks.__getitem__, default=None))


def _only_read(groups: Groups, block: Columns) -> Columns:
    """The same, if threads that load once hold nothing else."""
    if block.rounds > 1 or groups.has("output"):
        return block
    return block._replace(span=span_of(_ONLY_SPAN_BYTES, block.vector, block.chunk))


def _in_wide_tiles(groups: Groups, device: DeviceProperties) -> Columns | None:
    """None where they are no faster."""
    if groups.source.dtype.itemsize < WORD_BYTES or not moves_whole_vectors(groups):
        return None
    wide = _cut(groups, device, one_span(groups), WIDE_TILING)
    return wide if wide.rounds == WIDE_TILING.rounds else None


def _span_of_input(groups: Groups, nbytes: int) -> Columns:
    """Of so many bytes of neighbouring columns at the most: what is added up depends on the input alone."""
    vector = vector_of(groups, nbytes, ("input",))
    are_single_in_runs = vector == 1 and groups.source.dtype.itemsize == 2 and are_odd_runs(groups)
    values = FEW_VALUES if are_single_in_runs or are_single_halves(groups) else MOST_VALUES
    return Columns(vector, span_of(SPAN_BYTES, vector, groups.chunk, values), 1, 1, 1, groups.chunk)


def _cut(groups: Groups, device: DeviceProperties, spans: Columns, tiling: Tiling) -> Columns:
    """Strips in tiles, whose blocks load less often where that leaves too few of them."""
    block = block_of(spans, groups, tiling.threads, tiling.strip_bytes)
    block = block._replace(rounds=min(tiling.rounds, _rounds_of_all(groups, block)))
    while block.rounds > 1 and not (_are_filled(groups, tiling, block) and _are_enough(groups, tiling, block, device)):
        block = block._replace(rounds=block.rounds // 2)
    return block


def _are_filled(groups: Groups, tiling: Tiling, block: Columns) -> bool:
    """Whether tiles are not too long for what exists of the columns."""
    return block.tile <= tiling.padded * groups.length


def _are_enough(groups: Groups, tiling: Tiling, block: Columns, device: DeviceProperties) -> bool:
    """Whether such tiles are, and no multiprocessor has too many of them."""
    if groups.has("output"):
        tiles = groups.count * groups.length / (block.width * block.tile * device.multiprocessors)
        return tiles >= (_LEAST_TILES_OF_FEW_ROUNDS if block.rounds <= _FEW_ROUNDS else _LEAST_TILES_OF_BOTH)
    tiles = _blocks_each(groups, block, device)
    return tiles >= tiling.least and math.ceil(tiles) <= tiling.uneven * tiles


def _blocks_each(groups: Groups, block: Columns, device: DeviceProperties) -> float:
    """Of every multiprocessor."""
    return block.grid(groups) * math.ceil(groups.length / block.tile) / device.multiprocessors


def _whole_in_rounds(groups: Groups, device: DeviceProperties) -> Columns | None:
    """Strips of whole columns, which are only read; None where these are too few, or columns are too long."""
    tiling = tiling_of_whole(groups)
    if tiling is None or groups.has("output") or are_narrow(groups):
        return None
    spans = _span_of_input(groups, WORD_BYTES if groups.source.dtype.itemsize < WORD_BYTES else VECTOR_BYTES)
    block = block_of(spans, groups, tiling.threads, tiling.strip_bytes)
    block = block._replace(rounds=_rounds_of_all(groups, block))
    fits = block.rounds <= tiling.rounds and block.width <= block.threads
    fits &= _are_filled(groups, tiling, block)
    return block if fits and _are_enough(groups, tiling, block, device) else None


def _rounds_of_all(groups: Groups, block: Columns) -> int:
    """How often a block loads a span that has whole columns."""
    return power_of_two(math.ceil(groups.length / (block.spans * block.steps)))
