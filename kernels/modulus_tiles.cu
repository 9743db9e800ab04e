// The truncated modulus where an operand is dense along another axis than the output, as transposed matrices are.
//
// A block takes a square of SIDE by SIDE elements: rows along the axis that is dense in the output, columns along that
// of the operand. Such an operand is loaded along the columns, so that a warp reads neighbours, and handed over in
// shared memory.
//
// Constants that the plan sets, beside those of modulus.cuh:
//     DIVIDEND_ACCESS, DIVISOR_ACCESS        NUMBER, STRIDED or TURNED; all elements are aligned
//     SIDE                                   a multiple of 32
#include "modulus.cuh"

struct Geometry {
    Count rows_of_tiles, tiles_of_row;
    Index height, width;                                           // elements of a column and of a row
    Index dividend_row, dividend_step, divisor_row, divisor_step;  // from a row, an element to the next, in bytes
    Index output_row;
    Space outer;
};

constexpr int ELEMENTS = SIDE * SIDE / BLOCK, ITEMS = ELEMENTS < 16 ? ELEMENTS : 16;

// Padded to an odd number of words, so that the 32 elements of a column lie in 32 banks.
template <typename Stored> struct Tile {
    static constexpr int PAD = sizeof(Stored) < 4 ? 4 / sizeof(Stored) : 1;
    Stored element[SIDE][SIDE + PAD];
};

// A block's part of the arrays.
struct Part {
    int height, width;

    __device__ bool has(int row, int column) const { return row < height && column < width; }
};

template <typename Stored>
__device__ void load_turned(Tile<Stored>& tile, const char* from, Index step, const Part& part) {
#pragma unroll 1
    for (int first = threadIdx.x; first < SIDE * SIDE; first += ITEMS * BLOCK) {
        Stored loaded[ITEMS];
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            const int column = (first + k * BLOCK) / SIDE, row = (first + k * BLOCK) % SIDE;
            const char* from_column = from + column * step;
            if (part.has(row, column)) loaded[k] = reinterpret_cast<const Stored*>(from_column)[row];
        }
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            const int column = (first + k * BLOCK) / SIDE, row = (first + k * BLOCK) % SIDE;
            if (part.has(row, column)) tile.element[row][column] = loaded[k];
        }
    }
}

template <int ACCESS, typename Stored>
__device__ Stored load(const Tile<Stored>& tile, int row, int column, const char* from, Stored number) {
    if constexpr (ACCESS == NUMBER) return number;
    else if constexpr (ACCESS == TURNED) return tile.element[row][column];
    else return *reinterpret_cast<const Stored*>(from);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
modulus_tiles(const char* dividend, const char* divisor, char* output, StoredDividend dividend_number,
              StoredDivisor divisor_number, Geometry g) {
    __shared__ Tile<StoredDividend> dividend_tile;
    __shared__ Tile<StoredDivisor> divisor_tile;
    const Index tile = static_cast<Index>(blockIdx.x), row_of_tiles = g.tiles_of_row.quotient(tile);
    const Index outer = g.rows_of_tiles.quotient(row_of_tiles);
    const Index row = (row_of_tiles - outer * g.rows_of_tiles.size) * SIDE;
    const Index column = (tile - row_of_tiles * g.tiles_of_row.size) * SIDE;
    const Part part = {static_cast<int>(g.height - row < SIDE ? g.height - row : SIDE),
                       static_cast<int>(g.width - column < SIDE ? g.width - column : SIDE)};
    const Place at = g.outer.place(outer);
    dividend += at.dividend + row * g.dividend_row + column * g.dividend_step;
    divisor += at.divisor + row * g.divisor_row + column * g.divisor_step;
    output += at.output + row * g.output_row + column * static_cast<Index>(sizeof(Output));

    if constexpr (DIVIDEND_ACCESS == TURNED) load_turned(dividend_tile, dividend, g.dividend_step, part);
    if constexpr (DIVISOR_ACCESS == TURNED) load_turned(divisor_tile, divisor, g.divisor_step, part);
    __syncthreads();

#pragma unroll 1
    for (int first = threadIdx.x; first < SIDE * SIDE; first += ITEMS * BLOCK) {
        Values<StoredDividend, ITEMS> x = filled_with<ITEMS>(dividend_number);
        Values<StoredDivisor, ITEMS> y = filled_with<ITEMS>(divisor_number);
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            const int i = (first + k * BLOCK) / SIDE, j = (first + k * BLOCK) % SIDE;
            if (!part.has(i, j)) continue;
            const char* x_from = dividend + i * g.dividend_row + j * g.dividend_step;
            const char* y_from = divisor + i * g.divisor_row + j * g.divisor_step;
            x.set(k, load<DIVIDEND_ACCESS>(dividend_tile, i, j, x_from, dividend_number));
            y.set(k, load<DIVISOR_ACCESS>(divisor_tile, i, j, y_from, divisor_number));
        }
        const auto result = outputs_of<DIVISOR_ACCESS == NUMBER>(x, y);
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            const int i = (first + k * BLOCK) / SIDE, j = (first + k * BLOCK) % SIDE;
            if (part.has(i, j)) reinterpret_cast<Output*>(output + i * g.output_row)[j] = result.get(k);
        }
    }
}
