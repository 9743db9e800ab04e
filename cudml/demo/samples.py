"""The real data that the demo and the notebook work on, all of it from Matplotlib's own wheel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib import cbook
from matplotlib.image import imread


@dataclass(frozen=True)
class Samples:
    """A photograph, three years of a share, and a terrain."""

    photograph: np.ndarray
    """(height, width, 3) uint8: a portrait of Grace Hopper."""
    prices: np.ndarray
    """(days,) float64: Google's adjusted closing prices since its first day on the market."""
    volumes: np.ndarray
    """(days,) int64: how many of its shares were traded on each of these days."""
    months: np.ndarray
    """(months + 1,) int64: the index of each month's first day, and the number of days."""
    terrain: np.ndarray
    """(rows, columns) float32: elevations around the Jacksboro fault in metres."""


def load() -> Samples:
    """Reads the samples; nothing is downloaded."""
    share = _array("goog.npz", "price_data")
    return Samples(
        photograph=np.asarray(imread(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False))),
        prices=share["adj_close"],
        volumes=share["volume"],
        months=_month_offsets(share["date"]),
        terrain=_array("jacksboro_fault_dem.npz", "elevation").astype(np.float32),
    )


def _array(file: str, name: str) -> np.ndarray:
    with np.load(cbook.get_sample_data(file, asfileobj=False)) as arrays:
        return arrays[name]


def _month_offsets(days: np.ndarray) -> np.ndarray:
    """Where each month begins in the sorted days, in the form that CSR matrices give their rows."""
    _, firsts = np.unique(days.astype("datetime64[M]"), return_index=True)
    return np.append(firsts, len(days)).astype(np.int64)
