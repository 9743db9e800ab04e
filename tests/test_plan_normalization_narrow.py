"""Plans of columns of few elements, which are shared out in narrow strips."""

from __future__ import annotations

import pytest
from plans import constants, kernels, layout

from cudml.plan import make_plan
from cudml.plan.device import H200
from cudml.plan.plan import Plan
from cudml.plan.spec import Moments, Normalization


def _plan(shape, dtype="float32", axes=(0,), **arrays) -> Plan:
    source = layout(shape, dtype)
    return make_plan(Normalization(axes), {"input": source, "output": source, **arrays})


def _shares(plan: Plan) -> tuple[int, ...]:
    """Columns of a thread, threads across a strip, spans, chunks of a span, and blocks of a cluster."""
    found = constants(plan)
    return tuple(int(found.get(name, "1")) for name in ("VECTOR", "ACROSS", "SPANS", "SPAN", "CLUSTER"))


@pytest.mark.parametrize(
    ("shape", "dtype", "shares"),
    [
        ((256, 54), "float32", (1, 8, 64, 1, 1)),
        ((512, 54), "float32", (1, 8, 64, 2, 1)),
        ((256, 54), "float16", (1, 16, 32, 1, 1)),
        ((8, 512), "float16", (1, 32, 1, 1, 1)),  # a warp at least
        ((8, 512), "float32", (1, 32, 2, 1, 1)),
        ((100, 17), "float32", (1, 8, 28, 1, 1)),  # no more threads than columns ask for
        ((512, 2048), "float32", (1, 16, 32, 4, 1)),  # else more blocks than multiprocessors
        ((1024, 2048), "float16", (1, 16, 32, 4, 1)),
        ((256, 4096), "float32", (1, 32, 16, 4, 1)),
        # clusters share longer ones
        ((513, 64), "float32", (1, 8, 16, 2, 5)),
        ((1024, 64), "float32", (1, 8, 16, 2, 8)),
        ((2048, 64), "float32", (1, 8, 32, 2, 8)),
        ((4096, 64), "float32", (1, 8, 32, 4, 8)),
        ((8192, 64), "float32", (2, 4, 64, 4, 8)),  # pairs, as of a strip as wide no cluster holds a column
        ((1024, 64), "float16", (2, 8, 16, 1, 8)),
        ((4096, 64), "float16", (2, 8, 32, 2, 8)),
        ((8192, 64), "float16", (4, 4, 64, 2, 8)),
        ((1024, 64), "float64", (1, 8, 32, 2, 8)),
        ((2048, 5), "float16", (1, 8, 16, 2, 8)),
        ((4096, 2), "float16", (2, 1, 64, 1, 8)),
        ((2048, 3), "float32", (1, 4, 32, 2, 8)),
    ],
)
def test_few_columns_are_cut_into_narrow_strips(shape, dtype, shares):
    plan = _plan(shape, dtype)
    assert plan.launches[0].kernel == ("normalize_clusters" if shares[-1] > 1 else "normalize_columns")
    assert _shares(plan) == shares


@pytest.mark.parametrize(
    ("shape", "dtype", "vector", "across"),
    [
        ((256, 8192), "float32", 2, 16),  # enough blocks of wide ones
        ((1024, 4096), "float32", 2, 8),  # more chunks than a thread should have
        ((7, 512), "float32", 1, 64),
        ((256, 54), "int16", 2, 16),
    ],
)
def test_other_columns_are_not(shape, dtype, vector, across):
    assert _shares(_plan(shape, dtype))[:2] == (vector, across)


@pytest.mark.parametrize("length", [256, 1024])
@pytest.mark.parametrize("columns", [1, 64])
def test_so_are_columns_with_a_scale_for_each_row(length, columns):
    plan, scaled = (_plan((length, 64), **scale) for scale in ({}, {"scale": layout((length, columns))}))
    assert (kernels(scaled), _shares(scaled)) == (kernels(plan), _shares(plan))


@pytest.mark.parametrize(("shape", "shares"), [((256, 54), (1, 8, 64, 1, 1)), ((1024, 54), (1, 8, 64, 4, 1))])
def test_so_are_moments_but_by_clusters(shape, shares):
    moments = {name: layout((1, shape[1])) for name in ("mean", "variance")}
    assert _shares(make_plan(Moments((0,)), {"input": layout(shape), **moments})) == shares


@pytest.mark.parametrize(
    ("shape", "axes", "kernel"),
    [
        ((512, 64), (0,), "normalize_columns"),
        ((8193, 64), (0,), "sum_columns"),
        ((1024, 1000), (0,), "normalize_columns"),  # clusters would be too many
        ((6272, 256), (0,), "sum_columns"),  # too much for them
        ((4, 1000, 64), (1,), "normalize_clusters"),
        ((4, 1000, 9), (1,), "normalize_columns"),  # a strip would be of two rows
    ],
)
def test_clusters_share_no_others(shape, axes, kernel):
    assert _plan(shape, axes=axes).launches[0].kernel == kernel


def test_gpus_without_clusters_have_none():
    source = layout((1024, 64))
    plan = make_plan(Normalization((0,)), {"input": source, "output": source}, H200._replace(cluster_launch=False))
    assert plan.launches[0].kernel == "normalize_columns"


def test_rows_with_gaps_stay_strips_of_their_own():
    """Of as few tiles as are cut otherwise."""
    rows = layout((9317, 22), "float16", strides=(26, 1))
    plan = make_plan(Normalization((0,)), {"input": rows, "output": layout((9317, 22), "float16")})
    assert {dict(part.constants)["ROW_COLUMNS"] for part in plan.parts} == {"22"}


@pytest.mark.parametrize(
    ("shape", "dtype", "are_lines"),
    [
        ((768, 16), "float32", True),
        ((768, 17), "float32", False),
        ((769, 16), "float32", False),  # seven rows
        ((2560, 8), "float32", False),
        ((2561, 8), "float32", True),  # 21, which a cluster shares
        ((2561, 9), "float32", False),
        ((8064, 8), "float32", True),
        ((8065, 8), "float32", False),
        ((2561, 8), "int32", False),
    ],
)
def test_a_few_narrow_columns_are_lines(shape, dtype, are_lines):
    source, moments = layout(shape, dtype), layout((1, shape[1]), "float64")
    of_moments = make_plan(Moments((0,)), {"input": source, "mean": moments, "variance": moments})
    for plan in (_plan(shape, dtype), of_moments):
        assert (kernels(plan)[0] in ("normalize_lines", "normalize_clustered_lines")) == are_lines


def test_longer_narrow_columns_are_lines_only_where_clusters_share_them():
    array, old = layout((2561, 8)), H200._replace(cluster_launch=False)
    plan = make_plan(Normalization((0,)), {"input": array, "output": array}, old)
    assert kernels(plan) == ["sum_columns", "apply_columns"]
