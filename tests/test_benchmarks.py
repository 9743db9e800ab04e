"""The benchmark harness without a GPU: what it writes, and that one failure costs one case only."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import run
from benchmarks.case import Case, filled
from benchmarks.device import Host
from benchmarks.report import Report, default_path, kernels_sha256

HEAD = {"gpu", "driver", "cuda", "cupy", "date", "kernels_sha256", "cases"}
FIELDS = {"op", "dtype", "shape", "axis", "options", "bytes", "copy_ms", "ms", "copy_fraction", "peers_ms"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict:
    path = tmp_path_factory.mktemp("results") / "folder" / "dry.json"
    assert run.main(["--dry-run", "--out", str(path)]) == 0
    return json.loads(path.read_text())


def test_results_have_the_fixed_schema(results: dict) -> None:
    assert results.keys() == HEAD
    assert results["kernels_sha256"] == kernels_sha256()
    assert {case["op"] for case in results["cases"]} == {"cumsum", "cumprod", "mean_variance_normalization", "fmod"}
    for case in results["cases"]:
        assert case.keys() == FIELDS | {"host_us"}  # every case of a dry run is small
        assert case["copy_fraction"] == case["copy_ms"] / case["ms"]
        streams = 3 if case["op"] == "fmod" else 2
        assert case["bytes"] == streams * np.empty(case["shape"], case["dtype"]).nbytes


def test_cases_are_distinct_and_cover_the_operators() -> None:
    cases = [case for family in run.FAMILIES.values() for case in family.CASES]
    assert len({str(case) for case in cases}) == len(cases)
    assert Case("cumsum", "float32", (1 << 28,), 0) in cases


def test_hash_covers_paths_and_contents_in_sorted_order(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    files = {"b.cu": b"2", "a.cuh": b"1", "more/c.cu": b"3", "ignored.txt": b"4"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert kernels_sha256(tmp_path) == hashlib.sha256(b"a.cuh\x001b.cu\x002more/c.cu\x003").hexdigest()


def test_file_is_named_after_the_gpu() -> None:
    assert default_path("NVIDIA H200").name == "h200.json"
    assert default_path("NVIDIA GeForce RTX 4090").name == "geforce-rtx-4090.json"


def test_without_a_gpu_the_reason_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run.info, "gpu_problem", lambda: "none was found")
    assert run.main([]) == 2
    assert capsys.readouterr().err == "the benchmarks need a GPU: none was found\n"


def test_one_family_only(tmp_path: Path) -> None:
    path = tmp_path / "dry.json"
    run.main(["--dry-run", "--only", "modulus", "--out", str(path)])
    assert {case["op"] for case in json.loads(path.read_text())["cases"]} == {"fmod"}


def test_failing_case_and_failing_peer_cost_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(Host().facts(), tmp_path / "dry.json")
    measured = run.Run(Host(), report, [_Family])
    measured.measure_ours()
    measured.measure_peers(deadline=float("inf"))
    assert measured.failures == 1
    (case,) = json.loads((tmp_path / "dry.json").read_text())["cases"]
    assert case["shape"] == [3]
    assert case["peers_ms"].keys() == {"good", "compiled"}
    assert capsys.readouterr().out.count("FAILED") == 2


def test_no_peer_is_begun_after_the_deadline(tmp_path: Path) -> None:
    report = Report(Host().facts(), tmp_path / "dry.json")
    measured = run.Run(Host(), report, [_Family])
    measured.measure_ours()
    measured.measure_peers(deadline=0)
    (case,) = json.loads((tmp_path / "dry.json").read_text())["cases"]
    assert case["peers_ms"] == {}


@pytest.mark.parametrize("size", [1, 5, (1 << 20) + 3])
def test_filled_reaches_the_last_element(size: int) -> None:
    array = filled(np, (size,), "float32", 1, 2)
    assert array.min() >= 1
    assert array.max() <= 2


class _Family:
    """A case that works, with a peer that does not, and a case that fails."""

    CASES = (Case("good", "float32", (3,), 0), Case("bad", "float32", (4,), 0))

    @staticmethod
    def arrays(case: Case, xp: object) -> dict:
        return {}

    @staticmethod
    def ours(case: Case, arrays: dict):
        return (lambda: None) if case.op == "good" else _fail

    @staticmethod
    def peers(case: Case, arrays: dict) -> dict:
        return {"good": lambda: None, "bad": _fail}

    @staticmethod
    def compiled_peers(case: Case, arrays: dict) -> dict:
        return {"compiled": lambda: None}


def _fail() -> None:
    raise RuntimeError("on purpose")
