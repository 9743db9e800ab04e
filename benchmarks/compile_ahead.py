"""Compiles the kernels of all cases side by side, without a GPU: `python -m benchmarks.compile_ahead 90 [TEXT]`.

The argument is a compute capability; with TEXT, only cases that contain it. The cubins go into cudml's cache, so that
a GPU does not wait for a compiler: `CUDML_CACHE_DIR` says where, and the folder may be brought to another machine.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from benchmarks.case import Case, Family
from benchmarks.families import FAMILIES
from cudml.backend import register
from cudml.cuda.cache import cubin_path
from cudml.cuda.compiler import architecture_of_capability
from cudml.memory import make_in_order
from cudml.plan import make_plan
from cudml.plan.layout import ArrayLayout, alignment_of
from cudml.plan.spec import Spec

Kernel = tuple[str, tuple[tuple[str, str], ...]]

_ALIGNMENT = 512  # of what CuPy allocates


class Blank(np.ndarray):
    """An array that takes address space but no memory, because nothing is ever written to it."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Leaves the elements alone."""


class Blanks:
    """What the cases need of a library of arrays."""

    @staticmethod
    def empty(shape: Any, dtype: Any) -> Blank:
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = np.empty(nbytes + _ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % _ALIGNMENT
        return memory[start : start + nbytes].view(dtype).reshape(shape).view(Blank)

    @staticmethod
    def asarray(array: np.ndarray) -> Blank:
        return Blanks.empty(array.shape, array.dtype)


class Collector:
    """A backend that notes which kernels a call would launch, and computes nothing."""

    name = "collector"

    def __init__(self) -> None:
        self.kernels: set[Kernel] = set()

    def asarray(self, value: Any, like: Any = None) -> Blank:
        return value if isinstance(value, Blank) else Blanks.asarray(np.asarray(value))

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, like: Any, order: tuple[int, ...] | None = None) -> Blank:
        return make_in_order(lambda stored: Blanks.empty(stored, dtype), shape, order)

    def copy(self, array: Any) -> Blank:
        return Blanks.asarray(array)

    def to_host(self, array: Any) -> None:
        """Nothing to read: checks of contents are left to the real call."""

    def run(self, spec: Spec, arrays: Mapping[str, Any]) -> None:
        layouts = {name: _layout_of(array) for name, array in arrays.items() if array is not None}
        self.kernels |= {(part.source, part.constants) for part in make_plan(spec, layouts).parts if part.launches}


def kernels_of(cases: Iterable[tuple[Family, Case]]) -> set[Kernel]:
    """The kernels of cases, by the plans that would be made on a GPU."""
    collector = Collector()
    register(Blank, collector)
    for family, case in cases:
        family.ours(case, family.arrays(case, Blanks))()
    return collector.kernels


def compile_all(kernels: Iterable[Kernel], architecture: str) -> None:
    """Fills the cache, on all processors."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        list(pool.map(partial(_compile, architecture), kernels))


def _compile(architecture: str, kernel: Kernel) -> None:
    cubin_path(*kernel, architecture)


def _layout_of(array: Any) -> ArrayLayout | np.dtype:
    if isinstance(array, np.generic):
        return array.dtype
    return ArrayLayout(array.shape, array.strides, array.dtype, alignment_of(array.ctypes.data))


def main(capability: str, text: str = "") -> None:
    start = time.monotonic()
    kernels = kernels_of((family, case) for family in FAMILIES.values() for case in family.CASES if case.matches(text))
    planned = time.monotonic()
    compile_all(kernels, architecture_of_capability(*divmod(int(capability), 10)))
    print(f"{len(kernels)} kernels, planned in {planned - start:.0f} s, compiled in {time.monotonic() - planned:.0f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
