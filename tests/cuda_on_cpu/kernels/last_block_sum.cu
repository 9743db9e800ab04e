// The sum of an array in one launch: every block writes its partial sum, the last to do so adds them up.
//
// Constants: VALUE. Launch: any number of blocks of whole warps; `finished` is zero, and zero again afterwards.
#include "block_sum.cuh"
#include "ptx.cuh"

#ifndef VALUE
#define VALUE float
#endif

using Value = VALUE;

extern "C" __global__ void last_block_sum(const Value* input, Value* partial, unsigned* finished, Value* sum,
                                          int count) {
    __shared__ bool last;
    Value mine = 0;
    const int step = static_cast<int>(gridDim.x * blockDim.x);
    for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += step) mine += input[i];
    mine = block_sum(mine);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = mine;
        __threadfence();
        last = atomicInc(finished, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return;
    Value all = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) all += partial[i];
    all = block_sum(all);
    if (threadIdx.x == 0) *sum = all;
}

// Two sums in a row share the partial sums of block_sum.
extern "C" __global__ void moments(const Value* input, Value* output, int count) {
    Value sum = 0, squares = 0;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
        sum += input[i];
        squares += input[i] * input[i];
    }
    sum = block_sum(sum);
    squares = block_sum(squares);
    if (threadIdx.x == 0) {
        output[0] = sum;
        output[1] = squares;
    }
}
