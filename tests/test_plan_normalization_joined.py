"""Plans of normalization, without a GPU: groups that have several columns each."""

from __future__ import annotations

import numpy as np
import pytest
from plans import H100, constants, in_order, kernels, layout

from cudml.plan import make_plan
from cudml.plan.device import H200
from cudml.plan.layout import ArrayLayout
from cudml.plan.plan import Plan, Struct, Workspace
from cudml.plan.spec import Moments, Normalization

JOINED = ["sum_joined_columns", "join_columns"]


def moments(source: ArrayLayout, axes: tuple[int, ...]) -> Plan:
    reduced = layout(tuple(1 if axis in axes else size for axis, size in enumerate(source.shape)), source.dtype.name)
    return make_plan(Moments(axes), {"input": source, "mean": reduced, "variance": reduced}, H200)


def normalized(source: ArrayLayout, axes: tuple[int, ...], output: ArrayLayout | None = None, **others) -> Plan:
    arrays = {"input": source, "output": output or source, **others}
    return make_plan(Normalization(axes), arrays, H200)


@pytest.mark.parametrize(
    ("shape", "order", "axes", "dtype", "joined"),
    [
        ((8, 32, 10, 4096), (0, 3, 1, 2), (2, 3), "float32", True),  # groups of channels that lie last
        ((8, 32, 10, 3136), (0, 3, 1, 2), (2, 3), "float16", True),  # in tiles of 64
        ((8, 32, 10, 3135), (0, 3, 1, 2), (2, 3), "float16", False),  # which nothing divides
        ((8, 32, 10, 4096), (0, 3, 2, 1), (2, 3), "float32", False),  # groups side by side
        ((8, 32, 10, 4096), (0, 1, 2, 3), (2, 3), "float32", False),
        ((4096, 4096), (1, 0), (0, 1), "float32", True),
        ((4096, 4096), (1, 0), (0,), "float32", False),  # lines
        ((4096, 4096), (1, 0), (1,), "float32", False),  # columns
        ((4096, 72), (1, 0), (0, 1), "float32", False),  # in tiles of 32 bytes
        ((4096, 80), (1, 0), (0, 1), "float32", True),  # and of 64
        ((512, 512), (1, 0), (0, 1), "float32", False),  # small
        ((4, 262144), (1, 0), (0, 1), "float32", False),  # in rows of 16 bytes
        ((8, 262144), (1, 0), (0, 1), "float32", True),
        ((8, 262160), (1, 0), (0, 1), "float32", False),  # by four threads
    ],
)
def test_columns_that_tiles_divide_are_joined(
    shape: tuple[int, ...], order: tuple[int, ...], axes: tuple[int, ...], dtype: str, joined: bool
):
    view = in_order(shape, order, dtype)
    assert ("join_columns" in kernels(moments(view, axes))) == joined
    found = kernels(normalized(view, axes))
    assert ("join_columns" in found) == joined
    if joined:
        assert found[-1] == "apply_joined_columns"


def test_what_is_normalized_into_another_order_is_not_joined():
    view = in_order((4096, 4096), (1, 0))
    assert "join_columns" not in kernels(normalized(view, (0, 1), layout(view.shape)))


def test_strides_of_axes_with_one_element_do_not_matter():
    source = in_order((1, 32, 10, 4096), (0, 3, 1, 2))
    output = source._replace(strides=(4, *source.strides[1:]))
    assert kernels(normalized(source, (2, 3), output)) == [*JOINED, "apply_joined_columns"]


def test_only_what_is_normalized_needs_room_for_normalizers():
    source = in_order((8, 32, 10, 4096), (0, 3, 1, 2))
    assert moments(source, (2, 3)).workspace_bytes == 256 * 320 * 16
    assert normalized(source, (2, 3)).workspace_bytes == 256 * 24 + 256 * 80 * 16


@pytest.mark.parametrize(
    ("shape", "dtype", "tile"),
    [
        ((16384, 16384), "float32", 4096),
        ((4096, 4096), "float32", 256),
        ((4096, 4096), "float16", 1024),
        ((4096, 3136), "float32", 64),
        ((4096, 80), "float32", 16),
        ((4096, 4096), "float64", 512),
    ],
)
def test_tiles_divide_columns(shape: tuple[int, int], dtype: str, tile: int):
    found = constants(moments(in_order(shape, (1, 0), dtype), (0, 1)))
    chunk = 16 // np.dtype(dtype).itemsize
    assert tile == chunk * int(found["SPAN"]) * int(found["SPANS"]) * int(found["ROUNDS"])
    assert shape[1] % tile == 0
    assert int(found["ACROSS"]) * int(found["SPANS"]) % 32 == 0


def test_blocks_are_no_wider_than_all_columns():
    found = constants(moments(in_order((48, 1_666_752), (1, 0), "float16"), (0, 1)))
    assert int(found["ACROSS"]) * int(found["VECTOR"]) == 64


@pytest.mark.parametrize(
    ("shape", "axes", "folded", "joiners"),
    [
        ((8, 32, 10, 4096), (2, 3), 0, 2),  # 320 parts of 128 elements
        ((8192, 64), (0, 1), 0, 32),  # 8192 of 64
        ((12288, 32), (0, 1), 1, 1),  # 12288 of 32, and 48 of 256 parts
        ((16384, 80), (0, 1), 1, 2),  # 81920 of 16, and 320
        ((1048576, 64), (0, 1), 1, 16),  # 1048576 and 4096
        ((33554432, 16), (0, 1), 2, 2),  # 33554432, 131072 and 512
    ],
)
def test_parts_are_folded_until_one_block_adds_them_up(
    shape: tuple[int, ...], axes: tuple[int, ...], folded: int, joiners: int
):
    order = (0, 3, 1, 2) if len(shape) == 4 else (1, 0)
    plan = moments(in_order(shape, order), axes)
    assert kernels(plan) == [JOINED[0], *["fold_parts"] * folded, JOINED[1]]
    assert int(constants(plan)["JOINERS"]) == joiners
    counts = [launch.arguments[2] for launch in plan.launches[1:-1]]
    assert all(isinstance(fold, Struct) and -(-fold.values[1] // 256) == fold.values[2] for fold in counts)


def test_parts_lie_behind_each_other_in_the_workspace():
    plan = normalized(in_order((33554432, 16), (1, 0)), (0, 1))
    places = [
        argument.offset
        for launch in plan.launches
        for argument in launch.arguments
        if isinstance(argument, Workspace) and argument.offset
    ]
    parts = 33554432
    ends = [32, 32 + 16 * parts, 32 + 16 * (parts + parts // 256), plan.workspace_bytes]
    assert sorted(set(places)) == ends[:3]
    assert plan.workspace_bytes == ends[2] + 16 * (parts // 256 // 256)


def test_groups_find_their_columns_in_any_order():
    """2000 groups of 6 columns, which lie side by side."""
    shape, axes = (400, 6, 5, 64), (1, 3)
    plan = normalized(in_order(shape, (3, 0, 2, 1)), axes)
    joints = plan.launches[0].arguments[3]
    assert isinstance(joints, Struct)
    of_group, *numbers = joints.values
    tiles = of_group // 6
    first_rank, parts_rank = int(constants(plan)["FIRST_RANK"]), int(constants(plan)["PARTS_RANK"])
    first, parts = numbers[: 2 * first_rank], numbers[2 * first_rank :]
    assert parts_rank == len(parts) // 2

    def offset(layout: list[float], rank: int, number: int) -> float:
        sizes, strides, total = layout[:rank], layout[rank:], 0.0
        for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
            total, number = total + number % int(size) * stride, number // int(size)
        return total

    columns = [(i, k, j) for i in range(400) for k in range(5) for j in range(6)]
    for number in (0, 1, 5, 6, 37, len(columns) - 1):
        i, k, j = columns[number]
        assert offset(first, first_rank, number) == 4 * (30 * i + 6 * k)
        assert offset(parts, parts_rank, number) == ((5 * i + k) * 6 + j) * tiles


def test_older_gpus_join_columns_too():
    view = in_order((8, 32, 10, 4096), (0, 3, 1, 2))
    for device in (H100, H200._replace(compute_capability=(7, 5), multiprocessors=40)):
        plan = make_plan(Normalization((2, 3)), {"input": view, "output": view}, device)
        assert kernels(plan) == [*JOINED, "apply_joined_columns"]
