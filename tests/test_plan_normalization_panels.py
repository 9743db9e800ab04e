"""Plans of normalization, without a GPU: groups that have a run in each panel, or lie side by side in narrow ones."""

from __future__ import annotations

import pytest
from plans import constants, kernels, layout

from cudml.plan import make_plan
from cudml.plan.device import H200
from cudml.plan.spec import Moments, Normalization


@pytest.mark.parametrize(
    ("shape", "dtype", "kernels_of_both", "kernels_of_moments"),
    [
        ((2_000_000, 3, 7), "float32", "panel_tiles", "panel_tiles"),
        ((2_000_000, 5, 6), "float16", "panel_tiles", "panel_tiles"),
        ((2_000_000, 3, 7), "float64", "panel_tiles", "panel_tiles"),
        ((30_000, 3, 7), "float32", "panel_tiles", "tiled_lines"),
        ((20_000, 3, 7), "float32", "stream", "tiled_lines"),  # few: a launch takes as long
        ((5000, 21, 11), "float32", "lines", "tiled_lines"),  # the sums of many groups take longer
        ((10_000, 21, 11), "float32", "panel_tiles", "tiled_lines"),
        ((50_000, 70, 3), "float32", "panel_tiles", "tiled_lines"),
        ((5000, 7, 31), "float32", "stream", "tiled_lines"),  # longer runs
        ((29_000, 3, 147), "float32", "stream", "tiled_lines"),
        ((30_000, 3, 147), "float32", "tiled_lines", "tiled_lines"),  # of which no ring that leaves cache holds a piece
        ((50_000, 3, 147), "float32", "panel_tiles", "tiled_lines"),
        ((50_000, 3, 353), "float32", "tiled_lines", "tiled_lines"),  # more than 4096 bytes
        ((500_000, 3, 8), "float32", "panel_tiles", "panel_tiles"),  # two vectors, and no pairs of groups
        ((500_000, 4, 8), "float32", "bundle_tiles", "bundle_tiles"),
        ((500_000, 33, 4), "float32", "panel_tiles", "bundle_tiles"),
        ((500_000, 3, 12), "float32", "bundle_tiles", "bundle_tiles"),
        ((500_000, 12, 3), "float32", "panel_tiles", "panel_tiles"),  # less than a vector
        ((20_000, 12, 3), "float32", "lines", "tiled_lines"),  # few
        ((200_000, 100, 3), "float32", "panel_tiles", "bundle_tiles"),
        ((500_000, 4, 7), "float32", "bundle_tiles", "bundle_tiles"),
        ((500_000, 4, 8), "float64", "bundle_tiles", "tiled_lines"),
        ((500_000, 4, 7), "float16", "panel_tiles", "tiled_lines"),
        ((500_000, 257, 3), "float16", "stream", "tiled_lines"),  # more than a block has threads
        ((2_000_000, 33, 1), "float16", "panel_tiles", "panel_tiles"),
        ((500_000, 33, 1), "float16", "columns", "columns"),
        ((2_000_000, 34, 1), "float16", "columns", "columns"),
        ((2_000_000, 49, 1), "float16", "columns", "columns"),
        ((2_000_000, 33, 1), "float32", "columns", "columns"),
        ((2_000_000, 3, 7), "int16", "tiled_lines", "tiled_lines"),
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
        ((20_000, 65, 3), (1,), "float32", "normalize_long_panels"),  # several threads for each column are faster
        ((10_000, 5, 40, 5), (1, 2), "float16", "normalize_long_panels"),
        ((500, 2000, 5), (1,), "float32", "normalize_long_panels"),
        ((500, 3000, 5), (1,), "float32", "sum_columns"),  # more than a block holds
        ((140, 200, 5), (1,), "float32", "normalize_long_panels"),
        ((30, 2100, 5), (1,), "float32", "normalize_long_panels"),
        ((20, 2100, 5), (1,), "float32", "sum_columns"),  # few large ones
        ((100, 200, 5), (1,), "float32", "normalize_columns"),
        ((3000, 100, 9), (1,), "float32", "normalize_long_panels"),
        ((2000, 100, 9), (1,), "float32", "normalize_columns"),
        ((9000, 100, 9), (1,), "float16", "normalize_columns"),
        ((20_000, 100, 17), (1,), "float16", "normalize_long_panels"),
        ((10_000, 250, 40), (1,), "float32", "normalize_columns"),  # whole vectors
        ((8000, 250, 4), (1,), "float32", "normalize_long_panels"),  # of one
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
    array, of_steps = layout(shape, "float32"), layout((1, shape[1], 1), "float32")
    plan = make_plan(Normalization((1,)), {"input": array, "output": array, "scale": of_steps})
    found, launch = constants(plan), plan.launches[0]
    assert (found["PANELS"], found["SPANS"]) == (str(panels), str(spans))
    assert (launch.block, launch.grid) == (threads, -(-shape[0] // panels))


@pytest.mark.parametrize("length", [65, 200, 1000, 4000])
@pytest.mark.parametrize("inner", [2, 3, 7, 33])
@pytest.mark.parametrize(("source", "out"), [("float16", "float16"), ("float32", "float16"), ("float64", "float64")])
def test_long_panels_fit_a_block_of_any_gpu(length, inner, source, out):
    device = H200._replace(shared_bytes_per_block=64 << 10)
    arrays = {"input": layout((1_000_000, length, inner), source), "output": layout((1_000_000, length, inner), out)}
    arrays["scale"] = layout((1, length, 1), source)
    plan = make_plan(Normalization((1,)), arrays, device)
    if kernels(plan) == ["normalize_long_panels"]:
        groups = int(constants(plan)["PANELS"]) * inner
        static = groups * (int(constants(plan)["SPANS"]) * 16 + 24)
        assert static <= 48 << 10
        assert plan.launches[0].shared_bytes + static <= 64 << 10
    else:
        assert length * inner * 4 > 16 << 10


def test_moments_of_long_panels_are_those_of_columns():
    moment = layout((8000, 1, 5), "float32")
    arrays = {"input": layout((8000, 200, 5), "float32"), "mean": moment, "variance": moment}
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
    ("shape", "dtype", "panels"),
    [
        ((5430, 6, 106), "float16", "4"),
        ((10_824, 98, 2), "float16", "16"),
        ((137_021, 3, 4), "float32", "128"),
        ((11_467, 7, 6), "float32", "16"),  # with half as many threads would be idle
        ((20_000, 7, 6), "float64", "32"),
    ],
)
def test_blocks_that_normalize_have_few_panels_each(shape, dtype, panels):
    array = layout(shape, dtype)
    assert constants(make_plan(Normalization((1,)), {"input": array, "output": array}, H200))["PANELS"] == panels
