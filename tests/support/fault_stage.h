/* A chain as processes under clients whose histories are checked (gcs_load.h), for one named fault a run:
 * what ends starts again, and at the end all is whole and as it was told. For tests that use cmocka; each
 * function fails the test. One thread; one stage at a time.
 *
 *   stage_open(&s, fault, seed);   fault->run(&s);   stage_close(&s);
 */
#ifndef MOB_TESTS_SUPPORT_FAULT_STAGE_H
#define MOB_TESTS_SUPPORT_FAULT_STAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/clock.h"
#include "tests/support/chain_box.h"
#include "tests/support/flush_box.h"
#include "tests/support/gcs_load.h"
#include "tests/support/pg_box.h"

#define PATIENCE_NS (100 * MOB_SEC)
#define STEPS 20u

struct stage;
struct fault {
    const char *name;
    void (*run)(struct stage *s);
    /* A failpoint of the first life of the head, or of the tail, and up to which passage. */
    const char *head_point, *tail_point;
    uint32_t passages;
    uint32_t members;
    uint32_t window; /* of blocks; 0: 16 */
    bool proxied, flushed, short_set;
    bool some_over_tcp; /* with every third seed, from 1 on, links of members and masters are TCP */
    bool postgres; /* masters have their table there; else with even seeds, where there is one, and in a file
                    */
    bool large; /* no cap of memory is met */
};
struct stage {
    const struct fault *fault;
    uint64_t seed;
    struct chain_box box;
    struct gcs_load load;
    struct fault_proxy *proxy;
    bool postgres, over_tcp;
    struct pg_box pg;
    pid_t flusher; /* 0: none */
    bool hold; /* what ended stays so */
    pid_t seen[CHAIN_BOX_MEMBERS_MAX];
    uint32_t deaths; /* of members */
};

/* By a seed: which of two. Not the same as whether there is a PostgreSQL. */
static inline bool stage_draw(const struct stage *s)
{
    return s->seed / 2 % 2 == 0;
}

void stage_open(struct stage *s, const struct fault *fault, uint64_t seed);
/* Without faults: whole again, every history right, everything there. */
void stage_close(struct stage *s);

void stage_failed(struct stage *s, const char *what);
void stage_good(struct stage *s); /* fails when something went wrong under the load */
/* STEPS of each client; under load for up to `ns`, by the seed; under load until a condition holds. */
void stage_steps(struct stage *s);
void stage_pause_up_to(struct stage *s, int64_t ns);
void stage_until(struct stage *s, bool (*holds)(struct stage *s), const char *what);
bool stage_is_whole(struct stage *s);
bool stage_has_died(struct stage *s);
void stage_whole_again(struct stage *s);
int stage_slot_at(struct stage *s, bool tail);
void stage_end_member(struct stage *s, int slot);
void stage_end_redis(struct stage *s, int slot); /* its file stays */
int64_t stage_seconds(const char *variable, int64_t otherwise); /* ns */
/* While nothing can be decided: a request waits, its caller's deadline is kept, and who closes its client is
 * told that it was not answered. */
void stage_asks_in_vain(struct stage *s);
/* While no member is there: that, and all clients that were linked are told so, as is who asks a member. */
void stage_nobody_is_there(struct stage *s);
/* Of everything that is durable, at once; stage_close waits until all is in the database. */
void stage_start_flusher(struct stage *s);
/* What a serving member says of itself; false: it does not answer. */
bool stage_stats(struct stage *s, int slot, struct mob_gcs_stats *out);
/* Digests, blocks and Redis of all members, at one position. */
void stage_compare_members(struct stage *s);

uint32_t stage_lines_with(const char *path, const char *text);

#endif
