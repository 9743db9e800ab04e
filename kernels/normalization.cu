// Mean and variance over any axes, and the normalization by them.
//
//     output = activation(scale * (input - mean) / sqrt(variance + epsilon) + bias)
//
// A group is everything that shares a mean. Its elements are numbered in C order over the reduced axes, whatever their
// strides, and cut into tiles of 1024 chunks of 16 bytes; a tile is summed by 256 accumulators that take every 256th
// chunk and are then added pairwise. So the statistics depend on values and shape alone.
//
// The sums are of x - shift and (x - shift)^2 in double, the shift being the group's first element. That loses nothing
// to cancellation: since the shift is one of the n elements, (mean - shift)^2 <= n * variance, hence the variance keeps
// 53 - log2(n) bits. In a constant group every term is exactly 0. The mean is kept as the sum of two doubles, so that
// input - mean is right to the last bit however large the mean is.
//
// How the work is cut up: a group of one tile is read once and normalized from registers (normalize_tile). Larger
// groups, and groups whose neighbours are dense in memory, take three launches: the sums of every tile (by rows where
// the group is dense, by columns where its neighbours are), the statistics of every group, and every element.
//
// Constants that the plan sets:
//     INPUT, SCALE, BIAS, OUTPUT, MOMENT     element types: of the arrays, and of mean and variance
//     COMPUTE                                float or double: in which scale, bias and activation are applied
//     HAS_SCALE, HAS_BIAS                    0: none, 1: an array, 2: one number among the parameters
//     ACTIVATION                             a struct of activations.cuh
//     NORMALIZE_VARIANCE
//     INPUT_ALIGNED, SCALE_ALIGNED, BIAS_ALIGNED, OUTPUT_ALIGNED
//     CHUNK                                  elements in 16 bytes of the input
//     WARPS, ROWS                            warps that share a tile, rows of 32 chunks that each holds
//     COLUMNS                                1 where neighbouring groups are dense in memory
//     *_KEPT_RANK, *_REDUCED_RANK            ranks of the layouts of input, output, scale and bias; INDEX
#include "activations.cuh"
#include "elements.cuh"
#include "layout.cuh"
#include "warp.cuh"

using Compute = COMPUTE;

constexpr int BLOCK = 256;
constexpr int TILE = 1024 * CHUNK;
constexpr int ACCUMULATORS = 256;
constexpr int GROUPS = BLOCK / (LANES * WARPS);  // groups that a block of normalize_tile works on

template <int KEPT, int REDUCED> struct GroupedLayout {
    Layout<KEPT> kept;
    Layout<REDUCED> reduced;

    __device__ Index offset(Index group, Index number) const { return kept.offset(group) + reduced.offset(number); }
};

struct Geometry {
    Index groups, length, tiles;
    GroupedLayout<INPUT_KEPT_RANK, INPUT_REDUCED_RANK> input;
    GroupedLayout<OUTPUT_KEPT_RANK, OUTPUT_REDUCED_RANK> output;
    GroupedLayout<SCALE_KEPT_RANK, SCALE_REDUCED_RANK> scale;
    GroupedLayout<BIAS_KEPT_RANK, BIAS_REDUCED_RANK> bias;
};

struct Parameters {
    double epsilon, correction, alpha, beta;
};

// ---------------------------------------------------------------------------------------------------------------------
// Statistics

struct Sums {
    double first, second;  // of x - shift and of its square

    __device__ void add(Sums other) {
        first += other.first;
        second += other.second;
    }

    __device__ void add_element(double difference) {
        first += difference;
        second = fma(difference, difference, second);
    }
};

// mean + rest is the mean to about 106 bits.
struct Moments {
    double mean, rest, variance;
};

struct Statistics {
    double mean, rest, inverse_deviation;
};

__device__ double load_input(const char* input, const Geometry& g, Index group, Index number) {
    return widen(convert<double>(load_element<INPUT, INPUT_ALIGNED>(input + g.input.offset(group, number))));
}

// A shift that is not finite would turn the infinities of one element into NaN for all.
__device__ double group_shift(const char* input, const Geometry& g, Index group) {
    if (g.length == 0) return 0;
    const double first = load_input(input, g, group, 0);
    return first - first == 0 ? first : 0.0;
}

__device__ Sums warp_sum(Sums sums) {
#pragma unroll
    for (int distance = 1; distance < LANES; distance *= 2) sums.add(shuffle(sums, lane_index() ^ distance));
    return sums;
}

// Adds up `warps` sums pairwise: the upper levels of the tree over 256 accumulators.
template <int COUNT> __device__ Sums pairwise(const Sums* sums) {
    if constexpr (COUNT == 1) {
        return sums[0];
    } else {
        Sums total = pairwise<COUNT / 2>(sums);
        total.add(pairwise<COUNT / 2>(sums + COUNT / 2));
        return total;
    }
}

// What rounding took from the sum of a and b (D. Knuth's two-sum).
__device__ double lost_in_sum(double a, double b) {
    const double sum = a + b, rounded_b = sum - a;
    return (a - (sum - rounded_b)) + (b - rounded_b);
}

// The population's with correction 0. A divisor that is not positive gives infinity or NaN, as in NumPy.
__device__ Moments moments_of(Sums sums, double shift, Index length, double correction) {
    const double n = static_cast<double>(length);
    const double deviation = sums.first / n;
    double squares = sums.second - sums.first * deviation;
    if (squares < 0) squares = 0;  // NaN stays
    const double divisor = n - correction > 0 ? n - correction : 0.0;
    return {shift + deviation, lost_in_sum(shift, deviation), squares / divisor};
}

__device__ Statistics statistics_of(Moments moments, double epsilon) {
    const double spread = moments.variance + epsilon;
    // A constant group without an epsilon: 0 times anything finite is the 0 that is promised for it.
    const double inverse_deviation = NORMALIZE_VARIANCE && spread != 0 ? 1 / sqrt(spread) : 1.0;
    return {moments.mean, moments.rest, inverse_deviation};
}

__device__ void store_moments(char* mean, char* variance, Index group, Moments moments) {
    if (mean) reinterpret_cast<MOMENT*>(mean)[group] = convert<MOMENT>(moments.mean);
    if (variance) reinterpret_cast<MOMENT*>(variance)[group] = convert<MOMENT>(moments.variance);
}

// ---------------------------------------------------------------------------------------------------------------------
// One element

template <typename Stored, int KIND, bool ALIGNED>
__device__ Compute operand(const char* address, double number) {
    if constexpr (KIND == 1) return widen(convert<Compute>(load_element<Stored, ALIGNED>(address)));
    else return static_cast<Compute>(number);
}

struct Operands {
    const char* scale;
    const char* bias;
    double scale_number, bias_number;
};

__device__ Compute normalized(double x, const Statistics& statistics, const Operands& operands, const Parameters& p,
                              const Geometry& g, Index group, Index number) {
    Compute y = static_cast<Compute>(((x - statistics.mean) - statistics.rest) * statistics.inverse_deviation);
    if (HAS_SCALE) {
        const char* address = operands.scale + g.scale.offset(group, number);
        y *= operand<SCALE, HAS_SCALE, SCALE_ALIGNED>(address, operands.scale_number);
    }
    if (HAS_BIAS) {
        const char* address = operands.bias + g.bias.offset(group, number);
        y += operand<BIAS, HAS_BIAS, BIAS_ALIGNED>(address, operands.bias_number);
    }
    return activation::ACTIVATION::apply(y, static_cast<Compute>(p.alpha), static_cast<Compute>(p.beta));
}

__device__ void store_output(char* output, const Geometry& g, Index group, Index number, Compute y) {
    store_element<OUTPUT_ALIGNED>(output + g.output.offset(group, number), convert<OUTPUT>(y));
}

// ---------------------------------------------------------------------------------------------------------------------
// Groups of one tile: read once, kept in registers.

extern "C" __global__ void __launch_bounds__(BLOCK)
normalize_tile(const char* input, const char* scale, const char* bias, double scale_number, double bias_number,
               char* output, char* mean, char* variance, Geometry g, Parameters p) {
    __shared__ Sums warp_sums[GROUPS][WARPS];
    const int slot = threadIdx.x / (LANES * WARPS);
    const int accumulator = threadIdx.x % (LANES * WARPS);
    const Index group = static_cast<Index>(blockIdx.x) * GROUPS + slot;
    const bool active = group < g.groups;
    const Index length = active ? g.length : 0;
    const double shift = active ? group_shift(input, g, group) : 0.0;

    INPUT value[ROWS][CHUNK];
    Sums sums = {};
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const Index number = static_cast<Index>(r * LANES * WARPS + accumulator) * CHUNK + j;
            if (number >= length) continue;
            value[r][j] = load_element<INPUT, INPUT_ALIGNED>(input + g.input.offset(group, number));
            sums.add_element(widen(convert<double>(value[r][j])) - shift);
        }
    }
    sums = warp_sum(sums);
    if (lane_index() == 0) warp_sums[slot][accumulator / LANES] = sums;
    __syncthreads();  // also: nothing is stored before the whole group was read, so the output may be the input
    if (!active) return;

    const Sums total = pairwise<WARPS>(warp_sums[slot]);
    if (accumulator == 0) store_moments(mean, variance, group, moments_of(total, shift, length, p.correction));
    if (!output) return;
    const Statistics statistics = statistics_of(moments_of(total, shift, length, 0), p.epsilon);
    const Operands operands = {scale, bias, scale_number, bias_number};
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const Index number = static_cast<Index>(r * LANES * WARPS + accumulator) * CHUNK + j;
            if (number >= length) continue;
            const double x = widen(convert<double>(value[r][j]));
            store_output(output, g, group, number, normalized(x, statistics, operands, p, g, group, number));
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Larger groups: the sums of every tile ...

__device__ Sums accumulate(const char* input, const Geometry& g, Index group, double shift, Index tile,
                           int accumulator) {
    Sums sums = {};
    for (int r = 0; r < TILE / CHUNK / ACCUMULATORS; r++) {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const Index number = tile * TILE + static_cast<Index>(r * ACCUMULATORS + accumulator) * CHUNK + j;
            if (number < g.length) sums.add_element(load_input(input, g, group, number) - shift);
        }
    }
    return sums;
}

extern "C" __global__ void __launch_bounds__(BLOCK) sum_rows(const char* input, Sums* tile_sums, Geometry g) {
    __shared__ Sums warp_sums[BLOCK / LANES];
    const Index work = blockIdx.x, group = work / g.tiles, tile = work % g.tiles;
    const double shift = group_shift(input, g, group);
    const Sums sums = warp_sum(accumulate(input, g, group, shift, tile, threadIdx.x));
    if (lane_index() == 0) warp_sums[threadIdx.x / LANES] = sums;
    __syncthreads();
    if (threadIdx.x == 0) tile_sums[work] = pairwise<BLOCK / LANES>(warp_sums);
}

// One thread has all accumulators of a tile, one after the other; `level[b]` waits for its right half.
extern "C" __global__ void __launch_bounds__(BLOCK) sum_columns(const char* input, Sums* tile_sums, Geometry g) {
    const Index work = static_cast<Index>(blockIdx.x) * BLOCK + threadIdx.x;
    if (work >= g.groups * g.tiles) return;
    const Index group = work % g.groups, tile = work / g.groups;
    const double shift = group_shift(input, g, group);
    constexpr int LEVELS = 8;
    Sums level[LEVELS];
    Sums sums = {};
#pragma unroll 1
    for (int accumulator = 0; accumulator < ACCUMULATORS; accumulator++) {
        sums = accumulate(input, g, group, shift, tile, accumulator);
        bool complete = true;
#pragma unroll
        for (int b = 0; b < LEVELS; b++) {
            if (accumulator >> b & 1) {
                if (complete) {
                    level[b].add(sums);
                    sums = level[b];
                }
            } else {
                if (complete) level[b] = sums;
                complete = false;
            }
        }
    }
    tile_sums[group * g.tiles + tile] = sums;
}

// ... the statistics of every group, by a warp: lane i adds the tiles i, i + 32, ...

extern "C" __global__ void __launch_bounds__(BLOCK)
finish_statistics(const char* input, const Sums* tile_sums, Statistics* statistics, char* mean, char* variance,
                  Geometry g, Parameters p) {
    const Index group = static_cast<Index>(blockIdx.x) * (BLOCK / LANES) + threadIdx.x / LANES;
    if (group >= g.groups) return;
    Sums sums = {};
    for (Index tile = lane_index(); tile < g.tiles; tile += LANES) sums.add(tile_sums[group * g.tiles + tile]);
    sums = warp_sum(sums);
    if (lane_index() != 0) return;
    const double shift = group_shift(input, g, group);
    store_moments(mean, variance, group, moments_of(sums, shift, g.length, p.correction));
    statistics[group] = statistics_of(moments_of(sums, shift, g.length, 0), p.epsilon);
}

// ... and every element, numbered so that neighbouring threads have neighbours in memory.

extern "C" __global__ void __launch_bounds__(BLOCK)
normalize_elements(const char* input, const char* scale, const char* bias, double scale_number, double bias_number,
                   char* output, const Statistics* statistics, Geometry g, Parameters p) {
    const Index element = static_cast<Index>(blockIdx.x) * BLOCK + threadIdx.x;
    if (element >= g.groups * g.length) return;
    const Index group = COLUMNS ? element % g.groups : element / g.length;
    const Index number = COLUMNS ? element / g.groups : element % g.length;
    const double x = load_input(input, g, group, number);
    const Operands operands = {scale, bias, scale_number, bias_number};
    store_output(output, g, group, number, normalized(x, statistics[group], operands, p, g, group, number));
}
