"""Running sums and products: values, dtypes, axes, layouts, segments, special values, reproducibility."""

from __future__ import annotations

import warnings
from itertools import pairwise, permutations

import numpy as np
import pytest
from layouts import PATTERNS, Host, Poisoned, place
from numpy.exceptions import ComplexWarning
from reference import (
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    SCAN_DTYPES,
    SIZES,
    assert_close,
    assert_same_bits,
    assert_scan,
    default_dtype,
    factors,
    random,
    scan_reference,
    values_for,
)

from cudml.plan.scan import short_columns
from cudml.scan import cumprod, cumsum, cumulative_prod, cumulative_sum, segmented_cumprod, segmented_cumsum

SCANS = {"sum": cumsum, "product": cumprod}
STANDARD = {"sum": cumulative_sum, "product": cumulative_prod}
SEGMENTED = {"sum": segmented_cumsum, "product": segmented_cumprod}


operations = pytest.mark.parametrize("operation", SCANS)
directions = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
exclusions = pytest.mark.parametrize("exclusive", [False, True], ids=["inclusive", "exclusive"])
all_dtypes = pytest.mark.parametrize("dtype", SCAN_DTYPES, ids=str)
all_patterns = pytest.mark.parametrize("pattern", PATTERNS)


def check(xp, operation, values, dtype=None, out=None, axis=-1, **options):
    """Scans `values` into a poisoned output and compares with the reference."""
    value_dtype = default_dtype(values.dtype) if dtype is None else np.dtype(dtype)
    shape = scan_reference(operation, values, value_dtype, axis=axis)[0].shape
    out = out or Poisoned(xp, shape, value_dtype)
    result = SCANS[operation](xp.asarray(values), axis, dtype, out.array, **options)
    assert result is out.array
    assert_scan(out.read(), operation, values, value_dtype, axis=axis, **options)


# The examples of DirectML's pages, input {1, 1, 3, 4}.

PAGE_INPUT = np.array([[[[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]]])
PAGE_EXAMPLES = [
    ("sum", 3, {}, [[2, 3, 6, 11], [3, 11, 18, 21], [9, 15, 17, 21]]),
    ("sum", 3, {"exclusive": True}, [[0, 2, 3, 6], [0, 3, 11, 18], [0, 9, 15, 17]]),
    ("sum", 3, {"reverse": True}, [[11, 9, 8, 5], [21, 18, 10, 3], [21, 12, 6, 4]]),
    ("sum", 2, {}, [[2, 1, 3, 5], [5, 9, 10, 8], [14, 15, 12, 12]]),
    ("product", 3, {}, [[2, 2, 6, 30], [3, 24, 168, 504], [9, 54, 108, 432]]),
    ("product", 3, {"exclusive": True}, [[1, 2, 2, 6], [1, 3, 24, 168], [1, 9, 54, 108]]),
    ("product", 3, {"reverse": True}, [[30, 15, 15, 5], [504, 168, 21, 3], [432, 48, 8, 4]]),
    ("product", 2, {}, [[2, 1, 3, 5], [6, 8, 21, 15], [54, 48, 42, 60]]),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize(("operation", "axis", "options", "expected"), PAGE_EXAMPLES)
def test_directml_page_example(xp, operation, axis, options, expected, dtype):
    result = SCANS[operation](xp.asarray(PAGE_INPUT.astype(dtype)), axis, dtype, **options)
    np.testing.assert_array_equal(xp.to_numpy(result), [[expected]])


def test_other_published_examples(xp):
    def scanned(scan, values, **options):
        return xp.to_numpy(scan(xp.asarray(np.array(values, np.float32)), 0, **options)).tolist()

    assert scanned(cumprod, [2, 4, 8, 3]) == [2, 8, 64, 192]
    assert scanned(cumsum, [1, 2, 3, 4, 5], reverse=True, exclusive=True) == [14, 12, 9, 5, 0]
    assert scanned(cumsum, [7], exclusive=True) == [0]


# Data types.


@operations
@directions
@exclusions
@all_dtypes
@pytest.mark.parametrize("shape", [(1003,), (3, 70, 5)], ids=str)
def test_every_dtype(xp, operation, dtype, shape, reverse, exclusive):
    values = values_for(operation, np.random.default_rng(1), shape, dtype)
    for axis in range(len(shape)):
        check(xp, operation, values, axis=axis, reverse=reverse, exclusive=exclusive)


@operations
@all_dtypes
def test_result_dtype_is_numpys(xp, operation, dtype):
    result = SCANS[operation](xp.asarray(np.ones(3, dtype)))
    assert result.dtype == default_dtype(dtype)


@operations
@pytest.mark.parametrize("dtype", [BOOL, *INTEGERS], ids=str)
def test_narrow_integers_wrap_and_bool_stays_logical(xp, operation, dtype):
    check(xp, operation, values_for(operation, np.random.default_rng(2), (2, 5000), dtype), dtype=dtype)


@pytest.mark.parametrize("source", SCAN_DTYPES, ids=str)
@pytest.mark.parametrize("target", SCAN_DTYPES, ids=str)
def test_dtype_converts_before_and_out_after(xp, source, target):
    """Small non-negative integers are exact in every type, so that the order of conversions shows."""
    values = np.random.default_rng(3).integers(0, 2, 40).astype(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ComplexWarning)
        converted = cumsum(xp.asarray(values), dtype=target)
        out = Poisoned(xp, values.shape, target)
        cumsum(xp.asarray(values), out=out.array)
    count = np.cumsum(values.real.astype(np.int64))
    expected = count > 0 if target == BOOL else count
    assert converted.dtype == target
    np.testing.assert_array_equal(xp.to_numpy(converted), expected)
    np.testing.assert_array_equal(out.read(), expected)


def test_dtype_decides_before_out_does(xp):
    """100 + 100 wraps in the value type int8 before it is stored as int64; fractions are cut before they are added."""
    out = Poisoned(xp, (2,), np.int64)
    cumsum(xp.asarray(np.array([100, 100], np.int64)), dtype=np.int8, out=out.array)
    assert out.read().tolist() == [100, -56]
    cut = cumsum(xp.asarray(np.array([1.5, 1.5], np.float32)), dtype=np.int32)
    assert xp.to_numpy(cut).tolist() == [1, 2]


def test_halves_are_rounded_before_they_are_stored_wider(xp):
    out = Poisoned(xp, (3000,), np.float32)
    values = np.random.default_rng(20).random(3000).astype(np.float32)
    cumsum(xp.asarray(values), dtype=np.float16, out=out.array)
    stored = out.read()
    np.testing.assert_array_equal(stored.astype(np.float16).astype(np.float32), stored)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_lost_imaginary_part_warns(xp, dtype):
    values = np.array([1 + 2j, 3 - 4j], dtype)
    with pytest.warns(ComplexWarning):
        result = cumsum(xp.asarray(values), dtype=np.float32)
    assert xp.to_numpy(result).tolist() == [1, 4]
    out = Poisoned(xp, (2,), np.float64)
    with pytest.warns(ComplexWarning):
        cumprod(xp.asarray(values), out=out.array)
    assert out.read().tolist() == [1, 11]


def test_nothing_else_warns(xp):
    extremes = np.array([3e38, 3e38, np.inf, -np.inf, np.nan], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cumsum(xp.asarray(extremes))
        cumprod(xp.asarray(extremes), dtype=np.float16)
        cumsum(xp.asarray(np.full(9, 127, np.int8)), dtype=np.int8)


# Shapes and axes.


@operations
@pytest.mark.parametrize("n", SIZES)
def test_size_of_a_line(xp, operation, n):
    dtype = [np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.float64), np.dtype(np.float16)][n % 4]
    values = values_for(operation, np.random.default_rng(n), (n,), dtype)
    check(xp, operation, values, reverse=n % 3 == 0, exclusive=n % 5 == 0)


@pytest.mark.parametrize("n", [n for n in SIZES if n < 10_000])
@pytest.mark.parametrize("axis", [0, 1])
def test_size_of_rows_and_columns(xp, n, axis):
    shape = (n, 5) if axis == 0 else (5, n)
    check(xp, "sum", random(np.random.default_rng(n), shape, np.float32), axis=axis, exclusive=n % 2 == 0)
    check(xp, "product", factors(np.random.default_rng(n), shape, np.int64), axis=axis, reverse=n % 2 == 0)


@pytest.mark.parametrize(
    "shape", [(300_000, 3), (3, 300_000), (70_000, 33), (33, 65_537), (40, 1000, 40), (100_003, 7)]
)
def test_many_tiles(xp, shape):
    values = random(np.random.default_rng(4), shape, np.int32)
    for axis in range(len(shape)):
        check(xp, "sum", values, axis=axis, dtype=np.int32)


@operations
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1), (2, 3, 4), (2, 1, 3, 1, 2, 1, 2, 1, 2, 1, 2, 2)], ids=str)
def test_every_axis(xp, operation, shape):
    values = values_for(operation, np.random.default_rng(5), shape, np.float32)
    for axis in [None, *range(-max(len(shape), 1), max(len(shape), 1))]:
        check(xp, operation, values, axis=axis)


@operations
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)], ids=str)
def test_zero_size(xp, operation, shape):
    values = np.zeros(shape, np.float32)
    for axis in [None, *range(len(shape))]:
        for exclusive in (False, True):
            check(xp, operation, values, axis=axis, exclusive=exclusive)


@operations
@directions
@pytest.mark.parametrize("shape", [(), (1,), (5,), (0,), (3, 0), (0, 3), (4, 6, 5), (2, 40_000)], ids=str)
def test_include_initial(xp, operation, shape, reverse):
    values = values_for(operation, np.random.default_rng(6), shape, np.float32)
    for axis in range(max(len(shape), 1)):
        options = {"axis": axis, "reverse": reverse}
        expected, bound = scan_reference(operation, values, np.float32, initial=True, **options)
        out = Poisoned(xp, expected.shape, np.float32)
        STANDARD[operation](xp.asarray(values), include_initial=True, out=out.array, **options)
        assert_close(out.read(), expected, bound)


@operations
def test_standard_functions_are_the_plain_ones(xp, operation):
    values = values_for(operation, np.random.default_rng(7), (4, 5), np.int16)
    plain = SCANS[operation](xp.asarray(values), 1, np.int32, reverse=True, exclusive=True)
    standard = STANDARD[operation](xp.asarray(values), axis=1, dtype=np.int32, reverse=True, exclusive=True)
    assert_same_bits(xp.to_numpy(standard), xp.to_numpy(plain))


def test_standard_functions_need_no_axis_for_one_dimension(xp):
    assert xp.to_numpy(cumulative_sum(xp.asarray(np.arange(4)))).tolist() == [0, 1, 3, 6]
    assert xp.to_numpy(cumulative_prod(xp.asarray(np.array(4)))).tolist() == [4]


# Layouts in memory.


@operations
@all_patterns
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16, np.complex128])
def test_layout_of_input_and_output(xp, operation, pattern, dtype):
    """Any strides of both give the bits that contiguous arrays give, and nothing around the output is touched."""
    values = values_for(operation, np.random.default_rng(8), (6, 35, 9), dtype)
    for axis in (None, 0, 1, 2):
        expected = xp.to_numpy(SCANS[operation](xp.asarray(values), axis))
        assert_scan(expected, operation, values, expected.dtype, axis=axis)
        out = Poisoned(xp, expected.shape, expected.dtype, pattern)
        SCANS[operation](place(xp, values, pattern), axis, out=out.array)
        assert_same_bits(out.read(), expected)


@all_patterns
@pytest.mark.parametrize("shape", [(5000,), (3, 5000), (5000, 3)], ids=str)
def test_layout_of_long_lines(xp, pattern, shape):
    values = random(np.random.default_rng(9), shape, np.float32)
    for axis in range(len(shape)):
        expected = xp.to_numpy(cumsum(xp.asarray(values), axis, reverse=True))
        result = cumsum(place(xp, values, pattern), axis, reverse=True)
        assert_same_bits(xp.to_numpy(result), expected)


@directions
@pytest.mark.parametrize(
    ("dtype", "summed"), [("int8", "int64"), ("bool", "int64"), ("int16", "int16"), ("float16", "float32")]
)
@pytest.mark.parametrize("shape", [(66_005,), (66_000,), (2, 40_008), (40_000, 3), (3_000, 64)], ids=str)
def test_long_lines_whose_chunks_are_shorter_than_a_vector(xp, dtype, summed, shape, reverse):
    """Chunks may lie dense and aligned, and yet half of them begin in the middle of what is copied in one piece."""
    values = np.random.default_rng(12).integers(0, 2, shape).astype(dtype)
    axis = shape.index(max(shape))
    ordered = np.flip(values, axis) if reverse else values
    sums = np.cumsum(ordered, axis, dtype=np.int64)
    expected = np.flip(sums, axis) if reverse else sums
    for pattern in ("contiguous", "offset by half a vector", "offset by an element"):
        result = cumsum(place(xp, values, pattern), axis, dtype=summed, reverse=reverse)
        np.testing.assert_array_equal(xp.to_numpy(result), expected.astype(summed))


@directions
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("shape", [(66_001,), (2, 40_008), (2, 33_333)], ids=str)
@pytest.mark.parametrize(
    ("stored", "dtype"),
    [("int8", "int64"), ("uint8", "int32"), ("bool", "int64"), ("int16", "int64"), ("uint16", "uint32")],
)
def test_long_lines_that_are_summed_in_more_bytes(xp, stored, dtype, shape, exclusive, reverse):
    """The sums of a row are the largest and the least that fit two or three bytes."""
    limits = (0, 1) if stored == "bool" else (np.iinfo(stored).min, np.iinfo(stored).max)
    values = np.random.default_rng(13).choice(np.repeat(limits, (9, 1)), shape)
    values.reshape(-1)[: values.size // 2] = limits[1]
    check(xp, "sum", values.astype(stored), dtype, axis=-1, exclusive=exclusive, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("stored", "dtype", "shape"),
    [
        (np.int8, np.int64, (1500, 70)),
        (np.uint8, np.int64, (1400, 192)),
        (np.int16, np.uint64, (1300, 72)),
        (np.int32, np.int64, (1301, 67)),
        (np.float32, np.float64, (900, 99)),
    ],
)
def test_columns_of_wider_outputs(xp, stored, dtype, shape, reverse):
    values = values_for("sum", np.random.default_rng(29), shape, np.dtype(stored))
    check(xp, "sum", values, dtype, axis=0, reverse=reverse)


@directions
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        *[((66_001,), 0), ((2, 40_008), 1), ((3, 2051), 1), ((70, 33), 1), ((9, 5), 0), ((1300, 72), 0)],
        *[((1301, 67), 0), ((900, 16), 0), ((40, 3, 130), 0), ((5, 300, 64), 1), ((2, 700, 3), 1)],
        *[((3, 64, 40), 1), ((3, 128, 64), 1)],
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("stored", "dtype"),
    [(np.float64, np.float32), (np.float32, np.float16), (np.float64, np.float16), (np.int64, np.int32)],
)
def test_values_narrower_than_inputs(xp, stored, dtype, shape, axis, exclusive, reverse):
    values = values_for("sum", np.random.default_rng(47), shape, np.dtype(stored))
    check(xp, "sum", values, dtype, axis=axis, exclusive=exclusive, reverse=reverse)


@directions
@pytest.mark.parametrize("pattern", ["contiguous", "offset by an element"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((33_001,), 0), ((2, 20_008), 1), ((3, 2051), 1), ((4, 385), 1), ((70, 33), 1), ((3, 64, 40), 1), ((1301, 67), 0)],
    ids=str,
)
@pytest.mark.parametrize(
    ("stored", "dtype", "out_dtype"),
    [
        (np.float32, np.float16, np.float32),
        (np.float64, np.float32, np.float64),
        (np.float64, np.float16, np.float32),
        (np.int64, np.int32, np.int64),
    ],
)
def test_values_narrower_than_inputs_and_outputs(xp, stored, dtype, out_dtype, shape, axis, pattern, reverse):
    values = values_for("sum", np.random.default_rng(48), shape, np.dtype(stored))
    out = Poisoned(xp, shape, np.dtype(out_dtype), pattern)
    cumsum(place(xp, values, pattern), axis, dtype, out.array, reverse=reverse)
    assert_scan(out.read().astype(dtype), "sum", values, np.dtype(dtype), axis=axis, reverse=reverse)


@pytest.mark.parametrize("columns", [31, 32, 33, 63, 64, 65, 97, 127, 128, 129])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32])
def test_contiguous_columns_as_narrow_as_a_warp_and_not(xp, columns, dtype):
    check(xp, "sum", values_for("sum", np.random.default_rng(41), (1100, columns), np.dtype(dtype)), dtype, axis=0)


@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.complex64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((2, 30, 7), 0),
        ((9, 1, 35), 1),
        ((300, 2, 3), 0),
        ((5, 40, 6, 9), 1),
        ((700, 3, 11), 0),
        ((64, 1), 1),
        ((1, 90), 0),
        ((1, 1031), 0),
        ((519, 1), 1),
        ((7, 1, 11), 1),
    ],
    ids=str,
)
def test_axes_beside_the_scanned_one(xp, shape, axis, dtype):
    """Together they are runs of which each axis alone is but a part."""
    values = values_for("sum", np.random.default_rng(53), shape, np.dtype(dtype))
    check(xp, "sum", values, dtype, axis=axis)
    check(xp, "sum", values, dtype, axis=axis, reverse=True, exclusive=True)


#: As many columns of a thread as in large rows: 16, 8 and 4 of them, and the last thread of a single row with less.
@directions
@exclusions
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1, 5003), np.int8),
        ((3, 2064), np.int8),
        ((13, 1040), np.int8),
        ((29, 1048), np.uint8),
        ((23, 520), np.float16),
    ],
    ids=str,
)
def test_threads_of_many_columns_have_the_bits_of_padded_rows(xp, monkeypatch, shape, dtype, exclusive, reverse):
    monkeypatch.setattr(short_columns, "_LEAST_ROW_BYTES", 1)
    values = values_for("sum", np.random.default_rng(62), shape, np.dtype(dtype))
    out = Poisoned(xp, shape, np.dtype(dtype))
    check(xp, "sum", values, dtype, out, axis=0, exclusive=exclusive, reverse=reverse)
    padded = cumsum(place(xp, values, "padded lines"), 0, dtype, exclusive=exclusive, reverse=reverse)
    assert_same_bits(out.read(), xp.to_numpy(padded))


@directions
@exclusions
@pytest.mark.parametrize("pattern", ["contiguous", "offset by an element", "padded lines"])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", [(300, 5), (97, 17), (61, 33), (40, 65), (9, 255)], ids=str)
def test_short_lines_of_any_address_where_they_fill_all_blocks(xp, shape, dtype, pattern, exclusive, reverse):
    values = values_for("sum", np.random.default_rng(64), shape, np.dtype(dtype))
    out = Poisoned(xp, shape, np.dtype(dtype))
    with xp.planned_for(multiprocessors=1):
        cumsum(place(xp, values, pattern), 1, dtype, out.array, exclusive=exclusive, reverse=reverse)
    assert_scan(out.read(), "sum", values, np.dtype(dtype), axis=1, exclusive=exclusive, reverse=reverse)
    others = cumsum(xp.asarray(values), 1, dtype, exclusive=exclusive, reverse=reverse)
    assert_same_bits(out.read(), xp.to_numpy(others))


#: Of two chunks to four.
@directions
@exclusions
@pytest.mark.parametrize("shape", [(700, 9), (67, 12), (301, 15), (203, 18), (97, 20), (130, 26), (61, 30)], ids=str)
def test_lines_of_a_few_chunks_of_halves_have_the_bits_of_padded_rows(xp, shape, exclusive, reverse):
    values = _order_counts(shape)
    out = Poisoned(xp, shape, np.dtype(np.float16))
    cumsum(xp.asarray(values), 1, out=out.array, exclusive=exclusive, reverse=reverse)
    padded = cumsum(place(xp, values, "padded lines"), 1, exclusive=exclusive, reverse=reverse)
    assert_same_bits(out.read(), xp.to_numpy(padded))


def _order_counts(shape: tuple[int, int]) -> np.ndarray:
    """Halves of which most lines have other running sums if they are added up from left to right: large ones leave
    nothing but what the small ones between them were rounded to."""
    draw = np.random.default_rng(63)
    large, small = draw.choice([-4096, 4096], shape), draw.uniform(-0.01, 0.01, shape)
    values = np.where(draw.random(shape) < 0.5, large, small).astype(np.float16)
    from_left = np.cumsum(values, 1, np.float32).astype(np.float16)
    assert np.any(from_left != cumsum(values, 1), 1).mean() > 0.1
    return values


#: Outer axis, steps and columns: a part of a row of the tree, and several; blocks with a part of their panels; panels
#: of an odd number of bytes; and more columns than a warp has lanes.
PANELS = [(70, 16, 3), (300, 5, 2), (33, 31, 5), (41, 33, 3), (19, 64, 3), (7, 200, 5), (5, 1111, 2), (9, 20, 33)]


@directions
@exclusions
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", PANELS, ids=str)
def test_panels_have_the_bits_of_padded_rows(xp, shape, dtype, exclusive, reverse):
    values = values_for("sum", np.random.default_rng(61), shape, np.dtype(dtype))
    out = Poisoned(xp, shape, np.dtype(dtype))
    check(xp, "sum", values, dtype, out, axis=1, exclusive=exclusive, reverse=reverse)
    padded = cumsum(place(xp, values, "padded lines"), 1, dtype, exclusive=exclusive, reverse=reverse)
    assert_same_bits(out.read(), xp.to_numpy(padded))


@pytest.mark.parametrize(
    ("stored", "dtype"),
    [(np.int8, np.int64), (np.int64, np.int8), (np.uint16, np.uint16), (np.float16, np.complex64), (np.int8, np.int8)],
    ids=str,
)
@pytest.mark.parametrize("pattern", ["contiguous", "offset by an element", "offset by a byte"])
def test_panels_of_other_outputs_that_begin_anywhere(xp, stored, dtype, pattern):
    values = values_for("sum", np.random.default_rng(62), (37, 21, 3), np.dtype(stored))
    for source in ("contiguous", pattern):
        out = Poisoned(xp, values.shape, np.dtype(dtype), pattern)
        result = cumsum(place(xp, values, source), 1, dtype, out.array)
        assert result is out.array
        assert_scan(out.read(), "sum", values, np.dtype(dtype), axis=1)


def test_products_in_panels_and_in_place(xp):
    values = values_for("product", np.random.default_rng(63), (50, 40, 3), np.dtype(np.complex64))
    array = xp.asarray(values)
    cumprod(array, 1, out=array)
    assert_scan(xp.to_numpy(array), "product", values, np.dtype(np.complex64), axis=1)


@directions
@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int16], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", [(2, 66_007), (3, 33_334)], ids=str)
def test_long_lines_of_small_elements_that_end_anywhere(xp, dtype, shape, reverse):
    values = values_for("sum", np.random.default_rng(59), shape, np.dtype(dtype))
    for exclusive in (False, True):
        check(xp, "sum", values, dtype, axis=1, reverse=reverse, exclusive=exclusive)
    whole = cumsum(xp.asarray(values), 1, dtype=dtype, reverse=reverse)
    placed = place(xp, np.zeros_like(values), "offset by an element")
    cumsum(xp.asarray(values), 1, dtype=dtype, reverse=reverse, out=placed)
    assert_same_bits(xp.to_numpy(placed), xp.to_numpy(whole))


@pytest.mark.parametrize(("stored", "value"), [(np.uint16, 65535), (np.int16, -32768)])
def test_columns_of_the_largest_sums_that_are_added_in_32_bits(xp, stored, value):
    check(xp, "sum", np.full((1 << 15, 3), value, stored), np.int64, axis=0)


#: What is turned in shared memory: whole units and parts of one, parts of a strip, several runs of lines.
TURNED_SHAPES = [(2, 70, 1104), (67, 1311), (128, 1536), (17, 530), (200, 130)]
TURNED_DTYPES = [np.float16, np.float32, np.float64, np.complex128, np.int8]
both_ways = pytest.mark.parametrize("input_turned", [False, True], ids=["turned output", "turned input"])


def scan_turned(xp, values, dtype, input_turned, along="contiguous", operation="sum", **options):
    """From an array whose elements are neighbours along the axis to one where they are so across it, or back."""
    pattern, out_pattern = (along, "rolled axes") if input_turned else ("rolled axes", along)
    shape = scan_reference(operation, values, dtype, axis=-1, initial=options.get("include_initial", False))[0].shape
    out = Poisoned(xp, shape, dtype, out_pattern)
    STANDARD[operation](place(xp, values, pattern), axis=-1, dtype=dtype, out=out.array, **options)
    return out.read()


@both_ways
@pytest.mark.parametrize(("dtype", "shape"), list(zip(TURNED_DTYPES, TURNED_SHAPES, strict=True)), ids=str)
@pytest.mark.parametrize("options", [{}, {"reverse": True, "exclusive": True}], ids=["forward", "reverse, exclusive"])
def test_turned_between_input_and_output(xp, input_turned, shape, dtype, options):
    dtype = np.dtype(dtype)
    values = values_for("sum", np.random.default_rng(30), shape, dtype)
    turned = scan_turned(xp, values, dtype, input_turned, **options)
    assert_scan(turned, "sum", values, dtype, axis=-1, **options)
    plain = Poisoned(xp, shape, dtype)
    cumsum(xp.asarray(values), -1, dtype, plain.array, **options)
    assert_same_bits(turned, plain.read())


@both_ways
@pytest.mark.parametrize("along", ["offset by a byte", "offset by an element", "every second line", "padded lines"])
@pytest.mark.parametrize("reverse", [False, True])
def test_turned_lines_that_begin_anywhere(xp, input_turned, along, reverse):
    values = values_for("product", np.random.default_rng(31), (3, 40, 1032), np.int32)
    turned = scan_turned(xp, values, np.int32, input_turned, along, "product", reverse=reverse)
    assert_scan(turned, "product", values, np.int32, axis=-1, reverse=reverse)


@both_ways
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("stored", "dtype"), [(np.int8, np.int64), (np.float16, np.float32), (np.int64, np.int16)])
def test_turned_and_converted(xp, input_turned, stored, dtype, reverse):
    values = values_for("sum", np.random.default_rng(32), (45, 1032), np.dtype(stored))
    turned = scan_turned(xp, values, np.dtype(dtype), input_turned, reverse=reverse)
    assert_scan(turned, "sum", values, np.dtype(dtype), axis=-1, reverse=reverse)


@pytest.mark.parametrize(
    ("stored", "dtype", "shape"),
    [(np.float32, np.complex128, (40, 1030)), (np.int8, np.int64, (70, 9000))],
    ids=["complex128", "int64"],
)
def test_turned_where_accumulators_leave_room_for_short_units_alone(xp, stored, dtype, shape):
    values = values_for("sum", np.random.default_rng(34), shape, np.dtype(stored))
    with xp.planned_for(shared_bytes_per_block=99 * 1024):
        turned = scan_turned(xp, values, np.dtype(dtype), input_turned=True)
    assert_scan(turned, "sum", values, np.dtype(dtype), axis=-1)


@both_ways
@pytest.mark.parametrize("reverse", [False, True])
def test_turned_with_an_initial_value(xp, input_turned, reverse):
    values = values_for("sum", np.random.default_rng(33), (40, 1100), np.dtype(np.float32))
    turned = scan_turned(xp, values, np.dtype(np.float32), input_turned, include_initial=True, reverse=reverse)
    assert_scan(turned, "sum", values, np.dtype(np.float32), axis=-1, initial=True, reverse=reverse)


@all_patterns
@pytest.mark.parametrize("shape", [(6,), (6, 5), (4, 5, 6), (3, 1, 4), (5, 4, 1), (2, 3, 2, 5)], ids=str)
def test_results_lie_in_memory_as_numpys(xp, pattern, shape):
    values = random(np.random.default_rng(21), shape, np.float32)
    array, on_host = place(xp, values, pattern), place(Host, values, pattern)
    for axis in range(len(shape)):
        expected = np.cumsum(on_host, axis, dtype=np.float64)
        result = cumsum(array, axis, dtype=np.float64)
        assert result.strides == expected.strides
        assert_same_bits(xp.to_numpy(result), xp.to_numpy(cumsum(xp.asarray(values), axis, dtype=np.float64)))
        if 1 not in shape:  # where a size of 1 lies is of no consequence, and the two functions of NumPy differ
            initial = cumulative_sum(array, axis=axis, include_initial=True)
            assert initial.strides == np.cumulative_sum(on_host, axis=axis, include_initial=True).strides


@pytest.mark.parametrize("stored", [(1, 1, 4), (2, 1, 4), (2, 3, 1), (1, 3, 1), (1, 1, 1)])
def test_results_of_broadcast_inputs_lie_in_memory_as_numpys(xp, stored):
    values = np.ones(stored, np.float32)
    for axes in permutations(range(3)):
        view = xp.broadcast_to(xp.asarray(values), (2, 3, 4)).transpose(axes)
        expected = np.cumsum(np.broadcast_to(values, (2, 3, 4)).transpose(axes), 1)
        result = cumsum(view, 1)
        assert result.strides == expected.strides
        np.testing.assert_array_equal(xp.to_numpy(result), expected)


def test_a_flattened_result_is_contiguous(xp):
    array = xp.asarray(np.ones((3, 4), np.float32)).T
    assert cumsum(array).strides == (4,)
    assert cumsum(array[:0], 1).shape == (0, 3)


@pytest.mark.parametrize(("stored", "shape"), [((1,), (1000,)), ((3, 1), (3, 1000)), ((1, 7), (900, 7)), ((), (4, 5))])
def test_broadcast_input(xp, stored, shape):
    values = random(np.random.default_rng(10), stored, np.float32)
    view = xp.broadcast_to(xp.asarray(values), shape)
    for axis in (None, *range(len(shape))):
        expected = np.broadcast_to(values, shape)
        assert_scan(xp.to_numpy(cumsum(view, axis)), "sum", expected, np.float32, axis=axis)


@operations
@directions
@exclusions
@all_patterns
def test_in_place(xp, operation, pattern, reverse, exclusive):
    values = values_for(operation, np.random.default_rng(11), (5, 300, 3), np.float32)
    for axis in range(3):
        array = place(xp, values, pattern)
        assert SCANS[operation](array, axis, out=array, reverse=reverse, exclusive=exclusive) is array
        expected = SCANS[operation](xp.asarray(values), axis, reverse=reverse, exclusive=exclusive)
        assert_same_bits(xp.to_numpy(array), xp.to_numpy(expected))


@exclusions
def test_in_place_over_many_tiles_and_flattened(xp, exclusive):
    values = random(np.random.default_rng(12), (700, 1001), np.int64)
    array = xp.asarray(values)
    flat = array.reshape(-1)
    cumsum(array, out=flat, exclusive=exclusive)
    assert_scan(xp.to_numpy(flat), "sum", values, np.int64, axis=None, exclusive=exclusive)


def test_in_place_with_another_value_dtype(xp):
    array = xp.asarray(np.full(300, 100, np.int8))
    cumsum(array, out=array)
    np.testing.assert_array_equal(xp.to_numpy(array), np.cumsum(np.full(300, 100)).astype(np.int8))


# Accuracy and special values.


@pytest.mark.backend("cpu", "cuda")  # the executor takes a minute for so many
def test_float32_ones_count_on(xp):
    result = cumsum(xp.asarray(np.ones(2**24 + 2**10, np.float32)))
    assert xp.to_numpy(result[-1025:]).astype(np.int64).max() == 2**24 + 2**10


@pytest.mark.large
def test_float32_ones_count_to_2_28(xp):
    ones = xp.asarray(np.ones(2**28, np.float32))
    cumsum(ones, out=ones)
    assert xp.to_numpy(ones[-1:])[0] == 2**28


@pytest.mark.large
def test_more_than_2_31_elements(xp):
    n = 2**31 + 5
    ones = xp.asarray(np.ones(n, np.uint8))
    cumsum(ones, dtype=np.uint8, out=ones)
    assert xp.to_numpy(ones[-6:]).tolist() == [(n - i) % 256 for i in range(5, -1, -1)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_error_grows_with_the_logarithm(xp, dtype):
    """Adding a million tenths one after the other is off by thousands of times what a tree may be off by."""
    check(xp, "sum", np.full(100_003 if xp.name == "emulated" else 1_000_003, 0.1, dtype))


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.itemsize == 2], ids=str)
def test_halves_do_not_stagnate(xp, dtype):
    """Adding ones in the type itself would stop at 2048 (float16) or 256 (bfloat16)."""
    result = xp.to_numpy(cumsum(xp.asarray(np.ones(30_000, dtype)))).astype(np.float64)
    count = np.arange(1.0, 30_001)
    np.testing.assert_array_equal(result, count.astype(np.float32).astype(dtype).astype(np.float64))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [5, 3000, 40_000])
def test_nan_and_infinity_spread_forwards_only(xp, dtype, n):
    values = np.ones(n, dtype)
    at = n // 2
    values[at] = np.nan
    result = xp.to_numpy(cumprod(xp.asarray(values)))
    assert (result[:at] == 1).all()
    assert np.isnan(result[at:]).all()
    values[at], values[-1] = np.inf, -np.inf
    sums = xp.to_numpy(cumsum(xp.asarray(values))).astype(np.float64)
    assert np.isfinite(sums[:at]).all()
    assert np.isposinf(sums[at:-1]).all()
    assert np.isnan(sums[-1])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 7, 5000])
def test_negative_zero_is_kept(xp, dtype, n):
    """An inclusive sum of negative zeros adds nothing else: no hidden +0 may turn the sign."""
    result = xp.to_numpy(cumsum(xp.asarray(np.full(n, -0.0, dtype)))).astype(np.float64)
    assert (result == 0).all()
    assert np.signbit(result).all()
    exclusive = xp.to_numpy(cumsum(xp.asarray(np.full(n, -0.0, dtype)), exclusive=True)).astype(np.float64)
    assert not np.signbit(exclusive[0])


@pytest.mark.parametrize(
    ("dtype", "smallest"), [(np.float16, 2.0**-24), (np.float32, 2.0**-149), (np.float64, 2.0**-1074)]
)
def test_subnormals_are_kept(xp, dtype, smallest):
    steps = np.random.default_rng(13).integers(-3, 4, 400)
    result = cumsum(xp.asarray((steps * smallest).astype(dtype)))
    np.testing.assert_array_equal(xp.to_numpy(result).astype(np.float64), np.cumsum(steps) * smallest)
    halved = cumprod(xp.asarray(np.array([smallest * 8, 0.5, 0.5, 0.5], dtype)))
    np.testing.assert_array_equal(xp.to_numpy(halved).astype(np.float64), smallest * np.array([8, 4, 2, 1]))


@pytest.mark.schedule("reversed")
@operations
@directions
def test_lines_of_more_than_a_thousand_tiles(xp, operation, reverse):
    """Integers of 8 bytes have tiles of 2048 elements; carries of 1024 tiles are computed at a time."""
    values = values_for(operation, np.random.default_rng(30), (1100 * 2048 + 5,), np.int64) | 1
    check(xp, operation, values, axis=0, reverse=reverse)
    offsets = random_offsets(np.random.default_rng(31), values.size, 3)
    check_segments(xp, operation, values, offsets, reverse=reverse)


# Reproducibility.


@operations
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("shape", [(300_007,), (7, 20_001), (20_001, 7)], ids=str)
def test_same_bits_every_time(xp, operation, dtype, shape):
    array = xp.asarray(values_for(operation, np.random.default_rng(14), shape, dtype))
    for axis in range(len(shape)):
        first = xp.to_numpy(SCANS[operation](array, axis))
        for _ in range(3):
            assert_same_bits(xp.to_numpy(SCANS[operation](array, axis)), first)


@operations
@exclusions
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
@pytest.mark.parametrize("shape", [(100_003,), (3, 9001), (9001, 3), (20, 33, 40)], ids=str)
def test_reverse_mirrors_forward(xp, operation, exclusive, dtype, shape):
    values = values_for(operation, np.random.default_rng(15), shape, dtype)
    for axis in range(len(shape)):
        backward = SCANS[operation](xp.asarray(values), axis, reverse=True, exclusive=exclusive)
        forward = SCANS[operation](xp.asarray(np.flip(values, axis)), axis, exclusive=exclusive)
        assert_same_bits(xp.to_numpy(backward), np.flip(xp.to_numpy(forward), axis))


@directions
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex128], ids=lambda t: t.__name__)
@pytest.mark.parametrize("shape", [(9,), (3 * 8192 + 77,), (40, 9000), (9000, 40), (40, 20)], ids=str)
def test_exclusive_is_inclusive_shifted(xp, shape, dtype, reverse):
    """To the last bit, also where an element ends a chunk, a row or a tile of the GPU's tree."""
    x = xp.asarray(random(np.random.default_rng(29), shape, dtype))
    for axis in range(len(shape)):
        inclusive, exclusive = (
            np.moveaxis(xp.to_numpy(cumsum(x, axis, reverse=reverse, exclusive=choice)), axis, 0)
            for choice in (False, True)
        )
        if reverse:
            inclusive, exclusive = inclusive[::-1], exclusive[::-1]
        assert_same_bits(exclusive[1:], inclusive[:-1])


# Segments.


def segment_reference(operation, values, offsets, dtype, **options):
    """Every segment scanned by itself, and the errors allowed."""
    pieces = [
        scan_reference(operation, values[start:end], dtype, **options)
        for start, end in pairwise(offsets)
        if end > start
    ] or [scan_reference(operation, values, dtype, **options)]
    results, bounds = zip(*pieces, strict=True)
    return np.concatenate(results), None if bounds[0] is None else np.concatenate(bounds)


def check_segments(xp, operation, values, offsets, device_offsets=True, **options):
    dtype = default_dtype(values.dtype)
    out = Poisoned(xp, values.shape, dtype)
    offsets = np.asarray(offsets)
    given = xp.asarray(offsets) if device_offsets else offsets
    assert SEGMENTED[operation](xp.asarray(values), given, out=out.array, **options) is out.array
    assert_close(out.read(), *segment_reference(operation, values, offsets, dtype, **options))


def random_offsets(rng, n, segments):
    return np.concatenate([[0], np.sort(rng.integers(0, n + 1, segments - 1)), [n]])


@operations
@directions
@exclusions
@all_dtypes
def test_segments_of_every_dtype(xp, operation, dtype, reverse, exclusive):
    rng = np.random.default_rng(16)
    values = values_for(operation, rng, (2000,), dtype)
    check_segments(xp, operation, values, random_offsets(rng, 2000, 60), reverse=reverse, exclusive=exclusive)


SEGMENTATIONS = {
    "one": lambda n: [0, n],
    "each element": lambda n: np.arange(n + 1),
    "empty at both ends": lambda n: [0, 0, 0, n // 3, n // 3, n, n, n],
    "one huge between tiny": lambda n: [*range(50), n - 49, *range(n - 48, n + 1)],
    "skewed": lambda n: [0, *np.minimum(n, np.cumsum(2 ** np.arange(20))), n],
    "pairs": lambda n: [*range(0, n, 2), n],
}


@pytest.mark.parametrize("segmentation", SEGMENTATIONS)
@pytest.mark.parametrize("n", [100, 1024, 4097, 30_011])
@directions
@exclusions
def test_segmentations(xp, segmentation, n, reverse, exclusive):
    values = random(np.random.default_rng(n), (n,), np.int32)
    check_segments(xp, "sum", values, SEGMENTATIONS[segmentation](n), reverse=reverse, exclusive=exclusive)


def test_many_long_segments(xp):
    rng = np.random.default_rng(17)
    check_segments(xp, "sum", random(rng, (400_003,), np.float32), random_offsets(rng, 400_003, 37))


def test_no_segments_and_only_empty_ones(xp):
    check_segments(xp, "sum", np.zeros(0, np.float32), [0])
    check_segments(xp, "product", np.zeros(0, np.float32), [0, 0, 0])


@pytest.mark.parametrize("offsets_dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_offsets_dtypes_on_host_and_device(xp, offsets_dtype):
    values, offsets = np.arange(1, 10, dtype=np.int64), np.array([0, 4, 4, 9], offsets_dtype)
    for device_offsets in (False, True):
        check_segments(xp, "product", values, offsets, device_offsets)
    assert xp.to_numpy(segmented_cumsum(xp.asarray(values), [0, 4, 4, 9])).tolist() == [1, 3, 6, 10, 5, 11, 18, 26, 35]


def test_lists_of_signed_and_unsigned_offsets(xp):
    values = xp.asarray(np.array([1, 2, 3]))
    assert xp.to_numpy(segmented_cumsum(values, [0, np.uint64(1), np.int8(3)])).tolist() == [1, 2, 5]
    for offsets in ([0, 2**63, 3], [0, 2**70]):
        with pytest.raises(ValueError, match=r"offsets\[1\] is \d+, past the end of a"):
            segmented_cumsum(values, offsets)
    with pytest.raises(ValueError, match=r"offsets\[0\]"):
        segmented_cumsum(values, [-(2**70), 3])


def test_nan_stays_in_its_segment(xp):
    values = np.ones(10_000, np.float32)
    values[2500], values[7500] = np.nan, np.inf
    result = xp.to_numpy(segmented_cumsum(xp.asarray(values), [0, 3000, 6000, 8000, 10_000]))
    assert np.isfinite(result[:2500]).all()
    assert np.isnan(result[2500:3000]).all()
    assert np.isfinite(result[3000:7500]).all()
    assert np.isinf(result[7500:8000]).all()
    assert np.isfinite(result[8000:]).all()


@all_patterns
def test_layout_of_segments(xp, pattern):
    rng = np.random.default_rng(18)
    values, offsets = random(rng, (6000,), np.float32), random_offsets(rng, 6000, 20)
    expected = xp.to_numpy(segmented_cumsum(xp.asarray(values), offsets))
    out = Poisoned(xp, (6000,), np.float32, pattern)
    segmented_cumsum(place(xp, values, pattern), place(xp, offsets, pattern), out=out.array)
    assert_same_bits(out.read(), expected)


@directions
@exclusions
def test_segments_in_place_are_reproducible(xp, reverse, exclusive):
    rng = np.random.default_rng(19)
    values, offsets = random(rng, (100_003,), np.float32), random_offsets(rng, 100_003, 300)
    options = {"reverse": reverse, "exclusive": exclusive}
    expected = xp.to_numpy(segmented_cumsum(xp.asarray(values), offsets, **options))
    for _ in range(3):
        array = xp.asarray(values)
        segmented_cumsum(array, offsets, out=array, **options)
        assert_same_bits(xp.to_numpy(array), expected)


def test_any_truth_value_asks_for_the_initial_value(xp):
    a = np.arange(5)
    for truth in (2, "yes", np.True_):
        assert xp.to_numpy(cumulative_sum(xp.asarray(a), include_initial=truth)).tolist() == [0, 0, 1, 3, 6, 10]
    assert xp.to_numpy(cumulative_sum(xp.asarray(a), include_initial=None)).tolist() == [0, 1, 3, 6, 10]
