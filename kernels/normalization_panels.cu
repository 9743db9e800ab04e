// Mean, variance and normalization of the short columns of panels (panels.cuh): each thread walks down some columns,
// once for the sums, and once more to normalize what lies in shared memory.
//
// Constants that the plan sets, beside those of normalization.cuh and panels.cuh:
//     RESIDENT          blocks of a multiprocessor for which there have to be registers, at least
//     CHUNKS_AT_ONCE    that are normalized
#include "ahead.cuh"
#include "normalization.cuh"
#include "panels.cuh"

using Panels = PanelsOf<Input, Output>;

constexpr int CHUNKS = (LENGTH + CHUNK - 1) / CHUNK, LEVELS = levels_of(2 * CHUNKS - 1);
constexpr int UNROLLED = CHUNKS < CHUNKS_AT_ONCE ? CHUNKS : CHUNKS_AT_ONCE;

struct Column {
    const Panels& panels;
    int panel, number;

    __device__ int element(int step) const { return panels.element(panel, number, step); }
    __device__ Shift shift() const { return Shift(panels.inputs.element(element(0))); }

    __device__ Sums sums(const Shift& shift) const {
        SerialPrefix<Sums, LEVELS> over_chunks;
        Sums sums;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            Pack<Input, CHUNK> chunk;
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                const int step = i * CHUNK + j;
                chunk.element[j] = shift.element;  // adds nothing
                if (step < LENGTH) chunk.element[j] = panels.inputs.element(element(step));
            }
            sums = over_chunks.next(i, sum_of(chunk, shift.value));
        }
        return sums;
    }

    // `group` is what it has of all arrays. What lies in shared memory is loaded again: compilers would hold all of it
    // in registers from where it is summed, 254 of them for 64 steps.
    __device__ void normalize(const Arrays& group, const Geometry& g, const Normalizer<Compute>& normalizer,
                              const Parameters& p) const {
        const int again = static_cast<int>(hidden(0));
#pragma unroll UNROLLED
        for (int i = 0; i < CHUNKS; i++) {
            Operands<1> operands[CHUNK];
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                const int step = i * CHUNK + j;
                if (step < LENGTH) operands[j].load_of_element(group.at(g.reduced.offsets(step)));
            }
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                const int step = i * CHUNK + j;
                if (step >= LENGTH) continue;
                const Input x = panels.inputs.element(element(step) + again);
                Compute y[1] = {normalizer.apply(widen(convert<Compute>(x)))};
                operands[j].finish(y, p);
                panels.outputs.element(element(step)) = convert<Output>(y[0]);
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
normalize_panels(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                 double bias_number, char* mean, char* variance, Geometry g, Parameters p, Staging bytes,
                 Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Panels panels(input, output, g.groups / INNER, g.length, dynamic_shared, bytes);
    panels.load<EVICTION>(input);
#pragma unroll 1
    for (int c = threadIdx.x; c < panels.count * INNER; c += THREADS) {
        const Column column = {panels, c / INNER, c % INNER};
        const Shift shift = column.shift();
        const Moments moments = moments_of(column.sums(shift), shift.value, p);
        const Arrays group = arrays.at(g.kept.offsets(panels.first * INNER + c));
        if (mean) store_moments(group, moments, p);
        if constexpr (HAS_OUTPUT) column.normalize(group, g, Normalizer<Compute>::of(moments, p), p);
    }
    if constexpr (HAS_OUTPUT) panels.store(output);
}
