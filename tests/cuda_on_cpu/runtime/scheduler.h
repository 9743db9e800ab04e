// Who runs next.
#pragma once

#include "state.h"

namespace cuda_on_cpu {

// Starts the first clusters and runs until all are done.
void run_all_threads();
void forget_all_threads();
bool is_stack_guard(const void* address);

// The running thread waits until somebody calls make_runnable for it.
void park(const char* doing, Where where);
void make_runnable(Thread& thread);
void run_another();
// The running thread gives way and stays runnable.
void give_way(bool to_another_block);
// The running thread has looked for a change and found none.
void poll(const char* doing, Where where);
// In random schedules, a point at which others may run.
void maybe_give_way();
// The running thread begins an operation on copies or their barriers, after others may have run.
Thread& enter(const char* doing, Where where);

void new_priorities(Block& block);
uint64_t switch_count();

}  // namespace cuda_on_cpu
