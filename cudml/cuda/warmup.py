"""Compiles the kernels of calls that are planned but not launched."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import cupy

from cudml.cuda.backend import BACKEND
from cudml.cuda.cache import cubin_path, is_cached
from cudml.cuda.device import architecture_of
from cudml.cuda.launcher import steps_of

_BAR_WIDTH = 30


def warmup_of(calls: Iterable[Callable[[], Any]], progress: bool) -> int:
    """Fills the cache and loads the kernels; the number of those that were compiled."""
    with BACKEND.planning_only() as planned:
        for call in calls:
            call()
    kernels = {
        (part.source, part.constants, architecture_of(device)) for plan, device in planned for part in plan.parts
    }
    missing = [kernel for kernel in kernels if not is_cached(*kernel)]
    for done in _compiled(missing):
        if progress:
            _show(done, len(missing))
    for plan, device in planned:
        with cupy.cuda.Device(device):
            steps_of(plan, device)
    return len(missing)


def _compiled(kernels: list[tuple[str, Any, str]]) -> Iterator[int]:
    """How many are done, each time that one is; NVRTC compiles in as many threads as there are."""
    with ThreadPoolExecutor(os.cpu_count(), "cudml-warmup") as pool:
        running = [pool.submit(cubin_path, *kernel) for kernel in kernels]
        for done, future in enumerate(as_completed(running), start=1):
            future.result()
            yield done


def _show(done: int, count: int) -> None:
    filled = _BAR_WIDTH * done // count
    bar = "#" * filled + "." * (_BAR_WIDTH - filled)
    sys.stderr.write(f"\rcudml compiles kernels [{bar}] {done}/{count}" + "\n" * (done == count))
    sys.stderr.flush()
