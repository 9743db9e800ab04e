"""Plans of scans, without a GPU: which kernels are launched, lines and streams."""

from __future__ import annotations

import numpy as np
import pytest
from plans import F32, constants, kernels, layout, scan

from cudml.plan import make_plan
from cudml.plan.device import H200, LANES
from cudml.plan.scan.work import cut
from cudml.plan.spec import Scan, SegmentedScan


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [
        ((8192,), 0, ["scan_lines"]),
        ((8193,), 0, ["scan_linked"]),
        ((132 * 8192,), 0, ["scan_linked"]),
        ((132 * 8192 + 1,), 0, ["scan_stream"]),
        ((66, 8193), 1, ["scan_linked"]),
        ((67, 8193), 1, ["scan_lines"]),
        ((67, 16_384), 1, ["scan_lines"]),
        ((67, 16_383), 1, ["scan_stream"]),
        ((66, 16_385), 1, ["scan_stream"]),
        ((300, 132), 1, ["scan_lines"]),
        ((300, 100), 1, ["scan_flat_lines"]),
        ((300, 36), 1, ["scan_flat_lines"]),
        ((300, 64), 1, ["scan_short_lines"]),
        ((300, 7), 1, ["scan_short_lines"]),
        ((300, 35), 1, ["scan_short_lines"]),
        ((300, 65), 1, ["scan_lines"]),
        ((6288, 35), 1, ["scan_short_lines"]),  # else fewer blocks than multiprocessors
        ((6289, 35), 1, ["scan_shifted_lines"]),
        ((2097, 65), 1, ["scan_shifted_lines"]),
        ((300, 129), 1, ["scan_lines"]),
        ((32, 8000), 0, ["scan_short_columns"]),
        ((128, 8000), 0, ["scan_short_columns"]),
        ((129, 8000), 0, ["scan_columns"]),
        ((8192, 51_000), 0, ["scan_whole_columns"]),
        ((8193, 51_000), 0, ["scan_columns"]),
        ((256, 1 << 20), 0, ["scan_columns_in_step"]),
        ((257, 1 << 20), 0, ["scan_columns_in_step"]),
        ((256, 200_000), 0, ["scan_whole_columns"]),
        ((8192, 50_000), 0, ["scan_columns"]),
        ((9000, 300), 0, ["scan_columns"]),
        ((9000, 2), 0, ["scan_columns"]),
        ((3, 50, 7), None, ["scan_lines"]),
    ],
)
def test_kernels_of_a_scan(shape, axis, expected):
    assert kernels(scan(shape, axis)) == expected


@pytest.mark.parametrize(
    ("stored", "value", "most"),
    [
        ("float32", "float32", 128),
        ("float64", "float64", 96),
        ("complex64", "complex64", 96),
        ("int32", "int32", 128),
        ("float16", "float16", 80),
        ("int16", "int16", 64),
        ("int8", "int64", 64),
        ("complex128", "complex128", 64),
    ],
)
def test_a_block_holds_as_many_rows_as_its_registers_do(stored: str, value: str, most: int):
    spec = Scan("sum", np.dtype(value), 1)

    def kernel(rows: int) -> str:
        chunk = cut(spec, layout((1, 1), stored), layout((1, 1), value)).chunk
        shape = (300, rows * LANES * chunk)
        return kernels(make_plan(spec, {"input": layout(shape, stored), "output": layout(shape, value)}))[0]

    assert (kernel(most), kernel(most + 1)) == ("scan_lines", "scan_stream")


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
@pytest.mark.parametrize("axis", [0, -1, None])
def test_an_empty_scan_launches_nothing(shape, axis):
    assert scan(shape, axis).launches == ()


def test_an_empty_axis_still_gets_its_initial_value():
    plan = make_plan(Scan("sum", F32, 1, initial=True), {"input": layout((5, 0)), "output": layout((5, 1))})
    assert kernels(plan) == ["scan_lines"]


@pytest.mark.parametrize("rows", range(1, 65))
def test_warps_and_rows_cover_a_line(rows):
    found = constants(scan((128 * rows,)))
    warps, rows_of_each = int(found["WARPS"]), int(found["ROWS"])
    assert rows <= warps * rows_of_each <= 1.5 * rows
    assert warps <= 16
    assert rows_of_each <= 4


@pytest.mark.parametrize(
    ("lines", "length", "lanes"),
    [(99, 4, 1), (99, 5, 2), (99, 9, 4), (30_000, 9, 3), (99, 32, 8), (99, 33, 16), (9000, 33, 9), (99, 64, 16)],
)
def test_short_lines_share_a_row(lines, length, lanes):
    plan = scan((lines, length))
    assert constants(plan)["LINE_LANES"] == str(lanes)
    assert plan.launches[0].grid * 4 * int(constants(plan)["ROWS"]) * (32 // lanes) >= lines


@pytest.mark.parametrize(
    ("dtype", "length", "lines"),
    [
        *(("float16", length, lines) for length, lines in [(3, 8), (4, 2), (5, 4), (7, 4), (8, 0), (9, 2), (12, 2)]),
        *(("float16", length, lines) for length, lines in [(20, 1), (24, 0), (30, 1), (31, 0)]),
        *(("int8", length, lines) for length, lines in [(7, 8), (11, 4), (15, 4), (16, 0), (17, 0), (20, 2), (60, 1)]),
        ("float32", 3, 0),
    ],
)
def test_tiny_lines_fill_whole_words(dtype, length, lines):
    array = layout((10_000, length), dtype)
    plan = make_plan(Scan("sum", np.dtype(dtype), 1), {"input": array, "output": array})
    assert (kernels(plan) == ["scan_tiny_lines"]) == (lines > 0)
    if lines:
        found = constants(plan)
        assert int(found["LANE_LINES"]) == lines
        assert plan.launches[0].grid * 4 * 32 * int(found["ROWS"]) * lines >= 10_000


@pytest.mark.parametrize(("stored", "dtype"), [("int8", "int8"), ("int8", "int64")])
def test_few_lines_of_bytes_are_moved_in_words(stored, dtype):
    shape = (300, 35)
    plan = make_plan(Scan("sum", np.dtype(dtype), 1), {"input": layout(shape, stored), "output": layout(shape, dtype)})
    assert kernels(plan) == ["scan_shifted_lines"]


@pytest.mark.parametrize(
    ("source", "shifted"),
    [
        (layout((3, 3001), "float16"), ("1", "1")),
        (layout((3, 3000), "float16"), ("0", "0")),
        (layout((3, 3001), "float16", strides=(-3001, 1)), ("0", "1")),
        (layout((3, 3001), "float16", strides=(6002, 2)), ("0", "1")),
        (layout((3, 3001), "float16", alignment=1), ("0", "1")),
        (layout((3, 3000), "float16", alignment=2), ("1", "0")),
    ],
)
def test_lines_at_any_address_are_moved_in_words(source, shifted):
    plan = make_plan(Scan("sum", np.dtype("float16"), 1), {"input": source, "output": layout(source.shape, "float16")})
    assert (constants(plan)["SHIFTED_IN"], constants(plan)["SHIFTED_OUT"]) == shifted


@pytest.mark.parametrize(
    ("stored", "value", "shape", "share"),
    [
        ("float16", "float16", (15_786, 4251), (4, 5, 8)),
        ("float16", "float16", (528, 3483), (8, 2, 1)),  # so few that all of them are worked on at once
        ("float16", "float16", (15_786, 4256), (12, 2, 4)),  # in whole vectors
        ("float16", "float32", (31_580, 2125), (4, 5, 8)),
        ("float16", "float16", (4121, 16_283), (16, 4, 2)),
        ("int8", "int64", (15_786, 4251), (6, 3, 2)),
        ("int8", "int8", (9163, 14_647), (10, 3, 2)),
        ("int16", "int64", (4800, 13_979), (14, 4, 1)),
        ("float32", "float32", (163_281, 411), (1, 4, 8)),
    ],
)
def test_warps_have_more_rows_of_lines_that_are_moved_in_words(stored, value, shape, share):
    arrays = {"input": layout(shape, stored), "output": layout(shape, value)}
    found = constants(make_plan(Scan("sum", np.dtype(value), 1), arrays))
    assert (int(found["WARPS"]), int(found["ROWS"]), int(found["RESIDENT"])) == share


@pytest.mark.parametrize(("value", "shifted"), [("float16", "0"), ("float32", "1")])
def test_outputs_that_are_wider_than_values_do_not_lie_where_these_did(value, shifted):
    line = layout((1000, 385), "float32")
    plan = make_plan(Scan("sum", np.dtype(value), 1), {"input": line, "output": line})
    assert constants(plan)["SHIFTED_OUT"] == shifted


def test_integers_stored_in_fewer_bytes_make_longer_chunks():
    wide = layout((100, 50_000), "int64")
    for stored, chunk in (("int8", 4), ("int16", 8), ("int32", 4), ("int64", 2)):
        source = layout((100, 50_000), stored)
        plan = make_plan(Scan("sum", wide.dtype, 1), {"input": source, "output": wide})
        assert plan.launches[0].arguments[-1].values[2] == -(-50_000 // (64 * 32 * chunk))


@pytest.mark.parametrize(
    ("stored", "value", "vector"),
    [("float64", "float32", "2"), ("float32", "float16", "4"), ("int64", "int32", "2")],
)
def test_values_narrower_than_elements_make_shorter_chunks(stored, value, vector):
    """16 bytes of elements, so that whole chunks are moved at once."""
    line, columns = layout((64, 8192), stored), layout((8192, 64), stored)
    arrays = {"input": line, "output": layout(line.shape, value)}
    assert cut(Scan("sum", np.dtype(value), 1), *arrays.values()).chunk == int(vector)
    found = constants(make_plan(Scan("sum", np.dtype(value), 1), arrays))
    assert (found["INPUT_PACKED"], found["OUTPUT_PACKED"]) == ("1", "1")
    plan = make_plan(Scan("sum", np.dtype(value), 0), {"input": columns, "output": layout(columns.shape, value)})
    assert constants(plan)["LOAD"] != "0"


def test_blocks_of_a_stream_fill_the_gpu_and_no_more():
    assert scan((2**28,)).launches[0].grid == H200.multiprocessors
    assert scan((3, 45 * 8192)).launches[0].grid == H200.multiprocessors


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "complex128"])
@pytest.mark.parametrize("kilobytes", [64, 99, 163, 227])
def test_stages_fit_in_shared_memory(dtype, kilobytes):
    line, offsets = layout((10**7,), dtype), layout((9,), "int64")
    device = H200._replace(shared_bytes_per_block=kilobytes * 1024)
    for spec in (Scan("sum", line.dtype, 0), SegmentedScan("sum", line.dtype)):
        arrays = {"input": line, "output": line} | ({"offsets": offsets} if isinstance(spec, SegmentedScan) else {})
        plan = make_plan(spec, arrays, device)
        stages = int(constants(plan)["STAGES"])
        assert stages >= 1
        assert stages * 32 * 1024 <= plan.launches[0].shared_bytes < kilobytes * 1024
        assert int(constants(plan)["MARKERS"]) <= stages
        assert plan.launches[0].block <= 1024


@pytest.mark.parametrize(
    ("capability", "strides", "stored", "load"),
    [
        ((9, 0), 1, "float32", "2"),
        ((8, 9), 1, "float32", "1"),
        ((7, 5), 1, "float32", "0"),
        ((9, 0), 2, "float32", "1"),
        ((9, 0), 1, "float64", "2"),
        ((8, 9), 1, "float64", "1"),
        ((7, 5), 1, "float64", "0"),
    ],
)
def test_copies_where_the_gpu_has_them_and_stages_hold_what_is_stored(capability, strides, stored, load):
    source = layout((10**7,), stored, (strides,))
    device = H200._replace(compute_capability=capability)
    plan = make_plan(Scan("sum", F32, 0), {"input": source, "output": layout((10**7,))}, device)
    assert constants(plan)["LOAD"] == load


def test_chunks_are_packed_only_where_dense_and_aligned():
    def packed(source, **options):
        return constants(scan(source.shape, 1, source, **options))["INPUT_PACKED"] == "1"

    assert packed(layout((64, 256)))
    assert not packed(layout((64, 256), alignment=8))
    assert not packed(layout((64, 255)))
    assert not packed(layout((64, 256), strides=(512, 2)))
    assert not packed(layout((16, 256), strides=(1, 16)))  # more lines would be turned
    assert packed(layout((64, 256), strides=(512, 1)))
    assert packed(layout((64, 256)), reverse=True)
    assert not packed(layout((64, 255), strides=(256, 1)), reverse=True)


def test_an_address_between_elements_is_moved_by_bytes():
    assert constants(scan((8,), source=layout((8,), alignment=2)))["INPUT_ALIGNED"] == "0"
    assert constants(scan((8,), source=layout((8,), alignment=4)))["INPUT_ALIGNED"] == "1"


@pytest.mark.parametrize("shape", [(2**31 + 1,), (2**16, 2**16), (3, 2**31)])
def test_huge_arrays_are_indexed_in_64_bits(shape):
    for axis in (0, -1):
        plan = scan(shape, axis)
        assert constants(plan)["INDEX"] == "long long"
        assert all(0 < launch.grid < 2**31 for launch in plan.launches)


def test_many_short_lines_need_no_64_bits():
    assert constants(scan((2**25, 3)))["INDEX"] == "int"
    assert constants(scan((2**22, 100)))["INDEX"] == "int"


@pytest.mark.parametrize(
    ("dtype", "value", "capability", "hands"),
    [
        ("float32", "float32", (9, 0), ("4", "16")),
        ("int32", "int64", (9, 0), ("4", "16")),
        ("int8", "int64", (9, 0), ("4", "8")),
        ("int64", "int64", (9, 0), ("4", "8")),
        ("complex64", "complex64", (9, 0), ("4", "8")),
        ("float16", "float16", (7, 5), ("8", "8")),
        ("int32", "int64", (8, 0), ("2", "4")),
        ("float64", "float64", (7, 5), ("2", "4")),
    ],
)
def test_folders_of_large_items_with_heads_have_registers(dtype, value, capability, hands):
    line, output, offsets = layout((10**7,), dtype), layout((10**7,), value), layout((4,), "int64")
    arrays = {"input": line, "output": output, "offsets": offsets}
    plan = make_plan(SegmentedScan("sum", output.dtype), arrays, H200._replace(compute_capability=capability))
    assert (constants(plan)["ADDERS"], constants(plan)["SCANNERS"]) == hands


@pytest.mark.parametrize(
    ("dtype", "words"), [("int8", 2), ("float16", 2), ("int64", 3), ("complex64", 3), ("complex128", 5)]
)
def test_scratch_has_room_for_aggregates_with_heads(dtype, words):
    line = layout((100_000,), dtype)
    plan = make_plan(
        SegmentedScan("product", line.dtype), {"input": line, "output": line, "offsets": layout((4,), "int64")}
    )
    tiles = -(-100_000 // (2048 * (16 // line.dtype.itemsize)))
    parts = 64 // (int(constants(plan)["WARPS"]) * int(constants(plan)["ROWS"]))
    assert plan.launches[0].grid == tiles * parts
    copies = 8
    assert plan.scratch_bytes == 8 * (1 + tiles * parts * copies * words)


def test_rows_of_small_integers_are_summed_in_fewer_bytes():
    small, wide = np.dtype(np.int8), np.dtype(np.int64)
    for shape, stored, reverse, expected in (
        ((1 << 28,), small, False, "1"),
        (((1 << 28) + 1,), small, False, "1"),
        (((1 << 28) + 1,), small, True, "0"),
        ((1 << 28,), np.dtype(np.int32), False, "0"),
    ):
        arrays = {"input": layout(shape, stored), "output": layout(shape, wide)}
        plan = make_plan(Scan("sum", wide, 0, reverse=reverse), arrays)
        assert constants(plan)["WIDENED"] == expected


@pytest.mark.parametrize(("dtype", "length", "by_lines", "scanners"), [
    ("float32", 1 << 26, "0", "8"),
    ("float32", (1 << 26) + 1, "1", "16"),
    ("float64", (1 << 26) + 1, "1", "16"),
    ("float16", (1 << 26) + 1, "1", "16"),
    ("int16", (1 << 26) + 1, "1", "16"),
    ("int32", (1 << 26) + 1, "1", "16"),
])  # fmt: skip
def test_lines_that_begin_anywhere_are_stored_by_lines_of_the_cache(dtype, length, by_lines, scanners):
    array = layout((3, length), dtype)
    plan = make_plan(Scan("sum", array.dtype, 1), {"input": array, "output": array})
    assert (constants(plan)["BY_LINES"], constants(plan)["SCANNERS"]) == (by_lines, scanners)


def test_small_outputs_leave_by_pieces_unless_in_whole_chunks():
    aligned, shifted = layout((1 << 26,), "float16"), layout((1 << 26,), "float16", alignment=2)
    for source, output, by_lines in ((aligned, aligned, "0"), (aligned, shifted, "1"), (shifted, aligned, "0")):
        plan = make_plan(Scan("sum", source.dtype, 0), {"input": source, "output": output})
        assert constants(plan)["BY_LINES"] == by_lines


@pytest.mark.parametrize(
    ("dtype", "reverse", "length", "in_pieces"),
    [("int64", False, 1 << 22, "1"), ("int64", True, 1 << 22, "1"), ("int64", True, (1 << 22) + 1, "0"),
     ("int32", False, 1 << 22, "0")],
)  # fmt: skip
def test_sums_in_more_bytes_than_a_chunk_has_are_stored_in_pieces(dtype, reverse, length, in_pieces):
    source, output = layout((length,), "int32"), layout((length,), dtype)
    plan = make_plan(Scan("sum", output.dtype, 0, reverse=reverse), {"input": source, "output": output})
    assert constants(plan)["IN_PIECES"] == in_pieces


@pytest.mark.parametrize(("tiles", "parts"), [(2, 4), (16, 4), (17, 2), (33, 2), (34, 1), (132, 1)])
def test_few_tiles_are_shared_by_blocks(tiles, parts):
    launch = scan((8192 * tiles,)).launches[0]
    assert (launch.grid, launch.early, launch.cooperative) == (tiles * parts, True, False)


@pytest.mark.parametrize("shape", [(2000, 16), (3, 5)])
def test_how_the_only_line_of_an_axis_lies_does_not_matter(shape):
    """As in x[..., :1], whose last axis has smaller strides than the one that is summed."""
    length = shape[-1]
    only = layout((*shape, 1), "float16", (2 * length, 2, 1))
    without = layout(shape, "float16", (2 * length, 2))
    plans = [
        make_plan(Scan("sum", np.dtype("float16"), 1), {"input": array, "output": layout(array.shape, "float16")})
        for array in (only, without)
    ]
    assert plans[0].source == plans[1].source == "scan_short_lines.cu"
    assert constants(plans[0]) == constants(plans[1])


@pytest.mark.parametrize(
    ("dtype", "shape", "keeps"),
    [
        ("float32", (64, 4_194_304), "0"),  # each line begins with one of the cache
        ("float32", (64, 4_194_308), "1"),
        ("float32", (64, 4_194_301), "1"),
        ("float32", (4096, 65_540), "1"),
        ("float32", (8192, 32_772), "0"),  # of few tiles
        ("float64", (4096, 32_770), "1"),
        ("float16", (1000, 200_008), "0"),  # which take more registers
    ],
)
def test_tiles_of_long_lines_keep_their_places_within_lines_of_the_cache(dtype, shape, keeps):
    array = layout(shape, dtype)
    plan = make_plan(Scan("sum", np.dtype(dtype), 1), {"input": array, "output": array})
    assert kernels(plan) == ["scan_stream"]
    assert constants(plan)["KEEPS_PLACES"] == keeps
    assert plan.launches[0].shared_bytes == int(constants(plan)["STAGES"]) * (32768 + 128 * int(keeps))
