// Normalization of bundles (normalization_bundles.cuh) that are read once: a block, or a cluster of blocks, has one in
// shared memory.
//
// Constants that the plan sets, beside those of normalization_bundles.cuh:
//     AT_FIRST        bundles that the GPU holds, at the most, if there are more and they are large; else 0
#include "ahead.cuh"
#include "normalization_bundles.cuh"
#include "normalization_turns.cuh"

__device__ Index first_group() { return static_cast<Index>(blockIdx.x) / CLUSTER * BUNDLE; }
__device__ int rank_of_block() { return CLUSTER > 1 ? static_cast<int>(cluster_rank()) : 0; }
__device__ int units_of_block(int units) { return (units + CLUSTER - 1) / CLUSTER; }  // at the most

// As ahead.cuh has it, but each block asks for all that it loads itself, if anything is asked for: (64, 2048, 7, 7)
// float16s over 0, 2, 3 take an H100 15.1 us so, and 16.1 with shares.
__device__ void prefetch_pieces(const char* input, const Geometry& g, Ahead ahead) {
    if (ahead.bytes == 0) return;
    const Share share(g.length, rank_of_block(), units_of_block(units_of(static_cast<int>(g.length))));
    const char* first = input + g.kept.offsets(first_group()).of[OF_INPUT];
    for (int piece = static_cast<int>(threadIdx.x); piece < share.pieces; piece += BLOCK) {
        bulk_prefetch(first + g.reduced.offsets((share.piece + piece) * RUN).of[OF_INPUT], PIECE * sizeof(Input));
    }
}

// Cycles. (256, 1024, 14, 14) float16s over 0, 2, 3 took an H100 93.1 us when bundles did not begin in turn, 87.3
// within 8000 cycles, 86.5 within 12000 and 86.7 within 24000.
constexpr int BEGIN_WITHIN = 12000;

// By a block, or by each of a cluster.
__device__ void normalize_share(const Arrays& arrays, const Geometry& g, const Parameters& p) {
    // Of columns a block takes most of the shared memory. If the next launch is let in early, (64, 7, 7, 2048) floats
    // take an H200 18.1 us in place of 17.3; (64, 2048, 7, 7) take 17.2 in place of 17.6.
    if (!COLUMNS) let_next_launch_begin();
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    __shared__ UnitSums unit_sums;
    __shared__ Normalizer<Compute> normalizers[BUNDLE];
    Input* data = reinterpret_cast<Input*>(dynamic_shared);
    const Index first = first_group();
    const int rank = rank_of_block(), units = units_of(static_cast<int>(g.length)), of_block = units_of_block(units);
    const Share share(g.length, rank, of_block);
    add_up_share(unit_sums, data, arrays, g, first, share);
    if (CLUSTER > 1) cluster_sync();
    else __syncthreads();  // by now all was read, so the output may be the input

#pragma unroll 1
    for (int group = warp_index(); group < BUNDLE; group += WARPS) {
        const Sums sums = unit_sums.total(group, units, of_block);
        if (lane_index() > 0) continue;
        const Moments moments = moments_of(sums, Shift(unit_sums.first_of[group]).value, p);
        normalizers[group] = Normalizer<Compute>::of(moments, p);
        if (arrays.mean && rank == 0) store_moments(arrays.at(g.kept.offsets(first + group)), moments, p);
    }
    if (CLUSTER > 1) cluster_arrive();
    __syncthreads();
    const Mover mover(data, g, share);
    const Affine affine = affine_of(normalizers, arrays, g, first, mover.vector);
    char* output = arrays.at(g.kept.offsets(first)).output;
#pragma unroll 4
    for (int piece = mover.first_stored(); piece < share.pieces; piece += AT_ONCE) {
        char* to = output + mover.offset<OF_OUTPUT>(piece) + mover.vector * sizeof(Result);
        store_streaming(reinterpret_cast<Result*>(to), affine.of(*mover.in_bundle(piece), p));
    }
    if (CLUSTER > 1) cluster_wait();  // until then others may read this block's sums
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
normalize_bundles(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                  double bias_number, char* mean, char* variance, Geometry g, Parameters p, Ahead ahead) {
    prefetch_pieces(input, g, ahead);
    await_launch_ahead_alone();
    begin_in_turn<AT_FIRST, BEGIN_WITHIN>(static_cast<int>(blockIdx.x) / CLUSTER);
    normalize_share({input, output, scale, bias, scale_number, bias_number, mean, variance}, g, p);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(BLOCK, RESIDENT)
normalize_shared_bundles(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                         double bias_number, char* mean, char* variance, Geometry g, Parameters p, Ahead ahead) {
    prefetch_pieces(input, g, ahead);
    await_launch_ahead_alone();
    begin_in_turn<AT_FIRST, BEGIN_WITHIN>(static_cast<int>(blockIdx.x) / CLUSTER);
    normalize_share({input, output, scale, bias, scale_number, bias_number, mean, variance}, g, p);
}
