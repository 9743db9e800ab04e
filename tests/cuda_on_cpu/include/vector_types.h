// CUDA's vector types, in CUDA's sizes and alignments.
#pragma once

// Vectors of 2 and of 4 are as aligned as they are large, up to 16 bytes; those of 3 are plain structs.
#define CUDA_ON_CPU_VECTOR4(NAME, T, ALIGNMENT) \
    struct alignas(ALIGNMENT) NAME {            \
        T x, y, z, w;                           \
    };                                          \
    constexpr NAME make_##NAME(T x, T y, T z, T w) { return NAME{x, y, z, w}; }
#define CUDA_ON_CPU_VECTORS(NAME, T, ALIGNMENT2, ALIGNMENT4)                      \
    struct NAME##1 { T x; };                                                      \
    struct alignas(ALIGNMENT2) NAME##2 { T x, y; };                               \
    struct NAME##3 { T x, y, z; };                                                \
    constexpr NAME##1 make_##NAME##1(T x) { return NAME##1 {x}; }                 \
    constexpr NAME##2 make_##NAME##2(T x, T y) { return NAME##2 {x, y}; }         \
    constexpr NAME##3 make_##NAME##3(T x, T y, T z) { return NAME##3 {x, y, z}; } \
    CUDA_ON_CPU_VECTOR4(NAME##4, T, ALIGNMENT4)

CUDA_ON_CPU_VECTORS(char, signed char, 2, 4)
CUDA_ON_CPU_VECTORS(uchar, unsigned char, 2, 4)
CUDA_ON_CPU_VECTORS(short, short, 4, 8)
CUDA_ON_CPU_VECTORS(ushort, unsigned short, 4, 8)
CUDA_ON_CPU_VECTORS(int, int, 8, 16)
CUDA_ON_CPU_VECTORS(uint, unsigned, 8, 16)
CUDA_ON_CPU_VECTORS(long, long, 16, 16)
CUDA_ON_CPU_VECTORS(ulong, unsigned long, 16, 16)
CUDA_ON_CPU_VECTORS(longlong, long long, 16, 16)
CUDA_ON_CPU_VECTORS(ulonglong, unsigned long long, 16, 16)
CUDA_ON_CPU_VECTORS(float, float, 8, 16)
CUDA_ON_CPU_VECTORS(double, double, 16, 16)

// Since CUDA 13 the vectors of 32 bytes name their alignment, because some GPUs access 32 bytes at once.
CUDA_ON_CPU_VECTOR4(longlong4_16a, long long, 16)
CUDA_ON_CPU_VECTOR4(longlong4_32a, long long, 32)
CUDA_ON_CPU_VECTOR4(ulonglong4_16a, unsigned long long, 16)
CUDA_ON_CPU_VECTOR4(ulonglong4_32a, unsigned long long, 32)
CUDA_ON_CPU_VECTOR4(double4_16a, double, 16)
CUDA_ON_CPU_VECTOR4(double4_32a, double, 32)
#undef CUDA_ON_CPU_VECTORS
#undef CUDA_ON_CPU_VECTOR4

struct dim3 {
    unsigned x, y, z;

    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};
