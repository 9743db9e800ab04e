// Tiles of elements that are dense along their columns in one array and along their rows in another, as in transposed
// matrices: threads load parts of columns, hand them over in shared memory, and take parts of rows.
//
// Shared memory holds words of a row: one element, two, or as many as a word takes. A thread has as many columns, and
// turns them in registers. Rows that begin anywhere are stored in words of memory all the same, but for the first and
// last one, of which a tile may have a part only.
#pragma once

#include "packs.cuh"

__device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }
__device__ constexpr int larger(int a, int b) { return a > b ? a : b; }

// Where a thread's part of a tile lies, counted in such parts: along a column or row, which has `count` of them, and
// across. A warp takes 8 along, for 128 bytes at once, by 4; of words 32 along.
template <int OF_WARP = 8> struct Spot {
    int along, across;

    __device__ Spot(int number, int count) {
        const int warp = number / 32, of_line = count / OF_WARP;
        along = warp % of_line * OF_WARP + number % OF_WARP;
        across = warp / of_line * (32 / OF_WARP) + number % 32 / OF_WARP;
    }
};

// A part of a tile: its first element.
struct TilePart {
    int row, column;
};

// Columns that a thread turns at a time.
template <typename T> constexpr int WIDE_OF = sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1;

// Elements of `size` bytes that a thread moves at a time, of a line of so many: 16 bytes, if the line has 8 such parts.
__device__ constexpr int moved_at_once(int size, int line) { return smaller(16 / size, line / 8); }

// Elements by which those at an address lie behind the beginning of a word.
template <typename T> __device__ int lead_of_word(const char* address) {
    return static_cast<int>(reinterpret_cast<size_t>(address) % 4 / sizeof(T));
}

// A tile that THREADS fill and read. HIGH elements of a column are stored at a time, PACK of a row loaded. The banks of
// a row's words change from one thread's rows to the next thread's: the 8 by 4 threads that store words of as many
// rows, and the 8 by 4 that load 16 bytes each, find them all in banks of their own.
template <typename T, int HEIGHT, int WIDTH, int HIGH, int PACK, int THREADS> struct TurnedTile {
    static constexpr int WIDE = WIDE_OF<T>, WORDS = WIDTH * static_cast<int>(sizeof(T)) / 4;
    static constexpr int LOADS = HEIGHT / HIGH * (WIDTH / WIDE) / THREADS, STORES = HEIGHT * (WIDTH / PACK) / THREADS;
    static_assert(LOADS > 0 && STORES > 0, "a part for each thread");
    static constexpr int OF_WIDE = WIDE * static_cast<int>(sizeof(T)) / 4;
    static constexpr int OF_PACK = PACK * static_cast<int>(sizeof(T)) / 4;
    static constexpr int AT_ONCE = OF_PACK < 4 ? OF_PACK : 4;
    static_assert(WORDS % 32 == 0, "rows of whole sets of banks");
    static constexpr int WORDS_ALONG = smaller(WIDTH / WIDE, 32), PACKS_ALONG = PACK == WIDE ? WORDS_ALONG : 8;
    static_assert(HEIGHT / HIGH % 8 == 0 && WIDTH / PACK % PACKS_ALONG == 0, "whole warps");
    using Word = Pack<unsigned, OF_WIDE>;
    using Chunk = Pack<unsigned, AT_ONCE>;
    using Column = Values<T, HIGH>;
    alignas(16) unsigned word[HEIGHT][WORDS];

    // What this thread loads and writes: LOADS parts of WIDE columns, STORES of rows.
    __device__ static TilePart columns(int number) {
        const Spot<> at(threadIdx.x + number * THREADS, HEIGHT / HIGH);
        return {at.along * HIGH, at.across * WIDE};
    }
    __device__ static TilePart of_row(int number) {
        const Spot<PACKS_ALONG> at(threadIdx.x + number * THREADS, WIDTH / PACK);
        return {at.across, at.along * PACK};
    }

    // Stores what `load` puts into the WIDE columns of a part, or what `moved` makes of each. All loads of a WHOLE tile
    // come before the first use; of others two at a time would take registers that blocks of WHOLE ones need.
    template <bool WHOLE, typename Load> __device__ void fill(const Load& load) {
        fill<WHOLE, Column>(load, [](const Column& column) { return column; });
    }
    template <bool WHOLE, typename Loaded, typename Load, typename Moved>
    __device__ void fill(const Load& load, const Moved& moved) {
        constexpr int AT_ONCE = WHOLE ? LOADS : 1;
#pragma unroll 1
        for (int first = 0; first < LOADS; first += AT_ONCE) {
            Loaded loaded[AT_ONCE][WIDE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) load(columns(first + k), loaded[k]);
            if constexpr (WHOLE) __syncthreads();  // ptxas would move the last loads behind the first use
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                Column column[WIDE];
#pragma unroll
                for (int c = 0; c < WIDE; c++) column[c] = moved(loaded[k][c]);
                store(columns(first + k), column);
            }
        }
    }

    __device__ unsigned* at(int row, int number) { return &word[row][number ^ row / HIGH % 8 * 4]; }

    __device__ void store(const TilePart& part, const Column (&column)[WIDE]) {
#pragma unroll
        for (int r = 0; r < HIGH; r++) {
            *reinterpret_cast<Word*>(at(part.row + r, part.column / WIDE * OF_WIDE)) = word_of_row(column, r);
        }
    }

    __device__ Values<T, PACK> load(const TilePart& part) {
        union Chunks {
            Values<T, PACK> values;
            Chunk chunk[OF_PACK / AT_ONCE];
            __device__ Chunks() {}
        } found;
#pragma unroll
        for (int i = 0; i < OF_PACK / AT_ONCE; i++) found.chunk[i] = *chunk(part, i);
        return found.values;
    }

    // What was loaded there is of no use any more.
    template <typename Pack> __device__ void replace(const TilePart& part, const Pack& pack) {
        static_assert(sizeof(Pack) == PACK * sizeof(T), "elements of the same size");
#pragma unroll
        for (int i = 0; i < OF_PACK / AT_ONCE; i++) *chunk(part, i) = reinterpret_cast<const Chunk*>(&pack)[i];
    }

    __device__ Chunk* chunk(const TilePart& part, int i) {
        return reinterpret_cast<Chunk*>(at(part.row, part.column / WIDE * OF_WIDE + i * AT_ONCE));
    }

    // Stores the rows of which there are `height` elements down and `width` across; `row_of` says where one begins.
    template <typename Index, typename RowOf>
    __device__ void store_in_words(Index height, Index width, const RowOf& row_of) {
        const int rows = height < HEIGHT ? height : HEIGHT, columns = width < WIDTH ? width : WIDTH;
#pragma unroll 4
        for (int k = 0; k < HEIGHT * (WIDTH / WIDE) / THREADS; k++) {
            const Spot<WORDS_ALONG> at(threadIdx.x + k * THREADS, WIDTH / WIDE);
            if (at.across < rows) store_word(row_of(at.across), at.across, at.along, columns);
        }
        if constexpr (WIDE > 1) {
            for (int row = threadIdx.x; row < rows; row += THREADS) store_ends(row_of(row), row, columns);
        }
    }

    // A word of memory, which has the last elements of one word of the tile and the first of the next. Those that a row
    // has in part are left to store_ends.
    __device__ void store_word(char* to, int row, int number, int columns) {
        const unsigned* const from = at(row, number * OF_WIDE);
        if constexpr (WIDE == 1) {
            if (number < columns) reinterpret_cast<Word*>(to)[number] = *reinterpret_cast<const Word*>(from);
        } else {
            const int lead = lead_of_word<T>(to), first = number * WIDE - lead;
            const unsigned before = *at(row, (number + WORDS - 1) % WORDS);
            const unsigned word = __funnelshift_l(before, *from, lead * 8 * static_cast<int>(sizeof(T)));
            if (first < 0 || first + WIDE > columns) return;
            *reinterpret_cast<unsigned*>(to + first * static_cast<int>(sizeof(T))) = word;
        }
    }

    // What a row has of the words that it begins and ends within.
    __device__ void store_ends(char* to, int row, int columns) {
        const int lead = lead_of_word<T>(to), begin = smaller((WIDE - lead) % WIDE, columns);
        const int end = larger(columns - (columns + lead) % WIDE, begin);
        T* const elements = reinterpret_cast<T*>(to);
        for (int i = 0; i < begin; i++) elements[i] = element(row, i);
        for (int i = end; i < columns; i++) elements[i] = element(row, i);
    }

    __device__ T element(int row, int column) {
        return reinterpret_cast<const T*>(at(row, column / WIDE * OF_WIDE))[column % WIDE];
    }

    __device__ static Word word_of_row(const Column (&column)[WIDE], int row) {
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

// The tile of a block, by the first row and column, and the index of what lies outside of tiles.
template <typename Index, int HEIGHT, int WIDTH> struct TileOfBlock {
    Index outer, row, column;

    __device__ TileOfBlock(Index number, Index tiles_down, Index tiles_across) {
        const Index row_of_tiles = number / tiles_across;
        outer = row_of_tiles / tiles_down;
        row = (row_of_tiles - outer * tiles_down) * HEIGHT;
        column = (number - row_of_tiles * tiles_across) * WIDTH;
    }
};

// Whether `count` elements exist, and what an access reads beyond them does.
template <typename Index> __device__ bool is_inside(Index first, int count, int margin, Index length) {
    return first >= margin && first + count + margin <= length;
}
