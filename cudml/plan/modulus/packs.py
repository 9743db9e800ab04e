"""The plans of remainders of packs, elements side by side: kernels/modulus_packs.cu."""

from __future__ import annotations

import math

from cudml.plan.device import DeviceProperties
from cudml.plan.layout import ArrayLayout
from cudml.plan.loads import EVICT_NORMALLY, bytes_ahead, eviction_of
from cudml.plan.modulus.call import ARRAYS, BLOCK, OPERANDS, Call, count_of, space
from cudml.plan.modulus.runs import are_faster_as_runs
from cudml.plan.plan import Plan

#: Where three arrays of at least so many packs each are moved, two blocks that fill a multiprocessor are 0.4 % faster
#: on an H200 than eight; with two arrays they are 5 % slower. Few of them would not end at the same time.
_LARGE_BLOCK = 1024
#: Where so many packs are divided by a number, small blocks are faster: 2^29 int16 take an H200 0.498 ms in blocks of
#: 128, 0.508 of 256 and 0.526 of 512, 2^30 int8 0.503 and 0.513, 2^27 int64 0.499 and 0.509, but 2^28 float32 0.498
#: either way.
_BLOCK_OF_NUMBER = 128
#: Where packs of many elements are shifted, a block waits for few that are not whole: (262144, 4096) int8 from odd
#: addresses take an H200 0.783 ms, and 0.789 in blocks of 256; (519097, 101) float16 by a row an H100 98 us, and 99.
_BLOCK_OF_SHIFTED, _LEAST_PACK_OF_SHIFTED = 128, 8
LEAST_LARGE = 1 << 23

#: Bytes of an element: those of more bytes that run backwards are as fast one by one.
_WIDEST_REVERSED = 2

#: Bytes of an operand, at the most, that is asked for while the launch ahead ends: 2^18 float32 by as many take an H100
#: 1.7 us so and 2.3 otherwise, 2^21 8.6 and 9.7, 2^23 33.6 and 34.5, 2^24 65.8 and 66.9.
_AHEAD_BYTES = 1 << 26

#: Rows of a thread that share a divisor, by the bytes of the widest type. Of small numbers a pack has many, whose
#: reciprocals cost as much as two rows' remainders; of large ones 4 rows are 2 % slower than 2 on an H200.
_ROWS = {1: 4, 2: 4, 4: 2, 8: 2}
#: Where the output is no run, below so many packs a row's first and last ones, if they are not whole, cost more than
#: single elements do.
_LEAST_PACKS_OF_ROW = 8
#: The same if an operand has one element for each row ("column") or one row for all ("row"), by the bytes of the widest
#: type. The ends of rows are loaded by elements, and from 4 bytes on a warp that has one computes twice. On an H100
#: (480000, 100) int8 by a column take 72 us in packs and 108 by elements, (960000, 50) int16 94 and 107, (1297296, 37)
#: 134 and 107; (130419, 201) int32 by a row 82 and 75, (52324, 501) 77 and 75, (26188, 1001) 75 and 75; (480001, 101)
#: int64 by a row 300 and 260, (48001, 1001) 259 and 258, (2285712, 21) by a column 302 and 264.
_LEAST_PACKS = {"column": {1: 6, 2: 6, 4: 8, 8: math.inf}, "row": {1: 8, 2: 8, 4: 128, 8: math.inf}}


def plan_packs(call: Call) -> Plan | None:
    """None unless the innermost axis is dense in the output and, in operands, dense either way, of every second element
    or of one."""
    pack, shared = call.pack, _ROWS[call.widest]
    whole = {name: call.is_dense(name) and call.begins_with_packs(name, pack) for name in call.layouts}
    if not _lies_in_packs(call, whole) or are_faster_as_runs(call):
        return None
    access = {name: _access(call, name, packed=whole.get(name, False) and whole["output"]) for name in OPERANDS}
    if access == {"dividend": "PACKED", "divisor": "ONE"} and call.sizes[-1] % (shared * pack) == 0:
        call = call.with_shorter_rows(shared)
    length, outer = call.sizes[-1], call.sizes[:-1] or (1,)
    strides = {name: call.strides[name][:-1] or (0,) for name in ARRAYS}
    rows = shared if access["dividend"] == "PACKED" and _repeats(strides["divisor"], outer) else 1
    groups = (*outer[:-1], -(-outer[-1] // rows))
    packs = -(-(length + (0 if whole["output"] else pack - 1)) // pack)
    threads = math.prod(groups) * packs
    geometry = (
        *(threads, length, *_bytes_ahead(call, access), outer[-1]),
        *(strides["dividend"][-1], strides["output"][-1], *count_of(packs)),
        *(end for name in OPERANDS for end in _extent(call, name)),
        *space(groups, ((*strides[name][:-1], strides[name][-1] * rows) for name in ARRAYS)),
    )
    block = _block_of(threads, rows, pack, access, call.device)
    own = {"PACK": pack, "ALIGNED_ROWS": whole["output"], "ROWS": rows, "RANK": len(call.sizes) - 1}
    # Memory wants a pack of every thread that a multiprocessor has room for, or several of half as many.
    own |= {"BLOCKS": max(call.device.threads_per_multiprocessor // block, 1) if rows == 1 else 1}
    return call.plan("modulus_packs", access, threads, block, geometry, EVICTION=_eviction(call, access), **own)


def _lies_in_packs(call: Call, whole: dict[str, bool]) -> bool:
    """Whether packs can be moved and are faster than single elements: rows of `whole` arrays begin with one. Rows of
    bytes are, wherever those of operands begin: 256 MB of int8 in rows of 96, padded by 3, take an H200 193 us so and
    611 by elements, by such divisors 192 and 257 as a run."""
    if not (call.is_dense("output") and call.layouts["output"].element_aligned):
        return False
    if not all(call.is_dense(n) or _is_picked(call, n) or call.strides[n][-1] == 0 for n in call.layouts):
        return False
    moved = [name for name in call.layouts if call.strides[name][-1] != 0]
    are_whole = whole["output"] and (call.widest == 1 or all(whole[name] for name in moved))
    in_packs = call.sizes[-1] % call.pack == 0 and are_whole
    return len(call.sizes) == 1 or in_packs or call.sizes[-1] >= _least_packs(call) * call.pack


def _is_picked(call: Call, name: str) -> bool:
    """Whether elements that are not dense are found in few words."""
    is_reversed = call.is_reversed(name) and call.dtype(name).itemsize <= _WIDEST_REVERSED
    return call.is_every_second(name) or is_reversed


def _least_packs(call: Call) -> float:
    """Of a row whose ends are not whole packs."""
    kinds = {"column": any(call.strides[name][-1] == 0 for name in call.layouts)}
    kinds["row"] = any(0 in call.strides[name][:-1] for name in call.layouts)
    least = (_LEAST_PACKS[kind][call.widest] for kind, is_there in kinds.items() if is_there)
    return max(least, default=_LEAST_PACKS_OF_ROW)


def _bytes_ahead(call: Call, access: dict[str, str]) -> list[int]:
    """Of either operand, that are asked for while the launch ahead ends: of rows in packs, next to such or to a
    number."""
    is_row = len(call.sizes) == 1 and set(access.values()) <= {"PACKED", "NUMBER"}
    layouts = [call.layouts.get(name) if is_row else None for name in OPERANDS]
    return [bytes_ahead(layout, _AHEAD_BYTES, call.device) if layout else 0 for layout in layouts]


def _eviction(call: Call, access: dict[str, str]) -> str:
    """Divisors that several rows share stay as they are: (65536, 4096) float32 by a column take 5 % longer evicted
    last."""
    dividend = call.arrays["dividend"]
    alone = access["divisor"] in ("PACKED", "NUMBER") and not any(s == 0 for s in call.strides["divisor"][:-1])
    return eviction_of(dividend) if isinstance(dividend, ArrayLayout) and alone else EVICT_NORMALLY


def _block_of(threads: int, rows: int, pack: int, access: dict[str, str], device: DeviceProperties) -> int:
    if pack >= _LEAST_PACK_OF_SHIFTED and not {"SHIFTED", "REVERSED"}.isdisjoint(access.values()):
        return _BLOCK_OF_SHIFTED
    if threads < LEAST_LARGE:
        return BLOCK
    if "NUMBER" in access.values():
        return _BLOCK_OF_NUMBER
    is_of_three = rows == 1 and set(access.values()) == {"PACKED"}
    fills = device.threads_per_multiprocessor % _LARGE_BLOCK == 0
    return _LARGE_BLOCK if is_of_three and fills else BLOCK


def _access(call: Call, name: str, packed: bool) -> str:
    if name not in call.layouts:
        return "NUMBER"
    if call.is_every_second(name):
        return "SECOND"
    if call.is_reversed(name):
        return "REVERSED"
    if not call.is_dense(name):
        return "ONE"
    return "PACKED" if packed else "SHIFTED"


def _repeats(strides: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    """Whether the same elements serve for all rows along the last axis, of which there are several."""
    return strides[-1] == 0 and sizes[-1] > 1


def _extent(call: Call, name: str) -> tuple[int, int]:
    """The bytes that an array spans, counted from its first element."""
    steps = [stride * (size - 1) for stride, size in zip(call.strides[name], call.sizes, strict=True)]
    return sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps) + call.dtype(name).itemsize
