// Running sums and products along an axis whose elements are not neighbours in memory: columns of a matrix.
//
// The columns are cut into strips, and a strip, along the axis, into units (scan_column_units.cuh). Every block is an
// assembly line as in scan_stream.cu, and its warps do different work at the same time:
//
//     taker         takes a unit, as soon as a stage is free                                       taken
//     loaders       copy the unit into the stage                (scan_column_loaders.cuh)               full
//     adders        add up spans: a few chunks of a column                                         summed
//     publisher     adds up the spans, and publishes the unit's aggregates                         published
//     bundlers      publish those of blocks of units          (scan_column_fold.cuh)
//     folders       fold what the units above have published    (scan_column_fold.cuh)                  folded
//     scanners      walk down the spans and store (scan_column_stores.cuh); the stage is free           emptied
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
#include "ahead.cuh"
#include "scan_column_fold.cuh"
#include "scan_column_loaders.cuh"
#include "scan_column_stores.cuh"

constexpr int FIRST_LOADER = 1, FIRST_ADDER = FIRST_LOADER + LOADERS, PUBLISHER = FIRST_ADDER + ADDERS,
              FIRST_BUNDLER = PUBLISHER + 1, FIRST_FOLDER = FIRST_BUNDLER + FOLDERS,
              FIRST_SCANNER = FIRST_FOLDER + FOLDER_SETS * FOLDERS, WARPS = FIRST_SCANNER + SCANNERS;

// ---------------------------------------------------------------------------------------------------------------------
// Adders

__device__ void add_unit(const Visit& visit, int adder) {
    visit.stage.full.wait(visit.turn);
#pragma unroll 1
    for (int task = adder; task < TASKS; task += ADDERS) {
        const Span span(visit.unit, visit.data, task);
        if (!span.exists) continue;
        ItemPack total;
#pragma unroll
        for (int v = 0; v < VECTOR; v++) total.element[v] = neutral_item();
        if (span.count > 0) {
            Values values;
            span.load(values);
#pragma unroll
            for (int v = 0; v < VECTOR; v++) total.element[v] = values.total(v);
        }
        items_at(visit.stage.part[span.row * PARTS + span.part], span.column) = total;
    }
    visit.stage.summed.arrive();
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

__device__ void publish_unit(const Work& work, const Visit& visit) {
    constexpr int COLUMNS_AT_ONCE = LANES / ROWS;
    const Unit& unit = visit.unit;
    Stage& stage = visit.stage;
    const int row = lane_index() % ROWS;
    const bool wanted = row == ROWS - 1 && publishes_itself(unit.number) && unit.number + 1 < work.cut.units;
    stage.summed.wait(visit.turn);
#pragma unroll 1
    for (int first = 0; first < unit.width; first += COLUMNS_AT_ONCE) {
        const int column = first + lane_index() / ROWS;
        const bool exists = column < unit.width;
        Item item = exists ? add_up<PARTS>(stage.part, row * PARTS, column) : neutral_item();
        item = add_up_rows(item, row);
        if (!exists) continue;
        if (ROWS > 1) stage.part[row * PARTS + PARTS - 1][column] = item;
        if (wanted) publish(work.of_unit(unit.strip, unit.number, column), item, work.tickets.epoch());
    }
    stage.published.arrive();
}

// ---------------------------------------------------------------------------------------------------------------------
// Scanners

__device__ void scan_span(const Work& work, const Stage& stage, const Unit& unit, const Span& span, Values& values) {
    if (INITIAL && unit.number == 0 && span.row == 0 && span.part == 0) target_of(work, unit, span, 0).store_initial();
    constexpr int BITS = log2_of(PARTS);
    const int number = (static_cast<int>(unit.number) & ((1 << OF_ROW) - 1)) << BITS | span.part;
    const bool first = unit.number >> OF_ROW == 0 && span.row == 0;  // row of the line
    const ItemPack before = items_at(stage.before[span.row], span.column);
    const ItemPack after = items_at(stage.before[span.row + 1], span.column);
    ItemPack block[BITS + OF_ROW];
#pragma unroll
    for (int b = 0; b < BITS + OF_ROW; b++) {
        const int end = b < BITS ? span.row * PARTS + end_of_block(span.part, b) : b - BITS;
        block[b] = items_at(b < BITS ? stage.part[end] : stage.left[end], span.column);
    }
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
        const Left<BITS + OF_ROW> left(number, [&](int b) { return block[b].element[v]; });
        values.scan(v, left, {before.element[v], first}, span.part == PARTS - 1, after.element[v]);
    }
}

__device__ void scan_unit(const Work& work, const Visit& visit, int scanner) {
    const Unit& unit = visit.unit;
    Stage& stage = visit.stage;
    stage.full.wait(visit.turn);  // known by now, but it is this wait that shows what the copies wrote
    stage.folded.wait(visit.turn);
#pragma unroll 1
    for (int task = scanner; task < TASKS; task += SCANNERS) {
        const Span span(unit, visit.data, task);
        const bool exists = span.exists && span.count > 0;
        Values values;
        if (exists) {
            span.load(values);
            scan_span(work, stage, unit, span, values);
        }
        store_task(work, unit, visit.data, task, span, values, exists);
    }
    if (LOAD == IN_BULK) fence_async_proxy();  // the copy engine writes there next, behind our reads
    stage.emptied.arrive();
}

// ---------------------------------------------------------------------------------------------------------------------

__device__ void open(Stage& stage) {
    stage.taken.init(1);
    stage.full.init(LOADERS * LANES + (LOAD == BY_COPIES ? LANES : 0));
    stage.summed.init(ADDERS * LANES);
    stage.published.init(LANES);
    stage.folded.init(FOLDER_SETS * FOLDERS * LANES);
    stage.emptied.init((SCANNERS + FOLDERS) * LANES);
}

// A loop for each role: of one for all, compilers keep what any role needs in registers, some of them on the stack.
template <typename WorkOn> __device__ void visit_units(const Work& work, WorkOn work_on) {
    for (int number = 0;; number++) {
        const Visit visit = work.visit(number);
        if (!visit.unit.exists()) return;
        work_on(visit);
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 1)
scan_columns(const char* input, char* output, Word* control, Geometry g, Cut cut, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Word first;
    Stage(&stages)[STAGES] = *reinterpret_cast<Stage(*)[STAGES]>(dynamic_shared + STAGES * STAGE_BYTES);
    const int warp = static_cast<int>(threadIdx.x / LANES);
    if (threadIdx.x == 0) first = Tickets::take_first(control);
    if (threadIdx.x == LANES) {
#pragma unroll 1
        for (int i = 0; i < STAGES; i++) open(stages[i]);
        if (HARDWARE_GATES) fence_mbarrier_init();
    }
    __syncthreads();

    const Work work = {input, output, g, cut, stages, reinterpret_cast<char*>(dynamic_shared),
                       {control, first, (cut.strips * cut.units + UNITS_OF_TICKET - 1) / UNITS_OF_TICKET}};
    if (threadIdx.x == 0) take_units(work);
    if (warp < FIRST_LOADER) return;
    const int thread = static_cast<int>(threadIdx.x) - FIRST_LOADER * LANES, bundler = warp - FIRST_BUNDLER,
              folder = warp - FIRST_FOLDER;
    if (warp < FIRST_ADDER) visit_units(work, [&](const Visit& visit) { load_unit(work, visit, thread); });
    else if (warp < PUBLISHER) visit_units(work, [&](const Visit& visit) { add_unit(visit, warp - FIRST_ADDER); });
    else if (warp == PUBLISHER) visit_units(work, [&](const Visit& visit) { publish_unit(work, visit); });
    else if (warp < FIRST_FOLDER) visit_units(work, [&](const Visit& visit) { bundle_unit(work, visit, bundler); });
    else if (warp < FIRST_SCANNER) visit_units(work, [&](const Visit& visit) { fold_unit(work, visit, folder); });
    else visit_units(work, [&](const Visit& visit) { scan_unit(work, visit, warp - FIRST_SCANNER); });
}
