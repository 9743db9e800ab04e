"""Launches that begin while the one ahead of them on the stream ends: programmatic dependent launches.

Their kernels wait for it themselves, and their blocks are in place by then.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from cupy.cuda import driver as cupy_driver

from cudml import driver
from cudml.cuda.device import properties_of
from cudml.plan.plan import Launch

#: Of the GPU, and of the CUDA that the driver supports: since then such launches can be captured in a graph.
_LEAST_CAPABILITY, _LEAST_CUDA = (9, 0), (12, 3)

_STREAM_SERIALIZATION = 6  #: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("number", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_int * 16))


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((f"{of}_{axis}", ctypes.c_uint) for of in ("grid", "block") for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


_ATTRIBUTE = _Attribute(_STREAM_SERIALIZATION, 0, (1,))


@cache
def can_begin_early(device: int) -> bool:
    """Whether launches on the device may."""
    version = driver.version()
    capable = properties_of(device).compute_capability >= _LEAST_CAPABILITY
    return capable and version is not None and version >= _LEAST_CUDA


class EarlyLaunch:
    """A launch with its arguments, to be made on any stream by one thread at a time."""

    __slots__ = ("_address", "_config", "_function", "_launch", "_parameters")

    def __init__(self, launch: Launch, function: int, parameters: int) -> None:
        """`function` and `parameters` as cuLaunchKernel takes them."""
        grid, block = (launch.grid, 1, 1), (launch.block, 1, 1)
        self._config = Config(*grid, *block, launch.shared_bytes, None, ctypes.addressof(_ATTRIBUTE), 1)
        self._address = ctypes.addressof(self._config)
        self._function, self._parameters, self._launch = function, parameters, _launch_kernel_ex()

    def __call__(self, stream: int) -> None:
        self._config.stream = stream
        status = self._launch(self._address, self._function, self._parameters, None)
        if status:
            cupy_driver.check_status(status)


@cache
def _launch_kernel_ex() -> Any:
    return driver.function("cuLaunchKernelEx", 4)
