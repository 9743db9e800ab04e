"""Kernels with planted defects, and the executor's modes that find them: how well tests would notice real ones.

Most are planted in the library's kernels. What these do not use (look-back, fences, barriers of the grid, clusters) is
planted in the kernels of the executor's own tests.

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
    # Warps: their barriers, masks and lanes
    Mutant("shuffle of half a warp", "warp.cuh", "rows of one warp", ALL,
           "unsigned ALL_LANES = [-0xffffffffu-]{+0x0000ffffu+}"),
    Mutant("shuffle without the last lane", "warp.cuh", "groups of one warp", ALL,
           "unsigned ALL_LANES = [-0xffffffffu-]{+0x7fffffffu+}"),
    Mutant("network from the wrong lane", "tree.cuh", "rows of one warp", ALL,
           "+ half[- - 1-];"),
    # Indices, strides and alignment
    Mutant("stride of the next axis", "layout.cuh", "flattened", ALL,
           "* size[axis]) * stride[axis{+ - 1+}];"),
    Mutant("elements where the plan says bytes", "elements.cuh", "groups shifted by a byte", CHECKING,
           "if constexpr ([-ALIGNED-]{+true+}) {\n        return"),
    # Normalization of lines and columns
    Mutant("warp sums read at once", "normalization_lines.cu", "groups of four warps", ALL,
           "= sums;[-\n    __syncthreads();-]\n    Sums neighbours"),
    Mutant("output stored before all is read", "normalization_lines.cu", "groups in place", ALL,
           "rows.store(buffer, group, g, Normalizer<Compute>::of("
           "[-moments-]{+moments_of(sums, Shift(load_input(group, g, 0)).value, p)+}, p)"),
    Mutant("butterfly without its last step", "normalization.cuh", "groups of four warps", ALL,
           "step < WIDTH{+ / 2+};"),
    Mutant("neighbours added to the wrong one", "normalization.cuh", "groups of four warps", ALL,
           "combine(sums[k], sums[k + step{+ - 1+}]);"),
    Mutant("mean without its power of two", "normalization.cuh", "groups of one warp", ALL,
           "return {power, mean[- * power-], static_cast<float>(root)"),
    Mutant("rows that are exchanged already", "tree.cuh", "groups of sixteen lanes", CHECKING,
           "rows > 1 ? rows[- / 2-] : 1;"),
    Mutant("statistics from another row", "normalization_lines.cu", "groups of two lanes", ALL,
           "shuffle(normalizer[r / LINE_LANES], lane_of_row([-r-]{+0+}))"),
    Mutant("shift of another row", "normalization_lines.cu", "groups of two lanes", ALL,
           "element = row >= r ? first[[-r-]{+0+}]"),
    Mutant("chunk gathered before all is there", "normalization_chunks.cuh", "groups shifted by a byte", NOT_IN_ORDER,
           "buffer.input[j * LANES + lane_index()] = chunk.element[j];[-\n    __syncwarp();-]\n#pragma unroll\n"
           "    for (int j = 0; j < CHUNK; j++) chunk"),
    Mutant("short groups without an end", "normalization_lines.cu", "groups of a chunk", CHECKING,
           "return i < [-count-]{+GROUPS_OF_ROW+} * SHORT_LENGTH"),
    Mutant("one element too many summed", "normalization_chunks.cuh", "group that ends in a chunk", ALL,
           "if (number + j >[-=-] end) chunk.element[j]"),
    Mutant("one chunk too many", "normalization_chunks.cuh", "groups of one warp", ALL,
           "return ENDS == WHOLE || number <{+=+} end;"),
    Mutant("chunks taken for whole", "normalization_chunks.cuh", "group that ends in a chunk", CHECKING,
           "return ENDS == CUT ? [-number + COUNT <= end-]{+number < end+}"),
    Mutant("row of the group before", "normalization_lines.cu", "groups of four rows", ALL,
           "begin = row % [-GROUP_ROWS-]{+2+} * ROW;"),
    Mutant("rows of a group not added up", "normalization_lines.cu", "groups of two rows", ALL,
           "moments_of([-lane_sum<GROUP_ROWS>(-]sums[k][-)-],"),
    Mutant("run that ends in the next", "normalization_chunks.cuh", "groups over two axes", ALL,
           "const bool carries = place + rest >[-=-] run;"),
    Mutant("one tile too many finished", "normalization_tiles.cuh", "moments of many tiles", ALL,
           "number <{+=+} tiles ? tile"),
    Mutant("sums of finishers read at once", "normalization_tiles.cuh", "moments of more tiles than a warp takes",
           NOT_IN_ORDER,
           "warp_sums[in_block][thread / LANES] = sums;[-\n        __syncthreads();-]"),
    Mutant("division by another number", "normalization.cuh", "groups over two axes", ALL,
           ">> shift[axis{+ - 1+}];"),
    Mutant("stride of another array", "normalization.cuh", "group norm in columns", ALL,
           "stride[{+a > 1 ? 0 : +}a][axis];"),
    Mutant("parts of columns read at once", "normalization_spans.cuh", "columns of a block", NOT_IN_ORDER,
           "= sums[k];\n        }[-\n        __syncthreads();-]"),
    Mutant("statistics of columns read at once", "normalization_columns.cu", "columns of a block", NOT_IN_ORDER,
           "[-__syncthreads();-]  // by now"),
    Mutant("columns without an end", "normalization_columns.cu", "moments of columns", ALL,
           "if (mean && [-(WHOLE || number < g.groups)-]{+true+}) store_moments"),
    Mutant("spans summed in another lane", "normalization_spans.cuh", "groups in columns in place", ALL,
           "row_aggregates<VECTOR, TOGETHER, ACROSS{+ / 2+}>(sums)"),
    Mutant("one step too many", "normalization_spans.cuh", "columns of a block", ALL,
           "offsets(k <{+=+} place.count ? place.begin + k : 0)"),
    Mutant("bias of the first column for all", "normalization_spans.cuh", "batch norm in columns", ALL,
           "row[v] = pack.element[[-v-]{+0+}]"),
    Mutant("tile of another strip", "normalization_columns.cu", "moments of large columns", ALL,
           "tile_sums[[-number * g.tiles + work.tile-]{+number + work.tile+}]"),
    Mutant("statistics of long columns read at once", "normalization_columns.cu", "large columns", INTERLEAVED,
           "operands.load(column, g, place);\n    [-__syncthreads();-]"),
    Mutant("rounds of a column interleaved", "normalization_spans.cuh", "large columns in rounds", ALL,
           "number / TOGETHER * [-ROUNDS * -]TOGETHER + number"),
    Mutant("span read before its rows are there", "normalization_spans.cuh", "narrow columns of halves", NOT_IN_ORDER,
           "= pieces[i];\n        }[-\n        __syncwarp();-]"),
    Mutant("rows overwritten while they are read", "normalization_spans.cuh", "narrow columns in rounds", CHECKING,
           "from + offset_of_piece(i));\n        }[-\n        __syncwarp();-]"),
    Mutant("rows stored before they are there", "normalization_spans.cuh", "narrow columns of halves", NOT_IN_ORDER,
           "store(char* to) {\n        [-__syncwarp();-]"),
    Mutant("last rows of a warp read as if they were whole", "normalization_spans.cuh", "narrow columns of halves",
           CHECKING,
           "begin_of_warp() + [-TOGETHER * STEPS-]{+1+} <= g.length"),
    Mutant("rows of the warp's first round again", "normalization_lines.cu", "moments in rounds", ALL,
           "next_round() { begin += [-ROWS * ROW-]{+0+}; }"),
    # Normalization of groups that all blocks hold together
    Mutant("stage of a group filled at once", "normalization_ring.cuh", "stream of more groups than slots", ALL,
           "[-if (visit >= STAGES) -]{+if (false) +}work.stage(visit).emptied"),
    Mutant("unit added up before it is there", "normalization_stream.cu", "stream", ALL,
           "[-work.stage(unit.visit).full.wait(use_of(unit.visit));\n            -]const bool whole"),
    Mutant("unit normalized before all blocks have summed", "normalization_ring.cuh", "stream", ALL,
           "[-await(from, sums, slot.epoch, Sums{}, slot.sums_apart);-]{+for (auto& s : sums) s = Sums{};+}"),
    Mutant("unit normalized before the folder knows", "normalization_stream.cu", "stream", ALL,
           "[-stage.ready.wait(use_of(unit.visit));-]"),
    Mutant("parts published before they are there", "normalization_stream.cu", "stream", NOT_IN_ORDER,
           "[-parts[visit % STAGES].summed.wait(use_of(visit));-]"),
    Mutant("column given back by one lane", "normalization_ring.cuh", "strips of halves", INTERLEAVED,
           "arrive_by_warp(Gate& gate) {[-\n    __syncwarp();-]"),
    Mutant("first element stored before others read it", "normalization_ring.cuh", "stream in place", CHECKING,
           "if ([-in_place-]{+false+}) fence_dependents();"),
    Mutant("one lane publishes what others saw", "normalization_strips.cu", "strips in place", CHECKING,
           "[-work.fence();  // and before-]{+// and before+}"),
    Mutant("sums of an earlier turn", "normalization_ring.cuh", "stream of more groups than slots", ALL,
           "epoch[- + static_cast<unsigned>(turn)-]}"),
    Mutant("epochs that the next launch has again", "normalization_ring.cuh", "stream of more groups than slots", ALL,
           "? 0 : launches + [-turns-]{+1+};"),
    Mutant("pieces of a column folded twice", "normalization_strips.cu", "strips of more halves", ALL,
           "lane_index() / across[- * share-]"),
    Mutant("one piece too few folded", "normalization_ring.cuh", "stream", ALL,
           "piece < pieces{+ - 1+} ? slot.sums"),
    Mutant("share of half the pieces", "normalization_ring.cuh", "stream of many units", ALL,
           "while (share * shares < count{+ / 2+}) share"),
    Mutant("chunks of a lane in another order", "normalization_stream.cu", "stream", ALL,
           "(first + (k [-^-]{+|+} swap))"),
    Mutant("scale of the group before", "normalization_stream.cu", "batch norm with one piece for each block", ALL,
           "if (number == first[- && group.scale == scale && group.bias == bias-]) return;"),
    Mutant("run copied to another place", "normalization_stream.cu", "batch norm with one piece for each block", ALL,
           "data + (first - [-begin-]{+of_lane+}) * SIZE"),
    Mutant("run without its tail", "normalization_stream.cu", "stream shifted by a byte", ALL,
           "lane - 16 < tail{+ - 1+}) to"),
    Mutant("bytes of the last turn under a copy", "normalization_stream.cu", "stream round a small ring", CHECKING,
           "[-if (head + tail > 0) fence_async_proxy();-]"),
    Mutant("strip loaded a row too far", "normalization_strips.cu", "strips", ALL,
           "step >{+ unit.count || step > +}[-=-] unit.count) break"),
    Mutant("rows of another unit", "normalization_strips.cu", "strips over two axes", ALL,
           "row[k] = work.g.reduced.offsets([-unit.begin + -]step)"),
    Mutant("strip normalized before it is known", "normalization_strips.cu", "strips", ALL,
           "[-known.ready.wait(use_of_known(turn.number));-]"),
    Mutant("unit taken before it is there", "normalization_strips.cu", "strips", ALL,
           "exists ? unit.count : 0;\n            [-work.stage(unit.visit).full.wait(use_of(unit.visit));-]"),
    Mutant("one slot too few of what is known", "normalization_strips.cu", "strips round a ring", INTERLEAVED,
           "SLOTS = STAGES / PIECE[- + 1-];"),
    Mutant("column read for another team's piece", "normalization_strips.cu", "strips in place", CHECKING,
           "turn.exists() && [-turn.number % TEAMS == team && -]column"),
    # Moduli
    Mutant("last pack rounded up", "modulus_packs.cu", "modulus in packs", CHECKING,
           "first + PACK [-<=-]{+- PACK <+} g.length"),
    Mutant("last pack without an end", "packs.cuh", "modulus in packs", CHECKING,
           "if (0 <= first + i[- && first + i < length-])"),
    Mutant("thread numbers in eight bits", "modulus_packs.cu", "modulus of many blocks", ALL,
           "(thread - group * g.packs.size) * PACK{+ % 2048+} - lead_of"),
    Mutant("packs that begin anywhere", "modulus_packs.cu", "modulus of shifted packs in place", CHECKING,
           "% (PACK * sizeof(Output)) / sizeof(Output){+ * 0+});"),
    Mutant("first pack of a row before it", "packs.cuh", "modulus of shifted packs in place", CHECKING,
           "if ([-0 <= first + i && -]first + i < length)"),
    Mutant("words shifted by a byte too little", "packs.cuh", "modulus shifted within words", ALL,
           "loaded[i + 1], within * [-8-]{+4+});"),
    Mutant("last word not loaded", "packs.cuh", "modulus shifted within words", ALL,
           "word[within [-==-]{+>=+} 0 ? COUNT - 1 : COUNT];"),
    Mutant("words loaded from before an array", "modulus.cuh", "modulus of shifted packs", CHECKING,
           "offset >= begin[- + 4-] && offset <= end - bytes[- - 4-];"),
    Mutant("others of every two bytes", "packs.cuh", "modulus of every second byte", ALL,
           "sizeof(T) == 1 ? 0x[-6420-]{+7531+} : 0x5410"),
    Mutant("one row too many", "modulus_packs.cu", "modulus of a row", ALL,
           "i <{+=+} rows; i++) store_whole"),
    Mutant("rows loaded that are not there", "modulus_packs.cu", "modulus of a row", CHECKING,
           "if (rows >= ROWS{+ - 2+})"),
    Mutant("rows one apart", "modulus_packs.cu", "modulus of a row", ALL,
           "g.rows - at.last[- * ROWS-] : 1;"),
    Mutant("one number along all axes", "modulus.cuh", "modulus of a short row", ALL,
           "[-number = outer;-]"),
    Mutant("quotient of a count too large", "modulus.cuh", "modulus of a short row", ALL,
           "__umulhi(n, factor) >> [-shift-]{+(shift - 1)+})"),
    Mutant("one element too many computed", "modulus_elements.cu", "modulus of every second",
           ("in order", "random", "checking"),
           "if (first + k * BLOCK <{+=+} g.size) store_element"),
    Mutant("sums of a cluster read before they are there", "normalization_clusters.cu", "clusters", NOT_IN_ORDER,
           "[-cluster_sync();-]{+__syncthreads();+}  // by now"),
    Mutant("sums of a cluster gone before they are read", "normalization_clusters.cu", "clusters", INTERLEAVED,
           "[-cluster_wait();-]"),
    Mutant("statistics of a cluster read at once", "normalization_clusters.cu", "clusters", NOT_IN_ORDER,
           "cluster_arrive();\n    [-__syncthreads();-]"),
    Mutant("sums of its own tile for all", "normalization_clusters.cu", "clusters of halves", ALL,
           "*map_shared(of_tile, [-first-]{+cluster_rank()+})"),
    Mutant("one tile too few", "normalization_clusters.cu", "clusters of eight", ALL,
           "first < CLUSTER{+ - 1+} ?"),
    Mutant("copies of a chunk taken for complete", "normalization_stream.cu", "stream of short runs", CHECKING,
           "full.arrive[-_after_copies-]();\n    }\n}\n\n// By all loaders, who"),
    Mutant("last chunk of a unit left out", "normalization_stream.cu", "stream of padded runs", ALL,
           "COPIED; i < whole{+ - COPIED+};"),
    Mutant("turned tile read before it is whole", "normalization_turned.cu", "turned", NOT_IN_ORDER,
           "fill<WHOLE>(tile);\n        [-__syncthreads();-]"),
    Mutant("group of another row", "normalization_turned.cu", "turned", ALL,
           "normalizers[[-i-]{+i / 2+}];"),
    Mutant("one row too many turned", "normalization_turned.cu", "turned", ALL,
           "(i <{+=+} height && j + v < width)"),
    Mutant("turned tiles taken for whole", "turned_tiles.cuh", "turned", ALL,
           "return first >= margin[- && first + count + margin <= length-];"),
    Mutant("moments of other groups", "normalization_turned.cu", "turned batch norm", ALL,
           "thread < (GROUPS_DOWN ? height : width) ? [-thread-]{+0+} : 0"),
    Mutant("words of a turned tile in one place", "turned_tiles.cuh", "turned into whole tiles", ALL,
           "number [-^-]{+|+} row / HIGH % 8 * 4"),
    Mutant("tile read before it is whole", "modulus_tiles.cu", "modulus of transposed numbers", NOT_IN_ORDER,
           "[-__syncthreads();-]\n#pragma unroll 1"),
    Mutant("whole tile read before it is whole", "modulus_tiles.cu", "modulus of whole tiles", NOT_IN_ORDER,
           "[-__syncthreads();-]\n#pragma unroll 1"),
    Mutant("one row of a tile too many", "modulus_tiles.cu", "modulus of transposed numbers", ALL,
           "else if (i <{+=+} g.height) store_part"),
    Mutant("tiles taken for whole", "turned_tiles.cuh", "modulus of transposed numbers", ALL,
           "return first >= margin[- && first + count + margin <= length-];"),
    Mutant("two words of a tile in one place", "turned_tiles.cuh", "modulus of whole tiles", ALL,
           "number [-^-]{+|+} row / HIGH % 8 * 4"),
    Mutant("bytes turned into the wrong rows", "turned_tiles.cuh", "modulus of whole tiles of bytes", ALL,
           "row % 4 < 2 ? 0x5140 : 0x[-7362-]{+5140+}"),
    Mutant("halves turned into the wrong rows", "turned_tiles.cuh", "modulus of transposed halves", ALL,
           "row % 2 ? 0x[-7632-]{+5410+} : 0x5410);\n        } else {"),
    Mutant("both halves of a word by the first divisor", "remainder.cuh", "modulus shifted within words", ALL,
           "if constexpr ([-!SAME-]{+false+}) high ="),
    Mutant("remainders below zero", "remainder.cuh", "modulus of whole packs", ALL,
           "return remainder < 0 ? remainder [-+ y-] : remainder;"),
    Mutant("long division only where all need it", "remainder.cuh", "huge quotients", ALL,
           "enough [-&=-]{+|=+} divisor"),
    Mutant("quotient of 32 bits too large", "remainder.cuh", "modulus in 32 bits", ALL,
           "bits_as_float(0x4f[-7ffffa-]{+800040+}u)"),
    Mutant("quotient of 64 bits in one step", "remainder.cuh", "modulus in 64 bits", ALL,
           "[-rest -= __double2uint_rz(__ull2double_rn(rest) * by) * y;-]"),
    Mutant("steps beyond the digits of a number", "remainder.cuh", "huge quotients on an old GPU", ALL,
           "DIGITS = 24, BIAS = 127, STEP = [-21-]{+24+};"),
    Mutant("subnormals taken for normal", "remainder.cuh", "huge quotients in double", ALL,
           "return x < y ? x : divide_long<double, [-true-]{+false+}>(x, y);"),
    Mutant("long division without its last step", "remainder.cuh", "huge quotients", ALL,
           "[-rest = step(rest * power_of_two<Real>(bits), divisor.significand, by);-]"),
    Mutant("reciprocal of bytes without its correction", "remainder.cuh", "modulus in packs", ALL,
           "by = [-halves_fma(guess, halves_fma(error, error, error), guess)-]{+guess+};"),
    # Scans of short lines
    Mutant("row totals read at once", "scan_rows.cuh", "lines of 12 rows", NOT_IN_ORDER,
           "}[-\n    __syncthreads();-]\n    constexpr int LAST"),
    Mutant("heads set before all are cleared", "scan_rows.cuh", "segments in a tile", CHECKING,
           "heads.word[word] = 0;[-\n    __syncthreads();-]"),
    Mutant("heads read before all are set", "scan_rows.cuh", "segments in a tile", ALL,
           "BLOCK / LANES);[-\n    __syncthreads();-]"),
    Mutant("chunk before from the wrong lane", "scan.cuh", "rows of one warp", ALL,
           "shuffle(lanes, (lane +[- LANES --] 1) % LANES)"),
    Mutant("vector load rounded up", "scan.cuh", "a line in chunks", CHECKING,
           "INPUT_PACKED && number [-+ CHUNK <=-]{+<+} line.length"),
    Mutant("vector store rounded up", "scan.cuh", "a line in chunks", ALL,
           "OUTPUT_PACKED && number [-+ CHUNK <=-]{+<+} line.length"),
    Mutant("one element of a chunk too many loaded", "scan.cuh", "a line in chunks", CHECKING,
           "if (number + j <{+=+} line.length) value[j]"),
    Mutant("one element too many loaded", "scan.cuh", "rows of one warp", CHECKING,
           "if (i <{+=+} left) element[j]"),
    Mutant("last element of a chunk dropped", "scan.cuh", "a line in chunks", ALL,
           "if (number + j {++ 1 +}< line.length) store"),
    Mutant("last element dropped", "scan.cuh", "rows of one warp", ALL,
           "if (i {++ 1 +}< left) store"),
    Mutant("row replaced while it is read", "scan.cuh", "rows of every second", CHECKING,
           "[-__syncwarp();-]\n#pragma unroll\n"
           "    for (int j = 0; j < CHUNK; j++) buffer.element(lane_index() * CHUNK + j) = convert"),
    Mutant("row read before it is whole", "scan.cuh", "rows of one warp", NOT_IN_ORDER,
           "[-__syncwarp();-]\n#pragma unroll\n    for (int j = 0; j < CHUNK; j++) value[j]"),
    Mutant("one line too many", "scan_lines.cu", "rows of one warp", CHECKING,
           "exists = number <{+=+} g.lines"),
    Mutant("one short line too many", "scan_lines.cu", "lines of three", ALL,
           "g.lines - first < LINES_OF_ROW ? g.lines - first {++ 1 +}: LINES_OF_ROW"),
    Mutant("short lines run together", "scan_lines.cu", "short lines", ALL,
           "warp_prefix[-<LINE_LANES>-](chunk[r].total())"),
    Mutant("row totals of no row", "scan_rows.cuh", "lines of 12 rows", CHECKING,
           "row_total[lane < LAST ? lane : {+1 + +}LAST]"),
    Mutant("head at the start of a tile lost", "segments.cuh", "segments over linked tiles", ALL,
           "place < high && start(place) <{+=+} element"),
    Mutant("sample at the start of a tile passed", "samples.cuh", "segments over tiles", ALL,
           "place < high && start[place] <{+=+} element"),
    Mutant("head behind the tile", "segments.cuh", "segments over tiles", CHECKING,
           "bit[k] >[-=-] TILE"),
    Mutant("heads set without atomics", "segments.cuh", "many segments", CHECKING,
           "[-atomicOr(&-]word[bit[k] / 32][-,-]{+ |=+} 1u << (bit[k] % 32)[-)-];"),
    Mutant("heads of the lanes behind", "scan.cuh", "segments in a tile", ALL,
           "ALL_LANES >> (LANES - [-1 - lane-]{+(lane < 31 ? 2 + lane : 32)+})"),
    Mutant("linked tile without what lies before it", "scan_rows.cuh", "linked tiles", ALL,
           "around.after : [-around.before.followed_by(-]inclusive[r][-)-];"),
    Mutant("links read at once", "scan_linked.cu", "linked tiles", ALL,
           "found.find_parts(place, tickets, own);\n    }[-\n    __syncthreads();-]"),
    Mutant("linked tiles not set up for the next launch", "scan_linked.cu", "linked tiles, twice", NOT_IN_ORDER,
           "[-if (threadIdx.x == 0) tickets.prepare_next_launch-]{+static_cast<void>+}("),
    Mutant("linked group without its last tile", "scan_linked.cu", "linked groups of tiles", ALL,
           "if (!own_group && lane == LANES - [-1-]{+2+})"),
    Mutant("links of the group's first tile", "scan_linked.cu", "linked groups of tiles", ALL,
           "tickets, [-number * RADIX + -]lane, k)"),
    Mutant("part without those left of it", "scan_linked.cu", "linked parts", ALL,
           "[-if (place.part >> level & 1) item = combine(left[level], item);-]"),
    Mutant("part without the one before it", "scan_linked.cu", "linked parts", ALL,
           "if (lane == place.part - [-1-]{+2+}) parts_before"),
    Mutant("tile without its last part", "scan_linked.cu", "linked parts", ALL,
           "if (own_tile && k == place.part) [-item[k] = own-]{+{}+};"),
    # Heads of segments that are searched among samples
    Mutant("search that begins behind the tile's first head", "segments.cuh", "more segments than samples", ALL,
           "const bool begins_before = [-first == bracket.low || shuffle(bit[0], 0) < 0-]{+true+};"),
    Mutant("samples used before all are there", "scan_stream.cu", "many segments over tiles", INTERLEAVED,
           "[-sampled.wait(0);-]"),
    # Scans of long lines: the assembly line
    Mutant("tile scanned before it is folded", "scan_stream.cu", "long rows", ALL,
           "[-stage.folded.wait(turn(visit));-]"),
    Mutant("rows published before they are summed", "scan_stream.cu", "long rows", ALL,
           "[-stage.summed.wait(turn(visit));-]"),
    Mutant("tile folded before it is published", "scan_stream.cu", "long rows", NOT_IN_ORDER,
           "[-stage.published.wait(turn(visit));-]"),
    Mutant("tile added before it is loaded", "scan_stream.cu", "long rows", ALL,
           "[-stage.full.wait(turn(visit));-]\n        const char* from"),
    Mutant("stage refilled before it is empty", "scan_stream.cu", "long rows of many tiles", NOT_IN_ORDER,
           "if (visit >= STAGES) [-stage.emptied.wait(turn(visit) - 1)-]{+{}+};\n            stage.tile"),
    Mutant("rows added before heads are marked", "scan_stream.cu", "segments over tiles", INTERLEAVED,
           "[-if (SEGMENTED) stage.marked.wait(turn(visit));-]"),
    Mutant("heads of the tile before not cleared", "scan_stream.cu", "segments on an old GPU", ALL,
           "for (int word = lane_index(); word < [-HEAD_WORDS-]{+1+};"),
    Mutant("rows replaced while they are read", "scan_stream.cu", "long rows", CHECKING,
           "[-__syncwarp();-]  // all lanes have read what is about to be replaced"),
    Mutant("aggregate of all but the last row", "scan_stream.cu", "long rows", ALL,
           "if (lane == LANES - [-1-]{+2+}) publish("),
    Mutant("rows of the wrong lanes", "tree.cuh", "long rows", ALL,
           "combine(swapped ? [-got : kept, swapped ? kept : got-]{+kept : got, swapped ? kept : kept+})"),
    Mutant("prefix of a group without its last tile", "stream.cuh", "long rows of many tiles", ALL,
           "if (place == RADIX - 1) {\n            add([-tiles-]{+tiles_before+});"),
    Mutant("first tile of a group without a prefix", "stream.cuh", "long rows of many tiles", ALL,
           "around.before.append(tiles_before, [-place > 0-]{+true+});"),
    Mutant("lines folded into one", "stream.cuh", "long rows", ALL,
           "first = tile.line[- * static_cast<int>(g.tiles)-];"),
    Mutant("edge of a tile not copied", "scan_stream.cu", "long rows shifted by a byte", ALL,
           "if (place < (lane < 16 ? begin{+ - 1+} : bytes)) move(place);"),
    Mutant("tail of a tile not copied", "scan_stream.cu", "long rows shifted by a byte", ALL,
           "if (place < (lane < 16 ? begin : bytes{+ - 1+})) move(place);"),
    Mutant("vectors where the plan says elements", "scan_stream.cu", "long rows shifted by an element", CHECKING,
           "if constexpr ([-STAGED_PACKED-]{+true+}) {\n        load_packed"),
    Mutant("chunks where only halves of vectors begin", "scan_stream.cu", "long rows of bytes shifted by half a vector",
           ALL, "INPUT_PACKED[- && CHUNK * sizeof(Input) == 16-]"),
    Mutant("rest of a tile not filled", "scan_stream.cu", "long rows", CHECKING,
           "if (tile.count [-==-]{+<=+} TILE) return;"),
    Mutant("last chunk of a tile not filled", "scan_stream.cu", "long rows of bytes", CHECKING,
           "i < chunks[-; i += threads-]{+ - 1; i += threads+}"),
    Mutant("tile that is filled from its end", "scan_stream.cu", "long rows backwards, not in chunks", ALL,
           "return [-REVERSE-]{+false+} ? (TILE - tile.count)"),
    Mutant("last element of a tile not copied", "scan_stream.cu", "long rows on an old GPU", ALL,
           "if (whole || i {++ 1 +}< tile.count) to[i]"),
    Mutant("aggregates of an earlier launch", "tickets.cuh", "long rows of many tiles", INTERLEAVED,
           "== epoch[-)-]{+ || word[i][w] == 0)+} continue;"),
    Mutant("tickets not set up for the next launch", "tickets.cuh", "long rows, twice", ALL,
           "[-store_relaxed(control, static_cast<Word>(launches) << 32);-]"),
    Mutant("tickets set up while some are taken", "tickets.cuh", "long rows, twice", CHECKING,
           "if (ticket != count[- + static_cast<Index>(gridDim.x) - 1-]) return;"),
    Mutant("gate open too early", "gate.cuh", "long rows on an old GPU", ALL,
           "[-(phase + 1)-]{+phase+} * arrivals"),
    Mutant("gate that shows nothing", "gate.cuh", "long rows on an old GPU", CHECKING,
           "[-__threadfence_block();-]"),
    # Scans of columns
    Mutant("one column too many", "scan_short_columns.cu", "short columns", CHECKING,
           "exists = line <{+=+} g.lines"),
    Mutant("spans of a column read at once", "scan_short_columns.cu", "columns", NOT_IN_ORDER,
           "values.total(v);\n    [-__syncthreads();-]"),
    Mutant("spans used before they are added up", "scan_short_columns.cu", "columns of spans", NOT_IN_ORDER,
           "add_up<SPANS>(part, 0, column);\n    [-__syncthreads();-]"),
    Mutant("unit scanned before it is folded", "scan_columns.cu", "columns in boxes", CHECKING,
           "[-stage.folded.wait(turn(visit));-]"),
    Mutant("unit added before it is loaded", "scan_columns.cu", "columns in boxes", ALL,
           "[-stage.full.wait(turn(visit));-]\n#pragma unroll 1\n        for (int task = adder"),
    Mutant("unit published before it is summed", "scan_columns.cu", "columns in boxes", ALL,
           "[-stage.summed.wait(turn(visit));-]"),
    Mutant("bundle without its first unit", "column_fold.cuh", "columns of many blocks", ALL,
           "for (int i = [-0; i < OF_DIGIT; i++) prefix-]{+1; i < OF_DIGIT; i++) prefix+}"),
    Mutant("second look forgotten", "column_fold.cuh", "columns of two looks", ALL,
           "if constexpr (FIRST > [-0-]{+99+})"),
    Mutant("part of a row forgotten", "column_fold.cuh", "columns on an old GPU", ALL,
           "b < [-OF_ROW-]{+0+} && b < UNIT_BITS; b++) stage.left"),
    Mutant("rows of a unit added up no more", "scan_columns.cu", "columns of three, backwards", ALL,
           "half < [-ROWS-]{+1+}; half *= 2"),
    Mutant("strips of another width", "column_loaders.cuh", "columns in boxes, backwards", ALL,
           "if (place >= unit.width * SIZE[-) return-]{+ / 2) return+};"),
    Mutant("last span not filled up", "column_loaders.cuh", "columns in shifted rows", CHECKING,
           "[-fill_last_span(unit, data);-]\n    arrive_by_warp(full);"),
    Mutant("shifted rows copied as if they were not", "column_loaders.cuh", "columns in shifted rows", CHECKING,
           "const int piece = [-head_of(from) + -]thread % PIECES * 16;"),
    Mutant("shifted rows without their ends", "column_loaders.cuh", "columns in shifted rows", ALL,
           "if (place >= (behind ? [-bytes-]{+tail+} : head)) return;"),
    Mutant("chunks of lines mirrored no more", "column_units.cuh", "turned input, backwards", ALL,
           "MIRRORED = INPUT_TURNED && [-REVERSE-]{+false+} &&"),
    Mutant("lines without an end", "column_loaders.cuh", "turned input", CHECKING,
           "[-if (step >= unit.count) continue;-]\n        const Index number"),
    Mutant("outputs turned before inputs are read", "column_stores.cuh", "turned output", NOT_IN_ORDER,
           "[-__syncwarp();-]  // all inputs have been read"),
    Mutant("turned outputs stored before they are there", "column_stores.cuh", "turned output", NOT_IN_ORDER,
           "put_turned(span, values);\n        [-__syncwarp();-]"),
    Mutant("turned outputs behind the end of a line", "column_stores.cuh", "turned output", ALL,
           "SIZE : 0, end = begin + [-span.count-]{+SPAN_STEPS+} * SIZE;"),
    Mutant("bundler keeps no stage", "scan_columns.cu", "columns of many blocks", CHECKING,
           "stage.emptied.init(SCANNERS[- + FOLDERS-]);"),
    Mutant("all lanes of a column store", "column_fold.cuh", "columns of many units", CHECKING,
           "if ([-lane_of_column == 0-]{+true+}) {"),
    Mutant("tile prefix forgotten", "column_fold.cuh", "columns of groups", ALL,
           "return [-before_tile().followed_by(item)-]{+item+};"),
    Mutant("group prefix forgotten", "column_fold.cuh", "columns of groups", ALL,
           "return [-before_group(completed).followed_by(item)-]{+item+};"),
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
