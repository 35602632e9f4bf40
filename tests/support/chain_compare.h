/* The members of a chain against each other, from outside: what each says of itself at one position, and what
 * it and its Redis hold. While nobody writes, so that they come to stand still. One thread. */
#ifndef MOB_TESTS_SUPPORT_CHAIN_COMPARE_H
#define MOB_TESTS_SUPPORT_CHAIN_COMPARE_H

#include "tests/support/chain_box.h"

struct chain_compared {
    uint64_t applied, flushed, blocks; /* of each of them */
    char wrong[160]; /* the first difference; "" = none */
};

/* Waits until all of a whole chain stand at one position. Equal are: digests of history and tables, up to
 * where blocks are flushed, and each block that is left: its position, its bytes, and that the Redis has it
 * and no other. Not in time: that is what is wrong. */
struct chain_compared chain_compare(struct chain_box *box, int64_t deadline_ns);

#endif
