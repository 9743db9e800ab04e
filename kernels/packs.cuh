// COUNT neighbours at a time: as values, and in memory at any address.
//
// Along a line, elements lie one after the other or at some other step. A thread takes COUNT of them:
//     PACKED     one after the other, and the first at a multiple of what all take, up to 16 bytes
//     SHIFTED    one after the other, from any address
//     SECOND     every second one, from any address; 1 or 2 bytes each
//     REVERSED   one before the other, from any address
//     STRIDED    at any step
//     ONE        the same element for all
//     NUMBER     a number that is in no array
#pragma once

#include "runs.cuh"

enum Access { PACKED, SHIFTED, SECOND, REVERSED, STRIDED, ONE, NUMBER };

// Those of 8 and 16 bits are kept in words: taken as they are, compilers take a word apart and put it together.
template <typename T, int COUNT, bool WORDS = sizeof(T) < 4> struct Values : Pack<T, COUNT> {
    static constexpr bool IN_WORDS = false, IN_MEMORY = true;  // laid out as in memory

    __device__ T get(int i) const { return this->element[i]; }
    __device__ void set(int i, T value) { this->element[i] = value; }
};

template <typename T, int COUNT>
struct alignas(COUNT * sizeof(T) < 4 ? 4 : COUNT * sizeof(T) < 16 ? COUNT * sizeof(T) : 16) Values<T, COUNT, true> {
    static constexpr int OF_WORD = 4 / sizeof(T), BITS = 8 * sizeof(T);
    static constexpr bool IN_WORDS = true, IN_MEMORY = COUNT % OF_WORD == 0;
    static constexpr int WORDS = (COUNT + OF_WORD - 1) / OF_WORD;
    unsigned word[WORDS];

    __device__ T get(int i) const {
        return element_of<T>(word[i / OF_WORD] >> (i % OF_WORD * BITS) & ((1u << BITS) - 1));
    }
    __device__ void set(int i, T value) {  // in order
        const unsigned bits = bits_in_word(value) << (i % OF_WORD * BITS);
        word[i / OF_WORD] = i % OF_WORD == 0 ? bits : word[i / OF_WORD] | bits;
    }
};

template <int COUNT, typename T> __device__ Values<T, COUNT> filled_with(T number) {
    Values<T, COUNT> values;
#pragma unroll
    for (int i = 0; i < COUNT; i++) values.set(i, number);
    return values;
}

// Halves are rounded in pairs, which takes a third of the instructions.
template <typename To, typename From, int COUNT> __device__ Values<To, COUNT> values_of(const From (&value)[COUNT]) {
    Values<To, COUNT> values;
    if constexpr (Values<To, COUNT>::IN_WORDS && sizeof(To) == 2 && IsSame<From, float>::value) {
#pragma unroll
        for (int i = 0; i < values.WORDS; i++) {
            const From high = 2 * i + 1 < COUNT ? value[2 * i + 1] : 0;
            values.word[i] = pair_of(value[2 * i], high, static_cast<const To*>(nullptr));
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++) values.set(i, convert<To>(value[i]));
    }
    return values;
}

template <typename To, typename From, int COUNT>
__device__ Values<To, COUNT> converted(const Values<From, COUNT>& from) {
    if constexpr (IsSame<To, From>::value) {
        return from;
    } else {
        Values<To, COUNT> to;
#pragma unroll
        for (int i = 0; i < COUNT; i++) to.set(i, convert<To>(from.get(i)));
        return to;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// In memory.

// What an access reads beyond its elements, at most and on either side, in elements of its line: parts of words, and
// the last of the elements that are left out.
template <typename T> __device__ constexpr int margin_of(int access) {
    constexpr int SIZE = sizeof(T);
    return access == SHIFTED || access == SECOND || access == REVERSED ? (3 + SIZE - 1) / SIZE : 0;
}

template <typename T, int COUNT> __device__ Values<T, COUNT> load_second(const char* from) {
    const auto both = load_shifted<Values<T, 2 * COUNT>>(from);
    Values<T, COUNT> values;
#pragma unroll
    for (int i = 0; i < values.WORDS; i++) {
        values.word[i] = __byte_perm(both.word[2 * i], both.word[2 * i + 1], sizeof(T) == 1 ? 0x6420 : 0x5410);
    }
    return values;
}

// Words whose elements come the other way round.
template <typename T, int COUNT> __device__ Values<T, COUNT> reversed(const Values<T, COUNT>& values) {
    Values<T, COUNT> result;
    if constexpr (Values<T, COUNT>::IN_WORDS) {
#pragma unroll
        for (int i = 0; i < result.WORDS; i++) {
            result.word[i] = __byte_perm(values.word[result.WORDS - 1 - i], 0, sizeof(T) == 1 ? 0x0123 : 0x1032);
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++) result.set(i, values.get(COUNT - 1 - i));
    }
    return result;
}

// A line of elements, that of `from` the first.
template <typename T, int ACCESS, bool ALIGNED, typename Index, Eviction HOW = EVICT_NORMALLY> struct Line {
    const char* from;
    Index step;  // in bytes, where it is STRIDED
    T number;

    // From `first` on, the bytes of so many elements.
    template <int COUNT> __device__ static constexpr Index begin_of(Index first) {
        constexpr Index SIZE = sizeof(T);
        return ACCESS == REVERSED ? -(first + COUNT - 1) * SIZE : first * (ACCESS == SECOND ? 2 * SIZE : SIZE);
    }

    __device__ T one(Index i) const {
        if constexpr (ACCESS == NUMBER) return number;
        else if constexpr (ACCESS == ONE) return load_element<T, ALIGNED>(from);
        else if constexpr (ACCESS == STRIDED) return load_element<T, ALIGNED>(from + i * step);
        else return load_element<T, ALIGNED>(from + begin_of<1>(i));
    }

    template <int COUNT> __device__ Values<T, COUNT> whole(Index first) const {
        using Loaded = Values<T, COUNT>;
        constexpr bool IN_WORDS = Loaded::IN_MEMORY && sizeof(Loaded) >= 4;
        const char* const begin = from + begin_of<COUNT>(first);
        if constexpr (ACCESS == NUMBER || ACCESS == ONE) return filled_with<COUNT>(one(0));
        else if constexpr (ACCESS == PACKED && IN_WORDS) return load_items<HOW, Loaded>(begin);
        else if constexpr (ACCESS == SHIFTED && IN_WORDS) return load_shifted<Loaded>(begin);
        else if constexpr (ACCESS == SECOND && IN_WORDS) return load_second<T, COUNT>(begin);
        else if constexpr (ACCESS == REVERSED && IN_WORDS) return reversed(load_shifted<Loaded>(begin));
        else return part<COUNT>(first, first, first + COUNT);
    }

    // Of those elements that lie from number `begin` to before `end`; others are zeros, or what is given.
    template <int COUNT> __device__ Values<T, COUNT> part(Index first, Index begin, Index end, T other = T{}) const {
        if constexpr (ACCESS == NUMBER || ACCESS == ONE) {
            return filled_with<COUNT>(begin < end ? one(0) : other);
        } else {
            Values<T, COUNT> values;
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                values.set(i, begin <= first + i && first + i < end ? one(first + i) : other);
            }
            return values;
        }
    }

    // For where parts are rare. One of 16 bytes is so much code that NVRTC takes 1.4 s for a kernel that has a dozen of
    // them inlined, and 0.7 so.
    template <int COUNT>
    __device__ __noinline__ static Values<T, COUNT> part_apart(Line line, Index first, Index begin, Index end,
                                                               T other) {
        return line.template part<COUNT>(first, begin, end, other);
    }

    // The same, in one access if all are there, and what it reads beyond them.
    template <int COUNT, bool RARELY_PART = false>
    __device__ Values<T, COUNT> whole_or_part(Index first, Index begin, Index end, T other = T{}) const {
        constexpr Index MARGIN = margin_of<T>(ACCESS);
        if (begin + MARGIN <= first && first + COUNT + MARGIN <= end) return whole<COUNT>(first);
        if (first >= end) return filled_with<COUNT>(other);
        if constexpr (RARELY_PART && sizeof(T) == 1) return part_apart<COUNT>(*this, first, begin, end, other);
        else return part<COUNT>(first, begin, end, other);
    }

    __device__ Line after(Index bytes) const { return {from + bytes, step, number}; }
};

template <bool PACKED_LINE, typename T, int COUNT>
__device__ void store_whole(char* to, const Values<T, COUNT>& values) {
    if constexpr (PACKED_LINE && Values<T, COUNT>::IN_MEMORY) {
        *reinterpret_cast<Values<T, COUNT>*>(to) = values;
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++) reinterpret_cast<T*>(to)[i] = values.get(i);
    }
}

// Those that the line of `length` elements has.
template <typename T, int COUNT, typename Index>
__device__ void store_part(char* line, Index first, Index length, const Values<T, COUNT>& values) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (0 <= first + i && first + i < length) reinterpret_cast<T*>(line)[first + i] = values.get(i);
    }
}
