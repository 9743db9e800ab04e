"""The tiles in which elements are turned: kernels/turned_tiles.cuh."""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.layout import power_of_two


class Tile(NamedTuple):
    """Elements of a column and of a row, and the threads of a block."""

    height: int
    width: int
    block: int


#: The largest and the smallest, by the bytes of the elements that move through shared memory. The largest are, on an
#: H200, the fastest of 32 to 256 elements either way and 64 to 256 threads. The smallest are not half empty: of (8,
#: 692200) int16s, transposed, fmod takes 11.6 us in tiles of 8 rows and 21.7 in tiles of 16.
_TILES = {
    1: (Tile(128, 128, 128), Tile(16, 128, 128)),
    2: (Tile(64, 64, 256), Tile(8, 64, 64)),
    4: (Tile(64, 64, 256), Tile(8, 32, 64)),
    8: (Tile(32, 32, 128), Tile(8, 16, 64)),
}

#: The largest of arrays of so many bytes for each multiprocessor at the most: more blocks, whose threads move less, are
#: done sooner. By such tiles and by the others an H200 takes, in us, for fmod of an array by a transposed one, (1024,
#: 1024) int8 2.2 and 4.1, (8192, 8192) 59 and 57, (512, 512) float16 1.7 and 2.1, (2048, 2048) 8.4 and 8.3, (1000,
#: 1008) float32 4.9 and 7.2, (512, 512) float64 2.5 and 2.6; for moments of float32 (334, 13, 2, 167) over 1, 2, 3,
#: whose axes lie in the order 0, 3, 1, 2 and which are copied first, 10.2 and 12.2, of (20, 4, 33, 1024) over 2, 3, in
#: the order 3, 1, 0, 2, 23.1 and 22.1.
_TILES_OF_FEW = {
    1: (32 << 10, Tile(32, 128, 256)),
    2: (16 << 10, Tile(32, 64, 256)),
    4: (48 << 10, Tile(32, 32, 256)),
    8: (64 << 10, Tile(16, 32, 128)),
}


def tile_of(itemsize: int, down: int, across: int, nbytes: float = math.inf) -> Tile:
    """The tile for columns of so many elements and rows of so many, where each multiprocessor has so many bytes: one of
    which there is no half to spare. (32, 2^21) float32, transposed, take an H200 68 us by a number, and in tiles of 64
    x 64 136."""
    (most, least), (most_bytes, of_few) = _TILES[itemsize], _TILES_OF_FEW[itemsize]
    return shrunk(of_few if nbytes <= most_bytes else most, least, down, across)


def shrunk(most: Tile, least: Tile, down: int, across: int) -> Tile:
    """The same of other tiles."""
    height = min(most.height, max(least.height, power_of_two(down)))
    width = min(most.width, max(least.width, power_of_two(across)))
    block = most.block * height * width // (most.height * most.width)
    return Tile(height, width, max(block, least.block))
