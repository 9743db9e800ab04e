// Atomic loads, stores and updates, and fences.
//
// All threads run on one thread of the operating system, so a plain access is atomic between two calls of the runtime.
#pragma once

#include "runtime_api.h"

namespace cuda_on_cpu {

template <typename T>
CUDA_ON_CPU_RAW T atomic_load(const T* address, Order order, Scope scope, Where where) {
    static_assert(sizeof(T) <= 16, "an atomic access has at most 16 bytes");
    before_atomic(address, sizeof(T), Access::load, order, scope, where);
    return *address;
}

template <typename T>
CUDA_ON_CPU_RAW void atomic_store(T* address, T value, Order order, Scope scope, Where where) {
    static_assert(sizeof(T) <= 16, "an atomic access has at most 16 bytes");
    before_atomic(address, sizeof(T), Access::store, order, scope, where);
    *address = value;
    made_progress();
}

template <typename T, typename Change>
CUDA_ON_CPU_RAW T atomic_update(T* address, Order order, Scope scope, Change change, Where where) {
    static_assert(sizeof(T) <= 16, "an atomic access has at most 16 bytes");
    before_atomic(address, sizeof(T), Access::update, order, scope, where);
    const T old = *address;
    const T changed = change(old);
    *address = changed;
    if (std::memcmp(&old, &changed, sizeof(T)) != 0) made_progress();
    return old;
}

template <typename T>
using Same = std::type_identity_t<T>;  // a parameter that takes no part in the deduction of T

}  // namespace cuda_on_cpu

// CUDA's own atomic functions are relaxed; the suffix says the scope.
#define CUDA_ON_CPU_ATOMIC(NAME, SCOPE, RESULT)                                                                \
    template <typename T>                                                                                      \
    T NAME(T* address, cuda_on_cpu::Same<T> value, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) { \
        return cuda_on_cpu::atomic_update(                                                                     \
            address, cuda_on_cpu::Order::relaxed, cuda_on_cpu::Scope::SCOPE,                                   \
            [value]([[maybe_unused]] T old) CUDA_ON_CPU_RAW -> T { return static_cast<T>(RESULT); }, where);   \
    }
#define CUDA_ON_CPU_ATOMICS(NAME, RESULT)          \
    CUDA_ON_CPU_ATOMIC(NAME, gpu, RESULT)          \
    CUDA_ON_CPU_ATOMIC(NAME##_system, gpu, RESULT) \
    CUDA_ON_CPU_ATOMIC(NAME##_block, block, RESULT)
CUDA_ON_CPU_ATOMICS(atomicAdd, old + value)
CUDA_ON_CPU_ATOMICS(atomicSub, old - value)
CUDA_ON_CPU_ATOMICS(atomicExch, value)
CUDA_ON_CPU_ATOMICS(atomicMin, value < old ? value : old)
CUDA_ON_CPU_ATOMICS(atomicMax, old < value ? value : old)
CUDA_ON_CPU_ATOMICS(atomicAnd, old& value)
CUDA_ON_CPU_ATOMICS(atomicOr, old | value)
CUDA_ON_CPU_ATOMICS(atomicXor, old ^ value)
CUDA_ON_CPU_ATOMICS(atomicInc, old >= value ? 0 : old + 1)
CUDA_ON_CPU_ATOMICS(atomicDec, old == 0 || old > value ? value : old - 1)
#undef CUDA_ON_CPU_ATOMICS
#undef CUDA_ON_CPU_ATOMIC

template <typename T>
T atomicCAS(T* address, cuda_on_cpu::Same<T> expected, cuda_on_cpu::Same<T> value,
            cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    return cuda_on_cpu::atomic_update(
        address, cuda_on_cpu::Order::relaxed, cuda_on_cpu::Scope::gpu,
        [expected, value](T old) CUDA_ON_CPU_RAW -> T { return old == expected ? value : old; }, where);
}

inline void __threadfence(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::fence(cuda_on_cpu::Scope::gpu, where);
}
inline void __threadfence_system(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::fence(cuda_on_cpu::Scope::gpu, where);
}
inline void __threadfence_block(cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::fence(cuda_on_cpu::Scope::block, where);
}
inline void __nanosleep(unsigned, cuda_on_cpu::Where where = cuda_on_cpu::Where::current()) {
    cuda_on_cpu::sleep(where);
}
