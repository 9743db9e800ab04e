// Kernels that never end well, for the executor's reports, and kernels that show its schedule.
#include "ptx.cuh"

// A loop without any synchronisation.
extern "C" __global__ void endless_loop(volatile int* out) {
    while (true) out[0] = out[0] + 1;
}

// A loop in memory of its own: nothing that the executor could count.
extern "C" __global__ void endless_arithmetic(unsigned* out, unsigned step) {
    volatile unsigned value = 1;
    while (value != 0) value = value + step;
    out[0] = value;
}

// Everybody waits for a flag that nobody raises.
extern "C" __global__ void livelock(unsigned* flag) {
    while (load_acquire(flag) == 0) {
    }
}

// One block waits for a message of the other and the other way round.
extern "C" __global__ void mutual_wait(unsigned* flags) {
    while (load_acquire(&flags[1 - blockIdx.x]) == 0) __nanosleep(100);
    store_release(&flags[blockIdx.x], 1u);
}

// Half of the block waits at a barrier of shared memory that the other half, at the block's barrier, never reaches.
extern "C" __global__ void crossed_barriers(unsigned*) {
    __shared__ Mbarrier barrier;
    if (threadIdx.x == 0) mbarrier_init(&barrier, blockDim.x);
    __syncthreads();
    if (threadIdx.x < blockDim.x / 2) {
        mbarrier_arrive(&barrier);
        mbarrier_wait(&barrier, 0);
    } else {
        __syncthreads();
        mbarrier_arrive(&barrier);
    }
    __syncthreads();
}

__device__ __noinline__ int descend(volatile int* out, int depth) {
    volatile int frame[64];
    frame[depth % 64] = depth;
    return depth < 0 ? out[0] : descend(out, depth + 1) + frame[depth % 64];
}

extern "C" __global__ void stack_overflow(volatile int* out) { out[0] = descend(out, 1); }

extern "C" __global__ void divide(int* out, int dividend, int divisor) {
    out[threadIdx.x] = dividend / (divisor - static_cast<int>(threadIdx.x));
}

extern "C" __global__ void write_to(int* out, int value) { out[threadIdx.x] = value; }

extern "C" __global__ void read_from(int* out, const int* input) { out[threadIdx.x] = input[threadIdx.x]; }

extern "C" __global__ void takes_values(int* out, signed char small, long long big, float real, double exact) {
    out[0] = small;
    out[1] = static_cast<int>(big >> 32);
    out[2] = static_cast<int>(2 * real);
    out[3] = static_cast<int>(4 * exact);
}

struct Geometry {
    int rows, columns;
    long long stride;
};

extern "C" __global__ void takes_struct(long long* out, Geometry geometry) {
    out[0] = geometry.rows * geometry.stride + geometry.columns;
}

// Which thread was the n-th to run.
extern "C" __global__ void order_of_threads(int* order, unsigned* ticket) {
    order[atomicAdd(ticket, 1u)] = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

// Where a thread stands in grids and blocks of up to three dimensions.
extern "C" __global__ void coordinates(uint3* out) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned size = blockDim.x * blockDim.y * blockDim.z;
    out[block * size + thread] =
        make_uint3(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
                   blockIdx.z * blockDim.z + threadIdx.z);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) pairs_of_blocks(unsigned* out) {
    if (threadIdx.x == 0) out[blockIdx.x] = 10 * cluster_size() + cluster_rank();
}

extern "C" __global__ void shared_of_both_kinds(int* out) {
    __shared__ int fixed[1024];
    extern __shared__ int sized[];
    fixed[threadIdx.x] = 1;
    sized[threadIdx.x] = 2;
    out[threadIdx.x] = fixed[threadIdx.x] + sized[threadIdx.x];
}
