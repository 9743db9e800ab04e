// Mean and variance over any axes, and the normalization by them: what all kernels share.
//
//     output = activation(scale * (input - mean) / sqrt(variance + epsilon) + bias)
//
// A group is everything that shares a mean. Its elements are numbered in C order over the reduced axes, whatever their
// strides, and cut into chunks of 16 bytes. A chunk is added up from left to right; chunks are added pairwise, in
// aligned powers of two, chunks that do not exist being 0. So any aligned power of two of chunks may be added up by
// anybody, and the statistics depend on values and shape alone.
//
// The sums are of x - shift and (x - shift)^2 in double, the shift being the group's first element. That loses nothing
// to cancellation: since the shift is one of the n elements, (mean - shift)^2 <= n * variance, hence the variance keeps
// 53 - log2(n) bits. In a constant group every term is exactly 0. The mean is kept as the sum of two numbers, so that
// input - mean is right to the last bit however large the mean is.
//
// Constants that the plan sets:
//     INPUT, SCALE, BIAS, OUTPUT, MOMENT     element types: of the arrays, and of mean and variance; MOMENT is Moments
//                                            where `mean` gets both, for another kernel
//     COMPUTE                                float or double: in which the elements are normalized
//     HAS_SCALE, HAS_BIAS                    0: none, 1: an array, 2: one number, 3: an array with one number for each
//                                            group, 4: for each run along the innermost axis
//     OPERAND_RUN                            elements of such a run; CHUNK of longer ones too, where no more than a
//                                            chunk's numbers are loaded at once
//     OPERAND_PART                           elements of which chunks and such runs have a whole number
//     HAS_OUTPUT                             0: mean and variance alone; set for kernels that may find no more
//     EVICTION                               the input's: intrinsics.cuh; set for kernels that load it as that says
//     ACTIVATION                             a struct of normalization_activations.cuh
//     NORMALIZE_VARIANCE
//     *_ALIGNED                              every element of that array lies at a multiple of its size
//     KEPT_RANK, REDUCED_RANK, INDEX         of the layout of all arrays
#pragma once

#include "normalization_activations.cuh"
#include "elements.cuh"
#include "layout.cuh"
#include "tree.cuh"
#include "warp.cuh"

using Compute = COMPUTE;
using Input = INPUT;
using Output = OUTPUT;

constexpr int CHUNK = 16 / sizeof(Input);
constexpr int ROW = LANES * CHUNK;

// ---------------------------------------------------------------------------------------------------------------------
// Where elements lie

constexpr int OF_INPUT = 0, OF_OUTPUT = 1, OF_SCALE = 2, OF_BIAS = 3, OF_MOMENTS = 4, ARRAYS = 5;

struct Offsets {
    Index of[ARRAYS];
};

// Some axes of all arrays at once: one decomposition of a number gives the offset in each.
template <int RANK> struct Axes {
    Index size[RANK], magic[RANK], shift[RANK];
    Index stride[ARRAYS][RANK];

    __device__ Index quotient(Index number, int axis) const {
        return quotient_by(number, size[axis], magic[axis], shift[axis]);
    }

    // Of an element; or, with a number along so many outer axes alone, of the first one there.
    template <int OUTER = RANK> __device__ Offsets offsets(Index number) const {
        Offsets sum = {};
#pragma unroll
        for (int axis = OUTER - 1; axis >= 0; axis--) {
            const Index outer = axis > 0 ? quotient(number, axis) : 0;
            const Index place = axis > 0 ? number - outer * size[axis] : number;
#pragma unroll
            for (int a = 0; a < ARRAYS; a++) sum.of[a] += place * stride[a][axis];
            number = outer;
        }
        return sum;
    }
};

struct Geometry {
    Index groups, length, tiles;  // tiles of a group
    Axes<KEPT_RANK> kept;
    Axes<REDUCED_RANK> reduced;
};

struct Parameters {
    double epsilon, alpha, beta;
    double length, inverse_length;    // elements of a group
    double divisor, inverse_divisor;  // of the variance that is stored
};

// The arrays of a call, or of a group; scale and bias may be numbers instead.
struct Arrays {
    const char* input;
    char* output;
    const char* scale;
    const char* bias;
    double scale_number, bias_number;
    char* mean;
    char* variance;

    __device__ Arrays at(const Offsets& offsets) const {
        return {input + offsets.of[OF_INPUT], output + offsets.of[OF_OUTPUT], scale + offsets.of[OF_SCALE],
                bias + offsets.of[OF_BIAS], scale_number, bias_number, mean + offsets.of[OF_MOMENTS],
                variance + offsets.of[OF_MOMENTS]};
    }
};

__device__ Input load_input(const Arrays& group, const Geometry& g, Index number) {
    return load_element<Input, INPUT_ALIGNED>(group.input + g.reduced.offsets(number).of[OF_INPUT]);
}

__device__ void store_output(const Arrays& group, const Geometry& g, Index number, Output y) {
    store_element<OUTPUT_ALIGNED>(group.output + g.reduced.offsets(number).of[OF_OUTPUT], y);
}

// ---------------------------------------------------------------------------------------------------------------------
// Sums

struct __align__(16) Sums {
    double first, second;  // of x - shift and of its square

    __device__ void add(double difference) {
        first += difference;
        second = fma(difference, difference, second);
    }
};

__device__ Sums combine(Sums a, Sums b) { return {a.first + b.first, a.second + b.second}; }

__device__ double as_double(Input x) { return widen(convert<double>(x)); }

// What is subtracted from all elements of a group. One that is not finite would turn the infinities of one element into
// NaN for all. Elements that do not exist are given the value of `element`, and add nothing.
struct Shift {
    Input element;
    double value;

    __device__ explicit Shift(Input first) {
        const auto x = widen(first);
        const bool finite = x - x == 0;  // while it is converted
        element = finite ? first : convert<Input>(0.0f);
        value = finite ? as_double(first) : 0.0;
    }
};

// Of bytes, four at a time: their sums are whole numbers, which a double holds, so no order of them rounds anything.
template <int COUNT> __device__ Sums sum_of_bytes(const Pack<Input, CHUNK>& chunk, double shift) {
    using Word = typename Select<IsSame<Input, signed char>::value, int, unsigned>::type;
    const Word* const word = reinterpret_cast<const Word*>(&chunk);
    const int s = static_cast<int>(shift);
    int sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < (COUNT + 3) / 4; i++) {
        const Word bytes = COUNT - 4 * i >= 4 ? word[i] : word[i] & ((1 << 8 * (COUNT % 4)) - 1);
        sum = dot_of_bytes(bytes, static_cast<Word>(0x01010101), sum);
        squares = dot_of_bytes(bytes, bytes, squares);
    }
    return {static_cast<double>(sum - COUNT * s), static_cast<double>(squares - 2 * s * sum + COUNT * s * s)};
}

// Of the first COUNT elements.
template <int COUNT = CHUNK> __device__ Sums sum_of(const Pack<Input, CHUNK>& chunk, double shift) {
    if constexpr (sizeof(Input) == 1) {
        return sum_of_bytes<COUNT>(chunk, shift);
    } else {
        double x[CHUNK];
        unpack(chunk, x);
        const double first = x[0] - shift;
        Sums sums = {first, first * first};
#pragma unroll
        for (int j = 1; j < COUNT; j++) sums.add(x[j] - shift);
        return sums;
    }
}

template <> constexpr bool COMMUTES<Sums> = true;

// One of the two sums: lanes that exchange halves take half the shuffles.
struct Half {
    double value;
};

__device__ Half combine(Half a, Half b) { return {a.value + b.value}; }
template <> constexpr bool COMMUTES<Half> = true;

// Of COUNT rows, of which each lane has a chunk: even lanes get the first of the sums, odd ones the second.
template <int COUNT> __device__ Half half_of_rows(const Sums (&sums)[COUNT]) {
    Half half[2 * COUNT];
#pragma unroll
    for (int r = 0; r < COUNT; r++) {
        half[2 * r] = {sums[r].first};
        half[2 * r + 1] = {sums[r].second};
    }
    Half sum = row_aggregates(half);  // of row lane / 2 % COUNT
#pragma unroll
    for (int step = 2; step < 2 * COUNT; step *= 2) sum = combine(sum, shuffle(sum, lane_index() ^ step));
    return sum;
}

__device__ constexpr int power_of_two_from(int x) { return x <= 1 ? 1 : 2 * power_of_two_from((x + 1) / 2); }

// Of neighbours, as many as a power of two.
template <typename Item, int COUNT> __device__ Item pairwise_sum(Item (&sums)[COUNT]) {
#pragma unroll
    for (int step = 1; step < COUNT; step *= 2) {
#pragma unroll
        for (int k = 0; k < COUNT; k += 2 * step) sums[k] = combine(sums[k], sums[k + step]);
    }
    return sums[0];
}

// Which of its COUNT neighbouring chunks of 16 bytes in shared memory a lane adds up in that round. The first one of a
// pair, of a pair of pairs and so on depends on the lane: so neighbouring lanes load from different banks.
template <int COUNT> __device__ int chunk_in_round(int round) {
    constexpr int BANKS = 128 / 16, APART = COUNT < BANKS ? COUNT : BANKS;
    return round ^ lane_index() / (BANKS / APART) % APART;
}

// Of all lanes, or of each WIDTH neighbours; in steps from `half` on.
template <int WIDTH = LANES> __device__ Sums lane_sum(Sums sums, int half = 1) {
#pragma unroll
    for (int step = half; step < WIDTH; step *= 2) sums = combine(sums, shuffle(sums, lane_index() ^ step));
    return sums;
}

// Of COUNT neighbouring tiles from `first` on, of which those below TILES exist: a block of the cluster has each.
template <int COUNT, int TILES> __device__ Sums sum_over_tiles(Sums* of_tile, int first = 0) {
    constexpr int HALF = COUNT / 2;
    if constexpr (COUNT == 1) {
        return first < TILES ? *map_shared(of_tile, first) : Sums{};
    } else {
        return combine(sum_over_tiles<HALF, TILES>(of_tile, first), sum_over_tiles<HALF, TILES>(of_tile, first + HALF));
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Statistics

// mean + rest is the mean to about 106 bits.
struct Moments {
    double mean, rest, squares;  // the sum of the squared distances from the mean
};

// a / b. In double it is rounded as the division is but for rare cases, in which the last bit may differ.
__device__ double quotient(double a, double b, double inverse_b) {
    const double q = a * inverse_b;
    if constexpr (sizeof(Compute) < sizeof(double)) return q;
    return q - q == 0 ? fma(fma(-q, b, a), inverse_b, q) : q;
}

// What rounding took from the sum of a and b (D. Knuth's two-sum).
__device__ double lost_in_sum(double a, double b) {
    const double sum = a + b, rounded_b = sum - a;
    return (a - (sum - rounded_b)) + (b - rounded_b);
}

__device__ Moments moments_of(Sums sums, double shift, const Parameters& p) {
    const double deviation = quotient(sums.first, p.length, p.inverse_length);
    const double squares = fma(-sums.first, deviation, sums.second);
    return {shift + deviation, lost_in_sum(shift, deviation), squares < 0 ? 0.0 : squares};  // NaN stays
}

// The power of two below, or where that is nearer than float can tell the one above; between 2^-126 and 2^125.
__device__ float power_of_two(double x) {
    const float near = x > 8.5e37 ? 8.5e37f : x < 1.2e-38 ? 1.2e-38f : static_cast<float>(x);
    return bits_as_float(float_as_bits(near) & 0x7f800000u);
}

// 1 / sqrt(x) to 34 bits, from 2^-1000 to 2^1000: three steps of Newton's from half the exponent [1]. Unlike the
// approximations of the hardware these are the same on all GPUs, and with a tenth of the instructions of a root and a
// division.
//
// [1] C. Lomont, Fast inverse square root, 2003; the constant for double is from M. Robertson, A brief history of
//     InvSqrt, 2012.
__device__ double reciprocal_root(double x) {
    double y = bits_as_double(0x5fe6eb50c7b537a9ull - (double_as_bits(x) >> 1));
    const double minus_half = -0.5 * x;
#pragma unroll
    for (int step = 0; step < 3; step++) y = fma(minus_half * y, y * y, 1.5 * y);  // the products side by side
    return y;
}

// That of a number that is neither subnormal nor infinite; of others it is beyond all bounds.
__device__ int exponent_of(double x) { return static_cast<int>(double_as_bits(x) >> 52 & 0x7ff) - 1023; }

__device__ bool lies_within(int x, int bound) { return -bound <= x && x <= bound; }

// How an element is normalized. Numbers of float are brought near 1 by a power of two first: so neither squares nor
// distances overflow, whatever the magnitude, and both multiplications are fused to additions.
template <typename Real> struct Normalizer;

template <> struct Normalizer<double> {
    double mean, rest, factor;

    // A constant group without an epsilon: 0 times anything finite is the 0 that is promised for it.
    __device__ static Normalizer of(const Moments& m, const Parameters& p) {
        const double spread = quotient(m.squares, p.length, p.inverse_length) + p.epsilon;
        return {m.mean, m.rest, NORMALIZE_VARIANCE && spread != 0 ? 1 / sqrt(spread) : 1.0};
    }
    __device__ double apply(double x) const { return ((x - mean) - rest) * factor; }
};

template <> struct __align__(16) Normalizer<float> {
    float power, mean, factor, rest;

    // Every thread of a block waits for this, one operation after the other.
    __device__ static Normalizer of(const Moments& m, const Parameters& p) {
        const double spread = fma(m.squares, p.inverse_length, p.epsilon);
        const double reciprocal = reciprocal_root(spread), bounded = spread > 1e300 ? 1e-150 : reciprocal;
        const double root = NORMALIZE_VARIANCE && m.squares != 0 ? bounded : 1.0;
        Normalizer normalizer = of_usual(m, root);
        if (!are_usual(m.mean, NORMALIZE_VARIANCE ? spread : 1.0)) normalizer = of_any(m, root);
        return normalizer;
    }
    __device__ float apply(float x) const { return fmaf(fmaf(x, power, -mean), factor, rest); }

private:
    // Whether nothing that is made of these leaves the range of float, nor that of double.
    __device__ static bool are_usual(double mean, double spread) {
        const int of_mean = exponent_of(mean), of_spread = exponent_of(spread);
        return lies_within(of_mean, 120) && lies_within(of_spread, 240) && lies_within(2 * of_mean - of_spread, 240);
    }

    // What the mean alone decides is computed while the root is, and multiplied by powers of two at last. These round
    // nothing, so the bits are those of the other way.
    __device__ static Normalizer of_usual(const Moments& m, double root) {
        const float mean = static_cast<float>(m.mean);
        const double rest = (m.mean - mean) + m.rest;
        constexpr unsigned long long HALF_OF_LAST_BIT = 1ull << 28;  // of float's 24 bits
        const unsigned rounded = static_cast<unsigned>((double_as_bits(root) + HALF_OF_LAST_BIT) >> 32);
        const unsigned bits = ((rounded << 3) - 0x40000000u) & 0x7f800000u;  // from double's bias to float's
        const float power = bits_as_float(bits);
        return {power, mean * power, static_cast<float>(root) * bits_as_float(0x7f000000u - bits),
                static_cast<float>(-rest * root)};
    }
    __device__ static Normalizer of_any(const Moments& m, double root) {
        const float power = power_of_two(root), mean = static_cast<float>(m.mean * power);
        const double factor = root * bits_as_float(0x7f000000u - float_as_bits(power));
        const double rest = (m.mean * power - mean) + m.rest * power;
        return {power, mean, static_cast<float>(factor), static_cast<float>(-rest * factor)};
    }
};

template <typename Moment>
__device__ void store_moments(char* mean, char* variance, const Moments& m, const Parameters& p) {
    if constexpr (IsSame<Moment, Moments>::value) {
        *reinterpret_cast<Moments*>(mean) = m;
    } else {
        *reinterpret_cast<Moment*>(mean) = convert<Moment>(m.mean);
        *reinterpret_cast<Moment*>(variance) = convert<Moment>(quotient(m.squares, p.divisor, p.inverse_divisor));
    }
}

__device__ void store_moments(const Arrays& group, const Moments& m, const Parameters& p) {
    store_moments<MOMENT>(group.mean, group.variance, m, p);
}

// ---------------------------------------------------------------------------------------------------------------------
// Scale, bias and activation

constexpr int NONE = 0, OF_ELEMENTS = 1, OF_ALL = 2, OF_GROUP = 3, OF_RUNS = 4;

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }

// `y` is normalized; a scale or bias that does not exist is not looked at.
__device__ Compute activated(Compute y, Compute scale, Compute bias, const Parameters& p) {
    if (HAS_SCALE && HAS_BIAS) y = multiply_add(y, scale, bias);
    else if (HAS_SCALE) y *= scale;
    else if (HAS_BIAS) y += bias;
    return activation::ACTIVATION::apply(y, static_cast<Compute>(p.alpha), static_cast<Compute>(p.beta));
}

// Runs that so many neighbours, the first of which begins a chunk, lie in at the most.
__device__ constexpr int runs_of(int count) {
    const int last = count - 1;
    return count == 0 ? 0 : last / OPERAND_RUN + (last % OPERAND_RUN < OPERAND_PART ? 1 : 2);
}

// COUNT neighbours of scale or bias, or the numbers that stand for them: of runs those of a longer extent that they are
// a part of.
template <typename Stored, int KIND, bool ALIGNED, int COUNT, int EXTENT = COUNT> struct Operand {
    static constexpr int OF_ALL_RUNS = power_of_two_from(runs_of((EXTENT + CHUNK - 1) / CHUNK * CHUNK));
    static constexpr int NUMBERS = KIND == OF_ELEMENTS ? COUNT : KIND == OF_RUNS ? OF_ALL_RUNS : 1;
    Pack<typename Select<KIND == OF_ALL, Compute, Stored>::type, NUMBERS> pack;

    __device__ void load_once(const char* of_group, double number) {
        if constexpr (KIND == OF_ALL) pack.element[0] = static_cast<Compute>(number);
        else if constexpr (KIND == OF_GROUP) load(0, of_group);
    }
    // The number of an element, or the one that stands for its group.
    __device__ void load_of_element(const char* of_element, double number) {
        if constexpr (KIND == OF_ELEMENTS) load(0, of_element);
        else load_once(of_element, number);
    }
    __device__ void load_of_run(int number, const char* of_run) {
        if constexpr (KIND == OF_RUNS) load(number, of_run);
    }
    // Element j of the extent, of which `of_first` lie in its first run, and at least a part: so j, which the compiler
    // knows, lies in one of two runs, or in the only one that it can.
    __device__ Compute at(int j, int of_first = EXTENT) const {
        const int run = j / OPERAND_RUN, place = j % OPERAND_RUN;
        const bool is_next = place >= OPERAND_PART && place >= of_first;
        if constexpr (KIND == NONE) return 0;
        else if constexpr (KIND == OF_RUNS) return is_next ? number(run + 1) : number(run);
        else return number(KIND == OF_ELEMENTS ? j : 0);
    }
    __device__ void load(int i, const char* from) { pack.element[i] = load_element<Stored, ALIGNED>(from); }
    __device__ Compute number(int i) const { return widen(convert<Compute>(pack.element[i])); }
    __device__ void all(Compute (&value)[COUNT], int from, int of_first) const {
        if constexpr (KIND == OF_ELEMENTS) {
            unpack(pack, value);
        } else {
#pragma unroll
            for (int j = 0; j < COUNT; j++) value[j] = at(from + j, of_first);
        }
    }
};

template <int COUNT, int EXTENT = COUNT> struct Operands {
    Operand<SCALE, HAS_SCALE, SCALE_ALIGNED, COUNT, EXTENT> scale;
    Operand<BIAS, HAS_BIAS, BIAS_ALIGNED, COUNT, EXTENT> bias;
    int of_first;  // of runs: elements of the extent that lie in the first one

    __device__ void load_once(const Arrays& group) {
        scale.load_once(group.scale, group.scale_number);
        bias.load_once(group.bias, group.bias_number);
    }
    __device__ void load_of_element(const Arrays& element) {
        scale.load_of_element(element.scale, element.scale_number);
        bias.load_of_element(element.bias, element.bias_number);
    }
    // `y` is normalized, and begins with element `from` of the extent.
    __device__ void finish(Compute (&y)[COUNT], const Parameters& p, int from = 0) const {
        Compute scales[COUNT], biases[COUNT];
        scale.all(scales, from, of_first);
        bias.all(biases, from, of_first);
#pragma unroll
        for (int j = 0; j < COUNT; j++) y[j] = activated(y[j], scales[j], biases[j], p);
    }
};
