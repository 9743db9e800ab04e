"""What was reached beside what is required: `python -m benchmarks.requirements [results.json]`.

A case that misses its figure is marked with <, a library that is faster than cudml with !.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.case import Case
from benchmarks.families import all_cases
from benchmarks.report import default_path, name_of


def table(records: Sequence[dict[str, Any]]) -> str:
    """A line per record: percent of the copy's speed required and reached, times, and the others' percentages."""
    cases = all_cases()
    reached = {name_of(record): 100 * record["copy_fraction"] for record in records}
    head = "percent of the speed of a copy"
    width = max(map(len, [head, *reached]))
    lines = [_line(record, _required(cases.get(name_of(record)), record, reached), width) for record in records]
    return "\n".join([f"{head:<{width}} required reached        ms   copy ms  others", *lines, _summary(lines)])


def _required(case: Case | None, record: dict[str, Any], reached: dict[str, float]) -> float | None:
    if case is None:
        return None
    roof_ms = record.get("roofs_ms", {}).get(case.roof)
    if case.required is not None and roof_ms:
        return case.required * record["copy_ms"] / roof_ms
    if case.baseline is None:
        return case.required
    baseline = reached.get(str(case.baseline))
    return None if baseline is None else baseline - case.behind


def _line(record: dict[str, Any], required: float | None, width: int) -> str:
    reached = 100 * record["copy_fraction"]
    limit = "-" if required is None else f"{required:.1f}"
    miss = "<" if required is not None and reached < required else " "
    others = [_percent(record, name, ms) for name, ms in record.get("roofs_ms", {}).items()]
    others += [_percent(record, name, ms) + "!" * (ms < record["ms"]) for name, ms in record["peers_ms"].items()]
    times = f"{record['ms']:>10.4f}{record['copy_ms']:>10.4f}"
    return f"{name_of(record):<{width}}{limit:>9}{reached:>7.1f}{miss}{times}  {', '.join(others)}".rstrip()


def _percent(record: dict[str, Any], name: str, ms: float) -> str:
    return f"{name} {100 * record['copy_ms'] / ms:.1f}"


def _summary(lines: Sequence[str]) -> str:
    missed, behind = sum("<" in line for line in lines), sum("!" in line for line in lines)
    return f"{len(lines)} cases: {missed} miss what is required (<), in {behind} another library is faster (!)"


def main(arguments: Sequence[str]) -> None:
    """Prints the table of a results file."""
    path = Path(arguments[0]) if arguments else default_path("H200")
    print(table(json.loads(path.read_text())["cases"]))


if __name__ == "__main__":
    main(sys.argv[1:])
