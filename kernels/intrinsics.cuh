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

__device__ inline unsigned short half_from_float(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

__device__ inline unsigned short half_from_double(double x) {
    unsigned short bits;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x));
    return bits;
}

#endif
