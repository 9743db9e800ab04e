"""How units lie in the stages of kernels/normalization_stream.cu, and whether bulk copies load them."""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import CACHE_LINE_BYTES, VECTOR_BYTES, ArrayLayout
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.runs import grain_of

#: Runs that bulk copies load: a copy costs some 40 ns of a multiprocessor of an H200 whatever its size.
_LEAST_RUN_BYTES = 2048

#: The same of runs that end anywhere, by the bytes of an element: shorter ones are loaded faster by threads, of halves
#: by chunks, of others one by one. Over 0, 2, 3 (256, 768, 17, 17) float16s take 117 us so and 140 by threads, but
#: floats 153 and 151, (1550, 256, 21, 21) 417 and 457.
_LEAST_ODD_RUN_BYTES = {2: 512, 4: 1536, 8: 1536}

#: Bytes of such runs, at the most, so that what counts those of a warp's lanes has 31 bits: no GPU holds longer ones.
_MOST_ODD_RUN_BYTES = 1 << 25

#: Bytes between such runs, at the least: no two lie in the same piece then, and a seam fits in between.
_LEAST_RUN_GAP = 2 * VECTOR_BYTES - 1

#: The part of a run that a gap behind it may be to be copied too.
_MOST_GAP = 1 / 16


class StagedUnits(NamedTuple):
    """What is the same for all units of a launch."""

    bulk: bool
    """Whether bulk copies load them."""
    gaps: int = 0
    """Bytes that the gaps between the runs of a unit take, at the most."""
    keeps_places: bool = False
    """Whether units lie within a line of the cache where they do in memory: where they did within 16 bytes alone (8,
    128, 509, 511) floats over 2, 3 took an H200 529 us, and 516 so, (16, 128, 509, 511) float16s 607 and 589, (12, 96,
    253, 299) doubles over 0, 2, 3 373 and 351."""
    run_gap: int = 0
    """Bytes that runs which end anywhere lie apart, where each is copied by itself; else 0."""

    @staticmethod
    def of(groups: Groups, elements: int, device: DeviceProperties) -> StagedUnits:
        """Those of so many elements."""
        if not device.bulk_copies:
            return StagedUnits(bulk=False)
        gaps = _gaps(groups, elements)
        if gaps > 0 or _has_long_runs(groups, elements):
            return StagedUnits(True, gaps, keeps_places=not groups.packed("input") or _begin_amid_lines(groups))
        run_gap = _run_gap(groups, elements)
        if run_gap == 0:
            return StagedUnits(bulk=False)
        seams = _most_runs(groups, elements) * run_gap + VECTOR_BYTES
        return StagedUnits(True, _in_lines(seams), keeps_places=True, run_gap=run_gap)

    @property
    def bytes_beside(self) -> int:
        """Of a stage, beside the elements."""
        return self.gaps + (CACHE_LINE_BYTES if self.keeps_places else 0)

    def keep_places_of_results(self, groups: Groups) -> bool:
        """Whether results lie at the same places within VECTOR_BYTES as their elements in a stage, in the same runs,
        and have the scale and bias of their group."""
        source, output = groups.source, groups.arrays["output"]
        assert isinstance(output, ArrayLayout)
        size = source.dtype.itemsize
        if not self.keeps_places or groups.operands.differ_down:
            return False
        if output.dtype.itemsize != size or groups.reduced.strides["output"][-1] != size:
            return False
        if len(groups.reduced.sizes) > (2 if self.run_gap else 1):
            return False
        aligned = all(array.alignment == VECTOR_BYTES and array.element_aligned for array in groups.stored)
        return aligned and all(
            (first - second) % VECTOR_BYTES == 0
            for strides in (groups.kept.strides, {name: of[:-1] for name, of in groups.reduced.strides.items()})
            for first, second in zip(strides["input"], strides["output"], strict=True)
        )


def _in_lines(nbytes: int) -> int:
    return CACHE_LINE_BYTES * math.ceil(nbytes / CACHE_LINE_BYTES)


def _most_runs(groups: Groups, elements: int) -> int:
    """That so many neighbours of a group lie in."""
    return elements // groups.reduced.sizes[-1] + 2


def _begin_amid_lines(groups: Groups) -> bool:
    """Whether groups of one run begin anywhere in a line of the cache, if the first begins with one. Those that read
    scale and bias of every element need the room for stages: (64, 8388605) float16s, which begin at any element, took
    an H200 1321 us with 13, and take 1421 with the 12 that this leaves."""
    amid = any(stride % CACHE_LINE_BYTES for stride in groups.kept.strides["input"])
    return amid and groups.is_one_run("input") and not groups.operands.are_own


def _has_long_runs(groups: Groups, elements: int) -> bool:
    """Whether bulk copies can load any unit: one of a single run, or one for each of its runs by a lane."""
    size, run = groups.source.dtype.itemsize, groups.reduced.sizes[-1]
    if groups.is_one_run("input"):
        return True
    return groups.packed("input") and run * size >= _LEAST_RUN_BYTES and _most_runs(groups, elements) <= LANES


def _gaps(groups: Groups, elements: int) -> int:
    """Bytes between the runs of a unit, rounded up, where these are short and so near that a bulk copy takes them
    together; else 0."""
    sizes, strides = groups.reduced.sizes, groups.reduced.strides["input"]
    size, run = groups.source.dtype.itemsize, sizes[-1]
    if len(sizes) < 2 or strides[-1] != size or elements % run or run % groups.chunk:
        return 0
    gap = strides[-2] - run * size
    in_one = len(sizes) == 2 or run * sizes[-2] % elements == 0
    if not in_one or not 0 < gap <= _MOST_GAP * run * size:
        return 0
    return _in_lines((elements // run - 1) * gap)


def _run_gap(groups: Groups, elements: int) -> int:
    """Bytes between the runs of a stage that leave each where it is within a line of the cache; 0 unless these end
    anywhere, are long, and lie at one stride."""
    strides, run = groups.reduced.strides["input"], groups.reduced.sizes[-1]
    size = groups.source.dtype.itemsize
    is_odd = len(strides) == 2 and strides[-1] == size and not groups.packed("input") and grain_of(groups, "input") == 1
    if not is_odd or size not in _LEAST_ODD_RUN_BYTES or not groups.source.element_aligned:
        return 0
    if not _LEAST_ODD_RUN_BYTES[size] <= run * size <= _MOST_ODD_RUN_BYTES or _most_runs(groups, elements) > LANES:
        return 0
    return _LEAST_RUN_GAP + (strides[-2] - run * size - _LEAST_RUN_GAP) % CACHE_LINE_BYTES
