// The stages of the assembly line of scan_stream.cu: what their rings hold, and where a tile lies in its stage.
//
// Constants that the plan sets: those of scan_stream.cu.
#pragma once

#include "gate.cuh"
#include "scan_fold.cuh"
#include "scan_segments.cuh"

// What a stage holds: ordinary loads convert on the way to what is smaller.
using Staged = Select<LOAD != BY_ELEMENTS || sizeof(Input) <= sizeof(Value), Input, Value>::type;
using Gate = GateOf<HARDWARE_GATES>::type;

constexpr bool BULK = LOAD == IN_BULK;
constexpr bool STAGED_ALIGNED = !BULK || INPUT_ALIGNED;
constexpr bool STAGED_PACKED = !BULK || INPUT_PACKED;
constexpr bool SHIFTED = BULK && !(INPUT_PACKED && CHUNK * sizeof(Input) == 16);  // tiles begin at any address
constexpr bool EDGES_IN_WORDS = SHIFTED && INPUT_ALIGNED;  // of tiles, if what else lies in these may be read
constexpr int PIECE = INPUT_PACKED ? CHUNK : 1;  // elements that other loaders move at a time
constexpr int STAGE_BYTES = TILE * static_cast<int>(sizeof(Staged)) + (KEEPS_PLACES ? CACHE_LINE : 0);

static_assert(KEEPS_PLACES ? BULK : !SHIFTED, "as bulk copies do");

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

// Rows of an adder, which are added up together with others.
constexpr int ROWS_OF_ADDER = TILE_ROWS / ADDERS;
constexpr int ADDED_TOGETHER = ROWS_OF_ADDER < ADDED_AT_ONCE ? ROWS_OF_ADDER : ADDED_AT_ONCE;

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

// How many bytes before the elements are filled: a line that is traversed in reverse ends at its lowest address.
__device__ int lead(const Tile& tile) { return REVERSE ? (TILE - tile.count) * static_cast<int>(sizeof(Staged)) : 0; }

// Where in its stage a whole tile begins: where it does within a line of the cache.
__device__ int stage_offset(const Work& work, const Tile& tile) {
    if (!KEEPS_PLACES) return 0;
    const char* address = work.input + work.g.input_line.offset(tile.line) +
                          tile.lowest(work.g.length) * static_cast<Index>(sizeof(Input));
    return static_cast<int>((reinterpret_cast<unsigned long long>(address) - lead(tile)) % CACHE_LINE);
}
