"""Layouts, and what a plan is."""

from __future__ import annotations

import numpy as np
import pytest
from plans import F32, constants, layout, scan

from cudml.plan import make_plan, recall_plan
from cudml.plan.activation import Activation
from cudml.plan.binding import Binding
from cudml.plan.device import H200
from cudml.plan.layout import (
    ArrayLayout,
    Dims,
    alignment_of,
    broadcast,
    collapse,
    collapse_together,
    index_type,
    magic_of,
)
from cudml.plan.plan import Launch, Plan, Pointer, Scalar, Scratch, Struct, Workspace
from cudml.plan.spec import Modulus, Moments, Normalization, Scan

# ---- layouts


@pytest.mark.parametrize(
    ("shape", "strides", "axes", "expected"),
    [
        ((4, 5, 6), (30, 6, 1), (0, 1, 2), Dims((120,), (4,))),
        ((4, 5, 6), (30, 6, 1), (0, 2), Dims((4, 6), (120, 4))),
        ((4, 1, 6), (6, 99, 1), (0, 1, 2), Dims((24,), (4,))),
        ((4, 5), (1, 4), (0, 1), Dims((4, 5), (4, 16))),
        ((4, 5), (1, 4), (1, 0), Dims((20,), (4,))),
        ((4, 5), (0, 0), (0, 1), Dims((20,), (0,))),
        ((6,), (-1,), (0,), Dims((6,), (-4,))),
        ((1, 1), (7, 7), (0, 1), Dims((1,), (0,))),
        ((3, 4), (4, 1), (), Dims((1,), (0,))),
    ],
)
def test_collapse_merges_axes_that_lie_in_one_stride(shape, strides, axes, expected):
    assert collapse(layout(shape, strides=strides), axes) == expected


def test_collapsed_dims_reach_the_same_elements():
    rng = np.random.default_rng(1)
    array = np.arange(2 * 3 * 4 * 5, dtype=np.int64).reshape(2, 3, 4, 5).transpose(2, 0, 3, 1)[::-1, :, ::2]
    dims = collapse(ArrayLayout(array.shape, array.strides, array.dtype, 16), range(4))
    for number in rng.integers(array.size, size=20):
        places = np.unravel_index(number, dims.sizes)
        offset = sum(int(place) * stride for place, stride in zip(places, dims.strides, strict=True))
        assert array.flat[number] == array[0, 0, 0, 0] + offset // array.itemsize


def test_axes_that_merge_in_one_layout_only_stay():
    dense, column = layout((4, 5, 6)), broadcast(layout((4, 5, 1)), (4, 5, 6))
    assert collapse_together([dense], (0, 1, 2)) == ((120,), [(4,)])
    assert collapse_together([dense, column], (0, 1, 2)) == ((20, 6), [(24, 4), (4, 0)])
    assert collapse_together([layout((1, 1))], (0, 1)) == ((1,), [(0,)])


def test_broadcast_gives_the_strides_of_numpy():
    array = np.zeros((3, 1, 5), np.float32)
    found = broadcast(ArrayLayout(array.shape, array.strides, array.dtype, 16), (2, 3, 4, 5))
    assert found.strides == np.broadcast_to(array, (2, 3, 4, 5)).strides


@pytest.mark.parametrize(("address", "expected"), [(0, 16), (512, 16), (24, 8), (4, 4), (7, 1)])
def test_alignment(address, expected):
    assert alignment_of(address) == expected


@pytest.mark.parametrize(("reach", "expected"), [(2**30, np.int32), (2**31 - 1, np.int64), (2**40, np.int64)])
def test_index_type_grows_with_offsets(reach, expected):
    assert index_type((1,), (Dims((2,), (reach,)),)) == expected
    assert index_type((reach,), ()) == expected


@pytest.mark.parametrize("divisor", [2, 3, 5, 7, 49, 64, 1000, 2**20 + 1, 2**30, 2**31 - 1])
def test_magic_numbers_divide(divisor):
    magic, shift = magic_of(divisor)
    most = 2**31 - 1
    for n in (0, 1, divisor - 1, divisor, divisor + 1, 3 * divisor - 1, most, most // divisor * divisor - 1):
        if 0 <= n <= most:
            assert n * (magic % 2**32) >> (32 + shift) == n // divisor


# ---- what a plan is


def test_a_plan_prints_what_it_launches():
    text = str(scan((300, 20_000)))
    assert text.startswith("scan_stream.cu: ")
    assert "VALUE=float" in text
    assert "scan_stream<<<132, 480, 229376>>>(input, output, offsets, scratch, {300, 20000, 3, 0, 0," in text
    assert text.endswith("scratch: 7208 bytes")


def test_a_plan_prints_its_memory():
    arguments = (Scratch(), Workspace(16), Pointer("input"))
    plan = Plan("scan.cu", (), (Launch("kernel", 3, 64, arguments, shared_bytes=49_152),), 32, scratch_bytes=1024)
    assert str(plan).splitlines() == [
        "scan.cu: ",
        "kernel<<<3, 64, 49152>>>(scratch, workspace+16, input)",
        "workspace: 32 bytes",
        "scratch: 1024 bytes",
    ]


def test_a_binding_passes_what_the_call_has():
    number = Scalar("b", np.dtype(np.float64))
    arguments = (Pointer("a"), Pointer("b"), Pointer("absent"), Workspace(16), number, Struct((7,), F32), Scratch())
    binding = Binding(Launch("kernel", 1, 32, arguments))
    for scalar in (2, 3):
        arrays = {"a": "address", "b": np.int8(scalar)}
        a, b, absent, workspace, value, struct, scratch = binding(arrays, {"address": 512}.get, 1024, 4096)
        assert (a, b, absent, workspace, scratch) == (512, 0, 0, 1040, 4096)
        assert (value.dtype, value.tolist()) == (np.float64, [scalar])
        assert struct.tobytes() == np.float32(7).tobytes()


def test_plans_are_recalled_by_device():
    line = layout((64,))
    call = Modulus(F32), tuple((name, line) for name in ("dividend", "divisor", "output"))
    plan = recall_plan(*call, H200)
    assert recall_plan(*call, H200._replace()) is plan
    assert recall_plan(*call, H200._replace(multiprocessors=1)) is not plan


def test_a_struct_is_packed_as_its_members():
    packed = Struct((1, -2, 3), np.dtype(np.int32)).packed()
    assert packed.size == 1
    assert packed.tobytes() == np.array([1, -2, 3], np.int32).tobytes()


def test_plans_are_equal_for_equal_calls_and_hashable():
    assert scan((5, 6)) == scan((5, 6))
    assert len({scan((5, 6)), scan((5, 6)), scan((5, 6), reverse=True)}) == 2


def test_plans_for_zeros_of_both_signs_differ():
    def plan(alpha: float) -> Plan:
        spec = Normalization((1,), activation=Activation("leaky_relu", (alpha,)))
        return make_plan(spec, {"input": layout((6, 9)), "output": layout((6, 9))})

    assert plan(0.0) == plan(0.0)
    assert plan(0.0) != plan(-0.0)


def test_strides_of_empty_axes_count():
    """As of x[:0, 0] where rows have 2 GiB."""
    empty, one = layout((0,), strides=(2**29 + 16,)), layout((1,))
    for plan in (
        make_plan(Moments((0,)), {"input": empty, "mean": one, "variance": one}),
        make_plan(Scan("sum", np.dtype(np.float32), 0, initial=True), {"input": empty, "output": one}),
    ):
        assert constants(plan)["INDEX"] == "long long"
        structs = [argument for argument in plan.launches[0].arguments if isinstance(argument, Struct)]
        assert all(struct.packed().nbytes for struct in structs)
