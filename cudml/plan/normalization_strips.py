"""The plans of normalizations of large groups that lie side by side: kernels/normalization_strips.cu."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.groups import Groups
from cudml.plan.normalization_ring import GATES_BYTES, UNIT_BYTES, Cut, Ring, piece_of, plan_ring, stages_of
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: How wide a step is, if there are so many columns.
_STRIP_BYTES = (256, 128)

#: How the line is manned: with 16 warps, which leaves their threads registers for what normalizers hold. With 18 it
#: took up to 10 % longer on an H200. More folders or awaiters would ask for so much that the others come late.
_COPIERS, _ADDERS, _FOLDERS, _AWAITERS, _NORMALIZERS = 2, 4, 1, 1, 8

#: What normalizers hold in registers: half of theirs.
_HELD_BYTES = 65536

#: A piece, at least: each column has a sum of its own to publish. If it is larger, and so has to wait for a part of the
#: next one to be stored, units are smaller: 65536 x 4096 floats took 0.73 ms instead of 0.75.
_LEAST_PIECE_BYTES, _SMALLER_UNIT_BYTES = 65536, 8192

#: What pieces of strips may take of a ring at the most: else two steps are faster.
_MOST_OF_RING = 2 / 3

#: Pieces of a strip of which a block knows something at a time: as many as fit its shared memory, and another.
_KNOWN_PIECES = 4


@dataclass(frozen=True, slots=True)
class Strips:
    """How strips are cut into pieces and units, of so many steps and bytes, and how many units fit a block."""

    cut: Cut
    piece: int
    stages: int
    steps: int
    unit_bytes: int


def plan_strips(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch for groups that lie side by side; None where the GPU cannot hold a strip of them."""
    size, inner = groups.source.dtype.itemsize, groups.kept.sizes[-1]
    columns = next((nbytes // size for nbytes in _STRIP_BYTES if nbytes <= inner * size), 0)
    vector = columns // LANES
    copy_bytes = next((n for n in (16, 8, 4) if n >= size and groups.packed_columns("input", n // size)), 0)
    dense = groups.kept.strides["input"][-1] == size
    if vector == 0 or not dense or not copy_bytes or inner % vector:
        return None
    strips = _cut_strips(groups, columns, UNIT_BYTES, device)
    if strips and strips.piece * UNIT_BYTES > _LEAST_PIECE_BYTES:
        strips = _cut_strips(groups, columns, _SMALLER_UNIT_BYTES, device) or strips
    if strips is None:
        return None
    ring = Ring(
        columns=columns,
        piece=strips.piece,
        stages=strips.stages,
        held=min(strips.piece, _HELD_BYTES // strips.unit_bytes),
        loaders=_COPIERS,
        adders=max(_ADDERS, vector),
        folders=_FOLDERS,
        awaiters=_AWAITERS,
        normalizers=_NORMALIZERS,
    )
    constants = {
        **groups.constants(spec),
        "VECTOR": vector,
        "STEPS": strips.steps,
        "COPY_BYTES": copy_bytes,
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
