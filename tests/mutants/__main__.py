"""Prints under how many schedules of each mode a defect is found."""

from __future__ import annotations

import sys

from mutants import MUTANTS
from mutants.mutant import MODES


def main(part: str = "") -> None:
    """The table of the mutants whose names have this part."""
    print(f"| mutant | {' | '.join(MODES)} | what is said |\n|---|---|---|---|---|---|")
    for mutant in MUTANTS:
        if part in mutant.name:
            found = {mode: list(mutant.findings(mode)) for mode in MODES}
            counts = (f"{sum(map(bool, said))}/{len(said)}" for said in found.values())
            said = next(filter(None, found["checking"] + found["random"]), "")
            print(f"| {mutant.name} | {' | '.join(counts)} | {said} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
