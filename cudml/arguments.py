"""Checks of what callers pass: data types, axes, shapes. Everything here raises before anything is computed."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.exceptions import AxisError

from cudml.brief import shown

BOOL = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")

REAL_DTYPES = frozenset(BOOL + INTEGERS + FLOATS)
SCAN_DTYPES = REAL_DTYPES | frozenset(COMPLEX)
MODULUS_DTYPES = frozenset(INTEGERS + FLOATS)
FLOAT_DTYPES = frozenset(FLOATS)

_KIND_ORDER = "buifc"  # NumPy's same_kind rule: a cast may go to the right, or stay


def as_dtype(dtype: Any, supported: Iterable[str], argument: str) -> np.dtype:
    """`dtype` as a native NumPy dtype, which must be one of `supported`."""
    native = np.dtype(dtype)
    if not native.isnative:
        native = native.newbyteorder("=")
    if native.name not in supported:
        names = ", ".join(sorted(supported))
        raise TypeError(f"{argument} is of dtype {native.name}, which is not supported; convert it to one of {names}")
    return native


def kind_of(dtype: np.dtype) -> str:
    """NumPy's kind, with bfloat16 (which NumPy counts as void) among the floats."""
    return "f" if dtype.name == "bfloat16" else dtype.kind


def is_same_kind(source: np.dtype, target: np.dtype) -> bool:
    """Whether NumPy's rule "same_kind" lets `source` be cast to `target`; all floats may become one another."""
    return _KIND_ORDER.index(kind_of(source)) <= _KIND_ORDER.index(kind_of(target))


def as_integer(value: Any, argument: str) -> int:
    """`value` as a Python int; bool and anything that is not an integer raises TypeError."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{argument} is {shown(value)}; it must be an integer, not a bool")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{argument} is {shown(value)}; it must be an integer") from None


def as_real(value: Any, argument: str) -> float:
    """`value` as a Python float; anything but a real number, and NaN, raises."""
    if not isinstance(value, (Real, np.bool_)) or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{argument} is {shown(value)}; it must be a real number")
    number = float_of(value)
    if number != number:
        raise ValueError(f"{argument} is NaN; it must be a number")
    return number


def float_of(value: Any) -> float:
    """A real number as a float; what is too large for one is infinite, as it is when written with an exponent."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_axis(axis: Any, ndim: int, argument: str = "axis") -> int:
    """`axis` counted from the front; AxisError when the array has no such axis."""
    index = as_integer(axis, argument)
    if not -ndim <= index < ndim:
        raise AxisError(index, ndim, f"{argument}")
    return index % ndim


def as_axes(axes: Any, ndim: int, argument: str = "axes") -> tuple[int, ...]:
    """An int or a sequence of ints as a sorted tuple of axes counted from the front, none twice."""
    given = _items(axes, argument)
    found = tuple(as_axis(axis, ndim, argument) for axis in given)
    for place, axis in enumerate(found):
        if axis in found[:place]:
            raise ValueError(f"{argument} is {shown(given)}: axis {axis} is named twice; name every axis once")
    return tuple(sorted(found))


def as_shape(shape: Any, argument: str) -> tuple[int, ...]:
    """An int or a sequence of ints as a tuple."""
    return tuple(as_integer(size, argument) for size in _items(shape, argument))


def _items(value: Any, argument: str) -> tuple[Any, ...]:
    """Those of a sequence, or `value` itself, which may be an array with one number."""
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"{argument} is {shown(value)}; it must be an integer or a sequence of integers")
    is_sequence = isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return tuple(value) if is_sequence else (value,)


def exactly(value: Any) -> Any:
    """What is equal for equal integers, or lists of them, of the same types only: 1, True and 1.0 are equal too."""
    if type(value) is int:
        return value
    return ((*value,), *map(type, value)) if type(value) in (tuple, list) else (value, type(value))


def is_broadcastable(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of `shape` broadcasts to exactly `target`."""
    padded = (1,) * (len(target) - len(shape)) + shape
    return len(padded) == len(target) and all(n in (1, m) for n, m in zip(padded, target, strict=True))
