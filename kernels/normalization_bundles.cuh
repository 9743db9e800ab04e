// Bundles: neighbouring groups whose runs follow each other in memory, channels of small images, or columns.
//
// A bundle has BUNDLE such groups. A piece of it, a run of each group, is moved by whole vectors of 16 bytes, wherever
// in it runs begin; chunks are put together from shared memory. So elements take no registers while they are loaded,
// and no address of their own, which is what costs most where runs have 49 floats.
//
// Constants that the plan sets, beside those of normalization.cuh:
//     BUNDLE          groups, a power of two
//     RUN             elements of a run
//     WHOLE           groups consist of whole chunks
//     BLOCK_UNITS     units of a group for whose sums a block has room; as many as a tile has, where there are several
//     UNITS           a power of two, from which on there are no units whose sums are added up together
//     CLUSTER         blocks that share them
//     BLOCK           threads of a block
//     RESIDENT        blocks of a multiprocessor for which there have to be registers, at least
// Dynamic shared memory: the pieces of a block.
#pragma once

#include "normalization_affine.cuh"

constexpr int PIECE = BUNDLE * RUN, WARPS = BLOCK / LANES;
constexpr bool COLUMNS = RUN == 1;

// Parts of a bundle, which are added up while others are loaded. (256, 1024, 14, 14) float16s over 0, 2, 3 took an H100
// 93 us with 2 of them, 90 with 3 and 89 with 4, (1024, 2048, 7, 7) 203, 203 and 206.
constexpr int STAGES = COLUMNS ? 4 : 3;
constexpr int ROWS = 4, CHUNKS_OF_LANE = 2;
constexpr int ACROSS = COLUMNS ? BUNDLE / CHUNK : 1, SHARING = LANES / ACROSS;  // lanes beside each other, and below

// Chunks of a group that a warp adds up at a time.
constexpr int UNIT = COLUMNS ? SHARING * CHUNKS_OF_LANE : ROWS * LANES;

static_assert(CLUSTER == 1 || !COLUMNS, "clusters share runs");

using Chunk = Pack<Input, CHUNK>;
using Result = Pack<Output, CHUNK>;

// ---------------------------------------------------------------------------------------------------------------------
// A block's share of a bundle: some units, and the pieces that have their elements. A piece in which a unit ends may be
// in two blocks, of which the first one stores it. Elements and pieces are counted from the first piece on.

__device__ int units_of(int elements) { return (elements + UNIT * CHUNK - 1) / (UNIT * CHUNK); }

struct Share {
    Index piece;        // the first one, in the bundle
    int begin, length;  // of each group: elements that are another block's, elements with those
    int units, pieces;

    // That of block `number`, of groups of so many elements, of which each block has so many units at the most.
    __device__ Share(Index elements, Index number, int of_block) {
        const int most = of_block * UNIT * CHUNK;
        const Index first = number * most;
        const int count = up_to(elements - first, most);
        piece = first / RUN, begin = static_cast<int>(first - piece * RUN), length = count > 0 ? begin + count : 0;
        units = units_of(count), pieces = (length + RUN - 1) / RUN;
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Pieces. A thread moves one vector of every AT_ONCE-th.

constexpr int VECTORS = PIECE / CHUNK, AT_ONCE = BLOCK / VECTORS;

static_assert(PIECE % CHUNK == 0 && AT_ONCE > 0, "pieces of whole vectors, and a thread for each");

struct Mover {
    Input* data;
    const Geometry& g;
    const Share& share;
    int first, vector;

    __device__ Mover(Input* data, const Geometry& g, const Share& share) : data(data), g(g), share(share) {
        const int thread = static_cast<int>(threadIdx.x);
        first = thread < AT_ONCE * VECTORS ? thread / VECTORS : share.pieces;  // the others move nothing
        vector = thread % VECTORS;
    }

    __device__ Chunk* in_bundle(int piece) const {
        return reinterpret_cast<Chunk*>(data + piece * PIECE + vector * CHUNK);
    }
    template <int ARRAY> __device__ Index offset(int piece) const {
        return g.reduced.offsets((share.piece + piece) * RUN).of[ARRAY];
    }

    // From `piece` on those before `end`; returns the thread's next one.
    __device__ int load(const char* input, int piece, int end) const {
#pragma unroll 4
        for (; piece < end; piece += AT_ONCE) {
            copy_async_beside(in_bundle(piece), input + offset<OF_INPUT>(piece) + vector * 16);
        }
        return piece;
    }

    __device__ int first_stored() const { return first == 0 && share.begin > 0 ? AT_ONCE : first; }
};

// ---------------------------------------------------------------------------------------------------------------------
// Sums. A warp adds up a unit at a time: of a group ROWS chunks for each lane, or of all groups CHUNKS_OF_LANE chunks
// for each lane, where these are columns.

constexpr int SETS = COLUMNS ? 1 : BUNDLE;

// Where a run has ROWS chunks, a lane has neighbouring ones, most of which it adds up by itself: (512, 2048, 7, 7)
// float16s over 0, 2, 3 took an H100 100 us so and 103 with one of each row, (8000, 512, 3, 3) 114 and 106.
constexpr bool NEIGHBOURS = RUN >= ROWS * CHUNK;

// Of a unit, the one that a lane takes in that round.
__device__ int number_of_chunk(int round) {
    const int lane = lane_index();
    return NEIGHBOURS ? lane * ROWS + chunk_in_round<ROWS>(round) : round * LANES + lane;
}

// Elements that lie side by side from every multiple of their number on.
constexpr int GRAIN = RUN % CHUNK == 0 ? CHUNK : RUN % 4 == 0 && CHUNK > 4 ? 4 : RUN % 2 == 0 && CHUNK > 2 ? 2 : 1;

// The chunk of a group that begins with element `number`; behind the end it is the shift.
__device__ Chunk chunk_of(const Input* group, int number, int length, const Shift& shift) {
    using Grain = Pack<Input, GRAIN>;
    const int run = number / RUN, left = RUN - (number - run * RUN), place = number + run * (PIECE - RUN);
    const Input *here = group + place, *there = here + (PIECE - RUN);
    Chunk chunk;
#pragma unroll
    for (int j = 0; j < CHUNK; j += GRAIN) {
        const Input* at = here;
        if constexpr (RUN >= CHUNK) at = j < left ? here : there;
        else at += ((number + j) / RUN - run) * (PIECE - RUN);
        const bool exists = WHOLE || number + j < length;
        const Grain grain = *reinterpret_cast<const Grain*>(exists ? at + j : group);
#pragma unroll
        for (int k = 0; k < GRAIN; k++) chunk.element[j + k] = exists ? grain.element[k] : shift.element;
    }
    return chunk;
}

struct UnitSums {
    Input first_of[BUNDLE];  // element of each group
    Sums of[BLOCK_UNITS][BUNDLE];

    // By a warp: `number` counts units, group by group.
    __device__ void add(const Input* data, const Share& share, int number) {
        if constexpr (COLUMNS) add_columns(data, share.length, number);
        else add_group(data, share, number / SETS, number % SETS);
    }

    __device__ void add_group(const Input* data, const Share& share, int unit, int group) {
        const Shift shift(first_of[group]);
        const int first = share.begin + unit * UNIT * CHUNK, length = share.length;
        Chunk chunk[ROWS];
        Sums sums[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {  // without branches, so that all wait for shared memory together
            const int number = first + number_of_chunk(r) * CHUNK;
            chunk[r] = chunk_of(data + group * RUN, number < length ? number : 0, length, shift);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const Sums of_chunk = sum_of(chunk[r], shift.value);
            sums[r] = first + number_of_chunk(r) * CHUNK < length ? of_chunk : Sums{};
        }
        const Half half = half_of_unit(sums);
        if (lane_index() < 2) reinterpret_cast<Half*>(&of[unit][group])[lane_index()] = half;
    }

    __device__ static Half half_of_unit(Sums (&sums)[ROWS]) {
        if constexpr (!NEIGHBOURS) return half_of_rows(sums);
        const Sums of_lane[] = {pairwise_sum(sums)};
        return half_of_rows(of_lane);
    }

    // A lane has vectors of CHUNK columns. Of the lanes below each other every second one takes its steps in pairs the
    // other way round: so neighbours load from different banks. A step that does not exist is the first one, which adds
    // nothing, unless it is not finite, and then the sums are not either.
    __device__ void add_columns(const Input* data, int length, int unit) {
        constexpr int STEPS = CHUNKS_OF_LANE * CHUNK;
        const int across = lane_index() % ACROSS, share = lane_index() / ACROSS;
        const int first = (unit * SHARING + share) * STEPS, odd = share % 2;
        const Chunk* columns = reinterpret_cast<const Chunk*>(data) + across;
        const Chunk first_of = columns[0];
        Chunk step[STEPS];
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            const int number = first + (k ^ odd);
            step[k] = columns[(number < length ? number : 0) * ACROSS];
        }
        Sums sums[CHUNK];
#pragma unroll
        for (int v = 0; v < CHUNK; v++) {
            const Shift shift(first_of.element[v]);
            Sums of_chunk[CHUNKS_OF_LANE];
#pragma unroll
            for (int c = 0; c < CHUNKS_OF_LANE; c++) {
                Chunk chunk;
#pragma unroll
                for (int j = 0; j < CHUNK; j++) {
                    const int k = c * CHUNK + j;
                    chunk.element[j] = odd ? step[k ^ 1].element[v] : step[k].element[v];
                }
                of_chunk[c] = sum_of(chunk, shift.value);
            }
            sums[v] = pairwise_sum(of_chunk);
        }
        const Sums total = row_aggregates<CHUNK, SHARING, ACROSS>(sums);
        if (share < CHUNK) of[unit][across * CHUNK + share] = total;
    }

    // Of all units of a group, of which each block has so many, in all lanes of a warp.
    __device__ Sums total(int group, int units, int of_block) const {
        constexpr int OF_LANE = UNITS > LANES ? UNITS / LANES : 1;
        Sums sums[OF_LANE];
#pragma unroll
        for (int k = 0; k < OF_LANE; k++) {
            const int unit = lane_index() * OF_LANE + k;
            sums[k] = unit < units ? unit_of(unit, group, of_block) : Sums{};
        }
        return lane_sum<(UNITS < LANES ? UNITS : LANES)>(pairwise_sum(sums));
    }

    // Some block's.
    __device__ Sums unit_of(int unit, int group, int of_block) const {
        if constexpr (CLUSTER == 1) return of[unit][group];
        else return *map_shared(&of[unit % of_block][group], unit / of_block);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Loads and sums in stages: a stage has the pieces that its units need.

struct Stages {
    const Share& share;

    __device__ int end_of_units(int stage) const { return share.units * (stage + 1) / STAGES; }
    __device__ int end_of_pieces(int stage) const {
        return up_to((share.begin + end_of_units(stage) * UNIT * CHUNK + RUN - 1) / RUN, share.pieces);
    }

    __device__ void load(const Mover& mover, const char* input) const {
        int piece = mover.first;
#pragma unroll
        for (int stage = 0; stage < STAGES; stage++) {
            piece = mover.load(input, piece, end_of_pieces(stage));
            copy_async_commit();
        }
    }

    template <int STAGE = 0> __device__ void add(UnitSums& sums, const Input* data) const {
        copy_async_wait<STAGES - 1 - STAGE>();
        __syncthreads();
        const int begin = STAGE > 0 ? end_of_units(STAGE - 1) : 0, warp = warp_index();
#pragma unroll 1
        for (int n = begin * SETS + warp; n < end_of_units(STAGE) * SETS; n += WARPS) sums.add(data, share, n);
        if constexpr (STAGE + 1 < STAGES) add<STAGE + 1>(sums, data);
    }
};

// The sums of all units of a share, by all threads of a block, whose groups begin with number `first`.
__device__ void add_up_share(UnitSums& unit_sums, Input* data, const Arrays& arrays, const Geometry& g, Index first,
                             const Share& share) {
    const int thread = static_cast<int>(threadIdx.x);
    const Mover mover(data, g, share);
    const Stages stages = {share};
    const Input element = load_input(arrays.at(g.kept.offsets(first + (thread < BUNDLE ? thread : 0))), g, 0);
    stages.load(mover, arrays.at(g.kept.offsets(first)).input);
    if (thread < BUNDLE) unit_sums.first_of[thread] = element;
    stages.add(unit_sums, data);
}

// ---------------------------------------------------------------------------------------------------------------------

// Of element j of a piece's vector.
__device__ PlaceInGroup place_in_group(int vector, int j) {
    const int place = vector * CHUNK + j, group = place / RUN;
    return {group, place - group * RUN};
}

// For the vectors of that number in all pieces.
__device__ Affine affine_of(const Normalizer<Compute>* normalizers, const Arrays& arrays, const Geometry& g,
                            Index first, int vector) {
    return {normalizers, arrays, g, first, [=](int j) { return place_in_group(vector, j); }};
}
