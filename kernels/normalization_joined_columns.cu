// Mean, variance and normalization of groups that have several columns of a matrix each: elements that follow each
// other in a group lie a row apart, and those that lie side by side are elsewhere in the group, or in others. So lie
// matrices that are transposed, and images whose channels lie last but share a mean.
//
// Columns are cut into tiles (normalization_column_tiles.cuh) whose length divides theirs. So a group is a sequence of
// tiles, those of its first column, then of the next; and as a tile is an aligned power of two of chunks, whose sums
// anybody may add up (normalization.cuh), its sums are those of its tiles, added pairwise. First come the sums of all
// tiles, in the order of the groups, then the statistics of groups, then every tile again.
//
// Constants that the plan sets, beside those of normalization_spans.cuh:
//     FIRST_RANK, PARTS_RANK   of the layouts of Joints
//     GROUP_RANK               axes along which there are several groups
//     JOINERS                  warps that add up the parts of a group, a power of two
//     JOINED_ROWS              rows of 32 parts that such a warp adds up, a power of two
#include "ahead.cuh"
#include "normalization_column_tiles.cuh"

// How columns make up groups. A part is a tile of a column; parts are numbered in the order of groups, and in a group
// in that of its elements.
struct Joints {
    Index of_group;            // parts
    Layout<FIRST_RANK> first;  // from a column to the first element of its group, in bytes of the input
    Layout<PARTS_RANK> parts;  // from a column to its first part
};

struct JoinedGroups {
    Index count, parts;  // groups, and parts of each
    Layout<GROUP_RANK> first, moments;
};

// ---------------------------------------------------------------------------------------------------------------------
// Sums of parts

// Of the groups of VECTOR columns.
__device__ Elements first_of_groups(const char* input, const Joints& joints, Index column) {
    Elements first;
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
        first.element[v] = load_element<Input, INPUT_ALIGNED>(input + joints.first.offset(column + v));
    }
    return first;
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
sum_joined_columns(const char* input, Sums* parts, Geometry g, Joints joints, Ahead ahead) {
    prefetch_ahead(input, ahead.bytes);
    await_launch_ahead_of_steps();
    __shared__ ColumnSums column_sums;
    __shared__ WarpRows rows[WARPS_OF_ROWS];
    WarpRows& warp_rows = rows[WARPS_OF_ROWS > 1 ? threadIdx.x / LANES : 0];
    const Work work(g, static_cast<Index>(blockIdx.x));
    const Place place(g, work.strip, work.tile, ROUNDS);
    const Elements first = first_of_groups(input, joints, place.column);
    const char* const column = input + g.kept.offsets(place.column).of[OF_INPUT];
    Sums sums[VECTOR];
    add_up_rounds(column, g, place, first, warp_rows, sums);
    column_sums.add(sums);
#pragma unroll 1
    for (int c = threadIdx.x; c < COLUMNS; c += BLOCK) {
        const Index number = column_of(work.strip, c);
        if (exists(g, work.strip, number)) parts[joints.parts.offset(number) + work.tile] = column_sums.total(c);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Statistics

constexpr int OF_JOINER = JOINED_ROWS * LANES;
constexpr int FOLDING = 4, JOINING = JOINERS < 4 ? 4 : JOINERS;  // warps of a block

static_assert(JOINERS <= LANES, "one warp adds up what they have");

// Of those parts of which `count` exist, by all lanes of a warp.
__device__ Sums sum_of_parts(const Sums* parts, int count) {
    Sums row[JOINED_ROWS];
#pragma unroll
    for (int r = 0; r < JOINED_ROWS; r++) {
        const int number = r * LANES + lane_index();
        row[r] = number < count ? parts[number] : Sums{};
    }
    return lane_sum<JOINED_ROWS>(row_aggregates(row));
}

struct Folding {
    Index groups, parts, left;  // parts of a group, before and after
};

// Where groups have more parts than the warps of a block add up: each warp of all blocks makes one of OF_JOINER.
extern "C" __global__ void __launch_bounds__(FOLDING * LANES)
fold_parts(const Sums* parts, Sums* folded, Folding f) {
    await_launch_ahead_of_steps();
    const Index number = static_cast<Index>(blockIdx.x) * FOLDING + warp_index();
    const Index group = number / f.left, begin = (number - group * f.left) * OF_JOINER;
    if (group >= f.groups) return;
    const Sums sum = sum_of_parts(parts + group * f.parts + begin, up_to(f.parts - begin, OF_JOINER));
    if (lane_index() == 0) folded[number] = sum;
}

extern "C" __global__ void __launch_bounds__(JOINING * LANES)
join_columns(const char* input, const Sums* parts, Normalizer<Compute>* normalizers, char* mean, char* variance,
             JoinedGroups g, Parameters p) {
    await_launch_ahead_of_steps();
    __shared__ Sums of_warp[JOINING];
    const int warp = warp_index(), joiner = warp % JOINERS;
    const Index group = static_cast<Index>(blockIdx.x) * (JOINING / JOINERS) + warp / JOINERS;
    const Index begin = joiner * OF_JOINER, left = group < g.count ? g.parts - begin : 0;
    Sums sum = sum_of_parts(parts + group * g.parts + begin, up_to(left, OF_JOINER));
    if constexpr (JOINERS > 1) {
        if (lane_index() == 0) of_warp[warp] = sum;
        __syncthreads();
        sum = lane_sum<JOINERS>(of_warp[warp - joiner + lane_index() % JOINERS]);
    }
    if (joiner > 0 || lane_index() > 0 || group >= g.count) return;
    const Shift shift(load_element<Input, INPUT_ALIGNED>(input + g.first.offset(group)));
    const Moments moments = moments_of(sum, shift.value, p);
    const Index offset = g.moments.offset(group);
    if (mean) store_moments<MOMENT>(mean + offset, variance + offset, moments, p);
    if (HAS_OUTPUT) normalizers[group] = Normalizer<Compute>::of(moments, p);
}

// ---------------------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
apply_joined_columns(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                     double bias_number, const Normalizer<Compute>* of_groups, Geometry g, Parameters p,
                     Joints joints) {
    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, nullptr, nullptr};
    apply_tile(arrays, g, p, [=](Index column) { return of_groups[joints.parts.offset(column) / joints.of_group]; });
}
