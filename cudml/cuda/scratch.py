"""The scratch of plans: who gets which memory, so that launches that may run side by side never share it.

Launches on one stream run one after the other, so a stream has one piece, zeroed on it when first needed. A call that
needs more gets a new one, at least twice as large; the old one goes back to CuPy's pool, which hands it to nobody but
later work of the same stream. Whoever launches holds on to the piece until the launch is enqueued: another thread may
replace it meanwhile.

A captured launch is replayed on any stream, beside any other work, so it never gets the piece of a stream. Calls that
are captured one after the other on one stream are replayed in that order, and a graph never runs beside itself: they
share a piece, which belongs to the graph from then on and is never released, as nobody says when the last replay was.
It is zero before the capture goes on: zeroed within the graph it would be zeroed by each replay once more, which is
right but takes about as long as a small scan.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

_LEAST_BYTES = 1 << 16


class Piece(NamedTuple):
    """Memory that some launches share."""

    memory: Any
    address: int
    nbytes: int


NO_PIECE = Piece(None, 0, 0)


class DeviceScratch:
    """The scratch of one device. `zeros` enqueues the zeroing on the current stream; the zeros of `zeros_for_replays`
    are there when it returns, and stay."""

    def __init__(self, zeros: Callable[[int], Piece], zeros_for_replays: Callable[[int], Piece]) -> None:
        self._zeros, self._zeros_for_replays = zeros, zeros_for_replays
        self._of_stream: dict[Hashable, Piece] = {}
        self._of_capture: dict[tuple[Hashable, object], Piece] = {}
        self._lock = threading.Lock()

    def for_stream(self, stream: Hashable, nbytes: int) -> Piece:
        """A piece for a launch on the current stream, which is known by that name."""
        piece = self._of_stream.get(stream)
        if piece is None or piece.nbytes < nbytes:
            piece = self._of_stream[stream] = self._zeros(_grown(piece, nbytes))
        return piece

    def for_capture(self, stream: Hashable, capture: object, nbytes: int) -> Piece:
        """A piece for a launch on the current stream, which takes part in `capture`."""
        with self._lock:
            piece = self._of_capture.get((stream, capture))
            if piece is None or piece.nbytes < nbytes:
                piece = self._of_capture[stream, capture] = self._zeros_for_replays(nbytes)
            return piece


def _grown(piece: Piece | None, nbytes: int) -> int:
    return max(nbytes, _LEAST_BYTES if piece is None else 2 * piece.nbytes)
