// Who may read what another thread wrote, and when: within a warp, a block and a grid.
#include "idioms.cuh"

// ---------------------------------------------------------------------------------------------------------------------
// Within a warp

// grid 4, block 128
extern "C" __global__ void warp_exchange(int* out, unsigned long long*) {
    __shared__ int slots[128];
    slots[threadIdx.x] = static_cast<int>(threadIdx.x);
    if (!BUG) __syncwarp();
    out[global_thread()] = slots[threadIdx.x ^ 1];
}

// grid 4, block 128
extern "C" __global__ void half_warp_exchange(int* out, unsigned long long*) {
    __shared__ int slots[128];
    if (lane_index() < 16) {
        slots[threadIdx.x] = static_cast<int>(threadIdx.x);
        if (!BUG) __syncwarp(0xffffu);
        out[global_thread()] = slots[threadIdx.x ^ 15];
    }
}

// grid 4, block 128
extern "C" __global__ void tile_exchange(int* out, unsigned long long*) {
    __shared__ int slots[128];
    const int tile = lane_index() / 8;
    slots[threadIdx.x] = static_cast<int>(threadIdx.x);
    if (!BUG || tile != 3) __syncwarp(0xffu << 8 * tile);
    out[global_thread()] = slots[threadIdx.x ^ 7];
}

// A shuffle makes lanes meet but orders no memory.
// grid 4, block 128
extern "C" __global__ void shuffle_is_no_fence(int* out, unsigned long long*) {
    __shared__ int slots[128];
    slots[threadIdx.x] = static_cast<int>(threadIdx.x);
    const int across = __shfl_xor_sync(ALL_LANES, static_cast<int>(threadIdx.x), 1);
    if (!BUG) __syncwarp();
    out[global_thread()] = slots[threadIdx.x ^ 1] + across;
}

// The address of `levels` never leaves the kernel, so nothing but its accesses tells a compiler that lanes share it.
// grid 1, block 32
extern "C" __global__ void levels_overwritten(int* out, unsigned long long*) {
    __shared__ struct {
        int value[32];
    } levels;
    const int lane = lane_index();
    levels.value[lane] = 3 * lane;
    __syncwarp();
    const int other = __shfl_xor_sync(ALL_LANES, levels.value[lane ^ 3], 1);
    if (!BUG) __syncwarp();
    if (lane == 31) levels.value[0] = 1000 + other;
    __syncwarp();
    out[lane] = other + levels.value[0];
}

// ---------------------------------------------------------------------------------------------------------------------
// Within a block

// grid 2, block 256
extern "C" __global__ void double_buffer(int* out, unsigned long long*) {
    __shared__ int buffers[2][256];
    const int thread = static_cast<int>(threadIdx.x);
    int value = thread;
    for (int i = 0; i < 6; i++) {
        int* buffer = buffers[BUG ? 0 : i % 2];
        buffer[thread] = value;
        __syncthreads();
        value = buffer[(thread + 33) % 256] + 1;
    }
    out[global_thread()] = value;
}

// Two teams of three warps, each of which meets at a barrier of its own and goes its own way; the last warp goes at
// once. grid 2, block 224
extern "C" __global__ void teams_apart(int* out, unsigned long long*) {
    __shared__ int slots[2][96];
    const int team = static_cast<int>(threadIdx.x) / 96, member = static_cast<int>(threadIdx.x) % 96;
    if (team == 2) return;
    int value = static_cast<int>(threadIdx.x);
    for (int i = 0; i < 3 + team; i++) {
        if (team == 0)
            sync_warps<1, 3>();
        else
            sync_warps<2, 3>();
        slots[team][member] = value;
        if (team == 0)
            sync_warps<1, 3>();
        else if (!BUG)
            sync_warps<2, 3>();
        value = slots[team][(member + 33) % 96] + 1;
    }
    out[global_thread()] = value;
}

// grid 4, block 128
extern "C" __global__ void shared_histogram(int* out, unsigned long long*) {
    __shared__ int bins[32];
    if (threadIdx.x < 32) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[threadIdx.x * threadIdx.x % 32], 1);
    if (!BUG) __syncthreads();
    if (threadIdx.x < 32) out[blockIdx.x * 32 + threadIdx.x] = bins[threadIdx.x];
}

// The first thread sets to zero what all count up, itself among them.
// grid 4, block 128
extern "C" __global__ void zero_before_atomics(int* out, unsigned long long*) {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    if (!BUG) __syncthreads();
    atomicAdd(&count, 1);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = count;
}

// Every thread reads `word`; each warp then reports to thread 0, which overwrites it. `forgotten` is the warp whose
// report is not awaited.
__device__ void overwrite_after_readers(int* out, unsigned forgotten) {
    __shared__ int word;
    __shared__ unsigned done[8];
    const unsigned warp = threadIdx.x / 32;
    if (threadIdx.x == 0) word = 5;
    if (threadIdx.x < 8) done[threadIdx.x] = 0;
    __syncthreads();
    out[threadIdx.x] = word;
    __syncwarp();
    if (lane_index() == 0) store_release_block(&done[warp], 1u);
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < 8; i++) {
            while (i != forgotten && load_acquire_block(&done[i]) == 0) {
            }
        }
        word = 6;
    }
    __syncthreads();
    out[threadIdx.x] += word;
}

// grid 1, block 256
extern "C" __global__ void last_readers_awaited(int* out, unsigned long long*) {
    overwrite_after_readers(out, BUG ? 7 : 8);
}

// grid 1, block 256
extern "C" __global__ void first_readers_awaited(int* out, unsigned long long*) {
    overwrite_after_readers(out, BUG ? 1 : 8);
}

// Distinct bytes of one word are distinct places.
// grid 4, block 128
extern "C" __global__ void neighbouring_bytes(int* out, unsigned long long*) {
    signed char* bytes = reinterpret_cast<signed char*>(out);
    bytes[BUG ? global_thread() / 2 : global_thread()] = static_cast<signed char>(threadIdx.x);
}

// ---------------------------------------------------------------------------------------------------------------------
// Messages between blocks. Block 0 writes out[0] and raises a flag, the others wait for it.

// grid 4, block 32, cooperative
extern "C" __global__ void message_released(int* out, unsigned long long* flag) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[0] = 42;
        BUG ? store_relaxed(flag, 1) : store_release(flag, 1);
    } else {
        while (load_acquire(flag) == 0) {
        }
        out[blockIdx.x] = out[0];
    }
}

// grid 4, block 32, cooperative
extern "C" __global__ void message_acquired(int* out, unsigned long long* flag) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[0] = 42;
        store_release(flag, 1);
    } else {
        while ((BUG ? load_relaxed(flag) : load_acquire(flag)) == 0) {
        }
        out[blockIdx.x] = out[0];
    }
}

// grid 4, block 32, cooperative
extern "C" __global__ void message_fenced_by_writer(int* out, unsigned long long* flag) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[0] = 42;
        if (!BUG) __threadfence();
        store_relaxed(flag, 1);
    } else {
        while (load_relaxed(flag) == 0) {
        }
        __threadfence();
        out[blockIdx.x] = out[0];
    }
}

// grid 4, block 32, cooperative
extern "C" __global__ void message_fenced_by_reader(int* out, unsigned long long* flag) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[0] = 42;
        __threadfence();
        store_relaxed(flag, 1);
    } else {
        while (load_relaxed(flag) == 0) {
        }
        if (!BUG) __threadfence();
        out[blockIdx.x] = out[0];
    }
}

// grid 4, block 32, cooperative
extern "C" __global__ void fence_of_the_gpu(int* out, unsigned long long* flag) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[0] = 42;
        BUG ? __threadfence_block() : __threadfence();
        store_relaxed(flag, 1);
    } else {
        while (load_acquire(flag) == 0) {
        }
        out[blockIdx.x] = out[0];
    }
}

// grid 4, block 32, cooperative
extern "C" __global__ void release_to_the_gpu(int* out, unsigned long long* flag) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[0] = 42;
        BUG ? store_release_block(flag, 1) : store_release(flag, 1);
    } else {
        while (load_acquire(flag) == 0) {
        }
        out[blockIdx.x] = out[0];
    }
}

// grid 4, block 32, cooperative
extern "C" __global__ void acquire_of_the_gpu(int* out, unsigned long long* flag) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[0] = 42;
        store_release(flag, 1);
    } else {
        while ((BUG ? load_acquire_block(flag) : load_acquire(flag)) == 0) {
        }
        out[blockIdx.x] = out[0];
    }
}

// Value and flag in one word of sixteen bytes need no order; halves of their own do.
// grid 4, block 32, cooperative, flags aligned to 16 bytes
extern "C" __global__ void message_in_one_word(int* out, unsigned long long* flags) {
    if (threadIdx.x != 0) return;
    Pair64* pair = reinterpret_cast<Pair64*>(flags);
    if (blockIdx.x == 0) {
        if (BUG) {
            flags[0] = 42;
            store_relaxed(&flags[1], 1);
        } else {
            store_relaxed(pair, Pair64{42, 1});
        }
    } else {
        Pair64 seen;
        do seen = load_relaxed(pair);
        while (seen.high == 0);
        out[blockIdx.x] = static_cast<int>(seen.low);
    }
}

// A whole block writes, one thread publishes.
// grid 4, block 128, cooperative
extern "C" __global__ void block_publishes(int* out, unsigned long long* flag) {
    if (blockIdx.x == 0) {
        out[threadIdx.x] = static_cast<int>(threadIdx.x);
        if (!BUG) __syncthreads();
        if (threadIdx.x == 0) store_release(flag, 1);
    } else {
        if (threadIdx.x == 0) {
            while (load_acquire(flag) == 0) {
            }
        }
        __syncthreads();
        out[global_thread()] = out[threadIdx.x];
    }
}

// A whole block reads what one of its threads waited for.
// grid 4, block 128, cooperative
extern "C" __global__ void block_subscribes(int* out, unsigned long long* flag) {
    if (blockIdx.x == 0) {
        out[threadIdx.x] = static_cast<int>(threadIdx.x);
        __syncthreads();
        if (threadIdx.x == 0) store_release(flag, 1);
    } else {
        if (threadIdx.x == 0) {
            while (load_acquire(flag) == 0) {
            }
        }
        if (!BUG) __syncthreads();
        out[global_thread()] = out[threadIdx.x];
    }
}

// Tile k adds up what the tiles before it wrote, and hands on to tile k + 1: order passes through the chain.
// grid 6, block 32
extern "C" __global__ void chain(int* out, unsigned long long* flags) {
    if (threadIdx.x != 0) return;
    const int tile = static_cast<int>(atomicAdd(&flags[7], 1ull));
    if (tile > 0) {
        while (load_acquire(&flags[tile - 1]) == 0) {
        }
    }
    int sum = 1;
    for (int i = 0; i < tile; i++) sum += out[i];
    out[tile] = sum;
    BUG&& tile == 1 ? store_relaxed(&flags[tile], 1) : store_release(&flags[tile], 1);
}

// Blocks that wait for one another take their tiles in the order in which they start, which need not be blockIdx's.
// grid 64, block 32
extern "C" __global__ void tiles_by_ticket(int* out, unsigned long long* flags) {
    if (threadIdx.x != 0) return;
    const unsigned long long ticket = atomicAdd(&flags[1], 1ull), tile = BUG ? blockIdx.x : ticket;
    while (load_acquire(&flags[0]) != tile) {
    }
    out[tile] = tile == 0 ? 1 : out[tile - 1] + 1;
    store_release(&flags[0], tile + 1);
}

// ---------------------------------------------------------------------------------------------------------------------
// Atomics, locks and barriers of a grid

// grid 4, block 128
extern "C" __global__ void spin_lock(int* out, unsigned long long* lock) {
    if (threadIdx.x % 64 == 0) {
        while (atomicCAS(lock, 0ull, 1ull) != 0) __nanosleep(20);
        if (!BUG) __threadfence();
        out[0] += 1;
        __threadfence();
        atomicExch(lock, 0ull);
    }
}

// grid 4, block 128
extern "C" __global__ void spin_unlock(int* out, unsigned long long* lock) {
    if (threadIdx.x % 64 == 0) {
        while (atomicCAS(lock, 0ull, 1ull) != 0) __nanosleep(20);
        __threadfence();
        out[0] += 1;
        if (!BUG) __threadfence();
        atomicExch(lock, 0ull);
    }
}

// grid 8, block 32; out holds a float
extern "C" __global__ void float_total(int* out, unsigned long long*) {
    float* total = reinterpret_cast<float*>(out);
    if (threadIdx.x != 0) return;
    if (BUG) {
        *total += 1.5f;
    } else {
        atomicAdd(total, 1.5f);
    }
}

// One of many increments is not atomic.
// grid 8, block 32
extern "C" __global__ void atomic_total(int* out, unsigned long long*) {
    if (BUG && blockIdx.x == 3 && threadIdx.x == 3) {
        out[0] += 1;
    } else {
        atomicAdd(out, 1);
    }
}

// An atomic addition is read by an ordinary load.
// grid 4, block 32, cooperative
extern "C" __global__ void atomic_polled(int* out, unsigned long long* flag) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        atomicAdd(flag, 7ull);
    } else if (BUG) {
        out[blockIdx.x] = static_cast<int>(flag[0]);
    } else {
        while (load_relaxed(flag) == 0) {
        }
        out[blockIdx.x] = 7;
    }
}

// The last block to finish adds up what all wrote; `release` and `acquire` are the two halves of its ticket's order.
__device__ void last_block_adds(int* out, unsigned* ticket, bool release, bool acquire) {
    if (threadIdx.x != 0) return;
    out[blockIdx.x] = static_cast<int>(blockIdx.x) + 1;
    const unsigned earlier = release && acquire ? add_acq_rel(ticket, 1)
                             : release          ? add_release(ticket, 1)
                                                : add_acquire(ticket, 1);
    if (earlier != gridDim.x - 1) return;
    int sum = 0;
    for (unsigned i = 0; i < gridDim.x; i++) sum += out[i];
    out[gridDim.x] = sum;
}

// grid 6, block 32
extern "C" __global__ void last_block_acquires(int* out, unsigned long long* flags) {
    last_block_adds(out, reinterpret_cast<unsigned*>(flags), true, !BUG);
}

// grid 6, block 32
extern "C" __global__ void all_blocks_release(int* out, unsigned long long* flags) {
    last_block_adds(out, reinterpret_cast<unsigned*>(flags), !BUG, true);
}

__device__ void wait_for_grid(unsigned* arrived, unsigned round, bool release) {
    __syncthreads();
    if (threadIdx.x == 0) {
        release ? add_release(arrived, 1) : atomicAdd(arrived, 1u);
        while (load_acquire(arrived) < round * gridDim.x) {
        }
    }
    __syncthreads();
}

// grid 4, block 64, cooperative
extern "C" __global__ void grid_barrier(int* out, unsigned long long* flags) {
    unsigned* arrived = reinterpret_cast<unsigned*>(flags);
    const int count = static_cast<int>(gridDim.x * blockDim.x);
    int value = global_thread();
    for (unsigned round = 1; round <= 4; round += 2) {
        out[global_thread()] = value;
        wait_for_grid(arrived, round, !BUG);
        value = out[(global_thread() + 65) % count] + 1;
        wait_for_grid(arrived, round + 1, !BUG);
    }
    out[global_thread()] = value;
}
