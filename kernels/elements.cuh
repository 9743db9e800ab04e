// Element types, and the conversions between them.
//
// The halves have no arithmetic of their own: they are widened to float, computed, and rounded once when stored.
// Nothing here needs a header of the CUDA toolkit, so NVRTC alone compiles every kernel.
#pragma once

#include "intrinsics.cuh"

struct float16 {
    unsigned short bits;
};

struct bfloat16 {
    unsigned short bits;
};

template <typename Real>
struct alignas(2 * sizeof(Real)) complex {
    Real real, imag;
};

// The type in which values of type T are computed and carried.
template <typename T> struct ComputedIn { using type = T; };
template <> struct ComputedIn<float16> { using type = float; };
template <> struct ComputedIn<bfloat16> { using type = float; };

template <typename A, typename B> struct IsSame { static constexpr bool value = false; };
template <typename A> struct IsSame<A, A> { static constexpr bool value = true; };

template <typename T> struct IsInteger { static constexpr bool value = static_cast<T>(0.5f) == static_cast<T>(0); };
template <> struct IsInteger<bool> { static constexpr bool value = true; };
template <> struct IsInteger<float16> { static constexpr bool value = false; };
template <> struct IsInteger<bfloat16> { static constexpr bool value = false; };
template <typename Real> struct IsInteger<complex<Real>> { static constexpr bool value = false; };

template <bool, typename A, typename B> struct Select { using type = A; };
template <typename A, typename B> struct Select<false, A, B> { using type = B; };

template <typename T> struct IsComplex { static constexpr bool value = false; };
template <typename Real> struct IsComplex<complex<Real>> { static constexpr bool value = true; };

template <typename T> __device__ T widen(T x) { return x; }
__device__ inline float widen(float16 x) { return float_from_half(x.bits); }
__device__ inline float widen(bfloat16 x) { return bits_as_float(static_cast<unsigned>(x.bits) << 16); }

// Converts a widened value; complex to real drops the imaginary part, anything to bool asks whether it differs from 0.
template <typename To>
struct Convert {
    template <typename From> __device__ static To from(From x) {
        if constexpr (IsComplex<To>::value && IsComplex<From>::value) {
            return {static_cast<decltype(To::real)>(x.real), static_cast<decltype(To::real)>(x.imag)};
        } else if constexpr (IsComplex<To>::value) {
            return {static_cast<decltype(To::real)>(x), 0};
        } else if constexpr (IsComplex<From>::value && IsSame<To, bool>::value) {
            return x.real != 0 || x.imag != 0;
        } else if constexpr (IsComplex<From>::value) {
            return static_cast<To>(x.real);
        } else {
            return static_cast<To>(x);
        }
    }
};

template <>
struct Convert<float16> {
    template <typename From> __device__ static float16 from(From x) {
        if constexpr (IsComplex<From>::value) {
            return from(x.real);
        } else if constexpr (IsSame<From, double>::value) {
            return {half_from_double(x)};
        } else {
            return {half_from_float(static_cast<float>(x))};
        }
    }
};

template <>
struct Convert<bfloat16> {
    template <typename From> __device__ static bfloat16 from(From x) {
        if constexpr (IsComplex<From>::value) {
            return from(x.real);
        } else {
            return {bfloat16_from_float(static_cast<float>(x))};
        }
    }
};

template <typename To, typename From> __device__ To convert(From x) {
    if constexpr (IsSame<To, From>::value) {
        return x;
    } else {
        return Convert<To>::from(widen(x));
    }
}

// An element at any address. ALIGNED says that the address is a multiple of the element's size; where a view is shifted
// by single bytes it is not, and the element is moved byte by byte.
template <typename T, bool ALIGNED> __device__ T load_element(const char* address) {
    if constexpr (ALIGNED) {
        return *reinterpret_cast<const T*>(address);
    } else {
        T element;
        for (int i = 0; i < static_cast<int>(sizeof(T)); i++) reinterpret_cast<char*>(&element)[i] = address[i];
        return element;
    }
}

template <bool ALIGNED, typename T> __device__ void store_element(char* address, T element) {
    if constexpr (ALIGNED) {
        *reinterpret_cast<T*>(address) = element;
    } else {
        for (int i = 0; i < static_cast<int>(sizeof(T)); i++) address[i] = reinterpret_cast<const char*>(&element)[i];
    }
}

// Elements of 8 and 16 bits in words.
template <typename T> __device__ T element_of(unsigned bits) {
    if constexpr (IsSame<T, float16>::value || IsSame<T, bfloat16>::value) return {static_cast<unsigned short>(bits)};
    else return static_cast<T>(bits);
}
__device__ inline unsigned bits_in_word(float16 x) { return x.bits; }
__device__ inline unsigned bits_in_word(bfloat16 x) { return x.bits; }
__device__ inline unsigned bits_in_word(short x) { return static_cast<unsigned short>(x); }
__device__ inline unsigned bits_in_word(unsigned short x) { return x; }
template <typename Byte> __device__ unsigned bits_in_word(Byte x) { return static_cast<unsigned char>(x); }

// COUNT neighbouring elements that are moved 16 bytes at a time, or all at once where they are fewer.
template <typename T, int COUNT> struct alignas(sizeof(T) * COUNT < 16 ? sizeof(T) * COUNT : 16) Pack {
    T element[COUNT];
};

template <typename Items, typename Words> union InWords {
    Words words;
    Items items;
    __device__ InWords() {}
};

// Items that one of two branches has loaded, in whole words. Where they are not, compilers hold each half in a register
// of its own from where the branches meet.
template <typename Items> struct Held {
    static constexpr int SIZE = static_cast<int>(sizeof(Items)), COUNT = SIZE % 4 == 0 ? SIZE / 4 : 1;
    struct alignas(alignof(Items)) InWhole {
        unsigned word[COUNT];
    };
    using Words = typename Select<SIZE % 4 == 0, InWhole, Items>::type;

    Words words;

    Held() = default;
    __device__ Held(const Items& items) {
        InWords<Items, Words> given;
        given.items = items;
        words = given.words;
    }
    __device__ operator Items() const {
        InWords<Items, Words> taken;
        taken.words = words;
        return taken.items;
    }
};

// Hints are given for whole words, 8 or 16 bytes of them.
template <Eviction HOW, typename Items> __device__ Items load_items(const char* from) {
    if constexpr (HOW == EVICT_FIRST && sizeof(Items) == sizeof(uint4)) {
        InWords<Items, uint4> loaded;
        loaded.words = __ldcs(reinterpret_cast<const uint4*>(from));
        return loaded.items;
    } else if constexpr (HOW == EVICT_LAST && sizeof(Items) == sizeof(uint4)) {
        InWords<Items, uint4> loaded;
        loaded.words = load_evicted_last(reinterpret_cast<const uint4*>(from));
        return loaded.items;
    } else if constexpr (HOW == EVICT_LAST && sizeof(Items) == sizeof(uint2)) {
        InWords<Items, uint2> loaded;
        loaded.words = load_evicted_last(reinterpret_cast<const uint2*>(from));
        return loaded.items;
    } else {
        return *reinterpret_cast<const Items*>(from);
    }
}

__device__ inline unsigned pair_of(float low, float high, const float16*) { return halves_from_floats(low, high); }
__device__ inline unsigned pair_of(float low, float high, const bfloat16*) { return bfloat16s_from_floats(low, high); }

// Halves are rounded in pairs, which takes a third of the instructions.
template <typename To, typename From, int COUNT> __device__ Pack<To, COUNT> pack_of(const From (&value)[COUNT]) {
    if constexpr (IsSame<From, float>::value && !IsSame<To, typename ComputedIn<To>::type>::value && COUNT % 2 == 0) {
        union Pairs {
            Pack<To, COUNT> pack;
            unsigned word[COUNT / 2];
            __device__ Pairs() {}
        } pairs;
#pragma unroll
        for (int i = 0; i < COUNT / 2; i++) {
            pairs.word[i] = pair_of(value[2 * i], value[2 * i + 1], static_cast<const To*>(nullptr));
        }
        return pairs.pack;
    } else {
        Pack<To, COUNT> pack;
#pragma unroll
        for (int i = 0; i < COUNT; i++) pack.element[i] = convert<To>(value[i]);
        return pack;
    }
}

__device__ inline void widen_pair(unsigned word, float& low, float& high, const float16*) {
    low = float_from_low_half(word);
    high = float_from_high_half(word);
}
__device__ inline void widen_pair(unsigned word, float& low, float& high, const bfloat16*) {
    low = bits_as_float(word << 16);
    high = bits_as_float(word & 0xffff0000u);
}

// The elements of a pack, as the type that they are computed in or another. ANEW: halves are not kept widened since
// they were widened before, which would take twice the registers.
template <bool ANEW = false, typename To, typename T, int COUNT>
__device__ void unpack(const Pack<T, COUNT>& pack, To (&value)[COUNT]) {
    if constexpr (!IsSame<T, typename ComputedIn<T>::type>::value && COUNT % 2 == 0) {
        union Pairs {
            Pack<T, COUNT> pack;
            unsigned word[COUNT / 2];
            __device__ Pairs() {}
        } pairs;
        pairs.pack = pack;
#pragma unroll
        for (int i = 0; i < COUNT / 2; i++) {
            float low, high;
            widen_pair(ANEW ? hidden(pairs.word[i]) : pairs.word[i], low, high, static_cast<const T*>(nullptr));
            value[2 * i] = low;
            value[2 * i + 1] = high;
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++) value[i] = widen(convert<To>(pack.element[i]));
    }
}
