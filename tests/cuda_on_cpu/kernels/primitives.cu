// What the executor has of votes, reductions, shuffles, atomics and indices, each as CUDA defines it.

constexpr unsigned ALL = 0xffffffffu;

// One row of results for each thread; block a multiple of 32.
extern "C" __global__ void votes(unsigned* out, const int* in) {
    const int value = in[threadIdx.x];
    const unsigned bits = static_cast<unsigned>(value);
    const unsigned results[] = {
        __ballot_sync(ALL, value & 1),
        static_cast<unsigned>(__any_sync(ALL, value == 7) != 0),
        static_cast<unsigned>(__all_sync(ALL, value >= 0) != 0),
        __match_any_sync(ALL, value % 4),
        static_cast<unsigned>(__reduce_add_sync(ALL, value)),
        static_cast<unsigned>(__reduce_min_sync(ALL, value)),
        static_cast<unsigned>(__reduce_max_sync(ALL, value)),
        __reduce_min_sync(ALL, bits),
        __reduce_max_sync(ALL, bits),
        __reduce_and_sync(ALL, bits),
        __reduce_or_sync(ALL, bits),
        __reduce_xor_sync(ALL, bits),
        static_cast<unsigned>(__syncthreads_count(value & 1)),
        static_cast<unsigned>(__syncthreads_or(value == 7) != 0),
        static_cast<unsigned>(__syncthreads_and(value >= 0) != 0),
    };
    constexpr unsigned COUNT = sizeof(results) / sizeof(unsigned);
    for (unsigned i = 0; i < COUNT; i++) out[threadIdx.x * COUNT + i] = results[i];
}

template <int WIDTH>
__device__ void shuffle(double* out, double value) {
    out[0] = __shfl_sync(ALL, value, 5, WIDTH);
    out[1] = __shfl_up_sync(ALL, value, 3, WIDTH);
    out[2] = __shfl_down_sync(ALL, value, 3, WIDTH);
    out[3] = __shfl_xor_sync(ALL, value, 6, WIDTH);
}

extern "C" __global__ void shuffles(double* out, const double* in) {
    double* row = out + threadIdx.x * 8;
    shuffle<32>(row, in[threadIdx.x]);
    shuffle<8>(row + 4, in[threadIdx.x]);
}

// Every thread updates every word.
extern "C" __global__ void atomics(int* words, unsigned* counters, unsigned long long* wide, float* sum,
                                   const int* in) {
    const int value = in[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(&words[0], value);
    atomicSub(&words[1], value);
    atomicMin(&words[2], value);
    atomicMax(&words[3], value);
    atomicAnd(&words[4], value);
    atomicOr(&words[5], value);
    atomicXor(&words[6], value);
    atomicAdd_block(&words[8 + blockIdx.x], value);
    for (int expected = 0, seen; (seen = atomicCAS(&words[7], expected, expected + value)) != expected;) {
        expected = seen;
    }
    atomicInc(&counters[0], 10);
    atomicDec(&counters[1], 10);
    atomicAdd(&wide[0], static_cast<unsigned long long>(value) << 20);
    atomicMax(&wide[1], static_cast<unsigned long long>(value));
    atomicAdd(sum, static_cast<float>(value));
}

// Exchanges hand every value on: what the threads got and what is left are the values that were put in.
extern "C" __global__ void exchanges(int* word, int* got) {
    const int number = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    got[number] = atomicExch(word, number);
}

extern "C" __global__ void indices(int* out) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int* row = out + (block * blockDim.x * blockDim.y * blockDim.z + thread) * 6;
    row[0] = static_cast<int>(blockIdx.x), row[1] = static_cast<int>(blockIdx.y), row[2] = static_cast<int>(blockIdx.z);
    row[3] = static_cast<int>(threadIdx.x), row[4] = static_cast<int>(threadIdx.y);
    row[5] = static_cast<int>(threadIdx.z);
}
