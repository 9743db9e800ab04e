// Tiles of elements that are dense along their columns in one array and along their rows in another, as in transposed
// matrices: threads load parts of columns, hand them over in shared memory, and take parts of rows.
//
// Shared memory holds words of a row: one element, two, or as many as a word takes. A thread has as many columns, and
// turns them in registers.
#pragma once

#include "packs.cuh"

__device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }
__device__ constexpr int larger(int a, int b) { return a > b ? a : b; }

// Where a thread's part of a tile lies, counted in such parts: along a column or row, which has `count` of them, and
// across. A warp takes 8 along, for 128 bytes at once, by 4.
struct Spot {
    int along, across;

    __device__ Spot(int number, int count) {
        const int warp = number / 32, of_line = count / 8;
        along = warp % of_line * 8 + number % 8;
        across = warp / of_line * 4 + number / 8 % 4;
    }
};

// Columns that a thread turns at a time.
template <typename T> constexpr int WIDE_OF = sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1;

// HIGH elements of a column are stored at a time, PACK of a row loaded. The banks of a row's words change from one
// thread's rows to the next thread's: the 8 by 4 threads that store words of as many rows, and the 8 by 4 that load 16
// bytes each, find them all in banks of their own.
template <typename T, int HEIGHT, int WIDTH, int HIGH, int PACK> struct TurnedTile {
    static constexpr int WIDE = WIDE_OF<T>, WORDS = WIDTH * static_cast<int>(sizeof(T)) / 4;
    static constexpr int OF_WIDE = WIDE * static_cast<int>(sizeof(T)) / 4;
    static constexpr int OF_PACK = PACK * static_cast<int>(sizeof(T)) / 4;
    static constexpr int AT_ONCE = OF_PACK < 4 ? OF_PACK : 4;
    static_assert(WORDS % 32 == 0, "rows of whole sets of banks");
    static_assert(HEIGHT / HIGH % 8 == 0 && WIDTH / PACK % 8 == 0, "warps of 8 by 4");
    using Word = Pack<unsigned, OF_WIDE>;
    using Chunk = Pack<unsigned, AT_ONCE>;
    alignas(16) unsigned word[HEIGHT][WORDS];

    __device__ unsigned* at(int row, int number) { return &word[row][number ^ row / HIGH % 8 * 4]; }

    // Columns that lie side by side, from element (row, number) on.
    __device__ void store(int row, int number, const Values<T, HIGH> (&column)[WIDE]) {
#pragma unroll
        for (int r = 0; r < HIGH; r++) {
            *reinterpret_cast<Word*>(at(row + r, number / WIDE * OF_WIDE)) = word_of_row(column, r);
        }
    }

    __device__ Values<T, PACK> load(int row, int column) {
        union Chunks {
            Values<T, PACK> values;
            Chunk chunk[OF_PACK / AT_ONCE];
            __device__ Chunks() {}
        } found;
#pragma unroll
        for (int i = 0; i < OF_PACK / AT_ONCE; i++) {
            found.chunk[i] = *reinterpret_cast<Chunk*>(at(row, column / WIDE * OF_WIDE + i * AT_ONCE));
        }
        return found.values;
    }

    __device__ static Word word_of_row(const Values<T, HIGH> (&column)[WIDE], int row) {
        Word result;
        if constexpr (sizeof(T) == 1) {
            const int i = row / 4, two = row % 4 < 2 ? 0x5140 : 0x7362;  // bytes of two rows, then halves of one
            const unsigned left = __byte_perm(column[0].word[i], column[1].word[i], two);
            const unsigned right = __byte_perm(column[2].word[i], column[3].word[i], two);
            result.element[0] = __byte_perm(left, right, row % 2 ? 0x7632 : 0x5410);
        } else if constexpr (sizeof(T) == 2) {
            const int i = row / 2;
            result.element[0] = __byte_perm(column[0].word[i], column[1].word[i], row % 2 ? 0x7632 : 0x5410);
        } else {
            union Words {
                T element;
                Word word;
                __device__ Words() {}
            } words;
            words.element = column[0].get(row);
            result = words.word;
        }
        return result;
    }
};

// Whether `count` elements exist, and what an access reads beyond them does.
template <typename Index> __device__ bool is_inside(Index first, int count, int margin, Index length) {
    return first >= margin && first + count + margin <= length;
}
