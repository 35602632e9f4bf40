/* What a sibling's spec has of its own, and how that is put into the head that it shares with the others. */
#ifndef MOB_COMMON_WIRE_SIBLING_H
#define MOB_COMMON_WIRE_SIBLING_H

#include <stddef.h>
#include <string.h>

#include "common/wire/spec.h"

/* One whose tail is a word (mob_spec_tail_is_word), as it comes in a ring: a body of MOB_OUT_SIBLING. */
struct mob_sibling_word {
    int64_t submitted_ns;
    uint32_t index, caller_seq;
    uint64_t tail[MOB_SPEC_WORD_TAIL / sizeof(uint64_t)];
};
_Static_assert(sizeof(struct mob_sibling_word) == 40, "layout of siblings");

/* Both are stored with the other half of their word: heads are read by words soon after, and a word whose
 * halves came by two stores cannot be read before both have left the processor's queue of stores. */
static inline void mob_sibling_head(struct mob_spec_head *head, uint32_t index, uint32_t caller_seq)
{
    enum {
        INDEX_WORD = offsetof(struct mob_spec_head, task.index) - 4,
        SEQ_WORD = offsetof(struct mob_spec_head, caller_seq)
    };
    uint8_t *bytes = (uint8_t *)head;
    uint64_t word;
    memcpy(&word, bytes + INDEX_WORD, sizeof word);
    word = (word & UINT32_MAX) | (uint64_t)index << 32;
    __asm__("" : "+r"(word)); /* whole: a compiler sees that only one half changes */
    memcpy(bytes + INDEX_WORD, &word, sizeof word);
    word = caller_seq; /* `reserved`, which is zero, is the other half */
    memcpy(bytes + SEQ_WORD, &word, sizeof word);
}
_Static_assert(offsetof(struct mob_spec_head, task.index) == 20 &&
        offsetof(struct mob_spec_head, reserved) == offsetof(struct mob_spec_head, caller_seq) + 4 &&
        __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
    "mob_sibling_head knows the layout");

#endif
