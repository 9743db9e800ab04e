"""How streams are told apart, decided without a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

pytest.importorskip("cupy", reason="streams are CuPy's")

from cupy.cuda.runtime import CUDARuntimeError

from cudml import driver
from cudml.cuda import streams as under_test
from cudml.cuda.streams import Streams


class OwnStream:
    """Stands for cupy.cuda.Stream."""

    def __init__(self, ptr: int, done: bool = True) -> None:
        self.ptr, self.is_done = ptr, done

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
    external, per_thread = SimpleNamespace(ptr=512), OwnStream(2)
    names = [streams.name(stream) for stream in (OwnStream(512), external, per_thread)]
    assert names == [512, ("number", 1512), ("number", 1002)]
    assert [*streams._held] == [512]


def test_a_thread_without_a_context_gets_one(streams, monkeypatch):
    done = []
    monkeypatch.setattr(under_test.runtime, "free", done.append)
    monkeypatch.setattr(driver, "stream_number", lambda handle: 7 if done else None)
    assert streams.name(SimpleNamespace(ptr=512)) == ("number", 7)
    assert done == [0]
