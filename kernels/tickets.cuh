// How the blocks of a launch share work that comes in an order: tickets, epochs and published aggregates.
//
// Scratch memory holds a word with the next ticket and the number of launches so far, then aggregates that blocks
// publish for one another, 32 bits of value in each word. Every word carries the epoch of its launch, or has a highest
// bit that no epoch has: what an earlier launch left, of whatever kernel, is not taken for a value, and nothing has to
// be cleared. The block that takes the very last ticket sets the first word up for the next launch.
//
// Whoever waits for an aggregate waits for a smaller ticket, which a block took that runs already: so blocks need not
// start in order, nor all at once.
#pragma once

#include "intrinsics.cuh"
#include "layout.cuh"
#include "warp.cuh"

using Word = unsigned long long;

template <typename Item> constexpr int words_of = (sizeof(Item) + 3) / 4;

// Words of what memory moves at least. Aggregates of which warps read many side by side begin one behind the control
// word.
constexpr int SECTOR = 4;

// Epochs are smaller, and start again.
constexpr unsigned NO_EPOCH = 0x80000000u;

__device__ inline Word word_of(unsigned upper, unsigned lower) { return static_cast<Word>(upper) << 32 | lower; }
__device__ inline unsigned upper_half(Word word) { return static_cast<unsigned>(word >> 32); }

template <typename Item> struct TicketsFor {
    Word* control;
    Word first;  // what this block's first ticket came with
    Index count;

    __device__ static Word take_first(Word* control) { return atomicAdd(control, Word(1)); }

    __device__ Index of_block() const { return static_cast<Index>(static_cast<unsigned>(first)); }

    // Tickets from `count` on mean that there is no more work.
    __device__ Index next() const {
        return static_cast<Index>(static_cast<unsigned>(atomicAdd(control, Word(1))));
    }

    // Never 0, which scratch is filled with at first.
    __device__ unsigned epoch() const { return static_cast<unsigned>(first >> 32) + 1; }

    // Everybody, usually every block, takes one ticket that there is no work for. Whoever takes the last of these is
    // the last to take any.
    __device__ void prepare_next_launch(Index ticket, Index takers = static_cast<Index>(gridDim.x)) const {
        if (ticket != count + takers - 1) return;
        const unsigned launches = epoch() == NO_EPOCH - 1 ? 0 : epoch();
        store_relaxed(control, static_cast<Word>(launches) << 32);
    }

    // Where aggregate number `i` is published.
    __device__ Word* published(Index i) const { return control + 1 + i * words_of<Item>; }
};

template <typename Item> union ItemWords {
    Item item;
    unsigned word[words_of<Item>];
    __device__ ItemWords() {}
};

// The words of an item lie `apart` from one another.
template <typename Item> __device__ void publish(Word* to, Item item, unsigned epoch, Index apart = 1) {
    ItemWords<Item> words;
    words.item = item;
#pragma unroll
    for (int w = 0; w < words_of<Item>; w++) {
        store_relaxed(to + w * apart, static_cast<Word>(epoch) << 32 | words.word[w]);
    }
}

// Waits for what was published at each of the places, of which some may be null, and stand for `nothing`.
template <int COUNT, typename Item>
__device__ void await(const Word* const (&from)[COUNT], Item (&item)[COUNT], unsigned epoch, Item nothing) {
    constexpr int WORDS = words_of<Item>;
    Word word[COUNT][WORDS];
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            word[i][w] = from[i] ? load_relaxed(from[i] + w) : static_cast<Word>(epoch) << 32;
        }
    }
    bool missing;
    do {
        missing = false;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
#pragma unroll
            for (int w = 0; w < WORDS; w++) {
                if (static_cast<unsigned>(word[i][w] >> 32) == epoch) continue;
                missing = true;
                word[i][w] = load_relaxed(from[i] + w);
            }
        }
    } while (__any_sync(ALL_LANES, missing));
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        ItemWords<Item> words;
#pragma unroll
        for (int w = 0; w < WORDS; w++) words.word[w] = static_cast<unsigned>(word[i][w]);
        item[i] = from[i] ? words.item : nothing;
    }
}

// The same without a branch for each word, which nearly everybody has: 262144 float32 are summed in 2.75 us on an H200,
// not 2.84, and columns of (65536, 4096) take 28 ms less to compile.
template <int COUNT, typename Item>
__device__ void await_at_once(const Word* const (&from)[COUNT], Item (&item)[COUNT], unsigned epoch, Item nothing,
                              Index apart = 1) {
    constexpr int WORDS = words_of<Item>;
    const Word published = static_cast<Word>(epoch) << 32;
    ItemWords<Item> none;
    none.item = nothing;
    Word word[COUNT][WORDS];
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
#pragma unroll
        for (int w = 0; w < WORDS; w++) word[i][w] = from[i] ? 0 : published | none.word[w];
    }
    Word others;
    do {
        others = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
#pragma unroll
            for (int w = 0; w < WORDS; w++) load_relaxed_unless(epoch, from[i] + w * apart, word[i][w]);
        }
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
#pragma unroll
            for (int w = 0; w < WORDS; w++) others |= word[i][w] ^ published;
        }
    } while (__any_sync(ALL_LANES, others >> 32 != 0));
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        ItemWords<Item> words;
#pragma unroll
        for (int w = 0; w < WORDS; w++) words.word[w] = static_cast<unsigned>(word[i][w]);
        item[i] = words.item;
    }
}

// Where so much is published that it would leave the cache, to be written to memory, before its place is used again. An
// item is published in records of three words and the epoch, each in one access of 16 bytes, of which nobody sees a
// part, and with a word of its own for what is left. Records of neighbouring items lie side by side, and so do the
// words that are left.
//
// The last word of a record would be where others look for an epoch. So its highest bit is set there, as no epoch's is,
// and kept as the highest bit of the record's epoch. Readers of records do not look at that bit: where they look, at
// the first half of 16 bytes, no record has its last word.
template <typename Item> struct Records {
    static constexpr int RECORDS = words_of<Item> / 3, LEFT = words_of<Item> % 3, ROOM = 2 * RECORDS + LEFT;
    static_assert(LEFT <= 1, "one word");

    Word* words;
    Index count;  // items, each of which takes ROOM words

    __device__ Word* record(Index item, int number = 0) const { return words + 2 * (number * count + item); }
    __device__ Word* left(Index item) const { return words + 2 * RECORDS * count + item; }

    __device__ void publish(Index number, const Item& item, unsigned epoch) const {
        ItemWords<Item> of;
        of.item = item;
#pragma unroll
        for (int r = 0; r < RECORDS; r++) {
            const unsigned *word = &of.word[3 * r], last = word[2];
            store_relaxed_whole_kept(record(number, r), word_of(epoch | (last & NO_EPOCH), word[0]),
                                     word_of(last | NO_EPOCH, word[1]));
        }
        if constexpr (LEFT) store_relaxed_kept(left(number), word_of(epoch, of.word[3 * RECORDS]));
    }

    // Waits for one record of each lane, or none: who may have to wait for long begins with this, and asks for the rest
    // then. Looking all the time would keep memory from others: (64, 256, 128, 128) float16s, normalized over 0, 2,
    // take an H200 0.292 ms so, 0.294 without a break, and 0.302 if all is asked for at once.
    __device__ void await_first(bool wanted, Index number, unsigned epoch) const {
        const Word* from = record(number);
        while (__any_sync(ALL_LANES, wanted && ((upper_half(load_relaxed(from)) ^ epoch) & ~NO_EPOCH) != 0)) {
            __nanosleep(400);
        }
    }

    // What somebody has seen of an item; at first nothing, which is of no epoch.
    struct Seen {
        Word record[RECORDS][2] = {}, left = 0;

        // Loads what is not there yet.
        __device__ void look(const Records& at, Index number, unsigned epoch) {
#pragma unroll
            for (int r = 0; r < RECORDS; r++) load_relaxed_whole_unless(epoch, at.record(number, r), record[r]);
            if constexpr (LEFT) load_relaxed_unless(epoch, at.left(number), left);
        }
        // Not 0 unless all is there.
        __device__ unsigned missing(unsigned epoch) const {
            unsigned others = 0;
#pragma unroll
            for (int r = 0; r < RECORDS; r++) others |= upper_half(record[r][0]) ^ epoch;
            return (others & ~NO_EPOCH) | (LEFT ? upper_half(left) ^ epoch : 0);
        }
        __device__ Item item() const {
            ItemWords<Item> of;
#pragma unroll
            for (int r = 0; r < RECORDS; r++) {
                of.word[3 * r] = static_cast<unsigned>(record[r][0]);
                of.word[3 * r + 1] = static_cast<unsigned>(record[r][1]);
                of.word[3 * r + 2] = (upper_half(record[r][1]) & ~NO_EPOCH) | (upper_half(record[r][0]) & NO_EPOCH);
            }
            if constexpr (LEFT) of.word[3 * RECORDS] = static_cast<unsigned>(left);
            return of.item;
        }
    };

    // All are loaded at once, and again what is not there: transposed (65536, 4096) floats, normalized over 0, take an
    // H200 0.630 ms so, and 0.640 where all was loaded again.
    template <int COUNT>
    __device__ void await(const Index (&number)[COUNT], Item (&item)[COUNT], unsigned epoch) const {
        Seen seen[COUNT];
        unsigned missing;
        do {
            missing = 0;
#pragma unroll
            for (int k = 0; k < COUNT; k++) seen[k].look(*this, number[k], epoch);
#pragma unroll
            for (int k = 0; k < COUNT; k++) missing |= seen[k].missing(epoch);
        } while (__any_sync(ALL_LANES, missing != 0));
#pragma unroll
        for (int k = 0; k < COUNT; k++) item[k] = seen[k].item();
    }
};

// The epoch of the launch, by all threads of the block, where blocks take no tickets for their work. Each takes one
// here; the last leaves the control word so that the next launch's epochs are greater than those of all turns of this.
__device__ inline unsigned begin_launch(Word* control, Index most_turns) {
    __shared__ unsigned epoch;
    if (threadIdx.x == 0) {
        const Word first = atomicAdd(control, Word(1));
        const unsigned before = static_cast<unsigned>(first >> 32), turns = static_cast<unsigned>(most_turns);
        const unsigned launches = before >= NO_EPOCH - turns ? 0 : before;  // so that no turn's epoch is NO_EPOCH
        if (static_cast<unsigned>(first) == gridDim.x - 1) {
            store_relaxed(control, static_cast<Word>(launches + turns) << 32);
        }
        epoch = launches + 1;
    }
    __syncthreads();
    return epoch;
}
