// Mean, variance and normalization of groups that lie side by side: columns of a matrix.
//
// Nothing is waited for but memory, so several blocks share a multiprocessor. Columns that fit a block are read once.
// Longer ones are cut into tiles (normalization_column_tiles.cuh) and read twice, as in normalization_tiled_lines.cu; a
// thread of a tile that is normalized has one span, as these blocks wait for nobody.
//
// Constants that the plan sets, beside those of normalization_spans.cuh:
//     OPERANDS_EARLY  1: scale and bias of whole columns are loaded before their sums are there
#include "ahead.cuh"
#include "normalization_column_tiles.cuh"
#include "normalization_tiles.cuh"

// ---------------------------------------------------------------------------------------------------------------------
// Columns of a block at the most

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
normalize_columns(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                  double bias_number, char* mean, char* variance, Geometry g, Parameters p, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    __shared__ ColumnSums column_sums;
    __shared__ Input first_of[COLUMNS];
    __shared__ Normalizer<Compute> normalizers[COLUMNS];
    __shared__ WarpRows rows[WARPS_OF_ROWS];
    WarpRows& warp_rows = rows[WARPS_OF_ROWS > 1 ? threadIdx.x / LANES : 0];
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Place place(g, blockIdx.x, 0);
    const Arrays column = arrays.at(g.kept.offsets(place.column));
    Span span;
    span.load<true>(column.input, g, place);
    SpanOperands operands;
    if (HAS_OUTPUT && OPERANDS_EARLY) operands.load(column, g, place);
    span.hand_over(warp_rows, g, place);
    const Elements first = load_elements<EVICT_NORMALLY>(column.input, g);
    Sums sums[VECTOR];
    span.sum(first, sums);
    sum_over_warp(sums);
    keep_first(first, first_of);
    column_sums.add(sums);

#pragma unroll 1
    for (int c = threadIdx.x; c < COLUMNS; c += BLOCK) {
        const Moments moments = moments_of(column_sums.total(c), Shift(first_of[c]).value, p);
        if (HAS_OUTPUT) normalizers[c] = Normalizer<Compute>::of(moments, p);
        const Index number = column_of(blockIdx.x, c);
        if (mean && exists(g, blockIdx.x, number)) store_moments(arrays.at(g.kept.offsets(number)), moments, p);
    }
    __syncthreads();  // by now all was read, so the output may be the input
    if (!HAS_OUTPUT) return;
    if (!OPERANDS_EARLY) operands.load(column, g, place);
    span.store(warp_rows, column.output, g, place, normalizers, operands, p);
}

// ---------------------------------------------------------------------------------------------------------------------
// Longer columns

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
sum_columns(const char* input, Word* control, Normalizer<Compute>* normalizers, char* mean, char* variance, Geometry g,
            Parameters p, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead_of_steps();
    __shared__ ColumnSums column_sums;
    __shared__ Input first_of[COLUMNS];
    __shared__ WarpRows rows[WARPS_OF_ROWS];
    WarpRows& warp_rows = rows[WARPS_OF_ROWS > 1 ? threadIdx.x / LANES : 0];
    const TicketsFor<Sums> tickets = take_tile(control, g.tiles);
    const Work work(g, tickets.of_block());
    const Arrays arrays = {input, nullptr, nullptr, nullptr, 0, 0, mean, variance};
    const Place place(g, work.strip, work.tile, ROUNDS);
    const char* column = input + g.kept.offsets(place.column).of[OF_INPUT];
    const Elements first = load_elements<EVICT_NORMALLY>(column, g);
    Sums sums[VECTOR];
    add_up_rounds(column, g, place, first, warp_rows, sums);
    keep_first(first, first_of);
    column_sums.add(sums);
    const int c = static_cast<int>(threadIdx.x);
    Sums total = column_sums.total(c % COLUMNS);
    Word* words = control + SECTOR + work.strip * published_words<COLUMNS>(g.tiles);
    const bool is_last = add_up_tiles<COLUMNS, BLOCK>(total, words, work.tile, g.tiles, tickets.epoch());
    const Index number = column_of(work.strip, c);
    if (!is_last || c >= COLUMNS || !exists(g, work.strip, number)) return;
    finish_group(arrays, normalizers, g, number, total, Shift(first_of[c]).value, p);
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
apply_columns(const char* input, char* output, const char* scale, const char* bias, double scale_number,
              double bias_number, const Normalizer<Compute>* of_groups, Geometry g, Parameters p) {
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, nullptr, nullptr};
    apply_tile(arrays, g, p, [=](Index column) { return of_groups[column]; });
}
