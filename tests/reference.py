"""References and tolerances.

References are computed from the very inputs that the operator gets: integers by NumPy in the result's type, which wraps
as the operators do; floats in long double.

Tolerances follow from u, the unit roundoff of the type that accumulates (float32 for halves), and from how many rounded
operations stand behind an output:

* A sum of n terms by any tree of bounded leaves is off by at most ADDITIONS(n) * u * sum(|terms|), ADDITIONS growing as
  log n: 32 for a leaf added up one after the other and 8 for each doubling, which covers leaves of leaves.
* A product of n factors is off by at most n * u of itself, however it is bracketed; 4 * n * u for complex factors.
* Writing the result rounds it once more, by the unit roundoff of the output's type.

Integers, moduli and repeated runs are compared exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    import ml_dtypes

    BFLOAT16: list[Any] = [np.dtype(ml_dtypes.bfloat16)]
except ImportError:
    BFLOAT16 = []

INTEGERS = [np.dtype(f"{kind}int{width}") for kind in ("", "u") for width in (8, 16, 32, 64)]
HALVES = [np.dtype(np.float16), *BFLOAT16]
FLOATS = [*HALVES, np.dtype(np.float32), np.dtype(np.float64)]
COMPLEX = [np.dtype(np.complex64), np.dtype(np.complex128)]
BOOL = np.dtype(bool)
SCAN_DTYPES = [BOOL, *INTEGERS, *FLOATS, *COMPLEX]

UNIT_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
UNIT_ROUNDOFF |= {"complex64": 2.0**-24, "complex128": 2.0**-53}
SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}
SMALLEST |= {"complex64": 2.0**-149, "complex128": 2.0**-1074}

SIZES = [1, 2, 3, 31, 32, 33, 127, 128, 129, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 8191, 8192, 8193]
SIZES += [65535, 65536, 65537, 131071, 131072, 131073, 1000003]


def accumulator_roundoff(dtype: np.dtype) -> float:
    """Unit roundoff of the type in which values of `dtype` are computed."""
    return min(UNIT_ROUNDOFF[dtype.name], UNIT_ROUNDOFF["float32"])


def additions(n: int) -> float:
    """How many roundings may stand behind a sum of n terms."""
    return 32.0 + 8.0 * np.log2(max(n, 1))


def is_float(dtype: Any) -> bool:
    return np.dtype(dtype).name in UNIT_ROUNDOFF


def random(rng: np.random.Generator, shape: Any, dtype: Any) -> np.ndarray:
    """Random values over the whole range of an integer type, normally distributed floats."""
    dtype = np.dtype(dtype)
    if dtype == BOOL:
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    values = rng.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return np.asarray(values).astype(dtype)


def factors(rng: np.random.Generator, shape: Any, dtype: Any) -> np.ndarray:
    """Random factors whose running products neither vanish nor overflow: near 1 in size, odd, or mostly True."""
    dtype = np.dtype(dtype)
    if dtype == BOOL:
        return rng.random(shape) < 0.9
    if dtype.kind in "iu":
        return random(rng, shape, dtype) | dtype.type(1)
    longest = max(np.atleast_1d(shape), default=1)
    values = np.exp(rng.standard_normal(shape) * (1.5 / np.sqrt(max(longest, 1))))
    values *= rng.choice([-1.0, 1.0], shape)
    if dtype.kind == "c":
        values = values * np.exp(1j * rng.uniform(0, 2 * np.pi, shape))
    return np.asarray(values).astype(dtype)


def values_for(operation: str, rng: np.random.Generator, shape: Any, dtype: Any) -> np.ndarray:
    return (random if operation == "sum" else factors)(rng, shape, dtype)


def default_dtype(dtype: Any) -> np.dtype:
    """The type in which NumPy sums values of `dtype`."""
    dtype = np.dtype(dtype)
    if dtype == BOOL or dtype.kind == "i":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def scan_reference(
    operation: str,
    values: np.ndarray,
    dtype: Any,
    axis: int | None = -1,
    reverse: bool = False,
    exclusive: bool = False,
    initial: bool = False,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Running sums or products of `values` in `dtype`, and for floats the error that is allowed for each."""
    dtype = np.dtype(dtype)
    values = np.asarray(values).astype(dtype)
    if axis is None or values.ndim == 0:
        values, axis = values.reshape(-1), 0
    line = np.moveaxis(values, axis, -1)
    if reverse:
        line = line[..., ::-1]
    result, bound = _inclusive(operation, line, dtype)
    if exclusive or initial:
        keep = slice(None) if initial else slice(result.shape[-1] - 1) if result.shape[-1] else slice(0)
        result = _with_first(result[..., keep], operation == "product", result.shape[-1] or initial)
        bound = None if bound is None else _with_first(bound[..., keep], 0, bound.shape[-1] or initial)
    if reverse:
        result, bound = result[..., ::-1], None if bound is None else bound[..., ::-1]
    return np.moveaxis(result, -1, axis), None if bound is None else np.moveaxis(bound, -1, axis)


def _inclusive(operation: str, line: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray | None]:
    combine = np.add if operation == "sum" else np.multiply
    if dtype == BOOL:
        combine = np.logical_or if operation == "sum" else np.logical_and
    if not is_float(dtype):
        return combine.accumulate(line, axis=-1, dtype=dtype), None
    exact = line.astype(np.clongdouble if dtype.kind == "c" else np.longdouble)
    result = combine.accumulate(exact, axis=-1)
    unit, written = accumulator_roundoff(dtype), UNIT_ROUNDOFF[dtype.name]
    if operation == "sum":
        behind = additions(line.shape[-1]) * np.cumsum(np.abs(exact), axis=-1)
    else:
        count = np.arange(1, line.shape[-1] + 1, dtype=np.longdouble)
        behind = (4 if dtype.kind == "c" else 1) * count * np.abs(result)
    return result, behind * unit * 1.01 + written * np.abs(result) * 1.01 + SMALLEST[dtype.name]


def _with_first(values: np.ndarray, first: Any, present: Any) -> np.ndarray:
    start = np.full((*values.shape[:-1], 1 if present else 0), first, values.dtype)
    return np.concatenate([start, values], axis=-1)


def assert_scan(got: np.ndarray, operation: str, values: np.ndarray, dtype: Any, **options: Any) -> None:
    """`got` holds the running sums or products of `values` in `dtype`."""
    assert_close(got, *scan_reference(operation, values, dtype, **options))


def assert_close(got: np.ndarray, expected: np.ndarray, bound: Any = None) -> None:
    """Equal shapes, NaN and infinities in the same places, everything else within `bound`; exact without one."""
    assert got.shape == expected.shape, f"shape {got.shape}, expected {expected.shape}"
    if bound is None:
        np.testing.assert_array_equal(got, expected)
        return
    wide = np.clongdouble if got.dtype.kind == "c" else np.longdouble
    got, expected = got.astype(wide), expected.astype(wide)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite])
    with np.errstate(invalid="ignore"):
        error = np.abs(got - expected)
        excess = finite & ~(error <= bound)
    if excess.any():
        at = tuple(int(i) for i in np.argwhere(excess)[0])
        allowed = np.broadcast_to(bound, expected.shape)[at]
        raise AssertionError(
            f"{int(excess.sum())} of {excess.size} differ too much, first at {at}: {got[at]} for {expected[at]}, "
            f"off by {error[at]:.3g}, allowed {allowed:.3g}"
        )


def bits(array: np.ndarray) -> bytes:
    """The bytes of an array's elements in C order: equal only when every bit is."""
    return np.ascontiguousarray(array).tobytes()


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    """The same dtype, shape and bits, NaN payloads included."""
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if bits(got) != bits(expected):
        differ = np.flatnonzero(
            np.frombuffer(bits(got), np.uint8).reshape(got.size, -1)
            != np.frombuffer(bits(expected), np.uint8).reshape(got.size, -1)
        )
        raise AssertionError(f"bits differ, first in element {int(differ[0]) // got.dtype.itemsize} of {got.size}")
