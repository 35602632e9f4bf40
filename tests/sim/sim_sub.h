/* Streams of committed blocks, at both ends: sim_sub.c. Part of the simulator (sim_world.h). */
#ifndef MOB_TESTS_SIM_SIM_SUB_H
#define MOB_TESTS_SIM_SIM_SUB_H

#include "tests/sim/sim_member.h"

/* One subscription of a client. Each attempt has a tag of its own, and what does not come in the order in
 * which it was sent breaks it, like a link. */
struct sim_sub {
    bool on, of_flusher;
    uint64_t tag, after, epoch, got; /* got: frames of this attempt */
    uint8_t at; /* node that served it last */
    int64_t heard_at;
    struct sim_block *blocks; /* that it gave, but what was said to be void since */
    size_t count, capacity;
    struct sim_hole { /* (after, next) was said to be missing */
        uint64_t after, next;
    } * holes;
    size_t hole_count, hole_capacity;
};
struct sim_client;
void sim_sub_start(struct sim *s, struct sim_client *c, struct sim_sub *sub, uint64_t after);
void sim_sub_stop(struct sim_sub *sub);
void sim_sub_tick(struct sim *s, struct sim_client *c, struct sim_sub *sub);
void sim_sub_config(struct sim *s, struct sim_client *c, struct sim_sub *sub);
/* BLOCK or RESYNC. True: it was taken, and is the next of the stream. */
bool sim_sub_message(struct sim *s, struct sim_client *c, struct sim_sub *sub, const struct sim_msg *msg);
/* All that was committed and is not named as missing has been seen, as it is. */
void sim_sub_check(struct sim *s, const struct sim_sub *sub, const struct sim_member *head);
/* It has all that this member has. */
bool sim_sub_is_whole(const struct sim_sub *sub, const struct sim_member *head);
void sim_owner_subscribe(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
void sim_owner_feed(struct sim *s, struct sim_member *m);
void sim_owner_stats(struct sim *s, struct sim_member *m, const struct sim_msg *msg);
/* After collecting: the history is that of before only up to there. */
void sim_owner_add_base(struct sim *s, struct sim_member *m);

#endif
