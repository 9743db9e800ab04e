// Running sums and products of short columns: each is worked on by one thread, or by a few threads of one block.
//
// Nothing is waited for but memory, so many small blocks do best: each thread loads a span of VECTOR neighbouring
// columns, all of it before it uses the first step. The order of additions is that of tree.cuh.
//
// Constants that the plan sets, beside those of columns.cuh:
//     LENGTH           steps of a column where it is one span, 0 otherwise
//     SPANS, ACROSS    threads that share a column; neighbouring columns of a block, in threads
//     INPUT_PACKED     the inputs of VECTOR columns are moved in one access
#include "columns.cuh"

constexpr int BLOCK = SPANS * ACROSS, COLUMNS = ACROSS * VECTOR;
constexpr int ROWS_OF_COLUMN = SPANS > PARTS ? SPANS / PARTS : 1;

static_assert(!SEGMENTED && AXIS_RANK_IN == 1 && AXIS_RANK_OUT == 1, "one axis of an array");
static_assert(SPANS == 1 || (RADIX % SPAN == 0 && ROWS_OF_COLUMN <= TILE_ROWS), "");

struct Source {
    const char* column[VECTOR];  // of the first step
    Index step;

    __device__ Source(const char* input, const Geometry& g, Index line, Index begin) {
        const Index offset = g.input_axis.offset(along(begin, g.length));
        step = REVERSE ? -g.input_axis.stride[0] : g.input_axis.stride[0];
        column[0] = input + g.input_line.offset(line) + offset;
#pragma unroll
        for (int v = 1; v < VECTOR; v++) {
            column[v] = INPUT_PACKED ? column[0] : input + g.input_line.offset(line + v) + offset;
        }
    }

    __device__ Pack<Input, VECTOR> load(int k) const {
        Pack<Input, VECTOR> pack;
        if (INPUT_PACKED) {
            pack = *reinterpret_cast<const Pack<Input, VECTOR>*>(column[0] + k * step);
        } else {
#pragma unroll
            for (int v = 0; v < VECTOR; v++) pack.element[v] = load_element<Input, INPUT_ALIGNED>(column[v] + k * step);
        }
        return pack;
    }
};

// The prefix of a column that ends with row `row`. The row's number says which blocks of rows are before it.
template <int B = 0>
__device__ Item before_row(const Item (&part)[SPANS][COLUMNS], int row, int column, Item item) {
    if constexpr (1 << B < ROWS_OF_COLUMN) {
        if (row >> B & 1) {
            const int first = (row >> (B + 1) << (B + 1)) * PARTS;
            item = combine(sum_of_spans<(1 << B) * PARTS>(part, first, column), item);
        }
        return before_row<B + 1>(part, row, column, item);
    } else {
        return item;
    }
}

__device__ Item through_row(const Item (&part)[SPANS][COLUMNS], int row, int column) {
    constexpr int WHOLE = SPANS < PARTS ? 1 : PARTS;  // where a column ends before its first row, nobody asks
    return before_row(part, row, column, sum_of_spans<WHOLE>(part, row * PARTS, column));
}

// By all threads of the block.
__device__ void scan_together(Values& values, int span) {
    __shared__ Item part[SPANS][COLUMNS];
    const int first = static_cast<int>(threadIdx.x) % ACROSS * VECTOR, row = span / PARTS;
#pragma unroll
    for (int v = 0; v < VECTOR; v++) part[span][first + v] = values.total(v);
    __syncthreads();
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
        Prefix before = Prefix::nothing();
        if (row > 0) before.append(through_row(part, row - 1, first + v), true);
        const Item after = span % PARTS == PARTS - 1 ? through_row(part, row, first + v) : neutral_item();
        values.scan(v, Left(part, span, first + v), before, after);
    }
}

// A column that is one span, whose chunks may be any number.
__device__ void scan_alone(Values& values) {
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
        Prefix before = Prefix::nothing();
        SerialPrefix<Item> over_chunks;
#pragma unroll
        for (int i = 0; i < SPAN; i++) {
            Chunk chunk = values.chunk(i, v);
            const Item after = over_chunks.next(i, chunk.total());
            chunk.finish(before, after, 0);
            before = {after, false};
#pragma unroll
            for (int j = 0; j < CHUNK; j++) values.value[i][j][v] = chunk.value[j];
        }
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) scan_short_columns(const char* input, char* output, Geometry g) {
    const int span = static_cast<int>(threadIdx.x) / ACROSS;
    const Index line = (static_cast<Index>(blockIdx.x) * ACROSS + threadIdx.x % ACROSS) * VECTOR;
    const Index begin = span * SPAN_STEPS, length = LENGTH > 0 ? LENGTH : g.length, left = length - begin;
    const bool exists = line < g.lines;
    const int count = !exists || left < 0 ? 0 : left < SPAN_STEPS ? static_cast<int>(left) : SPAN_STEPS;

    Values values;
    const Source source(input, g, exists ? line : 0, count > 0 ? begin : 0);
    values.load(count, [&](int k) { return source.load(k); });
    if constexpr (SPANS == 1) scan_alone(values);
    else scan_together(values, span);

    if (!exists) return;
    char* first = output + g.output_line.offset(line);
    if (INITIAL && span == 0) Target(output, first, g, line, 0).store_initial();
    const Target target(output, first, g, line, count > 0 ? begin + INITIAL : 0);
#pragma unroll
    for (int k = 0; k < SPAN_STEPS; k++) {
        if (k >= count) continue;
        Value result[VECTOR];
        values.outputs_of(k, result);
        target.store(k, result);
    }
}
