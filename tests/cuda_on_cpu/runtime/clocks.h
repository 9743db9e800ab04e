// Logical clocks: what each thread knows to have happened before whatever it does next.
//
// An agent is a thread, or a copy engine on its behalf. It stamps what it does with its clock, and advances the clock
// when others may learn of it. A thread knows a stamp of an agent when its clock is below what the thread learned of
// that agent. Most of what threads learn they learn together, at barriers of a block, so it is kept for the block:
// everything that threads of the block did before `barrier_clock` is known to all of them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace cuda_on_cpu {

using Agent = uint32_t;
using Clock = uint32_t;

// Clocks of some agents, and of some blocks as a whole; beside them those that are known through a fence of the async
// proxy, which copy engines may build on.
class Knowledge {
  public:
    Clock of(Agent agent) const { return find(agent); }
    Clock of_block(uint32_t block) const { return find(block | BLOCK); }
    Clock fenced_of(Agent agent) const { return find(agent | FENCED); }
    Clock fenced_of_block(uint32_t block) const { return find(block | BLOCK | FENCED); }
    // All of it, as it is known behind a fence of the async proxy.
    Knowledge behind_fence() const;
    void learn(Agent agent, Clock clock) { raise(agent, clock); }
    void learn_block(uint32_t block, Clock clock) { raise(block | BLOCK, clock); }
    void join(const Knowledge& other);
    bool empty() const { return entries_.empty(); }
    void clear() { entries_.clear(); }

  private:
    static constexpr uint32_t BLOCK = 0x80000000u, FENCED = 0x40000000u;
    using Entry = std::pair<uint32_t, Clock>;
    Clock find(uint32_t key) const;
    void raise(uint32_t key, Clock clock);

    std::vector<Entry> entries_;  // by key
};

// What a store made known, how far its scope reaches, and from where.
struct Publication {
    uint8_t scope;
    uint32_t block, cluster;
    Knowledge knowledge;
};

struct ThreadClocks {
    Agent agent;
    Clock clock;
    Clock warp[32];                 // of the other lanes, learned by __syncwarp
    Knowledge own;                  // learned alone, by acquiring
    Knowledge fenced[3];            // by scope: known at the last fence, to be published by the next relaxed store
    std::vector<Publication> seen;  // by relaxed loads, to be learned at the next fence
};

struct BlockClocks {
    Clock barrier_clock;
    Knowledge known;
};

}  // namespace cuda_on_cpu
