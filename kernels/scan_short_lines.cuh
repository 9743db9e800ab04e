// What scans of lines of less than a row share: a row of a warp has as many lines as fit, and a line's lanes are
// neighbours, each of which has a chunk. A warp has ROWS rows, a block GROUPS warps.
//
// Constants that the plan sets, beside those of scan_rows.cuh, of which WARPS is 1:
//     LINE_LANES      lanes that share a line, a power of two unless its kernel is scan_shifted_lines
//     LENGTH          elements of a line
#pragma once

#include "scan_rows.cuh"

constexpr int LINES_OF_ROW = LANES / LINE_LANES;
constexpr int LINES_OF_WARP = ROWS * LINES_OF_ROW;

// The first element of a lane's chunk.
__device__ int number_in_line() { return lane_index() % LINE_LANES * CHUNK; }

// The same prefixes as tree.cuh's, over the lanes of a line, however many these are.
__device__ Item prefix_in_line(Item item) {
    const int lane = lane_index(), number = lane % LINE_LANES;
#pragma unroll
    for (int half = 1; half < LINE_LANES; half *= 2) {
        const int left = lane - number % (2 * half) + half - 1;
        const Item before = shuffle(item, left % LANES);  // beyond the last lane only where it is of no line
        if (number & half) item = combine(before, item);
    }
    return item;
}

// Turns a lane's chunk of a row of lines into outputs.
__device__ void scan_short(Chunk& chunk) {
    chunk.scan(0);
    const Item inclusive = prefix_in_line(chunk.total());
    const Item left = shuffle(inclusive, (lane_index() + LANES - 1) % LANES);
    Prefix before = Prefix::nothing();
    before.append(left, number_in_line() > 0);
    chunk.finish(before, inclusive, 0);
}
