"""Runs plans on the GPU: loads the compiled kernels, binds the arguments, launches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import cupy

from cudml.cuda.cache import cubin_path
from cudml.cuda.graphs import kept_for_replays
from cudml.plan.binding import bind
from cudml.plan.plan import Plan


def launch(plan: Plan, arrays: Mapping[str, Any]) -> None:
    """Launches the plan's kernels on the current stream of the current device."""
    nbytes = plan.workspace_bytes
    workspace = kept_for_replays(cupy.empty(nbytes, cupy.uint8)) if nbytes else None
    address = 0 if workspace is None else workspace.data.ptr
    kernels = _kernels(plan, _architecture(cupy.cuda.Device().id))
    for step, kernel in zip(plan.launches, kernels, strict=True):
        kernel((step.grid,), (step.block,), bind(step, arrays, _address_of, address))


@lru_cache(maxsize=4096)
def _kernels(plan: Plan, architecture: str) -> tuple[Any, ...]:
    # A RawModule loads itself once more on every device that it is used on.
    module = _module(plan.source, plan.constants, architecture)
    return tuple(module.get_function(step.kernel) for step in plan.launches)


@cache
def _module(source: str, constants: tuple[tuple[str, str], ...], architecture: str) -> cupy.RawModule:
    return cupy.RawModule(path=str(cubin_path(source, constants, architecture)))


@cache
def _architecture(device: int) -> str:
    return f"sm_{cupy.cuda.Device(device).compute_capability}"


def _address_of(array: cupy.ndarray) -> int:
    return array.data.ptr
