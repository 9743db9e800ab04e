"""From a kernel file to a shared library, with g++ and a cache on disk."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from cuda_on_cpu.errors import CompileError, Unsupported

HERE = Path(__file__).resolve().parent
INCLUDE, RUNTIME = HERE / "include", HERE / "runtime"
CACHE = HERE.parent.parent / "build" / "cuda_on_cpu"
OLDEST_GCC = 12

# What the code relies on: half precision conversions (F16C) and 16-byte accesses that trap when misaligned (AVX).
_CPU_FLAGS = {"avx2", "f16c", "fma", "bmi2"}
_COMMON = (
    "-std=c++20",
    "-march=x86-64-v3",
    "-fPIC",
    "-g1",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-ffp-contract=off",  # as the GPU's kernels are compiled
    "-fno-math-errno",
    "-fno-gnu-unique",  # a module's shared variables are its own
    "-fvisibility=hidden",
)
# The runtime throws nothing, but its containers might.
_RUNTIME = (*(flag for flag in _COMMON if flag != "-fno-exceptions"), "-O2")
_KERNEL = (
    *_COMMON,
    "-fno-tree-slp-vectorize",  # GCC 12 makes vfmaddsub of complex products in spite of -ffp-contract=off
    "-mtls-dialect=gnu",
    "-fno-extern-tls-init",
    "-Wno-attributes",
    "-Wno-unknown-pragmas",
)
_FAST = ("-O1",)  # compiling takes most of the time, and with -O2 two fifths longer
# Without `null`, which makes compiling a fifth longer: address 0 lies in no array of a launch.
_UNDEFINED = "bounds,alignment,shift,integer-divide-by-zero,bool,unreachable"
_CHECKING = (
    "-O1",
    # Without it the compiler proves of some shared variables that no other thread can see them, and does not
    # instrument them.
    "-fno-tree-pta",
    "-fsanitize=thread",
    "--param=tsan-instrument-func-entry-exit=0",
    f"-fsanitize={_UNDEFINED}",
)


@cache
def requirement() -> str | None:
    """Why kernels cannot run on this machine's CPU; None when they can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return f"it runs on x86-64 Linux only, and this is {platform.machine()} {platform.system()}"
    missing = sorted(_CPU_FLAGS - set(Path("/proc/cpuinfo").read_text().split()))
    if missing:
        return f"this processor lacks {', '.join(missing)}"
    version = gcc_version()
    if version is None:
        return f"no g++ was found; version {OLDEST_GCC} or newer is needed"
    if int(version.split(".")[0]) < OLDEST_GCC:
        return f"g++ {OLDEST_GCC} or newer is needed, and this one is {version}"
    return None


@cache
def gcc_version() -> str | None:
    """As g++ prints it; None without a g++."""
    try:
        return subprocess.run([_gcc(), "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _gcc() -> str:
    return os.environ.get("CXX", "g++")


@cache
def runtime(checking: bool) -> Path:
    """The library that runs threads and, if `checking`, sees every access."""
    sources = sorted(RUNTIME.glob("*.cpp"))
    flags = (*_RUNTIME, "-DCUDA_ON_CPU_CHECKING") if checking else _RUNTIME
    if not checking:
        sources = [source for source in sources if source.stem not in ("clocks", "hooks", "regions", "shadow")]
    name = "checking" if checking else "fast"
    texts = _texts(RUNTIME.glob("*")) + _texts(INCLUDE.glob("*"))
    library = CACHE / f"runtime-{name}-{_key(flags, texts)}.so"
    _build_once(library, [*flags, f"-I{INCLUDE}", "-shared", *map(str, sources), "-Wl,--no-as-needed", "-lm"])
    return library


def compile_kernels(source: Path, constants: tuple[tuple[str, str], ...], names: Iterable[str], checking: bool) -> Path:
    """The library of the kernels `names` (or instances of templates) of a .cu file, in that order."""
    library, headers = runtime(checking), _precompiled_headers(checking)
    wrapper = _wrapper(source, constants, tuple(names))
    texts = _texts([source, *source.parent.glob("*.cuh")])
    compiled = CACHE / f"{source.stem}-{_key(wrapper, library.name, headers.name, texts)}.so"
    if not compiled.exists():
        unit = compiled.with_suffix(f".{os.getpid()}.cpp")
        unit.write_text(wrapper)
        # The libraries behind -fsanitize are not linked: the runtime has their functions. Those of C come with it.
        link = ["-shared", "-nostdlib", "-Wl,-Bsymbolic", f"-Wl,-rpath,{CACHE}", str(library)]
        try:
            _build(compiled, [f"-I{headers}", f"-I{INCLUDE}", *_kernel_flags(checking), str(unit), *link])
        finally:
            unit.unlink()
    return compiled


@cache
def _precompiled_headers(checking: bool) -> Path:
    """A folder with what every kernel includes first: reading it anew takes as long as compiling a kernel."""
    flags = _kernel_flags(checking)
    folder = CACHE / f"headers-{_key(flags, _texts(INCLUDE.glob('*')))}"
    target = folder / "cuda_on_cpu.h.gch"
    _build_once(target, [*flags, "-x", "c++-header", str(INCLUDE / "cuda_on_cpu.h")])
    return folder


def _kernel_flags(checking: bool) -> tuple[str, ...]:
    return (*_KERNEL, *(_CHECKING if checking else _FAST))


_ATTRIBUTE = r"__\w+__\s*\((?:[^()]|\([^()]*\))*\)\s*"
_KERNEL_NAME = re.compile(rf'extern\s+"C"\s+__global__\s+void\s+(?:{_ATTRIBUTE})*(\w+)\s*\(')
_CLUSTER = re.compile(rf"__cluster_dims__\s*(\((?:[^()]|\([^()]*\))*\))\s*(?:{_ATTRIBUTE})*(\w+)\s*[(<]")


def kernel_names(source: str) -> tuple[str, ...]:
    """The kernels that are extern "C"."""
    return tuple(dict.fromkeys(_KERNEL_NAME.findall(source)))


def dynamic_shared_names(source: str) -> list[str]:
    """The names of `extern __shared__` arrays, which all stand for the same memory."""
    return sorted(set(re.findall(r"extern\s+__shared__\b[^;\[]*?(\w+)\s*\[\s*\]", source)))


def _wrapper(source: Path, constants: tuple[tuple[str, str], ...], names: tuple[str, ...]) -> str:
    text = source.read_text()
    clusters = {name: sizes for sizes, name in _CLUSTER.findall(text)}
    lines = [
        '#include "cuda_on_cpu.h"',
        # Not on the command line: they would meet names of the executor's own headers.
        *(f"#define {name} {value}" for name, value in constants),
        f'#include "{source}"',
        '#include "module.h"',
        *(f"CUDA_ON_CPU_DYNAMIC_SHARED({name})" for name in dynamic_shared_names(text)),
        *(
            f"CUDA_ON_CPU_EXPORT({number}, {clusters.get(name.partition('<')[0], '()')}, {name})"
            for number, name in enumerate(names)
        ),
    ]
    return "\n".join(lines) + "\n"


def _texts(paths: Iterable[Path]) -> list[str]:
    return [f"{path.name}\0{path.read_text()}" for path in sorted(paths) if path.is_file()]


def _key(*parts: object) -> str:
    return hashlib.sha256(repr((gcc_version(), *parts)).encode()).hexdigest()[:20]


def _build_once(target: Path, arguments: list[str]) -> None:
    """What takes seconds: processes that need it at the same time wait for one of them."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _build(target, arguments)


def _build(target: Path, arguments: list[str]) -> None:
    """Under another name first: a process beside this one may build the same."""
    unfinished = target.with_suffix(f".{os.getpid()}")
    _run([*arguments, "-o", str(unfinished)])
    unfinished.rename(target)


def _run(arguments: list[str]) -> None:
    done = subprocess.run([_gcc(), *arguments], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise _explain(done.stderr)


def _explain(log: str) -> CompileError:
    unknown = re.search(r"error: '([^']+)' (?:was not declared|has not been declared|is not a member)", log)
    if unknown:
        return Unsupported(f"{unknown[1]} is not known to the CPU executor; it would stand in {INCLUDE.name}/\n{log}")
    missing = re.search(r"fatal error: (\S+): No such file", log)
    if missing:
        return Unsupported(f"the header {missing[1]} is not known to the CPU executor\n{log}")
    if "inline PTX stands in" in log:
        return Unsupported(f"inline PTX stands in intrinsics.cuh only, under #ifndef CUDA_ON_CPU\n{log}")
    return CompileError(log)
