/* One client of a chain that puts 25-byte keys with 512-byte values, as in the paper's Figure 10a, and the
 * rows that are measured with it. One thread. */
#ifndef MOB_BENCH_GCS_PUTTER_H
#define MOB_BENCH_GCS_PUTTER_H

#include "bench/harness.h"
#include "common/base/clock.h"
#include "tests/support/chain_box.h"

#define GCS_PUTTER_VALUE_BYTES 512u
#define GCS_CONNECTIONS 60u /* of gcs_ops and gcs_scale, for each shard of the simulated ones */
#define GCS_START_NS \
    (120 * 1000000000ll) /* a chain has its length again, with 512 MiB, on a shared machine */

struct gcs_chain {
    uint32_t members;
    uint32_t shard; /* of several */
    struct fault_proxy *proxy; /* all links go through it; NULL: none */
    bool normal; /* lease 90 ms, suspicion 100 ms, as without real-time priority; else 10 and 12 */
    const char *postgres; /* of chain_table.h; NULL: its masters have a file */
};
/* Waits until it serves. */
bool gcs_chain_open(struct chain_box *box, const struct gcs_chain *chain);
/* Blocks of a node's log until so much is resident in each member's Redis. */
void gcs_chain_fill(struct chain_box *box, uint64_t bytes);

struct gcs_putter {
    struct mob_gcs *gcs;
    bool answered, failed;
    uint64_t version; /* that the last answered put gave its key */
    int64_t begun_ns; /* of one of many putters: its put under way */
};
/* Begins one and waits for its answer. */
void gcs_putter_put(struct gcs_putter *p, uint64_t number);
/* The same of key `number`, which fails unless the key still has the version that its last put was answered
 * with (0: there is none): so each put shows that the one before it was neither lost nor done twice. */
void gcs_putter_put_next(struct gcs_putter *p, uint64_t number, uint64_t if_version);

/* Events of a generator's epoll set, `GCS_CONNECTIONS` at most; looks for up to 0.1 ms before it sleeps, as a
 * client does that waits (mob_gcs_run_until): whoever wakes a thread on another core pays for it. */
struct epoll_event;
int gcs_generator_wait(int epoll_fd, struct mob_yielder *yielder, struct epoll_event *events_out);

/* GCS_CONNECTIONS clients with one put each in flight, from one thread. */
struct gcs_putters;
struct gcs_putters_options {
    const char *clients; /* socket_path of mob_gcs_options */
    uint32_t shard; /* of the first chain of these */
    uint32_t generator; /* of several that put at the same time: which one. Each begins with another key, so
                         * that none finds in the cache what the one before it has just put. */
};
/* All are connected, known to the chains and have put once; NULL: not in time. */
struct gcs_putters *gcs_putters_open(const struct gcs_putters_options *options);
void gcs_putters_begin(struct gcs_putters *all); /* the first put of each */
/* Steps those whose sockets have something; whoever has its answer puts again. Returns how many had. */
uint64_t gcs_putters_turn(struct gcs_putters *all);
/* Begins, and goes on for so long. Answered puts a second, and how many there were. */
double gcs_putters_run(struct gcs_putters *all, double seconds, uint64_t *puts_out);
/* From now on what each put takes, in microseconds, is added to `us` (keeps; `*count` of `max`); NULL: not.
 */
void gcs_putters_note(struct gcs_putters *all, double *us, int *count, int max);
bool gcs_putters_close(struct gcs_putters *all); /* false: a put had failed */

/* CPU time in nanoseconds, user and system, of this thread and of each process of a chain of two. */
struct gcs_chain_cpu {
    double client, head, head_store, tail, tail_store;
};
/* Of runs, added up: only while all clients put, not of their connecting and leaving. */
struct gcs_putters_sum {
    struct gcs_chain_cpu cpu;
    uint64_t puts;
    bool failed;
};

/* Puts a second of such clients. `box`: the chain whose processes are measured. Adds to `*sum`. */
double gcs_putters_rate(
    struct chain_box *box, const char *clients, double seconds, struct gcs_putters_sum *sum);
/* What one put took. */
struct gcs_chain_cpu gcs_putters_each(const struct gcs_putters_sum *sum);

/* gcs_failover.c, gcs_join.c, gcs_overhead.c, gcs_scale.c, gcs_scale_real.c */
void gcs_measure_failover(struct bench *b);
void gcs_measure_join(struct bench *b);
void gcs_measure_overhead(struct bench *b);
void gcs_measure_scale(struct bench *b);
void gcs_measure_scale_real(struct bench *b);

#endif
