// How the loaders of a block copy units of columns into its stages.
//
// Constants that the plan sets, beside those of column_units.cuh:
//     LOADERS              in warps
//     COPY_BYTES           what an asynchronous copy moves: 4, 8 or 16
#pragma once

#include "column_units.cuh"

static_assert(LOAD != IN_BULK || (DENSE && LOADERS == 1), "");

// Rows that are contiguous in memory and in the stage, in pieces.
__device__ void copy_dense(const Work& work, const Unit& unit, char* data, int thread) {
    constexpr int THREADS = LOADERS * LANES, PIECES = ROW_BYTES / COPY_BYTES;
    const Index step = work.g.input_axis.stride[0];
    if (unit.count == STEPS) {
        const char* from = unit.input + unit.lowest(REVERSE ? ROWS - 1 : 0, work.g.length) * step;
#pragma unroll 8
        for (int i = thread; i < ROWS * PIECES; i += THREADS) {
            const int row = REVERSE ? ROWS - 1 - i / PIECES : i / PIECES;
            copy_async<COPY_BYTES>(row_of_stage(data, row) + i % PIECES * COPY_BYTES, from + i * COPY_BYTES);
        }
        return;
    }
    for (int row = 0; row < ROWS; row++) {
        const char* from = unit.input + unit.lowest(row, work.g.length) * step;
        const int bytes = unit.steps_of(row) * PITCH;
#pragma unroll 1  // as in copy_box
        for (int i = thread * COPY_BYTES; i < bytes; i += THREADS * COPY_BYTES) {
            copy_async<COPY_BYTES>(row_of_stage(data, row) + i, from + i);
        }
    }
}

// Boxes: the steps of a strip, each in pieces. A thread has the same place in every step. A piece of one element may come
// from anywhere.
__device__ void copy_box(const Work& work, const Unit& unit, char* data, int thread) {
    constexpr int ACROSS = LOAD == BY_COPIES && !DENSE ? PITCH / COPY_BYTES : 1, DOWN = LOADERS * LANES / ACROSS;
    static_assert(LOAD != BY_COPIES || DENSE || (LOADERS * LANES % ACROSS == 0 && ROW_STEPS % DOWN == 0), "");
    const int place = thread % ACROSS * COPY_BYTES, first = thread / ACROSS;
    if (place >= unit.width * SIZE) return;
    const Index step = REVERSE ? -work.g.input_axis.stride[0] : work.g.input_axis.stride[0];
    const char* column = COPY_BYTES == SIZE ? work.input + work.g.input_line.offset(unit.line + place / SIZE) : unit.input + place;
    const char* from = column + work.g.input_axis.offset(along(unit.begin() + first, work.g.length));
    char* to = data + place + first * PITCH;
#pragma unroll 1
    for (int left = unit.count - first; left > -first; left -= ROW_STEPS) {
        if (left + first >= ROW_STEPS) {
#pragma unroll
            for (int i = 0; i < ROW_STEPS; i += DOWN) copy_async<COPY_BYTES>(to + i * PITCH, from + i * step);
        } else {
#pragma unroll 1  // unrolled by NVRTC 13.0 it went on behind the end of the array
            for (int i = 0; i < left; i += DOWN) copy_async<COPY_BYTES>(to + i * PITCH, from + i * step);
        }
        from += ROW_STEPS * step;
        to += ROW_BYTES + SPREAD;
    }
}

template <typename HardwareGate>
__device__ void copy_in_pieces(const Work& work, const Unit& unit, HardwareGate& full, char* data, int thread) {
    if (DENSE) copy_dense(work, unit, data, thread);
    else copy_box(work, unit, data, thread);
    full.arrive_after_copies();
}

// By a warp, in which each lane has a row.
template <typename HardwareGate>
__device__ void copy_in_bulk(const Work& work, const Unit& unit, HardwareGate& full, char* data) {
    const int row = lane_index(), bytes = row < ROWS ? unit.steps_of(row) * PITCH : 0;
    if (bytes == 0) {
        full.arrive();
        return;
    }
    const char* from = unit.input + unit.lowest(row, work.g.length) * work.g.input_axis.stride[0];
    full.arrive_with_copy(row_of_stage(data, row), from, bytes);
}

__device__ void copy_by_elements(const Work& work, const Unit& unit, char* data, int thread) {
    constexpr int BATCH = 8, THREADS = LOADERS * LANES;
    const Geometry& g = work.g;
    const int count = unit.count * COLUMNS;
    for (int first = thread; first < count; first += BATCH * THREADS) {
        Value element[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int i = first + k * THREADS, step = i / COLUMNS, column = i % COLUMNS;
            if (i >= count || column >= unit.width) continue;
            const char* from = work.input + g.input_line.offset(unit.line + column) +
                               g.input_axis.offset(along(unit.begin() + step, g.length));
            element[k] = convert<Value>(load_element<Input, INPUT_ALIGNED>(from));
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int i = first + k * THREADS, step = i / COLUMNS, column = i % COLUMNS;
            if (i >= count || column >= unit.width) continue;
            const int row = step / ROW_STEPS, place = BACKWARD ? unit.steps_of(row) - 1 - step % ROW_STEPS : step % ROW_STEPS;
            reinterpret_cast<Staged*>(row_of_stage(data, row) + place * PITCH)[column] = convert<Staged>(element[k]);
        }
    }
}

__device__ void load_units(const Work& work, int thread) {
    for (int visit = 0; await_unit(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = stage.unit;
        char* data = work.data(visit);
        if constexpr (LOAD == IN_BULK) {
            copy_in_bulk(work, unit, stage.full, data);
        } else if constexpr (LOAD == BY_COPIES) {
            copy_in_pieces(work, unit, stage.full, data, thread);
        } else {
            copy_by_elements(work, unit, data, thread);
            arrive_by_warp(stage.full);
        }
    }
}
