"""The tiles in which elements are turned: kernels/turned_tiles.cuh."""

from __future__ import annotations

from typing import NamedTuple

from cudml.plan.layout import power_of_two


class Tile(NamedTuple):
    """Elements of a column and of a row, and the threads of a block."""

    height: int
    width: int
    block: int


#: The largest and the smallest, by the bytes of the elements that move through shared memory. The largest are, on an
#: H200, the fastest of 32 to 256 elements either way and 64 to 256 threads.
_TILES = {
    1: (Tile(128, 128, 128), Tile(32, 128, 128)),
    2: (Tile(64, 64, 256), Tile(16, 64, 64)),
    4: (Tile(64, 64, 256), Tile(8, 32, 64)),
    8: (Tile(32, 32, 128), Tile(8, 16, 64)),
}


def tile_of(itemsize: int, down: int, across: int) -> Tile:
    """The tile for columns of so many elements and rows of so many: one of which there is no half to spare. (32, 2^21)
    float32, transposed, take an H200 68 us by a number, and in tiles of 64 x 64 136."""
    return shrunk(*_TILES[itemsize], down, across)


def shrunk(most: Tile, least: Tile, down: int, across: int) -> Tile:
    """The same of other tiles."""
    height = min(most.height, max(least.height, power_of_two(down)))
    width = min(most.width, max(least.width, power_of_two(across)))
    block = most.block * height * width // (most.height * most.width)
    return Tile(height, width, max(block, least.block))
