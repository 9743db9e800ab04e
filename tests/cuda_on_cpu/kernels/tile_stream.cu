// Inclusive running sums that are bitwise the same in every run and for every number of blocks, in one pass.
//
//     output[i] = input[0] + ... + input[i]
//
// A fixed number of blocks stays on the GPU; block b of G takes the tiles b, b + G, b + 2 G, ... These are its visits
// 0, 1, 2, ... A block's warps have roles, and hand work to one another through mbarriers:
//
//     loader     fills a ring of STAGES tiles by bulk loads                            full, empty
//     workers    sum a tile AHEAD visits before they scan it and store the result      summed
//     folder     publishes those sums, and folds what all blocks published into the
//                sum of everything before the block's next tile                        folded
//
// Every block folds for itself, in an order fixed by the tiles' numbers: groups of 32 tiles, each added up by a tree of
// lanes, one group after the other. Sum and epoch share a word of 64 bits, so the words need not be cleared between
// launches and no order between words is needed. The loads of a stage hide the folding, which hides the summing.
//
// Constants: VALUE (int or float), WORKERS (warps), VECTORS of 16 bytes per lane, STAGES, AHEAD < STAGES.
// Launch: cooperative, THREADS = (WORKERS + 2) * 32, STAGES * TILE * 4 bytes of dynamic shared memory. input and output
// are aligned to 16 bytes, published has a word per tile, epoch is another one than in the launches before.
#include "ptx.cuh"
#include "warp_sums.cuh"

#ifndef VALUE
#define VALUE int
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef VECTORS
#define VECTORS 1
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef AHEAD
#define AHEAD 1
#endif

using Value = VALUE;
using Published = unsigned long long;

constexpr int VECTOR = 4, WARP_PART = LANES * VECTORS * VECTOR, TILE = WORKERS * WARP_PART;
constexpr int THREADS = (WORKERS + 2) * LANES;
constexpr int SLOTS = AHEAD + 1;  // tiles that are summed and not yet folded
constexpr unsigned TILE_BYTES = TILE * sizeof(Value);

static_assert(sizeof(Value) == 4 && WORKERS <= LANES, "four bytes, a lane of the folder for each worker");
static_assert(0 < AHEAD && AHEAD < STAGES, "a tile stays in its stage from its summing to its scan");

struct Barriers {
    Mbarrier full[STAGES], empty[STAGES], summed[SLOTS], folded[2];
};

// What a block works on, and with.
struct Work {
    const Value* input;
    Value* output;
    Published* published;
    unsigned epoch;
    int count, tiles, visits;
    Value* ring;               // [STAGES][TILE]
    Value (*sums)[WORKERS];    // [SLOTS][WORKERS]
    Value (*starts)[WORKERS];  // [2][WORKERS]
    Barriers* barriers;

    __device__ int tile(int visit) const { return static_cast<int>(blockIdx.x + visit * gridDim.x); }
    __device__ bool whole(int visit) const { return (tile(visit) + 1) * TILE <= count; }
};

struct alignas(16) Vector {
    Value item[VECTOR];
};

union Word {
    Value value;
    unsigned bits;
    __device__ Word() {}
};

// The phase of a barrier that is used by every `slots`-th visit.
__device__ void wait_for_visit(Mbarrier* barriers, int visit, int slots) {
    mbarrier_wait(&barriers[visit % slots], visit / slots % 2);
}

// ---------------------------------------------------------------------------------------------------------------------
// Loader: a single thread. The last tile may be short, and is read by the workers from global memory.

__device__ void load_tiles(const Work& work) {
    for (int visit = 0; visit < work.visits; visit++) {
        const int stage = visit % STAGES;
        if (visit >= STAGES) wait_for_visit(work.barriers->empty, visit - STAGES, STAGES);
        Mbarrier* full = &work.barriers->full[stage];
        if (work.whole(visit)) {
            mbarrier_arrive_expect(full, TILE_BYTES);
            bulk_load(work.ring + stage * TILE, work.input + work.tile(visit) * TILE, TILE_BYTES, full);
        } else {
            mbarrier_arrive(full);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Folder: a warp

__device__ void publish(const Work& work, int visit, int lane) {
    wait_for_visit(work.barriers->summed, visit, SLOTS);
    const Value sum = warp_sum(lane < WORKERS ? work.sums[visit % SLOTS][lane] : Value(0));
    if (lane == 0 && visit < work.visits) {
        Word word;
        word.value = sum;
        store_relaxed(&work.published[work.tile(visit)], static_cast<Published>(work.epoch) << 32 | word.bits);
    }
}

__device__ Value published_sum(const Work& work, int tile) {
    Published seen;
    do seen = load_relaxed(&work.published[tile]);
    while (static_cast<unsigned>(seen >> 32) != work.epoch);
    Word word;
    word.bits = static_cast<unsigned>(seen);
    return word.value;
}

// What has been folded so far: the sum of the first `groups` whole groups of tiles.
struct Fold {
    Value sum = 0;
    int groups = 0;
};

__device__ void fold(const Work& work, int visit, Fold& past, int lane) {
    const int tile = work.tile(visit), groups = tile / LANES;
    for (; past.groups < groups; past.groups++) {
        past.sum += warp_sum(published_sum(work, past.groups * LANES + lane));
    }
    const Value rest = warp_sum(lane < tile % LANES ? published_sum(work, groups * LANES + lane) : Value(0));
    const Value sum = lane < WORKERS ? work.sums[visit % SLOTS][lane] : Value(0);
    const Value before = __shfl_up_sync(ALL_LANES, warp_scan(sum, lane), 1);
    if (lane < WORKERS) work.starts[visit % 2][lane] = past.sum + rest + (lane == 0 ? Value(0) : before);
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&work.barriers->folded[visit % 2]);
}

__device__ void fold_tiles(const Work& work, int lane) {
    Fold past;
    for (int visit = 0; visit < AHEAD; visit++) publish(work, visit, lane);
    fold(work, 0, past, lane);
    for (int visit = 0; visit < work.visits; visit++) {
        publish(work, visit + AHEAD, lane);
        if (visit + 1 < work.visits) fold(work, visit + 1, past, lane);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Workers: each warp has a part of every tile, each lane VECTORS vectors of it, a row of lanes apart.

__device__ Vector load_vector(const Work& work, int visit, int offset) {
    if (work.whole(visit)) return *reinterpret_cast<const Vector*>(work.ring + visit % STAGES * TILE + offset);
    const int first = work.tile(visit) * TILE + offset;
    Vector vector;
    for (int i = 0; i < VECTOR; i++) vector.item[i] = first + i < work.count ? work.input[first + i] : Value(0);
    return vector;
}

__device__ void store_vector(const Work& work, int visit, int offset, const Vector& vector) {
    const int first = work.tile(visit) * TILE + offset;
    if (work.whole(visit)) {
        *reinterpret_cast<Vector*>(work.output + first) = vector;
    } else {
        for (int i = 0; i < VECTOR; i++) {
            if (first + i < work.count) work.output[first + i] = vector.item[i];
        }
    }
}

// Adds up the warp's part of a tile. Beyond the last visit there is nothing to add, but the folder counts on arrivals:
// they tell it that all workers are done with the visit AHEAD + 1 before.
__device__ void sum_part(const Work& work, int visit, int warp, int lane) {
    Value sum = 0;
    if (visit < work.visits) {
        wait_for_visit(work.barriers->full, visit, STAGES);
        for (int row = 0; row < VECTORS; row++) {
            const Vector vector = load_vector(work, visit, warp * WARP_PART + (row * LANES + lane) * VECTOR);
            sum += (vector.item[0] + vector.item[1]) + (vector.item[2] + vector.item[3]);
        }
    }
    sum = warp_sum(sum);
    if (lane == 0) {
        work.sums[visit % SLOTS][warp] = sum;
        mbarrier_arrive(&work.barriers->summed[visit % SLOTS]);
    }
}

__device__ void scan_part(const Work& work, int visit, int warp, int lane) {
    wait_for_visit(work.barriers->folded, visit, 2);
    Value start = work.starts[visit % 2][warp];
    for (int row = 0; row < VECTORS; row++) {
        const int offset = warp * WARP_PART + (row * LANES + lane) * VECTOR;
        Vector vector = load_vector(work, visit, offset);
        for (int i = 1; i < VECTOR; i++) vector.item[i] += vector.item[i - 1];
        const Value inclusive = warp_scan(vector.item[VECTOR - 1], lane);
        const Value before = __shfl_up_sync(ALL_LANES, inclusive, 1);
        for (int i = 0; i < VECTOR; i++) vector.item[i] += lane == 0 ? start : start + before;
        store_vector(work, visit, offset, vector);
        start += __shfl_sync(ALL_LANES, inclusive, LANES - 1);
    }
    fence_async_proxy();  // the copy engine writes there next, behind our reads
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&work.barriers->empty[visit % STAGES]);
}

__device__ void work_on_tiles(const Work& work, int warp, int lane) {
    for (int visit = 0; visit < AHEAD; visit++) sum_part(work, visit, warp, lane);
    for (int visit = 0; visit < work.visits; visit++) {
        sum_part(work, visit + AHEAD, warp, lane);
        scan_part(work, visit, warp, lane);
    }
}

// ---------------------------------------------------------------------------------------------------------------------

__device__ void init_barriers(Barriers& barriers) {
    for (int i = 0; i < STAGES; i++) {
        mbarrier_init(&barriers.full[i], 1);
        mbarrier_init(&barriers.empty[i], WORKERS);
    }
    for (int i = 0; i < SLOTS; i++) mbarrier_init(&barriers.summed[i], WORKERS);
    for (int i = 0; i < 2; i++) mbarrier_init(&barriers.folded[i], 1);
    fence_mbarrier_init();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    tile_stream(const Value* input, Value* output, Published* published, unsigned epoch, int count) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Value sums[SLOTS][WORKERS], starts[2][WORKERS];
    __shared__ Barriers barriers;
    const int warp = static_cast<int>(threadIdx.x) / LANES, lane = static_cast<int>(threadIdx.x) % LANES;
    if (threadIdx.x == 0) init_barriers(barriers);
    __syncthreads();

    const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    const int tiles = (count + TILE - 1) / TILE, visits = block < tiles ? (tiles - block + blocks - 1) / blocks : 0;
    const Work work{input, output, published, epoch, count, tiles, visits, reinterpret_cast<Value*>(dynamic_shared),
                    sums,  starts, &barriers};
    if (visits == 0) return;
    if (warp < WORKERS) {
        work_on_tiles(work, warp, lane);
    } else if (warp == WORKERS) {
        fold_tiles(work, lane);
    } else if (lane == 0) {
        load_tiles(work);
    }
}
