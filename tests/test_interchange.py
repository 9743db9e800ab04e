"""What is taken as an array: lists and numbers, and foreign objects that export memory, without a copy."""

from __future__ import annotations

import numpy as np
import pytest
from layouts import PATTERNS, place

from cudml.modulus import fmod
from cudml.normalization import mean_var, mean_variance_normalization
from cudml.scan import cumprod, cumsum, cumulative_sum, segmented_cumsum

INTERFACES = ("__cuda_array_interface__", "__array_interface__")


class Exporting:
    """A foreign array that exports its memory through an array interface and nothing else."""

    def __init__(self, array):
        self._array = array
        name = next(name for name in INTERFACES if hasattr(array, name))
        setattr(self, name, getattr(array, name))


class ExportingDLPack:
    """A foreign array that exports its memory through DLPack and nothing else."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def skip_where_read_only(xp, wrap):
    if xp.name == "cpu" and wrap is ExportingDLPack and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("NumPy before 2.1 imports memory through DLPack read-only")


foreign = pytest.mark.parametrize("wrap", [Exporting, ExportingDLPack])
# To others the memory of the emulated backend is the host's.
pytestmark = pytest.mark.backend("cpu", "cuda")


@foreign
def test_foreign_inputs(xp, wrap):
    values = np.random.default_rng(1).standard_normal((4, 50)).astype(np.float32)

    def both(call):
        return call(xp.asarray(values)), call(wrap(xp.asarray(values)))

    for call in (
        lambda x: cumsum(x, 1),
        lambda x: cumprod(x),
        lambda x: cumulative_sum(x, axis=0),
        lambda x: mean_var(x, 0)[1],
        lambda x: mean_variance_normalization(x, axes=1),
        lambda x: mean_variance_normalization(xp.asarray(values), x, x, axes=1),
        lambda x: fmod(x, 0.5),
        lambda x: fmod(2.0, x),
    ):
        expected, got = both(call)
        assert type(got) is type(expected)
        np.testing.assert_array_equal(xp.to_numpy(got), xp.to_numpy(expected))


@foreign
def test_foreign_output_is_written_and_returned(xp, wrap):
    skip_where_read_only(xp, wrap)
    memory = xp.asarray(np.zeros(5, np.int64))
    out = wrap(memory)
    assert cumsum(xp.asarray(np.arange(5)), out=out) is out
    assert xp.to_numpy(memory).tolist() == [0, 1, 3, 6, 10]
    assert fmod(wrap(memory), 4, out=out) is out
    assert xp.to_numpy(memory).tolist() == [0, 1, 3, 2, 2]


@foreign
def test_foreign_array_in_place(xp, wrap):
    skip_where_read_only(xp, wrap)
    memory = xp.asarray(np.random.default_rng(2).standard_normal((3, 40)).astype(np.float32))
    expected = xp.to_numpy(mean_variance_normalization(memory, axes=1))
    array = wrap(memory)
    mean_variance_normalization(array, axes=1, out=array)
    np.testing.assert_array_equal(xp.to_numpy(memory), expected)


@foreign
def test_foreign_offsets(xp, wrap):
    offsets = wrap(xp.asarray(np.array([0, 2, 5])))
    result = segmented_cumsum(xp.asarray(np.arange(5)), offsets)
    assert xp.to_numpy(result).tolist() == [0, 1, 2, 5, 9]


@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name != "offset by a byte"])
@foreign
def test_foreign_strides(xp, wrap, pattern):
    values = np.random.default_rng(3).integers(0, 100, (4, 6)).astype(np.int32)
    result = cumsum(wrap(place(xp, values, pattern)), 1)
    np.testing.assert_array_equal(xp.to_numpy(result), np.cumsum(values, 1))


def test_lists_and_numbers_are_numpy_arrays():
    assert type(cumsum([1, 2])) is np.ndarray
    assert cumsum(((1, 2), (3, 4)), 1).tolist() == [[1, 3], [3, 7]]
    assert cumsum(3).tolist() == [3]
    assert cumsum(True).dtype == np.int64
    assert [float(moment) for moment in mean_var([1, 3])] == [2.0, 1.0]
    assert mean_variance_normalization([1.0, 1.0], bias=[3, 4], axes=0).tolist() == [3.0, 4.0]


def test_subclasses_of_numpy_arrays_give_plain_ones():
    class Labelled(np.ndarray):
        pass

    values = np.arange(4).view(Labelled)
    assert type(cumsum(values)) is np.ndarray
    assert cumsum(values).tolist() == [0, 1, 3, 6]


def test_other_byte_order_on_the_host():
    swapped = np.arange(5, dtype=np.dtype(np.float32).newbyteorder())
    assert cumsum(swapped).dtype == np.dtype(np.float32)
    assert cumsum(swapped).tolist() == [0, 1, 3, 6, 10]
    assert fmod(swapped, 3).tolist() == [0, 1, 2, 0, 1]
