"""The plans of bundles that no cluster holds, which are read twice, and of their moments:
kernels/normalization_bundle_tiles.cu.
"""

from __future__ import annotations

from dataclasses import replace

from cudml.plan.device import LANES, RESERVED_BYTES, DeviceProperties
from cudml.plan.layout import VECTOR_BYTES
from cudml.plan.normalization.bundle import LONG_RUN_BYTES, MOST_BLOCKS, Bundle, are_uneven_runs, repeat_in_pieces
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.steps import SUMS_BYTES, apply_step, sum_step
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: Bytes of the input at least, and tiles of a group, if these are moments. Those of (1024, 512, 5, 5) bfloat16s over
#: 0, 2, 3 take an H100 17 us and 70 as lines, (512, 2048, 7, 7) floats 77 and 88, but (128, 2048, 7, 7), four tiles, 25
#: and 21.
_LEAST_BYTES_OF_MOMENTS, _LEAST_TILES_OF_MOMENTS = 1 << 23, 8

#: Bytes of runs of whole vectors at the most, and of groups at least that are faster so than streamed: (1, 512, 512,
#: 32, 8) floats over 1, 2, 4, 8 MB, take an H100 293 us so and 632, of 16 570 and 658, of 32 1086 and 1229, but (2,
#: 256, 256, 32, 16), 4 MB, 294 and 255.
_MOST_RUN_BYTES, _LEAST_GROUP_BYTES = 128, 6 << 20

#: If only moments are asked for, bytes of all for each multiprocessor, and of an element that is too wide: those of
#: (41641, 2, 3, 2) floats over 0, 2, 3 take an H200 5.2 us so and 3.6 as lines, of (6004, 192, 4, 4) 28 and 27, of
#: (6212935, 2, 4, 2) float64s 257 and 198.
_LEAST_BYTES_OF_READ, _WIDEST = 1 << 15, 8

#: Bytes of a tile at the most, threads of a block, and blocks of a multiprocessor. (8192, 256, 7, 7) floats over 0, 2,
#: 3 take 429 us so, 435 by 18 KB and 128 threads, 480 by 36 KB and 512 threads and 436 by 70 KB.
_TILE_BYTES, _THREADS, _RESIDENT = 36_000, 256, 4

#: Pieces of which a thread normalizes a vector, and blocks of a multiprocessor, which leaves 80 registers: (1, 512,
#: 512, 32, 4) float16s over 1, 2, 4 take 104 us so, 117 by 64 registers, and by 8 pieces 120.
_PIECES_OF_THREAD, _RESIDENT_OF_APPLIED = 4, 3


def plan_tiled_bundles(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The steps for groups that are slow as lines and fit no cluster; None where there are no such steps."""
    if not _are_short_runs(groups, LONG_RUN_BYTES) or not are_uneven_runs(groups):
        return None
    bundle = _bundle_of(groups)
    if groups.has("output"):
        is_large = bundle.bytes(groups) > MOST_BLOCKS * device.shared_bytes_per_block
    else:
        tiles = bundle.units(groups) / _units_of_tile(bundle, groups, device)
        is_large = groups.nbytes >= _LEAST_BYTES_OF_MOMENTS and tiles >= _LEAST_TILES_OF_MOMENTS
    return _plan(bundle, groups, spec, device) if is_large else None


def plan_tiled_bundles_of_any(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The steps for any short runs of groups that no block holds; None where there are no such steps, or others are
    faster."""
    size = groups.source.dtype.itemsize
    if groups.has("output"):
        are_faster = groups.length * size >= _LEAST_GROUP_BYTES
    else:
        are_faster = size < _WIDEST and groups.bytes_of_multiprocessor(device) >= _LEAST_BYTES_OF_READ
    is_able = are_faster and _are_short_runs(groups, _MOST_RUN_BYTES)
    return _plan(_bundle_of(groups), groups, spec, device) if is_able else None


def _are_short_runs(groups: Groups, most_bytes: int) -> bool:
    """Whether groups are several."""
    if groups.are_columns or len(groups.reduced.sizes) == 1 or not groups.are_floats:
        return False
    return groups.reduced.sizes[-1] * groups.source.dtype.itemsize <= most_bytes


def _plan(bundle: Bundle, groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The sums of all tiles, and every piece again; None where vectors do not move these."""
    names = [name for name in ("input", "output") if groups.has(name)]
    moves = all(bundle.moves(groups, name) for name in names) and bundle.vectors(groups) <= _THREADS
    if not (device.hardware_gates and moves and repeat_in_pieces(groups)):
        return None
    sums = _sum_step(bundle, groups, spec, device)
    return replace(sums, then=_apply_step(bundle, groups, spec)) if groups.has("output") else sums


def _bundle_of(groups: Groups) -> Bundle:
    """With pieces as long as shall be."""
    bundle = Bundle.smallest(groups)
    while twice := bundle.twice(groups):
        bundle = twice
    return bundle


def _units_of_tile(bundle: Bundle, groups: Groups, device: DeviceProperties) -> int:
    """A power of two, as tiles are added up pairwise."""
    units, most_bytes = 1, min(_TILE_BYTES, device.shared_bytes_per_block // 2)
    while units < bundle.units(groups) and bundle.bytes_of(groups, 2 * units) <= most_bytes:
        units *= 2
    return units


def _sum_step(bundle: Bundle, groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan:
    units = _units_of_tile(bundle, groups, device)
    nbytes = bundle.bytes_of(groups, units)
    room = device.shared_bytes_per_multiprocessor // (nbytes + RESERVED_BYTES + _static_bytes(bundle, units))
    groups = groups.in_tiles(units * bundle.unit(groups))
    constants = _constants(bundle, groups, spec, units, max(1, min(_RESIDENT, room)))
    return sum_step("bundle_tiles", groups, spec, constants, _THREADS, bundle.count, nbytes)


def _apply_step(bundle: Bundle, groups: Groups, spec: Normalization) -> Plan:
    pieces = _THREADS // bundle.vectors(groups) * _PIECES_OF_THREAD
    groups = groups.in_tiles(pieces * bundle.run)
    constants = _constants(bundle, groups, spec, 1, _RESIDENT_OF_APPLIED)
    return apply_step("bundle_tiles", groups, spec, constants, _THREADS, bundle.count)


def _constants(
    bundle: Bundle, groups: Groups, spec: Normalization, units: int, resident: int
) -> dict[str, str | int | bool]:
    own = {"BLOCK_UNITS": units, "UNITS": units, "BLOCK": _THREADS, "RESIDENT": resident}
    own |= {"HAS_OUTPUT": groups.has("output"), "PIECES_OF_THREAD": _PIECES_OF_THREAD}
    return {**groups.constants(spec), **bundle.constants(groups), **own}


def _static_bytes(bundle: Bundle, units: int) -> int:
    """kernels/normalization_bundle_tiles.cu: sums of units, of the tile and of sets of tiles, and first elements."""
    sums = bundle.count * (units + 2 + _THREADS // LANES)
    return sums * SUMS_BYTES + 2 * VECTOR_BYTES
