// Normalization of large groups that lie side by side, in the input or in the output; they are read once
// (normalization_ring.cuh).
//
// When the last piece of a strip is published, each of its columns has still to be folded, by one block for all: then
// that block's warp publishes how it is normalized. What is published is 2 % of what is loaded, or 5 % of halves, and
// best kept in the cache: (64, 256, 128, 128) floats over 0, 2 took an H200 0.569 ms so, 0.605 by plain stores, halves
// 0.299 and 0.335. In two thirds of the bytes that it was then, halves take 0.295. If every second piece had nothing to
// publish they would take 0.291, and transposed floats, (65536, 4096) over 0, 0.611 in place of 0.639; but in clusters
// of two blocks, one of which publishes for both, they take 0.312 and 0.633.
//
// Memory is slower where each block goes down a piece of its own. Loops that copy the strips of these floats through
// such a ring, and do nothing else, take 0.551 ms at best, and a plain copy 0.508. With loads that leave the cache last
// (intrinsics.cuh) they take 0.538, but such loads drive out what is published: they make 0.581 ms of 0.565.
//
// Constants that the plan sets, beside those of the loaders (normalization_strip_loaders.cuh) and the normalizers:
//     AWAITERS          warps that await what the folders of all blocks found: 1
//     ADDER_SETS        that take turns with the pieces
//     FOLDED_COLUMNS    that a warp folds at once, and FOLDED_PIECES of each by a lane; powers of two
//     NORMALIZER_REGISTERS, OTHER_REGISTERS   of a thread of the normalizers, who hold units, and of the others; 0: as
//                       the compiler shares them out
#include "normalization_strip_loaders.cuh"
#include "normalization_strip_normalizers.cuh"

constexpr int FIRST_ADDER = LOADERS, FOLDER = FIRST_ADDER + ADDERS, AWAITER = FOLDER + 1,
              FIRST_NORMALIZER = AWAITER + 1, WARPS = FIRST_NORMALIZER + NORMALIZERS;

static_assert(FOLDED_COLUMNS <= LANES, "a warp folds them");
static_assert(FOLDERS == 1 && AWAITERS == 1, "one warp folds, one awaits what the folders of all blocks found");
static_assert(NORMALIZER_REGISTERS == 0 || (FIRST_NORMALIZER % 4 == 0 && NORMALIZERS % 4 == 0),
              "registers are those of four warps");
static_assert(HELD < PIECE, "what is known of a piece is read before its last unit is held");

// ---------------------------------------------------------------------------------------------------------------------
// Adders: a team of them has all columns, each lane one. Every team adds up a part of the steps of each unit, and gives
// what it finds to the first one, which has the sums of a piece at last. So a unit is added up as fast as can be: where
// teams took turns with whole pieces, (64, 256, 128, 128) floats over 0, 2 took an H200 0.574 ms in place of 0.569, and
// (64, 256, 512, 32), whose strips have four teams, 0.615 ms in place of 0.581.
//
// But while elements are copied one by one, adders wait long for what they read, and two units had better be added up
// at a time: every second of (4096, 65536) floats takes 0.437 ms so, and 0.459 otherwise. Then there are sets of one
// team each, which take turns with the pieces; all wait for every unit, so that none is a use of a stage ahead.

constexpr int TEAM = COLUMNS / LANES, TEAMS = ADDERS / (ADDER_SETS * TEAM), CHUNKS = STEPS / CHUNK / TEAMS;

static_assert(ADDER_SETS * TEAMS * TEAM == ADDERS, "teams are whole");
static_assert(ADDER_SETS == 1 || TEAMS == 1, "one barrier");
static_assert(CHUNKS <= 8, "the compiler loads and converts so many side by side");

// The sums of a column in the steps from `first` on.
__device__ Sums sum_of_part(const Staged& staged, int first, int column, const Shift& shift) {
    Sums sums[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        sums[c] = {};
        Pack<Input, CHUNK> chunk;
        if constexpr (INPUT_TURNED) {
            chunk = *reinterpret_cast<const Pack<Input, CHUNK>*>(staged.element(first + c * CHUNK, column));
        } else {
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                chunk.element[j] = *reinterpret_cast<const Input*>(staged.element(first + c * CHUNK + j, column));
            }
        }
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const double x = as_double(chunk.element[j]) - shift.value;
            if (j == 0) sums[c] = {x, x * x};
            else sums[c].add(x);
        }
    }
    return pairwise_sum(sums);
}

// What the other teams found. Units take turns with two: who meets the others at the next unit has read those of this
// one.
struct Shares {
    Sums of_team[2][TEAMS > 1 ? TEAMS - 1 : 1][TEAMS > 1 ? COLUMNS : 1];
};

// The sums of all teams, for the first one.
__device__ Sums gather(Shares& shares, int visit, int team, int column, Sums mine) {
    if constexpr (TEAMS == 1) return mine;
    auto& others = shares.of_team[visit % 2];
    if (team > 0) others[team - 1][column] = mine;
    sync_warps<1, ADDERS>();
    if (team > 0) return mine;
    Sums all[TEAMS] = {mine};
#pragma unroll
    for (int k = 1; k < TEAMS; k++) all[k] = others[k - 1][column];
    return pairwise_sum(all);
}

__device__ void add_piece(const Work& work, const Piece& piece, Shares& shares, int adder) {
    const int column = adder % TEAM * LANES + lane_index(), team = TEAMS > 1 ? adder / TEAM : 0;
    const bool mine = TEAMS > 1 || piece.turn.number % ADDER_SETS == adder / TEAM, exists = column < piece.width;
    const Shift shift(mine && exists ? load_input(piece.column(work.g, column), work.g, 0) : Input());
    PieceSum<PIECE> over_units;
    Sums total = {};
    for (int i = 0; i < PIECE; i++) {
        const int visit = piece.turn.visit(i);
        work.stage(visit).full.wait(use_of(visit));
        if (mine) {
            const Unit unit = work.unit(piece.turn, i);
            Sums of_part = {};
            if (unit.count > 0) {
                const Staged staged(work, piece, unit);
                of_part = sum_of_part(staged, team * CHUNKS * CHUNK, piece.existing(column), shift);
            }
            const Sums sums = gather(shares, visit, team, column, of_part);
            if (team == 0) total = over_units.next(i, sums);
        }
        if (mine && team == 0 && exists && i == PIECE - 1) {
            work.fence();
            sums_of(piece.slot).publish(piece.turn.piece * COLUMNS + column, total, piece.slot.epoch);
        }
        leave(work, visit);
    }
    if (mine && team == 0) piece.known.summed.arrive();
}

// ---------------------------------------------------------------------------------------------------------------------
// Folders: a warp folds FOLDED_COLUMNS columns at once, in each of which a lane has FOLDED_PIECES neighbouring pieces.

// Pieces that do not exist add nothing; all lanes wait for one that does. While nothing is there a few lanes look at a
// word each: where all of them did, (65536, 4096) floats took an H200 0.608 ms in place of 0.596.
__device__ Sums fold(const Slot& slot, int column, Index first) {
    constexpr int AT_ONCE = FOLDED_PIECES < 4 ? FOLDED_PIECES : 4, ROUNDS = FOLDED_PIECES / AT_ONCE;
    const Records<Sums> published = sums_of(slot);
    PieceSum<ROUNDS> over_rounds;
    Sums total = {};
#pragma unroll 1
    for (int round = 0; round < ROUNDS; round++, first += AT_ONCE) {
        Index number[AT_ONCE];
        Sums sums[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            number[k] = (first + k < slot.pieces ? first + k : slot.pieces - 1) * COLUMNS + column;
        }
        if (round == 0) published.await_first(lane_index() % 8 == 0, number[0], slot.epoch);
        published.await(number, sums, slot.epoch);
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
    normals_of(piece.slot).publish(column, PublishedNormal(normal), piece.slot.epoch);
    if (work.arrays.mean) store_moments(group, moments, work.p);
}

// ---------------------------------------------------------------------------------------------------------------------
// Awaiters

__device__ void await_columns(const Work& work, const Piece& piece) {
    piece.known.summed.wait(piece.use);  // no column can be known before
    const Records<PublishedNormal> published = normals_of(piece.slot);
    Index number[TEAM];
    PublishedNormal normal[TEAM];
#pragma unroll
    for (int k = 0; k < TEAM; k++) number[k] = piece.existing(k * LANES + lane_index());
    published.await_first(lane_index() == 0, number[0], piece.slot.epoch);
    published.await(number, normal, piece.slot.epoch);
    work.fence();
#pragma unroll
    for (int k = 0; k < TEAM; k++) piece.known.normal[k * LANES + lane_index()] = normal[k];
    piece.known.ready.arrive();
}

// ---------------------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 1)
normalize_strips(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                 double bias_number, char* mean, char* variance, Word* control, Geometry g, Parameters p, Cut cut) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Stage stages[STAGES];
    __shared__ AllKnown known;
    __shared__ Shares shares;
    const int warp = warp_index();
    if (threadIdx.x == LANES) {
#pragma unroll 1
        for (int i = 0; i < STAGES; i++) open(stages[i], LOADERS * LANES, (ADDERS + NORMALIZERS) * LANES);
#pragma unroll 1
        for (int i = 0; i < SLOTS; i++) {
            known.slot[i].summed.init(TEAM * LANES);
            known.slot[i].ready.init(LANES);
        }
        fence_mbarrier_init();
    }
    const unsigned epoch = begin_launch(control, cut);

    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Work work = {arrays, g, p, cut, stages, reinterpret_cast<char*>(dynamic_shared), control + SECTOR, epoch,
                       input == output};
    if constexpr (NORMALIZER_REGISTERS > 0) {
        if (warp >= FIRST_NORMALIZER) {
            take_registers<NORMALIZER_REGISTERS>();
            for (Turn turn(cut); turn.exists(); turn.advance()) {
                normalize_piece(work, Piece(work, turn, known), warp - FIRST_NORMALIZER);
            }
            return;
        }
        leave_registers<OTHER_REGISTERS>();
    }
    for (Turn turn(cut); turn.exists(); turn.advance()) {
        const Piece piece(work, turn, known);
        if (warp < FIRST_ADDER) load_piece(work, piece);
        else if (warp < FOLDER) add_piece(work, piece, shares, warp - FIRST_ADDER);
        else if (warp == FOLDER) fold_columns(work, piece);
        else if (warp == AWAITER) await_columns(work, piece);
        else if constexpr (NORMALIZER_REGISTERS == 0) normalize_piece(work, piece, warp - FIRST_NORMALIZER);
    }
}
