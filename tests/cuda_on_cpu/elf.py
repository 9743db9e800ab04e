"""Which variables a compiled kernel file has in shared memory, and which line an instruction comes from."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

#: The label that module.h sets for dynamic shared memory.
DYNAMIC = "cuda_on_cpu_dynamic"
# Between variables, so that running over the end of one does not end in the next; as wide as what keeps alignments.
_GAP = 128


@dataclass(frozen=True)
class Variable:
    """A variable of the thread-local image, which is what __shared__ means to g++."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class SharedLayout:
    """Where the variables of a module lie in the shared memory of a block."""

    variables: tuple[Variable, ...]
    places: np.ndarray
    """For each byte of the thread-local image, where it went."""
    static_bytes: int
    """As a GPU counts them, without gaps."""
    dynamic_place: int

    def place(self, variable: Variable) -> int:
        return int(self.places[variable.offset])


def shared_layout(library: Path) -> SharedLayout:
    """Lays out what the library's symbol table lists."""
    symbols = sorted(_thread_local(library), key=lambda variable: variable.offset)
    dynamic = {variable.offset for variable in symbols if variable.name == DYNAMIC}
    variables = [variable for variable in symbols if variable.offset not in dynamic and variable.size]
    places = np.zeros(max((v.offset + v.size for v in symbols), default=0) + 1, np.uint32)
    end = 0
    for variable in variables:
        place = end + (variable.offset - end) % _GAP
        places[variable.offset : variable.offset + variable.size] = place + np.arange(variable.size)
        end = place + variable.size + _GAP
    dynamic_place = -(-end // 1024) * 1024
    places[list(dynamic)] = dynamic_place
    return SharedLayout(tuple(variables), places, sum(v.size for v in variables), dynamic_place)


def _thread_local(library: Path) -> list[Variable]:
    table = subprocess.run(["readelf", "-sW", str(library)], capture_output=True, text=True, check=True).stdout
    found = []
    for line in table.splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[3] == "TLS" and fields[6] != "UND":
            name = DYNAMIC if fields[7] == DYNAMIC else _variable_name(fields[7])
            found.append(Variable(name, int(fields[1], 16), int(fields[2], 0)))
    return found


def _variable_name(symbol: str) -> str:
    """The last name of a mangled one: _ZZ12scan_carriesE6levels is levels."""
    local = re.search(r"E(\d+)([A-Za-z_]\w*?)(?:_\d+)?$", symbol)
    if local:
        return local[2][: int(local[1])]
    plain = re.match(r"_Z(?:L|N\w*?)?(\d+)(\w+)", symbol)
    return plain[2][: int(plain[1])] if plain else symbol


def source_line(library: Path, offset: int) -> str:
    """FILE:LINE of the instruction before `offset`, with those that it was inlined into."""
    command = ["addr2line", "-i", "-e", str(library), hex(offset - 1)]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    places = [Path(line.split(" ")[0]).name for line in lines if "/cuda_on_cpu/include/" not in line]
    known = [place for place in dict.fromkeys(places) if not place.startswith("?")]
    return " in ".join(known) or f"offset {offset:#x}"
