"""Kernels of the executor's own tests: what the library does not do yet, or does elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda_on_cpu import Kernel, Schedule, device_array
from cuda_on_cpu.memory import empty

from race_cases.calls import Launch, floats, values


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
