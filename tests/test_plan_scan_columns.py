"""Plans of scans, without a GPU: columns, strips of them and panels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plans import F32, constants, kernels, layout, scan

from cudml.plan import make_plan
from cudml.plan.device import H200
from cudml.plan.layout import ArrayLayout
from cudml.plan.spec import Normalization, Operation, Scan


def test_strips_have_fewer_columns_where_many_blocks_share_one():
    assert constants(scan((100_000, 4096), 0))["COLUMNS"] == "64"
    assert constants(scan((100_000, 256), 0))["COLUMNS"] == "32"
    assert constants(scan((100_000, 64), 0))["COLUMNS"] == "64"  # contiguous


@pytest.mark.parametrize(
    ("inner", "dtype", "columns"),
    [
        (256, "int8", "64"),
        (200, "int8", "128"),
        (200, "int16", "64"),
        (204, "int16", "128"),
        (200, "float16", "64"),
        (204, "float16", "64"),
        (200, "int32", "32"),
    ],
)
def test_strips_of_small_elements_are_wide_all_the_same(inner, dtype, columns):
    x = layout((1_000_000, inner), dtype)
    assert constants(make_plan(Scan("sum", x.dtype, 0), {"input": x, "output": x}))["COLUMNS"] == columns


@pytest.mark.parametrize(
    ("inner", "dtype", "expected"),
    [
        (1001, "int8", ("1", "4", "8")),
        (1001, "int16", ("1", "4", "8")),
        (1001, "int32", ("2", "4", "8")),
        (1000, "int8", ("1", "4", "8")),
        (1008, "int8", ("1", "2", "8")),
    ],
)
def test_blocks_take_units_of_small_elements_one_by_one(inner, dtype, expected):
    x = layout((100_000, inner), dtype)
    found = constants(make_plan(Scan("sum", x.dtype, 0), {"input": x, "output": x}))
    assert tuple(found[name] for name in ("UNITS_OF_TICKET", "LOADERS", "SCANNERS")) == expected


def test_less_is_on_its_way_where_blocks_of_columns_would_drift_apart():
    every_second = layout((65_536, 2048), "float32", strides=(4096, 2))
    one_by_one = make_plan(Scan("sum", F32, 0), {"input": every_second, "output": layout((65_536, 2048), "float32")})
    few_units, many_units = scan((4096, 1024, 64), 1), scan((64, 65_536, 64), 1)
    assert [constants(plan)["STAGES"] for plan in (one_by_one, few_units, many_units)] == ["4", "4", "6"]
    assert constants(one_by_one)["FOLDER_SETS"] == "1"


@pytest.mark.parametrize("columns", [220_000, 240_004, 700_000, 1 << 20, 2_000_004])
@pytest.mark.parametrize(("length", "packs"), [(200, 2), (300, 1)])
@pytest.mark.parametrize("kilobytes", [164, 227])
def test_strips_in_step_are_all_of_a_row_and_fit_a_block(length, packs, columns, kilobytes):
    device = H200._replace(shared_bytes_per_block=kilobytes * 1024)
    array = layout((length, columns), "float32")
    plan = make_plan(Scan("sum", F32, 0), {"input": array, "output": array}, device)
    assert kernels(plan) == ["scan_columns_in_step"]
    (launch,), found = plan.launches, {name: int(constants(plan)[name]) for name in ("SCANNERS", "PACKS", "STEPS")}
    width, passes, slices = launch.arguments[-1].values
    assert columns <= width * passes * launch.grid < 1.01 * columns + 8 * passes * launch.grid
    assert width * 4 <= found["SCANNERS"] * 32 * found["PACKS"] * 16
    assert found["PACKS"] <= packs
    assert slices == math.ceil(length / found["STEPS"])
    assert launch.shared_bytes <= kilobytes * 1024
    assert launch.block == (found["SCANNERS"] + 2) * 32 <= 1024


def test_columns_whose_elements_are_summed_in_more_bytes_are_not_scanned_in_step():
    source, output = layout((200, 1 << 20), "float16"), layout((200, 1 << 20), "float32")
    for arrays in ({"input": source, "output": source}, {"input": source, "output": output}):
        assert kernels(make_plan(Scan("sum", arrays["output"].dtype, 0), arrays)) != ["scan_columns_in_step"]


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("inner", [2, 3, 16, 64, 65, 5000])
@pytest.mark.parametrize("kilobytes", [48, 99, 227])
def test_an_assembly_line_of_columns_fits_a_block(dtype, inner, kilobytes):
    device = H200._replace(shared_bytes_per_block=kilobytes * 1024)
    array = layout((100_000, inner), dtype)
    plan = make_plan(Scan("sum", array.dtype, 0), {"input": array, "output": array}, device)
    assert kernels(plan) == ["scan_columns"]
    assert int(constants(plan)["STAGES"]) >= 2
    assert plan.launches[0].shared_bytes <= kilobytes * 1024 - 16
    assert plan.launches[0].block <= 1024


def turned_plan(shape, dtype, input_turned, device=H200):
    """Of a scan along the last axis, dense in the input and not in the output, or the other way round."""
    rows, columns = layout(shape, dtype), layout(shape, dtype, strides=(1, shape[0]))
    arrays = {"input": rows, "output": columns} if input_turned else {"input": columns, "output": rows}
    return make_plan(Scan("sum", rows.dtype, 1), arrays, device)


@pytest.mark.parametrize("input_turned", [False, True])
def test_tiles_are_turned_where_lines_and_columns_meet(input_turned):
    found = constants(turned_plan((4096, 8192), "float32", input_turned))
    assert (found["INPUT_TURNED"], found["OUTPUT_TURNED"]) == (("1", "0") if input_turned else ("0", "1"))
    for few in ((16, 8192), (4096, 31)):
        found = constants(turned_plan(few, "float32", input_turned))
        assert (found.get("INPUT_TURNED", "0"), found.get("OUTPUT_TURNED", "0")) == ("0", "0")


@pytest.mark.parametrize("input_turned", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("kilobytes", [48, 64, 99, 227])
def test_an_assembly_line_that_turns_fits_a_block(input_turned, dtype, kilobytes):
    device = H200._replace(shared_bytes_per_block=kilobytes * 1024)
    columns = 600 if dtype == "float16" else 10_000  # more halves are copied first
    plan = turned_plan((100, columns), dtype, input_turned, device)
    assert kernels(plan) == ["scan_columns"]
    assert plan.launches[0].shared_bytes <= kilobytes * 1024 - 16


@pytest.mark.parametrize(
    ("stored", "value", "output"),
    [
        ("int8", "int64", "int8"),
        ("bool", "int64", "int64"),
        ("int16", "int64", "int16"),
        ("float16", "float64", "float16"),
        ("float32", "complex128", "complex128"),
        ("int8", "complex128", "int8"),
    ],
)
@pytest.mark.parametrize("turned", ["neither", "input", "output"])
@pytest.mark.parametrize("shape", [(4096, 4096), (100_000, 64), (1024, 1024)], ids=str)
@pytest.mark.parametrize("kilobytes", [48, 64, 99, 163, 227])
def test_wide_accumulators_of_an_assembly_line_fit_a_block(stored, value, output, turned, shape, kilobytes):
    device, across = H200._replace(shared_bytes_per_block=kilobytes * 1024), (1, shape[0])
    arrays = {
        "input": layout(shape, stored, strides=across if turned == "input" else None),
        "output": layout(shape, output, strides=across if turned == "output" else None),
    }
    plan = make_plan(Scan("sum", np.dtype(value), 0), arrays, device)
    assert plan.launches[0].shared_bytes <= kilobytes * 1024 - 16
    assert kernels(plan) != ["scan_columns"] or int(constants(plan)["STAGES"]) >= 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("inner", "shifted"), [(4096, "0"), (4097, "1"), (33, "0"), (131, "1"), (31, "0")])
def test_rows_that_begin_anywhere_are_copied_by_what_is_aligned(dtype, inner, shifted):
    array = layout((100_000, inner), dtype)
    plan = make_plan(Scan("sum", array.dtype, 0), {"input": array, "output": array})
    assert constants(plan)["SHIFTED"] == shifted


@pytest.mark.parametrize(
    ("stored", "value", "shape", "cut"),
    [
        ("float16", "float16", (59_840, 2174), {"COLUMNS": 128, "OVERLAPPING": 0, "STAGES": 4, "FOLDER_SETS": 1}),
        ("float16", "float16", (10_000, 8193), {"COLUMNS": 128, "OVERLAPPING": 0, "STAGES": 3, "FOLDER_SETS": 1}),
        ("float16", "float16", (4000, 30_001), {"COLUMNS": 128, "OVERLAPPING": 1, "STAGES": 4, "FOLDER_SETS": 1}),
        ("float16", "float16", (100_000, 1001), {"COLUMNS": 64, "OVERLAPPING": 0, "STAGES": 4, "FOLDER_SETS": 1}),
        ("float16", "float16", (59_840, 2176), {"COLUMNS": 64, "OVERLAPPING": 0}),  # in whole vectors
        ("int8", "int64", (10_000, 4097), {"COLUMNS": 64, "STAGES": 2, "FOLDER_SETS": 1}),
        ("int8", "int64", (20_000, 1025), {"COLUMNS": 64, "STAGES": 3, "FOLDER_SETS": 1}),
        ("int8", "int64", (400_000, 200), {"COLUMNS": 32}),  # whose strips many blocks share
        ("int32", "int64", (30_000, 2049), {"COLUMNS": 64, "STAGES": 3, "UNITS_OF_TICKET": 1}),
        ("float32", "float32", (65_536, 4097), {"COLUMNS": 64, "OVERLAPPING": 1, "UNITS_OF_TICKET": 2}),
    ],
)
def test_strips_are_wide_where_rows_of_small_elements_begin_anywhere(stored, value, shape, cut):
    arrays = {"input": layout(shape, stored), "output": layout(shape, value)}
    found = constants(make_plan(Scan("sum", np.dtype(value), 0), arrays))
    assert {name: int(found[name]) for name in cut} == cut


@pytest.mark.parametrize(
    ("shape", "axis", "kernel", "vector"),
    [
        ((9, 7, 1000, 6), 1, "scan_short_columns", "4"),  # runs of 6000 elements, though rows have 6
        ((13208, 1, 197), 1, "scan_short_columns", "4"),
        ((1, 1031), 0, "scan_short_columns", "4"),  # whose last thread has three columns
        ((519, 1), 1, "scan_short_columns", "4"),
        ((2, 99, 33), 0, "scan_short_columns", "1"),
        ((100_000, 2, 3), 0, "scan_columns", "1"),  # six columns that are all there is
        ((100_000, 6), 0, "scan_columns", "1"),
    ],
)
def test_axes_beside_the_scanned_one_are_one_run(shape, axis, kernel, vector):
    plan = scan(shape, axis)
    assert kernels(plan) == [kernel]
    assert constants(plan)["VECTOR"] == vector


@pytest.mark.parametrize(
    ("shape", "dtype", "kernel"),
    [
        ((100_000, 16, 3), "float32", "scan_panels"),
        ((100_000, 128, 3), "float32", "scan_panels"),
        ((100_000, 129, 3), "float32", "scan_long_panels"),  # of more than a row of the tree
        ((100_000, 5, 7, 8, 3), "float32", "scan_panels"),
        ((10_000, 3072, 2), "float32", "scan_long_panels"),
        ((10_000, 3073, 2), "float32", "scan_columns"),  # more than 24 KB
        ((10_000, 4096, 2), "float16", "scan_long_panels"),
        ((10_000, 3584, 2), "int8", "scan_long_panels"),
        ((10_000, 4096, 2), "int8", "scan_columns"),  # a thread takes longer for single bytes
        ((10_000, 512, 8), "int8", "scan_panels"),
        ((10_000, 16, 3), "complex128", "scan_short_columns"),
        ((1, 100_000, 3), "float32", "scan_columns"),
    ],
)
def test_short_panels_are_moved_in_runs(shape, dtype, kernel):
    array = layout(shape, dtype)
    plan = make_plan(Scan("sum", array.dtype, 1), {"input": array, "output": array})
    assert kernels(plan) == [kernel]


def test_panels_that_begin_amid_a_vector_are_moved_in_runs_whatever_their_elements():
    array = layout((10_000, 4096, 2), "int8")
    for arrays in ({"input": array._replace(alignment=1)}, {"output": array._replace(alignment=1)}):
        plan = make_plan(Scan("sum", array.dtype, 1), {"input": array, "output": array} | arrays)
        assert kernels(plan) == ["scan_long_panels"]


def test_panels_with_gaps_are_not_runs():
    array, gaps = layout((1000, 16, 3), "float32"), layout((1000, 16, 4), "float32")._replace(shape=(1000, 16, 3))
    for source, output in ((array, gaps), (gaps, array)):
        plan = make_plan(Scan("sum", array.dtype, 1), {"input": source, "output": output})
        assert kernels(plan) == ["scan_short_columns"]


@pytest.mark.parametrize(
    ("shape", "dtype", "panels", "threads", "shared_bytes"),
    [
        ((100_000, 16, 3), "float32", 64, 256, 13_856),
        ((1000, 16, 3), "float32", 2, 256, 464),  # so that each multiprocessor has some blocks
        ((100_000, 200, 5), "float32", 2, 160, 9024),
    ],
)
def test_blocks_move_some_panels(shape, dtype, panels, threads, shared_bytes):
    plan = scan(shape, 1)
    (launch,) = plan.launches
    assert (launch.block, launch.shared_bytes) == (threads, shared_bytes)
    assert constants(plan)["PANELS"] == str(panels)
    assert launch.grid == -(-shape[0] // panels)


@pytest.mark.parametrize("shape", [(1000, 96, 32), (1000, 3, 1023), (1000, 1535, 2), (1000, 61, 50)], ids=str)
@pytest.mark.parametrize("alignment", [8, 16])
def test_the_largest_panels_fit_a_block_of_any_gpu(shape, alignment):
    array, output = layout(shape, "float64", alignment=alignment), layout(shape, "float64")
    for spec in (Scan("sum", array.dtype, 1), Normalization((1,))):
        (launch,) = make_plan(spec, {"input": array, "output": output}, H200._replace(multiprocessors=1)).launches
        assert launch.shared_bytes <= 57_344  # of 64 KB, of which the spans of long columns take some


@pytest.mark.parametrize(
    ("dtype", "steps", "columns", "padded"),
    [
        ("float32", 16, 3, True),  # 48 words: every second panel in the same banks
        ("float32", 33, 3, False),
        ("int8", 16, 3, True),
        ("int8", 33, 3, False),
        ("float32", 128, 4, True),
        ("float16", 200, 5, False),
    ],
)
def test_runs_are_padded_where_lanes_would_meet_in_a_bank(dtype, steps, columns, padded):
    array = layout((100_000, steps, columns), dtype)
    plan = make_plan(Scan("sum", array.dtype, 1), {"input": array, "output": array})
    assert constants(plan)["PADDED"] == str(int(padded))


@pytest.mark.parametrize(
    ("dtype", "inner", "dense", "stages"),
    [
        ("float32", 64, "1", "6"),
        ("float32", 79, "1", "6"),
        ("float16", 79, "1", "4"),
        ("float32", 127, "1", "6"),
        ("float32", 128, "0", "6"),  # rows that begin at multiples of 16 bytes
        ("float32", 129, "0", "6"),
        ("float64", 65, "0", "5"),  # what is summed of a row would be more than 512 bytes
    ],
)
def test_strips_are_all_there_is_where_rows_begin_anywhere(dtype, inner, dense, stages):
    array = layout((100, 5000, inner), dtype)
    found = constants(make_plan(Scan("sum", array.dtype, 1), {"input": array, "output": array}))
    assert (found["DENSE"], found["STAGES"]) == (dense, stages)


@pytest.mark.parametrize(("dtype", "longest"), [("bool", 1 << 23), ("uint8", 1 << 23), ("int16", 1 << 15)])
def test_columns_are_summed_in_as_few_bits_as_hold_any_sum(dtype, longest):
    def value(operation: Operation, length: int, total: str = "int64") -> str:
        arrays = {"input": layout((length, 20), dtype), "output": layout((length, 20), total)}
        return constants(make_plan(Scan(operation, np.dtype(total), 0), arrays))["VALUE"]

    assert value("sum", longest) == "int"
    assert value("sum", longest + 1) == "long long"
    assert value("sum", longest, "float64") == "double"
    assert value("product", 100) == "long long"


def test_bands_of_strips_that_share_rows_hold_all_of_them():
    def prefetched(*shape: int) -> str:
        arrays = {"input": layout(shape, "int8"), "output": layout(shape, "int64")}
        return constants(make_plan(Scan("sum", np.dtype(np.int64), len(shape) - 2), arrays))["PREFETCHED"]

    assert prefetched(8192, 512 * 32) == "2"
    assert prefetched(8192, 513 * 32) == "1"
    assert prefetched(100, 8192, 16 * 32) == "2"  # 4 bands of 25 rows
    assert prefetched(33, 8192, 16 * 32) == "1"  # 2 bands, which cut a row


@pytest.mark.parametrize(
    ("shape", "dtype", "block", "spans"),
    [
        ((32, 1_864_071), "float64", 512, 2),
        ((16, 6_000_001), "float16", 512, 1),
        ((32, 3_000_000), "float32", 128, 1),  # whole vectors
        ((32, 6_000_001), "int8", 512, 1),  # single bytes
        ((24, 1_937_491), "float16", 512, 1),  # a span of one thread
        ((24, 1_937_490), "float16", 512, 2),
        ((5, 9_300_001), "int8", 256, 1),
        ((5, 4_650_001), "float32", 512, 1),
        ((10, 300_001), "int8", 128, 1),  # few bytes
        ((7, 600_001), "int8", 256, 1),
        ((2, 3_000_001), "float16", 256, 1),
        ((2, 18_295_956), "float16", 128, 1),  # few steps
    ],
)
def test_rows_that_begin_anywhere_have_larger_blocks(shape, dtype, block, spans):
    array = layout(shape, dtype)
    plan = make_plan(Scan("sum", array.dtype, 0), {"input": array, "output": array})
    assert (plan.launches[0].kernel, plan.launches[0].block) == ("scan_short_columns", block)
    assert int(constants(plan)["SPANS"]) == spans


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize(
    "shape", [(65_536, 4096), (300, 5000), (100, 5000), (30, 5000), (30, 5_000_000), (100_000, 16)]
)
def test_values_of_columns_fit_the_registers_of_a_thread(dtype, shape):
    """However few bytes one has in memory, it takes a register of four, unless a thread has whole columns of large
    rows: of those one is widened at a time."""
    array = layout(shape, dtype)
    found = constants(make_plan(Scan("sum", array.dtype, 0), {"input": array, "output": array}))
    if shape == (30, 5_000_000):
        assert int(found["LENGTH"]) * int(found["VECTOR"]) * array.dtype.itemsize <= 256
        return
    chunk = max(1, 16 // array.dtype.itemsize)
    values = int(found["SPAN"]) * chunk * int(found["VECTOR"])
    assert values * max(4, array.dtype.itemsize) <= 256


def test_strips_in_step_are_of_whole_packs():
    def kernel(columns):
        padded = ArrayLayout((256, columns), (1048576 * 8, 8), np.dtype("float64"), 16)
        return kernels(make_plan(Scan("sum", padded.dtype, 0), {"input": padded, "output": padded}))

    assert kernel(1048576) == ["scan_columns_in_step"]
    assert kernel(1048575) != ["scan_columns_in_step"]


@pytest.mark.parametrize(
    ("shape", "dtype", "blocks", "threads"),
    [
        ((126, 4193), "float16", 132, 128),  # pieces of 64 bytes
        ((116, 6550), "float32", 205, 128),  # of 128
        ((124, 62_638), "float16", 490, 512),  # of 256
        ((24, 490), "float32", 4, 64),  # whole columns of few small blocks
        ((23, 67_016), "float32", 262, 128),
    ],
)
def test_blocks_of_short_columns_are_small_where_they_are_few(shape, dtype, blocks, threads):
    array = layout(shape, dtype)
    plan = make_plan(Scan("sum", array.dtype, 0), {"input": array, "output": array}, H200)
    assert [(launch.kernel, launch.grid, launch.block) for launch in plan.launches] == [
        ("scan_short_columns", blocks, threads)
    ]


@pytest.mark.parametrize(
    ("shape", "overlapping"), [((9958, 1092), "0"), ((10_798, 2298), "0"), ((10_798, 22_981), "1")]
)
def test_many_strips_overlap_in_arrays_that_no_cache_holds(shape, overlapping):
    array = layout(shape, "float16")
    plan = make_plan(Scan("sum", array.dtype, 0), {"input": array, "output": array}, H200)
    assert constants(plan)["OVERLAPPING"] == overlapping


@pytest.mark.parametrize(
    ("shape", "dtype", "kernel"),
    [
        ((2692, 37_338), "float64", "scan_columns_in_step"),
        ((2692, 25_000), "int64", "scan_columns"),
        ((600, 63_116), "float32", "scan_whole_columns"),
        ((600, 210_000), "float32", "scan_columns_in_step"),
    ],
)
def test_strips_of_wide_elements_go_down_in_step_sooner(shape, dtype, kernel):
    array = layout(shape, dtype)
    assert kernels(make_plan(Scan("sum", array.dtype, 0), {"input": array, "output": array}, H200)) == [kernel]
