"""The kernels' sources: kernels/ beside the package in a checkout, inside it in an installed wheel."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path

_KERNEL = re.compile(r'^extern "C" __global__ void (?:__\w+__\([^()]*\)\s+)+(\w+)\(.*?^}$', re.MULTILINE | re.DOTALL)


@cache
def kernels_folder() -> Path:
    """The folder that holds the .cu and .cuh files."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "kernels", package.parent / "kernels"):
        if (folder / "scan.cuh").is_file():
            return folder
    raise FileNotFoundError(f"no kernels in {package / 'kernels'} or {package.parent / 'kernels'}; reinstall cudml")


@cache
def headers() -> dict[str, str]:
    """All headers by the name under which kernels include them."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(kernels_folder().glob("*.cuh"))}


@cache
def source(name: str) -> str:
    """The text of a .cu file."""
    return (kernels_folder() / name).read_text(encoding="utf-8")


def with_kernels(text: str, names: Collection[str]) -> str:
    """The text of a .cu file without its other kernels; what is left stands in the same lines."""
    return _KERNEL.sub(lambda found: found[0] if found[1] in names else "\n" * found[0].count("\n"), text)
