// A block's part of arrays of which the input is dense along the columns of a tile and the output along its rows, and
// everything else lies outside of it.
//
// Constants that the plan sets, beside those of normalization.cuh:
//     INPUT_ACCESS                  how columns are loaded: PACKED or SHIFTED (packs.cuh)
//     SCALE_ACCESS, BIAS_ACCESS     along rows: PACKED, STRIDED, ONE or NUMBER
//     OUTPUT_PACKED                 rows of the output begin at multiples of 16 bytes
//     SCALE_DOWN, BIAS_DOWN         they change from row to row
//     GROUPS_DOWN, GROUPS_ACROSS    a tile has groups side by side along its columns, its rows, or neither
//     TILE_HEIGHT, TILE_WIDTH       elements of a column and of a row; a row takes a multiple of 128 bytes
//     BLOCK                         threads of a block
//     OUTER_RANK                    axes outside of the tiles, 1 at least
// Whoever includes this says how many elements of a row a thread writes, PACK, and whether they leave the cache before
// anything else does: STREAMED.
#pragma once

#include "normalization.cuh"
#include "turned_tiles.cuh"

struct TurnedGeometry {
    Index groups;
    Index height, width, tiles_down, tiles_across;  // elements of a column and of a row, and the tiles that take them
    Index down[ARRAYS], across[ARRAYS];             // strides along columns and rows
    Axes<OUTER_RANK> outer;
};

constexpr bool OPERANDS_DIFFER = SCALE_DOWN || BIAS_DOWN;

// Scale or bias of PACK elements of a row.
template <typename Stored, int KIND, int ACCESS, bool ALIGNED> struct RowOperand {
    using Element = typename Select<KIND == OF_ALL, Compute, Stored>::type;
    Values<Element, PACK> values;

    template <bool WHOLE> __device__ void load(const char* row, double number, Index step, Index first, Index width) {
        if constexpr (KIND != NONE) {
            Line<Element, ACCESS, ALIGNED, Index> line = {row, step, Element()};
            if constexpr (KIND == OF_ALL) line.number = static_cast<Compute>(number);
            if constexpr (WHOLE) values = line.template whole<PACK>(first);
            else values = line.template part<PACK>(first, 0, width);
        }
    }
    __device__ Compute at(int i) const {
        if constexpr (KIND == NONE) return 0;
        else return widen(convert<Compute>(values.get(i)));
    }
};

struct RowOperands {
    RowOperand<SCALE, HAS_SCALE, SCALE_ACCESS, SCALE_ALIGNED> scale;
    RowOperand<BIAS, HAS_BIAS, BIAS_ACCESS, BIAS_ALIGNED> bias;
};

// From the first element of a tile on. WHOLE tiles can be loaded and stored in packs.
struct PartOfArrays {
    const Arrays& arrays;
    const TurnedGeometry& g;
    const Parameters& p;
    Index height, width;  // from there on

    template <bool WHOLE> __device__ void load_operands(Index i, Index j, RowOperands& operands) const {
        const char *scale = arrays.scale + i * g.down[OF_SCALE], *bias = arrays.bias + i * g.down[OF_BIAS];
        operands.scale.template load<WHOLE>(scale, arrays.scale_number, g.across[OF_SCALE], j, width);
        operands.bias.template load<WHOLE>(bias, arrays.bias_number, g.across[OF_BIAS], j, width);
    }

    __device__ Pack<Output, PACK> results(const Values<Input, PACK>& x, const Normalizer<Compute> (&normalizer)[PACK],
                                          const RowOperands& operands) const {
        Compute y[PACK];
#pragma unroll
        for (int v = 0; v < PACK; v++) {
            const Compute normal = normalizer[v].apply(widen(convert<Compute>(x.get(v))));
            y[v] = activated(normal, operands.scale.at(v), operands.bias.at(v), p);
        }
        return pack_of<Output>(y);
    }

    template <bool WHOLE> __device__ void store(Index i, Index j, const Pack<Output, PACK>& result) const {
        char* to = arrays.output + i * g.down[OF_OUTPUT] + j * static_cast<Index>(sizeof(Output));
        if (OUTPUT_PACKED && (WHOLE || (i < height && j + PACK <= width))) {
            auto* pack = reinterpret_cast<Pack<Output, PACK>*>(to);
            if constexpr (STREAMED) store_streaming(pack, result);
            else *pack = result;
        } else {
#pragma unroll
            for (int v = 0; v < PACK; v++) {
                if (WHOLE || (i < height && j + v < width)) reinterpret_cast<Output*>(to)[v] = result.element[v];
            }
        }
    }
};
