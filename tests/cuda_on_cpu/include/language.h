// The keywords of CUDA C++ as g++ sees them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <source_location>
#include <type_traits>
#include <utility>

#define CUDA_ON_CPU 1

// inline: a kernel that a launch does not ask for is not compiled, which halves the time of a build.
// flatten: g++ does not instrument what a call takes by value out of memory, but the copy that inlining makes of it.
#ifdef __SANITIZE_THREAD__
#define __global__ inline __attribute__((flatten))
#else
#define __global__ inline
#endif
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))

// A __shared__ variable is thread-local to the compiler; the module's __tls_get_addr (module.h) answers with the
// address of the running block's copy. The model makes every use ask for the address of that very variable.
#define __shared__ __attribute__((tls_model("global-dynamic"))) thread_local

// What touches memory on behalf of an intrinsic tells the checker itself, and is not instrumented.
#define CUDA_ON_CPU_RAW __attribute__((no_sanitize("thread")))
