// How the loaders of normalization_stream.cu fill a stage.
//
// Runs that are long and aligned are loaded by bulk copies, one for each; a single run by one copy at any address, as
// are short runs together with small gaps between them; other runs by threads, of whom none waits for what it copies;
// what is smaller than a copy, and elements with gaps, by ordinary loads.
//
// Constants that the plan sets: those of normalization_stream.cu.
#pragma once

#include "normalization_stream.cuh"

// Scale and bias that every group reads again are to stay in the cache, so input and output leave it first: 64 groups
// of 16 MiB took 0.87 ms on an H200, and 1.0 without either hint. Where nothing is read again hints cost up to 4 %.
__device__ void copy_in_bulk(Gate& full, char* to, const char* from, unsigned bytes) {
    full.template arrive_with_copy<OPERANDS_AGAIN ? EVICT_FIRST : EVICTION>(to, from, bytes);
}

// The copy engine moves whole 16 bytes. The few elements of a run before and after them are copied one by one, without
// waiting for them where they are not too small: an H200 needs 0.56 ms for 4096 rows of 65536 floats that are padded by
// one, and 0.61 with a loader that waits.
constexpr bool HAS_EDGES = !INPUT_PACKED || ENDS == CUT, EDGES_BY_COPIES = HAS_EDGES && SIZE >= 4 && INPUT_ALIGNED;
constexpr int EDGE = EDGES_BY_COPIES ? SIZE : 1;  // bytes at a time

__device__ void copy_edges(char* to, const char* from, int head, int bulk, int bytes) {
    const int lane = lane_index();
    int i = (lane - 1) * EDGE;
    if (i >= head) i += bulk;
    fence_async_proxy();  // of what was copied here the last time round
    if (lane > 0 && i < bytes) {
        if constexpr (EDGES_BY_COPIES) copy_async<EDGE>(to + i, from + i);
        else to[i] = from[i];
    }
    __syncwarp();
}

// One run, by a warp.
__device__ void copy_run(Gate& full, char* to, const char* from, int bytes) {
    const int place = static_cast<int>(reinterpret_cast<unsigned long long>(from) % 16);
    const int before = (16 - place) % 16, head = before < bytes ? before : bytes, bulk = (bytes - head) / 16 * 16;
    if (HAS_EDGES) copy_edges(to, from, head, bulk, bytes);
    if (lane_index() == 0 && bulk > 0) copy_in_bulk(full, to + head, from + head, bulk);
    else if (EDGES_BY_COPIES) full.arrive_after_copies();
    else full.arrive();
}

// Many runs, by a warp in which each lane has one.
__device__ void copy_runs(const Work& work, const Unit& unit, const char* of_group, Gate& full, char* data) {
    const Index run = work.g.reduced.size[REDUCED_RANK - 1], begin = unit.begin, end = begin + unit.count;
    const Index of_lane = (work.g.reduced.quotient(begin, REDUCED_RANK - 1) + lane_index()) * run;
    const Index first = of_lane < begin ? begin : of_lane, last = of_lane + run < end ? of_lane + run : end;
    if (first < last) {
        copy_in_bulk(full, data + (first - begin) * SIZE, address_of(of_group, work.g, first),
                     static_cast<unsigned>(last - first) * SIZE);
    } else {
        full.arrive();
    }
}

// Where an element of run k is in a seam, if it is: its chunk lies in the next run too, or in the one before.
__device__ int place_in_seam(const Staged& unit, const Geometry& g, const RunPart& part, int k, int number) {
    const int chunk = number / CHUNK * CHUNK;
    const bool begins = chunk < part.begin_of_run, ends = chunk + CHUNK > part.end_of_run;
    if (!begins && !ends) return -1;
    const int end = begins ? unit.position(g, part.begin_of_run, k - 1) : unit.position(g, part.end_of_run, k);
    return seam_behind(end) + (number - chunk) * SIZE;
}

// Runs that end anywhere, by a warp of which each lane copies what is whole pieces of 16 bytes of one run. While these
// are on their way, all lanes put what is left at either end of each run there, and the seams.
__device__ void copy_runs_apart(const Work& work, const Unit& unit, const Arrays& group, Gate& full, char* data) {
    constexpr int AT_ONCE = LOADER_CREWS > 2 ? 4 : 2;  // as runs are short, and a unit has many
    constexpr int RUNS = RunEnd::RUNS, OF_LANES = RunEnd::LANES_OF_RUN;
    const Geometry& g = work.g;
    const Staged staged(work, group, unit);
    const int runs = runs_of(staged, g), lane = lane_index();
    const char* const from = address_of(group.input, g, unit.begin);
    const Index more = g.reduced.stride[OF_INPUT][0] - staged.run(g) * SIZE - RUN_GAP;  // between runs than in a stage
    const RunPart of_lane(staged, g, lane);
    const int begin = (of_lane.position + 15) / 16 * 16, bytes = of_lane.behind / 16 * 16 - begin;
    if (lane < runs && bytes > 0) {
        copy_in_bulk(full, data + begin, from + (begin - staged.offset + lane * more), static_cast<unsigned>(bytes));
    } else {
        full.arrive();
    }
#pragma unroll 1
    for (int first = 0; first < runs; first += AT_ONCE * RUNS) {
        Input element[AT_ONCE];
        int position[AT_ONCE], in_seam[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int k = first + j * RUNS + lane / OF_LANES;
            const RunPart part(staged, g, k);
            const RunEnd end(part, k < runs);
            position[j] = end.exists && !end.in_piece ? end.position : -1;
            in_seam[j] = end.exists ? place_in_seam(staged, g, part, k, end.number) : -1;
            const Index offset = end.exists ? end.position - staged.offset + k * more : 0;
            element[j] = load_element<Input, true>(from + offset);
        }
        fence_async_proxy();  // of what was put here the last time round
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (position[j] >= 0) *reinterpret_cast<Input*>(data + position[j]) = element[j];
            if (in_seam[j] >= 0) *reinterpret_cast<Input*>(data + in_seam[j]) = element[j];
        }
    }
    full.arrive();
}

// What a thread copies without waiting for it: a chunk, or a grain or an element of many runs. Those of one run with
// gaps are loaded faster: every second of 4096 x 65536 floats took 0.53 ms on an H200, and 0.55 by copies. Those of
// many runs are not: padded by one, 64 x 256 x 128 x 128 of them took 0.90 ms by loads and 0.71 by copies.
constexpr int COPIED = INPUT_PACKED ? CHUNK : INPUT_GRAIN;
constexpr bool BY_THREADS = COPIED * SIZE >= 4 && INPUT_ALIGNED && (INPUT_PACKED || REDUCED_RANK > 1);
constexpr int COPY_BYTES = BY_THREADS ? COPIED * SIZE : 4;

// By all loaders.
__device__ void copy_by_threads(const Work& work, const Unit& unit, const Arrays& group, Gate& full, char* data) {
    constexpr int THREADS = LOADERS * LANES;
    const int whole = unit.count / COPIED * COPIED, rest = whole + static_cast<int>(threadIdx.x);
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) * COPIED; i < whole; i += THREADS * COPIED) {
        copy_async<COPY_BYTES>(data + i * SIZE, address_of(group.input, work.g, unit.begin + i));
    }
    if (rest < unit.count) {
        reinterpret_cast<Input*>(data)[rest] = load_input(group, work.g, unit.begin + rest);
        copy_async_wait_all();
        full.arrive();
    } else {
        full.arrive_after_copies();
    }
}

// Runs of halves that begin anywhere, by a crew of loaders, who wait for what they load: chunks of a unit are put
// together from the two pieces of 16 bytes that they lie in, where these are the run's. A loader has neighbouring rows.
// Each lane loads the piece that its chunk begins in, and is given the other one by the lane that has the next chunk.
// What is left of a run, less than 16 elements at each end, is copied by the lanes of a warp, while these are on their
// way: (64, 192, 71, 71) over 0, 2, 3 took an H100 126 us so, and 136 if it came first.
__device__ bool lies_in_pieces(Index place, Index run) { return place >= CHUNK && place + 2 * CHUNK <= run; }

__device__ void copy_ends(const Work& work, const Unit& unit, const Arrays& group, Input* to, int loader) {
    constexpr int AT_ONCE = 4, INNER = REDUCED_RANK - 1;
    const Index run = work.g.reduced.size[INNER], first = work.g.reduced.quotient(unit.begin, INNER);
    const Index runs = work.g.reduced.quotient(unit.begin + unit.count - 1, INNER) - first + 1;
    const Index place = lane_index() < LANES / 2 ? lane_index() : run - LANES + lane_index();
    for (Index r = loader; r < runs; r += AT_ONCE * LOADERS) {
        Input element[AT_ONCE];
        int number[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const Index begin = (first + r + k * LOADERS) * run - unit.begin, i = begin + place;
            const bool exists = r + k * LOADERS < runs && 0 <= i && i < unit.count;
            const Index of_chunk = i / CHUNK * CHUNK;
            const bool in_pieces = of_chunk + CHUNK <= unit.count && lies_in_pieces(of_chunk - begin, run);
            number[k] = exists && !in_pieces ? static_cast<int>(i) : -1;
            element[k] = load_input(group, work.g, unit.begin + (number[k] < 0 ? 0 : number[k]));
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (number[k] >= 0) to[number[k]] = element[k];
        }
    }
}

// The piece that a chunk begins in, which is loaded if all of it is the run's.
struct FirstPiece {
    PieceOf<16> piece;
    unsigned within;  // bytes before the chunk
    bool in_pieces;   // whether the chunk is put together

    // Of the chunk of a unit from element i on. In place of what is not loaded it is `other`.
    __device__ void load(const Work& work, const Unit& unit, const Arrays& group, const char* other, int i) {
        constexpr int INNER = REDUCED_RANK - 1;
        const Index run = work.g.reduced.size[INNER], number = unit.begin + i;
        const Index place = number - work.g.reduced.quotient(number, INNER) * run;
        const bool is_loaded = i <= unit.count && place >= CHUNK && place + CHUNK <= run;
        const char* from = is_loaded ? address_of(group.input, work.g, number) : other;
        within = static_cast<unsigned>(reinterpret_cast<size_t>(from) % 16);
        piece = *reinterpret_cast<const PieceOf<16>*>(from - within);
        in_pieces = i + CHUNK <= unit.count && lies_in_pieces(place, run);
    }
};

__device__ void copy_by_pieces(const Work& work, const Unit& unit, const Arrays& group, char* data, int loader) {
    constexpr int OF_LOADER = UNIT_ROWS / LOADERS, ROW_LENGTH = LANES * CHUNK;
    static_assert(!IN_PIECES || UNIT_ROWS % LOADERS == 0, "all loaders copy as much");
    const int lane = lane_index(), first = loader * OF_LOADER * ROW_LENGTH + lane * CHUNK;
    const char* const other = address_of(group.input, work.g, CHUNK);  // in a piece of the first run
    FirstPiece of_row[OF_LOADER + 1];                                  // the last one of lane 0 alone
#pragma unroll
    for (int k = 0; k <= OF_LOADER; k++) {
        if (k < OF_LOADER || lane == 0) of_row[k].load(work, unit, group, other, first + k * ROW_LENGTH);
    }
    copy_ends(work, unit, group, reinterpret_cast<Input*>(data), loader);
#pragma unroll
    for (int k = 0; k < OF_LOADER; k++) {
        const PieceOf<16> low = of_row[k].piece, next = of_row[k + 1].piece;
        const PieceOf<16> high = shuffle(lane == 0 ? next : low, (lane + 1) % LANES);
        const PieceOf<16> chunk = bytes_across<SIZE>(low, high, of_row[k].within);
        char* const to = data + (first + k * ROW_LENGTH) * SIZE;
        if (of_row[k].in_pieces) *reinterpret_cast<PieceOf<16>*>(to) = chunk;
    }
}

// By all loaders, who wait for what they load.
__device__ void copy_by_elements(const Work& work, const Unit& unit, const Arrays& group, Gate& full, char* data) {
    constexpr int AT_ONCE = SIZE == 2 ? 32 : 16, THREADS = LOADERS * LANES;
    Input* to = reinterpret_cast<Input*>(data);
    for (int first = threadIdx.x; first < unit.count; first += AT_ONCE * THREADS) {
        Input element[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int i = first + k * THREADS < unit.count ? first + k * THREADS : unit.count - 1;
            element[k] = load_input(group, work.g, unit.begin + i);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (first + k * THREADS < unit.count) to[first + k * THREADS] = element[k];
        }
    }
    full.arrive();
}

// Units that the copy engine loads at a time, one for each crew where runs lie apart. More get in each other's way: for
// 64 x 256 x 128 x 128 floats over 1, 2, 3 an H200 needs 0.567 ms, 0.582 with one more and 0.585 with one less. With
// scale and bias of every element it needs 0.650 ms with three, 0.622 with two and 0.719 with one.
constexpr int BEST_IN_FLIGHT = HAS_SEAMS ? LOADER_CREWS : OPERANDS_KEPT > 0 ? 2 : 3;
constexpr int IN_FLIGHT = STAGES < BEST_IN_FLIGHT ? STAGES : BEST_IN_FLIGHT;

__device__ void await_loaded(const Work& work, int visit) {
    if (visit >= 0) work.stage(visit).full.wait(use_of(visit));
}

__device__ void load_unit(const Work& work, const Unit& unit, const Arrays& group, int loader) {
    Gate& full = work.stage(unit.visit).full;
    char* const data = work.data(unit.visit);
    if constexpr (IN_PIECES) {
        if (unit.count > 0) copy_by_pieces(work, unit, group, data, loader);
        full.arrive();
    } else if constexpr (!BULK && BY_THREADS) {
        copy_by_threads(work, unit, group, full, data);
    } else if (!BULK) {
        copy_by_elements(work, unit, group, full, data);
    } else if constexpr (HAS_SEAMS) {
        copy_runs_apart(work, unit, group, full, data);
    } else if (ONE_RUN || GAPS > 0) {
        const Staged staged(work, group, unit);
        const int bytes = unit.count > 0 ? staged.position(work.g, unit.count - 1, 0) + SIZE - staged.offset : 0;
        copy_run(full, data + staged.offset, address_of(group.input, work.g, unit.begin), bytes);
    } else {
        copy_runs(work, unit, group.input, full, data);
    }
}

// Crews of loaders take turns: while one puts chunks together, what the other one asked for is on its way. (64, 192,
// 71, 71) float16s over 0, 2, 3 took an H100 116 us by 8 loaders and 109 by two crews of 4, (256, 768, 17, 17) 143
// and 148.
__device__ void load_units(const Work& work, TurnOf turn, const Team& team, int warp) {
    const int crew = warp / LOADERS, loader = warp % LOADERS;
    Draws draw(team);
    for (; turn.exists(); turn.move(1)) {
        const Arrays group = work.group(turn.bundle);
#pragma unroll 1
        for (int i = 0; i < PIECE; i++) {
            const Unit unit = work.unit(turn, i);
            if (unit.visit % LOADER_CREWS != crew) continue;
            await_emptied(work, unit.visit);
            if (BULK) await_loaded(work, unit.visit - IN_FLIGHT);
            load_unit(work, unit, group, loader);
        }
        if (DRAWN > 0 && threadIdx.x == 0) draw.after(turn.number);
    }
}
