// How the scanners of a block store the spans of a unit: directly, or through the stage that they came from.
//
// Constants that the plan sets, beside those of scan_column_units.cuh:
//     EXCHANGE             1: outputs of a dense strip go through the stage; those of OUTPUT_TURNED always do
//     EXCHANGE_BYTES       so many neighbouring bytes are then stored at once
#pragma once

#include "scan_column_units.cuh"

static_assert(!EXCHANGE || (sizeof(Output) == SIZE && DENSE && WARPS_ACROSS == 1), "outputs take the place of inputs");

__device__ Target target_of(const Work& work, const Unit& unit, const Span& span, Index begin) {
    char* first = unit.output + span.column * static_cast<int>(sizeof(Output));
    return Target(work.output, first, work.g, unit.line + span.column, begin);
}

// Where most of what memory moves are outputs, they leave the cache at once: (65536, 4096) int8 summed in int64 takes
// 0.651 ms on an H200 so, and 0.660 ms if they do not. Where outputs are as wide as inputs, it costs a point.
constexpr bool WIDENED = sizeof(Output) > sizeof(Staged);

__device__ void store_values(const Work& work, const Unit& unit, const Span& span, const Values& values) {
    Target target = target_of(work, unit, span, unit.begin() + span.row * ROW_STEPS + span.part * SPAN_STEPS + INITIAL);
#pragma unroll
    for (int k = 0; k < SPAN_STEPS; k++) {
        if (k < span.count) target.store<WIDENED>(values.outputs_of(k));
        target.advance();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Exchanged: the outputs of a dense strip take the place of its inputs, so that neighbours are stored together.

struct __align__(EXCHANGE_BYTES) Piece {
    char byte[EXCHANGE_BYTES];
};

__device__ void put_values(const Span& span, const Values& values) {
#pragma unroll
    for (int k = 0; k < SPAN_STEPS; k++) {
        if (k < span.count) *reinterpret_cast<Pack<Output, VECTOR>*>(span.at(k)) = values.outputs_of(k);
    }
}

__device__ void store_piece(char* to, const char* from) {
    *reinterpret_cast<Piece*>(to) = *reinterpret_cast<const Piece*>(from);
}

// What exists of a piece: the bytes `begin` ... `end` - 1.
__device__ void store_piece(char* to, const char* from, int begin, int end) {
    if (begin <= 0 && EXCHANGE_BYTES <= end) {
        store_piece(to, from);
        return;
    }
    for (int b = begin < 0 ? 0 : begin; b < end && b < EXCHANGE_BYTES; b += SIZE) {
        *reinterpret_cast<Output*>(to + b) = *reinterpret_cast<const Output*>(from + b);
    }
}

constexpr int SPAN_BYTES = SPAN_STEPS * PITCH, PIECES_OF_SPAN = (SPAN_BYTES + EXCHANGE_BYTES - 1) / EXCHANGE_BYTES;

// Piece `i` of the spans of a warp, which lie in a stage as they shall in memory. All of a WHOLE unit exists.
template <bool WHOLE> __device__ void store_exchanged(const Work& work, const Unit& unit, char* data, int task, int i) {
    const Geometry& g = work.g;
    const int number = task * SPANS_OF_WARP + i / PIECES_OF_SPAN;
    const int row = number % ROWS, first = number / ROWS * SPAN_STEPS;
    const int place = i % PIECES_OF_SPAN * EXCHANGE_BYTES, left = unit.steps_of(row) - first;
    const int steps = WHOLE || left > SPAN_STEPS ? SPAN_STEPS : left, bytes = steps * PITCH;
    if (place >= bytes) return;
    const int lowest = BACKWARD ? ROW_STEPS - first - steps : first;  // in the stage
    const Index number_of_lowest = unit.begin() + row * ROW_STEPS + first + INITIAL + (REVERSE ? steps - 1 : 0);
    char* to = unit.output + g.output_axis.offset(along(number_of_lowest, g.length + INITIAL)) + place;
    const char* from = row_of_stage(data, row) + lowest * PITCH + place;
    if (WHOLE && SPAN_BYTES % EXCHANGE_BYTES == 0) store_piece(to, from);
    else store_piece(to, from, 0, bytes - place);
}

// Only whole units are in a hurry: unrolled for all, stores of (67108864, 3) float32 took a quarter of the time to
// compile.
__device__ void store_exchanged(const Work& work, const Unit& unit, char* data, int task) {
    constexpr int PIECES = SPANS_OF_WARP * PIECES_OF_SPAN;
    if (unit.count == STEPS) {
#pragma unroll 4
        for (int k = 0; k < PIECES; k += LANES) {
            const int i = k + lane_index();
            if (PIECES % LANES == 0 || i < PIECES) store_exchanged<true>(work, unit, data, task, i);
        }
    } else {
#pragma unroll 1
        for (int i = lane_index(); i < PIECES; i += LANES) store_exchanged<false>(work, unit, data, task, i);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Overlapping: outputs go through the stage as well. Where a sector is stored in parts, memory is read too: of (65536,
// 4097) float32, stores alone take an H200 0.61 ms, and 0.28 ms where rows consist of whole sectors. So a strip stores
// from the first sector that begins in it to the first that begins in the next.

__device__ void put_shifted(const Span& span, const Values& values) {
#pragma unroll
    for (int k = 0; k < SPAN_STEPS; k++) {
        const Pack<Output, VECTOR> pack = values.outputs_of(k);
        Output* to = reinterpret_cast<Output*>(span.first + k * PITCH);
#pragma unroll
        for (int v = 0; v < VECTOR; v++) to[v * BETWEEN] = pack.element[v];
    }
}

__device__ int to_sector(const char* address) {
    return static_cast<int>(-reinterpret_cast<size_t>(address) % SECTOR_BYTES);
}

// By all lanes of a warp, which has a span of all columns. Steps so many apart that their rows begin at the same place
// of a sector are ALIKE, and stored one after the other: all that such rows have in common is found once.
__device__ void store_sectors(const Work& work, const Unit& unit, const Span& span) {
    constexpr int PIECES = OVERLAPPING ? COLUMNS * SIZE / EXCHANGE_BYTES : LANES, NEXT = APART * SIZE;
    constexpr int ALIKE = OVERLAPPING && OF_SECTOR < SPAN_STEPS ? OF_SECTOR : SPAN_STEPS;
    constexpr int DOWN = LANES / PIECES, COUNT = SPAN_STEPS / ALIKE;
    static_assert(SPAN_STEPS % ALIKE == 0 && ALIKE % DOWN == 0, "");
    const Geometry& g = work.g;
    const Index step = REVERSE ? -g.output_axis.stride[0] : g.output_axis.stride[0];
    const bool from_first = unit.first || work.in_place();
    const int bytes = unit.bytes, lane = lane_index() / PIECES;
    const Index number = unit.begin() + span.row * ROW_STEPS + span.part * SPAN_STEPS + lane;
    const char* from = span.first - lane_index() * SIZE + lane * PITCH;
    char* to = unit.output + g.output_axis.offset(along(number, g.length));
#pragma unroll
    for (int first = 0; first < ALIKE; first += DOWN, from += DOWN * PITCH, to += DOWN * step) {
        const int begin = from_first ? 0 : to_sector(to);
        const int end = bytes <= NEXT ? bytes : up_to(NEXT + to_sector(to + NEXT), bytes);
        const int lead = static_cast<int>(reinterpret_cast<size_t>(to + begin) % EXCHANGE_BYTES);
        const int place = begin - lead + lane_index() % PIECES * EXCHANGE_BYTES;
        if (place >= end) continue;
        if (begin <= place && place + EXCHANGE_BYTES <= end && span.count == SPAN_STEPS) {
            Piece piece[COUNT];
#pragma unroll
            for (int k = 0; k < COUNT; k++) {
                piece[k] = *reinterpret_cast<const Piece*>(from + k * ALIKE * PITCH + place);
            }
#pragma unroll
            for (int k = 0; k < COUNT; k++) *reinterpret_cast<Piece*>(to + k * ALIKE * step + place) = piece[k];
        } else {
#pragma unroll 1
            for (int k = 0; lane + first + k * ALIKE < span.count; k++) {
                store_piece(to + k * ALIKE * step + place, from + k * ALIKE * PITCH + place, begin - place,
                            end - place);
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Turned: the outputs of a warp's columns, which are neighbours along the axis, take the place of its inputs column by
// column, so that some neighbouring lanes store all that a column has: 128 bytes of float32. Lanes that write 16 bytes
// of as many columns each find them in different banks, and so do those that read one column.

constexpr int RUN_BYTES = SPAN_STEPS * static_cast<int>(sizeof(Output));  // of a column
constexpr int BESIDE_BYTES = LANES * SIZE;                                // of a step, of the warp's inputs
static_assert(!OUTPUT_TURNED || RUN_BYTES % 16 == 0, "");

// Where 16 bytes of a column lie; `begin` is where the inputs of the warp's first column begin.
__device__ char* place_in_turn(char* begin, int column, int number) {
    constexpr int NUMBERS = RUN_BYTES >= 16 ? RUN_BYTES / 16 : 1;
    const int place = (column * NUMBERS + (number ^ column % NUMBERS)) * 16;
    return begin + place / BESIDE_BYTES * PITCH + place % BESIDE_BYTES;
}

__device__ char* begin_of_turn(const Span& span) { return span.first - lane_index() * SIZE; }

// In the order of memory.
__device__ void put_turned(const Span& span, const Values& values) {
    constexpr int TOGETHER = 16 / sizeof(Output);
#pragma unroll
    for (int number = 0; number < SPAN_STEPS / TOGETHER; number++) {
        Pack<Output, TOGETHER> pack;
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            const int k = number * TOGETHER + i;
            pack.element[i] = values.outputs_of(REVERSE ? SPAN_STEPS - 1 - k : k).element[0];
        }
        *reinterpret_cast<Pack<Output, TOGETHER>*>(place_in_turn(begin_of_turn(span), lane_index(), number)) = pack;
    }
}

// By all lanes of a warp, which have spans of the same steps.
__device__ void store_turned(const Work& work, const Unit& unit, const Span& span) {
    constexpr int ACROSS = OUTPUT_TURNED ? RUN_BYTES / EXCHANGE_BYTES : 1;
    const Geometry& g = work.g;
    const Index first = unit.begin() + span.row * ROW_STEPS + span.part * SPAN_STEPS + INITIAL;
    const Index lowest = along(REVERSE ? first + SPAN_STEPS - 1 : first, g.length + INITIAL);
    const int begin = REVERSE ? (SPAN_STEPS - span.count) * SIZE : 0, end = begin + span.count * SIZE;
    const int columns = unit.width - (span.column - lane_index());
    char* output = work.output + lowest * SIZE;
#pragma unroll 8
    for (int i = lane_index(); i < LANES * ACROSS; i += LANES) {
        const int column = i / ACROSS, place = i % ACROSS * EXCHANGE_BYTES;
        if (column >= columns) continue;
        const char* from = place_in_turn(begin_of_turn(span), column, place / 16) + place % 16;
        char* to = output + g.output_line.offset(unit.line + span.column - lane_index() + column) + place;
        store_piece(to, from, begin - place, end - place);
    }
}

// ---------------------------------------------------------------------------------------------------------------------

// By all lanes of a warp, of which those whose span exists have its outputs.
__device__ void store_task(const Work& work, const Unit& unit, char* data, int task, const Span& span,
                           const Values& values, bool exists) {
    if constexpr (EXCHANGE) {
        if (exists) put_values(span, values);
        __syncwarp();
        store_exchanged(work, unit, data, task);
    } else if constexpr (OVERLAPPING) {
        if (exists) put_shifted(span, values);
        __syncwarp();
        store_sectors(work, unit, span);
    } else if constexpr (OUTPUT_TURNED) {
        __syncwarp();  // all inputs have been read
        if (exists) put_turned(span, values);
        __syncwarp();
        store_turned(work, unit, span);
    } else {
        if (exists) store_values(work, unit, span, values);
    }
}
