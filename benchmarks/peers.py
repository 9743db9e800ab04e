"""The same computations by CuPy and, where they are installed, by torch and CUB. Absent libraries are left out."""

from __future__ import annotations

import importlib
import math
import sys
from functools import cache
from typing import Any

import numpy as np

from benchmarks import cub
from benchmarks.case import ADDITION, Arrays, Call, Case

_INT_MAX = 2**31 - 1

#: torch has these types, but no arithmetic for them.
_NOT_FOR_TORCH = {"uint16", "uint32", "uint64"}

#: torch walks down each column serially, which takes it over ten seconds for columns that are longer than this.
_TORCH_COLUMN = 1 << 25


def scan(case: Case, arrays: Arrays) -> dict[str, Call]:
    """cupy.cumsum and torch.cumsum, or the products, and CUB's sum of one line."""
    a, out = arrays["a"], arrays["out"]
    found: dict[str, Call] = {}
    cupy = _cupy(a)
    if cupy and a.size <= _INT_MAX:  # nothing says that CuPy's scans go beyond
        function = getattr(cupy, case.op)
        found["cupy"] = lambda: function(a, axis=case.axis, dtype=out.dtype, out=out)
    torch = _torch(a)
    if torch and not (case.axis < a.ndim - 1 and a.shape[case.axis] > _TORCH_COLUMN):
        torch_function, tensors = getattr(torch, case.op), _tensors(arrays)
        found["torch"] = lambda: torch_function(tensors["a"], case.axis, dtype=tensors["out"].dtype, out=tensors["out"])
    if cupy and _is_for_cub(case, a, out) and (call := cub.inclusive_sum(a, out, cupy)):
        found["cub"] = call
    return found


def _is_for_cub(case: Case, a: Any, out: Any) -> bool:
    dense = a.ndim == 1 and a.flags.c_contiguous and out.flags.c_contiguous
    return dense and case.op == "cumsum" and a.dtype == out.dtype and str(a.dtype) in cub.DTYPES


def modulus(case: Case, arrays: Arrays) -> dict[str, Call]:
    """cupy.fmod, torch.fmod, and an addition of the same arrays as what three streams of memory allow."""
    x1, x2, out = arrays["x1"], arrays["x2"], arrays["out"]
    found: dict[str, Call] = {}
    if cupy := _cupy(x1):
        # CuPy adds no bfloat16; integers of that size take as long.
        one, other, total = (a.view("int16") if a.dtype.name == "bfloat16" else a for a in (x1, x2, out))
        found[ADDITION] = lambda: cupy.add(one, other, out=total)
        if one is x1:
            found["cupy"] = lambda: cupy.fmod(x1, x2, out=out)
    if (torch := _torch(x1)) and case.dtype not in _NOT_FOR_TORCH:
        tensors = _tensors({name: array for name, array in arrays.items() if hasattr(array, "shape") and array.ndim})
        divisor = tensors.get("x2", x2)
        found["torch"] = lambda: torch.fmod(tensors["x1"], divisor, out=tensors["out"])
    return found


def normalization(case: Case, arrays: Arrays) -> dict[str, Call]:
    """torch's own norm, or the formula where it has none for these axes; in the plain cases also the formula in CuPy,
    which is too slow for all."""
    found: dict[str, Call] = {}
    cupy = _cupy(arrays["x"])
    if cupy and case.dtype != "bfloat16" and "scale" in arrays and "view" not in case.options:
        found["cupy"] = lambda: _formula(cupy.sqrt, arrays, case.axis)
    if torch := _torch(arrays["x"]):
        tensors = _tensors(arrays)
        operands = [tensors[name] for name in ("x", "scale", "bias") if name in tensors]
        found["torch"] = _torch_norm(torch, case.axis, *operands) or (
            lambda: _torch_formula(torch, case.axis, *operands)
        )
    return found


def moments(case: Case, arrays: Arrays) -> dict[str, Call]:
    """torch.var_mean, and both functions of CuPy."""
    x, axis = arrays["x"], case.axis
    found: dict[str, Call] = {}
    if _cupy(x):
        found["cupy"] = lambda: (x.mean(axis), x.var(axis))
    if torch := _torch(x):
        tensor = _tensors(arrays)["x"]
        found["torch"] = lambda: torch.var_mean(tensor, dim=axis, correction=0)
    return found


def compiled_normalization(case: Case, arrays: Arrays) -> dict[str, Call]:
    """The formula through torch.compile."""
    if _torch(arrays["x"]) is None:
        return {}
    tensors = _tensors(arrays)
    operands = [tensors[name] for name in ("x", "scale", "bias")]
    compiled = _compiled_formula(case.dtype, case.shape, case.axis)
    return {"torch_compile": lambda: compiled(*operands)}


def free_memory() -> None:
    """Gives torch's cached blocks back to the driver, if torch was used."""
    if torch := sys.modules.get("torch"):
        torch.cuda.empty_cache()


def _formula(sqrt: Any, arrays: Arrays, axes: Any) -> Any:
    x = arrays["x"]
    mean = x.mean(axis=axes, keepdims=True)
    variance = x.var(axis=axes, keepdims=True)
    return (x - mean) / sqrt(variance + x.dtype.type(1e-5)) * arrays["scale"] + arrays["bias"]


@cache
def _compiled_formula(dtype: str, shape: tuple[int, ...], axes: Any) -> Call:
    """Compiled once for all arrays of a case."""
    torch = _installed_torch()
    torch.compiler.reset()  # after eight shapes it would go on without compiling

    def formula(x: Any, scale: Any, bias: Any) -> Any:
        return _torch_formula(torch, axes, x, scale, bias)

    return torch.compile(formula, dynamic=False)


def _torch_formula(torch: Any, axes: Any, x: Any, scale: Any, bias: Any) -> Any:
    variance, mean = torch.var_mean(x.float(), dim=axes, correction=0, keepdim=True)
    return ((x.float() - mean) * torch.rsqrt(variance + 1e-5) * scale + bias).to(x.dtype)


def _torch_norm(torch: Any, axis: Any, x: Any, *operands: Any) -> Call | None:
    functional, parameters = torch.nn.functional, [operand.flatten() for operand in operands]
    axes = (axis,) if isinstance(axis, int) else axis
    last, features = x.ndim - 1, len(parameters[0]) if parameters else x.shape[1]
    if axes == (last,) and features == x.shape[-1]:
        return lambda: functional.layer_norm(x, (features,), *parameters)
    if axes == tuple(range(1, x.ndim)):
        return lambda: functional.group_norm(x.reshape(x.shape[0], features, -1), 1, *parameters)
    weight, bias = parameters or (None, None)
    if x.ndim == 4 and axes == (2, 3) and features == math.prod(x.shape[1:3]) and x.shape[2] > 1:
        return lambda: functional.group_norm(x.reshape(x.shape[0], features, -1), x.shape[1], *parameters)
    if axes == tuple(range(2, x.ndim)):
        return lambda: functional.instance_norm(x, weight=weight, bias=bias)
    if axes == tuple(range(last)):
        x = x.movedim(last, 1)
    elif axes != (0, *range(2, x.ndim)):
        return None
    return lambda: functional.batch_norm(x, None, None, weight, bias, training=True)


def _cupy(array: Any) -> Any:
    return None if isinstance(array, np.ndarray) else importlib.import_module("cupy")


def _torch(array: Any) -> Any:
    return None if isinstance(array, np.ndarray) else _installed_torch()


@cache
def _installed_torch() -> Any:
    """torch on CuPy's current stream, which everything is measured on; None without it."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    stream = importlib.import_module("cupy").cuda.get_current_stream()
    torch.cuda.set_stream(torch.cuda.ExternalStream(stream.ptr))
    return torch


def _tensors(arrays: Arrays) -> dict[str, Any]:
    """The same memory as torch tensors."""
    torch = _installed_torch()
    return {name: torch.from_dlpack(array) for name, array in arrays.items()}
