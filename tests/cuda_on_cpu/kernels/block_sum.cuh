// The sum over a block, for blocks of whole warps.
#pragma once

// Valid in thread 0. May be called again at once: the last barrier keeps the next call from overwriting partial sums
// that are still being read.
template <typename T>
__device__ T block_sum(T value) {
    __shared__ T partial[32];
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = lane < static_cast<int>(blockDim.x) / 32 ? partial[lane] : T(0);
        for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
    }
    __syncthreads();
    return value;
}
