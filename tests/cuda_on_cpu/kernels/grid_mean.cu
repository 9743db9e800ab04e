// Subtracts an array's mean from it: a sum per block, a barrier of the grid, and every block adds up all sums.
// Cooperative groups give the barrier; this is the one file of these kernels that needs a header of the CUDA toolkit.
//
// Launch: cooperative, any number of blocks of whole warps; sums has an element per block.
#include <cooperative_groups.h>

#include "block_sum.cuh"

namespace groups = cooperative_groups;

extern "C" __global__ void grid_mean(float* values, double* sums, int count) {
    const int first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    const int step = static_cast<int>(gridDim.x * blockDim.x);
    double mine = 0;
    for (int i = first; i < count; i += step) mine += values[i];
    mine = block_sum(mine);
    if (threadIdx.x == 0) sums[blockIdx.x] = mine;
    groups::this_grid().sync();
    double all = 0;
    for (unsigned i = 0; i < gridDim.x; i++) all += sums[i];
    for (int i = first; i < count; i += step) values[i] = static_cast<float>(values[i] - all / count);
}

// The sum of each row of eight elements, by tiles of eight lanes.
extern "C" __global__ void sums_of_eight(const int* input, int* output) {
    const groups::thread_block block = groups::this_thread_block();
    const auto tile = groups::tiled_partition<8>(block);
    __shared__ int sums[32];
    int value = input[blockIdx.x * block.size() + block.thread_rank()];
    for (unsigned step = tile.size() / 2; step > 0; step /= 2) value += tile.shfl_down(value, step);
    if (tile.thread_rank() == 0) sums[tile.meta_group_rank()] = value;
    block.sync();
    const unsigned rows = tile.meta_group_size();
    if (block.thread_rank() < rows) output[blockIdx.x * rows + block.thread_rank()] = sums[block.thread_rank()];
}
