"""Plans of normalization, without a GPU: groups that a block or cluster holds together."""

from __future__ import annotations

import pytest
from plans import constants, kernels, layout

from cudml.plan import make_plan
from cudml.plan.device import H200
from cudml.plan.spec import Moments, Normalization


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
    ("shape", "dtype", "first"),
    [
        ((256, 1024, 14, 14), "float16", 132),
        ((512, 2048, 7, 7), "float16", 66),  # each in two multiprocessors
        ((64, 8192, 7, 7), "float16", 4 * 132),
        ((64, 2048, 7, 7), "float16", 0),  # all at once
        ((8, 8704, 13, 5), "float16", 0),  # small ones
    ],
)
def test_bundles_begin_one_after_the_other_if_the_gpu_does_not_hold_all(shape, dtype, first):
    source = layout(shape, dtype)
    plan = make_plan(Normalization((0, 2, 3)), {"input": source, "output": source})
    assert constants(plan)["AT_FIRST"] == str(first)


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((192, 512, 13, 13), "float16", ["normalize_shared_bundles"]),
        ((256, 96, 31, 30), "float16", ["normalize_stream"]),  # fewer blocks than multiprocessors
        ((100, 2048, 13, 13), "float16", ["normalize_shared_bundles"]),
        ((64, 1000, 21, 21), "float16", ["normalize_stream"]),  # by 3 blocks, where a stream moves runs in pieces
        ((64, 1024, 19, 19), "float16", ["normalize_shared_bundles"]),  # by 2
        (
            (50, 256, 21, 21),
            "float16",
            ["sum_tiled_lines", "apply_tiled_lines"],
        ),  # by 2, of which few are busy; the cache holds it
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
