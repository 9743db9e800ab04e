"""`cudml.warmup`: what calls need is compiled and loaded, and nothing is launched."""

from __future__ import annotations

from contextlib import nullcontext

import cuda_on_cpu
import numpy as np
import pytest

pytest.importorskip("cupy", reason="CuPy is not installed")
if cuda_on_cpu.requirement():
    pytest.skip(str(cuda_on_cpu.requirement()), allow_module_level=True)

import cupy
from cupy_on_host import CupyOnHost

import cudml
from cudml.cuda import cache, compiler, launcher, warmup

X = np.random.default_rng(3).standard_normal((4, 9)).astype(np.float32)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path) -> CupyOnHost:
    monkeypatch.setenv("CUDML_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cupy.cuda, "Device", lambda device: nullcontext())
    host = CupyOnHost(monkeypatch)
    monkeypatch.setattr(warmup, "BACKEND", host.backend)
    monkeypatch.setattr(warmup, "architecture_of", lambda device: "sm_90")
    monkeypatch.setattr(warmup, "steps_of", lambda plan, device: host.launches.append("loaded"))
    return host


def test_each_kernel_is_compiled_once_and_a_bar_counts_them(host, tmp_path, capsys):
    x = host.asarray(X)
    calls = [lambda: cudml.cumsum(x, 1), lambda: cudml.cumsum(x, 1), lambda: cudml.fmod(x, 2.0)]
    assert cudml.warmup(calls) == 2
    assert len(list(tmp_path.glob("*.cubin"))) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("] 2/2")
    assert cudml.warmup(calls) == 0
    assert capsys.readouterr().err == ""
    assert set(host.launches) == {"loaded"}


def test_a_call_in_two_steps_compiles_their_kernels_side_by_side(host, monkeypatch):
    seen = []
    monkeypatch.setattr(launcher, "fill_cache", seen.extend)
    x = host.asarray(np.zeros((9000, 9), np.float32))
    for _ in range(2):
        cudml.mean_variance_normalization(x, axes=0)
    assert [(source, dict(constants)["KERNELS"], architecture) for source, constants, architecture in seen[:2]] == [
        ("normalization_columns.cu", "sum_columns", "sm_90"),
        ("normalization_columns.cu", "apply_columns", "sm_90"),
    ]


def test_the_bar_can_be_left_out(host, capsys):
    assert cudml.warmup([lambda: cudml.cumprod(host.asarray(X), 1)], progress=False) == 1
    assert capsys.readouterr().err == ""


def test_nothing_is_computed_not_even_by_a_call_that_is_known(host):
    x, out = host.asarray(X), host.asarray(np.full_like(X, -7))
    cudml.cumsum(x, 1, out=host.asarray(X))
    host.launches.clear()
    cudml.warmup([lambda: cudml.cumsum(x, 1, out=out), lambda: cudml.cumsum(x, 1, out=x)], progress=False)
    assert host.launches == ["loaded"] * 2
    np.testing.assert_array_equal(host.to_numpy(out), -7)
    np.testing.assert_array_equal(host.to_numpy(x), X)
    cudml.cumsum(x, 1, out=out)
    assert host.launches[2:] == ["again"]


def test_a_list_of_calls_may_warm_others_up(host):
    x = host.asarray(X)
    cudml.warmup([lambda: cudml.warmup([lambda: cudml.cumsum(x)], progress=False), lambda: cudml.cumsum(x, 1)])
    assert set(host.launches) == {"loaded"}
    cudml.cumsum(x, 1)
    assert host.launches[-1] == "in full"


def test_bad_input_raises_and_calls_are_launched_again_afterwards(host):
    x = host.asarray(X)
    with pytest.raises(np.exceptions.AxisError):
        cudml.warmup([lambda: cudml.cumsum(x, 5)])
    cudml.cumsum(x, 1)
    cudml.cumsum(x, 1)
    assert host.launches == ["in full", "again"]


def test_what_does_not_compile_says_so(host, monkeypatch):
    def fail(*_: object) -> None:
        raise compiler.CompileError("no such thing")

    monkeypatch.setattr(compiler, "compile_cubin", fail)
    with pytest.raises(compiler.CompileError, match="no such thing"):
        cudml.warmup([lambda: cudml.cumsum(host.asarray(X), 1)], progress=False)


def test_what_is_compiled_is_what_the_first_call_looks_for(host):
    x = host.asarray(X)
    cudml.warmup([lambda: cudml.layer_norm(x, 9)], progress=False)
    cudml.layer_norm(x, 9)
    (known,) = host.backend.repeats.known
    assert cache.is_cached(known.plan.source, known.plan.constants, "sm_90")
    assert not cache.is_cached(known.plan.source, known.plan.constants, "sm_80")


def test_calls_on_numpy_arrays_are_made(host):
    out = np.zeros_like(X)
    assert cudml.warmup([lambda: cudml.cumsum(X, 1, out=out)]) == 0
    np.testing.assert_allclose(out, np.cumsum(X, 1), rtol=1e-6)
