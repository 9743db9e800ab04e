// Mean, variance and normalization of groups of a few rows whose elements lie side by side, in one run or in many.
//
// A warp holds ROWS rows of groups, each lane a chunk of each row. A row has groups of less than a row end to end, or
// is one of GROUP_ROWS of a group. Nothing is waited for but memory, so many small blocks do best, each thread of which
// loads a few chunks, all of them before it uses the first.
//
// Constants that the plan sets, beside those of normalization_rows.cuh:
//     LENGTH          elements of a group of less than a row; 0 otherwise
//     GROUP_ROWS      rows of a group, a power of two
//     REPEATS         1: scale and bias are the same for all groups
//     ROWS            rows that a warp holds, a power of two
//     TEAMS           warps of a block, each with groups of its own
//     RESIDENT        blocks of a multiprocessor for which there have to be registers, at least
#include "ahead.cuh"
#include "normalization_rows.cuh"

constexpr int GROUPS_OF_ROW = LANES / LINE_LANES, OPERAND_ROWS = REPEATS ? GROUP_ROWS : ROWS;
constexpr int SHORT_LENGTH = LENGTH > 0 ? LENGTH : 1;  // known to the compiler, which divides by it

static_assert(GROUPS_OF_ROW == 1 || GROUP_ROWS == 1, "rows of many groups or of one");

// The first group of a warp.
__device__ Index group_of_warp() {
    const Index warp = static_cast<Index>(blockIdx.x) * TEAMS + threadIdx.x / LANES;
    return warp * (ROWS / GROUP_ROWS) * GROUPS_OF_ROW;
}

// The groups of a row, or the one that it is a part of. For those that do not exist stands the warp's first, which no
// other warp writes where the output is the input.
struct RowGroups {
    const Arrays& arrays;
    const Geometry& g;
    Index first;
    int begin;  // of the row in its group
    int count;  // 0 behind the last group

    __device__ RowGroups(const Arrays& arrays, const Geometry& g, int row) : arrays(arrays), g(g) {
        first = group_of_warp() + row / GROUP_ROWS * GROUPS_OF_ROW;
        begin = row % GROUP_ROWS * ROW;
        count = up_to(g.groups - first, GROUPS_OF_ROW);
    }

    // Moments of 300 halves take 0.31 ms so in place of 0.52, but with an output nothing is gained: 0.55 and 0.51.
    __device__ bool exist() const { return ENDS == WHOLE || HAS_OUTPUT || GROUP_ROWS == 1 || begin < g.length; }
    __device__ bool has(int number) const { return ENDS == WHOLE || number < count; }
    __device__ Arrays group(int number) const {
        return arrays.at(g.kept.offsets(has(number) ? first + number : group_of_warp()));
    }
    __device__ Index length() const { return GROUPS_OF_ROW > 1 ? SHORT_LENGTH : g.length; }
    __device__ Index end(int number) const { return has(number) ? length() : 0; }

    // Where several groups lie end to end, a lane moves every 32nd element: i is that of group i / LENGTH.
    __device__ bool has_element(int i) const { return i < count * SHORT_LENGTH; }
};

// Of this lane.
__device__ int group_of_row() { return lane_index() / LINE_LANES; }
__device__ int place_in_group() { return lane_index() % LINE_LANES * CHUNK; }
__device__ int place_in_row(int j) { return group_of_row() * SHORT_LENGTH + place_in_group() + j; }

__device__ void load_short(const RowGroups& groups, const Geometry& g, Chunk& chunk) {
    const int number = group_of_row();
    if constexpr (INPUT_PACKED || INPUT_STEP > 0) {
        load_dense(groups.group(number).input, g, groups.begin + place_in_group(), groups.end(number), chunk);
    } else if constexpr (GROUPS_OF_ROW == 1) {
        load_row(groups.group(number), g, groups.begin, groups.end(number), chunk);
    } else {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const int i = j * LANES + lane_index();
            chunk.element[j] = Input();
            if (!groups.has_element(i)) continue;
            chunk.element[j] = load_input(groups.group(i / SHORT_LENGTH), g, i % SHORT_LENGTH);
        }
    }
}

// From every 32nd element of the row to the lane's chunk of its group; and back.
__device__ void gather_short(RowBuffer& buffer, Chunk& chunk) {
    if constexpr (GROUPS_OF_ROW == 1) {
        gather_chunk(buffer, chunk);
    } else {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < CHUNK; j++) buffer.input[j * LANES + lane_index()] = chunk.element[j];
        __syncwarp();
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (place_in_group() + j < SHORT_LENGTH) chunk.element[j] = buffer.input[place_in_row(j)];
        }
    }
}

__device__ void store_short(RowBuffer& buffer, const RowGroups& groups, const Geometry& g, Result& result) {
    const int number = group_of_row();
    if constexpr (STORED_WIDENED && sizeof(Result) > 32) {  // two pieces leave as fast by themselves
        store_pieces(buffer, result, [&](int i, const ResultPiece& piece) {
            const int number = i / (LINE_LANES * CHUNK), place = i % (LINE_LANES * CHUNK);
            store_chunk(groups.group(number), g, groups.begin + place, groups.end(number), piece);
        });
    } else if constexpr (OUTPUT_PACKED) {
        store_chunk(groups.group(number), g, groups.begin + place_in_group(), groups.end(number), result);
    } else if constexpr (STORED_IN_WORDS) {
        store_words(groups.group(number).output, groups.begin + place_in_group(), groups.end(number), result);
    } else if constexpr (GROUPS_OF_ROW == 1) {
        store_row(buffer, groups.group(number), g, groups.begin, groups.end(number), result);
    } else {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (place_in_group() + j < SHORT_LENGTH) buffer.output[place_in_row(j)] = result.element[j];
        }
        const int behind = GROUPS_OF_ROW * SHORT_LENGTH + lane_index();
        if (behind < ROW && lane_index() < 16) buffer.output[behind] = Output();  // store_run() reads whole pieces
        __syncwarp();
        if constexpr (OUTPUT_STEP > 0) {
            store_run<ROW>(groups.group(0).output, buffer.output, groups.count * SHORT_LENGTH);
        } else {
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                const int i = j * LANES + lane_index();
                if (!groups.has_element(i)) continue;
                store_output(groups.group(i / SHORT_LENGTH), g, i % SHORT_LENGTH, buffer.output[i]);
            }
        }
    }
}

// What a warp holds.
struct ShortRows {
    Chunk chunk[ROWS];
    Operands<CHUNK> operands[OPERAND_ROWS];
    Input first[ROWS];  // of the row's group

    __device__ void load(const Arrays& arrays, const Geometry& g) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) load_short(RowGroups(arrays, g, r), g, chunk[r]);
#pragma unroll
        for (int r = 0; r < OPERAND_ROWS; r++) {
            const RowGroups groups(arrays, g, r);
            const Arrays group = groups.group(group_of_row());
            operands[r].load_once(group);
            load_operands(group, g, groups.begin + place_in_group(), groups.end(group_of_row()), operands[r]);
        }
    }

    __device__ void sum(RowBuffer& buffer, const Arrays& arrays, const Geometry& g, Sums (&sums)[ROWS]) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const RowGroups groups(arrays, g, r);
            if (GATHERED) gather_short(buffer, chunk[r]);
            if (r % GROUP_ROWS == 0) first[r] = shuffle(chunk[r].element[0], lane_index() - lane_index() % LINE_LANES);
            else first[r] = first[r - 1];
            sums[r] = {};
            if (!groups.exist()) continue;
            sums[r] = sum_of_existing(chunk[r], Shift(first[r]), groups.begin + place_in_group(), groups.length());
        }
        row_aggregates<ROWS, LINE_LANES>(sums);
    }

    __device__ Shift shift_of(int row) const {
        Input element = first[0];
#pragma unroll
        for (int r = GROUP_ROWS; r < ROWS; r += GROUP_ROWS) element = row >= r ? first[r] : element;
        return Shift(element);
    }

    __device__ void store(RowBuffer& buffer, const Arrays& arrays, const Geometry& g, int row,
                          const Normalizer<Compute>& normalizer, const Parameters& p) const {
        const RowGroups groups(arrays, g, row);
        if (!groups.exist()) return;
        Result result = normalized(chunk[row], normalizer, operands[row % OPERAND_ROWS], p);
        store_short(buffer, groups, g, result);
    }
};

// Row r's sums are complete in the lanes whose number in their group is r; each finishes its row's group alone.
constexpr int ROWS_OF_LANE = ROWS > LINE_LANES ? ROWS / LINE_LANES : 1;

__device__ int lane_of_row(int row) { return (lane_index() & ~(LINE_LANES - 1)) + row % LINE_LANES; }

extern "C" __global__ void __launch_bounds__(TEAMS * LANES, RESIDENT)
normalize_short_lines(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                      double bias_number, char* mean, char* variance, Geometry g, Parameters p, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    if (ENDS != WHOLE && group_of_warp() >= g.groups) return;
    __shared__ RowBuffer buffers[SPREAD ? TEAMS : 1];
    RowBuffer& buffer = buffers[SPREAD ? threadIdx.x / LANES : 0];
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    ShortRows rows;
    Sums sums[ROWS];
    rows.load(arrays, g);
    if (INPUT_GRAIN > 1 && ENDS == CUT) __syncwarp();  // others loaded the first element too, in place of none
    rows.sum(buffer, arrays, g, sums);

    Normalizer<Compute> normalizer[ROWS_OF_LANE];
#pragma unroll
    for (int k = 0; k < ROWS_OF_LANE; k++) {
        const int row = k * LINE_LANES + lane_index() % (ROWS < LINE_LANES ? ROWS : LINE_LANES);
        const Moments moments = moments_of(lane_sum<GROUP_ROWS>(sums[k]), rows.shift_of(row).value, p);
        normalizer[k] = Normalizer<Compute>::of(moments, p);
        const RowGroups groups(arrays, g, row);
        if (mean && lane_index() == lane_of_row(row) && row % GROUP_ROWS == 0 && groups.has(group_of_row())) {
            store_moments(groups.group(group_of_row()), moments, p);
        }
    }
    if constexpr (HAS_OUTPUT) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            rows.store(buffer, arrays, g, r, shuffle(normalizer[r / LINE_LANES], lane_of_row(r)), p);
        }
    }
}
