// Atomic accesses and other accesses through functions, fences and sleeping threads.
#include "checker.h"
#include "failure.h"
#include "scheduler.h"

namespace cuda_on_cpu {
namespace {

const char* name_of(Access access) {
    switch (access) {
        case Access::load:
            return "a polling load";
        case Access::store:
            return "a store";
        default:
            return "an atomic update";
    }
}

// A warp may wait for several words, and vote on whether all are there: no thread then loads one word twice in a row,
// and no other warp would ever have its turn. So every so often a load gives way whatever it loads.
constexpr uint64_t LOADS_IN_A_ROW = 64;
uint64_t loads;

}  // namespace

void before_atomic(const void* address, size_t size, Access access, Order order, Scope scope, Where where) {
    Thread* thread = running();
    thread->at = where;
    thread->doing = name_of(access);
    // Loading the same word again without having done anything else is a poll: nobody needs another turn less.
    if (access != Access::store && thread->polled == address) {
        poll(thread->doing, where);
    } else if (access == Access::load && ++loads % LOADS_IN_A_ROW == 0) {
        give_way(true);
    } else {
        maybe_give_way();
    }
    thread->at = where;
    thread->polled = access == Access::store ? nullptr : address;
    if (reinterpret_cast<uintptr_t>(address) % size) fail("misaligned atomic access of %zu bytes", size);
    if constexpr (CHECKING) {
        checker::touch_atomically(address, size, access, where);
        checker::pass_on(*thread, address, access, order, scope);
    }
}

void before_loose_read(const void* address, size_t size, size_t alignment, Where where) {
    running()->at = where;
    maybe_give_way();
    if constexpr (CHECKING) checker::touch_loosely(address, size, alignment, where);
}

void fence(Scope scope, Where where) {
    running()->at = where;
    maybe_give_way();
    if constexpr (CHECKING) checker::fence(*running(), scope);
}

void sleep(Where where) {
    Thread* thread = running();
    thread->polled = thread;
    poll("__nanosleep", where);
    thread->polled = nullptr;
}

}  // namespace cuda_on_cpu
