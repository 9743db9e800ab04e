// CUB's inclusive sum for benchmarks/cub.py: one C function per type. Without temporary storage a call only says how
// many bytes of it are needed.

#include <cub/device/device_scan.cuh>
#include <cuda_fp16.h>

#include <climits>

// Offsets of 32 bits wherever they suffice, because CUB is faster with them.
#define INCLUSIVE_SUM(NAME, T)                                                                                     \
    extern "C" int inclusive_sum_##NAME(                                                                           \
        void* storage, size_t* bytes, const T* input, T* output, long long size, cudaStream_t stream)              \
    {                                                                                                              \
        if (size <= INT_MAX) {                                                                                     \
            return cub::DeviceScan::InclusiveSum(storage, *bytes, input, output, static_cast<int>(size), stream);  \
        }                                                                                                          \
        return cub::DeviceScan::InclusiveSum(storage, *bytes, input, output, size, stream);                        \
    }

INCLUSIVE_SUM(float32, float)
INCLUSIVE_SUM(float64, double)
INCLUSIVE_SUM(float16, __half)
INCLUSIVE_SUM(int32, int)
INCLUSIVE_SUM(int64, long long)
