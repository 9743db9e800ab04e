"""The demo runs, checks itself, and notices results that are wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from cudml.demo import __main__ as demo
from cudml.demo import samples
from cudml.demo.steps import Step, steps

ALL_STEPS = steps(samples.load())


def test_demo_succeeds_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "picture.png"
    assert demo.main(["--picture", str(path)]) == 0
    printed = capsys.readouterr().out
    assert str(path) in printed
    assert all(step.name in printed for step in ALL_STEPS)
    assert imread(path).std() > 0.1


def test_without_matplotlib_it_says_what_to_install() -> None:
    without = "import runpy, sys; sys.modules['matplotlib'] = None; runpy.run_module('cudml.demo', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "the demo needs Matplotlib; install it with: pip install 'cudml[demo]'\n"


def test_samples_are_real() -> None:
    loaded = samples.load()
    assert loaded.photograph.shape == (600, 512, 3)
    assert loaded.prices[0] == 100.34
    assert loaded.months[0] == 0
    assert loaded.months[-1] == len(loaded.volumes) == len(loaded.prices)


@pytest.mark.parametrize("step", ALL_STEPS, ids=lambda step: step.name)
def test_step_is_within_its_bound(step: Step) -> None:
    assert demo._run(step, np).passed


@pytest.mark.parametrize("step", ALL_STEPS, ids=lambda step: step.name)
@pytest.mark.parametrize("wrong", ["one value", "not a number", "shape"])
def test_step_notices_a_wrong_result(step: Step, wrong: str) -> None:
    assert not demo._run(replace(step, compute=lambda *inputs: _spoilt(step, wrong)), np).passed


def test_wrong_result_fails_the_demo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoilt = [*ALL_STEPS[:-1], replace(ALL_STEPS[-1], compute=lambda *inputs: _spoilt(ALL_STEPS[-1], "one value"))]
    monkeypatch.setattr(demo, "steps", lambda loaded: spoilt)
    assert demo.main(["--picture", str(tmp_path / "picture.png")]) == 1
    assert capsys.readouterr().out.count("OUT OF BOUNDS") == 1


def _spoilt(step: Step, wrong: str) -> np.ndarray:
    result = step.expected.copy()
    if wrong == "shape":
        return result[:-1]
    result.flat[-1] = np.nan if wrong == "not a number" else result.flat[-1] + 1.01 * step.bound + 1e-3
    return result
