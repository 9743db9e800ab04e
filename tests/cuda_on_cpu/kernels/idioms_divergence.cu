// Which threads take part: barriers are for all threads of a block, warp functions for the lanes of their mask.
#include "idioms.cuh"

// grid 2, block 128
extern "C" __global__ void barrier_for_all(int* out, unsigned long long*) {
    __shared__ int slots[128];
    if (threadIdx.x < 64) {
        slots[threadIdx.x] = static_cast<int>(threadIdx.x);
        if (BUG) __syncthreads();
    }
    if (!BUG) __syncthreads();
    out[global_thread()] = BUG ? 0 : slots[threadIdx.x / 2];
}

// Two barriers in two branches are not one barrier.
// grid 2, block 64
extern "C" __global__ void one_barrier_for_both_branches(int* out, unsigned long long*) {
    __shared__ int slots[64];
    slots[threadIdx.x] = static_cast<int>(threadIdx.x);
    if (!BUG) __syncthreads();
    if (threadIdx.x < 32) {
        if (BUG) __syncthreads();
        out[global_thread()] = slots[63 - threadIdx.x];
    } else {
        if (BUG) __syncthreads();
        out[global_thread()] = slots[63 - threadIdx.x] + 100;
    }
}

// grid 2, block 64
extern "C" __global__ void nobody_returns_early(int* out, unsigned long long*) {
    __shared__ int slots[64];
    const bool idle = threadIdx.x >= 50;
    if (BUG && idle) return;
    slots[threadIdx.x] = idle ? 0 : static_cast<int>(threadIdx.x);
    __syncthreads();
    if (!idle) out[global_thread()] = BUG ? 0 : slots[63 - threadIdx.x];
}

// grid 1, block 64
extern "C" __global__ void mask_of_half_warp(int* out, unsigned long long*) {
    if (lane_index() < 16) {
        out[threadIdx.x] = __shfl_xor_sync(BUG ? ALL_LANES : 0xffffu, static_cast<int>(threadIdx.x), 3);
    }
    __syncthreads();  // a lane that has returned would not be waited for
}

// grid 1, block 64
extern "C" __global__ void mask_holds_the_caller(int* out, unsigned long long*) {
    if (lane_index() < 16) {
        out[threadIdx.x] = static_cast<int>(__ballot_sync(BUG ? 0xfffeu : 0xffffu, threadIdx.x % 2));
    }
}

// The value of a lane outside of the mask is undefined: no fault in itself, for it may be dropped.
// grid 1, block 64
extern "C" __global__ void shuffle_within_mask(int* out, unsigned long long*) {
    if (lane_index() < 16) {
        out[threadIdx.x] = __shfl_sync(0xffffu, static_cast<int>(threadIdx.x), lane_index() ^ (BUG ? 16 : 8));
    }
}

// Lanes that call a warp function together give one mask.
// grid 1, block 64
extern "C" __global__ void one_mask_for_all(int* out, unsigned long long*) {
    const unsigned mask = BUG && lane_index() == 5 ? 0x7fffffffu : ALL_LANES;
    out[threadIdx.x] = static_cast<int>(__reduce_add_sync(mask, threadIdx.x));
}
