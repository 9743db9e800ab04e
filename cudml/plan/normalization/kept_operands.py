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
    spares: int = 0
    """Warps that do nothing, so that the others are four or eight."""


#: With no registers of others there are enough for two units if warps are no more than 12, so folders publish.
_UNSHARED = KeptOperands(2, adders=2, publishers=0)

#: With them there are enough for more. In us, with four kept, three by four adders, two and none an H200 takes for (64,
#: 4194304) floats 610, 630, 660 and 860, for (64, 4194301), whose last unit is not whole, 825 and 770 by four adders,
#: for (64, 2097152) doubles, of which the others need fewer, 615, 630, 650 and 860.
_OF_WHOLE_FLOATS = KeptOperands(4, adders=2, publishers=0, registers=(200, 104))
_OF_PARTS_OF_FLOATS = KeptOperands(3, adders=4, publishers=1, registers=(184, 72), spares=1)
_OF_WHOLE_DOUBLES, _OF_PARTS_OF_DOUBLES = _OF_WHOLE_FLOATS._replace(registers=(216, 72)), _OF_WHOLE_FLOATS

#: Two adders take too long for halves, of which a unit has twice as many: (64, 8388608) take an H200 640 us so, 730 by
#: two adders with four units, and 890 with none. Where groups begin anywhere those that put chunks together have fewer
#: registers: (64, 8388605) take 943 us so and 1061 as others do, which take 863 for (64, 8388604) in place of 897.
_OF_HALVES = KeptOperands(3, adders=4, publishers=1, registers=(168, 88), spares=1)
_OF_HALVES_ANYWHERE = _OF_HALVES._replace(registers=(176, 80))

#: Scales and biases that are wider than elements take twice as many: (64, 8388608) halves with those of floats take
#: 1.50 ms so, 1.56 by four adders and 1.75 with none.
_WIDE = KeptOperands(2, adders=2, publishers=0, registers=(216, 72))
_WIDE_OF_PARTS = _WIDE._replace(registers=(208, 88))


def kept_operands(groups: Groups, cut: Cut, piece: int, device: DeviceProperties) -> KeptOperands | None:
    """For pieces of so many units; None where nothing is kept, unless each block has the same piece of all groups."""
    same = groups.operands.repeat() and math.ceil(cut.units / piece) <= device.multiprocessors
    if not (groups.operands.are_own and same and piece >= LEAST_PIECE_KEPT):
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
