// The truncated modulus where an operand is dense along another axis than the output, as transposed matrices are.
//
// A block takes a tile: rows along the axis that is dense in the output, columns along that of the operand. Threads
// load such a turned operand along the columns, 16 bytes at a time, and hand it over in shared memory to those that
// write the rows. Where no operand lies along the rows, threads compute along the columns and hand over the results.
//
// Constants that the plan sets, beside those of modulus.cuh:
//     DIVIDEND_ACCESS, DIVISOR_ACCESS        along the columns of a turned operand, else along the rows; not SECOND
//     DIVIDEND_TURNED, DIVISOR_TURNED        dense along the columns, either way; one at least. Elements are aligned
//     OUTPUT_PACKED                          rows of the output begin at multiples of 16 bytes
//     TILE_HEIGHT, TILE_WIDTH                elements of a column and of a row; a row takes a multiple of 128 bytes
#include "modulus.cuh"
#include "turned_tiles.cuh"

struct Geometry {
    Count rows_of_tiles, tiles_of_row;
    Index height, width;                                           // elements of a column and of a row
    Index dividend_row, dividend_step, divisor_row, divisor_step;  // from a row, an element to the next, in bytes
    Index output_row;
    Space outer;
};

// Where all operands are turned, or numbers, the results move through shared memory.
constexpr bool RESULTS_MOVE =
    (DIVIDEND_TURNED || DIVIDEND_ACCESS == NUMBER) && (DIVISOR_TURNED || DIVISOR_ACCESS == NUMBER);
using Operand = Select<DIVIDEND_TURNED, StoredDividend, StoredDivisor>::type;
using Beside = Select<DIVIDEND_TURNED, StoredDivisor, StoredDividend>::type;  // the other one
using Moved = Select<RESULTS_MOVE, Output, Operand>::type;

// A thread loads HIGH elements of each of WIDE columns, and writes PACK elements of a row.
constexpr int WIDEST_TURNED =
    larger(DIVIDEND_TURNED ? sizeof(StoredDividend) : 0, DIVISOR_TURNED ? sizeof(StoredDivisor) : 0);
constexpr int WIDEST_OF_ROWS = larger(sizeof(Output), RESULTS_MOVE ? 0 : sizeof(Beside));
constexpr int WIDE = WIDE_OF<Moved>;
constexpr int HIGH = moved_at_once(WIDEST_TURNED, TILE_HEIGHT);
constexpr int PACK = larger(moved_at_once(WIDEST_OF_ROWS, TILE_WIDTH), WIDE);

// Of rows that begin anywhere results replace what moved, and leave in words; but for those of 4 bytes beside another
// operand: (32763, 1021) float32, transposed, by such rows take an H200 160 us so and 145 otherwise, int64 143 and 176.
constexpr bool STORED_IN_WORDS =
    !OUTPUT_PACKED && sizeof(Output) == sizeof(Moved) && (RESULTS_MOVE || sizeof(Output) != 4);

using Tile = TurnedTile<Moved, TILE_HEIGHT, TILE_WIDTH, HIGH, PACK, BLOCK>;
using Column = Values<Moved, HIGH>;

constexpr int MARGIN_OF_COLUMNS = larger(DIVIDEND_TURNED ? margin_of<StoredDividend>(DIVIDEND_ACCESS) : 0,
                                         DIVISOR_TURNED ? margin_of<StoredDivisor>(DIVISOR_ACCESS) : 0);
constexpr int MARGIN_OF_ROWS = larger(DIVIDEND_TURNED ? 0 : margin_of<StoredDividend>(DIVIDEND_ACCESS),
                                      DIVISOR_TURNED ? 0 : margin_of<StoredDivisor>(DIVISOR_ACCESS));

// Whether a pack of a row is loaded in words that may have elements of the next one.
constexpr bool READS_WORDS = !RESULTS_MOVE && MARGIN_OF_ROWS > 0 && sizeof(Beside) < 4;

struct Operands {
    Values<StoredDividend, HIGH> dividend;
    Values<StoredDivisor, HIGH> divisor;
};

// A block's part of the arrays. WHOLE ones can be loaded and stored in packs.
struct Block {
    const char *dividend, *divisor;
    char* output;
    StoredDividend dividend_number;
    StoredDivisor divisor_number;
    Index row, column;  // of the tile's first element
    const Geometry& g;

    __device__ DividendLine dividend_column(Index j) const {
        return {dividend + j * g.dividend_step, 0, dividend_number};
    }
    __device__ DivisorLine divisor_column(Index j) const {
        return {divisor + j * g.divisor_step, 0, divisor_number};
    }
    __device__ DividendLine dividend_row(Index i) const {
        return {dividend + i * g.dividend_row, g.dividend_step, dividend_number};
    }
    __device__ DivisorLine divisor_row(Index i) const {
        return {divisor + i * g.divisor_row, g.divisor_step, divisor_number};
    }

    // 1 stands for what does not exist: a float by 0 takes long.
    template <bool WHOLE, int COUNT, typename T, int ACCESS, Eviction HOW>
    __device__ static Values<T, COUNT> load(const Line<T, ACCESS, true, Index, HOW>& line, Index first, Index length,
                                            bool is_there) {
        if constexpr (WHOLE) return line.template whole<COUNT>(first);
        else return line.template whole_or_part<COUNT, true>(first, 0, is_there ? length : 0, convert<T>(1.0f));
    }

    // Of the turned operands.
    template <bool WHOLE> __device__ void load_columns(Index i, Index j, Operands (&columns)[WIDE]) const {
#pragma unroll
        for (int c = 0; c < WIDE; c++) {
            const bool is_there = j + c < g.width;
            if constexpr (DIVIDEND_TURNED || RESULTS_MOVE) {
                columns[c].dividend = load<WHOLE, HIGH>(dividend_column(j + c), i, g.height, is_there);
            }
            if constexpr (DIVISOR_TURNED || RESULTS_MOVE) {
                columns[c].divisor = load<WHOLE, HIGH>(divisor_column(j + c), i, g.height, is_there);
            }
        }
    }

    template <typename Loaded> __device__ static Column moved(const Loaded& column) {
        if constexpr (RESULTS_MOVE) {
            return outputs_of(column.dividend, DivisorsOf<HIGH>(converted<Value>(column.divisor)));
        } else if constexpr (DIVIDEND_TURNED) {
            return column.dividend;
        } else {
            return column.divisor;
        }
    }

    // Whether others store meanwhile to words that are loaded with a pack of a row: it comes by elements then.
    __device__ bool is_in_place() const { return (DIVIDEND_TURNED ? divisor : dividend) == output; }

    // Of the operand that is not turned.
    template <bool WHOLE> __device__ Values<Beside, PACK> load_beside(Index i, Index j) const {
        const bool is_there = i < g.height;
        if constexpr (READS_WORDS && !WHOLE) {
            if (is_in_place()) return beside_part<PACK>(i, j, is_there ? g.width : 0);
        }
        if constexpr (DIVIDEND_TURNED) return load<WHOLE, PACK>(divisor_row(i), j, g.width, is_there);
        else return load<WHOLE, PACK>(dividend_row(i), j, g.width, is_there);
    }
    template <int COUNT> __device__ Values<Beside, COUNT> beside_part(Index i, Index j, Index end) const {
        if constexpr (DIVIDEND_TURNED) return divisor_row(i).template part<COUNT>(j, 0, end);
        else return dividend_row(i).template part<COUNT>(j, 0, end);
    }

    template <typename FromTile, typename Loaded>
    __device__ static Values<Output, PACK> results(const FromTile& moved, const Loaded& beside) {
        if constexpr (RESULTS_MOVE) return moved;
        else if constexpr (DIVIDEND_TURNED) return outputs_of(moved, DivisorsOf<PACK>(converted<Value>(beside)));
        else return outputs_of(beside, DivisorsOf<PACK>(converted<Value>(moved)));
    }

    template <bool WHOLE> __device__ void store_row(Index i, Index j, const Values<Output, PACK>& values) const {
        char* const to = output + i * g.output_row;
        if (WHOLE || (i < g.height && j + PACK <= g.width)) {
            store_whole<OUTPUT_PACKED>(to + j * static_cast<Index>(sizeof(Output)), values);
        } else if (i < g.height && j < g.width) {
            store_part(to, j, g.width, values);
        }
    }

    template <bool WHOLE, int COUNT>
    __device__ void load_beside(int first, Values<Beside, PACK> (&beside)[COUNT]) const {
#pragma unroll
        for (int k = 0; k < COUNT; k++) {
            const TilePart part = Tile::of_row(first + k);
            beside[k] = load_beside<WHOLE>(row + part.row, column + part.column);
        }
    }

    // All loads of a WHOLE tile come before the first use, of others some at a time.
    template <bool WHOLE> __device__ void write(Tile& tile) const {
        constexpr int AT_ONCE = WHOLE ? Tile::STORES : RESULTS_MOVE ? 1 : smaller(Tile::STORES, 4);
        Values<Beside, PACK> beside[AT_ONCE];
        if constexpr (WHOLE && !RESULTS_MOVE) load_beside<WHOLE>(0, beside);
        tile.fill<WHOLE, Operands>(
            [&](const TilePart& part, Operands(&columns)[WIDE]) {
                load_columns<WHOLE>(row + part.row, column + part.column, columns);
            },
            [](const Operands& of_column) { return moved(of_column); });
        __syncthreads();
        if constexpr (!STORED_IN_WORDS || !RESULTS_MOVE) {
#pragma unroll 1
            for (int first = 0; first < Tile::STORES; first += AT_ONCE) {
                if constexpr (!WHOLE && !RESULTS_MOVE) load_beside<WHOLE>(first, beside);
#pragma unroll
                for (int k = 0; k < AT_ONCE; k++) {
                    const TilePart part = Tile::of_row(first + k);
                    const auto of_row = results(tile.load(part), beside[k]);
                    if constexpr (STORED_IN_WORDS) tile.replace(part, of_row);
                    else store_row<WHOLE>(row + part.row, column + part.column, of_row);
                }
            }
        }
        if constexpr (STORED_IN_WORDS) {
            if constexpr (!RESULTS_MOVE) __syncthreads();
            char* const to = output + row * g.output_row + column * static_cast<Index>(sizeof(Output));
            tile.store_in_words(g.height - row, g.width - column, [&](int i) { return to + i * g.output_row; });
        }
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
modulus_tiles(const char* dividend, const char* divisor, char* output, StoredDividend dividend_number,
              StoredDivisor divisor_number, Geometry g) {
    await_launch_ahead();
    __shared__ Tile tile;
    const Index number = static_cast<Index>(blockIdx.x), row_of_tiles = g.tiles_of_row.quotient(number);
    const Index outer = g.rows_of_tiles.quotient(row_of_tiles);
    const Index row = (row_of_tiles - outer * g.rows_of_tiles.size) * TILE_HEIGHT;
    const Index column = (number - row_of_tiles * g.tiles_of_row.size) * TILE_WIDTH;
    const Place at = g.outer.place(outer);
    const Block block = {dividend + at.dividend, divisor + at.divisor, output + at.output,
                         dividend_number,        divisor_number,       row, column, g};
    bool is_alone = true;
    if constexpr (READS_WORDS) is_alone = !block.is_in_place();
    if (is_alone && is_inside(row, TILE_HEIGHT, MARGIN_OF_COLUMNS, g.height) &&
        is_inside(column, TILE_WIDTH, MARGIN_OF_ROWS, g.width)) {
        block.write<true>(tile);
    } else {
        block.write<false>(tile);
    }
}
