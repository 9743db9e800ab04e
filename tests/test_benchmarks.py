"""The benchmark harness without a GPU: what it writes, what its cases are, and that one failure costs one case only."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import chart, cub, device, first_call, host_chart, normalization, peers, requirements, run, scan, sweep
from benchmarks.case import HOST_BOUND_BYTES, READING, Case, filled
from benchmarks.device import Gpu, Host
from benchmarks.families import all_cases
from benchmarks.report import Report, default_path, kernels_sha256

HEAD = {"gpu", "driver", "cuda", "cupy", "bare_launch_us", "date", "kernels_sha256", "cases"}
FIELDS = {"op", "dtype", "shape", "axis", "options", "bytes", "copy_ms", "ms", "copy_fraction", "peers_ms"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict:
    path = tmp_path_factory.mktemp("results") / "folder" / "dry.json"
    assert run.main(["--dry-run", "--out", str(path)]) == 0
    return json.loads(path.read_text())


def test_results_have_the_fixed_schema(results: dict) -> None:
    assert results.keys() == HEAD
    assert results["kernels_sha256"] == kernels_sha256()
    ops = {"cumsum", "cumprod", "segmented_cumsum", "mean_variance_normalization", "mean_var", "fmod"}
    assert {case["op"] for case in results["cases"]} == ops
    for case in results["cases"]:
        roofs = {"roofs_ms"} if case["op"] == "mean_var" else set()
        assert case.keys() == FIELDS | roofs | {"host_us", "peers_host_us"}  # every case of a dry run is small
        assert case["copy_fraction"] == case["copy_ms"] / case["ms"]
        assert case["peers_host_us"].keys() == case["peers_ms"].keys()
        if case["op"] == "mean_var":
            assert case["roofs_ms"].keys() == {READING}
        elif not case["options"]:
            streams = {"fmod": 3}.get(case["op"], 2)
            widened = {"int8": 9 / 2, "int32": 3 / 2}.get(case["dtype"], 1) if case["op"] == "cumsum" else 1
            assert case["bytes"] == streams * widened * np.empty(case["shape"], case["dtype"]).nbytes


def test_cases_are_distinct_and_cover_the_operators() -> None:
    cases = [case for family in run.FAMILIES.values() for case in family.CASES]
    assert len(all_cases()) == len(cases)
    assert str(Case("cumsum", "float32", (1 << 28,), 0)) in all_cases()
    assert all(str(case.baseline) in all_cases() for case in cases if case.baseline)


@pytest.mark.parametrize("view", scan.VIEWS)
def test_bytes_of_a_view_are_those_of_the_sectors_it_touches(view: str) -> None:
    case = scan.ScanCase("cumsum", "float32", (8, 64), 1, {"view": view})
    a = scan.arrays(case, np)["a"]
    indices = np.meshgrid(*(np.arange(length) for length in a.shape), indexing="ij")
    addresses = sum(index * stride for index, stride in zip(indices, a.strides, strict=True))
    sectors = np.unique(addresses // 32)
    assert case.bytes == pytest.approx(32 * sectors.size + a.nbytes, abs=32)
    assert a.shape == case.shape


@pytest.mark.parametrize("view", scan.VIEWS)
def test_a_normalization_of_a_view_moves_what_a_scan_of_it_does(view: str) -> None:
    options = {"scale": [1, 64], "view": view}
    case = normalization.NormalizationCase("mean_variance_normalization", "float32", (8, 64), 1, options)
    scanned = scan.ScanCase("cumsum", "float32", (8, 64), 1, {"view": view})
    assert case.bytes == scanned.bytes
    x, out = (normalization.arrays(case, np)[name] for name in ("x", "out"))
    expected = scan.arrays(scanned, np)
    assert (x.strides, out.strides) == (expected["a"].strides, expected["out"].strides)


@pytest.mark.parametrize(("axis", "groups"), [(1, 30), ((0, 2), 4), ((0, 1, 2), 1)])
def test_mean_and_variance_read_everything_and_write_two_numbers_for_each_group(axis: object, groups: int) -> None:
    case = normalization.NormalizationCase("mean_var", "float16", (5, 4, 6), axis)
    assert case.bytes == 2 * (5 * 4 * 6 + 2 * groups)
    mean, variance = normalization.ours(case, normalization.arrays(case, np))()
    assert mean.size + variance.size == 2 * groups


def test_every_normalization_but_small_and_other_ones_has_a_figure_to_reach() -> None:
    others = ("other lengths", "other images", "other columns", "panels", "channels in panels")
    others += ("short groups of odd lengths", "long groups of odd lengths", "groups of channels", "joined columns")
    without = ("small", "few columns", *others, "mean and variance of halves")
    for case in normalization.CASES:
        has_one = case.required is not None or case.baseline is not None
        assert has_one == (case.group not in without), case
    features = {str(case): case.options["scale"] for case in normalization.CASES if case.group == "tiny images"}
    assert list(features.values()) == [[1, 1024, 1, 1], [1, 2048, 1, 1], [1, 1, 1, 2048]]


@pytest.mark.parametrize("segments", scan.SEGMENTS)
def test_offsets_are_valid_and_have_the_stated_mean(segments: str) -> None:
    size = 1 << 16
    case = scan.ScanCase("segmented_cumsum", "float32", (size,), 0, {"segments": segments})
    offsets = scan.offsets(case)
    lengths = np.diff(offsets)
    assert (offsets[0], offsets[-1]) == (0, size)
    assert lengths.min() >= 0
    assert lengths.mean() == {"one": size, "mean 16": 16}.get(segments, 256)
    assert case.bytes == 2 * 4 * size + offsets.nbytes
    if segments == "Pareto":
        assert lengths.max() == size / 2


def test_results_may_be_in_place_widened_or_of_a_given_type() -> None:
    case = scan.ScanCase("cumsum", "int32", (64,), 0)
    assert scan.arrays(case, np)["out"].dtype == np.int64
    same = replace(case, options={"dtype": "int32", "in_place": True})
    arrays = scan.arrays(same, np)
    assert arrays["out"] is arrays["a"]
    expected = np.cumsum(arrays["a"], dtype=np.int32)
    scan.ours(same, arrays)()
    assert (arrays["a"] == expected).all()


def test_hash_covers_paths_and_contents_in_sorted_order(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    files = {"b.cu": b"2", "a.cuh": b"1", "more/c.cu": b"3", "ignored.txt": b"4"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert kernels_sha256(tmp_path) == hashlib.sha256(b"a.cuh\x001b.cu\x002more/c.cu\x003").hexdigest()


def test_calls_take_turns_while_the_host_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_HOST_ROUNDS", 3)
    monkeypatch.setattr(device, "_HOST_CALLS", 2)
    made: list[str] = []
    gpu = Gpu.__new__(Gpu)
    gpu._stream = SimpleNamespace(synchronize=lambda: made.append("|"))
    times = gpu.host_microseconds([lambda: made.append("bare"), lambda: time.sleep(0.001) or made.append("call")])
    assert made == ["|", "bare", "bare", "|", "call", "call"] * 3
    assert times[0] < 500 < times[1]


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


def test_some_cases_only_by_a_part_of_their_group_or_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Path, "write_text", _fail)  # a part of the cases must not replace the whole results
    assert run.main(["--dry-run", "--filter", "segments: ", "--table", "required"]) == 0
    table = capsys.readouterr().out.split("percent of the speed of a copy")[1]
    assert table.count("segmented_cumsum float32 (5,)") == len(scan.SEGMENTS)


def test_table_marks_what_misses_its_figure_and_who_is_faster() -> None:
    report = Report({}, None)
    plain = next(case for case in scan.CASES if case.shape == (1 << 28,))
    keeps_up, falls_behind = [case for case in scan.CASES if case.baseline == plain][:2]
    assert plain.required == 93
    for case, ms in ((plain, 1 / 0.92), (keeps_up, 1 / 0.91), (falls_behind, 1 / 0.89)):
        report.add(case, 1.0, ms)
    report.add_peer(plain, "slow", 2.0)
    report.add_peer(plain, "fast", 1.0)
    _, first, second, third, summary = requirements.table(report.records).splitlines()
    assert first.split("axis 0")[1].split() == ["93.0", "92.0<", "1.0870", "1.0000", "slow", "50.0,", "fast", "100.0!"]
    assert second.split()[-4:-2] == ["90.0", "91.0"]
    assert third.split()[-4:-2] == ["90.0", "89.0<"]
    assert summary.startswith("3 cases: 2 miss what is required (<), in 1 another")


def test_table_measures_a_case_by_its_roof_and_a_variation_by_its_own_distance() -> None:
    report = Report({}, None)
    plain = next(case for case in normalization.CASES if case.group == "images")
    half = next(case for case in normalization.CASES if case.baseline == plain)
    moments = next(case for case in normalization.CASES if case.roof == READING)
    for case, ms in ((plain, 1.0), (half, 1 / 0.975), (moments, 1.0)):
        report.add(case, 1.0, ms)
    report.add_peer(moments, READING, 0.8)
    _, _, of_half, of_moments, _ = requirements.table(report.records).splitlines()
    assert of_half.split()[-4:-2] == ["97.0", "97.5"]
    required, reached = of_moments.split("axis 1")[1].split()[:2]
    assert (required, reached) == (f"{95 / 0.8:.1f}", "100.0<")
    assert of_moments.endswith("reading 125.0"), "a roof is no library that is faster"


@pytest.mark.parametrize("path", sorted(chart.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_committed_charts_are_those_of_the_committed_results(path: Path) -> None:
    committed = {drawn.name: drawn.read_text(encoding="utf-8") for drawn in chart.FOLDER.glob(f"{path.stem}*.svg")}
    drawn = chart.charts(json.loads(path.read_text(encoding="utf-8")))
    assert committed == {f"{path.stem}{suffix}.svg": text for suffix, text in drawn.items()}


def test_no_chart_of_the_host_is_drawn_where_it_was_not_measured() -> None:
    results = {"gpu": "X", "cases": []}
    assert set(chart.charts(results)) | {"-host"} == set(chart.charts({**results, "bare_launch_us": 3.25}))
    assert "-host" not in chart.charts(results)


def test_host_chart_has_a_bar_for_each_small_call_and_library() -> None:
    small = [case for case in all_cases().values() if case.shape == (32, 64)]
    records = [{**_record(case), "host_us": 7.0, "peers_host_us": {"torch": 5.0, "compiled": 1.0}} for case in small]
    drawn = host_chart.times([*records, _record(scan.CASES[0])])
    assert drawn == {call: {"cudml": 7.0, "torch": 5.0} for call in ("cumsum", "normalization", "fmod")}
    picture = host_chart.svg({"gpu": "X", "bare_launch_us": 3.25, "cases": records})
    assert picture.count("cudml 7.0<") == picture.count("torch 5.0<") == 3
    assert "RawKernel: 3.2<" in picture
    assert picture.count("<rect") == 7


@pytest.mark.parametrize(("cases", "group"), [(scan.CASES, "rows"), (normalization.CASES, "long lines")])
def test_chart_has_a_dot_for_each_large_case_and_library(cases: tuple[Case, ...], group: str) -> None:
    figures = chart.figures([{**_record(case), "peers_ms": {"torch": 4.0}} for case in cases], cases)
    drawn = [case for case in cases if case.group != "small"]
    assert sum(len(figures[each]["cudml"]) for each in figures) == len(drawn)
    assert figures[group] == {"cudml": [50.0] * 3, "torch": [25.0] * 3}


def test_hopeless_calls_are_made_once_and_those_that_compile_first_again() -> None:
    gpu = object.__new__(Gpu)
    gpu._stream = SimpleNamespace(synchronize=lambda: time.sleep(waits.pop(0)))
    gpu._median = lambda call, repeats: 1.0
    calls: list[int] = []

    def compiles() -> None:
        calls.append(1)
        if len(calls) == 1:
            time.sleep(1.5 * device.SLOW_SECONDS)

    waits = [0, 1.5 * device.SLOW_SECONDS]
    assert gpu.milliseconds([lambda: calls.append(1)]) >= 1500 * device.SLOW_SECONDS
    assert len(calls) == 1
    calls.clear()
    waits = [0, 0, 0, 0, 0, 0]
    assert gpu.milliseconds([compiles]) == 1.0
    assert len(calls) == 3


def test_what_disturbs_a_call_takes_no_repeats_from_it() -> None:
    gpu, repeats = object.__new__(Gpu), []
    gpu._stream = SimpleNamespace(synchronize=lambda: time.sleep(waits.pop(0)))
    gpu._median = lambda call, count: float(repeats.append(count) or 1)
    waits = [0, 0, 0, 0.9 * device.SLOW_SECONDS, 0, 0]
    gpu.milliseconds([lambda: None])
    assert repeats == [device.REPEATS]


def test_cub_is_compiled_once_for_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cub, "FOLDER", tmp_path / "build")
    commands: list[list[str]] = []

    def compiler(command: list[str], check: bool) -> None:
        commands.append(command)
        Path(command[command.index("-o") + 1]).touch()

    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(cub.subprocess, "run", compiler)
    assert cub.build("90") == cub.build("90") != cub.build("80")
    assert [command[3] for command in commands] == [
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_80,code=sm_80",
    ]
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert cub.build("90") is not None
    assert cub.build("75") is None


def test_cub_takes_part_where_it_computes_the_same() -> None:
    def takes_part(case: scan.ScanCase) -> bool:
        small = replace(case, shape=tuple(min(length, 64) for length in case.shape))
        arrays = scan.arrays(small, np)
        return peers._is_for_cub(small, arrays["a"], arrays["out"])

    names = {str(case) for case in scan.CASES if case.group in ("1-D", "descriptors' types") and takes_part(case)}
    assert {str(case) for case in scan.CASES if case.group == "1-D"} < names
    assert "cumsum int32 (268435456,) axis 0 dtype=int32" in names
    assert "cumsum uint32 (268435456,) axis 0 dtype=uint32" not in names
    assert not any(takes_part(case) for case in scan.CASES if case.group in ("rows", "views", "widened integers"))


def test_kernels_of_huge_cases_are_found_without_their_memory() -> None:
    pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="CuPy, which binds NVRTC, is not installed")
    from benchmarks.compile_ahead import kernels_of

    kernels = kernels_of((scan, case) for case in scan.CASES if case.group in ("beyond 2^31 elements", "segments"))
    assert {source for source, _ in kernels} == {"scan_stream.cu"}
    assert {"float"} < {dict(constants)["VALUE"] for _, constants in kernels}


def test_failing_case_and_failing_peer_cost_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(Host().facts(), tmp_path / "dry.json")
    measured = run.Run(Host(), report, [_Family])
    measured.measure_ours()
    measured.measure_peers(deadline=float("inf"), host_bound=True)
    assert measured.failures == 1
    (case,) = json.loads((tmp_path / "dry.json").read_text())["cases"]
    assert case["shape"] == [3]
    assert case["peers_ms"].keys() == {"good", "compiled"}
    assert capsys.readouterr().out.count("FAILED") == 2


def test_no_peer_is_begun_after_the_deadline(tmp_path: Path) -> None:
    report = Report(Host().facts(), tmp_path / "dry.json")
    measured = run.Run(Host(), report, [_Family])
    measured.measure_ours()
    measured.measure_peers(deadline=0, host_bound=True)
    (case,) = json.loads((tmp_path / "dry.json").read_text())["cases"]
    assert case["peers_ms"] == {}


def test_the_host_is_timed_before_peers_of_larger_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a run that is cut short has its times."""
    made: list[str] = []

    class Sizes(_Family):
        CASES = (Case("good", "float32", (3,), 0, streams=HOST_BOUND_BYTES), Case("good", "float32", (4,), 0))

        @staticmethod
        def peers(case: Case, arrays: dict) -> dict:
            return {"library": lambda: made.append("smallest" if case.is_host_bound else "larger")}

        compiled_peers = peers

    monkeypatch.setattr(run, "FAMILIES", {"sizes": Sizes})
    monkeypatch.setattr(run.Run, "measure_hosts", lambda _: made.append("hosts"))
    assert run.main(["--dry-run", "--out", str(tmp_path / "dry.json")]) == 0
    assert list(dict.fromkeys(made)) == ["smallest", "hosts", "larger"]


@pytest.mark.parametrize("size", [1, 5, (1 << 20) + 3])
def test_filled_reaches_the_last_element(size: int) -> None:
    array = filled(np, (size,), "float32", 1, 2)
    assert array.min() >= 1
    assert array.max() <= 2


def _record(case: Case) -> dict:
    return {
        "op": case.op,
        "dtype": case.dtype,
        "shape": list(case.shape),
        "axis": case.axis,
        "options": case.options,
        "copy_ms": 1.0,
        "ms": 2.0,
    }


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


def _fail(*arguments: object, **options: object) -> None:
    raise RuntimeError("on purpose")


@pytest.mark.parametrize("name", first_call.CASES)
def test_first_calls_are_those_of_cases(name: str) -> None:
    assert first_call.measure(name, dry_run=True) > 0


def test_a_sweep_draws_the_same_shapes_again_and_none_twice() -> None:
    drawn = [case for _, case in sweep.cases(seed=3, count=200)]
    assert drawn == [case for _, case in sweep.cases(seed=3, count=200)]
    assert len({str(case) for case in drawn}) == 200
    assert {case.op for case in drawn} == {"cumsum", "mean_variance_normalization", "mean_var", "fmod"}
    assert all(1 << 12 <= np.prod(case.shape) <= 1 << 29 for case in drawn)


def test_a_sweep_beside_compilers_draws_what_they_compile() -> None:
    drawn = list(sweep.cases(seed=3, count=50, compiled=True))
    assert {(family, case.op, case.compiled_peer) for family, case in drawn} == {
        (normalization, "mean_variance_normalization", True)
    }
    assert not any(case.compiled_peer for _, case in sweep.cases(seed=3, count=50))


def test_a_sweep_of_orders_draws_arrays_of_several_axes() -> None:
    drawn = [case for _, case in sweep.cases(seed=3, count=50, orders=True)]
    views = {case.options["view"] for case in drawn}
    assert {"axes 1 0", "axes 1 0 of the input", "axes 0 1"} <= views
    assert all(len(case.shape) > 1 for case in drawn)
    assert {case.op for case in drawn} == {"cumsum", "mean_variance_normalization", "mean_var", "fmod"}
    assert {case.options["views"] for case in drawn if case.op == "fmod"} == {1, 2}


def test_an_order_is_that_of_the_array_in_memory() -> None:
    for name, of_output in (("axes 2 0 1", True), ("axes 2 0 1 of the input", False)):
        view = scan.view_of(name)
        array = view.take(np.zeros(view.stored((3, 4, 5)), np.float32))
        assert (array.shape, array.strides, view.of_output) == ((3, 4, 5), (16, 4, 48), of_output)
        assert scan.name_of_order((2, 0, 1), of_output) == name


@pytest.mark.parametrize("drawn", [[], ["--orders"]], ids=["any", "orders"])
def test_a_sweep_runs_dry(drawn: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main(["--dry-run", "--count", "60", *drawn]) == 0
    assert capsys.readouterr().out.startswith("60 cases: ")


def test_a_sweep_tells_what_takes_longer_than_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {"the same": 1.0, "longer": 0.1, "shorter": 1.0, "gone": 1.0}
    lines = sweep.changes({"the same": 1.02, "longer": 0.15, "shorter": 0.5, "new": 1.0}, before).splitlines()
    assert lines[0] == "3 cases measured before: 1 take longer, 1 less"
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "1.50 times 100.00 us, now 150.00 longer",
        "0.50 times 1000.00 us, now 500.00 shorter",
    ]
    kept = tmp_path / "times.json"
    assert sweep.main(["--dry-run", "--count", "9", "--out", str(kept)]) == 0
    count = len(json.loads(kept.read_text()))
    assert 0 < count <= 9  # some are the same once they are shrunk
    assert sweep.main(["--dry-run", "--count", "9", "--against", str(kept)]) == 0
    assert f"\n{count} cases measured before: " in capsys.readouterr().out


def test_a_sweep_tells_what_is_weak() -> None:
    large = Case("cumsum", "float32", (1 << 26,), 0)
    small = Case("cumsum", "float32", (1 << 12,), 0)
    behind = sweep.Found(large, ms=1.1, copy_ms=1.0, peers_ms={"torch": 1.0})
    slow = sweep.Found(large, ms=1.5, copy_ms=1.0, peers_ms={})
    level = sweep.Found(large, ms=1.3, copy_ms=1.0, peers_ms={"torch": 1.3, "torch_compile": 1.3})
    launch = sweep.Found(small, ms=9.0, copy_ms=1.0, peers_ms={"torch": 9.1, "torch_compile": 4.5})
    lines = sweep.table([behind, slow, level, launch]).splitlines()
    assert lines[0] == "4 cases: 1 slower than torch, 1 slower than torch_compile, 1 far behind a copy"
    assert lines[1:3] == ["slower than torch:", str(behind)]
    assert lines[3:] == ["slower than torch_compile:", str(launch), "far behind a copy:", str(slow)]
    assert str(launch).endswith("axis 0, 0.99 of torch's time, 2.00 of torch_compile's time")
