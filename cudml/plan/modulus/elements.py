"""The plans of remainders of single elements, wherever they lie: kernels/modulus_elements.cu."""

from __future__ import annotations

import math

from cudml.plan.modulus.call import ARRAYS, BLOCK, OPERANDS, Call, is_aligned, space
from cudml.plan.modulus.runs import are_runs
from cudml.plan.plan import Plan

#: Elements of a thread where they are moved one by one.
_ITEMS = 4
#: Where an array has fewer elements than this part of the threads that a GPU runs at once, a thread takes one element
#: and a block has fewer threads: what counts is how soon the loads begin, and how few instructions come after them.
#: Packs of rows that begin anywhere take more of these, unless the output is a run: (256, 501) float32 by a row take an
#: H100 1.6 us by elements, and 2.5 in packs. Of bytes, a run of 98304 by others padded takes an H200 1.5 us by elements
#: and 2.1 in packs, of 245760 2.4 and 2.0.
_SMALL_PART, _SMALL_PART_OF_SHIFTED, _SMALL_PART_OF_BYTES = 4, 1, 2
_SMALL_BLOCK = 128


def plan_small(call: Call) -> Plan | None:
    """None where there is more to do than to begin soon."""
    size, part = math.prod(call.sizes), _small_part(call)
    if size * part > call.device.multiprocessors * call.device.threads_per_multiprocessor:
        return None
    return _plan(call, 1, _SMALL_BLOCK)


def plan_elements(call: Call) -> Plan:
    """For all layouts."""
    return _plan(call, _ITEMS, BLOCK)


def _plan(call: Call, items: int, block: int) -> Plan:
    size = math.prod(call.sizes)
    access = {name: "ONE" if name in call.layouts else "NUMBER" for name in OPERANDS}
    geometry = (size, *space(call.sizes, (call.strides[name] for name in ARRAYS)))
    threads = -(-size // items)
    own = {"ITEMS": items, "RANK": len(call.sizes), "OUTPUT_ALIGNED": is_aligned(call.arrays["output"])}
    return call.plan("modulus_elements", access, threads, block, geometry, **own)


def _small_part(call: Call) -> int:
    """Of which an array is too small for packs."""
    shifted = all(name in call.layouts and call.is_dense(name) for name in OPERANDS) and not call.has_whole_rows
    if are_runs(call):
        return _SMALL_PART_OF_BYTES if call.widest == 1 else _SMALL_PART
    return _SMALL_PART_OF_SHIFTED if shifted else _SMALL_PART
