"""How NumPy's dtypes are called in the kernels, and what kind of number they hold."""

from __future__ import annotations

import numpy as np

#: bfloat16 is known by name only: the dtype comes from ml_dtypes, which need not be installed.
_C_NAMES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "complex<float>",
    "complex128": "complex<double>",
}

#: The bytes of the type in which values are computed and carried, where it is not the type itself.
_ACCUMULATOR_BYTES = {"float16": 4, "bfloat16": 4}


def c_name(dtype: np.dtype) -> str:
    """The type's name in kernels/elements.cuh."""
    return _C_NAMES[dtype.name]


def accumulator_bytes(dtype: np.dtype) -> int:
    """The size of a carry of values of this type: halves are carried in float32."""
    return _ACCUMULATOR_BYTES.get(dtype.name, dtype.itemsize)
