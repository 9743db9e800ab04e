// Normalization of groups that lie side by side in the input and one after the other in the output, read once: tiles
// wait in the shared memory of a cluster of blocks until the statistics of their groups are known.
//
// A tile has a group for each of its rows, and a step of these for each of its columns. Tiles of the same groups are a
// bundle, and a cluster, a block for each tile, works on one bundle after the other: a block adds its tile up, reads
// the sums of the others' tiles, and stores what it normalizes row by row. Where it has stored a part of the tile, it
// copies that of its next tile to, so memory has something to do at all times; and several blocks share a
// multiprocessor, so that some copy or store while others wait. No block waits for any but those of its cluster.
//
// Constants that the plan sets, beside those of normalization_turned.cuh:
//     CLUSTER     blocks of a cluster, tiles of a bundle
//     TILE_PARTS  of a tile
//     RESIDENT    blocks of a multiprocessor for which there have to be registers, at least
// Dynamic shared memory: a tile.
#include "normalization.cuh"
#include "tickets.cuh"

constexpr int PACK = CHUNK;

// What is stored is read by nobody soon: without, 65536 groups of 4096 floats take 8 % longer on an H200.
constexpr bool STREAMED = true;

#include "normalization_turned.cuh"

constexpr int SIZE = static_cast<int>(sizeof(Input)), WIDE = WIDE_OF<Input>, CHUNKS = TILE_HEIGHT / CHUNK;
constexpr int GROUPS = TILE_HEIGHT, STEPS = TILE_WIDTH;
constexpr int ACROSS = GROUPS / WIDE, SHARES = BLOCK / ACROSS;  // threads that have all groups, those that share one
constexpr int OF_PART = STEPS / SHARES / TILE_PARTS;            // steps of a share

static_assert(GROUPS_DOWN && !GROUPS_ACROSS, "a group for each row");
static_assert(STEPS % (SHARES * TILE_PARTS * 8 * PACK) == 0 && BLOCK % GROUPS == 0, "a part for each thread");
static_assert(CHUNKS % 8 == 0 && BLOCK % CHUNKS == 0, "banks of their own, and the same chunk of all columns");

// A part has a piece of each share of the steps, so that a thread adds its share up from left to right. This is where
// the i-th column of a part lies.
__device__ constexpr int column_of(int part, int i) {
    return i / OF_PART * (STEPS / SHARES) + part * OF_PART + i % OF_PART;
}

// A tile lies as in the input, but for the order of a column's chunks: 8 by 4 threads that read words of as many
// columns and rows find them in banks of their own.
struct HeldTile {
    char* data;

    __device__ char* chunk(int column, int number) const {
        return data + (column * CHUNKS + (number ^ column / CHUNK % 8)) * 16;
    }
    // WIDE neighbours of a column.
    __device__ Values<Input, WIDE> word(int column, int number) const {
        constexpr int OF_CHUNK = CHUNK / WIDE;
        const char* from = chunk(column, number / OF_CHUNK) + number % OF_CHUNK * WIDE * SIZE;
        return *reinterpret_cast<const Values<Input, WIDE>*>(from);
    }
};

// The rounds in which a thread adds up its share of the steps.
constexpr int OF_THREAD = STEPS / CHUNK / SHARES, AT_ONCE = OF_PART / CHUNK < 4 ? OF_PART / CHUNK : 4;
constexpr int ROUNDS = OF_PART / CHUNK / AT_ONCE;  // of a part
using RoundSums = SerialPrefix<Sums, 3>;

static_assert(TILE_PARTS * ROUNDS <= 8, "sums of 8 rounds");

struct Block : PartOfArrays {
    HeldTile tile;

    // What does not exist is filled too. Asynchronous copies, if all rows exist, are not waited for.
    template <bool WHOLE> __device__ void fill(int part) const {
        const bool in_packs = INPUT_ACCESS == PACKED && (WHOLE || height >= GROUPS);
        const int number = threadIdx.x % CHUNKS;
#pragma unroll 4
        for (int i = static_cast<int>(threadIdx.x) / CHUNKS; i < STEPS / TILE_PARTS; i += BLOCK / CHUNKS) {
            const int column = column_of(part, i);
            const char* from = arrays.input + column * g.across[OF_INPUT];
            const Line<Input, INPUT_ACCESS, true, Index> line = {from, 0, Input()};
            auto* to = reinterpret_cast<Values<Input, CHUNK>*>(tile.chunk(column, number));
            if (in_packs && (WHOLE || column < width)) copy_async<16>(to, from + number * 16);
            else if constexpr (WHOLE) *to = line.template whole<CHUNK>(number * CHUNK);
            else *to = line.template part<CHUNK>(number * CHUNK, 0, column < width ? height : 0);
        }
    }

    // Of the WIDE groups that a thread has, in its share of the steps, up to the end of this part.
    template <bool WHOLE>
    __device__ void add(int part, const Input (&first_of)[GROUPS], RoundSums (&over_rounds)[WIDE],
                        Sums (&total)[WIDE]) const {
        const int number = threadIdx.x % ACROSS, first = static_cast<int>(threadIdx.x) / ACROSS * OF_THREAD;
#pragma unroll 1
        for (int round = part * ROUNDS; round < (part + 1) * ROUNDS; round++) {
            Sums sums[WIDE][AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int column = (first + round * AT_ONCE + k) * CHUNK;
                Values<Input, WIDE> word[CHUNK];
#pragma unroll
                for (int r = 0; r < CHUNK; r++) word[r] = tile.word(column + r, number);
#pragma unroll
                for (int w = 0; w < WIDE; w++) {
                    const Shift shift(first_of[number * WIDE + w]);
                    Pack<Input, CHUNK> chunk;
#pragma unroll
                    for (int r = 0; r < CHUNK; r++) {
                        chunk.element[r] = WHOLE || column + r < width ? word[r].get(w) : shift.element;
                    }
                    sums[w][k] = sum_of(chunk, shift.value);
                }
            }
#pragma unroll
            for (int w = 0; w < WIDE; w++) total[w] = over_rounds[w].next(round, pairwise_sum(sums[w]));
        }
    }

    // 8 lanes write what lies side by side, for 128 bytes or more at a time, by 4.
    template <bool WHOLE> __device__ void write(int part, const Normalizer<Compute> (&normalizers)[GROUPS]) const {
        constexpr int WARPS = BLOCK / LANES, SPANS = STEPS / TILE_PARTS / (8 * PACK);
        constexpr int SIDE = SPANS < WARPS ? SPANS : WARPS;
        const int warp = static_cast<int>(threadIdx.x) / LANES;
#pragma unroll 1
        for (int span = warp % SIDE; span < SPANS; span += SIDE) {
            const int j = column_of(part, (span * 8 + lane_index() % 8) * PACK);
            RowOperands operands;
            if (!OPERANDS_DIFFER) load_operands<WHOLE>(0, j, operands);
#pragma unroll 4
            for (int row = warp / SIDE * 4 + lane_index() / 8; row < GROUPS / WIDE; row += WARPS / SIDE * 4) {
                Values<Input, WIDE> word[PACK];
#pragma unroll
                for (int v = 0; v < PACK; v++) word[v] = tile.word(j + v, row);
#pragma unroll
                for (int w = 0; w < WIDE; w++) write_pack<WHOLE>(row * WIDE + w, j, word, w, normalizers, operands);
            }
        }
    }

    template <bool WHOLE>
    __device__ void write_pack(int i, int j, const Values<Input, WIDE> (&word)[PACK], int w,
                               const Normalizer<Compute> (&normalizers)[GROUPS], RowOperands& operands) const {
        if (OPERANDS_DIFFER) load_operands<WHOLE>(WHOLE || i < height ? i : 0, j, operands);
        Values<Input, PACK> x;
        Normalizer<Compute> normalizer[PACK];
#pragma unroll
        for (int v = 0; v < PACK; v++) {
            x.set(v, word[v].get(w));
            normalizer[v] = normalizers[i];
        }
        store<WHOLE>(i, j, results(x, normalizer, operands));
    }
};

// Sums of all groups, from several threads or blocks each, in their order.
template <int COUNT> struct SharedSums {
    Sums part[COUNT][GROUPS];

    template <int FEWER = COUNT> __device__ Sums total(int group, int first = 0) const {
        if constexpr (FEWER == 1) return part[first][group];
        else return combine(total<FEWER / 2>(group, first), total<FEWER / 2>(group, first + FEWER / 2));
    }
};

// Threads that add up the tiles of a group, and the neighbours that each of them has.
constexpr int FOLDERS = BLOCK / GROUPS;
__device__ constexpr int share_of(int tiles) { return tiles <= FOLDERS ? 1 : 2 * share_of((tiles + 1) / 2); }

// What a block has in shared memory besides the tile. What other blocks of the cluster read comes twice, as the fastest
// block may be a bundle ahead.
struct Shared {
    union {
        SharedSums<SHARES> of_shares;
        SharedSums<FOLDERS> of_tiles;
    };
    Sums of_tile[2][CLUSTER > 1 ? GROUPS : 1];
    Index next[2];  // bundle, in the first block
    Input first_of[GROUPS];
    Normalizer<Compute> normalizers[GROUPS];
};

static_assert(TILE_PARTS <= 2, "groups of copies");

__device__ void await_part(int part) {
    if (part < TILE_PARTS - 1) copy_async_wait<1>();
    else copy_async_wait_all();
    __syncthreads();
}

// The sums of a group of this tile, by the first threads.
template <bool WHOLE> __device__ Sums sum_tile(const Block& block, Shared& shared) {
    RoundSums over_rounds[WIDE];
    Sums total[WIDE];
#pragma unroll 1
    for (int part = 0; part < TILE_PARTS; part++) {
        await_part(part);
        block.add<WHOLE>(part, shared.first_of, over_rounds, total);
    }
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int w = 0; w < WIDE; w++) shared.of_shares.part[thread / ACROSS][thread % ACROSS * WIDE + w] = total[w];
    __syncthreads();
    return thread < GROUPS ? shared.of_shares.total(thread) : Sums{};
}

// The sums of a group of all tiles, from those of this one.
__device__ Sums sum_over_cluster(const Sums& sums, Shared& shared, int slot) {
    const int thread = static_cast<int>(threadIdx.x), group = thread % GROUPS, number = thread / GROUPS;
    constexpr int SHARE = share_of(CLUSTER);
    if constexpr (CLUSTER == 1) {
        cluster_sync();
        return sums;
    }
    if (thread < GROUPS) shared.of_tile[slot][thread] = sums;
    cluster_sync();
    Sums* of_tile = &shared.of_tile[slot][group];
    shared.of_tiles.part[number][group] = sum_over_tiles<SHARE, CLUSTER>(of_tile, number * SHARE);
    __syncthreads();
    return thread < GROUPS ? shared.of_tiles.total(thread) : Sums{};
}

// A bundle's tile of this block. It is found again wherever it is needed, as registers are few.
struct Task {
    Arrays arrays;  // from the tile's first element on
    const char* first_elements;
    Index height, width;
    bool whole;

    __device__ Task(const Arrays& all, const TurnedGeometry& g, Index number, Index rank) {
        const Index outer = number / g.tiles_down, row = (number - outer * g.tiles_down) * GROUPS;
        const Index column = rank * STEPS;
        Offsets first = g.outer.offsets(outer);
#pragma unroll
        for (int a = 0; a < ARRAYS; a++) first.of[a] += row * g.down[a];
        first_elements = all.input + first.of[OF_INPUT];
#pragma unroll
        for (int a = 0; a < ARRAYS; a++) first.of[a] += column * g.across[a];
        arrays = all.at(first);
        height = g.height - row, width = g.width - column;
        whole = is_inside(row, GROUPS, margin_of<Input>(INPUT_ACCESS), g.height) &&
                is_inside(column, STEPS, 0, g.width);
    }
    __device__ Block block(const TurnedGeometry& g, const Parameters& p, unsigned char* data) const {
        return {{arrays, g, p, height, width}, {reinterpret_cast<char*>(data)}};
    }
};

struct Bundles {
    Index count;
};

using Tickets = TicketsFor<Sums>;

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(BLOCK, RESIDENT)
normalize_held(const char* input, char* output, const char* scale, const char* bias, double scale_number,
               double bias_number, char* mean, char* variance, Word* control, TurnedGeometry g, Parameters p,
               Bundles bundles) {
    await_launch_ahead();
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Shared shared;
    const Arrays all = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const int thread = static_cast<int>(threadIdx.x);
    const Index rank = static_cast<Index>(cluster_rank()), clusters = static_cast<Index>(gridDim.x) / CLUSTER;
    const bool takes_tickets = rank == 0 && thread == 0, has_group = thread < GROUPS;
    const Tickets tickets = {control, takes_tickets ? Tickets::take_first(control) : 0, bundles.count};
    if (takes_tickets) shared.next[1] = tickets.of_block();
    cluster_sync();
    Index number = 0, next = *map_shared(&shared.next[1], 0);
    bool begun = false;
    int slot = 1;  // in which the last ticket lies
    while (true) {
#pragma unroll 1
        for (int part = 0; part < TILE_PARTS; part++) {
            if (begun) {
                const Task task(all, g, number, rank);
                const Block block = task.block(g, p, dynamic_shared);
                if (task.whole) block.write<true>(part, shared.normalizers);
                else block.write<false>(part, shared.normalizers);
            }
            __syncthreads();
            if (next < bundles.count) {
                const Task task(all, g, next, rank);
                const Block block = task.block(g, p, dynamic_shared);
                if (task.whole) block.fill<true>(part);
                else block.fill<false>(part);
            }
            copy_async_commit();
        }
        if (next >= bundles.count) break;
        number = next, begun = true, slot ^= 1;
        const Task task(all, g, number, rank);
        const Block block = task.block(g, p, dynamic_shared);
        const bool exists = has_group && thread < task.height;
        const auto* first_elements = reinterpret_cast<const Input*>(task.first_elements);
        if (has_group) shared.first_of[thread] = first_elements[exists ? thread : 0];
        if (takes_tickets) shared.next[slot] = tickets.next();
        const Sums of_tile = task.whole ? sum_tile<true>(block, shared) : sum_tile<false>(block, shared);
        const Sums sums = sum_over_cluster(of_tile, shared, slot);
        next = *map_shared(&shared.next[slot], 0);
        if (has_group) {
            const Moments moments = moments_of(sums, Shift(shared.first_of[thread]).value, p);
            shared.normalizers[thread] = Normalizer<Compute>::of(moments, p);
            const Index offset = thread * g.down[OF_MOMENTS];
            if (mean && rank == 0 && exists) {
                store_moments<MOMENT>(task.arrays.mean + offset, task.arrays.variance + offset, moments, p);
            }
        }
        __syncthreads();
    }
    if (takes_tickets) tickets.prepare_next_launch(shared.next[slot], clusters);
    cluster_sync();  // until then others may read what this block has in shared memory
}
