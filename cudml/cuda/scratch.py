"""The scratch of plans: who gets which memory, so that launches that may run side by side never share it.

Launches on one stream run one after the other, so a stream has one piece, zeroed on it when first needed. A call that
needs more gets a new one, at least twice as large; the old one goes back to CuPy's pool, which hands it to nobody but
later work of the same stream. Whoever launches holds on to the piece until the launch is enqueued: another thread may
replace it meanwhile.

A captured launch is replayed on any stream, beside any other work, so it never gets the piece of a stream. Calls that
are captured one after the other on one stream are replayed in that order, and a graph never runs beside itself: they
share a piece, which belongs to the graph from then on and is never released, as nobody says when the last replay was.
That piece has to be zero before the first replay, on whatever stream. If it were zeroed during the capture, each replay
would zero it once more, which is right but takes about as long as a small scan. So eager calls keep a spare one ready,
of the size that they need themselves, whose zeros they have waited for; only a capture without such a call before it
zeroes within the graph.

Streams are told apart by their handles, as CuPy's pool tells them apart. A handle may come back after the stream was
destroyed; that the work of the old stream is done by then, the pool takes for granted too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

_PER_THREAD_STREAM = 2
_LEAST_BYTES = 1 << 16


class Piece(NamedTuple):
    """Memory that some launches share."""

    array: Any
    address: int
    nbytes: int


NO_PIECE = Piece(None, 0, 0)


class DeviceScratch:
    """The scratch of one device. `zeros` enqueues the zeroing on the current stream, `finished_zeros` waits for it."""

    def __init__(self, zeros: Callable[[int], Piece], finished_zeros: Callable[[int], Piece]) -> None:
        self._zeros, self._finished_zeros = zeros, finished_zeros
        self._of_stream: dict[Hashable, Piece] = {}
        self._of_capture: dict[Hashable, tuple[object, Piece]] = {}
        self._spare: Piece | None = None
        self._kept: list[Piece] = []
        self._lock = threading.Lock()

    def for_stream(self, stream: int, nbytes: int) -> Piece:
        """A piece for a launch on the current stream, whose handle is `stream`."""
        key = _key(stream)
        piece, spare = self._of_stream.get(key), self._spare
        if piece is None or piece.nbytes < nbytes:
            piece = self._of_stream[key] = self._zeros(_grown(piece, nbytes))
        if spare is None or spare.nbytes < nbytes:
            self._make_spare(nbytes)
        return piece

    def for_capture(self, stream: int, capture: object, nbytes: int) -> Piece:
        """A piece for a launch on the current stream, which takes part in `capture`."""
        key = _key(stream)
        with self._lock:
            last_capture, piece = self._of_capture.get(key, (None, None))
            if piece is None or last_capture != capture or piece.nbytes < nbytes:
                piece = self._take_spare(nbytes) or self._zeros(nbytes)
                self._of_capture[key] = capture, piece
                self._kept.append(piece)
            return piece

    def _take_spare(self, nbytes: int) -> Piece | None:
        spare = self._spare
        if spare is None or spare.nbytes < nbytes:
            return None
        self._spare = None
        return spare

    def _make_spare(self, nbytes: int) -> None:
        with self._lock:
            if self._spare is None or self._spare.nbytes < nbytes:
                with suppress(Exception):  # no memory, say: the call needs none of it, and captures do without
                    self._spare = self._finished_zeros(_grown(self._spare, nbytes))


class _OfThread(threading.local):
    """A number that no other thread ever has, unlike its identifier, which comes back after its end."""

    _numbers = count()

    def __init__(self) -> None:
        self.number = next(self._numbers)


_of_thread = _OfThread()


def _key(stream: int) -> Hashable:
    return (stream, _of_thread.number) if stream == _PER_THREAD_STREAM else stream


def _grown(piece: Piece | None, nbytes: int) -> int:
    return max(nbytes, _LEAST_BYTES if piece is None else 2 * piece.nbytes)
