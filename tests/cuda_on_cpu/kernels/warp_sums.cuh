// Sums over the lanes of a whole warp.
#pragma once

constexpr int LANES = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

// In every lane.
template <typename T>
__device__ T warp_sum(T value) {
    for (int step = LANES / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL_LANES, value, step);
    return value;
}

// Up to and with each lane's own.
template <typename T>
__device__ T warp_scan(T value, int lane) {
    for (int step = 1; step < LANES; step *= 2) {
        const T before = __shfl_up_sync(ALL_LANES, value, step);
        if (lane >= step) value += before;
    }
    return value;
}
