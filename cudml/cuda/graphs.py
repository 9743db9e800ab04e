"""What the capture of a CUDA graph asks of memory.

A replay reads and writes the addresses of the capture, on any stream and at any time. Memory from CuPy's pool would not
do: earlier work of the captured stream may still use it, and the pool would give it to somebody else before the first
replay. What a captured call takes for itself is therefore allocated anew, and never released, as nobody says when the
last replay was.
"""

from __future__ import annotations

import cupy
from cupy.cuda import Memory, MemoryPointer, Stream

from cudml import driver

_LEGACY_STREAMS = (0, 1)  # cannot be captured, and answer with an error while another stream is

_KEPT: list[MemoryPointer] = []


def is_capturing(stream: Stream | None = None) -> bool:
    """Whether the stream (the current one by default) is being captured."""
    stream = stream or cupy.cuda.get_current_stream()
    return stream.ptr not in _LEGACY_STREAMS and stream.is_capturing()


def capture_of(stream: Stream) -> object:
    """What equals itself for the calls of one capture only; where the driver does not tell, for each call another."""
    number = driver.capture_number(stream.ptr)
    return object() if number is None else number


def memory_for_replays(nbytes: int) -> MemoryPointer:
    """Memory of the current device for what is being captured."""
    with driver.relaxed_capture():
        memory = MemoryPointer(Memory(nbytes), 0)
    _KEPT.append(memory)
    return memory


def zeros_for_replays(nbytes: int) -> MemoryPointer:
    """Such memory, zeroed on a stream beside the capture and waited for."""
    memory = memory_for_replays(nbytes)
    with driver.relaxed_capture():
        stream = Stream(non_blocking=True)
        memory.memset_async(0, nbytes, stream)
        stream.synchronize()
    return memory


def copy_of(array: cupy.ndarray) -> cupy.ndarray:
    """A copy in C order, which replays fill anew if it is made during a capture."""
    source = array if is_aligned(array) else _bytes_of(array)
    if not is_capturing() or not array.size:
        copy = source.copy()
    else:
        copy = cupy.ndarray(source.shape, source.dtype, memory_for_replays(array.nbytes))
        copy[...] = source
    return copy.view(array.dtype).reshape(array.shape)


def is_aligned(array: cupy.ndarray) -> bool:
    """Whether every element lies at a multiple of its size, as CuPy's own kernels take for granted."""
    return all(place % array.itemsize == 0 for place in (array.data.ptr, *array.strides))


def _bytes_of(array: cupy.ndarray) -> cupy.ndarray:
    """A view with one axis more, along which the bytes of an element lie."""
    return cupy.ndarray((*array.shape, array.itemsize), cupy.uint8, array.data, (*array.strides, 1))
