// How a warp loads rows of groups: 32 chunks, each lane one.
//
// Constants that the plan sets, beside those of normalization_chunks.cuh:
//     INPUT_STEP      as OUTPUT_STEP; 1: bytes that begin anywhere
//     IN_RUNS         1: a group's input has runs that are dense, and of a chunk at least
//     LINE_LANES      lanes that share a group of less than a row, a power of two; 32 otherwise
#pragma once

#include "normalization_chunks.cuh"

// Whether lanes load the elements of their chunks from one run or two, each by itself. That takes more accesses to the
// cache than every 32nd element would, and fewer instructions, which is what counts where nothing is stored: mean and
// variance of (64, 2048, 7, 7) over 0, 2, 3 take an H200 9.5 us, and 10.6 by every 32nd element; (256, 1024, 7, 7) 22
// and 33.
constexpr bool BY_CHUNKS = IN_RUNS && !INPUT_PACKED && !HAS_OUTPUT && LINE_LANES == LANES && INPUT_GRAIN == 1;
constexpr bool GATHERED = !INPUT_PACKED && INPUT_STEP == 0 && INPUT_GRAIN == 1 && !BY_CHUNKS;
constexpr bool SPREAD = GATHERED || STORED_WIDENED || !OUTPUT_PACKED;  // rows go through shared memory

// Bytes of a run that begins anywhere. Words around a chunk are loaded where all of them lie inside the group; the
// group's first and last chunks byte by byte.
template <typename End>
__device__ void load_bytes(const char* group, const Geometry& g, Index number, End end, Chunk& chunk) {
    if (!chunk_exists(number, end)) return;
    if (number > 0 && number + CHUNK + 4 <= g.length) {
        chunk = load_shifted<Chunk>(group + number);
    } else {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (number + j < g.length) chunk.element[j] = reinterpret_cast<const Input*>(group)[number + j];
        }
    }
}

// A chunk of a group that is packed or one run; what does not exist may be anything.
template <typename End>
__device__ void load_dense(const char* group, const Geometry& g, Index number, End end, Chunk& chunk) {
    constexpr int SIZE = sizeof(Input), STEP = INPUT_STEP < SIZE ? SIZE : INPUT_STEP;  // SIZE where nobody calls it
    if constexpr (INPUT_PACKED) {
        load_chunk<OF_INPUT, true, true>(group, g, number, end, chunk);
    } else if constexpr (SIZE == 1) {
        load_bytes(group, g, number, end, chunk);
    } else if constexpr (IsSame<End, Beyond>::value) {
        chunk = load_amid<Chunk, STEP>(group + number * SIZE, number == 0);
    } else {
        const int nbytes = existing_bytes<Input, CHUNK>(number, end);
        chunk = load_run<Chunk, STEP, GRAIN * SIZE>(group + number * SIZE, nbytes);
    }
}

// The chunk that begins with element `number`; what does not exist may be anything.
template <typename End>
__device__ void load_from_runs(const Arrays& group, const Geometry& g, Index number, End end, Chunk& chunk) {
    constexpr int INNER = REDUCED_RANK - 1, SIZE = sizeof(Input);
    const Index run = g.reduced.size[INNER], number_of_run = g.reduced.quotient(number, INNER);
    const Index place = number - number_of_run * run, step = g.reduced.stride[OF_INPUT][0];
    const Index offset = chunk_exists(number, end) ? number_of_run * step + place * SIZE : 0;
    const char* const here = group.input + offset;
    const char* const beyond = here + (step - run * SIZE);  // as seen from the next run
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        const bool exists = ENDS != CUT || element_exists(number + j, end);
        const char* from = (j < run - place ? here : beyond) + j * SIZE;
        chunk.element[j] = load_element<Input, INPUT_ALIGNED>(exists ? from : group.input);
    }
}

// The row that begins with element `first`, by all lanes of a warp; what does not exist may be anything: of many runs
// element `other` is loaded in its place. If GATHERED, chunks hold every 32nd element, until they are gathered.
template <typename End>
__device__ void load_row(const Arrays& group, const Geometry& g, Index first, End end, Chunk& chunk, Index other = 0) {
    const Index number = first + lane_index() * CHUNK;
    if constexpr (INPUT_PACKED || INPUT_STEP > 0) {
        load_dense(group.input, g, number, end, chunk);
    } else if constexpr (INPUT_GRAIN > 1) {
        load_grains(group, g, number, end, chunk, other);
    } else if constexpr (BY_CHUNKS) {
        load_from_runs(group, g, number, end, chunk);
    } else {
        Walk<OF_INPUT> walk(g, first);
        const Index missing = other == 0 ? 0 : g.reduced.offsets(other).of[OF_INPUT];
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const Index offset = chunk_exists(walk.number, end) ? walk.offset : missing;
            chunk.element[j] = load_element<Input, INPUT_ALIGNED>(group.input + offset);
            walk.advance();
        }
    }
}

// From every 32nd element to a chunk of neighbours, by all lanes of a warp.
__device__ void gather_chunk(RowBuffer& buffer, Chunk& chunk) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) buffer.input[j * LANES + lane_index()] = chunk.element[j];
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) chunk.element[j] = buffer.input[lane_index() * CHUNK + j];
}
