// Normalization of large groups whose elements lie side by side, in one run or in many; they are read once
// (normalization_ring.cuh).
//
// A unit is UNIT_ROWS rows of 32 chunks. Runs that are long and aligned are loaded by bulk copies, one for each; a
// single run by one copy at any address, as are short runs together with small gaps between them; other runs by
// threads, of whom none waits for what it copies; what is smaller than a copy, and elements with gaps, by ordinary
// loads.
//
// Constants that the plan sets, beside those of normalization_teams.cuh and normalization_chunks.cuh:
//     UNIT_ROWS   a power of two
//     BULK        1: bulk copies, by one warp; 0: asynchronous copies of chunks, grains or elements, or ordinary loads
//     ONE_RUN     1: the elements of a group follow each other in memory
//     IN_PIECES   1: loaders put chunks of long runs of halves together from whole pieces of 16 bytes
//     GAPS        bytes, a multiple of 16, that the gaps between a unit's runs take where one copy loads all; else 0
//     OPERANDS_AGAIN   1: every group reads scale and bias of all its elements again
//     OPERANDS_KEPT    units of a piece, the last ones, whose scale and bias stay in registers: the same for all groups
//     NORMALIZER_REGISTERS, OTHER_REGISTERS   of a thread of the normalizers, who need more, and of the others; 0: as
//                      the compiler shares them out
//     OF_UNITS    1: scale and bias of chunks are the same for a whole unit
//     PUBLISHERS  1: a warp publishes the sums of pieces; 0: the folder does, if a block has no two pieces of a group
//     FOLDED      pieces whose sums a folder loads at a time, a power of two from 16 on
//     FOLDS       1: these are all
// Unless OUTPUT_PACKED, dynamic shared memory ends with a RowBuffer for each normalizer.
#include "normalization_chunks.cuh"

constexpr Index UNIT = UNIT_ROWS * ROW;
constexpr int STAGE_BYTES = static_cast<int>(UNIT) * static_cast<int>(sizeof(Input)) + GAPS +
                            (BULK && !INPUT_PACKED ? 16 : 0);

#include "normalization_teams.cuh"

constexpr bool STAGED_PACKED = !BULK || INPUT_PACKED, STAGED_ALIGNED = !BULK || INPUT_ALIGNED;
constexpr int SIZE = static_cast<int>(sizeof(Input));

constexpr int FIRST_ADDER = LOADERS, PUBLISHER = FIRST_ADDER + ADDERS, FIRST_FOLDER = PUBLISHER + PUBLISHERS,
              FIRST_NORMALIZER = FIRST_FOLDER + FOLDERS, WARPS = FIRST_NORMALIZER + NORMALIZERS;

constexpr int GATES = DRAWN > 0 && KNOWN > STAGES ? KNOWN : STAGES;  // of each kind, at the most

static_assert(COLUMNS == 1, "a bundle is a group");
static_assert(NORMALIZER_REGISTERS == 0 || (FIRST_NORMALIZER % 4 == 0 && NORMALIZERS % 4 == 0),
              "registers are those of four warps");
static_assert(GATES <= LANES, "a warp opens all gates");
static_assert(FOLDERS * PIECE <= STAGES, "none may be a use of a stage ahead");
static_assert(HELD < PIECE, "the last stage of a piece stays until the folder has seen it");

// What the adders leave of the unit in a stage.
struct Parts {
    Gate summed;
    double shift;
    Half of[ADDERS][2];  // of x - shift, and of its square
};

// Where a folder tells how the group of a turn is normalized. The stages of units that are held may be in use again by
// then, so it is not that of a unit: turns take turns with the stages.
__device__ Stage& outcome(const Work& work, int turn) { return work.stage(turn); }

// ---------------------------------------------------------------------------------------------------------------------
// Loaders. A stage holds a unit in the order of its elements, with the gaps between its runs or without.

__device__ const char* address_of(const char* of_group, const Geometry& g, Index number) {
    return of_group + g.reduced.offsets(number).of[OF_INPUT];
}

// Where in its stage a unit begins: bulk copies keep the place within 16 bytes.
__device__ int stage_offset(const Work& work, const Arrays& group, const Unit& unit) {
    if (STAGED_PACKED) return 0;
    const char* from = address_of(group.input, work.g, unit.begin);
    return static_cast<int>(reinterpret_cast<unsigned long long>(from) % 16);
}

// Where an element of a unit is from there on. Units with gaps begin with a run: 64 x 256 x 128 x 128 floats that are
// padded by one took an H200 0.62 ms over 0, 2, 3 where threads left the gaps out.
__device__ int place_in_stage(const Geometry& g, int number) {
    if constexpr (GAPS > 0) {
        const Index run = g.reduced.size[REDUCED_RANK - 1], pitch = g.reduced.stride[OF_INPUT][REDUCED_RANK - 2];
        return number * SIZE + static_cast<int>(g.reduced.quotient(number, REDUCED_RANK - 1) * (pitch - run * SIZE));
    }
    return number * SIZE;
}

// Scale and bias that every group reads again are to stay in the cache, so input and output leave it first: 64 groups
// of 16 MiB took 0.87 ms on an H200, and 1.0 without either hint. Where nothing is read again hints cost up to 4 %.
__device__ void copy_in_bulk(Gate& full, char* to, const char* from, unsigned bytes) {
    full.template arrive_with_copy<OPERANDS_AGAIN ? EVICT_FIRST : EVICTION>(to, from, bytes);
}

// The copy engine moves whole 16 bytes. The few elements of a run before and after them are copied one by one, without
// waiting for them where they are not too small: an H200 needs 0.56 ms for 4096 rows of 65536 floats that are padded by
// one, and 0.61 with a loader that waits.
constexpr bool HAS_EDGES = !INPUT_PACKED || ENDS == CUT, EDGES_BY_COPIES = HAS_EDGES && SIZE >= 4 && INPUT_ALIGNED;
constexpr int EDGE = EDGES_BY_COPIES ? SIZE : 1;  // bytes at a time

__device__ void copy_edges(char* to, const char* from, int head, int bulk, int bytes) {
    const int lane = lane_index();
    int i = (lane - 1) * EDGE;
    if (i >= head) i += bulk;
    fence_async_proxy();  // of what was copied here the last time round
    if (lane > 0 && i < bytes) {
        if constexpr (EDGES_BY_COPIES) copy_async<EDGE>(to + i, from + i);
        else to[i] = from[i];
    }
    __syncwarp();
}

// One run, by a warp.
__device__ void copy_run(Gate& full, char* to, const char* from, int bytes) {
    const int place = static_cast<int>(reinterpret_cast<unsigned long long>(from) % 16);
    const int before = (16 - place) % 16, head = before < bytes ? before : bytes, bulk = (bytes - head) / 16 * 16;
    if (HAS_EDGES) copy_edges(to, from, head, bulk, bytes);
    if (lane_index() == 0 && bulk > 0) copy_in_bulk(full, to + head, from + head, bulk);
    else if (EDGES_BY_COPIES) full.arrive_after_copies();
    else full.arrive();
}

// Many runs, by a warp in which each lane has one.
__device__ void copy_runs(const Work& work, const Unit& unit, const char* of_group, Gate& full, char* data) {
    const Index run = work.g.reduced.size[REDUCED_RANK - 1], begin = unit.begin, end = begin + unit.count;
    const Index of_lane = (work.g.reduced.quotient(begin, REDUCED_RANK - 1) + lane_index()) * run;
    const Index first = of_lane < begin ? begin : of_lane, last = of_lane + run < end ? of_lane + run : end;
    if (first < last) {
        copy_in_bulk(full, data + (first - begin) * SIZE, address_of(of_group, work.g, first),
                     static_cast<unsigned>(last - first) * SIZE);
    } else {
        full.arrive();
    }
}

// What a thread copies without waiting for it: a chunk, or a grain or an element of many runs. Those of one run with
// gaps are loaded faster: every second of 4096 x 65536 floats took 0.53 ms on an H200, and 0.55 by copies. Those of
// many runs are not: padded by one, 64 x 256 x 128 x 128 of them took 0.90 ms by loads and 0.71 by copies.
constexpr int COPIED = INPUT_PACKED ? CHUNK : INPUT_GRAIN;
constexpr bool BY_THREADS = COPIED * SIZE >= 4 && INPUT_ALIGNED && (INPUT_PACKED || REDUCED_RANK > 1);
constexpr int COPY_BYTES = BY_THREADS ? COPIED * SIZE : 4;

// By all loaders.
__device__ void copy_by_threads(const Work& work, const Unit& unit, const Arrays& group, Gate& full, char* data) {
    constexpr int THREADS = LOADERS * LANES;
    const int whole = unit.count / COPIED * COPIED, rest = whole + static_cast<int>(threadIdx.x);
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) * COPIED; i < whole; i += THREADS * COPIED) {
        copy_async<COPY_BYTES>(data + i * SIZE, address_of(group.input, work.g, unit.begin + i));
    }
    if (rest < unit.count) {
        reinterpret_cast<Input*>(data)[rest] = load_input(group, work.g, unit.begin + rest);
        copy_async_wait_all();
        full.arrive();
    } else {
        full.arrive_after_copies();
    }
}

// Runs of halves that begin anywhere, by all loaders, who wait for what they load: chunks of a unit are put together
// from the two pieces of 16 bytes that they lie in, where these are the run's. What is left of a run, less than 16
// elements at each end, is copied by the lanes of a warp, while these are on their way: (64, 192, 71, 71) over 0, 2, 3
// take an H100 126 us so, and 136 if it comes first.
__device__ bool lies_in_pieces(Index place, Index run) { return place >= CHUNK && place + 2 * CHUNK <= run; }

__device__ void copy_ends(const Work& work, const Unit& unit, const Arrays& group, Input* to) {
    constexpr int AT_ONCE = 4, INNER = REDUCED_RANK - 1;
    const Index run = work.g.reduced.size[INNER], first = work.g.reduced.quotient(unit.begin, INNER);
    const Index runs = work.g.reduced.quotient(unit.begin + unit.count - 1, INNER) - first + 1;
    const Index place = lane_index() < LANES / 2 ? lane_index() : run - LANES + lane_index();
    for (Index r = threadIdx.x / LANES; r < runs; r += AT_ONCE * LOADERS) {
        Input element[AT_ONCE];
        int number[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const Index begin = (first + r + k * LOADERS) * run - unit.begin, i = begin + place;
            const bool exists = r + k * LOADERS < runs && 0 <= i && i < unit.count;
            const Index of_chunk = i / CHUNK * CHUNK;
            const bool in_pieces = of_chunk + CHUNK <= unit.count && lies_in_pieces(of_chunk - begin, run);
            number[k] = exists && !in_pieces ? static_cast<int>(i) : -1;
            element[k] = load_input(group, work.g, unit.begin + (number[k] < 0 ? 0 : number[k]));
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (number[k] >= 0) to[number[k]] = element[k];
        }
    }
}

__device__ void copy_by_pieces(const Work& work, const Unit& unit, const Arrays& group, char* data) {
    using Piece = PieceOf<16>;
    constexpr int CHUNKS_OF_LANE = UNIT_ROWS / LOADERS, INNER = REDUCED_RANK - 1;
    static_assert(!IN_PIECES || UNIT_ROWS % LOADERS == 0, "all loaders copy as much");
    const Index run = work.g.reduced.size[INNER];
    const char* const other = address_of(group.input, work.g, CHUNK);  // in pieces of the first run
    Piece low[CHUNKS_OF_LANE], high[CHUNKS_OF_LANE];
    unsigned within[CHUNKS_OF_LANE];
    bool in_pieces[CHUNKS_OF_LANE];
#pragma unroll
    for (int k = 0; k < CHUNKS_OF_LANE; k++) {
        const int i = (k * LOADERS * LANES + static_cast<int>(threadIdx.x)) * CHUNK;
        const Index number = unit.begin + i, place = number - work.g.reduced.quotient(number, INNER) * run;
        in_pieces[k] = i + CHUNK <= unit.count && lies_in_pieces(place, run);
        const char* from = in_pieces[k] ? address_of(group.input, work.g, number) : other;
        within[k] = static_cast<unsigned>(reinterpret_cast<size_t>(from) % 16);
        const Piece* piece = reinterpret_cast<const Piece*>(from - within[k]);
        low[k] = piece[0];
        high[k] = piece[within[k] == 0 ? 0 : 1];
    }
    copy_ends(work, unit, group, reinterpret_cast<Input*>(data));
#pragma unroll
    for (int k = 0; k < CHUNKS_OF_LANE; k++) {
        const int i = (k * LOADERS * LANES + static_cast<int>(threadIdx.x)) * CHUNK;
        const Piece chunk = bytes_across<SIZE>(low[k], high[k], within[k]);
        if (in_pieces[k]) *reinterpret_cast<Piece*>(data + i * SIZE) = chunk;
    }
}

// By all loaders, who wait for what they load.
__device__ void copy_by_elements(const Work& work, const Unit& unit, const Arrays& group, Gate& full, char* data) {
    constexpr int AT_ONCE = SIZE == 2 ? 32 : 16, THREADS = LOADERS * LANES;
    Input* to = reinterpret_cast<Input*>(data);
    for (int first = threadIdx.x; first < unit.count; first += AT_ONCE * THREADS) {
        Input element[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int i = first + k * THREADS < unit.count ? first + k * THREADS : unit.count - 1;
            element[k] = load_input(group, work.g, unit.begin + i);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (first + k * THREADS < unit.count) to[first + k * THREADS] = element[k];
        }
    }
    full.arrive();
}

// Units that the copy engine loads at a time. More get in each other's way: for 64 x 256 x 128 x 128 floats over 1, 2,
// 3 an H200 needs 0.567 ms, 0.582 with one more and 0.585 with one less. With scale and bias of every element it needs
// 0.650 ms with three, 0.622 with two and 0.719 with one.
constexpr int BEST_IN_FLIGHT = OPERANDS_KEPT > 0 ? 2 : 3, IN_FLIGHT = STAGES < BEST_IN_FLIGHT ? STAGES : BEST_IN_FLIGHT;

__device__ void await_loaded(const Work& work, int visit) {
    if (visit >= 0) work.stage(visit).full.wait(use_of(visit));
}

__device__ void load_unit(const Work& work, const Unit& unit, const Arrays& group) {
    Gate& full = work.stage(unit.visit).full;
    char* const data = work.data(unit.visit);
    if constexpr (IN_PIECES) {
        if (unit.count > 0) copy_by_pieces(work, unit, group, data);
        full.arrive();
    } else if constexpr (!BULK && BY_THREADS) {
        copy_by_threads(work, unit, group, full, data);
    } else if (!BULK) {
        copy_by_elements(work, unit, group, full, data);
    } else if (ONE_RUN || GAPS > 0) {
        const int bytes = unit.count > 0 ? place_in_stage(work.g, unit.count - 1) + SIZE : 0;
        char* const to = data + stage_offset(work, group, unit);
        copy_run(full, to, address_of(group.input, work.g, unit.begin), bytes);
    } else {
        copy_runs(work, unit, group.input, full, data);
    }
}

__device__ void load_units(const Work& work, TurnOf turn, const Team& team) {
    Draws draw(team);
    for (; turn.exists(); turn.move(1)) {
        const Arrays group = work.group(turn.bundle);
#pragma unroll 1
        for (int i = 0; i < PIECE; i++) {
            const Unit unit = work.unit(turn, i);
            await_emptied(work, unit.visit);
            if (BULK) await_loaded(work, unit.visit - IN_FLIGHT);
            load_unit(work, unit, group);
        }
        if (DRAWN > 0 && threadIdx.x == 0) draw.after(turn.number);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Adders: each has some neighbouring rows of every unit.

// The chunk that begins with element `number` of the unit. All of a WHOLE unit exists.
template <bool WHOLE>
__device__ Held<Chunk> load_staged(const Geometry& g, const char* from, int number, int count, Input missing) {
    from += place_in_stage(g, number);
    if (STAGED_PACKED && (WHOLE || number + CHUNK <= count)) {
        return *reinterpret_cast<const Held<Chunk>*>(from);
    } else {
        Chunk chunk;
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            chunk.element[j] = missing;
            if (WHOLE || number + j < count) chunk.element[j] = load_element<Input, STAGED_ALIGNED>(from + j * SIZE);
        }
        return chunk;
    }
}

// Each lane has neighbouring chunks, so that it adds most of them up by itself. Which of a pair, of a pair of pairs and
// so on it takes first depends on the lane: so neighbouring lanes read from different banks. Of what is not WHOLE there
// is little, but others wait for it: it takes half the code, and (64, 128, 73, 73) halves an H100 87 us as with all of
// it, and not 93 as with a quarter.
template <bool WHOLE>
__device__ Half part_of(const Geometry& g, const char* from, int adder, int count, const Shift& shift) {
    constexpr int CHUNKS = UNIT_ROWS / ADDERS, BANKS = 128 / 16;
    constexpr int SWAPS = CHUNKS < BANKS ? CHUNKS : BANKS;
    const int first = (adder * LANES + lane_index()) * CHUNKS, swap = lane_index() / (BANKS / SWAPS) % SWAPS;
    SerialPrefix<Sums, levels_of(CHUNKS)> over_chunks;
    Sums total[1];
#pragma unroll(WHOLE ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; k++) {
        const Chunk chunk = load_staged<WHOLE>(g, from, (first + (k ^ swap)) * CHUNK, count, shift.element);
        total[0] = over_chunks.next(k, sum_of(chunk, shift.value));
    }
    return half_of_rows(total);
}

__device__ Input first_element(const Work& work, const TurnOf& turn) {
    return turn.exists() ? load_input(work.group(turn.bundle), work.g, 0) : Input();
}

__device__ void add_units(const Work& work, TurnOf turn, Parts (&parts)[STAGES], int adder) {
    Input next = {};
    for (bool begun = false; !begun || turn.exists(); begun = true) {  // a round more, which loads the first of all
        const Arrays group = work.group(turn.bundle);
        const Shift shift(next);
        TurnOf after = turn;
        if (begun) after.move(1);
        next = first_element(work, after);  // a turn before it is needed
#pragma unroll 1
        for (int i = 0; begun && i < PIECE; i++) {
            const Unit unit = work.unit(turn, i);
            const char* from = work.data(unit.visit) + stage_offset(work, group, unit);
            Parts& left = parts[unit.visit % STAGES];
            work.stage(unit.visit).full.wait(use_of(unit.visit));
            Half part = {};
            if (unit.count == UNIT) part = part_of<true>(work.g, from, adder, unit.count, shift);
            else if constexpr (ENDS != WHOLE) part = part_of<false>(work.g, from, adder, unit.count, shift);
            if (lane_index() < 2) left.of[adder][lane_index()] = part;
            if (lane_index() == 0 && adder == 0) left.shift = shift.value;
            left.summed.arrive();
        }
        turn = after;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// What is published of a piece: both of its sums, each in two words that are loaded together. All blocks read those of
// all pieces at the same time, so neighbouring lanes read neighbours: 64 groups of 16 MiB took 0.63 ms on an H200 where
// each sector was asked for four times, and 0.60 so. But a lane adds up neighbouring pieces by itself, so of each
// FOLDED pieces it is the first of every lane that lie side by side, then the second, and so on.

struct HalfWords {
    Word word[2];

    __device__ bool is_of(unsigned epoch) const {
        return static_cast<unsigned>(word[0] >> 32) == epoch && static_cast<unsigned>(word[1] >> 32) == epoch;
    }
    __device__ Half half() const { return {bits_as_double(word[1] << 32 | (word[0] & 0xffffffffu))}; }
};

constexpr int SHARERS = LANES / 2, SHARE = FOLDED / SHARERS;  // lanes that have the same sum of other pieces; pieces

__device__ Word* half_of(const Slot& slot, Index place, int which) { return slot.words + 4 * place + 2 * which; }

__device__ Index place_of(Index piece) {
    const Index number = piece % FOLDED;
    return piece - number + number % SHARE * SHARERS + number / SHARE;
}

__device__ void publish_half(Word* to, double value, unsigned epoch) {
    const Word bits = double_as_bits(value), upper = static_cast<Word>(epoch) << 32;
    store_relaxed_pair(to, upper | (bits & 0xffffffffu), upper | bits >> 32);
}

// The sums of FOLDED pieces of a group from `begin` on, of which some may not exist. Even lanes have the first of each,
// odd ones the second.
__device__ Sums fold_pieces(const Slot& slot, Index pieces, Index begin) {
    const Word* from = half_of(slot, begin + lane_index() / 2, lane_index() % 2);
    const Index left = pieces - begin - lane_index() / 2 * SHARE;
    HalfWords words[SHARE] = {};  // of no launch, and of those that do not exist the sums
    bool missing;
    do {
        missing = false;
#pragma unroll
        for (int k = 0; k < SHARE; k++) {
            if (k >= left || words[k].is_of(slot.epoch)) continue;
            missing = true;
            load_relaxed_pair(from + k * 2 * LANES, words[k].word);
        }
    } while (__any_sync(ALL_LANES, missing));
    Half half[SHARE];
#pragma unroll
    for (int k = 0; k < SHARE; k++) half[k] = words[k].half();
    Half sum = pairwise_sum(half);
#pragma unroll
    for (int step = 2; step < LANES; step *= 2) sum = combine(sum, shuffle(sum, lane_index() ^ step));
    const Half other = shuffle(sum, lane_index() ^ 1);
    const bool second = lane_index() % 2;
    return {second ? other.value : sum.value, second ? sum.value : other.value};
}

__device__ Sums fold_group(const Slot& slot, Index pieces) {
    if constexpr (FOLDS == 1) return fold_pieces(slot, pieces, 0);
    SerialPrefix<Sums> over_aligned;
    Sums total = {};
    for (int i = 0; i * FOLDED < pieces; i++) total = over_aligned.next(i, fold_pieces(slot, pieces, i * FOLDED));
    return total;
}

// The copy engine may write to the stage next, and its writes are ordered behind our reads by a fence alone: without
// one an H200 normalized some 200 runs of 64 floats of (64, 4194304) with the values of the unit that came into the
// stage next, once loaders did nothing between being told and copying.
__device__ void leave(Stage& stage) {
    if (BULK) fence_async_proxy();
    stage.emptied.arrive();
}

__device__ Half sum_of_parts(const Parts& parts, int which) {
    SerialPrefix<Half, levels_of(ADDERS)> over_parts;
    Half sum = {};
#pragma unroll
    for (int a = 0; a < ADDERS; a++) sum = over_parts.next(a, parts.of[a][which]);
    return sum;
}

// Returns what was subtracted from the elements. Even lanes have the first of the sums, odd ones the second.
__device__ double publish_piece(const Work& work, const TurnOf& turn, const Slot& slot, Parts (&parts)[STAGES]) {
    SerialPrefix<Half, levels_of(PIECE)> over_units;
    double shift = 0;
#pragma unroll 1
    for (int i = 0; i < PIECE; i++) {
        const int visit = turn.visit(i);
        Parts& left = parts[visit % STAGES];
        left.summed.wait(use_of(visit));
        const Half sum = over_units.next(i, sum_of_parts(left, lane_index() % 2));
        shift = left.shift;
        if (i == PIECE - 1 && lane_index() < 2) {
            work.fence();
            publish_half(half_of(slot, place_of(turn.piece), lane_index()), sum.value, slot.epoch);
        }
        leave(work.stage(visit));  // for the adders, too
    }
    return shift;
}

__device__ void publish_pieces(const Work& work, TurnOf turn, Parts (&parts)[STAGES]) {
    for (; turn.exists(); turn.move(1)) publish_piece(work, turn, turn.slot(work), parts);
}

// ---------------------------------------------------------------------------------------------------------------------
// Folders

__device__ double await_piece(const TurnOf& turn, Parts (&parts)[STAGES]) {
    const int last = turn.visit(PIECE - 1);
    parts[last % STAGES].summed.wait(use_of(last));  // by now the other blocks are about to publish too
    return parts[last % STAGES].shift;
}

__device__ void fold_groups(const Work& work, TurnOf turn, Parts (&parts)[STAGES], int folder) {
    for (turn.move(folder); turn.exists(); turn.move(FOLDERS)) {
        const Slot slot = turn.slot(work);
        const double shift = PUBLISHERS > 0 ? await_piece(turn, parts) : publish_piece(work, turn, slot, parts);
        const Moments moments = moments_of(fold_group(slot, work.cut.pieces), shift, work.p);
        Stage& known = outcome(work, turn.number);
        work.fence();
        if (lane_index() == 0) known.normal = Normal::of(moments, work.p);
        known.ready.arrive();
        if (lane_index() == 0 && turn.piece == 0 && work.arrays.mean) {
            store_moments(work.group(turn.bundle), moments, work.p);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Normalizers: each has some neighbouring rows of every unit.

static_assert(UNIT_ROWS % NORMALIZERS == 0 && UNIT_ROWS % ADDERS == 0, "rows are shared out evenly");

constexpr int ROWS = UNIT_ROWS / NORMALIZERS, AT_ONCE = ROWS < 4 ? ROWS : 4, ROUNDS = ROWS / AT_ONCE;
constexpr int OF_ROUND = AT_ONCE * ROW;  // elements

// What a warp normalizes at once: a lane's chunks.
struct Rows {
    Held<Chunk> chunk[AT_ONCE];
};

// Their scale and bias. They stay in registers while units of the same place in groups of the same scale and bias
// follow one another, which is where a block has the same piece of every group.
struct RowOperands {
    Operands<CHUNK> row[AT_ONCE];
    const char* scale = nullptr;
    const char* bias = nullptr;
    Index first = -1;

    template <typename End> __device__ void load(const Work& work, const Arrays& group, Index number, End end) {
        if (number == first && group.scale == scale && group.bias == bias) return;
        first = number, scale = group.scale, bias = group.bias;
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            if (r > 0 && OF_UNITS) {
                row[r] = row[0];
                continue;
            }
            row[r].load_once(group);
            load_operands(group, work.g, number + r * ROW + lane_index() * CHUNK, end, row[r]);
        }
    }
};

// Where every group reads scale and bias of all its elements again, they are more than the second-level cache holds
// beside what streams through it: 64 groups of 16 MiB take an H200 0.86 ms if none of 8 units is kept, 0.66 if 2 are,
// and 0.62 if 4 are, for which the other warps hand registers over.
struct KeptOperands {
    Operands<CHUNK> row[OPERANDS_KEPT > 0 ? OPERANDS_KEPT : 1][ROUNDS][AT_ONCE];

    __device__ void take(const Work& work, const TurnOf& turn, int begin) {
        const Arrays group = work.group(turn.bundle);
#pragma unroll
        for (int i = 0; i < OPERANDS_KEPT; i++) {
            const Unit unit = work.unit(turn, PIECE - OPERANDS_KEPT + i);
#pragma unroll
            for (int k = 0; k < ROUNDS; k++) {
                RowOperands loaded;
                loaded.load(work, group, unit.begin + begin + k * OF_ROUND, unit.end());
#pragma unroll
                for (int r = 0; r < AT_ONCE; r++) row[i][k][r] = loaded.row[r];
            }
        }
    }

    // By selections, as registers have no addresses.
    __device__ void give(int unit, int round, RowOperands& taken) const {
        taken.first = -1;
#pragma unroll
        for (int i = 0; i < OPERANDS_KEPT; i++) {
#pragma unroll
            for (int k = 0; k < ROUNDS; k++) {
                if (unit != PIECE - OPERANDS_KEPT + i || round != k) continue;
#pragma unroll
                for (int r = 0; r < AT_ONCE; r++) taken.row[r] = row[i][k][r];
            }
        }
    }
};

template <bool WHOLE>
__device__ void load_rows(const Geometry& g, const char* from, const Unit& unit, int first, Rows& rows) {
#pragma unroll
    for (int r = 0; r < AT_ONCE; r++) {
        rows.chunk[r] = load_staged<WHOLE>(g, from, first + r * ROW + lane_index() * CHUNK, unit.count, Input());
    }
}

template <bool WHOLE>
__device__ void store_rows(const Work& work, RowBuffer& buffer, const Arrays& group, const Unit& unit, int first,
                           const Rows& rows, const Normal& normal, const RowOperands& operands) {
#pragma unroll
    for (int r = 0; r < AT_ONCE; r++) {
        const Index row = unit.begin + first + r * ROW;
        Result result = normalized(rows.chunk[r], normal, operands.row[r], work.p);
        if constexpr (WHOLE && OUTPUT_PACKED) {
            char* to = group.output + packed_offset<OF_OUTPUT, Output>(work.g, row + lane_index() * CHUNK);
            if (OPERANDS_AGAIN) store_streaming(reinterpret_cast<Result*>(to), result);
            else *reinterpret_cast<Result*>(to) = result;
        } else if constexpr (WHOLE) {
            store_row(buffer, group, work.g, row, Beyond{}, result, r);
        } else {
            store_row(buffer, group, work.g, row, unit.end(), result, r);
        }
    }
}

__device__ void take_rows(const Work& work, const Arrays& group, const Unit& unit, int first, Rows& rows) {
    const char* from = work.data(unit.visit) + stage_offset(work, group, unit);
    if (unit.count == UNIT) load_rows<true>(work.g, from, unit, first, rows);
    else if constexpr (ENDS != WHOLE) load_rows<false>(work.g, from, unit, first, rows);
}

__device__ void finish_rows(const Work& work, RowBuffer& buffer, const Arrays& group, const Unit& unit, int first,
                            const Rows& rows, const Normal& normal, const RowOperands& operands) {
    constexpr bool ALIKE = STORED_IN_RUNS;  // whatever is stored together may end anywhere
    if (!ALIKE && unit.count == UNIT) {
        store_rows<true>(work, buffer, group, unit, first, rows, normal, operands);
    } else if constexpr (ALIKE || ENDS != WHOLE) {
        store_rows<false>(work, buffer, group, unit, first, rows, normal, operands);
    }
}

// The first units of a piece, which stay in registers, so that their stages are free before the group is known.
struct HeldUnits {
    Rows rows[HELD > 0 ? HELD : 1][ROUNDS];

    __device__ void take(const Work& work, const TurnOf& turn, const Arrays& group, int begin) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            const Unit unit = work.unit(turn, i);
            Stage& stage = work.stage(unit.visit);
            stage.full.wait(use_of(unit.visit));
#pragma unroll
            for (int k = 0; k < ROUNDS; k++) take_rows(work, group, unit, begin + k * OF_ROUND, rows[i][k]);
            leave(stage);
        }
    }

    // By selections, so that the code which normalizes stands in the kernel once.
    __device__ void give(int unit, int round, Rows& taken) const {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
#pragma unroll
            for (int k = 0; k < ROUNDS; k++) {
                if (unit == i && round == k) taken = rows[i][k];
            }
        }
    }
};

// Where two pieces are more than a ring, the last units of the next one are loaded into the first stages that this one
// leaves. All blocks wait for these loads, which would come behind all stores of this piece: so its other units wait
// until they are there. But what waits for scale and bias asks for stores slowly enough: 64 groups of 16 MiB take an
// H200 0.664 ms, and 0.675 if loads are let pass.
constexpr bool LOADS_PASS = 2 * PIECE > STAGES + HELD && OPERANDS_KEPT == 0;

// Before units are normalized, when `left` is the last visit whose stage this warp has left.
__device__ void let_loads_pass(const Work& work, const TurnOf& turn, int left) {
    TurnOf next = turn;
    next.move(1);
    const int last = next.visit(PIECE - 1);
    if (next.exists() && left >= last - STAGES) work.stage(last).full.wait(use_of(last));
}

__device__ void normalize_unit(const Work& work, RowBuffer& buffer, const TurnOf& turn, const Arrays& group, int i,
                               int begin, const HeldUnits& held, const KeptOperands& kept, RowOperands& operands) {
    const Unit unit = work.unit(turn, i);
    Stage &stage = work.stage(unit.visit), &known = outcome(work, turn.number);
#pragma unroll 1
    for (int k = 0; k < ROUNDS; k++) {
        const int first = begin + k * OF_ROUND;
        if (i >= PIECE - OPERANDS_KEPT) kept.give(i, k, operands);
        else if (ENDS == CUT && unit.count == UNIT) operands.load(work, group, unit.begin + first, Beyond{});
        else operands.load(work, group, unit.begin + first, unit.end());
        if (k == 0) known.ready.wait(use_of(turn.number));
        const Normal normal = known.normal;
        Rows rows;
        if (i < HELD) {
            held.give(i, k, rows);
        } else {
            if (k == 0) stage.full.wait(use_of(unit.visit));  // known by now; this wait shows what the copies wrote
            if (k == 0 && LOADS_PASS) let_loads_pass(work, turn, unit.visit - 1);
            take_rows(work, group, unit, first, rows);
            if (k == ROUNDS - 1) leave(stage);  // the stage need not wait for stores
        }
        finish_rows(work, buffer, group, unit, first, rows, normal, operands);
    }
}

__device__ void normalize_units(const Work& work, TurnOf turn, int normalizer) {
    RowBuffer& buffer = reinterpret_cast<RowBuffer*>(work.ring + STAGES * STAGE_BYTES)[normalizer];
    const int begin = normalizer * ROWS * ROW;
    RowOperands operands;
    KeptOperands kept;
    if (OPERANDS_KEPT > 0 && turn.exists()) kept.take(work, turn, begin);
    for (; turn.exists(); turn.move(1)) {
        const Arrays group = work.group(turn.bundle);
        HeldUnits held;
        held.take(work, turn, group, begin);
#pragma unroll 1
        for (int i = 0; i < PIECE; i++) normalize_unit(work, buffer, turn, group, i, begin, held, kept, operands);
    }
}

// ---------------------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 1)
normalize_stream(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                 double bias_number, char* mean, char* variance, Word* control, Geometry g, Parameters p, Cut cut) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Stage stages[STAGES];
    __shared__ Parts parts[STAGES];
    __shared__ Batch batches[KNOWN];
    const int warp = static_cast<int>(threadIdx.x) / LANES, gate = static_cast<int>(threadIdx.x) - LANES;
    if (0 <= gate && gate < GATES) {
        if (gate < STAGES) {
            open(stages[gate], LOADERS * LANES, (NORMALIZERS + 1) * LANES);
            parts[gate].summed.init(ADDERS * LANES);
        }
        if (DRAWN > 0 && gate < KNOWN) batches[gate].known.init(1);
        if (BULK) fence_mbarrier_init();
    }
    const unsigned epoch = begin_launch(control, cut);

    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Team team(cut, batches, control + SECTOR, epoch);
    const Work work = {arrays, g, p, cut, stages, reinterpret_cast<char*>(dynamic_shared), team.slots(), epoch,
                       input == output};
    if (DRAWN > 0 && threadIdx.x == 0) team.draw_first();
    const TurnOf turn(team);
    if (warp >= FIRST_NORMALIZER) {
        if constexpr (NORMALIZER_REGISTERS > 0) take_registers<NORMALIZER_REGISTERS>();
        normalize_units(work, turn, warp - FIRST_NORMALIZER);
        return;
    }
    if constexpr (OTHER_REGISTERS > 0) leave_registers<OTHER_REGISTERS>();
    if (warp < FIRST_ADDER) load_units(work, turn, team);
    else if (warp < PUBLISHER) add_units(work, turn, parts, warp - FIRST_ADDER);
    else if (warp < FIRST_FOLDER) publish_pieces(work, turn, parts);
    else fold_groups(work, turn, parts, warp - FIRST_FOLDER);
}
