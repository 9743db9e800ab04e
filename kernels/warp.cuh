// Exchange of values between the lanes of a warp.
#pragma once

constexpr int LANES = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % LANES; }

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
