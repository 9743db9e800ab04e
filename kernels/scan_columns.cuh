// What the kernels for columns share: a thread walks down a span, some chunks of VECTOR neighbouring columns.
//
// Constants that the plan sets, beside those of scan.cuh:
//     VECTOR           columns of a thread
//     SPAN             chunks of a span; a power of two up to 32 unless a column is one span
//     INPUT_PACKED, OUTPUT_PACKED    those of these columns lie side by side and aligned, and are moved in one access
#pragma once

#include "scan.cuh"

__device__ constexpr int log2_of(int n) { return n <= 1 ? 0 : 1 + log2_of(n / 2); }

constexpr int SPAN_STEPS = SPAN * CHUNK;

// Spans are added up in place: afterwards part[i] is the aggregate of the largest aligned power of two of spans that
// ends with span i. So the blocks before span n, one for each bit of n, end where n has its lower bits cleared.
template <int COUNT, int HEIGHT, int WIDTH>
__device__ Item add_up(Item (&part)[HEIGHT][WIDTH], int first, int column) {
    if constexpr (COUNT == 1) {
        return part[first][column];
    } else {
        const Item left = add_up<COUNT / 2>(part, first, column);
        return part[first + COUNT - 1][column] = combine(left, add_up<COUNT / 2>(part, first + COUNT / 2, column));
    }
}

// That of a block which does not exist is 0: what lies there is loaded all the same.
__device__ constexpr int end_of_block(int number, int bit) {
    return number >> bit == 0 ? 0 : (number >> bit << bit) - 1;
}

// The blocks that lie before something: where bit b of its number is set, one of 2^b. Where the neutral item may lead,
// it stands for those that there are not.
template <int BITS> struct Left {
    Item block[BITS + 1];
    int number;

    // `at(b)` loads a block, or anything where there is none.
    template <typename At> __device__ Left(int number, At at) : number(number) {
#pragma unroll
        for (int b = 0; b < BITS; b++) {
            const Item there = at(b);
            block[b] = number >> b & 1 ? there : neutral_item();
        }
    }

    // The prefix of something that has `item` by itself.
    __device__ Item followed_by(Item item) const {
#pragma unroll
        for (int b = 0; b < BITS; b++) {
            if (!Prefix::ASK || number >> b & 1) item = combine(block[b], item);
        }
        return item;
    }

    // Appends all blocks.
    __device__ void append_to(Prefix& prefix) const {
        Item item = neutral_item();
        bool exists = !Prefix::ASK;
#pragma unroll
        for (int b = 0; b < BITS; b++) {
            if (Prefix::ASK && !(number >> b & 1)) continue;
            item = exists ? combine(block[b], item) : block[b];
            exists = true;
        }
        prefix.append(item, number != 0);
    }
};

struct Values {
    Accumulator value[SPAN][CHUNK][VECTOR];

    // Halves are widened and rounded in pairs.
    template <typename T> __device__ void set(int step, const Pack<T, VECTOR>& pack) {
        Accumulator(&row)[VECTOR] = value[step / CHUNK][step % CHUNK];
        if constexpr (IsSame<T, Value>::value) {
            unpack(pack, row);
        } else {
#pragma unroll
            for (int v = 0; v < VECTOR; v++) row[v] = widen(convert<Value>(pack.element[v]));
        }
    }

    __device__ void clear(int step) {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            value[step / CHUNK][step % CHUNK][v] = Operation::template neutral<Accumulator>();
        }
    }

    template <bool BACKWARDS, typename T> __device__ void set_chunk(int i, int v, const Pack<T, CHUNK>& pack) {
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            value[i][j][v] = widen(convert<Value>(pack.element[BACKWARDS ? CHUNK - 1 - j : j]));
        }
    }

    // `at(k)` loads step k of the span, of which EXISTING exist. All loads come before the first use.
    template <int EXISTING = SPAN_STEPS, typename At> __device__ void load_whole(At at) {
        decltype(at(0)) pack[EXISTING];
#pragma unroll
        for (int k = 0; k < EXISTING; k++) pack[k] = at(k);
#pragma unroll
        for (int k = 0; k < EXISTING; k++) set(k, pack[k]);
#pragma unroll
        for (int k = EXISTING; k < SPAN_STEPS; k++) clear(k);
    }

    // The same of a span of which `count` steps exist. Steps that do not exist are not merely skipped: NVRTC 13.0
    // loaded them all the same, and read outside of the array.
    template <typename At> __device__ void load_part(int count, At at) {
        decltype(at(0)) pack[SPAN_STEPS];
#pragma unroll
        for (int k = 0; k < SPAN_STEPS; k++) {
            if (count > 0) pack[k] = at(k < count ? k : count - 1);
        }
#pragma unroll
        for (int k = 0; k < SPAN_STEPS; k++) {
            if (k < count) set(k, pack[k]);
            else clear(k);
        }
    }

    template <typename At> __device__ void load(int count, At at) {
        if (count == SPAN_STEPS) load_whole(at);
        else load_part(count, at);
    }

    __device__ Chunk chunk(int i, int v) const {
        Chunk chunk;
#pragma unroll
        for (int j = 0; j < CHUNK; j++) chunk.value[j] = value[i][j][v];
        chunk.scan(0);
        return chunk;
    }

    // The aggregate of the span.
    __device__ Item total(int v) const {
        SerialPrefix<Item, levels_of(SPAN)> over_chunks;
        Item total;
#pragma unroll
        for (int i = 0; i < SPAN; i++) total = over_chunks.next(i, chunk(i, v).total());
        return total;
    }

    // Turns the values of a column into outputs. `left` are the blocks before the span in its row. What lies behind the
    // last span of a row belongs to the tree's next levels, and is given as `after_row`.
    template <int BITS>
    __device__ void scan(int v, const Left<BITS>& left, const Prefix& before_row, bool last, Item after_row) {
        Prefix before = before_row;
        left.append_to(before);
        SerialPrefix<Item, levels_of(SPAN)> over_chunks;
#pragma unroll
        for (int i = 0; i < SPAN; i++) {
            Chunk chunk = this->chunk(i, v);
            Item after = before_row.followed_by(left.followed_by(over_chunks.next(i, chunk.total())));
            if (i == SPAN - 1 && last) after = after_row;
            chunk.finish(before, after, 0);
            before = {after, false};
#pragma unroll
            for (int j = 0; j < CHUNK; j++) value[i][j][v] = chunk.value[j];
        }
    }

    __device__ Pack<Output, VECTOR> outputs_of(int step) const {
        return ::outputs_of(value[step / CHUNK][step % CHUNK]);
    }
};

// Where the inputs of VECTOR columns are, from one of their numbers on.
struct Source {
    const char* column[VECTOR];  // of the first step
    Index step;

    __device__ Source(const char* input, const Geometry& g, Index line, Index begin) {
        const Index offset = g.input_axis.offset(along(begin, g.length));
        step = REVERSE ? -g.input_axis.stride[0] : g.input_axis.stride[0];
        column[0] = input + g.input_line.offset(line) + offset;
#pragma unroll
        for (int v = 1; v < VECTOR; v++) {
            column[v] = INPUT_PACKED ? column[0] : input + g.input_line.offset(line + v) + offset;
        }
    }

    __device__ Pack<Input, VECTOR> load(int k) const {
        Pack<Input, VECTOR> pack;
        if (INPUT_PACKED) {
            pack = load_items<EVICTION, Pack<Input, VECTOR>>(column[0] + k * step);
        } else {
#pragma unroll
            for (int v = 0; v < VECTOR; v++) pack.element[v] = load_element<Input, INPUT_ALIGNED>(column[v] + k * step);
        }
        return pack;
    }
};

// Where the outputs of VECTOR columns go, from one of their numbers on.
struct Target {
    char* column[VECTOR];
    Index step;

    // `first` is where the first column lies, whose line is `line`.
    __device__ Target(char* output, char* first, const Geometry& g, Index line, Index begin) {
        const Index offset = g.output_axis.offset(along(begin, g.length + INITIAL));
        step = REVERSE ? -g.output_axis.stride[0] : g.output_axis.stride[0];
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            column[v] = OUTPUT_PACKED ? first + v * static_cast<int>(sizeof(Output))
                                      : output + g.output_line.offset(line + v);
            column[v] += offset;
        }
    }

    // ONCE: it shall leave the cache before anything else does.
    template <bool ONCE = false> __device__ void store(const Pack<Output, VECTOR>& pack) const {
        if (OUTPUT_PACKED && ONCE) {
            store_streaming(reinterpret_cast<Pack<Output, VECTOR>*>(column[0]), pack);
        } else if (OUTPUT_PACKED) {
            *reinterpret_cast<Pack<Output, VECTOR>*>(column[0]) = pack;
        } else {
#pragma unroll
            for (int v = 0; v < VECTOR; v++) store_element<OUTPUT_ALIGNED>(column[v], pack.element[v]);
        }
    }

    // From one step to the next: so an address takes an addition, where the step's number would ask for a product.
    __device__ void advance() {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) column[v] += step;
    }

    __device__ void store_initial() const {
        Pack<Output, VECTOR> first;
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            first.element[v] = convert<Output>(convert<Value>(Operation::template first<Accumulator>()));
        }
        store(first);
    }
};
