"""The memory that launches need besides arrays: a workspace for each call, and the scratch that calls share."""

from __future__ import annotations

from functools import cache

import cupy

from cudml.cuda.graphs import capture_of, is_capturing, memory_for_replays, zeros_for_replays
from cudml.cuda.scratch import NO_PIECE, DeviceScratch, Piece
from cudml.cuda.streams import Streams

_STREAMS = Streams()


def workspace_and_scratch(workspace_bytes: int, scratch_bytes: int, device: int) -> tuple[Piece, Piece]:
    """Memory for launches on the current stream of `device`, to be held until they are enqueued."""
    if not workspace_bytes and not scratch_bytes:
        return NO_PIECE, NO_PIECE
    stream = cupy.cuda.get_current_stream()
    name, capturing = _STREAMS.name(stream), is_capturing(stream)
    workspace = scratch = NO_PIECE
    if workspace_bytes:
        workspace = _piece((memory_for_replays if capturing else cupy.cuda.alloc)(workspace_bytes), workspace_bytes)
    if scratch_bytes and capturing:
        scratch = _scratch_of(device).for_capture(name, capture_of(stream), scratch_bytes)
    elif scratch_bytes:
        scratch = _scratch_of(device).for_stream(name, scratch_bytes)
    return workspace, scratch


@cache
def _scratch_of(device: int) -> DeviceScratch:
    return DeviceScratch(_zeros, lambda nbytes: _piece(zeros_for_replays(nbytes), nbytes))


def _zeros(nbytes: int) -> Piece:
    return _piece(cupy.zeros(nbytes, cupy.uint8).data, nbytes)


def _piece(memory: cupy.cuda.MemoryPointer, nbytes: int) -> Piece:
    return Piece(memory, memory.ptr, nbytes)
