// How the taker and the loaders of scan_stream.cu fill a stage. Constants that the plan sets: those of scan_stream.cu.
//
// It holds a tile in the order of memory. Where a line ends within it, the rows that are added up at a time with its
// last one are filled up, so that who reads these does not ask for the end: that took a seventh of the time to compile,
// and more registers. Rows behind them are left out by everybody: (400, 50001) float32 take an H200 48 us, and 86 where
// they were filled up too, and the edges of such a tile were waited for.
#pragma once

#include "scan_stream.cuh"

// Fills what the end of a line leaves of the rows that are added up together with its last one, but for some elements
// beside it; a whole tile would begin at `to`. The next tile waits for the loader: by elements (2048, 50257) float16s
// took an H200 162 us, by packs they take 121.
__device__ void fill_rest(const Tile& tile, char* to, int thread, int threads, int beside = 0) {
    constexpr int SIZE = sizeof(Staged), TOGETHER = ADDED_TOGETHER * ROW, OF_PACK = SIZE < 16 ? 16 / SIZE : 1;
    if (tile.count == TILE) return;
    const int begin = tile.count + beside, end = (tile.count + TOGETHER - 1) / TOGETHER * TOGETHER;
    const int count = end > begin ? end - begin : 0;
    char* const from = to + (REVERSE ? TILE - end : begin) * SIZE;
    const int place = static_cast<int>(reinterpret_cast<size_t>(from) % 16) / SIZE;
    const int single = STAGED_ALIGNED ? up_to(place > 0 ? OF_PACK - place : 0, count) : count;
    const int packs = (count - single) / OF_PACK;
    const Staged nothing = convert<Staged>(Operation::template neutral<Accumulator>());
    Pack<Staged, OF_PACK> pack;
#pragma unroll
    for (int j = 0; j < OF_PACK; j++) pack.element[j] = nothing;
#pragma unroll 1
    for (int i = thread; i < packs; i += threads) {
        *reinterpret_cast<Pack<Staged, OF_PACK>*>(from + (single + i * OF_PACK) * SIZE) = pack;
    }
#pragma unroll 1
    for (int i = thread; i < count - packs * OF_PACK; i += threads) {
        store_element<STAGED_ALIGNED>(from + (i < single ? i : i + packs * OF_PACK) * SIZE, nothing);
    }
    if (BULK) fence_async_proxy();  // the copy engine writes here next
}

// Where the bytes of a tile begin and end that the copy engine moves, 16 at a time; the edges are less than that.
struct Inner {
    int begin, end, bytes;
    int before, behind;  // bytes, of the words that the tile begins and ends in

    __device__ Inner(const char* from, const Tile& tile) {
        const unsigned long long address = reinterpret_cast<unsigned long long>(from);
        bytes = tile.count * static_cast<int>(SIZE_IN);
        begin = SHIFTED ? static_cast<int>(-address % 16) : 0;
        if (begin > bytes) begin = bytes;
        end = begin + (bytes - begin) / 16 * 16;
        before = sizeof(Input) % 4 == 0 ? 0 : static_cast<int>(address % 4);
        behind = sizeof(Input) % 4 == 0 ? 0 : static_cast<int>(-(address + bytes) % 4);
    }

    // Whether words may be read of which others have a part. In place, these store there meanwhile.
    __device__ bool may_read_words(const Work& work, const char* from) const {
        if (before == 0 && behind == 0) return true;
        const Geometry& g = work.g;
        const char* last = work.input + g.input_line.offset(g.lines - 1) + g.length * SIZE_IN;
        return work.input != work.output && from - before >= work.input && from + bytes + behind <= last;
    }

    // The edges, of which each lane moves one byte or one word.
    template <int UNIT, typename Move> __device__ void for_edges(const Move& move) const {
        const int lane = lane_index(), i = lane % 16 * UNIT, place = lane < 16 ? i - (UNIT > 1 ? before : 0) : end + i;
        if (place < (lane < 16 ? begin : bytes)) move(place);
    }
};

// By a warp. The edges come by copies of a word each: a loader that waited for them would pass on tiles only as often
// as memory answers. Of small elements a word may have others' too, which come along, beside the tile.
template <typename HardwareGate>
__device__ void copy_in_bulk(const Work& work, const Tile& tile, HardwareGate& full, char* data) {
    const char* from = work.input + work.g.input_line.offset(tile.line) + tile.lowest(work.g.length) * SIZE_IN;
    char* to = data + stage_offset(work, tile) + lead(tile);
    const Inner inner(from, tile);
    if (EDGES_IN_WORDS && inner.may_read_words(work, from)) {
        inner.for_edges<4>([&](int place) { copy_async<4>(to + place, from + place); });
        const int beside = (REVERSE ? inner.before : inner.behind) / static_cast<int>(SIZE_IN);
        fill_rest(tile, to - lead(tile), lane_index(), LANES, beside);
        full.arrive_after_copies();
    } else {
        inner.for_edges<1>([&](int place) { to[place] = from[place]; });
        fill_rest(tile, to - lead(tile), lane_index(), LANES);
        full.arrive();
    }
    if (SHIFTED) fence_async_proxy();  // what is moved by words or bytes lies where copies of other turns write
    __syncwarp();
    if (lane_index() > 0) return;
    const int bulk = inner.end - inner.begin;
    if (bulk > 0) full.template arrive_with_copy<EVICTION>(to + inner.begin, from + inner.begin, bulk);
    else full.arrive();
}

// By a team, COUNT elements at a time.
template <int COUNT> __device__ void copy_by_loads(const Work& work, const Tile& tile, char* data, int thread) {
    // 2^28 float32 take an H200 0.59 ms with 2 and 8, 0.56 ms with 4; 2^27 int64 0.603 ms with 4, 0.596 with 8, and
    // 0.605 with 10.
    constexpr int AT_ONCE = sizeof(Staged) < 8 ? 4 : 8, THREADS = LOADERS * LANES;
    using Piece = Pack<Input, COUNT>;
    const char* from = work.input + work.g.input_line.offset(tile.line);
    Pack<Staged, COUNT>* to = reinterpret_cast<Pack<Staged, COUNT>*>(data + lead(tile));
    const Index lowest = tile.lowest(work.g.length);
    const int pieces = tile.count / COUNT;
    for (int first = 0; first < pieces; first += AT_ONCE * THREADS) {
        const bool whole = first + AT_ONCE * THREADS <= pieces;
        Piece piece[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int i = first + k * THREADS + thread, last = pieces - 1;
            const Index offset = work.g.input_axis.offset(lowest + (whole || i < last ? i : last) * COUNT);
            piece[k] = load_element<Piece, INPUT_ALIGNED>(from + offset);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int i = first + k * THREADS + thread;
            if (!whole && i >= pieces) continue;
#pragma unroll
            for (int j = 0; j < COUNT; j++) to[i].element[j] = convert<Staged>(piece[k].element[j]);
        }
    }
}

__device__ void copy_by_loads(const Work& work, const Tile& tile, Gate& full, char* data, int thread) {
    if (tile.count == TILE) copy_by_loads<PIECE>(work, tile, data, thread);
    else copy_by_loads<1>(work, tile, data, thread);
    fill_rest(tile, data, thread, LOADERS * LANES);
    full.arrive();
}

// By all loaders: a whole tile by asynchronous copies. The end of a line is moved by the threads themselves, as what
// they fill up beside it.
template <typename HardwareGate>
__device__ void copy_by_copies(const Work& work, const Tile& tile, HardwareGate& full, char* data, int thread) {
    constexpr int THREADS = LOADERS * LANES, SIZE = sizeof(Input);
    const char* from = work.input + work.g.input_line.offset(tile.line);
    const Index lowest = tile.lowest(work.g.length);
    if (tile.count == TILE) {
#pragma unroll 8
        for (int i = thread * PIECE; i < TILE; i += THREADS * PIECE) {
            copy_async<PIECE * SIZE>(data + i * SIZE, from + work.g.input_axis.offset(lowest + i));
        }
        full.arrive_after_copies();
        return;
    }
    Input* to = reinterpret_cast<Input*>(data + lead(tile));
#pragma unroll 1
    for (int i = thread; i < tile.count; i += THREADS) {
        to[i] = *reinterpret_cast<const Input*>(from + work.g.input_axis.offset(lowest + i));
    }
    fill_rest(tile, data, thread, THREADS);
    full.arrive();
}

// ---------------------------------------------------------------------------------------------------------------------
// Taking tiles, and who loads them.

// The launch ahead takes a while to end, and tickets take as long as memory. By then it may have found the tile that
// has the number of the block, whoever gets it. Of many launches in a row, 2^21 float32 take 0.0076 ms with this and
// 0.0083 ms without, 2^24 0.0379 and 0.0387 ms.
__device__ void prefetch_first_tile(const char* input, const Geometry& g) {
    const Tile tile = Tile::of(static_cast<Index>(blockIdx.x), g);
    if (BULK && threadIdx.x == 2 * LANES) prefetch(input, g, tile.line, tile.lowest(g.length), tile.count);
}

// By one thread, as are the next two.
__device__ void take_tile(const Work& work, int visit, Index ticket) {
    Stage& stage = work.stage(visit);
    if (visit >= STAGES) stage.emptied.wait(turn(visit) - 1);
    stage.tile = Tile::of(ticket, work.g);
    stage.taken.arrive();
}

// After the first visit that found no tile: markers and teams take turns, and find the end at visits of their own.
__device__ void take_end(const Work& work, int visit, Index ticket) {
    constexpr int TURNS = MARKERS > TEAMS ? MARKERS : TEAMS;
    let_next_launch_begin();
    work.tickets.prepare_next_launch(ticket);
    for (int k = 1; k < TURNS; k++) take_tile(work, visit + k, ticket);
}

__device__ void take_tiles(const Work& work) {
    Index ticket = work.tickets.of_block();
    int visit = 0;
    for (;; visit++) {
        take_tile(work, visit, ticket);
        if (ticket >= work.tickets.count) break;
        ticket = work.tickets.next();
    }
    take_end(work, visit, ticket);
}

// Ordinary loads pass through registers, and who waits for them asks for no more. So teams take turns.
__device__ void load_in_turns(const Work& work, int team, int thread) {
    for (int visit = team; await_tile(work, visit); visit += TEAMS) {
        Stage& stage = work.stage(visit);
        copy_by_loads(work, stage.tile, stage.full, work.data(visit), thread);
    }
}

__device__ void take_and_load(const Work& work, int thread) {
    Index ticket = work.tickets.of_block();
    int visit = 0;
    for (;; visit++) {
        if (thread == 0) take_tile(work, visit, ticket);
        if (!await_tile(work, visit)) break;
        Stage& stage = work.stage(visit);
        const Tile tile = stage.tile;
        const Index next = thread == 0 ? work.tickets.next() : 0;  // comes while the tile does
        if constexpr (BULK) copy_in_bulk(work, tile, stage.full, work.data(visit));
        else if constexpr (LOAD == BY_COPIES) copy_by_copies(work, tile, stage.full, work.data(visit), thread);
        ticket = next;
    }
    if (thread == 0) take_end(work, visit, ticket);
}

__device__ void load_tiles(const Work& work, int thread) {
    constexpr int THREADS = LOADERS * LANES;
    if (TAKERS == 0) take_and_load(work, thread);
    else if (thread >= LANES) load_in_turns(work, (thread - LANES) / THREADS, (thread - LANES) % THREADS);
    else if (thread == 0) take_tiles(work);
}
