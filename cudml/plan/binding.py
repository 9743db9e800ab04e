"""From the arguments of a plan to the values that a launch passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from cudml.plan.plan import Launch, Pointer, Scalar, Struct, Workspace


def bind(
    step: Launch, arrays: Mapping[str, Any], address_of: Callable[[Any], int], workspace: int
) -> tuple[int | np.ndarray, ...]:
    """Addresses as integers, everything that is passed by value as an array of one element.

    `arrays` are those of the call; one number in place of an array is a NumPy scalar. `workspace` is an address.
    """
    values: list[int | np.ndarray] = []
    for argument in step.arguments:
        if isinstance(argument, Pointer):
            array = arrays.get(argument.array)
            values.append(0 if array is None or isinstance(array, np.generic) else address_of(array))
        elif isinstance(argument, Workspace):
            values.append(workspace + argument.offset)
        elif isinstance(argument, Scalar):
            values.append(_scalar(argument, arrays.get(argument.name)))
        else:
            values.append(_packed(argument))
    return tuple(values)


@lru_cache(maxsize=4096)
def _packed(struct: Struct) -> np.ndarray:
    return struct.packed()


def _scalar(argument: Scalar, value: Any) -> np.ndarray:
    return np.array([value if isinstance(value, np.generic) else 0]).astype(argument.dtype)
