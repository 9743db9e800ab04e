"""The plans of neighbouring groups that lie in shared memory together: kernels/normalization_bundles.cu.

On an H200 (64, 2048, 7, 7) over 0, 2, 3 takes 17.9 us in place of 20.5 as lines, of halves 16.2 in place of 28.2, and
(256, 1024, 7, 7) 40 in place of 104; (64, 7, 7, 2048) over 0, 1, 2 takes 17.4 in place of 20.8 in clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cudml.plan.device import LANES, RESERVED_BYTES, DeviceProperties
from cudml.plan.groups import NONE, OF_ALL, OF_GROUP, Groups
from cudml.plan.layout import SECTOR_BYTES, VECTOR_BYTES, ArrayLayout, power_of_two
from cudml.plan.normalization_steps import SUMS_BYTES, array_arguments, parameters
from cudml.plan.plan import Launch, Plan, constants_of
from cudml.plan.spec import Normalization

#: Neighbouring columns of a block. Of halves an H200 needs 17.5 us for (64, 7, 7, 2048), and in clusters 14.6.
_COLUMNS_BYTES, _COLUMN_ITEMSIZE = 64, 4

#: Where runs are so short that sectors hold several, bundles have pieces of so many bytes, unless that leaves more than
#: a quarter of the multiprocessors idle: (3252, 512, 2, 2) floats over 0, 2, 3 take an H100 29 us in pieces of 32
#: bytes, 24 of 64 and as lines 63; (3000, 512, 2, 1) take 17 on 128 multiprocessors and 26 on 64.
_SHORT_PIECE_BYTES, _LEAST_BLOCKS = 64, 3 / 4

#: The part of the shared memory of all multiprocessors that the input fills at least, halves counted as floats: 42 % of
#: an H200's are up to 12 % slower than as lines, 54 % by 15 % faster than as columns. Columns that do not fit all at
#: once are slower as well. Short runs gain from the start: 13 %, (512, 512, 2, 2) floats over 0, 2, 3, take an H100 6.3
#: us in place of 9.1.
_LEAST_FILLED, _LEAST_FILLED_BY_SHORT, _LEAST_ITEMSIZE = 1 / 2, 1 / 8, 4

#: Blocks that share a bundle at the most. As few have it as can hold it: (512, 2048, 7, 7) float16s over 0, 2, 3 take
#: an H100 103 us by 2, 123 by 4 and 183 as a stream, (1024, 2048, 7, 7) 208 by 4, 249 by 8 and 319.
_MOST_BLOCKS = 8

#: What makes a cluster faster than a stream where runs have more bytes than this: so many bundles as fill the GPU so
#: often, of halves less often if few blocks share each, and no more of these than that if elements are larger. (192,
#: 512, 13, 13) bfloat16s take an H100 47 us by clusters of 3 and 53 as a stream, (64, 96, 31, 30), half a wave, 21 and
#: 17; (100, 768, 21, 21), by 4, 89 and 99, (100, 256, 21, 21), one wave, 44 and 37; (300, 192, 17, 15) floats, by 6, 65
#: and 59, (256, 128, 11, 11), by 3, 22 and 19.
_LONG_RUN_BYTES, _FEW_BLOCKS, _MOST_BLOCKS_OF_OTHERS = 256, 3, 4
_LEAST_WAVES, _LEAST_WAVES_OF_FEW_BLOCKS = 1.9, 0.7

#: Threads of a multiprocessor, and of a block at the most; blocks of a multiprocessor. Halves take more registers, so
#: there are fewer threads, unless that leaves many idle: (64, 2048, 7, 7) floats take an H100 20.8 us by 1024 threads
#: and 21.5 by 768, float16s 19.6 and 17.2, but (32, 2048, 14, 14), of whose 96 threads 49 are busy, 23.7 and 25.0.
_THREADS, _MOST_THREADS, _MOST_RESIDENT = 1024, 512, 8
_THREADS_OF_HALVES, _LEAST_BUSY = 768, 3 / 4

#: What lies before the bundle leaves fewer bytes unused.
_ALIGNMENT_BYTES = 2 * VECTOR_BYTES

#: Chunks of a lane that a warp adds up at a time, of one group and of columns: kernels/normalization_bundles.cu, UNIT.
_ROWS, _CHUNKS_OF_LANE = 4, 2


@dataclass(frozen=True, slots=True)
class Bundle:
    """Neighbouring groups of a block."""

    count: int
    run: int
    """Elements of a group that follow each other."""
    blocks: int = 1
    """That share it."""

    @classmethod
    def of(cls, groups: Groups, device: DeviceProperties) -> Bundle:
        """As few groups as make whole vectors and long pieces, or as many columns as are worth a block."""
        size = groups.source.dtype.itemsize
        if groups.are_columns:
            return cls(_COLUMNS_BYTES // size, 1)
        run = groups.reduced.sizes[-1]
        bundle = cls(groups.chunk // math.gcd(run, groups.chunk), run).shared(groups, device)
        while bundle.count * run * size < _SHORT_PIECE_BYTES:
            twice = cls(2 * bundle.count, run)
            if bundle.count * run * size < SECTOR_BYTES:
                twice = twice.shared(groups, device)
            few = twice.grid(groups) < _LEAST_BLOCKS * device.multiprocessors
            if few or groups.kept.sizes[-1] % twice.count or not twice.resident(groups, device):
                break
            bundle = twice
        return bundle

    def shared(self, groups: Groups, device: DeviceProperties) -> Bundle:
        """The same in a cluster of as few blocks as have room for it, if there is one."""
        if device.compute_capability < (9, 0) or groups.are_columns:
            return self
        clusters = (replace(self, blocks=blocks) for blocks in range(1, _MOST_BLOCKS + 1))
        return next((cluster for cluster in clusters if cluster.resident(groups, device)), self)

    def grid(self, groups: Groups) -> int:
        """Blocks of all bundles."""
        return groups.count // self.count * self.blocks

    def is_fast(self, groups: Groups, waves: float) -> bool:
        """Whether a cluster is, if there is one, where so many waves of blocks have all bundles."""
        size = groups.source.dtype.itemsize
        if self.blocks == 1 or self.run * size <= _LONG_RUN_BYTES:
            return True
        if size == 2 and self.blocks <= _FEW_BLOCKS:
            return waves >= _LEAST_WAVES_OF_FEW_BLOCKS
        return waves >= _LEAST_WAVES and (size == 2 or self.blocks <= _MOST_BLOCKS_OF_OTHERS)

    def bytes(self, groups: Groups) -> int:
        """Of the pieces that have a block's elements, of which the first and the last may be others' too."""
        elements = self.block_units(groups) * self.unit(groups)
        pieces = min(groups.length // self.run, (elements + self.run - 2) // self.run + 1)
        return self.count * self.run * groups.source.dtype.itemsize * pieces

    def unit(self, groups: Groups) -> int:
        """Elements of a group."""
        chunks = _ROWS * LANES if self.run > 1 else _CHUNKS_OF_LANE * LANES * groups.chunk // self.count
        return chunks * groups.chunk

    def vectors(self, groups: Groups) -> int:
        """Of a piece."""
        return math.ceil(self.count * self.run / groups.chunk)

    def units(self, groups: Groups) -> int:
        """Of a group."""
        return math.ceil(groups.length / self.unit(groups))

    def block_units(self, groups: Groups) -> int:
        """That a block has of every group."""
        return math.ceil(self.units(groups) / self.blocks)

    def resident(self, groups: Groups, device: DeviceProperties) -> int:
        """Blocks that fit a multiprocessor."""
        of_group = self.block_units(groups) * SUMS_BYTES + groups.source.dtype.itemsize + 4 * groups.normal_words
        block_bytes = self.bytes(groups) + self.count * of_group + _ALIGNMENT_BYTES + RESERVED_BYTES
        if block_bytes > device.shared_bytes_per_block + RESERVED_BYTES:
            return 0
        return min(device.shared_bytes_per_multiprocessor // block_bytes, _MOST_RESIDENT)

    def moves(self, groups: Groups, name: str) -> bool:
        """Whether a piece of the array is whole vectors, wherever it lies."""
        layout = groups.arrays[name]
        assert isinstance(layout, ArrayLayout)
        size, kept, reduced = layout.dtype.itemsize, groups.kept.strides[name], groups.reduced.strides[name]
        nbytes = min(VECTOR_BYTES, groups.chunk * size)
        outer = (*kept[:-1], *(reduced if self.run == 1 else reduced[:-1]), self.count * self.run * size)
        dense = kept[-1] == self.run * size and (self.run == 1 or reduced[-1] == size)
        return dense and groups.kept.sizes[-1] % self.count == 0 and layout.lies_in_steps(nbytes, outer)


def plan_bundles(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch of a block for each bundle; None where vectors do not move them, or something else is faster."""
    if not _is_able(groups, device):
        return None
    bundle, constants = Bundle.of(groups, device), groups.constants(spec)
    resident = bundle.resident(groups, device)
    if resident == 0:
        return None
    threads = _threads(groups, bundle, resident)
    of_groups = {constants["HAS_SCALE"], constants["HAS_BIAS"]} <= {NONE, OF_ALL, OF_GROUP}
    fits = bundle.vectors(groups) <= threads
    if not (of_groups and fits and bundle.moves(groups, "input") and bundle.moves(groups, "output")):
        return None
    waves = bundle.grid(groups) / (resident * device.multiprocessors)
    if (groups.are_columns and waves > 1) or not bundle.is_fast(groups, waves):
        return None
    own = {
        "BUNDLE": bundle.count,
        "RUN": bundle.run,
        "WHOLE": groups.length % groups.chunk == 0,
        "UNITS": power_of_two(bundle.units(groups)),
        "BLOCK_UNITS": bundle.block_units(groups),
        "CLUSTER": bundle.blocks,
        "THREADS": threads,
        "RESIDENT": resident,
    }
    arguments = (*array_arguments(), groups.geometry, parameters(groups, spec))
    kernel = "normalize_bundles" if bundle.blocks == 1 else "normalize_shared_bundles"
    grid, shared_bytes = bundle.grid(groups), bundle.bytes(groups)
    launch = Launch(kernel, grid, threads, arguments, shared_bytes, cluster=bundle.blocks, early=True)
    return Plan("normalization_bundles.cu", constants_of(**constants, **own), (launch,))


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
    kind = size == _COLUMN_ITEMSIZE if groups.are_columns else short or not groups.packed("input")
    least = _LEAST_FILLED_BY_SHORT if short else _LEAST_FILLED
    shared_bytes = device.multiprocessors * device.shared_bytes_per_multiprocessor
    large = source.size * max(size, _LEAST_ITEMSIZE) >= least * shared_bytes
    return kind and large and device.hardware_gates and groups.has("output") and groups.are_floats
