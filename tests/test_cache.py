"""The cache of compiled kernels on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from cudml.plan import make_plan
from cudml.plan.layout import ArrayLayout
from cudml.plan.spec import Modulus

pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="CuPy, which binds NVRTC, is not installed")

from cudml.cuda import cache, compiler, files, sources, version

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


@pytest.fixture
def loads(monkeypatch):
    """A list that grows by one each time that NVRTC is asked for its version, which is in the list."""
    seen = []
    monkeypatch.setattr(version, "_loaded_library", lambda: __file__)
    monkeypatch.setattr(compiler, "nvrtc_version", lambda: seen.append((99, len(seen))) or seen[-1])
    return seen


def note_in(folder):
    (note,) = folder.glob("*.nvrtc")
    return note


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


def test_the_name_covers_everything_that_was_compiled(folder, monkeypatch, compilations):
    names = {path().name, path("sm_80").name}
    names.add(cache.cubin_path(PLAN.source, (*PLAN.constants, ("UNUSED", "1")), "sm_90").name)
    real = sources.headers()
    monkeypatch.setattr(sources, "headers", lambda: {**real, "layout.cuh": real["layout.cuh"] + "\n// changed\n"})
    names.add(path().name)
    note_in(folder).unlink()
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


def test_nvrtc_is_not_asked_for_what_is_there(loads):
    assert path() == path()
    assert loads == [(99, 0)]


def test_what_is_compiled_is_filed_under_the_version_that_compiles_it(loads, compilations):
    """The note says (99, 0); NVRTC turns out to be another one."""
    names = {path().name, path("sm_80").name, path("sm_80").name}
    assert len(names) == 2 == len(compilations) == len(loads)
    assert version.noted_version(cache.cache_folder()) == "(99, 1)"


@pytest.mark.parametrize("what", ["the library", "the binding", "a variable", "the note"])
def test_a_note_is_not_believed_after_something_was_replaced(folder, tmp_path, monkeypatch, loads, what):
    library = tmp_path / "libnvrtc.so.99"
    library.write_text("one")
    monkeypatch.setattr(version, "_loaded_library", lambda: str(library))
    path()
    assert version.noted_version(folder) == "(99, 0)"
    if what == "the library":
        library.write_text("another one")
    elif what == "the binding":
        monkeypatch.setattr("cupy_backends.cuda.libs.nvrtc.__file__", str(library))
    elif what == "a variable":
        monkeypatch.setenv("CUDA_PATH", "/somewhere/else")
    else:
        note_in(folder).write_bytes(note_in(folder).read_bytes()[:-1])
    assert version.noted_version(folder) is None
    path()
    assert loads == [(99, 0), (99, 1)]
    assert version.noted_version(folder) == "(99, 1)"


def test_where_the_library_is_not_known_nvrtc_is_asked_every_time(folder, monkeypatch):
    monkeypatch.setattr(version, "_loaded_library", lambda: None)
    assert path() == path()
    assert not list(folder.glob("*.nvrtc"))


def test_a_library_that_was_replaced_while_it_runs_is_not_noted(folder, monkeypatch):
    monkeypatch.setattr(version, "_loaded_library", lambda: "/nowhere/libnvrtc.so.99 (deleted)")
    path()
    assert version.noted_version(folder) is None
    assert not list(folder.glob("*.nvrtc"))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell nothing")
def test_names_of_files_may_be_any_bytes(folder, tmp_path):
    name = os.path.join(os.fsencode(tmp_path), b"\xe4.bin")
    with open(name, "wb") as file:
        file.write(bytes(4096))
    mapped = np.memmap(os.fsdecode(name), mode="r")
    assert version._loaded_library() is None or "libnvrtc" in version._loaded_library()
    assert path().parent == folder
    assert not mapped.any()


@pytest.mark.skipif(os.name != "posix", reason="files have no modes")
def test_others_may_read_the_files_as_the_umask_says(folder):
    before = os.umask(0o027)
    try:
        path()
    finally:
        os.umask(before)
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o640}


def test_a_user_without_a_home_has_a_folder_all_the_same(monkeypatch):
    def home():
        raise RuntimeError("Could not determine home directory.")

    for name in ("CUDML_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cache.Path, "home", home)
    assert cache.cache_folder() == cache._private_folder()


def test_a_private_folder_goes_with_the_process(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code = "import os; from cudml.cuda import cache; print(cache._private_folder()); os.fork() or os._exit(0)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout.startswith(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_kernels_are_compiled_side_by_side_and_only_those_that_are_missing(monkeypatch):
    """Each compilation waits until another one has begun."""
    real, both, reports = compiler.compile_cubin, threading.Barrier(2, timeout=60), []

    def waiting(*arguments):
        both.wait()
        return real(*arguments)

    path("sm_80")
    monkeypatch.setattr(compiler, "compile_cubin", waiting)
    kernels = [(PLAN.source, PLAN.constants, architecture) for architecture in ("sm_80", "sm_89", "sm_90")]
    assert cache.fill_cache(kernels, lambda *counts: reports.append(counts)) == 2
    assert reports == [(1, 2), (2, 2)]
    assert all(cache.is_cached(*kernel) for kernel in kernels)
    assert cache.fill_cache(kernels) == 0


def test_a_kernel_that_does_not_compile_is_reported_from_among_others():
    wrong = (PLAN.source, (*PLAN.constants, ("INDEX", "nothing")), "sm_90")
    with pytest.raises(compiler.CompileError, match="nothing"):
        cache.fill_cache([(PLAN.source, PLAN.constants, "sm_90"), wrong])
    assert cache.is_cached(PLAN.source, PLAN.constants, "sm_90")


def test_no_temporary_files_stay(folder):
    path()
    assert sorted(file.suffix for file in folder.iterdir()) == [".cubin", ".nvrtc"]


@pytest.mark.parametrize("before", [None, b"cut off"], ids=["empty", "damaged"])
def test_processes_that_fill_the_cache_at_once_agree(folder, before):
    if before:
        path().write_bytes(before)
    code = f"from cudml.cuda import cache; print(cache.cubin_path({PLAN.source!r}, {PLAN.constants!r}, 'sm_90'))"
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    found = {process.communicate(timeout=120)[0].strip() for process in started}
    assert found == {str(path())}
    assert cache.is_cached(PLAN.source, PLAN.constants, "sm_90")
    assert len(list(folder.glob("*.cubin"))) == 1


_COMPILES_IN_THREADS = f"""
import cupy, threading
from concurrent.futures import ThreadPoolExecutor
from cudml.cuda import compiler, sources
sources.headers(), sources.source({PLAN.source!r})
start = threading.Barrier(8)
def compile(_):
    start.wait()
    return compiler.compile_cubin({PLAN.source!r}, {PLAN.constants!r}, "sm_90")
with ThreadPoolExecutor(8) as pool:
    print(len(set(pool.map(compile, range(8)))))
"""


def test_threads_of_a_process_that_compiles_nothing_yet_may_begin_at_once():
    """Without the lock most processes fail, so three of them do not pass by chance."""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", _COMPILES_IN_THREADS], capture_output=True, text=True, timeout=120)
        assert done.stdout.strip() == "1", done.stderr


def test_a_reader_sees_a_file_as_a_whole_or_not_at_all(folder):
    """One thread writes the same file over and over, another looks."""
    whole = path().read_bytes()[:-32]
    writing = threading.Thread(target=lambda: [files.write_whole(path(), whole) for _ in range(300)])
    writing.start()
    while writing.is_alive():
        assert cache.is_cached(PLAN.source, PLAN.constants, "sm_90")
    writing.join()


def test_the_users_folder_is_the_default(monkeypatch):
    monkeypatch.delenv("CUDML_CACHE_DIR")
    assert cache.cache_folder().name in ("cudml", "cache")
