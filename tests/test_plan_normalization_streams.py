"""Plans of normalization, without a GPU: groups that the blocks of a GPU hold together, or stream."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plans import F32, constants, kernels, layout

from cudml.plan import make_plan
from cudml.plan.device import H200, LANES
from cudml.plan.layout import ArrayLayout
from cudml.plan.plan import Plan, Struct
from cudml.plan.spec import Normalization


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


@pytest.mark.parametrize(
    ("shape", "dtype", "kernels_of_gpu"),
    [
        ((8, 192, 35, 35), "float16", {50: "sum_tiled_lines", 40: "sum_tiled_lines", 6: "normalize_stream"}),
        ((64, 3, 224, 224), "float16", {50: "sum_tiled_lines", 40: "normalize_stream"}),
        ((6, 4, 544, 736), "float16", {50: "normalize_stream"}),  # groups of 3 MB
        ((4, 3, 224, 224), "float32", {50: "sum_tiled_lines"}),
        ((8, 192, 35, 35), "float32", {50: "normalize_stream"}),
        ((4, 3, 224, 224), "float64", {50: "sum_tiled_lines"}),
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


def test_odd_runs_are_held_where_no_gpu_holds_a_stream():
    array, device = layout((30, 700, 25, 25), "float16"), H200._replace(cooperative_launch=False)
    plan = make_plan(Normalization((0, 2, 3)), {"input": array, "output": array}, device)
    assert kernels(plan) == ["normalize_lines"]


@pytest.mark.parametrize(
    ("shape", "pitch", "dtype", "gaps"),
    [
        ((64, 256, 128, 128), 129, "float32", 128),  # 31 gaps of 4 bytes
        ((64, 256, 128, 128), 136, "float32", 1024),  # 992, in lines of the cache
        ((64, 256, 128, 128), 137, "float32", 0),  # more than a sixteenth would be copied for nothing
        ((64, 256, 128, 128), 129, "float16", 128),
        ((64, 256, 128, 120), 121, "float32", 0),  # units would begin within a run
        ((64, 256, 24, 128), 129, "float32", 0),  # and end in another image
        ((64, 256, 128, 128), 128, "float32", 384),  # runs that begin anywhere: two, 124 bytes apart, and a seam
    ],
)
def test_short_runs_are_copied_with_small_gaps(shape, pitch, dtype, gaps):
    strides = tuple(int(np.prod((*shape[axis + 1 : 3], pitch))) for axis in range(3))
    source = layout(shape, dtype, (*strides, 1), np.dtype(dtype).itemsize)
    plan = make_plan(Normalization((0, 2, 3)), {"input": source, "output": layout(shape, dtype)})
    assert kernels(plan) == ["normalize_stream"]
    assert int(constants(plan)["GAPS"]) == gaps
    assert int(constants(plan)["BULK"]) == (gaps > 0)


def plan_of_lines(shape: tuple[int, int], dtype: str, *, own_scale: bool, **device: object) -> Plan:
    """With a scale for each element, or for each line."""
    scale = layout((1, shape[1]) if own_scale else (shape[0], 1), dtype)
    arrays = {"input": layout(shape, dtype), "output": layout(shape, dtype), "scale": scale}
    plan = make_plan(Normalization((1,)), arrays, H200._replace(**device))
    assert kernels(plan) == ["normalize_stream"]
    return plan


@pytest.mark.parametrize(
    ("shape", "dtype", "own_scale", "adders"),
    [
        ((1000, 200_001), "float16", False, "4"),
        ((500, 500_010), "float16", False, "8"),  # begins at words
        ((500, 500_010), "float16", True, "8"),
        ((200, 500_003), "float16", True, "4"),
        ((128, 1_000_003), "float32", True, "4"),
        ((128, 1_000_003), "float32", False, "8"),
        ((200, 250_003), "float64", True, "4"),
        ((60, 1_000_000), "float16", True, "8"),  # whole vectors
    ],
)
def test_adders_are_few_where_warps_need_registers(shape, dtype, own_scale, adders):
    assert constants(plan_of_lines(shape, dtype, own_scale=own_scale))["ADDERS"] == adders


def test_adders_are_few_beside_scale_of_every_element_of_halves_in_grains():
    shape = (2048, 256, 14, 18)
    arrays = {"input": layout(shape, "float16"), "output": layout(shape, "float16")}
    plan = make_plan(Normalization((0, 2, 3)), {**arrays, "scale": layout((1, *shape[1:]), "float16")})
    assert kernels(plan) == ["normalize_stream"]
    assert (constants(plan)["LOADERS"], constants(plan)["ADDERS"]) == ("4", "4")


@pytest.mark.parametrize(
    ("shape", "source", "output", "rows"),
    [
        ((1000, 200_001), "float16", "float16", "4"),
        ((1000, 200_001), "float32", "float16", "4"),
        ((1000, 200_001), "float16", "float32", "1"),
        ((300, 8193), "int16", "float64", "1"),
        ((1000, 200_002), "float16", "float16", "1"),  # begins at words
    ],
)
def test_halves_that_begin_anywhere_are_stored_together(shape, source, output, rows):
    plan = make_plan(Normalization((1,)), {"input": layout(shape, source), "output": layout(shape, output)})
    assert constants(plan)["STORED_ROWS"] == rows


def test_no_registers_are_shared_where_nothing_is_kept():
    chosen = constants(plan_of_lines((500, 500_010), "float16", own_scale=True))
    assert (chosen["OPERANDS_KEPT"], chosen["NORMALIZER_REGISTERS"], chosen["OTHER_REGISTERS"]) == ("0", "0", "0")


@pytest.mark.parametrize(("length", "registers"), [(2**22, ("216", "72")), (2**22 - 3, ("208", "88"))])
def test_fewer_wide_scales_are_kept(length, registers):
    arrays = {"input": layout((64, length)), "output": layout((64, length)), "scale": layout((1, length), "float64")}
    chosen = constants(make_plan(Normalization((1,)), arrays))
    assert chosen["OPERANDS_KEPT"] == "2"
    assert (chosen["NORMALIZER_REGISTERS"], chosen["OTHER_REGISTERS"]) == registers


@pytest.mark.parametrize(
    ("shape", "dtype", "kept", "adders", "registers"),
    [
        ((64, 2**22), "float32", 4, 2, (200, 104)),
        ((64, 2**22 - 4), "float32", 3, 4, (184, 72)),
        ((64, 2**22 - 3), "float32", 3, 4, (184, 72)),
        ((64, 2**21), "float64", 4, 2, (216, 72)),
        ((64, 2**21 - 1), "float64", 4, 2, (200, 104)),
        ((64, 2**23), "float16", 3, 4, (168, 88)),
        ((64, 2**23 - 4), "float16", 3, 4, (168, 88)),
        ((64, 2**23 - 3), "float16", 3, 4, (176, 80)),
    ],
)
def test_scale_of_elements_is_kept_in_registers_that_others_leave(shape, dtype, kept, adders, registers):
    plan = plan_of_lines(shape, dtype, own_scale=True)
    chosen = constants(plan)
    names = ("OPERANDS_KEPT", "ADDERS", "NORMALIZER_REGISTERS", "OTHER_REGISTERS")
    assert tuple(int(chosen[name]) for name in names) == (kept, adders, *registers)
    others = plan.launches[0].block // LANES - 8
    assert others == (4 if adders == 2 else 8)  # as registers are handed over by four warps
    assert LANES * (8 * registers[0] + others * registers[1]) <= 65_536  # all that a multiprocessor has
    unshared = constants(plan_of_lines(shape, dtype, own_scale=True, compute_capability=(10, 0)))
    assert (unshared["OPERANDS_KEPT"], unshared["NORMALIZER_REGISTERS"], unshared["SPARES"]) == ("2", "0", "0")


@pytest.mark.parametrize(
    ("shape", "dtype", "piece"),
    [
        ((64, 2_909_760), "float32", "8"),
        ((64, 2_673_856), "float32", "4"),
        ((64, 3_145_729), "float32", "8"),
        ((64, 2_909_761), "float32", "4"),
        ((64, 6_815_745), "float16", "8"),
        ((64, 6_291_457), "float16", "4"),
        ((64, 1_454_849), "float64", "8"),
    ],
)
def test_pieces_are_large_where_their_scale_is_kept_for_it(shape, dtype, piece):
    """Though blocks are idle then; but not if each group has its own, it is wider than elements, or groups are few."""
    assert constants(plan_of_lines(shape, dtype, own_scale=True))["PIECE"] == piece
    assert constants(plan_of_lines(shape, dtype, own_scale=True, compute_capability=(10, 0)))["PIECE"] == "4"
    wider = [] if dtype == "float64" else [layout((1, shape[1]), "float64")]
    for scale in (layout(shape, dtype), *wider):
        arrays = {"input": layout(shape, dtype), "output": layout(shape, dtype), "scale": scale}
        assert constants(make_plan(Normalization((1,)), arrays))["PIECE"] == "4"
    assert constants(plan_of_lines((7, shape[1]), dtype, own_scale=True))["PIECE"] == "4"


@pytest.mark.parametrize(
    "device",
    [
        H200._replace(cooperative_launch=False),
        H200._replace(multiprocessors=1),
        H200._replace(compute_capability=(7, 5), shared_bytes_per_block=65_536),
    ],
)
@pytest.mark.parametrize(("axes", "expected"), [((1,), "tiled_lines"), ((0,), "columns")])
def test_groups_that_the_gpu_cannot_hold_together_are_read_twice(device, axes, expected):
    plan = make_plan(Normalization(axes), {"input": layout((2048, 2**20)), "output": layout((2048, 2**20))}, device)
    assert kernels(plan) == [f"{step}_{expected}" for step in ("sum", "apply")]


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
    ("shape", "axes", "stages"),
    [
        ((2, 974_408), (1,), "4"),  # a block has two pieces of two units
        ((2, 480_000), (1,), "2"),
        ((30, 974_408), (1,), "13"),
    ],
)
def test_stages_are_no_more_than_are_used(shape, axes, stages):
    plan = make_plan(Normalization(axes), {"input": layout(shape), "output": layout(shape)})
    assert (kernels(plan), constants(plan)["STAGES"]) == (["normalize_stream"], stages)


@pytest.mark.parametrize(
    ("shape", "stages"),
    [((12, 1485, 2, 1747), "8"), ((1169, 8, 25, 131), "13")],  # the latter in larger pieces
)
def test_elements_that_are_copied_one_by_one_have_few_stages(shape, stages):
    arrays, device = {"input": layout(shape), "output": layout(shape)}, H200._replace(compute_capability=(8, 0))
    plan = make_plan(Normalization((0, 2, 3)), arrays, device)
    assert (kernels(plan), constants(plan)["STAGES"]) == (["normalize_stream"], stages)


@pytest.mark.parametrize(
    ("shape", "dtype", "gap", "crews"),
    [
        ((64, 192, 71, 71), "float16", 158, "2"),  # 10082 bytes and these are a multiple of 128
        ((64, 96, 55, 55), "float16", 46 + 112, "2"),
        ((256, 768, 17, 17), "float16", 62, "4"),  # a unit has many
        ((64, 192, 71, 71), "float32", 60, "2"),
        ((64, 96, 55, 55), "float64", 120, "2"),
        ((256, 768, 17, 17), "float32", 0, "1"),  # copied by threads
        ((64, 64, 150, 150), "float16", 0, "1"),  # by grains
        ((64, 64, 152, 152), "float16", 0, "1"),  # in whole chunks
    ],
)
def test_long_odd_runs_are_copied_one_by_one(shape, dtype, gap, crews):
    array = layout(shape, dtype)
    plan = make_plan(Normalization((0, 2, 3)), {"input": array, "output": array})
    found = constants(plan)
    assert kernels(plan) == ["normalize_stream"]
    assert (int(found["RUN_GAP"]), found["LOADER_CREWS"]) == (gap, crews)
    if gap:
        run, elements = shape[2] * shape[3] * array.dtype.itemsize, 16384 // array.dtype.itemsize
        assert (shape[1] * run - run - gap) % 128 == 0  # so each run is where it is in memory within 128 bytes
        assert int(found["GAPS"]) >= (elements // (shape[2] * shape[3]) + 2) * gap + 16
        assert int(found["STAGES"]) % int(crews) == 0
        assert found["SAME_PLACES"] == "1"


@pytest.mark.parametrize(
    ("axes", "scale", "out", "same"),
    [
        ((2, 3), None, None, "1"),
        ((2, 3), (1, 128, 1, 1), None, "1"),
        ((2, 3), (1, 1, 1, 511), None, "0"),  # a group has several scales
        ((2, 3), None, ("float16", 0), "0"),  # other elements
        ((2, 3), None, ("float32", 4), "0"),  # that begin elsewhere
        ((2, 3), None, ("float32", 16), "1"),
    ],
)
def test_results_are_taken_from_where_their_elements_lie(axes, scale, out, same):
    shape = (8, 128, 509, 511)
    arrays = {"input": layout(shape), "output": layout(shape)}
    if scale:
        strides = tuple(0 if size == 1 else 1 for size in scale)
        arrays["scale"] = layout(shape, strides=strides)
    if out:
        dtype, offset = out
        strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(4))
        arrays["output"] = layout(shape, dtype, strides, offset or 16)
    plan = make_plan(Normalization(axes), arrays)
    assert kernels(plan) == ["normalize_stream"]
    assert (constants(plan)["SAME_PLACES"], constants(plan)["KEEPS_PLACES"]) == (same, "1")


@pytest.mark.parametrize(
    ("shape", "keeps", "same"),
    [
        ((4096, 65_536), "0", "0"),
        ((4096, 65_540), "1", "1"),  # whole chunks, amid lines of the cache
        ((64, 4_194_300), "1", "0"),  # of which some have to be held
        ((64, 4_194_301), "1", "0"),
        ((300, 700_001), "1", "1"),
    ],
)
def test_units_keep_their_places_within_lines_of_the_cache(shape, keeps, same):
    found = constants(make_plan(Normalization((1,)), {"input": layout(shape), "output": layout(shape)}))
    assert (found["KEEPS_PLACES"], found["SAME_PLACES"]) == (keeps, same)
    assert int(found["HELD"]) == (2 if shape[0] == 64 else 0)


def test_units_with_their_own_scale_lie_at_the_begin_of_their_stages():
    shape = (64, 4_194_300)
    arrays = {"input": layout(shape), "output": layout(shape), "scale": layout(shape, strides=(0, 1))}
    found = constants(make_plan(Normalization((1,)), arrays))
    assert (found["KEEPS_PLACES"], found["OPERANDS_AGAIN"], found["STAGES"]) == ("0", "1", "14")


@pytest.mark.parametrize(("shape", "piece"), [((64, 192, 71, 71), "2"), ((64, 64, 147, 147), "2")])
def test_a_ring_has_room_for_two_groups_of_pieces_that_are_not_held(shape, piece):
    array = layout(shape)
    plan = make_plan(Normalization((0, 2, 3)), {"input": array, "output": array})
    assert (constants(plan)["PIECE"], constants(plan)["HELD"]) == (piece, "0")


@pytest.mark.parametrize(
    ("shape", "dtype", "step", "own", "stages"),
    [
        ((64, 96, 55, 55), np.float32, 1, False, "11"),
        ((64, 96, 55, 55), np.float16, 1, False, "11"),
        ((713, 32, 73, 75), np.float32, 1, False, "13"),  # most of what all blocks hold
        ((713, 32, 73, 75), np.float32, 1, True, "11"),
        ((713, 32, 73, 75), np.float32, 2, False, "11"),
        ((3142, 32, 59, 59), np.float16, 1, False, "13"),
        ((12, 32, 663, 663), np.float32, 1, False, None),  # read twice
        ((12, 32, 663, 663), np.float32, 2, False, "13"),
    ],
)
def test_rings_leave_first_level_cache_to_loading_threads(shape, dtype, step, own, stages):
    length = shape[-1] * step
    strides = (shape[1] * shape[2] * length, shape[2] * length, length, step)
    arrays = {"input": layout(shape, dtype, strides), "output": layout(shape, dtype)}
    if own:
        arrays["scale"] = layout(shape, dtype, tuple(0 if axis == 1 else stride for axis, stride in enumerate(strides)))
    plan = make_plan(Normalization((0, 2, 3)), arrays, H200._replace(compute_capability=(8, 0)))
    if stages is None:
        assert "normalize_stream" not in kernels(plan)
    else:
        assert (kernels(plan), constants(plan)["STAGES"]) == (["normalize_stream"], stages)


@pytest.mark.parametrize(
    ("shape", "axes", "drawn"),
    [
        ((4096, 65_536), (1,), "4"),
        ((2639, 65_536), (1,), "0"),  # less than eleven times the cache
        ((2640, 65_536), (1,), "4"),
        ((9, 88, 3, 829), (1, 2, 3), "0"),
        ((700, 1 << 20), (1,), "0"),  # few teams
    ],
)
def test_teams_draw_where_there_is_much_to_do(shape, axes, drawn):
    plan = make_plan(Normalization(axes), {"input": layout(shape), "output": layout(shape)})
    assert (kernels(plan), constants(plan)["DRAWN"]) == (["normalize_stream"], drawn)


@pytest.mark.parametrize("shape", [(200, 99_001), (100, 3_000_001), (64, 96, 55, 55)])
@pytest.mark.parametrize("scaled", [True, False])
def test_rows_that_are_stored_together_are_no_more_than_a_normalizer_has(shape, scaled):
    """Or it would store none of them."""
    axes = (1,) if len(shape) == 2 else (0, 2, 3)
    arrays = {"input": layout(shape, "float16"), "output": layout(shape, "float16")}
    if scaled:
        arrays["scale"] = layout((1, shape[1], *(1,) * (len(shape) - 2)), "float16")
    plan = make_plan(Normalization(axes), arrays)
    unit, normalizers, stored = (int(constants(plan)[name]) for name in ("UNIT_ROWS", "NORMALIZERS", "STORED_ROWS"))
    assert stored > 1
    assert unit // normalizers % stored == 0


@pytest.mark.parametrize(("dtype", "wide"), [("uint8", "float32"), ("float16", "float32"), ("float32", "float64")])
def test_wider_results_have_room_to_leave_side_by_side(dtype, wide):
    shape = (64, 2**20)
    plan = make_plan(Normalization((1,)), {"input": layout(shape, dtype), "output": layout(shape, wide)})
    found = constants(plan)
    units = int(found["STAGES"]) * int(found["UNIT_ROWS"]) * 32 * 16
    rows = int(found["NORMALIZERS"]) * 32 * 16 // np.dtype(dtype).itemsize * np.dtype(wide).itemsize
    assert plan.launches[0].shared_bytes == units + rows
