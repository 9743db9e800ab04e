// Runs of neighbours that begin at any element, in memory: how words and pieces of 16 bytes move them all the same.
#pragma once

#include "elements.cuh"
#include "warp.cuh"

// Words at any address, from those that they lie in. No branch, which would hold up the loads of the next operand until
// these are there: where the address is that of a word, the last one is loaded twice and not used. IN_WORDS: it is one.
template <typename V, bool IN_WORDS = false> __device__ V load_shifted(const char* from) {
    constexpr int COUNT = sizeof(V) / 4;
    union Words {
        V values;
        unsigned word[COUNT];
        __device__ Words() {}
    } result;
    if constexpr (IN_WORDS) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) result.word[i] = reinterpret_cast<const unsigned*>(from)[i];
        return result.values;
    }
    const unsigned within = static_cast<unsigned>(reinterpret_cast<size_t>(from) % 4);
    const unsigned* word = reinterpret_cast<const unsigned*>(from - within);
    unsigned loaded[COUNT + 1];
#pragma unroll
    for (int i = 0; i < COUNT; i++) loaded[i] = word[i];
    loaded[COUNT] = word[within == 0 ? COUNT - 1 : COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++) result.word[i] = __funnelshift_r(loaded[i], loaded[i + 1], within * 8);
    return result.values;
}

// The first `nbytes` of V, at an address that is a multiple of what an element takes: SIZE bytes. What lies behind may
// be anything. No branch, and nothing is loaded but words that hold some of these bytes.
template <typename V, int SIZE> __device__ V load_run(const char* from, int nbytes) {
    constexpr int COUNT = sizeof(V) / 4;
    static_assert(sizeof(V) % 4 == 0, "whole words");
    union Words {
        V values;
        unsigned word[COUNT];
        uint2 pair[COUNT / 2 + 1];
        __device__ Words() {}
    } result;
    if constexpr (SIZE >= 8) {
#pragma unroll
        for (int i = 0; i < COUNT / 2; i++) {
            result.pair[i] = load_if(i * 8 < nbytes, reinterpret_cast<const uint2*>(from) + i);
        }
    } else if constexpr (SIZE == 4) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            result.word[i] = load_around(reinterpret_cast<const unsigned*>(from) + i, 0, nbytes - i * 4);
        }
    } else {
        const int within = static_cast<int>(reinterpret_cast<size_t>(from) % 4), end = within + nbytes;
        const unsigned* word = reinterpret_cast<const unsigned*>(from - within);
        unsigned loaded[COUNT + 1];
#pragma unroll
        for (int i = 0; i <= COUNT; i++) loaded[i] = load_around(word + i, i == 0 ? within : 0, end - i * 4);
#pragma unroll
        for (int i = 0; i < COUNT; i++) result.word[i] = __funnelshift_r(loaded[i], loaded[i + 1], within * 8);
    }
    return result.values;
}

// The same where V begins at a multiple of its size, or of 16. CUT: it may end anywhere, else all of it exists or none.
template <typename V, int SIZE, bool CUT, Eviction HOW> __device__ V load_packed_run(const char* from, int nbytes) {
    constexpr int COUNT = sizeof(V) / 4;
    union Words {
        V values;
        unsigned word[COUNT];
        uint4 piece[COUNT / 4 + 1];
        __device__ Words() {}
    } result;
    if constexpr (sizeof(V) % 16 > 0) return load_run<V, CUT && SIZE <= 4 ? 4 : sizeof(V)>(from, nbytes);
#pragma unroll
    for (int i = 0; i < COUNT / 4; i++) {
        const int left = nbytes - i * 16;
        result.piece[i] = load_if<HOW>(left >= 16, reinterpret_cast<const uint4*>(from) + i);
#pragma unroll
        for (int k = 0; k < (CUT ? 4 : 0); k++) {
            const unsigned* word = reinterpret_cast<const unsigned*>(from) + 4 * i + k;
            result.word[4 * i + k] |= load_around(word, 0, left < 16 ? left - k * 4 : 0);
        }
    }
    return result.values;
}

// By all lanes of a warp: `count` elements, MOST at the most, from shared memory (and there from a multiple of 16 bytes
// on) to neighbours in memory. Whole pieces of 16 bytes are stored at once, what lies before and behind them singly.
template <int MOST, typename T> __device__ void store_run(char* to, const T* staged, int count) {
    struct alignas(16) Piece {
        unsigned word[4];
    };
    constexpr int SIZE = sizeof(T), OF_PIECE = 16 / SIZE, TURNS = (MOST * SIZE / 16 + LANES - 1) / LANES;
    static_assert(2 * OF_PIECE <= LANES, "each lane has an element of an end");
    const int before = static_cast<int>((16 - reinterpret_cast<size_t>(to) % 16) % 16) / SIZE;
    const int first = before < count ? before : count, pieces = (count - first) / OF_PIECE;
    const char* const from = reinterpret_cast<const char*>(staged + first);
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
        const int i = k * LANES + lane_index();
        if (i >= pieces) continue;
        const Piece piece = load_shifted<Piece, SIZE % 4 == 0>(from + i * 16);
        *reinterpret_cast<Piece*>(to + first * SIZE + i * 16) = piece;
    }
    const bool leads = lane_index() < OF_PIECE;
    const int i = leads ? lane_index() : first + (pieces - 1) * OF_PIECE + lane_index();
    if (i < (leads ? first : count)) reinterpret_cast<T*>(to)[i] = staged[i];
}
