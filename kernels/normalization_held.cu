// Normalization of groups that lie side by side in the input and one after the other in the output, read once: tiles
// wait in the shared memory of all blocks until the statistics of their groups are known.
//
// A tile has a group for each of its rows, and a step of these for each of its columns. Tiles of the same groups are a
// bundle, and a team of blocks, one for each tile, works on one bundle after the other: a block copies its tile, adds
// it up, publishes the sums, awaits those of its team, and stores what it normalizes row by row. Several blocks share a
// multiprocessor, so that some copy or store while others wait.
//
// Progress. A block waits for nothing but its team's sums of the same bundle; the launch is cooperative, so the whole
// team runs. Two slots take turns with the sums of a team: whoever publishes those of a bundle has seen all of the
// bundle before, which the others published when they had read all of the one before that.
//
// Constants that the plan sets, beside those of normalization_turned.cuh:
//     RESIDENT    blocks that shall fit a multiprocessor at a time
// Dynamic shared memory: a tile.
#include "normalization.cuh"
#include "tickets.cuh"

constexpr int PACK = CHUNK;

#include "normalization_turned.cuh"

constexpr int SIZE = static_cast<int>(sizeof(Input)), WIDE = WIDE_OF<Input>, CHUNKS = TILE_HEIGHT / CHUNK;
constexpr int GROUPS = TILE_HEIGHT, STEPS = TILE_WIDTH;
constexpr int ACROSS = GROUPS / WIDE, SHARES = BLOCK / ACROSS;  // threads that have all groups, those that share one

static_assert(GROUPS_DOWN && !GROUPS_ACROSS, "a group for each row");
static_assert(STEPS % (SHARES * CHUNK) == 0 && BLOCK % GROUPS == 0, "a part for each thread");
static_assert(CHUNKS % 8 == 0 && BLOCK % CHUNKS == 0, "banks of their own, and the same chunk of all columns");

struct Teams {
    Index bundles, tiles, count;  // tiles of a bundle, and how many teams there are
};

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

struct Block : PartOfArrays {
    HeldTile tile;

    // What does not exist is filled too. Asynchronous copies, if all rows exist, are not waited for.
    template <bool WHOLE> __device__ void fill() const {
        const bool in_packs = INPUT_ACCESS == PACKED && (WHOLE || height >= GROUPS);
        const int number = threadIdx.x % CHUNKS;
#pragma unroll 4
        for (int column = static_cast<int>(threadIdx.x) / CHUNKS; column < STEPS; column += BLOCK / CHUNKS) {
            const char* from = arrays.input + column * g.across[OF_INPUT];
            const Line<Input, INPUT_ACCESS, true, Index> line = {from, 0, Input()};
            auto* to = reinterpret_cast<Values<Input, CHUNK>*>(tile.chunk(column, number));
            if (in_packs && (WHOLE || column < width)) copy_async<16>(to, from + number * 16);
            else if constexpr (WHOLE) *to = line.template whole<CHUNK>(number * CHUNK);
            else *to = line.template part<CHUNK>(number * CHUNK, 0, column < width ? height : 0);
        }
    }

    // Of the WIDE groups that a thread has, in its share of the steps.
    template <bool WHOLE> __device__ void add(const Input (&first_of)[GROUPS], Sums (&total)[WIDE]) const {
        constexpr int OF_THREAD = STEPS / CHUNK / SHARES, AT_ONCE = OF_THREAD < 4 ? OF_THREAD : 4;
        const int number = threadIdx.x % ACROSS, first = static_cast<int>(threadIdx.x) / ACROSS * OF_THREAD;
        SerialPrefix<Sums, 3> over_rounds[WIDE];
#pragma unroll 1
        for (int round = 0; round < OF_THREAD / AT_ONCE; round++) {
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
    template <bool WHOLE> __device__ void write(const Normalizer<Compute> (&normalizers)[GROUPS]) const {
        constexpr int WARPS = BLOCK / LANES, SPANS = STEPS / (8 * PACK), SIDE = SPANS < WARPS ? SPANS : WARPS;
        const int warp = static_cast<int>(threadIdx.x) / LANES;
#pragma unroll 1
        for (int span = warp % SIDE; span < SPANS; span += SIDE) {
            const int j = (span * 8 + lane_index() % 8) * PACK;
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

constexpr int AWAITING = BLOCK / GROUPS;  // threads that await the sums of a group

union Exchange {
    SharedSums<SHARES> of_shares;
    SharedSums<AWAITING> of_tiles;
};

// What the tiles of a bundle share.
struct Bundle {
    const char* first_elements;  // of its groups
    Word* sums;                  // those of neighbouring groups lie side by side, then those of neighbouring tiles
    unsigned epoch;
    Index tiles;

    __device__ Word* sums_of(Index tile, int group) const { return sums + tile * words_of<Sums> * GROUPS + group; }
};

// What this thread awaits of a group's tiles: neighbours, the same power of two for all threads. One warp waits for
// most of it: if all ask again and again, they take the bandwidth of the cache from those who copy.
__device__ Sums await_tiles(const Bundle& bundle) {
    if (threadIdx.x < LANES) {
        for (Index tile = 0; tile < bundle.tiles; tile += LANES) {
            const Index of_lane = tile + lane_index();
            await_first(of_lane < bundle.tiles ? bundle.sums_of(of_lane, 0) : nullptr, bundle.epoch);
        }
    }
    __syncthreads();
    constexpr int AT_ONCE = 2;
    const int group = threadIdx.x % GROUPS, number = static_cast<int>(threadIdx.x) / GROUPS;
    Index share = AT_ONCE;
    while (share * AWAITING < bundle.tiles) share *= 2;
    SerialPrefix<Sums, 3> over_rounds;
    Sums total = {};
    for (int round = 0; round < share / AT_ONCE; round++) {
        const Word* from[AT_ONCE];
        Sums found[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const Index tile = number * share + round * AT_ONCE + k;
            from[k] = tile < bundle.tiles ? bundle.sums_of(tile, group) : nullptr;
        }
        await(from, found, bundle.epoch, Sums{}, GROUPS);
        total = over_rounds.next(round, combine(found[0], found[1]));
    }
    return total;
}

// What a block has in shared memory besides the tile.
struct Shared {
    Exchange exchange;
    Input first_of[GROUPS];
    Normalizer<Compute> normalizers[GROUPS];
};

// A tile, of which all of a WHOLE one exists.
template <bool WHOLE>
__device__ void normalize_tile(const Block& block, const Bundle& bundle, Index tile, bool stores_moments,
                               Shared& shared) {
    Exchange& exchange = shared.exchange;
    Input(&first_of)[GROUPS] = shared.first_of;
    Normalizer<Compute>(&normalizers)[GROUPS] = shared.normalizers;
    const int thread = static_cast<int>(threadIdx.x);
    const bool has_group = thread < GROUPS, exists = has_group && (WHOLE || thread < block.height);
    block.fill<WHOLE>();
    if (has_group) first_of[thread] = reinterpret_cast<const Input*>(bundle.first_elements)[exists ? thread : 0];
    copy_async_wait_all();
    __syncthreads();
    Sums total[WIDE];
    block.add<WHOLE>(first_of, total);
#pragma unroll
    for (int w = 0; w < WIDE; w++) exchange.of_shares.part[thread / ACROSS][thread % ACROSS * WIDE + w] = total[w];
    __syncthreads();
    Sums sums;
    if (has_group) sums = exchange.of_shares.total(thread);
    if (bundle.tiles > 1) {
        if (has_group) publish(bundle.sums_of(tile, thread), sums, bundle.epoch, GROUPS);
        exchange.of_tiles.part[thread / GROUPS][thread % GROUPS] = await_tiles(bundle);
        __syncthreads();
        if (has_group) sums = exchange.of_tiles.total(thread);
    }
    if (has_group) {
        const Moments moments = moments_of(sums, Shift(first_of[thread]).value, block.p);
        normalizers[thread] = Normalizer<Compute>::of(moments, block.p);
        const Index offset = thread * block.g.down[OF_MOMENTS];
        if (stores_moments && exists) {
            store_moments<MOMENT>(block.arrays.mean + offset, block.arrays.variance + offset, moments, block.p);
        }
    }
    __syncthreads();
    block.write<WHOLE>(normalizers);
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT)
normalize_held(const char* input, char* output, const char* scale, const char* bias, double scale_number,
               double bias_number, char* mean, char* variance, Word* control, TurnedGeometry g, Parameters p,
               Teams teams) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Shared shared;
    const Arrays all = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Index number_of_block = static_cast<Index>(blockIdx.x), team = number_of_block / teams.tiles;
    const Index tile = number_of_block - team * teams.tiles, column = tile * STEPS, slots = 2 * teams.count;
    const unsigned epoch = begin_launch(control, (teams.bundles + slots - 1) / slots);
    for (Index number = team; number < teams.bundles; number += teams.count) {
        const Index outer = number / g.tiles_down, row = (number - outer * g.tiles_down) * GROUPS;
        const Index turn = number / slots, slot = number - turn * slots;
        Offsets first = g.outer.offsets(outer);
#pragma unroll
        for (int a = 0; a < ARRAYS; a++) first.of[a] += row * g.down[a];
        const Bundle bundle = {input + first.of[OF_INPUT], control + SECTOR + slot * teams.tiles * GROUPS * words_of<Sums>,
                               epoch + static_cast<unsigned>(turn), teams.tiles};
#pragma unroll
        for (int a = 0; a < ARRAYS; a++) first.of[a] += column * g.across[a];
        const Arrays arrays = all.at(first);
        const Block block = {{arrays, g, p, g.height - row, g.width - column},
                             {reinterpret_cast<char*>(dynamic_shared)}};
        const bool stores_moments = mean && tile == 0;
        const bool whole = is_inside(row, GROUPS, margin_of<Input>(INPUT_ACCESS), g.height) &&
                           is_inside(column, STEPS, 0, g.width);
        if (whole) normalize_tile<true>(block, bundle, tile, stores_moments, shared);
        else normalize_tile<false>(block, bundle, tile, stores_moments, shared);
    }
}
