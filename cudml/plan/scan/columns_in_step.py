"""The plan of scans whose blocks go down columns of one tile in step: kernels/scan_columns_in_step.cu."""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES
from cudml.plan.layout import SECTOR_BYTES, VECTOR_BYTES, power_of_two_within
from cudml.plan.plan import Launch, Plan, Pointer, Scratch, Struct, constants_of
from cudml.plan.scan.column_case import ColumnCase
from cudml.plan.scan.work import Constants, Work

#: Blocks go down such columns in step (kernels/scan_columns_in_step.cu) where elements are as wide as what is summed
#: and strips have so many bytes of a row at least, by the bytes of an element: on an H200 (256, 1048576) float32 takes
#: 0.527 ms that way and 0.545 by threads that each go down as fast as they can, (1024, 262144) 0.506 and 0.532, (128,
#: 1048576) int64 0.527 and 0.543; (2692, 37338) float64 425 us and 520, (1781, 46894) int64 341 and 425, (3595, 30776)
#: 476 and 497. Registers have room for two packs a thread where columns have no more rows of the tree than this.
_LEAST_STRIP_BYTES, _MOST_STEP_SCANNERS, _ROWS_OF_TWO_PACKS = {4: 6144, 8: 1536, 16: 6144}, 16, 2

#: Slices, their stages, and what of a strip is on its way at a time: (256, 1048576) float32 takes 0.528 ms with three
#: slices, 0.539 with four, and 0.602 with two.
_SLICE_BYTES, _SLICE_STAGES, _LAG_BYTES = 32768, 5, 98304

#: Gates of a stage of blocks that go down in step, and the word with the next ticket (kernels/tickets.cuh).
_SLICE_GATE_BYTES, _CONTROL_BYTES = 24, 8


class StripsInStep(NamedTuple):
    """How blocks that go down columns in step cut them."""

    nbytes: int
    """Of a step."""
    passes: int

    @property
    def packs(self) -> int:
        """Of a thread in each step."""
        return math.ceil(self.nbytes / (_MOST_STEP_SCANNERS * LANES * VECTOR_BYTES))

    @property
    def scanners(self) -> int:
        return math.ceil(self.nbytes / (self.packs * LANES * VECTOR_BYTES))

    @property
    def steps(self) -> int:
        """Of a slice."""
        return power_of_two_within(_SLICE_BYTES // self.nbytes)

    @property
    def shared_bytes(self) -> int:
        """Stages, as wide as what all scanners have, and their gates."""
        return _SLICE_STAGES * (self.steps * self.packs * self.scanners * LANES * VECTOR_BYTES + _SLICE_GATE_BYTES)


def strips_in_step(case: ColumnCase) -> StripsInStep | None:
    """Those of columns that blocks go down in step; None where each thread goes down as fast as it can."""
    work, device, size = case.work, case.device, case.source.dtype.itemsize
    if not device.bulk_copies or case.inner != work.lines:
        return None
    vector = VECTOR_BYTES // size
    is_kept = case.source.dtype == case.output.dtype == case.value and case.accumulator == size >= 4
    whole = case.inner % vector == 0
    if not (is_kept and whole and case.packs(case.source, vector) and case.packs(case.output, vector)):
        return None
    widest = (2 if _tree_rows(work) <= _ROWS_OF_TWO_PACKS else 1) * _MOST_STEP_SCANNERS * LANES * VECTOR_BYTES
    sectors = math.ceil(work.lines * size / SECTOR_BYTES)
    passes = math.ceil(sectors * SECTOR_BYTES / (device.multiprocessors * widest))
    strips = StripsInStep(math.ceil(sectors / (device.multiprocessors * passes)) * SECTOR_BYTES, passes)
    fits = strips.shared_bytes <= device.shared_bytes_per_block
    return strips if strips.nbytes >= _LEAST_STRIP_BYTES[size] and fits else None


def _tree_rows(work: Work) -> int:
    """Of a column: kernels/tree.cuh."""
    return math.ceil(work.length / (LANES * work.chunk))


def plan_columns_in_step(case: ColumnCase, constants: Constants, strips: StripsInStep) -> Plan:
    """A block for each multiprocessor, whose strips lie side by side."""
    work, size, blocks = case.work, case.source.dtype.itemsize, case.device.multiprocessors
    shares = {
        "SPAN": 1,
        "VECTOR": VECTOR_BYTES // size,
        "INPUT_PACKED": True,
        "OUTPUT_PACKED": True,
        "SCANNERS": strips.scanners,
        "PACKS": strips.packs,
        "STEPS": strips.steps,
        "STAGES": _SLICE_STAGES,
        "LAG": round(_LAG_BYTES / (strips.steps * strips.nbytes)),
        "ROW_BITS": max(1, (_tree_rows(work) - 1).bit_length()),
    }
    cut = Struct((strips.nbytes // size, strips.passes, math.ceil(work.length / strips.steps)), work.index)
    arguments = (Pointer("input"), Pointer("output"), Scratch(), work.geometry, cut)
    threads, shared = (strips.scanners + 2) * LANES, strips.shared_bytes
    launch = Launch("scan_columns_in_step", blocks, threads, arguments, shared_bytes=shared, early=True)
    constants = {**constants, **shares}
    return Plan("scan_columns_in_step.cu", constants_of(**constants), (launch,), scratch_bytes=_CONTROL_BYTES)
