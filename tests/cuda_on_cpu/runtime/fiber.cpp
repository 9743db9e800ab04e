#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "runtime_api.h"

#ifndef __x86_64__
#error "the switch between fibers is written for x86-64 only"
#endif

// System V ABI: what a function must preserve is on the stack, and nothing else changes hands.
extern "C" void cuda_on_cpu_switch(void** save, void* load);
asm(R"(
.text
.globl cuda_on_cpu_switch
.hidden cuda_on_cpu_switch
.type cuda_on_cpu_switch,@function
cuda_on_cpu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size cuda_on_cpu_switch,.-cuda_on_cpu_switch
)");

namespace cuda_on_cpu {
namespace {

constexpr size_t PAGE = 4096;
constexpr size_t STACK = 64 * 1024;  // address space; pages that are not touched cost nothing
// A guard page per stack would split the address space into more pieces than Linux allows (65530), so a slab has one
// and each stack ends in words that must not change.
constexpr size_t STACKS_IN_SLAB = 64;
constexpr uint64_t UNTOUCHED = 0x57AC6E2D0BADC0DEull;
constexpr size_t MARK_WORDS = 8;

}  // namespace

bool Fiber::overran_its_stack() const {
    const auto* mark = reinterpret_cast<const uint64_t*>(lowest);
    for (size_t i = 0; i < MARK_WORDS; i++) {
        if (mark[i] != UNTOUCHED) return true;
    }
    return false;
}

void FiberPool::prepare(Fiber& fiber, size_t number) const {
    auto* mark = reinterpret_cast<uint64_t*>(fiber.lowest);
    for (size_t i = 0; i < MARK_WORDS; i++) mark[i] = UNTOUCHED;
    // Staggered: tops at equal offsets would all compete for the same sets of the cache.
    auto** top = reinterpret_cast<void**>(fiber.lowest + fiber.size - 64 - number * 7 % 61 * 64);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(entry_);
    for (int i = 0; i < 6; i++) *--top = nullptr;  // the registers that the switch restores
    fiber.stack_pointer = top;
}

void FiberPool::allocate_slab() {
    const size_t bytes = PAGE + STACKS_IN_SLAB * STACK;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("no memory for the stacks of more than %zu threads", fibers_.size());
    char* slab = static_cast<char*>(memory);
    mprotect(slab, PAGE, PROT_NONE);
    slabs_.push_back(slab);
    for (size_t i = 0; i < STACKS_IN_SLAB; i++) {
        fibers_.push_back({nullptr, slab + PAGE + i * STACK, STACK});
        prepare(fibers_.back(), fibers_.size());
        free_.push_back(&fibers_.back());
    }
}

Fiber* FiberPool::take() {
    if (free_.empty()) allocate_slab();
    Fiber* fiber = free_.back();
    free_.pop_back();
    return fiber;
}

void FiberPool::reclaim_all() {
    free_.clear();
    for (size_t i = 0; i < fibers_.size(); i++) {
        prepare(fibers_[i], i);
        free_.push_back(&fibers_[i]);
    }
}

bool FiberPool::is_guard(const void* address) const {
    const char* p = static_cast<const char*>(address);
    for (const char* slab : slabs_) {
        if (p >= slab && p < slab + PAGE) return true;
    }
    return false;
}

void switch_fiber(Fiber& from, Fiber& to) { cuda_on_cpu_switch(&from.stack_pointer, to.stack_pointer); }

}  // namespace cuda_on_cpu
