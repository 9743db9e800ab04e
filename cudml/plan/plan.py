"""What is launched: kernels, their compile-time constants, grids, blocks, arguments and workspace.

A plan is pure data, made without CuPy or a GPU, and printable. Whoever executes it compiles `source` with `constants`,
allocates the workspace and launches one kernel after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of an array of the call; null where the call has no array of that name."""

    array: str


@dataclass(frozen=True, slots=True)
class Workspace:
    """An address inside the workspace."""

    offset: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A NumPy scalar of the call by value; a zero of `dtype` where the call has an array of that name instead."""

    name: str
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class Struct:
    """A C struct by value whose members are all of one type."""

    values: tuple[float, ...]
    dtype: np.dtype

    def packed(self) -> np.ndarray:
        """The struct's bytes, as an array of one element of that size."""
        raw = np.array(self.values, self.dtype)
        return raw.view(np.dtype((np.void, raw.nbytes)))


Argument: TypeAlias = Pointer | Workspace | Scalar | Struct


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel on a one-dimensional grid."""

    kernel: str
    grid: int
    block: int
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        shown = ", ".join(_show(argument) for argument in self.arguments)
        return f"{self.kernel}<<<{self.grid}, {self.block}>>>({shown})"


@dataclass(frozen=True, slots=True)
class Plan:
    """All launches of a call, in order. A plan without launches has nothing to compute."""

    source: str
    """The file under kernels/ that holds the kernels."""
    constants: tuple[tuple[str, str], ...]
    """The preprocessor constants that it is compiled with."""
    launches: tuple[Launch, ...]
    workspace_bytes: int = 0

    def __str__(self) -> str:
        constants = " ".join(f"{name}={value}" for name, value in self.constants)
        lines = [f"{self.source}: {constants}", *(str(launch) for launch in self.launches)]
        if self.workspace_bytes:
            lines.append(f"workspace: {self.workspace_bytes} bytes")
        return "\n".join(lines)


def constants_of(**constants: str | int | bool) -> tuple[tuple[str, str], ...]:
    """Constants as a plan holds them: sorted, booleans as 0 and 1."""
    return tuple(
        (name, value if isinstance(value, str) else str(int(value))) for name, value in sorted(constants.items())
    )


def _show(argument: Argument) -> str:
    if isinstance(argument, Pointer):
        return argument.array
    if isinstance(argument, Workspace):
        return f"workspace+{argument.offset}"
    if isinstance(argument, Scalar):
        return f"{argument.name} by value"
    return "{" + ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in argument.values) + "}"
