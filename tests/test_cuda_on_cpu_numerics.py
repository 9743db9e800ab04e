"""The numbers that the CPU executor computes with: 16-bit floats and the intrinsics of device code, bit for bit.

References are NumPy and ml_dtypes where they round once; where they do not (double to bfloat16, fused multiply-add, and
every rounding but the nearest), exact rational numbers or a search in the sorted list of all numbers of the format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_on_cpu import Module, device_array, requirement

if requirement():
    pytest.skip(f"kernels cannot run on this CPU: {requirement()}", allow_module_level=True)

KERNELS = Path(__file__).parent / "cuda_on_cpu" / "kernels"
NUMBERS = {"__half": np.dtype(np.float16), "__nv_bfloat16": np.dtype(ml_dtypes.bfloat16)}
ROUNDINGS = ("nearest", "zero", "down", "up")
ALL_BITS = np.arange(1 << 16, dtype=np.uint16)


class Launcher:
    """The kernels of one file; a call passes the inputs and gets the rows of the result."""

    def __init__(self, file: str, *constants: tuple[str, str]) -> None:
        self.module = Module(KERNELS / file, constants=constants, checking=False)

    def __call__(self, kernel: str, rows: int, dtype: Any, *inputs: np.ndarray) -> np.ndarray:
        n = len(inputs[0])
        result = device_array(np.zeros(rows * n, dtype))
        arrays = [device_array(np.ascontiguousarray(x)) for x in inputs]
        self.module.kernel(kernel)((n + 255) // 256, 256, (*arrays, result, np.int32(n)))
        return np.array(result).reshape(rows, n)


@pytest.fixture(scope="module")
def numerics() -> Launcher:
    return Launcher("numerics.cu")


class Format:
    """One of the two formats, its kernels, and a rounding to it that shares no code with either."""

    def __init__(self, name: str) -> None:
        self.dtype = NUMBERS[name]
        self.launch = Launcher("halves.cu", ("NUMBER", name))
        self.infinity = 0x7C00 if name == "__half" else 0x7F80
        finite = self.values(ALL_BITS[: self.infinity]).astype(np.float64)
        # To nearest, infinity is rounded to as if it were the next power of two.
        self.magnitudes = np.append(finite, 2.0 ** math.frexp(finite[-1])[1])

    def values(self, bits: np.ndarray) -> np.ndarray:
        return np.asarray(bits, np.uint16).view(self.dtype)

    def rounded(self, x: np.ndarray, rounding: str) -> np.ndarray:
        """The bits of doubles in the format. Midpoints of neighbours are doubles, so nothing here is rounded."""
        x = np.asarray(x, np.float64)
        magnitude = np.minimum(np.abs(x), 2 * self.magnitudes[-1])
        below = np.searchsorted(self.magnitudes, magnitude, side="right") - 1
        below = np.clip(below, 0, self.infinity - 1)
        midpoint = (self.magnitudes[below] + self.magnitudes[below + 1]) / 2
        away = magnitude > self.magnitudes[below]
        if rounding == "nearest":
            away = (magnitude > midpoint) | ((magnitude == midpoint) & (below % 2 == 1))
        elif rounding == "zero":
            away[:] = False
        else:
            away &= (x < 0) == (rounding == "down")
        bits = np.where(np.isinf(x), self.infinity, below + away) | np.where(np.signbit(x), 0x8000, 0)
        return np.where(np.isnan(x), 0x7FFF, bits).astype(np.uint16)

    def rounded_exactly(self, x: Fraction, sign_of_zero: int) -> int:
        """The bits of the number nearest to a rational number."""
        sign = 0x8000 if x < 0 or (x == 0 and sign_of_zero < 0) else 0
        below = int(np.searchsorted(self.magnitudes, float(abs(x)), side="right")) - 1
        candidates = range(max(below - 1, 0), min(below + 2, self.infinity) + 1)
        # Of two that are equally near, the even one.
        nearest = min(candidates, key=lambda bits: (abs(Fraction(self.magnitudes[bits]) - abs(x)), bits % 2))
        return nearest | sign

    def same(self, bits: np.ndarray, expected: np.ndarray) -> None:
        """Equal bits, or NaN twice; arithmetic gives one NaN only."""
        nan = np.isnan(self.values(expected).astype(np.float32))
        np.testing.assert_array_equal(np.where(nan, 0x7FFF, expected), bits)

    def sample(self, n: int, seed: int) -> np.ndarray:
        """Bits of all magnitudes, with more zeros, subnormals, infinities and NaN than chance would bring."""
        random = np.random.default_rng(seed)
        special = np.array([0, 1, 2, 0x7F, 0x80, 0x3FF, 0x400, 0x7BFF, 0x7C00, 0x7C01, 0x7F7F, 0x7F80, 0x7FFF])
        special = special.astype(np.uint16)
        special = np.concatenate([special, special | 0x8000])
        return np.where(random.random(n) < 0.05, random.choice(special, n), random.choice(ALL_BITS, n))

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Half of them close in magnitude, where additions cancel and quotients are near 1."""
        a, b = self.sample(500_000, 1), self.sample(500_000, 2)
        near = (a ^ 0x8000) + np.random.default_rng(3).integers(-300, 300, len(a)).astype(np.uint16)
        return a, np.where(np.arange(len(a)) % 2, near, b)


@pytest.fixture(scope="module", params=NUMBERS)
def form(request: pytest.FixtureRequest) -> Format:
    return Format(request.param)


def edges(form: Format) -> np.ndarray:
    """Every number of the format, every midpoint of neighbours, and the doubles next to both, of either sign."""
    midpoints = (form.magnitudes[:-1] + form.magnitudes[1:]) / 2
    x = np.concatenate([form.magnitudes, midpoints, [np.inf, np.nan, 1e300, 1e-300, 5e-324]])
    x = np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, 0)])
    return np.concatenate([x, -x])


def float_edges(form: Format) -> np.ndarray:
    x = edges(form)
    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
    return np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


# ----------------------------------------------------------------------------------------------------------------------
# The reference itself, where there is another one


def test_reference_agrees_with_the_libraries(form: Format) -> None:
    x = np.concatenate([float_edges(form), random_floats(1_000_000)])
    form.same(form.rounded(x, "nearest"), x.astype(form.dtype).view(np.uint16))
    sample = random_floats(2000)
    sample = sample[np.isfinite(sample) & (np.abs(sample) < 1e30)]
    exact = [form.rounded_exactly(Fraction(float(v)), 1) for v in sample]
    np.testing.assert_array_equal(exact, form.rounded(sample, "nearest"))


def random_floats(n: int) -> np.ndarray:
    return np.random.default_rng(4).integers(0, 1 << 32, n, dtype=np.uint32).view(np.float32)


# ----------------------------------------------------------------------------------------------------------------------
# Conversions of 16-bit floats


def test_every_number_to_float(form: Format) -> None:
    result = form.launch("to_float", 1, np.float32, ALL_BITS)[0]
    expected = form.values(ALL_BITS).astype(np.float32)
    nan = np.isnan(expected)
    np.testing.assert_array_equal(result.view(np.uint32)[~nan], expected.view(np.uint32)[~nan])
    assert np.isnan(result[nan]).all()


def test_float_in_all_roundings(form: Format) -> None:
    x = np.concatenate([float_edges(form), random_floats(3_000_000)])
    result = form.launch("from_float", 4, np.uint16, x)
    form.same(result[0], x.astype(form.dtype).view(np.uint16))
    for row, rounding in zip(result, ROUNDINGS, strict=True):
        np.testing.assert_array_equal(row, form.rounded(x, rounding), err_msg=rounding)


def test_double_is_rounded_once(form: Format) -> None:
    random = np.random.default_rng(5).integers(0, 1 << 64, 500_000, np.uint64)
    x = np.concatenate([edges(form), random.view(np.float64)])
    result = form.launch("from_double", 1, np.uint16, x)[0]
    form.same(result, form.rounded(x, "nearest"))
    by_float = form.rounded(x.astype(np.float32), "nearest")
    assert (result != by_float).sum() > 1000, "no input would tell a second rounding"


def test_conversions_of_our_intrinsics(numerics: Launcher) -> None:
    form = Format("__half")
    x = np.concatenate([edges(form), random_floats(100_000)])
    result = numerics("halves_from_reals", 2, np.uint16, x.astype(np.float32), x)
    np.testing.assert_array_equal(result, [form.rounded(x.astype(np.float32), "nearest"), form.rounded(x, "nearest")])
    floats = numerics("floats_from_bits", 2, np.float32, ALL_BITS)
    np.testing.assert_array_equal(floats, [ALL_BITS.view(np.float16).astype(np.float32)] * 2)


def integers() -> np.ndarray:
    """All sizes, and beside every power of two the neighbours at which 8, 11, 24 and 53 bits tie."""
    tails = [(bits, times, off) for bits in (8, 9, 11, 12, 24, 25, 53, 54) for times in (0, 1, 3) for off in (-1, 0, 1)]
    near = [(1 << k) + times * (1 << k >> bits) + off for k in range(63) for bits, times, off in tails]
    random = np.random.default_rng(6).integers(-(1 << 63), (1 << 63) - 1, 20_000)
    positive = np.array([x for x in near if x < 1 << 63])
    return np.unique(np.concatenate([positive, -positive, random, random >> 20, random >> 40, [-(1 << 63)]]))


def fitted_to_double(x: int) -> float:
    """A double that lies on the same side of every number of 52 bits or fewer."""
    magnitude = abs(x) if abs(x) < 1 << 53 else (abs(x) >> 11 | (abs(x) % 2048 != 0)) << 11
    return float(magnitude if x >= 0 else -magnitude)


def test_integers_to_numbers(form: Format) -> None:
    x = integers()
    result = form.launch("from_integer", 4, np.uint16, x)
    fitted = np.array([fitted_to_double(v) for v in x.tolist()])
    for row, rounding in zip(result, ROUNDINGS, strict=True):
        np.testing.assert_array_equal(row, form.rounded(fitted, rounding), err_msg=rounding)
    if form.dtype != np.float16:  # to which all integers that a double rounds are infinite
        assert (result[0] != form.rounded(x.astype(np.float64), "nearest")).any(), "no input needs exact integers"


def test_numbers_to_integers(form: Format) -> None:
    result = form.launch("to_integer", 4, np.int64, ALL_BITS)
    x = form.values(ALL_BITS).astype(np.float32)
    conversions = (("nearest", np.int64), ("down", np.int32), ("up", np.uint32), ("zero", np.int16))
    for row, (rounding, dtype) in zip(result, conversions, strict=True):
        np.testing.assert_array_equal(row, [to_integer(v, rounding, np.dtype(dtype), False) for v in x.tolist()])


# ----------------------------------------------------------------------------------------------------------------------
# Arithmetic of 16-bit floats


def test_arithmetic(form: Format) -> None:
    a, b = form.pairs()
    x, y = form.values(a), form.values(b)
    # Square roots are those of NumPy in float: 24 bits are enough to round twice.
    root = np.sqrt(x.astype(np.float32)).astype(form.dtype)
    result = form.launch("arithmetic", 7, np.uint16, a, b)
    for row, expected in zip(result[[0, 1, 2, 3, 6]], (x + y, x - y, x * y, x / y, root), strict=True):
        form.same(row, expected.view(np.uint16))
    np.testing.assert_array_equal(result[4], a ^ 0x8000)
    np.testing.assert_array_equal(result[5], a & 0x7FFF)
    np.testing.assert_array_equal(form.launch("operators", 5, np.uint16, a, b), result[:5])


def test_extremes(form: Format) -> None:
    a, b = form.pairs()
    result = form.launch("extremes", 5, np.uint16, a, b)
    x, y = (form.values(bits).astype(np.float64) for bits in (a, b))
    # Ordered by bits, so that -0 is less than +0.
    order = [np.where(bits < 0x8000, bits.astype(int), 0x7FFF - bits.astype(int)) for bits in (a, b)]
    either_nan = np.isnan(x) | np.isnan(y)
    for rows, first in ((result[[0, 2]], order[0] < order[1]), (result[[1, 3]], order[0] > order[1])):
        number = np.where(np.isnan(y) | (first & ~np.isnan(x)), a, b)
        form.same(rows[0], number)
        form.same(rows[1], np.where(either_nan, 0x7FFF, number))
    total = form.values(form.launch("arithmetic", 7, np.uint16, a, b)[0]).astype(np.float64)
    saturated = form.values(result[4]).astype(np.float64)
    np.testing.assert_array_equal(saturated, np.where(total > 0, np.minimum(total, 1), 0))


def fused_traps(form: Format) -> np.ndarray:
    """Products midway between two numbers, and summands that decide however small they are."""
    precision = 11 if form.dtype == np.float16 else 8
    triples = []
    for m in range(1 << (precision - 1), 1 << precision):
        for k in (3, 5, 7):
            spare = (m * k).bit_length() - precision
            if m * k % (1 << spare) == 1 << (spare - 1):
                factors = form.rounded(np.array([m / 2.0 ** (precision - 1), float(k)]), "nearest")
                triples += [(*factors, c) for c in (0, 1, 0x8001, 0x0400, 0x8400, 0x1001, 0x9001)]
    return np.array(triples, np.uint16).T


def test_fused_multiply_add(form: Format) -> None:
    traps = fused_traps(form)
    assert traps.shape[1] > 200
    random = np.array([form.sample(40_000, seed) for seed in (7, 8, 9)])
    # Sums that cancel: c is near the negative product.
    product = form.values(random[0]) * form.values(random[1])
    close = np.array([random[0], random[1], product.view(np.uint16) ^ 0x8000])
    bits = np.concatenate([traps, traps ^ 0x8000, random, close], axis=1)
    result = form.launch("multiply_add", 1, np.uint16, *bits)[0]
    form.same(result, np.array([fused(form, *triple) for triple in bits.T.tolist()], np.uint16))


def fused(form: Format, *bits: int) -> int:
    a, b, c = (float(v) for v in form.values(np.array(bits)))
    with_infinities = a * b + c
    if not all(map(math.isfinite, (a, b, c))):
        return int(form.rounded(np.array([with_infinities]), "nearest")[0])
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return form.rounded_exactly(exact, int(math.copysign(1, with_infinities)))


def test_comparisons(form: Format) -> None:
    a, b = form.pairs()
    b = np.where(np.arange(len(b)) % 5 == 0, a, b)
    x, y = (form.values(bits).astype(np.float64) for bits in (a, b))
    ordered = [x == y, x != y, x < y, x <= y, x > y, x >= y]
    nan = np.isnan(x) | np.isnan(y)
    expected = [*ordered, *(o & ~nan for o in ordered), *(o | nan for o in ordered)]
    expected += [np.isnan(x), x != 0, x == np.inf, x == -np.inf]
    np.testing.assert_array_equal(form.launch("compare", 22, np.uint8, a, b), expected)


def test_pairs_are_two_numbers(form: Format) -> None:
    a, b = form.pairs()
    result = form.launch("pairs", 30, np.uint16, a, b).reshape(15, 2, -1)
    forwards = form.launch("arithmetic", 7, np.uint16, a, b)
    backwards = form.launch("arithmetic", 7, np.uint16, b, a)
    for j in range(5):
        np.testing.assert_array_equal(result[j], [forwards[j], backwards[j]])
        np.testing.assert_array_equal(result[5 + j], result[j])
    extremes = form.launch("extremes", 5, np.uint16, a, b)[:2]
    np.testing.assert_array_equal(result[10:12], extremes[:, None].repeat(2, axis=1))
    fma = [form.launch("multiply_add", 1, np.uint16, *args)[0] for args in ((a, b, a), (b, a, b))]
    np.testing.assert_array_equal(result[12], fma)
    form.same(result[13, 0], a)
    form.same(result[13, 1], b)
    np.testing.assert_array_equal(result[14], [b, a])


# ----------------------------------------------------------------------------------------------------------------------
# Conversions of floats, doubles and integers


def to_integer(x: float, rounding: str, dtype: np.dtype, is_double: bool) -> int:
    """As the PTX manual defines cvt: saturated; NaN becomes 0, or the highest bit where a type has 64."""
    if math.isnan(x):
        value = 1 << (8 * dtype.itemsize - 1) if is_double or dtype.itemsize == 8 else 0
        return value if dtype.kind == "u" or not value else -value
    limits = np.iinfo(dtype)
    if math.isinf(x):
        return int(limits.max if x > 0 else limits.min)
    functions: dict[str, Callable[[float], int]] = {
        "nearest": round,
        "zero": math.trunc,
        "down": math.floor,
        "up": math.ceil,
    }
    return max(int(limits.min), min(int(limits.max), functions[rounding](x)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reals_to_integers(numerics: Launcher, dtype: type) -> None:
    random = np.random.default_rng(10)
    x = np.concatenate(
        [
            random.standard_normal(3000) * 2.0 ** random.integers(-3, 66, 3000),
            np.arange(-8, 8) / 4,
            2.0 ** np.arange(70),
            [0.0, -0.0, np.inf, np.nan, 1e-40, 1e30, 2147483647.5, 4294967295.5],
        ]
    ).astype(dtype)
    x = np.concatenate([x, np.nextafter(x, dtype(0)), np.nextafter(x, dtype(np.inf))])
    x = np.concatenate([x, -x])
    is_double = dtype is np.float64
    result = numerics("double_to_integers" if is_double else "float_to_integers", 16, np.int64, x)
    targets = [np.dtype(t) for t in (np.int32, np.uint32, np.int64, np.uint64)]
    for i, (target, rounding) in enumerate((t, r) for t in targets for r in ROUNDINGS):
        expected = np.array([to_integer(v, rounding, target, is_double) for v in x.tolist()], target)
        np.testing.assert_array_equal(result[i], expected.astype(np.int64), err_msg=f"{target} {rounding}")


def roundings_of(x: np.ndarray, dtype: type) -> list[np.ndarray]:
    """In the order of ROUNDINGS; Python compares its integers and floats exactly."""
    nearest = x.astype(dtype)
    is_above, is_below = nearest.astype(object) > x.astype(object), nearest.astype(object) < x.astype(object)
    down = np.where(is_above, np.nextafter(nearest, dtype(-np.inf)), nearest)
    up = np.where(is_below, np.nextafter(nearest, dtype(np.inf)), nearest)
    return [nearest, np.where(x > 0, down, up), down, up]


def test_integers_to_reals(numerics: Launcher) -> None:
    x = integers()
    sources = [x.astype(dtype) for dtype in (np.int32, np.uint32, np.int64, np.uint64)]
    floats = numerics("integers_to_float", 16, np.float32, x).reshape(4, 4, -1)
    for result, source in zip(floats, sources, strict=True):
        np.testing.assert_array_equal(result, roundings_of(source, np.float32))
    doubles = numerics("integers_to_double", 8, np.float64, x).reshape(2, 4, -1)
    for result, source in zip(doubles, sources[2:], strict=True):
        np.testing.assert_array_equal(result, roundings_of(source, np.float64))


def test_double_to_float(numerics: Launcher) -> None:
    random = np.random.default_rng(11)
    x = random.standard_normal(20_000) * 2.0 ** random.integers(-155, 130, 20_000)
    x = np.concatenate([x, x.astype(np.float32), [0.0, 1e300, -1e300, 1e-300, -1e-300, 3.4028235677973366e38]])
    result = numerics("double_to_float", 4, np.float32, x)
    np.testing.assert_array_equal(result.view(np.uint32), np.array(roundings_of(x, np.float32)).view(np.uint32))


# ----------------------------------------------------------------------------------------------------------------------
# Bits, extremes, vectors


def test_bits_of_32(numerics: Launcher) -> None:
    random = np.random.default_rng(12)
    a, b = random.integers(0, 1 << 32, (2, 3000), np.uint32) >> random.integers(0, 32, (2, 3000), np.uint32)
    a[:4], b[:4] = [0, 0xFFFFFFFF, 0x80000000, 1], [0, 0xFFFFFFFF, 0x7FFFFFFF, 32]
    # NaN with a payload would be quietened on its way through some instructions.
    a[(a & 0x7FFFFFFF) > 0x7F800000] &= 0x807FFFFF
    result = numerics("bits_of_32", 19, np.uint32, a, b)
    for column, u, v in zip(result.T.tolist(), a.tolist(), b.tolist(), strict=True):
        wide, shift, clamped = v << 32 | u, v & 31, min(v & 63, 32)
        s, t = (w - (1 << 32) if w >> 31 else w for w in (u, v))
        selected = int.from_bytes(wide.to_bytes(8, "little")[byte] for byte in (3, 7, 1, 5))
        expected = [
            u.bit_count(), 32 - u.bit_length(), (u & -u).bit_length(), int(f"{u:032b}"[::-1], 2),
            u * v >> 32, s * t >> 32, selected,
            wide << shift >> 32, wide >> shift, wide << clamped >> 32, wide >> clamped,
            min(u, v), max(u, v), min(s, t), max(s, t), min(u, v), max(u, v), u, u,
        ]  # fmt: skip
        assert column == [e % (1 << 32) for e in expected]


def test_bits_of_64(numerics: Launcher) -> None:
    random = np.random.default_rng(13)
    a, b = random.integers(0, 1 << 64, (2, 3000), np.uint64) >> random.integers(0, 64, (2, 3000), np.uint64)
    a[:3], b[:3] = [0, (1 << 64) - 1, 1 << 63], [0, (1 << 64) - 1, (1 << 63) - 1]
    result = numerics("bits_of_64", 13, np.uint64, a, b)
    for column, u, v in zip(result.T.tolist(), a.tolist(), b.tolist(), strict=True):
        s, t = (w - (1 << 64) if w >> 63 else w for w in (u, v))
        expected = [
            u.bit_count(), 64 - u.bit_length(), (u & -u).bit_length(), int(f"{u:064b}"[::-1], 2),
            u * v >> 64, s * t >> 64, min(u, v), max(u, v), min(s, t), max(s, t), min(u, v), max(u, v), u,
        ]  # fmt: skip
        assert column == [e % (1 << 64) for e in expected]


def test_min_and_max_skip_nan_and_order_zeros(numerics: Launcher) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, 1e-45], np.float32)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    result = numerics("min_max", 3, np.float32, x, y)
    np.testing.assert_array_equal(result[0], np.fmin(x, y))
    np.testing.assert_array_equal(result[1], np.fmax(x, y))
    negative = np.signbit([x, y])
    zeros = (x == 0) & (y == 0)
    np.testing.assert_array_equal(np.signbit(result[:2, zeros]), [negative.any(0)[zeros], negative.all(0)[zeros]])
    np.testing.assert_array_equal(result[2], np.where(x > 0, np.fmin(x, 1), 0))


def test_rounded_floats(numerics: Launcher) -> None:
    random = np.random.default_rng(14)
    x, y, z = (random.integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32) for _ in "xyz")
    result = numerics("rounded_floats", 7, np.float32, x, y, z)
    np.testing.assert_array_equal(result[:6], [x + y, x - y, x * y, x / y, 1 / x, np.sqrt(x)])
    operands = np.array([x, y, z], np.float64)
    for i in np.flatnonzero(np.isfinite(operands).all(axis=0) & np.isfinite(result[6]))[:2000]:
        a, b, c = (Fraction(v) for v in operands[:, i])
        neighbours = [np.nextafter(result[6, i], np.float32(towards)) for towards in (-np.inf, np.inf)]
        errors = [abs(a * b + c - Fraction(float(v))) for v in (result[6, i], *neighbours) if np.isfinite(v)]
        assert errors[0] == min(errors)


def test_vectors_are_moved_whole(numerics: Launcher) -> None:
    x = np.random.default_rng(15).integers(0, 1 << 32, (300, 4), dtype=np.uint32)
    structs = x.view(np.dtype((np.void, 16))).ravel()
    result = numerics("copy_vectors", 2, np.dtype((np.void, 16)), structs)
    np.testing.assert_array_equal(np.frombuffer(result.tobytes(), np.uint32).reshape(2, 300, 4), [x, x])
