// Running sums and products along an axis of an array of any strides, and in segments of a 1-D array.
//
//     output[i] = input[0] + ... + input[i]          (inclusive; with * for products)
//     output[i] = input[0] + ... + input[i - 1]      (exclusive; the identity for i = 0)
//
// i counts in the direction of traversal: reverse scans start at the end. A segmented scan starts afresh at every head,
// the first element of a segment.
//
// How the work is cut up: a line is everything along the scanned axis; it is cut into tiles of 1024 chunks (tree.cuh).
// A line of one tile is scanned by one launch. Longer lines take three: every tile is reduced to its aggregate, the
// aggregates of a line become carries, every tile is scanned from its carry. Rows and columns do the same in the same
// order of additions and differ in who holds what: where the axis itself is dense in memory a block shares a tile, lane
// by lane; where neighbouring lines are dense each thread walks down the tile of a line of its own.
//
// Constants that the plan sets:
//     INPUT, VALUE, OUTPUT    element types: stored, computed in, stored
//     OPERATION               Sum or Product
//     REVERSE, EXCLUSIVE, SEGMENTED
//     INITIAL                 1 where the output starts with the identity and is longer by one
//     INPUT_ALIGNED, OUTPUT_ALIGNED      every element lies at a multiple of its size
//     OFFSET, OFFSET_ALIGNED             of the offsets of a segmented scan
//     INPUT_PACKED, OUTPUT_PACKED        whole chunks lie dense and aligned, and are moved in one access
//     WARPS, ROWS             warps that share a tile, rows of the tile that each holds
//     LINE_RANK_IN, LINE_RANK_OUT, AXIS_RANK_IN, AXIS_RANK_OUT, INDEX    see layout.cuh
#include "elements.cuh"
#include "layout.cuh"
#include "operations.cuh"
#include "tree.cuh"

using Input = INPUT;
using Value = VALUE;
using Output = OUTPUT;
using Operation = OPERATION;
using Accumulator = ComputedIn<Value>::type;

constexpr int CHUNK = sizeof(Value) < 16 ? 16 / sizeof(Value) : 1;
constexpr int TILE = RADIX * RADIX * CHUNK;
constexpr int BLOCK = 256;
constexpr int GROUPS = BLOCK / (LANES * WARPS);  // tiles that a block works on at a time

struct Geometry {
    Index lines, length, tiles;
    Index segments, offset_stride;
    Layout<LINE_RANK_IN> input_line;
    Layout<AXIS_RANK_IN> input_axis;
    Layout<LINE_RANK_OUT> output_line;
    Layout<AXIS_RANK_OUT> output_axis;
};

// ---------------------------------------------------------------------------------------------------------------------
// Items: what the tree combines. In a segmented scan an item knows whether its range holds a head.

struct Plain {
    Accumulator value;
};

struct Headed {
    Accumulator value;
    int head;
};

__device__ Plain combine(Plain a, Plain b) { return {Operation::combine(a.value, b.value)}; }

__device__ Headed combine(Headed a, Headed b) {
    return {b.head ? b.value : Operation::combine(a.value, b.value), a.head | b.head};
}

template <bool> struct ItemOf { using type = Plain; };
template <> struct ItemOf<true> { using type = Headed; };
using Item = ItemOf<SEGMENTED>::type;

__device__ void set(Plain& item, Accumulator value, bool) { item.value = value; }
__device__ void set(Headed& item, Accumulator value, bool head) { item = {value, head}; }

// ---------------------------------------------------------------------------------------------------------------------
// Elements of a line, numbered in the direction of traversal.

struct Line {
    const char* input;
    char* output;
    Index length;

    __device__ Line(const char* in, char* out, const Geometry& g, Index line)
        : input(in + g.input_line.offset(line)), output(out + g.output_line.offset(line)), length(g.length) {}
};

__device__ Index along(Index number, Index length) { return REVERSE ? length - 1 - number : number; }

__device__ Accumulator load(const Line& line, const Geometry& g, Index number) {
    const Index offset = g.input_axis.offset(along(number, line.length));
    return widen(convert<Value>(load_element<Input, INPUT_ALIGNED>(line.input + offset)));
}

__device__ void store(const Line& line, const Geometry& g, Index number, Accumulator result) {
    const Index offset = g.output_axis.offset(along(number, line.length + INITIAL));
    store_element<OUTPUT_ALIGNED>(line.output + offset, convert<Output>(convert<Value>(result)));
}

__device__ void store_initial(const Line& line, const Geometry& g) {
    if (INITIAL) store(line, g, 0, Operation::template first<Accumulator>());
}

// The address of a chunk that lies dense in memory, in either direction.
__device__ Index chunk_start(Index number, Index length) { return REVERSE ? length - number - CHUNK : number; }

__device__ void load_chunk(const Line& line, const Geometry& g, Index number, Accumulator (&value)[CHUNK]) {
    if (INPUT_PACKED && number + CHUNK <= line.length) {
        using Chunk = Pack<Input, CHUNK>;
        const char* address = line.input + chunk_start(number, line.length) * static_cast<Index>(sizeof(Input));
        const Chunk chunk = *reinterpret_cast<const Chunk*>(address);
#pragma unroll
        for (int j = 0; j < CHUNK; j++) value[j] = widen(convert<Value>(chunk.element[REVERSE ? CHUNK - 1 - j : j]));
    } else {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            value[j] = Operation::template neutral<Accumulator>();
            if (number + j < line.length) value[j] = load(line, g, number + j);
        }
    }
}

__device__ void store_chunk(const Line& line, const Geometry& g, Index number, const Accumulator (&result)[CHUNK]) {
    if (OUTPUT_PACKED && number + CHUNK <= line.length) {
        using Chunk = Pack<Output, CHUNK>;
        Chunk chunk;
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            chunk.element[REVERSE ? CHUNK - 1 - j : j] = convert<Output>(convert<Value>(result[j]));
        }
        char* address = line.output + chunk_start(number, line.length) * static_cast<Index>(sizeof(Output));
        *reinterpret_cast<Chunk*>(address) = chunk;
    } else {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (number + j < line.length) store(line, g, number + j + INITIAL, result[j]);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Heads of segments: one bit for each element of a tile, in the direction of traversal.

struct Segments {
    const char* offsets;  // as in CSR: segment s is offsets[s] ... offsets[s + 1] - 1
    Index count, stride;

    __device__ Segments(const char* offsets, const Geometry& g)
        : offsets(offsets), count(g.segments), stride(g.offset_stride) {}

    __device__ Index offset(Index number) const {
        return static_cast<Index>(load_element<OFFSET, OFFSET_ALIGNED>(offsets + number * stride));
    }

    // Where segment `number` in the direction of traversal begins; never decreases with the number.
    __device__ Index start(Index number, Index length) const {
        return REVERSE ? length - offset(count - number) : offset(number);
    }

    // The first segment that starts at `element` or later.
    __device__ Index first_from(Index element, Index length) const {
        Index low = 0, high = count;
        while (low < high) {
            const Index middle = low + (high - low) / 2;
            if (start(middle, length) < element) low = middle + 1;
            else high = middle;
        }
        return low;
    }
};

constexpr int HEAD_WORDS = SEGMENTED ? (TILE + 31) / 32 : 1;

// Bits are set only inside the tile, so offsets that lie cannot lead outside.
__device__ void mark_heads(unsigned (&heads)[HEAD_WORDS], const Segments& segments, Index begin, Index length) {
    for (int word = threadIdx.x; word < HEAD_WORDS; word += BLOCK) heads[word] = 0;
    __syncthreads();
    const Index from = segments.first_from(begin, length);
    for (Index number = from + threadIdx.x; number < segments.count; number += BLOCK) {
        const Index bit = segments.start(number, length) - begin;
        if (bit < 0 || bit >= TILE) break;
        atomicOr(&heads[bit / 32], 1u << (bit % 32));
    }
    __syncthreads();
}

__device__ bool head_at(const unsigned (&heads)[HEAD_WORDS], Index bit) {
    return SEGMENTED && (heads[bit / 32] >> (bit % 32) & 1);
}

// ---------------------------------------------------------------------------------------------------------------------
// Rows: WARPS warps share a tile, each holds ROWS rows of 32 chunks, each lane a chunk of a row.

struct Chunk {
    Accumulator value[CHUNK];
    Item prefix[CHUNK];  // inclusive within the chunk
};

__device__ void scan_chunk(Chunk& chunk, const unsigned (&heads)[HEAD_WORDS], int first_bit) {
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        set(chunk.prefix[j], chunk.value[j], head_at(heads, SEGMENTED ? first_bit + j : 0));
        if (j > 0) chunk.prefix[j] = combine(chunk.prefix[j - 1], chunk.prefix[j]);
    }
}

// Turns inclusive prefixes into the outputs, in place. `before` is the prefix of all chunks left of this one, `after`
// that of this one too. The last element of a chunk gets `after`: so an exclusive scan is the inclusive one shifted, to
// the last bit.
__device__ void finish_chunk(Chunk& chunk, const Prefix<Item>& before, const Prefix<Item>& after,
                             const unsigned (&heads)[HEAD_WORDS], int first_bit) {
#pragma unroll
    for (int j = CHUNK - 1; j >= 0; j--) {
        if (!EXCLUSIVE) {
            chunk.value[j] = j == CHUNK - 1 ? after.item.value : before.followed_by(chunk.prefix[j]).value;
        } else if ((j == 0 && before.empty) || head_at(heads, SEGMENTED ? first_bit + j : 0)) {
            chunk.value[j] = Operation::template first<Accumulator>();
        } else {
            chunk.value[j] = j == 0 ? before.item.value : before.followed_by(chunk.prefix[j - (j > 0)]).value;
        }
    }
}

// The prefixes of all tiles before each tile of a line, and of all its tiles: tiles + 1 of them, the first unused.
struct Carries {
    const Item* carry;
    bool first_tile;

    __device__ Carries(const Item* carries, const Geometry& g, Index line, Index tile)
        : carry(carries + line * (g.tiles + 1) + tile), first_tile(tile == 0) {}

    __device__ Prefix<Item> before() const {
        Prefix<Item> prefix = {{}, true};
        if (!first_tile) prefix = {carry[0], false};
        return prefix;
    }

    // The aggregate of the tile is all there is after the first one.
    __device__ Prefix<Item> after(Item aggregate) const {
        return {first_tile ? aggregate : carry[1], false};
    }
};

struct Surroundings {
    Prefix<Item> before, after;
};

// The prefixes left and right of this lane's chunk in `row`. By all lanes of a warp; lane i has the prefix of the rows
// 0 ... i in `rows`, and that of the chunks of the lanes 0 ... i in `lanes`.
__device__ Surroundings surroundings(const Carries& carry, int row, Item rows, Item lanes) {
    const int lane = lane_index();
    const Item rows_before = shuffle(rows, (row + LANES - 1) % LANES);
    const Item rows_after = shuffle(rows, row);
    const Item lanes_before = shuffle(lanes, (lane + LANES - 1) % LANES);
    Prefix<Item> before = carry.before();
    Prefix<Item> after = before;
    before.append(rows_before, row > 0);
    if (lane < LANES - 1) {
        after = before;
        after.append(lanes, true);
    } else if (row < RADIX - 1) {
        after.append(rows_after, true);
    } else {
        after = carry.after(rows_after);
    }
    before.append(lanes_before, lane > 0);
    return {before, after};
}

template <bool AGGREGATE_ONLY>
__device__ void work_on_tile(const char* input, char* output, Item* aggregates, const Item* carries,
                             const Segments& segments, const Geometry& g) {
    __shared__ Item row_total[GROUPS][RADIX];
    __shared__ unsigned heads[HEAD_WORDS];
    const int lane = lane_index();
    const int group = threadIdx.x / (LANES * WARPS);
    const int first_row = threadIdx.x / LANES % WARPS * ROWS;
    const Index work = static_cast<Index>(blockIdx.x) * GROUPS + group;
    const bool active = work < g.lines * g.tiles;  // the last block may have groups without a tile; they load nothing
    const Index tile = active ? work % g.tiles : 0;
    Line line(input, output, g, active ? work / g.tiles : 0);
    if (!active) line.length = 0;
    if (SEGMENTED) mark_heads(heads, segments, tile * TILE, line.length);

    Chunk chunk[ROWS];
    Item lane_prefix[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int first_bit = ((first_row + r) * LANES + lane) * CHUNK;
        load_chunk(line, g, tile * TILE + first_bit, chunk[r].value);
        scan_chunk(chunk[r], heads, first_bit);
        lane_prefix[r] = warp_prefix(chunk[r].prefix[CHUNK - 1]);
        if (lane == LANES - 1) row_total[group][first_row + r] = lane_prefix[r];
    }
    __syncthreads();

    const Item row_prefix = warp_prefix(row_total[group][lane % (WARPS * ROWS)]);
    if (AGGREGATE_ONLY) {
        if (active && first_row == 0 && lane == LANES - 1) aggregates[work] = row_prefix;
        return;
    }

    const Carries carry(carries, g, active ? work / g.tiles : 0, tile);
    if (active && tile == 0 && first_row == 0 && lane == 0) store_initial(line, g);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = first_row + r;
        const Surroundings around = surroundings(carry, row, row_prefix, lane_prefix[r]);
        const int first_bit = (row * LANES + lane) * CHUNK;
        finish_chunk(chunk[r], around.before, around.after, heads, first_bit);
        store_chunk(line, g, tile * TILE + first_bit, chunk[r].value);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
reduce_rows(const char* input, Item* aggregates, const char* offsets, Geometry g) {
    work_on_tile<true>(input, nullptr, aggregates, nullptr, Segments(offsets, g), g);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
scan_rows(const char* input, char* output, const Item* carries, const char* offsets, Geometry g) {
    work_on_tile<false>(input, output, nullptr, carries, Segments(offsets, g), g);
}

// ---------------------------------------------------------------------------------------------------------------------
// Columns: each thread walks down the tile of a line of its own; neighbouring threads have neighbouring lines.

// What a thread knows of the tile on its way down: the prefixes of the rows and of the chunks that lie behind it.
struct Descent {
    SerialPrefix<Item> over_rows, over_chunks;
    Prefix<Item> before_tile, before_row, before_chunk, after_chunk;
    Item row_total;

    __device__ explicit Descent(Prefix<Item> carry) : before_tile(carry), before_row(carry), before_chunk(carry) {}

    __device__ void pass_chunk(int chunk, Item total) {
        row_total = over_chunks.next(chunk, total);
        after_chunk = before_row;
        after_chunk.append(row_total, true);
    }

    // Returns the aggregate of all rows so far.
    __device__ Item pass_row(int row) {
        const Item total = over_rows.next(row, row_total);
        after_chunk = before_tile;
        after_chunk.append(total, true);
        before_row = after_chunk;
        return total;
    }
};

template <bool AGGREGATE_ONLY>
__device__ Item walk_down_tile(const Line& line, const Geometry& g, Index begin, const Carries& carry) {
    Descent descent(AGGREGATE_ONLY ? Prefix<Item>{{}, true} : carry.before());
    Item aggregate = {};
#pragma unroll 1  // unrolled it is 1024 times the code
    for (int i = 0; i < RADIX * LANES; i++) {
        const int row = i / LANES, c = i % LANES;
        const Index number = begin + i * CHUNK;
        if (number >= line.length) break;
        Chunk chunk;
        load_chunk(line, g, number, chunk.value);
        scan_chunk(chunk, {}, 0);
        descent.pass_chunk(c, chunk.prefix[CHUNK - 1]);
        if (c == LANES - 1) {
            aggregate = descent.pass_row(row);
            if (row == RADIX - 1 && !AGGREGATE_ONLY) descent.after_chunk = carry.after(aggregate);
        }
        if (!AGGREGATE_ONLY) {
            finish_chunk(chunk, descent.before_chunk, descent.after_chunk, {}, 0);
            store_chunk(line, g, number, chunk.value);
        }
        descent.before_chunk = descent.after_chunk;
    }
    return aggregate;
}

struct Column {
    Index work, line, tile;
    bool exists;

    __device__ explicit Column(const Geometry& g) {
        work = static_cast<Index>(blockIdx.x) * BLOCK + threadIdx.x;
        exists = work < g.lines * g.tiles;
        line = work % g.lines;
        tile = work / g.lines;
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK) reduce_columns(const char* input, Item* aggregates, Geometry g) {
    const Column column(g);
    if (!column.exists) return;
    const Line line(input, nullptr, g, column.line);
    const Carries none(nullptr, g, 0, 0);
    aggregates[column.line * g.tiles + column.tile] = walk_down_tile<true>(line, g, column.tile * TILE, none);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
scan_columns(const char* input, char* output, const Item* carries, Geometry g) {
    const Column column(g);
    if (!column.exists) return;
    const Line line(input, output, g, column.line);
    if (column.tile == 0) store_initial(line, g);
    walk_down_tile<false>(line, g, column.tile * TILE, Carries(carries, g, column.line, column.tile));
}

// ---------------------------------------------------------------------------------------------------------------------
// Carries: the aggregates of the tiles of a line become the prefixes of all tiles before each, and of all.
//
// A block takes a line, 32 x 32 tiles at a time: a warp for each 32. Above that, `aggregate[k]` collects up to 32
// aggregates of 32^(k + 2) tiles each; warp 0 keeps them.

constexpr int CARRY_LEVELS = 4;  // 32^6 tiles: 2^42 elements of 16 bytes
constexpr int CARRY_BLOCK = RADIX * LANES;

struct Levels {
    Item aggregate[CARRY_LEVELS][RADIX];

    // The prefix of the first `blocks` blocks of 1024 tiles. By all lanes of a warp; each gets the result.
    __device__ Prefix<Item> before(Index blocks) const {
        Prefix<Item> prefix = {{}, true};
        for (int k = CARRY_LEVELS - 1; k >= 0; k--) {
            const int complete = static_cast<int>((blocks >> (5 * k)) % RADIX);
            const Item inclusive = warp_prefix(aggregate[k][lane_index()]);
            prefix.append(shuffle(inclusive, (complete + LANES - 1) % LANES), complete > 0);
        }
        return prefix;
    }

    // Adds the aggregate of block `number`, which lane 31 holds. By all lanes of a warp.
    __device__ void add(Index number, Item item) {
        __syncwarp();  // all lanes have read what lane 31 is about to replace
        for (int k = 0; k < CARRY_LEVELS; k++) {
            const int place = static_cast<int>((number >> (5 * k)) % RADIX);
            if (lane_index() == LANES - 1) aggregate[k][place] = item;
            __syncwarp();
            if (place < RADIX - 1) break;
            item = warp_prefix(aggregate[k][lane_index()]);
            __syncwarp();
        }
    }
};

extern "C" __global__ void __launch_bounds__(CARRY_BLOCK)
scan_carries(const Item* aggregates, Item* carries, Geometry g) {
    __shared__ Levels levels;
    __shared__ Item warp_total[RADIX];
    __shared__ Prefix<Item> block_carry;
    const int lane = lane_index(), warp = threadIdx.x / LANES;
    const Item* from = aggregates + static_cast<Index>(blockIdx.x) * g.tiles;
    Item* to = carries + static_cast<Index>(blockIdx.x) * (g.tiles + 1);
    Item neutral = {};
    set(neutral, Operation::template neutral<Accumulator>(), false);
    if (warp == 0) {
        for (int k = 0; k < CARRY_LEVELS; k++) levels.aggregate[k][lane] = neutral;
    }

    for (Index block = 0; block * CARRY_BLOCK <= g.tiles; block++) {
        const Index tile = block * CARRY_BLOCK + threadIdx.x;
        const Item inclusive = warp_prefix(tile < g.tiles ? from[tile] : neutral);
        if (lane == LANES - 1) warp_total[warp] = inclusive;
        __syncthreads();
        const Item warps = warp_prefix(warp_total[lane]);
        if (warp == 0) {
            const Prefix<Item> carry = levels.before(block);
            if (lane == 0) block_carry = carry;
            levels.add(block, warps);
        }
        __syncthreads();
        Prefix<Item> before = block_carry;
        before.append(shuffle(warps, (warp + LANES - 1) % LANES), warp > 0);
        before.append(shuffle(inclusive, (lane + LANES - 1) % LANES), lane > 0);
        if (tile > 0 && tile <= g.tiles) to[tile] = before.item;
        __syncthreads();
    }
}
