// Running sums and products of columns that are one tile at most, of which there are enough for all threads.
//
// A thread walks down VECTOR neighbouring columns, span by span. While it works on one, the next is on its way, and
// nobody waits for anybody. The order of additions is that of tree.cuh, as in scan_columns.cu.
//
// On an H200 a copy that walks down like this takes as long, 0.543 to 0.547 ms for (256, 1048576) float32, whatever it
// loads at once and ahead. Copied 4 rows at a time side by side, the same array takes 0.516 ms, 16 rows 0.535: where
// rows are that long, blocks go down in step (scan_columns_in_step.cu).
//
// Constants that the plan sets, beside those of scan_columns.cuh:
//     BLOCK    threads
//     EVEN     1: columns are a whole number of spans
#include "scan_columns.cuh"

// Spans of a row, rows of a tile.
constexpr int PARTS = RADIX / SPAN, OF_ROW = log2_of(PARTS), OF_TILE = log2_of(TILE_ROWS);

static_assert(!SEGMENTED && AXIS_RANK_IN == 1 && AXIS_RANK_OUT == 1, "one axis of an array");

// Inputs that are on their way.
struct Ahead {
    Pack<Input, VECTOR> pack[SPAN_STEPS];

    // A span has one step at least. Those behind the last are loaded in its place.
    __device__ void load(const Source& source, int count) {
#pragma unroll
        for (int k = 0; k < SPAN_STEPS; k++) pack[k] = source.load(EVEN || k < count ? k : count - 1);
    }

    __device__ void give(Values& values, int count) const {
#pragma unroll
        for (int k = 0; k < SPAN_STEPS; k++) {
            if (EVEN || k < count) values.set(k, pack[k]);
            else values.clear(k);
        }
    }
};

// What lies above a span.
struct Above {
    SerialPrefix<Item, OF_ROW> spans;
    SerialPrefix<Item, OF_TILE> rows;
    Prefix before_row;

    // Turns the values of column v into outputs.
    __device__ void scan(Values& values, int v, int number) {
        const int part = number % PARTS;
        const Left<OF_ROW> left(part, [&](int b) { return spans.block[b]; });
        Item after = spans.next(part, values.total(v));
        const bool last = part == PARTS - 1;
        if (last) after = rows.next(number / PARTS, after);
        values.scan(v, left, before_row, last, after);
        if (last) before_row = {after, false};
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK) scan_whole_columns(const char* input, char* output, Geometry g) {
    await_launch_ahead();
    const Index line = (static_cast<Index>(blockIdx.x) * BLOCK + threadIdx.x) * VECTOR;
    if (line >= g.lines) return;
    char* first = output + g.output_line.offset(line);
    if (INITIAL) Target(output, first, g, line, 0).store_initial();

    Above above[VECTOR];
#pragma unroll
    for (int v = 0; v < VECTOR; v++) above[v].before_row = Prefix::nothing();
    Ahead ahead;
    ahead.load(Source(input, g, line, 0), up_to(g.length, SPAN_STEPS));
    const int length = static_cast<int>(g.length);
#pragma unroll 1
    for (int begin = 0; begin < length; begin += SPAN_STEPS) {
        const int left = length - begin, next = begin + SPAN_STEPS;
        Values values;
        ahead.give(values, left);
        if (left > SPAN_STEPS) ahead.load(Source(input, g, line, next), left - SPAN_STEPS);
#pragma unroll
        for (int v = 0; v < VECTOR; v++) above[v].scan(values, v, begin / SPAN_STEPS);
        Target target(output, first, g, line, begin + INITIAL);
#pragma unroll
        for (int k = 0; k < SPAN_STEPS; k++) {
            if (EVEN || k < left) target.store(values.outputs_of(k));
            target.advance();
        }
    }
}
