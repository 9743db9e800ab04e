"""How normalizations of large groups that lie side by side are cut into strips, and these into pieces and units:
kernels/normalization_strips.cuh.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import SECTOR_BYTES, VECTOR_BYTES, ArrayLayout
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.ring import (
    GATES_BYTES,
    LEAST_BUSY,
    LEAST_BUSY_OF_DEALT,
    Cut,
    busy_part_of,
    piece_of,
    stages_of,
)
from cudml.plan.normalization.steps import SUMS_BYTES

#: How wide a step is, if there are so many columns: wide, as long as no block has two pieces of such a strip, as these
#: wait for each other; narrow otherwise. (131072, 1024) floats take an H100 423 us in narrow strips, and 549 in two
#: steps, as no ring holds wide ones; (40000, 1024) halves 71 in narrow strips, and 75 in wide ones of two pieces a
#: block. But where a block has one piece of either, (65536, 4096) floats take 797 us in wide strips and 895 in narrow
#: ones. And of floats in rows that begin anywhere, if strips share sectors of the output: (6405, 4023) take an H100 104
#: us in strips of 512 bytes, and 119 in strips of 256. Those of a row may be so many times as wide in all, as the last
#: one has few columns.
STRIP_BYTES, WIDE_STRIP_BYTES, _MOST_WIDENED = (256, 128), 512, 1.25

#: Bytes of a line of the caches: narrow strips of rows that begin amid them load and store these twice. (111848, 600)
#: float16s take 173 us so and 120 in two steps, (134217, 1000) 421 and 236, floats 591 and 404, but (131072, 1024)
#: float16s 191 and 213, floats 344 and 388. So do wide strips, which gain more: only where a piece is a ring, and rows
#: begin amid sectors, two steps are faster, for (22369, 3000) float16s 121 us and 142, (53687, 2500) floats
#: 438 and 520.
_LINE_BYTES = 128

#: A unit: (64, 256, 128, 128) halves over 0, 2 take 0.300 ms with 16384 bytes, and 0.315 with 8192. Of floats (12544,
#: 1024) over 0 take 33.8 us and 36.4, (20000, 2048) 93.5 and 96.3, (4096, 65536) 558 and 560, with rows padded by 1 606
#: and 609; where a strip has one scale and there are so many (64, 256, 128, 128) over 0, 2 565 and 560, but (256, 64,
#: 56, 64) 133 and 145. Doubles take as long with either. Of larger pieces, which wait for a part of the next one to be
#: stored, all units are small. Where an array is turned they are large, for longer runs along its columns: (4096,
#: 65536) floats, transposed, then take 0.565 ms, and 0.582 otherwise.
_UNIT_BYTES, LARGE_UNIT_BYTES, _MANY_STRIPS = 8192, 16384, 512

#: Steps of a unit at the most, and bytes of a copy that nobody waits for at the least.
_MOST_STEPS, _LEAST_COPY = 128, 4

#: A piece, at least: each column has a sum of its own to publish. The same floats take 0.615 ms with half of that.
_LEAST_PIECE_BYTES = 65536

#: Strips, at the most, that are dealt to all blocks: there is room for the sums of all of them then.
_DEALT = 32

#: What pieces of strips may take of a ring at the most: else two steps are faster, but for halves that fill so much of
#: all rings together. (200704, 256) take an H100 107.8 us so, and 115.3 in two steps, (140000, 256) 87.5 and 84.4; as
#: many floats 210 and 214, and 163 and 154.
_MOST_OF_RING, _LEAST_OF_RINGS = 2 / 3, 0.7

#: The part of all blocks that is busy at least if each has one piece of a strip, where such pieces are preferred to two
#: small ones: of floats, and of halves in wide strips and in narrow ones. (75000, 512) floats, with 0.56,
#: take an H100 129.4 us so and 137.7 with two, (110000, 512), with 0.81, 184 and 206; halves 78.5 and 75.6, and 102 and
#: 112. In wide strips, with 0.89, (60000, 1024) halves take 108.5 us, and 103.0 in narrow ones.
_LEAST_BUSY_OF_FLOATS, _LEAST_BUSY_OF_HALVES = 0.5, (0.9, 0.8)

#: Warps that add up a unit, at least.
ADDERS = 4

#: Pieces of a strip of which a block knows something at a time: as many as fit its shared memory.
_KNOWN_PIECES = 4


class Access(NamedTuple):
    """How the columns of the input are copied, and whether an array is dense along them in place of across."""

    copy_bytes: int
    shifted: bool = False
    """Rows begin anywhere."""
    input_turned: bool = False
    output_turned: bool = False

    @classmethod
    def of(cls, groups: Groups) -> Access | None:
        """None where copies that nobody waits for cannot move the input."""
        source = groups.source
        size, whole = source.dtype.itemsize, groups.packed_columns("input", VECTOR_BYTES // source.dtype.itemsize)
        if _dense(groups, "input", "reduced") and _dense(groups, "output", "kept"):
            return cls(VECTOR_BYTES, input_turned=True) if groups.packed("input") else None
        if _dense(groups, "output", "reduced") and not _dense(groups, "output", "kept"):
            same = size == groups.widest and groups.packed("output")
            return cls(VECTOR_BYTES, output_turned=True) if whole and same else None
        if not source.element_aligned:
            return None
        if _dense(groups, "input", "kept") and (whole or even_rows(groups, _MOST_STEPS)):
            return cls(VECTOR_BYTES, shifted=not whole)
        return cls(size) if size >= _LEAST_COPY else None

    @property
    def is_turned(self) -> bool:
        return self.input_turned or self.output_turned

    @property
    def is_plain(self) -> bool:
        """Whole rows that begin with a vector."""
        return self == Access(VECTOR_BYTES)


def _dense(groups: Groups, name: str, axes: str) -> bool:
    """Whether neighbours along the innermost axis of those kept or reduced lie side by side."""
    layout, joint = groups.arrays[name], groups.kept if axes == "kept" else groups.reduced
    assert isinstance(layout, ArrayLayout)
    return joint.strides[name][-1] == layout.dtype.itemsize


def row_shift(groups: Groups, access: Access) -> int:
    """By how much more than the one before a row begins behind a multiple of a vector."""
    return groups.reduced.strides["input"][-1] % VECTOR_BYTES if access.shifted else 0


def even_rows(groups: Groups, steps: int) -> bool:
    """Whether the steps of every unit lie at one stride."""
    return len(groups.reduced.sizes) == 1 or groups.reduced.sizes[-1] % steps == 0


class Strips(NamedTuple):
    """How strips are cut into pieces and units, of so many steps and bytes, and how many units fit a block."""

    cut: Cut
    piece: int
    stages: int
    columns: int
    steps: int
    unit_bytes: int
    stage_bytes: int

    @property
    def pieces(self) -> int:
        """Of a strip."""
        return math.ceil(self.cut.units / self.piece)


def strips_of(groups: Groups, access: Access, device: DeviceProperties) -> Strips | None:
    """None where the GPU cannot hold a strip, or rows begin so that two steps are faster."""
    size, inner = groups.source.dtype.itemsize, groups.kept.sizes[-1]
    widths = [nbytes // size for nbytes in STRIP_BYTES if LANES * size <= nbytes <= inner * size]
    if not widths:
        return None
    if access.is_turned:
        return _cut_strips(groups, access, widths[0], LARGE_UNIT_BYTES, device)
    wide, *narrow = (_strips_so_wide(groups, access, columns, device) for columns in widths)
    if wide and wide.pieces <= device.multiprocessors:
        is_whole_ring = 2 * wide.piece > wide.stages
        return None if is_whole_ring and not _rows_begin_at_multiples(groups, SECTOR_BYTES) else wide
    if not (narrow and access.is_plain):
        return wide
    if not _rows_begin_at_multiples(groups, _LINE_BYTES):
        return None
    held = narrow[0]
    return held if held and (size == 2 or _are_done_at_once(held, device)) else wide


def _rows_begin_at_multiples(groups: Groups, nbytes: int) -> bool:
    """Whether those of the input and of the output do."""
    return all(groups.rows_begin_at_multiples(name, nbytes) for name in ("input", "output"))


def _are_done_at_once(strips: Strips, device: DeviceProperties) -> bool:
    """Whether no block has two pieces of a strip, nor is idle for long: else floats are faster in two steps."""
    enough = busy_part_of(strips.cut, strips.piece, device) >= LEAST_BUSY_OF_DEALT
    return strips.pieces <= device.multiprocessors and enough


def _strips_so_wide(groups: Groups, access: Access, columns: int, device: DeviceProperties) -> Strips | None:
    """Strips of so many columns, or of more where that is better."""
    wide = _wide_strips(groups, access, columns, device)
    if wide:
        return wide
    small = _cut_strips(groups, access, columns, _UNIT_BYTES, device)
    if small and _are_small_units_faster(groups, access, small):
        return small
    strips = _cut_strips(groups, access, columns, LARGE_UNIT_BYTES, device)
    if strips and strips.piece * strips.unit_bytes > _LEAST_PIECE_BYTES:
        return small or strips
    return strips or small


def _are_small_units_faster(groups: Groups, access: Access, small: Strips) -> bool:
    """Of floats and doubles: where adders take turns with pieces, strips are many and have one scale each, or rows of
    larger units would not lie at one stride."""
    if groups.source.dtype.itemsize == 2:
        return False
    are_simple = share_operands(groups) and small.cut.bundles >= _MANY_STRIPS
    larger = small.steps * LARGE_UNIT_BYTES // _UNIT_BYTES
    stay_even = even_rows(groups, larger) or not even_rows(groups, small.steps)
    return adders_take_turns(groups, access) or are_simple or not stay_even


def adders_take_turns(groups: Groups, access: Access) -> bool:
    """Whether sets of adders had better take turns with pieces than share every unit."""
    return access.copy_bytes < VECTOR_BYTES or groups.operands.are_own


def share_operands(groups: Groups) -> bool:
    """Whether the columns of a row have the same scale and bias."""
    return not (groups.operands.differ_across("scale") or groups.operands.differ_across("bias"))


def _wide_strips(groups: Groups, access: Access, columns: int, device: DeviceProperties) -> Strips | None:
    """None where strips of so many columns are better: of rows that are hardly wider, where two pieces would be more
    than a ring, and where blocks would have two of a strip; (20000, 2047) floats take an H100 173 us so, and 183."""
    size, inner = groups.source.dtype.itemsize, groups.kept.sizes[-1]
    more = WIDE_STRIP_BYTES // size
    shared = access.shifted and not groups.rows_begin_at_multiples("output")
    if not shared or size != 4 or _widened(inner, more) > _MOST_WIDENED * _widened(inner, columns):
        return None
    wide = _cut_strips(groups, access, more, _UNIT_BYTES, device)
    return wide if wide and 2 * wide.piece <= wide.stages and wide.pieces <= device.multiprocessors else None


def _widened(inner: int, columns: int) -> int:
    """The columns of whole strips."""
    return math.ceil(inner / columns) * columns


def _cut_strips(
    groups: Groups, access: Access, columns: int, unit_bytes: int, device: DeviceProperties
) -> Strips | None:
    inner, steps = groups.kept.sizes[-1], unit_bytes // (columns * groups.source.dtype.itemsize)
    if (access.shifted or access.input_turned) and not even_rows(groups, steps):
        return None
    stage_bytes = _stage_bytes(groups, access, columns, steps)
    normal_bytes = 4 * groups.normal_words
    known_bytes = _KNOWN_PIECES * (GATES_BYTES + columns * normal_bytes)
    stages = stages_of(device, stage_bytes + GATES_BYTES + normal_bytes, known_bytes + _shares_bytes(columns))
    across = math.ceil(inner / columns)
    cut = Cut(groups.count // inner * across, math.ceil(groups.length / steps), inner, across, _DEALT)
    least = _LEAST_PIECE_BYTES // unit_bytes
    most = stages if _fill_rings(groups, cut, stages, device) else int(stages * _MOST_OF_RING)
    least_busy = _least_busy(groups, columns) if access.is_plain else LEAST_BUSY
    piece = piece_of(cut, least, most, least, device, least_busy=least_busy)
    return Strips(cut, piece, stages, columns, steps, unit_bytes, stage_bytes) if piece else None


def _fill_rings(groups: Groups, cut: Cut, stages: int, device: DeviceProperties) -> bool:
    """Whether a strip is so large that it had better fill whole rings than be read twice."""
    return groups.source.dtype.itemsize == 2 and cut.units >= _LEAST_OF_RINGS * stages * device.multiprocessors


def _least_busy(groups: Groups, columns: int) -> float:
    size = groups.source.dtype.itemsize
    wide, narrow = _LEAST_BUSY_OF_HALVES if size == 2 else (_LEAST_BUSY_OF_FLOATS,) * 2
    return narrow if columns * size < STRIP_BYTES[0] else wide


def _shares_bytes(columns: int) -> int:
    """kernels/normalization_strips.cu: Shares. Twice a sum for each lane of the adders that are in no first team."""
    return 2 * SUMS_BYTES * max(ADDERS * LANES - columns, 0)


def _stage_bytes(groups: Groups, access: Access, columns: int, steps: int) -> int:
    """kernels/normalization_strips.cuh: STAGE_BYTES."""
    size, vector = groups.source.dtype.itemsize, columns // LANES
    if access.input_turned:
        return vector * (LANES * (steps * size + VECTOR_BYTES) + 128 // vector)
    if access.shifted:
        pitch = columns * size + VECTOR_BYTES + row_shift(groups, access)
        return (steps * pitch + 2 * VECTOR_BYTES - 1) // VECTOR_BYTES * VECTOR_BYTES
    return steps * columns * size
