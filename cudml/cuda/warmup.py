"""Compiles the kernels of calls that are planned but not launched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import cupy

from cudml.cuda.backend import BACKEND
from cudml.cuda.cache import fill_cache
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
    compiled = fill_cache(kernels, _show if progress else None)
    for plan, device in planned:
        with cupy.cuda.Device(device):
            steps_of(plan, device)
    return compiled


def _show(done: int, count: int) -> None:
    filled = _BAR_WIDTH * done // count
    bar = "#" * filled + "." * (_BAR_WIDTH - filled)
    sys.stderr.write(f"\rcudml compiles kernels [{bar}] {done}/{count}" + "\n" * (done == count))
    sys.stderr.flush()
