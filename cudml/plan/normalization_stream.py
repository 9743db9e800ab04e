"""The plans of normalizations that read large groups once: kernels/normalization_stream.cu and normalization_strips.cu.

The blocks of the whole GPU hold a group, or a strip of neighbouring columns, until its statistics are known.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.groups import Groups
from cudml.plan.layout import VECTOR_BYTES
from cudml.plan.normalization_steps import SECTOR_WORDS, SUMS_BYTES, SUMS_WORDS, array_arguments, parameters
from cudml.plan.plan import Launch, Plan, Scratch, Struct, constants_of
from cudml.plan.spec import Normalization

_FLOATS = ("float16", "bfloat16", "float32", "float64")

#: Rows of 32 chunks that are a unit, a stage of the ring.
_UNIT_ROWS = 32
_ROW_BYTES = LANES * VECTOR_BYTES
_MOST_STAGES = 16

#: Stages where a piece is one unit: more made nothing faster, and rows of every second element by 5 % slower.
_STAGES_OF_UNITS = 12

#: Runs that bulk copies load: a copy costs some 40 ns of a multiprocessor of an H200 whatever its size.
_LEAST_RUN_BYTES = 2048

#: How the line is manned, for groups and for strips: what was the fastest of some dozens on an H200. More folders or
#: awaiters would ask for so much that the others come late. Strips have 16 warps, which leaves their threads registers
#: for what normalizers hold: with 18 they took up to 10 % longer.
_ORDINARY_LOADERS, _COPIERS = 8, 2
_ADDERS, _STRIP_ADDERS = 8, 4
_FOLDERS, _STRIP_FOLDERS, _AWAITERS = 2, 1, 1
_NORMALIZERS, _STRIP_NORMALIZERS = 8, 8

#: Fewer warps have more registers: adders where normalizers hold scale and bias of every element, or loaders are many,
#: and normalizers unless elements are halves, for which 8 were faster. Normalizers hold the first units of a
#: piece, so many at most, where the ring cannot hold two pieces.
_FEW_ADDERS, _FEW_NORMALIZERS, _MOST_HELD = 4, 4, 2

#: What the normalizers of strips hold in registers: half of theirs.
_HELD_BYTES = 65536

#: A piece of a strip, at least: each column has a sum of its own to publish. If it is larger, and so has to wait for a
#: part of the next one to be stored, units are smaller: 65536 x 4096 floats took 0.73 ms instead of 0.75.
_LEAST_STRIP_PIECE_BYTES = 65536
_STRIP_UNIT_BYTES, _SMALLER_UNIT_BYTES = 16384, 8192

#: What pieces of strips may take of a ring at the most: else three steps are faster.
_MOST_OF_RING = 2 / 3

#: Pieces of a strip of which a block knows something at a time: as many as fit its shared memory, and another.
_KNOWN_PIECES = 4

#: Units of a piece, if that leaves no more blocks idle than others: smaller pieces are folded more often than a block's
#: folders keep up with, larger ones fill the ring too soon. One folder has so many units at a time. Scale and bias of
#: every element stay in registers if a piece is one unit.
_BEST_PIECE = 4

#: Strips of columns: how wide a step is, if there are so many columns.
_STRIP_BYTES = (256, 128)

#: The part of all blocks that may as well be idle: fewer and larger pieces are worth that.
_MOST_IDLE = 1 / 32

#: The part of all blocks that has to be busy so that none needs two pieces of a bundle.
_LEAST_BUSY = 0.9

#: Shared memory: of a stage the gates, what adders leave of it beside sums, and everything else of a block.
_GATES_BYTES, _SHIFT_BYTES, _OTHER_BYTES = 32, 16, 160


@dataclass(frozen=True, slots=True)
class Ring:
    """How an assembly line is manned and fed: the constants of kernels/normalization_ring.cuh."""

    columns: int
    piece: int
    stages: int
    held: int
    loaders: int
    adders: int
    folders: int
    awaiters: int
    normalizers: int

    @property
    def threads(self) -> int:
        publishers = 1 if self.columns == 1 else 0
        return LANES * (self.loaders + self.adders + publishers + self.folders + self.awaiters + self.normalizers)


@dataclass(frozen=True, slots=True)
class Cut:
    """How groups are bundled and cut: kernels/normalization_ring.cuh: struct Cut."""

    bundles: int
    units: int
    inner: int
    across: int


@dataclass(frozen=True, slots=True)
class Strips:
    """How strips are cut into pieces and units, of so many steps and bytes, and how many units fit a block."""

    cut: Cut
    piece: int
    stages: int
    steps: int
    unit_bytes: int


def plan_stream(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch for groups whose elements lie side by side; None where the GPU cannot hold one."""
    elements = _UNIT_ROWS * LANES * groups.chunk
    packed = {f"{name.upper()}_PACKED": groups.packed(name) for name in ("input", "output", "scale", "bias")}
    bulk = device.compute_capability >= (9, 0) and _has_long_runs(groups, elements)
    stage_bytes = _UNIT_ROWS * _ROW_BYTES + (VECTOR_BYTES if bulk and not packed["INPUT_PACKED"] else 0)
    buffers = 0 if packed["OUTPUT_PACKED"] else _NORMALIZERS * LANES * groups.chunk * groups.widest
    normal_bytes = VECTOR_BYTES * math.ceil(4 * groups.normal_words / VECTOR_BYTES)
    beside = _GATES_BYTES + normal_bytes + _SHIFT_BYTES + _ADDERS * SUMS_BYTES
    stages = min(_MOST_STAGES, _stages(device, stage_bytes + beside, buffers))
    cut = Cut(groups.count, math.ceil(groups.length / elements), groups.count, 1)
    own = groups.has_own_operands
    piece = _piece(cut, 1, stages, device, 1 if own else _BEST_PIECE)
    if piece is None:
        return None
    if own and piece == 1:
        stages = min(stages, _STAGES_OF_UNITS)
    ring = Ring(
        columns=1,
        piece=piece,
        stages=stages,
        held=max(0, min(_MOST_HELD, 2 * piece - stages, piece - 1)) if bulk and not own else 0,
        loaders=1 if bulk else _ORDINARY_LOADERS,
        adders=_ADDERS if bulk and not own else _FEW_ADDERS,
        folders=max(1, min(_FOLDERS, _BEST_PIECE // piece, stages // piece)),
        awaiters=0,
        normalizers=_NORMALIZERS if own or groups.source.dtype.itemsize == 2 else _FEW_NORMALIZERS,
    )
    constants: dict[str, str | int | bool] = {
        **groups.constants(spec),
        **packed,
        "BULK": bulk,
        "ONE_RUN": groups.is_one_run,
        "UNIT_ROWS": _UNIT_ROWS,
        "ENDS": 2 if groups.length % groups.chunk else 1 if groups.length % elements else 0,
        "OPERANDS_AGAIN": own and piece > 1,
    }
    shared_bytes = stages * stage_bytes + buffers
    return _plan("stream", groups, spec, device, ring, shared_bytes, cut, constants)


def plan_strips(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch for groups that lie side by side; None where the GPU cannot hold a strip of them."""
    size, inner = groups.source.dtype.itemsize, groups.kept.sizes[-1]
    columns = next((nbytes // size for nbytes in _STRIP_BYTES if nbytes <= inner * size), 0)
    vector = columns // LANES
    copy_bytes = next((n for n in (16, 8, 4) if n >= size and groups.packed_columns("input", n // size)), 0)
    dense = groups.kept.strides["input"][-1] == size
    if vector == 0 or not dense or not copy_bytes or inner % vector:
        return None
    strips = _cut_strips(groups, columns, _STRIP_UNIT_BYTES, device)
    if strips and strips.piece * _STRIP_UNIT_BYTES > _LEAST_STRIP_PIECE_BYTES:
        strips = _cut_strips(groups, columns, _SMALLER_UNIT_BYTES, device) or strips
    if strips is None:
        return None
    hands = (_COPIERS, max(_STRIP_ADDERS, vector), _STRIP_FOLDERS, _AWAITERS, _STRIP_NORMALIZERS)
    held = min(strips.piece, _HELD_BYTES // strips.unit_bytes)
    ring = Ring(columns, strips.piece, strips.stages, held, *hands)
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
    return _plan("strips", groups, spec, device, ring, shared_bytes, strips.cut, constants)


def _cut_strips(groups: Groups, columns: int, unit_bytes: int, device: DeviceProperties) -> Strips | None:
    """None where the GPU cannot hold a strip."""
    inner, steps = groups.kept.sizes[-1], unit_bytes // (columns * groups.source.dtype.itemsize)
    normal_bytes = 4 * groups.normal_words
    known_bytes = _KNOWN_PIECES * (_GATES_BYTES + columns * normal_bytes)
    stages = _stages(device, unit_bytes + _GATES_BYTES + normal_bytes, known_bytes)
    across = math.ceil(inner / columns)
    cut = Cut(groups.count // inner * across, math.ceil(groups.length / steps), inner, across)
    least = _LEAST_STRIP_PIECE_BYTES // unit_bytes
    piece = _piece(cut, least, int(stages * _MOST_OF_RING), device, least)
    return Strips(cut, piece, stages, steps, unit_bytes) if piece else None


def _stages(device: DeviceProperties, of_stage: int, buffers: int) -> int:
    """As many as there is room for."""
    return (device.shared_bytes_per_block - buffers - _OTHER_BYTES) // of_stage


def _piece(cut: Cut, least: int, stages: int, device: DeviceProperties, best: int = _BEST_PIECE) -> int | None:
    """Units of a piece: those that leave nearly no block idle, and none with two pieces of a bundle if that can be; of
    several such numbers the one nearest to `best`."""
    blocks = device.multiprocessors

    def merit(piece: int) -> tuple[bool, float, float, int]:
        pieces = math.ceil(cut.units / piece)
        busy = _blocks(cut, pieces, device) / blocks * cut.units / (pieces * piece)
        farness = abs(math.log2(piece / best))
        return pieces <= blocks and busy >= _LEAST_BUSY, min(busy, 1 - _MOST_IDLE), -farness, -piece

    sizes = [
        2**i for i in range(5) if 2**i >= least and 2**i * math.ceil(math.ceil(cut.units / 2**i) / blocks) <= stages
    ]
    return max(sizes, key=merit) if stages >= 2 and sizes else None


def _blocks(cut: Cut, pieces: int, device: DeviceProperties) -> int:
    """As many as have pieces of whole bundles, so that the same blocks always share one; all of them if none has one.

    Scale and bias stay in a block's registers then, or at least in the near half of the cache.
    """
    blocks = device.multiprocessors
    return min(blocks // pieces, cut.bundles) * pieces if pieces <= blocks else blocks


def _slots(cut: Cut, pieces: int, blocks: int, ring: Ring) -> int:
    """Bundles whose sums have room: kernels/normalization_ring.cuh says how far a block is ahead of another at most."""
    turns = 2 * math.ceil((ring.stages + ring.held) / ring.piece) + 1
    return min(cut.bundles, turns * (blocks // pieces) if pieces <= blocks else turns * blocks // pieces + 3)


def _plan(
    kind: str,
    groups: Groups,
    spec: Normalization,
    device: DeviceProperties,
    ring: Ring,
    shared_bytes: int,
    cut: Cut,
    constants: dict[str, str | int | bool],
) -> Plan | None:
    pieces = math.ceil(cut.units / ring.piece)
    blocks = _blocks(cut, pieces, device)
    able = device.compute_capability >= (8, 0) and device.cooperative_launch and groups.source.dtype.name in _FLOATS
    if not able or ring.piece * math.ceil(pieces / blocks) > ring.stages:
        return None
    slots = _slots(cut, pieces, blocks, ring)
    of_column = pieces * SUMS_WORDS + (groups.normal_words if ring.columns > 1 else 0)
    words = SECTOR_WORDS + slots * ring.columns * of_column
    counts = (
        words,
        cut.bundles * pieces + blocks * ring.stages,
        (pieces * ring.piece + LANES) * _UNIT_ROWS * _ROW_BYTES,
    )
    index = groups.index_with(counts)
    arguments = (
        *array_arguments(),
        Scratch(),
        groups.geometry_in(index),
        parameters(groups, spec),
        Struct((cut.bundles, pieces, slots, cut.inner, cut.across), index),
    )
    launch = Launch(f"normalize_{kind}", blocks, ring.threads, arguments, shared_bytes, cooperative=True)
    manned = {name.upper(): value for name, value in asdict(ring).items()}
    narrow = {"INDEX": "int" if index.itemsize == 4 else "long long"}
    chosen = constants_of(**{**constants, **manned, **narrow})
    return Plan(f"normalization_{kind}.cu", chosen, (launch,), scratch_bytes=8 * words)


def _has_long_runs(groups: Groups, elements: int) -> bool:
    """Whether bulk copies can load any unit: one of a single run, or one for each of its runs by a lane."""
    size, run = groups.source.dtype.itemsize, groups.reduced.sizes[-1]
    if groups.is_one_run:
        return True
    return groups.packed("input") and run * size >= _LEAST_RUN_BYTES and elements // run + 2 <= LANES
