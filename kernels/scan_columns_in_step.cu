// Running sums and products of columns that are one tile at most, where rows have megabytes: all blocks go down in
// step.
//
// Memory is slow where many rows are asked for at a time that lie megabytes apart: on an H200 a copy of (256, 1048576)
// float32 takes 0.516 ms row by row, 0.536 in tiles of 16 rows, and 0.57 by blocks that each go down as fast as they
// can. So the columns are cut into strips, one for each block, that lie side by side and are as wide as registers allow
// for. A block goes down its strip slice by slice, some steps each, and loads none before nearly all blocks have stored
// the one LAG slices before it. This takes 0.527 ms with a lag of 3 slices of 32 KB, 0.539 with 4 and 0.602 with 2: the
// sooner a slice is scanned, the better. Nobody needs what others store: a block whose patience ends, for instance
// because another kernel keeps some from beginning, goes on at its own pace.
//
//     loader      copies a slice into a stage of shared memory, in bulk                     full
//     scanners    turn it into outputs; a thread has PACKS packs of VECTOR columns          scanned
//     storer      copies it to the output, in bulk; the stage is free                       emptied
//
// Once all strips are scanned the next ones follow, in another pass. The order of additions is that of tree.cuh.
//
// Constants that the plan sets, beside those of scan_columns.cuh:
//     SCANNERS     in warps
//     PACKS        of a thread in each step
//     STEPS        of a slice
//     STAGES
//     LAG          slices from one that is loaded back to the last that other blocks must have stored
//     ROW_BITS     bits of the number of a column's rows of the tree
// Dynamic shared memory: STAGES * (STAGE_BYTES + sizeof(Gates)).
#include "scan_columns.cuh"
#include "gate.cuh"
#include "tickets.cuh"

constexpr int SIZE = static_cast<int>(sizeof(Input)), THREADS = SCANNERS * LANES;
constexpr int PACK_BYTES = VECTOR * SIZE, PITCH = THREADS * PACKS * PACK_BYTES;  // from step to step in a stage
constexpr int STAGE_BYTES = STEPS * PITCH;
constexpr bool MORE_ROWS = ROW_BITS > 1;  // of the tree than two, whose prefixes are sums of one row and another

static_assert(!SEGMENTED && AXIS_RANK_IN == 1 && AXIS_RANK_OUT == 1, "one axis of an array");
static_assert(sizeof(Output) == sizeof(Input) && PACK_BYTES == 16, "outputs take the place of inputs");
// Looks at what others have stored, of some 0.7 us each; slices take 2 us.
constexpr int PATIENCE = 100;

static_assert(STEPS % CHUNK == 0 || CHUNK % STEPS == 0, "slices are parts of chunks, or some of them");

struct Cut {
    Index width, passes, slices;  // columns of a strip; strips of a block; slices of a strip
};

struct Gates {
    HardwareGate full, scanned, emptied;
};

// A slice of one of the block's strips.
struct Slice {
    Index line;        // of the first column
    int begin, steps;  // in the strip
    int bytes;         // of the columns that exist
};

struct Work {
    const char* input;
    char* output;
    Word* control;
    const Geometry& g;
    const Cut& cut;
    Gates (&gates)[STAGES];
    char* ring;

    __device__ int slices() const { return static_cast<int>(cut.passes * cut.slices); }

    __device__ Slice slice(int number) const {
        const int of_strip = static_cast<int>(cut.slices), pass = number / of_strip;
        const int begin = (number - pass * of_strip) * STEPS;
        const Index line = (static_cast<Index>(pass) * gridDim.x + blockIdx.x) * cut.width;
        const int columns = up_to(g.lines - line, static_cast<int>(cut.width));
        return {line, begin, up_to(g.length - begin, STEPS), columns * SIZE};
    }

    // The gates of a slice, and how often they were used before.
    __device__ Gates& gates_of(int number) const { return gates[number % STAGES]; }
    __device__ int turn(int number) const { return number / STAGES; }

    __device__ char* step_of_stage(int number, int step) const {
        return ring + number % STAGES * STAGE_BYTES + step * PITCH;
    }

    // Blocks count the slices that they have stored as others count tickets. The last fifth of them is not waited for:
    // (128, 1048576) int64 takes an H200 0.527 ms so, 0.533 if all are, and 0.526 without two fifths; float32 of (256,
    // 1048576) 0.527, 0.528 and 0.530. Returns whether patience lasted.
    __device__ bool await_others(int number) const {
        const unsigned stored = (number - LAG + 1) * gridDim.x - gridDim.x / 5;
        for (int looks = 0; number >= LAG && static_cast<unsigned>(load_relaxed(control)) < stored; looks++) {
            if (looks == PATIENCE) return false;
        }
        return true;
    }
    __device__ void count_stored() const {
        const Index all = static_cast<Index>(slices() * gridDim.x);
        const TicketsFor<Item> tickets = {control, TicketsFor<Item>::take_first(control), all};
        tickets.prepare_next_launch(tickets.of_block(), 0);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Loader and storer: a thread each.

__device__ void load_slices(const Work& work) {
    const Geometry& g = work.g;
    bool in_step = true;
#pragma unroll 1
    for (int number = 0; number < work.slices(); number++) {
        const Slice slice = work.slice(number);
        HardwareGate& full = work.gates_of(number).full;
        if (number >= STAGES) work.gates_of(number).emptied.wait(work.turn(number) - 1);
        in_step = in_step && work.await_others(number);
        if (slice.bytes == 0) {
            full.arrive();
            continue;
        }
        full.arrive_and_expect(slice.steps * slice.bytes);
        const char* strip = work.input + g.input_line.offset(slice.line);
        for (int k = 0; k < slice.steps; k++) {
            const char* from = strip + g.input_axis.offset(along(slice.begin + k, g.length));
            full.copy<EVICTION>(work.step_of_stage(number, k), from, slice.bytes);
        }
    }
}

__device__ void store_slices(const Work& work) {
    const Geometry& g = work.g;
#pragma unroll 1
    for (int number = 0; number < work.slices(); number++) {
        const Slice slice = work.slice(number);
        work.gates_of(number).scanned.wait(work.turn(number));
        char* strip = work.output + g.output_line.offset(slice.line);
        for (int k = 0; k < slice.steps && slice.bytes > 0; k++) {
            char* to = strip + g.output_axis.offset(along(slice.begin + k + INITIAL, g.length + INITIAL));
            bulk_store(to, work.step_of_stage(number, k), slice.bytes);
        }
        bulk_commit();
        bulk_wait_read<1>();
        if (number > 0) work.gates_of(number - 1).emptied.arrive();
        work.count_stored();
    }
    bulk_wait<0>();
}

// ---------------------------------------------------------------------------------------------------------------------
// Scanners

// What lies above a step of a column.
struct Above {
    SerialPrefix<Item> chunks;  // of the row
    SerialPrefix<Item, ROW_BITS> rows;
    Prefix before_row, before_chunk;
    Item chunk;                 // as far as it goes

    __device__ void begin() { before_row = before_chunk = Prefix::nothing(); }

    // The output of step `number`, which is number IN_CHUNK of its chunk.
    template <int IN_CHUNK> __device__ Accumulator next(int number, Accumulator value) {
        const Accumulator before = number > 0 ? ended<IN_CHUNK>().value : Operation::template first<Accumulator>();
        Item item;
        set(item, value, false);
        chunk = IN_CHUNK == 0 ? item : combine(chunk, item);
        if (IN_CHUNK == CHUNK - 1) end_chunk(number / CHUNK);
        return EXCLUSIVE ? before : ended<(IN_CHUNK + 1) % CHUNK>().value;
    }

  private:
    // The prefix that ends before number IN_CHUNK of a chunk.
    template <int IN_CHUNK> __device__ Item ended() const {
        return IN_CHUNK == 0 ? before_chunk.item : before_chunk.followed_by(chunk);
    }

    __device__ void end_chunk(int number) {
        Item after = chunks.next(number % RADIX, chunk);
        if (MORE_ROWS && number % RADIX == RADIX - 1) after = rows.next(number / RADIX, after);
        else after = before_row.followed_by(after);
        before_chunk = {after, false};
        if (number % RADIX == RADIX - 1) before_row = before_chunk;
    }
};

// Where the p-th pack of a thread lies in each step of its strip.
__device__ int place_of(int p) { return (p * THREADS + static_cast<int>(threadIdx.x)) * PACK_BYTES; }

__device__ void begin_columns(const Work& work, const Slice& slice, Above (&above)[PACKS][VECTOR]) {
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) above[p][v].begin();
        if (!INITIAL || place_of(p) >= slice.bytes) continue;
        const Index line = slice.line + place_of(p) / SIZE;
        Target(work.output, work.output + work.g.output_line.offset(line), work.g, line, 0).store_initial();
    }
}

using InputPack = Pack<Input, VECTOR>;

template <int IN_CHUNK>
__device__ Pack<Output, VECTOR> scan_pack(const InputPack& in, int number, Above (&above)[VECTOR]) {
    Accumulator result[VECTOR];
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
        result[v] = above[v].template next<IN_CHUNK>(number, widen(convert<Value>(in.element[v])));
    }
    return outputs_of(result);
}

// The steps of a slice from K on, of which the first is number PHASE of its chunk.
template <int PHASE, int K = 0>
__device__ void scan_steps(const Slice& slice, char* stage, const InputPack (&in)[STEPS][PACKS],
                           Above (&above)[PACKS][VECTOR]) {
    if constexpr (K < STEPS) {
        if (K >= slice.steps) return;
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            if (place_of(p) >= slice.bytes) continue;
            const auto out = scan_pack<(PHASE + K) % CHUNK>(in[K][p], slice.begin + K, above[p]);
            *reinterpret_cast<Pack<Output, VECTOR>*>(stage + K * PITCH + place_of(p)) = out;
        }
        scan_steps<PHASE, K + 1>(slice, stage, in, above);
    }
}

// Where slices are shorter than chunks, a slice may begin anywhere in one.
template <int PHASE = 0>
__device__ void scan_slice(const Slice& slice, char* stage, const InputPack (&in)[STEPS][PACKS],
                           Above (&above)[PACKS][VECTOR]) {
    if constexpr (PHASE + STEPS < CHUNK) {
        if (slice.begin % CHUNK != PHASE) {
            scan_slice<PHASE + STEPS>(slice, stage, in, above);
            return;
        }
    }
    scan_steps<PHASE>(slice, stage, in, above);
}

__device__ void scan_slices(const Work& work) {
    Above above[PACKS][VECTOR];
#pragma unroll 1
    for (int number = 0; number < work.slices(); number++) {
        const Slice slice = work.slice(number);
        Gates& gates = work.gates_of(number);
        char* stage = work.step_of_stage(number, 0);
        if (slice.begin == 0) begin_columns(work, slice, above);
        gates.full.wait(work.turn(number));
        InputPack in[STEPS][PACKS];
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
#pragma unroll
            for (int p = 0; p < PACKS; p++) {
                const bool exists = k < slice.steps && place_of(p) < slice.bytes;
                if (exists) in[k][p] = *reinterpret_cast<const InputPack*>(stage + k * PITCH + place_of(p));
            }
        }
        scan_slice(slice, stage, in, above);
        fence_async_proxy();  // the copy engine reads there next
        gates.scanned.arrive();
    }
}

// ---------------------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(THREADS + 2 * LANES, 1)
scan_columns_in_step(const char* input, char* output, Word* control, Geometry g, Cut cut) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    await_launch_ahead();
    Gates(&gates)[STAGES] = *reinterpret_cast<Gates(*)[STAGES]>(dynamic_shared + STAGES * STAGE_BYTES);
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int i = 0; i < STAGES; i++) {
            gates[i].full.init(1);
            gates[i].scanned.init(THREADS);
            gates[i].emptied.init(1);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    const Work work = {input, output, control, g, cut, gates, reinterpret_cast<char*>(dynamic_shared)};
    if (threadIdx.x < THREADS) scan_slices(work);
    else if (threadIdx.x == THREADS) load_slices(work);
    else if (threadIdx.x == THREADS + LANES) store_slices(work);
}
