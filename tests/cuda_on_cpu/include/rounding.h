// Conversions between number types under a stated rounding, as the GPU's instruction cvt makes them.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace cuda_on_cpu {

enum class Rounding { nearest, zero, down, up };

template <typename To, typename From>
constexpr To bits_as(From from) {
    return __builtin_bit_cast(To, from);
}

template <typename Real>
Real round_to_integral(Real x, Rounding rounding) {
    switch (rounding) {
        case Rounding::zero:
            return std::trunc(x);
        case Rounding::down:
            return std::floor(x);
        case Rounding::up:
            return std::ceil(x);
        default:
            return std::rint(x);
    }
}

// Saturates. NaN becomes 0, except that cvt gives the integer of the highest bit alone where a type of 64 bits is
// involved (PTX ISA, "cvt").
template <typename Integer, typename Real>
Integer to_integer(Real x, Rounding rounding) {
    constexpr int BITS = 8 * sizeof(Integer);
    constexpr bool SIGNED = static_cast<Integer>(-1) < 0;
    constexpr Integer HIGHEST_BIT = static_cast<Integer>(uint64_t{1} << (BITS - 1));
    constexpr Integer LARGEST = static_cast<Integer>(SIGNED ? ~HIGHEST_BIT : ~Integer{0});
    constexpr Integer SMALLEST = SIGNED ? HIGHEST_BIT : 0;
    // One more than LARGEST, which would not be exact itself.
    constexpr Real END = static_cast<Real>(uint64_t{1} << (BITS - 1)) * (SIGNED ? 1 : 2);

    if (x != x) return BITS == 64 || sizeof(Real) == 8 ? HIGHEST_BIT : 0;
    const Real whole = round_to_integral(x, rounding);
    if (whole >= END) return LARGEST;
    if (whole < static_cast<Real>(SMALLEST)) return SMALLEST;
    return static_cast<Integer>(whole);
}

// From a double to float, or from an integer to either.
template <typename Real, typename Source>
Real to_real(Source x, Rounding rounding) {
    // Holds both the source and its neighbours among the results, so that they can be compared.
    using Exact = std::conditional_t<std::is_integral_v<Source>, __int128, double>;

    const Real nearest = static_cast<Real>(x);
    if (rounding == Rounding::nearest) return nearest;
    const bool is_downwards = rounding == Rounding::down || (rounding == Rounding::zero && x > 0);
    if (is_downwards) return static_cast<Exact>(nearest) > x ? std::nextafter(nearest, Real(-INFINITY)) : nearest;
    return static_cast<Exact>(nearest) < x ? std::nextafter(nearest, Real(INFINITY)) : nearest;
}

// a + b, where it is not a double, as that neighbour whose last bit is 1. Such a sum can be rounded again to 51 bits or
// fewer, in any direction, as if the exact sum were rounded (Boldo and Melquiond, 2008).
inline double sum_to_odd(double a, double b) {
    const double sum = a + b;
    const double part_of_b = sum - a;
    const double error = (a - (sum - part_of_b)) + (b - part_of_b);  // exact (Knuth's 2Sum); NaN beside an infinity
    const uint64_t bits = bits_as<uint64_t>(sum);
    const bool is_exact = !(error > 0 || error < 0);
    if (is_exact || (bits & 1) == 1) return sum;
    const bool grows = (error > 0) == (sum > 0);
    return bits_as<double>(grows ? bits + 1 : bits - 1);
}

template <typename Integer>
double integer_to_odd(Integer x) {
    if constexpr (sizeof(Integer) < 8) {
        return static_cast<double>(x);
    } else {
        constexpr Integer LOW = 0xffffffff;
        return sum_to_odd(static_cast<double>(x & ~LOW), static_cast<double>(x & LOW));
    }
}

// The smaller and the larger number as a GPU finds them: a number wins over NaN, and -0 is less than +0.
template <typename Real>
Real smaller(Real a, Real b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
}
template <typename Real>
Real larger(Real a, Real b) {
    return -smaller(-a, -b);
}

}  // namespace cuda_on_cpu
