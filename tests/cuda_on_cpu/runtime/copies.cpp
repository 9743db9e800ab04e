// cp.async and cp.async.bulk.
#include "copies.h"

#include "checker.h"
#include "failure.h"
#include "grid.h"
#include "mbarrier.h"
#include "scheduler.h"

namespace cuda_on_cpu {

void Copy::read_source() {
    if (landed || !read.empty()) return;
    read.assign(from, from + bytes);
}

void Copy::land() {
    if (landed) return;
    landed = true;
    std::memcpy(to, read.empty() ? from : read.data(), bytes);
    made_progress();
}

namespace {

enum class Landing { at_once, any_time, at_wait };

Landing choose_landing() {
    switch (execution.request.turn) {
        case Turn::in_order:
            return Landing::at_wait;
        case Turn::reversed:
            return Landing::at_once;
        default:
            return static_cast<Landing>(random_number() % 3);
    }
}

// Adds a copy to those under way.
void begin(std::vector<Copy>& copies, Copy copy) {
    const Landing landing = choose_landing();
    copy.at_wait = landing == Landing::at_wait;
    copies.push_back(std::move(copy));
    if (landing == Landing::at_once) copies.back().land();
}

bool in_shared(const Block& block, const void* address, size_t bytes) {
    const auto offset = static_cast<size_t>(static_cast<const char*>(address) - block.shared);
    return offset + bytes <= execution.request.shared_bytes;
}

void demand_shared(const Block& block, const char* doing, const void* address, size_t bytes) {
    if (!in_shared(block, address, bytes)) fail("%s: the shared side is not in the block's shared memory", doing);
}

void demand_global(const Block& block, const char* doing, const void* address) {
    if (in_shared(block, address, 1)) fail("%s: the global side is in shared memory", doing);
}

void demand_multiple(const char* doing, const char* what, uintptr_t value, unsigned of) {
    if (value % of) fail("%s: %s is no multiple of %u bytes", doing, what, of);
}

void demand_aligned(const char* doing, const void* to, const void* from, unsigned bytes) {
    demand_multiple(doing, "the address that is written", reinterpret_cast<uintptr_t>(to), bytes);
    demand_multiple(doing, "the address that is read", reinterpret_cast<uintptr_t>(from), bytes);
}

// The thread now knows of what its groups before `groups` did.
void learn_of(Thread& thread, checker::Engine engine, uint32_t groups) {
    Knowledge knowledge;
    knowledge.learn(checker::engine_of(thread, engine), groups + 1);
    checker::acquire(thread, knowledge);
}

uint32_t complete_groups(const CopyGroups& groups, unsigned groups_left) {
    return groups.committed > groups_left ? groups.committed - groups_left : 0;
}

void end_stores(Thread& thread) {
    for (Copy& copy : thread.stores.copies) {
        if (!copy.source_waited) {
            fail("a thread returned while its bulk stores may still read shared memory: bulk_wait_read is missing");
        }
        copy.land();
    }
}

// By a thread, into its open group.
void begin_load(Thread& thread, char* to, const char* from, unsigned bytes, Where where) {
    if constexpr (CHECKING) {
        const checker::Stamp stamp{checker::engine_of(thread, checker::Engine::load), thread.loads.committed + 1,
                                   false};
        checker::touch_by_engine(stamp, from, bytes, checker::Kind::read, where);
        checker::touch_by_engine(stamp, to, bytes, checker::Kind::write, where);
    }
    begin(thread.loads.copies, {.to = to, .from = from, .bytes = bytes, .group = thread.loads.committed});
}

}  // namespace

void copy_async(void* shared, const void* global, unsigned bytes, Where where) {
    Thread& thread = enter("copy_async", where);
    demand_shared(*thread.block, thread.doing, shared, bytes);
    demand_global(*thread.block, thread.doing, global);
    demand_aligned(thread.doing, shared, global, bytes);
    begin_load(thread, static_cast<char*>(shared), static_cast<const char*>(global), bytes, where);
}

// Moves nothing but what is wanted, so that nobody is seen to race with the rest, nor can rely on it. What lies before
// may belong to nobody, but for it a GPU has memory too; what lies behind up to `touched` has to be somebody's.
void copy_async_part(void* shared, const void* global, int begin, int end, int touched, Where where) {
    Thread& thread = enter("copy_async_part", where);
    demand_shared(*thread.block, thread.doing, shared, 16);
    demand_global(*thread.block, thread.doing, global);
    demand_aligned(thread.doing, shared, global, 16);
    if constexpr (CHECKING) {
        checker::demand_inside(static_cast<const char*>(global) + begin, static_cast<size_t>(touched - begin), where);
    }
    begin_load(thread, static_cast<char*>(shared) + begin, static_cast<const char*>(global) + begin,
               static_cast<unsigned>(end - begin), where);
}

void commit_copies(Where where) { enter("copy_async_commit", where).loads.committed++; }

void wait_for_copies(unsigned groups_left, Where where) {
    Thread& thread = enter("copy_async_wait", where);
    const uint32_t complete = complete_groups(thread.loads, groups_left);
    std::erase_if(thread.loads.copies, [&](Copy& copy) {
        if (copy.group >= complete) return false;
        copy.land();
        return true;
    });
    if constexpr (CHECKING) learn_of(thread, checker::Engine::load, complete);
}

void bulk_load(void* shared, const void* global, unsigned bytes, void* barrier, Where where) {
    Thread& thread = enter("bulk_load", where);
    demand_shared(*thread.block, thread.doing, shared, bytes);
    demand_global(*thread.block, thread.doing, global);
    demand_aligned(thread.doing, shared, global, 16);
    demand_multiple(thread.doing, "the size", bytes, 16);
    MbarrierState& state = mbarrier_at(barrier);
    if constexpr (CHECKING) {
        if (!state.visible_to_engines) fail("bulk_load: no fence_mbarrier_init since the mbarrier was initialised");
        const checker::Stamp stamp{state.engine, state.phase + 1, true};
        checker::touch_by_engine(stamp, global, bytes, checker::Kind::read, where);
        checker::touch_by_engine(stamp, shared, bytes, checker::Kind::write, where);
    }
    state.unseen_load = true;
    begin(state.loads, {.to = static_cast<char*>(shared), .from = static_cast<const char*>(global), .bytes = bytes});
    count_landed(state);
}

// Moves nothing. Of its first and last 16 bytes one has to be somebody's, as who asks for an array that begins or ends
// between multiples of 16 asks for what lies beside it too.
void bulk_prefetch(const void* global, unsigned bytes, Where where) {
    Thread& thread = enter("bulk_prefetch", where);
    demand_global(*thread.block, thread.doing, global);
    demand_multiple(thread.doing, "the address", reinterpret_cast<uintptr_t>(global), 16);
    demand_multiple(thread.doing, "the size", bytes, 16);
    if constexpr (CHECKING) {
        if (bytes >= 32) checker::demand_inside(static_cast<const char*>(global) + 15, bytes - 30, where);
    }
}

void bulk_store(void* global, const void* shared, unsigned bytes, Where where) {
    Thread& thread = enter("bulk_store", where);
    demand_shared(*thread.block, thread.doing, shared, bytes);
    demand_global(*thread.block, thread.doing, global);
    demand_aligned(thread.doing, global, shared, 16);
    demand_multiple(thread.doing, "the size", bytes, 16);
    if constexpr (CHECKING) {
        const Clock clock = thread.stores.committed + 1;
        checker::touch_by_engine({checker::engine_of(thread, checker::Engine::store_reads), clock, true}, shared, bytes,
                                 checker::Kind::read, where);
        checker::touch_by_engine({checker::engine_of(thread, checker::Engine::store_writes), clock, true}, global,
                                 bytes, checker::Kind::write, where);
    }
    begin(thread.stores.copies, {.to = static_cast<char*>(global),
                                 .from = static_cast<const char*>(shared),
                                 .bytes = bytes,
                                 .group = thread.stores.committed});
}

void commit_bulk_stores(Where where) { enter("bulk_commit", where).stores.committed++; }

void wait_for_bulk_stores(unsigned groups_left, bool only_reads, Where where) {
    Thread& thread = enter(only_reads ? "bulk_wait_read" : "bulk_wait", where);
    const uint32_t complete = complete_groups(thread.stores, groups_left);
    for (Copy& copy : thread.stores.copies) {
        if (copy.group >= complete) continue;
        copy.read_source();
        copy.source_waited = true;
        if (!only_reads) copy.land();
    }
    if (!only_reads) std::erase_if(thread.stores.copies, [&](const Copy& copy) { return copy.group < complete; });
    if constexpr (CHECKING) {
        learn_of(thread, checker::Engine::store_reads, complete);
        if (!only_reads) learn_of(thread, checker::Engine::store_writes, complete);
    }
}

void end_copies(Thread& thread) {
    if (!thread.loads.copies.empty()) fail("a thread returned without having waited for its copy_async");
    end_stores(thread);
}

void end_copies(Block& block) {
    for (const auto& [address, state] : block.mbarriers) {
        if (state.unseen_load) fail("a block ended and nobody had waited for its bulk_load");
    }
}

// Which copy it is does not matter much; that it costs little when there is none, does.
void maybe_land_a_copy() {
    Block& block = *execution.blocks[random_number() % execution.blocks.size()];
    if (!block.running) return;
    const auto land_first = [](std::vector<Copy>& copies) {
        for (Copy& copy : copies) {
            if (!copy.landed && !copy.at_wait) return copy.land();
        }
    };
    Thread& thread = block.threads[random_number() % block.threads.size()];
    land_first(thread.loads.copies);
    land_first(thread.stores.copies);
    for (auto& [address, state] : block.mbarriers) {
        land_first(state.loads);
        count_landed(state);
    }
}

}  // namespace cuda_on_cpu
