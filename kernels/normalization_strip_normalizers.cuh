// How the normalizers of a block store what lies in its stages.
//
// Constants that the plan sets, beside those of normalization_strips.cuh:
//     OUTPUT_PACKED                 the outputs of VECTOR columns lie dense and aligned, or those of a chunk of steps
//                                   where the output is turned
//     UNIT_PARTS                    of a unit that are stored one after the other
//     SCALE_ACROSS, BIAS_ACROSS     0: the same for the VECTOR columns, 1: of each its own
#pragma once

#include "normalization_strips.cuh"

using Elements = Pack<Input, VECTOR>;

// A normalizer has every NORMALIZERS-th row, or of a turned input every so manieth chunk of rows, and each lane VECTOR
// columns: side by side, where they are stored together or an array is turned, otherwise LANES apart, so that a warp
// stores to neighbours. Where the output is turned, 8 lanes have chunks of steps side by side, so that they store 128
// bytes at a time, by 4 that have chunks of columns; and normalizers share the columns in SETS, each of which has all
// steps.
constexpr int ROWS = STEPS * COLUMNS / (NORMALIZERS * LANES * VECTOR);  // of a lane
constexpr int PART_ROWS = ROWS / UNIT_PARTS;
constexpr int TOGETHER = INPUT_TURNED || OUTPUT_TURNED ? CHUNK : 1;
constexpr int SETS = OUTPUT_TURNED ? COLUMNS / (4 * CHUNK) : 1, OF_SET = NORMALIZERS / SETS;
constexpr bool SIDE_BY_SIDE = OUTPUT_PACKED || INPUT_TURNED || OUTPUT_TURNED;
constexpr int BETWEEN = SIDE_BY_SIDE ? 1 : LANES;  // from one column of a lane to the next
constexpr int OPERAND_ROWS = HAS_SCALE == OF_ELEMENTS || HAS_BIAS == OF_ELEMENTS ? ROWS : 1;

static_assert(NORMALIZERS % SETS == 0 && ROWS % TOGETHER == 0, "all normalizers have as much of all units");
static_assert(ROWS * NORMALIZERS * LANES * VECTOR == STEPS * COLUMNS, "and together they have all of them");
static_assert(HAS_SCALE != OF_RUNS && HAS_BIAS != OF_RUNS, "rows have operands of their own, or all the same");
static_assert(PART_ROWS % TOGETHER == 0 && (UNIT_PARTS == 1 || OPERAND_ROWS == 1), "parts are alike");
static_assert(!OUTPUT_TURNED || VECTOR == CHUNK, "a lane has squares");

__device__ int step_of(int row, int normalizer) {
    const int chunk = row / TOGETHER * OF_SET + normalizer / SETS;
    return (OUTPUT_TURNED ? chunk * 8 + lane_index() % 8 : chunk) * TOGETHER + row % TOGETHER;
}

// Of the VECTOR columns of a lane.
__device__ int first_column(int normalizer) {
    const int place = OUTPUT_TURNED ? normalizer % SETS * 4 + lane_index() / 8 : lane_index();
    return SIDE_BY_SIDE ? place * VECTOR : place;
}

// How many of them exist, from `column` on: all or none that lie side by side.
__device__ int existing_of_lane(int column, int width) {
    if (SIDE_BY_SIDE) return column < width ? VECTOR : 0;
    return up_to(width - column + BETWEEN - 1, VECTOR * BETWEEN) / BETWEEN;
}

// Scale or bias that is the same for all columns, but of each row its own: each lane has that of one of the rows, or of
// its own rows where the output is turned. So it can be loaded long before it is needed: (4096, 65536) floats took an
// H200 0.875 ms where it was not.
template <typename Stored, int ARRAY, bool USED, bool ALIGNED> struct OfRows {
    static constexpr int OF_LANE = OUTPUT_TURNED ? ROWS : 1;
    Operand<Stored, USED ? OF_GROUP : NONE, ALIGNED, 1> of_lane[OF_LANE];

    static_assert(!USED || OUTPUT_TURNED || ROWS <= LANES, "a lane for each row");

    __device__ void load(const char* of_column, const Geometry& g, const Unit& unit, int normalizer) {
#pragma unroll
        for (int k = 0; k < OF_LANE; k++) {
            const int step = step_of(OUTPUT_TURNED ? k : lane_index() % ROWS, normalizer);
            if (USED) of_lane[k].load_once(of_column + (step < unit.count ? row_offset<ARRAY>(g, unit, step) : 0), 0);
        }
    }
    __device__ auto of_row(int number) const {
        if constexpr (OUTPUT_TURNED) return of_lane[number].pack;
        else return shuffle(of_lane[0].pack, number);
    }
};

// Scale or bias of the lane's columns, in one row.
template <typename Stored, int ARRAY, int KIND, bool ALIGNED, bool EACH> struct RowOperand {
    static constexpr int WIDE = EACH && KIND != OF_ALL ? VECTOR : 1;
    static constexpr bool EVERYWHERE = KIND == OF_ELEMENTS && !EACH;
    using Rows = OfRows<Stored, ARRAY, EVERYWHERE, ALIGNED>;
    Operand<Stored, KIND == OF_ELEMENTS ? OF_GROUP : KIND, ALIGNED, 1> value[WIDE];

    // Of so many columns of the lane that exist, or else of the first again.
    __device__ void load(const char* of_column, double number, const Geometry& g, int exist) {
#pragma unroll
        for (int v = 0; v < WIDE; v++) {
            const Index column = SIDE_BY_SIDE || v < exist ? v * BETWEEN : 0;
            value[v].load_once(of_column + column * g.kept.stride[ARRAY][INNER], number);
        }
    }
    // By all lanes; of no column if none exists.
    __device__ void load_row(const char* of_column, const Geometry& g, const Unit& unit, int step, int exist,
                             const Rows& rows, int number) {
        if constexpr (EVERYWHERE) value[0].pack = rows.of_row(number);
        else if (KIND == OF_ELEMENTS && exist > 0) load(of_column + row_offset<ARRAY>(g, unit, step), 0, g, exist);
    }
    __device__ Compute at(int v) const { return value[v < WIDE ? v : 0].at(0); }
};

using RowScale = RowOperand<SCALE, OF_SCALE, HAS_SCALE, SCALE_ALIGNED, SCALE_ACROSS>;
using RowBias = RowOperand<BIAS, OF_BIAS, HAS_BIAS, BIAS_ALIGNED, BIAS_ACROSS>;

struct UnitOperands {
    RowScale::Rows scale;
    RowBias::Rows bias;

    __device__ void load(const Work& work, const Arrays& column, const Unit& unit, int normalizer) {
        scale.load(column.scale, work.g, unit, normalizer);
        bias.load(column.bias, work.g, unit, normalizer);
    }
};

struct RowOperands {
    RowScale scale;
    RowBias bias;

    __device__ void load_once(const Arrays& column, const Geometry& g, int exist) {
        if (HAS_SCALE != OF_ELEMENTS) scale.load(column.scale, column.scale_number, g, exist);
        if (HAS_BIAS != OF_ELEMENTS) bias.load(column.bias, column.bias_number, g, exist);
    }
    __device__ void load_row(const Arrays& column, const Geometry& g, const Unit& unit, int step, int exist,
                             const UnitOperands& operands, int number) {
        scale.load_row(column.scale, g, unit, step, exist, operands.scale, number);
        bias.load_row(column.bias, g, unit, step, exist, operands.bias, number);
    }
};

// The columns of a lane.
struct Columns {
    Arrays first;
    int exist;
    Normal normal[VECTOR];
    RowOperands operands[OPERAND_ROWS];

    __device__ Columns(const Work& work, const Piece& piece, int normalizer) {
        const int column = first_column(normalizer);
        exist = existing_of_lane(column, piece.width);
        first = piece.column(work.g, exist > 0 ? column : 0);
#pragma unroll
        for (int k = 0; k < OPERAND_ROWS; k++) operands[k].load_once(first, work.g, exist);
    }
    __device__ void await(const Piece& piece, int normalizer) {
        piece.known.ready.wait(piece.use);
#pragma unroll
        for (int v = 0; v < VECTOR; v++) normal[v] = piece.known.normal[first_column(normalizer) + v * BETWEEN];
    }
};

__device__ void normalize_row(const Work& work, const Elements& elements, const Columns& columns,
                              const RowOperands& operands, char* to) {
    Compute y[VECTOR];
    unpack(elements, y);
#pragma unroll
    for (int v = 0; v < VECTOR; v++) {
        y[v] = activated(columns.normal[v].apply(y[v]), operands.scale.at(v), operands.bias.at(v), work.p);
    }
    const Pack<Output, VECTOR> result = pack_of<Output>(y);
    if constexpr (OUTPUT_PACKED) {
        *reinterpret_cast<Pack<Output, VECTOR>*>(to) = result;
    } else {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            if (!SIDE_BY_SIDE && v >= columns.exist) continue;
            store_element<OUTPUT_ALIGNED>(to + v * BETWEEN * work.g.kept.stride[OF_OUTPUT][INNER], result.element[v]);
        }
    }
}

// What a normalizer holds of a unit in registers, so that the stage is free before the piece is known and stored.
struct HeldUnit {
    Elements row[ROWS];

    __device__ void take(const Work& work, const Piece& piece, const Unit& unit, int normalizer) {
        work.stage(unit.visit).full.wait(use_of(unit.visit));
        const Staged staged(work, piece, unit);
        const int wanted = first_column(normalizer), exist = existing_of_lane(wanted, piece.width);
        const int column = exist > 0 ? wanted : 0;
#pragma unroll
        for (int k = 0; k < ROWS; k += TOGETHER) {
            const int step = step_of(k, normalizer);
            if constexpr (INPUT_TURNED) {
                take_chunks(staged, step, column, &row[k]);
            } else {
#pragma unroll
                for (int j = 0; j < TOGETHER; j++) take_row(staged.element(step + j, column), exist, row[k + j]);
            }
        }
        leave(work, unit.visit);
    }

    __device__ static void take_chunks(const Staged& staged, int step, int column, Elements* rows) {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            const auto chunk = *reinterpret_cast<const Pack<Input, CHUNK>*>(staged.element(step, column + v));
#pragma unroll
            for (int j = 0; j < CHUNK; j++) rows[j].element[v] = chunk.element[j];
        }
    }

    __device__ static void take_row(const char* from, int exist, Elements& row) {
        if constexpr (SHIFTED || !SIDE_BY_SIDE) {
#pragma unroll
            for (int v = 0; v < VECTOR; v++) {
                const int column = SIDE_BY_SIDE || v < exist ? v * BETWEEN : 0;
                row.element[v] = reinterpret_cast<const Input*>(from)[column];
            }
        } else {
            row = *reinterpret_cast<const Elements*>(from);
        }
    }

    __device__ void finish(const Work& work, const Unit& unit, int normalizer, Columns& columns,
                           const UnitOperands& of_unit) const {
        const int count = columns.exist > 0 ? unit.count : 0;
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            const int step = step_of(k, normalizer);
            const int exist = step < count ? columns.exist : 0;
            columns.operands[k % OPERAND_ROWS].load_row(columns.first, work.g, unit, step, exist, of_unit, k);
        }
        if constexpr (OUTPUT_TURNED) store_lines(work, unit, normalizer, columns, count);
        else store_rows(work, unit, normalizer, columns, count);
    }

    // Part after part by the same code.
    __device__ void store_rows(const Work& work, const Unit& unit, int normalizer, const Columns& columns,
                               int count) const {
        char* to = columns.first.output + row_offset<OF_OUTPUT>(work.g, unit, step_of(0, normalizer));
        HeldUnit left = *this;
#pragma unroll 1
        for (int done = 0; done < ROWS; done += PART_ROWS) {
#pragma unroll
            for (int k = 0; k < PART_ROWS; k++) {
                const int step = step_of(done, 0) + step_of(k, normalizer);
                const int more = step_of(k + 1, normalizer) - step_of(k, normalizer);
                const RowOperands& operands = columns.operands[k % OPERAND_ROWS];
                if (step < count) normalize_row(work, left.row[k], columns, operands, to);
                if constexpr (EVEN_ROWS) to += more * work.g.reduced.stride[OF_OUTPUT][REDUCED_RANK - 1];
                else to = columns.first.output + row_offset<OF_OUTPUT>(work.g, unit, step + more);
            }
#pragma unroll
            for (int k = PART_ROWS; k < ROWS; k++) left.row[k - PART_ROWS] = left.row[k];
        }
    }

    // Squares of CHUNK steps and as many columns, turned.
    __device__ void store_lines(const Work& work, const Unit& unit, int normalizer, const Columns& columns,
                                int count) const {
#pragma unroll
        for (int k = 0; k < ROWS; k += CHUNK) {
            const int step = step_of(k, normalizer);
            if (step >= count) continue;
            char* to = columns.first.output + row_offset<OF_OUTPUT>(work.g, unit, step);
#pragma unroll
            for (int v = 0; v < VECTOR; v++) {
                Compute y[CHUNK];
#pragma unroll
                for (int j = 0; j < CHUNK; j++) {
                    const RowOperands& operands = columns.operands[(k + j) % OPERAND_ROWS];
                    const Compute x = widen(convert<Compute>(row[k + j].element[v]));
                    y[j] = activated(columns.normal[v].apply(x), operands.scale.at(v), operands.bias.at(v), work.p);
                }
                *reinterpret_cast<Pack<Output, CHUNK>*>(to) = pack_of<Output>(y);
                to += work.g.kept.stride[OF_OUTPUT][INNER];
            }
        }
    }
};

// The next HELD units of the piece are always in registers, so that their stages are free while this one is stored;
// that takes no more code than to hold one. It is worth most where two pieces are more than a ring: there blocks wait
// for the last units of the next one, and these for stages that this one leaves.
__device__ void normalize_piece(const Work& work, const Piece& piece, int normalizer) {
    constexpr int AHEAD = HELD > 1 ? HELD : 0;
    Columns columns(work, piece, normalizer);
    UnitOperands next;
    next.load(work, columns.first, work.unit(piece.turn, 0), normalizer);
    HeldUnit held[HELD];
#pragma unroll 1
    for (int i = -AHEAD; i < PIECE; i++) {
        if (AHEAD > 0 && i == 0) columns.await(piece, normalizer);
        const HeldUnit first = held[0];
#pragma unroll
        for (int k = 1; k < HELD; k++) held[k - 1] = held[k];
        if (i + AHEAD < PIECE) held[HELD - 1].take(work, piece, work.unit(piece.turn, i + AHEAD), normalizer);
        if (i < 0) continue;
        if (AHEAD == 0 && i == 0) columns.await(piece, normalizer);
        const HeldUnit& present = AHEAD > 0 ? first : held[0];
        const UnitOperands of_unit = next;
        if (i + 1 < PIECE) next.load(work, columns.first, work.unit(piece.turn, i + 1), normalizer);
        present.finish(work, work.unit(piece.turn, i), normalizer, columns, of_unit);
    }
}
