"""Who gets which scratch, decided without a GPU."""

from __future__ import annotations

import threading
import time
from itertools import count

import pytest

from cudml.cuda.scratch import DeviceScratch, Piece

EAGER, FOR_REPLAYS = "on the stream", "for replays"


@pytest.fixture
def made() -> list[tuple[str, int]]:
    """How each piece was zeroed, and its size."""
    return []


@pytest.fixture
def scratch(made: list[tuple[str, int]]) -> DeviceScratch:
    addresses = count(512, 512)

    def maker(how: str):
        def make(nbytes: int) -> Piece:
            made.append((how, nbytes))
            return Piece(object(), next(addresses), nbytes)

        return make

    return DeviceScratch(maker(EAGER), maker(FOR_REPLAYS))


def test_a_stream_keeps_its_piece_and_shares_it_with_no_other(scratch, made):
    one = scratch.for_stream(0, 100)
    assert scratch.for_stream(0, 50) is one
    assert scratch.for_stream(0x7F00, 100).address != one.address
    assert scratch.for_stream(("number", 0), 100).address != one.address
    assert [how for how, _ in made] == [EAGER] * 3


def test_pieces_grow_at_least_twofold(scratch):
    small = scratch.for_stream(0, 1)
    large = scratch.for_stream(0, small.nbytes + 1)
    assert large.nbytes >= 2 * small.nbytes
    assert scratch.for_stream(0, 10 * large.nbytes).nbytes >= 10 * large.nbytes
    assert scratch.for_stream(0, 1).nbytes >= 10 * large.nbytes


def test_a_capture_never_gets_the_piece_of_its_stream(scratch, made):
    eager = scratch.for_stream(7, 1000)
    made.clear()
    captured = scratch.for_capture(7, 1, 1000)
    assert captured.address != eager.address
    assert made == [(FOR_REPLAYS, 1000)]
    assert scratch.for_stream(7, 1000) is eager


def test_calls_of_one_capture_on_one_stream_share_a_piece(scratch):
    first = scratch.for_capture(7, 1, 1000)
    assert scratch.for_capture(7, 1, 500) is first
    assert scratch.for_capture(8, 1, 500) is not first
    assert scratch.for_capture(7, 2, 500) is not first
    assert scratch.for_capture(7, 1, 1000) is first
    assert scratch.for_capture(7, object(), 500) is not scratch.for_capture(7, object(), 500)


def test_a_capture_that_comes_to_need_more_gets_another_piece(scratch):
    small = scratch.for_capture(7, 1, 100)
    large = scratch.for_capture(7, 1, 200)
    assert large.address != small.address
    assert scratch.for_capture(7, 1, 100) is large


def test_calls_in_many_threads_get_one_piece_of_a_capture():
    found, all_of_them = [], threading.Barrier(4)

    def make(nbytes: int) -> Piece:
        time.sleep(0.02)  # in which the others ask
        return Piece(object(), 512, nbytes)

    scratch = DeviceScratch(make, make)

    def work() -> None:
        all_of_them.wait()
        found.append(scratch.for_capture(7, 1, 100))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len({id(piece) for piece in found}) == 1
