"""Layer, instance, group and batch norm."""

from __future__ import annotations

import numpy as np
import pytest
from layouts import Poisoned, place
from normalization_checks import (
    all_floats,
    all_patterns,
    group_size,
    moments_reference,
    normalization_reference,
    rounded,
)
from reference import UNIT_ROUNDOFF, accumulator_roundoff, additions, assert_close, assert_same_bits, random

from cudml.normalization import batch_norm, group_norm, instance_norm, layer_norm, mean_variance_normalization
from cudml.plan.activation import Activation


def test_layer_norm(xp):
    rng = np.random.default_rng(28)
    x = random(rng, (3, 4, 5, 6), np.float32)
    for shape in ((6,), (5, 6), (4, 5, 6), (3, 4, 5, 6)):
        weight, bias = random(rng, shape, np.float32), random(rng, shape, np.float32)
        axes = tuple(range(4 - len(shape), 4))
        expected, bound = normalization_reference(x, axes, weight, bias, epsilon=0.01)
        out = Poisoned(xp, x.shape, np.float32)
        layer_norm(xp.asarray(x), shape, xp.asarray(weight), xp.asarray(bias), 0.01, out=out.array)
        assert_close(out.read(), expected, rounded(expected, bound, np.float32))
    plain = mean_variance_normalization(xp.asarray(x), axes=3)
    assert_same_bits(xp.to_numpy(layer_norm(xp.asarray(x), 6)), xp.to_numpy(plain))


def channels(values, ndim):
    """Per-channel parameters as they broadcast along axis 1."""
    return values.reshape(1, -1, *(1,) * (ndim - 2))


@pytest.mark.parametrize("shape", [(3, 4, 30), (2, 5, 6, 7), (2, 3, 2, 3, 4)], ids=str)
def test_instance_norm(xp, shape):
    rng = np.random.default_rng(29)
    x, weight, bias = (
        random(rng, shape, np.float32),
        random(rng, shape[1], np.float32),
        random(rng, shape[1], np.float32),
    )
    axes = tuple(range(2, len(shape)))
    expected, bound = normalization_reference(x, axes, channels(weight, x.ndim), channels(bias, x.ndim))
    out = Poisoned(xp, shape, np.float32)
    instance_norm(xp.asarray(x), xp.asarray(weight), xp.asarray(bias), out=out.array)
    assert_close(out.read(), expected, rounded(expected, bound, np.float32))


@all_patterns
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_group_norm(xp, groups, pattern):
    """Any layout of x and out is read and written in place: cutting the channels into groups copies nothing."""
    rng = np.random.default_rng(30)
    shape = (2, 6, 5, 7)
    x, weight, bias = random(rng, shape, np.float32), random(rng, 6, np.float32), random(rng, 6, np.float32)
    grouped = x.reshape(2, groups, 6 // groups, 5, 7)
    expected, bound = normalization_reference(grouped, (2, 3, 4))
    expected, bound = expected.reshape(shape), bound.reshape(shape)
    scale, shift = channels(weight, 4).astype(np.longdouble), channels(bias, 4).astype(np.longdouble)
    expected, bound = expected * scale + shift, bound * np.abs(scale)
    bound = bound + 4 * UNIT_ROUNDOFF["float32"] * (np.abs(expected) + np.abs(shift))
    out = Poisoned(xp, shape, np.float32, pattern)
    result = group_norm(place(xp, x, pattern), groups, xp.asarray(weight), xp.asarray(bias), out=out.array)
    assert result is out.array
    assert_close(out.read(), expected, rounded(expected, bound, np.float32))
    allocated = group_norm(place(xp, x, pattern), groups, xp.asarray(weight), xp.asarray(bias))
    assert_close(xp.to_numpy(allocated), expected, rounded(expected, bound, np.float32))


def test_group_norm_in_place(xp):
    x = random(np.random.default_rng(31), (2, 6, 5, 7), np.float32)
    array = xp.asarray(x)
    assert group_norm(array, 3, out=array) is array
    assert_same_bits(xp.to_numpy(array), xp.to_numpy(group_norm(xp.asarray(x), 3)))


@all_floats
@pytest.mark.parametrize("shape", [(20, 3), (4, 3, 9), (4, 5, 6, 7)], ids=str)
def test_batch_norm(xp, shape, dtype):
    rng = np.random.default_rng(32)
    x, weight, bias = random(rng, shape, dtype), random(rng, shape[1], dtype), random(rng, shape[1], dtype)
    axes = (0, *range(2, len(shape)))
    expected, bound = normalization_reference(x, axes, channels(weight, x.ndim), channels(bias, x.ndim))
    arrays = xp.asarray(x), xp.asarray(weight), xp.asarray(bias)
    _, *statistics = batch_norm(*arrays, out=xp.asarray(x.astype(np.float64)), return_statistics=True)
    assert [statistic.dtype for statistic in statistics] == [np.float64] * 2
    y, mean, variance = batch_norm(*arrays, return_statistics=True)
    assert_close(xp.to_numpy(y), expected, rounded(expected, bound, dtype))
    assert_same_bits(xp.to_numpy(batch_norm(*arrays)), xp.to_numpy(y))
    _, mean_reference, variance_reference = moments_reference(x, axes)
    unit, n = accumulator_roundoff(dtype), group_size(shape, axes)
    assert mean.dtype == variance.dtype == dtype
    allowed = (additions(n) + 4) * unit * np.sqrt(variance_reference)
    assert_close(xp.to_numpy(mean), mean_reference.reshape(-1), rounded(mean_reference, allowed, dtype).reshape(-1))
    allowed = 2 * (additions(n) + 4) * unit * variance_reference
    assert_close(
        xp.to_numpy(variance), variance_reference.reshape(-1), rounded(variance_reference, allowed, dtype).reshape(-1)
    )


def test_wrappers_take_an_activation_and_a_strided_weight(xp):
    rng = np.random.default_rng(33)
    x, weight = random(rng, (2, 4, 30), np.float32), random(rng, 8, np.float32)
    strided = xp.asarray(weight)[::2]
    expected, bound = normalization_reference(x, (2,), channels(weight[::2], 3))
    for result in (
        instance_norm(xp.asarray(x), strided, activation="relu"),
        group_norm(xp.asarray(x), 4, strided, activation="relu"),
    ):
        assert_close(xp.to_numpy(result), np.maximum(expected, 0), rounded(expected, bound, np.float32))
    y = batch_norm(xp.asarray(x), strided, activation=Activation("linear", (0.0, 7.0)))
    assert (xp.to_numpy(y) == 7).all()
    assert (xp.to_numpy(layer_norm(xp.asarray(x), 30, activation="hard_sigmoid")) <= 1).all()
