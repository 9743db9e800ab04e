// The spans that a thread adds up in a tile, round after round; memory loads one while another is added up.
//
// Floats are loaded to registers. Halves are converted for so long that too few loads would be on their way: they are
// copied to shared memory, STAGES spans of each thread, which takes no registers. Each thread copies what it reads
// itself, so that none waits. On an H200 mean and variance of (65536, 8192) float16s over 0 take 265 us so, and
// 457 in registers, of (64, 256, 128, 128) over 0, 2 139 and 188; but of as many floats 253 and 245.
//
// Constants that the plan sets, beside those of normalization_spans.cuh:
//     STAGES          spans of a thread in shared memory at a time; 0: they are in registers
// Dynamic shared memory: STAGES spans of each thread.
#pragma once

#include "normalization_spans.cuh"

struct LoadedRounds {
    const char* column;
    const Geometry& g;
    Place place;
    Span next;

    __device__ LoadedRounds(const char* column, const Geometry& g, const Place& place, unsigned char*)
        : column(column), g(g), place(place) {
        next.load<true>(column, g, place);
    }

    __device__ void take(int round, WarpRows& warp_rows, const Elements&, Span& span) {
        next.hand_over(warp_rows, g, place);
        span = next;
        place.next_round();
        if (round + 1 < ROUNDS) next.load<true>(column, g, place);
    }
};

struct CopiedRounds {
    using Stage = Elements[STEPS][BLOCK];

    const char* column;
    const Geometry& g;
    Place copied, taken;
    Stage* stages;
    int stage;  // of the span that is taken next

    __device__ CopiedRounds(const char* column, const Geometry& g, const Place& place, unsigned char* shared)
        : column(column), g(g), copied(place), taken(place), stages(reinterpret_cast<Stage*>(shared)), stage(0) {
#pragma unroll
        for (int round = 0; round < STAGES - 1; round++) copy(round, stages[round]);
    }

    __device__ void copy(int round, Stage& to) {
        if (round < ROUNDS && (WHOLE || copied.count == STEPS)) copy_steps<true>(to);
        else if (round < ROUNDS) copy_steps<false>(to);
        copy_async_commit();
        copied.next_round();
    }

    // Steps that do not exist are not copied, nor are columns: if many threads copied one element in their place, (64,
    // 75, 75, 144) floats over 0, 1, 2 would take 347 us in place of 167.
    template <bool ALL> __device__ void copy_steps(Stage& to) const {
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            if (!ALL && k >= copied.count) continue;
            copy_async<16>(&to[k][threadIdx.x], step_of<OF_INPUT, ALL>(column, g, copied, k));
        }
    }

    // As Span::load fills it: steps that do not exist become the first of their columns.
    __device__ void take(int round, WarpRows&, const Elements& first, Span& span) {
        copy(round + STAGES - 1, stages[stage == 0 ? STAGES - 1 : stage - 1]);  // where the last one was taken from
        copy_async_wait<STAGES - 1>();
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            span.step[k] = WHOLE || k < taken.count ? stages[stage][k][threadIdx.x] : first;
        }
        taken.next_round();
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
};

constexpr bool COPIED = STAGES > 0;

using Rounds = Select<COPIED, CopiedRounds, LoadedRounds>::type;

static_assert(!COPIED || (INPUT_PACKED && INPUT_ROW == 0 && sizeof(Elements) == 16), "whole vectors are copied");
