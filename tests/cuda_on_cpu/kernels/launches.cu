// What launches find and leave: the state of the scratch, and dynamic shared memory.

struct State {
    unsigned taken, finished, launches;
};

// Every block counts one up in `counts`, under its ticket. All zeros are a state to start from; the last block leaves
// the next. Tickets that two launches drew from one state at the same time show as counts that differ.
extern "C" __global__ void take_tickets(State* state, unsigned* counts, int rounds) {
    if (threadIdx.x != 0) return;
    const unsigned ticket = atomicAdd(&state->taken, 1);
    for (int i = 0; i < rounds; i++) __nanosleep(1000);
    atomicAdd(&counts[ticket < gridDim.x ? ticket : gridDim.x], 1);
    if (atomicInc(&state->finished, gridDim.x - 1) == gridDim.x - 1) {
        atomicExch(&state->taken, 0);
        state->launches += 1;
    }
}

// Numbers from count - 1 down, by way of as many words of shared memory.
extern "C" __global__ void count_down(unsigned* output, int count) {
    extern __shared__ __align__(16) unsigned char memory[];
    unsigned* words = reinterpret_cast<unsigned*>(memory);
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) words[i] = i;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
        output[i] = words[count - 1 - i];
}
