"""Computes every step on the GPU, or on the CPU where there is none, checks it, and draws a picture."""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cudml import info

try:
    from cudml.demo import picture, samples
    from cudml.demo.steps import Step, steps
except ModuleNotFoundError:
    raise SystemExit("the demo needs Matplotlib; install it with: pip install 'cudml[demo]'") from None

_REPEATS = 5


@dataclass(frozen=True)
class Result:
    """What came out of a step."""

    step: Step
    values: np.ndarray
    milliseconds: float

    @property
    def difference(self) -> float:
        """The largest difference to the independent computation; infinite where shapes differ or a NaN came out."""
        if self.values.shape != self.step.expected.shape:
            return float("inf")
        difference = float(np.abs(self.values.astype(np.float64) - self.step.expected).max())
        return difference if np.isfinite(difference) else float("inf")

    @property
    def passed(self) -> bool:
        return self.difference <= self.step.bound


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo and returns the exit code: 1 when a difference is out of bounds."""
    parser = argparse.ArgumentParser(prog="python -m cudml.demo", description=__doc__)
    parser.add_argument("--picture", type=Path, default=Path("demo.png"), help="where to write the picture")
    options = parser.parse_args(arguments)
    problem = info.gpu_problem()
    xp = np if problem else importlib.import_module("cupy")
    print(f"Backend: {'cpu, because ' + problem if problem else 'cuda'}\n")
    loaded = samples.load()
    results = [_run(step, xp) for step in steps(loaded)]
    print(_table(results, "cpu" if problem else "cuda"))
    picture.draw(loaded, {result.step.name: result.values for result in results}, options.picture)
    print(f"\nPicture: {options.picture.resolve()}")
    return 0 if all(result.passed for result in results) else 1


def _run(step: Step, xp: Any) -> Result:
    inputs = [xp.asarray(value) for value in step.inputs]
    values = _on_host(step.compute(*inputs), xp)  # the first call compiles
    times = [_milliseconds(step, inputs, xp) for _ in range(_REPEATS)]
    return Result(step, values, statistics.median(times))


def _milliseconds(step: Step, inputs: list[Any], xp: Any) -> float:
    start = time.perf_counter()
    step.compute(*inputs)
    if xp is not np:
        xp.cuda.get_current_stream().synchronize()
    return (time.perf_counter() - start) * 1e3


def _on_host(values: Any, xp: Any) -> np.ndarray:
    return values if xp is np else xp.asnumpy(values)


def _table(results: list[Result], backend: str) -> str:
    lines = [f"{'computed':<24}{'input':<24}{'backend':<9}{'time':>10}{'difference':>13}{'bound':>10}"]
    for result in results:
        data = result.step.inputs[0]
        lines.append(
            f"{result.step.name:<24}{f'{data.dtype} {data.shape}':<24}{backend:<9}{result.milliseconds:>7.2f} ms"
            f"{result.difference:>13.2g}{result.step.bound:>10.2g}{'' if result.passed else '  OUT OF BOUNDS'}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
