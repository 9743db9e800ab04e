// Sums of groups that lie in shared memory: a thread adds up a span at a time, some chunks that follow each other, and
// lanes of a warp the spans of a group.
//
// Constants that the plan sets, beside those of normalization.cuh:
//     SPAN    chunks of a span, a power of two
#pragma once

#include "normalization.cuh"

constexpr int OF_SPAN = SPAN * CHUNK;  // elements

// Of the span that begins with element `first`, of those before `end`. Chunks are at(number), whose elements are
// element(j).
template <bool WHOLE, typename At>
__device__ Sums sums_of_part(const At& at, int first, int end, const Shift& shift) {
    SerialPrefix<Sums, levels_of(SPAN)> over_chunks;
    Sums sums;
#pragma unroll
    for (int c = 0; c < SPAN; c++) {
        const int number = first + c * CHUNK;
        const auto from = at(number);
        Pack<Input, CHUNK> chunk;
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const bool exists = WHOLE || number + j < end;
            chunk.element[j] = exists ? from.element(j) : shift.element;
        }
        sums = over_chunks.next(c, sum_of(chunk, shift.value));
    }
    return sums;
}

template <typename At> __device__ Sums sums_of_span(const At& at, int first, int end, const Shift& shift) {
    const bool whole = first + OF_SPAN <= end;
    return whole ? sums_of_part<true>(at, first, end, shift) : sums_of_part<false>(at, first, end, shift);
}

// Of MOST spans at the most, a power of two, of each of some groups.
template <int MOST, int COUNT> struct SpanSums {
    static constexpr int OF_LANE = MOST > LANES ? MOST / LANES : 1;
    static constexpr int SHARING = MOST / OF_LANE, AT_ONCE = LANES / SHARING;  // lanes of a group, groups of a warp

    Sums of[MOST][COUNT];

    // The sums of the first `spans` of each of `groups` take the place of those of the first one. By all threads of a
    // block, of so many warps, which synchronizes before and behind.
    template <int WARPS> __device__ void add_up(int spans, int groups) {
        __syncthreads();
#pragma unroll 1
        for (int first = warp_index() * AT_ONCE; first < groups; first += WARPS * AT_ONCE) {
            const int group = first + lane_index() / SHARING;
            const Sums total = of_group(group, group < groups ? spans : 0);
            if (lane_index() % SHARING == 0 && group < groups) of[0][group] = total;
        }
        __syncthreads();
    }

private:
    __device__ Sums of_group(int group, int spans) const {
        Sums sums[OF_LANE];
#pragma unroll
        for (int k = 0; k < OF_LANE; k++) {
            const int span = lane_index() % SHARING * OF_LANE + k;
            sums[k] = span < spans ? of[span][group] : Sums{};
        }
        return lane_sum<SHARING>(pairwise_sum(sums));
    }
};
