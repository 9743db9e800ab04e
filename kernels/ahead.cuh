// What blocks do that have begun while the launch ahead of theirs on the stream ends (intrinsics.cuh): they ask for the
// input. Memory has little else to do then, and the second-level cache holds a small array until it is loaded.
//
// Each block asks for a share, whatever it works on itself. Of many launches in a row an H100 sums (1024, 1024) floats
// along axis 0 in 5.1 us so, and in 6.6 otherwise; in 5.5 if a thread asks for 2048 bytes at once. Large arrays lose by
// it from 4 MB on, or from some size above, by how much of them a kernel's first blocks ask for: the plan knows.
#pragma once

#include "intrinsics.cuh"

struct Ahead {
    unsigned bytes;  // of the input, which nobody asks for where these are 0
};

// Asks for this block's share of so many bytes, which begin at a multiple of 16; not for less than 16 at their end.
__device__ inline void prefetch_ahead(const char* array, unsigned bytes) {
    if (bytes == 0) return;
    constexpr unsigned PIECE = 16, AT_ONCE = 512 / PIECE;
    const unsigned pieces = bytes / PIECE, share = (pieces + gridDim.x - 1) / gridDim.x;
    const unsigned begin = blockIdx.x * share, end = begin + share < pieces ? begin + share : pieces;
    for (unsigned piece = begin + threadIdx.x * AT_ONCE; piece < end; piece += blockDim.x * AT_ONCE) {
        const unsigned count = end - piece < AT_ONCE ? end - piece : AT_ONCE;
        bulk_prefetch(array + size_t{piece} * PIECE, count * PIECE);
    }
}
