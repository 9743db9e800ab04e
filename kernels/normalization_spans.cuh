// Spans of groups that lie side by side, columns of a matrix, in registers.
//
// A thread walks down a span, some chunks of VECTOR neighbouring columns; SPANS threads of a block share a column.
//
// Constants that the plan sets, beside those of normalization.cuh:
//     VECTOR          columns of a thread
//     SPAN            chunks of a span, a power of two
//     LENGTH          elements of a column that are less than a chunk; 0 otherwise
//     ACROSS, SPANS   threads beside each other, a power of two; spans of a column, one too unless columns are whole
//     ROUNDS          spans of a thread in a tile, a power of two; 1 where a block has whole columns
//     WHOLE           every column and step of every block exists
//     EVEN_STEPS      steps, a power of two, that lie at equal distances in the input from every multiple of their
//                     number on
//     INPUT_PACKED, OUTPUT_PACKED   the elements of VECTOR columns lie dense and aligned
//     ROW_COLUMNS     columns of a row, the groups along the innermost kept axis, where each row is a strip; 0 where
//                     strips are cut from all columns, whatever axes they go across
//     INPUT_ROW, OUTPUT_ROW         bytes from row to row, where rows are narrow and all elements lie dense; 0
//                                   otherwise. Rows of the input that are strips may have gaps of less than 16 bytes
//     SCALE_ACROSS, BIAS_ACROSS     0: the same for the VECTOR columns, 1: of each its own
//     SCALE_PACKED, BIAS_PACKED     those of VECTOR columns, or of the CHUNK steps that columns share, lie dense and
//                                   aligned
//     RESIDENT        blocks of a multiprocessor for which there have to be registers, at least
#pragma once

#include "normalization.cuh"

constexpr int OF_CHUNK = LENGTH > 0 ? LENGTH : CHUNK;  // steps that exist
constexpr int BLOCK = ACROSS * SPANS, COLUMNS = ACROSS * VECTOR, STEPS = SPAN * OF_CHUNK;
constexpr int TOGETHER = ACROSS < LANES ? LANES / ACROSS : 1;  // spans of a column that a warp has at a time
constexpr int PARTS = SPANS / TOGETHER;
constexpr int INNER = KEPT_RANK - 1;
constexpr bool BY_ROWS = ROW_COLUMNS > 0;
constexpr int INPUT_GAP = BY_ROWS && INPUT_ROW > 0 ? INPUT_ROW - ROW_COLUMNS * static_cast<int>(sizeof(Input)) : 0;

static_assert(BLOCK % LANES == 0 && SPANS % TOGETHER == 0, "whole warps");
static_assert(LENGTH < CHUNK && (LENGTH == 0 || SPAN * SPANS == 1), "a column is less than a chunk");
static_assert(ROW_COLUMNS <= COLUMNS, "a strip has a whole row");

// ---------------------------------------------------------------------------------------------------------------------
// What a block has of its columns. They are numbered so that neighbouring threads take neighbouring places: thread
// `across` has the columns across, ACROSS + across, 2 * ACROSS + across and so on.

__device__ Index column_of(Index strip, int number) {
    if constexpr (BY_ROWS) return strip * ROW_COLUMNS + number % ACROSS * VECTOR + number / ACROSS;
    else return (strip * ACROSS + number % ACROSS) * VECTOR + number / ACROSS;
}

// Whether a column that column_of() tells, of this strip, does.
__device__ bool exists(const Geometry& g, Index strip, Index column) {
    return WHOLE || (BY_ROWS ? column - strip * ROW_COLUMNS < ROW_COLUMNS : column < g.groups);
}

// ---------------------------------------------------------------------------------------------------------------------
// Where a thread works: a span of VECTOR columns.

struct Place {
    Index column, begin, length;  // the first column, the first element, the elements of the column if it exists
    int count;                    // elements of the span that exist

    // In a tile of which each thread has so many spans.
    __device__ Place(const Geometry& g, Index strip, Index tile, int rounds = 1) {
        const int number = static_cast<int>(threadIdx.x) / ACROSS;
        column = BY_ROWS ? strip * ROW_COLUMNS + threadIdx.x % ACROSS * VECTOR
                         : (strip * ACROSS + threadIdx.x % ACROSS) * VECTOR;
        length = exists(g, strip, column) ? g.length : 0;
        if (length == 0) column = strip * (BY_ROWS ? ROW_COLUMNS : COLUMNS);
        const Index first = tile * SPANS + number / TOGETHER * TOGETHER;
        move_to((first * rounds + number % TOGETHER) * STEPS);
    }

    __device__ void next_round() { move_to(begin + TOGETHER * STEPS); }

    __device__ void move_to(Index first) {
        begin = first;
        count = WHOLE ? STEPS : up_to(length - begin, STEPS);
    }

    // The first element of the spans that the warp has at a time, and whether all of these exist.
    __device__ Index begin_of_warp() const {
        return ACROSS < LANES ? begin - lane_index() / ACROSS * STEPS : begin;
    }
    __device__ bool warp_is_whole(const Geometry& g) const {
        return WHOLE || begin_of_warp() + TOGETHER * STEPS <= g.length;
    }

    // Columns of the row before the first one.
    __device__ Index in_row() const {
        return BY_ROWS ? (length == 0 ? 0 : threadIdx.x % ACROSS * VECTOR) : column;
    }

    // Whether the warp moves its rows of the input together, with the gap behind the last one. Behind the very last one
    // there may be no memory.
    __device__ bool moves_input(const Geometry& g) const {
        if (!warp_is_whole(g)) return false;
        if constexpr (INPUT_GAP == 0) return true;
        return begin_of_warp() + TOGETHER * STEPS < g.length || column - in_row() + ROW_COLUMNS < g.groups;
    }
};

// Step k of the span in an array, where that of element 0 is given; element `other` if the step does not exist. ALL: it
// is known to, as all steps of the span are.
template <int ARRAY, bool ALL = WHOLE, typename Char>
__device__ Char* step_of(Char* column, const Geometry& g, const Place& place, int k, Index other = 0) {
    if constexpr (ALL && REDUCED_RANK == 1) {
        const long long stride = g.reduced.stride[ARRAY][0];  // so that an address takes one instruction
        return column + place.begin * stride + k * stride;
    }
    return column + g.reduced.offsets(ALL || k < place.count ? place.begin + k : other).of[ARRAY];
}

using Elements = Pack<Input, VECTOR>;

// Elements of VECTOR columns.
template <Eviction HOW = EVICTION> __device__ Elements load_elements(const char* from, const Geometry& g) {
    Elements elements;
    if constexpr (INPUT_PACKED) {
        elements = load_items<HOW, Elements>(from);
    } else {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            elements.element[v] = load_element<Input, INPUT_ALIGNED>(from + v * g.kept.stride[OF_INPUT][INNER]);
        }
    }
    return elements;
}

// The first elements of the columns, by all threads, who meet before anybody reads them.
__device__ void keep_first(const Elements& first, Input (&first_of)[COLUMNS]) {
    if (threadIdx.x >= ACROSS) return;
#pragma unroll
    for (int v = 0; v < VECTOR; v++) first_of[v * ACROSS + threadIdx.x] = first.element[v];
}

// ---------------------------------------------------------------------------------------------------------------------
// Narrow rows: a warp moves what its lanes have 16 bytes at a time and in order, by way of shared memory. Lanes that
// load their own spans would touch eight times as many lines of the cache at a time.

template <int ROW_BYTES, typename Items> struct RowsOfWarp {
    static constexpr int MOVED = 16, SPAN_BYTES = STEPS * ROW_BYTES, BYTES = TOGETHER * SPAN_BYTES;
    static constexpr int PIECES = (BYTES / MOVED + LANES - 1) / LANES;                      // of a lane
    static constexpr int PADDED = SPAN_BYTES + (ROW_BYTES + MOVED - 1) / MOVED * MOVED;  // spans begin in other banks
    using Piece = Pack<unsigned, MOVED / 4>;
    struct Pieces {
        Piece of_lane[PIECES];
    };
    static_assert(SPAN_BYTES % MOVED == 0, "no piece is a part of two spans");

    alignas(MOVED) char bytes[TOGETHER * PADDED];

    __device__ static int offset_of_piece(int i) { return (i * LANES + lane_index()) * MOVED; }
    __device__ Piece& piece(int offset) {
        return *reinterpret_cast<Piece*>(bytes + offset / SPAN_BYTES * PADDED + offset % SPAN_BYTES);
    }
    __device__ Items& items(int k) {
        const int lane = lane_index();
        return *reinterpret_cast<Items*>(bytes + lane / ACROSS * PADDED + k * ROW_BYTES +
                                         lane % ACROSS * static_cast<int>(sizeof(Items)));
    }

    __device__ static void load(const char* from, Pieces& pieces) {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            if (offset_of_piece(i) < BYTES) pieces.of_lane[i] = load_items<EVICTION, Piece>(from + offset_of_piece(i));
        }
    }

    __device__ void put(const Pieces& pieces) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            if (offset_of_piece(i) < BYTES) piece(offset_of_piece(i)) = pieces.of_lane[i];
        }
        __syncwarp();
    }

    __device__ void store(char* to) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            const int offset = offset_of_piece(i);
            if (offset < BYTES) *reinterpret_cast<Piece*>(to + offset) = piece(offset);
        }
    }
};

template <typename Items> struct RowsOfWarp<0, Items> {  // of which nothing is called
    struct Pieces {};
    __device__ static void load(const char* from, Pieces& pieces);
    __device__ void put(const Pieces& pieces);
    __device__ Items& items(int k);
    __device__ void store(char* to);
};

constexpr int WARPS_OF_ROWS = INPUT_ROW || OUTPUT_ROW ? BLOCK / LANES : 1;

static_assert(WARPS_OF_ROWS == 1 || ACROSS <= LANES, "a warp has whole rows");

// Halves are rounded in pairs.
constexpr int PAIR = VECTOR > 1 ? 2 : 1;

struct alignas(alignof(Pack<Output, VECTOR>)) Results {
    Pack<Output, PAIR> pair[VECTOR / PAIR];
};

union WarpRows {
    RowsOfWarp<INPUT_ROW, Elements> input;
    RowsOfWarp<OUTPUT_ROW, Results> output;
};

// ---------------------------------------------------------------------------------------------------------------------
// What a thread has.

// Scale or bias: of all steps or of one that stands for all, of each column or of one that stands for all.
template <typename Stored, int ARRAY, int KIND, bool ALIGNED, bool ACROSS_THEM, bool PACKED> struct SpanOperand {
    static constexpr bool DOWN = KIND == OF_ELEMENTS, WIDE = ACROSS_THEM && KIND != OF_ALL;
    static constexpr int ROWS = DOWN ? STEPS : 1, WIDTH = WIDE ? VECTOR : 1;
    typename Select<KIND == OF_ALL, Compute, Stored>::type value[ROWS][WIDTH];

    __device__ void load(const char* column, double number, const Geometry& g, const Place& place) {
        if constexpr (KIND == OF_ALL) {
            value[0][0] = static_cast<Compute>(number);
        } else if constexpr (DOWN && PACKED && !WIDE) {
            load_down(column, g, place);
        } else if constexpr (KIND != NONE) {
#pragma unroll
            for (int k = 0; k < ROWS; k++) {
                load_row(DOWN ? step_of<ARRAY>(column, g, place, k) : column, g, value[k]);
            }
        }
    }

    __device__ static void load_row(const char* from, const Geometry& g, Stored (&row)[WIDTH]) {
        if constexpr (WIDE && PACKED) {
            const auto pack = *reinterpret_cast<const Pack<Stored, WIDTH>*>(from);
#pragma unroll
            for (int v = 0; v < WIDTH; v++) row[v] = pack.element[v];
        } else {
#pragma unroll
            for (int v = 0; v < WIDTH; v++) {
                row[v] = load_element<Stored, ALIGNED>(from + v * g.kept.stride[ARRAY][INNER]);
            }
        }
    }

    __device__ void load_down(const char* column, const Geometry& g, const Place& place) {
#pragma unroll
        for (int first = 0; first < STEPS; first += OF_CHUNK) {
            if (first + CHUNK <= place.count) {
                const char* from = step_of<ARRAY>(column, g, place, first);
                const auto pack = *reinterpret_cast<const Pack<Stored, CHUNK>*>(from);
#pragma unroll
                for (int j = 0; j < OF_CHUNK; j++) value[first + j][0] = pack.element[j];
            } else {
#pragma unroll
                for (int j = 0; j < OF_CHUNK; j++) {
                    load_row(step_of<ARRAY>(column, g, place, first + j), g, value[first + j]);
                }
            }
        }
    }

    __device__ Compute at(int k, int v) const {
        if constexpr (KIND == NONE) return 0;
        else return widen(convert<Compute>(value[DOWN ? k : 0][WIDE ? v : 0]));
    }
};

struct SpanOperands {
    SpanOperand<SCALE, OF_SCALE, HAS_SCALE, SCALE_ALIGNED, SCALE_ACROSS, SCALE_PACKED> scale;
    SpanOperand<BIAS, OF_BIAS, HAS_BIAS, BIAS_ALIGNED, BIAS_ACROSS, BIAS_PACKED> bias;

    __device__ void load(const Arrays& column, const Geometry& g, const Place& place) {
        scale.load(column.scale, column.scale_number, g, place);
        bias.load(column.bias, column.bias_number, g, place);
    }
};

struct Span {
    Elements step[STEPS];
    RowsOfWarp<INPUT_ROW, Elements>::Pieces pieces;  // of narrow rows, until the lanes have handed them over

    // FILLED: steps that do not exist become the first of their columns; otherwise they may be any.
    template <bool FILLED> __device__ void load(const char* column, const Geometry& g, const Place& place) {
        if constexpr (INPUT_ROW != 0) {
            if (place.moves_input(g)) return load_rows(column, g, place);
        }
        // Compilers wait for what a branch has loaded before the next one, so there is one for all steps.
        if (FILLED) load_filled(column, g, place);
        else if (place.count == STEPS) load_steps<true>(column, g, place, 0);
        else if (place.count > 0) load_steps<false>(column, g, place, place.begin);
    }

    // The warp is known to move its steps at once.
    __device__ void load_whole(const char* column, const Geometry& g, const Place& place) {
        if constexpr (INPUT_ROW != 0) load_rows(column, g, place);
        else load_steps<true>(column, g, place, 0);
    }

    __device__ void load_filled(const char* column, const Geometry& g, const Place& place) {
        load_steps<WHOLE>(column, g, place, 0);
    }

    __device__ void load_rows(const char* column, const Geometry& g, const Place& place) {
        const char* rows = column - place.in_row() * sizeof(Input) + place.begin_of_warp() * INPUT_ROW;
        RowsOfWarp<INPUT_ROW, Elements>::load(rows, pieces);
    }

    // From step to step an address takes one addition. As a product of the step's number, which compilers make of it
    // where many spans follow each other, it takes six instructions.
    template <bool ALL>
    __device__ void load_steps(const char* column, const Geometry& g, const Place& place, Index other) {
        const char* from = column;
#pragma unroll
        for (int k = 0; k < STEPS; k++, from += g.reduced.stride[OF_INPUT][REDUCED_RANK - 1]) {
            if (!ALL || k % EVEN_STEPS == 0) from = step_of<OF_INPUT, ALL>(column, g, place, k, other);
            step[k] = load_elements(from, g);
        }
    }

    // Comes between the load and whatever needs the steps.
    __device__ void hand_over(WarpRows& rows, const Geometry& g, const Place& place) {
        if constexpr (INPUT_ROW != 0) {
            if (!place.moves_input(g)) return;
            rows.input.put(pieces);
            if (place.length == 0) return;
#pragma unroll
            for (int k = 0; k < STEPS; k++) step[k] = rows.input.items(k);
        }
    }

    // Of the VECTOR columns, whose first elements are given. Where these stand for steps that do not exist they add
    // nothing, unless one is not finite, and then the sums are not either.
    __device__ void sum(const Elements& first, Sums (&sums)[VECTOR]) const {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            const Shift shift(first.element[v]);
            SerialPrefix<Sums> over_chunks;
#pragma unroll
            for (int i = 0; i < SPAN; i++) {
                Pack<Input, CHUNK> chunk;
#pragma unroll
                for (int j = 0; j < CHUNK; j++) {
                    chunk.element[j] = step[i * OF_CHUNK + (j < OF_CHUNK ? j : 0)].element[v];
                }
                sums[v] = over_chunks.next(i, sum_of<OF_CHUNK>(chunk, shift.value));
            }
        }
    }

    // Two columns at a time, so that few normalizers are held.
    __device__ void normalize(const Normalizer<Compute>* normalizers, const SpanOperands& operands, const Parameters& p,
                              Results (&result)[STEPS]) const {
#pragma unroll
        for (int first = 0; first < VECTOR; first += PAIR) {
            Normalizer<Compute> normalizer[PAIR];
#pragma unroll
            for (int v = 0; v < PAIR; v++) normalizer[v] = normalizers[(first + v) * ACROSS + threadIdx.x % ACROSS];
#pragma unroll
            for (int k = 0; k < STEPS; k++) {
                Compute y[PAIR];
#pragma unroll
                for (int v = 0; v < PAIR; v++) {
                    const Compute x = widen(convert<Compute>(step[k].element[first + v]));
                    const Compute scale = operands.scale.at(k, first + v), bias = operands.bias.at(k, first + v);
                    y[v] = activated(normalizer[v].apply(x), scale, bias, p);
                }
                result[k].pair[first / PAIR] = pack_of<Output>(y);
            }
        }
    }

    // OF_TILE: addresses of whole spans are found faster. In kernels that have whole columns that only takes registers.
    template <bool OF_TILE = false>
    __device__ void store(WarpRows& rows, char* column, const Geometry& g, const Place& place,
                          const Normalizer<Compute>* normalizers, const SpanOperands& operands,
                          const Parameters& p) const {
        Results result[STEPS];
        normalize(normalizers, operands, p, result);
        if constexpr (OUTPUT_ROW != 0) {
            if (place.warp_is_whole(g)) {
                __syncwarp();
#pragma unroll
                for (int k = 0; k < STEPS; k++) {
                    if (place.length > 0) rows.output.items(k) = result[k];
                }
                rows.output.store(column - place.in_row() * sizeof(Output) + place.begin_of_warp() * OUTPUT_ROW);
                return;
            }
        }
        if (OF_TILE && place.count == STEPS) store_steps<true>(column, g, place, result);
        else store_steps<WHOLE>(column, g, place, result);
    }

    template <bool ALL>
    __device__ static void store_steps(char* column, const Geometry& g, const Place& place,
                                       const Results (&result)[STEPS]) {
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            if (ALL || k < place.count) store_results(step_of<OF_OUTPUT, ALL>(column, g, place, k), g, result[k]);
        }
    }

    __device__ static void store_results(char* to, const Geometry& g, const Results& result) {
        if constexpr (OUTPUT_PACKED) {
            *reinterpret_cast<Results*>(to) = result;
        } else {
#pragma unroll
            for (int v = 0; v < VECTOR; v++) {
                const Output y = result.pair[v / PAIR].element[v % PAIR];
                store_element<OUTPUT_ALIGNED>(to + v * g.kept.stride[OF_OUTPUT][INNER], y);
            }
        }
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// The sums of the columns of a block.

// Lanes that share columns after an exchange of their sums, and columns that a lane is left with.
constexpr int SHARING = TOGETHER < VECTOR ? TOGETHER : VECTOR, LEFT = VECTOR / SHARING;

// The sums of the spans that the warp has: lane i gets those of columns k * SHARING + i / ACROSS % SHARING.
__device__ void sum_over_warp(Sums (&sums)[VECTOR]) { row_aggregates<VECTOR, TOGETHER, ACROSS>(sums); }

struct ColumnSums {
    Sums part[PARTS][COLUMNS];

    // By all threads, of whose sums the first LEFT are those of the warp.
    __device__ void add(const Sums (&sums)[VECTOR]) {
        const int across = threadIdx.x % ACROSS, number = threadIdx.x / ACROSS, share = number % TOGETHER;
#pragma unroll
        for (int k = 0; k < LEFT; k++) {
            if (share < SHARING) part[number / TOGETHER][(k * SHARING + share) * ACROSS + across] = sums[k];
        }
        __syncthreads();
    }

    __device__ Sums total(int column) const { return pairwise<0, power_of_two_from(PARTS)>(column); }

    // Of COUNT parts, a power of two; those behind the last are 0.
    template <int FROM, int COUNT> __device__ Sums pairwise(int column) const {
        if constexpr (FROM >= PARTS) return Sums{};
        else if constexpr (COUNT == 1) return part[FROM][column];
        else return combine(pairwise<FROM, COUNT / 2>(column), pairwise<FROM + COUNT / 2, COUNT / 2>(column));
    }
};
