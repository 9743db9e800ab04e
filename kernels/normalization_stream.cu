// Normalization of large groups whose elements lie side by side, in one run or in many; they are read once
// (normalization_ring.cuh).
//
// A unit is UNIT_ROWS rows of 32 chunks. Runs that are long and aligned are loaded by bulk copies, one for each; a
// single run by one copy at any address; other runs by threads, of whom none waits for what it copies; what is smaller
// than a copy, and elements with gaps, by ordinary loads.
//
// Constants that the plan sets, beside those of normalization_ring.cuh and normalization_chunks.cuh:
//     UNIT_ROWS   a power of two
//     BULK        1: bulk copies, by one warp; 0: asynchronous copies of chunks or elements, or ordinary loads
//     ONE_RUN     1: the elements of a group follow each other in memory
// Unless OUTPUT_PACKED, dynamic shared memory ends with a RowBuffer for each normalizer.
#include "normalization_chunks.cuh"

constexpr Index UNIT = UNIT_ROWS * ROW;
constexpr int STAGE_BYTES = static_cast<int>(UNIT) * static_cast<int>(sizeof(Input)) + (BULK && !INPUT_PACKED ? 16 : 0);

#include "normalization_ring.cuh"

constexpr bool STAGED_PACKED = !BULK || INPUT_PACKED, STAGED_ALIGNED = !BULK || INPUT_ALIGNED;
constexpr int SIZE = static_cast<int>(sizeof(Input));

constexpr int FIRST_ADDER = LOADERS, PUBLISHER = FIRST_ADDER + ADDERS, FIRST_FOLDER = PUBLISHER + 1,
              FIRST_NORMALIZER = FIRST_FOLDER + FOLDERS, WARPS = FIRST_NORMALIZER + NORMALIZERS;

static_assert(COLUMNS == 1, "a bundle is a group");
static_assert(FOLDERS * PIECE <= STAGES, "none may be a use of a stage ahead");

// What the adders leave of the unit in a stage.
struct Parts {
    Gate summed;
    double shift;
    Sums of[ADDERS];
};

// ---------------------------------------------------------------------------------------------------------------------
// Loaders. A stage holds a unit in the order of its elements.

__device__ const char* address_of(const char* of_group, const Geometry& g, Index number) {
    return of_group + g.reduced.offsets(number).of[OF_INPUT];
}

// Where in its stage a unit begins: bulk copies keep the place within 16 bytes.
__device__ int stage_offset(const Work& work, const Arrays& group, const Unit& unit) {
    if (STAGED_PACKED) return 0;
    const char* from = address_of(group.input, work.g, unit.begin);
    return static_cast<int>(reinterpret_cast<unsigned long long>(from) % 16);
}

// One run, by a warp. The copy engine moves whole 16 bytes; the few bytes before and after them are moved one by one.
__device__ void copy_run(Gate& full, char* to, const char* from, int bytes) {
    const int lane = lane_index(), place = static_cast<int>(reinterpret_cast<unsigned long long>(from) % 16);
    int head = (16 - place) % 16;
    if (head > bytes) head = bytes;
    const int bulk = (bytes - head) / 16 * 16, tail = bytes - head - bulk;
    if (lane < head) to[lane] = from[lane];
    if (lane >= 16 && lane - 16 < tail) to[head + bulk + lane - 16] = from[head + bulk + lane - 16];
    if (head + tail > 0) fence_async_proxy();  // the copy engine writes here the next time round
    __syncwarp();
    if (lane == 0 && bulk > 0) full.arrive_with_only_copy(to + head, from + head, bulk);
    else full.arrive();
}

// Many runs, by a warp in which each lane has one.
__device__ void copy_runs(const Work& work, const Unit& unit, const char* of_group, Gate& full, char* data) {
    const Index run = work.g.reduced.size[REDUCED_RANK - 1], begin = unit.begin, end = begin + unit.count;
    const Index of_lane = (work.g.reduced.quotient(begin, REDUCED_RANK - 1) + lane_index()) * run;
    const Index first = of_lane < begin ? begin : of_lane, last = of_lane + run < end ? of_lane + run : end;
    if (first < last) {
        full.arrive_with_only_copy(data + (first - begin) * SIZE, address_of(of_group, work.g, first),
                                   static_cast<unsigned>(last - first) * SIZE);
    } else {
        full.arrive();
    }
}

// What a thread copies without waiting for it: a chunk, or an element of many runs. Those of one run with gaps are
// loaded faster: every second of 4096 x 65536 floats took 0.53 ms on an H200, and 0.55 by copies.
constexpr int COPIED = INPUT_PACKED ? CHUNK : 1;
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

// By all loaders, who wait for what they load.
__device__ void copy_by_elements(const Work& work, const Unit& unit, const Arrays& group, Gate& full, char* data) {
    constexpr int AT_ONCE = 8, THREADS = LOADERS * LANES;
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

__device__ void load_units(const Work& work) {
    for (Turn<> turn(work.cut); turn.exists(); turn.advance()) {
        const Arrays group = work.group(turn.bundle);
        for (int i = 0; i < PIECE; i++) {
            const Unit unit = work.unit(turn, i);
            Gate& full = work.stage(unit.visit).full;
            await_emptied(work, unit.visit);
            if constexpr (!BULK && BY_THREADS) {
                copy_by_threads(work, unit, group, full, work.data(unit.visit));
            } else if (!BULK) {
                copy_by_elements(work, unit, group, full, work.data(unit.visit));
            } else if (ONE_RUN) {
                char* to = work.data(unit.visit) + stage_offset(work, group, unit);
                copy_run(full, to, address_of(group.input, work.g, unit.begin), unit.count * SIZE);
            } else {
                copy_runs(work, unit, group.input, full, work.data(unit.visit));
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Adders: each has some neighbouring rows of every unit.

// The chunk that begins with element `number` of the unit. All of a WHOLE unit exists.
template <bool WHOLE>
__device__ void load_staged(const char* from, int number, int count, Input missing, Chunk& chunk) {
    if (STAGED_PACKED && (WHOLE || number + CHUNK <= count)) {
        chunk = *reinterpret_cast<const Chunk*>(from + number * SIZE);
    } else {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            chunk.element[j] = missing;
            if (WHOLE || number + j < count) {
                chunk.element[j] = load_element<Input, STAGED_ALIGNED>(from + (number + j) * SIZE);
            }
        }
    }
}

// Each lane has neighbouring chunks, so that it adds most of them up by itself. Which of a pair, of a pair of pairs and
// so on it takes first depends on the lane: so neighbouring lanes read from different banks.
template <bool WHOLE> __device__ Sums part_of(const char* from, int adder, int count, const Shift& shift) {
    constexpr int CHUNKS = UNIT_ROWS / ADDERS, BANKS = 128 / 16;
    constexpr int SWAPS = CHUNKS < BANKS ? CHUNKS : BANKS;
    const int first = (adder * LANES + lane_index()) * CHUNKS, swap = lane_index() / (BANKS / SWAPS) % SWAPS;
    SerialPrefix<Sums> over_chunks;
    Sums total = {};
#pragma unroll
    for (int k = 0; k < CHUNKS; k++) {
        Chunk chunk;
        load_staged<WHOLE>(from, (first + (k ^ swap)) * CHUNK, count, shift.element, chunk);
        total = over_chunks.next(k, sum_of(chunk, shift.value));
    }
    return lane_sum(total);
}

__device__ Input first_element(const Work& work, const Turn<>& turn) {
    return turn.exists() ? load_input(work.group(turn.bundle), work.g, 0) : Input();
}

__device__ void add_units(const Work& work, Parts (&parts)[STAGES], int adder) {
    Turn<> turn(work.cut);
    Input next = first_element(work, turn);
    while (turn.exists()) {
        const Arrays group = work.group(turn.bundle);
        const Shift shift(next);
        Turn<> after = turn;
        after.advance();
        next = first_element(work, after);  // a turn before it is needed
        for (int i = 0; i < PIECE; i++) {
            const Unit unit = work.unit(turn, i);
            const char* from = work.data(unit.visit) + stage_offset(work, group, unit);
            Parts& left = parts[unit.visit % STAGES];
            work.stage(unit.visit).full.wait(use_of(unit.visit));
            const bool whole = unit.count == UNIT;
            const Sums part = whole ? part_of<true>(from, adder, unit.count, shift)
                                    : part_of<false>(from, adder, unit.count, shift);
            if (lane_index() == 0) left.of[adder] = part;
            if (lane_index() == 0 && adder == 0) left.shift = shift.value;
            arrive_by_warp(left.summed);
        }
        turn = after;
    }
}

__device__ void publish_pieces(const Work& work, Parts (&parts)[STAGES]) {
    for (Turn<> turn(work.cut); turn.exists(); turn.advance()) {
        const Slot slot = work.slot(turn.bundle);
        PieceSum over_units;
        for (int i = 0; i < PIECE; i++) {
            const int visit = turn.visit(i);
            const Parts& left = parts[visit % STAGES];
            parts[visit % STAGES].summed.wait(use_of(visit));
            SerialPrefix<Sums> over_parts;
            Sums sums = {};
#pragma unroll
            for (int a = 0; a < ADDERS; a++) sums = over_parts.next(a, left.of[a]);
            sums = over_units.next(i, sums);
            if (i == PIECE - 1 && lane_index() == 0) {
                work.fence();
                publish(slot.sums(0, turn.piece), sums, slot.epoch, slot.sums_apart);
            }
            arrive_by_warp(work.stage(visit).emptied);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Folders

__device__ void fold_pieces(const Work& work, Parts (&parts)[STAGES], int folder) {
    const Index share = share_of(work.cut.pieces, LANES);
    for (Turn<FOLDERS> turn(work.cut, folder); turn.exists(); turn.advance()) {
        const Slot slot = work.slot(turn.bundle);
        const int last = turn.visit(PIECE - 1);
        parts[last % STAGES].summed.wait(use_of(last));  // by now the other blocks are about to publish too
        const double shift = parts[last % STAGES].shift;
        const Sums sums = lane_sum(fold(slot, work.cut.pieces, 0, lane_index() * share, share));
        const Moments moments = moments_of(sums, shift, work.p);
        const Normal normal = Normal::of(moments, work.p);
        work.fence();
        for (int i = 0; i < PIECE; i++) {
            Stage& stage = work.stage(turn.visit(i));
            if (lane_index() == 0) stage.normal = normal;
            arrive_by_warp(stage.ready);
        }
        if (lane_index() == 0 && turn.piece == 0 && work.arrays.mean) {
            store_moments(work.group(turn.bundle), moments, work.p);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Normalizers: each has some neighbouring rows of every unit.

static_assert(UNIT_ROWS % NORMALIZERS == 0 && UNIT_ROWS % ADDERS == 0, "rows are shared out evenly");

constexpr int ROWS = UNIT_ROWS / NORMALIZERS, AT_ONCE = ROWS < 4 ? ROWS : 4;

// Scale and bias of the rows that a warp normalizes at once. They stay in registers while units of the same place in
// groups of the same scale and bias follow one another, which is where a block has the same piece of every group.
struct RowOperands {
    Operands<CHUNK> row[AT_ONCE];
    const char* scale = nullptr;
    const char* bias = nullptr;
    Index first = -1;

    __device__ void load(const Work& work, const Arrays& group, Index number, Index end) {
        if (number == first && group.scale == scale && group.bias == bias) return;
        first = number, scale = group.scale, bias = group.bias;
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            row[r].load_once(group);
            load_operands(group, work.g, number + r * ROW + lane_index() * CHUNK, end, row[r]);
        }
    }
};

template <bool WHOLE>
__device__ void normalize_rows(const Work& work, RowBuffer& buffer, const Arrays& group, const char* from,
                               const Unit& unit, int first, const RowOperands& operands) {
    const Normal normal = work.stage(unit.visit).normal;
#pragma unroll
    for (int r = 0; r < AT_ONCE; r++) {
        const int row = first + r * ROW, number = row + lane_index() * CHUNK;
        Chunk chunk;
        load_staged<WHOLE>(from, number, unit.count, Input(), chunk);
        Result result = normalized(chunk, normal, operands.row[r], work.p);
        if constexpr (WHOLE && OUTPUT_PACKED) {
            char* to = group.output + packed_offset<OF_OUTPUT, Output>(work.g, unit.begin + number);
            store_streaming(reinterpret_cast<Result*>(to), result);
        } else {
            store_row(buffer, group, work.g, unit.begin + row, unit.begin + unit.count, result);
        }
    }
}

__device__ void normalize_units(const Work& work, int normalizer) {
    RowBuffer& buffer = reinterpret_cast<RowBuffer*>(work.ring + STAGES * STAGE_BYTES)[normalizer];
    RowOperands operands;
    for (Turn<> turn(work.cut); turn.exists(); turn.advance()) {
        const Arrays group = work.group(turn.bundle);
        for (int i = 0; i < PIECE; i++) {
            const Unit unit = work.unit(turn, i);
            Stage& stage = work.stage(unit.visit);
            const char* from = work.data(unit.visit) + stage_offset(work, group, unit);
            const int begin = normalizer * ROWS * ROW;
#pragma unroll 1
            for (int first = begin; first < begin + ROWS * ROW; first += AT_ONCE * ROW) {
                operands.load(work, group, unit.begin + first, unit.begin + unit.count);
                if (first == begin) {
                    stage.full.wait(use_of(unit.visit));  // known by now; this wait shows what the copies wrote
                    stage.ready.wait(use_of(unit.visit));
                    let_loads_pass(work, turn, unit.visit - 1);
                }
                if (unit.count == UNIT) normalize_rows<true>(work, buffer, group, from, unit, first, operands);
                else normalize_rows<false>(work, buffer, group, from, unit, first, operands);
            }
            arrive_by_warp(stage.emptied);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 1)
normalize_stream(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                 double bias_number, char* mean, char* variance, Word* control, Geometry g, Parameters p, Cut cut) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Stage stages[STAGES];
    __shared__ Parts parts[STAGES];
    const int warp = static_cast<int>(threadIdx.x) / LANES;
    if (threadIdx.x == LANES) {
        for (int i = 0; i < STAGES; i++) {
            open(stages[i], LOADERS * LANES, NORMALIZERS + 1);
            parts[i].summed.init(ADDERS);
        }
        if (BULK) fence_mbarrier_init();
    }
    const unsigned epoch = begin_launch(control, cut);

    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Work work = {arrays, g, p, cut, stages, reinterpret_cast<char*>(dynamic_shared), control + 1, epoch,
                       input == output};
    if (warp < FIRST_ADDER) load_units(work);
    else if (warp < PUBLISHER) add_units(work, parts, warp - FIRST_ADDER);
    else if (warp == PUBLISHER) publish_pieces(work, parts);
    else if (warp < FIRST_NORMALIZER) fold_pieces(work, parts, warp - FIRST_FOLDER);
    else normalize_units(work, warp - FIRST_NORMALIZER);
}
