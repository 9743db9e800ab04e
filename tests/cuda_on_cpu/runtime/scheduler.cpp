#include "scheduler.h"

#include <bit>

#include "checker.h"
#include "failure.h"
#include "grid.h"

namespace cuda_on_cpu {

ThreadHead* current;

namespace {

// Random schedules come in three kinds, by seed. With any warp at any time none gets far ahead of the others, and a
// missing second barrier stays hidden: hence a warp that goes on for a while, and warps that run by priority.
enum class RandomKind { uniform, sticky, priorities };

constexpr uint64_t STAY_WITH_BLOCK = 64, STAY_WITH_WARP = 32, KEEP_PRIORITIES = 1024;

Block* chosen_block;
uint64_t polls, switches;
Fiber launcher;
void run_threads_on_this_fiber();
FiberPool fibers(run_threads_on_this_fiber);

RandomKind random_kind() { return static_cast<RandomKind>(execution.request.seed % 3); }

// The first member of a set of 32 at or after `from`, cyclically.
unsigned next_up(unsigned set, unsigned from) {
    from %= 32;
    return (std::countr_zero(std::rotr(set, static_cast<int>(from))) + from) % 32;
}

unsigned next_down(unsigned set, unsigned from) {
    from %= 32;
    return (from + 32 - std::countl_zero(std::rotl(set, static_cast<int>(31 - from)))) % 32;
}

Block* choose_block(bool another) {
    const bool random = execution.random();
    const bool stay = chosen_block && chosen_block->runnable_warps && !another;
    if (stay && !(random && one_in(STAY_WITH_BLOCK))) return chosen_block;
    const auto& blocks = execution.blocks;
    size_t first = 0;
    if (random) {
        first = random_number() % blocks.size();
    } else if (chosen_block) {
        const Cluster* cluster = chosen_block->cluster;
        first = (cluster - execution.clusters.data()) * execution.blocks_per_cluster + chosen_block->rank + 1;
    }
    for (size_t i = 0; i < blocks.size(); i++) {
        Block* block = blocks[(first + i) % blocks.size()];
        if (block->running && block->runnable_warps) return block;
    }
    return nullptr;
}

unsigned warp_of_highest_priority(Block& block) {
    if (one_in(KEEP_PRIORITIES)) new_priorities(block);
    unsigned best = std::countr_zero(block.runnable_warps);
    for_each_lane(block.runnable_warps, [&](unsigned warp) {
        if (block.priority[warp] > block.priority[best]) best = warp;
    });
    return best;
}

unsigned choose_warp(Block& block, bool another) {
    const unsigned set = block.runnable_warps, last = block.last_warp;
    const bool can_stay = (set >> last & 1) && !another;
    if (!execution.random()) {
        if (can_stay) return last;
        return execution.request.turn == Turn::reversed ? next_down(set, last - 1) : next_up(set, last + 1);
    }
    if (!another && random_kind() == RandomKind::priorities) return warp_of_highest_priority(block);
    if (random_kind() == RandomKind::sticky && can_stay && !one_in(STAY_WITH_WARP)) return last;
    return next_up(set, static_cast<unsigned>(random_number()));
}

unsigned choose_lane(const Warp& warp) {
    if (execution.random()) return next_up(warp.runnable, static_cast<unsigned>(random_number()));
    return execution.request.turn == Turn::reversed ? next_down(warp.runnable, warp.last - 1)
                                                    : next_up(warp.runnable, warp.last + 1);
}

// Takes the next thread out of those that can run; null when all have ended.
Thread* choose_thread(bool of_another_block) {
    if (execution.random()) maybe_land_a_copy();
    Block* block = choose_block(of_another_block);
    if (!block) {
        if (execution.running_blocks) fail_stuck("deadlock: no thread can run");
        return nullptr;
    }
    chosen_block = block;
    const unsigned number = choose_warp(*block, of_another_block);
    Warp& warp = block->warps[number];
    const unsigned lane = choose_lane(warp);
    block->last_warp = number;
    warp.last = lane;
    warp.runnable &= ~(1u << lane);
    if (!warp.runnable) block->runnable_warps &= ~(1u << number);
    return warp.lanes[lane];
}

void go_on_with(Thread* next, Fiber& from) {
    if (next && !next->fiber) next->fiber = fibers.take();
    current = next;
    switches++;
    switch_fiber(from, next ? *next->fiber : launcher);
}

void switch_to_another(bool of_another_block) {
    Thread* thread = running();
    if (thread->fiber->overran_its_stack()) fail("stack overflow: a thread has less than 64 KiB for its variables");
    Thread* next = choose_thread(of_another_block);
    if (next != thread) go_on_with(next, *thread->fiber);
}

void run_threads_on_this_fiber() {
    Fiber* fiber = running()->fiber;
    for (;;) {
        execution.request.kernel->call(execution.request.arguments);
        end_thread();
        Thread* next = choose_thread(false);
        if (next && !next->fiber) {  // a fresh thread follows on this stack: cheaper than a switch
            next->fiber = fiber;
            current = next;
            continue;
        }
        fibers.give_back(fiber);
        go_on_with(next, *fiber);
    }
}

}  // namespace

void run_all_threads() {
    chosen_block = nullptr;
    polls = switches = 0;
    for (Cluster& cluster : execution.clusters) start_cluster(cluster);
    go_on_with(choose_thread(false), launcher);
}

void forget_all_threads() {
    current = nullptr;
    fibers.reclaim_all();
}

bool is_stack_guard(const void* address) { return fibers.is_guard(address); }

void make_runnable(Thread& thread) {
    thread.parked = false;
    thread.warp->runnable |= 1u << thread.lane;
    thread.block->runnable_warps |= 1u << thread.warp->index;
}

void park(const char* doing, Where where) {
    Thread* thread = running();
    thread->at = where;
    thread->doing = doing;
    thread->parked = true;
    thread->polled = nullptr;
}

void run_another() { switch_to_another(false); }

void give_way(bool to_another_block) {
    make_runnable(*running());
    switch_to_another(to_another_block);
}

void made_progress() { polls = 0; }

void poll(const char* doing, Where where) {
    Thread* thread = running();
    thread->at = where;
    thread->doing = doing;
    if (++polls > execution.request.poll_limit) fail_stuck("livelock: threads poll and nothing changes");
    give_way(!execution.random() || one_in(2));
}

void maybe_give_way() {
    if (execution.random() && one_in(4)) give_way(one_in(2));
}

Thread& enter(const char* doing, Where where) {
    maybe_give_way();
    Thread& thread = *running();
    thread.at = where;
    thread.doing = doing;
    thread.polled = nullptr;
    return thread;
}

void new_priorities(Block& block) {
    for (uint8_t& priority : block.priority) priority = static_cast<uint8_t>(random_number());
}

uint64_t switch_count() { return switches; }

}  // namespace cuda_on_cpu
