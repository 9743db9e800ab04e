"""The plan of normalizations of columns of panels that several threads share: kernels/normalization_long_panels.cu."""

from __future__ import annotations

import math

from cudml.plan.device import DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, power_of_two
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.panels import MOST_STEPS, lie_in_panels, one_shot_plan
from cudml.plan.normalization.steps import SUMS_BYTES
from cudml.plan.panels import panels_of_block, staging_of
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: Bytes of the inputs, and of outputs of another size, that a block stages at the most: beside the sums of spans no
#: more fit the 64 KB that a block has at least.
_MOST_BYTES = 52 << 10

#: Columns of the narrowest rows, and bytes of the input for each multiprocessor at least, of such rows, twice as many
#: if panels are large, of others and of others in halves: (262, 200, 5) floats take an H100 3.5 us so and 4.7
#: otherwise, (524, 500, 2) float16s 4.5 and 23, (30, 2000, 5) floats 6.3 and 6.4, but (16, 2000, 5) 6.3 and 5.5, (582,
#: 100, 9) 5.0 and 4.5, (2330, 100, 9) 14.6 and 13.7, (9320, 100, 9) 34 and 41, float16s 33 and 31.
_NARROWEST, _LEAST_BYTES, _LEAST_OF_WIDER, _LEAST_OF_HALVES = 6, 1 << 12, 1 << 16, 1 << 18

#: Columns of halves at the most; and rows of several whole vectors are loaded otherwise: (29062, 200, 8) floats take
#: 144 us so and 140 otherwise, (7265, 200, 32) 139 and 126, but (90820, 128, 4) 142 and 251, (6642, 200, 35) 135 and
#: 198; (13285, 200, 35) float16s 173 and 234, (17884, 80, 65) 208 and 193.
_WIDEST_OF_HALVES = 48

#: Chunks of a span. (155000, 100, 3) floats take 183 us so, 189 by spans of two chunks and 172 by eight, (31000, 1000,
#: 3) float16s 211, 183 and 226, (93000, 200, 5) 217, 222 and 218.
_SPAN = 4

#: Bytes from which on panels are large. Threads of a block, and if its panels are large or blocks no more than
#: multiprocessors, and of a multiprocessor: (46500, 200, 5) floats take 137 us so, 173 by 256 threads, and 146 if 1280
#: fit; (4650, 2000, 5), 40000 bytes, 171 by 128 threads and 143 by 256, (90, 1000, 6) 7.0 and 5.9.
_LARGE_BYTES = 24576
_THREADS, _THREADS_OF_FEW, _RESIDENT_THREADS = 128, 256, 1024

#: Columns of a panel whose steps a thread normalizes together, where there are so many that each thread has some:
#: (60000, 200, 5) float16s take 109 us so and 144 one by one, (33482, 256, 7) 89 and 114, (117187, 128, 4) 134 and 153,
#: (60000, 200, 5) floats 165 and 176; but (58593, 128, 8) float16s 161 and 119, (117187, 256, 2) 206 and 154, and
#: (60000, 200, 5) with scales of all elements 153 and 145.
_COLUMNS_TOGETHER = range(3, 8)


def plan_long_panels(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """One-shot blocks that move some panels each; None where groups are not the columns of such, or are faster else."""
    if not (_are_faster(groups, device) and lie_in_panels(groups)):
        return None
    inner, length, steps = groups.kept.sizes[-1], groups.length, _SPAN * groups.chunk
    nbytes = length * inner * groups.widest
    panels = panels_of_block(nbytes, groups.count // inner, device)
    are_few = panels * nbytes > _LARGE_BYTES or groups.count // inner <= panels * device.multiprocessors
    threads = _THREADS_OF_FEW if are_few else _THREADS
    if inner > threads:
        return None
    staging = staging_of(groups.stored, length, inner, panels, threads, steps, is_known=False)
    spans = power_of_two(math.ceil(length / steps))
    beside = panels * inner * (spans * SUMS_BYTES + 4 * groups.normal_words)
    if not staging.shared_bytes <= min(_MOST_BYTES, device.shared_bytes_per_block - beside):
        return None
    each_has_one = panels * length // groups.chunk >= threads
    bands = bool(staging.constants["ALIKE"]) and _are_in_bands(groups) and each_has_one
    own: dict[str, str | int | bool] = {
        "LENGTH": 0,
        "SPAN": _SPAN,
        "SPANS": spans,
        "RESIDENT": _RESIDENT_THREADS // threads,
        "BANDS": bands,
        "PADDED": bool(staging.constants["PADDED"]) and not bands,
    }
    return one_shot_plan("long_panels", groups, spec, staging, own, threads, panels, device)


def _are_in_bands(groups: Groups) -> bool:
    """Whether panels consist of bands, whose columns have the same scale and bias."""
    are_across = groups.operands.differ_across("scale") or groups.operands.differ_across("bias")
    return groups.kept.sizes[-1] in _COLUMNS_TOGETHER and groups.length % groups.chunk == 0 and not are_across


def _are_faster(groups: Groups, device: DeviceProperties) -> bool:
    """Whether these are columns of narrow rows of floats, and many, that are normalized."""
    size, inner = groups.source.dtype.itemsize, groups.kept.sizes[-1]
    if not (groups.are_floats and groups.has("output")) or groups.length <= MOST_STEPS:
        return False
    row = inner * size
    if row * groups.length > _MOST_BYTES or (row > VECTOR_BYTES and row % VECTOR_BYTES == 0):
        return False
    of_wider = _LEAST_OF_HALVES if size == 2 else _LEAST_OF_WIDER
    of_narrow = 2 * _LEAST_BYTES if row * groups.length > _LARGE_BYTES else _LEAST_BYTES
    least = of_narrow if inner <= _NARROWEST else of_wider
    is_wide = size == 2 and inner > _WIDEST_OF_HALVES
    return groups.bytes_of_multiprocessor(device) >= least and not is_wide
