// What half.h and bfloat16.h promise, one kernel per group of functions; test_cuda_on_cpu_numerics.py has the
// references. A kernel with several results writes them one after another, n elements each.
//
// Constants:
//     NUMBER      __half or __nv_bfloat16
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
struct Names;

template <>
struct Names<__half> {
    using Pair = __half2;
    __device__ static __half from_bits(unsigned short x) { return __ushort_as_half(x); }
    __device__ static unsigned short bits(__half x) { return __half_as_ushort(x); }
    __device__ static float to_float(__half x) { return __half2float(x); }
    __device__ static __half from_double(double x) { return __double2half(x); }
    __device__ static __half rn(float x) { return __float2half_rn(x); }
    __device__ static __half rz(float x) { return __float2half_rz(x); }
    __device__ static __half rd(float x) { return __float2half_rd(x); }
    __device__ static __half ru(float x) { return __float2half_ru(x); }
    __device__ static __half rn(long long x) { return __ll2half_rn(x); }
    __device__ static __half rz(long long x) { return __ll2half_rz(x); }
    __device__ static __half rd(long long x) { return __ll2half_rd(x); }
    __device__ static __half ru(long long x) { return __ll2half_ru(x); }
    __device__ static long long to_ll_rn(__half x) { return __half2ll_rn(x); }
    __device__ static int to_int_rd(__half x) { return __half2int_rd(x); }
    __device__ static unsigned to_uint_ru(__half x) { return __half2uint_ru(x); }
    __device__ static short to_short_rz(__half x) { return __half2short_rz(x); }
    __device__ static __half2 pair(__half x, __half y) { return __halves2half2(x, y); }
    __device__ static float2 to_floats(__half2 x) { return __half22float2(x); }
    __device__ static __half2 from_floats(float2 x) { return __float22half2_rn(x); }
};

template <>
struct Names<__nv_bfloat16> {
    using Pair = __nv_bfloat162;
    __device__ static __nv_bfloat16 from_bits(unsigned short x) { return __ushort_as_bfloat16(x); }
    __device__ static unsigned short bits(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }
    __device__ static float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
    __device__ static __nv_bfloat16 from_double(double x) { return __double2bfloat16(x); }
    __device__ static __nv_bfloat16 rn(float x) { return __float2bfloat16_rn(x); }
    __device__ static __nv_bfloat16 rz(float x) { return __float2bfloat16_rz(x); }
    __device__ static __nv_bfloat16 rd(float x) { return __float2bfloat16_rd(x); }
    __device__ static __nv_bfloat16 ru(float x) { return __float2bfloat16_ru(x); }
    __device__ static __nv_bfloat16 rn(long long x) { return __ll2bfloat16_rn(x); }
    __device__ static __nv_bfloat16 rz(long long x) { return __ll2bfloat16_rz(x); }
    __device__ static __nv_bfloat16 rd(long long x) { return __ll2bfloat16_rd(x); }
    __device__ static __nv_bfloat16 ru(long long x) { return __ll2bfloat16_ru(x); }
    __device__ static long long to_ll_rn(__nv_bfloat16 x) { return __bfloat162ll_rn(x); }
    __device__ static int to_int_rd(__nv_bfloat16 x) { return __bfloat162int_rd(x); }
    __device__ static unsigned to_uint_ru(__nv_bfloat16 x) { return __bfloat162uint_ru(x); }
    __device__ static short to_short_rz(__nv_bfloat16 x) { return __bfloat162short_rz(x); }
    __device__ static __nv_bfloat162 pair(__nv_bfloat16 x, __nv_bfloat16 y) { return __halves2bfloat162(x, y); }
    __device__ static float2 to_floats(__nv_bfloat162 x) { return __bfloat1622float2(x); }
    __device__ static __nv_bfloat162 from_floats(float2 x) { return __float22bfloat162_rn(x); }
};

using Number = NUMBER;
using N = Names<Number>;

static_assert(sizeof(Number) == 2 && alignof(Number) == 2, "one number");
static_assert(sizeof(N::Pair) == 4 && alignof(N::Pair) == 4, "two numbers");

__device__ inline int thread_number() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

extern "C" __global__ void to_float(const unsigned short* x, float* result, int n) {
    const int i = thread_number();
    if (i < n) result[i] = N::to_float(N::from_bits(x[i]));
}

extern "C" __global__ void from_float(const float* x, unsigned short* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    result[i] = N::bits(N::rn(x[i]));
    result[n + i] = N::bits(N::rz(x[i]));
    result[2 * n + i] = N::bits(N::rd(x[i]));
    result[3 * n + i] = N::bits(N::ru(x[i]));
}

extern "C" __global__ void from_double(const double* x, unsigned short* result, int n) {
    const int i = thread_number();
    if (i < n) result[i] = N::bits(N::from_double(x[i]));
}

extern "C" __global__ void from_integer(const long long* x, unsigned short* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    result[i] = N::bits(N::rn(x[i]));
    result[n + i] = N::bits(N::rz(x[i]));
    result[2 * n + i] = N::bits(N::rd(x[i]));
    result[3 * n + i] = N::bits(N::ru(x[i]));
}

extern "C" __global__ void to_integer(const unsigned short* x, long long* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const Number number = N::from_bits(x[i]);
    result[i] = N::to_ll_rn(number);
    result[n + i] = N::to_int_rd(number);
    result[2 * n + i] = N::to_uint_ru(number);
    result[3 * n + i] = N::to_short_rz(number);
}

extern "C" __global__ void arithmetic(const unsigned short* x, const unsigned short* y, unsigned short* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const Number a = N::from_bits(x[i]), b = N::from_bits(y[i]);
    result[i] = N::bits(__hadd(a, b));
    result[n + i] = N::bits(__hsub(a, b));
    result[2 * n + i] = N::bits(__hmul(a, b));
    result[3 * n + i] = N::bits(__hdiv(a, b));
    result[4 * n + i] = N::bits(__hneg(a));
    result[5 * n + i] = N::bits(__habs(a));
    result[6 * n + i] = N::bits(hsqrt(a));
}

extern "C" __global__ void operators(const unsigned short* x, const unsigned short* y, unsigned short* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const Number a = N::from_bits(x[i]), b = N::from_bits(y[i]);
    Number c = a;
    c += b;
    result[i] = N::bits(c);
    result[n + i] = N::bits(a - b);
    result[2 * n + i] = N::bits(a * b);
    result[3 * n + i] = N::bits(a / b);
    result[4 * n + i] = N::bits(-a);
}

extern "C" __global__ void extremes(const unsigned short* x, const unsigned short* y, unsigned short* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const Number a = N::from_bits(x[i]), b = N::from_bits(y[i]);
    result[i] = N::bits(__hmin(a, b));
    result[n + i] = N::bits(__hmax(a, b));
    result[2 * n + i] = N::bits(__hmin_nan(a, b));
    result[3 * n + i] = N::bits(__hmax_nan(a, b));
    result[4 * n + i] = N::bits(__hadd_sat(a, b));
}

extern "C" __global__ void multiply_add(const unsigned short* x, const unsigned short* y, const unsigned short* z,
                                        unsigned short* result, int n) {
    const int i = thread_number();
    if (i < n) result[i] = N::bits(__hfma(N::from_bits(x[i]), N::from_bits(y[i]), N::from_bits(z[i])));
}

extern "C" __global__ void compare(const unsigned short* x, const unsigned short* y, unsigned char* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const Number a = N::from_bits(x[i]), b = N::from_bits(y[i]);
    const bool facts[] = {a == b,       a != b,       a<b, a <= b, a> b,    a >= b,           __heq(a, b),
                          __hne(a, b),  __hlt(a, b),  __hle(a, b),          __hgt(a, b),      __hge(a, b),
                          __hequ(a, b), __hneu(a, b), __hltu(a, b),         __hleu(a, b),     __hgtu(a, b),
                          __hgeu(a, b), __hisnan(a),  static_cast<bool>(a), __hisinf(a) == 1, __hisinf(a) == -1};
    for (int fact = 0; fact < 22; fact++) result[fact * n + i] = facts[fact];
}

// Pairs of (x, y) and (y, x): the first element of every result is that of the scalar function, so is the second.
extern "C" __global__ void pairs(const unsigned short* x, const unsigned short* y, unsigned short* result, int n) {
    const int i = thread_number();
    if (i >= n) return;
    const Number a = N::from_bits(x[i]), b = N::from_bits(y[i]);
    const N::Pair p = N::pair(a, b), q = N::pair(b, a);
    const N::Pair results[] = {__hadd2(p, q),
                               __hsub2(p, q),
                               __hmul2(p, q),
                               __h2div(p, q),
                               __hneg2(p),
                               p + q,
                               p - q,
                               p * q,
                               p / q,
                               -p,
                               __hmin2(p, q),
                               __hmax2(p, q),
                               __hfma2(p, q, p),
                               N::from_floats(N::to_floats(p)),
                               __lowhigh2highlow(p)};
    for (int j = 0; j < 15; j++) {
        result[2 * j * n + i] = N::bits(results[j].x);
        result[(2 * j + 1) * n + i] = N::bits(results[j].y);
    }
}
