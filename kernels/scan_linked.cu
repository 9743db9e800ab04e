// Running sums and products of a few lines that are longer than a tile.
//
// Each block has a tile, or a part of one, in registers (scan_rows.cuh). It publishes what that adds up to, and waits
// for what those before it publish. Tickets say which part is whose, so these run already, and nothing waits for a
// block that has yet to begin. While all of them run at the same time, this takes less time than an assembly line.
//
// A ticket takes nearly as long as elements do to come from memory. So they are prefetched while the launch ahead ends,
// by whichever blocks; by the time that a block knows its part, it is in the second-level cache. On an H200 2^20
// float32 take 0.0043 ms so, with many launches in a row, and 0.0054 ms without the prefetch.
//
// A part is some rows of a tile, as many as a power of two. Prefixes of its rows become those of the tile's by what
// lies left of it on each level of Sklansky's network (tree.cuh).
//
// Constants that the plan sets: those of scan_rows.cuh.
#include "scan_rows.cuh"
#include "scan_fold.cuh"

constexpr int PARTS = TILE_ROWS / ROWS_OF_LINE;
constexpr int MOST_LEVELS = 6;

// SerialPrefix combines blocks of groups from the smallest to the largest, GroupPrefix the other way round (tree.cuh):
// of no more groups than these, no prefix has three blocks, and both give the same bits.
constexpr int MOST_GROUPS = 6;

// All blocks read at once what each has published. Everything is published so many times, and each block reads one of
// the copies: on an H200 128 blocks take 4.8 us with one copy, 4.5 us with 2, and 4.4 us with 4, 8 and 16.
constexpr int COPIES = 8;

static_assert(PARTS * ROWS_OF_LINE == TILE_ROWS && GROUPS == 1 && WARPS > 1, "a block has a part of a tile");

// Where a part lies, and where it is published.
struct Place {
    Tile tile;
    int part, group, in_group;  // `in_group` is the tile's place in its group

    // Parts are numbered through all tiles of all lines.
    __device__ Place(int number, const Geometry& g) : tile(Tile::of(number / PARTS, g)) {
        part = number % PARTS;
        group = tile.number / RADIX;
        in_group = tile.number % RADIX;
    }

    // Part `other` of tile `number` of the same line.
    __device__ const Word* published(const Tickets& tickets, int number, int other) const {
        const Index copy = static_cast<Index>(blockIdx.x) % COPIES;
        return tickets.published(copy * tickets.count + (tile.ticket - tile.number + number) * PARTS + other);
    }

    __device__ int number() const { return tile.ticket * PARTS + part; }

    __device__ Index begin() const { return tile.begin + part * (TILE / PARTS); }
};

// What lies before a part. Each warp finds some of it.
struct __align__(16) Found {
    Item group[MOST_GROUPS];         // the groups before its own
    Item tiles_before, tiles;        // the prefixes of the tiles in its group, without its own and with it
    Item left[MOST_LEVELS];          // what lies left of the part in the halves of its tile, from the smallest
    Item parts_before;               // the prefix of the parts before it

    // Group `number`. By all lanes of a warp, a tile for each. With its last part the tile itself is whole.
    __device__ void find_group(int number, const Place& place, const Tickets& tickets, Item own) {
        const int lane = lane_index();
        const bool own_group = number == place.group, own_tile = own_group && lane == place.in_group;
        const Word* from[PARTS];
        Item item[PARTS];
#pragma unroll
        for (int k = 0; k < PARTS; k++) {
            const bool exists = !own_group || lane < place.in_group || (own_tile && k < place.part);
            from[k] = exists ? place.published(tickets, number * RADIX + lane, k) : nullptr;
        }
        await_at_once(from, item, tickets.epoch(), neutral_item());
#pragma unroll
        for (int k = 0; k < PARTS; k++) {
            if (own_tile && k == place.part) item[k] = own;
        }
#pragma unroll
        for (int half = 1; half < PARTS; half *= 2) {
#pragma unroll
            for (int k = 0; k < PARTS; k += 2 * half) item[k] = combine(item[k], item[k + half]);
        }
        const Item inclusive = warp_prefix(item[0]);
        if (!own_group && lane == LANES - 1) group[number] = inclusive;
        if (own_group && lane == place.in_group - 1) tiles_before = inclusive;
        if (own_tile) tiles = inclusive;
    }

    // The parts of the same tile. By all lanes of a warp, a part for each.
    __device__ void find_parts(const Place& place, const Tickets& tickets, Item own) {
        const int lane = lane_index();
        const Word* const from[1] = {lane < place.part ? place.published(tickets, place.tile.number, lane) : nullptr};
        Item item[1];
        await_at_once(from, item, tickets.epoch(), neutral_item());
        if (lane == place.part) item[0] = own;
#pragma unroll
        for (int level = 0; 1 << level < PARTS; level++) {
            const int half = 1 << level;
            const Item before = shuffle(item[0], (lane & ~(2 * half - 1)) + half - 1);
            if (lane == place.part) left[level] = before;
            if (lane & half) item[0] = combine(before, item[0]);
        }
        if (lane == place.part - 1) parts_before = item[0];
    }

    __device__ Surroundings around(const Place& place) const {
        Surroundings around = {Prefix::nothing(), {}};
        SerialPrefix<Item, 3> groups;
        Item after_groups = tiles;
#pragma unroll
        for (int k = 0; k < MOST_GROUPS; k++) {
            if (k < place.group) around.before = {groups.next(k, group[k]), false};
            if (k == place.group) after_groups = groups.next(k, tiles);
        }
        around.after = place.in_group == RADIX - 1 ? after_groups : around.before.followed_by(tiles);
        around.before.append(tiles_before, place.in_group > 0);
        return around;
    }

    // From the prefix of rows of the part to that of the tile's.
    __device__ Item in_tile(const Place& place, Item item) const {
#pragma unroll
        for (int level = 0; 1 << level < PARTS; level++) {
            if (place.part >> level & 1) item = combine(left[level], item);
        }
        return item;
    }

    __device__ RowPrefixes in_tile(const Place& place, RowPrefixes rows, int first_row) const {
        if (first_row > 0) rows.before.item = in_tile(place, rows.before.item);
        else if (place.part > 0) rows.before = {parts_before, false};
#pragma unroll
        for (int r = 0; r < ROWS; r++) rows.inclusive[r] = in_tile(place, rows.inclusive[r]);
        return rows;
    }
};

// By all threads of a block, whose part adds up to `own`.
__device__ void link(Found& found, const Place& place, const Tickets& tickets, Item own) {
    const Index thread = static_cast<Index>(threadIdx.x);
    if (thread < COPIES) publish(tickets.published(thread * tickets.count + place.number()), own, tickets.epoch());
    for (int k = warp_index(); k <= place.group + (PARTS > 1); k += WARPS) {
        if (k <= place.group) found.find_group(k, place, tickets, own);
        else found.find_parts(place, tickets, own);
    }
    __syncthreads();
}

// The part that has the number of the block, whoever gets it.
__device__ void prefetch_part(const char* input, const Geometry& g) {
    const Place place(static_cast<int>(blockIdx.x), g);
    const Index begin = place.begin();
    const int count = up_to(g.length - begin, TILE / PARTS);
    if (threadIdx.x == 0) prefetch(input, g, place.tile.line, REVERSE ? g.length - begin - count : begin, count);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
scan_linked(const char* input, char* output, const char* offsets, Word* control, Geometry g) {
    prefetch_part(input, g);
    await_launch_ahead_alone();
    __shared__ RowBuffer buffers[SPREAD ? BLOCK / LANES : 1];
    __shared__ Item row_total[ROWS_OF_LINE];
    __shared__ Heads heads;
    __shared__ Found found;
    __shared__ Word first;
    if (threadIdx.x == 0) first = Tickets::take_first(control);
    __syncthreads();
    const Tickets tickets = {control, first, static_cast<Index>(gridDim.x)};
    const Place place(static_cast<int>(tickets.of_block()), g);
    RowBuffer& buffer = buffers[SPREAD ? warp_index() : 0];
    const int first_row = warp_index() * ROWS;
    const Index begin = place.begin();
    const Line line(input, output, g, place.tile.line);
    if (SEGMENTED) mark_heads(heads, Segments(offsets, g), begin);

    Rows rows;
    rows.load(buffer, line, g, begin + first_row * ROW);
    let_next_launch_begin();  // whose loads are behind these
    rows.scan(heads, first_row * ROW);
    RowPrefixes prefixes = prefixes_across_warps(row_total, rows, first_row);
    if (threadIdx.x == 0) tickets.prepare_next_launch(tickets.of_block() + static_cast<Index>(gridDim.x));
    link(found, place, tickets, prefixes.all);
    prefixes = found.in_tile(place, prefixes, first_row);
    prefixes.follow(found.around(place), place.part * ROWS_OF_LINE + first_row);
    if (place.tile.number == 0 && place.part == 0 && threadIdx.x == 0) store_initial(line, g);
    store_rows(rows, buffer, line, g, begin, first_row, heads, prefixes);
}
