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
constexpr int HIGH = moved_at_once(SIZE, TILE_HEIGHT), PACK = larger(moved_at_once(SIZE, TILE_WIDTH), WIDE);

using Tile = TurnedTile<Element, TILE_HEIGHT, TILE_WIDTH, HIGH, PACK, BLOCK>;
using Column = Values<Element, HIGH>;

// From the first element of a tile on, and what exists of it from there. WHOLE tiles are moved in packs.
struct Block {
    const char* input;
    char* copy;
    const Geometry& g;
    Index height, width;

    template <bool WHOLE> __device__ void load(const TilePart& part, Column (&columns)[WIDE]) const {
#pragma unroll
        for (int c = 0; c < WIDE; c++) {
            const int j = part.column + c;
            const Line<Element, INPUT_ACCESS, true, Index, EVICTION> line = {input + j * g.input_step, 0, 0};
            if constexpr (WHOLE) columns[c] = line.template whole<HIGH>(part.row);
            else columns[c] = line.template whole_or_part<HIGH>(part.row, height - g.height, j < width ? height : 0);
        }
    }

    template <bool WHOLE> __device__ void store(const TilePart& part, const Values<Element, PACK>& values) const {
        char* const row = copy + part.row * g.copy_row;
        if (WHOLE || (part.row < height && part.column + PACK <= width)) {
            store_whole<true>(row + part.column * SIZE, values);
        } else if (part.row < height && part.column < width) {
            store_part(row, static_cast<Index>(part.column), width, values);
        }
    }

    template <bool WHOLE> __device__ void move(Tile& tile) const {
        tile.fill<WHOLE>([&](const TilePart& part, Column(&columns)[WIDE]) { load<WHOLE>(part, columns); });
        __syncthreads();
        if constexpr (COPY_PACKED) {
#pragma unroll
            for (int k = 0; k < Tile::STORES; k++) {
                const TilePart part = Tile::of_row(k);
                store<WHOLE>(part, tile.load(part));
            }
        } else {
            tile.store_in_words(height, width, [&](int row) { return copy + row * g.copy_row; });
        }
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
gather_tiles(const char* input, char* copy, Geometry g) {
    await_launch_ahead();
    __shared__ Tile tile;
    const TileOfBlock<Index, TILE_HEIGHT, TILE_WIDTH> at(static_cast<Index>(blockIdx.x), g.tiles_down, g.tiles_across);
    const Block block = {input + g.input_outer.offset(at.outer) + at.row * SIZE + at.column * g.input_step,
                         copy + g.copy_outer.offset(at.outer) + at.row * g.copy_row + at.column * SIZE,
                         g, g.height - at.row, g.width - at.column};
    if (is_inside(at.row, TILE_HEIGHT, margin_of<Element>(INPUT_ACCESS), g.height) &&
        is_inside(at.column, TILE_WIDTH, 0, g.width)) {
        block.move<true>(tile);
    } else {
        block.move<false>(tile);
    }
}
