// Normalization of large groups whose elements lie side by side, in one run or in many; they are read once
// (normalization_ring.cuh).
//
// A unit is 64 rows of 32 chunks. Runs that are long and aligned are loaded by bulk copies, one for each; a single run
// by one copy at any address; everything else by ordinary loads.
//
// Constants that the plan sets, beside those of normalization_ring.cuh and normalization_chunks.cuh:
//     BULK        1: bulk copies, by one warp; 0: ordinary loads
//     ONE_RUN     1: the elements of a group follow each other in memory
#include "normalization_chunks.cuh"

constexpr int UNIT_ROWS = 64;
constexpr Index UNIT = UNIT_ROWS * ROW;
constexpr int STAGE_BYTES = static_cast<int>(UNIT) * static_cast<int>(sizeof(Input)) + (BULK && !INPUT_PACKED ? 16 : 0);

#include "normalization_ring.cuh"

constexpr bool STAGED_PACKED = !BULK || INPUT_PACKED, STAGED_ALIGNED = !BULK || INPUT_ALIGNED;
constexpr int SIZE = static_cast<int>(sizeof(Input));

static_assert(COLUMNS == 1, "a bundle is a group");

// ---------------------------------------------------------------------------------------------------------------------
// Loaders. A stage holds a unit in the order of its elements.

__device__ const char* address_of(const char* of_group, const Geometry& g, Index number) {
    return of_group + g.reduced.offsets(number).of[OF_INPUT];
}

// Where in its stage a unit begins: bulk copies keep the place within 16 bytes.
__device__ int stage_offset(const Work& work, const Unit& unit) {
    if (STAGED_PACKED) return 0;
    const char* from = address_of(work.group(unit.bundle).input, work.g, unit.number * UNIT);
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
    if (lane == 0 && bulk > 0) full.arrive_with_copy(to + head, from + head, bulk);
    else full.arrive();
}

// Many runs, by a warp in which each lane has one.
__device__ void copy_runs(const Work& work, const Unit& unit, const char* of_group, Gate& full, char* data) {
    const Index run = work.g.reduced.size[REDUCED_RANK - 1], begin = unit.number * UNIT, end = begin + unit.count;
    const Index of_lane = (work.g.reduced.quotient(begin, REDUCED_RANK - 1) + lane_index()) * run;
    const Index first = of_lane < begin ? begin : of_lane, last = of_lane + run < end ? of_lane + run : end;
    if (first < last) {
        full.arrive_with_copy(data + (first - begin) * SIZE, address_of(of_group, work.g, first),
                              static_cast<unsigned>(last - first) * SIZE);
    } else {
        full.arrive();
    }
}

// By all loaders.
__device__ void copy_by_elements(const Work& work, const Unit& unit, const Arrays& group, Gate& full, char* data) {
    constexpr int AT_ONCE = 8, THREADS = LOADERS * LANES;
    Input* to = reinterpret_cast<Input*>(data);
    for (int first = threadIdx.x; first < unit.count; first += AT_ONCE * THREADS) {
        Input element[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int i = first + k * THREADS < unit.count ? first + k * THREADS : unit.count - 1;
            element[k] = load_input(group, work.g, unit.number * UNIT + i);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (first + k * THREADS < unit.count) to[first + k * THREADS] = element[k];
        }
    }
    full.arrive();
}

__device__ void load_units(const Work& work) {
    for (int visit = 0; work.has(visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = work.unit(visit);
        const Arrays group = work.group(unit.bundle);
        await_emptied(work, visit);
        if (!BULK) {
            copy_by_elements(work, unit, group, stage.full, work.data(visit));
        } else if (ONE_RUN) {
            char* to = work.data(visit) + stage_offset(work, unit);
            copy_run(stage.full, to, address_of(group.input, work.g, unit.number * UNIT), unit.count * SIZE);
        } else {
            copy_runs(work, unit, group.input, stage.full, work.data(visit));
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Adders and normalizers: each has some neighbouring rows of every unit.

// The chunk that begins with element `number` of the unit.
__device__ void load_staged(const char* from, int number, int count, Input missing, Chunk& chunk) {
    if (STAGED_PACKED && number + CHUNK <= count) {
        chunk = *reinterpret_cast<const Chunk*>(from + number * SIZE);
        return;
    }
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        chunk.element[j] = missing;
        if (number + j < count) chunk.element[j] = load_element<Input, STAGED_ALIGNED>(from + (number + j) * SIZE);
    }
}

__device__ void add_units(const Work& work, int adder) {
    constexpr int ROWS = UNIT_ROWS / ADDERS, AT_ONCE = ROWS < 8 ? ROWS : 8;
    for (int visit = 0; work.has(visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = work.unit(visit);
        const Shift shift(load_input(work.group(unit.bundle), work.g, 0));
        const char* from = work.data(visit) + stage_offset(work, unit);
        stage.full.wait(turn(visit));
        SerialPrefix<Sums> over_rows;
        Sums total = {};
#pragma unroll 1
        for (int first = 0; first < ROWS; first += AT_ONCE) {
            Sums sums[AT_ONCE];
#pragma unroll
            for (int r = 0; r < AT_ONCE; r++) {
                const int number = ((adder * ROWS + first + r) * LANES + lane_index()) * CHUNK;
                Chunk chunk;
                load_staged(from, number, unit.count, shift.element, chunk);
                sums[r] = sum_of(chunk, shift.value);
            }
            total = over_rows.next(first / AT_ONCE, lane_sum<AT_ONCE>(row_aggregates(sums)));
        }
        Sums* part = await_room(work, visit, adder);
        if (lane_index() == 0) part[0] = total;
        arrive_by_warp(stage.summed);
    }
}

__device__ void normalize_units(const Work& work, RowBuffer& buffer, int normalizer) {
    constexpr int ROWS = UNIT_ROWS / NORMALIZERS, AT_ONCE = ROWS < 4 ? ROWS : 4;
    for (int visit = 0; work.has(visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = work.unit(visit);
        const Arrays group = work.group(unit.bundle);
        const char* from = work.data(visit) + stage_offset(work, unit);
        const Index begin = unit.number * UNIT;
#pragma unroll 1
        for (int first = normalizer * ROWS; first < (normalizer + 1) * ROWS; first += AT_ONCE) {
            Operands<CHUNK> operands[AT_ONCE];
#pragma unroll
            for (int r = 0; r < AT_ONCE; r++) {
                const Index number = begin + ((first + r) * LANES + lane_index()) * CHUNK;
                operands[r].load_once(group);
                load_operands(group, work.g, number, begin + unit.count, operands[r]);
            }
            if (first == normalizer * ROWS) {
                stage.full.wait(turn(visit));  // known by now, but it is this wait that shows what the copies wrote
                stage.ready.wait(turn(visit));
            }
#pragma unroll
            for (int r = 0; r < AT_ONCE; r++) {
                Chunk chunk;
                load_staged(from, ((first + r) * LANES + lane_index()) * CHUNK, unit.count, Input(), chunk);
                Result result = normalized(chunk, stage.normal[0], operands[r], work.p);
                store_row(buffer, group, work.g, begin + (first + r) * ROW, begin + unit.count, result);
            }
        }
        arrive_by_warp(stage.emptied);
    }
}

// ---------------------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 1)
normalize_stream(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                 double bias_number, char* mean, char* variance, Word* control, Geometry g, Parameters p, Cut cut) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Stage stages[STAGES];
    __shared__ Parts parts;
    __shared__ RowBuffer buffers[OUTPUT_PACKED ? 1 : NORMALIZERS];
    const int warp = static_cast<int>(threadIdx.x) / LANES;
    if (threadIdx.x == LANES) {
        for (int i = 0; i < STAGES; i++) open(stages[i], LOADERS * LANES);
        if (BULK) fence_mbarrier_init();
    }
    const unsigned epoch = begin_launch(control, cut);

    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Work work = {arrays, g, p, cut, stages, parts, reinterpret_cast<char*>(dynamic_shared), control + 1,
                       epoch, input == output};
    if (warp < FIRST_ADDER) load_units(work);
    else if (warp < PUBLISHER) add_units(work, warp - FIRST_ADDER);
    else if (warp == PUBLISHER) publish_units(work);
    else if (warp < FIRST_AWAITER) fold_units(work, warp - FIRST_FOLDER);
    else if (warp < FIRST_NORMALIZER) await_units(work, warp - FIRST_AWAITER);
    else normalize_units(work, buffers[OUTPUT_PACKED ? 0 : warp - FIRST_NORMALIZER], warp - FIRST_NORMALIZER);
}
