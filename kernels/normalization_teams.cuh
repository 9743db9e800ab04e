// Teams of blocks that draw the bundles which they work on.
//
// The blocks that have the pieces of the same bundles are a team. Where bundles are dealt out evenly, some teams of an
// H200 are done 5 % before others: 8 teams that share 4096 groups of 65536 floats after 527 to 554 us. So a team draws
// DRAWN neighbouring bundles at a time. Its first block takes the ticket and tells the others, half a batch before they
// are through with the last one; in each block a loader tells the other warps.
//
// Progress. The first block tells of a batch when its loads of half a batch before are under way. For these it waits at
// most for bundles that are a ring older, of which all blocks were told by then.
//
// What is told of a batch must not be overwritten before all blocks of the team have read it. As two of them are at
// most two rings of units apart (normalization_ring.cuh), TOLD batches are enough; for a block, whose warps are at most
// one ring apart, KNOWN.
//
// Constants that the plan sets, beside those of normalization_ring.cuh:
//     DRAWN       bundles of a batch, a power of two from 4 on; 0: they are dealt out evenly
#pragma once

#include "normalization_ring.cuh"

constexpr int KNOWN = 8, TOLD = 16, BATCH = DRAWN > 0 ? DRAWN : 4;

static_assert(BATCH >= 4 && KNOWN * BATCH >= STAGES / PIECE + HELD + 2 * BATCH, "between two warps of a block");
static_assert(TOLD * BATCH >= 2 * (STAGES / PIECE + HELD + BATCH), "between two blocks of a team");

struct Batch {
    Gate known;
    Index first;  // of its bundles; all of them exist, or from one on none
};

struct Team {
    const Cut& cut;
    Batch (&batches)[KNOWN];
    Word* tickets;  // the next one, and a sector further what each team was told
    unsigned epoch;
    Index bundles, teams, number, piece;

    __device__ Team(const Cut& cut, Batch (&batches)[KNOWN], Word* tickets, unsigned epoch)
        : cut(cut), batches(batches), tickets(tickets), epoch(epoch), bundles(cut.bundles) {
        const Index block = static_cast<Index>(blockIdx.x);
        teams = static_cast<Index>(gridDim.x) / cut.pieces;
        number = block / cut.pieces, piece = block - number * cut.pieces;
    }

    // Where the slots of the sums begin.
    __device__ Word* slots() const { return DRAWN > 0 ? tickets + SECTOR + teams * TOLD : tickets; }

    __device__ Word* told(int batch) const { return tickets + SECTOR + number * TOLD + batch % TOLD; }
    __device__ unsigned epoch_of(int batch) const { return epoch + static_cast<unsigned>(batch / TOLD); }

    __device__ void learn(int batch, Index ticket) const {
        batches[batch % KNOWN].first = ticket < bundles / BATCH + 1 ? ticket * BATCH : bundles;
        batches[batch % KNOWN].known.arrive();
    }

    // By one thread of each block. The first batch is that of the team's number. Tickets that an earlier launch left
    // have another epoch: usually a smaller one, but epochs start again some day.
    __device__ void draw_first() const {
        if (piece == 0) begin_tickets();
        learn(0, number);
    }

    // By the first thread that comes.
    __device__ void begin_tickets() const {
        for (Word seen = load_relaxed(tickets); seen >> 32 != epoch;) {
            const Word found = atomicCAS(tickets, seen, static_cast<Word>(epoch) << 32);
            if (found == seen) return;
            seen = found;
        }
    }
};

// What comes after the first batch, by the thread of a block that learns it.
struct Draws {
    const Team& team;
    Word seen;

    __device__ explicit Draws(const Team& team) : team(team), seen(0) {}

    // When the loads of this turn are under way. Answers are used turns after they were asked for.
    __device__ void after(int turn) {
        const int place = turn % BATCH, next = turn / BATCH + 1;
        const Word told = static_cast<Word>(team.epoch_of(next)) << 32;
        if (team.piece == 0) {
            if (place == 0) seen = atomicAdd(team.tickets, Word(1));
            if (place == BATCH / 2) {
                const unsigned ticket = static_cast<unsigned>(seen) + static_cast<unsigned>(team.teams);
                store_relaxed(team.told(next), told | ticket);
                team.learn(next, static_cast<Index>(ticket));
            }
        } else {
            if (place == BATCH * 3 / 4) seen = load_relaxed(team.told(next));
            if (place == BATCH - 1) {
                while (seen >> 32 != told >> 32) seen = load_relaxed(team.told(next));
                team.learn(next, static_cast<Index>(static_cast<unsigned>(seen)));
            }
        }
    }
};

// The pieces of a block, one after the other. A batch that is not whole is the last.
struct DrawnTurn {
    const Team* team;
    int number;
    Index bundle, piece;

    __device__ explicit DrawnTurn(const Team& team) : team(&team), number(0), piece(team.piece) { find(); }
    __device__ bool exists() const { return bundle < team->bundles; }
    __device__ void move(int turns) {
        for (int i = 0; i < turns && exists(); i++) number++, find();
    }
    __device__ int visit(int i) const { return number * PIECE + i; }

    // A slot is used again by its own team alone.
    __device__ Slot slot(const Work& work) const {
        const Index slots = team->cut.slots, round = number / slots;
        return work.slot(team->number * slots + number - round * slots, round);
    }

private:
    __device__ void find() {
        Batch& batch = team->batches[number / BATCH % KNOWN];
        batch.known.wait(number / BATCH / KNOWN);
        bundle = batch.first + number % BATCH;
    }
};

// The same of what is dealt out evenly.
struct DealtTurn : Turn {
    __device__ explicit DealtTurn(const Team& team) : Turn(team.cut) {}
    __device__ void move(int turns) {
        for (int i = 0; i < turns; i++) advance();
    }
    __device__ Slot slot(const Work& work) const { return work.slot(bundle); }
};

using TurnOf = Select<(DRAWN > 0), DrawnTurn, DealtTurn>::type;
