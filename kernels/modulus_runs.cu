// The truncated modulus where dividend and output are one run of memory each, in short rows, and the divisor is a row
// for all of them, or an element for each.
//
// A thread takes PACK neighbouring elements of the run, from whichever row they are, so that these are moved in one
// access. It loads their divisors one by one, which the first-level cache holds.
//
// Constants that the plan sets, beside those of modulus.cuh:
//     DIVIDEND_ACCESS    PACKED
//     DIVISOR_ACCESS     ONE, at an address of its own
//     PACK               elements of a pack: 16 bytes of the widest type
#include "modulus.cuh"

struct Geometry {
    Index size;
    Count row;                        // elements of a row
    Index divisor_row, divisor_step;  // of the divisor from a row, an element to the next, in bytes
};

// Of the pack that begins with element `first`; 1 stands for those that do not exist.
__device__ Values<StoredDivisor, PACK> divisors_of(const char* divisor, Index first, const Geometry& g) {
    const Index row = g.row.quotient(first), back = g.divisor_row - g.row.size * g.divisor_step;
    Index column = first - row * g.row.size;
    const char* from = divisor + row * g.divisor_row + column * g.divisor_step;
    Values<StoredDivisor, PACK> divisors;
#pragma unroll
    for (int j = 0; j < PACK; j++) {
        StoredDivisor y = convert<StoredDivisor>(1.0f);
        if (first + j < g.size) y = DivisorLine{from, 0, y}.one(0);
        divisors.set(j, y);
        const bool is_last = ++column == g.row.size;
        column = is_last ? 0 : column;
        from += g.divisor_step + (is_last ? back : 0);
    }
    return divisors;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
modulus_runs(const char* dividend, const char* divisor, char* output, StoredDividend dividend_number, StoredDivisor,
             Geometry g) {
    await_launch_ahead();
    const Index first = (static_cast<Index>(blockIdx.x) * BLOCK + threadIdx.x) * PACK;
    if (first >= g.size) return;
    const DividendLine x = {dividend, 0, dividend_number};
    const bool is_whole = first + PACK <= g.size;
    Values<StoredDividend, PACK> dividends;
    if (is_whole) dividends = x.template whole<PACK>(first);
    else dividends = x.template part<PACK>(first, 0, g.size);
    const Divisors<Value, PACK, false> by(converted<Value>(divisors_of(divisor, first, g)));
    const auto results = converted<Output>(by.remainders_of(converted<Value>(dividends)));
    if (is_whole) store_whole<true>(output + first * static_cast<Index>(sizeof(Output)), results);
    else store_part(output, first, g.size, results);
}
