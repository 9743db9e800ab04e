#include "mbarrier.h"

#include "checker.h"
#include "failure.h"
#include "scheduler.h"

namespace cuda_on_cpu {
namespace {

constexpr size_t SIZE = 8;
constexpr int64_t MOST_BYTES = (1 << 20) - 1;  // of a phase: PTX ISA, mbarrier, range of the tx-count
constexpr unsigned MOST_ARRIVALS = (1 << 20) - 1;

Block* owner_of(const void* barrier) {
    for (Block& block : running()->block->cluster->blocks) {
        const auto offset = static_cast<size_t>(static_cast<const char*>(barrier) - block.shared);
        if (offset + SIZE <= execution.request.shared_bytes) return &block;
    }
    fail("an mbarrier lies outside the shared memory of the cluster");
}

// All but the first use of an mbarrier must come after its initialisation.
MbarrierState& use(const void* barrier, Access access, Where where) {
    MbarrierState& state = mbarrier_at(barrier);
    if constexpr (CHECKING) checker::touch_atomically(barrier, SIZE, access, where);
    return state;
}

void complete_if_due(MbarrierState& state) {
    if (state.pending || state.bytes) return;
    if constexpr (CHECKING) {
        state.arriving.learn(state.engine, state.phase + 2);  // what the phase's loads did
        state.completed.join(state.arriving);
        state.arriving.clear();
    }
    state.phase++;
    state.pending = state.expected;
    made_progress();
}

void expect(MbarrierState& state, unsigned bytes) {
    state.bytes += bytes;
    if (state.bytes > MOST_BYTES)
        fail("an mbarrier expects %lld bytes; at most %lld can be counted", static_cast<long long>(state.bytes),
             static_cast<long long>(MOST_BYTES));
}

bool passed(const MbarrierState& state, unsigned parity) { return (state.phase & 1) != (parity & 1); }

}  // namespace

MbarrierState& mbarrier_at(const void* barrier) {
    auto& states = owner_of(barrier)->mbarriers;
    const auto found = states.find(barrier);
    if (found == states.end()) fail("%s on an mbarrier that was not initialised", running()->doing);
    return found->second;
}

void count_landed(MbarrierState& state) {
    const size_t before = state.loads.size();
    std::erase_if(state.loads, [&](const Copy& copy) {
        if (copy.landed) state.bytes -= copy.bytes;
        return copy.landed;
    });
    if (state.loads.size() != before) complete_if_due(state);
}

void mbarrier_init(void* barrier, unsigned count, Where where) {
    const Thread& thread = enter("mbarrier_init", where);
    if (reinterpret_cast<uintptr_t>(barrier) % SIZE) fail("mbarrier_init: the address is no multiple of 8");
    if (count == 0 || count > MOST_ARRIVALS) fail("mbarrier_init: %u arrivals, not 1 ... %u", count, MOST_ARRIVALS);
    auto& states = thread.block->mbarriers;
    if (owner_of(barrier) != thread.block) fail("mbarrier_init: the mbarrier lies in another block's shared memory");
    if (states.contains(barrier)) fail("mbarrier_init on an mbarrier that is in use: mbarrier_invalidate comes first");
    MbarrierState state{.expected = count, .pending = count};
    if constexpr (CHECKING) {
        checker::touch(barrier, SIZE, checker::Kind::write, true, __builtin_return_address(0));
        state.engine = checker::new_engine();
        state.initialiser = thread.clocks.agent;
    }
    states.emplace(barrier, std::move(state));
    std::memset(barrier, 0, SIZE);
}

void mbarrier_invalidate(void* barrier, Where where) {
    const Thread& thread = enter("mbarrier_invalidate", where);
    const MbarrierState& state = mbarrier_at(barrier);
    if (!state.loads.empty() || state.unseen_load) fail("mbarrier_invalidate: nobody has waited for its bulk_load");
    if constexpr (CHECKING) checker::touch(barrier, SIZE, checker::Kind::write, true, __builtin_return_address(0));
    thread.block->mbarriers.erase(barrier);
}

void mbarrier_arrive(void* barrier, unsigned expected_bytes, bool remote, Where where) {
    Thread& thread = enter("mbarrier_arrive", where);
    if (!remote && owner_of(barrier) != thread.block) {
        fail("mbarrier_arrive on another block's mbarrier: mbarrier_arrive_cluster reaches there");
    }
    MbarrierState& state = use(barrier, Access::update, where);
    if constexpr (CHECKING) state.arriving.join(checker::release(thread));
    if (state.pending == 0) fail("mbarrier_arrive: more arrivals than the %u that the phase expects", state.expected);
    expect(state, expected_bytes);
    state.pending--;
    made_progress();
    complete_if_due(state);
}

void mbarrier_expect(void* barrier, unsigned bytes, Where where) {
    enter("mbarrier_expect", where);
    expect(use(barrier, Access::update, where), bytes);
}

bool mbarrier_try_wait(void* barrier, unsigned parity, Where where) {
    Thread& thread = enter("mbarrier_try_wait", where);
    MbarrierState& state = use(barrier, Access::load, where);
    if (!passed(state, parity)) {
        for (Copy& copy : state.loads) copy.land();
        count_landed(state);
    }
    if (!passed(state, parity)) {
        poll("mbarrier_try_wait", where);
        return false;
    }
    if constexpr (CHECKING) checker::acquire(thread, state.completed);
    if (state.loads.empty()) state.unseen_load = false;
    return true;
}

void fence_mbarrier_init(Where where) {
    Thread& thread = enter("fence_mbarrier_init", where);
    for (auto& [address, state] : thread.block->mbarriers) {
        if (state.initialiser == thread.clocks.agent) state.visible_to_engines = true;
    }
}

void fence_async_proxy(Where where) {
    fence_mbarrier_init(where);
    if constexpr (CHECKING) checker::fence_proxy(*running());
}

}  // namespace cuda_on_cpu
