// Chunks of dense lines that begin at any element, in words all the same.
//
// A chunk of small elements is taken from the two aligned pieces of its size that it lies in. All lanes load those of
// all rows before they use the first. Where pieces are not all there to be read, a chunk is loaded element by element.
// Rows are stored in whole aligned pieces, which lanes take from shared memory.
//
// Constants that the plan sets, beside those of scan.cuh:
//     SHIFTED_IN      1 where inputs are moved so: neighbours along the axis, aligned by elements, in chunks of 4, 8 or
//                     16 bytes, and no line before the first
//     SHIFTED_OUT     1 where outputs are: neighbours along the axis, aligned by elements, in chunks of those sizes
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

// Elements of one byte or two.
struct ChunkInPieces {
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

    // What was asked for takes the place of the first piece. Chunks of one line, by a whole warp, lie alike in theirs.
    __device__ void put_together() { low = bytes_across<SIZE>(low, high, within); }
    template <int COUNT> __device__ static void put_together_alike(ChunkInPieces (&chunk)[COUNT]) {
        PieceOf<BYTES_IN> low[COUNT], high[COUNT], taken[COUNT];
#pragma unroll
        for (int k = 0; k < COUNT; k++) low[k] = chunk[k].low, high[k] = chunk[k].high;
        bytes_across_alike<SIZE>(low, high, chunk[0].within, taken);
#pragma unroll
        for (int k = 0; k < COUNT; k++) chunk[k].low = taken[k];
    }

    // Once it is put together. Values behind the line are any: no prefix that is stored has them.
    __device__ void widen(const Line& line, const Geometry& g, Index number, Accumulator (&value)[CHUNK]) const {
        if (!loaded && number < line.length) load_elements(line, g, number, value);
        else widen_words(low, value);
    }

  private:
    static constexpr int SIZE = sizeof(Input);

    template <typename To> __device__ static void widen_words(const PieceOf<BYTES_IN>& piece, To (&value)[CHUNK]) {
        if constexpr (SIZE < 4) {
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                const int byte = chunk_place(j) * SIZE % BYTES_IN;
                const unsigned bits = piece.word[byte / 4] >> byte % 4 * 8 & ((1u << 8 * SIZE % 32) - 1);
                value[j] = convert<To>(convert<Value>(element_of<Input>(bits)));
            }
        }
    }
};

// Larger ones are loaded as they are, which takes no more than the pieces and what is taken from them.
struct ChunkOfElements {
    Input element[CHUNK];

    __device__ void load(const Line& line, Index number, const Readable&) {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const char* from = line.input + along(number + j, line.length) * SIZE_IN;
            element[j] = {};
            if (number + j < line.length) element[j] = load_element<Input, true>(from);
        }
    }

    __device__ void put_together() {}
    template <int COUNT> __device__ static void put_together_alike(ChunkOfElements (&)[COUNT]) {}

    __device__ void widen(const Line&, const Geometry&, Index, Accumulator (&value)[CHUNK]) const {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) value[j] = widen_element(element[j]);
    }

  private:
    __device__ static Accumulator widen_element(Input x) { return ::widen(convert<Value>(x)); }
};

using ShiftedChunk = Select<(sizeof(Input) < 4), ChunkInPieces, ChunkOfElements>::type;

// ---------------------------------------------------------------------------------------------------------------------
// Rows of outputs.

// By all lanes of a warp: the row of the line that begins with element `first`, a chunk from each lane.
__device__ void store_shifted(RowBuffer& buffer, const Line& line, Index first, const Accumulator (&result)[CHUNK]) {
    static_assert(!SHIFTED_OUT || SIZE_OUT <= static_cast<int>(sizeof(Value)), "outputs fit the places of values");
    Output* const row = reinterpret_cast<Output*>(buffer.elements);
    const int left = up_to(line.length - first, ROW), place = REVERSE ? LANES - 1 - lane_index() : lane_index();
    __syncwarp();
    store_packed(reinterpret_cast<char*>(row + place * CHUNK), result);
    __syncwarp();
    char* const to = line.output + lowest_output(line, first, left) * SIZE_OUT;
    store_run<ROW>(to, row + (REVERSE ? ROW - left : 0), left);
}
