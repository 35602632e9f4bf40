/* The threads of the flusher that read flushed lineage: each with a connection of its own.
 *
 * For the flusher's loop: it gives questions, and sends the answers when the eventfd says that there are
 * some. A thread waits until its answer was sent, because the rows lie in its page.
 */
#ifndef MOB_GCS_FLUSH_COLD_POOL_H
#define MOB_GCS_FLUSH_COLD_POOL_H

#include "gcs/flush/cold.h"

#define COLD_THREADS 2
#define COLD_QUEUE_MAX 4096u

struct cold_pool_options {
    const char *directory; /* of the database's socket; keeps */
    uint32_t shard;
    int event_fd; /* written when there is an answer; keeps */
};
struct cold_pool;
MOB_MUST_USE enum mob_status cold_pool_start(
    const struct cold_pool_options *options, struct cold_pool **pool_out);
/* Copies; the groups are those of MOB_GCS_Q_GROUPS. MOB_QUEUE_FULL, MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status cold_pool_ask(struct cold_pool *p, const struct mob_gcs_cold_get *query,
    const struct mob_gcs_group_key *groups, uint32_t group_count);
/* `send` for each answer that is there; it is the thread's again afterwards. */
void cold_pool_answers(
    struct cold_pool *p, void (*send)(void *arg, const struct mob_gcs_cold_answer *answer), void *arg);
/* False when a thread is still busy after `wait_ns`: then the pool lives until the process ends. */
bool cold_pool_stop(struct cold_pool *p, int64_t wait_ns);

#endif
