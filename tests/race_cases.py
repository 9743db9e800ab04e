"""Small calls that between them reach every kernel, and every way in which the threads of one meet.

A case runs a public function of cudml, or launches one kernel, and compares with NumPy. test_races.py looks for races
in all of them; mutants.py plants defects that some of them must show. Sizes lie at and around the edges of chunks (16
bytes), rows (32 chunks) and tiles (64 rows); complex128 and int64 have the smallest tiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
from cuda_on_cpu import DeviceArray, Kernel, Schedule, device_array
from cuda_on_cpu.backend import SMALL_GPU, EmulatedBackend
from cuda_on_cpu.memory import empty
from cuda_on_cpu.module import compiled_kernel
from layouts import place
from reference import scan_reference

import cudml
from cudml.backend import register
from cudml.cuda.sources import kernels_folder
from cudml.modulus import fmod
from cudml.normalization import batch_norm, group_norm, layer_norm, mean_var, mean_variance_normalization
from cudml.plan.device import DeviceProperties
from cudml.scan import segmented_cumprod, segmented_cumsum

#: The library's kernels, and those that show what the executor can do.
LIBRARY = kernels_folder()
EXECUTOR = Path(__file__).parent / "cuda_on_cpu" / "kernels"

AsArray: TypeAlias = Callable[[Any], Any]
Arrays: TypeAlias = tuple[np.ndarray, ...]


class RaceArray(DeviceArray):
    """An array of the executor, of a type of its own: its backend is that of the case that runs."""


def asarray(values: Any) -> RaceArray:
    return device_array(values).view(RaceArray)


@dataclass(frozen=True)
class Call:
    """A call of a public function; `compute` gets a function that makes arrays."""

    name: str
    compute: Callable[[AsArray], Any]
    expected: Callable[[], Arrays]
    tolerance: float = 0.0
    device: DeviceProperties = SMALL_GPU
    last_epochs: int = 0
    """As many are left to the first of two calls."""

    def run(self, schedules: Sequence[Schedule], checking: bool, kernels: Path = LIBRARY) -> None:
        """Raises KernelFault or AssertionError unless results are right, and the same to the bit."""
        self.run_on(EmulatedBackend(checking=checking, schedules=list(schedules), kernels=kernels, device=self.device))

    def run_on(self, backend: EmulatedBackend) -> None:
        if self.last_epochs:
            backend.leave_epochs(self.last_epochs)
            assert_right(self.results_of(backend), self.expected(), self.tolerance)
        assert_right(self.results_of(backend), self.expected(), self.tolerance)

    def results_of(self, backend: EmulatedBackend) -> Arrays:
        register(RaceArray, backend)
        result = self.compute(asarray)
        return tuple(map(np.array, result if isinstance(result, tuple) else (result,)))


@dataclass(frozen=True)
class Launch:
    """A launch of one kernel of a file; `launch` makes the arguments anew each time and returns the results."""

    name: str
    file: str
    kernel: str
    launch: Callable[[Kernel, Schedule], Any]
    expected: Callable[[], Arrays]
    tolerance: float = 0.0
    constants: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = EXECUTOR

    def run(self, schedules: Sequence[Schedule], checking: bool, kernels: Path | None = None) -> None:
        """Raises KernelFault or AssertionError unless results are right under every schedule."""
        constants = tuple((name, str(value)) for name, value in self.constants.items())
        kernel = compiled_kernel((kernels or self.folder) / self.file, constants, self.kernel, checking)
        for schedule in schedules:
            assert_right((np.array(self.launch(kernel, schedule)),), self.expected(), self.tolerance)


Case: TypeAlias = Call | Launch


def assert_right(results: Arrays, expected: Arrays, tolerance: float) -> None:
    """`tolerance` is relative to 1 or the expected value, whichever is larger."""
    for got, wanted in zip(results, expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Any integers; floats that are small whole numbers, so that every order of additions gives the same sums."""
    random, dtype = np.random.default_rng([*shape, seed]), np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, shape, dtype, endpoint=True)
    whole = random.integers(-4, 5, shape).astype(np.float64)
    return (whole + 1j * random.integers(-4, 5, shape) if dtype.kind == "c" else whole).astype(dtype)


def factors(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Odd integers, or complex numbers that are powers of the imaginary unit."""
    if np.dtype(dtype).kind == "c":
        return np.array([1, 1j, -1, -1j])[np.random.default_rng(shape).integers(0, 4, shape)].astype(dtype)
    return values(shape, dtype) | 1


def laid_out(make: AsArray, array: np.ndarray, pattern: str) -> Any:
    """The array in memory of the executor, as layouts.py names it."""
    return place(SimpleNamespace(asarray=make), array, pattern)


# ----------------------------------------------------------------------------------------------------------------------
# Scans


def scan(
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    axis: int | None = -1,
    operation: str = "sum",
    stored: Any = None,
    pattern: str = "contiguous",
    out_pattern: str = "",
    device: DeviceProperties = SMALL_GPU,
    **options: bool,
) -> Call:
    """Running sums or products in `dtype` of elements stored in another; "same" as `out_pattern` is in place."""
    source = (values if operation == "sum" else factors)(shape, stored or dtype)
    function = {"sum": cudml.cumulative_sum, "product": cudml.cumulative_prod}[operation]
    if axis is None:
        function = cudml.cumsum

    def compute(make: AsArray) -> Any:
        a, out = laid_out(make, source, pattern), None
        if out_pattern:
            out = a if out_pattern == "same" else laid_out(make, np.zeros_like(source, dtype), out_pattern)
        return function(a, axis=axis, dtype=dtype, out=out, **options)

    def expected() -> Arrays:
        named = {"initial" if key == "include_initial" else key: value for key, value in options.items()}
        result, _ = scan_reference(operation, source, dtype, axis, **named)
        return (result.astype(dtype),)

    return Call(name, compute, expected, device=device)


def segmented(name: str, n: int, dtype: Any, starts: Sequence[int], offset: Any = np.int32, **options: Any) -> Call:
    """A scan in segments that begin at `starts`, of which some may be the same: a segment without elements."""
    operation, device = options.pop("operation", "sum"), options.pop("device", SMALL_GPU)
    source = values((n,), dtype) if operation == "sum" else factors((n,), dtype)
    offsets = np.array([0, *starts, n], offset)
    function = {"sum": segmented_cumsum, "product": segmented_cumprod}[operation]

    def expected() -> Arrays:
        parts = [
            scan_reference(operation, source[first:end], dtype, **options)[0]
            for first, end in itertools.pairwise(offsets)
        ]
        return (np.concatenate(parts).astype(dtype),)

    return Call(
        name, lambda make: function(make(source), make(offsets), dtype=dtype, **options), expected, device=device
    )


#: With room for a group of more units than a warp has lanes.
ROOMY_GPU = SMALL_GPU._replace(multiprocessors=20)

#: With room for pieces of strips, which are larger, and without clusters.
STRIPS_GPU = SMALL_GPU._replace(multiprocessors=10, compute_capability=(8, 0))

#: With a ring of two pieces of strips, and with blocks of so large pieces that a ring holds but one and a half.
RING_OF_STRIPS_GPU = STRIPS_GPU._replace(multiprocessors=5, shared_bytes_per_block=140_000)
LARGE_PIECES_GPU = STRIPS_GPU._replace(multiprocessors=3)

#: The same with registers for units of these.
HOLDING_GPU = LARGE_PIECES_GPU._replace(compute_capability=(9, 0))

#: With room for three stages.
TIGHT_GPU = SMALL_GPU._replace(shared_bytes_per_block=102_400)

#: Without bulk copies and barriers that count bytes, and with room for one stage.
OLD_GPU = SMALL_GPU._replace(compute_capability=(7, 5), shared_bytes_per_block=65_536)
ROOMY_OLD_GPU = SMALL_GPU._replace(compute_capability=(7, 5))
COPYING_GPU = SMALL_GPU._replace(compute_capability=(8, 0))

#: With so few multiprocessors that a block loads several times in a tile of some kilobytes.
TINY_GPU = OLD_GPU._replace(multiprocessors=1)
TINY_COPYING_GPU = COPYING_GPU._replace(multiprocessors=1)

#: With room for a team of three blocks that hold tiles.
ONE_TEAM = SMALL_GPU._replace(multiprocessors=1)

#: With so many that two tiles are linked in four parts each, three and four tiles in two.
PARTS_GPU = SMALL_GPU._replace(multiprocessors=16)

#: With so many that eight teams of four draw what they work on.
TEAMS_GPU = SMALL_GPU._replace(multiprocessors=32)

#: Without clusters, which share what a stream has otherwise.
NO_CLUSTERS = SMALL_GPU._replace(cluster_launch=False)

#: With so many that it loads once.
MANY_BLOCKS = SMALL_GPU._replace(multiprocessors=132)

#: With so many that clusters on half of them are faster than two steps, even if rows are no whole vectors.
SOME_BLOCKS = SMALL_GPU._replace(multiprocessors=12)


def crowded(name: str) -> Call:
    """Sums in segments of which a thousand lie between two samples of offsets, most right behind a tile's begin.

    The others are empty, at the end.
    """
    n = 4 * 4096
    source = values((n,), np.int64)
    starts = np.concatenate([[0, 1, 70, 71, 5000], np.arange(8192, 10_160, 2)])
    offsets = np.concatenate([starts, np.full(256_000 - starts.size, n)]).astype(np.uint16)

    def expected() -> Arrays:
        heads = np.zeros(n, np.int64)
        heads[starts] = starts
        first, total = np.maximum.accumulate(heads), np.cumsum(source)
        return (total - total[first] + source[first],)

    return Call(name, lambda make: segmented_cumsum(make(source), make(offsets)), expected, device=OLD_GPU)


ROWS = [
    scan("a line in chunks", (99,), np.int32),
    scan("rows of one warp", (9, 97), np.int32),
    *(scan(f"lines of {rows} rows", (2, 32 * rows - 1), np.complex128) for rows in (2, 3, 4, 6, 8, 12, 16, 24, 32)),
    *(scan(f"lines of {rows} rows", (2, 32 * rows), np.complex128) for rows in (33, 36, 48, 64)),
    scan("rows of a whole tile", (2, 8192), np.int32),
    scan("rows of two tiles", (2, 4201), np.int64),
    scan("rows of two tiles in chunks", (2, 16_000), np.float32),
    scan("rows of two tiles backwards, exclusive", (2, 6000), np.float64, reverse=True, exclusive=True),
    scan("rows of two tiles of halves", (2, 17_001), np.float16),
    scan("rows of two tiles with an initial value", (3, 4097), np.int64, include_initial=True),
    scan("rows backwards, not in chunks", (2, 4091), np.int64, reverse=True),
    scan("rows exclusive", (1, 8190), np.float32, exclusive=True),
    scan("rows exclusive, backwards", (2, 2050), np.int64, exclusive=True, reverse=True),
    scan("rows with an initial value", (2, 2049), np.int64, include_initial=True),
    scan("rows backwards with an initial value", (9, 70), np.int64, include_initial=True, reverse=True),
    scan("rows of products", (1, 1025), np.complex128, operation="product"),
    scan("rows of halves", (1, 8193), np.float16),
    scan("rows of bytes summed in int64", (2, 2049), np.int64, stored=np.int8),
    scan("rows shifted by a byte", (3, 600), np.int32, pattern="offset by a byte", out_pattern="offset by a byte"),
    scan("rows shifted by an element", (3, 300), np.int64, pattern="offset by an element"),
    scan("rows of every second", (2, 700), np.int32, pattern="every second", out_pattern="every second"),
    scan("rows of padded lines", (4, 301), np.int32, pattern="padded lines", out_pattern="padded lines"),
    scan("rows in place", (2, 2051), np.int64, out_pattern="same"),
    scan("flattened", (40, 60), np.int32, axis=None, pattern="transposed"),
    scan("rows of odd halves", (5, 1025), np.float16),
    scan("rows of odd halves backwards, exclusive", (5, 601), np.float16, reverse=True, exclusive=True),
    scan("rows of odd halves in place", (5, 513), np.float16, out_pattern="same"),
    scan("rows of odd halves in place, backwards", (3, 1030), np.float16, out_pattern="same", reverse=True),
    scan("rows of odd halves with an initial value", (3, 1027), np.float16, include_initial=True),
    scan(
        "rows of odd halves, backwards with an initial value", (3, 700), np.float16, include_initial=True, reverse=True
    ),
    scan("rows of odd bytes", (3, 1031), np.int8, reverse=True),
    scan("rows of odd bytes summed in int32", (3, 1031), np.int32, stored=np.uint8),
    scan("rows of odd halves, padded", (4, 571), np.float16, pattern="padded lines", out_pattern="padded lines"),
    scan("rows of halves shifted by an element", (3, 1024), np.float16, pattern="offset by an element"),
    scan("rows of odd doubles", (5, 257), np.float64, reverse=True),
    scan("rows of odd floats", (5, 257), np.float32),
]

SHORT_ROWS = [
    scan("short lines", (300, 20), np.int64),
    scan("short lines in chunks", (70, 32), np.int32),
    scan("flat lines", (301, 100), np.int32),
    scan("flat lines backwards, exclusive", (75, 12), np.int32, reverse=True, exclusive=True),
    scan("flat lines of halves in place", (50, 200), np.float16, out_pattern="same"),
    scan("lines of three", (501, 3), np.int32),
    scan("lines of three, backwards with an initial value", (90, 3), np.int64, include_initial=True, reverse=True),
    scan("short lines of products, exclusive", (70, 6), np.complex128, operation="product", exclusive=True),
    scan("short lines of every second", (40, 7), np.int32, pattern="every second"),
    scan("short lines of odd halves", (203, 17), np.float16),
    scan("short lines of odd halves in place, backwards", (61, 33), np.float16, out_pattern="same", reverse=True),
    scan("short lines of halves, exclusive", (67, 65), np.float16, exclusive=True),
    scan("short lines of halves that fill a row", (9, 255), np.float16, reverse=True),
    scan("short lines of odd halves, padded", (90, 21), np.float16, pattern="padded lines", out_pattern="contiguous"),
    scan("short lines of halves shifted by an element", (99, 13), np.float16, out_pattern="offset by an element"),
    scan("short lines of odd bytes", (205, 17), np.int8),
    scan("short lines of odd bytes in place", (130, 35), np.int8, out_pattern="same"),
    scan("short lines of bytes summed in int64", (70, 27), np.int64, stored=np.int8, reverse=True),
    scan("short lines of odd floats", (97, 17), np.float32),
    scan("tiny lines of two", (2061, 2), np.float16, reverse=True),
    scan("tiny lines of odd halves", (1501, 3), np.float16),
    scan("tiny lines of odd halves backwards, exclusive", (700, 5), np.float16, reverse=True, exclusive=True),
    scan("tiny lines of odd bytes in place", (1333, 7), np.int8, out_pattern="same"),
    scan("tiny lines of products", (1030, 6), np.int8, operation="product", exclusive=True),
    scan("tiny lines of halves shifted by an element", (500, 3), np.float16, pattern="offset by an element"),
]


def twice(name: str, shape: tuple[int, ...], dtype: Any, axis: int = -1) -> Call:
    """One call after the other: what the first leaves in the scratch must not disturb the second."""
    sources = values((2, *shape), dtype)

    def compute(make: AsArray) -> Any:
        return tuple(cudml.cumsum(make(source), axis=axis, dtype=dtype) for source in sources)

    return Call(name, compute, lambda: tuple(np.cumsum(source, axis=axis, dtype=dtype) for source in sources))


LONG_ROWS = [
    twice("linked tiles, twice", (1, 2 * 2048), np.complex128),
    twice("long rows, twice", (1, 6 * 2048), np.complex128),
    scan("long rows", (3, 4097), np.complex128),
    scan("long rows of full tiles", (3, 8192), np.int64),
    scan("long rows of many tiles", (1, 34 * 2048 + 3), np.complex128),
    scan("long rows backwards", (2, 8200), np.int64, reverse=True),
    scan("long rows backwards, not in chunks", (2, 8195), np.int64, reverse=True),
    scan("long rows exclusive", (1, 12_290), np.int64, exclusive=True),
    scan("long rows with an initial value", (2, 8197), np.int64, include_initial=True),
    scan("long rows of products", (2, 4100), np.complex128, operation="product"),
    scan("long rows of bytes", (1, 100_001), np.int8),
    scan("long rows of bytes summed in int64", (1, 50_001), np.int64, stored=np.int8),
    scan("long rows of shorts summed in int64", (2, 50_006), np.int64, stored=np.uint16, reverse=True, exclusive=True),
    scan("long rows of ints", (2, 17_003), np.int64, stored=np.int32),
    scan("long rows of odd halves", (2, 98_307), np.float16),
    scan("long rows of odd halves backwards, exclusive", (2, 98_307), np.float16, reverse=True, exclusive=True),
    scan("long rows of odd bytes with an initial value", (2, 140_001), np.int8, include_initial=True),
    scan("long rows of ints, backwards", (2, 17_002), np.int64, stored=np.int32, reverse=True),
    scan(
        "long rows shifted by a byte", (2, 17_000), np.int32, pattern="offset by a byte", out_pattern="offset by a byte"
    ),
    scan(
        "long rows of bytes shifted by half a vector",
        (2, 50_008),
        np.int64,
        stored=np.int8,
        pattern="offset by half a vector",
    ),
    scan("long rows shifted by an element", (2, 8597), np.int64, pattern="offset by an element"),
    scan("long rows of every second", (2, 8600), np.int64, pattern="every second", out_pattern="every second"),
    scan("long rows of every second byte", (2, 100_001), np.int8, pattern="every second"),
    scan("long rows in place", (2, 8601), np.int64, out_pattern="same"),
    scan("long rows on an old GPU", (2, 12_300), np.int64, device=OLD_GPU),
    scan("long rows by teams", (2, 12_300), np.int64, device=ROOMY_OLD_GPU),
    scan("long rows by copies", (2, 24_600), np.int32, device=COPYING_GPU),
    scan("long rows by copies, not in chunks", (2, 24_601), np.int32, reverse=True, device=COPYING_GPU),
]

LINKED_TILES = [
    scan("linked tiles", (1, 3 * 2048 - 5), np.complex128),
    scan("linked tiles backwards", (1, 9000), np.int32, reverse=True),
    scan("linked tiles, exclusive", (1, 8200), np.int64, exclusive=True),
    scan("linked tiles with an initial value", (1, 4099), np.int64, include_initial=True, reverse=True),
    scan("linked tiles of products", (1, 4100), np.complex128, operation="product"),
    scan("linked tiles shifted by a byte", (1, 9000), np.int32, pattern="offset by a byte"),
    scan("linked tiles in place", (1, 4501), np.int64, out_pattern="same"),
    scan("linked tiles of bytes", (1, 70_001), np.int8),
    scan("linked groups of tiles", (1, 33 * 2048 + 700), np.complex128, device=MANY_BLOCKS),
    scan("more linked tiles than run", (1, 34 * 2048), np.complex128, device=MANY_BLOCKS),
    scan("more linked parts than run", (1, 4 * 8192), np.int32, out_pattern="same", device=PARTS_GPU),
    scan("linked parts", (1, 2 * 2048 - 5), np.complex128, device=PARTS_GPU),
    scan("linked parts of products", (1, 3 * 2048 - 5), np.complex128, operation="product", device=PARTS_GPU),
    scan("linked parts backwards", (1, 9000), np.int32, reverse=True, device=PARTS_GPU),
    scan("linked parts, exclusive", (2, 8200), np.int32, exclusive=True, device=PARTS_GPU),
]

SEGMENTED = [
    segmented("segments in a tile", 700, np.int32, [1, 1, 2, 31, 32, 33, 350, 699]),
    segmented("segments over linked tiles", 18_000, np.int32, [5, 8192, 8193, 16_384, 16_384, 17_999]),
    segmented("segments over linked parts", 13_000, np.int64, [5, 8192, 8193, 12_999], device=PARTS_GPU),
    segmented("segments over tiles", 26_000, np.int32, [5, 8192, 8193, 16_384, 16_384, 25_999]),
    segmented("segments backwards", 13_200, np.int64, [4, 4100, 9102, 9102, 13_199], np.int64, reverse=True),
    segmented("segments exclusive", 9000, np.int32, [904, 905, 8192], exclusive=True),
    segmented("segments of products", 4200, np.int64, [1000, 4096], operation="product"),
    segmented("many segments", 3000, np.int64, [*range(1, 3000, 3)], np.uint16),
    segmented("many segments over tiles", 13_000, np.int64, [*range(1, 13_000, 3)], np.uint16),
    crowded("more segments than samples"),
    segmented("segments on an old GPU", 17_000, np.int64, [5, 4096, 4097, 8192, 16_999], device=OLD_GPU),
]

SHORT_COLUMNS = [
    scan("short columns", (20, 67), np.int64, axis=0),
    scan("short columns side by side", (3, 20, 64), np.float32, axis=1, reverse=True),
    scan("short columns with an initial value", (31, 40), np.int32, axis=0, include_initial=True, reverse=True),
    scan("columns", (60, 40), np.int32, axis=0),
    scan("columns of spans", (3, 100, 40), np.float32, axis=1, exclusive=True),
    scan("columns inside", (3, 60, 50), np.int32, axis=1, pattern="every second line"),
]

PANELS = [
    scan("panels of floats", (70, 16, 3), np.float32, axis=1, device=ONE_TEAM),
    scan("panels of odd bytes, backwards", (333, 5, 7), np.int8, axis=1, reverse=True, device=ONE_TEAM),
    scan("panels of bytes summed in int64", (41, 33, 3), np.int64, axis=1, stored=np.int8, exclusive=True),
    scan("panels of halves behind an element", (35, 9, 3), np.float16, 1, pattern="offset by an element"),
    scan("panels of halves in place", (19, 100, 5), np.float16, axis=1, out_pattern="same", device=ONE_TEAM),
    scan("panels of many columns", (9, 20, 67), np.int64, axis=1, reverse=True, exclusive=True),
    scan("long panels", (13, 200, 5), np.float32, axis=1, device=ONE_TEAM),
    scan("long panels, backwards", (9, 300, 2), np.float64, axis=1, reverse=True, exclusive=True, device=ONE_TEAM),
    scan("long panels of odd halves in place", (21, 301, 3), np.float16, axis=1, out_pattern="same", device=ONE_TEAM),
    scan("long panels of products", (5, 130, 3), np.complex64, axis=1, operation="product"),
]

WHOLE_COLUMNS = [
    scan("whole columns", (300, 390), np.float32, axis=0, device=ONE_TEAM),
    scan("whole columns, backwards", (2, 275, 200), np.int64, axis=1, reverse=True, exclusive=True, device=ONE_TEAM),
    scan("whole columns with an initial value", (150, 384), np.int32, axis=0, include_initial=True, device=ONE_TEAM),
    scan("whole columns in place", (144, 1000), np.float16, axis=0, out_pattern="same", device=ONE_TEAM),
    scan("whole columns of products", (70, 200), np.complex128, axis=0, operation="product", device=ONE_TEAM),
    scan("whole columns of every second", (150, 199), np.int64, axis=0, pattern="every second", device=ONE_TEAM),
]

TWO_BLOCKS = SMALL_GPU._replace(multiprocessors=2)

COLUMNS_IN_STEP = [
    scan("columns in step", (131, 4112), np.float32, axis=0, device=TWO_BLOCKS),
    scan("columns in step, backwards", (67, 4228), np.int64, axis=0, reverse=True, exclusive=True, device=TWO_BLOCKS),
    scan("columns in step in place", (69, 2052), np.float64, axis=0, out_pattern="same", device=TWO_BLOCKS),
    scan("columns in step, initial value", (68, 2048), np.int64, axis=0, include_initial=True, device=TWO_BLOCKS),
    scan("columns in step of products", (69, 1020), np.complex128, axis=0, operation="product", device=TWO_BLOCKS),
]

SIX_BLOCKS = SMALL_GPU._replace(multiprocessors=6)
FIVE_BLOCKS = SMALL_GPU._replace(multiprocessors=5)
FIVE_ALONE = FIVE_BLOCKS._replace(cluster_launch=False)

COLUMNS = [
    scan("columns in boxes", (700, 160), np.float64, axis=0),
    scan("columns in boxes, backwards", (2, 700, 66), np.float64, axis=1, reverse=True, exclusive=True),
    scan("columns in narrow pieces", (1100, 67), np.int32, axis=0, include_initial=True),
    scan(
        "columns by elements", (700, 67), np.int32, axis=0, pattern="offset by a byte", out_pattern="offset by a byte"
    ),
    scan("columns on an old GPU", (700, 67), np.float16, axis=0, device=OLD_GPU),
    scan("columns of products", (2500, 16), np.complex128, axis=0, operation="product"),
    scan("columns of three, backwards", (3, 5001, 3), np.int32, axis=1, reverse=True),
    scan("columns of many units", (9000, 8), np.float32, axis=0),
    scan("columns in place", (1200, 64), np.float32, axis=0, out_pattern="same"),
    scan("columns of groups", (140_000, 2), np.complex128, axis=0),
    scan("columns of many blocks", (6000, 16), np.float64, axis=0, device=SIX_BLOCKS),
    scan("columns of small digits", (9000, 20), np.int32, axis=0),
    scan("columns of wide digits", (8500, 64), np.float32, axis=0),
    scan("columns of two looks", (3000, 40), np.float64, axis=0, pattern="padded lines", device=SIX_BLOCKS),
    scan("columns of every second", (600, 70), np.int32, axis=0, pattern="every second"),
    scan("columns in shifted rows", (600, 131), np.int32, axis=0),
    scan("columns in shifted rows, backwards", (2, 333, 66), np.float64, axis=1, pattern="padded lines", reverse=True),
    scan(
        "columns in shifted rows, in place", (600, 70), np.float32, axis=0, pattern="padded lines", out_pattern="same"
    ),
    scan("columns in overlapping strips", (600, 137), np.float32, axis=0, exclusive=True),
    scan("columns in overlapping strips, backwards", (2, 333, 67), np.int64, axis=1, reverse=True),
    scan("columns in overlapping strips, in place", (600, 137), np.float32, axis=0, out_pattern="same"),
    twice("columns in overlapping strips, twice", (600, 137), np.float32, axis=0),
    scan("contiguous columns of odd bytes", (1003, 3), np.int8, axis=0),
    scan("contiguous columns of odd halves in place", (2501, 5), np.float16, axis=0, out_pattern="same"),
    scan("columns in shifted rows of halves", (700, 41), np.float16, axis=0),
    scan("contiguous columns of wide rows", (2, 700, 78), np.float32, axis=1),
    scan("contiguous columns of wide rows of halves, backwards", (1500, 101), np.float16, axis=0, reverse=True),
    scan("columns of one step", (1, 1031), np.float16, axis=0, stored=np.int8),
    scan("columns of one step, exclusive", (515, 1), np.float32, axis=1, exclusive=True),
    scan("contiguous columns over two axes", (2, 500, 3, 5), np.int32, axis=1),
    scan("columns in shifted rows of bytes", (1100, 67), np.int8, axis=0, pattern="padded lines", out_pattern="same"),
    scan("columns in shifted rows of bytes, backwards", (2, 570, 40), np.int64, 1, stored=np.int8, reverse=True),
    scan("columns in overlapping strips of halves", (700, 139), np.float16, axis=0),
    scan("columns in overlapping strips of halves, in place", (350, 139), np.float16, axis=0, out_pattern="same"),
    scan("columns in shifted rows behind an element", (640, 131), np.float32, axis=0, pattern="offset by an element"),
    scan("turned output", (70, 600), np.float32, pattern="rolled axes", out_pattern="contiguous"),
    scan(
        "turned output, backwards",
        (3, 40, 301),
        np.int64,
        pattern="rolled axes",
        out_pattern="every second line",
        reverse=True,
    ),
    scan(
        "turned output by elements",
        (70, 501),
        np.int64,
        stored=np.int8,
        pattern="rolled axes",
        out_pattern="contiguous",
    ),
    scan("turned input", (70, 600), np.float32, out_pattern="rolled axes"),
    scan(
        "turned input, backwards",
        (3, 40, 300),
        np.int32,
        pattern="every second line",
        out_pattern="rolled axes",
        reverse=True,
    ),
    scan("turned input by elements", (70, 501), np.float16, out_pattern="rolled axes"),
    scan("columns of bytes summed in int64", (600, 176), np.int64, stored=np.int8, axis=0),
    scan("columns of bytes summed in int64, backwards", (2, 500, 112), np.int64, stored=np.uint8, axis=1, reverse=True),
    scan("columns of every second byte", (1100, 66), np.int8, axis=0, pattern="every second line"),
]

# ----------------------------------------------------------------------------------------------------------------------
# Normalization


def floats(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([*shape, seed]).normal(2, 3, shape).astype(dtype)


def normalized(x: np.ndarray, axes: tuple[int, ...], epsilon: float = 1e-5) -> np.ndarray:
    wide = x.astype(np.float64)
    variance = wide.var(axis=axes, keepdims=True)
    return (wide - wide.mean(axis=axes, keepdims=True)) / np.sqrt(variance + epsilon)


TOLERANCE = {np.float16: 4e-3, np.float32: 4e-6, np.float64: 1e-12}


def normalization(
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    axes: tuple[int, ...],
    pattern: str = "contiguous",
    out: str = "",
    device: DeviceProperties = SMALL_GPU,
    again: bool = False,
    factor: float = 1,
) -> Call:
    """Without scale, bias and activation; "same" as `out` is in place. `again`: another array is normalized before."""
    x = floats(shape, dtype) * np.asarray(factor, dtype)

    def compute(make: AsArray) -> Any:
        source = laid_out(make, x, pattern)
        target = source if out == "same" else laid_out(make, np.zeros_like(x), out) if out else None
        if again:
            other = laid_out(make, 1 - x * x, pattern)
            mean_variance_normalization(other, axes=axes, out=laid_out(make, np.zeros_like(x), out) if out else None)
        return mean_variance_normalization(source, axes=axes, out=target)

    return Call(name, compute, lambda: (normalized(x, axes),), TOLERANCE[dtype], device)


def moments(
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    axis: int | tuple[int, ...] | None,
    correction: float = 0,
    device: DeviceProperties = SMALL_GPU,
) -> Call:
    x = floats(shape, dtype)

    def expected() -> Arrays:
        if x.size == 0:
            return (np.full(shape[0], np.nan),) * 2
        return x.mean(axis, dtype=np.float64), x.var(axis, dtype=np.float64, ddof=correction)

    tolerance = 8 * TOLERANCE.get(dtype, 1e-12)
    return Call(name, lambda make: mean_var(make(x), axis, correction=correction), expected, tolerance, device)


def affine(
    name: str, shape: tuple[int, ...], function: str, device: DeviceProperties = SMALL_GPU, dtype: Any = np.float32
) -> Call:
    """Scale, bias and an activation: rows that end with arrays of their own, or channels."""
    x = floats(shape, dtype)
    channels = shape[-1] if function == "layer_norm" else shape[1]
    scale, bias = floats((channels,), np.float32, 1), floats((channels,), np.float32, 2)

    def compute(make: AsArray) -> Any:
        options = {"weight": make(scale), "bias": make(bias), "activation": "relu"}
        if function == "layer_norm":
            return layer_norm(make(x), shape[-1], **options)
        if function == "group_norm":
            return group_norm(make(x), 2, **options)
        return batch_norm(make(x), return_statistics=True, **options)

    def expected() -> Arrays:
        if function == "layer_norm":
            return (np.maximum(normalized(x, (1,)) * scale + bias, 0),)
        over = (1, -1) + (1,) * (len(shape) - 2)
        if function == "group_norm":
            y = normalized(x.reshape(shape[0], 2, -1), (2,)).reshape(shape)
            return (np.maximum(y * scale.reshape(over) + bias.reshape(over), 0),)
        axes = (0, *range(2, len(shape)))
        y = np.maximum(normalized(x, axes) * scale.reshape(over) + bias.reshape(over), 0)
        return y, x.mean(axes, dtype=np.float64), x.var(axes, dtype=np.float64)

    return Call(name, compute, expected, 5 * TOLERANCE[dtype], device)


def layer_norm_of_transposed(
    name: str, shape: tuple[int, ...], device: DeviceProperties, out: str = "transposed"
) -> Call:
    """Into an output that is transposed too, or not: scale and bias of elements that lie far from each other."""
    x, length = floats(shape, np.float32), shape[0]
    scale, bias = floats((length,), np.float32, 1), floats((length,), np.float32, 2)

    def compute(make: AsArray) -> Any:
        target = laid_out(make, np.zeros_like(x.T), out)
        return layer_norm(make(x).T, length, weight=make(scale), bias=make(bias), out=target)

    return Call(name, compute, lambda: (normalized(x.T, (1,)) * scale + bias,), TOLERANCE[np.float32], device)


def scaled(
    name: str,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    of: tuple[int, ...],
    device: DeviceProperties = SMALL_GPU,
    out: str = "contiguous",
    of_bias: tuple[int, ...] | None = None,
    dtype: Any = np.float32,
) -> Call:
    """With a scale of this shape, and a bias of the same or another."""
    x, scale, bias = floats(shape, dtype), floats(of, np.float32, 1), floats(of_bias or of, np.float32, 2)

    def compute(make: AsArray) -> Any:
        target = laid_out(make, np.zeros_like(x), out)
        return mean_variance_normalization(make(x), make(scale), make(bias), axes=axes, out=target)

    return Call(name, compute, lambda: (normalized(x, axes) * scale + bias,), TOLERANCE[dtype], device)


def scaled_by_numbers(name: str, shape: tuple[int, ...]) -> Call:
    x = floats(shape, np.float32)
    return Call(
        name,
        lambda make: mean_variance_normalization(make(x), 2.0, -1.0, axes=(1,), activation="sigmoid"),
        lambda: (1 / (1 + np.exp(1 - 2 * normalized(x, (1,)))),),
        1e-5,
    )


SMALL_GROUPS = [
    normalization("groups of one element", (70, 1), np.float32, (1,)),
    normalization("groups of a chunk", (300, 3), np.float32, (1,)),
    normalization("groups of two lanes", (800, 8), np.float32, (1,)),
    normalization("groups of five lanes", (31, 18), np.float32, (1,), "every second", "every second"),
    normalization("groups of sixteen lanes", (100, 64), np.float32, (1,)),
    normalization("groups of one warp", (9, 100), np.float32, (1,)),
    normalization("groups that fill all blocks", (16, 128), np.float32, (1,)),
    normalization("group that ends in a chunk", (1, 130), np.float32, (1,)),
    normalization("groups of two rows", (5, 129), np.float32, (1,)),
    normalization("groups of four rows", (13, 500), np.float32, (1,)),
    normalization("few groups of four rows", (3, 500), np.float32, (1,)),
    normalization("groups of four warps", (3, 1000), np.float32, (1,)),
    normalization("groups of five warps", (3, 2100), np.float32, (1,)),
    normalization("groups of sixteen rows a warp", (2, 8200), np.float32, (1,), device=NO_CLUSTERS),
    normalization("groups of sixteen warps", (2, 4096), np.float64, (1,)),
    normalization("groups of more rows", (2, 4099), np.float64, (1,), device=NO_CLUSTERS),
    normalization("groups in place", (3, 600), np.float32, (1,), out="same"),
    normalization("groups of a warp in place", (9, 100), np.float32, (1,), out="same"),
    normalization("groups of a warp of every second in place", (66, 100), np.float32, (1,), "every second", "same"),
    normalization("groups of halves", (2, 1500), np.float16, (1,)),
    normalization("groups shifted by a byte", (3, 150), np.float32, (1,), "offset by a byte", "offset by a byte"),
    normalization("groups of odd halves", (9, 257), np.float16, (1,)),
    normalization("groups of odd halves in place", (9, 37), np.float16, (1,), out="same"),
    normalization("groups of odd halves end to end", (77, 17), np.float16, (1,)),
    normalization("groups of halves that begin at words", (11, 302), np.float16, (1,)),
    normalization("groups of halves that begin at pairs of words", (5, 1300), np.float16, (1,), out="same"),
    normalization("groups of odd halves in padded rows", (6, 1025), np.float16, (1,), "padded lines", "padded lines"),
    normalization("groups of odd halves of four warps in place", (4, 1601), np.float16, (1,), out="same"),
    normalization(
        "groups of halves offset by one", (5, 1024), np.float16, (1,), "offset by an element", "offset by an element"
    ),
    normalization("groups of halves of a warp each", (60, 1104), np.float16, (1,), device=TINY_GPU),
    normalization("groups of halves of five warps", (2, 5000), np.float16, (1,)),
    normalization("groups of odd halves of nine warps", (2, 8201), np.float16, (1,), out="same"),
    normalization("groups of odd floats of sixteen rows a warp", (2, 8301), np.float32, (1,), device=NO_CLUSTERS),
    scaled("groups of odd floats of many rows, scaled", (2, 12_301), (1,), (12_301,)),
    scaled("groups of three rows, scaled", (90, 333), (1,), (333,), TINY_GPU),
    scaled("groups of three rows of whole chunks, scaled", (90, 332), (1,), (332,), TINY_GPU),
    scaled("groups of five warps, scaled", (3, 2100), (1,), (2100,)),
    normalization("groups of floats offset by one", (6, 260), np.float32, (1,), "offset by an element", "contiguous"),
    normalization("groups of doubles offset by one", (6, 260), np.float64, (1,), "contiguous", "offset by an element"),
    normalization("groups over two axes", (4, 6, 51), np.float32, (0, 2)),
    affine("layer norm", (5, 70), "layer_norm"),
    affine("layer norm of whole chunks", (5, 160), "layer_norm"),
    affine("group norm", (2, 6, 9), "group_norm"),
    affine("batch norm", (2, 3, 130), "batch_norm"),
    scaled_by_numbers("scale and bias as numbers", (3, 200)),
    scaled("short groups scaled by runs", (7, 9, 30), (1, 2), (9, 1)),
    scaled("groups scaled by runs", (3, 40, 33), (1, 2), (40, 1)),
    scaled("groups of halves scaled by runs", (3, 50, 42), (1, 2), (50, 1), dtype=np.float16),
    scaled("groups scaled by runs of two axes", (3, 6, 7, 26), (1, 2, 3), (6, 1, 1), of_bias=(7, 1)),
    normalization("groups over runs of grains", (5, 6, 52), np.float16, (0, 2)),
    normalization("groups over longer runs of grains", (30, 3, 50), np.float32, (0, 2)),
    normalization("groups over long odd runs of halves", (3, 2, 601), np.float16, (0, 2)),
    normalization("groups over long odd runs of halves in place", (2, 3, 1027), np.float16, (0, 2), out="same"),
    normalization("short groups over runs of grains", (3, 40, 12), np.float16, (0, 2)),
    moments("moments", (3, 90), np.float32, 1, correction=1),
    moments("moments of short groups", (37, 9), np.float32, 1),
    moments("moments of images", (5, 3, 7, 7), np.float32, (0, 2, 3)),
    moments("moments of more images", (24, 2, 7, 7), np.float32, (0, 2, 3)),
]

SMALL_COLUMNS = [
    normalization("groups in short columns", (7, 300), np.float32, (0,)),
    normalization("groups in panels", (701, 16, 3), np.float32, (1,), device=ONE_TEAM),
    normalization("groups in panels in place", (400, 33, 3), np.float16, (1,), out="same", device=ONE_TEAM),
    normalization(
        "groups in panels behind an element",
        (220, 2, 4, 5),
        np.float64,
        (1, 2),
        "offset by an element",
        "contiguous",
        ONE_TEAM,
    ),
    moments("moments of panels", (501, 9, 5), np.float32, 1, device=ONE_TEAM),
    normalization("columns of two spans", (9, 80), np.float32, (0,)),
    normalization("columns of a block", (130, 70), np.float32, (0,)),
    normalization("columns of more rows", (600, 36), np.float32, (0,)),
    normalization("groups in columns in place", (90, 40), np.float32, (0,), out="same"),
    normalization("columns of halves", (70, 24), np.float16, (0,)),
    normalization("columns not side by side", (90, 33), np.float32, (0,), "every second", "every second"),
    normalization("columns over two axes", (3, 5, 7, 8), np.float32, (0, 2)),
    affine("batch norm in columns", (90, 40), "batch_norm"),
    affine("group norm in columns", (3, 64, 2), "group_norm"),
    moments("moments of columns", (90, 37), np.float32, 0),
    moments("moments of short columns of halves", (5, 70), np.float16, 0),
    normalization("columns of less than a chunk", (3, 260), np.float16, (0,)),
    scaled("columns of less than a chunk with a scale for each row", (6, 40), (0,), (6, 1)),
]

LARGE_GROUPS = [
    normalization("large groups", (3, 8193), np.float64, (1,), device=OLD_GPU),
    scaled("large groups scaled by runs", (2, 300, 61), (1, 2), (300, 1), OLD_GPU),
    normalization("large groups in place", (1, 17000), np.float32, (1,), out="same", device=OLD_GPU),
    normalization("large groups of every second", (2, 17000), np.float32, (1,), "every second", device=OLD_GPU),
    moments("moments of many tiles", (3, 12300), np.float64, 1),
    moments("moments of more tiles than a set has", (257 * 2048 + 1, 2), np.float64, 0, device=MANY_BLOCKS),
    moments("moments of nothing", (3, 0), np.float64, 1),
    normalization("large columns", (2049, 9), np.float32, (0,)),
    normalization("large columns in place", (1025, 33), np.float32, (0,), out="same", device=OLD_GPU),
    moments("moments in rounds", (9, 9001), np.float64, 1, device=TINY_GPU),
    normalization("large groups of odd doubles in place", (1, 17_001), np.float64, (1,), out="same", device=OLD_GPU),
    normalization("large groups of odd floats in place", (2, 17_001), np.float32, (1,), out="same", device=OLD_GPU),
    normalization("large groups of even floats", (2, 17_002), np.float32, (1,), device=OLD_GPU),
    normalization("large groups of odd halves in place", (2, 70_001), np.float16, (1,), out="same", device=OLD_GPU),
    normalization("large groups of even halves in place", (2, 35_002), np.float16, (1,), out="same", device=OLD_GPU),
    moments("moments of large groups of odd halves", (2, 70_001), np.float16, 1),
    normalization("large groups over odd runs in place", (40, 2, 501), np.float32, (0, 2), out="same", device=OLD_GPU),
    normalization("large groups over long runs in place", (3, 2, 9001), np.float32, (0, 2), out="same", device=OLD_GPU),
    normalization(
        "large groups over long runs of halves", (4, 2, 14_003), np.float16, (0, 2), out="same", device=OLD_GPU
    ),
    moments("moments of large groups over long runs", (4, 2, 9001), np.float32, (0, 2), device=OLD_GPU),
    normalization("large groups over grains in place", (59, 2, 1436), np.float16, (0, 2), out="same", device=OLD_GPU),
    normalization("large groups over long odd runs", (24, 2, 1987), np.float16, (0, 2), out="same", device=OLD_GPU),
    normalization("large columns in rounds", (16_500, 17), np.float32, (0,), out="same", device=TINY_GPU),
    normalization("large columns of odd halves in place", (2100, 67), np.float16, (0,), out="same", device=OLD_GPU),
    normalization("large columns of odd doubles in place", (1100, 33), np.float64, (0,), out="same", device=OLD_GPU),
    normalization("narrow columns of halves", (8200, 6), np.float16, (0,), out="same"),
    normalization("narrow columns of more halves than lanes", (2100, 37), np.float16, (0,), device=STRIPS_GPU),
    normalization("narrow columns in rounds", (66_000, 2), np.float64, (0,), device=TINY_GPU),
    moments("moments of large columns", (2049, 33), np.float64, 0),
    moments("moments of large columns of halves", (2200, 120), np.float16, 0, device=TINY_COPYING_GPU),
    normalization("large columns of halves", (4200, 64), np.float16, (0,), out="same", device=TINY_COPYING_GPU),
]

FOUR_BLOCKS = SMALL_GPU._replace(multiprocessors=4)

CLUSTERED_LINES = [
    normalization("clustered lines of two rows a warp", (1, 8301), np.float32, (1,)),
    normalization("clustered lines of four rows a warp", (2, 16_500), np.float32, (1,)),
    normalization("clustered lines of eight rows a warp", (1, 16_460), np.float64, (1,)),
    normalization("clustered lines in place", (1, 12_301), np.float32, (1,), out="same"),
    normalization("clustered lines of halves", (1, 16_701), np.float16, (1,), out="same"),
    normalization("clustered lines of more halves", (1, 33_001), np.float16, (1,), device=FOUR_BLOCKS),
    normalization("clustered lines of whole rows", (1, 8192), np.float64, (1,)),
    normalization("clustered lines over runs", (3, 2, 2901), np.float32, (0, 2)),
    normalization("clustered lines over long odd runs", (14, 1, 2501), np.float16, (0, 2), "padded lines", "same"),
    normalization("clustered lines of every second", (1, 8301), np.float32, (1,), "every second", "every second"),
    scaled("clustered lines scaled by elements", (1, 8301), (1,), (8301,)),
    scaled("clustered lines scaled by runs", (1, 150, 61), (1, 2), (150, 1)),
    affine("batch norm in clustered lines", (2, 2, 4500), "batch_norm"),
    moments("moments of clustered lines", (1, 8301), np.float64, 1, correction=1, device=FIVE_BLOCKS),
]

STREAMS = [
    normalization("stream", (3, 17000), np.float32, (1,), device=NO_CLUSTERS),
    normalization("stream of doubles", (5, 9000), np.float64, (1,)),
    normalization("stream of many units", (1, 129 * 4096 + 1), np.float64, (1,), device=ROOMY_GPU),
    normalization("stream of more groups than slots", (20, 8200), np.float64, (1,), device=TIGHT_GPU, again=True),
    scaled("stream whose last pieces lack whole units", (3, 69_632), (1,), (69_632,), TEAMS_GPU),
    normalization("stream that teams draw", (40, 14_300), np.float64, (1,), device=TEAMS_GPU, again=True),
    normalization("stream round a small ring", (12, 20_001), np.float32, (1,), device=TIGHT_GPU),
    normalization("stream of halves round a small ring", (12, 40_001), np.float16, (1,), device=TIGHT_GPU),
    normalization("stream in place", (2, 30_000), np.float32, (1,), out="same", device=NO_CLUSTERS),
    normalization("stream of units held in registers", (3, 90_000), np.float32, (1,), out="same"),
    normalization("stream of halves", (2, 40_000), np.float16, (1,), device=NO_CLUSTERS),
    normalization("stream of runs", (8, 3, 4096), np.float32, (0, 2)),
    normalization("stream of short runs", (60, 3, 300), np.float32, (0, 2), device=NO_CLUSTERS),
    normalization("stream of runs of grains", (170, 3, 204), np.float16, (0, 2)),
    normalization("stream of long odd runs", (60, 2, 601), np.float16, (0, 2), device=NO_CLUSTERS),
    normalization("stream of odd runs of hardly a row", (140, 2, 259), np.float16, (0, 2), device=NO_CLUSTERS),
    normalization(
        "stream of long odd runs in place",
        (14, 2, 2501),
        np.float16,
        (0, 2),
        "offset by an element",
        "same",
        NO_CLUSTERS,
    ),
    scaled("stream scaled by runs", (3, 30, 602), (1, 2), (30, 1), NO_CLUSTERS),
    scaled("stream scaled by runs of two axes", (2, 5, 9, 402), (1, 2, 3), (5, 1, 1), NO_CLUSTERS, of_bias=(9, 1)),
    normalization("stream of padded runs", (60, 3, 300), np.float32, (0, 2), "padded lines", device=NO_CLUSTERS),
    normalization("stream of padded halves", (250, 2, 150), np.float16, (0, 2), "padded lines", device=NO_CLUSTERS),
    normalization(
        "stream of runs with their gaps", (3, 300, 64), np.float32, (1, 2), "padded lines", "same", NO_CLUSTERS
    ),
    normalization("stream of halves with their gaps", (5, 2, 128, 128), np.float16, (0, 2, 3), "padded lines"),
    normalization("stream of every second", (3, 17_000), np.float32, (1,), "every second", "every second", NO_CLUSTERS),
    normalization("stream by elements", (3, 17_000), np.float32, (1,), "every second", device=STRIPS_GPU),
    normalization(
        "stream shifted by a byte", (3, 17_001), np.float32, (1,), "offset by a byte", "offset by a byte", NO_CLUSTERS
    ),
    affine("batch norm in a stream", (39, 3, 1024), "batch_norm"),
    affine("batch norm with one piece for each block", (20, 4, 1000), "batch_norm", FIVE_ALONE),
    affine("batch norm of halves with one piece for each block", (20, 4, 2000), "batch_norm", FIVE_ALONE, np.float16),
    affine("layer norm in a stream", (2, 20_000), "layer_norm", NO_CLUSTERS),
    affine("layer norm that keeps scale and bias", (3, 90_000), "layer_norm"),
    affine("layer norm of whole units that keeps more of them", (3, 98_304), "layer_norm"),
]

STRIPS = [
    normalization("strips", (1100, 100), np.float32, (0,), device=STRIPS_GPU),
    normalization("strips in place", (1100, 68), np.float32, (0,), out="same", device=STRIPS_GPU),
    normalization("strips of small numbers", (1100, 100), np.float32, (0,), device=STRIPS_GPU, factor=1e-3),
    normalization("strips of halves", (1100, 128), np.float16, (0,), device=STRIPS_GPU),
    normalization("strips of more halves", (1800, 136), np.float16, (0,), device=STRIPS_GPU),
    normalization("narrow strips of halves", (2100, 64), np.float16, (0,), device=STRIPS_GPU),
    normalization("strips of doubles", (1100, 32), np.float64, (0,), device=STRIPS_GPU),
    normalization("strips over two axes", (20, 2, 55, 64), np.float32, (0, 2), device=STRIPS_GPU),
    scaled("strips scaled by outer rows", (20, 2, 55, 64), (0, 2), (20, 1, 1, 1), STRIPS_GPU),
    scaled("strips scaled by inner rows", (20, 2, 55, 64), (0, 2), (1, 1, 55, 1), STRIPS_GPU),
    scaled("strips of a turned input scaled by chunks", (20, 68, 256), (0, 2), (20, 1, 1), STRIPS_GPU, "rolled axes"),
    normalization("strips of every second step", (1100, 2, 36), np.float32, (0,), device=STRIPS_GPU),
    normalization("strips of shifted rows", (1100, 200), np.float32, (0,), "padded lines", device=STRIPS_GPU),
    normalization("strips of shifted rows in place", (1100, 196), np.float32, (0,), "padded lines", "same", STRIPS_GPU),
    normalization(
        "strips of shifted rows behind an element",
        (1120, 196),
        np.float32,
        (0,),
        "offset by an element",
        device=STRIPS_GPU,
    ),
    normalization("strips of an odd width", (1100, 201), np.float32, (0,), device=STRIPS_GPU),
    normalization("strips of an odd width over two axes", (20, 64, 133), np.float32, (0, 1), device=STRIPS_GPU),
    normalization("wide strips of an odd width", (1100, 301), np.float32, (0,), device=STRIPS_GPU),
    normalization("wide strips of shifted rows", (1100, 204), np.float32, (0,), "padded lines", device=STRIPS_GPU),
    normalization("strips of doubles of an odd width", (1100, 83), np.float64, (0,), device=STRIPS_GPU),
    normalization("strips of halves of an odd width", (1200, 301), np.float16, (0,), device=STRIPS_GPU),
    normalization("strips of shifted halves", (1800, 136), np.float16, (0,), "padded lines", device=STRIPS_GPU),
    normalization("strips of an odd width in place", (1100, 201), np.float32, (0,), out="same", device=STRIPS_GPU),
    normalization("strips of shifted doubles", (1100, 100), np.float64, (0,), "padded lines", device=STRIPS_GPU),
    normalization("strips of every second column", (1100, 100), np.float32, (0,), "every second", device=STRIPS_GPU),
    normalization(
        "strips of a turned input",
        (4499, 76),
        np.float32,
        (0,),
        "transposed, in whole vectors",
        "contiguous",
        STRIPS_GPU,
    ),
    normalization("strips of turned halves", (4504, 136), np.float16, (0,), "transposed", "contiguous", STRIPS_GPU),
    normalization("strips of a turned output", (1100, 212), np.float32, (0,), "contiguous", "transposed", STRIPS_GPU),
    normalization("halves in a turned output", (1800, 264), np.float16, (0,), "contiguous", "transposed", STRIPS_GPU),
    layer_norm_of_transposed("layer norm in strips of a turned output", (1100, 212), STRIPS_GPU, "contiguous"),
    normalization("strips round a ring", (1100, 256), np.float32, (0,), device=RING_OF_STRIPS_GPU),
    normalization("strips round a ring, again", (1100, 256), np.float32, (0,), device=RING_OF_STRIPS_GPU, again=True),
    normalization("strips of uneven teams", (1100, 164), np.float32, (0,), device=STRIPS_GPU),
    normalization("strips dealt to all blocks", (1500, 260), np.float32, (0,), out="same", device=STRIPS_GPU),
    normalization("strips of large pieces", (1500, 128), np.float32, (0,), device=LARGE_PIECES_GPU),
    normalization("strips of held units", (1500, 128), np.float32, (0,), device=HOLDING_GPU),
    normalization("held units of turned input", (1500, 128), np.float32, (0,), "transposed", "contiguous", HOLDING_GPU),
    affine("batch norm in strips", (1300, 64), "batch_norm", STRIPS_GPU),
    layer_norm_of_transposed("layer norm in strips", (1100, 68), STRIPS_GPU),
]

CLUSTERS = [
    normalization("clusters", (1100, 70), np.float32, (0,), device=SOME_BLOCKS),
    normalization("clusters of whole tiles", (2048, 32), np.float64, (0,), device=MANY_BLOCKS),
    normalization("clusters in place", (1300, 64), np.float32, (0,), out="same", device=MANY_BLOCKS),
    normalization("clusters of halves", (1300, 64), np.float16, (0,), device=MANY_BLOCKS),
    normalization("clusters of eight", (4097, 64), np.float32, (0,), device=MANY_BLOCKS),
    normalization("clusters over two axes", (20, 2, 55, 64), np.float32, (0, 2), device=MANY_BLOCKS),
    normalization("clusters of every second", (1100, 40), np.float32, (0,), "every second", device=SOME_BLOCKS),
    affine("batch norm in clusters", (1300, 64), "batch_norm", MANY_BLOCKS),
]


def group_norm_of_channels_last(name: str, shape: tuple[int, ...], device: DeviceProperties) -> Call:
    """Images whose last axes are groups and their channels, each with its own scale and bias."""
    x, scale, bias = floats(shape, np.float32), floats(shape[3:], np.float32, 1), floats(shape[3:], np.float32, 2)

    def compute(make: AsArray) -> Any:
        return mean_variance_normalization(make(x), make(scale), make(bias), axes=(1, 2, 4))

    return Call(name, compute, lambda: (normalized(x, (1, 2, 4)) * scale + bias,), TOLERANCE[np.float32], device)


#: A GPU that small calls fill.
ONE_MULTIPROCESSOR = SMALL_GPU._replace(multiprocessors=1)

BUNDLES = [
    normalization("bundles", (13, 48, 7, 7), np.float32, (0, 2, 3), device=ONE_MULTIPROCESSOR),
    normalization(
        "bundles of whole chunks in place",
        (16, 48, 7, 7),
        np.float32,
        (0, 2, 3),
        "contiguous",
        "same",
        ONE_MULTIPROCESSOR,
    ),
    normalization("bundles of short runs", (301, 40, 3), np.float32, (0, 2), device=ONE_MULTIPROCESSOR),
    normalization("bundles of tiny images", (301, 8, 2, 2), np.float32, (0, 2, 3), device=ONE_MULTIPROCESSOR),
    normalization("bundles of tiny halves", (301, 8, 2, 2), np.float16, (0, 2, 3), device=ONE_MULTIPROCESSOR),
    normalization("bundles of halves", (30, 24, 7, 7), np.float16, (0, 2, 3), device=ONE_MULTIPROCESSOR),
    normalization("bundles of grains of halves", (15, 24, 10, 10), np.float16, (0, 2, 3), device=ONE_MULTIPROCESSOR),
    normalization("bundles of columns", (1050, 32), np.float32, (0,), device=ONE_MULTIPROCESSOR),
    affine("batch norm in bundles", (13, 48, 49), "batch_norm", ONE_MULTIPROCESSOR),
]

#: And whose blocks hold parts of bundles.
SMALL_BLOCKS = ONE_MULTIPROCESSOR._replace(shared_bytes_per_block=20_000)
LARGER_BLOCKS = ONE_MULTIPROCESSOR._replace(shared_bytes_per_block=30_000)

SHARED_BUNDLES = [
    normalization("shared bundles", (31, 24, 7, 7), np.float32, (0, 2, 3), device=SMALL_BLOCKS),
    normalization("shared bundles in place", (60, 12, 7, 7), np.float32, (0, 2, 3), "contiguous", "same", SMALL_BLOCKS),
    normalization("shared bundles of three units", (70, 12, 7, 7), np.float32, (0, 2, 3), device=LARGER_BLOCKS),
    normalization("shared bundles of halves", (64, 16, 7, 7), np.float16, (0, 2, 3), device=SMALL_BLOCKS),
    normalization("shared bundles of grains", (100, 12, 5, 6), np.float32, (0, 2, 3), device=SMALL_BLOCKS),
    normalization("shared bundles of short runs", (801, 8, 3), np.float32, (0, 2), device=SMALL_BLOCKS),
    affine("batch norm in shared bundles", (80, 12, 49), "batch_norm", SMALL_BLOCKS),
    group_norm_of_channels_last("group norm in shared bundles", (2, 31, 33, 8, 5), SMALL_BLOCKS),
]

#: And whose clusters hold none of these.
SMALL_CLUSTERS = ONE_MULTIPROCESSOR._replace(shared_bytes_per_block=24_000)

TILED_BUNDLES = [
    normalization("tiled bundles", (251, 8, 7, 7), np.float32, (0, 2, 3), device=SMALL_CLUSTERS),
    normalization(
        "tiled bundles in place", (251, 8, 7, 7), np.float16, (0, 2, 3), "contiguous", "same", SMALL_CLUSTERS
    ),
    normalization("tiled bundles of short runs", (6201, 4, 2, 2), np.float32, (0, 2, 3), device=SMALL_CLUSTERS),
    normalization("tiled bundles of grains", (820, 4, 5, 6), np.float32, (0, 2, 3), device=SMALL_CLUSTERS),
    group_norm_of_channels_last("group norm in tiled bundles", (2, 61, 63, 4, 10), SMALL_CLUSTERS),
    moments("moments of tiled bundles", (1101, 2, 4, 4), np.float32, (0, 2, 3), device=SMALL_CLUSTERS),
]

LONG_PANELS = [
    normalization("groups in long panels", (101, 100, 3), np.float32, (1,), device=ONE_TEAM),
    normalization("groups in long panels in place", (51, 201, 3), np.float16, (1,), out="same", device=ONE_TEAM),
    normalization(
        "groups in long panels behind an element",
        (13, 300, 5),
        np.float64,
        (1,),
        "offset by an element",
        "contiguous",
        ONE_TEAM,
    ),
    scaled("groups in long panels scaled by steps", (31, 90, 7), (1,), (90, 1), device=ONE_TEAM),
]

TILED_PANELS = [
    normalization("tiled panels", (1003, 3, 7), np.float32, (0, 2), device=ONE_TEAM),
    normalization("tiled panels in place", (701, 5, 3), np.float16, (0, 2), out="same", device=ONE_TEAM),
    normalization("tiled panels of many groups", (300, 37, 3), np.float32, (0, 2), device=ONE_TEAM),
    normalization("tiled panels of long runs", (301, 3, 147), np.float16, (0, 2), device=ONE_TEAM),
    normalization("tiled panels of doubles", (3001, 3, 3), np.float64, (0, 2), device=ONE_TEAM),
    scaled("tiled panels scaled by steps", (401, 3, 5), (0, 2), (1, 5), device=ONE_TEAM),
    moments("moments of tiled panels", (3301, 3, 7), np.float32, (0, 2), device=ONE_TEAM),
]


def turned_batch_norm(name: str, shape: tuple[int, ...], device: DeviceProperties) -> Call:
    """Channels last in memory, channels first in the output; the statistics too."""
    x = floats(shape, np.float32)
    axes, over = (0, 2), (1, -1, 1)
    scale, bias = (floats(shape[1:2], np.float32, seed) for seed in (1, 2))

    def compute(make: AsArray) -> Any:
        source = laid_out(make, x, "rolled axes")
        out = laid_out(make, np.zeros_like(x), "contiguous")
        return batch_norm(source, make(scale), make(bias), out=out, return_statistics=True)

    def expected() -> Arrays:
        y = normalized(x, axes) * scale.reshape(over) + bias.reshape(over)
        return y, x.mean(axes, dtype=np.float64), x.var(axes, dtype=np.float64)

    return Call(name, compute, expected, 2e-5, device)


TURNED = [
    normalization("turned", (130, 70), np.float32, (1,), "transposed", "contiguous", TINY_GPU),
    normalization("turned into whole tiles", (128, 64), np.float32, (0,), "transposed", "contiguous", TINY_GPU),
    normalization("turned halves", (131, 140), np.float16, (1,), "transposed", "contiguous", TINY_GPU),
    normalization("turned doubles", (70, 40), np.float64, (0, 1), "contiguous", "transposed", TINY_GPU),
    normalization("turned from anywhere", (130, 70), np.float32, (0,), "offset by an element", "transposed", TINY_GPU),
    turned_batch_norm("turned batch norm", (3, 20, 90), TINY_GPU),
]

HELD = [
    normalization("held", (290, 1200), np.float32, (1,), "transposed", "contiguous", ONE_TEAM, again=True),
    normalization("held in whole tiles", (64, 1024), np.float32, (1,), "transposed", "contiguous", ONE_TEAM),
    normalization("held by a large cluster", (40, 7000), np.float32, (1,), "transposed", "contiguous", ONE_TEAM),
    normalization("held halves", (130, 1500), np.float16, (1,), "transposed", "contiguous", ONE_TEAM),
    normalization("held doubles", (70, 901), np.float64, (1,), "transposed", "contiguous"),
    normalization("held from anywhere", (790, 70), np.float32, (0,), "offset by an element", "transposed", ONE_TEAM),
    normalization("held by one block each", (3, 200, 37), np.float32, (1,), "contiguous", "rolled axes", ONE_TEAM),
    turned_batch_norm("held batch norm", (1, 40, 500), ONE_TEAM),
]

# ----------------------------------------------------------------------------------------------------------------------
# Modulus

#: GPUs for which no array is a small one.
FEW_THREADS = SMALL_GPU._replace(threads_per_multiprocessor=0)
OLD_AND_FEW_THREADS = OLD_GPU._replace(threads_per_multiprocessor=0)


def modulus(
    name: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    dtype: Any,
    pattern: str = "contiguous",
    out: str = "contiguous",
    divisor: str = "contiguous",
    device: DeviceProperties = FEW_THREADS,
) -> Call:
    """The operands lie in `pattern` and `divisor`, the result in `out` or, if that is "same", where the first lies."""
    first, second = values(shapes[0], dtype), values(shapes[1], dtype, seed=1)
    if np.dtype(dtype).kind in "iu":  # divisors of all sizes
        second = second >> (np.arange(second.size) % (8 * second.itemsize)).reshape(second.shape).astype(dtype) | 1
    else:
        second += 0.375  # of which few whole numbers are multiples

    def compute(make: AsArray) -> Any:
        x = laid_out(make, first, pattern)
        shape = np.broadcast_shapes(*shapes)
        target = x if out == "same" else laid_out(make, np.zeros(shape, dtype), out)
        return fmod(x, laid_out(make, second, divisor), out=target)

    return Call(name, compute, lambda: (np.fmod(first, second),), device=device)


def by_number(name: str, n: int, swapped: bool = False) -> Call:
    x = values((n,), np.int32) | 1
    if swapped:
        expected = np.fmod(np.int32(1_000_000_007), x)
        return Call(name, lambda make: fmod(1_000_000_007, make(x)), lambda: (expected,), device=FEW_THREADS)
    return Call(name, lambda make: fmod(make(x), 7), lambda: (np.fmod(x, 7),), device=FEW_THREADS)


def huge_quotients(name: str, dtype: Any, device: DeviceProperties) -> Call:
    """Bits at random have all exponents, and every fifth divisor is subnormal."""
    bits = values((2, 600), f"u{np.dtype(dtype).itemsize}")
    bits[1, ::5] &= (1 << np.finfo(dtype).nmant) - 1
    x, y = (np.where(np.isfinite(v), v, 1) for v in bits.view(dtype))
    return Call(name, lambda make: fmod(make(x), make(y)), lambda: (np.fmod(x, y),), device=device)


MODULI = [
    modulus("modulus in packs", ((4097,), (4097,)), np.int8),
    modulus("modulus of whole packs", ((2048,), (2048,)), np.float32),
    modulus("modulus of many blocks", ((40_001,), (40_001,)), np.int8),
    modulus("modulus in place", ((1027,), (1027,)), np.int32, out="same"),
    modulus("modulus of every second", ((515,), (515,)), np.int32, "every second"),
    modulus("modulus of every second byte", ((3, 301), (301,)), np.int8, "every second"),
    modulus("modulus of few", ((515,), (515,)), np.int16, device=SMALL_GPU),
    modulus("modulus shifted by a byte", ((515,), (515,)), np.int32, "offset by a byte", "offset by a byte"),
    modulus("modulus of shifted packs", ((5, 301), (5, 301)), np.int8, "padded lines"),
    modulus("modulus of shifted packs in place", ((5, 301), (5, 301)), np.int8, "padded lines", "same"),
    modulus("modulus shifted within words", ((3, 101), (101,)), np.int16, "offset by a byte", "offset by an element"),
    modulus("modulus of a short row", ((30, 17), (17,)), np.int32, "padded lines"),
    modulus("modulus of a row", ((31, 132), (132,)), np.int32),
    modulus("modulus of a row of halves", ((30, 264), (264,)), np.float16),
    modulus("modulus of a row of shifted halves", ((30, 101), (101,)), np.float16, "padded lines"),
    modulus("modulus of a run of short rows", ((301, 7), (7,)), np.int8),
    modulus("modulus of a run of short rows in place", ((203, 9), (203, 1)), np.int16, out="same"),
    modulus("modulus of a run of rows shorter than a pack", ((501, 3), (501, 3)), np.float32, divisor="padded lines"),
    modulus("modulus of a column", ((30, 132), (30, 1)), np.float32),
    modulus("modulus of a column of bytes", ((30, 512), (30, 1)), np.int8),
    modulus("modulus of a transposed column", ((30, 17), (30, 1)), np.float32, "transposed"),
    modulus("modulus of transposed numbers", ((70, 90), (70, 90)), np.float32, "transposed"),
    modulus("modulus of transposed bytes", ((150, 20), (150, 20)), np.int8, "transposed", divisor="transposed"),
    modulus("modulus of whole tiles", ((128, 130), (128, 130)), np.float32, "transposed"),
    modulus("modulus of whole tiles of bytes", ((256, 256), (256, 256)), np.int8, "transposed", divisor="transposed"),
    modulus("modulus of transposed halves", ((132, 144), (1, 144)), np.float16, "transposed"),
    modulus("modulus of three axes", ((4, 40, 30), (40, 30)), np.int64, "rolled axes"),
    modulus("modulus in 32 bits", ((700,), (700,)), np.uint32),
    modulus("modulus in 64 bits", ((700,), (700,)), np.uint64),
    modulus("modulus in 64 bits on an old GPU", ((700,), (700,)), np.int64, device=OLD_AND_FEW_THREADS),
    huge_quotients("huge quotients", np.float32, FEW_THREADS),
    huge_quotients("huge quotients on an old GPU", np.float32, OLD_AND_FEW_THREADS),
    huge_quotients("huge quotients in double", np.float64, FEW_THREADS),
    by_number("modulus by a number", 1023),
    by_number("modulus of a number", 1025, swapped=True),
]

# ----------------------------------------------------------------------------------------------------------------------
# Kernels of the executor's own tests: what the library does not do yet


def chained_scan(name: str, count: int, all_at_once: bool = False) -> Launch:
    """In one pass: tiles of 128 look back for the sum of those before, a few of them or all at a time."""
    source, tiles = values((count,), np.int32), -(-count // 128)

    def launch(kernel: Kernel, schedule: Schedule) -> Any:
        result, states = empty((count,), np.int32), device_array(np.zeros(tiles, np.uint64))
        arguments = (device_array(source), result, states, device_array(np.zeros(1, np.uint32)), np.int32(count))
        kernel(tiles, 64, arguments, cooperative=all_at_once, schedule=schedule)
        return result

    constants = {"VALUE": "int", "THREADS": 64, "ITEMS": 2}
    sums = np.cumsum(source, dtype=np.int32)
    return Launch(name, "chained_scan.cu", "chained_scan", launch, lambda: (sums,), constants=constants)


def tile_stream(name: str, count: int, blocks: int, workers: int, vectors: int, stages: int, ahead: int) -> Launch:
    """A ring of bulk loads, and a warp that folds what all blocks publish."""
    tile, source = workers * vectors * 128, values((count,), np.int32)

    def launch(kernel: Kernel, schedule: Schedule) -> Any:
        result, published = empty((count,), np.int32), device_array(np.full(-(-count // tile), 1 << 32, np.uint64))
        arguments = (device_array(source), result, published, np.uint32(2), np.int32(count))
        threads, shared_bytes = (workers + 2) * 32, stages * tile * 4
        kernel(blocks, threads, arguments, shared_bytes=shared_bytes, cooperative=True, schedule=schedule)
        return result

    constants = {"VALUE": "int", "WORKERS": workers, "VECTORS": vectors, "STAGES": stages, "AHEAD": ahead}
    sums = np.cumsum(source, dtype=np.int32)
    return Launch(name, "tile_stream.cu", "tile_stream", launch, lambda: (sums,), constants=constants)


def staged_copy(name: str, count: int, blocks: int) -> Launch:
    source = values((count,), np.int32)
    turned = np.concatenate([source[first : first + 256][::-1] for first in range(0, count, 256)])

    def launch(kernel: Kernel, schedule: Schedule) -> Any:
        result = empty((count,), np.int32)
        kernel(blocks, 64, (device_array(source), result, np.int32(count)), schedule=schedule)
        return result

    return Launch(name, "staged_copy.cu", "staged_copy", launch, lambda: (turned,))


def last_block_sum() -> Launch:
    source = values((3000,), np.float32)

    def launch(kernel: Kernel, schedule: Schedule) -> Any:
        result, partial = empty((1,), np.float32), empty((7,), np.float32, uninitialised=True)
        finished = device_array(np.zeros(1, np.uint32))
        kernel(7, 96, (device_array(source), partial, finished, result, np.int32(source.size)), schedule=schedule)
        return result

    return Launch("sum by the last block", "last_block_sum.cu", "last_block_sum", launch, lambda: (source.sum()[None],))


def two_block_sums() -> Launch:
    source = values((1000,), np.float32)

    def launch(kernel: Kernel, schedule: Schedule) -> Any:
        result = empty((2,), np.float32)
        kernel(1, 256, (device_array(source), result, np.int32(source.size)), schedule=schedule)
        return result

    sums = np.array([source.sum(), np.square(source).sum()])
    return Launch("two sums of a block", "last_block_sum.cu", "moments", launch, lambda: (sums,))


def grid_mean() -> Launch:
    source = floats((1500,), np.float32)

    def launch(kernel: Kernel, schedule: Schedule) -> Any:
        result, sums = device_array(source), empty((5,), np.float64, uninitialised=True)
        kernel(5, 64, (result, sums, np.int32(source.size)), cooperative=True, schedule=schedule)
        return result

    centred = source - source.mean(dtype=np.float64)
    return Launch("mean over the grid", "grid_mean.cu", "grid_mean", launch, lambda: (centred,), 1e-6)


def sums_of_eight() -> Launch:
    source = values((256,), np.int32)

    def launch(kernel: Kernel, schedule: Schedule) -> Any:
        result = empty((32,), np.int32)
        kernel(2, 128, (device_array(source), result), schedule=schedule)
        return result

    sums = source.reshape(-1, 8).sum(axis=1, dtype=np.int32)
    return Launch("sums by tiles of a warp", "grid_mean.cu", "sums_of_eight", launch, lambda: (sums,))


def cluster_histogram() -> Launch:
    source = np.random.default_rng(0).integers(0, 200, 1500).astype(np.uint32)

    def launch(kernel: Kernel, schedule: Schedule) -> Any:
        result = device_array(np.zeros(200, np.uint32))
        arguments = (device_array(source), result, np.int32(source.size), np.uint32(50))
        kernel(8, 64, arguments, shared_bytes=200, schedule=schedule)
        return result

    counts = np.bincount(source, minlength=200)
    return Launch("histogram of a cluster", "cluster_histogram.cu", "cluster_histogram", launch, lambda: (counts,))


def idiom(name: str, file: str, grid: int, block: int, expected: Any, **options: Any) -> Launch:
    """A kernel of the idioms, whose launches test_cuda_on_cpu_idioms.py has."""
    wanted = np.asarray(expected, np.int32)

    def launch(kernel: Kernel, schedule: Schedule) -> Any:
        result, flags = device_array(np.zeros(wanted.size, np.int32)), device_array(np.zeros(8, np.uint64))
        kernel(grid, block, (result, flags), schedule=schedule, **options)
        return result

    return Launch(name, file, name, launch, lambda: (wanted,))


PATTERNS = [
    chained_scan("look-back within a window", 5 * 128 + 7),
    chained_scan("look-back of a few tiles at a time", 40 * 128),
    chained_scan("look-back over windows", 70 * 128, all_at_once=True),
    tile_stream("stream of tiles", 7 * 256 + 5, 3, 2, 1, 3, 1),
    tile_stream("stream of tiles by one block", 5 * 256, 1, 1, 2, 2, 1),
    tile_stream("stream of more tiles than lanes", 40 * 128, 2, 1, 1, 4, 2),
    staged_copy("tiles in two buffers", 1001, 2),
    staged_copy("tiles in two buffers by one block", 1280, 1),
    last_block_sum(),
    two_block_sums(),
    grid_mean(),
    sums_of_eight(),
    cluster_histogram(),
    idiom("chain", "idioms_order.cu", 6, 32, 2 ** np.arange(6)),
    idiom("block_publishes", "idioms_order.cu", 4, 128, np.tile(np.arange(128), 4), cooperative=True),
    idiom("spin_lock", "idioms_order.cu", 4, 128, [8]),
    idiom("store_fenced", "idioms_copies.cu", 1, 128, np.concatenate([np.arange(128), 1000 + np.arange(128)])),
]

CALLS: list[Call] = [
    *ROWS,
    *SHORT_ROWS,
    *LONG_ROWS,
    *LINKED_TILES,
    *SEGMENTED,
    *SHORT_COLUMNS,
    *PANELS,
    *WHOLE_COLUMNS,
    *COLUMNS_IN_STEP,
    *COLUMNS,
    *SMALL_GROUPS,
    *SMALL_COLUMNS,
    *LARGE_GROUPS,
    *CLUSTERED_LINES,
    *STREAMS,
    *STRIPS,
    *CLUSTERS,
    *BUNDLES,
    *SHARED_BUNDLES,
    *TILED_BUNDLES,
    *LONG_PANELS,
    *TILED_PANELS,
    *TURNED,
    *HELD,
    *MODULI,
]

# A case for each use of kernels/tickets.cuh; the epochs that are left to it are one more than a launch takes.
SHARING_SCRATCH = (
    "linked tiles, twice",
    "long rows of full tiles",
    "segments over tiles",
    "columns in boxes",
    "columns in step",
    "stream",
    "strips",
    "strips of doubles",
    "tiled panels",
)
CALLS += [
    replace(call, name=f"{call.name} as epochs start again", last_epochs=2)
    for call in CALLS
    if call.name in SHARING_SCRATCH
]

# Teams take three epochs. One array is enough: two, as above, take the checker minutes.
TEAMS = normalization("stream that teams draw as epochs start again", (40, 14_300), np.float64, (1,), device=TEAMS_GPU)
CALLS.append(replace(TEAMS, last_epochs=4))

# A launch of several epochs, as slots come round, for which those that are left are too few.
EPOCHS_RUN_OUT = replace(
    normalization("epochs run out", (1100, 1056), np.float64, (0,), device=RING_OF_STRIPS_GPU), last_epochs=2
)

CASES: dict[str, Case] = {case.name: case for case in [*CALLS, *PATTERNS]}
