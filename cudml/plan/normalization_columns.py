"""The plans of normalizations of columns, groups that lie side by side: kernels/normalization_columns.cu."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from cudml.plan.device import DeviceProperties
from cudml.plan.groups import Groups
from cudml.plan.layout import VECTOR_BYTES
from cudml.plan.normalization_steps import operand_arguments, parameters, three_steps
from cudml.plan.normalization_stream import plan_strips
from cudml.plan.plan import Launch, Plan, Pointer, constants_of
from cudml.plan.spec import Normalization

LANES = 32

#: What a thread holds of its columns.
_SPAN_BYTES, _MOST_VALUES = 128, 64

#: How wide the strip of a block is, and how narrow it may be so that whole columns fit the block.
_STRIP_BYTES, _LEAST_STRIP_BYTES = 256, 64
_MOST_THREADS, _LEAST_THREADS = 512, 128


@dataclass(frozen=True, slots=True)
class Columns:
    """How columns are shared out: the constants of kernels/normalization_columns.cu."""

    vector: int
    span: int
    across: int
    spans: int


def columns_of(groups: Groups) -> Columns:
    """How columns are shared out, and whether a block holds them whole."""
    size, chunk = groups.source.dtype.itemsize, groups.chunk
    vector = _vector(groups)
    span = max(1, min(_SPAN_BYTES // (vector * VECTOR_BYTES), _MOST_VALUES // (vector * chunk)))
    while span > 1 and groups.length <= span // 2 * chunk:
        span //= 2
    spans = _power_of_two(math.ceil(groups.length / (span * chunk)))
    most, least = (max(1, nbytes // (vector * size)) for nbytes in (_STRIP_BYTES, _LEAST_STRIP_BYTES))
    across = min(most, _power_of_two(math.ceil(groups.count / vector)))
    while across > least and across * spans > _MOST_THREADS:
        across //= 2
    if across * spans > _MOST_THREADS:
        across = min(most, _power_of_two(math.ceil(groups.count / vector)))
        spans = _MOST_THREADS // across
    across = max(across, _LEAST_THREADS // spans)
    return Columns(vector, span, across, spans)


def plan_columns(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan:
    """The launches for groups that lie side by side."""
    chosen = columns_of(groups)
    constants = {
        **groups.constants(spec),
        **{name.upper(): value for name, value in asdict(chosen).items()},
        "INPUT_PACKED": groups.packed_columns("input", chosen.vector),
        "OUTPUT_PACKED": groups.packed_columns("output", chosen.vector),
        "SCALE_ACROSS": groups.differs_across("scale"),
        "BIAS_ACROSS": groups.differs_across("bias"),
        "FINISHERS": LANES,
        "RESIDENT": 1,
        "EARLY": 1,
    }
    tile = chosen.spans * chosen.span * groups.chunk
    strips, block = math.ceil(groups.count / (chosen.across * chosen.vector)), chosen.across * chosen.spans
    if groups.length > tile:
        streamed = plan_strips(groups, spec, device) if groups.has("output") else None
        if streamed is not None:
            return streamed
        groups = groups.in_tiles(tile)
        constants |= {"INDEX": groups.constants(spec)["INDEX"]}
        return three_steps("columns", groups, spec, constants, block, strips * groups.tiles)
    arguments = (
        Pointer("input"),
        Pointer("output"),
        *operand_arguments(),
        Pointer("mean"),
        Pointer("variance"),
        groups.geometry,
        parameters(groups, spec),
    )
    launch = Launch("normalize_columns", strips, block, arguments)
    return Plan("normalization_columns.cu", constants_of(**constants), (launch,))


def _vector(groups: Groups) -> int:
    """Neighbouring columns of a thread: as many as one access moves, of the input and of the output."""
    vector = VECTOR_BYTES // groups.widest
    names = [name for name in ("input", "output") if groups.has(name)]
    while vector > 1 and not all(groups.packed_columns(name, vector) for name in names):
        vector //= 2
    return vector


def _power_of_two(n: int) -> int:
    """The smallest that is not less."""
    return 1 << (n - 1).bit_length()
