"""A launch: its limits, its arguments, and the structs that the runtime takes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from cuda_on_cpu.errors import LaunchError
from cuda_on_cpu.memory import DeviceArray, address_of

Size: TypeAlias = int | Sequence[int]

MOST_THREADS = 1024
MOST_STATIC_SHARED, MOST_SHARED = 48 * 1024, 227 * 1024
MOST_BLOCKS_IN_CLUSTER = 16
_BLOCK_LIMITS = (1024, 1024, 64)
_GRID_LIMITS = (2**31 - 1, 65535, 65535)


class Parameter(ctypes.Structure):
    _fields_ = (("size", ctypes.c_uint32), ("kind", ctypes.c_char))


class KernelDescription(ctypes.Structure):
    _fields_ = (
        ("call", ctypes.c_void_p),
        ("parameters", ctypes.POINTER(Parameter)),
        ("parameter_count", ctypes.c_uint32),
        ("cluster", ctypes.c_uint32 * 3),
    )


class Array(ctypes.Structure):
    _fields_ = (
        ("first", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("written", ctypes.c_void_p),
    )


class SharedVariable(ctypes.Structure):
    _fields_ = (("place", ctypes.c_size_t), ("size", ctypes.c_size_t), ("name", ctypes.c_char_p))


class Request(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("cluster", ctypes.c_uint32 * 3),
        ("cooperative", ctypes.c_uint32),
        ("arrays", ctypes.POINTER(Array)),
        ("shared", ctypes.POINTER(SharedVariable)),
        ("array_count", ctypes.c_uint32),
        ("shared_count", ctypes.c_uint32),
        ("shared_bytes", ctypes.c_size_t),
        ("turn", ctypes.c_uint32),
        ("resident", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("poll_limit", ctypes.c_uint64),
        ("preempt_every", ctypes.c_uint32),
        ("timeout_s", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class Geometry:
    """Grid and cluster in blocks, block in threads."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]

    @staticmethod
    def of(grid: Size, block: Size, cluster: Size) -> Geometry:
        """Raises LaunchError for what no GPU accepts."""
        geometry = Geometry(_three("grid", grid), _three("block", block), _three("cluster", cluster))
        _demand_within("block", geometry.block, _BLOCK_LIMITS)
        _demand_within("grid", geometry.grid, _GRID_LIMITS)
        if np.prod(geometry.block) > MOST_THREADS:
            raise LaunchError(f"block {geometry.block} has {np.prod(geometry.block)} threads, more than {MOST_THREADS}")
        if np.prod(geometry.cluster) > MOST_BLOCKS_IN_CLUSTER:
            raise LaunchError(f"cluster {geometry.cluster} has more than {MOST_BLOCKS_IN_CLUSTER} blocks")
        if any(g % c for g, c in zip(geometry.grid, geometry.cluster, strict=True)):
            raise LaunchError(f"grid {geometry.grid} is no multiple of the cluster {geometry.cluster}")
        return geometry


def _three(name: str, size: Size) -> tuple[int, int, int]:
    sizes = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    if not 1 <= len(sizes) <= 3 or any(extent < 1 for extent in sizes):
        raise LaunchError(f"{name} must be one to three sizes of at least 1, not {size}")
    x, y, z = (*(int(extent) for extent in sizes), 1, 1)[:3]
    return x, y, z


def _demand_within(name: str, sizes: tuple[int, int, int], limits: tuple[int, int, int]) -> None:
    if any(size > limit for size, limit in zip(sizes, limits, strict=True)):
        raise LaunchError(f"{name} {sizes} exceeds the limits {limits}")


def demand_shared_memory(static_bytes: int, dynamic_bytes: int, most: int = MOST_SHARED) -> None:
    """Raises LaunchError for more than a block can have."""
    if static_bytes > MOST_STATIC_SHARED:
        raise LaunchError(f"{static_bytes} bytes of static shared memory, more than {MOST_STATIC_SHARED}")
    if dynamic_bytes < 0 or static_bytes + dynamic_bytes > most:
        raise LaunchError(
            f"{static_bytes} bytes of static and {dynamic_bytes} of dynamic shared memory, more than {most}"
        )


def pack(kernel: str, parameters: Sequence[Parameter], values: Sequence[Any]) -> list[ctypes.Array]:
    """The bytes of each argument; LaunchError for a wrong number, size or kind."""
    if len(values) != len(parameters):
        raise LaunchError(f"{kernel} takes {len(parameters)} arguments, and {len(values)} were given")
    packed = [_pack_one(kernel, i, p, v) for i, (p, v) in enumerate(zip(parameters, values, strict=True))]
    return [ctypes.create_string_buffer(raw, len(raw)) for raw in packed]


def _pack_one(kernel: str, number: int, parameter: Parameter, value: Any) -> bytes:
    kind = parameter.kind.decode()
    if kind == "p":
        return _address(kernel, number, value).to_bytes(8, "little")
    if isinstance(value, DeviceArray) or not isinstance(value, (np.generic, np.ndarray)):
        raise LaunchError(
            f"argument {number} of {kernel} is passed by value and must be a NumPy scalar, not {type(value).__name__}"
        )
    given = np.asarray(value)
    if given.size != 1 or given.itemsize != parameter.size:
        raise LaunchError(f"argument {number} of {kernel} has {given.nbytes} bytes, the parameter {parameter.size}")
    kinds = {"i": "iub", "f": "f", "o": "biufcV"}[kind]
    if given.dtype.kind not in kinds:
        expected = "an integer" if kind == "i" else "a floating-point number"
        raise LaunchError(f"argument {number} of {kernel} is {given.dtype}, the parameter {expected}")
    return given.tobytes()


def _address(kernel: str, number: int, value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, DeviceArray):
        return address_of(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise LaunchError(f"argument {number} of {kernel} must be a device array, not {type(value).__name__}")


def regions(arrays: Mapping[str, np.ndarray]) -> list[tuple[int, int, str, int]]:
    """First byte, size, name and map of written bytes of each array; those that overlap are one."""
    found = sorted((*_bounds(array), name, array) for name, array in arrays.items() if array.size)
    merged: list[tuple[int, int, str, int]] = []
    for first, end, name, array in found:
        if merged and first < merged[-1][0] + merged[-1][1]:
            start, size, others, written = merged[-1]
            merged[-1] = (start, max(size, end - start), f"{others} or {name}", written)
        else:
            merged.append((first, end - first, name, _written(array)))
    return merged


def _bounds(array: np.ndarray) -> tuple[int, int]:
    return np.lib.array_utils.byte_bounds(array)


def _written(array: np.ndarray) -> int:
    allocation = getattr(array, "allocation", None)
    if allocation is None or allocation.written is None:
        return 0
    return address_of(allocation.written) + address_of(array) - address_of(allocation.bytes)
