"""The backend `emulated`: cudml's own plans and kernels, launched on the CPU.

It stands where the CUDA launcher stands. Public functions, plans, kernel sources, geometry and arguments are the same;
the memory and the launcher are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cuda_on_cpu.errors import KernelFault
from cuda_on_cpu.launch import MOST_SHARED
from cuda_on_cpu.memory import DeviceArray, address_of, device_array, empty
from cuda_on_cpu.module import Kernel, compiled_kernel
from cuda_on_cpu.schedule import Schedule
from cudml.cuda.sources import kernels_folder
from cudml.memory import make_in_order
from cudml.plan import recall_plan
from cudml.plan.binding import Binding
from cudml.plan.device import DeviceProperties
from cudml.plan.layout import ArrayLayout, alignment_of
from cudml.plan.plan import Launch, Plan
from cudml.plan.spec import Spec

SMALL_GPU = DeviceProperties(
    compute_capability=(9, 0),
    multiprocessors=3,
    threads_per_multiprocessor=2048,
    shared_bytes_per_multiprocessor=MOST_SHARED + 1024,
    shared_bytes_per_block=MOST_SHARED,
    cache_bytes=0,
    bytes_per_second=1e11,
)
"""An architecture of today with so few multiprocessors that small calls already keep its blocks waiting for others,
and without a cache that would have room for them."""


@dataclass
class EmulatedBackend:
    """Computes specs on device arrays, under one schedule after the other; results must agree to the last bit.

    The scratch is what the launches before left in it, under whatever schedule and of whatever call.
    """

    name: str = "emulated"
    checking: bool = False
    schedules: list[Schedule] = field(default_factory=lambda: [Schedule()])
    kernels: Path = field(default_factory=kernels_folder)
    device: DeviceProperties = SMALL_GPU
    """What plans are made for; a launch that it could not hold is refused."""
    _scratch: DeviceArray | None = field(default=None, init=False, repr=False)

    def asarray(self, value: Any, like: Any = None) -> DeviceArray:
        return value if isinstance(value, DeviceArray) else device_array(value)

    def empty(
        self, shape: tuple[int, ...], dtype: np.dtype, like: Any, order: tuple[int, ...] | None = None
    ) -> DeviceArray:
        return make_in_order(lambda stored: empty(stored, dtype), shape, order)

    def copy(self, array: DeviceArray) -> DeviceArray:
        return device_array(array)

    def to_host(self, array: DeviceArray) -> np.ndarray:
        return np.array(array)

    def run(self, spec: Spec, arrays: Mapping[str, Any]) -> None:
        present = {name: array for name, array in arrays.items() if array is not None}
        plan = recall_plan(spec, tuple((name, _layout_of(array)) for name, array in present.items()), self.device)
        if not plan.launches:
            return
        scratch, used = self._scratch, _epochs_used(self._scratch)
        self.launch(plan, present)
        if self._scratch is None or not plan.scratch_bytes:
            return
        before, after = used if scratch is self._scratch else 0, _epochs_used(self._scratch)
        started_again = before > _NEARLY_ALL_EPOCHS and after >= 0
        if not started_again and not before < after >= _greatest_epoch(self._scratch):
            raise KernelFault(f"a later launch could take what this or an earlier one published\n    {plan}")

    def leave_epochs(self, count: int) -> None:
        """As many, and whatever was published until then."""
        self._scratch = device_array(np.zeros(1 << 20, np.uint8))
        self._scratch[:8].view(np.uint64)[0] = (_NO_EPOCH - count) << 32

    def launch(self, plan: Plan, arrays: Mapping[str, Any]) -> None:
        """Launches the plan's kernels under all schedules."""
        memory = [a.allocation for a in arrays.values() if isinstance(a, DeviceArray) and a.allocation]
        before = [allocation.bytes.copy() for allocation in memory] if len(self.schedules) > 1 else []
        first: list[np.ndarray] = []
        for schedule in self.schedules:
            for allocation, contents in zip(memory, before, strict=False):
                allocation.bytes[:] = contents
            self._launch(plan, arrays, schedule)
            after = [allocation.bytes.copy() for allocation in memory] if before else []
            first = first or after
            if any((a != b).any() for a, b in zip(first, after, strict=True)):
                raise KernelFault(
                    f"schedule {schedule} gives other results than schedule {self.schedules[0]}\n    {plan}"
                )

    def _launch(self, plan: Plan, arrays: Mapping[str, Any], schedule: Schedule) -> None:
        workspace = empty((plan.workspace_bytes,), np.uint8, uninitialised=True)
        scratch = self._scratch_of(plan.scratch_bytes)
        memory = {name: array for name, array in arrays.items() if isinstance(array, DeviceArray)}
        memory |= {"workspace": workspace, "scratch": scratch}
        try:
            for kernel, step in [(self._kernel(part, step), step) for part in plan.parts for step in part.launches]:
                kernel(
                    step.grid,
                    step.block,
                    Binding(step)(arrays, address_of, address_of(workspace), address_of(scratch)),
                    shared_bytes=step.shared_bytes,
                    cooperative=step.cooperative,
                    most_shared=self.device.shared_bytes_per_block,
                    schedule=schedule,
                    arrays=memory,
                )
        except KernelFault:
            self._scratch = None  # a launch that did not end leaves it in no defined state
            raise

    def _scratch_of(self, nbytes: int) -> DeviceArray:
        """Not a byte more than the plan asked for may be touched, though larger plans may have used more before."""
        if self._scratch is None or self._scratch.nbytes < nbytes:
            self._scratch = device_array(np.zeros(nbytes, np.uint8))
        part: Any = self._scratch[:nbytes]
        return part

    def _kernel(self, part: Plan, step: Launch) -> Kernel:
        return compiled_kernel(self.kernels / part.source, part.constants, step.kernel, self.checking)


# As kernels/tickets.cuh has it. A launch whose epochs might not be left starts with the first one again.
_NO_EPOCH = 1 << 31
_NEARLY_ALL_EPOCHS = _NO_EPOCH - (1 << 16)


def _epochs_used(scratch: DeviceArray | None) -> int:
    """As the library's kernels note in the first word (kernels/tickets.cuh); -1 if that does not stand at ticket 0."""
    if scratch is None or not scratch.nbytes:
        return 0
    epochs, ticket = divmod(int(np.array(scratch[:8]).view(np.uint64)[0]), 1 << 32)
    return epochs if ticket == 0 else -1


def _greatest_epoch(scratch: DeviceArray) -> int:
    """That any word has but those before epochs start again: what is no epoch has the highest bit."""
    epochs = np.array(scratch[: scratch.nbytes // 8 * 8]).view(np.uint64) >> np.uint64(32)
    return int(epochs[epochs < _NEARLY_ALL_EPOCHS].max())


def _layout_of(array: Any) -> ArrayLayout | np.dtype:
    if isinstance(array, np.generic):
        return array.dtype
    return ArrayLayout(array.shape, array.strides, array.dtype, alignment_of(address_of(array)))
