// Folding: from the aggregates of all tiles of a line to what lies before one of them.
#pragma once

#include "scan.cuh"
#include "tickets.cuh"

// Without what pads a Headed: with it, folders of 2^27 segmented int64 had no registers for all that they wait for, and
// took 1.2 ms.
template <> constexpr int words_of<Headed> = words_of<Accumulator> + 1;

constexpr int WORDS = words_of<Item>;

using Tickets = TicketsFor<Item>;

template <int COUNT> __device__ void await(const Word* const (&from)[COUNT], Item (&item)[COUNT], unsigned epoch) {
    await(from, item, epoch, neutral_item());
}

// Folders ask for all that they wait for at once: on an H200 2^28 float32 in long segments take 0.547 ms so, and 0.563
// with a branch for each word; 2^27 float64 0.519 and 0.527 ms. But in segments of 16 elements 0.614 and 0.602.
constexpr bool MANY_HEADS = SEGMENTED && HEADS_AT_ONCE > 4;

constexpr int GROUPS_AT_ONCE = 5;  // 132 blocks publish a little over 4 groups from one tile of a block to its next

// A part of a line, the unit of work. Tiles are counted in 32 bits, as tickets are: of 64 bits the folders would take
// longer.
struct Tile {
    int ticket, line, number;
    Index begin;
    int count;

    __device__ static Tile of(Index number, const Geometry& g) {
        const int ticket = static_cast<int>(number), tiles = static_cast<int>(g.tiles), in_line = ticket % tiles;
        const Index begin = static_cast<Index>(in_line) * TILE;
        const int length = static_cast<int>(g.length - begin < TILE ? g.length - begin : TILE);
        return {ticket, ticket / tiles, in_line, begin, length};
    }

    // The tile's elements in memory begin with this one of the line.
    __device__ Index lowest(Index length) const { return REVERSE ? length - begin - count : begin; }
};

// Has the second-level cache fetch elements of a line, of which number `lowest` comes first in memory.
__device__ void prefetch(const char* input, const Geometry& g, int line, Index lowest, int count) {
    if (!INPUT_DENSE || count <= 0) return;
    const char* from = input + g.input_line.offset(line) + lowest * SIZE_IN;
    const int lead = static_cast<int>(reinterpret_cast<unsigned long long>(from) % 16);
    bulk_prefetch(from - lead, (lead + count * static_cast<int>(SIZE_IN) + 15) / 16 * 16);
}

// What has been folded of a line: its groups before that of the present tile. By all lanes of a warp.
struct Fold {
    int line;
    GroupPrefix<Item, int> groups;
    Prefix before;  // of all these groups

    __device__ void begin(int next) {
        line = next;
        groups = {neutral_item(), neutral_item(), 0};
        before = Prefix::nothing();
    }

    __device__ void add(Item group) { before = {groups.add(group), false}; }

    // Waits for all tiles of the line before this one, and folds whole groups of them. Returns the aggregates of those
    // in the tile's own group, one for each lane.
    //
    // Lanes without one wait for some tile before these, perhaps of another line: blocks that do not wait for each
    // other drift apart, and what they load and store at a time lies less close together. (8192, 32768) float32 take
    // 0.528 ms with this and 0.536 ms without.
    __device__ Item advance_to(const Tickets& tickets, const Tile& tile, const Geometry& g) {
        const int lane = lane_index(), place = tile.number % RADIX, group = tile.number / RADIX;
        const int first = tile.line * static_cast<int>(g.tiles);
        if (tile.line != line) begin(tile.line);
        Item item[GROUPS_AT_ONCE + 1];  // of whole groups, and of the tile's own
        do {
            const Word* from[GROUPS_AT_ONCE + 1];
#pragma unroll
            for (int k = 0; k < GROUPS_AT_ONCE; k++) {
                const int other = groups.count + k;
                from[k] = other < group ? tickets.published(first + other * RADIX + lane) : nullptr;
            }
            const int last = lane < place ? first + group * RADIX + lane : tile.ticket - 1 - (lane - place);
            from[GROUPS_AT_ONCE] = last < 0 ? nullptr : tickets.published(last);
            if constexpr (MANY_HEADS) await(from, item, tickets.epoch());
            else await_at_once(from, item, tickets.epoch(), neutral_item());
#pragma unroll
            for (int k = 0; k < GROUPS_AT_ONCE; k++) item[k] = warp_prefix(item[k]);
#pragma unroll 1
            for (int k = 0; k < GROUPS_AT_ONCE && groups.count < group; k++) {
                add(shuffle(item[0], LANES - 1));
#pragma unroll
                for (int next = 1; next < GROUPS_AT_ONCE; next++) item[next - 1] = item[next];
            }
        } while (groups.count < group);
        return item[GROUPS_AT_ONCE];
    }

    // The prefixes of the line left and right of a tile whose aggregate is `own`, from those of the tiles in its group.
    __device__ Surroundings surroundings(const Tile& tile, Item in_group, Item own) {
        const int lane = lane_index(), place = tile.number % RADIX;
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
