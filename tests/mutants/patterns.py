"""Defects in the executor's own kernels, which have what the library lacks."""

from __future__ import annotations

from mutants.mutant import ALL, CHECKING, INTERLEAVED, NOT_IN_ORDER, Mutant

# fmt: off
MUTANTS = [
    # chained_scan.cu
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
    # cluster_histogram.cu
    Mutant("bins counted before they are cleared", "cluster_histogram.cu", "histogram of a cluster", ALL,
           "bins[i] = 0;\n    [-cluster_sync-]{+__syncthreads+}();"),
    Mutant("cluster not awaited", "cluster_histogram.cu", "histogram of a cluster", ALL,
           "}\n    [-cluster_sync-]{+cluster_arrive+}();"),
    Mutant("neighbour's bins without atomics", "cluster_histogram.cu", "histogram of a cluster", CHECKING,
           "[-atomicAdd(&-]map_shared(bins, values[i] / bins_per_block)[values[i] % bins_per_block]"
           "[-, 1u)-]{+ += 1u+}"),
    # grid_mean.cu
    Mutant("barrier of the block for the grid", "grid_mean.cu", "mean over the grid", ALL,
           "[-groups::this_grid().sync-]{+__syncthreads+}();"),
    Mutant("sums written behind the grid's barrier", "grid_mean.cu", "mean over the grid", ALL,
           "{+groups::this_grid().sync(); +}if (threadIdx.x == 0) sums[blockIdx.x] = mine;\n"
           "    [-groups::this_grid().sync();-]"),
    # idioms_copies.cu
    Mutant("proxy not fenced", "idioms_copies.cu", "store_fenced", CHECKING,
           "[-if (SLIP != StoreSlip::NO_PROXY_FENCE) fence_async_proxy();-]"),
    # idioms_order.cu
    Mutant("release weakened to relaxed", "idioms_order.cu", "chain", CHECKING,
           "BUG&& tile == 1 ? store_relaxed(&flags[tile], 1) : [-store_release-]{+store_relaxed+}(&flags[tile], 1)"),
    Mutant("acquire weakened to the block", "idioms_order.cu", "chain", CHECKING,
           "while ([-load_acquire-]{+load_acquire_block+}(&flags[tile - 1]) == 0)"),
    Mutant("lock without a fence", "idioms_order.cu", "spin_lock", CHECKING,
           "[-if (!BUG) __threadfence();-]\n        out[0] += 1;"),
    # last_block_sum.cu
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
    # staged_copy.cu
    Mutant("copy not awaited", "staged_copy.cu", "tiles in two buffers", ALL,
           "copy_async_wait<[-1-]{+2+}>();"),
    Mutant("copies of others not awaited", "staged_copy.cu", "tiles in two buffers", ALL,
           "copy_async_wait<1>();[-\n        __syncthreads();-]"),
    Mutant("buffer filled while it is read", "staged_copy.cu", "tiles in two buffers by one block", NOT_IN_ORDER,
           "}[-\n        __syncthreads();-]\n        current"),
    Mutant("last vector copied whole", "staged_copy.cu", "tiles in two buffers", CHECKING,
           "if (i [-+ VECTOR <=-]{+<+} length)"),
    # tile_stream.cu
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
    Mutant("reads not fenced", "tile_stream.cu", "stream of tiles by one block", CHECKING,
           "[-fence_async_proxy();-]  // the copy"),
    Mutant("sums of an earlier launch", "tile_stream.cu", "stream of tiles", NOT_IN_ORDER,
           "while (static_cast<unsigned>(seen >> 32) [-!= work.epoch-]{+== 0+});"),
    Mutant("fold that does not wait", "tile_stream.cu", "stream of tiles", NOT_IN_ORDER,
           "while ([-static_cast<unsigned>(seen >> 32) != work.epoch-]{+false+});"),
    # block_sum.cuh
    Mutant("partial sums of the block overwritten", "block_sum.cuh", "two sums of a block",
           ("in order", "reversed", "checking"), "    }[-\n    __syncthreads();-]"),
]
# fmt: on
