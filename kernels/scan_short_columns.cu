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
constexpr int PARTS = SPANS * SPAN > RADIX ? RADIX / SPAN : SPANS, ROWS = SPANS / PARTS;  // spans of a row, rows
constexpr int ROW_BITS = log2_of(2 * ROWS);

static_assert(!SEGMENTED && AXIS_RANK_IN == 1 && AXIS_RANK_OUT == 1, "one axis of an array");
static_assert(SPANS == 1 || (RADIX % SPAN == 0 && SPANS % PARTS == 0 && ROWS < TILE_ROWS), "");

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

using Parts = Item[SPANS][COLUMNS];

// Adds up the spans of a column, then its rows in the same way.
__device__ void add_up_column(Parts& part, int column) {
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        Item item = add_up<PARTS>(part, row * PARTS, column);
#pragma unroll
        for (int half = 1; row & half; half *= 2) item = combine(part[(row - half + 1) * PARTS - 1][column], item);
        part[row * PARTS + PARTS - 1][column] = item;
    }
}

__device__ Prefix before_row(const Parts& part, int row, int column) {
    Prefix before = Prefix::nothing();
    const auto block = [&](int b) { return part[end_of_block(row, b) * PARTS + PARTS - 1][column]; };
    Left<ROW_BITS>(row, block).append_to(before);
    return before;
}

// By all threads of the block.
__device__ void scan_together(Values& values, int span) {
    constexpr int BITS = log2_of(PARTS);
    __shared__ Parts part;
    const int first = static_cast<int>(threadIdx.x) % ACROSS * VECTOR, row = span / PARTS, place = span % PARTS;
#pragma unroll
    for (int v = 0; v < VECTOR; v++) part[span][first + v] = values.total(v);
    __syncthreads();
    for (int column = threadIdx.x; column < COLUMNS; column += BLOCK) add_up_column(part, column);
    __syncthreads();
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
        const int column = first + v;
        const Left<BITS> left(place, [&](int b) { return part[row * PARTS + end_of_block(place, b)][column]; });
        const bool last = place == PARTS - 1;
        const Item after = last ? before_row(part, row + 1, column).item : neutral_item();
        values.scan(v, left, before_row(part, row, column), last, after);
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
