// The ring of normalization_stream.cu: what its stages hold, and where the elements of a unit lie in one.
//
// A unit is UNIT_ROWS rows of 32 chunks. A stage holds it in the order of its elements, with the gaps between its runs
// or without.
//
// Constants that the plan sets: those of normalization_stream.cu.
#pragma once

#include "normalization_chunks.cuh"

constexpr Index UNIT = UNIT_ROWS * ROW;

// With 16 bytes more for the place within 16 that a unit keeps, which the second piece of its last chunk may fill.
constexpr int STAGE_BYTES = static_cast<int>(UNIT) * static_cast<int>(sizeof(Input)) + GAPS +
                            (BULK && !INPUT_PACKED ? 16 : 0);

#include "normalization_teams.cuh"

constexpr bool STAGED_PACKED = !BULK || INPUT_PACKED;
constexpr int SIZE = static_cast<int>(sizeof(Input));

static_assert(COLUMNS == 1, "a bundle is a group");
static_assert(FOLDERS * PIECE <= STAGES, "none may be a use of a stage ahead");
static_assert(HELD < PIECE, "the last stage of a piece stays until the folder has seen it");

// What the adders leave of the unit in a stage.
struct Parts {
    Gate summed;
    double shift;
    Half of[ADDERS][2];  // of x - shift, and of its square
};

// Where a folder tells how the group of a turn is normalized. The stages of units that are held may be in use again by
// then, so it is not that of a unit: turns take turns with the stages.
__device__ Stage& outcome(const Work& work, int turn) { return work.stage(turn); }

// The copy engine may write to the stage next, and its writes are ordered behind our reads by a fence alone: without
// one an H200 normalized some 200 runs of 64 floats of (64, 4194304) with the values of the unit that came into the
// stage next, once loaders did nothing between being told and copying.
__device__ void leave(Stage& stage) {
    if (BULK) fence_async_proxy();
    stage.emptied.arrive();
}

__device__ const char* address_of(const char* of_group, const Geometry& g, Index number) {
    return of_group + g.reduced.offsets(number).of[OF_INPUT];
}

// Where in its stage a unit begins: bulk copies keep the place within 16 bytes.
__device__ int stage_offset(const Work& work, const Arrays& group, const Unit& unit) {
    if (STAGED_PACKED) return 0;
    const char* from = address_of(group.input, work.g, unit.begin);
    return static_cast<int>(reinterpret_cast<unsigned long long>(from) % 16);
}

// Where an element of a unit is from there on. Units with gaps begin with a run: 64 x 256 x 128 x 128 floats that are
// padded by one took an H200 0.62 ms over 0, 2, 3 where threads left the gaps out.
__device__ int place_in_stage(const Geometry& g, int number) {
    if constexpr (GAPS > 0) {
        const Index run = g.reduced.size[REDUCED_RANK - 1], pitch = g.reduced.stride[OF_INPUT][REDUCED_RANK - 2];
        return number * SIZE + static_cast<int>(g.reduced.quotient(number, REDUCED_RANK - 1) * (pitch - run * SIZE));
    }
    return number * SIZE;
}

// The chunk that begins with element `number` of the unit. There is room in a stage for all that is read: whatever lies
// behind the unit is neither added up nor stored. What is not dense begins anywhere, and is taken from the two pieces
// of 16 bytes that it lies in, or IN_ELEMENTS, for which four lanes meet in each bank, but which takes fewer registers.
template <bool IN_ELEMENTS> __device__ Held<Chunk> load_staged(const Geometry& g, const char* from, int number) {
    from += place_in_stage(g, number);
    if constexpr (STAGED_PACKED) {
        return load_loosely<Held<Chunk>>(from);
    } else if constexpr (IN_ELEMENTS && INPUT_ALIGNED) {
        Chunk chunk;
#pragma unroll
        for (int j = 0; j < CHUNK; j++) chunk.element[j] = load_loosely<Input>(from + j * SIZE);
        return chunk;
    } else {
        using Piece = PieceOf<16>;
        const unsigned offset = static_cast<unsigned>(reinterpret_cast<unsigned long long>(from) % 16);
        const Piece low = load_loosely<Piece>(from - offset), high = load_loosely<Piece>(from - offset + 16);
        InWords<Chunk, Piece> taken;
        taken.words = bytes_across<INPUT_ALIGNED ? SIZE : 1>(low, high, offset);
        return taken.items;
    }
}
