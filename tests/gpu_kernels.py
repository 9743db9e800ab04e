"""The executor's own test kernels, compiled for the GPU at hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

#: Clusters, bulk copies and mbarriers.
NEEDED_CAPABILITY = 90


@cache
def gpu_kernel(path: Path, name: str, cooperative: bool = False) -> Any:
    """A kernel of a .cu file that needs no header of the toolkit, as CuPy launches it."""
    import cupy
    from cupy_backends.cuda.libs import nvrtc

    capability = int(cupy.cuda.Device().compute_capability)
    if capability < NEEDED_CAPABILITY:
        pytest.skip(f"compute capability {capability} is below {NEEDED_CAPABILITY}")
    headers = {header.name.encode(): header.read_bytes() for header in path.parent.glob("*.cuh")}
    program = nvrtc.createProgram(path.read_text(), path.name, list(headers.values()), list(headers))
    try:
        nvrtc.compileProgram(program, (f"-arch=sm_{capability}", "-std=c++17", f"-I{path.parent}", "-DBUG=0"))
        module = cupy.cuda.function.Module()
        module.load(nvrtc.getCUBIN(program))
    finally:
        nvrtc.destroyProgram(program)
    function = module.get_function(name)

    def launch(grid: Any, block: Any, arguments: tuple[Any, ...], shared_bytes: int = 0) -> None:
        grid, block = (size if isinstance(size, tuple) else (size,) for size in (grid, block))
        function(grid, block, arguments, shared_bytes, enable_cooperative_groups=cooperative)

    return launch
