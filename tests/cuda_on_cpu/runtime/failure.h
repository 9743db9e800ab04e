// Reports of defects, which break off a launch.
#pragma once

#include <csetjmp>
#include <string>

#include "state.h"

namespace cuda_on_cpu {

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string describe(const Where& where);
std::string describe(const Thread& thread);
// The file and offset of code, which Python replaces by file and line of the source.
std::string describe_code(const void* instruction);

// fail() with the threads that wait, and where.
[[noreturn]] void fail_stuck(const char* title);

// Runs `body`; whatever fails in it, signals of the processor too, ends it. Returns whether it came to its end.
bool run_guarded(void (*body)(), uint32_t timeout_s);
const char* failure_message();

}  // namespace cuda_on_cpu
