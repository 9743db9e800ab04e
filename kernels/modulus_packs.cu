// The truncated modulus along rows: the innermost axis is dense in the output and, in an operand, dense, of every
// second element, or of stride 0.
//
// A thread takes PACK neighbouring elements that lie in the output at a multiple of their size, so that whole packs are
// stored in one access whatever the alignment. What a row's first and last pack lack is left out.
//
// Constants that the plan sets, beside those of modulus.cuh:
//     DIVIDEND_ACCESS, DIVISOR_ACCESS        not STRIDED
//     PACK             elements of a pack: 16 bytes of the widest type
//     ALIGNED_ROWS     every row of the output begins with a whole pack
//     ROWS             rows of a thread; more than 1 where they have the divisor's pack in common, and all is PACKED
#include "modulus.cuh"

struct Geometry {
    Index threads;
    Index length;                   // elements of a row
    Index rows;                     // rows along the last of the outer axes
    Index dividend_row, output_row; // from one of them to the next, in bytes
    Count packs;                    // of a row
    Space outer;                    // whose last axis counts ROWS rows at a time
};

constexpr int DIVIDEND_MARGIN = margin_of<StoredDividend>(DIVIDEND_ACCESS);
constexpr int DIVISOR_MARGIN = margin_of<StoredDivisor>(DIVISOR_ACCESS);
constexpr int MARGIN = DIVIDEND_MARGIN > DIVISOR_MARGIN ? DIVIDEND_MARGIN : DIVISOR_MARGIN;

// Elements by which a row of the output begins behind a multiple of a pack's size.
__device__ Index lead_of(const char* row) {
    if constexpr (ALIGNED_ROWS) return 0;
    else return static_cast<Index>(reinterpret_cast<size_t>(row) % (PACK * sizeof(Output)) / sizeof(Output));
}

// All loads come before the first use. None waits behind a branch: for rows that are not there, the last one is loaded
// again.
__device__ void write_whole(const DividendLine& x, const DivisorLine& y, char* row, Index first, Index rows,
                            const Geometry& g) {
    const auto divisor = y.whole<PACK>(first);
    Values<StoredDividend, PACK> dividends[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        dividends[i] = x.after((i < rows ? i : rows - 1) * g.dividend_row).whole<PACK>(first);
    }
    const DivisorsOf<PACK> divisors(converted<Value>(divisor));
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        if (i >= rows) return;
        char* to = row + i * g.output_row + first * static_cast<Index>(sizeof(Output));
        store_whole<true>(to, outputs_of(dividends[i], divisors));
    }
}

// Few elements at once, which take few registers from those that have whole packs.
__device__ void write_part(const DividendLine& x, const DivisorLine& y, char* row, Index first, Index length) {
    constexpr int COUNT = PACK < 8 ? PACK : 8;
#pragma unroll 1
    for (Index i = first; i < first + PACK; i += COUNT) {
        const auto dividends = x.part<COUNT>(i, 0, length);
        const DivisorsOf<COUNT> divisors(converted<Value>(y.part<COUNT>(i, 0, length)));
        store_part(row, i, length, outputs_of(dividends, divisors));
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
modulus_packs(const char* dividend, const char* divisor, char* output, StoredDividend dividend_number,
              StoredDivisor divisor_number, Geometry g) {
    const Index thread = static_cast<Index>(blockIdx.x) * BLOCK + threadIdx.x;
    if (thread >= g.threads) return;
    const Index group = RANK > 0 ? g.packs.quotient(thread) : 0;
    const Place at = g.outer.place(group);
    const DividendLine x = {dividend + at.dividend, 0, dividend_number};
    const DivisorLine y = {divisor + at.divisor, 0, divisor_number};
    const Index first = (thread - group * g.packs.size) * PACK - lead_of(output + at.output);
    const Index rows = ROWS > 1 ? g.rows - at.last * ROWS : 1;
    if (__builtin_expect(first >= MARGIN && first + PACK + MARGIN <= g.length, true)) {
        write_whole(x, y, output + at.output, first, rows, g);
        return;
    }
#pragma unroll 1
    for (int i = 0; i == 0 || (i < ROWS && i < rows); i++) {
        write_part(x.after(i * g.dividend_row), y, output + at.output + i * g.output_row, first, g.length);
    }
}
