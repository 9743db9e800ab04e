"""From the arguments of a plan to the values that a launch passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cudml.plan.plan import Launch, Pointer, Scalar, Scratch, Struct, Workspace


class Binding:
    """What a launch passes, sorted once into what no call changes and what every call brings."""

    __slots__ = ("_constant", "_pointers", "_scalars", "_scratches", "_workspaces")

    def __init__(self, step: Launch) -> None:
        numbered = list(enumerate(step.arguments))
        self._constant = [a.packed() if isinstance(a, Struct) else 0 for a in step.arguments]
        self._pointers = [(i, a.array) for i, a in numbered if isinstance(a, Pointer)]
        self._workspaces = [(i, a.offset) for i, a in numbered if isinstance(a, Workspace)]
        self._scratches = [i for i, a in numbered if isinstance(a, Scratch)]
        self._scalars = [(i, a) for i, a in numbered if isinstance(a, Scalar)]

    def __call__(
        self, arrays: Mapping[str, Any], address_of: Callable[[Any], int], workspace: int = 0, scratch: int = 0
    ) -> tuple[int | np.ndarray, ...]:
        """Addresses as integers, everything that is passed by value as an array of one element.

        `arrays` are those of the call; one number in place of an array is a NumPy scalar. `workspace` and `scratch` are
        addresses.
        """
        values: list[int | np.ndarray] = self._constant.copy()
        for i, name in self._pointers:
            array = arrays.get(name)
            values[i] = 0 if array is None or isinstance(array, np.generic) else address_of(array)
        for i, offset in self._workspaces:
            values[i] = workspace + offset
        for i in self._scratches:
            values[i] = scratch
        for i, scalar in self._scalars:
            values[i] = _by_value(scalar, arrays.get(scalar.name))
        return tuple(values)


def _by_value(scalar: Scalar, value: Any) -> np.ndarray:
    return np.array([value if isinstance(value, np.generic) else 0]).astype(scalar.dtype)
