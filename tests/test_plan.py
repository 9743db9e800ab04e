"""Plans: what is launched for which layout, without a GPU."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cudml.plan import make_plan, recall_plan
from cudml.plan.activation import Activation
from cudml.plan.binding import Binding
from cudml.plan.device import H200, LANES
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
from cudml.plan.modulus import TILES, count_of
from cudml.plan.plan import Launch, Plan, Pointer, Scalar, Scratch, Struct, Workspace
from cudml.plan.scan_work import cut
from cudml.plan.spec import Modulus, Moments, Normalization, Operation, Scan, SegmentedScan

F32 = np.dtype(np.float32)


def layout(
    shape: tuple[int, ...], dtype: str = "float32", strides: tuple[int, ...] | None = None, alignment: int = 16
) -> ArrayLayout:
    """A layout of any size, without memory behind it; C-contiguous unless strides (in elements) are given."""
    itemsize = np.dtype(dtype).itemsize
    if strides is None:
        strides = tuple(int(np.prod(shape[axis + 1 :], dtype=object)) for axis in range(len(shape)))
    return ArrayLayout(shape, tuple(stride * itemsize for stride in strides), np.dtype(dtype), alignment)


def scan(shape: tuple[int, ...], axis: int | None = -1, source: ArrayLayout | None = None, **options: bool) -> Plan:
    chosen = None if axis is None else axis % len(shape)
    target = layout(shape if axis is not None else (int(np.prod(shape)),))
    return make_plan(Scan("sum", F32, chosen, **options), {"input": source or layout(shape), "output": target})


def kernels(plan: Plan) -> list[str]:
    return [launch.kernel for part in plan.parts for launch in part.launches]


def constants(plan: Plan) -> dict[str, str]:
    return dict(plan.constants)


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


# ---- scans


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
        ((300, 35), 1, ["scan_shifted_lines"]),
        ((300, 65), 1, ["scan_shifted_lines"]),
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


@pytest.mark.parametrize(("length", "lanes"), [(4, 1), (5, 2), (9, 3), (32, 8), (33, 9), (64, 16)])
def test_short_lines_share_a_row(length, lanes):
    plan = scan((1000, length))
    assert constants(plan)["LINE_LANES"] == str(lanes)
    assert plan.launches[0].grid * 4 * int(constants(plan)["ROWS"]) * (32 // lanes) >= 1000


@pytest.mark.parametrize(
    ("dtype", "length", "lines"),
    [
        *(("float16", length, lines) for length, lines in [(3, 8), (4, 2), (5, 4), (7, 4), (8, 0)]),
        *(("int8", length, lines) for length, lines in [(7, 8), (11, 4), (15, 4), (16, 0)]),
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


def test_integers_stored_in_fewer_bytes_make_longer_chunks():
    wide = layout((100, 50_000), "int64")
    for stored, chunk in (("int8", 4), ("int16", 8), ("int32", 4), ("int64", 2)):
        source = layout((100, 50_000), stored)
        plan = make_plan(Scan("sum", wide.dtype, 1), {"input": source, "output": wide})
        assert plan.launches[0].arguments[-1].values[2] == -(-50_000 // (64 * 32 * chunk))


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
        ((9, 0), 1, "float64", "0"),
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


@pytest.mark.parametrize(("dtype", "tiles", "parted"), [("float32", 32, "1"), ("float32", 33, "0"), ("int64", 64, "1")])
def test_tiles_come_in_parts_where_blocks_get_few_or_elements_have_eight_bytes(dtype, tiles, parted):
    line = layout((tiles * 132 * 2048 * 16 // np.dtype(dtype).itemsize,), dtype)
    plan = make_plan(Scan("sum", line.dtype, 0), {"input": line, "output": line})
    assert constants(plan)["PARTED"] == parted


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
    ("int16", (1 << 26) + 1, "1", "8"),
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


def test_strips_have_fewer_columns_where_many_blocks_share_one():
    assert constants(scan((100_000, 4096), 0))["COLUMNS"] == "64"
    assert constants(scan((100_000, 256), 0))["COLUMNS"] == "32"
    assert constants(scan((100_000, 64), 0))["COLUMNS"] == "64"  # contiguous


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
    plan = turned_plan((100, 100_000), dtype, input_turned, device)
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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("inner", "shifted"), [(4096, "0"), (4097, "1"), (33, "0"), (131, "1"), (31, "0")])
def test_rows_that_begin_anywhere_are_copied_by_what_is_aligned(dtype, inner, shifted):
    array = layout((100_000, inner), dtype)
    plan = make_plan(Scan("sum", array.dtype, 0), {"input": array, "output": array})
    assert constants(plan)["SHIFTED"] == shifted


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
        ((10_000, 4096, 2), "float16", "scan_columns"),  # a thread takes longer for narrow elements
        ((10_000, 512, 8), "int8", "scan_panels"),
        ((10_000, 16, 3), "complex128", "scan_short_columns"),
        ((1, 100_000, 3), "float32", "scan_columns"),
    ],
)
def test_short_panels_are_moved_in_runs(shape, dtype, kernel):
    array = layout(shape, dtype)
    plan = make_plan(Scan("sum", array.dtype, 1), {"input": array, "output": array})
    assert kernels(plan) == [kernel]


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


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(65_536, 4096), (300, 5000), (100, 5000), (30, 5000), (100_000, 16)])
def test_values_of_columns_fit_the_registers_of_a_thread(dtype, shape):
    """However few bytes one has in memory, it takes a register of four."""
    array = layout(shape, dtype)
    found = constants(make_plan(Scan("sum", array.dtype, 0), {"input": array, "output": array}))
    chunk = max(1, 16 // array.dtype.itemsize)
    values = int(found["SPAN"]) * chunk * int(found["VECTOR"])
    assert values * max(4, array.dtype.itemsize) <= 256


# ---- normalization


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((100, 64), (1,), ["normalize_short_lines"]),
        ((100, 16384), (1,), ["normalize_lines"]),
        ((10, 16384), (1,), ["normalize_clustered_lines"]),
        ((100, 20_000), (1,), ["normalize_clustered_lines"]),
        ((1000, 20_000), (1,), ["normalize_stream"]),
        ((1, 2**28), (1,), ["sum_lines", "apply_lines"]),
        ((512, 100), (0,), ["normalize_columns"]),
        ((4096, 100), (0,), ["normalize_clusters"]),
        ((4096, 65536), (0,), ["normalize_strips"]),
        ((40_000, 128), (0,), ["normalize_strips"]),
        ((8200, 64), (0,), ["sum_columns", "apply_columns"]),  # stays in the cache
        ((4096, 20), (0,), ["normalize_clusters"]),
        ((4096, 9), (0,), ["sum_columns", "apply_columns"]),
        ((2**20, 256), (0,), ["sum_columns", "apply_columns"]),
        ((8, 40, 20, 20), (0, 2, 3), ["normalize_lines"]),
        ((32, 1024, 7, 7), (0, 2, 3), ["normalize_lines"]),
        ((64, 2048, 7, 7), (0, 2, 3), ["normalize_bundles"]),
        ((64, 2047, 7, 7), (0, 2, 3), ["normalize_lines"]),
        ((256, 1024, 7, 7), (0, 2, 3), ["normalize_bundles"]),
        ((3252, 512, 2, 2), (0, 2, 3), ["normalize_bundles"]),
        ((256, 512, 2, 2), (0, 2, 3), ["normalize_lines"]),
        ((1024, 512, 4, 2), (0, 2, 3), ["normalize_lines"]),
        ((20_000, 256, 2, 2), (0, 2, 3), ["normalize_shared_bundles"]),
        ((1024, 2048, 7, 7), (0, 2, 3), ["normalize_shared_bundles"]),
        ((40_000, 2048, 7, 7), (0, 2, 3), ["sum_bundle_tiles", "apply_bundle_tiles"]),
        ((1, 512, 512, 32, 4), (1, 2, 4), ["sum_bundle_tiles", "apply_bundle_tiles"]),
        ((1, 512, 512, 32, 8), (1, 2, 4), ["sum_bundle_tiles", "apply_bundle_tiles"]),
        ((2, 256, 256, 32, 16), (1, 2, 4), ["normalize_stream"]),
        ((1, 512, 512, 2, 64), (1, 2, 4), ["sum_lines", "apply_lines"]),
        ((59_054, 2, 10, 2), (0, 2, 3), ["sum_bundle_tiles", "apply_bundle_tiles"]),
        ((59_054, 2, 19, 7), (0, 2, 3), ["sum_lines", "apply_lines"]),
        ((64, 7, 7, 2048), (0, 1, 2), ["normalize_bundles"]),
        ((64, 7, 7, 4096), (0, 1, 2), ["normalize_strips"]),
        ((8, 20, 20, 40), (0, 1, 2), ["normalize_clusters"]),
        ((64, 256, 128, 128), (0, 2, 3), ["normalize_stream"]),
        ((64, 256, 128, 128), (0, 2), ["normalize_strips"]),
        ((5, 3), (), ["normalize_columns"]),
        ((0, 7), (1,), []),
        ((7, 0), (1,), []),
    ],
)
def test_kernels_of_a_normalization(shape, axes, expected):
    assert kernels(make_plan(Normalization(axes), {"input": layout(shape), "output": layout(shape)})) == expected


@pytest.mark.parametrize(
    ("shape", "dtype", "count"),
    [
        ((3252, 512, 2, 2), "float32", "4"),
        ((3252, 510, 2, 2), "float32", "2"),  # is no multiple of four
        ((3252, 128, 2, 2), "float32", "1"),  # more would leave multiprocessors idle
        ((3252, 512, 2, 1), "float32", "4"),
        ((4096, 1024, 2, 2), "float32", "2"),  # for which there is room
        ((1000, 2048, 2, 2), "float16", "8"),
        ((64, 2048, 7, 7), "float32", "4"),
        ((64, 2048, 7, 7), "float16", "8"),
    ],
)
def test_bundles_of_short_runs_have_long_pieces(shape, dtype, count):
    source = layout(shape, dtype)
    plan = make_plan(Normalization((0, 2, 3)), {"input": source, "output": source})
    assert (kernels(plan), constants(plan)["BUNDLE"]) == (["normalize_bundles"], count)


@pytest.mark.parametrize(
    ("shape", "dtype", "blocks"),
    [
        ((256, 2048, 7, 7), "float32", "1"),
        ((512, 2048, 7, 7), "float32", "2"),
        ((512, 2048, 7, 7), "float16", "2"),
        ((1024, 2048, 7, 7), "float16", "4"),
        ((20_000, 256, 2, 2), "float32", "3"),  # with two groups to a sector
    ],
)
def test_as_few_blocks_share_a_bundle_as_hold_it(shape, dtype, blocks):
    source = layout(shape, dtype)
    plan = make_plan(Normalization((0, 2, 3)), {"input": source, "output": source})
    assert (constants(plan)["CLUSTER"], plan.launches[0].cluster) == (blocks, int(blocks))
    assert plan.launches[0].grid % int(blocks) == 0


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((192, 512, 13, 13), "float16", ["normalize_shared_bundles"]),
        ((256, 96, 31, 30), "float16", ["normalize_stream"]),  # fewer blocks than multiprocessors
        ((100, 2048, 13, 13), "float16", ["normalize_shared_bundles"]),
        ((64, 1000, 21, 21), "float16", ["normalize_stream"]),  # by 3 blocks, where a stream moves runs in pieces
        ((64, 1024, 19, 19), "float16", ["normalize_shared_bundles"]),  # by 2
        ((50, 256, 21, 21), "float16", ["sum_lines", "apply_lines"]),  # by 2, of which few are busy; the cache holds it
        ((384, 1024, 11, 11), "float32", ["normalize_shared_bundles"]),
        ((300, 192, 17, 15), "float32", ["normalize_stream"]),  # too many blocks to a bundle
        ((256, 128, 11, 11), "float32", ["normalize_stream"]),
    ],
)
def test_bundles_of_long_runs_are_shared_where_there_are_enough(shape, dtype, expected):
    source = layout(shape, dtype)
    assert kernels(make_plan(Normalization((0, 2, 3)), {"input": source, "output": source})) == expected


@pytest.mark.parametrize(
    ("most", "kernel", "units"), [(64, "normalize_bundles", 8), (1024, "normalize_shared_bundles", 32)]
)
def test_a_kernel_of_bundles_serves_many_numbers_of_images(most, kernel, units):
    sources = [layout((images, 2048, 7, 7)) for images in range(most - 5, most + 1)]
    plans = [make_plan(Normalization((0, 2, 3)), {"input": source, "output": source}) for source in sources]
    assert {(*kernels(plan), constants(plan)["BLOCK_UNITS"]) for plan in plans} == {(kernel, str(units))}
    assert len({plan.constants for plan in plans if constants(plan)["WHOLE"] == "1"}) == 1


@pytest.mark.parametrize(("batch", "threads"), [(64, 192), (512, 512)])
def test_bundles_of_halves_have_fewer_threads(batch, threads):
    source = layout((batch, 2048, 7, 7), "float16")
    assert make_plan(Normalization((0, 2, 3)), {"input": source, "output": source}).launches[0].block == threads


def test_no_threads_of_bundles_are_left_idle():
    source = layout((32, 2048, 14, 14), "float16")
    assert make_plan(Normalization((0, 2, 3)), {"input": source, "output": source}).launches[0].block == 128


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "expected"),
    [
        ((1024, 512, 5, 5), (0, 2, 3), "float16", ["sum_bundle_tiles"]),
        ((128, 2048, 7, 7), (0, 2, 3), "float32", ["normalize_lines"]),  # few tiles
        ((100, 64, 5, 5), (0, 2, 3), "float16", ["normalize_lines"]),  # small
        ((16, 64, 64, 32, 10), (1, 2, 4), "float16", ["sum_bundle_tiles"]),
        ((1, 512, 512, 32, 8), (1, 2, 4), "float32", ["sum_bundle_tiles"]),
    ],
)
def test_moments_of_short_runs_are_those_of_bundles(shape, axes, dtype, expected):
    moment = layout(tuple(1 if axis in axes else size for axis, size in enumerate(shape)))
    arrays = {"input": layout(shape, dtype), "mean": moment, "variance": moment}
    assert kernels(make_plan(Moments(axes), arrays)) == expected


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((4, 640, 71, 71), "float16", ["sum_lines"]),
        ((100, 1000, 13, 13), "float16", ["sum_lines"]),
        ((8, 1024, 41, 41), "float16", ["normalize_lines"]),
        ((2, 640, 71, 71), "float32", ["normalize_lines"]),
        ((4, 640, 72, 72), "float16", ["normalize_lines"]),
    ],
)
def test_moments_of_odd_runs_of_halves_are_those_of_tiles(shape, dtype, expected):
    moment = layout((1, shape[1], 1, 1))
    arrays = {"input": layout(shape, dtype), "mean": moment, "variance": moment}
    assert kernels(make_plan(Moments((0, 2, 3)), arrays)) == expected


def test_tiles_of_bundles_are_powers_of_two_of_units():
    plan = make_plan(Normalization((0, 2, 3)), {"input": (source := layout((8192, 256, 7, 7))), "output": source})
    units = [int(constants(part)["BLOCK_UNITS"]) for part in plan.parts]
    assert all(count & (count - 1) == 0 for count in units)
    assert plan.launches[0].shared_bytes <= 36_000


@pytest.mark.parametrize("scale", [(1, 1, 1, 32, 10), (16, 1, 1, 32, 1), (1, 1, 1, 1, 1)])
def test_scales_that_repeat_in_every_piece_are_those_of_bundles(scale):
    source = layout((16, 64, 64, 32, 10))
    arrays = {"input": source, "output": source, "scale": layout(scale)}
    assert kernels(make_plan(Normalization((1, 2, 4)), arrays)) == ["normalize_shared_bundles"]
    arrays["scale"] = layout((1, 64, 1, 1, 1))
    assert kernels(make_plan(Normalization((1, 2, 4)), arrays)) != ["normalize_shared_bundles"]


def test_bundles_are_shared_by_no_blocks_without_clusters():
    source = layout((512, 2048, 7, 7), "float16")
    device = H200._replace(compute_capability=(8, 6), shared_bytes_per_block=101_376)
    plan = make_plan(Normalization((0, 2, 3)), {"input": source, "output": source}, device)
    assert plan.launches[0].cluster == 1


def test_bundles_fit_the_shared_memory_of_a_block():
    source = layout((2800, 512, 2, 2))
    device = H200._replace(compute_capability=(8, 6), shared_bytes_per_block=101_376)
    plan = make_plan(Normalization((0, 2, 3)), {"input": source, "output": source}, device)
    assert (constants(plan)["BUNDLE"], plan.launches[0].shared_bytes) == ("2", 2 * 2800 * 16)


@pytest.mark.parametrize(
    ("shape", "axes", "apart"),
    [((4096, 65536), (0,), "1"), ((65536, 4096), (0,), "0"), ((64, 256, 128, 128), (0, 2), "0")],
    ids=["8 teams", "one team", "two strips in a row"],
)
def test_teams_work_on_strips_that_lie_apart_where_a_row_has_one_for_each(shape, axes, apart):
    plan = make_plan(Normalization(axes), {"input": layout(shape), "output": layout(shape)})
    assert constants(plan)["TEAMS_APART"] == apart


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((65536, 4096), (1,), ["normalize_strips"]),
        ((65538, 4096), (1,), ["normalize_held"]),
        ((2**20, 256), (1,), ["normalize_held"]),
        ((65536, 4096), (0,), ["normalize_strips"]),
        ((65535, 4096), (0,), ["sum_lines", "apply_turned"]),
        ((4096, 512), (0,), ["normalize_lines", "apply_turned"]),
        ((4096, 8), (0,), ["normalize_lines"]),
        ((100, 100), (0,), ["normalize_short_lines"]),
    ],
)
def test_kernels_of_a_normalization_of_transposed_input(shape, axes, expected):
    source = ArrayLayout(shape, (4, 4 * shape[0]), F32, 16)
    plan = make_plan(Normalization(axes), {"input": source, "output": layout(shape)})
    assert kernels(plan) == expected


@pytest.mark.parametrize(
    ("dtype", "shape", "has_output", "expected"),  # warps, rows, whether most rows lie in one run
    [
        ("float16", (64, 3, 1001, 1001), True, ("8", "8", "1")),
        ("float16", (64, 3, 1001, 1001), False, ("16", "8", "1")),
        ("float16", (64, 3, 1002, 1002), True, ("8", "8", "1")),
        ("float16", (64, 3, 1000, 1000), True, ("16", "8", "0")),  # aligned
        ("float16", (512, 3, 223, 223), True, ("8", "4", "1")),
        ("float32", (2048, 4, 101, 101), True, ("8", "8", "1")),
        ("float32", (100_000, 16, 23, 23), True, ("8", "4", "0")),
        ("float64", (512, 3, 223, 223), True, ("8", "4", "0")),
    ],
)
def test_tiles_of_groups_of_runs(dtype, shape, has_output, expected):
    source = layout(shape, dtype)
    moments = {name: layout((1, shape[1], 1, 1), dtype) for name in ("mean", "variance")}
    spec = Normalization((0, 2, 3)) if has_output else Moments((0, 2, 3))
    found = constants(make_plan(spec, {"input": source, **({"output": source} if has_output else moments)}))
    assert (found["WARPS"], found["ROWS"], found["LONG_RUNS"]) == expected


def test_runs_of_another_size_in_the_output_are_not_moved_in_pieces():
    shape = (64, 3, 1001, 1001)
    arrays = {"input": layout(shape, "float16"), "output": layout(shape, "float32")}
    assert constants(make_plan(Normalization((0, 2, 3)), arrays))["LONG_RUNS"] == "0"


@pytest.mark.parametrize(
    ("groups", "length", "warps", "rounds", "tiles"),
    [
        (100, 17_262, 4, 1, 5),  # 84 % of five, where two larger ones would be half empty
        (100, 33_000, 8, 1, 5),
        (100, 40_000, 16, 1, 3),  # 81 % of three
        (4096, 17_262, 9, 2, 1),
        (4096, 40_000, 10, 4, 1),
        (4096, 65_536, 16, 1, 4),
        (4096, 262_144, 16, 1, 16),
    ],
)
def test_tiles_of_moments_are_not_half_empty(groups, length, warps, rounds, tiles):
    moments = {name: layout((groups, 1)) for name in ("mean", "variance")}
    plan = make_plan(Moments((1,)), {"input": layout((groups, length)), **moments})
    assert (plan.launches[0].grid, plan.launches[0].block) == (groups * tiles, 32 * warps)
    threads = 1024 if rounds > 1 else 1344  # with 64 registers, and with 48
    assert constants(plan)["ROUNDS"] == str(rounds)
    assert constants(plan)["RESIDENT"] == str(threads // (32 * warps))


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((131_072, 438), "float32", ("normalize_lines", "4", "24")),  # 80 registers, and one warp
        ((131_072, 437), "float32", ("normalize_lines", "4", "32")),
        ((131_072, 440), "float32", ("normalize_short_lines", "4", "12")),
        ((32_768, 10_029), "float32", ("normalize_lines", "8", "2")),
        ((32_768, 10_032), "float32", ("normalize_lines", "8", "3")),
        ((52, 5958), "float32", ("normalize_lines", "8", "1")),  # no more blocks than that
        ((32_768, 3001), "float16", ("normalize_lines", "4", "8")),
    ],
)
def test_rows_that_begin_anywhere_have_registers_for_their_scale(shape, dtype, expected):
    arrays = {"input": layout(shape, dtype), "output": layout(shape, dtype), "scale": layout(shape[1:], dtype)}
    arrays["bias"] = arrays["scale"]
    plan = make_plan(Normalization((1,)), arrays)
    found = constants(plan)
    assert (plan.launches[0].kernel, found["ROWS"], found["RESIDENT"]) == expected


@pytest.mark.parametrize(
    ("pattern", "size", "expected"),
    [
        ("padded by 32", 4, {"SHIFTED": "0", "AMONG": "1", "COPY_BYTES": "16", "LOADERS": "2"}),
        ("padded by 64", 4, {"SHIFTED": "0", "AMONG": "0", "COPY_BYTES": "16", "LOADERS": "2"}),
        ("padded by 1", 4, {"SHIFTED": "1", "ROW_SHIFT": "4", "AMONG": "0", "LOADERS": "2"}),
        ("padded by 3", 8, {"SHIFTED": "1", "ROW_SHIFT": "8", "AMONG": "0", "LOADERS": "2"}),
        ("every second", 4, {"SHIFTED": "0", "AMONG": "0", "COPY_BYTES": "4", "LOADERS": "8"}),
    ],
)
def test_strips_are_copied_as_their_rows_lie(pattern, size, expected):
    rows, columns, dtype = 4096, 65536, np.dtype(f"f{size}")
    inner = 2 * size if pattern == "every second" else size
    padding = 0 if pattern == "every second" else int(pattern.split()[-1])
    source = ArrayLayout((rows, columns), ((columns + padding) * inner, inner), dtype, 16)
    output = ArrayLayout((rows, columns), (columns * size, size), dtype, 16)
    plan = make_plan(Normalization((0,)), {"input": source, "output": output})
    assert kernels(plan) == ["normalize_strips"]
    assert {name: value for name, value in dict(plan.constants).items() if name in expected} == expected


@pytest.mark.parametrize(
    ("shape", "dtype", "turned", "capability", "held"),
    [
        ((65536, 4096), "float32", False, (9, 0), 5),
        ((65536, 4096), "float32", True, (9, 0), 5),
        ((65536, 4096), "float32", False, (10, 0), 1),
        ((65536, 4096), "float16", False, (9, 0), 1),
        ((4096, 65536), "float32", False, (9, 0), 2),
        ((4096, 65536), "float32", False, (10, 0), 2),
        ((4096, 65536), "float32", True, (9, 0), 1),
        ((4096, 65536), "float16", False, (9, 0), 1),
    ],
    ids=[
        "large pieces",
        "turned",
        "no registers shared",
        "halves",
        "rows",
        "rows with their registers",
        "short lines",
        "rows of halves",
    ],
)
def test_units_are_held_where_registers_are_enough_for_that(shape, dtype, turned, capability, held):
    size = np.dtype(dtype).itemsize
    strides = (size, size * shape[0]) if turned else (size * shape[1], size)
    source = ArrayLayout(shape, strides, np.dtype(dtype), 16)
    device = H200._replace(compute_capability=capability)
    plan = make_plan(Normalization((0,)), {"input": source, "output": layout(shape, dtype)}, device)
    assert kernels(plan) == ["normalize_strips"]
    assert int(constants(plan)["HELD"]) == held
    assert (int(constants(plan)["NORMALIZER_REGISTERS"]) > 0) == (held == 5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("rows", "multiprocessors"),
    [(1100, 10), (2000, 10), (3000, 24), (6000, 40), (4096, 132), (6000, 132), (20_000, 132), (65536, 132)],
)
def test_every_column_of_a_strip_is_folded_by_one_warp(rows, multiprocessors, dtype):
    arrays = {"input": layout((rows, 8192), dtype), "output": layout((rows, 8192), dtype)}
    plan = make_plan(Normalization((0,)), arrays, H200._replace(multiprocessors=multiprocessors))
    assert kernels(plan) == ["normalize_strips"]
    columns, piece, steps, folded, of_lane = (
        int(constants(plan)[name]) for name in ("COLUMNS", "PIECE", "STEPS", "FOLDED_COLUMNS", "FOLDED_PIECES")
    )
    pieces = math.ceil(rows / (piece * steps))
    assert folded <= 32
    assert pieces * folded >= columns
    assert 32 // folded * of_lane >= pieces


@pytest.mark.parametrize(
    ("shape", "step", "sets"),
    [((4096, 65536), 1, 1), ((4096, 65536), 2, 2), ((100_000, 48), 2, 1)],
    ids=["rows", "elements", "elements of narrow strips"],
)
def test_adders_take_turns_where_elements_are_copied_one_by_one(shape, step, sets):
    source = ArrayLayout(shape, (4 * step * shape[1], 4 * step), F32, 16)
    plan = make_plan(Normalization((0,)), {"input": source, "output": layout(shape)})
    assert kernels(plan) == ["normalize_strips"]
    assert int(constants(plan)["ADDER_SETS"]) == sets


@pytest.mark.parametrize(("shape", "cluster"), [((2**20, 256), 1), ((65538, 4096), 8), ((32770, 8192), 16)])
def test_tiles_of_a_transposed_group_are_a_cluster(shape, cluster):
    """Each begins with a ticket: those for which there is no room at first find no work, and nobody waits for them."""
    source = ArrayLayout(shape, (4, 4 * shape[0]), F32, 16)
    [launch] = make_plan(Normalization((1,)), {"input": source, "output": layout(shape)}).launches
    assert (launch.cluster, launch.grid % cluster, launch.cooperative) == (cluster, 0, False)
    assert launch.grid * launch.shared_bytes <= H200.multiprocessors * H200.shared_bytes_per_multiprocessor


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((64, 2**22), (1,)),
        ((64, 256, 128, 128), (0, 2, 3)),
        ((4096, 65536), (0,)),
        ((4096, 131072), (1,)),
        ((100, 70 * 4096), (1,)),
        ((90, 140 * 4096 - 8), (1,)),
        ((3, 5 * 10**6), (1,)),
        ((20_000, 2048), (0,)),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_blocks_that_wait_for_each_other_hold_a_bundle_together(shape, axes, dtype):
    """Of a bundle each block has what its ring holds, and no slot comes round before all have read what it had."""
    shape = (*shape[:-1], shape[-1] // (2 if dtype == "float64" else 1))
    plan = make_plan(Normalization(axes), {"input": layout(shape, dtype), "output": layout(shape, dtype)})
    [launch], stages, held = plan.launches, int(constants(plan)["STAGES"]), int(constants(plan)["HELD"])
    bundles, pieces, room, slots, _, _ = next(a.values for a in reversed(launch.arguments) if isinstance(a, Struct))
    piece = int(constants(plan)["PIECE"])
    turns = 2 * math.ceil((stages + held) / piece) + 1
    assert held <= piece
    assert pieces <= room < pieces + int(constants(plan).get("FOLDED", "1"))
    assert launch.cooperative
    assert launch.grid <= H200.multiprocessors
    assert piece * math.ceil(pieces / launch.grid) <= stages
    if pieces > launch.grid:
        assert slots >= min(bundles, turns * launch.grid / pieces + 2)
    elif launch.grid % pieces:  # dealt to all blocks
        assert slots == bundles
    else:
        teams = launch.grid // pieces
        if int(constants(plan).get("DRAWN", "0")):  # slots of each team
            assert teams > 1
            assert slots >= turns
        else:
            assert slots == bundles or (slots % teams == 0 and slots >= turns * teams)
    assert launch.shared_bytes <= H200.shared_bytes_per_block


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "piece", "folded", "folders"),
    [
        ((64, 2**22), (1,), "float32", 8, 128, 1),
        ((64, 256, 128, 128), (0, 2, 3), "float32", 2, 128, 1),
        ((64, 800, 52, 52), (1, 2, 3), "float32", 4, 256, 1),  # 133 pieces
        ((64, 800, 52, 52), (1, 2, 3), "float16", 2, 256, 2),  # as many, which pass in half the time
        ((650, 32, 32, 80), (0, 2, 3), "float32", 2, 256, 1),
        ((32, 1_500_000), (1,), "float32", 2, 256, 2),
        ((16, 300, 52, 52), (1, 2, 3), "float32", 1, 256, 2),  # so that five teams do not wait for the last groups
        ((4096, 65536), (1,), "float32", 2, 16, 1),
        ((4096, 16384 + 4), (1,), "float32", 1, 16, 2),
    ],
)
def test_pieces_are_folded_as_fast_as_they_pass(shape, axes, dtype, piece, folded, folders):
    plan = make_plan(Normalization(axes), {"input": layout(shape, dtype), "output": layout(shape, dtype)})
    assert tuple(int(constants(plan)[name]) for name in ("PIECE", "FOLDED", "FOLDERS")) == (piece, folded, folders)


def _per_channel(shape: tuple[int, ...], dtype: str) -> ArrayLayout:
    size = np.dtype(dtype).itemsize
    return ArrayLayout(shape, (0, size, *(0 for _ in shape[2:])), np.dtype(dtype), 16)


@pytest.mark.parametrize(
    ("shape", "dtype", "kind"),
    [
        ((64, 96, 112, 112), "float32", 4),  # chunks
        ((64, 96, 111, 111), "float32", 5),  # runs
        ((64, 512, 14, 14), "float16", 5),
        ((64, 512, 14, 14), "float32", 4),
        ((64, 512, 7, 1), "float16", 1),  # a chunk may have three of so short ones
        ((64, 512, 1, 8), "float16", 4),
        ((64, 512, 1, 3), "float32", 1),
    ],
)
def test_scale_of_channels_is_that_of_runs_or_chunks(shape, dtype, kind):
    source = layout(shape, dtype)
    arrays = {"input": source, "output": source, "scale": _per_channel(shape, dtype)}
    found = constants(make_plan(Normalization((1, 2, 3)), arrays))
    assert found["HAS_SCALE"] == str(kind)
    assert (found["INPUT_PACKED"], found["OUTPUT_PACKED"]) == ("1", "1")  # whatever axes the scale has


@pytest.mark.parametrize(
    ("dtype", "shape", "warps", "rows"),
    [
        ("float16", (52_428, 1280), 1, 8),
        ("float16", (37_449, 1792), 2, 4),
        ("float16", (24_576, 1536), 3, 2),
        ("float16", (8192, 1024), 2, 2),
        ("float16", (1024, 1024), 4, 1),  # few
        ("float16", (2048, 1280), 3, 2),
        ("float16", (13_107, 5120), 5, 4),
        ("float16", (9362, 7168), 4, 8),
        ("float16", (7281, 9216), 9, 4),
        ("float16", (56_252, 1193), 3, 2),
        ("float16", (16_380, 4097), 9, 2),
        ("float16", (8191, 8193), 9, 4),
        ("float16", (4095, 16_385), 9, 8),
        ("int16", (8191, 8193), 5, 8),  # computed in double
        ("int16", (13_107, 5120), 3, 8),
        ("int32", (4681, 7168), 14, 4),
        ("float32", (100_764, 333), 1, 4),
        ("float32", (2048, 320), 1, 4),  # few: a short group
        ("float32", (4681, 7168), 7, 8),
        ("float32", (65_536, 4096), 8, 4),
        ("float32", (3727, 9001), 9, 8),
        ("float32", (2236, 15_001), 8, 16),
        ("float32", (2236, 15_000), 15, 8),
        ("float64", (8000, 3000), 12, 4),
        ("float64", (8000, 3001), 6, 8),
        ("float64", (8000, 4096), 8, 8),
        ("float64", (3000, 8000), 8, 16),
    ],
)
def test_warps_that_share_a_group_hold_rows_that_exist(dtype, shape, warps, rows):
    array, operand = layout(shape, dtype), layout((1, shape[1]), dtype)
    arrays = {"input": array, "output": array, "scale": operand, "bias": operand}
    found = constants(make_plan(Normalization((1,)), arrays))
    assert (found["WARPS"], found["ROWS"]) == (str(warps), str(rows))


@pytest.mark.parametrize(
    ("shape", "warps", "rows", "resident"),
    [
        ((70_257, 1281), 3, 2, 10),
        ((39_045, 2305), 3, 4, 10),
        ((14_646, 6145), 7, 4, 6),  # 48 registers
        ((14_643, 6146), 7, 4, 5),  # 56, and stored by words
        ((2999, 20_001), 10, 8, 3),
    ],
)
def test_warps_hold_more_rows_of_halves_without_a_scale(shape, warps, rows, resident):
    array = layout(shape, "float16")
    found = constants(make_plan(Normalization((1,)), {"input": array, "output": array}))
    assert (found["WARPS"], found["ROWS"], found["RESIDENT"]) == (str(warps), str(rows), str(resident))


@pytest.mark.parametrize(
    ("dtype", "shape", "resident"),
    [
        ("float16", (6760, 13_313), 2),  # 56 registers
        ("float16", (52_428, 1280), 24),  # 80
        ("float16", (13_107, 5120), 8),  # 48
        ("float16", (14_646, 6145), 3),
        ("float16", (16_380, 4097), 4),
        ("float16", (9362, 7168), 6),
        ("float32", (4681, 7168), 3),
        ("float32", (2236, 15_001), 2),  # 128
    ],
)
def test_blocks_that_share_a_multiprocessor_leave_registers(dtype, shape, resident):
    array, operand = layout(shape, dtype), layout((1, shape[1]), dtype)
    arrays = {"input": array, "output": array, "scale": operand, "bias": operand}
    assert constants(make_plan(Normalization((1,)), arrays))["RESIDENT"] == str(resident)


@pytest.mark.parametrize(
    ("spec", "shape", "dtype", "splits"),
    [
        (Normalization((1,)), (100, 1000), "float32", "1"),
        (Normalization((1,)), (100, 1001), "float16", "1"),
        (Normalization((1,)), (100, 200), "float32", "0"),  # of one warp
        (Normalization((1,), activation=Activation("gelu", ())), (100, 1001), "float32", "0"),
        (Normalization((0, 2)), (100, 3, 11), "float32", "0"),
        (Moments((1,)), (100, 1000), "float32", "0"),
        (Moments((1,)), (100, 1001), "float32", "1"),
        (Moments((1,)), (3, 1_000_000), "float32", "0"),
        (Moments((1,)), (3, 1_000_001), "float32", "1"),
    ],
)
def test_warps_whose_rows_all_exist_do_not_look(spec, shape, dtype, splits):
    of_groups = layout((shape[0], 1), dtype)
    rest = {"mean": of_groups, "variance": of_groups} if isinstance(spec, Moments) else {"output": layout(shape, dtype)}
    assert constants(make_plan(spec, {"input": layout(shape, dtype), **rest}))["SPLITS"] == splits


@pytest.mark.parametrize(
    ("shape", "dtype", "grain"),
    [
        ((8192, 512, 14, 14), "float16", 4),
        ((8192, 512, 14, 13), "float16", 1),  # which would be two
        ((8192, 512, 13, 13), "float16", 1),
        ((8192, 512, 7, 14), "float32", 2),
        ((64, 40, 14, 14), "float16", 4),  # in lines
    ],
)
def test_runs_are_moved_by_the_grain(shape, dtype, grain):
    array = layout(shape, dtype)
    found = constants(make_plan(Normalization((0, 2, 3)), {"input": array, "output": array}))
    assert (found["INPUT_GRAIN"], found["OUTPUT_GRAIN"]) == (str(grain), str(grain))


@pytest.mark.parametrize(
    ("shape", "dtype", "pieces"),
    [
        ((64, 64, 147, 147), "float16", "1"),
        ((64, 96, 55, 55), "float16", "1"),
        ((1280, 768, 17, 17), "float16", "1"),
        ((1280, 1024, 15, 15), "float16", "0"),  # runs of 225, whose ends would take too long
        ((64, 64, 150, 150), "float16", "0"),  # copied by grains
        ((64, 64, 147, 147), "float32", "0"),
    ],
)
def test_long_runs_of_halves_are_moved_in_pieces(shape, dtype, pieces):
    array = layout(shape, dtype)
    plan = make_plan(Normalization((0, 2, 3)), {"input": array, "output": array})
    assert kernels(plan) == ["normalize_stream"]
    assert (constants(plan)["IN_PIECES"], constants(plan)["OUTPUT_IN_RUNS"]) == (pieces, pieces)


@pytest.mark.parametrize(
    ("shape", "dtype", "blocks", "rows", "resident", "early"),
    [
        ((8, 16_384), "float32", 8, 2, 4, True),
        ((64, 16_384), "float32", 4, 4, 3, True),
        ((32, 20_480), "float32", 5, 4, 3, True),
        ((100, 20_480), "float32", 5, 4, 4, False),
        ((32, 40_000), "float32", 5, 8, 2, True),
        ((64, 40_000), "float32", 5, 8, 3, False),
        ((60, 50_000), "float32", None, None, None, None),  # not all at once
        ((132, 16_384), "float32", None, None, None, None),  # a block each is faster
        ((1, 8192), "float32", None, None, None, None),
        ((8, 12_288), "float16", 3, 2, 4, True),
        ((64, 12_288), "float16", None, None, None, None),
        ((32, 33_333), "float16", 5, 4, 2, True),  # begin anywhere
        ((100, 33_333), "float16", 5, 4, 4, False),
        ((32, 65_536 * 4 + 1), "float16", None, None, None, None),
        ((1, 65_537), "float32", None, None, None, None),
    ],
)
def test_clusters_share_few_long_groups(shape, dtype, blocks, rows, resident, early):
    array, operand = layout(shape, dtype), layout((1, shape[1]), dtype)
    plan = make_plan(Normalization((1,)), {"input": array, "output": array, "scale": operand, "bias": operand})
    if blocks is None:
        assert kernels(plan) != ["normalize_clustered_lines"]
        return
    (launch,), found = plan.launches, constants(plan)
    assert (launch.kernel, launch.cluster, launch.grid) == ("normalize_clustered_lines", blocks, blocks * shape[0])
    assert (found["CLUSTER"], found["ROWS"], found["RESIDENT"]) == (str(blocks), str(rows), str(resident))
    assert found["OPERANDS_EARLY"] == str(int(early))


def test_clusters_load_wide_scales_late():
    array, operand = layout((8, 49_152), "float16"), layout((1, 49_152), "float32")
    plan = make_plan(Normalization((1,)), {"input": array, "output": array, "scale": operand})
    assert (kernels(plan), constants(plan)["OPERANDS_EARLY"]) == (["normalize_clustered_lines"], "0")


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [((1, 16_384), "normalize_lines"), ((8, 65_536), "normalize_clustered_lines"), ((64, 65_536), "sum_lines")],
)
def test_clusters_add_up_few_long_groups(shape, kernel):
    moments = layout((shape[0], 1), "float32")
    plan = make_plan(Moments((1,)), {"input": layout(shape, "float32"), "mean": moments, "variance": moments})
    assert plan.launches[0].kernel == kernel


def test_older_gpus_have_no_clusters():
    array = layout((8, 20_000), "float32")
    device = H200._replace(compute_capability=(8, 9))
    plan = make_plan(Normalization((1,)), {"input": array, "output": array}, device)
    assert kernels(plan) == ["sum_lines", "apply_lines"]


@pytest.mark.parametrize(
    ("shape", "dtype", "kernels_of_gpu"),
    [
        ((8, 192, 35, 35), "float16", {50: "sum_lines", 40: "sum_lines", 6: "normalize_stream"}),
        ((64, 3, 224, 224), "float16", {50: "sum_lines", 40: "normalize_stream"}),
        ((6, 4, 544, 736), "float16", {50: "normalize_stream"}),  # groups of 3 MB
        ((4, 3, 224, 224), "float32", {50: "sum_lines"}),
        ((8, 192, 35, 35), "float32", {50: "normalize_stream"}),
        ((4, 3, 224, 224), "float64", {50: "sum_lines"}),
    ],
)
def test_two_steps_read_what_the_cache_holds(shape, dtype, kernels_of_gpu):
    array = layout(shape, dtype)
    for megabytes, kernel in kernels_of_gpu.items():
        device = H200._replace(cache_bytes=megabytes << 20)
        plan = make_plan(Normalization((1, 2, 3)), {"input": array, "output": array}, device)
        assert plan.launches[0].kernel == kernel, megabytes


@pytest.mark.parametrize(("length", "steps"), [(6_000_000, 1), (6_500_000, 2)])
def test_groups_that_would_be_folded_often_are_read_twice(length, steps):
    array = layout((6, length), "float32")
    assert len(make_plan(Normalization((1,)), {"input": array, "output": array}).launches) == steps


@pytest.mark.parametrize(
    ("shape", "dtype", "warps"),
    [((4, 3, 224, 224), "float16", 4), ((64, 3, 224, 224), "float16", 8), ((64, 64, 512, 512), "float64", 16)],
)
def test_few_tiles_have_few_warps(shape, dtype, warps):
    array = layout(shape, dtype)
    plan = make_plan(Normalization((1, 2, 3)), {"input": array, "output": array})
    assert (plan.launches[0].kernel, int(constants(plan)["WARPS"])) == ("sum_lines", warps)


@pytest.mark.parametrize(
    ("shape", "dtype", "registers"),
    [
        ((524_288, 69), "float16", 64),
        ((524_288, 64), "float16", 64),
        ((136_920, 440), "float16", 48),  # aligned, two rows
        ((1_000_000, 33), "float32", 48),
        ((20_000, 3001), "float16", 56),
        ((4000, 14_001), "float16", 48),  # by 14 warps
        ((30_000, 2050), "float16", 48),  # from words on
    ],
)
def test_what_reads_halves_that_begin_anywhere_has_more_registers(shape, dtype, registers):
    moments = layout((shape[0], 1), dtype)
    plan = make_plan(Moments((1,)), {"input": layout(shape, dtype), "mean": moments, "variance": moments})
    [launch] = plan.launches
    threads = int(constants(plan)["RESIDENT"]) * launch.block
    assert 65536 // threads // 8 * 8 == registers


@pytest.mark.parametrize(
    ("shape", "dtype", "block", "spans"),
    [
        ((32, 1_864_071), "float64", 512, 2),
        ((16, 6_000_001), "float16", 512, 1),
        ((32, 3_000_000), "float32", 128, 1),  # whole vectors
        ((10, 600_001), "int8", 128, 1),  # few bytes
        ((2, 18_295_956), "float16", 128, 1),  # few steps
    ],
)
def test_large_rows_that_begin_anywhere_have_large_blocks(shape, dtype, block, spans):
    array = layout(shape, dtype)
    plan = make_plan(Scan("sum", array.dtype, 0), {"input": array, "output": array})
    assert (plan.launches[0].kernel, plan.launches[0].block) == ("scan_short_columns", block)
    assert int(constants(plan)["SPANS"]) == spans


@pytest.mark.parametrize(
    ("shape", "dtype", "kernel", "rows"),
    [
        ((20, 1500, 17, 17), "float16", "normalize_lines", "4"),
        ((12, 1000, 23, 23), "float32", "normalize_lines", "4"),
        ((32, 300, 17, 17), "float32", "normalize_lines", "8"),  # few groups
        ((100, 300, 15, 15), "float16", "normalize_stream", None),
        ((256, 199, 10, 10), "float16", "normalize_lines", "8"),  # moved by the grain
        ((7, 999, 61, 37), "float32", "normalize_lines", "8"),
        ((7, 999, 61, 37), "float16", "normalize_lines", "4"),
        ((14, 999, 61, 37), "float16", "normalize_stream", None),
        ((13, 190, 81, 13), "float32", "normalize_lines", "8"),
    ],
)
def test_many_rows_of_odd_runs_are_streamed(shape, dtype, kernel, rows):
    array = layout(shape, dtype)
    plan = make_plan(Normalization((0, 2, 3)), {"input": array, "output": array})
    assert kernels(plan) == [kernel]
    assert constants(plan).get("ROWS") == rows


@pytest.mark.parametrize(
    ("shape", "dtype", "resident"),
    [
        ((40, 400, 16, 16), "float32", 2),  # 80 registers
        ((64, 256, 16, 16), "float32", 2),  # 64, so that two blocks fit
        ((64, 132, 16, 16), "float32", 1),
        ((64, 1000, 15, 15), "float32", 2),
        ((128, 320, 16, 16), "float16", 2),
    ],
)
def test_blocks_with_many_rows_of_runs_fit_a_multiprocessor(shape, dtype, resident):
    array = layout(shape, dtype)
    plan = make_plan(Normalization((0, 2, 3)), {"input": array, "output": array})
    assert (kernels(plan), constants(plan)["ROWS"]) == (["normalize_lines"], "8")
    assert constants(plan)["RESIDENT"] == str(resident)


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "stored_rows"),
    [
        ((3, 40, 255), (0, 2), "float16", "1"),  # too short runs
        ((3, 40, 257), (0, 2), "float16", "1"),  # all rows of a warp
        ((5, 40, 257), (0, 2), "float16", "2"),
        ((16, 40, 257), (0, 2), "float16", "4"),
        ((40, 20_001), (1,), "float16", "2"),  # two of 8
        ((64, 192, 71, 71), (0, 2, 3), "float16", "4"),
        ((100, 1_000_001), (1,), "float16", "4"),
        ((100, 1_000_001), (1,), "float32", "1"),
        ((100, 1_000_002), (1,), "float16", "1"),  # whose groups begin at words
        ((64, 192, 72, 72), (0, 2, 3), "float16", "1"),
    ],
)
def test_warps_store_rows_of_halves_together_that_begin_anywhere(shape, axes, dtype, stored_rows):
    array = layout(shape, dtype)
    found = constants(make_plan(Normalization(axes), {"input": array, "output": array}))
    assert found["STORED_ROWS"] == stored_rows


@pytest.mark.parametrize("run", [258, 260, 512, 20_001, 20_002])
@pytest.mark.parametrize("groups", [3, 64])
@pytest.mark.parametrize("dtypes", [("float64", "float16"), ("int64", "float16"), ("float32", "float16")], ids=str)
def test_whole_chunks_are_stored_as_they_are(run, groups, dtypes):
    source, target = (layout((groups, 3, run), dtype) for dtype in dtypes)
    for part in make_plan(Normalization((0, 2)), {"input": source, "output": target}).parts:
        found = dict(part.constants)
        assert found["OUTPUT_PACKED"] == "0" or (found["OUTPUT_IN_RUNS"], found["STORED_ROWS"]) == ("0", "1")


def test_odd_runs_are_held_where_no_gpu_holds_a_stream():
    array, device = layout((30, 700, 25, 25), "float16"), H200._replace(cooperative_launch=False)
    plan = make_plan(Normalization((0, 2, 3)), {"input": array, "output": array}, device)
    assert kernels(plan) == ["normalize_lines"]


@pytest.mark.parametrize(
    ("shape", "dtype", "kernels_of_both", "kernels_of_moments"),
    [
        ((2_000_000, 3, 7), "float32", "panel_tiles", "panel_tiles"),
        ((2_000_000, 5, 6), "float16", "panel_tiles", "panel_tiles"),
        ((2_000_000, 3, 7), "float64", "panel_tiles", "panel_tiles"),
        ((30_000, 3, 7), "float32", "panel_tiles", "lines"),
        ((20_000, 3, 7), "float32", "stream", "lines"),  # few: a launch takes as long
        ((5000, 21, 11), "float32", "lines", "lines"),  # the sums of many groups take longer
        ((10_000, 21, 11), "float32", "panel_tiles", "lines"),
        ((50_000, 70, 3), "float32", "panel_tiles", "lines"),
        ((5000, 7, 31), "float32", "stream", "lines"),  # longer runs
        ((30_000, 3, 147), "float32", "stream", "lines"),
        ((50_000, 3, 147), "float32", "panel_tiles", "lines"),
        ((50_000, 3, 353), "float32", "lines", "lines"),  # more than 4096 bytes
        ((500_000, 3, 8), "float32", "bundle_tiles", "bundle_tiles"),  # whole vectors
        ((500_000, 4, 7), "float32", "bundle_tiles", "bundle_tiles"),
        ((500_000, 4, 7), "float16", "panel_tiles", "lines"),
        ((500_000, 257, 3), "float16", "stream", "lines"),  # more than a block has threads
        ((2_000_000, 33, 1), "float16", "panel_tiles", "panel_tiles"),
        ((500_000, 33, 1), "float16", "columns", "columns"),
        ((2_000_000, 34, 1), "float16", "columns", "columns"),
        ((2_000_000, 49, 1), "float16", "columns", "columns"),
        ((2_000_000, 33, 1), "float32", "columns", "columns"),
        ((2_000_000, 3, 7), "int16", "lines", "lines"),
    ],
)
def test_many_panels_are_cut_into_tiles_of_all_groups(shape, dtype, kernels_of_both, kernels_of_moments):
    array, moment = layout(shape, dtype), layout((1, shape[1], 1), "float32")
    output = array if dtype != "int16" else layout(shape, "float64")
    both = make_plan(Normalization((0, 2)), {"input": array, "output": output})
    moments = make_plan(Moments((0, 2)), {"input": array, "mean": moment, "variance": moment})
    assert both.source == f"normalization_{kernels_of_both}.cu"
    assert moments.source == f"normalization_{kernels_of_moments}.cu"


@pytest.mark.parametrize(
    ("shape", "dtype", "spans", "threads", "tiles", "blocks"),
    [
        ((2_000_000, 3, 7), "float32", 128, 192, 6836, 10_417),  # 384 spans in two turns; 12 times 21 vectors
        ((2_000_000, 5, 6), "float16", 64, 160, 5860, 7353),
        ((2_000_000, 33, 1), "float16", 8, 160, 3907, 8929),
        ((100_000, 250, 3), "float32", 1, 256, 9375, 12_500),  # 375 vectors
        ((100_000, 3, 147), "float32", 128, 192, 7178, 6250),
    ],
)
def test_tiles_of_panels(shape, dtype, spans, threads, tiles, blocks):
    array = layout(shape, dtype)
    sums, applied = make_plan(Normalization((0, 2)), {"input": array, "output": array}).parts
    assert int(dict(sums.constants)["SPANS"]) == spans
    assert (sums.launches[0].block, sums.launches[0].grid, applied.launches[0].grid) == (threads, tiles, blocks)


def test_panels_of_all_groups_are_dense_and_begin_with_vectors():
    array = layout((1_000_000, 3, 7), "float32")
    gaps, behind = array._replace(strides=(88, 28, 4)), array._replace(alignment=8)
    turned = layout((1_000_000, 7, 3), "float32")._replace(shape=array.shape, strides=(84, 4, 12))
    for source, output in ((array, gaps), (gaps, array), (behind, array), (array, behind), (turned, array)):
        plan = make_plan(Normalization((0, 2)), {"input": source, "output": output})
        assert "panel_tiles" not in plan.source


def test_panels_have_the_same_scale():
    array = layout((1_000_000, 3, 7), "float32")
    for shape, expected in (((3, 1), True), ((3, 7), True), ((1_000_000, 1, 1), False), ((1_000_000, 3, 7), False)):
        arrays = {"input": array, "output": array, "scale": layout(shape, "float32")}
        assert ("panel_tiles" in make_plan(Normalization((0, 2)), arrays).source) == expected


@pytest.mark.parametrize(("dtype", "size"), [("float16", 2), ("float32", 4), ("float64", 8)])
def test_the_largest_tiles_of_panels_fit_a_block_of_any_gpu(dtype, size):
    planned = 0
    for groups in (2, 3, 9, 31, 32, 33, 63, 127, 144, 161):
        most = 4096 // (groups * size)
        for run in range(max(2, most - 15), most + 1):
            array = layout((16_000_000 // run, groups, run), dtype)
            sums = make_plan(Normalization((0, 2)), {"input": array, "output": array}).parts[0]
            if sums.source != "normalization_panel_tiles.cu":
                continue
            planned += 1
            of_spans = int(constants(sums)["SPANS"]) * groups * 16
            beside = of_spans + 256 * 16 + groups * size + 16  # parts of sets, first elements, the tile's number
            assert sums.launches[0].shared_bytes + beside <= 64 << 10
    assert planned >= 20


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "kernel"),
    [
        ((100_000, 16, 3), (1,), "float32", "normalize_panels"),
        ((100_000, 4, 5, 7, 3), (1, 2), "float16", "normalize_panels"),
        ((1000, 16, 3), (1,), "float32", "normalize_columns"),  # few: a launch takes as long
        ((100_000, 65, 3), (1,), "float32", "normalize_long_panels"),  # several threads for each column are faster
        ((100_000, 5, 40, 5), (1, 2), "float16", "normalize_long_panels"),
        ((10_000, 2000, 5), (1,), "float32", "normalize_long_panels"),
        ((10_000, 3000, 5), (1,), "float32", "sum_columns"),  # more than a block holds
        ((140, 200, 5), (1,), "float32", "normalize_long_panels"),
        ((30, 2000, 5), (1,), "float32", "normalize_long_panels"),
        ((20, 2000, 5), (1,), "float32", "sum_columns"),  # few large ones
        ((100, 200, 5), (1,), "float32", "normalize_columns"),
        ((3000, 100, 9), (1,), "float32", "normalize_long_panels"),
        ((2000, 100, 9), (1,), "float32", "normalize_columns"),
        ((9000, 100, 9), (1,), "float16", "normalize_columns"),
        ((20_000, 100, 9), (1,), "float16", "normalize_long_panels"),
        ((10_000, 250, 40), (1,), "float32", "normalize_columns"),  # whole vectors
        ((100_000, 250, 4), (1,), "float32", "normalize_long_panels"),  # of one
        ((10_000, 250, 41), (1,), "float32", "normalize_long_panels"),
        ((100_000, 70, 49), (1,), "float16", "normalize_columns"),  # wide for halves
        ((100_000, 70, 129), (1,), "float32", "normalize_long_panels"),
        ((100_000, 65, 257), (1,), "float16", "normalize_columns"),
        ((100_000, 200, 5), (1,), "int8", "normalize_columns"),
        ((100_000, 16, 32), (1,), "float32", "normalize_columns"),  # whose threads load whole vectors
        ((100_000, 16, 8), (1,), "float64", "normalize_columns"),
        ((100_000, 16, 8), (1,), "float32", "normalize_panels"),
        ((10_000, 20, 307), (1,), "float32", "normalize_panels"),
        ((10_000, 20, 309), (1,), "float32", "normalize_columns"),  # more than 24 KB
        ((100_000, 16, 3), (1,), "int8", "normalize_columns"),
        ((100_000, 1, 5), (1,), "float32", "normalize_columns"),
        ((100_000, 4, 6), (1,), "float16", "normalize_columns"),  # loaded in pairs
        ((100_000, 4, 7), (1,), "float16", "normalize_panels"),
    ],
)
def test_columns_of_narrow_panels_are_moved_in_runs(shape, axes, dtype, kernel):
    array = layout(shape, dtype)
    output = array if dtype != "int8" else layout(shape, "float64")
    assert kernels(make_plan(Normalization(axes), {"input": array, "output": output}))[0] == kernel


def test_a_block_is_no_cluster():
    array, device = layout((543, 32), "float16"), H200._replace(multiprocessors=1)
    assert kernels(make_plan(Normalization((0,)), {"input": array, "output": array}, device)) != ["normalize_clusters"]


@pytest.mark.parametrize(
    ("shape", "panels", "threads", "spans"),
    [
        ((100_000, 200, 5), 4, 128, 16),
        ((100_000, 65, 3), 16, 128, 8),
        ((10_000, 1000, 3), 1, 128, 64),
        ((130, 1000, 3), 1, 256, 64),  # no more blocks than multiprocessors
        ((10_000, 2000, 5), 1, 256, 128),
        ((1200, 200, 5), 2, 128, 16),  # few
    ],
)
def test_blocks_of_several_threads_for_each_column(shape, panels, threads, spans):
    array = layout(shape, "float32")
    plan = make_plan(Normalization((1,)), {"input": array, "output": array})
    found, launch = constants(plan), plan.launches[0]
    assert (found["PANELS"], found["SPANS"]) == (str(panels), str(spans))
    assert (launch.block, launch.grid) == (threads, -(-shape[0] // panels))


@pytest.mark.parametrize("length", [65, 200, 1000, 4000])
@pytest.mark.parametrize("inner", [2, 3, 7, 33])
@pytest.mark.parametrize(("source", "out"), [("float16", "float16"), ("float32", "float16"), ("float64", "float64")])
def test_long_panels_fit_a_block_of_any_gpu(length, inner, source, out):
    device = H200._replace(shared_bytes_per_block=64 << 10)
    arrays = {"input": layout((1_000_000, length, inner), source), "output": layout((1_000_000, length, inner), out)}
    plan = make_plan(Normalization((1,)), arrays, device)
    if kernels(plan) == ["normalize_long_panels"]:
        groups = int(constants(plan)["PANELS"]) * inner
        static = groups * (int(constants(plan)["SPANS"]) * 16 + 24)
        assert static <= 48 << 10
        assert plan.launches[0].shared_bytes + static <= 64 << 10
    else:
        assert length * inner * 4 > 16 << 10


def test_moments_of_long_panels_are_those_of_columns():
    moment = layout((100_000, 1, 5), "float32")
    arrays = {"input": layout((100_000, 200, 5), "float32"), "mean": moment, "variance": moment}
    assert kernels(make_plan(Moments((1,)), arrays)) == ["normalize_columns"]


@pytest.mark.parametrize("steps", [16, 100])
def test_columns_of_panels_with_gaps_are_no_run(steps):
    array, gaps = (
        layout((100_000, steps, 3), "float32"),
        layout((100_000, steps, 5), "float32")._replace(shape=(100_000, steps, 3)),
    )
    behind = array._replace(strides=(12 * steps + 8, 12, 4))
    for source, output in ((array, gaps), (gaps, array), (behind, array), (array, behind)):
        plan = make_plan(Normalization((1,)), {"input": source, "output": output})
        assert "panels" not in plan.source


@pytest.mark.parametrize(
    ("shape", "dtype", "length", "vector"),
    [
        ((4, 100_000), "float32", 0, 1),  # whole chunks
        ((4, 100_000), "float16", 4, 2),
        ((3, 100_000), "float32", 3, 1),
        ((7, 100_000), "float16", 7, 2),
        ((32, 100_000), "float32", 0, 1),
        ((33, 100_000), "float32", 0, 4),
    ],
)
def test_moments_of_short_columns_have_many_threads(shape, dtype, length, vector):
    moments = {name: layout((1, shape[1]), dtype) for name in ("mean", "variance")}
    found = constants(make_plan(Moments((0,)), {"input": layout(shape, dtype), **moments}))
    assert (found["LENGTH"], found["VECTOR"]) == (str(length), str(vector))


@pytest.mark.parametrize(
    ("shape", "dtype", "columns"),
    [
        ((6405, 4024), "float32", 64),
        ((6405, 4023), "float32", 128),  # strips share sectors
        ((6405, 4020), "float32", 64),  # rows are whole vectors
        ((8000, 4002), "float16", 128),
        ((6405, 4023), "float64", 32),
        ((20_000, 2047), "float32", 64),  # blocks would have two pieces of a wide strip
        ((20_000, 257), "float32", 64),  # a wide strip would have a column
        ((65_536, 1001), "float32", None),  # two pieces of the only team are more than a ring
        ((50_000, 501), "float32", None),  # blocks have two pieces
    ],
)
def test_strips_that_share_sectors_are_wide(shape, dtype, columns):
    plan = make_plan(Normalization((0,)), {"input": layout(shape, dtype), "output": layout(shape, dtype)})
    if columns is None:
        assert kernels(plan) == ["sum_columns", "apply_columns"]
    else:
        assert (kernels(plan), constants(plan)["COLUMNS"]) == (["normalize_strips"], str(columns))


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((320, 216_611), "float32", {"ACROSS": "32", "SPANS": "16"}),  # rows begin amid sectors
        ((320, 216_608), "float32", {"VECTOR": "2", "ACROSS": "8", "SPANS": "32"}),
        ((16, 32_768), "float16", {"VECTOR": "2", "ACROSS": "64", "SPANS": "2", "SPAN": "1"}),
        ((16, 2**20), "float16", {"VECTOR": "4", "OPERANDS_EARLY": "1"}),  # much
        ((256, 2**18), "float16", {"VECTOR": "8", "OPERANDS_EARLY": "0"}),
        ((250, 2**18), "float16", {"VECTOR": "4", "OPERANDS_EARLY": "1"}),
        ((1, 2**22), "float16", {"VECTOR": "8"}),
        ((256, 256), "float32", {"VECTOR": "2", "SPAN": "2"}),
        ((256, 65_536), "float32", {"VECTOR": "2", "SPAN": "4"}),
        ((5_592_405, 3), "float16", {"SPAN": "4", "VECTOR": "1"}),
        ((11_184_810, 3), "float32", {"SPAN": "8", "VECTOR": "1"}),
        ((16_777_216, 2), "float16", {"SPAN": "4", "VECTOR": "2"}),
        ((2048, 8), "float16", {"ROUNDS": "1", "HAS_OUTPUT": "1"}),
    ],
)
def test_threads_have_as_much_of_columns_as_fits_them(shape, dtype, expected):
    found = constants(make_plan(Normalization((0,)), {"input": layout(shape, dtype), "output": layout(shape, dtype)}))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("shape", "dtype", "launches"),
    [((2048, 8), "float16", 1), ((4096, 8), "float16", 2), ((8000, 2), "float32", 2), ((8000, 64), "float32", 1)],
)
def test_no_block_has_many_rows_alone(shape, dtype, launches):
    plan = make_plan(Normalization((0,)), {"input": layout(shape, dtype), "output": layout(shape, dtype)})
    assert len(kernels(plan)) == launches


@pytest.mark.parametrize(
    ("shape", "dtype", "blocks"),
    [
        ((20_000, 2048), "float32", 132),  # 32 strips of 79 pieces
        ((20_000, 4000), "float32", 132),  # 63 strips: a team would have 79 blocks
        ((20_000, 8320), "float32", 120),  # 130 strips, of which three teams of 40 blocks have one each
        ((4096, 4096), "float32", 128),  # 64 strips, of which eight teams of 16 blocks have one each
        ((25_088, 1024), "float16", 132),
        ((80_000, 64), "float16", 132),  # one strip
    ],
)
def test_few_strips_are_dealt_to_all_blocks(shape, dtype, blocks):
    plan = make_plan(Normalization((0,)), {"input": layout(shape, dtype), "output": layout(shape, dtype)})
    assert [(launch.kernel, launch.grid) for launch in plan.launches] == [("normalize_strips", blocks)]


@pytest.mark.parametrize(
    ("shape", "dtype", "strip_bytes", "piece_bytes"),
    [
        ((65_536, 4096), "float32", 256, 131_072),
        ((50_176, 512), "float32", 256, 131_072),  # of 65536 bytes they would be more pieces than blocks
        ((50_176, 256), "float16", 128, 65_536),
        ((80_000, 256), "float32", 128, 131_072),  # no ring holds wide strips
        ((80_000, 256), "float16", 128, 65_536),  # three blocks of five have large pieces
        ((120_000, 256), "float16", 128, 131_072),
        ((41_195, 64), "float64", 256, 65_536),  # two strips, which leave blocks idle
        ((200_704, 256), "float16", 128, 65_536),  # whole rings
    ],
)
def test_strips_are_wide_if_no_block_has_two_pieces(shape, dtype, strip_bytes, piece_bytes):
    plan = make_plan(Normalization((0,)), {"input": layout(shape, dtype), "output": layout(shape, dtype)})
    assert kernels(plan) == ["normalize_strips"]
    found, size = constants(plan), np.dtype(dtype).itemsize
    assert int(found["COLUMNS"]) * size == strip_bytes
    assert int(found["PIECE"]) * int(found["STEPS"]) * strip_bytes == piece_bytes


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((74_229, 96), "float32"),  # three narrow strips, which leave blocks idle
        ((150_000, 256), "float32"),
        ((140_000, 256), "float16"),
        ((211_000, 256), "float16"),
        ((80_000, 1001), "float32"),  # rows begin anywhere
    ],
)
def test_strips_that_are_faster_in_two_steps(shape, dtype):
    plan = make_plan(Normalization((0,)), {"input": layout(shape, dtype), "output": layout(shape, dtype)})
    assert kernels(plan) == ["sum_columns", "apply_columns"]


@pytest.mark.parametrize(
    ("shape", "dtype", "cache_bytes", "launches"),
    [
        ((20_000, 128), "float32", 50 << 20, 2),
        ((20_000, 128), "float32", 20 << 20, 1),
        ((40_000, 128), "float32", 50 << 20, 1),
        ((20_000, 128), "float16", 50 << 20, 2),
        ((20_000, 128), "float16", 20 << 20, 1),
        ((40_000, 128), "float16", 50 << 20, 1),  # of as many bytes as the first
        ((20_000, 129), "float32", 50 << 20, 2),
        ((20_000, 129), "float32", 0, 1),
    ],
)
def test_columns_that_stay_in_the_cache_take_two_steps(shape, dtype, cache_bytes, launches):
    arrays = {"input": layout(shape, dtype), "output": layout(shape, dtype)}
    plan = make_plan(Normalization((0,)), arrays, H200._replace(cache_bytes=cache_bytes))
    assert len(kernels(plan)) == launches


@pytest.mark.parametrize(
    ("shape", "dtype", "across", "rounds", "stages"),
    [
        ((64 * 112 * 112, 64), "float16", 8, 4, 2),
        ((64 * 112 * 112, 64), "float32", 8, 8, 0),  # floats wait in registers
        ((64 * 112 * 112, 24), "float16", 4, 4, 0),  # narrow rows, which warps move; all blocks run at once
        ((98_304, 64), "float32", 8, 4, 0),
        ((49_152, 64), "float32", 8, 2, 0),
        ((200_000, 331), "float16", 64, 8, 0),  # columns that vectors do not move: half a span of each
        ((64 * 75 * 75, 144), "float16", 4, 4, 0),  # narrow strips
        ((1_000_000, 256), "float32", 16, 32, 0),  # wide ones, as blocks load so often
        ((1_000_000, 256), "float64", 16, 32, 0),
        ((1_000_000, 257), "float32", 32, 32, 0),
    ],
)
def test_columns_are_added_up_in_tiles_of_their_own(shape, dtype, across, rounds, stages):
    plan = make_plan(Normalization((0,)), {"input": layout(shape, dtype), "output": layout(shape, dtype)})
    added, applied = plan.parts
    found = constants(added)
    assert (found["ACROSS"], found["ROUNDS"], found["STAGES"]) == (str(across), str(rounds), str(stages))
    threads = 256 if stages else 128
    assert (added.launches[0].block, applied.launches[0].block) == (threads, 128)
    assert added.launches[0].shared_bytes == stages * threads * 128
    assert constants(applied)["ROUNDS"] == "1"
    assert applied.scratch_bytes == applied.workspace_bytes == 0


@pytest.mark.parametrize(
    ("shape", "dtype", "device", "stages"),
    [
        ((4096, 65536), "float16", H200, 2),  # whole columns, which nobody shares
        ((65536, 8192), "float16", H200, 2),
        ((65536, 8192), "float16", H200._replace(compute_capability=(7, 5)), 0),
        ((65536, 8192), "float32", H200, 0),
        ((1000, 8192), "float16", H200, 0),  # loaded at once
    ],
)
def test_moments_of_columns_of_halves_are_copied(shape, dtype, device, stages):
    moments = {name: layout((1, shape[1]), dtype) for name in ("mean", "variance")}
    plan = make_plan(Moments((0,)), {"input": layout(shape, dtype), **moments}, device)
    assert (constants(plan)["STAGES"], plan.launches[0].shared_bytes) == (
        str(stages),
        stages * plan.launches[0].block * 128,
    )


@pytest.mark.parametrize(
    ("shape", "pitch", "dtype", "gaps"),
    [
        ((64, 256, 128, 128), 129, "float32", 128),  # 31 gaps of 4 bytes
        ((64, 256, 128, 128), 136, "float32", 992),
        ((64, 256, 128, 128), 137, "float32", 0),  # more than a sixteenth would be copied for nothing
        ((64, 256, 128, 128), 129, "float16", 128),
        ((64, 256, 128, 120), 121, "float32", 0),  # units would begin within a run
        ((64, 256, 24, 128), 129, "float32", 0),  # and end in another image
        ((64, 256, 128, 128), 128, "float32", 0),
    ],
)
def test_short_runs_are_copied_with_small_gaps(shape, pitch, dtype, gaps):
    strides = tuple(int(np.prod((*shape[axis + 1 : 3], pitch))) for axis in range(3))
    source = layout(shape, dtype, (*strides, 1), np.dtype(dtype).itemsize)
    plan = make_plan(Normalization((0, 2, 3)), {"input": source, "output": layout(shape, dtype)})
    assert kernels(plan) == ["normalize_stream"]
    assert int(constants(plan)["GAPS"]) == gaps
    assert int(constants(plan)["BULK"]) == (gaps > 0)


@pytest.mark.parametrize(
    "device",
    [
        H200._replace(cooperative_launch=False),
        H200._replace(multiprocessors=1),
        H200._replace(compute_capability=(7, 5), shared_bytes_per_block=65_536),
    ],
)
@pytest.mark.parametrize(("axes", "expected"), [((1,), "lines"), ((0,), "columns")])
def test_groups_that_the_gpu_cannot_hold_together_are_read_twice(device, axes, expected):
    plan = make_plan(Normalization(axes), {"input": layout((2048, 2**20)), "output": layout((2048, 2**20))}, device)
    assert kernels(plan) == [f"{step}_{expected}" for step in ("sum", "apply")]


@pytest.mark.parametrize("divisor", [2, 3, 5, 7, 49, 64, 1000, 2**20 + 1, 2**30, 2**31 - 1])
def test_magic_numbers_divide(divisor):
    magic, shift = magic_of(divisor)
    most = 2**31 - 1
    for n in (0, 1, divisor - 1, divisor, divisor + 1, 3 * divisor - 1, most, most // divisor * divisor - 1):
        if 0 <= n <= most:
            assert n * (magic % 2**32) >> (32 + shift) == n // divisor


def test_the_moments_of_nothing_are_still_written():
    moments = {"mean": layout((7, 1)), "variance": layout((7, 1))}
    assert kernels(make_plan(Moments((1,)), {"input": layout((7, 0)), **moments})) == ["normalize_short_lines"]
    assert (
        kernels(make_plan(Moments((1,)), {"input": layout((0, 7)), "mean": layout((0, 1)), "variance": layout((0, 1))}))
        == []
    )


@pytest.mark.parametrize(
    ("shape", "scale", "dtype", "normalizers"),
    [
        ((64, 256, 128, 128), (1, 256, 1, 1), np.float16, "4"),
        ((64, 256, 128, 128), None, np.float16, "4"),
        ((64, 256, 128, 128), (1, 256, 1, 128), np.float16, "8"),  # a scale for each column
        ((64, 256, 256, 64), (1, 256, 1, 1), np.float16, "8"),  # narrow strips
        ((64, 256, 128, 128), (1, 256, 1, 128), np.float32, "4"),
    ],
)
def test_halves_that_are_much_work_have_more_normalizers(shape, scale, dtype, normalizers):
    arrays = {"input": layout(shape, dtype), "output": layout(shape, dtype)}
    if scale:
        strides = [0 if size == 1 else stride for size, stride in zip(scale, layout(scale).strides, strict=True)]
        arrays["scale"] = layout(shape, strides=tuple(stride // 4 for stride in strides))
    plan = make_plan(Normalization((0, 2)), arrays)
    assert kernels(plan) == ["normalize_strips"]
    assert constants(plan)["NORMALIZERS"] == normalizers


@pytest.mark.parametrize(
    ("shape", "axes", "prefetched"),
    [
        ((1024, 64), (1,), "1"),
        ((1024, 1024), (1,), "1"),
        ((4096, 1024), (1,), "1"),
        ((64, 256, 16, 16), (0, 2, 3), "0"),  # 8 rows in each warp
        ((65536, 1024), (1,), "0"),  # more than is prefetched
        ((1024, 1023), (1,), "0"),  # chunks are not packed
    ],
)
def test_small_groups_are_prefetched_where_launches_begin_early(shape, axes, prefetched):
    arrays = {"input": layout(shape), "output": layout(shape)}
    assert constants(make_plan(Normalization(axes), arrays))["PREFETCHED"] == prefetched
    older = make_plan(Normalization(axes), arrays, H200._replace(compute_capability=(8, 9)))
    assert constants(older)["PREFETCHED"] == "0"


@pytest.mark.parametrize(
    ("shape", "dtype", "in_runs"),
    [
        ((64, 2048, 7, 7), np.float32, "1"),
        ((64, 2048, 7, 7), np.float16, "0"),
        ((64, 2048, 1, 3), np.float32, "0"),  # shorter than a chunk
        ((1, 2048, 63, 63), np.float32, "0"),  # one run
    ],
)
def test_moments_of_runs_are_loaded_by_chunks(shape, dtype, in_runs):
    moments = {name: layout((1, shape[1], 1, 1), dtype=dtype) for name in ("mean", "variance")}
    plan = make_plan(Moments((0, 2, 3)), {"input": layout(shape, dtype=dtype), **moments})
    assert constants(plan)["IN_RUNS"] == in_runs


# ---- modulus


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


def test_large_arrays_have_large_blocks():
    large, row = layout((2**13, 2**12)), layout((2**12,))
    half = layout((2**12, 2**12))

    def blocks(*arrays, **properties):
        plan = modulus(*arrays, **{"threads_per_multiprocessor": 2048, **properties})
        return plan.launches[0].block, int(constants(plan)["BLOCKS"])

    assert blocks(large, large, large) == (1024, 2)
    assert blocks(half, half, half) == (256, 8)
    assert blocks(large, large, large, threads_per_multiprocessor=1536) == (256, 6)
    assert blocks(large, F32, large) == (256, 8)
    assert blocks(large, row, large) == (256, 1)


def test_small_operands_are_prefetched_where_launches_begin_early():
    def prefetched(length, divisor=None, **device):
        arrays = layout((length,)), layout((length,)) if divisor is None else divisor, layout((length,))
        return constants(modulus(*arrays, **device))["PREFETCHED"]

    assert prefetched(2**18) == prefetched(2**18, F32) == "1"
    assert prefetched(2**22) == prefetched(2**18, compute_capability=(8, 0)) == "0"
    assert constants(modulus(SQUARE, layout((64,)), SQUARE))["PREFETCHED"] == "0"


def test_shifted_bytes_have_small_blocks():
    padded, dense = layout((64, 4096), strides=(4097, 1), dtype=np.int8), layout((64, 4096), dtype=np.int8)
    assert modulus(padded, padded, dense).launches[0].block == 128
    assert modulus(dense, dense, dense).launches[0].block == 256


def test_what_moves_through_a_tile_decides_its_size():
    byte, wide = np.dtype(np.int8), layout((64, 64), dtype=np.int64)
    turned = layout((64, 64), strides=(1, 64), dtype=byte)
    for dividend, divisor, output, of in ((turned, wide, wide, 1), (turned, turned, wide, 8), (turned, byte, wide, 8)):
        found = constants(modulus(dividend, divisor, output))
        assert tuple(int(found[name]) for name in ("TILE_HEIGHT", "TILE_WIDTH", "BLOCK")) == TILES[of]
    bytes_of_two = constants(modulus(turned, turned, layout((64, 64), dtype=byte)))
    assert int(bytes_of_two["BLOCK"]) == TILES[1][-1] // 2


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


def test_bytes_whose_rows_take_much_more_as_doubles_are_no_narrow_rows():
    source, output = layout((6497, 8), "uint8"), layout((6497, 8), "float64")
    arrays = {"input": source, "output": output}
    plan = make_plan(Normalization((0,)), arrays, H200._replace(compute_capability=(8, 0)))
    assert (constants(plan)["INPUT_ROW"], constants(plan)["OUTPUT_ROW"]) == ("8", "0")


def test_strips_in_step_are_of_whole_packs():
    def kernel(columns):
        padded = ArrayLayout((256, columns), (1048576 * 8, 8), np.dtype("float64"), 16)
        return kernels(make_plan(Scan("sum", padded.dtype, 0), {"input": padded, "output": padded}))

    assert kernel(1048576) == ["scan_columns_in_step"]
    assert kernel(1048575) != ["scan_columns_in_step"]
