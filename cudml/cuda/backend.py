"""The CUDA backend: CuPy arrays, planned and launched on their device and its current stream."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import cupy
import numpy as np
from cupy.cuda.device import get_device_id
from cupy.cuda.runtime import pointerGetAttributes

from cudml.backend import register, register_repeating
from cudml.cuda.device import properties_of
from cudml.cuda.graphs import copy_of, is_aligned, is_capturing
from cudml.cuda.launcher import launch
from cudml.cuda.repeats import Repeat, Repeats, key_of
from cudml.memory import make_in_order
from cudml.plan import recall_plan
from cudml.plan.device import DeviceProperties
from cudml.plan.layout import ArrayLayout, alignment_of
from cudml.plan.plan import Plan
from cudml.plan.spec import Spec


class _Thread(threading.local):
    planned: list[tuple[Plan, int]] | None = None
    """What calls were planned instead of launched; None while they are launched."""


class CudaBackend:
    """Computes specs on CuPy arrays and on whatever CuPy takes without a copy."""

    name = "cuda"

    def __init__(self) -> None:
        self.repeats = Repeats()
        self.repeat = self.repeats.make
        self._planned_for: DeviceProperties | None = None
        self._thread = _Thread()

    @property
    def planned_for(self) -> DeviceProperties | None:
        """The properties that plans are made for instead of the device's own; tests limit the grid or take older
        paths."""
        return self._planned_for

    @planned_for.setter
    def planned_for(self, properties: DeviceProperties | None) -> None:
        self._planned_for = properties
        if properties:
            self.repeats.pause("planned_for")
        else:
            self.repeats.resume("planned_for")

    @contextmanager
    def planning_only(self) -> Iterator[list[tuple[Plan, int]]]:
        """A context in which calls of this thread launch nothing; their plans and devices are in the list."""
        outer, thread = self._thread.planned, threading.get_ident()
        planned: list[tuple[Plan, int]] = []
        self._thread.planned = planned
        self.repeats.pause(thread)
        try:
            yield planned
        finally:
            self._thread.planned = outer
            if outer is None:
                self.repeats.resume(thread)

    def asarray(self, value: Any, like: cupy.ndarray | None = None) -> cupy.ndarray:
        if isinstance(value, cupy.ndarray):
            return value
        if hasattr(value, "__cuda_array_interface__"):
            with _device_of(value):  # on another one CuPy would make a copy
                array = cupy.asarray(value)
            if array.dtype.kind != "V":  # bfloat16, which the interface has no name for, DLPack does
                return array
        if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            return cupy.from_dlpack(value)
        with nullcontext() if like is None else like.device:
            if is_capturing():
                raise ValueError(
                    "an array on the host was passed while a CUDA graph is captured, and replays would read what was "
                    "freed since; move it to the GPU before the capture"
                )
            return cupy.asarray(value)

    def copy(self, array: cupy.ndarray) -> cupy.ndarray:
        with array.device:
            return copy_of(array)

    def empty(
        self, shape: tuple[int, ...], dtype: np.dtype, like: cupy.ndarray, order: tuple[int, ...] | None = None
    ) -> cupy.ndarray:
        with like.device:
            return make_in_order(lambda stored: cupy.empty(stored, dtype), shape, order)

    def to_host(self, array: cupy.ndarray) -> np.ndarray | None:
        """A copy on the host, which waits for the stream; None while the stream is being captured."""
        with array.device:
            if is_capturing():
                return None
            return cupy.asnumpy(array if is_aligned(array) else copy_of(array))

    def run(self, spec: Spec, arrays: Mapping[str, Any]) -> None:
        present = _present(arrays)
        device = common_device(present)
        plan = self._plan(spec, present, device)
        if not plan.launches:
            return
        if self._thread.planned is not None:
            self._thread.planned.append((plan, device))
        elif device == get_device_id():
            launch(plan, present, device)
        else:
            with cupy.cuda.Device(device):
                launch(plan, present, device)

    def _plan(self, spec: Spec, present: Mapping[str, Any], device: int) -> Plan:
        layouts = tuple([(name, layout_of(array)) for name, array in present.items()])
        return recall_plan(spec, layouts, self.planned_for or properties_of(device))

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
        key, present = key_of(call, tuple(given.values())), _present(arrays)
        is_real = self._thread.planned is None and not self.planned_for
        if key is None or not is_real or not _is_direct(given, present, also):
            return
        device = common_device(present)
        plan = self._plan(spec, present, device)
        if plan.launches:
            self.repeats.add(key, Repeat(plan, device, given, present, result, in_place, also))


def _device_of(value: Any) -> AbstractContextManager[Any]:
    """The device of another library's array, as a context."""
    address = value.__cuda_array_interface__["data"][0]
    if address and (device := pointerGetAttributes(address).device) >= 0:
        return cupy.cuda.Device(device)
    return nullcontext()


def _present(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: array for name, array in arrays.items() if array is not None}


def _is_direct(given: Mapping[str, Any], arrays: Mapping[str, Any], also: Sequence[str]) -> bool:
    """Whether a call worked on the arrays that it was given, not on copies, and made none but the outputs."""
    *inputs, output = given
    made = arrays.keys() - {name for name in inputs if given[name] is not None} - {output, *also}
    places = [(value, arrays[name]) for name, value in given.items() if isinstance(value, cupy.ndarray)]
    return not made and all(value.data.ptr == array.data.ptr for value, array in places)


def layout_of(array: Any) -> ArrayLayout | np.dtype:
    """The layout of an array; a NumPy scalar is known by its dtype alone."""
    if isinstance(array, np.generic):
        return array.dtype
    return ArrayLayout(array.shape, array.strides, array.dtype, alignment_of(array.data.ptr))


def common_device(arrays: Mapping[str, Any]) -> int:
    """The number of the device that all arrays are on; ValueError if there are two."""
    found: dict[int, str] = {}
    for name, array in arrays.items():
        if isinstance(array, cupy.ndarray):
            found.setdefault(array.data.device_id, name)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise ValueError(
            f"{first} is on GPU {one} and {second} on GPU {other}; copy one of them to the other's device first"
        )
    return next(iter(found))


BACKEND = CudaBackend()
register(cupy.ndarray, BACKEND)
register_repeating(cupy.ndarray, BACKEND)
