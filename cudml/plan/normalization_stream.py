"""The plans of normalizations that read large groups once: kernels/normalization_stream.cu and normalization_strips.cu.

The blocks of the whole GPU hold a group, or a strip of neighbouring columns, until its statistics are known.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from cudml.plan.device import DeviceProperties
from cudml.plan.groups import Groups
from cudml.plan.layout import VECTOR_BYTES
from cudml.plan.normalization_steps import operand_arguments, parameters
from cudml.plan.plan import Launch, Plan, Pointer, Scratch, Struct, constants_of
from cudml.plan.spec import Normalization

LANES = 32

_FLOATS = ("float16", "bfloat16", "float32", "float64")

#: A unit, which is a stage of the ring.
_UNIT_BYTES = 32768
_UNIT_ROWS = 64
_MOST_STAGES = 12

#: Runs that bulk copies load: a copy costs some 40 ns of a multiprocessor of an H200 whatever its size.
_LEAST_RUN_BYTES = 2048

#: Adders and normalizers. Halves are twice as many in a unit.
_HANDS, _HANDS_FOR_HALVES = (4, 8), (8, 8)
_ORDINARY_LOADERS, _COPIERS = 8, 4

#: Strips of columns: how wide a step is, if there are so many columns.
_STRIP_BYTES = (256, 128)

_SUMS_BYTES, _SUMS_WORDS = 16, 4
_GATES_BYTES = 48


@dataclass(frozen=True, slots=True)
class Ring:
    """How an assembly line is manned: the constants of kernels/normalization_ring.cuh."""

    columns: int
    stages: int
    loaders: int
    adders: int
    folders: int
    awaiters: int
    normalizers: int

    @property
    def threads(self) -> int:
        return LANES * (1 + self.loaders + self.adders + self.folders + self.awaiters + self.normalizers)


def plan_stream(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch for groups whose elements lie side by side; None where the GPU cannot hold one."""
    elements = _UNIT_ROWS * LANES * groups.chunk
    packed = {f"{name.upper()}_PACKED": groups.packed(name) for name in ("input", "output", "scale", "bias")}
    bulk = device.compute_capability >= (9, 0) and _has_long_runs(groups, elements)
    adders, normalizers = _HANDS_FOR_HALVES if groups.source.dtype.itemsize == 2 else _HANDS
    stage_bytes = _UNIT_BYTES + (VECTOR_BYTES if bulk and not packed["INPUT_PACKED"] else 0)
    buffers = 0 if packed["OUTPUT_PACKED"] else normalizers * LANES * groups.chunk * groups.widest
    loaders = 1 if bulk else _ORDINARY_LOADERS
    ring = _ring(groups, device, 1, (loaders, adders, normalizers), stage_bytes, buffers)
    cut = (groups.count, math.ceil(groups.length / elements), groups.count, 1)
    own = {"BULK": bulk, "ONE_RUN": groups.is_one_run, "ENDS": 2}
    constants: dict[str, str | int | bool] = {**groups.constants(spec), **packed, **own}
    return _plan("normalize_stream", "normalization_stream.cu", groups, spec, device, ring, stage_bytes, cut, constants)


def plan_strips(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch for groups that lie side by side; None where the GPU cannot hold a strip of them."""
    size, inner = groups.source.dtype.itemsize, groups.kept.sizes[-1]
    columns = next((nbytes // size for nbytes in _STRIP_BYTES if nbytes <= inner * size), 0)
    vector = columns // LANES
    copy_bytes = next((n for n in (16, 8, 4) if n >= size and groups.packed_columns("input", n // size)), 0)
    dense = groups.kept.strides["input"][-1] == size
    if vector == 0 or not dense or not copy_bytes or inner % vector:
        return None
    steps = _UNIT_BYTES // (columns * size)
    ring = _ring(groups, device, columns, (_COPIERS, _HANDS[0], _HANDS[1]), _UNIT_BYTES, 0)
    across = math.ceil(inner / columns)
    cut = (groups.count // inner * across, math.ceil(groups.length / steps), inner, across)
    constants = {
        **groups.constants(spec),
        "VECTOR": vector,
        "STEPS": steps,
        "COPY_BYTES": copy_bytes,
        "OUTPUT_PACKED": groups.packed_columns("output", vector),
        "SCALE_ACROSS": groups.differs_across("scale"),
        "BIAS_ACROSS": groups.differs_across("bias"),
    }
    return _plan("normalize_strips", "normalization_strips.cu", groups, spec, device, ring, _UNIT_BYTES, cut, constants)


def _ring(
    groups: Groups,
    device: DeviceProperties,
    columns: int,
    hands: tuple[int, int, int],
    stage_bytes: int,
    buffers: int,
) -> Ring:
    """As many stages as there is room for."""
    loaders, adders, normalizers = hands
    parts = 2 * adders * columns * _SUMS_BYTES
    of_stage = stage_bytes + _GATES_BYTES + columns * 4 * groups.normal_words
    stages = (device.shared_bytes_per_block - parts - buffers - 64) // of_stage
    return Ring(columns, min(_MOST_STAGES, stages), loaders, adders, 1, 1, normalizers)


def _plan(
    kernel: str,
    source: str,
    groups: Groups,
    spec: Normalization,
    device: DeviceProperties,
    ring: Ring,
    stage_bytes: int,
    cut: tuple[int, int, int, int],
    constants: dict[str, str | int | bool],
) -> Plan | None:
    bundles, units, inner, across = cut
    blocks = min(device.multiprocessors, bundles * units)
    able = device.compute_capability >= (8, 0) and device.cooperative_launch and groups.source.dtype.name in _FLOATS
    if not able or ring.stages < 2 or units > ring.stages * blocks:
        return None
    slots = min(bundles, (2 * ring.stages + 1) * blocks // units + 3)
    words = 1 + slots * ring.columns * (units * _SUMS_WORDS + groups.normal_words)
    index = groups.index_with((words, bundles * units + blocks, (units + LANES) * _UNIT_BYTES))
    arguments = (
        Pointer("input"),
        Pointer("output"),
        *operand_arguments(),
        Pointer("mean"),
        Pointer("variance"),
        Scratch(),
        groups.geometry_in(index),
        parameters(groups, spec),
        Struct((bundles, units, slots, inner, across), index),
    )
    launch = Launch(kernel, blocks, ring.threads, arguments, ring.stages * stage_bytes, cooperative=True)
    manned = {name.upper(): value for name, value in asdict(ring).items()}
    narrow = {"INDEX": "int" if index.itemsize == 4 else "long long", "FINISHERS": LANES}
    return Plan(source, constants_of(**{**constants, **manned, **narrow}), (launch,), scratch_bytes=8 * words)


def _has_long_runs(groups: Groups, elements: int) -> bool:
    """Whether bulk copies can load any unit: one of a single run, or one for each of its runs by a lane."""
    size, run = groups.source.dtype.itemsize, groups.reduced.sizes[-1]
    if groups.is_one_run:
        return True
    return groups.packed("input") and run * size >= _LEAST_RUN_BYTES and elements // run + 2 <= LANES
