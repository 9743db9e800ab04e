"""Layouts and plans that tests of plans share."""

from __future__ import annotations

import numpy as np

from cudml.plan import make_plan
from cudml.plan.device import H200
from cudml.plan.layout import ArrayLayout
from cudml.plan.plan import Plan
from cudml.plan.spec import Scan

F32 = np.dtype(np.float32)

#: Of 80 GB, which plans may depend on: it has slower memory and a smaller cache.
H100 = H200._replace(cache_bytes=50 << 20, bytes_per_second=3.35e12)


def layout(
    shape: tuple[int, ...], dtype: str = "float32", strides: tuple[int, ...] | None = None, alignment: int = 16
) -> ArrayLayout:
    """A layout of any size, without memory behind it; C-contiguous unless strides (in elements) are given."""
    itemsize = np.dtype(dtype).itemsize
    if strides is None:
        strides = tuple(int(np.prod(shape[axis + 1 :], dtype=object)) for axis in range(len(shape)))
    return ArrayLayout(shape, tuple(stride * itemsize for stride in strides), np.dtype(dtype), alignment)


def in_order(shape: tuple[int, ...], order: tuple[int, ...], dtype: str = "float32") -> ArrayLayout:
    """Dense, its axes in that order from the outermost."""
    steps = {axis: int(np.prod([shape[inner] for inner in order[place + 1 :]])) for place, axis in enumerate(order)}
    return layout(shape, dtype, tuple(steps[axis] for axis in range(len(shape))))


def scan(shape: tuple[int, ...], axis: int | None = -1, source: ArrayLayout | None = None, **options: bool) -> Plan:
    chosen = None if axis is None else axis % len(shape)
    target = layout(shape if axis is not None else (int(np.prod(shape)),))
    return make_plan(Scan("sum", F32, chosen, **options), {"input": source or layout(shape), "output": target})


def kernels(plan: Plan) -> list[str]:
    return [launch.kernel for part in plan.parts for launch in part.launches]


def constants(plan: Plan) -> dict[str, str]:
    return dict(plan.constants)
