"""Runs CUDA kernels on the CPU, under schedules of its own choice, and finds their races.

See README.md beside this file.
"""

from cuda_on_cpu.compiler import requirement
from cuda_on_cpu.errors import CompileError, KernelFault, LaunchError, Unsupported
from cuda_on_cpu.memory import DeviceArray, device_array
from cuda_on_cpu.module import Kernel, Module
from cuda_on_cpu.schedule import Schedule, schedules

__all__ = [
    "CompileError",
    "DeviceArray",
    "Kernel",
    "KernelFault",
    "LaunchError",
    "Module",
    "Schedule",
    "Unsupported",
    "device_array",
    "requirement",
    "schedules",
]
