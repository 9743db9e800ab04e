// The keywords of CUDA C++ as g++ sees them.
#pragma once

#include <cstddef>
#include <cstdint>
// Bessel functions and their kind, which g++ would read back for every kernel: 20 of the 170 ms that one takes.
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <cmath>
#include <cstdio>
#include <cstring>
#include <source_location>
#include <type_traits>
#include <utility>

#define CUDA_ON_CPU 1

// __inline__: kernels and functions that a launch does not ask for are not compiled, which takes half of the time.
// flatten: g++ does not instrument what a call takes by value out of memory, but the copy that inlining makes of it.
#ifdef __SANITIZE_THREAD__
#define __global__ __inline__ __attribute__((flatten))
#else
#define __global__ __inline__
#endif
#define __device__ __inline__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __forceinline__ __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))

// A __shared__ variable is thread-local to the compiler; the module's __tls_get_addr (module.h) answers with the
// address of the running block's copy. The model makes every use ask for the address of that very variable.
#define __shared__ __attribute__((tls_model("global-dynamic"))) thread_local

// What touches memory on behalf of an intrinsic tells the checker itself, and is not instrumented.
#define CUDA_ON_CPU_RAW __attribute__((no_sanitize("thread")))
