// How normalization_stream.cu finds the statistics of a group: adders leave the sums of a unit, the publisher adds up
// those of a piece, and folders those of all pieces, which others published.
//
// Constants that the plan sets: those of normalization_stream.cu.
#pragma once

#include "normalization_stream.cuh"

// ---------------------------------------------------------------------------------------------------------------------
// Adders: each has some neighbouring rows of every unit.

// Of the elements of a chunk the first `exist`; the others are given the value of `missing`.
__device__ void keep_existing(Chunk& chunk, int exist, Input missing) {
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        if (j >= exist) chunk.element[j] = missing;
    }
}

// Each lane has neighbouring chunks, so that it adds most of them up by itself. Of what is not WHOLE there is little,
// but others wait for it: it takes half the code, and (64, 128, 73, 73) halves took an H100 87 us as with all of it,
// and not 93 as with a quarter.
template <bool WHOLE>
__device__ Half part_of(const Geometry& g, const Staged& unit, int adder, const Shift& shift) {
    constexpr int CHUNKS = UNIT_ROWS / ADDERS;
    const int first = (adder * LANES + lane_index()) * CHUNKS;
    if (!WHOLE && adder * LANES * CHUNKS * CHUNK >= unit.count) return {};  // as differences of 0 add up to
    const ChunkPlaces places(unit, g, first * CHUNK);
    SerialPrefix<Sums, levels_of(CHUNKS)> over_chunks;
    Sums total[1];
#pragma unroll(WHOLE ? CHUNKS : 4)
    for (int k = 0; k < CHUNKS; k++) {
        const int number = (first + chunk_in_round<CHUNKS>(k)) * CHUNK;
        Chunk chunk = load_staged<false>(places, number);
        if constexpr (!WHOLE) keep_existing(chunk, unit.count - number, shift.element);
        total[0] = over_chunks.next(k, sum_of(chunk, shift.value));
    }
    return half_of_rows(total);
}

__device__ Input first_element(const Work& work, const TurnOf& turn) {
    return turn.exists() ? load_input(work.group(turn.bundle), work.g, 0) : Input();
}

__device__ void add_units(const Work& work, TurnOf turn, Parts (&parts)[STAGES], int adder) {
    Input next = {};
    for (bool begun = false; !begun || turn.exists(); begun = true) {  // a round more, which loads the first of all
        const Arrays group = work.group(turn.bundle);
        const Shift shift(next);
        TurnOf after = turn;
        if (begun) after.move(1);
        next = first_element(work, after);  // a turn before it is needed
#pragma unroll 1
        for (int i = 0; begun && i < PIECE; i++) {
            const Unit unit = work.unit(turn, i);
            const Staged staged(work, group, unit);
            Parts& left = parts[unit.visit % STAGES];
            work.stage(unit.visit).full.wait(use_of(unit.visit));
            Half part = {};
            if (unit.count == UNIT) part = part_of<true>(work.g, staged, adder, shift);
            else if constexpr (ENDS != WHOLE) part = part_of<false>(work.g, staged, adder, shift);
            if (lane_index() < 2) left.of[adder][lane_index()] = part;
            if (lane_index() == 0 && adder == 0) left.shift = shift.value;
            left.summed.arrive();
        }
        turn = after;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// What is published of a piece: both of its sums, each in two words that are loaded together. All blocks read those of
// all pieces at the same time, so neighbouring lanes read neighbours: 64 groups of 16 MiB took 0.63 ms on an H200 where
// each sector was asked for four times, and 0.60 so. But a lane adds up neighbouring pieces by itself, so of each
// FOLDED pieces it is the first of every lane that lie side by side, then the second, and so on.

struct HalfWords {
    Word word[2];

    __device__ bool is_of(unsigned epoch) const {
        return static_cast<unsigned>(word[0] >> 32) == epoch && static_cast<unsigned>(word[1] >> 32) == epoch;
    }
    __device__ Half half() const { return {bits_as_double(word[1] << 32 | (word[0] & 0xffffffffu))}; }
};

constexpr int SHARERS = LANES / 2, SHARE = FOLDED / SHARERS;  // lanes that have the same sum of other pieces; pieces

__device__ Word* half_of(const Slot& slot, Index place, int which) { return slot.words + 4 * place + 2 * which; }

__device__ Index place_of(Index piece) {
    const Index number = piece % FOLDED;
    return piece - number + number % SHARE * SHARERS + number / SHARE;
}

__device__ void publish_half(Word* to, double value, unsigned epoch) {
    const Word bits = double_as_bits(value), upper = static_cast<Word>(epoch) << 32;
    store_relaxed_pair(to, upper | (bits & 0xffffffffu), upper | bits >> 32);
}

// The sums of FOLDED pieces of a group from `begin` on, of which some may not exist. Even lanes have the first of each,
// odd ones the second.
__device__ Sums fold_pieces(const Slot& slot, Index pieces, Index begin) {
    const Word* from = half_of(slot, begin + lane_index() / 2, lane_index() % 2);
    const Index left = pieces - begin - lane_index() / 2 * SHARE;
    HalfWords words[SHARE] = {};  // of no launch, and of those that do not exist the sums
    bool missing;
    do {
        missing = false;
#pragma unroll
        for (int k = 0; k < SHARE; k++) {
            if (k >= left || words[k].is_of(slot.epoch)) continue;
            missing = true;
            load_relaxed_pair(from + k * 2 * LANES, words[k].word);
        }
    } while (__any_sync(ALL_LANES, missing));
    Half half[SHARE];
#pragma unroll
    for (int k = 0; k < SHARE; k++) half[k] = words[k].half();
    Half sum = pairwise_sum(half);
#pragma unroll
    for (int step = 2; step < LANES; step *= 2) sum = combine(sum, shuffle(sum, lane_index() ^ step));
    const Half other = shuffle(sum, lane_index() ^ 1);
    const bool second = lane_index() % 2;
    return {second ? other.value : sum.value, second ? sum.value : other.value};
}

__device__ Sums fold_group(const Slot& slot, Index pieces) {
    if constexpr (FOLDS == 1) return fold_pieces(slot, pieces, 0);
    SerialPrefix<Sums> over_aligned;
    Sums total = {};
    for (int i = 0; i * FOLDED < pieces; i++) total = over_aligned.next(i, fold_pieces(slot, pieces, i * FOLDED));
    return total;
}

__device__ Half sum_of_parts(const Parts& parts, int which) {
    SerialPrefix<Half, levels_of(ADDERS)> over_parts;
    Half sum = {};
#pragma unroll
    for (int a = 0; a < ADDERS; a++) sum = over_parts.next(a, parts.of[a][which]);
    return sum;
}

// Returns what was subtracted from the elements. Even lanes have the first of the sums, odd ones the second.
__device__ double publish_piece(const Work& work, const TurnOf& turn, const Slot& slot, Parts (&parts)[STAGES]) {
    SerialPrefix<Half, levels_of(PIECE)> over_units;
    double shift = 0;
#pragma unroll 1
    for (int i = 0; i < PIECE; i++) {
        const int visit = turn.visit(i);
        Parts& left = parts[visit % STAGES];
        left.summed.wait(use_of(visit));
        const Half sum = over_units.next(i, sum_of_parts(left, lane_index() % 2));
        shift = left.shift;
        if (i == PIECE - 1 && lane_index() < 2) {
            work.fence();
            publish_half(half_of(slot, place_of(turn.piece), lane_index()), sum.value, slot.epoch);
        }
        leave(work.stage(visit));  // for the adders, too
    }
    return shift;
}

__device__ void publish_pieces(const Work& work, TurnOf turn, Parts (&parts)[STAGES]) {
    for (; turn.exists(); turn.move(1)) publish_piece(work, turn, turn.slot(work), parts);
}

// ---------------------------------------------------------------------------------------------------------------------
// Folders

__device__ double await_piece(const TurnOf& turn, Parts (&parts)[STAGES]) {
    const int last = turn.visit(PIECE - 1);
    parts[last % STAGES].summed.wait(use_of(last));  // by now the other blocks are about to publish too
    return parts[last % STAGES].shift;
}

__device__ void fold_groups(const Work& work, TurnOf turn, Parts (&parts)[STAGES], int folder) {
    for (turn.move(folder); turn.exists(); turn.move(FOLDERS)) {
        const Slot slot = turn.slot(work);
        const double shift = PUBLISHERS > 0 ? await_piece(turn, parts) : publish_piece(work, turn, slot, parts);
        const Moments moments = moments_of(fold_group(slot, work.cut.pieces), shift, work.p);
        Stage& known = outcome(work, turn.number);
        work.fence();
        if (lane_index() == 0) known.normal = Normal::of(moments, work.p);
        known.ready.arrive();
        if (lane_index() == 0 && turn.piece == 0 && work.arrays.mean) {
            store_moments(work.group(turn.bundle), moments, work.p);
        }
    }
}
