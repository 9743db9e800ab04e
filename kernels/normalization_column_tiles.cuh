// Columns that are cut into tiles: which one a block has, and its sums.
//
// Blocks that follow each other have neighbouring strips of the same steps, or, where strips are rows, neighbouring
// tiles, so that either way they read what lies side by side. A thread of a tile that is added up has several spans,
// one after the other.
//
// Constants that the plan sets: those of normalization_spans.cuh.
#pragma once

#include "normalization_spans.cuh"

struct Work {
    Index strip, tile;

    __device__ Work(const Geometry& g, Index number) {
        if constexpr (BY_ROWS) {
            strip = number / g.tiles;
            tile = number - strip * g.tiles;
        } else {
            const Index strips = (g.groups + COLUMNS - 1) / COLUMNS;
            tile = number / strips;
            strip = number - tile * strips;
        }
    }
};

// The spans of a thread in a tile: memory loads one while another is added up. Where there are several long ones, that
// amid which a column ends is loaded when it is its turn: to ask for each step costs as much as to add it up.
struct Rounds {
    static constexpr bool SOME_LATER = !WHOLE && SPAN > 1 && ROUNDS > 1;

    const char* column;
    const Geometry& g;
    Place place;
    Span next;

    __device__ Rounds(const char* column, const Geometry& g, const Place& place) : column(column), g(g), place(place) {
        load_ahead();
    }

    // Those of which the warp has anything; or all, where none is loaded later, as what does not exist adds nothing.
    __device__ int count() const {
        constexpr int OF_ROUND = TOGETHER * STEPS;
        return SOME_LATER ? up_to((g.length - place.begin_of_warp() + OF_ROUND - 1) / OF_ROUND, ROUNDS) : ROUNDS;
    }

    __device__ void take(bool is_last, WarpRows& warp_rows, Span& span) {
        if (SOME_LATER && !place.moves_input(g)) next.load_filled(column, g, place);
        next.hand_over(warp_rows, g, place);
        span = next;
        place.next_round();
        if (!is_last) load_ahead();
    }

private:
    __device__ void load_ahead() {
        if (!SOME_LATER) next.load<true>(column, g, place);
        else if (place.moves_input(g)) next.load_whole(column, g, place);
    }
};

// The sums of the spans that a thread has, and its warp: the first LEFT are what is left of them (sum_over_warp). The
// columns' first elements are given.
__device__ void add_up_rounds(const char* column, const Geometry& g, const Place& place, const Elements& first,
                              WarpRows& warp_rows, Sums (&sums)[VECTOR]) {
    SerialPrefix<Sums, levels_of(ROUNDS)> over_rounds[LEFT];
    Rounds rounds(column, g, place);
    const int count = rounds.count();
#pragma unroll 1
    for (int round = 0; round < count; round++) {
        Span span;
        rounds.take(round + 1 == count, warp_rows, span);
        span.sum(first, sums);
        sum_over_warp(sums);
#pragma unroll
        for (int k = 0; k < LEFT; k++) sums[k] = over_rounds[k].next(round, sums[k]);
    }
#pragma unroll 1
    for (int round = count; round < ROUNDS; round++) {
#pragma unroll
        for (int k = 0; k < LEFT; k++) sums[k] = over_rounds[k].next(round, Sums{});
    }
}

// By all threads of a block, from the last tile to the first, as the cache still holds what was read last.
// normalizer_of(column) may be asked for once the launch ahead has ended.
template <typename NormalizerOf>
__device__ void apply_tile(const Arrays& arrays, const Geometry& g, const Parameters& p,
                           const NormalizerOf& normalizer_of) {
    __shared__ Normalizer<Compute> normalizers[COLUMNS];
    __shared__ WarpRows rows[WARPS_OF_ROWS];
    WarpRows& warp_rows = rows[WARPS_OF_ROWS > 1 ? threadIdx.x / LANES : 0];
    const Work work(g, static_cast<Index>(gridDim.x) - 1 - static_cast<Index>(blockIdx.x));
    const Place place(g, work.strip, work.tile);
    const Arrays column = arrays.at(g.kept.offsets(place.column));
    Span span;
    span.load<false>(column.input, g, place);
    SpanOperands operands;
    operands.load(column, g, place);
    await_launch_ahead();  // nothing so far is what the first step writes, or is written by this one
#pragma unroll 1
    for (int c = threadIdx.x; c < COLUMNS; c += BLOCK) {
        const Index number = column_of(work.strip, c);
        normalizers[c] = exists(g, work.strip, number) ? normalizer_of(number) : Normalizer<Compute>{};
    }
    __syncthreads();
    span.hand_over(warp_rows, g, place);
    span.store<true>(warp_rows, column.output, g, place, normalizers, operands, p);
}
