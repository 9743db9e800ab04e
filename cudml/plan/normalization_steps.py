"""What the plans of all normalizations share: their arguments, and the two steps for groups of several tiles."""

from __future__ import annotations

import math

import numpy as np

from cudml.plan.device import DeviceProperties
from cudml.plan.groups import Groups
from cudml.plan.plan import Argument, Launch, Plan, Pointer, Scalar, Scratch, Struct, Workspace, constants_of
from cudml.plan.spec import Normalization

#: Tiles of all groups for each multiprocessor, before a block loads several times: blocks end at different times.
LEAST_TILES = 15

SUMS_BYTES, SUMS_WORDS = 16, 4  #: kernels/normalization.cuh: struct Sums, in words as it is published
SECTOR_WORDS = 4  #: kernels/tickets.cuh: SECTOR
_TILES_OF_SET = 32  #: kernels/normalization_tiles.cuh: a set of tiles
_NORMALIZER_BYTES = 24  # and struct Normalizer, at the most


def parameters(groups: Groups, spec: Normalization) -> Struct:
    """kernels/normalization.cuh: struct Parameters."""
    alpha, beta = _activation_parameters(spec)
    length, divisor = float(groups.length), max(groups.length - groups.correction, 0.0)
    inverse, inverse_divisor = (1 / n if n else math.inf for n in (length, divisor))
    numbers = (float(spec.epsilon), alpha, beta, length, inverse, float(divisor), inverse_divisor)
    return Struct(numbers, np.dtype(np.float64))


def _activation_parameters(spec: Normalization) -> tuple[float, float]:
    """alpha and beta of kernels/activations.cuh."""
    given = spec.activation.parameters if spec.activation else ()
    if len(given) == 1:
        return given[0], 1 / given[0] if given[0] else math.inf
    return given[:2] if given else (0.0, 0.0)  # type: ignore[return-value]


def operand_arguments() -> tuple[Argument, ...]:
    """Scale and bias: the addresses of both, then the numbers that stand for them where they are no arrays."""
    double = np.dtype(np.float64)
    return (Pointer("scale"), Pointer("bias"), Scalar("scale", double), Scalar("bias", double))


def array_arguments() -> tuple[Argument, ...]:
    """The arrays of a kernel that does everything."""
    return (Pointer("input"), Pointer("output"), *operand_arguments(), Pointer("mean"), Pointer("variance"))


def rounds_of(
    groups: Groups, elements: int, most: int, device: DeviceProperties, least_tiles: int = LEAST_TILES
) -> int:
    """How often a block loads so many elements in a tile: less than `most` where that leaves too few tiles."""
    rounds = most
    while rounds > 1 and groups.count * groups.length < least_tiles * device.multiprocessors * elements * rounds:
        rounds //= 2
    return rounds


def two_steps(
    kind: str,
    groups: Groups,
    spec: Normalization,
    constants: dict[str, str | int | bool],
    block: int,
    columns: int = 1,
    parts: int = 1,
) -> Plan:
    """The sums of all tiles, from which the last blocks find the statistics, and every tile again, in so many parts. A
    block has a tile, or a part of one, of so many neighbouring groups."""
    strips = math.ceil(groups.count / columns)
    words = SECTOR_WORDS + strips * _published_words(groups.tiles, columns) if groups.tiles > 1 else 0
    source, geometry, numbers, normalizers = Pointer("input"), groups.geometry, parameters(groups, spec), Workspace(0)
    statistics = (normalizers, Pointer("mean"), Pointer("variance"))
    blocks = strips * groups.tiles
    launches = [Launch(f"sum_{kind}", blocks, block, (source, Scratch(), *statistics, geometry, numbers), early=True)]
    if groups.has("output"):
        apply = (source, Pointer("output"), *operand_arguments(), normalizers, geometry, numbers)
        blocks = strips * math.ceil(groups.length * parts / groups.tile)
        launches.append(Launch(f"apply_{kind}", blocks, block, apply, early=True))
    workspace = groups.count * _NORMALIZER_BYTES if groups.has("output") else 0
    return Plan(f"normalization_{kind}.cu", constants_of(**constants), tuple(launches), workspace, 8 * words)


def _published_words(tiles: int, columns: int) -> int:
    """kernels/normalization_tiles.cuh: published_words."""
    sets = 0
    while tiles > 1:
        tiles = math.ceil(tiles / _TILES_OF_SET)
        sets += tiles
    return sets * _TILES_OF_SET * SUMS_WORDS * columns
