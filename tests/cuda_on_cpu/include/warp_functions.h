// Barriers of a block, and what the lanes of a warp do together.
#pragma once

#include "runtime_api.h"

#define threadIdx (cuda_on_cpu::thread_index())
#define blockIdx (cuda_on_cpu::block_index())
#define blockDim (cuda_on_cpu::block_size())
#define gridDim (cuda_on_cpu::grid_size())
#define warpSize 32

namespace cuda_on_cpu {

template <typename T>
uint64_t to_word(T value) {
    static_assert(sizeof(T) <= 8, "a warp exchanges values of at most 8 bytes");
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    return word;
}

template <typename T>
T from_word(uint64_t word) {
    T value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

template <typename T>
T shuffle(unsigned mask, T value, int source, Where where) {
    return from_word<T>(warp_operation(WarpOperation::shuffle, mask, to_word(value), source, where));
}

// The lanes of a shuffle's sub-warp of `width` lanes.
struct SubWarp {
    int lane, first, last;
    explicit SubWarp(int width)
        : lane(static_cast<int>(lane_of_thread())), first(lane & ~(width - 1)), last(first + width - 1) {}
    int inside(int source) const { return source < first || source > last ? lane : source; }
};

}  // namespace cuda_on_cpu

using cuda_on_cpu::Where;

inline void __syncthreads(Where where = Where::current()) { cuda_on_cpu::synchronize_block(false, where); }
inline int __syncthreads_count(int vote, Where where = Where::current()) {
    return cuda_on_cpu::synchronize_block(vote != 0, where).count;
}
inline int __syncthreads_or(int vote, Where where = Where::current()) {
    return cuda_on_cpu::synchronize_block(vote != 0, where).any;
}
inline int __syncthreads_and(int vote, Where where = Where::current()) {
    return cuda_on_cpu::synchronize_block(vote != 0, where).all;
}

inline void __syncwarp(unsigned mask = ~0u, Where where = Where::current()) {
    cuda_on_cpu::warp_operation(cuda_on_cpu::WarpOperation::sync, mask, 0, 0, where);
}
inline unsigned __activemask() { return cuda_on_cpu::active_lanes(); }

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, Where where = Where::current()) {
    const cuda_on_cpu::SubWarp lanes(width);
    return cuda_on_cpu::shuffle(mask, value, lanes.first | (source & (width - 1)), where);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, Where where = Where::current()) {
    const cuda_on_cpu::SubWarp lanes(width);
    return cuda_on_cpu::shuffle(mask, value, lanes.inside(lanes.lane - static_cast<int>(delta)), where);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, Where where = Where::current()) {
    const cuda_on_cpu::SubWarp lanes(width);
    return cuda_on_cpu::shuffle(mask, value, lanes.inside(lanes.lane + static_cast<int>(delta)), where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, Where where = Where::current()) {
    const cuda_on_cpu::SubWarp lanes(width);
    const int source = lanes.lane ^ bits;
    return cuda_on_cpu::shuffle(mask, value, source > lanes.last ? lanes.lane : source, where);
}

inline unsigned __ballot_sync(unsigned mask, int vote, Where where = Where::current()) {
    using enum cuda_on_cpu::WarpOperation;
    return static_cast<unsigned>(cuda_on_cpu::warp_operation(ballot, mask, vote != 0, 0, where));
}
inline int __any_sync(unsigned mask, int vote, Where where = Where::current()) {
    using enum cuda_on_cpu::WarpOperation;
    return cuda_on_cpu::warp_operation(any, mask, vote != 0, 0, where) != 0;
}
inline int __all_sync(unsigned mask, int vote, Where where = Where::current()) {
    using enum cuda_on_cpu::WarpOperation;
    return cuda_on_cpu::warp_operation(all, mask, vote != 0, 0, where) != 0;
}
template <typename T>
unsigned __match_any_sync(unsigned mask, T value, Where where = Where::current()) {
    using enum cuda_on_cpu::WarpOperation;
    return static_cast<unsigned>(cuda_on_cpu::warp_operation(match, mask, cuda_on_cpu::to_word(value), 0, where));
}

#define CUDA_ON_CPU_REDUCE(NAME, OF_UNSIGNED, OF_SIGNED)                                                               \
    inline unsigned NAME(unsigned mask, unsigned value, Where where = Where::current()) {                              \
        using enum cuda_on_cpu::WarpOperation;                                                                         \
        return static_cast<unsigned>(cuda_on_cpu::warp_operation(OF_UNSIGNED, mask, value, 0, where));                 \
    }                                                                                                                  \
    inline int NAME(unsigned mask, int value, Where where = Where::current()) {                                        \
        using enum cuda_on_cpu::WarpOperation;                                                                         \
        return static_cast<int>(cuda_on_cpu::warp_operation(OF_SIGNED, mask, static_cast<unsigned>(value), 0, where)); \
    }
CUDA_ON_CPU_REDUCE(__reduce_add_sync, add, add)
CUDA_ON_CPU_REDUCE(__reduce_min_sync, min_unsigned, min_signed)
CUDA_ON_CPU_REDUCE(__reduce_max_sync, max_unsigned, max_signed)
CUDA_ON_CPU_REDUCE(__reduce_and_sync, bit_and, bit_and)
CUDA_ON_CPU_REDUCE(__reduce_or_sync, bit_or, bit_or)
CUDA_ON_CPU_REDUCE(__reduce_xor_sync, bit_xor, bit_xor)
#undef CUDA_ON_CPU_REDUCE
