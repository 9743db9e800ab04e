// Mean, variance and normalization of groups that lie side by side: columns of a matrix.
//
// Nothing is waited for but memory, so several blocks share a multiprocessor. Columns that fit a block are read once.
// Longer ones are cut into tiles and read twice, as in normalization_tiled_lines.cu; a thread of a tile that is added
// up has several spans, one after the other, and one of those that are normalized, as these blocks wait for nobody.
//
// Constants that the plan sets, beside those of normalization_spans.cuh:
//     OPERANDS_EARLY  1: scale and bias of whole columns are loaded before their sums are there
#include "ahead.cuh"
#include "normalization_spans.cuh"
#include "normalization_tiles.cuh"

// ---------------------------------------------------------------------------------------------------------------------
// Columns of a block at the most

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
normalize_columns(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                  double bias_number, char* mean, char* variance, Geometry g, Parameters p, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    __shared__ ColumnSums column_sums;
    __shared__ Input first_of[COLUMNS];
    __shared__ Normalizer<Compute> normalizers[COLUMNS];
    __shared__ WarpRows rows[WARPS_OF_ROWS];
    WarpRows& warp_rows = rows[WARPS_OF_ROWS > 1 ? threadIdx.x / LANES : 0];
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Place place(g, blockIdx.x, 0);
    const Arrays column = arrays.at(g.kept.offsets(place.column));
    Span span;
    span.load<true>(column.input, g, place);
    SpanOperands operands;
    if (HAS_OUTPUT && OPERANDS_EARLY) operands.load(column, g, place);
    span.hand_over(warp_rows, g, place);
    const Elements first = load_elements<EVICT_NORMALLY>(column.input, g);
    Sums sums[VECTOR];
    span.sum(first, sums);
    sum_over_warp(sums);
    keep_first(first, first_of);
    column_sums.add(sums);

#pragma unroll 1
    for (int c = threadIdx.x; c < COLUMNS; c += BLOCK) {
        const Moments moments = moments_of(column_sums.total(c), Shift(first_of[c]).value, p);
        if (HAS_OUTPUT) normalizers[c] = Normalizer<Compute>::of(moments, p);
        const Index number = column_of(blockIdx.x, c);
        if (mean && exists(g, blockIdx.x, number)) store_moments(arrays.at(g.kept.offsets(number)), moments, p);
    }
    __syncthreads();  // by now all was read, so the output may be the input
    if (!HAS_OUTPUT) return;
    if (!OPERANDS_EARLY) operands.load(column, g, place);
    span.store(warp_rows, column.output, g, place, normalizers, operands, p);
}

// ---------------------------------------------------------------------------------------------------------------------
// Longer columns. Blocks that follow each other have neighbouring strips of the same steps, or, where strips are rows,
// neighbouring tiles, so that either way they read what lies side by side.

struct Work {
    Index strip, tile;

    __device__ Work(const Geometry& g, Index number) {
        if constexpr (BY_ROWS) {
            strip = number / g.tiles;
            tile = number - strip * g.tiles;
        } else {
            const Index strips = (g.groups + COLUMNS - 1) / COLUMNS;
            tile = number / strips;
            strip = number - tile * strips;
        }
    }
};

// The spans of a thread in a tile: memory loads one while another is added up. Where there are several long ones, that
// amid which a column ends is loaded when it is its turn: to ask for each step costs as much as to add it up.
struct Rounds {
    static constexpr bool SOME_LATER = !WHOLE && SPAN > 1 && ROUNDS > 1;

    const char* column;
    const Geometry& g;
    Place place;
    Span next;

    __device__ Rounds(const char* column, const Geometry& g, const Place& place) : column(column), g(g), place(place) {
        load_ahead();
    }

    // Those of which the warp has anything; or all, where none is loaded later, as what does not exist adds nothing.
    __device__ int count() const {
        constexpr int OF_ROUND = TOGETHER * STEPS;
        return SOME_LATER ? up_to((g.length - place.begin_of_warp() + OF_ROUND - 1) / OF_ROUND, ROUNDS) : ROUNDS;
    }

    __device__ void take(bool is_last, WarpRows& warp_rows, Span& span) {
        if (SOME_LATER && !place.moves_input(g)) next.load_filled(column, g, place);
        next.hand_over(warp_rows, g, place);
        span = next;
        place.next_round();
        if (!is_last) load_ahead();
    }

private:
    __device__ void load_ahead() {
        if (!SOME_LATER) next.load<true>(column, g, place);
        else if (place.moves_input(g)) next.load_whole(column, g, place);
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
sum_columns(const char* input, Word* control, Normalizer<Compute>* normalizers, char* mean, char* variance, Geometry g,
            Parameters p, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead_of_steps();
    __shared__ ColumnSums column_sums;
    __shared__ Input first_of[COLUMNS];
    __shared__ WarpRows rows[WARPS_OF_ROWS];
    WarpRows& warp_rows = rows[WARPS_OF_ROWS > 1 ? threadIdx.x / LANES : 0];
    const TicketsFor<Sums> tickets = take_tile(control, g.tiles);
    const Work work(g, tickets.of_block());
    const Arrays arrays = {input, nullptr, nullptr, nullptr, 0, 0, mean, variance};
    const Place place(g, work.strip, work.tile, ROUNDS);
    const char* column = input + g.kept.offsets(place.column).of[OF_INPUT];
    const Elements first = load_elements<EVICT_NORMALLY>(column, g);
    SerialPrefix<Sums, levels_of(ROUNDS)> over_rounds[LEFT];
    Sums sums[VECTOR];
    Rounds rounds(column, g, place);
    const int count = rounds.count();
#pragma unroll 1
    for (int round = 0; round < count; round++) {
        Span span;
        rounds.take(round + 1 == count, warp_rows, span);
        span.sum(first, sums);
        sum_over_warp(sums);
#pragma unroll
        for (int k = 0; k < LEFT; k++) sums[k] = over_rounds[k].next(round, sums[k]);
    }
#pragma unroll 1
    for (int round = count; round < ROUNDS; round++) {
#pragma unroll
        for (int k = 0; k < LEFT; k++) sums[k] = over_rounds[k].next(round, Sums{});
    }
    keep_first(first, first_of);
    column_sums.add(sums);
    const int c = static_cast<int>(threadIdx.x);
    Sums total = column_sums.total(c % COLUMNS);
    Word* words = control + SECTOR + work.strip * published_words<COLUMNS>(g.tiles);
    const bool is_last = add_up_tiles<COLUMNS, BLOCK>(total, words, work.tile, g.tiles, tickets.epoch());
    const Index number = column_of(work.strip, c);
    if (!is_last || c >= COLUMNS || !exists(g, work.strip, number)) return;
    finish_group(arrays, normalizers, g, number, total, Shift(first_of[c]).value, p);
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
apply_columns(const char* input, char* output, const char* scale, const char* bias, double scale_number,
              double bias_number, const Normalizer<Compute>* of_groups, Geometry g, Parameters p) {
    __shared__ Normalizer<Compute> normalizers[COLUMNS];
    __shared__ WarpRows rows[WARPS_OF_ROWS];
    WarpRows& warp_rows = rows[WARPS_OF_ROWS > 1 ? threadIdx.x / LANES : 0];
    const Work work(g, static_cast<Index>(gridDim.x) - 1 - static_cast<Index>(blockIdx.x));  // what was read last first
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, nullptr, nullptr};
    const Place place(g, work.strip, work.tile);
    const Arrays column = arrays.at(g.kept.offsets(place.column));
    Span span;
    span.load<false>(column.input, g, place);
    SpanOperands operands;
    operands.load(column, g, place);
    await_launch_ahead();  // nothing so far is what the first step writes, or is written by this one
#pragma unroll 1
    for (int c = threadIdx.x; c < COLUMNS; c += BLOCK) {
        const Index number = column_of(work.strip, c);
        normalizers[c] = exists(g, work.strip, number) ? of_groups[number] : Normalizer<Compute>{};
    }
    __syncthreads();
    span.hand_over(warp_rows, g, place);
    span.store<true>(warp_rows, column.output, g, place, normalizers, operands, p);
}
