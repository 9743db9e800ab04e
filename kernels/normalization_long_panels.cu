// Normalization of columns in panels (panels.cuh) that several threads share: each adds up spans of columns, and
// normalizes steps of one, all of which lie in shared memory.
//
// Constants that the plan sets, beside those of normalization_span_sums.cuh and panels.cuh:
//     SPANS       of a column at the most, a power of two
//     RESIDENT    blocks of a multiprocessor for which there have to be registers, at least
#include "normalization_span_sums.cuh"
#include "panels.cuh"

using Panels = PanelsOf<Input, Output>;

constexpr int GROUPS = PANELS * INNER, WARPS = THREADS / LANES;

static_assert(THREADS >= INNER, "a thread for each column");

// A chunk of a column.
struct ChunkOfColumn {
    const Panels& panels;
    int first;  // its first element in the run

    __device__ Input element(int j) const { return panels.inputs.element(first + j * INNER); }
};

// By all threads of the block.
__device__ void add_up_spans(SpanSums<SPANS, GROUPS>& sums, const Panels& panels, int spans) {
#pragma unroll 1
    for (int n = threadIdx.x; n < panels.count * spans * INNER; n += THREADS) {
        const int column = n % INNER, panel = n / INNER / spans, span = n / INNER - panel * spans;
        const Shift shift(panels.inputs.element(panels.element(panel, column, 0)));
        const auto at = [&](int step) { return ChunkOfColumn{panels, panels.element(panel, column, step)}; };
        sums.of[span][panel * INNER + column] = sums_of_span(at, span * OF_SPAN, panels.length, shift);
    }
}

// Each thread normalizes steps of the same column of all panels.
__device__ void normalize(const Panels& panels, const Normalizer<Compute>* normalizers, const Arrays& arrays,
                          const Geometry& g, const Parameters& p) {
    constexpr int AT_ONCE = THREADS / INNER;  // steps
    const int column = static_cast<int>(threadIdx.x) % INNER, begin = static_cast<int>(threadIdx.x) / INNER;
    if (begin >= AT_ONCE) return;
#pragma unroll 1
    for (int panel = 0; panel < panels.count; panel++) {
        const Normalizer<Compute> normalizer = normalizers[panel * INNER + column];
        const Arrays group = arrays.at(g.kept.offsets((panels.first + panel) * INNER + column));
#pragma unroll 4
        for (int step = begin; step < panels.length; step += AT_ONCE) {
            Operands<1> operands;
            operands.load_of_element(group.at(g.reduced.offsets(step)));
            const int place = panels.element(panel, column, step);
            Compute y[1] = {normalizer.apply(widen(convert<Compute>(panels.inputs.element(place))))};
            operands.finish(y, p);
            panels.outputs.element(place) = convert<Output>(y[0]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
normalize_long_panels(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                      double bias_number, char* mean, char* variance, Geometry g, Parameters p, Staging bytes) {
    await_launch_ahead();
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    __shared__ SpanSums<SPANS, GROUPS> sums;
    __shared__ Normalizer<Compute> normalizers[GROUPS];
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Panels panels(input, output, g.groups / INNER, g.length, dynamic_shared, bytes);
    const int spans = (panels.length + OF_SPAN - 1) / OF_SPAN;
    panels.load<EVICTION>(input);
    add_up_spans(sums, panels, spans);
    sums.add_up<WARPS>(spans, panels.count * INNER);
#pragma unroll 1
    for (int group = threadIdx.x; group < panels.count * INNER; group += THREADS) {
        const int panel = group / INNER, column = group - panel * INNER;
        const Shift shift(panels.inputs.element(panels.element(panel, column, 0)));
        const Moments moments = moments_of(sums.of[0][group], shift.value, p);
        if (mean) store_moments(arrays.at(g.kept.offsets(panels.first * INNER + group)), moments, p);
        normalizers[group] = Normalizer<Compute>::of(moments, p);
    }
    __syncthreads();
    normalize(panels, normalizers, arrays, g, p);
    panels.store(output);
}
