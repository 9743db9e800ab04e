"""Running sums and products: long lines, short lines, and both axes."""

from __future__ import annotations

from typing import Any

import cudml
from benchmarks import peers as libraries
from benchmarks.case import Arrays, Call, Case, filled

_GI = 1 << 30  # bytes of the input in the large cases

# (lines, length): scanned along axis 1, from very short lines to one that is a quarter of the whole.
_ROWS = (
    (67108864, 3),
    (8388608, 32),
    (2097152, 100),
    (1048576, 256),
    (65536, 4096),
    (65536, 4097),
    (8192, 32768),
    (2048, 131072),
    (256, 1048576),
    (16, 16777216),
    (3, 67108865),
)
# (length, lines): scanned along axis 0, where neighbours along the line are far apart.
_COLUMNS = (
    (256, 1048576),
    (4096, 65536),
    (65536, 4096),
    (65536, 4097),
    (1048576, 256),
    (16777216, 16),
)
_SAME_TYPE: dict[str, dict[str, Any]] = {"int32": {"dtype": "int32"}}  # NumPy's rule would sum it to int64

CASES: tuple[Case, ...] = (
    Case("cumsum", "float32", (_GI // 4,), 0),
    *(Case("cumsum", "float32", shape, 1) for shape in _ROWS),
    *(Case("cumsum", "float32", shape, 0) for shape in _COLUMNS),
    *(
        Case("cumsum", dtype, (length,), 0, _SAME_TYPE.get(dtype, {}))
        for dtype, length in (("float16", 1 << 28), ("int32", 1 << 28), ("int64", 1 << 28), ("float64", 1 << 27))
    ),
    Case("cumsum", "float32", (_GI // 4,), 0, {"reverse": True, "exclusive": True}),
    Case("cumprod", "float32", (_GI // 4,), 0),
    Case("cumprod", "float32", (65536, 4096), 1),
    Case("cumprod", "float32", (65536, 4096), 0),
    Case("cumsum", "float32", (1 << 24,), 0),
    Case("cumsum", "float32", (1 << 20,), 0),
    Case("cumsum", "float32", (32, 64), 1),
)


def arrays(case: Case, xp: Any) -> Arrays:
    # Sums stay small and products near 1, so that no float overflows or becomes subnormal.
    low, high = (0.99, 1.01) if case.op == "cumprod" else (-0.1, 0.1) if "float" in case.dtype else (-100, 100)
    return {"a": filled(xp, case.shape, case.dtype, low, high), "out": xp.empty(case.shape, case.dtype)}


def ours(case: Case, arrays: Arrays) -> Call:
    function, a, out = getattr(cudml, case.op), arrays["a"], arrays["out"]
    return lambda: function(a, axis=case.axis, out=out, **case.options)


def peers(case: Case, arrays: Arrays) -> dict[str, Call]:
    if case.options.keys() - {"dtype"}:
        return {}  # the others would need several calls for a reverse or exclusive scan
    return libraries.scan(case, arrays)


def compiled_peers(case: Case, arrays: Arrays) -> dict[str, Call]:
    return {}
