"""`python -m cudml info`: what is installed and whether the GPU can be used."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from cudml import info


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the subcommand that `arguments` name (default: the command line's) and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cudml", description="DirectML operators for CuPy.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("info", help="versions, GPUs, cache folder, and whether cudml can use the GPU")
    command.add_argument("--plans", action="store_true", help="also the calls that need no more planning, with hits")
    options = parser.parse_args(arguments)
    print(info.report())
    if options.plans:
        print(info.plans())
    return 0


if __name__ == "__main__":
    sys.exit(main())
