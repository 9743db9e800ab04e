"""No kernel reads behind the end of an array: arrays that end where mapped memory ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cudml

GRANULARITY = 1 << 21  # bytes: what the driver maps at a time

pytestmark = [pytest.mark.backend("cuda"), pytest.mark.xdist_group("gpu")]


def at_the_end(values: np.ndarray) -> Any:
    """The array at the end of an allocation of its own, as close as its alignment allows."""
    import cupy

    nbytes = -(-values.nbytes // GRANULARITY) * GRANULARITY
    memory = cupy.cuda.Memory(nbytes)
    start = nbytes - values.nbytes
    array = cupy.ndarray(values.shape, values.dtype, cupy.cuda.MemoryPointer(memory, start))
    array[...] = cupy.asarray(values)
    return array


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((9001, 70), 0),
        ((9001, 64), 0),
        ((20_001, 3), 0),
        ((700, 4097), 0),
        ((5, 3001, 68), 1),
        ((3, 100, 1000), 1),
        ((301, 20_001), 1),
        ((300_001,), 0),
        ((3_000_001,), 0),
        ((7001, 3), 1),
    ],
)
@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
def test_nothing_behind_the_end_is_read(shape: tuple[int, ...], axis: int, dtype: Any, xp: Any):
    values = np.random.default_rng(shape).integers(-9, 10, shape).astype(dtype)
    result = cudml.cumsum(at_the_end(values), axis=axis)
    assert (xp.to_numpy(result) == np.cumsum(values, axis=axis)).all()
