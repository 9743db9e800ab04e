"""What the capture of a CUDA graph asks of memory.

A replay reads and writes the addresses of the capture. Memory that a call takes only for itself would go back to the
pool, and become somebody else's, before the first replay.
"""

from __future__ import annotations

import cupy

_KEPT: list[cupy.ndarray] = []


def is_capturing() -> bool:
    """Whether the current stream is being captured."""
    return cupy.cuda.get_current_stream().is_capturing()


def kept_for_replays(temporary: cupy.ndarray) -> cupy.ndarray:
    """The array itself, which lives on if it was made during a capture."""
    if is_capturing():
        _KEPT.append(temporary)
    return temporary
