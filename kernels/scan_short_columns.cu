// Running sums and products of short columns: each is worked on by one thread, or by a few threads of one block.
//
// Nothing is waited for but memory, so many small blocks do best: each thread loads a span of VECTOR neighbouring
// columns, all of it before it uses the first step. The order of additions is that of tree.cuh.
//
// Constants that the plan sets, beside those of scan_columns.cuh:
//     LENGTH           steps of a column where it is one span, 0 otherwise; where they are 1, the last thread may have
//                      less than VECTOR columns
//     SPANS, ACROSS    threads that share a column; neighbouring columns of a block, in threads
#include "scan_columns.cuh"

constexpr int BLOCK = SPANS * ACROSS, COLUMNS = ACROSS * VECTOR;

static_assert(!SEGMENTED && AXIS_RANK_IN == 1 && AXIS_RANK_OUT == 1, "one axis of an array");
static_assert(SPANS == 1 || SPANS * SPAN <= RADIX, "a column of several spans is a row of the tree, or a part of one");

// By all threads of the block.
__device__ void scan_together(Values& values, int span) {
    __shared__ Item part[SPANS][COLUMNS];
    const int first = static_cast<int>(threadIdx.x) % ACROSS * VECTOR;
#pragma unroll
    for (int v = 0; v < VECTOR; v++) part[span][first + v] = values.total(v);
    __syncthreads();
    for (int column = threadIdx.x; column < COLUMNS; column += BLOCK) add_up<SPANS>(part, 0, column);
    __syncthreads();
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
        const Left<log2_of(SPANS)> left(span, [&](int b) { return part[end_of_block(span, b)][first + v]; });
        values.scan(v, left, Prefix::nothing(), false, neutral_item());
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

// The last columns, fewer than a thread has, where each is one step.
__device__ void scan_rest(const char* input, char* output, const Geometry& g, Index first) {
    for (Index line = first; line < g.lines; line++) {
        const Line column(input, output, g, line);
        const Value x = load(column, g, 0);
        store_initial(column, g);
        store(column, g, INITIAL, EXCLUSIVE ? convert<Value>(Operation::template first<Accumulator>()) : x);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) scan_short_columns(const char* input, char* output, Geometry g) {
    await_launch_ahead();
    const int span = SPANS == 1 ? 0 : static_cast<int>(threadIdx.x) / ACROSS;
    const Index line = (static_cast<Index>(blockIdx.x) * ACROSS + threadIdx.x % ACROSS) * VECTOR;
    const Index begin = span * SPAN_STEPS, length = LENGTH > 0 ? LENGTH : g.length;
    const bool exists = line < g.lines;
    if (LENGTH > 0 && !exists) return;
    if (LENGTH == 1 && line + VECTOR > g.lines) return scan_rest(input, output, g, line);
    const int count = exists ? up_to(length - begin, SPAN_STEPS) : 0;

    Values values;
    const Source source(input, g, exists ? line : 0, count > 0 ? begin : 0);
    const auto at = [&](int k) { return source.load(k); };
    if constexpr (LENGTH > 0) values.load_whole<LENGTH>(at);
    else values.load(count, at);
    if constexpr (SPANS == 1) scan_alone(values);
    else scan_together(values, span);

    if (!exists) return;
    char* first = output + g.output_line.offset(line);
    if (INITIAL && span == 0) Target(output, first, g, line, 0).store_initial();
    Target target(output, first, g, line, count > 0 ? begin + INITIAL : 0);
#pragma unroll
    for (int k = 0; k < SPAN_STEPS; k++) {
        if (k < count) target.store(values.outputs_of(k));
        target.advance();
    }
}
