// Whether an access is ordered with those that touched the same bytes before.
#include "shadow.h"

#include <algorithm>

#include "failure.h"
#include "scheduler.h"

namespace cuda_on_cpu::checker {

namespace {

struct List {
    std::vector<Accesses> entries;  // by warp
    bool writes = false;            // one of them does, so a read has to look at all
};

// Accesses beyond the first of each byte; list 0 stays empty.
class Lists {
  public:
    void clear() {
        lists_.assign(1, {});
        unused_.clear();
    }
    List& operator[](uint32_t number) { return lists_[number]; }
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
        lists_[number] = {};
        unused_.push_back(number);
    }

  private:
    std::vector<List> lists_;
    std::vector<uint32_t> unused_;
};
Lists lists;

// An access under way.
struct Toucher {
    const Thread& thread;
    Stamp stamp;
    Place place;
    Manner manner;

    bool knows(Agent agent, Clock clock) const { return agent == stamp.agent || checker::knows(thread, agent, clock); }
    // Two accesses may stand in any order if neither writes, or both are atomic.
    bool minds(Manner other) const { return (manner.writes || other.writes) && !(manner.atomic && other.atomic); }
    // The first lane whose access is not ordered before; LANES if all are.
    unsigned unordered_lane(const Accesses& accesses) const {
        unsigned found = LANES;
        for_each_lane(accesses.lanes, [&](unsigned lane) {
            if (found == LANES && !knows((accesses.warp_plus_1 - 1) * LANES + lane, accesses.clock)) found = lane;
        });
        return found;
    }
};

constexpr Manner PLAIN_READ{.writes = false, .atomic = false, .reads = true};
constexpr Manner LOOSE_READ{.writes = false, .atomic = false, .reads = false};  // of what need have no value
constexpr Manner PLAIN_WRITE{.writes = true, .atomic = false, .reads = false};

const char* describe(Manner manner) {
    if (!manner.atomic) return manner.writes ? "write" : "read";
    if (!manner.writes) return "atomic read";
    return manner.reads ? "atomic update" : "atomic write";
}

std::string describe_agent(Agent agent) {
    if (!is_thread(agent)) return "a copy engine";
    const unsigned per_block = execution.warps_per_block() * LANES;
    return format("block %u thread %u", agent / per_block, agent % per_block);
}

struct Other {
    Agent agent;
    Place place;
    Manner manner;
};

[[noreturn]] void fail_racing(const Toucher& toucher, const Region& region, size_t byte, Other other) {
    const bool engine = !is_thread(toucher.stamp.agent);
    fail("data race on byte %zu of %s: %s%s at %s, not ordered with the %s by %s at %s", byte, region.name,
         describe(toucher.manner), engine ? " by a copy engine" : "", toucher.place.describe().c_str(),
         describe(other.manner), describe_agent(other.agent).c_str(), other.place.describe().c_str());
}

void demand_order_with_write(const Toucher& toucher, const Region& region, const Cell& cell, size_t byte) {
    if (!cell.write.agent_plus_1 || toucher.knows(cell.write.agent_plus_1 - 1, cell.write.clock)) return;
    fail_racing(toucher, region, byte, {cell.write.agent_plus_1 - 1, cell.write.place, PLAIN_WRITE});
}

void demand_order_with_accesses(const Toucher& toucher, const Region& region, const Cell& cell, size_t byte) {
    const auto demand = [&](const Accesses& accesses) {
        if (!accesses.warp_plus_1 || !toucher.minds(accesses.manner)) return;
        const unsigned lane = toucher.unordered_lane(accesses);
        if (lane == LANES) return;
        fail_racing(toucher, region, byte,
                    {(accesses.warp_plus_1 - 1) * LANES + lane, accesses.place, accesses.manner});
    };
    demand(cell.since);
    const List& more = lists[cell.more];
    if (!toucher.manner.writes && !more.writes) return;
    for (const Accesses& accesses : more.entries) demand(accesses);
}

// What a copy engine does comes behind what threads did with the same bytes if a fence stands between them: what it
// reads behind their writes, what it writes behind their reads too.
void demand_proxy_fence(const Toucher& toucher, const Region& region, const Cell& cell, size_t byte) {
    if (!toucher.stamp.async_proxy) return;
    const auto demand = [&](Agent agent, Clock clock, Place place, Manner manner) {
        if (!is_thread(agent) || !toucher.minds(manner) || fenced_for_engines(toucher.thread, agent, clock)) return;
        fail(
            "a copy engine is to %s byte %zu of %s at %s, which %s %s at %s: fence_async_proxy is missing between them",
            toucher.manner.writes ? "write" : "read", byte, region.name, toucher.place.describe().c_str(),
            describe_agent(agent).c_str(), manner.writes ? "wrote" : "read", place.describe().c_str());
    };
    const auto demand_of_lanes = [&](const Accesses& accesses) {
        for_each_lane(accesses.lanes, [&](unsigned lane) {
            demand((accesses.warp_plus_1 - 1) * LANES + lane, accesses.clock, accesses.place, accesses.manner);
        });
    };
    if (cell.write.agent_plus_1) demand(cell.write.agent_plus_1 - 1, cell.write.clock, cell.write.place, PLAIN_WRITE);
    if (cell.since.warp_plus_1) demand_of_lanes(cell.since);
    for (const Accesses& accesses : lists[cell.more].entries) demand_of_lanes(accesses);
}

bool has_value(const Region& region, const Cell& cell, size_t byte) {
    const bool born_with = !region.owner && !region.written;
    if (born_with || cell.write.agent_plus_1 || cell.since.manner.writes || lists[cell.more].writes) return true;
    return region.written && region.written[byte];
}

void demand_value(const Toucher& toucher, const Region& region, const Cell& cell, size_t byte) {
    if (has_value(region, cell, byte)) return;
    fail("byte %zu of %s is read at %s, and nobody has written it", byte, region.name,
         toucher.place.describe().c_str());
}

// Adds the access to an entry of its warp, or takes the place of one of its kind that happened before it.
bool merge(Accesses& accesses, const Accesses& mine, const Toucher& toucher) {
    if (accesses.warp_plus_1 && accesses.manner != mine.manner) return false;
    if (accesses.warp_plus_1 == mine.warp_plus_1 && accesses.clock == mine.clock) {
        accesses.lanes |= mine.lanes;
        return true;
    }
    if (accesses.warp_plus_1 && toucher.unordered_lane(accesses) != LANES) return false;
    accesses = mine;
    return true;
}

// A word that a thousand warps read has as many entries: each looks for its own, which stand together, and only while
// they are few for others that it may replace.
void remember_further_access(const Toucher& toucher, List& more, const Accesses& mine) {
    constexpr size_t FEW = 16;
    std::vector<Accesses>& list = more.entries;
    more.writes |= mine.manner.writes;
    auto own = std::ranges::lower_bound(list, mine.warp_plus_1, {}, &Accesses::warp_plus_1);
    for (auto entry = own; entry != list.end() && entry->warp_plus_1 == mine.warp_plus_1; entry++) {
        if (merge(*entry, mine, toucher)) return;
    }
    if (list.size() < FEW) {
        const size_t before = list.size();
        std::erase_if(list, [&](const Accesses& entry) {
            return entry.manner == mine.manner && toucher.unordered_lane(entry) == LANES;
        });
        if (list.size() < before) own = std::ranges::lower_bound(list, mine.warp_plus_1, {}, &Accesses::warp_plus_1);
    }
    list.insert(own, mine);
}

void remember_access(const Toucher& toucher, Cell& cell) {
    const Agent agent = toucher.stamp.agent;
    const Accesses mine{agent / LANES + 1, 1u << agent % LANES, toucher.stamp.clock, toucher.place, toucher.manner};
    if (merge(cell.since, mine, toucher)) return;
    if (!cell.more) cell.more = lists.add();
    remember_further_access(toucher, lists[cell.more], mine);
}

void remember_plain_write(const Toucher& toucher, Cell& cell) {
    cell.write = {toucher.stamp.agent + 1, toucher.stamp.clock, toucher.place};
    cell.since = {};
    lists.drop(cell.more);
    cell.more = 0;
}

void touch_byte(const Toucher& toucher, Region& region, size_t byte) {
    Cell& cell = region.cells[byte];
    if (toucher.manner.reads) demand_value(toucher, region, cell, byte);
    demand_order_with_write(toucher, region, cell, byte);
    demand_order_with_accesses(toucher, region, cell, byte);
    demand_proxy_fence(toucher, region, cell, byte);
    if (toucher.manner == PLAIN_WRITE) {
        remember_plain_write(toucher, cell);
    } else {
        remember_access(toucher, cell);
    }
    if (toucher.manner.writes && region.written) region.written[byte] = 1;
}

void touch(const Toucher& toucher, const void* address, size_t size, size_t alignment) {
    char* first = static_cast<char*>(const_cast<void*>(address));
    const char* doing = toucher.manner.writes ? "write" : "read";
    Region* region = find_region(toucher.thread, first, size, alignment, doing, toucher.place);
    if (!region) return;
    const auto byte = static_cast<size_t>(first - region->first);
    for (size_t i = 0; i < size; i++) touch_byte(toucher, *region, byte + i);
}

Manner manner_of(Kind kind) { return kind == Kind::read ? PLAIN_READ : PLAIN_WRITE; }

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
    touch({thread, stamp_of(thread), Place::of_code(instruction), manner_of(kind)}, address, size, aligned ? size : 1);
}

void touch_atomically(const void* address, size_t size, Access access, Where where) {
    const Thread& thread = *running();
    const Manner manner{.writes = access != Access::load, .atomic = true, .reads = access != Access::store};
    touch({thread, stamp_of(thread), Place::of_site(where), manner}, address, size, size);
}

void touch_by_engine(Stamp stamp, const void* address, size_t size, Kind kind, Where where) {
    touch({*running(), stamp, Place::of_site(where), manner_of(kind)}, address, size, 1);
}

void touch_loosely(const void* address, size_t size, size_t alignment, Where where) {
    const Thread& thread = *running();
    touch({thread, stamp_of(thread), Place::of_site(where), LOOSE_READ}, address, size, alignment);
}

void demand_inside(const void* address, size_t size, Where where) {
    char* first = static_cast<char*>(const_cast<void*>(address));
    find_region(*running(), first, size, 1, "read", Place::of_site(where));
}

}  // namespace cuda_on_cpu::checker
