"""The memory in which the driver reads the arguments of launches: a table of pointers for each, then the values."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_WORD_BYTES = 8


class Memory(NamedTuple):
    """Arguments that one thread may change and pass."""

    words: array[int]
    tables: tuple[int, ...]
    """The address of each launch's table, which cuLaunchKernel takes as kernelParams."""


class Parameters:
    """The arguments of some launches, given once; `memory` has them as often as threads pass them at a time."""

    def __init__(self, launches: Sequence[Sequence[int | np.ndarray]]) -> None:
        """Addresses as integers, everything that is passed by value as an array of one element."""
        self.places: list[list[int]] = []
        """The first word of each value of each launch: what is written there is passed instead."""
        self._words = array("Q")
        self._tables: list[int] = []
        for values in launches:
            self._tables.append(len(self._words))
            self._words.extend([0] * len(values))
            self.places.append([self._append(value) for value in values])

    def _append(self, value: int | np.ndarray) -> int:
        place = len(self._words)
        raw = value.to_bytes(_WORD_BYTES, "little") if isinstance(value, int) else value.tobytes()
        self._words.frombytes(raw + bytes(-len(raw) % _WORD_BYTES))
        return place

    def memory(self) -> Memory:
        """A copy whose tables point into itself; it must not be resized."""
        words = self._words[:]
        start, _ = words.buffer_info()
        for table, places in zip(self._tables, self.places, strict=True):
            for number, place in enumerate(places):
                words[table + number] = start + place * _WORD_BYTES
        return Memory(words, tuple(start + table * _WORD_BYTES for table in self._tables))
