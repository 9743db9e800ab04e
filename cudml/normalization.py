"""Mean, variance and normalization by them: the public functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from cudml.arguments import (
    FLOAT_DTYPES,
    REAL_DTYPES,
    as_axes,
    as_dtype,
    as_integer,
    as_real,
    as_shape,
    exactly,
    float_of,
    is_broadcastable,
    kind_of,
)
from cudml.backend import backend_of, remember, repeated
from cudml.brief import shown
from cudml.memory import (
    check_is_array,
    check_no_overlap,
    check_no_partial_overlap,
    check_output,
    check_same_device,
    order_of_axes,
)
from cudml.plan.activation import PARAMETERS, Activation
from cudml.plan.spec import Moments, Normalization


def mean_var(
    x: Any, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False, correction: float = 0
) -> tuple[Any, Any]:
    """Mean and variance over `axis`, an int, a tuple or None for all axes, from one pass over `x`.

    >>> cudml.mean_var([[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]], axis=1)
    (array([2., 4.]), array([0.66666667, 0.        ]))

    The variance is the mean of the squared distances from the mean, its divisor the number of elements less
    `correction`. Both results are arrays of the type of `x` (float64 for bool and integers); halves are computed in
    float32 at least. With `keepdims` the reduced axes stay with size 1. Nothing reduced gives NaN.

    Raises AxisError when `x` has no such axis; ValueError for an axis named twice; TypeError for complex and other
    unsupported dtypes.

    The statistics of DirectML's DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC.
    """
    key = ("mean_var", exactly(axis), keepdims, correction, type(correction))
    results = repeated(key, (x, None))
    if results is not None:
        return results
    backend = backend_of(x=x)
    source = backend.asarray(x)
    dtype = _result_dtype(source.dtype)
    axes = tuple(range(source.ndim)) if axis is None else as_axes(axis, source.ndim, "axis")
    spec = Moments(axes, as_real(correction, "correction"))
    mean, variance = (backend.empty(_kept_shape(source.shape, axes), dtype, source) for _ in range(2))
    arrays = {"input": source, "mean": mean, "variance": variance}
    backend.run(spec, arrays)
    results = (mean, variance) if keepdims else (_drop_axes(mean, axes), _drop_axes(variance, axes))
    remember(key, {"input": x, "mean": None}, results, spec, arrays, also=("variance",))
    return results


def mean_variance_normalization(
    x: Any,
    scale: Any = None,
    bias: Any = None,
    *,
    axes: int | tuple[int, ...],
    normalize_variance: bool = True,
    epsilon: float = 1e-5,
    activation: Any = None,
    out: Any = None,
) -> Any:
    """activation(scale * (x - mean) / sqrt(variance + epsilon) + bias), the statistics taken over `axes`.

    >>> cudml.mean_variance_normalization([[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]], axes=1, epsilon=0.5).round(3)
    array([[-0.926,  0.   ,  0.926],
           [ 0.   ,  0.   ,  0.   ]])

    `scale` and `bias` are numbers or arrays of floats that broadcast to the shape of `x`; each may be left out. Without
    `normalize_variance` nothing is divided. `activation` is one of the names in `cudml.plan.activation.PARAMETERS`,
    with its default parameters, or one of the activation descs of `cudml.dml`. The result has the type of `x` (float64
    for bool and integers); its axes lie in memory in the order of those of `x`. `out` takes the result, converted to
    its own float type; it may be `x` itself. Into a narrower one integers of up to 16 bits are normalized in float32.

    Raises AxisError when `x` has no such axis; ValueError for an axis named twice, a scale or bias that does not
    broadcast, an epsilon that is negative or NaN, an unknown activation, an `out` of another shape, or that overlaps
    `x` in part or `scale` or `bias` at all; TypeError for complex and other unsupported dtypes.

    Follows DirectML's DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC.
    """
    key = ("mean_variance_normalization", exactly(axes), normalize_variance, *_key(epsilon, activation))
    result = repeated(key, (x, scale, bias, out))
    if result is not None:
        return result
    call = _Call(key, x, scale, bias, out, normalize_variance, epsilon, activation)
    return call.run(call.x, call.scale, call.bias, call.out, as_axes(axes, call.x.ndim))


def layer_norm(
    x: Any,
    normalized_shape: int | tuple[int, ...],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    activation: Any = None,
    out: Any = None,
) -> Any:
    """Normalizes over the last axes, which have `normalized_shape`; `weight` and `bias` have that shape too.

    >>> cudml.layer_norm([[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]], 3, eps=0.5).round(3)
    array([[-0.926,  0.   ,  0.926],
           [ 0.   ,  0.   ,  0.   ]])

    Everything else, and the errors, as in `mean_variance_normalization`; ValueError when a shape does not fit.

    Expressed through DirectML's DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC.
    """
    key = ("layer_norm", exactly(normalized_shape), *_key(eps, activation))
    result = repeated(key, (x, weight, bias, out))
    if result is not None:
        return result
    call = _Call(key, x, weight, bias, out, True, eps, activation, ("weight", "bias"))
    shape = as_shape(normalized_shape, "normalized_shape")
    ndim = call.x.ndim
    if not shape or tuple(call.x.shape[-len(shape) :]) != shape:
        raise ValueError(f"normalized_shape is {shape}; it must be the last sizes of x, which has shape {call.x.shape}")
    call.check_parameters(shape)
    return call.run(call.x, call.scale, call.bias, call.out, tuple(range(ndim - len(shape), ndim)))


def instance_norm(
    x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *, activation: Any = None, out: Any = None
) -> Any:
    """Normalizes every channel of every sample of `x` (N, C, ...) by itself; `weight` and `bias` have shape (C,).

    >>> cudml.instance_norm([[[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]]], eps=0.5).round(3)
    array([[[-0.926,  0.   ,  0.926],
            [ 0.   ,  0.   ,  0.   ]]])

    Everything else, and the errors, as in `mean_variance_normalization`; ValueError when a shape does not fit.

    Expressed through DirectML's DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC.
    """
    key = ("instance_norm", *_key(eps, activation))
    result = repeated(key, (x, weight, bias, out))
    if result is not None:
        return result
    call = _Call(key, x, weight, bias, out, True, eps, activation, ("weight", "bias"))
    call.check_ndim(3, "(N, C, ...) with at least one axis after the channels")
    scale, shift = call.per_channel()
    return call.run(call.x, scale, shift, call.out, tuple(range(2, call.x.ndim)))


def group_norm(
    x: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    activation: Any = None,
    out: Any = None,
) -> Any:
    """Normalizes every group of channels of every sample of `x` (N, C, ...); `weight` and `bias` have shape (C,).

    >>> cudml.group_norm([[[1.0], [3.0], [4.0], [4.0]]], 2, eps=0.5).round(3)
    array([[[-0.816],
            [ 0.816],
            [ 0.   ],
            [ 0.   ]]])

    C must be a multiple of `num_groups`. Everything else, and the errors, as in `mean_variance_normalization`;
    ValueError when a shape does not fit.

    Expressed through DirectML's DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC.
    """
    key = ("group_norm", exactly(num_groups), *_key(eps, activation))
    result = repeated(key, (x, weight, bias, out))
    if result is not None:
        return result
    call = _Call(key, x, weight, bias, out, True, eps, activation, ("weight", "bias"))
    call.check_ndim(2, "(N, C, ...)")
    groups, channels = as_integer(num_groups, "num_groups"), call.x.shape[1]
    if groups < 1 or channels % groups:
        raise ValueError(f"num_groups is {groups}; it must be at least 1 and divide the {channels} channels of x")
    scale, shift = (_split_axis(array, 1, groups) for array in call.per_channel())
    grouped, grouped_out = _split_axis(call.x, 1, groups), _split_axis(call.out, 1, groups)
    return call.run(grouped, scale, shift, grouped_out, tuple(range(2, grouped.ndim)))


def batch_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    activation: Any = None,
    out: Any = None,
    return_statistics: bool = False,
) -> Any:
    """Normalizes every channel of `x` (N, C, ...) over all samples, as in training; `weight` and `bias` are (C,).

    >>> cudml.batch_norm([[1.0, 4.0], [3.0, 4.0]], eps=0.5).round(3)
    array([[-0.816,  0.   ],
           [ 0.816,  0.   ]])

    With `return_statistics` the result is (y, mean, variance), the variance being the population's; both have shape
    (C,) and the type of y. Everything else, and the errors, as in `mean_variance_normalization`; ValueError when a
    shape does not fit.

    Expressed through DirectML's DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC.
    """
    key = ("batch_norm", *_key(eps, activation))
    result = repeated(key, (x, weight, bias, out)) if not return_statistics else None
    if result is not None:
        return result
    call = _Call(key, x, weight, bias, out, True, eps, activation, ("weight", "bias"))
    call.check_ndim(2, "(N, C, ...)")
    scale, shift = call.per_channel()
    axes = (0, *range(2, call.x.ndim))
    if not return_statistics:
        return call.run(call.x, scale, shift, call.out, axes)
    kept = _kept_shape(call.x.shape, axes)
    dtype = call.dtype if call.out is None else as_dtype(call.out.dtype, FLOAT_DTYPES, "out")
    mean, variance = (call.backend.empty(kept, dtype, call.x) for _ in range(2))
    result = call.run(call.x, scale, shift, call.out, axes, {"mean": mean, "variance": variance})
    return result, _drop_axes(mean, axes), _drop_axes(variance, axes)


class _Call:
    """The arguments that all normalizations share, checked and converted."""

    def __init__(
        self,
        key: tuple[Any, ...],
        x: Any,
        scale: Any,
        bias: Any,
        out: Any,
        normalize_variance: bool,
        epsilon: float,
        activation: Any,
        names: tuple[str, str] = ("scale", "bias"),
    ) -> None:
        check_is_array(out)
        self.key, self.given = key, {"input": x, "scale": scale, "bias": bias, "output": out}
        self.names = names
        self.backend = backend_of(**{"x": x, names[0]: _array_only(scale), names[1]: _array_only(bias), "out": out})
        self.x = self.backend.asarray(x)
        self.dtype = _result_dtype(self.x.dtype)
        self.scale = self._as_parameter(scale, names[0])
        self.bias = self._as_parameter(bias, names[1])
        self.out = None if out is None else self._checked_output(out)
        self.normalize_variance = bool(normalize_variance)
        epsilon_name = "epsilon" if names[0] == "scale" else "eps"
        self.epsilon = as_real(epsilon, epsilon_name)
        if self.epsilon < 0:
            raise ValueError(f"{epsilon_name} is {epsilon}; it is added to the variance and must not be negative")
        self.activation = as_activation(activation)

    def _as_parameter(self, value: Any, name: str) -> Any:
        """Scale or bias as an array of floats, or as a NumPy scalar when it is a number."""
        if value is None:
            return None
        if isinstance(value, (int, float)):
            return np.float64(float_of(value))
        if isinstance(value, (complex, np.generic)) and not isinstance(value, np.void):
            return _in_float64(np.asarray(value), name)[()]
        if isinstance(value, (list, tuple)):
            value = _in_float64(_as_host_array(value, name), name)
        array = self.backend.asarray(value, self.x)
        as_dtype(array.dtype, FLOAT_DTYPES, name)
        return array

    def _checked_output(self, out: Any) -> Any:
        target = self.backend.asarray(out)
        as_dtype(target.dtype, FLOAT_DTYPES, "out")
        parameters = dict(zip(self.names, (self.scale, self.bias), strict=True))
        check_same_device(target, x=self.x, **parameters)
        layout = check_output(target, tuple(self.x.shape))
        check_no_partial_overlap(layout, self.x, "x")
        for name, value in parameters.items():
            if value is not None and not isinstance(value, np.generic):
                check_no_overlap(layout, value, name)
        return target

    def check_ndim(self, least: int, meaning: str) -> None:
        if self.x.ndim < least:
            raise ValueError(f"x has shape {tuple(self.x.shape)}; it must have {least} dimensions or more: {meaning}")

    def check_parameters(self, shape: tuple[int, ...]) -> None:
        """Scale and bias must have exactly `shape`; numbers stand for all channels."""
        for name, value in zip(self.names, (self.scale, self.bias), strict=True):
            if value is not None and not isinstance(value, np.generic) and tuple(value.shape) != shape:
                raise ValueError(f"{name} has shape {tuple(value.shape)}; it must have shape {shape}")

    def per_channel(self) -> tuple[Any, Any]:
        """Views of scale and bias, which must have shape (C,), that broadcast along axis 1 of x."""
        self.check_parameters((self.x.shape[1],))
        index = (None, slice(None), *(None,) * (self.x.ndim - 2))
        scale, bias = (
            value if value is None or isinstance(value, np.generic) else value[index]
            for value in (self.scale, self.bias)
        )
        return scale, bias

    def run(
        self, x: Any, scale: Any, bias: Any, out: Any, axes: tuple[int, ...], statistics: dict[str, Any] | None = None
    ) -> Any:
        """Normalizes `x`, a view of the caller's, and returns the caller's out or a new array."""
        arrays = {"input": x, **(statistics or {})}
        for role, name, value in (("scale", self.names[0], scale), ("bias", self.names[1], bias)):
            if value is None:
                continue
            if not is_broadcastable(value.shape, tuple(x.shape)):
                raise ValueError(
                    f"{name} has shape {tuple(value.shape)}, which does not broadcast to x's shape {tuple(x.shape)}"
                )
            arrays[role] = value
        result = self.given["output"]
        if out is None:  # of the shape of the caller's x, of which `x` may be a view
            result = self.backend.empty(self.x.shape, self.dtype, self.x, order_of_axes(self.x.shape, self.x.strides))
            out = result if result.shape == x.shape else result.reshape(x.shape)
        arrays["output"] = out
        spec = Normalization(axes, self.normalize_variance, self.epsilon, self.activation)
        self.backend.run(spec, arrays)
        remember(self.key, self.given, result, spec, arrays, in_place=("input",))
        return result


def _key(epsilon: Any, activation: Any) -> tuple[Any, ...]:
    """Both as part of the key of a call."""
    return epsilon, type(epsilon), None if activation is None else as_activation(activation)


def as_activation(value: Any) -> Activation | None:
    """An activation from None, its name, an `Activation`, or a desc that has one as its property `activation`."""
    if isinstance(value, str):
        return Activation.named(value)
    value = getattr(value, "activation", value)
    if value is None:
        return None
    if not isinstance(value, Activation):
        raise TypeError(
            f"activation is {shown(value)}; it must be None, one of cudml.dml's activation descs, or one of "
            f"{', '.join(PARAMETERS)}"
        )
    expected = Activation.named(value.name).parameters
    if len(value.parameters) != len(expected):
        names = ", ".join(PARAMETERS[value.name]) or "none"
        raise ValueError(f"activation {value.name} has parameters {shown(value.parameters)}; it takes {names}")
    if all(type(parameter) is float and parameter == parameter for parameter in value.parameters):
        return value  # itself: a desc has the same one in every call, and the key of a known call is found sooner
    what = f"a parameter of activation {value.name}"
    return Activation(value.name, tuple([as_real(parameter, what) for parameter in value.parameters]))


@lru_cache(maxsize=64)
def _result_dtype(source: np.dtype) -> np.dtype:
    native = as_dtype(source, REAL_DTYPES, "x")
    return native if kind_of(native) == "f" else np.dtype(np.float64)


def _as_host_array(numbers: Sequence[Any], name: str) -> np.ndarray:
    try:
        return np.asarray(numbers)
    except ValueError:  # of NumPy, which names no argument
        raise ValueError(f"{name} is {shown(numbers)}, whose parts differ in length; give them equal lengths") from None


def _in_float64(numbers: np.ndarray, name: str) -> np.ndarray:
    as_dtype(numbers.dtype, REAL_DTYPES, name)
    with np.errstate(all="ignore"):
        return numbers.astype(np.float64)


def _array_only(parameter: Any) -> Any:
    """What of a scale or bias has a say in the choice of backend: lists are converted for whichever is chosen."""
    return None if isinstance(parameter, (list, tuple)) else parameter


def _kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


def _drop_axes(array: Any, axes: tuple[int, ...]) -> Any:
    """A view without `axes`, along which the array has size 1; still an array when no axis is left."""
    return array[(*(0 if axis in axes else slice(None) for axis in range(array.ndim)), ...)]


def _split_axis(array: Any, axis: int, parts: int) -> Any:
    """A view with `axis` cut into (parts, size / parts), which never needs a copy; None and numbers as they are."""
    if array is None or isinstance(array, np.generic):
        return array
    shape = tuple(array.shape)
    return array.reshape(*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :])
