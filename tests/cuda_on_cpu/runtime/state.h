// Threads, warps, blocks and clusters of the launch that is running.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "clocks.h"
#include "copies.h"
#include "fiber.h"
#include "request.h"
#include "runtime_api.h"

namespace cuda_on_cpu {

#ifdef CUDA_ON_CPU_CHECKING
constexpr bool CHECKING = true;
#else
constexpr bool CHECKING = false;
#endif

constexpr unsigned LANES = 32;

struct Block;
struct Cluster;
struct Warp;

struct Thread : ThreadHead {
    Block* block;
    Warp* warp;
    Fiber* fiber;
    // Where it last synchronised, and what it does there.
    Where at;
    const char* doing;
    bool parked;         // cannot run until something happens
    const void* polled;  // what it loaded last, if it has done nothing but load since
    // A warp operation under way.
    unsigned mask;
    WarpOperation operation;
    int source;
    uint64_t value, result;

    Votes votes;
    unsigned cluster_phase;  // of the split barrier, that it waits for next
    CopyGroups loads, stores;
    ThreadClocks clocks;
};

struct Warp {
    Block* block;
    unsigned index;
    unsigned live, arrived, runnable;  // sets of lanes; arrived: waiting in a warp operation
    unsigned last;                     // lane that ran last
    Thread* lanes[LANES];
};

struct Barrier {
    unsigned expected = 0, arrived = 0, exited = 0;
    bool named = false;  // and for some warps of a block only
    int votes = 0;
    Where first_at = {};
    std::vector<Thread*> waiting = {};

    void reset(unsigned threads) { *this = Barrier{.expected = threads, .waiting = std::move(waiting)}; }
};

// A barrier that threads arrive at and wait for in two steps.
struct SplitBarrier {
    unsigned arrived = 0, phase = 0;
    Knowledge arriving, completed;
};

struct Block {
    bool running = false;
    uint3 index;
    uint32_t number;  // counted over the grid
    unsigned rank;    // in the cluster
    Cluster* cluster;
    unsigned live_threads;
    unsigned runnable_warps, last_warp;
    uint8_t priority[LANES];
    Barrier barrier;
    std::array<Barrier, NAMED_BARRIERS> named_barriers;
    std::unordered_map<const void*, MbarrierState> mbarriers;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    char* shared;
    BlockClocks clocks;
};

struct Cluster {
    uint32_t number;
    unsigned live_blocks;
    Barrier barrier;
    SplitBarrier split;
    std::vector<Block> blocks;
};

// The launch: slots for clusters, which take one cluster of the grid after the other.
struct Execution {
    Request request;
    unsigned threads_per_block, blocks_per_cluster;
    std::vector<Cluster> clusters;
    std::vector<Block*> blocks;  // of all slots
    unsigned running_blocks;
    std::vector<uint32_t> waiting_clusters;  // in reverse order of their start
    Barrier grid_barrier;

    bool random() const { return request.turn == Turn::random; }
    uint32_t block_count() const { return request.grid[0] * request.grid[1] * request.grid[2]; }
    unsigned warps_per_block() const { return (threads_per_block + LANES - 1) / LANES; }
};
extern Execution execution;

inline Thread* running() { return static_cast<Thread*>(current); }

// A fixed sequence for each seed.
uint64_t random_number();
inline bool one_in(uint64_t n) { return random_number() % n == 0; }

template <typename Action>
void for_each_lane(unsigned lanes, Action action) {
    for (; lanes; lanes &= lanes - 1) action(static_cast<unsigned>(__builtin_ctz(lanes)));
}

}  // namespace cuda_on_cpu
