/* One member as a process with its Redis, and the rest of its chain around it in the hands of a test: the
 * master and the neighbours. Neighbours are the protocol's own machine (gcs/chain) with a store that answers
 * at once, and speak to the process over proved links, so what they say is what members say; but the test
 * decides when it arrives: each message to the process passes a filter, which may hold it or lose it.
 *
 *   stand_open(&stand, program, neighbours);          // the process has reported; nobody is in a
 * configuration stand_configure(&stand, ids, count);              // the next epoch; told to all in it
 *   stand.filter = ...; stand_put(&stand, &stand.neighbour[0], "key", "value");
 *   stand_step(&stand) until what is waited for is there
 *
 * One thread. Fails the test (abort) when the process ends or what is asked for is impossible.
 */
#ifndef MOB_TESTS_SUPPORT_MEMBER_STAND_H
#define MOB_TESTS_SUPPORT_MEMBER_STAND_H

#include "gcs/chain/chain.h"
#include "gcs/link/link.h"
#include "tests/support/gcs_box.h"

#define STAND_NEIGHBOURS_MAX 2u
#define STAND_LINKS_MAX 8u
#define STAND_HELD_MAX 64u
#define STAND_PUTS_MAX 64u

struct stand;
struct stand_held {
    struct mob_gcs_link_msg message; /* its body is of the stand's puts, or empty */
};
struct stand_neighbour {
    uint64_t id;
    struct mob_link_self self;
    char path[96];
    bool deaf; /* takes no link yet */
    struct mob_listener listener;
    struct mob_link *heard[STAND_LINKS_MAX]; /* that the process made */
    struct mob_link *out;
    int64_t dial_ns;
    struct mob_state *state;
    struct mob_chain *chain;
    uint64_t client, last; /* of the puts made there; the newest request */
    uint64_t syncs, configs; /* messages of these types that came */
};
struct stand_put {
    struct mob_chain_put put;
    char body[128];
    bool answered; /* as committed */
};
struct stand {
    struct gcs_box box;
    struct mob_chunk_pool pool;
    struct stand_neighbour neighbour[STAND_NEIGHBOURS_MAX];
    uint32_t neighbours;
    uint64_t member; /* the process */
    struct mob_gcs_report report; /* its newest */
    char master_path[96];
    struct mob_link_self master_self;
    struct mob_listener master_listener;
    struct mob_link *master;
    struct mob_gcs_book book;
    uint64_t told_epoch;
    bool enters; /* it is to join */
    /* A message from a neighbour to the process: true = it goes; else it is lost, unless stand_hold keeps it.
     */
    bool (*filter)(struct stand *s, struct stand_neighbour *from, const struct mob_gcs_link_msg *m);
    /* A message from the process to a neighbour, before its machine gets it. */
    void (*hears)(struct stand *s, struct stand_neighbour *at, const struct mob_gcs_link_msg *m);
    struct stand_held held[STAND_HELD_MAX];
    uint32_t held_count;
    struct stand_put put[STAND_PUTS_MAX];
    uint32_t puts;
    uint64_t opened; /* clients */
};

/* `program`: the path of a mobula-gcs; NULL: that of MOBULA_BIN_DIR. */
void stand_open(struct stand *s, const char *program, uint32_t neighbours);
void stand_close(struct stand *s);
/* One turn of everything: links, heartbeats and what the master answers, ticks. At most a few milliseconds.
 */
void stand_step(struct stand *s);
/* Epoch + 1; those of the neighbours that are in `members`, and the process if it is, are told. */
void stand_configure(struct stand *s, const uint64_t *members, uint32_t count);
/* An entry that makes a client; who asked for it is not waited for. */
void stand_open_client(struct stand *s, struct stand_neighbour *head);
/* At the head; makes a client first, if there is none. */
void stand_put(struct stand *s, struct stand_neighbour *head, const char *key, const char *value);
/* All puts are answered as committed: by the commit, or to a client that asks again, as one whose answer was
 * lost does. */
bool stand_answered(struct stand *s, struct stand_neighbour *head);
void stand_hold(struct stand *s, const struct mob_gcs_link_msg *m);
/* What was held goes to the process, in that order, as soon as there is a link. */
void stand_release(struct stand *s, struct stand_neighbour *from);
/* A message that is not its machine's; waits for a link. */
void stand_send(struct stand *s, struct stand_neighbour *from, const struct mob_gcs_link_msg *m);
bool stand_is(const struct stand *s, uint64_t epoch, enum mob_chain_state state);

#endif
