// Panels: all that lies between two neighbours of an outer axis, as the steps of a sequence of a few channels.
//
// A panel is one run of memory, and so are some that follow each other. A block moves theirs at once
// (staged_runs.cuh), however narrow the panel is.
//
// Constants that the plan sets, beside those of staged_runs.cuh:
//     INNER      columns of a panel
//     PANELS     of a block, at the most
//     LENGTH     steps of a column that the compiler shall know; else 0
//     ALIKE      1: outputs are as large as inputs and lie as far from a multiple of 16 bytes, so they take their place
// Dynamic shared memory: the staged inputs, and unless ALIKE the outputs.
#pragma once

#include "layout.cuh"
#include "staged_runs.cuh"

struct Staging {
    int outputs;  // where in shared memory they begin
};

// A block's panels.
template <typename Input, typename Output> struct PanelsOf {
    Index first;  // the number of the first
    int length, count;
    StagedRun<Input> inputs;
    StagedRun<Output> outputs;

    // Of `all` panels, whose columns have so many steps.
    __device__ PanelsOf(const char* input, char* output, Index all, Index length, unsigned char* shared, Staging bytes)
        : PanelsOf(input, output, all, LENGTH > 0 ? LENGTH : static_cast<int>(length), reinterpret_cast<char*>(shared),
                   bytes, static_cast<Index>(blockIdx.x) * PANELS) {}

    __device__ PanelsOf(const char* input, char* output, Index all, int length, char* staged, Staging bytes,
                        Index first)
        : first(first), length(length), count(up_to(all - first, PANELS)),
          inputs(staged, here<Input>(input), count * length * INNER),
          outputs(staged + bytes.outputs, here<Output>(output), count * length * INNER) {
        if constexpr (ALIKE) outputs.before = inputs.before;  // so the compiler finds one place for both
    }

    template <typename T, typename Char> __device__ Char* here(Char* array) const {
        return array + first * length * INNER * static_cast<int>(sizeof(T));
    }

    // By all threads of the block.
    template <Eviction HOW> __device__ void load(const char* input) const {
        inputs.template load<HOW>(here<Input>(input));
        __syncthreads();
    }
    __device__ void store(char* output) const {
        __syncthreads();
        outputs.store(here<Output>(output));
    }

    // The number of a step in the runs.
    __device__ int element(int panel, int column, int step) const { return (panel * length + step) * INNER + column; }
};
