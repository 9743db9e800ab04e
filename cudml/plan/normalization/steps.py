"""What the plans of all normalizations share: their arguments, and either step for groups of several tiles."""

from __future__ import annotations

import math

import numpy as np

from cudml.plan.normalization.groups import Groups
from cudml.plan.plan import Argument, Launch, Plan, Pointer, Scalar, Scratch, Struct, Workspace, constants_of
from cudml.plan.spec import Normalization

SUMS_BYTES, SUMS_WORDS = 16, 4  #: kernels/normalization.cuh: struct Sums, in words as it is published
SECTOR_WORDS = 4  #: kernels/tickets.cuh: SECTOR
_TILES_OF_SET = 32  #: kernels/normalization_tiles.cuh: a set of tiles
NORMALIZER_BYTES = 24  #: and struct Normalizer, at the most

#: Where the first step leaves for the second how groups are normalized.
NORMALIZERS = Workspace(0)


def parameters(groups: Groups, spec: Normalization) -> Struct:
    """kernels/normalization.cuh: struct Parameters."""
    alpha, beta = _activation_parameters(spec)
    length, divisor = float(groups.length), max(groups.length - groups.correction, 0.0)
    inverse, inverse_divisor = (1 / n if n else math.inf for n in (length, divisor))
    numbers = (float(spec.epsilon), alpha, beta, length, inverse, float(divisor), inverse_divisor)
    return Struct(numbers, np.dtype(np.float64))


def _activation_parameters(spec: Normalization) -> tuple[float, float]:
    """alpha and beta of kernels/normalization_activations.cuh."""
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


def sum_step(
    kind: str,
    groups: Groups,
    spec: Normalization,
    constants: dict[str, str | int | bool],
    block: int,
    columns: int = 1,
    shared_bytes: int = 0,
    ahead: Struct | None = None,
) -> Plan:
    """The sums of all tiles, from which the last blocks find the statistics. A block has a tile of so many neighbouring
    groups. `ahead`: kernels/ahead.cuh."""
    strips = groups.strips_of(columns)
    words = SECTOR_WORDS + strips * _published_words(groups.tiles, columns) if groups.tiles > 1 else 0
    statistics = (NORMALIZERS, Pointer("mean"), Pointer("variance"))
    own = (ahead,) if ahead else ()
    arguments = (Pointer("input"), Scratch(), *statistics, groups.geometry, parameters(groups, spec), *own)
    launch = Launch(f"sum_{kind}", strips * groups.tiles, block, arguments, shared_bytes, early=True)
    workspace = groups.count * NORMALIZER_BYTES if groups.has("output") else 0
    return Plan(f"normalization_{kind}.cu", constants_of(**constants), (launch,), workspace, 8 * words)


def apply_step(
    kind: str, groups: Groups, spec: Normalization, constants: dict[str, str | int | bool], block: int, columns: int = 1
) -> Plan:
    """Every tile again, from the last to the first."""
    arrays = (Pointer("input"), Pointer("output"), *operand_arguments())
    arguments = (*arrays, NORMALIZERS, groups.geometry, parameters(groups, spec))
    blocks = groups.strips_of(columns) * groups.tiles
    launch = Launch(f"apply_{kind}", blocks, block, arguments, early=True)
    return Plan(f"normalization_{kind}.cu", constants_of(**constants), (launch,))


def _published_words(tiles: int, columns: int) -> int:
    """kernels/normalization_tiles.cuh: published_words."""
    sets = 0
    while tiles > 1:
        tiles = math.ceil(tiles / _TILES_OF_SET)
        sets += tiles
    return sets * _TILES_OF_SET * SUMS_WORDS * columns
