"""No kernel has a race, a wrong address or a result that depends on the order of its threads.

Every case of race_cases runs in the executor's checking mode under several schedules: `--seeds 100` takes that many,
`--schedule random:17` that one. A fault here is a defect of a kernel, or a false alarm of the executor.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

import pytest
from cuda_on_cpu import Schedule, requirement, schedules
from cuda_on_cpu.compiler import kernel_names
from race_cases import CALLS, CASES
from race_cases.calls import LIBRARY, Call, Case
from race_cases.epochs import EPOCHS_RUN_OUT
from race_cases.normalization import (
    BANDS,
    CLUSTERED_LINES,
    CLUSTERS,
    LONG_PANELS,
    SHARED_BANDS,
    SHARED_BUNDLES,
    STAGED_LINES,
    TILED_BUNDLES,
    TILED_PANELS,
)

from cudml.plan.normalization.lines import LINE_ROWS, MOST_ROWS
from cudml.plan.plan import Plan, Struct
from cudml.plan.scan.lines import LINE_SHARES
from cudml.plan.scan.linked import LINKED_SHARES

if requirement():
    pytest.skip(f"kernels cannot run on this CPU: {requirement()}", allow_module_level=True)

FEWEST_SCHEDULES = 4


def schedules_of(request: pytest.FixtureRequest) -> list[Schedule]:
    """As the command line says; the random ones differ from case to case and are the same in every run."""
    option = request.config.getoption
    if option("--schedule"):
        return [Schedule.parse(option("--schedule"))]
    first_seed = zlib.crc32(request.node.nodeid.encode()) % 1_000_000
    return schedules(max(FEWEST_SCHEDULES, option("--seeds")), first_seed)


@pytest.mark.share(3)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_race_and_right_values_under_every_schedule(case: Case, request: pytest.FixtureRequest):
    case.run(schedules_of(request), checking=True)


def test_no_epoch_is_taken_for_a_value():
    """Whatever the schedule, so one is enough."""
    EPOCHS_RUN_OUT.run(schedules(1), checking=False)


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    """Of all cases that call the library."""
    return [plan for case in CALLS for plan in case.plans()]


def test_cases_reach_every_kernel(plans: list[Plan]):
    written = {(path.name, kernel) for path in LIBRARY.glob("*.cu") for kernel in kernel_names(path.read_text())}
    assert {(plan.source, step.kernel) for plan in plans for step in plan.launches} == written


def shares(plans: list[Plan], kernel: str) -> Iterator[tuple[int, int]]:
    """Warps and rows with which a kernel is launched."""
    for plan in plans:
        if any(step.kernel == kernel for step in plan.launches):
            constants = dict(plan.constants)
            yield int(constants["WARPS"]), int(constants["ROWS"])


def test_cases_share_a_group_in_every_way(plans: list[Plan]):
    found = list(shares(plans, "normalize_lines"))
    assert {rows for warps, rows in found if warps > 1} == {rows for _, rows in LINE_ROWS} | {MOST_ROWS}
    assert {rows for warps, rows in found if warps == 1} >= {3, 5, 6}
    short = [
        dict(plan.constants) for plan in plans if plan.launches and plan.launches[0].kernel == "normalize_short_lines"
    ]
    assert {constants["GROUP_ROWS"] for constants in short} == {"1", "2", "4"}
    assert {constants["ENDS"] for constants in short} == {"0", "1", "2"}


def test_cases_share_a_group_among_blocks_in_every_way(plans: list[Plan]):
    found = [
        constants for constants in map(dict, (plan.constants for plan in plans)) if constants.get("CLUSTER", "1") != "1"
    ]
    clustered = [constants for constants in found if constants["KERNELS"] == "normalize_clustered_lines"]
    assert {constants["ROWS"] for constants in clustered} == {"1", "2", "4", "8"}
    assert {constants["WARPS"] for constants in clustered} == {"4", "8"}
    assert {constants["OPERANDS_EARLY"] for constants in clustered} == {"0", "1"}
    assert {constants["ENDS"] for constants in clustered} == {"0", "1", "2"}


def test_cases_add_up_a_group_in_tiles_and_in_rounds(plans: list[Plan]):
    rounds = {dict(plan.constants)["ROUNDS"] for plan in plans if plan.source == "normalization_tiled_lines.cu"}
    assert rounds >= {"1", "2"}


def test_cases_share_a_line_in_every_way(plans: list[Plan]):
    in_words = {(1, 5), (2, 4), (3, 3)}  # some of many lines, which have shares of their own
    assert set(shares(plans, "scan_lines")) == set(LINE_SHARES) | in_words


def test_cases_link_parts_of_every_size(plans: list[Plan]):
    assert set(shares(plans, "scan_linked")) == {share for _, share in LINKED_SHARES}


BRANCHES = ("REVERSE", "EXCLUSIVE", "SEGMENTED", "INITIAL", "SCALE_ACROSS", "INPUT_PACKED", "DENSE")
BRANCHES += ("EXCHANGE", "SCALE_PACKED", "REPEATS", "INPUT_DENSE", "OUTPUT_DENSE", "FLAT_IN", "FLAT_OUT")
BRANCHES += ("GROUPS_DOWN", "GROUPS_ACROSS", "OPERANDS_EARLY", "SPLITS", "SHIFTED_IN", "SHIFTED_OUT")
BRANCHES += ("IN_PIECES", "OUTPUT_IN_RUNS", "LONG_RUNS", "LOOKS", "BANDS", "PANELS_ALIGNED", "WHOLE_CHUNKS")


@pytest.mark.parametrize("constant", BRANCHES)
def test_cases_take_every_branch(constant: str, plans: list[Plan]):
    values = {dict(plan.constants).get(constant) for plan in plans}
    assert values >= {"0", "1"}


@pytest.mark.parametrize("source", ["scan_stream.cu", "scan_columns.cu"])
def test_cases_load_by_elements_behind_gates_of_both_kinds(source: str, plans: list[Plan]):
    constants = [dict(plan.constants) for plan in plans if plan.source == source]
    assert {constant["HARDWARE_GATES"] for constant in constants if constant["LOAD"] == "0"} == {"0", "1"}


def test_cases_add_up_tiles_in_rounds_by_words_and_elements(plans: list[Plan]):
    constants = [dict(plan.constants) for plan in plans if "sum_columns" in dict(plan.constants)["KERNELS"]]
    added = {(constant["INPUT"], constant["VECTOR"]) for constant in constants if constant["ROUNDS"] != "1"}
    assert added >= {("float16", "2"), ("unsigned char", "4"), ("float", "1"), ("double", "1")}


def test_cases_share_strips_in_every_way(plans: list[Plan]):
    strips = [plan for plan in plans if plan.source == "normalization_strips.cu"]
    constants = [dict(plan.constants) for plan in strips]
    shifted = {(constant["INPUT"], constant["COLUMNS"]) for constant in constants if constant["SHIFTED"] == "1"}
    assert shifted == {("float", "64"), ("float", "128"), ("float16", "128"), ("double", "32")}
    wide = [constant for constant in constants if (constant["INPUT"], constant["COLUMNS"]) == ("float", "128")]
    assert {constant["OUTPUT_PACKED"] for constant in wide} == {"0", "1"}
    assert {constant["LOADERS"] for constant in constants if constant["BULK"] == "1"} == {"2", "4"}
    held = {(constant["INPUT_TURNED"], constant["HELD"]) for constant in constants if constant["INPUT"] == "float"}
    assert held == {("0", "1"), ("0", "2"), ("0", "5"), ("1", "1"), ("1", "5")}
    floats = [c for c in constants if c["INPUT"] == "float" and c["INPUT_TURNED"] == c["OUTPUT_TURNED"] == "0"]
    assert {constant["STEPS"] for constant in floats if constant["COLUMNS"] == "64"} == {"32", "64"}
    launches = [(plan.launches[0].grid, plan.launches[0].arguments[-1]) for plan in strips]
    assert {blocks % cut.values[1] > 0 for blocks, cut in launches if isinstance(cut, Struct)} == {False, True}


@pytest.mark.parametrize(
    ("cases", "kernel"),
    [
        (CLUSTERED_LINES, "normalize_clustered_lines"),
        (CLUSTERS, "normalize_clusters"),
        (SHARED_BUNDLES, "normalize_shared_bundles"),
        (TILED_BUNDLES, "sum_bundle_tiles"),
        (TILED_PANELS, "sum_panel_tiles"),
        (LONG_PANELS, "normalize_long_panels"),
        (BANDS, "normalize_bands"),
        (SHARED_BANDS, "normalize_shared_bands"),
        (STAGED_LINES, "normalize_staged_lines"),
    ],
)
def test_cases_launch_what_they_are_for(cases: list[Call], kernel: str):
    assert {case.name: case.plans()[0].launches[0].kernel for case in cases} == {case.name: kernel for case in cases}


def test_cases_move_staged_lines_in_steps_of_every_kind(plans: list[Plan]):
    constants = [dict(plan.constants) for plan in plans if plan.source == "normalization_staged_lines.cu"]
    assert {(constant["INPUT_STEP"], constant["OUTPUT_STEP"]) for constant in constants} >= {("2", "2"), ("4", "4")}
    assert {constant["INPUT_STEP"] == constant["OUTPUT_STEP"] for constant in constants} == {False, True}
    assert {constant["THREADS"] == constant["LINES"] for constant in constants} == {False, True}
    assert {(constant["SPAN"], constant["LINES"]) for constant in constants} > {("2", "256"), ("16", "64")}


def test_cases_load_long_runs_by_some_crews(plans: list[Plan]):
    found = [dict(plan.constants) for plan in plans if plan.source == "normalization_stream.cu"]
    assert {constants["LOADER_CREWS"] for constants in found if constants["IN_PIECES"] == "1"} == {"1", "2"}
    assert {constants["LOADER_CREWS"] for constants in found if constants["RUN_GAP"] != "0"} == {"2", "4"}


def test_cases_begin_at_once_and_one_after_the_other(plans: list[Plan]):
    first = {int(dict(plan.constants)["AT_FIRST"]) for plan in plans if plan.source == "normalization_bundles.cu"}
    assert min(first) == 0 < max(first)


def test_cases_load_tiles_in_every_way(plans: list[Plan]):
    constants = [dict(plan.constants) for plan in plans if plan.source == "scan_stream.cu"]
    assert {constant["LOAD"] for constant in constants} == {"0", "1", "2"}


def test_cases_ask_for_inputs_ahead(plans: list[Plan]):
    """But not all of them, as some lie anywhere."""
    texts = (path.read_text() for path in LIBRARY.glob("*.cu"))
    takers = {name for text in texts for name in re.findall(r"^(\w+)\([^{}]*Ahead ahead\) {", text, re.MULTILINE)}
    told = {
        (step.kernel, step.arguments[-1].values > (0,))
        for plan in plans
        for step in plan.launches
        if step.kernel in takers
    }
    assert len(takers) >= 16
    assert told >= {(kernel, True) for kernel in takers}
    assert any(not asked for _, asked in told)


def test_cases_load_and_fold_columns_in_every_way(plans: list[Plan]):
    constants = [dict(plan.constants) for plan in plans if plan.source == "scan_columns.cu"]
    assert {constant["LOAD"] for constant in constants} == {"0", "1", "2"}
    assert {constant["DENSE"] for constant in constants if constant["LOAD"] == "1"} == {"0", "1"}
    assert {constant["DIGIT_BITS"] for constant in constants} == {"2", "3", "4"}
    assert {constant["UNITS_OF_TICKET"] for constant in constants} == {"1", "2"}
    assert {constant["PREFETCHED"] for constant in constants} == {"0", "1", "2"}
    assert {(constant["VALUE"], constant["OUTPUT"]) for constant in constants} >= {("int", "long long")}
    assert {int(constant["CHUNKS"]) // 33 > 0 for constant in constants} == {False, True}
    assert min(int(constant["CHUNKS"]) for constant in constants) < 32
    assert max(int(constant["UNIT_BITS"]) for constant in constants) > 6
