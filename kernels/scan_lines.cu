// Running sums and products of short lines: each is worked on by one block, or by a warp, or by some lanes of a warp.
//
// Nothing is waited for but memory, so many small blocks do best: each thread loads a few chunks, all of them before it
// uses the first. Where the axis is not dense and aligned, rows go through shared memory (scan.cuh).
//
// Linked, the blocks work on the tiles of a few longer lines, one each, and hand on what they add up to (stream.cuh):
// the fastest way while there is no more than a tile for each multiprocessor.
//
// Constants that the plan sets, beside those of scan.cuh:
//     LINE_LANES      lanes that share a line of less than a row, a power of two; 32 otherwise
//     LENGTH          elements of a line of less than a row; 0 otherwise
//     WARPS, ROWS     warps that share a longer line, rows that each of them holds
//     GROUPS          such lines, or rows of short lines, that a block works on
//     LINKED          1 where a block has a tile of a longer line
#include "stream.cuh"

constexpr int ROWS_OF_LINE = WARPS * ROWS;
constexpr int BLOCK = GROUPS * WARPS * LANES;
constexpr bool SPREAD = !INPUT_PACKED || !OUTPUT_PACKED;

static_assert(ROWS_OF_LINE <= TILE_ROWS, "a line is a tile at the most");

// ---------------------------------------------------------------------------------------------------------------------
// Lines of less than a row: a warp has as many as fit.

constexpr int LINES_OF_ROW = LANES / LINE_LANES;
constexpr int SHORT_LENGTH = LENGTH > 0 ? LENGTH : 1;  // known to the compiler, which divides by it

// The lines of a row, end to end.
struct ShortLines {
    const char* input;
    char* output;
    Index first, count;  // count is 0 in warps behind the last line

    // Row `r` of those of the warp.
    __device__ ShortLines(const char* in, char* out, const Geometry& g, int r) : input(in), output(out) {
        const Index warp = static_cast<Index>(blockIdx.x) * GROUPS + threadIdx.x / LANES;
        first = (warp * ROWS + r) * LINES_OF_ROW;
        count = first >= g.lines ? 0 : g.lines - first < LINES_OF_ROW ? g.lines - first : LINES_OF_ROW;
    }

    __device__ Line line(const Geometry& g, Index number) const {
        Line line(input, output, g, number < count ? first + number : 0);
        if (number >= count) line.length = 0;
        return line;
    }

    __device__ unsigned elements() const { return static_cast<unsigned>(count) * SHORT_LENGTH; }
};

// The first element of a lane's chunk.
__device__ int number_in_line() { return lane_index() % LINE_LANES * CHUNK; }

// The same among all elements of the row.
__device__ int place_in_lines() {
    return lane_index() / LINE_LANES * static_cast<int>(SHORT_LENGTH) + number_in_line();
}

// By all lanes of a warp: every 32nd element of the lines, of all rows before the first is used.
__device__ void load_short(const ShortLines& lines, const Geometry& g, Value (&element)[CHUNK]) {
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        const unsigned i = j * LANES + lane_index();
        element[j] = convert<Value>(Operation::template neutral<Accumulator>());
        if (i < lines.elements()) element[j] = load(lines.line(g, i / SHORT_LENGTH), g, i % SHORT_LENGTH);
    }
}

__device__ void gather_short(RowBuffer& buffer, const Value (&element)[CHUNK], Accumulator (&value)[CHUNK]) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) buffer.element[j * LANES + lane_index()] = element[j];
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        value[j] = Operation::template neutral<Accumulator>();
        if (number_in_line() + j < SHORT_LENGTH) value[j] = widen(buffer.element[place_in_lines() + j]);
    }
}

__device__ void store_short(RowBuffer& buffer, const ShortLines& lines, const Geometry& g,
                            const Accumulator (&result)[CHUNK]) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        if (number_in_line() + j < SHORT_LENGTH) buffer.element[place_in_lines() + j] = convert<Value>(result[j]);
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        const unsigned i = j * LANES + lane_index();
        if (i < lines.elements()) {
            store(lines.line(g, i / SHORT_LENGTH), g, i % SHORT_LENGTH + INITIAL, buffer.element[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) scan_short_lines(const char* input, char* output, Geometry g) {
    __shared__ RowBuffer buffers[SPREAD ? BLOCK / LANES : 1];
    RowBuffer& buffer = buffers[SPREAD ? threadIdx.x / LANES : 0];
    Chunk chunk[ROWS];
    Value element[ROWS][CHUNK];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const ShortLines lines(input, output, g, r);
        if (INPUT_PACKED) load_chunk(lines.line(g, lane_index() / LINE_LANES), g, number_in_line(), chunk[r].value);
        else load_short(lines, g, element[r]);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const ShortLines lines(input, output, g, r);
        const Line line = lines.line(g, lane_index() / LINE_LANES);
        if (!INPUT_PACKED) gather_short(buffer, element[r], chunk[r].value);
        chunk[r].scan(0);
        const Item inclusive = warp_prefix<LINE_LANES>(chunk[r].total());
        const Item left = shuffle(inclusive, (lane_index() + LANES - 1) % LANES);
        Prefix before = Prefix::nothing();
        before.append(left, number_in_line() > 0);
        chunk[r].finish(before, inclusive, 0);
        if (number_in_line() == 0 && lane_index() / LINE_LANES < lines.count) store_initial(line, g);
        if (OUTPUT_PACKED) store_chunk(line, g, number_in_line(), chunk[r].value);
        else store_short(buffer, lines, g, chunk[r].value);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Lines of a tile at the most: WARPS warps share one, each holds ROWS rows of 32 chunks, each lane a chunk of a row.

struct Rows {
    Chunk chunk[ROWS];
    Item lanes[ROWS];  // the inclusive prefixes over the lanes

    // Whole rows are loaded before the first is converted: an element's type is not always what it is computed in, and a
    // row that is converted first keeps the next one waiting for memory.
    __device__ void load_whole(const Line& line, Index first) {
        Pack<Input, CHUNK> pack[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const Index start = chunk_start(first + r * ROW + lane_index() * CHUNK, line.length);
            pack[r] = *reinterpret_cast<const Pack<Input, CHUNK>*>(line.input + start * static_cast<Index>(sizeof(Input)));
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

// By all threads of a block.
__device__ RowPrefixes prefixes_across_warps(Item (&row_total)[ROWS_OF_LINE], const Rows& rows, int first_row) {
    const int lane = lane_index();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (lane == LANES - 1) row_total[first_row + r] = rows.lanes[r];
    }
    __syncthreads();
    constexpr int LAST = ROWS_OF_LINE - 1;  // stands for rows that do not exist; nobody asks for their prefixes
    const TilePrefixes<Item, (ROWS_OF_LINE > LANES)> all(row_total[lane < LAST ? lane : LAST],
                                                        row_total[LANES + lane < LAST ? LANES + lane : LAST]);
    RowPrefixes prefixes = {Prefix::nothing(), {}, all.at(LAST)};
    prefixes.before.append(all.at(first_row > 0 ? first_row - 1 : 0), first_row > 0);
#pragma unroll
    for (int r = 0; r < ROWS; r++) prefixes.inclusive[r] = all.at(first_row + r);
    return prefixes;
}

// By all threads of a block; only where a block has one line.
__device__ void mark_heads(Heads& heads, const Segments& segments, Index begin, Index length) {
    for (int word = threadIdx.x; word < HEAD_WORDS; word += BLOCK) heads.word[word] = 0;
    __syncthreads();
    heads.mark(segments, begin, length, threadIdx.x / LANES, BLOCK / LANES);
    __syncthreads();
}

// Tickets by which each block takes one tile.
__device__ Tickets take_tile(Word* control, const Geometry& g) {
    __shared__ Word first;
    if (threadIdx.x == 0) first = Tickets::take_first(control);
    __syncthreads();
    const Tickets tickets = {control, first, g.lines * g.tiles};
    if (threadIdx.x == 0) tickets.prepare_next_launch(tickets.of_block() + static_cast<Index>(gridDim.x));
    return tickets;
}

// The prefixes of the line left and right of the block's tile, whose aggregate is `own`. By all threads of a block.
__device__ Surroundings link(const Tickets& tickets, const Tile& tile, const Geometry& g, Item own) {
    __shared__ Surroundings around;
    if (threadIdx.x < LANES) {
        if (threadIdx.x == 0) publish(tickets.published(tile.ticket), own, tickets.epoch());
        Fold fold;
        fold.begin(tile.line);
        const Item in_group = fold.advance_to(tickets, tile, g);
        const Surroundings found = fold.surroundings(tile, in_group, own);
        if (threadIdx.x == 0) around = found;
    }
    __syncthreads();
    return around;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
scan_lines(const char* input, char* output, const char* offsets, Word* control, Geometry g) {
    __shared__ RowBuffer buffers[SPREAD ? BLOCK / LANES : 1];
    __shared__ Item row_total[GROUPS][ROWS_OF_LINE];
    __shared__ Heads heads;
    RowBuffer& buffer = buffers[SPREAD ? threadIdx.x / LANES : 0];
    const int group = threadIdx.x / (LANES * WARPS);
    const int first_row = threadIdx.x / LANES % WARPS * ROWS;
    Tickets tickets = {};
    if (LINKED) tickets = take_tile(control, g);
    const Index number = LINKED ? tickets.of_block() : static_cast<Index>(blockIdx.x) * GROUPS + group;
    const Tile tile = LINKED ? Tile::of(number, g) : Tile{number, number, 0, 0, static_cast<int>(g.length)};
    const bool exists = number < (LINKED ? tickets.count : g.lines);  // the last block may have groups without a line
    Line line(input, output, g, exists ? tile.line : 0);
    if (!exists) line.length = 0;
    if (SEGMENTED) mark_heads(heads, Segments(offsets, g), tile.begin, line.length);

    Rows rows;
    rows.load(buffer, line, g, tile.begin + first_row * ROW);
    rows.scan(heads, first_row * ROW);
    RowPrefixes prefixes =
        WARPS == 1 ? prefixes_within_warp(rows) : prefixes_across_warps(row_total[group], rows, first_row);
    if (LINKED) {
        const Surroundings around = link(tickets, tile, g, prefixes.all);
        prefixes.follow(around, first_row);
    }

    if (exists && tile.number == 0 && first_row == 0 && lane_index() == 0) store_initial(line, g);
    Prefix before = prefixes.before;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int first = (first_row + r) * ROW;
        finish_row(rows.chunk[r], rows.lanes[r], before, prefixes.inclusive[r],
                   heads.of_chunk(first + lane_index() * CHUNK));
        store_row(buffer, line, g, tile.begin + first, rows.chunk[r].value);
        before = {prefixes.inclusive[r], false};
    }
}
