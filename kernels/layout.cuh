// From the number of an element, counted in C order over some axes, to its byte offset in an array.
//
// The plan merges axes that lie in one stride and drops those of size 1, so there is mostly one: a multiplication.
#pragma once

using Index = INDEX;  // int where every offset and count fits, else long long

// number / size, by a multiplication where numbers have 31 bits: `magic` is 2^(32 + shift) / size, rounded up. Not for
// a size of 1.
__device__ inline Index quotient_by(Index number, Index size, Index magic, Index shift) {
    if constexpr (sizeof(Index) > 4) return number / size;
    else return static_cast<Index>(__umulhi(number, static_cast<unsigned>(magic)) >> shift);
}

template <int AXES> struct Layout {
    Index size[AXES];
    Index stride[AXES];

    __device__ Index offset(Index number) const {
        Index sum = 0;
#pragma unroll
        for (int axis = AXES - 1; axis > 0; axis--) {
            const Index outer = number / size[axis];
            sum += (number - outer * size[axis]) * stride[axis];
            number = outer;
        }
        return sum + number * stride[0];
    }
};

// What exists of `most` where `left` do from there on. The minimum comes last: ptxas 13.0 joins max(0, min(left, most))
// and a comparison of it with `most` into one instruction of compute capability 9.0, VIMNMX.RELU, whose predicate was
// true for some that were less.
__device__ inline int up_to(Index left, int most) {
    return left < most ? (left < 0 ? 0 : static_cast<int>(left)) : most;
}
