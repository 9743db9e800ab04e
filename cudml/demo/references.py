"""Independent float64 computations of what the demo shows: plain loops and NumPy, nothing of cudml."""

from __future__ import annotations

import numpy as np


def summed_area_table(grey: np.ndarray) -> np.ndarray:
    """Row by row: the row above, and the running sum of this row."""
    table = np.zeros((grey.shape[0] + 1, grey.shape[1]))
    for row, pixels in enumerate(grey.tolist()):
        total = 0.0
        for column, pixel in enumerate(pixels):
            total += pixel
            table[row + 1, column] = table[row, column] + total
    return table[1:]


def box_filter(grey: np.ndarray, width: int) -> np.ndarray:
    """The sum of shifted images, without any running sum."""
    rows, columns = grey.shape[0] - width + 1, grey.shape[1] - width + 1
    sums = np.zeros((rows, columns))
    for down in range(width):
        for right in range(width):
            sums += grey[down : down + rows, right : right + columns]
    return sums / width**2


def normalized(image: np.ndarray, axes: tuple[int, ...], epsilon: float = 1e-5) -> np.ndarray:
    """The definition, in two passes."""
    wide = image.astype(np.float64)
    centred = wide - wide.mean(axis=axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + epsilon)


def running_products(factors: np.ndarray) -> np.ndarray:
    """A loop over Python floats."""
    products, product = [], 1.0
    for factor in factors.tolist():
        product *= factor
        products.append(product)
    return np.array(products)


def segmented_running_sums(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """A loop over Python integers that starts afresh at every offset."""
    sums, total, starts = [], 0, set(offsets.tolist())
    for index, value in enumerate(values.tolist()):
        total = value if index in starts else total + value
        sums.append(total)
    return np.array(sums, dtype=np.float64)


def remainder(dividend: np.ndarray, divisor: np.float32) -> np.ndarray:
    """dividend - divisor * trunc(dividend / divisor), exact in float64 while the quotient has less than 29 bits."""
    wide = dividend.astype(np.float64)
    return wide - np.float64(divisor) * np.trunc(wide / np.float64(divisor))
