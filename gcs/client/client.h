/* Client of the control store (GCS.md): node logs, keys and values, look-ups and subscriptions.
 *
 * A `struct mob_gcs` is one client of one shard, or of all of them: then it has a client for each, with
 * connections, window and retries of its own, so that one shard's trouble is not the others'. A key goes to
 * the shard of its hash (mob_gcs_key_shard), a log to its home shard (mob_gcs_home_shard), what asks for
 * everything to all. It belongs to one thread; nothing here locks. It never
 * blocks (but see client_sync.h): the owner adds mob_gcs_fd() to its loop for EPOLLIN once, and calls
 * mob_gcs_step() when that is readable, when the time that the last step returned has come, and at the end of
 * each pass that submitted something. All callbacks run inside mob_gcs_step(), on its caller's stack, never
 * before the submitting call returned, each operation's exactly once. A callback may submit; it must not
 * destroy the client.
 *
 *   mob_gcs_create(&(struct mob_gcs_options){.socket_path = path, .cluster = id, .secret = secret}, &gcs);
 *   mob_gcs_log_open(gcs, incarnation, 0, &(struct mob_gcs_log_events){acked, released, sealed, self}, &log);
 *   block->base.bytes = ...; block->base.length = n;
 *   mob_gcs_log_append(log, &block->base);          // in order; keeps the block until released()
 *   next = mob_gcs_step(gcs, mob_now());
 *
 * Exactly once: a write carries (client, request). The client keeps each until it is durable as the member is
 * configured, reconnects with back-off for ever, and sends what is missing again under the same numbers. So a
 * write fails only with an answer (MOB_CONFLICT, MOB_SEALED, MOB_GCS_FULL, ...), never because a process in
 * between died. Limits: MOB_GCS_LOGS_MAX logs, MOB_GCS_OPS_MAX operations submitted and unanswered,
 * MOB_GCS_OPS_KEPT_MAX answered and not durable, `keep_bytes_max` of blocks.
 */
#ifndef MOB_GCS_CLIENT_CLIENT_H
#define MOB_GCS_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/base/status.h"
#include "common/wire/gcs_link.h"
#include "common/wire/gcs_msg.h"

#define MOB_GCS_LOGS_MAX 16u
#define MOB_GCS_OPS_MAX 4096u
#define MOB_GCS_OPS_KEPT_MAX (1u << 16) /* answered and not yet durable: a second of 60,000 */
#define MOB_GCS_SUBS_MAX 8u
#define MOB_GCS_KEEP_BYTES_DEFAULT (256u << 20) /* two seconds of 20,000 blocks of 6 KiB */

struct mob_gcs;
struct mob_gcs_log;
struct mob_gcs_sub;

struct mob_gcs_options {
    /* Copies. Sockets of a chain's members with commas, each of at most 107 bytes; those of several shards,
     * from the first on, with semicolons in between. */
    const char *socket_path;
    /* Every link opens with a mutual proof of these (gcs/link/opening.h): the cluster and its secret,
     * MOB_MAC_KEY_BYTES of it. Copies. */
    struct mob_cluster_id cluster;
    const uint8_t *secret;
    uint32_t shard; /* of the first */
    size_t keep_bytes_max; /* 0 = MOB_GCS_KEEP_BYTES_DEFAULT */
    /* Connection went up (MOB_OK) or down (MOB_UNAVAILABLE; MOB_UNAUTHENTICATED, MOB_DENIED, MOB_VERSION,
     * MOB_MISDIRECTED: it was refused, see mob_gcs_refusal); may be NULL. Between the two everything
     * submitted waits; nothing is lost. With several shards: all are up, or one of them is down; what the
     * others have to do goes on. */
    void (*on_link)(void *arg, enum mob_status status);
    void *arg;
    /* An epoll set of the caller's, above 0 and open for as long as the client: its sockets are in that one,
     * with `watch_data` as their data, and mob_gcs_fd gives it back. For who has many clients in one loop: a
     * set in a set costs the two ends of a link 0.25 us an answer. 0: a set of its own. */
    int watch_fd;
    uint64_t watch_data;
};

/* MOB_INVALID (path too long, no secret), MOB_NO_MEMORY, MOB_IO. Connects in the first step. Gives (free with
 * mob_gcs_destroy). */
MOB_MUST_USE enum mob_status mob_gcs_create(const struct mob_gcs_options *options, struct mob_gcs **gcs_out);
/* The end is near: what was asked and is not answered is answered now, with MOB_CLOSED, in its order (what
 * was to be changed may have been, or may be still); what is asked from here on, in the callbacks too, is
 * refused with MOB_CLOSED. Subscriptions and logs go on until the client is destroyed. Not within a callback.
 */
void mob_gcs_close(struct mob_gcs *gcs);
/* Drops what is outstanding without callbacks, except released() for each kept block. NULL is fine. */
void mob_gcs_destroy(struct mob_gcs *gcs);
/* Stable over reconnections; readable = call step. Stays the client's. */
int mob_gcs_fd(const struct mob_gcs *gcs);
/* Connects, sends, receives, calls back. `now_ns` as mob_now(). Returns when to call again at the latest. */
int64_t mob_gcs_step(struct mob_gcs *gcs, int64_t now_ns);
/* Sends what was submitted since the last step; receives nothing, and calls nobody back but on_link. Before
 * the owner sleeps. Returns when to step at the latest, instead of what the last step said: a link that ends
 * while it is written to is closed, so its descriptor says nothing any more. */
int64_t mob_gcs_send(struct mob_gcs *gcs);
/* Steps until `*done` or the deadline; yields at first, then waits in poll(): for tools and tests.
 * MOB_TIMEOUT. */
MOB_MUST_USE enum mob_status mob_gcs_run_until(struct mob_gcs *gcs, const bool *done, int64_t deadline_ns);
bool mob_gcs_connected(const struct mob_gcs *gcs);
/* Since when (a shard of) the control store has answered nothing, though a read or a change waits for it
 * (monotonic, as of the step that noticed, which comes once a second at least; an owner that did not step for
 * 5 s was stopped itself, and it begins anew); 0: nothing waits. Links may be up all the while: a member is
 * stopped, or its chain stands still. */
int64_t mob_gcs_silent_since(const struct mob_gcs *gcs);
/* Why the link was refused, by this end or the member, and the same in words for the user (may be NULL;
 * borrowed until the next step). MOB_OK: it was not, or has opened since. The client goes on trying, twice a
 * second. */
enum mob_status mob_gcs_refusal(const struct mob_gcs *gcs, const char **why_out);

/* ---- shards ---- */

uint32_t mob_gcs_shard_count(const struct mob_gcs *gcs); /* at least 1 */
uint32_t mob_gcs_shards_in(const char *socket_path); /* what a client of these will have */
/* The client of one shard, to ask just that one; it is `gcs` itself when there is one. Lives as long as
 * `gcs`, which steps and destroys it; client_sync.h's calls may wait on it. */
struct mob_gcs *mob_gcs_shard(struct mob_gcs *gcs, uint32_t shard);
uint32_t mob_gcs_key_shard(
    const struct mob_gcs *gcs, enum mob_gcs_table table, const void *key, uint32_t key_length);
uint32_t mob_gcs_home_shard(const struct mob_gcs *gcs, uint64_t incarnation);
/* Commit positions of several shards in one number, as group_blocks and unfinished give them in rows and
 * pages: order and distance are those of commit within a shard. Position 0 is before all of them. */
#define MOB_GCS_POSITION_SHARD_SHIFT 58
static inline uint64_t mob_gcs_shard_position(uint32_t shards, uint32_t shard, uint64_t position)
{
    return shards < 2 ? position : position | (uint64_t)(shard + 1) << MOB_GCS_POSITION_SHARD_SHIFT;
}
/* Taken apart again: the position that its shard gave, and that shard (0 when there is one). */
static inline uint64_t mob_gcs_position_in_shard(uint64_t position, uint32_t *shard_out)
{
    uint32_t above = (uint32_t)(position >> MOB_GCS_POSITION_SHARD_SHIFT);
    *shard_out = above == 0 ? 0 : above - 1;
    return position & ((UINT64_C(1) << MOB_GCS_POSITION_SHARD_SHIFT) - 1);
}

/* The chain of a client of one shard (mob_gcs_shard), as it last heard of it; epoch 0: it has not, or there
 * is no master, and one member. */
void mob_gcs_chain(const struct mob_gcs *gcs, struct mob_gcs_config *out);
/* Where the member stands, as far as this client knows; of several shards the one that is fullest. */
struct mob_gcs_position {
    uint64_t epoch, committed, durable; /* chain sequence numbers */
    bool pressure; /* soft memory cap passed: reject roots with MOB_GCS_FULL (429) */
    uint64_t memory_bytes, memory_soft_bytes, memory_hard_bytes;
};
void mob_gcs_position(const struct mob_gcs *gcs, struct mob_gcs_position *out);

/* ---- answers ---- */

/* Everything an operation can answer; what does not apply is zero. Borrowed: valid during the callback. */
struct mob_gcs_answer {
    enum mob_status status;
    uint64_t version; /* of the key after a put or delete; on MOB_CONFLICT the present one (0 = absent) */
    uint64_t seq; /* chain position of the write; of a read: all committed up to here is in it */
    uint64_t
        number; /* mob_gcs_node_register: the incarnation; mob_gcs_log_seal: blocks in the log (the cut) */
    const struct mob_gcs_kv *kvs;
    uint32_t kv_count;
    const struct mob_gcs_block_row *blocks;
    uint32_t block_count;
    const struct mob_gcs_incarnation *incarnations;
    uint32_t incarnation_count;
    const struct mob_gcs_stats *stats;
    const struct mob_gcs_flush_group *groups;
    uint32_t group_count;
    uint64_t next; /* pages: hand it to the next call; 0 = this was the last page */
    uint32_t tie; /* goes with `next`, of scans of failures */
};
/* `arg` is the submitter's. */
typedef void mob_gcs_done_fn(void *arg, const struct mob_gcs_answer *answer);

/* ---- node logs (the lineage) ---- */

/* Embed it in your block. The client keeps it, and `bytes`, from append to released(). */
struct mob_gcs_block {
    const void *bytes; /* one block of common/wire/block.h, at most MOB_BLOCK_BYTES_MAX */
    uint32_t length;
    uint32_t queued; /* private: times it is in the socket's queue */
    uint64_t number; /* out: its place in the log, from 0; equals the block header's sequence */
    /* private */
    struct mob_gcs_block *next;
    uint64_t seq;
};
struct mob_gcs_log_events {
    /* Every block below `count` is committed (effects may leave the node). Cumulative, growing. */
    void (*acked)(void *arg, uint64_t count);
    /* This block is durable (or the client is being destroyed): the memory is yours again. In order. */
    void (*released)(void *arg, struct mob_gcs_block *block);
    /* The log is sealed, or was refused: `cut` blocks of it stand and no more will. Last event but
     * released(). */
    void (*sealed)(void *arg, enum mob_status why, uint64_t cut);
    void *arg;
};
/* `incarnation` from mob_gcs_node_register, `first_number` 0 unless a log is carried on. MOB_QUEUE_FULL.
 * Gives (until destroy). */
MOB_MUST_USE enum mob_status mob_gcs_log_open(struct mob_gcs *gcs, uint64_t incarnation,
    uint64_t first_number, const struct mob_gcs_log_events *events, struct mob_gcs_log **log_out);
/* Appends the next block; keeps it. MOB_QUEUE_FULL: keep_bytes_max is used up, wait for released().
 * MOB_SEALED. MOB_TOO_LARGE. The block's header must have cluster, incarnation and sequence right: the member
 * refuses it else. */
MOB_MUST_USE enum mob_status mob_gcs_log_append(struct mob_gcs_log *log, struct mob_gcs_block *block);

/* ---- control operations. All asynchronous; MOB_QUEUE_FULL at MOB_GCS_OPS_MAX, MOB_TOO_LARGE; done may be
 * NULL ---- */

/* A new incarnation of the node `name` (answer.number), live from now on. MOB_EXISTS: without masters, and a
 * process that is not this one has a log of that name open. Of several shards its home is the
 * one of the node's earlier incarnations, so that its logs are in one order, else the one with the fewest
 * nodes. */
MOB_MUST_USE enum mob_status mob_gcs_node_register(
    struct mob_gcs *gcs, const char *name, mob_gcs_done_fn *done, void *arg);
/* The same where the home is decided: `gcs` is a client of that shard alone, which is one of `shards`. */
MOB_MUST_USE enum mob_status mob_gcs_node_register_at(
    struct mob_gcs *gcs, const char *name, uint32_t shard, uint32_t shards, mob_gcs_done_fn *done, void *arg);
/* Ends an incarnation's log: nothing is accepted any more; answer.number = the cut. Sealing twice is MOB_OK
 * too. */
MOB_MUST_USE enum mob_status mob_gcs_log_seal(
    struct mob_gcs *gcs, uint64_t incarnation, mob_gcs_done_fn *done, void *arg);
/* Recovery of a sealed incarnation is complete (each unfinished task of it has a live owner in a later log).
 */
MOB_MUST_USE enum mob_status mob_gcs_log_recovered(
    struct mob_gcs *gcs, uint64_t incarnation, mob_gcs_done_fn *done, void *arg);
/* answer.incarnations: every incarnation with id > after, in the order of their ids (each shard's: oldest
 * first), at most MOB_GCS_ROWS_MAX of a shard; answer.next. */
MOB_MUST_USE enum mob_status mob_gcs_incarnations(
    struct mob_gcs *gcs, uint64_t after, mob_gcs_done_fn *done, void *arg);
/* Drops blocks of a job: all, or (finished_only) those whose groups have no unfinished task and whose newest
 * time is before `before_wall_ns` (INT64_MAX = any). answer.number = blocks dropped. */
MOB_MUST_USE enum mob_status mob_gcs_job_drop(struct mob_gcs *gcs, struct mob_job_id job, bool finished_only,
    int64_t before_wall_ns, mob_gcs_done_fn *done, void *arg);

/* ---- keys and values: functions, actors, jobs, endpoints, names, checkpoints, ... ---- */

#define MOB_GCS_ANY_VERSION UINT64_MAX
struct mob_gcs_put {
    enum mob_gcs_table table;
    const void *key; /* copies */
    uint32_t key_length; /* 1 to MOB_GCS_KEY_MAX */
    const void *value; /* copies */
    uint32_t value_length; /* at most MOB_GCS_VALUE_MAX */
    uint64_t if_version; /* 0 = only when absent, MOB_GCS_ANY_VERSION = always, else only when it is this */
};
/* Compare and set. Versions are chain positions, so they only grow, over deletion too. MOB_CONFLICT says the
 * present version. */
MOB_MUST_USE enum mob_status mob_gcs_put(
    struct mob_gcs *gcs, const struct mob_gcs_put *put, mob_gcs_done_fn *done, void *arg);
/* Same conditions; value is ignored. MOB_NOT_FOUND when absent and if_version is MOB_GCS_ANY_VERSION. */
MOB_MUST_USE enum mob_status mob_gcs_delete(
    struct mob_gcs *gcs, const struct mob_gcs_put *del, mob_gcs_done_fn *done, void *arg);
/* answer.kvs[0], or MOB_NOT_FOUND. */
MOB_MUST_USE enum mob_status mob_gcs_get(struct mob_gcs *gcs, enum mob_gcs_table table, const void *key,
    uint32_t key_length, mob_gcs_done_fn *done, void *arg);
struct mob_gcs_list {
    enum mob_gcs_table table;
    const void *prefix; /* copies; may be empty */
    uint32_t prefix_length;
    const void *after; /* the last key of the page before, or empty; copies */
    uint32_t after_length;
    uint32_t limit; /* 0 = MOB_GCS_ROWS_MAX; of several shards there may be one more for each of them */
    bool keys_only; /* values stay away, but of a member of an earlier version */
};
/* Keys in byte order; answer.next is nonzero when there are more: list again after the last key. */
MOB_MUST_USE enum mob_status mob_gcs_list(
    struct mob_gcs *gcs, const struct mob_gcs_list *list, mob_gcs_done_fn *done, void *arg);

/* ---- reading lineage. Rows are whole blocks; the caller decodes. A page ends at MOB_GCS_ROWS_MAX rows or 1
 * MiB ---- */

/* Blocks that hold something of a group (mob_zone_group), oldest first; `position` 0, then answer.next. What
 * was flushed comes from PostgreSQL: MOB_UNAVAILABLE when that does not answer. */
MOB_MUST_USE enum mob_status mob_gcs_group_blocks(struct mob_gcs *gcs, struct mob_stream stream,
    uint32_t group, uint64_t position, mob_gcs_done_fn *done, void *arg);
/* The same, with at most so many blocks in a page. */
MOB_MUST_USE enum mob_status mob_gcs_group_page(struct mob_gcs *gcs, struct mob_stream stream, uint32_t group,
    uint64_t position, uint32_t limit, mob_gcs_done_fn *done, void *arg);
/* The same of several groups, each block once: a question for all of them. At most MOB_GCS_GROUPS_MAX; a page
 * may give blocks of some before it has any of others. MOB_INVALID: the member, or its flusher, is of an
 * earlier version. */
MOB_MUST_USE enum mob_status mob_gcs_groups_blocks(struct mob_gcs *gcs,
    const struct mob_gcs_group_key *groups, uint32_t count, uint64_t position, mob_gcs_done_fn *done,
    void *arg);
/* Only those that have not been flushed: enough for whoever finds all that he looks for in them. */
MOB_MUST_USE enum mob_status mob_gcs_group_here(struct mob_gcs *gcs, struct mob_stream stream, uint32_t group,
    uint64_t position, mob_gcs_done_fn *done, void *arg);
struct mob_gcs_scan {
    uint32_t shard; /* whose blocks: one shard's, below mob_gcs_shard_count(); positions are that shard's */
    struct mob_job_id job; /* zero = any */
    struct mob_function_id function; /* zero = any; may also give blocks without it, never misses one */
    int64_t from_wall_ns, to_wall_ns; /* blocks whose times meet [from, to); 0, 0 = any */
    /* Only blocks with a failed completion, whatever function it is of. What was flushed comes page by page
     * by the time of the failure, only its tasks' own entries and those of `function`; a page may give again
     * what came before it was flushed. */
    bool failed;
    bool newest_first;
    /* In commit order in what was flushed too (oldest first, with `job` only; position: a commit position or
     * answer.next; answer.tie = 1: between the position and the first row, or the end, something is gone:
     * with its day in PostgreSQL, or dropped by a member before it was flushed). Blocks that were flushed
     * have their entries in the places that they had. */
    bool history;
    uint32_t limit; /* rows; 0 = MOB_GCS_ROWS_MAX */
    uint64_t position; /* 0 = from the (newest or oldest) end; then answer.next */
    uint32_t tie; /* then answer.tie */
    /* Going on inside of a block that may have been flushed since: of the block at cut_seq only the first
     * cut_entries are given when it is; a block that was not is given whole. 0 = no such block. */
    uint64_t cut_seq;
    uint32_t cut_entries;
};
MOB_MUST_USE enum mob_status mob_gcs_scan(
    struct mob_gcs *gcs, const struct mob_gcs_scan *scan, mob_gcs_done_fn *done, void *arg);
/* Recovery: all blocks, of whatever incarnation, of every group that has a block of `incarnation` (0 = of
 * any) and more specs than final completions. Oldest first, each once over all pages. May give groups that
 * are complete, never misses one, as long as a task's spec is logged at least as often as its final
 * completion. Behind the blocks come pages of answer.groups: groups that flushed blocks leave unfinished,
 * whatever their incarnation; the tasks are found with mob_gcs_group_blocks. */
MOB_MUST_USE enum mob_status mob_gcs_unfinished(
    struct mob_gcs *gcs, uint64_t incarnation, uint64_t position, mob_gcs_done_fn *done, void *arg);
/* One incarnation's blocks from `number` on. answer.next = the number to go on with, 0 at the end. */
MOB_MUST_USE enum mob_status mob_gcs_log_read(
    struct mob_gcs *gcs, uint64_t incarnation, uint64_t number, mob_gcs_done_fn *done, void *arg);
/* answer.stats; of one shard (MOB_INVALID with several: mob_gcs_shard). */
MOB_MUST_USE enum mob_status mob_gcs_stats(struct mob_gcs *gcs, mob_gcs_done_fn *done, void *arg);

/* ---- flushing (gcs/flush): with the client of one shard, MOB_INVALID else ---- */

/* All blocks with seq <= upto are in PostgreSQL, and go from the members; `from`: up to where that held
 * before, as known here. `groups`: what the blocks in between leave unfinished (copies; at most
 * MOB_GCS_FLUSH_GROUPS_MAX). answer.number: up to where they are gone now; not `upto` when `from` was not
 * right, and then nothing changed. */
struct mob_gcs_flush {
    uint64_t from, upto;
    const struct mob_gcs_flush_group *groups;
    uint32_t group_count;
};
MOB_MUST_USE enum mob_status mob_gcs_flush(
    struct mob_gcs *gcs, const struct mob_gcs_flush *flush, mob_gcs_done_fn *done, void *arg);
/* This client answers reads of what was flushed, until it is destroyed: `query` comes for each, over
 * reconnections; its tag names it. One that is not answered is asked elsewhere, or given up. */
typedef void mob_gcs_cold_fn(void *arg, const struct mob_gcs_cold_get *query,
    const struct mob_gcs_group_key *groups /* of MOB_GCS_Q_GROUPS; borrowed */, uint32_t group_count);
void mob_gcs_cold_serve(struct mob_gcs *gcs, mob_gcs_cold_fn *query, void *arg);
/* For its figures: blocks up to here are in PostgreSQL, and what is there. Told to the member now, and to
 * each one that reads are asked of later. Copies. */
void mob_gcs_cold_watermark(struct mob_gcs *gcs, uint64_t watermark, const struct mob_gcs_database *figures);
struct mob_gcs_cold_answer {
    uint64_t tag; /* query->get.tag */
    enum mob_status status;
    const struct mob_gcs_block_row *blocks; /* copied */
    uint32_t block_count; /* at most MOB_GCS_ROWS_MAX; together at most 3 MiB */
    uint64_t next; /* a cold position, or 0 */
    uint32_t tie; /* goes with it */
};
/* MOB_CLOSED: the link went down since; nobody waits for it. */
MOB_MUST_USE enum mob_status mob_gcs_cold_answer(
    struct mob_gcs *gcs, const struct mob_gcs_cold_answer *answer);

/* ---- subscription: each block once, in commit order, over reconnections. Of one shard: MOB_INVALID
 * with several (mob_gcs_shard) ---- */

struct mob_gcs_sub_events {
    /* Borrowed during the call. row->seq is the position to resume after. */
    void (*block)(void *arg, const struct mob_gcs_block_row *row);
    /* What is between `after` and `next` (exclusive) cannot be given (dropped, or lost with durability=no):
     * read the present state again. The stream goes on with next. */
    void (*resync)(void *arg, uint64_t after, uint64_t next);
    void *arg;
};
/* From the first block behind `after_seq`; MOB_GCS_NEWEST = only new ones. MOB_QUEUE_FULL. Gives (close). */
#define MOB_GCS_NEWEST UINT64_MAX
MOB_MUST_USE enum mob_status mob_gcs_subscribe(struct mob_gcs *gcs, uint64_t after_seq,
    const struct mob_gcs_sub_events *events, struct mob_gcs_sub **sub_out);
/* No callback of it runs after this. May be called from one. */
void mob_gcs_unsubscribe(struct mob_gcs_sub *sub);

#endif
