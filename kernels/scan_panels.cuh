// What kernels share that scan the columns of panels: all that lies between two neighbours of an outer axis, as the
// steps of a sequence of a few channels.
//
// A panel is one run of memory, and so are some that follow each other. A block moves theirs in whole pieces of 16
// bytes, to shared memory and back, however narrow the panel is.
//
// Constants that the plan sets, beside those of scan.cuh and panels.cuh:
//     INNER     columns of a panel
//     PANELS    of a block, at the most
//     LENGTH    steps of a column that the compiler shall know; else 0
//     ALIKE     1: outputs are as large as inputs and lie as far from a multiple of 16 bytes, so they take their place
// Dynamic shared memory: the staged inputs, and unless ALIKE the outputs.
#pragma once

#include "panels.cuh"
#include "scan.cuh"

static_assert(!SEGMENTED && !INITIAL, "columns of one array");

struct Staging {
    int outputs;  // where in shared memory they begin
};

// A block's.
struct Panels {
    int length, count;
    const char* from;
    char* to;
    StagedRun<Input> inputs;
    StagedRun<Output> outputs;

    __device__ Panels(const char* input, char* output, const Geometry& g, unsigned char* shared, Staging bytes)
        : Panels(input, output, g, reinterpret_cast<char*>(shared), bytes, static_cast<Index>(blockIdx.x) * PANELS) {}

    __device__ Panels(const char* input, char* output, const Geometry& g, char* staged, Staging bytes, Index first)
        : length(LENGTH > 0 ? LENGTH : static_cast<int>(g.length)), count(up_to(g.lines / INNER - first, PANELS)),
          from(input + first * length * INNER * SIZE_IN), to(output + first * length * INNER * SIZE_OUT),
          inputs(staged, from, count * length * INNER), outputs(staged + bytes.outputs, to, count * length * INNER) {
        if constexpr (ALIKE) outputs.before = inputs.before;  // so the compiler finds one place for both
    }

    // By all threads of the block.
    __device__ void load() const {
        inputs.load<EVICTION>(from);
        __syncthreads();
    }
    __device__ void store() const {
        __syncthreads();
        outputs.store(to);
    }

    // The number of a step in the runs.
    __device__ int element(int panel, int column, int step) const {
        return (panel * length + (REVERSE ? length - 1 - step : step)) * INNER + column;
    }
};
