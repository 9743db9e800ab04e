// Running sums and products of lines of a few chunks, of one byte or two an element, that lie end to end from a
// multiple of 16 bytes on. Each lane has some lines, whole words of them, so that no lane has to know of another.
//
// Constants that the plan sets, beside those of scan_rows.cuh, of which WARPS is 1:
//     LANE_LINES      lines that a lane has all of
//     LENGTH          elements of a line
#include "ahead.cuh"
#include "scan_rows.cuh"

constexpr int SHARE = LANE_LINES * LENGTH;  // elements of a lane
static_assert(LENGTH < 4 * CHUNK, "the prefixes of up to three whole chunks are those from left to right");

struct Share {
    static constexpr int WORDS = (SHARE * static_cast<int>(sizeof(Input)) + 3) / 4;
    static constexpr int AT_ONCE = WORDS % 4 == 0 ? 4 : WORDS % 2 == 0 ? 2 : 1;
    using Words = Pack<unsigned, AT_ONCE>;

    unsigned word[WORDS];

    __device__ void load(const char* from) {
#pragma unroll
        for (int i = 0; i < WORDS; i += AT_ONCE) {
            const Words words = *reinterpret_cast<const Words*>(from + i * 4);
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) word[i + k] = words.element[k];
        }
    }

    __device__ void store(char* to) const {
#pragma unroll
        for (int i = 0; i < WORDS; i += AT_ONCE) {
            Words words;
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) words.element[k] = word[i + k];
            *reinterpret_cast<Words*>(to + i * 4) = words;
        }
    }

    template <typename T> __device__ T get(int i) const {
        constexpr int SIZE = sizeof(T);
        return element_of<T>(word[i * SIZE / 4] >> i * SIZE % 4 * 8 & ((1u << 8 * SIZE % 32) - 1));
    }

    // Where there were zeros.
    template <typename T> __device__ void put(int i, T value) {
        constexpr int SIZE = sizeof(T);
        word[i * SIZE / 4] |= bits_in_word(value) << i * SIZE % 4 * 8;
    }
};

// Its results, of elements as large as they were.
template <typename Stored> __device__ Share scanned(const Share& share) {
    Share result = {};
    if constexpr (sizeof(Stored) <= 2 && sizeof(Stored) == sizeof(Output)) {
#pragma unroll
        for (int line = 0; line < LANE_LINES; line++) {
            Accumulator sum = Operation::template first<Accumulator>(), of_chunk = sum, of_chunks = sum;
#pragma unroll
            for (int number = 0; number < LENGTH; number++) {
                const int i = line * LENGTH + (REVERSE ? LENGTH - 1 - number : number);
                const Accumulator before = sum, value = widen(convert<Value>(share.get<Stored>(i)));
                of_chunk = number % CHUNK == 0 ? value : Operation::combine(of_chunk, value);
                sum = number < CHUNK ? of_chunk : Operation::combine(of_chunks, of_chunk);
                if (number % CHUNK == CHUNK - 1) of_chunks = sum;
                result.put(i, convert<Output>(convert<Value>(EXCLUSIVE ? before : sum)));
            }
        }
    }
    return result;
}

constexpr int TINY_LINES = ROWS * LANES * LANE_LINES;  // of a warp

struct TinyRun {
    static constexpr int PIECES = (TINY_LINES * LENGTH * static_cast<int>(sizeof(Input)) + 15) / 16;
    static constexpr int OF_PIECE = 16 / sizeof(Input), TURNS = (PIECES + LANES - 1) / LANES;

    PieceOf<16> piece[PIECES];

    __device__ char* share(int row) {
        return reinterpret_cast<char*>(piece) + (row * LANES + lane_index()) * Share::WORDS * 4;
    }

    // By all lanes of a warp: `count` elements, zeros behind them. All are loaded before the first is staged.
    __device__ void load(const char* from, int count) {
        PieceOf<16> loaded[TURNS];
        const int whole = count / OF_PIECE, last = whole * OF_PIECE + lane_index();
#pragma unroll
        for (int k = 0; k < TURNS; k++) {
            const int i = k * LANES + lane_index();
            loaded[k] = {};
            if (i < whole) loaded[k] = load_items<EVICTION, PieceOf<16>>(from + i * 16);
        }
#pragma unroll
        for (int k = 0; k < TURNS; k++) {
            const int i = k * LANES + lane_index();
            if (i < PIECES) piece[i] = loaded[k];
        }
        __syncwarp();
        if (last < count) reinterpret_cast<Input*>(piece)[last] = reinterpret_cast<const Input*>(from)[last];
        __syncwarp();
    }

    __device__ void store(char* to, int count) {
        const int whole = count / OF_PIECE, last = whole * OF_PIECE + lane_index();
        __syncwarp();
#pragma unroll
        for (int k = 0; k < TURNS; k++) {
            const int i = k * LANES + lane_index();
            if (i < whole) reinterpret_cast<PieceOf<16>*>(to)[i] = piece[i];
        }
        if (last < count) reinterpret_cast<Output*>(to)[last] = reinterpret_cast<const Output*>(piece)[last];
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
scan_tiny_lines(const char* input, char* output, Geometry g, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    __shared__ TinyRun runs[GROUPS];
    TinyRun& run = runs[threadIdx.x / LANES];
    const Index first = (static_cast<Index>(blockIdx.x) * GROUPS + threadIdx.x / LANES) * TINY_LINES;
    const int count = up_to(g.lines - first, TINY_LINES) * LENGTH;
    run.load(input + g.input_line.offset(first), count);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        Share share;
        share.load(run.share(r));
        scanned<Input>(share).store(run.share(r));
    }
    run.store(output + g.output_line.offset(first), count);
}
