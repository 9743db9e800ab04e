"""Mean-variance normalization, and mean and variance alone: lines, images, columns, activations, options and views."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import cudml
from benchmarks import peers as libraries
from benchmarks.case import READING, Arrays, Call, Case, filled
from benchmarks.scan import Shape, View, name_of_order, view_of
from cudml.plan.activation import PARAMETERS

Axes = int | tuple[int, ...]
Key = tuple[Shape, Axes]


@dataclass(frozen=True)
class NormalizationCase(Case):
    """Its options name the arguments, scale and bias by their shape; `view` and `in_place` say what the arrays are."""

    @property
    def axes(self) -> tuple[int, ...]:
        return (self.axis,) if isinstance(self.axis, int) else self.axis

    @property
    def view(self) -> View | None:
        return view_of(self.options["view"]) if "view" in self.options else None

    @property
    def bytes(self) -> int:
        size = math.prod(self.shape)
        groups = math.prod(length for axis, length in enumerate(self.shape) if axis not in self.axes)
        touched = self.view.stored(self.shape) if self.view and not self.view.skips_sectors else self.shape
        written = 2 * groups if self.op == "mean_var" else size
        return (math.prod(touched) + written) * np.dtype(self.dtype).itemsize


_IMAGES = (64, 256, 128, 128)

# group, and the least percent of a copy's speed for shapes and axes; float32 with scale and bias.
_PLAIN: tuple[tuple[str, dict[Key, float]], ...] = (
    ("lines", {((4194304, 64), 1): 96, ((1048576, 256), 1): 96, ((65536, 4096), 1): 96, ((16384, 16384), 1): 96}),
    ("long lines", {((4096, 65536), 1): 94, ((1024, 262144), 1): 92, ((64, 4194304), 1): 80}),
    (
        "images",
        {
            (_IMAGES, (0, 2, 3)): 92,
            (_IMAGES, (2, 3)): 97,
            (_IMAGES, (1, 2, 3)): 80,
            (_IMAGES, 1): 93,
            (_IMAGES, (0, 2)): 90,
        },
    ),
    ("columns", {((4096, 65536), 0): 93, ((65536, 4096), 0): 80}),
    (
        "tiny images",
        {((4096, 1024, 8, 8), (2, 3)): 96, ((64, 2048, 7, 7), (0, 2, 3)): 75, ((64, 7, 7, 2048), (0, 1, 2)): 75},
    ),
    ("beyond the chip", {((1, 268435456), 1): 64, ((1048576, 256), 0): 64, ((33554432, 8), 0): 64}),
)

_LINES: Key = ((65536, 4096), 1)
_STREAM: Key = (_IMAGES, (0, 2, 3))
_COLUMNS: Key = ((4096, 65536), 0)

# Types and variations may stay this much behind float32 with scale and bias: points of percentage.
_BEHIND = 3
_GROUPS_OF_HALVES = ("lines", "images")

_VARIATIONS: tuple[dict[str, Any], ...] = ({"normalize_variance": False}, {"in_place": True})

_VIEWED: dict[str, tuple[Key, ...]] = {
    "transposed": (((65536, 4096), 1), ((65536, 4096), 0)),
    "transposed input": (((65536, 4096), 1), ((65536, 4096), 0)),
    "step 2": (((65536, 2048), 1), ((4096, 32768), 1), ((4096, 32768), 0)),
    "rows padded by 32": (_LINES, ((4096, 65536), 1), _COLUMNS, _STREAM),
    "rows padded by 1": (_LINES, ((4096, 65536), 1), _COLUMNS, _STREAM),
}

# Rows that are no power of two long, as models have them, or of any length.
_OTHER_LENGTHS: dict[str, tuple[Key, ...]] = {
    "float32": (((65536, 320), 1), ((32768, 7168), 1), ((32768, 11008), 1), ((32768, 8431), 1)),
    "bfloat16": (((65536, 1280), 1), ((65536, 2560), 1), ((65536, 5120), 1), ((65536, 1193), 1), ((32768, 8193), 1)),
}

# Batch norm as networks have it: channels last, and images of other sizes.
_CHANNELS_LAST: tuple[Key, ...] = (
    ((64, 112, 112, 64), (0, 1, 2)),
    ((64, 56, 56, 256), (0, 1, 2)),
    ((64, 28, 28, 512), (0, 1, 2)),
    ((64, 14, 14, 1024), (0, 1, 2)),
)
_OTHER_IMAGES: dict[str, tuple[Key, ...]] = {
    "float32": (*_CHANNELS_LAST, ((64, 96, 55, 55), (0, 2, 3))),
    "float16": (
        *_CHANNELS_LAST,
        ((64, 96, 55, 55), (0, 2, 3)),
        ((64, 192, 71, 71), (0, 2, 3)),
        ((256, 1024, 14, 14), (0, 2, 3)),
        ((512, 2048, 7, 7), (0, 2, 3)),
    ),
}

# Short and longer sequences of few channels, that are normalized along their steps, and images with channels last that
# are each.
_PANELS: dict[str, tuple[Key, ...]] = {
    "float32": (
        ((5592400, 16, 3), (1,)),
        ((2711400, 33, 3), (1,)),
        ((671088, 100, 4), (1,)),
        ((268432, 200, 5), (1,)),
        ((89472, 1000, 3), (1,)),
        ((10922, 4096, 6), (1,)),
        ((1783, 224, 224, 3), (1, 2)),
    ),
    "float16": (
        ((5422800, 33, 3), (1,)),
        ((536864, 200, 5), (1,)),
        ((178956, 500, 6), (1,)),
        ((3566, 224, 224, 3), (1, 2)),
    ),
}

# Short sequences of few channels, and a batch of tiny images, whose channels are normalized, and odd rows of halves.
_PANELS_OF_ALL: dict[str, tuple[Key, ...]] = {
    "float32": (((12782640, 3, 7), (0, 2)), ((8947848, 5, 2, 3), (0, 2, 3)), ((2033600, 33, 4), (0, 2))),
    "float16": (((25565280, 3, 7), (0, 2)), ((33554432, 8, 2), (0, 2)), ((16268816, 33), 0)),
}

# Short rows with scale and bias of every element, and small images whose channels are groups, which fill no row of
# lanes, or begin anywhere.
_SHORT_ODD: dict[str, tuple[Key, ...]] = {
    "float32": (((8134408, 33), 1), ((1973784, 136), 1), ((85592, 64, 7, 7), (2, 3))),
    "float16": (((16268816, 33), 1), ((6710880, 80), 1), ((1612224, 333), 1), ((42798, 64, 14, 14), (2, 3))),
}

# Group norm: images, groups, channels of each and pixels, with a scale and bias for each channel.
_CHANNEL_GROUPS: dict[str, tuple[Shape, ...]] = {
    "float32": ((3276, 32, 10, 64), (128, 32, 64, 256), (16, 32, 10, 64), (262144, 16, 8, 2)),
    "float16": (
        (262144, 16, 4, 4),
        (32768, 32, 16, 9),
        (8192, 32, 204, 5),
        (2675, 32, 64, 49),
        (3276, 32, 10, 64),
        (409, 32, 20, 256),
        (273, 32, 16, 480),
        (102, 32, 20, 1024),
        (256, 32, 8, 1024),
        (16, 32, 10, 64),
        (4, 32, 20, 256),
    ),
}

# The same where channels lie last in memory, and matrices that are transposed, of which only moments are asked for.
_CHANNELS_OF_GROUPS_LAST: dict[str, tuple[Shape, ...]] = {
    "float32": ((8, 32, 10, 4096), (64, 32, 8, 3136)),
    "float16": ((8, 32, 10, 4096), (4, 32, 8, 262144)),
}
_TRANSPOSED = ((4096, 4096), (16384, 16384))

# Columns of few elements.
_FEW_COLUMNS: tuple[Key, ...] = (((256, 128), 0), ((2048, 8), 0), ((1024, 54), 0), ((16384, 2), 0), ((8192, 64), 0))

# Columns of no power of two, of rows that begin amid lines of the cache.
_OTHER_COLUMNS: dict[str, tuple[Key, ...]] = {
    "float32": (((33554, 2000), 0), ((134216, 1000), 0)),
    "float16": (((33554, 2000), 0), ((268432, 1000), 0)),
}

# Long rows with scale and bias of every element, and images whose channels are groups, of odd sizes.
_LONG_ODD: dict[str, tuple[Key, ...]] = {
    "float32": (((64, 4194301), 1), ((8, 128, 509, 511), (2, 3))),
    "float16": (((64, 8388605), 1), ((16, 128, 509, 511), (2, 3))),
}

# Long lines and columns; as networks have it; short columns; and odd rows.
_MOMENTS_OF_HALVES: tuple[Key, ...] = (
    ((16384, 16384), 1),
    _STREAM,
    (_IMAGES, (0, 2)),
    ((65536, 8192), 0),
    ((64, 112, 112, 64), (0, 1, 2)),
    ((1000, 1073741), 0),
    ((3224480, 333), 0),
    ((16268816, 33), 1),
)

# From 2^12 elements to 2^22.
_SMALL: tuple[Key, ...] = (
    ((32, 64), 1),
    *(((1 << (power - 10), 1024), 1) for power in range(12, 23, 2)),
    ((8, 8, 8, 8), (0, 2, 3)),
    ((8, 32, 8, 8), (0, 2, 3)),
    ((16, 64, 8, 8), (0, 2, 3)),
    ((32, 128, 8, 8), (0, 2, 3)),
    ((64, 256, 8, 8), (0, 2, 3)),
    ((64, 256, 16, 16), (0, 2, 3)),
)

# torch.compile needs seconds for each, so it is compared where it reads its input once, and in one case of each kind.
_COMPILED: dict[str, tuple[Key, ...]] = {
    "float32": (
        ((4194304, 64), 1),
        ((1048576, 256), 1),
        _LINES,
        ((16384, 16384), 1),
        _STREAM,
        (_IMAGES, (2, 3)),
        (_IMAGES, 1),
        ((4096, 1024, 8, 8), (2, 3)),
        ((64, 1024), 1),
        ((16, 64, 8, 8), (0, 2, 3)),
        ((2048, 8), 0),
        ((1024, 54), 0),
    ),
    "float16": (((16384, 16384), 1), (_IMAGES, (2, 3)), ((2048, 8), 0), ((1024, 54), 0)),
}


def _case(dtype: str, key: Key, group: str, **required: Any) -> NormalizationCase:
    shape, axis = key
    options = {"scale": list(scale_shape(shape, axis))}
    compiled = key in _COMPILED.get(dtype, ())
    return NormalizationCase(
        "mean_variance_normalization", dtype, shape, axis, options, group=group, compiled_peer=compiled, **required
    )


def scale_shape(shape: Shape, axis: Axes) -> Shape:
    """A scale per feature, as the usual norms have it: along axis 1, or the last one if all others are reduced, or all
    but the first. One for all where there is only one line, because reading the scale would cost as much as reading the
    input there."""
    last = len(shape) - 1
    feature = last if last > 0 and axis in (tuple(range(last)), tuple(range(1, last))) else 1
    return tuple(length if place == feature and shape[0] > 1 else 1 for place, length in enumerate(shape))


def channel_shape(shape: Shape) -> Shape:
    """A scale per channel of images, groups, channels and pixels."""
    return (1, *shape[1:3], 1)


def _cases() -> Iterator[NormalizationCase]:
    plain = {
        key: _case("float32", key, group, required=percent)
        for group, figures in _PLAIN
        for key, percent in figures.items()
    }
    yield from plain.values()
    for dtype in ("float16", "bfloat16"):
        for key, case in plain.items():
            if case.group in _GROUPS_OF_HALVES:
                yield _case(dtype, key, "16-bit floats", baseline=case, behind=_BEHIND)
    yield from (_moments(case) for case in plain.values())
    for activation in PARAMETERS:
        yield from (_variation(plain[key], "activations", {"activation": activation}) for key in (_LINES, _STREAM))
    for case in (plain[key] for key in (_LINES, _STREAM, _COLUMNS)):
        yield from (_variation(case, "variations", options) for options in _VARIATIONS)
        yield replace(_variation(case, "variations", {}), options={})
    for view, keys in _VIEWED.items():
        for key in keys:
            viewed = _case("float32", key, "views", required=85)
            yield replace(viewed, options={**viewed.options, "view": view}, compiled_peer=False)
    for dtype, keys in _OTHER_LENGTHS.items():
        yield from (_case(dtype, key, "other lengths") for key in keys)
    for dtype, keys in _OTHER_IMAGES.items():
        yield from (_case(dtype, key, "other images") for key in keys)
    for dtype, keys in _PANELS.items():
        yield from (_case(dtype, key, "panels") for key in keys)
    for dtype, keys in _PANELS_OF_ALL.items():
        yield from (_case(dtype, key, "channels in panels") for key in keys)
    for dtype, keys in _SHORT_ODD.items():
        yield from (_case(dtype, key, "short groups of odd lengths") for key in keys)
    for dtype, keys in _OTHER_COLUMNS.items():
        yield from (_case(dtype, key, "other columns") for key in keys)
    for dtype, shapes in _CHANNEL_GROUPS.items():
        yield from (_group_norm(dtype, shape) for shape in shapes)
    for dtype, shapes in _CHANNELS_OF_GROUPS_LAST.items():
        yield from (_viewed(_group_norm(dtype, shape), name_of_order((0, 3, 1, 2), of_output=True)) for shape in shapes)
        yield from (_viewed(_moments(_case(dtype, (shape, (0, 1)), "")), "transposed") for shape in _TRANSPOSED)
    for dtype in ("float32", "float16"):
        yield from (_case(dtype, key, "few columns") for key in _FEW_COLUMNS)
    for dtype, keys in _LONG_ODD.items():
        yield from (_case(dtype, key, "long groups of odd lengths") for key in keys)
    for key in _MOMENTS_OF_HALVES:
        yield replace(_moments(_case("float16", key, "")), group="mean and variance of halves", required=None)
    for key in _SMALL:
        yield _case("float32", key, "small")


def _group_norm(dtype: str, shape: Shape) -> NormalizationCase:
    case = _case(dtype, (shape, (2, 3)), "groups of channels")
    return replace(case, options={"scale": list(channel_shape(shape))})


def _viewed(case: NormalizationCase, view: str) -> NormalizationCase:
    return replace(case, group="joined columns", options={**case.options, "view": view}, required=None)


def _moments(case: NormalizationCase) -> NormalizationCase:
    """Mean and variance of the same groups, beside a sum that reads as much."""
    options: dict[str, Any] = {"op": "mean_var", "options": {}, "required": 95, "roof": READING}
    return replace(case, group="mean and variance", compiled_peer=False, **options)


def _variation(case: NormalizationCase, group: str, options: dict[str, Any]) -> NormalizationCase:
    kept_up: dict[str, Any] = {"required": None, "baseline": case, "behind": _BEHIND, "compiled_peer": False}
    return replace(case, group=group, options={**case.options, **options}, **kept_up)


CASES: tuple[NormalizationCase, ...] = tuple(_cases())


def arrays(case: NormalizationCase, xp: Any) -> Arrays:
    view = case.view
    x = _laid_out(view, case.shape, lambda shape: filled(xp, shape, case.dtype, -1, 3))
    found = {"x": x}
    if case.op != "mean_var":
        view_of_output = view if view and view.of_output else None
        in_place = "in_place" in case.options
        found["out"] = (
            x if in_place else _laid_out(view_of_output, case.shape, lambda shape: xp.empty(shape, case.dtype))
        )
    if "scale" in case.options:
        scale = zip(case.options["scale"], case.shape, strict=True)
        shape = tuple(length if of_scale > 1 else 1 for of_scale, length in scale)
        found["scale"] = filled(xp, shape, case.dtype, 0.5, 1.5)
        found["bias"] = filled(xp, shape, case.dtype, -1, 1)
    return found


def _laid_out(view: View | None, shape: Shape, make: Callable[[Shape], Any]) -> Any:
    return view.take(make(view.stored(shape))) if view else make(shape)


def ours(case: NormalizationCase, arrays: Arrays) -> Call:
    x = arrays["x"]
    if case.op == "mean_var":
        return lambda: cudml.mean_var(x, case.axis)
    options = {name: value for name, value in case.options.items() if name in ("activation", "normalize_variance")}
    scale, bias, out = arrays.get("scale"), arrays.get("bias"), arrays["out"]
    return lambda: cudml.mean_variance_normalization(x, scale, bias, axes=case.axis, out=out, **options)


def peers(case: NormalizationCase, arrays: Arrays) -> dict[str, Call]:
    if case.options.keys() & {"activation", "normalize_variance", "in_place"}:
        return {}  # the others would need several calls for these
    if case.op == "mean_var":
        return libraries.moments(case, arrays)
    return libraries.normalization(case, arrays)


def compiled_peers(case: NormalizationCase, arrays: Arrays) -> dict[str, Call]:
    return libraries.compiled_normalization(case, arrays) if case.compiled_peer else {}
