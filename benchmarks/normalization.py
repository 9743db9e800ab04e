"""Mean-variance normalization with scale and bias: layer, batch and instance norm, and axes without a name."""

from __future__ import annotations

from typing import Any

import cudml
from benchmarks import peers as libraries
from benchmarks.case import Arrays, Call, Case, filled

_IMAGES = (64, 256, 128, 128)

_FLOAT32 = (
    ((4194304, 64), 1),
    ((1048576, 256), 1),
    ((65536, 4096), 1),
    ((16384, 16384), 1),
    ((4096, 65536), 1),
    ((1024, 262144), 1),
    ((64, 4194304), 1),
    ((1, 268435456), 1),
    ((65536, 4096), 0),
    ((1048576, 256), 0),
    ((4096, 65536), 0),
    (_IMAGES, (0, 2, 3)),
    (_IMAGES, (2, 3)),
    (_IMAGES, (1, 2, 3)),
    (_IMAGES, 1),
    (_IMAGES, (0, 2)),
    ((64, 2048, 7, 7), (0, 2, 3)),
    ((4096, 1024, 8, 8), (2, 3)),
)
_FLOAT16 = (
    ((65536, 4096), 1),
    ((16384, 16384), 1),
    ((65536, 4096), 0),
    (_IMAGES, (0, 2, 3)),
    (_IMAGES, (2, 3)),
    (_IMAGES, (1, 2, 3)),
    (_IMAGES, 1),
    (_IMAGES, (0, 2)),
)
# torch.compile needs seconds for each, so only one shape of each kind is compared.
_COMPILED = {((65536, 4096), 1), ((65536, 4096), 0), (_IMAGES, (0, 2, 3)), (_IMAGES, (2, 3)), (_IMAGES, (1, 2, 3))}


def _case(dtype: str, shape: tuple[int, ...], axis: int | tuple[int, ...]) -> Case:
    options = {"scale": list(_scale_shape(shape, axis))}
    compiled = dtype == "float32" and (shape, axis) in _COMPILED
    return Case("mean_variance_normalization", dtype, shape, axis, options, compiled_peer=compiled)


def _scale_shape(shape: tuple[int, ...], axis: int | tuple[int, ...]) -> tuple[int, ...]:
    """A scale per feature (axis 1), as the usual norms have it; one for all where there is only one line, because
    reading the scale would cost as much as reading the input there."""
    if shape[0] == 1:
        return (1,) * len(shape)
    return (1, shape[1], *(1,) * (len(shape) - 2))


CASES: tuple[Case, ...] = (
    *(_case("float32", shape, axis) for shape, axis in _FLOAT32),
    *(_case("float16", shape, axis) for shape, axis in _FLOAT16),
    _case("float32", (32, 64), 1),
)


def arrays(case: Case, xp: Any) -> Arrays:
    scale_shape = _scale_shape(case.shape, case.axis)
    return {
        "x": filled(xp, case.shape, case.dtype, -1, 3),
        "scale": filled(xp, scale_shape, case.dtype, 0.5, 1.5),
        "bias": filled(xp, scale_shape, case.dtype, -1, 1),
        "out": xp.empty(case.shape, case.dtype),
    }


def ours(case: Case, arrays: Arrays) -> Call:
    x, scale, bias, out = (arrays[name] for name in ("x", "scale", "bias", "out"))
    return lambda: cudml.mean_variance_normalization(x, scale, bias, axes=case.axis, out=out)


def peers(case: Case, arrays: Arrays) -> dict[str, Call]:
    return libraries.normalization(case, arrays)


def compiled_peers(case: Case, arrays: Arrays) -> dict[str, Call]:
    return libraries.compiled_normalization(case, arrays) if case.compiled_peer else {}
