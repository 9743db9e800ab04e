"""What is installed, which GPUs there are, and whether cudml can use them: the report of `python -m cudml info`."""

from __future__ import annotations

import importlib
import platform
import sys
from typing import Any

import numpy as np

import cudml
from cudml import driver

_CHECKED_ELEMENTS = 1000


def report() -> str:
    """The whole report, a line per fact.

    It never raises for want of a GPU, a driver or CuPy; it says what is missing.
    """
    facts = [("cudml", cudml.__version__), *_host_facts(), *_cuda_facts(), ("Cache", _cache_folder()), *_gpu_facts()]
    return "\n".join(f"{name:<10} {value}" for name, value in facts)


def plans() -> str:
    """The calls on a GPU that this process can make again without checks and plans, the oldest first, with their hits.

    A call of another function, shape, type, layout or option is another line, beside the kernels that it launches. At
    most a fixed number is kept; the older half makes room for new ones.
    """
    backend = sys.modules.get("cudml.cuda.backend")
    known = backend.BACKEND.repeats.known if backend else []
    lines = [f"{'hits':>10}  launches"]
    for repeat in known:
        launches = (str(launch) for part in repeat.plan.parts for launch in part.launches)
        lines.append(f"{repeat.hits:>10}  {'; '.join(launches)}")
    return "\n".join([*lines, f"{len(known)} calls known, {sum(repeat.hits for repeat in known)} hits"])


def gpu_problem(device: int = 0) -> str | None:
    """Why cudml cannot compute on that GPU; None when it can, shown by a small running sum on it."""
    found = driver.version()
    if found is None:
        return "no NVIDIA driver was found"
    if driver.gpu_count() == 0:
        return "the NVIDIA driver offers no GPU"
    extra = driver.extra()
    if extra is None:
        return f"the NVIDIA driver supports CUDA {_dotted(found)}; cudml needs one for CUDA 12 or newer"
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        return f"CuPy cannot be imported ({error}); install it with: pip install 'cudml[{extra}]'"
    try:
        return _wrong_sum(cupy, device)
    except Exception as error:  # whatever fails in a driver, a compiler or a launch is the answer asked for
        return f"{type(error).__name__}: {error}"


def _wrong_sum(cupy: Any, device: int) -> str | None:
    with cupy.cuda.Device(device):
        found = cupy.asnumpy(cudml.cumsum(cupy.arange(_CHECKED_ELEMENTS)))
    expected = [n * (n + 1) // 2 for n in range(_CHECKED_ELEMENTS)]
    return None if found.tolist() == expected else "a running sum came out wrong"


def _host_facts() -> list[tuple[str, str]]:
    return [
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("NumPy", np.__version__),
    ]


def _cuda_facts() -> list[tuple[str, str]]:
    found = driver.version()
    facts = [("Driver", "none" if found is None else f"CUDA {_dotted(found)}")]
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        return [*facts, ("CuPy", f"none ({error})")]
    return [*facts, ("CuPy", cupy.__version__), ("Runtime", _runtime(cupy)), ("NVRTC", _nvrtc(cupy))]


def _runtime(cupy: Any) -> str:
    number = cupy.cuda.runtime.runtimeGetVersion()
    return f"CUDA {_dotted((number // 1000, number % 1000 // 10))}"


def _nvrtc(cupy: Any) -> str:
    try:
        return _dotted(cupy.cuda.nvrtc.getVersion())
    except (ImportError, RuntimeError, OSError) as error:
        return f"none ({error})"


def _cache_folder() -> str:
    try:
        return str(importlib.import_module("cudml.cuda.cache").cache_folder())
    except ImportError as error:
        return f"none ({error})"


def _gpu_facts() -> list[tuple[str, str]]:
    count = driver.gpu_count()
    if count == 0:
        return [("GPU", f"not used: {gpu_problem()}")]
    return [(f"GPU {device}", _gpu(device)) for device in range(count)]


def _gpu(device: int) -> str:
    problem = gpu_problem(device)
    state = "works" if problem is None else f"not used: {problem}"
    try:
        runtime = importlib.import_module("cupy").cuda.runtime
        found = runtime.getDeviceProperties(device)
    except Exception:  # the state says already why
        return state
    capability = _dotted((found["major"], found["minor"]))
    memory = found["totalGlobalMem"] / 2**30
    return f"{found['name'].decode()}, compute capability {capability}, {memory:.1f} GiB: {state}"


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
