"""The tiles in which elements are turned: kernels/turned_tiles.cuh."""

#: Height and width of a tile and threads of a block by the bytes of the elements that move through shared memory. On an
#: H200 these are the fastest of 64 to 256 elements either way and 64 to 256 threads: bytes at 94 % of copy speed (64 x
#: 128: 91 %), halves at 98 % (128 x 128: 94 %).
TILES = {1: (128, 128, 256), 2: (64, 64, 128), 4: (64, 64, 256), 8: (64, 32, 256)}

#: Shorter axes leave most of a tile empty.
LEAST_TURNED = 16
