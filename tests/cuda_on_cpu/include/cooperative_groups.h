// The part of cooperative groups that has a meaning here: blocks, tiles of a warp, clusters, the grid.
#pragma once

#include "cuda_on_cpu_intrinsics.h"
#include "warp_functions.h"

namespace cooperative_groups {

using cuda_on_cpu::Where;

struct thread_block {
    static void sync(Where where = Where::current()) { __syncthreads(where); }
    static unsigned thread_rank() { return cuda_on_cpu::rank_of_thread(); }
    static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
};

struct grid_group {
    static void sync(Where where = Where::current()) { cuda_on_cpu::synchronize_grid(where); }
    static bool is_valid() { return true; }
};

struct cluster_group {
    static void sync(Where where = Where::current()) { cluster_sync(where); }
    static unsigned block_rank() { return cluster_rank(); }
    static unsigned num_blocks() { return cluster_size(); }
    template <typename T>
    static T* map_shared_rank(T* shared, unsigned rank, Where where = Where::current()) {
        return map_shared(shared, rank, where);
    }
};

template <unsigned LANES>
struct thread_block_tile {
    static_assert(LANES <= 32 && (LANES & (LANES - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 lanes");
    static constexpr unsigned size() { return LANES; }
    static unsigned thread_rank() { return cuda_on_cpu::lane_of_thread() % LANES; }
    static unsigned meta_group_rank() { return cuda_on_cpu::rank_of_thread() / LANES; }
    static unsigned meta_group_size() { return (thread_block::size() + LANES - 1) / LANES; }
    static unsigned mask() {
        return (LANES == 32 ? ~0u : (1u << LANES % 32) - 1) << cuda_on_cpu::lane_of_thread() / LANES * LANES;
    }
    static void sync(Where where = Where::current()) { __syncwarp(mask(), where); }
    template <typename T>
    static T shfl(T value, int source, Where where = Where::current()) {
        return __shfl_sync(mask(), value, source, LANES, where);
    }
    template <typename T>
    static T shfl_up(T value, unsigned delta, Where where = Where::current()) {
        return __shfl_up_sync(mask(), value, delta, LANES, where);
    }
    template <typename T>
    static T shfl_down(T value, unsigned delta, Where where = Where::current()) {
        return __shfl_down_sync(mask(), value, delta, LANES, where);
    }
    template <typename T>
    static T shfl_xor(T value, int bits, Where where = Where::current()) {
        return __shfl_xor_sync(mask(), value, bits, LANES, where);
    }
};

inline thread_block this_thread_block() { return {}; }
inline grid_group this_grid() { return {}; }
inline cluster_group this_cluster() { return {}; }
template <unsigned LANES>
thread_block_tile<LANES> tiled_partition(const thread_block&) {
    return {};
}

}  // namespace cooperative_groups
