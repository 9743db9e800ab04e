"""The examples in docstrings and in the README give what they say."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import cudml

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
WITH_EXAMPLES = [path for path in sorted(ROOT.glob("cudml/**/*.py")) if ">>> " in path.read_text(encoding="utf-8")]
MODULES = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in WITH_EXAMPLES]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name), extraglobs={"cudml": cudml, "np": np})
    assert results.attempted > 0
    assert results.failed == 0


def test_readme() -> None:
    """All examples in order, sharing their variables as a reader would type them."""
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(examples) == 5
    test = doctest.DocTestParser().get_doctest("\n".join(examples), {}, "README", str(README), 0)
    assert doctest.DocTestRunner().run(test).failed == 0
