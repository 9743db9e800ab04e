"""Calls that repeat: checked, planned and bound once, then launched with other addresses.

A call is known by all that checks and plans look at: the function, its options, and the shape, strides, dtype,
alignment and device of every array. What was found valid once is valid for every call of that key, but for what depends
on addresses: whether the output overlaps an input. That is asked anew; where they meet, and on another device than the
current one, the call is made in full.

The calls stand in a plain dictionary, which is read without a lock; one is held only while a call is added.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Container, Hashable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import cupy
import numpy as np
from cupy.cuda import alloc, driver, get_current_stream
from cupy.cuda.device import get_device_id
from cupy.cuda.runtime import CUDARuntimeError

from cudml.cuda.early import EarlyLaunch, can_begin_early
from cudml.cuda.launcher import Step, address_of, steps_of
from cudml.cuda.parameters import Parameters
from cudml.cuda.scratch import Piece
from cudml.cuda.temporary import workspace_and_scratch
from cudml.memory import Layout
from cudml.plan.layout import VECTOR_BYTES
from cudml.plan.plan import Argument, Plan, Pointer, Scratch, Workspace

#: A few kilobytes each.
MOST_CALLS = 1024

_ndarray = cupy.ndarray  # what every call looks up
_launch_kernel = driver.launchKernel
_launch_cooperative_kernel = driver.launchCooperativeKernel


class Repeats:
    """The calls that are known; at most `most`, of which the older half makes room for new ones."""

    def __init__(self, most: int = MOST_CALLS) -> None:
        self._most = most
        self._known: dict[Hashable, Repeat] = {}
        self._made = self._known  # nothing while paused
        self._pauses: set[Hashable] = set()
        self._lock = threading.Lock()

    def make(self, call: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
        """The result of a call that is known, or None if it has to be made in full."""
        try:
            repeat = self._made.get(_key(call, arguments))
        except TypeError:  # as in `key_of`
            return None
        return None if repeat is None else repeat(arguments)

    def add(self, key: Hashable, repeat: Repeat) -> None:
        """Makes a call known."""
        with self._lock:
            if len(self._known) >= self._most:
                for old in list(islice(self._known, self._most // 2)):
                    del self._known[old]
            self._known[key] = repeat

    def pause(self, reason: Hashable) -> None:
        """Every call is made in full until `resume` is called with the same reason."""
        with self._lock:
            self._pauses.add(reason)
            self._made = {}

    def resume(self, reason: Hashable) -> None:
        """Known calls are made again, unless there are other reasons to pause."""
        with self._lock:
            self._pauses.discard(reason)
            self._made = {} if self._pauses else self._known

    @property
    def known(self) -> list[Repeat]:
        """All of them, the oldest first."""
        return list(self._known.copy().values())


def key_of(call: tuple[Any, ...], arguments: tuple[Any, ...]) -> Hashable | None:
    """What a call is known by; None if an option cannot be hashed, or an argument is neither CuPy's nor a number."""
    try:
        key = _key(call, arguments)
        hash(key)
    except TypeError:
        return None
    return key


def _key(call: tuple[Any, ...], arguments: tuple[Any, ...]) -> Hashable:
    if len(arguments) == 2:  # two and three are written out, because a loop takes twice as long
        first, last = arguments
        return call, _form(first), _form(last)
    if len(arguments) == 3:
        first, second, last = arguments
        return call, _form(first), _form(second), _form(last)
    return call, *map(_form, arguments)


def _form(value: Any) -> Hashable:
    """What checks and plans look at in an argument, apart from addresses; TypeError for what has no such key."""
    if type(value) is _ndarray:
        data = value.data
        return value.shape, value.strides, value.dtype, data.ptr % VECTOR_BYTES, data.device_id
    if value is None:
        return None
    if type(value) in (bool, int):
        return type(value), value  # 1, True and 1.0 are equal
    if type(value) is float:
        return float, repr(value)  # and so are zeros of both signs
    if isinstance(value, np.generic):
        return type(value), value.dtype, value.tobytes()  # whatever NumPy is told to print of it
    raise TypeError(type(value))


class Repeat:
    """A call that can be made again.

    The driver copies the arguments of a kernel while it launches. A call takes memory with them out of a list, fills in
    what changes and puts it back; a thread that finds none makes its own, so that threads never wait for each other.
    """

    __slots__ = (
        "_also",
        "_device",
        "_free",
        "_inputs",
        "_new",
        "_outputs",
        "_parameters",
        "_steps",
        "_temporary",
        "hits",
        "plan",
    )

    def __init__(
        self,
        plan: Plan,
        device: int,
        given: Mapping[str, Any],
        arrays: Mapping[str, Any],
        result: Any,
        in_place: Container[str],
        also: Sequence[str] = (),
    ) -> None:
        """The repetition of a call that ran as `plan` with `arrays` and returned `result`.

        `given` are the arguments under the names that the plan has for them, the output last and None where the call
        made it; those named in `in_place` may lie where the output does. Where `also` names outputs that are made in
        any case, `result` is a tuple of the output and of these.
        """
        steps = steps_of(plan, device)
        parameters = Parameters([step.binding(arrays, address_of) for step in steps])
        places = _places(steps, parameters)
        *names, output = given
        target, *others = result if also else (result,)
        self.plan, self.hits = plan, 0
        self._device, self._new = device, NewArray.like(target)
        self._also = tuple((NewArray.like(o), places[Pointer(name)]) for name, o in zip(also, others, strict=True))
        self._steps, self._parameters = steps, parameters
        self._free = [self._memory()]
        self._outputs = places[Pointer(output)]
        self._inputs = tuple(
            Input.of(number, Layout.of(given[name]), Layout.of(target), name in in_place, places.get(Pointer(name), ()))
            for number, name in enumerate(names)
            if isinstance(given[name], cupy.ndarray)
        )
        self._temporary = Temporary.of(plan, places)

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        """The output, or None if the call has to be made in full."""
        device, output = self._device, arguments[-1]
        if get_device_id() != device:
            return None
        if output is None:
            output = self._new.make()
            if output.data.ptr % VECTOR_BYTES:  # which an allocator other than CuPy's may give, here and below
                return None
        address = output.data.ptr
        try:
            memory = self._free.pop()
        except IndexError:
            memory = self._memory()
        try:
            words, launches = memory
            for number, below, above, may_coincide, places in self._inputs:
                pointer = arguments[number].data.ptr
                distance = pointer - address
                if below < distance < above and (distance or not may_coincide):
                    return None
                for place in places:
                    words[place] = pointer
            for place in self._outputs:
                words[place] = address
            results = self._also and self._make_also(words, output)
            if results is None:
                return None
            _held = self._temporary and self._temporary.take(words, device)
            stream = get_current_stream(device).ptr
            for handle, grid, block, shared_bytes, cooperative, table, early in launches:
                if early:
                    early(stream)
                elif cooperative:
                    _launch_cooperative_kernel(handle, grid, 1, 1, block, 1, 1, shared_bytes, stream, table)
                else:
                    _launch_kernel(handle, grid, 1, 1, block, 1, 1, shared_bytes, stream, table, 0)
        except (driver.CUDADriverError, CUDARuntimeError):
            # A thread that has no context yet gets one in full; other errors come again there.
            return None
        finally:
            self._free.append(memory)
        self.hits += 1
        return results or output

    def _make_also(self, words: array[int], output: cupy.ndarray) -> tuple[cupy.ndarray, ...] | None:
        """The output and those that are made besides; None if the call has to be made in full."""
        made = [output]
        for new, places in self._also:
            other = new.make()
            address = other.data.ptr
            if address % VECTOR_BYTES:
                return None
            for place in places:
                words[place] = address
            made.append(other)
        return tuple(made)

    def _memory(self) -> tuple[array[int], tuple[Launchable, ...]]:
        """Arguments for one thread, and the launches that read them."""
        words, tables = self._parameters.memory()
        steps, device = zip(self._steps, tables, strict=True), self._device
        return words, tuple(Launchable.of(step, table, device) for step, table in steps)


class Launchable(NamedTuple):
    """What cuLaunchKernel and cuLaunchCooperativeKernel take, apart from the stream."""

    handle: int
    grid: int
    block: int
    shared_bytes: int
    cooperative: bool
    parameters: int
    early: EarlyLaunch | None
    """Does the same, where the launch may begin early."""

    @classmethod
    def of(cls, step: Step, parameters: int, device: int) -> Launchable:
        launch, function = step.launch, step.function.ptr
        early = EarlyLaunch(launch, function, parameters) if launch.early and can_begin_early(device) else None
        return cls(function, launch.grid, launch.block, launch.shared_bytes, launch.cooperative, parameters, early)


class Input(NamedTuple):
    """An array that is read: where its address goes, and how far from the output's it has to be."""

    number: int
    """Among the arguments."""
    below: int
    """The difference of the addresses is this at the most, or `above` at least."""
    above: int
    may_coincide: bool
    """Or 0: then every element lies where the output's does."""
    places: Sequence[int]

    @classmethod
    def of(cls, number: int, source: Layout, output: Layout, in_place: bool, places: Sequence[int]) -> Input:
        low, high = (bound - source.address for bound in source.bounds)
        output_low, output_high = (bound - output.address for bound in output.bounds)
        same = source._replace(address=output.address).is_same_view(output)
        return cls(number, output_low - high, output_high - low, in_place and same, places)


class NewArray(NamedTuple):
    """An output that a call makes itself."""

    shape: tuple[int, ...]
    dtype: np.dtype
    nbytes: int
    strides: tuple[int, ...]

    @classmethod
    def like(cls, array: cupy.ndarray) -> NewArray:
        return cls(array.shape, array.dtype, array.nbytes, array.strides)

    def make(self) -> cupy.ndarray:
        shape, dtype, nbytes, strides = self
        return _ndarray(shape, dtype, alloc(nbytes), strides)


class Temporary(NamedTuple):
    """The workspace and the scratch of a plan."""

    workspace_bytes: int
    workspaces: Sequence[tuple[int, int]]
    """Places of addresses inside the workspace, and their offsets."""
    scratch_bytes: int
    scratches: Sequence[int]

    @classmethod
    def of(cls, plan: Plan, places: _Places) -> Temporary | None:
        """None where the plan needs neither."""
        if not plan.workspace_bytes and not plan.scratch_bytes:
            return None
        inside = [(argument.offset, found) for argument, found in places.items() if isinstance(argument, Workspace)]
        workspaces = tuple((place, offset) for offset, found in inside for place in found)
        return cls(plan.workspace_bytes, workspaces, plan.scratch_bytes, tuple(places.get(Scratch(), ())))

    def take(self, words: array[int], device: int) -> tuple[Piece, Piece]:
        """Fills in the addresses of memory that has to be held until the launches are enqueued."""
        workspace, scratch = workspace_and_scratch(self.workspace_bytes, self.scratch_bytes, device)
        for place, offset in self.workspaces:
            words[place] = workspace.address + offset
        for place in self.scratches:
            words[place] = scratch.address
        return workspace, scratch


_Places: TypeAlias = Mapping[Argument, Sequence[int]]


def _places(steps: Sequence[Step], parameters: Parameters) -> _Places:
    """The places at which each argument that is an address is passed."""
    found: dict[Argument, list[int]] = {}
    for step, places in zip(steps, parameters.places, strict=True):
        for argument, place in zip(step.launch.arguments, places, strict=True):
            if isinstance(argument, (Pointer, Workspace, Scratch)):
                found.setdefault(argument, []).append(place)
    return found
