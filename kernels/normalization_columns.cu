// Mean, variance and normalization of groups that lie side by side: columns of a matrix.
//
// A thread walks down a span, some chunks of VECTOR neighbouring columns, which it keeps in registers; SPANS threads of
// a block share a column. Columns of up to so many spans are read once. Longer ones are cut into tiles and read twice,
// as in normalization_lines.cu.
//
// Constants that the plan sets, beside those of normalization.cuh:
//     VECTOR          columns of a thread
//     SPAN            chunks of a span, a power of two
//     ACROSS, SPANS   threads beside each other, spans of a column; powers of two
//     INPUT_PACKED, OUTPUT_PACKED   the elements of VECTOR columns lie dense and aligned
//     SCALE_ACROSS, BIAS_ACROSS     0: the same for the VECTOR columns, 1: of each its own
//     RESIDENT        blocks that shall fit a multiprocessor at a time, at least
//     EARLY           1: scale and bias are loaded together with the input; 0: when the statistics are known
//     FINISHERS       threads that finish the statistics of a group of several tiles
#include "normalization.cuh"

constexpr int BLOCK = ACROSS * SPANS, COLUMNS = ACROSS * VECTOR, STEPS = SPAN * CHUNK;
constexpr int SPANS_OF_WARP = ACROSS >= LANES ? 1 : LANES / ACROSS < SPANS ? LANES / ACROSS : SPANS;
constexpr int PARTS = SPANS / SPANS_OF_WARP;
constexpr Index TILE = static_cast<Index>(SPANS) * STEPS;
constexpr int INNER = KEPT_RANK - 1;

static_assert(BLOCK % LANES == 0, "whole warps");

// ---------------------------------------------------------------------------------------------------------------------
// What a thread has: a span of VECTOR columns.

struct Place {
    Index column, begin;  // the first column, the first element
    int count;            // elements that exist
    bool exists;          // the column does

    __device__ Place(const Geometry& g, Index strip, Index tile) {
        column = (strip * ACROSS + threadIdx.x % ACROSS) * VECTOR;
        begin = tile * TILE + threadIdx.x / ACROSS * STEPS;
        const Index left = g.length - begin;
        exists = column < g.groups;
        count = !exists || left < 0 ? 0 : left < STEPS ? static_cast<int>(left) : STEPS;
        if (!exists) column = 0;
    }
};

using Elements = Pack<Input, VECTOR>;

// Element `number` of the columns from `column` on.
__device__ Elements load_elements(const char* column, const Geometry& g, Index number) {
    const char* from = column + g.reduced.offsets(number).of[OF_INPUT];
    Elements elements;
    if constexpr (INPUT_PACKED) {
        elements = *reinterpret_cast<const Elements*>(from);
    } else {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            elements.element[v] = load_element<Input, INPUT_ALIGNED>(from + v * g.kept.stride[OF_INPUT][INNER]);
        }
    }
    return elements;
}

__device__ Elements load_first(const char* column, const Geometry& g, const Place& place) {
    return place.exists ? load_elements(column, g, 0) : Elements();
}

// Scale or bias of the span.
template <typename Stored, int ARRAY, int KIND, bool ALIGNED, bool EACH> struct SpanOperand {
    static constexpr int DOWN = KIND == OF_ELEMENTS ? STEPS : 1, WIDE = EACH && KIND != NUMBER ? VECTOR : 1;
    Operand<Stored, KIND == OF_ELEMENTS ? OF_GROUP : KIND, ALIGNED, 1> value[DOWN][WIDE];

    __device__ void load(const char* of_column, double number, const Geometry& g, const Place& place) {
#pragma unroll
        for (int k = 0; k < DOWN; k++) {
            if (KIND == OF_ELEMENTS && k >= place.count) continue;
            const char* address = of_column;
            if (KIND == OF_ELEMENTS) address += g.reduced.offsets(place.begin + k).of[ARRAY];
#pragma unroll
            for (int v = 0; v < WIDE; v++) value[k][v].load_once(address + v * g.kept.stride[ARRAY][INNER], number);
        }
    }
    __device__ Compute at(int k, int v) const { return value[k < DOWN ? k : 0][v < WIDE ? v : 0].at(0); }
};

struct Span {
    Elements step[STEPS];
    SpanOperand<SCALE, OF_SCALE, HAS_SCALE, SCALE_ALIGNED, SCALE_ACROSS> scale;
    SpanOperand<BIAS, OF_BIAS, HAS_BIAS, BIAS_ALIGNED, BIAS_ACROSS> bias;

    __device__ void load(const Arrays& column, const Geometry& g, const Place& place) {
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            if (k < place.count) step[k] = load_elements(column.input, g, place.begin + k);
        }
    }

    __device__ void load_operands(const Arrays& column, const Geometry& g, const Place& place) {
        scale.load(column.scale, column.scale_number, g, place);
        bias.load(column.bias, column.bias_number, g, place);
    }

    // Of column v.
    __device__ Sums sum(int v, const Shift& shift, int count) const {
        SerialPrefix<Sums> over_chunks;
        Sums total = {};
#pragma unroll
        for (int i = 0; i < SPAN; i++) {
            Pack<Input, CHUNK> chunk;
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                chunk.element[j] = i * CHUNK + j < count ? step[i * CHUNK + j].element[v] : shift.element;
            }
            total = over_chunks.next(i, sum_of(chunk, shift.value));
        }
        return total;
    }

    __device__ void store(const Arrays& column, const Geometry& g, const Place& place,
                          const Normalizer<Compute> (&normalizer)[VECTOR], const Parameters& p) const {
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            if (k >= place.count) continue;
            char* to = column.output + g.reduced.offsets(place.begin + k).of[OF_OUTPUT];
            Pack<Output, VECTOR> result;
#pragma unroll
            for (int v = 0; v < VECTOR; v++) {
                const Compute y = normalizer[v].apply(widen(convert<Compute>(step[k].element[v])));
                result.element[v] = finished(y, scale.at(k, v), bias.at(k, v), p);
            }
            if constexpr (OUTPUT_PACKED) {
                *reinterpret_cast<Pack<Output, VECTOR>*>(to) = result;
            } else {
#pragma unroll
                for (int v = 0; v < VECTOR; v++) {
                    store_element<OUTPUT_ALIGNED>(to + v * g.kept.stride[OF_OUTPUT][INNER], result.element[v]);
                }
            }
        }
    }
};

// The sums of the block's columns, by all threads: those of column c in thread c.
struct ColumnSums {
    Sums part[PARTS][COLUMNS];

    __device__ void add(const Span& span, const Elements& first, int count) {
        const int across = threadIdx.x % ACROSS, number = threadIdx.x / ACROSS;
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            Sums sums = span.sum(v, Shift(first.element[v]), count);
            if (ACROSS < LANES) sums = lane_sum<ACROSS * SPANS_OF_WARP>(sums, ACROSS);
            if (number % SPANS_OF_WARP == 0) part[number / SPANS_OF_WARP][across * VECTOR + v] = sums;
        }
        __syncthreads();
    }

    __device__ Sums total(int column) const { return pairwise<PARTS>(0, column); }

    template <int COUNT> __device__ Sums pairwise(int from, int column) const {
        if constexpr (COUNT == 1) return part[from][column];
        else return combine(pairwise<COUNT / 2>(from, column), pairwise<COUNT / 2>(from + COUNT / 2, column));
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Columns of a block at the most

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
normalize_columns(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                  double bias_number, char* mean, char* variance, Geometry g, Parameters p) {
    __shared__ ColumnSums sums;
    __shared__ Normalizer<Compute> normalizers[COLUMNS];
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Place place(g, blockIdx.x, 0);
    const Arrays column = arrays.at(g.kept.offsets(place.column));
    Span span;
    span.load(column, g, place);
    const Elements first = load_first(column.input, g, place);
    if (EARLY) span.load_operands(column, g, place);
    sums.add(span, first, place.count);

    for (int c = threadIdx.x; c < COLUMNS; c += BLOCK) {
        const Index number = static_cast<Index>(blockIdx.x) * COLUMNS + c;
        if (number >= g.groups) continue;
        const Arrays group = arrays.at(g.kept.offsets(number));
        const Moments moments = moments_of(sums.total(c), Shift(load_input(group, g, 0)).value, p);
        normalizers[c] = Normalizer<Compute>::of(moments, p);
        if (mean) store_moments(group, moments, p);
    }
    __syncthreads();  // by now all was read, so the output may be the input
    if (!output || place.count == 0) return;
    if (!EARLY) span.load_operands(column, g, place);
    Normalizer<Compute> normalizer[VECTOR];
#pragma unroll
    for (int v = 0; v < VECTOR; v++) normalizer[v] = normalizers[threadIdx.x % ACROSS * VECTOR + v];
    span.store(column, g, place, normalizer, p);
}

// ---------------------------------------------------------------------------------------------------------------------
// Longer columns. Blocks that follow each other have neighbouring strips of the same rows.

struct Work {
    Index strip, tile;

    __device__ Work(const Geometry& g, Index number) {
        const Index strips = (g.groups + COLUMNS - 1) / COLUMNS;
        tile = number / strips;
        strip = number - tile * strips;
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
sum_columns(const char* input, Sums* tile_sums, Geometry g) {
    __shared__ ColumnSums sums;
    const Work work(g, blockIdx.x);
    const Place place(g, work.strip, work.tile);
    const char* of_column = input + g.kept.offsets(place.column).of[OF_INPUT];
    Span span;
    span.load({of_column, nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr}, g, place);
    const Elements first = load_first(of_column, g, place);
    sums.add(span, first, place.count);
    for (int c = threadIdx.x; c < COLUMNS; c += BLOCK) {
        const Index number = work.strip * COLUMNS + c;
        if (number < g.groups) tile_sums[number * g.tiles + work.tile] = sums.total(c);
    }
}

extern "C" __global__ void __launch_bounds__(FINISH_BLOCK)
finish_columns(const char* input, const Sums* tile_sums, Normalizer<Compute>* normalizers, char* mean, char* variance,
               Geometry g, Parameters p) {
    finish_groups({input, nullptr, nullptr, nullptr, 0, 0, mean, variance}, tile_sums, normalizers, g, p);
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
apply_columns(const char* input, char* output, const char* scale, const char* bias, double scale_number,
              double bias_number, const Normalizer<Compute>* normalizers, Geometry g, Parameters p) {
    const Work work(g, static_cast<Index>(gridDim.x) - 1 - static_cast<Index>(blockIdx.x));  // what was read last first
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, nullptr, nullptr};
    const Place place(g, work.strip, work.tile);
    if (place.count == 0) return;
    const Arrays column = arrays.at(g.kept.offsets(place.column));
    Span span;
    span.load(column, g, place);
    span.load_operands(column, g, place);
    Normalizer<Compute> normalizer[VECTOR];
#pragma unroll
    for (int v = 0; v < VECTOR; v++) normalizer[v] = normalizers[place.column + v];
    span.store(column, g, place, normalizer, p);
}
