// What all kernels of running sums and products share: lines, chunks, heads of segments, and what the tree combines.
//
//     output[i] = input[0] + ... + input[i]          (inclusive; with * for products)
//     output[i] = input[0] + ... + input[i - 1]      (exclusive; the identity for i = 0)
//
// i counts in the direction of traversal: reverse scans start at the end. A segmented scan starts afresh at every head,
// the first element of a segment. A line is everything along the scanned axis; tree.cuh says in which order it is
// added.
//
// Constants that the plan sets:
//     INPUT, VALUE, OUTPUT    element types: stored, computed in, stored
//     OPERATION               Sum or Product
//     REVERSE, EXCLUSIVE, SEGMENTED
//     BYTES_OF_CHUNK          elements of a chunk where they are stored in one byte and summed in more: 4 or 8
//     INITIAL                 1 where the output starts with the identity and is longer by one
//     INPUT_ALIGNED, OUTPUT_ALIGNED      every element lies at a multiple of its size
//     INPUT_PACKED, OUTPUT_PACKED        whole chunks lie dense and aligned, and are moved in one access
//     INPUT_DENSE, OUTPUT_DENSE          neighbours along the axis lie side by side
//     EVICTION                the input's: intrinsics.cuh
//     LINE_RANK_IN, LINE_RANK_OUT, AXIS_RANK_IN, AXIS_RANK_OUT, INDEX    see layout.cuh
#pragma once

#include "elements.cuh"
#include "layout.cuh"
#include "scan_operations.cuh"
#include "tree.cuh"

using Input = INPUT;
using Value = VALUE;
using Output = OUTPUT;
using Operation = OPERATION;
using Accumulator = ComputedIn<Value>::type;

// Chunks have 16 bytes of values or, where these are wider, of elements as they are stored, as the order of additions
// asks for. Integers give the same sums in every order; where they are stored in fewer bytes, longer chunks save most
// of the work between the lanes.
constexpr int WIDEST = sizeof(Value) < sizeof(Input) ? sizeof(Input) : sizeof(Value), VALUES = 16 / WIDEST;
constexpr int STORED = sizeof(Input) < 2 ? BYTES_OF_CHUNK : 16 / sizeof(Input);  // of 16 bytes, but no more than 8
constexpr int CHUNK = IsInteger<Value>::value && STORED > VALUES ? STORED : VALUES;
constexpr int ROW = LANES * CHUNK;
constexpr int TILE = TILE_ROWS * ROW;

constexpr Index SIZE_IN = sizeof(Input), SIZE_OUT = sizeof(Output);

struct Geometry {
    Index lines, length, tiles;  // tiles of a line
    Index segments, offset_stride;
    Layout<LINE_RANK_IN> input_line;
    Layout<AXIS_RANK_IN> input_axis;
    Layout<LINE_RANK_OUT> output_line;
    Layout<AXIS_RANK_OUT> output_axis;
};

// ---------------------------------------------------------------------------------------------------------------------
// Items: what the tree combines. In a segmented scan an item knows whether its range holds a head.

struct Plain {
    Accumulator value;
};

struct Headed {
    Accumulator value;
    int head;
};

__device__ Plain combine(Plain a, Plain b) { return {Operation::combine(a.value, b.value)}; }

__device__ Headed combine(Headed a, Headed b) {
    return {b.head ? b.value : Operation::combine(a.value, b.value), a.head | b.head};
}

template <bool> struct ItemOf { using type = Plain; };
template <> struct ItemOf<true> { using type = Headed; };
using Item = ItemOf<SEGMENTED>::type;

__device__ void set(Plain& item, Accumulator value, bool) { item.value = value; }
__device__ void set(Headed& item, Accumulator value, bool head) { item = {value, head}; }

// The same as tree.cuh's, with one look at all lanes' heads instead of an exchange of them on each level.
template <int WIDTH = LANES> __device__ Headed warp_prefix(Headed item) {
    const int lane = lane_index();
    const unsigned heads = __ballot_sync(ALL_LANES, item.head) & ALL_LANES >> (LANES - 1 - lane);
    const int last_head = LANES - 1 - __clz(static_cast<int>(heads));  // at or before this lane; -1: none
#pragma unroll
    for (int half = 1; half < WIDTH; half *= 2) {
        const int begin = lane & ~(half - 1);  // of the lanes that the item stands for by now
        const Accumulator left = shuffle(item.value, begin - 1 & LANES - 1);
        if (lane & half && last_head < begin) item.value = Operation::combine(left, item.value);
    }
    item.head = last_head >= (lane & ~(WIDTH - 1));
    return item;
}

// Stands where a line has ended. Combined behind other items only, except where Operation says that it may lead.
__device__ Item neutral_item() {
    Item item = {};
    set(item, Operation::template neutral<Accumulator>(), false);
    return item;
}

// The prefix of what lies before something: perhaps of nothing. Where the neutral item combines with every other to
// that other, to the last bit, it stands for nothing, and nobody has to ask.
struct Prefix {
    static constexpr bool ASK = !Operation::template neutral_may_lead<Accumulator>();

    Item item;
    bool empty;

    __device__ static Prefix nothing() { return {neutral_item(), true}; }

    __device__ Item followed_by(Item next) const { return ASK && empty ? next : combine(item, next); }

    __device__ void append(Item next, bool exists) {
        if (exists) item = followed_by(next);
        empty = empty && !exists;
    }
};

// The prefixes of a line left and right of a tile.
struct Surroundings {
    Prefix before;
    Item after;
};

// ---------------------------------------------------------------------------------------------------------------------
// Elements of a line, numbered in the direction of traversal.

struct Line {
    const char* input;
    char* output;
    Index length;

    __device__ Line(const char* in, char* out, const Geometry& g, Index line)
        : input(in + g.input_line.offset(line)), output(out + g.output_line.offset(line)), length(g.length) {}
};

__device__ Index along(Index number, Index length) { return REVERSE ? length - 1 - number : number; }

__device__ Value load(const Line& line, const Geometry& g, Index number) {
    const Index place = along(number, line.length), offset = INPUT_DENSE ? place * SIZE_IN : g.input_axis.offset(place);
    return convert<Value>(load_element<Input, INPUT_ALIGNED>(line.input + offset));
}

__device__ void store(const Line& line, const Geometry& g, Index number, Value result) {
    const Index place = along(number, line.length + INITIAL);
    const Index offset = OUTPUT_DENSE ? place * SIZE_OUT : g.output_axis.offset(place);
    store_element<OUTPUT_ALIGNED>(line.output + offset, convert<Output>(result));
}

__device__ void store_initial(const Line& line, const Geometry& g) {
    if (INITIAL) store(line, g, 0, convert<Value>(Operation::template first<Accumulator>()));
}

// Of `count` outputs from element `first` of the line on, the number of the one that comes first in memory.
__device__ Index lowest_output(const Line& line, Index first, int count) {
    return REVERSE ? line.length - first - count : first + INITIAL;
}

// The number in memory of the first element of a dense chunk, in either direction.
__device__ Index chunk_start(Index number, Index length) { return REVERSE ? length - number - CHUNK : number; }

__device__ int chunk_place(int j) { return REVERSE ? CHUNK - 1 - j : j; }

// A whole chunk that lies dense and aligned.
template <typename T, typename To> __device__ void widen_pack(const Pack<T, CHUNK>& pack, To (&value)[CHUNK]) {
#pragma unroll
    for (int j = 0; j < CHUNK; j++) value[j] = convert<To>(convert<Value>(pack.element[chunk_place(j)]));
}

template <typename T, typename To> __device__ void load_packed(const char* address, To (&value)[CHUNK]) {
    if constexpr (sizeof(T) == 1 && CHUNK % 4 == 0) {  // compilers take packs of bytes apart, and load them in turn
        using Words = Pack<unsigned, (CHUNK + 3) / 4>;
        const Words words = *reinterpret_cast<const Words*>(address);
        Pack<T, CHUNK> pack;
#pragma unroll
        for (int j = 0; j < CHUNK; j++) pack.element[j] = static_cast<T>(words.element[j / 4] >> j % 4 * 8 & 0xff);
        widen_pack(pack, value);
    } else {
        widen_pack(*reinterpret_cast<const Pack<T, CHUNK>*>(address), value);
    }
}

// Results as they are stored, of which halves are rounded in pairs.
template <int COUNT> __device__ Pack<Output, COUNT> outputs_of(const Accumulator (&result)[COUNT]) {
    return pack_of<Output>(pack_of<Value>(result).element);
}

__device__ void store_packed(char* address, const Accumulator (&result)[CHUNK]) {
    Accumulator in_place[CHUNK];
#pragma unroll
    for (int j = 0; j < CHUNK; j++) in_place[chunk_place(j)] = result[j];
    *reinterpret_cast<Pack<Output, CHUNK>*>(address) = outputs_of(in_place);
}

__device__ void load_elements(const Line& line, const Geometry& g, Index number, Accumulator (&value)[CHUNK]) {
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        value[j] = Operation::template neutral<Accumulator>();
        if (number + j < line.length) value[j] = widen(load(line, g, number + j));
    }
}

__device__ void load_chunk(const Line& line, const Geometry& g, Index number, Accumulator (&value)[CHUNK]) {
    if (INPUT_PACKED && number + CHUNK <= line.length) {
        load_packed<Input>(line.input + chunk_start(number, line.length) * SIZE_IN, value);
    } else {
        load_elements(line, g, number, value);
    }
}

__device__ void store_chunk(const Line& line, const Geometry& g, Index number, const Accumulator (&result)[CHUNK]) {
    if (OUTPUT_PACKED && number + CHUNK <= line.length) {
        store_packed(line.output + chunk_start(number, line.length) * SIZE_OUT, result);
    } else {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (number + j < line.length) store(line, g, number + j + INITIAL, convert<Value>(result[j]));
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Rows that do not lie in whole chunks go through shared memory, so that neighbouring lanes move neighbouring elements.

// Where chunks take more than 16 bytes, 16 stay free behind every 128: else lanes would meet in the banks of shared
// memory.
template <typename T, int OF_ROWS = 1> struct __align__(16) RowBufferOf {
    static constexpr int SIZE = sizeof(T), OF_BANKS = 128 / SIZE, FREE = CHUNK * SIZE > 16 ? 16 / SIZE : 0;

    T elements[OF_ROWS * (ROW + ROW / OF_BANKS * FREE)];

    __device__ T& element(int i) { return elements[i + i / OF_BANKS * FREE]; }
};

using RowBuffer = RowBufferOf<Value>;

// By all lanes of a warp: the elements first ... first + ROW - 1 of the line, from registers that hold every 32nd.
__device__ void load_spread(const Line& line, const Geometry& g, Index first, Value (&element)[CHUNK]) {
    const int left = up_to(line.length - first, ROW);
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        const int i = j * LANES + lane_index();
        element[j] = convert<Value>(Operation::template neutral<Accumulator>());
        if (i < left) element[j] = load(line, g, first + i);
    }
}

// From every 32nd element to a chunk of neighbours.
__device__ void gather_chunk(RowBuffer& buffer, const Value (&element)[CHUNK], Accumulator (&value)[CHUNK]) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) buffer.element(j * LANES + lane_index()) = element[j];
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) value[j] = widen(buffer.element(lane_index() * CHUNK + j));
}

__device__ void store_spread(RowBuffer& buffer, const Line& line, const Geometry& g, Index first,
                             const Accumulator (&result)[CHUNK]) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < CHUNK; j++) buffer.element(lane_index() * CHUNK + j) = convert<Value>(result[j]);
    __syncwarp();
    const int left = up_to(line.length - first, ROW);
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        const int i = j * LANES + lane_index();
        if (i < left) store(line, g, first + i + INITIAL, buffer.element(i));
    }
}

// By all lanes of a warp: the row of the line that begins with element `first`, a chunk from each lane.
__device__ void store_row(RowBuffer& buffer, const Line& line, const Geometry& g, Index first,
                          const Accumulator (&result)[CHUNK]) {
    if (OUTPUT_PACKED) store_chunk(line, g, first + lane_index() * CHUNK, result);
    else store_spread(buffer, line, g, first, result);
}

// ---------------------------------------------------------------------------------------------------------------------
// Chunks in registers.

struct Chunk {
    Accumulator value[CHUNK];
    Item prefix[CHUNK];  // inclusive within the chunk

    __device__ Item total() const { return prefix[CHUNK - 1]; }

    // Bit j of `heads` says that element j is a head.
    __device__ void scan(unsigned heads) {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            set(prefix[j], value[j], heads >> j & 1);
            if (j > 0) prefix[j] = combine(prefix[j - 1], prefix[j]);
        }
    }

    // Turns values into outputs. `before` is the prefix of all chunks left of this one, `after` that of this one too.
    // The last element of a chunk gets `after`: so an exclusive scan is the inclusive one shifted, to the last bit.
    __device__ void finish(const Prefix& before, Item after, unsigned heads) {
#pragma unroll
        for (int j = CHUNK - 1; j >= 0; j--) {
            if (!EXCLUSIVE) {
                value[j] = j == CHUNK - 1 ? after.value : before.followed_by(prefix[j]).value;
            } else if ((j == 0 && before.empty) || (heads >> j & 1)) {
                value[j] = Operation::template first<Accumulator>();
            } else {
                value[j] = j == 0 ? before.item.value : before.followed_by(prefix[j - (j > 0)]).value;
            }
        }
    }
};

// Finishes the chunks of a row, whose lanes hold the inclusive prefixes `lanes` of their chunks' totals. `before` and
// `after` are the prefixes left and right of the row. By all lanes of a warp.
__device__ void finish_row(Chunk& chunk, Item lanes, const Prefix& before, Item after, unsigned heads) {
    const int lane = lane_index();
    const Item lanes_before = shuffle(lanes, (lane + LANES - 1) % LANES);
    Prefix before_chunk = before;
    before_chunk.append(lanes_before, lane > 0);
    const Item after_chunk = lane < LANES - 1 ? before.followed_by(lanes) : after;
    chunk.finish(before_chunk, after_chunk, heads);
}
