"""Every kernel on small arrays of a GPU: what compute-sanitizer is to watch, which takes too long for the whole suite.

CONTRIBUTING.md says how. Without it these are tests like others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from race_cases import CALLS
from race_cases.calls import Call, assert_right

pytestmark = pytest.mark.backend("cuda")


@pytest.fixture(autouse=True)
def arrays_of_their_own() -> Iterator[None]:
    """Without CuPy's pool, in which arrays lie side by side: so what lies behind one is nobody's."""
    import cupy

    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(None)
    yield
    cupy.cuda.set_allocator(before)


def architecture_of(case: Call) -> str:
    """A part of the test's name, by which CONTRIBUTING.md leaves out what racecheck cannot follow."""
    return "sm_{}{}".format(*case.device.compute_capability)


@pytest.mark.parametrize("case", CALLS, ids=[f"{case.name}, planned for {architecture_of(case)}" for case in CALLS])
def test_right_as_planned_for_a_small_gpu(case: Call, xp: Any):
    with xp.planned_for(**case.device._asdict()):
        assert_case_is_right(case, xp)


@pytest.mark.parametrize("case", CALLS, ids=[case.name for case in CALLS])
def test_right_as_planned_for_this_gpu(case: Call, xp: Any):
    assert_case_is_right(case, xp)


def assert_case_is_right(case: Call, xp: Any) -> None:
    result = case.compute(xp.asarray)
    results = result if isinstance(result, tuple) else (result,)
    got: tuple[np.ndarray, ...] = tuple(map(xp.to_numpy, results))
    assert_right(got, case.expected(), case.tolerance)
