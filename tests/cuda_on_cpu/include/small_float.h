// What __half and __nv_bfloat16 have in common, and their pairs __half2 and __nv_bfloat162.
//
// Functions are friends defined inside, so that one definition serves both types and they convert their arguments like
// the ordinary functions of cuda_fp16.h and cuda_bf16.h.
#pragma once

#include "small_float_bits.h"

namespace cuda_on_cpu {

template <typename Format>
struct alignas(2) SmallFloat {
    unsigned short bits;

    SmallFloat() = default;
    SmallFloat(float x) : bits(encode<Format>(x)) {}
    SmallFloat(double x) : bits(encode<Format>(x)) {}
    template <typename Other>
    explicit SmallFloat(SmallFloat<Other> x) : bits(encode<Format>(x.value())) {}
    static constexpr SmallFloat from_bits(unsigned short bits) {
        SmallFloat x;
        x.bits = bits;
        return x;
    }

    double value() const { return decode<Format>(bits); }
    operator float() const { return decode<Format>(bits); }
    operator bool() const { return (bits & 0x7fff) != 0; }
    bool is_nan() const { return value() != value(); }

    // As CUDA has them, one by one: a template would make expressions ambiguous that are not so on the GPU.
#define CUDA_ON_CPU_TO(T) \
    operator T() const { return to_integer<T>(static_cast<float>(*this), Rounding::zero); }
#define CUDA_ON_CPU_FROM_AND_TO(T)                               \
    SmallFloat(T x) : bits(encode<Format>(integer_to_odd(x))) {} \
    CUDA_ON_CPU_TO(T)
    CUDA_ON_CPU_FROM_AND_TO(short)
    CUDA_ON_CPU_FROM_AND_TO(unsigned short)
    CUDA_ON_CPU_FROM_AND_TO(int)
    CUDA_ON_CPU_FROM_AND_TO(unsigned)
    CUDA_ON_CPU_FROM_AND_TO(long)
    CUDA_ON_CPU_FROM_AND_TO(unsigned long)
    CUDA_ON_CPU_FROM_AND_TO(long long)
    CUDA_ON_CPU_FROM_AND_TO(unsigned long long)
    CUDA_ON_CPU_TO(char)
    CUDA_ON_CPU_TO(signed char)
    CUDA_ON_CPU_TO(unsigned char)
#undef CUDA_ON_CPU_FROM_AND_TO
#undef CUDA_ON_CPU_TO

    // Rounded to double first, which changes nothing: 53 bits are more than twice the bits of a small float plus one,
    // and no result is a subnormal double (Figueroa 1995, "When is double rounding innocuous?").
#define CUDA_ON_CPU_ARITHMETIC(NAME, OPERATOR, ASSIGNMENT)                                                   \
    friend SmallFloat __h##NAME(SmallFloat a, SmallFloat b) { return a.value() OPERATOR b.value(); }         \
    friend SmallFloat __h##NAME##_rn(SmallFloat a, SmallFloat b) { return a.value() OPERATOR b.value(); }    \
    friend SmallFloat __h##NAME##_sat(SmallFloat a, SmallFloat b) { return saturated(__h##NAME(a, b)); }     \
    friend SmallFloat operator OPERATOR(SmallFloat a, SmallFloat b) { return a.value() OPERATOR b.value(); } \
    friend SmallFloat& operator ASSIGNMENT(SmallFloat& a, SmallFloat b) { return a = __h##NAME(a, b); }
    CUDA_ON_CPU_ARITHMETIC(add, +, +=)
    CUDA_ON_CPU_ARITHMETIC(sub, -, -=)
    CUDA_ON_CPU_ARITHMETIC(mul, *, *=)
    CUDA_ON_CPU_ARITHMETIC(div, /, /=)
#undef CUDA_ON_CPU_ARITHMETIC

    // The product is exact, but the sum can need more than twice 53 bits.
    friend SmallFloat __hfma(SmallFloat a, SmallFloat b, SmallFloat c) {
        return sum_to_odd(a.value() * b.value(), c.value());
    }
    friend SmallFloat __hfma_sat(SmallFloat a, SmallFloat b, SmallFloat c) { return saturated(__hfma(a, b, c)); }
    friend SmallFloat __hfma_relu(SmallFloat a, SmallFloat b, SmallFloat c) {
        return __hmax_nan(__hfma(a, b, c), SmallFloat(0.0f));
    }

    friend SmallFloat __hneg(SmallFloat a) { return from_bits(a.bits ^ 0x8000); }
    friend SmallFloat __habs(SmallFloat a) { return from_bits(a.bits & 0x7fff); }
    friend SmallFloat operator+(SmallFloat a) { return a; }
    friend SmallFloat operator-(SmallFloat a) { return __hneg(a); }
    friend SmallFloat& operator++(SmallFloat& a) { return a = __hadd(a, SmallFloat(1.0f)); }
    friend SmallFloat& operator--(SmallFloat& a) { return a = __hsub(a, SmallFloat(1.0f)); }
    friend SmallFloat operator++(SmallFloat& a, int) {
        const SmallFloat before = a;
        ++a;
        return before;
    }
    friend SmallFloat operator--(SmallFloat& a, int) {
        const SmallFloat before = a;
        --a;
        return before;
    }

    friend SmallFloat __hmin(SmallFloat a, SmallFloat b) { return smaller(a.value(), b.value()); }
    friend SmallFloat __hmax(SmallFloat a, SmallFloat b) { return larger(a.value(), b.value()); }
    friend SmallFloat __hmin_nan(SmallFloat a, SmallFloat b) { return either_is_nan(a, b) ? nan() : __hmin(a, b); }
    friend SmallFloat __hmax_nan(SmallFloat a, SmallFloat b) { return either_is_nan(a, b) ? nan() : __hmax(a, b); }

    friend bool __hisnan(SmallFloat a) { return a.is_nan(); }
    friend int __hisinf(SmallFloat a) { return !std::isinf(a.value()) ? 0 : a.value() < 0 ? -1 : 1; }

    // The forms with a trailing u are true where an operand is NaN.
#define CUDA_ON_CPU_COMPARISON(NAME, OPERATOR)                                                                         \
    friend bool __h##NAME(SmallFloat a, SmallFloat b) { return a.value() OPERATOR b.value() && !either_is_nan(a, b); } \
    friend bool __h##NAME##u(SmallFloat a, SmallFloat b) {                                                             \
        return a.value() OPERATOR b.value() || either_is_nan(a, b);                                                    \
    }                                                                                                                  \
    friend bool operator OPERATOR(SmallFloat a, SmallFloat b) { return a.value() OPERATOR b.value(); }
    CUDA_ON_CPU_COMPARISON(eq, ==)
    CUDA_ON_CPU_COMPARISON(ne, !=)
    CUDA_ON_CPU_COMPARISON(lt, <)
    CUDA_ON_CPU_COMPARISON(le, <=)
    CUDA_ON_CPU_COMPARISON(gt, >)
    CUDA_ON_CPU_COMPARISON(ge, >=)
#undef CUDA_ON_CPU_COMPARISON

    // Square roots and roundings to integers are exactly rounded; a GPU's other results may differ in the last place.
#define CUDA_ON_CPU_FUNCTION(NAME, RESULT) \
    friend SmallFloat NAME(SmallFloat a) { \
        const double x = a.value();        \
        return RESULT;                     \
    }
    CUDA_ON_CPU_FUNCTION(hfloor, std::floor(x))
    CUDA_ON_CPU_FUNCTION(hceil, std::ceil(x))
    CUDA_ON_CPU_FUNCTION(htrunc, std::trunc(x))
    CUDA_ON_CPU_FUNCTION(hrint, std::rint(x))
    CUDA_ON_CPU_FUNCTION(hsqrt, std::sqrt(x))
    CUDA_ON_CPU_FUNCTION(hrsqrt, 1 / std::sqrt(x))
    CUDA_ON_CPU_FUNCTION(hrcp, 1 / x)
    CUDA_ON_CPU_FUNCTION(hexp, std::exp(x))
    CUDA_ON_CPU_FUNCTION(hexp2, std::exp2(x))
    CUDA_ON_CPU_FUNCTION(hlog, std::log(x))
    CUDA_ON_CPU_FUNCTION(hlog2, std::log2(x))
    CUDA_ON_CPU_FUNCTION(hsin, std::sin(x))
    CUDA_ON_CPU_FUNCTION(hcos, std::cos(x))
    CUDA_ON_CPU_FUNCTION(htanh, std::tanh(x))
#undef CUDA_ON_CPU_FUNCTION

  private:
    static SmallFloat nan() { return from_bits(CANONICAL_NAN); }
    static bool either_is_nan(SmallFloat a, SmallFloat b) { return a.is_nan() || b.is_nan(); }
    static SmallFloat saturated(SmallFloat a) { return a.value() > 0 ? __hmin(a, SmallFloat(1.0f)) : SmallFloat(0.0f); }
};

template <typename Format>
struct alignas(4) SmallFloat2 {
    using Element = SmallFloat<Format>;
    Element x, y;

    SmallFloat2() = default;
    constexpr SmallFloat2(Element x, Element y) : x(x), y(y) {}

    friend float __low2float(SmallFloat2 a) { return a.x; }
    friend float __high2float(SmallFloat2 a) { return a.y; }
    friend SmallFloat2 __lowhigh2highlow(SmallFloat2 a) { return {a.y, a.x}; }

#define CUDA_ON_CPU_OF_ONE(NAME2, NAME) \
    friend SmallFloat2 NAME2(SmallFloat2 a) { return {NAME(a.x), NAME(a.y)}; }
#define CUDA_ON_CPU_OF_TWO(NAME2, NAME) \
    friend SmallFloat2 NAME2(SmallFloat2 a, SmallFloat2 b) { return {NAME(a.x, b.x), NAME(a.y, b.y)}; }
#define CUDA_ON_CPU_OF_THREE(NAME2, NAME)                                   \
    friend SmallFloat2 NAME2(SmallFloat2 a, SmallFloat2 b, SmallFloat2 c) { \
        return {NAME(a.x, b.x, c.x), NAME(a.y, b.y, c.y)};                  \
    }
    CUDA_ON_CPU_OF_TWO(__hadd2, __hadd)
    CUDA_ON_CPU_OF_TWO(__hsub2, __hsub)
    CUDA_ON_CPU_OF_TWO(__hmul2, __hmul)
    CUDA_ON_CPU_OF_TWO(__h2div, __hdiv)
    CUDA_ON_CPU_OF_TWO(__hadd2_rn, __hadd_rn)
    CUDA_ON_CPU_OF_TWO(__hsub2_rn, __hsub_rn)
    CUDA_ON_CPU_OF_TWO(__hmul2_rn, __hmul_rn)
    CUDA_ON_CPU_OF_TWO(__hadd2_sat, __hadd_sat)
    CUDA_ON_CPU_OF_TWO(__hsub2_sat, __hsub_sat)
    CUDA_ON_CPU_OF_TWO(__hmul2_sat, __hmul_sat)
    CUDA_ON_CPU_OF_TWO(__hmin2, __hmin)
    CUDA_ON_CPU_OF_TWO(__hmax2, __hmax)
    CUDA_ON_CPU_OF_TWO(__hmin2_nan, __hmin_nan)
    CUDA_ON_CPU_OF_TWO(__hmax2_nan, __hmax_nan)
    CUDA_ON_CPU_OF_THREE(__hfma2, __hfma)
    CUDA_ON_CPU_OF_THREE(__hfma2_sat, __hfma_sat)
    CUDA_ON_CPU_OF_THREE(__hfma2_relu, __hfma_relu)
    CUDA_ON_CPU_OF_ONE(__hneg2, __hneg)
    CUDA_ON_CPU_OF_ONE(__habs2, __habs)
    CUDA_ON_CPU_OF_ONE(operator+, +)
    CUDA_ON_CPU_OF_ONE(operator-, -)
    CUDA_ON_CPU_OF_ONE(h2floor, hfloor)
    CUDA_ON_CPU_OF_ONE(h2ceil, hceil)
    CUDA_ON_CPU_OF_ONE(h2trunc, htrunc)
    CUDA_ON_CPU_OF_ONE(h2rint, hrint)
    CUDA_ON_CPU_OF_ONE(h2sqrt, hsqrt)
    CUDA_ON_CPU_OF_ONE(h2rsqrt, hrsqrt)
    CUDA_ON_CPU_OF_ONE(h2rcp, hrcp)
    CUDA_ON_CPU_OF_ONE(h2exp, hexp)
    CUDA_ON_CPU_OF_ONE(h2exp2, hexp2)
    CUDA_ON_CPU_OF_ONE(h2log, hlog)
    CUDA_ON_CPU_OF_ONE(h2log2, hlog2)
    CUDA_ON_CPU_OF_ONE(h2sin, hsin)
    CUDA_ON_CPU_OF_ONE(h2cos, hcos)
    CUDA_ON_CPU_OF_ONE(h2tanh, htanh)
    CUDA_ON_CPU_OF_ONE(__hisnan2, __hisnan)
#undef CUDA_ON_CPU_OF_ONE
#undef CUDA_ON_CPU_OF_TWO
#undef CUDA_ON_CPU_OF_THREE

#define CUDA_ON_CPU_ARITHMETIC(OPERATOR, ASSIGNMENT)                     \
    friend SmallFloat2 operator OPERATOR(SmallFloat2 a, SmallFloat2 b) { \
        return {a.x OPERATOR b.x, a.y OPERATOR b.y};                     \
    }                                                                    \
    friend SmallFloat2& operator ASSIGNMENT(SmallFloat2& a, SmallFloat2 b) { return a = a OPERATOR b; }
    CUDA_ON_CPU_ARITHMETIC(+, +=)
    CUDA_ON_CPU_ARITHMETIC(-, -=)
    CUDA_ON_CPU_ARITHMETIC(*, *=)
    CUDA_ON_CPU_ARITHMETIC(/, /=)
#undef CUDA_ON_CPU_ARITHMETIC

    // __heq2 gives 1 or 0 for either element, __hbeq2 and the operator whether both compare so.
#define CUDA_ON_CPU_COMPARISON(NAME, OPERATOR)                                                                     \
    friend SmallFloat2 __h##NAME##2(SmallFloat2 a, SmallFloat2 b) {                                                \
        return {__h##NAME(a.x, b.x), __h##NAME(a.y, b.y)};                                                         \
    }                                                                                                              \
    friend SmallFloat2 __h##NAME##u2(SmallFloat2 a, SmallFloat2 b) {                                               \
        return {__h##NAME##u(a.x, b.x), __h##NAME##u(a.y, b.y)};                                                   \
    }                                                                                                              \
    friend bool __hb##NAME##2(SmallFloat2 a, SmallFloat2 b) { return __h##NAME(a.x, b.x) && __h##NAME(a.y, b.y); } \
    friend bool __hb##NAME##u2(SmallFloat2 a, SmallFloat2 b) {                                                     \
        return __h##NAME##u(a.x, b.x) && __h##NAME##u(a.y, b.y);                                                   \
    }                                                                                                              \
    friend bool operator OPERATOR(SmallFloat2 a, SmallFloat2 b) { return a.x OPERATOR b.x && a.y OPERATOR b.y; }
    CUDA_ON_CPU_COMPARISON(eq, ==)
    CUDA_ON_CPU_COMPARISON(ne, !=)
    CUDA_ON_CPU_COMPARISON(lt, <)
    CUDA_ON_CPU_COMPARISON(le, <=)
    CUDA_ON_CPU_COMPARISON(gt, >)
    CUDA_ON_CPU_COMPARISON(ge, >=)
#undef CUDA_ON_CPU_COMPARISON
};

}  // namespace cuda_on_cpu
