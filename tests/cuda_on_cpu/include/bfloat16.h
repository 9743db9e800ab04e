// cuda_bf16.h: numbers with the exponent of float and 8 significant bits.
#pragma once

#include "small_float.h"
#include "vector_types.h"

using __nv_bfloat16 = cuda_on_cpu::SmallFloat<cuda_on_cpu::Bfloat16>;
using __nv_bfloat162 = cuda_on_cpu::SmallFloat2<cuda_on_cpu::Bfloat16>;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) { return a.bits; }
inline short __bfloat16_as_short(__nv_bfloat16 a) { return static_cast<short>(a.bits); }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16::from_bits(bits); }
inline __nv_bfloat16 __short_as_bfloat16(short bits) {
    return __nv_bfloat16::from_bits(static_cast<unsigned short>(bits));
}

inline float __bfloat162float(__nv_bfloat16 a) { return a; }
inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
inline __nv_bfloat16 __double2bfloat16(double x) { return x; }
#define CUDA_ON_CPU_ROUNDED(SUFFIX, ROUNDING)                                                     \
    inline __nv_bfloat16 __float2bfloat16_##SUFFIX(float x) {                                     \
        return __nv_bfloat16::from_bits(cuda_on_cpu::encode<cuda_on_cpu::Bfloat16>(x, ROUNDING)); \
    }                                                                                             \
    CUDA_ON_CPU_INTEGER(short, short, SUFFIX, ROUNDING)                                           \
    CUDA_ON_CPU_INTEGER(ushort, unsigned short, SUFFIX, ROUNDING)                                 \
    CUDA_ON_CPU_INTEGER(int, int, SUFFIX, ROUNDING)                                               \
    CUDA_ON_CPU_INTEGER(uint, unsigned, SUFFIX, ROUNDING)                                         \
    CUDA_ON_CPU_INTEGER(ll, long long, SUFFIX, ROUNDING)                                          \
    CUDA_ON_CPU_INTEGER(ull, unsigned long long, SUFFIX, ROUNDING)
#define CUDA_ON_CPU_INTEGER(NAME, T, SUFFIX, ROUNDING)                                                                \
    inline T __bfloat162##NAME##_##SUFFIX(__nv_bfloat16 a) { return cuda_on_cpu::to_integer<T>(float(a), ROUNDING); } \
    inline __nv_bfloat16 __##NAME##2bfloat16_##SUFFIX(T x) {                                                          \
        const double odd = cuda_on_cpu::integer_to_odd(x);                                                            \
        return __nv_bfloat16::from_bits(cuda_on_cpu::encode<cuda_on_cpu::Bfloat16>(odd, ROUNDING));                   \
    }
CUDA_ON_CPU_ROUNDED(rn, cuda_on_cpu::Rounding::nearest)
CUDA_ON_CPU_ROUNDED(rz, cuda_on_cpu::Rounding::zero)
CUDA_ON_CPU_ROUNDED(rd, cuda_on_cpu::Rounding::down)
CUDA_ON_CPU_ROUNDED(ru, cuda_on_cpu::Rounding::up)
#undef CUDA_ON_CPU_INTEGER
#undef CUDA_ON_CPU_ROUNDED
inline signed char __bfloat162char_rz(__nv_bfloat16 a) { return a; }
inline unsigned char __bfloat162uchar_rz(__nv_bfloat16 a) { return a; }

inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return {low, high}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
inline __nv_bfloat162 __float2bfloat162_rn(float x) { return {x, x}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) { return {low, high}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 x) { return {x.x, x.y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 a) { return {a.x, a.y}; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
inline __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return {a.x, a.x}; }
inline __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return {a.y, a.y}; }
inline __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x, b.x}; }
inline __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.y, b.y}; }
