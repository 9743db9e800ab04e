"""CUB's inclusive sum, compiled from the toolkit's headers by the nvcc on PATH: what CUDA C++ itself offers.

The library is built when it is first needed. Where the GPU's machine has no nvcc, build it elsewhere for that GPU's
compute capability with `python -m benchmarks.cub 90`, and bring the file along whose name that prints.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.case import Call

SOURCE = Path(__file__).resolve().with_name("cub_scan.cu")
FOLDER = SOURCE.parent.parent / "build"

DTYPES = frozenset({"float16", "float32", "float64", "int32", "int64"})


def inclusive_sum(a: Any, out: Any, cupy: Any) -> Call | None:
    """A call of CUB on the current stream, with its temporary storage allocated beforehand; None without a compiler."""
    library = _library(cupy.cuda.Device().compute_capability)
    if library is None:
        return None
    function = getattr(library, f"inclusive_sum_{a.dtype}")
    nbytes, stream = ctypes.c_size_t(), ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)
    pointers = ctypes.c_void_p(a.data.ptr), ctypes.c_void_p(out.data.ptr), ctypes.c_longlong(a.size)
    _check(function(None, ctypes.byref(nbytes), *pointers, stream))
    storage = cupy.empty(nbytes.value, cupy.uint8)

    def call(_keep_alive: Any = (a, out, storage)) -> None:
        _check(function(ctypes.c_void_p(storage.data.ptr), ctypes.byref(nbytes), *pointers, stream))

    return call


def build(compute_capability: str) -> Path | None:
    """The library for GPUs like "90", compiled once for each text of its source; None without nvcc."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    path = FOLDER / f"cub_scan_{digest[:12]}_sm_{compute_capability}.so"
    if path.exists():
        return path
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return None
    FOLDER.mkdir(exist_ok=True)
    target = f"-gencode=arch=compute_{compute_capability},code=sm_{compute_capability}"
    options = ["-O3", "-std=c++17", target, "-shared", "-Xcompiler", "-fPIC"]
    subprocess.run([nvcc, *options, "-o", str(path), str(SOURCE)], check=True)
    return path


@cache
def _library(compute_capability: str) -> Any:
    try:
        path = build(compute_capability)
        return path and ctypes.CDLL(str(path))
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"CUB is left out: {error}")
        return None


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"CUB failed with CUDA's error {status}")


if __name__ == "__main__":
    print(build(sys.argv[1]) or "there is no nvcc on PATH")
