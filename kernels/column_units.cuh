// Units of columns: how an array is cut into them, in which order they are taken, and where a block keeps them.
//
// The columns are cut into strips of neighbours, and a strip, along the axis, into units. Of each unit the tree (tree.cuh)
// knows the aggregate: a unit is an aligned power of two of chunks, a part of a row or some rows of a tile.
//
// Units are taken by tickets, side by side before one below the other: so the blocks of a GPU read memory nearly in its
// own order, whatever the width of a strip is, and what a unit needs of those above it was taken long before. As a
// strip has to be remembered from one of its units to the next, they come in bands of a few hundred strips.
//
// Constants that the plan sets, beside those of columns.cuh:
//     COLUMNS              columns of a strip
//     CHUNKS               chunks of a unit, along the axis: a power of two
//     UNIT_BITS            bits of the number of a strip's units
//     DENSE                1: a strip is all there is beside the axis, so that a unit is contiguous
//     LOAD                 0: ordinary loads, any strides; 1: asynchronous copies; 2: a bulk copy for each row
//     STAGES
#pragma once

#include "columns.cuh"
#include "gate.cuh"
#include "stream.cuh"

using Staged = Select<LOAD != BY_ELEMENTS, Input, Value>::type;  // ordinary loads convert on the way
using Gate = GateOf<LOAD != BY_ELEMENTS>::type;

// A unit that is a part of a row is one row to the block that works on it.
constexpr int ROWS = CHUNKS > RADIX ? CHUNKS / RADIX : 1, ROW_CHUNKS = CHUNKS / ROWS;
constexpr int ROW_STEPS = ROW_CHUNKS * CHUNK, STEPS = ROWS * ROW_STEPS;
constexpr int PARTS = ROW_CHUNKS / SPAN, SPANS = ROWS * PARTS;  // spans of a row and of a unit

// The bits of a unit's number by the levels of the tree: units of a row, of a tile, and of a group end before these.
constexpr int OF_ROW = log2_of(RADIX / ROW_CHUNKS), OF_TILE = OF_ROW + log2_of(TILE_ROWS / ROWS),
              OF_GROUP = OF_TILE + log2_of(RADIX);

// How lanes share the spans: VECTOR columns of one span each, or of as many as fit where strips are narrow. These are of
// different rows, which lie apart in a stage by as many banks as a span takes.
constexpr int THREADS_ACROSS = COLUMNS / VECTOR;
constexpr int SPANS_THAT_FIT = THREADS_ACROSS >= LANES ? 1 : 1 << log2_of(LANES / THREADS_ACROSS);
constexpr int SPANS_OF_WARP = SPANS_THAT_FIT < SPANS ? SPANS_THAT_FIT : SPANS;
constexpr int WARPS_ACROSS = (THREADS_ACROSS + LANES - 1) / LANES;
constexpr int TASKS = SPANS / SPANS_OF_WARP * WARPS_ACROSS;

constexpr int SIZE = static_cast<int>(sizeof(Staged)), PITCH = COLUMNS * SIZE;  // from step to step
constexpr int SPREAD = SPANS_OF_WARP > 1 ? (PITCH + 15) / 16 * 16 % 128 : 0;
constexpr int ROW_BYTES = ROW_STEPS * PITCH, STAGE_BYTES = (ROWS * (ROW_BYTES + SPREAD) + 15) / 16 * 16;

// In a dense stage the steps of a row have the order of memory, else that of traversal.
constexpr bool BACKWARD = DENSE && REVERSE;

static_assert(!SEGMENTED && AXIS_RANK_IN == 1 && AXIS_RANK_OUT == 1, "one axis of an array");
static_assert(COLUMNS % VECTOR == 0 && SPANS % SPANS_OF_WARP == 0 && ROWS <= LANES && ROW_CHUNKS % SPAN == 0, "");

struct Cut {
    Index inner, across;         // columns that are neighbours in memory, strips of them
    Index strips, units, band;   // all strips, units of each, strips of a band
};

struct Unit {
    Index strip, number;  // none: number < 0
    Index line;           // of its first column
    const char* input;
    char* output;         // where the first column's elements lie
    int width, count;     // columns and steps that exist

    __device__ bool exists() const { return number >= 0; }
    __device__ Index begin() const { return number * STEPS; }

    // The steps of a row.
    __device__ int steps_of(int row) const { return up_to(count - row * ROW_STEPS, ROW_STEPS); }
    // The steps of a row in the order of memory begin with this one of the line.
    __device__ Index lowest(int row, Index length) const {
        const Index first = begin() + row * ROW_STEPS;
        return REVERSE ? length - first - steps_of(row) : first;
    }
};

struct Stage {
    Gate taken, full, summed, published, folded, emptied;
    Unit unit;
    Item part[SPANS][COLUMNS];       // aggregates of the spans, row by row, soon added up to those of blocks
    Item before[ROWS + 1][COLUMNS];  // prefixes before the rows of the unit, and before what follows
    Item left[OF_ROW + 1][COLUMNS];  // blocks of units that lie before this one in its row
};

struct Work {
    const char* input;
    char* output;
    const Geometry& g;
    const Cut& cut;
    Stage (&stages)[STAGES];
    char* ring;
    Tickets tickets;

    __device__ Stage& stage(int visit) const { return stages[visit % STAGES]; }
    __device__ char* data(int visit) const { return ring + visit % STAGES * STAGE_BYTES; }

    // Where the aggregate of a column of a unit is published.
    __device__ Word* of_unit(Index strip, Index unit, int column) const {
        return tickets.published((strip * cut.units + unit) * COLUMNS + column);
    }
};

// How often a stage was used before `visit`.
__device__ int turn(int visit) { return visit / STAGES; }

// Waits for the unit of a visit; false when there are no more.
__device__ bool await_unit(const Work& work, int visit) {
    Stage& stage = work.stage(visit);
    stage.taken.wait(turn(visit));
    return stage.unit.exists();
}

// By all lanes of a warp.
template <typename G> __device__ void arrive_by_warp(G& gate) {
    __syncwarp();
    if (lane_index() == 0) gate.arrive();
}

__device__ char* row_of_stage(char* data, int row) { return data + row * (ROW_BYTES + SPREAD); }

// ---------------------------------------------------------------------------------------------------------------------
// Taker

__device__ Unit unit_of(const Work& work, Index ticket) {
    const Cut& cut = work.cut;
    Unit unit;
    unit.number = -1;
    if (ticket >= work.tickets.count) return unit;
    const Index band = ticket / (cut.band * cut.units), first = band * cut.band, place = ticket - first * cut.units;
    const Index width = cut.strips - first < cut.band ? cut.strips - first : cut.band;
    unit.number = place / width;
    unit.strip = first + place - unit.number * width;
    const Index outer = unit.strip / cut.across, column = (unit.strip - outer * cut.across) * COLUMNS;
    const Index columns = cut.inner - column, steps = work.g.length - unit.begin();
    unit.line = outer * cut.inner + column;
    unit.input = work.input + work.g.input_line.offset(unit.line);
    unit.output = work.output + work.g.output_line.offset(unit.line);
    unit.width = columns < COLUMNS ? static_cast<int>(columns) : COLUMNS;
    unit.count = steps < STEPS ? static_cast<int>(steps) : STEPS;
    return unit;
}

// By one thread.
__device__ void take_units(const Work& work) {
    Index ticket = work.tickets.of_block();
    for (int visit = 0;; visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = unit_of(work, ticket);
        if (visit >= STAGES) stage.emptied.wait(turn(visit) - 1);
        stage.unit = unit;
        stage.taken.arrive();
        if (!unit.exists()) break;
        ticket = work.tickets.next();
    }
    work.tickets.prepare_next_launch(ticket);
}
