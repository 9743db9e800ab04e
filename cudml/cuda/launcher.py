"""Runs plans on the GPU: loads the compiled kernels, binds the arguments, launches."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

import cupy
from cupy_backends.cuda.api import driver

from cudml.cuda.cache import cubin_path, fill_cache
from cudml.cuda.device import architecture_of
from cudml.cuda.streams import check_current_stream
from cudml.cuda.temporary import workspace_and_scratch
from cudml.plan.binding import Binding
from cudml.plan.plan import Launch, Plan

#: Blocks of a cluster that every GPU takes, and the attribute of a kernel whose clusters may be larger: the driver's
#: CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED.
_PORTABLE_CLUSTER, _LARGER_CLUSTERS_ALLOWED = 8, 14


def launch(plan: Plan, arrays: Mapping[str, Any], device: int) -> None:
    """Launches the plan's kernels on the current stream of `device`, which is the current one; ValueError if that
    stream is on another."""
    check_current_stream(device)
    workspace, scratch = workspace_and_scratch(plan.workspace_bytes, plan.scratch_bytes, device)
    for step, function, binding in steps_of(plan, device):
        values = binding(arrays, address_of, workspace.address, scratch.address)
        function((step.grid,), (step.block,), values, step.shared_bytes, enable_cooperative_groups=step.cooperative)


class Step(NamedTuple):
    """A launch with its kernel loaded on a device."""

    launch: Launch
    function: cupy.cuda.Function
    binding: Binding


@lru_cache(maxsize=4096)
def steps_of(plan: Plan, device: int) -> tuple[Step, ...]:
    """The launches of a plan; the first time their kernels are compiled or found on disk, and loaded."""
    if plan.then:
        fill_cache((part.source, part.constants, architecture_of(device)) for part in plan.parts)
    return tuple(step for part in plan.parts for step in _steps_of_part(part, device))


def _steps_of_part(part: Plan, device: int) -> Iterator[Step]:
    module = _module(part.source, part.constants, architecture_of(device), device)
    return (Step(step, _function(module, step), Binding(step)) for step in part.launches)


@cache
def _module(source: str, constants: tuple[tuple[str, str], ...], architecture: str, device: int) -> cupy.RawModule:
    """For each device, as that reads the file when it loads the first kernel, and the file may be gone by then."""
    return cupy.RawModule(path=str(cubin_path(source, constants, architecture)))


_setting = threading.Lock()


def _function(module: cupy.RawModule, step: Launch) -> cupy.cuda.Function:
    """The kernel as the current device has loaded it, allowed the dynamic shared memory and the clusters that it is
    launched with."""
    kernel = module.get_function(step.kernel)
    with _setting:
        if kernel.max_dynamic_shared_size_bytes < step.shared_bytes:  # never lowered: another plan may need more
            kernel.max_dynamic_shared_size_bytes = step.shared_bytes
    if step.cluster > _PORTABLE_CLUSTER:
        driver.funcSetAttribute(kernel.kernel.ptr, _LARGER_CLUSTERS_ALLOWED, 1)
    return kernel.kernel


def address_of(array: cupy.ndarray) -> int:
    """Where the array's first element lies."""
    return array.data.ptr
