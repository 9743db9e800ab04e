// Running sums and products along an axis whose elements are not neighbours in memory: columns of a matrix.
//
// The columns are cut into strips of neighbours, and a strip, along the axis, into units of a few rows of the tree
// (tree.cuh). A strip is to this kernel what a line is to scan_stream.cu, and every block is an assembly line as there:
//
//     taker         takes a unit, as soon as a stage is free                                       taken
//     loaders       copy the unit into the stage                                                   full
//     adders        add up spans: a few chunks of a column                                         summed
//     publisher     adds up spans and rows, and publishes the unit's aggregates                    published
//     bundler       publishes the aggregates of BUNDLE units together
//     folders       fold the aggregates of all units before, which others published                folded
//     scanners      walk down the spans and store; the stage is free                               emptied
//
// Blocks and strips. Every column has an aggregate of its own, so folding costs as many words as a strip is wide for
// each unit that others work on meanwhile. Therefore blocks stick to a strip: they spread evenly over the strips, take
// units of theirs by a counter of the strip, and go on to the next strip when all units are taken. The last strips are
// shared by ever more blocks. Of n units in flight, a folder reads about n / BUNDLE bundles and BUNDLE / 2 units.
//
// Whoever waits, waits for a unit that was taken earlier, or for an earlier unit of its own block. So the unit taken
// first of all that are not done can always be finished, and blocks need not start in order, nor all at once.
//
// Boxes are loaded by copies of 4 to 16 bytes that the loaders do not wait for (cp.async); a bulk copy costs some 40 ns
// of a multiprocessor of an H200 whatever its size, so it pays only where a strip is all there is and rows lie dense.
//
// Constants that the plan sets, beside those of scan.cuh:
//     COLUMNS, VECTOR         columns of a strip, and how many of them a thread moves in one access
//     SPAN, ROWS              chunks of a span, rows of a unit: powers of two up to 32
//     BUNDLE, BUNDLES_AT_ONCE         units of a bundle, a power of two; bundles that a folder reads at a time
//     DENSE                   1: a strip is all there is beside the axis, so that a unit is contiguous
//     LOAD, COPY_BYTES        0: ordinary loads, any strides; 1: copies of COPY_BYTES each; 2: a bulk copy for each row
//     EXCHANGE, EXCHANGE_BYTES   1: outputs go through shared memory, to be stored by so many neighbouring bytes
//     STAGES, LOADERS, ADDERS, FOLDERS, SCANNERS   the last four in warps
// Dynamic shared memory: STAGES * STAGE_BYTES.
#include "columns.cuh"
#include "gate.cuh"
#include "stream.cuh"

constexpr int BY_ELEMENTS = 0, BY_COPIES = 1, IN_BULK = 2;

using Staged = Select<LOAD != BY_ELEMENTS, Input, Value>::type;  // ordinary loads convert on the way
using Gate = GateOf<LOAD != BY_ELEMENTS>::type;

constexpr int STEPS = ROWS * ROW, SPANS = ROWS * PARTS;  // of a unit

// How lanes share the spans: VECTOR columns of one span each, or of as many as fit where strips are narrow. These are of
// different rows, which lie apart in a stage by as many banks as a span takes.
constexpr int THREADS_ACROSS = COLUMNS / VECTOR;
constexpr int SPANS_THAT_FIT = THREADS_ACROSS >= LANES ? 1 : 1 << log2_of(LANES / THREADS_ACROSS);
constexpr int SPANS_OF_WARP = SPANS_THAT_FIT < SPANS ? SPANS_THAT_FIT : SPANS;
constexpr int WARPS_ACROSS = (THREADS_ACROSS + LANES - 1) / LANES;
constexpr int TASKS = SPANS / SPANS_OF_WARP * WARPS_ACROSS;

constexpr int SIZE = static_cast<int>(sizeof(Staged)), PITCH = COLUMNS * SIZE;  // from step to step
constexpr int SPREAD = SPANS_OF_WARP > 1 ? (PITCH + 15) / 16 * 16 % 128 : 0;
constexpr int ROW_BYTES = ROW * PITCH, STAGE_BYTES = (ROWS * (ROW_BYTES + SPREAD) + 15) / 16 * 16;

// In a dense stage the steps of a row have the order of memory, else that of traversal.
constexpr bool BACKWARD = DENSE && REVERSE;

// The bits of a unit's number, by the level of the tree: units of a tile, tiles of a group.
constexpr int UNIT_BITS = log2_of(TILE_ROWS / ROWS), TILE_BITS = log2_of(RADIX), BITS = UNIT_BITS + TILE_BITS;
constexpr int GROUP_BITS = 18;  // of the number of groups
constexpr int BUNDLE_BITS = log2_of(BUNDLE);
constexpr int FOLDED_BY = COLUMNS >= LANES ? 1 : 1 << log2_of(LANES / COLUMNS);  // lanes that fold the same column

constexpr int FIRST_LOADER = 1, FIRST_ADDER = FIRST_LOADER + LOADERS, PUBLISHER = FIRST_ADDER + ADDERS,
              BUNDLER = PUBLISHER + 1, FIRST_FOLDER = BUNDLER + (BUNDLE > 1), FIRST_SCANNER = FIRST_FOLDER + FOLDERS,
              WARPS = FIRST_SCANNER + SCANNERS;

static_assert(!SEGMENTED && AXIS_RANK_IN == 1 && AXIS_RANK_OUT == 1, "one axis of an array");
static_assert(COLUMNS % VECTOR == 0 && COLUMNS <= FOLDERS * LANES, "");
static_assert(SPANS % SPANS_OF_WARP == 0 && ROWS <= LANES && RADIX % SPAN == 0 && BUNDLE_BITS <= BITS, "");
static_assert(LOAD != IN_BULK || (DENSE && LOADERS == 1), "");
static_assert(!EXCHANGE || (sizeof(Output) == SIZE && DENSE && WARPS_ACROSS == 1), "outputs take the place of inputs");

struct Cut {
    Index inner, across;   // columns that are neighbours in memory, strips of them
    Index strips, units;   // all strips, units of each
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
    __device__ int steps_of(int row) const {
        const int left = count - row * ROW;
        return left < 0 ? 0 : left < ROW ? left : ROW;
    }
    // The steps of a row in the order of memory begin with this one of the line.
    __device__ Index lowest(int row, Index length) const {
        const Index first = begin() + row * ROW;
        return REVERSE ? length - first - steps_of(row) : first;
    }
};

struct Stage {
    Gate taken, full, summed, published, folded, emptied;
    Unit unit;
    Item part[SPANS][COLUMNS];        // aggregates of the spans, row by row
    Item within[ROWS][COLUMNS];       // inclusive prefixes of the rows of the unit, without what lies before it
    Item before[ROWS + 1][COLUMNS];   // prefixes before the rows of the unit, and before what follows
};

using GroupBlocks = Item[GROUP_BITS][COLUMNS];

struct Work {
    const char* input;
    char* output;
    const Geometry& g;
    const Cut& cut;
    Stage (&stages)[STAGES];
    GroupBlocks& group_blocks;
    char* ring;
    Tickets tickets;

    __device__ Stage& stage(int visit) const { return stages[visit % STAGES]; }
    __device__ char* data(int visit) const { return ring + visit % STAGES * STAGE_BYTES; }

    // Where the aggregate of a column of a unit, or of a bundle of units, is published.
    __device__ Word* of_unit(Index strip, Index unit, int column) const {
        return tickets.control + 1 + cut.strips + ((strip * cut.units + unit) * COLUMNS + column) * WORDS;
    }
    __device__ Word* of_bundle(Index strip, Index bundle, int column) const {
        if (BUNDLE == 1) return of_unit(strip, bundle, column);
        return of_unit(cut.strips, strip * (cut.units / BUNDLE) + bundle, column);
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

// ---------------------------------------------------------------------------------------------------------------------
// Taker. Tickets stand for assignments of a block to a strip: first each strip in turn, then again those that were begun
// last, as often as there may be blocks without work.

struct Assignments {
    Word* control;
    unsigned epoch;
    Index strips, units, shared, count;

    __device__ Assignments(const Work& work)
        : control(work.tickets.control), epoch(work.tickets.epoch()), strips(work.cut.strips), units(work.cut.units) {
        const Index blocks = static_cast<Index>(gridDim.x);
        shared = strips < blocks ? strips : blocks;
        count = work.tickets.count;
    }

    __device__ static Index count_of(Index strips) {
        const Index blocks = static_cast<Index>(gridDim.x);
        return strips < blocks ? blocks + 2 * strips : strips + 2 * blocks;
    }

    __device__ Index strip(Index number) const { return number < strips ? number : strips - 1 - (number - strips) % shared; }

    // A unit of a strip that the block works on already.
    __device__ Index next(Index strip) const {
        return static_cast<Index>(static_cast<unsigned>(atomicAdd(control + 1 + strip, Word(1))));
    }

    // The first of a block. Counters of earlier launches carry another epoch. Of a strip that is nearly done it gets
    // none: what it would have to fold from the beginning would keep it longer than the others are.
    __device__ Index first(Index strip) const {
        Word* counter = control + 1 + strip;
        Word seen = load_relaxed(counter);
        while (static_cast<unsigned>(seen >> 32) != epoch) {
            const Word found = atomicCAS(counter, seen, static_cast<Word>(epoch) << 32 | 1);
            if (found == seen) return 0;
            seen = found;
        }
        const Index taken = static_cast<Index>(static_cast<unsigned>(seen));
        if (taken >= units || (units - taken) * 8 < taken) return units;
        return next(strip);
    }
};

__device__ void enter_strip(const Work& work, Unit& unit, Index strip) {
    const Index outer = strip / work.cut.across, place = (strip - outer * work.cut.across) * COLUMNS;
    const Index left = work.cut.inner - place;
    unit.strip = strip;
    unit.line = outer * work.cut.inner + place;
    unit.input = work.input + work.g.input_line.offset(unit.line);
    unit.output = work.output + work.g.output_line.offset(unit.line);
    unit.width = left < COLUMNS ? static_cast<int>(left) : COLUMNS;
}

// The unit after `unit`; `assignment` is the block's present one.
__device__ void take(const Work& work, const Assignments& assignments, Index& assignment, Unit& unit) {
    unit.number = unit.exists() ? assignments.next(unit.strip) : assignments.units;
    while (unit.number >= assignments.units) {
        if (unit.strip >= 0) assignment = work.tickets.next();
        if (assignment >= assignments.count) {
            unit.number = -1;
            return;
        }
        enter_strip(work, unit, assignments.strip(assignment));
        unit.number = assignments.first(unit.strip);
    }
    const Index left = work.g.length - unit.begin();
    unit.count = left < STEPS ? static_cast<int>(left) : STEPS;
}

__device__ void take_units(const Work& work) {
    if (lane_index() > 0) return;
    const Assignments assignments(work);
    Index assignment = work.tickets.of_block();
    Unit unit;
    unit.strip = unit.number = -1;
    for (int visit = 0;; visit++) {
        Stage& stage = work.stage(visit);
        take(work, assignments, assignment, unit);
        if (visit >= STAGES) stage.emptied.wait(turn(visit) - 1);
        stage.unit = unit;
        stage.taken.arrive();
        if (!unit.exists()) break;
    }
    work.tickets.prepare_next_launch(assignment);
}

// ---------------------------------------------------------------------------------------------------------------------
// Loaders

__device__ char* row_of_stage(char* data, int row) { return data + row * (ROW_BYTES + SPREAD); }

// Rows that are contiguous in memory and in the stage, in pieces.
__device__ void copy_dense(const Work& work, const Unit& unit, char* data, int thread) {
    constexpr int THREADS = LOADERS * LANES, PIECES = ROW_BYTES / COPY_BYTES;
    const Index step = work.g.input_axis.stride[0];
    if (unit.count == STEPS) {
        const char* from = unit.input + unit.lowest(REVERSE ? ROWS - 1 : 0, work.g.length) * step;
#pragma unroll 8
        for (int i = thread; i < ROWS * PIECES; i += THREADS) {
            const int row = REVERSE ? ROWS - 1 - i / PIECES : i / PIECES;
            copy_async<COPY_BYTES>(row_of_stage(data, row) + i % PIECES * COPY_BYTES, from + i * COPY_BYTES);
        }
        return;
    }
    for (int row = 0; row < ROWS; row++) {
        const char* from = unit.input + unit.lowest(row, work.g.length) * step;
        const int bytes = unit.steps_of(row) * PITCH;
#pragma unroll 1  // as in copy_box
        for (int i = thread * COPY_BYTES; i < bytes; i += THREADS * COPY_BYTES) {
            copy_async<COPY_BYTES>(row_of_stage(data, row) + i, from + i);
        }
    }
}

// Boxes: the steps of a strip, each in pieces. A thread has the same place in every step.
__device__ void copy_box(const Work& work, const Unit& unit, char* data, int thread) {
    constexpr int ACROSS = LOAD == BY_COPIES && !DENSE ? PITCH / COPY_BYTES : 1, DOWN = LOADERS * LANES / ACROSS;
    static_assert(LOAD != BY_COPIES || DENSE || (LOADERS * LANES % ACROSS == 0 && ROW % DOWN == 0), "");
    const int place = thread % ACROSS * COPY_BYTES, first = thread / ACROSS;
    if (place >= unit.width * SIZE) return;
    const Index step = REVERSE ? -work.g.input_axis.stride[0] : work.g.input_axis.stride[0];
    const char* from = unit.input + place + work.g.input_axis.offset(along(unit.begin() + first, work.g.length));
    char* to = data + place + first * PITCH;
#pragma unroll 1
    for (int left = unit.count - first; left > -first; left -= ROW) {
        if (left + first >= ROW) {
#pragma unroll
            for (int i = 0; i < ROW; i += DOWN) copy_async<COPY_BYTES>(to + i * PITCH, from + i * step);
        } else {
#pragma unroll 1  // unrolled by NVRTC 13.0 it went on behind the end of the array
            for (int i = 0; i < left; i += DOWN) copy_async<COPY_BYTES>(to + i * PITCH, from + i * step);
        }
        from += ROW * step;
        to += ROW_BYTES + SPREAD;
    }
}

template <typename HardwareGate>
__device__ void copy_in_pieces(const Work& work, const Unit& unit, HardwareGate& full, char* data, int thread) {
    if (DENSE) copy_dense(work, unit, data, thread);
    else copy_box(work, unit, data, thread);
    full.arrive_after_copies();
}

// By a warp, in which each lane has a row.
template <typename HardwareGate>
__device__ void copy_in_bulk(const Work& work, const Unit& unit, HardwareGate& full, char* data) {
    const int row = lane_index(), bytes = row < ROWS ? unit.steps_of(row) * PITCH : 0;
    if (bytes == 0) {
        full.arrive();
        return;
    }
    const char* from = unit.input + unit.lowest(row, work.g.length) * work.g.input_axis.stride[0];
    full.arrive_with_copy(row_of_stage(data, row), from, bytes);
}

__device__ void copy_by_elements(const Work& work, const Unit& unit, char* data, int thread) {
    constexpr int BATCH = 8, THREADS = LOADERS * LANES;
    const Geometry& g = work.g;
    const int count = unit.count * COLUMNS;
    for (int first = thread; first < count; first += BATCH * THREADS) {
        Value element[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int i = first + k * THREADS, step = i / COLUMNS, column = i % COLUMNS;
            if (i >= count || column >= unit.width) continue;
            const char* from = work.input + g.input_line.offset(unit.line + column) +
                               g.input_axis.offset(along(unit.begin() + step, g.length));
            element[k] = convert<Value>(load_element<Input, INPUT_ALIGNED>(from));
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int i = first + k * THREADS, step = i / COLUMNS, column = i % COLUMNS;
            if (i >= count || column >= unit.width) continue;
            const int row = step / ROW, place = BACKWARD ? unit.steps_of(row) - 1 - step % ROW : step % ROW;
            reinterpret_cast<Staged*>(row_of_stage(data, row) + place * PITCH)[column] = convert<Staged>(element[k]);
        }
    }
}

__device__ void load_units(const Work& work, int thread) {
    for (int visit = 0; await_unit(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = stage.unit;
        char* data = work.data(visit);
        if constexpr (LOAD == IN_BULK) {
            copy_in_bulk(work, unit, stage.full, data);
        } else if constexpr (LOAD == BY_COPIES) {
            copy_in_pieces(work, unit, stage.full, data, thread);
        } else {
            copy_by_elements(work, unit, data, thread);
            arrive_by_warp(stage.full);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Spans. Adders and scanners take tasks: the spans of a warp, VECTOR columns in each thread.

// A span of some columns in a stage: where this thread's elements are.
struct Span {
    static constexpr int STRIDE = BACKWARD ? -PITCH : PITCH;

    int row, part, column;  // the first column
    bool exists;
    char* first;
    int count;  // steps

    __device__ Span(const Unit& unit, char* data, int task) {
        const int place = task % WARPS_ACROSS * LANES + lane_index();
        const int number = task / WARPS_ACROSS * SPANS_OF_WARP + (SPANS_OF_WARP > 1 ? place / THREADS_ACROSS : 0);
        row = number % ROWS;
        part = number / ROWS;
        column = (SPANS_OF_WARP > 1 ? place % THREADS_ACROSS : place) * VECTOR;
        exists = column < unit.width && (SPANS_OF_WARP == 1 || place < SPANS_OF_WARP * THREADS_ACROSS);
        const int left = unit.steps_of(row) - part * SPAN_STEPS;
        count = left < 0 ? 0 : left < SPAN_STEPS ? left : SPAN_STEPS;
        const int step = BACKWARD ? unit.steps_of(row) - 1 - part * SPAN_STEPS : part * SPAN_STEPS;
        first = row_of_stage(data, row) + step * PITCH + column * SIZE;
    }

    __device__ Pack<Staged, VECTOR>* at(int step) const { return reinterpret_cast<Pack<Staged, VECTOR>*>(first + step * STRIDE); }
};

// ---------------------------------------------------------------------------------------------------------------------
// Adders

__device__ void add_units(const Work& work, int adder) {
    for (int visit = 0; await_unit(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = stage.unit;
        stage.full.wait(turn(visit));
#pragma unroll 1
        for (int task = adder; task < TASKS; task += ADDERS) {
            const Span span(unit, work.data(visit), task);
            if (!span.exists) continue;
            Values values;
            values.load(span.count, [&](int k) { return *span.at(k); });
#pragma unroll
            for (int v = 0; v < VECTOR; v++) {
                stage.part[span.row * PARTS + span.part][span.column + v] = values.total(v);
            }
        }
        arrive_by_warp(stage.summed);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Publisher and bundler

// A lane has a row of a column.
__device__ void publish_units(const Work& work) {
    constexpr int COLUMNS_AT_ONCE = LANES / ROWS, TURNS = (COLUMNS + COLUMNS_AT_ONCE - 1) / COLUMNS_AT_ONCE;
    const int row = lane_index() % ROWS;
    for (int visit = 0; await_unit(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        const Index strip = stage.unit.strip, number = stage.unit.number;
        const int width = stage.unit.width;
        stage.summed.wait(turn(visit));
        Item prefix[TURNS];
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            const int column = t * COLUMNS_AT_ONCE + lane_index() / ROWS;
            prefix[t] = column < width ? sum_of_spans<PARTS>(stage.part, row * PARTS, column) : neutral_item();
            prefix[t] = warp_prefix<ROWS>(prefix[t]);
        }
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            const int column = t * COLUMNS_AT_ONCE + lane_index() / ROWS;
            if (column >= width) continue;
            if (row == ROWS - 1 && number + 1 < work.cut.units) {
                publish(work.of_unit(strip, number, column), prefix[t], work.tickets.epoch());
            }
            stage.within[row][column] = prefix[t];
        }
        arrive_by_warp(stage.published);
    }
}

// The aggregates of the last units before a number, by the bits of that number: where bit b is set, those of 2^b units.
template <int COUNT> struct Blocks {
    Item block[COUNT + 1];

    // Adds the 2^FIRST units `number` ...; true if they complete all blocks, of which `item` then is the aggregate.
    template <int FIRST> __device__ bool add(Index number, Item& item) {
        if constexpr (FIRST < COUNT) {
            if (!(number >> FIRST & 1)) {
                block[FIRST] = item;
                return false;
            }
            item = combine(block[FIRST], item);
            return add<FIRST + 1>(number, item);
        } else {
            return true;
        }
    }

    // What has `item` within the units after `number` has this within a level, which begins and ends with these bits.
    template <int BEGIN, int END> __device__ Item before(Index number, Item item) const {
#pragma unroll
        for (int b = BEGIN; b < END; b++) {
            if (number >> b & 1) item = combine(block[b], item);
        }
        return item;
    }

    // Appends the prefix of a level up to `number`, which is that of the block nothing follows.
    template <int BEGIN, int END, int LOWEST = BEGIN> __device__ void append_to(Prefix& prefix, Index number) const {
        if constexpr (LOWEST < END) {
            constexpr Index LEVEL = (Index(1) << LOWEST) - (Index(1) << BEGIN);
            if ((number & (LEVEL | Index(1) << LOWEST)) == Index(1) << LOWEST) {
                prefix.append(before<LOWEST + 1, END>(number, block[LOWEST]), true);
            } else {
                append_to<BEGIN, END, LOWEST + 1>(prefix, number);
            }
        }
    }
};

// Whenever a unit is the last of its bundle. A warp of its own, because the other units may be late.
__device__ void publish_bundles(const Work& work) {
    constexpr int TURNS = (COLUMNS + LANES - 1) / LANES;
    for (int visit = 0; await_unit(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        const Index strip = stage.unit.strip, number = stage.unit.number;
        const int width = stage.unit.width;
        const bool wanted = number % BUNDLE == BUNDLE - 1 && number + 1 < work.cut.units;
        Item own[TURNS];
        if (wanted) {
            stage.published.wait(turn(visit));
#pragma unroll
            for (int t = 0; t < TURNS; t++) {
                const int column = t * LANES + lane_index();
                own[t] = column < width ? stage.within[ROWS - 1][column] : neutral_item();
            }
        }
        arrive_by_warp(stage.emptied);
        if (!wanted) continue;
#pragma unroll 1
        for (int t = 0; t < TURNS; t++) {
            const int column = t * LANES + lane_index();
            const Word* from[BUNDLE];
            Item item[BUNDLE];
#pragma unroll
            for (int k = 0; k < BUNDLE - 1; k++) {
                from[k] = column < width ? work.of_unit(strip, number - (BUNDLE - 1) + k, column) : nullptr;
            }
            from[BUNDLE - 1] = nullptr;
            await(from, item, work.tickets.epoch());
            item[BUNDLE - 1] = own[t];
            Blocks<BUNDLE_BITS> blocks;
#pragma unroll
            for (int k = 0; k < BUNDLE; k++) blocks.template add<0>(k, item[k]);
            if (column < width) {
                publish(work.of_bundle(strip, number / BUNDLE, column), item[BUNDLE - 1], work.tickets.epoch());
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Folders: each has some neighbouring columns, a lane for each.

// The prefix of a column before a number of units. Blocks of units and of tiles are in registers; those of groups, which
// change seldom, in shared memory.
struct ColumnFold {
    GroupBlocks& of_groups;
    int column;
    bool first;  // of the lanes that have this column
    Blocks<BITS> blocks;
    Prefix groups;  // of all complete ones

    __device__ void begin() { groups = Prefix::nothing(); }

    // The prefix of groups that ends with `item`, group `number`, to which all blocks are added that it completes.
    __device__ Item through_group(Index number, Item& item, int& completed) const {
        completed = 0;
        for (; number >> completed & 1; completed++) item = combine(of_groups[completed][column], item);
        Prefix above = Prefix::nothing();
        for (int b = GROUP_BITS - 1; b > completed; b--) {
            if (number >> b & 1) above.append(of_groups[b][column], true);
        }
        return above.followed_by(item);
    }

    // The units `number` ... number + 2^FIRST - 1.
    template <int FIRST> __device__ void add(Index number, Item item) {
        if (!blocks.template add<FIRST>(number, item)) return;
        int completed;
        groups = {through_group(number >> BITS, item, completed), false};
        of_groups[completed][column] = item;
    }

    __device__ Prefix before_tile(Index number) const {
        Prefix prefix = groups;
        blocks.template append_to<UNIT_BITS, BITS>(prefix, number);
        return prefix;
    }

    __device__ Prefix before_unit(Index number, Prefix prefix) const {
        blocks.template append_to<0, UNIT_BITS>(prefix, number);
        return prefix;
    }

    // The prefix that ends with unit `number`, whose aggregate is `item`.
    __device__ Item through_unit(Index number, const Prefix& before_tile, Item item) const {
        item = blocks.template before<0, UNIT_BITS>(number, item);
        const Index next = number + 1;
        if (next & ((1 << UNIT_BITS) - 1)) return before_tile.followed_by(item);
        item = blocks.template before<UNIT_BITS, BITS>(number, item);
        if (next & ((1 << BITS) - 1)) return groups.followed_by(item);
        int completed;
        return through_group(number >> BITS, item, completed);
    }
};

// Number `k` of the items that the lanes of a column read in turn. By all lanes.
template <int OF_LANE> __device__ Item folded_item(const Item (&item)[OF_LANE], int k, int column) {
    if constexpr (FOLDED_BY == 1) return item[k];
    else return shuffle(item[k / FOLDED_BY], k % FOLDED_BY * COLUMNS + column);
}

// Brings the fold of a column up to date with the units before one. By all lanes, of which some may have no column.
// Where columns are few, several lanes have the same: each reads some of the words, and the first one folds them.
__device__ void fold_to(const Work& work, ColumnFold& fold, Index& bundles, Index strip, Index number, bool exists) {
    constexpr int TAIL = BUNDLE - 1, ALL = BUNDLES_AT_ONCE + TAIL, OF_LANE = (ALL + FOLDED_BY - 1) / FOLDED_BY;
    const Index bundle = number / BUNDLE;
    const int inside = static_cast<int>(number % BUNDLE);
    Item item[OF_LANE];
    do {
        const Word* from[OF_LANE];
#pragma unroll
        for (int i = 0; i < OF_LANE; i++) {
            const int k = i * FOLDED_BY + (FOLDED_BY > 1 ? lane_index() / COLUMNS : 0), unit = k - BUNDLES_AT_ONCE;
            const bool of_bundle = k < BUNDLES_AT_ONCE && bundles + k < bundle;
            const bool of_unit = k >= BUNDLES_AT_ONCE && unit < inside;
            from[i] = !exists     ? nullptr
                      : of_bundle ? work.of_bundle(strip, bundles + k, fold.column)
                      : of_unit   ? work.of_unit(strip, bundle * BUNDLE + unit, fold.column)
                                  : nullptr;
        }
        await(from, item, work.tickets.epoch());
#pragma unroll
        for (int k = 0; k < BUNDLES_AT_ONCE; k++) {
            if (bundles >= bundle) break;
            const Item bundle_item = folded_item(item, k, fold.column);
            if (fold.first) fold.template add<BUNDLE_BITS>(bundles * BUNDLE, bundle_item);
            bundles++;
        }
    } while (bundles < bundle);
    // A part of a bundle is added to blocks that the bundles leave free.
#pragma unroll
    for (int k = 0; k < TAIL; k++) {
        if (k >= inside) break;
        Item unit = folded_item(item, BUNDLES_AT_ONCE + k, fold.column);
        fold.blocks.template add<0>(k, unit);
    }
}

__device__ void fold_units(const Work& work, int folder) {
    // With several lanes to a column the last ones may have none.
    const int place = folder * LANES + lane_index(), last = COLUMNS - 1;
    const int column = FOLDED_BY > 1 ? place % COLUMNS : place < last ? place : last;
    const bool spare = place >= COLUMNS * FOLDED_BY;
    ColumnFold fold = {work.group_blocks, column, place < COLUMNS, {}, Prefix::nothing()};
    Index strip = -1, bundles = 0;
    for (int visit = 0; await_unit(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        const Index number = stage.unit.number;
        const bool exists = !spare && column < stage.unit.width;
        if (strip != stage.unit.strip) {
            strip = stage.unit.strip;
            bundles = 0;
            fold.begin();
        }
        fold_to(work, fold, bundles, strip, number, exists);
        const Prefix before_tile = fold.before_tile(number), before = fold.before_unit(number, before_tile);
        stage.published.wait(turn(visit));
        if (exists && fold.first) {
            stage.before[0][column] = before.item;
#pragma unroll 8
            for (int row = 1; row < ROWS; row++) {
                const Item item = fold.blocks.template before<0, UNIT_BITS>(number, stage.within[row - 1][column]);
                stage.before[row][column] = before_tile.followed_by(item);
            }
            stage.before[ROWS][column] = fold.through_unit(number, before_tile, stage.within[ROWS - 1][column]);
        }
        arrive_by_warp(stage.folded);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Scanners

__device__ Target target_of(const Work& work, const Unit& unit, const Span& span, Index begin) {
    char* first = unit.output + span.column * static_cast<int>(sizeof(Output));
    return Target(work.output, first, work.g, unit.line + span.column, begin);
}

__device__ void store_values(const Work& work, const Unit& unit, const Span& span, const Values& values) {
    const Target target = target_of(work, unit, span, unit.begin() + span.row * ROW + span.part * SPAN_STEPS + INITIAL);
#pragma unroll
    for (int k = 0; k < SPAN_STEPS; k++) {
        if (k >= span.count) continue;
        Value result[VECTOR];
        values.outputs_of(k, result);
        if constexpr (EXCHANGE) {
            Pack<Output, VECTOR> pack;
#pragma unroll
            for (int v = 0; v < VECTOR; v++) pack.element[v] = convert<Output>(result[v]);
            *reinterpret_cast<Pack<Output, VECTOR>*>(span.at(k)) = pack;
        } else {
            target.store(k, result);
        }
    }
}

// Stores the spans of a warp, which lie in a stage as they shall in memory.
__device__ void store_exchanged(const Work& work, const Unit& unit, char* data, int task) {
    struct __align__(EXCHANGE_BYTES) Bytes {
        char byte[EXCHANGE_BYTES];
    };
    constexpr int SPAN_BYTES = SPAN_STEPS * PITCH, ACROSS = (SPAN_BYTES + EXCHANGE_BYTES - 1) / EXCHANGE_BYTES;
    const Geometry& g = work.g;
#pragma unroll 8
    for (int i = lane_index(); i < SPANS_OF_WARP * ACROSS; i += LANES) {
        const int number = task * SPANS_OF_WARP + i / ACROSS, row = number % ROWS, first = number / ROWS * SPAN_STEPS;
        const int place = i % ACROSS * EXCHANGE_BYTES, left = unit.steps_of(row) - first;
        const int steps = left < SPAN_STEPS ? left : SPAN_STEPS, bytes = steps * PITCH;
        if (place >= bytes) continue;
        const int lowest = BACKWARD ? unit.steps_of(row) - first - steps : first;  // in the stage
        const Index number_of_lowest = unit.begin() + row * ROW + first + INITIAL + (REVERSE ? steps - 1 : 0);
        char* to = unit.output + g.output_axis.offset(along(number_of_lowest, g.length + INITIAL)) + place;
        const char* from = row_of_stage(data, row) + lowest * PITCH + place;
        if (place + EXCHANGE_BYTES <= bytes) {
            *reinterpret_cast<Bytes*>(to) = *reinterpret_cast<const Bytes*>(from);
        } else {
            for (int b = 0; place + b < bytes; b += SIZE) {
                *reinterpret_cast<Output*>(to + b) = *reinterpret_cast<const Output*>(from + b);
            }
        }
    }
}

__device__ void scan_units(const Work& work, int scanner) {
    for (int visit = 0; await_unit(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = stage.unit;
        stage.full.wait(turn(visit));  // known by now, but it is this wait that shows what the copies wrote
        stage.folded.wait(turn(visit));
#pragma unroll 1
        for (int task = scanner; task < TASKS; task += SCANNERS) {
            const Span span(unit, work.data(visit), task);
            if (span.exists) {
                if (INITIAL && unit.number == 0 && span.row == 0 && span.part == 0) {
                    target_of(work, unit, span, 0).store_initial();
                }
                Values values;
                values.load(span.count, [&](int k) { return *span.at(k); });
#pragma unroll
                for (int v = 0; v < VECTOR; v++) {
                    const int column = span.column + v;
                    const Prefix before_row = {stage.before[span.row][column], unit.number == 0 && span.row == 0};
                    const Left left(stage.part, span.row * PARTS + span.part, column);
                    values.scan(v, left, before_row, stage.before[span.row + 1][column]);
                }
                store_values(work, unit, span, values);
            }
            if constexpr (EXCHANGE) {
                __syncwarp();
                store_exchanged(work, unit, work.data(visit), task);
            }
        }
        if (EXCHANGE && LOAD == IN_BULK) fence_async_proxy();
        arrive_by_warp(stage.emptied);
    }
}

// ---------------------------------------------------------------------------------------------------------------------

__device__ void open(Stage& stage) {
    stage.taken.init(1);
    stage.full.init(LOAD == BY_ELEMENTS ? LOADERS : LOADERS * LANES);
    stage.summed.init(ADDERS);
    stage.published.init(1);
    stage.folded.init(FOLDERS);
    stage.emptied.init(SCANNERS + (BUNDLE > 1));
}

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 1)
scan_columns(const char* input, char* output, Word* control, Geometry g, Cut cut) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Stage stages[STAGES];
    __shared__ GroupBlocks group_blocks;
    __shared__ Word first;
    const int warp = static_cast<int>(threadIdx.x) / LANES;
    if (threadIdx.x == 0) first = Tickets::take_first(control);
    if (threadIdx.x == LANES) {
        for (int i = 0; i < STAGES; i++) open(stages[i]);
        if (LOAD != BY_ELEMENTS) fence_mbarrier_init();
    }
    __syncthreads();

    const Work work = {input, output, g, cut, stages, group_blocks, reinterpret_cast<char*>(dynamic_shared),
                       {control, first, Assignments::count_of(cut.strips)}};
    if (warp < FIRST_LOADER) take_units(work);
    else if (warp < FIRST_ADDER) load_units(work, threadIdx.x - FIRST_LOADER * LANES);
    else if (warp < PUBLISHER) add_units(work, warp - FIRST_ADDER);
    else if (warp == PUBLISHER) publish_units(work);
    else if (warp < FIRST_FOLDER) publish_bundles(work);
    else if (warp < FIRST_SCANNER) fold_units(work, warp - FIRST_FOLDER);
    else scan_units(work, warp - FIRST_SCANNER);
}
