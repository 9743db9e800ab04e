// The only place for inline PTX and for what differs between the GPU and the execution of these sources on a CPU.
#pragma once

// When what is loaded leaves the second-level cache, beside all else there. From large arrays that are read and written
// once everything leaves before it is needed again. Yet if loads go last, stores go first, in longer runs: memory turns
// around less often, we believe. On an H200 rows of (65536, 4096) are summed in 0.497 ms, and without the hint in
// 0.516; a copy takes 0.505.
enum Eviction { EVICT_NORMALLY, EVICT_FIRST, EVICT_LAST };

#ifdef CUDA_ON_CPU
#include "cuda_on_cpu_intrinsics.h"
#else

__device__ inline float bits_as_float(unsigned bits) { return __uint_as_float(bits); }
__device__ inline unsigned float_as_bits(float x) { return __float_as_uint(x); }
__device__ inline double bits_as_double(unsigned long long bits) {
    return __longlong_as_double(static_cast<long long>(bits));
}
__device__ inline unsigned long long double_as_bits(double x) {
    return static_cast<unsigned long long>(__double_as_longlong(x));
}

// The same word, of which the compiler does not know what it computed from it before. ptxas sees through what makes no
// instruction; it does not know that grids have one dimension.
__device__ inline unsigned hidden(unsigned word) {
    unsigned same;
    asm("{.reg .b32 zero; mov.u32 zero, %%ctaid.y; xor.b32 %0, %1, zero;}" : "=r"(same) : "r"(word));
    return same;
}

// Items of which nobody may have written some bytes: these are any.
template <typename Items> __device__ Items load_loosely(const char* from) {
    return *reinterpret_cast<const Items*>(from);
}

__device__ inline float float_from_half(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

// The half is handed over in 32 bits: where a 16-bit register of type f16 was stored as a byte, ptxas 13.0 converted
// the number instead of taking its low byte.
__device__ inline unsigned short half_from_float(float x) {
    unsigned bits;
    asm("{.reg .b16 half; cvt.rn.f16.f32 half, %1; mov.b32 %0, {half, 0};}" : "=r"(bits) : "f"(x));
    return static_cast<unsigned short>(bits);
}

__device__ inline float float_from_low_half(unsigned word) {
    float x;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low;}" : "=f"(x) : "r"(word));
    return x;
}
__device__ inline float float_from_high_half(unsigned word) {
    float x;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high;}" : "=f"(x) : "r"(word));
    return x;
}

__device__ inline unsigned halves_from_floats(float low, float high) {
    unsigned word;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#else
    asm("{.reg .b16 low, high; cvt.rn.f16.f32 low, %1; cvt.rn.f16.f32 high, %2; mov.b32 %0, {low, high};}"
        : "=r"(word)
        : "f"(low), "f"(high));
#endif
    return word;
}

__device__ inline unsigned short half_from_double(double x) {
    unsigned bits;
    asm("{.reg .b16 half; cvt.rn.f16.f64 half, %1; mov.b32 %0, {half, 0};}" : "=r"(bits) : "d"(x));
    return static_cast<unsigned short>(bits);
}

// Rounds to nearest even. NaN becomes the one NaN that the instruction of newer GPUs gives.
__device__ inline unsigned short bfloat16_from_float(float x) {
#if __CUDA_ARCH__ >= 800
    unsigned bits;
    asm("{.reg .b16 half; cvt.rn.bf16.f32 half, %1; mov.b32 %0, {half, 0};}" : "=r"(bits) : "f"(x));
    return static_cast<unsigned short>(bits);
#else
    const unsigned bits = float_as_bits(x);
    if (x != x) return 0x7fff;
    return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

// Two at once, `low` in the lower half.
__device__ inline unsigned bfloat16s_from_floats(float low, float high) {
#if __CUDA_ARCH__ >= 800
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return static_cast<unsigned>(bfloat16_from_float(high)) << 16 | bfloat16_from_float(low);
#endif
}

// Off by at most one unit of the last digit where x and 1 / x are normal; 0 and infinity give one another.
__device__ inline float approximate_reciprocal(float x) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// 2^x, whose first 22 bits are right; subnormal results too.
__device__ inline float approximate_power_of_two(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The same, where a result below the smallest normal number is as good as 0: in a third of the instructions.
__device__ inline float flushed_power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Its first 20 bits are right.
__device__ inline double approximate_reciprocal(double x) {
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
    return r;
}

// The products of four bytes by four others, and a number more: of signed ones, or of others. CUDA's own __dp4a is not
// linked by NVRTC 12.1.
__device__ inline int dot_of_bytes(int a, int b, int more) {
    int sum;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(more));
    return sum;
}
__device__ inline int dot_of_bytes(unsigned a, unsigned b, int more) {
    int sum;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(more));
    return sum;
}

// Two halves in a word. A comparison gives 1 or 0.
__device__ inline unsigned halves_fma(unsigned a, unsigned b, unsigned c) {
    unsigned d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// c - a * b
__device__ inline unsigned halves_fnma(unsigned a, unsigned b, unsigned c) {
    unsigned d;
    asm("{.reg .b32 minus; neg.f16x2 minus, %1; fma.rn.f16x2 %0, minus, %2, %3;}" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

__device__ inline unsigned halves_add(unsigned a, unsigned b) {
    unsigned d;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

__device__ inline unsigned halves_less(unsigned a, unsigned b) {
    unsigned d;
    asm("set.lt.f16x2.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

// The larger of each pair, of which none is NaN.
__device__ inline unsigned halves_max(unsigned a, unsigned b) {
    unsigned d;
#if __CUDA_ARCH__ >= 800
    asm("max.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
#else
    asm("{.reg .b32 less, more; set.lt.f16x2.f16x2 less, %1, %2; sub.rn.f16x2 more, %2, %1; "
        "fma.rn.f16x2 %0, less, more, %1;}" : "=r"(d) : "r"(a), "r"(b));
#endif
    return d;
}

// ---------------------------------------------------------------------------------------------------------------------
// Launches that begin early (cudml/cuda/early.py), from compute capability 9.0 on.

// Waits until what was launched before is done and all that it wrote can be read. Before that a kernel may set up
// shared memory, and prefetch what it is about to read: the second-level cache holds what is current, whoever writes it
// meanwhile.
__device__ inline void await_launch_ahead_alone() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The last blocks, about as many as run at a time, let the next launch begin, and wait, when they begin themselves: no
// block of this launch is left that the next one's could be in the way of. It takes 0.1 to 0.2 ns for each block: an
// H200 would sum (4194304, 64) floats in 0.319 ms in place of 0.256 if all did it.
__device__ inline void let_last_blocks_begin_next_launch() {
#if __CUDA_ARCH__ >= 900
    constexpr unsigned LAST_BLOCKS = 1056;  // 8 for each of 132 multiprocessors
    // A branch would cost (16384, 16384) floats, which take all registers that there are, 0.571 ms in place of 0.521.
    asm volatile("{ .reg .pred last; setp.le.u32 last, %0, %1; @last griddepcontrol.launch_dependents; }"
                 :: "r"(gridDim.x - blockIdx.x), "n"(LAST_BLOCKS));
#endif
}

// In every kernel that is launched so, unless it sees to the next launch itself. Of many launches in a row an H200
// normalizes (64, 1024) floats in 1.20 us so, in 1.29 if only the end of a block lets the next begin, and in 1.55 if no
// launch begins early; (1024, 1024) in 3.2 and 3.6.
__device__ inline void await_launch_ahead() {
    let_last_blocks_begin_next_launch();
    await_launch_ahead_alone();
}

// In the first of two steps that read the same arrays. The second one begins when whatever wrote them is done, and so
// reads before it waits; all that it must wait for is what the first step finds, and that this has read everything.
__device__ inline void await_launch_ahead_of_steps() {
    await_launch_ahead_alone();
    let_last_blocks_begin_next_launch();
}

// Lets the next launch begin, and wait, once all blocks have come here or are done: where it has something to do before
// it waits, and is no longer in the way.
__device__ inline void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// ---------------------------------------------------------------------------------------------------------------------
// Words that threads of other blocks write or wait for.

__device__ inline unsigned long long load_relaxed(const unsigned long long* address) {
    unsigned long long word;
    asm volatile("ld.relaxed.gpu.b64 %0, [%1];" : "=l"(word) : "l"(address) : "memory");
    return word;
}

// The same into `word`, unless its upper half is `upper`. Without a branch, of which many in a row take compilers long.
__device__ inline void load_relaxed_unless(unsigned upper, const unsigned long long* address,
                                           unsigned long long& word) {
    asm volatile("{.reg .b32 low, high; .reg .pred other; mov.b64 {low, high}, %0; setp.ne.b32 other, high, %2;"
                 "@other ld.relaxed.gpu.b64 %0, [%1];}"
                 : "+l"(word)
                 : "l"(address), "r"(upper)
                 : "memory");
}

__device__ inline void store_relaxed(unsigned long long* address, unsigned long long word) {
    asm volatile("st.relaxed.gpu.b64 [%0], %1;" ::"l"(address), "l"(word) : "memory");
}

// Two neighbours in one access, each of which may be older than the other.
__device__ inline void load_relaxed_pair(const unsigned long long* address, unsigned long long (&word)[2]) {
    asm volatile("ld.relaxed.gpu.v2.b64 {%0, %1}, [%2];" : "=l"(word[0]), "=l"(word[1]) : "l"(address) : "memory");
}

__device__ inline void store_relaxed_pair(unsigned long long* address, unsigned long long first,
                                          unsigned long long second) {
    asm volatile("st.relaxed.gpu.v2.b64 [%0], {%1, %2};" ::"l"(address), "l"(first), "l"(second) : "memory");
}

#define EVICT(when) ".reg .b64 policy; createpolicy.fractional.L2::evict_" when ".b64 policy, 1.0;"

// Volatile, so that no load is moved to before what it has to wait for.
__device__ inline uint4 load_evicted_last(const uint4* from) {
#if __CUDA_ARCH__ >= 800
    uint4 words;
    asm volatile("{" EVICT("last") "ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], policy;}"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(__cvta_generic_to_global(from)));
    return words;
#else
    return *from;
#endif
}
__device__ inline uint2 load_evicted_last(const uint2* from) {
#if __CUDA_ARCH__ >= 800
    uint2 words;
    asm volatile("{" EVICT("last") "ld.global.L2::cache_hint.v2.b32 {%0, %1}, [%2], policy;}"
                 : "=r"(words.x), "=r"(words.y)
                 : "l"(__cvta_generic_to_global(from)));
    return words;
#else
    return *from;
#endif
}

// Words that lie BEHIND bytes behind `from` if all of them lie before `end`, which is so many bytes behind it too, and
// else zeros. Bytes before `begin` may be somebody else's, who writes them meanwhile. Without a branch: compilers wait
// for what a branch has loaded before they go on. Volatile, so that no load is moved to behind a store.
template <typename Words, int BEHIND, Eviction HOW> __device__ Words load_before(const char* from, int, int end) {
    constexpr int LAST = BEHIND + static_cast<int>(sizeof(Words)) - 1;
    Words words = {};
    const size_t address = __cvta_generic_to_global(from);
    if constexpr (sizeof(Words) == 4) {
        asm volatile("{.reg .pred all; setp.gt.s32 all, %2, %3; @all ld.global.b32 %0, [%1 + %4];}"
                     : "+r"(words)
                     : "l"(address), "r"(end), "n"(LAST), "n"(BEHIND));
    } else if constexpr (sizeof(Words) == 8) {
        asm volatile("{.reg .pred all; setp.gt.s32 all, %3, %4; @all ld.global.v2.b32 {%0, %1}, [%2 + %5];}"
                     : "+r"(words.x), "+r"(words.y)
                     : "l"(address), "r"(end), "n"(LAST), "n"(BEHIND));
    } else {
#define LOAD_16(policy, kind, hint)                                                           \
    asm volatile("{.reg .pred all; setp.gt.s32 all, %5, %6;" policy "@all ld.global" kind     \
                 ".v4.b32 {%0, %1, %2, %3}, [%4 + %7]" hint ";}"                              \
                 : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)                 \
                 : "l"(address), "r"(end), "n"(LAST), "n"(BEHIND));
        if constexpr (HOW == EVICT_FIRST) {
            LOAD_16("", ".cs", "")
#if __CUDA_ARCH__ >= 800
        } else if constexpr (HOW == EVICT_LAST) {
            LOAD_16(EVICT("last"), ".L2::cache_hint", ", policy")
#endif
        } else {
            LOAD_16("", "", "")
        }
#undef LOAD_16
    }
    return words;
}

// The same for two bytes, if they are the last before `end`.
template <int BEHIND> __device__ unsigned load_last_half(const char* from, int end) {
    unsigned short half = 0;
    asm volatile("{.reg .pred last; setp.eq.s32 last, %2, %3; @last ld.global.u16 %0, [%1 + %4];}"
                 : "+h"(half)
                 : "l"(__cvta_generic_to_global(from)), "r"(end), "n"(BEHIND + 2), "n"(BEHIND));
    return half;
}

// 16 bytes in one access, of which nobody sees a part, unless the upper half of the first word is `upper` but for its
// highest bit. PTX promises that of b128, since 8.3; ptxas makes the same instruction of pairs, which older versions
// know too.
__device__ inline void load_relaxed_whole_unless(unsigned upper, const unsigned long long* address,
                                                 unsigned long long (&word)[2]) {
    asm volatile("{.reg .b32 low, high; .reg .pred other; mov.b64 {low, high}, %0; xor.b32 high, high, %3;"
                 "and.b32 high, high, 0x7fffffff; setp.ne.b32 other, high, 0;"
                 "@other ld.relaxed.gpu.v2.b64 {%0, %1}, [%2];}"
                 : "+l"(word[0]), "+l"(word[1])
                 : "l"(address), "r"(upper)
                 : "memory");
}

// Stores what others read soon: the second-level cache keeps it longer than what streams through.
__device__ inline void store_relaxed_whole_kept(unsigned long long* address, unsigned long long first,
                                                unsigned long long second) {
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "{" EVICT("last") "st.relaxed.gpu.L2::cache_hint.v2.b64 [%0], {%1, %2}, policy;}" ::"l"(address),
        "l"(first), "l"(second)
        : "memory");
#else
    store_relaxed_pair(address, first, second);
#endif
}
__device__ inline void store_relaxed_kept(unsigned long long* address, unsigned long long word) {
#if __CUDA_ARCH__ >= 800
    asm volatile("{" EVICT("last") "st.relaxed.gpu.L2::cache_hint.b64 [%0], %1, policy;}" ::"l"(address), "l"(word)
                 : "memory");
#else
    store_relaxed(address, word);
#endif
}

// __syncthreads for so many warps of a block alone, which find each other by a number from 1 to 15.
template <int NUMBER, int COUNT> __device__ void sync_warps() {
    asm volatile("bar.sync %0, %1;" ::"n"(NUMBER), "n"(32 * COUNT) : "memory");
}

__device__ inline unsigned load_acquire_block(const unsigned* address) {
    unsigned word;
    asm volatile("ld.acquire.cta.b32 %0, [%1];" : "=r"(word) : "l"(address) : "memory");
    return word;
}

// Between a load and stores of what was computed from it: nobody who sees these can store where it loads before it has.
// That takes no instruction, as a load is complete when its value is used, and PTX lets none return what depends on
// itself (memory consistency model, no-thin-air). The executor, which knows nothing of what depends on what, takes a
// fence.
__device__ inline void fence_dependents() { asm volatile("" ::: "memory"); }

// A store of what nobody reads soon: it leaves the cache before anything else does.
template <typename T> __device__ inline void store_streaming(T* address, const T& value) {
    union Words {
        T value;
        unsigned word[(sizeof(T) + 3) / 4];
        __device__ Words() {}
    } words;
    words.value = value;
    if constexpr (sizeof(T) == 16) {
        asm volatile("st.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(words.word[0]), "r"(words.word[1]),
                     "r"(words.word[2]), "r"(words.word[3])
                     : "memory");
    } else if constexpr (sizeof(T) == 8) {
        asm volatile("st.cs.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(words.word[0]), "r"(words.word[1]) : "memory");
    } else if constexpr (sizeof(T) == 4) {
        asm volatile("st.cs.b32 [%0], %1;" ::"l"(address), "r"(words.word[0]) : "memory");
    } else {
        *address = value;
    }
}

// Asks for the line of 128 bytes around an address in global memory to be brought into the second-level cache.
template <Eviction HOW = EVICT_NORMALLY> __device__ void prefetch_line(const void* global) {
    const size_t from = __cvta_generic_to_global(global);
#if __CUDA_ARCH__ >= 800
    if constexpr (HOW == EVICT_LAST) {
        asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(from));
        return;
    }
#endif
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// ---------------------------------------------------------------------------------------------------------------------
// Compute capability 8.0: copies from global to shared memory by single threads, and barriers in shared memory that
// count arrivals and, from 9.0 on, the bytes of bulk copies.

using Mbarrier = unsigned long long;

__device__ inline unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

__device__ inline void mbarrier_init(Mbarrier* barrier, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

__device__ inline void mbarrier_arrive(Mbarrier* barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ inline void mbarrier_arrive_expect(Mbarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// 16 bytes, of which the cache loads so many neighbours as `at_once` says, to be evicted as HOW says.
#define COPY_16(at_once)                                                                                              \
    if constexpr (HOW == EVICT_LAST) {                                                                                \
        asm volatile("{" EVICT("last") "cp.async.cg.shared.global.L2::cache_hint" at_once " [%0], [%1], 16, policy;}" \
                     ::"r"(to), "l"(from)                                                                             \
                     : "memory");                                                                                     \
    } else {                                                                                                          \
        asm volatile("cp.async.cg.shared.global" at_once " [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");         \
    }

template <int BYTES, Eviction HOW = EVICT_NORMALLY>
__device__ inline void copy_async(void* shared, const void* global) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
    static_assert(HOW == EVICT_NORMALLY || (HOW == EVICT_LAST && BYTES == 16), "only whole 16 bytes are worth a hint");
    const unsigned to = shared_address(shared);
    const size_t from = __cvta_generic_to_global(global);
    if constexpr (BYTES == 16) {
        COPY_16("")
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
    }
}

// 16 bytes, whose neighbours others copy soon: the cache loads 128 at a time.
template <Eviction HOW = EVICT_NORMALLY> __device__ void copy_async_beside(void* shared, const void* global) {
    const unsigned to = shared_address(shared);
    const size_t from = __cvta_generic_to_global(global);
    COPY_16(".L2::128B")
}

// The same where only those from `begin` to before `end` are wanted. The others may be anything that can be read, and
// written by somebody meanwhile. What lies before can be: allocations begin at multiples of 256 bytes.
template <Eviction HOW = EVICT_NORMALLY>
__device__ void copy_async_around(void* shared, const void* global, int, int) {
    copy_async_beside<HOW>(shared, global);
}

// 16 bytes, whose neighbours on either side others copy soon: the cache loads 256 at a time.
template <Eviction HOW = EVICT_NORMALLY> __device__ void copy_async_among(void* shared, const void* global) {
    const unsigned to = shared_address(shared);
    const size_t from = __cvta_generic_to_global(global);
    COPY_16(".L2::256B")
}

// The same where only those from `begin` to before `end` are wanted.
__device__ inline void copy_async_amid(void* shared, const void* global, int, int) { copy_async_among(shared, global); }

#undef COPY_16

// The first `end` of 16 bytes, of which those from `begin` on are wanted; and 0 in place of what lies behind, which is
// not read.
__device__ inline void copy_async_until(void* shared, const void* global, int, int end) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(end)
                 : "memory");
}

// Waits for all copies that this thread has begun.
__device__ inline void copy_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Makes a group of the copies that this thread has begun since the last one; and waits for all but the last PENDING.
__device__ inline void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ inline void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Arrives as soon as all copies that this thread has begun are complete.
__device__ inline void copy_async_arrive(Mbarrier* barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Whether the phase of this parity is complete; may sleep a while before it says no.
__device__ inline bool mbarrier_try_wait(Mbarrier* barrier, unsigned parity) {
    unsigned complete;
#if __CUDA_ARCH__ >= 900
#define MBARRIER_LOOK "try_wait"
#else
#define MBARRIER_LOOK "test_wait"
#endif
    asm volatile(
        "{.reg .pred complete; mbarrier." MBARRIER_LOOK ".parity.shared.b64 complete, [%1], %2; "
        "selp.u32 %0, 1, 0, complete;}"
        : "=r"(complete)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
#undef MBARRIER_LOOK
    return complete != 0;
}

__device__ inline void mbarrier_wait(Mbarrier* barrier, unsigned parity) {
    while (!mbarrier_try_wait(barrier, parity)) {
    }
}

// Makes initialised barriers visible to the copy engine, where there is one.
__device__ inline void fence_mbarrier_init() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// Between ordinary writes to shared memory and what the copy engine does there after the next barrier.
__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A copy from global to shared memory whose bytes `barrier` counts. Addresses and sizes are multiples of 16 bytes.
template <Eviction HOW = EVICT_NORMALLY>
__device__ inline void bulk_load(void* shared, const void* global, unsigned bytes, Mbarrier* barrier) {
    const unsigned to = shared_address(shared), counted_by = shared_address(barrier);
    const size_t from = __cvta_generic_to_global(global);
#define BULK_COPY "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    if constexpr (HOW == EVICT_NORMALLY) {
        asm volatile(BULK_COPY " [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(counted_by) : "memory");
    } else if constexpr (HOW == EVICT_FIRST) {
        asm volatile("{" EVICT("first") BULK_COPY ".L2::cache_hint [%0], [%1], %2, [%3], policy;}" ::"r"(to), "l"(from),
                     "r"(bytes), "r"(counted_by)
                     : "memory");
    } else {
        asm volatile("{" EVICT("last") BULK_COPY ".L2::cache_hint [%0], [%1], %2, [%3], policy;}" ::"r"(to), "l"(from),
                     "r"(bytes), "r"(counted_by)
                     : "memory");
    }
#undef BULK_COPY
}

// Copies from shared to global memory, in groups of the thread that begins them. Addresses and sizes are multiples of
// 16 bytes.
__device__ inline void bulk_store(void* global, const void* shared, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(global)),
                 "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
}

// Makes a group of those begun since the last one; and waits until all but the last PENDING groups are done, or have
// read what they copy.
__device__ inline void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int PENDING> __device__ inline void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}
template <int PENDING> __device__ inline void bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Has the second-level cache fetch what is loaded soon. Address and size are multiples of 16 bytes. Before 9.0 it does
// nothing.
__device__ inline void bulk_prefetch(const void* global, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(global)), "r"(bytes)
                 : "memory");
#endif
}

// From here on each thread of this group of four warps, by all of them, has so many registers, a multiple of 8: `leave`
// gives some up, `take` waits until there are enough. Only what is compiled for compute capability 9.0 and no other
// (sm_90a) knows this; elsewhere all keep theirs.
template <int COUNT> __device__ void take_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}
template <int COUNT> __device__ void leave_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}

// Barriers of a cluster's blocks, which also make what was written before visible after; compute capability 9.0.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }

__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

__device__ inline void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

// The number of this block in its cluster.
__device__ inline unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The same place in the shared memory of another block of the cluster.
template <typename T> __device__ T* map_shared(T* shared, unsigned rank) {
    unsigned long long there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
    return reinterpret_cast<T*>(there);
}

#endif
