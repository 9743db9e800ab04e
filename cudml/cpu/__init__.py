"""The backend for NumPy arrays: plain NumPy, the same answers as the kernels up to rounding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cudml.cpu.modulus import modulus
from cudml.cpu.normalization import moments, normalize
from cudml.cpu.scan import scan, segmented_scan
from cudml.memory import make_in_order
from cudml.plan.spec import Modulus, Moments, Normalization, Scan, SegmentedScan, Spec

_COMPUTE: dict[type, Any] = {
    Scan: scan,
    SegmentedScan: segmented_scan,
    Moments: moments,
    Normalization: normalize,
    Modulus: modulus,
}


class CpuBackend:
    """Computes specs on NumPy arrays."""

    name = "cpu"

    def asarray(self, value: Any, like: Any = None) -> np.ndarray:
        """`value` as a plain NumPy array, on the same memory where it has some."""
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        return np.asarray(value)

    def empty(
        self, shape: tuple[int, ...], dtype: np.dtype, like: Any, order: tuple[int, ...] | None = None
    ) -> np.ndarray:
        """A new dense array, its axes in the given order."""
        return make_in_order(lambda stored: np.empty(stored, dtype), shape, order)

    def copy(self, array: np.ndarray) -> np.ndarray:
        """The same elements in memory of their own."""
        return array.copy()

    def to_host(self, array: np.ndarray) -> np.ndarray:
        """The array itself: it can always be read."""
        return array

    def run(self, spec: Spec, arrays: Mapping[str, Any]) -> None:
        """Computes `spec` without warnings: NaN, infinity and wrapped integers are answers here, not accidents."""
        with np.errstate(all="ignore"):
            _COMPUTE[type(spec)](spec, **arrays)


BACKEND = CpuBackend()
