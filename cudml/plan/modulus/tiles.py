"""The plans of remainders of operands in another order than the output: kernels/modulus_tiles.cu."""

from __future__ import annotations

import math

from cudml.plan.layout import VECTOR_BYTES
from cudml.plan.modulus.call import ARRAYS, OPERANDS, Call, count_of, space
from cudml.plan.plan import Plan
from cudml.plan.turned import LEAST_TURNED, TILES

#: Where both operands are turned, a thread loads twice as much. For bytes 128 threads reach 88 %, 256 83 %.
_TILE_OF_BYTES_OF_TWO = (128, 128, 128)


def plan_tiles(call: Call) -> Plan | None:
    """None where no operand is dense along an axis of its own, or elements are not aligned."""
    axis = _turned_axis(call)
    if axis is None or not all(layout.element_aligned for layout in call.layouts.values()):
        return None
    turned = {name: name in call.layouts and _is_turned(call, name, axis) for name in OPERANDS}
    moved = [name for name in OPERANDS if turned[name]]
    if len(moved) == len(call.layouts) - 1:
        moved = ["output"]
    *tile, block = _tile_of(call.dtype(moved[0]).itemsize, sum(turned.values()))
    access = {name: _tile_access(call, name, axis if turned[name] else -1) for name in OPERANDS}
    height, width = call.sizes[axis], call.sizes[-1]
    others = [i for i in range(len(call.sizes) - 1) if i != axis]
    outer = tuple(call.sizes[i] for i in others) or (1,)
    tiles = -(-height // tile[0]), -(-width // tile[1])
    strides = {name: call.strides[name] for name in ARRAYS}
    geometry = (
        *(*count_of(tiles[0]), *count_of(tiles[1]), height, width),
        *(strides[name][i] for name in OPERANDS for i in (axis, -1)),
        strides["output"][axis],
        *space(outer, (tuple(strides[name][i] for i in others) or (0,) for name in ARRAYS)),
    )
    own = {"TILE_HEIGHT": tile[0], "TILE_WIDTH": tile[1], "RANK": len(outer)}
    own |= {"OUTPUT_PACKED": _lies_in_packs(call, "output", -1)}
    own |= {f"{name.upper()}_TURNED": turned[name] for name in OPERANDS}
    threads = math.prod(outer) * math.prod(tiles) * block
    return call.plan("modulus_tiles", access, threads, block, geometry, **own)


def _tile_of(itemsize: int, turned: int) -> tuple[int, int, int]:
    return _TILE_OF_BYTES_OF_TWO if itemsize == 1 and turned == 2 else TILES[itemsize]


def _turned_axis(call: Call) -> int | None:
    """The axis along which an operand is dense in spite of the output, where a tile pays."""
    if not call.is_dense("output"):
        return None
    for name in call.layouts:
        if call.strides[name][-1] == 0:
            continue  # a tile has one element of it for each row: (2823528, 17) int8 take an H100 517 us so, and 108
        for axis, size in enumerate(call.sizes[:-1]):
            if _is_turned(call, name, axis) and min(size, call.sizes[-1]) >= LEAST_TURNED:
                return axis
    return None


def _is_turned(call: Call, name: str, axis: int) -> bool:
    return call.is_dense(name, axis) and not call.is_dense(name)


def _tile_access(call: Call, name: str, axis: int) -> str:
    """How an operand is read along an axis."""
    if name not in call.layouts:
        return "NUMBER"
    if not call.is_dense(name, axis):
        return "ONE" if call.strides[name][axis] == 0 else "STRIDED"
    return "PACKED" if _lies_in_packs(call, name, axis) else "SHIFTED"


def _lies_in_packs(call: Call, name: str, axis: int) -> bool:
    """Whether all lines along an axis begin at multiples of 16 bytes."""
    strides = call.strides[name]
    others = (stride for i, stride in enumerate(strides) if i != axis % len(strides))
    return call.layouts[name].lies_in_steps(VECTOR_BYTES, others)
