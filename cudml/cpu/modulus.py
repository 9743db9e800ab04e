"""The truncated modulus in NumPy, whose fmod is C's: exact for floats, 0 for a division of integers by zero."""

from __future__ import annotations

import numpy as np

from cudml.cpu.convert import convert
from cudml.plan.spec import Modulus


def modulus(spec: Modulus, dividend: np.ndarray, divisor: np.ndarray, output: np.ndarray) -> None:
    """The remainders of `dividend` divided by `divisor`, broadcast to the shape of `output`."""
    remainder = np.fmod(convert(dividend, spec.dtype), convert(divisor, spec.dtype))
    output[...] = convert(remainder, output.dtype)
