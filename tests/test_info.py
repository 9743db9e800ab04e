"""`import cudml`, and `python -m cudml info` on machines that lack one thing or another."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

import cudml
from cudml import driver, info
from cudml.__main__ import main

PLANNERS = {"cudml.plan.scan", "cudml.plan.normalization", "cudml.plan.modulus"}


def imported_by(code: str) -> set[str]:
    done = subprocess.check_output([sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"], text=True)
    return set(done.split())


def test_import_is_light() -> None:
    imported = imported_by("import cudml")
    assert imported.isdisjoint({"cupy", "matplotlib", "ml_dtypes", "cudml.cuda", "cudml.dml.names"})
    assert "cudml.dml" in imported
    without_cupy = "sys.modules['cupy'] = None; import cudml"
    assert imported_by(without_cupy).isdisjoint(PLANNERS)


def test_what_calls_need_is_imported_along_where_cupy_is() -> None:
    pytest.importorskip("cupy")
    assert imported_by("import cudml") >= PLANNERS
    assert imported_by("import cupy, cudml") >= {"cudml.cuda.backend"} | PLANNERS


@pytest.mark.parametrize("found", ["None", "types.SimpleNamespace(ndarray=bytes)"])
def test_import_with_a_cupy_that_is_of_no_use(found: str) -> None:
    code = f"import sys, types; sys.modules['cupy'] = {found}; import cudml; print(cudml.cumsum([2, 1, 3]))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[2 3 6]\n"


def test_descriptors_are_imported_when_they_are_asked_for() -> None:
    code = "import cudml; print(cudml.dml.Device().feature_level.name); from cudml.dml import *; print(validate)"
    assert "validate" in subprocess.check_output([sys.executable, "-c", code], text=True)
    with pytest.raises(AttributeError, match=r"module 'cudml\.dml' has no attribute 'Nonsense'"):
        _ = cudml.dml.Nonsense


def test_all_names_exist_and_are_documented() -> None:
    for name in cudml.__all__:
        assert getattr(cudml, name).__doc__, name


def test_info_prints_versions_and_succeeds_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    printed = capsys.readouterr().out
    assert f"cudml      {cudml.__version__}\n" in printed
    assert f"NumPy      {np.__version__}\n" in printed
    assert all(name in printed for name in ("Driver", "CuPy", "Cache", "GPU"))


def test_info_names_the_cache_folder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CUDML_CACHE_DIR", "/somewhere/else")
    main(["info"])
    assert "Cache      /somewhere/else\n" in capsys.readouterr().out


def test_info_lists_the_calls_that_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--plans"]) == 0
    assert " calls known, " in capsys.readouterr().out


def test_without_a_subcommand_the_usage_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    assert "info" in capsys.readouterr().err


def test_problem_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "version", lambda: None)
    assert info.gpu_problem() == "no NVIDIA driver was found"


def test_problem_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend_driver(monkeypatch, (13, 0), gpus=0)
    assert info.gpu_problem() == "the NVIDIA driver offers no GPU"


def test_problem_with_an_old_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend_driver(monkeypatch, (11, 8), gpus=1)
    assert info.gpu_problem() == "the NVIDIA driver supports CUDA 11.8; cudml needs one for CUDA 12 or newer"


def test_problem_without_cupy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend_driver(monkeypatch, (12, 4), gpus=1)
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "pip install 'cudml[cuda12]'" in info.gpu_problem()


@pytest.mark.parametrize("fails", [RuntimeError("no kernel image"), OSError("libnvrtc.so is missing")])
def test_problem_is_whatever_the_first_sum_raises(monkeypatch: pytest.MonkeyPatch, fails: Exception) -> None:
    _pretend_driver(monkeypatch, (13, 0), gpus=1)
    monkeypatch.setitem(sys.modules, "cupy", _fake_cupy(asnumpy=_raiser(fails)))
    assert info.gpu_problem() == f"{type(fails).__name__}: {fails}"


def test_problem_when_the_sum_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend_driver(monkeypatch, (13, 0), gpus=1)
    monkeypatch.setitem(sys.modules, "cupy", _fake_cupy(asnumpy=lambda array: array + 1))
    assert info.gpu_problem() == "a running sum came out wrong"


def test_report_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend_driver(monkeypatch, (13, 0), gpus=2)
    monkeypatch.setitem(sys.modules, "cupy", _fake_cupy(asnumpy=np.asarray))
    assert "GPU 1      Imaginary GPU, compute capability 9.0, 139.5 GiB: works" in info.report()


@pytest.mark.parametrize(
    ("version", "gpus", "extra"),
    [
        (None, 0, None),
        ((13, 0), 0, None),
        ((11, 8), 1, None),
        ((12, 8), 1, "cuda12"),
        ((13, 2), 8, "cuda13"),
        ((14, 0), 1, "cuda13"),
    ],
)
def test_extra_for_a_driver(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int] | None, gpus: int, extra: str | None
) -> None:
    _pretend_driver(monkeypatch, version, gpus)
    assert driver.extra() == extra


def test_driver_is_asked_through_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(cuInit=lambda flags: 0, cuDriverGetVersion=_writer(13020), cuDeviceGetCount=_writer(4))
    monkeypatch.setattr(driver, "_library", lambda: library)
    assert driver.version() == (13, 2)
    assert driver.gpu_count() == 4


@pytest.mark.parametrize(
    ("code", "status", "expected"), [(0, 1, 2**40), (0, 0, None), (0, 2, None), (1, 1, None)], ids=str
)
def test_only_an_active_capture_has_a_number(monkeypatch: pytest.MonkeyPatch, code, status, expected) -> None:
    def ask(stream: ctypes.c_void_p, status_out: object, number_out: object, *others: object) -> int:
        assert (stream.value, others) == (512, (None, None, None))
        ctypes.cast(status_out, ctypes.POINTER(ctypes.c_int)).contents.value = status
        ctypes.cast(number_out, ctypes.POINTER(ctypes.c_uint64)).contents.value = 2**40
        return code

    monkeypatch.setattr(driver, "_library", lambda: SimpleNamespace(cuStreamGetCaptureInfo_v2=ask))
    assert driver.capture_number(512) == expected


@pytest.mark.parametrize("library", [None, SimpleNamespace()], ids=["no driver", "an old driver"])
def test_a_capture_without_a_number(monkeypatch: pytest.MonkeyPatch, library: object) -> None:
    monkeypatch.setattr(driver, "_library", lambda: library)
    assert driver.capture_number(512) is None


def test_allocating_puts_the_mode_of_captures_back(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = [0]

    def exchange(address: int) -> int:
        mode = ctypes.c_int.from_address(address)
        modes.append(mode.value)
        mode.value = modes[-2]
        return 0

    monkeypatch.setattr(driver, "function", lambda name, pointers: exchange)
    with driver.relaxed_capture():
        assert modes == [0, 2]
    with suppress(MemoryError), driver.relaxed_capture():
        raise MemoryError
    assert modes == [0, 2, 0, 2, 0]


def test_streams_have_the_numbers_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_id(stream: int, address: int) -> int:
        ctypes.c_uint64.from_address(address).value = 2**40 + stream
        return stream

    monkeypatch.setattr(driver, "function", lambda name, pointers: get_id)
    assert driver.stream_number(0) == 2**40
    assert driver.stream_number(201) is None


def _pretend_driver(monkeypatch: pytest.MonkeyPatch, version: tuple[int, int] | None, gpus: int) -> None:
    monkeypatch.setattr(driver, "version", lambda: version)
    monkeypatch.setattr(driver, "gpu_count", lambda: gpus)


def _writer(value: int):
    """A function of the driver that writes an integer and succeeds."""

    def write(target: object) -> int:
        ctypes.cast(target, ctypes.POINTER(ctypes.c_int)).contents.value = value
        return 0

    return write


def _raiser(error: Exception):
    def fail(*_: object) -> None:
        raise error

    return fail


def _fake_cupy(asnumpy: object) -> SimpleNamespace:
    """As much of CuPy as the report asks; its arrays are NumPy's."""
    properties = {"name": b"Imaginary GPU", "major": 9, "minor": 0, "totalGlobalMem": int(139.5 * 2**30)}
    runtime = SimpleNamespace(runtimeGetVersion=lambda: 13000, getDeviceProperties=lambda device: properties)
    nvrtc = SimpleNamespace(getVersion=lambda: (13, 1))

    class Device:
        def __init__(self, index: int) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    cuda = SimpleNamespace(runtime=runtime, nvrtc=nvrtc, Device=Device)
    foreign_array = type("ndarray", (), {})
    return SimpleNamespace(__version__="14.9", cuda=cuda, arange=np.arange, asnumpy=asnumpy, ndarray=foreign_array)
