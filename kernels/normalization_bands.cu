// Moments and normalization of columns in narrow panels, channels of sequences or of images that come last. They are
// read once: a block has some panels in shared memory, or a cluster of blocks has one.
//
// A panel is one run of memory, and a band of it a chunk of each column: as many pieces of 16 bytes as there are
// columns, whose elements lie at places that the compiler knows. A thread adds up some bands that follow each other,
// all columns side by side; it normalizes pieces that begin at the same column, in the order of memory.
//
// Constants that the plan sets, beside those of normalization_span_sums.cuh and staged_runs.cuh:
//     INNER       columns of a panel
//     PANELS      of a block, at the most, a power of two; 1 for a cluster
//     CLUSTER     blocks that share a panel
//     PANELS_ALIGNED     1: every panel begins with a piece
//     WHOLE_CHUNKS       1: columns have whole chunks
//     ADDERS      threads that have a unit of a panel together, a span of each column each; a power of two
//     UNITS       of a panel in a block, at the most, and ALL_UNITS of a panel; powers of two
//     AT_FIRST    clusters that the GPU holds at a time; 0 for blocks by themselves
// Dynamic shared memory: the panels of a block.
#include "ahead.cuh"
#include "normalization_affine.cuh"
#include "normalization_span_sums.cuh"
#include "normalization_turns.cuh"
#include "staged_runs.cuh"

using Run = StagedRun<Input>;
using Piece = PieceOf<16>;
using Chunk = Pack<Input, CHUNK>;
using Result = Pack<Output, CHUNK>;

constexpr int WARPS = THREADS / LANES, GROUPS = PANELS * INNER, SIZE = static_cast<int>(sizeof(Input));
constexpr int UNIT = ADDERS * OF_SPAN;  // steps

static_assert(!HAS_OUTPUT || sizeof(Output) == sizeof(Input), "outputs lie as inputs do");
static_assert(CLUSTER == 1 || PANELS == 1, "a cluster has one panel");

// ---------------------------------------------------------------------------------------------------------------------
// What a block has: some panels, or the steps of one from `begin` on.

struct Share {
    Index panel;
    int panels, begin, length, units;  // steps and units of each panel

    __device__ explicit Share(const Geometry& g) {
        const Index number = static_cast<Index>(blockIdx.x) / CLUSTER;
        panel = number * PANELS;
        panels = up_to(g.groups / INNER - panel, PANELS);
        const int of_block = units_of_block(g);
        begin = rank() * of_block * UNIT;
        length = up_to(g.length - begin, of_block * UNIT);
        units = (length + UNIT - 1) / UNIT;
    }

    __device__ static int rank() { return CLUSTER > 1 ? static_cast<int>(cluster_rank()) : 0; }
    __device__ static int units_of_panel(const Geometry& g) { return (static_cast<int>(g.length) + UNIT - 1) / UNIT; }
    __device__ static int units_of_block(const Geometry& g) { return (units_of_panel(g) + CLUSTER - 1) / CLUSTER; }

    __device__ int elements() const { return panels * length * INNER; }
    __device__ Index offset(const Geometry& g) const { return (panel * g.length + begin) * (INNER * SIZE); }
};

// ---------------------------------------------------------------------------------------------------------------------
// Sums

struct Shifts {
    double of[INNER];

    __device__ explicit Shifts(const Input (&first)[INNER]) {
#pragma unroll
        for (int c = 0; c < INNER; c++) of[c] = Shift(first[c]).value;
    }
};

// The pieces of the band that begins with element `first`.
struct Band {
    Chunk piece[INNER];

    __device__ Band(const Run& run, int first) {
        const int byte = (run.before + first) * SIZE, within = PANELS_ALIGNED ? 0 : byte % 16;
        Piece at[INNER + 1];
#pragma unroll
        for (int k = 0; k < INNER + !PANELS_ALIGNED; k++) {
            at[k] = load_loosely<Piece>(run.staged + Run::place(byte - within + k * 16));
        }
#pragma unroll
        for (int k = 0; k < INNER; k++) {
            InWords<Chunk, Piece> taken;
            taken.words = PANELS_ALIGNED ? at[k] : bytes_across<SIZE>(at[k], at[k + 1], static_cast<unsigned>(within));
            piece[k] = taken.items;
        }
    }

    // Of each column, of which so many steps exist.
    __device__ void sum(const Shifts& shifts, int exist, Sums (&sums)[INNER]) const {
#pragma unroll
        for (int k = 0; k < INNER; k++) {
            double x[CHUNK];
            unpack(piece[k], x);
#pragma unroll
            for (int i = 0; i < CHUNK; i++) {
                const int place = k * CHUNK + i, step = place / INNER, c = place % INNER;
                const double difference = WHOLE_CHUNKS || step < exist ? x[i] - shifts.of[c] : 0.0;
                if (step == 0) sums[c] = {difference, difference * difference};
                else sums[c].add(difference);
            }
        }
    }
};

// Which of its bands a thread adds up in that round: in such an order, and with the bytes that stay free, neighbours
// load from different banks.
__device__ int band_in_round(int round) {
    return INNER % 2 == 1 || INNER % 8 == 0 ? chunk_in_round<SPAN>(round) : round;
}

struct UnitSums {
    SpanSums<UNITS, GROUPS> units;

    // By all threads of the block.
    __device__ void add(const Run& run, const Share& share, const Input* first_of) {
        constexpr int AT_ONCE = LANES / ADDERS;
        const int count = share.panels * share.units;
#pragma unroll 1
        for (int first = warp_index() * AT_ONCE; first < count; first += WARPS * AT_ONCE) {
            const int number = first + lane_index() / ADDERS, panel = number / share.units;
            add_unit(run, share, first_of, panel, number - panel * share.units, number < count);
        }
    }

    __device__ void add_unit(const Run& run, const Share& share, const Input* first_of, int panel, int unit,
                             bool exists) {
        const int adder = lane_index() % ADDERS, of_panel = panel * share.length * INNER;
        Input first[INNER];
#pragma unroll
        for (int c = 0; c < INNER; c++) {
            if constexpr (CLUSTER > 1) first[c] = first_of[c];
            else first[c] = run.element(exists ? of_panel + c : 0);
        }
        const Shifts shifts(first);
        SerialPrefix<Sums, levels_of(SPAN)> over_bands[INNER];
        Sums total[INNER];
#pragma unroll
        for (int round = 0; round < SPAN; round++) {
            const int step = unit * UNIT + (adder * SPAN + band_in_round(round)) * CHUNK;
            Sums sums[INNER] = {};
            if (exists && step < share.length) {
                Band(run, of_panel + step * INNER).sum(shifts, share.length - step, sums);
            }
#pragma unroll
            for (int c = 0; c < INNER; c++) total[c] = over_bands[c].next(round, sums[c]);
        }
        keep(total, panel, unit, exists);
    }

    // Adders exchange halves of what they have, the first and the second sum of each column.
    __device__ void keep(const Sums (&total)[INNER], int panel, int unit, bool exists) {
        constexpr int COUNT = power_of_two_from(2 * INNER), LEFT = COUNT > ADDERS ? COUNT / ADDERS : 1;
        Half half[COUNT] = {};
#pragma unroll
        for (int c = 0; c < INNER; c++) {
            half[2 * c] = {total[c].first};
            half[2 * c + 1] = {total[c].second};
        }
        row_aggregates<COUNT, ADDERS>(half);
        if (!exists) return;
        Half* const to = reinterpret_cast<Half*>(&units.of[unit][panel * INNER]);
#pragma unroll
        for (int k = 0; k < LEFT; k++) {
            const int row = k * ADDERS + lane_index() % ADDERS;
            if (row < 2 * INNER) to[row] = half[k];
        }
    }

    // Of all units of a column, of which each block of a cluster has so many, in all lanes of a warp.
    __device__ Sums of_cluster(int column, int count, int of_block) {
        constexpr int OF_LANE = ALL_UNITS > LANES ? ALL_UNITS / LANES : 1;
        Sums sums[OF_LANE];
#pragma unroll
        for (int k = 0; k < OF_LANE; k++) {
            const int unit = lane_index() * OF_LANE + k;
            sums[k] = unit < count ? *map_shared(&units.of[unit % of_block][column], unit / of_block) : Sums{};
        }
        return lane_sum(pairwise_sum(sums));
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Normalization: a team of threads has a panel at a time.

constexpr int TEAMS = PANELS < WARPS ? PANELS : WARPS, TEAM = THREADS / TEAMS;
constexpr int VECTORS = vectors_of(INNER), AT_ONCE = TEAM / VECTORS * VECTORS;

__device__ void normalize_panel(const Run& run, const Normalizer<Compute>* normalizers, const Arrays& arrays,
                                const Geometry& g, const Parameters& p, const Share& share, int panel, char* output) {
    const int thread = static_cast<int>(threadIdx.x) % TEAM;
    const int begin = run.before + panel * share.length * INNER, end = begin + share.length * INNER;
    const int lead = PANELS_ALIGNED ? 0 : begin % CHUNK, first = begin / CHUNK;
    if (thread >= AT_ONCE) return;
    const Affine affine(normalizers + panel * INNER, arrays, g, (share.panel + panel) * INNER, [=](int j) {
        return PlaceInGroup{(thread * CHUNK + j - lead + CHUNK * INNER) % INNER, 0};
    });
#pragma unroll 2
    for (int vector = first + thread; vector * CHUNK < end; vector += AT_ONCE) {
        const Result y = affine.of(load_loosely<Chunk>(run.staged + Run::place(vector * 16)), p);
        char* const to = output - run.before * SIZE + vector * 16;
        if (PANELS_ALIGNED || (vector * CHUNK >= begin && (vector + 1) * CHUNK <= end)) {
            store_streaming(reinterpret_cast<Result*>(to), y);
        } else {
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                const int place = vector * CHUNK + j;
                if (begin <= place && place < end) reinterpret_cast<Output*>(to)[j] = y.element[j];
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------

struct Shared {
    UnitSums sums;
    Normalizer<Compute> normalizers[GROUPS];
    Input first_of[INNER];  // element of each column, for clusters
};

// How column i of the share is normalized.
__device__ void find_normalizer(Shared& shared, int i, Sums total, Input first, const Arrays& arrays, const Geometry& g,
                                const Parameters& p, const Share& share) {
    const Moments moments = moments_of(total, Shift(first).value, p);
    shared.normalizers[i] = Normalizer<Compute>::of(moments, p);
    if (!arrays.mean || Share::rank() > 0) return;
    store_moments(arrays.at(g.kept.offsets(share.panel * INNER + i)), moments, p);
}

// By all threads of a block, or of all blocks of a cluster.
__device__ void find_normalizers(Shared& shared, const Run& run, const Arrays& arrays, const Geometry& g,
                                 const Parameters& p, const Share& share) {
    if constexpr (CLUSTER > 1) {
        cluster_sync();
#pragma unroll 1
        for (int c = warp_index(); c < INNER; c += WARPS) {
            const Sums total = shared.sums.of_cluster(c, Share::units_of_panel(g), Share::units_of_block(g));
            if (lane_index() == 0) find_normalizer(shared, c, total, shared.first_of[c], arrays, g, p, share);
        }
        cluster_arrive();
    } else {
        shared.sums.units.add_up<WARPS>(share.units, share.panels * INNER);
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x); i < share.panels * INNER; i += THREADS) {
            const int panel = i / INNER, first = panel * share.length * INNER + i - panel * INNER;
            find_normalizer(shared, i, shared.sums.units.of[0][i], run.element(first), arrays, g, p, share);
        }
    }
}

__device__ void normalize_share(const Arrays& arrays, const Geometry& g, const Parameters& p) {
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    __shared__ Shared shared;
    const int thread = static_cast<int>(threadIdx.x);
    const Share share(g);
    const char* const from = arrays.input + share.offset(g);
    const Run run(reinterpret_cast<char*>(dynamic_shared), from, share.elements());
    if (CLUSTER > 1 && thread < INNER) {
        shared.first_of[thread] = load_input(arrays.at(g.kept.offsets(share.panel * INNER + thread)), g, 0);
    }
    run.copy<EVICTION>(from);
    copy_async_wait_all();
    __syncthreads();
    shared.sums.add(run, share, shared.first_of);
    find_normalizers(shared, run, arrays, g, p, share);
    if constexpr (HAS_OUTPUT) {
        __syncthreads();
#pragma unroll 1
        for (int panel = thread / TEAM; panel < share.panels; panel += TEAMS) {
            normalize_panel(run, shared.normalizers, arrays, g, p, share, panel, arrays.output + share.offset(g));
        }
    }
    if (CLUSTER > 1) cluster_wait();  // until then others may read this block's sums
}

// Cycles. (891, 50176, 3) float16s took an H200 160 us when clusters did not begin in turn, 160 within 10000 cycles and
// 156 within 25000, (838, 20000, 8) 215, 206 and 199.
constexpr int BEGIN_WITHIN = 25000;

extern "C" __global__ void __launch_bounds__(THREADS)
normalize_bands(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                double bias_number, char* mean, char* variance, Geometry g, Parameters p, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    normalize_share({input, output, scale, bias, scale_number, bias_number, mean, variance}, g, p);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
normalize_shared_bands(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                       double bias_number, char* mean, char* variance, Geometry g, Parameters p, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    begin_in_turn<AT_FIRST, BEGIN_WITHIN>(static_cast<int>(blockIdx.x) / CLUSTER);
    normalize_share({input, output, scale, bias, scale_number, bias_number, mean, variance}, g, p);
}
