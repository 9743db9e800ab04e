// Twins of the wrappers in kernels/intrinsics.cuh that convert numbers.
#pragma once

#include <limits>

#include "small_float.h"

inline float bits_as_float(unsigned bits) { return cuda_on_cpu::bits_as<float>(bits); }
inline unsigned float_as_bits(float x) { return cuda_on_cpu::bits_as<unsigned>(x); }
inline double bits_as_double(unsigned long long bits) { return cuda_on_cpu::bits_as<double>(bits); }
inline unsigned long long double_as_bits(double x) { return cuda_on_cpu::bits_as<unsigned long long>(x); }

inline unsigned hidden(unsigned word) { return word; }

inline float float_from_half(unsigned short bits) { return cuda_on_cpu::decode<cuda_on_cpu::Binary16>(bits); }
inline unsigned short half_from_float(float x) { return cuda_on_cpu::encode<cuda_on_cpu::Binary16>(x); }
inline float float_from_low_half(unsigned word) { return float_from_half(static_cast<unsigned short>(word)); }
inline float float_from_high_half(unsigned word) { return float_from_half(static_cast<unsigned short>(word >> 16)); }
inline unsigned halves_from_floats(float low, float high) {
    return static_cast<unsigned>(half_from_float(high)) << 16 | half_from_float(low);
}
inline unsigned short half_from_double(double x) { return cuda_on_cpu::encode<cuda_on_cpu::Binary16>(x); }
inline unsigned short bfloat16_from_float(float x) {
    const unsigned bits = float_as_bits(x);
    if (x != x) return 0x7fff;
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline unsigned bfloat16s_from_floats(float low, float high) {
    return static_cast<unsigned>(bfloat16_from_float(high)) << 16 | bfloat16_from_float(low);
}

// As far off as a GPU's may be, by an amount that follows from the digits. Where a GPU flushes subnormals, so do these.
template <typename Real, typename Bits>
Real reciprocal_off_by(Real x, Bits units) {
    constexpr Real SMALLEST = std::numeric_limits<Real>::min();
    if (!(std::fabs(x) >= SMALLEST)) return x != x ? x : std::copysign(INFINITY, x);
    const Real exact = 1 / x;
    if (!(std::fabs(exact) >= SMALLEST)) return std::copysign(Real(0), x);
    const Bits error = cuda_on_cpu::bits_as<Bits>(x) % (2 * units + 1) - units;
    return cuda_on_cpu::bits_as<Real>(cuda_on_cpu::bits_as<Bits>(exact) + error);
}
inline float approximate_reciprocal(float x) { return reciprocal_off_by<float, uint32_t>(x, 1); }
inline double approximate_reciprocal(double x) { return reciprocal_off_by<double, uint64_t>(x, uint64_t{1} << 32); }
inline float approximate_power_of_two(float x) {
    const float exact = std::exp2(x);
    if (!(exact >= std::numeric_limits<float>::min() && exact <= std::numeric_limits<float>::max())) return exact;
    return cuda_on_cpu::bits_as<float>(cuda_on_cpu::bits_as<uint32_t>(exact) + cuda_on_cpu::bits_as<uint32_t>(x) % 5 -
                                       2);
}
inline float flushed_power_of_two(float x) {
    const float y = approximate_power_of_two(x);
    return y < std::numeric_limits<float>::min() ? 0 : y;
}

template <typename Byte>
int dot_of_each_byte(unsigned a, unsigned b, int more) {
    for (int i = 0; i < 4; i++) more += static_cast<Byte>(a >> (8 * i)) * static_cast<Byte>(b >> (8 * i));
    return more;
}
inline int dot_of_bytes(int a, int b, int more) { return dot_of_each_byte<signed char>(a, b, more); }
inline int dot_of_bytes(unsigned a, unsigned b, int more) { return dot_of_each_byte<unsigned char>(a, b, more); }

// Applies a function to both halves of words.
template <typename Function>
unsigned halves(Function function, unsigned a, unsigned b, unsigned c = 0) {
    using Half = cuda_on_cpu::SmallFloat<cuda_on_cpu::Binary16>;
    const auto half = [](unsigned word, int i) {
        return Half::from_bits(static_cast<unsigned short>(word >> (16 * i)));
    };
    const Half low = function(half(a, 0), half(b, 0), half(c, 0)), high = function(half(a, 1), half(b, 1), half(c, 1));
    return static_cast<unsigned>(high.bits) << 16 | low.bits;
}
inline unsigned halves_fma(unsigned a, unsigned b, unsigned c) {
    return halves([](auto x, auto y, auto z) { return __hfma(x, y, z); }, a, b, c);
}
inline unsigned halves_fnma(unsigned a, unsigned b, unsigned c) { return halves_fma(a ^ 0x80008000u, b, c); }
inline unsigned halves_add(unsigned a, unsigned b) {
    return halves([](auto x, auto y, auto) { return __hadd(x, y); }, a, b);
}
inline unsigned halves_less(unsigned a, unsigned b) {
    return halves([](auto x, auto y, auto) { return decltype(x)(__hlt(x, y) ? 1.0f : 0.0f); }, a, b);
}
inline unsigned halves_max(unsigned a, unsigned b) {
    return halves([](auto x, auto y, auto) { return __hmax(x, y); }, a, b);
}
