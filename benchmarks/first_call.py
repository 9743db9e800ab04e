"""How long the first call of a process takes: `python -m benchmarks.first_call [TEXT]`.

Each call is the first one of a new process, which has imported cudml and CuPy before, in the order of their names, and
filled the arrays: with an empty cache of compiled kernels, and with what that left on disk. Timed are the call and its
result's arrival, median of three processes, as a host that others use too took from 0.30 to 0.50 s for one and the same
kernel, and another one 0.62 s. The bytecode of Python modules is on disk too, as it is of every package that pip
installed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.families import FAMILIES

#: One case or two of each kernel that takes long to compile, and of those that are met first.
CASES = (
    "cumsum float32 (268435456,) axis 0",
    "cumsum float32 (65536, 4096) axis 1",
    "cumsum float32 (4096, 65536) axis 0",
    "cumsum float32 (65536, 4096) axis 0",
    "mean_variance_normalization float32 (65536, 4096) axis 1 scale=[1, 4096]",
    "mean_variance_normalization float32 (64, 256, 128, 128) axis [0, 2, 3] scale=[1, 256, 1, 1]",
    "mean_variance_normalization float32 (64, 256, 128, 128) axis [1, 2, 3] scale=[1, 256, 1, 1]",
    "mean_variance_normalization float32 (65536, 4096) axis 0 scale=[1, 4096]",
    "mean_variance_normalization float16 (64, 256, 128, 128) axis [0, 2] scale=[1, 256, 1, 1]",
    "mean_variance_normalization float16 (64, 192, 71, 71) axis [0, 2, 3] scale=[1, 192, 1, 1]",
    "fmod float32 (268435456,) axis None",
)
_PROCESSES = 3

_IMPORT = "import time, cupy; start = time.perf_counter(); import cudml; print((time.perf_counter() - start) * 1e3)"


def measure(name: str, dry_run: bool = False) -> float:
    """Milliseconds of the case's call, the first of this process."""
    xp = importlib.import_module("numpy" if dry_run else "cupy")
    family, case = next((family, case) for family in FAMILIES.values() for case in family.CASES if str(case) == name)
    call = family.ours(case, family.arrays(case.shrunk() if dry_run else case, xp))
    _wait(xp)
    start = time.perf_counter()
    call()
    _wait(xp)
    return (time.perf_counter() - start) * 1e3


def _wait(xp: Any) -> None:
    if xp.__name__ == "cupy":
        xp.cuda.Device().synchronize()


def _in_new_process(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    done = subprocess.run([sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def _print_table(names: Sequence[str], folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "CUDA_CACHE_DISABLE": "1"}  # NVRTC has a cache too

    def first_call(name: str, cache: str) -> float:
        arguments = ("-m", "benchmarks.first_call", "--only", name)
        return _in_new_process(arguments, environment | {"CUDML_CACHE_DIR": str(folder / cache)})

    for _ in range(2):  # the first process leaves the bytecode behind
        took = _in_new_process(("-c", _IMPORT), environment)
    first_call(names[0], "bytecode")
    print(f"import cudml, after CuPy: {took:.1f} ms")
    print("empty cache   on disk   milliseconds of the first call", flush=True)
    for number, name in enumerate(names):
        empty = statistics.median(first_call(name, f"{number} {process}") for process in range(_PROCESSES))
        found = statistics.median(first_call(name, f"{number} {process}") for process in range(_PROCESSES))
        print(f"{empty:11.0f}{found:10.1f}   {name}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_call", description=__doc__)
    parser.add_argument("text", nargs="?", default="", help='only cases whose name contains this: "axis 0"')
    parser.add_argument("--only", metavar="NAME", help="measure this case in this process, and print the time")
    options = parser.parse_args(arguments)
    if options.only:
        print(measure(options.only))
        return
    with tempfile.TemporaryDirectory() as folder:
        _print_table([name for name in CASES if options.text in name], Path(folder))


if __name__ == "__main__":
    main()
