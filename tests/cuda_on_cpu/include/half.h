// cuda_fp16.h: half-precision numbers.
#pragma once

#include "small_float.h"
#include "vector_types.h"

using __half = cuda_on_cpu::SmallFloat<cuda_on_cpu::Binary16>;
using __half2 = cuda_on_cpu::SmallFloat2<cuda_on_cpu::Binary16>;
using half = __half;
using half2 = __half2;
using nv_half = __half;
using nv_half2 = __half2;

inline unsigned short __half_as_ushort(__half a) { return a.bits; }
inline short __half_as_short(__half a) { return static_cast<short>(a.bits); }
inline __half __ushort_as_half(unsigned short bits) { return __half::from_bits(bits); }
inline __half __short_as_half(short bits) { return __half::from_bits(static_cast<unsigned short>(bits)); }

inline float __half2float(__half a) { return a; }
inline __half __float2half(float x) { return x; }
inline __half __double2half(double x) { return x; }
#define CUDA_ON_CPU_ROUNDED(SUFFIX, ROUNDING)                                              \
    inline __half __float2half_##SUFFIX(float x) {                                         \
        return __half::from_bits(cuda_on_cpu::encode<cuda_on_cpu::Binary16>(x, ROUNDING)); \
    }                                                                                      \
    CUDA_ON_CPU_INTEGER(short, short, SUFFIX, ROUNDING)                                    \
    CUDA_ON_CPU_INTEGER(ushort, unsigned short, SUFFIX, ROUNDING)                          \
    CUDA_ON_CPU_INTEGER(int, int, SUFFIX, ROUNDING)                                        \
    CUDA_ON_CPU_INTEGER(uint, unsigned, SUFFIX, ROUNDING)                                  \
    CUDA_ON_CPU_INTEGER(ll, long long, SUFFIX, ROUNDING)                                   \
    CUDA_ON_CPU_INTEGER(ull, unsigned long long, SUFFIX, ROUNDING)
#define CUDA_ON_CPU_INTEGER(NAME, T, SUFFIX, ROUNDING)                                                     \
    inline T __half2##NAME##_##SUFFIX(__half a) { return cuda_on_cpu::to_integer<T>(float(a), ROUNDING); } \
    inline __half __##NAME##2half_##SUFFIX(T x) {                                                          \
        const double odd = cuda_on_cpu::integer_to_odd(x);                                                 \
        return __half::from_bits(cuda_on_cpu::encode<cuda_on_cpu::Binary16>(odd, ROUNDING));               \
    }
CUDA_ON_CPU_ROUNDED(rn, cuda_on_cpu::Rounding::nearest)
CUDA_ON_CPU_ROUNDED(rz, cuda_on_cpu::Rounding::zero)
CUDA_ON_CPU_ROUNDED(rd, cuda_on_cpu::Rounding::down)
CUDA_ON_CPU_ROUNDED(ru, cuda_on_cpu::Rounding::up)
#undef CUDA_ON_CPU_INTEGER
#undef CUDA_ON_CPU_ROUNDED
inline signed char __half2char_rz(__half a) { return a; }
inline unsigned char __half2uchar_rz(__half a) { return a; }

inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __halves2half2(__half low, __half high) { return {low, high}; }
inline __half2 __half2half2(__half a) { return {a, a}; }
inline __half2 __float2half2_rn(float x) { return {x, x}; }
inline __half2 __floats2half2_rn(float low, float high) { return {low, high}; }
inline __half2 __float22half2_rn(float2 x) { return {x.x, x.y}; }
inline float2 __half22float2(__half2 a) { return {a.x, a.y}; }
inline __half __low2half(__half2 a) { return a.x; }
inline __half __high2half(__half2 a) { return a.y; }
inline __half2 __low2half2(__half2 a) { return {a.x, a.x}; }
inline __half2 __high2half2(__half2 a) { return {a.y, a.y}; }
inline __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
inline __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
