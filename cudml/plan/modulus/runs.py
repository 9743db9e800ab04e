"""The plans of remainders of packs across short rows: kernels/modulus_runs.cu."""

from __future__ import annotations

import math

from cudml.plan.layout import VECTOR_BYTES
from cudml.plan.modulus.call import ARRAYS, BLOCK, Call, count_of
from cudml.plan.plan import Plan

#: Bytes of an element: (6642857, 7) float32 take an H100 125 us so and 132 by elements, float64 as long either way.
_WIDEST = 4


def plan_runs(call: Call) -> Plan | None:
    """None unless dividend and output are runs of short rows, by whose divisor all rows are divided, or each by one."""
    if not are_runs(call):
        return None
    size, pack = math.prod(call.sizes), call.pack
    geometry = (size, *count_of(call.sizes[-1]), *call.strides["divisor"])
    access = {"dividend": "PACKED", "divisor": "ONE"}
    return call.plan("modulus_runs", access, -(-size // pack), BLOCK, geometry, PACK=pack, RANK=0)


def are_runs(call: Call) -> bool:
    """Whether dividend and output are one run of memory each, which begins with a whole pack."""
    if len(call.sizes) != 2 or not call.layouts.keys() >= set(ARRAYS) or call.widest > _WIDEST:
        return False
    return all(_is_run(call, name, call.dtype(name).itemsize) for name in ("dividend", "output"))


def _is_run(call: Call, name: str, itemsize: int) -> bool:
    is_dense = call.strides[name] == (call.sizes[-1] * itemsize, itemsize)
    return is_dense and call.layouts[name].alignment % min(VECTOR_BYTES, call.pack * itemsize) == 0
