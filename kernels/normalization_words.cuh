// A thread's elements in shared memory, which begin at any multiple of STEP bytes: how they are moved in words.
#pragma once

#include "runs.cuh"

// The first NBYTES, in whole words; what lies behind them may be anything, and nothing is loaded from there.
template <int STEP, int NBYTES, int COUNT> __device__ void load_in_words(const char* from, unsigned (&word)[COUNT]) {
    constexpr int WORDS = (NBYTES + 3) / 4;
    static_assert(WORDS <= COUNT && NBYTES % STEP == 0, "room for all");
    if constexpr (STEP >= 4) {
        using Words = typename WordsOf<STEP>::type;
#pragma unroll
        for (int i = 0; i < NBYTES / STEP; i++) {
            const Words words = reinterpret_cast<const Words*>(from)[i];
#pragma unroll
            for (int k = 0; k < STEP / 4; k++) word[i * STEP / 4 + k] = reinterpret_cast<const unsigned*>(&words)[k];
        }
    } else {
        const int within = static_cast<int>(reinterpret_cast<size_t>(from) % 4);
        const int last = NBYTES % 4 > 0 || within == 0 ? WORDS - 1 : WORDS;
        unsigned loaded[WORDS + 1];
#pragma unroll
        for (int i = 0; i <= WORDS; i++) {
            loaded[i] = load_loosely<unsigned>(from - within + (i < WORDS ? i : last) * 4);
        }
#pragma unroll
        for (int i = 0; i < WORDS; i++) word[i] = __funnelshift_r(loaded[i], loaded[i + 1], within * 8);
    }
}

// The first NBYTES, and nothing beside them.
template <int STEP, int NBYTES, int COUNT> __device__ void store_in_words(char* to, const unsigned (&word)[COUNT]) {
    static_assert((NBYTES + 3) / 4 <= COUNT && NBYTES % STEP == 0, "all of them");
    if constexpr (STEP >= 4) {
        using Words = typename WordsOf<STEP>::type;
#pragma unroll
        for (int i = 0; i < NBYTES / STEP; i++) {
            Words words;
#pragma unroll
            for (int k = 0; k < STEP / 4; k++) reinterpret_cast<unsigned*>(&words)[k] = word[i * STEP / 4 + k];
            reinterpret_cast<Words*>(to)[i] = words;
        }
    } else {
        constexpr int HALVES = NBYTES / 2;
        const bool odd = reinterpret_cast<size_t>(to) % 4 > 0;
        unsigned* const words = reinterpret_cast<unsigned*>(to - (odd ? 2 : 0));
        unsigned short* const halves = reinterpret_cast<unsigned short*>(to);
        if (odd) halves[0] = static_cast<unsigned short>(word[0]);
#pragma unroll
        for (int i = 0; 2 * i < HALVES; i++) {
            const unsigned across = i > 0 ? __funnelshift_r(word[i > 0 ? i - 1 : 0], word[i], 16) : 0;
            const bool fits = 2 * i + 1 < HALVES;  // else it is one half, or if that is odd the end of a word
            if (odd ? i > 0 : fits) words[i] = odd ? across : word[i];
        }
        if (odd == (HALVES % 2 == 0)) {
            halves[HALVES - 1] = static_cast<unsigned short>(word[(HALVES - 1) / 2] >> (HALVES % 2 == 0 ? 16 : 0));
        }
    }
}
