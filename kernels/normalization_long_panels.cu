// Normalization of columns in panels (panels.cuh) that several threads share: each adds up spans of columns, and
// normalizes steps of one, all of which lie in shared memory; or bands of all columns of a panel.
//
// A band is a chunk of each column. They lie side by side, in as many pieces of 16 bytes as there are columns, at
// places that the compiler knows; and scale and bias of a step are loaded once.
//
// Constants that the plan sets, beside those of normalization_span_sums.cuh and panels.cuh:
//     SPANS       of a column at the most, a power of two
//     BANDS       1: threads normalize bands, as columns have whole chunks, panels begin with pieces, and all columns
//                 of one have the same scale and bias
//     RESIDENT    blocks of a multiprocessor for which there have to be registers, at least
#include "ahead.cuh"
#include "normalization_span_sums.cuh"
#include "panels.cuh"

using Panels = PanelsOf<Input, Output>;

constexpr int GROUPS = PANELS * INNER, WARPS = THREADS / LANES;

static_assert(THREADS >= INNER, "a thread for each column");
static_assert(!BANDS || (ALIKE && !PADDED), "pieces whose place their results take");

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

// Of a step, whose number in its column is given.
__device__ Operands<1> operands_of(const Arrays& group, const Geometry& g, int step) {
    Operands<1> operands;
    operands.load_of_element(group.at(g.reduced.offsets(step)));
    return operands;
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
            const Operands<1> operands = operands_of(group, g, step);
            const int place = panels.element(panel, column, step);
            Compute y[1] = {normalizer.apply(widen(convert<Compute>(panels.inputs.element(place))))};
            operands.finish(y, p);
            panels.outputs.element(place) = convert<Output>(y[0]);
        }
    }
}

// Each thread normalizes bands.
__device__ void normalize_bands(const Panels& panels, const Normalizer<Compute>* normalizers, const Arrays& arrays,
                                const Geometry& g, const Parameters& p) {
    const int bands = panels.length / CHUNK;
#pragma unroll 1
    for (int n = threadIdx.x; n < panels.count * bands; n += THREADS) {
        const int panel = n / bands, begin = (n - panel * bands) * CHUNK;
        const Arrays group = arrays.at(g.kept.offsets((panels.first + panel) * INNER));
        Operands<1> operands[CHUNK];
        Normalizer<Compute> normalizer[INNER];
#pragma unroll
        for (int j = 0; j < CHUNK; j++) operands[j] = operands_of(group, g, begin + j);
#pragma unroll
        for (int c = 0; c < INNER; c++) normalizer[c] = normalizers[panel * INNER + c];
        const int first = panels.element(panel, 0, begin);
        const auto* from = reinterpret_cast<const Pack<Input, CHUNK>*>(&panels.inputs.element(first));
        auto* to = reinterpret_cast<Pack<Output, CHUNK>*>(&panels.outputs.element(first));
#pragma unroll
        for (int k = 0; k < INNER; k++) {
            Compute y[CHUNK];
            unpack(from[k], y);
#pragma unroll
            for (int i = 0; i < CHUNK; i++) {
                const int place = k * CHUNK + i;
                Compute one[1] = {normalizer[place % INNER].apply(y[i])};
                operands[place / INNER].finish(one, p);
                y[i] = one[0];
            }
            to[k] = pack_of<Output>(y);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
normalize_long_panels(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                      double bias_number, char* mean, char* variance, Geometry g, Parameters p, Staging bytes,
                      Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
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
    if constexpr (BANDS) normalize_bands(panels, normalizers, arrays, g, p);
    else normalize(panels, normalizers, arrays, g, p);
    panels.store(output);
}
