"""The plans of copies of arrays that are dense along another axis than the copy: kernels/gather_tiles.cu."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cudml.plan.device import DeviceProperties
from cudml.plan.dtypes import c_name
from cudml.plan.gather.rows import ELEMENTS
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout, Dims, collapse_together, index_type
from cudml.plan.loads import eviction_of
from cudml.plan.plan import Argument, Launch, Plan, Pointer, Struct, constants_of
from cudml.plan.turned import Tile, tile_of

#: Shorter axes leave most of a tile empty.
_LEAST_TURNED = 16

#: What exists of all tiles, at the least: otherwise boxes are faster. Of 520 random copies whose turned axes have 16 to
#: 400 elements, 115 have less, and take 0.67 times as long in boxes on an H200, 6 of them longer: (2299, 128, 20)
#: halves whose axes lie in the order 2, 0, 1 9.2 us, and 29 in tiles, (32, 42063, 18) bytes in the order 2, 1, 0 40 and
#: 153.
_FILLED, _FILLED_OF_MATRICES = 1 / 3, 3 / 4


@dataclass(frozen=True)
class Tiles:
    """The axes of an array and its copy, merged, and the tiles that are turned."""

    source: ArrayLayout
    copy: ArrayLayout
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    copied: tuple[int, ...]
    """Byte strides of the array and of its copy."""
    high: int
    """Along which the array is dense; the copy is along the last one."""
    tile: Tile

    @classmethod
    def of(
        cls, source: ArrayLayout, copy: ArrayLayout, order: Sequence[int], device: DeviceProperties
    ) -> Tiles | None:
        """None where the array is dense along no other axis."""
        sizes, (steps, copied) = collapse_together([source, copy], order)
        size, last = source.dtype.itemsize, len(sizes) - 1
        high = next((axis for axis in range(last) if steps[axis] == size), last)
        if 0 in steps or high == last or min(sizes[high], sizes[last]) < _LEAST_TURNED:
            return None
        tile = tile_of(size, sizes[high], sizes[last], source.size * size / device.multiprocessors)
        return cls(source, copy, sizes, steps, copied, high, tile)

    @property
    def counts(self) -> tuple[int, int]:
        """Tiles below each other, and beside each other."""
        return (
            math.ceil(self.sizes[self.high] / self.tile.height),
            math.ceil(self.sizes[-1] / self.tile.width),
        )

    @property
    def are_filled(self) -> bool:
        """Whether enough of them would exist if they were as large as those of many elements."""
        height, width = self.sizes[self.high], self.sizes[-1]
        tile = tile_of(self.source.dtype.itemsize, height, width)
        elements = math.ceil(height / tile.height) * tile.height * math.ceil(width / tile.width) * tile.width
        least = _FILLED_OF_MATRICES if len(self.sizes) == 2 else _FILLED
        return height * width >= least * elements

    def plan(self, to: Argument) -> Plan:
        """The copy."""
        size, last = self.source.dtype.itemsize, len(self.sizes) - 1
        others = [axis for axis in range(last) if axis != self.high]
        outer = tuple(self.sizes[axis] for axis in others) or (1,)
        input_outer, copy_outer = (
            Dims(outer, tuple(strides[axis] for axis in others) or (0,)) for strides in (self.steps, self.copied)
        )
        index = index_type((self.source.size,), (Dims(self.sizes, self.steps), Dims(self.sizes, self.copied)))
        constants = constants_of(
            ELEMENT=c_name(ELEMENTS[size]),
            INPUT_ACCESS="PACKED" if _begins_with_packs(self.source, self.steps, self.high) else "SHIFTED",
            COPY_PACKED=_begins_with_packs(self.copy, self.copied, last),
            TILE_HEIGHT=self.tile.height,
            TILE_WIDTH=self.tile.width,
            BLOCK=self.tile.block,
            EVICTION=eviction_of(self.source),
            OUTER_RANK=len(outer),
            INDEX=c_name(index),
        )
        lengths, steps = (self.sizes[self.high], self.sizes[last]), (self.steps[last], self.copied[self.high])
        numbers = (*lengths, *self.counts, *steps, *input_outer.numbers, *copy_outer.numbers)
        arguments = (Pointer("input"), to, Struct(numbers, index))
        blocks = math.prod(outer) * math.prod(self.counts)
        launch = Launch("gather_tiles", blocks, self.tile.block, arguments, early=True)
        return Plan("gather_tiles.cu", constants, (launch,))


def _begins_with_packs(layout: ArrayLayout, strides: Sequence[int], along: int) -> bool:
    """Whether all lines along an axis begin at multiples of 16 bytes."""
    return layout.lies_in_steps(VECTOR_BYTES, [step for axis, step in enumerate(strides) if axis != along])
