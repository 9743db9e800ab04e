// Asynchronous copies: cp.async, bulk copies and the mbarriers that count them.
#include "idioms.cuh"

// ---------------------------------------------------------------------------------------------------------------------
// cp.async

// grid 2, block 64; input of 512
extern "C" __global__ void copy_awaited(int* out, unsigned long long*, const int* input) {
    __shared__ __align__(16) int tile[256];
    const int mine = 4 * static_cast<int>(threadIdx.x), base = static_cast<int>(blockIdx.x) * 256;
    copy_async<16>(&tile[mine], &input[base + mine]);
    copy_async_commit();
    if (!BUG) copy_async_wait<0>();
    __syncthreads();
    for (int i = 0; i < 4; i++) out[base + mine + i] = tile[255 - mine - i];
}

// Waiting makes a copy visible to the thread that issued it, a barrier to the others.
// grid 2, block 64; input of 512
extern "C" __global__ void copy_seen_by_others(int* out, unsigned long long*, const int* input) {
    __shared__ __align__(16) int tile[256];
    const int mine = 4 * static_cast<int>(threadIdx.x), base = static_cast<int>(blockIdx.x) * 256;
    copy_async<8>(&tile[mine], &input[base + mine]);
    copy_async<4>(&tile[mine + 2], &input[base + mine + 2]);
    copy_async<4>(&tile[mine + 3], &input[base + mine + 3]);
    copy_async_wait_all();
    if (!BUG) __syncthreads();
    for (int i = 0; i < 4; i++) out[base + mine + i] = tile[255 - mine - i];
}

// The younger of two groups is read, which wait<1> does not cover.
// grid 1, block 64; input of 512
extern "C" __global__ void younger_group_awaited(int* out, unsigned long long*, const int* input) {
    __shared__ __align__(16) int older[256], younger[256];
    const int mine = 4 * static_cast<int>(threadIdx.x);
    copy_async<16>(&older[mine], &input[mine]);
    copy_async_commit();
    copy_async<16>(&younger[mine], &input[256 + mine]);
    copy_async_commit();
    copy_async_wait<1>();
    for (int i = 0; i < 4; i++) out[mine + i] = older[mine + i];
    if (!BUG) copy_async_wait<0>();
    for (int i = 0; i < 4; i++) out[256 + mine + i] = younger[mine + i];
}

// A buffer is filled again only after all have read it.
// grid 1, block 64; input of 512
extern "C" __global__ void refilled_after_readers(int* out, unsigned long long*, const int* input) {
    __shared__ __align__(16) int tile[256];
    const int mine = 4 * static_cast<int>(threadIdx.x);
    for (int base = 0; base < 512; base += 256) {
        copy_async<16>(&tile[mine], &input[base + mine]);
        copy_async_commit();
        copy_async_wait<0>();
        __syncthreads();
        for (int i = 0; i < 4; i++) out[base + mine + i] = tile[255 - mine - i];
        if (!BUG) __syncthreads();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// An mbarrier without copies: the first warp writes, the second waits.

// grid 2, block 64
extern "C" __global__ void mbarrier_orders_writes(int* out, unsigned long long*) {
    __shared__ Mbarrier written;
    __shared__ int slots[32];
    if (threadIdx.x == 0) mbarrier_init(&written, 32);
    __syncthreads();
    if (threadIdx.x < 32) {
        slots[threadIdx.x] = static_cast<int>(threadIdx.x);
        mbarrier_arrive(&written);
    } else {
        if (!BUG) mbarrier_wait(&written, 0);
        out[blockIdx.x * 32 + threadIdx.x - 32] = slots[63 - threadIdx.x];
    }
}

// grid 2, block 64
extern "C" __global__ void mbarrier_initialised_first(int* out, unsigned long long*) {
    __shared__ Mbarrier written;
    __shared__ int slots[32];
    if (threadIdx.x == 0) mbarrier_init(&written, 32);
    if (!BUG) __syncthreads();
    if (threadIdx.x < 32) {
        slots[threadIdx.x] = static_cast<int>(threadIdx.x);
        mbarrier_arrive(&written);
    } else {
        mbarrier_wait(&written, 0);
        out[blockIdx.x * 32 + threadIdx.x - 32] = slots[63 - threadIdx.x];
    }
}

// One arrival too few: nobody gets past the barrier.
// grid 2, block 64
extern "C" __global__ void mbarrier_counts_arrivals(int* out, unsigned long long*) {
    __shared__ Mbarrier written;
    __shared__ int slots[32];
    if (threadIdx.x == 0) mbarrier_init(&written, BUG ? 33 : 32);
    __syncthreads();
    if (threadIdx.x < 32) {
        slots[threadIdx.x] = static_cast<int>(threadIdx.x);
        mbarrier_arrive(&written);
    } else {
        mbarrier_wait(&written, 0);
        out[blockIdx.x * 32 + threadIdx.x - 32] = slots[63 - threadIdx.x];
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// A ring of stages: one thread fills them by bulk loads, two warps use them up.

enum class RingSlip {
    NONE,
    NO_INIT_FENCE,
    NO_WAIT,
    WRONG_PARITY,
    NO_EMPTY_BARRIER,
    NO_FENCE_OF_READS,
    TOO_MANY_BYTES,
    TOO_FEW_BYTES
};

constexpr int STAGES = 2, STAGE = 128, FILLS = 6, USERS = 64;

template <RingSlip SLIP>
__device__ void fill_ring(int (&stages)[STAGES][STAGE], Mbarrier (&full)[STAGES], Mbarrier (&empty)[STAGES],
                          const int* input) {
    constexpr unsigned BYTES = STAGE * sizeof(int);
    constexpr unsigned EXPECTED = SLIP == RingSlip::TOO_MANY_BYTES  ? BYTES + 16
                                  : SLIP == RingSlip::TOO_FEW_BYTES ? BYTES - 16
                                                                    : BYTES;
    for (int i = 0; i < FILLS; i++) {
        const int stage = i % STAGES, round = i / STAGES;
        if (round > 0 && SLIP != RingSlip::NO_EMPTY_BARRIER) mbarrier_wait(&empty[stage], (round - 1) % 2);
        mbarrier_arrive_expect(&full[stage], EXPECTED);
        bulk_load(stages[stage], input + i * STAGE, BYTES, &full[stage]);
    }
}

template <RingSlip SLIP>
__device__ void use_ring(int* out, const int (&stages)[STAGES][STAGE], Mbarrier (&full)[STAGES],
                         Mbarrier (&empty)[STAGES]) {
    const int thread = static_cast<int>(threadIdx.x);
    for (int i = 0; i < FILLS; i++) {
        const int stage = i % STAGES, round = i / STAGES;
        if (SLIP != RingSlip::NO_WAIT) mbarrier_wait(&full[stage], (round + (SLIP == RingSlip::WRONG_PARITY)) % 2);
        for (int j = thread; j < STAGE; j += USERS) out[i * STAGE + j] = stages[stage][STAGE - 1 - j];
        if (SLIP != RingSlip::NO_FENCE_OF_READS) fence_async_proxy();
        mbarrier_arrive(&empty[stage]);
    }
}

template <RingSlip SLIP>
__device__ void ring(int* out, const int* input) {
    __shared__ __align__(128) int stages[STAGES][STAGE];
    __shared__ Mbarrier full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(&full[i], 1);
            mbarrier_init(&empty[i], USERS);
        }
        if (SLIP != RingSlip::NO_INIT_FENCE) fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == USERS) {
        fill_ring<SLIP>(stages, full, empty, input);
    } else if (threadIdx.x < USERS) {
        use_ring<SLIP>(out, stages, full, empty);
    }
}

// grid 1, block 96; input of 768
extern "C" __global__ void ring_barriers_fenced(int* out, unsigned long long*, const int* input) {
    ring<BUG ? RingSlip::NO_INIT_FENCE : RingSlip::NONE>(out, input);
}

// grid 1, block 96; input of 768
extern "C" __global__ void ring_full_awaited(int* out, unsigned long long*, const int* input) {
    ring<BUG ? RingSlip::NO_WAIT : RingSlip::NONE>(out, input);
}

// grid 1, block 96; input of 768
extern "C" __global__ void ring_parity_right(int* out, unsigned long long*, const int* input) {
    ring<BUG ? RingSlip::WRONG_PARITY : RingSlip::NONE>(out, input);
}

// grid 1, block 96; input of 768
extern "C" __global__ void ring_empty_awaited(int* out, unsigned long long*, const int* input) {
    ring<BUG ? RingSlip::NO_EMPTY_BARRIER : RingSlip::NONE>(out, input);
}

// grid 1, block 96; input of 768
extern "C" __global__ void ring_reads_fenced(int* out, unsigned long long*, const int* input) {
    ring<BUG ? RingSlip::NO_FENCE_OF_READS : RingSlip::NONE>(out, input);
}

// grid 1, block 96; input of 768
extern "C" __global__ void ring_bytes_not_too_many(int* out, unsigned long long*, const int* input) {
    ring<BUG ? RingSlip::TOO_MANY_BYTES : RingSlip::NONE>(out, input);
}

// grid 1, block 96; input of 768
extern "C" __global__ void ring_bytes_not_too_few(int* out, unsigned long long*, const int* input) {
    ring<BUG ? RingSlip::TOO_FEW_BYTES : RingSlip::NONE>(out, input);
}

// The bytes are announced apart from the arrival, by the thread that arrives later.
// grid 1, block 64; input of 128
extern "C" __global__ void expect_then_arrive(int* out, unsigned long long*, const int* input) {
    __shared__ __align__(128) int stage[STAGE];
    __shared__ Mbarrier full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_expect(&full, sizeof stage);
        bulk_load(stage, input, sizeof stage, &full);
        if (!BUG) mbarrier_arrive(&full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    for (int i = static_cast<int>(threadIdx.x); i < STAGE; i += 64) out[i] = stage[STAGE - 1 - i];
    __syncthreads();
    if (threadIdx.x == 0) mbarrier_invalidate(&full);
}

// ---------------------------------------------------------------------------------------------------------------------
// Bulk stores: the block writes a stage, one thread sends it off.

enum class StoreSlip { NONE, NO_PROXY_FENCE, NO_BARRIER, NO_WAIT, NO_WAIT_AT_END };

template <StoreSlip SLIP>
__device__ void store_twice(int* out) {
    __shared__ __align__(128) int stage[STAGE];
    const int thread = static_cast<int>(threadIdx.x);
    for (int i = 0; i < 2; i++) {
        stage[thread] = 1000 * i + thread;
        if (SLIP != StoreSlip::NO_PROXY_FENCE) fence_async_proxy();
        if (SLIP != StoreSlip::NO_BARRIER) __syncthreads();
        if (thread == 0) {
            bulk_store(out + i * STAGE, stage, sizeof stage);
            bulk_commit();
            if (SLIP != (i == 0 ? StoreSlip::NO_WAIT : StoreSlip::NO_WAIT_AT_END)) bulk_wait_read<0>();
        }
        __syncthreads();
    }
}

// grid 1, block 128
extern "C" __global__ void store_fenced(int* out, unsigned long long*) {
    store_twice<BUG ? StoreSlip::NO_PROXY_FENCE : StoreSlip::NONE>(out);
}

// grid 1, block 128
extern "C" __global__ void store_after_barrier(int* out, unsigned long long*) {
    store_twice<BUG ? StoreSlip::NO_BARRIER : StoreSlip::NONE>(out);
}

// grid 1, block 128
extern "C" __global__ void store_read_before_reuse(int* out, unsigned long long*) {
    store_twice<BUG ? StoreSlip::NO_WAIT : StoreSlip::NONE>(out);
}

// grid 1, block 128
extern "C" __global__ void store_read_before_exit(int* out, unsigned long long*) {
    store_twice<BUG ? StoreSlip::NO_WAIT_AT_END : StoreSlip::NONE>(out);
}

// What a bulk store wrote is there after bulk_wait; bulk_wait_read speaks of shared memory only.
// grid 1, block 128
extern "C" __global__ void store_complete_before_read(int* out, unsigned long long*) {
    __shared__ __align__(128) int stage[STAGE];
    const int thread = static_cast<int>(threadIdx.x);
    stage[thread] = thread;
    fence_async_proxy();
    __syncthreads();
    if (thread == 0) {
        bulk_store(out, stage, sizeof stage);
        bulk_commit();
        BUG ? bulk_wait_read<0>() : bulk_wait<0>();
        out[STAGE] = out[STAGE - 1];
    }
}
