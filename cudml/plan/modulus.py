"""The plan of the truncated modulus: kernels/modulus_packs.cu, modulus_tiles.cu and modulus_elements.cu."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cudml.plan.device import DeviceProperties
from cudml.plan.dtypes import c_name
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout, Dims, broadcast, collapse_together, index_type, outer_to_inner
from cudml.plan.plan import Launch, Plan, Pointer, Scalar, Struct, constants_of
from cudml.plan.spec import Modulus

BLOCK = 256

#: Elements of a thread where they are moved one by one.
ITEMS = 4
#: Rows of a thread that share a divisor: a quarter of the traffic from the cache that reading it for each would take.
ROWS = 4
#: Below so many packs a row's first and last ones, which are not whole, cost more than single elements do.
LEAST_PACKS_OF_ROW = 8
#: Elements of a tile's side, by the bytes of an element: 8 to 16 KB, and 128 bytes or more of each row and column.
TILE_SIDES = {1: 128, 2: 64, 4: 64, 8: 32}
#: Shorter axes leave most of a tile empty.
LEAST_TURNED = 16

#: Compute capabilities that compute in double half as fast as in float; others take a 32nd or 64th.
FAST_DOUBLE = {(8, 0), (9, 0), (10, 0)}

_OPERANDS = ("dividend", "divisor")
_ARRAYS = (*_OPERANDS, "output")


@dataclass(frozen=True)
class _Call:
    """The arrays of a call, their axes merged where all lie in one stride. A number has strides of 0."""

    spec: Modulus
    arrays: dict[str, ArrayLayout | np.dtype]
    sizes: tuple[int, ...]
    strides: dict[str, tuple[int, ...]]
    device: DeviceProperties

    @property
    def layouts(self) -> dict[str, ArrayLayout]:
        return {name: array for name, array in self.arrays.items() if isinstance(array, ArrayLayout)}

    def dtype(self, name: str) -> np.dtype:
        array = self.arrays[name]
        return array.dtype if isinstance(array, ArrayLayout) else array

    def is_dense(self, name: str, axis: int = -1) -> bool:
        return self.strides[name][axis] == self.dtype(name).itemsize

    @property
    def index(self) -> np.dtype:
        size = math.prod(self.sizes)
        return index_type((size,), (Dims(self.sizes, strides) for strides in self.strides.values()))

    def plan(self, kernel: str, access: dict[str, str], grid: int, geometry: Sequence[int], **own: int) -> Plan:
        """The plan of a kernel: constants and arguments that all have, and those of its own."""
        constants = constants_of(
            VALUE=c_name(self.spec.dtype),
            INDEX="int" if self.index.itemsize == 4 else "long long",
            BLOCK=BLOCK,
            FAST_DOUBLE=self.device.compute_capability in FAST_DOUBLE,
            **{name.upper(): c_name(self.dtype(name)) for name in self.arrays},
            **{f"{name.upper()}_ACCESS": value for name, value in access.items()},
            **{f"{name.upper()}_ALIGNED": _is_aligned(array) for name, array in self.arrays.items()},
            **own,
        )
        if 0 in self.sizes:
            return Plan(f"{kernel}.cu", constants, ())
        pointers = tuple(Pointer(name) for name in _ARRAYS)
        numbers = tuple(Scalar(name, self.dtype(name)) for name in _OPERANDS)
        launch = Launch(kernel, grid, BLOCK, (*pointers, *numbers, Struct(tuple(geometry), self.index)))
        return Plan(f"{kernel}.cu", constants, (launch,))


def plan_modulus(spec: Modulus, arrays: dict[str, ArrayLayout | np.dtype], device: DeviceProperties) -> Plan:
    """The launch of `output` = `dividend` % `divisor`; an operand given as a dtype is one number."""
    call = _call(spec, arrays, device)
    return _plan_packs(call) or _plan_tiles(call) or _plan_elements(call)


def _call(spec: Modulus, arrays: dict[str, ArrayLayout | np.dtype], device: DeviceProperties) -> _Call:
    output = arrays["output"]
    assert isinstance(output, ArrayLayout)
    stretched: dict[str, ArrayLayout | np.dtype] = {
        name: broadcast(array, output.shape) if isinstance(array, ArrayLayout) else array
        for name, array in arrays.items()
    }
    present = {name: array for name, array in stretched.items() if isinstance(array, ArrayLayout)}
    sizes, strides = collapse_together(list(present.values()), outer_to_inner(range(len(output.shape)), output))
    found = dict(zip(present, strides, strict=True))
    return _Call(spec, stretched, sizes, {name: found.get(name, (0,) * len(sizes)) for name in stretched}, device)


# ---- packs of neighbours


def _plan_packs(call: _Call) -> Plan | None:
    """None where an array is neither dense along the innermost axis nor, as an operand, one element."""
    widest = max(layout.dtype.itemsize for layout in call.layouts.values())
    pack = max(VECTOR_BYTES // widest, 1)
    length, outer = call.sizes[-1], call.sizes[:-1] or (1,)
    if not (call.is_dense("output") and call.layouts["output"].element_aligned):
        return None
    if not all(call.is_dense(name) or call.strides[name][-1] == 0 for name in call.layouts):
        return None
    if len(call.sizes) > 1 and length < LEAST_PACKS_OF_ROW * pack:
        return None
    whole = {name: _begins_with_packs(call, name, pack) for name in call.layouts}
    access = {name: _access(call, name, packed=whole.get(name, False) and whole["output"]) for name in _OPERANDS}
    strides = {name: call.strides[name][:-1] or (0,) for name in _ARRAYS}
    rows = ROWS if access["dividend"] == access["divisor"] == "PACKED" and _repeats(strides["divisor"], outer) else 1
    groups = (*outer[:-1], -(-outer[-1] // rows))
    packs = -(-(length + (0 if whole["output"] else pack - 1)) // pack)
    threads = math.prod(groups) * packs
    geometry = (
        *(threads, length, outer[-1], strides["dividend"][-1], strides["output"][-1], *count_of(packs)),
        *_space(groups, ((*strides[name][:-1], strides[name][-1] * rows) for name in _ARRAYS)),
    )
    own = {"PACK": pack, "ALIGNED_ROWS": whole["output"], "ROWS": rows, "RANK": len(call.sizes) - 1}
    return call.plan("modulus_packs", access, -(-threads // BLOCK), geometry, **own)


def _begins_with_packs(call: _Call, name: str, pack: int) -> bool:
    """Whether every row begins at a multiple of a pack's bytes."""
    layout, strides = call.layouts[name], call.strides[name][:-1]
    nbytes = pack * layout.dtype.itemsize
    return layout.alignment % nbytes == 0 and all(stride % nbytes == 0 for stride in strides)


def _access(call: _Call, name: str, packed: bool) -> str:
    if name not in call.layouts:
        return "NUMBER"
    if not call.is_dense(name):
        return "ONE"
    return "PACKED" if packed else "SHIFTED"


def _repeats(strides: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    """Whether the same elements serve for all rows along the last axis, of which there are several."""
    return strides[-1] == 0 and sizes[-1] > 1


# ---- tiles through shared memory


def _plan_tiles(call: _Call) -> Plan | None:
    """None where no operand is dense along an axis of its own, or elements are not aligned."""
    axis = _turned_axis(call)
    if axis is None or not all(layout.element_aligned for layout in call.layouts.values()):
        return None
    access = {name: _tile_access(call, name, axis) for name in _OPERANDS}
    side = TILE_SIDES[max(call.dtype(name).itemsize for name in _OPERANDS if access[name] == "TURNED")]
    height, width = call.sizes[axis], call.sizes[-1]
    others = [i for i in range(len(call.sizes) - 1) if i != axis]
    outer = tuple(call.sizes[i] for i in others) or (1,)
    tiles = -(-height // side), -(-width // side)
    strides = {name: call.strides[name] for name in _ARRAYS}
    geometry = (
        *(*count_of(tiles[0]), *count_of(tiles[1]), height, width),
        *(strides[name][i] for name in _OPERANDS for i in (axis, -1)),
        strides["output"][axis],
        *_space(outer, (tuple(strides[name][i] for i in others) or (0,) for name in _ARRAYS)),
    )
    grid = math.prod(outer) * math.prod(tiles)
    return call.plan("modulus_tiles", access, grid, geometry, SIDE=side, RANK=len(outer))


def _turned_axis(call: _Call) -> int | None:
    """The axis along which an operand is dense in spite of the output, where a tile pays."""
    if not call.is_dense("output"):
        return None
    for name in _OPERANDS:
        for axis, size in enumerate(call.sizes[:-1]):
            if call.is_dense(name, axis) and not call.is_dense(name) and min(size, call.sizes[-1]) >= LEAST_TURNED:
                return axis
    return None


def _tile_access(call: _Call, name: str, axis: int) -> str:
    if name not in call.layouts:
        return "NUMBER"
    return "TURNED" if call.is_dense(name, axis) and not call.is_dense(name) else "STRIDED"


# ---- single elements


def _plan_elements(call: _Call) -> Plan:
    size = math.prod(call.sizes)
    access = {name: "STRIDED" if name in call.layouts else "NUMBER" for name in _OPERANDS}
    geometry = (size, *_space(call.sizes, (call.strides[name] for name in _ARRAYS)))
    grid = -(-size // (BLOCK * ITEMS))
    return call.plan("modulus_elements", access, grid, geometry, ITEMS=ITEMS, RANK=len(call.sizes))


# ---- what the kernels' structs hold


def _is_aligned(array: ArrayLayout | np.dtype) -> bool:
    return array.element_aligned if isinstance(array, ArrayLayout) else True


def _space(sizes: tuple[int, ...], strides: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    counts = [number for size in sizes for number in count_of(size)]
    return (*counts, *(stride for of_array in strides for stride in of_array))


def count_of(size: int) -> tuple[int, int, int]:
    """A size with the factor and shift by which 32-bit numbers are divided by it (struct Count).

    For n < 2^31 and 2^(b - 1) < size <= 2^b the factor is 2^(31 + b) / size and at most one more, so n times it exceeds
    the quotient by n / 2^(31 + b) at most: less than 1 / size, which takes no quotient to the next integer.
    """
    if not 1 < size < 2**31:
        return size, 0, 0
    bits = (size - 1).bit_length()
    factor = -(-(2 ** (31 + bits)) // size)
    return size, factor - 2**32 if factor >= 2**31 else factor, bits - 1
