// Staged runs: elements that follow each other, which a block moves in whole pieces of 16 bytes, wherever they begin,
// to shared memory and back. There its threads take them at any stride.
//
// A staged run lies as in memory, from the piece on that it begins in. Where lanes would meet in a bank, those whose
// elements are a multiple of 128 bytes apart, FREE bytes stay free behind each 128.
//
// Constants that the plan sets:
//     THREADS    of a block
//     PADDED     1: some bytes stay free, as many as lanes take at a time; 16: that is a piece
#pragma once

#include "runs.cuh"

template <typename T> struct StagedRun {
    using Piece = PieceOf<16>;
    static constexpr int SIZE = sizeof(T), OF_PIECE = 16 / SIZE, FREE = PADDED == 16 ? 16 : SIZE < 4 ? 4 : SIZE;
    using Word = typename Select<PADDED != 0, typename WordsOf<FREE>::type, Piece>::type;  // that pieces are staged in
    static constexpr int WORDS = 16 / sizeof(Word), AT_ONCE = 4;  // pieces that a thread has on their way

    char* staged;
    int before, count;        // elements of its first piece that are not in the run; of the run
    int first_piece, pieces;  // whole ones: the first, and behind the last

    // A run of so many elements at `address`.
    __device__ StagedRun(char* staged, const char* address, int count) : staged(staged), count(count) {
        before = static_cast<int>(reinterpret_cast<size_t>(address) % 16) / SIZE;
        first_piece = before > 0;
        pieces = (before + count) / OF_PIECE;
    }

    __device__ static int place(int byte) {
        return PADDED ? byte + static_cast<int>(static_cast<unsigned>(byte) / 128 * FREE) : byte;
    }

    __device__ T& element(int i) const { return *reinterpret_cast<T*>(staged + place((before + i) * SIZE)); }

    // The elements in pieces of which others have a part, one for each of some threads; `move` gets their numbers.
    template <typename Move> __device__ void move_ends(Move move) const {
        static_assert(THREADS >= 2 * OF_PIECE, "each thread has an element of an end");
        const int thread = static_cast<int>(threadIdx.x), of_first = first_piece * OF_PIECE - before;
        const int leading = of_first < count ? of_first : count;
        const int of_whole = pieces * OF_PIECE - before, behind = of_whole > leading ? of_whole : leading;
        const bool leads = thread < OF_PIECE;
        const int i = leads ? thread : behind + thread - OF_PIECE;
        if (i < (leads ? leading : count)) move(i);
    }

    // By asynchronous copies, but for the ends; by all threads of the block, each of which waits for its own.
    template <Eviction HOW> __device__ void copy(const char* address) const {
        const char* const from = address - before * SIZE;
#pragma unroll 4
        for (int i = first_piece + static_cast<int>(threadIdx.x); i < pieces; i += THREADS) {
            copy_async_beside<HOW>(staged + place(i * 16), from + i * 16);
        }
        move_ends([&](int i) { element(i) = reinterpret_cast<const T*>(address)[i]; });
    }

    // By all threads of the block.
    template <Eviction HOW> __device__ void load(const char* address) const {
        const char* const from = address - before * SIZE;
#pragma unroll 1
        for (int first = first_piece + static_cast<int>(threadIdx.x); first < pieces; first += AT_ONCE * THREADS) {
            Piece piece[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int i = first + k * THREADS;
                if (i < pieces) piece[k] = load_items<HOW, Piece>(from + i * 16);
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int i = first + k * THREADS;
                if (i >= pieces) continue;
                Word* const to = reinterpret_cast<Word*>(staged + place(i * 16));
#pragma unroll
                for (int w = 0; w < WORDS; w++) to[w] = reinterpret_cast<const Word*>(&piece[k])[w];
            }
        }
        move_ends([&](int i) { element(i) = reinterpret_cast<const T*>(address)[i]; });
    }

    __device__ void store(char* address) const {
        char* const to = address - before * SIZE;
#pragma unroll 2
        for (int i = first_piece + static_cast<int>(threadIdx.x); i < pieces; i += THREADS) {
            const Word* const from = reinterpret_cast<const Word*>(staged + place(i * 16));
            Piece piece;
#pragma unroll
            for (int w = 0; w < WORDS; w++) reinterpret_cast<Word*>(&piece)[w] = from[w];
            *reinterpret_cast<Piece*>(to + i * 16) = piece;
        }
        move_ends([&](int i) { reinterpret_cast<T*>(address)[i] = element(i); });
    }
};
