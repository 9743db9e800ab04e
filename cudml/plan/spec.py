"""What to compute, apart from the arrays.

A spec is the whole meaning of a call once arguments are checked and defaults resolved. Specs are frozen and hashable:
plans are cached under them. Each class lists the names of the arrays that it is run with.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from cudml.plan.activation import Activation

Operation: TypeAlias = Literal["sum", "product"]


class Scan(NamedTuple):
    """Running sums or products along an axis.

    Arrays: `input`, `output`.
    """

    operation: Operation
    dtype: np.dtype
    """Every element is converted to this type first; halves accumulate in float32 and round to it once per output."""
    axis: int | None
    """Not negative; None scans the array flattened in C order."""
    reverse: bool = False
    exclusive: bool = False
    initial: bool = False
    """The output is longer by one along the axis and starts (in the order of traversal) with the identity."""


class SegmentedScan(NamedTuple):
    """Running sums or products that start afresh in every segment of a 1-D array.

    Arrays: `input`, `offsets`, `output`.
    """

    operation: Operation
    dtype: np.dtype
    reverse: bool = False
    exclusive: bool = False


class Moments(NamedTuple):
    """Mean and variance over axes.

    Arrays: `input`, `mean`, `variance`; the results are C-contiguous and keep the reduced axes with size 1.
    """

    axes: tuple[int, ...]
    """Sorted, not negative, without repetition."""
    correction: float = 0.0
    """Subtracted from the number of elements in the variance's divisor."""


class Normalization(NamedTuple):
    """activation(scale * (input - mean) / sqrt(variance + epsilon) + bias), the statistics taken over axes.

    Arrays: `input`, `output`; optional inputs `scale` and `bias`, which are broadcast to the input's shape
    (either may be a NumPy scalar); optional outputs `mean` and `variance` (the population's), C-contiguous, which keep
    the reduced axes with size 1.
    """

    axes: tuple[int, ...]
    normalize_variance: bool = True
    epsilon: float = 1e-5
    activation: Activation | None = None


class Modulus(NamedTuple):
    """The remainder of a division truncated towards zero, with the dividend's sign.

    Arrays: `dividend`, `divisor`, `output`. The operands are broadcast to the output's shape; either may be a NumPy
    scalar instead.
    """

    dtype: np.dtype
    """Both operands are converted to this type first."""


Spec: TypeAlias = Scan | SegmentedScan | Moments | Normalization | Modulus
