"""Bad input: the exception names argument, value and rule, and nothing was computed or overwritten."""

from __future__ import annotations

import re
import warnings
from array import array
from types import SimpleNamespace

import numpy as np
import pytest
from layouts import Poisoned
from numpy.exceptions import AxisError
from reference import assert_same_bits

from cudml import backend as backends
from cudml import offsets as offsets_module
from cudml.arguments import as_real
from cudml.memory import Layout
from cudml.modulus import fmod
from cudml.normalization import batch_norm, group_norm, instance_norm, layer_norm, mean_var, mean_variance_normalization
from cudml.offsets import CheckedOffsets, as_offsets
from cudml.plan.activation import Activation
from cudml.scan import cumprod, cumsum, cumulative_prod, cumulative_sum, segmented_cumprod, segmented_cumsum

SCANS = [cumsum, cumprod]
STANDARD = [cumulative_sum, cumulative_prod]
SEGMENTED = [segmented_cumsum, segmented_cumprod]
UNSUPPORTED = ["datetime64[s]", "timedelta64[s]", "longdouble", "clongdouble", "S3", "U3", "object", "i4,f4"]


def ones(xp, *shape, dtype=np.float32):
    return xp.asarray(np.ones(shape, dtype))


def refuses(exception, message, call, *args, out=None, **kwargs):
    """The call raises with a message that holds all words of `message` in order, and leaves `out` as it was."""
    if out is not None:
        kwargs["out"] = out.array
    with pytest.raises(exception, match=".*".join(re.escape(word) for word in message.split())):
        call(*args, **kwargs)
    assert out is None or out.is_untouched()


# Data types.


@pytest.mark.parametrize("function", [*SCANS, *STANDARD, lambda a: segmented_cumsum(a, [0, 2])])
@pytest.mark.parametrize("dtype", UNSUPPORTED)
def test_scan_of_unsupported_dtype(function, dtype):
    refuses(TypeError, "is of dtype not supported", function, np.zeros(2, dtype))


@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("dtype", UNSUPPORTED)
def test_scan_in_unsupported_dtype(xp, function, dtype):
    refuses(TypeError, "dtype is of dtype not supported", function, ones(xp, 2), dtype=dtype, out=float_out(xp, 2))
    with pytest.raises(TypeError):
        function(ones(xp, 2), dtype="no such type")


def float_out(xp, *shape):
    return Poisoned(xp, shape, np.float32)


def test_out_of_unsupported_dtype():
    for call in (
        lambda out: cumsum(np.ones(2), out=out),
        lambda out: segmented_cumsum(np.ones(2), [0, 2], out=out),
        lambda out: mean_variance_normalization(np.ones(2), axes=0, out=out),
        lambda out: fmod(np.ones(2), 2, out=out),
    ):
        refuses(TypeError, "out is of dtype object", call, np.zeros(2, object))


def test_normalization_into_integers(xp):
    out = Poisoned(xp, (2,), np.int32)
    refuses(TypeError, "out is of dtype int32", mean_variance_normalization, ones(xp, 2), axes=0, out=out)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_has_no_order(xp, dtype):
    x = ones(xp, 3, dtype=dtype)
    refuses(TypeError, "x is of dtype complex", mean_var, x)
    refuses(TypeError, "x is of dtype complex", mean_variance_normalization, x, axes=0)
    refuses(TypeError, "x1 is of dtype complex", fmod, x, 2)
    refuses(TypeError, "x2 is of dtype complex", fmod, ones(xp, 3), x)
    refuses(TypeError, "scale is of dtype complex", mean_variance_normalization, ones(xp, 3), x, axes=0)


@pytest.mark.parametrize("dtype", UNSUPPORTED)
def test_normalization_and_modulus_of_unsupported_dtype(dtype):
    bad = np.zeros(2, dtype)
    refuses(TypeError, "x is of dtype", mean_var, bad)
    refuses(TypeError, "x is of dtype", mean_variance_normalization, bad, axes=0)
    refuses(TypeError, "scale is of dtype", mean_variance_normalization, np.ones(2), bad, axes=0)
    refuses(TypeError, "x1 is of dtype", fmod, bad, np.ones(2))
    refuses(TypeError, "x2 is of dtype", fmod, np.ones(2), bad)
    refuses(TypeError, "dtype is of dtype", fmod, np.ones(2), 2, dtype=dtype)


def test_scale_of_integers(xp):
    out = float_out(xp, 3)
    refuses(
        TypeError,
        "scale is of dtype int64",
        mean_variance_normalization,
        ones(xp, 3),
        ones(xp, 3, dtype=np.int64),
        axes=0,
        out=out,
    )


def test_modulus_casting(xp):
    out = Poisoned(xp, (3,), np.int32)
    refuses(TypeError, "out is of dtype int32 results of float32", fmod, ones(xp, 3), 2, out=out)
    refuses(TypeError, "x1 of dtype float32 cannot become int32", fmod, ones(xp, 3), 2, dtype=np.int32, out=out)
    refuses(
        TypeError, "x2 of dtype float64 cannot become int32", fmod, ones(xp, 3, dtype=np.int32), 2.5, dtype=np.int32
    )
    refuses(TypeError, "dtype is of dtype bool", fmod, ones(xp, 3, dtype=bool), True, dtype=bool)
    refuses(TypeError, "dtype is of dtype complex64", fmod, ones(xp, 3), 2, dtype=np.complex64)


# Axes.


@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("axis", [2, -3, 100])
def test_scan_axis_out_of_bounds(xp, function, axis):
    refuses(
        AxisError, f"axis {axis} is out of bounds dimension 2", function, ones(xp, 2, 3), axis, out=float_out(xp, 2, 3)
    )
    with pytest.raises(AxisError):
        function(ones(xp), 1)


@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("axis", [1.0, "0", (0,), True, np.True_, [0]])
def test_scan_axis_that_is_no_integer(xp, function, axis):
    refuses(TypeError, "axis is must be an integer", function, ones(xp, 2, 3), axis, out=float_out(xp, 2, 3))


def test_axes_of_normalization(xp):
    x, out = ones(xp, 2, 3), float_out(xp, 2, 3)
    normalize = mean_variance_normalization
    refuses(AxisError, "axes: axis 2 is out of bounds", normalize, x, axes=2, out=out)
    refuses(AxisError, "axes: axis -3 is out of bounds", normalize, x, axes=(0, -3), out=out)
    refuses(ValueError, "axes is (0, 1, 0): axis 0 is named twice", normalize, x, axes=(0, 1, 0), out=out)
    refuses(ValueError, "axis 1 is named twice", normalize, x, axes=(1, -1), out=out)
    refuses(TypeError, "axes is 0.5 must be an integer", normalize, x, axes=0.5, out=out)
    refuses(TypeError, "axes is True", normalize, x, axes=True, out=out)
    refuses(TypeError, "axes is None", normalize, x, axes=None, out=out)
    refuses(TypeError, "axes is '01'", normalize, x, axes="01", out=out)
    refuses(AxisError, "axis 5 is out of bounds", mean_var, x, 5)
    refuses(ValueError, "named twice", mean_var, x, (0, -2))
    refuses(TypeError, "axis is 'x'", mean_var, x, "x")
    for axes in (b"\1", bytearray(b"\1"), {1}, {1: 1}, 1.0, [[1]]):
        refuses(TypeError, "axes is must be an integer", normalize, x, axes=axes, out=out)
    assert xp.to_numpy(normalize(x, axes=np.array(1))).shape == (2, 3)


class OnlyDlpack:
    """An array of a library that offers nothing else."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


@pytest.mark.parametrize("function", STANDARD)
def test_standard_functions_ask_for_the_axis(xp, function):
    refuses(ValueError, "axis is None and x has 2 dimensions", function, ones(xp, 2, 3))
    refuses(ValueError, "axis is None and x has 2 dimensions", function, OnlyDlpack(np.ones((2, 3))))
    refuses(ValueError, "include_initial and exclusive", function, ones(xp, 2), include_initial=True, exclusive=True)


# Outputs: shape, writeability, kind.


def writers(xp, shape, dtype=np.float32):
    """Every function that takes `out`, ready to be called with one for an input of `shape`."""
    x = ones(xp, *shape, dtype=dtype)
    yield lambda out: cumsum(x, 0, out=out)
    yield lambda out: cumulative_prod(x, axis=0, out=out)
    yield lambda out: mean_variance_normalization(x, axes=0, out=out)
    yield lambda out: batch_norm(x, out=out)
    yield lambda out: group_norm(x, 1, out=out)
    yield lambda out: layer_norm(x, shape[-1], out=out)
    yield lambda out: fmod(x, 2, out=out)
    yield lambda out: segmented_cumsum(x.reshape(-1), [0, x.size], out=out)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (4, 4, 1), (2, 2), ()])
def test_out_of_wrong_shape(xp, shape):
    for write in writers(xp, (4, 4)):
        refuses(ValueError, "out has shape", write, out=float_out(xp, *shape))


def test_out_of_wrong_shape_for_special_cases(xp):
    refuses(ValueError, "out has shape (2, 3) (6,)", cumsum, ones(xp, 2, 3), out=float_out(xp, 2, 3))
    refuses(ValueError, "out has shape () (1,)", cumsum, ones(xp), out=float_out(xp))
    initial = {"axis": 0, "include_initial": True}
    refuses(
        ValueError, "out has shape (2, 3) (3, 3)", cumulative_sum, ones(xp, 2, 3), out=float_out(xp, 2, 3), **initial
    )


def test_out_that_is_no_array(xp):
    for write in writers(xp, (4, 4)):
        for out in ([1.0], 3.0, np.float32(3), "out"):
            with pytest.raises(TypeError, match="out is"):
                write(out)


def test_out_that_cannot_be_written():
    out = np.zeros(3)
    out.flags.writeable = False
    refuses(ValueError, "out is read-only", cumsum, np.ones(3), None, None, out)
    refuses(ValueError, "out is read-only", fmod, np.ones(3), 2, out)
    with pytest.raises(ValueError, match="read-only"):
        mean_variance_normalization(np.ones(3), axes=0, out=out)
    assert not out.any()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3)])
def test_out_without_elements(xp, shape):
    """All strides of such an array of NumPy's are 0."""
    x, out = ones(xp, *shape), xp.asarray(np.empty(shape, np.float32))
    for write in (cumsum, lambda x, axis, out: mean_variance_normalization(x, axes=axis, out=out)):
        assert write(x, 0, out=out) is out
    assert fmod(x, 2, out=out) is out
    assert batch_norm(x, out=out) is out


def test_out_whose_elements_share_memory(xp):
    base = Poisoned(xp, (1, 4), np.float32)
    stretched = xp.broadcast_to(base.array, (4, 4))
    for write in [*writers(xp, (4, 4))][:-1]:
        with pytest.raises(ValueError, match=r"read-only|elements share memory"):
            write(stretched)
    assert base.is_untouched()


# Overlap.


OVERLAPS = {
    "shifted": lambda x: (x[:-1], x[1:]),
    "shifted back": lambda x: (x[1:], x[:-1]),
    "mirrored": lambda x: (x, x[::-1]),
    "other stride": lambda x: (x[:500], x[:1000:2]),
    "one element": lambda x: (x[:500], x[499:999]),
    "other dtype": lambda x: (x[:500], x.view(np.float64)[:500]),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_partial_overlap_is_refused(xp, name):
    values = np.random.default_rng(1).standard_normal(1001)
    values = np.concatenate([values, values]).astype(np.float32)
    buffer = xp.asarray(values)
    source, out = OVERLAPS[name](buffer)
    for call in (
        lambda: cumsum(source, out=out),
        lambda: cumprod(source, 0, reverse=True, out=out),
        lambda: cumulative_sum(source, out=out),
        lambda: segmented_cumsum(source, [0, len(source)], out=out),
        lambda: mean_variance_normalization(source, axes=0, out=out),
    ):
        refuses(ValueError, "out overlaps in memory", call)
    np.testing.assert_array_equal(xp.to_numpy(buffer), values)


def test_transposed_output_of_the_same_memory_is_refused(xp):
    values = np.arange(16, dtype=np.float32).reshape(4, 4)
    x = xp.asarray(values)
    for call in (lambda: cumsum(x, 0, out=x.T), lambda: mean_variance_normalization(x, axes=0, out=x.T)):
        refuses(ValueError, "out overlaps", call)
    columns = x.T
    refuses(ValueError, "out overlaps", lambda: cumsum(columns, out=x.reshape(-1)))
    np.testing.assert_array_equal(xp.to_numpy(x), values)


def test_initial_value_leaves_no_room_in_place(xp):
    buffer = xp.asarray(np.arange(10, dtype=np.int64))
    with pytest.raises(ValueError, match="out overlaps x"):
        cumulative_sum(buffer[:9], out=buffer, include_initial=True)
    assert xp.to_numpy(buffer).tolist() == list(range(10))


def test_interleaved_views_do_not_overlap(xp):
    """Bounds intersect but no byte is shared: that is allowed, and right."""
    buffer = xp.asarray(np.arange(20, dtype=np.int64))
    cumsum(buffer[::2], out=buffer[1::2])
    assert xp.to_numpy(buffer)[1::2].tolist() == np.cumsum(np.arange(0, 20, 2)).tolist()
    assert xp.to_numpy(buffer)[::2].tolist() == list(range(0, 20, 2))


def test_offsets_scale_and_bias_must_lie_apart_from_out(xp):
    offsets = np.array([0, 2, 3], np.int64)
    shared = xp.asarray(offsets)
    refuses(
        ValueError, "out overlaps offsets", lambda: segmented_cumsum(ones(xp, 3, dtype=np.int64), shared, out=shared)
    )
    assert xp.to_numpy(shared).tolist() == [0, 2, 3]
    array = ones(xp, 4, 4)
    for call in (
        lambda: mean_variance_normalization(ones(xp, 4, 4), array, axes=0, out=array),
        lambda: mean_variance_normalization(ones(xp, 4, 4), None, array[0], axes=0, out=array),
        lambda: layer_norm(ones(xp, 4, 4), 4, array[1], out=array),
    ):
        refuses(ValueError, "out overlaps", call)
    assert (xp.to_numpy(array) == 1).all()


# Mixed backends and devices.


class Elsewhere:
    """An array of another backend."""

    shape, ndim, size, dtype = (3,), 1, 3, np.dtype(np.float32)
    __array_interface__ = None


@pytest.fixture
def elsewhere(monkeypatch):
    monkeypatch.setitem(backends._BACKENDS, Elsewhere, SimpleNamespace(name="other"))
    return Elsewhere()


def test_mixed_host_and_device_arrays(elsewhere):
    host = np.ones(3, np.float32)
    for call, first, second in (
        (lambda: cumsum(host, out=elsewhere), "a is an array of the cpu", "out one of the other"),
        (lambda: cumulative_sum(elsewhere, out=host), "x is an array of the other", "out one of the cpu"),
        (lambda: segmented_cumsum(host, elsewhere), "a is an array of the cpu", "offsets one of the other"),
        (lambda: mean_variance_normalization(host, elsewhere, axes=0), "x is an array of the cpu", "scale one of"),
        (lambda: mean_variance_normalization(host, None, elsewhere, axes=0), "x is an array of the cpu", "bias one of"),
        (lambda: layer_norm(host, 3, elsewhere), "x is an array of the cpu", "weight one of"),
        (lambda: fmod(host, elsewhere), "x1 is an array of the cpu", "x2 one of"),
        (lambda: fmod(host, 2, out=elsewhere), "x1 is an array of the cpu", "out one of"),
    ):
        refuses(TypeError, f"{first} {second}", call)


def test_arrays_of_two_devices():
    """Arrays say by `device` where they are; no two devices are needed to see that they are compared."""

    class OnSecondDevice(np.ndarray):
        device = "second"

    from cudml.memory import check_same_device

    elsewhere = np.ones(3).view(OnSecondDevice)
    with pytest.raises(ValueError, match="x is on device cpu and out on second"):
        check_same_device(elsewhere, x=np.ones(3))


# Offsets.


@pytest.mark.parametrize(
    ("offsets", "exception", "message"),
    [
        ([], ValueError, "offsets is empty"),
        ([1, 5], ValueError, "offsets[0] is 1; must start at 0"),
        ([0, 4], ValueError, "offsets[1] is 4; length of a, 5"),
        ([0, 3, 2, 5], ValueError, "offsets[2] is 2, less than the 3 before"),
        ([0, 6, 5], ValueError, "offsets[1] is 6, past the end of a, which has 5"),
        ([0, 5, 6], ValueError, "offsets[2] is 6, past the end"),
        ([0, -1, 5], ValueError, "offsets[1] is -1, less than the 0 before"),
        ([0, 3, 2, 9], ValueError, "offsets[2] is 2, less than"),
        ([[0, 5]], ValueError, "offsets has 2 dimensions"),
        ([0.0, 5.0], TypeError, "offsets is of dtype float64; must be of an integer dtype"),
        ([False, True], TypeError, "offsets is of dtype bool"),
    ],
)
@pytest.mark.parametrize("function", SEGMENTED)
def test_bad_offsets(xp, function, offsets, exception, message):
    a = ones(xp, 5)
    for given in (offsets, np.asarray(offsets), xp.asarray(np.asarray(offsets))):
        refuses(exception, message, function, a, given, out=float_out(xp, 5))


def test_segments_of_more_dimensions(xp):
    refuses(ValueError, "a has 2 dimensions", segmented_cumsum, ones(xp, 2, 3), [0, 6], out=float_out(xp, 2, 3))


class DeviceOffsets:
    """Stands for an array on a device: counts how often it is read back."""

    def __init__(self, values, readable=True):
        self.host, self.reads, self.readable = np.asarray(values), 0, readable
        self.ndim, self.shape, self.dtype = self.host.ndim, self.host.shape, self.host.dtype


class DeviceBackend:
    name = "device"

    def asarray(self, value, like=None):
        return value

    def to_host(self, array):
        if not array.readable:
            return None
        array.reads += 1
        return array.host


@pytest.fixture
def checked(monkeypatch):
    memory = CheckedOffsets()
    monkeypatch.setattr(offsets_module, "_CHECKED", memory)
    return memory


def test_device_offsets_are_read_back_once(checked):
    offsets = DeviceOffsets([0, 2, 5])
    for _ in range(3):
        assert as_offsets(DeviceBackend(), offsets, np.empty(5)) is offsets
    assert offsets.reads == 1
    with pytest.raises(ValueError, match=re.escape("length of a, 6")):
        as_offsets(DeviceBackend(), offsets, np.empty(6))
    assert offsets.reads == 2


@pytest.mark.parametrize("make", [lambda n: array("q", n), lambda n: memoryview(array("q", n))], ids=["array", "view"])
def test_host_offsets_are_checked_every_time(make):
    a, offsets = np.arange(6.0), make([0, 2, 6])
    assert segmented_cumsum(a, offsets).tolist() == [0, 1, 2, 5, 9, 14]
    for place, wrong in ((1, -3), (1, 9), (2, 4)):
        before, offsets[place] = offsets[place], wrong
        refuses(ValueError, "offsets", segmented_cumsum, a, offsets)
        offsets[place] = before


def test_device_offsets_are_forgotten_with_their_array(checked):
    offsets = DeviceOffsets([0, 2, 5])
    as_offsets(DeviceBackend(), offsets, np.empty(5))
    assert len(checked._lengths) == 1
    del offsets
    assert len(checked._lengths) == 0


def test_device_offsets_that_cannot_be_read_are_checked_later(checked):
    offsets = DeviceOffsets([0, 9, 5], readable=False)
    assert as_offsets(DeviceBackend(), offsets, np.empty(5)) is offsets
    offsets.readable = True
    with pytest.raises(ValueError, match="past the end"):
        as_offsets(DeviceBackend(), offsets, np.empty(5))


def test_bad_device_offsets_are_not_remembered(checked):
    offsets = DeviceOffsets([0, 9, 5])
    for _ in range(2):
        with pytest.raises(ValueError, match="past the end"):
            as_offsets(DeviceBackend(), offsets, np.empty(5))
    assert offsets.reads == 2


# Options of the normalizations.


@pytest.mark.parametrize("shape", [(2,), (3, 2), (1, 2, 3), (0,), (2, 1, 3)])
def test_scale_and_bias_that_do_not_broadcast(xp, shape):
    for name in ("scale", "bias"):
        refuses(
            ValueError,
            f"{name} has shape {shape} does not broadcast to x's shape (2, 3)",
            mean_variance_normalization,
            ones(xp, 2, 3),
            axes=1,
            out=float_out(xp, 2, 3),
            **{name: ones(xp, *shape)},
        )


@pytest.mark.parametrize(
    ("epsilon", "exception", "message"),
    [
        (-1e-5, ValueError, "-1e-05 must not be negative"),
        (float("-inf"), ValueError, "-inf must not be negative"),
        (float("nan"), ValueError, "is NaN"),
        ("1e-5", TypeError, "is '1e-5'; must be a real number"),
        (None, TypeError, "is None"),
        (1j, TypeError, "is 1j"),
        (True, TypeError, "is True"),
    ],
)
def test_bad_epsilon(xp, epsilon, exception, message):
    normalize = mean_variance_normalization
    refuses(exception, message, normalize, ones(xp, 3), axes=0, epsilon=epsilon, out=float_out(xp, 3))
    refuses(exception, message, layer_norm, ones(xp, 3), 3, eps=epsilon, out=float_out(xp, 3))


def test_integers_that_no_float_holds(xp):
    assert (as_real(10**400, "epsilon"), as_real(-(10**400), "epsilon")) == (np.inf, -np.inf)
    normalize, x = mean_variance_normalization, xp.asarray(np.float32([1, 2, 4]))
    assert_same_bits(xp.to_numpy(normalize(x, 10**20, axes=0)), xp.to_numpy(normalize(x, 1e20, axes=0)))
    refuses(OverflowError, "x2 is an integer of 1329 bits", fmod, x, 10**400, out=float_out(xp, 3))
    refuses(OverflowError, "x1 is 300 int8", fmod, 300, ones(xp, 3, dtype=np.int8))


@pytest.mark.parametrize(
    ("values", "exception", "message"),
    [
        ([None, 1, 2], TypeError, "is of dtype object"),
        (["1.5", 1, 2], TypeError, "is of dtype"),
        ([b"1"] * 3, TypeError, "is of dtype"),
        ([np.datetime64("2000")] * 3, TypeError, "is of dtype datetime64"),
        ([1j, 1, 2], TypeError, "is of dtype complex128"),
        ([np.longdouble(1)] * 3, TypeError, "is of dtype"),
        ([10**400, 1, 2], TypeError, "is of dtype object"),
        ([[1], [1, 2], [3]], ValueError, "differ in length"),
    ],
)
def test_lists_of_no_numbers(xp, values, exception, message):
    x, out = ones(xp, 2, 3), float_out(xp, 2, 3)
    refuses(exception, f"scale {message}", mean_variance_normalization, x, values, axes=1, out=out)
    refuses(exception, f"bias {message}", layer_norm, x, 3, None, values, out=out)


@pytest.mark.parametrize("function", [cumsum, mean_var, layer_norm, fmod])
def test_masks_are_not_dropped(function):
    masked = np.ma.masked_greater(np.ones((3, 3)), 0)
    more = {layer_norm: (3,), fmod: (2.0,)}.get(function, ())
    with pytest.raises(TypeError, match=r"is a masked array, .* fill it with a number first"):
        function(masked, *more)
    with pytest.raises(TypeError, match="out is a masked array"):
        cumsum(np.ones((3, 3)), 0, out=masked)
    assert function(masked.filled(0.0), *more) is not None


def test_messages_are_brief():
    many = list(range(100_000))
    for call in (
        lambda: cumsum(np.ones(3), many),
        lambda: mean_var(np.ones(3), (0, *many, 0.5)),
        lambda: mean_variance_normalization(np.ones(100_000), axes=[0, 0, *many]),
        lambda: mean_variance_normalization(np.ones(3), axes=0, activation=many),
        lambda: mean_variance_normalization(np.ones(3), [*many, [1]], axes=0),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert len(str(caught.value)) < 500


def test_no_warning_comes_from_numbers(xp):
    signalling = np.array([0x7FA00000], np.uint32).view(np.float32)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        fmod(ones(xp, 3, dtype=np.float64), signalling[0])
        fmod(ones(xp, 3, dtype=np.float16), np.float64(1e-300), dtype=np.float16)
        mean_variance_normalization(ones(xp, 1, 1), list(signalling), axes=1)


@pytest.mark.parametrize(("correction", "exception"), [("1", TypeError), (None, TypeError), (float("nan"), ValueError)])
def test_bad_correction(xp, correction, exception):
    refuses(exception, "correction is", mean_var, ones(xp, 3), correction=correction)


@pytest.mark.parametrize(
    ("activation", "exception", "message"),
    [
        ("swish", ValueError, "activation is 'swish'; celu elu gelu thresholded_relu"),
        ("", ValueError, "activation is ''"),
        (3, TypeError, "activation is 3; celu elu"),
        (np.tanh, TypeError, "activation is"),
        (Activation("swish"), ValueError, "swish"),
        (Activation("elu"), ValueError, "elu has parameters (); it takes alpha"),
        (Activation("relu", (1.0,)), ValueError, "relu has parameters (1.0,); it takes none"),
    ],
    ids=str,
)
def test_bad_activation(xp, activation, exception, message):
    normalize = mean_variance_normalization
    refuses(exception, message, normalize, ones(xp, 3), axes=0, activation=activation, out=float_out(xp, 3))


def test_parameters_of_activations_are_real_numbers(xp):
    for value, exception in (("1", TypeError), (1j, TypeError), (None, TypeError), (float("nan"), ValueError)):
        message, activation = "a parameter of activation elu is", Activation("elu", (value,))
        refuses(exception, message, layer_norm, ones(xp, 3), 3, activation=activation, out=float_out(xp, 3))


def test_activation_of_a_desc(xp):
    desc = SimpleNamespace(activation=Activation("linear", (0.0, 4.0)))
    result = mean_variance_normalization(ones(xp, 3), axes=0, activation=desc)
    assert xp.to_numpy(result).tolist() == [4, 4, 4]


def test_shapes_of_the_wrappers(xp):
    x, out = ones(xp, 2, 6, 5), float_out(xp, 2, 6, 5)
    for shape in (6, (6, 4), (5, 6), (1, 2, 6, 5), ()):
        refuses(ValueError, "normalized_shape is", layer_norm, x, shape, out=out)
    for shape in ((5.0,), 5.0, {5}, b"\5", None):
        refuses(TypeError, "normalized_shape is must be an integer", layer_norm, x, shape, out=out)
    refuses(ValueError, "weight has shape (6,); must have shape (5,)", layer_norm, x, 5, ones(xp, 6), out=out)
    refuses(ValueError, "bias has shape (1,); must have shape (5,)", layer_norm, x, 5, None, ones(xp, 1), out=out)
    for groups in (0, -1, 4, 12):
        refuses(ValueError, f"num_groups is {groups}; divide the 6 channels", group_norm, x, groups, out=out)
    refuses(TypeError, "num_groups is 2.0", group_norm, x, 2.0, out=out)
    for norm in (instance_norm, batch_norm, lambda *a, **k: group_norm(a[0], 2, *a[1:], **k)):
        refuses(ValueError, "weight has shape (5,); must have shape (6,)", norm, x, ones(xp, 5), out=out)
        refuses(ValueError, "bias has shape (6, 1); must have shape (6,)", norm, x, None, ones(xp, 6, 1), out=out)
    refuses(ValueError, "x has shape (2, 6); 3 dimensions or more", instance_norm, ones(xp, 2, 6))
    refuses(ValueError, "x has shape (6,); 2 dimensions or more", batch_norm, ones(xp, 6))
    refuses(ValueError, "x has shape (6,); 2 dimensions or more", group_norm, ones(xp, 6), 1)


def test_modulus_shapes(xp):
    refuses(ValueError, "x1 has shape (3,) and x2 (4,)", fmod, ones(xp, 3), ones(xp, 4), out=float_out(xp, 3))
    refuses(
        ValueError, "out has shape (3,) broadcast to (2, 3)", fmod, ones(xp, 2, 3), ones(xp, 3), out=float_out(xp, 3)
    )


# Memory layouts, against NumPy's own knowledge of them.


def test_layouts_agree_with_numpy():
    rng = np.random.default_rng(2)
    base = np.zeros(240, np.int16)

    def view():
        x = base[rng.integers(0, 60) :][:120].reshape(rng.choice([2, 4, 5]), 3, -1)
        steps = [slice(int(rng.integers(0, 2)), None, int(rng.choice([-2, -1, 1, 2]))) for _ in range(3)]
        return x[tuple(steps)].transpose(rng.permutation(3))

    answers = set()
    for _ in range(2000):
        first, second = view(), view()
        shared = np.shares_memory(first, second)
        assert Layout.of(first).overlaps(Layout.of(second)) == shared
        low, high = np.lib.array_utils.byte_bounds(first)
        assert Layout.of(first).bounds == (low, high) or not first.size
        assert Layout.of(first).is_c_contiguous == first.flags.c_contiguous or not first.size
        assert not Layout.of(first).may_repeat_elements
        answers.add(shared)
    assert answers == {True, False}
