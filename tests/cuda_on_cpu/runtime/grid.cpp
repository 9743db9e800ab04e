#include "grid.h"

#include <cstdlib>
#include <numeric>

#include "checker.h"
#include "failure.h"
#include "scheduler.h"

namespace cuda_on_cpu {

dim3 block_dimensions, grid_dimensions;
Execution execution;

namespace {

constexpr int UNWRITTEN = 0xFF;  // shared memory begins as NaN or -1
constexpr size_t SHARED_ALIGNMENT = 1024;

uint64_t random_state;

uint3 cell(uint32_t number, uint32_t width, uint32_t height) {
    return {number % width, number / width % height, number / width / height};
}

void start_thread(Block& block, unsigned rank) {
    Thread& thread = block.threads[rank];
    Warp& warp = block.warps[rank / LANES];
    static_cast<ThreadHead&>(thread) = {cell(rank, block_dimensions.x, block_dimensions.y), block.index, rank % LANES,
                                        rank, block.shared};
    thread.block = &block;
    thread.warp = &warp;
    thread.fiber = nullptr;
    thread.doing = "start";
    thread.polled = nullptr;
    thread.loads = {};
    thread.stores = {};
    thread.cluster_phase = 0;
    warp.live |= 1u << thread.lane;
    warp.lanes[thread.lane] = &thread;
    make_runnable(thread);
}

void start_block(Block& block, uint3 index) {
    const bool reversed = execution.request.turn == Turn::reversed;
    block.index = index;
    block.number = (index.z * grid_dimensions.y + index.y) * grid_dimensions.x + index.x;
    block.running = true;
    block.live_threads = execution.threads_per_block;
    block.runnable_warps = 0;
    block.last_warp = reversed ? 0 : LANES - 1;
    block.barrier.reset(execution.threads_per_block);
    for (Barrier& barrier : block.named_barriers) barrier.reset(0);
    block.mbarriers.clear();
    if (execution.random()) new_priorities(block);
    std::memset(block.shared, UNWRITTEN, execution.request.shared_bytes);
    for (unsigned i = 0; i < block.warps.size(); i++) {
        block.warps[i] = {&block, i, 0, 0, 0, reversed ? 0 : LANES - 1, {}};
    }
    for (unsigned rank = 0; rank < execution.threads_per_block; rank++) start_thread(block, rank);
    execution.running_blocks++;
    if constexpr (CHECKING) checker::begin_block(block);
}

void prepare_block(Block& block, Cluster& cluster, unsigned rank) {
    block.cluster = &cluster;
    block.rank = rank;
    block.threads.resize(execution.threads_per_block);
    block.warps.resize(execution.warps_per_block());
    const size_t bytes = (execution.request.shared_bytes + SHARED_ALIGNMENT) / SHARED_ALIGNMENT * SHARED_ALIGNMENT;
    block.shared = static_cast<char*>(std::aligned_alloc(SHARED_ALIGNMENT, bytes));
    if (!block.shared) fail("no memory for the shared memory of %zu blocks", execution.blocks.size() + 1);
    execution.blocks.push_back(&block);
}

void order_clusters(size_t count) {
    auto& waiting = execution.waiting_clusters;
    waiting.resize(count);
    std::iota(waiting.rbegin(), waiting.rend(), 0);
    if (execution.request.turn == Turn::reversed) std::iota(waiting.begin(), waiting.end(), 0);
    if (!execution.random()) return;
    for (size_t i = count; i > 1; i--) std::swap(waiting[i - 1], waiting[random_number() % i]);
}

}  // namespace

uint64_t random_number() {  // xorshift64 (G. Marsaglia, Xorshift RNGs, 2003)
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

void prepare_grid() {
    const Request& request = execution.request;
    random_state =
        request.seed * 0x9E3779B97F4A7C15ull + 0xD1B54A32D192ED03ull;  // distinct, and never 0 for a seed in use
    for (int i = 0; i < 4; i++) random_number();
    grid_dimensions = {request.grid[0], request.grid[1], request.grid[2]};
    block_dimensions = {request.block[0], request.block[1], request.block[2]};
    execution.threads_per_block = request.block[0] * request.block[1] * request.block[2];
    execution.blocks_per_cluster = request.cluster[0] * request.cluster[1] * request.cluster[2];
    execution.running_blocks = 0;
    execution.grid_barrier.reset(execution.block_count() * execution.threads_per_block);
    const size_t count = execution.block_count() / execution.blocks_per_cluster;
    order_clusters(count);
    const size_t at_once = std::max<size_t>(request.resident / execution.blocks_per_cluster, 1);
    execution.clusters.resize(request.cooperative ? count : std::min(count, at_once));
    for (Cluster& cluster : execution.clusters) {
        cluster.blocks.resize(execution.blocks_per_cluster);
        for (unsigned rank = 0; rank < cluster.blocks.size(); rank++)
            prepare_block(cluster.blocks[rank], cluster, rank);
    }
}

void release_grid() {
    for (Block* block : execution.blocks) std::free(block->shared);
    execution.blocks.clear();
    execution.clusters.clear();
}

void start_cluster(Cluster& cluster) {
    if (execution.waiting_clusters.empty()) return;
    const Request& request = execution.request;
    cluster.number = execution.waiting_clusters.back();
    execution.waiting_clusters.pop_back();
    cluster.live_blocks = execution.blocks_per_cluster;
    cluster.barrier.reset(execution.blocks_per_cluster * execution.threads_per_block);
    cluster.split = {};
    const uint3 first =
        cell(cluster.number, request.grid[0] / request.cluster[0], request.grid[1] / request.cluster[1]);
    for (Block& block : cluster.blocks) {
        const uint3 inside = cell(block.rank, request.cluster[0], request.cluster[1]);
        start_block(block, {first.x * request.cluster[0] + inside.x, first.y * request.cluster[1] + inside.y,
                            first.z * request.cluster[2] + inside.z});
    }
}

void end_thread() {
    Thread& thread = *running();
    thread.fiber = nullptr;
    thread.polled = nullptr;
    thread.doing = "return";
    made_progress();
    end_copies(thread);
    leave_warp(thread);
    leave_barriers(thread);
    Block& block = *thread.block;
    if (--block.live_threads > 0) return;
    end_copies(block);
    block.running = false;
    execution.running_blocks--;
    if (--block.cluster->live_blocks == 0) start_cluster(*block.cluster);
}

}  // namespace cuda_on_cpu
