"""What launches are given besides arrays: dynamic shared memory, and scratch that no two running launches share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_cpu import KernelFault, LaunchError, Schedule, device_array, schedules
from cuda_on_cpu.backend import EmulatedBackend

from cudml.plan.plan import Launch, Plan, Pointer, Scalar, Scratch

pytestmark = pytest.mark.xdist_group("gpu")
on_gpu = pytest.mark.backend("cuda")
on_cpu = pytest.mark.backend("emulated")
on_both = pytest.mark.backend("cuda", "emulated")

SOURCE = str(Path(__file__).parent / "cuda_on_cpu" / "kernels" / "launches.cu")
INT = np.dtype(np.int32)
BLOCKS = 20
STATE_BYTES = 12


def tickets(scratch_bytes: int = STATE_BYTES) -> Plan:
    """Every block adds one to `counts`, under the number that it drew in the scratch."""
    arguments = (Scratch(), Pointer("counts"), Scalar("rounds", INT))
    return Plan(SOURCE, (), (Launch("take_tickets", BLOCKS, 32, arguments),), scratch_bytes=scratch_bytes)


def count_down(count: int) -> Plan:
    """`output` counts down to 0, by way of shared memory."""
    launch = Launch("count_down", 1, 64, (Pointer("output"), Scalar("count", INT)), shared_bytes=4 * count)
    return Plan(SOURCE, (), (launch,))


def counted(launches: int) -> list[int]:
    """The counts of so many launches, behind them those of tickets that do not exist."""
    return [launches] * BLOCKS + [0]


@pytest.fixture
def run(xp: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Launches a plan, with scratch that the library's plans have no part in."""
    if xp.name == "emulated":
        return EmulatedBackend(schedules=[Schedule("random", 1)]).launch
    from cudml.cuda import launcher, temporary

    monkeypatch.setattr(temporary, "_scratch_of", cache(temporary._scratch_of.__wrapped__))
    return lambda plan, arrays: launcher.launch(plan, arrays, 0)


# ---- on the CPU as on the GPU


@on_both
def test_dynamic_shared_memory_beyond_48_kb(xp, run):
    """A function's limit is not lowered by a launch that needs less."""
    for count in (60 * 256, 256, 50 * 256, 60 * 256):
        output = xp.asarray(np.zeros(count, np.uint32))
        run(count_down(count), {"output": output, "count": np.int32(count)})
        np.testing.assert_array_equal(xp.to_numpy(output), np.arange(count)[::-1])


@on_both
def test_every_launch_finds_the_scratch_as_the_one_before_left_it(xp, run):
    counts = xp.asarray(np.zeros(BLOCKS + 1, np.uint32))
    for launches in (1, 2, 3):
        run(tickets(), {"counts": counts, "rounds": np.int32(0)})
        assert xp.to_numpy(counts).tolist() == counted(launches)


@on_both
def test_a_plan_that_needs_more_scratch_gets_zeros(xp, run):
    counts = xp.asarray(np.zeros(BLOCKS + 1, np.uint32))
    for launches, scratch_bytes in enumerate((STATE_BYTES, 1 << 20, STATE_BYTES, 5 << 20, 1 << 20), start=1):
        run(tickets(scratch_bytes), {"counts": counts, "rounds": np.int32(0)})
        assert xp.to_numpy(counts).tolist() == counted(launches)


# ---- on the CPU


def state(backend: EmulatedBackend) -> list[int]:
    assert backend._scratch is not None
    return np.array(backend._scratch)[:STATE_BYTES].view(np.uint32).tolist()


def emulated_counts() -> dict[str, Any]:
    return {"counts": device_array(np.zeros(BLOCKS + 1, np.uint32)), "rounds": np.int32(3)}


@on_cpu
@pytest.mark.parametrize("checking", [False, True], ids=["fast", "checking"])
def test_the_emulated_scratch_lives_on_under_all_schedules(xp, checking):
    backend = EmulatedBackend(checking=checking, schedules=schedules(6))
    for calls in (1, 2):
        backend.launch(tickets(), emulated_counts())
        assert state(backend) == [0, 0, 6 * calls]


@on_cpu
def test_a_fault_leaves_zeros_for_the_next_launch(xp):
    backend = EmulatedBackend()
    short = device_array(np.zeros(3, np.uint32))
    backend.launch(tickets(), emulated_counts())
    with pytest.raises(KernelFault):
        backend.launch(tickets(), {"counts": short, "rounds": np.int32(0)})
    backend.launch(tickets(), emulated_counts())
    assert state(backend) == [0, 0, 1]


@on_cpu
def test_scratch_beyond_what_the_plan_asked_for_is_out_of_bounds(xp):
    backend = EmulatedBackend(checking=True)
    backend.launch(tickets(1 << 12), emulated_counts())
    with pytest.raises(KernelFault, match="scratch"):
        backend.launch(tickets(STATE_BYTES - 4), emulated_counts())


@on_cpu
def test_an_older_device_refuses_what_it_could_not_hold(xp):
    backend = EmulatedBackend()
    backend.device = backend.device._replace(compute_capability=(7, 5), shared_bytes_per_block=64 << 10)
    count = (64 << 10) // 4 + 1
    with pytest.raises(LaunchError, match="more than 65536"):
        backend.launch(
            count_down(count), {"output": device_array(np.zeros(count, np.uint32)), "count": INT.type(count)}
        )


# ---- on the GPU

LONG = np.int32(200)  # waits of a microsecond, so that launches that may run side by side do


def gpu_counts(xp: Any) -> Any:
    """Zeros that are there for every stream."""
    counts = xp.asarray(np.zeros(BLOCKS + 1, np.uint32))
    counts.device.synchronize()
    return counts


@pytest.fixture
def scratch(run: Any) -> Any:
    from cudml.cuda import launcher, temporary

    launcher.steps_of(tickets(), 0)  # loads the kernel, which is not what is captured
    return temporary._scratch_of(0)


@pytest.fixture
def streams(xp: Any) -> Iterator[Any]:
    import cupy

    with cupy.cuda.Device(0):
        yield [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]


@on_gpu
def test_streams_do_not_share_scratch(xp, run, scratch, streams):
    counts = [gpu_counts(xp) for _ in streams]
    for _ in range(100):
        for stream, own in zip(streams, counts, strict=True):
            with stream:
                run(tickets(), {"counts": own, "rounds": LONG})
    for stream, own in zip(streams, counts, strict=True):
        stream.synchronize()
        assert xp.to_numpy(own).tolist() == counted(100)
    assert len({piece.address for piece in scratch._of_stream.values()}) == len(streams)


@on_gpu
def test_scratch_grows_while_smaller_launches_are_pending(xp, run, scratch, streams):
    """What the old piece goes back to is the pool of its stream, where the array that is filled may find it."""
    import cupy

    counts = gpu_counts(xp)
    with streams[0]:
        for doubling in range(8):
            for _ in range(5):
                run(tickets(STATE_BYTES << doubling), {"counts": counts, "rounds": LONG})
            (old,) = scratch._of_stream.values()
            run(tickets(old.nbytes + 1), {"counts": counts, "rounds": LONG})
            nbytes = old.nbytes
            del old
            cupy.full(nbytes, 0xA5, np.uint8)
    streams[0].synchronize()
    assert xp.to_numpy(counts).tolist() == counted(8 * 6)


@on_gpu
def test_threads_share_a_stream_and_its_growing_scratch(xp, run, streams):
    import cupy

    counts = gpu_counts(xp)

    def work() -> None:
        with cupy.cuda.Device(0), streams[0]:
            for call in range(50):
                run(tickets(1 << (12 + call % 10)), {"counts": counts, "rounds": np.int32(0)})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    streams[0].synchronize()
    assert xp.to_numpy(counts).tolist() == counted(4 * 50)


@on_gpu
def test_a_stream_is_held_until_its_work_is_done(xp, run, scratch):
    """Without it the next stream would have its handle, and its scratch, while its blocks still draw tickets."""
    import cupy

    counts = [gpu_counts(xp) for _ in range(40)]
    for own in counts:
        with cupy.cuda.Stream(non_blocking=True):
            run(tickets(), {"counts": own, "rounds": LONG})
    cupy.cuda.Device().synchronize()
    assert [xp.to_numpy(own).tolist() for own in counts] == [counted(1)] * len(counts)


@on_gpu
def test_nobody_gets_a_workspace_that_work_of_a_lost_stream_uses(xp, run, scratch):
    import cupy

    from cudml.cuda.temporary import workspace_and_scratch

    counts, addresses = gpu_counts(xp), set()
    for _ in range(10):
        with cupy.cuda.Stream(non_blocking=True):
            workspace, _ = workspace_and_scratch(1 << 20, 0, 0)
            run(tickets(), {"counts": counts, "rounds": np.int32(5000)})
        addresses.add(workspace.address)
        del workspace
    cupy.cuda.Device().synchronize()  # so that nothing is counted in what others get
    assert len(addresses) == 10


@on_gpu
@pytest.mark.parametrize("mode", [0, 1, 2], ids=["global", "of the thread", "relaxed"])
def test_a_captured_call_has_a_workspace_of_its_own(xp, streams, mode):
    """What eager calls gave back to the pool may still be in use when a replay begins on another stream."""
    from cudml.cuda.temporary import workspace_and_scratch

    addresses = []
    with streams[0] as stream:
        for _ in range(2):
            eager, _ = workspace_and_scratch(1 << 20, 0, 0)
            addresses.append(eager.address)
            del eager
            stream.begin_capture(mode)
            addresses += [workspace_and_scratch(1 << 20, 0, 0)[0].address for _ in range(2)]
            stream.end_capture()
    first, *captured = addresses
    assert captured.pop(2) == first, "eager calls share what the pool has"
    assert len({first, *captured}) == 5


class OtherLibrary:
    """A stream as libraries hand it over, which they may close although others have it."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


@on_gpu
@pytest.mark.filterwarnings("ignore:ExternalStream is deprecated")
@pytest.mark.parametrize("kind", ["protocol", "address"])
def test_streams_that_cupy_does_not_own_are_told_apart(xp, run, scratch, kind):
    """Their handles come back too, and nothing of ours holds them."""
    import cupy
    from cupy.cuda import ExternalStream, Stream

    counts = [gpu_counts(xp) for _ in range(40)]
    for own in counts:
        owner = Stream(non_blocking=True)
        with Stream.from_external(OtherLibrary(owner.ptr)) if kind == "protocol" else ExternalStream(owner.ptr):
            run(tickets(), {"counts": own, "rounds": LONG})
        del owner
    cupy.cuda.Device().synchronize()
    assert [xp.to_numpy(own).tolist() for own in counts] == [counted(1)] * len(counts)
    assert len(scratch._of_stream) == len(counts)


@on_gpu
def test_threads_have_default_streams_of_their_own(xp, run, scratch):
    import cupy

    counts, both = [gpu_counts(xp) for _ in range(4)], threading.Barrier(4, timeout=60)

    def work(own: Any) -> None:
        with cupy.cuda.Device(0), cupy.cuda.Stream.ptds as stream:
            both.wait()
            for _ in range(50):
                run(tickets(), {"counts": own, "rounds": LONG})
            stream.synchronize()
            both.wait()  # the streams of threads that ended may come back

    threads = [threading.Thread(target=work, args=(own,)) for own in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [xp.to_numpy(own).tolist() for own in counts] == [counted(50)] * len(counts)
    assert len(scratch._of_stream) == len(counts)


@on_gpu
@pytest.mark.parametrize("mode", [0, 1, 2], ids=["global", "of the thread", "relaxed"])
def test_replays_run_beside_eager_calls_and_other_graphs(xp, run, scratch, streams, mode):
    counts = [gpu_counts(xp) for _ in range(3)]
    capturing, replaying, replaying_too = streams
    graphs = []
    with capturing:
        for own in counts[1:]:
            capturing.begin_capture(mode)
            for _ in range(3):
                run(tickets(), {"counts": own, "rounds": LONG})
            graphs.append(capturing.end_capture())
        for _ in range(50):
            graphs[0].launch(replaying)
            graphs[1].launch(replaying_too)
            run(tickets(), {"counts": counts[0], "rounds": LONG})
    for stream in streams:
        stream.synchronize()
    assert [xp.to_numpy(own).tolist() for own in counts] == [counted(50), counted(150), counted(150)]
    assert len(scratch._of_capture) == len(graphs), "calls captured one after the other share a piece"
    pieces = (*scratch._of_capture.values(), *scratch._of_stream.values())
    assert len({piece.address for piece in pieces}) == len(graphs) + 1


@on_gpu
def test_the_driver_numbers_captures(scratch, streams):
    from cudml import driver

    numbers = []
    with streams[0] as stream:
        assert driver.capture_number(stream.ptr) is None
        for _ in range(2):
            stream.begin_capture()
            numbers += [driver.capture_number(stream.ptr) for _ in range(2)]
            stream.end_capture()
    assert numbers[0] == numbers[1] != numbers[2] == numbers[3]
    assert None not in numbers


@on_gpu
def test_plans_can_be_made_for_another_device(xp):
    from cudml.cuda.backend import BACKEND
    from cudml.cuda.device import properties_of

    with xp.planned_for(compute_capability=(7, 5), multiprocessors=2):
        assert BACKEND.planned_for == properties_of(0)._replace(compute_capability=(7, 5), multiprocessors=2)
    assert BACKEND.planned_for is None
