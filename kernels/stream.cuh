// How the blocks of a launch share work that comes in an order: tickets, epochs and published aggregates.
//
// Scratch memory holds a word with the next ticket and the number of launches so far, then aggregates that blocks publish
// for one another, 32 bits of value in each word. Every word carries the epoch of its launch: what an earlier launch left
// is not taken for a value, and nothing has to be cleared. The block that takes the very last ticket sets the first word
// up for the next launch.
//
// Whoever waits for an aggregate waits for a smaller ticket, which a block took that runs already: so blocks need not
// start in order, nor all at once.
#pragma once

#include "scan.cuh"

using Word = unsigned long long;

constexpr int WORDS = (sizeof(Item) + 3) / 4;

struct Tickets {
    Word* control;
    Word first;  // what this block's first ticket came with
    Index count;

    __device__ static Word take_first(Word* control) { return atomicAdd(control, Word(1)); }

    __device__ Index of_block() const { return static_cast<Index>(static_cast<unsigned>(first)); }

    // Tickets from `count` on mean that there is no more work.
    __device__ Index next() const {
        return static_cast<Index>(static_cast<unsigned>(atomicAdd(control, Word(1))));
    }

    // Never 0, which scratch is filled with at first.
    __device__ unsigned epoch() const { return static_cast<unsigned>(first >> 32) + 1; }

    // Every block takes one ticket that there is no work for. Whoever takes the last of these is the last to take any.
    __device__ void prepare_next_launch(Index ticket) const {
        if (ticket != count + static_cast<Index>(gridDim.x) - 1) return;
        const unsigned launches = epoch() == 0xffffffffu ? 0 : epoch();
        store_relaxed(control, static_cast<Word>(launches) << 32);
    }

    // Where aggregate number `i` is published.
    __device__ Word* published(Index i) const { return control + 1 + i * WORDS; }
};

union ItemWords {
    Item item;
    unsigned word[WORDS];
    __device__ ItemWords() {}
};

__device__ void publish(Word* to, Item item, unsigned epoch) {
    ItemWords words;
    words.item = item;
#pragma unroll
    for (int w = 0; w < WORDS; w++) store_relaxed(to + w, static_cast<Word>(epoch) << 32 | words.word[w]);
}

// Waits for what was published at each of the places, of which some may be null, and stand for nothing. By all lanes.
template <int COUNT> __device__ void await(const Word* const (&from)[COUNT], Item (&item)[COUNT], unsigned epoch) {
    Word word[COUNT][WORDS];
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
#pragma unroll
        for (int w = 0; w < WORDS; w++) word[i][w] = from[i] ? load_relaxed(from[i] + w) : static_cast<Word>(epoch) << 32;
    }
    bool missing;
    do {
        missing = false;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
#pragma unroll
            for (int w = 0; w < WORDS; w++) {
                if (static_cast<unsigned>(word[i][w] >> 32) == epoch) continue;
                missing = true;
                word[i][w] = load_relaxed(from[i] + w);
            }
        }
    } while (__any_sync(ALL_LANES, missing));
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        ItemWords words;
#pragma unroll
        for (int w = 0; w < WORDS; w++) words.word[w] = static_cast<unsigned>(word[i][w]);
        item[i] = from[i] ? words.item : neutral_item();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Folding: from the aggregates of all tiles of a line to what lies before one of them.

constexpr int GROUPS_AT_ONCE = 5;  // 132 blocks publish a little over 4 groups from one tile of a block to its next

// A part of a line, the unit of work.
struct Tile {
    Index ticket, line, number, begin;
    int count;

    __device__ static Tile of(Index ticket, const Geometry& g) {
        const Index number = ticket % g.tiles, begin = number * TILE;
        return {ticket, ticket / g.tiles, number, begin, static_cast<int>(g.length - begin < TILE ? g.length - begin : TILE)};
    }

    // The tile's elements in memory begin with this one of the line.
    __device__ Index lowest(Index length) const { return REVERSE ? length - begin - count : begin; }
};

struct Surroundings {
    Prefix before;
    Item after;
};

// What has been folded of a line: its groups before that of the present tile. By all lanes of a warp.
struct Fold {
    Index line;
    GroupPrefix<Item, Index> groups;
    Prefix before;  // of all these groups

    __device__ void begin(Index next) {
        line = next;
        groups = {neutral_item(), neutral_item(), 0};
        before = Prefix::nothing();
    }

    __device__ void add(Item group) { before = {groups.add(group), false}; }

    // Waits for all tiles of the line before this one, and folds whole groups of them. Returns the aggregates of those in
    // the tile's own group, one for each lane.
    __device__ Item advance_to(const Tickets& tickets, const Tile& tile, const Geometry& g) {
        const int lane = lane_index(), place = static_cast<int>(tile.number % RADIX);
        const Index group = tile.number / RADIX, first = tile.line * g.tiles;
        if (tile.line != line) begin(tile.line);
        Item item[GROUPS_AT_ONCE + 1];  // of whole groups, and of the tile's own
        do {
            const Word* from[GROUPS_AT_ONCE + 1];
#pragma unroll
            for (int k = 0; k < GROUPS_AT_ONCE; k++) {
                const Index other = groups.count + k;
                from[k] = other < group ? tickets.published(first + other * RADIX + lane) : nullptr;
            }
            from[GROUPS_AT_ONCE] = lane < place ? tickets.published(first + group * RADIX + lane) : nullptr;
            await(from, item, tickets.epoch());
#pragma unroll
            for (int k = 0; k < GROUPS_AT_ONCE; k++) item[k] = shuffle(warp_prefix(item[k]), LANES - 1);
#pragma unroll
            for (int k = 0; k < GROUPS_AT_ONCE; k++) {
                if (groups.count < group) add(item[k]);
            }
        } while (groups.count < group);
        return item[GROUPS_AT_ONCE];
    }

    // The prefixes of the line left and right of a tile whose aggregate is `own`, from those of the tiles in its group.
    __device__ Surroundings surroundings(const Tile& tile, Item in_group, Item own) {
        const int lane = lane_index(), place = static_cast<int>(tile.number % RADIX);
        const Item inclusive = warp_prefix(lane == place ? own : in_group);
        const Item tiles_before = shuffle(inclusive, (place + LANES - 1) % LANES), tiles = shuffle(inclusive, place);
        Surroundings around = {before, before.followed_by(tiles)};
        around.before.append(tiles_before, place > 0);
        if (place == RADIX - 1) {
            add(tiles);
            around.after = before.item;
        }
        return around;
    }
};
