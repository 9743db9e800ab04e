// The remainder of a division truncated towards zero, of arrays in any layout: it has the sign of the dividend.
//
//     output = dividend - divisor * trunc(dividend / divisor)      computed exactly, as C's fmod
//
// x % 0 is NaN for floats and 0 for integers, the lowest integer % -1 is 0, x % inf is x. Halves are computed in float:
// the exact remainder of two halves is itself a half.
//
// Four kernels differ in how threads share the elements:
//     modulus_packs       16 neighbouring bytes each, where the innermost axis is dense in the output, and each operand
//                         has there neighbours, either way, every second element of a few bytes, or one for all
//     modulus_runs        16 neighbouring bytes of the output each, of several rows it may be, where it is one run
//     modulus_tiles       a tile of rows and columns through shared memory, where an operand is dense along another
//                         axis than the output
//     modulus_elements    single elements, neighbours in neighbouring threads: everything else, and small arrays
//
// Constants that the plan sets, for each kernel:
//     DIVIDEND, DIVISOR, VALUE, OUTPUT       element types: stored, computed in (both operands), stored
//     DIVIDEND_ACCESS, DIVISOR_ACCESS        how a thread comes by its operands: packs.cuh
//     DIVIDEND_ALIGNED, DIVISOR_ALIGNED      elements lie at multiples of their size
//     EVICTION                               of operands in whole packs: intrinsics.cuh
//     RANK, INDEX, BLOCK                     axes of struct Space; int or long long; threads of a block
#pragma once

#include "layout.cuh"
#include "modulus_divisors.cuh"

using StoredDividend = DIVIDEND;
using StoredDivisor = DIVISOR;
using Value = VALUE;
using Output = OUTPUT;

// A divisor of counts.
struct Count {
    Index size, magic, shift;

    __device__ Index quotient(Index n) const {
        return size == 1 && sizeof(Index) == 4 ? n : quotient_by(n, size, magic, shift);
    }
};

// Byte offsets in the arrays, and the number along the last axis.
struct Place {
    Index dividend, divisor, output, last;
};

// Axes that all arrays share, merged where all lie in one stride, and their byte strides.
struct Space {
    static constexpr int AXES = RANK > 0 ? RANK : 1;
    Count axis[AXES];
    Index dividend[AXES], divisor[AXES], output[AXES];

    __device__ Place place(Index number) const {
        Place at = {0, 0, 0, 0};
#pragma unroll
        for (int i = RANK - 1; i >= 0; i--) {
            const Index outer = i > 0 ? axis[i].quotient(number) : 0, along = number - outer * axis[i].size;
            at.dividend += along * dividend[i];
            at.divisor += along * divisor[i];
            at.output += along * output[i];
            if (i == RANK - 1) at.last = along;
            number = outer;
        }
        return at;
    }
};

// The bytes that an array spans, counted from its first element.
struct Extent {
    Index begin, end;

    // Whether it spans some bytes at an offset and a word on either side, where elements of other rows may lie.
    __device__ bool spans(Index offset, Index bytes) const {
        return offset >= begin + 4 && offset <= end - bytes - 4;
    }
};

using DividendLine = Line<StoredDividend, DIVIDEND_ACCESS, DIVIDEND_ALIGNED, Index, EVICTION>;
using DivisorLine = Line<StoredDivisor, DIVISOR_ACCESS, DIVISOR_ALIGNED, Index, EVICTION>;

constexpr bool SAME_DIVISOR = DIVISOR_ACCESS == NUMBER || DIVISOR_ACCESS == ONE;
template <int COUNT> using DivisorsOf = Divisors<Value, COUNT, SAME_DIVISOR>;

// Computed in one type, stored in that of the output.
template <int COUNT>
__device__ Values<Output, COUNT> outputs_of(const Values<StoredDividend, COUNT>& x, const DivisorsOf<COUNT>& divisors) {
    return converted<Output>(divisors.remainders_of(converted<Value>(x)));
}
