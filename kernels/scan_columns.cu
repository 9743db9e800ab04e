// Running sums and products of lines that lie side by side: each thread walks down a line of its own, and neighbouring
// threads have neighbouring lines.
//
// A line of one tile (tree.cuh) is scanned by one launch. Longer lines take three: every tile is reduced to its
// aggregate, the aggregates of a line become carries, every tile is scanned from its carry.
//
// Constants that the plan sets: those of scan.cuh
#include "scan.cuh"

constexpr int BLOCK = 256;
constexpr int CHUNKS_AT_ONCE = CHUNK < 16 ? 16 / CHUNK : 1;  // loaded before the first is used

// The prefixes of all tiles before each tile of a line, and of all its tiles: tiles + 1 of them, the first unused.
struct Carries {
    const Item* carry;
    bool first_tile;

    __device__ Carries(const Item* carries, const Geometry& g, Index line, Index tile)
        : carry(carries + line * (g.tiles + 1) + tile), first_tile(tile == 0) {}

    __device__ Prefix before() const { return first_tile ? Prefix::nothing() : Prefix{carry[0], false}; }

    // The aggregate of the tile is all there is after the first one.
    __device__ Item after(Item aggregate) const { return first_tile ? aggregate : carry[1]; }
};

// What a thread knows of the tile on its way down: the prefixes of the rows and of the chunks that lie behind it.
struct Descent {
    SerialPrefix<Item, 6> over_rows;
    SerialPrefix<Item> over_chunks;
    Prefix before_tile, before_row, before_chunk;
    Item after_chunk, row_total;

    __device__ explicit Descent(Prefix carry) : before_tile(carry), before_row(carry), before_chunk(carry) {}

    __device__ void pass_chunk(int chunk, Item total) {
        row_total = over_chunks.next(chunk, total);
        after_chunk = before_row.followed_by(row_total);
    }

    // Returns the aggregate of all rows so far.
    __device__ Item pass_row(int row) {
        const Item total = over_rows.next(row, row_total);
        after_chunk = before_tile.followed_by(total);
        before_row = {after_chunk, false};
        return total;
    }
};

template <bool AGGREGATE_ONLY>
__device__ Item walk_down_tile(const Line& line, const Geometry& g, Index begin, const Carries& carry) {
    Descent descent(AGGREGATE_ONLY ? Prefix::nothing() : carry.before());
    Item aggregate = {};
#pragma unroll 1  // unrolled it is thousands of times the code
    for (int i = 0; i < TILE_ROWS * LANES; i += CHUNKS_AT_ONCE) {
        if (begin + i * CHUNK >= line.length) break;
        Chunk chunk[CHUNKS_AT_ONCE];
#pragma unroll
        for (int k = 0; k < CHUNKS_AT_ONCE; k++) load_chunk(line, g, begin + (i + k) * CHUNK, chunk[k].value);
#pragma unroll
        for (int k = 0; k < CHUNKS_AT_ONCE; k++) {
            const int row = (i + k) / LANES, c = (i + k) % LANES;
            chunk[k].scan(0);
            descent.pass_chunk(c, chunk[k].total());
            if (c == LANES - 1) {
                aggregate = descent.pass_row(row);
                if (row == TILE_ROWS - 1 && !AGGREGATE_ONLY) descent.after_chunk = carry.after(aggregate);
            }
            if (!AGGREGATE_ONLY) {
                chunk[k].finish(descent.before_chunk, descent.after_chunk, 0);
                store_chunk(line, g, begin + (i + k) * CHUNK, chunk[k].value);
            }
            descent.before_chunk = {descent.after_chunk, false};
        }
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

// A warp takes a line, a group of tiles at a time. The aggregates of a line become the prefixes of all tiles before each,
// and of all.
extern "C" __global__ void __launch_bounds__(BLOCK) scan_carries(const Item* aggregates, Item* carries, Geometry g) {
    const int lane = lane_index();
    const Index line = (static_cast<Index>(blockIdx.x) * BLOCK + threadIdx.x) / LANES;
    if (line >= g.lines) return;
    const Item* from = aggregates + line * g.tiles;
    Item* to = carries + line * (g.tiles + 1);
    GroupPrefix<Item, Index> groups = {neutral_item(), neutral_item(), 0};
    Prefix before = Prefix::nothing();
    for (Index tile = lane; tile - lane < g.tiles; tile += RADIX) {
        const Item inclusive = warp_prefix(tile < g.tiles ? from[tile] : neutral_item());
        Item after = before.followed_by(inclusive);
        before = {groups.add(shuffle(inclusive, LANES - 1)), false};
        if (lane == LANES - 1) after = before.item;
        if (tile < g.tiles) to[tile + 1] = after;
    }
}
