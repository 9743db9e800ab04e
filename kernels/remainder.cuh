// Remainders of divisions truncated towards zero, exact for every pair of numbers of a type.
//
// A Divisor is made of a number that is divided by, and holds what does not depend on the dividend: where one divides
// many, it is made once. Quotients are estimated with an approximate reciprocal, and their multiple is taken off
// exactly; a quotient that is one off shows in what is left. Only 64-bit integers are left to the compiler where double
// is slow.
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
__device__ inline unsigned long long bits_of(double x) {
    return static_cast<unsigned long long>(__double_as_longlong(x));
}
__device__ inline float from_bits(unsigned bits) { return bits_as_float(bits); }
__device__ inline double from_bits(unsigned long long bits) {
    return __longlong_as_double(static_cast<long long>(bits));
}

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

// dividend - q * y for an integer q near dividend / y, which is at most 2^STEP. Both numbers are multiples of one unit,
// of which y has less than 2^DIGITS.
//
// The sum with 1.5 * 2^(DIGITS - 1) rounds to an integer. The reciprocal's error times the quotient is at most a
// quarter: 2^(1 - 24) * 2^21 or 4 * 2^(1 - 53) * 2^49. So q is within 3/4 of the quotient and the result within 3/4 of
// y. Of units it has less than 2^DIGITS, hence the fused multiply-add does not round.
template <typename Real> __device__ Real step(Real dividend, Real y, Real by) {
    const Real shift = static_cast<Real>(3) * power_of_two<Real>(Format<Real>::DIGITS - 2);
    const Real q = fused(dividend, by, shift) - shift;
    return fused(-q, y, dividend);
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

// For magnitudes of which x is not below y. Double has no subnormals among floats, and takes longer steps.
__device__ inline float long_remainder(float x, float y) {
    if (!(x - x == 0 && y > 0)) return bits_as_float(0x7fffffffu);  // NaN
    if constexpr (FAST_DOUBLE) return static_cast<float>(divide_long<double, false>(x, y));
    else return divide_long<float, true>(x, y);
}
__device__ inline double long_remainder(double x, double y) {
    if (!(x - x == 0 && y > 0)) return static_cast<double>(bits_as_float(0x7fffffffu));
    return divide_long<double, true>(x, y);
}

// float and double: one step where the quotient is below 2^STEP.
template <typename Value> struct Divisor {
    Value y, by, limit;  // below the limit a dividend takes one step

    __device__ explicit Divisor(Value divisor) : y(fabs(divisor)), by(reciprocal(y)) {
        const Value largest = power_of_two<Value>(Format<Value>::BIAS - 1);
        const bool has_reciprocal = y >= 1 / largest && y <= largest;
        limit = has_reciprocal ? y * power_of_two<Value>(Format<Value>::STEP) : 0;
    }

    __device__ Value remainder_of(Value x) const {
        const Value magnitude = fabs(x);
        const bool is_smaller = magnitude < y;
        Value remainder = not_negative(step(magnitude, y, by), y);
        if (!is_smaller && !(magnitude < limit)) remainder = long_remainder(magnitude, y);
        return is_smaller ? x : copysign(remainder, x);
    }
};

template <> struct Divisor<bfloat16> : Divisor<float> {
    __device__ explicit Divisor(bfloat16 divisor) : Divisor<float>(widen(divisor)) {}

    __device__ bfloat16 remainder_of(bfloat16 x) const {
        return {bfloat16_from_float(Divisor<float>::remainder_of(widen(x)))};
    }
};

// Quotients of halves are below 2^41: two steps in float, and no branch. A divisor of 0 gives infinities, then NaN.
template <> struct Divisor<float16> {
    float y, by;

    __device__ explicit Divisor(float16 divisor) : y(fabsf(widen(divisor))), by(reciprocal(y)) {}

    __device__ float16 remainder_of(float16 dividend) const {
        constexpr float HALFWAY = 1 << 20;
        const float x = widen(dividend), magnitude = fabsf(x);
        const float rest = step(magnitude, y * HALFWAY, by * (1 / HALFWAY));
        const float remainder = not_negative(step(rest, y, by), y);
        return {half_from_float(magnitude < y ? x : copysignf(remainder, x))};
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Integers of 16 bits: one step in float. Adding to the bits of 1.5 * 2^23 converts without the slow instructions.

template <typename Integer> struct SmallDivisor {
    static constexpr unsigned SHIFT = 0x4b400000u;
    float y, by;

    __device__ static float real(Integer x) {
        return bits_as_float(SHIFT + static_cast<unsigned>(x)) - bits_as_float(SHIFT);
    }

    __device__ explicit SmallDivisor(Integer divisor) : y(fmaxf(fabsf(real(divisor)), 1)), by(reciprocal(y)) {}

    __device__ Integer remainder_of(Integer dividend) const {
        const float x = real(dividend);
        const float remainder = copysignf(not_negative(step(fabsf(x), y, by), y), x);
        return static_cast<Integer>(float_as_bits(remainder + bits_as_float(SHIFT)));
    }
};

template <> struct Divisor<short> : SmallDivisor<short> { using SmallDivisor<short>::SmallDivisor; };
template <> struct Divisor<unsigned short> : SmallDivisor<unsigned short> {
    using SmallDivisor<unsigned short>::SmallDivisor;
};

// ---------------------------------------------------------------------------------------------------------------------
// Integers of 32 and 64 bits, unsigned. Estimates are too small, so that what is left is never negative.

// 2^32 / y from a float is too small by up to 2^-20 of itself and one; Newton's step leaves less than one and a half.
// Then a quotient is at most two too small.
template <> struct Divisor<unsigned> {
    unsigned y, by;

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

    __device__ explicit Divisor(unsigned long long divisor) : y(divisor == 0 ? 1 : divisor) {}
    __device__ unsigned long long remainder_of(unsigned long long x) const { return x % y; }
};
#endif

template <typename Integer, typename Unsigned> struct SignedDivisor : Divisor<Unsigned> {
    __device__ static Unsigned magnitude(Integer x) { return x < 0 ? 0 - static_cast<Unsigned>(x) : x; }

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
// Integers of 8 bits: two at a time in halves, which hold integers up to 2^11. There are so many in a second that
// nothing else is fast enough. Nothing here is approximate but for the numbers of steps, so testing all pairs of bytes
// proves it.

// The same number in both halves of a word.
__device__ constexpr unsigned both(unsigned half) { return half << 16 | half; }

constexpr unsigned HALF_ONE = both(0x3c00), HALF_1024 = both(0x6400), HALF_SIGN = both(0x8000);

// What a number is moved by so that it is the last byte of a half: 1024, and for signed ones 128 more.
template <bool SIGNED> struct HalfShift {
    static constexpr unsigned value = SIGNED ? both(0x6480) : HALF_1024;
};

// Bytes 0 and 1 of a word, or 2 and 3, as halves moved by the shift.
template <bool SIGNED, int PAIR> __device__ unsigned shifted_halves(unsigned word) {
    if (SIGNED) word ^= 0x80808080u;
    return __byte_perm(word, 0x64646464u, PAIR == 0 ? 0x4140 : 0x4342);
}

template <bool SIGNED> __device__ unsigned word_of(unsigned low, unsigned high) {
    const unsigned word = __byte_perm(low, high, 0x6420);
    return SIGNED ? word ^ 0x80808080u : word;
}

// Subtracting the bits of y from twice those of 1 negates the exponent, and gives 1 / y but for up to an eighth of it,
// exactly where y is a power of two; 1 + e + e^2 leaves the cube of that error. Times a quotient it is below a quarter,
// which is why q is within 3/4 of the quotient.
template <bool SIGNED> struct PairDivisor {
    static constexpr unsigned SHIFT = HalfShift<SIGNED>::value;
    unsigned y, by;

    __device__ explicit PairDivisor(unsigned shifted) {
        const unsigned divisor = halves_add(shifted, SHIFT | HALF_SIGN);
        y = halves_max(SIGNED ? divisor & ~HALF_SIGN : divisor, HALF_ONE);
        const unsigned guess = both(0x7800) - y, error = halves_fnma(y, guess, HALF_ONE);
        by = halves_fma(guess, halves_fma(error, error, error), guess);
    }

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

// Four bytes in a word.
template <bool SIGNED> struct BytesDivisor {
    PairDivisor<SIGNED> low, high;

    __device__ explicit BytesDivisor(unsigned word)
        : low(shifted_halves<SIGNED, 0>(word)), high(shifted_halves<SIGNED, 1>(word)) {}

    __device__ unsigned remainder_of(unsigned word) const {
        return word_of<SIGNED>(low.remainder_of(shifted_halves<SIGNED, 0>(word)),
                               high.remainder_of(shifted_halves<SIGNED, 1>(word)));
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// COUNT neighbours at a time. Bytes are kept in words: taken as bytes, compilers take a word apart and put it together.

template <typename T, int COUNT, bool BYTES = sizeof(T) == 1> struct Values : Pack<T, COUNT> {
    static constexpr bool IN_MEMORY = true;  // laid out as in memory

    __device__ T get(int i) const { return this->element[i]; }
    __device__ void set(int i, T value) { this->element[i] = value; }
};

template <typename T, int COUNT> struct alignas(COUNT < 4 ? 4 : COUNT < 16 ? COUNT : 16) Values<T, COUNT, true> {
    static constexpr bool IN_MEMORY = COUNT % 4 == 0;
    static constexpr int WORDS = (COUNT + 3) / 4;
    unsigned word[WORDS];

    __device__ T get(int i) const { return static_cast<T>(word[i / 4] >> (i % 4 * 8)); }
    __device__ void set(int i, T value) {
        const unsigned byte = static_cast<unsigned char>(value);
        word[i / 4] = i % 4 == 0 ? byte : word[i / 4] | byte << (i % 4 * 8);  // in order
    }
};

template <int COUNT, typename T> __device__ Values<T, COUNT> filled_with(T number) {
    Values<T, COUNT> values;
#pragma unroll
    for (int i = 0; i < COUNT; i++) values.set(i, number);
    return values;
}

template <typename To, typename From, int COUNT>
__device__ Values<To, COUNT> converted(const Values<From, COUNT>& from) {
    if constexpr (IsSame<To, From>::value) {
        return from;
    } else {
        Values<To, COUNT> to;
#pragma unroll
        for (int i = 0; i < COUNT; i++) to.set(i, convert<To>(from.get(i)));
        return to;
    }
}

// Of as many divisions, or all by the first divisor where there is ONE.
template <bool ONE, typename T, int COUNT>
__device__ Values<T, COUNT> remainders(const Values<T, COUNT>& x, const Values<T, COUNT>& y) {
    Values<T, COUNT> result;
    if constexpr (sizeof(T) == 1) {
        constexpr bool SIGNED = static_cast<T>(-1) < 0;
        const BytesDivisor<SIGNED> first(y.word[0]);
#pragma unroll
        for (int i = 0; i < result.WORDS; i++) {
            result.word[i] = (ONE ? first : BytesDivisor<SIGNED>(y.word[i])).remainder_of(x.word[i]);
        }
    } else {
        const Divisor<T> first(y.get(0));
#pragma unroll
        for (int i = 0; i < COUNT; i++) result.set(i, (ONE ? first : Divisor<T>(y.get(i))).remainder_of(x.get(i)));
    }
    return result;
}
