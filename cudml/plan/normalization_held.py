"""The plans of normalizations of groups that lie side by side in the input and one after the other in the output, read
once: kernels/normalization_held.cu.
"""

from __future__ import annotations

import math
from dataclasses import replace

from cudml.plan.device import RESERVED_BYTES, DeviceProperties
from cudml.plan.groups import Groups
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout, power_of_two
from cudml.plan.normalization_steps import SECTOR_WORDS, SUMS_BYTES, SUMS_WORDS, array_arguments, parameters
from cudml.plan.normalization_turned import BLOCK, Turned, moments_of
from cudml.plan.plan import Launch, Plan, Scratch, Struct, constants_of
from cudml.plan.spec import Normalization

#: A tile: bytes in all, bytes of a column at least, and groups at the most. On an H200 columns of 256 bytes are slower
#: for float32 of 4096 steps, by 5 %.
_TILE_BYTES, _LEAST_COLUMN_BYTES, _MOST_GROUPS = 65536, 128, 256

#: Blocks that share a multiprocessor: with one all would wait at once.
_MOST_RESIDENT, _LEAST_RESIDENT = 3, 2

#: Tiles of a group at the most, by the bytes of the input's elements: an H200 needs 0.82 ms for 32768 groups of 8192
#: floats and 0.88 in two passes, for 16384 of 16384 0.88 and 0.86; for 65536 of 4096 halves 0.47 and 0.51, for 16384 of
#: 16384 0.56 and 0.48.
_MOST_TILES = {2: 8, 4: 16, 8: 8}

#: Tiles for each multiprocessor at least: 2048 x 2048 floats take 13.5 us and in two passes 15.6, 1536 x 1536 12.2 and
#: 11.0. And the part of its tiles that a group fills at least: a block that holds nothing waits all the same.
_LEAST_TILES, _LEAST_PART = 1.9, 3 / 4


def plan_held(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch that reads the input once; None where something else is faster."""
    if not (device.compute_capability >= (9, 0) and device.cooperative_launch and groups.are_floats):
        return None
    mean = groups.arrays.get("mean")
    turned = Turned.of(groups, mean if isinstance(mean, ArrayLayout) else moments_of(groups, spec))
    if turned is None or not _reduces_last_axis_only(turned):
        return None
    turned = replace(turned, tile=_tile(groups))
    down, across = turned.tiles
    bundles, resident = math.prod(turned.outer.sizes) * down, _resident(turned, device)
    blocks = resident * device.multiprocessors
    if resident < _LEAST_RESIDENT or across > min(_MOST_TILES[groups.source.dtype.itemsize], blocks):
        return None
    is_filled = groups.length >= _LEAST_PART * across * turned.tile[1]
    if not is_filled or bundles * across < _LEAST_TILES * device.multiprocessors:
        return None
    teams = min(bundles, blocks // across)
    words = SECTOR_WORDS + 2 * teams * across * turned.tile[0] * SUMS_WORDS
    handed_on = (turned.geometry, parameters(groups, spec), Struct((bundles, across, teams), turned.index))
    arguments = (*array_arguments(), Scratch(), *handed_on)
    launch = Launch("normalize_held", teams * across, BLOCK, arguments, _TILE_BYTES, cooperative=True)
    constants = constants_of(**turned.constants(spec), RESIDENT=resident)
    return Plan("normalization_held.cu", constants, (launch,), scratch_bytes=8 * words)


def _reduces_last_axis_only(turned: Turned) -> bool:
    steps = turned.axes.strides["mean"]
    return steps[-1] == 0 and all(step != 0 for step in steps[:-1])


def _tile(groups: Groups) -> tuple[int, int]:
    """Groups and steps: as many steps as groups have, if that leaves columns wide enough."""
    size = groups.source.dtype.itemsize
    most, least = _TILE_BYTES // _LEAST_COLUMN_BYTES, _TILE_BYTES // size // _MOST_GROUPS
    steps = max(min(power_of_two(groups.length), most), least)
    return _TILE_BYTES // size // steps, steps


def _resident(turned: Turned, device: DeviceProperties) -> int:
    """Blocks that fit a multiprocessor, each with a tile and kernels/normalization_held.cu: struct Shared."""
    groups, size = turned.groups, turned.groups.source.dtype.itemsize
    sums = BLOCK * max(1, 4 // size) * SUMS_BYTES
    shared = sums + turned.tile[0] * (4 * groups.normal_words + size) + VECTOR_BYTES
    return min(_MOST_RESIDENT, device.shared_bytes_per_multiprocessor // (_TILE_BYTES + shared + RESERVED_BYTES))
