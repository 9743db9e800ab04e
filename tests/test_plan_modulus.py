"""Plans of the truncated modulus: what is launched for which layout, without a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from plans import F32, constants, kernels, layout

from cudml.plan import make_plan
from cudml.plan.device import H200
from cudml.plan.layout import ArrayLayout
from cudml.plan.modulus.call import count_of
from cudml.plan.plan import Plan
from cudml.plan.spec import Modulus
from cudml.plan.turned import tile_of


def modulus(
    dividend: ArrayLayout | np.dtype, divisor: ArrayLayout | np.dtype, output: ArrayLayout, **device: object
) -> Plan:
    """For a GPU of so few threads that no array is small, unless `device` says otherwise."""
    arrays = {"dividend": dividend, "divisor": divisor, "output": output}
    return make_plan(Modulus(output.dtype), arrays, H200._replace(**{"threads_per_multiprocessor": 0, **device}))


SQUARE = layout((64, 64))


TURNED = layout((64, 64), strides=(1, 64))


@pytest.mark.parametrize(
    ("dividend", "divisor", "kernel", "access"),
    [
        (SQUARE, SQUARE, "packs", ("PACKED", "PACKED")),
        (SQUARE, F32, "packs", ("PACKED", "NUMBER")),
        (F32, SQUARE, "packs", ("NUMBER", "PACKED")),
        (SQUARE, layout((64,)), "packs", ("PACKED", "PACKED")),
        (SQUARE, layout((64, 1)), "packs", ("PACKED", "ONE")),
        (SQUARE, layout((1, 1)), "packs", ("PACKED", "ONE")),
        (layout((64, 64), alignment=4), SQUARE, "packs", ("SHIFTED", "PACKED")),
        (layout((64, 64), alignment=1), SQUARE, "packs", ("SHIFTED", "PACKED")),
        (layout((64, 64), strides=(65, 1)), SQUARE, "packs", ("SHIFTED", "PACKED")),
        (TURNED, SQUARE, "tiles", ("PACKED", "PACKED")),
        (TURNED, TURNED, "tiles", ("PACKED", "PACKED")),
        (SQUARE, TURNED, "tiles", ("PACKED", "PACKED")),
        (layout((64, 64), strides=(1, 65)), layout((64, 1)), "tiles", ("SHIFTED", "PACKED")),  # both turned
        (TURNED, layout((64, 64), strides=(128, 2)), "tiles", ("PACKED", "STRIDED")),
        (TURNED, F32, "tiles", ("PACKED", "NUMBER")),
        (layout((64, 64), strides=(128, 2)), SQUARE, "elements", ("ONE", "ONE")),
        (layout((64, 64), strides=(64, -1)), F32, "elements", ("ONE", "NUMBER")),
    ],
)
def test_kernels_of_a_modulus(dividend, divisor, kernel, access):
    plan = modulus(dividend, divisor, SQUARE)
    found = constants(plan)
    assert kernels(plan) == [f"modulus_{kernel}"]
    assert (found["DIVIDEND_ACCESS"], found["DIVISOR_ACCESS"]) == access


def test_arrays_in_one_order_are_packed_whatever_the_order():
    plan = modulus(TURNED, TURNED, TURNED)
    assert constants(plan)["PACK"] == "4"
    assert plan.launches[0].grid == 64 * 64 // (256 * 4)


def test_outputs_without_alignment_are_packed_from_where_they_are_aligned():
    shifted = layout((64, 601))
    plan = modulus(shifted, shifted, shifted)
    assert constants(plan)["DIVISOR_ACCESS"] == "PACKED"  # one axis, which begins aligned
    plan = modulus(layout((64, 601), alignment=4), layout((601,)), layout((64, 601), alignment=4))
    assert (constants(plan)["ALIGNED_ROWS"], constants(plan)["DIVISOR_ACCESS"]) == ("0", "SHIFTED")


@pytest.mark.parametrize(
    ("divisor", "dtype", "length", "kernel", "of_run"),
    [
        ("row", "int8", 127, "elements", "runs"),
        ("row", "int8", 129, "packs", "runs"),
        ("row", "int8", 1025, "packs", "packs"),
        ("row", "float16", 63, "elements", "runs"),
        ("row", "float16", 65, "packs", "runs"),
        ("row", "float16", 1281, "packs", "packs"),
        ("row", "float32", 511, "elements", "runs"),
        ("row", "float32", 513, "packs", "runs"),
        ("row", "float32", 8, "packs", "packs"),  # whole ones
        ("row", "int64", 5001, "elements", "elements"),
        ("row", "int64", 5002, "packs", "packs"),
        ("column", "int8", 95, "elements", "runs"),  # never tiles
        ("column", "int8", 96, "packs", "packs"),
        ("column", "int8", 100, "packs", "runs"),
        ("column", "int8", 257, "packs", "packs"),
        ("column", "int8", 64, "packs", "packs"),
        ("column", "int16", 47, "elements", "runs"),
        ("column", "int16", 50, "packs", "runs"),
        ("column", "int16", 257, "packs", "packs"),
        ("column", "float32", 31, "elements", "runs"),
        ("column", "float32", 33, "packs", "runs"),
        ("column", "float64", 5001, "elements", "elements"),
    ],
)
def test_rows_whose_ends_cost_more_are_taken_otherwise(divisor, dtype, length, kernel, of_run):
    """A run of short rows in packs of several rows, others by elements."""
    shapes = {"row": (length,), "column": (1000, 1)}
    source, by = layout((1000, length), dtype), layout(shapes[divisor], dtype)
    padded = layout((1000, length), dtype, strides=(length + 16, 1))
    assert kernels(modulus(source, by, source)) == [f"modulus_{of_run}"]
    assert kernels(modulus(padded, by, padded)) == [f"modulus_{kernel}"]
    assert kernels(modulus(source, by, padded)) == [f"modulus_{kernel}"]


def test_a_run_that_begins_amid_a_pack_is_taken_by_elements():
    by, aligned = layout((95,), "int8"), layout((1000, 95), "int8")
    shifted = layout((1000, 95), "int8", alignment=8)
    assert kernels(modulus(aligned, by, aligned)) == ["modulus_runs"]
    for dividend, output in ((shifted, aligned), (aligned, shifted)):
        assert kernels(modulus(dividend, by, output)) == ["modulus_elements"]


def test_large_elements_of_odd_rows_go_in_packs_where_nothing_is_broadcast():
    source = layout((1000, 1001), "float64")
    assert kernels(modulus(source, source, source)) == ["modulus_packs"]  # of a single axis
    padded = layout((1000, 1001), "float64", strides=(1003, 1))
    assert kernels(modulus(padded, padded, source)) == ["modulus_packs"]


def test_more_elements_are_few_where_rows_begin_anywhere():
    for shape, divisor, kernel in (
        ((256, 601), (601,), "elements"),
        ((256, 601), (256, 1), "runs"),
        ((256, 600), (600,), "packs"),
        ((700, 601), (601,), "runs"),
    ):
        source = layout(shape)
        plan = modulus(source, layout(divisor), source, threads_per_multiprocessor=2048)
        assert kernels(plan) == [f"modulus_{kernel}"]


def test_packs_with_a_common_divisor_share_a_thread():
    assert constants(modulus(SQUARE, layout((64,)), SQUARE))["ROWS"] == "2"
    assert constants(modulus(SQUARE, SQUARE, SQUARE))["ROWS"] == "1"
    of_rows = modulus(SQUARE, layout((64, 1)), SQUARE)  # each cut in two
    assert (constants(of_rows)["ROWS"], constants(of_rows)["RANK"]) == ("2", "2")
    assert of_rows.launches[0].grid == 64 * 64 // (256 * 4 * 2)
    odd = layout((64, 68))
    assert constants(modulus(odd, layout((64, 1)), odd))["ROWS"] == "1"
    small = layout((64, 64), dtype=np.int16)
    assert constants(modulus(small, layout((64,), dtype=np.int16), small))["ROWS"] == "4"


def test_blocks_of_large_arrays():
    large, row = layout((2**13, 2**12)), layout((2**12,))
    half = layout((2**12, 2**12))

    def blocks(*arrays, **properties):
        plan = modulus(*arrays, **{"threads_per_multiprocessor": 2048, **properties})
        return plan.launches[0].block, int(constants(plan)["BLOCKS"])

    assert blocks(large, large, large) == (1024, 2)
    assert blocks(half, half, half) == (256, 8)
    assert blocks(large, large, large, threads_per_multiprocessor=1536) == (256, 6)
    assert blocks(large, F32, large) == (128, 16)
    assert blocks(half, F32, half) == (256, 8)
    assert blocks(large, row, large) == (256, 1)


def test_shifted_bytes_have_small_blocks():
    padded, dense = layout((64, 4096), strides=(4097, 1), dtype=np.int8), layout((64, 4096), dtype=np.int8)
    assert modulus(padded, padded, dense).launches[0].block == 128
    assert modulus(dense, dense, dense).launches[0].block == 256


def test_what_moves_through_a_tile_decides_its_size():
    byte, wide = np.dtype(np.int8), layout((64, 64), dtype=np.int64)
    turned = layout((64, 64), strides=(1, 64), dtype=byte)
    for dividend, divisor, output, of in ((turned, wide, wide, 1), (turned, turned, wide, 8), (turned, byte, wide, 8)):
        found = constants(modulus(dividend, divisor, output))
        assert tuple(int(found[name]) for name in ("TILE_HEIGHT", "TILE_WIDTH", "BLOCK")) == tile_of(of, 64, 64)


@pytest.mark.parametrize(
    ("itemsize", "down", "across", "tile"),
    [
        (4, 1000, 1000, (64, 64, 256)),
        (4, 1000, 32, (64, 32, 128)),
        (4, 20, 1000, (32, 64, 128)),
        (4, 16, 16, (16, 32, 64)),
        (1, 64, 1000, (64, 128, 128)),
        (1, 16, 16, (32, 128, 128)),
        (2, 33, 40, (64, 64, 256)),
        (8, 17, 16, (32, 16, 64)),
    ],
)
def test_tiles_are_no_larger_than_they_have_to_be(itemsize, down, across, tile):
    assert tile_of(itemsize, down, across) == tile


@pytest.mark.parametrize(
    ("dtype", "kernel"), [(np.int8, "packs"), (np.float16, "packs"), (np.float32, "elements"), (np.int64, "elements")]
)
def test_small_elements_that_run_backwards_are_turned_round_in_packs(dtype, kernel):
    size = np.dtype(dtype).itemsize
    backwards, dense = layout((64, 256), strides=(256, -1), dtype=dtype), layout((64, 256), dtype=dtype)
    plan = modulus(backwards, dense, dense)
    assert kernels(plan) == [f"modulus_{kernel}"]
    assert constants(plan)["DIVIDEND_ACCESS"] == ("REVERSED" if size < 4 else "ONE")


def test_columns_that_run_backwards_are_turned_in_tiles():
    plan = modulus(layout((64, 64), strides=(-1, 64)), SQUARE, SQUARE)
    assert (kernels(plan), constants(plan)["DIVIDEND_ACCESS"]) == (["modulus_tiles"], "REVERSED")


def test_every_second_of_small_elements_is_picked_out_of_packs():
    ways = {np.int8: ("packs", "SECOND"), np.int16: ("packs", "SECOND"), np.int32: ("elements", "ONE")}
    for dtype, (kernel, access) in ways.items():
        every_second = layout((64, 256), strides=(512, 2), dtype=dtype)
        plan = modulus(every_second, every_second, layout((64, 256), dtype=dtype))
        assert (kernels(plan), constants(plan)["DIVISOR_ACCESS"]) == ([f"modulus_{kernel}"], access)


def test_threads_take_single_elements_of_small_arrays():
    for size, kernel in ((1024, "elements"), (2**16, "elements"), (2**17, "packs")):
        array = layout((size,))
        plan = modulus(array, array, array, threads_per_multiprocessor=2048)
        assert kernels(plan) == [f"modulus_{kernel}"]
    assert constants(modulus(SQUARE, SQUARE, SQUARE, threads_per_multiprocessor=2048))["ITEMS"] == "1"


def test_axes_of_a_modulus_are_merged_where_all_arrays_lie_in_one_stride():
    source = layout((8, 6, 40))
    assert constants(modulus(source, source, source))["RANK"] == "0"
    assert constants(modulus(source, layout((6, 40)), source))["RANK"] == "1"
    assert constants(modulus(source, layout((8, 1, 40)), source))["RANK"] == "2"


def test_doubles_are_used_for_integers_where_they_are_fast():
    for capability, fast in (((9, 0), "1"), ((8, 0), "1"), ((7, 5), "0"), ((8, 9), "0"), ((12, 0), "0")):
        assert constants(modulus(SQUARE, SQUARE, SQUARE, compute_capability=capability))["FAST_DOUBLE"] == fast


def test_an_empty_modulus_launches_nothing():
    for shape in ((0,), (3, 0), (0, 64)):
        assert modulus(layout(shape), F32, layout(shape)).launches == ()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 1000, 2**16 + 1, 2**30, 2**30 + 1, 2**31 - 1])
def test_counts_divide_exactly(size):
    """As struct Count does, in 32 bits."""
    _, factor, shift = count_of(size)
    assert -(2**31) <= factor < 2**31
    candidates = {0, 1, size - 1, size, size + 1, 2**31 - 1, 2**31 - 2}
    multiples = {k * size + step for k in (2, 3, 1000, (2**31 - 1) // size) for step in (-1, 0, 1)}
    for n in filter(range(2**31).__contains__, candidates | multiples):
        quotient = n if size == 1 else (n * (factor % 2**32) >> 32) >> shift
        assert quotient == n // size


@pytest.mark.parametrize(
    ("dtype", "down", "across"),
    [(np.int8, 16, 64), (np.float16, 8, 32), (np.float32, 8, 32), (np.int64, 8, 16)],
)
def test_short_axes_are_not_turned_in_tiles(dtype, down, across):
    def planned(height, width):
        turned = layout((height, width), strides=(1, height), dtype=dtype)
        return kernels(modulus(turned, np.dtype(dtype), layout((height, width), dtype=dtype)))

    assert planned(down, across) == ["modulus_tiles"]
    assert planned(down - 1, 4096) == planned(4096, across - 1) == ["modulus_elements"]
