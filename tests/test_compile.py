"""Kernels compile for all supported compute capabilities without a warning, on machines without a GPU too."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from plans import in_order

from cudml.cuda import sources
from cudml.cuda.compiler import OPTIONS, CompileError, compile_cubin, compile_options
from cudml.plan import make_plan
from cudml.plan.activation import PARAMETERS, Activation
from cudml.plan.device import H200, RESERVED_BYTES, DeviceProperties
from cudml.plan.gather import plan_on_copy
from cudml.plan.layout import ArrayLayout
from cudml.plan.plan import KERNELS, Plan
from cudml.plan.spec import Modulus, Moments, Normalization, Scan, SegmentedScan

nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="CuPy, which binds NVRTC, is not installed")
ml_dtypes = pytest.importorskip("ml_dtypes")

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
#: For this one every third variant is compiled, and every second one for one of the others, unless all shall be: that
#: takes a minute for each.
FASTEST = "sm_90a"
INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
FLOATS = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]
COMPLEX = [np.dtype(np.complex64), np.dtype(np.complex128)]
F32 = np.dtype(np.float32)


def dense(shape: tuple[int, ...], dtype: np.dtype) -> ArrayLayout:
    return ArrayLayout(shape, np.empty(shape, np.dtype((np.void, dtype.itemsize))).strides, dtype, 16)


def device_of(architecture: str) -> DeviceProperties:
    """A GPU of the architecture, with the threads and the shared memory that CUDA documents."""
    major, minor = divmod(int(architecture.removeprefix("sm_").removesuffix("a")), 10)
    kilobytes = {(7, 5): 64, (8, 0): 163, (8, 6): 99, (8, 9): 99, (12, 0): 99}.get((major, minor), 227)
    threads = {(7, 5): 1024, (8, 6): 1536, (8, 9): 1536, (12, 0): 1536}.get((major, minor), 2048)
    return H200._replace(
        compute_capability=(major, minor),
        shared_bytes_per_block=kilobytes * 1024,
        threads_per_multiprocessor=threads,
    )


def scan_plans(device: DeviceProperties = H200) -> Iterator[Plan]:
    def plan(spec: Scan | SegmentedScan, **arrays: ArrayLayout) -> Plan:
        return make_plan(spec, arrays, device)

    shape = (64, 512)
    for dtype in [np.dtype(bool), *INTEGERS, *FLOATS, *COMPLEX]:
        source = dense(shape, dtype)
        yield plan(Scan("sum", dtype, 1), input=source, output=source)
    source = dense(shape, F32)
    odd = ArrayLayout((8, 8, 8), (1030, 2, 70), F32, 1)
    for dtype in (F32, COMPLEX[0], INTEGERS[0]):
        yield plan(Scan("product", dtype, 1, reverse=True, exclusive=True), input=source, output=source)
    yield plan(Scan("sum", F32, 0, initial=True), input=source, output=dense((65, 512), F32))
    flat = dense((4000, 100), F32)
    yield plan(Scan("sum", F32, 1), input=flat, output=flat)
    tall, long, short = dense((9000, 64), F32), dense((300, 9001), F32), dense((64, 7), INTEGERS[0])
    yield plan(Scan("sum", F32, 0), input=tall, output=tall)
    yield plan(Scan("sum", INTEGERS[3], 1), input=short, output=dense((64, 7), INTEGERS[3]))
    for dtype in (F32, FLOATS[0], COMPLEX[1]):
        rows = dense((64, 600), dtype)
        columns = ArrayLayout((64, 600), (dtype.itemsize, 64 * dtype.itemsize), dtype, 16)
        yield plan(Scan("sum", dtype, 1, reverse=True), input=rows, output=columns)
        yield plan(Scan("sum", dtype, 1), input=columns, output=rows)
    for shape, dtype in (
        ((1, 4_000_000), "i1"),
        ((12, 4_000_000), "i1"),
        ((24, 4_000_000), "f2"),
        ((20, 1_000_001), "f4"),
    ):
        large = dense(shape, np.dtype(dtype))
        for forward in (False, True):
            spec = Scan("sum" if forward else "product", large.dtype, 0, reverse=not forward, exclusive=not forward)
            yield plan(spec, input=large, output=large)
    for dtype, forward in itertools.product((F32, FLOATS[3]), (False, True)):
        lines = dense((64, 800_016 // dtype.itemsize), dtype)
        yield plan(Scan("sum", dtype, 1, reverse=not forward), input=lines, output=lines)
    few = device._replace(multiprocessors=1)
    for dtype, even in itertools.product((F32, FLOATS[0], FLOATS[3], COMPLEX[1]), (False, True)):
        many = dense((320 if even else 301, 2000), dtype)
        yield make_plan(Scan("sum", dtype, 0, reverse=even), {"input": many, "output": many}, few)
    for dtype, forward in itertools.product((F32, INTEGERS[3], COMPLEX[1]), (False, True)):
        wide = dense((300, 16_384 // dtype.itemsize), dtype)
        spec = Scan("sum", dtype, 0, reverse=not forward, exclusive=not forward)
        yield make_plan(spec, {"input": wide, "output": wide}, few)
    for dtype, length in itertools.product((FLOATS[0], F32, FLOATS[3], INTEGERS[0], np.dtype(bool)), (7, 100, 600)):
        panels = dense((999, length, 5), dtype)
        for forward in (False, True):
            yield plan(Scan("sum", dtype, 1, reverse=not forward, exclusive=forward), input=panels, output=panels)
        yield plan(Scan("product", dtype, 1), input=panels, output=dense(panels.shape, COMPLEX[0]))
    shifted = dense((9000, 65), F32)
    yield plan(Scan("sum", F32, 0), input=shifted, output=shifted)
    for dtype, length in itertools.product((FLOATS[0], F32, FLOATS[3], INTEGERS[0], np.dtype(bool)), (3, 33, 601)):
        lines = dense((999, length), dtype)
        for forward in (False, True):
            yield plan(Scan("sum", dtype, 1, reverse=not forward, exclusive=forward), input=lines, output=lines)
    linked = dense((3, 9001), F32)
    for dtype in (FLOATS[0], F32, COMPLEX[1]):
        yield plan(Scan("sum", dtype, 1, reverse=True), input=long, output=dense((300, 9001), dtype))
        yield plan(Scan("sum", dtype, 1), input=linked, output=dense((3, 9001), dtype))
    yield plan(Scan("sum", FLOATS[3], None), input=odd, output=dense((512,), COMPLEX[1]))
    yield plan(Scan("sum", F32, 1), input=odd, output=dense((8, 8, 8), FLOATS[1]))
    huge = ArrayLayout((2**31,), (4,), F32, 16)
    yield plan(Scan("sum", F32, 0), input=huge, output=huge)
    offsets = dense((9,), np.dtype(np.int64))
    for line, reverse in itertools.product((dense((5000,), F32), dense((2_000_000,), F32)), (False, True)):
        spec = SegmentedScan("sum", F32, reverse=reverse, exclusive=reverse)
        yield plan(spec, input=line, output=line, offsets=offsets)


def normalization_plans(device: DeviceProperties) -> Iterator[Plan]:
    shape = (40, 1000)
    for dtype in [np.dtype(bool), INTEGERS[0], *FLOATS]:
        target = dense(shape, dtype if dtype in FLOATS else FLOATS[3])
        moment = dense((40, 1), target.dtype)
        arrays = {"input": dense(shape, dtype), "output": target, "scale": dense((1000,), FLOATS[0]), "bias": FLOATS[3]}
        yield make_plan(Normalization((1,)), {**arrays, "mean": moment, "variance": moment})
    source = dense(shape, F32)
    for name in PARAMETERS:
        yield make_plan(Normalization((0,), activation=Activation.named(name)), {"input": source, "output": source})
    alone = device._replace(cooperative_launch=False)
    for shape, axes in (((2, 90_000), (1,)), ((90, 10), (1,)), ((90_000, 40), (0,)), ((9, 5, 9, 7), (0, 2))):
        array = dense(shape, F32)
        for able in (device, alone):
            yield make_plan(Normalization(axes), {"input": array, "output": array}, able)
    large = (((3, 90_000), (1,)), ((64, 6, 4096), (0, 2)), ((5000, 256), (0,)), ((9, 3, 700, 64), (0, 2)))
    large += (((300, 40_000), (1,)),)
    large_bytes = [(INTEGERS[0], case) for case in (*large[:-1], ((40, 1000), (1,)), ((8, 20_001), (1,)))]
    for dtype, (shape, axes) in (*large_bytes, *itertools.product(FLOATS, large)):
        array, target = dense(shape, dtype), dense(shape, dtype if dtype in FLOATS else F32)
        yield make_plan(Normalization(axes), {"input": array, "output": target, "scale": FLOATS[3]}, device)
    for dtype, (down, across) in itertools.product(FLOATS, ((20, 70_000), (70_000, 20))):
        turned = ArrayLayout((down, across), (dtype.itemsize, down * dtype.itemsize), dtype, 16)
        arrays = {"input": turned, "output": dense((down, across), dtype), "scale": FLOATS[3]}
        yield make_plan(Normalization((0 if down < across else 1,)), arrays, device)
    for dtype, rows in itertools.product(FLOATS, (66, 150, 300)):
        length = rows * 512 // dtype.itemsize
        array, row = dense((8, length), dtype), dense((length,), dtype)
        yield make_plan(Normalization((1,)), {"input": array, "output": array, "scale": row, "bias": row}, device)
    for dtype in FLOATS:
        shape, size = (6, 1024, 64), dtype.itemsize
        padded = ArrayLayout(shape, (1024 * 65 * size, 65 * size, size), dtype, size)
        yield make_plan(Normalization((1, 2)), {"input": padded, "output": dense(shape, dtype)}, device)
        array, row = dense((3, 2**24 // size), dtype), dense((2**24 // size,), dtype)
        yield make_plan(Normalization((1,)), {"input": array, "output": array, "scale": row, "bias": row}, device)
    for dtype, scale in itertools.product(FLOATS, ((5120, 1), (1, 512))):
        shape, size = (5120, 512), dtype.itemsize
        turned, few = ArrayLayout(shape, (size, 5120 * size), dtype, 16), device._replace(multiprocessors=14)
        padded = ArrayLayout(shape, (513 * size, size), dtype, size)
        apart = ArrayLayout(shape, (1024 * size, 2 * size), dtype, size)
        whole, operand = dense(shape, dtype), dense(scale, dtype)
        for source, output in ((turned, whole), (whole, turned), (padded, whole), (apart, whole)):
            yield make_plan(Normalization((0,)), {"input": source, "output": output, "scale": operand}, few)
    in_clusters = [(dtype, device) for dtype in FLOATS]
    for dtype, given in (*in_clusters, (F32, device._replace(multiprocessors=1))):  # that one in bundles
        array = dense((1050, 32), dtype)
        yield make_plan(Normalization((0,)), {"input": array, "output": array, "scale": FLOATS[3]}, given)
    bundles = (((30, 24, 7, 7), (0, 2, 3)), ((301, 40, 3), (0, 2)))
    for dtype, (shape, axes) in itertools.product(FLOATS, bundles):
        array, one = dense(shape, dtype), device._replace(multiprocessors=1)
        yield make_plan(Normalization(axes), {"input": array, "output": array, "scale": FLOATS[3]}, one)
        small = one._replace(shared_bytes_per_block=20_000)
        yield make_plan(Normalization(axes), {"input": array, "output": array, "scale": FLOATS[3]}, small)
    for dtype, (count, channels, side) in itertools.product(FLOATS, ((64, 96, 55), (256, 768, 17))):
        images, scale = dense((count, channels, side, side), dtype), dense((channels, 1, 1), dtype)
        arrays = {"input": images, "output": images, "scale": scale, "bias": scale}
        yield make_plan(Normalization((0, 2, 3)), arrays, device)
    for dtype, wide in ((FLOATS[0], F32), (F32, FLOATS[3]), (F32, F32), (FLOATS[1], FLOATS[1])):
        images, scale = dense((64, 96, 55, 55), dtype), dense((55, 55), dtype)
        arrays = {"input": images, "output": dense(images.shape, wide), "scale": scale, "bias": scale}
        yield make_plan(Normalization((0, 2, 3)), arrays, device)
    for dtype, length in itertools.product(FLOATS, (100_001, 100_040)):
        lines = dense((300, length), dtype)
        yield make_plan(Normalization((1,)), {"input": lines, "output": lines, "scale": FLOATS[3]}, device)
    for dtype, count in itertools.product(FLOATS, (1 << 16, 1 << 28)):
        size, scale = dtype.itemsize, dense((4, 10), dtype)
        images = ArrayLayout((2, count, 4, 10), (count * 40 * size, 40 * size, 10 * size, size), dtype, 16)
        arrays = {"input": images, "output": images, "scale": scale, "bias": scale}
        yield make_plan(Normalization((1, 3)), arrays, device)
    wider = [(np.dtype(np.uint8), F32), (np.dtype(np.int8), np.dtype(np.float64)), (np.dtype(np.float16), F32)]
    rows = (((1 << 20, 48), (1,)), ((1 << 16, 704), (1,)), ((1 << 13, 4000), (1,)), ((300, 28_672), (1,)))
    images = (((64, 3, 96, 128), (0, 2, 3)), ((8, 3, 500, 300), (1, 2, 3)))
    for (dtype, wide), (shape, axes) in itertools.product(wider, rows + images):
        arrays = {"input": dense(shape, dtype), "output": dense(shape, wide), "scale": FLOATS[3]}
        yield make_plan(Normalization(axes), arrays, device)
    for dtype, (steps, columns) in itertools.product(FLOATS, ((5, 2), (33, 3), (20, 33), (200, 3))):
        panels = dense((1 << 16, steps, columns), dtype)
        scale, moment = dense((steps, 1), dtype), dense((1 << 16, 1, columns), dtype)
        yield make_plan(Normalization((1,)), {"input": panels, "output": panels, "scale": scale}, device)
        yield make_plan(Moments((1,)), {"input": panels, "mean": moment, "variance": moment}, device)
    for dtype, (steps, columns) in itertools.product(FLOATS, ((100, 5), (365, 4), (1000, 11), (30_000, 2))):
        panels = dense((2**28 // (steps * columns), steps, columns), dtype)
        scale, moment = dense((columns,), dtype), dense((panels.shape[0], 1, columns), dtype)
        yield make_plan(Normalization((1,)), {"input": panels, "output": panels, "scale": scale}, device)
        yield make_plan(Moments((1,)), {"input": panels, "mean": moment, "variance": moment}, device)
    for dtype, length in itertools.product(FLOATS, (33, 34, 36, 100, 301)):
        lines = dense((2**28 // length, length), dtype)
        row, moment = dense((length,), dtype), dense((lines.shape[0], 1), dtype)
        yield make_plan(Normalization((1,)), {"input": lines, "output": lines, "scale": row, "bias": row}, device)
        yield make_plan(Moments((1,)), {"input": lines, "mean": moment, "variance": moment}, device)
    rows = (((64, 20_000, 3), 3), ((64, 20_000, 4), 3), ((5000, 512, 4), 3), ((5000, 100, 4), 3), ((5000, 512, 4), 2))
    for dtype, (shape, count) in itertools.product([INTEGERS[0], *FLOATS], rows):
        channels = ArrayLayout((*shape[:-1], count), dense(shape, dtype).strides, dtype, 16)
        target = dense(channels.shape, dtype if dtype in FLOATS else F32)
        arrays = {"input": channels, "output": target, "scale": dense((count,), F32), "bias": dense((count,), F32)}
        yield make_plan(Normalization((1,)), arrays, device)
        moment = dense((shape[0], 1, count), target.dtype)
        yield make_plan(Moments((1,)), {"input": channels, "mean": moment, "variance": moment}, device)
    for dtype, (count, run) in itertools.product(FLOATS, ((3, 7), (5, 3), (40, 3), (3, 147))):
        panels = dense((1 << 20, count, run), dtype)
        scale, moment = dense((count, 1), dtype), dense((1, count, 1), dtype)
        yield make_plan(Normalization((0, 2)), {"input": panels, "output": panels, "scale": scale}, device)
        yield make_plan(Moments((0, 2)), {"input": panels, "mean": moment, "variance": moment}, device)
    channels_last, rolled = ((8, 32, 10, 4096), (0, 3, 1, 2), (2, 3)), ((64, 17, 3136), (2, 0, 1), (1, 2))
    transposed = ((1 << 20, 80), (1, 0), (0, 1))
    joined = [(INTEGERS[0], channels_last), *itertools.product(FLOATS, (channels_last, rolled, transposed))]
    for dtype, (shape, order, axes) in joined:
        source, target = in_order(shape, order, dtype.name), dtype if dtype in FLOATS else F32
        means = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        scale, moment = dense((*shape[:-1], 1), F32), dense(means, target)
        arrays = {"input": source, "output": in_order(shape, order, target.name), "scale": scale, "bias": FLOATS[3]}
        yield make_plan(Normalization(axes), arrays, device)
        yield make_plan(Moments(axes), {"input": source, "mean": moment, "variance": moment}, device)
    for shape, axis in itertools.product(((40, 64), (40, 1000), (3, 90_000), (20_000, 600)), (0, 1)):
        source, moment = dense(shape, F32), dense((1, shape[1]) if axis == 0 else (shape[0], 1), F32)
        yield make_plan(Moments((axis,)), {"input": source, "mean": moment, "variance": moment}, device)
    for dtype, axis, whole in itertools.product([np.dtype(bool), INTEGERS[1], *FLOATS], (0, 1), (False, True)):
        shape = (900, 900)
        stride, alignment = (904 * dtype.itemsize, 16) if whole else (901 * dtype.itemsize, dtype.itemsize)
        source = ArrayLayout(shape, (dtype.itemsize, stride), dtype, alignment)
        target = dense(shape, dtype if dtype in FLOATS else FLOATS[3])
        moment = dense((1, 900) if axis == 0 else (900, 1), target.dtype)
        arrays = {"input": source, "output": target, "scale": dense((900,), FLOATS[0]), "bias": FLOATS[3]}
        few = device._replace(multiprocessors=1)
        yield make_plan(Normalization((axis,)), {**arrays, "mean": moment, "variance": moment}, few)
    shape = (40, 1000)
    double = dense(shape, FLOATS[3])
    for name in ("gelu", "sigmoid", "softplus", "celu", "tanh"):
        yield make_plan(Normalization((1,), False, 0.0, Activation.named(name)), {"input": double, "output": double})


def modulus_plans(device: DeviceProperties = H200) -> Iterator[Plan]:
    def plan(dividend: ArrayLayout, divisor: ArrayLayout | np.dtype, output: ArrayLayout, dtype: np.dtype) -> Plan:
        return make_plan(Modulus(dtype), {"dividend": dividend, "divisor": divisor, "output": output}, device)

    shape, itemsizes = (64, 256), {}
    yield plan(dense((64,), F32), dense((64,), F32), dense((64,), F32), F32)  # a small one
    device = device._replace(threads_per_multiprocessor=0)
    for dtype in [*INTEGERS, *FLOATS]:
        source, size = dense(shape, dtype), dtype.itemsize
        turned = ArrayLayout(shape, (size, 64 * size), dtype, 16)
        shifted = ArrayLayout(shape, (513 * size, size), dtype, size)
        for divisor in (source, dtype):
            yield plan(source, divisor, source, dtype)
        if itemsizes.setdefault((size, dtype.kind), dtype) != dtype:
            continue
        for divisor in (dense((256,), dtype), dense((64, 1), dtype), turned):
            yield plan(source, divisor, source, dtype)
        yield plan(shifted, source, shifted, dtype)
        yield plan(turned, turned, source, dtype)
        yield plan(ArrayLayout(shape, (512 * size, 2 * size), dtype, 1), dtype, source, dtype)
    for dtype in itemsizes.values():
        rows = dense((999, 17), dtype)
        for divisor in (dense((17,), dtype), dense((999, 1), dtype)):
            yield plan(rows, divisor, rows, dtype)
    row = ArrayLayout((64, 64), (0, 3), F32, 1)
    yield plan(row, dense((64, 1), INTEGERS[0]), dense((64, 64), F32), FLOATS[3])
    yield plan(dense(shape, INTEGERS[0]), dense(shape, INTEGERS[3]), dense(shape, INTEGERS[0]), INTEGERS[3])
    for dtype, wide in ((INTEGERS[0], INTEGERS[3]), (INTEGERS[3], INTEGERS[0])):  # tiles of several types
        turned = ArrayLayout(shape, (dtype.itemsize, 65 * dtype.itemsize), dtype, dtype.itemsize)
        yield plan(turned, dense(shape, wide), dense(shape, INTEGERS[0]), INTEGERS[0])
        yield plan(dense(shape, wide), turned, dense(shape, wide), INTEGERS[3])
        yield plan(turned, wide, dense(shape, wide), wide)
    huge = ArrayLayout((2**16, 2**16), (2**18, 4), F32, 16)
    yield plan(huge, ArrayLayout((2**16, 1), (8, 4), F32, 4), huge, F32)


def gather_plans(device: DeviceProperties = H200) -> Iterator[Plan]:
    for size in (1, 2, 4, 8):
        dtype = np.dtype(f"u{size}")
        for strides in ((512, 2048, 4, 1), (512, 2056, 3, -1), (512, 2049, -5, 2)):
            view = ArrayLayout((9, 3, 513, 2), tuple(size * stride for stride in strides), dtype, 16)
            yield from copies(view, range(4), device)
        for height in (64, 67):
            view = ArrayLayout((9, 40, height), (40 * height * size, size, 40 * size), dtype, 16)
            yield from copies(view, range(3), device)
        for shape in ((9, 7, 2, 1000), (5, 3001, 4), (75, 8, 517, 95)):
            strides = np.cumprod((size, *shape[:-1])).tolist()
            yield from copies(ArrayLayout(shape, tuple(strides), dtype, 16), range(len(shape)), device)


def copies(view: ArrayLayout, order: Iterable[int], device: DeviceProperties) -> Iterator[Plan]:
    few = device._replace(multiprocessors=1)
    plan = plan_on_copy(view, [*order], None, few, lambda copy: Plan("scan_lines.cu", (), ()), of_any=True)
    assert plan is not None
    yield replace(plan, then=None)


def plans_of(family: str, device: DeviceProperties = H200) -> list[Plan]:
    planners = {
        "scan": scan_plans,
        "normalization": normalization_plans,
        "modulus": modulus_plans,
        "gather": gather_plans,
    }
    return [part for plan in planners[family](device) for part in plan.parts]


FAMILIES = ("scan", "normalization", "modulus", "gather")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_compile_without_a_warning(family, architecture, request):
    sources = list(dict.fromkeys((plan.source, plan.constants) for plan in plans_of(family, device_of(architecture))))
    assert len(sources) > 15
    if not request.config.getoption("--in-full"):
        others = [other for other in ARCHITECTURES if other != FASTEST]
        first, step = (0, 3) if architecture == FASTEST else (2 * others.index(architecture), 2 * len(others))
        sources = sources[first::step]
    for source, constants in sources:
        cubin, log = compile_cubin(source, constants, architecture)
        assert log == "", constants
        assert cubin[:4] == b"\x7fELF"
        if architecture == FASTEST and not keeps_sets_in_memory(dict(constants)):
            assert max(of_kernels(STACK_BYTES, cubin)) <= MOST_STACK_BYTES, (source, constants)


def keeps_sets_in_memory(constants: dict[str, str]) -> bool:
    """Where more groups than a warp has lanes are added up, by the last block alone."""
    return constants[KERNELS] == "sum_panel_tiles" and constants["SET"] == "64"


#: What a thread keeps in memory, as it has no register or as it has to have an address: a few numbers at the most, and
#: no array. One that a reference had put there made a stream of images take 1.4 times as long.
MOST_STACK_BYTES = 64

#: Attributes of kernels in the section .nv.info of a cubin.
STACK_BYTES, REGISTERS = 0x12, 0x2F


def sections_of(cubin: bytes) -> dict[bytes, tuple[int, int]]:
    """Where those of an ELF file of 64 bits begin, and their bytes."""
    (table,), (count, names) = struct.unpack_from("<Q", cubin, 40), struct.unpack_from("<HH", cubin, 60)
    sections = [struct.unpack_from("<II16x2Q", cubin, table + 64 * i) for i in range(count)]
    _, _, begin, _ = sections[names]
    return {cubin[begin + name :].split(b"\0")[0]: (offset, size) for name, _, offset, size in sections}


def of_kernels(attribute: int, cubin: bytes) -> list[int]:
    """An attribute of each kernel: records have a format, the attribute, and bytes that follow if the format is 4."""
    place, size = sections_of(cubin)[b".nv.info"]
    end, values = place + size, []
    while place < end:
        kind, found, more = struct.unpack_from("<BBH", cubin, place)
        place += 4
        if found == attribute:
            values += struct.unpack_from("<4xI", cubin, place)
        place += more if kind == 4 else 0
    return values


def test_every_kernel_of_the_sources_is_launched_by_some_plan():
    launched = {launch.kernel for family in FAMILIES for plan in plans_of(family) for launch in plan.launches}
    texts = [path.read_text(encoding="utf-8") for path in sources.kernels_folder().glob("*.cu")]
    written = {name for text in texts for name in re.findall(r"__global__ void (?:__\w+__\([^()]+\)\s+)+(\w+)\(", text)}
    assert len(written) == sum(text.count("__global__") for text in texts)
    assert written - launched == set()
    assert not any("__global__" in sources.with_kernels(text, ()) for text in texts)
    assert len(written) >= 10


def test_kernels_wait_before_anything_else_if_they_are_launched_early():
    """But second steps may read before, if the first step lets none begin before it has waited itself."""
    waited_ahead = ""
    for plan in itertools.chain.from_iterable(map(plans_of, FAMILIES)):
        for launch in plan.launches:
            text = sources.with_kernels(sources.source(plan.source), [launch.kernel])
            allowed = r"(?:    (?:extern )?__shared__ [^;]*;\n|    (?:prefetch|open)_\w+\([^;]*\);\n)*"
            begin = rf"\b{launch.kernel}\([^{{}}]*\) {{\n{allowed}    (await_launch_ahead\w*)\(\);\n"
            waits = re.search(begin, text)
            if launch.early and waits is None:
                assert (launch.kernel[:6], waited_ahead) == ("apply_", "await_launch_ahead_of_steps"), str(launch)
                included = re.findall(r'#include "(\w+\.cuh)"', text)
                texts = [text, *(sources.headers()[name] for name in included)]
                assert sum(text.count(" await_launch_ahead();") for text in texts) == 1
            else:
                assert (waits is not None) == launch.early, str(launch)
            waited_ahead = waits[1] if waits else ""


@pytest.mark.parametrize("missing", [0, 4, 3], ids=["whole units", "at words", "anywhere"])
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [("float32", "float32"), ("float64", "float64"), ("float16", "float16"), ("float16", "float32")],
)
def test_kernels_begin_with_the_registers_that_their_warps_share(dtype, scale, missing):
    """Warps would wait for ever for those that there are not."""
    value, of_row = np.dtype(dtype), np.dtype(scale)
    shape = (64, (1 << 24) // value.itemsize - missing)
    many, row = dense(shape, value), ArrayLayout(shape, (0, of_row.itemsize), of_row, 16)
    plan = make_plan(Normalization((1,)), {"input": many, "output": many, "scale": row, "bias": row})
    constants, (launch,) = dict(plan.constants), plan.launches
    normalizers = 32 * int(constants["NORMALIZERS"])
    others = launch.block - normalizers
    wanted = normalizers * int(constants["NORMALIZER_REGISTERS"]) + others * int(constants["OTHER_REGISTERS"])
    cubin, _ = compile_cubin(plan.source, plan.constants, "sm_90a")
    (registers,) = of_kernels(REGISTERS, cubin)
    assert 0 < wanted <= launch.block * registers


def static_shared_bytes(cubin: bytes) -> int:
    """Of all kernels."""
    return sum(size for name, (_, size) in sections_of(cubin).items() if name.startswith(b".nv.shared."))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((1978, 64, 5, 7), "float32"), ((1902, 64, 5, 7), "bfloat16"), ((2048, 512, 7, 7), "float16")]
)
def test_bundles_leave_room_for_what_else_is_in_shared_memory(shape, dtype):
    array = dense(shape, np.dtype(dtype))
    plan = make_plan(Normalization((0, 2, 3)), {"input": array, "output": array})
    assert plan.source == "normalization_bundles.cu"
    cubin, _ = compile_cubin(plan.source, plan.constants, "sm_90a")
    assert static_shared_bytes(cubin) > RESERVED_BYTES  # which it counts too
    nbytes = static_shared_bytes(cubin) + plan.launches[0].shared_bytes
    assert 0.9 * H200.shared_bytes_per_block < nbytes <= H200.shared_bytes_per_block + RESERVED_BYTES


def test_only_kernels_that_are_launched_are_compiled():
    plans = [plan for plan in plans_of("normalization") if plan.source == "normalization_tiled_lines.cu"]
    one, several = (next(plan for plan in plans if len(plan.launches) == count) for count in (1, 2))
    for plan in (one, several):
        cubin, _ = compile_cubin(plan.source, plan.constants, "sm_90")
        found = set(re.findall(rb"\.text\.(\w+)", cubin))
        assert found == {launch.kernel.encode() for launch in plan.launches}


def texts_of_kernels() -> dict[str, str]:
    return sources.headers() | {path.name: path.read_text() for path in sources.kernels_folder().glob("*.cu")}


def reached(name: str) -> set[str]:
    """All headers that a kernel's source includes, or one of these."""
    included = set(re.findall(r'#include "(\w+\.cuh)"', texts_of_kernels()[name]))
    return included.union(*map(reached, included))


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_are_given_no_constants_that_their_sources_do_not_read(family):
    texts = texts_of_kernels()
    given: dict[str, set[str]] = {}
    for plan in plans_of(family):
        given.setdefault(plan.source, set()).update(name for name, _ in plan.constants if name != KERNELS)
    for source, names in given.items():
        # What is behind // does not count, as all constants are named there.
        code = "\n".join(re.sub("//.*", "", texts[name]) for name in (source, *reached(source)))
        assert {name for name in names if not re.search(rf"\b{name}\b", code)} == set(), source


def test_headers_of_one_family_bear_its_name():
    texts = texts_of_kernels()
    families: dict[str, set[str]] = {name: set() for name in sources.headers()}
    for name in texts:
        if name.endswith(".cu"):
            for header in reached(name):
                families[header].add(re.split(r"[_.]", name)[0])
    assert all(families.values())
    stems = {name: re.split(r"[_.]", name)[0] for name in families}
    assert {name for name, of in families.items() if len(of) == 1 and of != {stems[name]}} == set()
    assert {name for name, of in families.items() if len(of) > 1 and stems[name] in of} == set()


def test_what_is_left_of_a_source_stands_in_its_lines():
    text = sources.source("normalization_tiled_lines.cu")
    left = sources.with_kernels(text, ["apply_tiled_lines"]).splitlines()
    assert len(left) == len(text.splitlines())
    assert all(line in ("", whole) for line, whole in zip(left, text.splitlines(), strict=True))
    assert sum("__global__" in line for line in left) == 1


def test_subnormals_are_not_flushed():
    assert not any("ftz" in option or "fast" in option for option in (*OPTIONS, *compile_options((), "sm_90")))


def test_a_source_that_does_not_compile_says_why():
    with pytest.raises(CompileError, match=r"modulus_packs\.cu does not compile with -arch=sm_90"):
        compile_cubin("modulus_packs.cu", (("VALUE", "nonsense"),), "sm_90")
