// Moments and normalization of bundles (normalization_bundles.cuh) that no cluster holds: they are cut into tiles, and
// read twice, as in normalization_tiled_lines.cu.
//
// Constants that the plan sets, beside those of normalization_bundles.cuh:
//     PIECES_OF_THREAD   pieces of which a thread normalizes a vector
#include "normalization_bundles.cuh"
#include "normalization_tiles.cuh"

static_assert(CLUSTER == 1, "blocks have tiles");

// Blocks that follow each other have neighbouring bundles of the same tile.
struct Work {
    Index bundle, tile;

    __device__ Work(const Geometry& g, Index number) {
        const Index bundles = g.groups / BUNDLE;
        tile = number / bundles;
        bundle = number - tile * bundles;
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
sum_bundle_tiles(const char* input, Word* control, Normalizer<Compute>* normalizers, char* mean, char* variance,
                 Geometry g, Parameters p) {
    await_launch_ahead_of_steps();
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    __shared__ UnitSums unit_sums;
    __shared__ Sums of_tile[BUNDLE];
    const TicketsFor<Sums> tickets = take_tile(control, g.tiles);
    const Work work(g, tickets.of_block());
    const Arrays arrays = {input, nullptr, nullptr, nullptr, 0, 0, mean, variance};
    const Index first = work.bundle * BUNDLE;
    Input* data = reinterpret_cast<Input*>(dynamic_shared);
    const Share share(g.length, work.tile, BLOCK_UNITS);
    add_up_share(unit_sums, data, arrays, g, first, share);
    __syncthreads();
#pragma unroll 1
    for (int group = warp_index(); group < BUNDLE; group += WARPS) {
        const Sums sums = unit_sums.total(group, share.units, BLOCK_UNITS);
        if (lane_index() == 0) of_tile[group] = sums;
    }
    __syncthreads();
    const int c = static_cast<int>(threadIdx.x);
    Sums total = of_tile[c % BUNDLE];
    Word* words = control + SECTOR + work.bundle * published_words<BUNDLE>(g.tiles);
    const bool is_last = add_up_tiles<BUNDLE, BLOCK>(total, words, work.tile, g.tiles, tickets.epoch());
    if (!is_last || c >= BUNDLE) return;
    finish_group(arrays, normalizers, g, first + c, total, Shift(unit_sums.first_of[c]).value, p);
}

// All pieces again; what was read last first.
extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
apply_bundle_tiles(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                   double bias_number, const Normalizer<Compute>* of_groups, Geometry g, Parameters p) {
    const Work work(g, static_cast<Index>(gridDim.x) - 1 - static_cast<Index>(blockIdx.x));
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, nullptr, nullptr};
    const Index bundle = work.bundle * BUNDLE;
    const Arrays first = arrays.at(g.kept.offsets(bundle));
    const int thread = static_cast<int>(threadIdx.x), vector = thread % VECTORS;
    const Index piece = work.tile * (AT_ONCE * PIECES_OF_THREAD) + thread / VECTORS;
    const int count = thread < AT_ONCE * VECTORS ? up_to(g.length / RUN - piece, AT_ONCE * PIECES_OF_THREAD) : 0;
    Chunk x[PIECES_OF_THREAD];
#pragma unroll
    for (int k = 0; k < PIECES_OF_THREAD; k++) {
        if (k * AT_ONCE >= count) continue;
        const char* from = first.input + g.reduced.offsets((piece + k * AT_ONCE) * RUN).of[OF_INPUT];
        x[k] = *reinterpret_cast<const Chunk*>(from + vector * 16);
    }
    await_launch_ahead();  // nothing so far is what the first step writes, or is written by this one
    const Affine affine = affine_of(of_groups + bundle, arrays, g, bundle, vector);
#pragma unroll
    for (int k = 0; k < PIECES_OF_THREAD; k++) {
        if (k * AT_ONCE >= count) continue;
        char* to = first.output + g.reduced.offsets((piece + k * AT_ONCE) * RUN).of[OF_OUTPUT];
        store_streaming(reinterpret_cast<Result*>(to + vector * sizeof(Result)), affine.of(x[k], p));
    }
}
