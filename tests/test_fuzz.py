"""A few of the random calls that fuzz.py makes, and that it notices what it looks for."""

from __future__ import annotations

import fuzz
import numpy as np
import pytest

on_both = pytest.mark.backend("cuda", "emulated")

LARGEST = 11


@on_both
@pytest.mark.parametrize("number", range(80))
def test_random_calls_find_the_same_bits_in_any_layout(xp, number):
    assert fuzz.run(xp, number, LARGEST) is None


@on_both
@pytest.mark.parametrize("kind", dict.fromkeys(fuzz.KINDS), ids=lambda kind: kind.__name__)
def test_other_bits_are_noticed(xp, kind, monkeypatch):
    def changed(xp, draw):
        call = kind(xp, draw)
        right = call.dense
        call.dense = lambda out_dtype: tuple(map(with_another_last, right(out_dtype)))
        return call

    monkeypatch.setattr(fuzz, "KINDS", (changed,))
    assert "1 differ, the first is number" in fuzz.run(xp, 3, LARGEST)


def with_another_last(array):
    """Flips a bit of the last element."""
    changed = np.ascontiguousarray(array).copy()
    changed.reshape(-1)[-1:].view(np.uint8)[0] ^= 1
    return changed


@on_both
def test_a_write_beside_an_output_is_noticed(xp):
    placed = fuzz.Placed(xp, fuzz.Draw(5, LARGEST), (3, 4), np.dtype(np.float32)).fill()
    placed.read()
    placed._buffer[-1] = 0
    with pytest.raises(AssertionError, match="bytes outside the output"):
        placed.read()


def test_an_error_is_a_finding(monkeypatch):
    monkeypatch.setattr(fuzz, "KINDS", (lambda xp, draw: 1 / 0,))
    assert "case 7: Traceback" in fuzz.run(None, 7, LARGEST)
