"""What the plans of all normalizations share: their arguments, and the three steps for groups of several tiles."""

from __future__ import annotations

import math

import numpy as np

from cudml.plan.device import DeviceProperties
from cudml.plan.groups import Groups
from cudml.plan.layout import power_of_two
from cudml.plan.plan import Argument, Launch, Plan, Pointer, Scalar, Struct, Workspace, constants_of
from cudml.plan.spec import Normalization

#: Threads that finish a group: one for so many tiles, whose sums it loads at a time, as far as they fit in a block.
_TILES_OF_THREAD = 8  # kernels/normalization_tiles.cuh: AT_ONCE
_MOST_THREADS = 1024

#: Tiles of all groups for each multiprocessor, before a block loads several times: blocks end at different times.
_LEAST_TILES = 16

SUMS_BYTES, SUMS_WORDS = 16, 4  #: kernels/normalization.cuh: struct Sums, in words as it is published
SECTOR_WORDS = 4  #: kernels/tickets.cuh: SECTOR
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


def rounds_of(groups: Groups, elements: int, most: int, device: DeviceProperties) -> int:
    """How often a block loads so many elements in a tile: less than `most` where that leaves too few tiles."""
    rounds = most
    while rounds > 1 and groups.count * groups.length < _LEAST_TILES * device.multiprocessors * elements * rounds:
        rounds //= 2
    return rounds


def three_steps(
    kind: str, groups: Groups, spec: Normalization, constants: dict[str, str | int | bool], block: int, blocks: int
) -> Plan:
    """The sums of all tiles, the statistics of all groups, and every tile again."""
    sums, normalizers = Workspace(0), Workspace(groups.count * groups.tiles * SUMS_BYTES)
    source, geometry, numbers = Pointer("input"), groups.geometry, parameters(groups, spec)
    finishers = min(_MOST_THREADS, power_of_two(math.ceil(groups.tiles / _TILES_OF_THREAD)))
    threads = max(256, finishers)
    finish = (source, sums, normalizers, Pointer("mean"), Pointer("variance"), geometry, numbers)
    launches = [Launch(f"finish_{kind}", math.ceil(groups.count * finishers / threads), threads, finish)]
    if groups.length:
        launches.insert(0, Launch(f"sum_{kind}", blocks, block, (source, sums, geometry)))
    if groups.length and groups.has("output"):
        apply = (source, Pointer("output"), *operand_arguments(), normalizers, geometry, numbers)
        launches.append(Launch(f"apply_{kind}", blocks, block, apply))
    workspace = normalizers.offset + groups.count * _NORMALIZER_BYTES
    chosen = constants_of(**{**constants, "FINISHERS": finishers})
    return Plan(f"normalization_{kind}.cu", chosen, tuple(launches), workspace)
