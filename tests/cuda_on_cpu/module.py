"""Kernels of a .cu file, ready to be launched on the CPU."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cuda_on_cpu import launch
from cuda_on_cpu.compiler import compile_kernels, kernel_names, runtime
from cuda_on_cpu.elf import SharedLayout, shared_layout, source_line
from cuda_on_cpu.errors import KernelFault, LaunchError
from cuda_on_cpu.launch import Geometry, KernelDescription, Request, SharedVariable, Size
from cuda_on_cpu.memory import DeviceArray, address_of
from cuda_on_cpu.schedule import IN_ORDER, ORDERS, Schedule

# A launch of the tests takes milliseconds; what takes this long does not end.
TIMEOUT_S = 60
POLL_LIMIT = 2_000_000
# Enough that blocks wait for each other, few enough that blocks start while others have ended.
RESIDENT_BLOCKS = 4
PREEMPT_EVERY = 64


class Module:
    """The kernels `names` of a .cu file (all that are extern "C" by default), compiled with constants."""

    def __init__(
        self,
        path: str | Path,
        constants: tuple[tuple[str, str], ...] = (),
        *,
        checking: bool = False,
        names: Sequence[str] = (),
    ) -> None:
        self.path, self.checking = Path(path).resolve(), checking
        self.names = tuple(names) or kernel_names(self.path.read_text())
        self.file = compile_kernels(self.path, constants, self.names, checking)
        self.library = ctypes.CDLL(str(self.file))
        self.runtime = _runtime(checking)
        self.layout: SharedLayout = shared_layout(self.file)
        places = ctypes.c_void_p.in_dll(self.library, "cuda_on_cpu_shared_places")
        places.value = address_of(self.layout.places)

    def kernel(self, name: str) -> Kernel:
        """One of the kernels by its name, or a template's instance as it was named."""
        if name not in self.names:
            raise LaunchError(f"{self.path.name} has no kernel {name}; it has {', '.join(self.names)}")
        return Kernel(self, name)


class Kernel:
    """Called with a grid, a block and arguments; returns when all threads have ended."""

    def __init__(self, module: Module, name: str) -> None:
        self.module, self.name = module, name
        number = module.names.index(name)
        self._description = KernelDescription.in_dll(module.library, f"cuda_on_cpu_kernel_{number}")
        self.parameters = self._description.parameters[: self._description.parameter_count]
        self.cluster = tuple(self._description.cluster)
        """As the source has it; zeros where it says nothing."""

    def __call__(
        self,
        grid: Size,
        block: Size,
        arguments: Sequence[Any],
        *,
        shared_bytes: int = 0,
        most_shared: int = launch.MOST_SHARED,
        cluster: Size | None = None,
        cooperative: bool = False,
        schedule: Schedule = IN_ORDER,
        arrays: Mapping[str, np.ndarray] | None = None,
        timeout_s: int = TIMEOUT_S,
    ) -> int:
        """Raises LaunchError before anything runs and KernelFault for a defect; returns the switches between threads.

        Device arrays among the arguments are what the kernel may touch. `arrays` names them instead where addresses
        are passed.
        """
        geometry = Geometry.of(grid, block, self._cluster_of_launch(cluster))
        # What each kernel of several takes of the static variables is not known.
        static_bytes = self.module.layout.static_bytes if len(self.module.names) == 1 else 0
        launch.demand_shared_memory(static_bytes, shared_bytes, most_shared)
        packed = launch.pack(self.name, self.parameters, arguments)
        if arrays is None:
            arrays = {f"argument {i}": a for i, a in enumerate(arguments) if isinstance(a, DeviceArray)}
        self._run(geometry, packed, shared_bytes, cooperative, schedule, arrays, timeout_s)
        return self.module.runtime.cuda_on_cpu_switches()

    def _cluster_of_launch(self, cluster: Size | None) -> Size:
        if not any(self.cluster):
            return cluster or 1
        if cluster and Geometry.of(cluster, 1, cluster).cluster != self.cluster:
            raise LaunchError(f"cluster {cluster} contradicts {self.name}, which is compiled for {self.cluster}")
        return self.cluster

    def _run(
        self,
        geometry: Geometry,
        packed: list[ctypes.Array],
        shared_bytes: int,
        cooperative: bool,
        schedule: Schedule,
        arrays: Mapping[str, np.ndarray],
        timeout_s: int,
    ) -> None:
        regions = [
            launch.Array(first, size, name.encode(), written) for first, size, name, written in launch.regions(arrays)
        ]
        variables = _shared_variables(self.module.layout, shared_bytes)
        pointers = (ctypes.c_void_p * (len(packed) + 1))(*(ctypes.addressof(value) for value in packed))
        request = Request(
            kernel=ctypes.addressof(self._description),
            arguments=ctypes.addressof(pointers),
            grid=geometry.grid,
            block=geometry.block,
            cluster=geometry.cluster,
            cooperative=cooperative,
            arrays=(launch.Array * len(regions))(*regions),
            shared=(SharedVariable * len(variables))(*variables),
            array_count=len(regions),
            shared_count=len(variables),
            shared_bytes=self.module.layout.dynamic_place + shared_bytes,
            turn=ORDERS.index(schedule.order),
            resident=RESIDENT_BLOCKS,
            seed=schedule.seed,
            poll_limit=POLL_LIMIT,
            preempt_every=PREEMPT_EVERY,
            timeout_s=timeout_s,
        )
        done = self.module.runtime.cuda_on_cpu_launch(ctypes.byref(request))
        message = None if done else _with_source_lines(self.module.runtime.cuda_on_cpu_message().decode())
        message = message or _overrun(arrays)
        if message:
            launched = f"{self.name}<<<{geometry.grid}, {geometry.block}>>> of {self.module.path.name}"
            raise KernelFault(f"{message}\n    {launched}, schedule {schedule}")


def _with_source_lines(message: str) -> str:
    return re.sub(r"<code (\S+) (\d+)>", lambda match: source_line(Path(match[1]), int(match[2])), message)


@cache
def compiled_kernel(path: Path, constants: tuple[tuple[str, str], ...], name: str, checking: bool) -> Kernel:
    """One kernel of a file, made once; compiled without the others, which would take as long again."""
    return Module(path, constants, checking=checking, names=(name,)).kernel(name)


@cache
def _runtime(checking: bool) -> ctypes.CDLL:
    library = ctypes.CDLL(str(runtime(checking)))
    library.cuda_on_cpu_launch.argtypes = (ctypes.c_void_p,)
    library.cuda_on_cpu_message.restype = ctypes.c_char_p
    library.cuda_on_cpu_switches.restype = ctypes.c_uint64
    return library


def _shared_variables(layout: SharedLayout, dynamic_bytes: int) -> list[SharedVariable]:
    variables = [
        SharedVariable(layout.place(variable), variable.size, f"shared {variable.name}".encode())
        for variable in layout.variables
    ]
    if dynamic_bytes:
        variables.append(SharedVariable(layout.dynamic_place, dynamic_bytes, b"dynamic shared memory"))
    return variables


def _overrun(arrays: Mapping[str, np.ndarray]) -> str | None:
    for name, array in arrays.items():
        side = array.allocation.overrun() if isinstance(array, DeviceArray) and array.allocation else None
        if side:
            return f"the bytes {side} {name} were overwritten"
    return None
