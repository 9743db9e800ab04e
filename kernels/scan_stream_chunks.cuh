// A lane's chunk on its way through scan_stream.cu: from a stage to the adders, and again to the scanners and to the
// output. Constants that the plan sets: those of scan_stream.cu.
#pragma once

#include "runs.cuh"
#include "scan_stream.cuh"
#include "scan_widened_rows.cuh"

// Lanes whose chunks lie in the same banks of shared memory begin with different elements: this one with number `turn`.
__device__ int turn_of_lane() {
    constexpr int SIZE = sizeof(Staged);
    return lane_index() * CHUNK * SIZE / 128 * (SIZE < 4 ? 4 / SIZE : 1) % CHUNK;
}

// Puts elements in order of which the first is number `turn`.
__device__ void turn_by(int turn, Staged (&element)[CHUNK]) {
#pragma unroll
    for (int step = 1; step < CHUNK; step *= 2) {
        Staged before[CHUNK];
#pragma unroll
        for (int j = 0; j < CHUNK; j++) before[j] = element[j];
#pragma unroll
        for (int j = 0; j < CHUNK; j++) element[j] = turn & step ? before[(j + CHUNK - step) % CHUNK] : before[j];
    }
}

// Where the chunk that begins with element `number` lies in the tile, in bytes.
__device__ int place_of_chunk(int number) {
    return (REVERSE ? TILE - number - CHUNK : number) * static_cast<int>(sizeof(Staged));
}

// The chunk that begins with element `number` of the tile, in the direction of traversal.
__device__ void load_staged(const char* from, int number, Accumulator (&value)[CHUNK]) {
    constexpr int SIZE = sizeof(Staged);
    if constexpr (STAGED_PACKED) {
        load_packed<Staged>(from + place_of_chunk(number), value);
    } else {
        const int turn = turn_of_lane();
        Staged element[CHUNK];
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const int i = number + (j + turn) % CHUNK;
            element[j] = load_element<Staged, STAGED_ALIGNED>(from + (REVERSE ? TILE - 1 - i : i) * SIZE);
        }
        turn_by(turn, element);
#pragma unroll
        for (int j = 0; j < CHUNK; j++) value[j] = widen(convert<Value>(element[j]));
    }
}

// Small elements that begin anywhere are taken from the two pieces that their chunk lies in, some rows at a time:
// singly they take twice as many instructions.
constexpr int CHUNK_BYTES = CHUNK * static_cast<int>(sizeof(Staged));
constexpr bool IN_PIECES_ANYWHERE = !STAGED_PACKED && STAGED_ALIGNED && sizeof(Staged) < 4 && CHUNK_BYTES >= 4;
constexpr int LOADED_AT_ONCE = IN_PIECES_ANYWHERE && sizeof(Accumulator) * CHUNK <= 32 ? 4 : 1;

// The chunks of COUNT rows, that of the first beginning with element `number`. All of a tile lie alike in their pieces,
// which have what lies around the tile too.
template <int COUNT>
__device__ void load_from_pieces(const char* from, int number, Pack<Staged, CHUNK> (&chunk)[COUNT]) {
    using Piece = PieceOf<IN_PIECES_ANYWHERE ? CHUNK_BYTES : 16>;
    const unsigned within = static_cast<unsigned>(reinterpret_cast<size_t>(from) % sizeof(Piece));
    Piece low[COUNT], high[COUNT], taken[COUNT];
#pragma unroll
    for (int r = 0; r < COUNT; r++) {
        const char* const first = from - within + place_of_chunk(number + r * ROW);
        low[r] = load_loosely<Piece>(first), high[r] = load_loosely<Piece>(first + sizeof(Piece));
    }
    bytes_across_alike<sizeof(Staged)>(low, high, within, taken);
#pragma unroll
    for (int r = 0; r < COUNT; r++) {
        InWords<Pack<Staged, CHUNK>, Piece> in_words;
        in_words.words = taken[r];
        chunk[r] = in_words.items;
    }
}

// Rows that do not lie in whole chunks, on their way to the output: by lines two at a time, where they are not too
// large.
struct SpreadRows {
    static constexpr int ROWS_AT_ONCE = BY_LINES && CHUNK * sizeof(Value) <= 16 ? 2 : 1, CHUNKS = ROWS_AT_ONCE * LANES;
    static constexpr bool STORED_IN_RUNS = BY_LINES && OUTPUT_ALIGNED && SIZE_OUT < 4 && SIZE_OUT <= sizeof(Value);

    RowBufferOf<Value, ROWS_AT_ONCE> buffer;

    // By all lanes of a warp, row after row: row `r` of those that begin with element `begin`, a chunk from each lane.
    // Where two are stored at a time, that is when the second has come.
    __device__ void store_with_others(const Line& line, const Geometry& g, Index begin, int r,
                                      const Accumulator (&result)[CHUNK]) {
        const int place = r % ROWS_AT_ONCE;
        if constexpr (STORED_IN_RUNS) {
            const int chunk = place * LANES + lane_index();
            store_packed(reinterpret_cast<char*>(outputs() + (REVERSE ? CHUNKS - 1 - chunk : chunk) * CHUNK), result);
        } else {
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                buffer.element(place * ROW + lane_index() * CHUNK + j) = convert<Value>(result[j]);
            }
        }
        if (place == ROWS_AT_ONCE - 1) store(line, g, begin + (r - place) * ROW);
    }

  private:
    __device__ Output* outputs() { return reinterpret_cast<Output*>(buffer.elements); }

    // Small ones in pieces of 16 bytes.
    __device__ void store_in_runs(const Line& line, Index first, int left) {
        char* const to = line.output + lowest_output(line, first, left) * SIZE_OUT;
        store_run<CHUNKS * CHUNK, ROWS_AT_ONCE>(to, outputs() + (REVERSE ? CHUNKS * CHUNK - left : 0), left);
    }

    // How many lanes have nothing to store at first, so that from then on all of them store between two multiples of
    // what they store together.
    __device__ static int idle_lanes(const Line& line, Index first) {
        if (!BY_LINES) return 0;
        const Index place = along(first + INITIAL, line.length + INITIAL);
        const unsigned long long address = reinterpret_cast<unsigned long long>(line.output + place * SIZE_OUT);
        const int lane = static_cast<int>(address / SIZE_OUT % LANES);
        return REVERSE ? LANES - 1 - lane : lane;
    }

    // A whole row whose pieces of 16 bytes lie at multiples of that. 2^27 int32 summed in int64 take 0.406 ms with
    // this, and 0.410 ms by elements.
    __device__ void store_pieces(const Line& line, Index first) {
        constexpr int PIECE = 16 / SIZE_OUT;
        char* to = line.output + lowest_output(line, first, ROW) * SIZE_OUT;
#pragma unroll
        for (int k = 0; k < ROW; k += LANES * PIECE) {
            const int i = k + lane_index() * PIECE;
            const int place = REVERSE ? ROW - PIECE - i : i;
            const auto& from = *reinterpret_cast<const Pack<Value, PIECE>*>(&buffer.element(place));
            Pack<Output, PIECE> pack;
#pragma unroll
            for (int j = 0; j < PIECE; j++) {
                pack.element[j] = convert<Output>(from.element[REVERSE ? PIECE - 1 - j : j]);
            }
            *reinterpret_cast<Pack<Output, PIECE>*>(to + i * SIZE_OUT) = pack;
        }
    }

    // The rows that begin with element `first` of the line. Three lines of 67108865 float32 take 0.423 ms where 32
    // lanes store to one line of the cache, and 0.430 ms where they store to two.
    __device__ void store(const Line& line, const Geometry& g, Index first) {
        constexpr int COUNT = ROWS_AT_ONCE * ROW;
        const int left = up_to(line.length - first, COUNT), idle = idle_lanes(line, first);
        __syncwarp();
        if constexpr (STORED_IN_RUNS) {
            store_in_runs(line, first, left);
        } else if (IN_PIECES && left == ROW) {
            store_pieces(line, first);
        } else {
#pragma unroll
            for (int k = 0; k <= (BY_LINES ? COUNT : COUNT - LANES); k += LANES) {
                const int i = k + lane_index() - idle;
                if (i >= 0 && i < left) ::store(line, g, first + i + INITIAL, buffer.element(i));
            }
        }
        __syncwarp();
    }
};

// A lane's chunk of a row, from a stage to the output.
struct OrdinaryChunk {
    using Total = Item;
    using Buffer = SpreadRows;

    Chunk chunk;

    // A lane's chunks of some rows, that of the first beginning with element `number`.
    template <int COUNT>
    __device__ static void load(const char* from, int number, const Heads& heads, OrdinaryChunk (&row)[COUNT]) {
        if constexpr (IN_PIECES_ANYWHERE) {
            Pack<Staged, CHUNK> pack[COUNT];
            load_from_pieces(from, number, pack);
#pragma unroll
            for (int r = 0; r < COUNT; r++) widen_pack(pack[r], row[r].chunk.value);
        } else {
#pragma unroll
            for (int r = 0; r < COUNT; r++) load_staged(from, number + r * ROW, row[r].chunk.value);
        }
#pragma unroll
        for (int r = 0; r < COUNT; r++) row[r].chunk.scan(heads.of_chunk(number + r * ROW));
    }

    __device__ Item total() const { return chunk.total(); }

    __device__ static Item item_of(Item total) { return total; }

    // Row first + r of a tile; `lanes` is the inclusive prefix of the chunks' totals.
    __device__ void store(SpreadRows& buffer, const Line& line, const Geometry& g, const Stage& stage, int first, int r,
                          Item lanes) {
        const int row = first + r;
        const Prefix before = {stage.row[row], stage.tile.number == 0 && row == 0};
        const unsigned heads = stage.heads.of_chunk((row * LANES + lane_index()) * CHUNK);
        finish_row(chunk, lanes, before, stage.row[row + 1], heads);
        if (SPREAD) buffer.store_with_others(line, g, stage.tile.begin + first * ROW, r, chunk.value);
        else store_chunk(line, g, stage.tile.begin + (row * LANES + lane_index()) * CHUNK, chunk.value);
    }
};

// The same of integers that are summed in more bytes than they are stored in.
struct NarrowChunk {
    using Total = LocalItem;
    using Buffer = LocalBuffer;

    WidenedChunk chunk;

    template <int COUNT>
    __device__ static void load(const char* from, int number, const Heads&, NarrowChunk (&row)[COUNT]) {
#pragma unroll
        for (int r = 0; r < COUNT; r++) row[r].chunk.load(from + place_of_chunk(number + r * ROW));
    }

    __device__ LocalItem total() const { return chunk.total(); }

    __device__ static Item item_of(LocalItem total) {
        Item item = {};
        set(item, convert<Accumulator>(total.value), false);
        return item;
    }

    __device__ void store(LocalBuffer& buffer, const Line& line, const Geometry&, const Stage& stage, int first, int r,
                          LocalItem lanes) {
        const int row = first + r;
        chunk.store(buffer, line, stage.tile.begin + row * ROW, lanes, stage.row[row].value);
    }
};

using StagedChunk = Select<WIDENED, NarrowChunk, OrdinaryChunk>::type;
