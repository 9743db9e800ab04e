// What math_functions.h, numeric_intrinsics.h and vector_types.h promise; test_cuda_on_cpu_numerics.py has the
// references. A kernel with several results writes them one after another, n elements each.
#include "../../../kernels/intrinsics.cuh"

#define CHECK_VECTOR(TYPE, SIZE, ALIGNMENT) static_assert(sizeof(TYPE) == SIZE && alignof(TYPE) == ALIGNMENT, #TYPE);
#define CHECK_VECTORS(NAME, SIZE, ALIGNMENT2, ALIGNMENT4) \
    CHECK_VECTOR(NAME##1, SIZE, SIZE)                     \
    CHECK_VECTOR(NAME##2, 2 * SIZE, ALIGNMENT2)           \
    CHECK_VECTOR(NAME##3, 3 * SIZE, SIZE)                 \
    CHECK_VECTOR(NAME##4, 4 * SIZE, ALIGNMENT4)
CHECK_VECTORS(char, 1, 2, 4)
CHECK_VECTORS(uchar, 1, 2, 4)
CHECK_VECTORS(short, 2, 4, 8)
CHECK_VECTORS(ushort, 2, 4, 8)
CHECK_VECTORS(int, 4, 8, 16)
CHECK_VECTORS(uint, 4, 8, 16)
CHECK_VECTORS(long, 8, 16, 16)
CHECK_VECTORS(ulong, 8, 16, 16)
CHECK_VECTORS(longlong, 8, 16, 16)
CHECK_VECTORS(ulonglong, 8, 16, 16)
CHECK_VECTORS(float, 4, 8, 16)
CHECK_VECTORS(double, 8, 16, 16)
static_assert(sizeof(dim3) == 12 && alignof(dim3) == 4, "dim3");

__device__ inline int thread_number() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

// Roundings in the order rn, rz, rd, ru.
#define FOUR(FUNCTION, x) FUNCTION##_rn(x), FUNCTION##_rz(x), FUNCTION##_rd(x), FUNCTION##_ru(x)

// Unsigned results of 64 bits are written as their bits.
extern "C" __global__ void float_to_integers(const float* x, long long* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const int ints[] = {FOUR(__float2int, x[i])};
    const unsigned uints[] = {FOUR(__float2uint, x[i])};
    const long long lls[] = {FOUR(__float2ll, x[i])};
    const unsigned long long ulls[] = {FOUR(__float2ull, x[i])};
    for (int j = 0; j < 4; j++) {
        result[j * n + i] = ints[j];
        result[(4 + j) * n + i] = uints[j];
        result[(8 + j) * n + i] = lls[j];
        result[(12 + j) * n + i] = static_cast<long long>(ulls[j]);
    }
}

extern "C" __global__ void double_to_integers(const double* x, long long* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const int ints[] = {FOUR(__double2int, x[i])};
    const unsigned uints[] = {FOUR(__double2uint, x[i])};
    const long long lls[] = {FOUR(__double2ll, x[i])};
    const unsigned long long ulls[] = {FOUR(__double2ull, x[i])};
    for (int j = 0; j < 4; j++) {
        result[j * n + i] = ints[j];
        result[(4 + j) * n + i] = uints[j];
        result[(8 + j) * n + i] = lls[j];
        result[(12 + j) * n + i] = static_cast<long long>(ulls[j]);
    }
}

extern "C" __global__ void integers_to_float(const long long* x, float* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const float results[] = {FOUR(__int2float, static_cast<int>(x[i])), FOUR(__uint2float, static_cast<unsigned>(x[i])),
                             FOUR(__ll2float, x[i]), FOUR(__ull2float, static_cast<unsigned long long>(x[i]))};
    for (int j = 0; j < 16; j++) result[j * n + i] = results[j];
}

extern "C" __global__ void integers_to_double(const long long* x, double* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const double results[] = {FOUR(__ll2double, x[i]), FOUR(__ull2double, static_cast<unsigned long long>(x[i]))};
    for (int j = 0; j < 8; j++) result[j * n + i] = results[j];
}

extern "C" __global__ void double_to_float(const double* x, float* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const float results[] = {FOUR(__double2float, x[i])};
    for (int j = 0; j < 4; j++) result[j * n + i] = results[j];
}

extern "C" __global__ void bits_of_32(const unsigned* x, const unsigned* y, unsigned* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const unsigned a = x[i], b = y[i];
    const int s = static_cast<int>(a), t = static_cast<int>(b);
    const unsigned results[] = {static_cast<unsigned>(__popc(a)),
                                static_cast<unsigned>(__clz(s)),
                                static_cast<unsigned>(__ffs(s)),
                                __brev(a),
                                __umulhi(a, b),
                                static_cast<unsigned>(__mulhi(s, t)),
                                __byte_perm(a, b, 0x3715),
                                __funnelshift_l(a, b, b),
                                __funnelshift_r(a, b, b),
                                __funnelshift_lc(a, b, b & 63),
                                __funnelshift_rc(a, b, b & 63),
                                min(a, b),
                                max(a, b),
                                static_cast<unsigned>(min(s, t)),
                                static_cast<unsigned>(max(s, t)),
                                min(s, b),
                                max(a, t),
                                __float_as_uint(__uint_as_float(a)),
                                static_cast<unsigned>(__float_as_int(__int_as_float(s)))};
    for (int j = 0; j < 19; j++) result[j * n + i] = results[j];
}

extern "C" __global__ void bits_of_64(const unsigned long long* x, const unsigned long long* y,
                                      unsigned long long* result, int n) {
    using Unsigned = unsigned long long;
    const int i = thread_number();
    if (i >= n) return;
    const Unsigned a = x[i], b = y[i];
    const long long s = static_cast<long long>(a), t = static_cast<long long>(b);
    const double d = __longlong_as_double(s);
    const Unsigned results[] = {
        static_cast<Unsigned>(__popcll(a)),
        static_cast<Unsigned>(__clzll(s)),
        static_cast<Unsigned>(__ffsll(s)),
        __brevll(a),
        __umul64hi(a, b),
        static_cast<Unsigned>(__mul64hi(s, t)),
        min(a, b),
        max(a, b),
        static_cast<Unsigned>(min(s, t)),
        static_cast<Unsigned>(max(s, t)),
        min(s, b),
        max(a, t),
        static_cast<Unsigned>(__double_as_longlong(__hiloint2double(__double2hiint(d), __double2loint(d))))};
    for (int j = 0; j < 13; j++) result[j * n + i] = results[j];
}

extern "C" __global__ void min_max(const float* x, const float* y, float* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    result[i] = min(x[i], y[i]);
    result[n + i] = max(x[i], y[i]);
    result[2 * n + i] = __saturatef(x[i]);
}

extern "C" __global__ void rounded_floats(const float* x, const float* y, const float* z, float* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const float results[] = {__fadd_rn(x[i], y[i]),      __fsub_rn(x[i], y[i]), __fmul_rn(x[i], y[i]),
                             __fdiv_rn(x[i], y[i]),      __frcp_rn(x[i]),       __fsqrt_rn(x[i]),
                             __fmaf_rn(x[i], y[i], z[i])};
    for (int j = 0; j < 7; j++) result[j * n + i] = results[j];
}

// The bytes 0..n-1 as vectors, by way of the loads and stores with cache hints.
extern "C" __global__ void copy_vectors(const uint4* x, uint4* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    uint4 v = __ldg(x + i);
    v.x = __ldcs(&x[i].x);
    v.w = __ldcg(&x[i].w);
    __stcs(result + i, make_uint4(v.x, v.y, v.z, v.w));
    __stcg(result + n + i, v);
}

// The conversions of kernels/intrinsics.cuh.
extern "C" __global__ void halves_from_reals(const float* x, const double* y, unsigned short* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    result[i] = half_from_float(x[i]);
    result[n + i] = half_from_double(y[i]);
}

extern "C" __global__ void floats_from_bits(const unsigned short* x, float* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    result[i] = float_from_half(x[i]);
    result[n + i] = bits_as_float(float_as_bits(result[i]));
}
