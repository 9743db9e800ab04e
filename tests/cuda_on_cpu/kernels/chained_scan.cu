// Inclusive running sums in one pass: every block scans a tile and looks back for the sum of the tiles before it.
//
//     output[i] = input[0] + ... + input[i]
//
// A tile publishes its own sum (AGGREGATE) at once, and the sum of everything up to its end (PREFIX) as soon as it
// knows it. The first warp of a block reads 32 of these states at a time, backwards, until one is a PREFIX. State and
// value share a word of 64 bits, so no order between words is needed. Tiles are handed out by ticket: a tile's
// predecessors have started, whatever the order in which blocks start.
//
// Constants: VALUE (int or float), THREADS, ITEMS of a thread. Launch: one block per tile of THREADS * ITEMS elements;
// states and ticket are zero.
#include "ptx.cuh"
#include "warp_sums.cuh"

#ifndef VALUE
#define VALUE int
#endif
#ifndef THREADS
#define THREADS 128
#endif
#ifndef ITEMS
#define ITEMS 4
#endif

using Value = VALUE;
using State = unsigned long long;

constexpr int WARPS = THREADS / LANES, TILE = THREADS * ITEMS;
constexpr unsigned AGGREGATE = 1, PREFIX = 2;

static_assert(sizeof(Value) == 4 && THREADS % LANES == 0 && WARPS <= LANES, "four bytes, whole warps");

union Word {
    Value value;
    unsigned bits;
    __device__ Word() {}
};

__device__ State make_state(unsigned kind, Value value) {
    Word word;
    word.value = value;
    return static_cast<State>(kind) << 32 | word.bits;
}

__device__ unsigned kind_of(State state) { return static_cast<unsigned>(state >> 32); }

__device__ Value value_of(State state) {
    Word word;
    word.bits = static_cast<unsigned>(state);
    return word.value;
}

// The sum of all tiles before `tile`, for a whole warp.
__device__ Value look_back(const State* states, int tile, int lane) {
    Value sum = 0;
    for (int nearest = tile - 1;; nearest -= LANES) {
        const int mine = nearest - lane;
        State state = make_state(PREFIX, 0);
        if (mine >= 0) {
            do state = load_relaxed(&states[mine]);
            while (kind_of(state) == 0);
        }
        const unsigned prefixes = __ballot_sync(ALL_LANES, kind_of(state) == PREFIX);
        const int last = prefixes ? __ffs(prefixes) - 1 : LANES - 1;
        sum += warp_sum(lane <= last ? value_of(state) : Value(0));
        if (prefixes) return sum;
    }
}

// The sum of what the warps of this block and the tiles before it hold, in `starts`, per warp. `totals` are the warps'.
__device__ void find_starts(Value (&starts)[WARPS], const Value (&totals)[WARPS], State* states, int tile, int lane) {
    const Value total = lane < WARPS ? totals[lane] : Value(0);
    const Value inclusive = warp_scan(total, lane), aggregate = __shfl_sync(ALL_LANES, inclusive, LANES - 1);
    if (lane == 0) store_relaxed(&states[tile], make_state(tile == 0 ? PREFIX : AGGREGATE, aggregate));
    Value before = 0;
    if (tile > 0) {
        before = look_back(states, tile, lane);
        if (lane == 0) store_relaxed(&states[tile], make_state(PREFIX, before + aggregate));
    }
    if (lane < WARPS) starts[lane] = before + inclusive - total;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    chained_scan(const Value* input, Value* output, State* states, unsigned* ticket, int count) {
    __shared__ int shared_tile;
    __shared__ Value totals[WARPS], starts[WARPS];
    const int thread = static_cast<int>(threadIdx.x), lane = thread % LANES, warp = thread / LANES;
    if (thread == 0) shared_tile = static_cast<int>(atomicAdd(ticket, 1u));
    __syncthreads();
    const int tile = shared_tile, first = tile * TILE + thread * ITEMS;

    Value items[ITEMS], sum = 0;
    for (int i = 0; i < ITEMS; i++) {
        if (first + i < count) sum += input[first + i];
        items[i] = sum;
    }
    const Value inclusive = warp_scan(sum, lane);
    if (lane == LANES - 1) totals[warp] = inclusive;
    __syncthreads();
    if (warp == 0) find_starts(starts, totals, states, tile, lane);
    __syncthreads();
    const Value start = starts[warp] + inclusive - sum;
    for (int i = 0; i < ITEMS; i++) {
        if (first + i < count) output[first + i] = start + items[i];
    }
}
