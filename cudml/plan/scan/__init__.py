"""The plans of scans and segmented scans: which of kernels/scan_*.cu."""

from __future__ import annotations

from cudml.plan.device import DeviceProperties
from cudml.plan.gather import plan_on_copy
from cudml.plan.layout import ArrayLayout, innermost, outer_to_inner, step
from cudml.plan.plan import Plan, constants_of
from cudml.plan.scan.lines import fit_a_block, plan_lines
from cudml.plan.scan.linked import are_few_tiles, plan_linked_tiles
from cudml.plan.scan.side_by_side import plan_side_by_side
from cudml.plan.scan.stream import plan_stream
from cudml.plan.scan.work import Constants, Work, cut, scan_constants, segment_constants
from cudml.plan.spec import Scan, SegmentedScan

#: With fewer lines than this side by side, threads that walk down columns would use less than a sector of 32 bytes of
#: what they load, unless these are all there are.
_ENOUGH_LINES = 8

#: Elements of such few lines with gaps, for each multiprocessor, from which on they are copied first: (65536, 8)[:, :5]
#: floats over 0 take an H200 7.9 us so and 8.3 otherwise, (16384, 8)[:, :5] 6.1 and 3.8; (4194304, 8)[:, :5] an H100
#: 137 and 487.
_LEAST_COPIED = 1 << 11

#: And of arrays whose output lies in another order: less was not measured.
_LEAST_OF_ANOTHER_ORDER = 1 << 14


def plan_scan(spec: Scan, arrays: dict[str, ArrayLayout], device: DeviceProperties) -> Plan:
    """The launches of a scan of `input` into `output`."""
    work = cut(spec, arrays["input"], arrays["output"])
    constants = scan_constants(spec, arrays, work)
    if arrays["output"].size == 0:
        return Plan("scan_lines.cu", constants_of(**constants), ())
    if _lie_in_another_order(spec, arrays, work, device) and (
        copied := _plan_on_copy_like_output(spec, arrays, device)
    ):
        return copied
    if _columns_are_better(work, arrays["input"], arrays["output"]):
        return plan_side_by_side(spec, arrays, constants, work, device, lambda: _plan_on_copy(spec, arrays, device))
    copied = _plan_on_copy(spec, arrays, device) if _are_few_columns(work, arrays["input"], device) else None
    return copied or _plan_rows(spec, arrays, constants, work, device)


def plan_segmented_scan(spec: SegmentedScan, arrays: dict[str, ArrayLayout], device: DeviceProperties) -> Plan:
    """The launches of a segmented scan of `input` into `output`, the segments given by `offsets`."""
    work = cut(spec, arrays["input"], arrays["output"], arrays["offsets"])
    constants = scan_constants(spec, arrays, work)
    if arrays["output"].size == 0:
        return Plan("scan_lines.cu", constants_of(**constants), ())
    return _plan_rows(spec, arrays, constants, work, device)


def _columns_are_better(work: Work, source: ArrayLayout, output: ArrayLayout) -> bool:
    """Whether each thread should walk down a line of its own, because the lines lie side by side."""
    if work.axis is None or work.lines < 2:
        return False
    if work.turned or (work.length == 1 and work.lines >= _ENOUGH_LINES):
        return True
    neighbours = work.input_line.sizes[-1] * source.dtype.itemsize
    if work.lines < _ENOUGH_LINES and step(work.axis, source) != neighbours:
        return False
    return step(work.line_axes[-1], source, output) < step(work.axis, source, output)


def _are_few_columns(work: Work, source: ArrayLayout, device: DeviceProperties) -> bool:
    """Whether some lines lie side by side, fewer than fill a sector, and are long."""
    if work.axis is None or not 1 < work.lines < _ENOUGH_LINES or source.size < _LEAST_COPIED * device.multiprocessors:
        return False
    return 0 < step(work.line_axes[-1], source) < step(work.axis, source)


def _lie_in_another_order(spec: Scan, arrays: dict[str, ArrayLayout], work: Work, device: DeviceProperties) -> bool:
    """Whether neither neighbours in memory nor neighbouring lines are neighbours in the output. On an H200 copies in
    the order of the output take 0.51 times as long as what else there is, of 25 random arrays, and 1.2 times if lines
    are neighbours in both, which threads walk down side by side; but 0.5 times where tiles of less than 4 bytes an
    element are turned, as (898523, 48) float16 summed over 0 into rows, 250 us and 114."""
    source, output = arrays["input"], arrays["output"]
    if work.axis is None or spec.axis is None or source.size < _LEAST_OF_ANOTHER_ORDER * device.multiprocessors:
        return False
    lines = [axis for axis in range(len(source.shape)) if axis != spec.axis]
    if innermost(source) == innermost(output):
        return False
    return innermost(source, lines) != innermost(output, lines) or (work.turned and output.dtype.itemsize < 4)


def _plan_on_copy_like_output(spec: Scan, arrays: dict[str, ArrayLayout], device: DeviceProperties) -> Plan | None:
    source, output = arrays["input"], arrays["output"]
    order = outer_to_inner(range(len(output.shape)), output)
    return plan_on_copy(
        source, order, output, device, lambda copy: plan_scan(spec, {**arrays, "input": copy}, device), True
    )


def _plan_on_copy(spec: Scan, arrays: dict[str, ArrayLayout], device: DeviceProperties) -> Plan | None:
    """The same of a dense copy of the input, whose axes lie in the same order; None if it is dense already, or nothing
    copies it."""
    source = arrays["input"]
    order = outer_to_inner(range(len(source.shape)), source)
    output = arrays["output"]
    return plan_on_copy(source, order, output, device, lambda copy: plan_scan(spec, {**arrays, "input": copy}, device))


def _plan_rows(
    spec: Scan | SegmentedScan,
    arrays: dict[str, ArrayLayout],
    constants: Constants,
    work: Work,
    device: DeviceProperties,
) -> Plan:
    constants = {**constants, **segment_constants(arrays.get("offsets"), work)}
    if work.tiles == 1:
        return plan_lines(spec, arrays, constants, work, device)
    if are_few_tiles(work, device):
        return plan_linked_tiles(spec, constants, work, device)
    if isinstance(spec, Scan) and fit_a_block(spec, constants, work):
        return plan_lines(spec, arrays, constants, work, device)
    return plan_stream(spec, arrays, constants, work, device)
