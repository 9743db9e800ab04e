// Remainders of divisions truncated towards zero, exact for every pair of numbers of a type.
//
// A Divisor is made of a number that is divided by, and holds what does not depend on the dividend: where one divides
// many, it is made once. Numbers of 8 and 16 bits are divided in the words that hold them, by Halves. Quotients are
// estimated with an approximate reciprocal, and their multiple is taken off exactly; a quotient that is one off shows
// in what is left. Only 64-bit integers are left to the compiler where double is slow.
//
// A divisor of 0 counts as 1 for integers, and leaves 0. Of signed integers the magnitudes are divided, which exist as
// unsigned numbers for the lowest one too. Fused multiply-adds and approximations are asked for by name (__fmaf_rn,
// __fma_rn and intrinsics.cuh), so nothing depends on what a compiler contracts or takes for fast.
//
// Constants that the plan sets:
//     FAST_DOUBLE      the GPU computes in double at least half as fast as in float
#pragma once

#include "elements.cuh"

template <typename Real> struct Format;
template <> struct Format<float> {
    using Bits = unsigned;
    static constexpr int DIGITS = 24, BIAS = 127, STEP = 21;
};
template <> struct Format<double> {
    using Bits = unsigned long long;
    static constexpr int DIGITS = 53, BIAS = 1023, STEP = 49;
};

__device__ inline float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ inline unsigned bits_of(float x) { return float_as_bits(x); }
__device__ inline unsigned long long bits_of(double x) { return double_as_bits(x); }
__device__ inline float from_bits(unsigned bits) { return bits_as_float(bits); }
__device__ inline double from_bits(unsigned long long bits) { return bits_as_double(bits); }

// 2^exponent, a normal number.
template <typename Real> __device__ Real power_of_two(int exponent) {
    using F = Format<Real>;
    return from_bits(static_cast<typename F::Bits>(exponent + F::BIAS) << (F::DIGITS - 1));
}

// Off by at most 2^(1 - DIGITS) of itself (float) or four times that (double), where y and 1 / y are normal.
__device__ inline float reciprocal(float y) { return approximate_reciprocal(y); }

// Newton's steps double the 20 bits that are right.
__device__ inline double reciprocal(double y) {
    double r = approximate_reciprocal(y);
    r = fused(r, fused(-y, r, 1.0), r);
    return fused(r, fused(-y, r, 1.0), r);
}

// For an integer q near dividend / y: dividend - q * y. Both numbers are multiples of one unit, of which y has less
// than 2^DIGITS.
//
// The sum with 1.5 * 2^(DIGITS - 1) rounds to an integer. The reciprocal's error times a quotient up to 2^STEP is at
// most a quarter: 2^(1 - 24) * 2^21 or 4 * 2^(1 - 53) * 2^49. So q is within 3/4 of the quotient and the result within
// 3/4 of y. Of units it has less than 2^DIGITS, hence the fused multiply-add does not round.
template <typename Real> struct Step {
    static constexpr Real SHIFT = static_cast<Real>(3 * (1ll << (Format<Real>::DIGITS - 2)));
    static constexpr Real LIMIT = SHIFT + static_cast<Real>(1ll << Format<Real>::STEP);
    Real shifted, rest;

    __device__ Step(Real dividend, Real y, Real by)
        : shifted(fused(dividend, by, SHIFT)), rest(fused(SHIFT - shifted, y, dividend)) {}

    // Whether the quotient is at most 2^STEP. No for NaN.
    __device__ bool is_exact() const { return shifted <= LIMIT; }
};

template <typename Real> __device__ Real step(Real dividend, Real y, Real by) {
    return Step<Real>(dividend, y, by).rest;
}

// Also exact: a number of units below that of y.
template <typename Real> __device__ Real not_negative(Real remainder, Real y) {
    return remainder < 0 ? remainder + y : remainder;
}

// magnitude = significand * unit, with 1 <= significand < 2 and unit = 2^exponent.
template <typename Real, bool SUBNORMALS> struct Scaled {
    using F = Format<Real>;
    Real significand, unit;
    int exponent;

    __device__ explicit Scaled(Real magnitude) {
        using Bits = typename F::Bits;
        const bool scaled_up = SUBNORMALS && magnitude < power_of_two<Real>(1 - F::BIAS);
        const Bits bits = bits_of(scaled_up ? magnitude * power_of_two<Real>(F::DIGITS) : magnitude);
        const Bits fraction = (static_cast<Bits>(1) << (F::DIGITS - 1)) - 1;
        significand = from_bits((bits & fraction) | bits_of(static_cast<Real>(1)));
        unit = from_bits(bits & ~fraction) * (scaled_up ? power_of_two<Real>(-F::DIGITS) : static_cast<Real>(1));
        exponent = static_cast<int>(bits >> (F::DIGITS - 1)) - F::BIAS - (scaled_up ? F::DIGITS : 0);
    }
};

// For any x >= y > 0: long division, STEP bits of the quotient at a time.
template <typename Real, bool SUBNORMALS> __device__ Real divide_long(Real x, Real y) {
    constexpr int STEP = Format<Real>::STEP;
    const Scaled<Real, SUBNORMALS> dividend(x), divisor(y);
    const Real by = reciprocal(divisor.significand);
    Real rest = dividend.significand / 2;  // below the divisor's, so that every step finds a quotient up to 2^STEP
    int bits = dividend.exponent - divisor.exponent + 1;
#pragma unroll 2
    for (; bits > STEP; bits -= STEP) rest = step(rest * power_of_two<Real>(STEP), divisor.significand, by);
    rest = step(rest * power_of_two<Real>(bits), divisor.significand, by);
    return not_negative(rest, divisor.significand) * divisor.unit;
}

// For all magnitudes. Double has no subnormals among floats, and takes longer steps.
__device__ inline float long_remainder(float x, float y) {
    if (!(x - x == 0 && y > 0)) return bits_as_float(0x7fffffffu);  // NaN
    if (x < y) return x;
    if constexpr (FAST_DOUBLE) return static_cast<float>(divide_long<double, false>(x, y));
    else return divide_long<float, true>(x, y);
}
__device__ inline double long_remainder(double x, double y) {
    if (!(x - x == 0 && y > 0)) return static_cast<double>(bits_as_float(0x7fffffffu));
    return x < y ? x : divide_long<double, true>(x, y);
}

// float and double: one step where the quotient is at most 2^STEP, and 1 / y normal. Subnormal numbers have an infinite
// reciprocal, with which no quotient is small.
template <typename Value> struct Divisor {
    Value y, by;

    Divisor() = default;
    __device__ explicit Divisor(Value divisor) : y(fabs(divisor)), by(reciprocal(y)) {}

    // By one step; false where that is not enough.
    __device__ bool take_step(Value x, Value& remainder) const {
        const Step<Value> first(fabs(x), y, by);
        remainder = copysign(not_negative(first.rest, y), x);
        return first.is_exact() && y <= power_of_two<Value>(Format<Value>::BIAS - 1);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Numbers of 16 bits, in float. In the two halves of a word: their Divisors, and how the words are taken apart and put
// together. Only bfloat16, whose numbers may need any number of steps, is converted first.

template <typename T> struct Halves;

// By which of two divisors the low and the high number of a word are divided: the first `count` of them by the one.
template <typename Of> struct DivisorsOfWord {
    using Divisor = Of;

    __device__ static Of low_of(const Of& one, const Of& other, int count) { return count > 0 ? one : other; }
    __device__ static Of high_of(const Of& one, const Of& other, int count) { return count > 1 ? one : other; }
};

// Of magnitudes of halves. Quotients are below 2^41: two steps, and no branch. A divisor of 0 gives infinities, then
// NaN; one of infinity is replaced by a number that no half reaches.
struct HalfDivisor {
    static constexpr float HALFWAY = 1 << 20;
    float y, by;

    HalfDivisor() = default;
    __device__ explicit HalfDivisor(float magnitude) : y(magnitude > 65504 ? HALFWAY : magnitude), by(reciprocal(y)) {}

    __device__ float remainder_of(float x) const {
        return not_negative(step(step(x, y * HALFWAY, by * (1 / HALFWAY)), y, by), y);
    }
};

template <> struct Halves<float16> : DivisorsOfWord<HalfDivisor> {
    static constexpr unsigned SIGNS = 0x80008000u;

    __device__ static float low(unsigned word) { return float_from_low_half(word & ~SIGNS); }
    __device__ static float high(unsigned word) { return float_from_high_half(word & ~SIGNS); }
    __device__ static unsigned join(float low, float high, unsigned dividends) {
        return (halves_from_floats(low, high) & ~SIGNS) | (dividends & SIGNS);
    }
};

// Integers, in one step.
template <bool SIGNED> struct ShortDivisor {
    float y, by;

    ShortDivisor() = default;
    __device__ explicit ShortDivisor(float divisor)
        : y(fmaxf(SIGNED ? fabsf(divisor) : divisor, 1)), by(reciprocal(y)) {}

    __device__ float remainder_of(float x) const {
        if constexpr (!SIGNED) return not_negative(step(x, y, by), y);
        return copysignf(not_negative(step(fabsf(x), y, by), y), x);
    }
};

// The last bits of 1.5 * 2^23 plus an integer are those of the integer, which converts without the slow instructions.
// Signed ones are moved by 2^15 on the way to float.
template <bool SIGNED> struct HalvesOfIntegers : DivisorsOfWord<ShortDivisor<SIGNED>> {
    static constexpr unsigned SHIFT = 0x4b400000u;

    template <int BYTES> __device__ static float real(unsigned word) {
        const float shift = bits_as_float(SHIFT) + (SIGNED ? 32768.0f : 0.0f);
        return bits_as_float(__byte_perm(SIGNED ? word ^ 0x80008000u : word, SHIFT >> 16, BYTES)) - shift;
    }
    __device__ static float low(unsigned word) { return real<0x5410>(word); }
    __device__ static float high(unsigned word) { return real<0x5432>(word); }
    __device__ static unsigned join(float low, float high, unsigned) {
        const float shift = bits_as_float(SHIFT);
        return __byte_perm(float_as_bits(low + shift), float_as_bits(high + shift), 0x5410);
    }
};
template <> struct Halves<short> : HalvesOfIntegers<true> {};
template <> struct Halves<unsigned short> : HalvesOfIntegers<false> {};

// ---------------------------------------------------------------------------------------------------------------------
// Integers of 32 and 64 bits, unsigned. Estimates are too small, so that what is left is never negative.

// 2^32 / y from a float is too small by up to 2^-20 of itself and one; Newton's step leaves less than one and a half.
// Then a quotient is at most two too small.
template <> struct Divisor<unsigned> {
    unsigned y, by;

    Divisor() = default;
    __device__ explicit Divisor(unsigned divisor) : y(divisor == 0 ? 1 : divisor) {
        const float below = bits_as_float(0x4f7ffffau);  // 2^32 less 6 units, for errors of 4: y, reciprocal, product
        by = __float2uint_rz(reciprocal(__uint2float_rn(y)) * below);
        by += __umulhi(by, 0u - y * by);
    }

    __device__ unsigned remainder_of(unsigned x) const {
        unsigned rest = x - __umulhi(x, by) * y;
        if (rest >= y) rest -= y;
        return rest >= y ? rest - y : rest;
    }
};

#if FAST_DOUBLE
// A reciprocal that is too small by 2^-49 to 2^-48 of itself gives a quotient that is too small by at most 2^16 and one
// more. What is left is divided again: that quotient fits 32 bits, and is at most one too small.
template <> struct Divisor<unsigned long long> {
    unsigned long long y;
    double by;

    Divisor() = default;
    __device__ explicit Divisor(unsigned long long divisor) : y(divisor == 0 ? 1 : divisor) {
        by = reciprocal(__ull2double_rn(y)) * (1 - 3 * power_of_two<double>(-50));
    }

    __device__ unsigned long long remainder_of(unsigned long long x) const {
        unsigned long long rest = x - __double2ull_rz(__ull2double_rn(x) * by) * y;
        rest -= __double2uint_rz(__ull2double_rn(rest) * by) * y;
        return rest >= y ? rest - y : rest;
    }
};
#else
template <> struct Divisor<unsigned long long> {
    unsigned long long y;

    Divisor() = default;
    __device__ explicit Divisor(unsigned long long divisor) : y(divisor == 0 ? 1 : divisor) {}
    __device__ unsigned long long remainder_of(unsigned long long x) const { return x % y; }
};
#endif

template <typename Integer, typename Unsigned> struct SignedDivisor : Divisor<Unsigned> {
    __device__ static Unsigned magnitude(Integer x) { return x < 0 ? 0 - static_cast<Unsigned>(x) : x; }

    SignedDivisor() = default;
    __device__ explicit SignedDivisor(Integer divisor) : Divisor<Unsigned>(magnitude(divisor)) {}

    __device__ Integer remainder_of(Integer x) const {
        const Unsigned remainder = Divisor<Unsigned>::remainder_of(magnitude(x));
        return static_cast<Integer>(x < 0 ? 0 - remainder : remainder);
    }
};

template <> struct Divisor<int> : SignedDivisor<int, unsigned> { using SignedDivisor<int, unsigned>::SignedDivisor; };
template <> struct Divisor<long long> : SignedDivisor<long long, unsigned long long> {
    using SignedDivisor<long long, unsigned long long>::SignedDivisor;
};

// ---------------------------------------------------------------------------------------------------------------------
// Integers of 8 bits: two pairs in a word, each computed at once in halves, which hold integers up to 2^11. There are
// so many in a second that nothing else is fast enough. Nothing here is approximate but for the numbers of steps, so
// testing all pairs of bytes proves it.

// The same number in both halves of a word.
__device__ constexpr unsigned both(unsigned half) { return half << 16 | half; }

constexpr unsigned HALF_ONE = both(0x3c00), HALF_1024 = both(0x6400), HALF_SIGN = both(0x8000);

// What a number is moved by so that it is the last byte of a half: 1024, and for signed ones 128 more.
template <bool SIGNED> struct HalfShift {
    static constexpr unsigned value = SIGNED ? both(0x6480) : HALF_1024;
};

// Subtracting the bits of y from twice those of 1 negates the exponent, and gives 1 / y but for up to an eighth of it,
// exactly where y is a power of two; 1 + e + e^2 leaves the cube of that error. Times a quotient it is below a quarter,
// which is why q is within 3/4 of the quotient.
template <bool SIGNED> struct PairDivisor {
    static constexpr unsigned SHIFT = HalfShift<SIGNED>::value;
    unsigned y, by;

    PairDivisor() = default;
    __device__ explicit PairDivisor(unsigned shifted) {
        const unsigned divisor = halves_add(shifted, SHIFT | HALF_SIGN);
        y = halves_max(SIGNED ? divisor & ~HALF_SIGN : divisor, HALF_ONE);
        const unsigned guess = both(0x7800) - y, error = halves_fnma(y, guess, HALF_ONE);
        by = halves_fma(guess, halves_fma(error, error, error), guess);
    }

    // Of the one in the bits of the mask, else of the other.
    __device__ PairDivisor(const PairDivisor& one, const PairDivisor& other, unsigned mask)
        : y((one.y & mask) | (other.y & ~mask)), by((one.by & mask) | (other.by & ~mask)) {}

    // Both shifted. Unsigned numbers can stay so.
    __device__ unsigned remainder_of(unsigned shifted) const {
        const unsigned dividend = halves_add(shifted, SHIFT | HALF_SIGN);
        const unsigned x = SIGNED ? dividend & ~HALF_SIGN : dividend;
        const unsigned q = halves_add(halves_fma(x, by, HALF_1024), HALF_1024 | HALF_SIGN);
        const unsigned zero = SIGNED ? 0 : SHIFT, rest = halves_fnma(q, y, SIGNED ? x : shifted);
        const unsigned remainder = halves_fma(halves_less(rest, zero), y, rest);
        return SIGNED ? halves_add(remainder | (dividend & HALF_SIGN), SHIFT) : remainder;
    }
};

// As halves moved by the shift.
template <bool SIGNED> struct PairsOfBytes {
    using Divisor = PairDivisor<SIGNED>;
    static constexpr unsigned SIGNS = SIGNED ? 0x80808080u : 0;

    __device__ static unsigned low(unsigned word) { return __byte_perm(word ^ SIGNS, HALF_1024, 0x5150); }
    __device__ static unsigned high(unsigned word) { return __byte_perm(word ^ SIGNS, HALF_1024, 0x5352); }
    __device__ static unsigned join(unsigned low, unsigned high, unsigned) {
        return __byte_perm(low, high, 0x6420) ^ SIGNS;
    }

    // All bits of the first `count` bytes.
    __device__ static unsigned bytes_before(int count) {
        return __funnelshift_rc(0xffffffffu, 0, count < 4 ? 32 - 8 * count : 0);
    }
    __device__ static Divisor low_of(const Divisor& one, const Divisor& other, int count) {
        return {one, other, __byte_perm(bytes_before(count), 0, 0x1100)};
    }
    __device__ static Divisor high_of(const Divisor& one, const Divisor& other, int count) {
        return {one, other, __byte_perm(bytes_before(count), 0, 0x3322)};
    }
};
template <> struct Halves<signed char> : PairsOfBytes<true> {};
template <> struct Halves<unsigned char> : PairsOfBytes<false> {};
