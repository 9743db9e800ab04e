"""The plans of normalizations of large groups that lie side by side, in the input or in the output:
kernels/normalization_strips.cu.
"""

from __future__ import annotations

import math

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout, power_of_two
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.operands import OF_ELEMENTS, OF_RUNS
from cudml.plan.normalization.ring import Ring, plan_ring
from cudml.plan.normalization.strip_cuts import (
    ADDERS,
    LARGE_UNIT_BYTES,
    STRIP_BYTES,
    WIDE_STRIP_BYTES,
    Access,
    Strips,
    adders_take_turns,
    even_rows,
    row_shift,
    share_operands,
    strips_of,
)
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: How the line is manned. More folders or awaiters would ask for so much that the others come late. More normalizers
#: would store so much at a time that the loads which all blocks wait for come late: (64, 256, 128, 128) floats over
#: 0, 2 take an H200 0.565 ms, and 0.596 with 8, float16s 0.295 and 0.302. But where halves have a scale or a bias for
#: each column, or strips are narrow, they are twice the work: (4096, 65536) over 0 take 0.294 ms with 8, and 0.322 with
#: 4, (64, 256, 256, 64) over 0, 2 0.313 and 0.412.
_COPIERS, _FOLDERS, _AWAITERS = 2, 1, 1
_NORMALIZERS, _NORMALIZERS_OF_HALVES = 4, 8

#: Chunks that an adder adds up side by side, at the most.
_MOST_CHUNKS = 8

#: Loaders that copy single elements: every second of (4096, 65536) floats takes 0.437 ms, and 0.452 with 4.
_MANY_COPIERS = 8

#: Seconds in which a loader begins the copy of a row of halves in bulk. Two are enough unless memory is faster: an H100
#: takes 388 us for (64, 256, 128, 128) float16s over 0, 2 with 2, and 392 with 4, an H200 351 and 291, and 295 by 16
#: bytes. Where each column has a scale or a bias of its own an H200 takes 598 us for (8192, 65536) with 4, and 583 by
#: 16 bytes.
_BULK_ROW_SECONDS, _BULK_COPIERS, _MORE_BULK_COPIERS = 37e-9, 2, 4

#: As many as make the rows that a loader copies alike, whatever their shift, of halves and of wide strips.
_COPIERS_OF_SHIFTED = 4

#: Units that normalizers hold in registers: usually; of rows of floats; and of pieces of which two are more than a
#: ring. (4096, 65536) floats over 0 take 0.560 ms with 2, 0.567 with 1 and 0.564 with 3, (64, 256, 128, 128) over 0, 2
#: 0.565, 0.575 and 0.582. (65536, 4096) take 0.604 ms with 5 or 6, 0.611 with 4 and 0.615 with 3; transposed 0.662 with
#: 5, 0.673 with 4 and 1.27 with 6; but where strips are few (50176, 512) 69.5 us with 2 and 74.0 with 5, (100000, 256)
#: 73.2 and 81.2, (65536, 1024), 16 strips, 155 with either. Halves lose, whose normalizers are busy all the time.
_HELD, _HELD_OF_ROWS, _HELD_OF_LARGE, _FEW_STRIPS = 1, 2, 5, 16

#: Parts of a unit that are stored by the same code: of such large pieces, and of floats whose scale and bias are the
#: same across the strip. Transposed (65536, 4096) floats over 0 take 0.614 ms with 2, 0.627 with 1 and 0.629 with 4,
#: (64, 256, 128, 128) over 0, 2 0.561 and 0.564; others lose up to a point.
_PARTS_OF_UNIT = 2

#: The last takes registers from the other warps: the only GPUs that do that, and registers of a thread of both.
_SHARES_REGISTERS, _NORMALIZER_REGISTERS, _OTHER_REGISTERS = (9, 0), 240, 128

#: How many times as many columns a block folds as if all blocks folded some: their records are read by whole sectors
#: then. (4096, 65536) floats over 0 take 0.560 ms so, and 0.563 with as many; transposed (65536, 4096) 0.637 in place
#: of 0.657, and 0.648 with four times as many. But as many where a lane had more pieces of a column than so many, which
#: it loads 4 at a time: (33792, 2048) floats, 132 pieces, take 170 us so and 205 otherwise, (33792, 1000) float16s 59
#: and 69.
_FOLDED, _MOST_OF_LANE = 2, 8

#: What the cache loads at a time, if asked to. That pays where strips begin in the middle of it: (4096, 65536) floats
#: in rows padded by 32 take 0.591 ms so, and 0.605 otherwise; where none does they take 0.585 ms, and 0.570 otherwise.
#: Nor does it pay where rows have but a few strips, whose gaps are loaded too.
_NEIGHBOURHOOD, _LEAST_ACROSS = 256, 16

#: Bytes of the input for each multiprocessor, at least, where an array is turned: of transposed floats 2048 x 2048 over
#: 1 take 15.2 us in place of 19.4, 1536 x 1536 13.5 in place of 13.0; (65536, 4096) over 0 take 0.733 ms, and 0.808 in
#: two steps.
_LEAST_TURNED_BYTES = 90_000

#: And steps: fewer leave most of a unit empty. (44276, 105) float64s over 0 from columns into rows take an H200
#: 39 us as strips, but (6, 4570364) 5250, and 174 otherwise, (8192, 32, 64) floats over 2, whose axes lie in the order
#: 0, 2, 1, 134 and 71.
_LEAST_TURNED_STEPS = 80

#: And where none is, the part of the second-level cache that the input fills at least: what is smaller is still there
#: when the second of two steps reads it. Halves take longer to be added up, and in strips of whose columns less than
#: 0.8 exist. As strips and in two steps (16384, 64) floats over 0 take an H100 10.6 us and 9.1, (40960, 96) 25.2 and
#: 19.0, (30720, 128), 15.7 MB, 18.5 and 18.2, (49152, 128) 28.1 and 27.8, (65536, 128) 32.0 and 37.6; halves (5120,
#: 256) 11.4 and 9.9, (9765, 512), 10 MB, 18.4 and 14.9, (6272, 1024), 12.8 MB, 18.8 and 17.1, (13671, 512), 14 MB, 18.8
#: and 19.7; (35000, 200), 14 MB, 25.5 and 21.8, (98958, 96), 19 MB, 28.8 and 24.7.
_LEAST_OF_CACHE, _LEAST_OF_CACHE_OF_HALVES, _LEAST_OF_CACHE_UNLESS_FILLED, _FILLED = 0.36, 0.25, 0.38, 0.8


def plan_turned_strips(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch where the input or the output is dense along the groups, and the other across them; None where there
    is no such launch, or something else is faster."""
    access = Access.of(groups)
    if access is None or not access.is_turned or groups.length < _LEAST_TURNED_STEPS:
        return None
    if groups.nbytes < _LEAST_TURNED_BYTES * device.multiprocessors:
        return None
    return plan_strips(groups, spec, device)


def plan_strips(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch for groups that lie side by side; None where the GPU cannot hold a strip, or two steps are faster."""
    access = Access.of(groups) if groups.are_floats else None
    strips = strips_of(groups, access, device) if access else None
    if access is None or strips is None or strips.pieces * LANES < strips.columns:
        return None
    if not access.is_turned and _stays_in_cache(groups, strips, device):
        return None
    vector = groups.chunk if access.output_turned else strips.columns // LANES
    if access.is_turned and groups.kept.sizes[-1] % vector:
        return None
    among = strips.cut.across >= _LEAST_ACROSS and _begin_amid_neighbourhoods(groups, access)
    in_bulk = 0 if among else _bulk_loaders(groups, access, strips, device)
    ring = _ring(groups, access, strips, in_bulk or _loaders(groups, access, strips), device)
    takes_registers = ring.held == _HELD_OF_LARGE
    folded = _folded(strips)
    operands = _operand_kinds(groups)
    in_parts = (takes_registers or _are_simple_floats(groups, access)) and OF_ELEMENTS not in operands.values()
    teams = ring.teams(strips.cut, device)
    if access.shifted and teams < (2 if 2 * strips.piece > strips.stages else 1):
        return None  # (65536, 1001) floats take an H100 382 us so, and 353 in two steps
    constants: dict[str, str | int | bool] = {
        **groups.constants(spec),
        **operands,
        "NORMALIZER_REGISTERS": _NORMALIZER_REGISTERS if takes_registers else 0,
        "OTHER_REGISTERS": _OTHER_REGISTERS if takes_registers else 0,
        "AWAITERS": ring.awaiters,
        "ADDER_SETS": _adder_sets(groups, access, strips, ring.adders),
        "VECTOR": vector,
        "UNIT_PARTS": _PARTS_OF_UNIT if in_parts else 1,
        "STEPS": strips.steps,
        "EVEN_ROWS": even_rows(groups, strips.steps),
        "TEAMS_APART": 1 < teams <= strips.cut.across,
        "BULK": in_bulk > 0,
        "AMONG": among,
        **_moves(groups, access, vector),
        "FOLDED_COLUMNS": folded,
        "FOLDED_PIECES": _pieces_of_lane(strips, folded),
    }
    shared_bytes = strips.stages * strips.stage_bytes
    return plan_ring("strips", groups, spec, device, ring, shared_bytes, strips.cut, constants)


def _folded(strips: Strips) -> int:
    """Columns that a block folds."""
    of_all = power_of_two(math.ceil(strips.columns / strips.pieces))
    folded = min(LANES, _FOLDED * of_all)
    return folded if _pieces_of_lane(strips, folded) <= _MOST_OF_LANE else min(LANES, of_all)


def _pieces_of_lane(strips: Strips, folded: int) -> int:
    """Of a column that a lane folds, where a warp folds so many."""
    return power_of_two(math.ceil(strips.pieces * folded / LANES))


def _moves(groups: Groups, access: Access, vector: int) -> dict[str, int]:
    """How elements are loaded and stored, so many columns at a time."""
    return {
        "COPY_BYTES": access.copy_bytes,
        "SHIFTED": access.shifted,
        "ROW_SHIFT": row_shift(groups, access),
        "INPUT_TURNED": access.input_turned,
        "OUTPUT_TURNED": access.output_turned,
        "OUTPUT_PACKED": groups.packed("output") if access.output_turned else groups.packed_columns("output", vector),
        "SCALE_ACROSS": groups.operands.differ_across("scale"),
        "BIAS_ACROSS": groups.operands.differ_across("bias"),
    }


def _ring(groups: Groups, access: Access, strips: Strips, loaders: int, device: DeviceProperties) -> Ring:
    return Ring(
        columns=strips.columns,
        piece=strips.piece,
        stages=strips.stages,
        held=_held(groups, access, strips, device),
        loaders=loaders,
        adders=max(ADDERS, strips.columns // LANES),
        folders=_FOLDERS,
        awaiters=_AWAITERS,
        normalizers=_NORMALIZERS_OF_HALVES if _are_much_work(groups, access, strips) else _NORMALIZERS,
    )


def _stays_in_cache(groups: Groups, strips: Strips, device: DeviceProperties) -> bool:
    """Whether two steps are faster, as the second one reads the input from there."""
    size, least = groups.source.dtype.itemsize, _LEAST_OF_CACHE
    if size == 2:
        are_filled = strips.cut.inner >= _FILLED * strips.cut.across * strips.columns
        least = _LEAST_OF_CACHE_OF_HALVES if are_filled else _LEAST_OF_CACHE_UNLESS_FILLED
    return groups.nbytes < least * device.cache_bytes


def _operand_kinds(groups: Groups) -> dict[str, int]:
    """Those of scale and bias. Where the input is turned these could be the same for neighbours, but here they are
    loaded for each row."""
    kinds = {f"HAS_{name.upper()}": groups.operands.kind_of(name) for name in ("scale", "bias")}
    return {name: OF_ELEMENTS if kind == OF_RUNS else kind for name, kind in kinds.items()}


def _loaders(groups: Groups, access: Access, strips: Strips) -> int:
    if access.copy_bytes < VECTOR_BYTES:
        return _MANY_COPIERS
    more = access.shifted and (groups.source.dtype.itemsize == 2 or _are_wide(groups, strips))
    return _COPIERS_OF_SHIFTED if more else _COPIERS


def _bulk_loaders(groups: Groups, access: Access, strips: Strips, device: DeviceProperties) -> int:
    """Those of halves in wide strips; 0 where copies of 16 bytes are as fast."""
    row_bytes = strips.columns * groups.source.dtype.itemsize
    are_wide_halves = groups.source.dtype.itemsize == 2 and row_bytes == STRIP_BYTES[0]
    if not (device.bulk_copies and access.is_plain and are_wide_halves and strips.unit_bytes == LARGE_UNIT_BYTES):
        return 0
    read_bytes = _BULK_ROW_SECONDS * _reading_speed(groups, device)
    if read_bytes < _BULK_COPIERS * row_bytes:
        return _BULK_COPIERS
    return _MORE_BULK_COPIERS if share_operands(groups) else 0


def _reading_speed(groups: Groups, device: DeviceProperties) -> float:
    """Bytes of the input that a multiprocessor gets in a second while as many elements are written."""
    size, output = groups.source.dtype.itemsize, groups.arrays["output"]
    assert isinstance(output, ArrayLayout)
    return device.bytes_per_second / device.multiprocessors * size / (size + output.dtype.itemsize)


def _are_wide(groups: Groups, strips: Strips) -> bool:
    return strips.columns * groups.source.dtype.itemsize == WIDE_STRIP_BYTES


def _are_much_work(groups: Groups, access: Access, strips: Strips) -> bool:
    """Whether the columns of a strip are halves that ask for more normalizers."""
    size = groups.source.dtype.itemsize
    wide = strips.columns * size == STRIP_BYTES[0] and not access.input_turned
    return size == 2 and not (access.output_turned or (wide and share_operands(groups)))


def _are_simple_floats(groups: Groups, access: Access) -> bool:
    """Whether two parts of a unit are stored faster than all of it."""
    return groups.source.dtype.itemsize >= 4 and share_operands(groups) and not access.is_turned


def _adder_sets(groups: Groups, access: Access, strips: Strips, adders: int) -> int:
    """Sets of adders that take turns with pieces, where that is better than to share every unit, and chunks are so few
    that one team can have them all."""
    apart = adders_take_turns(groups, access)
    return adders * LANES // strips.columns if apart and strips.steps <= _MOST_CHUNKS * groups.chunk else 1


def _held(groups: Groups, access: Access, strips: Strips, device: DeviceProperties) -> int:
    """Units that normalizers hold: several, where registers are enough for that."""
    usual = access.copy_bytes == VECTOR_BYTES and not access.output_turned
    if not usual or groups.source.dtype.itemsize < 4 or groups.operands.are_own:
        return _HELD
    if 2 * strips.piece > strips.stages:
        holds_less = strips.piece > _HELD_OF_LARGE  # than all of a piece, whose last unit shows that it is known
        if device.compute_capability != _SHARES_REGISTERS or not holds_less:
            return _HELD
        if access.is_turned or strips.cut.bundles > _FEW_STRIPS:
            return _HELD_OF_LARGE
    return _HELD if access.is_turned else _HELD_OF_ROWS


def _begin_amid_neighbourhoods(groups: Groups, access: Access) -> bool:
    strides = (*groups.kept.strides["input"][:-1], *groups.reduced.strides["input"])
    return access.is_plain and any(stride % _NEIGHBOURHOOD for stride in strides)
