"""Plans of the truncated modulus: what is launched for which layout, without a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from plans import F32, constants, kernels, layout

from cudml.plan import make_plan
from cudml.plan.device import H200
from cudml.plan.layout import ArrayLayout
from cudml.plan.modulus.call import call_of, count_of
from cudml.plan.modulus.runs import plan_runs
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
        (SQUARE, layout((64, 1)), "runs", ("PACKED", "ONE")),
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
        (layout((64, 64), strides=(64, -1)), F32, "runs", ("ONE", "NUMBER")),
        (layout((64, 64), strides=(63, 2)), F32, "runs", ("ONE", "NUMBER")),
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
        ("row", "int8", 1025, "packs", "runs"),
        ("row", "float16", 63, "elements", "runs"),
        ("row", "float16", 65, "packs", "runs"),
        ("row", "float16", 1281, "packs", "runs"),
        ("row", "float32", 511, "elements", "runs"),
        ("row", "float32", 513, "packs", "runs"),
        ("row", "float32", 8, "packs", "packs"),  # whole ones
        ("row", "int64", 5001, "elements", "runs"),
        ("row", "int64", 5002, "packs", "packs"),  # whole ones
        ("column", "int8", 95, "elements", "runs"),  # never tiles
        ("column", "int8", 4097, "packs", "packs"),
        ("column", "int8", 96, "packs", "packs"),
        ("column", "int8", 100, "packs", "runs"),
        ("column", "int8", 257, "packs", "runs"),
        ("column", "int8", 64, "packs", "packs"),
        ("column", "int16", 47, "elements", "runs"),
        ("column", "int16", 50, "packs", "runs"),
        ("column", "int16", 257, "packs", "runs"),
        ("column", "float32", 31, "elements", "runs"),
        ("column", "float32", 33, "packs", "runs"),
        ("column", "float64", 5001, "elements", "runs"),
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


def test_a_run_begins_with_a_whole_pack():
    by, aligned = layout((95,), "int8"), layout((1000, 95), "int8")
    shifted = layout((1000, 95), "int8", alignment=8)
    kinds = ("DIVIDENDS", "DIVISORS")
    for dividend, divisor, expected in (
        (aligned, by, ("RUN", "OF_A_ROW")),
        (shifted, by, ("SINGLE", "OF_A_ROW")),
        (layout((1000, 1), "int8"), aligned, ("SINGLE", "RUN")),
        (np.dtype("int8"), layout((1000, 95), "int8", strides=(97, 1)), ("NUMBER", "SINGLE")),
        (layout((1000, 95), "int8", strides=(97, 1)), np.dtype("int8"), ("SINGLE", "NUMBER")),
    ):
        plan = modulus(dividend, divisor, aligned)
        assert (kernels(plan), tuple(constants(plan)[kind] for kind in kinds)) == (["modulus_runs"], expected)
    assert kernels(modulus(aligned, by, shifted)) == ["modulus_elements"]


@pytest.mark.parametrize(
    ("dtype", "length", "divisors"),
    [("int8", 14, "SINGLE"), ("int8", 15, "OF_TWO_ROWS"), ("float32", 2, "SINGLE"), ("float32", 3, "OF_TWO_ROWS")],
)
def test_a_pack_lies_in_two_rows_at_the_most(dtype, length, divisors):
    source = layout((1000, length), dtype)
    assert constants(modulus(source, layout((1000, 1), dtype), source))["DIVISORS"] == divisors


@pytest.mark.parametrize(
    ("dtype", "rows", "length", "by_row", "by_column"),
    [
        ("int8", 100_000, 33, 1, 1),
        ("int8", 1_000_000, 33, 4, 2),
        ("int8", 2_000_000, 33, 4, 4),
        ("int8", 200, 100_001, 4, 2),
        ("int8", 30, 1_000_001, 1, 2),  # fewer rows than two periods have
        ("int8", 1000, 1_000_001, 1, 4),  # longer periods than an index bears
        ("float16", 2_000_000, 33, 4, 2),
        ("float32", 2_000_000, 33, 1, 2),
        ("int64", 2_000_000, 33, 1, 2),
    ],
)
def test_packs_of_a_thread_leave_enough_threads(dtype, rows, length, by_row, by_column):
    source, size = layout((rows, length), dtype), rows * length
    for shape, expected in (((length,), by_row), ((rows, 1), by_column)):
        arrays = {"dividend": source, "divisor": layout(shape, dtype), "output": source}
        plan = plan_runs(call_of(Modulus(np.dtype(dtype)), arrays, H200))
        assert int(constants(plan)["PACKS"]) == expected
        threads = plan.launches[0].grid * plan.launches[0].block
        assert size <= threads * expected * int(constants(plan)["PACK"])
        assert threads * expected * int(constants(plan)["PACK"]) < size + 2**24


@pytest.mark.parametrize(
    ("dtype", "length", "kernel"),
    [
        ("int8", 96, "packs"),
        ("int8", 127, "runs"),
        ("int8", 129, "packs"),
        ("float16", 95, "runs"),
        ("float16", 96, "packs"),
        ("float16", 97, "packs"),
        ("float32", 1001, "runs"),
        ("float32", 12, "runs"),  # whole packs, of which a row has few
    ],
)
def test_padded_rows_by_a_column_are_a_run_where_they_are_short(dtype, length, kernel):
    padded = layout((1000, length), dtype, strides=(length + 1, 1))
    plan = modulus(padded, layout((1000, 1), dtype), layout((1000, length), dtype))
    assert kernels(plan) == [f"modulus_{kernel}"]


def test_few_bytes_at_a_step_are_taken_by_elements():
    for dtype, size, kernel in ((np.int8, 2**21, "elements"), (np.int8, 2**22, "runs"), (np.int32, 2**24, "elements")):
        every_third = layout((size,), dtype, strides=(3,))
        plan = modulus(every_third, layout((size,), dtype), layout((size,), dtype), threads_per_multiprocessor=2048)
        assert kernels(plan) == [f"modulus_{kernel}"]


def test_more_elements_are_few_where_rows_begin_anywhere():
    for shape, divisor, padding, kernel in (
        ((256, 601), (601,), 1, "elements"),
        ((256, 601), (601,), 0, "runs"),
        ((256, 601), (256, 1), 0, "runs"),
        ((256, 600), (600,), 0, "packs"),
        ((700, 601), (601,), 1, "packs"),
        ((100, 601), (601,), 0, "elements"),
    ):
        source, out = layout(shape), layout(shape, strides=(shape[1] + padding, 1))
        plan = modulus(source, layout(divisor), out, threads_per_multiprocessor=2048)
        assert kernels(plan) == [f"modulus_{kernel}"]
    for rows, kernel in ((1000, "elements"), (1500, "runs")):
        source = layout((rows, 95), np.int8)
        plan = modulus(source, layout((95,), np.int8), source, threads_per_multiprocessor=2048)
        assert kernels(plan) == [f"modulus_{kernel}"]


def test_packs_with_a_common_divisor_share_a_thread():
    assert constants(modulus(SQUARE, layout((64,)), SQUARE))["ROWS"] == "2"
    assert constants(modulus(SQUARE, SQUARE, SQUARE))["ROWS"] == "1"
    doubles, column = layout((64, 64), np.float64), layout((64, 1), np.float64)
    of_rows = modulus(doubles, column, doubles)  # each cut in two
    assert (constants(of_rows)["ROWS"], constants(of_rows)["RANK"]) == ("2", "2")
    assert of_rows.launches[0].grid == 64 * 64 // (256 * 2 * 2)
    odd = layout((64, 66), np.float64)
    assert constants(modulus(odd, column, odd))["ROWS"] == "1"
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
    byte, wide = np.dtype(np.int8), layout((64, 256), dtype=np.int64)
    turned = layout((64, 256), strides=(1, 64), dtype=byte)
    for dividend, divisor, output, of in ((turned, wide, wide, 1), (turned, turned, wide, 8), (turned, byte, wide, 8)):
        found = constants(modulus(dividend, divisor, output))
        tile = tile_of(of, 64, 256, of * 64 * 256 / H200.multiprocessors)
        assert tuple(int(found[name]) for name in ("TILE_HEIGHT", "TILE_WIDTH", "BLOCK")) == tile


@pytest.mark.parametrize(
    ("itemsize", "down", "across", "tile"),
    [
        (4, 1000, 1000, (64, 64, 256)),
        (4, 1000, 32, (64, 32, 128)),
        (4, 20, 1000, (32, 64, 128)),
        (4, 16, 16, (16, 32, 64)),
        (1, 64, 1000, (64, 128, 128)),
        (1, 16, 16, (16, 128, 128)),
        (1, 17, 16, (32, 128, 128)),
        (2, 8, 1000, (8, 64, 64)),
        (2, 33, 40, (64, 64, 256)),
        (8, 17, 16, (32, 16, 64)),
    ],
)
def test_tiles_are_no_larger_than_they_have_to_be(itemsize, down, across, tile):
    assert tile_of(itemsize, down, across) == tile


@pytest.mark.parametrize(
    ("dtype", "few", "many"),
    [
        (np.int8, (2048, 32, 128), (2176, 128, 128)),  # rows and columns, height and width
        (np.float16, (1024, 32, 64), (1088, 64, 64)),
        (np.float32, (1248, 32, 32), (1280, 64, 64)),
        (np.float64, (1024, 16, 32), (1056, 32, 32)),
    ],
)
def test_few_elements_are_turned_in_small_tiles(dtype, few, many):
    for size, height, width in (few, many):
        dense, turned = (layout((size, size), strides=strides, dtype=dtype) for strides in ((size, 1), (1, size)))
        found = constants(modulus(dense, turned, dense))
        assert (int(found["TILE_HEIGHT"]), int(found["TILE_WIDTH"])) == (height, width)


@pytest.mark.parametrize(
    ("dtype", "kernel"), [(np.int8, "packs"), (np.float16, "packs"), (np.float32, "runs"), (np.int64, "runs")]
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
    ("dtype", "height", "by", "width", "narrower"),
    [
        (np.int8, 16, "array", 240, 224),
        (np.int8, 16, "number", 96, 80),
        (np.int8, 16, "turned", 64, 48),
        (np.float16, 8, "array", 160, 152),
        (np.float16, 8, "array", 193, 191),
        (np.float16, 8, "number", 96, 88),
        (np.float16, 8, "turned", 48, 40),
        (np.float32, 8, "array", 128, 124),
        (np.float32, 8, "array", 321, 319),
        (np.float32, 8, "column", 96, 92),
        (np.float32, 8, "turned", 32, 28),
        (np.int64, 8, "array", 80, 78),
        (np.int64, 8, "array", 449, 447),
        (np.int64, 8, "number", 80, 78),
        (np.int64, 8, "turned", 16, 14),
    ],
)
def test_short_axes_are_not_turned_in_tiles(dtype, height, by, width, narrower):
    assert _of_turned(100_000, width, dtype, by) == _of_turned(height, 400_000, dtype, by) == "modulus_tiles"
    assert _of_turned(100_000, narrower, dtype, by) != "modulus_tiles"
    assert _of_turned(height - 1, 400_000, dtype, by) != "modulus_tiles"


@pytest.mark.parametrize(("dtype", "lowest", "enough"), [(np.int8, 16, 21), (np.int16, 8, 11), (np.float32, 8, 11)])
def test_tiles_that_are_half_empty_do_not_pay(dtype, lowest, enough):
    def are_turned(height, by="number", width=65_536, **device):
        return _of_turned(height, width, dtype, by, **device) == "modulus_tiles"

    assert not are_turned(lowest - 1)
    assert are_turned(lowest)
    assert not are_turned(lowest + 1)
    assert not are_turned(enough - 1)
    assert are_turned(enough)
    assert are_turned(lowest + 1, by="turned")
    assert are_turned(lowest + 1, cache_bytes=(lowest + 1) * 65_536 * np.dtype(dtype).itemsize - 1)


def test_tiles_of_wide_elements_need_not_be_full():
    assert _of_turned(9, 65_536, np.int64, "number") == "modulus_tiles"


@pytest.mark.parametrize(("dtype", "width"), [(np.int8, 128), (np.float16, 64), (np.float32, 32), (np.int64, 32)])
def test_whole_tiles_are_turned_from_one_on(dtype, width):
    assert _of_turned(1000, width, dtype, "array") == "modulus_tiles"
    assert _of_turned(1000, width + 1, dtype, "array") != "modulus_tiles"


@pytest.mark.parametrize(("dtype", "of_thread"), [(np.int8, 6), (np.float16, 2), (np.float32, 8), (np.int64, 24)])
def test_few_rows_that_begin_anywhere_are_not_turned_in_tiles(dtype, of_thread):
    threads = {"multiprocessors": 10, "threads_per_multiprocessor": 2048}
    rows = of_thread * 20480 // (1001 * np.dtype(dtype).itemsize)
    assert _of_turned(rows + 1, 1001, dtype, "array", **threads) == "modulus_tiles"
    assert _of_turned(rows, 1001, dtype, "array", **threads) == "modulus_elements"
    assert _of_turned(max(rows // 2, 16), 1024, dtype, "array", **threads) == "modulus_tiles"


@pytest.mark.parametrize(("dtype", "width"), [(np.int8, 80), (np.float16, 48)])
def test_what_is_no_run_is_turned_in_narrow_tiles(dtype, width):
    turned = layout((10, 1000, width), dtype, strides=(1000 * width, 1, 1000))
    dense = layout((10, 1000, width), dtype)
    assert kernels(modulus(turned, dense, dense)) == ["modulus_tiles"]
    assert _of_turned(10_000, width, dtype, "array") == "modulus_runs"


def _of_turned(height, width, dtype, by, **device):
    """The kernel that divides a transposed matrix."""
    dense, turned = layout((height, width), dtype), layout((height, width), dtype, strides=(1, height))
    divisors = {"array": dense, "turned": turned, "column": layout((height, 1), dtype), "number": np.dtype(dtype)}
    (kernel,) = kernels(modulus(turned, divisors[by], dense, **device))
    return kernel
