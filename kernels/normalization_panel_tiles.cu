// Moments and normalization of groups that all have a run in each panel (panels.cuh), channels of small images or short
// sequences, and that no cluster holds: they are cut into tiles, and read twice, as in normalization_tiled_lines.cu.
//
// A tile has as many elements of every group. A block moves the panels that have them, whatever the length of their
// runs, as one run; the first and the last panel may be another block's too. Of what lies in shared memory each thread
// adds up spans of a group. A thread that normalizes has vectors that begin at the same place of some panels.
//
// Constants that the plan sets, beside those of normalization_span_sums.cuh and staged_runs.cuh:
//     GROUPS, RUN        groups, and elements of a run
//     SET                groups of a set of tiles (normalization_tiles.cuh), a power of two; some may not exist
//     ADDERS             threads that add up sets, a power of two
//     SPANS              of a group in a tile, a power of two
//     PIECES_OF_THREAD   vectors that a thread normalizes
//     RESIDENT           blocks of a multiprocessor for which there have to be registers, at least
// Dynamic shared memory of sum_panel_tiles: the panels.
#include "normalization_affine.cuh"
#include "normalization_span_sums.cuh"
#include "normalization_tiles.cuh"
#include "staged_runs.cuh"

using Chunk = Pack<Input, CHUNK>;
using Result = Pack<Output, CHUNK>;

constexpr int PANEL = GROUPS * RUN, TILE = SPANS * OF_SPAN, WARPS = THREADS / LANES;

// ---------------------------------------------------------------------------------------------------------------------
// Sums

// A tile, and the panels that have it. Elements of a group are counted from the first of these on.
struct Share {
    Index panel;
    int begin, end, panels;

    __device__ Share(Index length, Index tile) {
        const Index first = tile * TILE;
        panel = first / RUN;
        begin = static_cast<int>(first - panel * RUN);
        end = begin + up_to(length - first, TILE);
        panels = (end + RUN - 1) / RUN;
    }
};

// A chunk of a group that begins with element `number`, of which `left` lie in one panel if runs are no shorter.
struct ChunkInPanels {
    const StagedRun<Input>& panels;
    int group, number, panel, left;

    __device__ ChunkInPanels(const StagedRun<Input>& panels, int group, int number)
        : panels(panels), group(group), number(number), panel(number / RUN), left((panel + 1) * RUN - number) {}

    __device__ Input element(int j) const {
        const int of_element = RUN >= CHUNK ? panel + (j >= left) : (number + j) / RUN;
        return panels.element(number + j + of_element * (PANEL - RUN) + group * RUN);
    }
};

// By all threads of the block.
__device__ void add_up_spans(SpanSums<SPANS, GROUPS>& sums, const Input* first_of, const StagedRun<Input>& panels,
                             const Share& share) {
#pragma unroll 1
    for (int n = threadIdx.x; n < SPANS * GROUPS; n += THREADS) {
        const int span = n / GROUPS, group = n % GROUPS;
        const auto chunk_at = [&](int number) { return ChunkInPanels(panels, group, number); };
        sums.of[span][group] = sums_of_span(chunk_at, share.begin + span * OF_SPAN, share.end, Shift(first_of[group]));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
sum_panel_tiles(const char* input, Word* control, Normalizer<Compute>* normalizers, char* mean, char* variance,
                Geometry g, Parameters p) {
    await_launch_ahead_of_steps();
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    __shared__ SpanSums<SPANS, GROUPS> sums;
    __shared__ Input first_of[GROUPS];  // element of each group
    const Arrays arrays = {input, nullptr, nullptr, nullptr, 0, 0, mean, variance};
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < GROUPS) first_of[thread] = load_input(arrays.at(g.kept.offsets(thread)), g, 0);
    const TicketsFor<Sums> tickets = take_tile(control, g.tiles);
    const Share share(g.length, tickets.of_block());
    const char* const from = input + share.panel * (PANEL * static_cast<int>(sizeof(Input)));
    const StagedRun<Input> panels(reinterpret_cast<char*>(dynamic_shared), from, share.panels * PANEL);
    panels.load<EVICTION>(from);
    __syncthreads();
    add_up_spans(sums, first_of, panels, share);
    sums.add_up<WARPS>(SPANS, GROUPS);
    const int c = thread % SET;
    Sums total = c < GROUPS ? sums.of[0][c] : Sums{};
    Word* const words = control + SECTOR;
    const bool is_last = add_up_tiles<SET, ADDERS>(total, words, tickets.of_block(), g.tiles, tickets.epoch());
    if (!is_last || thread >= GROUPS) return;
    finish_group(arrays, normalizers, g, thread, total, Shift(first_of[thread]).value, p);
}

// ---------------------------------------------------------------------------------------------------------------------
// All vectors again; what was read last first.

constexpr int VECTORS = vectors_of(PANEL), AT_ONCE = THREADS / VECTORS * VECTORS;  // of a block

// Of an element, counted from the begin of a panel.
__device__ PlaceInGroup place_in_group(Index element) {
    const Index panel = element / PANEL;
    const int place = static_cast<int>(element - panel * PANEL);
    return {place / RUN, panel * RUN + place % RUN};
}

// The elements behind the last vector, one for each of some threads.
__device__ void normalize_rest(const Normalizer<Compute>* normalizers, const Arrays& arrays, const Geometry& g,
                               const Parameters& p) {
    const Index elements = g.length * GROUPS, element = elements - elements % CHUNK + threadIdx.x;
    if (element >= elements) return;
    const PlaceInGroup place = place_in_group(element);
    const Arrays group = arrays.at(g.kept.offsets(place.group));
    const Input x = load_input(group, g, place.number);
    Compute y[1] = {normalizers[place.group].apply(widen(convert<Compute>(x)))};
    Operands<1> operands;
    operands.load_of_element(group.at(g.reduced.offsets(place.number)));
    operands.finish(y, p);
    store_output(group, g, place.number, convert<Output>(y[0]));
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
apply_panel_tiles(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                  double bias_number, const Normalizer<Compute>* of_groups, Geometry g, Parameters p) {
    const Index tile = static_cast<Index>(gridDim.x) - 1 - static_cast<Index>(blockIdx.x);
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, nullptr, nullptr};
    const int thread = static_cast<int>(threadIdx.x);
    const Index first = tile * (AT_ONCE * PIECES_OF_THREAD) + thread, vectors = g.length * GROUPS / CHUNK;
    const int count = thread < AT_ONCE ? up_to(vectors - first, AT_ONCE * PIECES_OF_THREAD) : 0;
    const Chunk* const from = reinterpret_cast<const Chunk*>(input) + first;
    Chunk x[PIECES_OF_THREAD];
#pragma unroll
    for (int k = 0; k < PIECES_OF_THREAD; k++) {
        if (k * AT_ONCE < count) x[k] = from[k * AT_ONCE];
    }
    await_launch_ahead();  // nothing so far is what the first step writes, or is written by this one
    const Affine affine(of_groups, arrays, g, 0, [=](int j) { return place_in_group(thread * CHUNK + j); });
    Result* const to = reinterpret_cast<Result*>(output) + first;
#pragma unroll
    for (int k = 0; k < PIECES_OF_THREAD; k++) {
        if (k * AT_ONCE < count) store_streaming(to + k * AT_ONCE, affine.of(x[k], p));
    }
    if (tile == 0) normalize_rest(of_groups, arrays, g, p);
}
