"""The cache of compiled kernels on disk."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from cudml.plan import make_plan
from cudml.plan.layout import ArrayLayout
from cudml.plan.spec import Modulus

pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="CuPy, which binds NVRTC, is not installed")

from cudml.cuda import cache, compiler, sources

I32 = np.dtype(np.int32)
LINE = ArrayLayout((64,), (4,), I32, 16)
PLAN = make_plan(Modulus(I32), dict.fromkeys(("dividend", "divisor", "output"), LINE))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDML_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def compilations(monkeypatch):
    """A list that grows by one for every compilation."""
    real, seen = compiler.compile_cubin, []

    def counting(*arguments):
        seen.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(compiler, "compile_cubin", counting)
    return seen


def path(architecture: str = "sm_90"):
    return cache.cubin_path(PLAN.source, PLAN.constants, architecture)


def test_a_second_look_compiles_nothing(folder, compilations):
    assert path() == path()
    assert path().parent == folder
    assert len(compilations) == 1


def test_the_file_is_a_cubin_with_its_digest_behind_it():
    cubin, _ = compiler.compile_cubin(PLAN.source, PLAN.constants, "sm_90")
    assert path().read_bytes()[:-32] == cubin


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: c[:-1],
        lambda c: c[:100],
        lambda c: b"",
        lambda c: b"foreign" * 99,
        lambda c: c[:50] + b"\0\1" + c[52:],
    ],
)
def test_a_damaged_file_is_replaced(compilations, damage):
    whole = path().read_bytes()
    path().write_bytes(damage(whole))
    assert path().read_bytes() == whole
    assert len(compilations) == 2


def test_the_name_covers_everything_that_was_compiled(monkeypatch, compilations):
    names = {path().name, path("sm_80").name}
    names.add(cache.cubin_path(PLAN.source, (*PLAN.constants, ("UNUSED", "1")), "sm_90").name)
    real = sources.headers()
    monkeypatch.setattr(sources, "headers", lambda: {**real, "layout.cuh": real["layout.cuh"] + "\n// changed\n"})
    names.add(path().name)
    monkeypatch.setattr(compiler, "nvrtc_version", lambda: (99, 0))
    names.add(path().name)
    assert len(names) == 5 == len(compilations)


def test_a_folder_that_cannot_be_written_only_costs_time(monkeypatch, tmp_path, compilations):
    occupied = tmp_path / "a file"
    occupied.write_text("not a folder")
    monkeypatch.setenv("CUDML_CACHE_DIR", str(occupied))
    found = path()
    assert found.read_bytes()[:4] == b"\x7fELF"
    assert occupied.read_text() == "not a folder"
    assert path() == found
    assert len(compilations) == 1


def test_no_temporary_files_stay(folder):
    path()
    assert [file.suffix for file in folder.iterdir()] == [".cubin"]


@pytest.mark.parametrize("before", [None, b"cut off"], ids=["empty", "damaged"])
def test_processes_that_fill_the_cache_at_once_agree(folder, before):
    if before:
        path().write_bytes(before)
    code = f"from cudml.cuda import cache; print(cache.cubin_path({PLAN.source!r}, {PLAN.constants!r}, 'sm_90'))"
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    found = {process.communicate(timeout=120)[0].strip() for process in started}
    assert found == {str(path())}
    assert cache.is_cached(PLAN.source, PLAN.constants, "sm_90")
    assert len(list(folder.iterdir())) == 1


def test_a_reader_sees_a_file_as_a_whole_or_not_at_all(folder):
    """One thread writes the same file over and over, another looks."""
    whole = path().read_bytes()[:-32]
    writing = threading.Thread(target=lambda: [cache._write(path(), whole) for _ in range(300)])
    writing.start()
    while writing.is_alive():
        assert cache.is_cached(PLAN.source, PLAN.constants, "sm_90")
    writing.join()


def test_the_users_folder_is_the_default(monkeypatch):
    monkeypatch.delenv("CUDML_CACHE_DIR")
    assert cache.cache_folder().name in ("cudml", "cache")
