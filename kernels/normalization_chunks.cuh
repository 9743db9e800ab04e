// Chunks of groups whose elements lie side by side, in registers.
//
// Constants that the plan sets, beside those of normalization.cuh:
//     INPUT_PACKED, OUTPUT_PACKED, SCALE_PACKED, BIAS_PACKED   whole chunks lie dense and aligned
//     OUTPUT_STEP     where the output is not packed, but a group's elements lie side by side: bytes, 1 to 8, of which
//                     every chunk begins at a multiple; else 0
//     OUTPUT_IN_RUNS  1: warps store runs of halves that are longer than a row one by one, in whole pieces of 16 bytes
//     STORED_ROWS     neighbouring rows that a warp stores together; 1 unless STORED_IN_RUNS
//     GRAIN           elements, a power of two and a chunk at the most, of which every group has a multiple
//     INPUT_GRAIN, OUTPUT_GRAIN   of many runs: elements, a power of two and a chunk at the most, that lie dense and
//                     aligned from every multiple of their number on; else 1
//     ENDS            0: every chunk exists that is worked on; 1: it exists or not; 2: a part of it may
#pragma once

#include "normalization.cuh"
#include "runs.cuh"

using Chunk = Pack<Input, CHUNK>;
using Result = Pack<Output, CHUNK>;

// Whether the results of a chunk take several pieces of 16 bytes, as they are wider than its elements. Then lanes that
// stored what they computed would leave gaps between them: (8192, 4096) halves into floats take an H200 68 us so, and
// 52 by neighbouring pieces from shared memory, floats into doubles 149 and 99, bytes into floats 89 and 46.
constexpr bool WIDENED = sizeof(Result) > 16 && sizeof(Output) >= 4, STORED_WIDENED = OUTPUT_PACKED && WIDENED;

// Where groups begin at words, each lane stores its chunk: (261632, 513) floats take 0.377 ms so, and 0.443 by whole
// pieces from shared memory, halves that begin at words 0.533 and 0.561.
constexpr bool STORED_IN_WORDS = !WIDENED && OUTPUT_STEP >= 4 && sizeof(Result) % 8 == 0;

// Whether rows go through shared memory, STORED_ROWS at a time, to be stored in whole pieces of 16 bytes.
constexpr bool STORED_IN_RUNS = !OUTPUT_PACKED && !STORED_IN_WORDS && (OUTPUT_STEP > 0 || OUTPUT_IN_RUNS);
constexpr int STORED = STORED_ROWS * ROW;

static_assert(STORED_IN_RUNS || STORED_ROWS == 1, "others are stored row by row");

union alignas(16) RowBuffer {
    Input input[ROW];
    Output output[STORED_ROWS * ROW];
};

// ---------------------------------------------------------------------------------------------------------------------
// Chunks of a group, of which the elements before `end` exist: an Index, or what says more than that.

constexpr int WHOLE = 0, CUT = 2;

// The end lies beyond all elements that are asked for, so nobody has to look: 3979 groups of 8432 floats take an H200
// 76 us so, and 87 otherwise.
struct Beyond {};

// The first chunk of the group is loaded in place of one that does not exist, which takes fewer registers than to load
// none: then these groups take 72 us.
struct Clamped {
    Index end;
    __device__ operator Index() const { return end; }
};

template <typename End> constexpr bool ALL_EXIST = ENDS == WHOLE || IsSame<End, Beyond>::value;

__device__ bool element_exists(Index, Beyond) { return true; }
__device__ bool element_exists(Index number, Index end) { return number < end; }

template <typename End> __device__ bool chunk_exists(Index number, End end) {
    return ALL_EXIST<End> || element_exists(number, end);
}

// Whether all COUNT elements exist, where packed chunks are moved at once.
template <int COUNT, typename End> __device__ bool chunk_is_whole(Index number, End end) {
    return ENDS == CUT ? element_exists(number + COUNT - 1, end) : chunk_exists(number, end);
}

// Where packed chunks lie: those of one run, whose stride the compiler knows, at constant distances.
template <int ARRAY, typename T> __device__ Index packed_offset(const Geometry& g, Index number) {
    if constexpr (REDUCED_RANK == 1) return number * static_cast<int>(sizeof(T));
    else return g.reduced.offsets(number).of[ARRAY];
}

// How many bytes of a chunk exist: it may be told more, or less than none.
template <typename T, int COUNT> __device__ int existing_bytes(Index, Beyond) {
    return COUNT * static_cast<int>(sizeof(T));
}
template <typename T, int COUNT> __device__ int existing_bytes(Index number, Index end) {
    const Index left = end - number;
    constexpr bool FIT = sizeof(Index) == sizeof(int) && sizeof(T) <= sizeof(Input);  // into 32 bits, as the input's do
    return (FIT ? static_cast<int>(left) : up_to(left, COUNT)) * static_cast<int>(sizeof(T));
}

// Elements that do not exist may be anything.
template <int ARRAY, bool ALIGNED, bool PACKED, typename End, typename T, int COUNT>
__device__ void load_chunk(const char* from, const Geometry& g, Index number, End end, Pack<T, COUNT>& chunk) {
    constexpr Eviction HOW = ARRAY == OF_INPUT ? EVICTION : EVICT_NORMALLY;
    if constexpr (PACKED && ALL_EXIST<End>) {
        chunk = load_items<HOW, Pack<T, COUNT>>(from + packed_offset<ARRAY, T>(g, number));
    } else if constexpr (PACKED && ENDS != CUT && IsSame<End, Clamped>::value) {
        const Index existing = element_exists(number, end) ? number : 0;
        chunk = load_items<HOW, Pack<T, COUNT>>(from + packed_offset<ARRAY, T>(g, existing));
    } else if constexpr (PACKED && ENDS != CUT && sizeof(T) == 1) {
        if (element_exists(number, end)) {
            chunk = load_items<HOW, Pack<T, COUNT>>(from + packed_offset<ARRAY, T>(g, number));
        }
    } else if constexpr (PACKED && sizeof(chunk) % 4 == 0 && sizeof(T) > 1) {
        const char* place = from + packed_offset<ARRAY, T>(g, number);
        const int nbytes = existing_bytes<T, COUNT>(number, end);
        chunk = load_run<Pack<T, COUNT>, 16, GRAIN * static_cast<int>(sizeof(T)), HOW>(place, nbytes);
    } else {
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
            chunk.element[j] = T();
            if (!element_exists(number + j, end)) continue;
            chunk.element[j] = load_element<T, ALIGNED>(from + g.reduced.offsets(number + j).of[ARRAY]);
        }
    }
}

// The runs that an extent of elements lies in, from `number` on.
template <int EXTENT> struct Runs {
    Index begin, first;
    int of_first;  // elements that lie in the first run

    template <typename End> __device__ Runs(const Geometry& g, Index number, End end) {
        constexpr int INNER = REDUCED_RANK - 1;
        begin = chunk_exists(number, end) ? number : 0;
        const Index run = OPERAND_RUN != CHUNK ? OPERAND_RUN : g.reduced.size[INNER];
        first = OPERAND_RUN != CHUNK ? begin / OPERAND_RUN : g.reduced.quotient(begin, INNER);
        of_first = OPERAND_PART == OPERAND_RUN ? OPERAND_RUN : up_to((first + 1) * run - begin, EXTENT);
    }

    // Offsets in scale and bias of run k; of one that does not exist, those of the first.
    template <typename End> __device__ Offsets offsets(const Geometry& g, int k, End end) const {
        const int before = of_first + (k - 1) * OPERAND_RUN;
        const bool exists = k == 0 || (before < EXTENT && (ENDS != CUT || element_exists(begin + before, end)));
        return g.reduced.offsets<REDUCED_RANK - 1>(exists ? first + k : first);
    }
};

// What a chunk needs that chunks before it do not: `from` elements behind the first of its extent, which is `number`.
template <int EXTENT, typename End>
__device__ void load_operands(const Arrays& group, const Geometry& g, Index number, End end,
                              Operands<CHUNK, EXTENT>& operands, int from = 0) {
    if constexpr (HAS_SCALE == OF_RUNS || HAS_BIAS == OF_RUNS) {
        const Runs<EXTENT> runs(g, number, end);
        operands.of_first = runs.of_first;
#pragma unroll
        for (int k = runs_of(from); k < runs_of(from + CHUNK); k++) {
            const Offsets of_run = runs.offsets(g, k, end);
            operands.scale.load_of_run(k, group.scale + of_run.of[OF_SCALE]);
            operands.bias.load_of_run(k, group.bias + of_run.of[OF_BIAS]);
        }
    }
    if constexpr (HAS_SCALE == OF_ELEMENTS) {
        load_chunk<OF_SCALE, SCALE_ALIGNED, SCALE_PACKED>(group.scale, g, number + from, end, operands.scale.pack);
    }
    if constexpr (HAS_BIAS == OF_ELEMENTS) {
        load_chunk<OF_BIAS, BIAS_ALIGNED, BIAS_PACKED>(group.bias, g, number + from, end, operands.bias.pack);
    }
}

// A chunk, or a part of one.
template <typename End, int COUNT>
__device__ void store_chunk(const Arrays& group, const Geometry& g, Index number, End end,
                            const Pack<Output, COUNT>& result) {
    if (OUTPUT_PACKED && chunk_is_whole<COUNT>(number, end)) {
        auto* to = reinterpret_cast<Pack<Output, COUNT>*>(group.output + packed_offset<OF_OUTPUT, Output>(g, number));
        *to = result;
        return;
    }
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
        if (OUTPUT_PACKED && ENDS != CUT) continue;
        if (element_exists(number + j, end)) store_output(group, g, number + j, result.element[j]);
    }
}

// Halves that a lane stores itself are widened anew, as it would hold them widened since they were summed, in twice the
// registers: (13107, 5120) take an H100 91 us so, and 98 otherwise. But (200000, 513), which warps store in runs, take
// 311 us so, and 305 otherwise.
template <bool ANEW = !STORED_IN_RUNS, int EXTENT>
__device__ Result normalized(const Chunk& chunk, const Normalizer<Compute>& normalizer,
                             const Operands<CHUNK, EXTENT>& operands, const Parameters& p, int from = 0) {
    Compute y[CHUNK];
    unpack<ANEW>(chunk, y);
#pragma unroll
    for (int j = 0; j < CHUNK; j++) y[j] = normalizer.apply(y[j]);
    operands.finish(y, p, from);
    return pack_of<Output>(y);
}

// Of the chunk that begins with element `number`, by all lanes of a warp; elements that do not exist add nothing.
template <typename End> __device__ Sums sum_of_existing(Chunk chunk, const Shift& shift, Index number, End end) {
    if (!ALL_EXIST<End> && ENDS == CUT && __any_sync(ALL_LANES, !element_exists(number + CHUNK - 1, end))) {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (!element_exists(number + j, end)) chunk.element[j] = shift.element;
        }
    }
    const Sums sums = sum_of(chunk, shift.value);
    return chunk_exists(number, end) ? sums : Sums{};
}

// Chunks of groups of many runs, grain by grain. Of an input element `other` is loaded in place of what does not exist.
template <typename End>
__device__ void load_grains(const Arrays& group, const Geometry& g, Index number, End end, Chunk& chunk, Index other) {
    using Grain = Pack<Input, INPUT_GRAIN>;
#pragma unroll
    for (int j = 0; j < CHUNK; j += INPUT_GRAIN) {
        const Index from = chunk_exists(number + j, end) ? number + j : other;
        const Grain grain = load_items<EVICTION, Grain>(group.input + g.reduced.offsets(from).of[OF_INPUT]);
#pragma unroll
        for (int k = 0; k < INPUT_GRAIN; k++) chunk.element[j + k] = grain.element[k];
    }
}

template <typename End>
__device__ void store_grains(const Arrays& group, const Geometry& g, Index number, End end, const Result& result) {
    using Grain = Pack<Output, OUTPUT_GRAIN>;
#pragma unroll
    for (int j = 0; j < CHUNK; j += OUTPUT_GRAIN) {
        if (!chunk_exists(number + j, end)) continue;
        Grain grain;
#pragma unroll
        for (int k = 0; k < OUTPUT_GRAIN; k++) grain.element[k] = result.element[j + k];
        *reinterpret_cast<Grain*>(group.output + g.reduced.offsets(number + j).of[OF_OUTPUT]) = grain;
    }
}

template <typename End> __device__ void store_words(char* group, Index number, End end, const Result& result) {
    constexpr int SIZE = sizeof(Output), STEP = STORED_IN_WORDS ? OUTPUT_STEP : SIZE;
    store_part<STEP>(group + number * SIZE, existing_bytes<Output, CHUNK>(number, end), result.element);
}

constexpr int OF_PIECE = 16 / sizeof(Output);
using ResultPiece = Pack<Output, OF_PIECE>;

// The results of a row in pieces of 16 bytes, by all lanes of a warp: `store(i, piece)` stores the one that begins with
// the row's element i.
template <typename Store> __device__ void store_pieces(RowBuffer& buffer, const Result& result, Store store) {
    __syncwarp();
    reinterpret_cast<Result*>(buffer.output)[lane_index()] = result;
    __syncwarp();
#pragma unroll
    for (int k = 0; k < CHUNK / OF_PIECE; k++) {
        const int i = (k * LANES + lane_index()) * OF_PIECE;
        store(i, *reinterpret_cast<const ResultPiece*>(buffer.output + i));
    }
}

// From a chunk of neighbours to every 32nd element, by all lanes of a warp.
__device__ void spread_chunk(RowBuffer& buffer, Result& result) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) buffer.output[lane_index() * CHUNK + j] = result.element[j];
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) result.element[j] = buffer.output[j * LANES + lane_index()];
}

// Where a lane's elements of a row lie, every 32nd one: as most runs are longer than that, a division for each would
// cost more than all else.
template <int ARRAY> struct Walk {
    const Axes<REDUCED_RANK>& axes;
    Index number, place, offset;  // place: in the run

    __device__ Walk(const Geometry& g, Index first) : axes(g.reduced), number(first + lane_index()), place(0) {
        offset = axes.offsets(number).of[ARRAY];
        if constexpr (REDUCED_RANK == 2) place = number - axes.quotient(number, 1) * axes.size[1];
    }

    __device__ void advance() {
        number += LANES;
        if constexpr (REDUCED_RANK == 1) {
            offset += LANES * axes.stride[ARRAY][0];
        } else if constexpr (REDUCED_RANK == 2) {
            const Index run = axes.size[1], runs = axes.quotient(LANES, 1), rest = LANES - runs * run;
            const bool carries = place + rest >= run;
            place += carries ? rest - run : rest;
            offset += (runs + carries) * axes.stride[ARRAY][0] + (carries ? rest - run : rest) * axes.stride[ARRAY][1];
        } else {
            offset = axes.offsets(number).of[ARRAY];
        }
    }
};

__device__ int existing_of_rows(Index, Beyond) { return STORED; }
__device__ int existing_of_rows(Index first, Index end) { return up_to(end - first, STORED); }

// The runs that the elements of these rows lie in, one after the other by the same code.
__device__ void store_runs(RowBuffer& buffer, const Arrays& group, const Geometry& g, Index first, int exist) {
    constexpr int INNER = REDUCED_RANK - 1;
    const Index run = g.reduced.size[INNER], left = (g.reduced.quotient(first, INNER) + 1) * run - first;
#pragma unroll 1
    for (int done = 0, count = up_to(left, exist); done < exist; done += count, count = up_to(run, exist - done)) {
        store_run<STORED>(group.output + g.reduced.offsets(first + done).of[OF_OUTPUT], buffer.output + done, count);
    }
}

// The row that begins with element `first`, number `r` of those that all lanes of a warp store one after the other.
template <typename End>
__device__ void store_row(RowBuffer& buffer, const Arrays& group, const Geometry& g, Index first, End end,
                          Result& result, int r = 0) {
    if constexpr (STORED_WIDENED) {
        store_pieces(buffer, result, [&](int i, const ResultPiece& piece) {
            store_chunk(group, g, first + i, end, piece);
        });
    } else if constexpr (OUTPUT_PACKED) {
        store_chunk(group, g, first + lane_index() * CHUNK, end, result);
    } else if constexpr (STORED_IN_WORDS) {
        store_words(group.output, first + lane_index() * CHUNK, end, result);
    } else if constexpr (STORED_IN_RUNS) {
        const int place = r % STORED_ROWS * ROW;
        if (place == 0) __syncwarp();
        *reinterpret_cast<Result*>(buffer.output + place + lane_index() * CHUNK) = result;
        if (place + ROW < STORED) return;
        __syncwarp();
        first -= place;
        const int exist = existing_of_rows(first, end);
        if (OUTPUT_IN_RUNS) store_runs(buffer, group, g, first, exist);
        else store_run<STORED>(group.output + first * static_cast<int>(sizeof(Output)), buffer.output, exist);
    } else if constexpr (OUTPUT_GRAIN > 1) {
        store_grains(group, g, first + lane_index() * CHUNK, end, result);
    } else {
        spread_chunk(buffer, result);
        Walk<OF_OUTPUT> walk(g, first);
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            char* to = group.output + walk.offset;
            if (chunk_exists(walk.number, end)) store_element<OUTPUT_ALIGNED>(to, result.element[j]);
            walk.advance();
        }
    }
}
