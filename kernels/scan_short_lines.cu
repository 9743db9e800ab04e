// Running sums and products of lines of less than a row: those of a warp's row end to end, or anywhere.
//
// Where chunks are not dense and aligned, rows go through shared memory (scan.cuh), so that neighbouring lanes move
// neighbouring elements.
//
// Constants that the plan sets, beside those of scan_short_lines.cuh:
//     FLAT_IN, FLAT_OUT   1 where lines lie end to end, in the order of traversal
#include "ahead.cuh"
#include "scan_short_lines.cuh"

// The lines of a row, end to end.
struct ShortLines {
    const char* input;
    char* output;
    Index first, count;  // count is 0 in warps behind the last line

    // Row `r` of those of the warp.
    __device__ ShortLines(const char* in, char* out, const Geometry& g, int r) : input(in), output(out) {
        const Index warp = static_cast<Index>(blockIdx.x) * GROUPS + threadIdx.x / LANES;
        first = (warp * ROWS + r) * LINES_OF_ROW;
        count = first >= g.lines ? 0 : g.lines - first < LINES_OF_ROW ? g.lines - first : LINES_OF_ROW;
    }

    __device__ Line line(const Geometry& g, Index number) const {
        Line line(input, output, g, number < count ? first + number : 0);
        if (number >= count) line.length = 0;
        return line;
    }

    __device__ unsigned elements() const { return static_cast<unsigned>(count) * LENGTH; }
};

// The first element of a lane's chunk among all of the row.
__device__ int place_in_lines() {
    return lane_index() / LINE_LANES * static_cast<int>(LENGTH) + number_in_line();
}

// By all lanes of a warp: every 32nd element of the lines, of all rows before the first is used.
__device__ void load_short(const ShortLines& lines, const Geometry& g, Value (&element)[CHUNK]) {
    const char* from = lines.line(g, 0).input;
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        const unsigned i = j * LANES + lane_index();
        element[j] = convert<Value>(Operation::template neutral<Accumulator>());
        if (i >= lines.elements()) continue;
        if (FLAT_IN) element[j] = convert<Value>(load_element<Input, INPUT_ALIGNED>(from + i * SIZE_IN));
        else element[j] = load(lines.line(g, i / LENGTH), g, i % LENGTH);
    }
}

__device__ void gather_short(RowBuffer& buffer, const Value (&element)[CHUNK], Accumulator (&value)[CHUNK]) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) buffer.element(j * LANES + lane_index()) = element[j];
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        value[j] = Operation::template neutral<Accumulator>();
        if (number_in_line() + j < LENGTH) value[j] = widen(buffer.element(place_in_lines() + j));
    }
}

__device__ void store_short(RowBuffer& buffer, const ShortLines& lines, const Geometry& g,
                            const Accumulator (&result)[CHUNK]) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        if (number_in_line() + j < LENGTH) buffer.element(place_in_lines() + j) = convert<Value>(result[j]);
    }
    __syncwarp();
    char* to = lines.line(g, 0).output;
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        const unsigned i = j * LANES + lane_index();
        if (i >= lines.elements()) continue;
        if (FLAT_OUT) store_element<OUTPUT_ALIGNED>(to + i * SIZE_OUT, convert<Output>(buffer.element(i)));
        else store(lines.line(g, i / LENGTH), g, i % LENGTH + INITIAL, buffer.element(i));
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
scan_short_lines(const char* input, char* output, Geometry g, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    __shared__ RowBuffer buffers[SPREAD ? BLOCK / LANES : 1];
    RowBuffer& buffer = buffers[SPREAD ? threadIdx.x / LANES : 0];
    Chunk chunk[ROWS];
    Value element[ROWS][CHUNK];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const ShortLines lines(input, output, g, r);
        if (INPUT_PACKED) load_chunk(lines.line(g, lane_index() / LINE_LANES), g, number_in_line(), chunk[r].value);
        else load_short(lines, g, element[r]);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const ShortLines lines(input, output, g, r);
        const Line line = lines.line(g, lane_index() / LINE_LANES);
        if (!INPUT_PACKED) gather_short(buffer, element[r], chunk[r].value);
        scan_short(chunk[r]);
        if (number_in_line() == 0 && lane_index() / LINE_LANES < lines.count) store_initial(line, g);
        if (OUTPUT_PACKED) store_chunk(line, g, number_in_line(), chunk[r].value);
        else store_short(buffer, lines, g, chunk[r].value);
    }
}
