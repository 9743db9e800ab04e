#include "clocks.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "checker.h"

namespace cuda_on_cpu {

Clock Knowledge::find(uint32_t key) const {
    const auto entry = std::ranges::lower_bound(entries_, key, {}, &Entry::first);
    return entry != entries_.end() && entry->first == key ? entry->second : 0;
}

void Knowledge::raise(uint32_t key, Clock clock) {
    const auto entry = std::ranges::lower_bound(entries_, key, {}, &Entry::first);
    if (entry != entries_.end() && entry->first == key) {
        entry->second = std::max(entry->second, clock);
    } else {
        entries_.insert(entry, {key, clock});
    }
}

void Knowledge::join(const Knowledge& other) {
    if (other.empty()) return;
    std::vector<Entry> joined;
    joined.reserve(entries_.size() + other.entries_.size());
    auto a = entries_.begin();
    for (const Entry& b : other.entries_) {
        while (a != entries_.end() && a->first < b.first) joined.push_back(*a++);
        if (a != entries_.end() && a->first == b.first) {
            joined.push_back({b.first, std::max(a->second, b.second)});
            a++;
        } else {
            joined.push_back(b);
        }
    }
    joined.insert(joined.end(), a, entries_.end());
    entries_ = std::move(joined);
}

Knowledge Knowledge::behind_fence() const {
    Knowledge fenced;
    for (const Entry& entry : entries_) {
        if (!(entry.first & FENCED)) fenced.entries_.push_back({entry.first | FENCED, entry.second});
    }
    return fenced;
}

namespace checker {
namespace {

constexpr int SCOPES = 3;

std::unordered_map<const void*, std::vector<Publication>> words;  // that were stored to atomically
Agent engines;

uint32_t threads_with_agents() { return execution.block_count() * execution.warps_per_block() * LANES; }

uint32_t block_of(Agent agent) { return agent / (execution.warps_per_block() * LANES); }

// Whether what was published reaches `thread`, whose own access has `scope`.
bool reaches(const Publication& publication, const Thread& thread, Scope scope) {
    switch (static_cast<Scope>(std::min<uint8_t>(publication.scope, static_cast<uint8_t>(scope)))) {
        case Scope::block:
            return publication.block == thread.block->number;
        case Scope::cluster:
            return publication.cluster == thread.block->cluster->number;
        default:
            return true;
    }
}

void add(std::vector<Publication>& list, const Publication& publication) {
    for (Publication& other : list) {
        if (other.scope == publication.scope && other.block == publication.block) {
            return other.knowledge.join(publication.knowledge);
        }
    }
    list.push_back(publication);
}

std::vector<Publication> publications_of(Thread& thread, Order order, Scope scope) {
    const bool releases = order == Order::release || order == Order::acquire_release;
    std::vector<Publication> list;
    const auto publish = [&](uint8_t reach, const Knowledge& knowledge) {
        if (!knowledge.empty()) {
            list.push_back({reach, thread.block->number, thread.block->cluster->number, knowledge});
        }
    };
    for (uint8_t reach = 0; reach < SCOPES; reach++) publish(reach, thread.clocks.fenced[reach]);
    if (releases) publish(static_cast<uint8_t>(scope), release(thread));
    return list;
}

}  // namespace

void begin_clocks() {
    words.clear();
    engines = 4 * threads_with_agents();
}

void begin_clocks(Block& block) {
    block.clocks = {};
    for (Thread& thread : block.threads) {
        thread.clocks = {};
        thread.clocks.agent = (block.number * execution.warps_per_block() + thread.warp->index) * LANES + thread.lane;
        thread.clocks.clock = 1;
    }
}

bool is_thread(Agent agent) { return agent < threads_with_agents(); }

Agent engine_of(const Thread& thread, Engine engine) {
    return thread.clocks.agent + (static_cast<Agent>(engine) + 1) * threads_with_agents();
}

Agent new_engine() { return engines += LANES; }

bool knows(const Thread& thread, Agent agent, Clock clock) {
    const ThreadClocks& mine = thread.clocks;
    const BlockClocks& block = thread.block->clocks;
    if (agent == mine.agent) return true;
    if (is_thread(agent)) {
        const uint32_t number = block_of(agent);
        if (number == thread.block->number) {
            if (clock < block.barrier_clock) return true;
            if (agent / LANES == mine.agent / LANES && clock < mine.warp[agent % LANES]) return true;
        } else if (clock < block.known.of_block(number) || clock < mine.own.of_block(number)) {
            return true;
        }
    }
    return clock < block.known.of(agent) || clock < mine.own.of(agent);
}

Knowledge release(Thread& thread) {
    ThreadClocks& mine = thread.clocks;
    Knowledge all = thread.block->clocks.known;
    all.join(mine.own);
    all.learn(mine.agent, ++mine.clock);
    all.learn_block(thread.block->number, thread.block->clocks.barrier_clock);
    for (Agent lane = 0; lane < LANES; lane++) {
        if (mine.warp[lane]) all.learn(mine.agent / LANES * LANES + lane, mine.warp[lane]);
    }
    return all;
}

void acquire(Thread& thread, const Knowledge& knowledge) { thread.clocks.own.join(knowledge); }

void open_barrier(std::span<Thread* const> threads) {
    Clock clock = 0;
    Knowledge all;
    std::map<Block*, bool> blocks;
    for (Thread* thread : threads) {
        clock = std::max(clock, thread->clocks.clock);
        all.join(thread->clocks.own);
        thread->clocks.own.clear();
        if (!std::exchange(blocks[thread->block], true)) all.join(thread->block->clocks.known);
    }
    clock++;
    for (Thread* thread : threads) thread->clocks.clock = clock;
    if (blocks.size() > 1) {
        for (const auto& [block, _] : blocks) all.learn_block(block->number, clock);
    }
    for (const auto& [block, _] : blocks) block->clocks = {clock, all};
}

void open_named_barrier(std::span<Thread* const> threads) {
    Knowledge all;
    for (Thread* thread : threads) all.join(release(*thread));
    for (Thread* thread : threads) acquire(*thread, all);
}

void synchronize_lanes(Warp& warp, unsigned lanes) {
    Clock known[LANES] = {};
    Knowledge all;
    for_each_lane(lanes, [&](unsigned lane) {
        ThreadClocks& clocks = warp.lanes[lane]->clocks;
        for (unsigned i = 0; i < LANES; i++) known[i] = std::max(known[i], clocks.warp[i]);
        all.join(clocks.own);
    });
    for_each_lane(lanes, [&](unsigned lane) { known[lane] = ++warp.lanes[lane]->clocks.clock; });
    for_each_lane(lanes, [&](unsigned lane) {
        ThreadClocks& clocks = warp.lanes[lane]->clocks;
        std::copy_n(known, LANES, clocks.warp);
        clocks.own.join(all);
    });
}

void fence(Thread& thread, Scope scope) {
    for (const Publication& publication : thread.clocks.seen) {
        if (reaches(publication, thread, scope)) acquire(thread, publication.knowledge);
    }
    thread.clocks.fenced[static_cast<int>(scope)] = release(thread);
}

void pass_on(Thread& thread, const void* address, Access access, Order order, Scope scope) {
    std::vector<Publication>& word = words[address];
    if (access != Access::store) {
        const bool acquires = order == Order::acquire || order == Order::acquire_release;
        for (const Publication& publication : word) {
            if (acquires && reaches(publication, thread, scope)) acquire(thread, publication.knowledge);
            add(thread.clocks.seen, publication);
        }
    }
    if (access == Access::load) return;
    // A store begins anew; an update goes on with what others published through the word.
    if (access == Access::store) word.clear();
    for (const Publication& publication : publications_of(thread, order, scope)) add(word, publication);
}

void fence_proxy(Thread& thread) { thread.clocks.own.join(release(thread).behind_fence()); }

bool fenced_for_engines(const Thread& issuer, Agent agent, Clock clock) {
    const uint32_t block = block_of(agent);
    const auto covers = [&](const Knowledge& known) {
        return clock < known.fenced_of(agent) || clock < known.fenced_of_block(block);
    };
    return covers(issuer.clocks.own) || covers(issuer.block->clocks.known);
}

}  // namespace checker
}  // namespace cuda_on_cpu
