"""What is measured: a case, and what a module of cases offers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol, TypeAlias

import ml_dtypes  # noqa: F401  (makes "bfloat16" a name that NumPy knows)
import numpy as np

Call: TypeAlias = Callable[[], object]
Arrays: TypeAlias = Mapping[str, Any]

#: Roofs, what memory allows where that is not a copy: a sum that reads as many bytes and writes next to none, and an
#: addition of the same arrays. They are no other library's way of computing the same.
READING, ADDITION = "reading", "addition"
ROOFS = {READING, ADDITION}

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
    group: str = ""
    """What the case is an example of: cases of one group share a row of the chart."""
    required: float | None = None
    """The least percent of a copy's speed that is good enough."""
    roof: str = ""
    """The one of ROOFS whose speed `required` is a percentage of, instead of the copy's, where it was measured."""
    baseline: Case | None = None
    """A case that this one must keep up with, instead of a fixed percentage."""
    behind: float = 2
    """Points of percentage by which it may stay behind its baseline."""

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
        shape = tuple(min(length, _SHRUNK_LENGTH) for length in self.shape)
        return replace(self, shape=shape, baseline=self.baseline and self.baseline.shrunk())

    def matches(self, text: str) -> bool:
        """Whether `text` occurs in the case's group or name."""
        return text in f"{self.group}: {self}"

    def __str__(self) -> str:
        axis = list(self.axis) if isinstance(self.axis, tuple) else self.axis
        options = "".join(f" {name}={value}" for name, value in self.options.items())
        return f"{self.op} {self.dtype} {self.shape} axis {axis}{options}"


class Family(Protocol):
    """What each of the modules scan, normalization and modulus offers. `case` is one of its own."""

    CASES: tuple[Any, ...]

    def arrays(self, case: Any, xp: Any) -> Arrays:
        """Inputs with data, and an output, as arrays of the module `xp`."""

    def ours(self, case: Any, arrays: Arrays) -> Call:
        """The call of cudml."""

    def peers(self, case: Any, arrays: Arrays) -> dict[str, Call]:
        """The same computation by the other libraries that are installed."""

    def compiled_peers(self, case: Any, arrays: Arrays) -> dict[str, Call]:
        """Those that are compiled first, which takes seconds."""


def filled(xp: Any, shape: tuple[int, ...], dtype: str, low: float, high: float, seed: int = 0) -> Any:
    """An array of uniform values from low to high; a block of them is repeated, so that no library of random numbers
    is needed on the GPU."""
    size = math.prod(shape)
    block = _block(dtype, low, high, seed)[:size]
    array = xp.empty(size, dtype)
    bits = array.view(block.dtype)
    whole = size - size % len(block)
    bits[:whole].reshape(-1, len(block))[...] = xp.asarray(block)
    bits[whole:] = xp.asarray(block[: size - whole])
    return array.reshape(shape)


@cache
def _block(dtype: str, low: float, high: float, seed: int) -> np.ndarray:
    """The values' bits as unsigned integers, which every library can copy whatever their type is."""
    values = np.random.default_rng(seed).uniform(low, high, (2, _RANDOM_BLOCK))
    numbers = values[0] + 1j * values[1] if np.dtype(dtype).kind == "c" else values[0]
    return numbers.astype(dtype).view(f"u{np.dtype(dtype).itemsize}")
