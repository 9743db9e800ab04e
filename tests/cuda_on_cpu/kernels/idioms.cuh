// What the files of idioms share. Every kernel of these files is right, and wrong when compiled with -DBUG=1; the line
// above it gives its launch. `out` and `flags` start as zeros.
#pragma once

#include "ptx.cuh"

#ifndef BUG
#define BUG 0
#endif

constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ inline int global_thread() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % 32; }
