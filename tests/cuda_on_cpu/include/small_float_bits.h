// The two floating-point formats of 16 bits, as bits.
#pragma once

#include "rounding.h"

namespace cuda_on_cpu {

struct Binary16 {
    static constexpr int EXPONENT_BITS = 5, FRACTION_BITS = 10;
};
struct Bfloat16 {
    static constexpr int EXPONENT_BITS = 8, FRACTION_BITS = 7;
};

// The only NaN that operations and conversions of a GPU give in these formats; CUDA's functions for a host agree.
constexpr unsigned short CANONICAL_NAN = 0x7fff;

// One rounding, whatever the source: floats and the products of two small floats are exact doubles.
template <typename Format>
unsigned short encode(double x, Rounding rounding = Rounding::nearest) {
    constexpr int FRACTION_BITS = Format::FRACTION_BITS;
    constexpr int BIAS = (1 << (Format::EXPONENT_BITS - 1)) - 1;
    constexpr unsigned INFINITE = ((1u << Format::EXPONENT_BITS) - 1) << FRACTION_BITS;

    if (x != x) return CANONICAL_NAN;
    const unsigned sign = std::signbit(x) ? 0x8000 : 0;
    const int exponent = static_cast<int>(bits_as<uint64_t>(x) >> 52 & 0x7ff) - 1023;
    if (exponent > BIAS) {
        const bool is_towards_zero = rounding == Rounding::zero || rounding == (sign ? Rounding::up : Rounding::down);
        return sign | (is_towards_zero && !std::isinf(x) ? INFINITE - 1 : INFINITE);
    }
    // Counted in units of the last place, a number that rounds up to the next power of two carries into the exponent,
    // and below the least exponent the units are those of the subnormal numbers.
    const int unit = (exponent < 1 - BIAS ? 1 - BIAS : exponent) - FRACTION_BITS;
    const double units_per_one = bits_as<double>(static_cast<uint64_t>(1023 - unit) << 52);
    const double units = std::fabs(round_to_integral(x * units_per_one, rounding));
    return sign |
           (static_cast<unsigned>(units) + (static_cast<unsigned>(unit + FRACTION_BITS + BIAS - 1) << FRACTION_BITS));
}

// Exact. A GPU converts the NaN of a half to the canonical one of a float, but moves the bits of a bfloat16.
template <typename Format>
float decode(unsigned short bits) {
    constexpr int SHIFT = 23 - Format::FRACTION_BITS;
    constexpr int BIAS = (1 << (Format::EXPONENT_BITS - 1)) - 1;
    constexpr unsigned INFINITE = ((1u << Format::EXPONENT_BITS) - 1) << Format::FRACTION_BITS;

    const unsigned sign = (bits & 0x8000u) << 16;
    const unsigned magnitude = bits & 0x7fffu;
    if (BIAS == 127) return bits_as<float>(sign | magnitude << SHIFT);
    if (magnitude > INFINITE) return bits_as<float>(0x7fffffffu);
    if (magnitude == INFINITE) return bits_as<float>(sign | 0x7f800000u);
    constexpr float RATIO_OF_BIASES = bits_as<float>((254u - BIAS) << 23);
    return bits_as<float>(sign | magnitude << SHIFT) * RATIO_OF_BIASES;
}

}  // namespace cuda_on_cpu
