// Fibers: the stacks on which the threads of a kernel run, and the switch from one to another.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace cuda_on_cpu {

struct Fiber {
    void* stack_pointer = nullptr;  // where it left off
    char* lowest = nullptr;
    size_t size = 0;

    bool holds(const void* address) const {
        const char* p = static_cast<const char*>(address);
        return p >= lowest && p < lowest + size;
    }
    bool overran_its_stack() const;
};

// Fibers are kept from launch to launch: a pool for all kernels, so that their number has one bound.
class FiberPool {
  public:
    explicit FiberPool(void (*entry)()) : entry_(entry) {}
    Fiber* take();
    void give_back(Fiber* fiber) { free_.push_back(fiber); }
    // After a launch that was broken off: whatever still waited on the stacks is forgotten.
    void reclaim_all();
    // A forbidden page below the stacks of a slab.
    bool is_guard(const void* address) const;

  private:
    void allocate_slab();
    void prepare(Fiber& fiber, size_t number) const;

    void (*entry_)();
    std::deque<Fiber> fibers_;
    std::vector<Fiber*> free_;
    std::vector<char*> slabs_;
};

// Goes on where `to` left off; returns when something switches back to `from`.
void switch_fiber(Fiber& from, Fiber& to);

}  // namespace cuda_on_cpu
