/* Clients of a chain under faults, and what must hold whatever happens to it: clients put unique values and
 * read them, one request in flight each, and the history of each key must be linearizable; a node's log of
 * blocks is appended in a window, and a stream of it gives each block once, in order, as it was. What was
 * acknowledged is looked for again at the end, by a client that knows nothing.
 *
 *   gcs_load_init(&load, &(struct gcs_load_options){.sockets = box.clients, .seed = 7, .tend = tend, .arg =
 * &box}); gcs_load_steps(&load, 50, patience); ... a fault ... gcs_load_steps(&load, 50, patience);
 *   gcs_load_finish(&load, patience);               // settles, reads back, checks
 *   if (load.wrong[0] != 0) ...                     // what was wrong, the first thing
 *   gcs_load_fini(&load);
 *
 * After the first wrong thing all calls return at once. One thread.
 */
#ifndef MOB_TESTS_SUPPORT_GCS_LOAD_H
#define MOB_TESTS_SUPPORT_GCS_LOAD_H

#include "gcs/client/client_sync.h"
#include "tests/support/gcs_history.h"

#define GCS_LOAD_CLIENTS_MAX 16u
#define GCS_LOAD_KEYS 4u /* in use at a time */
#define GCS_LOAD_KEY_OPS 200u /* then another key takes its place */
#define GCS_LOAD_BLOCKS_MAX 200000u
#define GCS_LOAD_TASKS 8u /* specs in each block */

struct gcs_load;
struct gcs_load_options {
    const char *sockets; /* keeps */
    uint64_t seed;
    uint32_t clients; /* 0: 6 */
    uint32_t window; /* of blocks; 0: no log */
    bool flushed; /* a flusher takes blocks away: the follower may miss some, the log's first ones may be gone
                   */
    int64_t think_ns_max; /* between an answer and the next request; 0: 2 ms */
    void (*tend)(void *arg); /* now and then: starts what has ended; may be NULL */
    void *arg;
};
struct gcs_load_client {
    struct gcs_load *load;
    struct mob_gcs *gcs;
    uint32_t number;
    enum mob_status link; /* as it was told last; MOB_AGAIN: not yet */
    bool busy;
    size_t op;
    int64_t next_ns;
    uint64_t values;
};
struct gcs_load {
    struct gcs_load_options options;
    char wrong[256];
    uint64_t random;
    struct gcs_history history;
    struct gcs_load_client clients[GCS_LOAD_CLIENTS_MAX];
    uint32_t client_count, next_number;
    uint32_t keys[GCS_LOAD_KEYS], key_ops[GCS_LOAD_KEYS], next_key;
    uint64_t answered;
    int64_t progress_ns, longest_ns; /* between answers */
    int64_t tended_ns;
    struct mob_gcs *writer, *follower;
    struct mob_gcs_log *log;
    uint64_t incarnation, appended, acked, released, followed;
    bool resynced; /* a hole in the stream was named, and nothing came since */
    uint64_t *hashes; /* of each block */
    struct gcs_history_verdict verdict;
};

void gcs_load_init(struct gcs_load *l, const struct gcs_load_options *options);
uint64_t gcs_load_random(struct gcs_load *l);
/* Runs it for so long. */
void gcs_load_for(struct gcs_load *l, int64_t ns);
/* Until so many more answers, and as many blocks acknowledged if there is a log; else it is wrong. */
void gcs_load_steps(struct gcs_load *l, uint64_t steps, int64_t patience_ns);
/* A client dies with its request under way, and another takes its place. */
void gcs_load_crash_client(struct gcs_load *l, uint32_t i);
/* Nothing more is asked; everything is answered and followed; what was acknowledged is read again by a new
 * client and the histories are checked. */
void gcs_load_finish(struct gcs_load *l, int64_t patience_ns);
void gcs_load_fini(struct gcs_load *l);

#endif
