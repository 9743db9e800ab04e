// Groups of several tiles: from the sums of the tiles to the statistics.
//
// Constants that the plan sets, beside those of normalization.cuh:
//     FINISHERS       threads that finish the statistics of a group, a power of two
#pragma once

#include "normalization.cuh"

constexpr int FINISH_BLOCK = FINISHERS > 256 ? FINISHERS : 256, AT_ONCE = 8;

// The sum of 2^k neighbouring tiles, AT_ONCE at least, of which the first `tiles` exist; by one thread.
__device__ Sums serial_sum(const Sums* tile, Index count, Index tiles) {
    constexpr int LEVELS = 28;
    Sums half[LEVELS];  // half[b]: the sum of the last 2^b batches that wait for as many to follow
    Sums total = {};
    for (Index batch = 0; batch * AT_ONCE < count; batch++) {
        Sums sums[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const Index number = batch * AT_ONCE + k;
            sums[k] = number < tiles ? tile[number] : Sums{};
        }
        total = pairwise_sum(sums);
        int b = 0;
        for (; batch >> b & 1; b++) total = combine(half[b], total);
        half[b] = total;
    }
    return total;
}

// By all threads of a block, FINISHERS of which share a group.
__device__ void finish_groups(const Arrays& arrays, const Sums* tile_sums, Normalizer<Compute>* normalizers,
                              const Geometry& g, const Parameters& p) {
    constexpr int GROUPS = FINISH_BLOCK / FINISHERS, WARPS_OF_GROUP = FINISHERS > LANES ? FINISHERS / LANES : 1;
    __shared__ Sums warp_sums[GROUPS][WARPS_OF_GROUP];
    const int thread = threadIdx.x % FINISHERS, in_block = threadIdx.x / FINISHERS;
    const Index number = static_cast<Index>(blockIdx.x) * GROUPS + in_block;
    const bool exists = number < g.groups;
    const Arrays group = arrays.at(g.kept.offsets(exists ? number : 0));
    const Input first = g.length > 0 ? load_input(group, g, 0) : Input();
    Index count = AT_ONCE;
    while (count * FINISHERS < g.tiles) count *= 2;
    const Index begin = thread * count, tiles = exists ? g.tiles - begin : 0;
    Sums sums = serial_sum(tile_sums + (exists ? number : 0) * g.tiles + begin, count, tiles);
    sums = lane_sum<(FINISHERS < LANES ? FINISHERS : LANES)>(sums);
    if (FINISHERS > LANES) {
        if (lane_index() == 0) warp_sums[in_block][thread / LANES] = sums;
        __syncthreads();
        sums = lane_sum<WARPS_OF_GROUP>(warp_sums[in_block][lane_index() % WARPS_OF_GROUP]);
    }
    if (!exists || thread > 0) return;
    const Moments moments = moments_of(sums, g.length > 0 ? Shift(first).value : 0.0, p);
    if (arrays.mean) store_moments(group, moments, p);
    normalizers[number] = Normalizer<Compute>::of(moments, p);
}
