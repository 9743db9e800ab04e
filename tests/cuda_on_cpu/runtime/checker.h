// The checking mode: happens-before, bounds, alignment, values that were never written.
//
// Called only where CHECKING is true. `clocks.cpp` keeps what is ordered, `shadow.cpp` who touched each byte,
// `hooks.cpp` is what the compiler calls at every access.
#pragma once

#include <span>

#include "state.h"

namespace cuda_on_cpu::checker {

// Life of a launch and of its blocks.
void begin_launch();
void end_launch();
void begin_block(Block& block);
void begin_clocks();
void begin_clocks(Block& block);

// Ordering.
void open_barrier(std::span<Thread* const> threads);  // of whole blocks
void open_named_barrier(std::span<Thread* const> threads);
void synchronize_lanes(Warp& warp, unsigned lanes);
void fence(Thread& thread, Scope scope);
Knowledge release(Thread& thread);
void acquire(Thread& thread, const Knowledge& knowledge);
bool knows(const Thread& thread, Agent agent, Clock clock);

// What an atomic access publishes and learns through the word at `address`.
void pass_on(Thread& thread, const void* address, Access access, Order order, Scope scope);

// Copy engines are agents of their own: three for each thread, and one for each mbarrier.
enum class Engine : uint8_t { load, store_reads, store_writes };
Agent engine_of(const Thread& thread, Engine engine);
Agent new_engine();
bool is_thread(Agent agent);
// The fence between ordinary accesses and those of the async proxy, and whether one stands between what an agent did
// and a copy that the thread issues.
void fence_proxy(Thread& thread);
bool fenced_for_engines(const Thread& issuer, Agent agent, Clock clock);

// Accesses.
enum class Kind : uint8_t { read, write };
void touch_atomically(const void* address, size_t size, Access access, Where where);
struct Stamp {
    Agent agent;
    Clock clock;
    bool async_proxy;
};
void touch_by_engine(Stamp stamp, const void* address, size_t size, Kind kind, Where where);
// Of a read of bytes that nobody may have written, of which it uses none.
void touch_loosely(const void* address, size_t size, size_t alignment, Where where);
// Of what an access reads and nobody uses.
void demand_inside(const void* address, size_t size, Where where);
// An access of the kernel's own code; `aligned` says that the compiler relies on a multiple of the size.
void touch(const void* address, size_t size, Kind kind, bool aligned, const void* instruction);

}  // namespace cuda_on_cpu::checker
