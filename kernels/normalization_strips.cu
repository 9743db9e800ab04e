// Normalization of large groups that lie side by side, columns of a matrix: read once (normalization_ring.cuh).
//
// A bundle is a strip of COLUMNS neighbours, a unit STEPS rows of it. When the last piece of a strip is published, each
// of its columns has still to be folded, by one block for all: then that block's warp publishes how it is normalized.
// What is published is 3 % of what is loaded, or 6 % of halves, and best kept in the cache: of (4096, 65536) floats it
// took an H200 from 0.617 ms to 0.590 ms.
//
// Constants that the plan sets, beside those of normalization_ring.cuh:
//     STEPS                         rows of a unit, a power of two
//     AWAITERS                      warps that wait until all columns are folded
//     VECTOR                        columns that a lane normalizes: a warp has all COLUMNS
//     COPY_BYTES                    of a copy that a loader does not wait for (cp.async)
//     OUTPUT_PACKED                 the outputs of VECTOR columns lie dense and aligned
//     SCALE_ACROSS, BIAS_ACROSS     0: the same for the VECTOR columns, 1: of each its own
#include "normalization.cuh"

constexpr Index UNIT = STEPS;
constexpr int SIZE = static_cast<int>(sizeof(Input)), PITCH = COLUMNS * SIZE, STAGE_BYTES = STEPS * PITCH;

#include "normalization_ring.cuh"

constexpr int FIRST_ADDER = LOADERS, FIRST_FOLDER = FIRST_ADDER + ADDERS, FIRST_AWAITER = FIRST_FOLDER + FOLDERS,
              FIRST_NORMALIZER = FIRST_AWAITER + AWAITERS, WARPS = FIRST_NORMALIZER + NORMALIZERS;
constexpr int INNER = KEPT_RANK - 1;

static_assert(COLUMNS == VECTOR * LANES, "a warp has the columns of a strip");
static_assert(STEPS % NORMALIZERS == 0, "all normalizers have as many rows of all units");

// What is known of a piece of this block: that it is summed, and how its columns are normalized. Slots come round:
// before the last unit of a piece is loaded, all normalizers have left the unit that was STAGES before it, and so have
// read what is known of that unit's piece. Hence nobody is a use of a slot ahead of those who wait at it.
struct Known {
    Gate summed, ready;
    Normal normal[COLUMNS];
};

constexpr int SLOTS = STAGES / PIECE;

struct AllKnown {
    Known slot[SLOTS];

    __device__ Known& of(int number) { return slot[number % SLOTS]; }
};

__device__ int use_of_known(int number) { return number / SLOTS; }

// ---------------------------------------------------------------------------------------------------------------------
// Loaders: each thread has the same place in every DOWN-th row. Rows that do not exist become copies of the first, that
// add nothing: x - shift is 0, unless the first is not finite, and then the sums are not either. Columns that do not
// exist become copies of others, so that nobody reads what was never written.

__device__ void load_units(const Work& work) {
    constexpr int ACROSS = PITCH / COPY_BYTES, DOWN = LOADERS * LANES / ACROSS;
    static_assert(LOADERS * LANES % ACROSS == 0 && STEPS % DOWN == 0, "");
    const int thread = static_cast<int>(threadIdx.x);
    const int place = thread % ACROSS * COPY_BYTES, first = thread / ACROSS;
    for (Turn<> turn(work.cut); turn.exists(); turn.advance()) {
        const bool exists = place < work.width(turn.bundle) * SIZE;
        const char* from = work.group(turn.bundle).input + (exists ? place : 0);
        for (int i = 0; i < PIECE; i++) {
            const Unit unit = work.unit(turn, i);
            char* to = work.data(unit.visit) + place;
            await_emptied(work, unit.visit);
#pragma unroll 4
            for (int step = first; step < STEPS; step += DOWN) {
                const Index offset = work.g.reduced.offsets(step < unit.count ? unit.begin + step : 0).of[OF_INPUT];
                copy_async<COPY_BYTES>(to + step * PITCH, from + offset);
            }
            work.stage(unit.visit).full.arrive_after_copies();
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Adders: a team of them has all columns, each lane one. Teams take turns with the pieces, but all wait for every unit,
// so that none is a use of a stage ahead.

constexpr int TEAM = COLUMNS / LANES, TEAMS = ADDERS / TEAM;

static_assert(ADDERS % TEAM == 0, "teams are whole");

// Chunks that are loaded and converted side by side: with fewer a unit takes longer, with more the compiler does.
constexpr int CHUNKS = STEPS / CHUNK, BATCH = CHUNKS < 8 ? CHUNKS : 8, BATCHES = CHUNKS / BATCH;

// The sums of a column in COUNT chunks.
template <int COUNT> __device__ Sums sum_of_chunks(const char* data, const Shift& shift) {
    if constexpr (COUNT > 1) {
        constexpr int HALF = COUNT / 2;
        const Sums sums = sum_of_chunks<HALF>(data, shift);
        return combine(sums, sum_of_chunks<HALF>(data + HALF * CHUNK * PITCH, shift));
    } else {
        Pack<Input, CHUNK> chunk;
#pragma unroll
        for (int j = 0; j < CHUNK; j++) chunk.element[j] = *reinterpret_cast<const Input*>(data + j * PITCH);
        return sum_of(chunk, shift.value);
    }
}

__device__ Input first_element(const Work& work, const Turn<>& turn, int team, int column) {
    const bool wanted = turn.exists() && turn.number % TEAMS == team && column < work.width(turn.bundle);
    return wanted ? load_input(work.group(turn.bundle, column), work.g, 0) : Input();
}

__device__ void add_units(const Work& work, AllKnown& known, int adder) {
    const int team = adder / TEAM, column = adder % TEAM * LANES + lane_index();
    Turn<> turn(work.cut);
    Input next = first_element(work, turn, team, column);
    while (turn.exists()) {
        const Shift shift(next);
        const bool mine = turn.number % TEAMS == team, exists = column < work.width(turn.bundle);
        Turn<> after = turn;
        after.advance();
        next = first_element(work, after, team, column);  // a turn before it is needed
        const Slot slot = work.slot(turn.bundle);
        PieceSum<PIECE * BATCHES> over_batches;
        Sums total = {};
        for (int i = 0; i < PIECE; i++) {
            const Unit unit = work.unit(turn, i);
            Stage& stage = work.stage(unit.visit);
            stage.full.wait(use_of(unit.visit));
            if (!mine) {
                arrive_by_warp(stage.emptied);
                continue;
            }
            const char* data = work.data(unit.visit) + column * SIZE;
#pragma unroll 1
            for (int batch = 0; batch < BATCHES; batch++, data += BATCH * CHUNK * PITCH) {
                total = over_batches.next(i * BATCHES + batch, sum_of_chunks<BATCH>(data, shift));
            }
            if (i == PIECE - 1 && exists) {
                work.fence();
                publish<true>(slot.sums(column, turn.piece), total, slot.epoch, slot.sums_apart);
            }
            arrive_by_warp(stage.emptied);
        }
        if (mine) arrive_by_warp(known.of(turn.number).summed);
        turn = after;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Folders: as many columns at once as a warp has lanes for, neighbours of which share a column's pieces.

__device__ void fold_columns(const Work& work, AllKnown& known, int folder) {
    const Index pieces = work.cut.pieces;
    int across = 1;
    while (across < LANES && across * pieces < COLUMNS) across *= 2;
    const Index share = share_of(pieces, LANES / across);
    for (Turn<FOLDERS> turn(work.cut, folder); turn.exists(); turn.advance()) {
        const int width = work.width(turn.bundle);
        const Slot slot = work.slot(turn.bundle);
        if (turn.piece * across >= width) continue;
        known.of(turn.number).summed.wait(use_of_known(turn.number));  // by now the other blocks are about to publish
        for (Index begin = turn.piece * across; begin < width; begin += pieces * across) {
            const int column = static_cast<int>(begin) + lane_index() % across;
            const bool exists = column < width, publishes = exists && lane_index() < across;
            const Arrays group = work.group(turn.bundle, exists ? column : 0);
            const Shift shift(publishes ? load_input(group, work.g, 0) : Input());
            const Index first = exists ? lane_index() / across * share : pieces;
            const Sums sums = lane_sum(fold(slot, pieces, column, first, share), across);
            const Moments moments = moments_of(sums, shift.value, work.p);
            const Normal normal = Normal::of(moments, work.p);
            work.fence();  // behind what the lanes have seen
            __syncwarp();
            work.fence();  // and before what some of them publish
            if (!publishes) continue;
            publish<true>(slot.normal(column), normal, slot.epoch, COLUMNS);
            if (work.arrays.mean) store_moments(group, moments, work.p);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Awaiters

__device__ void await_columns(const Work& work, AllKnown& all_known, int awaiter) {
    for (Turn<AWAITERS> turn(work.cut, awaiter); turn.exists(); turn.advance()) {
        const int width = work.width(turn.bundle);
        Known& known = all_known.of(turn.number);
        known.summed.wait(use_of_known(turn.number));  // no column can be known before
        const Slot slot = work.slot(turn.bundle);
        const Word* from[TEAM];
        Normal normal[TEAM];
#pragma unroll
        for (int k = 0; k < TEAM; k++) {
            const int column = k * LANES + lane_index();
            from[k] = column < width ? slot.normal(column) : nullptr;
        }
        await_first(from[0], slot.epoch);
        await(from, normal, slot.epoch, Normal{}, COLUMNS);
        work.fence();
#pragma unroll
        for (int k = 0; k < TEAM; k++) known.normal[k * LANES + lane_index()] = normal[k];
        arrive_by_warp(known.ready);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Normalizers: each has every NORMALIZERS-th row.

using Elements = Pack<Input, VECTOR>;

// Scale or bias of the lane's columns, in one row.
template <typename Stored, int ARRAY, int KIND, bool ALIGNED, bool EACH> struct RowOperand {
    static constexpr int WIDE = EACH && KIND != OF_ALL ? VECTOR : 1;
    Operand<Stored, KIND == OF_ELEMENTS ? OF_GROUP : KIND, ALIGNED, 1> value[WIDE];

    __device__ void load(const char* of_column, double number, const Geometry& g) {
#pragma unroll
        for (int v = 0; v < WIDE; v++) value[v].load_once(of_column + v * g.kept.stride[ARRAY][INNER], number);
    }
    __device__ Compute at(int v) const { return value[v < WIDE ? v : 0].at(0); }
};

struct RowOperands {
    RowOperand<SCALE, OF_SCALE, HAS_SCALE, SCALE_ALIGNED, SCALE_ACROSS> scale;
    RowOperand<BIAS, OF_BIAS, HAS_BIAS, BIAS_ALIGNED, BIAS_ACROSS> bias;

    __device__ void load_once(const Arrays& column, const Geometry& g) {
        if (HAS_SCALE != OF_ELEMENTS) scale.load(column.scale, column.scale_number, g);
        if (HAS_BIAS != OF_ELEMENTS) bias.load(column.bias, column.bias_number, g);
    }
    __device__ void load(const Arrays& column, const Geometry& g, const Offsets& row) {
        if (HAS_SCALE == OF_ELEMENTS) scale.load(column.scale + row.of[OF_SCALE], 0, g);
        if (HAS_BIAS == OF_ELEMENTS) bias.load(column.bias + row.of[OF_BIAS], 0, g);
    }
};

__device__ void normalize_row(const Work& work, const Arrays& column, const Elements& elements,
                              const Normal (&normal)[VECTOR], const RowOperands& operands, char* to) {
    Pack<Output, VECTOR> result;
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
        const Compute y = normal[v].apply(widen(convert<Compute>(elements.element[v])));
        result.element[v] = finished(y, operands.scale.at(v), operands.bias.at(v), work.p);
    }
    if constexpr (OUTPUT_PACKED) {
        *reinterpret_cast<Pack<Output, VECTOR>*>(to) = result;
    } else {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            store_element<OUTPUT_ALIGNED>(to + v * work.g.kept.stride[OF_OUTPUT][INNER], result.element[v]);
        }
    }
}

// Rows of a unit that a normalizer has, and those that it loads at once: 8 columns of one, or as many in all.
constexpr int ROWS = STEPS / NORMALIZERS, AT_ONCE = ROWS < 8 / VECTOR ? ROWS : 8 / VECTOR;
constexpr int OPERAND_ROWS = HAS_SCALE == OF_ELEMENTS || HAS_BIAS == OF_ELEMENTS ? AT_ONCE : 1;

__device__ void normalize_rows(const Work& work, const Unit& unit, const Arrays& column, int count,
                               const Normal (&normal)[VECTOR], RowOperands (&operands)[OPERAND_ROWS], int normalizer) {
    const char* data = work.data(unit.visit) + lane_index() * VECTOR * SIZE;
#pragma unroll 1
    for (int first = normalizer; first < STEPS; first += AT_ONCE * NORMALIZERS) {
        Elements element[AT_ONCE];
        Offsets row[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int step = first + k * NORMALIZERS;
            element[k] = *reinterpret_cast<const Elements*>(data + step * PITCH);
            row[k] = work.g.reduced.offsets(unit.begin + step);
            if (step < count) operands[k % OPERAND_ROWS].load(column, work.g, row[k]);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (first + k * NORMALIZERS >= count) continue;
            normalize_row(work, column, element[k], normal, operands[k % OPERAND_ROWS],
                          column.output + row[k].of[OF_OUTPUT]);
        }
    }
}

__device__ void normalize_units(const Work& work, AllKnown& all_known, int normalizer) {
    const int place = lane_index() * VECTOR;
    for (Turn<> turn(work.cut); turn.exists(); turn.advance()) {
        const bool exists = place < work.width(turn.bundle);
        const Arrays column = work.group(turn.bundle, exists ? place : 0);
        RowOperands operands[OPERAND_ROWS];
#pragma unroll
        for (int k = 0; k < OPERAND_ROWS; k++) operands[k].load_once(column, work.g);
        Known& known = all_known.of(turn.number);
        known.ready.wait(use_of_known(turn.number));  // so all units of the piece are there, too
        Normal normal[VECTOR];
#pragma unroll
        for (int v = 0; v < VECTOR; v++) normal[v] = known.normal[place + v];
        for (int i = 0; i < PIECE; i++) {
            const Unit unit = work.unit(turn, i);
            normalize_rows(work, unit, column, exists ? unit.count : 0, normal, operands, normalizer);
            arrive_by_warp(work.stage(unit.visit).emptied);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 1)
normalize_strips(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                 double bias_number, char* mean, char* variance, Word* control, Geometry g, Parameters p, Cut cut) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Stage stages[STAGES];
    __shared__ AllKnown known;
    const int warp = static_cast<int>(threadIdx.x) / LANES;
    if (threadIdx.x == LANES) {
        for (int i = 0; i < STAGES; i++) open(stages[i], LOADERS * LANES, ADDERS + NORMALIZERS);
        for (int i = 0; i < SLOTS; i++) {
            known.slot[i].summed.init(TEAM);
            known.slot[i].ready.init(1);
        }
        fence_mbarrier_init();
    }
    const unsigned epoch = begin_launch(control, cut);

    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Work work = {arrays, g, p, cut, stages, reinterpret_cast<char*>(dynamic_shared), control + SECTOR, epoch,
                       input == output};
    if (warp < FIRST_ADDER) load_units(work);
    else if (warp < FIRST_FOLDER) add_units(work, known, warp - FIRST_ADDER);
    else if (warp < FIRST_AWAITER) fold_columns(work, known, warp - FIRST_FOLDER);
    else if (warp < FIRST_NORMALIZER) await_columns(work, known, warp - FIRST_AWAITER);
    else normalize_units(work, known, warp - FIRST_NORMALIZER);
}
