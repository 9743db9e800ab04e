// The operations of a scan: how two values combine, what leaves a value as it is, what an empty range gives.
#pragma once

#include "elements.cuh"

// Integers wrap: they are added and multiplied without a sign, where overflow is defined.
template <typename T> struct Unsigned { using type = T; };
template <> struct Unsigned<signed char> { using type = unsigned char; };
template <> struct Unsigned<short> { using type = unsigned int; };  // not short: it would be promoted to a signed int
template <> struct Unsigned<unsigned short> { using type = unsigned int; };
template <> struct Unsigned<int> { using type = unsigned int; };
template <> struct Unsigned<long long> { using type = unsigned long long; };

struct Sum {
    template <typename T> __device__ static T combine(T a, T b) {
        using U = typename Unsigned<T>::type;
        return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    }
    template <typename Real> __device__ static complex<Real> combine(complex<Real> a, complex<Real> b) {
        return {a.real + b.real, a.imag + b.imag};
    }
    __device__ static bool combine(bool a, bool b) { return a || b; }

    // -0 and not 0, because -0 + 0 is 0: a running sum of -0 stays -0.
    template <typename T> __device__ static T neutral() {
        if constexpr (IsComplex<T>::value) return {-0.0f, -0.0f};
        else return static_cast<T>(-0.0f);
    }
    template <typename T> __device__ static T first() { return T{}; }
    template <typename T> __device__ static constexpr bool neutral_may_lead() { return true; }
};

struct Product {
    template <typename T> __device__ static T combine(T a, T b) {
        using U = typename Unsigned<T>::type;
        return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    }
    template <typename Real> __device__ static complex<Real> combine(complex<Real> a, complex<Real> b) {
        return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
    }
    __device__ static bool combine(bool a, bool b) { return a && b; }

    // For complex infinities it is not neutral: 0 times infinity is in the product.
    template <typename T> __device__ static T neutral() {
        if constexpr (IsComplex<T>::value) return {1, 0};
        else return static_cast<T>(1);
    }
    template <typename T> __device__ static T first() { return neutral<T>(); }
    template <typename T> __device__ static constexpr bool neutral_may_lead() { return !IsComplex<T>::value; }
};
