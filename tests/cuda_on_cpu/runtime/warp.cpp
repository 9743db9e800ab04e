// What the lanes of a warp do together.
#include "checker.h"
#include "failure.h"
#include "grid.h"
#include "scheduler.h"

namespace cuda_on_cpu {
namespace {

constexpr uint64_t ABSENT = ~0ull;  // NaN or -1: what a shuffle gets from a lane that takes no part

const char* name_of(WarpOperation operation) {
    switch (operation) {
        case WarpOperation::sync:
            return "__syncwarp";
        case WarpOperation::shuffle:
            return "__shfl_sync";
        case WarpOperation::ballot:
            return "__ballot_sync";
        case WarpOperation::any:
            return "__any_sync";
        case WarpOperation::all:
            return "__all_sync";
        case WarpOperation::match:
            return "__match_any_sync";
        default:
            return "__reduce_sync";
    }
}

void demand_convergence(const Thread& thread, const Thread& other) {
    const bool same =
        thread.mask == other.mask && thread.operation == other.operation && thread.at.line() == other.at.line();
    if (same) return;
    fail("warp divergence: lane %u is in %s with mask %08x at %s, lane %u in %s with mask %08x at %s", thread.lane,
         thread.doing, thread.mask, describe(thread.at).c_str(), other.lane, other.doing, other.mask,
         describe(other.at).c_str());
}

uint32_t reduce(WarpOperation operation, uint32_t a, uint32_t b) {
    const auto signed_a = static_cast<int32_t>(a), signed_b = static_cast<int32_t>(b);
    switch (operation) {
        case WarpOperation::add:
            return a + b;
        case WarpOperation::min_signed:
            return signed_a < signed_b ? a : b;
        case WarpOperation::max_signed:
            return signed_a > signed_b ? a : b;
        case WarpOperation::min_unsigned:
            return a < b ? a : b;
        case WarpOperation::max_unsigned:
            return a > b ? a : b;
        case WarpOperation::bit_and:
            return a & b;
        case WarpOperation::bit_or:
            return a | b;
        default:
            return a ^ b;
    }
}

// What the participants brought along.
struct Brought {
    const Warp& warp;
    unsigned lanes;

    uint64_t by(unsigned lane) const { return warp.lanes[lane]->value; }
    unsigned equal_to(uint64_t value) const {
        unsigned set = 0;
        for_each_lane(lanes, [&](unsigned lane) { set |= static_cast<unsigned>(by(lane) == value) << lane; });
        return set;
    }
    uint64_t reduced(WarpOperation operation) const {
        const unsigned first = static_cast<unsigned>(__builtin_ctz(lanes));
        auto sum = static_cast<uint32_t>(by(first));
        for_each_lane(lanes & ~(1u << first),
                      [&](unsigned lane) { sum = reduce(operation, sum, static_cast<uint32_t>(by(lane))); });
        return sum;
    }
};

void shuffle(Warp& warp, unsigned lanes) {
    for_each_lane(lanes, [&](unsigned lane) {
        Thread* thread = warp.lanes[lane];
        const unsigned source = static_cast<unsigned>(thread->source) % LANES;
        thread->result = lanes >> source & 1 ? warp.lanes[source]->value : ABSENT;
    });
}

void give_to_all(Warp& warp, unsigned lanes, uint64_t result) {
    for_each_lane(lanes, [&](unsigned lane) { warp.lanes[lane]->result = result; });
}

void carry_out(WarpOperation operation, Warp& warp, unsigned lanes) {
    const Brought brought{warp, lanes};
    switch (operation) {
        case WarpOperation::sync:
            break;
        case WarpOperation::shuffle:
            shuffle(warp, lanes);
            break;
        case WarpOperation::ballot:
            give_to_all(warp, lanes, brought.equal_to(1));
            break;
        case WarpOperation::any:
            give_to_all(warp, lanes, brought.equal_to(1) != 0);
            break;
        case WarpOperation::all:
            give_to_all(warp, lanes, brought.equal_to(1) == lanes);
            break;
        case WarpOperation::match:
            for_each_lane(lanes, [&](unsigned lane) { warp.lanes[lane]->result = brought.equal_to(brought.by(lane)); });
            break;
        default:
            give_to_all(warp, lanes, brought.reduced(operation));
    }
}

// Finishes the operation that `thread` takes part in, if all lanes of its mask have come. Returns the participants.
unsigned complete(Thread& thread) {
    Warp& warp = *thread.warp;
    const unsigned lanes = thread.mask & warp.live;
    if ((warp.arrived & lanes) != lanes) return 0;
    for_each_lane(lanes, [&](unsigned lane) { demand_convergence(thread, *warp.lanes[lane]); });
    carry_out(thread.operation, warp, lanes);
    // Of all these operations only __syncwarp orders memory.
    if constexpr (CHECKING) {
        if (thread.operation == WarpOperation::sync) checker::synchronize_lanes(warp, lanes);
    }
    warp.arrived &= ~lanes;
    made_progress();
    return lanes;
}

}  // namespace

uint64_t warp_operation(WarpOperation operation, unsigned mask, uint64_t value, int source, Where where) {
    Thread& thread = *running();
    Warp& warp = *thread.warp;
    park(name_of(operation), where);
    if (!(mask >> thread.lane & 1)) {
        fail("%s at %s: the calling lane %u is not in its mask %08x", thread.doing, describe(where).c_str(),
             thread.lane, mask);
    }
    thread.mask = mask;
    thread.operation = operation;
    thread.value = value;
    thread.source = source;
    warp.arrived |= 1u << thread.lane;
    if (unsigned lanes = complete(thread)) {
        // The last to come goes on at once, or, in random schedules, queues like the others.
        const bool stay = !execution.random() || one_in(2);
        if (stay) lanes &= ~(1u << thread.lane);
        for_each_lane(lanes, [&](unsigned lane) { make_runnable(*warp.lanes[lane]); });
        if (stay) {
            thread.parked = false;
            return thread.result;
        }
    }
    run_another();
    return thread.result;
}

void leave_warp(Thread& thread) {
    Warp& warp = *thread.warp;
    warp.live &= ~(1u << thread.lane);
    // Lanes that waited for this one wait for one less.
    for_each_lane(warp.arrived, [&](unsigned lane) {
        if (!(warp.arrived >> lane & 1)) return;
        for_each_lane(complete(*warp.lanes[lane]), [&](unsigned done) { make_runnable(*warp.lanes[done]); });
    });
}

// Lanes that do not wait for others; in random schedules the answer may be the caller alone, as after a divergence.
unsigned active_lanes() {
    const Thread& thread = *running();
    if (execution.random() && one_in(2)) return 1u << thread.lane;
    return thread.warp->live & ~thread.warp->arrived;
}

}  // namespace cuda_on_cpu
