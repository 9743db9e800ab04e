// Life of clusters, blocks and threads.
#pragma once

#include "state.h"

namespace cuda_on_cpu {

void prepare_grid();
void release_grid();
void start_cluster(Cluster& cluster);
// The running thread has returned from the kernel.
void end_thread();

// Barriers and warps: a thread that returned no longer takes part.
void leave_barriers(Thread& thread);
void leave_warp(Thread& thread);
// Asynchronous copies that are still under way when a thread or its block ends.
void end_copies(Thread& thread);
void end_copies(Block& block);
// In random schedules, one that lands now.
void maybe_land_a_copy();

}  // namespace cuda_on_cpu
