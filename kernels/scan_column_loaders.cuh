// How the loaders of a block copy units of columns into its stages.
//
// Where a column ends inside a span, the span is filled up, so that nobody who reads a stage asks for the end: that
// would take an eighth of the time to compile. Spans behind it are left as they are, and read by nobody.
//
// Constants that the plan sets, beside those of scan_column_units.cuh:
//     LOADERS              in warps
//     PREFETCHED           units are brought into the second-level cache before they are copied, to stay as EVICTION
//                          says. 0: they are not, and EVICTION is of copies; 1: each by one block; 2: those of strips
//                          side by side, whose elements are neighbours, by all blocks that work on them
#pragma once

#include "scan_column_units.cuh"

static_assert(LOAD != IN_BULK || (DENSE && LOADERS == 1), "");

// By a warp.
__device__ void fill_last_span(const Unit& unit, char* data) {
    const int end = (unit.count + SPAN_STEPS - 1) / SPAN_STEPS * SPAN_STEPS;
    const Staged nothing = convert<Staged>(Operation::template neutral<Accumulator>());
#pragma unroll 1
    for (int i = unit.count * COLUMNS + lane_index(); i < end * COLUMNS; i += LANES) {
        *element_of_stage(data, i / COLUMNS, i % COLUMNS) = nothing;
    }
}

// Where the steps of a row begin in a stage.
__device__ char* begin_of_row(const Unit& unit, char* data, int row) {
    return row_of_stage(data, row) + (BACKWARD ? ROW_STEPS - unit.steps_of(row) : 0) * PITCH;
}

constexpr Eviction EVICTION_OF_COPIES = PREFETCHED ? EVICT_NORMALLY : EVICTION;
constexpr Eviction EVICTION_OF_PIECES = COPY_BYTES == 16 ? EVICTION_OF_COPIES : EVICT_NORMALLY;

// Halves and bytes are copied as part of 256 bytes, which two strips share, or four: (65536, 8192) bfloat16 then
// reaches 92.7 % of copy speed on an H200, not 92.0; (16384, 65536) int8 takes an H100 812 us and not 853, (4096,
// 131072) 399 and not 423. Where strips have 128 bytes of 4-byte elements, it loses 2 %.
constexpr bool AMONG = !DENSE && COPY_BYTES == 16 && (sizeof(Input) == 1 || (sizeof(Input) == 2 && PITCH == 128));

__device__ void copy_piece(void* to, const void* from) {
    if constexpr (AMONG) copy_async_among<EVICTION_OF_COPIES>(to, from);
    else copy_async<COPY_BYTES, EVICTION_OF_PIECES>(to, from);
}

// What is no whole piece of 16 bytes at the end of an array, of which so many bytes are.
__device__ void copy_rest(char* to, const char* from, int bytes) {
    for (int i = bytes / 16 * 16; i < bytes; i += SIZE) {
        *reinterpret_cast<Staged*>(to + i) = *reinterpret_cast<const Staged*>(from + i);
    }
}

// Rows that are contiguous in memory and in the stage, in pieces.
__device__ void copy_dense(const Work& work, const Unit& unit, char* data, int thread) {
    constexpr int THREADS = LOADERS * LANES, PIECES = ROW_BYTES / COPY_BYTES;
    const Index step = work.g.input_axis.stride[0];
    if (unit.count == STEPS) {
        const char* from = unit.input + unit.lowest(REVERSE ? ROWS - 1 : 0, work.g.length) * step;
#pragma unroll 8
        for (int i = thread; i < ROWS * PIECES; i += THREADS) {
            const int row = REVERSE ? ROWS - 1 - i / PIECES : i / PIECES;
            copy_piece(row_of_stage(data, row) + i % PIECES * COPY_BYTES, from + i * COPY_BYTES);
        }
        return;
    }
    for (int row = 0; row < ROWS; row++) {
        const char* from = unit.input + unit.lowest(row, work.g.length) * step;
        const int bytes = unit.steps_of(row) * PITCH, whole = bytes / COPY_BYTES * COPY_BYTES;
#pragma unroll 1  // as in copy_box
        for (int i = thread * COPY_BYTES; i < whole; i += THREADS * COPY_BYTES) {
            copy_async<COPY_BYTES>(begin_of_row(unit, data, row) + i, from + i);
        }
        if (thread == 0 && whole < bytes) copy_rest(begin_of_row(unit, data, row), from, bytes);
    }
}

// Boxes: the steps of a strip, each in pieces. A thread has the same place in every step. A piece of one element may
// come from anywhere.

// Loaders of single elements have the most to do, so that only for them all copies of a row are unrolled: every second
// of 4096 columns takes an H200 0.427 ms so, and 0.430 in rounds of 8.
__device__ void copy_box(const Work& work, const Unit& unit, char* data, int thread) {
    constexpr bool USED = LOAD == BY_COPIES && !DENSE && !INPUT_TURNED && !SHIFTED;
    constexpr int ACROSS = USED ? PITCH / COPY_BYTES : 1, DOWN = LOADERS * LANES / ACROSS;
    static_assert(!USED || (LOADERS * LANES % ACROSS == 0 && ROW_STEPS % DOWN == 0), "");
    const int place = thread % ACROSS * COPY_BYTES, first = thread / ACROSS;
    if (place >= unit.width * SIZE) return;
    const Index step = REVERSE ? -work.g.input_axis.stride[0] : work.g.input_axis.stride[0];
    const char* column =
        COPY_BYTES == SIZE ? work.input + work.g.input_line.offset(unit.line + place / SIZE) : unit.input + place;
    const char* from = column + work.g.input_axis.offset(along(unit.begin() + first, work.g.length));
    char* to = data + place + first * PITCH;
#pragma unroll 1
    for (int row = 0; row < ROWS; row++) {
        const int steps = unit.steps_of(row);
        if (steps == ROW_STEPS && COPY_BYTES == SIZE) {
#pragma unroll
            for (int i = 0; i < ROW_STEPS; i += DOWN) copy_piece(to + i * PITCH, from + i * step);
            to += ROW_STEPS * PITCH;
            from += ROW_STEPS * step;
        } else if (steps == ROW_STEPS) {
#pragma unroll 8
            for (int i = 0; i < ROW_STEPS; i += DOWN) {
                copy_piece(to, from);
                to += DOWN * PITCH;
                from += DOWN * step;
            }
        } else {
#pragma unroll 1  // unrolled by NVRTC 13.0 it went on behind the end of the array
            for (int i = first; i < steps; i += DOWN) {
                copy_piece(to, from);
                to += DOWN * PITCH;
                from += DOWN * step;
            }
        }
        to += SPREAD;
    }
}

// Shifted rows: in aligned pieces of 16 bytes, of which the first and the last may hold elements of other strips too,
// or what lies between rows. Rows lie as far apart in memory as in a stage but for
// multiples of 16 bytes, so that what is aligned there is aligned here, and no two rows share a piece. A thread has the
// same piece in rows that are shifted by the same bytes: in every so many from `first` on.
//
// What strips share is loaded by both. Where rows have 4097 float32, a strip's 256 bytes are 9 sectors, and 7 columns
// are the next one's too. What that costs depends on whether they still lie in the cache: on an H200 such columns reach
// 88.4 % of copy speed, 86.3 if the cache does not load 128 bytes at a time, 89.0 if it evicts them last, and 91.0 if
// the two strips are one block's besides (UNITS_OF_TICKET).
template <int DOWN>
__device__ void copy_pieces(const Work& work, const Unit& unit, char* data, int first, int piece) {
    static_assert(DOWN * ROW_SHIFT % 16 == 0 && STEPS % DOWN == 0, "");
    const Index step = REVERSE ? -work.g.input_axis.stride[0] : work.g.input_axis.stride[0];
    const char* from = unit.first_row(work.g) + first * step;
    const int bytes = unit.bytes, place = piece * 16 - static_cast<int>(reinterpret_cast<size_t>(from) % 16);
    if (place >= bytes) return;
    char* to = data + first * PITCH + place;
    from += place;
    const int begin = place < 0 ? -place : 0, end = up_to(bytes - place, 16);
    if (unit.count == STEPS && (end == 16 || !unit.last)) {
#pragma unroll 8
        for (int i = 0; i < STEPS; i += DOWN) copy_async_around<EVICTION>(to + i * PITCH, from + i * step, begin, end);
    } else {
#pragma unroll 1  // as in copy_box
        for (int i = 0; i < unit.count - first; i += DOWN) {
            copy_async_until(to + i * PITCH, from + i * step, begin, end);
        }
    }
}

// A template, so that nobody who has no such rows compiles it.
template <int THREADS> __device__ void copy_shifted(const Work& work, const Unit& unit, char* data, int thread) {
    constexpr int PIECES = COLUMNS * SIZE / 16, DOWN = THREADS < STEPS ? THREADS : STEPS;
    copy_pieces<THREADS / PIECES>(work, unit, data, thread / PIECES, thread % PIECES);
    if (thread < DOWN) copy_pieces<DOWN>(work, unit, data, thread, PIECES);
}

// Lines: each in a row of its own. A piece is a chunk, whose elements may lie the other way round, or an element.
__device__ void copy_lines(const Work& work, const Unit& unit, char* data, int thread) {
    constexpr int THREADS = LOADERS * LANES, PIECE = COPY_BYTES / SIZE, PIECES = STEPS / PIECE;
    const Geometry& g = work.g;
#pragma unroll 8
    for (int i = thread; i < unit.width * PIECES; i += THREADS) {
        const int column = i / PIECES, step = i % PIECES * PIECE;
        if (step >= unit.count) continue;
        const Index number = unit.begin() + step, lowest = REVERSE ? g.length - number - PIECE : number;
        const char* from = work.input + g.input_line.offset(unit.line + column) + lowest * SIZE;
        copy_async<COPY_BYTES, EVICTION_OF_PIECES>(line_of_stage(data, column) + step * SIZE, from);
    }
}

// The first warp arrives once more, with what it has filled up.
template <typename HardwareGate>
__device__ void copy_in_pieces(const Work& work, const Unit& unit, HardwareGate& full, char* data, int thread) {
    if constexpr (INPUT_TURNED) {
        copy_lines(work, unit, data, thread);
    } else if constexpr (SHIFTED) {
        copy_shifted<LOADERS * LANES>(work, unit, data, thread);
    } else if constexpr (DENSE) {
        copy_dense(work, unit, data, thread);
    } else {
        copy_box(work, unit, data, thread);
    }
    full.arrive_after_copies();
    if (thread >= LANES) return;
    fill_last_span(unit, data);
    full.arrive();
}

// By a warp, in which each lane has a row.
template <typename HardwareGate>
__device__ void copy_in_bulk(const Work& work, const Unit& unit, HardwareGate& full, char* data) {
    const int row = lane_index(), bytes = row < ROWS ? unit.steps_of(row) * PITCH : 0, whole = bytes / 16 * 16;
    const char* from = unit.input + unit.lowest(row, work.g.length) * work.g.input_axis.stride[0];
    if (unit.count < STEPS) {
        copy_rest(begin_of_row(unit, data, row), from, bytes);
        fill_last_span(unit, data);
        fence_async_proxy();  // the copy engine writes there next
    }
    if (whole == 0) {
        full.arrive();
        return;
    }
    full.template arrive_with_copy<EVICTION_OF_COPIES>(begin_of_row(unit, data, row), from, whole);
}

// Threads that follow each other take neighbours in memory.
__device__ int step_of(int i) { return INPUT_TURNED ? i % STEPS : i / COLUMNS; }
__device__ int column_of(int i) { return INPUT_TURNED ? i / STEPS : i % COLUMNS; }

__device__ void copy_by_elements(const Work& work, const Unit& unit, char* data, int thread) {
    constexpr int BATCH = 8, THREADS = LOADERS * LANES;
    const Geometry& g = work.g;
    const int count = INPUT_TURNED ? unit.width * STEPS : unit.count * COLUMNS;
    for (int first = thread; first < count; first += BATCH * THREADS) {
        Value element[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int i = first + k * THREADS, step = step_of(i), column = column_of(i);
            if (i >= count || column >= unit.width || step >= unit.count) continue;
            const char* from = work.input + g.input_line.offset(unit.line + column) +
                               g.input_axis.offset(along(unit.begin() + step, g.length));
            element[k] = convert<Value>(load_element<Input, INPUT_ALIGNED>(from));
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int i = first + k * THREADS, step = step_of(i), column = column_of(i);
            if (i >= count || column >= unit.width || step >= unit.count) continue;
            *element_of_stage(data, step, column) = convert<Staged>(element[k]);
        }
    }
    if (thread < LANES) fill_last_span(unit, data);
}

// ---------------------------------------------------------------------------------------------------------------------
// Prefetches. A unit keeps a stage until all units above it are added up, and waits for the slowest of them. So each
// unit is asked for a round of tickets ahead, by whichever block: on an H200 a stage of (16777216, 16) float32 is then
// full 2.1 us after it was taken and not 3.2. There it stays until it is copied: that array then takes 0.530 ms and not
// 0.534, (65536, 2048) int32 summed in int64 0.399 and not 0.406.

static_assert(!PREFETCHED || (LOAD != BY_ELEMENTS && !INPUT_TURNED && !SHIFTED), "");

// By all loaders. The steps of a dense unit are one run of bytes. Of rows whose elements lie apart only the beginning
// is asked for.
__device__ void prefetch_strip(const Work& work, const Unit& unit, const char* first, int thread) {
    constexpr int ACROSS = DENSE ? 1 : (PITCH + LINE_BYTES - 1) / LINE_BYTES;
    const Index pitch = DENSE ? LINE_BYTES : work.g.input_axis.stride[0];
    const int rows = DENSE ? (unit.count * PITCH + LINE_BYTES - 1) / LINE_BYTES : unit.count;
#pragma unroll 4
    for (int i = thread; i < rows * ACROSS; i += LOADERS * LANES) {
        const int place = i % ACROSS * LINE_BYTES;
        if (place < unit.width * SIZE) prefetch_line<EVICTION>(first + i / ACROSS * pitch + place);
    }
}

// Of the whole rows that strips side by side have in common, the lines that come to this one as its share: so each
// block asks for a run of memory. (65536, 4096) int8 summed in int64 takes an H200 0.6167 ms so, and 0.6192 ms where
// blocks ask for 32 bytes of each of their own rows.
__device__ void prefetch_share(const Work& work, const Unit& unit, const char* first, int thread) {
    const Index bytes = work.cut.inner * SIZE, step = work.g.input_axis.stride[0];
    const unsigned across = static_cast<unsigned>(work.cut.across), strip = static_cast<unsigned>(unit.strip) % across;
    const unsigned lines = static_cast<unsigned>(bytes / LINE_BYTES) + 1;
    const unsigned all = static_cast<unsigned>(unit.count) * lines;
    const unsigned share = (all + across - 1) / across, end = all - share < strip * share ? all : (strip + 1) * share;
    const char* row = first - static_cast<Index>(strip) * (APART * SIZE);
#pragma unroll 4
    for (unsigned i = strip * share + thread; i < end; i += LOADERS * LANES) {
        const Index place = static_cast<Index>(i % lines) * LINE_BYTES;
        prefetch_line<EVICTION>(row + static_cast<Index>(i / lines) * step + (place < bytes ? place : bytes - 1));
    }
}

__device__ void prefetch_unit(const Work& work, const Unit& unit, int thread) {
    if (!unit.exists()) return;
    const Index lowest = REVERSE ? work.g.length - unit.begin() - unit.count : unit.begin();
    const char* first = unit.input + lowest * work.g.input_axis.stride[0];
    if constexpr (PREFETCHED == 2) prefetch_share(work, unit, first, thread);
    else prefetch_strip(work, unit, first, thread);
}

// ---------------------------------------------------------------------------------------------------------------------

__device__ void load_unit(const Work& work, const Visit& visit, int thread) {
    const Unit& unit = visit.unit;
    if constexpr (LOAD == IN_BULK) {
        copy_in_bulk(work, unit, visit.stage.full, visit.data);
    } else if constexpr (LOAD == BY_COPIES) {
        copy_in_pieces(work, unit, visit.stage.full, visit.data, thread);
    } else {
        copy_by_elements(work, unit, visit.data, thread);
        visit.stage.full.arrive();
    }
    if (PREFETCHED) prefetch_unit(work, unit_of(work, unit.place + static_cast<Index>(gridDim.x)), thread);
}
