// Clusters: the blocks of a cluster read, write and signal in one another's shared memory.
#include "idioms.cuh"

// grid 8, block 64, cluster 4
extern "C" __global__ void __cluster_dims__(4, 1, 1) neighbour_read(int* out, unsigned long long*) {
    __shared__ int slots[64];
    slots[threadIdx.x] = global_thread();
    BUG ? __syncthreads() : cluster_sync();
    out[global_thread()] = map_shared(slots, (cluster_rank() + 1) % cluster_size())[threadIdx.x ^ 1];
    cluster_sync();
}

// A block lives on until nobody reads its shared memory any more.
// grid 8, block 64, cluster 4
extern "C" __global__ void __cluster_dims__(4, 1, 1) neighbour_alive(int* out, unsigned long long*) {
    __shared__ int slots[64];
    slots[threadIdx.x] = global_thread();
    cluster_sync();
    out[global_thread()] = map_shared(slots, (cluster_rank() + 1) % cluster_size())[threadIdx.x ^ 1];
    if (!BUG) cluster_sync();
}

// Remote shared memory is read after the wait, not between the two halves of the barrier.
// grid 8, block 64, cluster 4
extern "C" __global__ void __cluster_dims__(4, 1, 1) split_barrier(int* out, unsigned long long*) {
    __shared__ int slots[64];
    slots[threadIdx.x] = global_thread();
    const int* neighbour = map_shared(slots, (cluster_rank() + 1) % cluster_size());
    cluster_arrive();
    int value = BUG ? neighbour[threadIdx.x ^ 1] : 0;
    cluster_wait();
    if (!BUG) value = neighbour[threadIdx.x ^ 1];
    out[global_thread()] = value;
    cluster_sync();
}

// Remote writes are seen after a barrier of the cluster, not of the block.
// grid 8, block 64, cluster 4
extern "C" __global__ void __cluster_dims__(4, 1, 1) neighbour_written(int* out, unsigned long long*) {
    __shared__ int slots[64];
    cluster_sync();
    map_shared(slots, (cluster_rank() + 1) % cluster_size())[threadIdx.x] = global_thread();
    BUG ? __syncthreads() : cluster_sync();
    out[global_thread()] = slots[threadIdx.x ^ 1];
    cluster_sync();
}

// The blocks of a cluster hand their numbers to its block 0 and arrive at the mbarrier there.
__device__ void gather_at_first(int* out, bool initialised_for_all, bool wait) {
    __shared__ Mbarrier arrived;
    __shared__ int numbers[8];
    const unsigned rank = cluster_rank(), size = cluster_size();
    if (threadIdx.x == 0) {
        mbarrier_init(&arrived, size);
        fence_mbarrier_init();
    }
    initialised_for_all ? cluster_sync() : __syncthreads();
    if (threadIdx.x == 0) {
        *map_shared(&numbers[rank], 0) = static_cast<int>(blockIdx.x) + 1;
        mbarrier_arrive_cluster(map_shared(&arrived, 0));
    }
    if (rank == 0) {
        if (wait) mbarrier_wait(&arrived, 0);
        if (threadIdx.x < size) out[blockIdx.x + threadIdx.x] = numbers[threadIdx.x];
    }
    cluster_sync();
}

// grid 8, block 64, cluster 4
extern "C" __global__ void __cluster_dims__(4, 1, 1) remote_arrivals_awaited(int* out, unsigned long long*) {
    gather_at_first(out, true, !BUG);
}

// grid 8, block 64, cluster 4
extern "C" __global__ void __cluster_dims__(4, 1, 1) remote_barrier_initialised(int* out, unsigned long long*) {
    gather_at_first(out, !BUG, true);
}

// A flag in the shared memory of block 1 is raised by block 0.
__device__ void raise_flag(int* out, bool release_to_cluster, bool acquire_of_cluster) {
    __shared__ int message;
    __shared__ unsigned raised;
    if (threadIdx.x == 0) raised = 0;
    cluster_sync();
    if (threadIdx.x == 0 && cluster_rank() == 0) {
        *map_shared(&message, 1) = 42;
        unsigned* flag = map_shared(&raised, 1);
        release_to_cluster ? store_release_cluster(flag, 1) : store_release_block(flag, 1);
    } else if (threadIdx.x == 0) {
        while ((acquire_of_cluster ? load_acquire_cluster(&raised) : load_acquire_block(&raised)) == 0) {
        }
        out[blockIdx.x] = message;
    }
    cluster_sync();
}

// grid 4, block 32, cluster 2
extern "C" __global__ void __cluster_dims__(2, 1, 1) release_to_the_cluster(int* out, unsigned long long*) {
    raise_flag(out, !BUG, true);
}

// grid 4, block 32, cluster 2
extern "C" __global__ void __cluster_dims__(2, 1, 1) acquire_of_the_cluster(int* out, unsigned long long*) {
    raise_flag(out, true, !BUG);
}
