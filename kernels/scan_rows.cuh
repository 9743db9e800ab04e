// Lines of two tiles at the most, or tiles of longer lines, in registers: WARPS warps share one, each holds ROWS rows
// of 32 chunks, each lane a chunk of a row. All rows are loaded before the first is used.
//
// Constants that the plan sets, beside those of scan.cuh:
//     WARPS, ROWS     warps that share a line, rows that each of them holds
//     GROUPS          such lines that a block works on
#pragma once

#include "scan_shifted.cuh"
#include "scan_segments.cuh"

constexpr int ROWS_OF_LINE = WARPS * ROWS;
constexpr int BLOCK = GROUPS * WARPS * LANES;
constexpr bool SPREAD = !(INPUT_PACKED || SHIFTED_IN) || !OUTPUT_PACKED;

static_assert(ROWS_OF_LINE <= 2 * TILE_ROWS && (ROWS_OF_LINE <= TILE_ROWS || !SEGMENTED), "heads are those of a tile");

struct Rows {
    Chunk chunk[ROWS];
    Item lanes[ROWS];  // the inclusive prefixes over the lanes

    // Whole rows are loaded before the first is converted: an element's type is not always what it is computed in, and
    // a row that is converted first keeps the next one waiting for memory.
    __device__ void load_whole(const Line& line, Index first) {
        Pack<Input, CHUNK> pack[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const Index start = chunk_start(first + r * ROW + lane_index() * CHUNK, line.length);
            pack[r] = load_items<EVICTION, Pack<Input, CHUNK>>(line.input + start * SIZE_IN);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) widen_pack(pack[r], chunk[r].value);
    }

    __device__ void load(RowBuffer& buffer, const Line& line, const Geometry& g, Index first) {
        if (INPUT_PACKED && first + ROWS * ROW <= line.length) {
            load_whole(line, first);
        } else if (INPUT_PACKED) {
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                load_chunk(line, g, first + r * ROW + lane_index() * CHUNK, chunk[r].value);
            }
        } else {
            Value element[ROWS][CHUNK];
#pragma unroll
            for (int r = 0; r < ROWS; r++) load_spread(line, g, first + r * ROW, element[r]);
#pragma unroll
            for (int r = 0; r < ROWS; r++) gather_chunk(buffer, element[r], chunk[r].value);
        }
    }

    __device__ void load_shifted(const Line& line, const Geometry& g, Index first, const Readable& readable) {
        ShiftedChunk shifted[ROWS];
        first += lane_index() * CHUNK;
#pragma unroll
        for (int r = 0; r < ROWS; r++) shifted[r].load(line, first + r * ROW, readable);
        ShiftedChunk::put_together_alike(shifted);
#pragma unroll
        for (int r = 0; r < ROWS; r++) shifted[r].widen(line, g, first + r * ROW, chunk[r].value);
    }

    __device__ void scan(const Heads& heads, int first) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            chunk[r].scan(heads.of_chunk(first + r * ROW + lane_index() * CHUNK));
            lanes[r] = warp_prefix(chunk[r].total());
        }
    }
};

// The inclusive prefixes of a line's rows first_row ... first_row + ROWS - 1, the same in all lanes, behind that of the
// rows before them.
struct RowPrefixes {
    Prefix before;
    Item inclusive[ROWS];
    Item all;  // that of all rows, where WARPS share them

    // Puts them behind what lies before the tile. `first_row` is that of `before`.
    __device__ void follow(const Surroundings& around, int first_row) {
        before = {first_row > 0 ? around.before.followed_by(before.item) : around.before.item,
                  first_row == 0 && around.before.empty};
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const bool last = first_row + r == TILE_ROWS - 1;
            inclusive[r] = last ? around.after : around.before.followed_by(inclusive[r]);
        }
    }
};

__device__ RowPrefixes prefixes_within_warp(const Rows& rows) {
    RowPrefixes prefixes = {Prefix::nothing(), {}, {}};
    SerialPrefix<Item> over_rows;
#pragma unroll
    for (int r = 0; r < ROWS; r++) prefixes.inclusive[r] = over_rows.next(r, shuffle(rows.lanes[r], LANES - 1));
    return prefixes;
}

// Inclusive prefixes over the rows of a line of one tile, or of two. By all lanes of a warp.
template <bool TWO_TILES> struct LinePrefixes {
    static constexpr int LAST = ROWS_OF_LINE - 1;  // stands for rows that do not exist; nobody asks for their prefixes

    TilePrefixes<Item, (ROWS_OF_LINE > LANES)> tile;

    __device__ explicit LinePrefixes(const Item (&total)[ROWS_OF_LINE], int begin = 0)
        : tile(total[begin + lane_index() < LAST ? begin + lane_index() : LAST],
               total[begin + LANES + lane_index() < LAST ? begin + LANES + lane_index() : LAST]) {}

    __device__ Item at(int row) const { return tile.at(row); }
};

template <> struct LinePrefixes<true> {
    LinePrefixes<false> first, second;

    __device__ explicit LinePrefixes(const Item (&total)[ROWS_OF_LINE]) : first(total), second(total, TILE_ROWS) {}

    __device__ Item at(int row) const {
        return row < TILE_ROWS ? first.at(row) : combine(first.at(TILE_ROWS - 1), second.at(row - TILE_ROWS));
    }
};

// By all threads of a block.
__device__ RowPrefixes prefixes_across_warps(Item (&row_total)[ROWS_OF_LINE], const Rows& rows, int first_row) {
    const int lane = lane_index();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (lane == LANES - 1) row_total[first_row + r] = rows.lanes[r];
    }
    __syncthreads();
    const LinePrefixes<(ROWS_OF_LINE > TILE_ROWS)> all(row_total);
    RowPrefixes prefixes = {Prefix::nothing(), {}, all.at(ROWS_OF_LINE - 1)};
    prefixes.before.append(all.at(first_row > 0 ? first_row - 1 : 0), first_row > 0);
#pragma unroll
    for (int r = 0; r < ROWS; r++) prefixes.inclusive[r] = all.at(first_row + r);
    return prefixes;
}

// By all threads of a block; only where a block has one line.
__device__ void mark_heads(Heads& heads, const Segments& segments, Index begin) {
    for (int word = threadIdx.x; word < HEAD_WORDS; word += BLOCK) heads.word[word] = 0;
    __syncthreads();
    heads.mark(segments, begin, threadIdx.x / LANES, BLOCK / LANES);
    __syncthreads();
}

// Turns the rows of a warp into outputs, the first of them row `first_row` of those that begin with element `begin`.
__device__ void store_rows(Rows& rows, RowBuffer& buffer, const Line& line, const Geometry& g, Index begin,
                           int first_row, const Heads& heads, const RowPrefixes& prefixes) {
    Prefix before = prefixes.before;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int first = (first_row + r) * ROW;
        finish_row(rows.chunk[r], rows.lanes[r], before, prefixes.inclusive[r],
                   heads.of_chunk(first + lane_index() * CHUNK));
        if (SHIFTED_OUT) store_shifted(buffer, line, begin + first, rows.chunk[r].value);
        else store_row(buffer, line, g, begin + first, rows.chunk[r].value);
        before = {prefixes.inclusive[r], false};
    }
}
