// How a thread normalizes vectors of 16 bytes that have elements of several groups.
//
// Constants that the plan sets: those of normalization.cuh.
#pragma once

#include "normalization.cuh"

__device__ constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }

// Vectors, one after the other, after which elements lie at the same places of periods of so many elements again.
__device__ constexpr int vectors_of(int period) { return period / common_divisor(period, CHUNK); }

// An element's group, of those that a vector may have, and its number in the group.
struct PlaceInGroup {
    int group;
    Index number;
};

// For vectors that all have elements of the same groups, in places with the same scale and bias.
struct Affine {
    Normalizer<Compute> normalizer[CHUNK];
    Operands<1> operands[CHUNK];

    // The groups from number `first` on have these normalizers; `place_of` says where element j of a vector lies.
    template <typename PlaceOf>
    __device__ Affine(const Normalizer<Compute>* normalizers, const Arrays& arrays, const Geometry& g, Index first,
                      PlaceOf place_of) {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const PlaceInGroup place = place_of(j);
            const Arrays of_group = arrays.at(g.kept.offsets(first + place.group));
            normalizer[j] = normalizers[place.group];
            operands[j].load_of_element(of_group.at(g.reduced.offsets(place.number)));
        }
    }

    __device__ Pack<Output, CHUNK> of(const Pack<Input, CHUNK>& x, const Parameters& p) const {
        Compute y[CHUNK];
        unpack(x, y);
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            y[j] = activated(normalizer[j].apply(y[j]), operands[j].scale.at(0), operands[j].bias.at(0), p);
        }
        return pack_of<Output>(y);
    }
};
