"""Calls that are made again: which are, that they compute the same, and that nothing invalid slips through."""

from __future__ import annotations

import ctypes
import threading
import warnings
import weakref
from array import array
from contextlib import ExitStack, nullcontext
from types import SimpleNamespace
from typing import Any

import cuda_on_cpu
import numpy as np
import pytest

pytest.importorskip("cupy", reason="CuPy is not installed")
if cuda_on_cpu.requirement():
    pytest.skip(str(cuda_on_cpu.requirement()), allow_module_level=True)

import cupy
from cupy_on_host import CupyOnHost

import cudml
from cudml import dml, info
from cudml.cuda import backend, repeats
from cudml.cuda.parameters import Parameters
from cudml.cuda.repeats import Repeats
from cudml.cuda.scratch import Piece
from cudml.plan.activation import Activation

RNG = np.random.default_rng(7)
X = RNG.standard_normal((6, 9)).astype(np.float32)
Y = RNG.standard_normal((6, 9)).astype(np.float32)
ROW = RNG.standard_normal(9).astype(np.float32)
FULL, AGAIN = ["in full"], ["again"]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> CupyOnHost:
    return CupyOnHost(monkeypatch)


def launched(host: CupyOnHost) -> list[str]:
    found = host.launches.copy()
    host.launches.clear()
    return found


CALLS: dict[str, Any] = {
    "cumsum": lambda x, out: cudml.cumsum(x, 1, out=out),
    "cumsum down": lambda x, out: cudml.cumsum(x, 0, out=out, reverse=True),
    "cumprod": lambda x, out: cudml.cumprod(x, -1, dtype=np.float64, out=out, exclusive=True),
    "cumulative_sum": lambda x, out: cudml.cumulative_sum(x, axis=1, out=out),
    "mean_variance_normalization": lambda x, out: cudml.mean_variance_normalization(x, axes=[0], out=out),
    "relu": lambda x, out: cudml.mean_variance_normalization(x, axes=1, activation="relu", out=out),
    "layer_norm": lambda x, out: cudml.layer_norm(x, (9,), out=out),
    "group_norm": lambda x, out: cudml.group_norm(x, 3, out=out),
    "batch_norm": lambda x, out: cudml.batch_norm(x, out=out),
    "fmod": lambda x, out: cudml.fmod(x, 0.25, out=out),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("given", [False, True], ids=["new", "out"])
def test_a_call_is_made_in_full_once_and_then_with_the_addresses_of_the_day(host, call, given):
    for values, how in ((X, "in full"), (Y, "again"), (X[::-1].copy(), "again")):
        x, out = host.asarray(values), host.asarray(np.full_like(X, -7)) if given else None
        result = call(x, out)
        assert set(launched(host)) == {how}
        assert not given or result is out
        expected = call(values, None)
        assert (result.shape, result.dtype, result.strides) == (
            expected.shape,
            out.dtype if given else expected.dtype,
            out.strides if given else expected.strides,
        )
        np.testing.assert_allclose(host.to_numpy(result), expected, rtol=2e-5, atol=2e-5)
        np.testing.assert_array_equal(host.to_numpy(x), values)


def test_every_array_of_a_call_is_replaced(host):
    for values, how in ((X, FULL), (Y, AGAIN)):
        x, scale, shift = (host.asarray(a) for a in (values, ROW + values[0], ROW - values[1]))
        found = cudml.layer_norm(x, 9, scale, shift)
        expected = cudml.layer_norm(values, 9, ROW + values[0], ROW - values[1])
        np.testing.assert_allclose(host.to_numpy(found), expected, rtol=2e-5, atol=2e-5)
        assert launched(host) == how
        divided = cudml.fmod(x, host.asarray(Y))
        np.testing.assert_array_equal(host.to_numpy(divided), np.fmod(values, Y))
        assert launched(host) == how


def test_two_operands_that_were_one_array_are_two_the_next_time(host):
    x, y = host.asarray(X), host.asarray(Y)
    cudml.fmod(x, x)
    assert launched(host) == FULL
    np.testing.assert_array_equal(host.to_numpy(cudml.fmod(x, y)), np.fmod(X, Y))
    np.testing.assert_array_equal(host.to_numpy(cudml.fmod(y, x)), np.fmod(Y, X))
    assert launched(host) == ["again", "again"]


def test_results_keep_the_order_of_axes(host):
    for values in (X, Y):
        found = cudml.cumsum(host.asarray(values).T, 0)
        assert found.strides == np.cumsum(values.T, 0).strides
        np.testing.assert_allclose(host.to_numpy(found), np.cumsum(values.T, 0), rtol=1e-5)
    assert launched(host) == ["in full", "again"]


VARIANTS: dict[str, Any] = {
    "sum": lambda x: cudml.cumsum(x, 1),
    "product": lambda x: cudml.cumprod(x, 1),
    "axis": lambda x: cudml.cumsum(x, 0),
    "flat": lambda x: cudml.cumsum(x),
    "reverse": lambda x: cudml.cumsum(x, 1, reverse=True),
    "exclusive": lambda x: cudml.cumsum(x, 1, exclusive=True),
    "initial": lambda x: cudml.cumulative_sum(x, axis=1, include_initial=True),
    "no initial": lambda x: cudml.cumulative_sum(x, axis=1),
    "dtype": lambda x: cudml.cumsum(x, 1, dtype=np.float64),
    "fmod": lambda x: cudml.fmod(x, 2),
    "fmod dtype": lambda x: cudml.fmod(x, 2, dtype=np.float64),
    "fmod by 3": lambda x: cudml.fmod(x, 3),
    "normalization": lambda x: cudml.mean_variance_normalization(x, axes=1),
    "axes": lambda x: cudml.mean_variance_normalization(x, axes=(0, 1)),
    "mean": lambda x: cudml.mean_variance_normalization(x, axes=1, normalize_variance=False),
    "epsilon": lambda x: cudml.mean_variance_normalization(x, axes=1, epsilon=2.0),
    "relu": lambda x: cudml.mean_variance_normalization(x, axes=1, activation="relu"),
    "leaky": lambda x: cudml.mean_variance_normalization(x, axes=1, activation=dml.ActivationLeakyReluOperatorDesc()),
    "leakier": lambda x: cudml.mean_variance_normalization(
        x, axes=1, activation=dml.ActivationLeakyReluOperatorDesc(alpha=0.5)
    ),
    "scale": lambda x: cudml.mean_variance_normalization(x, 3.0, axes=1),
    "bias": lambda x: cudml.mean_variance_normalization(x, None, 3.0, axes=1),
    "layer": lambda x: cudml.layer_norm(x, 9),
    "layers": lambda x: cudml.layer_norm(x, (6, 9)),
    "groups": lambda x: cudml.group_norm(x, 3),
    "group": lambda x: cudml.group_norm(x, 1),
    "batch": lambda x: cudml.batch_norm(x),
    "batch mean": lambda x: cudml.batch_norm(x, return_statistics=True)[1],
    "batch variance": lambda x: cudml.batch_norm(x, return_statistics=True)[2],
    "mean of rows": lambda x: cudml.mean_var(x, 1)[0],
    "variance of rows": lambda x: cudml.mean_var(x, 1)[1],
    "kept": lambda x: cudml.mean_var(x, 1, keepdims=True)[1],
    "of columns": lambda x: cudml.mean_var(x, 0)[1],
    "of all": lambda x: cudml.mean_var(x)[1],
    "corrected": lambda x: cudml.mean_var(x, 1, correction=1)[1],
}


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_calls_that_differ_in_one_option_are_not_mixed_up(host, dtype):
    first, second = (np.array(values * 4, dtype) for values in (X, Y))
    for values in (first, second, first):
        for name, call in VARIANTS.items():
            found, expected = call(host.asarray(values)), call(values)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
            np.testing.assert_allclose(host.to_numpy(found), expected, rtol=1e-4, atol=1e-4, err_msg=name)
    # Statistics of batches are made in full each time; the mean and the variance of rows come from one known call.
    assert launched(host).count("again") == 2 * (len(VARIANTS) - 2) + 1


def test_arrays_of_one_size_and_other_types_are_not_mixed_up(host):
    for dtype in ("float32", "int32", "uint32"):
        values = np.array(X * 100 + 500, dtype)
        found = cudml.cumsum(host.asarray(values), 1, out=host.asarray(np.zeros_like(values)))
        np.testing.assert_allclose(host.to_numpy(found), np.cumsum(values, 1), rtol=1e-5)
    assert launched(host) == FULL * 3


def test_plans_with_workspace_scratch_and_several_launches(host):
    long = RNG.standard_normal(9001).astype(np.float32)
    offsets = host.asarray(np.array([0, 100, 5000, 9001]))
    for values in (long, long[::-1].copy(), long + 1):
        x = host.asarray(values)
        rows = np.stack([values, 3 * values + 1, values**2])
        normalized = cudml.mean_variance_normalization(host.asarray(rows), axes=1)
        np.testing.assert_allclose(
            host.to_numpy(normalized), cudml.mean_variance_normalization(rows, axes=1), rtol=1e-3, atol=1e-4
        )
        np.testing.assert_allclose(host.to_numpy(cudml.cumsum(x)), np.cumsum(values.astype(float)), atol=2e-3)
        np.testing.assert_allclose(
            host.to_numpy(cudml.segmented_cumsum(x, offsets)),
            cudml.segmented_cumsum(values.astype(float), [0, 100, 5000, 9001]),
            atol=2e-3,
        )
    found = launched(host)
    assert set(found[: len(found) // 3]) == {"in full"}
    assert set(found[len(found) // 3 :]) == {"again"}


# ---- what must not be taken for a known call


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: cudml.cumsum(x, True),
        lambda x: cudml.cumsum(x, 1.0),
        lambda x: cudml.layer_norm(x, 9.0),
        lambda x: cudml.layer_norm(x, (9.0,)),
        lambda x: cudml.mean_variance_normalization(x, axes=True),
        lambda x: cudml.mean_variance_normalization(x, axes=[True]),
        lambda x: cudml.mean_variance_normalization(x, axes=1, epsilon=True),
        lambda x: cudml.group_norm(x, 3.0),
        lambda x: cudml.group_norm(x, (np.int64(3),)),
        lambda x: cudml.cumsum(x, (np.int64(1),)),
    ],
)
def test_what_is_only_equal_to_a_valid_option_is_refused_as_before(host, wrong):
    x = host.asarray(X)
    for one, three in ((1, 3), (np.int64(1), np.int64(3))):
        cudml.cumsum(x, one)
        cudml.group_norm(x, three)
    cudml.layer_norm(x, 9)
    cudml.layer_norm(x, (9,))
    for axes in (1, (1,), [1]):
        cudml.mean_variance_normalization(x, axes=axes)
        cudml.mean_variance_normalization(x, axes=axes, epsilon=1)
    with pytest.raises(TypeError):
        wrong(x)


def test_other_forms_are_other_calls(host):
    made = [
        host.asarray(X),
        host.asarray(X, offset=4),
        host.asarray(X.astype(np.float64)),
        host.asarray(X.reshape(9, 6)),
        host.asarray(X)[:, ::-1],
        host.asarray(X)[:, ::2],
        host.asarray(X).T,
    ]
    for x in made:
        np.testing.assert_allclose(
            host.to_numpy(cudml.cumsum(x, 1)), np.cumsum(host.to_numpy(x), 1), rtol=1e-5, atol=1e-5
        )
    assert launched(host) == FULL * len(made)


def test_zeros_of_both_signs_and_types_of_numbers_are_other_calls(host):
    for number in (0.0, -0.0, 0, False, np.float32(0)):
        found = cudml.fmod(host.asarray(X), number)
        assert launched(host) == FULL
        assert np.isnan(host.to_numpy(found)).all()


def test_neighbours_that_print_alike_are_other_calls(host):
    numbers = [np.float32(64.00006), np.nextafter(np.float32(64.00006), np.float32(0))]
    with np.printoptions(legacy="1.13"):
        for number in numbers:
            cudml.fmod(host.asarray(X), number)
            assert launched(host) == FULL


def test_parameters_that_print_alike_are_other_calls(host):
    x, alphas = host.asarray(X), [np.float64(0.1), np.nextafter(0.1, 1.0)]
    with np.printoptions(legacy="1.13"):
        for alpha in alphas:
            cudml.mean_variance_normalization(x, axes=1, activation=Activation("leaky_relu", (alpha,)))
            assert launched(host) == FULL


def test_outputs_that_an_allocator_places_oddly_are_planned_for(host, monkeypatch):
    """Repeated calls rely on what the first one found aligned."""
    x = host.asarray(X)
    expected = [host.to_numpy(part) for part in cudml.mean_var(x, 1)]
    offsets = iter([0, 4, 4, 0])
    monkeypatch.setattr(
        repeats, "alloc", lambda nbytes: host.asarray(np.zeros(nbytes, np.uint8), offset=next(offsets)).data
    )
    for _ in range(2):
        for part, wanted in zip(cudml.mean_var(x, 1), expected, strict=True):
            np.testing.assert_array_equal(host.to_numpy(part), wanted)
    assert launched(host) == FULL * 3


def test_an_integer_too_long_to_print_is_refused_as_on_the_host(host):
    with pytest.raises(OverflowError, match="x2"):
        cudml.fmod(host.asarray(X), 10**5000)


def test_zeros_of_both_signs_are_other_parameters_of_activations(host):
    for alpha in (-0.0, 0.0):
        options = {"axes": 1, "activation": Activation("leaky_relu", (alpha,))}
        found = host.to_numpy(cudml.mean_variance_normalization(host.asarray(X), **options))
        expected = cudml.mean_variance_normalization(X, **options)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_a_number_outside_the_type_raises_every_time(host):
    x = host.asarray(np.arange(5, dtype=np.int8))
    cudml.fmod(x, 3)
    for _ in range(2):
        with pytest.raises(OverflowError):
            cudml.fmod(x, 300)


def test_in_place_again_and_partial_overlap_never(host):
    for values, how in ((X[:4], FULL), (Y[:4], AGAIN)):
        held = host.asarray(np.concatenate([values, values]))
        x, apart = held[:4], held[4:]
        cudml.cumsum(x, 1, out=apart)
        assert launched(host) == how
        cudml.cumsum(x, 1, out=x)
        assert launched(host) == AGAIN
        np.testing.assert_allclose(host.to_numpy(x), np.cumsum(values, 1), rtol=1e-5, atol=1e-5)
        with pytest.raises(ValueError, match="out overlaps a in memory"):
            cudml.cumsum(x, 1, out=held[1:5])
        with pytest.raises(ValueError, match="out overlaps a in memory"):
            cudml.cumsum(held[1:5], 1, out=x)
        assert launched(host) == []


def test_the_input_in_place_is_none_of_the_others_business(host):
    square = RNG.standard_normal((9, 9)).astype(np.float32)
    x, scale, out = (host.asarray(square) for _ in range(3))
    for _ in range(2):
        cudml.mean_variance_normalization(x, scale, axes=1, out=out)
    cudml.mean_variance_normalization(x, scale, axes=1, out=x)
    assert launched(host) == ["in full", "again", "again"]
    with pytest.raises(ValueError, match="out overlaps scale"):
        cudml.mean_variance_normalization(out, scale, axes=1, out=scale)


def test_operands_of_fmod_that_overlap_the_output_are_copied_every_time(host):
    for values in (X, Y):
        held = host.asarray(np.concatenate([values.ravel(), [9]]).astype(np.float32))
        apart = host.asarray(np.zeros(54, np.float32))
        cudml.fmod(held[:-1], 0.5, out=apart)
        launched(host)
        cudml.fmod(held[:-1], 0.5, out=held[1:])
        assert launched(host) == FULL
        np.testing.assert_array_equal(host.to_numpy(held)[1:], np.fmod(values.ravel(), np.float32(0.5)))


def test_a_plan_for_a_copy_is_not_taken_for_the_operand_itself(host):
    for values in (X, Y):
        held = host.asarray(values.ravel())
        cudml.fmod(held[::2], 0.5, out=held[27:])
        np.testing.assert_array_equal(host.to_numpy(held)[27:], np.fmod(values.ravel()[::2], np.float32(0.5)))
        apart = cudml.fmod(host.asarray(values.ravel())[::2], 0.5, out=host.asarray(values.ravel())[27:])
        np.testing.assert_array_equal(host.to_numpy(apart), np.fmod(values.ravel()[::2], np.float32(0.5)))


def test_memory_that_is_less_aligned_than_planned_for_is_planned_for(host, monkeypatch):
    x = host.asarray(X)
    cudml.cumsum(x, 1)
    held = host.asarray(np.zeros(55, np.float32))
    monkeypatch.setattr(repeats, "alloc", lambda nbytes: held[1:].data)
    found = cudml.cumsum(x, 1)
    assert launched(host) == ["in full", "in full"]
    np.testing.assert_allclose(host.to_numpy(found), np.cumsum(X, 1), rtol=1e-5, atol=1e-5)


def test_warnings_come_every_time(host):
    x, out = host.asarray(X.astype(np.complex64)), host.asarray(X)
    for _ in range(2):
        with pytest.warns(np.exceptions.ComplexWarning):
            cudml.cumsum(x, 1, out=out)


def test_offsets_are_trusted_by_identity_only(host):
    x = host.asarray(np.arange(9, dtype=np.float32))
    good = host.asarray(np.array([0, 4, 9]))
    for _ in range(2):
        cudml.segmented_cumsum(x, good)
    with pytest.raises(ValueError, match="must not decrease"):
        cudml.segmented_cumsum(x, host.asarray(np.array([0, 10, 9])[[0, 2, 1]] - [0, 0, 10]))
    with pytest.raises(ValueError, match="past the end"):
        cudml.segmented_cumsum(x, host.asarray(np.array([0, 10, 9])))
    assert launched(host) == ["in full", "again"]


def test_another_device_is_left_to_the_full_way(host, monkeypatch):
    x = host.asarray(X)
    cudml.cumsum(x, 1)
    with pytest.raises(ValueError, match="on GPU 0 and output on GPU 1"):
        host.backend.run(cudml.plan.spec.Scan("sum", x.dtype, 1), {"input": x, "output": host.asarray(X, device=1)})
    launched(host)
    monkeypatch.setattr(cupy.cuda, "Device", lambda device: nullcontext())
    cudml.cumsum(host.asarray(X, device=1), 1, out=host.asarray(X, device=1))
    cudml.cumsum(x, 1, out=host.asarray(X))
    host.device = 1
    cudml.cumsum(x, 1)
    assert launched(host) == FULL * 3
    cudml.cumsum(host.asarray(X, device=1), 1, out=host.asarray(X, device=1))
    assert launched(host) == AGAIN


def test_lists_go_where_the_array_is(host, monkeypatch):
    def asarray(value, like=None):
        return value if isinstance(value, cupy.ndarray) else host.asarray(value, device=like.data.device_id)

    monkeypatch.setattr(host.backend, "asarray", asarray)
    monkeypatch.setattr(cupy.cuda, "Device", lambda device: nullcontext())
    x, line = host.asarray(X, device=1), host.asarray(X[0], device=1)
    cudml.layer_norm(x, 9, [2.0] * 9, [1.0] * 9, out=host.asarray(X, device=1))
    cudml.segmented_cumsum(line, [0, 2, 9], out=host.asarray(X[0], device=1))
    assert launched(host) == FULL * 2


def test_what_is_copied_to_a_gpu_is_copied_to_that_of_another_array(host, monkeypatch):
    done, device = [], ExitStack()
    device.callback(done.append, "left")
    monkeypatch.setattr(cupy, "asarray", lambda value: done.append("copied") or value)
    monkeypatch.setattr(backend, "is_capturing", lambda: False)
    host.backend.asarray([1.0], SimpleNamespace(device=device))
    assert done == ["copied", "left"]


@pytest.mark.parametrize(("address", "device", "entered"), [(512, 1, [1]), (512, -2, []), (0, None, [])])
def test_another_librarys_array_stays_on_its_gpu(host, monkeypatch, address, device, entered):
    """Wherever CuPy's current device is another one, it would copy."""
    asked, x = [], host.asarray(X)
    monkeypatch.setattr(backend, "pointerGetAttributes", {512: SimpleNamespace(device=device)}.get)
    monkeypatch.setattr(cupy.cuda, "Device", lambda number: nullcontext(asked.append(number)))
    monkeypatch.setattr(cupy, "asarray", lambda value: x)
    assert host.backend.asarray(SimpleNamespace(__cuda_array_interface__={"data": (address, False)})) is x
    assert asked == entered


def test_a_thread_without_a_context_gets_one_from_cupy(host):
    x = host.asarray(X)
    for has_context in (True, False, True):
        host.has_context = has_context
        cudml.cumsum(x, 1)
    assert launched(host) == ["in full", "in full", "again"]


def test_while_plans_are_made_for_another_device_no_call_is_known(host):
    x = host.asarray(X)
    cudml.cumsum(x, 1)
    host.backend.planned_for = cudml.plan.device.H200
    cudml.cumsum(x, 1)
    host.backend.planned_for = None
    cudml.cumsum(x, 1)
    assert launched(host) == ["in full", "in full", "again"]


# ---- compiled descriptors


def scan_operator(alignment: int = 0) -> dml.device.CompiledOperator:
    tensor = dml.BufferTensorDesc(
        data_type=dml.TensorDataType.FLOAT32, sizes=(6, 9), guaranteed_base_offset_alignment=alignment
    )
    desc = dml.CumulativeSummationOperatorDesc(input_tensor=tensor, output_tensor=tensor, axis=1)
    return dml.Device().create_operator(desc).compile()


def test_operators_repeat_their_own_calls_only(host):
    one, other = scan_operator(), scan_operator()
    out = host.asarray(np.zeros_like(X))
    for operator, values, how in ((one, X, FULL), (one, Y, AGAIN), (other, X, FULL), (other, Y, AGAIN)):
        assert operator(host.asarray(values), out) is out
        assert launched(host) == how
        np.testing.assert_allclose(host.to_numpy(out), np.cumsum(values, 1), rtol=1e-5, atol=1e-5)
    held = host.asarray(np.concatenate([X, X]))
    with pytest.raises(ValueError, match="overlaps"):
        one(held[:6], held[1:7])
    with pytest.raises(TypeError, match="takes"):
        one()


def test_an_operator_that_does_not_work_in_place_refuses_every_time(host):
    tensor = dml.BufferTensorDesc(data_type=dml.TensorDataType.FLOAT32, sizes=(1, 1, 6, 9))
    desc = dml.MeanVarianceNormalization1OperatorDesc(
        input_tensor=tensor, output_tensor=tensor, axes=(3,), normalize_variance=True
    )
    operator = dml.Device().create_operator(desc).compile()
    x, out = host.asarray(X[None, None]), host.asarray(X[None, None])
    for _ in range(2):
        operator(x, None, None, out)
        with pytest.raises(ValueError, match="does not work in place"):
            operator(x, None, None, x)
    assert launched(host) == ["in full", "again"]


def test_guaranteed_alignments_beyond_those_of_keys_are_checked_every_time(host):
    operator = scan_operator(alignment=256)
    held = host.asarray(np.zeros(512, np.float32))
    first = -held.data.ptr % 256 // 4
    aligned, out, misaligned = (held[first + i :][:54].reshape(6, 9) for i in (0, 64, 132))
    operator(aligned, out)
    operator(aligned, out)
    with pytest.raises(ValueError, match="guarantees a multiple of 256"):
        operator(misaligned, out)
    assert launched(host) == ["in full", "in full"]


def test_owned_tensors_are_those_of_the_last_initialization(host):
    def tensor(flags: dml.TensorFlags = dml.TensorFlags.NONE) -> dml.BufferTensorDesc:
        return dml.BufferTensorDesc(data_type=dml.TensorDataType.FLOAT32, sizes=(1, 1, 6, 9), flags=flags)

    desc = dml.MeanVarianceNormalization1OperatorDesc(
        input_tensor=tensor(),
        scale_tensor=tensor(dml.TensorFlags.OWNED_BY_DML),
        output_tensor=tensor(),
        axes=(3,),
        normalize_variance=True,
    )
    operator = dml.Device().create_operator(desc).compile()
    x, out = host.asarray(X[None, None]), host.asarray(X[None, None])
    for factor in (1.0, 3.0):
        scale = host.asarray(np.full_like(X[None, None], factor))
        operator._owned = {"scale_tensor": scale}
        operator(x, None, None, out)
        expected = cudml.mean_variance_normalization(X, axes=1) * factor
        np.testing.assert_allclose(host.to_numpy(out)[0, 0], expected, rtol=1e-4, atol=1e-5)


# ---- threads


@pytest.mark.parametrize("early", [True, False], ids=["launched early", "launched in order"])
def test_threads_never_share_arguments_in_use(host, monkeypatch, early):
    """Two threads are both between filling in and launching."""
    monkeypatch.setattr(repeats, "can_begin_early", lambda device: early)
    values = [np.full((6, 9), value, np.float32) for value in (1, 2)]
    inputs = [host.asarray(v) for v in values]
    cudml.cumsum(inputs[0], 1)
    both = threading.Barrier(2, timeout=60)
    meetings: list[int] = []
    host.before_launch = lambda: meetings.append(both.wait())
    results: dict[int, Any] = {}
    threads = [threading.Thread(target=lambda i=i: results.update({i: cudml.cumsum(inputs[i], 1)})) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(meetings) == [0, 1]
    for i in range(2):
        np.testing.assert_array_equal(host.to_numpy(results[i]), np.cumsum(values[i], 1))


# ---- the parts


def test_parameters_are_laid_out_as_the_driver_reads_them():
    struct = np.array([1, 2, 3], np.int32).view("V12")
    parameters = Parameters([[11, struct], [np.array([2.5])], []])
    one, other = parameters.memory(), parameters.memory()
    one.words[parameters.places[0][0]] = 2**63
    for memory, first in ((one, 2**63), (other, 11)):
        pointers = (ctypes.c_void_p * 2).from_address(memory.tables[0])
        assert ctypes.c_uint64.from_address(pointers[0]).value == first
        assert ctypes.string_at(pointers[1], 12) == struct.tobytes()
        (number,) = (ctypes.c_void_p * 1).from_address(memory.tables[1])
        assert ctypes.c_double.from_address(number).value == 2.5


def test_addresses_inside_a_workspace_and_of_the_scratch(monkeypatch):
    def workspace_and_scratch(workspace_bytes: int, scratch_bytes: int, device: int) -> tuple[Piece, Piece]:
        return Piece(None, 1000, workspace_bytes), Piece(None, 5000 + device, scratch_bytes)

    monkeypatch.setattr(repeats, "workspace_and_scratch", workspace_and_scratch)
    words = array("Q", [7] * 5)
    temporary = repeats.Temporary(64, ((0, 0), (2, 24)), 8, (3,))
    assert [piece.nbytes for piece in temporary.take(words, 1)] == [64, 8]
    assert words.tolist() == [1000, 7, 1024, 5001, 7]


def test_the_older_half_makes_room():
    calls = Repeats(most=10)
    for key in range(13):
        calls.add(key, key)
    assert calls.known == [*range(5, 13)]


def test_a_key_that_cannot_be_hashed_is_no_key(host):
    x = host.asarray(X)
    for _ in range(2):
        cudml.cumsum(x, 1, reverse=np.array(False).reshape(()))
        cudml.mean_variance_normalization(x, axes=np.array([1]))
    assert launched(host) == FULL * 4


def test_known_calls_keep_no_array_alive(host):
    x, out = host.asarray(X), host.asarray(X)
    references = [weakref.ref(x), weakref.ref(out)]
    for _ in range(2):
        cudml.fmod(x, 2.0, out=out)
    del x, out
    assert [reference() for reference in references] == [None, None]


def test_hits_are_counted(host):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            cudml.cumsum(host.asarray(X), 1)
    (known,) = host.backend.repeats.known
    assert known.hits == 3


def test_known_calls_are_listed_with_their_hits(host, monkeypatch):
    monkeypatch.setattr(backend, "BACKEND", host.backend)
    for _ in range(3):
        cudml.cumsum(host.asarray(X), 1)
    _, line, last = info.plans().splitlines()
    assert line.split()[0] == "2"
    assert "scan_short_lines<<<" in line
    assert last == "1 calls known, 2 hits"
