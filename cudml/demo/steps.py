"""What the demo computes: each step with its input, the expected result in float64 and the difference it may have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import cudml
from cudml.demo import references
from cudml.demo.samples import Samples

BOX = 31  # width of the box filter in pixels
FRINGE = 250.0  # metres of elevation between two fringes of the interferogram
TURN = 2 * np.pi

_EPS = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Step:
    """One computation; `inputs` are moved to the GPU before `compute` where there is one."""

    name: str
    inputs: tuple[np.ndarray, ...]
    compute: Callable[..., Any]
    expected: np.ndarray
    bound: float
    """The largest difference to `expected` that rounding explains; 0 where the result must be exact."""


def steps(samples: Samples) -> list[Step]:
    """All steps of the demo on these samples."""
    grey = samples.photograph.mean(axis=2).round().astype(np.uint8)
    return [
        _summed_area_table(grey),
        _box_filter(grey),
        _contrast(samples.photograph.astype(np.float32)),
        _cumulative_return(samples.prices),
        _month_to_date(samples.volumes, samples.months),
        _phase_wrap(samples.terrain),
    ]


def summed_area_table(grey: Any) -> Any:
    """The sum of all pixels above and to the left of each pixel, itself included."""
    return cudml.cumsum(cudml.cumsum(grey, axis=0), axis=1)


def box_filter(grey: Any) -> Any:
    """The mean of every BOX x BOX window: four reads per pixel, however large the window is."""
    columns = cudml.cumulative_sum(grey, axis=0, include_initial=True, dtype=np.int64)
    table = cudml.cumulative_sum(columns, axis=1, include_initial=True)
    sums = table[BOX:, BOX:] - table[:-BOX, BOX:] - table[BOX:, :-BOX] + table[:-BOX, :-BOX]
    return sums.astype(np.float32) / np.float32(BOX * BOX)


def _summed_area_table(grey: np.ndarray) -> Step:
    return Step("summed-area table", (grey,), summed_area_table, references.summed_area_table(grey), bound=0.0)


def _box_filter(grey: np.ndarray) -> Step:
    # The sums are exact integers below 2**24; only the division rounds.
    return Step("box filter", (grey,), box_filter, references.box_filter(grey, BOX), bound=255 * _EPS)


def _contrast(photograph: np.ndarray) -> Step:
    """Every colour channel with mean 0 and variance 1."""
    expected = references.normalized(photograph, axes=(0, 1))
    # The mean and the variance come from a tree of additions; their errors are scaled by the standard deviation.
    depth = np.log2(photograph[..., 0].size) + 4
    scale = photograph.max() / photograph.std(axis=(0, 1)).min() + np.abs(expected).max()
    return Step(
        "contrast normalization",
        (photograph,),
        lambda x: cudml.mean_variance_normalization(x, axes=(0, 1)),
        expected,
        bound=float(depth * scale * _EPS),
    )


def _cumulative_return(prices: np.ndarray) -> Step:
    growth = (prices[1:] / prices[:-1]).astype(np.float32)
    expected = references.running_products(growth)
    # Every product rounds once, to within half of eps.
    bound = len(growth) / 2 * _EPS * expected.max()
    return Step("cumulative return", (growth,), cudml.cumprod, expected, bound=float(bound))


def _month_to_date(volumes: np.ndarray, months: np.ndarray) -> Step:
    expected = references.segmented_running_sums(volumes, months)
    return Step("month-to-date volume", (volumes, months), cudml.segmented_cumsum, expected, bound=0.0)


def _phase_wrap(terrain: np.ndarray) -> Step:
    phase = terrain * np.float32(TURN / FRINGE)
    expected = references.remainder(phase, np.float32(TURN))
    return Step("phase wrap", (phase,), lambda x: cudml.fmod(x, np.float32(TURN)), expected, bound=0.0)
