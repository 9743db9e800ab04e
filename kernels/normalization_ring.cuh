// What the kernels for large groups share, which read their input once: an assembly line in every block, and a group
// that stays in the shared memory of all blocks together until its statistics are known.
//
// Groups are bundled: a bundle is one group, or a strip of COLUMNS neighbours. A bundle is cut into units, and unit n
// of the launch is visit n / blocks of block n % blocks. Each block has a ring of stages, through which its warps pass
// units from hand to hand:
//
//     loaders       copy the unit into a stage                                                      full
//     adders        add up parts of it                                                              summed
//     publisher     adds up the parts, and publishes the unit's sums                                published
//     folders       of a bundle's columns its units have some each: await the sums of all units,
//                   add them up, and publish how the column is normalized
//     awaiters      await that for all columns                                                      ready
//     normalizers   normalize and store; the stage is free                                          emptied
//
// Progress. A block waits for units of other blocks, so all blocks have to run at the same time: the launch is
// cooperative, which the driver starts when there is room for all blocks and not before, whatever else runs, and in
// graphs too. Of the first bundle that is not finished a block has at most the units that fit its ring, as units go
// round the blocks and the plan takes no bundle of more units than there are stages; so it loads them all, whoever
// waits for what. A folder or awaiter waits for nothing but bundles that are finished before its own.
//
// What is published is an epoch and 32 bits in each word, as in tickets.cuh. Bundles take turns with a few slots, which
// then stay in the cache; the epoch tells their turns apart. A block has at most two rings of units that another still
// needs or has already: so a slot comes round when nobody waits for what it had.
//
// Constants that the plan sets, beside those of normalization.cuh:
//     COLUMNS                                                      groups of a bundle
//     STAGES, LOADERS, ADDERS, FOLDERS, AWAITERS, NORMALIZERS      all but the first in warps
// Dynamic shared memory: STAGES * STAGE_BYTES.
#pragma once

#include "gate.cuh"
#include "normalization.cuh"
#include "tickets.cuh"

using Gate = HardwareGate;
using Normal = Normalizer<Compute>;

constexpr int FIRST_ADDER = LOADERS, PUBLISHER = FIRST_ADDER + ADDERS, FIRST_FOLDER = PUBLISHER + 1,
              FIRST_AWAITER = FIRST_FOLDER + FOLDERS, FIRST_NORMALIZER = FIRST_AWAITER + AWAITERS,
              WARPS = FIRST_NORMALIZER + NORMALIZERS;

static_assert(FOLDERS <= STAGES && AWAITERS <= STAGES && STAGES >= 2, "none must be a turn behind or ahead");

struct Cut {
    Index bundles, units;  // units of a bundle
    Index slots;           // bundles whose sums have room
    Index inner, across;   // groups that are neighbours in memory, bundles of them
};

struct Unit {
    Index bundle, number;
    int count;  // elements along the group
};

struct Stage {
    Gate full, summed, published, ready, emptied;
    Normal normal[COLUMNS];
};

constexpr int PARTS_KEPT = 2;  // units whose parts have room at a time

using Parts = Sums[PARTS_KEPT][ADDERS][COLUMNS];

struct Work {
    Arrays arrays;
    const Geometry& g;
    const Parameters& p;
    const Cut& cut;
    Stage (&stages)[STAGES];
    Parts& parts;
    char* ring;
    Word* slots;
    unsigned epoch;
    bool in_place;

    __device__ Stage& stage(int visit) const { return stages[visit % STAGES]; }
    __device__ char* data(int visit) const { return ring + visit % STAGES * STAGE_BYTES; }

    __device__ bool has(int visit) const { return number_of(visit) < cut.bundles * cut.units; }
    __device__ Index number_of(int visit) const { return static_cast<Index>(visit) * gridDim.x + blockIdx.x; }
    __device__ Unit unit(int visit) const {
        const Index bundle = number_of(visit) / cut.units, number = number_of(visit) - bundle * cut.units;
        const Index left = g.length - number * UNIT;
        return {bundle, number, left < UNIT ? static_cast<int>(left) : static_cast<int>(UNIT)};
    }

    // The first group of a bundle, and how many there are.
    __device__ Index first_group(Index bundle) const {
        if (COLUMNS == 1) return bundle;
        const Index outer = bundle / cut.across;
        return outer * cut.inner + (bundle - outer * cut.across) * COLUMNS;
    }
    __device__ int width(Index bundle) const {
        if (COLUMNS == 1) return 1;
        const Index left = cut.inner - bundle % cut.across * COLUMNS;
        return left < COLUMNS ? static_cast<int>(left) : COLUMNS;
    }
    __device__ Arrays group(Index bundle, int column = 0) const {
        return arrays.at(g.kept.offsets(first_group(bundle) + column));
    }

    // Where sums and normalizers are published: a slot has the sums of all units, column by column, then the others.
    __device__ unsigned epoch_of(Index bundle) const { return epoch + static_cast<unsigned>(bundle / cut.slots); }
    __device__ Word* slot(Index bundle) const {
        const Index words = COLUMNS * (cut.units * words_of<Sums> + words_of<Normal>);
        return slots + bundle % cut.slots * words;
    }
    __device__ Word* sums(Index bundle, int column, Index unit) const {
        return slot(bundle) + (column * cut.units + unit) * words_of<Sums>;
    }
    __device__ Word* normal(Index bundle, int column) const {
        return slot(bundle) + COLUMNS * cut.units * words_of<Sums> + column * words_of<Normal>;
    }

    // In place, the first element of a group is read by all before its block stores to it: what is published says so.
    __device__ void fence() const {
        if (in_place) __threadfence();
    }
};

// How often a stage was used before `visit`.
__device__ int turn(int visit) { return visit / STAGES; }

__device__ void await_emptied(const Work& work, int visit) {
    if (visit >= STAGES) work.stage(visit).emptied.wait(turn(visit) - 1);
}

// Where an adder leaves its part of a unit, column by column.
__device__ Sums* await_room(const Work& work, int visit, int adder) {
    const int before = visit - PARTS_KEPT;
    if (before >= 0) work.stage(before).published.wait(turn(before));
    return work.parts[visit % PARTS_KEPT][adder];
}

// By all lanes of a warp.
__device__ void arrive_by_warp(Gate& gate) {
    __syncwarp();
    if (lane_index() == 0) gate.arrive();
}

// ---------------------------------------------------------------------------------------------------------------------
// Publisher

__device__ void publish_units(const Work& work) {
    for (int visit = 0; work.has(visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = work.unit(visit);
        stage.summed.wait(turn(visit));
        work.fence();
        for (int column = lane_index(); column < work.width(unit.bundle); column += LANES) {
            SerialPrefix<Sums> over_parts;
            Sums sums = {};
#pragma unroll
            for (int i = 0; i < ADDERS; i++) sums = over_parts.next(i, work.parts[visit % PARTS_KEPT][i][column]);
            publish(work.sums(unit.bundle, column, unit.number), sums, work.epoch_of(unit.bundle));
        }
        arrive_by_warp(stage.published);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Folders

// The sums of a column, by all lanes of a warp: lane i has the units i, 32 + i, ...
__device__ Sums fold(const Work& work, Index bundle, int column) {
    constexpr int AT_ONCE = 4;
    SerialPrefix<Sums, 10> over_rounds;
    Sums total = {};
    int rounds = AT_ONCE;
    while (rounds * LANES < work.cut.units) rounds *= 2;
    for (int first = 0; first < rounds; first += AT_ONCE) {
        const Word* from[AT_ONCE];
        Sums sums[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const Index unit = (first + k) * LANES + lane_index();
            from[k] = unit < work.cut.units ? work.sums(bundle, column, unit) : nullptr;
        }
        await(from, sums, work.epoch_of(bundle), Sums{});
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) total = over_rounds.next(first + k, lane_sum(sums[k]));
    }
    return total;
}

__device__ void fold_units(const Work& work, int folder) {
    for (int visit = folder; work.has(visit); visit += FOLDERS) {
        const Unit unit = work.unit(visit);
        const Index width = work.width(unit.bundle);
        for (Index place = unit.number; place < width; place += work.cut.units) {
            const int column = static_cast<int>(place);
            const Arrays group = work.group(unit.bundle, column);
            const Shift shift(load_input(group, work.g, 0));
            const Moments moments = moments_of(fold(work, unit.bundle, column), shift.value, work.p);
            const Normal normal = Normal::of(moments, work.p);
            work.fence();  // behind what the lanes have seen
            __syncwarp();
            work.fence();  // and before what one of them publishes
            if (lane_index() == 0) publish(work.normal(unit.bundle, column), normal, work.epoch_of(unit.bundle));
            if (lane_index() == 0 && work.arrays.mean) store_moments(group, moments, work.p);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Awaiters

__device__ void await_units(const Work& work, int awaiter) {
    constexpr int OF_LANE = (COLUMNS + LANES - 1) / LANES;
    for (int visit = awaiter; work.has(visit); visit += AWAITERS) {
        Stage& stage = work.stage(visit);
        const Unit unit = work.unit(visit);
        const int width = work.width(unit.bundle);
        stage.summed.wait(turn(visit));  // so that whoever empties the stage comes after the adders
        const Word* from[OF_LANE];
        Normal normal[OF_LANE];
#pragma unroll
        for (int k = 0; k < OF_LANE; k++) {
            const int column = k * LANES + lane_index();
            from[k] = column < width ? work.normal(unit.bundle, column) : nullptr;
        }
        await(from, normal, work.epoch_of(unit.bundle), Normal{});
        work.fence();
#pragma unroll
        for (int k = 0; k < OF_LANE; k++) {
            if (k * LANES + lane_index() < COLUMNS) stage.normal[k * LANES + lane_index()] = normal[k];
        }
        arrive_by_warp(stage.ready);
    }
}

// ---------------------------------------------------------------------------------------------------------------------

__device__ void open(Stage& stage, unsigned copies) {
    stage.full.init(copies);
    stage.summed.init(ADDERS);
    stage.published.init(1);
    stage.ready.init(1);
    stage.emptied.init(NORMALIZERS);
}

// The epoch of the launch, by all threads of the block. Each of its blocks takes a ticket; the last leaves the control
// word so that the next launch's epochs are greater than those of all turns of this one.
__device__ unsigned begin_launch(Word* control, const Cut& cut) {
    __shared__ unsigned epoch;
    if (threadIdx.x == 0) {
        const Word first = TicketsFor<Sums>::take_first(control);
        const unsigned launches = static_cast<unsigned>(first >> 32);
        const unsigned turns = static_cast<unsigned>((cut.bundles + cut.slots - 1) / cut.slots);
        const unsigned last = launches > 0xffffffffu - 2 * turns ? 0 : launches + turns;
        if (static_cast<unsigned>(first) == gridDim.x - 1) store_relaxed(control, static_cast<Word>(last) << 32);
        epoch = launches + 1;
    }
    __syncthreads();
    return epoch;
}
