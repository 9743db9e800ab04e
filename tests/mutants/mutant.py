"""What a mutant is, and how it is found."""

from __future__ import annotations

import multiprocessing
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from cuda_on_cpu import KernelFault, Schedule, schedules
from cuda_on_cpu.compiler import CACHE
from race_cases import CASES
from race_cases.calls import EXECUTOR, LIBRARY

#: By name whether a mode is the checking one, and its schedules.
MODES: dict[str, tuple[bool, list[Schedule]]] = {
    "in order": (False, [Schedule("in order")]),
    "reversed": (False, [Schedule("reversed")]),
    "random": (False, [Schedule("random", seed) for seed in range(20)]),
    "checking": (True, schedules(6)),
}

ALL = tuple(MODES)
NOT_IN_ORDER = ("reversed", "random", "checking")
INTERLEAVED = ("random", "checking")
CHECKING = ("checking",)


@dataclass(frozen=True)
class Mutant:
    """A change of a file, as in "if (i <{+=+} count[- - 1-])", that makes a case fail in the modes named."""

    name: str
    file: str
    case: str
    found_by: tuple[str, ...]
    change: str

    @property
    def folder(self) -> Path:
        """Where the unchanged file lies."""
        return LIBRARY if (LIBRARY / self.file).exists() else EXECUTOR

    @property
    def old(self) -> str:
        return re.sub(r"\[-(.*?)-\]|\{\+.*?\+\}", r"\1", self.change, flags=re.DOTALL)

    @property
    def new(self) -> str:
        return re.sub(r"\[-.*?-\]|\{\+(.*?)\+\}", r"\1", self.change, flags=re.DOTALL)

    def plant(self) -> Path:
        """A copy of the folder with the defect, at a path of its own, so that what was compiled is found again."""
        source = (self.folder / self.file).read_text()
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: {source.count(self.old)} places of {self.file} have this text:\n{self.old}")
        copy = CACHE / "mutants" / re.sub(r"\W+", "-", self.name)
        shutil.copytree(self.folder, copy, dirs_exist_ok=True)
        (copy / self.file).write_text(source.replace(self.old, self.new))
        return copy

    def findings(self, mode: str) -> Iterator[str | None]:
        """For each schedule of the mode what it says of the defect; None where it goes unnoticed."""
        kernels = self.plant()
        checking, of_mode = MODES[mode]
        limit_s = 0 if checking else LIMIT_S
        return findings(lambda schedule: CASES[self.case].run([schedule], checking, kernels), of_mode, limit_s)


#: Without checks a schedule takes up to four seconds; a defect that has no end is found after so many of computing.
#: With them it may take 20 without any defect, and is left to the executor's own limit.
LIMIT_S = 10


def findings(
    run: Callable[[Schedule], None], schedules: Sequence[Schedule], limit_s: int = LIMIT_S
) -> Iterator[str | None]:
    """What is found wrong with a case that `run` runs, under each of these schedules; None where nothing is. A schedule
    that computes for longer than `limit_s` has no end, unless that is 0.

    A process of its own runs it: what a defect writes to memory that is not the kernel's may crash Python much later,
    in somebody else's test.
    """
    context = multiprocessing.get_context("fork")
    results, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_findings, args=(run, schedules, limit_s, sender), daemon=True)
    process.start()
    sender.close()
    try:
        for _ in schedules:
            yield results.recv()
    except EOFError:
        process.join()
        ended_by = -(process.exitcode or 0)
        if ended_by <= 0 or ended_by == signal.SIGKILL:  # an exception, which it printed, or want of memory
            raise RuntimeError(f"the process that runs a case ended with {process.exitcode}") from None
        yield f"the process was ended by signal {ended_by}"
    finally:
        process.kill()
        process.join()
        results.close()


def _send_findings(
    run: Callable[[Schedule], None], schedules: Sequence[Schedule], limit_s: int, sender: Connection
) -> None:
    for schedule in schedules:
        signal.setitimer(signal.ITIMER_PROF, limit_s)  # whose signal ends the process
        sender.send(_finding(run, schedule))


def _finding(run: Callable[[Schedule], None], schedule: Schedule) -> str | None:
    try:
        run(schedule)
    except KernelFault as fault:
        return str(fault).splitlines()[0]
    except AssertionError:
        return "wrong results"
    return None
