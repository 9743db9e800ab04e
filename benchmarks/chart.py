"""Draws the charts beside every file of results: `python -m benchmarks.chart`. Here those of scans and normalizations.

A row for each group of cases, in it a lane for each library, in it a dot for each case. The same results give the
same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks import host_chart, normalization, scan
from benchmarks.case import Case
from benchmarks.report import name_of
from benchmarks.svg import WIDTH, page

FOLDER = Path(__file__).resolve().parent / "results"

#: By group and by library, the percentages of all cases.
Figures = dict[str, dict[str, list[float]]]

_LIBRARIES = {
    "cudml": "#1a7f37",
    "cub": "#8250df",
    "torch_compile": "#0969da",
    "torch": "#d4622a",
    "cupy": "#57606a",
}
_NAMES = {"cudml": "cudml", "cub": "CUB", "torch_compile": "torch.compile", "torch": "torch", "cupy": "CuPy"}

#: What the files are named after, beside the results, the cases, and the title.
CHARTS = (("", scan.CASES, "Scans"), ("-normalization", normalization.CASES, "Normalizations"))

_LEFT, _RIGHT = 170, 20
_TOP, _BOTTOM = 52, 24
_LANE, _GAP = 9, 9  # heights of a lane, and between groups
_MOST = 115  # percent: reading alone is faster than copying


def figures(records: Sequence[dict[str, Any]], cases: Sequence[Case]) -> Figures:
    """Percent of a copy's speed in those of the cases that are large."""
    groups = {str(case): case.group for case in cases}
    found: Figures = {group: {} for group in groups.values() if group != "small"}
    for record in records:
        group = found.get(groups.get(name_of(record), ""))
        if group is not None:
            for library, ms in {"cudml": record["ms"], **record["peers_ms"]}.items():
                group.setdefault(library, []).append(100 * record["copy_ms"] / ms)
    return {group: libraries for group, libraries in found.items() if libraries}


def svg(results: dict[str, Any], cases: Sequence[Case], title: str) -> str:
    """The chart as the text of a file."""
    groups = figures(results["cases"], cases)
    shown = [library for library in _LIBRARIES if any(library in libraries for libraries in groups.values())]
    bottom = _TOP + sum(len(_lanes(libraries)) * _LANE + _GAP for libraries in groups.values())
    whole = f"{title} on an {results['gpu']}: percent of the speed of a copy of the same bytes, a dot for each case"
    return page(whole, bottom + _BOTTOM, [*_legend(shown), *_grid(bottom), *_rows(groups)])


def _legend(libraries: Sequence[str]) -> Iterator[str]:
    for place, library in enumerate(libraries):
        x, colour = _LEFT + 110 * place, _LIBRARIES[library]
        yield f'<circle cx="{x}" cy="36" r="4" fill="{colour}"/><text x="{x + 8}" y="40">{_NAMES[library]}</text>'


def _grid(bottom: int) -> Iterator[str]:
    for percent in range(0, 101, 20):
        x = _x(percent)
        yield f'<path d="M{x} {_TOP - 4}V{bottom}" stroke="#d0d7de"/>'
        yield f'<text x="{x}" y="{bottom + 15}" text-anchor="middle">{percent} %</text>'


def _rows(groups: Figures) -> Iterator[str]:
    y = _TOP
    for group, libraries in groups.items():
        lanes = _lanes(libraries)
        middle = y + len(lanes) * _LANE / 2 + 4
        yield f'<text x="{_LEFT - 12}" y="{middle:g}" text-anchor="end">{escape(group)}</text>'
        for library in lanes:
            yield from _lane(library, libraries[library], y + _LANE / 2)
            y += _LANE
        y += _GAP


def _lane(library: str, percentages: Sequence[float], y: float) -> Iterator[str]:
    """A line from the slowest case to the fastest, and the cases."""
    first, last = _x(min(percentages)), _x(max(percentages))
    yield f'<g fill="{_LIBRARIES[library]}" fill-opacity="0.75" stroke="{_LIBRARIES[library]}" stroke-width="0.7">'
    yield f'<path d="M{first} {y:g}H{last}"/>'
    yield from (f'<circle cx="{_x(percent)}" cy="{y:g}" r="3"/>' for percent in percentages)
    yield "</g>"


def _lanes(libraries: dict[str, list[float]]) -> list[str]:
    return [library for library in _LIBRARIES if library in libraries]


def _x(percent: float) -> float:
    return round(_LEFT + percent / _MOST * (WIDTH - _LEFT - _RIGHT), 1)


def charts(results: dict[str, Any]) -> dict[str, str]:
    """The texts of all files, by the ends of their names; of the host's times where these were measured."""
    drawn = {suffix: svg(results, cases, title) for suffix, cases, title in CHARTS}
    return drawn | ({"-host": host_chart.svg(results)} if "bare_launch_us" in results else {})


def main() -> None:
    """Writes SVG files beside every JSON file of the results, in place of those of earlier ones."""
    for path in FOLDER.glob("*.json"):
        for earlier in FOLDER.glob(f"{path.stem}*.svg"):
            earlier.unlink()
        for suffix, text in charts(json.loads(path.read_text(encoding="utf-8"))).items():
            path.with_name(f"{path.stem}{suffix}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
