"""The plan of normalizations of the short columns of panels: kernels/normalization_panels.cu."""

from __future__ import annotations

import math

from cudml.plan.device import DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout
from cudml.plan.loads import asked_for_ahead
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.steps import array_arguments, parameters
from cudml.plan.panels import MOST_BYTES, Staging, are_panels, panels_of_block, staging_of
from cudml.plan.plan import Launch, Plan, constants_of
from cudml.plan.spec import Normalization

#: Steps of a column at the most. A thread takes longer for more: (46500, 200, 5) float32 take an H100 315 us so and 137
#: by several threads for each column: kernels/normalization_long_panels.cu.
MOST_STEPS = 64

#: Halves of so few steps in rows of an even number are loaded in pairs otherwise: (4194304, 4, 4) float16 take 157 us
#: so and 120 otherwise, (29177, 2, 30) bfloat16 12.5 and 7.8, but (385683, 2, 87) 253 and 342.
_FEW_STEPS = 4

#: Bytes of the input for each multiprocessor at least: (21845, 16, 3) float32 take 6.5 us so and 12.3 otherwise, but
#: (1365, 16, 3) 3.1 and 2.5.
_LEAST_BYTES = 8192

#: Rows are no wider than so many bytes, or no multiple of these, or in float64 of a vector, which threads would load
#: otherwise: (45410, 16, 64) float32 take 128.6 us so and 125.2 otherwise, (46500, 50, 20) 132 and 143, (45410, 64, 8)
#: float64 132 and 125.6.
_ROW_BYTES = 64

#: Threads of a block, and of one that finds moments alone, and registers of a thread: (242187, 64, 3) float32 take 150
#: us so, 188 with 256 threads and 182 with 80 registers, mean and variance of (1937500, 16, 3) float16 80 with 256
#: threads and 85 with 128.
_THREADS, _THREADS_OF_READERS, _REGISTERS, _ALL_REGISTERS = 128, 256, 64, 65536

#: Blocks of a multiprocessor at least that normalize halves or floats, if there are so many panels, and blocks have so
#: many columns that half of them keep threads busy: (5430, 6, 106) float16s take an H200 10.0 us so and 14.4 by half as
#: many blocks, (137021, 3, 4) floats 7.5 and 10.6; but (11467, 7, 6), 96 columns, 3.9 and 3.0, (2922, 42, 8) float16s,
#: 32 columns, 7.4 and 4.2.
_BLOCKS, _LEAST_COLUMNS, _SIZES_IN_MORE_BLOCKS = 8, 160, (2, 4)

#: Elements that are normalized at a time: (484375, 64, 3) float16 take 185 us so and 255 with 32 of them.
_AT_ONCE = 16

#: Bytes of the input, at the most, that is asked for while the launch ahead ends: (65536, 5, 3) float32 take an H100
#: 4.5 us so and 5.5 otherwise, (196608, 5, 3) 14.8 and 15.1, (1000, 200, 5), by kernels/normalization_long_panels.cu,
#: 7.3 and 8.2.
_AHEAD_BYTES = 1 << 24


def plan_panels(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """One-shot blocks that move some panels each; None where groups are not the columns of such, or are faster else."""
    if not (_are_faster(groups, device) and lie_in_panels(groups)):
        return None
    inner, length, panels = groups.kept.sizes[-1], groups.length, _panels_of_block(groups, device)
    threads = _THREADS if groups.has("output") else _THREADS_OF_READERS
    staging = staging_of(groups.stored, length, inner, panels, threads, length, is_known=True)
    shares: dict[str, str | int | bool] = {
        "LENGTH": length,
        "HAS_OUTPUT": groups.has("output"),
        "RESIDENT": _ALL_REGISTERS // _REGISTERS // threads,
        "CHUNKS_AT_ONCE": max(1, _AT_ONCE // groups.chunk),
    }
    return one_shot_plan("panels", groups, spec, staging, shares, threads, panels, device)


def _panels_of_block(groups: Groups, device: DeviceProperties) -> int:
    inner = groups.kept.sizes[-1]
    nbytes, outer = groups.length * inner * groups.widest, groups.count // inner
    panels = panels_of_block(nbytes, outer, device)
    are_measured = groups.has("output") and groups.source.dtype.itemsize in _SIZES_IN_MORE_BLOCKS
    in_more = are_measured and panels * inner >= _LEAST_COLUMNS
    return panels_of_block(nbytes, outer, device, blocks=_BLOCKS) if in_more else panels


def lie_in_panels(groups: Groups) -> bool:
    """Whether the columns of the input do, and those of the output if there is one."""
    arrays = ((name, groups.arrays.get(name)) for name in ("input", "output"))
    return all(
        are_panels(array, groups.kept.dims(name), groups.reduced.dims(name))
        for name, array in arrays
        if isinstance(array, ArrayLayout)
    )


def one_shot_plan(
    kind: str,
    groups: Groups,
    spec: Normalization,
    staging: Staging,
    constants: dict[str, str | int | bool],
    threads: int,
    panels: int,
    device: DeviceProperties,
) -> Plan:
    """Of blocks of so many threads and panels, with constants of their own."""
    ahead = asked_for_ahead(groups.source, _AHEAD_BYTES, device)
    arguments = (*array_arguments(), groups.geometry, parameters(groups, spec), staging.places, ahead)
    blocks = math.ceil(groups.count // groups.kept.sizes[-1] / panels)
    launch = Launch(f"normalize_{kind}", blocks, threads, arguments, staging.shared_bytes, early=True)
    defined = constants_of(**{**groups.constants(spec), **staging.constants, "EVICTION": groups.eviction, **constants})
    return Plan(f"normalization_{kind}.cu", defined, (launch,))


def _are_faster(groups: Groups, device: DeviceProperties) -> bool:
    """Whether these are short columns of narrow rows of floats, and many."""
    size, inner = groups.source.dtype.itemsize, groups.kept.sizes[-1]
    row, of_multiprocessor = inner * size, groups.bytes_of_multiprocessor(device)
    if not 2 <= groups.length <= MOST_STEPS or groups.length * inner * groups.widest > MOST_BYTES:
        return False
    is_paired = size == 2 and groups.length <= _FEW_STEPS and inner % 2 == 0
    is_wide = row >= _ROW_BYTES and row % (VECTOR_BYTES if size == 8 else _ROW_BYTES) == 0
    return groups.are_floats and of_multiprocessor >= _LEAST_BYTES and not (is_wide or is_paired)
