// The normalizers of normalization_stream.cu: each has some neighbouring rows of every unit.
//
// Constants that the plan sets: those of normalization_stream.cu.
#pragma once

#include "normalization_shifted.cuh"
#include "normalization_stream.cuh"

static_assert(UNIT_ROWS % NORMALIZERS == 0 && UNIT_ROWS % ADDERS == 0, "rows are shared out evenly");

constexpr int ROWS = UNIT_ROWS / NORMALIZERS, AT_ONCE = ROWS < 4 ? ROWS : 4, ROUNDS = ROWS / AT_ONCE;
constexpr int OF_ROUND = AT_ONCE * ROW;  // elements

static_assert(AT_ONCE % STORED_ROWS == 0, "rows that are stored together are normalized together");

// What a warp normalizes at once: a lane's chunks.
struct Rows {
    Held<Chunk> chunk[AT_ONCE];
};

// Scale and bias of a row. Those of elements are in whole words, as halves would take a register each, of which there
// are too few: (1000, 200001) float16s take an H200 306 us so and 319 otherwise; but (500, 500010), which are stored in
// words, 366 and 347.
constexpr bool OPERANDS_IN_WORDS =
    (HAS_SCALE == OF_ELEMENTS || HAS_BIAS == OF_ELEMENTS) && (OPERANDS_KEPT > 0 || !STORED_IN_WORDS);
using OperandsOfRow = Select<OPERANDS_IN_WORDS, Held<Operands<CHUNK>>, Operands<CHUNK>>::type;

// They stay in registers while units of the same place in groups of the same scale and bias follow one another, which
// is where a block has the same piece of every group.
struct RowOperands {
    OperandsOfRow row[AT_ONCE];
    const char* scale = nullptr;
    const char* bias = nullptr;
    Index first = -1;

    template <typename End> __device__ void load(const Work& work, const Arrays& group, Index number, End end) {
        if (number == first && group.scale == scale && group.bias == bias) return;
        first = number, scale = group.scale, bias = group.bias;
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            if (r > 0 && OF_UNITS) {
                row[r] = row[0];
                continue;
            }
            Operands<CHUNK> loaded;
            loaded.load_once(group);
            load_operands(group, work.g, number + r * ROW + lane_index() * CHUNK, end, loaded);
            row[r] = loaded;
        }
    }
};

// Where every group reads scale and bias of all its elements again, they are more than the second-level cache holds
// beside what streams through it: 64 groups of 16 MiB take an H200 0.86 ms if none of 8 units is kept, 0.66 if 2 are,
// and 0.62 if 4 are, for which the other warps hand registers over.
struct KeptOperands {
    OperandsOfRow row[OPERANDS_KEPT > 0 ? OPERANDS_KEPT : 1][ROUNDS][AT_ONCE];

    __device__ void take(const Work& work, const TurnOf& turn, int begin) {
        const Arrays group = work.group(turn.bundle);
#pragma unroll
        for (int i = 0; i < OPERANDS_KEPT; i++) {
            const Unit unit = work.unit(turn, PIECE - OPERANDS_KEPT + i);
#pragma unroll
            for (int k = 0; k < ROUNDS; k++) {
                RowOperands loaded;
                loaded.load(work, group, unit.begin + begin + k * OF_ROUND, unit.end());
#pragma unroll
                for (int r = 0; r < AT_ONCE; r++) row[i][k][r] = loaded.row[r];
            }
        }
    }

    // By selections, as registers have no addresses.
    __device__ void give(int unit, int round, RowOperands& taken) const {
        taken.first = -1;
#pragma unroll
        for (int i = 0; i < OPERANDS_KEPT; i++) {
#pragma unroll
            for (int k = 0; k < ROUNDS; k++) {
                if (unit != PIECE - OPERANDS_KEPT + i || round != k) continue;
#pragma unroll
                for (int r = 0; r < AT_ONCE; r++) taken.row[r] = row[i][k][r];
            }
        }
    }
};

// Whether whole units leave in pieces of 16 bytes though their run begins anywhere: (1000, 200001) floats take an H100
// 565 us so, and 645 in words. Halves that begin at any element do so anyway, several rows together.
constexpr bool STORED_SHIFTED = MAY_BE_STORED_SHIFTED && sizeof(Output) >= 4;

template <bool WHOLE>
__device__ void store_rows(const Work& work, RowBuffer& buffer, const Arrays& group, const Unit& unit, int first,
                           const Rows& rows, const Normal& normal, const RowOperands& operands) {
    ShiftedStores shifted(group.output + (unit.begin + first) * static_cast<int>(sizeof(Output)));
#pragma unroll
    for (int r = 0; r < AT_ONCE; r++) {
        const Index row = unit.begin + first + r * ROW;
        const Operands<CHUNK> of_row = operands.row[r];
        Result result = normalized(rows.chunk[r], normal, of_row, work.p);
        if constexpr (WHOLE && OUTPUT_PACKED && !STORED_WIDENED) {
            char* to = group.output + packed_offset<OF_OUTPUT, Output>(work.g, row + lane_index() * CHUNK);
            if (OPERANDS_AGAIN) store_streaming(reinterpret_cast<Result*>(to), result);
            else *reinterpret_cast<Result*>(to) = result;
        } else if constexpr (WHOLE && STORED_SHIFTED) {
            shifted.store(r, result);
        } else if constexpr (WHOLE) {
            store_row(buffer, group, work.g, row, Beyond{}, result, r);
        } else {
            store_row(buffer, group, work.g, row, unit.end(), result, r);
        }
    }
    if constexpr (WHOLE && STORED_SHIFTED) shifted.finish(AT_ONCE);
}

// In elements unless these are halves: (64, 4194301) floats without a scale for each of them take an H100 0.84 ms so,
// and 0.91 in pieces.
__device__ void take_rows(const Work& work, const Arrays& group, const Unit& unit, int first, Rows& rows) {
    const Staged staged(work, group, unit);
#pragma unroll
    for (int r = 0; r < AT_ONCE; r++) {
        const int number = first + r * ROW + lane_index() * CHUNK;
        rows.chunk[r] = load_staged<(SIZE >= 4)>(ChunkPlaces(staged, work.g, number), number);
    }
}

__device__ void finish_rows(const Work& work, RowBuffer& buffer, const Arrays& group, const Unit& unit, int first,
                            const Rows& rows, const Normal& normal, const RowOperands& operands) {
    constexpr bool ALIKE = STORED_IN_RUNS;  // whatever is stored together may end anywhere
    if (!ALIKE && unit.count == UNIT) {
        store_rows<true>(work, buffer, group, unit, first, rows, normal, operands);
    } else if constexpr (ALIKE || ENDS != WHOLE) {
        store_rows<false>(work, buffer, group, unit, first, rows, normal, operands);
    }
}

// The first units of a piece, which stay in registers, so that their stages are free before the group is known.
struct HeldUnits {
    Rows rows[HELD > 0 ? HELD : 1][ROUNDS];

    __device__ void take(const Work& work, const TurnOf& turn, const Arrays& group, int begin) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            const Unit unit = work.unit(turn, i);
            Stage& stage = work.stage(unit.visit);
            stage.full.wait(use_of(unit.visit));
#pragma unroll
            for (int k = 0; k < ROUNDS; k++) take_rows(work, group, unit, begin + k * OF_ROUND, rows[i][k]);
            leave(stage);
        }
    }

    // By selections, so that the code which normalizes stands in the kernel once.
    __device__ void give(int unit, int round, Rows& taken) const {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
#pragma unroll
            for (int k = 0; k < ROUNDS; k++) {
                if (unit == i && round == k) taken = rows[i][k];
            }
        }
    }
};

// Where two pieces are more than a ring, the last units of the next one are loaded into the first stages that this one
// leaves. All blocks wait for these loads, which would come behind all stores of this piece: so its other units wait
// until they are there. But what waits for scale and bias asks for stores slowly enough: 64 groups of 16 MiB take an
// H200 0.664 ms, and 0.675 if loads are let pass.
constexpr bool LOADS_PASS = 2 * PIECE > STAGES + HELD && OPERANDS_KEPT == 0;

// Before units are normalized, when `left` is the last visit whose stage this warp has left.
__device__ void let_loads_pass(const Work& work, const TurnOf& turn, int left) {
    TurnOf next = turn;
    next.move(1);
    const int last = next.visit(PIECE - 1);
    if (next.exists() && left >= last - STAGES) work.stage(last).full.wait(use_of(last));
}

__device__ void normalize_unit(const Work& work, RowBuffer& buffer, const TurnOf& turn, const Arrays& group, int i,
                               int begin, const HeldUnits& held, const KeptOperands& kept, RowOperands& operands) {
    const Unit unit = work.unit(turn, i);
    Stage &stage = work.stage(unit.visit), &known = outcome(work, turn.number);
#pragma unroll 1
    for (int k = 0; k < ROUNDS; k++) {
        const int first = begin + k * OF_ROUND;
        if (i >= PIECE - OPERANDS_KEPT) kept.give(i, k, operands);
        else if (ENDS == CUT && unit.count == UNIT) operands.load(work, group, unit.begin + first, Beyond{});
        else operands.load(work, group, unit.begin + first, unit.end());
        if (k == 0) known.ready.wait(use_of(turn.number));
        const Normal normal = known.normal;
        Rows rows;
        if (i < HELD) {
            held.give(i, k, rows);
        } else {
            if (k == 0) stage.full.wait(use_of(unit.visit));  // known by now; this wait shows what the copies wrote
            if (k == 0 && LOADS_PASS) let_loads_pass(work, turn, unit.visit - 1);
            take_rows(work, group, unit, first, rows);
            if (k == ROUNDS - 1) leave(stage);  // the stage need not wait for stores
        }
        finish_rows(work, buffer, group, unit, first, rows, normal, operands);
    }
}

__device__ void normalize_units(const Work& work, TurnOf turn, int normalizer) {
    RowBuffer& buffer = reinterpret_cast<RowBuffer*>(work.ring + STAGES * STAGE_BYTES)[normalizer];
    const int begin = normalizer * ROWS * ROW;
    RowOperands operands;
    KeptOperands kept;
    if (OPERANDS_KEPT > 0 && turn.exists()) kept.take(work, turn, begin);
    for (; turn.exists(); turn.move(1)) {
        const Arrays group = work.group(turn.bundle);
        HeldUnits held;
        held.take(work, turn, group, begin);
#pragma unroll 1
        for (int i = 0; i < PIECE; i++) normalize_unit(work, buffer, turn, group, i, begin, held, kept, operands);
    }
}
