// What Python hands over for a launch. The layout of these structs is repeated in launch.py.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime_api.h"

namespace cuda_on_cpu {

// Bytes that the kernel may use. Those with `written` start without a value: a byte may be read once written[i] is 1.
struct Array {
    char* first;
    size_t size;
    const char* name;
    uint8_t* written;
};

// A variable in static shared memory, or the dynamic part.
struct SharedVariable {
    size_t place, size;
    const char* name;
};

enum class Turn : uint32_t { in_order = 0, reversed = 1, random = 2 };

struct Request {
    const Kernel* kernel;
    void** arguments;
    uint32_t grid[3], block[3], cluster[3];
    uint32_t cooperative;
    const Array* arrays;
    const SharedVariable* shared;
    uint32_t array_count, shared_count;
    size_t shared_bytes;  // static and dynamic, with the gaps between them

    Turn turn;
    uint32_t resident;  // blocks that run at the same time, unless the launch is cooperative
    uint64_t seed;
    uint64_t poll_limit;     // polls without any change in between that are taken for a livelock
    uint32_t preempt_every;  // checking: on average a thread loses its turn at one in so many accesses
    uint32_t timeout_s;
};

}  // namespace cuda_on_cpu
