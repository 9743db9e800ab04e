// Running sums and products of lines of less than a row whose inputs begin at any element, and whose outputs lie end to
// end.
//
// Inputs are moved in words (scan_shifted.cuh). Results of all lines of a warp meet in shared memory, at the distance
// from a multiple of 16 bytes that they have in memory, and are stored in whole pieces.
//
// Constants that the plan sets: those of scan_short_lines.cuh.
#include "ahead.cuh"
#include "scan_short_lines.cuh"

struct LinesBuffer {
    // A word stays free behind every 128 bytes: else lanes that are 16 bytes apart would meet in a bank.
    static constexpr int SIZE = sizeof(Output), FREE = SIZE < 4 ? 4 : SIZE, OF_PIECE = SIZE < 16 ? 16 / SIZE : 1;
    static constexpr int PIECES = LINES_OF_WARP * LENGTH / OF_PIECE + 2, BYTES = PIECES * 16;
    __align__(16) char bytes[BYTES + (BYTES + 127) / 128 * FREE];

    __device__ char* at(int byte) { return bytes + byte + byte / 128 * FREE; }
    __device__ Output& element(int i) { return *reinterpret_cast<Output*>(at(i * SIZE)); }

    __device__ PieceOf<16> piece(int i) {
        PieceOf<16> piece;
#pragma unroll
        for (int k = 0; k < 4; k++) piece.word[k] = reinterpret_cast<const unsigned*>(at(i * 16))[k];
        return piece;
    }

    // By all lanes of a warp: the elements `begin` to before `end`; `to` is where element 0 would lie, a multiple of 16
    // bytes.
    __device__ void store(char* to, int begin, int end) {
        const int first = (begin + OF_PIECE - 1) / OF_PIECE, last = end / OF_PIECE;  // of those that are whole
#pragma unroll
        for (int k = 0; k < (PIECES + LANES - 1) / LANES; k++) {
            const int i = k * LANES + lane_index();
            if (first <= i && i < last) *reinterpret_cast<PieceOf<16>*>(to + i * 16) = piece(i);
        }
        static_assert(2 * OF_PIECE <= LANES, "each lane has an element of an end");
        const bool leads = lane_index() < OF_PIECE;
        const int i = leads ? lane_index() : (last - 1) * OF_PIECE + lane_index();
        const bool in_end = leads ? first > 0 || last == 0 : last > 0;
        if (in_end && begin <= i && i < end) reinterpret_cast<Output*>(to)[i] = element(i);
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
scan_shifted_lines(const char* input, char* output, Geometry g, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    __shared__ LinesBuffer buffers[GROUPS];
    LinesBuffer& buffer = buffers[threadIdx.x / LANES];
    const Index first = (static_cast<Index>(blockIdx.x) * GROUPS + threadIdx.x / LANES) * LINES_OF_WARP;
    const int count = up_to(g.lines - first, LINES_OF_WARP), in_row = lane_index() / LINE_LANES;
    const Readable readable = Readable::around(input, output, g, first, count);
    const auto exists = [=](int r) { return in_row < LINES_OF_ROW && r * LINES_OF_ROW + in_row < count; };
    const auto line = [&](int r) {
        Line line(input, output, g, exists(r) ? first + r * LINES_OF_ROW + in_row : 0);
        line.length = exists(r) ? LENGTH : 0;
        return line;
    };
    ShiftedChunk shifted[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) shifted[r].load(line(r), number_in_line(), readable);
    char* const to = output + g.output_line.offset(first);
    const int lead = static_cast<int>(reinterpret_cast<size_t>(to) % 16) / LinesBuffer::SIZE;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        Chunk chunk;
        shifted[r].put_together();
        shifted[r].widen(line(r), g, number_in_line(), chunk.value);
        scan_short(chunk);
        const int begin = lead + (r * LINES_OF_ROW + in_row) * static_cast<int>(LENGTH);
        const bool has_whole = exists(r) && number_in_line() + CHUNK <= LENGTH;
        constexpr int OF_LAST = (LENGTH - 1) % CHUNK + 1;  // elements of the line's last chunk
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const int number = number_in_line() + j, place = REVERSE ? LENGTH - 1 - number : number;
            if (j < OF_LAST ? !exists(r) : !has_whole) continue;
            buffer.element(begin + place) = convert<Output>(convert<Value>(chunk.value[j]));
        }
    }
    __syncwarp();
    buffer.store(to - lead * LinesBuffer::SIZE, lead, lead + count * LENGTH);
}
