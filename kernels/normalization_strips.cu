// Normalization of large groups that lie side by side, columns of a matrix: read once (normalization_ring.cuh).
//
// A bundle is a strip of COLUMNS neighbours, a unit STEPS rows of it. A lane works on VECTOR columns.
//
// Constants that the plan sets, beside those of normalization_ring.cuh:
//     VECTOR, STEPS                 columns of a lane, of which a warp has COLUMNS; rows of a unit, a power of two
//     COPY_BYTES                    of a copy that a loader does not wait for (cp.async)
//     OUTPUT_PACKED                 the outputs of VECTOR columns lie dense and aligned
//     SCALE_ACROSS, BIAS_ACROSS     0: the same for the VECTOR columns, 1: of each its own
#include "normalization.cuh"

constexpr Index UNIT = STEPS;
constexpr int SIZE = static_cast<int>(sizeof(Input)), PITCH = COLUMNS * SIZE, STAGE_BYTES = STEPS * PITCH;

#include "normalization_ring.cuh"

constexpr int INNER = KEPT_RANK - 1;

static_assert(COLUMNS == VECTOR * LANES, "a warp has the columns of a strip");

using Elements = Pack<Input, VECTOR>;

__device__ int column_of_lane() { return lane_index() * VECTOR; }

__device__ Elements staged(const char* data, int step) {
    return *reinterpret_cast<const Elements*>(data + step * PITCH + column_of_lane() * SIZE);
}

// ---------------------------------------------------------------------------------------------------------------------
// Loaders: each thread has the same place in every DOWN-th row.

__device__ void load_units(const Work& work) {
    constexpr int ACROSS = PITCH / COPY_BYTES, DOWN = LOADERS * LANES / ACROSS;
    static_assert(LOADERS * LANES % ACROSS == 0 && STEPS % DOWN == 0, "");
    const int thread = static_cast<int>(threadIdx.x);
    const int place = thread % ACROSS * COPY_BYTES, first = thread / ACROSS;
    for (int visit = 0; work.has(visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = work.unit(visit);
        const char* from = work.group(unit.bundle).input + place;
        char* to = work.data(visit) + place;
        const bool exists = place < work.width(unit.bundle) * SIZE;
        await_emptied(work, visit);
#pragma unroll 4
        for (int step = first; step < STEPS; step += DOWN) {
            if (!exists || step >= unit.count) break;
            const Index offset = work.g.reduced.offsets(unit.number * UNIT + step).of[OF_INPUT];
            copy_async<COPY_BYTES>(to + step * PITCH, from + offset);
        }
        stage.full.arrive_after_copies();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Adders: each has some neighbouring rows of every unit, and each lane its columns of them.

__device__ void add_units(const Work& work, int adder) {
    constexpr int CHUNKS = STEPS / ADDERS / CHUNK;
    for (int visit = 0; work.has(visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = work.unit(visit);
        const bool exists = column_of_lane() < work.width(unit.bundle);
        const char* data = work.data(visit);
        Input first[VECTOR];
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            first[v] = exists ? load_input(work.group(unit.bundle, column_of_lane() + v), work.g, 0) : Input();
        }
        stage.full.wait(turn(visit));
        SerialPrefix<Sums> over_chunks[VECTOR];
        Sums total[VECTOR] = {};
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const int begin = (adder * CHUNKS + i) * CHUNK;
            Elements step[CHUNK];
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                if (exists && begin + j < unit.count) step[j] = staged(data, begin + j);
            }
#pragma unroll
            for (int v = 0; v < VECTOR; v++) {
                const Shift shift(first[v]);
                Pack<Input, CHUNK> chunk;
#pragma unroll
                for (int j = 0; j < CHUNK; j++) {
                    chunk.element[j] = exists && begin + j < unit.count ? step[j].element[v] : shift.element;
                }
                total[v] = over_chunks[v].next(i, sum_of(chunk, shift.value));
            }
        }
        Sums* part = await_room(work, visit, adder);
#pragma unroll
        for (int v = 0; v < VECTOR; v++) part[column_of_lane() + v] = total[v];
        arrive_by_warp(stage.summed);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Normalizers: each has every NORMALIZERS-th row.

// Scale or bias of the lane's columns, in one row.
template <typename Stored, int ARRAY, int KIND, bool ALIGNED, bool EACH> struct RowOperand {
    static constexpr int WIDE = EACH && KIND != NUMBER ? VECTOR : 1;
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

__device__ void normalize_units(const Work& work, int normalizer) {
    constexpr int AT_ONCE = 4;
    for (int visit = 0; work.has(visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = work.unit(visit);
        const bool exists = column_of_lane() < work.width(unit.bundle);
        const Arrays column = work.group(unit.bundle, exists ? column_of_lane() : 0);
        const char* data = work.data(visit);
        RowOperands operands[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) operands[k].load_once(column, work.g);
        stage.full.wait(turn(visit));  // known by now, but it is this wait that shows what the copies wrote
        stage.ready.wait(turn(visit));
        Normal normal[VECTOR];
#pragma unroll
        for (int v = 0; v < VECTOR; v++) normal[v] = stage.normal[column_of_lane() + v];
        const int count = exists ? unit.count : 0;
#pragma unroll 1
        for (int first = normalizer; first < count; first += AT_ONCE * NORMALIZERS) {
            Offsets row[AT_ONCE];
            Elements elements[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int step = first + k * NORMALIZERS;
                row[k] = work.g.reduced.offsets(unit.number * UNIT + step);
                if (step >= count) continue;
                operands[k].load(column, work.g, row[k]);
                elements[k] = staged(data, step);
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                if (first + k * NORMALIZERS >= count) continue;
                normalize_row(work, column, elements[k], normal, operands[k], column.output + row[k].of[OF_OUTPUT]);
            }
        }
        arrive_by_warp(stage.emptied);
    }
}

// ---------------------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 1)
normalize_strips(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                 double bias_number, char* mean, char* variance, Word* control, Geometry g, Parameters p, Cut cut) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Stage stages[STAGES];
    __shared__ Parts parts;
    const int warp = static_cast<int>(threadIdx.x) / LANES;
    if (threadIdx.x == LANES) {
        for (int i = 0; i < STAGES; i++) open(stages[i], LOADERS * LANES);
        fence_mbarrier_init();
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
    else normalize_units(work, warp - FIRST_NORMALIZER);
}
