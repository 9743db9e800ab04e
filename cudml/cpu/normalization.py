"""Mean, variance and normalization in NumPy, in float64 whatever the input's type.

Groups are copied into the rows of a matrix first, so that the result does not depend on the strides of the input.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from cudml.cpu.activations import activate
from cudml.cpu.convert import convert
from cudml.plan.spec import Moments, Normalization


def moments(spec: Moments, input: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> None:
    """Mean and variance over the spec's axes."""
    _, means, variances = _distances(_rows(input, spec.axes), spec.correction)
    mean[...] = convert(means.reshape(mean.shape), mean.dtype)
    variance[...] = convert(variances.reshape(variance.shape), variance.dtype)


def normalize(
    spec: Normalization,
    input: np.ndarray,
    output: np.ndarray,
    scale: Any = None,
    bias: Any = None,
    mean: np.ndarray | None = None,
    variance: np.ndarray | None = None,
) -> None:
    """activation(scale * (input - mean) / sqrt(variance + epsilon) + bias)."""
    result, means, variances = _distances(_rows(input, spec.axes))
    if spec.normalize_variance:
        deviations = np.sqrt(variances + spec.epsilon)
        result /= np.where(deviations == 0, 1, deviations)  # a constant group without an epsilon stays 0
    if scale is not None:
        result *= _rows(np.broadcast_to(scale, input.shape), spec.axes)
    if bias is not None:
        result += _rows(np.broadcast_to(bias, input.shape), spec.axes)
    if spec.activation is not None:
        result = activate(spec.activation, result)
    target = np.transpose(output, _groups_first(output.ndim, spec.axes))
    target[...] = convert(result.reshape(target.shape), output.dtype)
    for values, statistic in ((means, mean), (variances, variance)):
        if statistic is not None:
            statistic[...] = convert(values.reshape(statistic.shape), statistic.dtype)


def _groups_first(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The order of axes that has the reduced ones last."""
    return (*(axis for axis in range(ndim) if axis not in axes), *axes)


def _rows(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """A float64 copy with one row per group, the elements of the group along it."""
    members = prod(array.shape[axis] for axis in axes)
    groups = prod(n for axis, n in enumerate(array.shape) if axis not in axes)
    ordered = np.transpose(array, _groups_first(array.ndim, axes))
    return np.array(ordered, dtype=np.float64, order="C", copy=True).reshape(groups, members)


def _distances(rows: np.ndarray, correction: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x - mean, mean, variance) of every row.

    A first mean comes from the distances from the first element: sums of elements might overflow. The mean of the
    distances from that one makes it exact: equal numbers have themselves as mean. What is left is the part of the mean
    that float64 cannot hold, which matters where the mean is far larger than the spread.
    """
    first = rows[:, :1] if rows.shape[1] else np.zeros((len(rows), 1))
    shift = np.where(np.isfinite(first), first, 0.0)
    mean = shift + _average(rows - shift)
    mean = np.where(np.isfinite(mean), mean + _average(rows - mean), mean)
    distances = rows - mean
    distances -= _average(distances)
    variance = np.square(distances).sum(axis=1, keepdims=True) / np.float64(max(rows.shape[1] - correction, 0.0))
    return distances, mean, variance


def _average(rows: np.ndarray) -> np.ndarray:
    return rows.sum(axis=1, keepdims=True) / np.float64(rows.shape[1])
