"""The plans of scans and segmented scans: which of kernels/scan_*.cu."""

from __future__ import annotations

from functools import partial

from cudml.plan.device import DeviceProperties
from cudml.plan.layout import ArrayLayout, step
from cudml.plan.plan import Plan, constants_of
from cudml.plan.scan.copied import plan_few_columns_on_copy, plan_on_dense_copy
from cudml.plan.scan.lines import fit_a_block, plan_lines
from cudml.plan.scan.linked import are_few_tiles, plan_linked_tiles
from cudml.plan.scan.output_order import plan_in_order_of_output
from cudml.plan.scan.side_by_side import plan_side_by_side
from cudml.plan.scan.stream import plan_stream
from cudml.plan.scan.work import ENOUGH_LINES, Constants, Work, cut, scan_constants, segment_constants
from cudml.plan.spec import Scan, SegmentedScan


def plan_scan(spec: Scan, arrays: dict[str, ArrayLayout], device: DeviceProperties) -> Plan:
    """The launches of a scan of `input` into `output`."""
    source, output = arrays["input"], arrays["output"]
    work = cut(spec, source, output)
    constants = scan_constants(spec, arrays, work)
    if output.size == 0:
        return Plan("scan_lines.cu", constants_of(**constants), ())

    def plan_dense(copy: ArrayLayout) -> Plan:
        return plan_scan(spec, {**arrays, "input": copy}, device)

    copied = plan_in_order_of_output(spec, source, output, work, device, plan_dense)
    if copied is not None:
        return copied
    if _columns_are_better(work, source, output):
        copy = partial(plan_on_dense_copy, source, output, device, plan_dense)
        return plan_side_by_side(spec, arrays, constants, work, device, copy)
    copied = plan_few_columns_on_copy(source, output, work, device, plan_dense)
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
    if work.turned or (work.length == 1 and work.lines >= ENOUGH_LINES):
        return True
    neighbours = work.input_line.sizes[-1] * source.dtype.itemsize
    if work.lines < ENOUGH_LINES and step(work.axis, source) != neighbours:
        return False
    return step(work.line_axes[-1], source, output) < step(work.axis, source, output)


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
