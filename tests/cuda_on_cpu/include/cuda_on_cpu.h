// Included before a kernel file: makes g++ read it as CUDA C++.
#pragma once

#include "atomic_functions.h"
#include "cuda_on_cpu_intrinsics.h"
#include "language.h"
#include "math_functions.h"
#include "vector_types.h"
#include "warp_functions.h"

// Names that headers of the compiler use too; none of them follows.
// __device__ stands for it (language.h), and g++ takes it once only.
#define inline
#define __noinline__ __attribute__((noinline))
// Instructions of a GPU mean nothing to this assembler.
#define asm static_assert(false, "inline PTX stands in intrinsics.cuh only, under #ifndef CUDA_ON_CPU"), void
#define __asm__ asm
