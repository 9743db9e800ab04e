// The CPU's twins of the wrappers round inline PTX: same names, same meaning.
//
// A wrapper that is missing here makes the compilation of a kernel fail with the wrapper's name.
#pragma once

#include "atomic_functions.h"
#include "numeric_intrinsics.h"
#include "runtime_api.h"

// Launches run one after the other.
inline void await_launch_ahead() {}
inline void await_launch_ahead_alone() {}
inline void await_launch_ahead_of_steps() {}
inline void let_next_launch_begin() {}

#define CUDA_ON_CPU_LOAD(NAME, ORDER, SCOPE)                                                                   \
    template <typename T>                                                                                      \
    T NAME(const T* address, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {                       \
        return cuda_on_cpu::atomic_load(address, cuda_on_cpu::Order::ORDER, cuda_on_cpu::Scope::SCOPE, where); \
    }
#define CUDA_ON_CPU_STORE(NAME, ORDER, SCOPE)                                                                     \
    template <typename T>                                                                                         \
    void NAME(T* address, cuda_on_cpu::Same<T> value, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) { \
        cuda_on_cpu::atomic_store(address, value, cuda_on_cpu::Order::ORDER, cuda_on_cpu::Scope::SCOPE, where);   \
    }
#define CUDA_ON_CPU_ADD(NAME, ORDER)                                                 \
    inline unsigned NAME(unsigned* address, unsigned value,                          \
                         cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) { \
        return cuda_on_cpu::atomic_update(                                           \
            address, cuda_on_cpu::Order::ORDER, cuda_on_cpu::Scope::gpu,             \
            [value](unsigned old) CUDA_ON_CPU_RAW { return old + value; }, where);   \
    }
CUDA_ON_CPU_LOAD(load_relaxed, relaxed, gpu)
CUDA_ON_CPU_LOAD(load_acquire, acquire, gpu)
CUDA_ON_CPU_LOAD(load_acquire_block, acquire, block)
CUDA_ON_CPU_LOAD(load_acquire_cluster, acquire, cluster)
CUDA_ON_CPU_STORE(store_relaxed, relaxed, gpu)
CUDA_ON_CPU_STORE(store_release, release, gpu)
CUDA_ON_CPU_STORE(store_release_block, release, block)
CUDA_ON_CPU_STORE(store_release_cluster, release, cluster)
CUDA_ON_CPU_ADD(add_acquire, acquire)
CUDA_ON_CPU_ADD(add_release, release)
CUDA_ON_CPU_ADD(add_acq_rel, acquire_release)
#undef CUDA_ON_CPU_LOAD
#undef CUDA_ON_CPU_STORE
#undef CUDA_ON_CPU_ADD

template <typename Items>
CUDA_ON_CPU_RAW Items load_loosely(const char* from, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::before_loose_read(from, sizeof(Items), alignof(Items), where);
    return *reinterpret_cast<const Items*>(from);
}

inline void load_relaxed_unless(unsigned upper, const unsigned long long* address, unsigned long long& word,
                                cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    if (word >> 32 != upper) word = load_relaxed(address, where);
}

// Two accesses: the GPU promises no more.
inline void load_relaxed_pair(const unsigned long long* address, unsigned long long (&word)[2],
                              cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    word[0] = load_relaxed(address, where);
    word[1] = load_relaxed(address + 1, where);
}
inline void store_relaxed_pair(unsigned long long* address, unsigned long long first, unsigned long long second,
                               cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    store_relaxed(address, first, where);
    store_relaxed(address + 1, second, where);
}

// One access.
inline void load_relaxed_whole_unless(unsigned upper, const unsigned long long* address, unsigned long long (&word)[2],
                                      cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    if ((word[0] >> 32 & 0x7fffffff) == upper) return;
    const auto whole = load_relaxed(reinterpret_cast<const unsigned __int128*>(address), where);
    word[0] = static_cast<unsigned long long>(whole);
    word[1] = static_cast<unsigned long long>(whole >> 64);
}
inline void store_relaxed_whole_kept(unsigned long long* address, unsigned long long first, unsigned long long second,
                                     cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    const auto upper = static_cast<unsigned __int128>(second) << 64;
    store_relaxed(reinterpret_cast<unsigned __int128*>(address), upper | first, where);
}
inline void store_relaxed_kept(unsigned long long* address, unsigned long long word,
                               cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    store_relaxed(address, word, where);
}

template <typename Words>
Words load_evicted_last(const Words* from) {
    return *from;
}

// Loads nothing but what is wanted, so that nobody is seen to race with the rest, nor can rely on it.
template <typename Words, int BEHIND, auto HOW>
Words load_before(const char* from, int begin, int end) {
    Words words = {};
    if (end < BEHIND + static_cast<int>(sizeof words)) return words;
    auto* const bytes = reinterpret_cast<char*>(&words);
    for (int i = 0; i < static_cast<int>(sizeof words); i++) {
        bytes[i] = BEHIND > 0 || i >= begin ? from[BEHIND + i] : static_cast<char>(0xa5);
    }
    return words;
}
template <int BEHIND>
unsigned load_last_half(const char* from, int end) {
    return end == BEHIND + 2 ? *reinterpret_cast<const unsigned short*>(from + BEHIND) : 0;
}

// cp.async: copies of a thread, in groups, from global to shared memory.
template <int BYTES, auto HOW = 0>
void copy_async(void* shared, const void* global, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
    cuda_on_cpu::copy_async(shared, global, BYTES, where);
}
template <auto HOW = 0>
void copy_async_beside(void* shared, const void* global, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::copy_async(shared, global, 16, where);
}
template <auto HOW = 0>
void copy_async_around(void* shared, const void* global, int begin, int end,
                       cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::copy_async_part(shared, global, begin, end, 16, where);
}
inline void copy_async_until(void* shared, const void* global, int begin, int end,
                             cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::copy_async_part(shared, global, begin, end, end, where);
}
inline void copy_async_amid(void* shared, const void* global, int begin, int end,
                            cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::copy_async_part(shared, global, begin, end, 16, where);
}
template <auto HOW = 0>
void copy_async_among(void* shared, const void* global, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::copy_async(shared, global, 16, where);
}
inline void copy_async_commit(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::commit_copies(where);
}
template <int GROUPS>
void copy_async_wait(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::wait_for_copies(GROUPS, where);
}
inline void copy_async_wait_all(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::commit_copies(where);
    cuda_on_cpu::wait_for_copies(0, where);
}

// mbarriers in shared memory.
using Mbarrier = unsigned long long;
inline void mbarrier_init(Mbarrier* barrier, unsigned count, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::mbarrier_init(barrier, count, where);
}
inline void mbarrier_invalidate(Mbarrier* barrier, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::mbarrier_invalidate(barrier, where);
}
inline void mbarrier_arrive(Mbarrier* barrier, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::mbarrier_arrive(barrier, 0, false, where);
}
inline void mbarrier_arrive_cluster(Mbarrier* mapped, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::mbarrier_arrive(mapped, 0, true, where);
}
inline void mbarrier_arrive_expect(Mbarrier* barrier, unsigned bytes,
                                   cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::mbarrier_arrive(barrier, bytes, false, where);
}
inline void mbarrier_expect(Mbarrier* barrier, unsigned bytes,
                            cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::mbarrier_expect(barrier, bytes, where);
}
// On a GPU the arrival comes later, and the thread goes on at once. Here it waits: one of the ways in which it may
// happen.
inline void copy_async_arrive(Mbarrier* barrier, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::commit_copies(where);
    cuda_on_cpu::wait_for_copies(0, where);
    cuda_on_cpu::mbarrier_arrive(barrier, 0, false, where);
}
inline bool mbarrier_try_wait(Mbarrier* barrier, unsigned parity,
                              cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    return cuda_on_cpu::mbarrier_try_wait(barrier, parity, where);
}
inline void mbarrier_wait(Mbarrier* barrier, unsigned parity,
                          cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    while (!cuda_on_cpu::mbarrier_try_wait(barrier, parity, where)) {
    }
}
inline void fence_mbarrier_init(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::fence_mbarrier_init(where);
}
template <auto HOW = 0>
void prefetch_line(const void*) {}  // nobody sees what a hint reads
inline void fence_async_proxy(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::fence_async_proxy(where);
}

// cp.async.bulk: one-dimensional copies by the copy engine.
// Hints to the cache change nothing of what is copied or loaded.
template <auto HOW = 0>
inline void bulk_load(void* shared, const void* global, unsigned bytes, Mbarrier* barrier,
                      cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::bulk_load(shared, global, bytes, barrier, where);
}
inline void bulk_prefetch(const void* global, unsigned bytes,
                          cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::bulk_prefetch(global, bytes, where);
}
inline void fence_dependents(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) { __threadfence(where); }

template <typename T>
void store_streaming(T* address, const T& value) {
    *address = value;
}
inline void bulk_store(void* global, const void* shared, unsigned bytes,
                       cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::bulk_store(global, shared, bytes, where);
}
inline void bulk_commit(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::commit_bulk_stores(where);
}
template <int GROUPS>
void bulk_wait(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::wait_for_bulk_stores(GROUPS, false, where);
}
template <int GROUPS>
void bulk_wait_read(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::wait_for_bulk_stores(GROUPS, true, where);
}

// A barrier of so many warps of the block, which find each other by its number.
template <int NUMBER, int COUNT>
void sync_warps(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    static_assert(0 < NUMBER && NUMBER < cuda_on_cpu::NAMED_BARRIERS, "0 is that of __syncthreads");
    cuda_on_cpu::synchronize_warps(NUMBER, COUNT, where);
}

// Clusters of blocks, and their distributed shared memory.
inline void cluster_sync(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::synchronize_cluster(where);
}
inline void cluster_arrive(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::arrive_at_cluster(where);
}
inline void cluster_wait(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::wait_for_cluster(where);
}
inline unsigned cluster_rank() { return cuda_on_cpu::cluster_rank(); }

template <int COUNT>
void take_registers() {}
template <int COUNT>
void leave_registers() {}
inline unsigned cluster_size() { return cuda_on_cpu::cluster_size(); }
template <typename T>
T* map_shared(T* shared, unsigned rank, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    return static_cast<T*>(cuda_on_cpu::map_shared(shared, rank, where));
}
