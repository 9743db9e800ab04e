// The activations that can be fused into a normalization, in forms that neither overflow nor cancel.
//
// Each is a struct with a static `apply(x, alpha, beta)`; the parameters are those of cudml/plan/activation.py in their
// order there, and where there is but one, beta is 1 / alpha. Source: the DML_ACTIVATION_*_OPERATOR_DESC pages of
// DirectML.
//
// In float the functions are straight-line code, because a branch for each element costs more than both its ways, and
// end in the instructions for 2^x and 1 / x: 10 to 20 instructions, where a multiprocessor of an H200 has 58 for an
// element in the time in which memory moves it. Their errors are a few units of the last digit, and what the rounding
// of the exponent makes of it: |x| units, x^2 for gelu. The polynomials are minimax fits of the relative error.
#pragma once

#include "intrinsics.cuh"

__device__ inline float absolute(float x) { return fabsf(x); }
__device__ inline double absolute(double x) { return fabs(x); }

// c[0] + c[1] x + c[2] x^2 ...
template <int COUNT> __device__ float polynomial(const float (&c)[COUNT], float x) {
    float sum = c[COUNT - 1];
#pragma unroll
    for (int i = COUNT - 2; i >= 0; i--) sum = fmaf(sum, x, c[i]);
    return sum;
}

constexpr float LOG2_E = 1.44269504f;

__device__ inline float exponential(float x) { return approximate_power_of_two(x * LOG2_E); }
__device__ inline double exponential(double x) { return exp(x); }

// n / d, for d from 1 to 2^64; rounded as the division is, but for rare cases.
__device__ inline float divided(float n, float d) {
    const float r = approximate_reciprocal(d), q = n * r;
    return fmaf(fmaf(-q, d, n), r, q);
}
__device__ inline double divided(double n, double d) { return n / d; }

// exp(x) - 1 would cancel for small x, and exp overflow for none that is at most 0.
__device__ inline float exp_minus_one(float x) {
    constexpr float C[] = {0.49999997f, 0.16666539f, 0.0416672193f, 0.00836717524f, 0.00138824014f};
    const float near = fmaf(x * x, polynomial(C, x), x), far = flushed_power_of_two(x * LOG2_E) - 1;
    return absolute(x) < 0.35f ? near : far;
}
__device__ inline double exp_minus_one(double x) { return expm1(x); }

// ln(1 + x) for x from 0 to 1.
__device__ inline float log_of_one_plus(float x) {
    constexpr float C[] = {0.99999994f, -0.499994934f, 0.333190978f, -0.24842988f, 0.19106023f, -0.136632696f,
                           0.0782261342f, -0.0295053031f, 0.00523270061f};
    return x * polynomial(C, x);
}
__device__ inline double log_of_one_plus(double x) { return log1p(x); }

// ln(1 + exp(x)): for large x the exponential would overflow, for small x the 1 would swallow it.
template <typename Real> __device__ Real log_of_one_plus_exp(Real x) {
    return (x > 0 ? x : Real(0)) + log_of_one_plus(exponential(-absolute(x)));
}

__device__ inline float hyperbolic_tangent(float x) { return tanhf(x); }
__device__ inline double hyperbolic_tangent(double x) { return tanh(x); }

// x times the normal distribution's share below it: exp(-x^2 / 2) times a smooth function of 1 / (1 + |x| / 4) is what
// lies beyond |x|, of which |x| times as much is missing from the positive part of x, so nothing cancels. Nothing
// representable lies beyond 64, and nothing is infinite up to there.
__device__ inline float times_normal_share_below(float x) {
    constexpr float C[] = {0.188821301f, 0.303948343f, 0.387133479f, 0.373041064f, 0.241775572f, 0.0602785163f,
                           -0.0587272495f, -0.0489406809f, 0.0246491171f};
    const float size = fminf(absolute(x), 64.0f), t = approximate_reciprocal(fmaf(size, 0.25f, 1.0f));
    const float beyond = flushed_power_of_two(size * (-0.5f * LOG2_E) * size) * (t * polynomial(C, t - 0.5f));
    return fmaf(-size, beyond, x < 0 ? 0 : x);
}
__device__ inline double times_normal_share_below(double x) {
    return (x < -64 ? -64 : x) * (0.5 * erfc(x * -0.70710678118654752440));
}

// exp of a number that is never positive, so nothing overflows.
template <typename Real> __device__ Real stable_sigmoid(Real x) {
    const Real decay = exponential(-absolute(x));
    return divided(x < 0 ? decay : Real(1), 1 + decay);
}

// Beyond 1e18 the quotient is 1 to the last bit.
template <typename Real> __device__ Real softly_signed(Real x) {
    const Real size = absolute(x), bounded = size > Real(1e18) ? Real(1e18) : size;
    const Real y = divided(bounded, 1 + bounded);
    return x < 0 ? -y : y;
}

// Both are computed before one is taken.
template <typename Real> __device__ Real positive_or(Real x, Real otherwise) { return x > 0 ? x : otherwise; }

// NaN passes through.
template <typename Real> __device__ Real clamp_to_unit(Real x) { return x < 0 ? Real(0) : x > 1 ? Real(1) : x; }

namespace activation {

#define CUDML_ACTIVATION(name, expression)                                                    \
    struct name {                                                                             \
        template <typename Real> __device__ static Real apply(Real x, Real alpha, Real beta) { \
            (void)alpha, (void)beta;                                                          \
            return expression;                                                                \
        }                                                                                     \
    };

CUDML_ACTIVATION(celu, positive_or(x, alpha * exp_minus_one(x * beta)))
CUDML_ACTIVATION(elu, positive_or(x, alpha * exp_minus_one(x)))
CUDML_ACTIVATION(gelu, times_normal_share_below(x))
CUDML_ACTIVATION(hard_sigmoid, clamp_to_unit(alpha * x + beta))
CUDML_ACTIVATION(identity, x)
CUDML_ACTIVATION(leaky_relu, x >= 0 ? x : alpha * x)
CUDML_ACTIVATION(linear, alpha * x + beta)
CUDML_ACTIVATION(parametric_softplus, alpha * log_of_one_plus_exp(beta * x))
CUDML_ACTIVATION(relu, x < 0 ? Real(0) : x)
CUDML_ACTIVATION(scaled_elu, beta * positive_or(x, alpha * exp_minus_one(x)))
CUDML_ACTIVATION(scaled_tanh, alpha * hyperbolic_tangent(beta * x))
CUDML_ACTIVATION(shrink, x > beta ? x - alpha : x < -beta ? x + alpha : x != x ? x : Real(0))
CUDML_ACTIVATION(sigmoid, stable_sigmoid(x))
CUDML_ACTIVATION(softplus, log_of_one_plus_exp(alpha * x) * beta)
CUDML_ACTIVATION(softsign, softly_signed(x))
CUDML_ACTIVATION(tanh, hyperbolic_tangent(x))
CUDML_ACTIVATION(thresholded_relu, x > alpha || x != x ? x : Real(0))

#undef CUDML_ACTIVATION

}  // namespace activation
