// Normalization of large groups whose elements lie side by side, in one run or in many; they are read once
// (normalization_ring.cuh).
//
// Constants that the plan sets, beside those of normalization_teams.cuh and normalization_chunks.cuh:
//     UNIT_ROWS   a power of two
//     BULK        1: bulk copies, by one warp; 0: asynchronous copies of chunks, grains or elements, or ordinary loads
//     ONE_RUN     1: the elements of a group follow each other in memory
//     IN_PIECES   1: loaders put chunks of long runs of halves together from whole pieces of 16 bytes
//     LOADER_CREWS   of LOADERS each, which load units in turn: several only IN_PIECES, or where runs lie RUN_GAP apart
//     KEEPS_PLACES   1: units lie within a line of the cache where they do in memory; 0: at the begin of their stages
//     RUN_GAP     bytes, 31 at least, that runs which end anywhere lie apart in a stage, where bulk copies load most of
//                 them; else 0
//     GAPS        bytes, a multiple of 128, that the gaps between the runs of a unit take in a stage: RUN_GAP each or,
//                 where one copy loads all, what they are in memory
//     SAME_PLACES 1: results lie at the same places within 16 bytes as their elements in a stage, in one run or in such
//                 runs, and scale and bias are those of their group
//     OPERANDS_AGAIN   1: every group reads scale and bias of all its elements again
//     OPERANDS_KEPT    units of a piece, the last ones, whose scale and bias stay in registers: the same for all groups
//     NORMALIZER_REGISTERS, OTHER_REGISTERS   of a thread of the normalizers, who need more, and of the others; 0: as
//                      the compiler shares them out
//     SPARES      warps that do nothing, so that the others that are no normalizers are four or eight
//     OF_UNITS    1: scale and bias of chunks are the same for a whole unit
//     PUBLISHERS  1: a warp publishes the sums of pieces; 0: the folder does, if a block has no two pieces of a group
//     FOLDED      pieces whose sums a folder loads at a time, a power of two from 16 on
//     FOLDS       1: these are all
// Unless OUTPUT_PACKED, and where results are wider than elements, dynamic shared memory ends with a RowBuffer for each
// normalizer.
#include "normalization_stream_loaders.cuh"
#include "normalization_stream_normalizers.cuh"
#include "normalization_stream_pieces.cuh"
#include "normalization_stream_sums.cuh"

constexpr int FIRST_ADDER = LOADERS * LOADER_CREWS, PUBLISHER = FIRST_ADDER + ADDERS,
              FIRST_FOLDER = PUBLISHER + PUBLISHERS, FIRST_SPARE = FIRST_FOLDER + FOLDERS,
              FIRST_NORMALIZER = FIRST_SPARE + SPARES, WARPS = FIRST_NORMALIZER + NORMALIZERS;

constexpr int ARRIVALS = HAS_SEAMS ? 2 : 1;  // of a loader at a stage, with copies and with what these leave
constexpr int GATES = DRAWN > 0 && KNOWN > STAGES ? KNOWN : STAGES;  // of each kind, at the most

static_assert(NORMALIZER_REGISTERS == 0 || (FIRST_NORMALIZER % 4 == 0 && NORMALIZERS % 4 == 0),
              "registers are those of four warps");
static_assert(LOADER_CREWS == 1 || IN_PIECES || HAS_SEAMS, "other loaders load every unit");
static_assert(!HAS_SEAMS || STAGES % LOADER_CREWS == 0, "each stage is loaded by one crew");
static_assert(GATES <= LANES, "a warp opens all gates");

extern "C" __global__ void __launch_bounds__(WARPS * LANES, 1)
normalize_stream(const char* input, char* output, const char* scale, const char* bias, double scale_number,
                 double bias_number, char* mean, char* variance, Word* control, Geometry g, Parameters p, Cut cut) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    __shared__ Stage stages[STAGES];
    __shared__ Parts parts[STAGES];
    __shared__ Batch batches[KNOWN];
    const int warp = static_cast<int>(threadIdx.x) / LANES, gate = static_cast<int>(threadIdx.x) - LANES;
    if (0 <= gate && gate < GATES) {
        if (gate < STAGES) {
            open(stages[gate], ARRIVALS * LOADERS * LANES, (NORMALIZERS + 1) * LANES);
            parts[gate].summed.init(ADDERS * LANES);
        }
        if (DRAWN > 0 && gate < KNOWN) batches[gate].known.init(1);
        if (BULK) fence_mbarrier_init();
    }
    const unsigned epoch = begin_launch(control, cut);

    const Arrays arrays = {input, output, scale, bias, scale_number, bias_number, mean, variance};
    const Team team(cut, batches, control + SECTOR, epoch);
    const Work work = {arrays, g, p, cut, stages, reinterpret_cast<char*>(dynamic_shared), team.slots(), epoch,
                       input == output};
    if (DRAWN > 0 && threadIdx.x == 0) team.draw_first();
    const TurnOf turn(team);
    if (warp >= FIRST_NORMALIZER) {
        if constexpr (NORMALIZER_REGISTERS > 0) take_registers<NORMALIZER_REGISTERS>();
        if constexpr (SAME_PLACES) normalize_in_pieces(work, turn, warp - FIRST_NORMALIZER);
        else normalize_units(work, turn, warp - FIRST_NORMALIZER);
        return;
    }
    if constexpr (OTHER_REGISTERS > 0) leave_registers<OTHER_REGISTERS>();
    if (warp < FIRST_ADDER) load_units(work, turn, team, warp);
    else if (warp < PUBLISHER) add_units(work, turn, parts, warp - FIRST_ADDER);
    else if (warp < FIRST_FOLDER) publish_pieces(work, turn, parts);
    else if (warp < FIRST_SPARE) fold_groups(work, turn, parts, warp - FIRST_FOLDER);
}
