"""What all charts share: a white page with a title, as the text of an SVG file."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

WIDTH = 760


def page(title: str, height: int, contents: Iterable[str]) -> str:
    """The file's text."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#24292f">',
            f"<title>{escape(title)}</title>",
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="12" y="20" font-size="14">{escape(title)}</text>',
            *contents,
            "</svg>\n",
        ]
    )
