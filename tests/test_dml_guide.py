"""The example in docs/descriptors.md runs and prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "descriptors.md"


def test_guide():
    text = GUIDE.read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(examples) == 2
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("\n".join(examples), {})
    lines = printed.getvalue().splitlines()
    assert len(lines) == 2
    assert all(f"    {line}\n" in text for line in lines)
