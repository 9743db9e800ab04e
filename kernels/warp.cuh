// Exchange of values between the lanes of a warp.
#pragma once

constexpr int LANES = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % LANES; }

// The warp's number in its block. All lanes know it, but only if one tells the others does the compiler: then branches
// on it part no lanes, and exchanges behind them need no code for lanes that come one by one. That is a quarter of a
// stream's code.
__device__ inline int warp_index() { return __shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / LANES, 0); }

// The value that lane `source` holds, for a trivially copyable type of any size.
template <typename T> __device__ T shuffle(T value, int source) {
    constexpr int WORDS = (sizeof(T) + 3) / 4;
    union Words {
        T value;
        unsigned word[WORDS];
        __device__ Words() {}
    } words;
    words.value = value;
#pragma unroll
    for (int i = 0; i < WORDS; i++) words.word[i] = __shfl_sync(ALL_LANES, words.word[i], source);
    return words.value;
}
