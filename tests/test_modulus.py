"""The truncated modulus: exact values over whole types, special values, promotion, broadcasting, layouts, overlap."""

from __future__ import annotations

import math
import warnings
from itertools import product

import numpy as np
import pytest
from layouts import PATTERNS, Host, Poisoned, place
from reference import BFLOAT16, BOOL, FLOATS, INTEGERS, assert_same_bits, random

from cudml.modulus import fmod
from cudml.plan.modulus import packs

FMOD_DTYPES = [*INTEGERS, *FLOATS]
all_patterns = pytest.mark.parametrize("pattern", PATTERNS)


@pytest.fixture(autouse=True)
def no_array_is_small(request):
    """Small arrays go another way than large ones, which nearly all tests are about."""
    if "xp" not in request.fixturenames:
        yield
        return
    with request.getfixturevalue("xp").planned_for(threads_per_multiprocessor=0):
        yield


def truncated(dividend: int, divisor: int) -> int:
    """The remainder in Python integers, 0 for a zero divisor."""
    return 0 if divisor == 0 else int(math.copysign(1, dividend)) * (abs(dividend) % abs(divisor))


def check(xp, x1, x2):
    """Operands of one dtype into a poisoned output, bit for bit what Python computes, any NaN for NaN."""
    out = Poisoned(xp, np.broadcast_shapes(x1.shape, x2.shape), x1.dtype)
    assert fmod(xp.asarray(x1), xp.asarray(x2), out=out.array) is out.array
    pairs = np.broadcast(x1, x2)
    if x1.dtype.kind in "iu":
        expected = np.array([truncated(int(a), int(b)) for a, b in pairs], object).astype(x1.dtype)
    else:
        with np.errstate(invalid="ignore"):  # signalling NaNs among random bits
            expected = np.array([float_modulus(float(a), float(b)) for a, b in pairs]).astype(x1.dtype)
    got = out.read().reshape(-1)
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), nan)
    assert_same_bits(got[~nan], expected[~nan])


def float_modulus(dividend: float, divisor: float) -> float:
    """C's fmod, which Python has except that it raises where C returns NaN."""
    if divisor == 0 or math.isinf(dividend):
        return math.nan
    return math.fmod(dividend, divisor)


# Values.


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_all_pairs_of_8_bits(xp, dtype):
    everything = np.arange(256).astype(np.uint8).view(dtype)
    check(xp, everything[:, None], everything[None, :])


def interesting_floats(dtype):
    """Zeros, subnormals, powers, neighbours, infinities and NaN of both signs."""
    dtype = np.dtype(dtype)
    integer = np.dtype(f"u{dtype.itemsize}")
    exponent_bits = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}[dtype.name]
    fraction_bits = dtype.itemsize * 8 - 1 - exponent_bits
    exponents = np.unique(np.linspace(0, 2**exponent_bits - 1, 12).astype(np.uint64))
    fractions = [0, 1, 2, 2 ** (fraction_bits - 1), 2**fraction_bits - 1]
    patterns = [(int(e) << fraction_bits) | f for e in exponents for f in fractions]
    patterns += [p | 1 << (dtype.itemsize * 8 - 1) for p in patterns]
    return np.array(patterns, np.uint64).astype(integer).view(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_special_floats_against_each_other(xp, dtype):
    values = interesting_floats(dtype)
    check(xp, values[:, None], values[None, :])


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.itemsize == 2], ids=str)
def test_halves_densely(xp, dtype):
    """Every value as the dividend and as the divisor of many others."""
    everything = np.arange(2**16, dtype=np.uint16)
    partners = np.random.default_rng(1).permutation(everything)
    check(xp, everything.view(dtype), partners.view(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_bit_patterns(xp, dtype):
    rng = np.random.default_rng(2)
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    check(xp, random(rng, 50_000, unsigned).view(dtype), random(rng, 50_000, unsigned).view(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_quotients(xp, dtype):
    """Here a - b * trunc(a / b) is wrong: the quotient does not fit the type."""
    rng = np.random.default_rng(3)
    large = (rng.standard_normal(5000) * 10.0 ** rng.uniform(5, 37, 5000)).astype(dtype)
    check(xp, large, (rng.standard_normal(5000) * 10.0 ** rng.uniform(-37, 2, 5000)).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_subnormals_are_kept(xp, dtype):
    info = np.finfo(dtype)
    steps = np.random.default_rng(4).integers(-40, 41, (2, 2000))
    values = (steps * np.longdouble(info.smallest_subnormal)).astype(dtype)
    check(xp, values[0], values[1])
    check(xp, np.full(2000, 1.75, dtype), values[1])


def test_published_float_and_integer_examples(xp):
    x1, x2 = np.array([-4.3, 7.2, 5, 4.3, -7.2, 8]), np.array([2.1, -3.4, 8, -2.1, 3.4, 5])
    expected = [-0.1, 0.4, 5, 0.1, -0.4, 3]
    for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-14)):
        got = fmod(xp.asarray(x1.astype(dtype)), xp.asarray(x2.astype(dtype)))
        np.testing.assert_allclose(xp.to_numpy(got), expected, atol=tolerance)
    half = fmod(xp.asarray(x1.astype(np.float16)), xp.asarray(x2.astype(np.float16)))
    assert xp.to_numpy(half).tolist() == [-0.1015625, 0.3984375, 5, 0.1015625, -0.3984375, 3]
    integers = fmod(xp.asarray(np.array([-4, 7, 5, 4, -7, 8])), xp.asarray(np.array([2, -3, 8, -2, 3, 5])))
    assert xp.to_numpy(integers).tolist() == [0, 1, 5, 0, -1, 3]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_over_the_full_range(xp, dtype):
    """Double precision holds none of the differences that matter here for 64 bits."""
    rng, info = np.random.default_rng(5), np.iinfo(dtype)
    edges = np.array([info.min, info.min + 1, info.min + 2, info.max, info.max - 1, info.max // 2, 0, 1, 2, 3], dtype)
    signed = np.concatenate([edges, (0 - edges[:9]).astype(dtype), np.array([-1 if info.min else 1], dtype)])
    check(xp, signed[:, None], signed[None, :])
    shifts = rng.integers(0, 8 * np.dtype(dtype).itemsize, 20_000).astype(dtype)
    check(xp, random(rng, 20_000, dtype), random(rng, 20_000, dtype) >> shifts)


OLD_GPU = (7, 5)  # without fast arithmetic in double, by which quotients are found otherwise

new_and_old_gpu = pytest.mark.parametrize("capability", [(9, 0), OLD_GPU], ids=str)


@new_and_old_gpu
@pytest.mark.parametrize("dtype", [d for d in INTEGERS if np.dtype(d).itemsize > 1], ids=str)
def test_near_multiples_of_divisors_of_all_sizes(xp, dtype, capability):
    """Where a quotient that is one off shows."""
    rng, n, bits = np.random.default_rng(12), 30_000, 8 * np.dtype(dtype).itemsize
    unsigned = np.dtype(f"u{bits // 8}")
    y, x = (random(rng, n, unsigned) >> rng.integers(0, bits, n).astype(unsigned) for _ in range(2))
    x = np.where(rng.random(n) < 0.8, x // np.maximum(y, 1) * y + rng.integers(-2, 3, n).astype(unsigned), x)
    pairs = zip(rng.random((2, n)) < (0.5 if np.dtype(dtype).kind == "i" else 0), (x, y), strict=True)
    x1, x2 = (np.where(negative, 0 - magnitude, magnitude).view(dtype) for negative, magnitude in pairs)
    with xp.planned_for(compute_capability=capability):
        check(xp, x1, x2)


def near_multiples(rng, n, dtype):
    """Divisors of any bits, and dividends within two steps of a multiple of theirs up to 2^30 times as large."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    y = random(rng, n, unsigned).view(dtype)
    with np.errstate(all="ignore"):
        multiple = (y.astype(np.float64) * np.floor(2.0 ** rng.uniform(0, 30, n))).astype(dtype)
    return (multiple.view(unsigned) + rng.integers(-2, 3, n).astype(unsigned)).view(dtype), y


@new_and_old_gpu
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_near_multiples(xp, dtype, capability):
    with xp.planned_for(compute_capability=capability):
        check(xp, *near_multiples(np.random.default_rng(13), 30_000, np.dtype(dtype)))


@new_and_old_gpu
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_of_all_exponents(xp, dtype, capability):
    """Subnormals too, and ratios that take the long division its most steps."""
    dtype = np.dtype(dtype)
    rng, unsigned = np.random.default_rng(14), np.dtype(f"u{dtype.itemsize}")
    x1, x2 = random(rng, (2, 30_000), unsigned).view(dtype)
    x1[::5] = np.finfo(np.float32).max if dtype.itemsize == 4 else x1[::5]
    x2[::7] = (x2.view(unsigned)[::7] % 1000).astype(unsigned).view(dtype)
    with xp.planned_for(compute_capability=capability):
        check(xp, x1, x2)


@pytest.mark.backend("cuda")
@pytest.mark.xdist_group("gpu")
def test_all_pairs_of_halves(xp):
    """Halves are integers times 2^-24, and integers of 64 bits hold them: another algorithm altogether."""
    import cupy

    def steps(bits):
        exponent, fraction = (bits >> 10 & 31).astype(cupy.int64), (bits & 1023).astype(cupy.int64)
        return cupy.where(exponent == 0, fraction, (fraction + 1024) << cupy.maximum(exponent - 1, 0))

    y = cupy.arange(1, 0x7C00, dtype=cupy.uint16)
    for first in range(0, 0x7C00, 1024):
        x = cupy.arange(first, first + 1024, dtype=cupy.uint16)[:, None]
        expected = steps(x) % steps(y)
        got = fmod(x.view(cupy.float16), y.view(cupy.float16)).view(cupy.uint16)
        assert (steps(got) == expected).all()
        signed = fmod((x | 0x8000).view(cupy.float16), (y | 0x8000).view(cupy.float16)).view(cupy.uint16)
        assert (signed == got | 0x8000).all()


def test_nothing_warns(xp):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fmod(xp.asarray(np.array([1, -128], np.int8)), xp.asarray(np.array([0, -1], np.int8)))
        fmod(xp.asarray(np.array([1, np.inf, np.nan], np.float32)), xp.asarray(np.array([0, 2, 1], np.float32)))


# Types and scalars.


@pytest.mark.parametrize("first", [BOOL, *FMOD_DTYPES], ids=str)
@pytest.mark.parametrize("second", [BOOL, *FMOD_DTYPES], ids=str)
def test_promotion_is_numpys(xp, first, second):
    x1, x2 = np.array([1, 1, 0, 1, 1]).astype(first), np.array([1, 1, 1, 1, 1]).astype(second)
    expected = np.fmod(x1, x2)
    result = fmod(xp.asarray(x1), xp.asarray(x2))
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(xp.to_numpy(result), expected)


@pytest.mark.parametrize("dtype", FMOD_DTYPES, ids=str)
@pytest.mark.parametrize("number", [3, 2.5, True, np.int16(3), np.float32(2.5)], ids=repr)
def test_scalars_on_either_side(xp, dtype, number):
    values = np.arange(1, 12).astype(dtype)
    for left in (False, True):
        operands = (number, values) if left else (values, number)
        expected = np.fmod(*operands)
        if values.dtype in BFLOAT16 and type(number) is float:
            expected = np.fmod(*(np.asarray(operand, dtype) for operand in operands))
        result = fmod(*(operand if operand is number else xp.asarray(operand) for operand in operands))
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(xp.to_numpy(result), expected)


def test_two_numbers():
    assert fmod(7, -3) == 1
    assert fmod(-7.5, 2) == -1.5
    assert fmod(np.int8(-7), 3).dtype == np.int8


def test_lists_and_numbers_are_arrays():
    assert fmod([-7, 7, 8], [3, -3, 5]).tolist() == [-1, 1, 3]


def test_integers_outside_the_dtype_overflow_as_in_numpy(xp):
    for number in (300, -129):
        with pytest.raises(OverflowError):
            fmod(xp.asarray(np.arange(3, dtype=np.int8)), number)
    assert xp.to_numpy(fmod(xp.asarray(np.ones(1, np.float16)), 1e6)).tolist() == [1.0]


def test_dtype_chooses_the_computation(xp):
    """16777217 is no float32: computed there, the remainder is another."""
    x1 = xp.asarray(np.array([16777217], np.int32))
    result = fmod(x1, 2, dtype=np.float32)
    assert (result.dtype, xp.to_numpy(result).tolist()) == (np.float32, [0.0])
    assert xp.to_numpy(fmod(x1, 2)).tolist() == [1]
    assert fmod(xp.asarray(np.arange(3, dtype=np.uint8)), 2, dtype=np.int64).dtype == np.int64


@pytest.mark.parametrize("out_dtype", [np.float16, np.float32, np.float64])
def test_out_of_another_dtype(xp, out_dtype):
    out = Poisoned(xp, (3,), out_dtype)
    fmod(xp.asarray(np.array([5, -7, 8])), 3, out=out.array)
    assert out.read().tolist() == [2, -1, 2]


# Shapes and layouts.


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((), ()),
        ((), (5,)),
        ((3, 1), (1, 4)),
        ((2, 3, 4), (4,)),
        ((3, 1), (2, 1, 5)),
        ((0, 3), (1,)),
        ((5, 1, 3), (1, 0, 1)),
        ((1,) * 12, (2,) * 12),
        ((70_001, 3), (3,)),
        ((1000, 1), (1, 1003)),
    ],
    ids=str,
)
def test_broadcasting(xp, first, second):
    rng = np.random.default_rng(6)
    x1, x2 = random(rng, first, np.int32), random(rng, second, np.int32) | np.int32(1)
    result = fmod(xp.asarray(x1), xp.asarray(x2))
    assert_same_bits(xp.to_numpy(result), np.asarray(np.fmod(x1, x2)))


def test_as_many_dimensions_as_arrays_have(xp):
    shape = (1,) * 37 + (2, 3)
    x1 = np.arange(6, dtype=np.int32).reshape(shape)
    assert_same_bits(xp.to_numpy(fmod(xp.asarray(x1), xp.asarray(x1[..., :1, :] + 2))), np.fmod(x1, x1[..., :1, :] + 2))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float64])
def test_blocks_of_large_arrays(xp, dtype, monkeypatch):
    monkeypatch.setattr(packs, "LEAST_LARGE", 1)
    rng, unsigned = np.random.default_rng(16), np.dtype(f"u{np.dtype(dtype).itemsize}")
    check(xp, random(rng, 40_013, unsigned).view(dtype), random(rng, 40_013, unsigned).view(dtype))


def test_out_may_be_larger_than_the_operands(xp):
    out = Poisoned(xp, (4, 3), np.int64)
    fmod(xp.asarray(np.array([5, 6, 7])), 4, out=out.array)
    assert out.read().tolist() == [[1, 2, 3]] * 4


@all_patterns
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint64, np.float16])
def test_layouts(xp, pattern, dtype):
    rng = np.random.default_rng(7)
    x1, x2 = random(rng, (6, 35, 9), dtype), random(rng, (35, 9), dtype)
    with np.errstate(all="ignore"):
        expected = np.fmod(x1, x2)
    for first, second, written in ((pattern, "contiguous", "contiguous"), ("contiguous", pattern, pattern)):
        out = Poisoned(xp, x1.shape, dtype, written)
        fmod(place(xp, x1, first), place(xp, x2, second), out=out.array)
        np.testing.assert_array_equal(out.read(), expected)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("shape", [(131,), (37, 1), ()], ids=["row", "column", "number"])
@pytest.mark.parametrize("pattern", ["contiguous", "padded lines", "transposed", "every second"])
def test_divisors_that_repeat(xp, dtype, shape, pattern):
    rng, dtype = np.random.default_rng(15), np.dtype(dtype)
    x1 = random(rng, (37, 131), f"u{dtype.itemsize}").view(dtype)
    x2 = random(rng, shape, f"u{dtype.itemsize}").view(dtype)
    with np.errstate(all="ignore"):
        expected = np.fmod(*(x.astype(float) if dtype.itemsize < 4 and dtype in FLOATS else x for x in (x1, x2)))
    out = Poisoned(xp, x1.shape, dtype)
    fmod(place(xp, x1, pattern), xp.asarray(x2) if shape else x2[()], out=out.array)
    np.testing.assert_array_equal(out.read().astype(expected.dtype), expected)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.float16, np.int32, np.float64], ids=lambda dtype: dtype.__name__
)
@pytest.mark.parametrize("columns", [2, 3, 7, 15, 16, 17, 31])
@pytest.mark.parametrize("by", ["row", "column", "column of every second"])
def test_short_rows_of_a_run(xp, dtype, columns, by):
    """Packs that have elements of several rows, and a last one that is not whole."""
    rng = np.random.default_rng(81)
    x1 = random(rng, (211, columns), np.dtype(dtype))
    x2 = random(rng, (1, columns) if by == "row" else (211, 1), np.dtype(dtype))
    check(xp, x1, x2)
    divisor = place(xp, x2, "every second line") if by == "column of every second" else xp.asarray(x2)
    array = xp.asarray(x1)
    assert_same_bits(xp.to_numpy(fmod(array, divisor, out=array)), xp.to_numpy(fmod(xp.asarray(x1), xp.asarray(x2))))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("columns", [9, 33])
@pytest.mark.parametrize("by", ["row", "column"])
def test_several_packs_of_a_thread(xp, dtype, columns, by):
    """The last thread has fewer, and of its last pack a part."""
    rng, dtype, rows = np.random.default_rng(86), np.dtype(dtype), 1111
    x1, x2 = (
        random(rng, shape, f"u{dtype.itemsize}").view(dtype)
        for shape in ((rows, columns), (columns,) if by == "row" else (rows, 1))
    )
    with np.errstate(all="ignore"):
        expected = np.fmod(*(x.astype(float) if dtype.itemsize < 4 and dtype in FLOATS else x for x in (x1, x2)))
    out = Poisoned(xp, x1.shape, dtype)
    fmod(xp.asarray(x1), xp.asarray(x2), out=out.array)
    np.testing.assert_array_equal(out.read().astype(expected.dtype), expected)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint16, np.float16, np.float32, np.int64], ids=lambda dtype: dtype.__name__
)
@pytest.mark.parametrize("columns", [1, 5, 16, 33])
@pytest.mark.parametrize("first", ["contiguous", "padded lines", "backwards", "transposed", "row", "column", "number"])
def test_rows_that_lie_anywhere(xp, dtype, columns, first):
    """Next to divisors that lie anywhere, too, into a run of rows."""
    rng, shape = np.random.default_rng(87), (203, columns)
    shapes = {"row": shape[1:], "column": (shape[0], 1), "number": ()}

    def operand(pattern):
        values = rng.integers(1, 100, shapes.get(pattern, shape)).astype(dtype)
        if pattern == "number":
            return values, values[()]
        return values, place(xp, values, "contiguous" if pattern in shapes else pattern)

    x1, dividend = operand(first)
    for second in ("contiguous", "padded lines", "every second", "transposed", "row", "column"):
        x2, divisor = operand(second)
        out = Poisoned(xp, shape, dtype)
        fmod(dividend, divisor, out=out.array)
        np.testing.assert_array_equal(out.read(), np.broadcast_to(np.fmod(x1, x2), shape))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32])
def test_every_third_element(xp, dtype):
    rng = np.random.default_rng(88)
    x1, x2 = (rng.integers(1, 100, 3 * 5001).astype(dtype) for _ in range(2))
    for divisor, expected in ((xp.asarray(x2)[2::3], x2[2::3]), (xp.asarray(x2)[:5001], x2[:5001]), (7, 7)):
        out = Poisoned(xp, (5001,), np.dtype(dtype))
        fmod(xp.asarray(x1)[1::3], divisor, out=out.array)
        np.testing.assert_array_equal(out.read(), np.fmod(x1[1::3], expected).astype(dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.uint64])
@pytest.mark.parametrize("offsets", [(0, 1, 2), (3, 0, 3), (5, 7, 0), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("length", [1, 5, 100, 257])
def test_every_alignment_of_arrays_and_rows(xp, dtype, offsets, length):
    """Rows of an odd length begin at all alignments, each array at one of its own."""
    rng, n, dtype = np.random.default_rng(16), 7 * length, np.dtype(dtype)
    whole = [random(rng, n + 16, f"u{dtype.itemsize}").view(dtype) for _ in range(3)]
    parts = [slice(offset, offset + n) for offset in offsets]
    buffers = [xp.asarray(values) for values in whole]
    x1, x2, out = (buffer[part].reshape(7, length) for buffer, part in zip(buffers, parts, strict=True))
    given = [values[part].reshape(7, length) for values, part in zip(whole, parts, strict=True)]
    with np.errstate(all="ignore"):
        expected, by_row = np.fmod(given[0], given[1]), np.fmod(given[0], given[1][3])
    for divisor, result in ((x2, expected), (x2[3], by_row)):
        fmod(x1, divisor, out=out)
        np.testing.assert_array_equal(xp.to_numpy(out), result)
        rest = np.delete(xp.to_numpy(buffers[2]).view(f"u{dtype.itemsize}"), parts[2])
        assert (rest == np.delete(whole[2].view(rest.dtype), parts[2])).all()


@pytest.mark.parametrize(
    "shape", [(16, 16), (64, 65), (129, 257), (288, 272), (3, 40, 70), (300, 20), (19, 301)], ids=str
)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.int64])
@pytest.mark.parametrize("pattern", ["transposed", "transposed, backwards"])
@pytest.mark.parametrize("both", [False, True])
def test_transposed_operands(xp, shape, dtype, pattern, both):
    """Rows of the output begin at multiples of 16 bytes or anywhere, and a multiprocessor has few elements or many."""
    rng = np.random.default_rng(17)
    x1, x2 = random(rng, shape, dtype), random(rng, shape, dtype)
    with np.errstate(all="ignore"):
        expected = np.fmod(x1, x2)
    for first, second in ((pattern, pattern if both else "contiguous"), ("rolled axes", pattern)):
        for written, multiprocessors in product(("contiguous", "offset by an element"), (1, 132)):
            out = Poisoned(xp, shape, dtype, written)
            with xp.planned_for(multiprocessors=multiprocessors):
                fmod(place(xp, x1, first), place(xp, x2, second), out=out.array)
            np.testing.assert_array_equal(out.read(), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float16, np.float32], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", [(1,), (1500,), (6, 1000), (5, 333), (7, 130)], ids=str)
@pytest.mark.parametrize("pattern", ["contiguous", "backwards", "every second"])
def test_elements_that_run_backwards(xp, dtype, shape, pattern):
    """Whatever the address they end at, which rows of an odd length differ in."""
    rng = np.random.default_rng(85)
    x1, x2 = random(rng, shape, np.dtype(dtype)), random(rng, shape, np.dtype(dtype))
    with np.errstate(all="ignore"):
        expected = [
            np.fmod(*(x.astype(float) if dtype == np.float16 else x for x in pair)) for pair in ((x1, x2), (x2, x1))
        ]
    operands = place(xp, x1, "backwards"), place(xp, x2, pattern)
    for pair, result in zip((operands, operands[::-1]), expected, strict=True):
        out = Poisoned(xp, shape, dtype)
        fmod(*pair, out=out.array)
        np.testing.assert_array_equal(out.read(), result.astype(dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(272,), (300, 1), ()], ids=["row", "column", "number"])
@pytest.mark.parametrize("swapped", [False, True])
def test_transposed_operand_beside_one_that_repeats(xp, dtype, shape, swapped):
    rng = np.random.default_rng(21)
    x1, x2 = (rng.integers(1, 100, s).astype(dtype) for s in ((300, 272), shape))
    operands = [place(xp, x1, "transposed"), xp.asarray(x2) if shape else x2[()]]
    expected = np.fmod(*((x2, x1) if swapped else (x1, x2)))
    for multiprocessors in (1, 132):
        out = Poisoned(xp, x1.shape, dtype)
        with xp.planned_for(multiprocessors=multiprocessors):
            fmod(*(operands[::-1] if swapped else operands), out=out.array)
        np.testing.assert_array_equal(out.read(), expected)


@pytest.mark.parametrize("dtype", FMOD_DTYPES, ids=str)
@pytest.mark.parametrize("pattern", ["contiguous", "transposed", "offset by a byte"])
def test_small_arrays(xp, dtype, pattern):
    rng, dtype = np.random.default_rng(18), np.dtype(dtype)
    bits = np.dtype(f"u{dtype.itemsize}")
    x1, x2 = random(rng, (17, 31), bits).view(dtype), random(rng, (31,), bits).view(dtype)
    wide = dtype.itemsize < 4 and dtype in FLOATS
    with np.errstate(all="ignore"):
        expected = np.fmod(*(x.astype(float) if wide else x for x in (x1, x2)))
    out = Poisoned(xp, x1.shape, dtype)
    with xp.planned_for(threads_per_multiprocessor=2048):
        fmod(place(xp, x1, pattern), xp.asarray(x2), out=out.array)
    np.testing.assert_array_equal(out.read().astype(expected.dtype), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, *FLOATS], ids=str)
@pytest.mark.parametrize("lead", [0, 1, 2, 3])
@pytest.mark.parametrize("shape", [(1500,), (6, 1000), (5, 333)], ids=str)
def test_every_second_element_from_any_address(xp, dtype, lead, shape):
    rng, dtype = np.random.default_rng(19), np.dtype(dtype)
    stored, bits = (*shape[:-1], lead + 2 * shape[-1]), np.dtype(f"u{dtype.itemsize}")
    bases = [random(rng, stored, bits).view(dtype) for _ in range(2)]
    given = [base[..., lead::2] for base in bases]
    wide = dtype.itemsize < 4 and dtype in FLOATS
    with np.errstate(all="ignore"):
        expected = np.fmod(*(x.astype(float) if wide else x for x in given))
    out = Poisoned(xp, shape, dtype)
    fmod(*(xp.asarray(base)[..., lead::2] for base in bases), out=out.array)
    np.testing.assert_array_equal(out.read().astype(expected.dtype), expected)


@pytest.mark.parametrize("pattern", ["contiguous", "padded lines", "transposed", "every second"])
def test_operands_and_results_of_several_sizes(xp, pattern):
    """Packs have as many elements as the widest type allows, tiles are those of the type that moves."""
    rng, shape = np.random.default_rng(20), (70, 300)
    types = ((bool, "i1", "i1 f4"), ("i1", "i4", "i1 i8"), ("i8", "i2", "i8"), ("f8", "i4", "f2 f8"))
    for first, second, kinds in types:
        x1, x2 = rng.integers(-100, 100, shape).astype(first), rng.integers(1, 100, shape).astype(second)
        expected = np.fmod(x1, x2)
        for kind in kinds.split():
            for pair in (("contiguous", pattern), (pattern, "contiguous"), (pattern, pattern)):
                out = Poisoned(xp, shape, kind)
                fmod(*(place(xp, x, p) for x, p in zip((x1, x2), pair, strict=True)), out=out.array)
                np.testing.assert_array_equal(out.read(), expected.astype(kind))


@pytest.mark.parametrize("n", [1, 31, 1023, 1025, 65_537, 1_000_003])
def test_sizes(xp, n):
    rng = np.random.default_rng(n)
    x1, x2 = random(rng, n, np.float32), random(rng, n, np.float32)
    out = Poisoned(xp, (n,), np.float32)
    fmod(xp.asarray(x1), xp.asarray(x2), out=out.array)
    assert_same_bits(out.read(), np.fmod(x1, x2))


@all_patterns
def test_in_place_of_either_operand(xp, pattern):
    rng = np.random.default_rng(8)
    x1, x2 = random(rng, (40, 33), np.int32), random(rng, (40, 33), np.int32)
    expected = np.fmod(x1, x2)
    dividend, divisor = place(xp, x1, pattern), place(xp, x2, pattern)
    assert fmod(dividend, divisor, out=divisor) is divisor
    np.testing.assert_array_equal(xp.to_numpy(divisor), expected)
    fmod(dividend, xp.asarray(x2), out=dividend)
    np.testing.assert_array_equal(xp.to_numpy(dividend), expected)


@pytest.mark.parametrize("shift", [1, 7, 500])
@pytest.mark.parametrize("backwards", [False, True])
def test_partial_overlap_gives_the_right_answer(xp, shift, backwards):
    values = random(np.random.default_rng(9), 20_000, np.int32)
    n = len(values) - shift
    for source, target in ((slice(0, n), slice(shift, None)), (slice(shift, None), slice(0, n))):
        buffer = xp.asarray(values)
        operand, out = buffer[source], buffer[target]
        given = values[source]
        if backwards:
            operand, given = operand[::-1], given[::-1]
        fmod(operand, 1000, out=out)
        np.testing.assert_array_equal(xp.to_numpy(out), np.fmod(given, 1000))


@all_patterns
@pytest.mark.parametrize("other_pattern", ["contiguous", "transposed"])
def test_results_lie_in_memory_as_numpys(xp, pattern, other_pattern):
    values = random(np.random.default_rng(12), (4, 5, 6), np.float32)
    array, on_host = place(xp, values, pattern), place(Host, values, pattern)
    other, other_on_host = place(xp, values, other_pattern), place(Host, values, other_pattern)
    for found, expected in (
        (fmod(array, 2.0), np.fmod(on_host, 2.0)),
        (fmod(2.0, array), np.fmod(2.0, on_host)),
        (fmod(array, other), np.fmod(on_host, other_on_host)),
        (fmod(array, array[0]), np.fmod(on_host, on_host[0])),
    ):
        assert found.strides == expected.strides
        assert_same_bits(xp.to_numpy(found), expected)


def test_results_of_any_two_operands_lie_in_memory_as_numpys():
    rng = np.random.default_rng(13)
    for _ in range(500):
        shape = rng.integers(2, 5, rng.integers(1, 5))
        operands = []
        for _ in range(2):
            sizes = np.where(rng.random(shape.size) < 0.2, 1, shape)[rng.integers(0, 2) :]
            order = rng.permutation(sizes.size)
            operands.append(np.ones(sizes[order], np.float32).transpose(np.argsort(order)))
        expected = np.fmod(*operands)
        found = fmod(*operands)
        steps = [s for s, n in zip(found.strides, found.shape, strict=True) if n > 1]
        assert steps == [s for s, n in zip(expected.strides, expected.shape, strict=True) if n > 1]


def test_out_overlapping_a_broadcast_operand(xp):
    values = random(np.random.default_rng(10), (50, 30), np.int32)
    array = xp.asarray(values)
    fmod(array, array[10], out=array)
    np.testing.assert_array_equal(xp.to_numpy(array), np.fmod(values, values[10]))


def test_same_bits_every_time(xp):
    rng = np.random.default_rng(11)
    x1, x2 = xp.asarray(random(rng, 100_003, np.float32)), xp.asarray(random(rng, 100_003, np.float32))
    first = xp.to_numpy(fmod(x1, x2))
    for _ in range(3):
        assert_same_bits(xp.to_numpy(fmod(x1, x2)), first)
