// The activations that can be fused into a normalization, in forms that neither overflow nor cancel.
//
// Each is a struct with a static `apply(x, alpha, beta)`; the parameters are those of cudml/plan/activation.py in their
// order there. Source: the DML_ACTIVATION_*_OPERATOR_DESC pages of DirectML.
#pragma once

template <typename Real> __device__ Real absolute(Real x) { return x < 0 ? -x : x; }

// ln(1 + exp(x)): for large x the exponential would overflow, for small x the 1 would swallow it.
__device__ inline float log_of_one_plus_exp(float x) { return (x > 0 ? x : 0.0f) + log1pf(expf(-absolute(x))); }
__device__ inline double log_of_one_plus_exp(double x) { return (x > 0 ? x : 0.0) + log1p(exp(-absolute(x))); }

__device__ inline float exp_minus_one(float x) { return expm1f(x); }
__device__ inline double exp_minus_one(double x) { return expm1(x); }
__device__ inline float hyperbolic_tangent(float x) { return tanhf(x); }
__device__ inline double hyperbolic_tangent(double x) { return tanh(x); }
__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }

// 1 + erf(x / sqrt(2)), without cancellation where erf is near -1.
__device__ inline float one_plus_erf(float x) { return erfcf(x * -0.70710678118654752f); }
__device__ inline double one_plus_erf(double x) { return erfc(x * -0.70710678118654752440); }

// exp of a number that is never positive, so nothing overflows.
template <typename Real> __device__ Real stable_sigmoid(Real x) {
    const Real decay = exponential(-absolute(x));
    return (x < 0 ? decay : Real(1)) / (1 + decay);
}

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

CUDML_ACTIVATION(celu, x > 0 ? x : alpha * exp_minus_one(x / alpha))
CUDML_ACTIVATION(elu, x >= 0 ? x : alpha * exp_minus_one(x))
CUDML_ACTIVATION(gelu, Real(0.5) * x * one_plus_erf(x))
CUDML_ACTIVATION(hard_sigmoid, clamp_to_unit(alpha * x + beta))
CUDML_ACTIVATION(identity, x)
CUDML_ACTIVATION(leaky_relu, x >= 0 ? x : alpha * x)
CUDML_ACTIVATION(linear, alpha * x + beta)
CUDML_ACTIVATION(parametric_softplus, alpha * log_of_one_plus_exp(beta * x))
CUDML_ACTIVATION(relu, x < 0 ? Real(0) : x)
CUDML_ACTIVATION(scaled_elu, beta * (x > 0 ? x : alpha * exp_minus_one(x)))
CUDML_ACTIVATION(scaled_tanh, alpha * hyperbolic_tangent(beta * x))
CUDML_ACTIVATION(shrink, x > beta ? x - alpha : x < -beta ? x + alpha : x != x ? x : Real(0))
CUDML_ACTIVATION(sigmoid, stable_sigmoid(x))
CUDML_ACTIVATION(softplus, log_of_one_plus_exp(alpha * x) / alpha)
CUDML_ACTIVATION(softsign, x / (1 + absolute(x)))
CUDML_ACTIVATION(tanh, hyperbolic_tangent(x))
CUDML_ACTIVATION(thresholded_relu, x > alpha || x != x ? x : Real(0))

#undef CUDML_ACTIVATION

}  // namespace activation
