"""Compiling ahead of the first call: the public function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def warmup(calls: Iterable[Callable[[], Any]], *, progress: bool = True) -> int:
    """Compiles the kernels that `calls` need, side by side, and loads them; returns how many had to be compiled.

    >>> cudml.warmup([lambda: cudml.cumsum([2, 1, 3, 5]), lambda: cudml.fmod([7, 8], 5)])
    0

    Each of `calls` is a function without arguments that calls cudml with arrays of the shapes, types and layouts to
    come. They are checked and planned as ever, but on a GPU nothing is launched: outputs keep or get arbitrary
    contents. What needs no kernel, such as a call on NumPy arrays, is simply made. Compiled kernels stay in the cache
    on disk (`python -m cudml info` names the folder), for later processes too. A bar on stderr shows the progress while
    there is something to compile, unless `progress` is False.

    Raises what the calls raise.
    """
    try:
        from cudml.cuda.warmup import warmup_of
    except ImportError:  # without CuPy nothing is compiled
        for call in calls:
            call()
        return 0
    return warmup_of(calls, progress)
