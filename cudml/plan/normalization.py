"""The plans of moments and normalization: kernels/normalization.cu."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cudml.plan.device import DeviceProperties
from cudml.plan.dtypes import c_name
from cudml.plan.layout import NO_DIMS, VECTOR_BYTES, ArrayLayout, Dims, broadcast, collapse, index_type, step
from cudml.plan.plan import Argument, Launch, Plan, Pointer, Scalar, Struct, Workspace, constants_of
from cudml.plan.shares import BLOCK, LANES, share_of
from cudml.plan.spec import Moments, Normalization

CHUNKS_OF_TILE = 1024
SUMS_BYTES = 16

#: Groups this small are summed by one thread each where there are many: a warp would be mostly idle.
_SHORT_GROUP = 8

#: With fewer groups than this side by side, threads that walk down columns would not fill a warp.
_ENOUGH_GROUPS = 32

Operand = ArrayLayout | np.dtype | None


def plan_moments(spec: Moments, arrays: dict[str, ArrayLayout], device: DeviceProperties) -> Plan:
    """The launches that reduce `input` to `mean` and `variance`."""
    return _plan(_Work.of(spec.axes, dict(arrays)), spec.correction, Normalization(spec.axes))


def plan_normalization(spec: Normalization, arrays: dict[str, Operand], device: DeviceProperties) -> Plan:
    """The launches that normalize `input` into `output`; `scale` and `bias` are absent, arrays or numbers (dtypes)."""
    return _plan(_Work.of(spec.axes, arrays), 0.0, spec)


@dataclass(frozen=True, slots=True)
class _Grouped:
    """An array as groups of elements (kernels/normalization.cu: struct GroupedLayout)."""

    kept: Dims
    reduced: Dims

    @classmethod
    def of(cls, operand: Operand, shape: tuple[int, ...], kept: tuple[int, ...], reduced: tuple[int, ...]) -> _Grouped:
        if not isinstance(operand, ArrayLayout):
            return cls(NO_DIMS, NO_DIMS)
        layout = broadcast(operand, shape)
        return cls(collapse(layout, kept), collapse(layout, reduced))

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.kept.numbers + self.reduced.numbers


@dataclass(frozen=True, slots=True)
class _Work:
    """The input as groups, and how they are cut into tiles."""

    source: ArrayLayout
    operands: dict[str, Operand]
    grouped: dict[str, _Grouped]
    kept_axes: tuple[int, ...]
    reduced_axes: tuple[int, ...]

    @classmethod
    def of(cls, axes: tuple[int, ...], arrays: dict[str, Operand]) -> _Work:
        source = arrays["input"]
        assert isinstance(source, ArrayLayout)
        kept = tuple(axis for axis in range(len(source.shape)) if axis not in axes)
        grouped = {}
        for name in ("input", "output", "scale", "bias"):
            grouped[name] = _Grouped.of(arrays.get(name), source.shape, kept, axes)
        return cls(source, arrays, grouped, kept, axes)

    @property
    def groups(self) -> int:
        return math.prod(self.source.shape[axis] for axis in self.kept_axes)

    @property
    def length(self) -> int:
        return math.prod(self.source.shape[axis] for axis in self.reduced_axes)

    @property
    def chunk(self) -> int:
        return max(1, VECTOR_BYTES // self.source.dtype.itemsize)

    @property
    def tiles(self) -> int:
        return math.ceil(self.length / (CHUNKS_OF_TILE * self.chunk))

    @property
    def share(self) -> tuple[int, int]:
        return share_of(self.length, self.chunk)

    @property
    def columns(self) -> bool:
        """Whether neighbouring groups lie nearer in memory than neighbours of one group."""
        if self.groups < _ENOUGH_GROUPS:
            return False
        if self.length <= _SHORT_GROUP:
            return True
        inside = min((step(axis, self.source) for axis in self.reduced_axes if self.source.shape[axis] > 1), default=0)
        beside = min((step(axis, self.source) for axis in self.kept_axes if self.source.shape[axis] > 1), default=0)
        return 0 < beside < inside

    @property
    def index(self) -> np.dtype:
        counts = (self.source.size, self.groups * self.tiles, self.tiles * CHUNKS_OF_TILE * self.chunk)
        return index_type(counts, (dims for g in self.grouped.values() for dims in (g.kept, g.reduced)))

    @property
    def geometry(self) -> Struct:
        """kernels/normalization.cu: struct Geometry."""
        arrays = sum((self.grouped[name].numbers for name in ("input", "output", "scale", "bias")), ())
        return Struct((self.groups, self.length, self.tiles, *arrays), self.index)


def _plan(work: _Work, correction: float, spec: Normalization) -> Plan:
    constants = _constants(work, spec)
    if work.groups == 0 or (work.length == 0 and work.operands.get("mean") is None):
        return Plan("normalization.cu", constants, ())
    if work.tiles == 1 and not work.columns:
        return Plan("normalization.cu", constants, (_one_tile(work, correction, spec),))
    return _three_steps(work, correction, spec, constants)


def _constants(work: _Work, spec: Normalization) -> tuple[tuple[str, str], ...]:
    source = work.source
    double = source.dtype.name == "float64" or source.dtype.kind in "biu"
    warps, rows = work.share
    output, moment = work.operands.get("output"), work.operands.get("mean")
    return constants_of(
        INPUT=c_name(source.dtype),
        INPUT_ALIGNED=source.element_aligned,
        MOMENT=c_name(moment.dtype) if isinstance(moment, ArrayLayout) else "float",
        COMPUTE="double" if double else "float",
        ACTIVATION=spec.activation.name if spec.activation else "identity",
        NORMALIZE_VARIANCE=spec.normalize_variance,
        CHUNK=work.chunk,
        WARPS=warps,
        ROWS=rows,
        COLUMNS=work.columns,
        INDEX="int" if work.index.itemsize == 4 else "long long",
        OUTPUT=c_name(output.dtype) if isinstance(output, ArrayLayout) else "float",
        OUTPUT_ALIGNED=output.element_aligned if isinstance(output, ArrayLayout) else 1,
        **_ranks(work),
        **_operand_constants("SCALE", work.operands.get("scale")),
        **_operand_constants("BIAS", work.operands.get("bias")),
    )


def _ranks(work: _Work) -> dict[str, int]:
    kept = {f"{name.upper()}_KEPT_RANK": grouped.kept.rank for name, grouped in work.grouped.items()}
    reduced = {f"{name.upper()}_REDUCED_RANK": grouped.reduced.rank for name, grouped in work.grouped.items()}
    return kept | reduced


def _operand_constants(name: str, operand: Operand) -> dict[str, str | int]:
    is_array = isinstance(operand, ArrayLayout)
    return {
        name: c_name(operand.dtype) if isinstance(operand, ArrayLayout) else "float",
        f"HAS_{name}": 0 if operand is None else 1 if is_array else 2,
        f"{name}_ALIGNED": operand.element_aligned if isinstance(operand, ArrayLayout) else 1,
    }


def _parameters(correction: float, spec: Normalization) -> Struct:
    """kernels/normalization.cu: struct Parameters."""
    given = spec.activation.parameters if spec.activation else ()
    alpha, beta = (*given, 0.0, 0.0)[:2]
    return Struct((float(spec.epsilon), float(correction), alpha, beta), np.dtype(np.float64))


def _operand_arguments() -> tuple[Argument, ...]:
    """Scale and bias: the addresses of both, then the numbers that stand for them where they are no arrays."""
    double = np.dtype(np.float64)
    return (Pointer("scale"), Pointer("bias"), Scalar("scale", double), Scalar("bias", double))


def _one_tile(work: _Work, correction: float, spec: Normalization) -> Launch:
    groups_of_block = BLOCK // (LANES * work.share[0])
    return Launch(
        "normalize_tile",
        math.ceil(work.groups / groups_of_block),
        BLOCK,
        (
            Pointer("input"),
            *_operand_arguments(),
            Pointer("output"),
            Pointer("mean"),
            Pointer("variance"),
            work.geometry,
            _parameters(correction, spec),
        ),
    )


def _three_steps(work: _Work, correction: float, spec: Normalization, constants: tuple[tuple[str, str], ...]) -> Plan:
    sums_bytes = work.groups * work.tiles * SUMS_BYTES
    statistics_bytes = work.groups * 3 * 8
    sums, statistics = Workspace(0), Workspace(sums_bytes)
    parameters = _parameters(correction, spec)
    source = Pointer("input")
    moments = (Pointer("mean"), Pointer("variance"))
    finish = Launch(
        "finish_statistics",
        math.ceil(work.groups / (BLOCK // LANES)),
        BLOCK,
        (source, sums, statistics, *moments, work.geometry, parameters),
    )
    launches = [finish]
    if work.length:
        blocks = math.ceil(work.groups * work.tiles / BLOCK) if work.columns else work.groups * work.tiles
        kernel = "sum_columns" if work.columns else "sum_rows"
        launches.insert(0, Launch(kernel, blocks, BLOCK, (source, sums, work.geometry)))
    if work.length and work.operands.get("output") is not None:
        blocks = math.ceil(work.groups * work.length / BLOCK)
        arguments = (source, *_operand_arguments(), Pointer("output"), statistics, work.geometry, parameters)
        launches.append(Launch("normalize_elements", blocks, BLOCK, arguments))
    return Plan("normalization.cu", constants, tuple(launches), sums_bytes + statistics_bytes)
