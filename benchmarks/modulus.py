"""The truncated modulus of two arrays, with small quotients: three streams of memory."""

from __future__ import annotations

from typing import Any

import numpy as np

import cudml
from benchmarks import peers as libraries
from benchmarks.case import Arrays, Call, Case, filled

_GI = 1 << 30  # bytes of each operand
_DTYPES = ("float32", "float16", "int8", "uint8", "int16", "int32", "int64")

CASES: tuple[Case, ...] = (
    *(Case("fmod", dtype, (_GI // np.dtype(dtype).itemsize,), None, streams=3) for dtype in _DTYPES),
    Case("fmod", "float32", (32, 64), None, streams=3),
)


def arrays(case: Case, xp: Any) -> Arrays:
    return {
        "x1": filled(xp, case.shape, case.dtype, 0, 100),
        "x2": filled(xp, case.shape, case.dtype, 3, 40),
        "out": xp.empty(case.shape, case.dtype),
    }


def ours(case: Case, arrays: Arrays) -> Call:
    x1, x2, out = arrays["x1"], arrays["x2"], arrays["out"]
    return lambda: cudml.fmod(x1, x2, out=out)


def peers(case: Case, arrays: Arrays) -> dict[str, Call]:
    return libraries.modulus(case, arrays)


def compiled_peers(case: Case, arrays: Arrays) -> dict[str, Call]:
    return {}
