// The only place for inline PTX and for what differs between the GPU and the execution of these sources on a CPU.
#pragma once

#ifdef CUDA_ON_CPU
#include "cuda_on_cpu_intrinsics.h"
#else

__device__ inline float bits_as_float(unsigned bits) { return __uint_as_float(bits); }
__device__ inline unsigned float_as_bits(float x) { return __float_as_uint(x); }

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

__device__ inline unsigned short half_from_double(double x) {
    unsigned bits;
    asm("{.reg .b16 half; cvt.rn.f16.f64 half, %1; mov.b32 %0, {half, 0};}" : "=r"(bits) : "d"(x));
    return static_cast<unsigned short>(bits);
}

#endif
