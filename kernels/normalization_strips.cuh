// Strips of neighbouring groups, columns of a matrix: how they are cut, and where a block keeps their units.
//
// A bundle is a strip of COLUMNS neighbours, a unit STEPS rows of it. The input or the output may be turned: dense
// along the columns in place of across.
//
// Constants that the plan sets, beside those of normalization_ring.cuh:
//     STEPS                         rows of a unit, a power of two
//     EVEN_ROWS                     1: the rows of a unit lie at one stride
//     TEAMS_APART                   1: strips that are worked on at a time lie far from each other
//     VECTOR                        columns that a lane normalizes: a warp has all COLUMNS, unless the output is turned
//     INPUT_TURNED, OUTPUT_TURNED   1: that array is turned; one of them at the most
//     BULK                          1: a thread of the loaders copies a row at once
//     SHIFTED, ROW_SHIFT            1: rows of the input begin at any element, and each by so many bytes more
//                                   (0 ... 15) behind a multiple of 16 than the one before
#pragma once

#include "normalization.cuh"

constexpr Index UNIT = STEPS;
constexpr int SIZE = static_cast<int>(sizeof(Input)), STRIP_BYTES = COLUMNS * SIZE, LINE_BYTES = STEPS * SIZE;

// From step to step in a stage, and from line to line. Shifted rows lie as far apart in memory as in a stage but for
// multiples of 16 bytes, so that what is aligned there is aligned here, and no two rows share 16 bytes. Of a turned
// input a stage has a line for each column: first those of the lanes' first columns, then those of their second ones.
// Lanes that read 16 bytes each, of every VECTOR-th column or of neighbours, find them in banks of their own.
constexpr int PITCH = INPUT_TURNED ? SIZE : STRIP_BYTES + (SHIFTED ? 16 + ROW_SHIFT : 0);
constexpr int LINE_PITCH = LINE_BYTES + 16, LINES_PITCH = LANES * LINE_PITCH + 128 / VECTOR;
constexpr int STAGE_BYTES = INPUT_TURNED ? VECTOR * LINES_PITCH : (STEPS * PITCH + (SHIFTED ? 31 : 0)) / 16 * 16;

#include "normalization_ring.cuh"

constexpr int INNER = KEPT_RANK - 1;

static_assert(OUTPUT_TURNED || COLUMNS == VECTOR * LANES, "a warp has the columns of a strip");
static_assert(SHIFTED + INPUT_TURNED + OUTPUT_TURNED <= 1, "one at a time");
static_assert(EVEN_ROWS || !(SHIFTED || INPUT_TURNED), "rows and lines of a unit lie at one stride");

// What is known of a piece of this block: that it is summed, and how its columns are normalized. Slots come round:
// before the last unit of a piece is loaded, all normalizers have left the last unit of the piece that was SLOTS before
// it, and so have read what is known of that piece. Hence nobody is a use of a slot ahead of those who wait at it.
struct Known {
    Gate summed, ready;
    Normal normal[COLUMNS];
};

constexpr int SLOTS = (STAGES + PIECE - 1) / PIECE;

struct AllKnown {
    Known slot[SLOTS];

    __device__ Known& of(int number) { return slot[number % SLOTS]; }
};

__device__ int use_of_known(int number) { return number / SLOTS; }

// How a column of floats is normalized, in three words: power and factor are the reciprocal of the deviation, whose
// exponent takes nine bits.
struct NormalWords {
    float mean, rest;
    unsigned root;

    NormalWords() = default;
    __device__ explicit NormalWords(const Normalizer<float>& normal) : mean(normal.mean), rest(normal.rest) {
        root = float_as_bits(normal.power) + (float_as_bits(normal.factor) & 0x7fffffffu);  // it may be a negative NaN
    }
    // The power is from 2^-126 to 2^125, and the factor from 1 to 2 unless the root is beyond these. Of NaN something
    // else is made, but then the rest is NaN.
    __device__ operator Normalizer<float>() const {
        const int exponent = static_cast<int>(root >> 23) - 127, of_power = exponent < 1 ? 1 : up_to(exponent, 252);
        const unsigned power = static_cast<unsigned>(of_power) << 23;
        return {bits_as_float(power), mean, bits_as_float(root - power), rest};
    }
};

using PublishedNormal = typename Select<sizeof(Compute) == sizeof(float), NormalWords, Normal>::type;

// What is published of a strip: the sums of all pieces of a column after those of the one before; and how columns are
// normalized.
__device__ Records<Sums> sums_of(const Slot& slot) { return {slot.words, slot.pieces * COLUMNS}; }

__device__ Records<PublishedNormal> normals_of(const Slot& slot) {
    return {slot.words + Records<Sums>::ROOM * slot.pieces * COLUMNS, COLUMNS};
}

static_assert(Records<Sums>::ROOM <= words_of<Sums> && Records<PublishedNormal>::ROOM <= NORMAL_WORDS,
              "a slot has room for every word of an item");

// Where a row of a unit lies, from where its group does.
template <int ARRAY> __device__ Index row_offset(const Geometry& g, const Unit& unit, int step) {
    if constexpr (!EVEN_ROWS) return g.reduced.offsets(unit.begin + step).of[ARRAY];
    return g.reduced.offsets(unit.begin).of[ARRAY] + step * g.reduced.stride[ARRAY][REDUCED_RANK - 1];
}

// The strip of a bundle. Blocks that share bundles are a team. If TEAMS_APART each team has neighbouring strips, so
// that those which several teams have at a time lie far from each other: (4096, 65536) floats, which 8 teams share,
// take an H200 0.560 ms, and 0.587 as neighbours. Where a row has but a few strips they had better be worked on at a
// time.
__device__ Index strip_of(const Cut& cut, Index bundle) {
    if (!TEAMS_APART) return bundle;
    const Index teams = static_cast<Index>(gridDim.x) / cut.pieces;
    const Index round = bundle / teams, team = bundle - round * teams;
    const Index each = cut.bundles / teams, more = cut.bundles - each * teams;
    return team * each + (team < more ? team : more) + round;
}

// A piece of a strip, as all warps of a block come to it one after the other.
struct Piece {
    const Turn& turn;
    Arrays first;     // its groups: of the first column
    int width;        // columns
    bool is_last;     // rows end in the strip
    Slot slot;
    Known& known;
    int use;  // of what is known

    __device__ Piece(const Work& work, const Turn& turn, AllKnown& known)
        : turn(turn), slot(work.slot(turn.bundle)), known(known.of(turn.number)), use(use_of_known(turn.number)) {
        const Index strip = strip_of(work.cut, turn.bundle);
        first = work.group(strip);
        width = work.width(strip);
        is_last = strip % work.cut.across == work.cut.across - 1;
    }

    // Of columns that do not exist the last one.
    __device__ int existing(int column) const { return column < width ? column : width - 1; }

    __device__ Arrays column(const Geometry& g, int number) const {
        Offsets offsets;
#pragma unroll
        for (int a = 0; a < ARRAYS; a++) offsets.of[a] = number * g.kept.stride[a][INNER];
        return first.at(offsets);
    }
};

// Where a unit lies in its stage: as in memory, but for lines, and chunks of rows whose output is turned. These have
// another order, so that lanes which read chunks of steps that are CHUNK apart find them in banks of their own.
struct Staged {
    char* data;

    __device__ Staged(const Work& work, const Piece& piece, const Unit& unit) : data(work.data(unit.visit)) {
        if constexpr (SHIFTED) {
            const char* first = piece.first.input + row_offset<OF_INPUT>(work.g, unit, 0);
            data += reinterpret_cast<unsigned long long>(first) % 16;
        }
    }
    __device__ char* row(int step) const { return data + step * PITCH; }
    __device__ char* line(int column) const {
        return data + column % VECTOR * LINES_PITCH + column / VECTOR * LINE_PITCH;
    }
    __device__ char* chunk(int step, int number) const {
        return row(step) + (OUTPUT_TURNED ? number ^ step / CHUNK % 8 : number) * 16;
    }
    __device__ char* element(int step, int column) const {
        if constexpr (INPUT_TURNED) return line(column) + step * SIZE;
        else if constexpr (OUTPUT_TURNED) return chunk(step, column / CHUNK) + column % CHUNK * SIZE;
        else return row(step) + column * SIZE;
    }
};

// The copy engine may write to the stage next, and its writes are ordered behind our reads by a fence alone
// (normalization_stream.cuh).
__device__ void leave(const Work& work, int visit) {
    if (BULK) fence_async_proxy();
    work.stage(visit).emptied.arrive();
}
