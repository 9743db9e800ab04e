// What the kernels for large groups share, which read their input once: an assembly line in every block, and a group
// that stays in the shared memory of all blocks together until its statistics are known.
//
// Groups are bundled: a bundle is one group, or a strip of COLUMNS neighbours. A bundle is cut into units, and each
// PIECE neighbouring units are a piece. Piece n of the launch is piece n / blocks of block n % blocks, unless bundles
// are drawn (normalization_teams.cuh). Each block has a ring of stages, through which its warps pass units from hand to
// hand:
//
//     loaders       copy the unit into a stage                                                   full
//     adders        add it up; who has the last of a piece publishes the piece's sums
//     folders       await the sums of all pieces, and add them up: how the bundle is normalized  ready
//     normalizers   normalize and store; when the adders are done too, the stage is free         emptied
//
// A group has so few sums that every block folds them for itself. Of a strip each column is folded by one block, which
// publishes what comes of it for all others to await.
//
// Progress. A block waits for pieces of other blocks, so all blocks have to run at the same time: the launch is
// cooperative, which the driver starts when there is room for all blocks and not before, whatever else runs, and in
// graphs too. Of the first bundle that is not finished a block has at most the units that fit its ring, as pieces go
// round the blocks and the plan takes no bundle that gives a block more; so it loads them all, whoever waits for what.
// A folder waits for nothing but bundles that are finished before its own.
//
// What is published is an epoch and 32 bits in each word, as in tickets.cuh. Bundles take turns with a few slots, which
// then stay in the cache; the epoch tells their turns apart. A slot must not come round before all who share the bundle
// have read what it had. Two blocks that share all their bundles are at most two rings of units apart, and twice what
// normalizers hold: the first has loaded at most a ring and what these hold more than it has finished, and so had the
// other when it published what finished that. Therefore it is always the same blocks that share a bundle, all of them
// if it has a piece for each; where a bundle has fewer pieces than there are blocks, their number is a multiple of the
// pieces, and that of the slots of the bundles at a time. Few bundles have a slot each, so that none comes round, and
// then any blocks share them.
//
// Constants that the plan sets, beside those of normalization.cuh:
//     COLUMNS                                             groups of a bundle
//     PIECE                                               units of a piece, a power of two
//     HELD                                                units that normalizers hold in registers at a time
//     STAGES, LOADERS, ADDERS, FOLDERS, NORMALIZERS       all but the first in warps; loaders of a stage
// Dynamic shared memory: STAGES * STAGE_BYTES.
#pragma once

#include "gate.cuh"
#include "normalization.cuh"
#include "tickets.cuh"

using Gate = HardwareGate;
using Normal = Normalizer<Compute>;

struct Cut {
    Index bundles, pieces;  // pieces of a bundle
    Index room;             // for the sums of so many of its pieces
    Index slots;            // bundles whose sums have room; of each team, where these draw
    Index inner, across;    // groups that are neighbours in memory, bundles of them
};

struct Unit {
    int visit;    // the how manieth of the block
    int count;    // elements along the group, which may be none in the last piece
    Index begin;  // the first of them

    __device__ Index end() const { return begin + count; }
};

struct Stage {
    Gate full, ready, emptied;
    Normal normal;  // of a group; what is known of a strip belongs to no stage
};

// The pieces of a block, one after the other.
struct Turn {
    int number;  // of the block's pieces
    Index bundle, piece, bundles, pieces;
    Index more_bundles, more_pieces;  // to the next one

    __device__ explicit Turn(const Cut& cut) : number(0), bundles(cut.bundles), pieces(cut.pieces) {
        const Index first = blockIdx.x, more = gridDim.x;
        bundle = first / pieces, piece = first - bundle * pieces;
        more_bundles = more / pieces, more_pieces = more - more_bundles * pieces;
    }
    __device__ bool exists() const { return bundle < bundles; }
    __device__ void advance() {
        number++, bundle += more_bundles, piece += more_pieces;
        if (piece >= pieces) piece -= pieces, bundle++;
    }
    __device__ int visit(int i) const { return number * PIECE + i; }
};

// Where the sums of a bundle are published and, of a strip, how its columns are normalized.
struct Slot {
    Word* words;
    Index pieces;
    unsigned epoch;
};

constexpr int NORMAL_WORDS = COLUMNS > 1 ? words_of<Normal> : 0;

struct Work {
    Arrays arrays;
    const Geometry& g;
    const Parameters& p;
    const Cut& cut;
    Stage (&stages)[STAGES];
    char* ring;
    Word* slots;
    unsigned epoch;
    bool in_place;

    __device__ Stage& stage(int visit) const { return stages[visit % STAGES]; }
    __device__ char* data(int visit) const { return ring + visit % STAGES * STAGE_BYTES; }

    template <typename Pieces> __device__ Unit unit(const Pieces& turn, int i) const {
        const Index begin = (turn.piece * PIECE + i) * UNIT, left = g.length - begin;
        return {turn.visit(i), up_to(left, static_cast<int>(UNIT)), begin};
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

    __device__ Slot slot(Index bundle) const {
        const Index turn = bundle / cut.slots;
        return slot(bundle - turn * cut.slots, turn);
    }
    __device__ Slot slot(Index number, Index turn) const {
        const Index words = COLUMNS * (cut.room * words_of<Sums> + NORMAL_WORDS);
        return {slots + number * words, cut.pieces, epoch + static_cast<unsigned>(turn)};
    }

    // In place, the first element of a group is read by all before its block stores to it: what is published says so,
    // being computed from it.
    __device__ void fence() const {
        if (in_place) fence_dependents();
    }
};

// Adds up so many equal parts of a piece, one after the other.
template <int PARTS> using PieceSum = SerialPrefix<Sums, levels_of(PARTS)>;

static_assert(PIECE <= STAGES && PIECE <= 16, "a ring holds a piece");

// How often a stage was used before `visit`.
__device__ int use_of(int visit) { return visit / STAGES; }

__device__ void await_emptied(const Work& work, int visit) {
    if (visit >= STAGES) work.stage(visit).emptied.wait(use_of(visit) - 1);
}

// ---------------------------------------------------------------------------------------------------------------------

// So many threads copy into a stage, and so many arrive when they are done with it.
__device__ void open(Stage& stage, unsigned copies, unsigned readers) {
    stage.full.init(copies);
    stage.ready.init(LANES);
    stage.emptied.init(readers);
}

__device__ unsigned begin_launch(Word* control, const Cut& cut) {
    return begin_launch(control, (cut.bundles + cut.slots - 1) / cut.slots);
}
