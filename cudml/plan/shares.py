"""How the warps of a block share a tile: the same for scans and for statistics."""

from __future__ import annotations

import math

LANES = 32
BLOCK = 256
ROWS_OF_TILE = 32

#: Warps, and rows of 32 chunks that each of them holds, by the number of rows that there are: as many warps as rows,
#: until a block is full; then more rows for each, so that a block has one tile at the most.
_SHARES = ((1, (1, 1)), (2, (2, 1)), (4, (4, 1)), (8, (8, 1)), (16, (8, 2)), (ROWS_OF_TILE, (8, 4)))

WHOLE_TILE = _SHARES[-1][1]


def share_of(length: int, chunk: int) -> tuple[int, int]:
    """(warps, rows of each) for `length` elements, of which a tile at a time is worked on."""
    rows = min(ROWS_OF_TILE, math.ceil(length / (LANES * chunk)))
    return next(share for limit, share in _SHARES if rows <= limit)
