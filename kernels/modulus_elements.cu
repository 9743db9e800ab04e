// The truncated modulus of arrays with any strides: neighbouring threads take neighbouring elements of the output.
//
// A thread takes ITEMS elements that are BLOCK apart, and loads all of them before it uses the first.
//
// Constants that the plan sets, beside those of modulus.cuh:
//     DIVIDEND_ACCESS, DIVISOR_ACCESS        NUMBER, or ONE at an address of its own
//     OUTPUT_ALIGNED                         elements lie at multiples of their size
//     ITEMS
#include "modulus.cuh"

struct Geometry {
    Index size;
    Space space;
};

extern "C" __global__ void __launch_bounds__(BLOCK)
modulus_elements(const char* dividend, const char* divisor, char* output, StoredDividend dividend_number,
                 StoredDivisor divisor_number, Geometry g) {
    await_launch_ahead();
    const Index first = static_cast<Index>(blockIdx.x) * (BLOCK * ITEMS) + threadIdx.x;
    Values<StoredDividend, ITEMS> x = filled_with<ITEMS>(dividend_number);
    Values<StoredDivisor, ITEMS> y = filled_with<ITEMS>(divisor_number);
    Index to[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        if (first + k * BLOCK >= g.size) continue;
        const Place at = g.space.place(first + k * BLOCK);
        x.set(k, DividendLine{dividend + at.dividend, 0, dividend_number}.one(0));
        y.set(k, DivisorLine{divisor + at.divisor, 0, divisor_number}.one(0));
        to[k] = at.output;
    }
    const auto result = converted<Output>(
        Divisors<Value, ITEMS, DIVISOR_ACCESS == NUMBER>(converted<Value>(y)).remainders_of(converted<Value>(x)));
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        if (first + k * BLOCK < g.size) store_element<OUTPUT_ALIGNED>(output + to[k], result.get(k));
    }
}
