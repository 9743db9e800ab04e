"""Conversion between dtypes, as a C cast does it."""

from __future__ import annotations

import numpy as np

_WIDE = {
    "float16": np.dtype(np.float64),
    "bfloat16": np.dtype(np.float64),
    "float32": np.dtype(np.float64),
    "complex64": np.dtype(np.complex128),
}


def wide(dtype: np.dtype) -> np.dtype:
    """The type in which values of `dtype` are accumulated; integers and the widest floats in their own."""
    return _WIDE.get(dtype.name, dtype)


def convert(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`values` in `dtype`, without a copy where they are it; complex numbers that become real keep their real part."""
    if values.dtype.kind == "c" and dtype.kind not in "cb":
        values = values.real
    return values.astype(dtype, copy=False)
