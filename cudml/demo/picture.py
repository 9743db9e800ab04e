"""Draws the samples and the results of the demo into one picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cudml.demo.samples import Samples


def draw(samples: Samples, results: Mapping[str, np.ndarray], path: Path) -> None:
    """Writes the picture to `path`; `results` are under the names of the steps."""
    figure = Figure(figsize=(16, 8.4), layout="constrained")
    upper, lower = figure.subplots(2, 4)
    _image(upper[0], "photograph", samples.photograph)
    _image(upper[1], "summed-area table", results["summed-area table"], cmap="magma")
    _image(upper[2], "box filter", results["box filter"], cmap="gray")
    _image(upper[3], "contrast normalization", _displayable(results["contrast normalization"]))
    _curve(lower[0], "cumulative return", results["cumulative return"], "factor since the first day")
    _curve(lower[1], "month-to-date volume", results["month-to-date volume"] / 1e6, "million shares")
    _image(lower[2], "terrain", samples.terrain, cmap="terrain")
    _image(lower[3], "phase wrap", results["phase wrap"], cmap="twilight")
    figure.savefig(path, dpi=100)


def _displayable(normalized: np.ndarray) -> np.ndarray:
    """Two standard deviations either side of the mean, as the range from black to white."""
    return np.clip(normalized / 4 + 0.5, 0, 1)


def _image(axes: Axes, title: str, image: np.ndarray, cmap: str | None = None) -> None:
    axes.imshow(image, cmap=cmap)
    axes.set_title(title)
    axes.set_axis_off()


def _curve(axes: Axes, title: str, values: np.ndarray, unit: str) -> None:
    axes.plot(values, linewidth=1)
    axes.set_title(title)
    axes.set_xlabel("trading day")
    axes.set_ylabel(unit)
    axes.margins(x=0)
