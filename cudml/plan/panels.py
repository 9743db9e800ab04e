"""How blocks share panels, and how these lie in shared memory: kernels/panels.cuh."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout, Dims, power_of_two_within
from cudml.plan.plan import Struct

#: Bytes of a panel at the most: inputs and outputs, padded, fit the 64 KB that a block has at least. And of an element.
MOST_BYTES, _WIDEST = 24576, 8

#: Bytes of the run of a block that has several panels, and blocks of a multiprocessor at least if there are so many
#: panels: sums of (21845, 16, 3) float32 take an H100 4.7 us so, and 5.1 with one block.
_BYTES, _BLOCKS = 16384, 4

#: Lanes that meet in a bank of shared memory from which on runs are padded, where the compiler knows the steps, and
#: where it does not, which takes an addition or two for each element: sums of (3875000, 16, 3) int8, of which 2 meet,
#: take 125 us padded and 134 otherwise, of (31000, 1000, 3) float16, of which 3 meet, 197 and 161, of (11625, 2000, 2)
#: float32, of which 16 meet, 126 and 235.
_MEETING_OF_KNOWN, _MEETING = 2, 6

#: Bytes of shared memory behind which some stay free.
_PADDED_BYTES = 128


class Staging(NamedTuple):
    """The constants of kernels/panels.cuh but for LENGTH, its struct Staging, and the shared memory of a block."""

    constants: dict[str, str | int | bool]
    places: Struct
    shared_bytes: int


def are_panels(layout: ArrayLayout, line: Dims, axis: Dims) -> bool:
    """Whether all lines between two neighbours of an outer axis are a run, which follows the one before: `line` numbers
    the lines, `axis` the steps of each."""
    size, inner = layout.dtype.itemsize, line.sizes[-1]
    if line.rank < 2 or axis.rank != 1 or inner < 2 or not layout.element_aligned or size > _WIDEST:
        return False
    panel = axis.sizes[0] * inner * size
    outer = (panel * math.prod(line.sizes[i:-1]) for i in range(1, line.rank))
    return axis.strides == (inner * size,) and line.strides == (*outer, size)


def panels_of_block(
    nbytes: int, outer: int, device: DeviceProperties, of_block: int = _BYTES, blocks: int = _BLOCKS
) -> int:
    """Of `outer` panels of so many bytes: a power of two, so that many shapes share a kernel."""
    of_few = math.ceil(outer / (blocks * device.multiprocessors))
    return power_of_two_within(max(1, min(of_block // nbytes, of_few)))


def staging_of(
    layouts: Sequence[ArrayLayout], length: int, inner: int, panels: int, threads: int, steps: int, is_known: bool
) -> Staging:
    """Of the input and, if there is one, the output; each thread takes `steps` of the `length` steps of a column, one
    after the other."""
    sizes = {layout.dtype.itemsize for layout in layouts}
    alike = len(sizes) == 1 and all(layout.alignment % VECTOR_BYTES == 0 for layout in layouts)
    constants: dict[str, str | int | bool] = {
        "INNER": inner,
        "PANELS": panels,
        "THREADS": threads,
        "PADDED": _are_padded(length, inner, sizes, steps, is_known),
        "ALIKE": alike,
    }
    of_run = [staged_bytes(panels * length * inner, layout.dtype.itemsize) for layout in layouts]
    outputs = 0 if alike else of_run[0]
    return Staging(constants, Struct((outputs,), np.dtype(np.int32)), of_run[0] if alike else sum(of_run))


def _are_padded(length: int, inner: int, sizes: Collection[int], steps: int, is_known: bool) -> bool:
    """Whether that keeps enough lanes apart."""
    spans = math.ceil(length / steps)
    shares = [(lane // inner // spans, lane // inner % spans, lane % inner) for lane in range(LANES)]
    elements = [(panel * length + span * steps) * inner + column for panel, span, column in shares]
    return are_padded(elements, sizes, _MEETING_OF_KNOWN if is_known else _MEETING)


def are_padded(elements: Sequence[int], sizes: Collection[int], least: int) -> bool:
    """Whether that keeps lanes apart which take these elements, of which `least` meet at least."""
    meeting = max(_most_in_bank(elements, size, 0) for size in sizes)
    padded = max(_most_in_bank(elements, size, max(4, size)) for size in sizes)
    return meeting >= least and padded < meeting


def _most_in_bank(elements: Iterable[int], size: int, free: int) -> int:
    """Words of different elements in a bank, at the most, with so many free bytes behind each 128."""
    words = {(element * size + element * size // _PADDED_BYTES * free) // 4 for element in elements}
    return max(Counter(word % LANES for word in words).values())


def staged_bytes(count: int, size: int) -> int:
    """Of a run of so many elements, which may begin amid a piece, and be padded."""
    pieces = math.ceil(count * size / VECTOR_BYTES) + 1
    return (pieces + math.ceil(pieces * VECTOR_BYTES / _PADDED_BYTES)) * VECTOR_BYTES
