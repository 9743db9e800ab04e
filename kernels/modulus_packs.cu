// The truncated modulus along rows: the innermost axis is dense in the output and, in an operand, dense or of stride 0.
//
// A thread takes PACK neighbouring elements that lie in the output at a multiple of their size, so that whole packs are
// stored in one access whatever the alignment. What a row's first and last pack lack is left out.
//
// Constants that the plan sets, beside those of modulus.cuh:
//     DIVIDEND_ACCESS, DIVISOR_ACCESS        NUMBER, ONE, PACKED or SHIFTED
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

template <typename Stored, int ACCESS> __device__ constexpr int margin_of() {
    return ACCESS == SHIFTED ? (3 + static_cast<int>(sizeof(Stored)) - 1) / static_cast<int>(sizeof(Stored)) : 0;
}

// What a shifted load reads beyond a pack, in elements; it has to lie in the row.
constexpr int DIVIDEND_MARGIN = margin_of<StoredDividend, DIVIDEND_ACCESS>();
constexpr int DIVISOR_MARGIN = margin_of<StoredDivisor, DIVISOR_ACCESS>();
constexpr int MARGIN = DIVIDEND_MARGIN > DIVISOR_MARGIN ? DIVIDEND_MARGIN : DIVISOR_MARGIN;

// Elements by which a row of the output begins behind a multiple of a pack's size.
__device__ Index lead_of(const char* row) {
    if constexpr (ALIGNED_ROWS) return 0;
    else return static_cast<Index>(reinterpret_cast<size_t>(row) % (PACK * sizeof(Output)) / sizeof(Output));
}

// Neighbours at any address, from the words that they lie in.
template <typename T> __device__ T load_shifted(const char* from) {
    constexpr int COUNT = sizeof(T) / 4;
    union Words {
        T values;
        unsigned word[COUNT];
        __device__ Words() {}
    } result;
    const size_t address = reinterpret_cast<size_t>(from);
    if (address % alignof(T) == 0) return *reinterpret_cast<const T*>(from);
    const unsigned* word = reinterpret_cast<const unsigned*>(from - address % 4);
    const unsigned shift = static_cast<unsigned>(address % 4) * 8;
    unsigned loaded[COUNT + 1];
#pragma unroll
    for (int i = 0; i < COUNT; i++) loaded[i] = word[i];
    loaded[COUNT] = shift == 0 ? 0 : word[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++) result.word[i] = __funnelshift_r(loaded[i], loaded[i + 1], shift);
    return result.values;
}

// A row of an operand.
template <typename Stored, int ACCESS, bool ALIGNED> struct Operand {
    const char* row;
    Stored number;

    __device__ Stored one(Index i) const {
        if constexpr (ACCESS == NUMBER) return number;
        else if constexpr (ACCESS == ONE) return load_element<Stored, ALIGNED>(row);
        else return load_element<Stored, ALIGNED>(row + i * static_cast<Index>(sizeof(Stored)));
    }

    __device__ Values<Stored, PACK> whole(Index first) const {
        using Loaded = Values<Stored, PACK>;
        const char* from = row + first * static_cast<Index>(sizeof(Stored));
        if constexpr (ACCESS == NUMBER || ACCESS == ONE) return filled_with<PACK>(one(0));
        else if constexpr (!Loaded::IN_MEMORY || sizeof(Loaded) < 4) return elements(first);
        else if constexpr (ACCESS == PACKED) return *reinterpret_cast<const Loaded*>(from);
        else return load_shifted<Loaded>(from);
    }

    __device__ Values<Stored, PACK> elements(Index first) const {
        Values<Stored, PACK> values;
#pragma unroll
        for (int i = 0; i < PACK; i++) values.set(i, one(first + i));
        return values;
    }

    __device__ Operand after(Index bytes) const { return {row + bytes, number}; }
};

constexpr bool SAME_DIVISOR = DIVISOR_ACCESS == NUMBER || DIVISOR_ACCESS == ONE;
using DividendRow = Operand<StoredDividend, DIVIDEND_ACCESS, DIVIDEND_ALIGNED>;
using DivisorRow = Operand<StoredDivisor, DIVISOR_ACCESS, DIVISOR_ALIGNED>;

__device__ void store(Output* to, const Values<Output, PACK>& values) {
    if constexpr (Values<Output, PACK>::IN_MEMORY) {
        *reinterpret_cast<Values<Output, PACK>*>(to) = values;
    } else {
#pragma unroll
        for (int i = 0; i < PACK; i++) to[i] = values.get(i);
    }
}

// All loads come before the first use.
__device__ void write_whole(const DividendRow& x, const DivisorRow& y, char* row, Index first, Index rows,
                            const Geometry& g) {
    Values<StoredDividend, PACK> dividends[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        if (i == 0 || i < rows) dividends[i] = x.after(i * g.dividend_row).whole(first);
    }
    const auto divisors = y.whole(first);
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        if (i > 0 && i >= rows) return;
        Output* to = reinterpret_cast<Output*>(row + i * g.output_row) + first;
        store(to, outputs_of<SAME_DIVISOR>(dividends[i], divisors));
    }
}

__device__ void write_elements(const DividendRow& x, const DivisorRow& y, char* row, Index first, Index end) {
#pragma unroll 1
    for (Index i = first; i < end; i++) {
        reinterpret_cast<Output*>(row)[i] = outputs_of<true>(filled_with<1>(x.one(i)), filled_with<1>(y.one(i))).get(0);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
modulus_packs(const char* dividend, const char* divisor, char* output, StoredDividend dividend_number,
              StoredDivisor divisor_number, Geometry g) {
    const Index thread = static_cast<Index>(blockIdx.x) * BLOCK + threadIdx.x;
    if (thread >= g.threads) return;
    const Index group = RANK > 0 ? g.packs.quotient(thread) : 0;
    const Place at = g.outer.place(group);
    const DividendRow x = {dividend + at.dividend, dividend_number};
    const DivisorRow y = {divisor + at.divisor, divisor_number};
    const Index first = (thread - group * g.packs.size) * PACK - lead_of(output + at.output);
    const Index rows = ROWS > 1 ? g.rows - at.last * ROWS : 1;
    if (first >= MARGIN && first + PACK + MARGIN <= g.length) {
        write_whole(x, y, output + at.output, first, rows, g);
        return;
    }
    const Index begin = first < 0 ? 0 : first, end = first + PACK < g.length ? first + PACK : g.length;
    for (int i = 0; i == 0 || (i < ROWS && i < rows); i++) {
        write_elements(x.after(i * g.dividend_row), y, output + at.output + i * g.output_row, begin, end);
    }
}
