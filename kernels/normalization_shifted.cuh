// Rows of a warp in a run that begins anywhere, moved in whole pieces of 16 bytes.
//
// A lane's chunk of a row lies in two aligned pieces. Each lane moves the one that its chunk begins in, and lanes
// exchange what they have of each other's chunks: lane 31 with lane 0 in the next row, which follows. What fills no
// piece, at either end of the warp's rows, is moved element by element, so that nothing else is touched.
//
// Constants that the plan sets: those of normalization_chunks.cuh.
#pragma once

#include "normalization_chunks.cuh"

constexpr int PIECE_BYTES = 16, ROW_BYTES = LANES * PIECE_BYTES;

static_assert(sizeof(Chunk) == PIECE_BYTES, "a piece for each chunk");

// Whether results could be stored so: those of one run that begins at any element, or at any word.
constexpr bool MAY_BE_STORED_SHIFTED = !OUTPUT_PACKED && OUTPUT_STEP > 0 && sizeof(Result) == PIECE_BYTES;

// How the rows' chunks lie among the pieces.
struct Shifting {
    int within;  // bytes of a piece before the chunk that begins in it

    __device__ Shifting(const char* rows) : within(static_cast<int>(reinterpret_cast<size_t>(rows) % PIECE_BYTES)) {}

    // The piece in which the lane's chunk of the first row begins.
    template <typename Char> __device__ Char* piece(Char* rows) const {
        return rows + lane_index() * PIECE_BYTES - within;
    }
    // Whether the lane's piece has others' bytes: the first one of all.
    __device__ bool is_cut(int row) const { return within > 0 && row == 0 && lane_index() == 0; }

    // Whether element j of this chunk lies in no whole piece: at the begin of the first row or the end of the last.
    template <typename T> __device__ bool is_single(int j, bool first, bool last) const {
        const bool begins_here = j * static_cast<int>(sizeof(T)) < PIECE_BYTES - within;
        return within > 0 && ((first && lane_index() == 0 && begins_here) ||
                              (last && lane_index() == LANES - 1 && !begins_here));
    }
};

// Rows that exist. All pieces are asked for before the first is used.
template <int COUNT> __device__ void load_shifted_rows(const char* rows, Chunk (&chunk)[COUNT]) {
    constexpr int SIZE = sizeof(Input);
    using Piece = PieceOf<PIECE_BYTES>;
    const Shifting shifting(rows);
    const char* const from = shifting.piece(rows);
    const char* const ends = rows + (lane_index() == 0 ? 0 : COUNT * ROW_BYTES - PIECE_BYTES);
    Piece piece[COUNT];
#pragma unroll
    for (int r = 0; r < COUNT; r++) {
        piece[r] = {};
        if (!shifting.is_cut(r)) piece[r] = load_items<EVICTION, Piece>(from + r * ROW_BYTES);
    }
    Chunk single = {};
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        if (shifting.is_single<Input>(j, true, true)) single.element[j] = load_element<Input, true>(ends + j * SIZE);
    }
#pragma unroll
    for (int r = 0; r < COUNT; r++) {
        const bool first = r == 0, last = r == COUNT - 1;
        const Piece given = !last && lane_index() == 0 ? piece[last ? r : r + 1] : piece[r];
        const Piece high = shuffle(given, (lane_index() + 1) % LANES);
        InWords<Chunk, Piece> taken;
        taken.words = bytes_across<SIZE>(piece[r], high, static_cast<unsigned>(shifting.within));
        chunk[r] = taken.items;
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (shifting.is_single<Input>(j, first, last)) chunk[r].element[j] = single.element[j];
        }
    }
}

// Stores rows one after the other.
struct ShiftedStores {
    using Piece = PieceOf<PIECE_BYTES>;
    static constexpr int SIZE = sizeof(Output);

    char* rows;
    Shifting shifting;
    Piece kept;  // of the row before, in lane 0 of the first row

    __device__ ShiftedStores(char* rows) : rows(rows), shifting(rows), kept() {}

    __device__ void store(int row, const Result& result) {
        InWords<Result, Piece> given;
        given.items = result;
        const bool shifted = shifting.within > 0;
        const Piece before = shuffle(shifted && lane_index() == LANES - 1 ? kept : given.words,
                                     (lane_index() + LANES - shifted) % LANES);
        const unsigned offset = static_cast<unsigned>((PIECE_BYTES - shifting.within) % PIECE_BYTES);
        const Piece piece = bytes_across<SIZE>(before, given.words, offset);
        if (!shifting.is_cut(row)) *reinterpret_cast<Piece*>(shifting.piece(rows) + row * ROW_BYTES) = piece;
        if (row == 0 || lane_index() > 0) kept = given.words;
    }

    // What is left, once all `count` rows were stored.
    __device__ void finish(int count) const {
        char* const ends = rows + (lane_index() == 0 ? 0 : count * ROW_BYTES - PIECE_BYTES);
        InWords<Result, Piece> left;
        left.words = kept;
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (shifting.is_single<Output>(j, true, true)) {
                *reinterpret_cast<Output*>(ends + j * SIZE) = left.items.element[j];
            }
        }
    }
};
