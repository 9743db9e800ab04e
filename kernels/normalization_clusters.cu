// Normalization of groups that lie side by side, columns of a matrix, by clusters: read once, and held in the registers
// of CLUSTER blocks, each of which has a tile of the same columns.
//
// As no block waits for any but those of its cluster, which start together, several of them share a multiprocessor:
// some load while others wait or store.
//
// Constants that the plan sets, beside those of normalization_spans.cuh:
//     CLUSTER         blocks of a cluster, tiles of a column
#include "normalization_spans.cuh"

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(BLOCK, RESIDENT)
normalize_clusters(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                   double bias_number, char* mean, char* variance, Geometry g, Parameters p) {
    await_launch_ahead();
    constexpr int MOST_TILES = 8;
    static_assert(CLUSTER <= MOST_TILES && COLUMNS <= BLOCK, "a thread for each column");
    static_assert(SPANS == power_of_two_from(SPANS), "tiles of powers of two");
    __shared__ ColumnSums column_sums;
    __shared__ Sums tile_sums[COLUMNS];
    __shared__ Input first_of[COLUMNS];
    __shared__ Normalizer<Compute> normalizers[COLUMNS];
    __shared__ WarpRows rows[1];
    const Index strip = static_cast<Index>(blockIdx.x) / CLUSTER, tile = static_cast<Index>(cluster_rank());
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Place place(g, strip, tile);
    const Arrays column = arrays.at(g.kept.offsets(place.column));
    Span span;
    span.load<true>(column.input, g, place);
    const Elements first = load_elements<EVICT_NORMALLY>(column.input, g);
    Sums sums[VECTOR];
    span.sum(first, sums);
    sum_over_warp(sums);
    keep_first(first, first_of);
    column_sums.add(sums);
    const int c = static_cast<int>(threadIdx.x);
    if (c < COLUMNS) tile_sums[c] = column_sums.total(c);
    cluster_sync();  // by now all was read, so the output may be the input
    if (c < COLUMNS) {
        const Sums sums_of_column = sum_over_tiles<MOST_TILES, CLUSTER>(&tile_sums[c]);
        const Moments moments = moments_of(sums_of_column, Shift(first_of[c]).value, p);
        normalizers[c] = Normalizer<Compute>::of(moments, p);
        const Index number = column_of(strip, c);
        if (mean && tile == 0 && exists(g, strip, number)) store_moments(arrays.at(g.kept.offsets(number)), moments, p);
    }
    cluster_arrive();
    __syncthreads();
    SpanOperands operands;
    operands.load(column, g, place);
    span.store(rows[0], column.output, g, place, normalizers, operands, p);
    cluster_wait();  // until then others may read this block's sums
}
