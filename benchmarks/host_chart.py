"""Draws the chart of the host's times: how long small calls take, beside other libraries and a bare launch.

Of each call there is a bar for each library; a line stands where the bare launch of a CuPy RawKernel ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from benchmarks.svg import WIDTH, page

#: The calls that are drawn; longer lines cost the host as much.
_SHAPE = [32, 64]

_COLOURS = {"cudml": "#1a7f37", "torch": "#d4622a", "cupy": "#57606a"}
_NAMES = {"cudml": "cudml", "torch": "torch", "cupy": "CuPy"}
_SHORT = {"mean_variance_normalization": "normalization"}

_LEFT, _RIGHT = 170, 70
_TOP, _BOTTOM = 52, 14
_LANE, _GAP = 14, 9  # heights of a bar with its space, and between calls

#: By call and by library, microseconds.
Times = dict[str, dict[str, float]]


def times(records: Sequence[dict[str, Any]]) -> Times:
    """The times of the small calls."""
    found: Times = {}
    for record in records:
        if record["shape"] == _SHAPE and "host_us" in record:
            by_library = {"cudml": record["host_us"], **record.get("peers_host_us", {})}
            drawn = {library: by_library[library] for library in _COLOURS if library in by_library}
            found[_SHORT.get(record["op"], record["op"])] = drawn
    return found


def svg(results: dict[str, Any]) -> str:
    """The chart as the text of a file."""
    calls, bare = times(results["cases"]), results.get("bare_launch_us", 0.0)
    longest = max([bare, *(us for libraries in calls.values() for us in libraries.values())])
    scale = (WIDTH - _LEFT - _RIGHT) / (longest or 1.0)
    bottom = _TOP + sum(len(libraries) * _LANE + _GAP for libraries in calls.values())
    title = f"Host time of a call on (32, 64) float32 with an {results['gpu']}, in microseconds"
    return page(title, bottom + _BOTTOM, [*_calls(calls, scale), *(_bare(bare, scale, bottom) if bare else ())])


def _calls(calls: Times, scale: float) -> Iterator[str]:
    y = _TOP
    for call, libraries in calls.items():
        middle = y + len(libraries) * _LANE / 2 + 3
        yield f'<text x="{_LEFT - 12}" y="{middle:g}" text-anchor="end">{escape(call)}</text>'
        for library, us in libraries.items():
            yield _bar(library, us, round(us * scale, 1), y)
            y += _LANE
        y += _GAP


def _bar(library: str, us: float, width: float, y: int) -> str:
    return (
        f'<rect x="{_LEFT}" y="{y}" width="{width}" height="{_LANE - 2}" fill="{_COLOURS[library]}"/>'
        f'<text x="{_LEFT + width + 5:g}" y="{y + _LANE - 4}" font-size="10">{_NAMES[library]} {us:.1f}</text>'
    )


def _bare(us: float, scale: float, bottom: int) -> Iterator[str]:
    x = round(_LEFT + us * scale, 1)
    yield f'<path d="M{x} {_TOP - 6}V{bottom - _GAP + 4}" stroke="#24292f" stroke-dasharray="4 3"/>'
    yield f'<text x="{x}" y="{_TOP - 10}" text-anchor="middle">a bare launch of a RawKernel: {us:.1f}</text>'
