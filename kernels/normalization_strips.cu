// Normalization of large groups that lie side by side, columns of a matrix: read once (normalization_ring.cuh).
//
// A bundle is a strip of COLUMNS neighbours, a unit STEPS rows of it. When the last piece of a strip is published, each
// of its columns has still to be folded, by one block for all: then that block's warp publishes how it is normalized.
// What is published is 3 % of what is loaded, or 6 % of halves, and best kept in the cache: of (4096, 65536) floats it
// took an H200 from 0.617 ms to 0.590 ms.
//
// Constants that the plan sets, beside those of normalization_ring.cuh:
//     STEPS                         rows of a unit, a power of two
//     FOLDED_COLUMNS                that a warp folds at once, and FOLDED_PIECES of each by a lane; powers of two
//     EVEN_ROWS                     1: the rows of a unit lie at one stride
//     TEAMS_APART                   1: strips that are worked on at a time lie far from each other
//     VECTOR                        columns that a lane normalizes: a warp has all COLUMNS
//     COPY_BYTES                    of a copy that a loader does not wait for (cp.async)
//     OUTPUT_PACKED                 the outputs of VECTOR columns lie dense and aligned
//     SCALE_ACROSS, BIAS_ACROSS     0: the same for the VECTOR columns, 1: of each its own
#include "normalization.cuh"

constexpr Index UNIT = STEPS;
constexpr int SIZE = static_cast<int>(sizeof(Input)), PITCH = COLUMNS * SIZE, STAGE_BYTES = STEPS * PITCH;

#include "normalization_ring.cuh"

constexpr int FIRST_ADDER = LOADERS, FOLDER = FIRST_ADDER + ADDERS, AWAITER = FOLDER + 1,
              FIRST_NORMALIZER = AWAITER + 1, WARPS = FIRST_NORMALIZER + NORMALIZERS;
constexpr int INNER = KEPT_RANK - 1;

static_assert(FOLDERS == 1 && AWAITERS == 1, "one warp folds, one awaits what the folders of all blocks found");
static_assert(COLUMNS == VECTOR * LANES, "a warp has the columns of a strip");
static_assert(STEPS % NORMALIZERS == 0, "all normalizers have as many rows of all units");
static_assert(PIECE % HELD == 0 && HELD < PIECE, "what is known of a piece is read before its last unit is held");

// What is known of a piece of this block: that it is summed, and how its columns are normalized. Slots come round:
// before the last unit of a piece is loaded, all normalizers have left the last unit of the piece that was SLOTS before
// it, and so have read what is known of that piece. Hence nobody is a use of a slot ahead of those who wait at it.
struct Known {
    Gate summed, ready;
    Normal normal[COLUMNS];
};

constexpr int SLOTS = (STAGES + PIECE - 1) / PIECE;

struct AllKnown {
    Known slot[SLOTS];

    __device__ Known& of(int number) { return slot[number % SLOTS]; }
};

__device__ int use_of_known(int number) { return number / SLOTS; }

// Where a row of a unit lies, from where its group does.
template <int ARRAY> __device__ Index row_offset(const Geometry& g, const Unit& unit, int step) {
    if constexpr (!EVEN_ROWS) return g.reduced.offsets(unit.begin + step).of[ARRAY];
    return g.reduced.offsets(unit.begin).of[ARRAY] + step * g.reduced.stride[ARRAY][REDUCED_RANK - 1];
}

// The strip of a bundle. Blocks that share bundles are a team. If TEAMS_APART each team has neighbouring strips, so that
// those which several teams have at a time lie far from each other: (4096, 65536) floats, which 8 teams share, take an
// H200 0.573 ms, and 0.587 as neighbours. Where a row has but a few strips they had better be worked on at a time.
__device__ Index strip_of(const Cut& cut, Index bundle) {
    if (!TEAMS_APART) return bundle;
    const Index teams = static_cast<Index>(gridDim.x) / cut.pieces;
    const Index round = bundle / teams, team = bundle - round * teams;
    const Index each = cut.bundles / teams, more = cut.bundles - each * teams;
    return team * each + (team < more ? team : more) + round;
}

// A piece of a strip, as all warps of a block come to it one after the other.
struct Piece {
    const Turn<>& turn;
    Arrays first;  // its groups: of the first column
    int width;     // columns
    Slot slot;
    Known& known;
    int use;  // of what is known

    __device__ Piece(const Work& work, const Turn<>& turn, AllKnown& known)
        : turn(turn), slot(work.slot(turn.bundle)), known(known.of(turn.number)), use(use_of_known(turn.number)) {
        const Index strip = strip_of(work.cut, turn.bundle);
        first = work.group(strip);
        width = work.width(strip);
    }

    // Of columns that do not exist the last one.
    __device__ int existing(int column) const { return column < width ? column : width - 1; }

    __device__ Arrays column(const Geometry& g, int number) const {
        Offsets offsets;
#pragma unroll
        for (int a = 0; a < ARRAYS; a++) offsets.of[a] = number * g.kept.stride[a][INNER];
        return first.at(offsets);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Loaders: each thread has the same place in every DOWN-th row. Rows that do not exist become copies of the first, that
// add nothing: x - shift is 0, unless the first is not finite, and then the sums are not either. Columns that do not
// exist become copies of others, so that nobody reads what was never written.

// Units that are loaded at a time. Where two pieces are more than a ring, all blocks wait for the last units of the
// next one while they store this one, and for longer the more units are asked for at once: (65536, 4096) floats take an
// H200 0.627 ms with 4 units of 8192 bytes, 0.633 with 5, 0.658 with 3, and 0.684 where nothing but the ring holds
// loaders back. Smaller pieces are loaded early enough: a limit costs them up to 2 %.
constexpr int IN_FLIGHT = 2 * PIECE > STAGES ? 4 : STAGES;

__device__ void await_turn_to_load(const Work& work, int visit) {
    await_emptied(work, visit);
    const int before = visit - IN_FLIGHT;
    if (IN_FLIGHT < STAGES && before >= 0) work.stage(before).full.wait(use_of(before));
}

__device__ void load_piece(const Work& work, const Piece& piece) {
    constexpr int ACROSS = PITCH / COPY_BYTES, DOWN = LOADERS * LANES / ACROSS;
    static_assert(LOADERS * LANES % ACROSS == 0 && STEPS % DOWN == 0, "");
    const int thread = static_cast<int>(threadIdx.x);
    const int place = thread % ACROSS * COPY_BYTES, first = thread / ACROSS;
    const char* from = piece.first.input + (place < piece.width * SIZE ? place : 0);
    for (int i = 0; i < PIECE; i++) {
        const Unit unit = work.unit(piece.turn, i);
        char* to = work.data(unit.visit) + place;
        await_turn_to_load(work, unit.visit);
#pragma unroll 4
        for (int k = 0; k < STEPS / DOWN; k++) {
            const int step = first + k * DOWN;
            const Index offset = step < unit.count ? row_offset<OF_INPUT>(work.g, unit, step) : 0;
            copy_async<COPY_BYTES>(to + step * PITCH, from + offset);
        }
        work.stage(unit.visit).full.arrive_after_copies();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Adders: a team of them has all columns, each lane one. Teams take turns with the pieces, but all wait for every unit,
// so that none is a use of a stage ahead.

constexpr int TEAM = COLUMNS / LANES, TEAMS = ADDERS / TEAM;

static_assert(ADDERS % TEAM == 0, "teams are whole");

// Chunks that are loaded and converted side by side: with 4 in place of 8 a unit takes longer, and (64, 256, 128, 128)
// bfloat16s 0.34 ms in place of 0.32; with more the compiler does.
constexpr int CHUNKS = STEPS / CHUNK, ABREAST = CHUNKS < 8 ? CHUNKS : 8, SERIES = CHUNKS / ABREAST;

// The sums of a column in so many chunks.
__device__ Sums sum_of_chunks(const char* data, const Shift& shift) {
    Sums sums[ABREAST];
#pragma unroll
    for (int c = 0; c < ABREAST; c++) {
        sums[c] = {};
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const double x = as_double(*reinterpret_cast<const Input*>(data + (c * CHUNK + j) * PITCH)) - shift.value;
            if (j == 0) sums[c] = {x, x * x};
            else sums[c].add(x);
        }
    }
    return pairwise_sum(sums);
}

// By all lanes of a warp.
__device__ void leave(const Work& work, int visit) { arrive_by_warp(work.stage(visit).emptied); }

__device__ void add_piece(const Work& work, const Piece& piece, int adder) {
    const int column = adder % TEAM * LANES + lane_index();
    const bool mine = piece.turn.number % TEAMS == adder / TEAM, exists = column < piece.width;
    const Shift shift(mine && exists ? load_input(piece.column(work.g, column), work.g, 0) : Input());
    PieceSum<PIECE * SERIES> over_series;
    Sums total = {};
    for (int i = 0; i < PIECE; i++) {
        const int visit = piece.turn.visit(i);
        work.stage(visit).full.wait(use_of(visit));
        const char* data = work.data(visit) + column * SIZE;
#pragma unroll 1
        for (int series = 0; mine && series < SERIES; series++, data += ABREAST * CHUNK * PITCH) {
            total = over_series.next(i * SERIES + series, sum_of_chunks(data, shift));
        }
        if (mine && exists && i == PIECE - 1) {
            work.fence();
            publish_pairs(piece.slot.sums(column, piece.turn.piece), total, piece.slot.epoch, piece.slot.sums_apart());
        }
        leave(work, visit);
    }
    if (mine) arrive_by_warp(piece.known.summed);
}

// ---------------------------------------------------------------------------------------------------------------------
// Folders: a warp folds FOLDED_COLUMNS columns at once, in each of which a lane has FOLDED_PIECES neighbouring pieces.

// Pieces that do not exist add nothing; all lanes wait for one that does. While nothing is there a few lanes look at a
// word each: where all of them did, (65536, 4096) floats took an H200 0.745 ms in place of 0.721.
__device__ Sums fold(const Slot& slot, int column, Index first) {
    constexpr int AT_ONCE = FOLDED_PIECES < 4 ? FOLDED_PIECES : 4, ROUNDS = FOLDED_PIECES / AT_ONCE;
    PieceSum<ROUNDS> over_rounds;
    Sums total = {};
#pragma unroll 1
    for (int round = 0; round < ROUNDS; round++, first += AT_ONCE) {
        const Word* from[AT_ONCE];
        Sums sums[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            from[k] = slot.sums(column, first + k < slot.pieces ? first + k : slot.pieces - 1);
        }
        if (round == 0) await_first(lane_index() % 8 == 0 ? from[0] : nullptr, slot.epoch);
        await_pairs(from, sums, slot.epoch, slot.sums_apart());
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (first + k >= slot.pieces) sums[k] = {};
        }
        total = over_rounds.next(round, pairwise_sum(sums));
    }
    return total;
}

__device__ void fold_columns(const Work& work, const Piece& piece) {
    const int begin = static_cast<int>(piece.turn.piece) * FOLDED_COLUMNS, lane = lane_index();
    if (begin >= piece.width) return;
    const int wanted = begin + lane % FOLDED_COLUMNS, column = piece.existing(wanted);
    const Arrays group = piece.column(work.g, column);
    const Shift shift(load_input(group, work.g, 0));
    piece.known.summed.wait(piece.use);  // by now the other blocks are about to publish
    const Sums sums = lane_sum(fold(piece.slot, column, lane / FOLDED_COLUMNS * FOLDED_PIECES), FOLDED_COLUMNS);
    const Moments moments = moments_of(sums, shift.value, work.p);
    const Normal normal = Normal::of(moments, work.p);
    work.fence();  // behind what the lanes have seen
    __syncwarp();
    work.fence();  // and before what some of them publish
    if (lane >= FOLDED_COLUMNS || wanted >= piece.width) return;
    publish_pairs(piece.slot.normal(column), normal, piece.slot.epoch, 2 * COLUMNS);
    if (work.arrays.mean) store_moments(group, moments, work.p);
}

// ---------------------------------------------------------------------------------------------------------------------
// Awaiters

__device__ void await_columns(const Work& work, const Piece& piece) {
    piece.known.summed.wait(piece.use);  // no column can be known before
    const Word* from[TEAM];
    Normal normal[TEAM];
#pragma unroll
    for (int k = 0; k < TEAM; k++) from[k] = piece.slot.normal(piece.existing(k * LANES + lane_index()));
    await_first(lane_index() == 0 ? from[0] : nullptr, piece.slot.epoch);
    await_pairs(from, normal, piece.slot.epoch, 2 * COLUMNS);
    work.fence();
#pragma unroll
    for (int k = 0; k < TEAM; k++) piece.known.normal[k * LANES + lane_index()] = normal[k];
    arrive_by_warp(piece.known.ready);
}

// ---------------------------------------------------------------------------------------------------------------------
// Normalizers: each has every NORMALIZERS-th row.

using Elements = Pack<Input, VECTOR>;

// Rows of a unit that a normalizer has.
constexpr int ROWS = STEPS / NORMALIZERS;
constexpr int OPERAND_ROWS = HAS_SCALE == OF_ELEMENTS || HAS_BIAS == OF_ELEMENTS ? ROWS : 1;

__device__ int step_of(int row, int normalizer) { return row * NORMALIZERS + normalizer; }

// Scale or bias that is the same for all columns, but of each row its own: each lane has that of one of the rows. So
// it can be loaded long before it is needed: (4096, 65536) floats took an H200 0.875 ms where it was not.
template <typename Stored, int ARRAY, bool USED, bool ALIGNED> struct OfRows {
    Operand<Stored, USED ? OF_GROUP : NONE, ALIGNED, 1> of_lane;

    static_assert(!USED || ROWS <= LANES, "a lane for each row");

    __device__ void load(const char* of_column, const Geometry& g, const Unit& unit, int normalizer) {
        const int step = step_of(lane_index() % ROWS, normalizer);
        if (USED) of_lane.load_once(of_column + (step < unit.count ? row_offset<ARRAY>(g, unit, step) : 0), 0);
    }
};

// Scale or bias of the lane's columns, in one row.
template <typename Stored, int ARRAY, int KIND, bool ALIGNED, bool EACH> struct RowOperand {
    static constexpr int WIDE = EACH && KIND != OF_ALL ? VECTOR : 1;
    static constexpr bool EVERYWHERE = KIND == OF_ELEMENTS && !EACH;
    using Rows = OfRows<Stored, ARRAY, EVERYWHERE, ALIGNED>;
    Operand<Stored, KIND == OF_ELEMENTS ? OF_GROUP : KIND, ALIGNED, 1> value[WIDE];

    __device__ void load(const char* of_column, double number, const Geometry& g) {
#pragma unroll
        for (int v = 0; v < WIDE; v++) value[v].load_once(of_column + v * g.kept.stride[ARRAY][INNER], number);
    }
    // By all lanes.
    __device__ void load_row(const char* of_column, const Geometry& g, const Unit& unit, int step, bool exists,
                             const Rows& rows, int number) {
        if constexpr (EVERYWHERE) value[0].pack = shuffle(rows.of_lane.pack, number);
        else if (KIND == OF_ELEMENTS && exists) load(of_column + row_offset<ARRAY>(g, unit, step), 0, g);
    }
    __device__ Compute at(int v) const { return value[v < WIDE ? v : 0].at(0); }
};

using RowScale = RowOperand<SCALE, OF_SCALE, HAS_SCALE, SCALE_ALIGNED, SCALE_ACROSS>;
using RowBias = RowOperand<BIAS, OF_BIAS, HAS_BIAS, BIAS_ALIGNED, BIAS_ACROSS>;

struct UnitOperands {
    RowScale::Rows scale;
    RowBias::Rows bias;

    __device__ void load(const Work& work, const Arrays& column, const Unit& unit, int normalizer) {
        scale.load(column.scale, work.g, unit, normalizer);
        bias.load(column.bias, work.g, unit, normalizer);
    }
};

struct RowOperands {
    RowScale scale;
    RowBias bias;

    __device__ void load_once(const Arrays& column, const Geometry& g) {
        if (HAS_SCALE != OF_ELEMENTS) scale.load(column.scale, column.scale_number, g);
        if (HAS_BIAS != OF_ELEMENTS) bias.load(column.bias, column.bias_number, g);
    }
    __device__ void load_row(const Arrays& column, const Geometry& g, const Unit& unit, int step, bool exists,
                             const UnitOperands& operands, int number) {
        scale.load_row(column.scale, g, unit, step, exists, operands.scale, number);
        bias.load_row(column.bias, g, unit, step, exists, operands.bias, number);
    }
};

// The columns of a lane.
struct Columns {
    Arrays first;
    bool exist;
    Normal normal[VECTOR];
    RowOperands operands[OPERAND_ROWS];

    __device__ Columns(const Work& work, const Piece& piece) : exist(lane_index() * VECTOR < piece.width) {
        first = piece.column(work.g, exist ? lane_index() * VECTOR : 0);
#pragma unroll
        for (int k = 0; k < OPERAND_ROWS; k++) operands[k].load_once(first, work.g);
    }
    __device__ void await(const Piece& piece) {
        piece.known.ready.wait(piece.use);
#pragma unroll
        for (int v = 0; v < VECTOR; v++) normal[v] = piece.known.normal[lane_index() * VECTOR + v];
    }
};

__device__ void normalize_row(const Work& work, const Elements& elements, const Normal (&normal)[VECTOR],
                              const RowOperands& operands, char* to) {
    Compute y[VECTOR];
    unpack(elements, y);
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
        y[v] = activated(normal[v].apply(y[v]), operands.scale.at(v), operands.bias.at(v), work.p);
    }
    const Pack<Output, VECTOR> result = pack_of<Output>(y);
    if constexpr (OUTPUT_PACKED) {
        *reinterpret_cast<Pack<Output, VECTOR>*>(to) = result;
    } else {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            store_element<OUTPUT_ALIGNED>(to + v * work.g.kept.stride[OF_OUTPUT][INNER], result.element[v]);
        }
    }
}

// What a normalizer holds of a unit in registers, so that the stage is free before the piece is known and stored.
struct HeldUnit {
    Elements row[ROWS];

    __device__ void take(const Work& work, int visit, int normalizer) {
        work.stage(visit).full.wait(use_of(visit));
        const char* data = work.data(visit) + lane_index() * VECTOR * SIZE;
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            row[k] = *reinterpret_cast<const Elements*>(data + step_of(k, normalizer) * PITCH);
        }
        leave(work, visit);
    }

    __device__ void finish(const Work& work, const Unit& unit, int normalizer, Columns& columns,
                           const UnitOperands& of_unit) const {
        const int count = columns.exist ? unit.count : 0;
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            const int step = step_of(k, normalizer);
            columns.operands[k % OPERAND_ROWS].load_row(columns.first, work.g, unit, step, step < count, of_unit, k);
        }
        char* to = columns.first.output + row_offset<OF_OUTPUT>(work.g, unit, normalizer);
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            const int step = step_of(k, normalizer);
            if (step < count) normalize_row(work, row[k], columns.normal, columns.operands[k % OPERAND_ROWS], to);
            if constexpr (EVEN_ROWS) to += NORMALIZERS * work.g.reduced.stride[OF_OUTPUT][REDUCED_RANK - 1];
            else to = columns.first.output + row_offset<OF_OUTPUT>(work.g, unit, step + NORMALIZERS);
        }
    }
};

__device__ void normalize_piece(const Work& work, const Piece& piece, int normalizer) {
    Columns columns(work, piece);
    UnitOperands next;
    next.load(work, columns.first, work.unit(piece.turn, 0), normalizer);
#pragma unroll 1
    for (int first = 0; first < PIECE; first += HELD) {
        HeldUnit held[HELD];
#pragma unroll
        for (int i = 0; i < HELD; i++) held[i].take(work, piece.turn.visit(first + i), normalizer);
        if (first == 0) columns.await(piece);
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            const Unit unit = work.unit(piece.turn, first + i);
            const UnitOperands of_unit = next;
            if (first + i + 1 < PIECE) next.load(work, columns.first, work.unit(piece.turn, first + i + 1), normalizer);
            held[i].finish(work, unit, normalizer, columns, of_unit);
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
#pragma unroll 1
        for (int i = 0; i < STAGES; i++) open(stages[i], LOADERS * LANES, ADDERS + NORMALIZERS);
#pragma unroll 1
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
    for (Turn<> turn(cut); turn.exists(); turn.advance()) {
        const Piece piece(work, turn, known);
        if (warp < FIRST_ADDER) load_piece(work, piece);
        else if (warp < FOLDER) add_piece(work, piece, warp - FIRST_ADDER);
        else if (warp == FOLDER) fold_columns(work, piece);
        else if (warp == AWAITER) await_columns(work, piece);
        else normalize_piece(work, piece, warp - FIRST_NORMALIZER);
    }
}
