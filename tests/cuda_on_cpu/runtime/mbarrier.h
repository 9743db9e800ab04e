// Barriers in shared memory that count arrivals of threads and bytes of copies.
#pragma once

#include "state.h"

namespace cuda_on_cpu {

// The state of an mbarrier in the shared memory of the running thread's cluster.
MbarrierState& mbarrier_at(const void* barrier);
// Takes the bytes of loads that have landed off what the phase waits for.
void count_landed(MbarrierState& state);

}  // namespace cuda_on_cpu
