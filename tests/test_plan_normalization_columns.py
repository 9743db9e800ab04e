"""Plans of normalization, without a GPU: groups that lie side by side, and strips of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plans import F32, H100, constants, in_order, kernels, layout

from cudml.plan import make_plan
from cudml.plan.device import H200, LANES
from cudml.plan.layout import ArrayLayout
from cudml.plan.spec import Moments, Normalization


@pytest.mark.parametrize(
    ("shape", "axes", "apart"),
    [((4096, 65536), (0,), "1"), ((65536, 4096), (0,), "0"), ((64, 256, 128, 128), (0, 2), "0")],
    ids=["8 teams", "one team", "two strips in a row"],
)
def test_teams_work_on_strips_that_lie_apart_where_a_row_has_one_for_each(shape, axes, apart):
    plan = make_plan(Normalization(axes), {"input": layout(shape), "output": layout(shape)})
    assert constants(plan)["TEAMS_APART"] == apart


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
    ("shape", "dtype", "device", "loaders"),
    [
        ((4096, 65_536), "float16", H200, 4),
        ((4096, 65_536), "float16", H100, 2),
        ((4096, 65_536), "float16", H100._replace(compute_capability=(8, 0)), 0),
        ((4096, 65_537), "float16", H100, 0),  # rows begin anywhere
        ((65_536, 8192), "float16", H100, 0),  # units of fewer rows
        ((200_704, 256), "float16", H100, 0),  # narrow strips
        ((4096, 65_536), "float32", H100, 0),
    ],
)
def test_rows_of_wide_strips_of_halves_are_copied_in_bulk(shape, dtype, device, loaders):
    arrays = {"input": layout(shape, dtype), "output": layout(shape, dtype)}
    plan = make_plan(Normalization((0,)), arrays, device)
    assert (kernels(plan), constants(plan)["BULK"]) == (["normalize_strips"], str(int(loaders > 0)))
    assert not loaders or constants(plan)["LOADERS"] == str(loaders)


@pytest.mark.parametrize(("device", "in_bulk"), [(H200, False), (H100, True)], ids=["H200", "H100"])
def test_halves_with_a_scale_for_each_column_come_in_bulk_unless_memory_is_fast(device, in_bulk):
    shape = (8192, 65_536)
    arrays = {"input": layout(shape, "float16"), "output": layout(shape, "float16")}
    plan = make_plan(Normalization((0,)), arrays | {"scale": layout((1, 65_536), "float16")}, device)
    assert constants(plan)["BULK"] == str(int(in_bulk))


@pytest.mark.parametrize(
    ("shape", "axes", "scale", "steps", "held"),
    [
        ((12_544, 1024), (0,), (1, 1024), 64, 2),
        ((50_176, 512), (0,), (1, 512), 32, 2),  # large pieces of few strips
        ((65_536, 4096), (0,), (1, 4096), 32, 5),
        ((64, 256, 128, 128), (0, 2), (1, 256, 1, 1), 32, 2),  # many strips of one scale each
        ((64, 256, 128, 128), (0, 2), (1, 256, 1, 128), 64, 2),
        ((256, 64, 56, 64), (0, 2), (1, 64, 1, 1), 64, 2),
        ((12_544, 1024), (0,), (12_544, 1024), 32, 1),
        ((65_536, 1024), (0,), (1, 1024), 32, 2),  # 16 strips
        ((65_536, 1088), (0,), (1, 1088), 32, 5),
        ((64, 255, 128, 128), (0, 2), (1, 255, 1, 1), 64, 2),  # 510 strips
        ((64, 64, 224, 224), (0, 2), (1, 64, 1, 224), 32, 2),  # rows of 64 steps lie at several strides
    ],
)
def test_units_of_strips_of_floats_and_how_many_are_held(shape, axes, scale, steps, held):
    arrays = {"input": layout(shape, "float32"), "output": layout(shape, "float32"), "scale": layout(scale, "float32")}
    chosen = constants(make_plan(Normalization(axes), arrays))
    assert (chosen["STEPS"], chosen["HELD"]) == (str(steps), str(held))


def test_no_more_units_are_held_than_a_piece_has():
    arrays = {"input": layout((20_000, 4096), "float32"), "output": layout((20_000, 4096), "float32")}
    chosen = constants(make_plan(Normalization((0,)), arrays, H200._replace(shared_bytes_per_block=110_000)))
    assert int(chosen["HELD"]) < int(chosen["PIECE"]) <= 5


def test_halves_that_become_floats_are_read_by_fewer_loaders():
    arrays = {"input": layout((4096, 65_536), "float16"), "output": layout((4096, 65_536), "float32")}
    assert constants(make_plan(Normalization((0,)), arrays))["LOADERS"] == "2"


@pytest.mark.parametrize(
    ("shape", "step", "sets"),
    [((4096, 65536), 1, 1), ((4096, 65536), 2, 2), ((100_000, 48), 2, 1)],
    ids=["rows", "elements", "elements of narrow strips"],
)
def test_adders_take_turns_where_elements_are_copied_one_by_one(shape, step, sets):
    source = ArrayLayout(shape, (4 * step * shape[1], 4 * step), F32, 16)
    plan = make_plan(Normalization((0,)), {"input": source, "output": layout(shape)}, H100)
    assert kernels(plan) == ["normalize_strips"]
    assert int(constants(plan)["ADDER_SETS"]) == sets


SMALLER_H100 = H100._replace(multiprocessors=66)


@pytest.mark.parametrize(
    ("shape", "device", "are_clusters"),
    [
        ((1500, 1024), H100, True),
        ((1500, 1026), H100, False),  # rows begin anywhere
        ((1600, 1024), H100, False),  # more than hosts are busy with
        ((1500, 1024), SMALLER_H100, False),
        ((1500, 512), SMALLER_H100, True),
        ((1500, 1024), H100._replace(cluster_launch=False), False),
    ],
)
def test_clusters_have_what_takes_no_longer_than_to_launch_it(shape, device, are_clusters):
    array = layout(shape, "float32")
    launched = kernels(make_plan(Normalization((0,)), {"input": array, "output": array}, device))
    assert launched == (["normalize_clusters"] if are_clusters else ["sum_columns", "apply_columns"])


def test_clusters_store_whole_vectors():
    """And what they store counts where that is more than they load."""
    source, wide = layout((1500, 1024), "float16"), layout((1500, 1024), "float32")
    odd = ArrayLayout((1500, 1024), (1025 * 2, 2), source.dtype, 2)
    larger = layout((2000, 1024), "float16"), layout((2000, 1024), "float32")
    arrays = ((source, source), (source, wide), (source, odd), larger)
    plans = [make_plan(Normalization((0,)), {"input": read, "output": stored}, H100) for read, stored in arrays]
    assert [kernels(plan)[0] for plan in plans] == ["normalize_clusters"] * 2 + ["sum_columns"] * 2


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
    arrays = {"input": layout(shape, dtype), "output": layout(shape, dtype)}
    plan = make_plan(Normalization((0,)), arrays, H100)
    if columns is None:
        assert kernels(plan) == ["sum_columns", "apply_columns"]
    else:
        assert (kernels(plan), constants(plan)["COLUMNS"]) == (["normalize_strips"], str(columns))


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((320, 216_611), "float32", {"ACROSS": "64", "SPANS": "10"}),  # rows begin amid sectors
        ((150, 216_611), "float32", {"ACROSS": "128", "SPANS": "5"}),
        ((1000, 15_013), "float32", {"ACROSS": "32", "SPANS": "32"}),
        ((600, 50_021), "float16", {"ACROSS": "32", "SPANS": "19"}),
        ((320, 216_608), "float32", {"VECTOR": "2", "ACROSS": "16", "SPANS": "20"}),
        ((336, 216_608), "float32", {"VECTOR": "2", "ACROSS": "8", "SPANS": "24"}),  # warps have 4 spans of a column
        ((518, 65_536), "float16", {"VECTOR": "4", "ACROSS": "8", "SPANS": "36"}),
        ((16, 32_768), "float16", {"VECTOR": "2", "ACROSS": "64", "SPANS": "2", "SPAN": "1"}),
        ((16, 2**20), "float16", {"VECTOR": "4", "OPERANDS_EARLY": "1"}),  # much
        ((256, 2**18), "float16", {"VECTOR": "8", "OPERANDS_EARLY": "0"}),
        ((250, 2**18), "float16", {"VECTOR": "4", "OPERANDS_EARLY": "1"}),
        ((1, 2**22), "float16", {"VECTOR": "8"}),
        ((2, 262_144), "float32", {"VECTOR": "1"}),
        ((2, 262_148), "float32", {"VECTOR": "2"}),
        ((2, 524_292), "float32", {"VECTOR": "4"}),
        ((8, 65_540), "float32", {"VECTOR": "2"}),
        ((9, 65_540), "float32", {"VECTOR": "1"}),  # longer ones have fewer moments
        ((9, 116_512), "float32", {"VECTOR": "2"}),
        ((3, 349_528), "float16", {"VECTOR": "4"}),
        ((4, 349_528), "float16", {"VECTOR": "2"}),
        ((4, 524_296), "float16", {"VECTOR": "4"}),
        ((256, 65_536), "float32", {"VECTOR": "2", "SPAN": "4"}),
        ((5_592_405, 3), "float16", {"SPAN": "4", "VECTOR": "1"}),
        ((11_184_810, 3), "float32", {"SPAN": "8", "VECTOR": "1"}),
        ((16_777_216, 2), "float16", {"SPAN": "4", "VECTOR": "2"}),
        ((16_384, 2), "float16", {"SPAN": "1", "VECTOR": "2", "SPANS": "128"}),  # 16 tiles, which one block adds up
        ((128, 10_705), "float16", {"SPAN": "2", "SPANS": "8"}),  # short, and not so many blocks
        ((129, 10_705), "float16", {"SPAN": "4", "SPANS": "5"}),
        ((128, 21_088), "float32", {"SPAN": "2", "SPANS": "16"}),
        ((128, 42_240), "float32", {"SPAN": "4", "SPANS": "8"}),  # five for each multiprocessor
        ((16_384, 64), "float32", {"SPAN": "4", "VECTOR": "4", "ACROSS": "4"}),  # 32
        ((40_000, 64), "float32", {"SPAN": "2", "VECTOR": "4", "ACROSS": "8"}),  # more, even in strips of 32 bytes
    ],
)
def test_threads_have_as_much_of_columns_as_fits_them(shape, dtype, expected):
    found = constants(make_plan(Normalization((0,)), {"input": layout(shape, dtype), "output": layout(shape, dtype)}))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("columns", [65_536, 65_537, 65_540, 65_544])
def test_sums_of_whole_columns_fit_static_shared_memory(columns, dtype):
    for length in range(2, 1100, 7):
        x, output = layout((length, columns), dtype), layout((length, columns), "float16" if dtype == "int8" else dtype)
        plan = make_plan(Normalization((0,)), {"input": x, "output": output})
        if plan.source != "normalization_columns.cu":
            continue
        across, spans, vector = (int(constants(plan)[name]) for name in ("ACROSS", "SPANS", "VECTOR"))
        if kernels(plan) != ["normalize_columns"]:  # tiles are added up pairwise
            assert spans & (spans - 1) == 0
            continue
        together = max(1, LANES // across)  # spans of a warp
        assert plan.launches[0].block == across * spans <= 1024
        assert across * spans % LANES == spans % together == 0
        assert spans // together * across * vector * 16 <= 40_000


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((200, 149_952), "float16", ("4", "1", "28", "4")),  # vector, span, spans, resident
        ((600, 49_984), "float16", ("4", "2", "40", "2")),
        ((200, 149_989), "float16", ("1", "4", "7", "1")),
        ((300, 100_005), "float16", ("1", "4", "10", "2")),
        ((600, 24_997), "float32", ("1", "8", "20", "1")),
        ((300, 49_984), "float32", ("2", "4", "20", "2")),
        ((256, 65_536), "float16", ("8", "1", "32", "3")),  # which fill all spans
    ],
)
def test_a_scale_for_each_row_takes_registers(shape, dtype, expected):
    scale = layout((shape[0], 1), dtype)
    arrays = {"input": layout(shape, dtype), "scale": scale, "output": layout(shape, dtype)}
    found = constants(make_plan(Normalization((0,)), arrays))
    assert tuple(found[name] for name in ("VECTOR", "SPAN", "SPANS", "RESIDENT")) == expected


@pytest.mark.parametrize(
    ("shape", "scale", "order", "dtype", "expected"),
    [
        ((2, 2, 60, 2816), (1, 2, 60, 1), (0, 2, 3, 1), "float16", ("2", "1")),  # vector, span
        ((2, 2, 60, 2816), (1, 2, 60, 1), (0, 2, 3, 1), "float32", ("2", "2")),
        ((2, 2, 60, 2816), (1, 2, 1, 1), (0, 2, 3, 1), "float16", ("2", "4")),  # of groups
        ((2, 100, 100, 1000), (1, 1, 100, 1), (0, 2, 3, 1), "float16", ("4", "1")),  # of all columns
    ],
)
def test_applied_tiles_are_short_where_steps_have_scales(shape, scale, order, dtype, expected):
    array = in_order(shape, order, dtype)
    plan = make_plan(Normalization((2, 3)), {"input": array, "output": array, "scale": layout(scale, dtype)})
    assert [part.launches[0].kernel for part in plan.parts] == ["sum_columns", "apply_columns"]
    found = dict(plan.parts[1].constants)
    assert (found["VECTOR"], found["SPAN"]) == expected


@pytest.mark.parametrize(
    ("shape", "dtype", "launches"),
    [((2048, 8), "float64", 1), ((4096, 8), "int32", 2), ((8000, 2), "int32", 2), ((8193, 16), "float16", 2)],
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
        ((105_000, 64), "float16", 132),  # one strip
    ],
)
def test_few_strips_are_dealt_to_all_blocks(shape, dtype, blocks):
    arrays = {"input": layout(shape, dtype), "output": layout(shape, dtype)}
    plan = make_plan(Normalization((0,)), arrays, H100)
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
    arrays = {"input": layout(shape, dtype), "output": layout(shape, dtype)}
    plan = make_plan(Normalization((0,)), arrays, H100)
    assert kernels(plan) == ["normalize_strips"]
    found, size = constants(plan), np.dtype(dtype).itemsize
    assert int(found["COLUMNS"]) * size == strip_bytes
    assert int(found["PIECE"]) * int(found["STEPS"]) * strip_bytes == piece_bytes


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "folded"),
    [
        (32_768, 2048, "float32", (2, 8)),  # 128 pieces
        (33_792, 2048, "float32", (1, 8)),  # 132, of which a lane would have 16
        (16_896, 4096, "float16", (2, 8)),  # 66, of more columns
        (200_704, 256, "float16", (1, 16)),  # 392
    ],
)
def test_lanes_fold_few_pieces_of_a_column(rows, columns, dtype, folded):
    array = layout((rows, columns), dtype)
    found = constants(make_plan(Normalization((0,)), {"input": array, "output": array}))
    assert (int(found["FOLDED_COLUMNS"]), int(found["FOLDED_PIECES"])) == folded


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "kernel"),
    [
        (134_217, 1024, "float16", "normalize_strips"),
        (134_217, 1000, "float16", "sum_columns"),  # narrow strips that share lines of the cache
        (134_217, 1024, "float32", "normalize_strips"),
        (134_217, 1000, "float32", "sum_columns"),
        (33_554, 1000, "float32", "normalize_strips"),  # wide ones
        (53_687, 2496, "float32", "normalize_strips"),  # a piece of which is a ring
        (53_687, 2500, "float32", "sum_columns"),  # in rows that begin amid sectors
        (26_843, 2500, "float32", "normalize_strips"),
    ],
)
def test_rows_of_strips_begin_with_what_memory_moves(rows, columns, dtype, kernel):
    array = layout((rows, columns), dtype)
    assert kernels(make_plan(Normalization((0,)), {"input": array, "output": array}))[0] == kernel


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
        ((26_000, 128), "float32", 50 << 20, 2),
        ((20_000, 128), "float32", 20 << 20, 1),
        ((40_000, 128), "float32", 50 << 20, 1),
        ((20_000, 128), "float16", 50 << 20, 2),
        ((22_000, 128), "float16", 20 << 20, 1),
        ((52_000, 128), "float16", 50 << 20, 1),  # of as many bytes as the first
        ((50_500, 128), "float16", 50 << 20, 2),
        ((100_000, 96), "float16", 50 << 20, 2),  # a quarter of the strips is idle
        ((110_000, 96), "float16", 50 << 20, 1),
        ((34_000, 200), "float16", 50 << 20, 2),  # more than a fifth is
        ((33_000, 208), "float16", 50 << 20, 1),
        ((20_000, 129), "float32", 50 << 20, 2),
        ((20_000, 129), "float32", 0, 1),
    ],
)
def test_columns_that_stay_in_the_cache_take_two_steps(shape, dtype, cache_bytes, launches):
    arrays = {"input": layout(shape, dtype), "output": layout(shape, dtype)}
    plan = make_plan(Normalization((0,)), arrays, H200._replace(cache_bytes=cache_bytes))
    assert len(kernels(plan)) == launches


@pytest.mark.parametrize(
    ("shape", "dtype", "threads", "vector", "across", "rounds"),
    [
        ((64 * 112 * 112, 64), "float16", 256, 2, 32, 4),  # words of halves
        ((2_000_000, 64), "float16", 256, 2, 32, 4),
        ((64 * 112 * 112, 64), "float32", 128, 4, 8, 8),
        ((64 * 112 * 112, 48), "float16", 128, 8, 4, 4),  # narrow rows, which warps move; all blocks run at once
        ((64 * 112 * 112, 24), "float16", 128, 2, 16, 4),  # narrower ones, by words
        ((16_000_000, 8), "float16", 128, 2, 4, 8),
        ((16_000_000, 12), "float16", 128, 4, 4, 8),  # which vectors do not move
        ((98_304, 64), "float32", 128, 4, 8, 4),
        ((49_152, 64), "float32", 128, 4, 8, 2),
        ((200_000, 331), "float16", 256, 1, 64, 4),  # columns that vectors do not move
        ((64 * 75 * 75, 144), "float16", 256, 2, 16, 4),  # narrow strips
        ((1_000_000, 256), "float32", 128, 4, 16, 32),  # wide ones, as blocks load so often
        ((1_000_000, 256), "float64", 128, 2, 16, 32),
        ((1_000_000, 257), "float32", 128, 1, 32, 32),
    ],
)
def test_columns_are_added_up_in_tiles_of_their_own(shape, dtype, threads, vector, across, rounds):
    plan = make_plan(Normalization((0,)), {"input": layout(shape, dtype), "output": layout(shape, dtype)})
    added, applied = plan.parts
    found = constants(added)
    assert [found[name] for name in ("VECTOR", "ACROSS", "ROUNDS")] == [str(n) for n in (vector, across, rounds)]
    assert (added.launches[0].block, applied.launches[0].block) == (threads, 128)
    assert constants(applied)["ROUNDS"] == "1"
    assert applied.scratch_bytes == applied.workspace_bytes == 0


@pytest.mark.parametrize(
    ("shape", "dtype", "threads", "columns", "rounds"),
    [
        ((65_536, 8192), "float16", 256, 64, 32),
        ((40_000, 1024), "float16", 256, 64, 2),
        ((50_176, 512), "float16", 256, 64, 8),  # few, all at once
        ((40_000, 334), "float16", 256, 64, 4),  # but not so unevenly as that would be
        ((1200, 300), "float16", 128, 32, 1),  # in half spans
        ((100_000, 333), "float16", 128, 32, 8),  # single ones
        ((766_989, 207), "float16", 128, 32, 16),
        ((2000, 40_001), "float16", 128, 32, 16),  # whole columns
        ((2100, 90_111), "float16", 128, 32, 16),  # not whole ones of which half the warps would have nothing
        ((4096, 131_072), "float16", 256, 64, 16),  # whole columns, which nobody shares
        ((802_816, 128), "uint8", 128, 32, 8),
        ((300_000, 202), "uint8", 128, 32, 8),
        ((4096, 180_224), "uint8", 128, 32, 16),  # whole columns
    ],
)
def test_moments_of_small_elements_are_added_up_by_words(shape, dtype, threads, columns, rounds):
    moments = {name: layout((1, shape[1]), "float64") for name in ("mean", "variance")}
    plan = make_plan(Moments((0,)), {"input": layout(shape, dtype), **moments})
    found = constants(plan)
    assert int(found["VECTOR"]) * np.dtype(dtype).itemsize <= 4
    assert (plan.launches[0].block, int(found["VECTOR"]) * int(found["ACROSS"])) == (threads, columns)
    assert int(found["ROUNDS"]) == rounds


@pytest.mark.parametrize(
    ("shape", "vector", "threads"),
    [
        ((1_101_789, 88), 8, 128),  # many, in vectors but no whole strips
        ((1_101_789, 64), 2, 256),
        ((1_101_789, 90), 2, 256),  # no whole vectors
        ((10_674, 376), 2, 256),  # few
    ],
)
def test_many_halves_in_cut_strips_are_added_up_in_vectors(shape, vector, threads):
    moments = {name: layout((1, shape[1]), "float16") for name in ("mean", "variance")}
    plan = make_plan(Moments((0,)), {"input": layout(shape, "float16"), **moments})
    assert (int(constants(plan)["VECTOR"]), plan.launches[0].block) == (vector, threads)


@pytest.mark.parametrize(
    ("shape", "axes", "launched", "block"),
    [
        ((1000, 100_000), (0,), 1563, 128),  # a block for each strip
        ((513, 20_000), (0,), 625, 288),  # which would load for twice the steps
        ((800, 37_440), (0,), 1170, 416),
        ((900, 33_280), (0,), 520, 128),
        ((400, 74_981), (0,), 2344, 224),  # one by one
        ((64, 256, 56, 56), (0, 2), 224, 256),
        ((26, 280, 403, 66), (0, 2), 3179, 128),  # runs that are no whole vectors
    ],
)
def test_moments_of_whole_columns_of_halves(shape, axes, launched, block):
    kept = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    moments = {name: layout(kept, "float16") for name in ("mean", "variance")}
    launch = make_plan(Moments(axes), {"input": layout(shape, "float16"), **moments}).launches[0]
    assert (launch.grid, launch.block) == (launched, block)


def test_halves_whose_rows_take_much_more_as_doubles_are_no_narrow_rows():
    source, output = layout((6497, 8), "float16"), layout((6497, 8), "float64")
    arrays = {"input": source, "output": output}
    applied = make_plan(Normalization((0,)), arrays, H200._replace(compute_capability=(8, 0))).then
    assert applied is not None
    assert (constants(applied)["INPUT_ROW"], constants(applied)["OUTPUT_ROW"]) == ("16", "0")


@pytest.mark.parametrize(
    ("shape", "axes", "wide", "expected"),  # columns of a thread, its chunks, threads of a multiprocessor
    [
        ((65_536, 512), (0,), "float16", ("4", "1", 512)),
        ((65_536, 512), (0,), "float64", ("2", "1", 384)),
        ((65_536, 3), (0,), "float32", ("1", "4", 512)),
        ((65_536, 3), (0,), "float64", ("1", "2", 512)),
        ((300, 5, 700, 11), (0, 2), "float32", ("1", "2", 512)),
    ],
)
def test_threads_hold_as_many_normalized_bytes_as_they_have_registers_for(shape, axes, wide, expected):
    plan = make_plan(Normalization(axes), {"input": layout(shape, "uint8"), "output": layout(shape, wide)})
    applied = plan.then
    assert applied is not None
    found, [launch] = constants(applied), applied.launches
    assert (found["VECTOR"], found["SPAN"], int(found["RESIDENT"]) * launch.block) == expected


def part_of(shape, dtype, pitch, alignment=16):
    """The first channels of arrays that have so many."""
    return layout((*shape[:-1], pitch), dtype, alignment=alignment)._replace(shape=shape)


def rows_of(plan):
    """Of each launch the name, the columns of a row that is a strip, and the bytes from row to row in both arrays."""
    names = ("ROW_COLUMNS", "INPUT_ROW", "OUTPUT_ROW")
    return [
        (launch.kernel.removesuffix("_columns"), *(int(constants(part)[name]) for name in names))
        for part in plan.parts
        for launch in part.launches
    ]


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "pitch", "expected"),
    [
        ((100, 224, 224, 3), (1, 2), "float16", 3, [("sum", 3, 6, 6), ("apply", 3, 6, 6)]),
        ((128, 224, 224, 3), (1, 2), "float32", 3, [("sum", 3, 12, 12), ("apply", 3, 12, 12)]),
        ((128, 224, 224, 3), (0, 1, 2), "float32", 3, [("sum", 0, 12, 12), ("apply", 0, 12, 12)]),  # one row
        ((32, 499, 499, 3), (1, 2), "float16", 3, [("sum", 3, 0, 0), ("apply", 3, 0, 0)]),  # images begin anywhere
        ((32, 512, 512, 3), (1, 2), "float16", 4, [("sum", 3, 8, 6), ("apply", 3, 8, 6)]),
        ((32, 512, 512, 3), (0, 1, 2), "float16", 4, [("sum", 3, 8, 6), ("apply", 3, 8, 6)]),
        ((32, 512, 512, 2), (1, 2), "float32", 3, [("sum", 2, 12, 8), ("apply", 2, 12, 8)]),
        ((32, 512, 512, 3), (1, 2), "float32", 5, [("sum", 3, 20, 12), ("apply", 3, 20, 12)]),
        ((32, 512, 512, 2), (1, 2), "float32", 6, [("sum", 2, 0, 8), ("apply", 2, 0, 8)]),  # 16 bytes between rows
        ((32, 512, 512, 3), (1, 2), "float32", 8, [("sum", 0, 0, 0), ("apply", 0, 0, 0)]),  # sectors of their own
        ((32, 512, 512, 8), (1, 2), "float32", 8, [("sum", 0, 0, 0), ("apply", 0, 0, 0)]),
        ((32, 512, 512, 20), (1, 2), "float32", 20, [("sum", 20, 80, 80), ("apply", 20, 80, 80)]),
        ((32, 512, 512, 31), (1, 2), "float32", 31, [("sum", 31, 124, 124), ("apply", 31, 124, 124)]),
        ((32, 512, 512, 31), (1, 2), "float32", 32, [("sum", 0, 0, 0), ("apply", 0, 0, 0)]),
        ((32, 512, 512, 33), (1, 2), "float16", 33, [("sum", 0, 0, 0), ("apply", 0, 0, 0)]),  # more than a strip has
        ((32, 512, 512, 3), (2,), "float16", 4, [("normalize", 3, 8, 6)]),
        ((32, 512, 512, 3), (2,), "float32", 4, [("normalize", 3, 16, 12)]),
        ((32, 512, 512, 7), (2,), "float32", 9, [("normalize", 0, 0, 0)]),  # more than a sector
        ((32, 512, 56, 3), (2,), "float16", 4, [("normalize", 3, 8, 6)]),
        ((32, 512, 40, 3), (2,), "float16", 4, [("normalize", 0, 0, 0)]),  # of a warp not enough would exist
        ((200, 2000, 3), (1,), "float32", 4, [("normalize", 3, 16, 12)]),
        ((20, 2000, 3), (1,), "float32", 4, [("sum", 3, 16, 12), ("apply", 3, 16, 12)]),  # few blocks
        ((20, 500, 3), (1,), "float32", 4, [("normalize", 3, 16, 12)]),
    ],
)
def test_strips_of_narrow_rows(shape, axes, dtype, pitch, expected):
    arrays = {"input": part_of(shape, dtype, pitch), "output": layout(shape, dtype)}
    plan = make_plan(Normalization(axes), arrays, H100)
    assert rows_of(plan) == expected
    if expected[0][1] > 0:
        outer = math.prod(n for axis, n in enumerate(shape[:-1]) if axis not in axes)
        assert [launch.grid % outer for part in plan.parts for launch in part.launches] == [0] * len(expected)


@pytest.mark.parametrize(
    ("shape", "axes", "pitch", "expected"),
    [
        ((128, 224, 224, 3), (1, 2), 3, [("sum", 3, 6, 0)]),
        ((32, 512, 512, 3), (1, 2), 4, [("sum", 3, 8, 0)]),
        ((128, 224, 224, 3), (2,), 4, [("normalize", 3, 8, 0)]),
    ],
)
def test_moments_of_narrow_rows(shape, axes, pitch, expected):
    moment = layout(tuple(1 if axis in axes else n for axis, n in enumerate(shape)), "float16")
    arrays = {"input": part_of(shape, "float16", pitch), "mean": moment, "variance": moment}
    assert rows_of(make_plan(Moments(axes), arrays, H100)) == expected


@pytest.mark.parametrize(("alignment", "row"), [(16, 8), (2, 0)])
def test_rows_with_gaps_are_moved_from_whole_pieces_on(alignment, row):
    shape = (32, 512, 512, 3)
    arrays = {"input": part_of(shape, "float16", 4, alignment), "output": layout(shape, "float16")}
    assert rows_of(make_plan(Normalization((1, 2)), arrays, H100)) == [("sum", 3, row, 6), ("apply", 3, row, 6)]


@pytest.mark.parametrize(("dtype", "pitch", "vector"), [("float16", 4, "1"), ("float32", 4, "2"), ("float16", 2, "2")])
def test_halves_in_rows_with_gaps_are_added_up_one_by_one(dtype, pitch, vector):
    shape = (32, 512, 512, 2)
    arrays = {"input": part_of(shape, dtype, pitch), "output": layout(shape, dtype)}
    plan = make_plan(Normalization((1, 2)), arrays, H100)
    assert [constants(part)["VECTOR"] for part in plan.parts] == [vector] * 2


def test_gaps_are_not_loaded_where_images_do_not_follow_each_other():
    """Behind the last row of memory there may be nothing, and it is taken to be that of the last image."""
    shape, source = (32, 512, 512, 3), part_of((32, 512, 512, 3), "float16", 4)
    backwards = source._replace(strides=(-source.strides[0], *source.strides[1:]))
    for of_rows, given in ((8, source), (0, backwards)):
        plan = make_plan(Normalization((1, 2)), {"input": given, "output": layout(shape, "float16")}, H100)
        assert rows_of(plan)[0] == ("sum", 3, of_rows, 6)


@pytest.mark.parametrize("pitch", [3, 4])
def test_nothing_is_stored_between_rows(pitch):
    shape, source = (32, 512, 512, 3), layout((32, 512, 512, 3), "float32")
    arrays = {"input": source, "output": part_of(shape, "float32", pitch)}
    row = 12 if pitch == 3 else 0
    assert rows_of(make_plan(Normalization((1, 2)), arrays, H100))[1] == ("apply", 3, 12, row)


@pytest.mark.parametrize(
    ("shape", "axes", "steps"),
    [
        ((65_536, 8192), (0,), 32),  # all of a span
        ((64, 256, 128, 128), (0, 2), 32),  # spans lie in one run each
        ((64, 256, 56, 56), (0, 2), 8),
        ((64, 257, 57, 57), (0, 2), 1),
        ((1200, 300), (0,), 1),  # loaded once
    ],
)
def test_steps_at_equal_distances(shape, axes, steps):
    moments = layout(tuple(1 if axis in axes else size for axis, size in enumerate(shape)), "float64")
    plan = make_plan(Moments(axes), {"input": layout(shape, "float16"), "mean": moments, "variance": moments})
    assert constants(plan)["EVEN_STEPS"] == str(steps)


@pytest.mark.parametrize(("shape", "threads"), [((202, 18_647), 224), ((128, 146_937), 256), ((384, 80_805), 384)])
def test_single_halves_are_normalized_in_strips_of_some_threads(shape, threads):
    array = layout(shape, "float16")
    plan = make_plan(Normalization((0,)), {"input": array, "output": array}, H200)
    assert [(launch.kernel, launch.block) for launch in plan.launches] == [("normalize_columns", threads)]


@pytest.mark.parametrize(("columns", "rounds"), [(19_616, "8"), (30_000, "16")])
def test_columns_of_halves_that_are_read_are_whole_only_if_strips_are_enough(columns, rounds):
    moments = layout((1, columns), "float32")
    arrays = {"input": layout((1630, columns), "float16"), "mean": moments, "variance": moments}
    plan = make_plan(Moments((0,)), arrays, H200)
    assert (kernels(plan), constants(plan)["ROUNDS"]) == (["sum_columns"], rounds)


@pytest.mark.parametrize(("steps", "resident"), [(65536, "3"), (65535, "4")])
def test_whole_tiles_of_bytes_have_more_registers(steps: int, resident: str):
    arrays = {"input": layout((steps, 4096), "int8"), "output": layout((steps, 4096), "float64")}
    applied = make_plan(Normalization((0,)), arrays).parts[-1]
    assert kernels(applied) == ["apply_columns"]
    assert applied.launches[0].block == 128
    assert constants(applied)["RESIDENT"] == resident


@pytest.mark.parametrize(("steps", "in_strips"), [(79, False), (80, True)])
def test_few_steps_are_not_turned_in_strips(steps: int, in_strips: bool):
    shape = (6600, 32, steps)
    arrays = {"input": in_order(shape, (0, 2, 1)), "output": layout(shape, "float32")}
    assert (kernels(make_plan(Normalization((2,)), arrays, H200)) == ["normalize_strips"]) == in_strips
