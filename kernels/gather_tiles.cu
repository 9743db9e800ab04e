// A dense copy of an array that is dense along another axis than its last one, as transposed images are.
//
// A block takes a tile: columns along the axis that is dense in the array, rows along that of the copy. Threads load
// parts of columns and hand them over in shared memory to those that write parts of rows (turned_tiles.cuh).
//
// Constants that the plan sets:
//     ELEMENT                    an unsigned type of the elements' size
//     INPUT_ACCESS               how columns are loaded: PACKED or SHIFTED (packs.cuh)
//     COPY_PACKED                rows of the copy begin at multiples of 16 bytes
//     TILE_HEIGHT, TILE_WIDTH    elements of a column and of a row; a row takes a multiple of 128 bytes
//     BLOCK                      threads of a block
//     EVICTION                   the array's: intrinsics.cuh
//     OUTER_RANK, INDEX          axes outside of the tiles, 1 at least; int or long long
#include "layout.cuh"
#include "turned_tiles.cuh"

using Element = ELEMENT;

struct Geometry {
    Index height, width, tiles_down, tiles_across;  // elements of a column and of a row, and the tiles that take them
    Index input_step, copy_row;                     // to the next column of the array, the next row of the copy
    Layout<OUTER_RANK> input_outer, copy_outer;
};

// A thread loads HIGH elements of each of WIDE columns, and writes PACK elements of a row.
constexpr int SIZE = sizeof(Element), WIDE = WIDE_OF<Element>;
constexpr int HIGH = smaller(16 / SIZE, TILE_HEIGHT / 8), PACK = larger(smaller(16 / SIZE, TILE_WIDTH / 8), WIDE);
constexpr int LOADS = TILE_HEIGHT / HIGH * (TILE_WIDTH / WIDE) / BLOCK;
constexpr int STORES = TILE_HEIGHT * (TILE_WIDTH / PACK) / BLOCK;
static_assert(LOADS > 0 && STORES > 0, "a part for each thread");

using Tile = TurnedTile<Element, TILE_HEIGHT, TILE_WIDTH, HIGH, PACK>;
using Column = Values<Element, HIGH>;

// From the first element of a tile on, and what exists of it from there. WHOLE tiles are moved in packs.
struct Part {
    const char* input;
    char* copy;
    const Geometry& g;
    Index height, width;

    template <bool WHOLE> __device__ void load(int i, int j, Column (&columns)[WIDE]) const {
#pragma unroll
        for (int c = 0; c < WIDE; c++) {
            const Line<Element, INPUT_ACCESS, true, Index, EVICTION> line = {input + (j + c) * g.input_step, 0, 0};
            if constexpr (WHOLE) columns[c] = line.template whole<HIGH>(i);
            else columns[c] = line.template part<HIGH>(i, 0, j + c < width ? height : 0);
        }
    }

    // All loads of a WHOLE tile come before the first use.
    template <bool WHOLE> __device__ void fill(Tile& tile) const {
        constexpr int AT_ONCE = WHOLE ? LOADS : 1;
#pragma unroll 1
        for (int first = 0; first < LOADS; first += AT_ONCE) {
            Column columns[AT_ONCE][WIDE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const Spot at(threadIdx.x + (first + k) * BLOCK, TILE_HEIGHT / HIGH);
                load<WHOLE>(at.along * HIGH, at.across * WIDE, columns[k]);
            }
            if constexpr (WHOLE) __syncthreads();  // ptxas would move the last loads behind the first use
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const Spot at(threadIdx.x + (first + k) * BLOCK, TILE_HEIGHT / HIGH);
                tile.store(at.along * HIGH, at.across * WIDE, columns[k]);
            }
        }
    }

    template <bool WHOLE> __device__ void store(Tile& tile) const {
#pragma unroll
        for (int k = 0; k < STORES; k++) {
            const Spot at(threadIdx.x + k * BLOCK, TILE_WIDTH / PACK);
            const int i = at.across, j = at.along * PACK;
            char* const row = copy + i * g.copy_row;
            const auto values = tile.load(i, j);
            if constexpr (WHOLE) store_whole<COPY_PACKED>(row + j * SIZE, values);
            else if (i < height) store_part(row, static_cast<Index>(j), width, values);
        }
    }

    template <bool WHOLE> __device__ void move(Tile& tile) const {
        fill<WHOLE>(tile);
        __syncthreads();
        store<WHOLE>(tile);
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
gather_tiles(const char* input, char* copy, Geometry g) {
    await_launch_ahead();
    __shared__ Tile tile;
    const Index number = static_cast<Index>(blockIdx.x), row_of_tiles = number / g.tiles_across;
    const Index outer = row_of_tiles / g.tiles_down;
    const Index row = (row_of_tiles - outer * g.tiles_down) * TILE_HEIGHT;
    const Index column = (number - row_of_tiles * g.tiles_across) * TILE_WIDTH;
    const Part part = {input + g.input_outer.offset(outer) + row * SIZE + column * g.input_step,
                       copy + g.copy_outer.offset(outer) + row * g.copy_row + column * SIZE,
                       g, g.height - row, g.width - column};
    if (is_inside(row, TILE_HEIGHT, margin_of<Element>(INPUT_ACCESS), g.height) &&
        is_inside(column, TILE_WIDTH, 0, g.width)) {
        part.move<true>(tile);
    } else {
        part.move<false>(tile);
    }
}
