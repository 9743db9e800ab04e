"""How normalizations of columns share them out to the blocks that add them up: whole, loaded at once or not, or in
tiles.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, power_of_two
from cudml.plan.normalization.column_tiles import (
    MOST_SINGLE_HALVES,
    MOST_VALUES,
    SPAN_BYTES,
    STRIP_BYTES,
    Columns,
    are_narrow,
    block_of,
    one_span,
    span_of,
    span_of_tile,
    vector_of,
)
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.whole_columns import MOST_ROWS_ALONE, whole_columns


class _Tiling(NamedTuple):
    """How strips are cut into the tiles that are added up."""

    threads: int
    strip_bytes: int
    rounds: int
    """How often a thread loads a span at the most."""
    least: float
    """Tiles for each multiprocessor, where they are only read, before a block loads several times."""
    uneven: float = math.inf
    """As many as some multiprocessors may have for each of these then, at the most."""
    padded: float = math.inf
    """Steps of a tile for each that a column has, at the most."""


#: By the bytes of an element. On an H200 a block of 512 threads leaves memory idle when it ends. Blocks of four warps
#: are the best for floats, if they load often: 246 us for (65536, 4096), 252 if they load 8 times, and 257 where they
#: have 256 threads. Blocks end at different times, so there have to be some, but fewer of smaller elements, which are
#: added up for longer: mean and variance of (5000, 16384) float16s take an H100 67 us with 9 tiles for each
#: multiprocessor, and 84 with 2, of (802816, 128) uint8 57 us with 12, and 65 with 6.
_TILINGS = {
    1: _Tiling(128, 32, 32, 7),
    2: _Tiling(256, 128, 32, 5),
    4: _Tiling(128, 128, 32, 15),
    8: _Tiling(128, 128, 32, 15),
}

#: Of many halves that are only read, in whole vectors but in no whole strips: narrow strips have fewer idle threads,
#: and many small tiles end at about the same time. Mean and variance of (1677721, 160) float16s take an H200 164 us so,
#: 180 in strips of 128 bytes and 205 if blocks load 16 or 32 times; of (400000, 168) 54, 56 and 72, of (10000, 4000)
#: 31, 32 and 42.
_CUT_VECTORS = _Tiling(128, 64, 4, 5)

#: Of halves that are only read, bytes at the most: all their tiles had better be added up at once, as evenly as can be.
#: Mean and variance of (50176, 512) float16s take an H100 24.0 us with 1.5 tiles for each multiprocessor, and 26.5 with
#: 6, of (100000, 333) 39.5 with 4.5, and 49.5 with 2.2.
_FEW_HALVES, _FEW_TILES_OF_HALVES = 1 << 26, _Tiling(256, 128, 32, 1.4, 1.33)

#: And where even so there are fewer tiles than multiprocessors: those of (1200, 300) take 3.3 us so and 3.8 otherwise.
_SMALL_TILES_OF_HALVES = _Tiling(128, 64, 1, 0)

#: Of narrow rows, of which more tiles are finished at once: (33554432, 8) floats take an H200 247 us, 250 with 256
#: threads and 256 if these load 16 times.
_NARROW_TILING = _Tiling(128, 128, 8, 15)

#: Of elements of 4 bytes and more that blocks load as often as that: mean and variance of (1048576, 256) floats take an
#: H100 351 us so, and 363 in strips of 128 bytes. But those of (64, 56, 56, 256), where blocks load less often, take 72
#: and 70.
_WIDE_TILING = _Tiling(128, 256, 32, 15)

#: Tiles for each multiprocessor where they are normalized too, and where blocks load a few times, as all run at once
#: then: (32, 112, 112, 64) floats over 0, 1, 2 take an H100 84 us so, and 87 with as many as where they are only read,
#: (98304, 64) 27.4 with a few and 31.2 otherwise, (238312, 33) 44 and 51.
_LEAST_TILES_OF_BOTH, _FEW_ROUNDS, _LEAST_TILES_OF_FEW_ROUNDS = 8, 4, 2

#: What a thread that only reads loads of a tile, if it does so once: 9.7 us for (64, 7, 7, 2048) over 0, 1, 2, and 10.8
#: with half as much.
_ONLY_SPAN_BYTES = 256

#: Of whole columns, where strips are as many for each multiprocessor, as nobody waits for another's sums then: mean and
#: variance of (4096, 65536) floats take an H100 346 us so, and 352 to 357 in strips of 128 bytes by 32 to 128 threads,
#: of (2100, 90112) 278 and 343 by 32 threads, of (4096, 45056) 244 and 252 in tiles, of (4096, 34048) 207 and 197; of
#: (2100, 180224) float16s 350 and by 128 threads 382, of (4000, 30000) 93 and in tiles 100, of (5000, 16384) 78 and 67,
#: of (4096, 180224) uint8 367 and by 256 threads 382.
_WHOLE = {
    1: _Tiling(128, 32, 64, 3),
    2: _Tiling(256, 128, 64, 3),
    4: _Tiling(256, 256, 64, 5),
    8: _Tiling(256, 256, 64, 5),
}

#: Of small elements whose columns are too long to be loaded at once, but no longer than one block may have: (1000,
#: 100000) float16s take 76 us so and 88 otherwise, (900, 33280) 24.5 and loaded at once 30, (800, 37440) 31.2 and 26;
#: (1000, 16384) uint8 11.2 and 14.0; but (1500, 12000) float16s, 1.4 strips for each multiprocessor, 19.6 and 19.4, and
#: (513, 20000), of whose steps half exist, 18.2 and 14.5.
_AT_ONCE = {1: 512, 2: 832}
_SHORT = {1: _Tiling(128, 32, 64, 1.4, 1.35, 1.6), 2: _Tiling(128, 128, 64, 1.4, 1.35, 1.6)}

#: Of single halves that are only read, as those of rows that begin at odd ones: whole columns, and tiles of some bytes
#: and of many. Mean and variance of (2000, 40001) float16s take an H200 62 us so and 69 by 256 threads, of (100000,
#: 333) 33.5 with eight tiles for each multiprocessor and 39.6 with a few more than four, of (766989, 207) 120 with 20
#: and 127 with ten, in strips of 128 bytes 138 and 133; but of (1000, 1073741) 750, and 720 in strips of 128 bytes.
#: (2100, 90111) take 161 us in tiles and 203 whole, half of the warps idle then, (8000, 9001) 61 and 78.
_WHOLE_SINGLE_HALVES = _Tiling(128, 64, 64, 4, 1.35, 1.6)
_SOME_SINGLE_HALVES, _MANY_SINGLE_HALVES = _Tiling(128, 64, 32, 3.5, 1.2), _Tiling(128, 64, 32, 15, padded=1.6)

#: Bytes of these at least: fewer are added up as others are, (5000, 501) in 5.5 us and otherwise 6.6.
_SOME_BYTES = 1 << 24

#: Of halves in runs that are whole vectors: (64, 256, 56, 56) over 0, 2 take 44.2 us so and 51.6 in tiles.
_RUNS = _Tiling(256, 128, 64, 1.4, 1.35)

#: Neighbours of a thread that adds up elements that are smaller, in bytes, and 8 of them where whole columns lie in
#: runs. The sums of more take so many registers that too few loads are on their way: mean and variance of (12544, 1024)
#: float16s take an H100 14.0 us so and 14.8 by 16 bytes, of (65536, 8192) uint8 260 and by 2 bytes 299. But many halves
#: that are no whole strips of 128 bytes are added up as floats are: (1101789, 88) take 80 us so and 90, (10674, 376)
#: 10.1 and 7.9. Copies to shared memory that nobody waits for ask the second-level cache for every sector twice: by
#: such, halves took 402 us in place of 368 for (65536, 8192).
_WORD_BYTES = 4


def columns_of(groups: Groups, device: DeviceProperties) -> Columns:
    """How columns are shared out: whole to a block, or in the tiles that it adds up."""
    are_long = groups.length > _AT_ONCE.get(groups.source.dtype.itemsize, math.inf)
    first, second = (_whole_in_rounds, whole_columns) if are_long else (whole_columns, _whole_in_rounds)
    return first(groups, device) or second(groups, device) or _in_tiles(groups, device)


def _in_tiles(groups: Groups, device: DeviceProperties) -> Columns:
    if are_narrow(groups):
        return _cut(groups, device, span_of_tile(groups), _NARROW_TILING)
    wide = _in_wide_tiles(groups, device)
    if wide is not None:
        return wide
    spans, tiling = _span_of_input(groups, _bytes_of_thread(groups)), _tiling(groups)
    block = _cut(groups, device, spans, tiling)
    if tiling in (_FEW_TILES_OF_HALVES, _SOME_SINGLE_HALVES) and _blocks_each(groups, block, device) < 1:
        block = _cut(groups, device, spans, _SMALL_TILES_OF_HALVES)
    return _only_read(groups, block)


def _only_read(groups: Groups, block: Columns) -> Columns:
    """The same, if threads that load once hold nothing else."""
    if block.rounds > 1 or groups.has("output"):
        return block
    return block._replace(span=span_of(_ONLY_SPAN_BYTES, block.vector, block.chunk))


def _in_wide_tiles(groups: Groups, device: DeviceProperties) -> Columns | None:
    """None where they are no faster."""
    if groups.source.dtype.itemsize < _WORD_BYTES or not _moves_whole_vectors(groups):
        return None
    wide = _cut(groups, device, one_span(groups), _WIDE_TILING)
    return wide if wide.rounds == _WIDE_TILING.rounds else None


def _tiling(groups: Groups) -> _Tiling:
    size = groups.source.dtype.itemsize
    if size == 2 and _are_odd_runs(groups):
        return _TILINGS[4]  # (26, 280, 403, 66) float16s over 0, 2 take 157 us so, and 168 by 256 threads
    return _tiling_of_read_halves(groups) if size == 2 and not groups.has("output") else _TILINGS[size]


def _tiling_of_read_halves(groups: Groups) -> _Tiling:
    """Of halves that are only read."""
    are_few = _are_few_halves(groups)
    if _are_single_halves(groups):
        return _SOME_SINGLE_HALVES if are_few else _MANY_SINGLE_HALVES
    if are_few:
        return _FEW_TILES_OF_HALVES
    return _CUT_VECTORS if _are_cut_vectors(groups) else _TILINGS[2]


def _bytes_of_thread(groups: Groups) -> int:
    """Of neighbouring columns in a tile."""
    are_words = groups.source.dtype.itemsize < _WORD_BYTES and not _are_cut_vectors(groups)
    return _WORD_BYTES if are_words else VECTOR_BYTES


def _moves_whole_vectors(groups: Groups) -> bool:
    return groups.packed_columns("input", VECTOR_BYTES // groups.source.dtype.itemsize)


def _are_odd_runs(groups: Groups) -> bool:
    """Whether rows lie in runs and are no whole vectors, so that addresses take most registers."""
    return len(groups.reduced.sizes) > 1 and not _moves_whole_vectors(groups)


def _are_cut_vectors(groups: Groups) -> bool:
    """Whether these are many halves that are only read, in whole vectors but in no whole strips."""
    size = groups.source.dtype.itemsize
    are_many = size == 2 and not groups.has("output") and not _are_few_halves(groups)
    return are_many and _moves_whole_vectors(groups) and groups.count * size % STRIP_BYTES != 0


def _are_single_halves(groups: Groups) -> bool:
    """Whether these are not so few halves, that are only read, one by one."""
    size = groups.source.dtype.itemsize
    are_some = size == 2 and not groups.has("output") and groups.source.size * size >= _SOME_BYTES
    return are_some and not groups.packed_columns("input", 2)


def _are_few_halves(groups: Groups) -> bool:
    size = groups.source.dtype.itemsize
    return size == 2 and groups.source.size * size <= _FEW_HALVES


def _span_of_input(groups: Groups, nbytes: int) -> Columns:
    """Of so many bytes of neighbouring columns at the most: what is added up depends on the input alone."""
    vector = vector_of(groups, nbytes, ("input",))
    are_single_in_runs = vector == 1 and groups.source.dtype.itemsize == 2 and _are_odd_runs(groups)
    values = MOST_SINGLE_HALVES if are_single_in_runs or _are_single_halves(groups) else MOST_VALUES
    return Columns(vector, span_of(SPAN_BYTES, vector, groups.chunk, values), 1, 1, 1, groups.chunk)


def _cut(groups: Groups, device: DeviceProperties, spans: Columns, tiling: _Tiling) -> Columns:
    """Strips in tiles, whose blocks load less often where that leaves too few of them."""
    block = block_of(spans, groups, tiling.threads, tiling.strip_bytes)
    block = block._replace(rounds=min(tiling.rounds, _rounds_of_all(groups, block)))
    while block.rounds > 1 and not (_are_filled(groups, tiling, block) and _are_enough(groups, tiling, block, device)):
        block = block._replace(rounds=block.rounds // 2)
    return block


def _are_filled(groups: Groups, tiling: _Tiling, block: Columns) -> bool:
    """Whether tiles are not too long for what exists of the columns."""
    return block.tile <= tiling.padded * groups.length


def _are_enough(groups: Groups, tiling: _Tiling, block: Columns, device: DeviceProperties) -> bool:
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
    tiling = _tiling_of_whole(groups)
    if tiling is None or groups.has("output") or are_narrow(groups):
        return None
    spans = _span_of_input(groups, _WORD_BYTES if groups.source.dtype.itemsize < _WORD_BYTES else VECTOR_BYTES)
    block = block_of(spans, groups, tiling.threads, tiling.strip_bytes)
    block = block._replace(rounds=_rounds_of_all(groups, block))
    fits = block.rounds <= tiling.rounds and block.width <= block.threads
    fits &= _are_filled(groups, tiling, block)
    return block if fits and _are_enough(groups, tiling, block, device) else None


def _tiling_of_whole(groups: Groups) -> _Tiling | None:
    """Of whole columns; None of halves in runs that are no whole vectors."""
    size = groups.source.dtype.itemsize
    if size == 2 and len(groups.reduced.sizes) > 1:
        return None if _are_odd_runs(groups) else _RUNS
    if _are_single_halves(groups):
        return _WHOLE_SINGLE_HALVES
    return _SHORT[size] if size < _WORD_BYTES and groups.length <= MOST_ROWS_ALONE else _WHOLE[size]


def _rounds_of_all(groups: Groups, block: Columns) -> int:
    """How often a block loads a span that has whole columns."""
    return power_of_two(math.ceil(groups.length / (block.spans * block.steps)))
