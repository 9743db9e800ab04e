// A dense copy of an array whose rows lie close to each other: some channels of all, every second element, elements in
// the opposite order, or a part of each line of larger images. Most of what lies between them is in sectors that are
// fetched anyway.
//
// A block moves a tile of rows, and all between them, as one run to shared memory (staged_runs.cuh). Its threads pick
// out words of the copy, neighbours in neighbouring threads.
//
// Constants that the plan sets, beside those of staged_runs.cuh:
//     ELEMENT              an unsigned type of the elements' size
//     INNER                elements of a row
//     PITCH, ROW_STEP      from a row and from an element of it to the next, in elements of either sign; rows do not
//                          overlap
//     ROWS                 of a tile
//     WHOLE_WORDS          every tile of the copy begins with a word
//     EVICTION             the array's: intrinsics.cuh
//     OUTER_RANK, INDEX    axes outside of the rows, 1 at least; int or long long
// Dynamic shared memory: the run of a tile.
#include "layout.cuh"
#include "staged_runs.cuh"

using Element = ELEMENT;

constexpr int SIZE = sizeof(Element), OF_WORD = WHOLE_WORDS && SIZE < 4 ? 4 / SIZE : 1;

struct Geometry {
    Index rows, tiles;  // of each outer index
    Layout<OUTER_RANK> outer;
};

// Elements from the lowest in memory to the first, and to the highest, of `count` that are `step` apart.
__device__ constexpr int before_first(int count, int step) { return step < 0 ? (count - 1) * -step : 0; }
__device__ constexpr int up_to_highest(int count, int step) { return (count - 1) * (step < 0 ? -step : step); }

// The word of the copy that begins with element `number` of the tile, of which `count` exist.
__device__ void store_word(const StagedRun<Element>& run, int first, Element* to, int number, int count) {
    Pack<Element, OF_WORD> word;
#pragma unroll
    for (int i = 0; i < OF_WORD; i++) {
        const int row = (number + i) / INNER, place = first + row * PITCH + (number + i - row * INNER) * ROW_STEP;
        word.element[i] = run.element(number + i < count ? place : first);
    }
    if (number + OF_WORD <= count) {
        *reinterpret_cast<Pack<Element, OF_WORD>*>(to + number) = word;
    } else {
#pragma unroll
        for (int i = 0; i < OF_WORD; i++) {
            if (number + i < count) to[number + i] = word.element[i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
gather_rows(const char* input, char* copy, Geometry g) {
    await_launch_ahead();
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    const Index number = static_cast<Index>(blockIdx.x), outer = number / g.tiles;
    const Index begin = (number - outer * g.tiles) * ROWS;
    const int rows = up_to(g.rows - begin, ROWS), count = rows * INNER;
    const int first = before_first(rows, PITCH) + before_first(INNER, ROW_STEP);  // from the lowest element on
    const char* const from = input + g.outer.offset(outer) + (begin * PITCH - first) * SIZE;
    const StagedRun<Element> run(reinterpret_cast<char*>(dynamic_shared), from,
                                 up_to_highest(rows, PITCH) + up_to_highest(INNER, ROW_STEP) + 1);
    run.load<EVICTION>(from);
    __syncthreads();
    Element* const to = reinterpret_cast<Element*>(copy) + (outer * g.rows + begin) * INNER;
#pragma unroll 4
    for (int word = threadIdx.x; word * OF_WORD < count; word += THREADS) {
        store_word(run, first, to, word * OF_WORD, count);
    }
}
