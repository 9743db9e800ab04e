// Runs of neighbours that begin at any element, in memory: how words and pieces of 16 bytes move them all the same.
#pragma once

#include "elements.cuh"
#include "warp.cuh"

// Words at any address, from those that they lie in. No branch, which would hold up the loads of the next operand until
// these are there: where the address is that of a word, the last one is loaded twice and not used.
template <typename V> __device__ V load_shifted(const char* from) {
    constexpr int COUNT = sizeof(V) / 4;
    union Words {
        V values;
        unsigned word[COUNT];
        __device__ Words() {}
    } result;
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

// The words of V that hold some of the bytes from `begin` to before `end`, counted from its first one; others are 0.
template <typename V, typename Words, Eviction HOW, int PLACE = 0>
__device__ void load_words(const char* from, int begin, int end, V& v) {
    if constexpr (PLACE < sizeof(V)) {
        reinterpret_cast<Words*>(&v)[PLACE / sizeof(Words)] = load_around<Words, PLACE, HOW>(from, begin, end);
        load_words<V, Words, HOW, PLACE + static_cast<int>(sizeof(Words))>(from, begin, end, v);
    }
}

// The first `nbytes` of V, at a multiple of STEP bytes or, if that is less, of its size. What lies behind may be
// anything. No branch, and nothing is loaded but words that hold some of these bytes.
template <typename V, int STEP, Eviction HOW = EVICT_NORMALLY> __device__ V load_run(const char* from, int nbytes) {
    constexpr int COUNT = sizeof(V) / 4, AT_ONCE = STEP < static_cast<int>(sizeof(V)) ? STEP : COUNT * 4;
    static_assert(sizeof(V) % 4 == 0, "whole words");
    struct Shifted {
        unsigned word[COUNT + 1];
    };
    V v;
    if constexpr (AT_ONCE >= 16) {
        load_words<V, uint4, HOW>(from, 0, nbytes, v);
    } else if constexpr (AT_ONCE == 8) {
        load_words<V, uint2, HOW>(from, 0, nbytes, v);
    } else if constexpr (AT_ONCE == 4) {
        load_words<V, unsigned, HOW>(from, 0, nbytes, v);
    } else {
        const int within = static_cast<int>(reinterpret_cast<size_t>(from) % 4);
        Shifted loaded;
        load_words<Shifted, unsigned, HOW>(from - within, within, nbytes > 0 ? within + nbytes : 0, loaded);
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const unsigned word = __funnelshift_r(loaded.word[i], loaded.word[i + 1], within * 8);
            reinterpret_cast<unsigned*>(&v)[i] = word;
        }
    }
    return v;
}

// The first `nbytes` of some elements, to a multiple of STEP bytes.
template <int STEP, typename T, int COUNT> __device__ void store_part(char* to, int nbytes, const T (&element)[COUNT]) {
    constexpr int SIZE = sizeof(T), OF_WORD = STEP > SIZE ? STEP / SIZE : 1;
    struct alignas(OF_WORD * SIZE) Word {
        T element[OF_WORD];
    };
#pragma unroll
    for (int i = 0; i < COUNT; i += OF_WORD) {
        Word word;
#pragma unroll
        for (int k = 0; k < OF_WORD; k++) word.element[k] = element[i + k];
        if ((i + OF_WORD) * SIZE <= nbytes) *reinterpret_cast<Word*>(to + i * SIZE) = word;
    }
    if constexpr (OF_WORD > 1) {
        const int rest = nbytes % (OF_WORD * SIZE);
        if (rest <= 0 || nbytes > COUNT * SIZE) return;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            if (i * SIZE >= nbytes - rest && i * SIZE < nbytes) reinterpret_cast<T*>(to)[i] = element[i];
        }
    }
}

template <int BYTES> struct alignas(BYTES) PieceOf {
    unsigned word[BYTES / 4];
};

// As many bytes of two pieces side by side from byte `offset` on, a multiple of SIZE that is less than BYTES.
template <int SIZE, int BYTES>
__device__ PieceOf<BYTES> bytes_across(const PieceOf<BYTES>& low, const PieceOf<BYTES>& high, unsigned offset) {
    constexpr int WORDS = BYTES / 4;
    unsigned word[2 * WORDS];
#pragma unroll
    for (int i = 0; i < 2 * WORDS; i++) word[i] = i < WORDS ? low.word[i % WORDS] : high.word[i % WORDS];
#pragma unroll
    for (int step = WORDS / 2; step > 0 && step * 4 >= SIZE; step /= 2) {
#pragma unroll
        for (int i = 0; i + step < 2 * WORDS; i++) word[i] = offset & step * 4 ? word[i + step] : word[i];
    }
    PieceOf<BYTES> result;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        result.word[i] = SIZE % 4 == 0 ? word[i] : __funnelshift_r(word[i], word[i + 1], offset % 4 * 8);
    }
    return result;
}

// By all lanes of a warp: `count` elements, MOST at the most, from shared memory, where they lie among whole pieces of
// 16 bytes, to neighbours in memory. Whole pieces are stored at once, what lies before and behind them singly. Pieces
// that lie across two of shared memory are taken from both: in words, four times as often lanes would meet in a bank.
template <int MOST, typename T> __device__ void store_run(char* to, const T* staged, int count) {
    using Piece = PieceOf<16>;
    constexpr int SIZE = sizeof(T), OF_PIECE = 16 / SIZE, TURNS = (MOST * SIZE / 16 + LANES - 1) / LANES;
    static_assert(2 * OF_PIECE <= LANES, "each lane has an element of an end");
    const int before = static_cast<int>((16 - reinterpret_cast<size_t>(to) % 16) % 16) / SIZE;
    const int first = before < count ? before : count, pieces = (count - first) / OF_PIECE;
    const char* const from = reinterpret_cast<const char*>(staged + first);
    const unsigned within = static_cast<unsigned>(reinterpret_cast<size_t>(from) % 16);
    const Piece* const piece = reinterpret_cast<const Piece*>(from - within);
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
        const int i = k * LANES + lane_index();
        if (i >= pieces) continue;
        const Piece low = piece[i], high = piece[within == 0 ? i : i + 1];
        *reinterpret_cast<Piece*>(to + first * SIZE + i * 16) = bytes_across<SIZE>(low, high, within);
    }
    const bool leads = lane_index() < OF_PIECE;
    const int i = leads ? lane_index() : first + (pieces - 1) * OF_PIECE + lane_index();
    if (i < (leads ? first : count)) reinterpret_cast<T*>(to)[i] = staged[i];
}
