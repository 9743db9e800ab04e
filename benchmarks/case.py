"""What is measured: a case, and what a module of cases offers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

Call: TypeAlias = Callable[[], object]
Arrays: TypeAlias = Mapping[str, Any]

#: Below this a case fits the second-level cache or is dominated by launches; it is measured over rotating buffers.
SMALL_BYTES = 256 << 20
#: Below this the host needs longer for a call than the GPU, so that the host's time is measured as well.
HOST_BOUND_BYTES = 1 << 20

_SHRUNK_LENGTH = 5
_RANDOM_BLOCK = 1 << 20


@dataclass(frozen=True)
class Case:
    """One call of a public function."""

    op: str
    dtype: str
    shape: tuple[int, ...]
    axis: Any
    """An axis, a tuple of axes, or None for elementwise operators."""
    options: dict[str, Any] = field(default_factory=dict)
    streams: int = 2
    """How many arrays of `shape` a perfect kernel reads and writes."""
    compiled_peer: bool = False
    """Whether torch.compile is measured as well, which takes seconds."""

    @property
    def bytes(self) -> int:
        """The traffic of a perfect kernel."""
        return self.streams * math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def is_small(self) -> bool:
        return self.bytes < SMALL_BYTES

    @property
    def is_host_bound(self) -> bool:
        return self.bytes < HOST_BOUND_BYTES

    def shrunk(self) -> Case:
        """The same case on a few elements, for dry runs."""
        return replace(self, shape=tuple(min(length, _SHRUNK_LENGTH) for length in self.shape))

    def __str__(self) -> str:
        axis = list(self.axis) if isinstance(self.axis, tuple) else self.axis
        options = "".join(f" {name}={value}" for name, value in self.options.items())
        return f"{self.op} {self.dtype} {self.shape} axis {axis}{options}"


class Family(Protocol):
    """What each of the modules scan, normalization and modulus offers."""

    CASES: tuple[Case, ...]

    def arrays(self, case: Case, xp: Any) -> Arrays:
        """Inputs with data, and an output, as arrays of the module `xp`."""

    def ours(self, case: Case, arrays: Arrays) -> Call:
        """The call of cudml."""

    def peers(self, case: Case, arrays: Arrays) -> dict[str, Call]:
        """The same computation by the other libraries that are installed."""

    def compiled_peers(self, case: Case, arrays: Arrays) -> dict[str, Call]:
        """Those that are compiled first, which takes seconds."""


def filled(xp: Any, shape: tuple[int, ...], dtype: str, low: float, high: float) -> Any:
    """An array of uniform values from low to high; a block of them is repeated, so that no library of random numbers
    is needed on the GPU."""
    size = math.prod(shape)
    block = np.random.default_rng(0).uniform(low, high, min(size, _RANDOM_BLOCK)).astype(dtype)
    array = xp.empty(size, dtype)
    whole = size - size % len(block)
    array[:whole].reshape(-1, len(block))[...] = xp.asarray(block)
    array[whole:] = xp.asarray(block[: size - whole])
    return array.reshape(shape)
