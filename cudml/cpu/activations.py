"""The fusable activations in NumPy, in forms that neither overflow nor cancel. NaN stays NaN in every one."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cudml.plan.activation import Activation

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def activate(activation: Activation, x: np.ndarray) -> np.ndarray:
    """The activation of every element of `x`, float64."""
    return _FORMULAS[activation.name](x, *activation.parameters)


def celu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x > 0.0, x, alpha * np.expm1(x / alpha))


def elu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x >= 0.0, x, alpha * np.expm1(x))


def gelu(x: np.ndarray) -> np.ndarray:
    bounded = np.maximum(x, -64.0)  # beyond which erfc is 0, that minus infinity times it is not NaN
    return 0.5 * bounded * _erfc(bounded * -math.sqrt(0.5))


def hard_sigmoid(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return np.clip(alpha * x + beta, 0.0, 1.0)


def identity(x: np.ndarray) -> np.ndarray:
    return x


def leaky_relu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x >= 0.0, x, alpha * x)


def linear(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return alpha * x + beta


def parametric_softplus(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return alpha * np.logaddexp(0.0, beta * x)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def scaled_elu(x: np.ndarray, alpha: float, gamma: float) -> np.ndarray:
    return gamma * np.where(x > 0.0, x, alpha * np.expm1(x))


def scaled_tanh(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return alpha * np.tanh(beta * x)


def shrink(x: np.ndarray, bias: float, threshold: float) -> np.ndarray:
    inside = np.where(np.isnan(x), x, 0.0)
    return np.where(x > threshold, x - bias, np.where(x < -threshold, x + bias, inside))


def sigmoid(x: np.ndarray) -> np.ndarray:
    decay = np.exp(-np.abs(x))
    return np.where(x < 0.0, decay, 1.0) / (1.0 + decay)


def softplus(x: np.ndarray, steepness: float) -> np.ndarray:
    larger = np.maximum(x, 0.0) if steepness > 0.0 else np.minimum(x, 0.0)
    return larger + np.log1p(np.exp(-np.abs(steepness * x))) / steepness


def softsign(x: np.ndarray) -> np.ndarray:
    bounded = np.clip(x, -1e18, 1e18)  # beyond, the quotient is 1 to the last bit
    return bounded / (1.0 + np.abs(bounded))


def thresholded_relu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where((x > alpha) | np.isnan(x), x, 0.0)


_FORMULAS: dict[str, Callable[..., np.ndarray]] = {
    "celu": celu,
    "elu": elu,
    "gelu": gelu,
    "hard_sigmoid": hard_sigmoid,
    "identity": identity,
    "leaky_relu": leaky_relu,
    "linear": linear,
    "parametric_softplus": parametric_softplus,
    "relu": relu,
    "scaled_elu": scaled_elu,
    "scaled_tanh": scaled_tanh,
    "shrink": shrink,
    "sigmoid": sigmoid,
    "softplus": softplus,
    "softsign": softsign,
    "tanh": np.tanh,
    "thresholded_relu": thresholded_relu,
}
