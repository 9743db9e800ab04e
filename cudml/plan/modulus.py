"""The plan of the truncated modulus: kernels/modulus_packs.cu, modulus_tiles.cu, modulus_runs.cu and
modulus_elements.cu.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cudml.plan.device import DeviceProperties
from cudml.plan.dtypes import c_name
from cudml.plan.layout import (
    VECTOR_BYTES,
    ArrayLayout,
    Dims,
    broadcast,
    collapse_together,
    index_type,
    magic_of,
    outer_to_inner,
)
from cudml.plan.loads import EVICT_NORMALLY, eviction_of
from cudml.plan.plan import Argument, Launch, Plan, Pointer, Scalar, Struct, constants_of
from cudml.plan.spec import Modulus

BLOCK = 256
#: Where three arrays of at least so many packs each are moved, two blocks that fill a multiprocessor are 0.4 % faster
#: on an H200 than eight; with two arrays they are 5 % slower. Few of them would not end at the same time.
LARGE_BLOCK = 1024
#: Where packs of many elements are shifted, a block waits for few that are not whole: (262144, 4096) int8 from odd
#: addresses take an H200 0.783 ms, and 0.789 in blocks of 256; (519097, 101) float16 by a row an H100 98 us, and 99.
BLOCK_OF_SHIFTED, LEAST_PACK_OF_SHIFTED = 128, 8
LEAST_LARGE = 1 << 23

#: Operands of so many bytes together at most are prefetched while the launch ahead ends. Of many launches in a row 2^18
#: float32 by as many take an H200 1.6 us so, and 2.0 else, 2^20 4.05 and 4.2, but 2^22 13.4 and 13.0.
PREFETCHED_BYTES = 1 << 23

#: Elements of a thread where they are moved one by one.
ITEMS = 4
#: Where an array has fewer elements than this part of the threads that a GPU runs at once, a thread takes one element
#: and a block has fewer threads: what counts is how soon the loads begin, and how few instructions come after them.
#: Packs of rows that begin anywhere take more of these: (256, 501) float32 by a row take an H100 1.6 us by elements,
#: and 2.5 in packs.
SMALL_PART, _SMALL_PART_OF_SHIFTED = 4, 1
SMALL_BLOCK = 128
#: Rows of a thread that share a divisor, by the bytes of the widest type. Of small numbers a pack has many, whose
#: reciprocals cost as much as two rows' remainders; of large ones 4 rows are 2 % slower than 2 on an H200.
ROWS = {1: 4, 2: 4, 4: 2, 8: 2}
#: Below so many packs a row's first and last ones, if they are not whole, cost more than single elements do.
LEAST_PACKS_OF_ROW = 8
#: The same if an operand has one element for each row ("column") or one row for all ("row"), by the bytes of the widest
#: type. The ends of rows are loaded by elements, and from 4 bytes on a warp that has one computes twice. On an H100
#: (480000, 100) int8 by a column take 72 us in packs and 108 by elements, (960000, 50) int16 94 and 107, (1297296, 37)
#: 134 and 107; (130419, 201) int32 by a row 82 and 75, (52324, 501) 77 and 75, (26188, 1001) 75 and 75; (480001, 101)
#: int64 by a row 300 and 260, (48001, 1001) 259 and 258, (2285712, 21) by a column 302 and 264.
_LEAST_PACKS = {"column": {1: 6, 2: 6, 4: 8, 8: math.inf}, "row": {1: 8, 2: 8, 4: 128, 8: math.inf}}
#: The same beside packs that have elements of several rows, whose divisors are loaded one by one, and bytes of an
#: element of these at the most. On an H100 (1957894, 95) int8 by either take 180 us so and 414 by elements, (1464566,
#: 127) by a column 180 and 372 in packs of rows, (617940, 301) 180 and 141, by a row 180 and 225, (155909, 1193) 181
#: and 175; (13285714, 7) float16 by a row 125 and 210, (732283, 127) 126 and 161, (77954, 1193) 126 and 135; (6642857,
#: 7) float32 125 and 132 by elements. Of float64 both take as long.
_LEAST_PACKS_BESIDE_RUNS = {"column": {1: 16, 2: 32, 4: 320}, "row": {1: 64, 2: 160, 4: 320}}
WIDEST_OF_RUNS = 4
#: Height and width of a tile and threads of a block by the bytes of the elements that move through shared memory. On an
#: H200 these are the fastest of 64 to 256 elements either way and 64 to 256 threads: bytes at 94 % of copy speed (64 x
#: 128: 91 %), halves at 98 % (128 x 128: 94 %).
TILES = {1: (128, 128, 256), 2: (64, 64, 128), 4: (64, 64, 256), 8: (64, 32, 256)}
#: Where both operands are turned, a thread loads twice as much. For bytes 128 threads reach 88 %, 256 83 %.
TILE_OF_BYTES_OF_TWO = (128, 128, 128)
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

    def is_every_second(self, name: str) -> bool:
        """Whether the innermost axis has every second of some small elements: those are picked out of words."""
        size = self.dtype(name).itemsize
        return size < 4 and self.strides[name][-1] == 2 * size

    @property
    def index(self) -> np.dtype:
        size = math.prod(self.sizes)
        return index_type((size,), (Dims(self.sizes, strides) for strides in self.strides.values()))

    def with_shorter_rows(self, parts: int) -> _Call:
        """The same with every row of the innermost axis cut in so many."""
        length = self.sizes[-1] // parts
        strides = {name: (*steps[:-1], steps[-1] * length, steps[-1]) for name, steps in self.strides.items()}
        return replace(self, sizes=(*self.sizes[:-1], parts, length), strides=strides)

    def plan(
        self, kernel: str, access: dict[str, str], threads: int, block: int, geometry: Sequence[int], **own: int | str
    ) -> Plan:
        """The plan of a kernel: constants and arguments that all have, and those of its own."""
        constants = constants_of(
            VALUE=c_name(self.spec.dtype),
            INDEX=c_name(self.index),
            BLOCK=block,
            FAST_DOUBLE=self.device.compute_capability in FAST_DOUBLE,
            **{name.upper(): c_name(self.dtype(name)) for name in self.arrays},
            **{f"{name.upper()}_ACCESS": value for name, value in access.items()},
            **{f"{name.upper()}_ALIGNED": _is_aligned(self.arrays[name]) for name in _OPERANDS},
            **{"EVICTION": EVICT_NORMALLY, **own},
        )
        if 0 in self.sizes:
            return Plan(f"{kernel}.cu", constants, ())
        pointers = tuple(Pointer(name) for name in _ARRAYS)
        numbers = tuple(Scalar(name, self.dtype(name)) for name in _OPERANDS)
        arguments: tuple[Argument, ...] = (*pointers, *numbers, Struct(tuple(geometry), self.index))
        launch = Launch(kernel, -(-threads // block), block, arguments, early=True)
        return Plan(f"{kernel}.cu", constants, (launch,))


def plan_modulus(spec: Modulus, arrays: dict[str, ArrayLayout | np.dtype], device: DeviceProperties) -> Plan:
    """The launch of `output` = `dividend` % `divisor`; an operand given as a dtype is one number."""
    call = _call(spec, arrays, device)
    if math.prod(call.sizes) * _small_part(call) <= device.multiprocessors * device.threads_per_multiprocessor:
        return _plan_elements(call, 1, SMALL_BLOCK)
    return _plan_packs(call) or _plan_tiles(call) or _plan_runs(call) or _plan_elements(call, ITEMS, BLOCK)


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


def _small_part(call: _Call) -> int:
    """Of which an array is too small for packs."""
    shifted = all(name in call.layouts and call.is_dense(name) for name in _OPERANDS) and not _has_whole_rows(call)
    return _SMALL_PART_OF_SHIFTED if shifted else SMALL_PART


# ---- packs of neighbours


def _plan_packs(call: _Call) -> Plan | None:
    """None unless the innermost axis is dense in the output and, in operands, dense, of every second element or one."""
    pack, shared = _pack(call), ROWS[_widest(call)]
    if not (call.is_dense("output") and call.layouts["output"].element_aligned):
        return None
    if not all(call.is_dense(n) or call.is_every_second(n) or call.strides[n][-1] == 0 for n in call.layouts):
        return None
    whole = {name: call.is_dense(name) and _begins_with_packs(call, name, pack) for name in call.layouts}
    moved = [name for name in call.layouts if call.strides[name][-1] != 0]
    in_packs = call.sizes[-1] % pack == 0 and all(whole[name] for name in moved)
    if len(call.sizes) > 1 and not in_packs and call.sizes[-1] < _least_packs(call) * pack:
        return None
    access = {name: _access(call, name, packed=whole.get(name, False) and whole["output"]) for name in _OPERANDS}
    if access == {"dividend": "PACKED", "divisor": "ONE"} and call.sizes[-1] % (shared * pack) == 0:
        call = call.with_shorter_rows(shared)
    length, outer = call.sizes[-1], call.sizes[:-1] or (1,)
    strides = {name: call.strides[name][:-1] or (0,) for name in _ARRAYS}
    rows = shared if access["dividend"] == "PACKED" and _repeats(strides["divisor"], outer) else 1
    groups = (*outer[:-1], -(-outer[-1] // rows))
    packs = -(-(length + (0 if whole["output"] else pack - 1)) // pack)
    threads = math.prod(groups) * packs
    geometry = (
        *(threads, length, outer[-1], strides["dividend"][-1], strides["output"][-1], *count_of(packs)),
        *(end for name in _OPERANDS for end in _extent(call, name)),
        *_space(groups, ((*strides[name][:-1], strides[name][-1] * rows) for name in _ARRAYS)),
    )
    block = _block_of_packs(threads, rows, pack, access, call.device)
    own = {"PACK": pack, "ALIGNED_ROWS": whole["output"], "ROWS": rows, "RANK": len(call.sizes) - 1}
    own |= {"PREFETCHED": rows == 1 and set(access.values()) <= {"PACKED", "NUMBER"} and _is_prefetched(call)}
    # Memory wants a pack of every thread that a multiprocessor has room for, or several of half as many.
    own |= {"BLOCKS": max(call.device.threads_per_multiprocessor // block, 1) if rows == 1 else 1}
    return call.plan("modulus_packs", access, threads, block, geometry, EVICTION=_eviction(call, access), **own)


def _widest(call: _Call) -> int:
    return max(layout.dtype.itemsize for layout in call.layouts.values())


def _pack(call: _Call) -> int:
    return max(VECTOR_BYTES // _widest(call), 1)


def _has_whole_rows(call: _Call) -> bool:
    """Whether every row of the output begins with a whole pack."""
    return _begins_with_packs(call, "output", _pack(call))


def _least_packs(call: _Call) -> float:
    """Of a row whose ends are not whole packs."""
    kinds = {"column": any(call.strides[name][-1] == 0 for name in call.layouts)}
    kinds["row"] = any(0 in call.strides[name][:-1] for name in call.layouts)
    table = _LEAST_PACKS_BESIDE_RUNS if _are_runs(call) else _LEAST_PACKS
    least = (table[kind][_widest(call)] for kind, is_there in kinds.items() if is_there)
    return max(least, default=LEAST_PACKS_OF_ROW)


def _is_prefetched(call: _Call) -> bool:
    nbytes = sum(math.prod(call.sizes) * call.dtype(name).itemsize for name in _OPERANDS if name in call.layouts)
    return nbytes <= PREFETCHED_BYTES and call.device.begins_early


def _eviction(call: _Call, access: dict[str, str]) -> str:
    """Divisors that several rows share stay as they are: (65536, 4096) float32 by a column take 5 % longer evicted
    last."""
    dividend = call.arrays["dividend"]
    alone = access["divisor"] in ("PACKED", "NUMBER") and not any(s == 0 for s in call.strides["divisor"][:-1])
    return eviction_of(dividend) if isinstance(dividend, ArrayLayout) and alone else EVICT_NORMALLY


def _block_of_packs(threads: int, rows: int, pack: int, access: dict[str, str], device: DeviceProperties) -> int:
    if pack >= LEAST_PACK_OF_SHIFTED and "SHIFTED" in access.values():
        return BLOCK_OF_SHIFTED
    is_of_three = rows == 1 and set(access.values()) == {"PACKED"}
    fills = device.threads_per_multiprocessor % LARGE_BLOCK == 0
    return LARGE_BLOCK if threads >= LEAST_LARGE and is_of_three and fills else BLOCK


def _begins_with_packs(call: _Call, name: str, pack: int) -> bool:
    """Whether every row begins at a multiple of a pack's bytes."""
    layout = call.layouts[name]
    return layout.lies_in_steps(pack * layout.dtype.itemsize, call.strides[name][:-1])


def _access(call: _Call, name: str, packed: bool) -> str:
    if name not in call.layouts:
        return "NUMBER"
    if call.is_every_second(name):
        return "SECOND"
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
    turned = {name: name in call.layouts and _is_turned(call, name, axis) for name in _OPERANDS}
    moved = [name for name in _OPERANDS if turned[name]]
    if len(moved) == len(call.layouts) - 1:
        moved = ["output"]
    *tile, block = _tile_of(call.dtype(moved[0]).itemsize, sum(turned.values()))
    access = {name: _tile_access(call, name, axis if turned[name] else -1) for name in _OPERANDS}
    height, width = call.sizes[axis], call.sizes[-1]
    others = [i for i in range(len(call.sizes) - 1) if i != axis]
    outer = tuple(call.sizes[i] for i in others) or (1,)
    tiles = -(-height // tile[0]), -(-width // tile[1])
    strides = {name: call.strides[name] for name in _ARRAYS}
    geometry = (
        *(*count_of(tiles[0]), *count_of(tiles[1]), height, width),
        *(strides[name][i] for name in _OPERANDS for i in (axis, -1)),
        strides["output"][axis],
        *_space(outer, (tuple(strides[name][i] for i in others) or (0,) for name in _ARRAYS)),
    )
    own = {"TILE_HEIGHT": tile[0], "TILE_WIDTH": tile[1], "RANK": len(outer)}
    own |= {"OUTPUT_PACKED": _lies_in_packs(call, "output", -1)}
    own |= {f"{name.upper()}_TURNED": turned[name] for name in _OPERANDS}
    threads = math.prod(outer) * math.prod(tiles) * block
    return call.plan("modulus_tiles", access, threads, block, geometry, **own)


def _tile_of(itemsize: int, turned: int) -> tuple[int, int, int]:
    return TILE_OF_BYTES_OF_TWO if itemsize == 1 and turned == 2 else TILES[itemsize]


def _turned_axis(call: _Call) -> int | None:
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


def _is_turned(call: _Call, name: str, axis: int) -> bool:
    return call.is_dense(name, axis) and not call.is_dense(name)


def _tile_access(call: _Call, name: str, axis: int) -> str:
    """How an operand is read along an axis."""
    if name not in call.layouts:
        return "NUMBER"
    if not call.is_dense(name, axis):
        return "ONE" if call.strides[name][axis] == 0 else "STRIDED"
    return "PACKED" if _lies_in_packs(call, name, axis) else "SHIFTED"


def _lies_in_packs(call: _Call, name: str, axis: int) -> bool:
    """Whether all lines along an axis begin at multiples of 16 bytes."""
    strides = call.strides[name]
    others = (stride for i, stride in enumerate(strides) if i != axis % len(strides))
    return call.layouts[name].lies_in_steps(VECTOR_BYTES, others)


# ---- packs of short rows


def _plan_runs(call: _Call) -> Plan | None:
    """None unless dividend and output are runs of short rows, by whose divisor all rows are divided, or each by one."""
    if not _are_runs(call):
        return None
    size, pack = math.prod(call.sizes), _pack(call)
    geometry = (size, *count_of(call.sizes[-1]), *call.strides["divisor"])
    access = {"dividend": "PACKED", "divisor": "ONE"}
    return call.plan("modulus_runs", access, -(-size // pack), BLOCK, geometry, PACK=pack, RANK=0)


def _are_runs(call: _Call) -> bool:
    """Whether dividend and output are one run of memory each, which begins with a whole pack."""
    if len(call.sizes) != 2 or not call.layouts.keys() >= set(_ARRAYS) or _widest(call) > WIDEST_OF_RUNS:
        return False
    return all(_is_run(call, name, call.dtype(name).itemsize) for name in ("dividend", "output"))


def _is_run(call: _Call, name: str, itemsize: int) -> bool:
    is_dense = call.strides[name] == (call.sizes[-1] * itemsize, itemsize)
    return is_dense and call.layouts[name].alignment % min(VECTOR_BYTES, _pack(call) * itemsize) == 0


# ---- single elements


def _plan_elements(call: _Call, items: int, block: int) -> Plan:
    size = math.prod(call.sizes)
    access = {name: "ONE" if name in call.layouts else "NUMBER" for name in _OPERANDS}
    geometry = (size, *_space(call.sizes, (call.strides[name] for name in _ARRAYS)))
    threads = -(-size // items)
    own = {"ITEMS": items, "RANK": len(call.sizes), "OUTPUT_ALIGNED": _is_aligned(call.arrays["output"])}
    return call.plan("modulus_elements", access, threads, block, geometry, **own)


# ---- what the kernels' structs hold


def _is_aligned(array: ArrayLayout | np.dtype) -> bool:
    return array.element_aligned if isinstance(array, ArrayLayout) else True


def _extent(call: _Call, name: str) -> tuple[int, int]:
    """The bytes that an array spans, counted from its first element."""
    steps = [stride * (size - 1) for stride, size in zip(call.strides[name], call.sizes, strict=True)]
    return sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps) + call.dtype(name).itemsize


def _space(sizes: tuple[int, ...], strides: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    counts = [number for size in sizes for number in count_of(size)]
    return (*counts, *(stride for of_array in strides for stride in of_array))


def count_of(size: int) -> tuple[int, int, int]:
    """A size with the magic number and the shift by which 32-bit numbers are divided by it (struct Count)."""
    return (size, *magic_of(size)) if 1 < size < 2**31 else (size, 0, 0)
