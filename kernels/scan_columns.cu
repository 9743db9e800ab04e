// Running sums and products along an axis whose elements are not neighbours in memory: columns of a matrix.
//
// The columns are cut into strips of neighbours, and a strip, along the axis, into units. A strip is to this kernel what
// a line is to scan_stream.cu, and every block is an assembly line as there:
//
//     loaders       take a unit, and copy it into a stage                                          taken, full
//     adders        add up spans: some chunks of a column                                          summed
//     publisher     adds up the spans of each column pairwise, publishes the unit's aggregates     published
//     folders       fold the aggregates of all units before, which others published                folded
//     scanners      walk down the spans and store; the stage is free                               emptied
//
// Blocks and strips. Every column has an aggregate of its own, so folding costs as many words as a strip is wide for
// each unit that others work on meanwhile. Therefore blocks stick to a strip: they spread evenly over the strips, take
// units of theirs by a counter of the strip, and go on to the next strip when all units are taken. The last strips are
// shared by ever more blocks. Blocks of the same strip still may be all there are, so GROUP units together publish
// another aggregate of all of them: of n units in flight, a folder reads some n / GROUP + GROUP / 2 aggregates.
//
// Whoever waits, waits for a unit that was taken earlier, or for an earlier unit of its own block. So the unit taken
// first of all that are not done can always be finished, and blocks need not start in order, nor all at once.
//
// The tree (tree.cuh). All its levels have powers of two, so the aggregate of an aligned power of two of units is the
// same sum whatever levels it spans: a binary counter of such blocks is all that a folder has to keep. Only prefixes
// know of the levels: within one, the blocks are put before what follows one by one; then the levels are put together.
//
// Constants that the plan sets, beside those of scan.cuh:
//     COLUMNS, VECTOR         columns of a strip, and how many of them a thread moves in one access
//     SPAN, SPANS             chunks of a span, spans of a unit: powers of two, SPAN divides 32
//     GROUP                   units that publish an aggregate together: a power of two
//     GROUPS_AT_ONCE          aggregates of groups that a folder reads at a time
//     DENSE                   1: a strip is all there is beside the axis, so that a unit is contiguous
//     BULK, BULK_ALIGNED      1: one warp loads by bulk copies; whether all begin and end at multiples of 16 bytes
//     EXCHANGE, EXCHANGE_BYTES   1: outputs go through shared memory, to be stored by so many neighbouring bytes
//     STAGES, LOADERS, ADDERS, FOLDERS, SCANNERS   the last four in warps
// Dynamic shared memory: STAGES * STAGE_BYTES.
#include "gate.cuh"
#include "scan.cuh"
#include "stream.cuh"

using Staged = Select<BULK, Input, Value>::type;  // what a stage holds: ordinary loads convert on the way
using Gate = GateOf<BULK>::type;

__device__ constexpr int log2_of(int n) { return n <= 1 ? 0 : 1 + log2_of(n / 2); }

constexpr int SPAN_STEPS = SPAN * CHUNK, STEPS = SPANS * SPAN_STEPS;

// A stage consists of pieces, each with one bulk copy: a step, or a span where steps lie dense. In shared memory there
// is room for the 16 bytes that a copy may begin too early, and pieces of spans are apart by as many banks as a few
// columns take.
constexpr int PIECE_STEPS = DENSE ? SPAN_STEPS : 1, PIECES = STEPS / PIECE_STEPS;
constexpr int PIECE_BYTES = PIECE_STEPS * COLUMNS * static_cast<int>(sizeof(Staged));
constexpr bool SHIFTED = BULK && !BULK_ALIGNED;
constexpr int SPREAD_BYTES = DENSE ? (COLUMNS * static_cast<int>(sizeof(Staged)) + 15) / 16 * 16 % 128 : 0;
constexpr int PITCH = (PIECE_BYTES + 15) / 16 * 16 + (SHIFTED && SPREAD_BYTES == 0 ? 16 : SPREAD_BYTES);
constexpr int STAGE_BYTES = PIECES * PITCH;

// The bits of a unit's number, by the level of the tree: units of a row, rows of a tile, tiles of a group, groups.
constexpr int PART_BITS = SPANS * SPAN < RADIX ? log2_of(RADIX / (SPANS * SPAN)) : 0;
constexpr int ROWS = SPANS * SPAN < RADIX ? 1 : SPANS * SPAN / RADIX;
constexpr int ROW_BITS = log2_of(ROWS);  // of the rows within a unit
constexpr int TILE_BIT = PART_BITS + log2_of(TILE_ROWS) - ROW_BITS, GROUP_BIT = TILE_BIT + log2_of(RADIX);
constexpr int SHARED_BITS = log2_of(GROUP);
constexpr int FOLD_BITS = 26;

constexpr int SPANS_OF_ROW = SPANS * SPAN < RADIX ? SPANS : RADIX / SPAN, SPAN_BITS = log2_of(SPANS_OF_ROW);
constexpr int NODES = 2 * SPANS - 1, LEVELS = log2_of(SPANS);

// How lanes share the spans: VECTOR columns of one span each, or of as many as fit where strips are narrow.
constexpr int THREADS_ACROSS = COLUMNS / VECTOR;
constexpr int SPANS_OF_WARP = THREADS_ACROSS >= LANES ? 1 : 1 << log2_of(LANES / THREADS_ACROSS);
constexpr int WARPS_ACROSS = (THREADS_ACROSS + LANES - 1) / LANES;
constexpr int TASKS = SPANS / SPANS_OF_WARP * WARPS_ACROSS;

constexpr int PUBLISHER = LOADERS + ADDERS, FIRST_FOLDER = PUBLISHER + 1, FIRST_SCANNER = FIRST_FOLDER + FOLDERS,
              WARPS = FIRST_SCANNER + SCANNERS;
constexpr int FOLDED_COLUMNS = (COLUMNS + FOLDERS - 1) / FOLDERS;  // of each folder

static_assert(!SEGMENTED, "only lines have segments");
static_assert(COLUMNS % VECTOR == 0 && SPANS % SPANS_OF_WARP == 0 && FOLDED_COLUMNS <= LANES, "");
static_assert(SPANS * SPAN <= RADIX * TILE_ROWS && RADIX % SPAN == 0, "");
static_assert(!EXCHANGE || (sizeof(Output) == sizeof(Staged) && DENSE), "outputs take the place of inputs");

struct Cut {
    Index inner, across;   // columns that are neighbours in memory, strips of them
    Index strips, units;   // all strips, units of each
};

struct Unit {
    Index strip, number;  // none: number < 0

    __device__ bool exists() const { return number >= 0; }
    __device__ Index begin() const { return number * STEPS; }
    __device__ int count(Index length) const {
        return length - begin() < STEPS ? static_cast<int>(length - begin()) : STEPS;
    }
};

struct Stage {
    Gate taken, full, summed, published, folded, emptied;
    Unit unit;
    Item node[NODES][COLUMNS];      // aggregates of spans, of pairs of spans, and so on up to the unit's
    Item before[ROWS + 1][COLUMNS];  // prefixes of the rows of the unit, and of what follows
    Item part[PART_BITS + 1][COLUMNS];  // aggregates of parts of the row before the unit: 2^b units
};

struct Fold {
    Item block[FOLD_BITS][COLUMNS];  // of a column, where bit b of the number of units is set: the last 2^b before
};

// Node `i` of 2^level spans.
__device__ constexpr int node_number(int level, int i) { return 2 * SPANS - (2 * SPANS >> level) + i; }

struct Work {
    const char* input;
    char* output;
    const Geometry& g;
    const Cut& cut;
    Stage (&stages)[STAGES];
    Fold& fold;
    char* ring;
    Tickets tickets;

    __device__ Stage& stage(int visit) const { return stages[visit % STAGES]; }
    __device__ char* data(int visit) const { return ring + visit % STAGES * STAGE_BYTES; }

    __device__ Index first_line(Index strip) const { return strip / cut.across * cut.inner + strip % cut.across * COLUMNS; }
    __device__ int width(Index strip) const {
        if (DENSE) return COLUMNS;
        const Index left = cut.inner - strip % cut.across * COLUMNS;
        return left < COLUMNS ? static_cast<int>(left) : COLUMNS;
    }

    // Where the aggregate of a column of a unit, or of a group of units, is published.
    __device__ Word* of_unit(Index strip, Index unit, int column) const {
        return tickets.control + 1 + cut.strips + ((strip * cut.units + unit) * COLUMNS + column) * WORDS;
    }
    __device__ Word* of_group(Index strip, Index group, int column) const {
        if (GROUP == 1) return of_unit(strip, group, column);
        return of_unit(cut.strips, strip * (cut.units / GROUP) + group, column);
    }
};

// How often a stage was used before `visit`.
__device__ int turn(int visit) { return visit / STAGES; }

// ---------------------------------------------------------------------------------------------------------------------
// Which unit comes next. Tickets stand for assignments of a block to a strip: first each strip in turn, then again those
// that were begun last, as often as there may be blocks without work.

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

// The unit after `unit`; `assignment` is the block's present one.
__device__ Unit take(const Work& work, const Assignments& assignments, Index& assignment, Unit unit) {
    if (unit.exists()) unit.number = assignments.next(unit.strip);
    else unit.number = assignments.units;
    while (unit.number >= assignments.units) {
        if (unit.strip >= 0) assignment = work.tickets.next();
        if (assignment >= assignments.count) return {0, -1};
        unit.strip = assignments.strip(assignment);
        unit.number = assignments.first(unit.strip);
    }
    return unit;
}

// ---------------------------------------------------------------------------------------------------------------------
// Loaders

// A piece of a unit: the steps begin ... begin + count - 1 in the direction of traversal.
struct Piece {
    Index begin;
    int count;

    __device__ Piece(const Unit& unit, Index length, int number) : begin(unit.begin() + number * PIECE_STEPS) {
        const int left = unit.count(length) - number * PIECE_STEPS;
        count = left < PIECE_STEPS ? left : PIECE_STEPS;
    }
    __device__ Index lowest(Index length) const { return REVERSE ? length - begin - count : begin; }
};

__device__ const char* piece_address(const char* strip, const Geometry& g, const Piece& piece) {
    return strip + g.input_axis.offset(piece.lowest(g.length));
}

// How far behind its place in the stage a piece begins: bulk copies keep the place within 16 bytes.
__device__ int shift_of(const char* address) {
    return SHIFTED ? static_cast<int>(reinterpret_cast<unsigned long long>(address) % 16) : 0;
}

// By a warp. A copy takes the 16 bytes along in which a piece begins and ends, so both must lie in the array.
template <typename HardwareGate>
__device__ void copy_in_bulk(const Work& work, const Unit& unit, HardwareGate& full, char* data) {
    constexpr int PIECES_OF_LANE = (PIECES + LANES - 1) / LANES;
    const Geometry& g = work.g;
    const char* strip = work.input + g.input_line.offset(work.first_line(unit.strip));
    const char* end = work.input + g.input_line.offset(g.lines - 1) + g.input_axis.offset(g.length - 1) + sizeof(Input);
    const int step_bytes = work.width(unit.strip) * static_cast<int>(sizeof(Input));
    int size[PIECES_OF_LANE], sum = 0;
#pragma unroll
    for (int i = 0; i < PIECES_OF_LANE; i++) {
        const int number = i * LANES + lane_index();
        const Piece piece(unit, g.length, number);
        size[i] = 0;
        if (number >= PIECES || piece.count <= 0) continue;
        const char* from = piece_address(strip, g, piece);
        const int bytes = piece.count * step_bytes;
        if (!SHIFTED) {
            size[i] = bytes;
        } else if (from - shift_of(from) >= work.input && from + bytes + 15 < end) {
            size[i] = (shift_of(from) + bytes + 15) / 16 * 16;
        } else {
            char* to = data + number * PITCH + shift_of(from);
            for (int b = 0; b < bytes; b += static_cast<int>(sizeof(Input))) {
                *reinterpret_cast<Input*>(to + b) = *reinterpret_cast<const Input*>(from + b);
            }
        }
        sum += size[i];
    }
    full.arrive_for_copies(sum);
#pragma unroll
    for (int i = 0; i < PIECES_OF_LANE; i++) {
        const int number = i * LANES + lane_index();
        if (size[i] == 0) continue;
        const char* from = piece_address(strip, g, Piece(unit, g.length, number));
        full.copy(data + number * PITCH, from - shift_of(from), size[i]);
    }
}

// By all loaders.
__device__ void copy_by_elements(const Work& work, const Unit& unit, Gate& full, char* data, int thread) {
    constexpr int AT_ONCE = 8, THREADS = LOADERS * LANES;
    const Geometry& g = work.g;
    const Index first = work.first_line(unit.strip);
    const int width = work.width(unit.strip), count = unit.count(g.length) * COLUMNS;
    for (int i = thread; i < count; i += AT_ONCE * THREADS) {
        Value element[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int step = (i + k * THREADS) / COLUMNS, column = (i + k * THREADS) % COLUMNS;
            if (i + k * THREADS >= count || column >= width) continue;
            const char* from = work.input + g.input_line.offset(first + column) +
                               g.input_axis.offset(along(unit.begin() + step, g.length));
            element[k] = convert<Value>(load_element<Input, INPUT_ALIGNED>(from));
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int step = (i + k * THREADS) / COLUMNS, column = (i + k * THREADS) % COLUMNS;
            if (i + k * THREADS >= count || column >= width) continue;
            const Piece piece(unit, g.length, step / PIECE_STEPS);
            const int place = REVERSE ? piece.count - 1 - step % PIECE_STEPS : step % PIECE_STEPS;
            reinterpret_cast<Staged*>(data + step / PIECE_STEPS * PITCH)[place * COLUMNS + column] =
                convert<Staged>(element[k]);
        }
    }
    __syncwarp();
    if (lane_index() == 0) full.arrive();
}

__device__ void load_units(const Work& work, int thread) {
    const Assignments assignments(work);
    Index assignment = work.tickets.of_block();
    Unit unit = {-1, -1};
    if (thread == 0) unit = take(work, assignments, assignment, unit);
    for (int visit = 0;; visit++) {
        Stage& stage = work.stage(visit);
        if (thread == 0) {
            if (visit >= STAGES) stage.emptied.wait(turn(visit) - 1);
            stage.unit = unit;
            stage.taken.arrive();
        }
        stage.taken.wait(turn(visit));
        const Unit present = stage.unit;
        if (!present.exists()) break;
        if constexpr (BULK) copy_in_bulk(work, present, stage.full, work.data(visit));
        else copy_by_elements(work, present, stage.full, work.data(visit), thread);
        if (thread == 0) unit = take(work, assignments, assignment, unit);
    }
    if (thread == 0) work.tickets.prepare_next_launch(assignment);
}

// ---------------------------------------------------------------------------------------------------------------------
// Spans. Adders and scanners take tasks: the spans of a warp, VECTOR columns in each thread.

using StagedPack = Pack<Staged, VECTOR>;

// A span of some columns in a stage: where this thread's elements are.
struct Span {
    int number, column;  // the first column
    bool exists;
    char* first;  // of the stage's pieces
    int count;    // steps

    __device__ Span(const Work& work, const Unit& unit, char* data, int task) {
        const int place = WARPS_ACROSS > 1 ? task % WARPS_ACROSS * LANES + lane_index() : lane_index();
        number = task / WARPS_ACROSS * SPANS_OF_WARP + (SPANS_OF_WARP > 1 ? place / THREADS_ACROSS : 0);
        column = (SPANS_OF_WARP > 1 ? place % THREADS_ACROSS : place) * VECTOR;
        exists = column < work.width(unit.strip) && (SPANS_OF_WARP == 1 || place < SPANS_OF_WARP * THREADS_ACROSS);
        const int left = unit.count(work.g.length) - number * SPAN_STEPS;
        count = left < 0 ? 0 : left < SPAN_STEPS ? left : SPAN_STEPS;
        first = data + number * (SPAN_STEPS / PIECE_STEPS) * PITCH;
    }
};

// The place of an element of the span.
__device__ char* place_in_span(const Work& work, const Unit& unit, const Span& span, const char* strip, int step) {
    const int across = span.column * static_cast<int>(sizeof(Staged));
    const Piece piece(unit, work.g.length, (span.number * SPAN_STEPS + step) / PIECE_STEPS);
    const int shift = SHIFTED ? shift_of(piece_address(strip, work.g, piece)) : 0;
    if (!DENSE) return span.first + step * PITCH + shift + across;
    const int place = REVERSE ? piece.count - 1 - step : step;
    return span.first + shift + place * COLUMNS * static_cast<int>(sizeof(Staged)) + across;
}

struct Values {
    Accumulator value[SPAN][CHUNK][VECTOR];

    __device__ void load(const Work& work, const Unit& unit, const Span& span) {
        const char* strip = work.input + (SHIFTED ? work.g.input_line.offset(work.first_line(unit.strip)) : 0);
        StagedPack pack[SPAN_STEPS];
        if (span.count == SPAN_STEPS) {
#pragma unroll
            for (int k = 0; k < SPAN_STEPS; k++) {
                pack[k] = *reinterpret_cast<const StagedPack*>(place_in_span(work, unit, span, strip, k));
            }
#pragma unroll
            for (int k = 0; k < SPAN_STEPS; k++) {
#pragma unroll
                for (int v = 0; v < VECTOR; v++) {
                    value[k / CHUNK][k % CHUNK][v] = widen(convert<Value>(pack[k].element[v]));
                }
            }
            return;
        }
#pragma unroll
        for (int k = 0; k < SPAN_STEPS; k++) {
#pragma unroll
            for (int v = 0; v < VECTOR; v++) value[k / CHUNK][k % CHUNK][v] = Operation::template neutral<Accumulator>();
            if (k < span.count) {
                pack[k] = *reinterpret_cast<const StagedPack*>(place_in_span(work, unit, span, strip, k));
#pragma unroll
                for (int v = 0; v < VECTOR; v++) {
                    value[k / CHUNK][k % CHUNK][v] = widen(convert<Value>(pack[k].element[v]));
                }
            }
        }
    }

    __device__ Chunk chunk(int i, int v) const {
        Chunk chunk;
#pragma unroll
        for (int j = 0; j < CHUNK; j++) chunk.value[j] = value[i][j][v];
        chunk.scan({}, 0);
        return chunk;
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Adders

__device__ void add_units(const Work& work, int adder) {
    for (int visit = 0;; visit++) {
        Stage& stage = work.stage(visit);
        stage.taken.wait(turn(visit));
        const Unit unit = stage.unit;
        if (!unit.exists()) break;
        stage.full.wait(turn(visit));
#pragma unroll 1
        for (int task = adder; task < TASKS; task += ADDERS) {
            const Span span(work, unit, work.data(visit), task);
            if (!span.exists) continue;
            Values values;
            values.load(work, unit, span);
#pragma unroll
            for (int v = 0; v < VECTOR; v++) {
                SerialPrefix<Item> over_chunks;
                Item total;
#pragma unroll
                for (int i = 0; i < SPAN; i++) total = over_chunks.next(i, values.chunk(i, v).total());
                stage.node[span.number][span.column + v] = total;
            }
        }
        __syncwarp();
        if (lane_index() == 0) stage.summed.arrive();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Publisher

// The aggregates of the units of a group but the last, as far as they lie before a unit.
struct GroupUnits {
    static constexpr int COUNT = GROUP > 1 ? GROUP - 1 : 1;
    Item block[SHARED_BITS + 1];  // where bit b of the number of units is set: the last 2^b

    __device__ void add(const Item (&item)[COUNT], int count) {
#pragma unroll
        for (int k = 0; k < GROUP - 1; k++) {
            if (k >= count) break;
            Item sum = item[k];
#pragma unroll
            for (int b = 0; b < SHARED_BITS; b++) {
                if (k >> b & 1) {
                    sum = combine(block[b], sum);
                } else {
                    block[b] = sum;
                    break;
                }
            }
        }
    }
};

__device__ void add_spans(Stage& stage, int width) {
    const int lane = lane_index();
#pragma unroll
    for (int level = 1; level <= LEVELS; level++) {
#pragma unroll 4
        for (int i = lane; i < (SPANS >> level) * COLUMNS; i += LANES) {
            const int number = i / COLUMNS, column = i % COLUMNS;
            if (column >= width) continue;
            stage.node[node_number(level, number)][column] =
                combine(stage.node[node_number(level - 1, 2 * number)][column],
                        stage.node[node_number(level - 1, 2 * number + 1)][column]);
        }
        __syncwarp();
    }
}

// By all lanes, of which some may have no column.
__device__ void publish_group(const Work& work, const Unit& unit, int column, bool exists, Item own) {
    const Word* from[GroupUnits::COUNT];
    Item item[GroupUnits::COUNT];
#pragma unroll
    for (int k = 0; k < GroupUnits::COUNT; k++) {
        from[k] = exists ? work.of_unit(unit.strip, unit.number - (GROUP - 1) + k, column) : nullptr;
    }
    await(from, item, work.tickets.epoch());
    GroupUnits units;
    units.add(item, GROUP - 1);
#pragma unroll
    for (int b = 0; b < SHARED_BITS; b++) own = combine(units.block[b], own);
    if (exists) publish(work.of_group(unit.strip, unit.number / GROUP, column), own, work.tickets.epoch());
}

__device__ void publish_units(const Work& work) {
    constexpr int TURNS = (COLUMNS + LANES - 1) / LANES;
    for (int visit = 0;; visit++) {
        Stage& stage = work.stage(visit);
        stage.taken.wait(turn(visit));
        const Unit unit = stage.unit;
        if (!unit.exists()) break;
        stage.summed.wait(turn(visit));
        const int width = work.width(unit.strip);
        add_spans(stage, width);
        const bool wanted = unit.number + 1 < work.cut.units;
        Item own[TURNS];
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            const int column = t * LANES + lane_index();
            own[t] = neutral_item();
            if (column < width) own[t] = stage.node[NODES - 1][column];
            if (column < width && wanted) publish(work.of_unit(unit.strip, unit.number, column), own[t], work.tickets.epoch());
        }
        __syncwarp();
        if (lane_index() == 0) stage.published.arrive();
        if constexpr (GROUP > 1) {
            if (!wanted || unit.number % GROUP != GROUP - 1) continue;
#pragma unroll
            for (int t = 0; t < TURNS; t++) {
                const int column = t * LANES + lane_index();
                publish_group(work, unit, column, column < width, own[t]);
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Folders: each has some neighbouring columns, a lane for each.

// What a folder has folded of a strip: its first `groups` groups of units.
struct Progress {
    Index strip, groups;
};

// Brings the fold of a column up to date: the blocks of bit b of the unit's number, for all bits. By all lanes.
__device__ void fold_to(const Work& work, Progress& progress, const Unit& unit, int column, bool exists) {
    if (progress.strip != unit.strip) progress = {unit.strip, 0};
    Fold& fold = work.fold;
    const Index group = unit.number / GROUP;
    const int inside = static_cast<int>(unit.number % GROUP);
    Item item[GROUPS_AT_ONCE + GROUP - 1];
    do {
        const Word* from[GROUPS_AT_ONCE + GROUP - 1];
#pragma unroll
        for (int k = 0; k < GROUPS_AT_ONCE; k++) {
            const bool wanted = exists && progress.groups + k < group;
            from[k] = wanted ? work.of_group(unit.strip, progress.groups + k, column) : nullptr;
        }
#pragma unroll
        for (int k = 0; k < GROUP - 1; k++) {
            const bool wanted = exists && k < inside;
            from[GROUPS_AT_ONCE + k] = wanted ? work.of_unit(unit.strip, group * GROUP + k, column) : nullptr;
        }
        await(from, item, work.tickets.epoch());
#pragma unroll
        for (int k = 0; k < GROUPS_AT_ONCE; k++) {
            if (progress.groups >= group) break;
            Item sum = item[k];
            int b = SHARED_BITS;
            for (; progress.groups >> (b - SHARED_BITS) & 1; b++) {
                if (exists) sum = combine(fold.block[b][column], sum);
            }
            if (exists) fold.block[b][column] = sum;
            progress.groups++;
        }
    } while (progress.groups < group);

    Item of_units[GroupUnits::COUNT];
#pragma unroll
    for (int k = 0; k < GROUP - 1; k++) of_units[k] = item[GROUPS_AT_ONCE + k];
    GroupUnits units;
    units.add(of_units, inside);
#pragma unroll
    for (int b = 0; b < SHARED_BITS; b++) {
        if (exists && (inside >> b & 1)) fold.block[b][column] = units.block[b];
    }
}

// A prefix within one level, from its last block to its first.
struct LevelPrefix {
    Item item;
    bool exists;

    __device__ LevelPrefix() : item(neutral_item()), exists(false) {}
    __device__ void put_before(Item block) {
        item = exists ? combine(block, item) : block;
        exists = true;
    }
    // The blocks of the bits first ... end - 1 of the number of units.
    __device__ void put_before(const Fold& fold, int column, Index units, int first, int end) {
#pragma unroll 4
        for (int b = first; b < end; b++) {
            if (units >> b & 1) put_before(fold.block[b][column]);
        }
    }
};

__device__ int bits_of(Index number) {
    int bits = 0;
    while (number >> bits) bits++;
    return bits;
}

// The prefix of a column before row `row` of a unit, which may be the row behind the last.
__device__ Prefix before_row(const Stage& stage, const Fold& fold, const Unit& unit, int row, int column) {
    const bool behind = row == ROWS;
    const Index units = unit.number + (behind ? 1 : 0);
    LevelPrefix rows, tiles, groups;
    if (behind) {  // the unit completes the block of the lowest bit that it sets; all below are complete, and are in it
        Item sum = stage.node[NODES - 1][column];
        int b = 0;
        for (; unit.number >> b & 1; b++) sum = combine(fold.block[b][column], sum);
        if (b < TILE_BIT) rows.put_before(sum);
        else if (b < GROUP_BIT) tiles.put_before(sum);
        else groups.put_before(sum);
        const int next = b + 1;
        if (b < TILE_BIT) rows.put_before(fold, column, units, next, TILE_BIT);
        if (b < GROUP_BIT) tiles.put_before(fold, column, units, next > TILE_BIT ? next : TILE_BIT, GROUP_BIT);
        groups.put_before(fold, column, units, next > GROUP_BIT ? next : GROUP_BIT, bits_of(units));
    } else {
#pragma unroll
        for (int b = 0; b < ROW_BITS; b++) {
            if (row >> b & 1) rows.put_before(stage.node[node_number(LEVELS - ROW_BITS + b, (row >> b) - 1)][column]);
        }
        rows.put_before(fold, column, units, PART_BITS, TILE_BIT);
        tiles.put_before(fold, column, units, TILE_BIT, GROUP_BIT);
        groups.put_before(fold, column, units, GROUP_BIT, bits_of(units));
    }
    Prefix prefix = Prefix::nothing();
    prefix.append(groups.item, groups.exists);
    prefix.append(tiles.item, tiles.exists);
    prefix.append(rows.item, rows.exists);
    return prefix;
}

__device__ void fold_units(const Work& work, int folder) {
    const int lane = lane_index(), first = folder * FOLDED_COLUMNS;
    Progress progress = {-1, 0};
    for (int visit = 0;; visit++) {
        Stage& stage = work.stage(visit);
        stage.taken.wait(turn(visit));
        const Unit unit = stage.unit;
        if (!unit.exists()) break;
        const int end = first + FOLDED_COLUMNS < work.width(unit.strip) ? first + FOLDED_COLUMNS : work.width(unit.strip);
        __syncwarp();  // all lanes have read what is folded anew
        fold_to(work, progress, unit, first + lane, first + lane < end);
        stage.published.wait(turn(visit));
        __syncwarp();
        const bool ends_row = PART_BITS == 0 || ((unit.number + 1) & ((1 << PART_BITS) - 1)) == 0;
        for (int i = lane; i < (ROWS + ends_row) * FOLDED_COLUMNS; i += LANES) {
            const int row = i / FOLDED_COLUMNS, column = first + i % FOLDED_COLUMNS;
            if (column < end) stage.before[row][column] = before_row(stage, work.fold, unit, row, column).item;
        }
        if (first + lane < end) {
#pragma unroll
            for (int b = 0; b < PART_BITS; b++) {
                if (unit.number >> b & 1) stage.part[b][first + lane] = work.fold.block[b][first + lane];
            }
        }
        __syncwarp();
        if (lane == 0) stage.folded.arrive();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Scanners

// The blocks of chunks that lie before a span in its row.
struct Left {
    static constexpr int BITS = SPAN_BITS + PART_BITS;
    Item block[BITS + 1];
    int number;  // of the span in its row

    __device__ Left(const Stage& stage, const Unit& unit, int span, int column) {
        number = span % SPANS_OF_ROW + static_cast<int>(unit.number & ((1 << PART_BITS) - 1)) * SPANS_OF_ROW;
#pragma unroll
        for (int b = 0; b < BITS; b++) {
            if (!(number >> b & 1)) continue;
            block[b] = b < SPAN_BITS ? stage.node[node_number(b < SPAN_BITS ? b : 0, (span >> b) - 1)][column]
                                     : stage.part[b < SPAN_BITS ? 0 : b - SPAN_BITS][column];
        }
    }

    __device__ bool last() const { return number == RADIX / SPAN - 1; }

    // The prefix within the row of something that has `item` within the span.
    __device__ Item followed_by(Item item) const {
#pragma unroll
        for (int b = 0; b < BITS; b++) {
            if (number >> b & 1) item = combine(block[b], item);
        }
        return item;
    }

    __device__ LevelPrefix before() const {
        LevelPrefix prefix;
#pragma unroll
        for (int b = 0; b < BITS; b++) {
            if (number >> b & 1) prefix.put_before(block[b]);
        }
        return prefix;
    }
};

// Where the outputs of VECTOR columns go.
struct Target {
    char* column[VECTOR];  // their first element in memory

    __device__ Target(const Work& work, const Unit& unit, int column_of_strip) {
        const Index line = work.first_line(unit.strip) + column_of_strip;
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            column[v] = work.output + (v == 0 || !OUTPUT_PACKED ? work.g.output_line.offset(line + v) : 0);
        }
    }

    __device__ void store(const Geometry& g, Index number, const Value (&result)[VECTOR]) const {
        const Index offset = g.output_axis.offset(along(number, g.length + INITIAL));
        if (OUTPUT_PACKED) {
            Pack<Output, VECTOR> pack;
#pragma unroll
            for (int v = 0; v < VECTOR; v++) pack.element[v] = convert<Output>(result[v]);
            *reinterpret_cast<Pack<Output, VECTOR>*>(column[0] + offset) = pack;
        } else {
#pragma unroll
            for (int v = 0; v < VECTOR; v++) store_element<OUTPUT_ALIGNED>(column[v] + offset, convert<Output>(result[v]));
        }
    }
};

__device__ void scan_span(const Work& work, const Stage& stage, const Unit& unit, const Span& span) {
    const Geometry& g = work.g;
    const int row = span.number / SPANS_OF_ROW;
    const Index begin = unit.begin() + span.number * SPAN_STEPS;
    const Target target(work, unit, span.column);
    if (INITIAL && begin == 0) {
        Value first[VECTOR];
        for (int v = 0; v < VECTOR; v++) first[v] = convert<Value>(Operation::template first<Accumulator>());
        target.store(g, 0, first);
    }
    Values values;
    values.load(work, unit, span);
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
        const int column = span.column + v;
        const Left left(stage, unit, span.number, column);
        const Prefix before_row = {stage.before[row][column], unit.number >> PART_BITS == 0 && row == 0};
        Prefix before = before_row;
        before.append(left.before().item, left.before().exists);
        SerialPrefix<Item> over_chunks;
#pragma unroll
        for (int i = 0; i < SPAN; i++) {
            Chunk chunk = values.chunk(i, v);
            const Item inside = left.followed_by(over_chunks.next(i, chunk.total()));
            Item after = before_row.followed_by(inside);
            if (i == SPAN - 1 && left.last()) after = stage.before[row + 1][column];
            chunk.finish(before, after, {}, 0);
            before = {after, false};
#pragma unroll
            for (int j = 0; j < CHUNK; j++) values.value[i][j][v] = chunk.value[j];
        }
    }
    const char* strip = work.input + (SHIFTED ? g.input_line.offset(work.first_line(unit.strip)) : 0);
#pragma unroll
    for (int k = 0; k < SPAN_STEPS; k++) {
        if (k >= span.count) continue;
        Value result[VECTOR];
#pragma unroll
        for (int v = 0; v < VECTOR; v++) result[v] = convert<Value>(values.value[k / CHUNK][k % CHUNK][v]);
        if constexpr (EXCHANGE) {
            Pack<Output, VECTOR> pack;
            for (int v = 0; v < VECTOR; v++) pack.element[v] = convert<Output>(result[v]);
            *reinterpret_cast<Pack<Output, VECTOR>*>(place_in_span(work, unit, span, strip, k)) = pack;
        } else {
            target.store(g, begin + k + INITIAL, result);
        }
    }
}

// Stores the spans of a warp, which lie in a stage as they shall in memory.
__device__ void store_exchanged(const Work& work, const Unit& unit, const char* data, int task) {
    constexpr int SIZE = static_cast<int>(sizeof(Output));
    const Geometry& g = work.g;
    struct __align__(EXCHANGE_BYTES) Bytes {
        char byte[EXCHANGE_BYTES];
    };
    constexpr int ACROSS = (PIECE_BYTES + EXCHANGE_BYTES - 1) / EXCHANGE_BYTES, ALL = SPANS_OF_WARP * ACROSS;
    char* output = work.output + g.output_line.offset(work.first_line(unit.strip));
    const char* input = work.input + (SHIFTED ? g.input_line.offset(work.first_line(unit.strip)) : 0);
#pragma unroll 8
    for (int i = lane_index(); i < ALL; i += LANES) {
        const int number = task * SPANS_OF_WARP + i / ACROSS, place = i % ACROSS * EXCHANGE_BYTES;
        const Piece piece(unit, g.length, number);
        const int bytes = piece.count * COLUMNS * SIZE;
        if (place >= bytes) continue;
        char* to = output + g.output_axis.offset(along(piece.begin + INITIAL + (REVERSE ? piece.count - 1 : 0), g.length + INITIAL)) + place;
        const char* from = data + number * PITCH + (SHIFTED ? shift_of(piece_address(input, g, piece)) : 0) + place;
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
    for (int visit = 0;; visit++) {
        Stage& stage = work.stage(visit);
        stage.taken.wait(turn(visit));
        const Unit unit = stage.unit;
        if (!unit.exists()) break;
        stage.full.wait(turn(visit));  // known by now, but it is this wait that shows what the copy engine wrote
        stage.folded.wait(turn(visit));
#pragma unroll 1
        for (int task = scanner; task < TASKS; task += SCANNERS) {
            const Span span(work, unit, work.data(visit), task);
            if (span.exists) scan_span(work, stage, unit, span);
            if constexpr (EXCHANGE) {
                __syncwarp();
                store_exchanged(work, unit, work.data(visit), task);
            }
        }
        if (EXCHANGE && BULK) fence_async_proxy();
        __syncwarp();
        if (lane_index() == 0) stage.emptied.arrive();
    }
}

// ---------------------------------------------------------------------------------------------------------------------

__device__ void open(Stage& stage) {
    stage.taken.init(1);
    stage.full.init(BULK ? LANES : LOADERS);
    stage.summed.init(ADDERS);
    stage.published.init(1);
    stage.folded.init(FOLDERS);
    stage.emptied.init(SCANNERS);
}

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 1)
scan_columns(const char* input, char* output, Word* control, Geometry g, Cut cut) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Stage stages[STAGES];
    __shared__ Fold fold;
    __shared__ Word first;
    const int warp = static_cast<int>(threadIdx.x) / LANES;
    if (threadIdx.x == 0) first = Tickets::take_first(control);
    if (threadIdx.x == LANES) {
        for (int i = 0; i < STAGES; i++) open(stages[i]);
        if (BULK) fence_mbarrier_init();
    }
    __syncthreads();

    const Work work = {input, output, g, cut, stages, fold, reinterpret_cast<char*>(dynamic_shared),
                       {control, first, Assignments::count_of(cut.strips)}};
    if (warp < LOADERS) load_units(work, threadIdx.x);
    else if (warp < PUBLISHER) add_units(work, warp - LOADERS);
    else if (warp == PUBLISHER) publish_units(work);
    else if (warp < FIRST_SCANNER) fold_units(work, warp - FIRST_FOLDER);
    else scan_units(work, warp - FIRST_SCANNER);
}
