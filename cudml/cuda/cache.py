"""Compiled kernels on disk.

A file's name is the digest of every byte that was compiled, of the options with the architecture, and of NVRTC's
version, so a file never goes stale. Two processes may fill the cache at once, and damaged files are replaced
(files.py). The folder may be deleted at any time.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

from cudml.cuda import compiler, sources
from cudml.cuda.files import read_whole, write_whole
from cudml.cuda.version import loaded_version, noted_version

#: A variable that names the user's cache folder, where that is without it, and the folder in it.
_USERS_FOLDER = {
    "win32": ("LOCALAPPDATA", Path("AppData", "Local"), Path("cudml", "cache")),
    "others": ("XDG_CACHE_HOME", Path(".cache"), Path("cudml")),
}

_ELSEWHERE: dict[Path, Path] = {}

#: The file of a kernel, the constants and the architecture that it is compiled with.
Kernel: TypeAlias = tuple[str, compiler.Constants, str]


def cache_folder() -> Path:
    """Where cubins are kept: CUDML_CACHE_DIR if that is set, else the user's cache folder."""
    chosen = os.environ.get("CUDML_CACHE_DIR")
    if chosen:
        return Path(chosen)
    variable, below_home, name = _USERS_FOLDER["win32" if sys.platform == "win32" else "others"]
    try:
        return Path(os.environ.get(variable) or Path.home() / below_home) / name
    except RuntimeError:  # a user without a home
        return _private_folder()


def cubin_path(name: str, constants: compiler.Constants, architecture: str) -> Path:
    """The file that holds the compiled kernels; compiles them if there is none yet."""
    for path in _places(name, constants, architecture):
        found = _found(path)
        if found:
            return found
    cubin, _ = compiler.compile_cubin(name, constants, architecture)
    try:
        return write_whole(path, cubin)
    except OSError:
        elsewhere = _ELSEWHERE[path] = write_whole(_private_folder() / path.name, cubin)
        return elsewhere


def is_cached(name: str, constants: compiler.Constants, architecture: str) -> bool:
    """Whether `cubin_path` finds the file without compiling."""
    return any(map(_found, _places(name, constants, architecture)))


def fill_cache(kernels: Iterable[Kernel], report: Callable[[int, int], None] | None = None) -> int:
    """Compiles the kernels that are missing side by side, and returns how many that were; `report` is told how many of
    them are done each time that one is. NVRTC compiles in as many threads as there are."""
    missing = [kernel for kernel in kernels if not is_cached(*kernel)]
    if not missing:
        return 0
    from concurrent.futures import ThreadPoolExecutor, as_completed  # which takes longer than all else of this module

    with ThreadPoolExecutor(os.cpu_count(), "cudml-compiler") as pool:
        running = [pool.submit(cubin_path, *kernel) for kernel in missing]
        for done, future in enumerate(as_completed(running), start=1):
            future.result()
            if report:
                report(done, len(missing))
    return len(missing)


def _places(name: str, constants: compiler.Constants, architecture: str) -> Iterator[Path]:
    """Where the file is or will be: by the version that is noted first, at last by that of NVRTC, which is loaded."""
    digest = hashlib.sha256()
    texts = (name, sources.source(name), *(part for header in sources.headers().items() for part in header))
    for part in (*texts, *compiler.compile_options(constants, architecture)):
        digest.update(part.encode() + b"\0")
    folder = cache_folder()
    for version_in in (noted_version, loaded_version):
        version = version_in(folder)
        if version:
            named = digest.copy()
            named.update(version.encode() + b"\0")
            yield folder / f"{named.hexdigest()[:40]}.cubin"


def _found(path: Path) -> Path | None:
    """The file, or the one that this process wrote elsewhere because it could not be written there."""
    return next((file for file in (path, _ELSEWHERE.get(path, path)) if read_whole(file)), None)


@cache
def _private_folder() -> Path:
    """For a process that cannot write to the cache folder; removed when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="cudml-"))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not a child of it
        shutil.rmtree(folder, ignore_errors=True)
