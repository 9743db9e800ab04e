"""The plans of remainders of operands in another order than the output: kernels/modulus_tiles.cu."""

from __future__ import annotations

import math

from cudml.plan.layout import VECTOR_BYTES
from cudml.plan.modulus.call import ARRAYS, OPERANDS, Call, count_of, space
from cudml.plan.modulus.runs import are_runs
from cudml.plan.plan import Plan
from cudml.plan.turned import Tile, tile_of

#: Elements of a column that fill the lowest tile, by the bytes of those that move, and from which on the next one pays,
#: unless both operands are turned, or no cache holds them: (9, 932032) int16 by a number take an H200 22 us by elements
#: and 38 in tiles, of 10 rows 23 and 35, of 12 27 and 30, but (9, 8388608) by a column 373 and 304; float32 of 9 rows
#: 42 and 58, of 11 45 and 45; int8 of 17 21 and 29, of 20 22 and 23.
_LEAST_HEIGHT = {1: (16, 21), 2: (8, 11), 4: (8, 11), 8: (8, 8)}
#: Of a row, unless it is whole tiles: of rows that begin with whole packs, and of others; next to an array, next to a
#: number or one for each row, where both operands are turned, and where the output is no run, so that elements are the
#: only other way. 256 MB of float16, transposed, by an array in rows of 64 take an H200 194 us in tiles, 220 as a run
#: and 627 by elements, of 80 313, 233 and 341, of 129 510, 288 and 355, of 160 255, 374 and 427; float32 of 65 375, 235
#: and 241, of 129 349, 387 and 235, of 192 196, 599 and 248, of 321 311, 593 and 321.
_LEAST_WIDTH = {
    "array": {1: (240, 240), 2: (160, 192), 4: (128, 320), 8: (80, 448)},
    "number": {1: (96, 96), 2: (96, 160), 4: (96, 192), 8: (80, 160)},
    "turned": {1: (64, 64), 2: (48, 48), 4: (32, 32), 8: (16, 16)},
    "no run": {1: (64, 64), 2: (32, 192), 4: (128, 320), 8: (80, 448)},
}
#: Bytes of the output for each thread that a GPU runs at once, at least, where rows do not begin with whole packs: few
#: tiles leave it idle. On an H200 1.2 MB of int8 in rows of 891 take 13.4 us in tiles and 9.6 by elements, 1.9 MB in
#: rows of 885 11.2 and 13.7; 0.5 and 0.8 MB of halves 4.3 and 3.5, 3.7 and 5.0; 1.7 and 2.4 MB of float32 5.4 and 4.6,
#: 5.2 and 6.9; 6.2 and 8.3 MB of float64 6.5 and 5.5, 6.3 and 9.5.
_LEAST_BYTES_OF_THREAD = {1: 6, 2: 2, 4: 8, 8: 24}


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
    tile = _tile(call, call.dtype(moved[0]).itemsize, axis)
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
        for axis in range(len(call.sizes) - 1):
            if _is_turned(call, name, axis) and _pays(call, name, axis):
                return axis
    return None


def _pays(call: Call, name: str, axis: int) -> bool:
    """Whether tiles are faster than runs and elements for an operand that is turned along an axis."""
    itemsize, height, width = call.dtype(name).itemsize, call.sizes[axis], call.sizes[-1]
    if all(_is_turned(call, name, axis) and call.strides[name][-1] != 0 for name in OPERANDS):
        beside = "turned"
    elif not are_runs(call):
        beside = "no run"
    else:
        beside = "number" if any(call.strides[name][-1] == 0 for name in OPERANDS) else "array"
    in_packs = _lies_in_packs(call, "output", -1)
    least = _LEAST_WIDTH[beside][itemsize][0 if in_packs else 1]
    threads = call.device.multiprocessors * call.device.threads_per_multiprocessor
    if not in_packs and math.prod(call.sizes) * itemsize < _LEAST_BYTES_OF_THREAD[itemsize] * threads:
        return False
    are_whole = in_packs and width % _tile(call, itemsize, axis).width == 0
    lowest, enough = _LEAST_HEIGHT[itemsize]
    in_cache = math.prod(call.sizes) * itemsize <= call.device.cache_bytes
    is_high = height == lowest or height >= (enough if in_cache and beside != "turned" else lowest)
    return is_high and (width >= least or are_whole)


def _tile(call: Call, itemsize: int, axis: int) -> Tile:
    """For elements of so many bytes that are turned along an axis."""
    nbytes = itemsize * math.prod(call.sizes) / call.device.multiprocessors
    return tile_of(itemsize, call.sizes[axis], call.sizes[-1], nbytes)


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
