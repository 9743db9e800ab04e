// The ring of normalization_stream.cu: what its stages hold, and where the elements of a unit lie in one.
//
// A unit is UNIT_ROWS rows of 32 chunks. A stage holds it in the order of its elements, with the gaps between its runs
// or without.
//
// Constants that the plan sets: those of normalization_stream.cu.
#pragma once

#include "gate.cuh"
#include "normalization_chunks.cuh"

constexpr Index UNIT = UNIT_ROWS * ROW;

// With as much more as a unit may lie behind the stage's begin, which the second piece of its last chunk may fill too.
constexpr int STAGE_BYTES = static_cast<int>(UNIT) * static_cast<int>(sizeof(Input)) + GAPS +
                            (KEEPS_PLACES ? CACHE_LINE : 0);

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

// ---------------------------------------------------------------------------------------------------------------------
// Where the elements of a unit are in its stage

// Runs that end anywhere lie RUN_GAP bytes apart: each is where it is in memory within a line of the cache, and no two
// are in the same 16 bytes. There is room between them for a seam, the chunk that lies in both, put together.
constexpr bool HAS_SEAMS = RUN_GAP > 0;
constexpr int INNER = REDUCED_RANK - 1;

static_assert(!HAS_SEAMS || (REDUCED_RANK == 2 && RUN_GAP >= 31), "there is room for a seam wherever a run ends");
static_assert(KEEPS_PLACES ? BULK : !HAS_SEAMS && STAGED_PACKED, "as bulk copies do");

// Behind a run that ends there.
__device__ int seam_behind(int end) { return (end + 15) / 16 * 16; }

// A unit in its stage, and among the runs of its group.
struct Staged {
    const char* data;
    int offset;       // of the first element in the stage, in bytes
    int count;        // elements
    Index first_run;  // that the unit begins in, and the place in it
    int place;

    __device__ Staged(const Work& work, const Arrays& group, const Unit& unit)
        : data(work.data(unit.visit)), offset(0), count(unit.count), first_run(0), place(0) {
        const Geometry& g = work.g;
        if constexpr (HAS_SEAMS) {
            first_run = g.reduced.quotient(unit.begin, INNER);
            place = static_cast<int>(unit.begin - first_run * g.reduced.size[INNER]);
        }
        if (!KEEPS_PLACES) return;
        const char* from = address_of(group.input, g, unit.begin);
        offset = static_cast<int>(reinterpret_cast<unsigned long long>(from) % CACHE_LINE);
    }

    // Runs that end before this element.
    __device__ int runs_before(const Geometry& g, int number) const {
        if constexpr (!HAS_SEAMS) return 0;
        else if constexpr (sizeof(Index) > sizeof(int)) return (place + number) / run(g);
        else return g.reduced.quotient(place + number, INNER);
    }
    __device__ int run(const Geometry& g) const { return static_cast<int>(g.reduced.size[INNER]); }

    // Where an element is, or would be if these runs were longer. Units with gaps begin with a run: 64 x 256 x 128 x
    // 128 floats that are padded by one took an H200 0.62 ms over 0, 2, 3 where threads left the gaps out.
    __device__ int position(const Geometry& g, int number, int runs) const {
        int position = offset + number * SIZE;
        if constexpr (HAS_SEAMS) {
            position += runs * RUN_GAP;
        } else if constexpr (GAPS > 0) {
            const Index pitch = g.reduced.stride[OF_INPUT][REDUCED_RANK - 2];
            position += static_cast<int>(g.reduced.quotient(number, INNER) * (pitch - g.reduced.size[INNER] * SIZE));
        }
        return position;
    }
};

// Where some neighbouring chunks are in the stage, all of which lie in two runs at the most.
struct ChunkPlaces {
    const Staged& unit;
    const Geometry& g;
    int begin;       // where the unit would begin, if all of it were in the first chunk's run
    int next, seam;  // the first element of the run behind that, and where the seam between them is

    __device__ ChunkPlaces(const Staged& unit, const Geometry& g, int first) : unit(unit), g(g), begin(unit.offset) {
        if constexpr (!HAS_SEAMS) return;
        const int runs = unit.runs_before(g, first);
        begin += runs * RUN_GAP;
        next = (runs + 1) * unit.run(g) - unit.place;
        seam = seam_behind(begin + next * SIZE);
    }

    // That of the chunk which begins with this element.
    __device__ int position(int number) const {
        if constexpr (!HAS_SEAMS) return unit.position(g, number, 0);
        const int here = begin + number * SIZE;
        return number >= next ? here + RUN_GAP : number + CHUNK > next ? seam : here;
    }
};

// What of run number `k` of a unit, counted from the one that this begins in, is the unit's.
struct RunPart {
    int begin, end;                // elements of the unit
    int position, behind;          // of the first, and behind the last, in the stage
    int begin_of_run, end_of_run;  // elements of the unit too, though the run may begin before it and end behind it

    __device__ RunPart(const Staged& unit, const Geometry& g, int k)
        : begin(0), end(unit.count), begin_of_run(0), end_of_run(unit.count) {
        if constexpr (HAS_SEAMS) {
            begin_of_run = k * unit.run(g) - unit.place, end_of_run = begin_of_run + unit.run(g);
            if (begin < begin_of_run) begin = begin_of_run;
            if (end > end_of_run) end = end_of_run;
        }
        position = unit.position(g, begin, k), behind = position + (end - begin) * SIZE;
    }
};

// Runs that a unit lies in.
__device__ int runs_of(const Staged& unit, const Geometry& g) {
    return unit.count > 0 ? unit.runs_before(g, unit.count - 1) + 1 : 0;
}

// The elements at either end of a run's part that may lie amid 16 bytes, or in a seam: each lane of a few has one.
struct RunEnd {
    static constexpr int LANES_OF_RUN = 2 * CHUNK < LANES ? 2 * CHUNK : LANES, RUNS = LANES / LANES_OF_RUN;

    int number, position;   // of the element
    bool exists, in_piece;  // of 16 bytes that are all the part's

    __device__ RunEnd(const RunPart& part, bool there) {
        const int i = lane_index() % LANES_OF_RUN;
        const bool leads = i < CHUNK;
        number = leads ? part.begin + i : part.end - LANES_OF_RUN + i;
        exists = there && (leads ? number < part.end : number >= part.begin + CHUNK);
        position = part.position + (number - part.begin) * SIZE;
        const int piece = position / 16 * 16;
        in_piece = piece >= part.position && piece + 16 <= part.behind;
    }
};

// The chunk that begins with element `number` of the unit. There is room in a stage for all that is read: whatever lies
// behind the unit is neither added up nor stored. What is not dense begins anywhere, and is taken from the two pieces
// of 16 bytes that it lies in, or IN_ELEMENTS, for which four lanes meet in each bank, but which takes fewer registers.
template <bool IN_ELEMENTS> __device__ Held<Chunk> load_staged(const ChunkPlaces& places, int number) {
    const char* from = places.unit.data + places.position(number);
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
