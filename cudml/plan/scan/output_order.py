"""The plans of scans whose input is copied first, into the order of the axes that the output has.

Kernels that turn lines on their way are as fast as a copy where they move whole lines of the cache. Where they do not,
a copy that is turned in boxes, and a scan of its lines, are done sooner. The numbers are of an H200, of 650 arrays of
2^19 to 2^24 elements beside their copies, in the order 1, 0 into C order, and of 100 random ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from cudml.plan.device import DeviceProperties
from cudml.plan.gather import plan_on_copy_like_output
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout, are_scattered, innermost, outer_to_inner
from cudml.plan.plan import Plan
from cudml.plan.scan.work import TURNED_BYTES, TURNED_LINES, Work
from cudml.plan.spec import Scan

_Enough: TypeAlias = "tuple[tuple[int, int], ...]"

#: Elements for each multiprocessor, at least, by bytes of one. Such copies take 0.72 times as long as what else there
#: is, of 109 random arrays of 2^16 to 2^21 elements, 25 of them longer; with half the elements 1.1 to 1.7 times. Less
#: of complex128 was not measured.
_LEAST = {1: 1 << 13, 2: 1 << 9, 4: 1 << 11, 8: 1 << 12, 16: 1 << 14}

#: Of lines that are short, and of bytes whose sums are wider, which the copy hardly adds to: (4096, 4096) int8 along
#: axis 1 take 51 us and 133 uncopied, (128, 4096) 5.4 and 12.
_LEAST_OF_SHORT = {1: 1 << 11, 2: 1 << 9, 4: 1 << 11, 8: 1 << 11, 16: 1 << 14}

#: Lines of bytes and halves that lie in whole vectors, and so many elements, are turned faster than copied: by bytes of
#: an element, where inputs are neighbours along them, and where outputs are. (4096, 4096) float16 along axis 0 take 24
#: us and 38 on a copy, along axis 1 28 and 36, (1024, 1024) 9.8 and 8.8, 10.1 and 5.1.
_ENOUGH_IN_VECTORS: dict[int, tuple[int | None, int | None]] = {1: (3 << 13, None), 2: (3 << 12, 3 << 14)}

#: Lines of other elements, in bytes, that are longer are turned faster than copied, or whose inputs are neighbours in
#: whole vectors: (33, 524291) floats along axis 0 take 162 us uncopied and 91, 49 of them 112 and 89, 97 80 and 104,
#: but (32, 41685) 7.0 and 9.2; (1048576, 16) float64 along axis 1 259 and 132, 24 of them 202 and 133, 48 98 and 146.
_MOST_LINE_BYTES = 192

#: And lines of floats in such few elements, whose outputs are neighbours: 2^19 in lines of 32 to 4096 take 0.44 to 0.93
#: times as long copied, 2^20 0.66 to 1.1.
_FEW_FLOATS = 1 << 12

#: Lines that no kernel turns, as they are few: how many, and elements at least, where inputs are neighbours along them,
#: and where outputs are, by bytes of an element. (2097152, 8) floats along axis 0 take 252 us and 75 copied, (4194304,
#: 4) 136 and 76, (131072, 16) 30 and 15, (524288, 4) 16.8 and 16; (16, 131072) along axis 1 18 and 13.
_FEW_ALONG_INPUT: _Enough = ((8, 3 << 11), (4, 3 << 13))
_OF_WORDS: _Enough = ((8, 3 << 12), (4, 3 << 15))
_FEW_ALONG_OUTPUT: dict[int, _Enough] = {2: ((8, 3 << 13),), 4: _OF_WORDS, 8: _OF_WORDS}

#: Elements of lines that are too short for that, at least, whose outputs are neighbours: (1048576, 16) floats along
#: axis 1 take 185 us uncopied and 70, 8 of them 135 and 70, 4 49 and 69; float16 158 and 40, int8 315 and 63.
_SHORTEST, _SHORTEST_OF_BYTES = 8, 4

#: Rows of halves in the copy, each of which begins with a line of the cache: their elements at least, and those for
#: each multiprocessor. (4099, 4097) float16 along axis 0 take 49 us so and 94 with rows end to end, (4097, 4099) along
#: axis 1 50 and 61, (32771, 513) along axis 0 61 both ways, (512, 1023) along axis 1 6.2 and 5.8.
_LEAST_ROW, _LEAST_OF_ROWS = 1 << 10, 3 << 12


def plan_in_order_of_output(
    spec: Scan,
    source: ArrayLayout,
    output: ArrayLayout,
    work: Work,
    device: DeviceProperties,
    plan_dense: Callable[[ArrayLayout], Plan],
) -> Plan | None:
    """On a copy whose axes lie like those of the output; None if something else is faster, or nothing copies them."""
    elements = source.size / device.multiprocessors
    if spec.axis is None or not _pays(source, output, work, elements):
        return None
    row = _row_of_halves(spec.axis, source, output) if elements >= _LEAST_OF_ROWS else 0
    return plan_on_copy_like_output(source, output, device, plan_dense, row)


def _row_of_halves(along: int, source: ArrayLayout, output: ArrayLayout) -> int:
    """How many inner axes of the output are a line, or lie inside of the scanned one; 0 if rows may lie end to end."""
    order = outer_to_inner(range(len(output.shape)), output)
    row = [axis for axis in order[order.index(along) + 1 :] if output.shape[axis] > 1] or [along]
    inner = len(order) - order.index(row[0])
    elements = math.prod(source.shape[axis] for axis in row)
    in_vectors = elements * source.dtype.itemsize % VECTOR_BYTES == 0
    return 0 if source.dtype.itemsize != 2 or elements < _LEAST_ROW or in_vectors else inner


def _pays(source: ArrayLayout, output: ArrayLayout, work: Work, elements: float) -> bool:
    """Of so many elements for each multiprocessor."""
    size, is_widened = source.dtype.itemsize, source.dtype.itemsize < output.dtype.itemsize
    if innermost(source, work.line_axes) != innermost(output, work.line_axes):
        return elements >= _LEAST[size] and (is_widened or are_scattered(source, output))
    if work.turned:
        return _pays_for_turned(source, output, work, elements)
    if work.lines < TURNED_LINES:
        return _pays_for_few(source, output, work, elements)
    shortest = _SHORTEST_OF_BYTES if size == 1 else _SHORTEST
    is_short = shortest <= work.length and work.length * size < TURNED_BYTES
    return innermost(output) == work.axis and is_short and elements >= _LEAST_OF_SHORT[size]


def _pays_for_turned(source: ArrayLayout, output: ArrayLayout, work: Work, elements: float) -> bool:
    size = source.dtype.itemsize
    if size == 1 or output.dtype.itemsize < 4:
        least = _LEAST[size] if output.dtype.itemsize < 4 else _LEAST_OF_SHORT[size]
        return elements >= least and not _are_many_in_vectors(source, output, work, elements)
    are_few = work.output_turned and size == 4 and _LEAST[size] <= elements < _FEW_FLOATS
    are_short = work.length * size <= _MOST_LINE_BYTES and not (work.input_turned and _lie_in_vectors(source))
    return are_few or (are_short and elements >= _LEAST_OF_SHORT[size])


def _are_many_in_vectors(source: ArrayLayout, output: ArrayLayout, work: Work, elements: float) -> bool:
    along_input, along_output = _ENOUGH_IN_VECTORS.get(source.dtype.itemsize, (None, None))
    enough = along_input if work.input_turned else along_output
    are_many = enough is not None and elements >= enough
    return are_many and _lie_in_vectors(source) and (work.input_turned or _lie_in_vectors(output))


def _lie_in_vectors(layout: ArrayLayout) -> bool:
    """Whether all lines along the innermost axis begin with a whole vector."""
    inner = innermost(layout)
    steps = [step for axis, step in enumerate(layout.strides) if axis != inner and layout.shape[axis] > 1]
    return layout.lies_in_steps(VECTOR_BYTES, steps)


def _pays_for_few(source: ArrayLayout, output: ArrayLayout, work: Work, elements: float) -> bool:
    if innermost(source) == work.axis:
        enough = _FEW_ALONG_INPUT
    else:
        enough = _FEW_ALONG_OUTPUT.get(source.dtype.itemsize, ()) if innermost(output) == work.axis else ()
    return any(work.lines >= lines and elements >= least for lines, least in enough)
