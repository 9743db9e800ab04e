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
