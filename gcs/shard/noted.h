/* A lone member, and a Redis that comes back without what it had (store_note.h). Nothing is there then: the
 * member does not serve, says what there was and what can be done, and ends. When an operator lets it go on
 * (gcs-start-without-all) it begins with nothing, under an epoch and behind positions that nobody has ever
 * been given, and what is lost is named: a LOSS row for all of it, and one for each client or log of before
 * that calls. Internal to gcs/shard, for the loop's thread.
 *
 * Masters know of their chains' members that they had something, so these have no note (anew.c); a lone
 * member that becomes one of a chain is looked at once more, and its note goes.
 */
#ifndef MOB_GCS_SHARD_NOTED_H
#define MOB_GCS_SHARD_NOTED_H

#include <hiredis/hiredis.h>

#include "gcs/shard/redis_keys.h"
#include "gcs/shard/store_note.h"

struct mob_shard;

/* What Redis says of itself and of what it has. */
struct redis_state {
    struct mob_redis_position position;
    struct mob_redis_meta meta;
    char run_id[MOB_REDIS_RUN_ID_BYTES];
    uint64_t flushed;
    bool has_position, has_meta;
    bool same_redis; /* the one that wrote `meta` */
    bool older; /* than what this member has had on its disk: of a backup */
};

struct mob_noted {
    struct mob_store_note *note;
    struct mob_store_facts facts; /* what the file says, if `known` */
    bool known;
    bool unreadable; /* there is one, and it is not whole */
    bool of_this_life;
    int64_t refresh_ns; /* not before */
};

/* MOB_VERSION: a later program has written the note (logged). MOB_IO, MOB_NO_MEMORY, MOB_TOO_LARGE. */
MOB_MUST_USE enum mob_status noted_open(struct mob_shard *sh);
/* Before anything is taken from a Redis that the member begins with. MOB_LOST_UNCOMMITTED: it has nothing,
 * and had something (logged, and in the note). When the operator lets it go on, Redis and `redis` have the
 * beginning of the new history. MOB_UNAVAILABLE: Redis is gone. */
MOB_MUST_USE enum mob_status noted_settle(
    struct mob_shard *sh, redisContext *context, struct redis_state *redis);
/* It is settled, and on the disk. */
MOB_MUST_USE enum mob_status noted_serves(struct mob_shard *sh);
/* Before entries up to `seq` are given to Redis: the note is on the disk, and covers them. Nearly always a
 * comparison. False: it cannot be written, and the member ends. */
bool noted_before(struct mob_shard *sh, uint64_t seq);
void noted_tick(struct mob_shard *sh); /* each second: what people are told stays young */
void noted_at_stop(struct mob_shard *sh); /* all that was stored is on the disk */
void noted_fini(struct mob_shard *sh);

#endif
