// Running sums and products of short lines: each is worked on by one block, or by a warp, or by some lanes of a warp.
//
// Nothing is waited for but memory, so many small blocks do best: each thread loads a few chunks, all of them before it
// uses the first. Where the axis is not dense and aligned, rows go through shared memory (scan.cuh). Dense lines that
// begin at any element are moved in words all the same (scan_shifted.cuh).
//
// Constants that the plan sets, beside those of scan.cuh:
//     LINE_LANES      lanes that share a line of less than a row, a power of two unless its kernel is
//                     scan_shifted_lines; 32 otherwise
//     LANE_LINES      lines that a lane of scan_tiny_lines has all of; 1 otherwise
//     LENGTH          elements of a line of less than a row; 0 otherwise
//     FLAT_IN, FLAT_OUT   1 where such lines lie end to end, in the order of traversal; scan_flat_lines takes either
//     RESIDENT        blocks of longer lines for which there have to be registers on a multiprocessor, at least
// WARPS is 1 for lines of less than a row, and GROUPS counts rows of them.
#include "scan_rows.cuh"

// ---------------------------------------------------------------------------------------------------------------------
// Lines of less than a row: a warp has as many as fit.

constexpr int LINES_OF_ROW = LANES / LINE_LANES;
constexpr int SHORT_LENGTH = LENGTH > 0 ? LENGTH : 1;  // known to the compiler, which divides by it

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

    __device__ unsigned elements() const { return static_cast<unsigned>(count) * SHORT_LENGTH; }
};

// The first element of a lane's chunk.
__device__ int number_in_line() { return lane_index() % LINE_LANES * CHUNK; }

// The same among all elements of the row.
__device__ int place_in_lines() {
    return lane_index() / LINE_LANES * static_cast<int>(SHORT_LENGTH) + number_in_line();
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
        else element[j] = load(lines.line(g, i / SHORT_LENGTH), g, i % SHORT_LENGTH);
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
        if (number_in_line() + j < SHORT_LENGTH) value[j] = widen(buffer.element(place_in_lines() + j));
    }
}

__device__ void store_short(RowBuffer& buffer, const ShortLines& lines, const Geometry& g,
                            const Accumulator (&result)[CHUNK]) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        if (number_in_line() + j < SHORT_LENGTH) buffer.element(place_in_lines() + j) = convert<Value>(result[j]);
    }
    __syncwarp();
    char* to = lines.line(g, 0).output;
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        const unsigned i = j * LANES + lane_index();
        if (i >= lines.elements()) continue;
        if (FLAT_OUT) store_element<OUTPUT_ALIGNED>(to + i * SIZE_OUT, convert<Output>(buffer.element(i)));
        else store(lines.line(g, i / SHORT_LENGTH), g, i % SHORT_LENGTH + INITIAL, buffer.element(i));
    }
}

// The same prefixes as tree.cuh's, over the lanes of a line, however many these are.
__device__ Item prefix_in_line(Item item) {
    const int lane = lane_index(), number = lane % LINE_LANES;
#pragma unroll
    for (int half = 1; half < LINE_LANES; half *= 2) {
        const int left = lane - number % (2 * half) + half - 1;
        const Item before = shuffle(item, left % LANES);  // beyond the last lane only where it is of no line
        if (number & half) item = combine(before, item);
    }
    return item;
}

// Turns a lane's chunk of a row of lines into outputs.
__device__ void scan_short(Chunk& chunk) {
    chunk.scan(0);
    const Item inclusive = prefix_in_line(chunk.total());
    const Item left = shuffle(inclusive, (lane_index() + LANES - 1) % LANES);
    Prefix before = Prefix::nothing();
    before.append(left, number_in_line() > 0);
    chunk.finish(before, inclusive, 0);
}

extern "C" __global__ void __launch_bounds__(BLOCK) scan_short_lines(const char* input, char* output, Geometry g) {
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

// ---------------------------------------------------------------------------------------------------------------------
// The same where lines lie end to end in whole chunks that do not fill the lanes. A warp moves the chunks of all its
// lines as they come, one by each lane, and hands them to the lanes of their lines through shared memory: so all lanes
// load and store, and what they store begins and ends with few sectors that are not whole.

constexpr int LINE_CHUNKS = (SHORT_LENGTH + CHUNK - 1) / CHUNK;
constexpr int LINES_OF_WARP = ROWS * LINES_OF_ROW, CHUNKS_OF_WARP = LINES_OF_WARP * LINE_CHUNKS;
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

extern "C" __global__ void __launch_bounds__(BLOCK) scan_flat_lines(const char* input, char* output, Geometry g) {
    await_launch_ahead();
    __shared__ FlatChunk staged_by_warp[GROUPS][CHUNKS_OF_WARP];
    FlatChunk (&staged)[CHUNKS_OF_WARP] = staged_by_warp[threadIdx.x / LANES];
    const Index first = (static_cast<Index>(blockIdx.x) * GROUPS + threadIdx.x / LANES) * LINES_OF_WARP;
    const int chunks = up_to(g.lines - first, LINES_OF_WARP) * LINE_CHUNKS;
    stage_chunks(staged, input + g.input_line.offset(first), chunks);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const bool has_chunk = number_in_line() < SHORT_LENGTH && staged_place(r) < chunks;
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

// ---------------------------------------------------------------------------------------------------------------------
// The same where inputs begin at any element, and outputs lie end to end. Results of all lines of a warp meet in shared
// memory, at the distance from a multiple of 16 bytes that they have in memory, and are stored in whole pieces.

struct LinesBuffer {
    // A word stays free behind every 128 bytes: else lanes that are 16 bytes apart would meet in a bank.
    static constexpr int SIZE = sizeof(Output), FREE = SIZE < 4 ? 4 : SIZE, OF_PIECE = SIZE < 16 ? 16 / SIZE : 1;
    static constexpr int PIECES = LINES_OF_WARP * SHORT_LENGTH / OF_PIECE + 2, BYTES = PIECES * 16;
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
scan_shifted_lines(const char* input, char* output, Geometry g) {
    await_launch_ahead();
    __shared__ LinesBuffer buffers[GROUPS];
    LinesBuffer& buffer = buffers[threadIdx.x / LANES];
    const Index first = (static_cast<Index>(blockIdx.x) * GROUPS + threadIdx.x / LANES) * LINES_OF_WARP;
    const int count = up_to(g.lines - first, LINES_OF_WARP), in_row = lane_index() / LINE_LANES;
    const Readable readable = Readable::around(input, output, g, first, count);
    const auto exists = [=](int r) { return in_row < LINES_OF_ROW && r * LINES_OF_ROW + in_row < count; };
    const auto line = [&](int r) {
        Line line(input, output, g, exists(r) ? first + r * LINES_OF_ROW + in_row : 0);
        line.length = exists(r) ? SHORT_LENGTH : 0;
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
        shifted[r].widen(line(r), g, number_in_line(), chunk.value);
        scan_short(chunk);
        const int begin = lead + (r * LINES_OF_ROW + in_row) * static_cast<int>(SHORT_LENGTH);
        const bool has_whole = exists(r) && number_in_line() + CHUNK <= SHORT_LENGTH;
        constexpr int OF_LAST = (SHORT_LENGTH - 1) % CHUNK + 1;  // elements of the line's last chunk
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const int number = number_in_line() + j, place = REVERSE ? SHORT_LENGTH - 1 - number : number;
            if (j < OF_LAST ? !exists(r) : !has_whole) continue;
            buffer.element(begin + place) = convert<Output>(convert<Value>(chunk.value[j]));
        }
    }
    __syncwarp();
    buffer.store(to - lead * LinesBuffer::SIZE, lead, lead + count * SHORT_LENGTH);
}

// ---------------------------------------------------------------------------------------------------------------------
// Lines of a chunk at the most, of one byte or two an element, that lie end to end from a multiple of 16 bytes on. Each
// lane has some lines, whole words of them, so that no lane has to know of another.

constexpr int SHARE = LANE_LINES * SHORT_LENGTH;  // elements of a lane

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
            Accumulator sum = Operation::template first<Accumulator>();
#pragma unroll
            for (int number = 0; number < SHORT_LENGTH; number++) {
                const int i = line * SHORT_LENGTH + (REVERSE ? SHORT_LENGTH - 1 - number : number);
                const Accumulator before = sum, value = widen(convert<Value>(share.get<Stored>(i)));
                sum = number == 0 ? value : Operation::combine(before, value);
                result.put(i, convert<Output>(convert<Value>(EXCLUSIVE ? before : sum)));
            }
        }
    }
    return result;
}

constexpr int TINY_LINES = ROWS * LANES * LANE_LINES;  // of a warp

struct TinyRun {
    static constexpr int PIECES = (TINY_LINES * SHORT_LENGTH * static_cast<int>(sizeof(Input)) + 15) / 16;
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

extern "C" __global__ void __launch_bounds__(BLOCK) scan_tiny_lines(const char* input, char* output, Geometry g) {
    await_launch_ahead();
    __shared__ TinyRun runs[GROUPS];
    TinyRun& run = runs[threadIdx.x / LANES];
    const Index first = (static_cast<Index>(blockIdx.x) * GROUPS + threadIdx.x / LANES) * TINY_LINES;
    const int count = up_to(g.lines - first, TINY_LINES) * SHORT_LENGTH;
    run.load(input + g.input_line.offset(first), count);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        Share share;
        share.load(run.share(r));
        scanned<Input>(share).store(run.share(r));
    }
    run.store(output + g.output_line.offset(first), count);
}

// ---------------------------------------------------------------------------------------------------------------------
// Lines of a tile or two.

// While the launch ahead ends. Of many launches in a row, (1024, 1024) float32 take 0.0028 ms with this and 0.0035
// without, (4096, 1024) 0.0092 and 0.0094.
__device__ void prefetch_lines(const char* input, const Geometry& g) {
    constexpr bool LARGE = EVICTION != EVICT_NORMALLY;
    const Index number = static_cast<Index>(blockIdx.x) * GROUPS + threadIdx.x / (LANES * WARPS);
    if (LARGE || !INPUT_DENSE || number >= g.lines || g.length == 0 || threadIdx.x % (LANES * WARPS) > 0) return;
    const char* from = input + g.input_line.offset(number);
    const int nbytes = static_cast<int>(g.length) * static_cast<int>(sizeof(Input));
    const int lead = static_cast<int>(reinterpret_cast<size_t>(from) % 16);
    bulk_prefetch(from - lead, (lead + nbytes + 15) / 16 * 16);
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
scan_lines(const char* input, char* output, const char* offsets, Geometry g) {
    prefetch_lines(input, g);
    await_launch_ahead();
    __shared__ RowBuffer buffers[SPREAD ? BLOCK / LANES : 1];
    __shared__ Item row_total[GROUPS][ROWS_OF_LINE];
    __shared__ Heads heads;
    RowBuffer& buffer = buffers[SPREAD ? threadIdx.x / LANES : 0];
    const int group = threadIdx.x / (LANES * WARPS);
    const int first_row = threadIdx.x / LANES % WARPS * ROWS;
    const Index number = static_cast<Index>(blockIdx.x) * GROUPS + group;
    const bool exists = number < g.lines;  // the last block may have groups without a line
    Line line(input, output, g, exists ? number : 0);
    if (!exists) line.length = 0;
    if (SEGMENTED) mark_heads(heads, Segments(offsets, g), 0);

    Rows rows;
    const Readable readable = Readable::around(input, output, g, exists ? number : 0, 1);
    if (SHIFTED_IN) rows.load_shifted(line, g, first_row * ROW, readable);
    else rows.load(buffer, line, g, first_row * ROW);
    rows.scan(heads, first_row * ROW);
    const RowPrefixes prefixes =
        WARPS == 1 ? prefixes_within_warp(rows) : prefixes_across_warps(row_total[group], rows, first_row);
    if (exists && first_row == 0 && lane_index() == 0) store_initial(line, g);
    store_rows(rows, buffer, line, g, 0, first_row, heads, prefixes);
}
