// Groups whose elements lie side by side, or tiles of them, in registers: WARPS warps share one, each holds ROWS rows.
//
// Dense chunks are loaded in words from wherever they begin, but go through shared memory on their way out unless they
// are aligned, or a warp has all of its rows in one run: these are moved in whole pieces both ways
// (normalization_shifted.cuh). Where chunks are not dense, rows of 32 go through shared memory both ways, so that
// neighbouring lanes move neighbouring elements.
//
// Constants that the plan sets, beside those of normalization_rows.cuh:
//     WARPS, ROWS     warps that share a group or a tile; rows that each of them holds, a power of two, or as many as
//                     there are if a group has a warp for itself
//     WHOLE_ROWS      of such a warp: rows all of whose elements are known to exist, and of halves that begin anywhere
//                     one behind them; else 0
//     LOOKS           1: warps that look at the end leave out rows that do not exist
//     OPERANDS_EARLY  1: scale and bias of all rows of a warp are loaded along with them, 0: of a few at a time, once
//                     the statistics are known, which leaves room for more blocks
//     SPLITS          1: code of its own for warps all of whose rows exist
//     LONG_RUNS       1: most warps have all rows of a tile in one dense run, of several, which may begin anywhere
//     RESIDENT        blocks of a multiprocessor for which there have to be registers, at least; 0: as compilers choose
#pragma once

#include "normalization_rows.cuh"
#include "normalization_shifted.cuh"

constexpr int BLOCK = WARPS * LANES;

// The rows that are added up pairwise, of which those that a warp does not hold are 0.
constexpr int ROWS_IN_TREE = power_of_two_from(ROWS);

static_assert(ROWS % STORED_ROWS == 0, "rows are stored together with others of their warp");
static_assert(WARPS == 1 || (ROWS == ROWS_IN_TREE && WHOLE_ROWS == 0), "warps have rows alike");

// Whether warps all of whose elements exist move them in pieces (normalization_shifted.cuh). Floats of (1600, 12321)
// take an H100 63 us so, and 71 otherwise, of (3276, 10029) 93 and 99; moments gain nothing. Nor do halves, of which
// warps store several rows together anyway: (32768, 8193) take 370 us, and 378 if they are stored so, (4000, 16388),
// which begin at words, 97 and 105; but tiles of (5, 20000002) 234 and 214.
constexpr bool LOADED_IN_PIECES =
    LONG_RUNS || (HAS_OUTPUT && !INPUT_PACKED && INPUT_STEP > 0 && sizeof(Input) == 4);
constexpr bool TILES_IN_PIECES = LONG_RUNS || (MAY_BE_STORED_SHIFTED && sizeof(Output) <= 4);
constexpr bool STORED_IN_PIECES = MAY_BE_STORED_SHIFTED && sizeof(Output) == 4;

static_assert(!LONG_RUNS || !HAS_OUTPUT || sizeof(Result) == PIECE_BYTES, "a piece for each chunk");

// Halves that begin anywhere are loaded by words, the last of which holds another one.
constexpr int BEHIND = !INPUT_PACKED && INPUT_STEP == 2 ? 1 : 0;

// Whether all elements are known to exist that this warp asks for in a tile that begins at `begin`, and of LONG_RUNS to
// lie in one. If warps PART those of which that is known have code of their own.
constexpr bool ALL_ARE_WHOLE = ENDS == WHOLE && BEHIND == 0, PART = SPLITS && !ALL_ARE_WHOLE;

__device__ bool warp_is_whole(const Geometry& g, Index begin) {
    constexpr int INNER = REDUCED_RANK - 1;
    const Index first = begin + warp_index() * ROWS * ROW, end = first + ROWS * ROW;
    const bool exists = ALL_ARE_WHOLE || (PART && end + BEHIND <= g.length);
    return exists && (!LONG_RUNS || g.reduced.quotient(first, INNER) == g.reduced.quotient(end - 1, INNER));
}

// What the end is to the other warps. Moments gain nothing by that.
constexpr bool CLAMPS = HAS_OUTPUT && ENDS != CUT && (PART || WARPS == 1);
using OtherEnd = Select<CLAMPS, Clamped, Index>::type;

// Rows that would be stored are loaded all the same, and normalized with those that they are stored with, as branches
// there take registers: with them (7323, 8193) bfloat16s take an H100 134 us in place of 106.
template <typename End> __device__ bool row_is_wanted(Index first, End end) {
    return !LOOKS || element_exists(first, end);
}

// Whether addresses are found again for the output. Where they take long compilers would keep them in memory, as they
// are too many for registers: (16, 512, 33, 33) halves over 0, 2, 3 take an H200 35 us so, and 73 otherwise; (300,
// 20001) 18 and 22.
constexpr bool ANEW = GATHERED || (!INPUT_PACKED && sizeof(Input) == 2 && ROWS >= 8);

// The first element of row r of this warp, in its tile.
__device__ int first_of_row(int r) { return (static_cast<int>(threadIdx.x) / LANES * ROWS + r) * ROW; }

// Where that of row 0 lies in its run.
template <int ARRAY, typename T> __device__ Index run_offset(const Geometry& g, Index begin) {
    return packed_offset<ARRAY, T>(g, begin + first_of_row(0));
}

struct Rows {
    // Few at a time take fewer registers. (16384, 16384) float16s take an H200 0.266 ms two rows at a time and 0.273
    // four, (65536, 4096) floats with softplus 0.507 and 0.513; but (16384, 16384) floats, 8 rows in a warp, take 0.507
    // and 0.506.
    static constexpr int MOST_AT_ONCE = sizeof(Input) == 2 || (sizeof(Input) == 4 && ROWS <= 4) ? 2 : 4;
    static constexpr int AT_ONCE = OPERANDS_EARLY || ROWS < 4 ? ROWS : MOST_AT_ONCE;

    Select<PART, Held<Chunk>, Chunk>::type chunk[ROWS];
    Select<PART, Held<Operands<CHUNK>>, Operands<CHUNK>>::type operands[AT_ONCE];  // of some rows

    // `begin` is where the tile begins.
    template <typename End>
    __device__ void load(const Arrays& group, const Geometry& g, Index begin, End end, Index other = 0) {
        if constexpr (IsSame<End, Beyond>::value && LOADED_IN_PIECES) {
            Chunk loaded[ROWS];
            load_shifted_rows(group.input + run_offset<OF_INPUT, Input>(g, begin), loaded);
#pragma unroll
            for (int r = 0; r < ROWS; r++) chunk[r] = loaded[r];
        } else {
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const Index first = begin + first_of_row(r);
                Chunk loaded = {};
                if (r < WHOLE_ROWS) load_row(group, g, first, Beyond{}, loaded, other);
                else if (HAS_OUTPUT || row_is_wanted(first, end)) load_row(group, g, first, end, loaded, other);
                chunk[r] = loaded;
            }
            // Else ptxas 13.0 loads the last elements only after the first have come and are converted: (16384, 16384)
            // float16s take an H200 0.269 ms in place of 0.254, (346, 15244) floats 17.1 us in place of 14.9.
            if (sizeof(Input) == 2 || !OPERANDS_EARLY) __syncwarp();
        }
        if (OPERANDS_EARLY) load_scale_and_bias(group, g, begin, end, 0);
    }

    template <typename End>
    __device__ void load_scale_and_bias(const Arrays& group, const Geometry& g, Index begin, End end, int row) {
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            if (row + r >= ROWS) continue;
            Operands<CHUNK> loaded;
            loaded.load_once(group);
            const Index number = begin + first_of_row(row + r) + lane_index() * CHUNK;
            if (row + r < WHOLE_ROWS) load_operands(group, g, number, Beyond{}, loaded);
            else load_operands(group, g, number, end, loaded);
            operands[r] = loaded;
        }
    }

    template <typename End> __device__ void gather(RowBuffer& buffer, End) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!GATHERED || (LONG_RUNS && IsSame<End, Beyond>::value)) continue;
            Chunk gathered = chunk[r];
            gather_chunk(buffer, gathered);
            chunk[r] = gathered;
        }
    }

    // Of the warp's rows: in even lanes the first of the sums, in odd ones the second.
    template <typename End> __device__ Half sum(Index begin, End end, const Shift& shift) const {
        Sums sums[ROWS_IN_TREE] = {};
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const Index first = begin + first_of_row(r), number = first + lane_index() * CHUNK;
            if (r < WHOLE_ROWS) sums[r] = sum_of_existing(chunk[r], shift, number, Beyond{});
            else if (row_is_wanted(first, end)) sums[r] = sum_of_existing(chunk[r], shift, number, end);
        }
        return half_of_rows(sums);
    }

    template <bool MAY_SHIFT, typename End>
    __device__ void store(RowBuffer& buffer, const Arrays& group, const Geometry& g,
                          const Normalizer<Compute>& normalizer, const Parameters& p, Index begin, End end) {
        if (ANEW) begin += static_cast<Index>(hidden(0));
        constexpr bool IN_PIECES = IsSame<End, Beyond>::value && MAY_SHIFT;
        ShiftedStores stores(group.output + run_offset<OF_OUTPUT, Output>(g, begin));
#pragma unroll
        for (int row = 0; row < ROWS; row += AT_ONCE) {
            if (!OPERANDS_EARLY) load_scale_and_bias(group, g, begin, end, row);
#pragma unroll
            for (int r = 0; r < AT_ONCE; r++) {
                if (row + r >= ROWS) continue;
                const Index first = begin + first_of_row(row + r);
                if (LOOKS && (row + r) % STORED_ROWS == 0 && !element_exists(first, end)) break;
                const Operands<CHUNK>& of_row = operands[r];
                Result result = normalized(chunk[row + r], normalizer, of_row, p);
                if constexpr (IN_PIECES) stores.store(row + r, result);
                else if (row + r < WHOLE_ROWS) store_row(buffer, group, g, first, Beyond{}, result, row + r);
                else store_row(buffer, group, g, first, end, result, row + r);
            }
        }
        if constexpr (IN_PIECES) stores.finish(ROWS);
    }
};

using WarpHalves = Half[WARPS][2];

// From the sums of the warps to that of the block: each lane adds up some by itself.
__device__ Sums block_sum(WarpHalves& warp_halves, Half half) {
    constexpr int WIDTH = 1 << (WARPS > 16 ? 5 : WARPS > 8 ? 4 : WARPS > 4 ? 3 : WARPS > 2 ? 2 : WARPS > 1);
    constexpr int AT_ONCE = OPERANDS_EARLY && WIDTH >= 4 ? 4 : 1;
    const int first = lane_index() % (WIDTH / AT_ONCE) * AT_ONCE;
    if (lane_index() < 2) warp_halves[threadIdx.x / LANES][lane_index()] = half;
    __syncthreads();
    Sums neighbours[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
        const Half* halves = warp_halves[first + k < WARPS ? first + k : 0];
        neighbours[k] = first + k < WARPS ? Sums{halves[0].value, halves[1].value} : Sums{};
    }
    return lane_sum<WIDTH / AT_ONCE>(pairwise_sum(neighbours));
}
