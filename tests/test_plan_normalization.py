"""Plans of normalization, without a GPU: which kernels are launched for which groups."""

from __future__ import annotations

import pytest
from plans import F32, H100, constants, kernels, layout

from cudml.plan import make_plan
from cudml.plan.device import H200
from cudml.plan.layout import ArrayLayout
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.turned import Turned, moments_of
from cudml.plan.spec import Moments, Normalization


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((100, 64), (1,), ["normalize_short_lines"]),
        ((100, 16384), (1,), ["normalize_lines"]),
        ((10, 16384), (1,), ["normalize_clustered_lines"]),
        ((100, 20_000), (1,), ["normalize_clustered_lines"]),
        ((1000, 20_000), (1,), ["normalize_stream"]),
        ((1, 2**28), (1,), ["sum_tiled_lines", "apply_tiled_lines"]),
        ((512, 100), (0,), ["normalize_columns"]),
        ((4096, 100), (0,), ["normalize_clusters"]),
        ((4096, 65536), (0,), ["normalize_strips"]),
        ((40_000, 128), (0,), ["normalize_strips"]),
        ((8200, 64), (0,), ["sum_columns", "apply_columns"]),  # stays in the cache
        ((4096, 20), (0,), ["normalize_clusters"]),
        ((9000, 9), (0,), ["sum_columns", "apply_columns"]),
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
        ((1, 512, 512, 2, 64), (1, 2, 4), ["sum_tiled_lines", "apply_tiled_lines"]),
        ((59_054, 2, 10, 2), (0, 2, 3), ["sum_bundle_tiles", "apply_bundle_tiles"]),
        ((59_054, 2, 19, 7), (0, 2, 3), ["sum_tiled_lines", "apply_tiled_lines"]),
        ((64, 7, 7, 2048), (0, 1, 2), ["normalize_bundles"]),
        ((64, 7, 7, 4096), (0, 1, 2), ["normalize_strips"]),
        ((8, 20, 20, 40), (0, 1, 2), ["normalize_clusters"]),
        ((64, 256, 128, 128), (0, 2, 3), ["normalize_stream"]),
        ((64, 256, 128, 128), (0, 2), ["normalize_strips"]),
        ((50, 30), (), ["normalize_columns"]),
        ((5, 3), (), ["normalize_short_lines"]),  # so few that they are no columns
        ((0, 7), (1,), []),
        ((7, 0), (1,), []),
    ],
)
def test_kernels_of_a_normalization(shape, axes, expected):
    assert kernels(make_plan(Normalization(axes), {"input": layout(shape), "output": layout(shape)}, H100)) == expected


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((65536, 4096), (1,), ["normalize_strips"]),
        ((65538, 4096), (1,), ["normalize_held"]),
        ((2**20, 256), (1,), ["normalize_held"]),
        ((65536, 4096), (0,), ["normalize_strips"]),
        ((65535, 4096), (0,), ["sum_tiled_lines", "apply_turned"]),
        ((4096, 512), (0,), ["normalize_lines", "apply_turned"]),
        ((4096, 8), (0,), ["normalize_clustered_lines"]),
        ((100, 100), (0,), ["normalize_short_lines"]),
    ],
)
def test_kernels_of_a_normalization_of_transposed_input(shape, axes, expected):
    source = ArrayLayout(shape, (4, 4 * shape[0]), F32, 16)
    plan = make_plan(Normalization(axes), {"input": source, "output": layout(shape)})
    assert kernels(plan) == expected


def test_the_moments_of_nothing_are_still_written():
    moments = {"mean": layout((7, 1)), "variance": layout((7, 1))}
    assert kernels(make_plan(Moments((1,)), {"input": layout((7, 0)), **moments})) == ["normalize_short_lines"]
    assert (
        kernels(make_plan(Moments((1,)), {"input": layout((0, 7)), "mean": layout((0, 1)), "variance": layout((0, 1))}))
        == []
    )


@pytest.mark.parametrize(
    ("dtype", "down", "across", "expected"),
    [
        ("float32", 70_000, 20, (64, 32, 128)),
        ("float32", 20, 70_000, (32, 64, 128)),
        ("float32", 70_000, 33, (64, 64, 256)),  # no half to spare
        ("float32", 16, 70_000, (16, 64, 64)),
        ("float64", 70_000, 16, (64, 16, 128)),
        ("float16", 5000, 40, (128, 64, 128)),
        ("int8", 5000, 40, (128, 128, 256)),  # rows of 128 bytes
    ],
)
def test_tiles_of_short_axes_are_smaller(dtype, down, across, expected):
    source = layout((down, across), dtype, strides=(1, down))
    groups = Groups.of((0,), {"input": source, "output": layout((down, across))})
    turned = Turned.of(groups, moments_of(groups, Normalization((0,))))
    assert turned is not None
    assert turned.tile == expected


@pytest.mark.parametrize(
    ("dtype", "out_dtype", "computed_in"),
    [
        ("bool", "float32", "float"),
        ("uint8", "float16", "float"),
        ("int16", "float32", "float"),
        ("uint16", "float64", "double"),
        ("int32", "float32", "double"),
        ("float16", "float64", "float"),
        ("float64", "float32", "double"),
    ],
)
@pytest.mark.parametrize("shape", [(100, 64), (100, 20_000), (3, 300_000), (30_000, 64)])
@pytest.mark.parametrize("transposed", [False, True])
def test_small_integers_are_computed_in_float32(shape, transposed, dtype, out_dtype, computed_in):
    source = layout(shape, dtype, strides=(1, shape[0]) if transposed else None)
    plan = make_plan(Normalization((1,)), {"input": source, "output": layout(shape, out_dtype)})
    of_parts = {constants(part).get("COMPUTE", computed_in) for part in plan.parts}
    assert of_parts == {computed_in}


def test_moments_of_small_integers_are_computed_in_double():
    moments = {"mean": layout((100, 1), "float64"), "variance": layout((100, 1), "float64")}
    assert constants(make_plan(Moments((1,)), {"input": layout((100, 64), "uint8"), **moments}))["COMPUTE"] == "double"


@pytest.mark.parametrize(
    ("shape", "axes"), [((32, 1_815_725), (1,)), ((100, 3, 224, 224), (0, 2, 3)), ((4, 2**16), (1,))]
)
def test_large_groups_of_bytes_are_read_once(shape, axes):
    arrays = {"input": layout(shape, "uint8"), "output": layout(shape)}
    assert len(kernels(make_plan(Normalization(axes), arrays))) == 1


@pytest.mark.parametrize(
    ("shape", "dtype", "strides", "axes", "launches"),
    [
        ((22, 85, 4, 17), "float32", (1, 22, 1870 * 17, 1870), (2, 3), 1),  # few, which one launch normalizes
        ((24, 1325, 11, 29), "float32", (1, 24, 31_800 * 29, 31_800), (2, 3), 2),
        ((13, 18, 19, 21), "float64", (18 * 19 * 21, 1, 18 * 21, 18), (0, 2, 3), 2),  # few, which take two all the same
    ],
)
def test_few_elements_are_turned_in_tiles_only_if_that_takes_no_more_launches(shape, dtype, strides, axes, launches):
    arrays = {"input": layout(shape, dtype, strides), "output": layout(shape, dtype)}
    found = kernels(make_plan(Normalization(axes), arrays, H200))
    assert (len(found), "apply_turned" in found) == (launches, launches > 1)
