"""Which backend computes a call: chosen by the type of the arrays.

A backend allocates arrays and runs specs on them. NumPy arrays belong to the CPU backend; CuPy arrays, and anything
that exports device memory through `__cuda_array_interface__` or DLPack, to the CUDA backend. `register` adds another
type of array with a backend of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from cudml.plan import import_planners
from cudml.plan.spec import Spec

_KDLCUDA = 2  # DLPack's device types of device memory: CUDA, and CUDA managed memory
_KDLCUDA_MANAGED = 13


class Backend(Protocol):
    """What the public functions and the compiled descriptors need of a backend."""

    name: str

    def asarray(self, value: Any, like: Any = None) -> Any:
        """`value` as an array of this backend, without a copy where its memory can be used as it is, else on the device
        of `like`; None is the current one."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, like: Any, order: tuple[int, ...] | None = None) -> Any:
        """A new dense array on the device of `like`; `order` has its axes from the outermost, None is C order."""

    def copy(self, array: Any) -> Any:
        """The same elements in memory of their own, which lives as long as work that was given it may read it."""

    def to_host(self, array: Any) -> np.ndarray | None:
        """The elements as a NumPy array, or None when they cannot be read now (a graph is being captured)."""

    def run(self, spec: Spec, arrays: Mapping[str, Any]) -> None:
        """Computes `spec`; reads and writes the arrays that the spec's class names. Arguments were checked before."""


class Repeating(Protocol):
    """What a backend offers whose calls are worth remembering."""

    def repeat(self, call: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
        """The result of a call that was remembered, or None."""

    def remember(
        self,
        call: tuple[Any, ...],
        given: Mapping[str, Any],
        result: Any,
        spec: Spec,
        arrays: Mapping[str, Any],
        in_place: Container[str],
        also: Sequence[str],
    ) -> None:
        """Makes a call that has just run with `arrays` a known one."""


_BACKENDS: dict[type, Backend] = {}
_REPEATING: dict[type, Repeating] = {}


def register(array_type: type, backend: Backend) -> None:
    """Arrays of exactly `array_type` are computed by `backend` from now on."""
    _BACKENDS[array_type] = backend


def register_repeating(array_type: type, backend: Repeating) -> None:
    """Calls whose first argument is of exactly `array_type` are remembered by `backend` from now on."""
    _REPEATING[array_type] = backend


def repeated(call: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
    """The result of a call that was made before in all that counts; None if it has to be checked and made in full.

    `arguments` are arrays and numbers, the output last, None where the call makes it. `call` is all else that checks
    and results depend on. What is equal there must mean the same: where True and 1.0 are not as good as 1, the type
    stands beside the value.
    """
    backend = _REPEATING.get(type(arguments[0]))
    return backend and backend.repeat(call, arguments)


def remember(
    call: tuple[Any, ...],
    given: Mapping[str, Any],
    result: Any,
    spec: Spec,
    arrays: Mapping[str, Any],
    in_place: Container[str] = (),
    also: Sequence[str] = (),
) -> None:
    """Lets `repeated` make the call that has just run as `spec` with `arrays`, and returned `result`.

    `given` are the arguments of `repeated` by their names among `arrays`. Those in `in_place` may lie exactly where the
    output does; apart from that all have to lie apart from it. `also` names outputs that every call makes besides;
    `result` is then a tuple, the output first.
    """
    backend = _REPEATING.get(type(next(iter(given.values()))))
    if backend is not None:
        backend.remember(call, given, result, spec, arrays, in_place, also)


def backend_of(**arguments: Any) -> Backend:
    """The one backend of all arguments that are arrays; None and Python scalars have none.

    Raises TypeError when host and device arrays are mixed, naming the two arguments, and for a masked array.
    """
    chosen: Backend | None = None
    chosen_name = ""
    for name, value in arguments.items():
        if value is None or isinstance(value, (bool, int, float, complex, np.generic)):
            continue
        backend = _BACKENDS.get(type(value)) or _find_backend(name, value)
        if chosen is None:
            chosen, chosen_name = backend, name
        elif backend is not chosen:
            raise TypeError(
                f"{chosen_name} is an array of the {chosen.name} backend and {name} one of the {backend.name} backend; "
                f"move one of them first, for example with cupy.asarray or cupy.asnumpy"
            )
    return chosen or _cpu()


def prepare_for_cupy() -> None:
    """Imports what calls on CuPy arrays need, so that the first one need not: the planners if CuPy is installed, which
    takes the development machine 12 ms, and the backend if it is imported too, 17 ms."""
    if _is_installed("cupy"):
        import_planners()
    if sys.modules.get("cupy") is not None:
        with suppress(ImportError):  # a CuPy that is not supported: told when its first array is met
            _cuda()


def _is_installed(module: str) -> bool:
    with suppress(ImportError, ValueError):  # of modules that somebody made up
        return find_spec(module) is not None
    return False


def _find_backend(name: str, value: Any) -> Backend:
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(f"{name} is a masked array, whose mask nothing here follows; fill it with a number first")
        return _cpu()
    if hasattr(value, "__cuda_array_interface__") or _dlpack_device_type(value) in (_KDLCUDA, _KDLCUDA_MANAGED):
        return _cuda()
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(value, cupy.ndarray):
        return _cuda()
    return _cpu()


def _dlpack_device_type(value: Any) -> int | None:
    device = getattr(value, "__dlpack_device__", None)
    return None if device is None or isinstance(value, type) else int(device()[0])


def _cpu() -> Backend:
    from cudml import cpu

    return cpu.BACKEND


def _cuda() -> Backend:
    from cudml.cuda.backend import BACKEND

    return BACKEND
