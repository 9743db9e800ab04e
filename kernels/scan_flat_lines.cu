// Running sums and products of lines of less than a row that lie end to end, in whole chunks that do not fill the lanes
// of a warp.
//
// A warp moves the chunks of all its lines as they come, one by each lane, and hands them to the lanes of their lines
// through shared memory: so all lanes load and store, and what they store begins and ends with few sectors that are not
// whole.
//
// Constants that the plan sets: those of scan_short_lines.cuh.
#include "ahead.cuh"
#include "scan_short_lines.cuh"

constexpr int LINE_CHUNKS = (LENGTH + CHUNK - 1) / CHUNK;
constexpr int CHUNKS_OF_WARP = LINES_OF_WARP * LINE_CHUNKS;
constexpr int CHUNK_BYTES = CHUNK * static_cast<int>(SIZE_IN < SIZE_OUT ? SIZE_OUT : SIZE_IN);

struct __align__(CHUNK_BYTES) FlatChunk {
    char bytes[CHUNK_BYTES];

    template <typename T> __device__ Pack<T, CHUNK>& as() { return *reinterpret_cast<Pack<T, CHUNK>*>(bytes); }
};

// Where a lane's chunk of row `r` is staged.
__device__ int staged_place(int r) {
    const int number = lane_index() % LINE_LANES;
    return (r * LINES_OF_ROW + lane_index() / LINE_LANES) * LINE_CHUNKS + (REVERSE ? LINE_CHUNKS - 1 - number : number);
}

// All of a warp's chunks are loaded before the first is staged.
__device__ void stage_chunks(FlatChunk (&staged)[CHUNKS_OF_WARP], const char* input, int chunks) {
    constexpr int TURNS = (CHUNKS_OF_WARP + LANES - 1) / LANES;
    Pack<Input, CHUNK> pack[TURNS];
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
        const int i = k * LANES + lane_index();
        const char* from = input + i * static_cast<int>(sizeof(pack[k]));
        if (i < chunks) pack[k] = load_items<EVICTION, Pack<Input, CHUNK>>(from);
    }
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
        const int i = k * LANES + lane_index();
        if (i < chunks) staged[i].as<Input>() = pack[k];
    }
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(BLOCK)
scan_flat_lines(const char* input, char* output, Geometry g, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    __shared__ FlatChunk staged_by_warp[GROUPS][CHUNKS_OF_WARP];
    FlatChunk (&staged)[CHUNKS_OF_WARP] = staged_by_warp[threadIdx.x / LANES];
    const Index first = (static_cast<Index>(blockIdx.x) * GROUPS + threadIdx.x / LANES) * LINES_OF_WARP;
    const int chunks = up_to(g.lines - first, LINES_OF_WARP) * LINE_CHUNKS;
    stage_chunks(staged, input + g.input_line.offset(first), chunks);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const bool has_chunk = number_in_line() < LENGTH && staged_place(r) < chunks;
        Chunk chunk;
#pragma unroll
        for (int j = 0; j < CHUNK; j++) chunk.value[j] = Operation::template neutral<Accumulator>();
        if (has_chunk) load_packed<Input>(staged[staged_place(r)].bytes, chunk.value);
        scan_short(chunk);
        if (has_chunk) store_packed(staged[staged_place(r)].bytes, chunk.value);
    }
    __syncwarp();
    Pack<Output, CHUNK>* to = reinterpret_cast<Pack<Output, CHUNK>*>(output + g.output_line.offset(first));
#pragma unroll
    for (int i = lane_index(); i < CHUNKS_OF_WARP; i += LANES) {
        if (i < chunks) to[i] = staged[i].as<Output>();
    }
}
