// From the number of an element, counted in C order over some axes, to its byte offset in an array.
//
// The plan merges axes that lie in one stride and drops those of size 1, so RANK is mostly 1: a multiplication.
#pragma once

using Index = INDEX;  // int where every offset and count fits, else long long

template <int RANK> struct Layout {
    Index size[RANK];
    Index stride[RANK];

    __device__ Index offset(Index number) const {
        Index sum = 0;
#pragma unroll
        for (int axis = RANK - 1; axis > 0; axis--) {
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
