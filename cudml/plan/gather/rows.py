"""The plans of copies of rows with gaps between them: kernels/gather_rows.cu."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cudml.plan.device import LANES
from cudml.plan.dtypes import c_name
from cudml.plan.layout import SECTOR_BYTES, ArrayLayout, Dims, collapse_together, index_type, power_of_two_within
from cudml.plan.loads import eviction_of
from cudml.plan.panels import are_padded, staged_bytes
from cudml.plan.plan import Argument, Launch, Plan, Pointer, Struct, constants_of

#: By their bytes, as what elements are copied.
ELEMENTS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}

#: Bytes of the run of a tile, and from one row to the next at the most, else elements are rows.
_TILE_BYTES, _MOST_PITCH_BYTES = 16384, 8192

#: The part of a run that gaps with sectors between dense rows are at the most, as otherwise each row has a block of its
#: own: (64, 512, 512, 3)[:, 128:384, 32:160] float16 normalized over 1, 2 take an H200 29.9 us so and 61 as rows by
#: themselves, [:, 16:496, 16:496] 148 and 168.
_MOST_OF_GAPS = 0.75

#: Bytes of the rows of an outer index, at the least, if there are several: each has blocks of its own. Less was not
#: measured.
_LEAST_RUN_BYTES = 1024

_THREADS = 256

#: Bytes that a thread stores at a time, at the least, if the copy allows.
_WORD_BYTES = 4

#: Lanes that meet in a bank of shared memory from which on the run is padded.
_MEETING = 4


class Rows(NamedTuple):
    """An array as rows; pitch and step in elements, of either sign."""

    outer: Dims
    """Axes outside of the rows, in the array."""
    rows: int
    """Of each outer index."""
    pitch: int
    inner: int
    """Elements of a row."""
    step: int

    @classmethod
    def of(cls, source: ArrayLayout, copy: ArrayLayout, order: Sequence[int]) -> Rows | None:
        """None where there are no gaps."""
        size = source.dtype.itemsize
        sizes, (strides, _) = collapse_together([source, copy], order)
        *_, pitch, step = (0, *(stride // size for stride in strides))
        if 0 in strides or strides == (size,) or _is_wide(abs(step) - 1, size):
            return None
        span = (sizes[-1] - 1) * abs(step) + 1
        fits = span <= abs(pitch) <= _MOST_PITCH_BYTES // size
        gap = abs(pitch) - span
        if fits and (not _is_wide(gap, size) or (abs(step) == 1 and gap <= _MOST_OF_GAPS * abs(pitch))):
            return cls(_outer(sizes[:-2], strides[:-2]), sizes[-2], pitch, sizes[-1], step)
        return cls(_outer(sizes[:-1], strides[:-1]), sizes[-1], step, 1, 1)

    @property
    def span(self) -> int:
        """From the first element of a row to the last."""
        return (self.inner - 1) * abs(self.step) + 1

    def places(self, lanes: int, of_word: int) -> list[int]:
        """Where the first elements lie that so many lanes pick out at a time, from the first one on."""
        numbers = (divmod(lane * of_word, self.inner) for lane in range(lanes))
        return [row * abs(self.pitch) + number * abs(self.step) for row, number in numbers]


def _is_wide(gap: int, size: int) -> bool:
    """Whether there may be whole sectors in a gap of so many elements."""
    return gap * size >= SECTOR_BYTES


def _outer(sizes: Sequence[int], strides: Sequence[int]) -> Dims:
    return Dims(tuple(sizes) or (1,), tuple(strides) or (0,))


def plan_rows(source: ArrayLayout, copy: ArrayLayout, order: Sequence[int], to: Argument) -> Plan | None:
    """None where there are no gaps, or a few rows lie by themselves."""
    rows, size = Rows.of(source, copy, order), source.dtype.itemsize
    if rows is None:
        return None
    outer = math.prod(rows.outer.sizes)
    if outer > 1 and rows.rows * abs(rows.pitch) * size < _LEAST_RUN_BYTES:
        return None
    of_tile = power_of_two_within(max(1, _TILE_BYTES // (abs(rows.pitch) * size)))
    tiles = math.ceil(rows.rows / of_tile)
    index = index_type((source.size,), (Dims(layout.shape, layout.strides) for layout in (source, copy)))
    begins = [of_tile * rows.inner * size, rows.rows * rows.inner * size if outer > 1 else 0]
    constants = constants_of(
        ELEMENT=c_name(ELEMENTS[size]),
        INNER=rows.inner,
        PITCH=rows.pitch,
        ROW_STEP=rows.step,
        ROWS=of_tile,
        WHOLE_WORDS=all(nbytes % _WORD_BYTES == 0 for nbytes in begins),
        EVICTION=eviction_of(source),
        OUTER_RANK=rows.outer.rank,
        INDEX=c_name(index),
        THREADS=_THREADS,
        PADDED=are_padded(rows.places(LANES, max(1, _WORD_BYTES // size)), [size], _MEETING),
    )
    geometry = Struct((rows.rows, tiles, *rows.outer.numbers), index)
    nbytes = staged_bytes((of_tile - 1) * abs(rows.pitch) + rows.span, size)
    launch = Launch("gather_rows", outer * tiles, _THREADS, (Pointer("input"), to, geometry), nbytes, early=True)
    return Plan("gather_rows.cu", constants, (launch,))
