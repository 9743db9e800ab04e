"""Scans of lines that lie side by side: what the plans of kernels/scan_*columns.cu depend on."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.dtypes import accumulator_bytes
from cudml.plan.layout import NO_DIMS, VECTOR_BYTES, ArrayLayout, Dims
from cudml.plan.scan.work import Work
from cudml.plan.spec import Scan

_REGISTER_BYTES = 4

#: Registers for the values of a thread, in bytes; the assembly line has fewer for some (columns.py).
VALUE_BYTES = 128

#: A strip is all there is beside the axis, and units are contiguous, up to so many columns; and up to so many where
#: rows do not begin at multiples of 16 bytes, of which narrower strips would copy the edges: (2000, 2048, 79) float16
#: take an H200 0.41 ms so, and 1.15 in strips of 64, (1000, 2048, 79) float32 0.36 and 0.61.
DENSE_COLUMNS, _DENSE_COLUMNS_OF_SHIFTED = 64, 128

#: What is summed of a row, in bytes, at the most.
MOST_COLUMN_BYTES = 512


class ColumnCase(NamedTuple):
    """What the choices of a plan depend on."""

    work: Work
    device: DeviceProperties
    reverse: bool
    inner: int
    """Columns that are neighbours, in both arrays where these are dense."""
    source: ArrayLayout
    output: ArrayLayout
    value: np.dtype
    dense_input: bool
    dense_output: bool

    @classmethod
    def of(
        cls, spec: Scan, source: ArrayLayout, output: ArrayLayout, work: Work, device: DeviceProperties
    ) -> ColumnCase:
        dense_input, dense_output = _dense(source, work.input_line), _dense(output, work.output_line)
        runs = {work.input_line.sizes[-1]} if dense_input else set()
        runs |= {work.output_line.sizes[-1]} if dense_output else set()
        if not runs:
            inner = work.lines
        elif len(runs) == 1:
            inner = runs.pop()
        else:
            inner = source.shape[work.line_axes[-1]]
        return cls(work, device, spec.reverse, inner, source, output, spec.dtype, dense_input, dense_output)

    @property
    def accumulator(self) -> int:
        return accumulator_bytes(self.value)

    @property
    def register_bytes(self) -> int:
        """What a value takes of a thread's registers, of which none is shared."""
        return max(_REGISTER_BYTES, self.accumulator)

    @property
    def outer(self) -> int:
        return self.work.lines // self.inner

    @property
    def is_contiguous(self) -> bool:
        """Whether the steps of an inner run follow each other in the input."""
        return self.work.input_axis.strides[0] == self.inner * self.source.dtype.itemsize

    @property
    def fits_densely(self) -> bool:
        """Whether a strip can be all there is beside the axis."""
        in_pieces = self.inner * self.source.dtype.itemsize % VECTOR_BYTES == 0
        most = DENSE_COLUMNS if in_pieces else _DENSE_COLUMNS_OF_SHIFTED
        widest = min(most, MOST_COLUMN_BYTES // self.accumulator)
        fits = 2 <= self.inner <= widest and self.dense_input and self.is_contiguous and not self.work.turned
        return fits and self.dense_bytes(self.source) >= max(4, self.source.dtype.itemsize)

    def dense_bytes(self, layout: ArrayLayout, start: int = 0) -> int:
        """What divides the places of all rows of a contiguous unit, from `start` bytes of a line on, and their sizes
        except the very last one's."""
        others = [layout.strides[i] for i in self._axes_beside_run if i != self.work.axis and layout.shape[i] > 1]
        whole = self.outer > 1 or self.reverse or layout.alignment % VECTOR_BYTES > 0
        line = self.work.length * self.inner * layout.dtype.itemsize if whole else 0
        return math.gcd(layout.alignment, line, start, VECTOR_BYTES, *others)

    @property
    def is_shifted(self) -> bool:
        """Whether the rows of a strip begin or end at any element, and are copied by what lies aligned of them."""
        size, work = self.source.dtype.itemsize, self.work
        copied = size <= 8 and self.device.hardware_gates
        if not copied or work.turned or self.fits_densely or self.inner < LANES:
            return False
        aligned = self.moves(self.source, VECTOR_BYTES) and self.inner * size % VECTOR_BYTES == 0
        return self.dense_input and self.source.element_aligned and not aligned

    def span(self, vector: int = 1, nbytes: int = VALUE_BYTES) -> int:
        """Chunks of the span of a thread that has so many columns and bytes of values."""
        return max(1, min(LANES, nbytes // (self.work.chunk * self.register_bytes * vector)))

    def moves(self, layout: ArrayLayout, nbytes: int) -> bool:
        """Whether neighbours can be moved so many bytes at a time, from any multiple of them on."""
        dense = self.dense_input if layout is self.source else self.dense_output
        return dense and layout.divides(nbytes, self._axes_beside_run)

    @property
    def _axes_beside_run(self) -> list[int]:
        """All but those whose elements, one after the other, are an inner run."""
        run, count = {self.work.line_axes[-1]}, self.source.shape[self.work.line_axes[-1]]
        for axis in reversed(self.work.line_axes[:-1]):
            if count == self.inner:
                break
            run.add(axis)
            count *= self.source.shape[axis]
        return [axis for axis in range(len(self.source.shape)) if axis not in run]

    def packs(self, layout: ArrayLayout, vector: int) -> bool:
        return self.moves(layout, min(VECTOR_BYTES, vector * layout.dtype.itemsize))

    @property
    def is_one_row(self) -> bool:
        """Whether each line is one element, and all of them are one run."""
        return self.work.length == self.outer == 1

    def vector(self, widest: int) -> int:
        """Columns of a thread that both arrays move at once: a power of two. The last thread of a single row may have
        less."""
        vector = widest
        packed = [self.output] if self.work.input_turned or self.is_shifted else [self.source, self.output]
        columns = 0 if self.is_one_row else self.inner
        while vector > 1 and not (columns % vector == 0 and all(self.packs(layout, vector) for layout in packed)):
            vector //= 2
        return vector


def _dense(layout: ArrayLayout, line: Dims) -> bool:
    return line is not NO_DIMS and line.strides[-1] == layout.dtype.itemsize
