"""What the NVIDIA driver says about itself, asked without CuPy.

Run as a script (`python cudml/driver.py`, which needs no installed package) it prints the extra of cudml that fits the
driver, or nothing where there is no GPU. The Makefile installs what it prints.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_NEWEST_EXTRA = 13  # later drivers run what was built for CUDA 13
_OLDEST_EXTRA = 12
_CAPTURE_ACTIVE, _CAPTURE_RELAXED = 1, 2


def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None


def version() -> tuple[int, int] | None:
    """The newest CUDA version that the driver supports, as (major, minor); None without a driver."""
    library, number = _library(), ctypes.c_int()
    if library is None or library.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None
    return number.value // 1000, number.value % 1000 // 10


def gpu_count() -> int:
    """How many GPUs the driver offers; 0 without a driver."""
    library, number = _library(), ctypes.c_int()
    if library is None or library.cuInit(0) != 0 or library.cuDeviceGetCount(ctypes.byref(number)) != 0:
        return 0
    return number.value


def capture_number(stream: int) -> int | None:
    """The number, unique in the process, of the capture that `stream` takes part in; None if the driver has none."""
    ask = getattr(_library(), "cuStreamGetCaptureInfo_v2", None)
    status, number = ctypes.c_int(), ctypes.c_uint64()
    if ask is None or ask(ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number), None, None, None) != 0:
        return None
    return number.value if status.value == _CAPTURE_ACTIVE else None


@contextmanager
def relaxed_capture() -> Iterator[None]:
    """A context in which this thread may allocate memory, and wait for other streams, whatever the mode of a capture.

    In most modes either would end the capture with an error.
    """
    exchange, mode = function("cuThreadExchangeStreamCaptureMode", 1), ctypes.c_int(_CAPTURE_RELAXED)
    exchange(ctypes.addressof(mode))
    try:
        yield
    finally:
        exchange(ctypes.addressof(mode))


def stream_number(stream: int) -> int | None:
    """The number of a stream, which no other ever has in the process, unlike its handle; None if the thread has no
    context yet."""
    number = ctypes.c_uint64()
    failed = function("cuStreamGetId", 2)(stream, ctypes.addressof(number))
    return None if failed else number.value


def device_of_stream(stream: int) -> int | None:
    """The number of the GPU that a stream is on; None if the driver does not tell."""
    context, device = ctypes.c_void_p(), ctypes.c_int()
    if function("cuStreamGetCtx", 2)(stream, ctypes.addressof(context)):
        return None
    if function("cuCtxPushCurrent_v2", 1)(context):
        return None
    failed = function("cuCtxGetDevice", 1)(ctypes.addressof(device))
    function("cuCtxPopCurrent_v2", 1)(ctypes.addressof(context))
    return None if failed else device.value


@cache
def function(name: str, pointers: int) -> Any:
    """The driver's function of that name, which takes so many pointers, to be called with addresses."""
    found = getattr(_library(), name)
    found.argtypes = (ctypes.c_void_p,) * pointers
    return found


def extra() -> str | None:
    """The extra that installs the CuPy for this driver: "cuda12" or "cuda13"; None where CuPy could not be used."""
    found = version()
    if found is None or found[0] < _OLDEST_EXTRA or gpu_count() == 0:
        return None
    return f"cuda{min(found[0], _NEWEST_EXTRA)}"


if __name__ == "__main__":
    print(extra() or "")
