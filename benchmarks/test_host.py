"""The host's time of small calls, where looking up and launching are all there is. Run: pytest benchmarks

On a GPU a bare launch of a CuPy RawKernel stands beside them: it is what a call could cost at the least.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from benchmarks.device import BARE_KERNEL
from cudml import dml, info

_SHAPE = (32, 64)
_TENSOR = dml.BufferTensorDesc(data_type=dml.TensorDataType.FLOAT32, sizes=_SHAPE)
_OPERATOR = (
    dml.Device()
    .create_operator(dml.CumulativeSummationOperatorDesc(input_tensor=_TENSOR, output_tensor=_TENSOR, axis=1))
    .compile()
)
_CALLS = {
    "cumsum": lambda x, out: cudml.cumsum(x, axis=1, out=out),
    "cumsum_without_out": lambda x, out: cudml.cumsum(x, axis=1),
    "cumprod": lambda x, out: cudml.cumprod(x, axis=1, out=out),
    "mean_variance_normalization": lambda x, out: cudml.mean_variance_normalization(x, axes=1, out=out),
    "layer_norm": lambda x, out: cudml.layer_norm(x, (64,), out=out),
    "layer_norm_without_out": lambda x, out: cudml.layer_norm(x, (64,)),
    "mean_var": lambda x, out: cudml.mean_var(x, axis=1),
    "fmod": lambda x, out: cudml.fmod(x, x, out=out),
    "fmod_scalar": lambda x, out: cudml.fmod(x, 3.0, out=out),
    "operator": _OPERATOR,
}


@pytest.fixture(params=["cpu", "cuda"])
def xp(request: pytest.FixtureRequest) -> Any:
    return np if request.param == "cpu" else _cupy()


def _cupy() -> Any:
    problem = info.gpu_problem()
    if problem:
        pytest.skip(problem)
    return importlib.import_module("cupy")


def _measure(benchmark: Any, xp: Any, call: Callable[[Any, Any], object]) -> None:
    x = xp.linspace(1, 2, 32 * 64, dtype=np.float32).reshape(_SHAPE)
    out = xp.empty_like(x)
    call(x, out)
    benchmark(call, x, out)


@pytest.mark.parametrize("call", _CALLS.values(), ids=_CALLS)
def test_host_time(benchmark: Any, xp: Any, call: Any) -> None:
    _measure(benchmark, xp, call)


def test_bare_launch(benchmark: Any) -> None:
    cupy = _cupy()
    kernel = cupy.RawModule(code=BARE_KERNEL).get_function("bare")
    _measure(benchmark, cupy, lambda x, out: kernel((32,), (128,), (x, out, np.int32(1))))


@pytest.mark.parametrize("name", ["cumsum", "fmod", "empty_like"])
def test_cupy(benchmark: Any, name: str) -> None:
    cupy = _cupy()
    calls = {
        "cumsum": lambda x, out: cupy.cumsum(x, axis=1, out=out),
        "fmod": lambda x, out: cupy.fmod(x, x, out=out),
        "empty_like": lambda x, out: cupy.empty_like(x),
    }
    _measure(benchmark, cupy, calls[name])
