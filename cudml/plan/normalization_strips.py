"""The plans of normalizations of large groups that lie side by side: kernels/normalization_strips.cu."""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.groups import Groups
from cudml.plan.layout import power_of_two
from cudml.plan.normalization_ring import GATES_BYTES, Cut, Ring, piece_of, plan_ring, stages_of
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: How wide a step is, if there are so many columns.
_STRIP_BYTES = (256, 128)

#: How the line is manned. More folders or awaiters would ask for so much that the others come late. More normalizers
#: would store so much at a time that the loads which all blocks wait for come late: (64, 256, 128, 128) floats over
#: 0, 2 take an H200 0.602 ms, and 0.620 with 8. Halves are twice the work: 0.310 ms, and 0.333 with 4.
_COPIERS, _ADDERS, _FOLDERS, _AWAITERS = 2, 4, 1, 1
_NORMALIZERS, _NORMALIZERS_OF_HALVES = 4, 8

#: Units that normalizers hold in registers: (65536, 4096) floats take 0.627 ms, 0.621 with 2, 0.618 with 4 and 0.607
#: with 8 in twice as many warps. Others gain little, and 2 take 20 ms longer to compile.
_HELD = 1

#: A unit: the same floats take 0.595 ms with 8192 bytes, halves 0.360 ms. Of larger pieces, which wait for a part of
#: the next one to be stored, all units are small.
_UNIT_BYTES, _UNIT_BYTES_OF_HALVES = 8192, 16384

#: A piece, at least: each column has a sum of its own to publish.
_LEAST_PIECE_BYTES = 65536

#: What pieces of strips may take of a ring at the most: else two steps are faster.
_MOST_OF_RING = 2 / 3

#: Pieces of a strip of which a block knows something at a time: as many as fit its shared memory.
_KNOWN_PIECES = 4


class Strips(NamedTuple):
    """How strips are cut into pieces and units, of so many steps and bytes, and how many units fit a block."""

    cut: Cut
    piece: int
    stages: int
    steps: int
    unit_bytes: int

    @property
    def pieces(self) -> int:
        """Of a strip."""
        return math.ceil(self.cut.units / self.piece)


def plan_strips(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch for groups that lie side by side; None where the GPU cannot hold a strip of them."""
    size, inner = groups.source.dtype.itemsize, groups.kept.sizes[-1]
    columns = next((nbytes // size for nbytes in _STRIP_BYTES if nbytes <= inner * size), 0)
    vector = columns // LANES
    copy_bytes = next((n for n in (16, 8, 4) if n >= size and groups.packed_columns("input", n // size)), 0)
    dense = groups.kept.strides["input"][-1] == size
    if vector == 0 or not dense or not copy_bytes or inner % vector:
        return None
    are_halves = size == 2
    strips = _cut_strips(groups, columns, _UNIT_BYTES_OF_HALVES if are_halves else _UNIT_BYTES, device)
    if strips and are_halves and strips.piece * strips.unit_bytes > _LEAST_PIECE_BYTES:
        strips = _cut_strips(groups, columns, _UNIT_BYTES, device) or strips
    if strips is None or strips.pieces * LANES < columns:
        return None
    ring = Ring(
        columns=columns,
        piece=strips.piece,
        stages=strips.stages,
        held=_HELD,
        loaders=_COPIERS,
        adders=max(_ADDERS, vector),
        folders=_FOLDERS,
        awaiters=_AWAITERS,
        normalizers=_NORMALIZERS_OF_HALVES if are_halves else _NORMALIZERS,
    )
    folded = power_of_two(math.ceil(columns / strips.pieces))  # by each block, so that no column is left
    constants = {
        **groups.constants(spec),
        "VECTOR": vector,
        "STEPS": strips.steps,
        "EVEN_ROWS": groups.reduced.sizes[-1] % strips.steps == 0 or len(groups.reduced.sizes) == 1,
        "TEAMS_APART": 1 < ring.teams(strips.cut, device) <= strips.cut.across,
        "COPY_BYTES": copy_bytes,
        "FOLDED_COLUMNS": folded,
        "FOLDED_PIECES": power_of_two(math.ceil(strips.pieces * folded / LANES)),
        "OUTPUT_PACKED": groups.packed_columns("output", vector),
        "SCALE_ACROSS": groups.differs_across("scale"),
        "BIAS_ACROSS": groups.differs_across("bias"),
    }
    shared_bytes = strips.stages * strips.unit_bytes
    return plan_ring("strips", groups, spec, device, ring, shared_bytes, strips.cut, constants)


def _cut_strips(groups: Groups, columns: int, unit_bytes: int, device: DeviceProperties) -> Strips | None:
    """None where the GPU cannot hold a strip."""
    inner, steps = groups.kept.sizes[-1], unit_bytes // (columns * groups.source.dtype.itemsize)
    normal_bytes = 4 * groups.normal_words
    known_bytes = _KNOWN_PIECES * (GATES_BYTES + columns * normal_bytes)
    stages = stages_of(device, unit_bytes + GATES_BYTES + normal_bytes, known_bytes)
    across = math.ceil(inner / columns)
    cut = Cut(groups.count // inner * across, math.ceil(groups.length / steps), inner, across)
    least = _LEAST_PIECE_BYTES // unit_bytes
    piece = piece_of(cut, least, int(stages * _MOST_OF_RING), least, device)
    return Strips(cut, piece, stages, steps, unit_bytes) if piece else None
