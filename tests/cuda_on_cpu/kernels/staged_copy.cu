// Turns every tile of an array round: output[tile][i] = input[tile][length - 1 - i].
//
// A block walks over tiles. While it turns one round in shared memory, cp.async brings the next: two buffers, and a
// group of copies per tile. The last tile may be shorter.
//
// Constants: THREADS, ITEMS of a thread (a multiple of 4). Launch: any number of blocks; input aligned to 16 bytes.
#include "ptx.cuh"

#ifndef THREADS
#define THREADS 64
#endif
#ifndef ITEMS
#define ITEMS 4
#endif

constexpr int TILE = THREADS * ITEMS, VECTOR = 4;
static_assert(ITEMS % VECTOR == 0, "whole vectors");

__device__ int length_of(int tile, int count) { return min(TILE, count - tile * TILE); }

// Starts to copy a tile, or nothing beyond the last, and closes the thread's group either way.
__device__ void start_copy(int* buffer, const int* input, int tile, int count) {
    const int length = length_of(tile, count);
    for (int i = static_cast<int>(threadIdx.x) * VECTOR; i < length; i += THREADS * VECTOR) {
        if (i + VECTOR <= length) {
            copy_async<16>(buffer + i, input + tile * TILE + i);
        } else {
            for (int j = i; j < length; j++) copy_async<4>(buffer + j, input + tile * TILE + j);
        }
    }
    copy_async_commit();
}

extern "C" __global__ void __launch_bounds__(THREADS) staged_copy(const int* input, int* output, int count) {
    __shared__ __align__(16) int buffers[2][TILE];
    const int tiles = (count + TILE - 1) / TILE, step = static_cast<int>(gridDim.x);
    int current = 0;
    start_copy(buffers[current], input, static_cast<int>(blockIdx.x), count);
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += step) {
        start_copy(buffers[1 - current], input, tile + step, count);
        copy_async_wait<1>();
        __syncthreads();
        const int length = length_of(tile, count);
        for (int i = static_cast<int>(threadIdx.x); i < length; i += THREADS) {
            output[tile * TILE + i] = buffers[current][length - 1 - i];
        }
        __syncthreads();
        current = 1 - current;
    }
}
