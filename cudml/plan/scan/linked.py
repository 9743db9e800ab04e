"""The plan of scans of few tiles, which blocks share: kernels/scan_linked.cu."""

from __future__ import annotations

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.plan import Launch, Plan, Pointer, Scratch, constants_of
from cudml.plan.scan.work import Constants, Work, scratch_bytes
from cudml.plan.spec import Scan, SegmentedScan

#: kernels/scan_linked.cu: MOST_GROUPS, each of 32 tiles.
_MOST_LINKED = 192

#: kernels/scan_linked.cu: COPIES.
_LINKED_COPIES = 8

#: Parts of a tile, and warps of a block that holds one and rows of each: the first of which no more than half of the
#: multiprocessors get one. On an H200 two tiles of float32 take 2.4 us in 4 parts and 3.2 us whole, 32 tiles 4.2 us in
#: 2 parts and 4.6 us in 4: with more blocks, it costs more to wait for all of them than is gained by loading less.
LINKED_SHARES = ((4, (4, 4)), (2, (8, 4)), (1, (16, 4)))


def are_few_tiles(work: Work, device: DeviceProperties) -> bool:
    """Whether all tiles can be worked on at a time."""
    return work.lines * work.tiles <= min(device.multiprocessors, _MOST_LINKED)


def plan_linked_tiles(spec: Scan | SegmentedScan, constants: Constants, work: Work, device: DeviceProperties) -> Plan:
    """A block for each tile of a few lines, or several."""
    tiles = work.lines * work.tiles
    most = max(tiles, device.multiprocessors // 2)
    parts, (warps, rows) = next(share for share in LINKED_SHARES if tiles * share[0] <= most)
    shares = {"WARPS": warps, "ROWS": rows, "GROUPS": 1, "SHIFTED_IN": 0, "SHIFTED_OUT": 0}
    arguments = (Pointer("input"), Pointer("output"), Pointer("offsets"), Scratch(), work.geometry)
    launch = Launch("scan_linked", tiles * parts, warps * LANES, arguments, early=True)
    scratch = scratch_bytes(spec, work, parts * _LINKED_COPIES)
    return Plan("scan_linked.cu", constants_of(**constants, **shares), (launch,), scratch_bytes=scratch)
