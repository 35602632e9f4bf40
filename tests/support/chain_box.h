/* A chain of members with masters, each process its own, to be killed and stopped at will: for tests and
 * benches. A box restarts members that ended, as the supervisor of a cluster does, when chain_box_tend is
 * called. One thread.
 */
#ifndef MOB_TESTS_SUPPORT_CHAIN_BOX_H
#define MOB_TESTS_SUPPORT_CHAIN_BOX_H

#include "tests/support/fault_proxy.h"
#include "tests/support/gcs_box.h"

#define CHAIN_BOX_MEMBERS_MAX 4u
#define CHAIN_BOX_MASTERS_MAX 2u

#define CHAIN_BOX_CLUSTER "00000000000000000000000000000000" /* of gcs_block_make */

struct chain_box {
    char directory[64];
    char table[96], secret[96];
    char masters_flag[256];
    uint32_t members, masters, replicas;
    int lease_ms, suspicion_ms;
    int silence_ms; /* of nodes */
    bool start_without_all; /* of members that start from now on */
    const char *soft_bytes, *hard_bytes; /* the same; NULL: as it is without them */
    uint32_t shard; /* set after init: the number of its members and masters */
    struct gcs_box member[CHAIN_BOX_MEMBERS_MAX];
    char link[CHAIN_BOX_MEMBERS_MAX][96];
    pid_t master[CHAIN_BOX_MASTERS_MAX];
    char master_path[CHAIN_BOX_MASTERS_MAX][96];
    char clients[512]; /* --gcs-socket of clients */
    const char *postgres; /* folder of its socket; NULL: a file */
    const char *master_failpoints[CHAIN_BOX_MASTERS_MAX]; /* of the next start; NULL = none */
    int held[CHAIN_BOX_MEMBERS_MAX +
        CHAIN_BOX_MASTERS_MAX]; /* sockets that keep ports (chain_box_over_tcp) */
    uint32_t held_count; /* 0: links are unix sockets */
    struct fault_proxy *proxy; /* every link goes through it (chain_box_proxied) */
    char masters_proxied[256];
    char link_told[CHAIN_BOX_MEMBERS_MAX][104], client_told[CHAIN_BOX_MEMBERS_MAX][104];
};

/* Directories and configurations; starts nothing. `members` processes for chains of `replicas`. */
void chain_box_init(struct chain_box *box, uint32_t members, uint32_t replicas, const char *durability);
/* After init, before chain_box_proxied and any start: links between members, and to masters, have ports of
 * 127.0.0.1 that nobody else gets meanwhile. Clients speak over unix sockets only. */
void chain_box_over_tcp(struct chain_box *box);
/* After init, before any start: all links, and those of clients, go through `proxy` (keeps). */
void chain_box_proxied(struct chain_box *box, struct fault_proxy *proxy);
void chain_box_start_master(struct chain_box *box, uint32_t i);
void chain_box_start_member(
    struct chain_box *box, uint32_t i); /* Redis, if it does not run, and the member */
void chain_box_start(struct chain_box *box);
/* Starts what has ended. */
void chain_box_tend(struct chain_box *box);
struct mob_gcs *chain_box_client(struct chain_box *box);
/* The member (of 0 to members - 1) at a place of the newest configuration that its log tells; -1: none. Waits
 * until the chain has `length` members that serve. False: not in time. */
bool chain_box_wait_length(struct chain_box *box, uint32_t length, int64_t deadline_ns);
/* Which slot is the head (or the tail) as the master's log says last. */
int chain_box_place(struct chain_box *box, bool tail);
/* A configuration as a master's log tells it. Slots are -1 where no process is known to be that member. */
struct chain_box_config {
    uint64_t epoch; /* 0: there is none */
    uint32_t members;
    uint64_t head_id, tail_id;
    int head, tail;
    int64_t wall_ns; /* when it was made */
};
/* The newest of all masters' logs; `epoch` 0 = that, else exactly this one. */
struct chain_box_config chain_box_config(struct chain_box *box, uint64_t epoch);
void chain_box_fini(struct chain_box *box);

#endif
