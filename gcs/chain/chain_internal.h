/* The parts of the machine. Internal to gcs/chain.
 *
 *   chain.c          life, figures, loading, the ring of kept entries
 *   chain_marks.c    digests at the newest positions
 *   chain_actions.c  what is to be done, read off the positions in the ring
 *   chain_config.c   configurations and states
 *   chain_put.c      clients' requests at the head, reads
 *   chain_replies.c  what is kept of them for who asks twice
 *   chain_link.c     predecessor and successor
 *   chain_join.c     a new member takes the state of the tail
 *   chain_rows.c     rows of a snapshot
 *   chain_ops.c      meaning of the operations
 *   chain_collect.c  after everything died
 *
 * Entries, and what remains to be done for each, are positions in one ring: an action is made when it is
 * asked for, so nothing is queued without a bound.
 */
#ifndef MOB_GCS_CHAIN_CHAIN_INTERNAL_H
#define MOB_GCS_CHAIN_CHAIN_INTERNAL_H

#include <string.h>

#include "common/base/log.h"
#include "gcs/chain/chain.h"
#include "gcs/chain/chain_clients.h"
#include "gcs/chain/chain_rules.h"

/* An id of a client is the epoch and seq of its OPEN, cut to 63 bits; incarnations are numbered on, from a
 * base that grows with the epoch. */
#define MOB_CHAIN_CLIENT_SEQ_BITS 40u
#define MOB_CHAIN_LATE_MAX 64u

/* Single answers and messages of one event; drained before the next. */
#define MOB_CHAIN_POINTS_MAX 16u

struct mob_chain_point {
    struct mob_chain_action action;
    struct mob_gcs_link_msg message;
};

/* A request that waits for the end of collecting. */
struct mob_chain_collected {
    struct mob_chain_put put;
    uint64_t arrival;
    uint64_t before; /* at or before this old seq; UINT64_MAX: nobody knows */
};

/* A loss that is named when collecting ends, behind the old entries. */
struct mob_chain_loss {
    uint64_t seal; /* a log, or 0 */
    uint64_t expire; /* another client, or 0 */
    char text[256];
};

/* A log that the master knows to be sealed. */
struct mob_chain_seal {
    uint64_t incarnation, cut;
};

/* "You are expired" is said of a client only when that is committed: a head that was evicted may have sealed
 * it in a history that never was. */
#define MOB_CHAIN_NOTICES_MAX 64u
struct mob_chain_notice {
    uint64_t client, gate;
    struct mob_gcs_reply reply;
};

/* Rings by count. */
struct mob_chain_mark_rings {
    uint64_t each_end, far_end;
    struct mob_gcs_mark each[MOB_CHAIN_MARKS_EACH], far[MOB_CHAIN_MARKS_FAR];
};

struct mob_chain_cursor {
    uint8_t bytes[MOB_CHAIN_CURSOR_MAX];
    uint32_t length;
};

/* This member gives its state to a joiner. */
struct mob_chain_source {
    uint64_t joiner, token; /* joiner 0: nobody */
    uint64_t begin_seq, begin_digest; /* where the snapshot begins */
    uint64_t begin_bytes; /* `ever_bytes` there */
    uint64_t replay_seq; /* applied when the log began to be sent */
    int64_t moved_ns; /* when it last came nearer to a place: `ready` grew, or `acked` while that is 0 */
    uint64_t acked; /* applied at the joiner; begin_seq while it takes the snapshot */
    uint64_t ready; /* in the joiner's store, + 1; 0 until the snapshot is on its disk */
    bool replays;
    uint64_t log_at; /* next ordinal to send */
    int64_t heard_ns, said_ns; /* of the joiner; how far the log goes, to it */
    uint64_t batch; /* under way at the owner */
    bool owner_busy;
    int64_t begun_ns;
    uint64_t given_at; /* what was applied when the last batch left */
    int64_t rest_until_ns;
    struct mob_chain_cursor cursor; /* of the batch that was asked for last */
    uint64_t waiting; /* that batch, until the end of the rest; 0: it does not wait */
    uint32_t window; /* entries of the log on their way */
    uint64_t lag_then; /* what the joiner lacked when it was told last how far the log goes */
};

/* This member joins. */
struct mob_chain_joiner {
    uint64_t source, token;
    bool wanted; /* by the master */
    bool replays; /* the snapshot is complete */
    uint64_t batch;
    uint64_t begin_seq, begin_digest;
    bool begun;
    int64_t heard_ns; /* when the source last answered, moved by this member's own pauses */
    int64_t looked_ns; /* when this member last looked whether it had */
    int64_t ask_ns, ask_pause_ns; /* not again before; 0 = as often as anything is sent again */
    struct mob_chain_cursor cursor;
};

struct mob_chain {
    struct mob_chain_options options;
    struct mob_chain_clients clients;
    struct mob_gcs_config config;
    uint64_t part_epoch; /* the newest in which the loaded store was synced */
    uint32_t place; /* in config.members, when the state says that it is there */
    enum mob_chain_state state;
    enum mob_chain_failure failure;
    bool synced;
    int64_t now_ns, lease_until_ns;

    uint64_t applied, committed, duplicates, digest;
    uint64_t stored, disk; /* this member's own store and disk */
    uint64_t above; /* on the disks of all members before this one */
    uint64_t durable; /* of the whole chain */
    uint64_t memory; /* that this member holds, says its owner */

    /* Kept entries, oldest first: ordinals [first, end). The others lie between. */
    struct mob_chain_entry *ring;
    size_t capacity;
    uint64_t first, end;
    uint64_t kept_bytes; /* of their bodies */
    uint64_t ever_bytes; /* of the bodies of all that were ever kept */
    uint64_t store_at, reply_at, forward_at;
    uint64_t base_seq, base_digest; /* of the entry before ring[first] */
    bool void_ring; /* all of it is to be released */

    struct {
        bool open; /* it has said SYNC under this epoch */
        bool told_end; /* SYNCEND was sent */
        uint64_t told_durable;
        uint64_t seen_committed; /* at the last tick */
        uint32_t quiet; /* ticks since it was told what is on the disks */
        int64_t paced_until_ns; /* it has said that clients are to wait */
        uint64_t memory; /* of the fullest from it on, as it said last; 0: it has not yet */
    } successor;
    struct {
        uint64_t committed, durable; /* told by ACK */
        bool asked; /* RESEND or SYNC was sent since the last progress */
        bool again; /* the predecessor has missed an ACK */
        bool told_paced;
    } predecessor;
    int64_t retry_ns;
    struct mob_chain_source source;
    bool hurries; /* the last joiner was given up, and none has served since: the next is given all of the
                     time */
    struct mob_chain_joiner join;

    struct mob_chain_point points[MOB_CHAIN_POINTS_MAX];
    uint32_t point_count, point_next;
    struct mob_chain_notice notices[MOB_CHAIN_NOTICES_MAX]; /* a ring by count, gates only grow */
    uint32_t notice_first, notice_end;
    struct mob_chain_mark_rings marks;
    struct mob_gcs_link_msg out; /* of the last SEND of an entry */
    uint8_t *rows; /* of a SNAPSHOT under way, MOB_CHAIN_SNAPSHOT_MAX + a cursor */

    bool collecting;
    uint64_t late[MOB_CHAIN_LATE_MAX]; /* named as lost when they came; a ring, so that it is said once */
    uint32_t late_count;
    uint64_t history;
    uint64_t start_end; /* what the last collecting has made ends here */
    struct mob_chain_collected *collected;
    size_t collected_count, collected_capacity;
    struct mob_chain_loss *losses;
    size_t loss_count;
    struct mob_chain_seal *seals;
    size_t seal_count;
    void **dropped; /* holds of collected requests that nobody wants */
    size_t dropped_count;
};

static inline struct mob_chain_entry *mob_chain_at(const struct mob_chain *c, uint64_t ordinal)
{
    return &c->ring[ordinal & (c->capacity - 1)];
}
static inline uint64_t mob_chain_seq_before(const struct mob_chain *c, uint64_t ordinal)
{
    return ordinal == c->first ? c->base_seq : mob_chain_at(c, ordinal - 1)->seq;
}
static inline uint64_t mob_chain_digest_before(const struct mob_chain *c, uint64_t ordinal)
{
    return ordinal == c->first ? c->base_digest : mob_chain_at(c, ordinal - 1)->digest;
}
static inline bool mob_chain_in_config(const struct mob_chain *c)
{
    return c->state == MOB_CHAIN_SYNCING || c->state == MOB_CHAIN_SERVING || c->state == MOB_CHAIN_COLLECTING;
}
static inline bool mob_chain_last(const struct mob_chain *c)
{
    return c->place + 1 == c->config.count;
}
/* 0: none. */
static inline uint64_t mob_chain_predecessor(const struct mob_chain *c)
{
    return mob_chain_in_config(c) && c->place > 0 ? c->config.members[c->place - 1] : 0;
}
static inline uint64_t mob_chain_successor(const struct mob_chain *c)
{
    return mob_chain_in_config(c) && !mob_chain_last(c) ? c->config.members[c->place + 1] : 0;
}

/* ---- chain.c ---- */
/* Appends an entry with its effect applied. `seq` is above applied. Takes entry->hold and drops on MOB_OK. */
MOB_MUST_USE enum mob_status mob_chain_append(
    struct mob_chain *c, const struct mob_chain_entry *entry, uint64_t seq);
struct mob_chain_entry *mob_chain_find(const struct mob_chain *c, uint64_t seq);
/* Ordinal of the first kept entry above seq. */
uint64_t mob_chain_ordinal_above(const struct mob_chain *c, uint64_t seq);
/* Forgets tables and entries; the holds are given back by the next actions. */
void mob_chain_forget(struct mob_chain *c);

/* ---- chain_marks.c ---- */
/* The entry at `applied` has just been applied. */
void mob_chain_mark(struct mob_chain *c);
/* What is applied does not follow from what was: nothing that was noted is said any more. */
void mob_chain_marks_clear(struct mob_chain *c);

/* ---- chain_actions.c ---- */
/* One action of this event; `message` may be NULL. */
void mob_chain_point(
    struct mob_chain *c, const struct mob_chain_action *action, const struct mob_gcs_link_msg *message);
void mob_chain_answer(
    struct mob_chain *c, enum mob_chain_action_type type, uint64_t client, const struct mob_gcs_reply *reply);
/* Sends `message`, with epoch, from and the type filled in. */
void mob_chain_send(struct mob_chain *c, uint64_t to, uint8_t type, const struct mob_gcs_link_msg *message);

/* ---- chain_config.c ---- */
void mob_chain_set_state(struct mob_chain *c, enum mob_chain_state state);
/* This member cannot go on. */
void mob_chain_fail(struct mob_chain *c, enum mob_chain_failure why);

/* ---- chain_link.c ---- */
/* What follows from new positions: commits as the tail, and what is durable. */
void mob_chain_settle(struct mob_chain *c);
void mob_chain_ask_sync(struct mob_chain *c);
MOB_MUST_USE enum mob_status mob_chain_take_entry(
    struct mob_chain *c, const struct mob_gcs_link_msg *m, void *hold);

/* ---- chain_join.c ---- */
void mob_chain_join_begin(struct mob_chain *c);
void mob_chain_join_tick(struct mob_chain *c);
void mob_chain_source_rested(struct mob_chain *c); /* each turn: is a batch's time there? */
MOB_MUST_USE enum mob_status mob_chain_join_message(
    struct mob_chain *c, const struct mob_gcs_link_msg *m, void *hold);
void mob_chain_source_end(struct mob_chain *c);

/* ---- chain_pace.c ---- */
/* The source gives the next batch so much later. */
int64_t mob_chain_rest(const struct mob_chain *c);
void mob_chain_pace_heard(struct mob_chain *c, bool paced); /* of the successor */

/* ---- chain_ops.c ---- */
/* Fills status, version, number, next and drops of `entry` from the request and the tables: nothing is
 * changed. */
MOB_MUST_USE enum mob_status mob_chain_resolve(
    struct mob_chain *c, const struct mob_chain_put *put, uint64_t seq, struct mob_chain_entry *entry);
/* Changes the tables as `entry` says; MOB_NO_MEMORY or MOB_GCS_FULL change nothing. */
MOB_MUST_USE enum mob_status mob_chain_apply(struct mob_chain *c, const struct mob_chain_entry *entry);
/* What a LOSS entry says of a log or a client that lacks its request `next` and those behind it: how many, or
 * NULL when nobody knows. A client's id is in hexadecimal digits, as logs have it: it is above all integers
 * that readers of JSON take. */
#define MOB_CHAIN_LOSS_TEXT_MAX 256
void mob_chain_loss_text(uint64_t client, uint64_t next, const uint64_t *missing, int64_t wall_ns,
    char out[MOB_CHAIN_LOSS_TEXT_MAX]);
/* A LOSS entry at `seq`: text says what may be missing. `skip` or NULL: a client goes on behind a hole. */
struct mob_chain_skip {
    uint64_t client, last;
};
MOB_MUST_USE enum mob_status mob_chain_append_loss(
    struct mob_chain *c, uint64_t seq, const char *text, const struct mob_chain_skip *skip);

/* ---- chain_put.c ---- */
/* put's request becomes the next entry at seq. */
MOB_MUST_USE enum mob_status mob_chain_accept(
    struct mob_chain *c, const struct mob_chain_put *put, uint64_t seq);

/* ---- chain_collect.c ---- */
/* A LOSS entry with `text` and, unless `seal` is 0, the sealing of that log: now, or when collecting ends. */
MOB_MUST_USE enum mob_status mob_chain_name_loss(
    struct mob_chain *c, const char *text, uint64_t seal, const struct mob_chain_skip *skip);
MOB_MUST_USE enum mob_status mob_chain_collect(
    struct mob_chain *c, struct mob_chain_client *client, const struct mob_chain_put *put);
/* A client whose OPEN is among what was lost; NULL: it never was. */
struct mob_chain_client *mob_chain_collect_open(struct mob_chain *c, uint64_t client);
void mob_chain_collect_fini(struct mob_chain *c);

#endif
