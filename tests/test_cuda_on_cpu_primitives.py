"""Votes, reductions, shuffles, atomics and indices of the executor against NumPy, and the same on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_cpu import Module, device_array, requirement, schedules
from gpu_kernels import gpu_kernel

if requirement():
    pytest.skip(f"kernels cannot run on this CPU: {requirement()}", allow_module_level=True)

SOURCE = Path(__file__).parent / "cuda_on_cpu" / "kernels" / "primitives.cu"
WARP = 32


def on_cpu(checking: bool) -> list[tuple[Callable[..., Any], Callable[..., Any]]]:
    """For each schedule, what makes arrays and what launches a kernel by its name."""
    module = Module(SOURCE, checking=checking)

    def runner(schedule: Any) -> Callable[..., Any]:
        return lambda name, grid, block, *arguments: module.kernel(name)(grid, block, arguments, schedule=schedule)

    return [(device_array, runner(schedule)) for schedule in schedules(6)]


@pytest.fixture(params=["fast", "checking"])
def runs(request):
    return on_cpu(request.param == "checking")


@pytest.fixture
def gpu_runs(xp):
    return [(xp.asarray, lambda name, grid, block, *arguments: gpu_kernel(SOURCE, name)(grid, block, arguments))]


def to_numpy(array: Any) -> np.ndarray:
    return array.get() if hasattr(array, "get") else np.array(array)


def reduced(values: np.ndarray, function: Callable[..., Any]) -> np.ndarray:
    """Of each warp, for each of its lanes."""
    return np.repeat([function(warp) for warp in values.reshape(-1, WARP)], WARP)


def check_votes(runs):
    random = np.random.default_rng(1)
    values = random.integers(-50, 50, 96).astype(np.int32)
    values[:WARP] = np.abs(values[:WARP]) + 8
    bits = values.view(np.uint32)
    lanes = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
    remainders = np.fmod(values, 4).reshape(-1, WARP)
    odd = values & 1
    expected = [
        reduced(odd, lambda v: lanes[v == 1].sum()),
        reduced(values, lambda v: (v == 7).any()),
        reduced(values, lambda v: (v >= 0).all()),
        [lanes[warp == value].sum() for warp in remainders for value in warp],
        *(reduced(values, f).astype(np.int32).view(np.uint32) for f in (np.sum, np.min, np.max)),
        *(
            reduced(bits, f)
            for f in (np.min, np.max, np.bitwise_and.reduce, np.bitwise_or.reduce, np.bitwise_xor.reduce)
        ),
        np.full(96, odd.sum()),
        np.full(96, (values == 7).any()),
        np.full(96, (values >= 0).all()),
    ]
    for asarray, run in runs:
        out = asarray(np.zeros((96, len(expected)), np.uint32))
        run("votes", 1, 96, out, asarray(values))
        np.testing.assert_array_equal(to_numpy(out).T, np.array(expected, np.uint32))


def check_shuffles(runs):
    values = np.random.default_rng(2).standard_normal(64)
    thread = np.arange(64)

    def sources(width: int) -> list[np.ndarray]:
        first = thread // width * width
        inside = [thread - 3, thread + 3, thread ^ 6]
        return [first + 5 % width, *(np.where(np.abs(s // width - thread // width) == 0, s, thread) for s in inside)]

    for asarray, run in runs:
        out = asarray(np.zeros((64, 8)))
        run("shuffles", 1, 64, out, asarray(values))
        np.testing.assert_array_equal(to_numpy(out).T, [values[source] for source in sources(32) + sources(8)])


def check_atomics(runs):
    values = np.random.default_rng(3).integers(1, 1000, 3 * 64).astype(np.int32)
    total = values.sum()
    words = [total, -total, values.min(), values.max(), np.bitwise_and.reduce(values), np.bitwise_or.reduce(values)]
    words += [np.bitwise_xor.reduce(values), total, *values.reshape(3, 64).sum(axis=1)]
    starts = np.zeros(len(words), np.int32)
    starts[2], starts[4] = 2**31 - 1, -1
    for asarray, run in runs:
        out, counters = asarray(starts), asarray(np.zeros(2, np.uint32))
        wide, total_as_float = asarray(np.zeros(2, np.uint64)), asarray(np.zeros(1, np.float32))
        run("atomics", 3, 64, out, counters, wide, total_as_float, asarray(values))
        np.testing.assert_array_equal(to_numpy(out), words)
        np.testing.assert_array_equal(to_numpy(counters), [3 * 64 % 11, -3 * 64 % 11])  # round 0 ... 10, up and down
        np.testing.assert_array_equal(to_numpy(wide), [int(total) << 20, values.max()])
        assert to_numpy(total_as_float)[0] == total


def check_exchanges(runs):
    for asarray, run in runs:
        word, got = asarray(np.full(1, -1, np.int32)), asarray(np.zeros(128, np.int32))
        run("exchanges", 2, 64, word, got)
        assert sorted([*to_numpy(word), *to_numpy(got)]) == list(range(-1, 128))


def check_indices(runs):
    grid, block = (2, 3, 2), (8, 4, 3)
    expected = [(*b[::-1], *t[::-1]) for b in np.ndindex(grid[::-1]) for t in np.ndindex(block[::-1])]
    for asarray, run in runs:
        out = asarray(np.zeros((len(expected), 6), np.int32))
        run("indices", grid, block, out)
        np.testing.assert_array_equal(to_numpy(out), expected)


checks = pytest.mark.parametrize("check", [check_votes, check_shuffles, check_atomics, check_exchanges, check_indices])


@checks
def test_primitives(check, runs):
    check(runs)


@pytest.mark.backend("cuda")
@checks
def test_primitives_on_a_gpu(check, gpu_runs):
    check(gpu_runs)
