"""Running sums and products: the public functions."""

from __future__ import annotations

import warnings
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.exceptions import ComplexWarning

from cudml.arguments import SCAN_DTYPES, as_axis, as_dtype, exactly
from cudml.backend import Backend, backend_of, remember, repeated
from cudml.memory import (
    check_is_array,
    check_no_overlap,
    check_no_partial_overlap,
    check_output,
    check_same_device,
    order_of_axes,
)
from cudml.offsets import are_checked, as_offsets, is_on_host
from cudml.plan.spec import Operation, Scan, SegmentedScan


def cumsum(
    a: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    reverse: bool = False,
    exclusive: bool = False,
) -> Any:
    """Running sums of `a` along `axis`, or of all its elements in C order when `axis` is None.

    >>> cudml.cumsum([2, 1, 3, 5])
    array([ 2,  3,  6, 11])
    >>> cudml.cumsum([2, 1, 3, 5], exclusive=True)
    array([0, 2, 3, 6])
    >>> cudml.cumsum([2, 1, 3, 5], reverse=True)
    array([11,  9,  8,  5])

    The elements are converted to `dtype` first; it defaults to the type of `a`, except that bool and integers narrower
    than 64 bits become int64 or uint64. Integers wrap; float16 and bfloat16 accumulate in float32 and are rounded once
    per output. The result has the shape of `a`, or one dimension when `axis` is None. It is dense, and its axes lie in
    memory in the order of those of `a`. `out` takes the result, converted to its own type; it may be `a` itself.

    Raises AxisError when `a` has no such axis; TypeError for unsupported dtypes and for host arrays mixed with device
    arrays; ValueError when `out` has another shape, is read-only or overlaps `a` in part.

    Follows DirectML's DML_CUMULATIVE_SUMMATION_OPERATOR_DESC and numpy.cumsum.
    """
    return _cumulate("sum", "a", a, axis, dtype, out, reverse, exclusive)


def cumprod(
    a: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    reverse: bool = False,
    exclusive: bool = False,
) -> Any:
    """Running products of `a` along `axis`, or of all its elements in C order when `axis` is None.

    >>> cudml.cumprod([2, 1, 3, 5])
    array([ 2,  2,  6, 30])
    >>> cudml.cumprod([2, 1, 3, 5], exclusive=True)
    array([1, 2, 2, 6])

    Shapes, dtypes, `out` and errors are those of `cumsum`.

    Follows DirectML's DML_CUMULATIVE_PRODUCT_OPERATOR_DESC and numpy.cumprod.
    """
    return _cumulate("product", "a", a, axis, dtype, out, reverse, exclusive)


def cumulative_sum(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
    reverse: bool = False,
    exclusive: bool = False,
) -> Any:
    """Running sums as the array API standard defines them: `axis` is required for more than one dimension.

    >>> cudml.cumulative_sum([2, 1, 3, 5], include_initial=True)
    array([ 0,  2,  3,  6, 11])

    With `include_initial` the result is longer by one along the axis and starts (with `reverse`, ends) with 0.
    Dtypes, `out` and other errors are those of `cumsum`; ValueError when `axis` is missing, or when both
    `include_initial` and `exclusive` are asked for.

    Follows DirectML's DML_CUMULATIVE_SUMMATION_OPERATOR_DESC and numpy.cumulative_sum.
    """
    _check_initial(include_initial, exclusive)
    return _cumulate("sum", "x", x, axis, dtype, out, reverse, exclusive, bool(include_initial))


def cumulative_prod(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
    reverse: bool = False,
    exclusive: bool = False,
) -> Any:
    """Running products as the array API standard defines them: `axis` is required for more than one dimension.

    >>> cudml.cumulative_prod([2, 1, 3, 5], include_initial=True)
    array([ 1,  2,  2,  6, 30])

    Everything else as in `cumulative_sum`; the initial value is 1.

    Follows DirectML's DML_CUMULATIVE_PRODUCT_OPERATOR_DESC and numpy.cumulative_prod.
    """
    _check_initial(include_initial, exclusive)
    return _cumulate("product", "x", x, axis, dtype, out, reverse, exclusive, bool(include_initial))


def segmented_cumsum(
    a: Any, offsets: Any, *, dtype: Any = None, out: Any = None, reverse: bool = False, exclusive: bool = False
) -> Any:
    """Running sums of a 1-D array that start afresh in every segment.

    >>> cudml.segmented_cumsum([1, 2, 3, 4, 5], offsets=[0, 2, 2, 5])
    array([ 1,  3,  3,  7, 12])

    Segment i is `a[offsets[i]:offsets[i + 1]]`, as in a CSR matrix: `offsets` are integers, one more than there are
    segments, from 0 to `len(a)`, never decreasing; empty segments are fine. Offsets on the device are read back and
    checked when that array is seen for the first time, which waits for the stream; a host list or array never waits.

    Dtypes, `out` and other errors are those of `cumsum`; ValueError names the first offset that breaks the rule.

    Extends DirectML's DML_CUMULATIVE_SUMMATION_OPERATOR_DESC.
    """
    return _cumulate_segments("sum", a, offsets, dtype, out, reverse, exclusive)


def segmented_cumprod(
    a: Any, offsets: Any, *, dtype: Any = None, out: Any = None, reverse: bool = False, exclusive: bool = False
) -> Any:
    """Running products of a 1-D array that start afresh in every segment.

    >>> cudml.segmented_cumprod([1, 2, 3, 4, 5], offsets=[0, 2, 2, 5])
    array([ 1,  2,  3, 12, 60])

    Everything else as in `segmented_cumsum`.

    Extends DirectML's DML_CUMULATIVE_PRODUCT_OPERATOR_DESC.
    """
    return _cumulate_segments("product", a, offsets, dtype, out, reverse, exclusive)


def _cumulate(
    operation: Operation,
    argument: str,
    a: Any,
    axis: int | None,
    dtype: Any,
    out: Any,
    reverse: bool,
    exclusive: bool,
    initial: bool = False,
) -> Any:
    call = (operation, argument, exactly(axis), dtype, reverse, exclusive, initial)
    result = repeated(call, (a, out))
    if result is not None:
        return result
    check_is_array(out)
    backend = backend_of(**{argument: a, "out": out})
    source = backend.asarray(a)
    if source.ndim == 0:
        source = source[None]
    if axis is not None:
        axis = as_axis(axis, source.ndim)
    elif source.ndim == 1:
        axis = 0
    elif argument == "x":  # of the functions that the array API standard defines
        raise ValueError(f"axis is None and x has {source.ndim} dimensions; name the axis, or flatten x first")
    value_dtype = _value_dtype(source.dtype, None if dtype is None else np.dtype(dtype), argument)
    shape = _result_shape(source.shape, axis, initial)
    order = None if axis is None or out is not None else order_of_axes(source.shape, source.strides)
    target = _make_output(backend, out, shape, value_dtype, source, argument, order=order, in_place=not initial)
    warned = _warn_of_lost_imaginary_part(source.dtype, value_dtype, target.dtype)
    spec = Scan(operation, value_dtype, axis, bool(reverse), bool(exclusive), bool(initial))
    arrays = {"input": source, "output": target}
    backend.run(spec, arrays)
    if not warned:
        remember(call, {"input": a, "output": out}, target, spec, arrays, () if initial else ("input",))
    return target if out is None else out


def _cumulate_segments(
    operation: Operation, a: Any, offsets: Any, dtype: Any, out: Any, reverse: bool, exclusive: bool
) -> Any:
    call = (operation, "segments", dtype, reverse, exclusive)
    result = repeated(call, (a, offsets, out)) if are_checked(offsets, a) else None
    if result is not None:
        return result
    check_is_array(out)
    backend = backend_of(a=a, out=out) if is_on_host(offsets) else backend_of(a=a, offsets=offsets, out=out)
    source = backend.asarray(a)
    if source.ndim != 1:
        raise ValueError(f"a has {source.ndim} dimensions; it must have 1: flatten it first")
    value_dtype = _value_dtype(source.dtype, None if dtype is None else np.dtype(dtype), "a")
    starts = as_offsets(backend, offsets, source)
    target = _make_output(backend, out, tuple(source.shape), value_dtype, source, "a", in_place=True, offsets=starts)
    warned = _warn_of_lost_imaginary_part(source.dtype, value_dtype, target.dtype)
    spec = SegmentedScan(operation, value_dtype, bool(reverse), bool(exclusive))
    arrays = {"input": source, "offsets": starts, "output": target}
    backend.run(spec, arrays)
    if not warned:
        remember(call, {"input": a, "offsets": offsets, "output": out}, target, spec, arrays, ("input",))
    return target if out is None else out


def _check_initial(include_initial: bool, exclusive: bool) -> None:
    if include_initial and exclusive:
        raise ValueError("include_initial and exclusive are both set; choose one: either way the identity comes first")


@lru_cache(maxsize=256)
def _value_dtype(source: np.dtype, dtype: np.dtype | None, argument: str) -> np.dtype:
    """The type in which values are accumulated and rounded: `dtype`, or NumPy's default for sums."""
    native = as_dtype(source, SCAN_DTYPES, argument)
    if dtype is not None:
        return as_dtype(dtype, SCAN_DTYPES, "dtype")
    if native.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if native.kind == "u" else native


def _result_shape(shape: tuple[int, ...], axis: int | None, initial: bool) -> tuple[int, ...]:
    if axis is None:
        return (prod(shape) + initial,)
    return (*shape[:axis], shape[axis] + initial, *shape[axis + 1 :])


def _make_output(
    backend: Backend,
    out: Any,
    shape: tuple[int, ...],
    dtype: np.dtype,
    source: Any,
    argument: str,
    *,
    in_place: bool,
    order: tuple[int, ...] | None = None,
    offsets: Any = None,
) -> Any:
    """The array to write to: a new one whose axes lie in `order`, or `out` after all checks."""
    if out is None:
        return backend.empty(shape, dtype, source, order)
    target = backend.asarray(out)
    as_dtype(target.dtype, SCAN_DTYPES, "out")
    check_same_device(target, **{argument: source, "offsets": offsets})
    layout = check_output(target, shape)
    check = check_no_partial_overlap if in_place else check_no_overlap
    check(layout, source, argument)
    if offsets is not None:
        check_no_overlap(layout, offsets, "offsets")
    return target


def _warn_of_lost_imaginary_part(source: np.dtype, value: np.dtype, target: np.dtype) -> bool:
    """NumPy's warning when complex numbers become real ones, and whether it was given; a conversion to bool loses
    no part."""
    for before, after in ((source, value), (value, target)):
        if before.kind == "c" and after.kind not in "cb":
            warnings.warn("Casting complex values to real discards the imaginary part", ComplexWarning, stacklevel=4)
            return True
    return False
