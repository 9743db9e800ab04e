// Barriers of a block, a cluster and the grid.
#include "checker.h"
#include "failure.h"
#include "grid.h"
#include "scheduler.h"

namespace cuda_on_cpu {
namespace {

bool same_place(const Where& a, const Where& b) {
    return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

void open(Barrier& barrier) {
    if constexpr (CHECKING) {
        if (barrier.named)
            checker::open_named_barrier(barrier.waiting);
        else
            checker::open_barrier(barrier.waiting);
    }
    made_progress();
    const int votes = barrier.votes;
    const bool all = votes == static_cast<int>(barrier.arrived);
    for (Thread* thread : barrier.waiting) {
        thread->votes = {votes, votes > 0, all};
        make_runnable(*thread);
    }
    barrier.waiting.clear();
    barrier.arrived = 0;
    barrier.votes = 0;
}

// CUDA demands that all threads come to the same barrier: threads that wait at two, or that returned, hang on some
// GPUs.
void demand_convergence(const Barrier& barrier, const char* doing, Where where) {
    if (barrier.exited) {
        fail("barrier divergence: %s at %s, but %u threads have already returned", doing, describe(where).c_str(),
             barrier.exited);
    }
    if (barrier.arrived && !same_place(barrier.first_at, where)) {
        fail("barrier divergence: %s at %s while other threads wait at %s", doing, describe(where).c_str(),
             describe(barrier.first_at).c_str());
    }
}

Votes wait_at(Barrier& barrier, bool vote, const char* doing, Where where) {
    Thread* thread = running();
    park(doing, where);
    demand_convergence(barrier, doing, where);
    barrier.first_at = where;
    barrier.waiting.push_back(thread);
    barrier.votes += vote;
    if (++barrier.arrived == barrier.expected) open(barrier);
    run_another();
    return thread->votes;
}

void leave(Barrier& barrier) {
    barrier.exited++;
    if (barrier.arrived == 0) return;
    const Thread& waiting = *barrier.waiting.front();
    fail("barrier divergence: a thread returned while %u of %u wait in %s at %s", barrier.arrived, barrier.expected,
         waiting.doing, describe(barrier.first_at).c_str());
}

unsigned threads_of_cluster() { return execution.blocks_per_cluster * execution.threads_per_block; }

}  // namespace

void leave_barriers(Thread& thread) {
    leave(thread.block->barrier);
    leave(thread.block->cluster->barrier);
    leave(execution.grid_barrier);
}

Votes synchronize_block(bool vote, Where where) {
    return wait_at(running()->block->barrier, vote, "__syncthreads", where);
}

void synchronize_warps(unsigned number, unsigned warps, Where where) {
    Barrier& barrier = running()->block->named_barriers[number];
    if (barrier.arrived && barrier.expected != warps * LANES) {
        fail("sync_warps of %u warps at barrier %u, where %u threads are expected", warps, number, barrier.expected);
    }
    barrier.expected = warps * LANES;
    barrier.named = true;
    wait_at(barrier, false, "sync_warps", where);
}

void synchronize_cluster(Where where) { wait_at(running()->block->cluster->barrier, false, "cluster_sync", where); }

void synchronize_grid(Where where) {
    if (!execution.request.cooperative) fail("a barrier of the grid in a launch that is not cooperative");
    wait_at(execution.grid_barrier, false, "the grid's barrier", where);
}

void arrive_at_cluster(Where where) {
    Thread* thread = running();
    SplitBarrier& barrier = thread->block->cluster->split;
    thread->at = where;
    if constexpr (CHECKING) barrier.arriving.join(checker::release(*thread));
    made_progress();
    if (++barrier.arrived < threads_of_cluster()) return;
    barrier.arrived = 0;
    barrier.phase++;
    barrier.completed = std::move(barrier.arriving);
    barrier.arriving.clear();
}

void wait_for_cluster(Where where) {
    Thread* thread = running();
    SplitBarrier& barrier = thread->block->cluster->split;
    const unsigned mine = thread->cluster_phase++;
    while (barrier.phase == mine) poll("cluster_wait", where);
    if constexpr (CHECKING) checker::acquire(*thread, barrier.completed);
}

unsigned cluster_rank() { return running()->block->rank; }

unsigned cluster_size() { return execution.blocks_per_cluster; }

void* map_shared(const void* address, unsigned rank, Where where) {
    const Block& block = *running()->block;
    const auto offset = static_cast<size_t>(static_cast<const char*>(address) - block.shared);
    running()->at = where;
    if (rank >= block.cluster->blocks.size()) {
        fail("map_shared: rank %u of a cluster of %zu blocks", rank, block.cluster->blocks.size());
    }
    if (offset >= execution.request.shared_bytes) fail("map_shared: the address is not in the block's shared memory");
    const Block& other = block.cluster->blocks[rank];
    if (!other.running)
        fail("map_shared: block %u of the cluster has already ended, and its shared memory with it", rank);
    return other.shared + offset;
}

}  // namespace cuda_on_cpu
