"""Running sums and products: every shape of lines, every kind of type, option and view, and segments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import cudml
from benchmarks import peers as libraries
from benchmarks.case import Arrays, Call, Case, filled

Shape = tuple[int, ...]

_SECTOR = 32  # bytes that memory delivers at least


@dataclass(frozen=True)
class View:
    """How the input of a case lies in a larger or transposed array."""

    stored: Callable[[Shape], Shape]
    take: Callable[[Any], Any]
    of_output: bool = False
    """Whether the output lies in the same way, as the results of NumPy's functions do."""
    skips_sectors: bool = False
    """Whether what lies between the elements is never fetched along with them."""


_PADDING = _SECTOR  # elements, hence whole sectors of any type

VIEWS = {
    "transposed": View(lambda shape: shape[::-1], lambda stored: stored.T, of_output=True),
    "transposed input": View(lambda shape: shape[::-1], lambda stored: stored.T),
    "step 2": View(lambda shape: (*shape[:-1], 2 * shape[-1]), lambda stored: stored[..., ::2]),
    "rows padded by 32": View(
        lambda shape: (*shape[:-1], shape[-1] + _PADDING), lambda stored: stored[..., :-_PADDING], skips_sectors=True
    ),
    "rows padded by 1": View(lambda shape: (*shape[:-1], shape[-1] + 1), lambda stored: stored[..., :-1]),
}

_ORDER, _OF_INPUT = "axes ", " of the input"


def name_of_order(order: Iterable[int], of_output: bool) -> str:
    """Of a view whose axes lie in that order from the outermost on, and those of the output too or in C order."""
    return _ORDER + " ".join(map(str, order)) + ("" if of_output else _OF_INPUT)


def view_of(name: str) -> View:
    """One of VIEWS, or that of an order."""
    if not name.startswith(_ORDER):
        return VIEWS[name]
    order = [int(axis) for axis in name.removeprefix(_ORDER).removesuffix(_OF_INPUT).split()]
    places = np.argsort(order).tolist()
    return View(
        lambda shape: tuple(shape[axis] for axis in order),
        lambda stored: stored.transpose(places),
        of_output=not name.endswith(_OF_INPUT),
    )


def _lengths(count: int, size: int) -> np.ndarray:
    """Random lengths of so many segments, with a mean of size / count."""
    return np.random.default_rng(0).integers(0, 2 * size // count + 1, count)


def _skewed(count: int, size: int) -> np.ndarray:
    """Lengths after Pareto, and one segment amid them that holds half of everything."""
    lengths = np.random.default_rng(0).pareto(1.2, count) + 1
    lengths *= size / 2 / lengths.sum()
    lengths[count // 2] = size / 2
    return lengths.astype(np.int64)


#: Elements for each segment, and the lengths of all.
SEGMENTS: dict[str, tuple[int | None, Callable[[int, int], np.ndarray]]] = {
    "one": (None, _lengths),
    "mean 256": (256, _lengths),
    "mean 16": (16, _lengths),
    "Pareto": (256, _skewed),
}


@dataclass(frozen=True)
class ScanCase(Case):
    """A scan; its options name the arguments, and `view`, `segments` or `in_place` what the arrays are like."""

    @property
    def view(self) -> View | None:
        return view_of(self.options["view"]) if "view" in self.options else None

    @property
    def result_dtype(self) -> np.dtype:
        """That of the output: NumPy's rule, or what the options say."""
        dtype = np.dtype(self.dtype)
        widened = np.dtype(f"{dtype.kind}8") if dtype.kind in "iu" else dtype
        return np.dtype(self.options.get("dtype", widened))

    @property
    def segment_count(self) -> int:
        mean = SEGMENTS[self.options["segments"]][0]
        return max(1, self.shape[0] // mean) if mean else 1

    @property
    def bytes(self) -> int:
        touched = self.shape
        if self.view and not self.view.skips_sectors:
            touched = self.view.stored(self.shape)
        moved = math.prod(touched) * np.dtype(self.dtype).itemsize
        moved += math.prod(self.shape) * self.result_dtype.itemsize
        return moved + 8 * (self.segment_count + 1) if "segments" in self.options else moved


# group, axis, and the least percent of a copy's speed for each shape; float32.
_PLAIN: tuple[tuple[str, int, dict[Shape, float]], ...] = (
    ("1-D", 0, {(1 << 28,): 93, (1 << 26,): 92, (1 << 24,): 85, (1 << 20,): 75}),
    ("rows", 1, {(1048576, 256): 97, (65536, 4096): 97, (8192, 32768): 95}),
    ("awkward rows", 1, {(65536, 4097): 94, (2097152, 100): 95, (8388608, 32): 95, (67108864, 3): 90}),
    ("few long rows", 1, {(2048, 131072): 93, (256, 1048576): 93, (16, 16777216): 93, (3, 67108865): 90}),
    ("columns", 0, {(256, 1048576): 96, (4096, 65536): 95, (65536, 4096): 94, (1048576, 256): 93}),
    ("awkward columns", 0, {(65536, 4097): 90, (16777216, 16): 92, (67108864, 3): 88}),
    (
        "middle axis",
        1,
        {
            (64, 1024, 4096): 95,
            (64, 65536, 64): 93,
            (4096, 1024, 64): 93,
            (1048576, 16, 16): 92,
            (32, 3, 2097152): 95,
        },
    ),
)

# Sequences of few channels, that are scanned along their steps. No figure is required of these.
_PANELS: dict[str, tuple[Shape, ...]] = {
    "float32": ((1398080, 64, 3), (53760, 1000, 5)),
    "float16": ((2796160, 64, 3),),
    "int8": ((5592320, 64, 3),),
}

# Axes of one to three steps, and rows that begin anywhere. No figure is required of these either.
_FEW_STEPS: dict[str, tuple[Shape, ...]] = {
    "float16": ((1, 1 << 29), (2, (1 << 28) - 16), (2, (1 << 28) - 15)),
    "int8": ((3, 357_913_936),),
}

# group, types, whether the result is of the same type where NumPy would widen it, and for shapes and axes the percent.
_TYPED: tuple[tuple[str, tuple[str, ...], bool, dict[tuple[Shape, int], float]], ...] = (
    (
        "16-bit floats",
        ("float16", "bfloat16"),
        True,
        {((1 << 29,), 0): 90, ((65536, 8192), 1): 95, ((65536, 8192), 0): 92},
    ),
    (
        "64-bit",
        ("int64", "float64"),
        True,
        {((1 << 27,), 0): 95, ((65536, 2048), 1): 95, ((65536, 2048), 0): 95},
    ),
    (
        "widened integers",
        ("int8",),
        False,
        {((1 << 28,), 0): 93, ((65536, 4096), 1): 93, ((65536, 4096), 0): 93},
    ),
    (
        "widened integers",
        ("int32",),
        False,
        {((1 << 27,), 0): 93, ((65536, 2048), 1): 93, ((65536, 2048), 0): 93},
    ),
    (
        "descriptors' types",
        ("int32", "uint32"),
        True,
        {((1 << 28,), 0): 93, ((65536, 4096), 1): 93, ((65536, 4096), 0): 93},
    ),
    (
        "descriptors' types",
        ("uint64",),
        True,
        {((1 << 27,), 0): 93, ((65536, 2048), 1): 93, ((65536, 2048), 0): 93},
    ),
    ("descriptors' types", ("int64", "float16"), True, {((1 << 28,), 0): 93}),
    ("complex", ("complex64",), True, {((1 << 27,), 0): 90, ((65536, 2048), 1): 90}),
)

# These must keep up with the plain sum of the same shape.
_VARIED: tuple[tuple[Shape, int], ...] = (((1 << 28,), 0), ((65536, 4096), 1), ((65536, 4096), 0))
_VARIATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("cumprod", {}),
    ("cumsum", {"reverse": True}),
    ("cumsum", {"exclusive": True}),
    ("cumsum", {"reverse": True, "exclusive": True}),
    ("cumsum", {"in_place": True}),
)

_VIEWED = {
    "transposed": (((65536, 4096), 1), ((65536, 4096), 0)),
    "transposed input": (((65536, 4096), 1), ((65536, 4096), 0)),
    "step 2": (((1 << 27,), 0), ((65536, 2048), 1), ((65536, 2048), 0)),
    "rows padded by 32": (((65536, 4096), 1), ((65536, 4096), 0)),
    "rows padded by 1": (((65536, 4096), 1), ((65536, 4096), 0)),
}
_SEGMENTED = {"one": 90, "mean 256": 88, "mean 16": 85, "Pareto": 88}
_SMALL: tuple[tuple[Shape, int], ...] = (
    *(((1 << power,), 0) for power in range(10, 20, 2)),
    ((32, 64), 1),
    ((1024, 1024), 1),
    ((1024, 1024), 0),
)


def _cases() -> Iterator[ScanCase]:
    float32 = ScanCase("cumsum", "float32", (), 0)
    plain: dict[tuple[Shape, int], ScanCase] = {}
    for group, axis, required in _PLAIN:
        for shape, percent in required.items():
            plain[shape, axis] = replace(float32, group=group, shape=shape, axis=axis, required=percent)
    yield from plain.values()
    for group, dtypes, same_type, figures in _TYPED:
        for dtype in dtypes:
            options = {"dtype": dtype} if same_type and dtype in ("int32", "uint32") else {}
            for (shape, axis), percent in figures.items():
                yield ScanCase("cumsum", dtype, shape, axis, options, group=group, required=percent)
    for dtype, shapes in _PANELS.items():
        options = {"dtype": dtype} if dtype == "int8" else {}
        for shape in shapes:
            yield ScanCase("cumsum", dtype, shape, 1, options, group="panels")
    for dtype, shapes in _FEW_STEPS.items():
        options = {"dtype": dtype} if dtype == "int8" else {}
        for shape in shapes:
            yield ScanCase("cumsum", dtype, shape, 0, options, group="few steps")
    for baseline in (plain[key] for key in _VARIED):
        for op, options in _VARIATIONS:
            yield replace(baseline, op=op, options=options, group="variations", required=None, baseline=baseline)
    for view, calls in _VIEWED.items():
        for shape, axis in calls:
            yield replace(float32, shape=shape, axis=axis, options={"view": view}, group="views", required=85)
    for segments, percent in _SEGMENTED.items():
        options = {"segments": segments}
        yield ScanCase("segmented_cumsum", "float32", (1 << 28,), 0, options, group="segments", required=percent)
    yield ScanCase("cumsum", "float16", ((1 << 31) + (1 << 20),), 0, group="beyond 2^31 elements", required=90)
    for shape, axis in _SMALL:
        yield replace(float32, shape=shape, axis=axis, group="small")


CASES: tuple[ScanCase, ...] = tuple(_cases())


def arrays(case: ScanCase, xp: Any) -> Arrays:
    found = {"a": _input(case, xp)}
    # A repeated scan in place soon reaches infinity, which takes the GPU no longer than other numbers.
    found["out"] = found["a"] if "in_place" in case.options else _output(case, xp)
    if "segments" in case.options:
        found["offsets"] = xp.asarray(offsets(case))
    return found


def offsets(case: ScanCase) -> np.ndarray:
    """Where the segments begin, and the end of the last one."""
    (size,), count = case.shape, case.segment_count
    ends = np.cumsum(SEGMENTS[case.options["segments"]][1](count, size), dtype=np.int64)
    ends[-1] = size
    return np.concatenate([[0], np.minimum(ends, size)])


def ours(case: ScanCase, arrays: Arrays) -> Call:
    function, a, out = getattr(cudml, case.op), arrays["a"], arrays["out"]
    options = {name: value for name, value in case.options.items() if name in ("dtype", "reverse", "exclusive")}
    if "offsets" in arrays:
        starts = arrays["offsets"]
        return lambda: function(a, starts, out=out, **options)
    return lambda: function(a, axis=case.axis, out=out, **options)


def peers(case: ScanCase, arrays: Arrays) -> dict[str, Call]:
    if case.options.keys() & {"reverse", "exclusive", "segments"}:
        return {}  # the others would need several calls for these
    return libraries.scan(case, arrays)


def compiled_peers(case: ScanCase, arrays: Arrays) -> dict[str, Call]:
    return {}


def _input(case: ScanCase, xp: Any) -> Any:
    # Sums stay small and products near 1, so that no float overflows or becomes subnormal.
    is_integer = np.dtype(case.dtype).kind in "iu"
    low, high = (0.99, 1.01) if case.op == "cumprod" else (0, 100) if is_integer else (-0.1, 0.1)
    view = case.view
    stored = filled(xp, view.stored(case.shape) if view else case.shape, case.dtype, low, high)
    return view.take(stored) if view else stored


def _output(case: ScanCase, xp: Any) -> Any:
    view = case.view if case.view and case.view.of_output else None
    stored = xp.empty(view.stored(case.shape) if view else case.shape, case.result_dtype)
    return view.take(stored) if view else stored
