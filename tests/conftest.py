"""Backends that the suite runs on, and what a run says about those it could not use.

A test that takes the fixture `xp` runs once per backend. To add a backend, write a class like `Host` and list it in
BACKENDS.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cudml import driver


class Host:
    """NumPy arrays, computed by the backend `cpu`."""

    name = "cpu"

    @staticmethod
    def why_unusable() -> str | None:
        """Why this machine cannot run the backend; None when it can."""
        return None

    def asarray(self, values: Any) -> Any:
        """A C-contiguous copy in fresh memory of the backend."""
        return np.array(values, order="C", copy=True)

    def to_numpy(self, array: Any) -> np.ndarray:
        """A copy on the host."""
        return np.array(array)

    def broadcast_to(self, array: Any, shape: tuple[int, ...]) -> Any:
        """A view with stride 0 along the axes that are added or stretched."""
        return np.lib.stride_tricks.as_strided(array, shape, np.broadcast_to(array, shape).strides)

    def pointer(self, array: Any) -> int:
        """The address of the first element."""
        return array.__array_interface__["data"][0]


class Cuda:
    """CuPy arrays, computed by the backend `cuda`."""

    name = "cuda"

    @staticmethod
    def why_unusable() -> str | None:
        if driver.version() is None:
            return "no NVIDIA driver was found"
        if driver.gpu_count() == 0:
            return "the NVIDIA driver offers no GPU"
        try:
            import cupy  # noqa: F401  a GPU that fails later fails its tests
        except ImportError as error:
            return f"CuPy cannot be imported: {error}"
        return None

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy

    def asarray(self, values: Any) -> Any:
        return self._cupy.array(values, order="C", copy=True)

    def to_numpy(self, array: Any) -> np.ndarray:
        return self._cupy.asnumpy(array)

    def broadcast_to(self, array: Any, shape: tuple[int, ...]) -> Any:
        return self._cupy.broadcast_to(array, shape)

    def pointer(self, array: Any) -> int:
        return array.data.ptr


BACKENDS: dict[str, Any] = {backend.name: backend for backend in (Host, Cuda)}
_NOT_RUN = "cudml_tests_not_run"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend", action="append", choices=list(BACKENDS), help="run only this backend; may be repeated"
    )
    parser.addoption("--large", action="store_true", help="run the tests that need gigabytes of memory too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "backend(*names): runs on these backends only")
    config.addinivalue_line("markers", "large: needs gigabytes of memory; runs only with --large")
    for marker in ("slow", "thread_unsafe", "parallel_threads", "iterations", "leaks_references"):
        config.addinivalue_line("markers", f"{marker}: one of the markers in NumPy's own tests, without effect here")
    for name in config.getoption("--backend") or ():
        reason = BACKENDS[name].why_unusable()
        if reason:
            raise pytest.UsageError(f"--backend {name}: {reason}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "xp" in metafunc.fixturenames:
        names = metafunc.config.getoption("--backend") or list(BACKENDS)
        marker = metafunc.definition.get_closest_marker("backend")
        if marker:
            names = [name for name in names if name in marker.args]
        metafunc.parametrize("xp", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def xp(request: pytest.FixtureRequest) -> Any:
    """The backend under test: makes arrays and reads them back."""
    return BACKENDS[request.param]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what cannot run here, and counts it."""
    unusable = {name for name, backend in BACKENDS.items() if backend.why_unusable()}
    kept, left_out, counts = [], [], dict.fromkeys(sorted(unusable), 0)
    for item in items:
        callspec = getattr(item, "callspec", None)
        backend = callspec.params.get("xp") if callspec else None
        if backend in unusable:
            counts[backend] += 1
            left_out.append(item)
        elif item.get_closest_marker("large") and not config.getoption("--large"):
            left_out.append(item)
        else:
            kept.append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
    config.stash[_counts_key] = counts


_counts_key = pytest.StashKey[dict[str, int]]()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under pytest-xdist only the workers collect: they hand their counts to the process that prints the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_NOT_RUN] = session.config.stash.get(_counts_key, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    node.config.stash[_counts_key] = getattr(node, "workeroutput", {}).get(_NOT_RUN, {})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for name, count in config.stash.get(_counts_key, {}).items():
        if count:
            reason = BACKENDS[name].why_unusable()
            terminalreporter.write_line(f"{count} tests of backend {name} not run: {reason}", yellow=True)
