"""Cases of race_cases.py for scans along columns: every way to load, to share columns among lanes, and to fold.

complex128 has the smallest units, and three multiprocessors already make blocks wait for one another. Plans bundle
units only where more blocks share a strip than an emulated GPU has, so one launch is made as for many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from cuda_on_cpu.backend import SMALL_GPU, EmulatedBackend
from race_cases import Call, scan

import cudml.plan.scan_columns as columns

SHORT = [
    scan("short columns", (20, 67), np.int64, axis=0),
    scan("short columns in pairs", (3, 20, 64), np.float32, axis=1, reverse=True),
    scan("short columns with an initial value", (31, 40), np.int32, axis=0, include_initial=True, reverse=True),
    scan("columns of a few threads", (200, 40), np.int32, axis=0),
    scan("columns of some rows", (3, 250, 40), np.float64, axis=1, exclusive=True),
]

LONG = [
    scan("columns in boxes", (700, 160), np.float64, axis=0),
    scan("columns in boxes, backwards", (2, 700, 66), np.float64, axis=1, reverse=True, exclusive=True),
    scan("columns in narrow pieces", (1100, 67), np.int32, axis=0, include_initial=True),
    scan(
        "columns by elements", (700, 67), np.float16, axis=0, pattern="offset by a byte", out_pattern="offset by a byte"
    ),
    scan("columns all there are", (2500, 16), np.complex128, axis=0, operation="product"),
    scan("columns all there are, backwards", (3, 5000, 3), np.int32, axis=1, reverse=True),
    scan("columns of many units", (9000, 8), np.float32, axis=0),
    scan("columns in place", (1200, 64), np.float32, axis=0, out_pattern="same"),
    scan("columns of groups", (140_000, 2), np.complex128, axis=0),
]


@dataclass(frozen=True)
class Bundled(Call):
    """A call whose plan bundles units as for a GPU of many blocks."""

    def run_on(self, backend: EmulatedBackend) -> None:
        choose = columns.choose

        def bundled(case: Any) -> columns.Columns:
            return columns.with_stages(case, replace(choose(case), bundle=4, bundles_at_once=2))

        columns.choose = bundled  # plans are made once for each device: this one is no other test's
        try:
            super().run_on(replace(backend, device=SMALL_GPU._replace(threads_per_multiprocessor=1024)))
        finally:
            columns.choose = choose


def bundled(call: Call) -> Bundled:
    return Bundled(call.name, call.compute, call.expected, call.tolerance)


BUNDLED = [
    bundled(scan("columns in bundles", (6000, 16), np.float64, axis=0)),
    bundled(scan("columns in boxes and bundles", (3000, 70), np.float64, axis=0)),
]

COLUMNS = [*SHORT, *LONG, *BUNDLED]
