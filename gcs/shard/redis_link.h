/* The member's connection to its Redis: batches of commands, written with writev where their bytes are,
 * answered in order. hiredis connects, authenticates (blocking, short) and parses; writing is our own,
 * because hiredis copies every argument into one growing string. One owner, no locks; callbacks run in
 * mob_redis_io.
 *
 *   batch = mob_redis_batch_create();
 *   mob_redis_command(batch, 3);
 *   mob_redis_arg(batch, "SET", 3);
 *   mob_redis_arg(batch, key, n);
 *   mob_redis_arg_ref(batch, head, h, bytes, length);
 *   batch->done = ...;
 *   mob_redis_submit(link, batch);
 */
#ifndef MOB_GCS_SHARD_REDIS_LINK_H
#define MOB_GCS_SHARD_REDIS_LINK_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct mob_redis_piece { /* of a batch's output */
    const uint8_t *ref; /* NULL: in the batch's text */
    size_t offset, length;
};
struct mob_redis_batch {
    /* Every reply (borrowed), then done(). MOB_IO: a command was answered by an error (logged);
     * MOB_UNAVAILABLE: the connection broke before all were answered. */
    void (*reply)(void *arg, const redisReply *reply, uint32_t index);
    void (*done)(void *arg, struct mob_redis_batch *batch, enum mob_status status);
    void *arg;
    uint64_t seq, number; /* the owner's */
    bool keep; /* reads: sent again after a reconnection instead of MOB_UNAVAILABLE */
    /* private */
    uint8_t *text;
    void *owned;
    size_t text_length, text_capacity;
    struct mob_redis_piece *pieces;
    uint32_t piece_count, piece_capacity;
    uint32_t commands, answered;
    size_t bytes; /* of all pieces */
    bool failed;
    struct mob_redis_batch *next;
};

/* Empty; ends the process when out of memory. A link destroys those that it took, behind done(). */
struct mob_redis_batch *mob_redis_batch_create(void);
void mob_redis_batch_destroy(struct mob_redis_batch *batch); /* one that no link took; NULL is fine */
/* Opens a command of `args` arguments; each must follow. */
void mob_redis_command(struct mob_redis_batch *batch, uint32_t args);
void mob_redis_arg(struct mob_redis_batch *batch, const void *bytes, size_t length); /* copies */
/* One argument: `head` (copied) then `ref` (borrowed until done). */
void mob_redis_arg_ref(
    struct mob_redis_batch *batch, const void *head, size_t head_length, const void *ref, size_t ref_length);
/* The same of bytes from malloc(3), which go with the batch; one such argument a batch. */
void mob_redis_arg_own(struct mob_redis_batch *batch, void *bytes, size_t length);
/* A batch whose first command is an MSET of a number of pairs that is known only at its end, perhaps of none:
 * call first, set later. `multi`: MULTI stands before it. */
void mob_redis_mset_begin(struct mob_redis_batch *batch);
void mob_redis_mset_end(struct mob_redis_batch *batch, uint32_t pairs, bool multi);

struct mob_redis_options {
    const char *socket_path, *user, *password; /* password NULL: no AUTH */
};
struct mob_redis_link;
/* Blocking, at most about a second: connects, authenticates, waits while Redis loads. MOB_UNAVAILABLE,
 * MOB_DENIED. */
MOB_MUST_USE enum mob_status mob_redis_connect(
    const struct mob_redis_options *options, redisContext **context_out);
/* Takes a connected context that has no reply outstanding. NULL when out of memory. */
struct mob_redis_link *mob_redis_link_create(redisContext *context);
/* Calls done(MOB_UNAVAILABLE) for every batch but kept ones, which are returned as a list to submit again. */
struct mob_redis_batch *mob_redis_link_destroy(struct mob_redis_link *link);
/* The first unanswered batch; the others follow by `next`. */
struct mob_redis_batch *mob_redis_link_batches(const struct mob_redis_link *link);
int mob_redis_fd(const struct mob_redis_link *link); /* for the owner's epoll; the link closes it */
/* Takes. Sent in the next mob_redis_io. */
void mob_redis_submit(struct mob_redis_link *link, struct mob_redis_batch *batch);
/* Something was submitted since the last mob_redis_io. */
bool mob_redis_unsent(const struct mob_redis_link *link);
/* Writes and reads what it can; callbacks. MOB_UNAVAILABLE: destroy the link and connect again.
 * `*want_write_out`. */
MOB_MUST_USE enum mob_status mob_redis_io(struct mob_redis_link *link, bool readable, bool *want_write_out);

#endif
