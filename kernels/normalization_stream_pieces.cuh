// The normalizers of normalization_stream.cu where results lie at the same places within 16 bytes as elements: whole
// pieces of 16 bytes of a stage are normalized as they lie there, whatever chunks they are parts of. What is left of
// each run at either end is normalized element by element.
//
// Constants that the plan sets: those of normalization_stream.cu.
#pragma once

#include "normalization_stream_normalizers.cuh"

static_assert(!SAME_PLACES || (KEEPS_PLACES && sizeof(Input) == sizeof(Output)), "pieces of as many elements");
static_assert(!SAME_PLACES || (HELD == 0 && REDUCED_RANK == (HAS_SEAMS ? 2 : 1)), "pieces of what stages hold");

// Of all elements of a group.
using OperandsOfAll = Operands<CHUNK>;

// Where in the output lies what is at a position of the stage, in run k of the unit.
__device__ Index output_offset(const Staged& unit, const Geometry& g, Index begin, int position, int k) {
    const Index in_stage = position - unit.offset;
    if constexpr (!HAS_SEAMS) return begin * SIZE + in_stage;
    const Index more = g.reduced.stride[OF_OUTPUT][0] - unit.run(g) * SIZE - RUN_GAP;
    const Index of_unit = unit.first_run * g.reduced.stride[OF_OUTPUT][0] + unit.place * SIZE;
    return of_unit + in_stage + k * more;
}

// The run of the unit that a piece lies in, or the gap behind it.
__device__ int run_at(const Staged& unit, const Geometry& g, int position) {
    if constexpr (!HAS_SEAMS) return 0;
    const int from_run = position - unit.offset + unit.place * SIZE, pitch = unit.run(g) * SIZE + RUN_GAP;
    return from_run / pitch;
}

struct PiecesNormalizer {
    const Work& work;
    const Arrays& group;
    const OperandsOfAll& operands;
    const Normal normal;

    __device__ void normalize_rows(const Staged& staged, Index begin, int first) const {
        constexpr int TOGETHER = 4, STEP = NORMALIZERS * LANES;
        const Geometry& g = work.g;
        const int runs = runs_of(staged, g);
        const int pieces = runs > 0 ? (RunPart(staged, g, runs - 1).behind + 15) / 16 : 0;
#pragma unroll 1
        for (int row = first * LANES; row < pieces; row += TOGETHER * STEP) {
            Held<Chunk> chunk[TOGETHER];
#pragma unroll
            for (int r = 0; r < TOGETHER; r++) {
                const int piece = row + r * STEP + lane_index();
                chunk[r] = load_loosely<Held<Chunk>>(staged.data + (piece < pieces ? piece : 0) * 16);
            }
#pragma unroll
            for (int r = 0; r < TOGETHER; r++) {
                if (row + r * STEP >= pieces) break;
                const int position = (row + r * STEP + lane_index()) * 16, k = run_at(staged, g, position);
                const RunPart part(staged, g, k);
                const Result result = normalized(chunk[r], normal, operands, work.p);
                if (position < part.position || position + 16 > part.behind) continue;
                *reinterpret_cast<Result*>(group.output + output_offset(staged, g, begin, position, k)) = result;
            }
        }
    }

    __device__ void normalize_ends(const Staged& staged, Index begin, int first) const {
        constexpr int RUNS = RunEnd::RUNS;
        const Geometry& g = work.g;
        const int runs = runs_of(staged, g);
#pragma unroll 1
        for (int k = first * RUNS + lane_index() / RunEnd::LANES_OF_RUN; k < runs; k += NORMALIZERS * RUNS) {
            const RunEnd end(RunPart(staged, g, k), true);
            if (!end.exists || end.in_piece) continue;
            const Pack<Input, 1> x = {*reinterpret_cast<const Input*>(staged.data + end.position)};
            Compute y[1];
            unpack(x, y);
            const Compute scale = operands.scale.at(0), bias = operands.bias.at(0);
            y[0] = activated(normal.apply(y[0]), scale, bias, work.p);
            char* const to = group.output + output_offset(staged, g, begin, end.position, k);
            *reinterpret_cast<Output*>(to) = pack_of<Output>(y).element[0];
        }
    }
};

__device__ void normalize_in_pieces(const Work& work, TurnOf turn, int normalizer) {
    for (; turn.exists(); turn.move(1)) {
        const Arrays group = work.group(turn.bundle);
        OperandsOfAll operands;
        operands.load_once(group);
        Stage& known = outcome(work, turn.number);
        known.ready.wait(use_of(turn.number));
        const PiecesNormalizer normalize = {work, group, operands, known.normal};
#pragma unroll 1
        for (int i = 0; i < PIECE; i++) {
            const Unit unit = work.unit(turn, i);
            Stage& stage = work.stage(unit.visit);
            stage.full.wait(use_of(unit.visit));  // known by now; this wait shows what the copies wrote
            if (LOADS_PASS) let_loads_pass(work, turn, unit.visit - 1);
            const Staged staged(work, group, unit);
            const int turned = (normalizer + unit.visit) % NORMALIZERS;
            normalize.normalize_rows(staged, unit.begin, turned);
            normalize.normalize_ends(staged, unit.begin, NORMALIZERS - 1 - turned);
            leave(stage);
        }
    }
}
