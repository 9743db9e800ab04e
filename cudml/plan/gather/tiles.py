"""The plans of copies of arrays that are dense along another axis than the copy: kernels/gather_tiles.cu."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cudml.plan.dtypes import c_name
from cudml.plan.gather.rows import ELEMENTS
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout, Dims, collapse_together, index_type
from cudml.plan.loads import eviction_of
from cudml.plan.plan import Argument, Launch, Plan, Pointer, Struct, constants_of
from cudml.plan.turned import tile_of

#: Shorter axes leave most of a tile empty.
_LEAST_TURNED = 16


def plan_tiles(source: ArrayLayout, copy: ArrayLayout, order: Sequence[int], to: Argument) -> Plan | None:
    """None where the array is dense along no other axis."""
    sizes, (steps, copied) = collapse_together([source, copy], order)
    size, last = source.dtype.itemsize, len(sizes) - 1
    high = next((axis for axis in range(last) if steps[axis] == size), last)
    if 0 in steps or high == last or min(sizes[high], sizes[last]) < _LEAST_TURNED:
        return None
    height, width, block = tile_of(size, sizes[high], sizes[last])
    others = [axis for axis in range(last) if axis != high]
    outer = tuple(sizes[axis] for axis in others) or (1,)
    input_outer, copy_outer = (
        Dims(outer, tuple(strides[axis] for axis in others) or (0,)) for strides in (steps, copied)
    )
    tiles = math.ceil(sizes[high] / height), math.ceil(sizes[last] / width)
    index = index_type((source.size,), (Dims(sizes, steps), Dims(sizes, copied)))
    constants = constants_of(
        ELEMENT=c_name(ELEMENTS[size]),
        INPUT_ACCESS="PACKED" if _begins_with_packs(source, steps, high) else "SHIFTED",
        COPY_PACKED=_begins_with_packs(copy, copied, last),
        TILE_HEIGHT=height,
        TILE_WIDTH=width,
        BLOCK=block,
        EVICTION=eviction_of(source),
        OUTER_RANK=len(outer),
        INDEX=c_name(index),
    )
    numbers = (sizes[high], sizes[last], *tiles, steps[last], copied[high], *input_outer.numbers, *copy_outer.numbers)
    arguments = (Pointer("input"), to, Struct(numbers, index))
    launch = Launch("gather_tiles", math.prod(outer) * math.prod(tiles), block, arguments, early=True)
    return Plan("gather_tiles.cu", constants, (launch,))


def _begins_with_packs(layout: ArrayLayout, strides: Sequence[int], along: int) -> bool:
    """Whether all lines along an axis begin at multiples of 16 bytes."""
    return layout.lies_in_steps(VECTOR_BYTES, [step for axis, step in enumerate(strides) if axis != along])
