"""Planted defects are found: by the modes that mutants name, and by no mode where nothing was planted."""

from __future__ import annotations

import re

import pytest
from cuda_on_cpu import requirement, schedules
from mutants import MUTANTS
from mutants.mutant import Mutant, findings
from race_cases import CASES
from race_cases.calls import LIBRARY

#: What takes the place of inline PTX on a CPU.
TWIN = "cuda_on_cpu_intrinsics.h"

if requirement():
    pytest.skip(f"kernels cannot run on this CPU: {requirement()}", allow_module_level=True)

# Python 3.12 warns of it; the child computes and sends, and needs no lock that another thread could hold.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


@pytest.mark.share(6)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_defect_is_found_by_every_mode_that_should(mutant: Mutant):
    assert [mode for mode in mutant.found_by if not any(mutant.findings(mode))] == []


@pytest.mark.share(6)
@pytest.mark.parametrize("case", sorted({mutant.case for mutant in MUTANTS}))
def test_nothing_is_found_where_nothing_was_planted(case: str):
    """In the fast modes; test_races.py sees to the checking one."""
    assert not any(findings(lambda schedule: CASES[case].run([schedule], checking=False), schedules(4)))


def test_every_defect_has_its_place():
    texts = {mutant: (mutant.folder / mutant.file).read_text() for mutant in MUTANTS}
    assert [mutant.name for mutant, text in texts.items() if text.count(mutant.old) != 1] == []


def included(file: str) -> set[str]:
    """The file, and all that it includes of the library."""
    found, left = set(), [file]
    while left:
        name = left.pop()
        found.add(name)
        left += set(re.findall(r'#include "(.+?)"', (LIBRARY / name).read_text())) - {*found, *left, TWIN}
    return found


def test_every_defect_of_the_library_is_in_what_its_case_launches():
    """Plans change with what is measured, and cases with them."""
    mutants = [mutant for mutant in MUTANTS if mutant.folder == LIBRARY]
    sources = {case: {plan.source for plan in CASES[case].plans()} for case in {mutant.case for mutant in mutants}}
    missed = [m.name for m in mutants if not any(m.file in included(source) for source in sources[m.case])]
    assert missed == []


def test_most_defects_stand_in_the_library():
    in_library = [mutant.folder == LIBRARY for mutant in MUTANTS]
    assert sum(in_library) > len(MUTANTS) / 2
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_checking_finds_what_depends_on_no_luck():
    assert [mutant.name for mutant in MUTANTS if "checking" not in mutant.found_by] == ["windows overlap"]
