"""Scale and bias of elements that normalizers of kernels/normalization_stream.cu keep in registers."""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import DeviceProperties
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.ring import UNIT_BYTES, Cut

#: Units of a piece, at least, so that keeping the scale and bias of some costs less than it saves.
LEAST_PIECE_KEPT = 8

#: The only GPUs where warps hand registers over, four by four.
_SHARES_REGISTERS = (9, 0)


class KeptOperands(NamedTuple):
    """How a line is manned whose normalizers keep those of some units."""

    units: int
    adders: int
    publishers: int
    registers: tuple[int, int] = (0, 0)
    """Of a thread of the normalizers, and of the others; 0: as the compiler shares them out."""


#: With no registers of others there are enough for two units if warps are no more than 12, so folders publish.
_UNSHARED = KeptOperands(2, adders=2, publishers=0)

#: With them there are enough for more. In us, with four kept, three by four adders, two and none an H200 takes for (64,
#: 4194304) floats 612, 628, 693 and 868, for (64, 4194301), whose last unit is not whole, 825 and 774 by four adders,
#: for (64, 2097152) doubles, of which the others need fewer, 616, 624, 654 and 873.
_OF_WHOLE_FLOATS = KeptOperands(4, adders=2, publishers=0, registers=(200, 104))
_OF_PARTS_OF_FLOATS = KeptOperands(3, adders=4, publishers=1, registers=(184, 72))
_OF_WHOLE_DOUBLES, _OF_PARTS_OF_DOUBLES = _OF_WHOLE_FLOATS._replace(registers=(216, 72)), _OF_WHOLE_FLOATS

#: Two adders take too long for halves, of which a unit has twice as many: (64, 8388608) take an H200 640 us so, 730 by
#: two adders with four units, and 890 with none. Where groups begin anywhere those that put chunks together have fewer
#: registers: (64, 8388605) take 943 us so and 1061 as others do, which take 863 for (64, 8388604) in place of 897.
_OF_HALVES = KeptOperands(3, adders=4, publishers=1, registers=(168, 88))
_OF_HALVES_ANYWHERE = _OF_HALVES._replace(registers=(176, 80))

#: Scales and biases that are wider than elements take twice as many: (64, 8388608) halves with those of floats take
#: 1.50 ms so, 1.56 by four adders and 1.75 with none.
_WIDE = KeptOperands(2, adders=2, publishers=0, registers=(216, 72))
_WIDE_OF_PARTS = _WIDE._replace(registers=(208, 88))

#: Units of a group for each block, at least, from which on pieces are as large as that some have their scale and bias
#: kept, though blocks are idle; and the same of groups that begin at any element, by the bytes of one. In such pieces
#: and in those of 4, of which blocks have two, (64, 3407872) floats, 6.3 units, take an H200 557 us and 691, (64,
#: 2909760), 5.4, 479 and 541, (64, 5819584) float16s 586 and 568; (64, 3407873) floats 647 and 755, (64, 6815745)
#: float16s 852 and 896, (64, 6291457), 5.8, 831 and 819, (64, 1454849) doubles, 5.4, 549 and 599.
_LEAST_KEPT, _LEAST_KEPT_ANYWHERE = 5.3, {2: 6.2, 4: 5.7, 8: 5.3}

#: And groups, at least: what is kept of the first one has to be of use for others.
_LEAST_GROUPS = 8


def kept_operands(groups: Groups, cut: Cut, piece: int, device: DeviceProperties) -> KeptOperands | None:
    """For pieces of so many units; None where nothing is kept, unless each block has the same piece of all groups."""
    is_alone = math.ceil(cut.units / piece) <= device.multiprocessors
    if not (_are_the_same(groups) and is_alone and piece >= LEAST_PIECE_KEPT):
        return None
    if device.compute_capability != _SHARES_REGISTERS:
        return _UNSHARED
    size = groups.source.dtype.itemsize
    are_whole = groups.length * size % (piece * UNIT_BYTES) == 0
    if not groups.operands.are_narrow:
        return _WIDE if are_whole else _WIDE_OF_PARTS
    if size == 2:
        return _OF_HALVES_ANYWHERE if groups.begins_anywhere else _OF_HALVES
    if size == 4:
        return _OF_WHOLE_FLOATS if are_whole else _OF_PARTS_OF_FLOATS
    return _OF_WHOLE_DOUBLES if are_whole else _OF_PARTS_OF_DOUBLES


def are_worth_keeping(groups: Groups, cut: Cut, device: DeviceProperties) -> bool:
    """Whether pieces had better be so large that those of some units are kept, though some blocks are idle then."""
    may_be = groups.is_one_run("input") and groups.operands.are_narrow and _are_the_same(groups)
    if not may_be or groups.count < _LEAST_GROUPS or device.compute_capability != _SHARES_REGISTERS:
        return False
    least = _LEAST_KEPT_ANYWHERE[groups.source.dtype.itemsize] if groups.begins_anywhere else _LEAST_KEPT
    return least < cut.units / device.multiprocessors <= LEAST_PIECE_KEPT


def _are_the_same(groups: Groups) -> bool:
    """Whether all groups have those of their elements in common."""
    return groups.operands.are_own and groups.operands.repeat()
