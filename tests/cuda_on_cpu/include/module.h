// Included after a kernel file: what makes the compiled file a module that the runtime can launch from.
#pragma once

#include "runtime_api.h"

// The variables in shared memory lie one behind the other in the image of thread-local storage. Between them the
// runtime leaves gaps, so that running over the end of one does not hit the next: entry k is where offset k of the
// image went.
extern "C" __attribute__((visibility("default"))) const uint32_t* cuda_on_cpu_shared_places;
const uint32_t* cuda_on_cpu_shared_places;

// Called by the code that the compiler emits for the address of a thread-local variable.
struct ThreadLocalIndex {
    unsigned long module, offset;
};
extern "C" __attribute__((visibility("hidden"))) CUDA_ON_CPU_RAW void* __tls_get_addr(ThreadLocalIndex* index) {
    return cuda_on_cpu::current->shared + cuda_on_cpu_shared_places[index->offset];
}

namespace cuda_on_cpu {

template <auto KERNEL>
struct Export;

template <typename... Parameters, void (*KERNEL)(Parameters...)>
struct Export<KERNEL> {
    template <size_t... I>
    CUDA_ON_CPU_RAW static void unpack(void** arguments, std::index_sequence<I...>) {
        KERNEL(*static_cast<std::remove_cv_t<Parameters>*>(arguments[I])...);
    }
    CUDA_ON_CPU_RAW static void call(void** arguments) { unpack(arguments, std::index_sequence_for<Parameters...>{}); }

    template <typename T>
    static constexpr char KIND = std::is_pointer_v<T>          ? 'p'
                                 : std::is_integral_v<T>       ? 'i'
                                 : std::is_floating_point_v<T> ? 'f'
                                                               : 'o';
    // One more than there are: an array has no zero size.
    static constexpr Parameter PARAMETERS[] = {{sizeof(Parameters), KIND<Parameters>}..., {0, 'o'}};
    static constexpr uint32_t COUNT = sizeof...(Parameters);
};

}  // namespace cuda_on_cpu

// CLUSTER: the sizes in parentheses that __cluster_dims__ gives, or ().
#define CUDA_ON_CPU_EXPORT(NUMBER, CLUSTER, ...)                                                             \
    extern "C" __attribute__((visibility("default"))) const cuda_on_cpu::Kernel cuda_on_cpu_kernel_##NUMBER; \
    const cuda_on_cpu::Kernel cuda_on_cpu_kernel_##NUMBER{                                                   \
        cuda_on_cpu::Export<&__VA_ARGS__>::call, cuda_on_cpu::Export<&__VA_ARGS__>::PARAMETERS,              \
        cuda_on_cpu::Export<&__VA_ARGS__>::COUNT, cuda_on_cpu::ClusterSize CLUSTER};

// An `extern __shared__ T NAME[];` has no size and no definition: NAME becomes a label on a place in the image that
// stands for the block's dynamic shared memory.
#define CUDA_ON_CPU_DYNAMIC_SHARED(NAME)               \
    __asm(                                             \
        ".section .tbss.cuda_on_cpu,\"awT\",@nobits\n" \
        ".globl " #NAME "\n.hidden " #NAME             \
        "\n"                                           \
        ".type " #NAME                                 \
        ",@object\n"                                   \
        ".set " #NAME ", cuda_on_cpu_dynamic\n.text\n");
__asm(
    ".section .tbss.cuda_on_cpu,\"awT\",@nobits\n"
    ".balign 16\n"
    ".type cuda_on_cpu_dynamic,@object\n"
    "cuda_on_cpu_dynamic:\n.zero 16\n"
    ".size cuda_on_cpu_dynamic,16\n.text\n");
