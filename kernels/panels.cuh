// Panels: all that lies between two neighbours of an outer axis, as the steps of a sequence of a few channels.
//
// A panel is one run of memory, and so are some that follow each other. A block moves theirs in whole pieces of 16
// bytes, to shared memory and back, however narrow the panel is. There its threads take elements at any stride.
//
// A staged run lies as in memory, from the piece on that it begins in. Where lanes would meet in a bank, those whose
// elements are a multiple of 128 bytes apart, FREE bytes stay free behind each 128.
//
// Constants that the plan sets:
//     INNER      columns of a panel
//     PANELS     of a block, at the most
//     LENGTH     steps of a column that the compiler shall know; else 0
//     THREADS    of a block
//     PADDED     1: some bytes stay free
//     ALIKE      1: outputs are as large as inputs and lie as far from a multiple of 16 bytes, so they take their place
// Dynamic shared memory: the staged inputs, and unless ALIKE the outputs.
#pragma once

#include "layout.cuh"
#include "runs.cuh"

template <typename T> struct StagedRun {
    using Piece = PieceOf<16>;
    static constexpr int SIZE = sizeof(T), OF_PIECE = 16 / SIZE, FREE = SIZE < 4 ? 4 : SIZE;
    using Word = typename Select<PADDED, typename WordsOf<FREE>::type, Piece>::type;  // with which a piece is staged
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

struct Staging {
    int outputs;  // where in shared memory they begin
};

// A block's panels.
template <typename Input, typename Output> struct PanelsOf {
    Index first;  // the number of the first
    int length, count;
    StagedRun<Input> inputs;
    StagedRun<Output> outputs;

    // Of `all` panels, whose columns have so many steps.
    __device__ PanelsOf(const char* input, char* output, Index all, Index length, unsigned char* shared, Staging bytes)
        : PanelsOf(input, output, all, LENGTH > 0 ? LENGTH : static_cast<int>(length), reinterpret_cast<char*>(shared),
                   bytes, static_cast<Index>(blockIdx.x) * PANELS) {}

    __device__ PanelsOf(const char* input, char* output, Index all, int length, char* staged, Staging bytes,
                        Index first)
        : first(first), length(length), count(up_to(all - first, PANELS)),
          inputs(staged, here<Input>(input), count * length * INNER),
          outputs(staged + bytes.outputs, here<Output>(output), count * length * INNER) {
        if constexpr (ALIKE) outputs.before = inputs.before;  // so the compiler finds one place for both
    }

    template <typename T, typename Char> __device__ Char* here(Char* array) const {
        return array + first * length * INNER * static_cast<int>(sizeof(T));
    }

    // By all threads of the block.
    template <Eviction HOW> __device__ void load(const char* input) const {
        inputs.template load<HOW>(here<Input>(input));
        __syncthreads();
    }
    __device__ void store(char* output) const {
        __syncthreads();
        outputs.store(here<Output>(output));
    }

    // The number of a step in the runs.
    __device__ int element(int panel, int column, int step) const { return (panel * length + step) * INNER + column; }
};
