// Normalization where the output is dense along another axis than the input, as where one of them is transposed.
//
// Whatever kernels suit the input find the moments of all groups, in a pass that only reads. Then a block takes a tile:
// columns along the axis that is dense in the input, rows along that of the output, and everything else outside of it.
// The constants are those of normalization_turned.cuh.
#include "normalization.cuh"
#include "turned_tiles.cuh"

// A thread loads HIGH elements of each of WIDE columns, and writes PACK elements of a row.
constexpr int WIDE = WIDE_OF<Input>;
constexpr int HIGH = smaller(16 / static_cast<int>(sizeof(Input)), TILE_HEIGHT / 8);
constexpr int PACK = larger(smaller(16 / static_cast<int>(sizeof(Output)), TILE_WIDTH / 8), WIDE);
constexpr int LOADS = TILE_HEIGHT / HIGH * (TILE_WIDTH / WIDE) / BLOCK;
constexpr int STORES = TILE_HEIGHT * (TILE_WIDTH / PACK) / BLOCK;
constexpr int GROUPS = GROUPS_DOWN ? TILE_HEIGHT : GROUPS_ACROSS ? TILE_WIDTH : 1;
static_assert(LOADS > 0 && STORES > 0 && GROUPS <= BLOCK, "a part for each thread");
static_assert(BLOCK % (TILE_WIDTH / PACK * 4) == 0, "a thread's parts of rows lie below each other");

constexpr bool STREAMED = false;  // 4096 groups of 65536 floats take 0.79 ms on an H200, and 0.81 so

#include "normalization_turned.cuh"

using Tile = TurnedTile<Input, TILE_HEIGHT, TILE_WIDTH, HIGH, PACK>;
using Column = Values<Input, HIGH>;

struct Block : PartOfArrays {
    template <bool WHOLE> __device__ void load_columns(const Spot& at, Column (&columns)[WIDE]) const {
#pragma unroll
        for (int c = 0; c < WIDE; c++) {
            const Index j = at.across * WIDE + c;
            const Line<Input, INPUT_ACCESS, true, Index> line = {arrays.input + j * g.across[OF_INPUT], 0, Input()};
            if constexpr (WHOLE) columns[c] = line.template whole<HIGH>(at.along * HIGH);
            else columns[c] = line.template part<HIGH>(at.along * HIGH, 0, j < width ? height : 0);
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
                load_columns<WHOLE>(Spot(threadIdx.x + (first + k) * BLOCK, TILE_HEIGHT / HIGH), columns[k]);
            }
            if constexpr (WHOLE) __syncthreads();  // ptxas would move the last loads behind the first use
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const Spot at(threadIdx.x + (first + k) * BLOCK, TILE_HEIGHT / HIGH);
                tile.store(at.along * HIGH, at.across * WIDE, columns[k]);
            }
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
        const Spot at(threadIdx.x, TILE_WIDTH / PACK);
        const int j = at.along * PACK;
        RowOperands operands;
        if (!OPERANDS_DIFFER) load_operands<WHOLE>(0, j, operands);
        find_normalizers(normalizers);
        fill<WHOLE>(tile);
        __syncthreads();
        Normalizer<Compute> normalizer[PACK];
#pragma unroll
        for (int v = 0; v < PACK; v++) normalizer[v] = normalizers[GROUPS_ACROSS ? j + v : 0];
#pragma unroll
        for (int k = 0; k < STORES; k++) {
            const int i = at.across + k * (BLOCK / (TILE_WIDTH / PACK));
            if (OPERANDS_DIFFER) load_operands<WHOLE>(WHOLE || i < height ? i : 0, j, operands);
            if (GROUPS_DOWN) {
#pragma unroll
                for (int v = 0; v < PACK; v++) normalizer[v] = normalizers[i];
            }
            store<WHOLE>(i, j, results(tile.load(i, j), normalizer, operands));
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
    const Index row_of_tiles = number / g.tiles_across, outer = row_of_tiles / g.tiles_down;
    const Index row = (row_of_tiles - outer * g.tiles_down) * TILE_HEIGHT;
    const Index column = (number - row_of_tiles * g.tiles_across) * TILE_WIDTH;
    Offsets first = g.outer.offsets(outer);
#pragma unroll
    for (int a = 0; a < ARRAYS; a++) first.of[a] += row * g.down[a] + column * g.across[a];
    const Arrays all = {input, output, scale, bias, scale_number, bias_number, moments, nullptr};
    const Arrays arrays = all.at(first);
    const Block block = {{arrays, g, p, g.height - row, g.width - column}};
    if (is_inside(row, TILE_HEIGHT, margin_of<Input>(INPUT_ACCESS), g.height) &&
        is_inside(column, TILE_WIDTH, 0, g.width)) {
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
