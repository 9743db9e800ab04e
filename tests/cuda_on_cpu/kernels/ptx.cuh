// The only inline PTX of these kernels: memory order, asynchronous copies, mbarriers and clusters as small named
// functions. On a CPU the executor brings functions of the same names.
#pragma once

struct alignas(16) Pair64 {
    unsigned long long low, high;
};

#ifdef CUDA_ON_CPU
#include "cuda_on_cpu_intrinsics.h"
#else

// Items of which nobody may have written some bytes: these are any.
template <typename Items>
__device__ inline Items load_loosely(const char* from) {
    return *reinterpret_cast<const Items*>(from);
}

// ---------------------------------------------------------------------------------------------------------------------
// Loads and stores with an order. The scope is the GPU unless the name says otherwise.

template <typename T>
union PtxBits {
    T value;
    unsigned word;
    unsigned long long wide;
    Pair64 pair;
    __device__ PtxBits() {}
};

// Sixteen bytes go through .b128: the two halves of a .v2.u64 are two accesses to the memory model.
#define CUDA_ON_CPU_LOAD(NAME, ORDER)                                                                     \
    template <typename T>                                                                                 \
    __device__ inline T NAME(const T* address) {                                                          \
        static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "words of 4, 8 and 16 bytes"); \
        PtxBits<T> bits;                                                                                  \
        if constexpr (sizeof(T) == 4) {                                                                   \
            asm volatile("ld." ORDER ".b32 %0, [%1];" : "=r"(bits.word) : "l"(address) : "memory");       \
        } else if constexpr (sizeof(T) == 8) {                                                            \
            asm volatile("ld." ORDER ".b64 %0, [%1];" : "=l"(bits.wide) : "l"(address) : "memory");       \
        } else {                                                                                          \
            asm volatile("{.reg .b128 both; ld." ORDER ".b128 both, [%2]; mov.b128 {%0, %1}, both;}"      \
                         : "=l"(bits.pair.low), "=l"(bits.pair.high)                                      \
                         : "l"(address)                                                                   \
                         : "memory");                                                                     \
        }                                                                                                 \
        return bits.value;                                                                                \
    }

#define CUDA_ON_CPU_STORE(NAME, ORDER)                                                                               \
    template <typename T>                                                                                            \
    __device__ inline void NAME(T* address, PtxSame<T> value) {                                                      \
        static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "words of 4, 8 and 16 bytes");            \
        PtxBits<T> bits;                                                                                             \
        bits.value = value;                                                                                          \
        if constexpr (sizeof(T) == 4) {                                                                              \
            asm volatile("st." ORDER ".b32 [%0], %1;" ::"l"(address), "r"(bits.word) : "memory");                    \
        } else if constexpr (sizeof(T) == 8) {                                                                       \
            asm volatile("st." ORDER ".b64 [%0], %1;" ::"l"(address), "l"(bits.wide) : "memory");                    \
        } else {                                                                                                     \
            asm volatile("{.reg .b128 both; mov.b128 both, {%1, %2}; st." ORDER ".b128 [%0], both;}" ::"l"(address), \
                         "l"(bits.pair.low), "l"(bits.pair.high)                                                     \
                         : "memory");                                                                                \
        }                                                                                                            \
    }

// Keeps a second argument out of the deduction of T, so that store_release(&word, 1) stores a word of word's type.
template <typename T>
struct PtxIdentity {
    using Type = T;
};
template <typename T>
using PtxSame = typename PtxIdentity<T>::Type;

CUDA_ON_CPU_LOAD(load_relaxed, "relaxed.gpu")
CUDA_ON_CPU_LOAD(load_acquire, "acquire.gpu")
CUDA_ON_CPU_LOAD(load_acquire_block, "acquire.cta")
CUDA_ON_CPU_LOAD(load_acquire_cluster, "acquire.cluster")
CUDA_ON_CPU_STORE(store_relaxed, "relaxed.gpu")
CUDA_ON_CPU_STORE(store_release, "release.gpu")
CUDA_ON_CPU_STORE(store_release_block, "release.cta")
CUDA_ON_CPU_STORE(store_release_cluster, "release.cluster")

#undef CUDA_ON_CPU_LOAD
#undef CUDA_ON_CPU_STORE

// ---------------------------------------------------------------------------------------------------------------------
// Additions with an order; all return the old value.

__device__ inline unsigned add_acquire(unsigned* address, unsigned value) {
    unsigned old;
    asm volatile("atom.acquire.gpu.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
    return old;
}

__device__ inline unsigned add_release(unsigned* address, unsigned value) {
    unsigned old;
    asm volatile("atom.release.gpu.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
    return old;
}

__device__ inline unsigned add_acq_rel(unsigned* address, unsigned value) {
    unsigned old;
    asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
    return old;
}

// ---------------------------------------------------------------------------------------------------------------------
// Copies from global to shared memory by single threads (cp.async).

__device__ inline unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

template <int BYTES>
__device__ inline void copy_async(void* shared, const void* global) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
    const unsigned to = shared_address(shared);
    const size_t from = __cvta_generic_to_global(global);
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
    }
}

__device__ inline void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until no more than the N youngest groups of this thread are on their way.
template <int N>
__device__ inline void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ inline void copy_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// ---------------------------------------------------------------------------------------------------------------------
// Mbarriers: barriers in shared memory that count arrivals and, for bulk copies, bytes.

using Mbarrier = unsigned long long;

__device__ inline void mbarrier_init(Mbarrier* barrier, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

__device__ inline void mbarrier_invalidate(Mbarrier* barrier) {
    asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ inline void mbarrier_arrive(Mbarrier* barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives at a barrier of any block of the cluster; `mapped` is what map_shared returned.
__device__ inline void mbarrier_arrive_cluster(Mbarrier* mapped) {
    asm volatile(
        "{.reg .b64 there; cvta.to.shared::cluster.u64 there, %0;"
        " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];}" ::"l"(mapped)
        : "memory");
}

// Announces bytes that bulk copies will bring, without arriving.
__device__ inline void mbarrier_expect(Mbarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

__device__ inline void mbarrier_arrive_expect(Mbarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Whether the phase of this parity is complete; may sleep a while before it says no.
__device__ inline bool mbarrier_try_wait(Mbarrier* barrier, unsigned parity) {
    unsigned complete;
    asm volatile(
        "{.reg .pred complete; mbarrier.try_wait.parity.shared.b64 complete, [%1], %2; selp.u32 %0, 1, 0, complete;}"
        : "=r"(complete)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    return complete != 0;
}

__device__ inline void mbarrier_wait(Mbarrier* barrier, unsigned parity) {
    while (!mbarrier_try_wait(barrier, parity)) {
    }
}

// Makes initialised barriers visible to the other blocks of the cluster and to the copy engine.
__device__ inline void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Orders ordinary accesses to memory with those of the copy engine.
__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async;" ::: "memory"); }

// ---------------------------------------------------------------------------------------------------------------------
// Bulk copies (cp.async.bulk): addresses and sizes are multiples of 16 bytes.

__device__ inline void bulk_load(void* shared, const void* global, unsigned bytes, Mbarrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

__device__ inline void bulk_store(void* global, const void* shared, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(global)),
                 "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
}

__device__ inline void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but the N youngest groups of this thread have read their shared memory.
template <int N>
__device__ inline void bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// Waits until all but the N youngest groups of this thread are complete: what they wrote is visible to this thread.
template <int N>
__device__ inline void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

// ---------------------------------------------------------------------------------------------------------------------
// Barriers of some warps, and clusters

template <int NUMBER, int COUNT>
__device__ inline void sync_warps() {
    asm volatile("bar.sync %0, %1;" ::"n"(NUMBER), "n"(32 * COUNT) : "memory");
}

__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }

__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

__device__ inline void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

__device__ inline unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ inline unsigned cluster_size() {
    unsigned size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

// Where `shared`, an address in this block's shared memory, lies in block `rank` of the cluster.
template <typename T>
__device__ inline T* map_shared(T* shared, unsigned rank) {
    unsigned long long there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
    return reinterpret_cast<T*>(there);
}

#endif
