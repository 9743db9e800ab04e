"""What is launched: kernels, their compile-time constants, grids, blocks, arguments and memory.

A plan is pure data, made without CuPy or a GPU, and printable. Whoever executes it compiles `source` with `constants`,
provides the memory and launches one kernel after the other.

Besides the arrays of the call a plan can ask for two kinds of memory. A workspace belongs to one call, in which its
launches hand values on; it starts with anything in it. The scratch outlives calls and is shared by all plans: it is
zero when it is new, and every launch finds it as some launch before left it. So a kernel has to leave it ready for any
other, whichever shares it next, and launches hand nothing on to each other in it. No two launches that share a scratch
ever run at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np


class Pointer(NamedTuple):
    """The address of an array of the call; null where the call has no array of that name."""

    array: str


class Workspace(NamedTuple):
    """An address inside the workspace."""

    offset: int


@dataclass(frozen=True)
class Scratch:
    """The address of the scratch."""


class Scalar(NamedTuple):
    """A NumPy scalar of the call by value; a zero of `dtype` where the call has an array of that name instead."""

    name: str
    dtype: np.dtype


class Struct(NamedTuple):
    """A C struct by value whose members are all of one type. Zeros of both signs differ: plans that are equal compute
    the same."""

    values: tuple[float, ...]
    dtype: np.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and repr(self) == repr(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.values)

    def packed(self) -> np.ndarray:
        """The struct's bytes, as an array of one element of that size."""
        raw = np.array(self.values, self.dtype)
        return raw.view(np.dtype((np.void, raw.nbytes)))


#: The constant that names the kernels that a plan launches, the only ones of its source that are compiled.
KERNELS = "KERNELS"

Argument: TypeAlias = Pointer | Workspace | Scratch | Scalar | Struct


class Launch(NamedTuple):
    """One launch of a kernel on a one-dimensional grid."""

    kernel: str
    grid: int
    block: int
    arguments: tuple[Argument, ...]
    shared_bytes: int = 0
    """Dynamic shared memory of a block."""
    cooperative: bool = False
    """All blocks run at the same time: the launch waits until there is room for them."""
    cluster: int = 1
    """Blocks of a cluster: more than 8 have to be allowed."""
    early: bool = False
    """It may begin while the launch ahead of it ends, for which the kernel waits itself."""

    def __str__(self) -> str:
        shown = ", ".join(_show(argument) for argument in self.arguments)
        shared = f", {self.shared_bytes}" if self.shared_bytes else ""
        how = " together" if self.cooperative else " early" if self.early else ""
        return f"{self.kernel}<<<{self.grid}, {self.block}{shared}>>>({shown}){how}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All launches of a call, in order. A plan without launches has nothing to compute.

    Where the kernels are of several files, `then` is the plan of those that follow, in the memory of the first.
    """

    source: str
    """The file under kernels/ that holds the kernels."""
    constants: tuple[tuple[str, str], ...]
    """The preprocessor constants that it is compiled with; KERNELS is added."""
    launches: tuple[Launch, ...]
    workspace_bytes: int = 0
    scratch_bytes: int = 0
    then: Plan | None = None
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        launched = dict.fromkeys(launch.kernel for launch in self.launches)
        constants = dict(self.constants) | ({KERNELS: ",".join(launched)} if launched else {})
        object.__setattr__(self, "constants", tuple(constants.items()))
        contents = (self.source, self.constants, self.launches, self.workspace_bytes, self.scratch_bytes, self.then)
        object.__setattr__(self, "_hash", hash(contents))

    def __hash__(self) -> int:
        """Computed once: every call looks up what belongs to its plan."""
        return self._hash

    @property
    def parts(self) -> tuple[Plan, ...]:
        """This one and those that follow."""
        return (self, *(self.then.parts if self.then else ()))

    @property
    def is_one_launch(self) -> bool:
        return len(self.launches) == 1 and self.then is None

    def __str__(self) -> str:
        lines: list[str] = []
        for part in self.parts:
            constants = " ".join(f"{name}={value}" for name, value in part.constants if name != KERNELS)
            lines += [f"{part.source}: {constants}", *(str(launch) for launch in part.launches)]
        if self.workspace_bytes:
            lines.append(f"workspace: {self.workspace_bytes} bytes")
        if self.scratch_bytes:
            lines.append(f"scratch: {self.scratch_bytes} bytes")
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
    if isinstance(argument, Scratch):
        return "scratch"
    if isinstance(argument, Scalar):
        return f"{argument.name} by value"
    return "{" + ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in argument.values) + "}"
