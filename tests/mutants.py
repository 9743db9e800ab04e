"""Kernels with planted defects, and the executor's modes that find them: how well tests would notice real ones.

Most are planted in the library's kernels. What these do not use yet (look-back, fences, barriers of the grid,
asynchronous copies) is planted in the kernels of the executor's own tests, after which the next ones will be written.

A mode finds a defect if under one of its schedules a case of race_cases.py faults or gives wrong results. As a script,
`PYTHONPATH=. python tests/mutants.py [part of a name]`, it prints under how many schedules of each mode that happens.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuda_on_cpu import KernelFault, Schedule, schedules
from cuda_on_cpu.compiler import CACHE
from race_cases import CASES, EXECUTOR, LIBRARY

#: By name whether a mode is the checking one, and its schedules.
MODES: dict[str, tuple[bool, list[Schedule]]] = {
    "in order": (False, [Schedule("in order")]),
    "reversed": (False, [Schedule("reversed")]),
    "random": (False, [Schedule("random", seed) for seed in range(20)]),
    "checking": (True, schedules(6)),
}

ALL = tuple(MODES)
NOT_IN_ORDER = ("reversed", "random", "checking")
INTERLEAVED = ("random", "checking")
CHECKING = ("checking",)


@dataclass(frozen=True)
class Mutant:
    """A change of a file, as in "if (i <{+=+} count[- - 1-])", that makes a case fail in the modes named."""

    name: str
    file: str
    case: str
    found_by: tuple[str, ...]
    change: str

    @property
    def folder(self) -> Path:
        """Where the unchanged file lies."""
        return LIBRARY if (LIBRARY / self.file).exists() else EXECUTOR

    @property
    def old(self) -> str:
        return re.sub(r"\[-(.*?)-\]|\{\+.*?\+\}", r"\1", self.change, flags=re.DOTALL)

    @property
    def new(self) -> str:
        return re.sub(r"\[-.*?-\]|\{\+(.*?)\+\}", r"\1", self.change, flags=re.DOTALL)

    def plant(self) -> Path:
        """A copy of the folder with the defect, at a path of its own, so that what was compiled is found again."""
        source = (self.folder / self.file).read_text()
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: {source.count(self.old)} places of {self.file} have this text:\n{self.old}")
        copy = CACHE / "mutants" / re.sub(r"\W+", "-", self.name)
        shutil.copytree(self.folder, copy, dirs_exist_ok=True)
        (copy / self.file).write_text(source.replace(self.old, self.new))
        return copy

    def findings(self, mode: str) -> Iterator[str | None]:
        """For each schedule of the mode what it says of the defect; None where it goes unnoticed."""
        kernels = self.plant()
        checking, of_mode = MODES[mode]
        for schedule in of_mode:
            yield finding(self.case, schedule, checking, kernels)


def finding(case: str, schedule: Schedule, checking: bool, kernels: Path) -> str | None:
    try:
        CASES[case].run([schedule], checking, kernels)
    except KernelFault as fault:
        return str(fault).splitlines()[0]
    except AssertionError:
        return "wrong results"
    return None


# fmt: off
MUTANTS = [
    # Barriers of a block: none, too late, too early, for some
    Mutant("row totals read at once", "scan.cu", "rows of four warps", NOT_IN_ORDER,
           "}[-\n    __syncthreads();-]\n\n    const Item row_prefix"),
    Mutant("heads set before all are cleared", "scan.cu", "segments in a tile", ALL,
           "heads[word] = 0;[-\n    __syncthreads();-]"),
    Mutant("heads read before all are set", "scan.cu", "segments in a tile", ALL,
           "(bit % 32));\n    }[-\n    __syncthreads();-]"),
    Mutant("warp totals read at once", "scan.cu", "carries of a block of tiles", ALL,
           "warp_total[warp] = inclusive;[-\n        __syncthreads();-]"),
    Mutant("barrier before warp totals are written", "scan.cu", "carries of a block of tiles", ALL,
           "{+__syncthreads(); +}if (lane == LANES - 1) warp_total[warp] = inclusive;\n        [-__syncthreads();-]"),
    Mutant("carry of the block read at once", "scan.cu", "carries of a block of tiles", CHECKING,
           "levels.add(block, warps);\n        }[-\n        __syncthreads();-]"),
    Mutant("warp sums read at once", "normalization.cu", "groups of four warps", ALL,
           "[-__syncthreads();-]  // also: nothing is stored before the whole group was read"),
    Mutant("warp sums of a tile read at once", "normalization.cu", "moments of many tiles", ALL,
           "= sums;[-\n    __syncthreads();-]\n    if (threadIdx.x == 0)"),
    Mutant("output stored before all is read", "normalization.cu", "groups in place", ALL,
           "statistics_of(moments_of(total, [-shift-]{+group_shift(input, g, group)+}, length, 0)"),
    Mutant("barrier inside of a branch", "normalization.cu", "moments of many tiles", ALL,
           "if (lane_index() == 0) {+{+}warp_sums[threadIdx.x / LANES] = sums;\n    __syncthreads();{+}+}"),
    Mutant("idle groups skip the barrier", "scan.cu", "rows of one warp", ALL,
           "if (!active) [-line.length = 0-]{+return+};"),
    Mutant("idle groups return before the barrier", "normalization.cu", "groups of one warp", ALL,
           "{+if (!active) return; +}INPUT value[ROWS][CHUNK];"),
    # Warps: their barriers, masks and lanes
    Mutant("level replaced while it is read", "scan.cu", "carries of two tiles", CHECKING,
           "[-__syncwarp();-]  // all lanes have read what lane 31 is about to replace"),
    Mutant("shuffle of half a warp", "warp.cuh", "rows of one warp", ALL,
           "unsigned ALL_LANES = [-0xffffffffu-]{+0x0000ffffu+}"),
    Mutant("shuffle without the last lane", "warp.cuh", "groups of one warp", ALL,
           "unsigned ALL_LANES = [-0xffffffffu-]{+0x7fffffffu+}"),
    Mutant("shuffle after most lanes returned", "normalization.cu", "moments of many tiles", ALL,
           "{+if (lane_index() != 0) return; +}sums = warp_sum(sums);\n    [-if (lane_index() != 0) return;-]"),
    Mutant("network from the wrong lane", "tree.cuh", "rows of one warp", ALL,
           "+ half[- - 1-];"),
    Mutant("butterfly without its last step", "normalization.cu", "groups of one warp", ALL,
           "distance < LANES{+ / 2+};"),
    Mutant("chunk before from the wrong lane", "scan.cu", "rows of one warp", ALL,
           "shuffle(lanes, (lane +[- LANES --] 1) % LANES)"),
    # Tails: one too many, one too few, whole vectors
    Mutant("vector load rounded up", "scan.cu", "a line in chunks", CHECKING,
           "INPUT_PACKED && number [-+ CHUNK <=-]{+<+} line.length"),
    Mutant("vector store rounded up", "scan.cu", "a line in chunks", ALL,
           "OUTPUT_PACKED && number [-+ CHUNK <=-]{+<+} line.length"),
    Mutant("one element too many loaded", "scan.cu", "rows of one warp", CHECKING,
           "if (number + j <{+=+} line.length) value[j]"),
    Mutant("last element dropped", "scan.cu", "rows of one warp", ALL,
           "if (number + j {++ 1 +}< line.length) store"),
    Mutant("one tile too many in rows", "scan.cu", "rows of one warp", ALL,
           "const bool active = work <{+=+} g.lines * g.tiles"),
    Mutant("one tile too many in columns", "scan.cu", "columns", CHECKING,
           "exists = work <{+=+} g.lines * g.tiles"),
    Mutant("columns without an end", "normalization.cu", "short groups", ("in order", "random", "checking"),
           "[-if (work >= g.groups * g.tiles) return;-]"),
    Mutant("last carry dropped", "scan.cu", "rows of full tiles", ALL,
           "tile > 0 && tile <[-=-] g.tiles"),
    Mutant("one tile too many finished", "normalization.cu", "moments of many tiles", ALL,
           "tile <{+=+} g.tiles; tile += LANES"),
    Mutant("one element too many summed", "normalization.cu", "moments of many tiles", ALL,
           "if (number <{+=+} g.length) sums"),
    Mutant("one element too many normalized", "normalization.cu", "large groups", ALL,
           "if (element >[-=-] g.groups * g.length) return"),
    Mutant("last pack rounded up", "modulus.cu", "modulus in packs", CHECKING,
           "PACK > 1 && first [-+ PACK <=-]{+<+} g.size"),
    Mutant("last pack of modulus without end", "modulus.cu", "modulus in packs", ALL,
           "i < first + PACK[- && i < g.size-]"),
    # Indices, strides and alignment
    Mutant("carries of lines overlap", "scan.cu", "rows of two tiles and one", ALL,
           "line * [-(g.tiles + 1)-]{+g.tiles+} + tile)"),
    Mutant("carry of the tile before", "scan.cu", "rows of full tiles", ALL,
           "first_tile ? aggregate : carry[[-1-]{+0+}]"),
    Mutant("level never complete", "scan.cu", "carries of a group of blocks", ALL,
           "if (place < RADIX[- - 1-]) break;"),
    Mutant("aggregates in another order", "scan.cu", "columns of two tiles", ALL,
           "aggregates[column.[-line * g.tiles + column.tile-]{+work+}]"),
    Mutant("sums in another order", "normalization.cu", "large groups in columns", ALL,
           "tile_sums[[-group * g.tiles + tile-]{+work+}] = sums"),
    Mutant("groups and elements confused", "normalization.cu", "groups in columns", ALL,
           "COLUMNS ? element % g.[-groups-]{+length+}"),
    Mutant("stride of the next axis", "layout.cuh", "flattened", ALL,
           "* size[axis]) * stride[axis{+ - 1+}];"),
    Mutant("thread numbers in eight bits", "modulus.cu", "modulus in packs", ALL,
           "const Index first = {+static_cast<signed char>+}(static_cast<Index>(blockIdx.x)"),
    Mutant("head at the start of a tile lost", "scan.cu", "segments over tiles", ALL,
           "start(middle, length) <{+=+} element"),
    Mutant("vectors where the plan says elements", "scan.cu", "rows shifted by an element", ALL,
           "if ([-INPUT_PACKED && -]number"),
    Mutant("packs where the plan says elements", "modulus.cu", "modulus of every second", ALL,
           "if ([-PACK > 1 && -]first"),
    Mutant("elements where the plan says bytes", "elements.cuh", "groups shifted by a byte", CHECKING,
           "if constexpr ([-ALIGNED-]{+true+}) {\n        return"),
    # Shared memory: too short, not written, not atomic
    Mutant("row totals too short by one", "scan.cu", "rows of a whole tile", CHECKING,
           "row_total[GROUPS][RADIX{+ - 1+}]"),
    Mutant("warp sums too short by one", "normalization.cu", "moments of many tiles", CHECKING,
           "warp_sums[BLOCK / LANES{+ - 1+}];"),
    Mutant("head behind the tile", "scan.cu", "segments over tiles", CHECKING,
           "bit >[-=-] TILE"),
    Mutant("last word of heads not cleared", "scan.cu", "segments in a tile", CHECKING,
           "word < HEAD_WORDS{+ - 1+}; word += BLOCK"),
    Mutant("row totals of no row", "scan.cu", "rows of one warp", CHECKING,
           "row_total[group][lane[- % (WARPS * ROWS)-]]"),
    Mutant("last level not cleared", "scan.cu", "carries of two tiles", CHECKING,
           "k < CARRY_LEVELS{+ - 1+}; k++) levels."),
    Mutant("heads set without atomics", "scan.cu", "many segments", CHECKING,
           "[-atomicOr(&-]heads[bit / 32][-,-]{+ |=+} 1u << (bit % 32)[-)-];"),
    # Look-back and tickets
    Mutant("look-back does not wait", "chained_scan.cu", "look-back within a window", INTERLEAVED,
           "while ([-kind_of(state) == 0-]{+false+});"),
    Mutant("look-back waits for the nearest", "chained_scan.cu", "look-back within a window", INTERLEAVED,
           "while ({+lane == 0 && +}kind_of(state) == 0);"),
    Mutant("aggregate taken for a prefix", "chained_scan.cu", "look-back within a window", INTERLEAVED,
           "kind_of(state) [-== PREFIX-]{+!= 0+}"),
    Mutant("aggregate published as a prefix", "chained_scan.cu", "look-back within a window", INTERLEAVED,
           "[-tile == 0 ? PREFIX : AGGREGATE-]{+PREFIX+}"),
    Mutant("windows overlap", "chained_scan.cu", "look-back over windows", ("random",),
           "nearest -= LANES{+ - 1+})"),
    Mutant("tile by block", "chained_scan.cu", "look-back of a few tiles at a time", NOT_IN_ORDER,
           "static_cast<int>([-atomicAdd(ticket, 1u)-]{+blockIdx.x+})"),
    Mutant("ticket read at once", "chained_scan.cu", "look-back within a window", NOT_IN_ORDER,
           "atomicAdd(ticket, 1u));[-\n    __syncthreads();-]"),
    Mutant("totals read at once", "chained_scan.cu", "look-back within a window", NOT_IN_ORDER,
           "totals[warp] = inclusive;[-\n    __syncthreads();-]"),
    Mutant("starts read at once", "chained_scan.cu", "look-back within a window", ALL,
           "tile, lane);[-\n    __syncthreads();-]\n    const Value start"),
    # Fences and orders
    Mutant("partial sum not fenced", "last_block_sum.cu", "sum by the last block", CHECKING,
           "= mine;[-\n        __threadfence();-]"),
    Mutant("partial sum fenced for the block", "last_block_sum.cu", "sum by the last block", CHECKING,
           "= mine;\n        [-__threadfence-]{+__threadfence_block+}();"),
    Mutant("partial sums read without a fence", "last_block_sum.cu", "sum by the last block", CHECKING,
           "- 1;[-\n        __threadfence();-]"),
    Mutant("fence before the partial sum", "last_block_sum.cu", "sum by the last block", CHECKING,
           "{+__threadfence(); +}partial[blockIdx.x] = mine;\n        [-__threadfence();-]"),
    Mutant("last block by its number", "last_block_sum.cu", "sum by the last block", ALL,
           "last = [-atomicInc(finished, gridDim.x - 1)-]{+blockIdx.x+} == gridDim.x - 1;"),
    Mutant("last block not told", "last_block_sum.cu", "sum by the last block", ALL,
           "[-__syncthreads();-]\n    if (!last) return;"),
    Mutant("partial sums of the block overwritten", "block_sum.cuh", "two sums of a block",
           ("in order", "reversed", "checking"), "    }[-\n    __syncthreads();-]"),
    Mutant("release weakened to relaxed", "idioms_order.cu", "chain", CHECKING,
           "BUG&& tile == 1 ? store_relaxed(&flags[tile], 1) : [-store_release-]{+store_relaxed+}(&flags[tile], 1)"),
    Mutant("acquire weakened to the block", "idioms_order.cu", "chain", CHECKING,
           "while ([-load_acquire-]{+load_acquire_block+}(&flags[tile - 1]) == 0)"),
    Mutant("lock without a fence", "idioms_order.cu", "spin_lock", CHECKING,
           "[-if (!BUG) __threadfence();-]\n        out[0] += 1;"),
    # Barriers of the grid and of clusters
    Mutant("barrier of the block for the grid", "grid_mean.cu", "mean over the grid", ALL,
           "[-groups::this_grid().sync-]{+__syncthreads+}();"),
    Mutant("sums written behind the grid's barrier", "grid_mean.cu", "mean over the grid", ALL,
           "{+groups::this_grid().sync(); +}if (threadIdx.x == 0) sums[blockIdx.x] = mine;\n"
           "    [-groups::this_grid().sync();-]"),
    Mutant("bins counted before they are cleared", "cluster_histogram.cu", "histogram of a cluster", ALL,
           "bins[i] = 0;\n    [-cluster_sync-]{+__syncthreads+}();"),
    Mutant("cluster not awaited", "cluster_histogram.cu", "histogram of a cluster", ALL,
           "}\n    [-cluster_sync-]{+cluster_arrive+}();"),
    Mutant("neighbour's bins without atomics", "cluster_histogram.cu", "histogram of a cluster", CHECKING,
           "[-atomicAdd(&-]map_shared(bins, values[i] / bins_per_block)[values[i] % bins_per_block]"
           "[-, 1u)-]{+ += 1u+}"),
    # Asynchronous copies and their stages
    Mutant("copy not awaited", "staged_copy.cu", "tiles in two buffers", ALL,
           "copy_async_wait<[-1-]{+2+}>();"),
    Mutant("copies of others not awaited", "staged_copy.cu", "tiles in two buffers", ALL,
           "copy_async_wait<1>();[-\n        __syncthreads();-]"),
    Mutant("buffer filled while it is read", "staged_copy.cu", "tiles in two buffers by one block", NOT_IN_ORDER,
           "}[-\n        __syncthreads();-]\n        current"),
    Mutant("last vector copied whole", "staged_copy.cu", "tiles in two buffers", CHECKING,
           "if (i [-+ VECTOR <=-]{+<+} length)"),
    Mutant("stage filled before it is empty", "tile_stream.cu", "stream of tiles by one block", ALL,
           "[-if (visit >= STAGES) wait_for_visit(work.barriers->empty, visit - STAGES, STAGES);-]"),
    Mutant("stage not awaited", "tile_stream.cu", "stream of tiles by one block", ALL,
           "[-wait_for_visit(work.barriers->full, visit, STAGES);-]"),
    Mutant("wrong parity", "tile_stream.cu", "stream of tiles by one block", ALL,
           "[-visit / slots-]{+(visit / slots + 1)+} % 2"),
    Mutant("parity that never changes", "tile_stream.cu", "stream of tiles by one block", ALL,
           "[-visit / slots % 2-]{+0+}"),
    Mutant("stage given back by one lane", "tile_stream.cu", "stream of tiles by one block", CHECKING,
           "[-__syncwarp();-]\n    if (lane == 0) mbarrier_arrive(&work.barriers->empty"),
    Mutant("starts announced by one lane", "tile_stream.cu", "stream of tiles", INTERLEAVED,
           "[-__syncwarp();-]\n    if (lane == 0) mbarrier_arrive(&work.barriers->folded"),
    Mutant("a slot too few", "tile_stream.cu", "stream of tiles by one block", INTERLEAVED,
           "SLOTS = AHEAD[- + 1-];"),
    Mutant("half the bytes awaited", "tile_stream.cu", "stream of tiles by one block", ALL,
           "mbarrier_arrive_expect(full, TILE_BYTES{+ / 2+})"),
    Mutant("short tile loaded whole", "tile_stream.cu", "stream of tiles", ALL,
           "return [-(tile(visit) + 1) * TILE <=-]{+tile(visit) * TILE <+} count;"),
    Mutant("barriers not fenced", "tile_stream.cu", "stream of tiles by one block", CHECKING,
           "[-fence_mbarrier_init();-]"),
    Mutant("proxy not fenced", "idioms_copies.cu", "store_fenced", CHECKING,
           "[-if (SLIP != StoreSlip::NO_PROXY_FENCE) fence_async_proxy();-]"),
    Mutant("sums of an earlier launch", "tile_stream.cu", "stream of tiles", NOT_IN_ORDER,
           "while (static_cast<unsigned>(seen >> 32) [-!= work.epoch-]{+== 0+});"),
    Mutant("fold that does not wait", "tile_stream.cu", "stream of tiles", NOT_IN_ORDER,
           "while ([-static_cast<unsigned>(seen >> 32) != work.epoch-]{+false+});"),
]
# fmt: on


def main(part: str = "") -> None:
    """Prints the table."""
    print(f"| mutant | {' | '.join(MODES)} | what is said |\n|---|---|---|---|---|---|")
    for mutant in MUTANTS:
        if part in mutant.name:
            found = {mode: list(mutant.findings(mode)) for mode in MODES}
            counts = (f"{sum(map(bool, said))}/{len(said)}" for said in found.values())
            said = next(filter(None, found["checking"] + found["random"]), "")
            print(f"| {mutant.name} | {' | '.join(counts)} | {said} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
