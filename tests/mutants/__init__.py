"""Kernels with planted defects, and the executor's modes that find them: how well tests would notice real ones.

Most are planted in the library's kernels. What these do not use (look-back, fences, barriers of the grid, clusters) is
planted in the kernels of the executor's own tests.

A mode finds a defect if under one of its schedules a case of race_cases faults or gives wrong results.
`PYTHONPATH=tests python -m mutants [part of a name]` prints under how many schedules of each mode that happens.
"""

from __future__ import annotations

from mutants import gather, modulus, normalization, patterns, scan
from mutants.mutant import Mutant

MUTANTS: list[Mutant] = [*scan.MUTANTS, *normalization.MUTANTS, *modulus.MUTANTS, *gather.MUTANTS, *patterns.MUTANTS]
