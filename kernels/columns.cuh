// What the kernels for columns share: a thread walks down a span, some chunks of VECTOR neighbouring columns.
//
// Constants that the plan sets, beside those of scan.cuh:
//     VECTOR           columns of a thread
//     SPAN             chunks of a span; a power of two up to 32 unless a column is one span
//     OUTPUT_PACKED    the outputs of these columns lie side by side and aligned, and are moved in one access
#pragma once

#include "scan.cuh"

__device__ constexpr int log2_of(int n) { return n <= 1 ? 0 : 1 + log2_of(n / 2); }

constexpr int SPAN_STEPS = SPAN * CHUNK;
constexpr int PARTS = RADIX / SPAN;  // spans of a row

// The aggregate of an aligned power of two of spans.
template <int COUNT, int HEIGHT, int WIDTH>
__device__ Item sum_of_spans(const Item (&part)[HEIGHT][WIDTH], int first, int column) {
    if constexpr (COUNT == 1) {
        return part[first][column];
    } else {
        const Item left = sum_of_spans<COUNT / 2>(part, first, column);
        return combine(left, sum_of_spans<COUNT / 2>(part, first + COUNT / 2, column));
    }
}

// The blocks of chunks that lie before a span in its row.
struct Left {
    static constexpr int BITS = log2_of(PARTS);
    Item block[BITS + 1];
    int number;  // of the span in its row

    template <int HEIGHT, int WIDTH>
    __device__ Left(const Item (&part)[HEIGHT][WIDTH], int span, int column) : number(span % PARTS) {
        load<0>(part, span - number, column);
    }

    template <int B, int HEIGHT, int WIDTH>
    __device__ void load(const Item (&part)[HEIGHT][WIDTH], int row, int column) {
        if constexpr (B < BITS) {
            if (number >> B & 1) block[B] = sum_of_spans<1 << B>(part, row + (number >> (B + 1) << (B + 1)), column);
            load<B + 1>(part, row, column);
        }
    }

    __device__ bool last() const { return number == PARTS - 1; }

    // The prefix within the row of something that has `item` within the span.
    __device__ Item followed_by(Item item) const {
#pragma unroll
        for (int b = 0; b < BITS; b++) {
            if (number >> b & 1) item = combine(block[b], item);
        }
        return item;
    }

    // The prefix of the row before the span, unless that is the first.
    __device__ Item before() const {
        Item item = neutral_item();
        bool exists = false;
#pragma unroll
        for (int b = 0; b < BITS; b++) {
            if (!(number >> b & 1)) continue;
            item = exists ? combine(block[b], item) : block[b];
            exists = true;
        }
        return item;
    }
};

struct Values {
    Accumulator value[SPAN][CHUNK][VECTOR];

    template <typename T> __device__ void set(int step, const Pack<T, VECTOR>& pack) {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) value[step / CHUNK][step % CHUNK][v] = widen(convert<Value>(pack.element[v]));
    }

    // `at(k)` loads step k of the span, of which `count` exist. All loads come before the first use.
    template <typename At> __device__ void load(int count, At at) {
        decltype(at(0)) pack[SPAN_STEPS];
        if (count == SPAN_STEPS) {
#pragma unroll
            for (int k = 0; k < SPAN_STEPS; k++) pack[k] = at(k);
#pragma unroll
            for (int k = 0; k < SPAN_STEPS; k++) set(k, pack[k]);
            return;
        }
#pragma unroll
        for (int k = 0; k < SPAN_STEPS; k++) {
            if (k < count) pack[k] = at(k);
        }
#pragma unroll
        for (int k = 0; k < SPAN_STEPS; k++) {
#pragma unroll
            for (int v = 0; v < VECTOR; v++) value[k / CHUNK][k % CHUNK][v] = Operation::template neutral<Accumulator>();
            if (k < count) set(k, pack[k]);
        }
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
        SerialPrefix<Item> over_chunks;
        Item total;
#pragma unroll
        for (int i = 0; i < SPAN; i++) total = over_chunks.next(i, chunk(i, v).total());
        return total;
    }

    // Turns the values of a column into outputs.
    __device__ void scan(int v, const Left& left, const Prefix& before_row, Item after_row) {
        Prefix before = before_row;
        before.append(left.before(), left.number > 0);
        SerialPrefix<Item> over_chunks;
#pragma unroll
        for (int i = 0; i < SPAN; i++) {
            Chunk chunk = this->chunk(i, v);
            Item after = before_row.followed_by(left.followed_by(over_chunks.next(i, chunk.total())));
            if (i == SPAN - 1 && left.last()) after = after_row;
            chunk.finish(before, after, 0);
            before = {after, false};
#pragma unroll
            for (int j = 0; j < CHUNK; j++) value[i][j][v] = chunk.value[j];
        }
    }

    __device__ void outputs_of(int step, Value (&result)[VECTOR]) const {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) result[v] = convert<Value>(value[step / CHUNK][step % CHUNK][v]);
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
            column[v] = OUTPUT_PACKED ? first + v * static_cast<int>(sizeof(Output)) : output + g.output_line.offset(line + v);
            column[v] += offset;
        }
    }

    __device__ void store(int number, const Value (&result)[VECTOR]) const {
        if (OUTPUT_PACKED) {
            Pack<Output, VECTOR> pack;
#pragma unroll
            for (int v = 0; v < VECTOR; v++) pack.element[v] = convert<Output>(result[v]);
            *reinterpret_cast<Pack<Output, VECTOR>*>(column[0] + number * step) = pack;
        } else {
#pragma unroll
            for (int v = 0; v < VECTOR; v++) {
                store_element<OUTPUT_ALIGNED>(column[v] + number * step, convert<Output>(result[v]));
            }
        }
    }

    __device__ void store_initial() const {
        Value first[VECTOR];
#pragma unroll
        for (int v = 0; v < VECTOR; v++) first[v] = convert<Value>(Operation::template first<Accumulator>());
        store(0, first);
    }
};
