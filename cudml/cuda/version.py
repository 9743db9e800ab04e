"""NVRTC's version, if possible without NVRTC: where all kernels are cached, loading it is a large part of a first call.

A note in the cache folder says which library was loaded, and which version it had. It holds as long as that file,
CuPy's binding and the variables that lead to a library are the same; in doubt the library itself is asked. What is
compiled is always filed under the version that compiled it.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from cudml.cuda import compiler
from cudml.cuda.files import read_whole, write_whole

_VARIABLES = ("CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX", "LD_LIBRARY_PATH")


def noted_version(folder: Path) -> str | None:
    """The version that the note tells; None where there is no note that holds."""
    content = read_whole(_note(folder))
    if content is None:
        return None
    version, stamp, library = os.fsdecode(content).split("\n")
    return version if stamp and _stamp(library) == stamp else None


def loaded_version(folder: Path) -> str:
    """The version that NVRTC tells, noted for the next time."""
    version = str(compiler.nvrtc_version())
    library = _loaded_library()
    stamp = _stamp(library) if library else ""
    if stamp and noted_version(folder) != version:
        with suppress(OSError):
            write_whole(_note(folder), os.fsencode(f"{version}\n{stamp}\n{library}"))
    return version


def _note(folder: Path) -> Path:
    """One for each way to a library."""
    from cupy_backends.cuda.libs import nvrtc

    way = (nvrtc.__file__, _stamp(nvrtc.__file__), *map(os.environ.get, _VARIABLES))
    return folder / f"{hashlib.sha256(repr(way).encode()).hexdigest()[:16]}.nvrtc"


def _stamp(file: str) -> str:
    """What is another one after the file was replaced; empty where there is none."""
    with suppress(OSError):
        found = os.stat(file)
        return f"{found.st_size} {found.st_mtime_ns}"
    return ""


def _loaded_library() -> str | None:
    """The file that NVRTC was loaded from, on systems that tell. Names of files may be any bytes."""
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_bytes().splitlines():
            file = os.fsdecode(line.split(maxsplit=5)[-1])
            if os.path.basename(file).startswith("libnvrtc.so"):
                return file
    return None
