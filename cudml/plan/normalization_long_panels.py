"""The plan of normalizations of columns of panels that several threads share: kernels/normalization_long_panels.cu."""

from __future__ import annotations

import math

from cudml.plan.device import DeviceProperties
from cudml.plan.groups import Groups
from cudml.plan.layout import VECTOR_BYTES, power_of_two
from cudml.plan.normalization_panels import MOST_STEPS, launch_of, lie_in_panels
from cudml.plan.normalization_steps import SUMS_BYTES
from cudml.plan.panels import panels_of_block, staging_of
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: Bytes of the inputs, and of outputs of another size, that a block stages at the most.
_MOST_BYTES = 52 << 10

#: Bytes of the input for each multiprocessor at least, and panels, if they are so large: (1048, 200, 5) floats take an
#: H100 7.1 us so and 11.0 otherwise, (349, 1000, 3) 8.4 and 14.6, but (143, 365, 20) 10.7 and 7.2.
_LEAST_BYTES, _LARGE_BYTES, _LEAST_LARGE = 8192, 24576, 4

#: Rows of whole vectors and so many bytes are loaded otherwise: (4650, 250, 40) floats take 147 us so and 127
#: otherwise, but (6369, 365, 20) 135 and 150.
_WIDE_BYTES = 128

#: Chunks of a span. (155000, 100, 3) floats take 183 us so, 189 by spans of two chunks and 172 by eight, (31000, 1000,
#: 3) float16s 211, 183 and 226, (93000, 200, 5) 217, 222 and 218.
_SPAN = 4

#: Threads of a block, and if the block's panels are large, and of a multiprocessor: (46500, 200, 5) floats take 137 us
#: so, 173 by 256 threads, and 146 if 1280 fit; (2000, 5), 40000 bytes, 171 by 128 threads and 143 by 256.
_THREADS, _THREADS_OF_LARGE, _RESIDENT_THREADS = 128, 256, 1024


def plan_long_panels(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """One-shot blocks that move some panels each; None where groups are not the columns of such, or are faster else."""
    if not (_are_faster(groups, device) and lie_in_panels(groups)):
        return None
    inner, length, steps = groups.kept.sizes[-1], groups.length, _SPAN * groups.chunk
    nbytes = length * inner * groups.widest
    panels = panels_of_block(nbytes, groups.count // inner, device)
    threads = _THREADS if panels * nbytes <= _LARGE_BYTES else _THREADS_OF_LARGE
    staging = staging_of(groups.stored, length, inner, panels, threads, steps, is_known=False)
    spans = power_of_two(math.ceil(length / steps))
    beside = panels * inner * (spans * SUMS_BYTES + 4 * groups.normal_words)
    if not staging.shared_bytes <= min(_MOST_BYTES, device.shared_bytes_per_block - beside):
        return None
    own: dict[str, str | int | bool] = {
        "LENGTH": 0,
        "SPAN": _SPAN,
        "SPANS": spans,
        "RESIDENT": _RESIDENT_THREADS // threads,
    }
    return launch_of("long_panels", groups, spec, staging, own, threads, panels)


def _are_faster(groups: Groups, device: DeviceProperties) -> bool:
    """Whether these are columns of narrow rows of floats, and many, that are normalized."""
    row = groups.kept.sizes[-1] * groups.source.dtype.itemsize
    if not (groups.are_floats and groups.has("output")) or groups.length <= MOST_STEPS:
        return False
    panel, nbytes = row * groups.length, groups.source.size * groups.source.dtype.itemsize
    least = max(_LEAST_BYTES, _LEAST_LARGE * panel if panel > _LARGE_BYTES else 0)
    is_wide = row >= _WIDE_BYTES and row % VECTOR_BYTES == 0
    return nbytes >= least * device.multiprocessors and panel <= _MOST_BYTES and not is_wide
