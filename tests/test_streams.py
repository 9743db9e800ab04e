"""How streams are told apart, decided without a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

pytest.importorskip("cupy", reason="streams are CuPy's")

import cupy
from cupy.cuda.runtime import CUDARuntimeError

from cudml import driver
from cudml.cuda import streams as under_test
from cudml.cuda.streams import Streams, check_current_stream


class OwnStream:
    """Stands for cupy.cuda.Stream."""

    def __init__(self, ptr: int, done: bool | None = True, device_id: int = 0) -> None:
        self.ptr, self.is_done, self.device_id = ptr, done, device_id

    @property
    def done(self) -> bool:
        if self.is_done is None:
            raise CUDARuntimeError.__new__(CUDARuntimeError)
        return self.is_done


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    monkeypatch.setattr(under_test, "Stream", OwnStream)
    monkeypatch.setattr(driver, "relaxed_capture", nullcontext)
    monkeypatch.setattr(driver, "stream_number", lambda handle: 1000 + handle)
    return Streams()


def test_a_stream_keeps_its_name_and_shares_it_with_no_other(streams):
    one, other = OwnStream(512), OwnStream(1024)
    names = [streams.name(stream) for stream in (one, other, one, other)]
    assert names[0] == names[2] != names[1] == names[3]


@pytest.mark.parametrize("done", [False, None], ids=["busy", "fails"])
def test_streams_that_are_not_done_are_held_when_nobody_else_does(streams, done):
    for handle in (512, 1024):
        streams.name(OwnStream(handle, done))
    streams.name(OwnStream(2048))
    assert [*streams._held] == [512, 1024, 2048]


def test_streams_that_are_done_are_released_unless_others_hold_them(streams):
    kept, busy = OwnStream(512), OwnStream(1024, False)
    for stream in (kept, busy):
        streams.name(stream)
    del stream
    streams.name(OwnStream(2048))
    streams.name(OwnStream(4096))
    assert [*streams._held] == [512, 1024, 4096]
    busy.is_done = True
    del busy
    streams.name(OwnStream(8192))
    assert [*streams._held] == [512, 8192]


def test_a_handle_that_came_back_is_held_anew(streams):
    streams.name(OwnStream(512))
    streams.name(OwnStream(1024))
    again = OwnStream(512)
    streams.name(again)
    assert streams._held[512] is again


def test_streams_that_cupy_does_not_own_have_the_drivers_numbers(streams):
    by_address = SimpleNamespace(ptr=512, device_id=0)
    by_protocol, per_thread = OwnStream(1024, device_id=-1), OwnStream(2, device_id=-1)
    names = [streams.name(stream) for stream in (OwnStream(512), by_address, by_protocol, per_thread)]
    assert names == [512, ("number", 1512), ("number", 2024), ("number", 1002)]
    assert [*streams._held] == [512]


def test_the_legacy_stream_needs_no_number(streams):
    legacy = OwnStream(0, device_id=-1)
    assert [streams.name(legacy) for _ in range(2)] == [0, 0]


@pytest.mark.parametrize(
    ("ptr", "own", "of_stream"), [(0, -1, None), (512, 1, None), (512, -1, 1), (2, -1, 1), (512, -1, None)]
)
def test_a_stream_may_be_used_on_its_gpu(monkeypatch, ptr, own, of_stream):
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda device: OwnStream(ptr, device_id=own))
    monkeypatch.setattr(driver, "device_of_stream", lambda handle: of_stream)
    check_current_stream(1)


def test_a_stream_of_another_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda device: OwnStream(512, device_id=-1))
    monkeypatch.setattr(driver, "device_of_stream", lambda handle: 0)
    with pytest.raises(ValueError, match="stream is on GPU 0 and the arrays are on GPU 1; use a stream that was made"):
        check_current_stream(1)


def test_a_thread_without_a_context_gets_one(streams, monkeypatch):
    done = []
    monkeypatch.setattr(under_test.runtime, "free", done.append)
    monkeypatch.setattr(driver, "stream_number", lambda handle: 7 if done else None)
    assert streams.name(OwnStream(512, device_id=-1)) == ("number", 7)
    assert done == [0]
