"""The plans of remainders of operands in another order than the output: kernels/modulus_tiles.cu."""

from __future__ import annotations

import math

from cudml.plan.layout import VECTOR_BYTES
from cudml.plan.modulus.call import ARRAYS, OPERANDS, Call, count_of, space
from cudml.plan.plan import Plan
from cudml.plan.turned import tile_of

#: Elements of a column and of a row, at least, by the bytes of those that move: shorter ones leave most of a tile
#: empty. By a number an H200 takes, in us by tiles and by elements, for transposed float32 of 64 MB: (2^21, 8) 38 and
#: 138, (24, 699040) 49 and 55, (32, 524288) 36 and 73; float16: (2796192, 12) 115 and 199, (24, 1398096) 105 and 79,
#: (32, 1048576) 79 and 140; int8: (5592400, 12) 244 and 211, (2^22, 16) 132 and 263, (56, 1198368) 142 and 136, (64,
#: 2^20) 82 and 274. Next to an array float32 of 24 elements across take 72 and 60.
_LEAST = {1: (16, 64), 2: (8, 32), 4: (8, 32), 8: (8, 16)}


def plan_tiles(call: Call) -> Plan | None:
    """None where no operand is dense along an axis of its own, or elements are not aligned."""
    axis = _turned_axis(call)
    if axis is None or not all(layout.element_aligned for layout in call.layouts.values()):
        return None
    turned = {name: name in call.layouts and _is_turned(call, name, axis) for name in OPERANDS}
    moved = [name for name in OPERANDS if turned[name]]
    if len(moved) == len(call.layouts) - 1:
        moved = ["output"]
    access = {name: _tile_access(call, name, axis if turned[name] else -1) for name in OPERANDS}
    height, width = call.sizes[axis], call.sizes[-1]
    tile = tile_of(call.dtype(moved[0]).itemsize, height, width)
    others = [i for i in range(len(call.sizes) - 1) if i != axis]
    outer = tuple(call.sizes[i] for i in others) or (1,)
    tiles = -(-height // tile.height), -(-width // tile.width)
    strides = {name: call.strides[name] for name in ARRAYS}
    geometry = (
        *(*count_of(tiles[0]), *count_of(tiles[1]), height, width),
        *(strides[name][i] for name in OPERANDS for i in (axis, -1)),
        strides["output"][axis],
        *space(outer, (tuple(strides[name][i] for i in others) or (0,) for name in ARRAYS)),
    )
    own = {"TILE_HEIGHT": tile.height, "TILE_WIDTH": tile.width, "RANK": len(outer)}
    own |= {"OUTPUT_PACKED": _lies_in_packs(call, "output", -1)}
    own |= {f"{name.upper()}_TURNED": turned[name] for name in OPERANDS}
    threads = math.prod(outer) * math.prod(tiles) * tile.block
    return call.plan("modulus_tiles", access, threads, tile.block, geometry, **own)


def _turned_axis(call: Call) -> int | None:
    """The axis along which an operand is dense in spite of the output, where a tile pays."""
    if not call.is_dense("output"):
        return None
    for name in call.layouts:
        if call.strides[name][-1] == 0:
            continue  # a tile has one element of it for each row: (2823528, 17) int8 take an H100 517 us so, and 108
        for axis, size in enumerate(call.sizes[:-1]):
            least = _LEAST[call.dtype(name).itemsize]
            if _is_turned(call, name, axis) and size >= least[0] and call.sizes[-1] >= least[1]:
                return axis
    return None


def _is_turned(call: Call, name: str, axis: int) -> bool:
    """Whether an operand is dense along an axis, either way, and not along the innermost one."""
    along = call.is_dense(name, axis) or call.is_reversed(name, axis)
    return along and not call.is_dense(name) and not call.is_reversed(name)


def _tile_access(call: Call, name: str, axis: int) -> str:
    """How an operand is read along an axis."""
    if name not in call.layouts:
        return "NUMBER"
    if call.is_reversed(name, axis):
        return "REVERSED"
    if not call.is_dense(name, axis):
        return "ONE" if call.strides[name][axis] == 0 else "STRIDED"
    return "PACKED" if _lies_in_packs(call, name, axis) else "SHIFTED"


def _lies_in_packs(call: Call, name: str, axis: int) -> bool:
    """Whether all lines along an axis begin at multiples of 16 bytes."""
    strides = call.strides[name]
    others = (stride for i, stride in enumerate(strides) if i != axis % len(strides))
    return call.layouts[name].lies_in_steps(VECTOR_BYTES, others)
