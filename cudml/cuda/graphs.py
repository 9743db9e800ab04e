"""What the capture of a CUDA graph asks of memory.

A replay reads and writes the addresses of the capture. Memory that a call takes only for itself would go back to the
pool, and become somebody else's, before the first replay.
"""

from __future__ import annotations

import cupy

from cudml import driver

_LEGACY_STREAMS = (0, 1)  # cannot be captured, and answer with an error while another stream is

_KEPT: list[cupy.ndarray] = []


def is_capturing(stream: cupy.cuda.Stream | None = None) -> bool:
    """Whether the stream (the current one by default) is being captured."""
    stream = stream or cupy.cuda.get_current_stream()
    return stream.ptr not in _LEGACY_STREAMS and stream.is_capturing()


def capture_of(stream: cupy.cuda.Stream) -> object:
    """What equals itself for the calls of one capture only; where the driver does not tell, for each call another."""
    number = driver.capture_number(stream.ptr)
    return object() if number is None else number


def kept_for_replays(temporary: cupy.ndarray) -> cupy.ndarray:
    """The array itself, which lives on if it was made during a capture."""
    if is_capturing():
        _KEPT.append(temporary)
    return temporary
