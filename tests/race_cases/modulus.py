"""Calls of the truncated modulus that reach each of its kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda_on_cpu.backend import SMALL_GPU

from cudml.modulus import fmod
from cudml.plan.device import DeviceProperties
from race_cases.calls import AsArray, Call, laid_out, values
from race_cases.devices import FEW_THREADS, OLD_AND_FEW_THREADS, ONE_OF_FEW_THREADS


def modulus(
    name: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    dtype: Any,
    pattern: str = "contiguous",
    out: str = "contiguous",
    divisor: str = "contiguous",
    device: DeviceProperties = FEW_THREADS,
) -> Call:
    """The operands lie in `pattern` and `divisor`, the result in `out` or, if that is "same", where the first lies."""
    first, second = values(shapes[0], dtype), values(shapes[1], dtype, seed=1)
    if np.dtype(dtype).kind in "iu":  # divisors of all sizes
        second = second >> (np.arange(second.size) % (8 * second.itemsize)).reshape(second.shape).astype(dtype) | 1
    else:
        second += 0.375  # of which few whole numbers are multiples

    def compute(make: AsArray) -> Any:
        x = laid_out(make, first, pattern)
        shape = np.broadcast_shapes(*shapes)
        target = x if out == "same" else laid_out(make, np.zeros(shape, dtype), out)
        return fmod(x, laid_out(make, second, divisor), out=target)

    return Call(name, compute, lambda: (np.fmod(first, second),), device=device)


def by_number(name: str, n: int, swapped: bool = False) -> Call:
    x = values((n,), np.int32) | 1
    if swapped:
        expected = np.fmod(np.int32(1_000_000_007), x)
        return Call(name, lambda make: fmod(1_000_000_007, make(x)), lambda: (expected,), device=FEW_THREADS)
    return Call(name, lambda make: fmod(make(x), 7), lambda: (np.fmod(x, 7),), device=FEW_THREADS)


def huge_quotients(name: str, dtype: Any, device: DeviceProperties) -> Call:
    """Bits at random have all exponents, and every fifth divisor is subnormal."""
    bits = values((2, 600), f"u{np.dtype(dtype).itemsize}")
    bits[1, ::5] &= (1 << np.finfo(dtype).nmant) - 1
    x, y = (np.where(np.isfinite(v), v, 1) for v in bits.view(dtype))
    return Call(name, lambda make: fmod(make(x), make(y)), lambda: (np.fmod(x, y),), device=device)


CALLS = [
    modulus("modulus in packs", ((4097,), (4097,)), np.int8),
    modulus("modulus of whole packs", ((2048,), (2048,)), np.float32),
    modulus("modulus of many blocks", ((40_001,), (40_001,)), np.int8),
    modulus("modulus in place", ((1027,), (1027,)), np.int32, out="same"),
    modulus("modulus of every second", ((515,), (515,)), np.int32, "every second"),
    modulus("modulus of every second byte", ((3, 301), (301,)), np.int8, "every second"),
    modulus("modulus backwards", ((5, 301), (5, 301)), np.int8, "backwards", divisor="backwards"),
    modulus("modulus of few", ((515,), (515,)), np.int16, device=SMALL_GPU),
    modulus("modulus shifted by a byte", ((515,), (515,)), np.int32, "offset by a byte", "offset by a byte"),
    modulus("modulus of shifted packs", ((3, 1101), (3, 1101)), np.int8, "padded lines"),
    modulus("modulus of shifted packs in place", ((5, 301), (5, 301)), np.int8, "padded lines", "same"),
    modulus("modulus shifted within words", ((3, 101), (101,)), np.int16, "offset by a byte", "offset by an element"),
    modulus("modulus of a short row", ((30, 17), (17,)), np.int32, "padded lines", "padded lines"),
    modulus("modulus of a row", ((31, 132), (132,)), np.int32),
    modulus("modulus of a row of halves", ((30, 264), (264,)), np.float16),
    modulus("modulus of a row of shifted halves", ((30, 101), (101,)), np.float16, "padded lines", "padded lines"),
    modulus("modulus of a run of short rows", ((301, 7), (7,)), np.int8),
    modulus("modulus of a run of short rows in place", ((203, 9), (203, 1)), np.int16, out="same"),
    modulus("modulus of a run of rows shorter than a pack", ((501, 3), (501, 3)), np.float32, divisor="padded lines"),
    modulus("modulus of a run by a row", ((450, 33), (33,)), np.int8),
    modulus("modulus of a run of halves by a row", ((163, 33), (33,)), np.float16),
    modulus("modulus of a run by a column", ((450, 33), (450, 1)), np.int8),
    modulus("modulus of a run of halves by a column", ((257, 9), (257, 1)), np.float16),
    modulus("modulus of a run of floats by a column", ((101, 33), (101, 1)), np.float32),
    modulus("modulus of a column by a run", ((163, 1), (163, 9)), np.int16),
    modulus("modulus of padded rows by others", ((77, 33), (77, 33)), np.int8, "padded lines", divisor="padded lines"),
    modulus("modulus of a column", ((30, 132), (30, 1)), np.float32),
    modulus("modulus of a column of bytes", ((30, 512), (30, 1)), np.int8),
    modulus("modulus of a transposed column", ((30, 17), (30, 1)), np.float32, "transposed"),
    modulus(
        "modulus of transposed numbers", ((70, 330), (70, 330)), np.float32, "transposed", device=ONE_OF_FEW_THREADS
    ),
    modulus("modulus of transposed bytes", ((150, 20), (150, 20)), np.int8, "transposed", divisor="transposed"),
    modulus("modulus of whole tiles", ((64, 322), (64, 322)), np.float32, "transposed", device=ONE_OF_FEW_THREADS),
    modulus(
        "modulus of whole tiles of bytes",
        ((256, 256), (256, 256)),
        np.int8,
        "transposed",
        divisor="transposed",
        device=ONE_OF_FEW_THREADS,
    ),
    modulus(
        "modulus of transposed halves", ((132, 176), (1, 176)), np.float16, "transposed", device=ONE_OF_FEW_THREADS
    ),
    modulus(
        "modulus of bytes into any rows",
        ((129, 271), (129, 271)),
        np.int8,
        "transposed",
        divisor="transposed",
        device=ONE_OF_FEW_THREADS,
    ),
    modulus(
        "modulus of halves by any rows", ((70, 195), (70, 195)), np.float16, "transposed", device=ONE_OF_FEW_THREADS
    ),
    modulus(
        "modulus of few bytes into any rows", ((129, 271), (129, 271)), np.int8, "transposed", divisor="transposed"
    ),
    modulus("modulus in place of any rows", ((70, 195), (70, 195)), np.float16, out="same", divisor="transposed"),
    modulus("modulus of columns backwards", ((34, 321), (34, 321)), np.float32, "transposed, backwards"),
    modulus("modulus of three axes", ((4, 40, 82), (40, 82)), np.int64, "rolled axes"),
    modulus("modulus in 32 bits", ((700,), (700,)), np.uint32),
    modulus("modulus in 64 bits", ((700,), (700,)), np.uint64),
    modulus("modulus in 64 bits on an old GPU", ((700,), (700,)), np.int64, device=OLD_AND_FEW_THREADS),
    huge_quotients("huge quotients", np.float32, FEW_THREADS),
    huge_quotients("huge quotients on an old GPU", np.float32, OLD_AND_FEW_THREADS),
    huge_quotients("huge quotients in double", np.float64, FEW_THREADS),
    by_number("modulus by a number", 1023),
    by_number("modulus of a number", 1025, swapped=True),
]
