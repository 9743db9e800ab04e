"""How calls are timed: on the GPU by events, on the host for dry runs by the clock."""

from __future__ import annotations

import importlib
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from benchmarks import peers
from benchmarks.case import Call

REPEATS = 12
#: No measurement may take much longer than this; slow calls are repeated less.
SECONDS_PER_MEASUREMENT = 0.2
#: Calls that keep the GPU busy for longer than this are hopeless; they are made once.
SLOW_SECONDS = 0.1
#: Small calls are measured over so many sets of buffers, one after the other, that the caches do not help.
ROTATIONS = 32

BARE_KERNEL = 'extern "C" __global__ void bare(const float* x, float* out, int n) { if (n < 0) *out = *x; }'

#: Four loads of 16 bytes for each thread. A sum is kept only if it has one value of 2^32, or nothing would be read.
READING_KERNEL = r"""
extern "C" __global__ void __launch_bounds__(512) reading(const uint4* words, unsigned* out, long long count) {
    const long long first = blockIdx.x * 2048ll + threadIdx.x;
    uint4 word[4] = {};
#pragma unroll
    for (int k = 0; k < 4; k++) if (first + 512 * k < count) word[k] = words[first + 512 * k];
    unsigned sum = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) sum += word[k].x + word[k].y + word[k].z + word[k].w;
    if (sum == 0x9e3779b9) *out = sum;
}
"""
_READ_BY_BLOCK = 2048 * 16

#: The driver clears memory that was freed, in the background: 4 GiB in 8 ms, in which copies are slower by a tenth.
_CLEARED_PER_SECOND = 1 << 38

_SCRAMBLER = 0x9E3779B97F4A7C15  # an odd number of irregular bits

_HOST_ROUNDS = 25
_HOST_CALLS = 500


class Device(Protocol):
    """What the runner needs of a device."""

    @property
    def xp(self) -> Any:
        """The module of its arrays: NumPy or CuPy."""

    def facts(self) -> dict[str, str]:
        """The values of gpu, driver, cuda and cupy in the results."""

    def copy(self, nbytes: int) -> Call:
        """A copy that reads and writes `nbytes` in all."""

    def read(self, nbytes: int) -> Call:
        """A sum that reads `nbytes`."""

    def milliseconds(self, calls: Sequence[Call]) -> float:
        """The device's time of one of these calls, median of several, after a warm-up."""

    def host_microseconds(self, calls: Sequence[Call]) -> list[float]:
        """The host's time of each call among many that are enqueued back to back."""

    def bare_launch(self) -> Call:
        """The least that a call could be: the launch of a CuPy RawKernel."""

    def free_memory(self) -> None:
        """Gives cached memory back, and returns when that disturbs no measurement any more."""


class Gpu:
    """Times on a stream of its own, so that work can be captured into graphs."""

    def __init__(self) -> None:
        self.xp = importlib.import_module("cupy")
        self._cuda = self.xp.cuda
        self._stream = self._cuda.Stream(non_blocking=True)
        self._stream.use()

    def facts(self) -> dict[str, str]:
        runtime = self._cuda.runtime
        version = runtime.runtimeGetVersion()
        return {
            "gpu": runtime.getDeviceProperties(self._cuda.Device().id)["name"].decode(),
            "driver": _driver_version() or str(runtime.driverGetVersion()),
            "cuda": f"{version // 1000}.{version % 1000 // 10}",
            "cupy": self.xp.__version__,
        }

    def copy(self, nbytes: int) -> Call:
        source = self._data(nbytes // 2)
        target = self.xp.empty_like(source)
        pointers, size, stream = (target.data.ptr, source.data.ptr), nbytes // 2, self._stream.ptr
        kind, enqueue = self._cuda.runtime.memcpyDeviceToDevice, self._cuda.runtime.memcpyAsync

        def copy(_keep_alive: Any = (source, target)) -> None:
            enqueue(*pointers, size, kind, stream)

        return copy

    def read(self, nbytes: int) -> Call:
        words, out, count = self._data(nbytes), self.xp.empty((), "u4"), np.int64(nbytes // 16)
        kernel = self.xp.RawKernel(READING_KERNEL, "reading")
        blocks = -(-nbytes // _READ_BY_BLOCK)
        return lambda: kernel((blocks,), (512,), (words, out, count))

    def _data(self, nbytes: int) -> Any:
        """At least so many bytes, and not zeros, which memory may move faster than data."""
        return self.xp.arange(nbytes // 8 + 1, dtype=self.xp.uint64) * self.xp.uint64(_SCRAMBLER)

    def milliseconds(self, calls: Sequence[Call]) -> float:
        """Large calls are timed one by one. Small ones are captured into a graph and replayed, so that the time of
        the host and of launches one by one is left out."""
        _, busy = self._seconds(calls[0])
        if busy > SLOW_SECONDS:
            return busy * 1e3
        second = sum(self._seconds(calls[0]))
        if second > SLOW_SECONDS:
            return second * 1e3
        second = min(second, sum(self._seconds(calls[0])))  # so that what disturbs a call takes no repeats
        _outputs_at_once(calls[1:])
        sequence = calls[0] if len(calls) == 1 else self._sequence(calls)
        repeats = round(SECONDS_PER_MEASUREMENT / second / len(calls))
        return self._median(sequence, min(max(repeats, 3), REPEATS)) / len(calls)

    def host_microseconds(self, calls: Sequence[Call]) -> list[float]:
        """Medians of rounds in which all take turns: others slow a host down for seconds, by up to a half."""
        rounds = [[self._host_seconds(call) for call in calls] for _ in range(_HOST_ROUNDS)]
        return [statistics.median(seconds) * 1e6 for seconds in zip(*rounds, strict=True)]

    def _host_seconds(self, call: Call) -> float:
        self._stream.synchronize()
        start = time.perf_counter()
        for _ in range(_HOST_CALLS):
            call()
        return (time.perf_counter() - start) / _HOST_CALLS

    def bare_launch(self) -> Call:
        kernel = self.xp.RawModule(code=BARE_KERNEL).get_function("bare")
        x, out = self.xp.ones((2, 32, 64), "f4")
        return lambda: kernel((32,), (128,), (x, out, np.int32(1)))

    def free_memory(self) -> None:
        self._stream.synchronize()
        free, _ = self._cuda.runtime.memGetInfo()
        self.xp.get_default_memory_pool().free_all_blocks()
        peers.free_memory()
        freed = self._cuda.runtime.memGetInfo()[0] - free
        time.sleep(max(freed, 0) / _CLEARED_PER_SECOND)

    def _seconds(self, call: Call) -> tuple[float, float]:
        """The host's time until the call returned, in which it may compile something, and that of waiting since."""
        self._stream.synchronize()
        start = time.perf_counter()
        call()
        returned = time.perf_counter()
        self._stream.synchronize()
        return returned - start, time.perf_counter() - returned

    def _median(self, call: Call, repeats: int) -> float:
        pairs = [(self._cuda.Event(), self._cuda.Event()) for _ in range(repeats)]
        for start, end in pairs:  # without waiting in between, so that the host stays ahead of the GPU
            start.record(self._stream)
            call()
            end.record(self._stream)
        self._stream.synchronize()
        return statistics.median(self._cuda.get_elapsed_time(start, end) for start, end in pairs)

    def _sequence(self, calls: Sequence[Call]) -> Call:
        """All calls as one: a graph, or a plain loop for libraries that cannot be captured."""
        self._stream.synchronize()
        self._stream.begin_capture()
        failure: Exception | None = None
        outputs: list[Any] = []
        try:
            outputs = _outputs_at_once(calls)
        except Exception as error:  # a capture has to be ended whatever went wrong
            failure = error
        try:
            graph = self._stream.end_capture()
        except self._cuda.runtime.CUDARuntimeError as error:
            failure = error
        if failure is None:
            return partial(self._replay, graph, outputs)
        print(f"    not captured in a graph, so the host's time counts too: {failure}")
        return lambda: [call() for call in calls]

    def _replay(self, graph: Any, _keep_alive: list[Any]) -> None:
        graph.launch(self._stream)


class Host:
    """NumPy and the clock: shows that the cases, the runner and the report work, and measures nothing of interest."""

    xp = np

    def facts(self) -> dict[str, str]:
        return {"gpu": f"none ({platform.machine()})", "driver": "none", "cuda": "none", "cupy": "none"}

    def copy(self, nbytes: int) -> Call:
        source = np.zeros(nbytes // 2, np.uint8)
        target = np.empty_like(source)
        return lambda: np.copyto(target, source)

    def read(self, nbytes: int) -> Call:
        return np.zeros(nbytes, np.uint8).sum

    def milliseconds(self, calls: Sequence[Call]) -> float:
        start = time.perf_counter()
        for call in calls:
            call()
        return (time.perf_counter() - start) * 1e3 / len(calls)

    def host_microseconds(self, calls: Sequence[Call]) -> list[float]:
        return [self.milliseconds([call]) * 1e3 for call in calls]

    def bare_launch(self) -> Call:
        return lambda: None

    def free_memory(self) -> None:
        """NumPy caches nothing."""


def _outputs_at_once(calls: Sequence[Call]) -> list[Any]:
    """What the calls return, none of it in memory that another one's result has left."""
    return [call() for call in calls]


def _driver_version() -> str | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    return answer.stdout.splitlines()[0].strip() if answer.returncode == 0 and answer.stdout else None
