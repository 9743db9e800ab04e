"""Ways to lay an array out in memory, each a view of a flat buffer of bytes.

The same view is taken of a host buffer and of its copy on the device. Bytes around the view are poisoned, so that a
write past the view's elements shows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

POISON = 0xA5

View = Callable[[Any], Any]
Pattern = Callable[[tuple[int, ...], np.dtype], tuple[int, View]]


def _pattern(stored: Callable, view: Callable, skip: Callable = lambda dtype: 0) -> Pattern:
    """Elements of shape `stored(shape)` after `skip` bytes, of which `view(elements, shape)` is taken."""

    def layout(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, View]:
        full = stored(shape) if shape else ()
        start, count = skip(dtype), prod(full) * dtype.itemsize

        def take(buffer: Any) -> Any:
            elements = buffer[start : start + count].view(dtype).reshape(full)
            return view(elements, shape) if shape else elements

        return start + count + 16, take

    return layout


def _same(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape


PATTERNS: dict[str, Pattern] = {
    "contiguous": _pattern(_same, lambda x, shape: x),
    "offset by an element": _pattern(_same, lambda x, shape: x, lambda dtype: dtype.itemsize),
    "offset by a byte": _pattern(_same, lambda x, shape: x, lambda dtype: 1),
    "offset by half a vector": _pattern(_same, lambda x, shape: x, lambda dtype: 8),
    "transposed": _pattern(lambda s: s[::-1], lambda x, shape: x.transpose()),
    "transposed, in whole vectors": _pattern(
        lambda s: (*s[:0:-1], s[0] + -s[0] % 16), lambda x, shape: x[..., : shape[0]].transpose()
    ),
    "transposed, backwards": _pattern(lambda s: s[::-1], lambda x, shape: x.transpose()[::-1]),
    "rolled axes": _pattern(lambda s: (s[-1], *s[:-1]), lambda x, shape: x.transpose(*range(1, len(shape)), 0)),
    "every second": _pattern(lambda s: (*s[:-1], 2 * s[-1]), lambda x, shape: x[..., ::2]),
    "every second line": _pattern(lambda s: (2 * s[0], *s[1:]), lambda x, shape: x[1::2]),
    "padded lines": _pattern(lambda s: (*s[:-1], s[-1] + 3), lambda x, shape: x[..., 1 : 1 + shape[-1]]),
    "backwards": _pattern(_same, lambda x, shape: x[..., ::-1]),
    "lines backwards": _pattern(_same, lambda x, shape: x[::-1]),
    "backwards by twos": _pattern(lambda s: (*s[:-1], 2 * s[-1]), lambda x, shape: x[..., ::-2]),
}


class Host:
    """Where arrays of NumPy lie."""

    asarray = staticmethod(np.array)


def place(xp: Any, values: np.ndarray, pattern: str = "contiguous") -> Any:
    """`values` on the backend, laid out by `pattern`."""
    return _place(xp, values, PATTERNS[pattern])[0]


def _place(xp: Any, values: np.ndarray, pattern: Pattern) -> tuple[Any, Any]:
    size, view = pattern(values.shape, values.dtype)
    buffer = np.full(size, POISON, np.uint8)
    view(buffer)[...] = values
    base = xp.asarray(buffer)
    return view(base), base


class Poisoned:
    """An output full of poison, inside a poisoned buffer."""

    def __init__(self, xp: Any, shape: tuple[int, ...], dtype: Any, pattern: str | Pattern = "contiguous") -> None:
        self._xp, self._dtype = xp, np.dtype(dtype)
        size, self._view = (PATTERNS[pattern] if isinstance(pattern, str) else pattern)(shape, self._dtype)
        self._buffer = xp.asarray(np.full(size, POISON, np.uint8))
        self.array = self._view(self._buffer)

    def read(self) -> np.ndarray:
        """What was written, after the check that nothing outside the array was touched."""
        host = self._xp.to_numpy(self._buffer)
        values = self._view(host).copy()
        self._view(host).view(f"V{self._dtype.itemsize}")[...] = np.void(bytes([POISON]) * self._dtype.itemsize)
        assert (host == POISON).all(), "bytes outside the output were written"
        return values

    def is_untouched(self) -> bool:
        """Whether nothing at all was written."""
        return bool((self._xp.to_numpy(self._buffer) == POISON).all())
