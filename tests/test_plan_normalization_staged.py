"""Plans of normalization, without a GPU: groups that lie end to end and go through shared memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plans import constants, kernels, layout

from cudml.plan import make_plan
from cudml.plan.device import H200
from cudml.plan.layout import ArrayLayout
from cudml.plan.plan import Plan
from cudml.plan.spec import Moments, Normalization

STAGED = "normalize_staged_lines"


def plan_of(shape: tuple[int, ...], dtype: str = "float32", axes: tuple[int, ...] = (1,), **operands) -> Plan:
    array = layout(shape, dtype)
    return make_plan(Normalization(axes), {"input": array, "output": array, **operands})


def moments_of(shape: tuple[int, ...], dtype: str = "float32") -> Plan:
    moments = layout((shape[0], 1), dtype)
    return make_plan(Moments((1,)), {"input": layout(shape, dtype), "mean": moments, "variance": moments})


@pytest.mark.parametrize(
    ("length", "dtype", "is_staged"),
    [
        (8, "float16", False),
        (9, "float16", True),
        (16, "float16", False),
        (33, "bfloat16", True),
        (64, "float16", False),  # a row of whole chunks
        (80, "float16", True),  # a part of one
        (192, "float16", False),  # whose chunks lie in the same banks
        (288, "float16", True),
        (600, "float16", True),
        (720, "float16", False),
        (721, "float16", True),
        (1049, "float16", True),
        (1051, "float16", False),
        (5, "float32", False),
        (8, "float32", False),
        (9, "float32", True),
        (392, "float32", False),
        (393, "float32", True),
        (611, "float32", True),
        (613, "float32", False),
        (3, "float64", False),
        (5, "float64", True),
        (305, "float64", True),
        (307, "float64", False),
    ],
)
def test_groups_that_lie_end_to_end_are_staged(length, dtype, is_staged):
    shape = ((1 << 28) // (length * np.dtype("float16" if dtype == "bfloat16" else dtype).itemsize), length)
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    assert (kernels(plan_of(shape, dtype))[0] == STAGED) == is_staged
    assert (kernels(moments_of(shape, dtype))[0] == STAGED) == is_staged


@pytest.mark.parametrize(
    ("groups", "length", "dtype", "scaled", "is_staged"),
    [
        (15_902, 34, "float16", False, False),  # 8 KB for each multiprocessor
        (15_903, 34, "float16", False, True),
        (12_287, 33, "float16", False, False),  # 6 KB, as they begin at odd ones
        (12_288, 33, "float16", False, True),
        (54_067, 40, "float16", False, False),  # 32 KB, as chunks are whole and aligned
        (54_068, 40, "float16", False, True),
        (32_767, 33, "float32", False, False),
        (32_768, 33, "float32", False, True),
        (28_671, 33, "float32", True, False),
        (28_672, 33, "float32", True, True),
        (100_000, 13, "float32", True, False),  # which fills its part of a row
        (11_202, 95, "float32", True, False),  # 3/4 of it, but longer
        (50_000, 95, "float32", True, True),
        (37_941, 57, "float32", True, False),
        (37_942, 57, "float32", True, True),  # 64 KB, as of what fills its part of a row
        (16_895, 34, "float16", True, False),  # 8.5 KB
        (16_896, 34, "float16", True, True),
        (12_287, 33, "float16", True, False),
        (12_288, 33, "float16", True, True),
        (1 << 20, 7, "float16", True, True),  # an odd number, in one chunk
        (1 << 20, 7, "float16", False, False),
        (1 << 20, 6, "float16", True, False),
        (52_800, 31, "float16", True, True),
        (52_800, 32, "float16", True, False),  # which fills its part of a row
        (5279, 334, "float16", False, False),
        (5280, 334, "float16", False, True),  # 40 groups for each
        (1583, 333, "float16", False, False),
        (1584, 333, "float16", False, True),  # 12
        (1715, 402, "float16", True, False),
        (1716, 402, "float16", True, True),  # 13
        (1583, 401, "float16", True, False),
        (1584, 401, "float16", True, True),
        (9239, 451, "float16", True, False),  # longer
        (9240, 451, "float16", True, True),  # 70
        (7919, 261, "float32", True, False),
        (7920, 261, "float32", True, True),  # 60, as a third of three rows is left
        (26_399, 333, "float32", True, False),
        (26_400, 333, "float32", True, True),  # 200
        (38_000, 901, "float16", False, False),
        (38_500, 901, "float16", False, True),
        (100_000, 425, "float32", True, True),
        (100_000, 426, "float32", True, False),
    ],
)
def test_groups_are_staged_if_they_are_many(groups, length, dtype, scaled, is_staged):
    operands = {"scale": layout((1, length), dtype)} if scaled else {}
    assert (kernels(plan_of((groups, length), dtype, **operands))[0] == STAGED) == is_staged


@pytest.mark.parametrize(
    ("shape", "strides", "dtype", "output", "is_staged"),
    [
        ((1 << 20, 33), (33, 1), "float32", "float64", True),
        ((1 << 20, 33), (33, 1), "int32", "float64", False),
        ((1 << 20, 33), (34, 1), "float32", "float32", False),
        ((1 << 20, 33), (1, 1 << 20), "float32", "float32", False),
        ((1 << 20, 33), (-33, 1), "float32", "float32", False),
        ((1 << 20, 33), (33, -1), "float32", "float32", False),
        ((1 << 20, 33), (33, 1), "float16", "int8", False),
    ],
)
def test_groups_that_lie_otherwise_are_not_staged(shape, strides, dtype, output, is_staged):
    arrays = {"input": layout(shape, dtype, strides), "output": layout(shape, output)}
    assert (STAGED in kernels(make_plan(Normalization((1,)), arrays))) == is_staged


def test_groups_along_several_axes_are_staged_with_the_scale_of_each():
    scale = ArrayLayout((1, 64, 1, 1), (0, 2, 0, 0), np.dtype(np.float16), 16)
    plan = plan_of((4096, 64, 7, 7), "float16", (2, 3), scale=scale)
    assert kernels(plan) == [STAGED]
    assert constants(plan)["KEPT_RANK"] == "2"


@pytest.mark.parametrize(
    ("shape", "dtype", "kernel", "rows"),
    [
        ((25_131, 3, 28, 4), "float16", STAGED, None),  # two channels in a chunk
        ((9362, 2, 4, 7), "float16", STAGED, None),
        ((113, 32, 4, 9), "float16", "normalize_short_lines", "1"),  # few
        ((7943, 2, 12, 22), "float16", STAGED, None),
        ((468, 8, 20, 14), "float16", "normalize_short_lines", "2"),  # few aligned ones
        ((580, 32, 8, 12), "float16", STAGED, None),
        ((681, 8, 17, 7), "float16", STAGED, None),  # fewer of short runs
        ((1482, 4, 5, 49), "float16", "normalize_short_lines", "2"),
        ((362, 16, 90, 5), "float16", "normalize_lines", "1"),  # and of more bytes
        ((3146, 2, 6, 7), "float16", "normalize_short_lines", "1"),
        ((3744, 2, 20, 28), "float16", "normalize_lines", "3"),  # long ones
        ((14_563, 2, 8, 36), "float16", STAGED, None),  # of which 4 threads meet in a bank
        ((262_144, 2, 16, 4), "float16", "normalize_short_lines", "4"),  # several in a chunk, of groups that fill lanes
        ((262_144, 2, 16, 2), "float16", "normalize_short_lines", "4"),  # more, the same in each row
        ((65_536, 32, 16, 2), "float16", "normalize_short_lines", "2"),  # and not the same
        ((51, 2, 64, 5), "float16", "normalize_lines", "1"),  # more than a row, by as many warps
        ((262_144, 2, 16, 8), "float16", "normalize_short_lines", "4"),  # a channel for each chunk
        ((3744, 32, 10, 28), "float32", STAGED, None),
        ((606, 16, 12, 36), "float32", "normalize_short_lines", "4"),  # long ones
        ((390, 32, 6, 7), "float32", "normalize_short_lines", "2"),  # few
        ((384, 16, 6, 49), "float32", STAGED, None),
        ((2048, 32, 64, 2), "float32", "normalize_short_lines", "2"),
        ((27_382, 4, 144, 2), "float32", "normalize_lines", "3"),  # several rows of parts of chunks
        ((1531, 4, 56, 6), "float32", "normalize_short_lines", "4"),
        ((16_192, 2, 6, 3), "float32", "normalize_short_lines", "4"),  # of odd length, the same in each row
        ((300, 32, 12, 3), "float32", "normalize_short_lines", "2"),  # and not the same
        ((3411, 16, 11, 25), "float32", STAGED, None),  # more than 900 bytes
        ((1449, 16, 50, 8), "float16", "normalize_short_lines", "4"),  # whole chunks
        ((14_100, 4, 10, 16), "float16", STAGED, None),
    ],
)
def test_groups_of_short_channels_are_staged(shape, dtype, kernel, rows):
    scale = layout((1, *shape[1:3], 1), dtype)
    plan = plan_of(shape, dtype, (2, 3), scale=scale, bias=scale)
    assert kernels(plan) == [kernel]
    assert constants(plan).get("ROWS") == rows


@pytest.mark.parametrize(("shape", "span"), [((1 << 17, 4, 2, 49), 16), ((1 << 17, 4, 2, 52), 8)])
def test_odd_channels_of_up_to_13_chunks_are_one_span(shape, span):
    plan = plan_of(shape, "float16", (2, 3), scale=layout((1, *shape[1:3], 1), "float16"))
    assert (kernels(plan), constants(plan)["SPAN"]) == ([STAGED], str(span))


@pytest.mark.parametrize("run", [7, 12, 49, 50])
def test_a_span_has_the_numbers_of_all_its_runs(run):
    scale = layout((1, 2, 8, 1), "float16")
    plan = plan_of((54_697, 2, 8, run), "float16", (2, 3), scale=scale, bias=scale)
    assert kernels(plan) == [STAGED]
    assert constants(plan)["OPERAND_RUN"] == str(run)


def test_older_gpus_have_other_kernels():
    array, old = layout((1 << 20, 33)), H200._replace(compute_capability=(7, 5))
    assert kernels(make_plan(Normalization((1,)), {"input": array, "output": array}, old)) == ["normalize_short_lines"]


@pytest.mark.parametrize(
    ("shape", "dtype", "scaled", "span", "lines", "threads", "resident"),
    [
        ((1 << 24, 9), "float16", False, 2, 128, 128, 12),
        ((1 << 24, 25), "float16", False, 4, 128, 128, 10),
        ((1 << 22, 33), "float16", False, 8, 128, 128, 8),
        ((1 << 22, 65), "float16", False, 16, 64, 64, 10),  # one span
        ((1 << 22, 104), "float16", False, 16, 64, 64, 10),
        ((1 << 22, 105), "float16", False, 8, 32, 64, 16),
        ((1 << 22, 89), "float16", True, 8, 32, 64, 16),
        ((1 << 20, 333), "float16", True, 8, 32, 192, 5),
        ((1 << 20, 324), "float16", False, 8, 32, 192, 5),
        ((1 << 20, 324), "float16", True, 8, 32, 192, 3),  # whose last span has 4 elements
        ((1 << 20, 325), "float16", True, 8, 32, 192, 5),
        ((1 << 20, 340), "float16", True, 8, 32, 192, 5),
        ((1 << 18, 451), "float16", False, 8, 16, 128, 8),  # more than 900 bytes
        ((1 << 18, 801), "float16", False, 16, 16, 112, 5),
        ((1 << 18, 801), "float16", True, 8, 16, 208, 4),
        ((1 << 22, 17), "float32", False, 8, 128, 128, 8),
        ((1 << 18, 601), "float32", False, 16, 16, 160, 4),
        ((1 << 16, 33), "float16", False, 2, 32, 96, 16),  # few
        ((1 << 16, 25), "float16", False, 4, 64, 64, 20),
        ((1 << 14, 125), "float16", True, 2, 32, 256, 6),
        ((1 << 14, 129), "float16", True, 4, 16, 80, 10),
        ((200_000, 9), "float32", False, 4, 128, 128, 10),
        ((1 << 14, 225), "float16", False, 4, 16, 128, 10),
        ((1 << 16, 33), "float16", True, 8, 32, 32, 32),  # one span
        ((18_000, 172), "float16", True, 4, 16, 96, 10),
        ((1 << 14, 172), "float16", True, 4, 16, 96, 6),  # fewer, whose last span has 12 elements
        ((1 << 20, 7), "float16", True, 2, 256, 256, 6),  # one chunk
        ((1 << 17, 113), "float16", True, 4, 32, 128, 10),  # neither few nor many
        ((1 << 15, 184), "float16", True, 4, 16, 96, 13),
        ((1 << 18, 113), "float16", True, 8, 32, 64, 16),
        ((1 << 16, 127), "float32", True, 4, 16, 128, 10),
        ((1 << 16, 127), "float32", False, 8, 32, 128, 8),
    ],
)
def test_spans_are_as_many_as_registers_hold(shape, dtype, scaled, span, lines, threads, resident):
    plan = plan_of(shape, dtype, **({"scale": layout((1, shape[1]), dtype)} if scaled else {}))
    found, [launch] = constants(plan), plan.launches
    assert [int(found[name]) for name in ("SPAN", "LINES", "THREADS", "RESIDENT")] == [span, lines, threads, resident]
    assert (launch.grid, launch.block) == (math.ceil(shape[0] / lines), threads)
    assert launch.shared_bytes == lines * shape[1] * np.dtype(dtype).itemsize + 16


@pytest.mark.parametrize(
    ("length", "alignment", "dtype", "output", "steps"),
    [
        (33, 16, "float16", "float16", (2, 2)),
        (34, 16, "float16", "float16", (4, 4)),
        (36, 16, "float16", "float16", (8, 8)),
        (40, 16, "float16", "float16", (16, 16)),
        (40, 2, "float16", "float16", (2, 16)),
        (33, 16, "float32", "float32", (4, 4)),
        (20, 16, "float64", "float16", (16, 8)),
        (10, 8, "float64", "float16", (8, 4)),
        (26, 16, "float32", "float64", (8, 16)),
        (6, 16, "float64", "float16", (16, 4)),  # a span has 8 elements
    ],
)
def test_spans_begin_at_multiples(length, alignment, dtype, output, steps):
    shape = ((1 << 26) // length, length)
    arrays = {"input": layout(shape, dtype, alignment=alignment), "output": layout(shape, output)}
    found = constants(make_plan(Normalization((1,)), arrays))
    assert (int(found["INPUT_STEP"]), int(found["OUTPUT_STEP"])) == steps


def test_threads_that_would_meet_in_a_bank_load_otherwise():
    shape = (1 << 20, 96)
    arrays = {"input": layout(shape, "float16", alignment=16), "output": layout(shape, "float16")}
    assert kernels(make_plan(Normalization((1,)), arrays)) == [STAGED]  # 4 meet
    arrays["input"] = layout(shape, "float16", alignment=2)
    assert kernels(make_plan(Normalization((1,)), arrays)) == ["normalize_short_lines"]  # 16 meet
