"""Two GPUs: arrays on another one than the current. What one GPU shows is in test_cuda.py."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from test_cuda import CYCLES, NAMES, SPIN, calls

import cudml
from cudml import dml

pytestmark = [pytest.mark.backend("cuda"), pytest.mark.gpus(2), pytest.mark.xdist_group("gpu")]

#: Of the operator's output CuPy would take the current device's memory.
ANYWHERE = [name for name in NAMES if name != "operator"]


@pytest.fixture(scope="module")
def cupy(xp):
    import cupy

    return cupy


@pytest.fixture
def far(cupy):
    """A GPU that is not the current one."""
    with cupy.cuda.Device(0):
        yield cupy.cuda.Device(1)


@pytest.mark.parametrize("name", ANYWHERE)
def test_an_array_on_another_gpu_is_computed_there(cupy, far, name):
    x, call = calls(cupy)[name]
    expected = call(x).get()
    with far:
        x, call = calls(cupy)[name]
    for _ in range(2):
        result = call(x)
        assert result.device == far
        assert cupy.cuda.Device().id == 0
        np.testing.assert_array_equal(result.get(), expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_call_is_known_on_each_gpu_by_itself(cupy, far, name):
    x, call = calls(cupy)[name]
    expected = call(x).get()
    for device in (far, cupy.cuda.Device(0), far):
        with device:
            x, call = calls(cupy)[name]
            for _ in range(3):
                result = call(x)
                assert result.device == device
                np.testing.assert_array_equal(result.get(), expected)


@pytest.mark.parametrize("name", ANYWHERE)
def test_work_goes_to_the_current_stream_of_the_arrays_gpu(cupy, far, name):
    spin = cupy.RawModule(code=SPIN).get_function("spin")
    with far, cupy.cuda.Stream(non_blocking=True) as stream:
        x, call = calls(cupy)[name]
        expected = call(x).get()
        late = cupy.zeros_like(x)
        call(late)
        stream.synchronize()
        spin((1,), (1,), (np.int64(CYCLES),))
        late[...] = x
        with cupy.cuda.Device(0):
            result = call(late)
        assert not stream.done, "the call waited for the stream"
        stream.synchronize()
        np.testing.assert_array_equal(result.get(), expected)


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_call_on_another_gpu_is_captured_there(cupy, far, name):
    with far, cupy.cuda.Stream(non_blocking=True) as stream:
        x, call = calls(cupy)[name]
        changed = x[..., ::-1].copy()
        expected = call(x).get(), call(changed).get()
        held = x.copy()
        with cupy.cuda.Device(0):
            call(held)
            stream.begin_capture()
            result = call(held)
            graph = stream.end_capture()
        for values, wanted in zip((changed, x), reversed(expected), strict=True):
            held[...] = values
            graph.launch(stream)
            np.testing.assert_array_equal(result.get(), wanted)


def test_threads_on_both_gpus_get_the_same_bits(cupy, far):
    everything = calls(cupy)
    expected = {name: call(x).get() for name, (x, call) in everything.items()}
    failures: list[str] = []

    def work(device: int) -> None:
        with cupy.cuda.Device(device), cupy.cuda.Stream(non_blocking=True):
            for name, (x, call) in calls(cupy).items():
                failures.extend(name for _ in range(20) if not np.array_equal(call(x).get(), expected[name]))

    threads = [threading.Thread(target=work, args=(device,)) for device in (0, 1, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def operator():
    tensor = dml.BufferTensorDesc(data_type=dml.TensorDataType.FLOAT32, sizes=(4, 9))
    desc = dml.CumulativeSummationOperatorDesc(input_tensor=tensor, output_tensor=tensor, axis=1)
    return dml.Device().create_operator(desc).compile()


MIXED = {
    "cumsum": lambda near, far, out: cudml.cumsum(near, 1, out=out),
    "fmod": lambda near, far, out: cudml.fmod(near, far),
    "fmod's out": lambda near, far, out: cudml.fmod(near, near, out=out),
    "scale": lambda near, far, out: cudml.layer_norm(near, 9, far[0]),
    "bias": lambda near, far, out: cudml.layer_norm(near, 9, None, far[0]),
    "normalization's out": lambda near, far, out: cudml.layer_norm(near, 9, out=out),
    "offsets": lambda near, far, out: cudml.segmented_cumsum(near[0], far[0, :4].view(np.int64)),
    "segments' out": lambda near, far, out: cudml.segmented_cumsum(near[0], [0, 9], out=out[0]),
    "operator": lambda near, far, out: operator()(near, out),
}


@pytest.mark.parametrize("call", MIXED.values(), ids=MIXED)
def test_arrays_on_two_gpus_are_refused(cupy, far, call):
    near, host = cupy.ones((4, 9), np.float32), np.ones((4, 9), np.float32)
    host[0, :4].view(np.int64)[...] = 0, 9
    with far:
        other, out = cupy.asarray(host), cupy.full((4, 9), 7, np.float32)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"GPU 0|device .*0"):
            call(near, other, out)
    assert bool((out.get() == 7).all())


def test_lists_and_numbers_go_where_the_array_is(cupy, far):
    with far:
        x = cupy.arange(36, dtype=np.float32).reshape(4, 9)
    weights = [float(n) for n in range(9)]
    for call in (
        lambda a: cudml.layer_norm(a, 9, weights, weights),
        lambda a: cudml.fmod(a, 4.0),
        lambda a: cudml.segmented_cumsum(a[0], [0, 2, 9]),
    ):
        result = call(x)
        assert result.device == far
        np.testing.assert_array_equal(result.get(), call(cupy.asarray(x.get())).get())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tensors_of_torch_on_another_gpu(cupy, far, dtype):
    torch = pytest.importorskip("torch")
    x = torch.arange(1, 6, device="cuda:1").to(getattr(torch, dtype))
    result = cudml.cumsum(x)
    assert result.device == far
    assert result.astype(np.float32).get().tolist() == [1, 3, 6, 10, 15]
    assert cudml.cumsum(x, out=x) is x
    assert x.tolist() == [1, 3, 6, 10, 15]
    assert cudml.layer_norm(x[None], 5, x).device == far
    with pytest.raises(ValueError, match=r"GPU 0|device .*0"):
        cudml.fmod(x, torch.ones_like(x, device="cuda:0"))
    assert cudml.cumsum(x[:0]).size == 0


@pytest.mark.filterwarnings("ignore:ExternalStream is deprecated")
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_of_another_gpu_is_refused(cupy, far, name):
    x, call = calls(cupy)[name]
    expected = call(x).get()
    with far:
        stream = cupy.cuda.Stream(non_blocking=True)
    with cupy.cuda.ExternalStream(stream.ptr), pytest.raises(ValueError, match="stream"):
        call(x)
    np.testing.assert_array_equal(call(x).get(), expected)
