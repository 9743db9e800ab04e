// Folding: what lies before a unit of columns, from what the units above it published.
//
// Unit n of a strip is preceded by one block of 2^b units for each bit b of n that is set. If units published the blocks
// they complete, one word for each bit would do, but a block of 2^b units would be known b hops after its last unit: a
// hop takes about a microsecond. So the bits are taken in digits, of DIGIT_BITS each:
//
//     Unit n publishes the aggregate of the largest block of 2^(k DIGIT_BITS) units that ends with it. For k = 0 that is
//     its own, which it has at once. Bit b of a number, in digit k, stands for 2^(b - k DIGIT_BITS) such blocks.
//
// Every unit publishes one aggregate of each column, in a place of its own. Nothing is kept from one unit to the next, so
// several sets of folders work on units in turn, each of which waits for memory most of the time.
//
// Constants that the plan sets, beside those of column_units.cuh:
//     DIGIT_BITS
//     FOLDERS, FOLDER_SETS     warps of a set, and how many sets there are
#pragma once

#include "column_units.cuh"

constexpr int DIGITS = (UNIT_BITS + DIGIT_BITS - 1) / DIGIT_BITS, OF_DIGIT = (1 << DIGIT_BITS) - 1;
constexpr int LANES_OF_COLUMN = COLUMNS >= LANES ? 1 : 1 << log2_of(LANES / COLUMNS);
constexpr int READ = (DIGITS * OF_DIGIT + LANES_OF_COLUMN - 1) / LANES_OF_COLUMN;  // aggregates, by each lane

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

    // The aggregate of the largest block that ends with the unit.
    __device__ Item completed(Item item) const {
        bool open = true;
#pragma unroll
        for (int k = 0; k < DIGITS; k++) {
            open = open && (~(number >> k * DIGIT_BITS) & OF_DIGIT) == 0;
            if (!open) continue;
#pragma unroll
            for (int b = k * DIGIT_BITS; b < (k + 1) * DIGIT_BITS; b++) item = combine(block[b], item);
        }
        return item;
    }
};

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

template <int BIT = 0> __device__ void add_up_read(const Item (&item)[READ], int column, UnitFold& fold) {
    if constexpr (BIT < UNIT_BITS) {
        constexpr int BLOCKS = 1 << BIT % DIGIT_BITS;
        fold.block[BIT] = sum_of_read<BLOCKS>(item, BIT / DIGIT_BITS * OF_DIGIT + BLOCKS - 1, column);
        add_up_read<BIT + 1>(item, column, fold);
    }
}

// Waits for what lies before a unit. By all lanes; those that have no column read nothing.
__device__ UnitFold fold_before(const Work& work, const Unit& unit, int column, int lane_of_column, bool exists) {
    const Word* from[READ];
    Item item[READ];
#pragma unroll
    for (int i = 0; i < READ; i++) {
        from[i] = exists ? place_to_read(work, unit, column, i * LANES_OF_COLUMN + lane_of_column) : nullptr;
    }
    await(from, item, work.tickets.epoch());
    UnitFold fold;
    fold.number = unit.number;
    add_up_read(item, column, fold);
    return fold;
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
        const UnitFold fold = fold_before(work, unit, column, lane_of_column, exists);
        stage.published.wait(turn(visit));
        if (exists) {
            if (lane_of_column == 0 && !publishes_itself(unit.number) && unit.number + 1 < work.cut.units) {
                const Item item = fold.completed(stage.part[SPANS - 1][column]);
                publish(work.of_unit(unit.strip, unit.number, column), item, work.tickets.epoch());
            }
            show_fold(fold, stage, column, lane_of_column);
        }
        arrive_by_warp(stage.folded);
    }
}
