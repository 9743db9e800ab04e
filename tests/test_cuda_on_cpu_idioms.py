"""The executor's checks, tried on idioms of synchronisation, bounds and divergence.

Each kernel in cuda_on_cpu/kernels/idioms_*.cu is right, and wrong when compiled with BUG=1. The right ones must give
the right values under every schedule and raise no alarm; of the wrong ones the checking mode must say what is wrong,
under every schedule too unless the table says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_cpu import DeviceArray, KernelFault, Module, Schedule, device_array, requirement, schedules
from cuda_on_cpu.compiler import kernel_names
from gpu_kernels import gpu_kernel

if requirement():
    pytest.skip(f"kernels cannot run on this CPU: {requirement()}", allow_module_level=True)

# Where a race is about a value's first write, a read that comes before it finds none.
RACE = "data race|nobody has written"

KERNELS = Path(__file__).parent / "cuda_on_cpu" / "kernels"
SCHEDULES = schedules(8)


@dataclass(frozen=True)
class Idiom:
    """A kernel of these files, its launch, what it computes when right and what is said of it when wrong."""

    file: str
    name: str
    grid: int
    block: int
    out: np.ndarray
    fault: str | None  # a pattern of the message; None where no rule is broken and only the values are wrong
    extra: Callable[[], tuple[Any, ...]] = tuple  # arguments after out and flags
    size: int = 1024  # elements of out
    shared_bytes: int = 0
    cluster: int = 1
    cooperative: bool = False
    share: float = 1.0  # of schedules under which the wrong version is noticed: all, unless it depends on luck

    def launch(self, bug: int, checking: bool, schedule: Schedule) -> np.ndarray:
        module = Module(KERNELS / f"idioms_{self.file}.cu", constants=(("BUG", str(bug)),), checking=checking)
        out, flags = device_array(np.zeros(self.size, np.int32)), device_array(np.zeros(8, np.uint64))
        module.kernel(self.name)(
            self.grid,
            self.block,
            (out, flags, *self.extra()),
            shared_bytes=self.shared_bytes,
            cluster=self.cluster,
            cooperative=self.cooperative,
            schedule=schedule,
        )
        return np.array(out)


def thread_of(grid: int, block: int) -> np.ndarray:
    """threadIdx.x of every thread of a grid."""
    return np.tile(np.arange(block), grid)


def cluster_neighbour(blocks: int = 8, threads: int = 64, cluster: int = 4) -> np.ndarray:
    """The number in the grid of each thread's counterpart in the next block of its cluster, odd and even exchanged."""
    block, thread = np.divmod(np.arange(blocks * threads), threads)
    return (block // cluster * cluster + (block + 1) % cluster) * threads + (thread ^ 1)


def turned_round(values: np.ndarray, length: int) -> np.ndarray:
    """Every run of `length` elements the other way round."""
    return values.reshape(-1, length)[:, ::-1].ravel()


def counting(size: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (device_array(np.arange(size, dtype=np.int32)),)


def order_idioms() -> list[Idiom]:
    def idiom(name: str, grid: int, block: int, out: Any, **more: Any) -> Idiom:
        return Idiom("order", name, grid, block, np.asarray(out), **{"fault": RACE, **more})

    thread, lane, member = thread_of(4, 128), np.arange(32), np.arange(96)
    message = [42, 42, 42, 42]
    bins = np.bincount(np.arange(128) ** 2 % 32, minlength=32)
    grid_values = np.roll(np.arange(256), -65)
    return [
        idiom("warp_exchange", 4, 128, thread ^ 1),
        idiom("half_warp_exchange", 4, 128, np.where(thread % 32 < 16, thread ^ 15, 0)),
        idiom("tile_exchange", 4, 128, thread ^ 7),
        idiom("shuffle_is_no_fence", 4, 128, 2 * (thread ^ 1)),
        idiom("levels_overwritten", 1, 32, 3 * (lane ^ 2) + 1000 + 3 * 29),
        idiom("double_buffer", 2, 256, (thread_of(2, 256) + 6 * 33) % 256 + 6),
        idiom("teams_apart", 2, 224, np.tile([*(member + 3) % 96 + 3, *(member + 36) % 96 + 100, *[0] * 32], 2)),
        idiom("shared_histogram", 4, 128, np.tile(bins, 4)),
        idiom("zero_before_atomics", 4, 128, [128] * 4),
        idiom("last_readers_awaited", 1, 256, np.full(256, 11)),
        idiom("first_readers_awaited", 1, 256, np.full(256, 11)),
        idiom("neighbouring_bytes", 4, 128, thread.astype(np.int8).view(np.int32)),
        *(
            idiom(name, 4, 32, message, cooperative=True)
            for name in (
                "message_released",
                "message_acquired",
                "message_fenced_by_writer",
                "message_fenced_by_reader",
                "fence_of_the_gpu",
                "release_to_the_gpu",
                "acquire_of_the_gpu",
            )
        ),
        idiom("message_in_one_word", 4, 32, [0, 42, 42, 42], cooperative=True),
        idiom("block_publishes", 4, 128, thread, cooperative=True),
        idiom("block_subscribes", 4, 128, thread, cooperative=True),
        idiom("chain", 6, 32, 2 ** np.arange(6)),
        # The GPU at hand may start blocks in order; nothing promises it.
        idiom("tiles_by_ticket", 64, 32, np.arange(1, 65), fault="livelock", share=0.75),
        idiom("spin_lock", 4, 128, [8]),
        idiom("spin_unlock", 4, 128, [8]),
        idiom("float_total", 8, 32, np.array([12.0], np.float32).view(np.int32)),
        idiom("atomic_total", 8, 32, [256]),
        idiom("atomic_polled", 4, 32, [0, 7, 7, 7], cooperative=True),
        idiom("last_block_acquires", 6, 32, [1, 2, 3, 4, 5, 6, 21]),
        idiom("all_blocks_release", 6, 32, [1, 2, 3, 4, 5, 6, 21]),
        idiom("grid_barrier", 4, 64, np.roll(grid_values, -65) + 2, cooperative=True),
    ]


def copy_idioms() -> list[Idiom]:
    def idiom(name: str, grid: int, block: int, out: Any, fault: str, size: int = 0) -> Idiom:
        return Idiom("copies", name, grid, block, np.asarray(out), fault, counting(size) if size else tuple)

    tiles, stages = turned_round(np.arange(512), 256), turned_round(np.arange(768), 128)
    stored = np.concatenate([np.arange(128), 1000 + np.arange(128)])
    return [
        idiom("copy_awaited", 2, 64, tiles, RACE, 512),
        idiom("copy_seen_by_others", 2, 64, tiles, RACE, 512),
        idiom("younger_group_awaited", 1, 64, np.arange(512), RACE, 512),
        idiom("refilled_after_readers", 1, 64, tiles, RACE, 512),
        idiom("mbarrier_orders_writes", 2, 64, np.tile(np.arange(31, -1, -1), 2), RACE),
        idiom("mbarrier_initialised_first", 2, 64, np.tile(np.arange(31, -1, -1), 2), RACE + "|not initialised"),
        idiom("mbarrier_counts_arrivals", 2, 64, np.tile(np.arange(31, -1, -1), 2), "livelock|deadlock"),
        idiom("ring_barriers_fenced", 1, 96, stages, "fence_mbarrier_init", 768),
        idiom("ring_full_awaited", 1, 96, stages, RACE, 768),
        idiom("ring_parity_right", 1, 96, stages, RACE + "|livelock", 768),
        idiom("ring_empty_awaited", 1, 96, stages, RACE + "|more arrivals|livelock", 768),
        idiom("ring_reads_fenced", 1, 96, stages, "fence_async_proxy", 768),
        idiom("ring_bytes_not_too_many", 1, 96, stages, "livelock|deadlock", 768),
        idiom("ring_bytes_not_too_few", 1, 96, stages, "bytes", 768),
        idiom("expect_then_arrive", 1, 64, np.arange(127, -1, -1), "livelock|deadlock", 128),
        idiom("store_fenced", 1, 128, stored, "fence_async_proxy"),
        idiom("store_after_barrier", 1, 128, stored, RACE),
        idiom("store_read_before_reuse", 1, 128, stored, RACE),
        idiom("store_read_before_exit", 1, 128, stored, "bulk_wait_read"),
        idiom("store_complete_before_read", 1, 128, [*range(128), 127], RACE),
    ]


def cluster_idioms() -> list[Idiom]:
    def idiom(name: str, out: Any, fault: str = RACE, **more: Any) -> Idiom:
        return Idiom(
            "clusters", name, **{"grid": 8, "block": 64, "cluster": 4, **more}, out=np.asarray(out), fault=fault
        )

    numbers = np.zeros(512, np.int32)
    numbers[0:4], numbers[4:8] = [1, 2, 3, 4], [5, 6, 7, 8]
    return [
        idiom("neighbour_read", cluster_neighbour()),
        idiom("neighbour_alive", cluster_neighbour(), "ended"),
        idiom("split_barrier", cluster_neighbour()),
        idiom("neighbour_written", np.arange(512).reshape(2, 4, 64)[:, [3, 0, 1, 2]].ravel() ^ 1),
        idiom("remote_arrivals_awaited", numbers),
        idiom("remote_barrier_initialised", numbers, RACE + "|not initialised"),
        idiom("release_to_the_cluster", [0, 42, 0, 42], grid=4, block=32, cluster=2),
        idiom("acquire_of_the_cluster", [0, 42, 0, 42], grid=4, block=32, cluster=2),
    ]


def bounds_idioms() -> list[Idiom]:
    def idiom(name: str, block: int, out: Any, fault: str, **more: Any) -> Idiom:
        return Idiom(
            "bounds", name, **{"grid": 1, "extra": counting(64), **more}, block=block, out=np.asarray(out), fault=fault
        )

    lane, outside = np.arange(32), "out of bounds"
    fours = 4 * (np.arange(64) // 4)

    def workspace() -> tuple[Any, ...]:
        return (device_array(np.zeros(128, np.int32), uninitialised=True),)

    return [
        idiom("within_static_shared", 32, 2 * lane, outside),
        idiom("within_dynamic_shared", 32, lane ^ 1, outside, shared_bytes=128),
        idiom("within_global", 32, lane, outside, size=32),
        idiom("not_before_global", 32, lane, outside, size=32),
        idiom("within_input", 32, lane + 32, outside),
        idiom("within_global_by_vectors", 8, fours[:30], outside, size=30, extra=tuple),
        idiom("aligned_vectors", 8, fours[:32], "misaligned", size=64, extra=tuple),
        idiom("aligned_copies", 32, 4 * lane + 1, "multiple of 8|misaligned"),
        idiom("within_local", 32, lane % 4, "index|out of bounds"),
        idiom(
            "shared_written_first",
            64,
            [63 - np.arange(64), 127 - np.arange(64)],
            "nobody has written",
            grid=2,
            extra=tuple,
        ),
        idiom("loose_read_within_shared", 32, lane ^ 1, outside, extra=tuple),
        idiom("loose_read_ordered", 32, lane ^ 1, "data race", extra=tuple),
        idiom("loose_read_before_write", 32, lane ^ 1, "data race", extra=tuple),
        idiom("loose_read_aligned", 32, lane ^ 1, "misaligned", extra=tuple),
        idiom(
            "workspace_written_first",
            64,
            turned_round(np.arange(128), 64),
            "nobody has written",
            grid=2,
            extra=workspace,
        ),
    ]


def divergence_idioms() -> list[Idiom]:
    def idiom(name: str, grid: int, block: int, out: Any, fault: str, **more: Any) -> Idiom:
        return Idiom("divergence", name, grid, block, np.asarray(out), fault, **more)

    warps = np.arange(64)
    first_half = warps % 32 < 16
    early = np.append(63 - np.arange(50), np.zeros(14, int))
    early[early >= 50] = 0
    return [
        idiom("barrier_for_all", 2, 128, thread_of(2, 128) // 2, "barrier divergence"),
        idiom(
            "one_barrier_for_both_branches",
            2,
            64,
            63 - thread_of(2, 64) + 100 * (thread_of(2, 64) >= 32),
            "barrier divergence",
        ),
        idiom("nobody_returns_early", 2, 64, np.tile(early, 2), "barrier divergence"),
        idiom("mask_of_half_warp", 1, 64, np.where(first_half, warps ^ 3, 0), "warp divergence|deadlock|returned"),
        idiom("mask_holds_the_caller", 1, 64, np.where(first_half, 0xAAAA, 0), "not in its mask"),
        idiom("shuffle_within_mask", 1, 64, np.where(first_half, warps ^ 8, 0), None),
        idiom("one_mask_for_all", 1, 64, np.repeat([496, 496 + 1024], 32), "mask"),
    ]


IDIOMS = [*order_idioms(), *copy_idioms(), *cluster_idioms(), *bounds_idioms(), *divergence_idioms()]
by_name = pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.name)


def expected(idiom: Idiom) -> np.ndarray:
    """All of out: elements that the table leaves off stay zero."""
    whole = np.zeros(idiom.size, np.int32)
    whole[: idiom.out.size] = idiom.out.ravel()
    return whole


@pytest.mark.parametrize("checking", [False, True], ids=["fast", "checking"])
@by_name
def test_right_version_has_the_right_values_under_every_schedule(idiom, checking):
    for schedule in SCHEDULES:
        np.testing.assert_array_equal(idiom.launch(0, checking, schedule), expected(idiom), err_msg=str(schedule))


@pytest.mark.backend("cuda")
@by_name
def test_right_version_has_the_right_values_on_a_gpu(xp, idiom):
    kernel = gpu_kernel(KERNELS / f"idioms_{idiom.file}.cu", idiom.name, idiom.cooperative)
    out, flags = xp.asarray(np.zeros(idiom.size, np.int32)), xp.asarray(np.zeros(8, np.uint64))
    extra = [xp.asarray(np.array(a)) if isinstance(a, DeviceArray) else a for a in idiom.extra()]
    kernel(idiom.grid, idiom.block, (out, flags, *extra), idiom.shared_bytes)
    np.testing.assert_array_equal(xp.to_numpy(out), expected(idiom))


@by_name
def test_wrong_version_is_noticed(idiom):
    noticed = 0
    for schedule in SCHEDULES:
        try:
            noticed += bool(np.any(idiom.launch(1, True, schedule) != expected(idiom))) and idiom.fault is None
        except KernelFault as fault:
            message = str(fault)
            assert idiom.fault is not None, message
            assert re.search(idiom.fault, message), message
            assert re.search(rf"idioms_{idiom.file}\.cu:\d+|ptx\.cuh", message), message
            assert idiom.name in message, message
            noticed += 1
    assert noticed >= idiom.share * len(SCHEDULES)


def test_every_kernel_of_the_files_is_in_the_table():
    written = {name for path in KERNELS.glob("idioms_*.cu") for name in kernel_names(path.read_text())}
    assert written == {idiom.name for idiom in IDIOMS}
