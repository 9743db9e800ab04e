// How the loaders of a block copy units of strips into its stages.
//
// Rows that do not exist become copies of the first, that add nothing: x - shift is 0, unless the first is not finite,
// and then the sums are not either. Columns that do not exist may stay as they are: who has one reads another.
//
// Constants that the plan sets, beside those of normalization_strips.cuh:
//     COPY_BYTES    of a copy that a loader does not wait for (cp.async); of single elements, they may lie anywhere
//     AMONG         1: the cache loads 256 bytes at a time, of which other strips copy a part soon
#pragma once

#include "normalization_strips.cuh"

constexpr int COPYING = LOADERS * LANES;  // threads

// Where halves lie at one stride, addresses are found once for a unit: (64, 256, 256, 64) of them, normalized over 0,
// 2, take an H200 0.304 ms and not 0.313, (65536, 8192) over 0 0.670 and not 0.682. (64, 256, 128, 128) floats take
// 0.575 ms so, and 0.566 otherwise: there loads that come early keep others waiting.
constexpr bool AT_ONE_STRIDE = SIZE == 2 && EVEN_ROWS && !OUTPUT_TURNED;

// A row for each thread, until there are no more. Copies of 16 bytes ask the second-level cache for every sector twice,
// bulk copies once: (64, 256, 128, 128) float16s, normalized over 0, 2, take an H200 291 us so and 295 by 16 bytes,
// (20000, 2048) over 0 an H100 65.9 and 69.9. But a warp begins one in 37 ns, so all have a share of a unit's rows.
// Rows of 128 bytes gain little, and floats 0.4 %.
__device__ void copy_in_bulk(const Work& work, const Piece& piece, const Unit& unit, const Staged& staged, Gate& full) {
    static_assert(!BULK || (COPYING >= STEPS && COPY_BYTES == 16), "a row for each thread, at the most");
    const int step = static_cast<int>(threadIdx.x) / LANES + LOADERS * lane_index();
    if (step >= STEPS) return full.arrive();
    const Index offset = step < unit.count ? row_offset<OF_INPUT>(work.g, unit, step) : 0;
    full.template arrive_with_copy<EVICT_NORMALLY>(staged.row(step), piece.first.input + offset, piece.width * SIZE);
}

// Each thread has the same place in every DOWN-th row.
__device__ void copy_rows(const Work& work, const Piece& piece, const Unit& unit, const Staged& staged) {
    constexpr bool USED = !SHIFTED && !INPUT_TURNED && !BULK;
    constexpr int ACROSS = USED ? STRIP_BYTES / COPY_BYTES : 1, DOWN = COPYING / ACROSS;
    static_assert(!USED || (COPYING % ACROSS == 0 && STEPS % DOWN == 0), "all threads copy as many whole rows' shares");
    const int thread = static_cast<int>(threadIdx.x), number = thread % ACROSS, place = number * COPY_BYTES;
    const Index apart = COPY_BYTES == SIZE ? work.g.kept.stride[OF_INPUT][INNER] : COPY_BYTES;
    const char* from = piece.first.input + (place < piece.width * SIZE ? number * apart : 0);
    if (AT_ONE_STRIDE && unit.count == STEPS) {
        const char* row = from + row_offset<OF_INPUT>(work.g, unit, thread / ACROSS);
        char* to = staged.row(thread / ACROSS) + place;
#pragma unroll 4
        for (int k = 0; k < STEPS / DOWN; k++) {
            if constexpr (AMONG) copy_async_among(to + k * DOWN * PITCH, row);
            else copy_async<COPY_BYTES>(to + k * DOWN * PITCH, row);
            row += DOWN * work.g.reduced.stride[OF_INPUT][REDUCED_RANK - 1];
        }
        return;
    }
#pragma unroll 4
    for (int k = 0; k < STEPS / DOWN; k++) {
        const int step = thread / ACROSS + k * DOWN;
        const Index offset = step < unit.count ? row_offset<OF_INPUT>(work.g, unit, step) : 0;
        char* to = OUTPUT_TURNED ? staged.chunk(step, number) : staged.row(step) + place;
        if constexpr (AMONG) copy_async_among(to, from + offset);
        else copy_async<COPY_BYTES>(to, from + offset);
    }
}

// Shifted rows, in aligned pieces of 16 bytes, of which the first and the last may hold elements of other strips too,
// or what lies between rows. A thread has the same piece in rows that are shifted by the same bytes: in every DOWN-th
// from `step` on.
template <int DOWN>
__device__ void copy_shifted(const Piece& piece, int rows, const char* row, const Staged& staged, Index apart, int step,
                             int number) {
    static_assert(DOWN * ROW_SHIFT % 16 == 0 && STEPS % DOWN == 0, "rows that a thread copies are shifted alike");
    row += step * apart;
    const int place = number * 16 - static_cast<int>(reinterpret_cast<unsigned long long>(row) % 16);
    const int begin = place < 0 ? -place : 0, end = up_to(piece.width * SIZE - place, 16);
    if (end == 0) return;
    const char* from = row + place;
    if (rows == STEPS && (end == 16 || !piece.is_last)) {
#pragma unroll 8
        for (int i = 0; i < STEPS; i += DOWN) {
            copy_async_amid(staged.row(step + i) + place, from + i * apart, begin, end);
        }
    } else {
#pragma unroll 1
        for (int i = 0; i < rows - step; i += DOWN) {
            copy_async_until(staged.row(step + i) + place, from + i * apart, begin, end);
        }
    }
}

// A template, so that nobody who has no such rows compiles it.
template <int THREADS>
__device__ void copy_shifted_rows(const Work& work, const Piece& piece, const Unit& unit, const Staged& staged) {
    constexpr int PIECES = STRIP_BYTES / 16, REST = THREADS < STEPS ? THREADS : STEPS;
    const int thread = static_cast<int>(threadIdx.x), rows = unit.count;
    const Index apart = work.g.reduced.stride[OF_INPUT][REDUCED_RANK - 1];
    const char* row = piece.first.input + row_offset<OF_INPUT>(work.g, unit, 0);
    copy_shifted<THREADS / PIECES>(piece, rows, row, staged, apart, thread / PIECES, thread % PIECES);
    if (thread < REST) copy_shifted<REST>(piece, rows, row, staged, apart, thread, PIECES);
}

// Lines of columns whose steps lie side by side, in whole chunks.
template <int THREADS>
__device__ void copy_lines(const Work& work, const Piece& piece, const Unit& unit, const Staged& staged) {
    constexpr int PIECES = LINE_BYTES / 16, DOWN = THREADS / PIECES;
    static_assert(THREADS % PIECES == 0 && COLUMNS % DOWN == 0, "all threads copy pieces of as many lines");
    const int thread = static_cast<int>(threadIdx.x), number = thread % PIECES;
    const Index apart = work.g.kept.stride[OF_INPUT][INNER];
    const char* from = piece.first.input + row_offset<OF_INPUT>(work.g, unit, 0) + number * 16;
    const int columns = (number + 1) * CHUNK <= unit.count ? piece.width : 0;
#pragma unroll 8
    for (int column = thread / PIECES; column < COLUMNS; column += DOWN) {
        if (column < columns) copy_async<16>(staged.line(column) + number * 16, from + column * apart);
    }
}

// What of a unit's columns these leave out: steps behind its last whole chunk, and behind its end.
__device__ void finish_columns(const Work& work, const Piece& piece, const Unit& unit, const Staged& staged) {
    const int copied = INPUT_TURNED ? unit.count / CHUNK * CHUNK : unit.count;
#pragma unroll 1
    for (int column = static_cast<int>(threadIdx.x); column < piece.width; column += COPYING) {
        const Arrays group = piece.column(work.g, column);
        const Input first = load_input(group, work.g, 0);
#pragma unroll 1
        for (int step = copied; step < STEPS; step++) {
            const bool exists = step < unit.count;
            *reinterpret_cast<Input*>(staged.element(step, column)) =
                exists ? load_input(group, work.g, unit.begin + step) : first;
        }
    }
}

// A unit that does not exist: nobody adds it up, and what normalizers take of it is not stored.
__device__ void clear_stage(char* data) {
#pragma unroll 1
    for (int place = static_cast<int>(threadIdx.x) * 16; place < STAGE_BYTES; place += COPYING * 16) {
        *reinterpret_cast<uint4*>(data + place) = uint4{};
    }
}

__device__ void load_unit(const Work& work, const Piece& piece, const Unit& unit, Gate& full) {
    if (unit.count == 0) {
        clear_stage(work.data(unit.visit));
        full.arrive();
        return;
    }
    const Staged staged(work, piece, unit);
    if constexpr (BULK) return copy_in_bulk(work, piece, unit, staged, full);
    if constexpr (SHIFTED) copy_shifted_rows<COPYING>(work, piece, unit, staged);
    else if constexpr (INPUT_TURNED) copy_lines<COPYING>(work, piece, unit, staged);
    else copy_rows(work, piece, unit, staged);
    if constexpr (SHIFTED || INPUT_TURNED) {
        if (unit.count < STEPS) {
            finish_columns(work, piece, unit, staged);
            copy_async_wait_all();
            full.arrive();
            return;
        }
    }
    full.arrive_after_copies();
}

// Units that are loaded at a time. Where two pieces are more than a ring, all blocks wait for the last units of the
// next one while they store this one, and for longer the more units are asked for at once: (65536, 4096) floats take an
// H200 0.598 ms with 4 units of 8192 bytes, 0.600 with 5, 0.615 with 6 and 0.637 with 3. Smaller pieces are loaded
// early enough: a limit costs them up to 6 %.
constexpr int IN_FLIGHT = 2 * PIECE > STAGES ? 4 : STAGES;

__device__ void await_turn_to_load(const Work& work, int visit) {
    await_emptied(work, visit);
    const int before = visit - IN_FLIGHT;
    if (IN_FLIGHT < STAGES && before >= 0) work.stage(before).full.wait(use_of(before));
}

__device__ void load_piece(const Work& work, const Piece& piece) {
    for (int i = 0; i < PIECE; i++) {
        const Unit unit = work.unit(piece.turn, i);
        await_turn_to_load(work, unit.visit);
        load_unit(work, piece, unit, work.stage(unit.visit).full);
    }
}
