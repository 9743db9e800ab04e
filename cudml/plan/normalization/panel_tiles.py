"""The plans of groups that all have a run in each panel, and fit no cluster: kernels/normalization_panel_tiles.cu."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout, power_of_two, power_of_two_within
from cudml.plan.normalization.bundle import repeat_in_pieces
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.steps import apply_step, sum_step
from cudml.plan.panels import are_padded, staged_bytes
from cudml.plan.plan import Plan
from cudml.plan.spec import Normalization

#: Bytes of a panel at the most: blocks load those at the ends of tiles twice. (46969, 60, 33) float16s, 3960 bytes,
#: take an H100 265 us so and 440 otherwise.
_MOST_PANEL_BYTES = 4096

#: Elements of the input for each multiprocessor at least, by the bytes of a run, as others are faster with long ones:
#: over 0 and 2 (24966, 3, 7) floats take an H100 7.2 us so and 7.8 otherwise, (4832, 7, 31) 11.9 and 10.6, (9664, 7,
#: 31) 15.5 and 16.1, (8224, 5, 51) 17.2 and 15.0, (16448, 5, 51) 23.4 and 24.6, (19021, 3, 147) 47 and 41, (38043, 3,
#: 147) 86 and 100; (2214285, 3, 7) 207 and 673.
_LEAST_ELEMENTS = ((104, 1 << 12), (128, 1 << 14), (256, 1 << 15), (math.inf, 1 << 17))

#: And for each group unless there are many, as blocks add up their sums: by long spans (9078, 21, 11) floats take 17.5
#: us so and 19.9 otherwise, (4539, 21, 11) 13.3 and 10.7, (19972, 70, 3) 42 and 72, (4993, 70, 3) 26 and 19.
_LEAST_OF_GROUP, _LEAST_OF_MANY = 1 << 9, 1 << 15

#: Bytes of a run at the most where these are moments, and for each multiprocessor at least; and of a few groups whose
#: runs are tiny, if these are not float64. Those of (399457, 3, 7) floats take 21.3 us so and 30.6 otherwise, of
#: (199728, 3, 7) 13.1 and 12.9; of (134217, 5, 25) 35 and 46, of (67108, 5, 25) 21.4 and 18.9; of (79891, 70, 3) 65.7
#: and 64.9, of (39945, 70, 3) 41 and 34; of (51781, 9, 9) float64s 20.7 and 19.2, of (105442, 3, 147) 85 and 90.
_MOST_OF_MOMENTS, _LEAST_BYTES = 128, 1 << 19
_TINY, _FEW, _LEAST_BYTES_OF_FEW = 64, 32, 1 << 18

#: Groups whose runs are less than a vector, so that bundles would have short pieces: so many at the least and at the
#: most, with an output and without, and bytes for each multiprocessor and each byte of a run at least. (5812500, 8, 2)
#: float16s take an H100 223 us so and 331 as bundles, (181640, 128, 4) 237 and 257, but (90820, 256, 4) 269 and 253;
#: (1291666, 12, 3) floats 210 and 286, (3875000, 4, 3) 209 and 203. Moments of (726562, 64, 2) float16s take 94 and
#: 217, of (232500, 100, 4) 126 and 94; of (416666, 6, 4), just above, 18.4 and 17.6.
_LEAST_IN_SHORT_RUNS, _MOST_IN_SHORT_RUNS = 5, {True: 128, False: 64}
_LEAST_BYTES_IN_SHORT_RUNS = 1 << 14

#: Of each group that many at least for each multiprocessor, if groups are no power of two and more than so many:
#: (52083, 48, 4) float16s take 37 us so and 33 as bundles, (156250, 48, 4) 89 and 90, but (42968, 64, 2) 23 and 34.
_LEAST_OF_ODD_GROUPS, _MOST_OF_ANY = 1 << 11, 32

#: Runs of one vector or two, if the number of groups is odd, which bundles then hold one by one: elements of a run at
#: the most, groups at the most if these are two vectors or there is no output, and bytes for each multiprocessor.
#: (352272, 33, 4) floats take 236 us so and 550 as bundles, (2325000, 5, 4) 207 and 426, (830357, 7, 8) 204 and 246,
#: but (42613, 33, 8) 71 and 51 as a stream; moments of (2325000, 5, 4) 74 and 118, of (352272, 33, 8) float16s 122 and
#: 118, of (200892, 7, 16) 31 and 28.
_MOST_OF_UNPAIRED, _MOST_UNPAIRED, _LEAST_BYTES_OF_UNPAIRED = 8, 16, 1 << 16

#: Halves that are columns take less so in odd rows of so many at the most, if there are so many halves for each
#: multiprocessor: (508400, 33) take 62.5 us and 66 otherwise, (254200, 33) 39 and 36, (732283, 127) 245 and 230;
#: (2818181, 33) 239 and 313, (1897959, 49) 233 and 247, but moments of these 99 and 97.
_MOST_COLUMNS, _LEAST_OF_COLUMNS = 48, 1 << 17

#: Groups from which on spans and tiles are longer, and chunks of a span and bytes of a tile by whether there are as
#: many: moments of (1409090, 33) floats take 99 us so, with short spans 110, of (574074, 9, 9) 89 with long ones and
#: 79.
_MANY = 32
_SPAN = {False: 4, True: 8}
_TILE_BYTES = {False: 32 << 10, True: 36 << 10}

#: Threads of a block, and groups, at the most; threads at the least, and of a multiprocessor: with 512 threads moments
#: of (1550000, 5, 2, 3) floats take 95 us in place of 79, and where 1536 fit, (2214285, 3, 7) take as long to be
#: normalized.
_MOST_THREADS, _LEAST_THREADS, _RESIDENT_THREADS = 256, 64, 1024

#: Lanes that meet in a bank of shared memory from which on panels are padded, which takes some additions for each
#: element: moments of (3100000, 5, 2, 3) float16s, of which 3 meet, take 130 us padded and 106 otherwise, of
#: (103794, 7, 64) floats, of which 10 meet, 84 and 123.
_MEETING = 4

#: Threads of a block that normalizes, of which each vector that lies otherwise has one, at least and at the most;
#: vectors of each, and threads of a multiprocessor, which leaves 80 registers: (3100000, 5, 2, 3) float16s take 250 us
#: so, 274 by 8 vectors and 269 by 64 registers.
_THREADS_OF_APPLIED, _MOST_VECTORS = 256, 512
_PIECES_OF_THREAD, _RESIDENT_THREADS_OF_APPLIED = 4, 768


@dataclass(frozen=True, slots=True)
class Panels:
    """All groups, side by side, with a run of each."""

    groups: Groups
    run: int

    @classmethod
    def of(cls, groups: Groups) -> Panels:
        return cls(groups, 1 if groups.are_columns else groups.reduced.sizes[-1])

    @property
    def group_count(self) -> int:
        return self.groups.count

    @property
    def size(self) -> int:
        """Elements of a panel."""
        return self.group_count * self.run

    @property
    def vectors(self) -> int:
        """After so many elements lie at the same places of panels again."""
        return self.size // math.gcd(self.size, self.groups.chunk)

    def holds(self, name: str) -> bool:
        """Whether the array is one panel behind the other, from whole vectors on."""
        layout, groups = self.groups.arrays[name], self.groups
        assert isinstance(layout, ArrayLayout)
        size = layout.dtype.itemsize
        inner = () if groups.are_columns else (size,)
        follow = groups.reduced.strides[name] == (self.size * size, *inner)
        return follow and groups.kept.strides[name] == (self.run * size,) and layout.alignment % VECTOR_BYTES == 0

    @property
    def span(self) -> int:
        """Chunks of a group that a thread adds up at a time."""
        return _SPAN[self.group_count >= _MANY]

    @property
    def spans(self) -> int:
        """Of a group in a tile."""
        nbytes = self.group_count * self.span * VECTOR_BYTES
        return power_of_two_within(max(1, _TILE_BYTES[self.group_count >= _MANY] // nbytes))

    @property
    def tile(self) -> int:
        """Elements of a group in a tile."""
        return self.spans * self.span * self.groups.chunk

    @property
    def tile_panels(self) -> int:
        """Panels that a tile touches, at the most."""
        return min(self.groups.length // self.run, (self.tile + self.run - 2) // self.run + 1)

    @property
    def threads(self) -> int:
        """That take as few turns for all spans, as even as warps allow; one for each group at least."""
        spans = self.spans * self.group_count
        of_turn = math.ceil(spans / math.ceil(spans / _MOST_THREADS))
        return max(LANES * math.ceil(of_turn / LANES), power_of_two(self.group_count), _LEAST_THREADS)

    def first_elements(self) -> Iterator[int]:
        """Of the spans of a warp, from the begin of a panel on."""
        for lane in range(LANES):
            panel, place = divmod(lane // self.group_count * self.span * self.groups.chunk, self.run)
            yield (panel * self.group_count + lane % self.group_count) * self.run + place


def plan_panel_tiles(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The sums of all tiles, and every vector again; None where groups do not lie so, or others are faster."""
    return _plan(groups, spec) if _have_panels(groups) and _are_faster(groups, device) else None


def plan_panel_tiles_of_short_pieces(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The same where they are faster than bundles, whose pieces would be short."""
    return _plan(groups, spec) if _have_panels(groups) and _have_short_pieces(groups, device) else None


def _plan(groups: Groups, spec: Normalization) -> Plan | None:
    """None where panels are too large, have gaps or begin amid vectors, or scale and bias differ among them."""
    panels = Panels.of(groups)
    held = all(panels.holds(name) for name in ("input", "output") if groups.has(name))
    fit = panels.size * groups.widest <= _MOST_PANEL_BYTES
    fit &= panels.vectors <= _MOST_VECTORS or not groups.has("output")
    if not (held and fit and repeat_in_pieces(groups)):
        return None
    sums = _sum_step(panels, spec)
    return replace(sums, then=_apply_step(panels, spec)) if groups.has("output") else sums


def _have_panels(groups: Groups) -> bool:
    """Whether these are several groups of floats, and elements are numbered by panel and place in a run."""
    ranks = len(groups.kept.sizes), len(groups.reduced.sizes)
    return groups.are_floats and 1 < groups.count <= _MOST_THREADS and ranks == (1, 1 if groups.are_columns else 2)


def _are_faster(groups: Groups, device: DeviceProperties) -> bool:
    """Whether runs are no whole vectors, and there are many."""
    count, size = power_of_two(groups.count), groups.source.dtype.itemsize
    elements = groups.source.size / device.multiprocessors
    if groups.are_columns:
        is_odd = size == 2 and groups.count % 2 == 1 and groups.count <= _MOST_COLUMNS
        return is_odd and elements >= _LEAST_OF_COLUMNS
    run = groups.reduced.sizes[-1] * size
    if groups.packed("input"):
        return False
    if groups.has("output"):
        least = next(least for nbytes, least in _LEAST_ELEMENTS if run <= nbytes)
        return elements >= max(least, min(count * _LEAST_OF_GROUP, _LEAST_OF_MANY))
    few = run <= _TINY and count <= _FEW and size < 8
    return run <= _MOST_OF_MOMENTS and elements * size >= (_LEAST_BYTES_OF_FEW if few else _LEAST_BYTES)


def _have_short_pieces(groups: Groups, device: DeviceProperties) -> bool:
    """Whether bundles of groups would have, and there are many."""
    if groups.are_columns:
        return False
    elements, size, count = groups.reduced.sizes[-1], groups.source.dtype.itemsize, groups.count
    nbytes = groups.bytes_of_multiprocessor(device)
    if elements * size < VECTOR_BYTES:
        is_any = count <= _MOST_OF_ANY or count == power_of_two(count)
        least = count * (_LEAST_OF_GROUP if is_any else _LEAST_OF_ODD_GROUPS)
        some = _LEAST_IN_SHORT_RUNS <= count <= _MOST_IN_SHORT_RUNS[groups.has("output")]
        return some and nbytes >= max(least * size, _LEAST_BYTES_IN_SHORT_RUNS * elements * size)
    most = groups.count if elements * size == VECTOR_BYTES and groups.has("output") else _MOST_UNPAIRED
    is_unpaired = groups.packed("input") and count % 2 == 1 and count <= most
    is_short = elements <= _MOST_OF_UNPAIRED and elements * size <= 2 * VECTOR_BYTES
    return is_unpaired and is_short and nbytes >= _LEAST_BYTES_OF_UNPAIRED


def _sum_step(panels: Panels, spec: Normalization) -> Plan:
    groups, threads, size = panels.groups.in_tiles(panels.tile), panels.threads, panels.groups.source.dtype.itemsize
    own: dict[str, str | int | bool] = {
        "SPAN": panels.span,
        "SPANS": panels.spans,
        "THREADS": threads,
        "ADDERS": power_of_two_within(threads),
        "RESIDENT": _RESIDENT_THREADS // threads,
        "PIECES_OF_THREAD": 1,
        "PADDED": are_padded([*panels.first_elements()], [size], _MEETING),
    }
    constants = {**groups.constants(spec), **_constants(panels), **own}
    nbytes = staged_bytes(panels.tile_panels * panels.size, size)
    return sum_step("panel_tiles", groups, spec, constants, threads, power_of_two(panels.group_count), nbytes)


def _apply_step(panels: Panels, spec: Normalization) -> Plan:
    threads = max(_THREADS_OF_APPLIED, power_of_two(panels.vectors))
    vectors = threads // panels.vectors * panels.vectors * _PIECES_OF_THREAD
    groups = panels.groups.in_tiles(vectors * panels.groups.chunk // panels.group_count)
    own: dict[str, str | int | bool] = {
        "SPAN": 1,
        "SPANS": 1,
        "THREADS": threads,
        "ADDERS": threads,
        "RESIDENT": _RESIDENT_THREADS_OF_APPLIED // threads,
        "PIECES_OF_THREAD": _PIECES_OF_THREAD,
        "PADDED": False,
    }
    constants = {**groups.constants(spec), **_constants(panels), **own}
    return apply_step("panel_tiles", groups, spec, constants, threads, power_of_two(panels.group_count))


def _constants(panels: Panels) -> dict[str, str | int | bool]:
    """Those of both steps; either is given all others too, as the file has both, and reads its own."""
    groups = panels.groups
    own = {"GROUPS": panels.group_count, "RUN": panels.run, "SET": power_of_two(panels.group_count)}
    return {**own, "EVICTION": groups.eviction, "HAS_OUTPUT": groups.has("output")}
