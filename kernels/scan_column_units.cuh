// Units of columns: how an array is cut into them, in which order they are taken, and where a block keeps them.
//
// The columns are cut into strips of neighbours, and a strip, along the axis, into units. Of each unit the tree
// (tree.cuh) knows the aggregate: a unit is an aligned power of two of chunks, a part of a row or some rows of a tile.
//
// Units are taken by tickets, side by side before one below the other: so the blocks of a GPU read memory nearly in its
// own order, whatever the width of a strip is, and what a unit needs of those above it was taken long before. As a
// strip has to be remembered from one of its units to the next, they come in bands of a few hundred strips. A ticket
// stands for UNITS_OF_TICKET units that follow each other in that order.
//
// Constants that the plan sets, beside those of scan_columns.cuh:
//     COLUMNS              columns of a strip
//     CHUNKS               chunks of a unit, along the axis: a power of two
//     UNIT_BITS            bits of the number of a strip's units
//     DENSE                1: a strip is all there is beside the axis, so that a unit is contiguous
//     INPUT_TURNED         1: inputs are neighbours along the axis, outputs across it; a stage holds the unit line by
//                          line
//     OUTPUT_TURNED        1: the other way round
//     LOAD                 0: ordinary loads, any strides; 1: asynchronous copies; 2: a bulk copy for each row
//     HARDWARE_GATES       whether there are any (gate.cuh), as 1 and 2 need
//     SHIFTED, ROW_SHIFT   1: rows of the input begin at any element, and each by so many bytes more (0 ... 15) behind
//                          a multiple of 16 than the one before
//     OVERLAPPING          1: outputs are shifted as inputs are, and strips overlap by all but one element of a sector,
//                          so that each sector of the output is stored by one of them
//     COPY_BYTES           what an asynchronous copy moves: 4, 8 or 16; of a turned input a chunk or an element
//     UNITS_OF_TICKET      units that are taken at a time
//     STAGES
#pragma once

#include "scan_columns.cuh"
#include "gate.cuh"
#include "scan_fold.cuh"

using Staged = Select<LOAD != BY_ELEMENTS, Input, Value>::type;  // ordinary loads convert on the way
using Gate = GateOf<HARDWARE_GATES>::type;

// A unit that is a part of a row is one row to the block that works on it.
constexpr int ROWS = CHUNKS > RADIX ? CHUNKS / RADIX : 1, ROW_CHUNKS = CHUNKS / ROWS;
constexpr int ROW_STEPS = ROW_CHUNKS * CHUNK, STEPS = ROWS * ROW_STEPS;
constexpr int PARTS = ROW_CHUNKS / SPAN, SPANS = ROWS * PARTS;  // spans of a row and of a unit

// Between the first columns of strips side by side.
constexpr int SECTOR_BYTES = 32, OF_SECTOR = SECTOR_BYTES / static_cast<int>(sizeof(Output));
constexpr int APART = COLUMNS - (OVERLAPPING ? OF_SECTOR - 1 : 0);

// The bits of a unit's number by the levels of the tree: units of a row, of a tile, and of a group end before these.
constexpr int OF_ROW = log2_of(RADIX / ROW_CHUNKS), OF_TILE = OF_ROW + log2_of(TILE_ROWS / ROWS),
              OF_GROUP = OF_TILE + log2_of(RADIX);

// How lanes share the spans: VECTOR columns of one span each, or of as many as fit where strips are narrow. These are
// of different rows, which lie apart in a stage by as many banks as a span takes.
constexpr int THREADS_ACROSS = COLUMNS / VECTOR;
constexpr int SPANS_THAT_FIT = THREADS_ACROSS >= LANES ? 1 : 1 << log2_of(LANES / THREADS_ACROSS);
constexpr int SPANS_OF_WARP = SPANS_THAT_FIT < SPANS ? SPANS_THAT_FIT : SPANS;
constexpr int WARPS_ACROSS = (THREADS_ACROSS + LANES - 1) / LANES;
constexpr int TASKS = SPANS / SPANS_OF_WARP * WARPS_ACROSS;

// Between the columns of a thread, where it moves them one by one: neighbouring lanes then have neighbours, and find
// them in different banks. What is kept of columns beside the stage stands in the order of threads.
constexpr int BETWEEN = OVERLAPPING ? THREADS_ACROSS : 1;

constexpr int LINE_BYTES = 128, LINE_WORDS = LINE_BYTES / static_cast<int>(sizeof(Word));  // of the cache

constexpr int SIZE = static_cast<int>(sizeof(Staged));
constexpr int PITCH = COLUMNS * SIZE + (SHIFTED ? 16 + ROW_SHIFT : 0);  // from step to step
constexpr int SPREAD = SPANS_OF_WARP > 1 ? (PITCH + 15) / 16 * 16 % 128 : 0;
constexpr int ROW_BYTES = ROW_STEPS * PITCH;

// Of a turned stage: lanes that read 16 bytes each, of lines that follow each other in the stage, find them in
// different banks. A thread's columns lie THREADS_ACROSS lines apart.
constexpr int LINE_PITCH = STEPS * SIZE + 16;

constexpr int BYTES_IN_ROWS = (ROWS * (ROW_BYTES + SPREAD) + 15) / 16 * 16 + (SHIFTED ? 16 : 0);
constexpr int STAGE_BYTES = INPUT_TURNED ? COLUMNS * LINE_PITCH : BYTES_IN_ROWS;

// In a dense stage the steps of a row have the order of memory, and a row that is not whole lies at its end; else they
// have the order of traversal. Where chunks of a turned input are copied in one piece, those inside them are mirrored.
constexpr bool BACKWARD = DENSE && REVERSE;
constexpr bool MIRRORED = INPUT_TURNED && REVERSE && LOAD == BY_COPIES && COPY_BYTES > SIZE;

static_assert(!SEGMENTED && AXIS_RANK_IN == 1 && AXIS_RANK_OUT == 1, "one axis of an array");
static_assert(!INPUT_TURNED || (!OUTPUT_TURNED && !DENSE && SPANS_OF_WARP == 1), "");
static_assert(!OUTPUT_TURNED || (!DENSE && SPANS_OF_WARP == 1 && VECTOR == 1 && sizeof(Output) == SIZE), "");
static_assert(!SHIFTED || (LOAD == BY_COPIES && !DENSE && !INPUT_TURNED && !OUTPUT_TURNED && SPANS_OF_WARP == 1), "");
static_assert(!OVERLAPPING || (SHIFTED && !INITIAL && WARPS_ACROSS == 1 && sizeof(Output) == SIZE), "");
static_assert(COLUMNS % VECTOR == 0 && SPANS % SPANS_OF_WARP == 0 && ROWS <= LANES && ROW_CHUNKS % SPAN == 0, "");

struct Cut {
    Index inner, across;         // columns that are neighbours in memory, strips of them
    Index strips, units, band;   // all strips, units of each, strips of a band
};

struct Unit {
    Index place;          // among all, in the order in which they are taken
    Index strip, number;  // none: number < 0
    Index line;           // of its first column
    const char* input;
    char* output;         // where the first column's elements lie
    int width, count;     // columns and steps that exist; columns are rounded up to those of whole threads
    int bytes;            // of a step's elements that exist
    bool first, last;     // whether rows begin and end in the strip
    int lead;             // bytes of the first row's address modulo 16, where rows are shifted, as in a stage too

    __device__ bool exists() const { return number >= 0; }
    __device__ Index begin() const { return number * STEPS; }

    // The steps of a row.
    __device__ int steps_of(int row) const { return up_to(count - row * ROW_STEPS, ROW_STEPS); }
    // The steps of a row in the order of memory begin with this one of the line.
    __device__ Index lowest(int row, Index length) const {
        const Index first = begin() + row * ROW_STEPS;
        return REVERSE ? length - first - steps_of(row) : first;
    }
    __device__ const char* first_row(const Geometry& g) const {
        return input + g.input_axis.offset(along(begin(), g.length));
    }
};

struct Stage {
    Gate taken, full, summed, published, folded, emptied;
    Unit unit;
    __align__(16) Item part[SPANS][COLUMNS];  // aggregates of the spans, row by row, soon added up to those of blocks
    Item before[ROWS + 1][COLUMNS];  // prefixes before the rows of the unit, and before what follows
    Item left[OF_ROW + 1][COLUMNS];  // blocks of units that lie before this one in its row
};

// Items of a thread's columns.
using ItemPack = Pack<Item, VECTOR>;
__device__ ItemPack& items_at(Item (&row)[COLUMNS], int column) { return *reinterpret_cast<ItemPack*>(row + column); }
__device__ const ItemPack& items_at(const Item (&row)[COLUMNS], int column) {
    return *reinterpret_cast<const ItemPack*>(row + column);
}

// What a warp has before it: the stage of one of the block's units.
struct Visit {
    Stage& stage;
    Unit unit;
    char* data;
    int number, turn;  // of the block's units; how often the stage was used before
};

struct Work {
    const char* input;
    char* output;
    const Geometry& g;
    const Cut& cut;
    Stage (&stages)[STAGES];
    char* ring;
    Tickets tickets;

    // Strips that overlap would store there before their neighbours load.
    __device__ bool in_place() const { return input == output; }

    __device__ Stage& stage(int visit) const { return stages[visit % STAGES]; }

    // Waits for the unit of a visit.
    __device__ Visit visit(int number) const {
        Stage& stage = this->stage(number);
        const int turn = number / STAGES;
        stage.taken.wait(turn);
        const Unit unit = stage.unit;
        return {stage, unit, ring + number % STAGES * STAGE_BYTES + (SHIFTED ? unit.lead : 0), number, turn};
    }

    // Where the aggregate of a column of a unit is published. The control word has a line of the cache for itself, so
    // that units whose aggregates fill whole sectors share none of them.
    __device__ Word* of_unit(Index strip, Index unit, int column) const {
        return tickets.control + LINE_WORDS + ((strip * cut.units + unit) * COLUMNS + column) * WORDS;
    }
};

__device__ char* row_of_stage(char* data, int row) { return data + row * (ROW_BYTES + SPREAD); }

__device__ char* line_of_stage(char* data, int column) {
    return data + (column % VECTOR * THREADS_ACROSS + column / VECTOR) * LINE_PITCH;
}

// Where step `step` of a row lies in a stage; for an element that is not copied with others of its chunk.
__device__ Staged* element_of_stage(char* data, int row, int step, int column) {
    if (INPUT_TURNED) return reinterpret_cast<Staged*>(line_of_stage(data, column)) + row * ROW_STEPS + step;
    const int place = BACKWARD ? ROW_STEPS - 1 - step : step;
    return reinterpret_cast<Staged*>(row_of_stage(data, row) + place * PITCH) + column;
}

__device__ Staged* element_of_stage(char* data, int step, int column) {
    return element_of_stage(data, step / ROW_STEPS, step % ROW_STEPS, column);
}

// ---------------------------------------------------------------------------------------------------------------------
// Spans. Adders and scanners take tasks: the spans of a warp, VECTOR columns in each thread.

// A span of some columns in a stage: where this thread's elements are.
struct Span {
    static constexpr int STRIDE = BACKWARD ? -PITCH : PITCH;

    int row, part, column;  // the first column
    int existing;           // of the columns; for others stands the first
    bool exists;
    char* first;
    int count;  // steps; where there are some, those behind them are filled up

    __device__ Span(const Unit& unit, char* data, int task) {
        const unsigned warp = static_cast<unsigned>(task);  // of all that share the unit; divided without a sign
        const int place = static_cast<int>(warp % WARPS_ACROSS) * LANES + lane_index();
        const unsigned number = warp / WARPS_ACROSS * SPANS_OF_WARP + (SPANS_OF_WARP > 1 ? place / THREADS_ACROSS : 0);
        row = static_cast<int>(number % ROWS);
        part = static_cast<int>(number / ROWS);
        column = (SPANS_OF_WARP > 1 ? place % THREADS_ACROSS : place) * VECTOR;
        exists = column < unit.width && (SPANS_OF_WARP == 1 || place < SPANS_OF_WARP * THREADS_ACROSS);
        existing = OVERLAPPING ? up_to((unit.bytes / SIZE - place + BETWEEN - 1) / BETWEEN, VECTOR) : VECTOR;
        count = up_to(unit.steps_of(row) - part * SPAN_STEPS, SPAN_STEPS);
        first = reinterpret_cast<char*>(element_of_stage(data, row, part * SPAN_STEPS, OVERLAPPING ? place : column));
    }

    __device__ Pack<Staged, VECTOR>* at(int step) const {
        return reinterpret_cast<Pack<Staged, VECTOR>*>(first + step * STRIDE);
    }

    // The columns of a step. ANYWHERE: which may begin at any element.
    template <bool ANYWHERE> __device__ Pack<Staged, VECTOR> load_step(int step) const {
        if constexpr (ANYWHERE) {
            const Staged* elements = reinterpret_cast<const Staged*>(first + step * STRIDE);
            Pack<Staged, VECTOR> pack;
#pragma unroll
            for (int v = 0; v < VECTOR; v++) pack.element[v] = elements[v < existing ? v * BETWEEN : 0];
            return pack;
        } else {
            return *at(step);
        }
    }

    // All loads come before the first use.
    __device__ void load(Values& values) const {
        if constexpr (INPUT_TURNED) {
            Pack<Staged, CHUNK> chunk[SPAN][VECTOR];
#pragma unroll
            for (int i = 0; i < SPAN * VECTOR; i++) {
                const int line = i % VECTOR * THREADS_ACROSS * LINE_PITCH;
                chunk[i / VECTOR][i % VECTOR] = reinterpret_cast<const Pack<Staged, CHUNK>*>(first + line)[i / VECTOR];
            }
#pragma unroll
            for (int i = 0; i < SPAN * VECTOR; i++) {
                values.set_chunk<MIRRORED>(i / VECTOR, i % VECTOR, chunk[i / VECTOR][i % VECTOR]);
            }
        } else {
            values.load_whole([&](int k) { return load_step<SHIFTED>(k); });
        }
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Taker

// Places have 32 bits, and so have strips and units: divided as such, they take half as long where Index has 64.
__device__ Unit unit_of(const Work& work, Index place_of_all) {
    const Cut& cut = work.cut;
    Unit unit;
    unit.place = place_of_all;
    unit.number = -1;
    if (place_of_all >= cut.strips * cut.units) return unit;
    const unsigned strips = static_cast<unsigned>(cut.strips), most = static_cast<unsigned>(cut.band);
    const unsigned units = static_cast<unsigned>(cut.units), across = static_cast<unsigned>(cut.across);
    const unsigned band = static_cast<unsigned>(place_of_all) / (most * units), first = band * most;
    const unsigned place = static_cast<unsigned>(place_of_all) - first * units;
    const unsigned width = strips - first < most ? strips - first : most;
    const unsigned number = place / width, strip = first + place - number * width, outer = strip / across;
    unit.number = static_cast<Index>(number);
    unit.strip = static_cast<Index>(strip);
    const Index column = static_cast<Index>(strip - outer * across) * APART;
    const Index columns = cut.inner - column, steps = work.g.length - unit.begin();
    unit.line = static_cast<Index>(outer) * cut.inner + column;
    unit.input = work.input + work.g.input_line.offset(unit.line);
    unit.output = work.output + work.g.output_line.offset(unit.line);
    const int exist = up_to(columns, OVERLAPPING && work.in_place() ? APART : COLUMNS);
    unit.first = column == 0;
    unit.last = columns <= COLUMNS;
    unit.width = (OVERLAPPING ? up_to(exist, THREADS_ACROSS) : (exist + VECTOR - 1) / VECTOR) * VECTOR;
    unit.bytes = exist * SIZE;
    unit.count = steps < STEPS ? static_cast<int>(steps) : STEPS;
    unit.lead = SHIFTED ? static_cast<int>(reinterpret_cast<size_t>(unit.first_row(work.g)) % 16) : 0;
    return unit;
}

// By one thread.
__device__ void take_units(const Work& work) {
    Index ticket = work.tickets.of_block();
    for (int visit = 0;; visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = unit_of(work, ticket * UNITS_OF_TICKET + visit % UNITS_OF_TICKET);
        if (visit >= STAGES) stage.emptied.wait(visit / STAGES - 1);
        stage.unit = unit;
        stage.taken.arrive();
        if (!unit.exists()) break;
        if (visit % UNITS_OF_TICKET == UNITS_OF_TICKET - 1) ticket = work.tickets.next();
    }
    const bool in_part = ticket < work.tickets.count;  // the last ticket, which has fewer units
    if (UNITS_OF_TICKET > 1 && in_part) ticket = work.tickets.next();
    work.tickets.prepare_next_launch(ticket);
}
