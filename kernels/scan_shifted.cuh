// Chunks of dense lines that begin at any element, in words all the same.
//
// A chunk is taken from the two aligned pieces of its size that it lies in. Neighbouring lanes load neighbouring pieces,
// all of them without a branch, before the first is used. Where pieces are not all there to be read, a chunk is loaded
// element by element. Rows are stored in whole aligned pieces, which lanes take from shared memory.
//
// Constants that the plan sets, beside those of scan.cuh:
//     SHIFTED_IN      1 where inputs are moved so: neighbours along the axis, aligned by elements, in chunks of 4, 8 or
//                     16 bytes, and no line before the first
//     SHIFTED_OUT     1 where outputs are: neighbours along the axis, aligned by elements, in chunks of 16 bytes or less
#pragma once

#include "runs.cuh"
#include "scan.cuh"

constexpr int BYTES_IN = SHIFTED_IN ? CHUNK * static_cast<int>(sizeof(Input)) : 16;

// What may be read, wanted or not.
struct Readable {
    const char *begin, *end;

    __device__ static Readable lines(const char* input, const Geometry& g, Index first, Index count) {
        const char* begin = input + g.input_line.offset(first);
        return {begin, input + g.input_line.offset(first + count - 1) + g.length * SIZE_IN};
    }

    // In place, others store meanwhile what lies around the `count` lines from `first` on.
    __device__ static Readable around(const char* input, const char* output, const Geometry& g, Index first,
                                      Index count) {
        const bool in_place = input == output;
        return lines(input, g, in_place ? first : 0, in_place ? count : g.lines);
    }
};

template <typename T, int BYTES, typename To>
__device__ void widen_words(const PieceOf<BYTES>& piece, To (&value)[CHUNK]) {
    constexpr int SIZE = sizeof(T);
    if constexpr (SIZE < 4) {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const int byte = chunk_place(j) * SIZE % BYTES;
            const T x = element_of<T>(piece.word[byte / 4] >> byte % 4 * 8 & ((1u << 8 * SIZE) - 1));
            value[j] = convert<To>(convert<Value>(x));
        }
    } else {
        InWords<Pack<T, CHUNK>, PieceOf<BYTES>> chunk;
        chunk.words = piece;
        widen_pack(chunk.items, value);
    }
}

struct ShiftedChunk {
    PieceOf<BYTES_IN> low, high;
    unsigned within;
    bool loaded;

    // That of element `number` on. Nothing of a chunk that begins behind the line.
    __device__ void load(const Line& line, Index number, const Readable& readable) {
        const char* from = line.input + chunk_start(number, line.length) * SIZE_IN;
        within = static_cast<unsigned>(reinterpret_cast<size_t>(from) % BYTES_IN);
        const char* first = from - within;
        const char* last = within == 0 ? first : first + BYTES_IN;
        loaded = number < line.length && readable.begin <= first && last + BYTES_IN <= readable.end;
        low = high = {};
        if (loaded) {
            low = load_items<EVICTION, PieceOf<BYTES_IN>>(first);
            high = load_items<EVICTION, PieceOf<BYTES_IN>>(last);
        }
    }

    // Values behind the line are any: no prefix that is stored has them.
    __device__ void widen(const Line& line, const Geometry& g, Index number, Accumulator (&value)[CHUNK]) const {
        if (!loaded && number < line.length) {
            load_elements(line, g, number, value);
            return;
        }
        widen_words<Input>(bytes_across<static_cast<int>(SIZE_IN)>(low, high, within), value);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Rows of outputs.

// By all lanes of a warp: the row of the line that begins with element `first`, a chunk from each lane.
__device__ void store_shifted(RowBuffer& buffer, const Line& line, Index first, const Accumulator (&result)[CHUNK]) {
    static_assert(!SHIFTED_OUT || CHUNK * SIZE_OUT <= 16, "no larger than chunks of values");
    Output* const row = reinterpret_cast<Output*>(buffer.elements);
    const int left = up_to(line.length - first, ROW), place = REVERSE ? LANES - 1 - lane_index() : lane_index();
    __syncwarp();
    store_packed(reinterpret_cast<char*>(row + place * CHUNK), result);
    __syncwarp();
    const Index start = REVERSE ? line.length - first - left : first + INITIAL;
    store_run<ROW>(line.output + start * SIZE_OUT, row + (REVERSE ? ROW - left : 0), left);
}
