// Chunks of groups whose elements lie side by side, in registers.
//
// Constants that the plan sets, beside those of normalization.cuh:
//     INPUT_PACKED, OUTPUT_PACKED, SCALE_PACKED, BIAS_PACKED   whole chunks lie dense and aligned
#pragma once

#include "normalization.cuh"

using Chunk = Pack<Input, CHUNK>;
using Result = Pack<Output, CHUNK>;

union RowBuffer {
    Input input[ROW];
    Output output[ROW];
};

// ---------------------------------------------------------------------------------------------------------------------
// Chunks of a group, of which the elements before `end` exist.

template <int ARRAY, bool ALIGNED, bool PACKED, typename T, int COUNT>
__device__ void load_chunk(const char* from, const Geometry& g, Index number, Index end, Pack<T, COUNT>& chunk) {
    if (PACKED && number + COUNT <= end) {
        chunk = *reinterpret_cast<const Pack<T, COUNT>*>(from + g.reduced.offsets(number).of[ARRAY]);
        return;
    }
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
        chunk.element[j] = T();
        if (number + j < end) {
            chunk.element[j] = load_element<T, ALIGNED>(from + g.reduced.offsets(number + j).of[ARRAY]);
        }
    }
}

__device__ void load_operands(const Arrays& group, const Geometry& g, Index number, Index end,
                              Operands<CHUNK>& operands) {
    if constexpr (HAS_SCALE == OF_CHUNKS || HAS_BIAS == OF_CHUNKS) {
        const Offsets chunk = g.reduced.offsets(number < end ? number : 0);
        operands.scale.load_of_chunk(group.scale + chunk.of[OF_SCALE]);
        operands.bias.load_of_chunk(group.bias + chunk.of[OF_BIAS]);
    }
    if constexpr (HAS_SCALE == OF_ELEMENTS) {
        load_chunk<OF_SCALE, SCALE_ALIGNED, SCALE_PACKED>(group.scale, g, number, end, operands.scale.pack);
    }
    if constexpr (HAS_BIAS == OF_ELEMENTS) {
        load_chunk<OF_BIAS, BIAS_ALIGNED, BIAS_PACKED>(group.bias, g, number, end, operands.bias.pack);
    }
}

__device__ void store_chunk(const Arrays& group, const Geometry& g, Index number, Index end, const Result& result) {
    if (OUTPUT_PACKED && number + CHUNK <= end) {
        *reinterpret_cast<Result*>(group.output + g.reduced.offsets(number).of[OF_OUTPUT]) = result;
        return;
    }
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        if (number + j < end) store_output(group, g, number + j, result.element[j]);
    }
}

__device__ Result normalized(const Chunk& chunk, const Normalizer<Compute>& normalizer, const Operands<CHUNK>& operands,
                             const Parameters& p) {
    Result result;
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        const Compute x = widen(convert<Compute>(chunk.element[j]));
        result.element[j] = operands.finish(normalizer.apply(x), j, p);
    }
    return result;
}

// From every 32nd element to a chunk of neighbours, by all lanes of a warp; and back.
__device__ void gather_chunk(RowBuffer& buffer, Chunk& chunk) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) buffer.input[j * LANES + lane_index()] = chunk.element[j];
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) chunk.element[j] = buffer.input[lane_index() * CHUNK + j];
}

__device__ void spread_chunk(RowBuffer& buffer, Result& result) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) buffer.output[lane_index() * CHUNK + j] = result.element[j];
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) result.element[j] = buffer.output[j * LANES + lane_index()];
}

// The row that begins with element `first`, by all lanes of a warp. Unless it is packed, the chunks hold every 32nd
// element, until they are gathered.
__device__ void load_row(const Arrays& group, const Geometry& g, Index first, Index end, Chunk& chunk) {
    if constexpr (INPUT_PACKED) {
        load_chunk<OF_INPUT, INPUT_ALIGNED, true>(group.input, g, first + lane_index() * CHUNK, end, chunk);
    } else {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const Index number = first + j * LANES + lane_index();
            chunk.element[j] = number < end ? load_input(group, g, number) : Input();
        }
    }
}

__device__ void store_row(RowBuffer& buffer, const Arrays& group, const Geometry& g, Index first, Index end,
                          Result& result) {
    if constexpr (OUTPUT_PACKED) {
        store_chunk(group, g, first + lane_index() * CHUNK, end, result);
    } else {
        spread_chunk(buffer, result);
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const Index number = first + j * LANES + lane_index();
            if (number < end) store_output(group, g, number, result.element[j]);
        }
    }
}
