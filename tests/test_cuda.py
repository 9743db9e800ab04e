"""What only a GPU can show: streams, graphs, waiting, sizes beyond 32 bits."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import cudml
from cudml import dml

pytestmark = [pytest.mark.backend("cuda"), pytest.mark.xdist_group("gpu")]

SPIN = r"""
extern "C" __global__ void spin(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}
"""
CYCLES = 200_000_000  # about a tenth of a second


@pytest.fixture(scope="module")
def cupy(xp):
    import cupy

    return cupy


@pytest.fixture(scope="module")
def spin(cupy):
    kernel = cupy.RawModule(code=SPIN).get_function("spin")
    return lambda: kernel((1,), (1,), (np.int64(CYCLES),))


def calls(cupy):
    """One call of every operator: name, the input, and a function of it."""
    rng = np.random.default_rng(1)
    x = cupy.asarray(rng.standard_normal((40, 9000), np.float32))
    line = cupy.asarray(rng.standard_normal(100_003, np.float32))
    strips = cupy.asarray(rng.standard_normal((40_000, 128), np.float32))  # more than stays in the cache
    offsets = cupy.asarray(np.sort(np.r_[0, rng.integers(0, line.size, 500), line.size]))
    scale = cupy.asarray(rng.standard_normal(9000, np.float32))
    tensor = dml.BufferTensorDesc(data_type=dml.TensorDataType.FLOAT32, sizes=(40, 9000))
    desc = dml.CumulativeSummationOperatorDesc(input_tensor=tensor, output_tensor=tensor, axis=1)
    operator = dml.Device().create_operator(desc).compile()
    return {
        "cumsum rows": (x, lambda a: cudml.cumsum(a, 1)),
        "cumprod columns": (x, lambda a: cudml.cumprod(a.T, 0)),
        "cumulative_sum": (line, lambda a: cudml.cumulative_sum(a, include_initial=True)),
        "segmented_cumsum": (line, lambda a: cudml.segmented_cumsum(a, offsets)),
        "mean_var": (x, lambda a: cudml.mean_var(a, 1)[1]),
        "layer_norm": (x, lambda a: cudml.layer_norm(a, 9000, scale)),
        "batch_norm": (x, lambda a: cudml.batch_norm(a.T)),
        "a group held by all blocks": (x, lambda a: cudml.batch_norm(a.reshape(40, 3, 3000))),
        "columns in two steps": (x, lambda a: cudml.batch_norm(a.reshape(5625, 64))),
        "strips held by all blocks": (strips, cudml.batch_norm),
        "fmod": (x, lambda a: cudml.fmod(a, 0.25)),
        "operator": (x, lambda a: operator(a, cupy.empty_like(a))),
    }


NAMES = [
    "cumsum rows",
    "cumprod columns",
    "cumulative_sum",
    "segmented_cumsum",
    "mean_var",
    "layer_norm",
    "batch_norm",
    "a group held by all blocks",
    "columns in two steps",
    "strips held by all blocks",
    "fmod",
    "operator",
]


@pytest.mark.parametrize("name", NAMES)
def test_work_goes_to_the_current_stream_and_nothing_waits(cupy, spin, name):
    x, call = calls(cupy)[name]
    expected = call(x).get()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        late = cupy.zeros_like(x)
        call(late)
        stream.synchronize()
        spin()
        late[...] = x
        result = call(late)
        assert not stream.done, "the call waited for the stream"
    stream.synchronize()
    np.testing.assert_array_equal(result.get(), expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_call_follows_its_input_at_every_replay(cupy, name):
    x, call = calls(cupy)[name]
    changed = x[..., ::-1].copy()
    expected = call(x).get(), call(changed).get()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        held = x.copy()
        call(held)
        stream.begin_capture()
        result = call(held)
        graph = stream.end_capture()
        clutter = [
            cupy.full(1 << 16, 7, np.float32) for _ in range(32)
        ]  # takes what the capture gave back, if anything
        for values, wanted in zip((x, changed, x), (*expected, expected[0]), strict=True):
            held[...] = values
            graph.launch(stream)
            np.testing.assert_array_equal(result.get(), wanted)
        assert all(bool((array == 7).all()) for array in clutter)


@pytest.mark.parametrize("captured", [False, True], ids=["stream", "graph"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((64, 1024), 1),
        ((1, 65536), 1),
        ((700, 300), 0),
        ((64, 512, 7, 7), (0, 2, 3)),
        ((300, 5000), 0),
        ((20_000, 64), 0),  # three times in two steps
        ((1, 20_000_001), 1),
        ((59_054, 2, 10, 2), (0, 2, 3)),
        ((40_000, 128), 0),
    ],
    ids=str,
)
def test_calls_read_what_those_ahead_wrote(cupy, shape, axes, captured):
    """Launches may begin before the ones ahead of them are done. Each call here reads what the last few wrote.

    Second steps even read before they wait, what first steps read too.
    """

    def steps(a, b, c, wait):
        for factor in (2.0, 3.0, 0.5, 1.5) * 6:
            cudml.mean_variance_normalization(a, factor, b, axes=axes, out=c)
            wait()
            mean, variance = cudml.mean_var(c, axes, keepdims=True)
            wait()
            variance = cudml.fmod(variance, 1.5)  # or it would grow beyond all bounds
            wait()
            cudml.fmod(c, 1.25, out=c)
            wait()
            cudml.cumsum(c, axes if isinstance(axes, int) else axes[0], out=c)
            wait()
            cudml.mean_variance_normalization(c, variance, mean, axes=axes, out=b)
            wait()
            a, b = b, a

    with cupy.cuda.Stream(non_blocking=True) as stream:
        values = cupy.random.default_rng(7).standard_normal(shape, np.float32)
        expected = values.copy(), values[::-1].copy(), values.copy()
        steps(*expected, stream.synchronize)
        found = values.copy(), values[::-1].copy(), values.copy()
        if captured:
            stream.begin_capture()
        steps(*found, lambda: None)
        if captured:
            graph = stream.end_capture()
            graph.launch(stream)
        stream.synchronize()
    for one, other in zip(found, expected, strict=True):
        assert bool(cupy.isfinite(one).all())
        np.testing.assert_array_equal(one.get(), other.get())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("in_place", [False, True], ids=["beside", "in place"])
@pytest.mark.parametrize("shape", [(4000, 9), (30_000, 3), (7000, 40), (20_000, 64), (2, 9_000_001)], ids=str)
def test_second_steps_read_what_was_written_before_the_first(cupy, shape, in_place, dtype):
    """They begin before the first step is done, and must not before whatever wrote the input and the scale is."""
    axis = int(shape[0] < shape[1])
    random = cupy.random.default_rng(11)
    scales = [random.standard_normal((1, shape[1 - axis]) if axis == 0 else (1, 1)).astype(dtype) for _ in range(4)]
    inputs = [random.standard_normal(shape).astype(dtype) for _ in range(4)]
    expected = [
        cudml.mean_variance_normalization(x, scale, scale, axes=axis) for x, scale in zip(inputs, scales, strict=True)
    ]
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x, scale = inputs[0].copy(), scales[0].copy()
        y = x if in_place else cupy.empty_like(x)
        found = [cupy.empty_like(x) for _ in range(4)]

        def steps():
            for number in range(4):
                cudml.fmod(scales[number], 1000, out=scale)
                cudml.fmod(inputs[number], 1000, out=x)
                cudml.mean_variance_normalization(x, scale, scale, axes=axis, out=y)
                cudml.fmod(y, 30_000, out=found[number])

        steps()
        stream.begin_capture()
        steps()
        graph = stream.end_capture()
        for _ in range(20):
            graph.launch(stream)
            for one, other in zip(found, expected, strict=True):
                assert bool((one == other).all())


def test_a_captured_copy_of_an_overlapping_operand_lives_on(cupy):
    """fmod copies an operand that overlaps the output in part; the copy belongs to the graph from then on."""
    base = cupy.empty(100_001, np.float32)
    values = cupy.arange(base.size, dtype=np.float32)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        cudml.fmod(base[:-1], 7, out=base[1:])
        stream.begin_capture()
        cudml.fmod(base[:-1], 7, out=base[1:])
        graph = stream.end_capture()
        clutter = [cupy.full(base.size, -1, np.float32) for _ in range(8)]
        for _ in range(2):
            base[...] = values
            graph.launch(stream)
            np.testing.assert_array_equal(base[1:].get(), np.fmod(values[:-1].get(), 7))
        assert all(bool((array == -1).all()) for array in clutter)


def test_a_capture_refuses_what_replays_could_not_read(cupy):
    a, out = cupy.ones(9, np.float32), cupy.full(9, -1, np.float32)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        cudml.segmented_cumsum(a, [0, 4, 9], out=out)
        out[...] = -1
        stream.begin_capture()
        try:
            with pytest.raises(ValueError, match=r"on the host .* move it to the GPU before the capture"):
                cudml.segmented_cumsum(a, [0, 4, 9], out=out)
        finally:
            stream.end_capture()
    assert bool((out == -1).all())


def test_threads_on_streams_of_their_own_get_the_same_bits(cupy):
    everything = calls(cupy)
    expected = {name: call(x).get() for name, (x, call) in everything.items()}
    failures: list[str] = []

    def work() -> None:
        with cupy.cuda.Device(0), cupy.cuda.Stream(non_blocking=True) as stream:
            for _ in range(20):
                for name, (x, call) in everything.items():
                    result = call(x)
                    stream.synchronize()
                    if not np.array_equal(result.get(), expected[name]):
                        failures.append(name)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("name", NAMES)
def test_a_thread_that_cuda_has_not_met_makes_a_known_call(cupy, name):
    x, call = calls(cupy)[name]
    expected = call(x).get()
    cupy.cuda.Device(0).synchronize()
    results: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: results.extend(call(x).get() for _ in range(2)))
    thread.start()
    thread.join()
    assert len(results) == 2
    for result in results:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bits_in_every_run(cupy, name):
    x, call = calls(cupy)[name]
    expected = call(x)
    assert all(bool((call(x).view(np.uint32) == expected.view(np.uint32)).all()) for _ in range(200))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64"])
def test_tensors_of_torch_are_read_and_written_in_place(cupy, dtype):
    torch = pytest.importorskip("torch")
    x = torch.arange(1, 6, device="cuda").to(getattr(torch, dtype))
    result = cudml.cumsum(x)
    assert isinstance(result, cupy.ndarray)
    assert result.dtype.name == dtype
    assert result.astype(np.float32).get().tolist() == [1, 3, 6, 10, 15]
    assert cudml.cumsum(x, out=x) is x
    assert x.tolist() == [1, 3, 6, 10, 15]
    assert cudml.fmod(x, torch.full_like(x, 4)).astype(np.float32).get().tolist() == [1, 3, 2, 2, 3]


def test_arrays_of_jax_are_read(cupy, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes 3/4 of the GPU's memory for good
    jax = pytest.importorskip("jax")
    x = jax.device_put(jax.numpy.arange(5.0), jax.devices("gpu")[0])
    assert cudml.cumsum(x).get().tolist() == [0, 1, 3, 6, 10]


def test_as_many_dimensions_as_cupy_holds(cupy):
    rng = np.random.default_rng(2)
    values = rng.standard_normal((2,) * 14 + (1,) * 18).astype(np.float32)
    x = cupy.asarray(values).transpose()[..., ::-1]
    host = values.transpose()[..., ::-1]
    for axis in (18, 25, 31):
        np.testing.assert_allclose(cudml.cumsum(x, axis).get(), np.cumsum(host, axis), rtol=1e-6)
    mean, variance = cudml.mean_var(x, (19, 23, 31))
    np.testing.assert_allclose(mean.get(), host.mean((19, 23, 31)), atol=1e-6)
    np.testing.assert_allclose(variance.get(), host.var((19, 23, 31)), atol=1e-6)
    np.testing.assert_array_equal(cudml.fmod(x, np.float32(0.5)).get(), np.fmod(host, np.float32(0.5)))


def test_subnormals_survive(cupy):
    tiny = cupy.asarray(np.array([3, 5, 7], np.uint32).view(np.float32))
    assert cudml.cumsum(tiny).get().view(np.uint32).tolist() == [3, 8, 15]
    assert cudml.fmod(tiny, tiny[:1]).get().view(np.uint32).tolist() == [0, 2, 1]


@pytest.mark.parametrize("captured", [False, True], ids=["stream", "graph"])
def test_elements_that_lie_anywhere_are_copied_byte_by_byte(cupy, captured):
    """CuPy's own kernels read them at multiples of their size."""
    values = np.arange(-20, 20, dtype=np.float64)
    host = np.zeros(8 * 41 + 1, np.uint8)
    host[1:321].view(np.float64)[...] = values
    with cupy.cuda.Stream(non_blocking=True) as stream:
        memory = cupy.asarray(host)
        operand, out = memory[1:321].view(np.float64), memory[9:].view(np.float64)
        if captured:
            stream.begin_capture()
        cudml.fmod(operand, 3.0, out=out)
        if captured:
            stream.end_capture().launch(stream)
        found = memory.get(stream=stream)[9:].view(np.float64)
    assert found.tolist() == np.fmod(values, 3.0).tolist()


def test_offsets_that_lie_anywhere_are_read(cupy):
    host = np.zeros(97, np.uint8)
    host[1:].view(np.int64)[::4] = 0, 5, 9
    offsets = cupy.asarray(host)[1:].view(np.int64)[::4]
    result = cudml.segmented_cumsum(cupy.arange(9.0), offsets)
    assert result.get().tolist() == [0, 1, 3, 6, 10, 5, 11, 18, 26]


def test_offsets_that_lie_cannot_lead_outside(cupy):
    """Checked offsets may change afterwards; whatever they hold then, nothing outside the arrays is touched."""
    a = cupy.ones(50_000, np.float32)
    offsets = cupy.asarray(np.array([0, 100, 30_000, 50_000]))
    guarded = cupy.full(3 * a.size, -1, np.float32)
    out = guarded[a.size : 2 * a.size]
    cudml.segmented_cumsum(a, offsets, out=out)
    for lie in ([7, -(2**62), 2**62, 3], [2**63 - 1, 2**63 - 1, -1, -1], [50_000, 0, 50_000, 0]):
        offsets[...] = cupy.asarray(np.array(lie))
        for reverse in (False, True):
            cudml.segmented_cumsum(a, offsets, out=out, reverse=reverse)
    assert bool((guarded[: a.size] == -1).all())
    assert bool((guarded[2 * a.size :] == -1).all())


@pytest.mark.large
@pytest.mark.parametrize("shape", [(2**31 + 1000,), (2**16 + 1, 2**15 + 1), (3, 2**30 + 7)])
def test_more_than_2_to_the_31_elements(cupy, shape):
    x = cupy.ones(shape, np.int8)
    for axis in range(len(shape)):
        result = cudml.cumsum(x, axis, dtype=np.uint32)
        assert bool((cupy.moveaxis(result, axis, -1)[..., -1] == shape[axis]).all())
        assert bool((cupy.diff(cupy.moveaxis(result, axis, -1)[..., -4097:], axis=-1) == 1).all())
        del result
    x[..., -1] = 3
    assert bool((cudml.fmod(x, np.int8(2)) == 1).all())
    mean, variance = cudml.mean_var(x.reshape(-1)[: 2**31 + 500])
    assert float(mean) == pytest.approx(1, abs=1e-4)
    assert float(variance) == pytest.approx(0, abs=1e-3)


@pytest.mark.large
def test_running_sum_of_2_to_the_28_ones(cupy):
    result = cudml.cumsum(cupy.ones(2**28, np.float32))
    assert float(result[-1]) == 2**28
    exact = cupy.arange(1, 2**28 + 1, dtype=np.float64)
    assert float(cupy.abs(result / exact - 1).max()) <= 2.0**-23


@pytest.mark.large
@pytest.mark.parametrize(("shape", "axis"), [((1, 2**28), 1), ((4, 2**26), 1), ((2**26, 4), 0), ((2**20, 256), 0)])
def test_groups_of_up_to_2_to_the_28_elements_are_right_to_four_roundings(cupy, shape, axis):
    x = cupy.random.default_rng(5).standard_normal(shape, dtype=np.float32) + np.float32(100)
    distance = x.astype(np.float64)
    for _ in range(2):  # the second mean is what rounding left of the first
        distance -= distance.mean(axis, keepdims=True)
    variance = cupy.square(distance).mean(axis, keepdims=True)
    roundings = 4 * 2.0**-24
    assert bool((cupy.abs(cudml.mean_var(x, axis, keepdims=True)[1] - variance) <= roundings * variance).all())
    expected = distance / cupy.sqrt(variance + 1e-5)
    expected -= cudml.mean_variance_normalization(x, axes=axis)
    distance *= roundings / cupy.sqrt(variance + 1e-5)
    # Next to the mean nothing but the float64 of this reference itself is off.
    assert bool((cupy.abs(expected) <= cupy.abs(distance) + 1e-12).all())


@pytest.mark.large
def test_operands_wider_than_the_elements_of_long_groups(cupy):
    """Of a group of almost 2^30 halves more bytes of floats are left than 32 bits hold."""
    x = cupy.zeros((2**20 - 8, 1016), np.float16)
    x[::2] = 2
    scale = cupy.arange(1016, dtype=np.float32)
    y = cudml.mean_variance_normalization(x, scale, scale, axes=(0, 1), epsilon=0)
    assert bool((y[::2] == 2 * scale).all())
    assert not bool(y[1::2].any())


def test_the_list_of_calls_is_complete(cupy):
    assert sorted(calls(cupy)) == sorted(NAMES)
