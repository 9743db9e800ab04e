// What kernels need of the runtime. The runtime is a library of its own, which every compiled kernel is linked with.
#pragma once

#include "language.h"
#include "vector_types.h"

#pragma GCC visibility push(default)
namespace cuda_on_cpu {

using Where = std::source_location;

enum class Order : uint8_t { relaxed = 0, acquire = 1, release = 2, acquire_release = 3 };
enum class Scope : uint8_t { block, cluster, gpu };  // .sys is .gpu here: there is one device and no host at work
enum class Access : uint8_t { load, store, update };
enum class WarpOperation : uint8_t {
    sync,
    shuffle,
    ballot,
    any,
    all,
    match,
    add,
    min_signed,
    max_signed,
    min_unsigned,
    max_unsigned,
    bit_and,
    bit_or,
    bit_xor
};

// The part of a thread that its kernel reads.
struct ThreadHead {
    uint3 thread_index, block_index;
    unsigned lane, rank;
    char* shared;  // of its block
};
extern ThreadHead* current;
extern dim3 block_dimensions, grid_dimensions;

CUDA_ON_CPU_RAW inline uint3 thread_index() { return current->thread_index; }
CUDA_ON_CPU_RAW inline uint3 block_index() { return current->block_index; }
CUDA_ON_CPU_RAW inline dim3 block_size() { return block_dimensions; }
CUDA_ON_CPU_RAW inline dim3 grid_size() { return grid_dimensions; }
CUDA_ON_CPU_RAW inline unsigned lane_of_thread() { return current->lane; }
CUDA_ON_CPU_RAW inline unsigned rank_of_thread() { return current->rank; }

struct Votes {
    int count;
    bool any, all;
};

Votes synchronize_block(bool vote, Where);
constexpr unsigned NAMED_BARRIERS = 16;
void synchronize_warps(unsigned number, unsigned warps, Where);
void synchronize_grid(Where);
uint64_t warp_operation(WarpOperation, unsigned mask, uint64_t value, int source, Where);
unsigned active_lanes();

void synchronize_cluster(Where);
void arrive_at_cluster(Where);
void wait_for_cluster(Where);
unsigned cluster_rank();
unsigned cluster_size();
void* map_shared(const void* address, unsigned rank, Where);

// To be called before an atomic access is made: checks it, and may let other threads run first.
void before_atomic(const void* address, size_t size, Access, Order, Scope, Where);
// To be called before bytes are read of which nobody may have written some: checks bounds, alignment and order.
void before_loose_read(const void* address, size_t size, size_t alignment, Where);
// Something that a polling thread may wait for has changed.
void made_progress();
void fence(Scope, Where);
void sleep(Where);

void copy_async(void* shared, const void* global, unsigned bytes, Where);
void copy_async_part(void* shared, const void* global, int begin, int end, int touched, Where);
void commit_copies(Where);
void wait_for_copies(unsigned groups_left, Where);

void mbarrier_init(void* barrier, unsigned count, Where);
void mbarrier_invalidate(void* barrier, Where);
void mbarrier_arrive(void* barrier, unsigned expected_bytes, bool remote, Where);
void mbarrier_expect(void* barrier, unsigned bytes, Where);
bool mbarrier_try_wait(void* barrier, unsigned parity, Where);
void fence_mbarrier_init(Where);
void fence_async_proxy(Where);

void bulk_load(void* shared, const void* global, unsigned bytes, void* barrier, Where);
void bulk_store(void* global, const void* shared, unsigned bytes, Where);
void bulk_prefetch(const void* global, unsigned bytes, Where);
void commit_bulk_stores(Where);
void wait_for_bulk_stores(unsigned groups_left, bool only_reads, Where);

[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// A kernel as the launcher sees it.
struct Parameter {
    uint32_t size;
    char kind;  // p(ointer), i(nteger), f(loating), o(ther)
};
struct ClusterSize {
    uint32_t x, y, z;  // 0: the kernel says nothing of clusters
    constexpr ClusterSize() : x(0), y(0), z(0) {}
    constexpr ClusterSize(uint32_t x, uint32_t y = 1, uint32_t z = 1) : x(x), y(y), z(z) {}
};
struct Kernel {
    void (*call)(void** arguments);
    const Parameter* parameters;
    uint32_t parameter_count;
    ClusterSize cluster;
};

}  // namespace cuda_on_cpu
#pragma GCC visibility pop
