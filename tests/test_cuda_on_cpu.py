"""The CPU executor: values of realistic kernels, refusals, reproducible schedules, reports of what never ends."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_cpu import (
    CompileError,
    KernelFault,
    LaunchError,
    Module,
    Schedule,
    Unsupported,
    device_array,
    requirement,
    schedules,
)
from cuda_on_cpu.schedule import IN_ORDER, REVERSED

if requirement():
    pytest.skip(f"kernels cannot run on this CPU: {requirement()}", allow_module_level=True)

KERNELS = Path(__file__).parent / "cuda_on_cpu" / "kernels"
SCHEDULES = schedules(5)
EPSILON = float(np.finfo(np.float32).eps)

fast_and_checking = pytest.mark.parametrize("checking", [False, True], ids=["fast", "checking"])
int_and_float = pytest.mark.parametrize("dtype", [np.int32, np.float32], ids=["int", "float"])


def module(file: str, checking: bool = True, **constants: Any) -> Module:
    return Module(KERNELS / file, constants=tuple((k, str(v)) for k, v in constants.items()), checking=checking)


def c_type(dtype: type) -> str:
    return {np.int32: "int", np.float32: "float"}[dtype]


def some_values(count: int, dtype: type, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng([count, seed])
    return (
        random.integers(-100, 100, count).astype(dtype)
        if dtype is np.int32
        else random.normal(3, 2, count).astype(dtype)
    )


def assert_sums(result: np.ndarray, values: np.ndarray, exact: np.ndarray, additions: int) -> None:
    """Integers must be equal; floats may be off by one rounding per addition on the way to each sum."""
    if values.dtype.kind == "i":
        np.testing.assert_array_equal(result, exact)
    else:
        bound = additions * EPSILON * np.cumsum(np.abs(values.astype(np.float64)))
        assert np.all(np.abs(result - exact) <= (bound if np.ndim(exact) else bound[-1]))


# ----------------------------------------------------------------------------------------------------------------------
# Values of realistic kernels


@fast_and_checking
@int_and_float
@pytest.mark.parametrize("count", [1, 127, 128, 129, 5 * 128 + 7, 40 * 128])
def test_chained_scan(count, dtype, checking):
    scan = module("chained_scan.cu", checking, VALUE=c_type(dtype), THREADS=64, ITEMS=2).kernel("chained_scan")
    tiles = -(-count // 128)
    values = some_values(count, dtype)
    for schedule in SCHEDULES:
        result = device_array(np.zeros(count, dtype))
        states, ticket = device_array(np.zeros(tiles, np.uint64)), device_array(np.zeros(1, np.uint32))
        arguments = (device_array(values), result, states, ticket, np.int32(count))
        scan(tiles, 64, arguments, schedule=schedule)
        assert_sums(result, values, np.cumsum(values, dtype=np.float64), additions=tiles + 32)


class TileStream:
    """Launches of tile_stream.cu with one set of constants."""

    def __init__(self, dtype: type, checking: bool, workers: int, vectors: int, stages: int, ahead: int):
        constants = {"WORKERS": workers, "VECTORS": vectors, "STAGES": stages, "AHEAD": ahead}
        self.tile = workers * vectors * 128
        self.threads = (workers + 2) * 32
        self.shared_bytes = stages * self.tile * 4
        self.kernel = module("tile_stream.cu", checking, VALUE=c_type(dtype), **constants).kernel("tile_stream")

    def __call__(self, values: np.ndarray, blocks: int, schedule: Schedule) -> np.ndarray:
        published = device_array(np.zeros(-(-values.size // self.tile), np.uint64))
        published.fill(1 << 32)  # what an earlier launch left behind
        result = device_array(np.zeros_like(values))
        arguments = (device_array(values), result, published, np.uint32(2), np.int32(values.size))
        self.kernel(
            blocks, self.threads, arguments, shared_bytes=self.shared_bytes, cooperative=True, schedule=schedule
        )
        return np.array(result)


@fast_and_checking
@int_and_float
@pytest.mark.parametrize("constants", [(2, 1, 3, 1), (1, 2, 2, 1), (3, 1, 4, 2)])
def test_tile_stream(constants, dtype, checking):
    stream = TileStream(dtype, checking, *constants)
    for count in (1, stream.tile - 1, stream.tile, stream.tile + 1, 7 * stream.tile + 5):
        values = some_values(count, dtype)
        for schedule in SCHEDULES:
            result = stream(values, 3, schedule)
            assert_sums(result, values, np.cumsum(values, dtype=np.float64), additions=count // stream.tile + 32)


def test_tile_stream_is_bitwise_the_same_for_every_number_of_blocks_and_schedule():
    stream = TileStream(np.float32, False, 2, 1, 3, 1)
    values = some_values(70 * stream.tile + 9, np.float32)
    results = {stream(values, blocks, schedule).tobytes() for blocks in (1, 2, 7) for schedule in SCHEDULES}
    assert len(results) == 1
    assert_sums(
        np.frombuffer(results.pop(), np.float32), values, np.cumsum(values, dtype=np.float64), additions=72 + 32
    )


@fast_and_checking
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("count", [1, 255, 256, 257, 1000])
def test_staged_copy(count, blocks, checking):
    kernel = module("staged_copy.cu", checking).kernel("staged_copy")
    values = some_values(count, np.int32)
    for schedule in SCHEDULES:
        result = device_array(np.zeros(count, np.int32))
        kernel(blocks, 64, (device_array(values), result, np.int32(count)), schedule=schedule)
        exact = np.concatenate([values[tile : tile + 256][::-1] for tile in range(0, count, 256)])
        np.testing.assert_array_equal(result, exact)


@fast_and_checking
@int_and_float
@pytest.mark.parametrize("count", [0, 1, 31, 5000])
def test_last_block_sum(count, dtype, checking):
    kernel = module("last_block_sum.cu", checking, VALUE=c_type(dtype)).kernel("last_block_sum")
    values = some_values(count, dtype)
    finished = device_array(np.zeros(1, np.uint32))
    for schedule in SCHEDULES:
        result = device_array(np.full(1, 77, dtype))
        partial = device_array(np.zeros(7, dtype), uninitialised=True)
        kernel(7, 96, (device_array(values), partial, finished, result, np.int32(count)), schedule=schedule)
        assert finished[0] == 0
        assert_sums(result[0], np.append(values, dtype(0)), values.sum(dtype=np.float64), additions=32)


@fast_and_checking
def test_block_sums_one_after_the_other(checking):
    kernel = module("last_block_sum.cu", checking, VALUE="int").kernel("moments")
    values = some_values(1000, np.int32)
    for schedule in SCHEDULES:
        result = device_array(np.zeros(2, np.int32))
        kernel(1, 256, (device_array(values), result, np.int32(1000)), schedule=schedule)
        assert list(result) == [values.sum(), (values**2).sum()]


@fast_and_checking
def test_grid_mean(checking):
    kernel = module("grid_mean.cu", checking).kernel("grid_mean")
    values = some_values(1500, np.float32)
    for schedule in SCHEDULES:
        result, sums = device_array(values), device_array(np.zeros(5), uninitialised=True)
        kernel(5, 64, (result, sums, np.int32(1500)), cooperative=True, schedule=schedule)
        np.testing.assert_allclose(result, values - values.mean(dtype=np.float64), rtol=EPSILON, atol=1e-12)


@fast_and_checking
def test_tiles_of_a_warp(checking):
    kernel = module("grid_mean.cu", checking).kernel("sums_of_eight")
    values = some_values(256, np.int32)
    for schedule in SCHEDULES:
        result = device_array(np.zeros(32, np.int32))
        kernel(2, 128, (device_array(values), result), schedule=schedule)
        np.testing.assert_array_equal(result, values.reshape(-1, 8).sum(axis=1))


@fast_and_checking
def test_cluster_histogram(checking):
    kernel = module("cluster_histogram.cu", checking).kernel("cluster_histogram")
    values = np.random.default_rng(0).integers(0, 200, 2000).astype(np.uint32)
    for schedule in SCHEDULES:
        result = device_array(np.zeros(200, np.uint32))
        arguments = (device_array(values), result, np.int32(2000), np.uint32(50))
        kernel(8, 64, arguments, shared_bytes=200, schedule=schedule)
        np.testing.assert_array_equal(result, np.bincount(values, minlength=200))


def test_coordinates_in_three_dimensions():
    out = device_array(np.zeros((2 * 3 * 2 * 4 * 2 * 3, 3), np.uint32))
    module("faults.cu").kernel("coordinates")((2, 3, 2), (4, 2, 3), (out,))
    assert {tuple(point) for point in np.array(out)} == {
        (x, y, z) for x in range(8) for y in range(6) for z in range(6)
    }
    assert tuple(out[-1]) == (7, 5, 5)


def test_values_and_structs_are_handed_over():
    faults = module("faults.cu")
    out = device_array(np.zeros(4, np.int32))
    faults.kernel("takes_values")(1, 1, (out, np.int8(-5), np.int64(7 << 32), np.float32(1.5), np.float64(0.25)))
    assert list(out) == [-5, 7, 3, 1]
    geometry = np.array((3, 4, 1 << 40), dtype=[("rows", "i4"), ("columns", "i4"), ("stride", "i8")])[()]
    out = device_array(np.zeros(1, np.int64))
    faults.kernel("takes_struct")(1, 1, (out, geometry))
    assert out[0] == (3 << 40) + 4


def test_cluster_of_the_source():
    out = device_array(np.zeros(6, np.uint32))
    module("faults.cu").kernel("pairs_of_blocks")(6, 32, (out,))
    assert list(out) == [20, 21] * 3


# ----------------------------------------------------------------------------------------------------------------------
# The same sources on a GPU

WITHOUT_TOOLKIT = sorted(path for path in KERNELS.glob("*.cu") if "#include <" not in path.read_text())


@pytest.mark.parametrize("bug", [0, 1])
@pytest.mark.parametrize("path", WITHOUT_TOOLKIT, ids=lambda path: path.stem)
def test_sources_compile_for_a_gpu(path, bug):
    nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="CuPy, which binds NVRTC, is not installed")
    headers = {header.name.encode(): header.read_bytes() for header in KERNELS.glob("*.cuh")}
    program = nvrtc.createProgram(path.read_text(), path.name, list(headers.values()), list(headers))
    try:
        nvrtc.compileProgram(program, ("-arch=sm_90", "-std=c++17", f"-I{KERNELS}", f"-DBUG={bug}"))
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    finally:
        nvrtc.destroyProgram(program)


# ----------------------------------------------------------------------------------------------------------------------
# Refusals


OUT = np.zeros(64, np.int32)
COUNT = np.int32(64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "argument"),
        ((OUT,), "argument"),
        ((OUT, COUNT, COUNT), "argument"),
        ((OUT, np.int64(5)), "argument 1"),
        ((OUT, np.float32(5)), "argument 1"),
        ((OUT, OUT), "argument 1"),
        ((OUT, None), "argument 1"),
        ((COUNT, COUNT), "argument 0"),
        ((OUT, 5), "argument 1"),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    kernel = module("faults.cu").kernel("write_to")
    arguments = tuple(device_array(a) if isinstance(a, np.ndarray) else a for a in arguments)
    with pytest.raises(LaunchError, match=message):
        kernel(1, 1, arguments)


def test_arrays_of_the_host_are_refused():
    with pytest.raises(LaunchError, match=r"argument 0 .*device array"):
        module("faults.cu").kernel("write_to")(1, 1, (np.zeros(64, np.int32), COUNT))


def test_struct_of_another_size_is_refused():
    geometry = np.array((3, 4), dtype=[("rows", "i4"), ("columns", "i4")])[()]
    with pytest.raises(LaunchError, match="argument 1"):
        module("faults.cu").kernel("takes_struct")(1, 1, (device_array(np.zeros(1, np.int64)), geometry))


@pytest.mark.parametrize(
    ("grid", "block", "options", "message"),
    [
        (0, 32, {}, "grid"),
        ((1, 0), 32, {}, "grid"),
        ((1, 65536), 32, {}, "65535"),
        ((1, 1, 65536), 32, {}, "65535"),
        (2**31, 32, {}, "grid"),
        (1, 0, {}, "block"),
        (1, 1025, {}, "1024"),
        (1, (32, 32, 2), {}, "1024"),
        (1, (1, 1, 65), {}, "64"),
        ((1, 1, 1, 1), 32, {}, "grid"),
        (6, 32, {"cluster": 4}, "multiple"),
        ((4, 3), 32, {"cluster": (2, 2)}, "multiple"),
        (17, 32, {"cluster": 17}, "16"),
        (1, 32, {"shared_bytes": 227 * 1024 + 1}, "shared"),
        (1, 32, {"shared_bytes": -1}, "shared"),
    ],
)
def test_geometry_that_no_gpu_takes(grid, block, options, message):
    kernel = module("faults.cu").kernel("write_to")
    with pytest.raises(LaunchError, match=message):
        kernel(grid, block, (device_array(OUT), COUNT), **options)


def test_static_and_dynamic_shared_memory_count_together():
    kernel = Module(KERNELS / "faults.cu", names=("shared_of_both_kinds",)).kernel("shared_of_both_kinds")
    out = device_array(OUT)
    kernel(1, 64, (out,), shared_bytes=227 * 1024 - 4096)
    assert list(out) == [3] * 64
    with pytest.raises(LaunchError, match="shared"):
        kernel(1, 64, (out,), shared_bytes=227 * 1024 - 4096 + 4)


def test_cluster_other_than_the_source_says():
    with pytest.raises(LaunchError, match="cluster"):
        module("faults.cu").kernel("pairs_of_blocks")(8, 32, (device_array(np.zeros(8, np.uint32)),), cluster=4)


def test_grid_barrier_needs_a_cooperative_launch():
    arguments = (device_array(np.ones(100, np.float32)), device_array(np.zeros(2)), np.int32(100))
    with pytest.raises(KernelFault, match="not cooperative"):
        module("grid_mean.cu").kernel("grid_mean")(2, 64, arguments)


def test_kernel_that_the_source_does_not_have():
    with pytest.raises(LaunchError, match="no_such_kernel"):
        module("faults.cu").kernel("no_such_kernel")(1, 1, ())


def test_source_that_does_not_exist():
    with pytest.raises(FileNotFoundError, match=r"no_such_file\.cu"):
        Module(KERNELS / "no_such_file.cu")


REFUSED = {
    "intrinsic that the executor lacks": ("out[0] = __nonexistent_intrinsic(3);", "__nonexistent_intrinsic"),
    "inline PTX": ('asm volatile("membar.gl;");', r"PTX.*intrinsics\.cuh"),
    "error of syntax": ("out[0] = ;", r"kernel\.cu:2"),
    "tensor map": ("CUtensorMap map;", "CUtensorMap"),
}


@pytest.mark.parametrize(("statement", "message"), REFUSED.values(), ids=REFUSED)
def test_sources_that_are_refused(tmp_path, statement, message):
    path = tmp_path / "kernel.cu"
    path.write_text(f'extern "C" __global__ void kernel(int* out) {{\n{statement}\n}}\n')
    with pytest.raises((Unsupported, CompileError), match=message):
        Module(path).kernel("kernel")(1, 1, (device_array(OUT),))


@pytest.mark.parametrize("header", ["cuda/barrier", "cuda_runtime.h", "cub/cub.cuh", "mma.h"])
def test_headers_of_the_toolkit_are_refused_by_name(tmp_path, header):
    path = tmp_path / "kernel.cu"
    path.write_text(f'#include <{header}>\nextern "C" __global__ void kernel(int* out) {{ out[0] = 1; }}\n')
    with pytest.raises((Unsupported, CompileError), match=re.escape(header)):
        Module(path).kernel("kernel")(1, 1, (device_array(OUT),))


# ----------------------------------------------------------------------------------------------------------------------
# Schedules


def order_of_threads(schedule: Schedule, checking: bool = False, blocks: int = 6, threads: int = 64) -> list[int]:
    order, ticket = device_array(np.zeros(blocks * threads, np.int32)), device_array(np.zeros(1, np.uint32))
    module("faults.cu", checking).kernel("order_of_threads")(blocks, threads, (order, ticket), schedule=schedule)
    return order.tolist()


@fast_and_checking
def test_schedule_is_a_function_of_its_seed(checking):
    orders = [order_of_threads(Schedule("random", seed=seed), checking) for seed in range(8)]
    assert orders == [order_of_threads(Schedule("random", seed=seed), checking) for seed in range(8)]
    assert len({tuple(order) for order in orders}) == 8
    assert all(sorted(order) == list(range(6 * 64)) for order in orders)


@fast_and_checking
def test_in_order_begins_with_the_first_block_and_reversed_with_the_last(checking):
    assert order_of_threads(IN_ORDER, checking)[0] // 64 == 0
    assert order_of_threads(REVERSED, checking)[0] // 64 == 5


def test_random_schedules_interleave_blocks():
    blocks = np.array(order_of_threads(Schedule("random", seed=0))) // 64
    assert np.count_nonzero(np.diff(blocks)) > 6


def fault_of(bug: Module, schedule: Schedule) -> str:
    flags, out = device_array(np.zeros(8, np.uint64)), device_array(np.zeros(512, np.int32))
    with pytest.raises(KernelFault) as caught:
        bug.kernel("shared_histogram")(4, 128, (out, flags), schedule=schedule)
    return str(caught.value)


def test_failure_comes_back_with_its_seed():
    bug = module("idioms_order.cu", BUG=1)
    faults = [fault_of(bug, schedule) for schedule in schedules(14)]
    assert faults == [fault_of(bug, schedule) for schedule in schedules(14)]
    assert len(set(faults)) > 6


def test_too_little_memory_for_the_checks_is_a_fault_and_no_crash():
    script = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
from cuda_on_cpu import KernelFault, Module, device_array
kernel = Module({str(KERNELS / "primitives.cu")!r}, checking=True, names=("shuffles",)).kernel("shuffles")
arrays = device_array(np.zeros((32, 8))), device_array(np.zeros(1 << 24))
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
try:
    kernel(1, 32, arrays)
except KernelFault as fault:
    print(fault)
kernel(1, 32, (arrays[0], device_array(np.ones(32))))
print(arrays[0].sum())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "no memory for the checks of" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == str(32.0 * 8)  # the next launch is none the worse


def test_failure_names_place_threads_kernel_and_schedule():
    message = fault_of(module("idioms_order.cu", BUG=1), Schedule("random", seed=5))
    line = next(
        i
        for i, text in enumerate((KERNELS / "idioms_order.cu").read_text().splitlines(), 1)
        if "atomicAdd(&bins" in text
    )
    assert f"idioms_order.cu:{line}" in message
    for pattern in ("bins", r"block \(?\d", r"thread \(?\d", "shared_histogram", "random:5"):
        assert re.search(pattern, message), (pattern, message)


def test_schedules_that_do_not_exist():
    with pytest.raises(ValueError, match="sideways"):
        Schedule("sideways")


# ----------------------------------------------------------------------------------------------------------------------
# What never ends, and what the processor refuses


def fault(name: str, block: int, *arguments: Any, grid: int = 1, checking: bool = False, **options: Any) -> str:
    with pytest.raises(KernelFault) as caught:
        module("faults.cu", checking).kernel(name)(grid, block, arguments, **options)
    message = str(caught.value)
    assert name in message
    return message


@fast_and_checking
@pytest.mark.parametrize("schedule", SCHEDULES[:3], ids=str)
class TestNeverEnding:
    def test_endless_loop(self, schedule, checking):
        message = fault("endless_loop", 1, device_array(OUT), checking=checking, schedule=schedule, timeout_s=1)
        assert "no end after 1 s" in message or "livelock" in message

    def test_endless_loop_in_registers(self, schedule, checking):
        message = fault(
            "endless_arithmetic", 1, device_array(OUT), np.uint32(2), checking=checking, schedule=schedule, timeout_s=1
        )
        assert "no end after 1 s" in message
        assert re.search(r"faults\.cu:\d+", message)

    def test_livelock(self, schedule, checking):
        message = fault(
            "livelock", 64, device_array(np.zeros(1, np.uint32)), grid=3, checking=checking, schedule=schedule
        )
        assert "livelock" in message
        assert re.search(r"load.*faults\.cu:\d+", message)

    def test_blocks_that_wait_for_each_other(self, schedule, checking):
        flags = device_array(np.zeros(2, np.uint32))
        message = fault("mutual_wait", 1, flags, grid=2, checking=checking, schedule=schedule)
        assert "livelock" in message
        assert "block (0,0,0)" in message
        assert "block (1,0,0)" in message

    def test_threads_that_wait_at_different_barriers(self, schedule, checking):
        message = fault(
            "crossed_barriers", 64, device_array(np.zeros(1, np.uint32)), checking=checking, schedule=schedule
        )
        assert re.search("deadlock|livelock", message)
        assert "mbarrier_try_wait" in message
        assert "__syncthreads" in message


@fast_and_checking
class TestProcessorFaults:
    def test_stack_overflow(self, checking):
        assert "stack overflow" in fault("stack_overflow", 1, device_array(OUT), checking=checking)

    def test_integer_division_by_zero(self, checking):
        message = fault("divide", 32, device_array(OUT), np.int32(7), np.int32(20), checking=checking)
        assert "division by zero" in message
        assert re.search(r"faults\.cu:\d+", message)
        assert "(20,0,0)" in message

    def test_null_pointer(self, checking):
        message = fault("write_to", 1, None, np.int32(1), checking=checking)
        assert re.search(r"null|\(nil\)", message)
        assert re.search(r"faults\.cu:\d+", message)

    def test_write_beyond_the_end(self, checking):
        message = fault("write_to", 65, device_array(OUT), np.int32(1), checking=checking)
        assert re.search("out of bounds|illegal address|beyond", message)

    def test_read_far_beyond_the_end(self, checking):
        page = device_array(np.zeros(1, np.int32))
        assert re.search(
            "out of bounds|illegal",
            fault("read_from", 1024, device_array(np.zeros(1024, np.int32)), page, checking=checking),
        )

    def test_executor_goes_on_after_a_fault(self, checking):
        for _ in range(3):
            fault("stack_overflow", 1, device_array(OUT), checking=checking)
            out = device_array(OUT)
            module("faults.cu", checking).kernel("write_to")(1, 64, (out, np.int32(5)))
            assert list(out) == [5] * 64
