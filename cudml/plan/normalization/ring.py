"""What the plans share of normalizations that read large groups once: kernels/normalization_ring.cuh.

The blocks of the whole GPU hold a group, or a strip of neighbouring columns, until its statistics are known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.dtypes import c_name
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.steps import SECTOR_WORDS, SUMS_WORDS, array_arguments, parameters
from cudml.plan.plan import Launch, Plan, Scratch, Struct, constants_of
from cudml.plan.spec import Normalization

#: A unit, a stage of the ring, at the most.
UNIT_BYTES = 16384

#: Shared memory: the gates of a stage, and everything else of a block.
GATES_BYTES, _OTHER_BYTES = 32, 160

#: Batches that a team is told of: kernels/normalization_teams.cuh, TOLD.
_TOLD = 16

#: The part of all blocks that may as well be idle: fewer and larger pieces are worth that.
_MOST_IDLE = 1 / 32

#: The part of all blocks that has to be busy so that none needs two pieces of a bundle.
LEAST_BUSY = 0.9

#: And of what all could do if bundles are dealt, and blocks have fewer and larger pieces for that: (101099, 192) floats
#: over 0, with 0.90, take an H100 72 us in 6 strips of 99 pieces, and 86 in two steps, (74229, 96), with 0.82, 38 us in
#: 3 strips and 32.
LEAST_BUSY_OF_DEALT = 0.85

#: The part that is idle from which on more bundles are dealt, and how many times as many.
_MANY_IDLE, _MORE_DEALT = 1 / 8, 4

#: What a line is worth whose bundles are folded so many times at the most, and more often: 64 groups of 8652800 bytes
#: take 0.272 ms in 133 pieces, which are folded at once, 0.315 in 265 and 0.595 in 529.
_WORTH_OF_FOLDS, _LEAST_WORTH = ((1, 1.0), (2, 0.85)), 0.5

#: More than there are.
_MANY_PIECES = 1 << 16


class Ring(NamedTuple):
    """How an assembly line is manned and fed."""

    columns: int
    piece: int
    stages: int
    held: int
    loaders: int
    """Of a stage."""
    adders: int
    folders: int
    normalizers: int
    awaiters: int = 0
    """Only of strips."""
    publishers: int = 0
    """Only of streams."""
    loader_crews: int = 1
    """Of streams, whose loaders take turns."""
    spares: int = 0
    """Of streams, which do nothing."""

    @property
    def constants(self) -> dict[str, int]:
        """Those of kernels/normalization_ring.cuh, which knows of no warps that only some lines have."""
        own = ("awaiters", "publishers", "loader_crews", "spares")
        return {name.upper(): n for name, n in self._asdict().items() if name not in own}

    @property
    def threads(self) -> int:
        others = self.publishers + self.folders + self.awaiters + self.spares
        loaders = self.loader_crews * self.loaders
        return LANES * (loaders + self.adders + others + self.normalizers)

    @property
    def turns(self) -> int:
        """Bundles that a slot for the sums of each is enough for: kernels/normalization_ring.cuh says how far a block
        is ahead of another at most."""
        return 2 * math.ceil((self.stages + self.held) / self.piece) + 1

    def teams(self, cut: Cut, device: DeviceProperties) -> int:
        """Of blocks that share bundles; 0 if a bundle has more pieces than there are blocks."""
        pieces = math.ceil(cut.units / self.piece)
        return _blocks(cut, pieces, device) // pieces


class Cut(NamedTuple):
    """How groups are bundled and cut: kernels/normalization_ring.cuh: struct Cut."""

    bundles: int
    units: int
    inner: int
    across: int
    dealt: int = 0
    """Bundles, at the most, that are dealt to all blocks, whoever shares them. Each has a slot of its own then."""


def stages_of(device: DeviceProperties, of_stage: int, buffers: int) -> int:
    """As many as there is room for."""
    return (device.shared_bytes_per_block - buffers - _OTHER_BYTES) // of_stage


def piece_of(
    cut: Cut,
    least: int,
    stages: int,
    best: int,
    device: DeviceProperties,
    folded: int = _MANY_PIECES,
    least_busy: float = LEAST_BUSY,
) -> int | None:
    """Units of a piece: those that leave nearly no block idle, and none with two pieces of a bundle if that can be; of
    several such numbers the one nearest to `best`. A folder has so many pieces `folded` at a time. Where bundles are
    dealt, `least_busy` blocks of all may do, if smaller pieces would be too many and none is idle for long."""
    blocks = device.multiprocessors

    def merit(piece: int) -> tuple[bool, float, float, int]:
        pieces = math.ceil(cut.units / piece)
        busy = busy_part_of(cut, piece, device)
        worth = next((worth for folds, worth in _WORTH_OF_FOLDS if pieces <= folds * folded), _LEAST_WORTH)
        farness = abs(math.log2(piece / best))
        in_teams = _busy_part(cut, piece, device, _blocks_of_teams(cut, pieces, device))
        relaxed = 2 * pieces > blocks and busy >= LEAST_BUSY_OF_DEALT and _are_dealt(cut, pieces, device)
        enough = least_busy if relaxed else LEAST_BUSY
        one_each = pieces <= blocks and in_teams >= enough
        return one_each, round(min(busy, 1 - _MOST_IDLE) * worth, 3), -farness, -piece

    sizes = [
        2**i for i in range(5) if 2**i >= least and 2**i * math.ceil(math.ceil(cut.units / 2**i) / blocks) <= stages
    ]
    return max(sizes, key=merit) if stages >= 2 and sizes else None


def busy_part_of(cut: Cut, piece: int, device: DeviceProperties) -> float:
    """Of what all blocks of the GPU could do in the time that those who share the bundles need."""
    return _busy_part(cut, piece, device, _blocks(cut, math.ceil(cut.units / piece), device))


def units_of_block(cut: Cut, piece: int, device: DeviceProperties) -> int:
    """That one has at all, at the most: more stages than these are of no use."""
    pieces = math.ceil(cut.units / piece)
    return piece * math.ceil(cut.bundles * pieces / _blocks(cut, pieces, device))


def _busy_part(cut: Cut, piece: int, device: DeviceProperties, blocks: int) -> float:
    """Of what all blocks of the GPU could do while the last of so many is done."""
    rounds = math.ceil(cut.bundles * math.ceil(cut.units / piece) / blocks)
    return cut.bundles * cut.units / (rounds * piece * device.multiprocessors)


def plan_ring(
    kind: str,
    groups: Groups,
    spec: Normalization,
    device: DeviceProperties,
    ring: Ring,
    shared_bytes: int,
    cut: Cut,
    constants: dict[str, str | int | bool],
    drawn: bool = False,
    folded: int = 1,
) -> Plan | None:
    """The launch of kernels/normalization_`kind`.cu; None where the GPU cannot make it, or hold a bundle. Bundles are
    `drawn` by teams of blocks, or dealt out; there is room for the sums of a multiple of `folded` pieces."""
    pieces = math.ceil(cut.units / ring.piece)
    blocks = _blocks(cut, pieces, device)
    able = device.hardware_gates and device.cooperative_launch and groups.are_like_floats
    if not able or ring.piece * math.ceil(pieces / blocks) > ring.stages:
        return None
    slots = ring.turns if drawn else _slots(cut, pieces, blocks, ring, device)
    room = folded * math.ceil(pieces / folded)
    of_column = room * SUMS_WORDS + (groups.normal_words if ring.columns > 1 else 0)
    words = SECTOR_WORDS + slots * ring.columns * of_column
    if drawn:
        words = 2 * SECTOR_WORDS + ring.teams(cut, device) * (_TOLD + slots * of_column)
    counts = (
        words,
        cut.bundles * pieces + blocks * ring.stages,
        (pieces * ring.piece + LANES) * UNIT_BYTES,
    )
    index = groups.index_with(counts)
    arguments = (
        *array_arguments(),
        Scratch(),
        groups.geometry_in(index),
        parameters(groups, spec),
        Struct((cut.bundles, pieces, room, slots, cut.inner, cut.across), index),
    )
    launch = Launch(f"normalize_{kind}", blocks, ring.threads, arguments, shared_bytes, cooperative=True)
    chosen = constants_of(**{**constants, **ring.constants, "INDEX": c_name(index)})
    return Plan(f"normalization_{kind}.cu", chosen, (launch,), scratch_bytes=8 * words)


def _blocks(cut: Cut, pieces: int, device: DeviceProperties) -> int:
    """Those of teams, or all if bundles are dealt."""
    if _are_dealt(cut, pieces, device):
        return min(device.multiprocessors, cut.bundles * pieces)
    return _blocks_of_teams(cut, pieces, device)


def _are_dealt(cut: Cut, pieces: int, device: DeviceProperties) -> bool:
    """Few bundles are dealt to all blocks: (20000, 2048) floats over 0, 32 strips of 79 pieces, take an H200 97 us so,
    and 110 in one team of 79 blocks. So are more, if teams leave many blocks idle: (20000, 4001) take an H100 345 us
    so, and 445 in one team."""
    blocks = device.multiprocessors
    idle = blocks - _blocks_of_teams(cut, pieces, device)
    most = _MORE_DEALT * cut.dealt if idle > _MANY_IDLE * blocks else cut.dealt
    return pieces <= blocks and cut.bundles <= most


def _blocks_of_teams(cut: Cut, pieces: int, device: DeviceProperties) -> int:
    """As many as have pieces of whole bundles, so that the same blocks always share one; all of them if none has one.

    Scale and bias stay in a block's registers then, or at least in the near half of the cache.
    """
    blocks = device.multiprocessors
    return min(blocks // pieces, cut.bundles) * pieces if pieces <= blocks else blocks


def _slots(cut: Cut, pieces: int, blocks: int, ring: Ring, device: DeviceProperties) -> int:
    """Bundles whose sums have room."""
    if pieces > blocks:
        return min(cut.bundles, ring.turns * blocks // pieces + 3)
    if _are_dealt(cut, pieces, device):
        return cut.bundles
    return min(cut.bundles, ring.turns * (blocks // pieces))
