// Heads of segments: one bit for each element of a tile, in the direction of traversal, and how those are found.
//
// Constants that the plan sets, beside those of scan.cuh:
//     OFFSET, OFFSET_ALIGNED
//     HEADS_AT_ONCE   offsets that a lane loads before it looks at the first
#pragma once

#include "scan.cuh"

// Where the first segment is looked for that starts at some element or later: it is one of low ... high. `after` is
// where segment `high` starts, and `before` where the one before `low` does.
struct Bracket {
    Index low, high, before, after;
};

struct Segments {
    const char* offsets;  // as in CSR: segment s is offsets[s] ... offsets[s + 1] - 1
    Index count, stride, length;

    __device__ Segments(const char* offsets, const Geometry& g)
        : offsets(offsets), count(g.segments), stride(g.offset_stride), length(g.length) {}

    __device__ Index offset(Index number) const {
        return static_cast<Index>(load_element<OFFSET, OFFSET_ALIGNED>(offsets + number * stride));
    }

    // Where segment `number` in the direction of traversal begins; never decreases with the number.
    __device__ Index start(Index number) const { return REVERSE ? length - offset(count - number) : offset(number); }

    __device__ Bracket all() const { return {0, count, 0, length}; }

    // The first segment that starts at `element` or later. By all lanes of a warp, which look at 32 places at a time:
    // each look waits for memory, and takes the longer the more of it is touched.
    __device__ Index first_from(Index element, const Bracket& bracket) const {
        Index low = bracket.low, high = bracket.high;
        while (low < high) {
            const Index step = (high - low + LANES - 1) / LANES, place = low + lane_index() * step;
            const bool before = place < high && start(place) < element;
            const int passed = __popc(__ballot_sync(ALL_LANES, before));
            if (passed == 0) return low;
            const Index last_before = low + (passed - 1) * step;
            high = passed * step < high - low ? low + passed * step : high;
            low = last_before + 1;
        }
        return low;
    }
};

constexpr int HEAD_WORDS = SEGMENTED ? (TILE + 31) / 32 : 1;

struct Heads {
    unsigned word[HEAD_WORDS];

    // Those of the chunk that begins with element `first` of the tile: bit j is that of its element j.
    __device__ unsigned of_chunk(int first) const {
        if (!SEGMENTED) return 0;
        return word[first / 32] >> (first % 32) & ((1u << CHUNK) - 1);
    }

    // The heads of the tile that begins with element `begin`, by the warp `warp` of `warps`; all words were cleared.
    __device__ void mark(const Segments& segments, Index begin, int warp, int warps) {
        mark_from<HEADS_AT_ONCE>(segments, begin, segments.first_from(begin, segments.all()), warp, warps);
    }

    // The same by a warp that marks one tile after the other. It loads offsets at once from where the tile would begin
    // if the segments between two samples were of one length, and searches only if that is not among what it got. Then,
    // and where there are more, some at a time do, in less code.
    __device__ void mark(const Segments& segments, Index begin, const Bracket& bracket) {
        const Index first = guess(begin, bracket);
        Index bit[HEADS_AT_ONCE];
        load(segments, begin, first + lane_index(), LANES, bit);
        const bool begins_before = first == bracket.low || shuffle(bit[0], 0) < 0;
        const bool is_among_them = begins_before && shuffle(bit[HEADS_AT_ONCE - 1], LANES - 1) >= 0;
        if (is_among_them && !set(bit)) return;
        const Index next = is_among_them ? first + HEADS_AT_ONCE * LANES : segments.first_from(begin, bracket);
        mark_from<(HEADS_AT_ONCE < 8 ? HEADS_AT_ONCE : 8)>(segments, begin, next, 0, 1);
    }

  private:
    // To some percent: half the exponent. Exact roots and quotients took a twentieth of the time to compile.
    __device__ static float about_root(float x) { return bits_as_float((float_as_bits(x) >> 1) + 0x1fc00000u); }

    // Some segments before the one that begins with `element`: where lengths are random, it is as far from where it
    // would be as the root of their number.
    __device__ static Index guess(Index element, const Bracket& bracket) {
        const float between = static_cast<float>(bracket.high - bracket.low);
        const float length = static_cast<float>(bracket.after - bracket.before);
        const float place = static_cast<float>(element - bracket.before) * approximate_reciprocal(length);
        const float before = place * between - 1.5f * about_root(between);
        return before > 0 && before < between ? bracket.low + static_cast<Index>(before) : bracket.low;
    }

    template <int COUNT>
    __device__ void mark_from(const Segments& segments, Index begin, Index first, int warp, int warps) {
        Index number = first + warp * LANES + lane_index();
        Index bit[COUNT];
        do {
            load(segments, begin, number, warps * LANES, bit);
            number += COUNT * warps * LANES;
        } while (set(bit));
    }

    // The places in the tile of segments that lie `step` apart. What is loaded for those that do not exist is the end:
    // where they were left out offsets came a few at a time, and 2^28 float32 in segments of 16 took an H200 0.636 ms
    // in place of 0.555.
    template <int COUNT>
    __device__ static void load(const Segments& segments, Index begin, Index number, int step, Index (&bit)[COUNT]) {
#pragma unroll
        for (int k = 0; k < COUNT; k++) {
            const Index i = number + k * step;
            bit[k] = segments.start(i < segments.count ? i : segments.count);
        }
#pragma unroll
        for (int k = 0; k < COUNT; k++) bit[k] = number + k * step < segments.count ? bit[k] - begin : TILE;
    }

    // Whether the tile may have more of them. Only bits inside the tile are set, so that offsets that lie lead nowhere
    // else.
    template <int COUNT> __device__ bool set(const Index (&bit)[COUNT]) {
#pragma unroll
        for (int k = 0; k < COUNT; k++) {
            if (bit[k] >= TILE) return false;
            if (bit[k] >= 0) atomicOr(&word[bit[k] / 32], 1u << (bit[k] % 32));
        }
        return true;
    }
};
