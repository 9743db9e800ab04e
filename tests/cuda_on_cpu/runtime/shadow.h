// What is remembered of each byte that a launch may touch.
//
// A byte keeps its last plain write, and the reads and atomic accesses since. Those by lanes of one warp at one clock
// share an entry, so that a block that reads the same word together costs an entry for each warp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checker.h"

namespace cuda_on_cpu::checker {

// Where in the kernel: an offset in its code, or a site that was passed as file and line.
class Place {
  public:
    static Place of_code(const void* instruction);
    static Place of_site(Where where);
    std::string describe() const;

  private:
    static constexpr uint32_t SITE = 1u << 31;
    uint32_t bits_ = 0;
};

struct Write {
    Agent agent_plus_1;  // 0: none
    Clock clock;
    Place place;
};

// What an access does, as far as it matters for who may come next.
struct Manner {
    bool writes : 1, atomic : 1, reads : 1;
    bool operator==(const Manner&) const = default;
};

struct Accesses {
    uint32_t warp_plus_1;  // 0: none
    uint32_t lanes;
    Clock clock;
    Place place;
    Manner manner;
};

struct Cell {
    Write write;
    Accesses since;
    uint32_t more;  // number of a list of further accesses, or 0
};

// Neighbouring bytes that may be touched together: an array, or a variable in shared memory.
struct Region {
    char* first;
    size_t size;
    const char* name;
    uint8_t* written;    // of each byte, from earlier launches; null where every byte has a value
    const Block* owner;  // of shared memory
    Cell* cells;

    bool holds(const char* address) const { return address >= first && address < first + size; }
};

void open_regions();
void close_regions();
void reset_shared(Block& block);
// The region that `size` bytes at `address` lie in; fails if there is none. Null for what needs no check.
Region* find_region(const Thread& thread, char* address, size_t size, size_t alignment, const char* doing, Place place);

}  // namespace cuda_on_cpu::checker
