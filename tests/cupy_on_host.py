"""The CUDA backend without a GPU: CuPy arrays on the host's memory, and a driver that runs kernels on the CPU.

Whatever would ask CUDA is replaced. What stays is cudml's own: checks, plans, keys, addresses, and the memory in which
a launch finds its arguments, which is read here as the driver reads it.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import cupy
import numpy as np
import pytest
from cuda_on_cpu import device_array
from cuda_on_cpu.memory import DeviceArray, address_of
from cuda_on_cpu.memory import empty as empty_on_cpu
from cuda_on_cpu.module import Kernel, compiled_kernel
from cupy.cuda import MemoryPointer, UnownedMemory, driver

import cudml.backend
from cudml import memory
from cudml.cuda import backend as cuda_backend
from cudml.cuda import early, launcher, repeats, sources, temporary
from cudml.cuda.scratch import DeviceScratch, Piece
from cudml.dml import binding
from cudml.plan.device import H200


class Function:
    """Stands for cupy.cuda.Function."""

    def __init__(self, host: CupyOnHost, kernel: Kernel) -> None:
        self.host, self.kernel, self.ptr = host, kernel, len(host.functions)
        host.functions.append(self)

    def __call__(
        self,
        grid: tuple[int],
        block: tuple[int],
        arguments: Any,
        shared_bytes: int,
        enable_cooperative_groups: bool,
    ) -> None:
        self.host.launches.append("in full")
        self.kernel(
            grid,
            block,
            arguments,
            shared_bytes=shared_bytes,
            cooperative=enable_cooperative_groups,
            arrays=dict(self.host.arrays),
        )


class CupyOnHost:
    """Makes arrays and records launches: "in full" through CuPy, or "again" as repeats do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.launches: list[str] = []
        self.before_launch: Callable[[], object] = lambda: None
        """Called with the arguments in place, whichever way a launch is repeated."""
        self.arrays: dict[str, DeviceArray] = {}
        self._numbers = itertools.count()
        self._executor = threading.Lock()  # which runs one launch at a time
        self.functions: list[Function] = []
        self.device = 0
        self.has_context = True
        self.backend = cuda_backend.CudaBackend()
        self._replace_cuda(monkeypatch)

    def asarray(self, values: Any, *, offset: int = 0, device: int = 0) -> cupy.ndarray:
        """A copy, `offset` bytes behind an aligned address, that says that it is on that device."""
        values = np.asarray(values)
        held = device_array(np.zeros(values.nbytes + offset, np.uint8))
        part = held[offset:].view(values.dtype).reshape(values.shape)
        part[...] = values
        return self._wrapped(held, values.shape, values.dtype, offset, device)

    def empty(self, shape: Any, dtype: Any) -> cupy.ndarray:
        return self._wrapped(empty_on_cpu(shape, dtype), shape, dtype)

    def to_numpy(self, array: cupy.ndarray) -> np.ndarray:
        described = {"data": (array.data.ptr, False), "shape": array.shape, "strides": array.strides, "version": 3}
        return np.asarray(SimpleNamespace(__array_interface__={**described, "typestr": array.dtype.str})).copy()

    def _wrapped(self, held: DeviceArray, shape: Any, dtype: Any, offset: int = 0, device: int = 0) -> cupy.ndarray:
        self.arrays[f"array {next(self._numbers)}"] = held
        unowned = UnownedMemory(address_of(held), max(held.nbytes, 1), held, device)
        return cupy.ndarray(shape, dtype, MemoryPointer(unowned, offset))

    def _replace_cuda(self, monkeypatch: pytest.MonkeyPatch) -> None:
        steps_of, layout_of = launcher.steps_of.__wrapped__, memory.Layout.of
        stream = SimpleNamespace(ptr=0, device_id=-1)
        pieces = DeviceScratch(self._zeros, self._zeros)
        for module, replaced in (
            (cuda_backend, {"get_device_id": lambda: self.device, "properties_of": lambda device: H200}),
            (launcher, {"architecture_of": lambda device: "sm_90", "_module": lambda *names: names}),
            (launcher, {"fill_cache": lambda kernels: 0}),
            (launcher, {"_function": self._function, "steps_of": steps_of}),
            (temporary, {"_scratch_of": lambda device: pieces, "is_capturing": lambda stream: False}),
            (temporary._STREAMS, {"name": lambda stream: stream.ptr}),
            (repeats, {"get_device_id": lambda: self.device, "get_current_stream": lambda device: stream}),
            (repeats, {"steps_of": steps_of, "alloc": self._alloc, "_launch_kernel": self._launch_kernel}),
            (repeats, {"_launch_cooperative_kernel": self._launch_cooperative_kernel}),
            (repeats, {"can_begin_early": lambda device: True}),
            (early, {"_launch_kernel_ex": lambda: self._launch_kernel_ex}),
            (memory, {"shares_its_memory": lambda value: hasattr(value, "dtype")}),
            (binding, {"shares_its_memory": lambda value: hasattr(value, "dtype")}),
            (memory.Layout, {"of": lambda array: _layout(array) or layout_of(array)}),
            (cupy, {"empty": self.empty}),
            (cupy.cuda, {"get_current_stream": lambda device=0: stream, "alloc": self._alloc}),
            (self.backend, {"empty": self._empty_in_order, "copy": lambda a: self.asarray(self.to_numpy(a))}),
            (self.backend, {"to_host": self.to_numpy}),
        ):
            for name, value in replaced.items():
                monkeypatch.setattr(module, name, value)
        monkeypatch.setitem(cudml.backend._BACKENDS, cupy.ndarray, self.backend)
        monkeypatch.setitem(cudml.backend._REPEATING, cupy.ndarray, self.backend)

    def _function(self, module: tuple[str, Any, str, int], step: Any) -> Function:
        source, constants, *_ = module
        return Function(self, compiled_kernel(sources.kernels_folder() / source, constants, step.kernel, False))

    def _empty_in_order(self, shape: Any, dtype: Any, like: Any, order: Any = None) -> cupy.ndarray:
        return memory.make_in_order(lambda stored: self.empty(stored, dtype), shape, order)

    def _alloc(self, nbytes: int) -> MemoryPointer:
        return self.empty((nbytes,), np.uint8).data

    def _zeros(self, nbytes: int) -> Piece:
        array = self.asarray(np.zeros(nbytes, np.uint8))
        return Piece(array, array.data.ptr, nbytes)

    def _launch_kernel(self, handle: int, *numbers: int) -> None:
        """As cuLaunchKernel takes them."""
        *geometry, extra = numbers
        assert extra == 0
        self._launch(False, handle, *geometry)

    def _launch_cooperative_kernel(self, handle: int, *numbers: int) -> None:
        """As cuLaunchCooperativeKernel takes them."""
        self._launch(True, handle, *numbers)

    def _launch_kernel_ex(self, config: int, handle: int, table: int, extra: None) -> int:
        """As cuLaunchKernelEx takes them."""
        c = early.Config.from_address(config)
        assert (c.attribute_count, extra) == (1, None)
        block = (c.block_x, c.block_y, c.block_z)
        self._launch(False, handle, c.grid_x, c.grid_y, c.grid_z, *block, c.shared_bytes, c.stream or 0, table)
        return 0

    def _launch(self, cooperative: bool, handle: int, *numbers: int) -> None:
        if not self.has_context:
            raise driver.CUDADriverError.__new__(driver.CUDADriverError)
        grid, y, z, block, block_y, block_z, shared_bytes, stream, table = numbers
        assert (y, z, block_y, block_z, stream) == (1, 1, 1, 1, 0)
        self.launches.append("again")
        self.before_launch()
        kernel = self.functions[handle].kernel
        pointers = (ctypes.c_void_p * len(kernel.parameters)).from_address(table)
        raw = [ctypes.string_at(p, d.size) for p, d in zip(pointers, kernel.parameters, strict=True)]
        values = [_value(r, d.kind) for r, d in zip(raw, kernel.parameters, strict=True)]
        with self._executor:
            kernel(grid, block, values, shared_bytes=shared_bytes, cooperative=cooperative, arrays=dict(self.arrays))


def _value(raw: bytes, kind: bytes) -> Any:
    if kind == b"p":
        return int.from_bytes(raw, "little")
    names = {b"i": f"u{len(raw)}", b"f": f"f{len(raw)}", b"o": f"V{len(raw)}"}
    return np.frombuffer(raw, names[kind])


def _layout(array: Any) -> memory.Layout | None:
    """Of a CuPy array, whose own interface would ask for the current stream."""
    if not isinstance(array, cupy.ndarray):
        return None
    return memory.Layout(array.data.ptr, False, array.shape, array.strides, array.dtype.itemsize)
