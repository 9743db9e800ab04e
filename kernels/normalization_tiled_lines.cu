// Mean, variance and normalization of groups whose elements lie side by side, in one run or in many, and that no block
// holds: they are cut into tiles.
//
// They are read twice: the sums of all tiles, from which the last blocks find the statistics (normalization_tiles.cuh),
// then every tile again, from the last to the first, which the cache still holds.
//
// Constants that the plan sets, beside those of normalization_lines.cuh and normalization_tiles.cuh:
//     ROUNDS          so many times its rows does a warp add up in a tile, a power of two; 1 if they are normalized
//     SAME_OPERANDS   1: all groups read scale and bias of their elements, which are the same: tiles of the same place
//                     follow each other when they are normalized
#include "ahead.cuh"
#include "normalization_lines.cuh"
#include "normalization_tiles.cuh"

static_assert(ROWS == ROWS_IN_TREE, "tiles of powers of two");

struct Work {
    Index group, tile, begin;  // the first element of this warp's rows, less what first_of_row() adds

    __device__ Work(const Geometry& g, Index number, bool by_groups = true) {
        const Index inner = by_groups ? g.tiles : g.groups, outer = number / inner, rest = number - outer * inner;
        group = by_groups ? outer : rest;
        tile = by_groups ? rest : outer;
        begin = (tile * ROUNDS * WARPS + warp_index() * (ROUNDS - 1)) * ROWS * ROW;
    }
};

template <typename End>
__device__ Half sum_of_rows(RowBuffer& buffer, const Arrays& group, const Geometry& g, Index begin, End end,
                            const Shift& shift) {
    Rows rows;
    rows.load(group, g, begin, end);
    rows.gather(buffer, end);
    return rows.sum(begin, end, shift);
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
sum_tiled_lines(const char* input, Word* control, Normalizer<Compute>* normalizers, char* mean, char* variance,
                Geometry g, Parameters p, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead_of_steps();
    __shared__ RowBuffer buffers[GATHERED ? BLOCK / LANES : 1];
    __shared__ __align__(16) WarpHalves warp_halves;
    RowBuffer& buffer = buffers[GATHERED ? threadIdx.x / LANES : 0];
    const TicketsFor<Sums> tickets = take_tile(control, g.tiles);
    Work work(g, tickets.of_block());
    const Arrays arrays = {input, nullptr, nullptr, nullptr, 0, 0, mean, variance};
    const Arrays group = arrays.at(g.kept.offsets(work.group));
    const Shift shift(load_input(group, g, 0));
    SerialPrefix<Half, levels_of(ROUNDS)> over_rounds;
    Half half = {};
#pragma unroll 1
    for (int round = 0; round < ROUNDS; round++, work.begin += ROWS * ROW) {
        if (warp_is_whole(g, work.begin)) half = sum_of_rows(buffer, group, g, work.begin, Beyond{}, shift);
        else half = sum_of_rows(buffer, group, g, work.begin, OtherEnd{g.length}, shift);
        half = over_rounds.next(round, half);
    }
    Sums sums = block_sum(warp_halves, half);
    Word* words = control + SECTOR + work.group * published_words<1>(g.tiles);
    const bool is_last = add_up_tiles<1, BLOCK>(sums, words, work.tile, g.tiles, tickets.epoch());
    if (is_last && threadIdx.x == 0) finish_group(arrays, normalizers, g, work.group, sums, shift.value, p);
}

// Nothing is loaded that other warps store where the output is the input: in place of elements that do not exist one of
// this warp, and of halves no word of which others have a part.
template <typename End>
__device__ void apply_rows(RowBuffer& buffer, const Arrays& group, const Geometry& g,
                           const Normalizer<Compute>& of_group, const Parameters& p, Index begin, End end) {
    const Index first = begin + first_of_row(0);
    Rows rows;
    if constexpr (BEHIND > 0) rows.load(group, g, begin, g.length, first);
    else rows.load(group, g, begin, end, first);
    await_launch_ahead();  // nothing so far is what the first step writes, or is written by this one
    const Normalizer<Compute> normalizer = of_group;
    __syncwarp();
    rows.gather(buffer, end);
    rows.store<TILES_IN_PIECES>(buffer, group, g, normalizer, p, begin, end);
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
apply_tiled_lines(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                  double bias_number, const Normalizer<Compute>* normalizers, Geometry g, Parameters p) {
    __shared__ RowBuffer buffers[SPREAD ? BLOCK / LANES : 1];
    RowBuffer& buffer = buffers[SPREAD ? threadIdx.x / LANES : 0];
    const Index from_last = static_cast<Index>(gridDim.x) - 1 - static_cast<Index>(blockIdx.x);  // as it was read last
    const Work work(g, from_last, !SAME_OPERANDS);
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, nullptr, nullptr};
    const Arrays group = arrays.at(g.kept.offsets(work.group));
    const Normalizer<Compute>& normalizer = normalizers[work.group];
    if (!chunk_exists(work.begin + first_of_row(0), g.length)) return;
    if (warp_is_whole(g, work.begin)) apply_rows(buffer, group, g, normalizer, p, work.begin, Beyond{});
    else apply_rows(buffer, group, g, normalizer, p, work.begin, g.length);
}
