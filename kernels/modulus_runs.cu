// The truncated modulus where the output is one run of memory, rows of any length end to end. Operands are such runs,
// too, or numbers, or have other rows; a divisor may be one row for all, or an element for each.
//
// A thread takes PACKS packs, each of PACK neighbouring elements of the run, from whichever rows they are, so that they
// are moved in one access. Its packs lie a period apart. Where the divisor is a row for all, a period is whole rows and
// whole packs, so that all packs of a thread have the same divisors: it loads them once, and inverts them once.
//
// Constants that the plan sets, beside those of modulus.cuh:
//     DIVIDENDS, DIVISORS                a RUN, a NUMBER, or SINGLE ones; divisors may be those OF_A_ROW for all, or
//                                        OF_TWO_ROWS, one of each, which a pack has at the most
//     DIVIDEND_ACCESS, DIVISOR_ACCESS    PACKED of a RUN, NUMBER, else ONE, at an address of its own
//     PACK, PACKS                        elements of a pack: 16 bytes of the widest type; packs of a thread
#include "modulus.cuh"

enum Operands { RUN, OF_A_ROW, OF_TWO_ROWS, SINGLE };

// Bytes from a row, and from an element, to the next.
struct Rows {
    Index row, step;
};

struct Geometry {
    Index size;
    Count row;  // elements of a row
    Rows dividend, divisor;
    Count period;  // in packs
};

// Of the pack that begins with element `first`. For elements that do not exist 1 stands, or any where rows repeat.
template <int KIND, typename T, int ACCESS, bool ALIGNED, Eviction HOW>
__device__ Values<T, PACK> load_pack(const Line<T, ACCESS, ALIGNED, Index, HOW>& operand, const Rows& rows, Index first,
                                     const Geometry& g) {
    if constexpr (KIND == RUN || KIND == NUMBER) {
        return operand.template whole_or_part<PACK>(first, 0, g.size, convert<T>(1.0f));
    } else {
        const Index row = g.row.quotient(first), to_next_row = rows.row - (g.row.size - 1) * rows.step;
        Index column = first - row * g.row.size;
        auto at = operand.after(row * rows.row + column * rows.step);
        Values<T, PACK> values;
#pragma unroll
        for (int j = 0; j < PACK; j++) {
            T value = convert<T>(1.0f);
            if (KIND == OF_A_ROW || first + j < g.size) value = at.one(0);
            values.set(j, value);
            const bool is_last = ++column == g.row.size;
            column = is_last ? 0 : column;
            at = at.after(is_last ? to_next_row : rows.step);
        }
        return values;
    }
}

// Divisors of a pack, one for each element; or a number.
struct PackDivisors {
    Values<StoredDivisor, PACK> values;

    __device__ void load(const DivisorLine& divisor, Index first, const Geometry& g) {
        values = load_pack<DIVISORS>(divisor, g.divisor, first, g);
    }

    __device__ Divisors<Value, PACK, DIVISORS == NUMBER> inverted() const {
        return Divisors<Value, PACK, DIVISORS == NUMBER>(converted<Value>(values));
    }
};

// The same of a pack in two rows: one for the first `count` elements, another for the rest.
struct RowDivisors {
    StoredDivisor one, other;
    int count;

    __device__ void load(const DivisorLine& divisor, Index first, const Geometry& g) {
        const Index row = g.row.quotient(first), left = (row + 1) * g.row.size - first;
        const auto at = divisor.after(row * g.divisor.row);
        one = at.one(0);
        other = at.after(left < g.size - first ? g.divisor.row : 0).one(0);
        count = static_cast<int>(left < PACK ? left : PACK);
    }

    __device__ TwoDivisors<Value, PACK> inverted() const {
        return {convert<Value>(one), convert<Value>(other), count};
    }
};

using LoadedDivisors = Select<DIVISORS == OF_TWO_ROWS, RowDivisors, PackDivisors>::type;
constexpr int DIFFERENT = DIVISORS == OF_A_ROW || DIVISORS == NUMBER ? 1 : PACKS;  // divisors of a thread's packs

template <typename Inverted>
__device__ void write_pack(char* output, Index first, Index size, const Values<StoredDividend, PACK>& dividends,
                           const Inverted& divisors) {
    const auto remainders = converted<Output>(divisors.remainders_of(converted<Value>(dividends)));
    if (first + PACK <= size) store_whole<true>(output + first * static_cast<Index>(sizeof(Output)), remainders);
    else store_part(output, first, size, remainders);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
modulus_runs(const char* dividend, const char* divisor, char* output, StoredDividend dividend_number,
             StoredDivisor divisor_number, Geometry g) {
    await_launch_ahead();
    const Index thread = static_cast<Index>(blockIdx.x) * BLOCK + threadIdx.x;
    const Index group = PACKS > 1 ? g.period.quotient(thread) : 0, step = g.period.size * PACK;
    const Index first = (thread + group * (PACKS - 1) * g.period.size) * PACK;
    if (first >= g.size) return;
    const DividendLine x = {dividend, 0, dividend_number};
    const DivisorLine y = {divisor, 0, divisor_number};
    // In a branch, which keeps these loads ahead of all that follows: ptxas would move them behind those of divisors,
    // and (11037, 95) int8 by single ones take an H200 3.5 us, not 2.9.
    Values<StoredDividend, PACK> dividends[PACKS];
    if (DIVIDENDS == RUN && first + (PACKS - 1) * step + PACK <= g.size) {
#pragma unroll
        for (int i = 0; i < PACKS; i++) dividends[i] = x.whole<PACK>(first + i * step);
    } else {
#pragma unroll
        for (int i = 0; i < PACKS; i++) dividends[i] = load_pack<DIVIDENDS>(x, g.dividend, first + i * step, g);
    }
    LoadedDivisors divisors[DIFFERENT];
#pragma unroll
    for (int i = 0; i < DIFFERENT; i++) {
        divisors[i].load(y, first + i * step < g.size ? first + i * step : first, g);
    }
    const auto common = divisors[0].inverted();
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
        const auto by = DIFFERENT == 1 ? common : divisors[i % DIFFERENT].inverted();
        write_pack(output, first + i * step, g.size, dividends[i], by);
    }
}
