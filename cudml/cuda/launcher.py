"""Runs plans on the GPU: loads the compiled kernels, binds the arguments, launches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import cupy
import numpy as np

from cudml.cuda.cache import cubin_path
from cudml.cuda.graphs import kept_for_replays
from cudml.plan.plan import Argument, Plan, Pointer, Scalar, Struct, Workspace


def launch(plan: Plan, arrays: Mapping[str, Any]) -> None:
    """Launches the plan's kernels on the current stream of the current device."""
    nbytes = plan.workspace_bytes
    workspace = kept_for_replays(cupy.empty(nbytes, cupy.uint8)) if nbytes else None
    kernels = _kernels(plan, _architecture(cupy.cuda.Device().id))
    for step, kernel in zip(plan.launches, kernels, strict=True):
        arguments = tuple(_bind(argument, arrays, workspace) for argument in step.arguments)
        kernel((step.grid,), (step.block,), arguments)


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


@lru_cache(maxsize=4096)
def _packed(struct: Struct) -> np.ndarray:
    return struct.packed()


def _bind(argument: Argument, arrays: Mapping[str, Any], workspace: Any) -> Any:
    if isinstance(argument, Pointer):
        array = arrays.get(argument.array)
        return array.data.ptr if isinstance(array, cupy.ndarray) else 0
    if isinstance(argument, Workspace):
        return workspace.data.ptr + argument.offset if workspace is not None else 0
    if isinstance(argument, Scalar):
        return _scalar(argument, arrays.get(argument.name))
    return _packed(argument)


def _scalar(argument: Scalar, value: Any) -> np.ndarray:
    """The number as an array of one element: the form in which CuPy passes any type by value."""
    return np.array([value if isinstance(value, np.generic) else 0]).astype(argument.dtype)
