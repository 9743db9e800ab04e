// Asynchronous copies that are under way.
//
// A copy may land at any time between its start and the wait for it. A kernel that does not wait is found when it lands
// as late as that, one that reuses a stage too early when it lands late or early; so schedules differ: in order copies
// land at the wait, reversed at once, and a random schedule takes either, or a time between, for each copy.
#pragma once

#include <cstdint>
#include <vector>

#include "clocks.h"

namespace cuda_on_cpu {

struct Copy {
    char* to;
    const char* from;
    uint32_t bytes;
    uint32_t group = 0;
    bool at_wait = false;  // not before somebody waits for it
    bool landed = false;
    bool source_waited = false;   // a store whose source may be reused ...
    std::vector<char> read = {};  // ... and the bytes that will land

    void land();
    void read_source();
};

// The copies that a thread has begun, in groups that it commits and waits for.
struct CopyGroups {
    uint32_t committed = 0;  // the number of the open group
    std::vector<Copy> copies = {};
};

// A barrier that counts arrivals and bytes.
struct MbarrierState {
    unsigned expected, pending;  // arrivals
    int64_t bytes = 0;           // expected and not yet landed; below 0 while more has landed than was announced
    unsigned phase = 0;
    bool visible_to_engines = false;
    bool unseen_load = false;  // of the running phase or the last: nobody has waited for it
    std::vector<Copy> loads = {};
    Agent engine = 0;
    Agent initialiser = 0;
    Knowledge arriving = {}, completed = {};
};

}  // namespace cuda_on_cpu
