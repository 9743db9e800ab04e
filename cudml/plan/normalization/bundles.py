"""The plans of bundles that lie in the shared memory of a block or of a cluster: kernels/normalization_bundles.cu.

On an H200 (64, 2048, 7, 7) over 0, 2, 3 takes 17.9 us in place of 20.5 as lines, of halves 16.2 in place of 28.2, and
(256, 1024, 7, 7) 40 in place of 104; (64, 7, 7, 2048) over 0, 1, 2 takes 17.4 in place of 20.8 in clusters.
"""

from __future__ import annotations

from dataclasses import replace

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import SECTOR_BYTES, power_of_two
from cudml.plan.loads import asked_for_ahead
from cudml.plan.normalization.bundle import LONG_RUN_BYTES, MOST_BLOCKS, Bundle, are_uneven_runs, repeat_in_pieces
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.line_shares import rows_of
from cudml.plan.normalization.runs import in_long_runs
from cudml.plan.normalization.steps import array_arguments, parameters
from cudml.plan.plan import Launch, Plan, constants_of
from cudml.plan.spec import Normalization

#: Bytes of the elements of columns.
_COLUMN_ITEMSIZE = 4

#: The part of the multiprocessors that larger bundles leave busy: (3000, 512, 2, 1) floats over 0, 2, 3 take an H100 17
#: us by 128 blocks and 26 by 64. Halves that the smallest ones leave idle had better be lines: (64, 512, 11, 11) take
#: 14.9 us by 64 blocks and 9.9 so, (200, 512, 7, 7) 17.1 and 14.1.
_LEAST_BLOCKS = 3 / 4

#: The part of the shared memory of all multiprocessors that the input fills at least, halves counted as floats: 42 % of
#: an H200's are up to 12 % slower than as lines, 54 % by 15 % faster than as columns. Columns that do not fit all at
#: once are slower as well. Short runs gain from the start: 13 %, (512, 512, 2, 2) floats over 0, 2, 3, take an H100 6.3
#: us in place of 9.1.
_LEAST_FILLED, _LEAST_FILLED_BY_SHORT, _LEAST_ITEMSIZE = 1 / 2, 1 / 8, 4

#: Rows of 32 chunks of floats in long runs that a block holds as lines in less time, 8 to a warp: (64, 1000, 15, 15)
#: take an H100 60 us by clusters of 2 blocks and 50 so, (40, 1000, 15, 15) 36 by a block each and 31, (50, 1000, 17,
#: 15) 48 and 47.
_ROWS_OF_LINES = range(65, 129)

#: What makes a cluster faster than a stream where runs are long: so many bundles as fill the GPU so often, of halves
#: less often if few blocks share each, and no more of these than that if elements are larger. (192, 512, 13, 13)
#: bfloat16s took an H100 47 us by clusters of 3 and 53 as a stream, (64, 96, 31, 30), half a wave, 21 and 17; (100,
#: 2048, 13, 13) float16s, by 2, 83 and 140; (300, 192, 17, 15) floats, by 6, 65 and 59, (256, 128, 11, 11), by 3, 22
#: and 19. Runs that a stream moves in pieces are faster as such but for few blocks: (64, 1000, 21, 21) float16s, by 3,
#: take 78 us and 69, (64, 1024, 19, 19), by 2, 54 and 58.
_FEW_BLOCKS, _FEW_BLOCKS_OF_LONG_RUNS, _MOST_BLOCKS_OF_OTHERS = 3, 2, 4
_LEAST_WAVES, _LEAST_WAVES_OF_FEW_BLOCKS = 1.9, 0.7

#: The part of a multiprocessor's shared memory that bundles fill at least that begin one after the other: they wait for
#: about as long as it takes to load and add up all of it.
_LEAST_FILLED_IN_TURN = 1 / 2

#: Bytes of the input, at the most, that is asked for while the launch ahead ends: (64, 1280, 7, 7) float16s over 0, 2,
#: 3 take an H100 12.4 us so and 13.6 otherwise, (64, 2048, 7, 7) 15.0 and 16.0, (64, 512, 14, 14) 13.4 and 14.4, (80,
#: 2048, 7, 7) 21.1 and 21.0, but (128, 2048, 7, 7) 26.0 and 25.4, of floats (64, 2048, 7, 7) 22.2 and 20.6.
_AHEAD_BYTES = 13 << 20

#: Threads of a multiprocessor, and of a block at the most. Halves take more registers, so there are fewer threads,
#: unless that leaves many idle: (64, 2048, 7, 7) floats take an H100 20.8 us by 1024 threads and 21.5 by 768, float16s
#: 19.6 and 17.2, but (32, 2048, 14, 14), of whose 96 threads 49 are busy, 23.7 and 25.0.
_THREADS, _MOST_THREADS = 1024, 512
_THREADS_OF_HALVES, _LEAST_BUSY = 768, 3 / 4


def plan_bundles(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch of a block or a cluster for each bundle; None where vectors do not move them, or others are faster."""
    if not _is_able(groups, device) or not repeat_in_pieces(groups):
        return None
    bundle = _bundle_of(groups, device)
    resident = bundle.resident(groups, device)
    if resident == 0 or not _is_fast(bundle, groups, resident, device):
        return None
    threads = _threads(groups, bundle, resident)
    fits = bundle.vectors(groups) <= threads
    if not (fits and bundle.moves(groups, "input") and bundle.moves(groups, "output")):
        return None
    own = {"UNITS": power_of_two(bundle.units(groups)), "BLOCK_UNITS": bundle.sums(groups)}
    own["AT_FIRST"] = _at_first(bundle, groups, resident, device)
    constants = {**groups.constants(spec), **bundle.constants(groups), **own, "BLOCK": threads, "RESIDENT": resident}
    ahead = asked_for_ahead(groups.source, _AHEAD_BYTES, device)
    arguments = (*array_arguments(), groups.geometry, parameters(groups, spec), ahead)
    kernel = "normalize_bundles" if bundle.blocks == 1 else "normalize_shared_bundles"
    grid, shared_bytes = bundle.grid(groups), bundle.bytes(groups)
    launch = Launch(kernel, grid, threads, arguments, shared_bytes, cluster=bundle.blocks, early=True)
    return Plan("normalization_bundles.cu", constants_of(**constants), (launch,))


def _bundle_of(groups: Groups, device: DeviceProperties) -> Bundle:
    """With pieces as long as shall be, if that leaves enough blocks, and room for these."""
    bundle = _in_cluster(Bundle.smallest(groups), groups, device)
    while twice := None if groups.are_columns else bundle.twice(groups):
        if bundle.ends_amid_sectors(groups):
            twice = _in_cluster(twice, groups, device)
        are_few = twice.grid(groups) < _LEAST_BLOCKS * device.multiprocessors
        if are_few or not twice.resident(groups, device):
            break
        bundle = twice
    return bundle


def _in_cluster(bundle: Bundle, groups: Groups, device: DeviceProperties) -> Bundle:
    """The same of as few blocks as have room for it, if there is a cluster that has."""
    if not device.clusters or groups.are_columns:
        return bundle
    clusters = (replace(bundle, blocks=blocks) for blocks in range(1, MOST_BLOCKS + 1))
    return next((cluster for cluster in clusters if cluster.resident(groups, device)), bundle)


def _is_fast(bundle: Bundle, groups: Groups, resident: int, device: DeviceProperties) -> bool:
    """Whether columns fit all at once, and clusters have long pieces or many bundles."""
    size, waves = groups.source.dtype.itemsize, bundle.grid(groups) / (resident * device.multiprocessors)
    if groups.are_columns:
        return waves <= 1
    if bundle.blocks == 1:
        return size != 2 or bundle.grid(groups) >= _LEAST_BLOCKS * device.multiprocessors
    if bundle.run * size <= LONG_RUN_BYTES:
        return bundle.piece_bytes(groups) >= SECTOR_BYTES
    if in_long_runs(groups, "input"):
        return bundle.blocks <= _FEW_BLOCKS_OF_LONG_RUNS and waves >= _LEAST_WAVES_OF_FEW_BLOCKS
    if size == 2 and bundle.blocks <= _FEW_BLOCKS:
        return waves >= _LEAST_WAVES_OF_FEW_BLOCKS
    return waves >= _LEAST_WAVES and (size == 2 or bundle.blocks <= _MOST_BLOCKS_OF_OTHERS)


def _at_first(bundle: Bundle, groups: Groups, resident: int, device: DeviceProperties) -> int:
    """Large bundles that the GPU holds, at the most, if there are more, which begin one after the other; else none."""
    blocks = resident * device.multiprocessors
    filled = resident * bundle.bytes(groups) / device.shared_bytes_per_multiprocessor
    return blocks // bundle.blocks if bundle.grid(groups) > blocks and filled >= _LEAST_FILLED_IN_TURN else 0


def _threads(groups: Groups, bundle: Bundle, resident: int) -> int:
    """Of each of so many blocks; fewer than a piece has vectors where bundles are slow: (16, 1280, 21, 19) float16s
    over 0, 2, 3 take an H100 19.0 us as lines, and 26.3 by 512 threads of two blocks."""
    usual = min(_MOST_THREADS, _THREADS // power_of_two(resident))
    if groups.source.dtype.itemsize != 2 or bundle.run * 2 < SECTOR_BYTES:
        return usual
    fewer, vectors = min(_MOST_THREADS, _THREADS_OF_HALVES // resident // LANES * LANES), bundle.vectors(groups)
    are_idle = 0 < fewer // vectors * vectors < _LEAST_BUSY * fewer
    return usual if are_idle else fewer


def _is_able(groups: Groups, device: DeviceProperties) -> bool:
    """Whether groups are of a kind, and of a size, for which bundles are fast."""
    source, size = groups.source, groups.source.dtype.itemsize
    short = not groups.are_columns and groups.reduced.sizes[-1] * size < SECTOR_BYTES
    kind = size == _COLUMN_ITEMSIZE if groups.are_columns else are_uneven_runs(groups) and not _are_lines(groups)
    least = _LEAST_FILLED_BY_SHORT if short else _LEAST_FILLED
    shared_bytes = device.multiprocessors * device.shared_bytes_per_multiprocessor
    large = source.size * max(size, _LEAST_ITEMSIZE) >= least * shared_bytes
    return kind and large and device.hardware_gates and groups.has("output") and groups.are_floats


def _are_lines(groups: Groups) -> bool:
    """Whether a block for each group is faster."""
    size = groups.source.dtype.itemsize
    return size == 4 and groups.reduced.sizes[-1] * size > LONG_RUN_BYTES and rows_of(groups) in _ROWS_OF_LINES
