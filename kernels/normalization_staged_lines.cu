// Moments and normalization of groups that lie end to end: rows of an odd number of halves, small images. A block moves
// some to shared memory and back in whole pieces of 16 bytes, wherever they begin.
//
// A span is some chunks of a group that follow each other. Each thread has one, in registers from where it is added up
// to where it is normalized, and neighbouring threads have the same span of neighbouring groups. So all of a warp take
// the same branches, and the same elements of scale and bias; and as groups are an odd number of words apart, or of
// halves, these lie in different banks.
//
// Constants that the plan sets, beside those of normalization_chunks.cuh and staged_runs.cuh:
//     LENGTH      elements of a group
//     LINES       groups of a block
//     SPAN        chunks of a span, a power of two
//     INPUT_STEP, OUTPUT_STEP     bytes, 2 to 16, of which every span begins at a multiple
//     RESIDENT    blocks of a multiprocessor for which there have to be registers, at least
// Dynamic shared memory: the groups of a block, inputs first and outputs in their place.
#include "ahead.cuh"
#include "normalization_chunks.cuh"
#include "normalization_words.cuh"
#include "staged_runs.cuh"

constexpr int SPANS = THREADS / LINES, OF_SPAN = SPAN * CHUNK;
constexpr int OF_LAST = LENGTH - (SPANS - 1) * OF_SPAN;  // elements of a group's last span
constexpr int OF_OTHERS = SPANS > 1 ? OF_SPAN : OF_LAST;

static_assert(SPANS * LINES == THREADS && 0 < OF_LAST && OF_LAST <= OF_SPAN, "a span for each thread");

// ---------------------------------------------------------------------------------------------------------------------
// Spans, of which EXIST elements exist

struct Span {
    unsigned word[SPAN * 4];

    __device__ Chunk chunk(int c) const {
        InWords<Chunk, PieceOf<16>> taken;
#pragma unroll
        for (int i = 0; i < 4; i++) taken.words.word[i] = word[c * 4 + i];
        return taken.items;
    }

    template <int EXIST> __device__ Sums load_and_add(const char* from, const Shift& shift) {
        constexpr int CHUNKS = (EXIST + CHUNK - 1) / CHUNK, REST = EXIST - (CHUNKS - 1) * CHUNK;
        constexpr int ALL = SPANS > 1 ? SPAN : power_of_two_from(CHUNKS);
        load_in_words<INPUT_STEP, EXIST * static_cast<int>(sizeof(Input))>(from, word);
        SerialPrefix<Sums, levels_of(ALL)> over_chunks;
        Sums total;
#pragma unroll
        for (int c = 0; c < ALL; c++) {
            Sums sums = {};
            if (c < CHUNKS - 1) sums = sum_of(chunk(c), shift.value);
            else if (c < CHUNKS) sums = sum_of<REST>(chunk(c), shift.value);
            total = over_chunks.next(c, sums);
        }
        return total;
    }

    // It begins with element `first` of its group.
    template <int EXIST>
    __device__ void normalize_and_store(char* to, int first, const Arrays& group, const Geometry& g,
                                        const Normalizer<Compute>& normalizer, const Parameters& p) const {
        constexpr int CHUNKS = (EXIST + CHUNK - 1) / CHUNK, WORDS = sizeof(Result) / 4;
        unsigned result[CHUNKS * WORDS];
        Operands<CHUNK, EXIST> operands;
        operands.load_once(group);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int from = c * CHUNK;
            if (from + CHUNK <= EXIST) load_operands(group, g, first, Beyond{}, operands, from);
            else load_operands(group, g, first, static_cast<Index>(LENGTH), operands, from);
            InWords<Result, PieceOf<sizeof(Result)>> given;
            given.items = normalized<true>(chunk(c), normalizer, operands, p, from);
#pragma unroll
            for (int i = 0; i < WORDS; i++) result[c * WORDS + i] = given.words.word[i];
        }
        store_in_words<OUTPUT_STEP, EXIST * static_cast<int>(sizeof(Output))>(to, result);
    }
};

// ---------------------------------------------------------------------------------------------------------------------

struct Shared {
    Sums of_span[SPANS][LINES];
    Normalizer<Compute> normalizers[LINES];

    __device__ Sums total(int line) const {
        constexpr int ALL = power_of_two_from(SPANS);
        SerialPrefix<Sums, levels_of(ALL)> over_spans;
        Sums total;
#pragma unroll
        for (int k = 0; k < ALL; k++) total = over_spans.next(k, k < SPANS ? of_span[k < SPANS ? k : 0][line] : Sums{});
        return total;
    }
};

// A thread's span, and its place among those of the block.
struct Thread {
    int line, number;       // of the group in the block, and of the span in the group
    bool exists, is_first;  // the group, and whether it is its first span
    Span span;

    __device__ explicit Thread(int lines) {
        const int thread = static_cast<int>(threadIdx.x);
        line = thread % LINES;
        number = SPANS > 1 ? thread / LINES : 0;
        exists = line < lines;
        is_first = exists && number == 0;
    }

    __device__ bool is_last() const { return SPANS == 1 || number == SPANS - 1; }
    template <typename T> __device__ char* place(const StagedRun<T>& run) const {
        return reinterpret_cast<char*>(&run.element(line * LENGTH + number * OF_SPAN));
    }

    __device__ Sums load_and_add(const StagedRun<Input>& run, const Shift& shift) {
        if (!exists) return {};
        return is_last() ? span.load_and_add<OF_LAST>(place(run), shift)
                         : span.load_and_add<OF_OTHERS>(place(run), shift);
    }

    __device__ void normalize_and_store(const StagedRun<Output>& run, const Arrays& group, const Geometry& g,
                                        const Normalizer<Compute>& normalizer, const Parameters& p) const {
        const int first = number * OF_SPAN;
        if (!exists) return;
        if (is_last()) span.normalize_and_store<OF_LAST>(place(run), first, group, g, normalizer, p);
        else span.normalize_and_store<OF_OTHERS>(place(run), first, group, g, normalizer, p);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
normalize_staged_lines(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                       double bias_number, char* mean, char* variance, Geometry g, Parameters p, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead();
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    __shared__ Shared shared;
    char* const staged = reinterpret_cast<char*>(dynamic_shared);
    const Index first = static_cast<Index>(blockIdx.x) * LINES, before = first * LENGTH;
    const int lines = up_to(g.groups - first, LINES);
    input += before * static_cast<int>(sizeof(Input));
    output += before * static_cast<int>(sizeof(Output));
    const StagedRun<Input> source(staged, input, lines * LENGTH);
    source.template copy<EVICTION>(input);
    copy_async_wait_all();
    __syncthreads();

    Thread thread(lines);
    const Shift shift(thread.exists ? source.element(thread.line * LENGTH) : Input());
    Sums sums = thread.load_and_add(source, shift);
    if constexpr (SPANS > 1) {
        shared.of_span[thread.number][thread.line] = sums;
        __syncthreads();
        if (thread.is_first) sums = shared.total(thread.line);
    }
    const Arrays all = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Arrays group = all.at(g.kept.offsets(first + (thread.exists ? thread.line : 0)));
    Normalizer<Compute> normalizer = {};
    if (thread.is_first) {
        const Moments moments = moments_of(sums, shift.value, p);
        if (mean) store_moments(group, moments, p);
        normalizer = Normalizer<Compute>::of(moments, p);
    }
    if constexpr (HAS_OUTPUT) {
        if (SPANS > 1 && thread.is_first) shared.normalizers[thread.line] = normalizer;
        __syncthreads();  // all have loaded, too
        if (SPANS > 1 && thread.exists) normalizer = shared.normalizers[thread.line];
        const StagedRun<Output> target(staged, output, lines * LENGTH);
        thread.normalize_and_store(target, group, g, normalizer, p);
        __syncthreads();
        target.store(output);
    }
}
