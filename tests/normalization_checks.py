"""References of normalization, and checks against them.

The reference takes two passes in long double. Errors are measured against the spread of the group, not its mean: an
output is allowed (ADDITIONS(n) + 16) * u * (1 + |z|), z being the normalized value, before scale, which multiplies it.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from layouts import PATTERNS, Poisoned
from reference import FLOATS, SMALLEST, UNIT_ROUNDOFF, accumulator_roundoff, additions, assert_close

from cudml.normalization import mean_var, mean_variance_normalization

all_floats = pytest.mark.parametrize("dtype", FLOATS, ids=str)

all_patterns = pytest.mark.parametrize("pattern", PATTERNS)

SUBSETS = [axes for count in range(5) for axes in itertools.combinations(range(4), count)]


def moments_reference(x, axes):
    """(x - mean, mean, population variance) in long double, reduced axes kept."""
    wide = x.astype(np.longdouble)
    mean = wide.mean(axis=axes, keepdims=True)
    rest = (wide - mean).mean(axis=axes, keepdims=True)
    distance = wide - mean - rest
    return distance, mean + rest, np.square(distance).mean(axis=axes, keepdims=True)


def group_size(shape, axes):
    return int(np.prod([shape[axis] for axis in axes], initial=1))


def normalization_reference(x, axes, scale=None, bias=None, epsilon=1e-5, normalize_variance=True, out_dtype=None):
    """The normalized values before any activation, and the errors allowed for them in the accumulator's type."""
    distance, _, variance = moments_reference(x, axes)
    deviation = np.sqrt(variance + np.longdouble(epsilon)) if normalize_variance else np.longdouble(1)
    spread = np.sqrt(variance) / deviation
    wide_scale = np.longdouble(1) if scale is None else np.asarray(scale).astype(np.longdouble)
    wide_bias = np.longdouble(0) if bias is None else np.asarray(bias).astype(np.longdouble)
    scaled = distance / deviation * wide_scale
    roundings = additions(group_size(x.shape, axes)) + 16
    bound = roundings * (spread * np.abs(wide_scale) + np.abs(scaled)) + 4 * np.abs(scaled + wide_bias)
    return scaled + wide_bias, bound * accumulator_roundoff(computed_in(x, out_dtype))


def computed_in(x, out_dtype):
    """Integers that float32 holds are normalized in it where the output has no more digits."""
    narrow = x.dtype.itemsize <= 2 and out_dtype is not None and np.dtype(out_dtype).itemsize <= 4
    return np.dtype(np.float32) if narrow else result_dtype(x)


def result_dtype(x):
    return x.dtype if x.dtype.name in UNIT_ROUNDOFF else np.dtype(np.float64)


def rounded(expected, bound, dtype):
    """The bound with the rounding to the output's type added."""
    name = np.dtype(dtype).name
    return bound + np.abs(expected) * UNIT_ROUNDOFF[name] * 1.01 + SMALLEST[name]


def on(xp, value):
    return xp.asarray(value) if isinstance(value, np.ndarray) else value


def check(xp, x, axes, scale=None, bias=None, out_dtype=None, **options):
    """Normalizes into a poisoned output and compares with the reference."""
    expected, bound = normalization_reference(x, axes, scale, bias, out_dtype=out_dtype, **options)
    out = Poisoned(xp, x.shape, out_dtype or result_dtype(x))
    result = mean_variance_normalization(
        xp.asarray(x), on(xp, scale), on(xp, bias), axes=axes, out=out.array, **options
    )
    assert result is out.array
    assert_close(out.read(), expected, rounded(expected, bound, out.array.dtype))


def check_moments(xp, x, axis, correction=0):
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis % x.ndim,)
    _, mean, variance = moments_reference(x, axes)
    n, dtype = group_size(x.shape, axes), result_dtype(x)
    variance = variance * n / (n - correction)
    unit = accumulator_roundoff(dtype)
    results = mean_var(xp.asarray(x), axis, correction=correction, keepdims=True)
    assert [result.dtype for result in results] == [dtype, dtype]
    got_mean, got_variance = (xp.to_numpy(result) for result in results)
    spread = (additions(n) + 4) * unit * np.sqrt(variance)
    assert_close(got_mean, mean, rounded(mean, spread, dtype))
    assert_close(got_variance, variance, rounded(variance, 2 * (additions(n) + 4) * unit * variance, dtype))


LARGE_GROUPS = {
    "clustered lines": ((2, 16_501), (1,)),
    "stream": ((2, 40_001), (1,)),
    "stream of runs": ((4, 2, 12_000), (0, 2)),
    "clusters": ((1100, 32), (0,)),
    "strips": ((8300, 64), (0,)),
    "tiles": ((1100, 9), (0,)),
    "bundles of short runs": ((500, 48, 4), (0, 2)),
}


def noise(shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)
