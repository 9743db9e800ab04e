"""Small calls that between them reach every kernel, and every way in which the threads of one meet.

A case runs a public function of cudml, or launches one kernel, and compares with NumPy. test_races.py looks for races
in all of them; mutants plant defects that some of them must show. Sizes lie at and around the edges of chunks (16
bytes), rows (32 chunks) and tiles (64 rows); complex128 and int64 have the smallest tiles.
"""

from __future__ import annotations

from race_cases import epochs, modulus, normalization, scan
from race_cases.calls import Call, Case
from race_cases.patterns import PATTERNS

CALLS: list[Call] = [*scan.CALLS, *normalization.CALLS, *modulus.CALLS, *epochs.CALLS]
CASES: dict[str, Case] = {case.name: case for case in [*CALLS, *PATTERNS]}
