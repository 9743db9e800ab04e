"""The plans of normalizations of columns, groups that lie side by side: kernels/normalization_columns.cu."""

from __future__ import annotations

import math
from dataclasses import replace

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout
from cudml.plan.loads import asked_for_ahead
from cudml.plan.normalization.bundles import plan_bundles
from cudml.plan.normalization.column_sums import columns_of
from cudml.plan.normalization.column_tiles import (
    NARROW_ROW_BYTES,
    Columns,
    applied_columns,
    clusters_of,
    rows_of,
)
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.narrow_strips import narrow_clusters
from cudml.plan.normalization.steps import apply_step, array_arguments, parameters, sum_step
from cudml.plan.normalization.strips import plan_strips
from cudml.plan.normalization.whole_columns import (
    are_read_one_by_one,
    are_short_with_operands,
    are_whole_halves,
    whole_columns,
)
from cudml.plan.plan import Launch, Plan, Struct, constants_of
from cudml.plan.spec import Normalization

#: Threads that shall fit a multiprocessor at a time: they have 80 registers each, 64 if they hold less, or 128 in
#: clusters, for the sums of rounds, and for bytes that are normalized. Mean and variance of (863, 114492) floats take
#: an H100 115 us with 64 registers and 161 with 80, as blocks of 512 threads find room for two.
_RESIDENT_THREADS, _RESIDENT_THREADS_OF_LESS, _RESIDENT_THREADS_OF_TILES = 768, 1024, 512

#: The same where whole tiles of bytes are normalized in double: with fewer registers threads keep some in memory.
#: (4194304, 8) int8s take an H200 99 us so and 136 otherwise, (64, 112, 112, 64) over 0, 1, 2 152 and 212; but uint8s
#: into halves 48 and 44, 76 and 69.
_RESIDENT_THREADS_OF_DOUBLES = 384

#: The same where a thread has scale and bias of each of its steps, and rows begin amid sectors: of halves, and of
#: others. Two blocks of 320 threads take 87 us for (300, 100005) float16s, one 108; two of 304 98 us for (600, 24997)
#: floats, one 77.
_RESIDENT_WITH_OPERANDS_OF_HALVES, _RESIDENT_WITH_OPERANDS = 640, 512

#: Blocks of a multiprocessor, at the most: no GPU holds fewer.
_MOST_RESIDENT = 16

#: Bytes for each multiprocessor, at the most, that clusters normalize: 6 MB take an H100 about 10 us, less than two
#: bare launches took hosts, 12 and 18. Where launches are recorded, two steps are faster but for few halves. In
#: clusters and in two steps (3136, 96) floats take 5.8 us and 4.6, (2500, 512), 5 MB, 9.1 and 7.6, (6272, 512) 15.3 and
#: 13.4, (1600, 2048) 15.4 and 13.5; halves (1300, 160) 4.2 and 5.0, (4000, 640), 5 MB, 8.1 and 9.2, (3136, 2048) 19.1
#: and 16.9.
_MOST_OF_CLUSTERS = 47_000

#: Bytes of the input, at the most, that is asked for while the launch ahead ends: of whole columns that are normalized,
#: in two steps, and where only moments are wanted. On an H100 (64, 32768) floats take 7.7 us so and 8.3 otherwise, (64,
#: 49152) 10.1 and 9.9; (32768, 64) 11.2 and 13.0, (49152, 64) 14.3 and 15.5, (65536, 64) 19.5 and 18.8; moments of
#: (4096, 1024) 8.4 and 9.5, but of (64, 7, 7, 2048) over 0, 1, 2 an H200 9.8 and 9.4.
_AHEAD_BYTES_OF_WHOLE, AHEAD_BYTES_OF_STEPS, _AHEAD_BYTES_OF_MOMENTS = 10 << 20, 13 << 20, 1 << 24

#: What all warps of a block have of them at the most, in static shared memory, of which there are 48 KiB.
_NARROW_ROWS_BYTES = 36 << 10


def plan_columns(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan:
    """The launches for groups that lie side by side."""
    narrow = narrow_clusters(groups, device)
    if narrow is not None:
        return _one_launch("clusters", groups, spec, narrow)
    cut, chosen = _cut(groups, device)
    if _are_whole(groups, chosen):
        return _one_launch("columns", cut, spec, chosen, _input_ahead(groups, _AHEAD_BYTES_OF_WHOLE, device))
    bundled = plan_bundles(groups, spec, device)
    if bundled is not None:
        return bundled
    clusters = clusters_of(groups, device)
    if clusters is not None and groups.source.size * groups.widest <= _MOST_OF_CLUSTERS * device.multiprocessors:
        return _one_launch("clusters", groups, spec, clusters)
    streamed = plan_strips(groups, spec, device) if groups.has("output") else None
    return streamed or _two_steps(cut, spec, device, chosen)


def _cut(groups: Groups, device: DeviceProperties) -> tuple[Groups, Columns]:
    """The groups, by rows or not, and how their columns are shared out, whole or in tiles that are added up."""
    rows, chosen = rows_of(groups), columns_of(groups, device)
    if rows is None:
        return groups, chosen
    of_rows = whole_columns(rows, device) if _are_whole(groups, chosen) else columns_of(rows, device)
    if of_rows is None or rows.row > min(of_rows.width, applied_columns(rows).width):
        return groups, chosen
    return rows, of_rows


def _are_whole(groups: Groups, chosen: Columns) -> bool:
    return chosen.rounds == 1 and groups.length <= chosen.tile


def _two_steps(groups: Groups, spec: Normalization, device: DeviceProperties, added: Columns) -> Plan:
    """Each with tiles of its own."""
    in_tiles = groups.in_tiles(added.tile)
    constants, ahead = _constants(in_tiles, spec, added), _input_ahead(groups, AHEAD_BYTES_OF_STEPS, device)
    sums = sum_step("columns", in_tiles, spec, constants, added.threads, added.width, ahead=ahead)
    if not groups.has("output"):
        return sums
    applied = applied_columns(groups)
    in_tiles = groups.in_tiles(applied.tile)
    constants = _constants(in_tiles, spec, applied)
    return replace(sums, then=apply_step("columns", in_tiles, spec, constants, applied.threads, applied.width))


def _one_launch(kind: str, groups: Groups, spec: Normalization, chosen: Columns, ahead: Struct | None = None) -> Plan:
    arguments = (*array_arguments(), groups.geometry, parameters(groups, spec), *((ahead,) if ahead else ()))
    launch = Launch(f"normalize_{kind}", chosen.grid(groups), chosen.threads, arguments, early=True)
    return Plan(f"normalization_{kind}.cu", constants_of(**_constants(groups, spec, chosen)), (launch,))


def _constants(groups: Groups, spec: Normalization, chosen: Columns) -> dict[str, str | int | bool]:
    constants = column_constants(groups, spec, chosen)
    early = {"OPERANDS_EARLY": _loads_operands_early(groups, chosen)}
    return constants if chosen.blocks > 1 else constants | early


def column_constants(groups: Groups, spec: Normalization, chosen: Columns) -> dict[str, str | int | bool]:
    """Those of kernels/normalization_spans.cuh, and of clusters of blocks."""
    packed = {f"{name.upper()}_PACKED": groups.packed_columns(name, chosen.vector) for name in ("input", "output")}
    own: dict[str, str | int | bool] = {}
    for name in ("scale", "bias"):
        across = groups.operands.differ_across(name)
        own[f"{name.upper()}_ACROSS"] = across
        own[f"{name.upper()}_PACKED"] = groups.packed_columns(name, chosen.vector) if across else groups.packed(name)
    is_part = groups.length < groups.chunk  # of a chunk
    is_whole = groups.row % chosen.width == 0 and (is_part or groups.length % (chosen.tile * chosen.blocks) == 0)
    if chosen.blocks > 1:
        own["CLUSTER"] = chosen.blocks
    else:
        own |= {"HAS_OUTPUT": groups.has("output"), "ROUNDS": chosen.rounds}
    return {
        **groups.constants(spec),
        "EVICTION": groups.eviction,
        "VECTOR": chosen.vector,
        "EVEN_STEPS": chosen.even_steps(groups),
        "SPAN": chosen.span,
        "LENGTH": groups.length if is_part else 0,
        "ACROSS": chosen.across,
        "ROW_COLUMNS": groups.row if groups.by_rows else 0,
        "SPANS": chosen.spans,
        **packed,
        **own,
        "INPUT_ROW": _narrow_row(groups, "input", chosen),
        "OUTPUT_ROW": _narrow_row(groups, "output", chosen),
        "WHOLE": is_whole,
        "RESIDENT": max(1, min(_resident_threads(groups, chosen, is_whole) // chosen.threads, _MOST_RESIDENT)),
    }


def _input_ahead(groups: Groups, most_bytes: int, device: DeviceProperties) -> Struct:
    """The argument of kernels that ask for the input ahead, of so many bytes at the most if it is normalized."""
    return asked_for_ahead(groups.source, most_bytes if groups.has("output") else _AHEAD_BYTES_OF_MOMENTS, device)


def _loads_operands_early(groups: Groups, chosen: Columns) -> bool:
    """Whether a thread that has whole columns loads scale and bias before their sums are there: those of columns."""
    is_whole = groups.has("output") and not groups.tile and chosen.rounds == 1
    return is_whole and not groups.operands.differ_down and not are_whole_halves(groups)


def _resident_threads(groups: Groups, chosen: Columns, is_whole: bool) -> int:
    are_normalized_bytes = groups.source.dtype.itemsize == 1 and groups.has("output")
    if are_normalized_bytes and groups.is_double and groups.tile and is_whole:
        return _RESIDENT_THREADS_OF_DOUBLES
    if are_normalized_bytes or groups.tile or chosen.blocks > 1:
        return _RESIDENT_THREADS_OF_TILES
    if groups.operands.differ_down and not groups.rows_begin_at_multiples("input"):
        are_halves = groups.are_floats and groups.source.dtype.itemsize == 2
        return _RESIDENT_WITH_OPERANDS_OF_HALVES if are_halves else _RESIDENT_WITH_OPERANDS
    hold_more = groups.has("output") and not are_short_with_operands(groups, chosen)
    return _RESIDENT_THREADS if hold_more or are_read_one_by_one(groups, chosen) else _RESIDENT_THREADS_OF_LESS


def _narrow_row(groups: Groups, name: str, chosen: Columns) -> int:
    """The bytes from row to row of a tile that a warp moves together with others; 0 where rows are wide or not dense,
    or have more columns than a warp has lanes for. Gaps that are no piece of what is moved at a time are loaded too,
    but nothing may be stored there."""
    layout, gap = groups.arrays.get(name), groups.gap_of_rows(name)
    if not isinstance(layout, ArrayLayout) or gap is None or chosen.across > LANES:
        return 0
    if not (groups.tile or groups.by_rows):
        return 0
    row = groups.row * layout.dtype.itemsize
    pitch, outer = row + gap, groups.kept.strides[name][:-1]
    may_have_gaps = name == "input" and groups.by_rows and all(stride > 0 for stride in outer)
    moved = gap == 0 or (may_have_gaps and gap < VECTOR_BYTES)
    aligned = layout.lies_in_steps(VECTOR_BYTES, (*outer, chosen.steps * pitch))
    narrow = pitch < NARROW_ROW_BYTES and groups.row <= chosen.width
    of_span = chosen.steps * pitch + math.ceil(pitch / VECTOR_BYTES) * VECTOR_BYTES
    fits = chosen.threads // chosen.across * of_span <= _NARROW_ROWS_BYTES
    return pitch if moved and aligned and narrow and fits else 0
