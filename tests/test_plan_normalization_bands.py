"""Plans of normalization, without a GPU: columns of narrow panels that are read once, in bands."""

from __future__ import annotations

import itertools
import math

import pytest
from plans import constants, kernels, layout

from cudml.plan import make_plan
from cudml.plan.device import H200, DeviceProperties
from cudml.plan.plan import Plan
from cudml.plan.spec import Moments, Normalization


def plan_of(shape: tuple[int, ...], axes: tuple[int, ...] = (1,), dtype: str = "float32", **operands) -> Plan:
    array = layout(shape, dtype)
    return make_plan(Normalization(axes), {"input": array, "output": array, **operands})


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "kernel"),
    [
        ((20_000, 1000, 3), (1,), "float32", "normalize_bands"),
        ((2000, 224, 224, 3), (1, 2), "float16", "normalize_shared_bands"),
        ((400_000, 32, 3), (1,), "float32", "normalize_bands"),
        ((400_000, 28, 3), (1,), "float32", "normalize_panels"),  # a thread for each column is faster
        ((400_000, 63, 3), (1,), "float32", "normalize_panels"),  # of parts of chunks, too
        ((400_000, 65, 3), (1,), "float32", "normalize_bands"),
        ((400_000, 65, 3), (1,), "float16", "normalize_bands"),
        ((400_000, 64, 3), (1,), "float16", "normalize_panels"),
        ((400_000, 16, 3), (1,), "float64", "normalize_bands"),
        ((10_000, 1000, 16), (1,), "float32", "normalize_bands"),
        ((10_000, 800, 16), (1,), "float32", "normalize_columns"),  # whose threads load whole vectors
        ((10_000, 800, 8), (1,), "float64", "normalize_columns"),
        ((10_000, 1000, 16), (1,), "float64", "normalize_columns"),
        ((10_000, 513, 17), (1,), "float32", "normalize_long_panels"),  # more than a thread holds
        ((3000, 365, 3), (1,), "float32", "normalize_long_panels"),  # few: all blocks load, then wait together
        ((30, 1000, 3), (1,), "float32", "normalize_bands"),  # but as columns these are slower
        ((30, 1100, 3), (1,), "float32", "sum_columns"),
        ((30, 1000, 8), (1,), "float32", "normalize_clusters"),
        ((300, 1000, 8), (1,), "float32", "normalize_columns"),
        ((1, 100_000, 3), (1,), "float32", "sum_columns"),  # one panel
        ((20_000, 1000, 3), (1,), "int16", "normalize_columns"),
    ],
)
def test_columns_of_narrow_panels_are_read_in_bands(shape, axes, dtype, kernel):
    array = layout(shape, dtype)
    output = layout(shape, "float64") if dtype == "int16" else array
    assert kernels(make_plan(Normalization(axes), {"input": array, "output": output}))[0] == kernel


@pytest.mark.parametrize(
    ("shape", "dtype", "panels", "blocks", "threads", "span", "adders", "units"),
    [
        ((100_000, 100, 4), "float32", 8, 1, 64, 2, 16, 1),
        ((200_000, 100, 2), "float32", 16, 1, 64, 2, 16, 1),  # less of two columns
        ((100_000, 100, 6), "float32", 8, 1, 128, 1, 32, 1),  # one band at a time
        ((20_000, 1000, 3), "float32", 2, 1, 128, 2, 32, 4),
        ((10_000, 2000, 6), "float16", 1, 1, 128, 1, 32, 8),
        ((10_000, 2000, 6), "float32", 1, 1, 256, 1, 32, 16),
        ((5000, 4096, 6), "float32", 1, 1, 256, 1, 32, 32),
        ((5000, 4096, 8), "float32", 1, 3, 256, 1, 32, 16),  # shared
        ((2000, 10_000, 3), "float32", 1, 3, 256, 2, 32, 16),
        ((500, 50_176, 3), "float32", 1, 8, 256, 2, 32, 32),
    ],
)
def test_shares_of_blocks_and_threads(shape, dtype, panels, blocks, threads, span, adders, units):
    plan = plan_of(shape, dtype=dtype)
    found, launch = constants(plan), plan.launches[0]
    assert (found["PANELS"], found["CLUSTER"], found["SPAN"]) == (str(panels), str(blocks), str(span))
    assert (found["ADDERS"], found["UNITS"]) == (str(adders), str(units))
    assert (launch.block, launch.cluster, launch.grid) == (threads, blocks, math.ceil(shape[0] / panels) * blocks)


@pytest.mark.parametrize(
    "device",
    [
        H200,
        H200._replace(
            compute_capability=(8, 0), shared_bytes_per_multiprocessor=167_936, shared_bytes_per_block=166_912
        ),
        H200._replace(
            compute_capability=(8, 6), shared_bytes_per_multiprocessor=102_400, shared_bytes_per_block=101_376
        ),
        H200._replace(shared_bytes_per_block=40_000),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_blocks_have_room_for_their_shares(device: DeviceProperties, dtype: str):
    size = {"float16": 2, "float32": 4, "float64": 8}[dtype]
    planned = 0
    for inner, length in itertools.product((2, 3, 8, 13, 16), (70, 99, 513, 1000, 2049, 4099, 8191, 20_000, 40_001)):
        array = layout(((1 << 28) // (length * inner * size), length, inner), dtype)
        plan = make_plan(Normalization((1,)), {"input": array, "output": array}, device)
        if plan.source != "normalization_bands.cu":
            continue
        found = {name: int(value) for name, value in plan.constants if value.isdigit()}
        steps = found["UNITS"] * found["ADDERS"] * found["SPAN"] * (16 // size)
        assert steps * found["CLUSTER"] >= length
        groups = found["PANELS"] * inner
        static = groups * (found["UNITS"] * 16 + 24 + size)
        assert static <= 48 << 10
        assert plan.launches[0].shared_bytes + static <= device.shared_bytes_per_block
        assert plan.launches[0].cluster == 1 or device.clusters
        planned += 1
    assert planned >= 5


def test_bands_are_dense_and_alike_and_have_a_scale_for_each_column():
    shape = (20_000, 1000, 3)
    array, gaps = layout(shape), layout((20_000, 1000, 4))._replace(shape=shape)
    for scale in ((1, 1, 3), (20_000, 1, 1), (1, 1, 1)):
        assert kernels(plan_of(shape, scale=layout(scale))) == ["normalize_bands"]
    for scale in ((1, 1000, 1), shape):
        assert kernels(plan_of(shape, scale=layout(scale))) == ["normalize_long_panels"]
    others = (gaps, layout(shape, "float16"), layout(shape, alignment=4))
    for source, output in ((array, other) for other in others):
        assert "bands" not in make_plan(Normalization((1,)), {"input": source, "output": output}).source


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ((100_000, 500, 3), "normalize_bands"),
        ((100_000, 500, 6), "normalize_columns"),  # of many columns it takes longer
        ((20_000, 20_000, 3), "sum_columns"),  # and by clusters
        ((30, 1000, 3), "normalize_columns"),
    ],
)
def test_moments_of_bands(shape, kernel):
    moment = layout((shape[0], 1, shape[2]))
    arrays = {"input": layout(shape, "float16"), "mean": moment, "variance": moment}
    assert kernels(make_plan(Moments((1,)), arrays))[0] == kernel


def test_halves_with_a_scale_have_fewer_threads():
    shape, scale = (2000, 50_176, 3), layout((1, 1, 3), "float16")
    assert plan_of(shape, dtype="float16").launches[0].block == 256
    assert plan_of(shape, dtype="float16", scale=scale).launches[0].block == 128
    assert plan_of(shape, dtype="float16", scale=scale._replace(shape=(1, 1, 1))).launches[0].block == 128
    assert plan_of((500, 50_176, 3), scale=layout((1, 1, 3))).launches[0].block == 256


def test_clusters_begin_in_turn():
    assert constants(plan_of((5000, 4096, 8)))["AT_FIRST"] == "176"
    assert constants(plan_of((400, 4096, 8)))["AT_FIRST"] == "176"
    assert constants(plan_of((5000, 4096, 6)))["AT_FIRST"] == "0"  # no clusters


def test_old_gpus_have_no_bands():
    array = layout((20_000, 1000, 3))
    for device in (H200._replace(compute_capability=(7, 5)), H200._replace(shared_bytes_per_block=10_000)):
        plan = make_plan(Normalization((1,)), {"input": array, "output": array}, device)
        assert "bands" not in plan.source
