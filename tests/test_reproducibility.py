"""The same bits whatever else the GPU does, however many blocks take part, wherever the arrays lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import cudml

Axes = int | tuple[int, ...]

on_gpu = [pytest.mark.backend("cuda"), pytest.mark.xdist_group("gpu")]

#: By name what is scanned: an assembly line over one line and over rows, linked tiles, columns, segments.
SCANS: dict[str, tuple[tuple[int, ...], int]] = {
    "a line": ((3_000_001,), 0),
    "linked tiles": ((300_001,), 0),
    "rows": ((301, 20_001), 1),
    "columns": ((20_001, 70), 0),
    "narrow columns": ((200_001, 3), 0),
    "columns inside": ((5, 3001, 64), 1),
    "many columns": ((2401, 3200), 0),
    "columns in step": ((150, 240_000), 0),
    "columns in shifted rows": ((4001, 333), 0),
    "columns in wide rows": ((3, 3001, 99), 1),
}

#: Normalizations: blocks that hold a group or strip together, one after the other, and groups that are read twice.
NORMALIZATIONS: dict[str, tuple[tuple[int, ...], Axes]] = {
    "stream": ((5, 400_001), 1),
    "stream of runs": ((10, 3, 50_004), (0, 2)),
    "stream of grains": ((300, 3, 1002), (0, 2)),
    "stream in many pieces": ((3, 800_001), 1),
    "clusters": ((5003, 128), 0),
    "strips": ((52_001, 128), 0),
    "columns of two tiles": ((9001, 128), 0),
    "lines of a group": ((37, 5001), 1),
    "lines of longer groups": ((9, 13_001), 1),
    "tiny images": ((2800, 512, 2, 2), (0, 2, 3)),
    "runs read twice": ((59_054, 2, 20), (0, 2)),
    "groups read twice": ((200_001, 3), 0),
}
CALLS = (*SCANS, *NORMALIZATIONS)


def call_of(name: str, make_small: bool = False) -> tuple[np.ndarray, Callable[[Any], Any]]:
    """The input, and a function of it."""
    shape, axes = (SCANS | NORMALIZATIONS)[name]
    shape = small(shape) if make_small else shape
    if name in SCANS:
        return values(shape), lambda a: cudml.cumsum(a, axis=axes)
    return cancelling(shape, axes), lambda a: cudml.mean_variance_normalization(a, axes=axes)


def on_backend(name: str, xp: Any) -> tuple[np.ndarray, Callable[[Any], Any]]:
    """Values of a size for the backend, and the function."""
    return call_of(name, make_small=xp.name == "emulated")


def small(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A size for the CPU executor, of several tiles still."""
    return tuple(max(2, n // 20) if n > 50_000 else n // 2 if n > 5000 else n // 8 if n > 300 else n for n in shape)


def values(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng([7, *shape]).standard_normal(shape).astype(np.float32)


def cancelling(
    shape: tuple[int, ...], axes: Axes, dtype: str = "float32", exponents: tuple[int, int] = (-16, 8)
) -> np.ndarray:
    """Values of many magnitudes whose sum in each group is 0, so that its mean is nothing but what additions have
    rounded; and some zeros, which are normalized to that. Most sums of other floats in double are the same in any
    order."""
    random = np.random.default_rng([7, *shape])
    axis = max((axes,) if isinstance(axes, int) else axes, key=lambda axis: shape[axis])
    length, *others = shape[axis], *shape[:axis], *shape[axis + 1 :]
    half = random.standard_normal((length // 2, *others))
    half *= np.exp2(random.integers(*exponents, half.shape))
    half[::50] = 0
    rounded = half.astype(dtype)
    both = np.concatenate([rounded, -rounded, np.zeros((length % 2, *others), dtype)])
    return np.ascontiguousarray(np.moveaxis(random.permutation(both), 0, axis))


def bits(xp: Any, array: Any) -> np.ndarray:
    return xp.to_numpy(array).view(np.uint32)


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("name", CALLS)
def test_the_number_of_blocks_has_no_part_in_the_result(name: str, xp: Any):
    source, function = on_backend(name, xp)
    a = xp.asarray(source)
    results = []
    for multiprocessors in (1, 7) if xp.name == "emulated" else (1, 2, 5, 37, 132):
        with xp.planned_for(multiprocessors=multiprocessors):
            results.append(bits(xp, function(a)))
    assert all((result == results[0]).all() for result in results)


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("name", CALLS)
def test_older_gpus_give_the_same_bits(name: str, xp: Any):
    source, function = on_backend(name, xp)
    a = xp.asarray(source)
    expected = bits(xp, function(a))
    for capability, shared_bytes in (((7, 5), 65_536), ((8, 6), 101_376)):
        with xp.planned_for(compute_capability=capability, shared_bytes_per_block=shared_bytes):
            assert (bits(xp, function(a)) == expected).all()


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("name", CALLS)
def test_alignment_and_strides_have_no_part_in_the_result(name: str, xp: Any):
    source, function = on_backend(name, xp)
    expected = bits(xp, function(xp.asarray(source)))
    padded = np.zeros((*source.shape[:-1], source.shape[-1] + 3), np.float32)
    padded[..., 1:-2] = source
    spread = np.repeat(source, 2, axis=-1)
    turned = np.ascontiguousarray(source.T)
    views = (xp.asarray(padded)[..., 1:-2], xp.asarray(spread)[..., ::2], xp.asarray(turned).T)
    for view in views:
        assert (bits(xp, function(view)) == expected).all()


@pytest.mark.parametrize("operation", [cudml.cumsum, cudml.cumprod], ids=lambda operation: operation.__name__)
@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("length", [9001, 12_288, 16_383, 16_384, 20_003])
def test_a_line_of_a_matrix_gives_the_bits_of_that_line_alone(length: int, operation: Callable[..., Any], xp: Any):
    """Of a tile and a few rows more, of two, and of three; and more lines than a GPU has multiprocessors for."""
    matrix = 1 + values((70, length)) / 100
    rows = bits(xp, operation(xp.asarray(matrix), axis=1))
    columns = bits(xp, operation(xp.asarray(np.ascontiguousarray(matrix.T)), axis=0))
    assert (rows == columns.T).all()
    assert (rows[7] == bits(xp, operation(xp.asarray(matrix[7])))).all()


def in_layouts(source: np.ndarray, xp: Any) -> Iterator[tuple[str, Any, Axes]]:
    """By name rows of the source in other places of memory, with the axes of a group."""
    groups, length = source.shape
    turned = np.ascontiguousarray(source.T)
    yield "lines", xp.asarray(source), 1
    yield "padded", xp.asarray(np.pad(source, ((0, 0), (1, 2))))[:, 1:-2], 1
    yield "spread", xp.asarray(np.repeat(source, 2, axis=1))[:, ::2], 1
    yield "columns", xp.asarray(turned), 0
    yield "turned", xp.asarray(turned).T, 1
    for runs in (2, 7, 16):
        if length % runs == 0:
            in_runs = source.reshape(groups, runs, length // runs)
            yield f"{runs} runs", xp.asarray(np.ascontiguousarray(in_runs.transpose(1, 0, 2))), (0, 2)


def in_rows(array: np.ndarray, axes: Axes) -> np.ndarray:
    """A row for each group."""
    kept = 1 if axes in (0, (0, 2)) else 0
    return np.moveaxis(array, kept, 0).reshape(array.shape[kept], -1)


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.share(1)
def test_columns_of_many_groups_of_tiles_give_the_bits_of_lines(xp: Any):
    """The last group follows two blocks of others at the least, of 65536 elements each."""
    sizes = ((3, 2),) if xp.name == "emulated" else ((3, 2), (7, 5), (5, 66))
    for groups, columns in sizes:
        shape, random = (groups * 65_536 + 2048, columns), np.random.default_rng(columns)
        source = random.standard_normal((*shape, 2)).view(np.complex128)[..., 0]
        found = xp.to_numpy(cudml.cumsum(xp.asarray(source), axis=0))
        for column in (0, columns - 1):
            line = cudml.cumsum(xp.asarray(np.ascontiguousarray(source[:, column])))
            assert (found[:, column] == xp.to_numpy(line)).all()


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("groups", [3, 40])
@pytest.mark.parametrize("length", [112, 1000, 3136, 7001, 9001, 17_262, 40_000, 100_002, 200_704])
def test_a_group_is_added_up_the_same_way_wherever_it_lies(length: int, groups: int, dtype: str, xp: Any):
    if xp.name == "emulated" and length * groups > 300_000:
        length = 3 * length // groups  # as many elements as three groups have
    means, outputs = {}, {}
    for name, array, axes in in_layouts(cancelling((groups, length), 1, dtype), xp):
        means[name] = xp.to_numpy(cudml.mean_var(array, axes)[0]).tobytes()
        outputs[name] = in_rows(xp.to_numpy(cudml.mean_variance_normalization(array, axes=axes)), axes).tobytes()
    assert [name for name in means if means[name] != means["lines"]] == []
    assert [name for name in outputs if outputs[name] != outputs["lines"]] == []


#: So many that two units added up in another order show; sums of halves, which have fewer, are the same in any.
MANY_MAGNITUDES = (-40, 40)


@pytest.mark.backend("cuda", "emulated")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shared_bytes", [232_448, 60_000, 24_000], ids=["a block", "a cluster", "tiles"])
def test_small_images_are_added_up_as_lines_are(shared_bytes: int, dtype: str, xp: Any):
    """Of a GPU that they fill, and whose blocks have so much shared memory: neighbouring groups lie in one together."""
    images = cancelling((481, 8, 5, 5), 0, dtype, MANY_MAGNITUDES)
    lines = np.ascontiguousarray(np.moveaxis(images, 1, 0)).reshape(8, -1)
    expected = xp.to_numpy(cudml.mean_variance_normalization(xp.asarray(lines), axes=1))
    with xp.planned_for(multiprocessors=1, shared_bytes_per_block=shared_bytes):
        got = xp.to_numpy(cudml.mean_variance_normalization(xp.asarray(images), axes=(0, 2, 3)))
    assert np.moveaxis(got, 1, 0).tobytes() == expected.tobytes()


@pytest.mark.backend("cuda", "emulated")
def test_moments_of_small_images_are_those_of_lines(xp: Any):
    images = cancelling((1101, 2, 4, 4), 0, exponents=MANY_MAGNITUDES)
    lines = np.ascontiguousarray(np.moveaxis(images, 1, 0)).reshape(2, -1)
    for of_images, of_lines in zip(
        cudml.mean_var(xp.asarray(images), (0, 2, 3)), cudml.mean_var(xp.asarray(lines), 1), strict=True
    ):
        assert xp.to_numpy(of_images).tobytes() == xp.to_numpy(of_lines).tobytes()


class TestUnderLoad:
    pytestmark = on_gpu

    @pytest.mark.parametrize("name", [*CALLS, "segments"])
    def test_a_thousand_runs_agree(self, name: str, xp: Any):
        import cupy

        call = on_gpu_call(name)
        expected = call().view(cupy.uint32)
        different = cupy.zeros((), cupy.int64)
        with busy_streams():
            for _ in range(1000):
                different += (call().view(cupy.uint32) != expected).any()
        assert int(different) == 0

    @pytest.mark.parametrize("names", [SCANS, NORMALIZATIONS, CALLS], ids=["scans", "normalizations", "all"])
    def test_calls_on_several_streams_at_once(self, names: Iterable[str], xp: Any):
        """Blocks that wait for each other must not wait for those of another stream that cannot begin."""
        import cupy

        calls = [on_gpu_call(name) for name in names]
        expected = [call().view(cupy.uint32) for call in calls]
        different = [cupy.zeros((), cupy.int64) for _ in calls]
        cupy.cuda.Device().synchronize()
        streams = [cupy.cuda.Stream(non_blocking=True) for _ in calls]
        for _ in range(30):
            for stream, call, right, count in zip(streams, calls, expected, different, strict=True):
                with stream:  # compared there and then: 30 results of every call would take 9 GB
                    count += (call().view(cupy.uint32) != right).any()
        cupy.cuda.Device().synchronize()
        assert not any(int(count) for count in different)

    @pytest.mark.parametrize("names", [SCANS, NORMALIZATIONS], ids=["scans", "normalizations"])
    def test_a_graph_is_replayed_back_to_back(self, names: Iterable[str], xp: Any):
        import cupy

        calls = [on_gpu_call(name) for name in names]
        expected = [call() for call in calls]
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            for call in calls:
                call()
            stream.begin_capture()
            results = [call() for call in calls]
            graph = stream.end_capture()
            for _ in range(50):
                graph.launch(stream)
            stream.synchronize()
        assert all(bool((a == b).all()) for a, b in zip(results, expected, strict=True))

    def test_scans_end_while_another_kernel_holds_half_of_the_gpu(self, xp: Any):
        import cupy

        calls = [on_gpu_call(name) for name in SCANS]
        expected = [call() for call in calls]
        cupy.cuda.Device().synchronize()
        stream = cupy.cuda.Stream(non_blocking=True)
        with spinning_kernel(cupy.cuda.Device().attributes["MultiProcessorCount"] // 2) as still_spins, stream:
            results = [call() for call in calls]
            stream.synchronize()
            assert still_spins()
        assert all(bool((a == b).all()) for a, b in zip(results, expected, strict=True))

    def test_normalizations_begin_once_another_kernel_leaves_the_gpu_to_them(self, xp: Any):
        """Their blocks run all at the same time or not at all, so those that find room hold nobody up."""
        import cupy

        calls = [on_gpu_call(name) for name in NORMALIZATIONS]
        expected = [call() for call in calls]
        cupy.cuda.Device().synchronize()
        stream = cupy.cuda.Stream(non_blocking=True)
        with spinning_kernel(cupy.cuda.Device().attributes["MultiProcessorCount"] // 2) as still_spins, stream:
            results = [call() for call in calls]
            assert still_spins(), "a call waited for the GPU"
        assert all(bool((a == b).all()) for a, b in zip(results, expected, strict=True))


def on_gpu_call(name: str) -> Callable[[], Any]:
    """A call whose result is a flat array of float32."""
    import cupy

    if name == "segments":
        a = cupy.asarray(values((2_000_003,)))
        offsets = cupy.asarray(np.unique(np.r_[0, np.random.default_rng(3).integers(0, a.size, 5000), a.size]))
        return lambda: cudml.segmented_cumsum(a, offsets)
    source, function = call_of(name)
    a = cupy.asarray(source)
    return lambda: function(a).ravel()


@contextmanager
def busy_streams() -> Iterator[None]:
    """Two other streams copy and compute all the while."""
    import cupy

    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    arrays = [cupy.ones(1 << 24, cupy.float32) for _ in streams]
    for stream, array in zip(streams, arrays, strict=True):
        with stream:
            for _ in range(3000):
                array *= 1.0001
    yield
    for stream in streams:
        stream.synchronize()


SPIN = r"""
extern "C" __global__ void spin(volatile int* stop) {
    extern __shared__ int most_of_it[];
    most_of_it[threadIdx.x] = 0;
    const long long start = clock64();
    while (*stop == 0 && clock64() - start < 20000000000) {}  // ten seconds, so that calls that wait fail
    atomicAdd(const_cast<int*>(stop), 1);
}
"""


@contextmanager
def spinning_kernel(blocks: int) -> Iterator[Callable[[], bool]]:
    """A kernel of blocks that leave no room beside them, until the context ends; gives whether it still runs."""
    import cupy

    kernel = cupy.RawKernel(SPIN, "spin")
    shared_bytes = cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
    kernel.max_dynamic_shared_size_bytes = shared_bytes
    stop = cupy.zeros((), cupy.int32)
    cupy.cuda.Device().synchronize()
    spinning, setting = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with spinning:
        kernel((blocks,), (1024,), (stop,), shared_mem=shared_bytes)
    started = cupy.cuda.Event()
    started.record(spinning)
    try:
        yield lambda: not started.done
    finally:
        one = np.array(1, np.int32)
        cupy.cuda.runtime.memcpyAsync(
            stop.data.ptr, one.ctypes.data, 4, cupy.cuda.runtime.memcpyHostToDevice, setting.ptr
        )
        cupy.cuda.Device().synchronize()
