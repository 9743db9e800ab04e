"""Plans that copy the input first, without a GPU: which calls do, and how the copy is cut up."""

from __future__ import annotations

import numpy as np
import pytest
from plans import H100, constants, in_order, kernels, layout

from cudml.plan import make_plan
from cudml.plan.device import H200
from cudml.plan.gather.boxes import plan_boxes
from cudml.plan.gather.tiles import Tiles
from cudml.plan.layout import ArrayLayout, lie_across
from cudml.plan.plan import Plan, Pointer, Workspace
from cudml.plan.spec import Moments, Normalization, Scan

#: 32 images of 512 x 512.
IMAGES, ROWS = (32, 512, 512), (512 * 512, 512)


def channels(kept: int, stored: int, dtype: str, first: int = 0) -> ArrayLayout:
    """Some channels of each element of images, from number `first` on."""
    strides = (*(step * stored for step in (*ROWS, 1)), 1)
    size = np.dtype(dtype).itemsize
    return layout((*IMAGES, kept), dtype, strides, alignment=int(np.gcd(first * size, 16)))


def part(columns: int, dtype: str, kept: int = 3) -> ArrayLayout:
    """Some columns of all images, of so many channels."""
    return layout((*IMAGES[:2], columns, kept), dtype, (*(step * kept for step in ROWS), kept, 1))


def scanned(source: ArrayLayout, axis: int, dtype: str = "", alignment: int = 16) -> Plan:
    chosen = np.dtype(dtype or source.dtype)
    output = layout(source.shape, chosen.name, alignment=alignment)
    return make_plan(Scan("sum", chosen, axis), {"input": source, "output": output}, H100)


def normalized(source: ArrayLayout, axes: tuple[int, ...], output: ArrayLayout | None = None) -> Plan:
    arrays = {"input": source, "output": output or layout(source.shape, source.dtype.name)}
    return make_plan(Normalization(axes), arrays, H100)


@pytest.mark.parametrize(
    ("source", "axis", "copied"),
    [
        (channels(3, 4, "uint8"), 1, True),
        (channels(3, 4, "uint8"), 2, True),
        (channels(3, 4, "float16", 1), 2, True),
        (channels(2, 4, "float16"), 2, True),  # of which a copy moves two
        (channels(3, 4, "float32"), 1, True),
        (channels(3, 4, "float32"), 2, False),  # steps that lie near each other
        (channels(3, 4, "float32"), 0, False),  # short columns
        (channels(9, 12, "float32"), 1, False),  # more than a sector
        (channels(3, 4, "float32"), 3, False),  # lines
        (channels(3, 3, "uint8"), 1, False),  # dense
        (channels(3, 64, "uint8"), 1, False),  # sectors in the gaps
        (part(480, "float16"), 2, True),
        (part(480, "uint8", 8), 2, True),
        (part(480, "float64"), 2, False),  # more than are copied
        (part(480, "uint8", 32), 2, False),
        (part(480, "float16"), 1, False),  # columns side by side
        (layout((32, 512, 512, 3), "float32", (-512 * 1536, 1536, 3, 1)), 2, True),
        (layout((32, 512, 512, 3), "float32", (512 * 1536, 1536, 3, -1)), 2, False),  # which are copied one by one
        (layout((4096, 512), "int8", (512, -1)), 0, True),
        (layout((4096, 512), "float32", (512, -1)), 0, False),  # which are copied one by one
        (layout((4096, 512), "int8", (-512, 1)), 0, False),
        (layout((4096, 512), "float16", (1024, 2)), 0, True),
        (layout((4096, 512), "float16", (0, 2)), 0, False),
        (layout((1 << 20, 5), "float32", (8, 1)), 0, True),  # few lines
        (layout((1 << 20, 5), "float32", (8, 1)), 1, False),
        (layout((1 << 20, 5), "float32", (64, 1)), 0, False),
        (layout((1 << 20, 5), "complex128", (6, 1)), 0, False),  # wider than what is copied
        (layout((1 << 20, 5), "float32", (5, 1)), 0, False),
    ],
)
def test_scans_copy_what_they_would_load_in_pieces_of_a_sector(source: ArrayLayout, axis: int, copied: bool):
    assert (kernels(scanned(source, axis))[0] == "gather_rows") == copied


def test_little_is_not_copied():
    enough, less = (1056, 16), (1055, 16)  # 128 elements for each multiprocessor
    assert kernels(scanned(layout(enough, "int8", (32, 2)), 0))[0] == "gather_rows"
    assert kernels(scanned(layout(less, "int8", (32, 2)), 0))[0] != "gather_rows"
    enough, less = (67_584, 4), (67_583, 4)  # 2048 of each
    assert kernels(scanned(layout(enough, "int8", (6, 1)), 0))[0] == "gather_rows"
    assert kernels(scanned(layout(less, "int8", (6, 1)), 0))[0] != "gather_rows"


def test_few_rows_by_themselves_are_not_copied():
    for rows, copied in ((256, True), (255, False)):  # of 4 bytes
        source = layout((4096, rows, 3), "int8", (rows * 4 + 4, 4, 1))
        assert (kernels(scanned(source, 0))[0] == "gather_rows") == copied


def test_the_copy_lies_in_an_output_of_its_type_and_order():
    source = channels(3, 4, "uint8")
    assert scanned(source, 1).launches[0].arguments[1] == Pointer("output")
    assert scanned(source, 1, "int32").launches[0].arguments[1] == Workspace(0)
    assert scanned(source, 1, alignment=4).launches[0].arguments[1] == Workspace(0)
    turned = layout(source.shape, "uint8", (ROWS[0] * 3, 3, ROWS[1] * 3, 1))
    plan = make_plan(Scan("sum", source.dtype, 1), {"input": source, "output": turned}, H100)
    assert plan.launches[0].arguments[1] == Workspace(0)


def test_what_follows_reads_the_copy_and_has_the_workspace_behind_it():
    source = layout((64, 55, 57, 128), "float16").shape
    view = layout((64, 128, 55, 57), "float16", (55 * 57 * 128, 1, 57 * 128, 128))
    plan = normalized(view, (1, 2, 3), view)
    nbytes = 2 * int(np.prod(source))
    assert kernels(plan)[0] == "gather_tiles"
    assert plan.launches[0].arguments[:2] == (Pointer("input"), Workspace(0))
    later = [launch.arguments for part in plan.parts[1:] for launch in part.launches]
    assert all(Pointer("input") not in arguments for arguments in later)
    offsets = {a.offset for arguments in later for a in arguments if isinstance(a, Workspace)}
    assert 0 in offsets
    assert all(offset == 0 or nbytes <= offset < plan.workspace_bytes for offset in offsets)
    assert plan.workspace_bytes >= nbytes


@pytest.mark.parametrize(
    ("shape", "order", "axes", "copied"),
    [
        ((64, 128, 55, 57), (0, 2, 3, 1), (1, 2, 3), True),  # a group of channels that lie last
        ((64, 128, 56, 56), (0, 2, 3, 1), (1, 2, 3), False),  # whose columns tiles divide
        ((64, 128, 56, 56), (0, 2, 3, 1), (1,), False),
        ((64, 128, 56, 56), (0, 2, 3, 1), (2, 3), False),  # columns
        ((64, 128, 56, 56), (0, 2, 3, 1), (0, 2, 3), False),
        ((64, 56, 56, 127), (0, 3, 1, 2), (1, 2, 3), True),
        ((64, 56, 56, 128), (0, 3, 1, 2), (3,), False),  # neighbouring lines
        ((64, 3, 224, 224), (0, 2, 3, 1), (1, 2, 3), False),  # of which neighbours share sectors
        ((64, 128, 56, 56), (0, 1, 2, 3), (1, 2, 3), False),
        ((2, 32, 16, 16), (0, 2, 3, 1), (1, 2, 3), False),  # small
    ],
)
def test_groups_whose_elements_lie_in_another_order_are_copied(
    shape: tuple[int, ...], order: tuple[int, ...], axes: tuple[int, ...], copied: bool
):
    strides = [0] * 4
    for place, axis in enumerate(order):
        strides[axis] = int(np.prod([shape[inner] for inner in order[place + 1 :]]))
    view = layout(shape, strides=tuple(strides))
    assert ("gather_tiles" in kernels(normalized(view, axes, view))) == copied
    moments = layout(tuple(1 if axis in axes else size for axis, size in enumerate(shape)))
    plan = make_plan(Moments(axes), {"input": view, "mean": moments, "variance": moments}, H100)
    assert ("gather_tiles" in kernels(plan)) == copied


@pytest.mark.parametrize(("between", "copied"), [(23, False), (95, False), (97, True)])
def test_moments_read_groups_as_they_lie_where_a_cache_keeps_what_is_between(between: int, copied: bool):
    shape = (128, 42, 32, between)
    view = layout(shape, "float16", (42 * between * 32, between * 32, 1, 32))
    moments = layout((1, 42, 1, 1), "float16")
    plan = make_plan(Moments((0, 2, 3)), {"input": view, "mean": moments, "variance": moments}, H200)
    assert ("gather_tiles" in kernels(plan)) == copied
    assert kernels(normalized(view, (0, 2, 3), view))[0] == "gather_tiles"


@pytest.mark.parametrize(
    ("source", "axis", "expected"),
    [
        (channels(3, 4, "uint8"), 1, ("3", "4", "1", "4096", "1")),
        (layout((4096, 512), "int8", (512, -1)), 0, ("512", "512", "-1", "32", "1")),
        (layout((1024, 2048), "int8", (16384, -1)), 0, ("1", "-1", "1", "16384", "1")),  # far apart
        (layout((4096, 513), "int8", (520, 1), 1), 0, None),  # shifted
        (part(480, "float16"), 2, ("1440", "1536", "1", "4", "1")),
        (part(128, "float16"), 2, ("384", "1536", "1", "4", "1")),
        (part(127, "float64"), 2, ("1", "1", "1", "2048", "1")),  # a block for each row
        (layout((513, 277, 3), "int8", (277 * 4 + 40, 4, 1)), 0, ("3", "4", "1", "4096", "0")),
        (layout((513, 77, 3), "float32", (77 * 4 + 40, 4, 1)), 0, ("3", "4", "1", "1024", "1")),
    ],
)
def test_how_rows_are_cut(source: ArrayLayout, axis: int, expected: tuple[str, ...] | None):
    plan = scanned(source, axis)
    names = ("INNER", "PITCH", "ROW_STEP", "ROWS", "WHOLE_WORDS")
    found = constants(plan)
    assert (tuple(found[name] for name in names) if "ROW_STEP" in found else None) == expected


@pytest.mark.parametrize(
    ("strides", "axes", "copied"),
    [
        ((512 * 512 * 3, 512 * 3, -3, 1), (1, 2), True),  # images turned round
        ((512 * 512 * 3, -512 * 3, 3, 1), (0, 1, 2), True),
        ((512 * 512 * 3, 512 * 3, 3, 1), (1, 2), False),
        ((512 * 512 * 4, 512 * 4, 4, 1), (1, 2), False),  # one stride
        ((512 * 512 * 3, 512 * 3, -3, 1), (1, 2, 3), False),  # no columns
        ((600 * 600 * 3, 600 * 3, 3, 1), (1, 2), True),  # parts of images, with sectors between their rows
        ((600 * 600 * 3, 600 * 3, 3, 1), (0, 1, 2), True),
        ((600 * 600 * 3, 600 * 3, 3, 1), (2,), True),
        ((600 * 600 * 3, 600 * 3, 3, 1), (3,), False),
    ],
)
def test_narrow_columns_whose_steps_lie_apart_are_copied(strides: tuple[int, ...], axes: tuple[int, ...], copied: bool):
    view = layout((32, 512, 512, 3), "float16", strides)
    assert ("gather_rows" in kernels(normalized(view, axes))) == copied


@pytest.mark.parametrize(
    ("source", "axes", "copied"),
    [
        (part(480, "float32", 4), (1, 2), True),
        (part(480, "float32", 5), (1, 2), False),  # rows of more than 16 bytes
        (layout((32, 512, 480, 5), "float32", (512 * 2560, 2560, -5, 1)), (1, 2), True),  # but turned round
        (part(480, "float32"), (2,), False),  # short columns of floats
        (part(480, "float16", 12), (2,), False),  # long ones
        (layout((2816, 32, 3), "float16", (120, 3, 1)), (1,), True),
        (layout((2815, 32, 3), "float16", (120, 3, 1)), (1,), False),  # few
        (layout((2816, 32, 3), "float16", (-120, 3, 1)), (1,), False),
        (layout((2816, 32, 3), "float16"), (1,), False),  # dense
    ],
)
def test_which_parts_of_arrays_are_copied(source: ArrayLayout, axes: tuple[int, ...], copied: bool):
    assert ("gather_rows" in kernels(normalized(source, axes))) == copied


def test_panels_with_gaps_are_not_copied_for_an_output_that_has_some_too():
    source = part(480, "float16")
    plan = make_plan(Scan("sum", source.dtype, 2), {"input": source, "output": source}, H100)
    assert "gather_rows" not in kernels(plan)


@pytest.mark.parametrize(
    ("shape", "order", "dtype", "filled"),
    [
        ((64, 64), (1, 0), "float32", True),
        ((210_092, 49), (1, 0), "float16", True),
        ((210_092, 47), (1, 0), "float16", False),
        ((6274, 93, 47), (2, 0, 1), "float16", False),  # which is a matrix too
        ((6274, 64, 22), (0, 2, 1), "float16", True),
        ((6274, 64, 21), (0, 2, 1), "float16", False),
        ((6274, 64, 21), (0, 2, 1), "float32", True),  # narrower tiles
    ],
)
def test_tiles_of_which_little_exists_are_no_tiles(
    shape: tuple[int, ...], order: tuple[int, ...], dtype: str, filled: bool
):
    source = in_order(shape, order, dtype)
    tiles = Tiles.of(source, layout(shape, dtype), range(len(shape)), H200)
    assert tiles is not None
    assert tiles.are_filled == filled


@pytest.mark.parametrize(
    ("shape", "order", "axis", "dtype", "first"),
    [
        ((36, 8128, 24), (2, 1, 0), 2, "float32", "gather_tiles"),
        ((11, 8192, 24), (2, 1, 0), 2, "float32", "gather_boxes"),  # short axes
        ((44, 256, 24), (2, 1, 0), 2, "float32", "gather_tiles"),  # 2048 elements for each multiprocessor
        ((44, 255, 24), (2, 1, 0), 2, "float32", ""),
        ((44, 64, 24), (2, 1, 0), 2, "float16", "gather_boxes"),  # 512
        ((44, 63, 24), (2, 1, 0), 2, "float16", ""),
        ((44, 1023, 24), (2, 1, 0), 2, "int8", ""),  # less than 8192
        ((44, 511, 24), (2, 1, 0), 2, "float64", ""),  # less than 4096
        ((36, 8128, 24), (0, 1, 2), 2, "float32", ""),
        ((36, 8128, 24), (1, 0, 2), 2, "float32", ""),  # neighbours in both
        ((36, 8128, 32), (0, 2, 1), 2, "float64", ""),  # neighbouring lines in both
        ((8128, 36, 24), (1, 2, 0), 0, "float32", ""),
        ((4, 2, 399104, 2), (1, 3, 2, 0), 3, "float32", ""),  # two for each sector
        ((4096, 2048), (1, 0), 0, "float32", ""),  # tiles are turned
        ((4095, 2048), (1, 0), 0, "float16", "gather_tiles"),
        ((4096, 2048), (1, 0), 0, "float16", ""),  # whole vectors
        ((4096, 2044), (1, 0), 0, "float16", ""),  # inputs are neighbours along lines, so their rows do not matter
        ((1024, 1024), (1, 0), 0, "float16", "gather_tiles"),  # of few elements
        ((4096, 2048), (1, 0), 1, "float16", ""),
        ((8192, 1020), (1, 0), 1, "float16", "gather_tiles"),
        ((4096, 1024), (1, 0), 1, "float16", "gather_tiles"),
        ((4096, 2048), (1, 0), 1, "int8", "gather_tiles"),
        ((4096, 2048), (1, 0), 0, "int8", ""),
        ((12000, 48), (1, 0), 1, "float32", "gather_boxes"),  # 192 bytes of a line
        ((12000, 49), (1, 0), 1, "float32", ""),
        ((47, 12000), (1, 0), 0, "float32", "gather_boxes"),
        ((49, 12000), (1, 0), 0, "float32", ""),
        ((48, 12000), (1, 0), 0, "float32", ""),  # in whole vectors
        ((2048, 256), (1, 0), 1, "float32", "gather_tiles"),  # less than 4096 elements for each multiprocessor
        ((2200, 256), (1, 0), 1, "float32", ""),
        ((2048, 256), (1, 0), 0, "float32", ""),
        ((33_800, 8), (1, 0), 1, "float32", "gather_boxes"),  # which nothing turns
        ((33_700, 8), (1, 0), 1, "float32", ""),
        ((40_000, 7), (1, 0), 1, "float32", ""),
        ((68_000, 4), (1, 0), 1, "int8", "gather_boxes"),
        ((68_000, 3), (1, 0), 1, "int8", ""),
        ((8, 102_000), (1, 0), 1, "float32", ""),  # few lines
        ((8, 203_000), (1, 0), 1, "float32", "gather_boxes"),
        ((7, 500_000), (1, 0), 1, "float32", ""),
        ((4, 3_300_000), (1, 0), 1, "float32", "gather_boxes"),
        ((8, 405_000), (1, 0), 1, "float16", ""),
        ((8, 406_000), (1, 0), 1, "float16", "gather_boxes"),
        ((8, 8_000_000), (1, 0), 1, "int8", ""),
        ((102_000, 8), (1, 0), 0, "float32", "gather_boxes"),
        ((101_000, 8), (1, 0), 0, "float32", ""),
        ((200_000, 7), (1, 0), 0, "float32", ""),
        ((812_000, 4), (1, 0), 0, "float32", "gather_boxes"),
        ((2_000_000, 3), (1, 0), 0, "float32", ""),
    ],
)
def test_scans_into_another_order(shape: tuple[int, ...], order: tuple[int, ...], axis: int, dtype: str, first: str):
    arrays = {"input": in_order(shape, order, dtype), "output": layout(shape, dtype)}
    plan = make_plan(Scan("sum", np.dtype(dtype), axis), arrays, H100)
    found = kernels(plan)[0]
    assert found == first if first else not found.startswith("gather")
    if first:
        assert plan.launches[0].arguments[:2] == (Pointer("input"), Pointer("output"))
        assert plan.workspace_bytes == 0


@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "pitch"),
    [
        ((4099, 4097), 0, "float16", 4160),
        ((4099, 4097), 1, "float16", 4160),
        ((2, 4099, 4097), 1, "float16", 4160),
        ((3, 1400, 35, 31), 1, "float16", 1088),  # rows of several axes
        ((4099, 1023), 0, "float16", 1023),
        ((4099, 4104), 0, "float16", 4104),  # whole vectors
        ((1024, 2047), 0, "float16", 2047),  # few elements
        ((4099, 4097), 0, "int8", 4097),
    ],
)
def test_rows_of_copied_halves_begin_with_a_line_of_the_cache(
    shape: tuple[int, ...], axis: int, dtype: str, pitch: int
):
    source = in_order(shape, tuple(reversed(range(len(shape)))), dtype)
    plan = make_plan(Scan("sum", source.dtype, axis), {"input": source, "output": layout(shape, dtype)}, H200)
    inner = 2 if len(shape) == 4 else 1
    row = int(np.prod(shape[-inner:]))
    dense = int(np.prod(shape)) * source.dtype.itemsize
    begin = plan.launches[0].arguments[1]
    assert begin == (Workspace(0) if pitch != row else Pointer("output"))
    if pitch != row:
        assert plan.workspace_bytes >= dense + (int(np.prod(shape)) // row - 1) * (pitch - row) * source.dtype.itemsize


def test_scans_into_a_wider_type_in_another_order():
    shape = (36, 8128, 24)
    arrays = {"input": in_order(shape, (2, 1, 0), "int8"), "output": layout(shape, "int64")}
    plan = make_plan(Scan("sum", np.dtype(np.int64), 2), arrays, H100)
    assert plan.launches[0].arguments[:2] == (Pointer("input"), Workspace(0))
    assert plan.workspace_bytes >= np.prod(shape)


@pytest.mark.parametrize(
    ("shape", "order", "axes", "dtype", "expected"),
    [
        ((256, 77, 255, 6), (2, 1, 3, 0), (0, 1, 2), "float32", ["gather_tiles", "gather_boxes"]),  # not into tiles
        ((9, 77, 4096), (2, 1, 0), (0, 1, 2), "float16", ["gather_boxes", "gather_boxes"]),
        ((91448, 401), (1, 0), (0, 1), "float32", ["gather_tiles", "apply_turned"]),
        ((91448, 401), (1, 0), (0, 1), "float16", ["gather_tiles", "gather_boxes"]),
        ((1, 32, 33, 128), (0, 3, 2, 1), (1, 3), "float16", ["gather_tiles", "gather_boxes"]),
        ((1, 32, 33, 127), (0, 3, 2, 1), (1, 3), "float16", ["gather_tiles", "normalize_lines"]),  # few elements
        ((553092, 6, 4), (2, 1, 0), (0, 1), "float32", []),  # few between neighbours
        ((4096, 17, 4, 63), (0, 3, 2, 1), (1, 3), "float32", ["gather_tiles", "apply_turned"]),
        ((4096, 7, 64, 2340), (0, 3, 2, 1), (1, 3), "float32", []),  # groups that a block keeps
        ((4096, 7, 64, 2341), (0, 3, 2, 1), (1, 3), "float32", ["gather_tiles", "gather_boxes"]),
    ],
)
def test_groups_that_lie_across_are_copied_and_copied_back(
    shape: tuple[int, ...], order: tuple[int, ...], axes: tuple[int, ...], dtype: str, expected: list[str]
):
    view = in_order(shape, order, dtype)
    found = kernels(normalized(view, axes, view))
    if expected:
        assert [found[0], found[-1]] == expected
    else:
        assert not any(kernel.startswith("gather") for kernel in found)


def test_groups_that_fill_no_tiles_are_copied_in_boxes():
    view = in_order((2900, 33, 21), (0, 2, 1), "float16")
    assert kernels(normalized(view, (1, 2), view))[0] == "gather_boxes"


@pytest.mark.parametrize(
    ("shape", "order", "axes", "across"),
    [
        ((40, 30, 8), (0, 2, 1), (1, 2), True),
        ((40, 30, 8), (0, 1, 2), (1, 2), False),  # in their order
        ((40, 30, 8), (0, 2, 1), (2,), False),  # side by side
        ((40, 7, 8), (0, 2, 1), (1, 2), False),  # neighbours in a sector
        ((40, 30, 1), (0, 2, 1), (1, 2), False),
    ],
)
def test_groups_lie_across(shape: tuple[int, ...], order: tuple[int, ...], axes: tuple[int, ...], across: bool):
    assert lie_across(axes, in_order(shape, order)) == across


def test_groups_in_their_order_do_not_lie_across_however_far_apart_their_elements_are():
    assert not lie_across((1, 2), layout((40, 30, 8), strides=(1920, 64, 8)))


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_what_is_copied_back_is_computed_in_the_workspace(dtype: str):
    shape, order, axes = (256, 77, 255, 6), (2, 1, 3, 0), (0, 1, 2)
    plan = normalized(in_order(shape, order, dtype), axes, in_order(shape, order))
    first, *middle, last = [launch.arguments for part in plan.parts for launch in part.launches]
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    result = Workspace(0 if dtype == "float32" else nbytes)  # in the place of the copy if it is as large
    assert (first[:2], last[:2]) == ((Pointer("input"), Workspace(0)), (result, Pointer("output")))
    named = {a for arguments in middle for a in arguments if isinstance(a, Pointer)}
    assert named.isdisjoint({Pointer("input"), Pointer("output")})
    end = result.offset + 4 * int(np.prod(shape))
    offsets = {a.offset for arguments in middle for a in arguments if isinstance(a, Workspace)}
    assert all(offset in (0, result.offset) or end <= offset < plan.workspace_bytes for offset in offsets)
    assert plan.workspace_bytes >= end


@pytest.mark.parametrize(
    ("shape", "order", "axes", "dtype", "first"),
    [
        ((11, 300_000), (1, 0), (0,), "float16", "gather_boxes"),
        ((11, 300_000), (1, 0), (0,), "float32", ""),
        ((11, 300_000), (0, 1), (1,), "float16", ""),
        ((11, 12_500), (1, 0), (0,), "float16", "gather_boxes"),
        ((11, 12_200), (1, 0), (0,), "float16", ""),  # few elements
        ((11, 300_000), (1, 0), (1,), "float32", "gather_boxes"),  # columns
        ((11, 12_500), (1, 0), (1,), "float32", "gather_boxes"),
        ((11, 6100), (1, 0), (1,), "float32", ""),  # few elements
        ((11, 6200), (1, 0), (1,), "float64", "gather_boxes"),
        ((4, 2, 128, 1100), (1, 2, 3, 0), (1,), "float64", "gather_boxes"),  # scattered
        ((4, 2, 128, 500), (1, 2, 3, 0), (1,), "float64", ""),
        ((16, 300_000), (1, 0), (1,), "float32", ""),  # turned in tiles
        ((8, 300_000), (1, 0), (1,), "float16", "gather_boxes"),  # two for each sector
        ((139, 61, 329), (1, 0, 2), (1,), "float16", ""),  # neighbours in both
        ((263, 61, 329), (0, 2, 1), (1,), "float16", "gather_tiles"),
        ((65536, 4096), (1, 0), (1,), "float16", ""),  # which is read once
    ],
)
def test_halves_and_columns_into_another_order(
    shape: tuple[int, ...], order: tuple[int, ...], axes: tuple[int, ...], dtype: str, first: str
):
    plan = normalized(in_order(shape, order, dtype), axes)
    found = kernels(plan)
    assert found[0] == first if first else not found[0].startswith("gather")
    if first:
        assert plan.launches[0].arguments[1] == Pointer("output")


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "first"),
    [
        ((2048, 4, 32), (0, 2), "float32", "gather_boxes"),  # two steps
        ((2048, 4, 7), (0, 2), "float32", ""),  # few of a group side by side
        ((2048, 15, 16), (0, 2), "float32", "gather_boxes"),
        ((4096, 12, 8), (0, 2), "float32", ""),
        ((65_536, 2, 32), (2,), "float32", "gather_boxes"),  # one launch
        ((65_536, 2, 15), (2,), "float32", ""),
        ((16_384, 4, 128), (2,), "float32", ""),  # that keeps 512 elements
        ((16_384, 4, 129), (2,), "float32", "gather_boxes"),
        ((2048, 4, 256), (2,), "float32", "gather_boxes"),
        ((1024, 4, 256), (2,), "float32", ""),  # and 1024 of few
        ((16_384, 8, 32), (2,), "float32", "gather_boxes"),  # more than a sector
        ((9039, 4, 232), (0, 1), "float32", "gather_boxes"),  # elements of a group lie side by side
        ((1000, 4, 232), (0, 1), "float32", ""),
        ((1000, 4, 232), (0, 1), "float16", "gather_boxes"),
        ((500, 4, 232), (0, 1), "float16", ""),
        ((1, 12, 300_000), (0, 1), "float32", ""),  # which are lines
        ((9039, 15, 232), (0, 1), "float32", "gather_boxes"),
        ((9039, 16, 232), (0, 1), "float32", ""),  # turned in tiles
        ((9039, 4, 31), (0, 1), "float32", ""),  # few groups side by side
        ((512, 16, 128), (2,), "float32", "gather_tiles"),  # few elements that tiles would turn
        ((4096, 16, 128), (2,), "float32", ""),
        ((65_536, 16, 16), (2,), "float16", "gather_boxes"),  # short runs of halves
        ((65_536, 16, 8), (2,), "float16", ""),
    ],
)
def test_channels_last_into_channels_first(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, first: str):
    plan = make_plan(
        Normalization(axes), {"input": in_order(shape, (0, 2, 1), dtype), "output": layout(shape, dtype)}, H200
    )
    found = kernels(plan)[0]
    assert found == first if first else not found.startswith("gather")


@pytest.mark.parametrize(
    ("shape", "order", "axes", "alike", "expected"),
    [
        ((4118, 4, 2, 208), (0, 3, 1, 2), (2, 3), False, ["normalize_short_lines"]),  # that a block keeps
        ((1157, 2, 8, 620), (1, 0, 3, 2), (2, 3), True, ["gather_boxes", "normalize_lines", "gather_boxes"]),
        ((11, 2, 8, 620), (1, 0, 3, 2), (2, 3), True, ["normalize_clustered_lines"]),  # of few elements
        ((98, 2, 60, 531), (0, 2, 3, 1), (0, 1, 2), True, ["gather_boxes", "normalize_lines", "gather_boxes"]),
    ],
)
def test_rows_whose_gaps_are_full_are_not_copied_as_rows(
    shape: tuple[int, ...], order: tuple[int, ...], axes: tuple[int, ...], alike: bool, expected: list[str]
):
    view = in_order(shape, order)
    assert kernels(normalized(view, axes, view if alike else None)) == expected


def test_moments_in_sectors_side_by_side_are_found_uncopied():
    for length, copied in ((224, False), (65_536, True)):
        view = in_order((200, 4, 2, length), (0, 3, 2, 1))
        output = layout((200, 1, 1, 1), "float32")
        plan = make_plan(Moments((1, 2, 3)), {"input": view, "mean": output, "variance": output}, H200)
        assert (kernels(plan)[0] == "gather_boxes") == copied


@pytest.mark.parametrize(("channels", "held"), [(128, False), (255, True), (256, True)])
def test_tiles_that_are_not_filled_across_are_not_held(channels: int, held: bool):
    shape = (32_768, channels, 64)
    plan = make_plan(
        Normalization((2,)), {"input": in_order(shape, (0, 2, 1)), "output": layout(shape, "float32")}, H200
    )
    assert (kernels(plan) == ["normalize_held"]) == held


def boxes(plan: Plan) -> dict[str, str]:
    names = ("BOX", "FROM_INNER", "OF_RUN", "OF_ROW", "LOADED", "STORED", "PITCH", "IN_BOXES", "CUT")
    found = constants(plan)
    return {name: found[name] for name in names}


def boxes_of(shape: tuple[int, ...], order: tuple[int, ...], dtype: str) -> dict[str, str]:
    """Of a copy in C order."""
    source, copy = in_order(shape, order, dtype), layout(shape, dtype)
    plan = plan_boxes(source, copy, range(len(shape)), Pointer("input"), Workspace(0))
    assert plan is not None
    return boxes(plan)


def test_how_boxes_are_cut():
    found = boxes_of((3, 1008208), (1, 0), "float32")
    # 2048 elements at least, of which three follow each other in the array; a row has more than a block has threads
    assert found["BOX"] == "3,716"
    assert (found["FROM_INNER"], found["OF_RUN"], found["OF_ROW"]) == ("0,1", "1", "0")
    assert (found["PITCH"], found["IN_BOXES"], found["CUT"]) == ("717", "2", "2")
    assert boxes_of((6, 41, 104), (2, 1, 0), "float64")["BOX"] == "6,6,104"
    assert boxes_of((13, 16, 31, 8), (0, 3, 1, 2), "float64")["BOX"] == "3,124,8"  # 3,248,8 takes 53 KB
    assert boxes_of((64, 64), (1, 0), "float32")["CUT"] == "0"


def test_boxes_move_words_where_all_begin_with_one():
    def moved(shape: tuple[int, ...], dtype: str) -> tuple[str, str]:
        found = boxes_of(shape, (2, 1, 0), dtype)
        return found["LOADED"], found["STORED"]

    assert moved((8, 100, 3000), "int8") == ("4", "4")
    assert moved((8, 100, 3000), "float16") == ("2", "2")
    assert moved((8, 100, 3000), "float32") == ("1", "1")
    assert moved((9, 100, 3000), "float16") == ("1", "2")
    assert moved((6, 100, 3001), "int8") == ("2", "1")


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_a_box_fits_a_block(dtype: str):
    random, size = np.random.default_rng(11), np.dtype(dtype).itemsize
    short = [2, 3, 4, 5, 8, 23, 47, 48, 95, 96]  # just less than what will do, and more
    for _ in range(2000):
        rank = int(random.integers(2, 6))
        long = (2 ** random.uniform(1, 24 / rank, rank)).astype(int)
        shape = tuple(int(n) for n in np.where(random.random(rank) < 0.6, random.choice(short, rank), long))
        order = tuple(int(axis) for axis in random.permutation(rank))
        if in_order(shape, order, dtype).strides == layout(shape, dtype).strides:
            continue
        found = boxes_of(shape, order, dtype)
        box = [int(part) for part in found["BOX"].split(",")]
        row = np.prod(box[len(box) - max(int(found["OF_ROW"]), 1) :])
        assert int(found["PITCH"]) >= row
        assert np.prod(box) // row * int(found["PITCH"]) * size <= 48 * 1024
        from_inner, to_inner = [int(axis) for axis in found["FROM_INNER"].split(",")], [*range(len(box))][::-1]
        for inner, axes, moved in ((from_inner, "OF_RUN", "LOADED"), (to_inner, "OF_ROW", "STORED")):
            places = np.prod([box[axis] for axis in inner[: int(found[axes])]]) // int(found[moved])
            assert found[axes] == "0" or places <= 256


def test_repeated_elements_are_not_copied_in_boxes():
    source = layout((64, 5, 999), "float32", (0, 1, 5))
    assert plan_boxes(source, layout((64, 5, 999)), range(3), Pointer("input"), Workspace(0)) is None
