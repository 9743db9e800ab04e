// Mean, variance and normalization of groups whose elements lie side by side, in one run or in many, and that a block
// or a cluster of blocks holds in registers. They are read once.
//
// Nothing is waited for but memory, so many small blocks do best, each thread of which loads a few chunks, all of them
// before it uses the first.
//
// Constants that the plan sets, beside those of normalization_lines.cuh:
//     CLUSTER         blocks that share a group of normalize_clustered_lines; 1 otherwise
#include "ahead.cuh"
#include "normalization_lines.cuh"

// The first element of a group, and the double that it is. Where warps part compilers hold either in registers from
// where these meet: (6096, 11008) floats take an H200 142 us if they hold the element, and 199 with the double, but
// (3980, 8430), which begin anywhere, 87 and 78.
struct FirstOfGroup {
    static constexpr bool CONVERTED_AGAIN = PART && INPUT_PACKED;

    Input element;
    double value;

    __device__ Shift take(const Arrays& group, const Geometry& g) {
        element = load_input(group, g, 0);
        const Shift shift(element);
        value = shift.value;
        return shift;
    }
    __device__ double shift() const { return CONVERTED_AGAIN ? Shift(element).value : value; }
};

// A warp's share of a group, of which the elements before `end` exist: its sums, and the group's first element.
template <typename End>
__device__ Half take_rows(Rows& rows, RowBuffer& buffer, const Arrays& group, const Geometry& g, FirstOfGroup& first,
                          Index begin, End end) {
    rows.load(group, g, begin, end);
    const Shift shift = first.take(group, g);
    rows.gather(buffer, end);
    return rows.sum(begin, end, shift);
}

// From the sums of this block to those of its cluster, whose blocks have as many rows each, a power of two.
__device__ Sums cluster_sum(Sums& of_block, const Sums& sums) {
    if constexpr (CLUSTER == 1) return sums;
    constexpr int WIDTH = CLUSTER > 4 ? 8 : CLUSTER > 2 ? 4 : 2;
    if (threadIdx.x == 0) of_block = sums;
    cluster_sync();
    const int rank = lane_index() % WIDTH;
    const Sums of_rank = rank < CLUSTER ? *map_shared(&of_block, rank) : Sums{};
    cluster_arrive();
    return lane_sum<WIDTH>(of_rank);
}

// By a block, or by each of a cluster.
__device__ void normalize_share(const Arrays& arrays, const Geometry& g, const Parameters& p) {
    __shared__ RowBuffer buffers[SPREAD ? BLOCK / LANES : 1];
    __shared__ __align__(16) WarpHalves warp_halves;
    __shared__ Sums of_block;
    RowBuffer& buffer = buffers[SPREAD ? threadIdx.x / LANES : 0];
    const Arrays group = arrays.at(g.kept.offsets(static_cast<Index>(blockIdx.x) / CLUSTER));
    const Index begin = CLUSTER > 1 ? static_cast<Index>(cluster_rank()) * (WARPS * ROWS * ROW) : 0;
    const bool is_whole = warp_is_whole(g, begin);
    Rows rows;
    FirstOfGroup first;
    Half half;
    if (is_whole) half = take_rows(rows, buffer, group, g, first, begin, Beyond{});
    else half = take_rows(rows, buffer, group, g, first, begin, OtherEnd{g.length});
    // Warps that parted wait for each other at one place of the code, as PTX has it of a barrier (bar.sync, .aligned).
    const Sums sums = cluster_sum(of_block, block_sum(warp_halves, half));
    // By now the whole group was read, so the output may be the input.

    const Moments moments = moments_of(sums, first.shift(), p);
    // All wait for a branch. So it comes last, unless they have no registers left to keep the moments in.
    constexpr bool LAST = HAS_OUTPUT && ROWS <= 4;
    const bool stores = group.mean && threadIdx.x == 0 && begin == 0;
    if (!LAST && stores) store_moments(group, moments, p);
    if constexpr (HAS_OUTPUT) {
        const auto normalizer = Normalizer<Compute>::of(moments, p);
        constexpr bool SHIFTED = STORED_IN_PIECES;
        if (is_whole) rows.store<SHIFTED>(buffer, group, g, normalizer, p, begin, Beyond{});
        else rows.store<SHIFTED>(buffer, group, g, normalizer, p, begin, OtherEnd{g.length});
    }
    if (LAST && stores) store_moments(group, moments, p);
    if (CLUSTER > 1) cluster_wait();  // until then others may read this block's sums
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
normalize_lines(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                double bias_number, char* mean, char* variance, Geometry g, Parameters p, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    normalize_share({input, output, scale, bias, scale_number, bias_number, mean, variance}, g, p);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(BLOCK, RESIDENT)
normalize_clustered_lines(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                          double bias_number, char* mean, char* variance, Geometry g, Parameters p) {
    await_launch_ahead();
    normalize_share({input, output, scale, bias, scale_number, bias_number, mean, variance}, g, p);
}
