// Blocks that begin together load together, and memory is idle while all of them add up. So those that are the first
// begin one after the other.
#pragma once

// By a block, or by all of a cluster, of this number: the first TURNS of them begin within so many cycles.
template <int TURNS, int WITHIN> __device__ void begin_in_turn(int number) {
    constexpr int APART = WITHIN / (TURNS > 0 ? TURNS : 1);
    if (number >= TURNS) return;
    if (threadIdx.x == 0) {
        const long long begin = clock64();
        while (clock64() - begin < number * APART) {
        }
    }
    __syncthreads();
}
