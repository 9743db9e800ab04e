"""Plans of normalization, without a GPU: groups whose elements lie side by side."""

from __future__ import annotations

import numpy as np
import pytest
from plans import constants, kernels, layout

from cudml.plan import make_plan
from cudml.plan.activation import Activation
from cudml.plan.device import H200, LANES
from cudml.plan.layout import ArrayLayout
from cudml.plan.normalization.groups import Groups
from cudml.plan.plan import Plan
from cudml.plan.spec import Moments, Normalization


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
    ("shape", "wide", "expected"),
    [
        ((3000, 20_480), "float16", ("normalize_lines", "4")),
        ((3000, 24_576), "float16", ("normalize_stream", None)),
        ((3000, 28_672), "float32", ("normalize_lines", "4")),
        ((3000, 29_184), "float32", ("normalize_stream", None)),
        ((3000, 32_768), "float64", ("normalize_lines", "8")),  # doubles are not streamed
        ((3000, 65_552), "float64", ("sum_tiled_lines", "4")),
    ],
)
def test_a_block_holds_as_many_bytes_as_its_registers_do(shape, wide, expected):
    plan = make_plan(Normalization((1,)), {"input": layout(shape, "uint8"), "output": layout(shape, wide)})
    assert (plan.launches[0].kernel, constants(plan).get("ROWS")) == expected


@pytest.mark.parametrize(("length", "step"), [(33, "1"), (48, "0"), (255, "1"), (257, "0")])
def test_short_groups_of_odd_bytes_are_loaded_in_words(length, step):
    """But not groups of a row and more."""
    arrays = {"input": layout((10_000, length), "int8"), "output": layout((10_000, length), "float32")}
    assert constants(make_plan(Normalization((1,)), arrays))["INPUT_STEP"] == step


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
        ((131_072, 340), "float32", ("normalize_lines", "3", "32")),
        ((131_072, 224), "float32", ("normalize_short_lines", "4", "8")),
        ((32_768, 10_029), "float32", ("normalize_lines", "8", "2")),
        ((32_768, 10_032), "float32", ("normalize_lines", "8", "2")),
        ((132, 5958), "float32", ("normalize_lines", "4", "1")),  # no more blocks than that
        ((32_768, 3001), "float16", ("normalize_lines", "12", "12")),
        ((32_768, 3501), "float16", ("normalize_lines", "4", "6")),
    ],
)
def test_rows_that_begin_anywhere_have_registers_for_their_scale(shape, dtype, expected):
    arrays = {"input": layout(shape, dtype), "output": layout(shape, dtype), "scale": layout(shape[1:], dtype)}
    arrays["bias"] = arrays["scale"]
    plan = make_plan(Normalization((1,)), arrays)
    found = constants(plan)
    assert (plan.launches[0].kernel, found["ROWS"], found["RESIDENT"]) == expected


def _per_channel(shape: tuple[int, ...], dtype: str) -> ArrayLayout:
    size = np.dtype(dtype).itemsize
    return ArrayLayout(shape, (0, size, *(0 for _ in shape[2:])), np.dtype(dtype), 16)


@pytest.mark.parametrize(
    ("shape", "dtype", "run", "part"),
    [
        ((64, 96, 112, 112), "float32", 4, 4),  # chunks
        ((64, 96, 111, 111), "float32", 4, 1),  # runs, of which a chunk has two
        ((64, 512, 14, 14), "float16", 8, 4),
        ((64, 512, 14, 14), "float32", 4, 4),
        ((64, 512, 7, 1), "float16", 7, 1),
        ((64, 512, 5, 1), "float16", 5, 1),  # of which it may have three
        ((64, 512, 1, 8), "float16", 8, 8),
        ((64, 512, 2, 2), "float16", 4, 4),  # parts of chunks
        ((64, 512, 1, 6), "float16", 6, 2),
        ((64, 512, 1, 12), "float16", 8, 4),
        ((64, 512, 1, 2), "float32", 2, 2),
        ((64, 512, 1, 3), "float32", 3, 1),
    ],
)
def test_scale_of_channels_is_that_of_runs(shape, dtype, run, part):
    source = layout(shape, dtype)
    arrays = {"input": source, "output": source, "scale": _per_channel(shape, dtype)}
    found = constants(make_plan(Normalization((1, 2, 3)), arrays))
    assert (found["HAS_SCALE"], found["OPERAND_RUN"], found["OPERAND_PART"]) == ("4", str(run), str(part))
    assert (found["INPUT_PACKED"], found["OUTPUT_PACKED"]) == ("1", "1")  # whatever axes the scale has


@pytest.mark.parametrize("run", range(2, 40))
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8"])
def test_a_chunk_has_the_numbers_of_all_its_runs(dtype, run):
    shape = (4, 1000, run)
    arrays = {"input": layout(shape, dtype), "output": layout(shape, dtype), "scale": _per_channel(shape, dtype)}
    groups = Groups.of((1, 2), arrays)
    chunks = (range(first, first + groups.chunk) for first in range(0, run * groups.chunk, groups.chunk))
    assert groups.operands.of_chunk == max(len({place // run for place in chunk}) for chunk in chunks)


@pytest.mark.parametrize(
    ("dtype", "shape", "warps", "rows"),
    [
        ("float16", (52_428, 1280), 1, 5),
        ("float16", (37_449, 1792), 2, 4),
        ("float16", (24_576, 1536), 1, 6),
        ("float16", (4096, 1024), 1, 4),
        ("float16", (1024, 1024), 4, 1),  # few
        ("float16", (5461, 768), 1, 3),
        ("float16", (1365, 768), 3, 1),
        ("float16", (2048, 2048), 2, 4),
        ("float16", (128, 8192), 8, 4),
        ("float16", (512, 8192), 4, 8),
        ("float16", (2048, 1280), 3, 2),
        ("float16", (13_107, 5120), 5, 4),
        ("float16", (9362, 7168), 4, 8),
        ("float16", (7281, 9216), 9, 4),
        ("float16", (56_252, 1193), 1, 5),
        ("float16", (19_993, 3072), 3, 4),
        ("float16", (2119, 3445), 4, 4),
        ("float16", (16_380, 4097), 5, 4),
        ("float16", (8191, 8193), 9, 4),
        ("float16", (4095, 16_385), 9, 8),
        ("uint8", (18_016, 3705), 4, 2),  # a scale of each takes registers
        ("uint8", (18_016, 16_385), 9, 4),
        ("uint8", (2000, 1145), 3, 1),
        ("int16", (8191, 8193), 9, 4),
        ("int16", (13_107, 5120), 5, 4),
        ("int32", (4681, 7168), 14, 4),
        ("float32", (20_764, 333), 1, 3),
        ("float32", (2048, 320), 1, 4),  # few: a short group
        ("float32", (4681, 7168), 7, 8),
        ("float32", (65_536, 4096), 8, 4),
        ("float32", (132, 1047), 5, 2),  # no more groups than multiprocessors
        ("float32", (133, 1047), 3, 4),
        ("float64", (132, 1537), 7, 4),
        ("float64", (133, 1537), 4, 8),
        ("float32", (204, 5120), 10, 4),  # few
        ("float32", (819, 5120), 5, 8),
        ("float32", (512, 8192), 16, 4),
        ("float32", (2048, 8192), 8, 8),
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
    assert (found.get("WARPS", "1"), found["ROWS"]) == (str(warps), str(rows))


@pytest.mark.parametrize(
    ("dtype", "row", "pitch", "rows"),
    [
        ("float16", 640, 648, "4"),  # 40 rows
        ("float16", 648, 656, "8"),
        ("float16", 640, 641, "4"),  # begin anywhere
        ("float16", 648, 649, "4"),
        ("float32", 512, 516, "4"),  # 64 rows
        ("float32", 520, 524, "8"),
    ],
)
def test_rows_of_a_warp_of_groups_of_several_runs(dtype, row, pitch, rows):
    shape = (300, 16, row)
    array = layout(shape, dtype, strides=(16 * pitch, pitch, 1))
    plan = make_plan(Normalization((1, 2)), {"input": array, "output": layout(shape, dtype)})
    assert (kernels(plan), constants(plan)["ROWS"]) == (["normalize_lines"], rows)


@pytest.mark.parametrize(("dtype", "rows"), [("float32", "8"), ("float64", "4")])
def test_warps_have_more_rows_with_gelu_but_of_doubles(dtype, rows):
    array = layout((400, 24 * LANES * 16 // np.dtype(dtype).itemsize), dtype)
    plan = make_plan(Normalization((1,), activation=Activation("gelu")), {"input": array, "output": array})
    assert (kernels(plan), constants(plan)["ROWS"]) == (["normalize_lines"], rows)


@pytest.mark.parametrize(
    ("shape", "warps", "rows", "resident"),
    [
        ((70_257, 1281), 1, 6, 24),
        ((39_045, 2305), 1, 10, 16),
        ((39_045, 2817), 3, 4, 10),
        ((14_646, 6145), 7, 4, 5),  # 56 registers
        ((14_643, 6146), 7, 4, 5),  # stored by words
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
        ("float16", (52_428, 1280), 0),  # as compilers choose
        ("float16", (104_857, 2560), 0),
        ("float16", (65_536, 4096), 0),
        ("float16", (174_648, 1537), 20),  # 96
        ("float16", (13_107, 5120), 8),  # 48
        ("float16", (14_646, 6145), 4),  # 64
        ("float16", (16_380, 4097), 6),
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
    ("dtype", "activation", "registers"),
    [
        ("float32", "tanh", 48),
        ("float32", "sigmoid", 64),
        ("float32", "gelu", 80),
        ("float64", "tanh", 128),
        ("float16", "tanh", None),  # as compilers choose
        ("float16", "gelu", 64),
    ],
)
def test_registers_of_activations(dtype, activation, registers):
    array, operand = layout((65_536, 4096), dtype), layout((1, 4096), dtype)
    arrays = {"input": array, "output": array, "scale": operand, "bias": operand}
    plan = make_plan(Normalization((1,), activation=Activation(activation)), arrays)
    threads = int(constants(plan)["RESIDENT"]) * plan.launches[0].block
    assert (65536 // threads // 8 * 8 if threads else None) == registers


@pytest.mark.parametrize("length", [8001, 24_577, 30_001, 32_767, 40_001])
@pytest.mark.parametrize(("source", "output"), [("int8", "float16"), ("bool", "float16"), ("float16", "float16")])
def test_rows_that_are_stored_together_fit_static_shared_memory(length, source, output):
    arrays = {"input": layout((800, length), source), "output": layout((800, length), output)}
    found = constants(make_plan(Normalization((1,)), arrays))
    row = 32 * 16 // np.dtype(source).itemsize * np.dtype(output).itemsize
    assert int(found.get("WARPS", "1")) * int(found.get("STORED_ROWS", "1")) * row <= 40_960


OWN, PLAIN, SUMMED = "scale and bias of each element", "none", "moments"


@pytest.mark.parametrize(
    ("dtype", "shape", "what", "rows"),  # 0: several groups for each warp, or several warps for each group
    [
        ("float16", (5000, 513), OWN, 3),
        ("float16", (50_000, 3001), OWN, 12),
        ("float16", (50_000, 3073), OWN, 0),
        ("float16", (50_000, 2560), PLAIN, 0),  # aligned
        ("float16", (50_000, 2559), PLAIN, 10),
        ("float16", (50_000, 2561), PLAIN, 0),
        ("float16", (50_000, 511), OWN, 0),  # two rows
        ("float16", (50_000, 1536), OWN, 6),
        ("float16", (50_000, 1544), OWN, 0),
        ("float16", (50_000, 1193), SUMMED, 5),
        ("float16", (924, 1193), OWN, 0),  # few
        ("float16", (925, 1193), OWN, 5),  # begin anywhere
        ("float16", (2048, 1280), OWN, 0),  # few aligned ones
        ("float16", (1056, 1281), OWN, 0),
        ("float16", (1057, 1281), OWN, 6),
        ("float32", (64, 301), OWN, 3),
        ("float32", (50_000, 641), OWN, 6),
        ("float32", (3000, 641), OWN, 0),  # a few more than are worked on at once
        ("float32", (800, 641), OWN, 6),
        ("float32", (50_000, 769), OWN, 0),
        ("float32", (50_000, 769), PLAIN, 7),
        ("float32", (50_000, 301), SUMMED, 0),
        ("float32", (5000, 513), SUMMED, 5),
        ("float64", (50_000, 513), OWN, 9),
        ("float64", (50_000, 513), SUMMED, 0),
        ("int16", (50_000, 1193), OWN, 0),  # computed in double
    ],
)
def test_groups_of_a_few_rows_have_a_warp_that_holds_what_there_is(dtype, shape, what, rows):
    array, operand, of_group = layout(shape, dtype), layout((1, shape[1]), dtype), layout((shape[0], 1), "float64")
    if what == SUMMED:
        plan = make_plan(Moments((1,)), {"input": array, "mean": of_group, "variance": of_group})
    else:
        operands = {"scale": operand, "bias": operand} if what == OWN else {}
        plan = make_plan(Normalization((1,)), {"input": array, "output": array, **operands})
    found = constants(plan)
    is_own = plan.launches[0].kernel == "normalize_lines" and found["WARPS"] == "1"
    assert (int(found["ROWS"]) if is_own else 0) == rows


@pytest.mark.parametrize(
    ("shape", "apart", "dtype", "whole"),
    [
        ((50_000, 1193), 1193, "float16", 4),
        ((50_000, 1280), 1280, "float16", 5),  # aligned
        ((50_000, 1280), 1281, "float16", 4),  # the last word has an element that is not the group's
        ((50_000, 1280), 1282, "float16", 5),
        ((50_000, 513), 515, "float32", 4),
        ((50_000, 512), 513, "float32", 4),
    ],
)
def test_rows_that_exist_as_a_whole_are_known(shape, apart, dtype, whole):
    array = layout(shape, dtype, (apart, 1))
    plan = make_plan(Normalization((1,)), {"input": array, "output": array})
    assert (constants(plan)["WARPS"], constants(plan)["WHOLE_ROWS"]) == ("1", str(whole))


@pytest.mark.parametrize(
    ("shape", "dtype", "rows"),
    [
        ((8, 20_000, 7, 7), "float16", 2),
        ((16, 20_000, 5, 5), "float16", 2),
        ((24, 20_588, 5, 6), "float16", 0),  # short runs
        ((32, 20_000, 4, 3), "float16", 0),
        ((20, 10_000, 7, 7), "float16", 0),  # bundles
        ((20, 10_001, 7, 7), "float16", 4),  # which there are none of
        ((4, 60_000, 300, 1), "float16", 5),  # instead of bundles of two
        ((2, 60_000, 200, 1), "float16", 0),  # aligned
        ((3, 71_436, 11, 11), "float32", 3),
        ((37, 34_905, 3, 3), "float32", 0),
        ((8, 20_000, 7, 7), "float32", 0),  # four rows
    ],
)
def test_groups_of_a_few_runs_have_a_warp(shape, dtype, rows):
    array = layout(shape, dtype)
    found = constants(make_plan(Normalization((0, 2, 3)), {"input": array, "output": array}))
    assert (int(found["ROWS"]) if found.get("WARPS") == "1" else 0) == rows


@pytest.mark.parametrize(
    ("shape", "dtype", "looks"),
    [
        ((16_380, 4097), "float16", "1"),  # one of the last warp's four rows exists
        ((16_380, 4351), "float16", "1"),
        ((16_380, 4353), "float16", "0"),  # two
        ((16_380, 4098), "float16", "0"),  # begin at words
        ((16_380, 4097), "float32", "0"),
    ],
)
def test_last_warps_that_are_nearly_empty_leave_rows_out(shape, dtype, looks):
    array = layout(shape, dtype)
    assert constants(make_plan(Normalization((1,)), {"input": array, "output": array}))["LOOKS"] == looks


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
        (Moments((1,)), (1, 1_000_001), "float16", "1"),
        (Moments((1,)), (1, 1_000_000), "float16", "0"),
        (Normalization((1,)), (1, 20_000_001), "float16", "1"),
    ],
)
def test_warps_whose_rows_all_exist_do_not_look(spec, shape, dtype, splits):
    of_groups = layout((shape[0], 1), dtype)
    rest = {"mean": of_groups, "variance": of_groups} if isinstance(spec, Moments) else {"output": layout(shape, dtype)}
    assert constants(make_plan(spec, {"input": layout(shape, dtype), **rest})).get("SPLITS", "0") == splits


@pytest.mark.parametrize(
    ("shape", "dtype", "grain"),
    [
        ((8192, 512, 14, 14), "float16", 4),
        ((8192, 512, 14, 13), "float16", 1),  # which would be two
        ((8192, 512, 13, 13), "float16", 1),
        ((8192, 512, 7, 14), "float32", 1),
        ((64, 40, 14, 14), "float16", 4),  # in lines
        ((338, 171, 1, 374), "float32", 2),  # long runs
        ((200, 521, 1, 20), "float16", 1),  # short runs of many
        ((20, 521, 1, 20), "float16", 4),
        ((22, 1690, 1, 20), "float16", 4),  # short groups
        ((200, 521, 1, 4), "float16", 4),  # half a chunk
        ((200, 521, 1, 28), "float16", 4),
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
def test_long_runs_of_halves_are_moved_in_pieces_without_bulk_copies(shape, dtype, pieces):
    array, device = layout(shape, dtype), H200._replace(compute_capability=(8, 0))
    plan = make_plan(Normalization((0, 2, 3)), {"input": array, "output": array}, device)
    assert kernels(plan) == ["normalize_stream"]
    assert (constants(plan)["IN_PIECES"], constants(plan)["OUTPUT_IN_RUNS"]) == (pieces, pieces)


@pytest.mark.parametrize(
    ("shape", "crews", "loaders"),
    [((64, 64, 147, 147), "2", "4"), ((64, 96, 55, 55), "2", "4"), ((128, 256, 27, 27), "1", "8")],
)
def test_two_crews_of_loaders_put_halves_of_longer_runs_together(shape, crews, loaders):
    array, device = layout(shape, "float16"), H200._replace(compute_capability=(8, 0))
    plan = make_plan(Normalization((0, 2, 3)), {"input": array, "output": array}, device)
    found = constants(plan)
    assert (found["IN_PIECES"], found["LOADER_CREWS"], found["LOADERS"]) == ("1", crews, loaders)
    warps = ("ADDERS", "PUBLISHERS", "FOLDERS", "NORMALIZERS")
    assert plan.launches[0].block == LANES * (8 + sum(int(found[name]) for name in warps))


@pytest.mark.parametrize(
    ("shape", "dtype", "blocks", "rows", "resident", "early"),
    [
        ((8, 16_384), "float32", 8, 2, 4, True),
        ((64, 16_384), "float32", 8, 4, 4, True),
        ((32, 20_480), "float32", 5, 4, 3, True),
        ((100, 20_480), "float32", 5, 4, 4, False),
        ((32, 40_000), "float32", 5, 8, 2, True),
        ((64, 40_000), "float32", 5, 8, 3, False),
        ((60, 50_000), "float32", None, None, None, None),  # not all at once
        ((132, 16_384), "float32", None, None, None, None),  # a block each is faster
        ((1, 8192), "float32", 8, 2, 8, True),
        ((46, 8192), "float32", 8, 2, 8, True),
        ((47, 8192), "float32", 4, 4, 6, True),
        ((67, 8192), "float32", None, None, None, None),  # more than fill the GPU
        ((1, 4096), "float32", 8, 1, 8, True),
        ((17, 4096), "float32", None, None, None, None),
        ((1, 2560), "float32", None, None, None, None),
        ((8, 12_288), "float16", 6, 2, 8, True),
        ((64, 12_288), "float16", 3, 4, 6, True),
        ((16, 8192), "float16", 8, 1, 8, True),
        ((17, 8192), "float16", None, None, None, None),
        ((1, 5120), "float16", None, None, None, None),
        ((16, 4095), "float32", 8, 1, 8, True),  # begin anywhere
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
    [
        ((1, 8192), "normalize_lines"),
        ((1, 8193), "normalize_clustered_lines"),
        ((2, 4095), "normalize_clustered_lines"),  # begin anywhere
        ((2, 2559), "normalize_lines"),  # 20 rows
        ((33, 16_384), "normalize_clustered_lines"),
        ((34, 16_384), "normalize_lines"),
        ((8, 65_536), "normalize_clustered_lines"),
        ((64, 65_536), "sum_tiled_lines"),
    ],
)
def test_clusters_add_up_few_long_groups(shape, kernel):
    moments = layout((shape[0], 1), "float32")
    plan = make_plan(Moments((1,)), {"input": layout(shape, "float32"), "mean": moments, "variance": moments})
    assert plan.launches[0].kernel == kernel


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ((45, 60 * 512), "normalize_clustered_lines"),
        ((45, 100 * 512), "normalize_clustered_lines"),
        ((45, 180 * 512), "normalize_stream"),  # more than fill the GPU
        ((8, 180 * 512), "normalize_clustered_lines"),
        ((1, 257 * 512), "normalize_stream"),  # more than registers hold
    ],
)
def test_clusters_share_few_long_groups_of_bytes(shape, kernel):
    plan = make_plan(Normalization((1,)), {"input": layout(shape, "uint8"), "output": layout(shape, "float16")})
    assert kernels(plan) == [kernel]


def test_older_gpus_have_no_clusters():
    array = layout((8, 20_000), "float32")
    device = H200._replace(compute_capability=(8, 9))
    plan = make_plan(Normalization((1,)), {"input": array, "output": array}, device)
    assert kernels(plan) == ["sum_tiled_lines", "apply_tiled_lines"]


@pytest.mark.parametrize(
    ("scale", "same"), [((1, 8_000_001), "1"), ((16, 8_000_001), "0"), ((16, 1), "0"), ((1, 1), "0")]
)
def test_tiles_of_the_same_scale_follow_each_other(scale, same):
    array = layout((16, 8_000_001))
    plan = make_plan(Normalization((1,)), {"input": array, "output": array, "scale": layout(scale)})
    assert kernels(plan) == ["sum_tiled_lines", "apply_tiled_lines"]
    assert constants(plan)["SAME_OPERANDS"] == same


@pytest.mark.parametrize(
    ("shape", "dtype", "warps"),
    [((4, 3, 224, 224), "float16", 4), ((64, 3, 224, 224), "float16", 8), ((64, 64, 512, 512), "float64", 16)],
)
def test_few_tiles_have_few_warps(shape, dtype, warps):
    array = layout(shape, dtype)
    plan = make_plan(Normalization((1, 2, 3)), {"input": array, "output": array})
    assert (plan.launches[0].kernel, int(constants(plan)["WARPS"])) == ("sum_tiled_lines", warps)


@pytest.mark.parametrize(
    ("shape", "dtype", "registers"),
    [
        ((5_000, 69), "float16", 64),
        ((524_288, 64), "float16", 64),
        ((136_920, 440), "float16", 48),  # aligned, two rows
        ((3_000, 33), "float32", 48),
        ((2000, 3001), "float16", 56),
        ((500, 14_001), "float16", 48),  # by 14 warps
        ((2000, 3002), "float16", 48),  # from words on
        ((30_000, 2050), "float16", 128),  # by one warp
    ],
)
def test_what_reads_halves_that_begin_anywhere_has_more_registers(shape, dtype, registers):
    moments = layout((shape[0], 1), dtype)
    plan = make_plan(Moments((1,)), {"input": layout(shape, dtype), "mean": moments, "variance": moments})
    [launch] = plan.launches
    threads = int(constants(plan)["RESIDENT"]) * launch.block
    assert 65536 // threads // 8 * 8 == registers


@pytest.mark.parametrize(
    ("shape", "warps", "rows", "registers"),
    [
        ((150_000, 1792), 1, 7, None),  # as compilers choose
        ((10_922, 3072), 3, 4, 48),  # three warps are as fast, as they were
        ((100_000, 3072), 1, 12, None),  # but for many more
        ((4681, 3584), 4, 4, 48),  # too few for a warp each
        ((50_000, 5120), 5, 4, 32),  # by 8 rows half of the third warp would be idle
        ((16_384, 16_384), 8, 8, 64),
        ((10_922, 24_576), 12, 8, 56),  # as others are
        ((20_000, 3501), 1, 14, 80),
        ((20_000, 6001), 6, 4, 56),  # these, too
        ((16_776, 16_001), 8, 8, 64),
        ((22_367, 12_001), 6, 8, 56),
    ],
)
def test_moments_of_many_halves_are_added_up_while_others_are_loaded(shape, warps, rows, registers):
    moments = layout((shape[0], 1), "float16")
    plan = make_plan(Moments((1,)), {"input": layout(shape, "float16"), "mean": moments, "variance": moments})
    found, [launch] = constants(plan), plan.launches
    threads = int(found["RESIDENT"]) * launch.block
    assert (launch.block, int(found["ROWS"])) == (32 * warps, rows)
    assert (65536 // threads // 8 * 8 if threads else None) == registers


@pytest.mark.parametrize(
    ("shape", "axes", "warps", "rows"),
    [
        ((2048, 131_072), (1,), 4, 16),
        ((64, 256, 128, 128), (0, 2, 3), 4, 16),
        ((256, 1_000_001), (1,), 4, 8),
        ((16, 200_000), (1,), 16, 8),  # few
        ((4096, 50_000), (1,), 13, 8),  # blocks have whole groups
    ],
)
def test_tiles_of_many_halves_are_added_up_while_others_are_loaded(shape, axes, warps, rows):
    moments = layout(tuple(1 if axis in axes else size for axis, size in enumerate(shape)), "float16")
    plan = make_plan(Moments(axes), {"input": layout(shape, "float16"), "mean": moments, "variance": moments})
    assert (int(constants(plan)["WARPS"]), int(constants(plan)["ROWS"])) == (warps, rows)


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


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((4, 640, 71, 71), "float16", ["sum_tiled_lines"]),
        ((100, 1000, 13, 13), "float16", ["sum_tiled_lines"]),
        ((8, 1024, 41, 41), "float16", ["normalize_lines"]),
        ((2, 640, 71, 71), "float32", ["normalize_lines"]),
        ((4, 640, 72, 72), "float16", ["normalize_lines"]),
    ],
)
def test_moments_of_odd_runs_of_halves_are_those_of_tiles(shape, dtype, expected):
    moment = layout((1, shape[1], 1, 1))
    arrays = {"input": layout(shape, dtype), "mean": moment, "variance": moment}
    assert kernels(make_plan(Moments((0, 2, 3)), arrays)) == expected


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((3276, 32, 10, 64), "float16", ("1", "3", "32", "1")),
        ((51, 32, 10, 64), "float16", ("3", "1", "10", "1")),  # few
        ((819, 32, 10, 256), "float16", ("3", "4", "10", "0")),
        ((12, 32, 10, 256), "float16", ("3", "4", "8", "1")),  # all are worked on at once
        ((409, 32, 20, 256), "float16", ("5", "4", "8", "0")),
        ((102, 32, 20, 1024), "float16", ("10", "8", "3", "0")),
        ((4, 32, 4, 3136), "float16", ("13", "4", "1", "0")),  # few groups
        ((87, 32, 32, 196), "float16", ("7", "4", "4", "0")),  # channels of no whole chunks
        ((24, 32, 10, 480), "float16", ("5", "4", "6", "0")),  # neither few nor many
        ((95, 2, 32, 512), "float16", ("16", "4", "2", "0")),  # of which 80 registers leave room for one
        ((1337, 32, 32, 49), "float16", ("1", "7", "24", "0")),  # channels of no whole chunks
        ((600, 32, 48, 49), "float16", ("1", "10", "20", "0")),
        ((2675, 32, 64, 49), "float16", ("1", "13", "16", "0")),
        ((60, 32, 72, 49), "float16", ("4", "4", "8", "0")),  # not so many
        ((600, 32, 80, 49), "float16", ("4", "4", "8", "0")),  # and too long
        ((3276, 32, 10, 64), "float32", ("1", "5", "16", "1")),
        ((12, 32, 10, 64), "float32", ("1", "5", "16", "1")),
        ((51, 32, 10, 64), "float32", ("3", "2", "10", "1")),
        ((2175, 32, 2, 482), "float32", ("1", "8", "16", "0")),  # channels of no whole chunks
        ((819, 32, 10, 256), "float32", ("5", "4", "6", "0")),
        ((204, 32, 10, 1024), "float32", ("10", "8", "2", "0")),
        ((128, 32, 64, 256), "float32", ("16", "8", "2", "0")),
    ],
)
def test_groups_of_channels_have_few_of_their_scales_at_a_time(shape, dtype, expected):
    source = layout(shape, dtype)
    _, groups, channels, _ = shape
    scale = layout((1, groups, channels, 1), dtype)
    plan = make_plan(Normalization((2, 3)), {"input": source, "output": source, "scale": scale, "bias": scale})
    found = constants(plan)
    assert plan.launches[0].kernel == "normalize_lines"
    assert tuple(found[name] for name in ("WARPS", "ROWS", "RESIDENT", "OPERANDS_EARLY")) == expected


@pytest.mark.parametrize(("step", "resident"), [(1, "4"), (2, "2")])
def test_moments_of_halves_at_a_stride_have_more_registers(step, resident):
    shape, moments = (147, 2, 24_197), layout((147, 1, 1))
    source = layout(shape, "float16", (24_198 * 3 * step, 24_198 * step, step))
    plan = make_plan(Moments((1, 2)), {"input": source, "mean": moments, "variance": moments}, H200)
    assert (kernels(plan), constants(plan)["RESIDENT"]) == (["sum_tiled_lines"], resident)


@pytest.mark.parametrize(("groups", "blocks", "rounds"), [(856, 856, "2"), (445, 2225, "1")])
def test_blocks_add_up_groups_alone_where_these_are_some_for_each_multiprocessor(groups, blocks, rounds):
    moments = layout((groups, 1))
    plan = make_plan(Moments((1,)), {"input": layout((groups, 18_199)), "mean": moments, "variance": moments}, H200)
    assert (plan.launches[0].grid, constants(plan)["ROUNDS"]) == (blocks, rounds)


@pytest.mark.parametrize(("shape", "warps"), [((5376, 386), "1"), ((3048, 386), None), ((4736, 714), "1")])
def test_floats_that_begin_anywhere_share_warps_in_a_second_wave(shape, warps):
    source, scale = layout(shape), layout((1, shape[1]))
    plan = make_plan(Normalization((1,)), {"input": source, "output": source, "scale": scale, "bias": scale}, H200)
    assert constants(plan).get("WARPS") == warps


def _scaled(
    shape: tuple[int, ...],
    dtype: str,
    axes: tuple[int, ...],
    operand: tuple[int, ...],
    activation: Activation | None = None,
) -> Plan:
    """With a scale and a bias of that shape."""
    array, scale = layout(shape, dtype), layout(operand, dtype)
    arrays = {"input": array, "output": array, "scale": scale, "bias": scale}
    return make_plan(Normalization(axes, activation=activation), arrays)


@pytest.mark.parametrize(
    ("shape", "operand", "repeats"),
    [
        ((3000, 16, 12), (12,), "1"),
        ((3000, 4, 12), (4, 12), "1"),  # a row has eight groups
        ((3000, 8, 12), (8, 12), "1"),
        ((3000, 16, 12), (16, 12), "0"),
        ((3000, 3, 12), (3, 12), "0"),
        ((3000, 2, 128), (2, 128), "0"),
        ((3000, 2, 128), (128,), "1"),
    ],
)
def test_scales_are_loaded_once_where_all_rows_of_groups_have_the_same(shape, operand, repeats):
    plan = _scaled(shape, "float32", (2,), operand)
    assert (kernels(plan), constants(plan)["REPEATS"]) == (["normalize_short_lines"], repeats)


@pytest.mark.parametrize(
    ("shape", "dtype", "operand", "rows"),
    [
        ((6132, 32, 52), "float32", (52,), "4"),
        ((6132, 32, 52), "float32", (32, 52), "2"),
        ((300, 8, 307), "float16", (8, 307), "2"),
        ((6132, 32, 52), "float64", (32, 52), "4"),
    ],
)
def test_scales_of_their_own_take_registers_for_every_row(shape, dtype, operand, rows):
    plan = _scaled(shape, dtype, (2,), operand)
    assert (kernels(plan), constants(plan)["ROWS"]) == (["normalize_short_lines"], rows)


@pytest.mark.parametrize(
    ("shape", "dtype", "apart"),
    [
        ((264, 512), "float16", True),
        ((265, 512), "float16", False),
        ((264, 256), "float16", False),  # one row
        ((264, 256), "float32", False),
        ((1320, 313), "float16", True),  # begin at odd elements
        ((1321, 313), "float16", False),
        ((1320, 314), "float16", False),
    ],
)
def test_few_groups_of_two_rows_have_a_warp_for_each(shape, dtype, apart):
    plan = _scaled(shape, dtype, (1,), shape[1:])
    if apart:
        assert (kernels(plan), constants(plan)["WARPS"], constants(plan)["ROWS"]) == (["normalize_lines"], "2", "1")
    else:
        assert kernels(plan) == ["normalize_short_lines"]


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),  # rows, resident, early
    [
        ((925, 817), "float16", ("4", "16", "1")),
        ((2112, 915), "float16", ("4", "16", "1")),
        ((2113, 915), "float16", ("4", "32", "0")),
        ((2112, 1281), "float16", ("6", "20", "0")),
        ((2112, 261), "float32", ("3", "16", "1")),
        ((2113, 261), "float32", ("3", "32", "0")),
    ],
)
def test_rows_of_not_many_groups_that_begin_anywhere_have_most_registers(shape, dtype, expected):
    found = constants(_scaled(shape, dtype, (1,), shape[1:]))
    assert found["WARPS"] == "1"
    assert (found["ROWS"], found["RESIDENT"], found["OPERANDS_EARLY"]) == expected


@pytest.mark.parametrize(
    ("shape", "dtype", "rows"),
    [
        ((132, 83, 28), "float16", "2"),
        ((133, 83, 28), "float16", "2"),
        ((463, 165, 28), "float16", "4"),  # and not of many
        ((300, 40, 86), "float16", "4"),
        ((16, 710, 5), "float16", "2"),  # several channels in a chunk, of odd length
        ((1000, 1500, 5), "float16", "4"),
        ((68, 2230, 6), "float16", "4"),  # and of even length
        ((2208, 711, 6), "float16", "4"),
        ((400, 930, 2), "float16", "2"),
        ((1100, 186, 2), "float16", "1"),  # no more than two rows
        ((132, 4, 175), "float32", "2"),
        ((133, 4, 175), "float32", "6"),  # a warp for each
    ],
)
def test_warps_have_fewer_rows_of_few_groups_of_channels(shape, dtype, rows):
    plan = _scaled(shape, dtype, (1, 2), (shape[1], 1))
    assert (kernels(plan), constants(plan)["ROWS"]) == (["normalize_lines"], rows)
