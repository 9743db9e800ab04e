"""Measures all cases and writes the results: `python -m benchmarks.run`.

cudml comes first in every case; then the smallest cases have the other libraries and the host's times, and the others
have libraries while the time lasts, what has to be compiled last. The file is written after each case, so that a run
that is cut short loses little.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from benchmarks.case import READING, Arrays, Call, Case, Family
from benchmarks.device import ROTATIONS, Device, Gpu, Host
from benchmarks.families import FAMILIES
from benchmarks.report import OURS, Report, default_path
from benchmarks.requirements import table
from cudml import info

Peers: TypeAlias = Callable[[Case, Arrays], dict[str, Call]]


class Run:
    """One pass over the cases after the other on a device."""

    def __init__(
        self, device: Device, report: Report, families: Sequence[Family], shrink: bool = False, text: str = ""
    ) -> None:
        """Only cases that contain `text`; `shrink` for a dry run."""
        self._device = device
        self._report = report
        self._families = families
        self._shrink = shrink
        self._text = text
        self.failures = 0

    def measure_ours(self) -> None:
        """cudml and the copy; every case is measured, however long it takes."""
        for family in self._families:
            for case in self._cases(family):
                self.failures += not self._attempt(f"{case}", partial(self._ours, family, case))

    def measure_peers(self, deadline: float, host_bound: bool) -> None:
        """The other libraries, in cases that have the host's time or in the others, those that compile first last,
        until the deadline."""
        for kind in ("peers", "compiled_peers"):
            for family in self._families:
                for case in self._measured(family, host_bound):
                    if time.monotonic() > deadline:
                        print("out of time: the remaining measurements of other libraries are left out")
                        return
                    self._attempt(f"peers of {case}", partial(self._peers, family, case, getattr(family, kind)))

    def measure_hosts(self) -> None:
        """The host's time of the smallest cases, by all libraries that were measured, and of a bare launch."""
        calls = [
            (case, name, call)
            for family in self._families
            for case in self._measured(family, host_bound=True)
            for name, call in self._host_calls(family, case).items()
        ]
        bare = self._device.bare_launch()
        bare_us, *microseconds = self._device.host_microseconds([bare, *(call for _, _, call in calls)])
        self._report.add_bare_launch(bare_us)
        for (case, name, _), host_us in zip(calls, microseconds, strict=True):
            self._report.add_host(case, name, host_us)
        self._report.write()

    def _host_calls(self, family: Family, case: Case) -> dict[str, Call]:
        arrays = family.arrays(case, self._device.xp)
        peers = {**family.peers(case, arrays), **family.compiled_peers(case, arrays)}
        measured = self._report.peers_of(case)
        return {OURS: family.ours(case, arrays), **{name: peers[name] for name in peers if name in measured}}

    def _measured(self, family: Family, host_bound: bool) -> Iterator[Case]:
        """The cases of that kind that cudml was measured in."""
        measured = filter(self._report.has, self._cases(family))
        return (case for case in measured if case.is_host_bound == host_bound)

    def _cases(self, family: Family) -> Iterator[Case]:
        chosen = (case for case in family.CASES if case.matches(self._text))
        return (case.shrunk() if self._shrink else case for case in chosen)

    def _ours(self, family: Family, case: Case) -> None:
        device, rotations = self._device, range(_rotations(case))
        copies = [device.copy(case.bytes) for _ in rotations]
        calls = [family.ours(case, family.arrays(case, device.xp)) for _ in rotations]
        before, ms, after = device.milliseconds(copies), device.milliseconds(calls), device.milliseconds(copies)
        self._report.add(case, (before + after) / 2, ms)
        if case.roof == READING:
            self._peer(case, READING, [device.read(case.bytes) for _ in rotations])
        self._report.write()

    def _peers(self, family: Family, case: Case, peers: Peers) -> None:
        sets = [peers(case, family.arrays(case, self._device.xp)) for _ in range(_rotations(case))]
        for name in sets[0]:
            calls = [calls_of_set[name] for calls_of_set in sets]
            self._attempt(f"    by {name}", partial(self._peer, case, name, calls))

    def _peer(self, case: Case, name: str, calls: Sequence[Call]) -> None:
        self._report.add_peer(case, name, self._device.milliseconds(calls))
        self._report.write()

    def _attempt(self, what: str, measure: Callable[[], None]) -> bool:
        """Whether it could be measured; one case that fails must not cost the others."""
        start = time.monotonic()
        try:
            measure()
        except Exception as error:
            print(f"FAILED     {what}: {type(error).__name__}: {error}", flush=True)
            return False
        print(f"{time.monotonic() - start:7.2f} s  {what}", flush=True)
        self._device.free_memory()
        return True


def _rotations(case: Case) -> int:
    return ROTATIONS if case.is_small else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--out", type=Path, help="the JSON file to write; default: results/ and the GPU's name")
    parser.add_argument("--only", choices=FAMILIES, action="append", help="only this family; may be repeated")
    parser.add_argument("--filter", default="", metavar="TEXT", help='only cases with TEXT in group or name: "columns"')
    parser.add_argument("--table", choices=["peers", "required"], default="peers", help="what is printed at the end")
    parser.add_argument("--time-budget", type=float, default=240, help="seconds after which no peer is begun")
    parser.add_argument("--no-peers", action="store_true", help="only cudml and the copy")
    parser.add_argument("--dry-run", action="store_true", help="a few elements on the CPU, to test the harness")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line says and returns the exit code: 1 when cudml could not be measured somewhere."""
    options = _parser().parse_args(arguments)
    deadline = time.monotonic() + options.time_budget
    problem = None if options.dry_run else info.gpu_problem()
    if problem:
        print(f"the benchmarks need a GPU: {problem}", file=sys.stderr)
        return 2
    device: Device = Host() if options.dry_run else Gpu()
    facts = device.facts()
    is_part = bool(options.only or options.filter)  # which must not replace a file of all results
    path = options.out or (None if is_part else default_path(facts["gpu"]))
    report = Report(facts, path)
    families = [FAMILIES[name] for name in options.only or FAMILIES]
    run = Run(device, report, families, shrink=options.dry_run, text=options.filter)
    run.measure_ours()
    if not options.no_peers:
        run.measure_peers(deadline, host_bound=True)
    run.measure_hosts()
    if not options.no_peers:
        run.measure_peers(deadline, host_bound=False)
    print(table(report.records) if options.table == "required" else report.table())
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
