"""How kernels load what they read: their constants."""

from __future__ import annotations

import numpy as np

from cudml.plan.device import DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout
from cudml.plan.plan import Struct

#: kernels/gate.cuh: how an assembly line loads its stages.
BY_ELEMENTS, BY_COPIES, IN_BULK = 0, 1, 2

#: kernels/intrinsics.cuh: Eviction.
EVICT_NORMALLY, EVICT_FIRST, EVICT_LAST = "EVICT_NORMALLY", "EVICT_FIRST", "EVICT_LAST"

#: From here on arrays do not fit the second-level cache with their outputs, so what others keep there is lost anyway.
#: But it comes back more slowly after loads that are evicted last: copies within 16 MiB take an H200 9.5 us in place of
#: 7.8, until as much was loaded otherwise. After smaller arrays nobody shall pay that.
_LARGE_BYTES = 1 << 26


def eviction_of(source: ArrayLayout) -> str:
    """Of what is read once, while as much is written."""
    return EVICT_LAST if source.size * source.dtype.itemsize >= _LARGE_BYTES else EVICT_NORMALLY


def bytes_ahead(layout: ArrayLayout, most_bytes: int, device: DeviceProperties) -> int:
    """How many bytes of an array are asked for while the launch ahead ends (kernels/ahead.cuh): all, or none if they
    are more than `most_bytes`, no run from a multiple of 16 bytes on, or if launches do not begin early.

    Kernels of few blocks, which ask for all of it at once, lose by it from some 10 MB on. Of many blocks only the first
    ask early: those of short lines gain at every size that was measured, up to 64 MB, others up to some 24.
    """
    nbytes = layout.size * layout.dtype.itemsize
    able = device.begins_early and nbytes <= most_bytes and layout.alignment == VECTOR_BYTES and layout.is_one_run
    return nbytes if able else 0


def asked_for_ahead(layout: ArrayLayout, most_bytes: int, device: DeviceProperties) -> Struct:
    """The same as an argument of a kernel, struct Ahead."""
    return Struct((bytes_ahead(layout, most_bytes, device),), np.dtype(np.uint32))
