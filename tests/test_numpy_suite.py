"""NumPy's own tests of cumsum, cumprod, cumulative_sum, cumulative_prod and fmod, run against cudml.

The test modules come with the installed NumPy; their name `np` is replaced by one that has cudml's functions in place
of NumPy's. Tests of NumPy's floating point warnings are left out: cudml gives none.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from cudml.modulus import fmod
from cudml.scan import cumprod, cumsum, cumulative_prod, cumulative_sum

FUNCTIONS = {
    "cumsum": cumsum,
    "cumprod": cumprod,
    "cumulative_sum": cumulative_sum,
    "cumulative_prod": cumulative_prod,
    "fmod": fmod,
}
SUPPORTED_FLOATS = "efd"


def numpy_tests(name: str) -> Any:
    return pytest.importorskip(name, reason=f"this NumPy was installed without its tests ({name})")


class Counted:
    """A cudml function that takes and returns NumPy arrays by way of a backend, and counts its calls."""

    def __init__(self, xp: Any, function: Any) -> None:
        self._xp, self._function, self.calls = xp, function, 0

    def __call__(self, *args: Any, out: Any = None, **options: Any) -> Any:
        self.calls += 1
        arrays = [self._xp.asarray(a) if isinstance(a, (np.ndarray, np.generic, list)) else a for a in args]
        if out is None:
            return self._xp.to_numpy(self._function(*arrays, **options))
        target = self._xp.asarray(out)
        self._function(*arrays, out=target, **options)
        out[...] = self._xp.to_numpy(target)
        return out


class NumpyWith:
    """NumPy with some names replaced."""

    def __init__(self, **replaced: Any) -> None:
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@pytest.fixture
def counted(xp):
    return {name: Counted(xp, function) for name, function in FUNCTIONS.items()}


@pytest.fixture
def function_base(monkeypatch, counted):
    if not hasattr(np, "cumulative_sum"):
        pytest.skip("the tests of NumPy before 2.1 do not take the function as an argument")
    module = numpy_tests("numpy.lib.tests.test_function_base")
    monkeypatch.setattr(module, "np", NumpyWith(**counted))
    return module


@pytest.fixture
def umath(monkeypatch, counted):
    module = numpy_tests("numpy._core.tests.test_umath")
    typecodes = {**np.typecodes, "Float": SUPPORTED_FLOATS}
    monkeypatch.setattr(module, "np", NumpyWith(**counted, typecodes=typecodes))
    return module


@pytest.mark.parametrize("name", ["cumsum", "cumulative_sum"])
def test_sums(function_base, counted, name):
    function_base.TestCumsum().test_basic(counted[name])
    assert counted[name].calls == 30


@pytest.mark.parametrize("name", ["cumprod", "cumulative_prod"])
def test_products(function_base, counted, name):
    function_base.TestCumprod().test_basic(counted[name])
    assert counted[name].calls == 24


def test_include_initial(function_base, counted):
    function_base.test_cumulative_include_initial()
    assert (counted["cumulative_sum"].calls, counted["cumulative_prod"].calls) == (2, 2)


def test_sum_undoes_difference(function_base, counted):
    function_base.TestDiff().test_prepend()
    assert counted["cumsum"].calls == 1


def test_modulus_of_special_floats(umath, counted):
    umath.TestRemainder().test_float_remainder_corner_cases()
    assert counted["fmod"].calls == 6 * len(SUPPORTED_FLOATS)


def test_modulus_of_the_least_integer_by_minus_one(umath, counted):
    case = umath.TestDivisionIntegerOverflowsAndDivideByZero()
    for dtype in np.typecodes["Integer"]:
        case.test_signed_division_overflow(dtype)
    assert counted["fmod"].calls >= 6 * len(np.typecodes["Integer"])


def test_modulus_of_all_lengths_by_minus_one(umath, counted, monkeypatch):
    case = umath.TestDivisionIntegerOverflowsAndDivideByZero()
    modulus = counted["fmod"]
    monkeypatch.setitem(case.overflow_results, modulus, case.overflow_results[np.fmod])
    pairs = list(itertools.product([np.int8, np.int16, np.int32, np.int64], repeat=2))
    for dividend, divisor in pairs:
        case.test_overflows(dividend, divisor, modulus)
    assert modulus.calls >= 128 * len(pairs)
