// Where a kernel may read and write: within arrays, at multiples of the access's size, and what has been written.
// `indices` holds 0, 1, 2, ...: an index that comes from there is unknown to a compiler.
#include "idioms.cuh"

// From one array in shared memory into its neighbour, through a pointer that has lost the array's size.
__device__ void write_through_pointer(int* array, int index, int value) { array[index] = value; }

// grid 1, block 32; indices of 64
extern "C" __global__ void within_static_shared(int* out, unsigned long long*, const int* indices) {
    __shared__ int left[32], right[32];
    left[threadIdx.x] = right[threadIdx.x] = 0;
    __syncthreads();
    write_through_pointer(left, indices[threadIdx.x + BUG], static_cast<int>(threadIdx.x));
    write_through_pointer(right, indices[threadIdx.x], static_cast<int>(threadIdx.x));
    __syncthreads();
    out[threadIdx.x] = left[threadIdx.x] + right[threadIdx.x];
}

// grid 1, block 32; indices of 64; 128 bytes of dynamic shared memory
extern "C" __global__ void within_dynamic_shared(int* out, unsigned long long*, const int* indices) {
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    int* slots = reinterpret_cast<int*>(dynamic_shared);
    slots[indices[threadIdx.x + BUG]] = static_cast<int>(threadIdx.x);
    __syncwarp();
    out[threadIdx.x] = BUG ? 0 : slots[threadIdx.x ^ 1];
}

// grid 1, block 32; indices of 64; out has 32 elements
extern "C" __global__ void within_global(int* out, unsigned long long*, const int* indices) {
    out[indices[threadIdx.x + BUG]] = static_cast<int>(threadIdx.x);
}

// grid 1, block 32; indices of 64; out has 32 elements
extern "C" __global__ void not_before_global(int* out, unsigned long long*, const int* indices) {
    out[indices[threadIdx.x] - BUG] = static_cast<int>(threadIdx.x);
}

// grid 1, block 32; indices of 64
extern "C" __global__ void within_input(int* out, unsigned long long*, const int* indices) {
    out[threadIdx.x] = indices[threadIdx.x + (BUG ? 33 : 32)];
}

// The last access of sixteen bytes reaches beyond the end.
// grid 1, block 8; out has 30 elements
extern "C" __global__ void within_global_by_vectors(int* out, unsigned long long*) {
    const int first = 4 * static_cast<int>(threadIdx.x), count = 30;
    if (first + (BUG ? 2 : 4) <= count) {
        *reinterpret_cast<int4*>(out + first) = make_int4(first, first, first, first);
    } else {
        for (int i = first; i < count; i++) out[i] = first;
    }
}

// grid 1, block 8; out has 64 elements
extern "C" __global__ void aligned_vectors(int* out, unsigned long long*) {
    const int first = 4 * static_cast<int>(threadIdx.x);
    *reinterpret_cast<int4*>(out + first + BUG) = make_int4(first, first, first, first);
}

// grid 1, block 32; input of 64
extern "C" __global__ void aligned_copies(int* out, unsigned long long*, const int* input) {
    __shared__ __align__(16) int slots[64];
    const int thread = static_cast<int>(threadIdx.x);
    copy_async<8>(&slots[2 * thread], &input[BUG && thread == 7 ? 2 * thread - 1 : 2 * thread]);
    copy_async_wait_all();
    out[thread] = slots[2 * thread] + slots[2 * thread + 1];
}

// grid 1, block 32; indices of 64
extern "C" __global__ void within_local(int* out, unsigned long long*, const int* indices) {
    int values[4] = {};
    for (int i = 0; i < 4; i++) values[indices[i + BUG]] = i;
    out[threadIdx.x] = values[indices[threadIdx.x % 4]];
}

// grid 2, block 64
extern "C" __global__ void shared_written_first(int* out, unsigned long long*) {
    __shared__ int slots[64];
    if (!BUG || threadIdx.x != 40) slots[threadIdx.x] = global_thread();
    __syncthreads();
    out[global_thread()] = slots[63 - threadIdx.x];
}

// Pairs of which nobody writes the second, and the last of all has none.
// grid 1, block 32
extern "C" __global__ void loose_read_within_shared(int* out, unsigned long long*) {
    __shared__ __align__(8) int slots[64];
    slots[2 * threadIdx.x] = static_cast<int>(threadIdx.x);
    __syncwarp();
    const unsigned pair = (threadIdx.x ^ 1) + (BUG && threadIdx.x == 30);
    out[threadIdx.x] = load_loosely<int2>(reinterpret_cast<const char*>(slots + 2 * pair)).x;
}

// grid 1, block 32
extern "C" __global__ void loose_read_ordered(int* out, unsigned long long*) {
    __shared__ __align__(8) int slots[64];
    slots[2 * threadIdx.x] = static_cast<int>(threadIdx.x);
    if (!BUG) __syncwarp();
    out[threadIdx.x] = load_loosely<int2>(reinterpret_cast<const char*>(slots + 2 * (threadIdx.x ^ 1))).x;
}

// grid 1, block 32
extern "C" __global__ void loose_read_before_write(int* out, unsigned long long*) {
    __shared__ __align__(8) int slots[64];
    slots[2 * threadIdx.x] = static_cast<int>(threadIdx.x);
    __syncwarp();
    const int first = load_loosely<int2>(reinterpret_cast<const char*>(slots + 2 * (threadIdx.x ^ 1))).x;
    if (!BUG) __syncwarp();
    slots[2 * threadIdx.x + 1] = first;
    __syncwarp();
    out[threadIdx.x] = slots[2 * threadIdx.x + 1];
}

// grid 1, block 32
extern "C" __global__ void loose_read_aligned(int* out, unsigned long long*) {
    __shared__ __align__(8) int slots[66];
    slots[2 * threadIdx.x] = slots[2 * threadIdx.x + 1] = static_cast<int>(threadIdx.x);
    __syncwarp();
    const int* pair = slots + 2 * (threadIdx.x ^ 1);
    out[threadIdx.x] = load_loosely<int2>(reinterpret_cast<const char*>(pair + BUG)).x;
}

// `workspace` starts with no values.
// grid 2, block 64; workspace of 128
extern "C" __global__ void workspace_written_first(int* out, unsigned long long*, int* workspace) {
    const int base = static_cast<int>(blockIdx.x) * 64;
    if (!BUG || threadIdx.x != 40) workspace[global_thread()] = global_thread();
    __syncthreads();
    out[global_thread()] = workspace[base + 63 - static_cast<int>(threadIdx.x)];
}
