"""Calls on arrays that are copied first: the same bits as for dense ones, and nothing of what lies between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml

View = Callable[[Any], Any]

#: By name views whose columns are scattered, each of an array of 140 x 260 x 4 or less.
VIEWS: dict[str, View] = {
    "channels": lambda x: x[..., :3],
    "last channels": lambda x: x[..., 1:],
    "a channel": lambda x: x[..., 2],
    "channels backwards": lambda x: x[..., ::-1],
    "rows backwards": lambda x: x[:, ::-1, :, :3],
    "columns backwards": lambda x: x[:, :, ::-1],
    "every second column": lambda x: x[:, :, ::2],
    "some columns": lambda x: x[:, :, 3:-2, :3],
    "an odd part": lambda x: x[:, 1:, 1:, 1:],
    "the middle": lambda x: x[:, 16:-8, 20:-22],  # sectors between its rows
    "a fifth of the columns": lambda x: x[:, :, 101:153],
}


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    numbers = np.random.default_rng([*shape]).integers(-90, 90, shape)
    return numbers.astype(dtype) / (np.dtype(dtype).type(7) if np.dtype(dtype).kind == "f" else 1)


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("view", VIEWS)
def test_running_sums_of_views_have_the_bits_of_dense_arrays(view: str, dtype: str, xp: Any):
    source = values((1, 140, 260, 4), dtype)
    chosen, stored = VIEWS[view], xp.asarray(source)
    dense = xp.asarray(np.ascontiguousarray(chosen(source)))
    for axis in (1, 2):
        for options in ({}, {"reverse": True, "exclusive": True}):
            found = cudml.cumsum(chosen(stored), axis=axis, dtype=dtype, **options)
            expected = cudml.cumsum(dense, axis=axis, dtype=dtype, **options)
            np.testing.assert_array_equal(xp.to_numpy(found), xp.to_numpy(expected))
    assert (xp.to_numpy(stored) == source).all()


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64"])
def test_running_sums_of_few_columns_with_gaps(dtype: str, xp: Any):
    source = values((4001, 8), dtype)
    for columns in (2, 5):
        view = xp.asarray(source)[:, 1 : 1 + columns]
        wide = xp.to_numpy(cudml.cumsum(view, axis=0))  # of bytes, wider than the copy
        np.testing.assert_array_equal(wide, np.cumsum(source[:, 1 : 1 + columns], axis=0))
        with_zero = cudml.cumulative_sum(view, axis=0, include_initial=True)
        np.testing.assert_array_equal(xp.to_numpy(with_zero)[1:], wide)


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_short_columns_with_gaps_between_them(dtype: str, xp: Any):
    source = values((3001, 40, 3), dtype)
    view, dense = xp.asarray(source)[:, 5:36], xp.asarray(np.ascontiguousarray(source[:, 5:36]))
    found, expected = (cudml.cumsum(x, axis=1, dtype=dtype) for x in (view, dense))
    np.testing.assert_array_equal(xp.to_numpy(found), xp.to_numpy(expected))
    if np.dtype(dtype).kind == "f":
        found, expected = (cudml.mean_variance_normalization(x, axes=1) for x in (view, dense))
        np.testing.assert_array_equal(xp.to_numpy(found), xp.to_numpy(expected))


@pytest.mark.backend("cuda", "emulated")
def test_an_output_that_lies_amid_the_input_is_written_alone(xp: Any):
    source = values((2300, 8), "int16")
    stored = xp.asarray(source)
    cudml.cumsum(stored[:, :3], axis=0, dtype=np.int16, out=stored[:, 5:])
    expected = source.copy()
    expected[:, 5:] = np.cumsum(source[:, :3], axis=0, dtype=np.int16)
    np.testing.assert_array_equal(xp.to_numpy(stored), expected)


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 40, 48, 32), (2, 33, 31, 37), (1, 16, 65, 18)])
@pytest.mark.parametrize("order", [(0, 3, 1, 2), (0, 2, 3, 1)], ids=["channels first", "channels last"])
def test_groups_in_another_order_have_the_bits_of_dense_ones(
    order: tuple[int, ...], shape: tuple[int, ...], dtype: str, xp: Any
):
    source = values(shape, dtype)
    view = xp.asarray(source).transpose(order)
    dense = xp.asarray(np.ascontiguousarray(source.transpose(order)))
    for axes in ((1, 2, 3), (0, 2, 3)):
        pairs = [
            (cudml.mean_variance_normalization(x, axes=axes), *cudml.mean_var(x, axis=axes)) for x in (view, dense)
        ]
        for found, expected in zip(*pairs, strict=True):
            np.testing.assert_array_equal(xp.to_numpy(found), xp.to_numpy(expected))


@pytest.mark.backend("cuda", "emulated")
def test_group_norm_of_channels_that_lie_last(xp: Any):
    source = values((2, 24, 40, 32), "float32")
    weight, bias = values((32,), "float32"), values((32,), "float32")
    view = xp.asarray(source).transpose(0, 3, 1, 2)
    found = cudml.group_norm(view, 2, weight=xp.asarray(weight), bias=xp.asarray(bias))
    x = source.transpose(0, 3, 1, 2).reshape(2, 2, -1).astype(np.float64)
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    expected = y.reshape(2, 32, 24, 40) * weight[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(xp.to_numpy(found), expected, rtol=2e-5, atol=2e-5)
    assert found.strides == view.strides  # as the input lies


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("view", ["rows backwards", "columns backwards", "channels backwards", "the middle"])
def test_images_turned_round_and_parts_of_them_have_the_bits_of_dense_ones(view: str, dtype: str, xp: Any):
    source = values((3, 70, 120, 3), dtype)
    turned = VIEWS[view](xp.asarray(source))
    dense = xp.asarray(np.ascontiguousarray(VIEWS[view](source)))
    for axes in ((1, 2), (0, 1, 2)):
        found, expected = (cudml.mean_variance_normalization(x, axes=axes) for x in (turned, dense))
        np.testing.assert_array_equal(xp.to_numpy(found), xp.to_numpy(expected))


@pytest.mark.backend("cuda", "emulated")
def test_a_part_of_images_is_normalized_into_another(xp: Any):
    source = values((6, 50, 90, 3), "float16")
    stored = xp.asarray(source)
    cudml.mean_variance_normalization(stored[:, :, :40], axes=(1, 2), out=stored[:, :, 45:85])
    expected = source.copy()
    dense = xp.asarray(np.ascontiguousarray(source[:, :, :40]))
    expected[:, :, 45:85] = xp.to_numpy(cudml.mean_variance_normalization(dense, axes=(1, 2)))
    np.testing.assert_array_equal(xp.to_numpy(stored), expected)


#: Orders in which axes lie, some of the innermost ones short, and shapes that are copied on three multiprocessors.
ORDERS = [
    ((2, 0, 1), (3, 7, 2401)),
    ((1, 2, 0), (5, 600, 18)),
    ((2, 1, 0), (6, 41, 204)),
    ((3, 0, 2, 1), (2, 12, 9, 231)),
]


def enough(shape: tuple[int, ...], xp: Any) -> tuple[int, ...]:
    """So many elements that a real GPU copies them too."""
    longest = shape.index(max(shape))
    return tuple(size * (50 if xp.name == "cuda" and axis == longest else 1) for axis, size in enumerate(shape))


def in_order(source: np.ndarray, order: tuple[int, ...], xp: Any) -> Any:
    """The same values, whose axes lie in that order from the outermost."""
    return xp.asarray(np.ascontiguousarray(source.transpose(order))).transpose(np.argsort(order).tolist())


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize(("order", "shape"), ORDERS)
def test_running_sums_into_another_order(order: tuple[int, ...], shape: tuple[int, ...], dtype: str, xp: Any):
    source = values(enough(shape, xp), dtype)
    view, dense = in_order(source, order, xp), xp.asarray(source)
    for axis in range(len(shape)):
        expected = xp.to_numpy(cudml.cumsum(dense, axis=axis, dtype=dtype))
        for out in (xp.asarray(np.zeros_like(source)), in_order(np.zeros_like(source), order[::-1], xp)):
            cudml.cumsum(view, axis=axis, dtype=dtype, out=out)
            np.testing.assert_array_equal(xp.to_numpy(out), expected)
    if dtype == "int8":
        wide = cudml.cumsum(view, axis=0, out=xp.asarray(np.zeros(source.shape, np.int64)))
        np.testing.assert_array_equal(xp.to_numpy(wide), np.cumsum(source, axis=0, dtype=np.int64))


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(2100, 9), (9, 4100), (70, 1031), (2100, 10), (300, 40)])
def test_running_sums_of_transposed_matrices(shape: tuple[int, ...], dtype: str, xp: Any):
    source = values(enough(shape, xp), dtype)
    view, dense = in_order(source, (1, 0), xp), xp.asarray(source)
    for axis in (0, 1):
        for options in ({}, {"reverse": True, "exclusive": True}):
            out = xp.asarray(np.zeros_like(source))
            cudml.cumsum(view, axis=axis, dtype=dtype, out=out, **options)
            expected = cudml.cumsum(dense, axis=axis, dtype=dtype, **options)
            np.testing.assert_array_equal(xp.to_numpy(out), xp.to_numpy(expected))
        expected = cudml.cumulative_sum(dense, axis=axis, dtype=dtype, include_initial=True)
        with_zero = xp.asarray(np.ones(expected.shape, dtype))
        cudml.cumulative_sum(view, axis=axis, dtype=dtype, include_initial=True, out=with_zero)
        np.testing.assert_array_equal(xp.to_numpy(with_zero), xp.to_numpy(expected))
        if dtype == "int8":
            wide = cudml.cumsum(view, axis=axis, out=xp.asarray(np.zeros(source.shape, np.int64)))
            np.testing.assert_array_equal(xp.to_numpy(wide), np.cumsum(source, axis=axis, dtype=np.int64))


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(17, 5, 45), (60, 12, 37), (3, 20, 70), (40, 17, 16)])
def test_channels_last_into_channels_first(shape: tuple[int, ...], dtype: str, xp: Any):
    source = values(enough(shape, xp), dtype)
    view, dense = in_order(source, (0, 2, 1), xp), xp.asarray(source)
    for axes in ((2,), (0, 2), (0, 1), (1,)):
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(source.shape))
        scale = xp.asarray(values(kept, dtype) + np.dtype(dtype).type(1))
        out = xp.asarray(np.zeros_like(source))
        cudml.mean_variance_normalization(view, scale, axes=axes, out=out)
        expected = cudml.mean_variance_normalization(dense, scale, axes=axes)
        np.testing.assert_array_equal(xp.to_numpy(out), xp.to_numpy(expected))


@pytest.mark.backend("cuda", "emulated")
def test_boxes_that_are_cut_to_fit_a_block(xp: Any):
    source = values(enough((13, 16, 31, 8), xp), "float64")
    out = xp.asarray(np.zeros_like(source))
    cudml.cumsum(in_order(source, (0, 3, 1, 2), xp), axis=0, out=out)
    np.testing.assert_array_equal(xp.to_numpy(out), xp.to_numpy(cudml.cumsum(xp.asarray(source), axis=0)))


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("order", "shape"), ORDERS)
def test_normalization_that_is_copied_and_copied_back(
    order: tuple[int, ...], shape: tuple[int, ...], dtype: str, xp: Any
):
    source = values(enough(shape, xp), dtype)
    view, dense = in_order(source, order, xp), xp.asarray(source)
    for axes in ((0, len(shape) - 1), tuple(range(1, len(shape))), tuple(range(len(shape)))):
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(source.shape))
        scale = xp.asarray(values(kept, dtype) + np.dtype(dtype).type(1))
        expected = xp.to_numpy(cudml.mean_variance_normalization(dense, scale=scale, axes=axes))
        alike = cudml.mean_variance_normalization(view, scale=scale, axes=axes)
        assert alike.strides == view.strides
        other = cudml.mean_variance_normalization(view, scale=scale, axes=axes, out=xp.asarray(np.zeros_like(source)))
        for found in (alike, other):
            np.testing.assert_array_equal(xp.to_numpy(found), expected)
        cudml.mean_variance_normalization(view, scale=scale, axes=axes, out=view)  # in place
        np.testing.assert_array_equal(xp.to_numpy(view), expected)
        view = in_order(source, order, xp)


@pytest.mark.backend("cuda", "emulated")
def test_an_output_with_gaps_is_written_alone_by_copies_back(xp: Any):
    source = values(enough((2, 7, 3600, 3), xp), "float32")
    stored = xp.asarray(np.ascontiguousarray(source.transpose(2, 3, 0, 1)))  # what is reduced first lies last
    view = stored.transpose(2, 3, 0, 1)[..., 1]
    target = xp.asarray(np.full((source.shape[2], 2, 9), 5, np.float32))
    cudml.mean_variance_normalization(view, axes=(1, 2), out=target.transpose(1, 2, 0)[:, 1:8])
    found = xp.to_numpy(target).transpose(1, 2, 0)
    dense = xp.asarray(np.ascontiguousarray(source[..., 1]))
    np.testing.assert_array_equal(found[:, 1:8], xp.to_numpy(cudml.mean_variance_normalization(dense, axes=(1, 2))))
    assert (found[:, [0, 8]] == 5).all()
