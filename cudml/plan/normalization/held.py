"""The plans of normalizations of groups that lie side by side in the input and one after the other in the output, read
once: kernels/normalization_held.cu. Large groups that whole vectors move are faster in strips
(strips.py).
"""

from __future__ import annotations

import math
from dataclasses import replace

from cudml.plan.device import RESERVED_BYTES, DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout, power_of_two
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.steps import SUMS_BYTES, array_arguments, parameters
from cudml.plan.normalization.turned import Turned, moments_of
from cudml.plan.plan import Launch, Plan, Scratch, Struct, constants_of
from cudml.plan.spec import Normalization
from cudml.plan.turned import Tile

#: A tile: bytes in all, bytes of a column at least, and groups at the most. On an H200 columns of 256 bytes are slower
#: for float32 of 4096 steps, by 5 %.
_TILE_BYTES, _LEAST_COLUMN_BYTES, _MOST_GROUPS = 65536, 128, 256

#: Blocks that share a multiprocessor: with one all would wait at once.
_MOST_RESIDENT, _LEAST_RESIDENT = 3, 2

#: Threads of a block and parts of its tile. Where a group has several tiles: on an H200 65536 groups of 4096 floats
#: take 0.66 ms so, 0.74 in one part, 0.69 in four, 0.68 with 256 threads and 0.81 with 64.
_BLOCK_OF_PARTS, _PARTS = 128, 2

#: And where it has one: 524288 groups of 512 floats take 0.584 ms so and 0.595 with 128 threads, 1048576 of 512 halves
#: 0.766 and 0.654; in two parts they take 0.598 and 0.680.
_BLOCK, _BLOCK_OF_HALVES = 256, 128

#: Tiles of a group, blocks of a cluster, at the most, by the bytes of the input's elements: an H200 needs 0.71 ms for
#: 32768 groups of 8192 floats and 0.88 in two passes; for 16384 of 16384 halves 0.56 and 0.48.
_MOST_TILES = {2: 8, 4: 16, 8: 8}

#: The word with the next ticket (kernels/tickets.cuh).
_CONTROL_BYTES = 8

#: Tiles for each multiprocessor at least: 2048 x 2048 floats take 13.5 us and in two passes 15.6, 1536 x 1536 12.2 and
#: 11.0. And the parts of its tiles that a group fills at least, as a block that holds nothing waits all the same, and
#: that neighbouring groups fill: (4096, 16, 128) floats over 2, whose axes lie in the order 0, 2, 1, fill an eighth,
#: and take 185 us and 35 copied, 48 by 1024 halves three quarters, and 78 and 36.
_LEAST_TILES, _LEAST_PART, _LEAST_PART_DOWN = 1.9, 3 / 4, 0.8


def plan_held(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch that reads the input once; None where something else is faster."""
    if not (device.clusters and groups.are_floats):
        return None
    mean = groups.arrays.get("mean")
    turned = Turned.of(groups, mean if isinstance(mean, ArrayLayout) else moments_of(groups, spec))
    if turned is None or not _reduces_last_axis_only(turned):
        return None
    turned = replace(turned, tile=_tile(groups))
    down, across = turned.tiles
    bundles, resident = math.prod(turned.outer.sizes) * down, _resident(turned, device)
    if resident < _LEAST_RESIDENT or across > _MOST_TILES[groups.source.dtype.itemsize]:
        return None
    height = turned.axes.sizes[turned.high]
    is_filled = groups.length >= _LEAST_PART * across * turned.tile.width
    is_filled &= height >= _LEAST_PART_DOWN * down * turned.tile.height
    if not is_filled or bundles * across < _LEAST_TILES * device.multiprocessors:
        return None
    clusters = min(bundles, max(1, resident * device.multiprocessors // across))
    handed_on = (turned.geometry, parameters(groups, spec), Struct((bundles,), turned.index))
    arguments = (*array_arguments(), Scratch(), *handed_on)
    block, parts = turned.tile.block, _PARTS if across > 1 else 1
    launch = Launch("normalize_held", clusters * across, block, arguments, _TILE_BYTES, cluster=across, early=True)
    chosen = {**turned.constants(spec), "CLUSTER": across, "TILE_PARTS": parts, "RESIDENT": resident}
    return Plan("normalization_held.cu", constants_of(**chosen), (launch,), scratch_bytes=_CONTROL_BYTES)


def _reduces_last_axis_only(turned: Turned) -> bool:
    steps = turned.axes.strides["mean"]
    return steps[-1] == 0 and all(step != 0 for step in steps[:-1])


def _tile(groups: Groups) -> Tile:
    """Groups and steps: as many steps as groups have, if that leaves columns wide enough."""
    size = groups.source.dtype.itemsize
    most, least = _TILE_BYTES // _LEAST_COLUMN_BYTES, _TILE_BYTES // size // _MOST_GROUPS
    steps = max(min(power_of_two(groups.length), most), least)
    height = _TILE_BYTES // size // steps
    if groups.length > steps:
        return Tile(height, steps, _BLOCK_OF_PARTS)
    return Tile(height, steps, _BLOCK_OF_HALVES if size == 2 and height <= _BLOCK_OF_HALVES else _BLOCK)


def _resident(turned: Turned, device: DeviceProperties) -> int:
    """Blocks that fit a multiprocessor, each with a tile and kernels/normalization_held.cu: struct Shared."""
    groups, size, tile = turned.groups, turned.groups.source.dtype.itemsize, turned.tile
    sums = (tile.block * max(1, 4 // size) + 2 * (tile.height if turned.tiles[1] > 1 else 1)) * SUMS_BYTES
    shared = sums + tile.height * (4 * groups.normal_words + size) + 2 * VECTOR_BYTES
    return min(_MOST_RESIDENT, device.shared_bytes_per_multiprocessor // (_TILE_BYTES + shared + RESERVED_BYTES))
