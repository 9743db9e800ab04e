// What g++ calls in code that it compiles with -fsanitize=thread and -fsanitize=undefined.
//
// The compiler's own libraries are not linked: they know neither fibers nor CUDA's barriers.
#include "checker.h"
#include "failure.h"

#define CUDA_ON_CPU_HOOK extern "C" __attribute__((visibility("default"))) void

namespace {

using cuda_on_cpu::checker::Kind;

void access(const void* address, size_t size, Kind kind, bool aligned, const void* instruction) {
    if (cuda_on_cpu::current) cuda_on_cpu::checker::touch(address, size, kind, aligned, instruction);
}

[[noreturn]] void undefined(const char* what, const void* instruction) {
    cuda_on_cpu::fail("undefined behaviour: %s at %s", what, cuda_on_cpu::describe_code(instruction).c_str());
}

}  // namespace

#define CUDA_ON_CPU_ACCESS(NAME, SIZE, KIND, ALIGNED)                            \
    CUDA_ON_CPU_HOOK __tsan_##NAME(void* address) {                              \
        access(address, SIZE, Kind::KIND, ALIGNED, __builtin_return_address(0)); \
    }
#define CUDA_ON_CPU_ACCESSES(SIZE)                              \
    CUDA_ON_CPU_ACCESS(read##SIZE, SIZE, read, true)            \
    CUDA_ON_CPU_ACCESS(write##SIZE, SIZE, write, true)          \
    CUDA_ON_CPU_ACCESS(unaligned_read##SIZE, SIZE, read, false) \
    CUDA_ON_CPU_ACCESS(unaligned_write##SIZE, SIZE, write, false)
CUDA_ON_CPU_ACCESSES(1)
CUDA_ON_CPU_ACCESSES(2)
CUDA_ON_CPU_ACCESSES(4)
CUDA_ON_CPU_ACCESSES(8)
CUDA_ON_CPU_ACCESSES(16)

CUDA_ON_CPU_HOOK __tsan_read_range(void* address, size_t size) {
    access(address, size, Kind::read, false, __builtin_return_address(0));
}
CUDA_ON_CPU_HOOK __tsan_write_range(void* address, size_t size) {
    access(address, size, Kind::write, false, __builtin_return_address(0));
}
CUDA_ON_CPU_HOOK __tsan_init() {}

#define CUDA_ON_CPU_UNDEFINED(NAME, WHAT) \
    CUDA_ON_CPU_HOOK __ubsan_handle_##NAME(void*, void*, void*) { undefined(WHAT, __builtin_return_address(0)); }
CUDA_ON_CPU_UNDEFINED(out_of_bounds, "an index outside of the declared array")
CUDA_ON_CPU_UNDEFINED(type_mismatch_v1, "a misaligned pointer")
CUDA_ON_CPU_UNDEFINED(shift_out_of_bounds, "a shift by more bits than there are")
CUDA_ON_CPU_UNDEFINED(divrem_overflow, "an integer division by zero, or its overflow")
CUDA_ON_CPU_UNDEFINED(add_overflow, "signed overflow of an addition")
CUDA_ON_CPU_UNDEFINED(sub_overflow, "signed overflow of a subtraction")
CUDA_ON_CPU_UNDEFINED(mul_overflow, "signed overflow of a product")
CUDA_ON_CPU_UNDEFINED(negate_overflow, "signed overflow of a negation")
CUDA_ON_CPU_UNDEFINED(load_invalid_value, "a bool or enum with a value that it cannot have")
CUDA_ON_CPU_UNDEFINED(builtin_unreachable, "code that was declared unreachable")
CUDA_ON_CPU_UNDEFINED(pointer_overflow, "overflow of a pointer")
