// Groups of several tiles: from the sums of the tiles to those of the group.
//
// Blocks publish the sums of their tiles for one another (tickets.cuh). 32 tiles that follow each other are a set: who
// has the last of them awaits the others, adds all up, and publishes the sum as that of a tile of the next level, where
// sets are tiles. So nearly all is added up while other blocks still read, and the block that has a group's last tile
// finishes the group: a launch of its own for that took an H200 3 to 6 us more.
//
// Tiles are taken by tickets, in the order of their numbers, so whoever waits waits for blocks that run already.
// Blocks that take one tile after the other, and the next ticket while they work on one, were up to 15 % slower: where
// one ends none begins that would load meanwhile.
#pragma once

#include "normalization.cuh"
#include "tickets.cuh"

// Which tile a block works on, by all its threads: each takes one, unless groups are tiles and nobody waits.
__device__ inline TicketsFor<Sums> take_tile(Word* control, Index tiles) {
    if (tiles == 1) return {control, blockIdx.x, static_cast<Index>(gridDim.x)};
    __shared__ Word first;
    if (threadIdx.x == 0) first = TicketsFor<Sums>::take_first(control);
    __syncthreads();
    const TicketsFor<Sums> tickets = {control, first, static_cast<Index>(gridDim.x)};
    if (threadIdx.x == 0) tickets.prepare_next_launch(tickets.of_block() + static_cast<Index>(gridDim.x));
    return tickets;
}

// ---------------------------------------------------------------------------------------------------------------------
// Sets of COLUMNS neighbouring groups. Words of neighbouring columns lie side by side, then those of neighbouring
// tiles.

__device__ inline Index sets_of(Index tiles) { return (tiles + RADIX - 1) / RADIX; }

template <int COLUMNS> struct TileSet {
    static constexpr int APART = RADIX * COLUMNS, WORDS = words_of<Sums> * APART;

    Word* words;
    unsigned epoch;

    __device__ Word* of(int tile, int column) const { return words + tile * COLUMNS + column; }
};

// Of all levels together, for so many tiles: cudml/plan/normalization/steps.py, _published_words.
template <int COLUMNS> __device__ Index published_words(Index tiles) {
    Index sets = 0;
    for (Index left = tiles; left > 1; left = sets_of(left)) sets += sets_of(left);
    return sets * TileSet<COLUMNS>::WORDS;
}

// How OF_BLOCK threads, of which each column of a tile has one at least, add up a set: each has EACH tiles of a column,
// and SHARES of them have all.
template <int COLUMNS, int OF_BLOCK> struct SetSum {
    static constexpr int OF_COLUMN = OF_BLOCK < COLUMNS ? 1 : OF_BLOCK / COLUMNS;
    static constexpr int SHARES = OF_COLUMN < RADIX ? OF_COLUMN : RADIX, EACH = RADIX / SHARES;
    static constexpr int AT_ONCE = EACH < 8 ? EACH : 8;
    static constexpr int ACROSS_PARTS = COLUMNS < LANES ? LANES : COLUMNS, PARTS = SHARES * COLUMNS / ACROSS_PARTS;
    static_assert(SHARES * COLUMNS % LANES == 0, "whole warps");

    Sums part[PARTS][COLUMNS];

    // Of the first `count` tiles, by all threads of the block: thread c gets that of column c.
    __device__ Sums of(const TileSet<COLUMNS>& set, int count) {
        const int thread = static_cast<int>(threadIdx.x), column = thread % COLUMNS, share = thread / COLUMNS;
        Sums sums = {};
        if (share < SHARES) {
            sums = of_share(set, count, share * EACH, column);
            if (COLUMNS < LANES) sums = lane_sum(sums, COLUMNS);
        }
        if constexpr (PARTS > 1) {
            __syncthreads();  // what an earlier set left was read
            if (share < SHARES && thread % ACROSS_PARTS < COLUMNS) part[thread / ACROSS_PARTS][column] = sums;
            __syncthreads();
            Sums parts[PARTS];
#pragma unroll
            for (int k = 0; k < PARTS; k++) parts[k] = part[k][column];
            sums = pairwise_sum(parts);
        }
        return sums;
    }

    __device__ static Sums of_share(const TileSet<COLUMNS>& set, int count, int first, int column) {
        SerialPrefix<Sums> over_rounds;
        Sums sums = {};
#pragma unroll 1
        for (int round = 0; round * AT_ONCE < EACH; round++) {
            const Word* from[AT_ONCE];
            Sums tile[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int number = first + round * AT_ONCE + k;
                from[k] = number < count ? set.of(number, column) : nullptr;
            }
            await_at_once(from, tile, set.epoch, Sums{}, set.APART);
            sums = over_rounds.next(round, pairwise_sum(tile));
        }
        return sums;
    }
};

// By all threads of a block, whose thread c has the sums of its tile in column c. Whether they are those of all tiles
// now; else another block goes on.
template <int COLUMNS, int OF_BLOCK>
__device__ bool add_up_tiles(Sums& sums, Word* words, Index tile, Index tiles, unsigned epoch) {
    __shared__ SetSum<COLUMNS, OF_BLOCK> set_sum;
#pragma unroll 1
    for (; tiles > 1; tile /= RADIX, tiles = sets_of(tiles)) {
        const TileSet<COLUMNS> set = {words + tile / RADIX * TileSet<COLUMNS>::WORDS, epoch};
        const int in_set = static_cast<int>(tile % RADIX);
        if (threadIdx.x < COLUMNS) publish(set.of(in_set, threadIdx.x), sums, epoch, set.APART);
        if (in_set < RADIX - 1 && tile < tiles - 1) return false;
        sums = set_sum.of(set, in_set + 1);
        words += sets_of(tiles) * TileSet<COLUMNS>::WORDS;
    }
    return true;
}

__device__ void finish_group(const Arrays& arrays, Normalizer<Compute>* normalizers, const Geometry& g, Index number,
                             const Sums& sums, double shift, const Parameters& p) {
    const Moments moments = moments_of(sums, shift, p);
    if (arrays.mean) store_moments(arrays.at(g.kept.offsets(number)), moments, p);
    if (HAS_OUTPUT) normalizers[number] = Normalizer<Compute>::of(moments, p);
}
