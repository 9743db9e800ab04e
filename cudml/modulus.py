"""The truncated modulus: the public function."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from cudml.arguments import MODULUS_DTYPES, as_dtype, is_broadcastable, is_same_kind, kind_of
from cudml.backend import Backend, backend_of, remember, repeated
from cudml.memory import Layout, check_is_array, check_output, check_same_device, order_of_axes
from cudml.plan.spec import Modulus

#: Integers of more are told by their length in an error.
_MOST_BITS_SHOWN = 64


def fmod(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None) -> Any:
    """The remainder of `x1` divided by `x2` with the quotient truncated: it has the sign of `x1`, as in C.

    >>> cudml.fmod([-7, 7, 8], [3, -3, 5])
    array([-1,  1,  3])
    >>> cudml.fmod([-4.25, 7.5], 2)
    array([-0.25,  1.5 ])

    Exact for every pair of numbers. A zero divisor gives 0 for integers and NaN for floats; an infinite divisor gives
    `x1`. Operands broadcast. They are converted to `dtype`, by default the type that numpy.fmod would choose, except
    that a Python float does not widen bfloat16. The axes of the result lie in memory as those of the operands do, as
    in NumPy. `out` takes the result, converted to its own type; it may be an operand or overlap one.

    Raises TypeError for complex and other unsupported dtypes and for conversions that NumPy's rule "same_kind" forbids;
    OverflowError for a Python integer that a `dtype` of integers, or float64, cannot hold; ValueError when the shapes
    do not broadcast, or not to that of `out`.

    Follows DirectML's DML_ELEMENT_WISE_MODULUS_TRUNCATE_OPERATOR_DESC and numpy.fmod.
    """
    call = ("fmod", dtype)
    result = repeated(call, (x1, x2, out))
    if result is not None:
        return result
    check_is_array(out)
    backend = backend_of(x1=x1, x2=x2, out=out)
    operands = [value if _is_scalar(value) else backend.asarray(value) for value in (x1, x2)]
    asked = None if dtype is None else np.dtype(dtype)
    value_dtype = _loop_dtype(*(_promotion_key(value) for value in operands), asked)
    dividend, divisor = (
        _as_scalar(value, value_dtype, name) if _is_scalar(value) else value
        for name, value in zip(("x1", "x2"), operands, strict=True)
    )
    shape = _broadcast_shape(tuple(dividend.shape), tuple(divisor.shape))
    if out is None:
        like = divisor if isinstance(dividend, np.generic) else dividend
        target = backend.empty(shape, value_dtype, like, _order(shape, dividend, divisor))
    else:
        target = backend.asarray(out)
        layout = _check_output(target, shape, value_dtype)
        check_same_device(target, x1=dividend, x2=divisor)
        dividend, divisor = (_kept_apart(backend, layout, operand) for operand in (dividend, divisor))
    spec, arrays = Modulus(value_dtype), {"dividend": dividend, "divisor": divisor, "output": target}
    backend.run(spec, arrays)
    given = {"dividend": x1, "divisor": x2, "output": out}
    remember(call, given, target, spec, arrays, in_place=("dividend", "divisor"))
    return target if out is None else out


def _is_scalar(value: Any) -> bool:
    """Whether the operand is a single number on the host, which no device needs a copy of."""
    return isinstance(value, (int, float, np.generic))


def _promotion_key(value: Any) -> Any:
    """What promotion looks at: a dtype, or int or float for Python's numbers, which leave the type to the other."""
    if isinstance(value, bool):
        return np.dtype(bool)
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return float if isinstance(value, float) else int
    return value.dtype


@lru_cache(maxsize=1024)
def _loop_dtype(first: Any, second: Any, dtype: np.dtype | None) -> np.dtype:
    """The type in which the modulus of operands of these dtypes is computed."""
    for argument, operand in (("x1", first), ("x2", second)):
        if isinstance(operand, np.dtype):
            as_dtype(operand, MODULUS_DTYPES | {"bool"}, argument)
    if dtype is None:
        return as_dtype(_promoted(first, second), MODULUS_DTYPES, "the result of numpy's promotion")
    chosen = as_dtype(dtype, MODULUS_DTYPES, "dtype")
    for argument, operand in (("x1", first), ("x2", second)):
        if not is_same_kind(np.dtype(operand), chosen) and not (operand is int and chosen.kind == "u"):
            raise TypeError(
                f"{argument} of dtype {np.dtype(operand)} cannot become {chosen}; convert it, or pass another dtype"
            )
    return chosen


def _promoted(first: Any, second: Any) -> np.dtype:
    for operand, other in ((first, second), (second, first)):
        if operand is float and isinstance(other, np.dtype) and other.name == "bfloat16":
            return other
    return np.fmod.resolve_dtypes((first, second, None))[-1]


def _as_scalar(number: Any, dtype: np.dtype, argument: str) -> np.generic:
    """A number in the type of the computation; a Python integer outside it raises OverflowError."""
    with np.errstate(all="ignore"):
        if isinstance(number, np.generic):
            return number.astype(dtype)
        try:
            return dtype.type(float(number) if kind_of(dtype) == "f" else number)
        except OverflowError:
            bits = number.bit_length()
            what = str(number) if bits <= _MOST_BITS_SHOWN else f"an integer of {bits} bits"
            raise OverflowError(
                f"{argument} is {what}, which {dtype} cannot hold; pass a dtype that can, or a float"
            ) from None


def _check_output(target: Any, shape: tuple[int, ...], value_dtype: np.dtype) -> Layout:
    """The layout of an output that can take results of this shape and dtype; it may be larger, as in NumPy."""
    out_dtype = as_dtype(target.dtype, MODULUS_DTYPES, "out")
    if not is_same_kind(value_dtype, out_dtype):
        raise TypeError(
            f"out is of dtype {out_dtype}, which cannot take results of {value_dtype}; "
            f"pass an out or a dtype of the same kind"
        )
    if not is_broadcastable(shape, tuple(target.shape)):
        raise ValueError(
            f"out has shape {tuple(target.shape)}, but x1 and x2 broadcast to {shape}; pass an out of that shape"
        )
    return check_output(target, tuple(target.shape))


def _broadcast_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """np.broadcast_shapes ends at 32 dimensions, arrays do at 64."""
    dimensions = max(len(first), len(second))
    shapes = [((1,) * (dimensions - len(shape)) + shape) for shape in (first, second)]
    if any(a != b and 1 not in (a, b) for a, b in zip(*shapes, strict=True)):
        raise ValueError(f"x1 has shape {first} and x2 {second}, which do not broadcast together")
    return tuple(b if a == 1 else a for a, b in zip(*shapes, strict=True))


def _order(shape: tuple[int, ...], *operands: Any) -> tuple[int, ...] | None:
    """The axes of the result from the outermost to the innermost in memory; None for C order."""
    return order_of_axes(shape, *[_broadcast_strides(operand, len(shape)) for operand in operands if operand.ndim])


def _broadcast_strides(operand: Any, ndim: int) -> tuple[int, ...]:
    own = [0 if n == 1 else stride for n, stride in zip(operand.shape, operand.strides, strict=True)]
    return (*(0,) * (ndim - operand.ndim), *own)


def _kept_apart(backend: Backend, output: Layout, operand: Any) -> Any:
    """The operand, or a copy of it when it shares memory with the output other than as the same view."""
    if isinstance(operand, np.generic):
        return operand
    layout = Layout.of(operand)
    return backend.copy(operand) if layout.overlaps(output) and not layout.is_same_view(output) else operand
