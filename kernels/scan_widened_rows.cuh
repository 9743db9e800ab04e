// Rows of integers that are stored in one byte or two and summed in more.
//
// Integers give the same sums in every order. So a row is added up by itself, in as few bytes as hold its sums, and
// what lies before it comes last: on their way through shared memory to the lanes that store them, prefixes take two
// bytes or four instead of eight. Each lane stores pieces of 16 bytes.
#pragma once

#include "scan.cuh"

// 256 elements of one byte add up to two bytes, of two bytes to three.
template <typename T> struct LocalOf { using type = int; };
template <> struct LocalOf<bool> { using type = short; };
template <> struct LocalOf<signed char> { using type = short; };
template <> struct LocalOf<unsigned char> { using type = unsigned short; };

using Local = LocalOf<Input>::type;  // a prefix within a row
using LocalBuffer = RowBufferOf<Local>;

struct LocalItem {
    int value;
};

__device__ inline LocalItem combine(LocalItem a, LocalItem b) { return {a.value + b.value}; }

template <> constexpr bool COMMUTES<LocalItem> = true;

// A lane's chunk of such a row.
struct WidenedChunk {
    int prefix[CHUNK];  // inclusive

    __device__ void load(const char* address) {
        load_packed<Input>(address, prefix);
#pragma unroll
        for (int j = 1; j < CHUNK; j++) prefix[j] += prefix[j - 1];
    }

    __device__ LocalItem total() const { return {prefix[CHUNK - 1]}; }

    // Stores the row that begins with element `first` of the line. `lanes` is the inclusive prefix of the chunks'
    // totals, `before` what lies before the row. By all lanes of a warp.
    __device__ void store(LocalBuffer& buffer, const Line& line, Index first, LocalItem lanes,
                          Accumulator before) const {
        constexpr int PIECE = 16 / SIZE_OUT;
        spread(buffer, lanes.value - total().value);
        const int left = up_to(line.length - first, ROW);
        char* to = line.output + (REVERSE ? line.length - first - ROW : first) * SIZE_OUT;
#pragma unroll
        for (int k = 0; k < CHUNK / PIECE; k++) {
            const int i = (k * LANES + lane_index()) * PIECE;
            const Pack<Local, PIECE> local = *reinterpret_cast<const Pack<Local, PIECE>*>(&buffer.element(i));
            Accumulator result[PIECE];
#pragma unroll
            for (int j = 0; j < PIECE; j++) result[j] = Sum::combine(before, convert<Accumulator>(local.element[j]));
            if (left == ROW) {
                store_streaming(reinterpret_cast<Pack<Output, PIECE>*>(to + i * SIZE_OUT), pack_of<Output>(result));
            } else {
#pragma unroll
                for (int j = 0; j < PIECE; j++) {
                    const bool exists = (REVERSE ? ROW - 1 - i - j : i + j) < left;
                    if (exists) store_element<true>(to + (i + j) * SIZE_OUT, convert<Output>(result[j]));
                }
            }
        }
    }

  private:
    // Puts the chunk's outputs into the buffer, in the order of memory, but for what lies before the row. `before` is
    // what lies before the chunk.
    __device__ void spread(LocalBuffer& buffer, int before) const {
        constexpr int COUNT = CHUNK * sizeof(Local) > 16 ? 16 / sizeof(Local) : CHUNK;
        const int place = (REVERSE ? LANES - 1 - lane_index() : lane_index()) * CHUNK;
        Pack<Local, COUNT> pack[CHUNK / COUNT];
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const int within = !EXCLUSIVE ? prefix[j] : j > 0 ? prefix[j - (j > 0)] : 0, i = chunk_place(j);
            pack[i / COUNT].element[i % COUNT] = static_cast<Local>(before + within);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < CHUNK; i += COUNT) {
            *reinterpret_cast<Pack<Local, COUNT>*>(&buffer.element(place + i)) = pack[i / COUNT];
        }
        __syncwarp();
    }
};
