"""Backends that the suite runs on, and what a run says about those it could not use.

A test that takes the fixture `xp` runs once per backend. To add a backend, write a class like `Host` and list it in
BACKENDS.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import cuda_on_cpu
import numpy as np
import pytest
from cuda_on_cpu.backend import EmulatedBackend

from cudml import driver
from cudml.backend import register


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

    def planned_for(self, **properties: Any) -> AbstractContextManager[None]:
        """A context in which calls are planned for a device with these properties (cudml/plan/device.py)."""
        return nullcontext()


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

    @contextmanager
    def planned_for(self, **properties: Any) -> Iterator[None]:
        from cudml.cuda.backend import BACKEND
        from cudml.cuda.device import properties_of

        before = BACKEND.planned_for
        BACKEND.planned_for = (before or properties_of(self._cupy.cuda.Device().id))._replace(**properties)
        try:
            yield
        finally:
            BACKEND.planned_for = before


class Emulated(Host):
    """Arrays in memory of the CPU executor, computed by the kernels themselves (cuda_on_cpu/README.md)."""

    name = "emulated"
    backend = EmulatedBackend()

    @staticmethod
    def why_unusable() -> str | None:
        return cuda_on_cpu.requirement()

    def __init__(self) -> None:
        register(cuda_on_cpu.DeviceArray, self.backend)

    @classmethod
    def begin(cls, item: pytest.Item) -> None:
        """Every test has schedules of its own, the same in each run."""
        option = item.config.getoption
        cls.backend.checking = option("--checking")
        marker = item.get_closest_marker("schedule")
        fixed = option("--schedule") or (marker and marker.args[0])
        cls.backend.schedules = (
            [cuda_on_cpu.Schedule.parse(fixed)]
            if fixed
            else cuda_on_cpu.schedules(option("--seeds"), zlib.crc32(item.nodeid.encode()) % 1_000_000)
        )

    def asarray(self, values: Any) -> Any:
        return cuda_on_cpu.device_array(values)

    def broadcast_to(self, array: Any, shape: tuple[int, ...]) -> Any:
        strides = np.broadcast_to(array, shape).strides
        return np.lib.stride_tricks.as_strided(array, shape, strides, subok=True)

    @contextmanager
    def planned_for(self, **properties: Any) -> Iterator[None]:
        own = self.backend.device
        self.backend.device = own._replace(**properties)
        try:
            yield
        finally:
            self.backend.device = own


#: The executor takes one in so many tests. With every second one the suite took 22 minutes on two processors, where it
#: takes 16 now.
USUAL_SHARE = 4

BACKENDS: dict[str, Any] = {backend.name: backend for backend in (Host, Cuda, Emulated)}
_NOT_RUN = "cudml_tests_not_run"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend", action="append", choices=list(BACKENDS), help="run only this backend; may be repeated"
    )
    parser.addoption("--seeds", type=int, default=1, help="schedules that each call of backend emulated runs under")
    parser.addoption("--schedule", help='the one schedule of backend emulated, as a failure names it: "random:17"')
    parser.addoption("--checking", action="store_true", help="backend emulated looks for races too")
    parser.addoption("--in-full", action="store_true", help="run all variants on the CPU executor and through NVRTC")
    parser.addoption("--large", action="store_true", help="run the tests that need gigabytes of memory too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "backend(*names): runs on these backends only")
    config.addinivalue_line("markers", "schedule(name): the one that backend emulated takes, as others need minutes")
    config.addinivalue_line(
        "markers", "share(n): the CPU executor takes about one in n of the variants, not four, or all with --in-full"
    )
    config.addinivalue_line("markers", "large: needs gigabytes; runs only with --large, never on backend emulated")
    config.addinivalue_line("markers", "gpus(n): needs so many")
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


def pytest_runtest_setup(item: pytest.Item) -> None:
    if backend_of(item) == Emulated.name:
        Emulated.begin(item)


def backend_of(item: pytest.Item) -> str | None:
    """The backend that a test runs on, if it takes one."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("xp") if callspec else None


def why_not_run(item: pytest.Item, unusable: dict[str, str]) -> str | None:
    """None for a test that runs; `unusable` says of backends why they are."""
    backend = backend_of(item)
    if backend in unusable:
        return f"of backend {backend} not run: {unusable[backend]}"
    gpus = item.get_closest_marker("gpus")
    if gpus and driver.gpu_count() < gpus.args[0]:
        return f"for {gpus.args[0]} GPUs not run: the NVIDIA driver offers fewer"
    if item.get_closest_marker("large") and (not item.config.getoption("--large") or backend == Emulated.name):
        return "of gigabytes not run: --large does, but for backend emulated"
    return "of the CPU executor not run: --in-full does, and takes long" if is_left_to_full_runs(item) else None


def is_left_to_full_runs(item: pytest.Item) -> bool:
    """Most of the executor's time goes into compiling variants; which ones a share has depends on their names alone.

    Other backends take all, as do tests without one that are not marked.
    """
    marker, backend = item.get_closest_marker("share"), backend_of(item)
    if item.config.getoption("--in-full") or backend not in (None, Emulated.name):
        return False
    shares = marker.args[0] if marker else USUAL_SHARE if backend else 1
    return zlib.crc32(item.nodeid.encode()) % shares != 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what cannot run here, and counts it."""
    unusable = {name: reason for name, backend in BACKENDS.items() if (reason := backend.why_unusable())}
    reasons = [why_not_run(item, unusable) for item in items]
    config.hook.pytest_deselected(items=[item for item, reason in zip(items, reasons, strict=True) if reason])
    items[:] = [item for item, reason in zip(items, reasons, strict=True) if not reason]
    config.stash[_counts_key] = dict(Counter(reason for reason in reasons if reason))


_counts_key = pytest.StashKey[dict[str, int]]()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under pytest-xdist only the workers collect: they hand their counts to the process that prints the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_NOT_RUN] = session.config.stash.get(_counts_key, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    node.config.stash[_counts_key] = getattr(node, "workeroutput", {}).get(_NOT_RUN, {})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for reason, count in config.stash.get(_counts_key, {}).items():
        terminalreporter.write_line(f"{count} tests {reason}", yellow=True)
