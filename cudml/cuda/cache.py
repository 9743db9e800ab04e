"""Compiled kernels on disk.

A file's name is the digest of every byte that was compiled, of the options with the architecture, and of NVRTC's
version, so a file never goes stale. Files are written under another name and renamed: two processes may fill the cache
at once. Each ends with the digest of what precedes it; a truncated or foreign file is noticed and replaced. The folder
may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from cudml.cuda import compiler, sources

_ELSEWHERE: dict[Path, Path] = {}
_DIGEST_BYTES = hashlib.sha256().digest_size


def cache_folder() -> Path:
    """Where cubins are kept: CUDML_CACHE_DIR if that is set, else the user's cache folder."""
    chosen = os.environ.get("CUDML_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "cudml" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cudml"


def cubin_path(name: str, constants: compiler.Constants, architecture: str) -> Path:
    """The file that holds the compiled kernels; compiles them if there is none yet."""
    path = _path(name, constants, architecture)
    found = _found(path)
    if found:
        return found
    cubin, _ = compiler.compile_cubin(name, constants, architecture)
    try:
        return _write(path, cubin)
    except OSError:
        elsewhere = _ELSEWHERE[path] = _write(_private_folder() / path.name, cubin)
        return elsewhere


def is_cached(name: str, constants: compiler.Constants, architecture: str) -> bool:
    """Whether `cubin_path` finds the file without compiling."""
    return _found(_path(name, constants, architecture)) is not None


def _path(name: str, constants: compiler.Constants, architecture: str) -> Path:
    return cache_folder() / f"{_key(name, constants, architecture)}.cubin"


def _key(name: str, constants: compiler.Constants, architecture: str) -> str:
    digest = hashlib.sha256()
    texts = (name, sources.source(name), *(part for header in sources.headers().items() for part in header))
    options = compiler.compile_options(constants, architecture)
    for part in (*texts, *options, str(compiler.nvrtc_version())):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:40]


def _found(path: Path) -> Path | None:
    """The file, or the one that this process wrote elsewhere because it could not be written there."""
    return next(filter(_is_whole, (path, _ELSEWHERE.get(path, path))), None)


def _is_whole(path: Path) -> bool:
    try:
        content = path.read_bytes()
    except OSError:
        return False
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    return bool(body) and hashlib.sha256(body).digest() == digest


def _write(path: Path, cubin: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(cubin + hashlib.sha256(cubin).digest())
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return path


@cache
def _private_folder() -> Path:
    """For a process that cannot write to the cache folder."""
    return Path(tempfile.mkdtemp(prefix="cudml-"))
