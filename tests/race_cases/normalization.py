"""Calls of moments and normalization that reach each of their kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda_on_cpu.backend import SMALL_GPU

from cudml.normalization import batch_norm, group_norm, layer_norm, mean_var, mean_variance_normalization
from cudml.plan.device import DeviceProperties
from race_cases.calls import Arrays, AsArray, Call, floats, laid_out, values
from race_cases.devices import (
    COPYING_GPU,
    FAST_STRIPS_GPU,
    FIVE_ALONE,
    FIVE_BLOCKS,
    FOUR_BLOCKS,
    HOLDING_GPU,
    LARGE_PIECES_GPU,
    LARGER_BLOCKS,
    MANY_BLOCKS,
    NO_CLUSTERS,
    OLD_GPU,
    ONE_BLOCK,
    PARTS_GPU,
    RING_OF_STRIPS_GPU,
    ROOMY_GPU,
    SHARED_LARGER_PANELS,
    SHARED_PANELS,
    SMALL_BLOCKS,
    SMALL_CLUSTERS,
    STRIPS_GPU,
    STRIPS_IN_BULK_GPU,
    TEAMS_GPU,
    TIGHT_BLOCK,
    TIGHT_GPU,
    TINY_GPU,
)


def normalized(x: np.ndarray, axes: tuple[int, ...], epsilon: float = 1e-5) -> np.ndarray:
    wide = x.astype(np.float64)
    variance = wide.var(axis=axes, keepdims=True)
    return (wide - wide.mean(axis=axes, keepdims=True)) / np.sqrt(variance + epsilon)


TOLERANCE = {np.float16: 4e-3, np.float32: 4e-6, np.float64: 1e-12}


def normalization(
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    axes: tuple[int, ...],
    pattern: str = "contiguous",
    out: str = "",
    device: DeviceProperties = SMALL_GPU,
    again: bool = False,
    factor: float = 1,
    out_dtype: Any = None,
) -> Call:
    """Without scale, bias and activation; "same" as `out` is in place. `again`: another array is normalized before."""
    x = floats(shape, dtype) * np.asarray(factor, dtype)

    def compute(make: AsArray) -> Any:
        source = laid_out(make, x, pattern)
        target = source if out == "same" else laid_out(make, np.zeros_like(x, out_dtype), out) if out else None
        if again:
            other = laid_out(make, 1 - x * x, pattern)
            mean_variance_normalization(other, axes=axes, out=laid_out(make, np.zeros_like(x), out) if out else None)
        return mean_variance_normalization(source, axes=axes, out=target)

    return Call(name, compute, lambda: (normalized(x, axes),), TOLERANCE[dtype], device)


def of_bytes(
    name: str, shape: tuple[int, ...], dtype: Any, axes: tuple[int, ...], device: DeviceProperties = SMALL_GPU
) -> Call:
    """Of any bytes, into float32."""
    x = values(shape, dtype)

    def compute(make: AsArray) -> Any:
        return mean_variance_normalization(make(x), axes=axes, out=make(np.zeros(shape, np.float32)))

    return Call(name, compute, lambda: (normalized(x, axes),), TOLERANCE[np.float32], device)


def moments(
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    axis: int | tuple[int, ...] | None,
    correction: float = 0,
    device: DeviceProperties = SMALL_GPU,
    pattern: str = "contiguous",
) -> Call:
    x = floats(shape, dtype)

    def expected() -> Arrays:
        if x.size == 0:
            return (np.full(shape[0], np.nan),) * 2
        return x.mean(axis, dtype=np.float64), x.var(axis, dtype=np.float64, ddof=correction)

    tolerance = 8 * TOLERANCE.get(dtype, 1e-12)

    def compute(make: AsArray) -> Any:
        return mean_var(laid_out(make, x, pattern), axis, correction=correction)

    return Call(name, compute, expected, tolerance, device)


def channels(
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    axes: tuple[int, ...],
    count: int,
    out: str = "",
    device: DeviceProperties = SMALL_GPU,
) -> Call:
    """The first few channels, which end in rows that have gaps between them; "same" as `out` is in place, "moments" are
    mean and variance alone."""
    every = floats(shape, dtype)
    x = every[..., :count]

    def compute(make: AsArray) -> Any:
        source = make(every)[..., :count]
        if out == "moments":
            return mean_var(source, axes)
        return mean_variance_normalization(source, axes=axes, out=source if out == "same" else None)

    def expected() -> Arrays:
        if out == "moments":
            return x.mean(axes, dtype=np.float64), x.var(axes, dtype=np.float64)
        return (normalized(x, axes),)

    return Call(name, compute, expected, TOLERANCE[dtype], device)


def affine(
    name: str, shape: tuple[int, ...], function: str, device: DeviceProperties = SMALL_GPU, dtype: Any = np.float32
) -> Call:
    """Scale, bias and an activation: rows that end with arrays of their own, or channels."""
    x = floats(shape, dtype)
    channels = shape[-1] if function == "layer_norm" else shape[1]
    scale, bias = floats((channels,), np.float32, 1), floats((channels,), np.float32, 2)

    def compute(make: AsArray) -> Any:
        options = {"weight": make(scale), "bias": make(bias), "activation": "relu"}
        if function == "layer_norm":
            return layer_norm(make(x), shape[-1], **options)
        if function == "group_norm":
            return group_norm(make(x), 2, **options)
        return batch_norm(make(x), return_statistics=True, **options)

    def expected() -> Arrays:
        if function == "layer_norm":
            return (np.maximum(normalized(x, (1,)) * scale + bias, 0),)
        over = (1, -1) + (1,) * (len(shape) - 2)
        if function == "group_norm":
            y = normalized(x.reshape(shape[0], 2, -1), (2,)).reshape(shape)
            return (np.maximum(y * scale.reshape(over) + bias.reshape(over), 0),)
        axes = (0, *range(2, len(shape)))
        y = np.maximum(normalized(x, axes) * scale.reshape(over) + bias.reshape(over), 0)
        return y, x.mean(axes, dtype=np.float64), x.var(axes, dtype=np.float64)

    return Call(name, compute, expected, 5 * TOLERANCE[dtype], device)


def layer_norm_of_transposed(
    name: str, shape: tuple[int, ...], device: DeviceProperties, out: str = "transposed"
) -> Call:
    """Into an output that is transposed too, or not: scale and bias of elements that lie far from each other."""
    x, length = floats(shape, np.float32), shape[0]
    scale, bias = floats((length,), np.float32, 1), floats((length,), np.float32, 2)

    def compute(make: AsArray) -> Any:
        target = laid_out(make, np.zeros_like(x.T), out)
        return layer_norm(make(x).T, length, weight=make(scale), bias=make(bias), out=target)

    return Call(name, compute, lambda: (normalized(x.T, (1,)) * scale + bias,), TOLERANCE[np.float32], device)


def channels_last(
    name: str, shape: tuple[int, ...], groups: int, dtype: Any = np.float32, device: DeviceProperties = ONE_BLOCK
) -> Call:
    """Images (N, C, H, W) whose channels lie side by side, normalized by so many groups of these, into the like."""
    x = floats(shape, dtype)
    scale, bias = floats((shape[1],), np.float32, 1), floats((shape[1],), np.float32, 2)

    def stored(make: AsArray, values: np.ndarray) -> Any:
        return make(np.ascontiguousarray(values.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)

    def compute(make: AsArray) -> Any:
        return group_norm(stored(make, x), groups, make(scale), make(bias), out=stored(make, np.zeros_like(x)))

    def expected() -> Arrays:
        y = normalized(x.reshape(shape[0], groups, -1), (2,)).reshape(shape)
        return (y * scale[:, None, None] + bias[:, None, None],)

    return Call(name, compute, expected, TOLERANCE[dtype], device)


def scaled(
    name: str,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    of: tuple[int, ...],
    device: DeviceProperties = SMALL_GPU,
    out: str = "contiguous",
    of_bias: tuple[int, ...] | None = None,
    dtype: Any = np.float32,
    scale_dtype: Any = np.float32,
) -> Call:
    """With a scale of this shape, and a bias of the same or another; "same" as `out` is in place."""
    x, scale, bias = floats(shape, dtype), floats(of, scale_dtype, 1), floats(of_bias or of, scale_dtype, 2)

    def compute(make: AsArray) -> Any:
        source = make(x)
        target = source if out == "same" else laid_out(make, np.zeros_like(x), out)
        return mean_variance_normalization(source, make(scale), make(bias), axes=axes, out=target)

    def expected() -> Arrays:
        return (normalized(x, axes) * scale.astype(np.float64) + bias.astype(np.float64),)

    return Call(name, compute, expected, TOLERANCE[dtype], device)


def scaled_by_numbers(name: str, shape: tuple[int, ...]) -> Call:
    x = floats(shape, np.float32)
    return Call(
        name,
        lambda make: mean_variance_normalization(make(x), 2.0, -1.0, axes=(1,), activation="sigmoid"),
        lambda: (1 / (1 + np.exp(1 - 2 * normalized(x, (1,)))),),
        1e-5,
    )


SMALL_GROUPS = [
    of_bytes("short groups of bytes as floats", (300, 48), np.uint8, (1,)),
    of_bytes("short groups of odd bytes as floats", (302, 33), np.uint8, (1,)),
    of_bytes("rows of bytes as floats", (40, 704), np.uint8, (1,)),
    of_bytes("rows of bytes of several warps as floats", (5, 4000), np.int8, (1,)),
    normalization("rows of halves as floats", (5, 3000), np.float16, (1,), out="contiguous", out_dtype=np.float32),
    normalization("odd row of halves as floats", (1, 3001), np.float16, (1,), out="contiguous", out_dtype=np.float32),
    normalization("odd rows of floats as doubles", (5, 901), np.float32, (1,), out="contiguous", out_dtype=np.float64),
    scaled("short groups by the grain in place", (5, 16, 100), (0, 2), (5, 1, 100), out="same", dtype=np.float16),
    normalization("groups of one element", (70, 1), np.float32, (1,)),
    normalization("groups of a chunk", (300, 3), np.float32, (1,)),
    normalization("groups of two lanes", (800, 8), np.float32, (1,)),
    normalization("groups of five lanes", (31, 18), np.float32, (1,), "every second", "every second"),
    normalization("groups of sixteen lanes", (100, 64), np.float32, (1,)),
    normalization("groups of one warp", (9, 100), np.float32, (1,)),
    normalization("groups that fill all blocks", (16, 128), np.float32, (1,)),
    normalization("group that ends in a chunk", (1, 130), np.float32, (1,)),
    normalization("groups of two rows", (5, 129), np.float32, (1,)),
    normalization("groups of four rows", (13, 500), np.float32, (1,)),
    normalization("few groups of four rows", (3, 500), np.float32, (1,)),
    normalization("groups of four warps", (3, 1000), np.float32, (1,)),
    normalization("groups of five warps", (3, 2100), np.float32, (1,)),
    normalization("groups with a warp for themselves", (5, 1193), np.float16, (1,), device=ONE_BLOCK),
    normalization(
        "groups with a warp for themselves in place", (5, 301), np.float64, (1,), out="same", device=ONE_BLOCK
    ),
    normalization("groups of runs with a warp for themselves", (4, 3, 300), np.float16, (0, 2), device=ONE_BLOCK),
    scaled("groups with a warp for themselves, scaled", (5, 513), (1,), (513,), device=ONE_BLOCK),
    moments("moments of groups with a warp for themselves", (9, 1025), np.float16, 1, device=ONE_BLOCK),
    normalization("groups whose last warp has a row", (2, 3201), np.float16, (1,), device=ONE_BLOCK),
    normalization("groups of sixteen rows a warp", (2, 8200), np.float32, (1,), device=NO_CLUSTERS),
    normalization("groups of sixteen warps", (2, 4096), np.float64, (1,)),
    normalization("groups of more rows", (2, 4099), np.float64, (1,), device=NO_CLUSTERS),
    normalization("groups in place", (3, 600), np.float32, (1,), out="same"),
    normalization("groups of a warp in place", (9, 100), np.float32, (1,), out="same"),
    normalization("groups of a warp of every second in place", (66, 100), np.float32, (1,), "every second", "same"),
    normalization("groups of halves", (2, 1500), np.float16, (1,)),
    normalization("groups shifted by a byte", (3, 150), np.float32, (1,), "offset by a byte", "offset by a byte"),
    normalization("groups of odd halves", (9, 257), np.float16, (1,)),
    normalization("groups of odd halves in place", (9, 37), np.float16, (1,), out="same"),
    normalization("groups of odd halves end to end", (77, 17), np.float16, (1,)),
    normalization("groups of halves that begin at words", (11, 302), np.float16, (1,)),
    normalization("groups of halves that begin at pairs of words", (5, 1300), np.float16, (1,), out="same"),
    normalization("groups of odd halves in padded rows", (6, 1025), np.float16, (1,), "padded lines", "padded lines"),
    normalization("groups of odd halves of four warps in place", (4, 1601), np.float16, (1,), out="same"),
    normalization(
        "groups of halves offset by one", (5, 1024), np.float16, (1,), "offset by an element", "offset by an element"
    ),
    normalization("groups of halves of a warp each", (60, 1104), np.float16, (1,), device=TINY_GPU),
    normalization("groups of halves of five warps", (2, 5000), np.float16, (1,)),
    normalization("groups of odd halves of nine warps", (2, 8201), np.float16, (1,), out="same"),
    normalization("groups of odd floats of sixteen rows a warp", (2, 12_303), np.float32, (1,), device=NO_CLUSTERS),
    scaled("groups of odd floats of many rows, scaled", (2, 12_301), (1,), (12_301,)),
    scaled("groups of three rows, scaled", (90, 333), (1,), (333,), TINY_GPU),
    scaled("groups of three rows of whole chunks, scaled", (90, 332), (1,), (332,), TINY_GPU),
    scaled("groups of five warps, scaled", (3, 2100), (1,), (2100,)),
    normalization("groups of floats offset by one", (6, 260), np.float32, (1,), "offset by an element", "contiguous"),
    normalization("groups of doubles offset by one", (6, 260), np.float64, (1,), "contiguous", "offset by an element"),
    normalization("groups over two axes", (4, 6, 51), np.float32, (0, 2)),
    affine("layer norm", (5, 70), "layer_norm"),
    affine("layer norm of whole chunks", (5, 160), "layer_norm"),
    affine("group norm", (2, 6, 9), "group_norm"),
    scaled("groups with scales of their own", (200, 3, 12), (2,), (3, 12)),
    scaled("groups whose scales come again in every row", (150, 4, 12), (2,), (4, 12)),
    affine("batch norm", (2, 3, 130), "batch_norm"),
    scaled_by_numbers("scale and bias as numbers", (3, 200)),
    scaled("short groups scaled by parts of chunks", (90, 5, 6), (1, 2), (5, 1), dtype=np.float16),
    scaled("groups of several scaled by parts of chunks", (70, 3, 45, 2), (2, 3), (3, 45, 1)),
    scaled("groups scaled by parts of chunks of two axes", (3, 9, 7, 10), (1, 2, 3), (9, 1, 1), of_bias=(7, 1)),
    scaled("groups scaled by short runs", (3, 150, 5), (1, 2), (150, 1), dtype=np.float16),
    scaled("short groups scaled by runs", (7, 9, 30), (1, 2), (9, 1)),
    scaled("groups scaled by runs", (3, 40, 33), (1, 2), (40, 1)),
    scaled("groups of halves scaled by runs", (3, 50, 42), (1, 2), (50, 1), dtype=np.float16),
    scaled("groups scaled by runs of two axes", (3, 6, 7, 26), (1, 2, 3), (6, 1, 1), of_bias=(7, 1)),
    normalization("groups over runs of grains", (5, 6, 52), np.float16, (0, 2)),
    normalization("groups over longer runs of grains", (30, 3, 100), np.float16, (0, 2)),
    normalization("groups over even runs of floats", (30, 3, 50), np.float32, (0, 2)),
    normalization("groups over long odd runs of halves", (3, 2, 601), np.float16, (0, 2)),
    normalization("groups over long odd runs of halves in place", (2, 3, 1027), np.float16, (0, 2), out="same"),
    normalization("short groups over runs of grains", (3, 40, 12), np.float16, (0, 2)),
    moments("moments", (3, 90), np.float32, 1, correction=1),
    moments("moments of short groups", (37, 9), np.float32, 1),
    moments("moments of images", (5, 3, 7, 7), np.float32, (0, 2, 3)),
    moments("moments of more images", (24, 2, 7, 7), np.float32, (0, 2, 3)),
]

SMALL_COLUMNS = [
    normalization("groups in short columns", (7, 300), np.float32, (0,)),
    normalization("groups in panels", (701, 16, 3), np.float32, (1,), device=ONE_BLOCK),
    normalization("groups in panels in place", (400, 33, 3), np.float16, (1,), out="same", device=ONE_BLOCK),
    normalization(
        "groups in panels behind an element",
        (220, 2, 4, 5),
        np.float64,
        (1, 2),
        "offset by an element",
        "contiguous",
        ONE_BLOCK,
    ),
    moments("moments of panels", (501, 9, 5), np.float32, 1, device=ONE_BLOCK),
    normalization("columns of two spans", (9, 80), np.float32, (0,)),
    normalization("columns of a block", (130, 70), np.float32, (0,), device=ONE_BLOCK),
    normalization("columns of more rows", (600, 36), np.float32, (0,)),
    normalization("groups in columns in place", (90, 40), np.float32, (0,), out="same", device=ONE_BLOCK),
    normalization("columns of halves", (70, 24), np.float16, (0,), device=ONE_BLOCK),
    normalization("columns not side by side", (90, 33), np.float32, (0,), "every second", "every second"),
    normalization("columns over two axes", (3, 5, 7, 8), np.float32, (0, 2)),
    affine("batch norm in columns", (90, 40), "batch_norm", device=ONE_BLOCK),
    affine("batch norm in narrow strips", (90, 40), "batch_norm"),
    normalization("narrow columns of a block", (130, 70), np.float16, (0,), out="same", device=MANY_BLOCKS),
    normalization("clusters of narrow columns", (600, 17), np.float32, (0,), out="same", device=MANY_BLOCKS),
    normalization("clusters of narrow columns of halves", (1030, 20), np.float16, (0,), device=MANY_BLOCKS),
    normalization("clusters of columns of longer halves", (4200, 3), np.float16, (0,), device=MANY_BLOCKS),
    affine("group norm in columns", (3, 64, 2), "group_norm"),
    moments("moments of columns", (90, 37), np.float32, 0),
    moments("moments of short columns of halves", (5, 70), np.float16, 0),
    normalization("columns of less than a chunk", (3, 260), np.float16, (0,)),
    scaled("columns of less than a chunk with a scale for each row", (6, 40), (0,), (6, 1)),
]

LARGE_GROUPS = [
    normalization("large groups", (3, 8193), np.float64, (1,), device=OLD_GPU),
    scaled("large groups scaled by runs", (2, 300, 61), (1, 2), (300, 1), OLD_GPU),
    scaled("large groups of the same scale", (3, 17_001), (1,), (17_001,), OLD_GPU),
    of_bytes("large groups of bytes as floats", (2, 70_400), np.uint8, (1,), OLD_GPU),
    normalization("large groups in place", (1, 17000), np.float32, (1,), out="same", device=OLD_GPU),
    normalization("large groups of every second", (2, 17000), np.float32, (1,), "every second", device=OLD_GPU),
    moments("moments of many tiles", (3, 12300), np.float64, 1),
    moments("moments of more tiles than a set has", (257 * 2048 + 1, 2), np.float64, 0, device=MANY_BLOCKS),
    moments("moments of nothing", (3, 0), np.float64, 1),
    normalization("large columns", (2049, 9), np.float32, (0,)),
    normalization("large columns in place", (1025, 33), np.float32, (0,), out="same", device=OLD_GPU),
    moments("moments in rounds", (9, 9001), np.float64, 1, device=TINY_GPU),
    normalization("large groups of odd doubles in place", (1, 17_001), np.float64, (1,), out="same", device=OLD_GPU),
    normalization("large groups of odd floats in place", (2, 17_001), np.float32, (1,), out="same", device=OLD_GPU),
    normalization("large groups of even floats", (2, 17_002), np.float32, (1,), device=OLD_GPU),
    normalization("large groups of odd halves in place", (2, 70_001), np.float16, (1,), out="same", device=OLD_GPU),
    normalization("large groups of even halves in place", (2, 35_002), np.float16, (1,), out="same", device=OLD_GPU),
    moments("moments of large groups of odd halves", (2, 70_001), np.float16, 1),
    moments("moments of many halves in tiles", (2, 70_000), np.float16, 1, device=TINY_GPU),
    moments("moments of many odd halves in tiles", (2, 70_001), np.float16, 1, device=TINY_GPU),
    moments("moments of many halves by a warp each", (150, 1785), np.float16, 1, device=TINY_GPU),
    moments("moments of many odd halves by a warp each", (130, 3501), np.float16, 1, device=TINY_GPU),
    moments("moments of many halves by warps", (20, 4096), np.float16, 1, device=TINY_GPU),
    normalization("large groups over odd runs in place", (40, 2, 501), np.float32, (0, 2), out="same", device=OLD_GPU),
    normalization("large groups over long runs in place", (3, 2, 9001), np.float32, (0, 2), out="same", device=OLD_GPU),
    normalization(
        "large groups over long runs of halves", (4, 2, 14_003), np.float16, (0, 2), out="same", device=OLD_GPU
    ),
    moments("moments of large groups over long runs", (4, 2, 9001), np.float32, (0, 2), device=OLD_GPU),
    normalization("large groups over grains in place", (59, 2, 1436), np.float16, (0, 2), out="same", device=OLD_GPU),
    normalization("large groups over long odd runs", (24, 2, 1987), np.float16, (0, 2), out="same", device=OLD_GPU),
    normalization("large columns in rounds", (16_500, 17), np.float32, (0,), out="same", device=TINY_GPU),
    normalization("large columns of odd halves in place", (2100, 67), np.float16, (0,), out="same", device=OLD_GPU),
    normalization("large columns of odd doubles in place", (1100, 33), np.float64, (0,), out="same", device=OLD_GPU),
    normalization("narrow columns of halves", (8200, 6), np.float16, (0,), out="same"),
    normalization("narrow columns of more halves than lanes", (2100, 37), np.float16, (0,), device=STRIPS_GPU),
    normalization("narrow columns in rounds", (66_000, 2), np.float64, (0,), device=TINY_GPU),
    normalization("rows of images", (2, 9000, 3), np.float16, (1,), out="same"),
    normalization("rows of images in rounds", (3, 9000, 3), np.float32, (1,), device=TINY_GPU),
    channels("rows of images with gaps", (3, 2304, 4), np.float16, (1,), 3),
    channels("rows of images with gaps in place", (3, 2310, 4), np.float32, (1,), 3, out="same"),
    channels("rows with gaps", (5, 512, 4), np.float16, (1,), 3),
    channels("rows with gaps in place", (5, 500, 4), np.float32, (1,), 3, out="same"),
    channels("moments of rows of images with gaps", (2, 4096, 3), np.float32, (1,), 2, out="moments"),
    moments("moments of large columns", (2049, 33), np.float64, 0),
    moments("moments of large columns of halves", (2200, 120), np.float16, 0, device=TINY_GPU),
    moments("moments of large columns of single halves", (4300, 67), np.float16, 0, device=TINY_GPU),
    moments("moments of large columns in runs", (100, 5, 24, 34), np.float16, (0, 2), device=TINY_GPU),
    moments("moments of large columns in odd runs", (300, 3, 7, 34), np.float16, (0, 2), device=TINY_GPU),
    moments("moments of large columns of bytes", (4500, 136), np.uint8, 0, device=TINY_GPU),
    normalization("large columns of halves", (4200, 64), np.float16, (0,), out="same", device=TINY_GPU),
]

CLUSTERED_LINES = [
    normalization("clustered lines of one row a warp", (2, 5801), np.float16, (1,), device=PARTS_GPU),
    normalization("clustered lines of two rows a warp", (1, 8101), np.float32, (1,)),
    normalization("clustered lines of four rows a warp", (2, 16_500), np.float32, (1,)),
    normalization("columns that are clustered lines", (3000, 2), np.float32, (0,), device=TEAMS_GPU, out="same"),
    normalization("clustered lines of eight rows a warp", (1, 16_460), np.float64, (1,)),
    normalization("clustered lines in place", (1, 12_301), np.float32, (1,), out="same"),
    normalization("clustered lines of halves", (1, 16_701), np.float16, (1,), out="same"),
    normalization("clustered lines of more halves", (1, 33_001), np.float16, (1,), device=FOUR_BLOCKS),
    normalization("clustered lines of whole rows", (1, 8192), np.float64, (1,)),
    normalization("clustered lines over runs", (3, 2, 2901), np.float32, (0, 2)),
    normalization("clustered lines over long odd runs", (14, 1, 2501), np.float16, (0, 2), "padded lines", "same"),
    normalization("clustered lines of every second", (1, 8301), np.float32, (1,), "every second", "every second"),
    scaled("clustered lines scaled by elements", (1, 8301), (1,), (8301,)),
    scaled("clustered lines scaled by runs", (1, 150, 61), (1, 2), (150, 1)),
    affine("batch norm in clustered lines", (2, 2, 4500), "batch_norm"),
    moments("moments of clustered lines", (1, 8301), np.float64, 1, correction=1, device=FIVE_BLOCKS),
]

STREAMS = [
    normalization("stream", (3, 17000), np.float32, (1,), device=NO_CLUSTERS),
    normalization("stream of doubles", (5, 9000), np.float64, (1,)),
    normalization(
        "stream of odd halves as floats",
        (3, 40_001),
        np.float16,
        (1,),
        "contiguous",
        "contiguous",
        TIGHT_GPU,
        out_dtype=np.float32,
    ),
    normalization(
        "stream of halves as floats",
        (3, 40_000),
        np.float16,
        (1,),
        out="contiguous",
        device=NO_CLUSTERS,
        out_dtype=np.float32,
    ),
    normalization("stream of doubles of an odd length", (5, 9001), np.float64, (1,)),
    of_bytes("stream of bytes", (2, 70_001), np.uint8, (1,), NO_CLUSTERS),
    of_bytes("stream of signed bytes", (2, 70_016), np.int8, (1,), NO_CLUSTERS),
    of_bytes("short columns of bytes", (7, 600), np.uint8, (0,)),
    normalization("stream of many units", (1, 129 * 4096 + 1), np.float64, (1,), device=ROOMY_GPU),
    normalization("stream of more groups than slots", (20, 8200), np.float64, (1,), device=TIGHT_GPU, again=True),
    scaled("stream whose last pieces lack whole units", (3, 69_632), (1,), (69_632,), TEAMS_GPU),
    normalization("stream that teams draw", (40, 14_300), np.float64, (1,), device=TEAMS_GPU, again=True),
    normalization("stream round a small ring", (12, 20_001), np.float32, (1,), device=TIGHT_GPU),
    normalization("stream of halves round a small ring", (12, 40_001), np.float16, (1,), device=TIGHT_GPU),
    normalization("stream in place", (2, 30_000), np.float32, (1,), out="same", device=NO_CLUSTERS),
    normalization("stream of units held in registers", (3, 90_016), np.float32, (1,), out="same"),
    normalization(
        "stream stored at other places", (3, 20_001), np.float32, (1,), out="offset by an element", device=NO_CLUSTERS
    ),
    normalization("stream of halves", (2, 40_000), np.float16, (1,), device=NO_CLUSTERS),
    normalization("stream of runs", (8, 3, 4096), np.float32, (0, 2)),
    normalization("stream of short runs", (60, 3, 300), np.float32, (0, 2), device=NO_CLUSTERS),
    normalization("stream of runs of grains", (170, 3, 204), np.float16, (0, 2)),
    normalization("stream of long odd runs", (60, 2, 601), np.float16, (0, 2), device=COPYING_GPU),
    normalization("stream of odd runs of hardly a row", (140, 2, 259), np.float16, (0, 2), device=NO_CLUSTERS),
    normalization(
        "stream of long odd runs in place",
        (14, 2, 2501),
        np.float16,
        (0, 2),
        "offset by an element",
        "same",
        COPYING_GPU,
    ),
    normalization("stream of seams", (60, 2, 601), np.float16, (0, 2), device=NO_CLUSTERS),
    normalization("stream of seams round a small ring", (9, 2, 2501), np.float16, (0, 2), device=TIGHT_BLOCK),
    normalization("stream of seams of doubles", (9, 2, 1201), np.float64, (0, 2), device=NO_CLUSTERS),
    normalization("stream of seams of floats", (14, 2, 1203), np.float32, (0, 2), out="same", device=NO_CLUSTERS),
    normalization(
        "stream of seams at other places",
        (14, 2, 2501),
        np.float16,
        (0, 2),
        "offset by an element",
        "same",
        NO_CLUSTERS,
    ),
    normalization(
        "stream of seams that become wider",
        (14, 2, 1203),
        np.float16,
        (0, 2),
        out="contiguous",
        device=NO_CLUSTERS,
        out_dtype=np.float32,
    ),
    scaled("scaled stream of seams", (60, 2, 603), (0, 2), (2, 1), NO_CLUSTERS, dtype=np.float16),
    scaled("stream of seams scaled one by one", (60, 2, 603), (0, 2), (2, 603), NO_CLUSTERS, dtype=np.float16),
    normalization("stream of padded seams", (14, 2, 1203), np.float32, (0, 2), "padded lines", device=NO_CLUSTERS),
    normalization("stream amid lines of the cache", (3, 20_004), np.float32, (1,), device=NO_CLUSTERS),
    scaled("stream scaled by runs", (3, 30, 602), (1, 2), (30, 1), NO_CLUSTERS),
    scaled("stream scaled by runs of two axes", (2, 5, 9, 402), (1, 2, 3), (5, 1, 1), NO_CLUSTERS, of_bias=(9, 1)),
    normalization("stream of padded runs", (60, 3, 300), np.float32, (0, 2), "padded lines", device=NO_CLUSTERS),
    normalization("stream of padded halves", (250, 2, 150), np.float16, (0, 2), "padded lines", device=NO_CLUSTERS),
    normalization(
        "stream of runs with their gaps", (3, 300, 64), np.float32, (1, 2), "padded lines", "same", NO_CLUSTERS
    ),
    normalization("stream of halves with their gaps", (5, 2, 128, 128), np.float16, (0, 2, 3), "padded lines"),
    normalization("stream of every second", (3, 17_000), np.float32, (1,), "every second", "every second", NO_CLUSTERS),
    normalization("stream by elements", (3, 17_000), np.float32, (1,), "every second", device=STRIPS_GPU),
    normalization(
        "stream shifted by a byte", (3, 17_001), np.float32, (1,), "offset by a byte", "offset by a byte", NO_CLUSTERS
    ),
    affine("batch norm in a stream", (39, 3, 1024), "batch_norm"),
    affine("batch norm with one piece for each block", (20, 4, 1000), "batch_norm", FIVE_ALONE),
    affine("batch norm of halves with one piece for each block", (20, 4, 2000), "batch_norm", FIVE_ALONE, np.float16),
    affine("layer norm in a stream", (2, 20_000), "layer_norm", NO_CLUSTERS),
    affine("layer norm that keeps scale and bias", (3, 90_000), "layer_norm"),
    affine("layer norm of an odd length that keeps scale and bias", (3, 90_001), "layer_norm"),
    affine("layer norm of odd halves that keeps scale and bias", (3, 180_003), "layer_norm", dtype=np.float16),
    affine("layer norm of whole units that keeps scale and bias", (3, 98_304), "layer_norm"),
    *(
        scaled(f"{name} that keep their scale", (3, length), (1,), (length,), dtype=dtype, scale_dtype=dtype)
        for name, dtype, length in (
            ("odd halves", np.float16, 180_003),
            ("whole units of halves", np.float16, 196_608),
            ("odd doubles", np.float64, 45_001),
        )
    ),
]

STRIPS = [
    normalization("strips", (1100, 100), np.float32, (0,), device=STRIPS_GPU),
    normalization("strips in place", (1100, 68), np.float32, (0,), out="same", device=STRIPS_GPU),
    normalization("strips of small numbers", (1100, 100), np.float32, (0,), device=STRIPS_GPU, factor=1e-3),
    normalization("strips of halves", (1100, 128), np.float16, (0,), device=STRIPS_GPU),
    normalization("strips in bulk", (1092, 336), np.float16, (0,), device=STRIPS_IN_BULK_GPU),
    normalization(
        "strips in bulk in place", (18, 2, 64, 144), np.float16, (0, 2), out="same", device=STRIPS_IN_BULK_GPU
    ),
    normalization("strips in bulk by more loaders", (1092, 336), np.float16, (0,), device=FAST_STRIPS_GPU),
    normalization("strips of more halves", (1800, 136), np.float16, (0,), device=STRIPS_GPU),
    normalization("narrow strips of halves", (2100, 64), np.float16, (0,), device=STRIPS_GPU),
    normalization("strips of doubles", (1100, 32), np.float64, (0,), device=STRIPS_GPU),
    normalization("strips over two axes", (20, 2, 55, 64), np.float32, (0, 2), device=STRIPS_GPU),
    scaled("strips scaled by outer rows", (20, 2, 55, 64), (0, 2), (20, 1, 1, 1), STRIPS_GPU),
    scaled("strips scaled by inner rows", (20, 2, 55, 64), (0, 2), (1, 1, 55, 1), STRIPS_GPU),
    scaled("strips of a turned input scaled by chunks", (20, 68, 256), (0, 2), (20, 1, 1), STRIPS_GPU, "rolled axes"),
    normalization("strips of every second step", (1100, 2, 36), np.float32, (0,), device=STRIPS_GPU),
    normalization("strips of shifted rows", (1100, 200), np.float32, (0,), "padded lines", device=STRIPS_GPU),
    normalization("strips of shifted rows in place", (1100, 196), np.float32, (0,), "padded lines", "same", STRIPS_GPU),
    normalization(
        "strips of shifted rows behind an element",
        (1120, 196),
        np.float32,
        (0,),
        "offset by an element",
        device=STRIPS_GPU,
    ),
    normalization("strips of an odd width", (1100, 201), np.float32, (0,), device=STRIPS_GPU),
    normalization("strips of an odd width over two axes", (20, 64, 133), np.float32, (0, 1), device=STRIPS_GPU),
    normalization("wide strips of an odd width", (1100, 301), np.float32, (0,), device=STRIPS_GPU),
    normalization("wide strips of shifted rows", (1100, 204), np.float32, (0,), "padded lines", device=STRIPS_GPU),
    normalization("strips of doubles of an odd width", (1100, 83), np.float64, (0,), device=STRIPS_GPU),
    normalization("strips of halves of an odd width", (1200, 301), np.float16, (0,), device=STRIPS_GPU),
    normalization("strips of shifted halves", (1800, 136), np.float16, (0,), "padded lines", device=STRIPS_GPU),
    normalization("strips of an odd width in place", (1100, 201), np.float32, (0,), out="same", device=STRIPS_GPU),
    normalization("strips of shifted doubles", (1100, 100), np.float64, (0,), "padded lines", device=STRIPS_GPU),
    normalization("strips of every second column", (1100, 100), np.float32, (0,), "every second", device=STRIPS_GPU),
    normalization(
        "strips of a turned input",
        (4499, 76),
        np.float32,
        (0,),
        "transposed, in whole vectors",
        "contiguous",
        STRIPS_GPU,
    ),
    normalization("strips of turned halves", (4504, 136), np.float16, (0,), "transposed", "contiguous", STRIPS_GPU),
    normalization("strips of a turned output", (1100, 212), np.float32, (0,), "contiguous", "transposed", STRIPS_GPU),
    normalization("halves in a turned output", (1800, 264), np.float16, (0,), "contiguous", "transposed", STRIPS_GPU),
    layer_norm_of_transposed("layer norm in strips of a turned output", (1100, 212), STRIPS_GPU, "contiguous"),
    normalization("strips round a ring", (1100, 256), np.float32, (0,), device=RING_OF_STRIPS_GPU),
    normalization("strips round a ring, again", (1100, 256), np.float32, (0,), device=RING_OF_STRIPS_GPU, again=True),
    normalization("strips of uneven teams", (1100, 164), np.float32, (0,), device=STRIPS_GPU),
    normalization("strips dealt to all blocks", (1500, 260), np.float32, (0,), out="same", device=STRIPS_GPU),
    normalization("strips of large pieces", (1500, 128), np.float32, (0,), device=LARGE_PIECES_GPU),
    normalization("strips of held units", (1500, 128), np.float32, (0,), device=HOLDING_GPU),
    normalization("many strips of held units", (1300, 1080), np.float32, (0,), device=HOLDING_GPU),
    normalization("held units of turned input", (1500, 128), np.float32, (0,), "transposed", "contiguous", HOLDING_GPU),
    affine("batch norm in strips", (1300, 64), "batch_norm", STRIPS_GPU),
    layer_norm_of_transposed("layer norm in strips", (1100, 68), STRIPS_GPU),
]

CLUSTERS = [
    normalization("clusters", (1100, 72), np.float32, (0,), device=MANY_BLOCKS),
    normalization("clusters of whole tiles", (2048, 32), np.float64, (0,), device=MANY_BLOCKS),
    normalization("clusters in place", (1300, 64), np.float32, (0,), out="same", device=MANY_BLOCKS),
    normalization("clusters of halves", (1300, 64), np.float16, (0,), device=MANY_BLOCKS),
    normalization("clusters of eight", (4097, 64), np.float32, (0,), device=MANY_BLOCKS),
    normalization("clusters over two axes", (20, 2, 55, 64), np.float32, (0, 2), device=MANY_BLOCKS),
    affine("batch norm in clusters", (1300, 64), "batch_norm", MANY_BLOCKS),
]


def group_norm_of_channels_last(name: str, shape: tuple[int, ...], device: DeviceProperties) -> Call:
    """Images whose last axes are groups and their channels, each with its own scale and bias."""
    x, scale, bias = floats(shape, np.float32), floats(shape[3:], np.float32, 1), floats(shape[3:], np.float32, 2)

    def compute(make: AsArray) -> Any:
        return mean_variance_normalization(make(x), make(scale), make(bias), axes=(1, 2, 4))

    return Call(name, compute, lambda: (normalized(x, (1, 2, 4)) * scale + bias,), TOLERANCE[np.float32], device)


BUNDLES = [
    normalization("bundles", (13, 48, 7, 7), np.float32, (0, 2, 3), device=ONE_BLOCK),
    normalization(
        "bundles of whole chunks in place",
        (16, 48, 7, 7),
        np.float32,
        (0, 2, 3),
        "contiguous",
        "same",
        ONE_BLOCK,
    ),
    normalization("bundles of short runs", (301, 40, 3), np.float32, (0, 2), device=ONE_BLOCK),
    normalization("bundles of tiny images", (301, 8, 2, 2), np.float32, (0, 2, 3), device=ONE_BLOCK),
    normalization("bundles of tiny halves", (301, 8, 2, 2), np.float16, (0, 2, 3), device=ONE_BLOCK),
    normalization("bundles of halves", (30, 24, 7, 7), np.float16, (0, 2, 3), device=ONE_BLOCK),
    normalization("bundles of grains of halves", (15, 24, 10, 10), np.float16, (0, 2, 3), device=ONE_BLOCK),
    normalization("bundles of columns", (1050, 32), np.float32, (0,), device=ONE_BLOCK),
    affine("batch norm in bundles", (13, 48, 49), "batch_norm", ONE_BLOCK),
]

SHARED_BUNDLES = [
    normalization("shared bundles", (31, 24, 7, 7), np.float32, (0, 2, 3), device=SMALL_BLOCKS),
    normalization("shared bundles in place", (60, 12, 7, 7), np.float32, (0, 2, 3), "contiguous", "same", SMALL_BLOCKS),
    normalization("shared bundles of three units", (70, 12, 7, 7), np.float32, (0, 2, 3), device=LARGER_BLOCKS),
    normalization("shared bundles of halves", (64, 16, 7, 7), np.float16, (0, 2, 3), device=SMALL_BLOCKS),
    normalization("shared bundles of grains", (100, 12, 5, 6), np.float32, (0, 2, 3), device=SMALL_BLOCKS),
    normalization("shared bundles of short runs", (801, 8, 3), np.float32, (0, 2), device=SMALL_BLOCKS),
    affine("batch norm in shared bundles", (80, 12, 49), "batch_norm", SMALL_BLOCKS),
    group_norm_of_channels_last("group norm in shared bundles", (2, 31, 33, 8, 5), SMALL_BLOCKS),
]

TILED_BUNDLES = [
    normalization("tiled bundles", (251, 8, 7, 7), np.float32, (0, 2, 3), device=SMALL_CLUSTERS),
    normalization(
        "tiled bundles in place", (251, 8, 7, 7), np.float16, (0, 2, 3), "contiguous", "same", SMALL_CLUSTERS
    ),
    normalization("tiled bundles of short runs", (6201, 4, 2, 2), np.float32, (0, 2, 3), device=SMALL_CLUSTERS),
    normalization("tiled bundles of grains", (820, 4, 5, 6), np.float32, (0, 2, 3), device=SMALL_CLUSTERS),
    group_norm_of_channels_last("group norm in tiled bundles", (2, 61, 63, 4, 10), SMALL_CLUSTERS),
    moments("moments of tiled bundles", (1101, 2, 4, 4), np.float32, (0, 2, 3), device=SMALL_CLUSTERS),
]

LONG_PANELS = [
    normalization("groups in long panels", (101, 101, 3), np.float32, (1,), device=ONE_BLOCK),
    normalization("groups in long panels in place", (51, 201, 3), np.float16, (1,), out="same", device=ONE_BLOCK),
    normalization(
        "groups in long panels behind an element",
        (13, 300, 5),
        np.float64,
        (1,),
        "offset by an element",
        "contiguous",
        ONE_BLOCK,
    ),
    scaled("groups in long panels scaled by steps", (31, 90, 7), (1,), (90, 1), device=ONE_BLOCK),
    normalization("groups in bands in place", (67, 96, 5), np.float16, (1,), out="same", device=ONE_BLOCK),
    scaled("groups in bands scaled by steps", (31, 96, 5), (1,), (96, 1), device=ONE_BLOCK),
]

# Few, of lengths for which bands are best nevertheless.
BANDS = [
    normalization("channels in bands", (7, 520, 2), np.float16, (1,), device=ONE_BLOCK),
    normalization("channels in bands in place", (2, 601, 3), np.float32, (1,), out="same", device=ONE_BLOCK),
    normalization("many channels in bands", (2, 540, 7), np.float16, (1,), device=ONE_BLOCK),
    normalization("channels in uneven bands", (3, 515, 5), np.float16, (1,), device=ONE_BLOCK),
    normalization("channels in uneven bands in place", (3, 517, 3), np.float16, (1,), out="same", device=ONE_BLOCK),
    scaled("channels in bands with their own scale", (2, 650, 3), (1,), (3,), device=ONE_BLOCK),
]

SHARED_BANDS = [
    normalization("channels in shared bands", (2, 600, 3), np.float32, (1,), device=SHARED_PANELS),
    normalization(
        "channels in shared bands in place", (2, 1000, 3), np.float16, (1,), out="same", device=SHARED_PANELS
    ),
    normalization("channels in units of shared bands", (2, 1001, 2), np.float32, (1,), device=SHARED_LARGER_PANELS),
]

STAGED_LINES = [
    normalization("staged lines", (131, 33), np.float16, (1,), device=ONE_BLOCK),
    normalization("staged lines in place", (79, 105), np.float32, (1,), out="same", device=ONE_BLOCK),
    normalization("staged lines of a span", (500, 33), np.float32, (1,), device=ONE_BLOCK),
    normalization("staged doubles", (197, 21), np.float64, (1,), device=ONE_BLOCK),
    normalization(
        "staged lines behind an element", (700, 50), np.float16, (1,), "offset by an element", "contiguous", ONE_BLOCK
    ),
    normalization(
        "staged halves become floats",
        (110, 41),
        np.float16,
        (1,),
        out="contiguous",
        device=ONE_BLOCK,
        out_dtype=np.float32,
    ),
    scaled("staged lines with their own scale", (340, 49), (1,), (49,), device=ONE_BLOCK),
    scaled("staged images scaled by channels", (83, 4, 5, 5), (2, 3), (4, 1, 1), device=ONE_BLOCK),
    scaled("staged images scaled by runs", (41, 2, 16, 7), (2, 3), (16, 1), ONE_BLOCK, dtype=np.float16),
    scaled("staged lines of a chunk", (700, 7), (1,), (7,), device=ONE_BLOCK, dtype=np.float16),
    scaled("staged images of a long span", (170, 2, 2, 49), (2, 3), (2, 1), ONE_BLOCK, dtype=np.float16),
    moments("moments of staged lines", (131, 33), np.float16, 1, device=ONE_BLOCK),
]

TILED_PANELS = [
    normalization("tiled panels", (1003, 3, 7), np.float32, (0, 2), device=ONE_BLOCK),
    normalization("tiled panels in place", (701, 5, 3), np.float16, (0, 2), out="same", device=ONE_BLOCK),
    normalization("tiled panels of many groups", (300, 37, 3), np.float32, (0, 2), device=ONE_BLOCK),
    normalization("tiled panels of long runs", (301, 3, 147), np.float16, (0, 2), device=ONE_BLOCK),
    normalization("tiled panels of doubles", (3001, 3, 3), np.float64, (0, 2), device=ONE_BLOCK),
    scaled("tiled panels scaled by steps", (401, 3, 5), (0, 2), (1, 5), device=ONE_BLOCK),
    moments("moments of tiled panels", (3301, 3, 7), np.float32, (0, 2), device=ONE_BLOCK),
]


def turned_batch_norm(name: str, shape: tuple[int, ...], device: DeviceProperties) -> Call:
    """Channels last in memory, channels first in the output; the statistics too."""
    x = floats(shape, np.float32)
    axes, over = (0, 2), (1, -1, 1)
    scale, bias = (floats(shape[1:2], np.float32, seed) for seed in (1, 2))

    def compute(make: AsArray) -> Any:
        source = laid_out(make, x, "rolled axes")
        out = laid_out(make, np.zeros_like(x), "contiguous")
        return batch_norm(source, make(scale), make(bias), out=out, return_statistics=True)

    def expected() -> Arrays:
        y = normalized(x, axes) * scale.reshape(over) + bias.reshape(over)
        return y, x.mean(axes, dtype=np.float64), x.var(axes, dtype=np.float64)

    return Call(name, compute, expected, 2e-5, device)


TURNED = [
    normalization("turned", (130, 70), np.float32, (1,), "transposed", "contiguous", TINY_GPU),
    normalization("turned into whole tiles", (128, 64), np.float32, (0,), "transposed", "contiguous", TINY_GPU),
    normalization("turned halves", (57, 140), np.float16, (1,), "transposed", "contiguous", TINY_GPU),
    normalization("turned in narrow tiles", (130, 20), np.float32, (0,), "transposed", "contiguous", TINY_GPU),
    normalization("turned in low tiles", (20, 130), np.float32, (0,), "transposed", "contiguous", TINY_GPU),
    normalization("turned doubles", (70, 40), np.float64, (0, 1), "contiguous", "transposed", TINY_GPU),
    normalization("turned from anywhere", (130, 70), np.float32, (0,), "offset by an element", "transposed", TINY_GPU),
    turned_batch_norm("turned batch norm", (3, 20, 140), TINY_GPU),
]

HELD = [
    normalization("held", (290, 1200), np.float32, (1,), "transposed", "contiguous", ONE_BLOCK, again=True),
    normalization("held in whole tiles", (64, 1024), np.float32, (1,), "transposed", "contiguous", ONE_BLOCK),
    normalization("held by a large cluster", (60, 7000), np.float32, (1,), "transposed", "contiguous", ONE_BLOCK),
    normalization("held halves", (124, 1500), np.float16, (1,), "transposed", "contiguous", ONE_BLOCK),
    normalization("held doubles", (70, 901), np.float64, (1,), "transposed", "contiguous"),
    normalization("held from anywhere", (790, 90), np.float32, (0,), "offset by an element", "transposed", ONE_BLOCK),
    normalization("held by one block each", (3, 200, 61), np.float32, (1,), "contiguous", "rolled axes", ONE_BLOCK),
    turned_batch_norm("held batch norm", (1, 61, 500), ONE_BLOCK),
]

# Whose groups have several columns each.
JOINED_COLUMNS = [
    normalization("joined columns", (2, 40, 64), np.float32, (1, 2), "rolled axes", "rolled axes", ONE_BLOCK),
    normalization("joined columns in place", (3, 24, 96), np.float16, (1, 2), "rolled axes", "same", ONE_BLOCK),
    normalization("joined columns of doubles", (7, 9, 64), np.float64, (1, 2), "rolled axes", "rolled axes", ONE_BLOCK),
    channels_last("joined channels", (2, 12, 8, 20), 4),
    channels_last("joined channels of halves", (3, 48, 4, 8), 2, np.float16),
    moments("moments of joined columns", (64, 4096), np.float32, None, device=ONE_BLOCK, pattern="transposed"),
    moments("moments of many parts", (2, 8200, 16), np.float32, (1, 2), 1, ONE_BLOCK, "rolled axes"),
]

# Whose elements are copied into the order that they are added up in.
COPIED = [
    normalization("elements copied in order", (4, 60, 61), np.float32, (1, 2), "rolled axes", "rolled axes", ONE_BLOCK),
    normalization(
        "elements copied into whole vectors", (2, 60, 60), np.float32, (1, 2), "rolled axes", "rolled axes", PARTS_GPU
    ),
    normalization("halves copied in whole tiles", (2, 64, 64), np.float16, (1, 2), "rolled axes", device=PARTS_GPU),
    normalization("copied and copied back", (2, 7, 2400), np.float32, (1, 2), "rolled axes", "rolled axes", ONE_BLOCK),
    normalization(
        "copied and copied back wider",
        (2, 9, 4000),
        np.float16,
        (1, 2),
        "rolled axes",
        "rolled axes",
        out_dtype=np.float32,
    ),
    normalization("halves copied in boxes", (2, 6, 2101), np.float16, (2,), "rolled axes", "contiguous", ONE_BLOCK),
    normalization("halves copied in tiles", (40, 30, 33), np.float16, (2,), "rolled axes", "contiguous", ONE_BLOCK),
]


CALLS: list[Call] = [
    *SMALL_GROUPS,
    *SMALL_COLUMNS,
    *LARGE_GROUPS,
    *JOINED_COLUMNS,
    *CLUSTERED_LINES,
    *STREAMS,
    *STRIPS,
    *CLUSTERS,
    *BUNDLES,
    *SHARED_BUNDLES,
    *TILED_BUNDLES,
    *LONG_PANELS,
    *BANDS,
    *SHARED_BANDS,
    *STAGED_LINES,
    *TILED_PANELS,
    *TURNED,
    *HELD,
    *COPIED,
]
