"""Properties that hold for any shape, stride, axis, dtype and option; inputs drawn by hypothesis."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference import FLOATS, INTEGERS, SCAN_DTYPES, assert_close, assert_same_bits, default_dtype, scan_reference

from cudml.modulus import fmod
from cudml.normalization import mean_var, mean_variance_normalization
from cudml.scan import cumprod, cumsum, cumulative_prod, cumulative_sum, segmented_cumsum

check = settings(
    derandomize=True, max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
shapes = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=9)
operations = st.sampled_from(["sum", "product"])
SCANS = {"sum": (cumsum, cumulative_sum), "product": (cumprod, cumulative_prod)}


@st.composite
def strided_views(draw, dtypes):
    """(host base, function that takes the same view of the base and of its copy on the device)."""
    dtype = draw(st.sampled_from(dtypes))
    base_shape = draw(shapes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = rng.integers(0, 3, base_shape) if np.dtype(dtype).kind in "biu" else rng.standard_normal(base_shape)
    order = draw(st.permutations(range(len(base_shape))))
    steps = [draw(st.sampled_from([-3, -2, -1, 1, 1, 1, 2])) for _ in base_shape]
    starts = [draw(st.integers(0, n)) for n in base_shape]
    index = tuple(
        slice(start, None, step) if step > 0 else slice(n - 1 - start if start < n else None, None, step)
        for start, step, n in zip(starts, steps, base_shape, strict=True)
    )

    def view(array):
        return array[index].transpose(order) if base_shape else array

    return np.asarray(values).astype(dtype), view


@st.composite
def axis_of(draw, ndim, none=True):
    axes = list(range(-max(ndim, 1), max(ndim, 1)))
    return draw(st.sampled_from([None, *axes] if none else axes))


@check
@given(st.data(), operations, strided_views(SCAN_DTYPES), st.booleans(), st.booleans())
def test_scan_of_any_view(xp, data, operation, base_and_view, reverse, exclusive):
    base, view = base_and_view
    values = view(base)
    axis = data.draw(axis_of(values.ndim))
    dtype = default_dtype(base.dtype)
    options = {"reverse": reverse, "exclusive": exclusive}
    got = xp.to_numpy(SCANS[operation][0](view(xp.asarray(base)), axis, **options))
    assert got.dtype == dtype
    assert_close(got, *scan_reference(operation, values, dtype, axis=axis, **options))


@check
@given(st.data(), operations, strided_views(SCAN_DTYPES), st.booleans())
def test_initial_value_extends_the_scan(xp, data, operation, base_and_view, reverse):
    """Leaving out the last output of a scan with initial value is the exclusive scan, the first the inclusive one."""
    base, view = base_and_view
    x = view(xp.asarray(base))
    axis = data.draw(axis_of(x.ndim, none=False))
    standard = SCANS[operation][1]
    options = {"axis": axis, "reverse": reverse}
    along = axis % max(x.ndim, 1)
    whole = np.moveaxis(xp.to_numpy(standard(x, include_initial=True, **options)), along, 0)
    inclusive = np.moveaxis(xp.to_numpy(standard(x, **options)), along, 0)
    exclusive = np.moveaxis(xp.to_numpy(standard(x, exclusive=True, **options)), along, 0)
    after, before = (whole[:-1], whole[1:]) if reverse else (whole[1:], whole[:-1])
    np.testing.assert_array_equal(after, inclusive)
    np.testing.assert_array_equal(before, exclusive)


@check
@given(st.sampled_from(SCAN_DTYPES), st.lists(st.integers(0, 40), max_size=12), st.booleans(), st.booleans())
def test_segments_are_scans_of_their_own(xp, dtype, lengths, reverse, exclusive):
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    values = np.random.default_rng(len(lengths)).integers(0, 3, offsets[-1]).astype(dtype)
    options = {"reverse": reverse, "exclusive": exclusive}
    got = xp.to_numpy(segmented_cumsum(xp.asarray(values), xp.asarray(offsets), **options))
    for start, end in pairwise(offsets):
        expected = scan_reference("sum", values[start:end], default_dtype(dtype), **options)
        assert_close(got[start:end], *expected)


@check
@given(st.data(), strided_views(FLOATS))
def test_normalized_groups_have_mean_0_and_variance_1(xp, data, base_and_view):
    base, view = base_and_view
    x = view(xp.asarray(base))
    axes = tuple(data.draw(st.sets(st.integers(0, x.ndim - 1)))) if x.ndim else ()
    got = mean_variance_normalization(x, axes=axes, epsilon=1e-30)
    assert (got.shape, got.dtype) == (x.shape, base.dtype)
    mean, variance = mean_var(got, axes)
    constant = xp.to_numpy(mean_var(x, axes)[1]).astype(np.float64) == 0
    if got.size:
        tolerance = 64 * float(np.finfo(np.float16).eps if base.dtype.itemsize == 2 else 1e-5)
        np.testing.assert_allclose(xp.to_numpy(mean).astype(np.float64), 0, atol=tolerance)
        np.testing.assert_allclose(xp.to_numpy(variance).astype(np.float64)[~constant], 1, atol=tolerance)


@check
@given(st.data(), strided_views([d for d in FLOATS if d.itemsize > 2]), st.floats(0.125, 8), st.floats(-8, 8))
def test_scale_and_bias_act_after_the_statistics(xp, data, base_and_view, scale, bias):
    base, view = base_and_view
    x = view(xp.asarray(base))
    axes = tuple(data.draw(st.sets(st.integers(0, x.ndim - 1)))) if x.ndim else ()
    plain = xp.to_numpy(mean_variance_normalization(x, axes=axes)).astype(np.float64)
    got = xp.to_numpy(mean_variance_normalization(x, scale, bias, axes=axes))
    np.testing.assert_allclose(got, plain * scale + bias, rtol=1e-5, atol=1e-5)


@check
@given(st.data(), strided_views([*INTEGERS, *FLOATS]))
def test_modulus_of_any_view(xp, data, base_and_view):
    base, view = base_and_view
    x1 = view(base)
    side = data.draw(st.sampled_from([1, *x1.shape[-1:]]))
    x2 = np.random.default_rng(side).integers(1, 5, (side,) if x1.ndim else ()).astype(base.dtype)
    got = xp.to_numpy(fmod(view(xp.asarray(base)), xp.asarray(x2)))
    assert_same_bits(got, np.asarray(np.fmod(x1, x2)))
    as_float, divisor = got.astype(np.float64), np.broadcast_to(x2, x1.shape).astype(np.float64)
    assert (np.abs(as_float) < np.abs(divisor)).all()
    assert ((np.sign(as_float) == np.sign(x1.astype(np.float64))) | (as_float == 0)).all()
