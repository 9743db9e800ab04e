// Runs of neighbours that begin at any element, in memory: how words and pieces of 16 bytes move them all the same.
#pragma once

#include "elements.cuh"
#include "warp.cuh"

// Words at any address, from those that they lie in. No branch, which would hold up the loads of the next operand until
// these are there: where the address is that of a word, the last one is loaded twice and not used. MAY_LEAD: of halves,
// where those that lead may begin in the middle of a word whose first half is not ours, and is not loaded.
template <typename V, bool MAY_LEAD = false> __device__ V load_shifted(const char* from, bool leads = false) {
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
    for (int i = MAY_LEAD; i < COUNT; i++) loaded[i] = word[i];
    if constexpr (MAY_LEAD) {
        const bool half = leads && within > 0;
        loaded[0] = load_before<unsigned, 0, EVICT_NORMALLY>(from - within, 0, half ? 0 : 4);
        loaded[0] |= load_last_half<0>(from, half ? 2 : 0) << 16;
    }
    loaded[COUNT] = word[within == 0 ? COUNT - 1 : COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++) result.word[i] = __funnelshift_r(loaded[i], loaded[i + 1], within * 8);
    return result.values;
}

template <int BYTES> struct WordsOf { using type = uint4; };
template <> struct WordsOf<8> { using type = uint2; };
template <> struct WordsOf<4> { using type = unsigned; };

// Of the bytes before `end`, MULTIPLE at a time, those that lie from PLACE to before LAST.
template <int MULTIPLE, int LAST, int PLACE>
__device__ void add_rest(const char* from, int begin, int end, unsigned* word) {
    if constexpr (PLACE < LAST) {
        constexpr int BYTES = MULTIPLE < 4 ? 4 : MULTIPLE;
        const auto words = load_before<typename WordsOf<BYTES>::type, PLACE, EVICT_NORMALLY>(from, begin, end);
#pragma unroll
        for (int i = 0; i < BYTES / 4; i++) word[PLACE / 4 + i] |= reinterpret_cast<const unsigned*>(&words)[i];
        if (MULTIPLE < 4) word[PLACE / 4] |= load_last_half<PLACE>(from, end);
        add_rest<MULTIPLE, LAST, PLACE + BYTES>(from, begin, end, word);
    }
}

// The bytes before `end`, a multiple of MULTIPLE, STEP at a time, but at last as few; others are 0.
template <int STEP, int MULTIPLE, int LAST, Eviction HOW, int PLACE = 0>
__device__ void load_words(const char* from, int begin, int end, unsigned* word) {
    if constexpr (PLACE < LAST) {
        using Words = typename WordsOf<STEP>::type;
        *reinterpret_cast<Words*>(word + PLACE / 4) = load_before<Words, PLACE, HOW>(from, begin, end);
        if constexpr (MULTIPLE < 4 && STEP == 4) {
            word[PLACE / 4] |= load_last_half<PLACE>(from, end);
        } else if constexpr (MULTIPLE < STEP) {
            add_rest<MULTIPLE, PLACE + STEP, PLACE>(from, begin, end < PLACE + STEP ? end : 0, word);
        }
        load_words<STEP, MULTIPLE, LAST, HOW, PLACE + STEP>(from, begin, end, word);
    }
}

// The first `nbytes` of V, a multiple of MULTIPLE, at a multiple of STEP bytes or, if that is less, of its size. What
// lies behind may be anything. No branch, and nothing is loaded from there.
template <typename V, int STEP, int MULTIPLE, Eviction HOW = EVICT_NORMALLY>
__device__ V load_run(const char* from, int nbytes) {
    constexpr int SIZE = static_cast<int>(sizeof(V)), COUNT = SIZE / 4, AT_ONCE = STEP < SIZE ? STEP : SIZE;
    static_assert(SIZE % 4 == 0 && MULTIPLE >= 2, "whole words, of elements that have two bytes at least");
    union Words {
        V v;
        unsigned word[COUNT];
        __device__ Words() {}
    } result;
    if constexpr (AT_ONCE >= 4) {
        load_words<(AT_ONCE < 16 ? AT_ONCE : 16), MULTIPLE, SIZE, HOW>(from, 0, nbytes, result.word);
    } else {
        const int within = static_cast<int>(reinterpret_cast<size_t>(from) % 4), end = nbytes > 0 ? within + nbytes : 0;
        unsigned loaded[COUNT + 1];
        load_words<4, 2, SIZE + 4, HOW>(from - within, within, end < SIZE + within ? end : SIZE + within, loaded);
#pragma unroll
        for (int i = 0; i < COUNT; i++) result.word[i] = __funnelshift_r(loaded[i], loaded[i + 1], within * 8);
    }
    return result.v;
}

// V at a multiple of STEP bytes or, if that is less, of its size. What lies behind is ours too, and what lies before
// unless it leads.
template <typename V, int STEP> __device__ V load_amid(const char* from, bool leads) {
    constexpr int SIZE = static_cast<int>(sizeof(V)), AT_ONCE = STEP < 16 ? STEP : 16, WORDS = AT_ONCE / 4;
    static_assert(SIZE % AT_ONCE == 0, "");
    if constexpr (AT_ONCE < 4) {
        return load_shifted<V, true>(from, leads);
    } else {
        using Words = typename WordsOf<AT_ONCE>::type;
        union Loaded {
            V v;
            unsigned word[SIZE / 4];
            __device__ Loaded() {}
        } result;
#pragma unroll
        for (int i = 0; i < SIZE / AT_ONCE; i++) {
            *reinterpret_cast<Words*>(result.word + i * WORDS) = reinterpret_cast<const Words*>(from)[i];
        }
        return result.v;
    }
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

// As many bytes of two pieces side by side from byte `offset` on, a multiple of SIZE. Halves are chosen, then halves of
// these. Without loops, as kernels do this dozens of times: those for halves of runs that end anywhere took a seventh
// longer to compile.
template <int SIZE> __device__ PieceOf<4> bytes_across(const PieceOf<4>& low, const PieceOf<4>& high, unsigned offset) {
    return {SIZE % 4 == 0 ? low.word[0] : __funnelshift_r(low.word[0], high.word[0], offset * 8)};
}
template <int SIZE> __device__ PieceOf<8> bytes_across(const PieceOf<8>& low, const PieceOf<8>& high, unsigned offset) {
    if constexpr (SIZE % 8 == 0) return low;
    const bool second = offset & 4;
    const PieceOf<4> a = {second ? low.word[1] : low.word[0]}, b = {second ? high.word[0] : low.word[1]},
                     c = {second ? high.word[1] : high.word[0]};
    return {bytes_across<SIZE>(a, b, offset).word[0], bytes_across<SIZE>(b, c, offset).word[0]};
}
template <int SIZE>
__device__ PieceOf<16> bytes_across(const PieceOf<16>& low, const PieceOf<16>& high, unsigned offset) {
    if constexpr (SIZE % 16 == 0) return low;
    const bool second = offset & 8;
    const PieceOf<8> a = {second ? low.word[2] : low.word[0], second ? low.word[3] : low.word[1]},
                     b = {second ? high.word[0] : low.word[2], second ? high.word[1] : low.word[3]},
                     c = {second ? high.word[2] : high.word[0], second ? high.word[3] : high.word[1]};
    const PieceOf<8> first = bytes_across<SIZE>(a, b, offset), last = bytes_across<SIZE>(b, c, offset);
    return {first.word[0], first.word[1], last.word[0], last.word[1]};
}

// The same of COUNT pairs of pieces, by lanes that all have one `offset`: a branch takes the place of the choices,
// which are most of it. Of a single pair compilers would compute all cases.
template <int SIZE, int SKIPPED, int BYTES, int COUNT>
__device__ void words_across(const PieceOf<BYTES> (&low)[COUNT], const PieceOf<BYTES> (&high)[COUNT], unsigned offset,
                             PieceOf<BYTES> (&taken)[COUNT]) {
    constexpr int WORDS = BYTES / 4;
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        const auto word = [&](int i) { return i < WORDS ? low[k].word[i % WORDS] : high[k].word[i % WORDS]; };
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            const unsigned first = word(SKIPPED + i), next = word(SKIPPED + i + 1);
            taken[k].word[i] = SIZE % 4 == 0 ? first : __funnelshift_r(first, next, offset * 8);
        }
    }
}
template <int SIZE, int BYTES, int COUNT>
__device__ void bytes_across_alike(const PieceOf<BYTES> (&low)[COUNT], const PieceOf<BYTES> (&high)[COUNT],
                                   unsigned offset, PieceOf<BYTES> (&taken)[COUNT]) {
    constexpr int WORDS = BYTES / 4;
    const unsigned skipped = offset / 4;
    if constexpr (COUNT == 1) taken[0] = bytes_across<SIZE>(low[0], high[0], offset);
    else if (WORDS > 1 && skipped == 1) words_across<SIZE, 1 % WORDS>(low, high, offset, taken);
    else if (WORDS > 2 && skipped == 2) words_across<SIZE, 2 % WORDS>(low, high, offset, taken);
    else if (WORDS > 3 && skipped == 3) words_across<SIZE, 3 % WORDS>(low, high, offset, taken);
    else words_across<SIZE, 0>(low, high, offset, taken);
}

// The lane's pieces from number `first` on, every 32nd of COUNT, of which those before `end` exist; each begins as many
// bytes, `within`, behind one that it is taken from.
template <int SIZE, int COUNT>
__device__ void store_pieces_across(char* to, const PieceOf<16>* from, unsigned within, int first, int end) {
    PieceOf<16> low[COUNT] = {}, high[COUNT] = {}, taken[COUNT];
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        const int i = first + k * LANES;
        if (i < end) low[k] = from[i], high[k] = from[within == 0 ? i : i + 1];
    }
    bytes_across_alike<SIZE>(low, high, within, taken);
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        const int i = first + k * LANES;
        if (i < end) *reinterpret_cast<PieceOf<16>*>(to + i * 16) = taken[k];
    }
}

// By all lanes of a warp: `count` elements, MOST at the most, from shared memory, where they lie among whole pieces of
// 16 bytes, to neighbours in memory. Whole pieces are stored at once, what lies before and behind them singly. Pieces
// that lie across two of shared memory are taken from both: in words, four times as often lanes would meet in a bank.
// Some turns of pieces are put together AT_ONCE: more take registers.
template <int MOST, int AT_ONCE = 1, typename T> __device__ void store_run(char* to, const T* staged, int count) {
    using Piece = PieceOf<16>;
    constexpr int SIZE = sizeof(T), OF_PIECE = 16 / SIZE, TURNS = (MOST * SIZE / 16 + LANES - 1) / LANES;
    constexpr int COUNT = AT_ONCE < TURNS ? AT_ONCE : TURNS;
    static_assert(2 * OF_PIECE <= LANES && TURNS % COUNT == 0, "each lane has an element of an end");
    const int before = static_cast<int>((16 - reinterpret_cast<size_t>(to) % 16) % 16) / SIZE;
    const int first = before < count ? before : count, pieces = (count - first) / OF_PIECE;
    const char* const from = reinterpret_cast<const char*>(staged + first);
    const unsigned within = static_cast<unsigned>(reinterpret_cast<size_t>(from) % 16);
    const Piece* const piece = reinterpret_cast<const Piece*>(from - within);
#pragma unroll
    for (int k = 0; k < TURNS; k += COUNT) {
        const int i = k * LANES + lane_index();
        if constexpr (COUNT > 1) {
            store_pieces_across<SIZE, COUNT>(to + first * SIZE, piece, within, i, pieces);
        } else {
            if (i >= pieces) continue;
            const Piece low = piece[i], high = piece[within == 0 ? i : i + 1];
            *reinterpret_cast<Piece*>(to + first * SIZE + i * 16) = bytes_across<SIZE>(low, high, within);
        }
    }
    const bool leads = lane_index() < OF_PIECE;
    const int i = leads ? lane_index() : first + (pieces - 1) * OF_PIECE + lane_index();
    if (i < (leads ? first : count)) reinterpret_cast<T*>(to)[i] = staged[i];
}
