"""Looks for weak shapes: `python -m benchmarks.sweep [--seed N] [--count N] [--out FILE] [--against FILE]`.

What `benchmarks.run` measures are shapes that somebody thought of. These are drawn at random, from 2^12 elements to
2^27, and measured beside a copy and torch. Printed are those that torch is faster at, and those far behind the copy;
and of those whose times another version wrote to a file before, on the same GPU, which take longer now. With --compiled
they are normalizations alone, beside torch.compile too, which takes a second or two for each; with --orders arrays
whose axes lie in any order.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import modulus, normalization, scan
from benchmarks.case import Case, Family
from benchmarks.compile_ahead import compile_all, kernels_of
from benchmarks.device import Device, Gpu, Host
from cudml import info

#: Elements of an array: powers of two.
_SMALLEST, _LARGEST = 12, 27

#: Of the copy's speed, from so many bytes on: less is far behind. Smaller calls take as long as a launch does.
_EXPECTED = ((1 << 26, 0.75), (1 << 23, 0.5), (1 << 20, 0.25))

#: Another library is called faster from this ratio of the times on; less is noise.
_FASTER = 1.02

#: And a case takes longer than before, or less time, from this ratio on.
_CHANGED = 1.03

#: Sets of buffers, so that a small case finds nothing in the cache of the one before.
_SETS, _SMALL_BYTES = 6, 100 << 20

#: By name the axes of what are called norms, of images with their features in axis 1, but for the last one.
_NORMS = {"instance": (2, 3), "batch": (0, 2, 3), "group": (1, 2, 3), "batch, channels last": (0, 1, 2)}

_KINDS = ("scan", "scan", "normalization", "normalization", "group norm", "moments", "modulus")
_RANKS = (1, 2, 2, 2, 3)
_SCANNED = ("float32", "float32", "float16", "bfloat16", "float64", "int8", "int32", "int64")
_NORMALIZED = ("float32", "float32", "float16", "bfloat16", "float64")
_DIVIDED = ("float32", "float16", "float64", "int8", "int16", "int32", "int64")
_DIVISORS = ("", "number", "row", "column")


class Draw:
    """Random choices, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def number(self, count: int) -> int:
        """From 0 to below `count`."""
        return int(self._random.integers(count))

    def one_of(self, choices: Sequence[str]) -> str:
        return choices[self.number(len(choices))]

    def order(self, count: int) -> list[int]:
        """The numbers below `count`, each once."""
        return [int(number) for number in self._random.permutation(count)]

    def size(self) -> int:
        return int(2 ** self._random.uniform(_SMALLEST, _LARGEST))

    def length(self, most: float, least: int = 1) -> int:
        """Any, a multiple of 4 or 32, or a power of two; short ones as often as long ones."""
        length = max(least, round(math.exp(self._random.uniform(math.log(least), math.log(max(most, least))))))
        kind = self.number(4)
        if kind == 0:
            return 1 << round(math.log2(length))
        multiple = (1, 4, 32)[kind - 1]
        return max(least, length // multiple * multiple)

    def shape(self, size: int, rank: int) -> tuple[int, ...]:
        """Of about so many elements, in any order of the axes."""
        shape: list[int] = []
        for _ in range(rank - 1):
            shape.append(self.length(size / math.prod(shape)))
        shape.append(max(1, size // math.prod(shape)))
        return tuple(int(length) for length in self._random.permutation(shape))


def cases(seed: int, count: int, compiled: bool = False, orders: bool = False) -> Iterator[tuple[Family, Case]]:
    """So many cases of all families, each once; or of those that torch.compile is measured for, if it shall be; or of
    those whose axes may lie in any order."""
    draw, seen = Draw(seed), set[str]()
    while len(seen) < count:
        family, case = _draw_case(draw)
        if orders:
            if len(case.shape) == 1:
                continue
            case = replace(case, options={**case.options, **_draw_order(draw, family, len(case.shape))})
        # The formula that is compiled computes in float32.
        case = replace(case, compiled_peer=compiled and "scale" in case.options and case.dtype != "float64")
        is_asked_for = case.compiled_peer or not compiled
        if is_asked_for and str(case) not in seen and math.prod(case.shape) >= 1 << _SMALLEST:
            seen.add(str(case))
            yield family, case


def _draw_case(draw: Draw) -> tuple[Family, Case]:
    kind = draw.one_of(_KINDS)
    if kind == "scan":
        shape = draw.shape(draw.size(), _RANKS[draw.number(len(_RANKS))])
        return scan, scan.ScanCase("cumsum", draw.one_of(_SCANNED), shape, draw.number(len(shape)))
    if kind == "modulus":
        shape, divisor = draw.shape(draw.size(), 2 + draw.number(3)), draw.one_of(_DIVISORS)
        given = {"divisor": divisor} if divisor else {}
        return modulus, modulus.ModulusCase("fmod", draw.one_of(_DIVIDED), shape, None, given)
    is_per_channel = kind == "group norm"
    shape, axis = _draw_channels(draw) if is_per_channel else _draw_groups(draw)
    scale = normalization.channel_shape(shape) if is_per_channel else normalization.scale_shape(shape, axis)
    if kind == "moments":
        return normalization, normalization.NormalizationCase("mean_var", draw.one_of(_NORMALIZED), shape, axis)
    options: dict[str, Any] = {"scale": list(scale)}
    op, dtype = "mean_variance_normalization", draw.one_of(_NORMALIZED)
    return normalization, normalization.NormalizationCase(op, dtype, shape, axis, options)


def _draw_order(draw: Draw, family: Family, rank: int) -> dict[str, Any]:
    """The output lies like the input, as it does if none is given, or in C order; a divisor like the dividend or in C
    order."""
    view = {"view": scan.name_of_order(draw.order(rank), of_output=draw.number(3) > 0)}
    return {**view, "views": 1 + draw.number(2)} if family is modulus else view


def _draw_groups(draw: Draw) -> tuple[tuple[int, ...], int | tuple[int, ...]]:
    """A shape and its axes: a matrix over either, or images."""
    if draw.number(2):
        rows = draw.length(1 << 20, least=2)
        shape = (rows, max(2, draw.size() // rows))
        return (shape, 1) if draw.number(2) else (shape[::-1], 0)
    norm = draw.one_of(tuple(_NORMS))
    size, height, width = draw.size(), draw.length(1024, least=2), draw.length(1024, least=2)
    features = draw.length(min(1024, size // (height * width)), least=2)
    count = max(2, size // (height * width * features))
    last = norm == "batch, channels last"
    return (count, height, width, features) if last else (count, features, height, width), _NORMS[norm]


def _draw_channels(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Images, groups, channels of each, and pixels, of which the latter share a mean."""
    size, pixels, channels = draw.size(), draw.length(4096, least=4), draw.length(64, least=2)
    groups = draw.length(min(32, size // (pixels * channels)), least=2)
    return (max(2, size // (pixels * channels * groups)), groups, channels, pixels), (2, 3)


class Found(NamedTuple):
    """What a case took."""

    case: Case
    ms: float
    copy_ms: float
    peers_ms: dict[str, float]
    """Of torch and, if that was asked for, torch.compile."""

    def of_peer(self, name: str) -> float:
        """How many times as long as another library; 0 where that was not measured."""
        return self.ms / self.peers_ms[name] if name in self.peers_ms else 0

    @property
    def is_weak(self) -> bool:
        expected = next((fraction for nbytes, fraction in _EXPECTED if self.case.bytes >= nbytes), 0)
        return self.copy_ms < expected * self.ms

    def __str__(self) -> str:
        peers = "".join(f", {self.of_peer(name):.2f} of {name}'s time" for name in self.peers_ms)
        return f"{100 * self.copy_ms / self.ms:6.1f} % of copy {1e3 * self.ms:10.2f} us  {self.case}{peers}"


def measure(device: Device, family: Family, case: Case) -> Found:
    """The case, a copy of as many bytes and, where it has a kernel for that, torch; torch.compile if the case says."""
    sets = [family.arrays(case, device.xp) for _ in range(_SETS if case.bytes < _SMALL_BYTES else 1)]
    ms = device.milliseconds([family.ours(case, arrays) for arrays in sets])
    copy_ms = device.milliseconds([device.copy(case.bytes) for _ in sets])
    peers_ms: dict[str, float] = {}
    for name, peers in (("torch", family.peers), ("torch_compile", family.compiled_peers)):
        calls = [peers(case, arrays).get(name) for arrays in sets]
        try:
            if found := [call for call in calls if call]:
                peers_ms[name] = device.milliseconds(found)
        except Exception as error:  # what it has no kernel for
            print(f"{name}: {case}: {error}")
    return Found(case, ms, copy_ms, peers_ms)


def sweep(device: Device, chosen: Iterable[tuple[Family, Case]], deadline: float) -> list[Found]:
    """Until the deadline."""
    found: list[Found] = []
    for family, case in chosen:
        if time.monotonic() > deadline:
            print("out of time: the remaining cases are left out")
            break
        found.append(measure(device, family, case))
        device.free_memory()
    return found


def table(found: Sequence[Found]) -> str:
    """The cases that are weak, the worst first."""
    behind = {name: _behind(found, name) for name in ("torch", "torch_compile")}
    weak = sorted((f for f in found if f.is_weak), key=lambda f: f.copy_ms / f.ms)
    counts = "".join(f" {len(slower)} slower than {name}," for name, slower in behind.items())
    lines = [f"{len(found)} cases:{counts} {len(weak)} far behind a copy"]
    for name, slower in behind.items():
        lines += [f"slower than {name}:", *map(str, slower)]
    return "\n".join([*lines, "far behind a copy:", *map(str, weak)])


def _behind(found: Sequence[Found], name: str) -> list[Found]:
    return sorted((f for f in found if f.of_peer(name) > _FASTER), key=lambda f: -f.of_peer(name))


def times_of(found: Iterable[Found]) -> dict[str, float]:
    """Milliseconds by the case's name."""
    return {str(f.case): f.ms for f in found}


def changes(now: Mapping[str, float], before: Mapping[str, float]) -> str:
    """The cases of both that take longer or less than before, the worst first."""
    ratios = {name: now[name] / before[name] for name in now.keys() & before.keys()}
    changed = [name for name, ratio in ratios.items() if max(ratio, 1 / ratio) > _CHANGED]
    longer = sum(ratios[name] > 1 for name in changed)
    head = f"{len(ratios)} cases measured before: {longer} take longer, {len(changed) - longer} less"
    lines = (
        f"{ratios[name]:6.2f} times {1e3 * before[name]:10.2f} us, now {1e3 * now[name]:10.2f}  {name}"
        for name in sorted(changed, key=lambda name: -ratios[name])
    )
    return "\n".join([head, *lines])


def report(found: Sequence[Found], out: Path | None, against: Path | None) -> None:
    """Prints what was found, and keeps the times for another version's `against`."""
    print(table(found))
    if against:
        print(changes(times_of(found), json.loads(against.read_text())))
    if out:
        out.write_text(json.dumps(times_of(found), indent=1))


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="other shapes")
    parser.add_argument("--count", type=int, default=450)
    parser.add_argument("--compiled", action="store_true", help="normalizations alone, beside torch.compile too")
    parser.add_argument("--orders", action="store_true", help="arrays whose axes lie in any order")
    parser.add_argument("--time-budget", type=float, default=240, help="seconds after which no case is begun")
    parser.add_argument("--dry-run", action="store_true", help="a few elements on the CPU, to test the harness")
    parser.add_argument("--out", metavar="FILE", type=Path, help="keep the times for --against")
    parser.add_argument("--against", metavar="FILE", type=Path, help="tell what takes longer than these times")
    options = parser.parse_args(arguments)
    chosen = list(cases(options.seed, options.count, options.compiled, options.orders))
    deadline = time.monotonic() + options.time_budget
    if options.dry_run:
        shrunk = [(family, case.shrunk()) for family, case in chosen]
        report(sweep(Host(), shrunk, deadline), options.out, options.against)
        return 0
    problem = info.gpu_problem()
    if problem:
        print(f"the benchmarks need a GPU: {problem}", file=sys.stderr)
        return 2
    from cudml.cuda.device import architecture_of  # which needs CuPy

    gpu = Gpu()
    compile_all(kernels_of(chosen), architecture_of(0))
    report(sweep(gpu, chosen, deadline), options.out, options.against)
    return 0


if __name__ == "__main__":
    sys.exit(main())
