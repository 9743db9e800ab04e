// A search among offsets that begins in shared memory.
//
// Constants that the plan sets, beside those of scan_segments.cuh:
//     SAMPLES         offsets that are kept there, at most
#pragma once

#include "scan_segments.cuh"

// Where segments at even steps start. Between two of them a guess is good.
struct Samples {
    Index start[SAMPLES];

    __device__ static Index step(const Segments& segments) { return (segments.count + SAMPLES - 1) / SAMPLES; }

    // By `threads` threads.
    __device__ void take(const Segments& segments, int thread, int threads) {
        constexpr int AT_ONCE = 4;
        const Index between = step(segments);
        for (int first = thread; first * between < segments.count; first += AT_ONCE * threads) {
            Index found[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int i = first + k * threads < SAMPLES ? first + k * threads : SAMPLES - 1;
                found[k] = i * between < segments.count ? segments.start(i * between) : 0;
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                if (first + k * threads < SAMPLES) start[first + k * threads] = found[k];
            }
        }
    }

    // By all lanes of a warp.
    __device__ Bracket around(Index element, const Segments& segments) const {
        const Index between = step(segments);
        const int count = static_cast<int>((segments.count + between - 1) / between);
        int low = 0, high = count;  // the first sample at `element` or later is one of these
        while (low < high) {
            const int step = (high - low + LANES - 1) / LANES, place = low + lane_index() * step;
            const int passed = __popc(__ballot_sync(ALL_LANES, place < high && start[place] < element));
            if (passed == 0) break;
            const int last_before = low + (passed - 1) * step;
            high = last_before + step < high ? last_before + step : high;
            low = last_before + 1;
        }
        const Index before = low > 0 ? start[low - 1] : 0;
        const Index first = low > 0 ? (low - 1) * between + 1 : 0;
        if (low == count) return {first, segments.count, before, segments.length};
        return {first, low * between, before, start[low]};
    }
};
