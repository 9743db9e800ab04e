// Running sums and products of columns in panels (panels.cuh) that have more than one row of the tree (tree.cuh).
// A thread takes a span of a column, chunks that it keeps in registers, so that many work on few columns.
//
// Constants that the plan sets, beside those of scan_columns.cuh and panels.cuh:
//     SPANS, ROWS    of a column
//     EVEN           1: the last span ends where columns do
#include "ahead.cuh"
#include "scan_columns.cuh"
#include "panels.cuh"

constexpr int COLUMNS = PANELS * INNER, SPANS_OF_ROW = RADIX / SPAN, SPANS_OF_ALL = ROWS * SPANS_OF_ROW;

using Panels = PanelsOf<Input, Output>;

static_assert(!SEGMENTED && !INITIAL, "columns of one array");
static_assert(VECTOR == 1 && SPANS * COLUMNS <= THREADS, "a thread for each span");

// What the spans of a block's columns find out together.
struct Parts {
    Item span[SPANS_OF_ALL][COLUMNS];  // see add_up()
    Item end[ROWS][COLUMNS];           // prefixes of a column that end with a row

    // By all threads of the block.
    __device__ void add_up_rows() {
        for (int i = SPANS * COLUMNS + threadIdx.x; i < SPANS_OF_ALL * COLUMNS; i += THREADS) {
            span[i / COLUMNS][i % COLUMNS] = neutral_item();
        }
        __syncthreads();
        for (int i = threadIdx.x; i < ROWS * COLUMNS; i += THREADS) {
            add_up<SPANS_OF_ROW>(span, i / COLUMNS * SPANS_OF_ROW, i % COLUMNS);
        }
        __syncthreads();
        for (int column = threadIdx.x; column < COLUMNS; column += THREADS) {
            SerialPrefix<Item> over_rows;
#pragma unroll 4
            for (int r = 0; r < ROWS; r++) {
                end[r][column] = over_rows.next(r, span[r * SPANS_OF_ROW + SPANS_OF_ROW - 1][column]);
            }
        }
        __syncthreads();
    }
};

// Which span is a thread's, if it has one. Neighbours have neighbouring columns.
struct Share {
    int column, span, panel;

    __device__ Share() {
        const int above = static_cast<int>(threadIdx.x) / INNER;
        column = static_cast<int>(threadIdx.x) % INNER;
        panel = above / SPANS;
        span = above % SPANS;
    }

    __device__ int element(const Panels& panels, int step) const {
        const int number = span * SPAN_STEPS + step;
        return panels.element(panel, column, REVERSE ? panels.length - 1 - number : number);
    }

    // By all threads of the block.
    __device__ void scan(Values& values) const {
        __shared__ Parts parts;
        const bool has_one = panel < PANELS;
        const int row = span / SPANS_OF_ROW, of_row = span % SPANS_OF_ROW, c = panel * INNER + column;
        if (has_one) parts.span[span][c] = values.total(0);
        parts.add_up_rows();
        if (!has_one) return;
        const Left<log2_of(SPANS_OF_ROW)> left(of_row, [&](int b) {
            return parts.span[row * SPANS_OF_ROW + end_of_block(of_row, b)][c];
        });
        const Prefix before = row > 0 ? Prefix{parts.end[row - 1][c], false} : Prefix::nothing();
        values.scan(0, left, before, of_row == SPANS_OF_ROW - 1, parts.end[row][c]);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
scan_long_panels(const char* input, char* output, Geometry g, Staging bytes, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    const Panels panels(input, output, g.lines / INNER, g.length, dynamic_shared, bytes);
    panels.load<EVICTION>(input);
    const Share share;
    const bool exists = share.panel < panels.count;
    const int steps = exists ? up_to(panels.length - share.span * SPAN_STEPS, SPAN_STEPS) : 0;
    const auto at = [&](int k) { return Pack<Input, 1>{panels.inputs.element(share.element(panels, k))}; };
    Values values;
    if (EVEN && exists) values.load_whole(at);
    else values.load_part(steps, at);
    share.scan(values);
#pragma unroll
    for (int k = 0; k < SPAN_STEPS; k++) {
        if (k < steps) panels.outputs.element(share.element(panels, k)) = values.outputs_of(k).element[0];
    }
    panels.store(output);
}
