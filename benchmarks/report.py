"""The results as a JSON file and as a table."""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path
from typing import Any

from benchmarks.case import ROOFS, Case

OURS = "cudml"
KERNELS = Path(__file__).resolve().parent.parent / "kernels"


def kernels_sha256(folder: Path = KERNELS) -> str:
    """Identifies the kernels that were measured: paths and contents of all .cu and .cuh files, in sorted order."""
    digest = hashlib.sha256()
    files = [path for path in folder.rglob("*") if path.suffix in (".cu", ".cuh")]
    for name in sorted(path.relative_to(folder).as_posix() for path in files):
        digest.update(name.encode() + b"\0" + (folder / name).read_bytes())
    return digest.hexdigest()


def default_path(gpu: str) -> Path:
    """benchmarks/results/h200.json for "NVIDIA H200"."""
    name = gpu.lower().removeprefix("nvidia").strip().replace(" ", "-")
    return Path(__file__).resolve().parent / "results" / f"{name}.json"


def name_of(record: dict[str, Any]) -> str:
    """The name of the case that a record of the results belongs to."""
    axis = tuple(record["axis"]) if isinstance(record["axis"], list) else record["axis"]
    return str(Case(record["op"], record["dtype"], tuple(record["shape"]), axis, record["options"]))


class Report:
    """Records in the order in which their cases were first measured; without a path, nothing is written."""

    def __init__(self, facts: dict[str, Any], path: Path | None) -> None:
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        self._head = {**facts, "date": today, "kernels_sha256": kernels_sha256()}
        self._records: dict[str, dict[str, Any]] = {}
        self._path = path

    def add(self, case: Case, copy_ms: float, ms: float) -> None:
        """Adds the time of cudml, and of a copy of the same bytes in the same run."""
        self._records[str(case)] = {
            "op": case.op,
            "dtype": case.dtype,
            "shape": list(case.shape),
            "axis": list(case.axis) if isinstance(case.axis, tuple) else case.axis,
            "options": case.options,
            "bytes": case.bytes,
            "copy_ms": copy_ms,
            "ms": ms,
            "copy_fraction": copy_ms / ms,
            "peers_ms": {},
        }

    def add_peer(self, case: Case, name: str, ms: float) -> None:
        """Adds the time of another library, or of a roof, to a case added before."""
        record = self._records[str(case)]
        record.setdefault("roofs_ms" if name in ROOFS else "peers_ms", {})[name] = ms

    def peers_of(self, case: Case) -> set[str]:
        """The other libraries that a case added before was measured with."""
        return set(self._records[str(case)]["peers_ms"])

    def add_host(self, case: Case, name: str, host_us: float) -> None:
        """Adds the host's time of cudml or of another library to a case added before."""
        record = self._records[str(case)]
        peers = record.setdefault("peers_host_us", {})
        if name == OURS:
            record["host_us"] = host_us
        else:
            peers[name] = host_us

    def add_bare_launch(self, host_us: float) -> None:
        """Adds the host's time of a bare launch."""
        self._head["bare_launch_us"] = host_us

    @property
    def records(self) -> list[dict[str, Any]]:
        return list(self._records.values())

    def has(self, case: Case) -> bool:
        return str(case) in self._records

    def write(self) -> None:
        """Replaces the file as a whole, so that an interrupted run leaves a valid one."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps({**self._head, "cases": self.records}, indent=1) + "\n")
        partial.replace(self._path)

    def table(self) -> str:
        """A line per case: percent of the copy's speed, then the same of the other libraries."""
        lines = [f"{'percent of the speed of a copy':<84}{'cudml':>7}  others"]
        return "\n".join([*lines, *(self._line(name, record) for name, record in self._records.items())])

    def _line(self, case: str, record: dict[str, Any]) -> str:
        times = {**record.get("roofs_ms", {}), **record["peers_ms"]}
        others = [f"{name} {100 * record['copy_ms'] / ms:.1f}" for name, ms in times.items()]
        if "host_us" in record:
            others.append(f"host {record['host_us']:.1f} us")
            others += [f"{peer} {us:.1f} us" for peer, us in record["peers_host_us"].items()]
        return f"{case:<84}{100 * record['copy_fraction']:>7.1f}  {', '.join(others)}".rstrip()
