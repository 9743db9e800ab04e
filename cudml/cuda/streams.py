"""How streams are told apart, so that launches that may run side by side never share memory.

A handle alone does not tell. When a stream is destroyed its work runs on, and the next stream gets the same handle at
once: on an H100 the work of both was seen to run side by side. CuPy's pool would hand such a stream, too, what the work
of the old one still uses. So a stream is held here, from its first launch with memory of ours until its work is done;
until then no other has its handle.

That does nothing for streams that CuPy does not own, and the default streams of all threads have one handle. These are
told apart by the driver's numbers, which never come again. Nor does CuPy know which GPU the former are on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Hashable

import cupy
from cupy.cuda import Stream, runtime

from cudml import driver

_LEGACY, _PER_THREAD = 0, 2
_NO_DEVICE = -1  # of a stream of whichever GPU is current, or that CuPy did not make
_OURS_ALONE = 2  # references to an object in a dictionary while they are counted


class Streams:
    """The streams that are held."""

    def __init__(self) -> None:
        self._held: dict[int, Stream] = {}
        self._lock = threading.Lock()

    def name(self, stream: Stream | cupy.cuda.ExternalStream) -> Hashable:
        """What no other stream is known by that may have work when this one has."""
        handle: int = stream.ptr
        if self._held.get(handle) is stream:
            return handle
        if not _can_be_held(stream):
            return "number", _number(handle)
        with self._lock:
            self._release_finished()
            self._held[handle] = stream
        return handle

    def _release_finished(self) -> None:
        """Of those that nobody else holds, so that no work can follow."""
        held = self._held
        with driver.relaxed_capture():  # another stream may be under capture
            for handle in list(held):
                if sys.getrefcount(held[handle]) <= _OURS_ALONE and _is_done(held[handle]):
                    del held[handle]


def _can_be_held(stream: Stream | cupy.cuda.ExternalStream) -> bool:
    """Whether the handle is the stream's own for as long as the object lives."""
    if stream.ptr == _LEGACY:
        return True
    return type(stream) is Stream and stream.ptr != _PER_THREAD and stream.device_id != _NO_DEVICE


def check_current_stream(device: int) -> None:
    """ValueError if the current stream of `device` is on another GPU.

    CuPy refuses such a stream when it is made current, unless another library made it.
    """
    stream = cupy.cuda.get_current_stream(device)
    if stream.ptr == _LEGACY or stream.device_id != _NO_DEVICE:
        return
    found = driver.device_of_stream(stream.ptr)
    if found not in (None, device):
        raise ValueError(
            f"the current stream is on GPU {found} and the arrays are on GPU {device}; use a stream that was made "
            f"while GPU {device} was the current device"
        )


def _number(handle: int) -> int | None:
    number = driver.stream_number(handle)
    if number is None:  # CUDA's runtime gives a thread its context with the first thing that is asked of it
        runtime.free(0)
        number = driver.stream_number(handle)
    return number


def _is_done(stream: Stream) -> bool:
    try:
        return stream.done
    except runtime.CUDARuntimeError:  # it was given up in the middle of a capture, say
        return False
