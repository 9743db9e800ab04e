// The entry from Python.
#include "checker.h"
#include "failure.h"
#include "grid.h"
#include "scheduler.h"

#define CUDA_ON_CPU_API extern "C" __attribute__((visibility("default")))

namespace {

// All of it under the guard: memory for blocks and for checks may be short.
void prepare_and_run() {
    using namespace cuda_on_cpu;
    prepare_grid();
    if constexpr (CHECKING) checker::begin_launch();
    run_all_threads();
}

}  // namespace

// Returns whether the kernel ran to its end; if not, cuda_on_cpu_message says what happened.
CUDA_ON_CPU_API int cuda_on_cpu_launch(const cuda_on_cpu::Request* request) {
    using namespace cuda_on_cpu;
    execution.request = *request;
    const bool done = run_guarded(prepare_and_run, request->timeout_s);
    if (!done) forget_all_threads();
    if constexpr (CHECKING) checker::end_launch();
    release_grid();
    return done;
}

CUDA_ON_CPU_API const char* cuda_on_cpu_message() { return cuda_on_cpu::failure_message(); }

CUDA_ON_CPU_API uint64_t cuda_on_cpu_switches() { return cuda_on_cpu::switch_count(); }
