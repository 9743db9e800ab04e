"""Activations: DirectML's formulas, written down again in long double."""

from __future__ import annotations

import numpy as np
import pytest
from normalization_checks import LARGE_GROUPS, all_floats, noise, normalization_reference, rounded
from reference import UNIT_ROUNDOFF, accumulator_roundoff, assert_close, random

from cudml.cpu.activations import activate
from cudml.normalization import mean_variance_normalization
from cudml.plan.activation import PARAMETERS, Activation


def normal_cdf(x):
    """By Marsaglia's series near 0 and the continued fraction of Mills' ratio in the tails."""
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.arccos(np.longdouble(-1)))
    if abs(x) < 1.5:
        term = total = x
        for k in range(3, 80, 2):
            term = term * x * x / k
            total = total + term
        return np.longdouble(0.5) + density * total
    ratio = abs(x)
    for k in range(400, 0, -1):
        ratio = abs(x) + k / ratio
    return density / ratio if x < 0 else 1 - density / ratio


FORMULAS = {
    "celu": lambda x, alpha: max(0, x) + min(0, alpha * np.expm1(x / alpha)),
    "elu": lambda x, alpha: x if x >= 0 else alpha * np.expm1(x),
    "gelu": lambda x: x * normal_cdf(x),
    "hard_sigmoid": lambda x, alpha, beta: max(0, min(alpha * x + beta, 1)),
    "identity": lambda x: x,
    "leaky_relu": lambda x, alpha: x if x >= 0 else alpha * x,
    "linear": lambda x, alpha, beta: alpha * x + beta,
    "parametric_softplus": lambda x, alpha, beta: alpha * np.log1p(np.exp(beta * x)),
    "relu": lambda x: max(0, x),
    "scaled_elu": lambda x, alpha, gamma: gamma * x if x > 0 else gamma * alpha * np.expm1(x),
    "scaled_tanh": lambda x, alpha, beta: alpha * np.tanh(beta * x),
    "shrink": lambda x, bias, threshold: x - bias if x > threshold else x + bias if x < -threshold else 0,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x, steepness: np.log1p(np.exp(steepness * x)) / steepness,
    "softsign": lambda x: x / (1 + abs(x)),
    "tanh": lambda x: np.tanh(x),
    "thresholded_relu": lambda x, alpha: x if x > alpha else 0,
}

OTHER_PARAMETERS = {
    "celu": (2.5,),
    "elu": (0.3,),
    "hard_sigmoid": (0.5, 0.25),
    "leaky_relu": (0.2,),
    "linear": (-2.0, 0.75),
    "parametric_softplus": (3.0, 0.5),
    "scaled_elu": (1.5, 2.0),
    "scaled_tanh": (1.7, 0.66),
    "shrink": (0.25, 1.5),
    "softplus": (3.0,),
    "thresholded_relu": (0.125,),  # exact in every type: the formula jumps there
}

ACTIVATIONS = [Activation.named(name) for name in PARAMETERS]


ACTIVATIONS += [Activation(name, parameters) for name, parameters in OTHER_PARAMETERS.items()]


all_activations = pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: f"{a.name}{a.parameters or ''}")


def activated(activation, values):
    parameters = [np.longdouble(parameter) for parameter in activation.parameters]
    with np.errstate(over="ignore"):
        return np.array([FORMULAS[activation.name](x, *parameters) for x in values.reshape(-1).astype(np.longdouble)])


def apply(xp, activation, values):
    """The activation of `values` alone: a group of one element leaves nothing but the bias to it."""
    zeros = xp.asarray(np.zeros_like(values))
    return xp.to_numpy(mean_variance_normalization(zeros, bias=xp.asarray(values), axes=(), activation=activation))


def test_there_are_seventeen():
    assert len(PARAMETERS) == 17
    assert set(FORMULAS) == set(PARAMETERS)


@all_floats
@all_activations
def test_activation_formula(xp, activation, dtype):
    """Relative error: exp turns the rounding of its argument into |x| u, erfc into x^2 u."""
    rng = np.random.default_rng(26)
    edges = np.array([0.0, 1e-7, 1e-5, 1e-3, 0.125, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 8.0, 20.0, 88.0, 90.0, 104.0, 600.0])
    values = np.concatenate([edges, -edges, rng.standard_normal(200) * 3, rng.standard_normal(50) * 30]).astype(dtype)
    expected = activated(activation, values)
    x = np.abs(values.astype(np.longdouble))
    growth = 1 + (x * x if activation.name == "gelu" else x * max(1, *map(abs, activation.parameters), 1))
    scale = np.abs(expected) + (np.abs(x) if activation.name in {"linear", "hard_sigmoid"} else 0)
    parameters = sum(abs(parameter) for parameter in activation.parameters)
    additive = parameters if activation.name in {"linear", "hard_sigmoid", "shrink"} else 0.0
    unit = accumulator_roundoff(dtype)
    normal = 2.0**-1022 if dtype == np.float64 else 2.0**-126
    bound = 16 * unit * growth * scale + 4 * unit * additive + normal
    assert_close(apply(xp, activation, values), expected, rounded(expected, bound, dtype))


@pytest.mark.parametrize("activation", ACTIVATIONS[:17], ids=lambda a: a.name)
def test_activation_by_name_after_normalization(xp, activation):
    x = random(np.random.default_rng(27), (4, 100), np.float32)
    normalized, bound = normalization_reference(x, (1,), 2.0, 0.5)
    expected = activated(activation, normalized).reshape(x.shape)
    steepest = 2.0  # no activation with default parameters is steeper, apart from jumps
    got = xp.to_numpy(mean_variance_normalization(xp.asarray(x), 2.0, 0.5, axes=1, activation=activation.name))
    jumps = {"thresholded_relu": 1.0, "shrink": 0.5}
    distance = np.abs(np.abs(normalized) - jumps.get(activation.name, -1.0))
    assert (distance > 1e-6).all(), "the data must keep off the jumps"
    allowed = steepest * bound + 32 * UNIT_ROUNDOFF["float32"] * (1 + np.abs(expected))
    assert_close(got, expected, rounded(expected, allowed, np.float32))


@pytest.mark.parametrize("name", ["scaled_tanh", "softplus"])
@pytest.mark.parametrize("groups", LARGE_GROUPS)
def test_activation_of_large_groups(xp, groups, name):
    shape, axes = LARGE_GROUPS[groups]
    activation = Activation(name, OTHER_PARAMETERS[name])
    x = noise(shape, 3).astype(np.float32)
    normalized, bound = normalization_reference(x, axes, 2.0, 0.5)
    expected = activated(activation, normalized).reshape(shape)
    got = mean_variance_normalization(xp.asarray(x), 2.0, 0.5, axes=axes, activation=activation)
    allowed = 2 * bound + 32 * UNIT_ROUNDOFF["float32"] * (1 + np.abs(expected))
    assert_close(xp.to_numpy(got), expected, rounded(expected, allowed, np.float32))


LIMITS = {
    "celu": (-1, np.inf),
    "elu": (-1, np.inf),
    "hard_sigmoid": (0, 1),
    "identity": (-np.inf, np.inf),
    "leaky_relu": (-np.inf, np.inf),
    "linear": (-np.inf, np.inf),
    "parametric_softplus": (0, np.inf),
    "relu": (0, np.inf),
    "scaled_tanh": (-1, 1),
    "shrink": (-np.inf, np.inf),
    "sigmoid": (0, 1),
    "softplus": (0, np.inf),
    "softsign": (-1, 1),
    "tanh": (-1, 1),
    "thresholded_relu": (0, np.inf),
}


@all_floats
@pytest.mark.parametrize("name", LIMITS)
def test_activation_of_infinity_and_huge_values(xp, name, dtype):
    huge = 6e4 if dtype == np.float16 else 1e30
    low, nearly_low, nearly_high, high = apply(xp, name, np.array([-np.inf, -huge, huge, np.inf], dtype)).astype(float)
    assert (low, high) == LIMITS[name]
    assert not np.isnan([nearly_low, nearly_high]).any()
    for near, limit in ((nearly_low, low), (nearly_high, high)):
        assert near == limit or np.isinf(limit)


@all_floats
def test_gelu_of_infinity(xp, dtype):
    assert apply(xp, Activation("gelu"), np.array([-np.inf, np.inf], dtype)).tolist() == [0, np.inf]


def test_activations_in_float64_neither_overflow_nor_vanish_early():
    def activated(name, x, *parameters):
        with np.errstate(all="ignore"):  # as the backend does
            return activate(Activation(name, parameters), np.array([x]))[0]

    assert activated("celu", 2.0, 0.0) == 2
    assert activated("gelu", -np.inf) == 0
    assert activated("sigmoid", -720.0) == pytest.approx(np.exp(-720.0), rel=1e-9)
    assert activated("softplus", 122.0, 1e308) == 122
    assert activated("softplus", -2.0, 3.0) == pytest.approx(np.log1p(np.exp(-6.0)) / 3)


@pytest.mark.parametrize("name", PARAMETERS)
def test_activation_keeps_nan(xp, name):
    result = apply(xp, name, np.array([1.0, np.nan, -1.0], np.float32))
    assert np.isnan(result).tolist() == [False, True, False]
