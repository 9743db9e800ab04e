// Folding: what lies before a unit of columns, from what the units above it published.
//
// Unit n of a strip is preceded by one block of 2^b units for each bit b of n that is set. If units published the
// blocks they complete, one aggregate for each bit would do, but blocks of 2^b units would be known b hops after their
// last unit: a hop, from one multiprocessor to another, takes about a microsecond. So bits are taken DIGIT_BITS at a
// time:
//
//     Unit n publishes the aggregate of the largest block of 2^(k DIGIT_BITS) units that ends with it. For k = 0 that is
//     its own, which it has at once. Bit b of a number, in digit k, stands for 2^(b - k DIGIT_BITS) such blocks.
//
// Every unit publishes one aggregate of each column, in a place of its own. Nothing is kept from one unit to the next,
// so that several sets of folders can work on units in turn, each of which waits for memory most of the time.
//
// Blocks are added up by bundlers, which do not wait for folders: else one that is late makes the next one late. On an
// H200 (1048576, 256) float32 reaches 12 % of copy speed where folders publish blocks, and 90 % with bundlers. With
// digits of 1 bit there are more hops; with more bits, more to read.
//
// Constants that the plan sets, beside those of column_units.cuh:
//     DIGIT_BITS
//     FOLDERS, FOLDER_SETS     warps of a set, which are the bundlers too, and how many sets there are
#pragma once

#include "column_units.cuh"

constexpr int DIGITS = (UNIT_BITS + DIGIT_BITS - 1) / DIGIT_BITS, OF_DIGIT = (1 << DIGIT_BITS) - 1;
constexpr int LANES_OF_COLUMN = COLUMNS >= LANES ? 1 : 1 << log2_of(LANES / COLUMNS);

// Digits are read some at a time, so that what was read fits the registers; but none that no number has: if room is
// made for these, (16777216, 16) float32 reaches 81 % of copy speed on an H200, not 85.
constexpr int DIGITS_THAT_FIT = 14 * LANES_OF_COLUMN / (OF_DIGIT * WORDS);
constexpr int DIGITS_AT_ONCE = DIGITS_THAT_FIT < 1 ? 1 : DIGITS_THAT_FIT < DIGITS ? DIGITS_THAT_FIT : DIGITS;
constexpr int READ = (DIGITS_AT_ONCE * OF_DIGIT + LANES_OF_COLUMN - 1) / LANES_OF_COLUMN;  // aggregates, by each lane

static_assert(COLUMNS <= FOLDERS * LANES, "");

// Whether what a unit publishes is its own aggregate.
__device__ bool publishes_itself(Index number) { return (~number & OF_DIGIT) != 0; }

// What lies before a unit, in a column.
struct UnitFold {
    Index number;  // of the unit
    Item block[DIGITS * DIGIT_BITS];

    // Takes on the blocks of the bits BEGIN ... END - 1.
    template <int BEGIN, int END> __device__ Item followed_by(Item item) const {
#pragma unroll
        for (int b = BEGIN; b < END && b < UNIT_BITS; b++) {
            if (number >> b & 1) item = combine(block[b], item);
        }
        return item;
    }

    template <int BEGIN, int END> __device__ void append_level_to(Prefix& prefix) const {
        Item item = neutral_item();
        bool exists = false;
#pragma unroll
        for (int b = BEGIN; b < END && b < UNIT_BITS; b++) {
            if (!(number >> b & 1)) continue;
            item = exists ? combine(block[b], item) : block[b];
            exists = true;
        }
        prefix.append(item, exists);
    }

    // The prefix of the groups before, of which the smallest `without` blocks are left out.
    __device__ Prefix before_group(int without = 0) const {
        Prefix prefix = Prefix::nothing();
#pragma unroll
        for (int b = UNIT_BITS - 1; b >= OF_GROUP; b--) {
            if (b >= OF_GROUP + without && (number >> b & 1)) prefix.append(block[b], true);
        }
        return prefix;
    }
    __device__ Prefix before_tile() const {
        Prefix prefix = before_group();
        append_level_to<OF_TILE, OF_GROUP>(prefix);
        return prefix;
    }
    __device__ Prefix before_row() const {
        Prefix prefix = before_tile();
        append_level_to<OF_ROW, OF_TILE>(prefix);
        return prefix;
    }

    // The prefix that ends with the unit, whose aggregate is `item`.
    __device__ Item through(Item item) const {
        item = followed_by<0, OF_ROW>(item);
        if (~number & ((1 << OF_ROW) - 1)) return before_row().followed_by(item);
        item = followed_by<OF_ROW, OF_TILE>(item);
        if (~number & ((1 << OF_TILE) - 1)) return before_tile().followed_by(item);
        item = followed_by<OF_TILE, OF_GROUP>(item);
        int completed = 0;  // blocks of groups
#pragma unroll
        for (int b = OF_GROUP; b < UNIT_BITS; b++) {
            if (completed < b - OF_GROUP || !(number >> b & 1)) continue;
            item = combine(block[b], item);
            completed++;
        }
        return before_group(completed).followed_by(item);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Bundlers: each has 32 columns. They read no more than the block that a unit completes, and give the stage free as
// soon as they have the unit's own aggregates.

// The aggregate of the largest block that ends with unit `number`, whose own is `item`. Two digits are read at a time,
// unless they are long.
__device__ Item completed_block(const Work& work, Index strip, Index number, int column, Item item, bool exists) {
    constexpr int AT_ONCE = DIGIT_BITS > 3 ? 1 : 2;
    for (int shift = 0; (~(number >> shift) & OF_DIGIT) == 0; shift += AT_ONCE * DIGIT_BITS) {
        const bool both = (~(number >> shift >> DIGIT_BITS) & OF_DIGIT) == 0;
        const Word* from[AT_ONCE * OF_DIGIT];
        Item block[AT_ONCE * OF_DIGIT];
#pragma unroll
        for (int i = 0; i < AT_ONCE * OF_DIGIT; i++) {
            const int digit = i / OF_DIGIT, back = OF_DIGIT - i % OF_DIGIT;
            const Index unit = number - (static_cast<Index>(back) << (shift + digit * DIGIT_BITS));
            from[i] = exists && (digit == 0 || both) ? work.of_unit(strip, unit, column) : nullptr;
        }
        await(from, block, work.tickets.epoch());
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

__device__ void bundle_units(const Work& work, int bundler) {
    const int column = bundler * LANES + lane_index();
    for (int visit = 0; await_unit(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        const Index strip = stage.unit.strip, number = stage.unit.number;
        const bool exists = column < stage.unit.width, wanted = !publishes_itself(number) && number + 1 < work.cut.units;
        Item item = neutral_item();
        if (wanted) {
            stage.published.wait(turn(visit));
            if (exists) item = stage.part[SPANS - 1][column];
        }
        arrive_by_warp(stage.emptied);
        if (!wanted) continue;
        item = completed_block(work, strip, number, column, item, exists);
        if (exists) publish(work.of_unit(strip, number, column), item, work.tickets.epoch());
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Folders

// Where number `i` of the aggregates is published that a fold may need; null if it does not.
__device__ const Word* place_to_read(const Work& work, const Unit& unit, int column, int i) {
    const int digit = i / OF_DIGIT, place = i % OF_DIGIT + 1, inside = 31 - __clz(place);
    const int bit = digit * DIGIT_BITS + inside;
    if (bit >= UNIT_BITS || !(unit.number >> bit & 1)) return nullptr;
    const Index begin = unit.number >> (bit + 1) << (bit + 1), blocks = place - (1 << inside) + 1;
    return work.of_unit(unit.strip, begin + (blocks << digit * DIGIT_BITS) - 1, column);
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

template <int FIRST, int BIT = FIRST * DIGIT_BITS>
__device__ void add_up_read(const Item (&item)[READ], int column, UnitFold& fold) {
    if constexpr (BIT < UNIT_BITS && BIT < (FIRST + DIGITS_AT_ONCE) * DIGIT_BITS) {
        constexpr int BLOCKS = 1 << BIT % DIGIT_BITS, PLACE = (BIT / DIGIT_BITS - FIRST) * OF_DIGIT + BLOCKS - 1;
        fold.block[BIT] = sum_of_read<BLOCKS>(item, PLACE, column);
        add_up_read<FIRST, BIT + 1>(item, column, fold);
    }
}

// Waits for the blocks before a unit, those of the highest digits first, which have long been there. By all lanes;
// those that have no column read nothing.
template <int FIRST = (DIGITS - 1) / DIGITS_AT_ONCE * DIGITS_AT_ONCE>
__device__ void fold_before(const Work& work, const Unit& unit, int column, int lane_of_column, bool exists, UnitFold& fold) {
    const Word* from[READ];
    Item item[READ];
#pragma unroll
    for (int i = 0; i < READ; i++) {
        const int number = FIRST * OF_DIGIT + i * LANES_OF_COLUMN + lane_of_column;
        const bool wanted = exists && number < (FIRST + DIGITS_AT_ONCE) * OF_DIGIT;
        from[i] = wanted ? place_to_read(work, unit, column, number) : nullptr;
    }
    await(from, item, work.tickets.epoch());
    add_up_read<FIRST>(item, column, fold);
    if constexpr (FIRST > 0) fold_before<FIRST - DIGITS_AT_ONCE>(work, unit, column, lane_of_column, exists, fold);
}

// What the scanners need of a column, by one of its lanes: each does every so many rows.
__device__ void show_fold(const UnitFold& fold, Stage& stage, int column, int lane_of_column) {
    if (lane_of_column == 0) {
        stage.before[0][column] = fold.before_row().item;
        stage.before[ROWS][column] = fold.through(stage.part[SPANS - 1][column]);
#pragma unroll
        for (int b = 0; b < OF_ROW && b < UNIT_BITS; b++) stage.left[b][column] = fold.block[b];
    }
    if (ROWS == 1) return;
    const Prefix before_tile = fold.before_tile();
    for (int row = lane_of_column; row < ROWS; row += LANES_OF_COLUMN) {
        if (row == 0) continue;
        int end = row * PARTS;  // of what comes before, in spans
        Item item = stage.part[end - 1][column];
        for (end &= end - 1; end > 0; end &= end - 1) item = combine(stage.part[end - 1][column], item);
        stage.before[row][column] = before_tile.followed_by(fold.followed_by<OF_ROW, OF_TILE>(item));
    }
}

// Each folder has some neighbouring columns of every unit of its set.
__device__ void fold_units(const Work& work, int set, int folder) {
    // With several lanes to a column the last ones may have none.
    const int place = folder * LANES + lane_index(), last = COLUMNS - 1;
    const int column = LANES_OF_COLUMN > 1 ? place % COLUMNS : place < last ? place : last;
    const int lane_of_column = LANES_OF_COLUMN > 1 ? place / COLUMNS : 0;
    const bool spare = place >= COLUMNS * LANES_OF_COLUMN;
    for (int visit = 0; await_unit(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        if (visit % FOLDER_SETS != set) {  // no set may lose sight of a stage, or it would mistake one turn for another
            arrive_by_warp(stage.folded);
            continue;
        }
        const Unit unit = stage.unit;
        const bool exists = !spare && column < unit.width;
        UnitFold fold;
        fold.number = unit.number;
        fold_before(work, unit, column, lane_of_column, exists, fold);
        stage.published.wait(turn(visit));
        if (exists) show_fold(fold, stage, column, lane_of_column);
        arrive_by_warp(stage.folded);
    }
}
