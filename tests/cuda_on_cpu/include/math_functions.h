// What CUDA device code has without an include: arithmetic, bits, conversions and loads with cache hints.
//
// Known differences: fminf, fmaxf, fmin and fmax are the C library's, which may take either of +0 and -0 (min and max
// here take the right one); a cast of a float to an integer that cannot hold it is undefined, while a GPU saturates.
#pragma once

#include <math.h>
#include <stdlib.h>

#include "rounding.h"

// ---------------------------------------------------------------------------------------------------------------------
// Arithmetic

// One overload per pair of types, so that a mixed pair that a GPU's compiler finds ambiguous is ambiguous here too.
#define CUDA_ON_CPU_MIN_MAX(A, B, RESULT)                                                           \
    inline RESULT min(A a, B b) { return static_cast<RESULT>(b) < static_cast<RESULT>(a) ? b : a; } \
    inline RESULT max(A a, B b) { return static_cast<RESULT>(a) < static_cast<RESULT>(b) ? b : a; }
#define CUDA_ON_CPU_MIN_MAX_OF_INTEGERS(T)                  \
    CUDA_ON_CPU_MIN_MAX(T, T, T)                            \
    CUDA_ON_CPU_MIN_MAX(unsigned T, unsigned T, unsigned T) \
    CUDA_ON_CPU_MIN_MAX(T, unsigned T, unsigned T)          \
    CUDA_ON_CPU_MIN_MAX(unsigned T, T, unsigned T)
#define CUDA_ON_CPU_MIN_MAX_OF_REALS(A, B, RESULT)                             \
    inline RESULT min(A a, B b) { return cuda_on_cpu::smaller<RESULT>(a, b); } \
    inline RESULT max(A a, B b) { return cuda_on_cpu::larger<RESULT>(a, b); }
CUDA_ON_CPU_MIN_MAX_OF_INTEGERS(int)
CUDA_ON_CPU_MIN_MAX_OF_INTEGERS(long)
CUDA_ON_CPU_MIN_MAX_OF_INTEGERS(long long)
CUDA_ON_CPU_MIN_MAX_OF_REALS(float, float, float)
CUDA_ON_CPU_MIN_MAX_OF_REALS(double, double, double)
CUDA_ON_CPU_MIN_MAX_OF_REALS(float, double, double)
CUDA_ON_CPU_MIN_MAX_OF_REALS(double, float, double)
#undef CUDA_ON_CPU_MIN_MAX_OF_REALS
#undef CUDA_ON_CPU_MIN_MAX_OF_INTEGERS
#undef CUDA_ON_CPU_MIN_MAX

inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __drcp_rn(double x) { return 1 / x; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

inline float __fdividef(float a, float b) { return a / b; }

// NaN becomes 0.
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }

// Approximations on a GPU. Macros, because glibc declares private functions of some of these names.
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __sincosf sincosf

// ---------------------------------------------------------------------------------------------------------------------
// Bits

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
    const unsigned low = static_cast<unsigned>(x), high = static_cast<unsigned>(x >> 32);
    return static_cast<unsigned long long>(__brev(low)) << 32 | __brev(high);
}

// Each of the selector's four lower nibbles numbers a byte of y:x.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned number = selector >> (4 * i) & 7;
        result |= static_cast<unsigned>(bytes >> (8 * number) & 0xff) << (8 * i);
    }
    return result;
}

// high:low is shifted; l gives the upper half, r the lower. The shift counts modulo 32, or at most 32 in the forms with
// c.
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned long long>(a) * b >> 32; }
inline long long __mul64hi(long long a, long long b) { return static_cast<__int128>(a) * b >> 64; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned __int128>(a) * b >> 64;
}

inline int __float_as_int(float x) { return cuda_on_cpu::bits_as<int>(x); }
inline unsigned __float_as_uint(float x) { return cuda_on_cpu::bits_as<unsigned>(x); }
inline float __int_as_float(int x) { return cuda_on_cpu::bits_as<float>(x); }
inline float __uint_as_float(unsigned x) { return cuda_on_cpu::bits_as<float>(x); }
inline long long __double_as_longlong(double x) { return cuda_on_cpu::bits_as<long long>(x); }
inline double __longlong_as_double(long long x) { return cuda_on_cpu::bits_as<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double(static_cast<long long>(high) << 32 | static_cast<unsigned>(low));
}

// ---------------------------------------------------------------------------------------------------------------------
// Conversions

#define CUDA_ON_CPU_TO_INTEGER(REAL, NAME, T, SUFFIX, ROUNDING) \
    inline T __##REAL##2##NAME##_##SUFFIX(REAL x) { return cuda_on_cpu::to_integer<T>(x, ROUNDING); }
#define CUDA_ON_CPU_FROM_INTEGER(REAL, NAME, T, SUFFIX, ROUNDING) \
    inline REAL __##NAME##2##REAL##_##SUFFIX(T x) { return cuda_on_cpu::to_real<REAL>(x, ROUNDING); }
#define CUDA_ON_CPU_TO_AND_FROM(REAL, NAME, T, SUFFIX, ROUNDING) \
    CUDA_ON_CPU_TO_INTEGER(REAL, NAME, T, SUFFIX, ROUNDING)      \
    CUDA_ON_CPU_FROM_INTEGER(REAL, NAME, T, SUFFIX, ROUNDING)
#define CUDA_ON_CPU_ROUNDED(SUFFIX, ROUNDING)                                  \
    CUDA_ON_CPU_TO_AND_FROM(float, int, int, SUFFIX, ROUNDING)                 \
    CUDA_ON_CPU_TO_AND_FROM(float, uint, unsigned, SUFFIX, ROUNDING)           \
    CUDA_ON_CPU_TO_AND_FROM(float, ll, long long, SUFFIX, ROUNDING)            \
    CUDA_ON_CPU_TO_AND_FROM(float, ull, unsigned long long, SUFFIX, ROUNDING)  \
    CUDA_ON_CPU_TO_INTEGER(double, int, int, SUFFIX, ROUNDING)                 \
    CUDA_ON_CPU_TO_INTEGER(double, uint, unsigned, SUFFIX, ROUNDING)           \
    CUDA_ON_CPU_TO_AND_FROM(double, ll, long long, SUFFIX, ROUNDING)           \
    CUDA_ON_CPU_TO_AND_FROM(double, ull, unsigned long long, SUFFIX, ROUNDING) \
    inline float __double2float_##SUFFIX(double x) { return cuda_on_cpu::to_real<float>(x, ROUNDING); }
CUDA_ON_CPU_ROUNDED(rn, cuda_on_cpu::Rounding::nearest)
CUDA_ON_CPU_ROUNDED(rz, cuda_on_cpu::Rounding::zero)
CUDA_ON_CPU_ROUNDED(rd, cuda_on_cpu::Rounding::down)
CUDA_ON_CPU_ROUNDED(ru, cuda_on_cpu::Rounding::up)
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
#undef CUDA_ON_CPU_ROUNDED
#undef CUDA_ON_CPU_TO_AND_FROM
#undef CUDA_ON_CPU_FROM_INTEGER
#undef CUDA_ON_CPU_TO_INTEGER

// ---------------------------------------------------------------------------------------------------------------------
// Memory and time

// Cache hints say nothing here. These accesses stay instrumented: to the checker they are those of the kernel.
#define CUDA_ON_CPU_LOAD(NAME) \
    template <typename T>      \
    T NAME(const T* address) { \
        return *address;       \
    }
#define CUDA_ON_CPU_STORE(NAME)                            \
    template <typename T>                                  \
    void NAME(T* address, std::type_identity_t<T> value) { \
        *address = value;                                  \
    }
CUDA_ON_CPU_LOAD(__ldg)
CUDA_ON_CPU_LOAD(__ldca)
CUDA_ON_CPU_LOAD(__ldcg)
CUDA_ON_CPU_LOAD(__ldcs)
CUDA_ON_CPU_LOAD(__ldcv)
CUDA_ON_CPU_LOAD(__ldlu)
CUDA_ON_CPU_STORE(__stcg)
CUDA_ON_CPU_STORE(__stcs)
CUDA_ON_CPU_STORE(__stwb)
CUDA_ON_CPU_STORE(__stwt)
#undef CUDA_ON_CPU_LOAD
#undef CUDA_ON_CPU_STORE

// Grows with every call and depends on nothing else, so that runs repeat.
__attribute__((no_sanitize("thread"))) inline long long clock64() {
    static long long calls = 0;
    return ++calls;
}
