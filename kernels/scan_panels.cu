// Running sums and products of short columns in panels (panels.cuh). Each thread walks down some columns, chunk by
// chunk. A column is a row of the tree (tree.cuh), or a part of one.
#include "ahead.cuh"
#include "panels.cuh"
#include "scan.cuh"

static_assert(!SEGMENTED && !INITIAL, "columns of one array");

using Panels = PanelsOf<Input, Output>;

__device__ int place_of(const Panels& panels, int panel, int column, int step) {
    return panels.element(panel, column, REVERSE ? panels.length - 1 - step : step);
}

__device__ void scan_column(const Panels& panels, int panel, int column) {
    constexpr int CHUNKS = (LENGTH + CHUNK - 1) / CHUNK, AT_ONCE = LENGTH > 0 ? CHUNKS : 1;
    Prefix before = Prefix::nothing();
    SerialPrefix<Item> over_chunks;
#pragma unroll AT_ONCE
    for (int i = 0; i < (LENGTH > 0 ? CHUNKS : (panels.length + CHUNK - 1) / CHUNK); i++) {
        Chunk chunk;
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            chunk.value[j] = Operation::template neutral<Accumulator>();
            if (i * CHUNK + j >= panels.length) continue;
            const Input x = panels.inputs.element(place_of(panels, panel, column, i * CHUNK + j));
            chunk.value[j] = widen(convert<Value>(x));
        }
        chunk.scan(0);
        Item after;
        if constexpr (IsInteger<Value>::value) after = before.followed_by(chunk.total());  // the same in every order
        else after = over_chunks.next(i, chunk.total());
        chunk.finish(before, after, 0);
        before = {after, false};
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (i * CHUNK + j >= panels.length) continue;
            const Output y = convert<Output>(convert<Value>(chunk.value[j]));
            panels.outputs.element(place_of(panels, panel, column, i * CHUNK + j)) = y;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
scan_panels(const char* input, char* output, Geometry g, Staging bytes, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    const Panels panels(input, output, g.lines / INNER, g.length, dynamic_shared, bytes);
    panels.load<EVICTION>(input);
#pragma unroll 1
    for (int c = threadIdx.x; c < panels.count * INNER; c += THREADS) scan_column(panels, c / INNER, c % INNER);
    panels.store(output);
}
