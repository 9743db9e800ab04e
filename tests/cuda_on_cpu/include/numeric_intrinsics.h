// Twins of the wrappers in kernels/intrinsics.cuh that convert numbers.
#pragma once

#include "small_float_bits.h"

inline float bits_as_float(unsigned bits) { return cuda_on_cpu::bits_as<float>(bits); }
inline unsigned float_as_bits(float x) { return cuda_on_cpu::bits_as<unsigned>(x); }

inline float float_from_half(unsigned short bits) { return cuda_on_cpu::decode<cuda_on_cpu::Binary16>(bits); }
inline unsigned short half_from_float(float x) { return cuda_on_cpu::encode<cuda_on_cpu::Binary16>(x); }
inline unsigned short half_from_double(double x) { return cuda_on_cpu::encode<cuda_on_cpu::Binary16>(x); }
inline unsigned short bfloat16_from_float(float x) {
    const unsigned bits = float_as_bits(x);
    if (x != x) return 0x7fff;
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
