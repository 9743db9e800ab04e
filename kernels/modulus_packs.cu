// The truncated modulus along rows: the innermost axis is dense in the output and, in an operand, dense either way, of
// every second element, or of stride 0.
//
// A thread takes PACK neighbouring elements that lie in the output at a multiple of their size, so that whole packs are
// stored in one access whatever the alignment. What a row's first and last pack lack is left out; of small elements
// when the pack is stored, so that a warp that has such packs waits for memory once.
//
// Constants that the plan sets, beside those of modulus.cuh:
//     DIVIDEND_ACCESS, DIVISOR_ACCESS        not STRIDED; REVERSED of 1 or 2 bytes
//     PACK             elements of a pack: 16 bytes of the widest type
//     ALIGNED_ROWS     every row of the output begins with a whole pack
//     ROWS             rows of a thread; more than 1 where they have the divisor's pack in common, and all is PACKED
//     BLOCKS           of a multiprocessor at once, which bounds the registers of a thread
#include "ahead.cuh"
#include "modulus.cuh"

struct Geometry {
    Index threads;
    Index length;                   // elements of a row
    Index dividend_ahead, divisor_ahead;  // bytes that are asked for (ahead.cuh)
    Index rows;                     // rows along the last of the outer axes
    Index dividend_row, output_row; // from one of them to the next, in bytes
    Count packs;                    // of a row
    Extent dividend, divisor;
    Space outer;                    // whose last axis counts ROWS rows at a time
};

// Whether whole words can be read for a pack that begins at element `first` of a row, which begins at an offset.
template <typename Stored, int ACCESS> __device__ bool is_spanned(const Extent& array, Index row, Index first) {
    constexpr Index STEP = ACCESS == SECOND ? 2 * sizeof(Stored) : sizeof(Stored);
    const Index begin = Line<Stored, ACCESS, true, Index>::template begin_of<PACK>(first);
    return margin_of<Stored>(ACCESS) == 0 || array.spans(row + begin, PACK * STEP);
}

// Elements by which a row of the output begins behind a multiple of a pack's size.
__device__ Index lead_of(const char* row) {
    if constexpr (ALIGNED_ROWS) return 0;
    else return static_cast<Index>(reinterpret_cast<size_t>(row) % (PACK * sizeof(Output)) / sizeof(Output));
}

// Whether a row has all of the pack that begins at element `first`.
__device__ bool has_pack(Index first, const Geometry& g) { return first >= 0 && first + PACK <= g.length; }

// Whether packs that are not whole are loaded and computed as if they were. (262144, 4096) int8 from odd addresses take
// an H200 0.79 ms so, and 0.89 otherwise; (65536, 4096) float32, of whose packs fewer are not whole, 0.79 and 0.73.
constexpr bool CUT_WHEN_STORED = !ALIGNED_ROWS && PACK > 4;

__device__ void store_pack(char* row, Index first, const Geometry& g, const Values<Output, PACK>& values) {
    if (!CUT_WHEN_STORED || __builtin_expect(has_pack(first, g), true)) {
        store_whole<true>(row + first * static_cast<Index>(sizeof(Output)), values);
    } else {
        store_part(row, first, g.length, values);
    }
}

// ROWS rows, or fewer where there are no more. Where all are there, no branch stands between the loads: ptxas would
// move those behind it, each to the computation of its row.
__device__ void write_whole(const DividendLine& x, const DivisorLine& y, char* row, Index first, Index rows,
                            const Geometry& g) {
    const auto divisor = y.whole<PACK>(first);
    const auto dividend = [&](int i) { return x.after(i * g.dividend_row).whole<PACK>(first); };
    if (rows >= ROWS) {
        Values<StoredDividend, PACK> dividends[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++) dividends[i] = dividend(i);
        const DivisorsOf<PACK> divisors(converted<Value>(divisor));
#pragma unroll
        for (int i = 0; i < ROWS; i++) store_pack(row + i * g.output_row, first, g, outputs_of(dividends[i], divisors));
    } else {
        const DivisorsOf<PACK> divisors(converted<Value>(divisor));
#pragma unroll 1
        for (int i = 0; i < rows; i++) store_pack(row + i * g.output_row, first, g, outputs_of(dividend(i), divisors));
    }
}

// Of a divisor those that exist, by elements; others are 1, by which all is divided fast: a float by 0 is not.
template <int COUNT>
__device__ Values<StoredDivisor, COUNT> part_of_divisor(const DivisorLine& y, Index first, Index length) {
    return y.part<COUNT>(first, 0, length, convert<StoredDivisor>(1.0f));
}

// Packs at the ends of the divisor's array come by elements: those of a row by which all rows are divided, at both ends
// of each. Warps that have one still compute once.
__device__ Values<StoredDivisor, PACK> divisor_pack(const DivisorLine& y, Index row, Index first, const Geometry& g) {
    const bool is_inside = is_spanned<StoredDivisor, DIVISOR_ACCESS>(g.divisor, row, first);
    return __builtin_expect(is_inside, true) ? y.whole<PACK>(first) : part_of_divisor<PACK>(y, first, g.length);
}

// A pack of which not all may exist. Dividends are on their way before divisors are waited for.
__device__ void write_cut(const DividendLine& x, const DivisorLine& y, Index divisor_row, char* row, Index first,
                          const Geometry& g) {
    static_assert(!CUT_WHEN_STORED || ROWS == 1, "rows with a pack in common are whole");
    const auto dividends = x.whole<PACK>(first);
    const DivisorsOf<PACK> divisors(converted<Value>(divisor_pack(y, divisor_row, first, g)));
    store_pack(row, first, g, outputs_of(dividends, divisors));
}

// Few elements at once, which take few registers from those that have whole packs.
__device__ void write_part(const DividendLine& x, const DivisorLine& y, char* row, Index first, Index length) {
    constexpr int COUNT = PACK < 8 ? PACK : CUT_WHEN_STORED ? 4 : 8;
#pragma unroll 1
    for (Index i = first; i < first + PACK; i += COUNT) {
        const auto dividends = x.part<COUNT>(i, 0, length);
        const DivisorsOf<COUNT> divisors(converted<Value>(part_of_divisor<COUNT>(y, i, length)));
        store_part(row, i, length, outputs_of(dividends, divisors));
    }
}

__device__ void prefetch_operands(const char* dividend, const char* divisor, const Geometry& g) {
    prefetch_ahead(dividend, static_cast<unsigned>(g.dividend_ahead));
    prefetch_ahead(divisor, static_cast<unsigned>(g.divisor_ahead));
}

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)
modulus_packs(const char* dividend, const char* divisor, char* output, StoredDividend dividend_number,
              StoredDivisor divisor_number, Geometry g) {
    prefetch_operands(dividend, divisor, g);
    await_launch_ahead();
    const Index thread = static_cast<Index>(blockIdx.x) * BLOCK + threadIdx.x;
    if (thread >= g.threads) return;
    const Index group = RANK > 0 ? g.packs.quotient(thread) : 0;
    const Place at = g.outer.place(group);
    const DividendLine x = {dividend + at.dividend, 0, dividend_number};
    const DivisorLine y = {divisor + at.divisor, 0, divisor_number};
    const Index first = (thread - group * g.packs.size) * PACK - lead_of(output + at.output);
    const Index rows = ROWS > 1 ? g.rows - at.last * ROWS : 1;
    // Where an operand is the output, others store meanwhile what lies beyond the ends of a row.
    const bool may_be_cut = CUT_WHEN_STORED && output != dividend && output != divisor;
    const bool is_whole = (may_be_cut || has_pack(first, g)) &&
                          is_spanned<StoredDividend, DIVIDEND_ACCESS>(g.dividend, at.dividend, first) &&
                          (CUT_WHEN_STORED || is_spanned<StoredDivisor, DIVISOR_ACCESS>(g.divisor, at.divisor, first));
    if (__builtin_expect(is_whole, true)) {
        if constexpr (CUT_WHEN_STORED) write_cut(x, y, at.divisor, output + at.output, first, g);
        else write_whole(x, y, output + at.output, first, rows, g);
        return;
    }
#pragma unroll 1
    for (int i = 0; i == 0 || (i < ROWS && i < rows); i++) {
        write_part(x.after(i * g.dividend_row), y, output + at.output + i * g.output_row, first, g.length);
    }
}
