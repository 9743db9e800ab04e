"""The plans of remainders of packs that lie across rows: kernels/modulus_runs.cu."""

from __future__ import annotations

import math
from dataclasses import replace

from cudml.plan.layout import VECTOR_BYTES
from cudml.plan.modulus.call import OPERANDS, Call, count_of
from cudml.plan.plan import Plan

#: How a thread comes by operands of these kinds; others have addresses of their own.
_ACCESS = {"RUN": "PACKED", "NUMBER": "NUMBER"}

#: Threads of a block: with 256 float32 and int32 by a column take an H200 2 to 3 % longer. And packs of a period, at
#: least, so that a warp's packs lie side by side: (89478485, 3) int8 by a row took 160 us in periods of 3, and 139.
_BLOCK = _LEAST_PERIOD = 128

#: Packs of a thread, by how divisors come and the bytes of the widest type; otherwise one. Inverting the divisors of
#: small numbers takes as long as the remainders: of 256 MB, on an H200, (2825636, 95) int8 by a row take 239, 158 and
#: 137 us with 1, 2 and 4, (1412818, 95) float16 152, 141 and 134, but (706409, 95) float32 129, 132 and 135. By a
#: column more loads are on their way: int8 175, 158 and 150, float16 145, 135 and 137, int32 137, 132 and 137.
_PACKS = {"OF_A_ROW": {1: 4, 2: 4, 4: 1, 8: 1}, "OF_TWO_ROWS": {1: 4, 2: 2, 4: 2, 8: 2}}
#: Threads, at least, as a part of those that a GPU runs at once, or each has fewer packs: 16 MB of int8 by a row take
#: 16.9 us with one pack and 11.3 with 4, by a column 12.6 and 13.4; 4 MB 5.4 and 6.0, and 4.4 and 6.2.
_LEAST_THREADS = {"OF_A_ROW": 0.5, "OF_TWO_ROWS": 2}
#: Elements by which threads that have nothing to do may count beyond the end, which an index still holds.
_MOST_BEYOND = 1 << 23

#: Packs of a row, at the most, that is faster as a part of a run though it is whole packs, by the bytes of the widest
#: type: 256 MB of float16 by a column in rows of 96 take 163 us in packs of rows and 138 so, of 128 136 and 139, int32
#: 137 and 132, 135 and 132, int64 135 and 135, of 4096 131 and 135. By a row only where each thread has one pack: 1 MB
#: of float16 2.5 and 2.0, 256 MB 133 and 134.
_MOST_WHOLE_PACKS: dict[str, dict[int, float]] = {"OF_A_ROW": {2: math.inf}, "OF_TWO_ROWS": {2: 15, 4: math.inf}}
#: Packs of a row of bytes, and of halves, at the most, that is faster so. 256 MB of int8 take, in packs of rows and so,
#: by a column in rows of 1001 182 and 147 us, of 10001 145 and 148; by a row, where each thread has one pack, 200 and
#: 240, with four 138; by others of 1001 257 and 258. Dividends that are no run are loaded one by one, too: float16 by a
#: row of 301 215 and 203, of 1001 181 and 203; a column in rows of 301 174 and 167, of 1001 157 and 166.
_MOST_PACKS: dict[tuple[str, str], tuple[float, float]] = {
    ("RUN", "OF_A_ROW"): (64, math.inf),
    ("RUN", "OF_TWO_ROWS"): (256, math.inf),
    ("RUN", "SINGLE"): (64, math.inf),
    ("SINGLE", "RUN"): (64, math.inf),
    ("NUMBER", "SINGLE"): (12, math.inf),
    ("SINGLE", "SINGLE"): (8, 64),
    ("SINGLE", "OF_A_ROW"): (8, 64),
}
_MOST_PACKS_OF_OTHERS = (8.0, 12.0)
#: Elements of a row, at the most, next to an operand whose rows lie across it: 256 MB of float32, transposed, in rows
#: of 64 take 204 us so and 292 by elements, of 96 281 and 232; int64 of 24 197 and 197, of 48 212 and 203.
_LONGEST_TURNED = {1: 239, 2: 160, 4: 80, 8: 32}


def plan_runs(call: Call) -> Plan | None:
    """None unless the output is a run of rows, and packs of it are faster than single elements."""
    if not are_runs(call) or _is_scattered(call) or _is_few_at_a_step(call):
        return None
    call = _in_rows(call)
    size, pack, kinds = math.prod(call.sizes), call.pack, _kinds(call)
    packs, period, shared = -(-size // pack), _period(call, kinds["divisor"]), _packs_of_thread(call, kinds)
    strides = (stride for name in OPERANDS for stride in call.strides[name])
    geometry = (size, *count_of(call.sizes[-1]), *strides, *count_of(period))
    access = {name: _ACCESS.get(kinds[name], "ONE") for name in OPERANDS}
    own: dict[str, int | str] = {"DIVIDENDS": kinds["dividend"], "DIVISORS": kinds["divisor"]}
    own |= {"PACK": pack, "PACKS": shared, "RANK": 0}
    threads = -(-packs // (period * shared)) * period if shared > 1 else packs
    return call.plan("modulus_runs", access, threads, _BLOCK, geometry, **own)


def are_runs(call: Call) -> bool:
    """Whether the output is one run of memory, which begins with a whole pack."""
    return len(call.sizes) <= 2 and _kind(_in_rows(call), "output") == "RUN"


def are_faster_as_runs(call: Call) -> bool:
    """Whether packs that lie across rows are faster than packs of single rows."""
    if len(call.sizes) != 2 or not are_runs(call):
        return False
    kinds, length = _kinds(call), call.sizes[-1]
    is_shared = kinds["divisor"] == "OF_A_ROW" and _packs_of_thread(call, kinds) > 1
    if length % call.pack == 0:
        most_whole = _MOST_WHOLE_PACKS.get(kinds["divisor"], {}).get(call.widest, 0)
        return kinds["dividend"] == "RUN" and not is_shared and length <= most_whole * call.pack
    if call.widest > 2 or is_shared:
        return True
    dividends = "COLUMN" if kinds["dividend"] == "SINGLE" and call.strides["dividend"][1] == 0 else kinds["dividend"]
    most = _MOST_PACKS.get((dividends, kinds["divisor"]), _MOST_PACKS_OF_OTHERS)
    return length <= most[call.widest - 1] * call.pack


def _in_rows(call: Call) -> Call:
    """The same, one axis as a row."""
    if len(call.sizes) == 2:
        return call
    size = call.sizes[0]
    strides: dict[str, tuple[int, ...]] = {name: (step * size, step) for name, (step,) in call.strides.items()}
    return replace(call, sizes=(1, *call.sizes), strides=strides)


def _is_scattered(call: Call) -> bool:
    """Whether an operand lies across the rows, and these are so long that single elements find more neighbours."""
    steps = [(call.dtype(name).itemsize, *call.strides[name]) for name in OPERANDS if len(call.sizes) == 2]
    is_turned = any(step != 0 and abs(row) == size < abs(step) for size, row, step in steps)
    return is_turned and call.sizes[-1] > _LONGEST_TURNED[call.widest]


def _is_few_at_a_step(call: Call) -> bool:
    """Whether operands of one axis, at a step, are so few that threads with a pack each leave a GPU idle: every third
    int8 of 96 MB takes an H200 69 us by elements and 41 so, of 6 MB 3.9 and 4.5. Large ones take as long either way."""
    threads = call.device.multiprocessors * call.device.threads_per_multiprocessor
    return len(call.sizes) == 1 and (call.widest > 2 or 2 * call.sizes[0] < threads * call.pack)


def _kinds(call: Call) -> dict[str, str]:
    """How operands of a pack come: DIVIDENDS and DIVISORS of the kernel."""
    kinds = {name: _kind(call, name) for name in OPERANDS}
    row, step = call.strides["divisor"]
    if kinds["divisor"] == "SINGLE" and row == 0 and call.sizes[0] > 1:
        kinds["divisor"] = "OF_A_ROW"
    elif kinds["divisor"] == "SINGLE" and step == 0 and call.sizes[-1] >= call.pack - 1:
        kinds["divisor"] = "OF_TWO_ROWS"
    return kinds


def _kind(call: Call, name: str) -> str:
    if name not in call.layouts:
        return "NUMBER"
    itemsize = call.dtype(name).itemsize
    is_dense = call.strides[name] == (call.sizes[-1] * itemsize, itemsize)
    is_aligned = call.layouts[name].alignment % min(VECTOR_BYTES, call.pack * itemsize) == 0
    return "RUN" if is_dense and is_aligned else "SINGLE"


def _period(call: Call, divisors: str) -> int:
    """Packs from one to the next of a thread: whole rows, where these have the divisors in common."""
    least = math.lcm(call.sizes[-1], call.pack) // call.pack if divisors == "OF_A_ROW" else 1
    return least * -(-_LEAST_PERIOD // least)


def _packs_of_thread(call: Call, kinds: dict[str, str]) -> int:
    """As many as leave enough threads, few of which have nothing to do."""
    divisors, device = kinds["divisor"], call.device
    if kinds["dividend"] != "RUN" or divisors not in _PACKS:
        return 1
    shared, packs, period = _PACKS[divisors][call.widest], math.prod(call.sizes) // call.pack, _period(call, divisors)
    threads = _LEAST_THREADS[divisors] * device.multiprocessors * device.threads_per_multiprocessor
    most = min(packs, _MOST_BEYOND // call.pack)
    while shared > 1 and (packs < shared * threads or most < shared * period):
        shared //= 2
    return shared
