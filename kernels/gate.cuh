// Gates, by which the warps of a block hand work to one another: a gate opens each time that all arrivals of a phase
// are there, and shows those who waited what was written before them.
//
// Whoever read or wrote what a gate guards arrives for itself. One lane could do so for its warp, behind a __syncwarp,
// but an H200 is no faster for it: 2^28 float32 take it 0.508 ms so and 0.507 ms with all lanes, (65536, 8192) float16
// along their columns 0.527 and 0.525. And compute-sanitizer's racecheck follows gates that way only.
#pragma once

#include "intrinsics.cuh"

// The barriers of compute capability 8.0 and newer (HARDWARE_GATES), which wait for asynchronous copies too.
struct HardwareGate {
    Mbarrier barrier;

    __device__ void init(unsigned arrivals) { mbarrier_init(&barrier, arrivals); }
    __device__ void arrive() { mbarrier_arrive(&barrier); }

    // From 9.0 on: arrives, and keeps the gate shut until `bytes` have come, which are a multiple of 16 as are the
    // addresses.
    template <Eviction HOW> __device__ void arrive_with_copy(void* to, const void* from, unsigned bytes) {
        mbarrier_arrive_expect(&barrier, bytes);
        bulk_load<HOW>(to, from, bytes, &barrier);
    }

    // The same in several copies of so many bytes together.
    __device__ void arrive_and_expect(unsigned bytes) { mbarrier_arrive_expect(&barrier, bytes); }
    template <Eviction HOW> __device__ void copy(void* to, const void* from, unsigned bytes) {
        bulk_load<HOW>(to, from, bytes, &barrier);
    }

    // Arrives when all copy_async of this thread so far are complete; it does not wait for that.
    __device__ void arrive_after_copies() { copy_async_arrive(&barrier); }

    // Phases are waited for in turn: only the one before and the present one can be told apart.
    __device__ void wait(int phase) { mbarrier_wait(&barrier, phase & 1); }
};

// The same in ordinary shared memory.
struct SoftwareGate {
    unsigned arrived, arrivals;

    __device__ void init(unsigned count) {
        arrived = 0;
        arrivals = count;
    }
    __device__ void arrive() {
        __threadfence_block();
        atomicAdd(&arrived, 1u);
    }
    __device__ void wait(int phase) {
        while (load_acquire_block(&arrived) < (phase + 1) * arrivals) {
        }
    }
};

template <bool HARDWARE> struct GateOf { using type = SoftwareGate; };
template <> struct GateOf<true> { using type = HardwareGate; };

// Bytes. Bulk copies keep the place within 16 of them, and are faster where they keep that within a line of the cache:
// three lines of 67108865 float32 are summed in 0.437 ms so, and 0.453 ms otherwise.
constexpr int CACHE_LINE = 128;

// How a stage is loaded: by ordinary loads, which pass through registers, by asynchronous copies of a few bytes each,
// or by bulk copies. Hardware gates wait for the last two.
constexpr int BY_ELEMENTS = 0, BY_COPIES = 1, IN_BULK = 2;
