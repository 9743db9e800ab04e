// The remainder of a division truncated towards zero: it has the sign of the dividend.
//
//     output = dividend - divisor * trunc(dividend / divisor)      computed exactly, as C's fmod
//
// x % 0 is NaN for floats and 0 for integers, the lowest integer % -1 is 0, x % inf is x. Halves are computed in float:
// the exact remainder of two halves is itself a half.
//
// How the work is cut up: every thread takes PACK elements that are neighbours in the output.
//
// Constants that the plan sets:
//     DIVIDEND, DIVISOR, VALUE, OUTPUT       element types: stored, computed in (both operands), stored
//     DIVIDEND_KIND, DIVISOR_KIND            1: an array, 2: one number
//     DIVIDEND_ALIGNED, DIVISOR_ALIGNED, OUTPUT_ALIGNED
//     PACK                                   more than 1 where all arrays are dense and aligned
//     DIVIDEND_RANK, DIVISOR_RANK, OUTPUT_RANK, INDEX      see layout.cuh
#include "elements.cuh"
#include "layout.cuh"

using Value = VALUE;

constexpr int BLOCK = 256;

struct Geometry {
    Index size;
    Layout<DIVIDEND_RANK> dividend;
    Layout<DIVISOR_RANK> divisor;
    Layout<OUTPUT_RANK> output;
};

__device__ inline float truncated_remainder(float x, float y) { return fmodf(x, y); }
__device__ inline double truncated_remainder(double x, double y) { return fmod(x, y); }

// The quotient of the lowest integer and -1 does not exist, so -1 is not divided by.
template <typename Integer> __device__ Integer truncated_remainder(Integer x, Integer y) {
    if (y == 0) return 0;
    if (static_cast<Integer>(-1) < 0 && y == static_cast<Integer>(-1)) return 0;
    return static_cast<Integer>(x % y);
}

__device__ OUTPUT remainder_of(DIVIDEND x, DIVISOR y) {
    return convert<OUTPUT>(convert<Value>(truncated_remainder(widen(convert<Value>(x)), widen(convert<Value>(y)))));
}

// An operand of one number is handed over as such, and has no address.
template <typename Stored, int KIND, bool ALIGNED, int RANK> struct Operand {
    const char* array;
    Stored number;
    const Layout<RANK>& layout;

    __device__ Stored one(Index i) const {
        if constexpr (KIND == 2) return number;
        else return load_element<Stored, ALIGNED>(array + layout.offset(i));
    }

    __device__ Pack<Stored, PACK> dense(Index first) const {
        if constexpr (KIND == 2) {
            Pack<Stored, PACK> pack;
            for (int j = 0; j < PACK; j++) pack.element[j] = number;
            return pack;
        } else {
            return reinterpret_cast<const Pack<Stored, PACK>*>(array)[first / PACK];
        }
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
modulus(const char* dividend, const char* divisor, char* output, DIVIDEND dividend_number, DIVISOR divisor_number,
        Geometry g) {
    const Operand<DIVIDEND, DIVIDEND_KIND, DIVIDEND_ALIGNED, DIVIDEND_RANK> x = {dividend, dividend_number, g.dividend};
    const Operand<DIVISOR, DIVISOR_KIND, DIVISOR_ALIGNED, DIVISOR_RANK> y = {divisor, divisor_number, g.divisor};
    const Index first = (static_cast<Index>(blockIdx.x) * BLOCK + threadIdx.x) * PACK;
    if (PACK > 1 && first + PACK <= g.size) {
        const Pack<DIVIDEND, PACK> xs = x.dense(first);
        const Pack<DIVISOR, PACK> ys = y.dense(first);
        Pack<OUTPUT, PACK> result;
#pragma unroll
        for (int j = 0; j < PACK; j++) result.element[j] = remainder_of(xs.element[j], ys.element[j]);
        reinterpret_cast<Pack<OUTPUT, PACK>*>(output)[first / PACK] = result;
    } else {
        for (Index i = first; i < first + PACK && i < g.size; i++) {
            store_element<OUTPUT_ALIGNED>(output + g.output.offset(i), remainder_of(x.one(i), y.one(i)));
        }
    }
}
