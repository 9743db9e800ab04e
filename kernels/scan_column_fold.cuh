// Folding: what lies before a unit of columns, from what the units above it published.
//
// Unit n of a strip is preceded by one block of 2^b units for each bit b of n that is set. If units published the
// blocks they complete, one aggregate for each bit would do, but blocks of 2^b units would be known b hops after their
// last unit: a hop, from one multiprocessor to another, takes about a microsecond. So bits are taken DIGIT_BITS at a
// time:
//
//     Unit n publishes the aggregate of the largest block of 2^(k DIGIT_BITS) units that ends with it. For k = 0 that
//     is its own, which it has at once. Bit b of a number, in digit k, stands for 2^(b - k DIGIT_BITS) such blocks.
//
// Every unit publishes one aggregate of each column, in a place of its own. Nothing is kept from one unit to the next,
// so that several sets of folders can work on units in turn, each of which waits for memory most of the time.
//
// Blocks are added up by bundlers, which do not wait for folders: else one that is late makes the next one late. On an
// H200 (1048576, 256) float32 reaches 12 % of copy speed where folders publish blocks, and 90 % with bundlers. With
// digits of 1 bit there are more hops; with more bits, more to read.
//
// Constants that the plan sets, beside those of scan_column_units.cuh:
//     DIGIT_BITS
//     READS                    words that a lane of a folder reads at a time, about
//     FOLDERS, FOLDER_SETS     warps of a set, which are the bundlers too, and how many sets there are
#pragma once

#include "scan_column_units.cuh"

constexpr int DIGITS = (UNIT_BITS + DIGIT_BITS - 1) / DIGIT_BITS, OF_DIGIT = (1 << DIGIT_BITS) - 1;
constexpr int LANES_OF_COLUMN = COLUMNS >= LANES ? 1 : 1 << log2_of(LANES / COLUMNS);

// Digits are read some at a time, so that what was read fits the registers; but none that no number has: if room is
// made for these, (16777216, 16) float32 reaches 81 % of copy speed on an H200, not 85.
constexpr int DIGITS_THAT_FIT = READS * LANES_OF_COLUMN / (OF_DIGIT * WORDS);
constexpr int DIGITS_AT_ONCE = DIGITS_THAT_FIT < 1 ? 1 : DIGITS_THAT_FIT < DIGITS ? DIGITS_THAT_FIT : DIGITS;
constexpr int LOOKS = (DIGITS + DIGITS_AT_ONCE - 1) / DIGITS_AT_ONCE, BITS_AT_ONCE = DIGITS_AT_ONCE * DIGIT_BITS;
constexpr int READ = (DIGITS_AT_ONCE * OF_DIGIT + LANES_OF_COLUMN - 1) / LANES_OF_COLUMN;  // aggregates, by each lane

static_assert(COLUMNS <= FOLDERS * LANES, "");
static_assert(LOOKS * BITS_AT_ONCE < 8 * static_cast<int>(sizeof(Index)), "less than the bits of what is shifted");

// Where strips share what memory loads at a time, blocks must not drift apart, and do so less with the await of other
// kernels: rows padded by an element, of (65536, 4096) float32, reach 84 % of copy speed on an H200 with it and 75 with
// await_at_once, (65536, 8192) bfloat16 93.4 and 90.5, every second of 4096 columns 93.4 and 92.0.
constexpr bool ONE_BY_ONE = LOAD == BY_COPIES && COPY_BYTES == SIZE && SIZE < 16 && !DENSE && !INPUT_TURNED;
constexpr bool LINES_SHARED = SHIFTED || ONE_BY_ONE || (!DENSE && PITCH % (SIZE == 2 ? 256 : 128) != 0);

template <int COUNT>
__device__ void await_published(const Work& work, const Word* const (&from)[COUNT], Item (&item)[COUNT]) {
    if constexpr (LINES_SHARED) await(from, item, work.tickets.epoch());
    else await_at_once(from, item, work.tickets.epoch(), neutral_item());
}

// Whether what a unit publishes is its own aggregate.
__device__ bool publishes_itself(Index number) { return (~number & OF_DIGIT) != 0; }

// What lies before a unit, in a column. Where there is no block, the neutral item stands.
struct UnitFold {
    Index number;  // of the unit
    Item block[LOOKS * BITS_AT_ONCE];
    Prefix before_group, before_tile, before_row;  // of what lies before the group, the tile and the row of the unit

    // Moves the blocks up by the bits of a look, for those of the lower bits that come next.
    __device__ void make_room() {
#pragma unroll
        for (int b = LOOKS * BITS_AT_ONCE - 1; b >= BITS_AT_ONCE; b--) block[b] = block[b - BITS_AT_ONCE];
    }

    __device__ bool has(int bit) const { return number >> bit & 1; }

    // Takes on the blocks of the bits BEGIN ... END - 1.
    template <int BEGIN, int END> __device__ Item followed_by(Item item) const {
#pragma unroll
        for (int b = BEGIN; b < END && b < UNIT_BITS; b++) {
            if (!Prefix::ASK || has(b)) item = combine(block[b], item);
        }
        return item;
    }

    template <int BEGIN, int END> __device__ Prefix and_level(Prefix prefix) const {
        Item item = neutral_item();
        bool exists = false;
#pragma unroll
        for (int b = BEGIN; b < END && b < UNIT_BITS; b++) {
            if (Prefix::ASK && !has(b)) continue;
            item = exists ? combine(block[b], item) : block[b];
            exists = true;
        }
        prefix.append(item, exists && (number >> BEGIN & ((1 << END - BEGIN) - 1)) != 0);
        return prefix;
    }

    // The prefix of the groups before, of which the smallest `without` blocks are left out.
    __device__ Prefix groups(int without) const {
        Prefix prefix = Prefix::nothing();
#pragma unroll
        for (int b = UNIT_BITS - 1; b >= OF_GROUP; b--) {
            if (b >= OF_GROUP + without) prefix.append(block[b], has(b));
        }
        return prefix;
    }

    // Once all blocks are there.
    __device__ void join() {
        before_group = groups(0);
        before_tile = and_level<OF_TILE, OF_GROUP>(before_group);
        before_row = and_level<OF_ROW, OF_TILE>(before_tile);
    }

    // The prefix that ends with the unit, whose aggregate is `item`.
    __device__ Item through(Item item) const {
        item = followed_by<0, OF_ROW>(item);
        if (~number & ((1 << OF_ROW) - 1)) return before_row.followed_by(item);
        item = followed_by<OF_ROW, OF_TILE>(item);
        if (~number & ((1 << OF_TILE) - 1)) return before_tile.followed_by(item);
        item = followed_by<OF_TILE, OF_GROUP>(item);
        if (~number & ((1 << OF_GROUP) - 1)) return before_group.followed_by(item);
        int completed = 0;  // blocks of groups
#pragma unroll
        for (int b = OF_GROUP; b < UNIT_BITS; b++) {
            if (completed < b - OF_GROUP || !has(b)) continue;
            item = combine(block[b], item);
            completed++;
        }
        return groups(completed).followed_by(item);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Bundlers: each has 32 columns. They read no more than the block that a unit completes, and give the stage free as
// soon as they have the unit's own aggregates.

// The aggregate of the largest block that ends with unit `number`, whose own is `item`. Small digits are read two at a
// time: one by one, (65536, 4096) int8 summed in int64 takes 0.684 ms on an H200, not 0.651.
__device__ Item completed_block(const Work& work, Index strip, Index number, int column, Item item) {
    constexpr int AT_ONCE = DIGIT_BITS < 3 ? 2 : 1;
#pragma unroll 1
    for (int shift = 0; (~(number >> shift) & OF_DIGIT) == 0; shift += AT_ONCE * DIGIT_BITS) {
        const bool both = AT_ONCE > 1 && (~(number >> shift >> DIGIT_BITS) & OF_DIGIT) == 0;
        const Word* from[AT_ONCE * OF_DIGIT];
        Item block[AT_ONCE * OF_DIGIT];
#pragma unroll
        for (int i = 0; i < AT_ONCE * OF_DIGIT; i++) {
            const int digit = i / OF_DIGIT, back = OF_DIGIT - i % OF_DIGIT;
            const Index unit = number - (static_cast<Index>(back) << (shift + digit * DIGIT_BITS));
            from[i] = digit == 0 || both ? work.of_unit(strip, unit, column) : nullptr;
        }
        await_published(work, from, block);
#pragma unroll
        for (int digit = 0; digit < AT_ONCE; digit++) {
            if (digit > 0 && !both) return item;
            SerialPrefix<Item, DIGIT_BITS> prefix;
#pragma unroll
            for (int i = 0; i < OF_DIGIT; i++) prefix.next(i, block[digit * OF_DIGIT + i]);
            item = prefix.next(OF_DIGIT, item);
        }
    }
    return item;
}

// Where aggregates are published an earlier launch has left its own, which gave way to all that streamed through the
// cache since. Who polls too early brings them back from memory, and waits for that: a look takes 2500 cycles or more
// on an H200, while the aggregate may long be there. So whoever takes a unit asks for its places before others do:
// (16777216, 16) float32 takes 0.533 ms so, and 0.563 else, (1048576, 256) 0.521 and 0.539, (65536, 4096) 0.515 and
// 0.526, (65536, 8192) float16 0.524 and 0.537.
__device__ void prefetch_places(const Work& work, const Unit& unit) {
    constexpr int COUNT = COLUMNS * WORDS, LINES = COUNT / LINE_WORDS + (COUNT % LINE_WORDS > 0 ? 2 : 0);
    static_assert(LINES <= LANES, "");
    const int word = lane_index() * LINE_WORDS;
    const Word* first = work.of_unit(unit.strip, unit.number, 0);
    if (lane_index() < LINES) prefetch_line(first + (word < COUNT ? word : COUNT - 1));
}

// Lanes behind the last column do what that lane does, but publish nothing.
__device__ void bundle_unit(const Work& work, const Visit& visit, int bundler) {
    const Unit& unit = visit.unit;
    if (bundler == 0) prefetch_places(work, unit);
    const int place = bundler * LANES + lane_index(), column = place < unit.width ? place : unit.width - 1;
    const bool wanted = !publishes_itself(unit.number) && unit.number + 1 < work.cut.units;
    Item item = neutral_item();
    if (wanted) {
        visit.stage.published.wait(visit.turn);
        item = visit.stage.part[SPANS - 1][column];
    }
    visit.stage.emptied.arrive();
    if (!wanted) return;
    item = completed_block(work, unit.strip, unit.number, column, item);
    if (column == place) publish(work.of_unit(unit.strip, unit.number, column), item, work.tickets.epoch());
}

// ---------------------------------------------------------------------------------------------------------------------
// Folders

// Where number `i` is published of the aggregates that digits from `first` on may stand for; null if the number of the
// unit has no such bit.
__device__ const Word* place_to_read(const Work& work, Index strip, Index number, int column, int first, int i) {
    const int digit = first + i / OF_DIGIT, place = i % OF_DIGIT + 1, inside = 31 - __clz(place);
    const int bit = digit * DIGIT_BITS + inside, blocks = place - (1 << inside) + 1;
    const Word* begin = work.of_unit(strip, (number >> (bit + 1) << (bit + 1)) - 1, column);
    const Word* at = begin + (static_cast<Index>(blocks) << digit * DIGIT_BITS) * (COLUMNS * WORDS);
    return number >> bit & 1 ? at : nullptr;
}

// The aggregate of COUNT neighbours, which the lanes of a column have read in turn. By all lanes.
template <int COUNT> __device__ Item sum_of_read(const Item (&item)[READ], int first, int column) {
    if constexpr (COUNT > 1) {
        const Item left = sum_of_read<COUNT / 2>(item, first, column);
        return combine(left, sum_of_read<COUNT / 2>(item, first + COUNT / 2, column));
    } else if constexpr (LANES_OF_COLUMN > 1) {
        return shuffle(item[first / LANES_OF_COLUMN], first % LANES_OF_COLUMN * COLUMNS + column);
    } else {
        return item[first];
    }
}

template <int BIT = 0> __device__ void add_up_read(const Item (&item)[READ], int column, UnitFold& fold) {
    if constexpr (BIT < DIGITS_AT_ONCE * DIGIT_BITS) {
        constexpr int BLOCKS = 1 << BIT % DIGIT_BITS;
        fold.block[BIT] = sum_of_read<BLOCKS>(item, BIT / DIGIT_BITS * OF_DIGIT + BLOCKS - 1, column);
        add_up_read<BIT + 1>(item, column, fold);
    }
}

// Waits for the blocks before unit `number`, those of the highest digits first, which have long been there. By all
// lanes; those that have no column read nothing, as if their unit were the first.
__device__ void fold_before(const Work& work, Index strip, Index number, int column, int lane_of_column,
                            UnitFold& fold) {
#pragma unroll 1
    for (int first = (LOOKS - 1) * DIGITS_AT_ONCE; first >= 0; first -= DIGITS_AT_ONCE) {
        const Word* from[READ];
        Item item[READ];
#pragma unroll
        for (int i = 0; i < READ; i++) {
            const int k = i * LANES_OF_COLUMN + lane_of_column;
            from[i] = k < DIGITS_AT_ONCE * OF_DIGIT ? place_to_read(work, strip, number, column, first, k) : nullptr;
        }
        await_published(work, from, item);
        fold.make_room();
        add_up_read(item, column, fold);
    }
}

// What the scanners need of a column, by one of its lanes: each does every so many rows.
__device__ void show_fold(const UnitFold& fold, Stage& stage, int column, int lane_of_column) {
    if (lane_of_column == 0) {
        stage.before[0][column] = fold.before_row.item;
        stage.before[ROWS][column] = fold.through(stage.part[SPANS - 1][column]);
#pragma unroll
        for (int b = 0; b < OF_ROW; b++) stage.left[b][column] = b < UNIT_BITS ? fold.block[b] : neutral_item();
    }
    for (int row = lane_of_column; row < ROWS; row += LANES_OF_COLUMN) {
        if (row == 0) continue;
        int end = row * PARTS;  // of what comes before, in spans
        Item item = stage.part[end - 1][column];
        for (end &= end - 1; end > 0; end &= end - 1) item = combine(stage.part[end - 1][column], item);
        stage.before[row][column] = fold.before_tile.followed_by(fold.followed_by<OF_ROW, OF_TILE>(item));
    }
}

// Each folder has some neighbouring columns of every unit of its set.
__device__ void fold_unit(const Work& work, const Visit& visit, int warp) {
    const int set = warp / FOLDERS, folder = warp % FOLDERS;
    // With several lanes to a column the last ones may have none.
    const int place = folder * LANES + lane_index(), last = COLUMNS - 1;
    const int column = LANES_OF_COLUMN > 1 ? place % COLUMNS : place < last ? place : last;
    const int lane_of_column = LANES_OF_COLUMN > 1 ? place / COLUMNS : 0;
    const bool spare = place >= COLUMNS * LANES_OF_COLUMN;
    Stage& stage = visit.stage;
    if (visit.number % FOLDER_SETS == set) {
        const bool exists = !spare && column < visit.unit.width;
        UnitFold fold;
        fold.number = visit.unit.number;
        fold_before(work, visit.unit.strip, exists ? visit.unit.number : 0, column, lane_of_column, fold);
        stage.published.wait(visit.turn);
        fold.join();
        if (exists) show_fold(fold, stage, column, lane_of_column);
    }
    stage.folded.arrive();  // of every unit: who lost sight of a stage would mistake one turn for another
}
