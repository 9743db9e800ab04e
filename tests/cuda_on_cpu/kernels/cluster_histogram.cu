// A histogram that is too big for one block's shared memory and lies in that of a cluster.
//
// Each block of a cluster owns a run of bins in its dynamic shared memory and counts into all of them, its neighbours'
// too; in the end each adds its own bins to the result.
//
// Launch: a multiple of 4 blocks, 4 * bins_per_block bytes of dynamic shared memory; values below 4 * bins_per_block;
// histogram is zero.
#include "ptx.cuh"

extern "C" __global__ void __cluster_dims__(4, 1, 1)
    cluster_histogram(const unsigned* values, unsigned* histogram, int count, unsigned bins_per_block) {
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    unsigned* bins = reinterpret_cast<unsigned*>(dynamic_shared);
    for (unsigned i = threadIdx.x; i < bins_per_block; i += blockDim.x) bins[i] = 0;
    cluster_sync();
    const int step = static_cast<int>(gridDim.x * blockDim.x);
    for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += step) {
        atomicAdd(&map_shared(bins, values[i] / bins_per_block)[values[i] % bins_per_block], 1u);
    }
    cluster_sync();
    const unsigned first = cluster_rank() * bins_per_block;
    for (unsigned i = threadIdx.x; i < bins_per_block; i += blockDim.x) atomicAdd(&histogram[first + i], bins[i]);
}
