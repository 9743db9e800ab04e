"""GPUs on which small calls are planned as large ones are."""

from __future__ import annotations

from cuda_on_cpu.backend import SMALL_GPU

#: With room for a group of more units than a warp has lanes.
ROOMY_GPU = SMALL_GPU._replace(multiprocessors=20)

#: With room for pieces of strips, which are larger, and without clusters.
STRIPS_GPU = SMALL_GPU._replace(multiprocessors=10, compute_capability=(8, 0))

#: With a ring of one and a half pieces, so that stages are used again, and bulk copies.
STRIPS_IN_BULK_GPU = SMALL_GPU._replace(multiprocessors=5, cluster_launch=False, shared_bytes_per_block=110_000)

#: The same with memory that is too fast for two loaders.
FAST_STRIPS_GPU = STRIPS_IN_BULK_GPU._replace(bytes_per_second=1e12)

#: With a ring of two pieces of strips, and with blocks of so large pieces that a ring holds but one and a half.
RING_OF_STRIPS_GPU = STRIPS_GPU._replace(multiprocessors=5, shared_bytes_per_block=140_000)
LARGE_PIECES_GPU = STRIPS_GPU._replace(multiprocessors=3)

#: The same with registers for units of these.
HOLDING_GPU = LARGE_PIECES_GPU._replace(compute_capability=(9, 0))

#: With room for three stages.
TIGHT_GPU = SMALL_GPU._replace(shared_bytes_per_block=102_400)

#: The same with a single block.
TIGHT_BLOCK = TIGHT_GPU._replace(multiprocessors=1)

#: Without bulk copies and barriers that count bytes, and with room for one stage.
OLD_GPU = SMALL_GPU._replace(compute_capability=(7, 5), shared_bytes_per_block=65_536)
ROOMY_OLD_GPU = SMALL_GPU._replace(compute_capability=(7, 5))
COPYING_GPU = SMALL_GPU._replace(compute_capability=(8, 0))

#: With so few multiprocessors that a block loads several times in a tile of some kilobytes.
TINY_GPU = OLD_GPU._replace(multiprocessors=1)

#: With so many that two tiles are linked in four parts each, three and four tiles in two.
PARTS_GPU = SMALL_GPU._replace(multiprocessors=16)

#: With so many that eight teams of four draw what they work on.
TEAMS_GPU = SMALL_GPU._replace(multiprocessors=32)

#: Without clusters, which share what a stream has otherwise.
NO_CLUSTERS = SMALL_GPU._replace(cluster_launch=False)

#: With so many that it loads once.
MANY_BLOCKS = SMALL_GPU._replace(multiprocessors=132)

#: With so many blocks, of those that fill a multiprocessor.
TWO_BLOCKS = SMALL_GPU._replace(multiprocessors=2)
FOUR_BLOCKS = SMALL_GPU._replace(multiprocessors=4)
FIVE_BLOCKS = SMALL_GPU._replace(multiprocessors=5)
FIVE_ALONE = FIVE_BLOCKS._replace(cluster_launch=False)
SIX_BLOCKS = SMALL_GPU._replace(multiprocessors=6)

#: A GPU that small calls fill, with room for a team of three blocks that hold tiles.
ONE_BLOCK = SMALL_GPU._replace(multiprocessors=1)

#: And whose blocks hold parts of bundles.
SMALL_BLOCKS = ONE_BLOCK._replace(shared_bytes_per_block=20_000)
LARGER_BLOCKS = ONE_BLOCK._replace(shared_bytes_per_block=30_000)

#: And whose clusters hold none of these.
SMALL_CLUSTERS = ONE_BLOCK._replace(shared_bytes_per_block=24_000)

#: And whose clusters share panels of some kilobytes.
SHARED_PANELS = ONE_BLOCK._replace(shared_bytes_per_multiprocessor=8192)
SHARED_LARGER_PANELS = ONE_BLOCK._replace(shared_bytes_per_multiprocessor=16_384)

#: GPUs for which no array is a small one.
FEW_THREADS = SMALL_GPU._replace(threads_per_multiprocessor=0)
ONE_OF_FEW_THREADS = FEW_THREADS._replace(multiprocessors=1)
OLD_AND_FEW_THREADS = OLD_GPU._replace(threads_per_multiprocessor=0)
