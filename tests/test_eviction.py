"""Inputs too large for the second-level cache are evicted last: which they are, and that results stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import cudml
from cudml.plan import loads, make_plan
from cudml.plan.layout import ArrayLayout
from cudml.plan.loads import EVICT_FIRST, EVICT_LAST, EVICT_NORMALLY
from cudml.plan.spec import Modulus, Moments, Normalization, Scan, Spec

F32 = np.dtype(np.float32)


def layout(shape: tuple[int, ...], dtype: Any = F32) -> ArrayLayout:
    itemsize = np.dtype(dtype).itemsize
    strides = [itemsize * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return ArrayLayout(shape, tuple(strides), np.dtype(dtype), 16)


def eviction_of_scan(shape: tuple[int, ...], axis: int, dtype: Any = F32, total: Any = F32) -> str:
    arrays = {"input": layout(shape, dtype), "output": layout(shape, total)}
    return dict(make_plan(Scan("sum", np.dtype(total), axis), arrays).constants)["EVICTION"]


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1 << 24,), 0), ((4096, 4096), 1), ((4096, 4096), 0), ((100, 1 << 18), 0), *(((1 << 20, 20), i) for i in (0, 1))],
)
def test_large_inputs_of_scans_are_evicted_last(shape: tuple[int, ...], axis: int):
    assert eviction_of_scan(shape, axis) == EVICT_LAST
    assert eviction_of_scan((shape[0] // 2, *shape[1:]), axis) == EVICT_NORMALLY


def test_widened_columns_are_evicted_last_only_where_they_are_prefetched():
    shape, total = (1 << 15, 1 << 12), np.dtype(np.int64)
    assert eviction_of_scan(shape, 0, np.int8, total) == EVICT_LAST
    far_apart = ArrayLayout(shape, (64 << 12, 64), np.dtype(np.int8), 16)
    arrays = {"input": far_apart, "output": layout(shape, total)}
    assert dict(make_plan(Scan("sum", total, 0), arrays).constants)["EVICTION"] == EVICT_NORMALLY


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((4096, 8192), (1,)), ((64, 1 << 20), (1,)), ((64, 64, 128, 128), (0, 2, 3)), ((1 << 18, 256), (0,))],
)
def test_large_inputs_of_normalizations_are_evicted_last_and_those_of_moments_first(
    shape: tuple[int, ...], axes: tuple[int, ...]
):
    arrays = {"input": layout(shape), "output": layout(shape)}
    assert dict(make_plan(Normalization(axes), arrays).constants)["EVICTION"] == EVICT_LAST
    kept = layout(tuple(1 if axis in axes else size for axis, size in enumerate(shape)))
    moments = make_plan(Moments(axes), {"input": layout(shape), "mean": kept, "variance": kept})
    assert dict(moments.constants)["EVICTION"] == EVICT_FIRST


def test_operands_that_rows_share_are_not_evicted_last():
    def found(divisor: ArrayLayout | np.dtype) -> str:
        arrays = {"dividend": layout((8192, 4096)), "divisor": divisor, "output": layout((8192, 4096))}
        return dict(make_plan(Modulus(F32), arrays).constants)["EVICTION"]

    assert found(layout((8192, 4096))) == found(F32) == EVICT_LAST
    assert found(layout((4096,))) == found(layout((8192, 1))) == EVICT_NORMALLY


Checked = tuple[Spec, Callable[[Any], Any], np.ndarray, float]
"""What is computed, how, what is expected, and an error that is allowed."""


def cumsum(x: np.ndarray, axis: int) -> Checked:
    """Sums of small whole numbers, which have no error."""
    return Scan("sum", F32, axis), partial(cudml.cumsum, axis=axis), np.cumsum(x, axis), 0


def normalized(x: np.ndarray, axes: tuple[int, ...]) -> Checked:
    """With the 4 ulp that docs/numerics.md allows, of results around 1."""
    mean, variance = x.astype(float).mean(axes, keepdims=True), x.astype(float).var(axes, keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-5)
    compute = partial(cudml.mean_variance_normalization, axes=axes)
    return Normalization(axes), compute, expected, 4 * float(np.finfo(np.float32).eps)


CASES = {
    "rows": (cumsum, (37, 516), 1),
    "lines end to end": (cumsum, (61, 20), 1),
    "stream": (cumsum, (70_004,), 0),
    "columns": (cumsum, (1003, 132), 0),
    "whole columns": (cumsum, (9, 70_000), 0),
    "normalized rows": (normalized, (29, 1028), (1,)),
    "normalized groups": (normalized, (3, 5, 3000, 4), (0, 2, 3)),
    "normalized columns": (normalized, (1501, 36), (0,)),
}


@pytest.mark.backend("emulated", "cuda")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_results_are_the_same(case: Any, xp: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loads, "_LARGE_BYTES", 1)
    make, shape, axis = case
    x = np.random.default_rng(shape).integers(-9, 10, shape).astype(np.float32)
    spec, compute, expected, error = make(x, axis)
    plan = make_plan(spec, {"input": layout(shape), "output": layout(shape)})
    assert dict(plan.constants)["EVICTION"] == EVICT_LAST
    np.testing.assert_allclose(xp.to_numpy(compute(xp.asarray(x))), expected, rtol=error, atol=error)


@pytest.mark.backend("emulated", "cuda")
def test_remainders_are_the_same(xp: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loads, "_LARGE_BYTES", 1)
    x, y = np.random.default_rng(3).integers(1, 1000, (2, 300_012)).astype(np.float32)
    assert (xp.to_numpy(cudml.fmod(xp.asarray(x), xp.asarray(y))) == np.fmod(x, y)).all()
