// Running sums and products along an axis whose elements are not neighbours in memory: columns of a matrix.
//
// The columns are cut into strips, and a strip, along the axis, into units (column_units.cuh). Every block is an
// assembly line as in scan_stream.cu, and its warps do different work at the same time:
//
//     taker         takes a unit, as soon as a stage is free                                       taken
//     loaders       copy the unit into the stage                (column_loaders.cuh)               full
//     adders        add up spans: a few chunks of a column                                         summed
//     publisher     adds up the spans, and publishes the unit's aggregates                         published
//     bundlers      publish those of blocks of units          (column_fold.cuh)
//     folders       fold what the units above have published    (column_fold.cuh)                  folded
//     scanners      walk down the spans and store (column_stores.cuh); the stage is free           emptied
//
// Whoever waits, waits for a unit that was taken earlier, or for an earlier unit of its own block. So the unit taken
// first of all that are not done can always be finished, and blocks need not start in order, nor all at once.
//
// How wide a strip is matters most. On an H200 a mere copy of (65536, 4096) float32 in such units reaches 80 % of copy
// speed with strips of 128 bytes, 92 % with 256, 93 % with 512 and more; and 88 % with 256 where threads store 4 bytes.
//
// Constants that the plan sets, beside those of the headers:
//     ADDERS, SCANNERS     in warps
// Dynamic shared memory: STAGES * (STAGE_BYTES + sizeof(Stage)).
#include "column_fold.cuh"
#include "column_loaders.cuh"
#include "column_stores.cuh"

constexpr int FIRST_LOADER = 1, FIRST_ADDER = FIRST_LOADER + LOADERS, PUBLISHER = FIRST_ADDER + ADDERS,
              FIRST_BUNDLER = PUBLISHER + 1, FIRST_FOLDER = FIRST_BUNDLER + FOLDERS, FIRST_SCANNER = FIRST_FOLDER + FOLDER_SETS * FOLDERS,
              WARPS = FIRST_SCANNER + SCANNERS;

// ---------------------------------------------------------------------------------------------------------------------
// Adders

__device__ void add_units(const Work& work, int adder) {
    for (int visit = 0; await_unit(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = stage.unit;
        stage.full.wait(turn(visit));
#pragma unroll 1
        for (int task = adder; task < TASKS; task += ADDERS) {
            const Span span(unit, work.data(visit, unit), task);
            if (!span.exists) continue;
            Item(&part)[COLUMNS] = stage.part[span.row * PARTS + span.part];
            if (span.count == 0) {
#pragma unroll
                for (int v = 0; v < VECTOR; v++) part[span.column + v] = neutral_item();
                continue;
            }
            Values values;
            span.load(values);
#pragma unroll
            for (int v = 0; v < VECTOR; v++) part[span.column + v] = values.total(v);
        }
        arrive_by_warp(stage.summed);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Publisher

// The aggregates of blocks of rows, in place as add_up does it within a row. By all lanes of a warp: a lane has a row.
__device__ Item add_up_rows(Item item, int row) {
#pragma unroll
    for (int half = 1; half < ROWS; half *= 2) {
        const Item left = shuffle(item, (lane_index() + LANES - half) % LANES);
        if ((row & (2 * half - 1)) == 2 * half - 1) item = combine(left, item);
    }
    return item;
}

__device__ void publish_units(const Work& work) {
    constexpr int COLUMNS_AT_ONCE = LANES / ROWS;
    const int row = lane_index() % ROWS;
    for (int visit = 0; await_unit(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        const Index strip = stage.unit.strip, number = stage.unit.number;
        const int width = stage.unit.width;
        const bool wanted = row == ROWS - 1 && publishes_itself(number) && number + 1 < work.cut.units;
        stage.summed.wait(turn(visit));
#pragma unroll 1
        for (int first = 0; first < width; first += COLUMNS_AT_ONCE) {
            const int column = first + lane_index() / ROWS;
            const bool exists = column < width;
            Item item = exists ? add_up<PARTS>(stage.part, row * PARTS, column) : neutral_item();
            item = add_up_rows(item, row);
            if (!exists) continue;
            if (ROWS > 1) stage.part[row * PARTS + PARTS - 1][column] = item;
            if (wanted) publish(work.of_unit(strip, number, column), item, work.tickets.epoch());
        }
        arrive_by_warp(stage.published);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Scanners

__device__ void scan_span(const Stage& stage, const Unit& unit, const Span& span, Values& values) {
    constexpr int BITS = log2_of(PARTS);
    const int unit_of_row = static_cast<int>(unit.number) & ((1 << OF_ROW) - 1);
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
        const int column = span.column + span.existing(v);
        const bool first = unit.number >> OF_ROW == 0 && span.row == 0;  // row of the line
        const Prefix before_row = {stage.before[span.row][column], first};
        const Left<BITS + OF_ROW> left(unit_of_row << BITS | span.part, [&](int b) {
            return b < BITS ? stage.part[span.row * PARTS + end_of_block(span.part, b)][column] : stage.left[b - BITS][column];
        });
        values.scan(v, left, before_row, span.part == PARTS - 1, stage.before[span.row + 1][column]);
    }
}

__device__ void scan_units(const Work& work, int scanner) {
    for (int visit = 0; await_unit(work, visit); visit++) {
        Stage& stage = work.stage(visit);
        const Unit unit = stage.unit;
        stage.full.wait(turn(visit));  // known by now, but it is this wait that shows what the copies wrote
        stage.folded.wait(turn(visit));
#pragma unroll 1
        for (int task = scanner; task < TASKS; task += SCANNERS) {
            const Span span(unit, work.data(visit, unit), task);
            const bool exists = span.exists && span.count > 0;
            Values values;
            if (exists) {
                if (INITIAL && unit.number == 0 && span.row == 0 && span.part == 0) {
                    target_of(work, unit, span, 0).store_initial();
                }
                span.load(values);
                scan_span(stage, unit, span, values);
            }
            store_task(work, unit, work.data(visit, unit), task, span, values, exists);
        }
        if (LOAD == IN_BULK) fence_async_proxy();  // the copy engine writes there next, behind our reads
        arrive_by_warp(stage.emptied);
    }
}

// ---------------------------------------------------------------------------------------------------------------------

__device__ void open(Stage& stage) {
    stage.taken.init(1);
    stage.full.init(LOAD == BY_ELEMENTS ? LOADERS : LOAD == IN_BULK ? LANES : LOADERS * LANES + 1);
    stage.summed.init(ADDERS);
    stage.published.init(1);
    stage.folded.init(FOLDER_SETS * FOLDERS);
    stage.emptied.init(SCANNERS + FOLDERS);
}

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 1)
scan_columns(const char* input, char* output, Word* control, Geometry g, Cut cut) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Word first;
    Stage(&stages)[STAGES] = *reinterpret_cast<Stage(*)[STAGES]>(dynamic_shared + STAGES * STAGE_BYTES);
    const int warp = static_cast<int>(threadIdx.x) / LANES;
    if (threadIdx.x == 0) first = Tickets::take_first(control);
    if (threadIdx.x == LANES) {
        for (int i = 0; i < STAGES; i++) open(stages[i]);
        if (LOAD != BY_ELEMENTS) fence_mbarrier_init();
    }
    __syncthreads();

    const Work work = {input, output, g, cut, stages, reinterpret_cast<char*>(dynamic_shared),
                       {control, first, cut.strips * cut.units}};
    if (threadIdx.x == 0) take_units(work);
    else if (warp < FIRST_LOADER) return;
    else if (warp < FIRST_ADDER) load_units(work, threadIdx.x - FIRST_LOADER * LANES);
    else if (warp < PUBLISHER) add_units(work, warp - FIRST_ADDER);
    else if (warp == PUBLISHER) publish_units(work);
    else if (warp < FIRST_FOLDER) bundle_units(work, warp - FIRST_BUNDLER);
    else if (warp < FIRST_SCANNER) fold_units(work, (warp - FIRST_FOLDER) / FOLDERS, (warp - FIRST_FOLDER) % FOLDERS);
    else scan_units(work, warp - FIRST_SCANNER);
}
