/* How a tail that is the source of a join shares its time between the joiner and the clients. */
#include "gcs/chain/chain_internal.h"

#define REST_ENTRIES_MAX (MOB_CHAIN_ENTRIES_MAX / 2) /* of the log: from half of them on it does not rest */
#define REST_LASTS_NS (5 * 1000000000ll) /* a log that is so long sooner leaves no time for rests */
#define FIRST_PART 512 /* of what may be kept for a joiner is free from its beginning */
#define PART_BITS 16 /* of the fractions here */
#define LAG_FREE 64 /* entries that a joiner may lack and nobody waits; fewer than the master wants */
#define MOVES_NS (50 * 1000000ll) /* a joiner that takes nothing of its log for so long holds nobody up */
#define HEARD_TICKS 5 /* for so long holds what a successor says */

/* ---- between batches ---- */

/* The log since the snapshot began grows so that it would be too much before most snapshots end. */
static bool log_grows_fast(const struct mob_chain *c)
{
    int64_t grown = (int64_t)(c->applied - c->source.begin_seq);
    return grown * (REST_LASTS_NS / REST_ENTRIES_MAX) > c->now_ns - c->source.begun_ns;
}

/* Where nobody writes there is nobody to wait for; and a joiner that has to begin anew is worse for who
 * writes than one batch after the other. */
int64_t mob_chain_rest(const struct mob_chain *c)
{
    if (c->applied == c->source.given_at || c->hurries || log_grows_fast(c))
        return 0;
    uint64_t kept = 1000 * mob_chain_entries(c) / REST_ENTRIES_MAX;
    uint64_t bytes = c->options.kept_bytes_max == 0 ? 0 : 1000 * c->kept_bytes / c->options.kept_bytes_max;
    uint64_t most = kept > bytes ? kept : bytes;
    return most >= 500 ? 0 : c->options.join_rest_ns * (int64_t)(500 - most) / 500;
}

/* ---- clients ---- */

/* Of `most`, at a time of the snapshot: it is never reached, so whoever writes is never stopped, only slower
 * the longer it takes. How long it will take nobody knows. */
static uint64_t free_after(uint64_t most, int64_t ns, int64_t half_ns)
{
    uint64_t us = (uint64_t)ns / 1000, half_us = (uint64_t)half_ns / 1000;
    uint64_t part = (us << PART_BITS) / (us + half_us);
    return most / FIRST_PART + ((most * part) >> PART_BITS);
}

/* Only what has come since the snapshot began is kept for the joiner. Of the room for bodies one half is for
 * what waits for this member's own disk. */
static bool log_is_ahead(const struct mob_chain *c)
{
    const struct mob_chain_source *s = &c->source;
    int64_t ns = c->now_ns - s->begun_ns, half_ns = c->options.join_pace_ns;
    uint64_t most = c->options.join_log_max == 0 ? MOB_CHAIN_JOIN_LOG_MAX : c->options.join_log_max;
    bool many = c->applied - s->begin_seq > free_after(most, ns, half_ns);
    uint64_t bytes_max = c->options.kept_bytes_max / 2;
    return many || (bytes_max > 0 && c->ever_bytes - s->begin_bytes > free_after(bytes_max, ns, half_ns));
}

/* One request for two entries that the joiner takes: so the log that it lacks becomes half as long in the
 * time that it needs for all of it, however slow it is. At the end it lacks so little that the master appends
 * it. One that is there and takes nothing, since it does not hear, say, is no reason to stop anybody. */
static bool joiner_is_behind(const struct mob_chain *c)
{
    const struct mob_chain_source *s = &c->source;
    bool told = s->ready > 0 && s->ready <= c->applied + 1;
    uint64_t lag = told ? c->applied + 1 - s->ready : c->applied - s->acked;
    uint64_t come = c->applied - s->replay_seq, taken = s->acked - s->begin_seq;
    bool moves = c->now_ns - s->moved_ns < MOVES_NS;
    return moves && lag >= LAG_FREE && come > taken / 2 + LAG_FREE;
}

static bool source_paces(const struct mob_chain *c)
{
    if (c->source.joiner == 0 || c->options.join_pace_ns == 0 || !mob_chain_is_tail(c))
        return false;
    return c->source.replays ? joiner_is_behind(c) : log_is_ahead(c);
}

void mob_chain_pace_heard(struct mob_chain *c, bool paced)
{
    c->successor.paced_until_ns = paced ? c->now_ns + HEARD_TICKS * c->options.resend_ns : 0;
}

bool mob_chain_paced(const struct mob_chain *c)
{
    return source_paces(c) || c->now_ns < c->successor.paced_until_ns;
}
