"""The plans of normalizations of groups whose elements lie side by side: kernels/normalization_stream.cu."""

from __future__ import annotations

import math

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, power_of_two, power_of_two_within
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.kept_operands import (
    LEAST_PIECE_KEPT,
    KeptOperands,
    are_worth_keeping,
    kept_operands,
)
from cudml.plan.normalization.ring import (
    GATES_BYTES,
    UNIT_BYTES,
    Cut,
    Ring,
    piece_of,
    plan_ring,
    stages_of,
    units_of_block,
)
from cudml.plan.normalization.runs import grain_of, in_long_runs, store_halves_in_runs
from cudml.plan.normalization.staged_units import StagedUnits
from cudml.plan.normalization.steps import SUMS_BYTES
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: Rows of 32 chunks that are a unit.
_UNIT_ROWS = UNIT_BYTES // (LANES * VECTOR_BYTES)
_MOST_STAGES = 16

#: Stages where a piece is one unit: more made nothing faster, and rows of every second element by 5 % slower.
_STAGES_OF_UNITS = 12

#: Stages at least, of which there are no more than a block has units otherwise, as what is never used costs time: (3,
#: 70103) float16s take an H200 5.9 us by two stages and 7.1 by 12, (2, 974408) floats 9.3 by four and 10.5 by 14. And
#: stages at the most of floats in runs that are loaded by less than vectors, in pieces of so many units at the most, as
#: first-level cache is what these leave of shared memory: (12, 1485, 2, 1747) over 0, 2, 3 take 148 us so and 179 by
#: 13, (374, 1477, 1, 103) 160 and 180; but in pieces of 4 units (1169, 8, 25, 131) 112 and 98, and (4496, 2297, 3, 4)
#: bfloat16s 858 and 617.
_LEAST_STAGES, _STAGES_OF_SINGLES, _PIECE_OF_SINGLES = 2, 8, 2

#: And of all others that threads load: 11 leave 60 KB of that cache, 12 and 13 28. Over 0, 2, 3 an H200 takes so and
#: by 13, in us, for float16s (28, 32, 182, 182) 48 and 54, (64, 192, 71, 71) 95 and 98, bfloat16s (197, 64, 237, 20) 83
#: and 96, floats (64, 96, 55, 55) 54 and 61, (1550, 256, 21, 21) 450 and 476, doubles (12, 96, 253, 299) 405 and 444.
_STAGES_BESIDE_CACHE = 11

#: Units of a group, if all blocks share it, of which that is true: with more, a ring of 11 has no room for enough of
#: the next group, and (662, 64, 103, 103) bfloat16s take 760 us so and 657 by 13. But it has if elements lie at a
#: stride, or have a scale or a bias of their own: (231, 10, 4856) doubles at a stride over 0, 2 take 88 us and 90,
#: (713, 32, 74, 74) such floats in rows padded by 3 664 and 731. Of more than the larger number 11 hold no piece, and
#: floats and doubles side by side are faster in two steps: (156, 3, 305, 105) floats take 54 us so and 71 by 13, (12,
#: 32, 663, 663) 502 and 593, but (3142, 32, 59, 59) float16s 858 and 714, (23, 256, 121, 169) floats at a stride over
#: 1, 2, 3 829 and 673.
_FEW_UNITS_OF_BLOCK, _MANY_UNITS_OF_BLOCK = 5, 8

#: How the line is manned: what was the fastest of some dozens on an H200. More folders would ask for so much that the
#: others come late. Fewer warps have more registers: adders where normalizers hold scale and bias of every element that
#: every group has, where groups that begin at any element are of halves or have scale and bias of every element, where
#: halves that have these are no whole vectors and do not begin at words, and where runs have gaps or elements are
#: loaded one by one; and normalizers of floats where these are one run with gaps. Elsewhere fewer of these cost gelu
#: over 0, 2, 3 0.588 ms in place of 0.570, and scaled tanh 0.583 in place of 0.566. Runs that threads copy by the grain
#: take fewer loaders: (2048, 256, 28, 28) float16 over 0, 2, 3 take 0.50 ms in place of 0.59.
#:
#: Of groups that begin at any element (1000, 200001) halves took an H100 318 us with few adders and 337 with more,
#: (200, 500003), each with scale and bias of its own, 181 and 215, (128, 1000003) such floats 415 and 422. Of others
#: that have those (500, 500010) halves, which begin at words, took 462 and 406, (60, 1000000) an H200 97 and 82.
_ORDINARY_LOADERS, _FEW_LOADERS, _FOLDERS = 8, 4, 2
_ADDERS, _FEW_ADDERS = 8, 4
_NORMALIZERS, _FEW_NORMALIZERS = 8, 4

#: Warps that hand registers over, or take them, together.
_WARPS_OF_SHARE = 4

#: Halves of a run, at the least, that two crews of few loaders put together from pieces: runs of 3025, (64, 96, 55, 55)
#: float16s over 0, 2, 3, took an H100 37.8 us so and 39.2 by one crew, of 5041 109 and 116, of 21609 81 and 87, but of
#: 1225, (64, 288, 35, 35), 49.8 and 49.0.
_LEAST_RUN_OF_CREWS = 2048

#: Crews, and how many more if runs that are copied one by one are shorter than that: over 0, 2, 3 (256, 768, 17, 17)
#: float16s take an H200 117 us by four crews and 150 by two, (1550, 256, 21, 21) floats 417 and 435, but (64, 192, 71,
#: 71) 153 and 148, float16s 90.4 and 89.5, (200, 128, 73, 73) 193 and 185.
_CREWS, _MORE_CREWS, _LEAST_RUN_OF_TWO = 2, 4, 700

#: Teams, from which on they draw, what they draw at a time, and how many times the input is as large as the cache, at
#: the least: 8 teams take 0.535 ms for (4096, 65536) in place of 0.547, and 16 groups at a time cost 0.008 more; 33
#: teams take 0.546 ms for as many floats in groups of (65536, 4096) transposed in place of 0.566. Of 4 teams none is
#: done much before others, and 2 that draw are slower by 1 %. Of fewer groups some teams draw several and others none:
#: (9, 88, 3, 829) floats over 1, 2, 3 take an H200 11 us dealt out evenly and 21 drawn, (92, 361056), 2.1 caches, 87
#: and 117, (743, 257736) float16s, 6.1 of them, 348 and 384; but (4151, 2, 128, 212) floats over 1, 2, 3, 14, 450 and
#: 440.
_DRAWING_TEAMS, _DRAWN, _LEAST_DRAWN_FROM = 8, 4, 11

#: Pieces whose sums a folder loads at a time, at least and at the most, and how often at the most: room for more than
#: there are takes longer to compile. Each time is as long as some units take to pass a block, by how many there are:
#: 650 groups of 6656000 bytes, in 204 pieces, take an H200 0.182 ms where 128 are folded at a time, and 0.114 with 256.
_LEAST_FOLDED, _MOST_FOLDED, _MOST_FOLDS = 16, 256, 2
_UNITS_OF_FOLD = ((128, 2), (256, 3))

#: Units of a piece that normalizers hold, the first ones, at the most: where the ring cannot hold two pieces.
_MOST_HELD = 2

#: Units of a piece, if that leaves no more blocks idle than others: smaller pieces are folded more often than a block's
#: folders keep up with, larger ones are longer in the ring. 64 x 256 x 128 x 128 floats over 0, 2, 3 take 0.556 ms, and
#: 0.562 with 4 units. One folder has so many units at a time. Scale and bias of every element stay in registers if a
#: piece is one unit.
_BEST_PIECE = 2

#: Rows of halves that a normalizer stores together, where these begin anywhere: (64, 192, 71, 71) over 0, 2, 3 take an
#: H100 116 us so when they were loaded by one crew, 118 two by two and 125 row by row.
_STORED_ROWS = 4

#: What is read twice all the same where the cache holds it, as tiles of blocks that wait for nobody are faster than a
#: line of them: input of so much of the second-level cache at the most, less two groups, by the bytes of an element.
#: (64, 3, 224, 224) float16 over 1, 2, 3 take an H100 22.2 us so and 29.2 as a stream, (8, 192, 35, 35) 8.9 and 18.4,
#: (256, 16, 32, 32) over 0, 2, 3 11.7 and 16.1; but (64, 64, 56, 56) 28.5 and 24.5, (6, 4, 544, 736) over 1, 2, 3 22.5
#: and 20.3. Floats (4, 3, 224, 224) take 5.8 and 7.0, (8, 192, 35, 35) 12.5 and 11.4, doubles 9.1 and 10.2, 17.1
#: and 17.2. Bytes take two to seven times as long in tiles: (32, 1815725) uint8 into float16 an H200 486 us, and 75 as
#: a stream.
_PART_OF_CACHE = {1: 0, 2: 0.4, 4: 0.1, 8: 0.2}

#: What adders leave of a stage, beside sums; and what a block knows of batches: kernels/normalization_teams.cuh, KNOWN.
_SHIFT_BYTES, _BATCHES_BYTES = 16, 8 * 16


def plan_stream(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch for groups whose elements lie side by side; None for moments, where the GPU cannot hold a group, or
    where two steps are faster: what the cache holds, units that threads copy, folded one by one, more than once, and
    pieces that are folded more than twice. (41825, 4, 79, 4) bfloat16 over 0, 2, 3 take an H100 297 us so and 249 in
    two steps, (59054, 2, 10, 2) floats 23.8 and 19.5; (6, 6500000) floats, in 794 pieces, 199 and 160, (23, 32, 512,
    288) doubles over 0, 2, 3, in 1656, 3051 and 861, but (6, 6000000) floats, in 367, 127 and 148."""
    if not groups.has("output") or _is_read_twice(groups, device):
        return None
    elements = _UNIT_ROWS * LANES * groups.chunk
    packed = {f"{name.upper()}_PACKED": groups.packed(name) for name in ("input", "output", "scale", "bias")}
    staged = StagedUnits.of(groups, elements, device)
    stage_bytes = UNIT_BYTES + staged.bytes_beside
    cut = Cut(groups.count, math.ceil(groups.length / elements), groups.count, 1)
    room = stages_of(device, stage_bytes + _beside_bytes(groups), _BATCHES_BYTES)
    same_places = _are_at_same_places(groups, staged, cut, room, device)
    stored_rows = _STORED_ROWS if store_halves_in_runs(groups) else 1
    in_pieces = same_places or (packed["OUTPUT_PACKED"] and not groups.are_widened)
    buffers = 0 if in_pieces else stored_rows * _NORMALIZERS * LANES * groups.chunk * groups.widest
    if buffers:
        room = stages_of(device, stage_bytes + _beside_bytes(groups), buffers + _BATCHES_BYTES)
    ring = _ring(groups, cut, room, staged, same_places, device)
    if ring is None:
        return None
    pieces = math.ceil(cut.units / ring.piece)
    if pieces > (_MOST_FOLDED if ring.piece == 1 and not staged.bulk else _MOST_FOLDS * _MOST_FOLDED):
        return None
    folded = max(_LEAST_FOLDED, min(power_of_two(pieces), _MOST_FOLDED))
    whole = groups.length % elements == 0 and cut.units % ring.piece == 0
    ends = 2 if groups.length % groups.chunk else 0 if whole else 1
    constants: dict[str, str | int | bool] = {
        **groups.constants(spec),
        **packed,
        "EVICTION": groups.eviction,
        **_moves(groups, staged.bulk),
        "PUBLISHERS": ring.publishers,
        "SPARES": ring.spares,
        "LOADER_CREWS": ring.loader_crews,
        "STORED_ROWS": stored_rows,
        "GAPS": staged.gaps,
        "KEEPS_PLACES": staged.keeps_places,
        "RUN_GAP": staged.run_gap,
        "SAME_PLACES": same_places,
        "UNIT_ROWS": _UNIT_ROWS,
        "ENDS": ends,
        "OF_UNITS": groups.reduced.sizes[-1] % elements == 0 and not groups.operands.are_own,
        **_constants_of(_kept(groups, cut, ring.piece, staged, device)),
        "OPERANDS_AGAIN": groups.operands.are_own and ring.piece > 1,
        "FOLDED": folded,
        "FOLDS": math.ceil(pieces / folded),
    }
    constants["DRAWN"] = drawn = _drawn(groups, ring, cut, device) if staged.bulk and packed["OUTPUT_PACKED"] else 0
    shared_bytes = ring.stages * stage_bytes + buffers
    return plan_ring("stream", groups, spec, device, ring, shared_bytes, cut, constants, drawn > 0, folded)


def _moves(groups: Groups, bulk: bool) -> dict[str, int]:
    """How elements are loaded, in bulk or not, and stored."""
    return {
        "OUTPUT_STEP": 0 if groups.packed("output") else groups.step_of_runs("output"),
        "OUTPUT_IN_RUNS": in_long_runs(groups, "output"),
        "IN_PIECES": not bulk and in_long_runs(groups, "input"),
        "GRAIN": groups.grain,
        "INPUT_GRAIN": grain_of(groups, "input"),
        "OUTPUT_GRAIN": grain_of(groups, "output"),
        "BULK": bulk,
        "ONE_RUN": groups.is_one_run("input"),
    }


def _is_read_twice(groups: Groups, device: DeviceProperties) -> bool:
    """Whether the cache holds what two steps read. Not of runs whose elements are loaded one by one, nor if each
    element that begins anywhere has its own scale, as those of (4, 500001) float16, which take 12.1 us so and 11.3 as a
    stream."""
    size, in_runs = groups.source.dtype.itemsize, len(groups.reduced.sizes) > 1
    is_unpacked = not groups.packed("input")
    is_slow = groups.operands.are_own or (in_runs and not in_long_runs(groups, "input"))
    if (groups.is_double and size < 8) or (is_unpacked and is_slow):
        return False
    return (groups.source.size + 2 * groups.length) * size <= _PART_OF_CACHE[size] * device.cache_bytes


def _kept(groups: Groups, cut: Cut, piece: int, staged: StagedUnits, device: DeviceProperties) -> KeptOperands | None:
    """Of units that bulk copies load."""
    return kept_operands(groups, cut, piece, device) if staged.bulk else None


def _constants_of(kept: KeptOperands | None) -> dict[str, int]:
    """The units whose scale and bias stay in registers, and who has how many of these."""
    normalizers, others = kept.registers if kept else (0, 0)
    units = kept.units if kept else 0
    return {"OPERANDS_KEPT": units, "NORMALIZER_REGISTERS": normalizers, "OTHER_REGISTERS": others}


def _drawn(groups: Groups, ring: Ring, cut: Cut, device: DeviceProperties) -> int:
    """How many of them a team draws at a time; 0 where they are dealt out evenly."""
    is_long = groups.nbytes >= _LEAST_DRAWN_FROM * device.cache_bytes
    return _DRAWN if ring.teams(cut, device) >= _DRAWING_TEAMS and is_long else 0


def _beside_bytes(groups: Groups) -> int:
    """Of a stage, beside the unit."""
    normal_bytes = VECTOR_BYTES * math.ceil(4 * groups.normal_words / VECTOR_BYTES)
    return GATES_BYTES + normal_bytes + _SHIFT_BYTES + _ADDERS * SUMS_BYTES


def _ring(
    groups: Groups, cut: Cut, room: int, staged: StagedUnits, same_places: bool, device: DeviceProperties
) -> Ring | None:
    """With `room` for so many stages."""
    own, size, bulk = groups.operands.are_own, groups.source.dtype.itemsize, staged.bulk
    most = _most_stages(groups, cut, room, bulk, device)
    piece = (_piece(groups, cut, most // 2, device) if same_places else None) or _piece(groups, cut, most, device)
    if piece is None:
        return None
    kept = _kept(groups, cut, piece, staged, device)
    in_runs = len(groups.reduced.sizes) > 1
    by_grains = not bulk and in_runs and grain_of(groups, "input") > 1
    halves, begins_at_words = size == 2, groups.step_of_runs("input") >= 4
    own_halves = own and halves and not groups.packed("input") and not begins_at_words
    few_adders = own_halves or (groups.begins_anywhere and (own or halves))
    many_adders = ((bulk and not staged.gaps) or by_grains) and not few_adders
    stages = _stages(groups, cut, piece, most, bulk, device)
    crews = _crews(groups, staged, stages)
    if staged.run_gap:
        stages -= stages % crews  # each stage is loaded by one crew
    holds = bulk and not own and not same_places
    ring = Ring(
        columns=1,
        piece=piece,
        stages=stages,
        held=max(0, min(_MOST_HELD, 2 * piece - most, piece - 1)) if holds else 0,
        loaders=1 if bulk else _FEW_LOADERS if by_grains or crews > 1 else _ORDINARY_LOADERS,
        adders=kept.adders if kept else _ADDERS if many_adders else _FEW_ADDERS,
        folders=max(1, min(_FOLDERS, _folders(cut, piece, device), stages // piece)),
        normalizers=_NORMALIZERS if bulk or own or in_runs or size == 2 else _FEW_NORMALIZERS,
        publishers=kept.publishers if kept else 1,
        loader_crews=crews,
    )
    return _in_fours(ring) if kept and any(kept.registers) else ring


def _in_fours(ring: Ring) -> Ring:
    """With spare warps, so that the normalizers begin with a four of them, as registers are handed over by such."""
    others = ring.threads // LANES - ring.normalizers
    return ring._replace(spares=-others % _WARPS_OF_SHARE)


def _piece(groups: Groups, cut: Cut, stages: int, device: DeviceProperties) -> int | None:
    """Units of a piece, where so many stages have room for a block's share of a group."""
    if stages >= LEAST_PIECE_KEPT and are_worth_keeping(groups, cut, device):
        return LEAST_PIECE_KEPT
    return piece_of(cut, 1, stages, 1 if groups.operands.are_own else _BEST_PIECE, device, _MOST_FOLDED)


def _are_at_same_places(groups: Groups, staged: StagedUnits, cut: Cut, stages: int, device: DeviceProperties) -> bool:
    """Whether normalizers take results from where their elements lie. Not of one run of more than halves if that has
    to be held in part: (64, 4194301) floats take an H200 621 us by chunks and 652 so, (300, 700001) 428 and 425, (64,
    8388605) float16s 680 and 663."""
    if not staged.keep_places_of_results(groups):
        return False
    holds = _piece(groups, cut, min(stages, _MOST_STAGES) // 2, device) is None
    return not holds or staged.run_gap > 0 or groups.source.dtype.itemsize <= 2


def _crews(groups: Groups, staged: StagedUnits, stages: int) -> int:
    """Of loaders, who take turns with so many stages: of one each where runs end anywhere."""
    run = groups.reduced.sizes[-1]
    if staged.run_gap:
        return min(_CREWS if run >= _LEAST_RUN_OF_TWO else _MORE_CREWS, power_of_two_within(stages))
    are_long = not staged.bulk and in_long_runs(groups, "input") and run >= _LEAST_RUN_OF_CREWS
    return _CREWS if are_long else 1


def _most_stages(groups: Groups, cut: Cut, room: int, bulk: bool, device: DeviceProperties) -> int:
    """For pieces of any number of units."""
    most, of_block = min(_MOST_STAGES, room), cut.units / device.multiprocessors
    size, step = groups.source.dtype.itemsize, groups.reduced.strides["input"][-1]
    if of_block > _MANY_UNITS_OF_BLOCK:
        leave_cache = size >= 4 and step == size
    else:
        leave_cache = of_block <= _FEW_UNITS_OF_BLOCK or groups.operands.are_own or step != size
    return min(most, _STAGES_BESIDE_CACHE) if leave_cache and not bulk else most


def _stages(groups: Groups, cut: Cut, piece: int, most: int, bulk: bool, device: DeviceProperties) -> int:
    """At the most so many, for pieces of so many units."""
    if groups.operands.are_own and piece == 1:
        most = min(most, _STAGES_OF_UNITS)
    in_runs = len(groups.reduced.sizes) > 1
    are_singles = not bulk and in_runs and groups.source.dtype.itemsize == 4 and not groups.packed("input")
    if are_singles and piece <= _PIECE_OF_SINGLES:
        most = min(most, _STAGES_OF_SINGLES)
    return min(most, max(_LEAST_STAGES, units_of_block(cut, piece, device)))


def _folders(cut: Cut, piece: int, device: DeviceProperties) -> int:
    """As many as fold groups as fast as their units pass a block."""
    pieces = math.ceil(cut.units / piece)
    folds = math.ceil(pieces / _MOST_FOLDED)
    units_of_fold = next(units for most, units in _UNITS_OF_FOLD if pieces <= most * folds)
    return math.ceil(folds * units_of_fold / (piece * max(1.0, pieces / device.multiprocessors)))
