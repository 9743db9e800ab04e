// COUNT neighbours at a time, divided by as many divisors, by the same, or by two.
#pragma once

#include "modulus_remainder.cuh"
#include "packs.cuh"

// Where all divisors in a word are the same, its halves are.
template <typename T, bool SAME> struct WordDivisor {
    using Of = Halves<T>;
    typename Of::Divisor low, high;

    WordDivisor() = default;
    __device__ explicit WordDivisor(unsigned word) : low(Of::low(word)), high(low) {
        if constexpr (!SAME) high = typename Of::Divisor(Of::high(word));
    }

    __device__ unsigned remainder_of(unsigned word) const {
        return Of::join(low.remainder_of(Of::low(word)), high.remainder_of(Of::high(word)), word);
    }
};

template <typename T, int COUNT, bool SAME, bool IN_WORDS = Values<T, COUNT>::IN_WORDS> struct Divisors {
    Divisor<T> divisor[SAME ? 1 : COUNT];

    __device__ explicit Divisors(const Values<T, COUNT>& y) {
#pragma unroll
        for (int i = 0; i < (SAME ? 1 : COUNT); i++) divisor[i] = Divisor<T>(y.get(i));
    }

    __device__ Values<T, COUNT> remainders_of(const Values<T, COUNT>& x) const {
        Values<T, COUNT> result;
#pragma unroll
        for (int i = 0; i < COUNT; i++) result.set(i, divisor[SAME ? 0 : i].remainder_of(x.get(i)));
        return result;
    }
};

template <typename T, int COUNT, bool SAME> struct Divisors<T, COUNT, SAME, true> {
    static constexpr int WORDS = Values<T, COUNT>::WORDS;
    WordDivisor<T, SAME> divisor[SAME ? 1 : WORDS];

    __device__ explicit Divisors(const Values<T, COUNT>& y) {
#pragma unroll
        for (int i = 0; i < (SAME ? 1 : WORDS); i++) divisor[i] = WordDivisor<T, SAME>(y.word[i]);
    }

    __device__ Values<T, COUNT> remainders_of(const Values<T, COUNT>& x) const {
        Values<T, COUNT> result;
#pragma unroll
        for (int i = 0; i < WORDS; i++) result.word[i] = divisor[SAME ? 0 : i].remainder_of(x.word[i]);
        return result;
    }
};

// Floats: all take a step, and those that need more do it together. That is seldom needed and long, so it is not
// inlined, and works on the stored numbers, which are kept anyway.
template <typename T, int COUNT>
__device__ __noinline__ Values<T, COUNT> long_remainders(Values<T, COUNT> x, Values<T, COUNT> y) {
    Values<T, COUNT> result;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const auto dividend = widen(x.get(i));
        result.set(i, convert<T>(copysign(long_remainder(fabs(dividend), fabs(widen(y.get(i)))), dividend)));
    }
    return result;
}

template <typename T, int COUNT, bool SAME> struct FloatDivisors {
    using Real = typename ComputedIn<T>::type;
    Values<T, COUNT> y;
    Divisor<Real> divisor[SAME ? 1 : COUNT];

    __device__ explicit FloatDivisors(const Values<T, COUNT>& divisors) : y(divisors) {
#pragma unroll
        for (int i = 0; i < (SAME ? 1 : COUNT); i++) divisor[i] = Divisor<Real>(widen(y.get(i)));
    }

    __device__ Values<T, COUNT> remainders_of(const Values<T, COUNT>& x) const {
        Real remainder[COUNT];
        bool enough = true;
#pragma unroll
        for (int i = 0; i < COUNT; i++) enough &= divisor[SAME ? 0 : i].take_step(widen(x.get(i)), remainder[i]);
        return __builtin_expect(enough, true) ? values_of<T>(remainder) : long_remainders(x, y);
    }
};
template <int COUNT, bool SAME> struct Divisors<float, COUNT, SAME, false> : FloatDivisors<float, COUNT, SAME> {
    using FloatDivisors<float, COUNT, SAME>::FloatDivisors;
};
template <int COUNT, bool SAME> struct Divisors<double, COUNT, SAME, false> : FloatDivisors<double, COUNT, SAME> {
    using FloatDivisors<double, COUNT, SAME>::FloatDivisors;
};
template <int COUNT, bool SAME> struct Divisors<bfloat16, COUNT, SAME, true> : FloatDivisors<bfloat16, COUNT, SAME> {
    using FloatDivisors<bfloat16, COUNT, SAME>::FloatDivisors;
};

// ---------------------------------------------------------------------------------------------------------------------
// The first `count` of COUNT neighbours by one divisor, the rest by another.

template <typename T, int COUNT, bool IN_WORDS = Values<T, COUNT>::IN_WORDS> struct TwoDivisors {
    Divisor<T> one, other;
    int count;

    __device__ TwoDivisors(T y, T then, int number) : one(y), other(then), count(number) {}

    __device__ Values<T, COUNT> remainders_of(const Values<T, COUNT>& x) const {
        Values<T, COUNT> result;
#pragma unroll
        for (int i = 0; i < COUNT; i++) result.set(i, (i < count ? one : other).remainder_of(x.get(i)));
        return result;
    }
};

template <typename T, int COUNT> struct TwoDivisors<T, COUNT, true> {
    using Of = Halves<T>;
    using Divisor = typename Of::Divisor;
    static constexpr int OF_WORD = Values<T, COUNT>::OF_WORD;
    Divisor one, other;
    int count;

    __device__ TwoDivisors(T y, T then, int number) : one(of_all(y)), other(of_all(then)), count(number) {}

    __device__ static Divisor of_all(T y) { return Divisor(Of::low(filled_with<OF_WORD>(y).word[0])); }

    __device__ Values<T, COUNT> remainders_of(const Values<T, COUNT>& x) const {
        Values<T, COUNT> result;
#pragma unroll
        for (int i = 0; i < result.WORDS; i++) {
            const unsigned word = x.word[i];
            const auto low = Of::low_of(one, other, count - i * OF_WORD).remainder_of(Of::low(word));
            const auto high = Of::high_of(one, other, count - i * OF_WORD).remainder_of(Of::high(word));
            result.word[i] = Of::join(low, high, word);
        }
        return result;
    }
};

// Floats keep the divisor of each, for those that need more than a step.
template <typename T, int COUNT> struct TwoFloats : Divisors<T, COUNT, false> {
    __device__ TwoFloats(T y, T then, int count) : Divisors<T, COUNT, false>(of_each(y, then, count)) {}

    __device__ static Values<T, COUNT> of_each(T y, T then, int count) {
        Values<T, COUNT> values;
#pragma unroll
        for (int i = 0; i < COUNT; i++) values.set(i, i < count ? y : then);
        return values;
    }
};
template <int COUNT> struct TwoDivisors<float, COUNT, false> : TwoFloats<float, COUNT> {
    using TwoFloats<float, COUNT>::TwoFloats;
};
template <int COUNT> struct TwoDivisors<double, COUNT, false> : TwoFloats<double, COUNT> {
    using TwoFloats<double, COUNT>::TwoFloats;
};
template <int COUNT> struct TwoDivisors<bfloat16, COUNT, true> : TwoFloats<bfloat16, COUNT> {
    using TwoFloats<bfloat16, COUNT>::TwoFloats;
};
