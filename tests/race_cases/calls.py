"""Calls and launches that are run under many schedules, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
from cuda_on_cpu import DeviceArray, Kernel, Schedule, device_array
from cuda_on_cpu.backend import SMALL_GPU, EmulatedBackend
from cuda_on_cpu.module import compiled_kernel
from layouts import place

from cudml.backend import register
from cudml.cuda.sources import kernels_folder
from cudml.plan.device import DeviceProperties
from cudml.plan.plan import Plan

#: The library's kernels, and those that show what the executor can do.
LIBRARY = kernels_folder()

EXECUTOR = Path(__file__).parents[1] / "cuda_on_cpu" / "kernels"

AsArray: TypeAlias = Callable[[Any], Any]

Arrays: TypeAlias = tuple[np.ndarray, ...]


class PlansOnly(EmulatedBackend):
    """Notes what would be launched, and launches nothing."""

    def __init__(self, device: DeviceProperties) -> None:
        super().__init__(device=device)
        self.plans: list[Plan] = []

    def _launch(self, plan: Plan, arrays: Mapping[str, Any], schedule: Schedule) -> None:
        self.plans += plan.parts


class RaceArray(DeviceArray):
    """An array of the executor, of a type of its own: its backend is that of the case that runs."""


def asarray(values: Any) -> RaceArray:
    return device_array(values).view(RaceArray)


@dataclass(frozen=True)
class Call:
    """A call of a public function; `compute` gets a function that makes arrays."""

    name: str
    compute: Callable[[AsArray], Any]
    expected: Callable[[], Arrays]
    tolerance: float = 0.0
    device: DeviceProperties = SMALL_GPU
    last_epochs: int = 0
    """As many are left to the first of two calls."""

    def run(self, schedules: Sequence[Schedule], checking: bool, kernels: Path = LIBRARY) -> None:
        """Raises KernelFault or AssertionError unless results are right, and the same to the bit."""
        self.run_on(EmulatedBackend(checking=checking, schedules=list(schedules), kernels=kernels, device=self.device))

    def run_on(self, backend: EmulatedBackend) -> None:
        if self.last_epochs:
            backend.leave_epochs(self.last_epochs)
            assert_right(self.results_of(backend), self.expected(), self.tolerance)
        assert_right(self.results_of(backend), self.expected(), self.tolerance)

    def plans(self) -> list[Plan]:
        """Of all launches, in order."""
        backend = PlansOnly(self.device)
        self.results_of(backend)
        return backend.plans

    def results_of(self, backend: EmulatedBackend) -> Arrays:
        register(RaceArray, backend)
        result = self.compute(asarray)
        return tuple(map(np.array, result if isinstance(result, tuple) else (result,)))


@dataclass(frozen=True)
class Launch:
    """A launch of one kernel of a file; `launch` makes the arguments anew each time and returns the results."""

    name: str
    file: str
    kernel: str
    launch: Callable[[Kernel, Schedule], Any]
    expected: Callable[[], Arrays]
    tolerance: float = 0.0
    constants: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = EXECUTOR

    def run(self, schedules: Sequence[Schedule], checking: bool, kernels: Path | None = None) -> None:
        """Raises KernelFault or AssertionError unless results are right under every schedule."""
        constants = tuple((name, str(value)) for name, value in self.constants.items())
        kernel = compiled_kernel((kernels or self.folder) / self.file, constants, self.kernel, checking)
        for schedule in schedules:
            assert_right((np.array(self.launch(kernel, schedule)),), self.expected(), self.tolerance)


Case: TypeAlias = Call | Launch


def assert_right(results: Arrays, expected: Arrays, tolerance: float) -> None:
    """`tolerance` is relative to 1 or the expected value, whichever is larger."""
    for got, wanted in zip(results, expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Any integers; floats that are small whole numbers, so that every order of additions gives the same sums."""
    random, dtype = np.random.default_rng([*shape, seed]), np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, shape, dtype, endpoint=True)
    whole = random.integers(-4, 5, shape).astype(np.float64)
    return (whole + 1j * random.integers(-4, 5, shape) if dtype.kind == "c" else whole).astype(dtype)


def floats(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([*shape, seed]).normal(2, 3, shape).astype(dtype)


def factors(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Odd integers, or complex numbers that are powers of the imaginary unit."""
    if np.dtype(dtype).kind == "c":
        return np.array([1, 1j, -1, -1j])[np.random.default_rng(shape).integers(0, 4, shape)].astype(dtype)
    return values(shape, dtype) | 1


def laid_out(make: AsArray, array: np.ndarray, pattern: str) -> Any:
    """The array in memory of the executor, as layouts.py names it."""
    return place(SimpleNamespace(asarray=make), array, pattern)
