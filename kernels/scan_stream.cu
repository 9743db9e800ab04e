// Running sums and products of long lines, which read their input once: an assembly line in every block.
//
// A line is cut into tiles (tree.cuh). Blocks stay on the GPU and take one tile after the other by tickets, in the
// order of the tiles. Each block has a ring of stages, through which its warps pass the tiles from hand to hand:
//
//     taker         takes a ticket; unless loads are ordinary ones, it is the first loader         taken
//     loaders       copy the tile into a stage                                                     full
//     markers       set a bit for each head of a segment (segmented scans only)                    marked
//     adders        add up the rows                                                                summed
//     publisher     publishes the tile's aggregate, and turns the rows' into prefixes              published
//     folder        folds the aggregates of all tiles before, which others published               folded
//     scanners      add both to the prefixes within the rows and store; the stage is free          emptied
//
// On the right stand the gates (gate.cuh) that say so. Every block folds all aggregates itself: there is
// no chain from tile to tile, and what is added in which order depends on the tiles' numbers alone (stream.cuh).
//
// Loops that are not in a hurry are not unrolled: that is a quarter of the time to compile.
//
// On an H200 the ring hides a fold of about 1 us; stages of 32 KB and one folder reach 96 % of copy speed.
//
// Constants that the plan sets, beside those of scan.cuh:
//     LOAD          2: one warp loads by bulk copies; 1: an asynchronous copy for each chunk or element, which no
//                   register waits for; 0: ordinary loads. 1 and 0 take any strides
//     HARDWARE_GATES   whether there are any (gate.cuh), as 1 and 2 need
//     STAGES, LOADERS, MARKERS, ADDERS, SCANNERS   the last four in warps
//     TEAMS         of so many loaders each, which take turns; more than one for ordinary loads only
//     PARTED        1: what is more than FIRST_PART of a tile waits until the tile before has come: with more on its
//                   way, the aggregates that folders ask for come later
//     WIDENED       1: rows are those of widened_rows.cuh
//     BY_LINES      1: rows that do not lie in whole chunks are stored by lines of the cache, or where elements are
//                   small by pieces of 16 bytes; only dense outputs
//     IN_PIECES     1: whole rows are stored 16 bytes at a time, which are less than a chunk of outputs
// Dynamic shared memory: STAGES * STAGE_BYTES.
#include "gate.cuh"
#include "runs.cuh"
#include "samples.cuh"
#include "stream.cuh"
#include "widened_rows.cuh"

using Staged = Select<sizeof(Input) <= sizeof(Value), Input, Value>::type;  // what a stage holds
using Gate = GateOf<HARDWARE_GATES>::type;

constexpr bool BULK = LOAD == IN_BULK;
constexpr bool STAGED_ALIGNED = !BULK || INPUT_ALIGNED;
constexpr bool STAGED_PACKED = !BULK || INPUT_PACKED;
constexpr bool SHIFTED = BULK && !(INPUT_PACKED && CHUNK * sizeof(Input) == 16);  // tiles begin at any address
constexpr bool EDGES_IN_WORDS = SHIFTED && sizeof(Input) % 4 == 0 && INPUT_ALIGNED;  // of tiles
constexpr int CACHE_LINE = 128;                  // bytes
constexpr int FIRST_PART = 24576;                // bytes; with 16384 2^24 float32 take 0.0391 ms, 0.0387 ms with these
constexpr int PIECE = INPUT_PACKED ? CHUNK : 1;  // elements that other loaders move at a time
constexpr int STAGE_BYTES = TILE * static_cast<int>(sizeof(Staged)) + (SHIFTED ? CACHE_LINE : 0);

// Rows that a warp has in registers at a time. Eight are added as fast as sixteen, in less code, unless they take more
// instructions; where ordinary loads leave the others less time they are faster (2^28 int64 1.20 ms, and 1.23 with
// sixteen), and with heads sixteen spill (one segment of 2^28 float32 0.580 ms in place of 0.509).
//
// Two are scanned as fast as four, and faster with heads, which take registers too: one segment of 2^28 float32 0.510
// and 0.520 ms. Four are faster where rows have few elements or take more instructions, or where loads by warps leave
// the others less time: 2^28 int64 1.020 ms and 1.037 with two, every second of 2^28 float32 0.410 and 0.424. Of rows
// that take more registers there is room for two.
constexpr bool SLOW_TO_ADD = SHIFTED || sizeof(Staged) == 1;
constexpr bool SMALL_HEADED = SEGMENTED && sizeof(Accumulator) <= 4;
constexpr bool QUICK_TO_SCAN = BULK ? sizeof(Staged) <= 4 : LOAD == BY_COPIES && SMALL_HEADED;
constexpr bool SLOW_TO_SCAN = SLOW_TO_ADD || WIDENED || !QUICK_TO_SCAN;
constexpr int ADDED_AT_ONCE = SLOW_TO_ADD ? 16 : 8;
constexpr bool SPREAD = !OUTPUT_PACKED && !WIDENED;  // rows leave through shared memory
constexpr bool TWO_BY_LINES = BY_LINES && sizeof(Output) >= 4;
constexpr bool HAS_ROOM_FOR_FOUR = !TWO_BY_LINES && (WIDENED || sizeof(Accumulator) * CHUNK <= 32);
constexpr int SCANNED_AT_ONCE = SLOW_TO_SCAN && HAS_ROOM_FOR_FOUR ? 4 : 2;

constexpr int TAKERS = LOAD == BY_ELEMENTS ? 1 : 0;
constexpr int FIRST_MARKER = TAKERS + TEAMS * LOADERS, FIRST_ADDER = FIRST_MARKER + MARKERS,
              PUBLISHER = FIRST_ADDER + ADDERS, FOLDER = PUBLISHER + 1, FIRST_SCANNER = FOLDER + 1,
              WARPS = FIRST_SCANNER + SCANNERS;

static_assert((MARKERS > 0) == SEGMENTED && MARKERS <= STAGES, "a marker must not be a turn behind or ahead");
static_assert(TEAMS <= STAGES && (TEAMS == 1 || TAKERS == 1), "nor a team");
static_assert(TILE_ROWS % ADDERS == 0 && TILE_ROWS % SCANNERS == 0, "each has as many rows as the others");

struct Stage {
    Gate taken, full, marked, summed, published, folded, emptied;
    Tile tile;
    Item row[TILE_ROWS + 1];  // at r + 1 the aggregate of row r, then the prefix of the tile, at last of the line
    Heads heads;
};

struct Work {
    const char* input;
    char* output;
    const Geometry& g;
    Stage (&stages)[STAGES];
    char* ring;
    Tickets tickets;

    __device__ Stage& stage(int visit) const { return stages[visit % STAGES]; }
    __device__ char* data(int visit) const { return ring + visit % STAGES * STAGE_BYTES; }
};

// How often a stage was used before `visit`.
__device__ int turn(int visit) { return visit / STAGES; }

// Waits for the tile of a visit; false when there are no more.
__device__ bool await_tile(const Work& work, int visit) {
    Stage& stage = work.stage(visit);
    stage.taken.wait(turn(visit));
    return stage.tile.ticket < work.tickets.count;
}

// ---------------------------------------------------------------------------------------------------------------------
// Loaders. A stage holds a tile in the order of memory. Where a line ends within it, the rows that are added up at a
// time with its last one are filled up, so that who reads these does not ask for the end: that took a seventh of the
// time to compile, and more registers. Rows behind them are left out by everybody: (400, 50001) float32 take an H200 48
// us, and 86 where they were filled up too, and the edges of such a tile were waited for.

// How many bytes before the elements are filled: a line that is traversed in reverse ends at its lowest address.
__device__ int lead(const Tile& tile) { return REVERSE ? (TILE - tile.count) * static_cast<int>(sizeof(Staged)) : 0; }

// Where in its stage a whole tile begins. Bulk copies keep the place within 16 bytes, and are faster where they keep
// that within a line of the cache: three lines of 67108865 float32 take 0.437 ms with this, and 0.453 ms without.
__device__ int stage_offset(const Work& work, const Tile& tile) {
    if (!SHIFTED) return 0;
    const char* address = work.input + work.g.input_line.offset(tile.line) +
                          tile.lowest(work.g.length) * static_cast<Index>(sizeof(Input));
    return static_cast<int>((reinterpret_cast<unsigned long long>(address) - lead(tile)) % CACHE_LINE);
}

// Fills what the end of a line leaves of the rows that are added up together with its last one; a whole tile would
// begin at `to`.
__device__ void fill_rest(const Tile& tile, char* to, int thread, int threads) {
    constexpr int SIZE = sizeof(Staged), TOGETHER = ADDED_AT_ONCE * ROW;
    if (tile.count == TILE) return;
    const int end = (tile.count + TOGETHER - 1) / TOGETHER * TOGETHER;
    const Staged nothing = convert<Staged>(Operation::template neutral<Accumulator>());
    const int chunks = STAGED_PACKED ? (tile.count + CHUNK - 1) / CHUNK * CHUNK : end;  // from here on, whole ones
#pragma unroll 1
    for (int i = tile.count + thread; i < chunks; i += threads) {
        store_element<STAGED_ALIGNED>(to + (REVERSE ? TILE - 1 - i : i) * SIZE, nothing);
    }
    Pack<Staged, CHUNK> pack;
#pragma unroll
    for (int j = 0; j < CHUNK; j++) pack.element[j] = nothing;
#pragma unroll 1
    for (int i = chunks + thread * CHUNK; i < end; i += threads * CHUNK) {
        *reinterpret_cast<Pack<Staged, CHUNK>*>(to + (REVERSE ? TILE - CHUNK - i : i) * SIZE) = pack;
    }
    if (BULK) fence_async_proxy();  // the copy engine writes here next
}

// Where the bytes of a tile begin and end that the copy engine moves, 16 at a time; the edges are less than that.
struct Inner {
    int begin, end, bytes;

    __device__ Inner(const char* from, const Tile& tile) {
        bytes = tile.count * static_cast<int>(SIZE_IN);
        begin = SHIFTED ? static_cast<int>(-reinterpret_cast<unsigned long long>(from) % 16) : 0;
        if (begin > bytes) begin = bytes;
        end = begin + (bytes - begin) / 16 * 16;
    }

    // The edges, of which each lane moves one byte or one word.
    template <int UNIT, typename Move> __device__ void for_edges(const Move& move) const {
        const int lane = lane_index(), i = lane % 16 * UNIT, place = lane < 16 ? i : end + i;
        if (place < (lane < 16 ? begin : bytes)) move(place);
    }
};

// By a warp. The edges come by copies of a word each, if they are words: a loader that waited for them would pass on
// tiles only as often as memory answers.
template <typename HardwareGate>
__device__ void copy_in_bulk(const Work& work, const Tile& tile, HardwareGate& full, char* data, int visit) {
    const char* from = work.input + work.g.input_line.offset(tile.line) + tile.lowest(work.g.length) * SIZE_IN;
    char* to = data + stage_offset(work, tile) + lead(tile);
    const Inner inner(from, tile);
    if (EDGES_IN_WORDS) {
        inner.for_edges<4>([&](int place) { copy_async<4>(to + place, from + place); });
        fill_rest(tile, to - lead(tile), lane_index(), LANES);
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
    if (PARTED && bulk > FIRST_PART) {
        full.arrive_and_expect(bulk);
        full.template copy<EVICTION>(to + inner.begin, from + inner.begin, FIRST_PART);
        if (visit > 0) work.stage(visit - 1).full.wait(turn(visit - 1));
        full.template copy<EVICTION>(to + inner.begin + FIRST_PART, from + inner.begin + FIRST_PART, bulk - FIRST_PART);
    } else if (bulk > 0) {
        full.template arrive_with_copy<EVICTION>(to + inner.begin, from + inner.begin, bulk);
    } else {
        full.arrive();
    }
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
        if constexpr (BULK) copy_in_bulk(work, tile, stage.full, work.data(visit), visit);
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

// ---------------------------------------------------------------------------------------------------------------------
// Markers. Each takes every MARKERS-th tile: offsets take longer to come than a tile to pass, and as many tiles are
// marked at a time.

__device__ void mark_tiles(const Work& work, const Segments& segments, Samples& samples, Gate& sampled, int marker) {
    samples.take(segments, marker * LANES + lane_index(), MARKERS * LANES);
    sampled.arrive();
    sampled.wait(0);
    for (int visit = marker; await_tile(work, visit); visit += MARKERS) {
        Stage& stage = work.stage(visit);
        for (int word = lane_index(); word < HEAD_WORDS; word += LANES) stage.heads.word[word] = 0;
        __syncwarp();
        stage.heads.mark(segments, stage.tile.begin, samples.around(stage.tile.begin, segments));
        stage.marked.arrive();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Adders: each has some neighbouring rows of every tile.

// Lanes whose chunks lie in the same banks of shared memory begin with different elements: this one with number `turn`.
__device__ int turn_of_lane() {
    constexpr int SIZE = sizeof(Staged);
    return lane_index() * CHUNK * SIZE / 128 * (SIZE < 4 ? 4 / SIZE : 1) % CHUNK;
}

// Puts elements in order of which the first is number `turn`.
__device__ void turn_by(int turn, Staged (&element)[CHUNK]) {
#pragma unroll
    for (int step = 1; step < CHUNK; step *= 2) {
        Staged before[CHUNK];
#pragma unroll
        for (int j = 0; j < CHUNK; j++) before[j] = element[j];
#pragma unroll
        for (int j = 0; j < CHUNK; j++) element[j] = turn & step ? before[(j + CHUNK - step) % CHUNK] : before[j];
    }
}

// The chunk that begins with element `number` of the tile, in the direction of traversal.
__device__ void load_staged(const char* from, int number, Accumulator (&value)[CHUNK]) {
    constexpr int SIZE = sizeof(Staged);
    if constexpr (STAGED_PACKED) {
        load_packed<Staged>(from + (REVERSE ? TILE - number - CHUNK : number) * SIZE, value);
    } else {
        const int turn = turn_of_lane();
        Staged element[CHUNK];
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const int i = number + (j + turn) % CHUNK;
            element[j] = load_element<Staged, STAGED_ALIGNED>(from + (REVERSE ? TILE - 1 - i : i) * SIZE);
        }
        turn_by(turn, element);
#pragma unroll
        for (int j = 0; j < CHUNK; j++) value[j] = widen(convert<Value>(element[j]));
    }
}

// Rows that do not lie in whole chunks, on their way to the output: by lines two at a time, where they are not too
// large.
struct SpreadRows {
    static constexpr int ROWS_AT_ONCE = BY_LINES && CHUNK * sizeof(Value) <= 16 ? 2 : 1, CHUNKS = ROWS_AT_ONCE * LANES;
    static constexpr bool STORED_IN_RUNS = BY_LINES && OUTPUT_ALIGNED && SIZE_OUT < 4 && SIZE_OUT <= sizeof(Value);

    RowBufferOf<Value, ROWS_AT_ONCE> buffer;

    // By all lanes of a warp, row after row: row `r` of those that begin with element `begin`, a chunk from each lane.
    // Where two are stored at a time, that is when the second has come.
    __device__ void store_with_others(const Line& line, const Geometry& g, Index begin, int r,
                                      const Accumulator (&result)[CHUNK]) {
        const int place = r % ROWS_AT_ONCE;
        if constexpr (STORED_IN_RUNS) {
            const int chunk = place * LANES + lane_index();
            store_packed(reinterpret_cast<char*>(outputs() + (REVERSE ? CHUNKS - 1 - chunk : chunk) * CHUNK), result);
        } else {
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                buffer.element(place * ROW + lane_index() * CHUNK + j) = convert<Value>(result[j]);
            }
        }
        if (place == ROWS_AT_ONCE - 1) store(line, g, begin + (r - place) * ROW);
    }

  private:
    __device__ Output* outputs() { return reinterpret_cast<Output*>(buffer.elements); }

    // Small ones in pieces of 16 bytes.
    __device__ void store_in_runs(const Line& line, Index first, int left) {
        char* const to = line.output + lowest_output(line, first, left) * SIZE_OUT;
        store_run<CHUNKS * CHUNK>(to, outputs() + (REVERSE ? CHUNKS * CHUNK - left : 0), left);
    }

    // How many lanes have nothing to store at first, so that from then on all of them store between two multiples of
    // what they store together.
    __device__ static int idle_lanes(const Line& line, Index first) {
        if (!BY_LINES) return 0;
        const Index place = along(first + INITIAL, line.length + INITIAL);
        const unsigned long long address = reinterpret_cast<unsigned long long>(line.output + place * SIZE_OUT);
        const int lane = static_cast<int>(address / SIZE_OUT % LANES);
        return REVERSE ? LANES - 1 - lane : lane;
    }

    // A whole row whose pieces of 16 bytes lie at multiples of that. 2^27 int32 summed in int64 take 0.406 ms with
    // this, and 0.410 ms by elements.
    __device__ void store_pieces(const Line& line, Index first) {
        constexpr int PIECE = 16 / SIZE_OUT;
        char* to = line.output + lowest_output(line, first, ROW) * SIZE_OUT;
#pragma unroll
        for (int k = 0; k < ROW; k += LANES * PIECE) {
            const int i = k + lane_index() * PIECE;
            const int place = REVERSE ? ROW - PIECE - i : i;
            const auto& from = *reinterpret_cast<const Pack<Value, PIECE>*>(&buffer.element(place));
            Pack<Output, PIECE> pack;
#pragma unroll
            for (int j = 0; j < PIECE; j++) {
                pack.element[j] = convert<Output>(from.element[REVERSE ? PIECE - 1 - j : j]);
            }
            *reinterpret_cast<Pack<Output, PIECE>*>(to + i * SIZE_OUT) = pack;
        }
    }

    // The rows that begin with element `first` of the line. Three lines of 67108865 float32 take 0.423 ms where 32
    // lanes store to one line of the cache, and 0.430 ms where they store to two.
    __device__ void store(const Line& line, const Geometry& g, Index first) {
        constexpr int COUNT = ROWS_AT_ONCE * ROW;
        const int left = up_to(line.length - first, COUNT), idle = idle_lanes(line, first);
        __syncwarp();
        if constexpr (STORED_IN_RUNS) {
            store_in_runs(line, first, left);
        } else if (IN_PIECES && left == ROW) {
            store_pieces(line, first);
        } else {
#pragma unroll
            for (int k = 0; k <= (BY_LINES ? COUNT : COUNT - LANES); k += LANES) {
                const int i = k + lane_index() - idle;
                if (i >= 0 && i < left) ::store(line, g, first + i + INITIAL, buffer.element(i));
            }
        }
        __syncwarp();
    }
};

// A lane's chunk of a row, from a stage to the output.
struct OrdinaryChunk {
    using Total = Item;
    using Buffer = SpreadRows;

    Chunk chunk;

    __device__ void load(const char* from, int number, const Heads& heads) {
        load_staged(from, number, chunk.value);
        chunk.scan(heads.of_chunk(number));
    }

    __device__ Item total() const { return chunk.total(); }

    __device__ static Item item_of(Item total) { return total; }

    // Row first + r of a tile; `lanes` is the inclusive prefix of the chunks' totals.
    __device__ void store(SpreadRows& buffer, const Line& line, const Geometry& g, const Stage& stage, int first, int r,
                          Item lanes) {
        const int row = first + r;
        const Prefix before = {stage.row[row], stage.tile.number == 0 && row == 0};
        const unsigned heads = stage.heads.of_chunk((row * LANES + lane_index()) * CHUNK);
        finish_row(chunk, lanes, before, stage.row[row + 1], heads);
        if (SPREAD) buffer.store_with_others(line, g, stage.tile.begin + first * ROW, r, chunk.value);
        else store_chunk(line, g, stage.tile.begin + (row * LANES + lane_index()) * CHUNK, chunk.value);
    }
};

// The same of integers that are summed in more bytes than they are stored in.
struct NarrowChunk {
    using Total = LocalItem;
    using Buffer = LocalBuffer;

    WidenedChunk chunk;

    __device__ void load(const char* from, int number, const Heads&) {
        chunk.load(from + (REVERSE ? TILE - number - CHUNK : number) * static_cast<int>(SIZE_IN));
    }

    __device__ LocalItem total() const { return chunk.total(); }

    __device__ static Item item_of(LocalItem total) {
        Item item = {};
        set(item, convert<Accumulator>(total.value), false);
        return item;
    }

    __device__ void store(LocalBuffer& buffer, const Line& line, const Geometry&, const Stage& stage, int first, int r,
                          LocalItem lanes) {
        const int row = first + r;
        chunk.store(buffer, line, stage.tile.begin + row * ROW, lanes, stage.row[row].value);
    }
};

using StagedChunk = Select<WIDENED, NarrowChunk, OrdinaryChunk>::type;

__device__ void add_tiles(const Work& work, int adder) {
    constexpr int ROWS = TILE_ROWS / ADDERS, AT_ONCE = ROWS < ADDED_AT_ONCE ? ROWS : ADDED_AT_ONCE;
    for (int visit = 0; await_tile(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        if (SEGMENTED) stage.marked.wait(turn(visit));
        stage.full.wait(turn(visit));
        const char* from = work.data(visit) + stage_offset(work, stage.tile);
#pragma unroll 1
        for (int first = adder * ROWS; first < (adder + 1) * ROWS; first += AT_ONCE) {
            Item row = neutral_item();
            if (first * ROW < stage.tile.count) {
                StagedChunk::Total total[AT_ONCE];
#pragma unroll
                for (int r = 0; r < AT_ONCE; r++) {
                    StagedChunk chunk;
                    chunk.load(from, ((first + r) * LANES + lane_index()) * CHUNK, stage.heads);
                    total[r] = chunk.total();
                }
                row = StagedChunk::item_of(row_aggregates(total));
            }
            if (lane_index() < AT_ONCE) stage.row[1 + first + lane_index()] = row;
        }
        stage.summed.arrive();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Publisher

__device__ void publish_tiles(const Work& work) {
    const int lane = lane_index();
    for (int visit = 0; await_tile(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        // The launch before left its own there, and memory has it by now: others would poll that until we publish. With
        // the place in the cache 2^24 float32 take an H200 0.0369 ms, else 0.0375, and segments of 16 0.593 and 0.599.
        if (lane == 0) prefetch_line(work.tickets.published(stage.tile.ticket));
        stage.summed.wait(turn(visit));
        const TilePrefixes<Item> prefixes(stage.row[1 + lane], stage.row[1 + LANES + lane]);
        if (lane == LANES - 1) publish(work.tickets.published(stage.tile.ticket), prefixes.high, work.tickets.epoch());
        stage.row[1 + lane] = prefixes.low;
        stage.row[1 + LANES + lane] = prefixes.high;
        stage.published.arrive();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Folder

__device__ void fold_tiles(const Work& work) {
    const int lane = lane_index();
    Fold fold;
    fold.begin(0);
    for (int visit = 0; await_tile(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        const Tile tile = stage.tile;
        stage.published.wait(turn(visit));  // until then others are not complete either, and asking would hold them up
        const Item in_group = fold.advance_to(work.tickets, tile, work.g);
        const Item low = lane > 0 ? stage.row[lane] : neutral_item(), high = stage.row[LANES + lane];
        const Item own = stage.row[TILE_ROWS];
        __syncwarp();  // all lanes have read what is about to be replaced
        const Surroundings around = fold.surroundings(tile, in_group, own);
        stage.row[lane] = lane == 0 ? around.before.item : around.before.followed_by(low);
        stage.row[LANES + lane] = around.before.followed_by(high);
        if (lane == 0) stage.row[TILE_ROWS] = around.after;
        stage.folded.arrive();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Scanners: each has some neighbouring rows of every tile, a few of them at a time in registers.

__device__ void scan_tiles(const Work& work, StagedChunk::Buffer& buffer, int scanner) {
    constexpr int ROWS = TILE_ROWS / SCANNERS, AT_ONCE = ROWS < SCANNED_AT_ONCE ? ROWS : SCANNED_AT_ONCE;
    const int lane = lane_index();
    for (int visit = 0; await_tile(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        stage.full.wait(turn(visit));  // known by now, but it is this wait that shows what the copy engine wrote
        stage.folded.wait(turn(visit));
        const Tile tile = stage.tile;
        const Line line(work.input, work.output, work.g, tile.line);
        const char* from = work.data(visit) + stage_offset(work, tile);
        if (tile.number == 0 && scanner == 0 && lane == 0) store_initial(line, work.g);
#pragma unroll 1
        for (int first = scanner * ROWS; first < (scanner + 1) * ROWS && first * ROW < tile.count; first += AT_ONCE) {
            StagedChunk chunk[AT_ONCE];
            StagedChunk::Total lanes[AT_ONCE];
#pragma unroll
            for (int r = 0; r < AT_ONCE; r++) {
                chunk[r].load(from, ((first + r) * LANES + lane) * CHUNK, stage.heads);
                lanes[r] = warp_prefix(chunk[r].total());
            }
#pragma unroll
            for (int r = 0; r < AT_ONCE; r++) chunk[r].store(buffer, line, work.g, stage, first, r, lanes[r]);
        }
        if (BULK) fence_async_proxy();  // the copy engine writes there next, behind our reads
        stage.emptied.arrive();
    }
}

// ---------------------------------------------------------------------------------------------------------------------

__device__ void open(Stage& stage) {
    stage.taken.init(1);
    stage.full.init(LOADERS * LANES + (BULK ? 1 : 0));
    stage.marked.init(LANES);
    stage.summed.init(ADDERS * LANES);
    stage.published.init(LANES);
    stage.folded.init(LANES);
    stage.emptied.init(SCANNERS * LANES);
}

__device__ void open_gates(Stage (&stages)[STAGES], Gate& sampled) {
    if (threadIdx.x != LANES) return;
#pragma unroll 1
    for (int i = 0; i < STAGES; i++) open(stages[i]);
    if (MARKERS > 0) sampled.init(MARKERS * LANES);
    if (HARDWARE_GATES) fence_mbarrier_init();
}

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 1)
scan_stream(const char* input, char* output, const char* offsets, Word* control, Geometry g) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Stage stages[STAGES];
    __shared__ StagedChunk::Buffer buffers[OUTPUT_PACKED ? 1 : SCANNERS];
    __shared__ Samples samples;
    __shared__ Gate sampled;
    __shared__ Word first;
    prefetch_first_tile(input, g);
    open_gates(stages, sampled);
    await_launch_ahead();
    const int warp = warp_index();
    if (threadIdx.x == 0) first = Tickets::take_first(control);
    __syncthreads();

    char* ring = reinterpret_cast<char*>(dynamic_shared);
    const Work work = {input, output, g, stages, ring, {control, first, g.lines * g.tiles}};
    if (warp < FIRST_MARKER) load_tiles(work, threadIdx.x);
    else if (warp < FIRST_ADDER) mark_tiles(work, Segments(offsets, g), samples, sampled, warp - FIRST_MARKER);
    else if (warp < PUBLISHER) add_tiles(work, warp - FIRST_ADDER);
    else if (warp == PUBLISHER) publish_tiles(work);
    else if (warp == FOLDER) fold_tiles(work);
    else scan_tiles(work, buffers[OUTPUT_PACKED ? 0 : warp - FIRST_SCANNER], warp - FIRST_SCANNER);
}
