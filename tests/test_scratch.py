"""Who gets which scratch, decided without a GPU."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from cudml.cuda.scratch import DeviceScratch, Piece

EAGER, FINISHED = "on the stream", "finished"


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

    return DeviceScratch(maker(EAGER), maker(FINISHED))


def test_a_stream_keeps_its_piece_and_shares_it_with_no_other(scratch, made):
    one = scratch.for_stream(0, 100)
    assert scratch.for_stream(0, 50) is one
    assert scratch.for_stream(0x7F00, 100).address != one.address
    assert [how for how, _ in made] == [EAGER, FINISHED, EAGER]


def test_pieces_grow_at_least_twofold(scratch):
    small = scratch.for_stream(0, 1)
    large = scratch.for_stream(0, small.nbytes + 1)
    assert large.nbytes >= 2 * small.nbytes
    assert scratch.for_stream(0, 10 * large.nbytes).nbytes >= 10 * large.nbytes
    assert scratch.for_stream(0, 1).nbytes >= 10 * large.nbytes


def test_the_default_stream_of_each_thread_has_its_own(scratch):
    found = []
    both = threading.Barrier(2)

    def work() -> None:
        found.append(scratch.for_stream(2, 1).address)
        both.wait()  # or the second thread might get the number of the first

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 2


def test_a_capture_gets_the_spare_that_an_eager_call_left(scratch, made):
    eager = scratch.for_stream(7, 1000)
    made.clear()
    captured = scratch.for_capture(7, 1, 1000)
    assert captured.address != eager.address
    assert made == []
    assert scratch.for_stream(7, 1000) is eager
    assert [how for how, _ in made] == [FINISHED]


def test_calls_of_one_capture_on_one_stream_share_a_piece(scratch):
    scratch.for_stream(7, 1000)
    first = scratch.for_capture(7, 1, 1000)
    assert scratch.for_capture(7, 1, 500) is first
    assert scratch.for_capture(8, 1, 500) is not first
    assert scratch.for_capture(7, 2, 500) is not first
    assert scratch.for_capture(7, object(), 500) is not scratch.for_capture(7, object(), 500)


def test_a_capture_without_an_eager_call_zeroes_in_the_graph(scratch, made):
    scratch.for_capture(7, 1, 1000)
    assert made == [(EAGER, 1000)]


def test_a_capture_that_needs_more_than_the_spare_leaves_it(scratch, made):
    scratch.for_stream(7, 1000)
    made.clear()
    large = scratch.for_capture(7, 1, 1 << 20)
    assert made == [(EAGER, 1 << 20)]
    assert scratch.for_capture(7, 2, 1000).address != large.address
    assert len(made) == 1


def test_a_capture_that_comes_to_need_more_gets_another_piece(scratch):
    small = scratch.for_capture(7, 1, 100)
    large = scratch.for_capture(7, 1, 200)
    assert large.address != small.address
    assert scratch.for_capture(7, 1, 100) is large


def test_pieces_of_graphs_are_kept(scratch):
    pieces = [scratch.for_capture(stream, capture, 100) for stream in (7, 8) for capture in (1, 2)]
    assert scratch._kept == pieces
    assert len({piece.address for piece in pieces}) == 4


def test_an_eager_call_that_needs_more_makes_a_larger_spare(scratch):
    scratch.for_stream(7, 1)
    scratch.for_stream(7, 1 << 20)
    assert scratch._spare.nbytes >= 1 << 20


def test_a_thread_inherits_nothing_from_one_that_has_ended(scratch):
    found = []
    for _ in range(3):
        thread = threading.Thread(target=lambda: found.append(scratch.for_stream(2, 1).address))
        thread.start()
        thread.join()
    assert len(set(found)) == 3


def test_a_call_needs_no_memory_for_captures(made):
    def fails(nbytes: int) -> Piece:
        raise MemoryError

    scratch = DeviceScratch(lambda nbytes: Piece(object(), 512, nbytes), fails)
    assert scratch.for_stream(7, 100).address == 512
    assert scratch.for_capture(7, 1, 100).address == 512
