"""How strips of columns that are added up are cut into tiles: by what the columns are."""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.layout import VECTOR_BYTES
from cudml.plan.normalization.column_tiles import STRIP_BYTES
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.whole_columns import MOST_ROWS_ALONE


class Tiling(NamedTuple):
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
    1: Tiling(128, 32, 32, 7),
    2: Tiling(256, 128, 32, 5),
    4: Tiling(128, 128, 32, 15),
    8: Tiling(128, 128, 32, 15),
}

#: Of many halves that are only read, in whole vectors but in no whole strips: narrow strips have fewer idle threads,
#: and many small tiles end at about the same time. Mean and variance of (1677721, 160) float16s take an H200 164 us so,
#: 180 in strips of 128 bytes and 205 if blocks load 16 or 32 times; of (400000, 168) 54, 56 and 72, of (10000, 4000)
#: 31, 32 and 42.
_CUT_VECTORS = Tiling(128, 64, 4, 5)

#: Of halves that are only read, bytes at the most: all their tiles had better be added up at once, as evenly as can be.
#: Mean and variance of (50176, 512) float16s take an H100 24.0 us with 1.5 tiles for each multiprocessor, and 26.5 with
#: 6.
_FEW_HALVES, FEW_TILES_OF_HALVES = 1 << 26, Tiling(256, 128, 32, 1.4, 1.33)

#: And where even so there are fewer tiles than multiprocessors: those of (1200, 300) take 3.3 us so and 3.8 otherwise.
SMALL_TILES_OF_HALVES = Tiling(128, 64, 1, 0)

#: Of narrow rows, of which more tiles are finished at once: (33554432, 8) floats take an H200 247 us, 250 with 256
#: threads and 256 if these load 16 times.
NARROW_TILING = Tiling(128, 128, 8, 15)

#: Of elements of 4 bytes and more that blocks load as often as that: mean and variance of (1048576, 256) floats take an
#: H100 351 us so, and 363 in strips of 128 bytes. But those of (64, 56, 56, 256), where blocks load less often, take 72
#: and 70.
WIDE_TILING = Tiling(128, 256, 32, 15)

#: Of whole columns, where strips are as many for each multiprocessor, as nobody waits for another's sums then: mean and
#: variance of (4096, 65536) floats take an H100 346 us so, and 352 to 357 in strips of 128 bytes by 32 to 128 threads,
#: of (2100, 90112) 278 and 343 by 32 threads, of (4096, 45056) 244 and 252 in tiles, of (4096, 34048) 207 and 197; of
#: (2100, 180224) float16s 350 and by 128 threads 382, of (4000, 30000) 93 and in tiles 100, of (5000, 16384) 78 and 67,
#: of (4096, 180224) uint8 367 and by 256 threads 382.
_WHOLE = {
    1: Tiling(128, 32, 64, 3),
    2: Tiling(256, 128, 64, 3),
    4: Tiling(256, 256, 64, 5),
    8: Tiling(256, 256, 64, 5),
}

#: Of small elements whose columns are too long to be loaded at once, but no longer than one block may have: (1000,
#: 100000) float16s take 76 us so and 88 otherwise, (900, 33280) 24.5 and loaded at once 30, (800, 37440) 31.2 and 26;
#: (1000, 16384) uint8 11.2 and 14.0; but (1500, 12000) float16s, 1.4 strips for each multiprocessor, 19.6 and 19.4, and
#: (513, 20000), of whose steps half exist, 18.2 and 14.5; (1630, 19616) bfloat16s, 2.3 strips, take an H200 74 us so
#: and 48 in tiles.
_SHORT = {1: Tiling(128, 32, 64, 1.4, 1.35, 1.6), 2: Tiling(128, 128, 64, 3, 1.35, 1.6)}

#: Of single halves that are only read, as those of rows that begin at odd ones: whole columns, and tiles of some bytes
#: and of many. Mean and variance of (2000, 40001) float16s take an H200 62 us so and 69 by 256 threads, of (100000,
#: 333) 33.5 with eight tiles for each multiprocessor and 39.6 with a few more than four, of (766989, 207) 120 with 20
#: and 127 with ten, in strips of 128 bytes 138 and 133; but of (1000, 1073741) 750, and 720 in strips of 128 bytes.
#: (2100, 90111) take 161 us in tiles and 203 whole, half of the warps idle then, (8000, 9001) 61 and 78.
_WHOLE_SINGLE_HALVES = Tiling(128, 64, 64, 4, 1.35, 1.6)
_SOME_SINGLE_HALVES, _MANY_SINGLE_HALVES = Tiling(128, 64, 32, 3.5, 1.2), Tiling(128, 64, 32, 15, padded=1.6)

#: Bytes of these at least: fewer are added up as others are, (5000, 501) in 5.5 us and otherwise 6.6.
_SOME_BYTES = 1 << 24

#: Of halves in runs that are whole vectors: (64, 256, 56, 56) over 0, 2 take 44.2 us so and 51.6 in tiles.
_RUNS = Tiling(256, 128, 64, 1.4, 1.35)

#: Neighbours of a thread that adds up elements that are smaller, in bytes. The sums of more take so many registers that
#: too few loads are on their way: mean and variance of (12544, 1024) float16s take an H100 14.0 us so and 14.8 by 16
#: bytes, of (65536, 8192) uint8 260 and by 2 bytes 299. But many halves that are no whole strips of 128 bytes are added
#: up as floats are: (1101789, 88) take 80 us so and 90, (10674, 376) 10.1 and 7.9. Copies to shared memory that nobody
#: waits for ask the second-level cache for every sector twice: by such, halves took 402 us in place of 368 for (65536,
#: 8192).
WORD_BYTES = 4


def tiling_of_tiles(groups: Groups) -> Tiling:
    """Of columns that several blocks share."""
    size = groups.source.dtype.itemsize
    if size == 2 and are_odd_runs(groups):
        return _TILINGS[4]  # (26, 280, 403, 66) float16s over 0, 2 take 157 us so, and 168 by 256 threads
    return _tiling_of_read_halves(groups) if size == 2 and not groups.has("output") else _TILINGS[size]


def _tiling_of_read_halves(groups: Groups) -> Tiling:
    """Of halves that are only read."""
    are_few = _are_few_halves(groups)
    if are_single_halves(groups):
        return _SOME_SINGLE_HALVES if are_few else _MANY_SINGLE_HALVES
    if are_few:
        return FEW_TILES_OF_HALVES
    return _CUT_VECTORS if _are_cut_vectors(groups) else _TILINGS[2]


def bytes_of_thread(groups: Groups) -> int:
    """Of neighbouring columns in a tile."""
    are_words = groups.source.dtype.itemsize < WORD_BYTES and not _are_cut_vectors(groups)
    return WORD_BYTES if are_words else VECTOR_BYTES


def moves_whole_vectors(groups: Groups) -> bool:
    """Whether all that a thread loads at a time can be 16 bytes."""
    return groups.packed_columns("input", VECTOR_BYTES // groups.source.dtype.itemsize)


def are_odd_runs(groups: Groups) -> bool:
    """Whether rows lie in runs and are no whole vectors, so that addresses take most registers."""
    return len(groups.reduced.sizes) > 1 and not moves_whole_vectors(groups)


def _are_cut_vectors(groups: Groups) -> bool:
    """Whether these are many halves that are only read, in whole vectors but in no whole strips."""
    size = groups.source.dtype.itemsize
    are_many = size == 2 and not groups.has("output") and not _are_few_halves(groups)
    return are_many and moves_whole_vectors(groups) and groups.count * size % STRIP_BYTES != 0


def are_single_halves(groups: Groups) -> bool:
    """Whether these are not so few halves, that are only read, one by one."""
    are_halves = groups.source.dtype.itemsize == 2 and not groups.has("output")
    return are_halves and groups.nbytes >= _SOME_BYTES and not groups.packed_columns("input", 2)


def _are_few_halves(groups: Groups) -> bool:
    return groups.source.dtype.itemsize == 2 and groups.nbytes <= _FEW_HALVES


def tiling_of_whole(groups: Groups) -> Tiling | None:
    """Of whole columns; None of halves in runs that are no whole vectors."""
    size = groups.source.dtype.itemsize
    if size == 2 and len(groups.reduced.sizes) > 1:
        return None if are_odd_runs(groups) else _RUNS
    if are_single_halves(groups):
        return _WHOLE_SINGLE_HALVES
    return _SHORT[size] if size < WORD_BYTES and groups.length <= MOST_ROWS_ALONE else _WHOLE[size]
