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
// no chain from tile to tile, and what is added in which order depends on the tiles' numbers alone (scan_fold.cuh).
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
//     KEEPS_PLACES  1: tiles lie within a line of the cache where they do in memory; 0: at the begin of their stages
//     WIDENED       1: rows are those of scan_widened_rows.cuh
//     BY_LINES      1: rows that do not lie in whole chunks are stored by lines of the cache, or where elements are
//                   small by pieces of 16 bytes; only dense outputs
//     IN_PIECES     1: whole rows are stored 16 bytes at a time, which are less than a chunk of outputs
// Dynamic shared memory: STAGES * STAGE_BYTES.
#include "scan_samples.cuh"
#include "scan_stream_chunks.cuh"
#include "scan_stream_loaders.cuh"

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

__device__ void add_tiles(const Work& work, int adder) {
    constexpr int ROWS = ROWS_OF_ADDER, AT_ONCE = ADDED_TOGETHER;
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
                for (int r = 0; r < AT_ONCE; r += LOADED_AT_ONCE) {
                    StagedChunk chunk[LOADED_AT_ONCE];
                    StagedChunk::load(from, ((first + r) * LANES + lane_index()) * CHUNK, stage.heads, chunk);
#pragma unroll
                    for (int k = 0; k < LOADED_AT_ONCE; k++) total[r + k] = chunk[k].total();
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
    constexpr int LOADED = LOADED_AT_ONCE < AT_ONCE ? LOADED_AT_ONCE : AT_ONCE;
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
            for (int r = 0; r < AT_ONCE; r += LOADED) {
                StagedChunk loaded[LOADED];
                StagedChunk::load(from, ((first + r) * LANES + lane) * CHUNK, stage.heads, loaded);
#pragma unroll
                for (int k = 0; k < LOADED; k++) {
                    chunk[r + k] = loaded[k];
                    lanes[r + k] = warp_prefix(loaded[k].total());
                }
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
