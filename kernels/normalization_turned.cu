// Normalization where the output is dense along another axis than the input, as where one of them is transposed.
//
// Whatever kernels suit the input find the moments of all groups, in a pass that only reads. Then a block takes a tile:
// columns along the axis that is dense in the input, rows along that of the output, and everything else outside of it.
// The constants are those of normalization_turned.cuh.
#include "normalization.cuh"
#include "turned_tiles.cuh"

// A thread loads HIGH elements of each of WIDE columns, and writes PACK elements of a row.
constexpr int WIDE = WIDE_OF<Input>;
constexpr int HIGH = moved_at_once(sizeof(Input), TILE_HEIGHT);
// Of rows that begin anywhere neighbouring threads write neighbours: (32, 57, 57, 255) halves, normalized over 0, 1, 2
// into channels first, take an H200 93 us so, 100 where results replace what was loaded and leave in words, and 182
// where a thread writes 8.
constexpr int PACK = OUTPUT_PACKED ? larger(moved_at_once(sizeof(Output), TILE_WIDTH), WIDE) : WIDE;
constexpr int GROUPS = GROUPS_DOWN ? TILE_HEIGHT : GROUPS_ACROSS ? TILE_WIDTH : 1;
static_assert(GROUPS <= BLOCK, "a thread for each group");

constexpr bool STREAMED = false;  // 4096 groups of 65536 floats take 0.79 ms on an H200, and 0.81 so

#include "normalization_turned.cuh"

using Tile = TurnedTile<Input, TILE_HEIGHT, TILE_WIDTH, HIGH, PACK, BLOCK>;
using Column = Values<Input, HIGH>;
static_assert(BLOCK % (TILE_WIDTH / PACK * (LANES / Tile::PACKS_ALONG)) == 0, "a thread's parts lie below each other");

struct Block : PartOfArrays {
    template <bool WHOLE> __device__ void load_columns(const TilePart& part, Column (&columns)[WIDE]) const {
#pragma unroll
        for (int c = 0; c < WIDE; c++) {
            const Index j = part.column + c;
            const Line<Input, INPUT_ACCESS, true, Index> line = {arrays.input + j * g.across[OF_INPUT], 0, Input()};
            if constexpr (WHOLE) columns[c] = line.template whole<HIGH>(part.row);
            else columns[c] = line.template whole_or_part<HIGH>(part.row, height - g.height, j < width ? height : 0);
        }
    }

    __device__ void find_normalizers(Normalizer<Compute> (&normalizers)[GROUPS]) const {
        const int thread = static_cast<int>(threadIdx.x);
        if (thread >= GROUPS) return;
        const Index step = GROUPS_DOWN ? g.down[OF_MOMENTS] : g.across[OF_MOMENTS];
        const Index group = !GROUPS_DOWN && !GROUPS_ACROSS ? 0 : thread < (GROUPS_DOWN ? height : width) ? thread : 0;
        const Moments moments = *reinterpret_cast<const Moments*>(arrays.mean + group * step);
        normalizers[thread] = Normalizer<Compute>::of(moments, p);
    }

    // The parts of a thread lie below each other.
    template <bool WHOLE> __device__ void write(Tile& tile, Normalizer<Compute> (&normalizers)[GROUPS]) const {
        const TilePart first = Tile::of_row(0);
        const int j = first.column;
        RowOperands operands;
        if (!OPERANDS_DIFFER) load_operands<WHOLE>(0, j, operands);
        find_normalizers(normalizers);
        tile.fill<WHOLE>([&](const TilePart& part, Column(&columns)[WIDE]) { load_columns<WHOLE>(part, columns); });
        __syncthreads();
        Normalizer<Compute> normalizer[PACK];
#pragma unroll
        for (int v = 0; v < PACK; v++) normalizer[v] = normalizers[GROUPS_ACROSS ? j + v : 0];
#pragma unroll
        for (int k = 0; k < Tile::STORES; k++) {
            const int i = first.row + k * (BLOCK / (TILE_WIDTH / PACK));
            if (OPERANDS_DIFFER) load_operands<WHOLE>(WHOLE || i < height ? i : 0, j, operands);
            if (GROUPS_DOWN) {
#pragma unroll
                for (int v = 0; v < PACK; v++) normalizer[v] = normalizers[i];
            }
            store<WHOLE>(i, j, results(tile.load({i, j}), normalizer, operands));
        }
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
apply_turned(const char* input, char* output, const char* scale, const char* bias, double scale_number,
             double bias_number, char* moments, TurnedGeometry g, Parameters p) {
    await_launch_ahead();
    __shared__ Tile tile;
    __shared__ Normalizer<Compute> normalizers[GROUPS];
    const Index number = static_cast<Index>(gridDim.x) - 1 - static_cast<Index>(blockIdx.x);  // last read, first
    const TileOfBlock<Index, TILE_HEIGHT, TILE_WIDTH> at(number, g.tiles_down, g.tiles_across);
    Offsets first = g.outer.offsets(at.outer);
#pragma unroll
    for (int a = 0; a < ARRAYS; a++) first.of[a] += at.row * g.down[a] + at.column * g.across[a];
    const Arrays all = {input, output, scale, bias, scale_number, bias_number, moments, nullptr};
    const Arrays arrays = all.at(first);
    const Block block = {{arrays, g, p, g.height - at.row, g.width - at.column}};
    if (is_inside(at.row, TILE_HEIGHT, margin_of<Input>(INPUT_ACCESS), g.height) &&
        is_inside(at.column, TILE_WIDTH, 0, g.width)) {
        block.write<true>(tile, normalizers);
    } else {
        block.write<false>(tile, normalizers);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
store_statistics(const Moments* moments, char* mean, char* variance, TurnedGeometry g, Parameters p) {
    await_launch_ahead();
    const Index group = static_cast<Index>(blockIdx.x) * BLOCK + static_cast<Index>(threadIdx.x);
    if (group >= g.groups) return;
    const Index offset = group * static_cast<Index>(sizeof(MOMENT));
    store_moments<MOMENT>(mean + offset, variance + offset, moments[group], p);
}
