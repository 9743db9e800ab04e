"""The modules of cases by name."""

from __future__ import annotations

from benchmarks import modulus, normalization, scan
from benchmarks.case import Case, Family

FAMILIES: dict[str, Family] = {"scan": scan, "normalization": normalization, "modulus": modulus}


def all_cases() -> dict[str, Case]:
    """Every case by the name that its results go by."""
    return {str(case): case for family in FAMILIES.values() for case in family.CASES}
