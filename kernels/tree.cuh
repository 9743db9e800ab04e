// The order in which values are combined: a tree that depends on nothing but the number of values.
//
// A line is cut into chunks of 16 bytes, each combined from left to right. 32 chunks make a row, 32 rows a tile, 32
// tiles a block of tiles, and so on. On every level the prefixes of up to 32 neighbours are those of Sklansky's network
// [1]: the aggregates of aligned powers of two, combined pairwise. Neither the number of warps, nor the tile a kernel
// works on, nor the strides of the arrays have a part in it, so all kernels agree to the last bit.
//
// [1] J. Sklansky, Conditional-sum addition logic, IRE Trans. Electronic Computers, 1960.
#pragma once

#include "warp.cuh"

constexpr int RADIX = 32;

// Inclusive prefixes over the lanes of a warp.
template <typename Item> __device__ Item warp_prefix(Item item) {
    const int lane = lane_index();
#pragma unroll
    for (int half = 1; half < LANES; half *= 2) {
        const int left = (lane & ~(2 * half - 1)) + half - 1;  // the last lane of the left half of this lane's block
        const Item before = shuffle(item, left);
        if (lane & half) item = combine(before, item);
    }
    return item;
}

// The same prefixes for one thread that gets up to 32 items one after the other.
template <typename Item> struct SerialPrefix {
    Item block[5];  // block[b]: the aggregate of the last complete aligned block of 2^b items that is a left half

    __device__ Item next(int number, Item item) {
        bool complete = true;
#pragma unroll
        for (int b = 0; b < 5; b++) {
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

// A prefix that may be of nothing. The levels of the tree are appended from the largest to the smallest.
template <typename Item> struct Prefix {
    Item item;
    bool empty;

    __device__ void append(Item smaller, bool exists) {
        if (exists) item = empty ? smaller : combine(item, smaller);
        empty = empty && !exists;
    }

    __device__ Item followed_by(Item next) const { return empty ? next : combine(item, next); }
};
