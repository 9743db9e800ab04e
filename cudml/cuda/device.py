"""What the planners and the compiler have to know of a GPU, asked once."""

from __future__ import annotations

from functools import cache

import cupy
from cupy.cuda import runtime

from cudml.cuda.compiler import architecture_of_capability
from cudml.plan.device import DeviceProperties

#: cudaDevAttrClusterLaunch, which CuPy does not name.
_CLUSTER_LAUNCH = 120


@cache
def properties_of(device: int) -> DeviceProperties:
    """The properties of the GPU with that number."""
    capability = cupy.cuda.Device(device).compute_capability  # "90", "120"
    return DeviceProperties(
        compute_capability=(int(capability[:-1]), int(capability[-1])),
        multiprocessors=runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, device),
        threads_per_multiprocessor=runtime.deviceGetAttribute(runtime.cudaDevAttrMaxThreadsPerMultiProcessor, device),
        shared_bytes_per_multiprocessor=runtime.deviceGetAttribute(
            runtime.cudaDevAttrMaxSharedMemoryPerMultiprocessor, device
        ),
        shared_bytes_per_block=runtime.deviceGetAttribute(runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        cache_bytes=runtime.deviceGetAttribute(runtime.cudaDevAttrL2CacheSize, device),
        bytes_per_second=_memory_speed(device),
        cooperative_launch=bool(runtime.deviceGetAttribute(runtime.cudaDevAttrCooperativeLaunch, device)),
        cluster_launch=bool(runtime.deviceGetAttribute(_CLUSTER_LAUNCH, device)),
    )


def _memory_speed(device: int) -> float:
    """Bytes in a second: two transfers in each cycle of a clock of kilohertz, over a bus of so many bits."""
    kilohertz = runtime.deviceGetAttribute(runtime.cudaDevAttrMemoryClockRate, device)
    bits = runtime.deviceGetAttribute(runtime.cudaDevAttrGlobalMemoryBusWidth, device)
    return 2e3 * kilohertz * bits / 8


@cache
def architecture_of(device: int) -> str:
    """What kernels are compiled for, as in "sm_80"."""
    return architecture_of_capability(*properties_of(device).compute_capability)
