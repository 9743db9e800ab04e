"""Bundles of neighbouring groups whose runs follow each other in memory: kernels/normalization_bundles.cuh."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cudml.plan.device import LANES, RESERVED_BYTES, DeviceProperties
from cudml.plan.layout import SECTOR_BYTES, VECTOR_BYTES, ArrayLayout, power_of_two
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.operands import OF_GROUP
from cudml.plan.normalization.steps import SUMS_BYTES

#: Neighbouring columns of a block. Of halves an H200 needed 17.5 us for (64, 7, 7, 2048), and in clusters 14.6.
_COLUMNS_BYTES = 64

#: Where runs are so short that sectors hold several, bundles have pieces of so many bytes, or of more where pieces end
#: amid sectors: (3252, 512, 2, 2) floats over 0, 2, 3 take an H100 29 us in pieces of 32 bytes, 24 of 64 and as lines
#: 63; (16, 32, 32, 32, 20) float16s over 1, 2, 4 take 28 us by 80 bytes and 20.5 by 160.
_SHORT_PIECE_BYTES, _LONG_PIECE_BYTES = 64, 128

#: Blocks that share a bundle at the most. As few have it as can hold it: (512, 2048, 7, 7) float16s over 0, 2, 3 took
#: an H100 103 us by 2, 123 by 4 and 183 as a stream, (1024, 2048, 7, 7) 208 by 4, 249 by 8 and 319.
MOST_BLOCKS = 8

#: Runs are short that have no more bytes.
LONG_RUN_BYTES = 256

#: Runs of whole vectors that lines are slow with have fewer bytes: (32, 28, 28, 8, 40) float16s over 1, 2, 4 take an
#: H100 18 us as bundles and 24 as lines, but (48, 1024, 8, 10) over 0, 2, 3 9.2 and 6.9; (64, 16, 16, 32, 40) floats
#: 62 and 75, (1000, 256, 6, 10) 63 and 59.
_UNEVEN_RUN_BYTES, _UNEVEN_RUN_BYTES_OF_HALVES = 192, 128

#: Blocks of a multiprocessor.
_MOST_RESIDENT = 8

#: What lies before the bundle leaves fewer bytes unused.
_ALIGNMENT_BYTES = 2 * VECTOR_BYTES

#: Chunks of a lane that a warp adds up at a time, of one group and of columns: kernels/normalization_bundles.cuh, UNIT.
_ROWS, _CHUNKS_OF_LANE = 4, 2


@dataclass(frozen=True, slots=True)
class Bundle:
    """Neighbouring groups, and the blocks that have all of them or a tile each."""

    count: int
    run: int
    """Elements of a group that follow each other."""
    blocks: int = 1

    @classmethod
    def smallest(cls, groups: Groups) -> Bundle:
        """As few groups as make whole vectors, or as many columns as are worth a block."""
        if groups.are_columns:
            return cls(_COLUMNS_BYTES // groups.source.dtype.itemsize, 1)
        run = groups.reduced.sizes[-1]
        return cls(groups.chunk // math.gcd(run, groups.chunk), run)

    def piece_bytes(self, groups: Groups) -> int:
        """Of a run of each group."""
        return self.count * self.run * groups.source.dtype.itemsize

    def ends_amid_sectors(self, groups: Groups) -> bool:
        """Whether neighbouring bundles share sectors."""
        return self.piece_bytes(groups) % SECTOR_BYTES > 0

    def twice(self, groups: Groups) -> Bundle | None:
        """With twice as many groups; None if there are none, or pieces are long enough."""
        least = _LONG_PIECE_BYTES if self.ends_amid_sectors(groups) else _SHORT_PIECE_BYTES
        exist = groups.kept.sizes[-1] % (2 * self.count) == 0
        return Bundle(2 * self.count, self.run) if exist and self.piece_bytes(groups) < least else None

    def grid(self, groups: Groups) -> int:
        """Blocks of all bundles."""
        return groups.count // self.count * self.blocks

    def bytes(self, groups: Groups) -> int:
        """Of the pieces that have a block's elements."""
        return self.bytes_of(groups, self.block_units(groups))

    def bytes_of(self, groups: Groups, units: int) -> int:
        """Of the pieces that have the elements of so many units, the first and the last of which may be others' too."""
        elements = units * self.unit(groups)
        pieces = min(groups.length // self.run, (elements + self.run - 2) // self.run + 1)
        return pieces * self.piece_bytes(groups)

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
        """That a block has of every group, at the most."""
        return math.ceil(self.units(groups) / self.blocks)

    def sums(self, groups: Groups) -> int:
        """Units for whose sums a block has room: a power of two, so that a kernel serves many numbers of images."""
        return power_of_two(self.block_units(groups))

    def resident(self, groups: Groups, device: DeviceProperties) -> int:
        """Blocks that fit a multiprocessor."""
        of_group = self.sums(groups) * SUMS_BYTES + groups.source.dtype.itemsize + 4 * groups.normal_words
        block_bytes = self.bytes(groups) + self.count * of_group + _ALIGNMENT_BYTES + RESERVED_BYTES
        if block_bytes > device.shared_bytes_per_block + RESERVED_BYTES:
            return 0
        return min(device.shared_bytes_per_multiprocessor // block_bytes, _MOST_RESIDENT)

    def constants(self, groups: Groups) -> dict[str, str | int | bool]:
        """Of kernels/normalization_bundles.cuh, those that do not say what a block has."""
        whole = groups.length % groups.chunk == 0
        return {"BUNDLE": self.count, "RUN": self.run, "WHOLE": whole, "CLUSTER": self.blocks}

    def moves(self, groups: Groups, name: str) -> bool:
        """Whether a piece of the array is whole vectors, wherever it lies."""
        layout = groups.arrays[name]
        assert isinstance(layout, ArrayLayout)
        size, kept, reduced = layout.dtype.itemsize, groups.kept.strides[name], groups.reduced.strides[name]
        nbytes = min(VECTOR_BYTES, groups.chunk * size)
        outer = (*kept[:-1], *(reduced if self.run == 1 else reduced[:-1]), self.count * self.run * size)
        dense = kept[-1] == self.run * size and (self.run == 1 or reduced[-1] == size)
        return dense and groups.kept.sizes[-1] % self.count == 0 and layout.lies_in_steps(nbytes, outer)


def are_uneven_runs(groups: Groups) -> bool:
    """Whether lines are slow: runs are no whole vectors, or short ones that share sectors or are uneven for warps."""
    nbytes = groups.reduced.sizes[-1] * groups.source.dtype.itemsize
    if nbytes < SECTOR_BYTES or not groups.packed("input"):
        return True
    most = _UNEVEN_RUN_BYTES if groups.source.dtype.itemsize > 2 else _UNEVEN_RUN_BYTES_OF_HALVES
    return len(groups.reduced.sizes) > 1 and nbytes < most and nbytes != power_of_two(nbytes)


def repeat_in_pieces(groups: Groups) -> bool:
    """Whether scale and bias are the same in all pieces."""
    in_runs = not groups.are_columns and len(groups.reduced.sizes) > 1
    return all(
        groups.operands.kind_of(name) == OF_GROUP or (in_runs and not any(groups.reduced.strides[name][:-1]))
        for name in groups.operands.stored
    )
