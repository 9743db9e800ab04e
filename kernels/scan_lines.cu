// Running sums and products of lines of a tile or two: each is worked on by one block, or by a warp.
//
// Nothing is waited for but memory, so many small blocks do best: each thread loads a few chunks, all of them before it
// uses the first. Where the axis is not dense and aligned, rows go through shared memory (scan.cuh). Dense lines that
// begin at any element are moved in words all the same (scan_shifted.cuh).
//
// Constants that the plan sets, beside those of scan_rows.cuh:
//     RESIDENT        blocks of a multiprocessor for which there have to be registers, at least
#include "scan_rows.cuh"

// While the launch ahead ends. Of many launches in a row, (1024, 1024) float32 take 0.0028 ms with this and 0.0035
// without, (4096, 1024) 0.0092 and 0.0094.
__device__ void prefetch_lines(const char* input, const Geometry& g) {
    constexpr bool LARGE = EVICTION != EVICT_NORMALLY;
    const Index number = static_cast<Index>(blockIdx.x) * GROUPS + threadIdx.x / (LANES * WARPS);
    if (LARGE || !INPUT_DENSE || number >= g.lines || g.length == 0 || threadIdx.x % (LANES * WARPS) > 0) return;
    const char* from = input + g.input_line.offset(number);
    const int nbytes = static_cast<int>(g.length) * static_cast<int>(sizeof(Input));
    const int lead = static_cast<int>(reinterpret_cast<size_t>(from) % 16);
    bulk_prefetch(from - lead, (lead + nbytes + 15) / 16 * 16);
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
scan_lines(const char* input, char* output, const char* offsets, Geometry g) {
    prefetch_lines(input, g);
    await_launch_ahead();
    __shared__ RowBuffer buffers[SPREAD ? BLOCK / LANES : 1];
    __shared__ Item row_total[GROUPS][ROWS_OF_LINE];
    __shared__ Heads heads;
    RowBuffer& buffer = buffers[SPREAD ? threadIdx.x / LANES : 0];
    const int group = threadIdx.x / (LANES * WARPS);
    const int first_row = threadIdx.x / LANES % WARPS * ROWS;
    const Index number = static_cast<Index>(blockIdx.x) * GROUPS + group;
    const bool exists = number < g.lines;  // the last block may have groups without a line
    Line line(input, output, g, exists ? number : 0);
    if (!exists) line.length = 0;
    if (SEGMENTED) mark_heads(heads, Segments(offsets, g), 0);

    Rows rows;
    const Readable readable = Readable::around(input, output, g, exists ? number : 0, 1);
    if (SHIFTED_IN) rows.load_shifted(line, g, first_row * ROW, readable);
    else rows.load(buffer, line, g, first_row * ROW);
    rows.scan(heads, first_row * ROW);
    const RowPrefixes prefixes =
        WARPS == 1 ? prefixes_within_warp(rows) : prefixes_across_warps(row_total[group], rows, first_row);
    if (exists && first_row == 0 && lane_index() == 0) store_initial(line, g);
    store_rows(rows, buffer, line, g, 0, first_row, heads, prefixes);
}
