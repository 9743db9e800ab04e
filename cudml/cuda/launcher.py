"""Runs plans on the GPU: loads the compiled kernels, binds the arguments, launches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

import cupy

from cudml.cuda.cache import cubin_path
from cudml.cuda.device import architecture_of
from cudml.cuda.graphs import capture_of, is_capturing, kept_for_replays
from cudml.cuda.scratch import DeviceScratch, Piece
from cudml.plan.binding import Binding
from cudml.plan.plan import Launch, Plan


def launch(plan: Plan, arrays: Mapping[str, Any], device: int) -> None:
    """Launches the plan's kernels on the current stream of `device`, which is the current one."""
    workspace = scratch = None
    workspace_address = scratch_address = 0
    if plan.workspace_bytes:
        workspace = kept_for_replays(cupy.empty(plan.workspace_bytes, cupy.uint8))
        workspace_address = workspace.data.ptr
    if plan.scratch_bytes:
        scratch = _scratch(plan.scratch_bytes, device)
        scratch_address = scratch.address
    for function, grid, block, shared_bytes, cooperative, binding in _steps(plan, device):
        arguments = binding(arrays, _address_of, workspace_address, scratch_address)
        function(grid, block, arguments, shared_bytes, enable_cooperative_groups=cooperative)


class _Step(NamedTuple):
    """A launch with its kernel loaded on a device."""

    function: cupy.cuda.Function
    grid: tuple[int]
    block: tuple[int]
    shared_bytes: int
    cooperative: bool
    binding: Binding


@lru_cache(maxsize=4096)
def _steps(plan: Plan, device: int) -> tuple[_Step, ...]:
    module = _module(plan.source, plan.constants, architecture_of(device))
    return tuple(
        _Step(_function(module, step), (step.grid,), (step.block,), step.shared_bytes, step.cooperative, Binding(step))
        for step in plan.launches
    )


@cache
def _module(source: str, constants: tuple[tuple[str, str], ...], architecture: str) -> cupy.RawModule:
    return cupy.RawModule(path=str(cubin_path(source, constants, architecture)))


def _function(module: cupy.RawModule, step: Launch) -> cupy.cuda.Function:
    """The kernel as the current device has loaded it, allowed the dynamic shared memory that it is launched with."""
    kernel = module.get_function(step.kernel)
    if kernel.max_dynamic_shared_size_bytes < step.shared_bytes:  # never lowered: another plan may need more
        kernel.max_dynamic_shared_size_bytes = step.shared_bytes
    return kernel.kernel


def _address_of(array: cupy.ndarray) -> int:
    return array.data.ptr


def _scratch(nbytes: int, device: int) -> Piece:
    stream, scratch = cupy.cuda.get_current_stream(), _scratch_of(device)
    if is_capturing(stream):
        return scratch.for_capture(stream.ptr, capture_of(stream), nbytes)
    return scratch.for_stream(stream.ptr, nbytes)


@cache
def _scratch_of(device: int) -> DeviceScratch:
    return DeviceScratch(_zeros, _finished_zeros)


def _zeros(nbytes: int) -> Piece:
    array = cupy.zeros(nbytes, cupy.uint8)
    return Piece(array, array.data.ptr, nbytes)


def _finished_zeros(nbytes: int) -> Piece:
    """Waits for a stream of its own, not for the current one, which stays the current one.

    Not from CuPy's pool: what that hands out may still be in use by earlier work of the current stream.
    """
    memory = cupy.cuda.MemoryPointer(cupy.cuda.Memory(nbytes), 0)
    stream = cupy.cuda.Stream(non_blocking=True)
    memory.memset_async(0, nbytes, stream)
    stream.synchronize()
    return Piece(memory, memory.ptr, nbytes)
