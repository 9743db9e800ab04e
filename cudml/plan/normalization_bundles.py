"""The plans of neighbouring groups that lie in shared memory together: kernels/normalization_bundles.cu.

On an H200 (64, 2048, 7, 7) over 0, 2, 3 takes 17.9 us in place of 20.5 as lines, of halves 16.2 in place of 28.2, and
(256, 1024, 7, 7) 40 in place of 104; (64, 7, 7, 2048) over 0, 1, 2 takes 17.4 in place of 20.8 in clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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

#: Threads of a multiprocessor, and of a block at the most; bundles of a multiprocessor.
_THREADS, _MOST_THREADS, _MOST_RESIDENT = 1024, 512, 8

#: Chunks of a lane that a warp adds up at a time, of one group and of columns: kernels/normalization_bundles.cu, UNIT.
_ROWS, _CHUNKS_OF_LANE = 4, 2


@dataclass(frozen=True, slots=True)
class Bundle:
    """Neighbouring groups of a block."""

    count: int
    run: int
    """Elements of a group that follow each other."""

    @classmethod
    def of(cls, groups: Groups, device: DeviceProperties) -> Bundle:
        """As few groups as make whole vectors and long pieces, or as many columns as are worth a block."""
        size = groups.source.dtype.itemsize
        if groups.are_columns:
            return cls(_COLUMNS_BYTES // size, 1)
        run = groups.reduced.sizes[-1]
        bundle = cls(groups.chunk // math.gcd(run, groups.chunk), run)
        most = groups.count / (_LEAST_BLOCKS * device.multiprocessors)
        while bundle.count * run * size < _SHORT_PIECE_BYTES:
            twice = cls(2 * bundle.count, run)
            if twice.count > most or groups.kept.sizes[-1] % twice.count or not twice.resident(groups, device):
                break
            bundle = twice
        return bundle

    def bytes(self, groups: Groups) -> int:
        return self.count * groups.length * groups.source.dtype.itemsize

    def units(self, groups: Groups) -> int:
        """A power of two from which on a group has no units."""
        chunks = _ROWS * LANES if self.run > 1 else _CHUNKS_OF_LANE * LANES * groups.chunk // self.count
        return power_of_two(math.ceil(groups.length / (chunks * groups.chunk)))

    def resident(self, groups: Groups, device: DeviceProperties) -> int:
        """Bundles that fit a multiprocessor."""
        sums_bytes = self.count * (self.units(groups) * SUMS_BYTES + 4 * groups.normal_words)
        block_bytes = self.bytes(groups) + sums_bytes + RESERVED_BYTES
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
    threads = min(_MOST_THREADS, _THREADS // power_of_two(resident)) if resident else 0
    of_groups = {constants["HAS_SCALE"], constants["HAS_BIAS"]} <= {NONE, OF_ALL, OF_GROUP}
    fits = 0 < bundle.count * bundle.run <= threads * groups.chunk
    if not (of_groups and fits and bundle.moves(groups, "input") and bundle.moves(groups, "output")):
        return None
    blocks = groups.count // bundle.count
    if blocks > resident * device.multiprocessors and groups.are_columns:
        return None
    own = {
        "BUNDLE": bundle.count,
        "RUN": bundle.run,
        "WHOLE": groups.length % groups.chunk == 0,
        "UNITS": bundle.units(groups),
        "THREADS": threads,
        "RESIDENT": resident,
    }
    arguments = (*array_arguments(), groups.geometry, parameters(groups, spec))
    launch = Launch("normalize_bundles", blocks, threads, arguments, bundle.bytes(groups), early=True)
    return Plan("normalization_bundles.cu", constants_of(**constants, **own), (launch,))


def _is_able(groups: Groups, device: DeviceProperties) -> bool:
    """Whether groups are of a kind, and of a size, for which bundles are fast."""
    source, size = groups.source, groups.source.dtype.itemsize
    short = not groups.are_columns and groups.reduced.sizes[-1] * size < SECTOR_BYTES
    kind = size == _COLUMN_ITEMSIZE if groups.are_columns else short or not groups.packed("input")
    least = _LEAST_FILLED_BY_SHORT if short else _LEAST_FILLED
    shared_bytes = device.multiprocessors * device.shared_bytes_per_multiprocessor
    large = source.size * max(size, _LEAST_ITEMSIZE) >= least * shared_bytes
    return kind and large and device.hardware_gates and groups.has("output") and groups.are_floats
