"""The host's time of small calls, where checks, planning and launching are all there is. Run: pytest benchmarks"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import info

_SHAPE = (32, 64)
_CALLS = {
    "cumsum": lambda x, out: cudml.cumsum(x, axis=1, out=out),
    "cumsum_without_out": lambda x, out: cudml.cumsum(x, axis=1),
    "cumprod": lambda x, out: cudml.cumprod(x, axis=1, out=out),
    "mean_variance_normalization": lambda x, out: cudml.mean_variance_normalization(x, axes=1, out=out),
    "layer_norm": lambda x, out: cudml.layer_norm(x, (64,)),
    "fmod": lambda x, out: cudml.fmod(x, x, out=out),
    "fmod_scalar": lambda x, out: cudml.fmod(x, 3.0, out=out),
}


@pytest.fixture(params=["cpu", "cuda"])
def xp(request: pytest.FixtureRequest) -> Any:
    if request.param == "cpu":
        return np
    problem = info.gpu_problem()
    if problem:
        pytest.skip(problem)
    return importlib.import_module("cupy")


@pytest.mark.parametrize("call", _CALLS.values(), ids=_CALLS)
def test_host_time(benchmark: Any, xp: Any, call: Any) -> None:
    x = xp.linspace(1, 2, 32 * 64, dtype=np.float32).reshape(_SHAPE)
    out = xp.empty_like(x)
    call(x, out)
    benchmark(call, x, out)
