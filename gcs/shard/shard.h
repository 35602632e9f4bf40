/* One member of a shard's chain as a process: sockets, the chain's state machine, Redis, index, subscribers.
 *
 * Without masters it is the whole chain. With them it starts idle, says so, and does what configurations tell
 * it; it returns when it is no member any more, and is to be started again, as another one.
 *
 * mobula-gcs is mob_shard_run() with flags. One loop on the calling thread; a second thread syncs Redis'
 * files. It listens on a unix socket of mode 0600. Memory is bounded: that of Redis and of this process,
 * buffers of links with it, by the soft cap (answers carry pressure) and the hard cap (writes get
 * MOB_GCS_FULL); of it, what was received and is not durable, by `hold_bytes`.
 */
#ifndef MOB_GCS_SHARD_SHARD_H
#define MOB_GCS_SHARD_SHARD_H

#include <sched.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/base/status.h"
#include "common/wire/gcs_msg.h"

#define MOB_SHARD_CONNECTIONS_MAX 1024u
#define MOB_SHARD_MASTERS_MAX 3u
#define MOB_SHARD_SOFT_BYTES_DEFAULT (768ull << 20)
#define MOB_SHARD_HARD_BYTES_DEFAULT (1024ull << 20)
#define MOB_SHARD_HOLD_BYTES_DEFAULT \
    (192ull << 20) /* received and not yet durable: 1.5 s of 20,000 blocks of 6 KiB */

/* A member of a chain with masters. */
struct mob_shard_chain {
    const char *link; /* where other members connect */
    const char *link_told, *client_told; /* what they, and clients, are told instead; NULL: the same */
    const char *masters[MOB_SHARD_MASTERS_MAX];
    uint32_t master_count;
    int64_t lease_ns, suspicion_ns; /* the masters' */
};
struct mob_shard_options {
    const struct mob_shard_chain *chain; /* borrows; NULL: the only member, without a master */
    const char *socket_path;
    bool forwarded; /* what connects there may be no client, but what forwards it (--socket-advertised) */
    const char *redis_path;
    const char *redis_user; /* NULL with no password */
    const char *redis_password; /* NULL: no AUTH */
    const char *aof_directory; /* Redis' appenddirname, absolute */
    struct mob_cluster_id cluster; /* zero: blocks of any are taken */
    uint8_t secret[32]; /* the cluster's: every link opens with a proof of it */
    uint32_t shard;
    enum mob_gcs_durability durability;
    uint64_t soft_bytes, hard_bytes, hold_bytes; /* 0 = default */
    cpu_set_t cpus; /* that the loop runs on, and no other thread of it; empty: the kernel chooses */
    uint64_t rewrite_bytes; /* the append-only file is rewritten above this and when it is half garbage; 0 =
                               64 MiB */
    int64_t collect_ns; /* a restarted member waits at least this for unknown clients; 0 = 500 ms */
    int64_t expire_ns; /* a client of keys and values that is gone for so long is forgotten; 0 = 60 s */
    int64_t cold_wait_ns; /* a read of flushed blocks waits so long for who reads them; 0 = 10 s */
    bool start_without_all; /* a store that lacks values that it had, or all of them, is started from all the
                               same */
    const int *stop_fd; /* borrows: readable = sync and return; NULL = for ever */
};
/* Blocks until stopped. MOB_OK, or why it cannot go on (logged). */
MOB_MUST_USE enum mob_status mob_shard_run(const struct mob_shard_options *options);

#endif
