// Normalization of neighbouring groups whose runs follow each other in memory: channels of small images, or columns.
//
// A block has a bundle of BUNDLE such groups whole in shared memory. A piece of it, a run of each group, is moved by
// whole vectors of 16 bytes, wherever in it runs begin; chunks are put together from shared memory. So elements take no
// registers while they are loaded, and no address of their own, which is what costs most where runs have 49 floats.
//
// Constants that the plan sets, beside those of normalization.cuh:
//     BUNDLE          groups of a block, a power of two
//     RUN             elements of a run
//     WHOLE           groups consist of whole chunks
//     UNITS           a power of two, from which on there are no units of a group
//     THREADS         of a block
//     RESIDENT        blocks that shall fit a multiprocessor at a time, at least
#include "normalization.cuh"

constexpr int PIECE = BUNDLE * RUN, WARPS = THREADS / LANES;
constexpr bool COLUMNS = RUN == 1;
constexpr int STAGES = COLUMNS ? 4 : 2;  // parts of a bundle, which are added up while others are loaded

using Chunk = Pack<Input, CHUNK>;
using Result = Pack<Output, CHUNK>;

// ---------------------------------------------------------------------------------------------------------------------
// Pieces. A thread moves one vector of every AT_ONCE-th.

constexpr int VECTORS = PIECE / CHUNK, AT_ONCE = THREADS / VECTORS;

static_assert(PIECE % CHUNK == 0 && AT_ONCE > 0, "pieces of whole vectors, and a thread for each");

struct Mover {
    Input* data;
    const Geometry& g;
    int first, runs, vector;

    __device__ Mover(Input* data, const Geometry& g) : data(data), g(g) {
        const int thread = static_cast<int>(threadIdx.x);
        runs = static_cast<int>(g.length) / RUN;
        first = thread < AT_ONCE * VECTORS ? thread / VECTORS : runs;  // the others move nothing
        vector = thread % VECTORS;
    }

    __device__ Chunk* in_bundle(int piece) const {
        return reinterpret_cast<Chunk*>(data + piece * PIECE + vector * CHUNK);
    }
    template <int ARRAY> __device__ Index offset(int piece) const { return g.reduced.offsets(piece * RUN).of[ARRAY]; }

    // From `piece` on those before `end`; returns the thread's next one.
    __device__ int load(const char* input, int piece, int end) const {
#pragma unroll 4
        for (; piece < end; piece += AT_ONCE) {
            copy_async_beside(in_bundle(piece), input + offset<OF_INPUT>(piece) + vector * 16);
        }
        return piece;
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Sums. A warp adds up a unit at a time: ROWS rows of a group, in which each lane has a chunk, or CHUNKS_OF_LANE chunks
// for each lane of all groups, where these are columns.

constexpr int ROWS = 4, CHUNKS_OF_LANE = 2;
constexpr int ACROSS = COLUMNS ? BUNDLE / CHUNK : 1, SHARING = LANES / ACROSS;  // lanes beside each other, and below
constexpr int UNIT = COLUMNS ? SHARING * CHUNKS_OF_LANE : ROWS * LANES, SETS = COLUMNS ? 1 : BUNDLE;

// Elements that lie side by side from every multiple of their number on.
constexpr int GRAIN = RUN % CHUNK == 0 ? CHUNK : RUN % 4 == 0 && CHUNK > 4 ? 4 : RUN % 2 == 0 && CHUNK > 2 ? 2 : 1;

// The chunk of a group that begins with element `number`; behind the end it is the shift.
__device__ Chunk chunk_of(const Input* group, int number, int length, const Shift& shift) {
    using Grain = Pack<Input, GRAIN>;
    const int run = number / RUN, left = RUN - (number - run * RUN), place = number + run * (PIECE - RUN);
    Chunk chunk;
#pragma unroll
    for (int j = 0; j < CHUNK; j += GRAIN) {
        int at = place + j;
        if constexpr (RUN >= CHUNK) at += j < left ? 0 : PIECE - RUN;
        else at += ((number + j) / RUN - run) * (PIECE - RUN);
        const bool exists = WHOLE || number + j < length;
        const Grain grain = *reinterpret_cast<const Grain*>(group + (exists ? at : 0));
#pragma unroll
        for (int k = 0; k < GRAIN; k++) chunk.element[j + k] = exists ? grain.element[k] : shift.element;
    }
    return chunk;
}

struct UnitSums {
    Sums of[UNITS][BUNDLE];

    __device__ static int units(int length) { return (length + UNIT * CHUNK - 1) / (UNIT * CHUNK); }

    // By a warp: `number` counts units, group by group.
    __device__ void add(const Input* data, int length, int number) {
        if constexpr (COLUMNS) add_columns(data, length, number);
        else add_group(data, length, number / SETS, number % SETS);
    }

    __device__ void add_group(const Input* data, int length, int unit, int group) {
        const Shift shift(data[group * RUN]);
        const int first = (unit * UNIT + lane_index()) * CHUNK;
        Chunk chunk[ROWS];
        Sums sums[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {  // without branches, so that rows wait for shared memory together
            const int number = first + r * LANES * CHUNK;
            chunk[r] = chunk_of(data + group * RUN, number < length ? number : 0, length, shift);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const Sums of_chunk = sum_of(chunk[r], shift.value);
            sums[r] = first + r * LANES * CHUNK < length ? of_chunk : Sums{};
        }
        const Sums total = lane_sum<ROWS>(row_aggregates(sums));
        if (lane_index() == 0) of[unit][group] = total;
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

    // Of a group, in all lanes of a warp.
    __device__ Sums total(int group, int length) const {
        constexpr int OF_LANE = UNITS > LANES ? UNITS / LANES : 1;
        Sums sums[OF_LANE];
#pragma unroll
        for (int k = 0; k < OF_LANE; k++) {
            const int unit = lane_index() * OF_LANE + k;
            sums[k] = unit < units(length) ? of[unit][group] : Sums{};
        }
        return lane_sum<(UNITS < LANES ? UNITS : LANES)>(pairwise_sum(sums));
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Loads and sums in stages: a stage has the pieces that its units need.

struct Stages {
    int units, length, runs;

    __device__ explicit Stages(const Mover& mover)
        : units(UnitSums::units(static_cast<int>(mover.g.length))), length(static_cast<int>(mover.g.length)),
          runs(mover.runs) {}

    __device__ int end_of_units(int stage) const { return units * (stage + 1) / STAGES; }
    __device__ int end_of_pieces(int stage) const {
        return up_to((end_of_units(stage) * UNIT * CHUNK + RUN - 1) / RUN, runs);
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
        for (int n = begin * SETS + warp; n < end_of_units(STAGE) * SETS; n += WARPS) sums.add(data, length, n);
        if constexpr (STAGE + 1 < STAGES) add<STAGE + 1>(sums, data);
    }
};

// ---------------------------------------------------------------------------------------------------------------------

// What a thread normalizes its vectors by, which all have elements of the same groups.
struct Affine {
    Normalizer<Compute> normalizer[CHUNK];
    Operands<1> operands[CHUNK];

    __device__ Affine(const Normalizer<Compute>* normalizers, const Arrays& arrays, const Geometry& g, Index first,
                      int vector) {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const int group = (vector * CHUNK + j) / RUN;
            normalizer[j] = normalizers[group];
            operands[j].load_once(arrays.at(g.kept.offsets(first + group)));
        }
    }

    __device__ Result of(const Chunk& x, const Parameters& p) const {
        Compute y[CHUNK];
        unpack(x, y);
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            y[j] = activated(normalizer[j].apply(y[j]), operands[j].scale.at(0), operands[j].bias.at(0), p);
        }
        return pack_of<Output>(y);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
normalize_bundles(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                  double bias_number, char* mean, char* variance, Geometry g, Parameters p) {
    await_launch_ahead_alone();
    // Of columns a block takes most of the shared memory. If the next launch is let in early, (64, 7, 7, 2048) floats
    // take an H200 18.1 us in place of 17.3; (64, 2048, 7, 7) take 17.2 in place of 17.6.
    if (!COLUMNS) let_next_launch_begin();
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ UnitSums unit_sums;
    __shared__ Normalizer<Compute> normalizers[BUNDLE];
    Input* data = reinterpret_cast<Input*>(dynamic_shared);
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Index first = static_cast<Index>(blockIdx.x) * BUNDLE;
    const Arrays bundle = arrays.at(g.kept.offsets(first));
    const Mover mover(data, g);
    const Stages stages(mover);
    stages.load(mover, bundle.input);
    stages.add(unit_sums, data);
    __syncthreads();  // by now all was read, so the output may be the input

#pragma unroll 1
    for (int group = warp_index(); group < BUNDLE; group += WARPS) {
        const Sums sums = unit_sums.total(group, stages.length);
        if (lane_index() > 0) continue;
        const Moments moments = moments_of(sums, Shift(data[group * RUN]).value, p);
        normalizers[group] = Normalizer<Compute>::of(moments, p);
        if (mean) store_moments(arrays.at(g.kept.offsets(first + group)), moments, p);
    }
    __syncthreads();
    const Affine affine(normalizers, arrays, g, first, mover.vector);
#pragma unroll 4
    for (int piece = mover.first; piece < mover.runs; piece += AT_ONCE) {
        char* to = bundle.output + mover.offset<OF_OUTPUT>(piece) + mover.vector * sizeof(Result);
        store_streaming(reinterpret_cast<Result*>(to), affine.of(*mover.in_bundle(piece), p));
    }
}
