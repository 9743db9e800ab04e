// Mean, variance and normalization of groups whose elements lie side by side, in one run or in many.
//
// A group of up to a cluster of blocks is read once, and normalized from registers: by some lanes of a warp, by a warp,
// by several, or by several blocks. Nothing is waited for but memory, so many small blocks do best, each thread of
// which loads a few chunks, all of them before it uses the first. Dense chunks are loaded in words from wherever they
// begin, but go through shared memory on their way out unless they are aligned, or a warp has all of its rows in one
// run: these are moved in whole pieces both ways (normalization_shifted.cuh). Where chunks are not dense, rows of 32 go
// through shared memory both ways, so that neighbouring lanes move neighbouring elements.
//
// Larger groups are cut into tiles and read twice: the sums of all tiles, from which the last blocks find the
// statistics, then every tile again, from the last to the first, which the cache still holds.
//
// Constants that the plan sets, beside those of normalization_rows.cuh and normalization_tiles.cuh:
//     LENGTH          elements of such a group; 0 otherwise
//     GROUP_ROWS      rows of a group of a warp at the most, a power of two; 1 otherwise
//     PREFETCHED      1: input is prefetched while the launch ahead ends
//     REPEATS         1: scale and bias are the same for all groups
//     WARPS, ROWS     warps that share a larger group or a tile, rows that each of them holds, a power of two
//     OPERANDS_EARLY  1: scale and bias of all rows of a warp are loaded along with them, 0: of a few at a time, once
//                     the statistics are known, which leaves room for more blocks
//     SPLITS          1: code of its own for warps all of whose rows exist
//     CLUSTER         blocks that share a group of normalize_clustered_lines; 1 otherwise
//     TEAMS           warps with short groups in a block; 1 otherwise
//     LONG_RUNS       1: most warps have all rows of a tile in one dense run, of several, which may begin anywhere
//     ROUNDS          so many times these rows does a warp add up in a tile, a power of two; 1 if they are normalized
//     RESIDENT        blocks that shall fit a multiprocessor at a time, at least
#include "normalization_rows.cuh"
#include "normalization_shifted.cuh"
#include "normalization_tiles.cuh"

constexpr int BLOCK = TEAMS * WARPS * LANES;
constexpr bool SPREAD = GATHERED || !OUTPUT_PACKED;

// Of the chunk that begins with element `number`. One of so many lanes asks for the line of the cache that their chunks
// lie in.
__device__ void prefetch_chunk(const char* group, const Geometry& g, Index number, Index end) {
    constexpr int SHARING = 128 / sizeof(Chunk);
    if (lane_index() % SHARING == 0 && chunk_exists(number, end)) {
        prefetch_line(group + packed_offset<OF_INPUT, Input>(g, number));
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Groups of a warp at the most: a warp holds ROWS rows of them, and each lane a chunk of each row. A row has groups of
// less than a row end to end, or is one of GROUP_ROWS of a group.

constexpr int GROUPS_OF_ROW = LANES / LINE_LANES, OPERAND_ROWS = REPEATS ? GROUP_ROWS : ROWS;
constexpr int SHORT_LENGTH = LENGTH > 0 ? LENGTH : 1;  // known to the compiler, which divides by it

static_assert(GROUPS_OF_ROW == 1 || GROUP_ROWS == 1, "rows of many groups or of one");

// The first group of a warp.
__device__ Index group_of_warp() {
    const Index warp = static_cast<Index>(blockIdx.x) * TEAMS + threadIdx.x / LANES;
    return warp * (ROWS / GROUP_ROWS) * GROUPS_OF_ROW;
}

// The groups of a row, or the one that it is a part of. For those that do not exist stands the warp's first, which no
// other warp writes where the output is the input.
struct RowGroups {
    const Arrays& arrays;
    const Geometry& g;
    Index first;
    int begin;  // of the row in its group
    int count;  // 0 behind the last group

    __device__ RowGroups(const Arrays& arrays, const Geometry& g, int row) : arrays(arrays), g(g) {
        first = group_of_warp() + row / GROUP_ROWS * GROUPS_OF_ROW;
        begin = row % GROUP_ROWS * ROW;
        count = up_to(g.groups - first, GROUPS_OF_ROW);
    }

    // Moments of 300 halves take 0.31 ms so in place of 0.52, but with an output nothing is gained: 0.55 and 0.51.
    __device__ bool exist() const { return ENDS == WHOLE || HAS_OUTPUT || GROUP_ROWS == 1 || begin < g.length; }
    __device__ bool has(int number) const { return ENDS == WHOLE || number < count; }
    __device__ Arrays group(int number) const {
        return arrays.at(g.kept.offsets(has(number) ? first + number : group_of_warp()));
    }
    __device__ Index length() const { return GROUPS_OF_ROW > 1 ? SHORT_LENGTH : g.length; }
    __device__ Index end(int number) const { return has(number) ? length() : 0; }

    // Where several groups lie end to end, a lane moves every 32nd element: i is that of group i / LENGTH.
    __device__ bool has_element(int i) const { return i < count * SHORT_LENGTH; }
};

// Of this lane.
__device__ int group_of_row() { return lane_index() / LINE_LANES; }
__device__ int place_in_group() { return lane_index() % LINE_LANES * CHUNK; }
__device__ int place_in_row(int j) { return group_of_row() * SHORT_LENGTH + place_in_group() + j; }

__device__ void load_short(const RowGroups& groups, const Geometry& g, Chunk& chunk) {
    const int number = group_of_row();
    if constexpr (INPUT_PACKED || INPUT_STEP > 0) {
        load_dense(groups.group(number).input, g, groups.begin + place_in_group(), groups.end(number), chunk);
    } else if constexpr (GROUPS_OF_ROW == 1) {
        load_row(groups.group(number), g, groups.begin, groups.end(number), chunk);
    } else {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const int i = j * LANES + lane_index();
            chunk.element[j] = Input();
            if (!groups.has_element(i)) continue;
            chunk.element[j] = load_input(groups.group(i / SHORT_LENGTH), g, i % SHORT_LENGTH);
        }
    }
}

// From every 32nd element of the row to the lane's chunk of its group; and back.
__device__ void gather_short(RowBuffer& buffer, Chunk& chunk) {
    if constexpr (GROUPS_OF_ROW == 1) {
        gather_chunk(buffer, chunk);
    } else {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < CHUNK; j++) buffer.input[j * LANES + lane_index()] = chunk.element[j];
        __syncwarp();
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (place_in_group() + j < SHORT_LENGTH) chunk.element[j] = buffer.input[place_in_row(j)];
        }
    }
}

__device__ void store_short(RowBuffer& buffer, const RowGroups& groups, const Geometry& g, Result& result) {
    const int number = group_of_row();
    if constexpr (OUTPUT_PACKED) {
        store_chunk(groups.group(number), g, groups.begin + place_in_group(), groups.end(number), result);
    } else if constexpr (STORED_IN_WORDS) {
        store_words(groups.group(number).output, groups.begin + place_in_group(), groups.end(number), result);
    } else if constexpr (GROUPS_OF_ROW == 1) {
        store_row(buffer, groups.group(number), g, groups.begin, groups.end(number), result);
    } else {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (place_in_group() + j < SHORT_LENGTH) buffer.output[place_in_row(j)] = result.element[j];
        }
        const int behind = GROUPS_OF_ROW * SHORT_LENGTH + lane_index();
        if (behind < ROW && lane_index() < 16) buffer.output[behind] = Output();  // store_run() reads whole pieces
        __syncwarp();
        if constexpr (OUTPUT_STEP > 0) {
            store_run<ROW>(groups.group(0).output, buffer.output, groups.count * SHORT_LENGTH);
        } else {
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                const int i = j * LANES + lane_index();
                if (!groups.has_element(i)) continue;
                store_output(groups.group(i / SHORT_LENGTH), g, i % SHORT_LENGTH, buffer.output[i]);
            }
        }
    }
}

// What a warp holds.
struct ShortRows {
    Chunk chunk[ROWS];
    Operands<CHUNK> operands[OPERAND_ROWS];
    Input first[ROWS];  // of the row's group

    __device__ void load(const Arrays& arrays, const Geometry& g) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) load_short(RowGroups(arrays, g, r), g, chunk[r]);
#pragma unroll
        for (int r = 0; r < OPERAND_ROWS; r++) {
            const RowGroups groups(arrays, g, r);
            const Arrays group = groups.group(group_of_row());
            operands[r].load_once(group);
            load_operands(group, g, groups.begin + place_in_group(), groups.end(group_of_row()), operands[r]);
        }
    }

    __device__ void sum(RowBuffer& buffer, const Arrays& arrays, const Geometry& g, Sums (&sums)[ROWS]) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const RowGroups groups(arrays, g, r);
            if (GATHERED) gather_short(buffer, chunk[r]);
            if (r % GROUP_ROWS == 0) first[r] = shuffle(chunk[r].element[0], lane_index() - lane_index() % LINE_LANES);
            else first[r] = first[r - 1];
            sums[r] = {};
            if (!groups.exist()) continue;
            sums[r] = sum_of_existing(chunk[r], Shift(first[r]), groups.begin + place_in_group(), groups.length());
        }
        row_aggregates<ROWS, LINE_LANES>(sums);
    }

    __device__ Shift shift_of(int row) const {
        Input element = first[0];
#pragma unroll
        for (int r = GROUP_ROWS; r < ROWS; r += GROUP_ROWS) element = row >= r ? first[r] : element;
        return Shift(element);
    }

    __device__ void store(RowBuffer& buffer, const Arrays& arrays, const Geometry& g, int row,
                          const Normalizer<Compute>& normalizer, const Parameters& p) const {
        const RowGroups groups(arrays, g, row);
        if (!groups.exist()) return;
        Result result = normalized(chunk[row], normalizer, operands[row % OPERAND_ROWS], p);
        store_short(buffer, groups, g, result);
    }
};

// Row r's sums are complete in the lanes whose number in their group is r; each finishes its row's group alone.
constexpr int ROWS_OF_LANE = ROWS > LINE_LANES ? ROWS / LINE_LANES : 1;

__device__ int lane_of_row(int row) { return (lane_index() & ~(LINE_LANES - 1)) + row % LINE_LANES; }

__device__ void prefetch_short_rows(const char* input, const Geometry& g) {
    const Arrays arrays = {input, nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr};
#pragma unroll
    for (int r = 0; r < (PREFETCHED ? ROWS : 0); r++) {
        const RowGroups groups(arrays, g, r);
        const int number = group_of_row();
        prefetch_chunk(groups.group(number).input, g, groups.begin + place_in_group(), groups.end(number));
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
normalize_short_lines(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                      double bias_number, char* mean, char* variance, Geometry g, Parameters p) {
    prefetch_short_rows(input, g);
    await_launch_ahead();
    if (ENDS != WHOLE && group_of_warp() >= g.groups) return;
    __shared__ RowBuffer buffers[SPREAD ? BLOCK / LANES : 1];
    RowBuffer& buffer = buffers[SPREAD ? threadIdx.x / LANES : 0];
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    ShortRows rows;
    Sums sums[ROWS];
    rows.load(arrays, g);
    rows.sum(buffer, arrays, g, sums);

    Normalizer<Compute> normalizer[ROWS_OF_LANE];
#pragma unroll
    for (int k = 0; k < ROWS_OF_LANE; k++) {
        const int row = k * LINE_LANES + lane_index() % (ROWS < LINE_LANES ? ROWS : LINE_LANES);
        const Moments moments = moments_of(lane_sum<GROUP_ROWS>(sums[k]), rows.shift_of(row).value, p);
        normalizer[k] = Normalizer<Compute>::of(moments, p);
        const RowGroups groups(arrays, g, row);
        if (mean && lane_index() == lane_of_row(row) && row % GROUP_ROWS == 0 && groups.has(group_of_row())) {
            store_moments(groups.group(group_of_row()), moments, p);
        }
    }
    if constexpr (HAS_OUTPUT) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            rows.store(buffer, arrays, g, r, shuffle(normalizer[r / LINE_LANES], lane_of_row(r)), p);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Groups of a block at the most, and tiles of larger ones: WARPS warps share one, each of which holds ROWS rows.

// Whether a warp looks which of its rows exist. Of a group that has a warp for itself up to half of them do not: 768
// halves are three of four rows and take 0.294 ms so, and 0.326 otherwise. 20000 take 0.543 and 0.303 ms.
constexpr bool LOOKS = WARPS == 1 && ENDS != WHOLE;

// Whether warps all of whose elements exist move them in pieces (normalization_shifted.cuh). Floats of (1600, 12321)
// take an H100 63 us so, and 71 otherwise, of (3276, 10029) 93 and 99; moments gain nothing. Nor do halves, of which
// warps store several rows together anyway: (32768, 8193) take 370 us, and 378 if they are stored so, (4000, 16388),
// which begin at words, 97 and 105; but tiles of (5, 20000002) 234 and 214.
constexpr bool LOADED_IN_PIECES =
    LONG_RUNS || (HAS_OUTPUT && !INPUT_PACKED && INPUT_STEP > 0 && sizeof(Input) == 4);
constexpr bool IS_STORED_SHIFTED = !OUTPUT_PACKED && OUTPUT_STEP > 0 && sizeof(Result) == PIECE_BYTES;
constexpr bool TILES_IN_PIECES = LONG_RUNS || (IS_STORED_SHIFTED && sizeof(Output) <= 4);
constexpr bool STORED_IN_PIECES = IS_STORED_SHIFTED && sizeof(Output) == 4;

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

// What the end is to the other warps. A warp of its own for many rows had better load none that does not exist: 52428
// groups of 1280 bfloat16s take an H200 81 us so, and 87 with chunks in their place. Nor do moments gain by that.
constexpr bool CLAMPS = HAS_OUTPUT && ENDS != CUT && (PART || (WARPS == 1 && ROWS <= 4));
using OtherEnd = Select<CLAMPS, Clamped, Index>::type;

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
                Chunk loaded;
                load_row(group, g, begin + first_of_row(r), end, loaded, other);
                chunk[r] = loaded;
            }
            // Else ptxas 13.0 loads the last halves only after the first have come and are converted: (16384, 16384)
            // float16s take an H200 0.269 ms in place of 0.254.
            if (sizeof(Input) == 2) __syncwarp();
        }
        if (OPERANDS_EARLY) load_scale_and_bias(group, g, begin, end, 0);
    }

    template <typename End>
    __device__ void load_scale_and_bias(const Arrays& group, const Geometry& g, Index begin, End end, int row) {
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            Operands<CHUNK> loaded;
            loaded.load_once(group);
            load_operands(group, g, begin + first_of_row(row + r) + lane_index() * CHUNK, end, loaded);
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
        Sums sums[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const Index first = begin + first_of_row(r);
            sums[r] = {};
            if (LOOKS && !element_exists(first, end)) continue;
            sums[r] = sum_of_existing(chunk[r], shift, first + lane_index() * CHUNK, end);
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
                const Index first = begin + first_of_row(row + r);
                if (LOOKS && (row + r) % STORED_ROWS == 0 && !element_exists(first, end)) break;
                Result result = normalized(chunk[row + r], normalizer, operands[r], p);
                if constexpr (IN_PIECES) stores.store(row + r, result);
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

__device__ void prefetch_rows(const char* input, const Geometry& g) {
    const char* group = input + g.kept.offsets(static_cast<Index>(blockIdx.x)).of[OF_INPUT];
    if constexpr (PREFETCHED && REDUCED_RANK == 1) {
        const int nbytes = static_cast<int>(g.length) * static_cast<int>(sizeof(Input));
        if (threadIdx.x == 0) bulk_prefetch(group, (nbytes + 15) / 16 * 16);
    } else if constexpr (PREFETCHED) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) prefetch_chunk(group, g, first_of_row(r) + lane_index() * CHUNK, g.length);
    }
}

// The first element of a group, and the double that it is. Where warps part compilers hold either in registers from
// where these meet: (6096, 11008) floats take an H200 142 us if they hold the element, and 199 with the double, but
// (3980, 8430), which begin anywhere, 87 and 78.
struct FirstOfGroup {
    static constexpr bool CONVERTED_AGAIN = PART && INPUT_PACKED;

    Input element;
    double value;

    __device__ Shift take(const Arrays& group, const Geometry& g) {
        element = load_input(group, g, 0);
        const Shift shift(element);
        value = shift.value;
        return shift;
    }
    __device__ double shift() const { return CONVERTED_AGAIN ? Shift(element).value : value; }
};

// A warp's share of a group, of which the elements before `end` exist: its sums, and the group's first element.
template <typename End>
__device__ Half take_rows(Rows& rows, RowBuffer& buffer, const Arrays& group, const Geometry& g, FirstOfGroup& first,
                          Index begin, End end) {
    rows.load(group, g, begin, end);
    const Shift shift = first.take(group, g);
    rows.gather(buffer, end);
    return rows.sum(begin, end, shift);
}

// From the sums of this block to those of its cluster, whose blocks have as many rows each, a power of two.
__device__ Sums cluster_sum(Sums& of_block, const Sums& sums) {
    if constexpr (CLUSTER == 1) return sums;
    constexpr int WIDTH = CLUSTER > 4 ? 8 : CLUSTER > 2 ? 4 : 2;
    if (threadIdx.x == 0) of_block = sums;
    cluster_sync();
    const int rank = lane_index() % WIDTH;
    const Sums of_rank = rank < CLUSTER ? *map_shared(&of_block, rank) : Sums{};
    cluster_arrive();
    return lane_sum<WIDTH>(of_rank);
}

// By a block, or by each of a cluster.
__device__ void normalize_share(const Arrays& arrays, const Geometry& g, const Parameters& p) {
    __shared__ RowBuffer buffers[SPREAD ? BLOCK / LANES : 1];
    __shared__ __align__(16) WarpHalves warp_halves;
    __shared__ Sums of_block;
    RowBuffer& buffer = buffers[SPREAD ? threadIdx.x / LANES : 0];
    const Arrays group = arrays.at(g.kept.offsets(static_cast<Index>(blockIdx.x) / CLUSTER));
    const Index begin = CLUSTER > 1 ? static_cast<Index>(cluster_rank()) * (WARPS * ROWS * ROW) : 0;
    const bool is_whole = warp_is_whole(g, begin);
    Rows rows;
    FirstOfGroup first;
    Half half;
    if (is_whole) half = take_rows(rows, buffer, group, g, first, begin, Beyond{});
    else half = take_rows(rows, buffer, group, g, first, begin, OtherEnd{g.length});
    // Warps that parted wait for each other at one place of the code, as PTX has it of a barrier (bar.sync, .aligned).
    const Sums sums = cluster_sum(of_block, block_sum(warp_halves, half));
    // By now the whole group was read, so the output may be the input.

    const Moments moments = moments_of(sums, first.shift(), p);
    // All wait for a branch. So it comes last, unless they have no registers left to keep the moments in.
    constexpr bool LAST = HAS_OUTPUT && ROWS <= 4;
    const bool stores = group.mean && threadIdx.x == 0 && begin == 0;
    if (!LAST && stores) store_moments(group, moments, p);
    if constexpr (HAS_OUTPUT) {
        const auto normalizer = Normalizer<Compute>::of(moments, p);
        constexpr bool SHIFTED = STORED_IN_PIECES;
        if (is_whole) rows.store<SHIFTED>(buffer, group, g, normalizer, p, begin, Beyond{});
        else rows.store<SHIFTED>(buffer, group, g, normalizer, p, begin, OtherEnd{g.length});
    }
    if (LAST && stores) store_moments(group, moments, p);
    if (CLUSTER > 1) cluster_wait();  // until then others may read this block's sums
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
normalize_lines(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                double bias_number, char* mean, char* variance, Geometry g, Parameters p) {
    prefetch_rows(input, g);
    await_launch_ahead();
    normalize_share({input, output, scale, bias, scale_number, bias_number, mean, variance}, g, p);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(BLOCK, RESIDENT)
normalize_clustered_lines(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                          double bias_number, char* mean, char* variance, Geometry g, Parameters p) {
    await_launch_ahead();
    normalize_share({input, output, scale, bias, scale_number, bias_number, mean, variance}, g, p);
}

// ---------------------------------------------------------------------------------------------------------------------
// Longer groups, in tiles.

struct Work {
    Index group, tile, begin;  // the first element of this warp's rows, less what first_of_row() adds

    __device__ Work(const Geometry& g, Index number) {
        group = number / g.tiles;
        tile = number - group * g.tiles;
        begin = (tile * ROUNDS * WARPS + warp_index() * (ROUNDS - 1)) * ROWS * ROW;
    }
};

template <typename End>
__device__ Half sum_of_rows(RowBuffer& buffer, const Arrays& group, const Geometry& g, Index begin, End end,
                            const Shift& shift) {
    Rows rows;
    rows.load(group, g, begin, end);
    rows.gather(buffer, end);
    return rows.sum(begin, end, shift);
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
sum_lines(const char* input, Word* control, Normalizer<Compute>* normalizers, char* mean, char* variance, Geometry g,
          Parameters p) {
    await_launch_ahead_of_steps();
    __shared__ RowBuffer buffers[GATHERED ? BLOCK / LANES : 1];
    __shared__ __align__(16) WarpHalves warp_halves;
    RowBuffer& buffer = buffers[GATHERED ? threadIdx.x / LANES : 0];
    const TicketsFor<Sums> tickets = take_tile(control, g.tiles);
    Work work(g, tickets.of_block());
    const Arrays arrays = {input, nullptr, nullptr, nullptr, 0, 0, mean, variance};
    const Arrays group = arrays.at(g.kept.offsets(work.group));
    const Shift shift(load_input(group, g, 0));
    SerialPrefix<Half, levels_of(ROUNDS)> over_rounds;
    Half half = {};
#pragma unroll 1
    for (int round = 0; round < ROUNDS; round++, work.begin += ROWS * ROW) {
        if (warp_is_whole(g, work.begin)) half = sum_of_rows(buffer, group, g, work.begin, Beyond{}, shift);
        else half = sum_of_rows(buffer, group, g, work.begin, OtherEnd{g.length}, shift);
        half = over_rounds.next(round, half);
    }
    Sums sums = block_sum(warp_halves, half);
    Word* words = control + SECTOR + work.group * published_words<1>(g.tiles);
    const bool is_last = add_up_tiles<1, BLOCK>(sums, words, work.tile, g.tiles, tickets.epoch());
    if (is_last && threadIdx.x == 0) finish_group(arrays, normalizers, g, work.group, sums, shift.value, p);
}

// Nothing is loaded that other warps store where the output is the input: in place of elements that do not exist one of
// this warp, and of halves no word of which others have a part.
template <typename End>
__device__ void apply_rows(RowBuffer& buffer, const Arrays& group, const Geometry& g,
                           const Normalizer<Compute>& of_group, const Parameters& p, Index begin, End end) {
    const Index first = begin + first_of_row(0);
    Rows rows;
    if constexpr (BEHIND > 0) rows.load(group, g, begin, g.length, first);
    else rows.load(group, g, begin, end, first);
    await_launch_ahead();  // nothing so far is what the first step writes, or is written by this one
    const Normalizer<Compute> normalizer = of_group;
    __syncwarp();
    rows.gather(buffer, end);
    rows.store<TILES_IN_PIECES>(buffer, group, g, normalizer, p, begin, end);
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
apply_lines(const char* input, char* output, const char* scale, const char* bias, double scale_number,
            double bias_number, const Normalizer<Compute>* normalizers, Geometry g, Parameters p) {
    __shared__ RowBuffer buffers[SPREAD ? BLOCK / LANES : 1];
    RowBuffer& buffer = buffers[SPREAD ? threadIdx.x / LANES : 0];
    const Work work(g, static_cast<Index>(gridDim.x) - 1 - static_cast<Index>(blockIdx.x));  // what was read last first
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, nullptr, nullptr};
    const Arrays group = arrays.at(g.kept.offsets(work.group));
    const Normalizer<Compute>& normalizer = normalizers[work.group];
    if (!chunk_exists(work.begin + first_of_row(0), g.length)) return;
    if (warp_is_whole(g, work.begin)) apply_rows(buffer, group, g, normalizer, p, work.begin, Beyond{});
    else apply_rows(buffer, group, g, normalizer, p, work.begin, g.length);
}
