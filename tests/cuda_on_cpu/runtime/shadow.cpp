// Whether an access is ordered with those that touched the same bytes before.
#include "shadow.h"

#include <algorithm>

#include "failure.h"
#include "scheduler.h"

namespace cuda_on_cpu::checker {

bool is_thread(Agent agent);
void begin_clocks();
void begin_clocks(Block& block);

namespace {

// Entries beyond the first of each byte; list 0 stays empty.
class ListsOfReads {
  public:
    void clear() {
        lists_.assign(1, {});
        unused_.clear();
    }
    std::vector<Reads>& operator[](uint32_t number) { return lists_[number]; }
    uint32_t add() {
        if (unused_.empty()) {
            lists_.emplace_back();
            return static_cast<uint32_t>(lists_.size() - 1);
        }
        const uint32_t number = unused_.back();
        unused_.pop_back();
        return number;
    }
    void drop(uint32_t number) {
        if (!number) return;
        lists_[number].clear();
        unused_.push_back(number);
    }

  private:
    std::vector<std::vector<Reads>> lists_;
    std::vector<uint32_t> unused_;
};
ListsOfReads lists;

// An access under way.
struct Toucher {
    const Thread& thread;
    Stamp stamp;
    Place place;
    Kind kind;

    const char* doing() const { return kind == Kind::write ? "write" : "read"; }
    bool knows(Agent agent, Clock clock) const {
        return agent == stamp.agent || checker::knows(thread, agent, clock);
    }
    bool may_follow(const Write& write) const {
        return !write.agent_plus_1 || (place.atomic() && write.place.atomic()) ||
               knows(write.agent_plus_1 - 1, write.clock);
    }
    // The first lane whose read is not ordered before; LANES if all are.
    unsigned unordered_lane(const Reads& reads) const {
        unsigned found = LANES;
        for_each_lane(reads.lanes, [&](unsigned lane) {
            if (found == LANES && !knows((reads.warp_plus_1 - 1) * LANES + lane, reads.clock)) found = lane;
        });
        return found;
    }
};

std::string describe_agent(Agent agent) {
    if (!is_thread(agent)) return "a copy engine";
    const unsigned per_block = execution.warps_per_block() * LANES;
    return format("block %u thread %u", agent / per_block, agent % per_block);
}

[[noreturn]] void fail_racing(const Toucher& toucher, const Region& region, size_t byte, const char* other_doing,
                              Place other_place, Agent other) {
    const bool engine = !is_thread(toucher.stamp.agent);
    fail("data race on byte %zu of %s: %s%s%s at %s, not ordered with the %s%s by %s at %s", byte, region.name,
         toucher.place.atomic() ? "atomic " : "", toucher.doing(), engine ? " by a copy engine" : "",
         toucher.place.describe().c_str(), other_place.atomic() ? "atomic " : "", other_doing,
         describe_agent(other).c_str(), other_place.describe().c_str());
}

void demand_order_with_reads(const Toucher& toucher, const Region& region, const Cell& cell, size_t byte) {
    const auto demand = [&](const Reads& reads) {
        if (!reads.warp_plus_1 || (toucher.place.atomic() && reads.place.atomic())) return;
        const unsigned lane = toucher.unordered_lane(reads);
        if (lane == LANES) return;
        fail_racing(toucher, region, byte, "read", reads.place, (reads.warp_plus_1 - 1) * LANES + lane);
    };
    demand(cell.reads);
    for (const Reads& reads : lists[cell.more_reads]) demand(reads);
}

void demand_proxy_fence(const Toucher& toucher, const Region& region, const Cell& cell, size_t byte) {
    if (!toucher.stamp.async_proxy || !cell.write.agent_plus_1) return;
    const Agent writer = cell.write.agent_plus_1 - 1;
    if (!is_thread(writer) || fenced_for_engines(toucher.thread, writer, cell.write.clock)) return;
    fail("a copy engine is to %s byte %zu of %s at %s, which %s wrote at %s: fence_async_proxy is missing between them",
         toucher.doing(), byte, region.name, toucher.place.describe().c_str(), describe_agent(writer).c_str(),
         cell.write.place.describe().c_str());
}

void demand_value(const Toucher& toucher, const Region& region, const Cell& cell, size_t byte) {
    const bool born_without = region.owner || region.written;
    if (!born_without || cell.write.agent_plus_1 || (region.written && region.written[byte])) return;
    fail("byte %zu of %s is read at %s, and nobody has written it", byte, region.name,
         toucher.place.describe().c_str());
}

// Adds the read to an entry of its warp, or takes the place of one that happened before it.
bool merge(Reads& reads, const Reads& mine, const Toucher& toucher) {
    const bool same = reads.warp_plus_1 == mine.warp_plus_1 && reads.clock == mine.clock &&
                      reads.place.atomic() == mine.place.atomic();
    if (same) {
        reads.lanes |= mine.lanes;
        return true;
    }
    if (reads.warp_plus_1 && toucher.unordered_lane(reads) != LANES) return false;
    reads = mine;
    return true;
}

void remember_read(const Toucher& toucher, Cell& cell) {
    const Agent agent = toucher.stamp.agent;
    const Reads mine{agent / LANES + 1, 1u << agent % LANES, toucher.stamp.clock, toucher.place};
    if (merge(cell.reads, mine, toucher)) return;
    for (Reads& reads : lists[cell.more_reads]) {
        if (merge(reads, mine, toucher)) return;
    }
    if (!cell.more_reads) cell.more_reads = lists.add();
    lists[cell.more_reads].push_back(mine);
}

void remember_write(const Toucher& toucher, Cell& cell) {
    cell.write = {toucher.stamp.agent + 1, toucher.stamp.clock, toucher.place};
    cell.reads = {};
    lists.drop(cell.more_reads);
    cell.more_reads = 0;
}

void touch_byte(const Toucher& toucher, Region& region, size_t byte) {
    Cell& cell = region.cells[byte];
    const bool writes = toucher.kind == Kind::write;
    if (!writes) demand_value(toucher, region, cell, byte);
    if (!toucher.may_follow(cell.write)) {
        fail_racing(toucher, region, byte, "write", cell.write.place, cell.write.agent_plus_1 - 1);
    }
    demand_proxy_fence(toucher, region, cell, byte);
    if (writes) {
        demand_order_with_reads(toucher, region, cell, byte);
        remember_write(toucher, cell);
        if (region.written) region.written[byte] = 1;
    } else {
        remember_read(toucher, cell);
    }
}

void touch(const Toucher& toucher, const void* address, size_t size, size_t alignment) {
    char* first = static_cast<char*>(const_cast<void*>(address));
    Region* region = find_region(toucher.thread, first, size, alignment, toucher.doing(), toucher.place);
    if (!region) return;
    const auto byte = static_cast<size_t>(first - region->first);
    for (size_t i = 0; i < size; i++) touch_byte(toucher, *region, byte + i);
}

Stamp stamp_of(const Thread& thread) { return {thread.clocks.agent, thread.clocks.clock, false}; }

}  // namespace

void begin_launch() {
    lists.clear();
    begin_clocks();
    open_regions();
}

void end_launch() { close_regions(); }

void begin_block(Block& block) {
    begin_clocks(block);
    reset_shared(block);
}

void touch(const void* address, size_t size, Kind kind, bool aligned, const void* instruction) {
    Thread& thread = *running();
    if (thread.fiber->holds(address)) return;
    if (execution.random() && one_in(execution.request.preempt_every)) give_way(one_in(2));
    touch({thread, stamp_of(thread), Place::of_code(instruction), kind}, address, size, aligned ? size : 1);
}

void touch_atomically(const void* address, size_t size, Kind kind, Where where) {
    const Thread& thread = *running();
    touch({thread, stamp_of(thread), Place::of_site(where, true), kind}, address, size, size);
}

void touch_by_engine(Stamp stamp, const void* address, size_t size, Kind kind, Where where) {
    touch({*running(), stamp, Place::of_site(where, false), kind}, address, size, 1);
}

}  // namespace cuda_on_cpu::checker
