"""Random calls, larger and stranger than those of the suite: `python tests/fuzz.py --seconds 60`.

Which kernel computes a call, and how its work is shared out, depends on sizes, strides, alignment and the GPU; results
depend on values alone. So each call is made twice on arrays in some odd layout, and once on dense ones whose lines or
groups are rows, and every bit has to agree. That those are right is what tests/test_*.py show. Nothing beside an output
may be written, and no input.

A case that fails is named by its number: `--case 17`. `--backend emulated --largest 12` needs no GPU.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from conftest import BACKENDS
from layouts import POISON, Pattern, Poisoned, View
from reference import FLOATS, INTEGERS, SCAN_DTYPES, is_float

import cudml
from cudml.plan.activation import PARAMETERS

#: Elements of an array: powers of two.
_SMALLEST, _LARGEST = 4, 23

#: And of all that its buffer has room for, unless it is dense.
_MOST = 1 << 26

#: What plans may be made for, beside the GPU at hand.
_OTHER_GPUS = (
    {"compute_capability": (8, 0)},
    {"compute_capability": (7, 5)},
    {"multiprocessors": 20},
    {"multiprocessors": 1},
    {"multiprocessors": 46, "cache_bytes": 4 << 20, "compute_capability": (8, 6)},
    {"cluster_launch": False},
    {"cooperative_launch": False},
)

_SCANS = (cudml.cumsum, cudml.cumprod, cudml.cumulative_sum, cudml.cumulative_prod)
_SEGMENTED_SCANS = (cudml.segmented_cumsum, cudml.segmented_cumprod)


class Draw:
    """Random choices, the same for the same number."""

    def __init__(self, number: int, largest: int) -> None:
        self.random = np.random.default_rng(number)
        self._largest = largest

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def one_of(self, choices: Sequence[Any]) -> Any:
        return choices[self.random.integers(len(choices))]

    def length(self, most: float) -> int:
        """Short ones as often as long ones; powers of two and their neighbours more often than others."""
        length = math.exp(self.random.uniform(0, math.log(max(most, 1))))
        if self.chance(0.4):
            length = 2 ** round(math.log2(length)) + self.one_of((0, 0, 0, 1, -1))
        return max(1, min(round(length), int(most)))

    def shape(self, most_axes: int = 4) -> tuple[int, ...]:
        size, shape = 2 ** self.random.uniform(_SMALLEST, self._largest), list[int]()
        for _ in range(self.random.integers(most_axes)):
            shape.append(self.length(size / math.prod(shape)))
        shape.append(max(1, int(size / math.prod(shape))))
        return tuple(int(n) for n in self.random.permutation(shape))

    def values(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """Floats around a few units, sometimes with others among them; integers over their range or near 0."""
        if dtype.kind in "biu":
            low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            if self.chance(0.5):
                low, high = max(low, -9), min(high, 9)
            return self.random.integers(low, high, shape, dtype, endpoint=True)
        values = self.random.standard_normal(shape, np.float32)
        values = values * np.float32(self.one_of((0.01, 1, 30))) + np.float32(self.one_of((0, 1, 1, 1000)))
        if self.chance(0.1):
            values[self.random.random(shape) < 0.01] = self.one_of((np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40))
        return (values * (1 - 2j)).astype(dtype) if dtype.kind == "c" else values.astype(dtype)


def any_pattern(draw: Draw, rank: int) -> Pattern:
    """Axes in any order, with steps and gaps, from any byte on; or a dense array."""
    is_dense = draw.chance(0.3)
    order = [*range(rank)] if is_dense else [int(axis) for axis in draw.random.permutation(rank)]
    steps = [1 if is_dense else draw.one_of((1, 1, 1, 1, -1, 2)) for _ in range(rank)]
    gaps = [0 if is_dense else draw.one_of((0, 0, 0, 1, 3, 16)) for _ in range(rank)]
    skipped = draw.one_of((0, 0, 0, None, 8, 1))  # None: an element

    def layout(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, View]:
        reaches = [n * abs(step) + gap for n, step, gap in zip(shape, steps, gaps, strict=True)]
        fits = math.prod(reaches) <= _MOST
        stored = [reaches[axis] if fits else shape[axis] for axis in order]
        start = dtype.itemsize if skipped is None else skipped
        end = start + math.prod(stored) * dtype.itemsize
        parts = [
            slice(None) if not fits else slice(n - 1, None, -1) if step < 0 else slice(0, n * step, step)
            for n, step in zip(shape, steps, strict=True)
        ]

        def take(buffer: Any) -> Any:
            array = buffer[start:end].view(dtype).reshape(stored)
            return array.transpose([order.index(axis) for axis in range(rank)])[tuple(parts)]

        return end + 16, take

    return layout


class Placed(Poisoned):
    """An array in some layout, inside a buffer that is full of poison elsewhere."""

    def __init__(self, xp: Any, draw: Draw, shape: Sequence[int], dtype: np.dtype) -> None:
        super().__init__(xp, tuple(shape), dtype, any_pattern(draw, len(shape)))
        self.shape, self.dtype = tuple(shape), dtype

    def fill(self, values: np.ndarray | None = None) -> Placed:
        """Puts in the values, or poison."""
        host = np.full(self._buffer.shape, POISON, np.uint8)
        if values is not None:
            self._view(host)[...] = values
        self._buffer[...] = self._xp.asarray(host)
        return self

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape} with strides {self.array.strides}"


@dataclass
class Call:
    """A call, and the dense one that has to find the same bits."""

    name: str
    inputs: list[Placed]
    compute: Callable[[Any], Any]
    """With the output to write to, or None; the result or some of them."""
    dense: Callable[[Any], tuple[np.ndarray, ...]]
    """The results of the dense call with an output of the same dtype, or None, in the same order of axes."""
    shape: tuple[int, ...]
    out_dtypes: Sequence[np.dtype] = field(default_factory=list)
    """Of the outputs that can be given; none can be if this is empty."""
    in_place: bool = True


def check(xp: Any, draw: Draw, call: Call) -> None:
    """Raises AssertionError unless both ways agree, as often as they are made."""
    values = [placed.read() for placed in call.inputs]
    target = _target(xp, draw, call)
    name = f"{call.name} of {', '.join(map(str, call.inputs))} into {target}"
    expected = call.dense(target and target.dtype)
    others = draw.one_of(_OTHER_GPUS) if draw.chance(0.3) else None
    with xp.planned_for(**others) if others else nullcontext():
        for _ in range(2):
            if target is call.inputs[0]:
                target.fill(values[0])
            elif target:
                target.fill()
            results = call.compute(target and target.array)
            results = results if isinstance(results, tuple) else (results,)
            found = [target.read()] if target else [xp.to_numpy(result) for result in results]
            for one, other in zip(found, expected, strict=True):
                assert_same_bits(one, other, f"{name}, planned for {others}")
            for placed, before in zip(call.inputs, values, strict=True):
                if placed is not target:
                    assert_same_bits(placed.read(), before, f"an input of {name}")


def _target(xp: Any, draw: Draw, call: Call) -> Placed | None:
    if not call.out_dtypes or draw.chance(0.3):
        return None
    first = call.inputs[0]
    if call.in_place and first.shape == call.shape and draw.chance(0.3):
        return first
    return Placed(xp, draw, call.shape, draw.one_of([first.dtype, draw.one_of(call.out_dtypes)]))


def assert_same_bits(found: np.ndarray, expected: np.ndarray, name: str) -> None:
    """All NaN are equal."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), name
    real = (f"f{found.dtype.itemsize // 2}",) * (found.dtype.kind == "c")
    found, expected = (np.ascontiguousarray(array).reshape(-1).view(*real) for array in (found, expected))
    differ = found.view(f"u{found.itemsize}") != expected.view(f"u{found.itemsize}")
    if is_float(found.dtype):
        differ &= ~(np.isnan(found) & np.isnan(expected))
    count = int(np.count_nonzero(differ))
    first = int(differ.argmax())
    assert count == 0, f"{name}: {count} differ, the first is number {first}: {found[first]!r}, not {expected[first]!r}"


def _dense(xp: Any, shape: Sequence[int], dtype: np.dtype | None) -> Any:
    return None if dtype is None else xp.asarray(np.zeros(shape, dtype))


def scan(xp: Any, draw: Draw) -> Call:
    """Rows are what is scanned in the dense call."""
    dtype, shape, function = draw.one_of(SCAN_DTYPES), draw.shape(), draw.one_of(_SCANS)
    axis = int(draw.random.integers(len(shape)))
    options: dict[str, Any] = {name: True for name in ("reverse", "exclusive") if draw.chance(0.25)}
    initial = "exclusive" not in options and "cumulative" in function.__name__ and draw.chance(0.5)
    options |= {"include_initial": True} if initial else {}
    dtypes = [other for other in SCAN_DTYPES if (other.kind == "c") == (dtype.kind == "c")]
    options |= {"dtype": draw.one_of(dtypes)} if draw.chance(0.3) else {}
    x = Placed(xp, draw, shape, dtype).fill(draw.values(shape, dtype))
    rows = np.moveaxis(x.read(), axis, -1)

    def dense(out_dtype: np.dtype | None) -> tuple[np.ndarray, ...]:
        out = _dense(xp, (*rows.shape[:-1], rows.shape[-1] + initial), out_dtype)
        return (np.moveaxis(xp.to_numpy(function(xp.asarray(rows), axis=-1, out=out, **options)), -1, axis),)

    lengths = (*shape[:axis], shape[axis] + initial, *shape[axis + 1 :])
    compute = lambda out: function(x.array, axis=axis, out=out, **options)  # noqa: E731
    name = f"{function.__name__}, axis {axis} {options}"
    return Call(name, [x], compute, dense, lengths, dtypes, in_place=not initial)


def segmented_scan(xp: Any, draw: Draw) -> Call:
    """Offsets are on the host in the dense call."""
    dtype, (size,), function = draw.one_of(SCAN_DTYPES), draw.shape(most_axes=1), draw.one_of(_SEGMENTED_SCANS)
    options = {name: True for name in ("reverse", "exclusive") if draw.chance(0.25)}
    count = draw.length(size)
    offsets = np.sort(np.r_[0, draw.random.integers(0, size, count, endpoint=True), size])
    placed = Placed(xp, draw, offsets.shape, draw.one_of((np.dtype("i4"), np.dtype("i8")))).fill(offsets)
    x = Placed(xp, draw, (size,), dtype).fill(draw.values((size,), dtype))
    values = x.read()

    def dense(out_dtype: np.dtype | None) -> tuple[np.ndarray, ...]:
        return (xp.to_numpy(function(xp.asarray(values), offsets, out=_dense(xp, (size,), out_dtype), **options)),)

    dtypes = [other for other in SCAN_DTYPES if (other.kind == "c") == (dtype.kind == "c")]
    compute = lambda out: function(x.array, placed.array, out=out, **options)  # noqa: E731
    return Call(f"{function.__name__} {options}", [x, placed], compute, dense, (size,), dtypes)


def _groups(draw: Draw, rank: int) -> tuple[tuple[int, ...], list[int]]:
    """Some axes, and an order of all in which they come last."""
    axes = tuple(axis for axis in range(rank) if draw.chance(0.5))
    return axes, [*(axis for axis in range(rank) if axis not in axes), *axes]


def _back(order: Sequence[int], array: np.ndarray) -> np.ndarray:
    return array.transpose([order.index(axis) for axis in range(len(order))])


def normalization(xp: Any, draw: Draw) -> Call:
    """Rows are groups in the dense call."""
    dtype, shape = draw.one_of(FLOATS), draw.shape()
    axes, order = _groups(draw, len(shape))
    x = Placed(xp, draw, shape, dtype).fill(draw.values(shape, dtype))
    operands = [_operand(xp, draw, shape) for _ in range(2)]
    options: dict[str, Any] = {"epsilon": draw.one_of((1e-5, 1e-5, 0.0, 0.5))}
    options |= {"normalize_variance": False} if draw.chance(0.1) else {}
    options |= {"activation": draw.one_of([*PARAMETERS])} if draw.chance(0.3) else {}
    last = tuple(range(len(shape) - len(axes), len(shape)))
    rows, *turned = (
        placed.read().transpose(order) if isinstance(placed, Placed) else placed for placed in (x, *operands)
    )

    def dense(out_dtype: np.dtype | None) -> tuple[np.ndarray, ...]:
        given = [xp.asarray(array) if isinstance(array, np.ndarray) else array for array in (rows, *turned)]
        out = _dense(xp, rows.shape, out_dtype)
        return (_back(order, xp.to_numpy(cudml.mean_variance_normalization(*given, axes=last, out=out, **options))),)

    given = [placed.array if isinstance(placed, Placed) else placed for placed in (x, *operands)]
    compute = lambda out: cudml.mean_variance_normalization(*given, axes=axes, out=out, **options)  # noqa: E731
    inputs = [x, *(placed for placed in operands if isinstance(placed, Placed))]
    numbers = [placed for placed in operands if not isinstance(placed, Placed)]
    return Call(f"normalization over {axes} {options} {numbers}", inputs, compute, dense, shape, FLOATS)


def _operand(xp: Any, draw: Draw, shape: Sequence[int]) -> Placed | float | None:
    if draw.chance(0.4):
        return draw.one_of((None, 1.5))
    lengths, dtype = [1 if draw.chance(0.5) else n for n in shape], draw.one_of(FLOATS)
    return Placed(xp, draw, lengths, dtype).fill(draw.values(lengths, dtype))


def moments(xp: Any, draw: Draw) -> Call:
    """Rows are groups in the dense call."""
    dtype, shape = draw.one_of(FLOATS), draw.shape()
    axes, order = _groups(draw, len(shape))
    x = Placed(xp, draw, shape, dtype).fill(draw.values(shape, dtype))
    options = {"keepdims": True, "correction": draw.one_of((0, 0, 1, 0.5))}
    rows, last = x.read().transpose(order), tuple(range(len(shape) - len(axes), len(shape)))

    def dense(out_dtype: np.dtype | None) -> tuple[np.ndarray, ...]:
        found = cudml.mean_var(xp.asarray(rows), last, **options)
        return tuple(_back(order, xp.to_numpy(array)) for array in found)

    compute = lambda out: cudml.mean_var(x.array, axes, **options)  # noqa: E731
    return Call(f"mean and variance over {axes} {options}", [x], compute, dense, shape)


def modulus(xp: Any, draw: Draw) -> Call:
    """Operands have the shape of the result in the dense call."""
    shape, dtype = draw.shape(), draw.one_of([*INTEGERS, *FLOATS])
    parts = [[1 if draw.chance(0.2 * k) else n for n in shape] for k in range(2)]
    placed = [Placed(xp, draw, part, dtype).fill(draw.values(part, dtype)) for part in parts]
    number = draw.one_of((3, 7)) if draw.chance(0.2) else None
    values = [np.broadcast_to(operand.read(), shape) for operand in placed]

    def dense(out_dtype: np.dtype | None) -> tuple[np.ndarray, ...]:
        dividend, divisor = (xp.asarray(array) for array in values)
        out = _dense(xp, shape, out_dtype)
        return (xp.to_numpy(cudml.fmod(dividend, divisor if number is None else number, out=out)),)

    divisor = placed[1].array if number is None else number
    compute = lambda out: cudml.fmod(placed[0].array, divisor, out=out)  # noqa: E731
    wider = [other for other in [*INTEGERS, *FLOATS] if np.can_cast(dtype, other, "same_kind")]
    inputs = placed if number is None else placed[:1]
    return Call(f"fmod by {number or 'an array'}", inputs, compute, dense, shape, wider)


KINDS = (scan, scan, scan, segmented_scan, normalization, normalization, normalization, moments, modulus)


def run(xp: Any, number: int, largest: int) -> str | None:
    """What is wrong with a case; None if nothing is."""
    draw = Draw(number, largest)
    try:
        with np.errstate(all="ignore"):
            check(xp, draw, draw.one_of(KINDS)(xp, draw))
    except AssertionError as error:
        return f"case {number}: {error}"
    except Exception:
        return f"case {number}: {traceback.format_exc()}"
    return None


def work(number: int, options: argparse.Namespace, deadline: float) -> tuple[int, int, str | None]:
    """The next number, how many cases were made and what was wrong with the last: after an error of a kernel a process
    can do nothing more on a GPU."""
    xp, count = BACKENDS[options.backend](), 0
    if options.backend == "emulated":
        xp.backend.checking = options.checking
    while count == 0 or time.time() < deadline:
        problem, count, number = run(xp, number, options.largest), count + 1, number + options.processes
        if problem or options.case is not None:
            return number, count, problem
    return number, count, None


def work_on(first: int, options: argparse.Namespace, deadline: float) -> tuple[int, int]:
    """How many cases were made, by one process after the other, and how many were wrong."""
    number, count, wrong = first, 0, 0
    while count == 0 or (time.time() < deadline and options.case is None):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            number, made, problem = pool.apply(work, (number, options, deadline))
        count += made
        if problem:
            wrong += 1
            print(problem, flush=True)
    return count, wrong


def main() -> int:
    """Returns the exit code: 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=[name for name in BACKENDS if name != "cpu"], default="cuda")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=1, help="kernels are compiled in as many")
    parser.add_argument("--seed", type=int, default=0, help="other cases")
    parser.add_argument("--case", type=int, metavar="N", help="one case alone")
    parser.add_argument("--checking", action="store_true", help="backend emulated looks for races too")
    parser.add_argument("--largest", type=int, default=_LARGEST, metavar="N", help="arrays of up to 2^N elements")
    options = parser.parse_args()
    deadline, seed = time.time() + options.seconds, options.seed * 1_000_000
    firsts = range(seed, seed + options.processes) if options.case is None else [options.case]
    with ThreadPoolExecutor(len(firsts)) as threads:
        results = list(threads.map(lambda first: work_on(first, options, deadline), firsts))
    count, wrong = (sum(numbers) for numbers in zip(*results, strict=True))
    print(f"{count} cases, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
