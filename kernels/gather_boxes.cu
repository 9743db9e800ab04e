// A copy of an array into another order of its axes, whose innermost ones may be short in either.
//
// A block takes a box: some indices of each axis, so many that what lies side by side is long in both arrays. A run is
// what the innermost axes of the array have of it, a row what those of the copy have. Threads load runs, hand them over
// in shared memory, and store rows, neighbours by neighbouring threads. Each has one place in all its lines, so that it
// only steps along the other axes from one to the next.
//
// Constants that the plan sets:
//     ELEMENT             an unsigned type of the elements' size
//     RANK                axes, from the outermost to the innermost of the copy
//     BOX                 indices of each axis that a box has
//     FROM_INNER          the axes from the innermost to the outermost of the array that is copied
//     OF_RUN, OF_ROW      innermost axes of a run and of a row, which a block has a thread for each place of; 0: lines
//                         are of one place each
//     LOADED, STORED      neighbours of a run and of a row that a thread loads or stores at a time, 4 bytes at the most
//     PITCH               elements from one row to the next in shared memory
//     IN_BOXES            bits of the axes that have several
//     CUT                 bits of those along which the last one has fewer indices
//     THREADS             of a block
//     EVICTION            the array's: intrinsics.cuh
//     INDEX               int or long long
#include "elements.cuh"

using Element = ELEMENT;
using Index = INDEX;

struct Geometry {
    Index size[RANK], boxes[RANK];       // indices of an axis, and the boxes that take them
    Index input_step[RANK], step[RANK];  // strides of the array and of the copy
};

__device__ constexpr int box(int axis) {
    const int sizes[] = {BOX};
    return sizes[axis];
}

// The axes from the innermost on.
template <bool OF_ARRAY> __device__ constexpr int inner_axis(int place) {
    const int from_inner[] = {FROM_INNER};
    return OF_ARRAY ? from_inner[place] : RANK - 1 - place;
}

// Elements of a box along those of these axes that are within so many.
template <bool OF_ARRAY> __device__ constexpr int elements_within(int axes) {
    int elements = 1;
    for (int place = 0; place < axes; place++) elements *= box(inner_axis<OF_ARRAY>(place));
    return elements;
}

constexpr int OF_PITCH = OF_ROW > 0 ? OF_ROW : 1;  // innermost axes that lie side by side in shared memory

__device__ constexpr int places_of(int elements) { return elements / elements_within<false>(OF_PITCH) * PITCH; }

// In shared memory, from one index of an axis to the next.
__device__ constexpr int apart(int axis) {
    const int place = RANK - 1 - axis, elements = elements_within<false>(place);
    return place < OF_PITCH ? elements : places_of(elements);
}

// A thread's way along the lines of a box, runs of the array or rows of the copy. Along the innermost axis it counts
// what is loaded or stored at a time.
template <bool OF_ARRAY> struct Walk {
    static constexpr int INNER = OF_ARRAY ? OF_RUN : OF_ROW, AT_A_TIME = OF_ARRAY ? LOADED : STORED;
    static constexpr int PLACES = INNER > 0 ? elements_within<OF_ARRAY>(INNER) / AT_A_TIME : 1;
    static constexpr int LINES = elements_within<OF_ARRAY>(RANK) / AT_A_TIME / PLACES;
    static constexpr int AT_ONCE = THREADS / PLACES, ROUNDS = (LINES + AT_ONCE - 1) / AT_ONCE;
    static_assert(AT_ONCE > 0, "a thread for each place");

    const Index (&steps)[RANK];
    int line;
    int number[RANK];  // along each axis
    Index offset;      // from the box's first element in the array or the copy
    int staged;        // and in shared memory

    __device__ explicit Walk(const Index (&steps)[RANK]) : steps(steps), offset(0), staged(0) {
        const int thread = static_cast<int>(threadIdx.x), first = thread / PLACES;
        line = first < AT_ONCE ? first : LINES;
        begin<0, INNER>(thread - first * PLACES);
        begin<INNER, RANK>(first);
    }

    __device__ bool exists(const Index (&left)[RANK]) const {
        bool found = line < LINES;
#pragma unroll
        for (int axis = 0; axis < RANK; axis++) {
            if (CUT >> axis & 1) found &= number[axis] * unit(axis) < left[axis];
        }
        return found;
    }

    // To the line that AT_ONCE others lie before.
    __device__ void move_on() {
        line += AT_ONCE;
        int distance = AT_ONCE, carry = 0;
#pragma unroll
        for (int place = INNER; place < RANK; place++) {
            const int axis = inner_axis<OF_ARRAY>(place), count = box(axis) / unit(axis);
            if (count == 1) continue;
            const bool is_last = place + 1 == RANK;
            const int by = is_last ? distance : distance % count;
            int after = number[axis] + by + carry;
            carry = !is_last && (by > 0 || carry) && after >= count;
            if (carry) after -= count;
            go(axis, after - number[axis]);
            number[axis] = after;
            distance /= count;
        }
    }

private:
    __device__ static constexpr int unit(int axis) { return axis == inner_axis<OF_ARRAY>(0) ? AT_A_TIME : 1; }

    __device__ void go(int axis, int by) {
        offset += by * unit(axis) * steps[axis];
        staged += by * unit(axis) * apart(axis);
    }

    // At what has that number along axes of these places.
    template <int FROM, int TO> __device__ void begin(int at) {
#pragma unroll
        for (int place = FROM; place < TO; place++) {
            const int axis = inner_axis<OF_ARRAY>(place), count = box(axis) / unit(axis);
            const int outer = place + 1 < TO ? at / count : 0;
            number[axis] = at - outer * count;
            go(axis, number[axis]);
            at = outer;
        }
    }
};

// Of what does not exist the box's first element is loaded, so that nothing branches.
__device__ void load(Element* staged, const char* input, const Geometry& g, const Index (&left)[RANK]) {
    constexpr int DEEP = 8;  // loads that a thread has on their way
    Walk<true> walk(g.input_step);
#pragma unroll 1
    for (int round = 0; round < walk.ROUNDS; round += DEEP) {
        Pack<Element, LOADED> pack[DEEP];
        int place[DEEP];
#pragma unroll
        for (int k = 0; k < DEEP; k++) {
            const bool exists = walk.exists(left);
            pack[k] = load_items<EVICTION, Pack<Element, LOADED>>(input + (exists ? walk.offset : 0));
            place[k] = exists ? walk.staged : -1;
            walk.move_on();
        }
#pragma unroll
        for (int k = 0; k < DEEP; k++) {
            if (place[k] < 0) continue;
#pragma unroll
            for (int i = 0; i < LOADED; i++) staged[place[k] + i * apart(inner_axis<true>(0))] = pack[k].element[i];
        }
    }
}

__device__ void store(const Element* staged, char* copy, const Geometry& g, const Index (&left)[RANK]) {
    Walk<false> walk(g.step);
#pragma unroll 4
    for (int round = 0; round < walk.ROUNDS; round++, walk.move_on()) {
        if (!walk.exists(left)) continue;
        Pack<Element, STORED> pack;
#pragma unroll
        for (int i = 0; i < STORED; i++) pack.element[i] = staged[walk.staged + i];
        *reinterpret_cast<Pack<Element, STORED>*>(copy + walk.offset) = pack;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
gather_boxes(const char* input, char* copy, Geometry g) {
    await_launch_ahead();
    __shared__ Element staged[places_of(elements_within<false>(RANK))];
    Index left[RANK], number = static_cast<Index>(blockIdx.x);
#pragma unroll
    for (int axis = RANK - 1; axis >= 0; axis--) {
        left[axis] = g.size[axis];
        if (!(IN_BOXES >> axis & 1)) continue;
        const Index outer = number / g.boxes[axis], begin = (number - outer * g.boxes[axis]) * box(axis);
        left[axis] -= begin;
        input += begin * g.input_step[axis];
        copy += begin * g.step[axis];
        number = outer;
    }
    load(staged, input, g, left);
    __syncthreads();
    store(staged, copy, g, left);
}
