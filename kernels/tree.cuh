// The order in which values are combined: a tree that depends on nothing but the number of values.
//
// A line is cut into chunks of 16 bytes, each combined from left to right. 32 chunks make a row, 64 rows a tile, 32
// tiles a group, and a line has any number of groups. Within a row, a tile and a group the prefixes are those of
// Sklansky's network [1]: the aggregates of aligned powers of two, combined pairwise. A prefix of the line is that of
// its groups, followed by that of the tiles in a group, of the rows in a tile, and so on down. Neither the number of
// warps or blocks nor the strides of the arrays have a part in it, so all kernels agree to the last bit.
//
// [1] J. Sklansky, Conditional-sum addition logic, IRE Trans. Electronic Computers, 1960.
#pragma once

#include "warp.cuh"

constexpr int RADIX = 32;      // chunks of a row, and tiles of a group: one for each lane
constexpr int TILE_ROWS = 64;  // two for each lane

// Inclusive prefixes over the lanes of a warp, or of each WIDTH neighbours among them.
template <int WIDTH = LANES, typename Item> __device__ Item warp_prefix(Item item) {
    const int lane = lane_index();
#pragma unroll
    for (int half = 1; half < WIDTH; half *= 2) {
        const int left = (lane & ~(2 * half - 1)) + half - 1;  // the last lane of the left half of this lane's block
        const Item before = shuffle(item, left);
        if (lane & half) item = combine(before, item);
    }
    return item;
}

// Whether combine(a, b) has the bits of combine(b, a).
template <typename Item> constexpr bool COMMUTES = false;

// The aggregates of COUNT rows, a power of two, of which each lane has a chunk: lane i gets that of row i % COUNT. In
// each step two lanes exchange halves of what they have, so all rows together take COUNT shuffles and not 5 COUNT. With
// a WIDTH the same for each WIDTH neighbouring lanes; of more rows than that, item[k] is the aggregate of row k * WIDTH
// + i % WIDTH. Where chunks that follow each other are APART lanes apart, i / APART takes the place of i.
template <int COUNT, int WIDTH = LANES, int APART = 1, typename Item>
__device__ Item row_aggregates(Item (&item)[COUNT]) {
    const int lane = lane_index();
    int rows = COUNT;
#pragma unroll
    for (int half = 1; half < WIDTH; half *= 2) {
        const bool right = lane & half * APART;
        rows = rows > 1 ? rows / 2 : 1;
#pragma unroll
        for (int r = 0; r < COUNT; r++) {
            if (r >= rows) continue;
            const bool split = half < COUNT;  // else all rows are done but for the lanes
            const Item kept = split && right ? item[2 * r + 1] : item[split ? 2 * r : r];
            const Item sent = split ? (right ? item[2 * r] : item[2 * r + 1]) : kept;
            const Item got = shuffle(sent, lane ^ half * APART);
            const bool swapped = right && !COMMUTES<Item>;
            item[r] = combine(swapped ? got : kept, swapped ? kept : got);
        }
    }
    return item[0];
}

// Inclusive prefixes over the rows of a tile, of which lane i has the rows i and, unless there are no more, 32 + i.
template <typename Item, bool MORE = true> struct TilePrefixes {
    Item low, high;

    __device__ TilePrefixes(Item low_total, Item high_total) : low(warp_prefix(low_total)) {
        if (MORE) high = combine(shuffle(low, LANES - 1), warp_prefix(high_total));
    }

    // That of `row`, by all lanes of the warp.
    __device__ Item at(int row) const {
        const Item from_low = shuffle(low, row % LANES);
        return MORE && row >= LANES ? shuffle(high, row % LANES) : from_low;
    }
};

// The prefixes of any number of groups that come one after the other. A prefix of n groups consists of an aligned block
// of 2^b groups for each bit b of n; the blocks are combined from the largest to the smallest. Lane b holds the block
// of bit b and the prefix of all blocks above it, so that another group costs two steps or so. By all lanes of a warp.
template <typename Item, typename Count> struct GroupPrefix {
    Item block, above;
    Count count;

    // Returns the prefix that ends with this group.
    __device__ Item add(Item group) {
        int b = 0;
#pragma unroll 1
        for (; count >> b & 1; b++) group = combine(shuffle(block, b), group);
        count++;
        const Item left = shuffle(above, b);
        const Item total = count >> b > 1 ? combine(left, group) : group;
        if (lane_index() == b) block = group;
        if (lane_index() < b) above = total;
        return total;
    }
};

// BITS of a SerialPrefix of so many items, a power of two.
__device__ constexpr int levels_of(int items) { return items <= 2 ? 1 : 1 + levels_of(items / 2); }

// The same prefixes for one thread that gets up to 2^BITS items one after the other.
template <typename Item, int BITS = 5> struct SerialPrefix {
    Item block[BITS];  // block[b]: the aggregate of the last complete aligned block of 2^b items that is a left half

    __device__ Item next(int number, Item item) {
        bool complete = true;
#pragma unroll
        for (int b = 0; b < BITS; b++) {
            if (number >> b & 1) {
                item = combine(block[b], item);
            } else {
                if (complete) block[b] = item;
                complete = false;
            }
        }
        return item;
    }
};
